/* topology/plan_params.c - how many parameters a model has, and how many FLOPs a token costs, for the whole model or
 * for one tensor-parallel rank.
 *
 *     attention   h (q + 2 kv) + q h            q = heads * d / tp, kv = kv heads of a rank * d
 *     MLP         2 h f / tp, gated 3 h f / tp
 *     norms       2 h (RMSNorm), 4 h (LayerNorm)
 *
 * Biases of column-parallel layers are split with their columns, those of row-parallel layers and all norms are on
 * every rank. Fewer K and V heads than ranks: each rank has one, a copy of its neighbours'.
 *
 * A multiply and an add are two FLOPs; attention is counted without the saving of a causal mask, as in the Megatron
 * papers, so that shares of the peak are comparable.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "plan_parts.h"

static double h(const kith_model *model)
{
    return (double)model->hidden;
}

double ki_model_head_dim(const kith_model *model)
{
    return model->head_dim > 0 ? (double)model->head_dim : h(model) / (double)model->heads;
}

double ki_model_kv_heads(const kith_model *model, int tp)
{
    return model->kv_heads > tp ? (double)model->kv_heads / tp : 1;
}

double ki_model_moe_layers(const kith_model *model)
{
    return model->experts > 0 ? (double)(model->layers / model->moe_every) : 0;
}

double ki_model_ffn(const kith_model *model)
{
    return (double)(model->experts > 0 && model->moe_ffn > 0 ? model->moe_ffn : model->ffn);
}

/* Width of Q, and of K or V, on one rank. */
static double q_width(const kith_model *model, int tp)
{
    return (double)model->heads * ki_model_head_dim(model) / tp;
}

static double kv_width(const kith_model *model, int tp)
{
    return ki_model_kv_heads(model, tp) * ki_model_head_dim(model);
}

static double attention_weights(const kith_model *model, int tp)
{
    return 2 * h(model) * (q_width(model, tp) + kv_width(model, tp));
}

static double attention_extras(const kith_model *model, int tp)
{
    double biases = q_width(model, tp) + 2 * kv_width(model, tp);
    double norms = model->has_qk_norm ? 2 * ki_model_head_dim(model) : 0;
    return norms + (model->has_bias ? biases + h(model) : model->has_qkv_bias ? biases : 0);
}

static double mlp_weights(const kith_model *model, double width, int tp)
{
    return (model->is_gated ? 3 : 2) * h(model) * width / tp;
}

static double mlp(const kith_model *model, double width, int tp)
{
    double biases = (model->is_gated ? 2 : 1) * width / tp + h(model);
    return mlp_weights(model, width, tp) + (model->has_bias ? biases : 0);
}

static double norm(const kith_model *model)
{
    return model->has_bias ? 2 * h(model) : h(model);
}

double ki_params_layer(const kith_model *model, int tp, bool is_moe)
{
    double params = attention_weights(model, tp) + attention_extras(model, tp) + 2 * norm(model);
    if (!is_moe)
        return params + mlp(model, (double)model->ffn, tp);
    params += h(model) * (double)model->experts;
    if (model->shared_ffn > 0)
        params += mlp(model, (double)model->shared_ffn, tp) + h(model);
    return params;
}

double ki_params_experts(const kith_model *model, int tp, int ep)
{
    return (double)model->experts / ep * mlp(model, ki_model_ffn(model), tp);
}

double ki_params_embedding(const kith_model *model, double vocab, int tp)
{
    return vocab * h(model) / tp + (double)model->positions * h(model);
}

double ki_params_head(const kith_model *model, double vocab, int tp, bool has_own_copy)
{
    return norm(model) + (has_own_copy ? vocab * h(model) / tp : 0);
}

double ki_params_in_sequence(const kith_model *model, bool is_moe)
{
    double row_biases = model->has_bias ? h(model) * (is_moe ? 1 : 2) : 0;
    double router = is_moe ? h(model) * (double)model->experts + (model->shared_ffn > 0 ? h(model) : 0) : 0;
    return 2 * norm(model) + row_biases + router;
}

double kith_model_parameters(const kith_model *model)
{
    double moe = ki_model_moe_layers(model), dense = (double)model->layers - moe, vocab = (double)model->vocab;
    return dense * ki_params_layer(model, 1, false) +
           (moe > 0 ? moe * (ki_params_layer(model, 1, true) + ki_params_experts(model, 1, 1)) : 0) +
           ki_params_embedding(model, vocab, 1) + ki_params_head(model, vocab, 1, !model->is_tied);
}

double kith_model_active_parameters(const kith_model *model)
{
    double idle = model->experts > 0 ? (double)(model->experts - model->top_k) : 0;
    return kith_model_parameters(model) - ki_model_moe_layers(model) * idle * mlp(model, ki_model_ffn(model), 1);
}

double ki_flops_linear(const kith_model *model, int tp, bool is_moe)
{
    double weights = attention_weights(model, tp);
    if (!is_moe)
        weights += mlp_weights(model, (double)model->ffn, tp);
    else
        weights += (double)model->top_k * mlp_weights(model, ki_model_ffn(model), tp) +
                   mlp_weights(model, (double)model->shared_ffn, tp) + h(model) * (double)model->experts;
    return 2 * weights;
}

double ki_flops_core(const kith_model *model, int tp, double sequence)
{
    return 4 * sequence * q_width(model, tp); /* Q K^T and the product with V */
}

double ki_flops_head(const kith_model *model, double vocab, int tp)
{
    return 2 * vocab * h(model) / tp;
}
