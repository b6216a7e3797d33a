/* tests/tools/train/test_train_sample.c - the choice of a token.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "tools/train/generate.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>

enum { COUNT = 6, DRAWS = 60000 };
static double scratch[COUNT];

static void test_temperature_zero_takes_the_first_of_the_likeliest(void **state)
{
    (void)state;
    static const double logits[COUNT] = { -1, 2, 5, 3, 5, 0 };
    for (int i = 0; i < 100; i++) {
        assert_int_equal(train_sample(logits, COUNT, 0, 0, train_uniform(1, (uint64_t)i), scratch), 2);
        assert_int_equal(train_sample(logits, COUNT, 7, 1, train_uniform(1, (uint64_t)i), scratch), 2);
        assert_int_equal(train_sample(logits, COUNT, 1e-300, 0, train_uniform(1, (uint64_t)i), scratch) % 2, 0);
    }
}

/* Shares of many draws are the softmax; the deviation of a share is below 0.5 / sqrt(60000) = 0.002. */
static void check_shares(const double *logits, double temperature, int64_t top_k, const double *wanted)
{
    int times[COUNT] = { 0 };
    for (int i = 0; i < DRAWS; i++) {
        int64_t token = train_sample(logits, COUNT, temperature, top_k, train_uniform(9, (uint64_t)i), scratch);
        assert_in_range(token, 0, COUNT - 1);
        times[token]++;
    }
    for (int i = 0; i < COUNT; i++) {
        double share = (double)times[i] / DRAWS;
        if (fabs(share - wanted[i]) > 0.01 || (wanted[i] == 0 && times[i] > 0))
            fail_msg("token %d at temperature %g of the best %lld: wanted a share of %g, got %g", i, temperature,
                     (long long)top_k, wanted[i], share);
    }
}

static void test_shares_are_the_softmax(void **state)
{
    (void)state;
    /* logs of 1, 2, 4, 1, 4, 8 */
    static const double logits[COUNT] = { 0, 0.693147180559945, 1.386294361119891,
                                          0, 1.386294361119891, 2.079441541679836 };
    check_shares(logits, 1, 0, (const double[]){ 0.05, 0.1, 0.2, 0.05, 0.2, 0.4 });
    check_shares(logits, 0.5, 0, (const double[]){ 1 / 102., 4 / 102., 16 / 102., 1 / 102., 16 / 102., 64 / 102. });
    check_shares(logits, 1, 3, (const double[]){ 0, 0, 0.25, 0, 0.25, 0.5 });
    check_shares(logits, 1, 2, (const double[]){ 0, 0, 1 / 3., 0, 0, 2 / 3. }); /* of equals the first */
    check_shares(logits, 1, 100, (const double[]){ 0.05, 0.1, 0.2, 0.05, 0.2, 0.4 });
}

static void test_extreme_numbers(void **state)
{
    (void)state;
    static const double large[COUNT] = { -1e300, 1e300, 0, -1e300, 1e300, 3 };
    assert_int_equal(train_sample(large, COUNT, 1, 0, 0, scratch), 1);
    assert_int_equal(train_sample(large, COUNT, 1, 0, 0.75, scratch), 4);
    assert_int_equal(train_sample(large, COUNT, 1, 3, 0x1.fffffffffffffp-1, scratch), 4);
    const double infinite[COUNT] = { 0, 1, INFINITY, 0, 0, 0 }, undefined[COUNT] = { NAN, 1, 2, 0, 0, 0 };
    assert_int_equal(train_sample(infinite, COUNT, 1, 0, 0, scratch), -1);
    assert_int_equal(train_sample(undefined, COUNT, 0, 0, 0, scratch), -1);
}

static void test_uniform_numbers(void **state)
{
    (void)state;
    double sum = 0;
    int equal = 0;
    for (uint64_t i = 0; i < DRAWS; i++) {
        double u = train_uniform(3, i);
        assert_true(u >= 0 && u < 1);
        sum += u;
        equal += u == train_uniform(4, i);
    }
    assert_int_equal(equal, 0);
    assert_true(fabs(sum / DRAWS - 0.5) < 0.01);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_temperature_zero_takes_the_first_of_the_likeliest),
        cmocka_unit_test(test_shares_are_the_softmax),
        cmocka_unit_test(test_extreme_numbers),
        cmocka_unit_test(test_uniform_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
