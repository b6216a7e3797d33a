/* schedules/check_local.c - walks the list of each rank once: each action is on the rank of its stage, for the first
 * time, and where the rule of its type allows it.
 *
 * A stage lies on one rank, so all that it takes in, makes and gives up happens in one list, in the order of that list.
 * The rules therefore prove, without a clock, that no buffer is used before it was filled or after it was given up.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "check.h"

static const ki_checker_rule rules[KITH_ACTION_TYPE_COUNT] = {
    [KITH_ACTION_F] = ki_checker_forward,
    [KITH_ACTION_B] = ki_checker_backward,
    [KITH_ACTION_I] = ki_checker_backward,
    [KITH_ACTION_W] = ki_checker_weights,
    [KITH_ACTION_RECOMPUTE] = ki_checker_recompute,
    [KITH_ACTION_SEND_F] = ki_checker_send,
    [KITH_ACTION_RECV_F] = ki_checker_receive,
    [KITH_ACTION_SEND_B] = ki_checker_send,
    [KITH_ACTION_RECV_B] = ki_checker_receive,
    [KITH_ACTION_LOAD_INPUT] = ki_checker_load,
    [KITH_ACTION_LOAD_TARGET] = ki_checker_load,
    [KITH_ACTION_ZERO_GRAD] = ki_checker_zero_grad,
    [KITH_ACTION_REDUCE_GRAD] = ki_checker_reduce_grad,
    [KITH_ACTION_REDUCE_TIED] = ki_checker_reduce_tied,
    [KITH_ACTION_OPTIMIZER_STEP] = ki_checker_step,
    [KITH_ACTION_UNSHARD] = ki_checker_shards,
    [KITH_ACTION_RESHARD] = ki_checker_shards,
};

/* Where the bits of what was met are kept. */
static uint32_t *met_of(ki_checker *c, const kith_action *a)
{
    switch (ki_action_scope_of(a->type)) {
    case KI_SCOPE_MICROBATCH:
        return &c->met[ki_pair(c->plan, a->stage, a->microbatch)];
    case KI_SCOPE_STAGE:
        return &c->stages[a->stage].met;
    default:
        return &c->rank_met;
    }
}

static kith_status check_place(ki_checker *c, const ki_place *p)
{
    const kith_action *a = p->action;
    int home = a->stage >= 0 ? c->plan->rank_of_stage[a->stage] : p->rank;
    if (home != p->rank)
        return ki_checker_refuse(c, p, "is on the wrong rank: stage %d lies on rank %d", a->stage, home);
    bool may_repeat = a->type == KITH_ACTION_UNSHARD || a->type == KITH_ACTION_RESHARD;
    if (!may_repeat && (*met_of(c, a) & ki_bit(a->type))) {
        size_t first = 0;
        ki_checker_find(c, p->rank, a, &first);
        return ki_checker_refuse(c, p, "comes a second time: the first is at position %zu", first);
    }
    return KITH_OK;
}

/* Only a forward and the backward of another microbatch that stands next can run as one: neither needs the other. */
static kith_status check_overlap(ki_checker *c, const ki_place *p)
{
    const ki_action_list *list = &c->plan->lists[p->rank];
    if (p->action->type != KITH_ACTION_F)
        return ki_checker_refuse(c, p, "is overlapped with what comes next: only an F can be");
    const kith_action *next = p->position + 1 < list->count ? p->action + 1 : NULL;
    if (!ki_schedule_is_pair(list, p->position)) {
        char text[64] = "nothing";
        if (next != NULL)
            kith_action_text(next, text, sizeof text);
        return ki_checker_refuse(c, p, "is overlapped with %s: expected is the B or I of another microbatch",
                                 next != NULL && next->type == KITH_ACTION_IDLE ? "IDLE" : text);
    }
    return KITH_OK;
}

static kith_status check_action(ki_checker *c, const ki_place *p)
{
    kith_status status = p->action->is_overlapped ? check_overlap(c, p) : KITH_OK;
    if (status != KITH_OK || p->action->type == KITH_ACTION_IDLE)
        return status;
    status = check_place(c, p);
    if (status == KITH_OK)
        status = rules[p->action->type](c, p);
    if (status == KITH_OK)
        *met_of(c, p->action) |= ki_bit(p->action->type);
    return status;
}

kith_status ki_checker_local(ki_checker *c)
{
    kith_status status = KITH_OK;
    for (int rank = 0; rank < c->plan->ranks && status == KITH_OK; rank++) {
        const ki_action_list *list = &c->plan->lists[rank];
        c->rank_met = 0;
        c->rank_has_backward = false;
        c->in_flight = 0;
        for (size_t i = 0; i < list->count && status == KITH_OK; i++) {
            ki_place place = { rank, i, &list->actions[i] };
            status = check_action(c, &place);
        }
        if (status == KITH_OK)
            status = ki_checker_missing_of_rank(c, rank);
    }
    return status;
}
