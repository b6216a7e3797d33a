/* tests/schedules/pipeline_results.c - what comes out of a pipeline, against a step without one.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "pipeline_cases.h"

#include <kith/pipeline.h>
#include <string.h>

static const toy_options exact = { .replicas = 1, .is_exact = true };
static const toy_options fractions = { .replicas = 1 };

typedef struct sums {
    double parameters[PARAMETERS], grads[PARAMETERS];
    double losses[256];
} sums;

static void reference(const toy_options *o, sums *s)
{
    toy_parameters(o, s->parameters);
    toy_reference(o, s->parameters, s->grads, s->losses);
}

static void next_reference(const toy_options *o, sums *s)
{
    toy_learn(s->parameters, s->grads, PARAMETERS);
    toy_reference(o, s->parameters, s->grads, s->losses);
}

/* ---- every plan gives the same ---- */

static void expect_counts(const trial *t)
{
    kith_pipeline_stats stats;
    kith_in_flight wanted;
    REQUIRE_OK(kith_pipeline_last_stats(t->pipeline, &stats));
    REQUIRE_OK(kith_schedule_in_flight(kith_pipeline_schedule(t->pipeline), t->toy.rank, &wanted));
    if (stats.in_flight != wanted.activations)
        rank_fail(__FILE__, __LINE__, "%s: in flight: wanted %d, got %d", t->what, wanted.activations, stats.in_flight);
    size_t count = 0;
    const kith_action *actions = kith_schedule_actions(kith_pipeline_schedule(t->pipeline), t->toy.rank, &count);
    uint64_t sends = 0, receives = 0;
    for (size_t i = 0; i < count; i++) {
        sends += actions[i].type == KITH_ACTION_SEND_F || actions[i].type == KITH_ACTION_SEND_B;
        receives += actions[i].type == KITH_ACTION_RECV_F || actions[i].type == KITH_ACTION_RECV_B;
    }
    REQUIRE(stats.sent_count == sends && stats.received_count == receives);
}

static void try_plan(rank_info *info, kith_schedule_kind kind, int microbatches, int chunks)
{
    trial t;
    if (!trial_plan(&t, info, kind, microbatches, chunks, &exact))
        return;
    sums *s = (sums *)malloc(sizeof *s);
    REQUIRE(s != NULL);
    reference(&t.toy.options, s);
    t.options.shares_loss = 1;
    trial_start(&t, info->world);
    REQUIRE_OK(kith_pipeline_step(t.pipeline));
    toy_expect_grads(&t.toy, s->grads, t.what);
    toy_expect_losses(&t.toy, t.pipeline, s->losses, t.what);
    REQUIRE(t.toy.steps == 1);
    expect_counts(&t);
    free(s);
    trial_end(&t);
}

static void case_plans(rank_info *info)
{
    static const int counts[] = { 1, 2, 3, 4, 5, 8 };
    for (int kind = 0; kind < KITH_SCHEDULE_CUSTOM; kind++) {
        for (size_t i = is_brief(info) ? 2 : 0; i < sizeof counts / sizeof counts[0]; i += is_brief(info) ? 3 : 1)
            try_plan(info, (kith_schedule_kind)kind, counts[i], 0);
        try_plan(info, (kith_schedule_kind)kind, 2 * info->size, 3);
        try_plan(info, (kith_schedule_kind)kind, 2 * info->size + 1, 0);
    }
}

/* Fractions, where the order of additions shows, through several steps of the optimizer. */
static void try_ordered(rank_info *info, kith_schedule_kind kind, int microbatches)
{
    trial t;
    if (!trial_plan(&t, info, kind, microbatches, 0, &fractions))
        return;
    sums *s = (sums *)malloc(sizeof *s);
    REQUIRE(s != NULL);
    t.options.is_ordered = 1;
    t.options.prefetch = 2;
    trial_start(&t, info->world);
    reference(&t.toy.options, s);
    for (int step = 0; step < 3; step++) {
        if (step > 0)
            next_reference(&t.toy.options, s);
        REQUIRE_OK(kith_pipeline_step(t.pipeline));
        toy_expect_grads(&t.toy, s->grads, t.what);
    }
    toy_learn(s->parameters, s->grads, PARAMETERS);
    toy_expect_parameters(&t.toy, s->parameters, t.what);
    free(s);
    trial_end(&t);
}

