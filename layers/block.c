/* layers/block.c - attention and feed-forward around a residual stream.
 *
 *     h = x + dropout(attention(norm1(x)))        y = h + dropout(mlp(norm2(h)))
 *
 * Biases of the output projections are added with the dropout, in one pass over the tokens. Going back, the gradient of
 * the residual stream is the sum of what comes along it and what comes through the norm.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "block.h"

#include <stdio.h>

static kith_status make_norm(kith_block *block, const kith_transformer_config *config, const char *which,
                             kith_norm **norm)
{
    char name[192];
    snprintf(name, sizeof name, "%s.%s", block->name, which);
    kith_norm_options options = KITH_NORM_OPTIONS_INIT;
    options.name = name;
    options.kind = config->norm;
    options.features = config->hidden;
    options.epsilon = config->norm_epsilon;
    return kith_norm_create(block->layers, &options, norm);
}

static kith_status make_attention(kith_block *block, const kith_transformer_config *config, int64_t index,
                                  kith_recompute recompute)
{
    char name[192];
    snprintf(name, sizeof name, "%s.attention", block->name);
    kith_attention_options options = KITH_ATTENTION_OPTIONS_INIT;
    options.name = name;
    options.features = config->hidden;
    options.heads = config->heads;
    options.kv_heads = config->kv_heads;
    options.head_dim = config->head_dim;
    options.has_bias = config->has_bias || config->has_qkv_bias;
    options.has_out_bias = config->has_bias;
    options.is_bias_left_out = 1;
    options.rotary_base = config->rotary_base;
    options.has_head_norms = config->has_head_norms;
    options.norm_epsilon = config->norm_epsilon;
    options.dropout = config->attention_dropout;
    options.site = ki_site_of_block(index, 0);
    options.is_core_recomputed = recompute == KITH_RECOMPUTE_SELECTIVE;
    return kith_attention_create(block->layers, &options, &block->attention);
}

static kith_status make_mlp(kith_block *block, const kith_transformer_config *config)
{
    char name[192];
    snprintf(name, sizeof name, "%s.mlp", block->name);
    kith_mlp_options options = KITH_MLP_OPTIONS_INIT;
    options.name = name;
    options.features = config->hidden;
    options.inner_features = config->inner;
    options.activation = config->activation;
    options.is_gated = config->is_gated;
    options.has_bias = config->has_bias;
    options.is_bias_left_out = 1;
    return kith_mlp_create(block->layers, &options, &block->mlp);
}

static kith_status make_moe(kith_block *block, const kith_transformer_config *config)
{
    char name[192];
    snprintf(name, sizeof name, "%s.moe", block->name);
    kith_moe_options options = KITH_MOE_OPTIONS_INIT;
    options.name = name;
    options.features = config->hidden;
    options.inner_features = config->inner;
    options.experts = config->experts;
    options.top_k = config->top_k;
    options.activation = config->activation;
    options.is_gated = config->is_gated;
    options.is_normalized = config->is_router_normalized;
    options.capacity_factor = config->capacity_factor;
    options.auxiliary_weight = config->auxiliary_weight;
    return kith_moe_create(block->layers, &options, &block->moe);
}

kith_status kith_block_create(kith_layers *layers, const kith_transformer_config *config, int64_t index,
                              kith_recompute recompute, const char *name, kith_block **block)
{
    if (layers == NULL || config == NULL || block == NULL)
        return ki_fail(KITH_ERR_INVALID_ARG, "kith_block_create: layers, config and block must not be NULL");
    if (index < 0 || ki_site_of_block(index, KI_SITES_OF_BLOCK) > 65535)
        return ki_fail(KITH_ERR_INVALID_ARG, "kith_block_create: block %lld, wanted 0 to %d", (long long)index,
                       65534 / KI_SITES_OF_BLOCK - 1);
    if (recompute != KITH_RECOMPUTE_NONE && recompute != KITH_RECOMPUTE_SELECTIVE)
        return ki_fail(KITH_ERR_INVALID_ARG, "kith_block_create: recompute must be NONE or SELECTIVE");
    kith_transformer_config taken = KITH_TRANSFORMER_CONFIG_INIT;
    if (!ki_options_copy(&taken, sizeof taken, config, sizeof config->struct_size))
        return ki_fail(KITH_ERR_INVALID_ARG,
                       "kith_block_create: the configuration was not made with KITH_TRANSFORMER_CONFIG_INIT");
    config = &taken;
    ki_mark mark = ki_layers_mark(layers);
    kith_block *made;
    char numbered[64];
    snprintf(numbered, sizeof numbered, "blocks.%lld", (long long)index);
    kith_status status = ki_layers_own(layers, sizeof *made, NULL, &made);
    if (status != KITH_OK)
        return status;
    made->layers = layers;
    kith_dropout_options dropout = KITH_DROPOUT_OPTIONS_INIT;
    dropout.probability = config->dropout;
    made->dropout1 = made->dropout2 = dropout;
    made->dropout1.site = ki_site_of_block(index, 1);
    made->dropout2.site = ki_site_of_block(index, 2);
    KI_OR_GOTO(end, ki_layers_name(layers, name != NULL ? name : numbered, "block", &made->name));
    KI_OR_GOTO(end, make_norm(made, config, "norm1", &made->norm1));
    KI_OR_GOTO(end, make_attention(made, config, index, recompute));
    KI_OR_GOTO(end, make_norm(made, config, "norm2", &made->norm2));
    KI_OR_GOTO(end, config->experts > 0 ? make_moe(made, config) : make_mlp(made, config));
    *block = made;
end:
    if (status != KITH_OK)
        ki_layers_take_back(layers, &mark);
    return status;
}

static kith_status feed_forward(kith_block *block, kith_tape *tape, const kith_tensor *x, kith_tensor *y,
                                kith_transformer_loss *loss)
{
    if (block->mlp != NULL)
        return kith_mlp_forward(block->mlp, tape, x, y);
    double auxiliary;
    int64_t dropped;
    kith_status status = kith_moe_forward(block->moe, tape, x, y, &auxiliary, &dropped);
    if (status == KITH_OK && loss != NULL) {
        loss->auxiliary += auxiliary;
        loss->dropped += dropped;
    }
    return status;
}

kith_status kith_block_forward(kith_block *block, kith_tape *tape, const kith_tensor *x, kith_tensor *y,
                               kith_transformer_loss *loss)
{
    if (block == NULL || y == NULL)
        return ki_fail(KITH_ERR_INVALID_ARG, "kith_block_forward: block and y must not be NULL");
    kith_tensor normed = { 0 }, added = { 0 }, h = { 0 }, normed2 = { 0 }, added2 = { 0 }, made = { 0 };
    const kith_param *bias2 = block->mlp != NULL ? kith_mlp_down_bias(block->mlp) : NULL;
    kith_status status = ki_tape_enter(tape, block->layers, "kith_block_forward", KITH_PHASE_FORWARD);
    if (status != KITH_OK)
        return status;
    size_t depth = tape->depth;
    KI_OR_GOTO(end, kith_norm_forward(block->norm1, tape, x, &normed));
    KI_OR_GOTO(end, kith_attention_forward(block->attention, tape, &normed, &added));
    kith_tensor_release(&normed);
    KI_OR_GOTO(end,
               kith_dropout_forward(&block->dropout1, tape, &added, kith_attention_out_bias(block->attention), x, &h));
    kith_tensor_release(&added);
    KI_OR_GOTO(end, kith_norm_forward(block->norm2, tape, &h, &normed2));
    KI_OR_GOTO(end, feed_forward(block, tape, &normed2, &added2, loss));
    kith_tensor_release(&normed2);
    KI_OR_GOTO(end, kith_dropout_forward(&block->dropout2, tape, &added2, bias2, &h, &made));
    *y = made;
end:
    if (status != KITH_OK)
        ki_tape_drop(tape, depth);
    kith_tensor_release(&normed);
    kith_tensor_release(&added);
    kith_tensor_release(&h);
    kith_tensor_release(&normed2);
    kith_tensor_release(&added2);
    return status;
}

static kith_status feed_backward(kith_block *block, kith_tape *tape, const kith_tensor *dy, double auxiliary_scale,
                                 kith_tensor *dx)
{
    if (block->mlp != NULL)
        return kith_mlp_backward(block->mlp, tape, dy, dx);
    return kith_moe_backward(block->moe, tape, dy, auxiliary_scale, dx);
}

/* to += from: what comes along the residual stream joins what came through the norm. */
static kith_status join(kith_block *block, const kith_tensor *from, kith_tensor *to)
{
    ki_compute *compute = block->layers->compute;
    return compute->ops->add(compute, 1, ki_mat_of(from), ki_mat_of(to));
}

