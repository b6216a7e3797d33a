/* tests/layers/creation_memory.c - a transformer is created on n ranks while one of them has no memory.
 *
 *     creation_memory <ranks>
 *
 * Each allocation of the last rank's fails once. Every time all ranks hear of it, and what they send next fits
 * together; the creation after the last of them is right. Groups of copies are there before: what a group does without
 * memory is for the tests of groups. A program of its own, as it reaches into the library to make allocations fail.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "conformance/harness.h"

#include "core/base/fault.h"
#include <kith/transformer.h>
#include <string.h>

enum { HEADS = 4, KEY_HEADS = 2 }; /* on four ranks key heads have copies on two each: groups of their own */

static void fail_allocation(const rank_info *info, int nth)
{
    char fault[32] = "";
    if (nth > 0 && info->rank == info->size - 1)
        snprintf(fault, sizeof fault, "alloc:%d", nth);
    setenv("KITH_FAULT", fault, 1);
    REQUIRE_OK(ki_fault_configure(info->rank));
}

/* A layer that has the same copies as the transformer. */
static void make_groups(kith_layers *layers, int64_t key_heads)
{
    kith_attention_options options = KITH_ATTENTION_OPTIONS_INIT;
    options.features = 8, options.heads = HEADS, options.kv_heads = key_heads;
    kith_attention *attention;
    REQUIRE_OK(kith_attention_create(layers, &options, &attention));
    REQUIRE_OK(kith_layers_finish_grads(layers));
}

static void create(rank_info *info)
{
    kith_layers_options place = KITH_LAYERS_OPTIONS_INIT;
    place.tp = info->world;
    kith_layers *layers;
    REQUIRE_OK(kith_layers_create(&place, &layers));
    int64_t key_heads = info->size == HEADS ? KEY_HEADS : HEADS;
    make_groups(layers, key_heads);
    kith_transformer_config config = KITH_TRANSFORMER_CONFIG_INIT;
    REQUIRE_OK(kith_transformer_llama(&config, 8, 8, 1, HEADS, key_heads, 11));
    kith_transformer_options options = KITH_TRANSFORMER_OPTIONS_INIT;
    options.config = &config;
    kith_status status = KITH_ERR_NO_MEMORY;
    int nth = 0;
    while (status != KITH_OK) {
        kith_transformer *transformer;
        fail_allocation(info, ++nth);
        status = kith_transformer_create(layers, &options, &transformer);
        fail_allocation(info, 0);
        if (status != KITH_OK && (status != KITH_ERR_NO_MEMORY || strstr(kith_error_detail(), "no memory") == NULL))
            rank_fail(__FILE__, __LINE__, "allocation %d: wanted no memory, got %s: %s", nth, kith_status_name(status),
                      kith_error_detail());
        int64_t ranks = 1;
        REQUIRE_OK(kith_all_reduce(info->world, &ranks, &ranks, 1, KITH_INT64, KITH_SUM));
        REQUIRE(ranks == info->size);
    }
    REQUIRE(nth > 30);
    const kith_param *key = kith_layers_find_param(layers, "blocks.0.attention.k.weight");
    REQUIRE((key->copies_group != NULL) == (info->size == HEADS));
    REQUIRE_OK(kith_layers_finish_grads(layers));
    REQUIRE_OK(kith_layers_destroy(layers));
}

int main(int argc, char **argv)
{
    run_options options = { .mode = LAUNCH_FORK, .size = argc > 1 ? atoi(argv[1]) : 2, .timeout_s = 50 };
    return run_ranks(&options, create, NULL) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