static void case_ordered(rank_info *info)
{
    for (int kind = 0; kind < KITH_SCHEDULE_CUSTOM; kind++) {
        try_ordered(info, (kith_schedule_kind)kind, 2 * info->size);
        try_ordered(info, (kith_schedule_kind)kind, 7);
    }
}

/* Activations forgotten and made again. */
static void case_recompute(rank_info *info)
{
    trial t;
    REQUIRE(trial_plan(&t, info, KITH_SCHEDULE_ZB_H1, 5, 0, &exact));
    sums s;
    reference(&t.toy.options, &s);
    kith_lower_options lower = KITH_LOWER_OPTIONS_INIT;
    lower.has_recompute = 1;
    kith_schedule *lowered;
    REQUIRE_OK(kith_schedule_lower(t.plan, &lower, &lowered));
    kith_schedule_destroy(t.plan);
    t.plan = lowered;
    t.toy.plan = lowered;
    trial_start(&t, info->world);
    REQUIRE(kith_pipeline_schedule(t.pipeline) == lowered);
    REQUIRE_OK(kith_pipeline_step(t.pipeline));
    toy_expect_grads(&t.toy, s.grads, t.what);
    trial_end(&t);
}

static void append(kith_schedule *plan, int rank, kith_action action, kith_action_type type, int is_overlapped)
{
    action.type = type;
    action.is_overlapped = is_overlapped;
    REQUIRE_OK(kith_schedule_append(plan, rank, &action));
}

/* The same plan in which the backward of each pair is an I, and its W follows. */
static void split_pairs(trial *t)
{
    kith_schedule *compute, *split, *lowered;
    int rank_of_stage[64], stages = kith_schedule_stages(t->plan);
    REQUIRE(stages <= 64);
    for (int stage = 0; stage < stages; stage++)
        rank_of_stage[stage] = kith_schedule_rank_of_stage(t->plan, stage);
    REQUIRE_OK(kith_schedule_compute_only(t->plan, &compute));
    REQUIRE_OK(kith_schedule_create_custom(kith_schedule_ranks(compute), stages, rank_of_stage,
                                           kith_schedule_microbatches(compute), &split));
    for (int rank = 0; rank < kith_schedule_ranks(compute); rank++) {
        size_t count;
        const kith_action *a = kith_schedule_actions(compute, rank, &count);
        for (size_t i = 0; i < count; i++) {
            bool is_second = i > 0 && a[i - 1].is_overlapped;
            append(split, rank, a[i], is_second ? KITH_ACTION_I : a[i].type, a[i].is_overlapped);
            if (is_second)
                append(split, rank, a[i], KITH_ACTION_W, 0);
        }
    }
    REQUIRE_OK(kith_schedule_lower(split, NULL, &lowered));
    kith_schedule_destroy(compute);
    kith_schedule_destroy(split);
    kith_schedule_destroy(t->plan);
    t->plan = lowered;
    t->toy.plan = lowered;
}

/* An overlapped pair is one call where the trainer has one for it; its backward may be a whole one or an I. */
static void case_overlapped(rank_info *info)
{
    for (int variant = 0; variant < 4; variant++) {
        bool has_callback = variant % 2 == 1;
        trial t;
        REQUIRE(trial_plan(&t, info, KITH_SCHEDULE_DUALPIPE_V, 2 * info->size + 2, 0, &exact));
        if (variant >= 2)
            split_pairs(&t);
        sums s;
        reference(&t.toy.options, &s);
        kith_pipeline_callbacks callbacks = toy_callbacks(&t.toy);
        if (!has_callback)
            callbacks.overlapped = NULL;
        REQUIRE_OK(kith_pipeline_create(t.plan, info->world, &callbacks, &t.options, &t.pipeline));
        toy_attach(&t.toy, t.pipeline);
        REQUIRE_OK(kith_pipeline_step(t.pipeline));
        toy_expect_grads(&t.toy, s.grads, t.what);
        REQUIRE((t.toy.overlapped_calls > 0) == has_callback);
        trial_end(&t);
    }
}

/* ---- data-parallel replicas ---- */

/* Half of the ranks are one pipeline, half the other. */
static void make_replicas(const rank_info *info, kith_group **pp, kith_group **dp, int *replica)
{
    int ranks = info->size / 2;
    *replica = info->rank / ranks;
    REQUIRE(info->size % 2 == 0);
    REQUIRE_OK(kith_group_split(info->world, *replica, info->rank, NULL, pp));
    REQUIRE_OK(kith_group_split(info->world, info->rank % ranks, info->rank, NULL, dp));
}

