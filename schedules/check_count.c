/* schedules/check_count.c - is everything there? Before the lists are walked: enough forwards; after: all the rest.
 *
 * A plan may claim 2^22 pairs with a handful of actions. So the first count works with
 * memory for the actions alone: of N + 1 pairs, N forwards leave at least one out, which a table of N + 1 bytes finds.
 *
 * Some actions are all or none: a plan may leave loading, zeroing, reducing and stepping to its caller, but a plan that
 * does it for some stages or ranks has forgotten the others.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "check.h"

#include "core/base/error.h"

#include <stdio.h>
#include <stdlib.h>

static void count_actions(ki_checker *c)
{
    for (int rank = 0; rank < c->plan->ranks; rank++)
        for (size_t i = 0; i < c->plan->lists[rank].count; i++) {
            const kith_action *a = &c->plan->lists[rank].actions[i];
            c->counts[a->type]++;
            if (a->type == KITH_ACTION_UNSHARD || a->type == KITH_ACTION_RESHARD)
                c->stages[a->stage].has_shards = true;
            if (a->type == KITH_ACTION_RECOMPUTE)
                c->stages[a->stage].has_recompute = true;
        }
}

/* The first action of the stage and microbatch, which is where the missing one is missed; else the end of the list. */
static size_t missed_at(const ki_action_list *list, int stage, int microbatch)
{
    for (size_t i = 0; i < list->count; i++)
        if (list->actions[i].stage == stage && list->actions[i].microbatch == microbatch)
            return i;
    return list->count;
}

/* "rank 3: 3F0 is missing: <why>; 3B0 stands at position 1". */
static kith_status refuse_missing(ki_checker *c, int rank, kith_action_type type, int stage, int microbatch,
                                  const char *why)
{
    kith_action missing = { type, stage, microbatch, -1, 0 };
    char what[64], other[64], near[96] = "";
    const ki_action_list *list = &c->plan->lists[rank];
    size_t at = missed_at(list, stage, microbatch);
    if (microbatch >= 0 && at < list->count)
        snprintf(near, sizeof near, "; %s stands at position %zu",
                 kith_action_text(&list->actions[at], other, sizeof other), at);
    ki_checker_mark_place(c, rank, at);
    return ki_fail_quiet(KITH_ERR_INVALID_ARG, "rank %d: %s is missing: %s%s", rank,
                         kith_action_text(&missing, what, sizeof what), why, near);
}

/* A backward without its forward says more about what is wrong than a pair of which there is nothing. */
static bool find_orphan(const ki_checker *c, const unsigned char *has, size_t count, size_t *pair)
{
    for (int rank = 0; rank < c->plan->ranks; rank++)
        for (size_t i = 0; i < c->plan->lists[rank].count; i++) {
            const kith_action *a = &c->plan->lists[rank].actions[i];
            if (!ki_action_is_backward(a->type))
                continue;
            *pair = ki_pair(c->plan, a->stage, a->microbatch);
            if (*pair <= count && !has[*pair])
                return true;
        }
    *pair = 0;
    return false;
}

static kith_status first_missing_forward(ki_checker *c)
{
    size_t count = c->counts[KITH_ACTION_F], pair = 0;
    unsigned char *has = ki_schedule_zeroed(count + 1, 1);
    if (has == NULL)
        return ki_schedule_no_memory("the check");
    for (int rank = 0; rank < c->plan->ranks; rank++)
        for (size_t i = 0; i < c->plan->lists[rank].count; i++) {
            const kith_action *a = &c->plan->lists[rank].actions[i];
            size_t of_action = a->type == KITH_ACTION_F ? ki_pair(c->plan, a->stage, a->microbatch) : count + 1;
            if (of_action <= count)
                has[of_action] = 1;
        }
    if (!find_orphan(c, has, count, &pair))
        while (has[pair])
            pair++;
    free(has);
    int stage = (int)(pair / (size_t)c->plan->microbatches);
    return refuse_missing(c, c->plan->rank_of_stage[stage], KITH_ACTION_F, stage,
                          (int)(pair % (size_t)c->plan->microbatches), "each stage runs each microbatch forward once");
}

