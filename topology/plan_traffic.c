/* topology/plan_traffic.c - what pipeline, context, expert and data parallelism say in a step.
 *
 *     pp   activations and their gradients between stages: b s h, divided by tp with sequence parallelism; a tied
 *          embedding's gradient between first and last stage
 *     cp   ring attention: K and V of each block travel cp - 1 hops in each layer forward; backward again, and their
 *          gradients with them
 *     ep   dispatch and combine of each layer with experts, both ways: top_k copies of the tokens
 *     dp   gradients, over all ranks that hold the same weights (dp, cp and ep; experts: dp and cp). ZeRO 1 splits the
 *          all_reduce around the optimizer; ZeRO 2 keeps no whole gradients, so it scatters each microbatch's; ZeRO 3
 *          gathers each layer's weights in front of both passes, too
 *
 * Sources: Narayanan et al. 2021 (pp), Liu et al. 2023 (ring attention), Lepikhin et al. 2020 (experts), Rajbhandari et
 * al. 2020 (ZeRO).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "plan_parts.h"

#include <math.h>
#include <string.h>

static bool is_repeated(const kith_plan *plan)
{
    return plan->options.recompute == KITH_RECOMPUTE_FULL;
}

/* ---- pp ---- */

static void add_pp_rows(kith_plan *plan, const kith_topology *topology)
{
    const kith_plan_options *o = &plan->options;
    ki_layout_shape shape = ki_layout_shape_of(plan);
    double all, messages = ki_layout_messages(o->schedule, o->pp, shape.chunks, (double)o->microbatches, &all);
    double nbytes = shape.tokens * (double)plan->model.hidden * shape.activation_nbytes / shape.sequence_split;
    bool is_overlapped = o->schedule == KITH_SCHEDULE_INTERLEAVED || o->schedule >= KITH_SCHEDULE_ZB_H1;
    kith_plan_traffic_row row = { .axis = "pp",
                                  .what = "activations",
                                  .phase = "forward",
                                  .op = "send_recv",
                                  .group_size = o->pp,
                                  .stage = -1,
                                  .ops = messages,
                                  .group_ops = all,
                                  .message_nbytes = nbytes,
                                  .is_overlapped = is_overlapped };
    ki_layout_add_row(plan, topology, row);
    row.what = "gradients of activations";
    row.phase = "backward";
    ki_layout_add_row(plan, topology, row);
}

static void add_tied_rows(kith_plan *plan, const kith_topology *topology)
{
    const kith_plan_options *o = &plan->options;
    if (!plan->model.is_tied || o->pp == 1 || ki_layout_is_v(o->schedule)) /* one copy there */
        return;
    double params = (double)plan->padded_vocab * (double)plan->model.hidden / o->tp;
    kith_plan_traffic_row row = { .axis = "pp",
                                  .group = "embed",
                                  .what = "gradients of the tied embedding",
                                  .phase = "step",
                                  .op = "all_reduce",
                                  .group_size = 2,
                                  .ops = 1,
                                  .message_nbytes = params * o->gradient_nbytes };
    row.stage = 0;
    ki_layout_add_row(plan, topology, row);
}

/* ---- cp ---- */

static void add_cp_rows(kith_plan *plan, const kith_topology *topology)
{
    const kith_plan_options *o = &plan->options;
    ki_layout_shape shape = ki_layout_shape_of(plan);
    double width = ki_model_kv_heads(&plan->model, o->tp) * ki_model_head_dim(&plan->model);
    kith_plan_traffic_row row = { .axis = "cp",
                                  .what = "K and V",
                                  .phase = "forward",
                                  .op = "shift",
                                  .group_size = o->cp,
                                  .stage = -1,
                                  .is_overlapped = true,
                                  .ops = (double)o->microbatches * shape.layers * (o->cp - 1),
                                  .message_nbytes = 2 * shape.tokens * width * shape.activation_nbytes };
    row.group_ops = row.ops * o->cp;
    ki_layout_add_row(plan, topology, row);
    if (o->recompute != KITH_RECOMPUTE_NONE) { /* either way the attention core runs again */
        row.what = "K and V again";
        row.phase = "recompute";
        ki_layout_add_row(plan, topology, row);
    }
    row.what = "K and V, and their gradients";
    row.phase = "backward";
    row.message_nbytes *= 2;
    ki_layout_add_row(plan, topology, row);
}

