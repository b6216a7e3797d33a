/* tools/compare/stats.c
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "stats.h"

#include <math.h>
#include <stdlib.h>

#define QUARTILES_OF_SIGMA 1.3489795 /* p75 - p25 of the normal distribution */
#define DECILES_OF_SIGMA 2.5631031   /* p90 - p10 */
#define MEDIAN_ERROR 1.2533141       /* sqrt(pi / 2) */
#define QUARTILE_EFFICIENCY 0.37     /* of sigma out of quartiles, beside the standard deviation of all samples */
#define RELATIVE_ERROR_LEAST 5e-4    /* a clock's steps can make all quartiles equal; nothing is that exact */
#define CONFIDENCE 0.95

double ki_sigma_of_quartiles(double p25, double p75)
{
    return (p75 - p25) / QUARTILES_OF_SIGMA;
}

double ki_sigma_of_deciles(double p10, double p90)
{
    return (p90 - p10) / DECILES_OF_SIGMA;
}

ki_estimate ki_estimate_of_run(double median, double sigma, int64_t samples)
{
    ki_estimate run = { log(median), 0, 0 };
    if (!(sigma >= 0) || samples < 2)
        return run;
    double relative = MEDIAN_ERROR * sigma / sqrt((double)samples) / median;
    relative = fmax(relative, RELATIVE_ERROR_LEAST);
    run.variance = relative * relative;
    run.df = QUARTILE_EFFICIENCY * (double)(samples - 1);
    return run;
}

ki_estimate ki_estimate_of_runs(const ki_estimate *runs, size_t count)
{
    double n = (double)count, mean = 0, within = 0, within_df = 0, between = 0;
    bool has_spread = true;
    for (size_t i = 0; i < count; i++) {
        double share = runs[i].variance / (n * n);
        mean += runs[i].log_median / n;
        within += share;
        has_spread = has_spread && runs[i].df > 0;
        within_df += has_spread ? share * share / runs[i].df : 0;
    }
    for (size_t i = 0; i < count && count > 1; i++)
        between += (runs[i].log_median - mean) * (runs[i].log_median - mean) / (n - 1) / n;
    ki_estimate all = { mean, 0, 0 };
    if (count > 1 && (!has_spread || between >= within)) {
        all.variance = fmax(between, RELATIVE_ERROR_LEAST * RELATIVE_ERROR_LEAST);
        all.df = n - 1;
    } else if (has_spread) {
        all.variance = within;
        all.df = within * within / within_df;
    }
    return all;
}

ki_difference ki_estimates_compare(const ki_estimate *a, const ki_estimate *b)
{
    double step = b->log_median - a->log_median;
    ki_difference found = { exp(step), NAN, NAN, NAN };
    if (!(a->df > 0) || !(b->df > 0))
        return found;
    double variance = a->variance + b->variance, error = sqrt(variance);
    double df = variance * variance / (a->variance * a->variance / a->df + b->variance * b->variance / b->df);
    double reach = ki_student_t(1 - CONFIDENCE, df) * error;
    found.low = exp(step - reach);
    found.high = exp(step + reach);
    found.p = ki_student_p(step / error, df);
    return found;
}

/* The continued fraction of the incomplete beta function (Abramowitz, Stegun, Handbook of Mathematical Functions,
 * 26.5.8), from front to back after Lentz. It converges quickly for x < (a + 1) / (a + b + 2). */
static double beta_fraction(double x, double a, double b)
{
    enum { STEPS_MOST = 500 };
    const double tiny = 1e-300, exact = 1e-14;
    double c = 1, d = 1 - (a + b) * x / (a + 1);
    d = 1 / (fabs(d) < tiny ? tiny : d);
    double fraction = d;
    for (int m = 1; m <= STEPS_MOST; m++) {
        double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
        double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
        d = 1 + even * d;
        c = 1 + even / c;
        d = 1 / (fabs(d) < tiny ? tiny : d);
        c = fabs(c) < tiny ? tiny : c;
        fraction *= d * c;
        d = 1 + odd * d;
        c = 1 + odd / c;
        d = 1 / (fabs(d) < tiny ? tiny : d);
        c = fabs(c) < tiny ? tiny : c;
        fraction *= d * c;
        if (fabs(d * c - 1) < exact)
            break;
    }
    return fraction;
}

/* Regularized incomplete beta function I_x(a, b). */
static double incomplete_beta(double x, double a, double b)
{
    if (x <= 0 || x >= 1)
        return x <= 0 ? 0 : 1;
    double front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log1p(-x));
    if (x < (a + 1) / (a + b + 2))
        return front * beta_fraction(x, a, b) / a;
    return 1 - front * beta_fraction(1 - x, b, a) / b;
}

double ki_student_p(double t, double df)
{
    return incomplete_beta(df / (df + t * t), df / 2, 0.5); /* Abramowitz, Stegun, 26.7.1 */
}

double ki_student_t(double p, double df)
{
    double low = 0, high = 1;
    while (ki_student_p(high, df) > p && high < 1e12)
        high *= 2;
    for (int i = 0; i < 100; i++) {
        double middle = (low + high) / 2;
        if (ki_student_p(middle, df) > p)
            low = middle;
        else
            high = middle;
    }
    return high;
}

static int compare_numbers(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

double ki_false_discovery_limit(double *p, size_t count, double level)
{
    qsort(p, count, sizeof(*p), compare_numbers);
    for (size_t i = count; i > 0; i--)
        if (p[i - 1] <= level * (double)i / (double)count)
            return p[i - 1];
    return -1;
}
