/* tools/bench/stats.c - a median, and how far it can be trusted.
 *
 * Nothing is thrown away: a machine that stops now and then stops for a trainer, too, and a median does not mind. How
 * many of the samples lie below the true median is a matter of tossing a coin for each, so the binomial distribution
 * says between which two of them, in order, it lies; no shape of the distribution is assumed.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "bench.h"

#include <math.h>
#include <stdlib.h>

#define EXACT_COUNT 500 /* up to here the coins are counted; 2^-500 is still a double */

static int compare_doubles(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

size_t bench_median_rank(size_t count)
{
    if (count > EXACT_COUNT)
        return (size_t)(((double)count - 1.96 * sqrt((double)count)) / 2);
    double probability = pow(0.5, (double)count), sum = 0; /* of exactly k heads, of fewer than k + 1 */
    size_t k = 0;
    for (; k < count; k++) {
        sum += probability;
        if (sum > 0.025)
            break;
        probability *= (double)(count - k) / (double)(k + 1);
    }
    return k;
}

static double percentile(const double *sorted, size_t count, double fraction)
{
    double place = fraction * (double)(count - 1);
    size_t below = (size_t)place;
    double share = place - (double)below;
    if (below + 1 >= count)
        return sorted[count - 1];
    return sorted[below] + share * (sorted[below + 1] - sorted[below]);
}

bench_summary bench_summarize(double *samples, size_t count)
{
    bench_summary summary = { count, NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN, false };
    if (count == 0)
        return summary;
    qsort(samples, count, sizeof *samples, compare_doubles);
    summary.min = samples[0];
    summary.p25 = percentile(samples, count, 0.25);
    summary.median = percentile(samples, count, 0.5);
    summary.p75 = percentile(samples, count, 0.75);
    summary.p95 = percentile(samples, count, 0.95);
    summary.p99 = percentile(samples, count, 0.99);
    summary.max = samples[count - 1];
    size_t rank = bench_median_rank(count);
    if (rank > 0) {
        summary.low = samples[rank - 1];
        summary.high = samples[count - rank];
        summary.is_reliable = summary.high - summary.low <= BENCH_RELIABLE_WIDTH * summary.median;
    }
    return summary;
}

double bench_hidden_percent(double alone_us, double compute_us, double together_us)
{
    double hidden = 100 * (alone_us + compute_us - together_us) / alone_us;
    return hidden > 100 ? 100 : hidden;
}
