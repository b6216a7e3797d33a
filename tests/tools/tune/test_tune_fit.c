/* tests/tools/tune/test_tune_fit.c - fits of curves whose alpha, beta and knee are known.
 *
 * Noise is drawn with fixed seeds, so a figure here is the same in every run; bounds leave room for another compiler's
 * rounding only where a count of 200 may move by a few.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "tools/tune/fit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>

enum { SEEDS = 200, REPLICATES = 200, ROOM = 40 };

/* A curve: alpha, beta, and from the knee on another beta after a jump. */
typedef struct truth {
    size_t count;
    double factor, alpha_us, below, knee, jump_us, above;
    double noise, outliers; /* relative deviation; share of points that are 1.5 to 3.5 times too slow */
} truth;

static const truth plain = { 13, 4, 5, 1e-4, 0, 0, 1e-4, 0, 0 };
static const truth protocol = { 13, 4, 5, 2e-4, 16384, 6, 1e-4, 0, 0 }; /* a switch that makes large messages cheaper */
static const truth cache = { 13, 4, 5, 1e-4, 1 << 20, 0, 3e-4, 0, 0 };  /* a link that becomes slower, without a jump */

static double uniform(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (double)(*state >> 11) * 0x1p-53;
}

static double normal(uint64_t *state)
{
    double radius = sqrt(-2 * log(1 - uniform(state)));
    return radius * cos(6.283185307179586 * uniform(state));
}

static double true_time(const truth *t, double nbytes)
{
    bool is_above = t->knee > 0 && nbytes > t->knee;
    return is_above ? t->alpha_us + t->below * t->knee + t->jump_us + t->above * (nbytes - t->knee)
                    : t->alpha_us + t->below * nbytes;
}

static void draw(const truth *t, uint64_t seed, tune_point *points)
{
    uint64_t state = seed * 2654435761u + 12345;
    double nbytes = 8;
    for (size_t i = 0; i < t->count; i++, nbytes *= t->factor) {
        double share = 1 + t->noise * normal(&state);
        if (uniform(&state) < t->outliers)
            share *= 1.5 + 2 * uniform(&state);
        points[i] = (tune_point){ nbytes, true_time(t, nbytes) * share };
    }
}

static void is_near(double got, double wanted, double share)
{
    if (!(fabs(got - wanted) <= share * fabs(wanted)))
        fail_msg("wanted %.12g within %g of it, got %.12g", wanted, share, got);
}

static void test_exact_points_give_exact_numbers(void **state)
{
    (void)state;
    tune_point points[ROOM];
    tune_fit fit;
    draw(&plain, 1, points);
    assert_true(tune_fit_curve(points, plain.count, &fit));
    assert_false(fit.has_knee);
    is_near(fit.below.alpha_us, 5, 1e-6);
    is_near(fit.below.us_per_byte, 1e-4, 1e-6);
    is_near(tune_fit_time(&fit, 1e6), 105, 1e-6);
    draw(&protocol, 1, points);
    assert_true(tune_fit_curve(points, protocol.count, &fit));
    assert_true(fit.has_knee);
    is_near(fit.below.alpha_us, 5, 1e-6);
    is_near(fit.below.us_per_byte, 2e-4, 1e-6);
    is_near(fit.above.us_per_byte, 1e-4, 1e-6);
    assert_true(fit.knee_nbytes > 8192 && fit.knee_nbytes < 32768);
    is_near(tune_fit_time(&fit, 1e6), true_time(&protocol, 1e6), 1e-6);
}

static void test_a_knee_without_a_jump(void **state)
{
    (void)state;
    tune_point points[ROOM];
    tune_fit fit;
    draw(&cache, 1, points);
    assert_true(tune_fit_curve(points, cache.count, &fit));
    assert_true(fit.has_knee);
    assert_true(fit.above.alpha_us < 0); /* the steeper line does not reach 0 bytes */
    is_near(fit.above.us_per_byte, 3e-4, 1e-6);
    is_near(tune_fit_time(&fit, 1 << 26), true_time(&cache, 1 << 26), 1e-6);
}

/* Two of 13 points are far off: the line through the other eleven comes out. */
static void test_outliers_do_not_matter(void **state)
{
    (void)state;
    tune_point points[ROOM];
    tune_fit fit;
    truth t = plain;
    t.noise = 0.002;
    draw(&t, 3, points);
    points[2].time_us *= 4;
    points[10].time_us *= 2.5;
    assert_true(tune_fit_curve(points, t.count, &fit));
    assert_false(fit.has_knee);
    is_near(fit.below.alpha_us, 5, 0.01);
    is_near(fit.below.us_per_byte, 1e-4, 0.01);
}

typedef struct tally {
    int knees, alpha, below, above, knee;
} tally;

static bool holds(tune_interval interval, double value)
{
    return interval.low <= value && value <= interval.high;
}

static tally count_over_seeds(const truth *t)
{
    tally sum = { 0 };
    for (int seed = 0; seed < SEEDS; seed++) {
        tune_point points[ROOM];
        tune_fit fit;
        draw(t, (uint64_t)seed, points);
        assert_true(tune_fit_curve(points, t->count, &fit));
        tune_fit_intervals(points, t->count, REPLICATES, TUNE_SEED, &fit);
        sum.knees += fit.has_knee;
        sum.alpha += holds(fit.alpha_us, t->alpha_us);
        sum.below += holds(fit.below_us_per_byte, t->below);
        sum.above += holds(fit.above_us_per_byte, t->above);
        sum.knee += fit.has_knee && holds(fit.knee, t->knee);
    }
    return sum;
}

