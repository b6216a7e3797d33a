/* bench/gpu/libraries.h - NCCL and the CUDA runtime as the benchmark calls them itself: opened at run time, from the
 * same places as the modules (KITH_NCCL_LIBRARY, KITH_CUDART_LIBRARY).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef BENCH_GPU_LIBRARIES_H
#define BENCH_GPU_LIBRARIES_H

#include "core/device/cuda/runtime.h"
#include <nccl.h>
#include <stdbool.h>
#include <stddef.h>

#define BENCH_NCCL_FUNCTIONS(X)                                                                                        \
    X(ncclGetVersion)                                                                                                  \
    X(ncclGetUniqueId)                                                                                                 \
    X(ncclCommInitRank)                                                                                                \
    X(ncclCommDestroy)                                                                                                 \
    X(ncclAllReduce)                                                                                                   \
    X(ncclGetErrorString)

#define BENCH_MEMBER(function) __typeof__(function) *function;
typedef struct bench_nccl_library {
    BENCH_NCCL_FUNCTIONS(BENCH_MEMBER)
} bench_nccl_library;
#undef BENCH_MEMBER

/* False (NULL), with one line in reason. */
bool bench_open_nccl(bench_nccl_library *nccl, char *reason, size_t reason_nbytes);
const ki_cuda *bench_open_cuda(char *reason, size_t reason_nbytes);

#endif
