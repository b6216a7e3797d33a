/* tools/tune/pairs.h - all_pairs beside what is expected of each pair.
 *
 * What is expected of a pair follows from where its ranks sit: two GPUs of a host that the topology shows have a link,
 * and the link has a bandwidth. Nothing is known of memory that ranks of one host share, of networks, and of hosts that
 * this one cannot look into; such pairs are compared with the median of their like, where there are enough of them. A
 * pair that reaches less than TUNE_PAIR_SHARE of that is marked.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_TOOLS_TUNE_PAIRS_H
#define KI_TOOLS_TUNE_PAIRS_H

#include "../bench/bench.h"

#define TUNE_PAIR_SHARE 0.7
enum { TUNE_PAIRS_ENOUGH = 3 }; /* for a median to expect something by */

typedef struct tune_pair {
    int src, dst;
    char link[32];        /* "NV18", "shared memory", "between hosts" */
    double gbps;          /* measured; NaN: not reliable */
    double expected_gbps; /* of the link; NaN: no figure is known */
} tune_pair;

/* Pairs of one link, with what is expected of them. */
typedef struct tune_pair_class {
    const char *link;
    size_t count, measured; /* measured: with a reliable median */
    double median_gbps;     /* NaN without any */
    double expected_gbps;   /* of the link, else the median; NaN: no expectation */
    bool is_known;          /* of the link */
} tune_pair_class;

/* The class of a link among pairs[count]. */
tune_pair_class tune_pairs_class(const tune_pair *pairs, size_t count, const char *link);
/* Whether a pair stays below what its class expects. */
bool tune_pair_is_slow(const tune_pair *pair, const tune_pair_class *of_class);
/* A line for each class: how many pairs, what is expected, which stay below. */
void tune_pairs_report(FILE *out, const tune_pair *pairs, size_t count);

/* Prints that for the largest size of all_pairs, and notes it in its rows on rank 0. rows: the same on all ranks. out:
 * NULL where nothing is printed. Collective over the control group. */
kith_status tune_pairs_print(kith_ctx *ctx, kith_group *control, bench_rows *rows, FILE *out);

#endif