/* 95 % of 200 is 190, with a deviation of 3 from the seeds alone. */
static void covers(const char *what, int got)
{
    if (got < 178 || got > 199)
        fail_msg("%s: %d of %d intervals hold the truth; 178 to 199 are wanted", what, got, SEEDS);
}

static void test_intervals_hold_the_truth(void **state)
{
    (void)state;
    truth t = plain;
    t.noise = 0.03;
    tally sum = count_over_seeds(&t);
    covers("alpha of a line", sum.alpha);
    covers("beta of a line", sum.below);
    assert_in_range(sum.knees, 0, 10); /* invented ones */
}

static void test_intervals_hold_the_truth_around_a_knee(void **state)
{
    (void)state;
    truth t = protocol;
    t.count = 20;
    t.factor = 2.5;
    t.noise = 0.03;
    tally sum = count_over_seeds(&t);
    assert_in_range(sum.knees, 195, 200);
    assert_in_range(sum.knee, 190, 200);
    covers("alpha below a knee", sum.alpha);
    covers("beta below a knee", sum.below);
    covers("beta above a knee", sum.above);
}

static void test_outliers_invent_few_knees(void **state)
{
    (void)state;
    truth t = plain;
    t.noise = 0.03;
    t.outliers = 0.04;
    tally sum = count_over_seeds(&t);
    assert_in_range(sum.knees, 0, 20);
}

static void test_the_same_points_give_the_same_interval(void **state)
{
    (void)state;
    tune_point points[ROOM];
    tune_fit a, b, c;
    truth t = plain;
    t.noise = 0.05;
    draw(&t, 7, points);
    assert_true(tune_fit_curve(points, t.count, &a));
    b = c = a;
    tune_fit_intervals(points, t.count, REPLICATES, TUNE_SEED, &a);
    tune_fit_intervals(points, t.count, REPLICATES, TUNE_SEED, &b);
    tune_fit_intervals(points, t.count, REPLICATES, TUNE_SEED + 1, &c);
    assert_true(a.alpha_us.low == b.alpha_us.low && a.alpha_us.high == b.alpha_us.high);
    assert_true(a.alpha_us.low != c.alpha_us.low);
}

/* More noise, wider intervals: twice the noise, about twice the width. */
static void test_width_follows_the_noise(void **state)
{
    (void)state;
    tune_point points[ROOM];
    double width[2];
    for (int i = 0; i < 2; i++) {
        tune_fit fit;
        truth t = plain;
        t.noise = 0.01 * (i + 1);
        draw(&t, 5, points);
        assert_true(tune_fit_curve(points, t.count, &fit));
        tune_fit_intervals(points, t.count, REPLICATES, TUNE_SEED, &fit);
        width[i] = fit.below_us_per_byte.high - fit.below_us_per_byte.low;
    }
    is_near(width[1] / width[0], 2, 0.15);
}

static void test_curves_that_fall_or_start_at_nothing(void **state)
{
    (void)state;
    tune_fit fit;
    const tune_point falling[] = { { 8, 12 }, { 64, 11 }, { 512, 10.5 }, { 4096, 10 } };
    assert_true(tune_fit_curve(falling, 4, &fit));
    assert_true(fit.below.us_per_byte == 0 && fit.below.alpha_us > 10 && fit.below.alpha_us < 12);
    const tune_point steep[] = { { 1000, 1 }, { 2000, 2.2 }, { 4000, 4.6 }, { 8000, 9.4 } };
    assert_true(tune_fit_curve(steep, 4, &fit));
    assert_true(fit.below.alpha_us == 0);
    is_near(fit.below.us_per_byte, 1.12e-3, 0.05);
}

static void test_what_is_no_curve_is_refused(void **state)
{
    (void)state;
    tune_fit fit;
    const tune_point two[] = { { 8, 1 }, { 16, 2 } }, twice[] = { { 8, 1 }, { 8, 2 }, { 16, 3 } };
    const tune_point zero[] = { { 8, 1 }, { 16, 0 }, { 32, 3 } }, nan[] = { { 8, 1 }, { 16, NAN }, { 32, 3 } };
    assert_false(tune_fit_curve(two, 2, &fit));
    assert_false(tune_fit_curve(twice, 3, &fit));
    assert_false(tune_fit_curve(zero, 3, &fit));
    assert_false(tune_fit_curve(nan, 3, &fit));
    const tune_point three[] = { { 8, 1 }, { 16, 2 }, { 32, 4 } };
    assert_true(tune_fit_curve(three, 3, &fit));
    tune_fit_intervals(three, 3, REPLICATES, TUNE_SEED, &fit);
    assert_true(isnan(fit.alpha_us.low) && isnan(fit.knee.high)); /* three points say nothing about noise */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exact_points_give_exact_numbers),
        cmocka_unit_test(test_a_knee_without_a_jump),
        cmocka_unit_test(test_outliers_do_not_matter),
        cmocka_unit_test(test_intervals_hold_the_truth),
        cmocka_unit_test(test_intervals_hold_the_truth_around_a_knee),
        cmocka_unit_test(test_outliers_invent_few_knees),
        cmocka_unit_test(test_the_same_points_give_the_same_interval),
        cmocka_unit_test(test_width_follows_the_noise),
        cmocka_unit_test(test_curves_that_fall_or_start_at_nothing),
        cmocka_unit_test(test_what_is_no_curve_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