kith_status ki_checker_count(ki_checker *c)
{
    c->stages = ki_schedule_zeroed((size_t)c->plan->stages, sizeof *c->stages);
    if (c->stages == NULL)
        return ki_schedule_no_memory("the check");
    count_actions(c);
    size_t pairs = (size_t)c->plan->stages * (size_t)c->plan->microbatches;
    if (c->counts[KITH_ACTION_F] < pairs)
        return first_missing_forward(c);
    c->met = ki_schedule_zeroed(pairs, sizeof *c->met);
    return c->met != NULL ? KITH_OK : ki_schedule_no_memory("the check");
}

/* F is there, as were enough of them and none twice; what F and B need was asked for where they stand. */
static kith_status missing_of_pair(ki_checker *c, int stage, int microbatch)
{
    const kith_schedule *s = c->plan;
    int rank = s->rank_of_stage[stage];
    if (s->has_messages && ki_schedule_crosses(s, stage) &&
        !ki_checker_has(c, ki_bit(KITH_ACTION_SEND_F), stage, microbatch))
        return refuse_missing(c, rank, KITH_ACTION_SEND_F, stage, microbatch,
                              "the next stage lies on another rank and needs the activation");
    if (!s->has_backward)
        return KITH_OK;
    if (!ki_checker_has(c, KI_BACKWARD_BITS, stage, microbatch))
        return refuse_missing(c, rank, KITH_ACTION_B, stage, microbatch, "as B or as I with W");
    if (ki_checker_has(c, ki_bit(KITH_ACTION_I), stage, microbatch) &&
        !ki_checker_has(c, ki_bit(KITH_ACTION_W), stage, microbatch))
        return refuse_missing(c, rank, KITH_ACTION_W, stage, microbatch, "its I is there");
    if (s->has_messages && ki_schedule_crosses(s, stage - 1) &&
        !ki_checker_has(c, ki_bit(KITH_ACTION_SEND_B), stage, microbatch))
        return refuse_missing(c, rank, KITH_ACTION_SEND_B, stage, microbatch,
                              "the stage before lies on another rank and needs the gradient");
    return KITH_OK;
}

static kith_status missing_of_stage(ki_checker *c, int stage)
{
    kith_status status = KITH_OK;
    for (int microbatch = 0; microbatch < c->plan->microbatches && status == KITH_OK; microbatch++)
        status = missing_of_pair(c, stage, microbatch);
    if (status != KITH_OK)
        return status;
    int rank = c->plan->rank_of_stage[stage];
    uint32_t met = c->stages[stage].met;
    if (ki_checker_is_tied(c, stage) && !(met & ki_bit(KITH_ACTION_REDUCE_TIED)))
        return refuse_missing(c, rank, KITH_ACTION_REDUCE_TIED, stage, -1, "the stage at the other end has one");
    if (c->counts[KITH_ACTION_REDUCE_GRAD] > 0 && !(met & ki_bit(KITH_ACTION_REDUCE_GRAD)))
        return refuse_missing(c, rank, KITH_ACTION_REDUCE_GRAD, stage, -1, "other stages have one");
    return KITH_OK;
}

kith_status ki_checker_missing(ki_checker *c)
{
    kith_status status = KITH_OK;
    for (int stage = 0; stage < c->plan->stages && status == KITH_OK; stage++)
        status = missing_of_stage(c, stage);
    return status;
}

/* What a list has without stage, at its end: actions that other ranks have as well. */
kith_status ki_checker_missing_of_rank(ki_checker *c, int rank)
{
    if (c->counts[KITH_ACTION_ZERO_GRAD] > 0 && !(c->rank_met & ki_bit(KITH_ACTION_ZERO_GRAD)))
        return refuse_missing(c, rank, KITH_ACTION_ZERO_GRAD, -1, -1, "other ranks have one");
    if (c->counts[KITH_ACTION_OPTIMIZER_STEP] > 0 && !(c->rank_met & ki_bit(KITH_ACTION_OPTIMIZER_STEP)))
        return refuse_missing(c, rank, KITH_ACTION_OPTIMIZER_STEP, -1, -1, "other ranks have one");
    return KITH_OK;
}
