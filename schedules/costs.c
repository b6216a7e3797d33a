/* schedules/costs.c - the costs that hold for each stage of a plan: looked through, with what was left open filled in;
 * and what an action takes by them.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "schedule.h"

#include "core/base/error.h"
#include "core/base/fault.h"
#include "core/base/mem.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct member {
    const char *name;
    size_t offset;
    bool may_be_open; /* negative: comes from others */
} member;

static const member members[] = {
    { "f", offsetof(kith_stage_cost, f), false },
    { "i", offsetof(kith_stage_cost, i), false },
    { "w", offsetof(kith_stage_cost, w), false },
    { "b", offsetof(kith_stage_cost, b), true },
    { "fb", offsetof(kith_stage_cost, fb), true },
    { "recompute", offsetof(kith_stage_cost, recompute), true },
    { "send", offsetof(kith_stage_cost, send), false },
    { "latency", offsetof(kith_stage_cost, latency), false },
    { "activation_nbytes", offsetof(kith_stage_cost, activation_nbytes), false },
    { "weight_nbytes", offsetof(kith_stage_cost, weight_nbytes), false },
    { "message_nbytes", offsetof(kith_stage_cost, message_nbytes), false },
};

static kith_status check(const kith_stage_cost *cost, const char *whose)
{
    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++) {
        double value = *(const double *)((const char *)cost + members[i].offset);
        if (!isfinite(value) || (value < 0 && !members[i].may_be_open))
            return ki_fail(KITH_ERR_INVALID_ARG, "costs: %s of %s is %g: it has to be finite%s", members[i].name, whose,
                           value, members[i].may_be_open ? "" : " and not negative");
    }
    return KITH_OK;
}

static kith_status check_all(const kith_schedule *s, const kith_schedule_costs *costs)
{
    if (costs->stage_count == 0)
        return check(&costs->same, "each stage");
    if (costs->stage_count != s->stages || costs->stages == NULL)
        return ki_fail(
            KITH_ERR_INVALID_ARG,
            "costs of %d stage%s%s for a plan of %d: it takes the cost of each stage, or one that holds for all",
            costs->stage_count, costs->stage_count == 1 ? "" : "s", costs->stages == NULL ? " that are NULL" : "",
            s->stages);
    kith_status status = KITH_OK;
    for (int stage = 0; stage < s->stages && status == KITH_OK; stage++) {
        char whose[32];
        snprintf(whose, sizeof whose, "stage %d", stage);
        status = check(&costs->stages[stage], whose);
    }
    return status;
}

kith_status ki_schedule_stage_costs(const kith_schedule *s, const kith_schedule_costs *given, kith_stage_cost **stages)
{
    kith_schedule_costs costs = KITH_SCHEDULE_COSTS_INIT;
    if (given != NULL && !ki_options_copy(&costs, sizeof costs, given, sizeof costs))
        return ki_fail(KITH_ERR_INVALID_ARG, "costs were not filled with KITH_SCHEDULE_COSTS_INIT");
    kith_status status = check_all(s, &costs);
    if (status != KITH_OK)
        return status;
    kith_stage_cost *all = ki_fault(KI_FAULT_ALLOC) ? NULL : malloc((size_t)s->stages * sizeof *all);
    if (all == NULL)
        return ki_fail(KITH_ERR_NO_MEMORY, "no memory for the costs of %d stages", s->stages);
    for (int stage = 0; stage < s->stages; stage++) {
        kith_stage_cost *cost = &all[stage];
        *cost = costs.stage_count > 0 ? costs.stages[stage] : costs.same;
        cost->b = cost->b < 0 ? cost->i + cost->w : cost->b;
        cost->recompute = cost->recompute < 0 ? cost->f : cost->recompute;
    }
    *stages = all;
    return KITH_OK;
}

double ki_action_duration(const kith_stage_cost *costs, const kith_action *a)
{
    switch (a->type) {
    case KITH_ACTION_F:
        return costs[a->stage].f;
    case KITH_ACTION_B:
        return costs[a->stage].b;
    case KITH_ACTION_I:
        return costs[a->stage].i;
    case KITH_ACTION_W:
        return costs[a->stage].w;
    case KITH_ACTION_RECOMPUTE:
        return costs[a->stage].recompute;
    default:
        return 0;
    }
}

/* A pair takes the mean of its two stages' fb, where one of them has it. An fb is measured with a whole backward, so
 * for an I its stage's W, which comes later, is taken off. */
double ki_pair_duration(const kith_stage_cost *costs, const kith_action *pair)
{
    double sum = 0;
    bool is_given = false;
    for (int i = 0; i < 2; i++) {
        const kith_stage_cost *cost = &costs[pair[i].stage];
        is_given = is_given || cost->fb >= 0;
        sum += cost->fb >= 0 ? cost->fb : cost->f + cost->b;
    }
    if (!is_given)
        return ki_action_duration(costs, &pair[0]) + ki_action_duration(costs, &pair[1]);
    double later = pair[1].type == KITH_ACTION_I ? costs[pair[1].stage].w : 0;
    return sum / 2 > later ? sum / 2 - later : 0;
}
