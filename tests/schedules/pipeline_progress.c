/* tests/schedules/pipeline_progress.c - callbacks that let messages travel, and one that steps another pipeline: what
 * goes on around them comes out the same.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "pipeline_cases.h"

#include <kith/pipeline.h>
#include <string.h>

static const toy_options exact = { .replicas = 1, .is_exact = true };

/* A trainer around the toy's. */
typedef struct busy {
    kith_pipeline_callbacks inner; /* the toy's */
    kith_ctx *ctx;
    kith_pipeline *other; /* NULL: none */
} busy;

static kith_status make_way(const busy *b)
{
    kith_status status = KITH_OK;
    for (int i = 0; i < 20 && status == KITH_OK; i++)
        status = kith_progress(b->ctx);
    return status;
}

static kith_status load(void *user, const kith_stage_call *call)
{
    busy *b = (busy *)user;
    REQUIRE_OK(make_way(b));
    return b->inner.load(b->inner.user, call);
}

static kith_status forward(void *user, const kith_stage_call *call)
{
    busy *b = (busy *)user;
    REQUIRE_OK(make_way(b));
    kith_status status = b->inner.forward(b->inner.user, call);
    REQUIRE_OK(make_way(b));
    return status;
}

static kith_status backward(void *user, const kith_stage_call *call)
{
    busy *b = (busy *)user;
    kith_status status = b->inner.backward(b->inner.user, call);
    REQUIRE_OK(make_way(b));
    return status;
}

/* Here no rank waits for what another one computes, so that all may do something together. */
static kith_status zero_grad(void *user)
{
    busy *b = (busy *)user;
    REQUIRE_OK(make_way(b));
    if (b->other != NULL)
        REQUIRE_OK(kith_pipeline_step(b->other));
    return b->inner.zero_grad(b->inner.user);
}

static kith_status optimizer_step(void *user)
{
    busy *b = (busy *)user;
    REQUIRE_OK(make_way(b));
    return b->inner.optimizer_step(b->inner.user);
}

static kith_status loss(void *user, const kith_stage_call *call, double *value)
{
    busy *b = (busy *)user;
    REQUIRE_OK(make_way(b));
    return b->inner.loss(b->inner.user, call, value);
}

static void start(trial *t, busy *b, kith_group *group)
{
    kith_pipeline_callbacks callbacks = KITH_PIPELINE_CALLBACKS_INIT;
    b->inner = toy_callbacks(&t->toy);
    callbacks.user = b;
    callbacks.load = load;
    callbacks.forward = forward;
    callbacks.loss = loss;
    callbacks.backward = backward;
    callbacks.zero_grad = zero_grad;
    callbacks.optimizer_step = optimizer_step;
    REQUIRE_OK(kith_pipeline_create(t->plan, group, &callbacks, &t->options, &t->pipeline));
    toy_attach(&t->toy, t->pipeline);
}

static void expect_steps(trial *t, int steps)
{
    double parameters[PARAMETERS], grads[PARAMETERS], losses[256];
    toy_parameters(&t->toy.options, parameters);
    toy_reference(&t->toy.options, parameters, grads, losses);
    for (int step = 0; step < steps; step++) {
        toy_reset(&t->toy);
        REQUIRE_OK(kith_pipeline_step(t->pipeline));
        toy_expect_grads(&t->toy, grads, t->what);
    }
}

static void try_kind(rank_info *info, kith_schedule_kind kind, size_t message_nbytes, int prefetch)
{
    trial t, within;
    if (!trial_plan(&t, info, kind, 2 * info->size, 0, &exact))
        return;
    kith_group *group;
    REQUIRE_OK(kith_group_dup(info->world, NULL, &group));
    REQUIRE(trial_plan(&within, info, KITH_SCHEDULE_1F1B, 3, 0, &exact));
    if (message_nbytes > 0)
        t.toy.message_nbytes = t.options.message_nbytes = message_nbytes;
    t.options.prefetch = prefetch;
    busy outer = { .ctx = info->ctx }, inner = { .ctx = info->ctx };
    start(&within, &inner, group);
    start(&t, &outer, info->world);
    expect_steps(&t, 1);
    expect_steps(&within, 1);
    outer.other = within.pipeline; /* a step of it inside of each of these */
    within.toy.steps = t.toy.steps = 0;
    toy_reset(&within.toy);
    expect_steps(&t, 1);
    REQUIRE(within.toy.steps == 1 && t.toy.steps == 1);
    trial_end(&t);
    trial_end(&within);
    REQUIRE_OK(kith_group_destroy(group));
}

static void case_progress(rank_info *info)
{
    static const kith_schedule_kind kinds[] = { KITH_SCHEDULE_1F1B, KITH_SCHEDULE_GPIPE, KITH_SCHEDULE_ZB_V,
                                                KITH_SCHEDULE_DUALPIPE_V };
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        bool is_large = i % 2 == 0;
        if (!is_brief(info) || !is_large)
            try_kind(info, kinds[i], 0, 1);
        if (!is_brief(info) || is_large)
            try_kind(info, kinds[i], 500000, 1 + (int)i);
    }
}

const pipeline_case pipeline_progress[] = {
    { "progress", case_progress, false, false },
    { NULL, NULL, false, false },
};
