/* topology/plan_traffic_tp.c - what tensor and sequence parallelism say in a step.
 *
 * L layers of a rank, m microbatches, N = b s h elements of one microbatch. Without sequence parallelism:
 *
 *     forward   all_reduce  2 L   N   behind the row-parallel layers       embedding 1 N, cross entropy 2 (b s; 2 b s)
 *     backward  all_reduce  2 L   N   input gradients of the column-parallel layers      head 1 N
 *
 * With it each all_reduce is an all_gather in front of the column-parallel layer and a reduce_scatter behind the
 * row-parallel one, and the same bytes move. To that come all_gathers in the backward pass of inputs that were kept as
 * shards (they hide behind the gradient of the inputs), and one all_reduce of the gradients of what is replicated but
 * has seen only a part of the sequence. Learned positions are added to the whole sequence: there the embedding is an
 * all_reduce forward and an all_gather backward.
 *
 * Full recomputation repeats the forward collectives of the layers; selective repeats none, for the attention core is
 * local. Experts are split like any MLP; with sequence parallelism all top_k copies of their tokens are gathered.
 *
 * Sources: Shoeybi et al. 2019, Korthikanti et al. 2022 and Megatron-LM's layers.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "plan_parts.h"

/* What the rows of one plan share. */
typedef struct sums {
    kith_plan *plan;
    const kith_topology *topology;
    double microbatches, dense_layers, moe_layers;
    double activations; /* bytes of b s h */
    double tokens;
} sums;

/* calls of one microbatch, on stage -1 (all), 0 or pp - 1. */
static void add(const sums *s, const char *what, const char *phase, const char *op, double calls, double nbytes,
                int stage, bool is_overlapped)
{
    ki_layout_add_row(s->plan, s->topology,
                      (kith_plan_traffic_row){ .axis = "tp",
                                               .what = what,
                                               .phase = phase,
                                               .op = op,
                                               .group_size = s->plan->options.tp,
                                               .stage = stage,
                                               .ops = calls * s->microbatches,
                                               .message_nbytes = nbytes,
                                               .is_overlapped = is_overlapped });
}

/* The two collectives that each layer has in a phase. */
static void add_layers(const sums *s, const char *what, const char *phase, const char *op, bool is_overlapped)
{
    double calls = 2 * (s->dense_layers + s->moe_layers);
    add(s, what, phase, op, calls, s->activations, -1, is_overlapped);
}

/* The same under sequence parallelism, where experts have rows of their own. */
static void add_split_layers(const sums *s, const char *what, const char *moe_what, const char *phase, const char *op,
                             bool is_overlapped)
{
    const kith_model *model = &s->plan->model;
    double shared = model->shared_ffn > 0 ? 1 : 0;
    double calls = 2 * s->dense_layers + (1 + shared) * s->moe_layers;
    add(s, what, phase, op, calls, s->activations, -1, is_overlapped);
    add(s, moe_what, phase, op, s->moe_layers, (double)model->top_k * s->activations, -1, is_overlapped);
}

static void add_cross_entropy(const sums *s, int last)
{
    add(s, "cross entropy, maxima", "forward", "all_reduce", 1, 4 * s->tokens, last, false);
    add(s, "cross entropy, sums", "forward", "all_reduce", 1, 8 * s->tokens, last, false);
}

static void add_whole(const sums *s, int last)
{
    bool is_recomputed = s->plan->options.recompute == KITH_RECOMPUTE_FULL;
    add(s, "embedding", "forward", "all_reduce", 1, s->activations, 0, false);
    add_layers(s, "row-parallel outputs", "forward", "all_reduce", false);
    add_cross_entropy(s, last);
    add(s, "head, input gradient", "backward", "all_reduce", 1, s->activations, last, false);
    if (is_recomputed)
        add_layers(s, "row-parallel outputs again", "recompute", "all_reduce", false);
    add_layers(s, "column-parallel input gradients", "backward", "all_reduce", false);
}

static void add_split_forward(const sums *s, const char *phase, bool is_again)
{
    add_split_layers(s, is_again ? "column-parallel inputs again" : "column-parallel inputs",
                     is_again ? "expert inputs again" : "expert inputs", phase, "all_gather", false);
    add_split_layers(s, is_again ? "row-parallel outputs again" : "row-parallel outputs",
                     is_again ? "expert outputs again" : "expert outputs", phase, "reduce_scatter", false);
}

