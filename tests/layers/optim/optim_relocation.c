/* tests/layers/optim/optim_relocation.c - moving parameters into buckets changes no bit of what layers compute.
 *
 * Two equal models run the same step, one after an optimizer moved its memory: every loss, value and gradient is
 * compared as bits, for the three families, so for fused rows, key heads with copies, tied tables with padding,
 * experts.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "optim_cases.h"

#include <string.h>

static void require_same_bits(const char *what, const kith_param *got, const kith_tensor *a, const kith_tensor *b)
{
    size_t nbytes = (size_t)kith_tensor_count(a) * kith_dtype_nbytes(a->dtype);
    if (kith_tensor_count(a) != kith_tensor_count(b) || memcmp(a->data, b->data, nbytes) != 0)
        rank_fail(__FILE__, __LINE__, "%s of %s differs from that of the model that was not moved", what, got->name);
}

static void compare(setup *moved, setup *still)
{
    REQUIRE(memcmp(&moved->loss, &still->loss, sizeof moved->loss) == 0);
    for (size_t i = 0; i < kith_layers_param_count(moved->layers); i++) {
        const kith_param *a = kith_layers_param(moved->layers, i), *b = kith_layers_param(still->layers, i);
        REQUIRE(a->value.data != b->value.data);
        require_same_bits("the value", a, &a->value, &b->value);
        require_same_bits("the gradient", a, &a->grad, &b->grad);
    }
}

static setup make(const grid_layers *grid, const family *f)
{
    kith_transformer_options options = KITH_TRANSFORMER_OPTIONS_INIT;
    options.config = &f->config;
    options.vocabulary_multiple = 4;
    return make_setup(grid->layers, &options);
}

static void check(rank_info *info, int tp, const family *f, kith_dtype dtype, int sp, int has_experts)
{
    grid_layers first = layers_on_grid(info, tp, dtype, sp, has_experts);
    grid_layers second = layers_on_grid(info, tp, dtype, sp, has_experts);
    setup still = make(&first, f), moved = make(&second, f);
    step(&still), step(&moved); // gradients that move along
    kith_optim_options options = options_of(info, &second);
    options.is_deferred = 1; // gradients stay what this rank computed
    kith_optim *optim;
    const void *before = kith_layers_param(moved.layers, 0)->value.data;
    REQUIRE_OK(kith_optim_create(moved.layers, &options, &optim));
    REQUIRE(kith_layers_param(moved.layers, 0)->value.data != before);
    compare(&moved, &still);
    for (int split = 0; split < 2; split++) {
        REQUIRE_OK(kith_tape_set_split_backward(moved.tape, split));
        REQUIRE_OK(kith_tape_set_split_backward(still.tape, split));
        REQUIRE_OK(kith_optim_begin(optim, 1));
        step(&still), step(&moved);
        compare(&moved, &still);
    }
    kith_optim_destroy(optim);
    step(&moved);
    compare(&moved, &still);
    end_setup(&moved), end_setup(&still);
}

void case_relocation(rank_info *info)
{
    family families[] = { gpt2(), llama(), mixtral() };
    for (size_t i = 0; i < sizeof families / sizeof families[0]; i++)
        for (int sp = 0; sp < 2; sp++) {
            families[i].config.dropout = 0.1;
            check(info, info->size, &families[i], KITH_F64, sp, 0);
            check(info, info->size, &families[i], KITH_F32, sp, 0);
            check(info, info->size, &families[i], KITH_BF16, sp, 0);
        }
}

void case_relocation_experts(rank_info *info)
{
    family f = mixtral();
    f.config.auxiliary_weight = 0.01;
    for (int sp = 0; sp < 2; sp++)
        check(info, info->size / 2, &f, KITH_F64, sp, 1);
}

/* A second optimizer takes over: what the first made is left, and what it counted is of no account. */
void case_relocation_twice(rank_info *info)
{
    family f = gpt2();
    grid_layers grid = layers_on_grid(info, info->size, KITH_F64, 1, 0);
    kith_optim_options options = options_of(info, &grid);
    training t = make_training(&grid, &f, &options);
    training alone = train_alone(&f, KITH_F64, &options);
    train(&t, 0, 2, 1), train(&alone, 0, 2, 1);
    const void *before = kith_layers_param(grid.layers, 0)->value.data;
    for (int i = 0; i < 2; i++) {
        training *which = i == 0 ? &t : &alone;
        kith_optim_destroy(which->optim);
        options.bucket_nbytes = 1 << 20, options.kind = KITH_SGD;
        options.data = NULL, options.all = i == 0 ? info->world : NULL;
        REQUIRE_OK(kith_optim_create(which->s.layers, &options, &which->optim));
    }
    REQUIRE(kith_layers_param(grid.layers, 0)->value.data != before);
    train(&t, 0, 2, 1), train(&alone, 0, 2, 1);
    REQUIRE_NEAR_VALUES(grid.layers, alone.s.layers, 1e-11);
    end_training(&t), end_training(&alone);
}
