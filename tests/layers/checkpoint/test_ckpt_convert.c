/* tests/layers/checkpoint/test_ckpt_convert.c - every half there is, and roundings at every border between two of them.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "layers/checkpoint/convert.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* A half by its definition. */
static double value_of(uint16_t half, int digits)
{
    int width = 15 - digits, bias = (1 << (width - 1)) - 1;
    int exponent = half >> digits & ((1 << width) - 1), fraction = half & ((1 << digits) - 1);
    double size =
        exponent == 0 ? ldexp(fraction, 1 - bias - digits) : ldexp(fraction + (1 << digits), exponent - bias - digits);
    if (exponent == (1 << width) - 1)
        size = fraction == 0 ? (double)INFINITY : (double)NAN;
    return half & 0x8000 ? -size : size;
}

static uint16_t half_of(double value, kith_dtype dtype)
{
    uint16_t half = 0;
    ki_convert(&value, KITH_F64, 1, &half, dtype, 1, 1);
    return half;
}

static void check_all(kith_dtype dtype, int digits)
{
    uint16_t infinity = (uint16_t)(((1 << (15 - digits)) - 1) << digits);
    for (int bits = 0; bits < 65536; bits++) {
        uint16_t half = (uint16_t)bits;
        double wanted = value_of(half, digits), got;
        ki_convert(&half, dtype, 1, &got, KITH_F64, 1, 1);
        if (isnan(wanted)) {
            assert_true(isnan(got));
            assert_true((half_of(wanted, dtype) & 0x7fff) > infinity);
            continue;
        }
        assert_memory_equal(&got, &wanted, sizeof got);
        assert_int_equal(half_of(wanted, dtype), half);
        if ((half & 0x7fff) >= infinity)
            continue;
        double next = (half & 0x7fff) + 1 == infinity ? copysign(ldexp(1, digits == 7 ? 128 : 16), wanted)
                                                      : value_of((uint16_t)(half + 1), digits);
        double middle = wanted + (next - wanted) / 2; /* ties go to the even one */
        assert_int_equal(half_of(middle, dtype), half & 1 ? half + 1 : half);
        assert_int_equal(half_of(nextafter(middle, wanted), dtype), half);
        assert_int_equal(half_of(nextafter(middle, next), dtype), half + 1);
    }
    assert_int_equal(half_of(1e300, dtype), infinity);
    assert_int_equal(half_of(-1e300, dtype), infinity | 0x8000);
    assert_int_equal(half_of(1e-300, dtype), 0);
    assert_int_equal(half_of(-0.0, dtype), 0x8000);
}

static void test_f16(void **state)
{
    (void)state;
    check_all(KITH_F16, 10);
}

static void test_bf16(void **state)
{
    (void)state;
    check_all(KITH_BF16, 7);
}

/* The same type keeps every bit, also of NaN. */
static void test_same(void **state)
{
    (void)state;
    static const kith_dtype dtypes[] = { KITH_F16, KITH_BF16, KITH_F32, KITH_F64 };
    unsigned char from[64], to[64];
    for (size_t i = 0; i < sizeof from; i++)
        from[i] = (unsigned char)(0xff - 3 * i);
    memset(from, 0xff, 9);
    for (size_t d = 0; d < 4; d++) {
        size_t nbytes = kith_dtype_nbytes(dtypes[d]);
        memset(to, 0, sizeof to);
        ki_convert(from, dtypes[d], 1, to, dtypes[d], 1, (int64_t)(sizeof from / nbytes));
        assert_memory_equal(from, to, sizeof to);
        memset(to, 0, sizeof to);
        ki_convert(from, dtypes[d], 2, to, dtypes[d], 3, 2);
        assert_memory_equal(from, to, nbytes);
        assert_memory_equal(from + 2 * nbytes, to + 3 * nbytes, nbytes);
    }
}

static void test_pairs(void **state)
{
    (void)state;
    const float numbers[3] = { 1.5F, -2.25F, 0.1F };
    double wide[6] = { 0 };
    float back[3];
    ki_convert(numbers, KITH_F32, 1, wide, KITH_F64, 2, 3);
    assert_true(wide[0] == 1.5 && wide[2] == -2.25 && wide[4] == (double)0.1F && wide[1] == 0);
    ki_convert(wide, KITH_F64, 2, back, KITH_F32, 1, 3);
    assert_memory_equal(back, numbers, sizeof back);
    const double third = 1.0 / 3;
    ki_convert(&third, KITH_F64, 1, back, KITH_F32, 1, 1);
    assert_true(back[0] == (float)third);
    assert_true(ki_is_float(KITH_F16) && ki_is_float(KITH_F64) && !ki_is_float(KITH_INT32));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_f16),
        cmocka_unit_test(test_bf16),
        cmocka_unit_test(test_same),
        cmocka_unit_test(test_pairs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
