/* tests/core/boot/test_number.c - numbers in texts: read as they were written, in as few digits as that takes.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "comma.h"
#include "core/base/number.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Digits that count of a text: "0.0012" has 2. */
static int digits_of(const char *text)
{
    int count = 0, zeros = 0;
    for (const char *c = text; *c != '\0' && *c != 'e'; c++) {
        if (*c < '0' || *c > '9' || (*c == '0' && count == 0))
            continue;
        zeros = *c == '0' ? zeros + 1 : 0;
        count++;
    }
    return count - (strchr(text, '.') == NULL ? zeros : 0);
}

static void expect_same(double value)
{
    char text[KI_NUMBER_NBYTES], best[64];
    double back = 0;
    size_t length = ki_number_write(value, text);
    int digits = 1;
    if (length != strlen(text) || !ki_number_parse(text, length, &back) || back < value || back > value)
        fail_msg("wanted %.17g, got '%s', which reads back as %.17g", value, text, back);
    for (; digits < 17; digits++) {
        snprintf(best, sizeof best, "%.*g", digits, value);
        if (!(strtod(best, NULL) < value) && !(strtod(best, NULL) > value))
            break;
    }
    if (digits_of(text) > digits && (fabs(value) >= 1e15 || floor(value) < value) && digits >= 15)
        fail_msg("%.17g: wanted %d digits, got '%s'", value, digits, text);
}

static uint64_t next_random(uint64_t *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    return *seed ^= *seed << 17;
}

static void test_written_numbers_read_back(void **state)
{
    static const double values[] = {
        0,        1,      -1,          0.1,         1.0 / 3,   1e300,     123456789012345678.0,
        1e15,     1e14,   4.35,        0.01,        0.0099999, 2.5e-5,    5e-324,
        2.25,     1e-310, 1e22,        0.3,         -0.3,      0.1 + 0.2, 999999999999999.875,
        0.015625, 1024.5, 1 + 0x1p-52, 2 - 0x1p-52, 0x1p-6
    };
    uint64_t seed = 88172645463325252u;
    (void)state;
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++)
        expect_same(values[i]);
    for (int i = 0; i < 20000; i++) {
        uint64_t bits = next_random(&seed);
        double any;
        memcpy(&any, &bits, sizeof any);
        if (isfinite(any))
            expect_same(any);
        expect_same((double)(bits >> 32) / (double)(1 + (bits & 0xffff))); /* what times look like */
        expect_same((double)(bits >> 40) / 1000 + (double)(bits & 0xff) / 10);
        expect_same(ldexp(1 + (double)(bits & 3) * 0x1p-52, (int)(bits >> 8) % 60 - 8)); /* at powers of two */
    }
}

static void expect_text(double value, const char *wanted)
{
    char text[KI_NUMBER_NBYTES];
    ki_number_write(value, text);
    assert_string_equal(text, wanted);
}

static void test_what_is_written(void **state)
{
    char text[KI_NUMBER_NBYTES];
    (void)state;
    expect_text(0.1, "0.1");
    expect_text(-0.75, "-0.75");
    expect_text(0.1 + 0.2, "0.30000000000000004");
    expect_text(100.0625, "100.0625");
    expect_text(3.05, "3.05");
    expect_text(1e6, "1000000");
    expect_text(1e22, "1e+22");
    expect_text(0.001, "0.001");
    expect_text(NAN, "null");
    expect_text(-INFINITY, "null");
    assert_string_equal(ki_number_text(1.0 / 3, 4, text), "0.3333");
    assert_int_equal(ki_number_write_integer(INT64_MIN, text), 20);
    assert_string_equal(text, "-9223372036854775808");
}

static void expect_scan(const char *text, double wanted, size_t length)
{
    double value = -7;
    size_t got = ki_number_scan(text, &value);
    if (got != length || value < wanted || value > wanted)
        fail_msg("'%s': wanted %g and %zu characters, got %g and %zu", text, wanted, length, value, got);
}

static void test_what_is_read(void **state)
{
    static const char *const bad[] = { "",    ".",   "-",  "e5", "1e",  "0x10", "inf",
                                       "nan", "1,5", " 1", "1 ", "1e+", "--1",  "1.2.3" };
    double value = 3;
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        if (ki_number_parse(bad[i], strlen(bad[i]), &value) || value > 3)
            fail_msg("'%s': wanted no number, got %g", bad[i], value);
    assert_false(ki_number_parse("1e999", 5, &value));
    assert_true(ki_number_parse("+.5e-3x", 6, &value));
    expect_scan("2.5 GT/s", 2.5, 3);
    expect_scan("16e", 16, 2);
    expect_scan("5.", 5, 2);
    expect_scan("1e3e", 1000, 3);
    expect_scan("GT/s", -7, 0);
    expect_scan("", -7, 0);
    expect_scan(".", -7, 0);
}

/* A program may have set a locale with a decimal comma. */
static void test_decimal_comma(void **state)
{
    char text[KI_NUMBER_NBYTES], tiny[KI_NUMBER_NBYTES], few[KI_NUMBER_NBYTES];
    double value = 0;
    (void)state;
    if (!set_comma_locale()) {
        print_message("skipped: no localedef, which makes a locale with a decimal comma\n");
        skip();
    }
    ki_number_write(1.5, text);
    ki_number_write(1.5e-9, tiny);
    ki_number_text(1.0 / 3, 4, few);
    size_t length = ki_number_scan("2.5 GT/s", &value);
    setlocale(LC_NUMERIC, "C");
    assert_string_equal(text, "1.5");
    assert_string_equal(tiny, "1.5e-09");
    assert_string_equal(few, "0.3333");
    assert_int_equal(length, 3);
    assert_true(value >= 2.5 && value <= 2.5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_written_numbers_read_back),
        cmocka_unit_test(test_what_is_written),
        cmocka_unit_test(test_what_is_read),
        cmocka_unit_test(test_decimal_comma),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
