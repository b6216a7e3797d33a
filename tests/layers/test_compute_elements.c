/* tests/layers/test_compute_elements.c - fill, copy with conversion, add, scale, bias and its gradient.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "compute_help.h"

#include <math.h>

#define EACH(c, r, k)                                                                                                  \
    for (int64_t r = 0; r < (c)->rows; r++)                                                                            \
        for (int64_t k = 0; k < (c)->cols; k++)

static void check_fill(const test_case *c)
{
    ki_mat y = test_random(c->dtype, c->rows, c->cols, 1);
    test_done(c, "fill", c->ops->fill(c->compute, y, 0.3));
    EACH(c, r, k)
    test_near(c, "fill", y, r, k, 0.3, 0, 0);
}

/* The reference of rounding is test_set(): one element at a time, from f64. */
static void check_copy(const test_case *c)
{
    static const kith_dtype all[] = { KITH_F32, KITH_F64, KITH_BF16, KITH_F16 };
    ki_mat x = test_random(c->dtype, c->rows, c->cols, 3);
    for (int i = 0; i < 4; i++) {
        ki_mat y = test_random(all[i], c->rows, c->cols, 1), wanted = test_zeros(all[i], c->rows, c->cols);
        test_done(c, "copy", c->ops->copy(c->compute, x, y));
        EACH(c, r, k)
        test_set(wanted, r, k, test_at(x, r, k));
        test_same(c, "copy", y, wanted);
    }
}

/* Values around ties, overflow, subnormal and special ones, to bf16. A tie of bf16 that is none in f64 must not be
 * rounded twice. */
static void check_rounding(const test_case *c)
{
    static const struct {
        double from, wanted;
    } cases[] = {
        { 1.00390625, 1.0 },                   /* a tie goes to even */
        { 1.01171875, 1.015625 },              /* and up */
        { 1.00390625 + 0x1p-40, 1.0078125 },   /* in f64 not a tie, in f32 one */
        { -1.00390625 - 0x1p-40, -1.0078125 }, /* */
        { 1.01171875 - 0x1p-40, 1.0078125 },   /* */
        { 3.3961775292304601e38, INFINITY },   /* half way behind the largest */
        { 3.39e38, 3.3895313892515355e38 },    /* the largest */
        { 1e300, INFINITY },
        { INFINITY, INFINITY },
        { -INFINITY, -INFINITY },
        { NAN, NAN },
        { 9.2e-41, 9.1835496157991212e-41 }, /* the smallest subnormal */
        { 4e-41, 0 },
        { -0.0, 0 },
    };
    const int64_t count = (int64_t)(sizeof cases / sizeof cases[0]);
    ki_mat x = test_zeros(KITH_F64, 1, count), y = test_zeros(KITH_BF16, 1, count);
    for (int64_t i = 0; i < count; i++)
        test_set(x, 0, i, cases[i].from);
    test_done(c, "copy", c->ops->copy(c->compute, x, y));
    for (int64_t i = 0; i < count; i++)
        if (test_at(y, 0, i) != cases[i].wanted && !(isnan(cases[i].wanted) && isnan(test_at(y, 0, i))))
            fail_msg("copy of %.17g to bf16: wanted %.17g, got %.17g", cases[i].from, cases[i].wanted,
                     test_at(y, 0, i));
}

/* The same to f16, from f64 and from f32: ties, the largest, subnormal numbers, special ones. */
static void check_rounding_f16(const test_case *c)
{
    static const struct {
        double from, wanted;
    } cases[] = {
        { 1 + 0x1p-11, 1 },
        { 1 + 0x3p-11, 1 + 0x1p-9 },
        { 1 + 0x1p-11 + 0x1p-23, 1 + 0x1p-10 },
        { 65519.996, 65504 },
        { 65520, INFINITY },
        { -1e30, -INFINITY },
        { 0x1p-14, 0x1p-14 },
        { 0x1p-15 + 0x1p-26, 0x1p-15 },
        { 0x1p-24, 0x1p-24 },
        { 0x1p-25, 0 },
        { 0x1p-25 + 0x1p-48, 0x1p-24 },
        { INFINITY, INFINITY },
        { NAN, NAN },
        { -0.0, 0 },
    };
    const int64_t count = (int64_t)(sizeof cases / sizeof cases[0]);
    static const kith_dtype sources[] = { KITH_F64, KITH_F32 };
    for (int s = 0; s < 2; s++) {
        ki_mat x = test_zeros(sources[s], 1, count), y = test_zeros(KITH_F16, 1, count), back = test_copy_of(x);
        for (int64_t i = 0; i < count; i++)
            test_set(x, 0, i, cases[i].from);
        test_done(c, "copy", c->ops->copy(c->compute, x, y));
        test_done(c, "copy back", c->ops->copy(c->compute, y, back));
        for (int64_t i = 0; i < count; i++)
            if (test_at(back, 0, i) != cases[i].wanted && !(isnan(cases[i].wanted) && isnan(test_at(back, 0, i))))
                fail_msg("copy of %.17g from %s to f16: wanted %.17g, got %.17g", cases[i].from,
                         kith_dtype_name(sources[s]), cases[i].wanted, test_at(back, 0, i));
    }
}

