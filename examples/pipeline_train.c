/* examples/pipeline_train.c - a trainer in C that leaves its pipeline to Kith.
 *
 *     kith run -n 4 -- pipeline_train
 *
 * Each rank has one layer, y = weight * x for each of WIDTH numbers: the smallest that has all parts of a real one. The
 * trainer brings what computes: load, forward, loss, backward, optimizer step. Kith brings the schedule, the messages
 * between layers, and what to call when. Gradients are added in the order of the microbatches (is_ordered), so the plan
 * does not change a single bit: trained with 1F1B and with a zero-bubble schedule, the losses are equal.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "example.h"

#include <kith/pipeline.h>
#include <math.h>
#include <string.h>

enum { WIDTH = 16, MICROBATCHES = 8, STEPS = 20 };

/* What F leaves for B, or for I and W. */
typedef struct slot {
    float x[WIDTH], y[WIDTH], dy[WIDTH], target[WIDTH];
} slot;

typedef struct trainer {
    kith_ctx *ctx;
    float weights[WIDTH], grads[WIDTH];
    slot slots[MICROBATCHES]; /* kith_pipeline_slots() tells how many are needed, which is no more */
} trainer;

static float noise(int a, int b)
{
    return (float)sin(12.9898 * a + 78.233 * b);
}

static kith_status load(void *user, const kith_stage_call *call)
{
    slot *s = &((trainer *)user)->slots[call->slot];
    for (int i = 0; i < WIDTH; i++) {
        if (call->type == KITH_ACTION_LOAD_INPUT)
            s->x[i] = noise(call->microbatch, i);
        else /* KITH_ACTION_LOAD_TARGET: what is to be learned */
            s->target[i] = 0.3f * noise(call->microbatch, i);
    }
    return KITH_OK;
}

static kith_status forward(void *user, const kith_stage_call *call)
{
    trainer *t = user;
    slot *s = &t->slots[call->slot];
    if (call->input != NULL) /* NULL on the first stage, which has loaded it */
        memcpy(s->x, call->input->data, sizeof s->x);
    for (int i = 0; i < WIDTH; i++)
        s->y[i] = t->weights[i] * s->x[i];
    kith_progress(t->ctx); /* between layers of a real stage: large messages move while somebody is in the library */
    if (call->output != NULL) /* NULL on the last stage */
        memcpy(call->output->data, s->y, sizeof s->y);
    return KITH_OK;
}

static kith_status loss(void *user, const kith_stage_call *call, double *value)
{
    const slot *s = &((trainer *)user)->slots[call->slot];
    *value = 0;
    for (int i = 0; i < WIDTH; i++)
        *value += 0.5 * (s->y[i] - s->target[i]) * (s->y[i] - s->target[i]) / MICROBATCHES;
    return KITH_OK;
}

/* B is both halves; zero-bubble schedules ask for them one by one, as I and W. */
static kith_status backward(void *user, const kith_stage_call *call)
{
    trainer *t = user;
    slot *s = &t->slots[call->slot];
    if (call->type != KITH_ACTION_W) {
        const float *given = call->output_grad != NULL ? call->output_grad->data : NULL; /* NULL on the last stage */
        float *dx = call->input_grad != NULL ? call->input_grad->data : NULL;
        for (int i = 0; i < WIDTH; i++) {
            s->dy[i] = given != NULL ? given[i] : (s->y[i] - s->target[i]) / MICROBATCHES;
            if (dx != NULL)
                dx[i] = t->weights[i] * s->dy[i];
        }
    }
    for (int i = 0; i < WIDTH && call->type != KITH_ACTION_I; i++)
        ((float *)call->grads[0])[i] += s->x[i] * s->dy[i];
    return KITH_OK;
}

static kith_status optimizer_step(void *user)
{
    trainer *t = user;
    for (int i = 0; i < WIDTH; i++)
        t->weights[i] -= 0.2f * t->grads[i];
    memset(t->grads, 0, sizeof t->grads); /* in place of a callback zero_grad */
    return KITH_OK;
}

/* Trains the network from its start with a kind of schedule; losses: [STEPS], of the first microbatch. */
static void train(kith_group *group, kith_schedule_kind kind, double *losses)
{
    int rank = kith_group_rank(group);
    kith_schedule_options wanted = KITH_SCHEDULE_OPTIONS_INIT; /* one stage a rank */
    wanted.kind = kind;
    wanted.ranks = kith_group_size(group);
    wanted.microbatches = MICROBATCHES;
    kith_schedule *plan;
    must(kith_schedule_create(&wanted, &plan), "kith_schedule_create");

    trainer t = { .ctx = kith_group_ctx(group) };
    for (int i = 0; i < WIDTH; i++)
        t.weights[i] = 1 + 0.1f * noise(rank, i);
    kith_grad_bucket bucket = { rank, t.grads, WIDTH, KITH_F32 };
    kith_pipeline_callbacks callbacks = KITH_PIPELINE_CALLBACKS_INIT;
    callbacks.user = &t;
    callbacks.load = load;
    callbacks.forward = forward;
    callbacks.loss = loss;
    callbacks.backward = backward;
    callbacks.optimizer_step = optimizer_step;
    kith_pipeline_options options = KITH_PIPELINE_OPTIONS_INIT;
    options.message_nbytes = sizeof t.slots->x;
    options.buckets = &bucket; /* with options.dp_group it would be summed over the replicas, too */
    options.bucket_count = 1;
    options.is_ordered = options.shares_loss = 1;
    kith_pipeline *pipeline;
    must(kith_pipeline_create(plan, group, &callbacks, &options, &pipeline), "kith_pipeline_create");

    for (int step = 0; step < STEPS; step++) {
        must(kith_pipeline_step(pipeline), "kith_pipeline_step");
        must(kith_pipeline_loss(pipeline, 0, &losses[step]), "kith_pipeline_loss");
    }
    kith_pipeline_destroy(pipeline);
    kith_schedule_destroy(plan);
}

int main(void)
{
    kith_ctx *ctx;
    must(kith_init(NULL, &ctx), "kith_init");
    kith_group *world = kith_world(ctx);
    double one_f_one_b[STEPS], zero_bubble[STEPS];
    train(world, KITH_SCHEDULE_1F1B, one_f_one_b);
    train(world, KITH_SCHEDULE_ZB_H1, zero_bubble);

    int is_good = memcmp(one_f_one_b, zero_bubble, sizeof zero_bubble) == 0 && zero_bubble[STEPS - 1] < zero_bubble[0];
    must(kith_agree(world, is_good ? KITH_OK : KITH_ERR_INTERNAL), "the schedules differ, or nothing was learned");
    if (kith_rank(ctx) == 0)
        printf("loss %.6f -> %.6f, the same bits with 1f1b and zb-h1\n", zero_bubble[0], zero_bubble[STEPS - 1]);
    must(kith_finalize(ctx), "kith_finalize");
    return EXIT_SUCCESS;
}
