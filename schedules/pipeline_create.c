/* schedules/pipeline_create.c - a pipeline is made by all its ranks together, or by none.
 *
 * First each rank makes its part without the others: options, plan, memory. Whatever that gave, it comes to the
 * agreement, so nobody waits for a rank that gave up. Then the ranks compare what must be the same: the plan, the sizes
 * of messages, the options that decide what is exchanged; over dp_group, the buckets. Last the two ranks that share a
 * weight get a group of their own.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "pipeline.h"

#include "core/base/mem.h"

#include <kith/coll.h>
#include <kith/p2p.h>
#include <stddef.h>
#include <stdlib.h>

/* ---- what must be the same ---- */

enum { FACT_PLAN, FACT_MESSAGES, FACT_OPTIONS, FACT_COUNT };

static uint64_t hash_plan(const kith_schedule *s)
{
    int sizes[] = { s->ranks, s->stages, s->microbatches };
    uint64_t hash = ki_hash(KI_HASH_INIT, sizes, sizeof sizes);
    hash = ki_hash(hash, s->rank_of_stage, (size_t)s->stages * sizeof *s->rank_of_stage);
    for (int rank = 0; rank < s->ranks; rank++)
        hash = ki_hash(hash, s->lists[rank].actions, s->lists[rank].count * sizeof *s->lists[rank].actions);
    return hash;
}

static uint64_t hash_messages(const kith_pipeline *p)
{
    uint64_t hash = KI_HASH_INIT;
    for (int boundary = 0; boundary + 1 < p->stages; boundary++) {
        uint64_t nbytes = ki_pipe_program_boundary_nbytes(p, boundary);
        hash = ki_hash(hash, &nbytes, sizeof nbytes);
    }
    return hash;
}

static uint64_t hash_buckets(const kith_pipeline *p)
{
    uint64_t hash = KI_HASH_INIT;
    for (size_t i = 0; i < p->options.bucket_count; i++) {
        const kith_grad_bucket *b = &p->options.buckets[i];
        uint64_t values[] = { (uint64_t)b->stage, b->count, (uint64_t)b->dtype };
        hash = ki_hash(hash, values, sizeof values);
    }
    return hash;
}

static uint64_t pack_options(const kith_pipeline *p)
{
    kith_group *dp_group = p->options.dp_group;
    size_t dp_size = dp_group != NULL ? (size_t)kith_group_size(dp_group) : 0;
    return (uint64_t)dp_size * 4 + (p->options.is_ordered ? 2 : 0) + (p->options.shares_loss ? 1 : 0);
}

/* All ranks see all facts, so they come to the same sentence. what: [FACT_COUNT]. facts: room for all ranks'. */
static kith_status compare(kith_group *group, const uint64_t *mine, uint64_t *facts, const char *const *what,
                           kith_status *verdict)
{
    kith_status status = kith_all_gather(group, mine, facts, FACT_COUNT, KITH_UINT64);
    if (status != KITH_OK)
        return status;
    for (int rank = 1; rank < kith_group_size(group); rank++)
        for (int i = 0; i < FACT_COUNT; i++)
            if (facts[rank * FACT_COUNT + i] != facts[i]) {
                *verdict =
                    ki_fail(KITH_ERR_MISMATCH, "ranks 0 and %d of group '%s' came to a pipeline with different %s",
                            rank, kith_group_name(group), what[i]);
                return KITH_OK;
            }
    return KITH_OK;
}

static kith_status compare_all(kith_pipeline *p, uint64_t *facts, kith_status *verdict)
{
    static const char *const in_pipeline[] = { "plans", "message sizes",
                                               "options (dp_group and its size, is_ordered, shares_loss)" };
    static const char *const in_replicas[] = { "plans", "message sizes", "gradient buckets" };
    uint64_t mine[FACT_COUNT] = { hash_plan(p->schedule), hash_messages(p), pack_options(p) };
    kith_status status = compare(p->group, mine, facts, in_pipeline, verdict);
    if (status != KITH_OK || p->options.dp_group == NULL)
        return status;
    mine[FACT_OPTIONS] = hash_buckets(p);
    return compare(p->options.dp_group, mine, facts, in_replicas, verdict);
}

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

