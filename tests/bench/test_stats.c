/* tests/bench/test_stats.c - bench/engine/stats.c
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "../../bench/engine/stats.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#define EXACTLY 0.0f

static void summary_of_nothing_is_zero(void **state)
{
    (void)state;
    bench_summary summary = bench_summarize(NULL, 0);
    assert_int_equal(summary.count, 0);
    assert_float_equal(summary.median, 0, EXACTLY);
}

static void summary_of_one_is_that_one(void **state)
{
    (void)state;
    double samples[] = { 7 };
    bench_summary summary = bench_summarize(samples, 1);
    assert_float_equal(summary.min, 7, EXACTLY);
    assert_float_equal(summary.p10, 7, EXACTLY);
    assert_float_equal(summary.median, 7, EXACTLY);
    assert_float_equal(summary.p90, 7, EXACTLY);
    assert_float_equal(summary.max, 7, EXACTLY);
}

static void percentiles_are_samples_of_sorted_order(void **state)
{
    (void)state;
    double samples[11] = { 10, 3, 7, 1, 9, 0, 5, 2, 8, 4, 6 };
    bench_summary summary = bench_summarize(samples, 11);
    assert_int_equal(summary.count, 11);
    assert_float_equal(summary.min, 0, EXACTLY);
    assert_float_equal(summary.p10, 1, EXACTLY);
    assert_float_equal(summary.median, 5, EXACTLY);
    assert_float_equal(summary.p90, 9, EXACTLY);
    assert_float_equal(summary.max, 10, EXACTLY);
}

static void median_of_an_even_count_is_between(void **state)
{
    (void)state;
    double samples[] = { 4, 1, 100, 2 };
    assert_float_equal(bench_summarize(samples, 4).median, 3, EXACTLY);
}

static void an_iteration_is_as_slow_as_its_slowest_rank(void **state)
{
    (void)state;
    /* 3 ranks, room for 4 iterations each, 2 used: what stands behind must not count */
    double samples[3][4] = { { 1, 8, 99, 99 }, { 5, 2, 99, 99 }, { 3, 7, 99, 99 } };
    double worst[2] = { 0 };
    bench_max_over_ranks(&samples[0][0], 4, 3, 2, worst);
    assert_float_equal(worst[0], 5, EXACTLY);
    assert_float_equal(worst[1], 8, EXACTLY);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(summary_of_nothing_is_zero),
        cmocka_unit_test(summary_of_one_is_that_one),
        cmocka_unit_test(percentiles_are_samples_of_sorted_order),
        cmocka_unit_test(median_of_an_even_count_is_between),
        cmocka_unit_test(an_iteration_is_as_slow_as_its_slowest_rank),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
