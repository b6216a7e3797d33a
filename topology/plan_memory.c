/* topology/plan_memory.c - bytes that the fullest rank holds.
 *
 * Activations follow the term-by-term list of Korthikanti et al. 2022 (section 4.1), so a GPT-style layer gives their
 * table exactly: s b h (10 + 24/t + 5 a s / (h t)) with tensor parallelism, everything divided by t with sequence
 * parallelism, 2 s b h with full recomputation. Other shapes change terms: K and V are as wide as their heads; a gated
 * MLP keeps gate, up and product; models without dropout keep no masks, and the softmax once; flash attention keeps one
 * f32 number for each row; experts keep their inputs and outputs for the top_k copies of a token. Routing is taken as
 * balanced.
 *
 * Not counted: gathered layers of ZeRO 3, communication buffers, workspaces, fragmentation.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "plan_parts.h"

static bool has_dropout(const kith_model *model)
{
    return model->has_bias;
}

/* Bytes of one token inside an MLP of that width, between its two layers and in front of the second. */
static double mlp_inside(const kith_model *model, double width, double element, int tp)
{
    return (model->is_gated ? 3 : 2) * element * width / tp;
}

/* Bytes of one token: softmax, its mask, its output. */
static double attention_core(const kith_plan *plan, double element)
{
    const kith_model *model = &plan->model;
    double heads = (double)model->heads / plan->options.tp;
    if (plan->options.flash_attention)
        return 4 * heads;
    return heads * (double)plan->options.sequence * (has_dropout(model) ? 2 * element + 1 : element);
}

/* Bytes of one token in one layer without the attention core. */
static double layer_outside_core(const kith_plan *plan, bool is_moe)
{
    const kith_model *model = &plan->model;
    ki_layout_shape shape = ki_layout_shape_of(plan);
    double hidden = (double)model->hidden, element = shape.activation_nbytes;
    int tp = plan->options.tp, split = shape.sequence_split;
    double dim = ki_model_head_dim(model), q = (double)model->heads * dim / tp, kv = ki_model_kv_heads(model, tp) * dim;
    /* inputs of Q/K/V, of the MLP (or router) and of two norms; two dropout masks */
    double bytes = (4 * element + (has_dropout(model) ? 2 : 0)) * hidden / split;
    bytes += element * (2 * q + 2 * kv); /* Q, K, V and the input of the output projection */
    if (!is_moe)
        return bytes + mlp_inside(model, (double)model->ffn, element, tp);
    double copies = (double)model->top_k;
    bytes += 4 * (double)model->experts / split + 2 * element * copies * hidden / split;
    return bytes + copies * mlp_inside(model, ki_model_ffn(model), element, tp) +
           mlp_inside(model, (double)model->shared_ffn, element, tp);
}

static double layer_bytes(const kith_plan *plan, kith_recompute recompute)
{
    ki_layout_shape shape = ki_layout_shape_of(plan);
    if (recompute == KITH_RECOMPUTE_FULL)
        return shape.tokens * shape.activation_nbytes * (double)plan->model.hidden / shape.sequence_split;
    double dense = shape.layers - shape.moe_layers, bytes = 0;
    if (dense > 0)
        bytes += dense * layer_outside_core(plan, false);
    if (shape.moe_layers > 0)
        bytes += shape.moe_layers * layer_outside_core(plan, true);
    bytes /= shape.layers;
    if (recompute == KITH_RECOMPUTE_NONE)
        bytes += attention_core(plan, shape.activation_nbytes);
    return shape.tokens * bytes;
}

double ki_layout_activations_per_layer(const kith_plan *plan)
{
    return layer_bytes(plan, plan->options.recompute);
}

static bool stage_has_head(const kith_plan *plan, int stage)
{
    return stage == (ki_layout_is_v(plan->options.schedule) ? 0 : plan->options.pp - 1);
}

