/* layers/moe.c - creation of a mixture of experts: who has which experts, and which part of them.
 *
 * Experts are dealt to the ranks of ep in runs; the inner features of each are dealt to the ranks of tp. Gate and up of
 * an expert are rows of one matrix, so that one GEMM serves both.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "moe.h"

#include <math.h>
#include <stdio.h>

#define FEATURES_MOST ((int64_t)1 << 31)
#define EXPERTS_MOST ((int64_t)1 << 20)

static kith_status check_sizes(const kith_moe *moe)
{
    const kith_moe_options *o = &moe->options;
    if (o->features < 1 || o->features >= FEATURES_MOST || o->inner_features >= FEATURES_MOST)
        return ki_fail(KITH_ERR_INVALID_ARG, "%s: features %lld, inner_features %lld: wanted 1 to 2^31 - 1", moe->name,
                       (long long)o->features, (long long)o->inner_features);
    if (o->inner_features < moe->layers->tp_size)
        return ki_fail(KITH_ERR_INVALID_ARG,
                       "%s: %lld inner features cannot be dealt to %d tensor-parallel ranks: at least one for each is "
                       "needed",
                       moe->name, (long long)o->inner_features, moe->layers->tp_size);
    if (o->experts < 1 || o->experts > EXPERTS_MOST)
        return ki_fail(KITH_ERR_INVALID_ARG, "%s: %lld experts: wanted 1 to %lld", moe->name, (long long)o->experts,
                       (long long)EXPERTS_MOST);
    if (o->top_k < 1 || o->top_k > o->experts)
        return ki_fail(KITH_ERR_INVALID_ARG, "%s: top_k %lld: wanted 1 to the number of experts, %lld", moe->name,
                       (long long)o->top_k, (long long)o->experts);
    return KITH_OK;
}

static kith_status check_factors(const kith_moe *moe)
{
    const kith_moe_options *o = &moe->options;
    if (!isfinite(o->capacity_factor) || o->capacity_factor < 0)
        return ki_fail(KITH_ERR_INVALID_ARG, "%s: capacity_factor %g: wanted a positive number, or 0 for no limit",
                       moe->name, o->capacity_factor);
    if (!isfinite(o->auxiliary_weight) || o->auxiliary_weight < 0)
        return ki_fail(KITH_ERR_INVALID_ARG, "%s: auxiliary_weight %g: wanted a positive number, or 0 for no loss",
                       moe->name, o->auxiliary_weight);
    return KITH_OK;
}

static kith_status find_activation(kith_moe *moe)
{
    switch (moe->options.activation) {
    case KITH_GELU:
        moe->activation = KI_GELU_EXACT;
        return KITH_OK;
    case KITH_GELU_TANH:
        moe->activation = KI_GELU_TANH;
        return KITH_OK;
    case KITH_SILU:
        moe->activation = KI_SILU;
        return KITH_OK;
    }
    return ki_fail(KITH_ERR_INVALID_ARG, "%s: activation %d is none of KITH_GELU, KITH_GELU_TANH and KITH_SILU",
                   moe->name, (int)moe->options.activation);
}

/* With sequence parallelism a rank computes the router's gradient from its own positions: a summand. */
static kith_status make_router(kith_moe *moe)
{
    kith_layers *layers = moe->layers;
    ki_param_spec spec = { .prefix = moe->name, .suffix = "router.weight", .dim_count = 2, .split_dim = -1 };
    spec.global_shape[0] = moe->options.experts;
    spec.global_shape[1] = moe->options.features;
    spec.copies = layers->tp_size;
    spec.is_grad_partial = layers->options.is_sequence_parallel;
    spec.is_matrix = true;
    kith_param *router;
    kith_status status = ki_param_create(layers, &spec, &router);
    if (status != KITH_OK)
        return status;
    moe->router.value = router->value;
    moe->router.grad = router->grad;
    moe->router.block = ki_block_of(router);
    return ki_block_use(layers, moe->router.block, &moe->router.value, &moe->router.grad);
}

