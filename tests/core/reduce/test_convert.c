/* tests/core/reduce/test_convert.c - conversions: every code of every small float, and every place where narrowing
 * rounds.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "reference.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static uint32_t bits(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

static float from_bits(uint32_t u)
{
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}

static float widen(kith_dtype dtype, uint32_t code)
{
    switch (dtype) {
    case KITH_F16:
        return ki_f16_to_f32((uint16_t)code);
    case KITH_BF16:
        return ki_bf16_to_f32((uint16_t)code);
    case KITH_F8E4M3:
        return ki_f8e4m3_to_f32((uint8_t)code);
    default:
        return ki_f8e5m2_to_f32((uint8_t)code);
    }
}

static uint32_t narrow(kith_dtype dtype, float x)
{
    switch (dtype) {
    case KITH_F16:
        return ki_f32_to_f16(x);
    case KITH_BF16:
        return ki_f32_to_bf16(x);
    case KITH_F8E4M3:
        return ki_f32_to_f8e4m3(x);
    default:
        return ki_f32_to_f8e5m2(x);
    }
}

static uint32_t code_count(kith_dtype dtype)
{
    return 1u << (8 * kith_dtype_nbytes(dtype));
}

static void test_widen_every_code(void **state)
{
    kith_dtype dtype = *(const kith_dtype *)*state;
    for (uint32_t code = 0; code < code_count(dtype); code++) {
        float got = widen(dtype, code);
        double wanted = ref_widen(dtype, code);
        if (isnan(wanted) ? !isnan(got) : bits(got) != bits((float)wanted))
            fail_msg("%s code %#x: got %.9g, wanted %.9g", kith_dtype_name(dtype), code, (double)got, wanted);
        if (!isnan(wanted))
            assert_int_equal(narrow(dtype, got), code);
        else
            assert_true(isnan(widen(dtype, narrow(dtype, got))));
    }
}

static void check_narrow(kith_dtype dtype, float x)
{
    uint32_t got = narrow(dtype, x), wanted = ref_narrow(dtype, (double)x);
    if (got != wanted)
        fail_msg("%.9g (%#x) to %s: got %#x, wanted %#x", (double)x, bits(x), kith_dtype_name(dtype), got, wanted);
}

/* Around each value and each middle between neighbours, the f32 before, at and after it; both signs. */
static void test_narrow_boundaries(void **state)
{
    kith_dtype dtype = *(const kith_dtype *)*state;
    const ref_format *f = ref_format_of(dtype);
    for (uint32_t code = 0; code <= f->largest; code++) {
        double next = code == f->largest ? 2 * f->value[code] - f->value[code - 1] : f->value[code + 1];
        double places[2] = { f->value[code], (f->value[code] + next) / 2 };
        for (int k = 0; k < 2; k++) {
            float x = (float)places[k];
            for (int step = -2; step <= 2; step++) {
                uint32_t near = bits(x) + (uint32_t)step;
                if (near > 0x7f800000u) /* below zero or above infinity */
                    continue;
                check_narrow(dtype, from_bits(near));
                check_narrow(dtype, -from_bits(near));
            }
        }
    }
}

static void test_narrow_random(void **state)
{
    kith_dtype dtype = *(const kith_dtype *)*state;
    uint64_t random = 7;
    for (int i = 0; i < 2000000; i++) {
        float x = from_bits((uint32_t)ref_random(&random));
        if (!isnan(x)) check_narrow(dtype, x);
    }
}

static void test_narrow_special(void **state)
{
    (void)state;
    assert_int_equal(ki_f32_to_f16(INFINITY), 0x7c00);
    assert_int_equal(ki_f32_to_f16(65519.996f), 0x7bff);
    assert_int_equal(ki_f32_to_f16(65520.0f), 0x7c00);
    assert_int_equal(ki_f32_to_f16(0x1p-25f), 0);
    assert_int_equal(ki_f32_to_f16(0x1.000002p-25f), 1);
    assert_int_equal(ki_f32_to_bf16(3.4e38f), 0x7f80);
    assert_int_equal(ki_f32_to_bf16(-INFINITY), 0xff80);
    assert_int_equal(ki_f32_to_bf16(from_bits(0x7f800001)), 0x7fc0);
    assert_int_equal(ki_f32_to_bf16(from_bits(0xffffffff)), 0xffff);
    assert_int_equal(ki_f32_to_f8e4m3(448), 0x7e);
    assert_int_equal(ki_f32_to_f8e4m3(464), 0x7e);
    assert_int_equal(ki_f32_to_f8e4m3(464.001f), 0x7f);
    assert_int_equal(ki_f32_to_f8e4m3(-INFINITY), 0xff);
    assert_int_equal(ki_f32_to_f8e4m3(NAN), 0x7f);
    assert_int_equal(ki_f32_to_f8e5m2(57344), 0x7b);
    assert_int_equal(ki_f32_to_f8e5m2(61439.996f), 0x7b);
    assert_int_equal(ki_f32_to_f8e5m2(61440), 0x7c);
    assert_int_equal(ki_f32_to_f8e5m2(NAN), 0x7e);
    /* As F16C has it: quiet, the sign and the upper payload kept. */
    assert_int_equal(ki_f32_to_f16(from_bits(0xff812345)), 0xfe09);
    assert_int_equal(bits(ki_f16_to_f32(0xfc01)), 0xffc02000);
}

int main(void)
{
    static kith_dtype dtypes[] = { KITH_F16, KITH_BF16, KITH_F8E4M3, KITH_F8E5M2 };
    struct CMUnitTest tests[13];
    int count = 0;
    for (int i = 0; i < 4; i++) {
        tests[count++] = (struct CMUnitTest){ "widen_every_code", test_widen_every_code, NULL, NULL, &dtypes[i] };
        tests[count++] = (struct CMUnitTest){ "narrow_boundaries", test_narrow_boundaries, NULL, NULL, &dtypes[i] };
        tests[count++] = (struct CMUnitTest){ "narrow_random", test_narrow_random, NULL, NULL, &dtypes[i] };
    }
    tests[count++] = (struct CMUnitTest){ "narrow_special", test_narrow_special, NULL, NULL, NULL };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
