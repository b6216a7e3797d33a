/* tests/simgpu/cublas/lt.c - cublasLtMatmul with a bias, and the descriptors that it takes.
 *
 * Columns side by side; no batches, no planes. An algorithm is good for the descriptors and the alignment that it was
 * asked for, and wants the workspace that it says; both are checked. Handles are those of cuBLAS.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "cublas.h"
#include <cublasLt.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { WORKSPACE_NBYTES = 1024 };

static const char desc_kind[] = "a description of a product", layout_kind[] = "a layout of a matrix",
                  wish_kind[] = "a preference of products";

typedef struct desc {
    cublasComputeType_t compute;
    int32_t of_a, of_b;
    uint32_t epilogue;
    const void *bias;
} desc;

typedef struct layout {
    cudaDataType type;
    uint64_t rows, cols;
    int64_t ld;
} layout;

typedef struct wish {
    uint64_t workspace_nbytes;
    uint32_t alignments[4]; /* a, b, c, d */
} wish;

/* What stands in a cublasLtMatmulAlgo_t. */
typedef struct algorithm {
    uint64_t mark;
    uint32_t alignments[3]; /* a, b, d */
    uint32_t kind;
    uint64_t sizes[3];
} algorithm;

_Static_assert(sizeof(algorithm) <= sizeof(cublasLtMatmulAlgo_t), "it has room");

static const uint64_t algorithm_mark = 0x73696d6c74616c67u;

static void *keep(const char *kind, const void *value, size_t nbytes)
{
    void *copy = malloc(nbytes);
    if (copy == NULL)
        abort();
    memcpy(copy, value, nbytes);
    sim_handle_add(kind, copy);
    return copy;
}

static cublasStatus_t forget(const char *kind, void *handle)
{
    if (sim_handle_remove(kind, handle))
        return CUBLAS_STATUS_INVALID_VALUE;
    free(handle);
    return CUBLAS_STATUS_SUCCESS;
}

static bool is_live(const char *kind, const void *handle, const char *api)
{
    const bool is_there = sim_handle_is_live(kind, handle) != 0;
    if (!is_there)
        sim_fail("%s: %p is not %s", api, handle, kind);
    return is_there;
}

SIM_API cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *made, cublasComputeType_t compute,
                                                cudaDataType_t scale)
{
    const desc d = { compute, CUBLAS_OP_N, CUBLAS_OP_N, CUBLASLT_EPILOGUE_DEFAULT, NULL };
    if (scale != CUDA_R_32F)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    *made = keep(desc_kind, &d, sizeof d);
    return CUBLAS_STATUS_SUCCESS;
}

SIM_API cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t handle)
{
    return forget(desc_kind, handle);
}

SIM_API cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t handle,
                                                      cublasLtMatmulDescAttributes_t attribute, const void *value,
                                                      size_t nbytes)
{
    if (!is_live(desc_kind, handle, "cublasLtMatmulDescSetAttribute"))
        return CUBLAS_STATUS_INVALID_VALUE;
    desc *d = (desc *)(void *)handle;
    void *to = attribute == CUBLASLT_MATMUL_DESC_TRANSA         ? (void *)&d->of_a
               : attribute == CUBLASLT_MATMUL_DESC_TRANSB       ? (void *)&d->of_b
               : attribute == CUBLASLT_MATMUL_DESC_EPILOGUE     ? (void *)&d->epilogue
               : attribute == CUBLASLT_MATMUL_DESC_BIAS_POINTER ? (void *)&d->bias
                                                                : NULL;
    if (to == NULL) {
        sim_fail("cublasLtMatmulDescSetAttribute: attribute %d is not simulated", (int)attribute);
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    if (nbytes != (attribute == CUBLASLT_MATMUL_DESC_BIAS_POINTER ? sizeof(void *) : sizeof(int32_t)))
        return CUBLAS_STATUS_INVALID_VALUE;
    memcpy(to, value, nbytes);
    return CUBLAS_STATUS_SUCCESS;
}

SIM_API cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *made, cudaDataType type, uint64_t rows,
                                                  uint64_t cols, int64_t ld)
{
    const layout l = { type, rows, cols, ld };
    *made = keep(layout_kind, &l, sizeof l);
    return CUBLAS_STATUS_SUCCESS;
}

SIM_API cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t handle)
{
    return forget(layout_kind, handle);
}

SIM_API cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *made)
{
    const wish w = { 0, { 256, 256, 256, 256 } };
    *made = keep(wish_kind, &w, sizeof w);
    return CUBLAS_STATUS_SUCCESS;
}

SIM_API cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t handle)
{
    return forget(wish_kind, handle);
}

SIM_API cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t handle,
                                                            cublasLtMatmulPreferenceAttributes_t attribute,
                                                            const void *value, size_t nbytes)
{
    if (!is_live(wish_kind, handle, "cublasLtMatmulPreferenceSetAttribute"))
        return CUBLAS_STATUS_INVALID_VALUE;
    wish *w = (wish *)(void *)handle;
    const int matrix = (int)attribute - (int)CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES;
    if (attribute == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES && nbytes == sizeof w->workspace_nbytes)
        memcpy(&w->workspace_nbytes, value, nbytes);
    else if (matrix >= 0 && matrix < 4 && nbytes == sizeof(uint32_t))
        memcpy(&w->alignments[matrix], value, nbytes);
    else
        return CUBLAS_STATUS_INVALID_VALUE;
    return CUBLAS_STATUS_SUCCESS;
}

/* ---- products ---- */

