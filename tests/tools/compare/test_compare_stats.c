/* tests/tools/compare/test_compare_stats.c - the arithmetic of kith compare: Student's distribution against printed
 * tables, intervals by hand, the rule of Benjamini and Hochberg on its authors' example, and how often equal sides are
 * called different.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "tools/compare/stats.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* clang-format off */
#include <cmocka.h>
/* clang-format on */
#include <math.h>
#include <stdlib.h>

static void near(double wanted, double got, double relative)
{
    if (!(fabs(got - wanted) <= relative * fabs(wanted)))
        fail_msg("wanted %.9g, got %.9g", wanted, got);
}

/* Two-sided 5 %, 1 % and 0.1 % points, as tables of the distribution print them. */
static void students_distribution(void **state)
{
    (void)state;
    static const struct {
        double df, t5, t1, t01;
    } rows[] = {
        { 1, 12.706, 63.657, 636.619 }, { 2, 4.303, 9.925, 31.599 }, { 5, 2.571, 4.032, 6.869 },
        { 10, 2.228, 3.169, 4.587 },    { 30, 2.042, 2.750, 3.646 }, { 120, 1.980, 2.617, 3.373 },
        { 1e7, 1.960, 2.576, 3.291 },
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        near(0.05, ki_student_p(rows[i].t5, rows[i].df), 2e-3);
        near(0.01, ki_student_p(-rows[i].t1, rows[i].df), 3e-3);
        near(0.001, ki_student_p(rows[i].t01, rows[i].df), 4e-3);
        near(rows[i].t5, ki_student_t(0.05, rows[i].df), 5e-4);
    }
    near(1, ki_student_p(0, 3.7), 1e-12);
    near(2 * atan2(1, 1) / acos(-1), ki_student_p(1, 1), 1e-12); /* Cauchy: 1 - 2 atan(t) / pi */
    assert_true(ki_student_p(1e9, 50) >= 0 && ki_student_p(1e9, 50) < 1e-100);
}

static void spread_of_a_median(void **state)
{
    (void)state;
    near(1, ki_sigma_of_quartiles(100 - 0.67449, 100 + 0.67449), 1e-4);
    near(1, ki_sigma_of_deciles(100 - 1.28155, 100 + 1.28155), 1e-4);
    ki_estimate run = ki_estimate_of_run(50, 2, 100);
    near(log(50), run.log_median, 1e-12);
    near(1.2533 * 2 / 10 / 50, sqrt(run.variance), 1e-4); /* the notches' 1.25 sigma / sqrt(n), over the median */
    near(0.37 * 99, run.df, 1e-12);
    assert_true(ki_estimate_of_run(50, NAN, 100).df == 0);
    assert_true(ki_estimate_of_run(50, 2, 1).df == 0);
    near(5e-4, sqrt(ki_estimate_of_run(50, 0, 1000).variance), 1e-12); /* a clock with coarse steps */
}

static void two_sides(void **state)
{
    (void)state;
    ki_estimate a = ki_estimate_of_run(100, 5, 101), b = ki_estimate_of_run(110, 5, 101);
    ki_difference found = ki_estimates_compare(&a, &b), back = ki_estimates_compare(&b, &a);
    double error = 1.2533141 * 5 / sqrt(101) * sqrt(1 / 1e4 + 1 / 1.21e4);
    near(1.1, found.ratio, 1e-12);
    near(1 / 1.1, back.ratio, 1e-12);
    near(found.p, back.p, 1e-9);
    double df = pow(a.variance + b.variance, 2) / (pow(a.variance, 2) / a.df + pow(b.variance, 2) / b.df);
    near(ki_student_p(log(1.1) / error, df), found.p, 1e-6);
    near(1.1 * exp(-ki_student_t(0.05, df) * error), found.low, 1e-9);
    near(1.1 * exp(ki_student_t(0.05, df) * error), found.high, 1e-9);
    assert_true(found.p < 1e-9);
    ki_estimate blank = ki_estimate_of_run(110, NAN, 0);
    found = ki_estimates_compare(&a, &blank);
    near(1.1, found.ratio, 1e-12);
    assert_true(isnan(found.p) && isnan(found.low) && isnan(found.high));
}

