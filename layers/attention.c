/* layers/attention.c - creation of attention layers: which ranks have which heads.
 *
 * A head must be where its key head is, and the output layer must take its features from where the heads are. So three
 * matrices are dealt alike (kith_split_range()), by one of two rules:
 *
 *     key heads >= ranks     by key heads, each with all heads that share it: any numbers will do, 25 heads on 2 ranks
 *                            are 13 and 12, and no key head is computed twice
 *     key heads < ranks      by heads; each key head is held by ranks / key heads neighbours, whose gradients of it
 *                            are summands. Runs of heads must not cross from one key head's ranks to the next one's:
 *                            heads are a multiple of the ranks, or there is one key head for all
 *
 * Either way a rank's heads share its key heads evenly.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "attention.h"

#include <math.h>

#define HEADS_MOST 65536 // numbers of heads are half a word in what keys dropout
#define HEAD_DIM_MOST 65536

static kith_status fill_in(kith_attention *attention)
{
    kith_attention_options *o = &attention->options;
    if (o->features < 1 || o->heads < 1 || o->heads > HEADS_MOST || o->kv_heads < 0)
        return ki_fail(KITH_ERR_INVALID_ARG,
                       "%s: features %lld, heads %lld, kv_heads %lld: wanted at least 1, 1 to %d, "
                       "and 0 for as many as heads or a divisor of them",
                       attention->name, (long long)o->features, (long long)o->heads, (long long)o->kv_heads,
                       HEADS_MOST);
    if (o->kv_heads == 0)
        o->kv_heads = o->heads;
    if (o->heads % o->kv_heads != 0)
        return ki_fail(KITH_ERR_INVALID_ARG,
                       "%s: %lld heads cannot share %lld key heads evenly: wanted a divisor of %lld", attention->name,
                       (long long)o->heads, (long long)o->kv_heads, (long long)o->heads);
    if (o->head_dim == 0 && o->features % o->heads != 0)
        return ki_fail(KITH_ERR_INVALID_ARG, "%s: %lld features are no multiple of %lld heads: set head_dim",
                       attention->name, (long long)o->features, (long long)o->heads);
    if (o->head_dim == 0)
        o->head_dim = o->features / o->heads;
    if (o->head_dim < 1 || o->head_dim > HEAD_DIM_MOST)
        return ki_fail(KITH_ERR_INVALID_ARG, "%s: head_dim %lld: wanted 1 to %d", attention->name,
                       (long long)o->head_dim, HEAD_DIM_MOST);
    if (o->scale == 0)
        o->scale = 1 / sqrt((double)o->head_dim);
    return KITH_OK;
}

static kith_status check_numbers(const kith_attention *attention)
{
    const kith_attention_options *o = &attention->options;
    if (!(o->rotary_base >= 0) || !isfinite(o->rotary_base) || (o->rotary_base > 0 && o->head_dim % 2 != 0))
        return ki_fail(
            KITH_ERR_INVALID_ARG,
            "%s: rotary_base %g with head_dim %lld: wanted 0 for none, or a positive base and an even head_dim",
            attention->name, o->rotary_base, (long long)o->head_dim);
    if (!isfinite(o->scale))
        return ki_fail(KITH_ERR_INVALID_ARG, "%s: scale %g: wanted a finite number, or 0 for 1 / sqrt(head_dim)",
                       attention->name, o->scale);
    if (o->dropout > 0 && o->site == 0) // its random numbers are those of other dropouts, with heads for sites
        return ki_fail(KITH_ERR_INVALID_ARG, "%s: dropout of attention needs a site of 1 to %d", attention->name,
                       KI_DROPOUT_SITES - 1);
    return ki_dropout_check(attention->name, o->dropout, o->site);
}

static bool is_by_key_heads(const kith_attention *attention)
{
    return attention->options.kv_heads >= attention->layers->tp_size;
}

static kith_status check_dealing(const kith_attention *attention)
{
    const kith_attention_options *o = &attention->options;
    int t = attention->layers->tp_size;
    if (is_by_key_heads(attention))
        return KITH_OK;
    if (o->heads >= t && t % o->kv_heads == 0 && (o->kv_heads == 1 || o->heads % t == 0))
        return KITH_OK;
    return ki_fail(KITH_ERR_INVALID_ARG,
                   "%s: %lld heads with %lld key heads cannot be dealt to %d tensor-parallel ranks: wanted at least %d "
                   "key heads (any number of heads), or a number of them that divides %d with heads a multiple of %d, "
                   "or one key head with at least %d heads",
                   attention->name, (long long)o->heads, (long long)o->kv_heads, t, t, t, t, t);
}

static void find_heads(kith_attention *attention)
{
    const kith_attention_options *o = &attention->options;
    int t = attention->layers->tp_size, rank = attention->layers->tp_rank;
    int64_t shared = o->heads / o->kv_heads;
    if (is_by_key_heads(attention)) {
        kith_split_range(o->kv_heads, t, rank, &attention->first_kv_head, &attention->kv_heads);
        attention->first_head = attention->first_kv_head * shared;
        attention->heads = attention->kv_heads * shared;
        return;
    }
    kith_split_range(o->heads, t, rank, &attention->first_head, &attention->heads);
    attention->first_kv_head = rank / (t / o->kv_heads);
    attention->kv_heads = 1;
}

/* Heads that stay together. */
static int64_t heads_in_unit(const kith_attention *attention)
{
    const kith_attention_options *o = &attention->options;
    return is_by_key_heads(attention) ? o->heads / o->kv_heads : 1;
}

