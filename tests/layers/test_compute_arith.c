/* tests/layers/test_compute_arith.c - the functions of arith.h for f32 against libm in f64, over their whole range.
 *
 * Every 3989th f32 of each sign is tried, and the neighbourhood of the places where something changes. Here the
 * functions are compiled for the instruction set of the whole library; that the other loops give the same within
 * their last bits is what the other tests see.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "layers/compute/arith.h"
#include "core/reduce/reduce.h"

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

/* The nearest f16 of a finite number, ties to even, by arithmetic that is exact in f64. */
static uint16_t nearest_f16(double x)
{
    const double size = fabs(x);
    int exponent = -14; /* that of subnormal numbers */
    if (size >= 0x1p-14)
        exponent = ilogb(size);
    const double steps = rint(ldexp(size, 10 - exponent)), value = ldexp(steps, exponent - 10);
    uint32_t bits = value >= 65536 ? 0x7c00u : (uint32_t)(steps + 1024.0 * (exponent + 14));
    return (uint16_t)(bits | (signbit(x) ? 0x8000u : 0u));
}

static double value_of_f16(uint16_t half)
{
    const int exponent = half >> 10 & 31, digits = half & 1023;
    double size = exponent == 0 ? ldexp(digits, -24) : ldexp(1024 + digits, exponent - 25);
    if (exponent == 31)
        size = digits == 0 ? (double)INFINITY : (double)NAN;
    return half & 0x8000 ? -size : size;
}

static void expect_f16(const char *from, double x, uint16_t got, uint16_t wanted)
{
    if (got != wanted)
        fail_msg("%s %.17g to f16: wanted %04x, got %04x", from, x, wanted, got);
}

/* All of f16, both ways, and what lies half way to the next and just beside that. */
static void test_f16(void **state)
{
    (void)state;
    for (uint32_t u = 0; u <= UINT16_MAX; u++) {
        const uint16_t half = (uint16_t)u;
        const double wanted = value_of_f16(half);
        const float got = ki_widen_f16(half);
        if (isnan(wanted)) {
            assert_true(isnan(got) && (signbit(got) != 0) == (half >> 15));
            assert_int_equal(ki_narrow_f16_f32(got), half | 0x200u);
            assert_true(isnan(ki_widen_f16(ki_narrow_f16_f64((double)got))));
            continue;
        }
        if ((double)got != wanted || (signbit(got) != 0) != (half >> 15))
            fail_msg("f16 %04x: wanted %.17g, got %.17g", half, wanted, (double)got);
        expect_f16("f32", wanted, ki_narrow_f16_f32(got), half);
        expect_f16("f64", wanted, ki_narrow_f16_f64(wanted), half);
        const uint16_t next = (uint16_t)(half + 1);
        if ((half & 0x7fff) >= 0x7bff) /* the largest: 65520 is half way to 65536, which is none */
            continue;
        const double tie = (wanted + value_of_f16(next)) / 2;
        const uint16_t even = half & 1 ? next : half;
        expect_f16("f32 tie", tie, ki_narrow_f16_f32((float)tie), even);
        expect_f16("f64 tie", tie, ki_narrow_f16_f64(tie), even);
        expect_f16("f64 below a tie", tie, ki_narrow_f16_f64(tie * (1 - 0x1p-50)), half);
        expect_f16("f64 above a tie", tie, ki_narrow_f16_f64(tie * (1 + 0x1p-50)), next);
    }
    expect_f16("f32", 65519.996, ki_narrow_f16_f32(nextafterf(65520, 0)), 0x7bff);
    expect_f16("f32", 65520, ki_narrow_f16_f32(65520), 0x7c00);
    expect_f16("f32", -65520, ki_narrow_f16_f32(-65520), 0xfc00);
    expect_f16("f64", 65520 - 0x1p-36, ki_narrow_f16_f64(65520 - 0x1p-36), 0x7bff);
    expect_f16("f64", 1e300, ki_narrow_f16_f64(1e300), 0x7c00);
    expect_f16("f64", -1e-300, ki_narrow_f16_f64(-1e-300), 0x8000);
}

/* Every sign, exponent and upper digits of f32, with what its lower digits can do to a rounding; compared with
 * arithmetic, and with the conversions of reductions. */
static void test_f32_to_f16(void **state)
{
    (void)state;
    static const uint32_t lower[] = { 0, 1, 0xfff, 0x1000, 0x1001, 0x1fff };
    for (uint32_t upper = 0; upper < 1u << 19; upper++)
        for (size_t i = 0; i < sizeof lower / sizeof lower[0]; i++) {
            const float x = ki_float_of(upper << 13 | lower[i]);
            const uint16_t got = ki_narrow_f16_f32(x);
            if (isfinite(x) && got != nearest_f16((double)x))
                expect_f16("f32", (double)x, got, nearest_f16((double)x));
            if (got != ki_f32_to_f16(x))
                expect_f16("f32, as reductions have it,", (double)x, got, ki_f32_to_f16(x));
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exp),  cmocka_unit_test(test_sigmoid), cmocka_unit_test(test_normal_cdf),
        cmocka_unit_test(test_bf16), cmocka_unit_test(test_f16),     cmocka_unit_test(test_f32_to_f16),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
