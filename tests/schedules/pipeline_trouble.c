/* tests/schedules/pipeline_trouble.c - ranks that are slow, fail, die or disagree: one status everywhere, nobody hangs,
 * and after a callback that failed the next step is as good as any.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#define _GNU_SOURCE
#include "pipeline_cases.h"

#include <kith/pipeline.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const toy_options exact = { .replicas = 1, .is_exact = true };

static void wanted_of(const toy_options *o, double *grads)
{
    double parameters[PARAMETERS], losses[256];
    toy_parameters(o, parameters);
    toy_reference(o, parameters, grads, losses);
}

/* ---- delays ---- */

/* Ranks sleep at random before their calls. Small messages wait at the receiver, large ones at the sender. */
static void case_delays(rank_info *info)
{
    int seeds = is_brief(info) ? 20 : 1000;
    for (int seed = 0; seed < seeds; seed++) {
        kith_schedule_kind kind = (kith_schedule_kind)(seed % KITH_SCHEDULE_CUSTOM);
        trial t;
        if (!trial_plan(&t, info, kind, 1 + seed % (3 * info->size), seed % 4 == 3 ? 3 : 0, &exact))
            continue;
        double wanted[PARAMETERS];
        wanted_of(&t.toy.options, wanted);
        t.toy.random = (uint64_t)(seed * 1000 + info->rank + 1) * UINT64_C(0x9e3779b97f4a7c15);
        t.toy.delay_us = seed % 3 == 0 ? 1000 : 100;
        if (seed % 2 == 1)
            t.toy.message_nbytes = t.options.message_nbytes = 300000;
        trial_start(&t, info->world);
        for (int step = 0; step < 2; step++) {
            toy_reset(&t.toy);
            REQUIRE_OK(kith_pipeline_step(t.pipeline));
            toy_expect_grads(&t.toy, wanted, t.what);
        }
        trial_end(&t);
    }
}

/* ---- callbacks that fail ---- */

static int sum_over(kith_group *group, int mine)
{
    REQUIRE_OK(kith_all_reduce(group, &mine, &mine, 1, KITH_INT32, KITH_SUM));
    return mine;
}

static void expect_recovered(trial *t, const double *wanted)
{
    toy_reset(&t->toy);
    t->toy.fault = FAULT_NONE;
    t->toy.steps = 0;
    REQUIRE_OK(kith_pipeline_step(t->pipeline));
    toy_expect_grads(&t->toy, wanted, t->what);
    REQUIRE(t->toy.steps == 1);
}

/* The fault is on rank `failing` of world; its status is everybody's. */
static void try_fault(trial *t, kith_group *world, int failing, toy_fault fault, const double *wanted)
{
    bool is_mine = kith_group_rank(world) == failing;
    t->toy.fault = is_mine ? fault : FAULT_NONE;
    t->toy.fault_microbatch = fault % 2 ? 0 : 2;
    t->toy.fault_status = KITH_ERR_NO_RESOURCE;
    t->toy.has_failed = false;
    t->toy.steps = 0;
    kith_status status = kith_pipeline_step(t->pipeline), expected = KITH_OK;
    char detail[1024];
    snprintf(detail, sizeof detail, "%s", kith_error_detail());
    if (sum_over(world, t->toy.has_failed) > 0) /* else this rank makes no such call */
        expected = fault == FAULT_RESULT ? KITH_ERR_INVALID_ARG : KITH_ERR_NO_RESOURCE;
    if (status != expected)
        rank_fail(__FILE__, __LINE__, "%s, fault %d on rank %d: wanted %s, got %s: %s", t->what, (int)fault, failing,
                  kith_status_name(expected), kith_status_name(status), detail);
    char who[32];
    snprintf(who, sizeof who, "world rank %d: ", failing);
    if (expected != KITH_OK)
        REQUIRE_TEXT(detail, who); /* on all ranks, also those that hear of it over dp_group */
    if (expected != KITH_OK && fault != FAULT_OPTIMIZER)
        REQUIRE(t->toy.steps == 0);
    expect_recovered(t, wanted);
}

