/* examples/embed_trainer/dp.c - plain.c over data-parallel ranks: each takes its share of a step's samples.
 *
 *     kith run -n 4 -- embed_dp [TEXT]
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "../example.h"

#include <math.h>
#include <string.h>

enum { CONTEXT = 8, EMBED = 16, INPUT = CONTEXT * EMBED, HIDDEN = 64, BYTES = 256, SAMPLES = 32, STEPS = 60 };

/* [rows][cols], row by row; weights of all matrices lie in one array, gradients in another. */
typedef struct matrix {
    int rows, cols;
    float *weight, *grad;
} matrix;

typedef struct trainer {
    kith_group *dp;
    unsigned char *text;
    long text_nbytes;
    matrix table, in, mid, out;
    float *weights, *grads;
    size_t count; /* of each */
} trainer;

/* What forward leaves for backward. */
typedef struct batch {
    int samples;
    unsigned char bytes[SAMPLES][CONTEXT + 1]; /* the last is what is to be told */
    float x[SAMPLES * INPUT], h1[SAMPLES * HIDDEN], z[SAMPLES * HIDDEN], h2[SAMPLES * HIDDEN], p[SAMPLES * BYTES];
    float dx[SAMPLES * INPUT], dh1[SAMPLES * HIDDEN], dz[SAMPLES * HIDDEN];
} batch;

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
    multiply(b->h1, &t->mid, b->z, b->samples);
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
    for (int i = 0; i < b->samples * INPUT; i++)
        t->table.grad[b->bytes[i / INPUT][i % INPUT / EMBED] * EMBED + i % EMBED] += b->dx[i];
}

static double step(trainer *t, int number)
{
    static batch b;
    int ranks = kith_group_size(t->dp), rank = kith_group_rank(t->dp), first = SAMPLES * rank / ranks;
    b.samples = SAMPLES * (rank + 1) / ranks - first;
    memset(t->grads, 0, t->count * sizeof(float));
    fill(t, number, first, &b);
    forward_first(t, &b);
    double loss = forward_second(t, &b);
    backward_second(t, &b);
    backward_first(t, &b);
    must(kith_all_reduce(t->dp, t->grads, t->grads, t->count, KITH_F32, KITH_SUM), "kith_all_reduce");
    must(kith_all_reduce_scalar(t->dp, &loss, KITH_SUM), "kith_all_reduce_scalar");
    for (size_t i = 0; i < t->count; i++)
        t->weights[i] -= 0.5f * t->grads[i];
    return loss / SAMPLES;
}

/* A matrix of the trainer's arrays, which grow by it. */
static void add_matrix(trainer *t, matrix *m, int rows, int cols)
{
    m->rows = rows, m->cols = cols;
    m->weight = t->weights + t->count, m->grad = t->grads + t->count;
    t->count += (size_t)rows * (size_t)cols;
}

static void start(matrix *m, unsigned number, float size)
{
    for (int r = 0; r < m->rows; r++)
        for (int c = 0; c < m->cols; c++)
            m->weight[r * m->cols + c] =
                size * ((float)mix(number << 28 | (unsigned)(r * BYTES + c)) / 2147483648.f - 1);
}

static void make_trainer(trainer *t)
{
    size_t room = BYTES * EMBED + INPUT * HIDDEN + HIDDEN * HIDDEN + HIDDEN * BYTES;
    t->weights = calloc(room, sizeof(float));
    t->grads = calloc(room, sizeof(float));
    if (t->weights == NULL || t->grads == NULL)
        exit(EXIT_FAILURE);
    add_matrix(t, &t->table, BYTES, EMBED), start(&t->table, 1, 1);
    add_matrix(t, &t->in, INPUT, HIDDEN), start(&t->in, 2, 0.15f);
    add_matrix(t, &t->mid, HIDDEN, HIDDEN), start(&t->mid, 3, 0.2f);
    add_matrix(t, &t->out, HIDDEN, BYTES), start(&t->out, 4, 0.2f);
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
    trainer t = { .dp = kith_world(ctx) };
    read_text(&t, argc > 1 ? argv[1] : "/usr/share/common-licenses/GPL-3");
    make_trainer(&t);
    double loss = 0;
    for (int number = 0; number < STEPS; number++) {
        loss = step(&t, number);
        if (number % 10 == 0 && kith_rank(ctx) == 0)
            printf("step %d: loss %.5f\n", number, loss);
    }
    if (kith_rank(ctx) == 0)
        printf("step %d: loss %.5f\n", STEPS - 1, loss);
    free(t.weights), free(t.grads), free(t.text);
    must(kith_finalize(ctx), "kith_finalize");
    return EXIT_SUCCESS;
}
