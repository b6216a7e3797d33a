/* layers/compute/cuda/lt.c - products with a bias added before they are rounded, by cublasLt.
 *
 * cuBLAS's library stands on cublasLt's, whose functions are found through it, and takes its own handle there. As in
 * gemm.c it is asked for c^T; the bias then lies along the rows of what it computes. Which algorithm is asked once for
 * each shape, type, layout and alignment, since that takes longer than a launch. Where there is none, or no cublasLt,
 * the product and the sum are two calls.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "launch.h"
#include <assert.h>
#include <limits.h>
#include <string.h>

static const uint64_t most_workspace_nbytes = (uint64_t)32 << 20; /* as much as NVIDIA names for Hopper */

/* What a call is made of; released by drop(). */
typedef struct call {
    cublasLtMatmulDesc_t how;
    cublasLtMatrixLayout_t first, second, result;
    cublasLtMatmulPreference_t wish;
} call;

static cudaDataType_t data_type(kith_dtype dtype)
{
    return dtype == KITH_F32 ? CUDA_R_32F : dtype == KITH_BF16 ? CUDA_R_16BF : CUDA_R_16F;
}

static bool fits(ki_mat m)
{
    return m.rows > 0 && m.cols > 0 && m.rows <= INT_MAX && m.cols <= INT_MAX && m.stride <= INT_MAX;
}

/* The power of two, at most 256, that divides an address. */
static uint32_t alignment_of(const void *ptr)
{
    uint32_t alignment = 256;
    while ((uintptr_t)ptr % alignment != 0)
        alignment /= 2;
    return alignment;
}

static void drop(const ki_cublas *blas, call *c)
{
    if (c->how != NULL)
        (void)blas->cublasLtMatmulDescDestroy(c->how);
    if (c->first != NULL)
        (void)blas->cublasLtMatrixLayoutDestroy(c->first);
    if (c->second != NULL)
        (void)blas->cublasLtMatrixLayoutDestroy(c->second);
    if (c->result != NULL)
        (void)blas->cublasLtMatrixLayoutDestroy(c->result);
    if (c->wish != NULL)
        (void)blas->cublasLtMatmulPreferenceDestroy(c->wish);
}

static bool set(const ki_cublas *blas, const call *c, cublasLtMatmulDescAttributes_t attribute, const void *value,
                size_t nbytes)
{
    return blas->cublasLtMatmulDescSetAttribute(c->how, attribute, value, nbytes) == CUBLAS_STATUS_SUCCESS;
}

/* Rows of a matrix of Kith are columns of cublasLt's. */
static bool lay_out(const ki_cublas *blas, ki_mat m, cublasLtMatrixLayout_t *layout)
{
    return blas->cublasLtMatrixLayoutCreate(layout, data_type(m.dtype), (uint64_t)m.cols, (uint64_t)m.rows, m.stride) ==
           CUBLAS_STATUS_SUCCESS;
}

static bool describe(const ki_device_compute *self, ki_transpose of_a, ki_transpose of_b, ki_mat a, ki_mat b,
                     ki_mat bias, ki_mat c, call *made)
{
    const ki_cublas *blas = self->cublas;
    const int32_t of_first = of_b == KI_AS_IS ? CUBLAS_OP_N : CUBLAS_OP_T;
    const int32_t of_second = of_a == KI_AS_IS ? CUBLAS_OP_N : CUBLAS_OP_T;
    const uint32_t epilogue = CUBLASLT_EPILOGUE_BIAS;
    const cublasComputeType_t compute =
        a.dtype == KITH_F32 && self->is_tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    return blas->cublasLtMatmulDescCreate(&made->how, compute, CUDA_R_32F) == CUBLAS_STATUS_SUCCESS &&
           set(blas, made, CUBLASLT_MATMUL_DESC_TRANSA, &of_first, sizeof of_first) &&
           set(blas, made, CUBLASLT_MATMUL_DESC_TRANSB, &of_second, sizeof of_second) &&
           set(blas, made, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue) &&
           set(blas, made, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias.data, sizeof bias.data) &&
           lay_out(blas, b, &made->first) && lay_out(blas, a, &made->second) && lay_out(blas, c, &made->result);
}

static bool wish_for(const ki_cublas *blas, call *c, cublasLtMatmulPreferenceAttributes_t attribute, const void *value,
                     size_t nbytes)
{
    return blas->cublasLtMatmulPreferenceSetAttribute(c->wish, attribute, value, nbytes) == CUBLAS_STATUS_SUCCESS;
}

