/* bench/drivers/overhead.h - what a call of the API costs before the backend gets it, and whether it allocates.
 *
 * The context uses the module `null` of bench/null, whose operations are complete as soon as they start and move
 * nothing: what remains of a call's time is the library's. Every rank measures for itself; ranks need not be two.
 *
 * Allocations are counted at the context's allocator hooks and, in a build without sanitizers, at malloc and its
 * relatives, over all measured calls.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef BENCH_OVERHEAD_H
#define BENCH_OVERHEAD_H

/* Prints a table on rank 0 and writes it to json_path unless that is NULL. Returns the exit status. */
int bench_overhead(const char *json_path);

#endif