static void check_add(const test_case *c)
{
    ki_mat x = test_random(c->dtype, c->rows, c->cols, 1), y = test_random(c->dtype, c->rows, c->cols, 1);
    ki_mat wide = test_random(c->wide, c->rows, c->cols, 1), before = test_copy_of(y), wide_before = test_copy_of(wide);
    test_done(c, "add", c->ops->add(c->compute, -0.5, x, y));
    test_done(c, "add to A", c->ops->add(c->compute, 2, x, wide));
    EACH(c, r, k)
    {
        test_near(c, "add", y, r, k, test_at(before, r, k) - 0.5 * test_at(x, r, k), 4, 2);
        test_near(c, "add to A", wide, r, k, test_at(wide_before, r, k) + 2 * test_at(x, r, k), 8, 2);
    }
    before = test_copy_of(y);
    test_done(c, "add of A", c->ops->add(c->compute, 1, wide, y));
    EACH(c, r, k)
    test_near(c, "add of A", y, r, k, test_at(before, r, k) + test_at(wide, r, k), 16, 2);
}

static void check_scale(const test_case *c)
{
    ki_mat y = test_random(c->dtype, c->rows, c->cols, 1), before = test_copy_of(y);
    test_done(c, "scale", c->ops->scale(c->compute, 0.3, y));
    EACH(c, r, k)
    test_near(c, "scale", y, r, k, 0.3 * test_at(before, r, k), 4, 2);
}

static void check_bias(const test_case *c)
{
    ki_mat y = test_random(c->dtype, c->rows, c->cols, 1), before = test_copy_of(y);
    ki_mat bias = test_random(c->dtype, 1, c->cols, 1), grad = test_random(c->wide, 1, c->cols, 1);
    ki_mat grad_before = test_copy_of(grad);
    test_done(c, "bias_add", c->ops->bias_add(c->compute, bias, y));
    EACH(c, r, k)
    test_near(c, "bias_add", y, r, k, test_at(before, r, k) + test_at(bias, 0, k), 8, 1);
    test_done(c, "bias_grad", c->ops->bias_grad(c->compute, before, grad));
    for (int64_t k = 0; k < c->cols; k++) {
        double sum = test_at(grad_before, 0, k), size = fabs(sum);
        for (int64_t r = 0; r < c->rows; r++) {
            sum += test_at(before, r, k);
            size += fabs(test_at(before, r, k));
        }
        test_near(c, "bias_grad", grad, 0, k, sum, size, 20);
    }
}

/* 100000 times 0.1 in one column: a sum that is formed one by one in f32 is off by 1e-4. */
static void check_long_sum(const test_case *c)
{
    if (c->dtype != KITH_F32)
        return;
    ki_mat dy = test_zeros(c->dtype, c->rows, 1), grad = test_zeros(c->wide, 1, 1);
    (void)c->ops->fill(c->compute, dy, 0.1);
    test_done(c, "bias_grad", c->ops->bias_grad(c->compute, dy, grad));
    test_near(c, "bias_grad of many rows", grad, 0, 0, (double)0.1f * (double)c->rows, 0.1 * (double)c->rows, 40);
}

static void test_fill(void **state)
{
    (void)state;
    test_everywhere(check_fill);
}

static void test_copy(void **state)
{
    (void)state;
    test_everywhere(check_copy);
    test_shape(1, 1, check_rounding);
    test_shape(1, 1, check_rounding_f16);
}

static void test_add(void **state)
{
    (void)state;
    test_everywhere(check_add);
    test_everywhere(check_scale);
}

static void test_bias(void **state)
{
    (void)state;
    test_everywhere(check_bias);
    test_shape(100000, 1, check_long_sum);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fill),
        cmocka_unit_test(test_copy),
        cmocka_unit_test(test_add),
        cmocka_unit_test(test_bias),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
