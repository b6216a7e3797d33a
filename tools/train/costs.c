/* tools/train/costs.c - what computing took, stage by stage: means over the steps and over all ranks.
 *
 * With them the plan is simulated, which says how long a step would take if messages took no time and every stage
 * always the same: the rest of the measured step is what messages, neighbours on the machine and the optimizer cost.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "engine.h"

#include <stdlib.h>
#include <string.h>

bool train_costs_make(train_job *job, train_costs *costs)
{
    costs->stages = job->layout.stages;
    costs->sums = calloc((size_t)costs->stages * TRAIN_COSTS * 2, sizeof *costs->sums);
    return costs->sums != NULL || train_no_memory(job, "the costs of %d stages", costs->stages);
}

void train_costs_fini(train_costs *costs)
{
    free(costs->sums);
    costs->sums = NULL;
}

static double *sum_of(const train_costs *costs, int stage, train_cost cost)
{
    return &costs->sums[(stage * TRAIN_COSTS + (int)cost) * 2];
}

static int cost_of(kith_action_type type)
{
    switch (type) {
    case KITH_ACTION_F:
        return TRAIN_COST_F;
    case KITH_ACTION_B:
        return TRAIN_COST_B;
    case KITH_ACTION_I:
        return TRAIN_COST_I;
    case KITH_ACTION_W:
        return TRAIN_COST_W;
    default:
        return -1;
    }
}

void train_costs_add(const train_engine *engine, train_costs *costs)
{
    size_t count, actions;
    const kith_interval *at = kith_pipeline_intervals(engine->pipeline, &count);
    const kith_action *list =
        kith_schedule_actions(kith_pipeline_schedule(engine->pipeline), engine->job->pp_rank, &actions);
    for (size_t i = 0; i < count && i < actions; i++) {
        int cost = cost_of(list[i].type);
        if (cost < 0)
            continue;
        double *sum = sum_of(costs, list[i].stage, (train_cost)cost);
        sum[0] += at[i].end - at[i].start;
        sum[1]++;
    }
}

size_t train_costs_count(const train_costs *costs)
{
    return (size_t)costs->stages * TRAIN_COSTS * 2;
}

void train_costs_clear(train_costs *costs)
{
    memset(costs->sums, 0, train_costs_count(costs) * sizeof *costs->sums);
}

void train_costs_merge(train_costs *costs, const train_costs *others)
{
    for (size_t i = 0; i < train_costs_count(costs); i++)
        costs->sums[i] += others->sums[i];
}

static double mean(const train_costs *costs, int stage, train_cost cost)
{
    const double *sum = sum_of(costs, stage, cost);
    return sum[1] > 0 ? sum[0] / sum[1] : 0;
}

kith_status train_costs_simulate(const train_job *job, const train_costs *costs, double unit_s,
                                 kith_simulation **simulation)
{
    kith_stage_cost *stages = calloc((size_t)costs->stages, sizeof *stages);
    if (stages == NULL)
        return KITH_ERR_NO_MEMORY;
    for (int stage = 0; stage < costs->stages; stage++) {
        kith_stage_cost one = KITH_STAGE_COST_INIT;
        one.f = mean(costs, stage, TRAIN_COST_F) / unit_s;
        one.b = mean(costs, stage, TRAIN_COST_B) / unit_s;
        one.i = mean(costs, stage, TRAIN_COST_I) / unit_s;
        one.w = mean(costs, stage, TRAIN_COST_W) / unit_s;
        stages[stage] = one;
    }
    kith_schedule_costs all = KITH_SCHEDULE_COSTS_INIT;
    all.stage_count = costs->stages;
    all.stages = stages;
    kith_status status = kith_schedule_simulate(job->schedule, &all, simulation);
    free(stages);
    return status;
}

kith_status train_costs_bubble(const train_job *job, const train_costs *costs, double *bubble_s, double *makespan_s)
{
    kith_simulation *run;
    kith_status status = train_costs_simulate(job, costs, 1, &run);
    if (status != KITH_OK)
        return status;
    *bubble_s = 0;
    for (int r = 0; r < job->layout.pp; r++)
        *bubble_s += kith_simulation_rank(run, r)->bubble / job->layout.pp;
    if (makespan_s != NULL)
        *makespan_s = kith_simulation_total(run)->makespan;
    kith_simulation_destroy(run);
    return KITH_OK;
}