static bool are_live(cublasLtMatmulDesc_t how, cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                     cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d, const char *api)
{
    return is_live(desc_kind, how, api) && is_live(layout_kind, a, api) && is_live(layout_kind, b, api) &&
           is_live(layout_kind, c, api) && is_live(layout_kind, d, api);
}

/* m, n, k; false where shapes do not go together. */
static bool sizes_of(const desc *how, const layout *a, const layout *b, const layout *d, uint64_t sizes[3])
{
    const uint64_t k_of_b = how->of_b == CUBLAS_OP_N ? b->rows : b->cols;
    sizes[0] = how->of_a == CUBLAS_OP_N ? a->rows : a->cols;
    sizes[1] = how->of_b == CUBLAS_OP_N ? b->cols : b->rows;
    sizes[2] = how->of_a == CUBLAS_OP_N ? a->cols : a->rows;
    return sizes[0] == d->rows && sizes[1] == d->cols && sizes[2] == k_of_b;
}

static uint32_t kind_of(const desc *how, const layout *a)
{
    return (uint32_t)a->type << 8 | (uint32_t)how->of_a << 4 | (uint32_t)how->of_b;
}

SIM_API cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t how,
                                                      cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                                      cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                                      cublasLtMatmulPreference_t wanted, int most,
                                                      cublasLtMatmulHeuristicResult_t found[], int *count)
{
    static const char api[] = "cublasLtMatmulAlgoGetHeuristic";
    algorithm algo = { .mark = algorithm_mark };
    *count = 0;
    if (sim_cublas_of((cublasHandle_t)handle, api) == NULL)
        return CUBLAS_STATUS_NOT_INITIALIZED;
    if (most < 1 || !are_live(how, a, b, c, d, api) || !is_live(wish_kind, wanted, api) ||
        !sizes_of((const desc *)how, (const layout *)a, (const layout *)b, (const layout *)d, algo.sizes))
        return CUBLAS_STATUS_INVALID_VALUE;
    const wish *w = (const wish *)wanted;
    if (sim_fault("heuristic") || w->workspace_nbytes < WORKSPACE_NBYTES)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    memcpy(algo.alignments, (const uint32_t[]){ w->alignments[0], w->alignments[1], w->alignments[3] },
           sizeof algo.alignments);
    algo.kind = kind_of((const desc *)how, (const layout *)a);
    memset(found, 0, sizeof *found);
    memcpy(&found->algo, &algo, sizeof algo);
    found->workspaceSize = WORKSPACE_NBYTES;
    found->state = CUBLAS_STATUS_SUCCESS;
    *count = 1;
    return CUBLAS_STATUS_SUCCESS;
}

/* Is it the algorithm for this call? */
static bool is_for(const algorithm *algo, const desc *how, const layout *a, const uint64_t sizes[3],
                   const void *const where[3], size_t workspace_nbytes)
{
    bool fits = algo->mark == algorithm_mark && algo->kind == kind_of(how, a) &&
                memcmp(algo->sizes, sizes, sizeof algo->sizes) == 0 && workspace_nbytes >= WORKSPACE_NBYTES;
    for (int i = 0; i < 3; i++)
        fits = fits && (uintptr_t)where[i] % algo->alignments[i] == 0;
    return fits;
}

static sim_matrix matrix(const void *data, const layout *l)
{
    return (sim_matrix){ (void *)(uintptr_t)data, l->type, l->ld, 0, 0 };
}

SIM_API cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc_at, const void *alpha,
                                      const void *a, cublasLtMatrixLayout_t a_at, const void *b,
                                      cublasLtMatrixLayout_t b_at, const void *beta, const void *c,
                                      cublasLtMatrixLayout_t c_at, void *d, cublasLtMatrixLayout_t d_at,
                                      const cublasLtMatmulAlgo_t *chosen, void *workspace, size_t workspace_nbytes,
                                      cudaStream_t stream)
{
    static const char api[] = "cublasLtMatmul";
    uint64_t sizes[3];
    if (!are_live(desc_at, a_at, b_at, c_at, d_at, api))
        return CUBLAS_STATUS_INVALID_VALUE;
    const desc *how = (const desc *)desc_at;
    const layout *of_a = (const layout *)a_at, *of_d = (const layout *)d_at;
    if (chosen == NULL || !sizes_of(how, of_a, (const layout *)b_at, of_d, sizes))
        return CUBLAS_STATUS_INVALID_VALUE;
    if (!is_for((const algorithm *)(const void *)chosen, how, of_a, sizes, (const void *const[]){ a, b, d },
                workspace_nbytes)) {
        sim_fail("%s: the algorithm was asked for another product, alignment or workspace", api);
        return CUBLAS_STATUS_NOT_SUPPORTED;
    }
    if (how->epilogue != CUBLASLT_EPILOGUE_BIAS || how->bias == NULL || c != d) {
        sim_fail("%s: only products in place with a bias are simulated", api);
        return CUBLAS_STATUS_NOT_SUPPORTED;
    }
    sim_product p = { .m = (int64_t)sizes[0],
                      .n = (int64_t)sizes[1],
                      .k = (int64_t)sizes[2],
                      .batch = 1,
                      .a = matrix(a, of_a),
                      .b = matrix(b, (const layout *)b_at),
                      .c = matrix(d, of_d),
                      .bias = how->bias,
                      .workspace = workspace,
                      .workspace_nbytes = WORKSPACE_NBYTES };
    return sim_cublas_put((cublasHandle_t)handle, api, p, (cublasOperation_t)how->of_a, (cublasOperation_t)how->of_b,
                          alpha, beta, how->compute, stream);
}
