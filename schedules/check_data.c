/* schedules/check_data.c - rules of computation and messages: what each needs before it.
 *
 *     action         needs before it on its rank                              too late after
 *     F              RECV_F, or F of the stage before if that is here; LOAD_*
 *     SEND_F         F                                                         B or I, which give the activation up
 *     RECOMPUTE      F
 *     B, I           F; RECV_B, or B or I of the next stage if that is here; RECOMPUTE
 *     SEND_B         B or I
 *     W              I
 *
 * What is received, loaded or computed again after it was needed is found where it was needed.
 *
 * Messages count in a plan that has some, loads in a plan that has that load, RECOMPUTE for a stage that has it.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "check.h"

#include <stdio.h>

/* Refuses when the action of that type, stage and microbatch has not come before p on its rank. */
static kith_status need(ki_checker *c, const ki_place *p, kith_action_type type, int stage)
{
    int microbatch = p->action->microbatch;
    if (ki_checker_has(c, ki_bit(type), stage, microbatch))
        return KITH_OK;
    kith_action needed = { type, stage, microbatch, -1, 0 };
    char what[64];
    kith_action_text(&needed, what, sizeof what);
    size_t at;
    if (ki_checker_find(c, p->rank, &needed, &at))
        return ki_checker_refuse(c, p, "needs %s before it, which comes at position %zu only", what, at);
    return ki_checker_refuse(c, p, "needs %s before it, which this rank never has", what);
}

/* Refuses when an action of these types has come already. */
static kith_status too_late(ki_checker *c, const ki_place *p, uint32_t bits, const char *why)
{
    bits &= c->met[ki_pair(c->plan, p->action->stage, p->action->microbatch)];
    if (bits == 0)
        return KITH_OK;
    kith_action other = { (kith_action_type)__builtin_ctz(bits), p->action->stage, p->action->microbatch, -1, 0 };
    char what[64];
    size_t at = 0;
    ki_checker_find(c, p->rank, &other, &at);
    return ki_checker_refuse(c, p, "comes after %s at position %zu, which %s",
                             kith_action_text(&other, what, sizeof what), at, why);
}

static kith_status count_in_flight(ki_checker *c, const ki_place *p)
{
    int bound = c->o.in_flight_bounds != NULL ? c->o.in_flight_bounds[p->rank] : c->o.in_flight_bound;
    c->in_flight = c->plan->has_backward ? c->in_flight + 1 : 1;
    if (bound > 0 && c->in_flight > bound)
        return ki_checker_refuse(c, p, "makes %d in flight between F and B or I: at most %d are allowed", c->in_flight,
                                 bound);
    return KITH_OK;
}

/* The activation of the stage before, or the microbatch itself. */
static kith_status need_input(ki_checker *c, const ki_place *p)
{
    int stage = p->action->stage;
    if (stage == 0)
        return c->counts[KITH_ACTION_LOAD_INPUT] > 0 ? need(c, p, KITH_ACTION_LOAD_INPUT, stage) : KITH_OK;
    if (!ki_schedule_crosses(c->plan, stage - 1))
        return need(c, p, KITH_ACTION_F, stage - 1);
    return c->plan->has_messages ? need(c, p, KITH_ACTION_RECV_F, stage) : KITH_OK;
}

kith_status ki_checker_forward(ki_checker *c, const ki_place *p)
{
    kith_status status = need_input(c, p);
    if (status == KITH_OK && ki_schedule_is_last(c->plan, p->action->stage) && c->counts[KITH_ACTION_LOAD_TARGET] > 0)
        status = need(c, p, KITH_ACTION_LOAD_TARGET, p->action->stage);
    if (status == KITH_OK)
        status = ki_checker_has_parameters(c, p);
    return status == KITH_OK ? count_in_flight(c, p) : status;
}

