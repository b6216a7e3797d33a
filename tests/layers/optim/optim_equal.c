/* tests/layers/optim/optim_equal.c - the same training whatever the layout: shards, ranks with other data, tp beside
 * them, experts.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "optim_cases.h"

/* Sharded, whole, deferred, in one bucket and in many: the same bits, as sums are formed in the same order. */
void case_sharded_equals_whole(rank_info *info)
{
    static const kith_dtype dtypes[] = { KITH_F32, KITH_F64, KITH_BF16, KITH_F16 };
    family f = gpt2();
    f.config.dropout = 0.1;
    for (int d = 0; d < 4; d++)
        for (int kind = 0; kind < 2; kind++) {
            grid_layers grid = layers_on_grid(info, 1, dtypes[d], 0, 0);
            kith_optim_options options = options_of(info, &grid);
            options.kind = (kith_optim_kind)kind, options.momentum = 0.9;
            training whole = make_training(&grid, &f, &options);
            train(&whole, 0, 3, info->size * 2);
            REQUIRE_SAME_HASH(info->world, grid.layers);
            for (int way = 0; way < 3; way++) {
                grid_layers other = layers_on_grid(info, 1, dtypes[d], 0, 0);
                kith_optim_options changed = options;
                changed.data = other.data;
                changed.is_sharded = way != 1;
                changed.is_deferred = way > 0;
                training t = make_training(&other, &f, &changed);
                train(&t, 0, 3, info->size * 2);
                REQUIRE(t.result.grad_norm == whole.result.grad_norm && t.result.clip_factor < 1);
                REQUIRE_SAME_VALUES(other.layers, grid.layers);
                REQUIRE(info->size == 1 || !changed.is_sharded ||
                        kith_optim_memory(t.optim) * (uint64_t)info->size == kith_optim_memory(whole.optim));
                end_training(&t);
            }
            end_training(&whole);
        }
}

/* n ranks with m microbatches each, and one rank with n * m: the same weights but for the order of sums. */
void case_ranks_equal_microbatches(rank_info *info)
{
    family families[] = { gpt2(), llama() };
    for (int i = 0; i < 2; i++)
        for (int is_sharded = 0; is_sharded < 2; is_sharded++) {
            grid_layers grid = layers_on_grid(info, 1, KITH_F64, 0, 0);
            kith_optim_options options = options_of(info, &grid);
            options.is_sharded = is_sharded;
            families[i].config.dropout = 0.1;
            training t = make_training(&grid, &families[i], &options);
            training alone = train_alone(&families[i], KITH_F64, &options);
            train(&t, 0, 3, info->size * 2), train(&alone, 0, 3, info->size * 2);
            REQUIRE_NEAR(t.result.grad_norm, alone.result.grad_norm, 1e-11);
            REQUIRE_NEAR_VALUES(grid.layers, alone.s.layers, 1e-8); // where a gradient is near 0 AdamW has its sign
            REQUIRE_SAME_HASH(info->world, grid.layers);
            end_training(&t), end_training(&alone);
        }
}

/* tp 2 x dp 2, with and without sequence parallelism, SGD, whose steps are as exact as gradients are. */
void case_grid_equals_one_rank(rank_info *info)
{
    family families[] = { gpt2(), llama() };
    for (int i = 0; i < 8; i++) {
        int is_sharded = i & 1, sp = i >> 1 & 1;
        grid_layers grid = layers_on_grid(info, 2, KITH_F64, sp, 0);
        kith_optim_options options = options_of(info, &grid);
        options.kind = KITH_SGD, options.momentum = 0.9, options.is_sharded = is_sharded;
        training t = make_training(&grid, &families[i >> 2], &options);
        training alone = train_alone(&families[i >> 2], KITH_F64, &options);
        train(&t, 0, 3, 4), train(&alone, 0, 3, 4);
        REQUIRE_NEAR(t.result.grad_norm, alone.result.grad_norm, 1e-11);
        REQUIRE_NEAR_VALUES(grid.layers, alone.s.layers, 1e-11);
        REQUIRE_SAME_HASH(grid.data, grid.layers);
        end_training(&t), end_training(&alone);
    }
}

