/* tests/schedules/pipeline_meeting.c - ranks and replicas that come to a pipeline with different things, and whose
 * sentence all of them get when one fails.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "pipeline_cases.h"

#include <kith/p2p.h>
#include <kith/pipeline.h>
#include <string.h>

static const toy_options exact = { .replicas = 1, .is_exact = true };

/* ---- help ---- */

/* Two replicas of a pipeline, each on half of the ranks. */
typedef struct replicas {
    kith_group *pp, *dp;
    int replica;
} replicas;

static void split(rank_info *info, replicas *r)
{
    REQUIRE(info->size % 2 == 0);
    int half = info->size / 2;
    r->replica = info->rank / half;
    REQUIRE_OK(kith_group_split(info->world, r->replica, info->rank, NULL, &r->pp));
    REQUIRE_OK(kith_group_split(info->world, info->rank % half, info->rank, NULL, &r->dp));
}

static void join_again(replicas *r)
{
    REQUIRE_OK(kith_group_destroy(r->pp));
    REQUIRE_OK(kith_group_destroy(r->dp));
}

/* All ranks have the same sentence. */
static void expect_one_sentence(rank_info *info)
{
    char mine[512] = "", first[512];
    snprintf(mine, sizeof mine, "%s", kith_error_detail());
    memcpy(first, mine, sizeof first);
    REQUIRE_OK(kith_broadcast(info->world, first, sizeof first, KITH_UINT8, 0));
    if (strcmp(mine, first) != 0)
        rank_fail(__FILE__, __LINE__, "sentences differ: rank 0 has '%s', this rank '%s'", first, mine);
}

/* Creation fails everywhere alike; the groups go on. */
static void refused(rank_info *info, const trial *t, kith_group *group, const kith_pipeline_callbacks *callbacks,
                    const kith_pipeline_options *options, kith_status wanted, const char *part, int line)
{
    kith_pipeline *pipeline = NULL;
    kith_status status = kith_pipeline_create(t->plan, group, callbacks, options, &pipeline);
    if (status != wanted || pipeline != NULL)
        rank_fail(__FILE__, line, "wanted %s, got %s: %s", kith_status_name(wanted), kith_status_name(status),
                  kith_error_detail());
    require_text(__FILE__, line, kith_error_detail(), part);
    expect_one_sentence(info);
    REQUIRE_OK(kith_barrier(info->world));
}

static void lower_with_tied(trial *t)
{
    kith_lower_options lower = KITH_LOWER_OPTIONS_INIT;
    kith_schedule *lowered;
    lower.has_tied = 1;
    REQUIRE_OK(kith_schedule_lower(t->plan, &lower, &lowered));
    kith_schedule_destroy(t->plan);
    t->toy.plan = t->plan = lowered;
}

/* ---- tied weights ---- */

/* First and last stage bring different weights: a sum of them would be wrong, or would never end. */
static void case_meeting_tied(rank_info *info)
{
    trial t;
    REQUIRE(trial_plan(&t, info, KITH_SCHEDULE_1F1B, 4, 0, &exact));
    lower_with_tied(&t);
    kith_pipeline_callbacks callbacks = toy_callbacks(&t.toy);
    int last = info->size - 1;
    double grad[8] = { 0 };
    kith_grad_bucket tied = { info->rank == 0 ? 0 : last, grad, 3, KITH_F64 };
    t.options.tied = info->rank == 0 || info->rank == last ? &tied : NULL;
    tied.count = info->rank == 0 ? 8 : 3;
    refused(info, &t, info->world, &callbacks, &t.options, KITH_ERR_MISMATCH, "8 elements of f64", __LINE__);
    tied.count = 3;
    tied.dtype = info->rank == 0 ? KITH_F32 : KITH_F64;
    refused(info, &t, info->world, &callbacks, &t.options, KITH_ERR_MISMATCH, "3 elements of f32", __LINE__);
    tied.dtype = KITH_F64;
    trial_start(&t, info->world);
    trial_end(&t);
}

/* A rank with several stages: the weight is of the first or the last, not of one between. */
static void refuse_middle_stage(rank_info *info)
{
    trial t;
    REQUIRE(trial_plan(&t, info, KITH_SCHEDULE_INTERLEAVED, 4, 0, &exact));
    lower_with_tied(&t);
    kith_pipeline_callbacks callbacks = toy_callbacks(&t.toy);
    int last = info->size - 1;
    double grad[3] = { 0 };
    kith_grad_bucket tied = { info->rank == 0 ? info->size : kith_schedule_stages(t.plan) - 1, grad, 3, KITH_F64 };
    t.options.tied = info->rank == 0 || info->rank == last ? &tied : NULL;
    refused(info, &t, info->world, &callbacks, &t.options, KITH_ERR_INVALID_ARG, "world rank 0: a tied weight of stage",
            __LINE__);
    trial_end(&t);
}

/* ---- replicas ---- */