static void try_replicas(kith_group *pp, kith_group *dp, int replica, kith_schedule_kind kind, bool is_ordered)
{
    trial t;
    toy_options o = is_ordered ? fractions : exact;
    o.replicas = 2;
    if (!trial_plan_on(&t, kith_group_size(pp), kith_group_rank(pp), kind, 5, 0, &o))
        return;
    sums s;
    reference(&t.toy.options, &s);
    t.toy.replica = replica;
    t.options.dp_group = dp;
    t.options.is_ordered = is_ordered;
    t.options.shares_loss = 1;
    trial_start(&t, pp);
    for (int step = 0; step < (is_ordered ? 2 : 1); step++) { /* a step of the optimizer makes fractions */
        if (step > 0)
            next_reference(&t.toy.options, &s);
        REQUIRE_OK(kith_pipeline_step(t.pipeline));
        toy_expect_grads(&t.toy, s.grads, t.what);
        toy_expect_losses(&t.toy, t.pipeline, s.losses, t.what);
    }
    trial_end(&t);
}

static void case_replicas(rank_info *info)
{
    kith_group *pp, *dp;
    int replica;
    make_replicas(info, &pp, &dp, &replica);
    for (int kind = 0; kind < KITH_SCHEDULE_CUSTOM; kind++) {
        try_replicas(pp, dp, replica, (kith_schedule_kind)kind, false);
        try_replicas(pp, dp, replica, (kith_schedule_kind)kind, true);
    }
    REQUIRE_OK(kith_group_destroy(pp));
    REQUIRE_OK(kith_group_destroy(dp));
}

/* ---- a weight on first and last stage ---- */

typedef struct tied_trainer {
    double grad, given;
    int stages;
} tied_trainer;

static kith_status tied_forward(void *user, const kith_stage_call *call)
{
    (void)user;
    if (call->output != NULL)
        call->output->nbytes = 0;
    return KITH_OK;
}

static kith_status tied_backward(void *user, const kith_stage_call *call)
{
    tied_trainer *t = (tied_trainer *)user;
    if (call->type != KITH_ACTION_I && (call->is_first || call->is_last))
        t->grad += t->given;
    return KITH_OK;
}

/* Gradients 1 to 4 on two replicas of a pipeline with two ends: 5 everywhere, as an average over the replicas. */
static void try_tied(kith_group *pp, kith_group *dp, int replica, kith_schedule_kind kind)
{
    int ranks = kith_group_size(pp), rank = kith_group_rank(pp);
    kith_schedule *plan = toy_plan(kind, ranks, 1, 0, false), *lowered = NULL;
    if (plan == NULL)
        return;
    kith_lower_options lower = KITH_LOWER_OPTIONS_INIT;
    lower.has_tied = 1;
    REQUIRE_OK(kith_schedule_lower(plan, &lower, &lowered));
    int last = kith_schedule_stages(plan) - 1;
    bool has_first = kith_schedule_rank_of_stage(plan, 0) == rank;
    bool has_last = kith_schedule_rank_of_stage(plan, last) == rank;
    tied_trainer trainer = { .given = (has_first ? 1 : 3) + replica };
    kith_grad_bucket bucket = { has_first ? 0 : last, &trainer.grad, 1, KITH_F64 };
    kith_pipeline_callbacks callbacks = KITH_PIPELINE_CALLBACKS_INIT;
    callbacks.user = &trainer;
    callbacks.forward = tied_forward;
    callbacks.backward = tied_backward;
    kith_pipeline_options options = KITH_PIPELINE_OPTIONS_INIT;
    options.message_nbytes = 8;
    options.dp_group = dp;
    options.dp_op = KITH_AVG;
    if (has_first || has_last) {
        options.tied = options.buckets = &bucket;
        options.bucket_count = 1;
    }
    REQUIRE_OK(kith_schedule_run(lowered, pp, &callbacks, &options));
    /* both ends on one rank: one copy, to which each stage has added; (1 + 1 + 2 + 2) / 2, or (1 + 2) / 2 */
    double wanted = has_first && has_last ? (last == 0 ? 1.5 : 3) : has_first || has_last ? 5 : 0;
    if (trainer.grad != wanted)
        rank_fail(__FILE__, __LINE__, "%s: tied gradient: wanted %g, got %g", kith_schedule_kind_name(kind), wanted,
                  trainer.grad);
    kith_schedule_destroy(plan);
    kith_schedule_destroy(lowered);
}

