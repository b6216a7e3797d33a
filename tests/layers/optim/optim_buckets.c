/* tests/layers/optim/optim_buckets.c - which parameter is in which bucket, and how that is told.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "optim_cases.h"

#include <string.h>

static kith_optim_bucket bucket_at(const kith_optim *optim, size_t index)
{
    kith_optim_bucket bucket;
    REQUIRE_OK(kith_optim_get_bucket(optim, index, &bucket));
    return bucket;
}

/* Megatron-LM's own example: parameters of 100, 200, 300 and 400 elements in the order of registration, a limit of 500:
 * [400, 300], then [200, 100]. */
void case_buckets_golden(rank_info *info)
{
    static const char *const names[] = { "a", "b", "c", "d" };
    grid_layers grid = layers_on_grid(info, 1, KITH_F32, 0, 0);
    for (int i = 0; i < 4; i++)
        add_norm(grid.layers, names[i], 100 * (i + 1));
    kith_optim_options options = options_of(info, &grid);
    options.bucket_nbytes = 500 * sizeof(float);
    kith_optim *optim;
    REQUIRE_OK(kith_optim_create(grid.layers, &options, &optim));
    REQUIRE(kith_optim_bucket_count(optim) == 2);
    static const char *const wanted[2][2] = { { "d.weight", "c.weight" }, { "b.weight", "a.weight" } };
    for (size_t b = 0; b < 2; b++) {
        kith_optim_bucket bucket = bucket_at(optim, b);
        REQUIRE(bucket.param_count == 2 && !bucket.is_late && !bucket.is_expert);
        for (size_t p = 0; p < 2; p++)
            REQUIRE(strcmp(bucket.params[p]->name, wanted[b][p]) == 0);
        int64_t elements = b == 0 ? 700 : 300, unit = 16 * info->size; // each parameter, and all, to a cache line
        REQUIRE(bucket.elements >= elements && bucket.elements < elements + 2 * 16 + unit);
        REQUIRE(bucket.elements % unit == 0 && bucket.shard_first == 0 && bucket.shard_count == bucket.elements);
    }
    kith_optim_destroy(optim);
    REQUIRE_OK(kith_layers_destroy(grid.layers));
}

/* Every parameter is in one bucket, with others of its sort; late buckets come last. */
static void check_families(const training *t)
{
    size_t params = 0, late_from = kith_optim_bucket_count(t->optim);
    for (size_t b = 0; b < kith_optim_bucket_count(t->optim); b++) {
        kith_optim_bucket bucket = bucket_at(t->optim, b);
        if (bucket.is_late && b < late_from)
            late_from = b;
        REQUIRE(bucket.is_late == (b >= late_from));
        REQUIRE(bucket.param_count > 0);
        int has_partial = 0;
        for (size_t p = 0; p < bucket.param_count; p++) {
            REQUIRE(bucket.params[p]->is_expert == bucket.is_expert);
            REQUIRE(!bucket.params[p]->is_grad_partial || bucket.is_late);
            has_partial |= bucket.params[p]->is_grad_partial;
            for (size_t q = 0; q < p; q++)
                REQUIRE(bucket.params[p] != bucket.params[q]);
        }
        REQUIRE(has_partial == bucket.is_late);
        params += bucket.param_count;
    }
    REQUIRE(params == kith_layers_param_count(t->s.layers));
    REQUIRE_STATUS(kith_optim_get_bucket(t->optim, kith_optim_bucket_count(t->optim), &(kith_optim_bucket){ 0 }),
                   KITH_ERR_INVALID_ARG);
}

void case_buckets_families(rank_info *info)
{
    family families[] = { gpt2(), llama(), mixtral() };
    for (int i = 0; i < 6; i++) {
        grid_layers grid = layers_on_grid(info, info->size, KITH_F64, i & 1, 0);
        if (i >> 1 != 0 && info->size == 3) { // 2 key heads go to 1, 2 or 4 ranks
            REQUIRE_OK(kith_layers_destroy(grid.layers));
            continue;
        }
        kith_optim_options options = options_of(info, &grid);
        options.bucket_nbytes = 2000;
        training t = make_training(&grid, &families[i >> 1], &options);
        REQUIRE(kith_optim_bucket_count(t.optim) > 3);
        check_families(&t);
        end_training(&t);
    }
}

/* The table has a line for each parameter, and says how it is split and summed. */
void case_table(rank_info *info)
{
    (void)info;
    family f = gpt2();
    kith_optim_options options = KITH_OPTIM_OPTIONS_INIT;
    training t = train_alone(&f, KITH_F32, &options);
    char *text, *without;
    REQUIRE_OK(kith_layers_print_params(t.s.layers, t.optim, &text));
    REQUIRE_OK(kith_layers_print_params(t.s.layers, NULL, &without));
    size_t lines = 0;
    for (const char *c = text; *c != '\0'; c++)
        lines += *c == '\n';
    REQUIRE(lines == 1 + kith_layers_param_count(t.s.layers));
    REQUIRE_TEXT(text, "\nembedding.weight               [53, 24]  rows   [0, 53)  1       data ");
    REQUIRE_TEXT(text, "\nembedding.positions            [16, 24]  -      all ");
    REQUIRE_TEXT(text, "bucket");
    REQUIRE(strstr(without, "bucket") == NULL);
    REQUIRE_STATUS(kith_layers_print_params(NULL, NULL, &text), KITH_ERR_INVALID_ARG);
    kith_free(text), kith_free(without);
    end_training(&t);
}

/* A model that no machine here could hold: its memory is counted, and a step counts as done. */
void case_dry_run(rank_info *info)
{
    (void)info;
    kith_layers_options place = KITH_LAYERS_OPTIONS_INIT;
    place.dtype = KITH_BF16, place.dry_tp = 8;
    kith_layers *layers;
    REQUIRE_OK(kith_layers_create(&place, &layers));
    kith_transformer_config config = KITH_TRANSFORMER_CONFIG_INIT;
    REQUIRE_OK(kith_transformer_llama(&config, 8192, 28672, 80, 64, 8, 32000));
    kith_transformer_options options = KITH_TRANSFORMER_OPTIONS_INIT;
    options.config = &config;
    kith_transformer *transformer;
    REQUIRE_OK(kith_transformer_create(layers, &options, &transformer));
    kith_optim_options how = KITH_OPTIM_OPTIONS_INIT;
    kith_optim *optim;
    REQUIRE_OK(kith_optim_create(layers, &how, &optim));
    kith_layers_memory memory;
    kith_layers_get_memory(layers, &memory);
    uint64_t elements = memory.parameters / 2; // of bf16
    REQUIRE(elements > UINT64_C(8000000000));
    REQUIRE(kith_optim_memory(optim) >= 12 * elements && kith_optim_memory(optim) < 12 * elements + 12 * 16 * 2000);
    kith_tape *tape = tape_of(layers, 2048, 1);
    kith_tensor ids = kith_tensor_view(NULL, KITH_INT32, 2, (const int64_t[]){ 2048, 1 });
    REQUIRE_OK(kith_optim_begin(optim, 1));
    REQUIRE_OK(kith_transformer_forward(transformer, tape, &ids, &ids, NULL, NULL));
    REQUIRE_OK(kith_transformer_backward(transformer, tape, NULL, 1, 1, NULL));
    kith_optim_result result;
    REQUIRE_OK(kith_optim_step(optim, 0.1, &result));
    REQUIRE(result.step == 1 && result.grad_norm == 0);
    kith_tape_destroy(tape);
    kith_optim_destroy(optim);
    REQUIRE_OK(kith_layers_destroy(layers));
}