/* Experts over ep, each with the gradient of all ranks' tokens: not ep times that, and not a part of it
 * (DeepSpeed#6546). */
void case_experts_equal_one_rank(rank_info *info)
{
    for (int i = 0; i < 4; i++) {
        int is_sharded = i & 1, sp = i >> 1;
        family f = mixtral();
        f.config.auxiliary_weight = 0.01;
        grid_layers grid = layers_on_grid(info, info->size / 2, KITH_F64, sp, 1);
        kith_optim_options options = options_of(info, &grid);
        options.kind = KITH_SGD, options.momentum = 0.9, options.is_sharded = is_sharded;
        training t = make_training(&grid, &f, &options), alone = train_alone(&f, KITH_F64, &options);
        for (int step = 0; step < 2; step++) { // the auxiliary loss is of one microbatch of all ranks
            REQUIRE_OK(kith_optim_begin(t.optim, 1));
            REQUIRE_OK(kith_optim_begin(alone.optim, 1));
            run_samples(&t.s, step, t.data_rank, 1, 0.5 / SEQUENCE);
            run_samples(&alone.s, step, 0, 2, 0.5 / SEQUENCE);
            REQUIRE_OK(kith_optim_step(t.optim, 0.01, &t.result));
            REQUIRE_OK(kith_optim_step(alone.optim, 0.01, &alone.result));
        }
        REQUIRE_NEAR(t.result.grad_norm, alone.result.grad_norm, 1e-11);
        REQUIRE_NEAR_VALUES(grid.layers, alone.s.layers, 1e-11);
        end_training(&t), end_training(&alone);
    }
}

/* Parameters of 1, 3, 17 and 1001 elements, one element a bucket or all in one, on any number of ranks. */
void case_odd_sizes(rank_info *info)
{
    static const int64_t sizes[] = { 1, 3, 17, 1001 };
    static const char *const names[] = { "a", "b", "c", "d" };
    for (int i = 0; i < 8; i++) {
        grid_layers grid = layers_on_grid(info, 1, i & 4 ? KITH_F64 : KITH_F32, 0, 0);
        kith_optim_options options = options_of(info, &grid);
        options.kind = KITH_SGD, options.is_sharded = i & 1, options.bucket_nbytes = i & 2 ? 1 : 1 << 20;
        options.allows_unused = 1, options.weight_decay = 0, options.clip_norm = 0;
        for (int p = 0; p < 4; p++)
            add_norm(grid.layers, names[p], sizes[p]);
        kith_optim *optim;
        REQUIRE_OK(kith_optim_create(grid.layers, &options, &optim));
        REQUIRE_OK(kith_optim_begin(optim, 1));
        for (size_t p = 0; p < 4; p++)
            put_grad(grid.layers, kith_layers_param(grid.layers, p)->name, (info->rank + 1) * (double)(p + 1));
        REQUIRE_OK(kith_optim_step(optim, 0.25, NULL));
        double sum = info->size * (info->size + 1) / 2.0;
        for (size_t p = 0; p < 4; p++) {
            const kith_tensor *value = &kith_layers_param(grid.layers, p)->value;
            for (int64_t e = 0; e < sizes[p]; e++)
                REQUIRE_NEAR(element(value, e), 1 - 0.25 * sum * (double)(p + 1), 0);
        }
        kith_optim_traffic traffic;
        kith_optim_get_traffic(optim, &traffic);
        uint64_t buckets = kith_optim_bucket_count(optim);
        REQUIRE(buckets == (i & 2 ? 4 : 1));
        REQUIRE(traffic.all_reduces == (i & 1 ? 0 : buckets) && traffic.reduce_scatters == (i & 1 ? buckets : 0));
        REQUIRE(traffic.all_gathers == traffic.reduce_scatters);
        kith_optim_destroy(optim);
        REQUIRE_OK(kith_layers_destroy(grid.layers));
    }
}