/* The gradient of the next stage; the last one has its own. */
static kith_status need_gradient(ki_checker *c, const ki_place *p)
{
    int stage = p->action->stage;
    if (ki_schedule_is_last(c->plan, stage))
        return KITH_OK;
    if (ki_schedule_crosses(c->plan, stage))
        return c->plan->has_messages ? need(c, p, KITH_ACTION_RECV_B, stage) : KITH_OK;
    if (ki_checker_has(c, KI_BACKWARD_BITS, stage + 1, p->action->microbatch))
        return KITH_OK;
    return need(c, p, KITH_ACTION_B, stage + 1);
}

kith_status ki_checker_backward(ki_checker *c, const ki_place *p)
{
    uint32_t others = KI_BACKWARD_BITS | ki_bit(KITH_ACTION_W);
    kith_status status = too_late(c, p, others, "is the backward already");
    if (status == KITH_OK)
        status = need(c, p, KITH_ACTION_F, p->action->stage);
    if (status == KITH_OK)
        status = need_gradient(c, p);
    if (status == KITH_OK && c->stages[p->action->stage].has_recompute)
        status = need(c, p, KITH_ACTION_RECOMPUTE, p->action->stage);
    if (status == KITH_OK)
        status = ki_checker_has_parameters(c, p);
    c->in_flight--;
    c->rank_has_backward = true;
    c->stages[p->action->stage].backwards += p->action->type == KITH_ACTION_B;
    return status;
}

kith_status ki_checker_weights(ki_checker *c, const ki_place *p)
{
    kith_status status = too_late(c, p, ki_bit(KITH_ACTION_B), "has done the weights too");
    if (status == KITH_OK)
        status = need(c, p, KITH_ACTION_I, p->action->stage);
    if (status == KITH_OK)
        status = ki_checker_has_parameters(c, p);
    c->stages[p->action->stage].backwards++;
    return status;
}

kith_status ki_checker_recompute(ki_checker *c, const ki_place *p)
{
    kith_status status = ki_checker_plan_has_backward(c, p);
    if (status == KITH_OK)
        status = need(c, p, KITH_ACTION_F, p->action->stage);
    return status == KITH_OK ? ki_checker_has_parameters(c, p) : status;
}

/* Both stages of the message exist and lie on different ranks. */
static kith_status has_peer(ki_checker *c, const ki_place *p)
{
    int peer = ki_schedule_peer(c->plan, p->action);
    bool is_above = p->action->type == KITH_ACTION_SEND_F || p->action->type == KITH_ACTION_RECV_B;
    const char *whom = is_above ? "next stage" : "stage before";
    if (peer < 0)
        return ki_checker_refuse(c, p, "has no other end: there is no %s", whom);
    if (peer == p->rank)
        return ki_checker_refuse(c, p, "is a message of rank %d to itself: the %s lies here too", peer, whom);
    return KITH_OK;
}

kith_status ki_checker_send(ki_checker *c, const ki_place *p)
{
    kith_status status = has_peer(c, p);
    if (status != KITH_OK)
        return status;
    if (p->action->type == KITH_ACTION_SEND_F) {
        status = too_late(c, p, KI_BACKWARD_BITS, "has given the activation up");
        return status == KITH_OK ? need(c, p, KITH_ACTION_F, p->action->stage) : status;
    }
    if (ki_checker_has(c, ki_bit(KITH_ACTION_I), p->action->stage, p->action->microbatch))
        return KITH_OK;
    return need(c, p, KITH_ACTION_B, p->action->stage);
}

kith_status ki_checker_receive(ki_checker *c, const ki_place *p)
{
    kith_status status = has_peer(c, p);
    if (status == KITH_OK && p->action->type == KITH_ACTION_RECV_B)
        status = ki_checker_plan_has_backward(c, p);
    return status;
}

kith_status ki_checker_load(ki_checker *c, const ki_place *p)
{
    bool is_input = p->action->type == KITH_ACTION_LOAD_INPUT;
    int home = is_input ? 0 : c->plan->stages - 1;
    if (p->action->stage == home)
        return KITH_OK;
    return ki_checker_refuse(c, p, "is for stage %d, the %s: other stages load nothing of this kind", home,
                             is_input ? "first" : "last");
}
