/* examples/pipeline_train.c - a trainer in C that leaves its pipeline to Kith.
 *
 *     kith run -n 4 -- pipeline_train
 *
 * A small network of 12 layers is cut into as many stages as there are ranks, or twice as many. The trainer brings
 * what computes: load, forward, loss, backward, optimizer step. Kith brings the schedule, the messages, and what to
 * call when. Gradients are added in the order of the microbatches (is_ordered), so the plan does not change a single
 * bit: the same network is trained with 1F1B and with a zero-bubble schedule whose stages lie in a V, and the losses
 * are equal.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "example.h"

#include <kith/pipeline.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

enum { LAYERS = 12, WIDTH = 8, ROWS = 4, MICROBATCHES = 8, STEPS = 20, CHUNKS = 2 };
#define NUMBERS (ROWS * WIDTH)               /* of an activation */
#define PARAMETERS ((size_t)(WIDTH * WIDTH)) /* of a layer */
#define SLOPE 0.5f                           /* of the activation, below zero */
#define RATE 0.5f

/* What F leaves for B, or for I and W. */
typedef struct slot {
    float target[NUMBERS];
    float y[LAYERS + 1][NUMBERS]; /* y[0] is the stage's input */
    float dz[LAYERS][NUMBERS];
} slot;

typedef struct stage {
    int number, layers;
    float *weights, *grads; /* [layers * PARAMETERS] */
    slot *slots;
} stage;

typedef struct trainer {
    int stage_count;
    stage stages[CHUNKS]; /* of this rank */
    kith_grad_bucket buckets[CHUNKS];
} trainer;

static float noise(int a, int b)
{
    return (float)sin(12.9898 * a + 78.233 * b);
}

static slot *slot_of(void *user, const kith_stage_call *call)
{
    return &((trainer *)user)->stages[call->chunk].slots[call->slot];
}

/* ---- callbacks ---- */

static kith_status load(void *user, const kith_stage_call *call)
{
    slot *s = slot_of(user, call);
    for (int i = 0; i < NUMBERS; i++) {
        if (call->type == KITH_ACTION_LOAD_INPUT)
            s->y[0][i] = noise(call->microbatch, i);
        else
            s->target[i] = 0.5f * noise(call->microbatch + i % WIDTH, i);
    }
    return KITH_OK;
}

static kith_status forward(void *user, const kith_stage_call *call)
{
    const stage *st = &((trainer *)user)->stages[call->chunk];
    slot *s = slot_of(user, call);
    if (call->input != NULL)
        memcpy(s->y[0], call->input->data, sizeof s->y[0]);
    for (int l = 0; l < st->layers; l++)
        for (int i = 0; i < NUMBERS; i++) {
            float sum = 0;
            for (int j = 0; j < WIDTH; j++)
                sum += st->weights[(size_t)l * PARAMETERS + (size_t)(i % WIDTH * WIDTH + j)] *
                       s->y[l][i / WIDTH * WIDTH + j];
            s->y[l + 1][i] = sum > 0 ? sum : SLOPE * sum;
        }
    if (call->output != NULL)
        memcpy(call->output->data, s->y[st->layers], sizeof s->y[0]);
    return KITH_OK;
}

static kith_status loss(void *user, const kith_stage_call *call, double *value)
{
    const slot *s = slot_of(user, call);
    const float *y = s->y[((trainer *)user)->stages[call->chunk].layers];
    *value = 0;
    for (int i = 0; i < NUMBERS; i++)
        *value += 0.5 * (y[i] - s->target[i]) * (y[i] - s->target[i]) / (NUMBERS * MICROBATCHES);
    return KITH_OK;
}

/* Gradients of activations, from the last layer of the stage to its input. */
static void backward_input(const stage *st, slot *s, const kith_stage_call *call)
{
    float dy[NUMBERS];
    for (int i = 0; i < NUMBERS; i++)
        dy[i] = call->output_grad != NULL ? ((const float *)call->output_grad->data)[i]
                                          : (s->y[st->layers][i] - s->target[i]) / (NUMBERS * MICROBATCHES);
    for (int l = st->layers - 1; l >= 0; l--) {
        for (int i = 0; i < NUMBERS; i++)
            s->dz[l][i] = s->y[l + 1][i] > 0 ? dy[i] : SLOPE * dy[i];
        for (int i = 0; i < NUMBERS; i++) {
            dy[i] = 0;
            for (int j = 0; j < WIDTH; j++)
                dy[i] += st->weights[(size_t)l * PARAMETERS + (size_t)(j * WIDTH + i % WIDTH)] *
                         s->dz[l][i / WIDTH * WIDTH + j];
        }
    }
    if (call->input_grad != NULL)
        memcpy(call->input_grad->data, dy, sizeof dy);
}

static void backward_weights(const stage *st, const slot *s, float *grads)
{
    for (int l = 0; l < st->layers; l++)
        for (int i = 0; i < NUMBERS; i++)
            for (int j = 0; j < WIDTH; j++)
                grads[(size_t)l * PARAMETERS + (size_t)(i % WIDTH * WIDTH + j)] +=
                    s->dz[l][i] * s->y[l][i / WIDTH * WIDTH + j];
}

/* B is both halves; zero-bubble schedules ask for them one by one. */
static kith_status backward(void *user, const kith_stage_call *call)
{
    const stage *st = &((trainer *)user)->stages[call->chunk];
    if (call->type != KITH_ACTION_W)
        backward_input(st, slot_of(user, call), call);
    if (call->type != KITH_ACTION_I)
        backward_weights(st, slot_of(user, call), call->grads[0]);
    return KITH_OK;
}

