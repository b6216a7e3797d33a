/* schedules/lower_emit.c - what is written into the new lists around each action of computation.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "lower.h"

static kith_status add(ki_lowering *l, kith_action_type type, int stage, int microbatch)
{
    return ki_schedule_add(l->target, l->source->rank_of_stage[stage], type, stage, microbatch);
}

static kith_status add_everywhere(ki_lowering *l, kith_action_type type)
{
    kith_status status = KITH_OK;
    for (int rank = 0; rank < l->target->ranks && status == KITH_OK; rank++)
        status = ki_schedule_add(l->target, rank, type, -1, -1);
    return status;
}

kith_status ki_lower_emit_begin(ki_lowering *l)
{
    return l->o.has_zero_grad ? add_everywhere(l, KITH_ACTION_ZERO_GRAD) : KITH_OK;
}

kith_status ki_lower_emit_finish(ki_lowering *l)
{
    return l->o.has_step ? add_everywhere(l, KITH_ACTION_OPTIMIZER_STEP) : KITH_OK;
}

/* What has to stand before the action. */
static kith_status prepare(ki_lowering *l, const kith_action *a)
{
    kith_status status = KITH_OK;
    bool is_forward = a->type == KITH_ACTION_F;
    if (l->o.has_load && is_forward && a->stage == 0)
        status = add(l, KITH_ACTION_LOAD_INPUT, a->stage, a->microbatch);
    if (l->o.has_load && is_forward && ki_schedule_is_last(l->source, a->stage) && status == KITH_OK)
        status = add(l, KITH_ACTION_LOAD_TARGET, a->stage, a->microbatch);
    if (l->o.has_recompute && (a->type == KITH_ACTION_B || a->type == KITH_ACTION_I) && status == KITH_OK)
        status = add(l, KITH_ACTION_RECOMPUTE, a->stage, a->microbatch);
    return status;
}

kith_status ki_lower_emit_start(ki_lowering *l, int rank, const kith_action *actions, size_t count)
{
    kith_status status = KITH_OK;
    for (size_t i = 0; i < count && status == KITH_OK; i++)
        status = prepare(l, &actions[i]);
    for (size_t i = 0; i < count && status == KITH_OK; i++)
        status = ki_schedule_add_action(l->target, rank, &actions[i]);
    return status;
}

/* Both ends at once: this is what the order of the messages rests on. */
static kith_status send(ki_lowering *l, const kith_action *a)
{
    bool is_forward = a->type == KITH_ACTION_F;
    int receiver = is_forward ? a->stage + 1 : a->stage - 1;
    if (a->type == KITH_ACTION_W || !ki_schedule_crosses(l->source, is_forward ? a->stage : receiver))
        return KITH_OK;
    kith_status status = add(l, is_forward ? KITH_ACTION_SEND_F : KITH_ACTION_SEND_B, a->stage, a->microbatch);
    if (status != KITH_OK)
        return status;
    return add(l, is_forward ? KITH_ACTION_RECV_F : KITH_ACTION_RECV_B, receiver, a->microbatch);
}

static kith_status reduce(ki_lowering *l, int stage)
{
    return l->o.has_reduce ? add(l, KITH_ACTION_REDUCE_GRAD, stage, -1) : KITH_OK;
}

/* The two tied stages, when the later one has its gradients. */
static kith_status reduce_tied(ki_lowering *l)
{
    int last = l->source->stages - 1;
    if (l->backwards_left[0] > 0 || l->backwards_left[last] > 0)
        return KITH_OK;
    kith_status status = add(l, KITH_ACTION_REDUCE_TIED, last, -1);
    if (status == KITH_OK)
        status = add(l, KITH_ACTION_REDUCE_TIED, 0, -1);
    if (status == KITH_OK)
        status = reduce(l, last);
    return status == KITH_OK ? reduce(l, 0) : status;
}

kith_status ki_lower_emit_end(ki_lowering *l, const kith_action *a)
{
    if (!ki_action_is_compute(a->type))
        return KITH_OK;
    kith_status status = send(l, a);
    bool has_gradients = a->type == KITH_ACTION_B || a->type == KITH_ACTION_W;
    if (status != KITH_OK || !has_gradients || --l->backwards_left[a->stage] > 0)
        return status;
    bool is_tied = l->o.has_tied && (a->stage == 0 || ki_schedule_is_last(l->source, a->stage));
    return is_tied ? reduce_tied(l) : reduce(l, a->stage);
}
