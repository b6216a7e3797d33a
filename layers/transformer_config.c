/* layers/transformer_config.c - families of transformers, and what a configuration may say.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "transformer.h"

/* A larger one is of a later header. When fields are added, the size to compare with stays that of today. */
static kith_status check_made(const kith_transformer_config *config, const char *function)
{
    if (config == NULL || config->struct_size < sizeof *config)
        return ki_fail(KITH_ERR_INVALID_ARG, "%s: config is NULL or was not made with KITH_TRANSFORMER_CONFIG_INIT",
                       function);
    return KITH_OK;
}

kith_status kith_transformer_gpt2(kith_transformer_config *config, int64_t hidden, int64_t blocks, int64_t heads,
                                  int64_t vocabulary, int64_t positions)
{
    kith_status status = check_made(config, "kith_transformer_gpt2");
    if (status != KITH_OK)
        return status;
    config->hidden = hidden;
    config->inner = 4 * hidden;
    config->blocks = blocks;
    config->heads = heads;
    config->vocabulary = vocabulary;
    config->positions = positions;
    config->norm = KITH_LAYER_NORM;
    config->activation = KITH_GELU_TANH;
    config->has_bias = 1;
    config->is_tied = 1;
    return KITH_OK;
}

kith_status kith_transformer_llama(kith_transformer_config *config, int64_t hidden, int64_t inner, int64_t blocks,
                                   int64_t heads, int64_t kv_heads, int64_t vocabulary)
{
    kith_status status = check_made(config, "kith_transformer_llama");
    if (status != KITH_OK)
        return status;
    config->hidden = hidden;
    config->inner = inner;
    config->blocks = blocks;
    config->heads = heads;
    config->kv_heads = kv_heads;
    config->vocabulary = vocabulary;
    config->rotary_base = 10000;
    config->norm = KITH_RMS_NORM;
    config->activation = KITH_SILU;
    config->is_gated = 1;
    return KITH_OK;
}

static kith_status check_stage(const kith_transformer_options *options, const kith_transformer_config *config)
{
    int64_t blocks = config->blocks, first = options->first_block, count = options->block_count;
    if (blocks < 0 || first < 0 || count < 0 || first > blocks || count > blocks - first)
        return ki_fail(KITH_ERR_INVALID_ARG,
                       "kith_transformer_create: blocks %lld to %lld of %lld: they must lie in the model",
                       (long long)first, (long long)(first + count), (long long)blocks);
    if (config->is_tied && options->has_head && !options->has_embedding && options->first_block == 0)
        return ki_fail(KITH_ERR_INVALID_ARG,
                       "kith_transformer_create: a tied head without the embedding needs first_block > 0");
    return KITH_OK;
}

static kith_status check_recompute(const kith_transformer_options *options)
{
    if (options->recompute < KITH_RECOMPUTE_NONE || options->recompute > KITH_RECOMPUTE_FULL)
        return ki_fail(KITH_ERR_INVALID_ARG, "kith_transformer_create: recompute must be NONE, SELECTIVE or FULL");
    bool is_full = options->recompute == KITH_RECOMPUTE_FULL;
    if (options->recompute_run < 0 || (!is_full && (options->recompute_run > 0 || options->is_from_start)))
        return ki_fail(
            KITH_ERR_INVALID_ARG,
            "kith_transformer_create: recompute_run and is_from_start go with KITH_RECOMPUTE_FULL; a run has at least "
            "one block, or 0 for the square root of all");
    return KITH_OK;
}

kith_status ki_transformer_check(const kith_transformer_options *options, const kith_transformer_config *config)
{
    if (config->hidden < 1 || config->heads < 1 || config->vocabulary < 1)
        return ki_fail(KITH_ERR_INVALID_ARG,
                       "kith_transformer_create: hidden, heads and vocabulary must be at least 1");
    if (config->blocks > 0 && config->inner < 1)
        return ki_fail(KITH_ERR_INVALID_ARG, "kith_transformer_create: inner must be at least 1");
    kith_status status = check_stage(options, config);
    return status == KITH_OK ? check_recompute(options) : status;
}