static kith_status make_qkv(kith_attention *attention)
{
    const kith_attention_options *o = &attention->options;
    int64_t together = heads_in_unit(attention);
    const kith_linear_part parts[] = { { "q", o->heads / together, together * o->head_dim },
                                       { "k", o->kv_heads, o->head_dim },
                                       { "v", o->kv_heads, o->head_dim } };
    kith_linear_options options = KITH_LINEAR_OPTIONS_INIT;
    options.name = attention->name;
    options.kind = KITH_LINEAR_COLUMN;
    options.in_features = o->features;
    options.parts = parts;
    options.part_count = 3;
    options.has_bias = o->has_bias;
    return kith_linear_create(attention->layers, &options, &attention->qkv);
}

static kith_status make_out(kith_attention *attention)
{
    const kith_attention_options *o = &attention->options;
    kith_linear_options options = KITH_LINEAR_OPTIONS_INIT;
    kith_status status = ki_layers_join_name(attention->layers, attention->name, "out", &options.name);
    if (status != KITH_OK)
        return status;
    options.kind = KITH_LINEAR_ROW;
    options.in_features = o->heads * o->head_dim;
    options.out_features = o->features;
    options.in_unit = heads_in_unit(attention) * o->head_dim;
    options.has_bias = o->has_out_bias;
    options.is_bias_left_out = o->is_bias_left_out;
    return kith_linear_create(attention->layers, &options, &attention->out);
}

static kith_status make_norm(kith_attention *attention, const char *suffix, kith_norm **norm)
{
    kith_norm_options options = KITH_NORM_OPTIONS_INIT;
    kith_status status = ki_layers_join_name(attention->layers, attention->name, suffix, &options.name);
    if (status != KITH_OK)
        return status;
    options.kind = KITH_RMS_NORM;
    options.features = attention->options.head_dim;
    options.epsilon = attention->options.norm_epsilon;
    options.is_of_heads = 1;
    return kith_norm_create(attention->layers, &options, norm);
}

static kith_status make(void *layer)
{
    kith_attention *attention = layer;
    kith_status status = fill_in(attention);
    if (status == KITH_OK)
        status = check_numbers(attention);
    if (status == KITH_OK)
        status = check_dealing(attention);
    if (status != KITH_OK)
        return status;
    find_heads(attention);
    status = make_qkv(attention);
    if (status == KITH_OK && attention->options.has_head_norms)
        status = make_norm(attention, "q_norm", &attention->q_norm);
    if (status == KITH_OK && attention->options.has_head_norms)
        status = make_norm(attention, "k_norm", &attention->k_norm);
    return status == KITH_OK ? make_out(attention) : status;
}

kith_status kith_attention_create(kith_layers *layers, const kith_attention_options *options,
                                  kith_attention **attention)
{
    static const kith_attention_options defaults = KITH_ATTENTION_OPTIONS_INIT;
    static const ki_layer_type type = { "kith_attention_create",
                                        "attention",
                                        "KITH_ATTENTION_OPTIONS_INIT",
                                        sizeof(kith_attention),
                                        sizeof defaults,
                                        &defaults,
                                        make };
    return ki_layer_create(layers, &type, options, attention);
}

kith_param *kith_attention_out_bias(const kith_attention *attention)
{
    return attention == NULL ? NULL : kith_linear_bias(attention->out, 0);
}

void kith_attention_heads(const kith_attention *attention, int64_t *first_head, int64_t *heads, int64_t *first_kv_head,
                          int64_t *kv_heads)
{
    *first_head = *heads = *first_kv_head = *kv_heads = 0;
    if (attention == NULL)
        return;
    *first_head = attention->first_head;
    *heads = attention->heads;
    *first_kv_head = attention->first_kv_head;
    *kv_heads = attention->kv_heads;
}
