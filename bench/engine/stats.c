/* bench/engine/stats.c
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "stats.h"

#include <stdlib.h>

static int compare_doubles(const void *left, const void *right)
{
    double a = *(const double *)left;
    double b = *(const double *)right;
    return (a > b) - (a < b);
}

static double percentile(const double *sorted, size_t count, double fraction)
{
    return sorted[(size_t)(fraction * (double)(count - 1))];
}

bench_summary bench_summarize(double *samples, size_t count)
{
    bench_summary summary = { .count = count };
    if (count == 0) {
        return summary;
    }
    qsort(samples, count, sizeof(samples[0]), compare_doubles);
    summary.min = samples[0];
    summary.p10 = percentile(samples, count, 0.1);
    summary.median = (samples[(count - 1) / 2] + samples[count / 2]) / 2;
    summary.p90 = percentile(samples, count, 0.9);
    summary.max = samples[count - 1];
    return summary;
}

void bench_max_over_ranks(const double *samples, size_t stride, int ranks, size_t count, double *out)
{
    for (size_t i = 0; i < count; i++) {
        out[i] = samples[i];
        for (int r = 1; r < ranks; r++) {
            double sample = samples[(size_t)r * stride + i];
            if (sample > out[i]) {
                out[i] = sample;
            }
        }
    }
}
