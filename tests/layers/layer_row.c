/* tests/layers/layer_row.c - row-parallel layers: small inputs of public reports, with the right results.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "layer_cases.h"

#include <string.h>

enum { IN = 4, OUT = 2 };

static kith_tensor of_numbers(double *values, int64_t rows, int64_t cols)
{
    return kith_tensor_view(values, KITH_F64, 2, (const int64_t[]){ rows, cols });
}

static kith_linear *make_row(kith_layers *layers)
{
    static double weight[] = { 1, 0, 1, 0, 0, 1, 0, 1 }, bias[] = { 10, 20 };
    kith_linear_options options = KITH_LINEAR_OPTIONS_INIT;
    options.kind = KITH_LINEAR_ROW, options.in_features = IN, options.out_features = OUT, options.has_bias = 1;
    kith_linear *linear;
    REQUIRE_OK(kith_linear_create(layers, &options, &linear));
    kith_tensor whole_weight = of_numbers(weight, OUT, IN);
    kith_tensor whole_bias = kith_tensor_view(bias, KITH_F64, 1, (const int64_t[]){ OUT });
    REQUIRE_OK(kith_param_load(kith_linear_weight(linear, 0), &whole_weight));
    REQUIRE_OK(kith_param_load(kith_linear_bias(linear, 0), &whole_bias));
    return linear;
}

/* This rank's features of [tokens, IN], as the layer before would leave them: free(data). */
static kith_tensor own_features(rank_info *info, const double *whole, int64_t tokens)
{
    int64_t first, count;
    kith_split_range(IN, info->size, info->rank, &first, &count);
    double *own = malloc((size_t)(tokens * count) * sizeof *own);
    for (int64_t r = 0; r < tokens; r++)
        memcpy(own + r * count, whole + r * IN + first, (size_t)count * sizeof *own);
    return of_numbers(own, tokens, count);
}

/* The bias counts once, and so does its gradient. */
static void check_bias(rank_info *info)
{
    enum { TOKENS = 3 };
    const double whole[TOKENS * IN] = { 1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4 };
    double ones[TOKENS * OUT] = { 1, 1, 1, 1, 1, 1 };
    kith_layers *layers = layers_over(info, info->size, KITH_F64, 0);
    kith_linear *linear = make_row(layers);
    kith_tape *tape = tape_of(layers, TOKENS, 1);
    kith_tensor x = own_features(info, whole, TOKENS), dy = of_numbers(ones, TOKENS, OUT), y;
    REQUIRE_OK(kith_linear_forward(linear, tape, &x, &y));
    for (int r = 0; r < TOKENS; r++)
        REQUIRE(element(&y, 2 * r) == 14 && element(&y, 2 * r + 1) == 26);
    REQUIRE_OK(kith_linear_backward(linear, tape, &dy, NULL));
    REQUIRE_OK(kith_layers_finish_grads(layers));
    const kith_param *bias = kith_linear_bias(linear, 0);
    REQUIRE(element(&bias->grad, 0) == 3 && element(&bias->grad, 1) == 3);
    kith_tensor_release(&y);
    free(x.data);
    kith_tape_destroy(tape);
    REQUIRE_OK(kith_layers_destroy(layers));
}

/* With sequence parallelism a rank's gradient of the bias is that of its positions, until it is finished; and dx, of
 * whole sequences, tells tokens apart. */
static void check_sequence(rank_info *info)
{
    enum { TOKENS = 4 };
    const double whole[TOKENS * IN] = { 0 };
    double ones[TOKENS * OUT], distinct[TOKENS * OUT];
    for (int i = 0; i < TOKENS * OUT; i++)
        ones[i] = 1, distinct[i] = i + 1;
    kith_layers *layers = layers_over(info, info->size, KITH_F64, 1);
    kith_linear *linear = make_row(layers);
    kith_tape *tape = tape_of(layers, TOKENS, 1);
    int64_t first, count, features;
    kith_split_range(TOKENS, info->size, info->rank, &first, &count);
    kith_tensor x = own_features(info, whole, TOKENS), y, dx;
    for (int pass = 0; pass < 2; pass++) {
        kith_tensor dy = of_numbers((pass == 0 ? ones : distinct) + first * OUT, count, OUT);
        REQUIRE_OK(kith_layers_zero_grads(layers));
        REQUIRE_OK(kith_linear_forward(linear, tape, &x, &y));
        REQUIRE_OK(kith_linear_backward(linear, tape, &dy, &dx));
        const kith_param *bias = kith_linear_bias(linear, 0);
        if (pass == 0)
            REQUIRE(element(&bias->grad, 0) == (double)count);
        REQUIRE_OK(kith_layers_finish_grads(layers));
        if (pass == 0)
            REQUIRE(element(&bias->grad, 0) == TOKENS && element(&bias->grad, 1) == TOKENS);
        kith_tensor_release(&y);
        if (pass == 0)
            kith_tensor_release(&dx);
    }
    kith_split_range(IN, info->size, info->rank, &first, &features);
    for (int64_t r = 0; r < TOKENS; r++) // rows of the weight are (1, 0, 1, 0) and (0, 1, 0, 1): dx is dy twice
        for (int64_t c = 0; c < features; c++)
            REQUIRE(element(&dx, r * features + c) == distinct[r * OUT + (first + c) % 2]);
    kith_tensor_release(&dx);
    free(x.data);
    kith_tape_destroy(tape);
    REQUIRE_OK(kith_layers_destroy(layers));
}

void case_row(rank_info *info)
{
    check_bias(info);
    check_sequence(info);
}