static void try_faults(rank_info *info, kith_group *pp, kith_group *dp, int replica, kith_schedule_kind kind)
{
    toy_options o = exact;
    o.replicas = dp != NULL ? 2 : 1;
    trial t;
    if (!trial_plan_on(&t, kith_group_size(pp), kith_group_rank(pp), kind, 4, 0, &o))
        return;
    double wanted[PARAMETERS];
    wanted_of(&t.toy.options, wanted);
    t.toy.replica = replica;
    t.options.dp_group = dp;
    t.options.shares_loss = 1;
    trial_start(&t, pp);
    for (int failing = 0; failing < info->size; failing++)
        for (int fault = FAULT_NONE + 1; fault < FAULT_SHARD; fault++) /* its calls: case_sharded() */
            try_fault(&t, info->world, failing, (toy_fault)fault, wanted);
    trial_end(&t);
}

static void case_failures(rank_info *info)
{
    static const kith_schedule_kind kinds[] = { KITH_SCHEDULE_1F1B, KITH_SCHEDULE_ZB_V, KITH_SCHEDULE_INTERLEAVED,
                                                KITH_SCHEDULE_GPIPE };
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        try_faults(info, info->world, NULL, 0, kinds[i]);
    if (info->size % 2 != 0)
        return;
    kith_group *pp, *dp;
    int half = info->size / 2, replica = info->rank / half;
    REQUIRE_OK(kith_group_split(info->world, replica, info->rank, NULL, &pp));
    REQUIRE_OK(kith_group_split(info->world, info->rank % half, info->rank, NULL, &dp));
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        try_faults(info, pp, dp, replica, kinds[i]);
    REQUIRE_OK(kith_group_destroy(pp));
    REQUIRE_OK(kith_group_destroy(dp));
}

/* The lowered plan with UNSHARD of all stages before and RESHARD behind. */
static kith_schedule *sharded_plan(const kith_schedule *plan)
{
    kith_schedule *lowered, *sharded;
    int stages[64], ranks = kith_schedule_ranks(plan), count = kith_schedule_stages(plan);
    REQUIRE(count <= 64);
    for (int s = 0; s < count; s++)
        stages[s] = kith_schedule_rank_of_stage(plan, s);
    REQUIRE_OK(kith_schedule_lower(plan, NULL, &lowered));
    REQUIRE_OK(kith_schedule_create_custom(ranks, count, stages, kith_schedule_microbatches(plan), &sharded));
    for (int s = 0; s < count; s++)
        REQUIRE_OK(kith_schedule_append(sharded, stages[s], &(kith_action){ KITH_ACTION_UNSHARD, s, -1, -1, 0 }));
    for (int rank = 0; rank < ranks; rank++) {
        size_t actions;
        const kith_action *list = kith_schedule_actions(lowered, rank, &actions);
        for (size_t i = 0; i < actions; i++)
            REQUIRE_OK(kith_schedule_append(sharded, rank, &list[i]));
    }
    for (int s = 0; s < count; s++)
        REQUIRE_OK(kith_schedule_append(sharded, stages[s], &(kith_action){ KITH_ACTION_RESHARD, s, -1, -1, 0 }));
    kith_schedule_destroy(lowered);
    return sharded;
}

/* Gathering parameters is a collective of the trainer's: it is called for whether the step has failed or not. */
static void case_sharded(rank_info *info)
{
    trial t;
    REQUIRE(trial_plan(&t, info, KITH_SCHEDULE_INTERLEAVED, 4, 0, &exact));
    kith_schedule *sharded = sharded_plan(t.plan);
    kith_schedule_destroy(t.plan);
    t.toy.plan = t.plan = sharded;
    double wanted[PARAMETERS];
    wanted_of(&t.toy.options, wanted);
    trial_start(&t, info->world);
    expect_recovered(&t, wanted);
    REQUIRE(t.toy.gathered == 0);
    for (int failing = 0; failing < info->size; failing++) {
        try_fault(&t, info->world, failing, FAULT_SHARD, wanted);
        try_fault(&t, info->world, failing, FAULT_FORWARD, wanted);
        REQUIRE(t.toy.gathered == 0);
    }
    trial_end(&t);
}

