/* schedules/pipeline_check.c - is the plan one that can be run with these options?
 *
 * kith_schedule_check() proves the order of computation and messages. Here: what surrounds them. Agreement before the
 * optimizer needs one OPTIMIZER_STEP on every rank or none, behind everything else; a gradient is reduced once, when it
 * is complete; and whatever the caller wants reduced is reduced, since a forgotten reduction would be a silent wrong
 * answer.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "pipeline.h"

#include "core/base/mem.h"
#include "core/op.h"

#include <kith/coll.h>
#include <stdlib.h>

enum { IS_REDUCED = 1, IS_TIED = 2 };

static kith_status refuse(int rank, const kith_action *a, const char *why)
{
    char text[32];
    return ki_fail(KITH_ERR_INVALID_ARG, "rank %d of the plan: %s %s", rank, kith_action_text(a, text, sizeof text),
                   why);
}

static bool may_follow_step(kith_action_type type)
{
    return type == KITH_ACTION_IDLE || type == KITH_ACTION_UNSHARD || type == KITH_ACTION_RESHARD;
}

/* One action. marks: [stages] what was reduced on this rank before it. */
static kith_status check_action(const kith_schedule *s, int rank, const kith_action *a, bool has_stepped,
                                unsigned char *marks)
{
    int stage = a->stage;
    if (has_stepped && !may_follow_step(a->type))
        return refuse(rank, a, "comes after OPTIMIZER_STEP");
    if (stage >= 0 && s->rank_of_stage[stage] != rank)
        return refuse(rank, a, "is of a stage of another rank");
    if (a->type == KITH_ACTION_REDUCE_TIED) {
        if (stage != 0 && stage != s->stages - 1)
            return refuse(rank, a, "is neither of the first nor of the last stage");
        if (marks[stage] != 0)
            return refuse(rank, a, "comes twice, or after REDUCE_GRAD");
        marks[stage] |= IS_TIED;
    } else if (a->type == KITH_ACTION_REDUCE_GRAD) {
        if (marks[stage] & IS_REDUCED)
            return refuse(rank, a, "comes twice");
        marks[stage] |= IS_REDUCED;
    } else if ((a->type == KITH_ACTION_B || a->type == KITH_ACTION_W) && marks[stage] != 0) {
        return refuse(rank, a, "adds to a gradient that was reduced before");
    }
    return KITH_OK;
}

static kith_status check_rank(const kith_schedule *s, int rank, unsigned char *marks, bool *has_step)
{
    *has_step = false;
    for (size_t i = 0; i < s->lists[rank].count; i++) {
        const kith_action *a = &s->lists[rank].actions[i];
        kith_status status = check_action(s, rank, a, *has_step, marks);
        if (status != KITH_OK)
            return status;
        *has_step = *has_step || a->type == KITH_ACTION_OPTIMIZER_STEP;
    }
    return KITH_OK;
}

static kith_status check_tied(const kith_pipeline *p, const unsigned char *marks)
{
    int first = p->schedule->rank_of_stage[0], last = p->schedule->rank_of_stage[p->stages - 1];
    bool at_first = marks[0] & IS_TIED, at_last = marks[p->stages - 1] & IS_TIED, has_one = p->options.tied != NULL;
    if (at_first != at_last)
        return ki_fail(KITH_ERR_INVALID_ARG, "the plan has REDUCE_TIED of stage %d and none of stage %d",
                       at_first ? 0 : p->stages - 1, at_first ? p->stages - 1 : 0);
    if (has_one && p->rank != first && p->rank != last)
        return ki_fail(KITH_ERR_INVALID_ARG, "tied weights on rank %d: the first stage is on rank %d, the last on %d",
                       p->rank, first, last);
    if (first == last) /* one copy */
        return KITH_OK;
    if (has_one && !at_first)
        return ki_fail(KITH_ERR_INVALID_ARG, "tied weights, but the plan has no REDUCE_TIED: lower its computation "
                                             "(kith_schedule_compute_only()) with has_tied");
    if (!has_one && at_first && (p->rank == first || p->rank == last))
        return ki_fail(KITH_ERR_INVALID_ARG, "the plan has REDUCE_TIED, but options.tied is NULL on rank %d", p->rank);
    return KITH_OK;
}

