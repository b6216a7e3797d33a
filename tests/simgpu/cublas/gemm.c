/* tests/simgpu/cublas/gemm.c - cublasGemmEx and its relatives: arguments are checked as the real ones check them, then
 * the product goes into the handle's stream.
 *
 * Types: f32; f64; bf16 or f16 into the same or into f32, summed in f32. TF32 (by compute type or math mode) rounds f32
 * operands to 10 bits of mantissa.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "cublas.h"
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>

static bool is_op(cublasOperation_t op)
{
    return op == CUBLAS_OP_N || op == CUBLAS_OP_T || op == CUBLAS_OP_C;
}

static int64_t at_least_one(int64_t x)
{
    return x > 1 ? x : 1;
}

/* Every leading dimension covers a column. */
static bool dimensions_fit(const sim_product *p)
{
    return p->m >= 0 && p->n >= 0 && p->k >= 0 && p->batch >= 0 &&
           p->a.ld >= at_least_one(p->a.is_transposed ? p->k : p->m) &&
           p->b.ld >= at_least_one(p->b.is_transposed ? p->n : p->k) && p->c.ld >= at_least_one(p->m);
}

/* What the real one has of what is simulated. */
static bool types_fit(const sim_product *p, cublasComputeType_t compute)
{
    const cudaDataType in = p->a.type, out = p->c.type;
    if (p->b.type != in)
        return false;
    if (compute == CUBLAS_COMPUTE_64F || compute == CUBLAS_COMPUTE_64F_PEDANTIC)
        return in == CUDA_R_64F && out == CUDA_R_64F;
    if (compute == CUBLAS_COMPUTE_32F_FAST_TF32)
        return in == CUDA_R_32F && out == CUDA_R_32F;
    if (compute != CUBLAS_COMPUTE_32F && compute != CUBLAS_COMPUTE_32F_PEDANTIC)
        return false;
    if (in == CUDA_R_32F)
        return out == CUDA_R_32F;
    return (in == CUDA_R_16BF || in == CUDA_R_16F) && (out == in || out == CUDA_R_32F);
}

static double scalar(const void *at, bool is_f64)
{
    return is_f64 ? *(const double *)at : (double)*(const float *)at;
}

cublasStatus_t sim_cublas_put(cublasHandle_t handle, const char *api, sim_product p, cublasOperation_t of_a,
                              cublasOperation_t of_b, const void *alpha, const void *beta, cublasComputeType_t compute,
                              cudaStream_t stream)
{
    const sim_cublas *self = sim_cublas_of(handle, api);
    if (self == NULL)
        return CUBLAS_STATUS_NOT_INITIALIZED;
    if (!is_op(of_a) || !is_op(of_b) || alpha == NULL || beta == NULL)
        return CUBLAS_STATUS_INVALID_VALUE;
    p.a.is_transposed = of_a != CUBLAS_OP_N;
    p.b.is_transposed = of_b != CUBLAS_OP_N;
    if (!dimensions_fit(&p))
        return CUBLAS_STATUS_INVALID_VALUE;
    if (!types_fit(&p, compute))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    if (p.m > INT_MAX || p.n > INT_MAX || p.k > INT_MAX || p.a.ld > INT_MAX || p.b.ld > INT_MAX || p.c.ld > INT_MAX) {
        sim_fail("%s: sizes above 2147483647 are not simulated", api);
        return CUBLAS_STATUS_NOT_SUPPORTED;
    }
    if (p.m == 0 || p.n == 0 || p.batch == 0)
        return CUBLAS_STATUS_SUCCESS;
    if (sim_fault("gemm"))
        return CUBLAS_STATUS_EXECUTION_FAILED;
    p.is_f64 = p.c.type == CUDA_R_64F;
    p.is_tf32 = compute == CUBLAS_COMPUTE_32F_FAST_TF32 ||
                (self->math == CUBLAS_TF32_TENSOR_OP_MATH && compute == CUBLAS_COMPUTE_32F && p.a.type == CUDA_R_32F);
    if (self->pointer_mode == CUBLAS_POINTER_MODE_DEVICE) {
        p.alpha_at = alpha;
        p.beta_at = beta;
    } else {
        p.alpha = scalar(alpha, p.is_f64);
        p.beta = scalar(beta, p.is_f64);
    }
    sim_product *job = malloc(sizeof *job);
    if (job == NULL)
        return CUBLAS_STATUS_ALLOC_FAILED;
    *job = p;
    return sim_stream_submit(stream, "gemm", sim_product_run, job) == 0 ? CUBLAS_STATUS_SUCCESS
                                                                        : CUBLAS_STATUS_EXECUTION_FAILED;
}