kith_status kith_block_backward(kith_block *block, kith_tape *tape, const kith_tensor *dy, double auxiliary_scale,
                                kith_tensor *dx)
{
    if (block == NULL || dx == NULL)
        return ki_fail(KITH_ERR_INVALID_ARG, "kith_block_backward: block and dx must not be NULL");
    kith_tensor dropped2 = { 0 }, inner2 = { 0 }, dh = { 0 }, dropped = { 0 }, inner = { 0 }, made = { 0 };
    kith_status status = ki_tape_enter(tape, block->layers, "kith_block_backward", KITH_PHASE_BACKWARD);
    if (status != KITH_OK)
        return status;
    size_t depth = tape->depth;
    KI_OR_GOTO(end, kith_dropout_backward(&block->dropout2, tape, dy, &dropped2));
    KI_OR_GOTO(end, feed_backward(block, tape, &dropped2, auxiliary_scale, &inner2));
    kith_tensor_release(&dropped2);
    KI_OR_GOTO(end, kith_norm_backward(block->norm2, tape, &inner2, &dh));
    kith_tensor_release(&inner2);
    KI_OR_GOTO(end, join(block, dy, &dh));
    KI_OR_GOTO(end, kith_dropout_backward(&block->dropout1, tape, &dh, &dropped));
    KI_OR_GOTO(end, kith_attention_backward(block->attention, tape, &dropped, &inner));
    kith_tensor_release(&dropped);
    KI_OR_GOTO(end, kith_norm_backward(block->norm1, tape, &inner, &made));
    kith_tensor_release(&inner);
    KI_OR_GOTO(end, join(block, &dh, &made));
    KI_OR_GOTO(end, kith_tensor_retain(&made, dx));
end:
    if (status != KITH_OK)
        ki_tape_spoil(tape, depth);
    kith_tensor_release(&dropped2);
    kith_tensor_release(&inner2);
    kith_tensor_release(&dh);
    kith_tensor_release(&dropped);
    kith_tensor_release(&inner);
    kith_tensor_release(&made);
    return status;
}
