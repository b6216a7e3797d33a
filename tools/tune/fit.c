/* tools/tune/fit.c - one line or two: where a curve has its knee, and whether it has one. See fit.h.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "fit.h"

#include <math.h>

#define MAD_TO_SIGMA 1.4826 /* of a normal distribution */
#define LEAST_SCALE 0.002   /* residuals below it are no reason for a knee */

static bool are_usable(const tune_point *points, size_t count)
{
    if (count < TUNE_LINE_POINTS || count > TUNE_POINTS_MAX)
        return false;
    for (size_t i = 0; i < count; i++)
        if (!(points[i].nbytes > (i > 0 ? points[i - 1].nbytes : 0)) || !(points[i].time_us > 0) ||
            !isfinite(points[i].nbytes) || !isfinite(points[i].time_us))
            return false;
    return true;
}

static double loss_of(const tune_fit *fit, const tune_point *points, size_t count, double scale)
{
    const tune_point *above = points + fit->split;
    size_t above_count = count - fit->split;
    if (scale > 0)
        return tune_line_bounded(fit->below, points, fit->split, scale) +
               tune_line_bounded(fit->above, above, above_count, scale);
    return tune_line_loss(fit->below, points, fit->split) + tune_line_loss(fit->above, above, above_count);
}

bool tune_split_fit(const tune_point *points, size_t count, size_t first, size_t last, double scale,
                    const tune_fit *start, tune_fit *fit)
{
    double least = HUGE_VAL;
    for (size_t split = first; split <= last && split + TUNE_PIECE_POINTS <= count; split++) {
        tune_fit here = { .split = split };
        here.below = tune_line_fit(points, split, false, start != NULL ? &start->below : NULL);
        here.above = tune_line_fit(points + split, count - split, true, start != NULL ? &start->above : NULL);
        double loss = loss_of(&here, points, count, scale);
        if (loss < least) {
            least = loss;
            fit->below = here.below;
            fit->above = here.above;
            fit->split = split;
        }
    }
    return isfinite(least);
}

static double middle_of(const tune_point *points, size_t split)
{
    return sqrt(points[split - 1].nbytes * points[split].nbytes);
}

/* The relative residuals of a curve. */
static void residuals_of(const tune_fit *fit, const tune_point *points, size_t count, double *sizes)
{
    for (size_t i = 0; i < count; i++)
        sizes[i] =
            fabs(points[i].time_us / tune_line_time(i < fit->split ? fit->below : fit->above, points[i].nbytes) - 1);
}

/* Of the residuals of two lines, as large as the noise is: four numbers were fitted to it. */
static double scale_of(const tune_fit *two, const tune_point *points, size_t count)
{
    double sizes[TUNE_POINTS_MAX];
    residuals_of(two, points, count, sizes);
    double freedom = (double)count / (double)(count - 4);
    return fmax(MAD_TO_SIGMA * tune_median(sizes, count) * sqrt(freedom), LEAST_SCALE);
}

/* The best two lines, and by how much they are better than one. False: there are too few points for two. */
static bool find_knee(const tune_point *points, size_t count, tune_line one, tune_fit *fit)
{
    size_t last = count - TUNE_PIECE_POINTS;
    if (count < 2 * TUNE_PIECE_POINTS || !tune_split_fit(points, count, TUNE_PIECE_POINTS, last, 0, NULL, fit))
        return false;
    double scale = scale_of(fit, points, count);
    tune_split_fit(points, count, TUNE_PIECE_POINTS, last, scale, NULL, fit);
    fit->evidence =
        tune_line_bounded(one, points, count, scale) - loss_of(fit, points, count, scale) - 4 * log((double)count);
    fit->knee_nbytes = middle_of(points, fit->split);
    return true;
}

static bool differ(const tune_fit *two, tune_line one, const tune_point *points, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        double time = tune_line_time(one, points[i].nbytes);
        if (fabs(tune_fit_time(two, points[i].nbytes) - time) > TUNE_KNEE_SHARE * time)
            return true;
    }
    return false;
}

bool tune_fit_curve(const tune_point *points, size_t count, tune_fit *fit)
{
    static const tune_interval unknown = { NAN, NAN };
    if (!are_usable(points, count))
        return false;
    tune_line one = tune_line_fit(points, count, false, NULL);
    *fit =
        (tune_fit){ .alpha_us = unknown, .below_us_per_byte = unknown, .above_us_per_byte = unknown, .knee = unknown };
    fit->has_knee = find_knee(points, count, one, fit);
    fit->has_knee = fit->has_knee && fit->evidence > TUNE_KNEE_EVIDENCE && differ(fit, one, points, count);
    if (!fit->has_knee) {
        fit->below = fit->above = one;
        fit->split = count;
        fit->knee_nbytes = 0;
    }
    double sizes[TUNE_POINTS_MAX];
    residuals_of(fit, points, count, sizes);
    fit->spread = tune_median(sizes, count);
    return true;
}

double tune_fit_time(const tune_fit *fit, double nbytes)
{
    return tune_line_time(fit->has_knee && nbytes > fit->knee_nbytes ? fit->above : fit->below, nbytes);
}
