/* schedules/pipeline_create.c - a pipeline is made by all its ranks together, or by none.
 *
 * First each rank makes its part without the others: options, plan, memory. Whatever that gave, it comes to the
 * agreement, so nobody waits for a rank that gave up. Then the ranks compare what must be the same: first those of
 * the pipeline among themselves, and only then over dp_group, which a rank may have been given by mistake, or not at
 * all. Last the two ranks that share a weight get a group of their own.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "pipeline.h"

#include "core/base/mem.h"

#include <kith/coll.h>
#include <kith/p2p.h>
#include <stddef.h>
#include <stdlib.h>

/* ---- this rank's part ---- */

static kith_status take_callbacks(kith_pipeline *p, const kith_pipeline_callbacks *given)
{
    p->callbacks = (kith_pipeline_callbacks)KITH_PIPELINE_CALLBACKS_INIT;
    if (given == NULL ||
        !ki_options_copy(&p->callbacks, sizeof p->callbacks, given, offsetof(kith_pipeline_callbacks, loss)))
        return ki_fail(KITH_ERR_INVALID_ARG, "callbacks of a pipeline are %s",
                       given == NULL ? "NULL" : "not filled with KITH_PIPELINE_CALLBACKS_INIT");
    return KITH_OK;
}

/* Of a dp_group that is none, nobody can be met; of one that holds a second rank of the pipeline, not in the order in
 * which all others meet. */
static kith_status check_dp_group(kith_group *group, kith_group *dp_group)
{
    if (dp_group == NULL)
        return KITH_OK;
    if (kith_group_rank(dp_group) < 0 || kith_group_ctx(dp_group) != kith_group_ctx(group))
        return ki_fail(KITH_ERR_INVALID_ARG, "dp_group is no group of the pipeline's context");
    for (int rank = 0; rank < kith_group_size(group); rank++)
        if (rank != kith_group_rank(group) &&
            kith_group_rank_of_world(dp_group, kith_group_world_rank(group, rank)) >= 0)
            return ki_fail(KITH_ERR_INVALID_ARG,
                           "dp_group '%s' holds ranks %d and %d of the pipeline: it is for ranks with the same stages",
                           kith_group_name(dp_group), kith_group_rank(group), rank);
    return KITH_OK;
}

/* Fills o as far as the options are good; dp_group is NULL where it is not. */
static kith_status take_options(kith_group *group, kith_pipeline_options *o, const kith_pipeline_options *given)
{
    *o = (kith_pipeline_options)KITH_PIPELINE_OPTIONS_INIT;
    if (given != NULL && !ki_options_copy(o, sizeof *o, given, offsetof(kith_pipeline_options, buckets)))
        return ki_fail(KITH_ERR_INVALID_ARG, "options of a pipeline are not filled with KITH_PIPELINE_OPTIONS_INIT");
    kith_status status = check_dp_group(group, o->dp_group);
    if (status != KITH_OK) {
        o->dp_group = NULL;
        return status;
    }
    if (o->prefetch < 0)
        return ki_fail(KITH_ERR_INVALID_ARG, "prefetch %d: valid are 0 (one message) and up", o->prefetch);
    o->prefetch = o->prefetch == 0 ? 1 : o->prefetch;
    return KITH_OK;
}

static kith_status take_schedule(kith_pipeline *p, const kith_schedule *schedule)
{
    if (schedule == NULL)
        return ki_fail(KITH_ERR_INVALID_ARG, "kith_pipeline_create(): schedule is NULL");
    if (schedule->ranks != kith_group_size(p->group))
        return ki_fail(KITH_ERR_INVALID_ARG, "a plan of %d rank%s on group '%s' of %d", schedule->ranks,
                       schedule->ranks == 1 ? "" : "s", kith_group_name(p->group), kith_group_size(p->group));
    p->schedule = schedule;
    p->stages = schedule->stages;
    p->microbatches = schedule->microbatches;
    int64_t tags = 2 * (int64_t)p->stages * p->microbatches;
    if (tags - 1 > KITH_TAG_MAX)
        return ki_fail(KITH_ERR_INVALID_ARG, "%d stage%s and %d microbatches need %lld tags: messages have %lld",
                       p->stages, p->stages == 1 ? "" : "s", p->microbatches, (long long)tags,
                       (long long)KITH_TAG_MAX + 1);
    kith_status status = kith_schedule_is_lowered(schedule) ? ki_pipe_complete(schedule, &p->owned_schedule)
                                                            : kith_schedule_lower(schedule, NULL, &p->owned_schedule);
    if (status != KITH_OK)
        return status;
    if (p->owned_schedule != NULL)
        p->schedule = p->owned_schedule;
    return kith_schedule_check(p->schedule, NULL, NULL);
}

