/* bench/drivers/commands.h - what kith-bench measures beside its sweep of sizes.
 *
 *   groups    all_reduce in tp and in dp of a 2 x 2 mesh: each alone, and both at once, as training does
 *   overlap   an all_reduce of 16 MiB beside a matrix product: on the same cores, and with a free core
 *   growth    what a rank pays as the group grows: joining, calls, making a group, memory
 *
 * Each prints a table on rank 0 and writes it to --json. --max bounds sizes, --max-iterations rounds. They return the
 * exit status.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef BENCH_COMMANDS_H
#define BENCH_COMMANDS_H

#include "../engine/options.h"

#include <kith/kith.h>
#include <sched.h>

int bench_groups(kith_group *world, bench_peers *peers, const bench_options *options);
/* usable: the CPUs of this process before it was pinned. */
int bench_overlap(kith_group *world, bench_peers *peers, const cpu_set_t *usable, const bench_options *options);

/* joined_ms: how long kith_init() took on this rank. heap_before: bench_allocated_nbytes() before it. */
int bench_growth(kith_group *world, bench_peers *peers, double joined_ms, uint64_t heap_before,
                 const bench_options *options);

#endif
