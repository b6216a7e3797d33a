/* tests/layers/optim/optim_misuse.c - wrong arguments and wrong order, said in a sentence, on all ranks alike.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "optim_cases.h"

#include <math.h>

static void refuse(kith_layers *layers, const kith_optim_options *options, kith_status wanted, const char *text)
{
    kith_optim *optim = NULL;
    REQUIRE_STATUS(kith_optim_create(layers, options, &optim), wanted);
    REQUIRE_DETAIL(text);
    REQUIRE(optim == NULL);
}

static void refuse_numbers(kith_layers *layers, kith_optim_options good)
{
    kith_optim_options bad = good;
    bad.kind = (kith_optim_kind)7, refuse(layers, &bad, KITH_ERR_INVALID_ARG, "kind 7");
    bad = good, bad.beta2 = 1, refuse(layers, &bad, KITH_ERR_INVALID_ARG, "beta2 1");
    bad = good, bad.momentum = -0.1, refuse(layers, &bad, KITH_ERR_INVALID_ARG, "momentum -0.1");
    bad = good, bad.epsilon = 0, refuse(layers, &bad, KITH_ERR_INVALID_ARG, "epsilon 0");
    bad = good, bad.clip_norm = NAN, refuse(layers, &bad, KITH_ERR_INVALID_ARG, "clip_norm");
    bad = good, bad.weight_decay = HUGE_VAL, refuse(layers, &bad, KITH_ERR_INVALID_ARG, "weight_decay");
    bad = good, bad.struct_size = 0, refuse(layers, &bad, KITH_ERR_INVALID_ARG, "KITH_OPTIM_OPTIONS_INIT");
}

static void refuse_groups(rank_info *info, kith_layers *layers, const grid_layers *grid, kith_optim_options good)
{
    kith_optim_options bad = good;
    bad.tied = kith_layers_param(layers, 0), refuse(layers, &bad, KITH_ERR_INVALID_ARG, "both or none");
    if (info->size == 1)
        return;
    bad = good, bad.expert_data = grid->data, bad.data = NULL, bad.all = info->world;
    refuse(layers, &bad, KITH_ERR_INVALID_ARG, "ep times expert_data");
    grid_layers split = layers_on_grid(info, info->size, KITH_F32, 0, 0); // tp is the world, data are made up
    bad = good, bad.data = info->world, bad.all = NULL;
    refuse(split.layers, &bad, KITH_ERR_INVALID_ARG, "all must be given");
    bad.all = info->world, refuse(split.layers, &bad, KITH_ERR_INVALID_ARG, "fewer than");
    REQUIRE_OK(kith_layers_destroy(split.layers));
}

static void refuse_orders(kith_layers *layers, kith_linear *linear, kith_optim *optim, const kith_optim_options *good)
{
    double norm;
    REQUIRE_STATUS(kith_optim_step(optim, 1, NULL), KITH_ERR_INVALID_ARG);
    REQUIRE_DETAIL("kith_optim_begin()");
    REQUIRE_STATUS(kith_optim_update(optim, 1, 1, NULL), KITH_ERR_INVALID_ARG);
    REQUIRE_DETAIL("kith_optim_reduce()");
    REQUIRE_STATUS(kith_optim_begin(optim, 0), KITH_ERR_INVALID_ARG);
    REQUIRE_OK(kith_optim_begin(optim, 1));
    REQUIRE_STATUS(kith_optim_step(optim, kith_layers_tp_rank(layers) == 0 ? NAN : 1, NULL), KITH_ERR_INVALID_ARG);
    REQUIRE_DETAIL("learning_rate nan");
    REQUIRE_OK(kith_optim_begin(optim, 1));
    REQUIRE_STATUS(kith_optim_step(optim, -1, NULL), KITH_ERR_INVALID_ARG);
    REQUIRE_OK(kith_optim_begin(optim, 1));
    REQUIRE_OK(kith_optim_reduce(optim, &norm));
    REQUIRE_STATUS(kith_optim_reduce(optim, &norm), KITH_ERR_INVALID_ARG);
    REQUIRE_STATUS(kith_optim_update(optim, 1, NAN, NULL), KITH_ERR_INVALID_ARG);
    REQUIRE_OK(kith_optim_update(optim, 1, 1, NULL));
    refuse(layers, good, KITH_ERR_BUSY, "an optimizer already");
    REQUIRE_STATUS(kith_layers_destroy(layers), KITH_ERR_BUSY);
    REQUIRE_DETAIL("optimizer");
    REQUIRE_STATUS(kith_optim_set_steps(optim, -1), KITH_ERR_INVALID_ARG);
    (void)linear;
    add_norm(layers, "later", 3);
    REQUIRE_STATUS(kith_optim_begin(optim, 1), KITH_ERR_INVALID_ARG);
    REQUIRE_DETAIL("after all layers");
}

void case_misuse(rank_info *info)
{
    grid_layers grid = layers_on_grid(info, 1, KITH_F32, 0, 0);
    kith_linear *linear = add_linear(grid.layers, "linear", KITH_LINEAR_WHOLE, 2, 2, 0);
    kith_optim_options good = options_of(info, &grid);
    good.allows_unused = 1;
    refuse_numbers(grid.layers, good);
    refuse_groups(info, grid.layers, &grid, good);
    REQUIRE_STATUS(kith_optim_create(NULL, &good, &(kith_optim *){ NULL }), KITH_ERR_INVALID_ARG);
    kith_tape *tape = tape_of(grid.layers, 1, 1);
    float x[] = { 1, 2 };
    kith_tensor input = kith_tensor_view(x, KITH_F32, 2, (const int64_t[]){ 1, 2 }), y;
    REQUIRE_OK(kith_linear_forward(linear, tape, &input, &y));
    kith_tensor_release(&y);
    refuse(grid.layers, &good, KITH_ERR_BUSY, "begin after backward");
    REQUIRE_OK(kith_linear_backward(linear, tape, &input, NULL));
    kith_optim *optim;
    REQUIRE_OK(kith_optim_create(grid.layers, &good, &optim));
    refuse_orders(grid.layers, linear, optim, &good);
    kith_optim_destroy(optim);
    kith_optim_destroy(NULL);
    kith_tape_destroy(tape);
    REQUIRE(kith_optim_steps(NULL) == -1 && kith_optim_memory(NULL) == 0 && kith_optim_bucket_count(NULL) == 0);
    REQUIRE_OK(kith_layers_destroy(grid.layers));
}

/* What differs between ranks is named on all. */
void case_mismatch(rank_info *info)
{
    grid_layers grid = layers_on_grid(info, 1, KITH_F32, 0, 0);
    add_norm(grid.layers, "same", 3);
    add_norm(grid.layers, "size", info->rank == 1 ? 4 : 5);
    kith_optim_options options = options_of(info, &grid);
    refuse(grid.layers, &options, KITH_ERR_MISMATCH, "size.weight is not the same");
    options.beta1 = info->rank == 1 ? 0.8 : 0.9;
    refuse(grid.layers, &options, KITH_ERR_MISMATCH, "beta1");
    options.beta1 = info->rank == 1 ? 2 : 0.9; // wrong on one alone
    refuse(grid.layers, &options, KITH_ERR_INVALID_ARG, "beta1 2");
    REQUIRE_OK(kith_layers_destroy(grid.layers));
    grid = layers_on_grid(info, 1, KITH_F32, 0, 0);
    add_norm(grid.layers, info->rank == 1 ? "b" : "a", 3);
    options = options_of(info, &grid);
    refuse(grid.layers, &options, KITH_ERR_MISMATCH, info->rank == 1 ? "b.weight" : ".weight is not the same");
    if (info->rank == 0)
        add_norm(grid.layers, "more", 3);
    refuse(grid.layers, &options, KITH_ERR_MISMATCH, "the number of parameters");
    REQUIRE_OK(kith_layers_destroy(grid.layers));
}