static kith_status take_options(kith_pipeline *p, const kith_pipeline_options *given)
{
    kith_pipeline_options *o = &p->options;
    *o = (kith_pipeline_options)KITH_PIPELINE_OPTIONS_INIT;
    if (given != NULL && !ki_options_copy(o, sizeof *o, given, offsetof(kith_pipeline_options, buckets)))
        return ki_fail(KITH_ERR_INVALID_ARG, "options of a pipeline are not filled with KITH_PIPELINE_OPTIONS_INIT");
    bool is_foreign = o->dp_group != NULL && kith_group_ctx(o->dp_group) != p->ctx;
    if (is_foreign) /* nobody can be met there */
        o->dp_group = NULL;
    if (is_foreign)
        return ki_fail(KITH_ERR_INVALID_ARG, "dp_group is no group of the pipeline's context");
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
        return ki_fail(KITH_ERR_INVALID_ARG, "a plan of %d ranks on group '%s' of %d", schedule->ranks,
                       kith_group_name(p->group), kith_group_size(p->group));
    p->schedule = schedule;
    p->stages = schedule->stages;
    p->microbatches = schedule->microbatches;
    int64_t tags = 2 * (int64_t)p->stages * p->microbatches;
    if (tags - 1 > KITH_TAG_MAX)
        return ki_fail(KITH_ERR_INVALID_ARG, "%d stages and %d microbatches need %lld tags: messages have %lld",
                       p->stages, p->microbatches, (long long)tags, (long long)KITH_TAG_MAX + 1);
    if (!kith_schedule_is_lowered(schedule)) {
        kith_status status = kith_schedule_lower(schedule, NULL, &p->owned_schedule);
        if (status != KITH_OK)
            return status;
        p->schedule = p->owned_schedule;
    }
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

static kith_status make(kith_pipeline *p, const kith_schedule *schedule, const kith_pipeline_callbacks *callbacks,
                        const kith_pipeline_options *options)
{
    kith_status status = take_options(p, options);
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
        status = ki_pipe_program_build(p);
    if (status == KITH_OK)
        status = ki_pipe_pools_allocate(p);
    if (status == KITH_OK)
        status = ki_pipe_ordered_allocate(p);
    return status == KITH_OK ? allocate(p) : status;
}

/* ---- together ---- */

/* The ranks of the first and of the last stage, when the plan adds up a weight that they share. */
static kith_status make_tied_group(kith_pipeline *p)
{
    int ranks[] = { p->schedule->rank_of_stage[0], p->schedule->rank_of_stage[p->stages - 1] };
    bool is_tied = false;
    for (size_t i = 0; i < p->schedule->lists[ranks[0]].count; i++)
        is_tied = is_tied || p->schedule->lists[ranks[0]].actions[i].type == KITH_ACTION_REDUCE_TIED;
    if (!is_tied || ranks[0] == ranks[1])
        return KITH_OK;
    return kith_group_create(p->group, ranks, 2, NULL, &p->tied_group);
}

/* Agreement on what each rank has come to: the verdict is the same everywhere afterwards. */
static kith_status agree(kith_pipeline *p, kith_status *verdict)
{
    if (*verdict != KITH_OK)
        ki_pipe_fail_note(p, *verdict, NULL, NULL);
    kith_status status = ki_pipe_fail_agree(p, *verdict);
    *verdict = p->agreed;
    return status;
}

static kith_status meet(kith_pipeline *p, uint64_t *facts, kith_status *verdict)
{
    kith_status status = agree(p, verdict);
    if (status != KITH_OK || *verdict != KITH_OK)
        return status;
    status = compare_all(p, facts, verdict);
    if (status == KITH_OK)
        status = agree(p, verdict);
    if (status != KITH_OK || *verdict != KITH_OK)
        return status;
    *verdict = make_tied_group(p);
    return agree(p, verdict);
}

/* Makes the part and meets the others; p is filled as far as it came. */
static kith_status make_together(kith_pipeline *p, const kith_schedule *schedule,
                                 const kith_pipeline_callbacks *callbacks, const kith_pipeline_options *options)
{
    kith_status verdict = make(p, schedule, callbacks, options);
    size_t ranks = (size_t)kith_group_size(p->group), replicas = 0;
    if (p->options.dp_group != NULL)
        replicas = (size_t)kith_group_size(p->options.dp_group);
    uint64_t *facts = ki_pipe_zeroed(ranks > replicas ? ranks : replicas, FACT_COUNT * sizeof *facts);
    if (facts == NULL && verdict == KITH_OK)
        verdict = ki_fail(KITH_ERR_NO_MEMORY, "no memory to compare %zu ranks of a pipeline", ranks);
    kith_status status = meet(p, facts, &verdict);
    free(facts);
    if (status != KITH_OK)
        return ki_pipe_fail_end(p, status);
    return verdict == KITH_OK ? KITH_OK : ki_fail_quiet(verdict, "%s", p->detail);
}

/* Without memory for the head there is still a status to bring. */
static kith_status meet_without(kith_group *group, const kith_pipeline_options *options)
{
    kith_pipeline_options o = KITH_PIPELINE_OPTIONS_INIT;
    if (options != NULL)
        ki_options_copy(&o, sizeof o, options, offsetof(kith_pipeline_options, buckets));
    kith_status agreed = KITH_OK;
    kith_status status = ki_pipe_fail_agree_over(group, o.dp_group, KITH_ERR_NO_MEMORY, &agreed);
    if (status == KITH_OK)
        return agreed;
    ki_pipe_fail_abort(group);
    ki_pipe_fail_abort(o.dp_group);
    return status;
}

kith_status kith_pipeline_create(const kith_schedule *schedule, kith_group *group,
                                 const kith_pipeline_callbacks *callbacks, const kith_pipeline_options *options,
                                 kith_pipeline **pipeline)
{
    if (pipeline == NULL || kith_group_rank(group) < 0)
        return ki_fail(KITH_ERR_INVALID_ARG, "kith_pipeline_create(): %s",
                       pipeline == NULL ? "pipeline is NULL" : "group is no group");
    kith_pipeline *p = ki_pipe_zeroed(1, sizeof *p);
    if (p == NULL)
        return meet_without(group, options);
    p->group = group;
    p->ctx = kith_group_ctx(group);
    p->rank = kith_group_rank(group);
    kith_status status = make_together(p, schedule, callbacks, options);
    if (status != KITH_OK) {
        char detail[KI_DETAIL_NBYTES];
        memcpy(detail, p->detail, sizeof detail);
        kith_pipeline_destroy(p);
        return ki_fail_quiet(status, "%s", detail);
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
