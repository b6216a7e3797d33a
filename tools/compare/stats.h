/* tools/compare/stats.h - how sure a difference of two medians is. Pure functions.
 *
 * A result file keeps of each point the median of its times, quartiles and the number of samples, not the samples.
 * From these follows the standard error of the median,
 *
 *     s = sigma * sqrt(pi / 2) / sqrt(n)        sigma = (p75 - p25) / 1.349
 *
 * the formula of the notches in McGill, Tukey, Larsen, "Variations of Box Plots", The American Statistician 32 (1978),
 * 12-16, where it reads 1.25 R / (1.35 sqrt(n)). It holds for the normal distribution and is near enough for others
 * whose middle half is not far from it. A ratio of medians is compared on a scale of logarithms, where s becomes s /
 * median.
 *
 * Two sides are compared by Welch's test: t = (log b - log a) / sqrt(va + vb) against Student's distribution with the
 * degrees of freedom of Welch and Satterthwaite (Biometrika 34 (1947), 28-35). A run of n samples has 0.37 (n - 1) of
 * them, as the quartiles of a normal sample tell its sigma 0.37 times as well as all samples would.
 *
 * Several runs of one side say more than any one of them, as what moves from run to run (where ranks lie, clocks,
 * neighbours) is in no run's own spread: their variance is that of the mean of the runs' logarithms, or what the runs'
 * own spreads make it, whichever is larger.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_TOOLS_COMPARE_STATS_H
#define KI_TOOLS_COMPARE_STATS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A side: the logarithm of its median, the variance of that and its degrees of freedom. df 0: the spread is not
 * known, so nothing can be tested. */
typedef struct ki_estimate {
    double log_median, variance, df;
} ki_estimate;

/* Standard deviation out of two quantiles, as a normal distribution has them. */
double ki_sigma_of_quartiles(double p25, double p75);
double ki_sigma_of_deciles(double p10, double p90);

/* median > 0. sigma negative or samples < 2: the spread is not known. */
ki_estimate ki_estimate_of_run(double median, double sigma, int64_t samples);
/* count >= 1 runs of the same thing. */
ki_estimate ki_estimate_of_runs(const ki_estimate *runs, size_t count);

/* b beside a, both positive. */
typedef struct ki_difference {
    double ratio;     /* exp(b - a) */
    double low, high; /* 95 % confidence interval of the ratio; NAN when untested */
    double p;         /* probability of such a t when there is no difference; NAN when untested */
} ki_difference;

ki_difference ki_estimates_compare(const ki_estimate *a, const ki_estimate *b);

/* Two-sided probability of Student's distribution: P(|T| >= |t|). df > 0. */
double ki_student_p(double t, double df);
/* The t that |T| passes with probability p, 0 < p < 1. */
double ki_student_t(double p, double df);

/* The rule of Benjamini and Hochberg (Journal of the Royal Statistical Society B 57 (1995), 289-300): of count tests
 * those count whose p is at most what is returned, and of these a share of at most level is expected to be false. When
 * there is no difference anywhere, any counts with probability level at most. Sorts p. Negative: none. */
double ki_false_discovery_limit(double *p, size_t count, double level);

#endif
