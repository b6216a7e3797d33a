/* bench/floors/direct.h - the floor of mapped buffers: every rank reads and writes the buffers of all.
 *
 * A barrier says that all buffers are ready, one more that all are done; between them each rank moves or reduces its
 * share straight from memory to memory. all_reduce: a rank reduces its slice into everybody's result, or (whole) all
 * of it into its own. reduce: its slice into the root's, or (whole) the root all of it.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef BENCH_FLOORS_DIRECT_H
#define BENCH_FLOORS_DIRECT_H

#include "space.h"

typedef struct floor_direct {
    floor_space *space; /* first */
    bool is_whole, is_streaming;
} floor_direct;

bool floor_direct_can_run(void *self, bench_op op, size_t nbytes, int size);
bool floor_direct_run(void *self, const bench_call *call);

/* The barrier alone. */
bool floor_flags_can_run(void *self, bench_op op, size_t nbytes, int size);
bool floor_flags_run(void *self, const bench_call *call);

#endif
