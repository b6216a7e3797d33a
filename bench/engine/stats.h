/* bench/engine/stats.h - from samples to the five numbers that are reported.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef BENCH_STATS_H
#define BENCH_STATS_H

#include <stddef.h>

typedef struct bench_summary {
    size_t count;
    double min, p10, median, p90, max;
} bench_summary;

/* Sorts samples. All fields are 0 for count 0. A percentile is a sample, the one at the nearest lower rank; the median
 * of an even count is the mean of the middle two. */
bench_summary bench_summarize(double *samples, size_t count);

/* out[i] = the largest of samples[r * stride + i] over r < ranks, for i < count: an iteration takes as long as on its
 * slowest rank. */
void bench_max_over_ranks(const double *samples, size_t stride, int ranks, size_t count, double *out);

#endif
