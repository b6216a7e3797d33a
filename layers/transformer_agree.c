/* layers/transformer_agree.c - the same model on all ranks: what is compared, field by field.
 *
 * Ranks with different models would add up what does not belong together, mostly without an error. Values that stand
 * for another (0 key heads: as many as heads) are compared as what they stand for.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "transformer.h"

static int64_t or_else(int64_t value, int64_t otherwise)
{
    return value != 0 ? value : otherwise;
}

#define NUMBER(from, field)                                                                                            \
    {                                                                                                                  \
#field, (int64_t)(from)->field                                                                                 \
    }
#define BITS(from, field)                                                                                              \
    {                                                                                                                  \
#field, ki_bits_of((from)->field)                                                                              \
    }

kith_status ki_transformer_agree(const kith_layers *layers, const kith_transformer_options *o,
                                 const kith_transformer_config *c, kith_status status)
{
    const ki_number numbers[] = {
        NUMBER(c, hidden),
        NUMBER(c, inner),
        NUMBER(c, blocks),
        NUMBER(c, heads),
        { "kv_heads", or_else(c->kv_heads, c->heads) },
        { "head_dim", or_else(c->head_dim, c->heads > 0 ? c->hidden / c->heads : 0) },
        NUMBER(c, vocabulary),
        NUMBER(c, positions),
        BITS(c, rotary_base),
        NUMBER(c, norm),
        { "norm_epsilon", ki_bits_of(c->norm_epsilon != 0 ? c->norm_epsilon : 1e-5) },
        NUMBER(c, activation),
        NUMBER(c, is_gated),
        NUMBER(c, has_bias),
        NUMBER(c, has_qkv_bias),
        NUMBER(c, has_head_norms),
        NUMBER(c, is_tied),
        BITS(c, dropout),
        BITS(c, attention_dropout),
        BITS(c, label_smoothing),
        NUMBER(c, experts),
        NUMBER(c, top_k),
        NUMBER(c, is_router_normalized),
        BITS(c, capacity_factor),
        BITS(c, auxiliary_weight),
        NUMBER(o, first_block),
        { "block_count", or_else(o->block_count, c->blocks - o->first_block) },
        NUMBER(o, has_embedding),
        NUMBER(o, has_head),
        NUMBER(o, vocabulary_multiple),
        NUMBER(o, is_head_gathered),
        NUMBER(o, recompute),
        NUMBER(o, recompute_run),
        NUMBER(o, is_from_start),
    };
    return ki_agree_on(layers->options.tp, layers->options.ep, status, "kith_transformer_create", numbers,
                       sizeof numbers / sizeof numbers[0]);
}
