/* tools/tune/fit_interval.c - how sure a fit is: a bootstrap of residuals. See fit.h.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "fit.h"

#include <math.h>
#include <stdlib.h>

enum { POINTS_LEAST = 5 };
#define LEVERAGE_MOST 0.9 /* a point that decides alone says nothing about the noise */
#define TIME_LEAST 0.05   /* share of the fitted time that a drawn one has at least */

/* splitmix64 (Steele, Lea, Flood, 2014). */
static uint64_t draw(uint64_t *state)
{
    uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* Relative residuals as large as the noise is: fitted values follow their own points, so residuals are too small. */
static void inflate(const tune_point *points, size_t count, const tune_fit *fit, double *errors)
{
    double leverage[TUNE_POINTS_MAX];
    tune_line_leverage(fit->below, points, fit->split, leverage);
    if (fit->split < count)
        tune_line_leverage(fit->above, points + fit->split, count - fit->split, leverage + fit->split);
    for (size_t i = 0; i < count; i++)
        errors[i] =
            (points[i].time_us / tune_fit_time(fit, points[i].nbytes) - 1) / sqrt(1 - fmin(leverage[i], LEVERAGE_MOST));
}

static void draw_points(const tune_point *points, size_t count, const tune_fit *fit, const double *errors,
                        uint64_t *state, tune_point *drawn)
{
    for (size_t i = 0; i < count; i++) {
        double share = 1 + errors[draw(state) % count];
        drawn[i].nbytes = points[i].nbytes;
        drawn[i].time_us = tune_fit_time(fit, points[i].nbytes) * fmax(share, TIME_LEAST);
    }
}

/* Fits drawn points as the curve was: one line, or two with the knee near where it was. */
static void fit_again(const tune_point *points, size_t count, const tune_fit *was, tune_fit *fit)
{
    *fit = *was;
    if (!was->has_knee) {
        fit->below = fit->above = tune_line_fit(points, count, false, &was->below);
        return;
    }
    size_t first = was->split > TUNE_NEAR + TUNE_PIECE_POINTS ? was->split - TUNE_NEAR : TUNE_PIECE_POINTS;
    tune_split_fit(points, count, first, was->split + TUNE_NEAR, 0, was, fit);
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Percentiles 2.5 and 97.5. */
static tune_interval percentiles(double *values, size_t count)
{
    qsort(values, count, sizeof *values, compare);
    size_t outside = (size_t)(0.025 * (double)count);
    return (tune_interval){ values[outside], values[count - 1 - outside] };
}

/* 97.5 % of Student's t over that of the normal distribution: Cornish and Fisher's series, 2 % off from three degrees
 * of freedom on. */
static double student(size_t freedom)
{
    const double z = 1.959964, z2 = z * z, v = (double)freedom;
    return 1 + (z2 + 1) / (4 * v) + ((5 * z2 + 16) * z2 + 3) / (96 * v * v) +
           (((3 * z2 + 19) * z2 + 17) * z2 - 15) / (384 * v * v * v);
}

/* points: of the piece that the values tell of. */
static tune_interval interval_of(double *values, size_t count, double estimate, size_t points)
{
    tune_interval interval = percentiles(values, count);
    double wider = student(points > 3 ? points - 2 : 1);
    interval.low = estimate - wider * (estimate - interval.low);
    interval.high = estimate + wider * (interval.high - estimate);
    return interval;
}

static void take_intervals(const tune_point *points, size_t point_count, double *values, size_t count, tune_fit *fit)
{
    size_t above = fit->has_knee ? point_count - fit->split : point_count;
    fit->alpha_us = interval_of(values, count, fit->below.alpha_us, fit->split);
    fit->below_us_per_byte = interval_of(values + count, count, fit->below.us_per_byte, fit->split);
    fit->above_us_per_byte = interval_of(values + 2 * count, count, fit->above.us_per_byte, above);
    fit->alpha_us.low = fmax(fit->alpha_us.low, 0);
    fit->below_us_per_byte.low = fmax(fit->below_us_per_byte.low, 0);
    fit->above_us_per_byte.low = fmax(fit->above_us_per_byte.low, 0);
    if (!fit->has_knee)
        return;
    tune_interval splits = percentiles(values + 3 * count, count);
    fit->knee.low = points[(size_t)splits.low - 1].nbytes;
    fit->knee.high = points[(size_t)splits.high].nbytes;
}

void tune_fit_intervals(const tune_point *points, size_t count, int replicates, uint64_t seed, tune_fit *fit)
{
    size_t many = replicates > 0 ? (size_t)replicates : 0;
    double errors[TUNE_POINTS_MAX], *values = count >= POINTS_LEAST ? calloc(4 * many + 1, sizeof *values) : NULL;
    if (values == NULL || many == 0) {
        free(values);
        return;
    }
    inflate(points, count, fit, errors);
    for (size_t i = 0; i < many; i++) {
        tune_point drawn[TUNE_POINTS_MAX];
        tune_fit again;
        draw_points(points, count, fit, errors, &seed, drawn);
        fit_again(drawn, count, fit, &again);
        values[i] = again.below.alpha_us;
        values[many + i] = again.below.us_per_byte;
        values[2 * many + i] = again.above.us_per_byte;
        values[3 * many + i] = (double)again.split;
    }
    take_intervals(points, count, values, many, fit);
    free(values);
}
