/* tests/layers/test_compute_arith.c - the functions of arith.h for f32 against libm in f64, over their whole range.
 *
 * Every 3989th f32 of each sign is tried, and the neighbourhood of the places where something changes. Here the
 * functions are compiled for the instruction set of the whole library; that the other loops give the same within
 * their last bits is what the other tests see.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "layers/compute/arith.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* |got - wanted| in units in the last place of wanted. */
static double ulps(float got, double wanted)
{
    if ((double)got == wanted || (isnan(got) && isnan(wanted)))
        return 0;
    float near = (float)wanted;
    if (isinf(near) || isnan(near))
        return (double)got == (double)near ? 0 : INFINITY;
    int exponent;
    (void)frexp(wanted, &exponent);
    double unit = ldexp(1, exponent - 24 > -149 ? exponent - 24 : -149);
    return fabs((double)got - wanted) / unit;
}

/* The largest of error(f(x), reference(x)) over all x that are tried. */
static double worst(float (*f)(float), double (*reference)(double), double (*error)(float, double), float *where)
{
    static const float edges[] = {
        0, 89, 88.72284f, -87.33655f, -103.97208f, -104, -110, 0.34657359f, 7.0710678f, 32, 1
    };
    double most = 0;
    for (uint64_t bits = 0; bits <= UINT32_MAX; bits += 3989) {
        float x = ki_float_of((uint32_t)bits);
        double e = error(f(x), reference((double)x));
        if (!isnan(x) && !(e <= most)) {
            most = e;
            *where = x;
        }
    }
    for (size_t i = 0; i < sizeof edges / sizeof edges[0]; i++)
        for (int step = -200; step <= 200; step++) {
            float x = ki_float_of(ki_bits_of(edges[i]) + (uint32_t)(edges[i] == 0 && step < 0 ? 0 : step));
            double e = error(f(x), reference((double)x));
            if (!(e <= most)) {
                most = e;
                *where = x;
            }
        }
    return most;
}

static void expect_error(const char *name, float (*f)(float), double (*reference)(double),
                         double (*error)(float, double), double allowed)
{
    float where = 0;
    double got = worst(f, reference, error, &where);
    if (!(got <= allowed))
        fail_msg("%s: error %.3g at %.9g, allowed %.3g", name, got, (double)where, allowed);
    print_message("%s: largest error %.3g at %.9g, allowed %.3g\n", name, got, (double)where, allowed);
}

static void test_exp(void **state)
{
    (void)state;
    expect_error("exp, ulp", ki_exp_f32, exp, ulps, 1.5);
    assert_true(isnan(ki_exp_f32(NAN)));
    assert_true(ki_exp_f32(INFINITY) == INFINITY && ki_exp_f32(-INFINITY) == 0 && ki_exp_f32(0) == 1);
}

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

static double absolute(float got, double wanted)
{
    return fabs((double)got - wanted);
}

static void test_sigmoid(void **state)
{
    (void)state;
    expect_error("sigmoid, absolute", ki_sigmoid_f32, sigmoid, absolute, 1.2e-7);
    assert_true(isnan(ki_sigmoid_f32(NAN)) && ki_sigmoid_f32(INFINITY) == 1 && ki_sigmoid_f32(-INFINITY) == 0);
}

static double normal_cdf(double x)
{
    return 0.5 * erfc(-x / sqrt(2.0));
}

static double relative_above_tail(float got, double wanted)
{
    return wanted < 1.3e-12 ? 0 : fabs((double)got / wanted - 1); /* 1.3e-12: x = -7 */
}

static void test_normal_cdf(void **state)
{
    (void)state;
    expect_error("normal cdf, absolute", ki_normal_cdf_f32, normal_cdf, absolute, 1.2e-7);
    expect_error("normal cdf, relative", ki_normal_cdf_f32, normal_cdf, relative_above_tail, 3e-5);
    assert_true(isnan(ki_normal_cdf_f32(NAN)) && ki_normal_cdf_f32(INFINITY) == 1 && ki_normal_cdf_f32(-INFINITY) == 0);
    assert_true(ki_normal_cdf_f32(0) == 0.5f);
}

static void test_bf16(void **state)
{
    (void)state;
    for (uint32_t u = 0; u <= UINT16_MAX; u++) { /* what is bf16 stays */
        float x = ki_widen_bf16((uint16_t)u);
        assert_true(isnan(x) ? isnan(ki_widen_bf16(ki_narrow_bf16_f32(x))) : ki_narrow_bf16_f32(x) == u);
        assert_true(isnan(x) || ki_narrow_bf16_f64((double)x) == u);
    }
    assert_int_equal(ki_narrow_bf16_f32(1.00390625f), 0x3f80); /* ties to even */
    assert_int_equal(ki_narrow_bf16_f32(1.01171875f), 0x3f82);
    assert_int_equal(ki_narrow_bf16_f32(3.4e38f), 0x7f80);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exp),
        cmocka_unit_test(test_sigmoid),
        cmocka_unit_test(test_normal_cdf),
        cmocka_unit_test(test_bf16),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
