/* layers/compute/cuda/gemm.c - products by cuBLAS.
 *
 * cuBLAS has columns side by side where Kith has rows, so it is asked for c^T = op(b)^T op(a)^T, which is the same
 * memory. Sums are formed in A: f32 for f16 and bf16, in which cuBLAS may be told to round parts of sums to the type
 * of the result; it is told not to. f32 is f32 unless the table was opened for TF32.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "launch.h"
#include <assert.h>
#include <limits.h>

static cudaDataType_t data_type(kith_dtype dtype)
{
    switch (dtype) {
    case KITH_F64:
        return CUDA_R_64F;
    case KITH_F32:
        return CUDA_R_32F;
    case KITH_BF16:
        return CUDA_R_16BF;
    default:
        return CUDA_R_16F;
    }
}

static bool has_product(kith_dtype in, kith_dtype out)
{
    return ki_storage_of(in) >= 0 && (out == in || out == ki_accumulator_of(in));
}

static bool fits(ki_mat m)
{
    return m.rows <= INT_MAX && m.cols <= INT_MAX && m.stride <= INT_MAX;
}

static cublasOperation_t operation(ki_transpose of)
{
    return of == KI_AS_IS ? CUBLAS_OP_N : CUBLAS_OP_T;
}

kith_status ki_told_by_cublas(const ki_device_compute *self, cublasStatus_t status)
{
    if (status == CUBLAS_STATUS_SUCCESS)
        return KITH_OK;
    return ki_cuda_host->fail(status == CUBLAS_STATUS_ALLOC_FAILED ? KITH_ERR_NO_MEMORY : KITH_ERR_INTERNAL,
                              "cuda: a product: %s", self->cublas->cublasGetStatusString(status));
}

/* A row stride of 0 columns is none that cuBLAS takes. */
static int leading(ki_mat m)
{
    return m.stride > 0 ? (int)m.stride : 1;
}

static cublasStatus_t call_cublas(const ki_device_compute *self, ki_transpose of_a, ki_transpose of_b, double alpha,
                                  ki_mat a, ki_mat b, double beta, ki_mat c, ki_batch batch)
{
    const float alpha_f32 = (float)alpha, beta_f32 = (float)beta;
    const bool is_f64 = c.dtype == KITH_F64;
    const void *const scale_a = is_f64 ? (const void *)&alpha : &alpha_f32;
    const void *const scale_c = is_f64 ? (const void *)&beta : &beta_f32;
    const int m = (int)c.rows, n = (int)c.cols, k = (int)(of_a == KI_AS_IS ? a.cols : a.rows);
    const cublasComputeType_t compute = is_f64                                 ? CUBLAS_COMPUTE_64F
                                        : a.dtype == KITH_F32 && self->is_tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32
                                                                               : CUBLAS_COMPUTE_32F;
    if (batch.count == 1)
        return self->cublas->cublasGemmEx(self->handle, operation(of_b), operation(of_a), n, m, k, scale_a, b.data,
                                          data_type(b.dtype), leading(b), a.data, data_type(a.dtype), leading(a),
                                          scale_c, c.data, data_type(c.dtype), leading(c), compute,
                                          CUBLAS_GEMM_DEFAULT);
    return self->cublas->cublasGemmStridedBatchedEx(
        self->handle, operation(of_b), operation(of_a), n, m, k, scale_a, b.data, data_type(b.dtype), leading(b),
        batch.b_stride, a.data, data_type(a.dtype), leading(a), batch.a_stride, scale_c, c.data, data_type(c.dtype),
        leading(c), batch.c_stride, (int)batch.count, compute, CUBLAS_GEMM_DEFAULT);
}

kith_status ki_multiply(ki_device_compute *self, ki_transpose of_a, ki_transpose of_b, double alpha, ki_mat a, ki_mat b,
                        double beta, ki_mat c, ki_batch batch)
{
    if (a.dtype != b.dtype || !has_product(a.dtype, c.dtype))
        return ki_cuda_host->fail(KITH_ERR_UNSUPPORTED,
                                  "layers: a product of dtypes %d and %d into %d: the cuda device multiplies f32, f64, "
                                  "f16 and bf16 into themselves, and f16 and bf16 into f32",
                                  (int)a.dtype, (int)b.dtype, (int)c.dtype);
    if (!fits(a) || !fits(b) || !fits(c) || batch.count > INT_MAX)
        return ki_cuda_host->fail(
            KITH_ERR_UNSUPPORTED,
            "layers: a product of [%lld, %lld] and [%lld, %lld]: rows, columns and strides may be "
            "at most 2147483647",
            (long long)a.rows, (long long)a.cols, (long long)b.rows, (long long)b.cols);
    if (c.rows == 0 || c.cols == 0 || batch.count == 0)
        return KITH_OK;
    const ki_cuda_call call = ki_cuda_begin(self->ordinal);
    if (call.cuda == NULL)
        return call.status;
    const cublasStatus_t status = call_cublas(self, of_a, of_b, alpha, a, b, beta, c, batch);
    (void)ki_cuda_end(&call, cudaSuccess, "a product");
    return ki_told_by_cublas(self, status);
}

kith_status ki_cuda_gemm(ki_compute *self, ki_transpose of_a, ki_transpose of_b, double alpha, ki_mat a, ki_mat b,
                         double beta, ki_mat c)
{
    const int64_t k = of_a == KI_AS_IS ? a.cols : a.rows;
    assert((of_a == KI_AS_IS ? a.rows : a.cols) == c.rows);
    assert((of_b == KI_AS_IS ? b.rows : b.cols) == k && (of_b == KI_AS_IS ? b.cols : b.rows) == c.cols);
    if (k == 0 && c.rows > 0 && c.cols > 0 && has_product(a.dtype, c.dtype))
        return beta == 0 ? self->ops->fill(self, c, 0) : self->ops->scale(self, beta, c);
    return ki_multiply(ki_device_of(self), of_a, of_b, alpha, a, b, beta, c, (ki_batch){ 1, 0, 0, 0 });
}
