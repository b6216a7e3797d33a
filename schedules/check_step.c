/* schedules/check_step.c - rules of gradients, optimizer and parameters of a stage.
 *
 *     ZERO_GRAD       before each backward of the rank
 *     REDUCE_TIED     after all backwards of its stage, before its REDUCE_GRAD; first and last stage, on two ranks
 *     REDUCE_GRAD     after all backwards of its stage
 *     OPTIMIZER_STEP  after all backwards of the rank's stages and, where the plan reduces, after their reductions
 *     UNSHARD         before each computation of its stage, and again after each RESHARD
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "check.h"

kith_status ki_checker_plan_has_backward(ki_checker *c, const ki_place *p)
{
    return c->plan->has_backward ? KITH_OK : ki_checker_refuse(c, p, "is of no use: the plan has no backward");
}

kith_status ki_checker_has_parameters(ki_checker *c, const ki_place *p)
{
    const ki_checker_stage *stage = &c->stages[p->action->stage];
    if (!stage->has_shards || stage->is_unsharded)
        return KITH_OK;
    return ki_checker_refuse(c, p, "needs %dUNSHARD before it: the stage's parameters are not gathered",
                             p->action->stage);
}

kith_status ki_checker_shards(ki_checker *c, const ki_place *p)
{
    ki_checker_stage *stage = &c->stages[p->action->stage];
    bool is_unshard = p->action->type == KITH_ACTION_UNSHARD;
    if (stage->is_unsharded == is_unshard)
        return ki_checker_refuse(c, p, "finds the stage's parameters %s",
                                 is_unshard ? "gathered already" : "not gathered");
    stage->is_unsharded = is_unshard;
    return KITH_OK;
}

kith_status ki_checker_zero_grad(ki_checker *c, const ki_place *p)
{
    if (c->rank_has_backward)
        return ki_checker_refuse(c, p, "comes after a backward of this rank, whose gradients it would drop");
    return ki_checker_plan_has_backward(c, p);
}

static kith_status need_all_backwards(ki_checker *c, const ki_place *p, int stage)
{
    int done = c->stages[stage].backwards, all = c->plan->microbatches;
    if (done == all)
        return KITH_OK;
    return ki_checker_refuse(c, p, "comes when %d of %d microbatches have their B or W of stage %d: expected are all",
                             done, all, stage);
}

kith_status ki_checker_reduce_grad(ki_checker *c, const ki_place *p)
{
    int stage = p->action->stage;
    kith_status status = need_all_backwards(c, p, stage);
    if (status == KITH_OK && ki_checker_is_tied(c, stage) && !(c->stages[stage].met & ki_bit(KITH_ACTION_REDUCE_TIED)))
        return ki_checker_refuse(c, p, "needs %dREDUCE_TIED before it", stage);
    return status;
}

kith_status ki_checker_reduce_tied(ki_checker *c, const ki_place *p)
{
    int stage = p->action->stage, last = c->plan->stages - 1;
    if (stage != 0 && stage != last)
        return ki_checker_refuse(c, p, "is of neither the first nor the last stage: only 0 and %d share a weight",
                                 last);
    if (c->plan->rank_of_stage[0] == c->plan->rank_of_stage[last])
        return ki_checker_refuse(c, p, "has nothing to add: rank %d has first and last stage, and one weight", p->rank);
    return need_all_backwards(c, p, stage);
}

/* What the step of a rank needs of one of its stages. */
static kith_status need_gradients(ki_checker *c, const ki_place *p, int stage)
{
    kith_status status = need_all_backwards(c, p, stage);
    if (status != KITH_OK)
        return status;
    uint32_t met = c->stages[stage].met;
    if (ki_checker_is_tied(c, stage) && !(met & ki_bit(KITH_ACTION_REDUCE_TIED)))
        return ki_checker_refuse(c, p, "needs %dREDUCE_TIED before it", stage);
    if (c->counts[KITH_ACTION_REDUCE_GRAD] > 0 && !(met & ki_bit(KITH_ACTION_REDUCE_GRAD)))
        return ki_checker_refuse(c, p, "needs %dREDUCE_GRAD before it", stage);
    return KITH_OK;
}

kith_status ki_checker_step(ki_checker *c, const ki_place *p)
{
    kith_status status = KITH_OK;
    for (int chunk = 0; chunk < c->plan->chunks && status == KITH_OK; chunk++) {
        int stage = c->plan->stage_of_chunk[p->rank * c->plan->chunks + chunk];
        if (stage >= 0)
            status = need_gradients(c, p, stage);
    }
    return status;
}
