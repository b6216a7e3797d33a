/* topology/plan_step.c - how long a step takes.
 *
 *     microbatch = compute + communication that is not hidden
 *     step       = m * microbatch * (1 + bubble) + communication at its end that is not hidden
 *
 * Compute is FLOPs over the reachable share of the peak: forward once, backward twice, and what is recomputed. The
 * slowest stage, the one with the head, sets the pace. What may be hidden costs time only where it is longer than what
 * it hides behind: one microbatch's compute. Not counted: the optimizer itself, reading data, latency of kernels.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "plan_parts.h"

#include <math.h>
#include <string.h>

/* FLOPs of one microbatch forward on the slowest stage. */
typedef struct stage_flops {
    double linear, core, head;
} stage_flops;

static stage_flops count_stage(const kith_plan *plan)
{
    const kith_model *model = &plan->model;
    ki_layout_shape shape = ki_layout_shape_of(plan);
    int tp = plan->options.tp;
    double dense = shape.layers - shape.moe_layers, linear = 0;
    if (dense > 0)
        linear += dense * ki_flops_linear(model, tp, false);
    if (shape.moe_layers > 0)
        linear += shape.moe_layers * ki_flops_linear(model, tp, true);
    return (stage_flops){ .linear = shape.tokens * linear,
                          .core =
                              shape.tokens * shape.layers * ki_flops_core(model, tp, (double)plan->options.sequence),
                          .head = shape.tokens * ki_flops_head(model, (double)plan->padded_vocab, tp) };
}

static double count_model(const kith_plan *plan)
{
    const kith_model *model = &plan->model;
    const kith_plan_options *o = &plan->options;
    double moe = ki_model_moe_layers(model), dense = (double)model->layers - moe;
    double forward = (double)model->layers * ki_flops_core(model, 1, (double)o->sequence) +
                     ki_flops_head(model, (double)model->vocab, 1);
    if (dense > 0)
        forward += dense * ki_flops_linear(model, 1, false);
    if (moe > 0)
        forward += moe * ki_flops_linear(model, 1, true);
    return 3 * forward * (double)o->global_batch * (double)o->sequence;
}

static double flops_per_s(const kith_plan *plan)
{
    return plan->options.peak_tflops * 1e12 * plan->options.efficiency;
}

/* FLOPs of a microbatch that recomputation adds. */
static double count_again(const kith_plan *plan, stage_flops flops)
{
    if (plan->options.recompute == KITH_RECOMPUTE_FULL)
        return flops.linear + flops.core;
    return plan->options.recompute == KITH_RECOMPUTE_SELECTIVE ? flops.core : 0;
}

ki_layout_times ki_layout_count_times(const kith_plan *plan)
{
    stage_flops flops = count_stage(plan);
    double again = count_again(plan, flops), speed = flops_per_s(plan);
    return (ki_layout_times){ .forward_s = (flops.linear + flops.core + flops.head) / speed,
                              .input_s = (flops.linear + 2 * flops.core + flops.head + again) / speed,
                              .weight_s = (flops.linear + flops.head) / speed };
}

void ki_layout_fill_compute(kith_plan *plan, const ki_layout_figures *figures)
{
    ki_layout_times times = ki_layout_count_times(plan);
    plan->recompute_s = count_again(plan, count_stage(plan)) / flops_per_s(plan);
    plan->compute_s = times.forward_s + times.input_s + times.weight_s;
    plan->bubble = figures->bubble;
    plan->bubble_in_stage = figures->bubble_in_stage;
    plan->model_flops = count_model(plan);
}

/* What one stage says: in each microbatch and once, in the open and hidden. */
typedef struct stage_times {
    double each_s, each_hidden_s, once_s, once_hidden_s;
} stage_times;

static stage_times add_up(const kith_plan *plan, int column, int stage)
{
    stage_times sums = { 0, 0, 0, 0 };
    for (int i = 0; i < plan->row_count; i++) {
        const kith_plan_traffic_row *row = &plan->rows[i];
        double time_s = column < KITH_PLAN_LINKS ? row->time_s[column] : row->placed_s;
        bool is_once = strcmp(row->phase, "step") == 0;
        if (row->stage >= 0 && row->stage != stage)
            continue;
        if (is_once)
            *(row->is_overlapped ? &sums.once_hidden_s : &sums.once_s) += time_s;
        else
            *(row->is_overlapped ? &sums.each_hidden_s : &sums.each_s) += time_s;
    }
    sums.each_s /= (double)plan->options.microbatches;
    sums.each_hidden_s /= (double)plan->options.microbatches;
    return sums;
}

static double not_hidden(double open_s, double hidden_s, double behind_s)
{
    return open_s + fmax(hidden_s - behind_s, 0);
}

void ki_layout_fill_step(kith_plan *plan, int column)
{
    double microbatches = (double)plan->options.microbatches, each_s = 0, once_s = 0;
    int stages[2] = { 0, plan->options.pp - 1 };
    for (int i = 0; i < 2; i++) {
        stage_times times = add_up(plan, column, stages[i]);
        each_s = fmax(each_s, not_hidden(times.each_s, times.each_hidden_s, plan->compute_s));
        once_s = fmax(once_s, not_hidden(times.once_s, times.once_hidden_s, plan->compute_s));
    }
    kith_plan_step *step = &plan->steps[column];
    step->compute_s = microbatches * plan->compute_s;
    step->communication_s = microbatches * each_s;
    step->bubble_s = plan->bubble * (step->compute_s + step->communication_s);
    step->once_s = once_s;
    step->total_s = step->compute_s + step->communication_s + step->bubble_s + step->once_s;
    if (column < KITH_PLAN_LINKS)
        plan->step_s[column] = step->total_s;
    else
        plan->placed_step_s = step->total_s;
    double step_s = plan->placed_step_s > 0 ? plan->placed_step_s : plan->step_s[KITH_PLAN_NVLINK];
    plan->tokens_per_s = (double)plan->options.global_batch * (double)plan->options.sequence / step_s;
    plan->mfu = plan->model_flops / (step_s * plan->options.peak_tflops * 1e12 * plan->world);
}
