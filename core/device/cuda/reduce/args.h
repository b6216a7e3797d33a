/* core/device/cuda/reduce/args.h - what the kernels of reductions take.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_CUDA_REDUCE_ARGS_H
#define KI_CUDA_REDUCE_ARGS_H

#include <stdint.h>

typedef struct ki_reduce_args {
    const void *a, *b; /* b: of combine */
    void *out;
    int64_t count;
    int64_t int_scalar; /* premul_sum of integers */
    double scalar;      /* of floats */
    int32_t step;       /* ki_reduce_step (module.h) */
    int32_t op;         /* kith_op, or KI_DEVICE_PREMUL */
    int32_t ranks;      /* avg divides by it */
} ki_reduce_args;

#endif