/* In the handle's stream, with the handle's workspace. */
static cublasStatus_t put(cublasHandle_t handle, const char *api, sim_product p, cublasOperation_t of_a,
                          cublasOperation_t of_b, const void *alpha, const void *beta, cublasComputeType_t compute)
{
    const sim_cublas *self = sim_cublas_of(handle, api);
    if (self == NULL)
        return CUBLAS_STATUS_NOT_INITIALIZED;
    p.workspace = self->workspace;
    p.workspace_nbytes = self->workspace_nbytes;
    return sim_cublas_put(handle, api, p, of_a, of_b, alpha, beta, compute, self->stream);
}

static sim_matrix matrix(const void *data, cudaDataType type, int64_t ld, int64_t stride)
{
    return (sim_matrix){ (void *)(uintptr_t)data, type, ld, stride, 0 };
}

SIM_API cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t of_a, cublasOperation_t of_b, int m, int n,
                                    int k, const void *alpha, const void *a, cudaDataType a_type, int lda,
                                    const void *b, cudaDataType b_type, int ldb, const void *beta, void *c,
                                    cudaDataType c_type, int ldc, cublasComputeType_t compute,
                                    cublasGemmAlgo_t algorithm)
{
    const sim_product p = { .m = m,
                            .n = n,
                            .k = k,
                            .batch = 1,
                            .a = matrix(a, a_type, lda, 0),
                            .b = matrix(b, b_type, ldb, 0),
                            .c = matrix(c, c_type, ldc, 0) };
    (void)algorithm;
    return put(handle, "cublasGemmEx", p, of_a, of_b, alpha, beta, compute);
}

SIM_API cublasStatus_t cublasGemmEx_64(cublasHandle_t handle, cublasOperation_t of_a, cublasOperation_t of_b, int64_t m,
                                       int64_t n, int64_t k, const void *alpha, const void *a, cudaDataType a_type,
                                       int64_t lda, const void *b, cudaDataType b_type, int64_t ldb, const void *beta,
                                       void *c, cudaDataType c_type, int64_t ldc, cublasComputeType_t compute,
                                       cublasGemmAlgo_t algorithm)
{
    const sim_product p = { .m = m,
                            .n = n,
                            .k = k,
                            .batch = 1,
                            .a = matrix(a, a_type, lda, 0),
                            .b = matrix(b, b_type, ldb, 0),
                            .c = matrix(c, c_type, ldc, 0) };
    (void)algorithm;
    return put(handle, "cublasGemmEx_64", p, of_a, of_b, alpha, beta, compute);
}

SIM_API cublasStatus_t cublasGemmStridedBatchedEx(cublasHandle_t handle, cublasOperation_t of_a, cublasOperation_t of_b,
                                                  int m, int n, int k, const void *alpha, const void *a,
                                                  cudaDataType a_type, int lda, long long a_stride, const void *b,
                                                  cudaDataType b_type, int ldb, long long b_stride, const void *beta,
                                                  void *c, cudaDataType c_type, int ldc, long long c_stride, int batch,
                                                  cublasComputeType_t compute, cublasGemmAlgo_t algorithm)
{
    const sim_product p = { .m = m,
                            .n = n,
                            .k = k,
                            .batch = batch,
                            .a = matrix(a, a_type, lda, a_stride),
                            .b = matrix(b, b_type, ldb, b_stride),
                            .c = matrix(c, c_type, ldc, c_stride) };
    (void)algorithm;
    return put(handle, "cublasGemmStridedBatchedEx", p, of_a, of_b, alpha, beta, compute);
}

SIM_API cublasStatus_t cublasGemmStridedBatchedEx_64(
    cublasHandle_t handle, cublasOperation_t of_a, cublasOperation_t of_b, int64_t m, int64_t n, int64_t k,
    const void *alpha, const void *a, cudaDataType a_type, int64_t lda, long long a_stride, const void *b,
    cudaDataType b_type, int64_t ldb, long long b_stride, const void *beta, void *c, cudaDataType c_type, int64_t ldc,
    long long c_stride, int64_t batch, cublasComputeType_t compute, cublasGemmAlgo_t algorithm)
{
    const sim_product p = { .m = m,
                            .n = n,
                            .k = k,
                            .batch = batch,
                            .a = matrix(a, a_type, lda, a_stride),
                            .b = matrix(b, b_type, ldb, b_stride),
                            .c = matrix(c, c_type, ldc, c_stride) };
    (void)algorithm;
    return put(handle, "cublasGemmStridedBatchedEx_64", p, of_a, of_b, alpha, beta, compute);
}
