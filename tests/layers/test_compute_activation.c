/* tests/layers/test_compute_activation.c - activations, gated units, their gradients.
 *
 * Values are compared with the formulas in f64, gradients with finite differences of those.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "compute_help.h"

#include <math.h>

#define EACH(c, r, k)                                                                                                  \
    for (int64_t r = 0; r < (c)->rows; r++)                                                                            \
        for (int64_t k = 0; k < (c)->cols; k++)

static const ki_activation kinds[] = { KI_GELU_EXACT, KI_GELU_TANH, KI_SILU };
static const ki_mat none;

static double act(ki_activation kind, double x)
{
    if (kind == KI_SILU)
        return x / (1 + exp(-x));
    if (kind == KI_GELU_TANH)
        return 0.5 * x * (1 + tanh(sqrt(2 / 3.14159265358979323846) * (x + 0.044715 * x * x * x)));
    return 0.5 * x * erfc(-x / sqrt(2.0)); /* erfc(-z) = 1 + erf(z) */
}

/* Central differences of fourth order: exact to about 1e-11. */
static double slope(ki_activation kind, double x)
{
    const double h = 1e-3;
    return (8 * (act(kind, x + h) - act(kind, x - h)) - (act(kind, x + 2 * h) - act(kind, x - 2 * h))) / (12 * h);
}

/* Units of rounding that a slope in this type is granted: finite differences limit it in f64. */
static double units_of(const test_case *c)
{
    return c->wide == KITH_F64 ? 1e-10 / 0x1p-53 : 16;
}

static void check_activation(const test_case *c)
{
    for (int i = 0; i < 3; i++) {
        ki_mat x = test_random(c->dtype, c->rows, c->cols, 3), y = test_zeros(c->dtype, c->rows, c->cols);
        ki_mat bias = test_random(c->dtype, 1, c->cols, 1), dy = test_random(c->dtype, c->rows, c->cols, 1);
        ki_mat dx = test_zeros(c->dtype, c->rows, c->cols);
        test_done(c, "activation", c->ops->activation(c->compute, kinds[i], x, bias, y));
        test_done(c, "activation_grad", c->ops->activation_grad(c->compute, kinds[i], x, bias, dy, dx));
        EACH(c, r, k)
        {
            double at = test_at(x, r, k) + test_at(bias, 0, k), d = test_at(dy, r, k);
            test_near(c, "activation", y, r, k, act(kinds[i], at), fabs(at) + 0.1, 16);
            test_near(c, "activation_grad", dx, r, k, d * slope(kinds[i], at), fabs(d) * (1 + fabs(at)), units_of(c));
        }
    }
}

/* In place gives the same bits. */
static void check_in_place(const test_case *c)
{
    ki_mat x = test_random(c->dtype, c->rows, c->cols, 3), y = test_zeros(c->dtype, c->rows, c->cols);
    ki_mat dy = test_random(c->dtype, c->rows, c->cols, 1), dx = test_zeros(c->dtype, c->rows, c->cols);
    test_done(c, "activation", c->ops->activation(c->compute, KI_SILU, x, none, y));
    test_done(c, "activation_grad", c->ops->activation_grad(c->compute, KI_SILU, x, none, dy, dx));
    test_done(c, "activation_grad", c->ops->activation_grad(c->compute, KI_SILU, x, none, dy, dy));
    test_same(c, "activation_grad in place", dx, dy);
    test_done(c, "activation", c->ops->activation(c->compute, KI_SILU, x, none, x));
    test_same(c, "activation in place", x, y);
}

