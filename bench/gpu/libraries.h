/* bench/gpu/libraries.h - NCCL and the CUDA runtime as the benchmark calls them itself: opened at run time, from the
 * same places as the modules (KITH_NCCL_LIBRARY, KITH_CUDART_LIBRARY).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef BENCH_GPU_LIBRARIES_H
#define BENCH_GPU_LIBRARIES_H

#include <cuda_runtime_api.h>
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

#define BENCH_CUDA_FUNCTIONS(X)                                                                                        \
    X(cudaSetDevice)                                                                                                   \
    X(cudaDriverGetVersion)                                                                                            \
    X(cudaRuntimeGetVersion)

#define BENCH_MEMBER(function) __typeof__(function) *function;
typedef struct bench_nccl_library {
    BENCH_NCCL_FUNCTIONS(BENCH_MEMBER)
} bench_nccl_library;
typedef struct bench_cuda_library {
    BENCH_CUDA_FUNCTIONS(BENCH_MEMBER)
} bench_cuda_library;
#undef BENCH_MEMBER

/* False, with one line in reason. */
bool bench_open_nccl(bench_nccl_library *nccl, char *reason, size_t reason_nbytes);
bool bench_open_cuda(bench_cuda_library *cuda, char *reason, size_t reason_nbytes);

#endif