/* Every rank fails at once, each with another status: the lowest is everybody's. */
static void case_all_fail(rank_info *info)
{
    trial t;
    REQUIRE(trial_plan(&t, info, KITH_SCHEDULE_1F1B, 4, 0, &exact));
    double wanted[PARAMETERS];
    wanted_of(&t.toy.options, wanted);
    t.options.is_ordered = 1; /* gradients that nobody adds must not stay */
    trial_start(&t, info->world);
    t.toy.fault = FAULT_BACKWARD;
    t.toy.fault_microbatch = 1;
    t.toy.fault_status = info->rank == 0 ? KITH_ERR_IO : (kith_status)-2;
    kith_status status = kith_pipeline_step(t.pipeline);
    int who[2] = { t.toy.has_failed && info->rank == 0, t.toy.has_failed && info->rank != 0 };
    REQUIRE_OK(kith_all_reduce(info->world, who, who, 2, KITH_INT32, KITH_SUM));
    REQUIRE_STATUS(status, who[0] > 0 ? KITH_ERR_IO : KITH_ERR_UNSUPPORTED);
    expect_recovered(&t, wanted);
    /* what is no status */
    t.toy.fault = info->rank == 0 ? FAULT_FORWARD : FAULT_NONE;
    t.toy.fault_status = (kith_status)17;
    t.toy.has_failed = false;
    REQUIRE_STATUS(kith_pipeline_step(t.pipeline), KITH_ERR_INVALID_ARG);
    expect_recovered(&t, wanted);
    trial_end(&t);
}

/* ---- groups that fail ---- */

/* A rank dies in the middle of a step. The others leave together, so that none of them is taken for dead too. */
static void case_kill(rank_info *info)
{
    REQUIRE_OK(join_ranks(info, NULL, &info->ctx));
    info->world = kith_world(info->ctx);
    trial t;
    REQUIRE(trial_plan(&t, info, KITH_SCHEDULE_1F1B, 64, 0, &exact));
    t.toy.random = (uint64_t)info->rank + 1;
    t.toy.delay_us = 500;
    trial_start(&t, info->world);
    int victim = 1 % info->size;
    if (info->rank == victim)
        t.toy.die_at = 40;
    REQUIRE_STATUS(kith_pipeline_step(t.pipeline), KITH_ERR_PEER_FAILED);
    REQUIRE_DETAIL("rank");
    REQUIRE_STATUS(kith_pipeline_step(t.pipeline), KITH_ERR_PEER_FAILED);
    REQUIRE_DETAIL("earlier step");
    atomic_fetch_add(&info->board->counters[0], 1);
    while (atomic_load(&info->board->counters[0]) < info->size - 1)
        usleep(1000); /* waits for the others, however long they take, without taking their processor */
    trial_end(&t);
    kith_abandon(info->ctx);
}

static kith_status sleep_long(void *user)
{
    (void)user;
    usleep(1500000); /* this is the case: later than the deadline of 300 ms */
    return KITH_OK;
}

/* A rank is later than the group's deadline: somebody's time is up, and that ends the step for all. */
static void case_late(rank_info *info)
{
    kith_group *group = NULL;
    REQUIRE_OK(kith_group_dup(info->world, NULL, &group));
    trial t;
    REQUIRE(trial_plan(&t, info, KITH_SCHEDULE_1F1B, 4, 0, &exact));
    kith_pipeline_callbacks callbacks = toy_callbacks(&t.toy);
    if (info->rank == info->size - 1)
        callbacks.zero_grad = sleep_long;
    REQUIRE_OK(kith_pipeline_create(t.plan, group, &callbacks, &t.options, &t.pipeline));
    toy_attach(&t.toy, t.pipeline);
    REQUIRE_OK(kith_group_set_timeout(group, 300));
    kith_status status = kith_pipeline_step(t.pipeline);
    /* ucx may have to close the connection to the late rank, to get a buffer back */
    bool may_lose_peers = strcmp(kith_group_backend(info->world), "shm") != 0;
    if (status != KITH_ERR_TIMEOUT && status != KITH_ERR_ABORTED && !(may_lose_peers && status == KITH_ERR_PEER_FAILED))
        rank_fail(__FILE__, __LINE__, "wanted timeout or aborted, got %s: %s", kith_status_name(status),
                  kith_error_detail());
    REQUIRE_STATUS(kith_pipeline_step(t.pipeline), status);
    trial_end(&t);
    REQUIRE_OK(kith_group_destroy(group));
    if (!may_lose_peers)
        REQUIRE_OK(kith_barrier(info->world));
}