/* What lies between runs counts when it is more than what lies within them, and the other way round. */
static void several_runs(void **state)
{
    (void)state;
    ki_estimate runs[3] = { ki_estimate_of_run(100, 0.1, 1000), ki_estimate_of_run(105, 0.1, 1000),
                            ki_estimate_of_run(95, 0.1, 1000) };
    double logs[3] = { log(100), log(105), log(95) }, mean = (logs[0] + logs[1] + logs[2]) / 3, sum = 0;
    for (int i = 0; i < 3; i++)
        sum += (logs[i] - mean) * (logs[i] - mean);
    ki_estimate all = ki_estimate_of_runs(runs, 3);
    near(mean, all.log_median, 1e-12);
    near(sum / 2 / 3, all.variance, 1e-9);
    near(2, all.df, 1e-12);
    runs[0] = runs[1] = runs[2] = ki_estimate_of_run(100, 30, 12);
    all = ki_estimate_of_runs(runs, 3);
    near(runs[0].variance / 3, all.variance, 1e-12);
    near(3 * runs[0].df, all.df, 1e-9);
    runs[1] = ki_estimate_of_run(100, NAN, 0); /* without a spread only what lies between them is known */
    all = ki_estimate_of_runs(runs, 3);
    near(2, all.df, 1e-12);
    near(2.5e-7, all.variance, 1e-9);
    all = ki_estimate_of_runs(&runs[1], 1);
    assert_true(all.df == 0);
}

/* The example of the paper: fifteen tests, of which four count at 5 % (three by Bonferroni's rule). */
static void false_discoveries(void **state)
{
    (void)state;
    double p[] = { 0.4262, 0.0001, 0.0004, 0.5719, 0.0019, 0.0095, 0.0201, 1.0000,
                   0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.6528, 0.7590 };
    assert_true(ki_false_discovery_limit(p, 15, 0.05) == 0.0095);
    double none[] = { 0.5, 0.06, 0.9 };
    assert_true(ki_false_discovery_limit(none, 3, 0.05) < 0);
    assert_true(ki_false_discovery_limit(none, 0, 0.05) < 0);
    double all[] = { 0.05, 0.02, 0.04 };
    assert_true(ki_false_discovery_limit(all, 3, 0.05) == 0.05);
}

/* ---- how often it cries wolf ---- */

static uint64_t seed;

static double chance(void)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return ((double)(seed >> 11) + 0.5) / 9007199254740992.0;
}

static double normal(void)
{
    return sqrt(-2 * log(chance())) * cos(8 * atan(1) * chance());
}

static int compare_numbers(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

static double quantile(const double *sorted, int count, double share)
{
    double at = share * (count - 1);
    int below = (int)at;
    return below + 1 < count ? sorted[below] + (at - below) * (sorted[below + 1] - sorted[below]) : sorted[below];
}

/* Times of some kind: 0 normal, 1 with a tail, 2 with outliers. */
static ki_estimate measured(int kind, int count, double factor)
{
    enum { COUNT_MOST = 201 };
    double samples[COUNT_MOST];
    for (int i = 0; i < count; i++) {
        double time = kind == 1 ? 100 - 5 * log(chance()) : 100 + 5 * normal();
        samples[i] = factor * (kind == 2 && chance() < 0.05 ? time + 60 * chance() : time);
    }
    qsort(samples, (size_t)count, sizeof(*samples), compare_numbers);
    double sigma = ki_sigma_of_quartiles(quantile(samples, count, 0.25), quantile(samples, count, 0.75));
    return ki_estimate_of_run(quantile(samples, count, 0.5), sigma, count);
}

/* Of equal sides 5 % should be called different; the seed is fixed, so the shares are the same each time. A difference
 * of 5 % is found nearly always with 201 samples. */
static void equal_sides(void **state)
{
    (void)state;
    enum { TRIES = 1000 };
    static const int counts[] = { 11, 51, 201 };
    seed = 20261130;
    for (int kind = 0; kind < 3; kind++)
        for (int n = 0; n < 3; n++) {
            int different = 0, found = 0;
            for (int i = 0; i < TRIES; i++) {
                ki_estimate a = measured(kind, counts[n], 1), b = measured(kind, counts[n], 1);
                ki_estimate slower = measured(kind, counts[n], 1.05);
                different += ki_estimates_compare(&a, &b).p < 0.05;
                found += ki_estimates_compare(&a, &slower).p < 0.05;
            }
            double share = 100.0 * different / TRIES;
            if (share < 2 || share > 8)
                fail_msg("times of kind %d, %d samples: %.1f %% of equal sides differ", kind, counts[n], share);
            if (counts[n] == 201 && found < TRIES * 95 / 100)
                fail_msg("times of kind %d: a difference of 5 %% found in %d of %d tries", kind, found, TRIES);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(students_distribution), cmocka_unit_test(spread_of_a_median), cmocka_unit_test(two_sides),
        cmocka_unit_test(several_runs),          cmocka_unit_test(false_discoveries),  cmocka_unit_test(equal_sides),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
