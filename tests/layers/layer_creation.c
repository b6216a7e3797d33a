/* tests/layers/layer_creation.c - creations that fail on one rank, or that differ from rank to rank.
 *
 * However a creation ends, it ends alike on all ranks, and what they send next fits together: after each an all_reduce
 * of 1 gives the number of ranks.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "layer_model.h"

#include <string.h>

enum { TP = 4, KV_HEADS = 2 }; /* key heads have copies on two ranks each: groups of their own */

static void require_in_step(rank_info *info)
{
    int64_t ranks = 1;
    REQUIRE_OK(kith_all_reduce(info->world, &ranks, &ranks, 1, KITH_INT64, KITH_SUM));
    REQUIRE(ranks == info->size);
}

static kith_transformer_config with_copies(const rank_info *info)
{
    kith_transformer_config config = KITH_TRANSFORMER_CONFIG_INIT;
    REQUIRE_OK(kith_transformer_llama(&config, 8, 8, 1, TP, info->size == TP ? KV_HEADS : TP, 11));
    return config;
}

static int is_last(const rank_info *info)
{
    return info->rank == info->size - 1;
}

/* ---- one rank fails alone ---- */

void case_creation_alone(rank_info *info)
{
    kith_layers *layers = layers_over(info, info->size, KITH_F32, 0);
    kith_transformer_config config = with_copies(info);
    kith_transformer_options options = KITH_TRANSFORMER_OPTIONS_INIT;
    options.config = &config;
    kith_norm_options norm = KITH_NORM_OPTIONS_INIT;
    norm.name = "blocks.0.attention.k", norm.features = 8; // in the way of the model on the last rank
    kith_norm *clash;
    if (is_last(info))
        REQUIRE_OK(kith_norm_create(layers, &norm, &clash));
    kith_transformer *transformer = NULL;
    REQUIRE_STATUS(kith_transformer_create(layers, &options, &transformer), KITH_ERR_INVALID_ARG);
    REQUIRE_DETAIL("blocks.0.attention.k.weight"); // the sentence of the rank that failed, everywhere
    if (is_last(info))
        REQUIRE(strncmp(kith_error_detail(), "layers:", 7) == 0);
    else
        REQUIRE_DETAIL("of group '");
    REQUIRE(transformer == NULL);
    require_in_step(info);
    REQUIRE_STATUS(kith_transformer_create(layers, is_last(info) ? NULL : &options, &transformer),
                   KITH_ERR_INVALID_ARG);
    REQUIRE_DETAIL("must not be NULL");
    require_in_step(info);
    REQUIRE_OK(kith_layers_destroy(layers));
}

/* Layers by themselves are made locally; the groups that they need are made where all ranks come by. */
void case_creation_local(rank_info *info)
{
    kith_layers *layers = layers_over(info, info->size, KITH_F32, 0);
    kith_attention_options options = KITH_ATTENTION_OPTIONS_INIT;
    options.name = "attention", options.features = 8, options.heads = TP;
    options.kv_heads = info->size == TP ? KV_HEADS : TP;
    kith_attention *attention;
    kith_norm_options norm = KITH_NORM_OPTIONS_INIT;
    norm.name = is_last(info) ? "attention.v" : "norm", norm.features = 8;
    kith_norm *clash;
    REQUIRE_OK(kith_norm_create(layers, &norm, &clash));
    if (is_last(info)) {
        REQUIRE_STATUS(kith_attention_create(layers, &options, &attention), KITH_ERR_INVALID_ARG);
        REQUIRE_DETAIL("attention.v.weight");
        options.name = "other";
    }
    REQUIRE_OK(kith_attention_create(layers, &options, &attention));
    require_in_step(info);
    REQUIRE_OK(kith_layers_finish_grads(layers));
    require_in_step(info);
    REQUIRE_OK(kith_layers_destroy(layers));
}

/* ---- ranks that differ ---- */

static void require_mismatch(rank_info *info, kith_layers *layers, const kith_transformer_options *options,
                             const char *name)
{
    kith_transformer *transformer = NULL;
    REQUIRE_STATUS(kith_transformer_create(layers, options, &transformer), KITH_ERR_MISMATCH);
    REQUIRE_DETAIL(name);
    REQUIRE(transformer == NULL && kith_layers_param_count(layers) == 0);
    require_in_step(info);
}

static void require_other_layers(rank_info *info, kith_layers_options options, const char *name)
{
    kith_layers *layers = NULL;
    REQUIRE_STATUS(kith_layers_create(&options, &layers), KITH_ERR_MISMATCH);
    REQUIRE_DETAIL(name);
    REQUIRE(layers == NULL);
    require_in_step(info);
}

