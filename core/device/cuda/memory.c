/* core/device/cuda/memory.c - memory of a device and pinned memory, what a pointer is, copies and fills.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "cuda.h"

kith_status ki_cuda_no_memory(const ki_cuda_call *call, size_t nbytes)
{
    size_t free_nbytes = 0, all_nbytes = 0;
    (void)call->cuda->cudaGetLastError();
    (void)call->cuda->cudaMemGetInfo(&free_nbytes, &all_nbytes);
    ki_cuda_leave(call->cuda, call->ordinal, call->before);
    return ki_cuda_host->fail(KITH_ERR_NO_MEMORY,
                              "cuda: no %zu bytes of memory on device %d: %zu of %zu bytes are free", nbytes,
                              call->ordinal, free_nbytes, all_nbytes);
}

kith_status ki_cuda_alloc(int ordinal, size_t nbytes, void **ptr)
{
    void *memory = NULL;
    const ki_cuda_call call = ki_cuda_begin(ordinal);
    if (call.cuda == NULL)
        return call.status;
    const cudaError_t error = call.cuda->cudaMalloc(&memory, nbytes);
    if (error == cudaErrorMemoryAllocation)
        return ki_cuda_no_memory(&call, nbytes);
    const kith_status status = ki_cuda_end(&call, error, "allocating memory of a device");
    if (status == KITH_OK)
        *ptr = memory;
    return status;
}

kith_status ki_cuda_free(int ordinal, void *ptr)
{
    const ki_cuda_call call = ki_cuda_begin(ordinal);
    return call.cuda == NULL ? call.status : ki_cuda_end(&call, call.cuda->cudaFree(ptr), "freeing memory of a device");
}

kith_status ki_cuda_alloc_pinned(int ordinal, size_t nbytes, void **ptr)
{
    void *memory = NULL;
    const ki_cuda_call call = ki_cuda_begin(ordinal);
    if (call.cuda == NULL)
        return call.status;
    const cudaError_t error = call.cuda->cudaHostAlloc(&memory, nbytes, cudaHostAllocPortable);
    const kith_status status = ki_cuda_end(&call, error, "allocating pinned memory");
    if (status == KITH_OK)
        *ptr = memory;
    return status;
}

kith_status ki_cuda_free_pinned(int ordinal, void *ptr)
{
    const ki_cuda_call call = ki_cuda_begin(ordinal);
    return call.cuda == NULL ? call.status : ki_cuda_end(&call, call.cuda->cudaFreeHost(ptr), "freeing pinned memory");
}

kith_status ki_cuda_kind(const void *ptr, kith_memory *memory, int *ordinal)
{
    kith_memory kind;
    int device;
    const ki_cuda *cuda = ki_cuda_get();
    if (cuda == NULL)
        return KITH_ERR_UNSUPPORTED;
    const cudaError_t error = ki_cuda_memory_kind(cuda, ptr, &kind, &device);
    if (error != cudaSuccess)
        return ki_cuda_fail(error, "asking what a pointer points to");
    *memory = kind;
    if (ordinal != NULL)
        *ordinal = device;
    return KITH_OK;
}

kith_status ki_cuda_copy(int ordinal, void *stream, void *to, const void *from, size_t nbytes)
{
    const ki_cuda_call call = ki_cuda_begin(ordinal);
    if (call.cuda == NULL)
        return call.status;
    const cudaError_t error =
        nbytes == 0 ? cudaSuccess
                    : call.cuda->cudaMemcpyAsync(to, from, nbytes, cudaMemcpyDefault, (cudaStream_t)stream);
    return ki_cuda_end(&call, error, "copying");
}

kith_status ki_cuda_fill(int ordinal, void *stream, void *ptr, int byte, size_t nbytes)
{
    const ki_cuda_call call = ki_cuda_begin(ordinal);
    if (call.cuda == NULL)
        return call.status;
    const cudaError_t error =
        nbytes == 0 ? cudaSuccess : call.cuda->cudaMemsetAsync(ptr, byte, nbytes, (cudaStream_t)stream);
    return ki_cuda_end(&call, error, "filling memory");
}
