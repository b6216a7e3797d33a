/* tests/simgpu/cublas/cublas.h - inside libsimcublas.so.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef SIMGPU_CUBLAS_H
#define SIMGPU_CUBLAS_H

#include "simgpu.h"
#include <cublas_v2.h>
#include <stdint.h>

/* The memory behind handles is never used again, so that a destroyed one is known as such. */
typedef struct sim_cublas {
    struct sim_cublas *next;
    int device;
    cudaStream_t stream;
    cublasMath_t math;
    cublasPointerMode_t pointer_mode;
    cublasAtomicsMode_t atomics;
    void *workspace;
    size_t workspace_nbytes;
} sim_cublas;

/* The handle's object when it is live and its device current, else NULL after sim_fail(). */
sim_cublas *sim_cublas_of(cublasHandle_t handle, const char *api);

/* blas.c: the functions of the CBLAS that libkith uses too (layers/compute/blas.c), so that bits are the same. */
typedef struct sim_blas {
    void (*sgemm)(int order, int of_a, int of_b, int m, int n, int k, float alpha, const float *a, int lda,
                  const float *b, int ldb, float beta, float *c, int ldc);
    void (*dgemm)(int order, int of_a, int of_b, int m, int n, int k, double alpha, const double *a, int lda,
                  const double *b, int ldb, double beta, double *c, int ldc);
} sim_blas;

/* NULL when there is none. */
const sim_blas *sim_blas_get(void);

/* product.c: one product, as it is put into a stream. Column-major; strides count elements. */
typedef struct sim_matrix {
    void *data;
    cudaDataType type;
    int64_t ld, stride;
    int is_transposed;
} sim_matrix;

typedef struct sim_product {
    int64_t m, n, k, batch;
    sim_matrix a, b, c;
    double alpha, beta;
    const void *alpha_at, *beta_at; /* on the device, or NULL */
    int is_f64, is_tf32;
    const void *bias; /* [m], of the type of c, added to each column of what is summed; or NULL */
    void *workspace;
    size_t workspace_nbytes;
} sim_product;

void sim_product_run(void *arg);

/* gemm.c: checks a product's arguments and puts it into the stream. The workspace is the product's. */
cublasStatus_t sim_cublas_put(cublasHandle_t handle, const char *api, sim_product p, cublasOperation_t of_a,
                              cublasOperation_t of_b, const void *alpha, const void *beta, cublasComputeType_t compute,
                              cudaStream_t stream);

#endif