/* A rank gives up; dp_group, whose members are all well, must not wait either. */
static void case_abort(rank_info *info)
{
    REQUIRE(info->size % 2 == 0);
    kith_group *pp, *dp;
    int half = info->size / 2, replica = info->rank / half;
    REQUIRE_OK(kith_group_split(info->world, replica, info->rank, NULL, &pp));
    REQUIRE_OK(kith_group_split(info->world, info->rank % half, info->rank, NULL, &dp));
    toy_options o = exact;
    o.replicas = 2;
    trial t;
    REQUIRE(trial_plan_on(&t, half, kith_group_rank(pp), KITH_SCHEDULE_1F1B, 4, 0, &o));
    t.toy.replica = replica;
    t.options.dp_group = dp;
    trial_start(&t, pp);
    if (info->rank == 0)
        REQUIRE_OK(kith_group_abort(pp));
    REQUIRE_STATUS(kith_pipeline_step(t.pipeline), KITH_ERR_ABORTED);
    REQUIRE_STATUS(kith_group_status(dp), KITH_ERR_ABORTED);
    trial_end(&t);
    REQUIRE_OK(kith_group_destroy(pp));
    REQUIRE_OK(kith_group_destroy(dp));
    REQUIRE_OK(kith_barrier(info->world));
}

/* ---- creation ---- */

typedef struct creation {
    const kith_schedule *plan;
    kith_pipeline_callbacks callbacks;
    kith_pipeline_options options;
} creation;

/* All ranks get the status and a sentence with the part - where it is local, with the rank that it is of - and the
 * group goes on. */
static void refused(rank_info *info, const creation *c, kith_status wanted, const char *part, bool is_local, int line)
{
    kith_pipeline *const untouched = (kith_pipeline *)(uintptr_t)64;
    kith_pipeline *pipeline = untouched;
    kith_status status = kith_pipeline_create(c->plan, info->world, &c->callbacks, &c->options, &pipeline);
    if (status != wanted || pipeline != untouched)
        rank_fail(__FILE__, line, "wanted %s, got %s: %s", kith_status_name(wanted), kith_status_name(status),
                  kith_error_detail());
    require_text(__FILE__, line, kith_error_detail(), part);
    if (is_local)
        require_text(__FILE__, line, kith_error_detail(), "world rank 0: ");
    REQUIRE_OK(kith_barrier(info->world));
}

#define REFUSED(c, wanted, part, is_local) refused(info, c, wanted, part, is_local, __LINE__)

static void refuse_arguments(rank_info *info, const creation *good)
{
    creation c = *good;
    bool is_mine = info->rank == 0;
    if (is_mine)
        c.callbacks.forward = NULL;
    REFUSED(&c, KITH_ERR_INVALID_ARG, "forward", true);
    c = *good;
    if (is_mine)
        c.callbacks.backward = NULL;
    REFUSED(&c, KITH_ERR_INVALID_ARG, "backward", true);
    c = *good;
    if (is_mine)
        c.callbacks.struct_size = 0;
    REFUSED(&c, KITH_ERR_INVALID_ARG, "KITH_PIPELINE_CALLBACKS_INIT", true);
    c = *good;
    if (is_mine)
        c.options.struct_size = 0;
    REFUSED(&c, KITH_ERR_INVALID_ARG, "KITH_PIPELINE_OPTIONS_INIT", true);
    c = *good;
    if (is_mine)
        c.plan = NULL;
    REFUSED(&c, KITH_ERR_INVALID_ARG, "schedule is NULL", true);
    c = *good;
    if (is_mine)
        c.options.prefetch = -1;
    REFUSED(&c, KITH_ERR_INVALID_ARG, "prefetch", true);
    c = *good;
    if (is_mine)
        c.options.message_nbytes = 0;
    REFUSED(&c, KITH_ERR_INVALID_ARG, "message_nbytes", true);
    c = *good;
    if (is_mine)
        c.options.stream = (kith_stream *)&c;
    REFUSED(&c, KITH_ERR_INVALID_ARG, "go together", true);
    c = *good;
    if (is_mine) {
        c.options.device = (kith_device *)&c, c.options.stream = (kith_stream *)&c;
        c.options.is_ordered = 1;
    }
    REFUSED(&c, KITH_ERR_UNSUPPORTED, "is_ordered", true);
    c = *good;
    c.callbacks.loss = NULL;
    c.options.shares_loss = 1;
    REFUSED(&c, KITH_ERR_INVALID_ARG, "shares_loss", false);
}