static void refuse_operators(rank_info *info, replicas *r, trial *t)
{
    kith_pipeline_callbacks callbacks = toy_callbacks(&t->toy);
    kith_pipeline_options o = t->options;
    o.dp_op = r->replica == 1 ? KITH_MAX : KITH_SUM;
    refused(info, t, r->pp, &callbacks, &o, KITH_ERR_MISMATCH, "dp_op", __LINE__);
    o.dp_op = kith_group_rank(r->pp) == 0 ? KITH_MAX : KITH_SUM;
    if (kith_group_size(r->pp) > 1)
        refused(info, t, r->pp, &callbacks, &o, KITH_ERR_MISMATCH, "dp_op", __LINE__);
}

static void refuse_bad_operators(rank_info *info, replicas *r, trial *t)
{
    kith_pipeline_callbacks callbacks = toy_callbacks(&t->toy);
    kith_pipeline_options o = t->options;
    o.dp_op = 99;
    refused(info, t, r->pp, &callbacks, &o, KITH_ERR_INVALID_ARG, "99 is no operator", __LINE__);
    o.dp_op = info->rank == info->size - 1 ? 99 : KITH_SUM;
    char part[64];
    snprintf(part, sizeof part, "world rank %d: dp_op: 99", info->size - 1);
    refused(info, t, r->pp, &callbacks, &o, KITH_ERR_INVALID_ARG, part, __LINE__);
    o.dp_op = KITH_BAND;
    refused(info, t, r->pp, &callbacks, &o, KITH_ERR_UNSUPPORTED, "band", __LINE__);
}

/* Numbers of operators that were made are each rank's own; what they do is compared. */
static void compare_scalars(rank_info *info, replicas *r, trial *t)
{
    kith_pipeline_callbacks callbacks = toy_callbacks(&t->toy);
    kith_op half, quarter;
    bool is_odd = info->rank % 2 != 0;
    REQUIRE_OK(kith_op_create_premul_sum(info->ctx, is_odd ? 0.25 : 0.5, is_odd ? &quarter : &half));
    REQUIRE_OK(kith_op_create_premul_sum(info->ctx, is_odd ? 0.5 : 0.25, is_odd ? &half : &quarter));
    kith_pipeline_options o = t->options;
    o.dp_op = info->rank == 0 ? quarter : half;
    refused(info, t, r->pp, &callbacks, &o, KITH_ERR_MISMATCH, "dp_op", __LINE__);
    o.dp_op = half;
    kith_pipeline *pipeline;
    REQUIRE_OK(kith_pipeline_create(t->plan, r->pp, &callbacks, &o, &pipeline));
    kith_pipeline_destroy(pipeline);
    REQUIRE_OK(kith_op_destroy(info->ctx, half));
    REQUIRE_OK(kith_op_destroy(info->ctx, quarter));
}

static void refuse_different_replicas(rank_info *info, replicas *r, trial *t)
{
    kith_pipeline_callbacks callbacks = toy_callbacks(&t->toy);
    kith_pipeline_options o = t->options;
    bool is_last = info->rank == info->size - 1;
    kith_grad_bucket less = t->toy.buckets[0];
    less.count--;
    o.buckets = is_last ? &less : o.buckets;
    refused(info, t, r->pp, &callbacks, &o, KITH_ERR_MISMATCH, "gradient buckets", __LINE__);
    o = t->options;
    o.is_ordered = r->replica;
    refused(info, t, r->pp, &callbacks, &o, KITH_ERR_MISMATCH, "is_ordered", __LINE__);
    o = t->options;
    o.message_nbytes += r->replica == 1 ? 8 : 0;
    if (kith_group_size(r->pp) > 1) /* else there are no messages */
        refused(info, t, r->pp, &callbacks, &o, KITH_ERR_MISMATCH, "message sizes", __LINE__);
}

/* Its own: nothing that others see depends on it. */
static void accept_own_options(rank_info *info, replicas *r, trial *t)
{
    t->options.prefetch = 1 + info->rank;
    t->options.keeps_times = info->rank % 2;
    t->toy.is_poisoned = info->rank % 2 != 0;
    t->options.is_poisoned = t->toy.is_poisoned;
    trial_start(t, r->pp);
    REQUIRE_OK(kith_pipeline_step(t->pipeline));
}

static void case_meeting_replicas(rank_info *info)
{
    replicas r;
    split(info, &r);
    toy_options o = exact;
    o.replicas = 2;
    trial t;
    REQUIRE(trial_plan_on(&t, info->size / 2, kith_group_rank(r.pp), KITH_SCHEDULE_1F1B, 4, 0, &o));
    t.toy.replica = r.replica;
    t.options.dp_group = r.dp;
    refuse_operators(info, &r, &t);
    refuse_bad_operators(info, &r, &t);
    compare_scalars(info, &r, &t);
    refuse_different_replicas(info, &r, &t);
    accept_own_options(info, &r, &t);
    trial_end(&t);
    join_again(&r);
    if (info->size > 2)
        refuse_middle_stage(info);
}

/* ---- whose sentence ---- */

static int failing_rank(int set)
{
    static _Thread_local int rank;
    rank = set >= 0 ? set : rank;
    return rank;
}