static void check_gated(const test_case *c)
{
    for (int i = 0; i < 3; i++) {
        ki_mat gate = test_random(c->dtype, c->rows, c->cols, 2), up = test_random(c->dtype, c->rows, c->cols, 1);
        ki_mat y = test_zeros(c->dtype, c->rows, c->cols), dy = test_random(c->dtype, c->rows, c->cols, 1);
        ki_mat dgate = test_zeros(c->dtype, c->rows, c->cols), dup = test_zeros(c->dtype, c->rows, c->cols);
        test_done(c, "gated", c->ops->gated(c->compute, kinds[i], gate, up, y));
        test_done(c, "gated_grad", c->ops->gated_grad(c->compute, kinds[i], gate, up, dy, dgate, dup));
        EACH(c, r, k)
        {
            double g = test_at(gate, r, k), u = test_at(up, r, k), d = test_at(dy, r, k), size = 1 + fabs(g);
            test_near(c, "gated", y, r, k, act(kinds[i], g) * u, size * fabs(u), 16);
            test_near(c, "gated_grad of gate", dgate, r, k, d * u * slope(kinds[i], g), size * fabs(d * u),
                      units_of(c));
            test_near(c, "gated_grad of up", dup, r, k, d * act(kinds[i], g), size * fabs(d), 16);
        }
    }
}

/* Far from zero the functions are x or 0 and the slopes 1 or 0; NaN stays; nothing between is NaN. */
static void check_extremes(const test_case *c)
{
    static const double very_far[] = { 100, 1e3, 1e10, 1e30, 3e38 }, far_in_f16[] = { 100, 1e3, 1e4, 5e4, 65504 };
    const double *far = c->dtype == KITH_F16 ? far_in_f16 : very_far;
    ki_mat x = test_zeros(c->dtype, 1, 11), y = test_zeros(c->dtype, 1, 11);
    ki_mat dy = test_zeros(c->dtype, 1, 11), dx = test_zeros(c->dtype, 1, 11);
    for (int64_t i = 0; i < 5; i++) {
        test_set(x, 0, i, far[i]);
        test_set(x, 0, 5 + i, -far[i]);
    }
    test_set(x, 0, 10, NAN);
    (void)c->ops->fill(c->compute, dy, 1);
    for (int k = 0; k < 3; k++) {
        test_done(c, "activation", c->ops->activation(c->compute, kinds[k], x, none, y));
        test_done(c, "activation_grad", c->ops->activation_grad(c->compute, kinds[k], x, none, dy, dx));
        for (int64_t i = 0; i < 5; i++) {
            test_near(c, "activation far right", y, 0, i, test_at(x, 0, i), test_at(x, 0, i), 1);
            test_near(c, "activation far left", y, 0, 5 + i, 0, 1, 0.001);
            test_near(c, "slope far right", dx, 0, i, 1, 1, 1);
            test_near(c, "slope far left", dx, 0, 5 + i, 0, 1, 0.001);
        }
        test_near(c, "activation of NaN", y, 0, 10, NAN, 0, 0);
        test_near(c, "slope at NaN", dx, 0, 10, NAN, 0, 0);
    }
}

/* Gate [0, 1, 2, 3], up [1, 2, 3, 4], down all ones: 18.177789 for silu. */
static void check_swiglu_golden(const test_case *c)
{
    if (c->dtype == KITH_BF16 || c->dtype == KITH_F16)
        return;
    ki_mat gate = test_zeros(c->dtype, 1, 4), up = test_zeros(c->dtype, 1, 4), y = test_zeros(c->dtype, 1, 4);
    double sum = 0;
    for (int64_t i = 0; i < 4; i++) {
        test_set(gate, 0, i, (double)i);
        test_set(up, 0, i, (double)i + 1);
    }
    test_done(c, "gated", c->ops->gated(c->compute, KI_SILU, gate, up, y));
    for (int64_t i = 0; i < 4; i++)
        sum += test_at(y, 0, i);
    if (fabs(sum - 18.177789) > 5e-6)
        fail_msg("SwiGLU: wanted 18.177789, got %.9g", sum);
}

static void test_activation(void **state)
{
    (void)state;
    test_everywhere(check_activation);
}

static void test_in_place(void **state)
{
    (void)state;
    test_everywhere(check_in_place);
}

static void test_gated(void **state)
{
    (void)state;
    test_everywhere(check_gated);
    test_shape(1, 4, check_swiglu_golden);
}

static void test_extremes(void **state)
{
    (void)state;
    test_shape(1, 11, check_extremes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_activation),
        cmocka_unit_test(test_in_place),
        cmocka_unit_test(test_gated),
        cmocka_unit_test(test_extremes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
