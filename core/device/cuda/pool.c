/* core/device/cuda/pool.c - pools of device memory: allocations and frees in the order of a stream.
 *
 * cudaFree() waits for the whole device, a collective that waits for another rank included; cudaFreeAsync() waits for
 * nothing. The pools that are made here belong to one device and to this process.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "cuda.h"
#include <string.h>

cudaError_t ki_cuda_has_pools(const ki_cuda *cuda, int ordinal, int *has_pools)
{
    *has_pools = 0;
    return cuda->cudaDeviceGetAttribute(has_pools, cudaDevAttrMemoryPoolsSupported, ordinal);
}

kith_status ki_cuda_pool_create(int ordinal, uint64_t keep_nbytes, uint64_t most_nbytes, void **pool)
{
    cudaMemPool_t made = NULL;
    int has_pools = 0;
    const ki_cuda_call call = ki_cuda_begin(ordinal);
    if (call.cuda == NULL)
        return call.status;
    cudaError_t error = ki_cuda_has_pools(call.cuda, ordinal, &has_pools);
    if (error == cudaSuccess && !has_pools) {
        (void)ki_cuda_end(&call, cudaSuccess, "pools");
        return ki_cuda_host->fail(KITH_ERR_UNSUPPORTED,
                                  "cuda: device %d, or its driver, has no memory pools (cudaMallocAsync)", ordinal);
    }
    struct cudaMemPoolProps how;
    memset(&how, 0, sizeof how);
    how.allocType = cudaMemAllocationTypePinned; /* as all memory of a device */
    how.location.type = cudaMemLocationTypeDevice;
    how.location.id = ordinal;
    how.maxSize = most_nbytes;
    if (error == cudaSuccess)
        error = call.cuda->cudaMemPoolCreate(&made, &how);
    if (error == cudaSuccess) {
        error = call.cuda->cudaMemPoolSetAttribute(made, cudaMemPoolAttrReleaseThreshold, &keep_nbytes);
        if (error != cudaSuccess)
            (void)call.cuda->cudaMemPoolDestroy(made);
    }
    const kith_status status = ki_cuda_end(&call, error, "making a memory pool");
    if (status == KITH_OK)
        *pool = made;
    return status;
}

kith_status ki_cuda_pool_destroy(int ordinal, void *pool)
{
    const ki_cuda_call call = ki_cuda_begin(ordinal);
    return call.cuda == NULL ? call.status
                             : ki_cuda_end(&call, call.cuda->cudaMemPoolDestroy((cudaMemPool_t)pool),
                                           "destroying a memory pool");
}

kith_status ki_cuda_pool_alloc(int ordinal, void *pool, void *stream, size_t nbytes, void **ptr)
{
    void *memory = NULL;
    const ki_cuda_call call = ki_cuda_begin(ordinal);
    if (call.cuda == NULL)
        return call.status;
    const cudaError_t error =
        call.cuda->cudaMallocFromPoolAsync(&memory, nbytes, (cudaMemPool_t)pool, (cudaStream_t)stream);
    if (error == cudaErrorMemoryAllocation)
        return ki_cuda_no_memory(&call, nbytes);
    const kith_status status = ki_cuda_end(&call, error, "allocating memory from a pool");
    if (status == KITH_OK)
        *ptr = memory;
    return status;
}

kith_status ki_cuda_pool_free(int ordinal, void *stream, void *ptr)
{
    const ki_cuda_call call = ki_cuda_begin(ordinal);
    return call.cuda == NULL
               ? call.status
               : ki_cuda_end(&call, call.cuda->cudaFreeAsync(ptr, (cudaStream_t)stream), "freeing memory of a pool");
}

kith_status ki_cuda_pool_trim(int ordinal, void *pool, uint64_t keep_nbytes)
{
    const ki_cuda_call call = ki_cuda_begin(ordinal);
    return call.cuda == NULL
               ? call.status
               : ki_cuda_end(&call, call.cuda->cudaMemPoolTrimTo((cudaMemPool_t)pool, (size_t)keep_nbytes),
                             "giving back memory of a pool");
}

static cudaError_t ask(const ki_cuda *cuda, cudaMemPool_t pool, kith_pool_info *info)
{
    cudaError_t error = cuda->cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &info->used_nbytes);
    if (error == cudaSuccess)
        error = cuda->cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemHigh, &info->most_used_nbytes);
    if (error == cudaSuccess)
        error = cuda->cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReservedMemCurrent, &info->held_nbytes);
    return error;
}

kith_status ki_cuda_pool_describe(int ordinal, void *pool, kith_pool_info *info)
{
    kith_pool_info all = KITH_POOL_INFO_INIT;
    const ki_cuda_call call = ki_cuda_begin(ordinal);
    if (call.cuda == NULL)
        return call.status;
    const kith_status status =
        ki_cuda_end(&call, ask(call.cuda, (cudaMemPool_t)pool, &all), "describing a memory pool");
    if (status == KITH_OK)
        *info = all;
    return status;
}