/* Asks for an algorithm; has_algorithm says whether there is one. */
static void choose(const ki_device_compute *self, call *c, ki_lt_plan *plan)
{
    const ki_cublas *blas = self->cublas;
    cublasLtMatmulHeuristicResult_t found;
    int count = 0;
    const uint32_t *alignments = plan->shape.alignments;
    memset(&found, 0, sizeof found);
    const bool is_asked =
        blas->cublasLtMatmulPreferenceCreate(&c->wish) == CUBLAS_STATUS_SUCCESS &&
        wish_for(blas, c, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &most_workspace_nbytes,
                 sizeof most_workspace_nbytes) &&
        wish_for(blas, c, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, &alignments[1], sizeof(uint32_t)) &&
        wish_for(blas, c, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, &alignments[0], sizeof(uint32_t)) &&
        wish_for(blas, c, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, &alignments[3], sizeof(uint32_t)) &&
        wish_for(blas, c, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, &alignments[3], sizeof(uint32_t)) &&
        blas->cublasLtMatmulAlgoGetHeuristic((cublasLtHandle_t)self->handle, c->how, c->first, c->second, c->result,
                                             c->result, c->wish, 1, &found, &count) == CUBLAS_STATUS_SUCCESS;
    plan->has_algorithm = is_asked && count > 0 && found.state == CUBLAS_STATUS_SUCCESS;
    plan->algorithm = found.algo;
    plan->workspace_nbytes = found.workspaceSize;
    plan->is_known = true;
}

/* The plan of this shape; one that is not known takes the place of the oldest. */
static ki_lt_plan *plan_of(ki_device_compute *self, const ki_lt_shape *shape)
{
    ki_lt_plans *const plans = &self->plans;
    for (int i = 0; i < KI_LT_PLANS; i++)
        if (plans->all[i].is_known && memcmp(&plans->all[i].shape, shape, sizeof *shape) == 0)
            return &plans->all[i];
    ki_lt_plan *const plan = &plans->all[plans->next];
    plans->next = (plans->next + 1) % KI_LT_PLANS;
    *plan = (ki_lt_plan){ .shape = *shape };
    return plan;
}

static ki_lt_shape shape_of(ki_transpose of_a, ki_transpose of_b, ki_mat a, ki_mat b, ki_mat bias, ki_mat c)
{
    ki_lt_shape shape = { .none = 0 };
    const int64_t sizes[] = { c.rows, c.cols, of_a == KI_AS_IS ? a.cols : a.rows, a.stride, b.stride, c.stride };
    const void *const where[] = { a.data, b.data, bias.data, c.data };
    memcpy(shape.sizes, sizes, sizeof sizes);
    for (int i = 0; i < 4; i++)
        shape.alignments[i] = alignment_of(where[i]);
    shape.kind = (uint32_t)a.dtype << 2 | (uint32_t)(of_a == KI_TRANSPOSED) << 1 | (uint32_t)(of_b == KI_TRANSPOSED);
    return shape;
}

/* KITH_OK with *is_done false where cublasLt has no way. */
static kith_status fused(ki_device_compute *self, ki_transpose of_a, ki_transpose of_b, ki_mat a, ki_mat b, ki_mat bias,
                         ki_mat c, bool *is_done)
{
    const ki_lt_shape shape = shape_of(of_a, of_b, a, b, bias, c);
    ki_lt_plan *const plan = plan_of(self, &shape);
    const float one = 1, zero = 0;
    void *workspace = NULL;
    call made = { 0 };
    if (plan->is_known && !plan->has_algorithm)
        return KITH_OK;
    const ki_cuda_call at = ki_cuda_begin(self->ordinal);
    if (at.cuda == NULL)
        return at.status;
    kith_status status = KITH_OK;
    cublasStatus_t result = CUBLAS_STATUS_SUCCESS;
    if (describe(self, of_a, of_b, a, b, bias, c, &made)) {
        if (!plan->is_known)
            choose(self, &made, plan);
        if (plan->has_algorithm && plan->workspace_nbytes > 0)
            status = ki_device_scratch(self, plan->workspace_nbytes, &workspace);
        if (plan->has_algorithm && status == KITH_OK) {
            result = self->cublas->cublasLtMatmul((cublasLtHandle_t)self->handle, made.how, &one, b.data, made.first,
                                                  a.data, made.second, &zero, c.data, made.result, c.data, made.result,
                                                  &plan->algorithm, workspace, plan->workspace_nbytes, self->stream);
            *is_done = true;
        }
    }
    drop(self->cublas, &made);
    (void)ki_cuda_end(&at, cudaSuccess, "a product with a bias");
    return status != KITH_OK ? status : ki_told_by_cublas(self, result);
}

kith_status ki_cuda_gemm_bias(ki_compute *base, ki_transpose of_a, ki_transpose of_b, ki_mat a, ki_mat b, ki_mat bias,
                              ki_mat c)
{
    ki_device_compute *const self = ki_device_of(base);
    bool is_done = false;
    assert(bias.rows == 1 && bias.cols == c.cols);
    const bool is_one_type = a.dtype == b.dtype && a.dtype == c.dtype && a.dtype == bias.dtype;
    if (self->cublas->has_lt && is_one_type && a.dtype != KITH_F64 && ki_storage_of(a.dtype) >= 0 && fits(a) &&
        fits(b) && fits(c)) {
        const kith_status status = fused(self, of_a, of_b, a, b, bias, c, &is_done);
        if (status != KITH_OK || is_done)
            return status;
    }
    const kith_status status = ki_cuda_gemm(base, of_a, of_b, 1, a, b, 0, c);
    return status == KITH_OK ? base->ops->bias_add(base, bias, c) : status;
}