/* Zeroed, [rows, cols]. */
static kith_status make_matrix(kith_layers *layers, int64_t rows, int64_t cols, ki_moe_matrix *matrix)
{
    int64_t shape[2] = { rows, cols }, elements;
    if (__builtin_mul_overflow(rows, cols, &elements))
        return ki_fail(KITH_ERR_NO_MEMORY, "layers: an expert of %lld x %lld is too large", (long long)rows,
                       (long long)cols);
    kith_status status = ki_param_memory(layers, elements, &matrix->block);
    if (status != KITH_OK)
        return status;
    ki_block_view(layers, matrix->block, 0, 2, shape, &matrix->value, &matrix->grad);
    return ki_block_use(layers, matrix->block, &matrix->value, &matrix->grad);
}

/* One of an expert's parameters: rows of a matrix from `first` on, inner of them, or all where it is split by
 * columns. */
static kith_status name_matrix(kith_moe *moe, int64_t number, const char *name, int split_dim, int64_t first,
                               const ki_moe_matrix *matrix)
{
    char suffix[64];
    snprintf(suffix, sizeof suffix, "experts.%lld.%s.weight", (long long)number, name);
    bool is_down = split_dim == 1;
    ki_param_spec spec = { .prefix = moe->name, .suffix = suffix, .dim_count = 2, .split_dim = split_dim, .copies = 1 };
    spec.global_shape[0] = is_down ? moe->options.features : moe->options.inner_features;
    spec.global_shape[1] = is_down ? moe->options.inner_features : moe->options.features;
    spec.first = moe->first_inner;
    spec.count = moe->inner;
    if (moe->layers->tp_size == 1)
        spec.split_dim = -1;
    spec.is_matrix = spec.is_expert = true;
    spec.block = matrix->block;
    spec.first_element = first * matrix->value.shape[1];
    kith_param *param;
    return ki_param_create(moe->layers, &spec, &param);
}

static kith_status make_expert(kith_moe *moe, int64_t index)
{
    ki_expert *expert = &moe->experts[index];
    int64_t number = moe->first_expert + index, features = moe->options.features;
    kith_status status = make_matrix(moe->layers, moe->in_rows, features, &expert->in);
    if (status == KITH_OK)
        status = make_matrix(moe->layers, features, moe->inner, &expert->out);
    if (status == KITH_OK && moe->options.is_gated)
        status = name_matrix(moe, number, "gate", 0, 0, &expert->in);
    if (status == KITH_OK)
        status = name_matrix(moe, number, "up", 0, moe->in_rows - moe->inner, &expert->in);
    if (status == KITH_OK)
        status = name_matrix(moe, number, "down", 1, 0, &expert->out);
    return status;
}

static kith_status make(void *layer)
{
    kith_moe *moe = layer;
    kith_layers *layers = moe->layers;
    kith_status status = check_sizes(moe);
    if (status == KITH_OK)
        status = check_factors(moe);
    if (status == KITH_OK)
        status = find_activation(moe);
    if (status != KITH_OK)
        return status;
    kith_split_range(moe->options.experts, layers->ep_size, layers->ep_rank, &moe->first_expert, &moe->expert_count);
    kith_split_range(moe->options.inner_features, layers->tp_size, layers->tp_rank, &moe->first_inner, &moe->inner);
    moe->in_rows = moe->options.is_gated ? 2 * moe->inner : moe->inner;
    status = make_router(moe);
    if (status == KITH_OK)
        status = ki_layers_own(layers, (size_t)(moe->expert_count + 1) * sizeof *moe->experts, NULL, &moe->experts);
    for (int64_t i = 0; i < moe->expert_count && status == KITH_OK; i++)
        status = make_expert(moe, i);
    return status;
}

kith_status kith_moe_create(kith_layers *layers, const kith_moe_options *options, kith_moe **moe)
{
    static const kith_moe_options defaults = KITH_MOE_OPTIONS_INIT;
    static const ki_layer_type type = {
        "kith_moe_create", "moe", "KITH_MOE_OPTIONS_INIT", sizeof(kith_moe), sizeof defaults, &defaults, make
    };
    return ki_layer_create(layers, &type, options, moe);
}