void case_creation_mismatch(rank_info *info)
{
    kith_layers *layers = layers_over(info, info->size, KITH_F32, 0);
    kith_transformer_options options = KITH_TRANSFORMER_OPTIONS_INIT, other;
    kith_transformer_config config = with_copies(info), changed;
    options.config = &config, other = options, other.config = &changed;
    const kith_transformer_options *mine = is_last(info) ? &other : &options;
    changed = config, changed.inner = 12;
    require_mismatch(info, layers, mine, "inner");
    changed = config, changed.dropout = 1e-9;
    require_mismatch(info, layers, mine, "dropout");
    changed = config, changed.rotary_base *= 2;
    require_mismatch(info, layers, mine, "rotary_base");
    other.vocabulary_multiple = 64, changed = config;
    require_mismatch(info, layers, mine, "vocabulary_multiple");
    other = options, other.config = &changed, other.recompute = KITH_RECOMPUTE_FULL;
    require_mismatch(info, layers, mine, "recompute");
    // what stands for the same is the same
    other.recompute = KITH_RECOMPUTE_NONE, other.block_count = 1;
    changed.head_dim = 2, changed.norm_epsilon = 1e-5;
    kith_transformer *transformer;
    REQUIRE_OK(kith_transformer_create(layers, mine, &transformer));
    kith_tape *tape;
    REQUIRE_OK(kith_tape_create(layers, &tape));
    kith_batch batch = KITH_BATCH_INIT;
    batch.sequence = 4, batch.batch = 1, batch.first_sample = (uint64_t)is_last(info);
    REQUIRE_STATUS(kith_tape_begin(tape, &batch), KITH_ERR_MISMATCH);
    REQUIRE_DETAIL("first_sample");
    batch.first_sample = 0, batch.batch = is_last(info) ? 0 : 1;
    REQUIRE_STATUS(kith_tape_begin(tape, &batch), KITH_ERR_INVALID_ARG);
    REQUIRE_DETAIL("both must be at least 1");
    require_in_step(info);
    kith_tape_destroy(tape);
    REQUIRE_OK(kith_layers_destroy(layers));
    kith_layers_options place = KITH_LAYERS_OPTIONS_INIT;
    place.tp = info->world;
    place.seed = is_last(info) ? UINT64_C(1) << 63 | 5 : UINT64_C(1) << 31 | 5; // alike when folded to 32 bits
    require_other_layers(info, place, "seed");
    place.seed = 0, place.dtype = is_last(info) ? KITH_F64 : KITH_F32;
    require_other_layers(info, place, "dtype");
    place.dtype = is_last(info) ? KITH_INT32 : KITH_F32;
    REQUIRE_STATUS(kith_layers_create(&place, &layers), KITH_ERR_INVALID_ARG);
    REQUIRE_DETAIL("wanted f32, f64, bf16 or f16");
    require_in_step(info);
}

/* ---- tp and ep ---- */

/* 2 x 2 ranks: what the last one ran into reaches the first, which shares no group with it. */
void case_creation_grid(rank_info *info)
{
    kith_layers_options place = KITH_LAYERS_OPTIONS_INIT;
    REQUIRE_OK(kith_group_split(info->world, info->rank / 2, info->rank, NULL, &place.tp));
    REQUIRE_OK(kith_group_split(info->world, info->rank % 2, info->rank, NULL, &place.ep));
    place.blas_threads = is_last(info) ? -2 : 1;
    kith_layers *layers;
    REQUIRE_STATUS(kith_layers_create(&place, &layers), KITH_ERR_INVALID_ARG);
    REQUIRE_DETAIL("blas_threads -2");
    require_in_step(info);
    place.blas_threads = 1;
    REQUIRE_OK(kith_layers_create(&place, &layers));
    family f = mixtral();
    kith_transformer_options options = KITH_TRANSFORMER_OPTIONS_INIT;
    options.config = &f.config;
    f.config.top_k = is_last(info) ? 1 : 2;
    require_mismatch(info, layers, &options, "top_k");
    f.config.top_k = 2, f.config.is_gated = info->rank < 2; // each tp group agrees with itself
    require_mismatch(info, layers, &options, "is_gated");
    f.config.is_gated = 1;
    kith_transformer *transformer;
    REQUIRE_OK(kith_transformer_create(layers, &options, &transformer));
    require_in_step(info);
    REQUIRE_OK(kith_layers_destroy(layers));
}