static kith_status check_callbacks(const kith_pipeline *p)
{
    const kith_pipeline_callbacks *c = &p->callbacks;
    if (c->forward == NULL || (c->backward == NULL && p->schedule->has_backward))
        return ki_fail(KITH_ERR_INVALID_ARG, "a pipeline without a %s callback",
                       c->forward == NULL ? "forward" : "backward");
    if (p->options.shares_loss && c->loss == NULL && ki_pipe_has_stage(p, p->stages - 1))
        return ki_fail(KITH_ERR_INVALID_ARG, "shares_loss without a loss callback on the rank of the last stage");
    return KITH_OK;
}

static kith_status check_sizes(const kith_pipeline *p)
{
    for (int boundary = 0; boundary + 1 < p->stages; boundary++) {
        size_t nbytes = ki_pipe_program_boundary_nbytes(p, boundary);
        if (nbytes == 0 || nbytes > PTRDIFF_MAX / 2)
            return ki_fail(KITH_ERR_INVALID_ARG, "messages of %zu bytes from stage %d to %d: set message_nbytes",
                           nbytes, boundary, boundary + 1);
    }
    return KITH_OK;
}

static kith_status allocate(kith_pipeline *p)
{
    bool knows_losses = p->options.shares_loss || (p->callbacks.loss != NULL && ki_pipe_has_stage(p, p->stages - 1));
    p->reductions = ki_pipe_zeroed(p->options.bucket_count, sizeof *p->reductions);
    if (knows_losses) {
        p->losses = ki_pipe_zeroed((size_t)p->microbatches, sizeof *p->losses);
        p->next_losses = ki_pipe_zeroed((size_t)p->microbatches, sizeof *p->next_losses);
    }
    if (p->options.keeps_times)
        p->intervals = ki_pipe_zeroed(p->action_count, sizeof *p->intervals);
    bool is_good = p->reductions != NULL && (!knows_losses || (p->losses != NULL && p->next_losses != NULL)) &&
                   (!p->options.keeps_times || p->intervals != NULL);
    return is_good ? KITH_OK
                   : ki_fail(KITH_ERR_NO_MEMORY, "no memory for a pipeline of %d microbatches", p->microbatches);
}

/* Messages and reductions of what is on the device are ordered with the stages' stream. */
static kith_status join_device(kith_pipeline *p)
{
    p->space = (ki_space){ .device = p->options.device, .stream = p->options.stream };
    kith_status status = ki_space_join(&p->space, p->group);
    return status == KITH_OK ? ki_space_join(&p->space, p->options.dp_group) : status;
}

static kith_status make(kith_pipeline *p, const kith_schedule *schedule, const kith_pipeline_callbacks *callbacks,
                        const kith_pipeline_options *options)
{
    kith_status status = take_options(p->group, &p->options, options);
    if (status == KITH_OK)
        status = ki_pipe_compare_allocate(p);
    if (status == KITH_OK)
        status = take_callbacks(p, callbacks);
    if (status == KITH_OK)
        status = take_schedule(p, schedule);
    if (status == KITH_OK)
        status = check_callbacks(p);
    if (status == KITH_OK)
        status = check_sizes(p);
    if (status == KITH_OK)
        status = ki_pipe_check(p);
    if (status == KITH_OK)
        status = ki_pipe_device_check(p);
    if (status == KITH_OK)
        status = join_device(p);
    if (status == KITH_OK)
        status = ki_pipe_program_build(p);
    if (status == KITH_OK)
        status = ki_pipe_pools_allocate(p);
    if (status == KITH_OK)
        status = ki_pipe_ordered_allocate(p);
    return status == KITH_OK ? allocate(p) : status;
}

/* ---- together ---- */

static bool is_tied(const kith_pipeline *p)
{
    int first = p->schedule->rank_of_stage[0], last = p->schedule->rank_of_stage[p->stages - 1];
    const ki_action_list *list = &p->schedule->lists[first];
    for (size_t i = 0; i < list->count && first != last; i++)
        if (list->actions[i].type == KITH_ACTION_REDUCE_TIED)
            return true;
    return false;
}

/* The ranks of the first and of the last stage, when the plan adds up a weight that they share. */
static kith_status make_tied_group(kith_pipeline *p)
{
    int ranks[] = { p->schedule->rank_of_stage[0], p->schedule->rank_of_stage[p->stages - 1] };
    kith_status status = kith_group_create(p->group, ranks, 2, NULL, &p->tied_group);
    if (status != KITH_OK || p->tied_group == NULL)
        return status;
    status = ki_space_join(&p->space, p->tied_group);
    if (status != KITH_OK)
        return status;
    return kith_coll_query(p->tied_group, KITH_ALL_REDUCE, p->options.tied->dtype, KITH_SUM);
}