/* Once a step: gradients of norms, row biases, routers. */
static void add_sequence_gradients(const sums *s)
{
    const kith_plan *plan = s->plan;
    const kith_model *model = &plan->model;
    double norms = s->dense_layers * ki_params_in_sequence(model, false);
    if (s->moe_layers > 0)
        norms += s->moe_layers * ki_params_in_sequence(model, true);
    norms += ki_params_head(model, 0, 1, false); /* the last norm */
    if (model->has_qk_norm)
        norms += (s->dense_layers + s->moe_layers) * 2 * ki_model_head_dim(model);
    ki_layout_add_row(s->plan, s->topology,
                      (kith_plan_traffic_row){ .axis = "tp",
                                               .what = "gradients of norms and biases",
                                               .phase = "step",
                                               .op = "all_reduce",
                                               .group_size = plan->options.tp,
                                               .stage = -1,
                                               .ops = 1,
                                               .message_nbytes = norms * plan->options.gradient_nbytes });
}

static void add_split(const sums *s, int last)
{
    bool has_positions = s->plan->model.positions > 0;
    add(s, "embedding", "forward", has_positions ? "all_reduce" : "reduce_scatter", 1, s->activations, 0, false);
    add_split_forward(s, "forward", false);
    add(s, "head, input", "forward", "all_gather", 1, s->activations, last, false);
    add_cross_entropy(s, last);
    add(s, "head, input for its weights", "backward", "all_gather", 1, s->activations, last, true);
    add(s, "head, input gradient", "backward", "reduce_scatter", 1, s->activations, last, false);
    if (s->plan->options.recompute == KITH_RECOMPUTE_FULL)
        add_split_forward(s, "recompute", true);
    add_split_layers(s, "row-parallel output gradients", "expert output gradients", "backward", "all_gather", false);
    add_split_layers(s, "column-parallel inputs for weights", "expert inputs for weights", "backward", "all_gather",
                     true);
    add_split_layers(s, "column-parallel input gradients", "expert input gradients", "backward", "reduce_scatter",
                     false);
    add(s, "embedding, output gradient", "backward", "all_gather", 1, s->activations, 0, false);
    add_sequence_gradients(s);
}

/* Norms of single heads see the local heads only, with or without sequence parallelism. */
static void add_head_norms(const sums *s)
{
    const kith_plan *plan = s->plan;
    double params = 2 * ki_model_head_dim(&plan->model) * (s->dense_layers + s->moe_layers);
    if (!plan->model.has_qk_norm || plan->options.sequence_parallel)
        return;
    ki_layout_add_row(s->plan, s->topology,
                      (kith_plan_traffic_row){ .axis = "tp",
                                               .what = "gradients of Q and K norms",
                                               .phase = "step",
                                               .op = "all_reduce",
                                               .group_size = plan->options.tp,
                                               .stage = -1,
                                               .ops = 1,
                                               .message_nbytes = params * plan->options.gradient_nbytes });
}

/* Fewer K and V heads than ranks: neighbours hold copies, whose gradients are summed. */
static void add_copied_heads(const sums *s)
{
    const kith_plan *plan = s->plan;
    const kith_model *model = &plan->model;
    int copies = plan->options.tp > model->kv_heads ? (int)(plan->options.tp / model->kv_heads) : 1;
    double inputs = (double)model->hidden + (model->has_bias || model->has_qkv_bias ? 1 : 0);
    double params = 2 * inputs * ki_model_head_dim(model) * (s->dense_layers + s->moe_layers);
    ki_layout_add_row(s->plan, s->topology,
                      (kith_plan_traffic_row){ .axis = "tp",
                                               .what = "gradients of copied K and V",
                                               .phase = "step",
                                               .op = "all_reduce",
                                               .group_size = copies,
                                               .stage = -1,
                                               .ops = 1,
                                               .message_nbytes = params * plan->options.gradient_nbytes });
}

void ki_layout_add_tp_rows(kith_plan *plan, const kith_topology *topology)
{
    ki_layout_shape shape = ki_layout_shape_of(plan);
    sums s = { .plan = plan,
               .topology = topology,
               .microbatches = (double)plan->options.microbatches,
               .dense_layers = shape.layers - shape.moe_layers,
               .moe_layers = shape.moe_layers,
               .tokens = shape.tokens,
               .activations = shape.tokens * (double)plan->model.hidden * shape.activation_nbytes };
    int last = ki_layout_is_v(plan->options.schedule) ? 0 : plan->options.pp - 1;
    if (plan->options.sequence_parallel)
        add_split(&s, last);
    else
        add_whole(&s, last);
    add_head_norms(&s);
    add_copied_heads(&s);
}

void ki_layout_fill_forward_table(kith_plan *plan)
{
    ki_layout_shape shape = ki_layout_shape_of(plan);
    kith_forward_table *table = &plan->forward_table;
    table->ops = plan->options.tp > 1 ? 2 * (double)plan->model.layers : 0;
    table->bytes_per_op = 2 * shape.tokens * (double)plan->model.hidden * shape.activation_nbytes;
    table->bytes = table->ops * table->bytes_per_op;
    for (int link = 0; link < KITH_PLAN_LINKS; link++)
        table->time_s[link] = table->bytes / (kith_plan_link_nominal_gbps((kith_plan_link)link) * 1e9);
}