/* ---- ep ---- */

static void add_ep_rows(kith_plan *plan, const kith_topology *topology)
{
    const kith_plan_options *o = &plan->options;
    ki_layout_shape shape = ki_layout_shape_of(plan);
    kith_plan_traffic_row row = { .axis = "ep",
                                  .what = "tokens to experts and back",
                                  .phase = "forward",
                                  .op = "all_to_all",
                                  .group_size = o->ep,
                                  .stage = -1,
                                  .ops = 2 * shape.moe_layers * (double)o->microbatches,
                                  .message_nbytes = (double)plan->model.top_k * shape.tokens *
                                                    (double)plan->model.hidden * shape.activation_nbytes /
                                                    shape.sequence_split };
    ki_layout_add_row(plan, topology, row);
    if (is_repeated(plan)) {
        row.what = "tokens to experts again";
        row.phase = "recompute";
        ki_layout_add_row(plan, topology, row);
    }
    row.what = "gradients of tokens";
    row.phase = "backward";
    ki_layout_add_row(plan, topology, row);
}

/* ---- dp ---- */

/* Which ranks hold the same weights. */
static const char *copies_name(const kith_plan_options *o, bool is_expert)
{
    static const char *const names[] = { "dp", "dp-cp", "dp-ep", "dp-cp-ep", "cp", "ep", "cp-ep" };
    int others = (o->cp > 1 ? 1 : 0) + (o->ep > 1 && !is_expert ? 2 : 0);
    return o->dp > 1 || others == 0 ? names[others] : names[3 + others];
}

typedef struct replicas {
    const char *group, *gradients, *weights;
    double params;
    int count;
} replicas;

static void add_zero3_rows(kith_plan *plan, const kith_topology *topology, const replicas *same)
{
    const kith_plan_options *o = &plan->options;
    double layers = ki_layout_shape_of(plan).layers; /* embedding and head are spread over the layers' calls */
    kith_plan_traffic_row row = { .axis = "dp",
                                  .group = same->group,
                                  .what = same->weights,
                                  .phase = "forward",
                                  .op = "all_gather",
                                  .group_size = same->count,
                                  .stage = -1,
                                  .is_overlapped = true,
                                  .ops = layers * (double)o->microbatches,
                                  .message_nbytes = same->params / layers * o->parameter_nbytes };
    ki_layout_add_row(plan, topology, row);
    row.phase = "backward";
    ki_layout_add_row(plan, topology, row);
    row.what = same->gradients;
    row.op = "reduce_scatter";
    row.message_nbytes = same->params / layers * o->gradient_nbytes;
    ki_layout_add_row(plan, topology, row);
}

static void add_gradient_rows(kith_plan *plan, const kith_topology *topology, const replicas *same)
{
    const kith_plan_options *o = &plan->options;
    if (o->zero >= 3) {
        add_zero3_rows(plan, topology, same);
        return;
    }
    bool is_each = o->zero == 2 && o->microbatches > 1;
    kith_plan_traffic_row row = { .axis = "dp",
                                  .group = same->group,
                                  .what = same->gradients,
                                  .phase = is_each ? "backward" : "step",
                                  .op = o->zero == 0 ? "all_reduce" : "reduce_scatter",
                                  .group_size = same->count,
                                  .stage = -1,
                                  .is_overlapped = true,
                                  .ops = is_each ? (double)o->microbatches : 1,
                                  .message_nbytes = same->params * o->gradient_nbytes };
    ki_layout_add_row(plan, topology, row);
    if (o->zero == 0)
        return;
    row.what = same->weights;
    row.phase = "step";
    row.op = "all_gather";
    row.ops = 1;
    row.message_nbytes = same->params * o->parameter_nbytes;
    ki_layout_add_row(plan, topology, row);
}

