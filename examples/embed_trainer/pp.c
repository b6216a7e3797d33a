/* examples/embed_trainer/pp.c - tp.c with the second half of the model on other ranks than the first: a pipeline.
 *
 *     kith run -n 4 -- embed_pp [TEXT]
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "../example.h"
#include <kith/pipeline.h>

#include <math.h>
#include <string.h>

enum {
    CONTEXT = 8,
    EMBED = 16,
    INPUT = CONTEXT * EMBED,
    HIDDEN = 64,
    BYTES = 256,
    SAMPLES = 32,
    STEPS = 60,
    MICROBATCHES = 4
};

/* [rows][cols], row by row; weights of all matrices lie in one array, gradients in another. */
typedef struct matrix {
    int rows, cols;
    float *weight, *grad;
} matrix;

typedef struct batch batch;

typedef struct trainer {
    kith_group *dp, *tp, *pp;
    kith_pipeline *pipeline;
    batch *slots;
    int number;     /* of the step */
    int first, own; /* of h1, this rank's */
    unsigned char *text;
    long text_nbytes;
    matrix table, in, mid, out;
    float *weights, *grads;
    size_t count; /* of each */
} trainer;

/* What forward leaves for backward. */
struct batch {
    int samples;
    double loss;
    unsigned char bytes[SAMPLES][CONTEXT + 1]; /* the last is what is to be told */
    float x[SAMPLES * INPUT], h1[SAMPLES * HIDDEN], z[SAMPLES * HIDDEN], h2[SAMPLES * HIDDEN], p[SAMPLES * BYTES];
    float dx[SAMPLES * INPUT], dh1[SAMPLES * HIDDEN], dz[SAMPLES * HIDDEN];
};

static unsigned mix(unsigned x)
{
    x = (x ^ x >> 16) * 0x7feb352du;
    x = (x ^ x >> 15) * 0x846ca68bu;
    return x ^ x >> 16;
}

/* y[samples][cols] = x[samples][rows] w */
static void multiply(const float *x, const matrix *w, float *y, int samples)
{
    memset(y, 0, sizeof(float) * (size_t)samples * (size_t)w->cols);
    for (int s = 0; s < samples; s++)
        for (int r = 0; r < w->rows; r++)
            for (int c = 0; c < w->cols; c++)
                y[s * w->cols + c] += x[s * w->rows + r] * w->weight[r * w->cols + c];
}

/* dx = dy w^T; the gradient of w += x^T dy */
static void multiply_backward(const float *x, const matrix *w, const float *dy, float *dx, int samples)
{
    for (int s = 0; s < samples; s++)
        for (int r = 0; r < w->rows; r++) {
            float sum = 0;
            for (int c = 0; c < w->cols; c++) {
                sum += dy[s * w->cols + c] * w->weight[r * w->cols + c];
                w->grad[r * w->cols + c] += x[s * w->rows + r] * dy[s * w->cols + c];
            }
            dx[s * w->rows + r] = sum;
        }
}

static void fill(trainer *t, int step, int first, batch *b)
{
    for (int s = 0; s < b->samples; s++) {
        long at = (long)(mix((unsigned)(step * SAMPLES + first + s)) % (unsigned long)(t->text_nbytes - CONTEXT));
        memcpy(b->bytes[s], t->text + at, CONTEXT + 1);
    }
}

static void forward_first(trainer *t, batch *b)
{
    for (int i = 0; i < b->samples * CONTEXT; i++)
        memcpy(b->x + i * EMBED, t->table.weight + b->bytes[i / CONTEXT][i % CONTEXT] * EMBED, EMBED * sizeof(float));
    multiply(b->x, &t->in, b->h1, b->samples);
    for (int i = 0; i < b->samples * t->in.cols; i++)
        b->h1[i] = tanhf(b->h1[i]);
    multiply(b->h1, &t->mid, b->z, b->samples); /* of this rank's part of h1: a summand */
    must(kith_all_reduce(t->tp, b->z, b->z, (size_t)(b->samples * HIDDEN), KITH_F32, KITH_SUM), "kith_all_reduce");
}

/* Returns the sum of the samples' losses; p becomes the probabilities. */
static double forward_second(trainer *t, batch *b)
{
    double loss = 0;
    for (int i = 0; i < b->samples * HIDDEN; i++)
        b->h2[i] = tanhf(b->z[i]);
    multiply(b->h2, &t->out, b->p, b->samples);
    for (int s = 0; s < b->samples; s++) {
        float *p = b->p + s * BYTES, top = p[0], sum = 0;
        for (int c = 1; c < BYTES; c++)
            top = fmaxf(top, p[c]);
        for (int c = 0; c < BYTES; c++)
            sum += p[c] = expf(p[c] - top);
        for (int c = 0; c < BYTES; c++)
            p[c] /= sum;
        loss -= log(p[b->bytes[s][CONTEXT]]);
    }
    return loss;
}

