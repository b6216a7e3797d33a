/* layers/compute/cuda/cublas.h - the functions of cuBLAS that products use, found in a library at run time.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_LAYERS_CUDA_CUBLAS_H
#define KI_LAYERS_CUDA_CUBLAS_H

#include <cublasLt.h>
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

/* cublasLt's, which cuBLAS stands on: products with a bias. */
#define KI_CUBLAS_LT_FUNCTIONS(X)                                                                                      \
    X(cublasLtMatmul)                                                                                                  \
    X(cublasLtMatmulAlgoGetHeuristic)                                                                                  \
    X(cublasLtMatmulDescCreate)                                                                                        \
    X(cublasLtMatmulDescDestroy)                                                                                       \
    X(cublasLtMatmulDescSetAttribute)                                                                                  \
    X(cublasLtMatmulPreferenceCreate)                                                                                  \
    X(cublasLtMatmulPreferenceDestroy)                                                                                 \
    X(cublasLtMatmulPreferenceSetAttribute)                                                                            \
    X(cublasLtMatrixLayoutCreate)                                                                                      \
    X(cublasLtMatrixLayoutDestroy)

typedef struct ki_cublas {
#define KI_CUBLAS_MEMBER(function) __typeof__(function) *function;
    KI_CUBLAS_FUNCTIONS(KI_CUBLAS_MEMBER)
    KI_CUBLAS_LT_FUNCTIONS(KI_CUBLAS_MEMBER)
#undef KI_CUBLAS_MEMBER
    int has_lt; /* all of cublasLt's are there */
} ki_cublas;

/* The process's table, made by the first call that succeeds; NULL with one sentence in reason. library: the file that
 * the setting cublas_library names (KITH_CUBLAS_LIBRARY); NULL or "": the usual places are searched, that of the CUDA
 * runtime's major version first (runtime: 13000, 0: not known). Any thread. */
const ki_cublas *ki_cublas_open(const char *library, int runtime, char *reason, size_t reason_nbytes);

#endif