static void case_tied(rank_info *info)
{
    kith_group *pp, *dp;
    int replica;
    make_replicas(info, &pp, &dp, &replica);
    for (int kind = 0; kind < KITH_SCHEDULE_CUSTOM; kind++)
        try_tied(pp, dp, replica, (kith_schedule_kind)kind);
    REQUIRE_OK(kith_group_destroy(pp));
    REQUIRE_OK(kith_group_destroy(dp));
}

/* ---- data, targets and losses ---- */

/* Data and target of microbatch k are k: any mix-up is a loss that is not 0. */
static void case_labels(rank_info *info)
{
    toy_options o = { .replicas = 1, .is_identity = true };
    double zeros[64] = { 0 };
    for (int kind = 0; kind < KITH_SCHEDULE_CUSTOM; kind++) {
        trial t;
        if (!trial_plan(&t, info, (kith_schedule_kind)kind, 9, 0, &o))
            continue;
        t.options.shares_loss = 1;
        trial_start(&t, info->world);
        REQUIRE_OK(kith_pipeline_step(t.pipeline));
        toy_expect_losses(&t.toy, t.pipeline, zeros, t.what);
        trial_end(&t);
    }
}

/* Who knows a loss, and what the others are told. */
static void case_loss(rank_info *info)
{
    trial t;
    REQUIRE(trial_plan(&t, info, KITH_SCHEDULE_GPIPE, 3, 0, &exact));
    sums s;
    reference(&t.toy.options, &s);
    trial_start(&t, info->world);
    double loss = 7;
    REQUIRE_STATUS(kith_pipeline_loss(t.pipeline, 0, &loss), KITH_ERR_INVALID_ARG);
    REQUIRE_OK(kith_pipeline_step(t.pipeline));
    REQUIRE_STATUS(kith_pipeline_loss(t.pipeline, 3, &loss), KITH_ERR_INVALID_ARG);
    REQUIRE_STATUS(kith_pipeline_loss(t.pipeline, -1, &loss), KITH_ERR_INVALID_ARG);
    if (info->rank == info->size - 1) {
        toy_expect_losses(&t.toy, t.pipeline, s.losses, t.what);
    } else {
        REQUIRE_STATUS(kith_pipeline_loss(t.pipeline, 0, &loss), KITH_ERR_INVALID_ARG);
        REQUIRE_DETAIL("shares_loss");
        REQUIRE(loss == 7);
    }
    trial_end(&t);
}

/* Training with 6 microbatches and evaluation with 2, in turns, over one group. */
static void case_evaluation(rank_info *info)
{
    trial train, eval;
    REQUIRE(trial_plan(&train, info, KITH_SCHEDULE_1F1B, 6, 0, &fractions));
    REQUIRE(trial_plan(&eval, info, KITH_SCHEDULE_1F1B, 2, 0, &fractions));
    kith_schedule_destroy(eval.plan);
    eval.toy.plan = eval.plan = toy_plan(KITH_SCHEDULE_1F1B, info->size, 2, 0, true);
    REQUIRE(eval.plan != NULL);
    train.options.is_ordered = train.options.shares_loss = eval.options.shares_loss = 1;
    sums s, e;
    reference(&train.toy.options, &s);
    trial_start(&train, info->world);
    trial_start(&eval, info->world);
    for (int step = 0; step < 3; step++) {
        if (step > 0)
            next_reference(&train.toy.options, &s);
        REQUIRE_OK(kith_pipeline_step(train.pipeline));
        toy_expect_grads(&train.toy, s.grads, train.what);
        reference(&eval.toy.options, &e);
        REQUIRE_OK(kith_pipeline_step(eval.pipeline));
        toy_expect_losses(&eval.toy, eval.pipeline, e.losses, "evaluation");
    }
    REQUIRE(train.toy.steps == 3 && eval.toy.steps == 0);
    trial_end(&train);
    trial_end(&eval);
}

static void case_forward_only(rank_info *info)
{
    for (int kind = 0; kind < KITH_SCHEDULE_CUSTOM; kind++) {
        trial t;
        if (!trial_plan(&t, info, (kith_schedule_kind)kind, 2 * info->size, 0, &exact))
            continue;
        kith_schedule_destroy(t.plan);
        t.toy.plan = t.plan = toy_plan((kith_schedule_kind)kind, info->size, 2 * info->size, 0, true);
        REQUIRE(t.plan != NULL);
        sums s;
        reference(&t.toy.options, &s);
        t.options.shares_loss = 1;
        trial_start(&t, info->world);
        REQUIRE_OK(kith_pipeline_step(t.pipeline));
        toy_expect_losses(&t.toy, t.pipeline, s.losses, t.what);
        trial_end(&t);
    }
}