static kith_status zero_grad(void *user)
{
    trainer *t = user;
    for (int c = 0; c < t->stage_count; c++)
        memset(t->stages[c].grads, 0, (size_t)t->stages[c].layers * PARAMETERS * sizeof(float));
    return KITH_OK;
}

static kith_status optimizer_step(void *user)
{
    trainer *t = user;
    for (int c = 0; c < t->stage_count; c++)
        for (size_t i = 0; i < (size_t)t->stages[c].layers * PARAMETERS; i++)
            t->stages[c].weights[i] -= RATE * t->stages[c].grads[i];
    return KITH_OK;
}

/* ---- the trainer ---- */

static void *zeroed(size_t count, size_t nbytes)
{
    void *memory = calloc(count, nbytes);
    must(memory != NULL ? KITH_OK : KITH_ERR_NO_MEMORY, "calloc");
    return memory;
}

/* The layers of the rank's stages, and their gradients as buckets. */
static void make_stages(trainer *t, const kith_schedule *plan, int rank)
{
    int stages = kith_schedule_stages(plan);
    memset(t, 0, sizeof *t);
    for (int c = 0; c < kith_schedule_chunks(plan); c++) {
        stage *st = &t->stages[t->stage_count];
        st->number = kith_schedule_stage_of_chunk(plan, rank, c);
        int first = st->number * LAYERS / stages;
        st->layers = (st->number + 1) * LAYERS / stages - first;
        size_t count = (size_t)st->layers * PARAMETERS;
        st->weights = zeroed(count, sizeof(float));
        st->grads = zeroed(count, sizeof(float));
        for (int i = 0; i < (int)count; i++) /* near the identity */
            st->weights[i] = (i % (int)PARAMETERS % (WIDTH + 1) == 0) + 0.1f * noise(first * (int)PARAMETERS + i, 3);
        t->buckets[t->stage_count++] = (kith_grad_bucket){ st->number, st->grads, count, KITH_F32 };
    }
}

static void free_stages(trainer *t)
{
    for (int c = 0; c < t->stage_count; c++) {
        free(t->stages[c].weights);
        free(t->stages[c].grads);
        free(t->stages[c].slots);
    }
}

/* Trains the network from its start with a kind of schedule; losses: [STEPS], the mean over all microbatches. */
static void train(kith_group *group, kith_schedule_kind kind, double *losses)
{
    kith_schedule_options wanted = KITH_SCHEDULE_OPTIONS_INIT;
    wanted.kind = kind;
    wanted.ranks = kith_group_size(group);
    wanted.microbatches = MICROBATCHES;
    kith_schedule *plan;
    must(kith_schedule_create(&wanted, &plan), "kith_schedule_create");

    static trainer t;
    make_stages(&t, plan, kith_group_rank(group));
    kith_pipeline_callbacks callbacks = KITH_PIPELINE_CALLBACKS_INIT;
    callbacks.user = &t;
    callbacks.load = load;
    callbacks.forward = forward;
    callbacks.loss = loss;
    callbacks.backward = backward;
    callbacks.zero_grad = zero_grad;
    callbacks.optimizer_step = optimizer_step;
    kith_pipeline_options options = KITH_PIPELINE_OPTIONS_INIT;
    options.message_nbytes = NUMBERS * sizeof(float);
    options.buckets = t.buckets; /* with options.dp_group they would be summed over the replicas, too */
    options.bucket_count = (size_t)t.stage_count;
    options.is_ordered = options.shares_loss = 1;

    kith_pipeline *pipeline;
    must(kith_pipeline_create(plan, group, &callbacks, &options, &pipeline), "kith_pipeline_create");
    for (int c = 0; c < t.stage_count; c++)
        t.stages[c].slots = zeroed((size_t)kith_pipeline_slots(pipeline, t.stages[c].number), sizeof(slot));
    for (int step = 0; step < STEPS; step++) {
        must(kith_pipeline_step(pipeline), "kith_pipeline_step");
        losses[step] = 0;
        for (int m = 0; m < MICROBATCHES; m++) {
            double one;
            must(kith_pipeline_loss(pipeline, m, &one), "kith_pipeline_loss");
            losses[step] += one;
        }
    }
    kith_pipeline_destroy(pipeline);
    free_stages(&t);
    kith_schedule_destroy(plan);
}

int main(void)
{
    kith_ctx *ctx;
    must(kith_init(NULL, &ctx), "kith_init");
    kith_group *world = kith_world(ctx);
    double one_f_one_b[STEPS], zero_bubble[STEPS];
    train(world, KITH_SCHEDULE_1F1B, one_f_one_b);
    train(world, KITH_SCHEDULE_ZB_V, zero_bubble);

    bool is_good = memcmp(one_f_one_b, zero_bubble, sizeof zero_bubble) == 0 && zero_bubble[STEPS - 1] < zero_bubble[0];
    must(kith_agree(world, is_good ? KITH_OK : KITH_ERR_INTERNAL), "the schedules differ, or nothing was learned");
    if (kith_rank(ctx) == 0)
        printf("%d ranks, %d steps: loss %.6f -> %.6f, the same bits with 1f1b and zb-v\n", kith_size(ctx), STEPS,
               zero_bubble[0], zero_bubble[STEPS - 1]);
    must(kith_finalize(ctx), "kith_finalize");
    return EXIT_SUCCESS;
}
