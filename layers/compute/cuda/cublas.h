/* layers/compute/cuda/cublas.h - the functions of cuBLAS that products use, found in a library at run time.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_LAYERS_CUDA_CUBLAS_H
#define KI_LAYERS_CUDA_CUBLAS_H

#include <cublas_v2.h>
#include <stddef.h>

#define KI_CUBLAS_FUNCTIONS(X)                                                                                         \
    X(cublasCreate_v2)                                                                                                 \
    X(cublasDestroy_v2)                                                                                                \
    X(cublasGemmEx)                                                                                                    \
    X(cublasGemmStridedBatchedEx)                                                                                      \
    X(cublasGetStatusString)                                                                                           \
    X(cublasSetMathMode)                                                                                               \
    X(cublasSetStream_v2)

typedef struct ki_cublas {
#define KI_CUBLAS_MEMBER(function) __typeof__(function) *function;
    KI_CUBLAS_FUNCTIONS(KI_CUBLAS_MEMBER)
#undef KI_CUBLAS_MEMBER
} ki_cublas;

/* The process's table, made by the first call that succeeds; NULL with one sentence in reason. library: the file that
 * the setting cublas_library names (KITH_CUBLAS_LIBRARY); NULL or "": the usual places are searched. Any thread. */
const ki_cublas *ki_cublas_open(const char *library, char *reason, size_t reason_nbytes);

#endif