/* ---- memory ---- */

static kith_pipeline_stats stats_of(rank_info *info, kith_schedule_kind kind, int microbatches, kith_in_flight *held)
{
    trial t;
    kith_pipeline_stats stats;
    REQUIRE(trial_plan(&t, info, kind, microbatches, 0, &exact));
    t.toy.message_nbytes = t.options.message_nbytes = 1000; /* each message has the same size */
    trial_start(&t, info->world);
    for (int step = 0; step < 2; step++)
        REQUIRE_OK(kith_pipeline_step(t.pipeline));
    REQUIRE_OK(kith_pipeline_last_stats(t.pipeline, &stats));
    REQUIRE_OK(kith_schedule_in_flight(kith_pipeline_schedule(t.pipeline), info->rank, held));
    trial_end(&t);
    return stats;
}

/* What is held does not grow with the number of microbatches, and is what the plan says. */
static void case_memory(rank_info *info)
{
    static const kith_schedule_kind kinds[] = { KITH_SCHEDULE_1F1B, KITH_SCHEDULE_ZB_H1, KITH_SCHEDULE_ZB_H2,
                                                KITH_SCHEDULE_ZB_V };
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        kith_in_flight held;
        kith_pipeline_stats few = stats_of(info, kinds[i], 2 * info->size + 2, &held);
        kith_pipeline_stats many = stats_of(info, kinds[i], 32, &held);
        const char *name = kith_schedule_kind_name(kinds[i]);
        if (few.live_nbytes != many.live_nbytes || few.pool_nbytes != many.pool_nbytes)
            rank_fail(__FILE__, __LINE__,
                      "%s: more microbatches hold %zu bytes instead of %zu, in pools of %zu and %zu", name,
                      many.live_nbytes, few.live_nbytes, many.pool_nbytes, few.pool_nbytes);
        bool is_loop = kinds[i] != KITH_SCHEDULE_ZB_V;
        size_t wanted = is_loop && info->rank == 0 ? 0 : (size_t)held.held * 1000;
        if (is_loop && many.live_nbytes != wanted)
            rank_fail(__FILE__, __LINE__, "%s: wanted %zu bytes of inputs held, got %zu", name, wanted,
                      many.live_nbytes);
        REQUIRE(many.live_nbytes <= (size_t)held.held * 1000);
    }
}

/* ---- times ---- */

static void case_times(rank_info *info)
{
    trial t;
    REQUIRE(trial_plan(&t, info, KITH_SCHEDULE_1F1B, 4, 0, &exact));
    t.options.keeps_times = 1;
    trial_start(&t, info->world);
    size_t count = 0, actions = 0;
    const kith_action *list = kith_schedule_actions(kith_pipeline_schedule(t.pipeline), info->rank, &actions);
    REQUIRE_OK(kith_pipeline_step(t.pipeline));
    const kith_interval *times = kith_pipeline_intervals(t.pipeline, &count);
    REQUIRE(times != NULL && count == actions);
    double end = 0;
    for (size_t i = 0; i < count; i++) {
        REQUIRE(times[i].start >= 0 && times[i].end >= times[i].start);
        bool is_compute = list[i].type == KITH_ACTION_F || list[i].type == KITH_ACTION_B;
        if (is_compute)
            REQUIRE(times[i].start >= end && times[i].end > times[i].start);
        end = is_compute ? times[i].end : end;
    }
    kith_pipeline_stats stats;
    REQUIRE_OK(kith_pipeline_last_stats(t.pipeline, &stats));
    REQUIRE(stats.compute_ns > 0 && stats.compute_ns <= stats.step_ns);
    trial_end(&t);
}

const pipeline_case pipeline_results[] = {
    { "plans", case_plans, false, false },
    { "ordered", case_ordered, false, false },
    { "recompute", case_recompute, false, false },
    { "overlapped", case_overlapped, false, false },
    { "replicas", case_replicas, false, false },
    { "tied", case_tied, false, false },
    { "labels", case_labels, false, false },
    { "loss", case_loss, false, false },
    { "evaluation", case_evaluation, false, false },
    { "forward_only", case_forward_only, false, false },
    { "memory", case_memory, false, false },
    { "times", case_times, false, false },
    { NULL, NULL, false, false },
};
