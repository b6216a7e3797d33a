/* tests/layers/optim/optim_norm.c - one norm of the whole model's gradient, each element counted once.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "optim_cases.h"

#include <math.h>

static kith_optim *begin(rank_info *info, const grid_layers *grid, int is_sharded)
{
    kith_optim_options options = options_of(info, grid);
    options.allows_unused = 1, options.is_sharded = is_sharded;
    kith_optim *optim;
    REQUIRE_OK(kith_optim_create(grid->layers, &options, &optim));
    REQUIRE_OK(kith_optim_begin(optim, 1));
    return optim;
}

static void end(kith_optim *optim, kith_layers *layers)
{
    kith_optim_destroy(optim);
    REQUIRE_OK(kith_layers_destroy(layers));
}

/* Parts 3 and 4 on two ranks of tp, 12 on both: 13, and not 17.69 (Megatron-LM PR#7228). */
void case_norm_counts_replicated_once(rank_info *info)
{
    grid_layers grid = layers_on_grid(info, 2, KITH_F64, 0, 0);
    add_linear(grid.layers, "split", KITH_LINEAR_COLUMN, 2, 1, 0);
    add_norm(grid.layers, "norm", 1);
    kith_optim *optim = begin(info, &grid, 0);
    put_grad(grid.layers, "split.weight", info->rank == 0 ? 3 : 4);
    put_grad(grid.layers, "norm.weight", 12);
    double norm;
    REQUIRE_OK(kith_optim_reduce(optim, &norm));
    REQUIRE(norm == 13);
    end(optim, grid.layers);
}

/* Summands over tp are summed once, by the step or by the caller before it. */
void case_summands_are_summed_once(rank_info *info)
{
    for (int is_callers = 0; is_callers < 2; is_callers++) {
        grid_layers grid = layers_on_grid(info, info->size, KITH_F64, 1, 0);
        add_norm(grid.layers, "norm", 4);
        kith_optim *optim = begin(info, &grid, 0);
        put_grad(grid.layers, "norm.weight", 1);
        if (is_callers)
            REQUIRE_OK(kith_layers_finish_grads(grid.layers));
        double norm;
        REQUIRE_OK(kith_optim_reduce(optim, &norm));
        REQUIRE_NEAR(norm, 2.0 * info->size, 0);
        end(optim, grid.layers);
    }
}

/* Experts of 3 and 4 on two ranks of ep, which share a router of 12 whose gradient is a sum: 13 with and without tp
 * beside them and shards. What a rank does not count is not dropped, as where experts had another group than the norm
 * (Megatron-LM PR#5916). */
void case_norm_counts_experts_once(rank_info *info)
{
    int tp = info->size / 2;
    for (int is_sharded = 0; is_sharded < 2; is_sharded++) {
        grid_layers grid = layers_on_grid(info, tp, KITH_F64, 0, 1);
        kith_moe_options options = KITH_MOE_OPTIONS_INIT;
        options.name = "moe", options.features = 1, options.inner_features = tp, options.experts = 2, options.top_k = 1;
        kith_moe *moe;
        REQUIRE_OK(kith_moe_create(grid.layers, &options, &moe));
        kith_optim *optim = begin(info, &grid, is_sharded);
        for (size_t i = 0; i < kith_layers_param_count(grid.layers); i++) {
            const kith_param *param = kith_layers_param(grid.layers, i);
            double wanted = param->is_expert ? (grid.data_rank == 0 ? 3 : 4) / sqrt(2.0 * tp) : 6 / sqrt(2.0);
            put_grad(grid.layers, param->name, wanted); // up and down of tp each; two ranks' summands of two routers
        }
        double norm;
        REQUIRE_OK(kith_optim_reduce(optim, &norm));
        REQUIRE_NEAR(norm, 13, 1e-15);
        end(optim, grid.layers);
    }
}

/* After a reduce-scatter a rank's gradient holds sums in its shard alone; the norm is that of the sums (llm.c#524). */
void case_norm_of_stale_shards(rank_info *info)
{
    for (int is_sharded = 0; is_sharded < 2; is_sharded++) {
        grid_layers grid = layers_on_grid(info, 1, KITH_F32, 0, 0);
        add_norm(grid.layers, "a", 1000), add_norm(grid.layers, "b", 333);
        kith_optim *optim = begin(info, &grid, is_sharded);
        put_grad(grid.layers, "a.weight", 2 * info->rank + 1); // 1 + 3 + ... = size^2
        put_grad(grid.layers, "b.weight", info->rank == 0 ? 2 : -1);
        double norm, a = info->size * info->size, b = 3 - info->size;
        REQUIRE_OK(kith_optim_reduce(optim, &norm));
        REQUIRE(norm == sqrt(1000 * a * a + 333 * b * b));
        end(optim, grid.layers);
    }
}

/* A norm that is not finite: nothing is updated, and the next step is as if there had been none. Gradients that a loss
 * scale made large are scaled back before clipping. */
void case_skipping(rank_info *info)
{
    grid_layers grid = layers_on_grid(info, 1, KITH_F64, 0, 0);
    add_norm(grid.layers, "a", 4);
    kith_optim *optim = begin(info, &grid, 0);
    kith_loss_scale scale = KITH_LOSS_SCALE_INIT;
    kith_optim_result result;
    const kith_tensor *value = &kith_layers_param(grid.layers, 0)->value;
    put_grad(grid.layers, "a.weight", HUGE_VAL);
    double norm;
    REQUIRE_OK(kith_optim_reduce(optim, &norm));
    REQUIRE(kith_loss_scale_update(&scale, norm) == 0 && scale.scale == 32768);
    REQUIRE_OK(kith_optim_update(optim, 0.1, 1 / scale.scale, &result));
    REQUIRE(result.is_skipped == 1 && result.step == 0 && kith_optim_steps(optim) == 0 && element(value, 3) == 1);
    REQUIRE_OK(kith_optim_begin(optim, 1));
    put_grad(grid.layers, "a.weight", NAN);
    REQUIRE_OK(kith_optim_step(optim, 0.1, &result));
    REQUIRE(result.is_skipped == 1 && element(value, 0) == 1);
    REQUIRE_OK(kith_optim_begin(optim, 1));
    put_grad(grid.layers, "a.weight", 32768);
    REQUIRE_OK(kith_optim_reduce(optim, &norm));
    REQUIRE(norm == 65536);
    REQUIRE_OK(kith_optim_update(optim, 0.1, 1 / scale.scale, &result));
    REQUIRE(!result.is_skipped && result.step == 1 && result.grad_norm == 2 && result.clip_factor == 0.25);
    REQUIRE_NEAR(element(value, 0), 1 - 0.1, 1e-7); // AdamW's first step has the sign of the gradient
    end(optim, grid.layers);
}
