/* bench/floors/kernels.h - the loops of the floors: f32 additions and copies, with plain and with streaming stores.
 *
 * Compiled for the machine the benchmark is built on, so that they are as fast as the machine allows. Streaming stores
 * go around the caches: they save reading the destination first, and lose when somebody reads it soon. Where the
 * compiler's target has none, the streaming forms are the plain ones.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef BENCH_FLOORS_KERNELS_H
#define BENCH_FLOORS_KERNELS_H

#include <stdbool.h>
#include <stddef.h>

/* dst[i] = a[i] + b[i]. dst may be a or b. */
void floor_add(float *dst, const float *a, const float *b, size_t count, bool is_streaming);

/* first[i] = second[i] = a[i] + b[i]. */
void floor_add_twice(float *first, float *second, const float *a, const float *b, size_t count, bool is_streaming);

void floor_copy(void *dst, const void *src, size_t nbytes, bool is_streaming);

#endif
