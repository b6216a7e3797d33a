/* tools/tune/fit_line.c - one line through a curve, robustly, with relative residuals. See fit.h.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "fit.h"

#include <math.h>
#include <stdlib.h>

#define HUBER 1.345         /* 95 % as good as least squares where the noise is normal */
#define MAD_TO_SIGMA 1.4826 /* of a normal distribution */
#define BOUND 9.0           /* three scales, squared */
#define LEAST_SCALE 1e-9    /* residuals below it are rounding */
#define LEAST_SHARE 0.05    /* a fitted time counts as at least this share of the measured one in denominators */
enum { ROUNDS_MAX = 50 };

double tune_line_time(tune_line line, double nbytes)
{
    return line.alpha_us + line.us_per_byte * nbytes;
}

/* What a residual is relative to. */
static double unit_of(tune_line line, tune_point point)
{
    return fmax(tune_line_time(line, point.nbytes), LEAST_SHARE * point.time_us);
}

static double residual(tune_line line, tune_point point)
{
    return (point.time_us - tune_line_time(line, point.nbytes)) / unit_of(line, point);
}

double tune_line_loss(tune_line line, const tune_point *points, size_t count)
{
    double loss = 0;
    for (size_t i = 0; i < count; i++)
        loss += fabs(residual(line, points[i]));
    return loss;
}

double tune_line_bounded(tune_line line, const tune_point *points, size_t count, double scale)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++) {
        double share = residual(line, points[i]) / scale;
        sum += fmin(share * share, BOUND);
    }
    return sum;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double tune_median(double *values, size_t count)
{
    qsort(values, count, sizeof *values, compare);
    return count % 2 == 1 ? values[count / 2] : 0.5 * (values[count / 2 - 1] + values[count / 2]);
}

/* Sums of a weighted least squares line. */
typedef struct sums {
    double w, x, y, xx, xy;
} sums;

static sums sums_of(const tune_point *points, const double *weights, size_t count)
{
    sums s = { 0, 0, 0, 0, 0 };
    for (size_t i = 0; i < count; i++) {
        s.w += weights[i];
        s.x += weights[i] * points[i].nbytes;
        s.y += weights[i] * points[i].time_us;
    }
    for (size_t i = 0; i < count; i++) { /* about the centre, so that 8 bytes beside 1 GiB lose no digits */
        double dx = points[i].nbytes - s.x / s.w;
        s.xx += weights[i] * dx * dx;
        s.xy += weights[i] * dx * (points[i].time_us - s.y / s.w);
    }
    return s;
}

static tune_line through_origin(const tune_point *points, const double *weights, size_t count)
{
    double xx = 0, xy = 0;
    for (size_t i = 0; i < count; i++) {
        xx += weights[i] * points[i].nbytes * points[i].nbytes;
        xy += weights[i] * points[i].nbytes * points[i].time_us;
    }
    return (tune_line){ 0, xy / xx };
}

static tune_line least_squares(const tune_point *points, const double *weights, size_t count, bool is_free)
{
    sums s = sums_of(points, weights, count);
    tune_line line = { 0, s.xx > 0 ? s.xy / s.xx : 0 };
    if (line.us_per_byte < 0)
        line.us_per_byte = 0;
    line.alpha_us = (s.y - line.us_per_byte * s.x) / s.w;
    return line.alpha_us < 0 && !is_free ? through_origin(points, weights, count) : line;
}

/* All pairs: the line of least absolute residuals passes through two points, or through one where it is held. */
static tune_line least_absolute(const tune_point *points, size_t count, bool is_free)
{
    tune_line best = { points[0].time_us, 0 };
    double least = HUGE_VAL;
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < count; j++) {
            tune_line line = { 0, points[i].time_us / points[i].nbytes };
            if (j < i)
                line.us_per_byte = (points[i].time_us - points[j].time_us) / (points[i].nbytes - points[j].nbytes);
            else if (j > i)
                line.us_per_byte = 0;
            if (j != i)
                line.alpha_us = points[i].time_us - line.us_per_byte * points[i].nbytes;
            if (line.us_per_byte < 0 || (line.alpha_us < 0 && !is_free))
                continue;
            double loss = tune_line_loss(line, points, count);
            if (loss < least) {
                least = loss;
                best = line;
            }
        }
    return best;
}

static double scale_of(tune_line line, const tune_point *points, size_t count)
{
    double sizes[TUNE_POINTS_MAX];
    for (size_t i = 0; i < count; i++)
        sizes[i] = fabs(residual(line, points[i]));
    return fmax(MAD_TO_SIGMA * tune_median(sizes, count), LEAST_SCALE);
}

static void weigh(tune_line line, double scale, const tune_point *points, size_t count, double *weights)
{
    for (size_t i = 0; i < count; i++) {
        double unit = unit_of(line, points[i]), size = fabs(residual(line, points[i])) / scale;
        weights[i] = (size > HUBER ? HUBER / size : 1) / (unit * unit);
    }
}

static bool is_near(tune_line a, tune_line b, double largest)
{
    double shift = fabs(a.alpha_us - b.alpha_us) + fabs(a.us_per_byte - b.us_per_byte) * largest;
    return shift <= 1e-9 * (fabs(a.alpha_us) + a.us_per_byte * largest);
}

tune_line tune_line_fit(const tune_point *points, size_t count, bool is_free, const tune_line *start)
{
    double weights[TUNE_POINTS_MAX];
    tune_line line = start != NULL ? *start : least_absolute(points, count, is_free);
    double scale = scale_of(line, points, count);
    for (int round = 0; round < ROUNDS_MAX; round++) {
        tune_line before = line;
        weigh(line, scale, points, count, weights);
        line = least_squares(points, weights, count, is_free);
        if (is_near(line, before, points[count - 1].nbytes))
            break;
    }
    return line;
}

void tune_line_leverage(tune_line line, const tune_point *points, size_t count, double *leverage)
{
    double weights[TUNE_POINTS_MAX];
    for (size_t i = 0; i < count; i++)
        weights[i] = 1 / (unit_of(line, points[i]) * unit_of(line, points[i]));
    sums s = sums_of(points, weights, count);
    for (size_t i = 0; i < count; i++) {
        double dx = points[i].nbytes - s.x / s.w;
        leverage[i] = weights[i] * (1 / s.w + (s.xx > 0 ? dx * dx / s.xx : 0));
    }
}