void ki_layout_rank_params(const kith_plan *plan, int stage, double *dense, double *experts)
{
    const kith_model *model = &plan->model;
    ki_layout_shape shape = ki_layout_shape_of(plan);
    int tp = plan->options.tp;
    double vocab = (double)plan->padded_vocab;
    bool has_head = stage_has_head(plan, stage);
    bool has_own_copy = !model->is_tied || (has_head && stage != 0);
    *dense = (shape.layers - shape.moe_layers) * ki_params_layer(model, tp, false);
    *experts = 0;
    if (shape.moe_layers > 0) {
        *dense += shape.moe_layers * ki_params_layer(model, tp, true);
        *experts = shape.moe_layers * ki_params_experts(model, tp, plan->options.ep);
    }
    if (stage == 0)
        *dense += ki_params_embedding(model, vocab, tp);
    if (has_head)
        *dense += ki_params_head(model, vocab, tp, has_own_copy);
}

/* Weights, gradients and optimizer: ZeRO n shards the n-th of optimizer, gradients, weights and those before it. */
static void add_states(const kith_plan *plan, double params, int copies, kith_plan_memory *memory)
{
    const kith_plan_options *o = &plan->options;
    double optimizer_nbytes = o->parameter_nbytes == 4 ? 8 : 12; /* two moments; and master weights unless these are */
    memory->optimizer += params * optimizer_nbytes / (o->zero >= 1 ? copies : 1);
    memory->gradients += params * o->gradient_nbytes / (o->zero >= 2 ? copies : 1);
    memory->weights += params * o->parameter_nbytes / (o->zero >= 3 ? copies : 1);
}

/* Mask behind the embedding; input of the last norm and of the head, logits in f32. */
static double ends_bytes(const kith_plan *plan, int stage, double in_flight)
{
    const kith_model *model = &plan->model;
    ki_layout_shape shape = ki_layout_shape_of(plan);
    double hidden = (double)model->hidden, bytes = 0;
    if (stage == 0 && has_dropout(model))
        bytes += in_flight * shape.tokens * hidden / shape.sequence_split;
    if (!stage_has_head(plan, stage))
        return bytes;
    kith_schedule_kind kind = plan->options.schedule;
    bool is_all_forward = kind == KITH_SCHEDULE_GPIPE || kind == KITH_SCHEDULE_LOOPED_BFS;
    double held = is_all_forward ? in_flight : 1; /* others go back at once */
    double head = 2 * shape.activation_nbytes * hidden / shape.sequence_split;
    return bytes + held * shape.tokens * (head + 4 * (double)plan->padded_vocab / plan->options.tp);
}

static kith_plan_memory memory_of(const kith_plan *plan, int stage, double in_flight)
{
    const kith_plan_options *o = &plan->options;
    ki_layout_shape shape = ki_layout_shape_of(plan);
    kith_plan_memory memory = { .stage = stage, .capacity = o->gpu_memory_nbytes };
    double dense, experts;
    ki_layout_rank_params(plan, stage, &dense, &experts);
    add_states(plan, dense, shape.dense_copies, &memory);
    add_states(plan, experts, shape.expert_copies, &memory);
    memory.activations_per_layer = ki_layout_activations_per_layer(plan);
    memory.in_flight = in_flight;
    /* what is recomputed is there for one layer at a time */
    double working = layer_bytes(plan, KITH_RECOMPUTE_NONE) - memory.activations_per_layer;
    memory.activations = memory.in_flight * shape.layers * memory.activations_per_layer + working +
                         ends_bytes(plan, stage, memory.in_flight);
    memory.total = memory.weights + memory.gradients + memory.optimizer + memory.activations;
    memory.fits = memory.capacity <= 0 || memory.total <= memory.capacity;
    return memory;
}

void ki_layout_fill_memory(kith_plan *plan, const ki_layout_figures *figures)
{
    int pp = plan->options.pp;
    const int stages[KI_PIPE_RANKS] = { 0, figures->inner_rank, pp - 1 };
    plan->memory = memory_of(plan, 0, figures->in_flight[KI_FIRST_RANK]);
    for (int i = pp > 2 ? KI_INNER_RANK : KI_LAST_RANK; i < KI_PIPE_RANKS; i++) {
        kith_plan_memory memory = memory_of(plan, stages[i], figures->in_flight[i]);
        plan->memory = memory.total > plan->memory.total ? memory : plan->memory;
    }
}
