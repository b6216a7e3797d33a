/* schedules/lower.c - kith_schedule_lower(): messages and all else that a step needs, and back.
 *
 * All lists are walked at once in the order of a clock (lower_run.c). What happens is appended to the new lists: an
 * action to its own list when it starts, a message to both lists when its data are ready, REDUCE_TIED to both lists
 * when both stages have their gradients. So there is one global order e1, e2, ... of everything, and each list is
 * that order with the events of other ranks left out.
 *
 * The lists run to their ends even if a send waits for its receive. Proof, by going through the global order: let all
 * before e(k) be done. If e(k) is computation, its rank stands at it, and its data came earlier in the order. If it
 * is a message, both of its ranks have done all that stands before it in their lists, so both stand at it, and it
 * happens. Thus all of e1 .. e(k) can be done, for each k. That one order works is enough, since an action that may
 * run is never stopped by others running first. Connections that hold messages only make waits shorter, and one
 * ordered connection between two ranks carries the messages in the order on which both lists agree.
 *
 * Nor do messages cost time beyond what they take. A receive stands behind everything that started before the
 * message was sent, so a rank that comes to it and waits, waits for a message that is on its way. In particular rank
 * r starts its first F at r * F: no receive of a later microbatch stands before the send of an earlier one.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "lower.h"

#include "core/base/error.h"
#include "core/base/mem.h"

#include <stdio.h>
#include <stdlib.h>

static kith_status take_options(const kith_schedule *s, const kith_lower_options *given, kith_lower_options *o)
{
    *o = (kith_lower_options)KITH_LOWER_OPTIONS_INIT;
    if (given != NULL && !ki_options_copy(o, sizeof *o, given, sizeof *o))
        return ki_fail(KITH_ERR_INVALID_ARG, "lowering options were not filled with KITH_LOWER_OPTIONS_INIT");
    bool has_backward = s->has_backward;
    o->has_zero_grad = o->has_zero_grad && has_backward;
    o->has_reduce = o->has_reduce && has_backward;
    o->has_step = o->has_step && has_backward;
    o->has_recompute = o->has_recompute && has_backward;
    o->has_tied = o->has_tied && has_backward && s->rank_of_stage[0] != s->rank_of_stage[s->stages - 1];
    return KITH_OK;
}

static kith_status may_lower(const kith_schedule *s)
{
    if (s->has_messages || s->has_step_actions)
        return ki_fail(KITH_ERR_INVALID_ARG,
                       "the plan has %s already: kith_schedule_compute_only() gives what can be lowered",
                       s->has_messages ? "messages" : "loads, reductions or steps");
    kith_status status = kith_schedule_check(s, NULL, NULL);
    if (status != KITH_ERR_INVALID_ARG)
        return status;
    char sentence[KI_DETAIL_NBYTES];
    snprintf(sentence, sizeof sentence, "%s", kith_error_detail());
    return ki_fail(status, "the plan cannot run: %s", sentence);
}

/* A plan of the same shape, kind and notes, without actions. */
static kith_status new_like(const kith_schedule *s, kith_schedule **like)
{
    kith_schedule *made;
    kith_status status =
        ki_schedule_new(s->kind, s->ranks, s->stages, s->rank_of_stage, KITH_STAGES_LOOP, s->microbatches, &made);
    if (status != KITH_OK)
        return status;
    for (int i = 0; i < s->note_count && status == KITH_OK; i++)
        status = ki_schedule_add_note(made, "%s", s->notes[i]);
    if (status != KITH_OK) {
        kith_schedule_destroy(made);
        return status;
    }
    *like = made;
    return KITH_OK;
}

static kith_status count_backwards(ki_lowering *l)
{
    l->backwards_left = ki_schedule_zeroed((size_t)l->source->stages, sizeof *l->backwards_left);
    if (l->backwards_left == NULL)
        return ki_schedule_no_memory("the lowering");
    for (int stage = 0; stage < l->source->stages; stage++)
        l->backwards_left[stage] = l->source->microbatches;
    return KITH_OK;
}

static kith_status lower(ki_lowering *l, const kith_schedule_costs *costs)
{
    kith_stage_cost *stages = NULL;
    kith_status status = ki_schedule_stage_costs(l->source, costs, &stages);
    l->costs = stages;
    if (status == KITH_OK)
        status = count_backwards(l);
    if (status == KITH_OK)
        status = ki_lower_run(l);
    free(l->backwards_left);
    free(stages);
    return status;
}

kith_status kith_schedule_lower(const kith_schedule *schedule, const kith_lower_options *options,
                                kith_schedule **lowered)
{
    if (schedule == NULL || lowered == NULL)
        return ki_fail(KITH_ERR_INVALID_ARG, "kith_schedule_lower(): %s is NULL",
                       schedule == NULL ? "schedule" : "lowered");
    ki_lowering l = { .source = schedule };
    kith_status status = take_options(schedule, options, &l.o);
    if (status == KITH_OK)
        status = may_lower(schedule);
    if (status == KITH_OK)
        status = new_like(schedule, &l.target);
    if (status != KITH_OK)
        return status;
    status = lower(&l, l.o.costs);
    if (status != KITH_OK) {
        kith_schedule_destroy(l.target);
        return status;
    }
    *lowered = l.target;
    return KITH_OK;
}

/* Copies the computation of a rank. A mark of overlapping holds for the action that is next in the source, so it goes
 * when that one does. */
static kith_status keep_compute(const kith_schedule *s, int rank, kith_schedule *target)
{
    const ki_action_list *list = &s->lists[rank];
    for (size_t i = 0; i < list->count; i++) {
        kith_action action = list->actions[i];
        if (!ki_action_is_compute(action.type))
            continue;
        bool has_next = i + 1 < list->count && ki_action_is_compute(list->actions[i + 1].type);
        action.is_overlapped = action.is_overlapped && has_next;
        kith_status status = ki_schedule_add_action(target, rank, &action);
        if (status != KITH_OK)
            return status;
    }
    return KITH_OK;
}

kith_status kith_schedule_compute_only(const kith_schedule *schedule, kith_schedule **compute_only)
{
    if (schedule == NULL || compute_only == NULL)
        return ki_fail(KITH_ERR_INVALID_ARG, "kith_schedule_compute_only(): %s is NULL",
                       schedule == NULL ? "schedule" : "compute_only");
    kith_schedule *made = NULL;
    kith_status status = new_like(schedule, &made);
    for (int rank = 0; rank < schedule->ranks && status == KITH_OK; rank++)
        status = keep_compute(schedule, rank, made);
    if (status != KITH_OK) {
        kith_schedule_destroy(made);
        return status;
    }
    *compute_only = made;
    return KITH_OK;
}