/* In p->own what this rank has come to; in p->agreed what all have. A round ends with the same verdict on all ranks of
 * all replicas. Returns the failure of a group. */
static kith_status meet_pipeline(kith_pipeline *p)
{
    p->agreed = p->own;
    kith_status status = ki_pipe_agree_over(p->group, &p->agreed);
    if (status == KITH_OK && p->agreed.status == KITH_OK)
        status = ki_pipe_compare_ranks(p, &p->agreed);
    if (status == KITH_OK && p->options.dp_group != NULL)
        status = ki_pipe_agree_over(p->options.dp_group, &p->agreed);
    return status;
}

static kith_status meet_replicas(kith_pipeline *p)
{
    if (p->options.dp_group == NULL)
        return KITH_OK;
    kith_status status = ki_pipe_compare_replicas(p, &p->agreed);
    return status == KITH_OK ? ki_pipe_agree(p->group, p->options.dp_group, &p->agreed) : status;
}

static kith_status meet_tied(kith_pipeline *p)
{
    if (!is_tied(p))
        return KITH_OK;
    ki_pipe_verdict_take(&p->own, make_tied_group(p));
    return ki_pipe_fail_agree(p);
}

static kith_status meet(kith_pipeline *p)
{
    static kith_status (*const rounds[])(kith_pipeline *) = { meet_pipeline, meet_replicas, meet_tied };
    for (size_t i = 0; i < sizeof rounds / sizeof rounds[0]; i++) {
        kith_status status = rounds[i](p);
        if (status != KITH_OK)
            return ki_pipe_fail_end(p, status);
        if (p->agreed.status != KITH_OK)
            return ki_pipe_verdict_return(&p->agreed);
    }
    return KITH_OK;
}

/* Without a pipeline there is still a status to bring, as in meet_pipeline(). Its sentence is stored. */
static kith_status meet_without(kith_group *group, const kith_pipeline_options *given, kith_status mine)
{
    ki_pipe_verdict v;
    ki_pipe_verdict_clear(&v, group);
    ki_pipe_verdict_take(&v, mine);
    kith_pipeline_options o;
    take_options(group, &o, given); /* for dp_group alone */
    kith_status status = ki_pipe_agree(group, o.dp_group, &v);
    if (status == KITH_OK)
        return ki_pipe_verdict_return(&v);
    ki_pipe_fail_abort(group);
    ki_pipe_fail_abort(o.dp_group);
    return status;
}

kith_status kith_pipeline_create(const kith_schedule *schedule, kith_group *group,
                                 const kith_pipeline_callbacks *callbacks, const kith_pipeline_options *options,
                                 kith_pipeline **pipeline)
{
    if (kith_group_rank(group) < 0)
        return ki_fail(KITH_ERR_INVALID_ARG, "kith_pipeline_create(): group is no group");
    if (pipeline == NULL)
        return meet_without(group, options, ki_fail(KITH_ERR_INVALID_ARG, "kith_pipeline_create(): pipeline is NULL"));
    kith_pipeline *p = ki_pipe_zeroed(1, sizeof *p);
    if (p == NULL)
        return meet_without(group, options, ki_fail(KITH_ERR_NO_MEMORY, "no memory for a pipeline"));
    p->group = group;
    p->ctx = kith_group_ctx(group);
    p->rank = kith_group_rank(group);
    ki_pipe_verdict_clear(&p->own, group);
    ki_pipe_verdict_take(&p->own, make(p, schedule, callbacks, options));
    kith_status status = meet(p);
    free(p->facts);
    p->facts = NULL;
    if (status != KITH_OK) {
        ki_pipe_verdict failed = p->fatal.status != KITH_OK ? p->fatal : p->agreed;
        kith_pipeline_destroy(p);
        return ki_pipe_verdict_return(&failed);
    }
    *pipeline = p;
    return KITH_OK;
}

void kith_pipeline_destroy(kith_pipeline *p)
{
    if (p == NULL)
        return;
    kith_group_destroy(p->tied_group);
    ki_pipe_pools_free(p);
    ki_pipe_ordered_free(p);
    for (int direction = 0; direction < KI_DIRECTIONS; direction++)
        free(p->receives[direction].at);
    free(p->is_last_call);
    free(p->slots);
    free(p->pairs);
    free(p->pool_of);
    free(p->reductions);
    free(p->losses);
    free(p->next_losses);
    free(p->intervals);
    kith_schedule_destroy(p->owned_schedule);
    free(p);
}