static kith_status check_bucket(const kith_pipeline *p, const kith_grad_bucket *b, const char *what)
{
    if (b->stage < 0 || b->stage >= p->stages || p->schedule->rank_of_stage[b->stage] != p->rank)
        return ki_fail(KITH_ERR_INVALID_ARG, "%s of stage %d, which is not on rank %d", what, b->stage, p->rank);
    if (kith_dtype_nbytes(b->dtype) == 0)
        return ki_fail(KITH_ERR_INVALID_ARG, "%s of stage %d: %d is no dtype (0 to %d)", what, b->stage, (int)b->dtype,
                       KITH_DTYPE_COUNT - 1);
    if (b->grad == NULL && b->count > 0)
        return ki_fail(KITH_ERR_INVALID_ARG, "%s of stage %d: grad is NULL", what, b->stage);
    size_t nbytes;
    if (!ki_mul(b->count, kith_dtype_nbytes(b->dtype), &nbytes) || nbytes > PTRDIFF_MAX)
        return ki_fail(KITH_ERR_INVALID_ARG, "%s of stage %d: %zu elements of %s do not fit into memory", what,
                       b->stage, b->count, kith_dtype_name(b->dtype));
    return KITH_OK;
}

/* Before a step could fail over it, and with it the group. */
static kith_status check_op(const kith_pipeline *p)
{
    const kith_pipeline_options *o = &p->options;
    if (ki_op_get(p->ctx, o->dp_op) == NULL)
        return ki_fail(KITH_ERR_INVALID_ARG,
                       "dp_op: %d is no operator of this context (sum, prod, min, max, avg, band, bor, bxor, or one "
                       "that was created)",
                       (int)o->dp_op);
    for (size_t i = 0; i < o->bucket_count && o->dp_group != NULL; i++) {
        kith_status status = kith_coll_query(o->dp_group, KITH_ALL_REDUCE, o->buckets[i].dtype, o->dp_op);
        if (status != KITH_OK)
            return ki_fail_context(status, "dp_op for a gradient bucket of stage %d", o->buckets[i].stage);
    }
    return KITH_OK;
}

/* Its stage is the one whose REDUCE_TIED this rank has. */
static kith_status check_tied_bucket(const kith_pipeline *p)
{
    const kith_grad_bucket *tied = p->options.tied;
    if (tied == NULL)
        return KITH_OK;
    kith_status status = check_bucket(p, tied, "a tied weight");
    if (status == KITH_OK && tied->stage != 0 && tied->stage != p->stages - 1)
        return ki_fail(KITH_ERR_INVALID_ARG,
                       "a tied weight of stage %d: the first stage, 0, and the last, %d, share it", tied->stage,
                       p->stages - 1);
    return status;
}

static kith_status check_buckets(const kith_pipeline *p, const unsigned char *marks)
{
    const kith_pipeline_options *o = &p->options;
    if (o->bucket_count > 0 && o->buckets == NULL)
        return ki_fail(KITH_ERR_INVALID_ARG, "%zu gradient buckets, but buckets is NULL", o->bucket_count);
    for (size_t i = 0; i < o->bucket_count; i++) {
        const kith_grad_bucket *b = &o->buckets[i];
        kith_status status = check_bucket(p, b, "a gradient bucket");
        if (status != KITH_OK)
            return status;
        if (o->dp_group != NULL && p->schedule->has_backward && !(marks[b->stage] & IS_REDUCED))
            return ki_fail(KITH_ERR_INVALID_ARG, "a gradient bucket of stage %d, but the plan has no %dREDUCE_GRAD",
                           b->stage, b->stage);
        if (o->is_ordered && b->dtype != KITH_F32 && b->dtype != KITH_F64)
            return ki_fail(KITH_ERR_UNSUPPORTED, "is_ordered with a gradient bucket of %s: f32 and f64 can be",
                           kith_dtype_name(b->dtype));
    }
    kith_status status = check_tied_bucket(p);
    return status == KITH_OK ? check_op(p) : status;
}

static kith_status check_ranks(const kith_pipeline *p, unsigned char *marks)
{
    bool first_steps = false;
    for (int rank = 0; rank < p->schedule->ranks; rank++) {
        bool steps;
        kith_status status = check_rank(p->schedule, rank, marks, &steps);
        if (status != KITH_OK)
            return status;
        first_steps = rank == 0 ? steps : first_steps;
        if (steps != first_steps)
            return ki_fail(KITH_ERR_INVALID_ARG, "the plan has an OPTIMIZER_STEP on rank %d and none on rank %d",
                           steps ? rank : 0, steps ? 0 : rank);
    }
    return KITH_OK;
}

kith_status ki_pipe_check(const kith_pipeline *p)
{
    unsigned char *marks = ki_pipe_zeroed((size_t)p->stages, sizeof *marks);
    if (marks == NULL)
        return ki_fail(KITH_ERR_NO_MEMORY, "no memory to check a plan of %d stages", p->stages);
    kith_status status = check_ranks(p, marks);
    if (status == KITH_OK)
        status = check_buckets(p, marks);
    if (status == KITH_OK)
        status = check_tied(p, marks);
    free(marks);
    return status;
}
