/* bench/engine/point.h - measuring one operation at one size.
 *
 * cold: every rank writes its send buffer anew, so that it lies in its own caches as after a computation, and all ranks
 * start at one common moment. The time of an iteration is that of the slowest rank, from the start to its own end.
 *
 * back_to_back: batches of operations without anything between; time per operation of the slowest rank. Buffers keep
 * their content. Ranks may run ahead as far as the operation lets them.
 *
 * Warm-up comes first (at most a quarter of the time budget). Then iterations run until max_iterations, or until
 * min_iterations and the budget are used up. All data are checked in the first, the last and some iterations between,
 * samples in every one. The flag latency between ranks 0 and 1 is noted before and after.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef BENCH_POINT_H
#define BENCH_POINT_H

#include "driver.h"
#include "stats.h"

typedef enum bench_mode { BENCH_COLD, BENCH_BACK_TO_BACK, BENCH_MODE_COUNT } bench_mode;

const char *bench_mode_name(bench_mode mode);
bool bench_mode_parse(const char *name, bench_mode *mode);

typedef struct bench_limits {
    int min_iterations, max_iterations;
    double budget_ms;
} bench_limits;

typedef struct bench_result {
    bench_op op;
    bench_mode mode;
    size_t nbytes;
    bench_summary us; /* over iterations or batches, per operation, scaled by bench_op_scale() */
    double flag_before_ns, flag_after_ns;
    uint64_t switches; /* involuntary context switches of all ranks: others wanted the CPUs */
    bool is_right;     /* every check passed on every rank */
} bench_result;

/* Collective; the result is valid on rank 0. False when the operation itself failed here. */
bool bench_point(const bench_driver *driver, const bench_variant *variant, bench_data *data, bench_op op, size_t nbytes,
                 bench_mode mode, const bench_limits *limits, void *send, void *recv, bench_result *result);

#endif
