/* bench/drivers/allocations.h - counts allocations of the calling thread, and what a library holds.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef BENCH_ALLOCATIONS_H
#define BENCH_ALLOCATIONS_H

#include <kith/context.h>

/* Allocations so far: through bench_allocator(), and through malloc, calloc, realloc and the aligned forms where those
 * are seen. */
uint64_t bench_allocations(void);

/* Bytes that bench_allocator() has given and not got back, over all threads. */
uint64_t bench_allocated_nbytes(void);

/* 1 when malloc and its relatives are counted: on glibc, without sanitizers. */
int bench_allocations_see_malloc(void);

/* Hooks for kith_init() that count. Static. */
const kith_allocator *bench_allocator(void);

#endif