static void backward_second(trainer *t, batch *b)
{
    for (int s = 0; s < b->samples; s++)
        b->p[s * BYTES + b->bytes[s][CONTEXT]] -= 1;
    for (int i = 0; i < b->samples * BYTES; i++)
        b->p[i] /= SAMPLES; /* of the whole step: what is added up is the mean then */
    multiply_backward(b->h2, &t->out, b->p, b->dz, b->samples);
    for (int i = 0; i < b->samples * HIDDEN; i++)
        b->dz[i] *= 1 - b->h2[i] * b->h2[i];
}

static void backward_first(trainer *t, batch *b)
{
    multiply_backward(b->h1, &t->mid, b->dz, b->dh1, b->samples);
    for (int i = 0; i < b->samples * t->in.cols; i++)
        b->dh1[i] *= 1 - b->h1[i] * b->h1[i];
    multiply_backward(b->x, &t->in, b->dh1, b->dx, b->samples);
    must(kith_all_reduce(t->tp, b->dx, b->dx, (size_t)(b->samples * INPUT), KITH_F32, KITH_SUM), "kith_all_reduce");
    for (int i = 0; i < b->samples * INPUT; i++)
        t->table.grad[b->bytes[i / INPUT][i % INPUT / EMBED] * EMBED + i % EMBED] += b->dx[i];
}

static kith_status load(void *user, const kith_stage_call *call)
{
    trainer *t = user;
    batch *b = &t->slots[call->slot];
    int shares = kith_group_size(t->dp) * MICROBATCHES;
    int share = kith_group_rank(t->dp) * MICROBATCHES + call->microbatch, first = SAMPLES * share / shares;
    b->samples = SAMPLES * (share + 1) / shares - first;
    fill(t, t->number, first, b);
    return KITH_OK;
}

static kith_status forward(void *user, const kith_stage_call *call)
{
    trainer *t = user;
    batch *b = &t->slots[call->slot];
    if (call->is_first)
        forward_first(t, b);
    else {
        b->samples = (int)(call->input->nbytes / sizeof(float) / HIDDEN);
        memcpy(b->z, call->input->data, call->input->nbytes);
    }
    if (call->is_last)
        b->loss = forward_second(t, b);
    else {
        call->output->nbytes = sizeof(float) * (size_t)(b->samples * HIDDEN);
        memcpy(call->output->data, b->z, call->output->nbytes);
    }
    return KITH_OK;
}

static kith_status loss_of(void *user, const kith_stage_call *call, double *loss)
{
    *loss = ((trainer *)user)->slots[call->slot].loss;
    return KITH_OK;
}

static kith_status backward(void *user, const kith_stage_call *call)
{
    trainer *t = user;
    batch *b = &t->slots[call->slot];
    if (call->is_last)
        backward_second(t, b);
    else
        memcpy(b->dz, call->output_grad->data, call->output_grad->nbytes);
    if (call->is_first)
        backward_first(t, b);
    else {
        call->input_grad->nbytes = sizeof(float) * (size_t)(b->samples * HIDDEN);
        memcpy(call->input_grad->data, b->dz, call->input_grad->nbytes);
    }
    return KITH_OK;
}

static kith_status zero_grad(void *user)
{
    memset(((trainer *)user)->grads, 0, ((trainer *)user)->count * sizeof(float));
    return KITH_OK;
}

static kith_status update(void *user)
{
    trainer *t = user;
    for (size_t i = 0; i < t->count; i++)
        t->weights[i] -= 0.5f * t->grads[i];
    return KITH_OK;
}

static void make_pipeline(trainer *t)
{
    kith_schedule_options o = KITH_SCHEDULE_OPTIONS_INIT; /* 1F1B */
    o.ranks = kith_group_size(t->pp), o.microbatches = MICROBATCHES;
    kith_schedule *plan;
    must(kith_schedule_create(&o, &plan), "kith_schedule_create");
    static kith_pipeline_callbacks callbacks = KITH_PIPELINE_CALLBACKS_INIT;
    callbacks.user = t, callbacks.load = load, callbacks.forward = forward, callbacks.loss = loss_of;
    callbacks.backward = backward, callbacks.zero_grad = zero_grad, callbacks.optimizer_step = update;
    kith_grad_bucket bucket = { kith_group_rank(t->pp), t->grads, t->count, KITH_F32 };
    kith_pipeline_options options = KITH_PIPELINE_OPTIONS_INIT;
    options.message_nbytes = sizeof(float) * SAMPLES * HIDDEN;
    options.buckets = &bucket, options.bucket_count = 1, options.dp_group = t->dp;
    options.shares_loss = 1;
    must(kith_pipeline_create(plan, t->pp, &callbacks, &options, &t->pipeline), "kith_pipeline_create");
    t->slots = calloc((size_t)kith_pipeline_slots(t->pipeline, kith_group_rank(t->pp)), sizeof(batch));
    if (t->slots == NULL)
        exit(EXIT_FAILURE);
}

