/* bench/drivers/trials.h - several ways to do something, in turns: what kith-bench's commands beside the sweep share.
 *
 * Every round runs each way once on all ranks, from one common moment; its time is that of the slowest rank. The first
 * round warms up and is not counted.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef BENCH_TRIALS_H
#define BENCH_TRIALS_H

#include "../engine/options.h"

#include <jansson.h>
#include <kith/kith.h>

#define BENCH_TRIALS_MAX_WAYS 4

typedef struct bench_trials {
    kith_status (*run[BENCH_TRIALS_MAX_WAYS])(void *self);
    void *self;
    int way_count, rounds;
    /* results, the same on all ranks */
    double median_us[BENCH_TRIALS_MAX_WAYS];
    double cpu_us[BENCH_TRIALS_MAX_WAYS]; /* mean over rounds of the processor time of all ranks together */
} bench_trials;

/* As many as a command wants, unless --max-iterations says fewer. */
int bench_trials_rounds(const bench_options *options, int wanted);

/* Collective over world, whose ranks share peers' segment. Says on stderr what failed. */
kith_status bench_trials_run(bench_trials *trials, bench_peers *peers, kith_group *world);

/* Writes {"format": format, "ranks": n, "rows": rows} on rank 0; path NULL: does nothing. rows is borrowed. False after
 * a message. */
bool bench_trials_write(const char *path, const char *format, kith_group *world, json_t *rows);

#endif
