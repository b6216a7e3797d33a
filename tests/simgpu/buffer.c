/* tests/simgpu/buffer.c - the runtime's functions that allocate and free.
 *
 * cudaFree() waits for the whole device, as the real one does, but tells the host nothing: what was not waited for is
 * not ordered by it.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "engine.h"
#include <stdlib.h>
#include <string.h>

static cudaError_t allocate(void **ptr, sim_kind kind, size_t nbytes, const char *fault, const void *made_by)
{
    if (ptr == NULL)
        return cudaErrorInvalidValue;
    *ptr = NULL;
    if (nbytes == 0)
        return cudaSuccess;
    if (sim_fault(fault))
        return cudaErrorMemoryAllocation;
    *ptr = sim_memory_new(kind, sim_current_device(), nbytes, NULL, made_by);
    return *ptr == NULL ? cudaErrorMemoryAllocation : cudaSuccess;
}

SIM_API cudaError_t cudaMalloc(void **ptr, size_t nbytes)
{
    SIM_ENTER(cudaMalloc);
    return sim_leave(allocate(ptr, SIM_DEVICE, nbytes, "malloc", SIM_CALLER));
}

SIM_API cudaError_t cudaHostAlloc(void **ptr, size_t nbytes, unsigned flags)
{
    SIM_ENTER(cudaHostAlloc);
    if ((flags & ~(unsigned)(cudaHostAllocPortable | cudaHostAllocMapped | cudaHostAllocWriteCombined)) != 0)
        return sim_leave(cudaErrorInvalidValue);
    return sim_leave(allocate(ptr, SIM_PINNED, nbytes, "host_alloc", SIM_CALLER));
}

SIM_API cudaError_t cudaMallocHost(void **ptr, size_t nbytes)
{
    SIM_ENTER(cudaMallocHost);
    return sim_leave(allocate(ptr, SIM_PINNED, nbytes, "host_alloc", SIM_CALLER));
}

static cudaError_t release(sim_kind kind, void *ptr, const char *api)
{
    sim_place place = { .pool = NULL };
    if (ptr == NULL)
        return cudaSuccess;
    if (!sim_memory_leave(kind, ptr, api))
        return cudaErrorInvalidValue;
    if (sim_place_find(ptr, &place))
        for (int device = 0; device < sim_device_count(); device++)
            if (kind == SIM_PINNED || device == place.device)
                sim_device_wait(device, false);
    if (place.pool != NULL) /* cudaFree() takes such memory too */
        sim_pool_give(place.pool, place.nbytes);
    sim_memory_gone(ptr);
    return cudaSuccess;
}

SIM_API cudaError_t cudaFree(void *ptr)
{
    SIM_ENTER(cudaFree);
    return sim_leave(release(SIM_DEVICE, ptr, "cudaFree"));
}

SIM_API cudaError_t cudaFreeHost(void *ptr)
{
    SIM_ENTER(cudaFreeHost);
    return sim_leave(release(SIM_PINNED, ptr, "cudaFreeHost"));
}

/* ---- in the order of a stream ---- */

typedef struct piece {
    void *ptr;
    size_t nbytes;
    sim_pool *pool;
} piece;

/* Whoever uses the memory must come after this. */
static void hand_out(void *arg)
{
    const piece *p = arg;
    if (sim_memory_of(p->ptr, NULL, NULL, NULL) != 0)
        sim_access(p->ptr, p->nbytes, SIM_WRITE);
}

/* All that used it must be before this. */
static void take_back(void *arg)
{
    const piece *p = arg;
    sim_access(p->ptr, p->nbytes, SIM_WRITE);
    sim_memory_gone(p->ptr);
    if (p->pool != NULL)
        sim_pool_give(p->pool, p->nbytes);
}

static void put(sim_stream *stream, const char *what, void (*run)(void *arg), piece value)
{
    piece *p = malloc(sizeof *p);
    if (p == NULL)
        abort();
    *p = value;
    sim_stream_put(stream, sim_op_new(what, run, p), NULL);
}

cudaError_t sim_malloc_async(void **ptr, size_t nbytes, sim_pool *pool, cudaStream_t into, const char *api,
                             const void *made_by)
{
    sim_stream *stream = sim_stream_of(into, api);
    if (stream == NULL)
        return cudaErrorInvalidResourceHandle;
    if (ptr == NULL || !sim_settings_get()->has_pools)
        return ptr == NULL ? cudaErrorInvalidValue : cudaErrorNotSupported;
    *ptr = NULL;
    if (nbytes == 0)
        return cudaSuccess;
    if (pool == NULL)
        pool = sim_pool_default(stream->device);
    if (sim_pool_device(pool) != stream->device) {
        sim_fail("%s: memory of a pool of device %d in a stream of device %d", api, sim_pool_device(pool),
                 stream->device);
        return cudaErrorInvalidValue;
    }
    if (sim_fault("malloc") || !sim_pool_take(pool, nbytes))
        return cudaErrorMemoryAllocation;
    *ptr = sim_memory_new(SIM_DEVICE, stream->device, nbytes, pool, made_by);
    if (*ptr == NULL) {
        sim_pool_give(pool, nbytes);
        return cudaErrorMemoryAllocation;
    }
    put(stream, api, hand_out, (piece){ *ptr, nbytes, pool });
    return cudaSuccess;
}

SIM_API cudaError_t cudaMallocAsync(void **ptr, size_t nbytes, cudaStream_t into)
{
    SIM_ENTER(cudaMallocAsync);
    return sim_leave(sim_malloc_async(ptr, nbytes, NULL, into, "cudaMallocAsync", SIM_CALLER));
}

SIM_API cudaError_t cudaFreeAsync(void *ptr, cudaStream_t into)
{
    SIM_ENTER(cudaFreeAsync);
    sim_place place;
    sim_stream *stream = sim_stream_of(into, "cudaFreeAsync");
    if (stream == NULL)
        return sim_leave(cudaErrorInvalidResourceHandle);
    if (ptr == NULL)
        return sim_leave(cudaSuccess);
    if (!sim_memory_leave(SIM_DEVICE, ptr, "cudaFreeAsync") || !sim_place_find(ptr, &place))
        return sim_leave(cudaErrorInvalidValue);
    put(stream, "cudaFreeAsync", take_back, (piece){ ptr, place.nbytes, place.pool });
    return sim_leave(cudaSuccess);
}

/* ---- what a pointer is ---- */

SIM_API cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *attributes, const void *ptr)
{
    SIM_ENTER(cudaPointerGetAttributes);
    sim_place place;
    if (attributes == NULL)
        return sim_leave(cudaErrorInvalidValue);
    memset(attributes, 0, sizeof *attributes);
    attributes->device = cudaInvalidDeviceId;
    attributes->type = cudaMemoryTypeUnregistered;
    attributes->hostPointer = (void *)(uintptr_t)ptr;
    if (!sim_place_find(ptr, &place))
        return sim_leave(cudaSuccess);
    attributes->device = place.device;
    attributes->type = place.kind == SIM_PINNED ? cudaMemoryTypeHost : cudaMemoryTypeDevice;
    attributes->devicePointer = (void *)(uintptr_t)ptr;
    if (place.kind == SIM_DEVICE)
        attributes->hostPointer = NULL;
    return sim_leave(cudaSuccess);
}