static double step(trainer *t, int number)
{
    double loss = 0, part;
    t->number = number;
    must(kith_pipeline_step(t->pipeline), "kith_pipeline_step");
    for (int m = 0; m < MICROBATCHES; m++, loss += part)
        must(kith_pipeline_loss(t->pipeline, m, &part), "kith_pipeline_loss");
    must(kith_all_reduce_scalar(t->dp, &loss, KITH_SUM), "kith_all_reduce_scalar");
    return loss / SAMPLES;
}

/* A matrix of the trainer's arrays, which grow by it. */
static void add_matrix(trainer *t, matrix *m, int rows, int cols)
{
    m->rows = rows, m->cols = cols;
    m->weight = t->weights + t->count, m->grad = t->grads + t->count;
    t->count += (size_t)rows * (size_t)cols;
}

/* The numbers of the whole matrix, of which this is the part that begins at [row, col]. */
static void start(matrix *m, unsigned number, float size, int row, int col)
{
    for (int r = 0; r < m->rows; r++)
        for (int c = 0; c < m->cols; c++) {
            unsigned place = (unsigned)((row + r) * BYTES + col + c);
            m->weight[r * m->cols + c] = size * ((float)mix(number << 28 | place) / 2147483648.f - 1);
        }
}

static void make_trainer(trainer *t)
{
    size_t room = BYTES * EMBED + INPUT * HIDDEN + HIDDEN * HIDDEN + HIDDEN * BYTES;
    t->weights = calloc(room, sizeof(float));
    t->grads = calloc(room, sizeof(float));
    if (t->weights == NULL || t->grads == NULL)
        exit(EXIT_FAILURE);
    t->first = HIDDEN * kith_group_rank(t->tp) / kith_group_size(t->tp);
    t->own = HIDDEN * (kith_group_rank(t->tp) + 1) / kith_group_size(t->tp) - t->first;
    if (kith_group_rank(t->pp) == 0) {
        add_matrix(t, &t->table, BYTES, EMBED), start(&t->table, 1, 1, 0, 0);
        add_matrix(t, &t->in, INPUT, t->own), start(&t->in, 2, 0.15f, 0, t->first);
        add_matrix(t, &t->mid, t->own, HIDDEN), start(&t->mid, 3, 0.2f, t->first, 0);
    }
    if (kith_group_rank(t->pp) == kith_group_size(t->pp) - 1)
        add_matrix(t, &t->out, HIDDEN, BYTES), start(&t->out, 4, 0.2f, 0, 0);
}

static void read_text(trainer *t, const char *path)
{
    FILE *file = fopen(path, "rb");
    t->text = malloc(1 << 20);
    if (file != NULL && t->text != NULL)
        t->text_nbytes = (long)fread(t->text, 1, 1 << 20, file);
    if (file != NULL)
        fclose(file);
    if (t->text_nbytes > CONTEXT)
        return;
    fprintf(stderr, "%s: cannot be read, or is shorter than %d bytes\n", path, CONTEXT + 1);
    exit(EXIT_FAILURE);
}

int main(int argc, char **argv)
{
    kith_ctx *ctx;
    must(kith_init(NULL, &ctx), "kith_init");
    kith_mesh *mesh;
    kith_mesh_axis axes[] = { { "tp", kith_size(ctx) % 4 == 0 ? 2 : 1 },
                              { "pp", kith_size(ctx) % 2 == 0 ? 2 : 1 },
                              { "dp", 0 } };
    must(kith_mesh_create(kith_world(ctx), axes, 3, NULL, &mesh), "kith_mesh_create");
    trainer t = { .dp = kith_mesh_group(mesh, "dp"), .tp = kith_mesh_group(mesh, "tp") };
    t.pp = kith_mesh_group(mesh, "pp");
    read_text(&t, argc > 1 ? argv[1] : "/usr/share/common-licenses/GPL-3");
    make_trainer(&t);
    make_pipeline(&t);
    double loss = 0;
    for (int number = 0; number < STEPS; number++) {
        loss = step(&t, number);
        if (number % 10 == 0 && kith_rank(ctx) == 0)
            printf("step %d: loss %.5f\n", number, loss);
    }
    if (kith_rank(ctx) == 0)
        printf("step %d: loss %.5f\n", STEPS - 1, loss);
    free(t.weights), free(t.grads), free(t.text), free(t.slots);
    kith_pipeline_destroy(t.pipeline);
    must(kith_mesh_destroy(mesh), "kith_mesh_destroy");
    must(kith_finalize(ctx), "kith_finalize");
    return EXIT_SUCCESS;
}
