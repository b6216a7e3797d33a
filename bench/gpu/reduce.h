/* bench/gpu/reduce.h - what both comparisons of all_reduce share: buffers with known sums, sizes, times that are the
 * same on all ranks.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef BENCH_GPU_REDUCE_H
#define BENCH_GPU_REDUCE_H

#include "gpu.h"

typedef struct reduce {
    gpu *g;
    kith_group *world;
    int rank, size;
    size_t count; /* of f32 */
    float *send, *recv;
} reduce;

/* Bytes of the buffers that are tried, in ascending order; *count of them. */
const size_t *reduce_sizes(const gpu *g, int *count);

/* send is small whole numbers that depend on the rank; recv is zero. `local` has room for count. */
void reduce_fill(reduce *r, float *local, bool is_on_card);
/* Ends the program when recv is not the exact sum over all ranks. */
void reduce_check(const reduce *r, float *local, bool is_on_card, const char *what);

/* Replaces each number by the largest of all ranks. */
void reduce_largest(const reduce *r, double *numbers, int count);

#endif