static void refuse_buckets(rank_info *info, const creation *good)
{
    double grad = 0;
    bool is_mine = info->rank == 0;
    creation c = *good;
    kith_grad_bucket bucket = { 1, &grad, 1, KITH_F64 };
    c.options.buckets = &bucket;
    c.options.bucket_count = is_mine;
    REFUSED(&c, KITH_ERR_INVALID_ARG, "stage 1", true);
    bucket.stage = 0;
    bucket.dtype = (kith_dtype)99;
    REFUSED(&c, KITH_ERR_INVALID_ARG, "dtype", true);
    bucket.dtype = KITH_BF16;
    c.options.is_ordered = 1;
    REFUSED(&c, KITH_ERR_UNSUPPORTED, "bf16", true);
    bucket.dtype = KITH_F64;
    bucket.grad = NULL;
    REFUSED(&c, KITH_ERR_INVALID_ARG, "grad is NULL", true);
    c = *good;
    bucket.grad = &grad;
    bucket.count = SIZE_MAX / 4;
    c.options.buckets = &bucket;
    c.options.bucket_count = is_mine;
    REFUSED(&c, KITH_ERR_INVALID_ARG, "do not fit", true);
    c = *good;
    bucket.count = 1;
    if (is_mine)
        c.options.tied = &bucket;
    REFUSED(&c, KITH_ERR_INVALID_ARG, "REDUCE_TIED", true);
    c = *good;
    if (is_mine)
        c.options.buckets = NULL, c.options.bucket_count = 3;
    REFUSED(&c, KITH_ERR_INVALID_ARG, "buckets is NULL", true);
}

static void refuse_differences(rank_info *info, const creation *good, const kith_schedule *other)
{
    creation c = *good;
    bool is_mine = info->rank == 0;
    c.plan = is_mine ? other : good->plan;
    REFUSED(&c, KITH_ERR_MISMATCH, "different plans", false);
    c = *good;
    c.options.message_nbytes += is_mine;
    REFUSED(&c, KITH_ERR_MISMATCH, "different message sizes", false);
    c = *good;
    c.options.shares_loss = is_mine;
    REFUSED(&c, KITH_ERR_MISMATCH, "shares_loss", false);
    c = *good;
    c.options.is_ordered = is_mine;
    REFUSED(&c, KITH_ERR_MISMATCH, "is_ordered", false);
    c = *good;
    c.options.dp_group = info->world; /* replicas have the same stages; these do not */
    REFUSED(&c, KITH_ERR_INVALID_ARG, "ranks with the same stages", false);
    c.options.dp_group = is_mine ? info->world : NULL;
    REFUSED(&c, KITH_ERR_INVALID_ARG, "ranks with the same stages", true);
}

/* Plans that are right as far as messages go. */
static void refuse_plans(rank_info *info, const creation *good)
{
    kith_schedule *lowered, *copy;
    kith_action again = { KITH_ACTION_REDUCE_GRAD, 0, -1, -1, 0 }, step = { KITH_ACTION_OPTIMIZER_STEP, -1, -1, -1, 0 };
    kith_lower_options lower = KITH_LOWER_OPTIONS_INIT;
    creation c = *good;
    REQUIRE_OK(kith_schedule_lower(good->plan, &lower, &lowered));
    REQUIRE_OK(kith_schedule_copy(lowered, &copy));
    REQUIRE_OK(kith_schedule_append(copy, 0, &again));
    c.plan = copy;
    REFUSED(&c, KITH_ERR_INVALID_ARG, "REDUCE_GRAD", false);
    kith_schedule_destroy(copy);
    kith_schedule_destroy(lowered);
    lower.has_step = 0;
    REQUIRE_OK(kith_schedule_lower(good->plan, &lower, &lowered));
    REQUIRE_OK(kith_schedule_copy(lowered, &copy));
    REQUIRE_OK(kith_schedule_append(copy, 0, &step));
    c.plan = copy;
    REFUSED(&c, KITH_ERR_INVALID_ARG, "OPTIMIZER_STEP", false);
    kith_schedule_destroy(copy);
    kith_schedule_destroy(lowered);
}

