/* tools/tune/fit.h - what a measured curve says about a link: t(n) = alpha + beta n, with or without a knee.
 *
 * The points of a curve are medians of times, a few per decade of bytes, so a fit must treat 8 us and 80 ms alike: all
 * residuals here are relative to the fitted time. Measured curves have outliers, so nothing is a plain sum of squares.
 *
 *   line      begins with the line of least absolute relative residuals, which passes through two points, so all pairs
 *             are tried; Huber's estimate (tuning 1.345, scale from the median absolute residual) goes on from there by
 *             reweighting. A negative alpha or beta is no time: the other one alone is fitted then.
 *   knee      two lines, one below and one above, with a jump between them where there is one (a switch of protocol);
 *             at least TUNE_PIECE_POINTS points each. Every place is tried.
 *   choice    a BIC with bounded residuals, sum of min((r / s)^2, 9) + p ln m over m points, so that an outlier costs
 *             both forms the same. s is the scale of the residuals of two lines, for both forms. p is 2 for a line and
 *             6 for two: four numbers, and two for a place that was searched. Two lines are taken where this is lower
 *             by more than TUNE_KNEE_EVIDENCE and they differ from one line by more than TUNE_KNEE_SHARE at some point.
 *             The place is the one with the least bounded sum.
 *   interval  95 % by a bootstrap of the relative residuals (each divided by the root of 1 - leverage): curves are
 *             drawn from the fitted one with residuals drawn with replacement, and fitted again, with the knee searched
 *             again in TUNE_NEAR places around it. Percentiles of what comes out, widened by Student's factor for the
 *             points of the piece. The generator has a fixed seed: the same points give the same interval.
 *
 * Pure functions: no files, no clock, no globals.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_TOOLS_TUNE_FIT_H
#define KI_TOOLS_TUNE_FIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TUNE_POINTS_MAX = 256, TUNE_LINE_POINTS = 3, TUNE_PIECE_POINTS = 4, TUNE_NEAR = 3 };
#define TUNE_KNEE_EVIDENCE 10.0
#define TUNE_KNEE_SHARE 0.05
#define TUNE_REPLICATES 1000
#define TUNE_SEED UINT64_C(0x6b697468)

typedef struct tune_point {
    double nbytes, time_us; /* both above 0 */
} tune_point;

typedef struct tune_line {
    double alpha_us;    /* at 0 bytes; below 0 only above a knee, where the line does not reach 0 bytes */
    double us_per_byte; /* beta */
} tune_line;

/* NaN at both ends: cannot be said. */
typedef struct tune_interval {
    double low, high;
} tune_interval;

typedef struct tune_fit {
    tune_line below, above; /* equal without a knee */
    bool has_knee;
    size_t split;       /* points of the lower piece; all of them without a knee */
    double knee_nbytes; /* between the last point below and the first one above (geometric mean); 0: none */
    double spread;      /* median absolute relative residual */
    double evidence;    /* the criterion of one line less that of two; 0 where two cannot be fitted */
    tune_interval alpha_us, below_us_per_byte, above_us_per_byte, knee; /* 95 %; set by tune_fit_intervals() */
} tune_fit;

/* points[count], sorted by bytes, each size once. False: fewer than TUNE_LINE_POINTS or more than TUNE_POINTS_MAX
 * points, or values that are no sizes and times in rising order. */
bool tune_fit_curve(const tune_point *points, size_t count, tune_fit *fit);

/* Fills the intervals of what tune_fit_curve() returned for these points. They stay NaN with fewer than 5 points. */
void tune_fit_intervals(const tune_point *points, size_t count, int replicates, uint64_t seed, tune_fit *fit);

/* The time of that many bytes, us. */
double tune_fit_time(const tune_fit *fit, double nbytes);

/* ---- what the parts share (fit_line.c) ---- */

/* One line through points[count]. is_free: alpha may be below 0. start: where to begin; NULL: at the line of least
 * absolute residuals. */
tune_line tune_line_fit(const tune_point *points, size_t count, bool is_free, const tune_line *start);
double tune_line_time(tune_line line, double nbytes);
/* Influence of each point on its own fitted value, 0 to 1, with the weights of relative residuals. */
void tune_line_leverage(tune_line line, const tune_point *points, size_t count, double *leverage);
/* Sum of the absolute relative residuals. */
double tune_line_loss(tune_line line, const tune_point *points, size_t count);
/* Sum of the squares of relative residuals over scale, each at most 9. */
double tune_line_bounded(tune_line line, const tune_point *points, size_t count, double scale);
/* The median of values[count], which it reorders; count is above 0. */
double tune_median(double *values, size_t count);
/* The two lines of the best split from first to last. scale: of bounded residuals; 0: absolute ones decide. start:
 * where the lines begin; NULL: at least absolute residuals. False: there is no split with enough points. */
bool tune_split_fit(const tune_point *points, size_t count, size_t first, size_t last, double scale,
                    const tune_fit *start, tune_fit *fit);

#endif
