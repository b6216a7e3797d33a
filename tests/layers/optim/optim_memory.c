/* tests/layers/optim/optim_memory.c - an optimizer is created on n ranks while one of them has no memory.
 *
 *     optim_memory <ranks>
 *
 * Each allocation of the last rank's fails once. Every time all ranks get the same status, parameters keep their values
 * wherever they lie by then, and nothing is left that is not freed. The creation after the last works. A program of its
 * own, as it reaches into the library to make allocations fail.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "conformance/harness.h"

#include "core/base/fault.h"
#include <kith/optim.h>
#include <kith/transformer.h>

static void fail_allocation(const rank_info *info, int nth)
{
    char fault[32] = "";
    if (nth > 0 && info->rank == info->size - 1)
        snprintf(fault, sizeof fault, "alloc:%d", nth);
    setenv("KITH_FAULT", fault, 1);
    REQUIRE_OK(ki_fault_configure(info->rank));
}

static void require_same_status(const rank_info *info, kith_status status)
{
    int64_t sum = status;
    REQUIRE_OK(kith_all_reduce(info->world, &sum, &sum, 1, KITH_INT64, KITH_SUM));
    if (sum != (int64_t)status * info->size)
        rank_fail(__FILE__, __LINE__, "this rank got %s, others did not", kith_status_name(status));
}

static kith_layers *make_model(void)
{
    kith_layers_options place = KITH_LAYERS_OPTIONS_INIT;
    place.dtype = KITH_BF16;
    kith_layers *layers;
    REQUIRE_OK(kith_layers_create(&place, &layers));
    kith_transformer_config config = KITH_TRANSFORMER_CONFIG_INIT;
    REQUIRE_OK(kith_transformer_gpt2(&config, 8, 1, 2, 11, 4));
    kith_transformer_options options = KITH_TRANSFORMER_OPTIONS_INIT;
    options.config = &config;
    kith_transformer *transformer;
    REQUIRE_OK(kith_transformer_create(layers, &options, &transformer));
    REQUIRE_OK(kith_transformer_init(transformer, 1, 0.1));
    return layers;
}

static void create(rank_info *info)
{
    kith_layers *layers = make_model();
    uint64_t hash = kith_layers_hash_values(layers);
    kith_optim_options options = KITH_OPTIM_OPTIONS_INIT;
    options.data = options.all = info->world;
    options.is_sharded = 1, options.bucket_nbytes = 1000, options.allows_unused = 1;
    kith_status status = KITH_ERR_NO_MEMORY;
    kith_optim *optim = NULL;
    int nth = 0;
    while (status != KITH_OK) {
        fail_allocation(info, ++nth);
        status = kith_optim_create(layers, &options, &optim);
        fail_allocation(info, 0);
        if (status != KITH_OK && status != KITH_ERR_NO_MEMORY)
            rank_fail(__FILE__, __LINE__, "allocation %d: wanted no memory, got %s: %s", nth, kith_status_name(status),
                      kith_error_detail());
        require_same_status(info, status);
        REQUIRE((status == KITH_OK) == (optim != NULL));
        REQUIRE(kith_layers_hash_values(layers) == hash);
    }
    REQUIRE(nth > 20);
    char *text;
    setenv("KITH_FAULT", "alloc:1", 1);
    REQUIRE_OK(ki_fault_configure(info->rank));
    REQUIRE_STATUS(kith_layers_print_params(layers, optim, &text), KITH_ERR_NO_MEMORY);
    fail_allocation(info, 0);
    REQUIRE_OK(kith_optim_begin(optim, 1));
    REQUIRE_OK(kith_optim_step(optim, 0, NULL));
    REQUIRE(kith_layers_hash_values(layers) == hash); // a rate of 0
    kith_optim_destroy(optim);
    REQUIRE_OK(kith_layers_destroy(layers));
}

int main(int argc, char **argv)
{
    run_options options = { .mode = LAUNCH_FORK, .size = argc > 1 ? atoi(argv[1]) : 2, .timeout_s = 50 };
    return run_ranks(&options, create, NULL) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