static void case_creation(rank_info *info)
{
    trial t;
    REQUIRE(info->size >= 2);
    REQUIRE(trial_plan(&t, info, KITH_SCHEDULE_1F1B, 4, 0, &exact));
    kith_schedule *other = toy_plan(KITH_SCHEDULE_GPIPE, info->size, 4, 0, false);
    kith_schedule *small = toy_plan(KITH_SCHEDULE_GPIPE, info->size - 1, 4, 0, false);
    creation good = { t.plan, toy_callbacks(&t.toy), t.options }, c = good;
    c.plan = small;
    REFUSED(&c, KITH_ERR_INVALID_ARG, "on group", false);
    refuse_arguments(info, &good);
    refuse_buckets(info, &good);
    refuse_differences(info, &good, other);
    refuse_plans(info, &good);
    kith_pipeline *pipeline = NULL;
    REQUIRE_STATUS(kith_pipeline_create(t.plan, NULL, &good.callbacks, &good.options, &pipeline), KITH_ERR_INVALID_ARG);
    REQUIRE_STATUS(kith_pipeline_create(t.plan, info->world, &good.callbacks, &good.options, NULL),
                   KITH_ERR_INVALID_ARG);
    REQUIRE_STATUS(kith_pipeline_step(NULL), KITH_ERR_INVALID_ARG);
    REQUIRE(kith_pipeline_slots(NULL, 0) == 0 && kith_pipeline_schedule(NULL) == NULL);
    REQUIRE(kith_pipeline_intervals(NULL, NULL) == NULL);
    kith_pipeline_destroy(NULL);
    trial_start(&t, info->world); /* and the good one */
    REQUIRE(kith_pipeline_slots(t.pipeline, (info->rank + 1) % info->size) == 0);
    REQUIRE(kith_pipeline_slots(t.pipeline, -1) == 0 && kith_pipeline_slots(t.pipeline, 99) == 0);
    REQUIRE_OK(kith_pipeline_step(t.pipeline));
    trial_end(&t);
    kith_schedule_destroy(other);
    kith_schedule_destroy(small);
}

/* A callback that calls the pipeline. */
static kith_pipeline *own_pipeline(kith_pipeline *set)
{
    static _Thread_local kith_pipeline *pipeline;
    pipeline = set != NULL ? set : pipeline;
    return pipeline;
}

static kith_status step_inside(void *user)
{
    (void)user;
    return kith_pipeline_step(own_pipeline(NULL));
}

static void case_nested(rank_info *info)
{
    trial t;
    REQUIRE(trial_plan(&t, info, KITH_SCHEDULE_1F1B, 4, 0, &exact));
    kith_pipeline_callbacks callbacks = toy_callbacks(&t.toy);
    callbacks.zero_grad = step_inside;
    REQUIRE_OK(kith_pipeline_create(t.plan, info->world, &callbacks, &t.options, &t.pipeline));
    toy_attach(&t.toy, t.pipeline);
    own_pipeline(t.pipeline);
    REQUIRE_STATUS(kith_pipeline_step(t.pipeline), KITH_ERR_BUSY);
    trial_end(&t);
}

const pipeline_case pipeline_trouble[] = {
    { "delays", case_delays, false, false },   { "failures", case_failures, false, false },
    { "sharded", case_sharded, false, false }, { "all_fail", case_all_fail, false, false },
    { "kill", case_kill, true, true },         { "late", case_late, false, false },
    { "abort", case_abort, false, false },     { "creation", case_creation, false, false },
    { "nested", case_nested, false, false },   { NULL, NULL, false, false },
};