/* The stage with the most weights decides. */
static void add_dp_rows(kith_plan *plan, const kith_topology *topology)
{
    const kith_plan_options *o = &plan->options;
    ki_layout_shape shape = ki_layout_shape_of(plan);
    double first, last, experts;
    ki_layout_rank_params(plan, 0, &first, &experts);
    ki_layout_rank_params(plan, o->pp - 1, &last, &experts);
    replicas dense = { copies_name(o, false), "gradients", "weights", fmax(first, last), shape.dense_copies };
    replicas expert = { copies_name(o, true), "gradients of experts", "weights of experts", experts,
                        shape.expert_copies };
    add_gradient_rows(plan, topology, &dense);
    add_gradient_rows(plan, topology, &expert);
}

void ki_layout_fill_traffic(kith_plan *plan, const kith_topology *topology)
{
    ki_layout_fill_forward_table(plan);
    ki_layout_add_tp_rows(plan, topology);
    add_cp_rows(plan, topology);
    add_ep_rows(plan, topology);
    add_dp_rows(plan, topology);
    add_pp_rows(plan, topology);
    add_tied_rows(plan, topology);
}

/* ---- traffic of the axes ---- */

static const char *const axis_names[KITH_PLACEMENT_AXES] = { "tp", "cp", "ep", "dp", "pp" };

static bool is_of_axis(const kith_plan_traffic_row *row, const char *axis)
{
    return row->axis[0] == axis[0] && row->axis[1] == axis[1];
}

/* The same rows may hide behind the compute of each microbatch, or behind one at the end; see plan_step.c. */
static bool hides(const kith_plan *plan, const char *axis, bool is_once)
{
    for (int i = 0; i < plan->row_count; i++)
        if (is_of_axis(&plan->rows[i], axis) && plan->rows[i].is_overlapped &&
            (strcmp(plan->rows[i].phase, "step") == 0) == is_once)
            return true;
    return false;
}

/* Seconds of compute that an axis may hide behind. Axes that hide behind the same compute get equal parts of it. */
static double hidden_s(const kith_plan *plan, const char *axis)
{
    double sum = 0, behind_s[2] = { (double)plan->options.microbatches * plan->compute_s, plan->compute_s };
    for (int once = 0; once < 2; once++) {
        int users = 0;
        for (int a = 0; a < KITH_PLACEMENT_AXES; a++)
            users += hides(plan, axis_names[a], once == 1);
        sum += hides(plan, axis, once == 1) ? behind_s[once] / users : 0;
    }
    return sum;
}

/* All that an axis sends, as calls of its heaviest row: the bytes are right, the latency is that of the heaviest. */
static kith_axis_traffic axis_traffic(const kith_plan *plan, const char *axis)
{
    const kith_plan_traffic_row *heaviest = NULL;
    double wire = 0;
    for (int i = 0; i < plan->row_count; i++) {
        const kith_plan_traffic_row *row = &plan->rows[i];
        if (!is_of_axis(row, axis))
            continue;
        wire += row->ops * row->wire_nbytes;
        if (heaviest == NULL || row->ops * row->wire_nbytes > heaviest->ops * heaviest->wire_nbytes)
            heaviest = row;
    }
    if (heaviest == NULL)
        return (kith_axis_traffic){ KITH_COST_ALL_REDUCE, 0, 0, 0 };
    return (kith_axis_traffic){ ki_layout_cost_op(heaviest->op), wire / heaviest->wire_nbytes, heaviest->message_nbytes,
                                heaviest->is_overlapped ? hidden_s(plan, axis) : 0 };
}

void kith_plan_traffic(const kith_plan *plan, kith_axis_traffic *traffic)
{
    for (int axis = 0; axis < KITH_PLACEMENT_AXES; axis++)
        traffic[axis] = axis_traffic(plan, axis_names[axis]);
}
