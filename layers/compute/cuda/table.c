/* layers/compute/cuda/table.c - the table of a device: opened for one stream, closed after its work.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "launch.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static ki_compute_ops ops;

/* Nothing that fails here can be told: what is freed is waited for, and a failure of that work was or will be told by
 * the stream. */
static void close_table(ki_compute *self)
{
    ki_device_compute *const device = ki_device_of(self);
    self->wait = NULL; /* who has layers has settled them; after a group's failure its way to wait would refuse */
    (void)ki_cuda_stream_synchronize(device->ordinal, device->stream);
    ki_drop_angles(device);
    if (device->scratch != NULL)
        (void)ki_give_memory(device, device->scratch);
    if (device->pool != NULL)
        (void)ki_cuda_pool_destroy(device->ordinal, device->pool);
    if (device->pinned != NULL)
        (void)ki_cuda_free_pinned(device->ordinal, device->pinned);
    if (device->handle != NULL) {
        const ki_cuda_call call = ki_cuda_begin(device->ordinal);
        if (call.cuda != NULL) {
            (void)device->cublas->cublasDestroy_v2(device->handle);
            (void)ki_cuda_end(&call, cudaSuccess, "closing");
        }
    }
    free(device);
}

static void fill_ops(void)
{
    ops.name = "cuda";
    ops.gemm = ki_cuda_gemm;
    ops.gemm_bias = ki_cuda_gemm_bias;
    ki_fill_elements(&ops);
    ki_fill_activations(&ops);
    ki_fill_norms(&ops);
    ki_fill_losses(&ops);
    ki_fill_rows(&ops);
    ki_fill_parameters(&ops);
    ki_fill_attention(&ops);
    ki_fill_rotary(&ops);
}

static cublasStatus_t open_handle(ki_device_compute *device)
{
    cublasStatus_t status = device->cublas->cublasCreate_v2(&device->handle);
    if (status != CUBLAS_STATUS_SUCCESS) {
        device->handle = NULL;
        return status;
    }
    status = device->cublas->cublasSetStream_v2(device->handle, device->stream);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = device->cublas->cublasSetMathMode(
            device->handle, (cublasMath_t)(CUBLAS_DEFAULT_MATH | CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION));
    return status;
}

/* The pool keeps nothing: what it holds is the scratch. */
static kith_status prepare(const ki_cuda_call *call, ki_device_compute *device)
{
    int has_pools;
    const kith_status status = ki_load_kernels(call->cuda, call->ordinal);
    if (status != KITH_OK)
        return status;
    const cudaError_t error = ki_cuda_has_pools(call->cuda, call->ordinal, &has_pools);
    if (error != cudaSuccess)
        return ki_cuda_fail(error, "asking for memory pools");
    return has_pools ? ki_cuda_pool_create(call->ordinal, 0, 0, &device->pool) : KITH_OK;
}

kith_status ki_cuda_compute_open(int ordinal, void *stream, int is_tf32, struct ki_compute **compute)
{
    char reason[512];
    const ki_cuda_call call = ki_cuda_begin(ordinal);
    if (call.cuda == NULL)
        return call.status;
    const ki_cublas *cublas =
        ki_cublas_open(ki_cuda_host->setting("cublas_library", ""), call.cuda->version, reason, sizeof reason);
    ki_device_compute *device = cublas != NULL ? (ki_device_compute *)calloc(1, sizeof *device) : NULL;
    cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
    kith_status loaded = KITH_OK;
    if (device != NULL) {
        device->base.ops = &ops;
        device->base.close = close_table;
        device->ordinal = ordinal;
        device->stream = (cudaStream_t)stream;
        device->cublas = cublas;
        device->is_tf32 = is_tf32 != 0;
        status = open_handle(device);
        if (status == CUBLAS_STATUS_SUCCESS)
            loaded = prepare(&call, device);
    }
    (void)ki_cuda_end(&call, cudaSuccess, "opening");
    if (cublas == NULL)
        return ki_cuda_host->fail(KITH_ERR_UNSUPPORTED, "cuda: %s", reason);
    if (device == NULL)
        return ki_cuda_host->fail(KITH_ERR_NO_MEMORY, "cuda: no %zu bytes for a table of functions", sizeof *device);
    pthread_once(&once, fill_ops);
    if (status != CUBLAS_STATUS_SUCCESS) {
        const char *words = cublas->cublasGetStatusString(status);
        close_table(&device->base);
        return ki_cuda_host->fail(status == CUBLAS_STATUS_ALLOC_FAILED ? KITH_ERR_NO_MEMORY : KITH_ERR_UNSUPPORTED,
                                  "cuda: cuBLAS on device %d: %s", ordinal, words);
    }
    if (loaded != KITH_OK) {
        close_table(&device->base);
        return loaded;
    }
    *compute = &device->base;
    return KITH_OK;
}