/* Fails in the library, with the library's sentence. */
static kith_status forward_that_sends(void *user, const kith_stage_call *call)
{
    (void)user;
    if (failing_rank(-1) == 0 || call->microbatch != 1)
        return KITH_OK;
    return kith_coll_query(NULL, KITH_BARRIER, KITH_F32, KITH_SUM);
}

/* An old failure has nothing to do with a status that is returned now. */
static kith_status forward_that_says_nothing(void *user, const kith_stage_call *call)
{
    (void)user;
    return failing_rank(-1) != 0 && call->microbatch == 1 ? KITH_ERR_IO : KITH_OK;
}

static kith_status backward_of_nothing(void *user, const kith_stage_call *call)
{
    (void)user;
    (void)call;
    return KITH_OK;
}

static void expect_sentence(rank_info *info, replicas *r, const trial *t, int failing, bool has_cause)
{
    kith_pipeline_callbacks callbacks = KITH_PIPELINE_CALLBACKS_INIT;
    callbacks.forward = has_cause ? forward_that_sends : forward_that_says_nothing;
    callbacks.backward = backward_of_nothing;
    failing_rank(info->rank == failing);
    kith_pipeline *pipeline;
    REQUIRE_OK(kith_pipeline_create(t->plan, r->pp, &callbacks, &t->options, &pipeline));
    kith_op op;
    REQUIRE_STATUS(kith_op_parse("stale", &op), KITH_ERR_INVALID_ARG); /* a sentence that must not be told */
    REQUIRE_STATUS(kith_pipeline_step(pipeline), has_cause ? KITH_ERR_INVALID_ARG : KITH_ERR_IO);
    int half = info->size / 2;
    char who[96];
    snprintf(who, sizeof who, "world rank %d: forward of stage %d, microbatch 1, on rank %d", failing, failing % half,
             failing % half);
    REQUIRE_DETAIL(who);
    if (has_cause)
        REQUIRE_DETAIL("kith_coll_query");
    REQUIRE(strstr(kith_error_detail(), "stale") == NULL);
    expect_one_sentence(info);
    kith_pipeline_destroy(pipeline);
}

/* Over two groups the rank that brings the news to the second is not the one that failed. */
static void case_sentence(rank_info *info)
{
    replicas r;
    split(info, &r);
    trial t;
    REQUIRE(trial_plan_on(&t, info->size / 2, kith_group_rank(r.pp), KITH_SCHEDULE_1F1B, 4, 0, &exact));
    t.options.dp_group = r.dp;
    for (int failing = 0; failing < info->size; failing++) {
        expect_sentence(info, &r, &t, failing, true);
        expect_sentence(info, &r, &t, failing, false);
        kith_pipeline_callbacks callbacks = toy_callbacks(&t.toy);
        callbacks.forward = info->rank == failing ? NULL : callbacks.forward;
        char who[64];
        snprintf(who, sizeof who, "world rank %d: a pipeline without a forward", failing);
        refused(info, &t, r.pp, &callbacks, &t.options, KITH_ERR_INVALID_ARG, who, __LINE__);
    }
    trial_end(&t);
    join_again(&r);
}

/* A rank without a place for the result, or with options that are none, comes to the agreement as well. */
static void case_no_pipeline(rank_info *info)
{
    replicas r;
    split(info, &r);
    trial t;
    REQUIRE(trial_plan_on(&t, info->size / 2, kith_group_rank(r.pp), KITH_SCHEDULE_1F1B, 4, 0, &exact));
    kith_pipeline_callbacks callbacks = toy_callbacks(&t.toy);
    bool is_last = info->rank == info->size - 1;
    char who[64];
    snprintf(who, sizeof who, "world rank %d: ", info->size - 1);
    for (int has_dp = 0; has_dp < 2; has_dp++) {
        kith_pipeline *pipeline = NULL;
        t.options.dp_group = has_dp ? r.dp : NULL;
        kith_status status = kith_pipeline_create(t.plan, r.pp, &callbacks, &t.options, is_last ? NULL : &pipeline);
        bool is_concerned = has_dp || r.replica == 1;
        REQUIRE_STATUS(status, is_concerned ? KITH_ERR_INVALID_ARG : KITH_OK);
        if (is_concerned) {
            REQUIRE_DETAIL(who);
            REQUIRE_DETAIL("pipeline is NULL");
        }
        kith_pipeline_destroy(pipeline);
    }
    t.options.dp_group = NULL;
    if (info->size > 2) { /* alone, a stage sends nothing and needs no size */
        kith_pipeline *pipeline = NULL;
        REQUIRE_STATUS(kith_pipeline_create(t.plan, r.pp, &callbacks, is_last ? NULL : &t.options, &pipeline),
                       r.replica == 1 ? KITH_ERR_INVALID_ARG : KITH_OK);
        kith_pipeline_destroy(pipeline);
    }
    trial_end(&t);
    join_again(&r);
}

const pipeline_case pipeline_meeting[] = {
    { "meeting_tied", case_meeting_tied, false, false },
    { "meeting_replicas", case_meeting_replicas, false, false },
    { "sentence", case_sentence, false, false },
    { "no_pipeline", case_no_pipeline, false, false },
    { NULL, NULL, false, false },
};
