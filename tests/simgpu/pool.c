/* tests/simgpu/pool.c - pools of device memory: what is used, held and kept; memory itself is that of memory.c.
 *
 * An allocation has an address of its own each time, so that what uses memory after its free, or beside it, is found:
 * it touches what was freed, or races with the free, which writes all of it. What a pool holds is counted alone.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "engine.h"
#include <stdlib.h>
#include <string.h>

static const char kind[] = "a memory pool";

struct sim_pool {
    struct sim_pool *next;
    int device;
    uint64_t most, keep, used, held, high, high_held;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static sim_pool *pools; /* for ever: allocations point to theirs */
static sim_pool defaults[SIM_MAX_DEVICES];

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

sim_pool *sim_pool_default(int device)
{
    return &defaults[device];
}

bool sim_pool_take(sim_pool *pool, size_t nbytes)
{
    pthread_mutex_lock(&lock);
    const bool has_room = pool->most == 0 || nbytes <= pool->most - pool->used;
    if (has_room) {
        pool->used += nbytes;
        pool->held = larger(pool->held, pool->used);
        pool->high = larger(pool->high, pool->used);
        pool->high_held = larger(pool->high_held, pool->held);
    }
    pthread_mutex_unlock(&lock);
    return has_room;
}

void sim_pool_give(sim_pool *pool, size_t nbytes)
{
    pthread_mutex_lock(&lock);
    pool->used -= nbytes;
    pthread_mutex_unlock(&lock);
}

static void shrink(sim_pool *pool, uint64_t keep)
{
    const uint64_t least = larger(pool->used, keep);
    pool->held = pool->held < least ? pool->held : least;
}

void sim_pool_settle(int device)
{
    pthread_mutex_lock(&lock);
    shrink(&defaults[device], defaults[device].keep);
    for (sim_pool *pool = pools; pool != NULL; pool = pool->next)
        if (pool->device == device)
            shrink(pool, pool->keep);
    pthread_mutex_unlock(&lock);
}

SIM_API cudaError_t cudaMemPoolCreate(cudaMemPool_t *handle, const struct cudaMemPoolProps *how)
{
    SIM_ENTER(cudaMemPoolCreate);
    if (handle == NULL || how == NULL || how->allocType != cudaMemAllocationTypePinned ||
        how->location.type != cudaMemLocationTypeDevice || how->location.id < 0 ||
        how->location.id >= sim_device_count() || how->handleTypes != cudaMemHandleTypeNone)
        return sim_leave(cudaErrorInvalidValue);
    if (!sim_settings_get()->has_pools || sim_fault("pool"))
        return sim_leave(cudaErrorNotSupported);
    sim_pool *pool = calloc(1, sizeof *pool);
    if (pool == NULL)
        abort();
    pool->device = how->location.id;
    pool->most = how->maxSize;
    pthread_mutex_lock(&lock);
    pool->next = pools;
    pools = pool;
    pthread_mutex_unlock(&lock);
    sim_handle_add(kind, pool);
    *handle = (cudaMemPool_t)pool;
    return sim_leave(cudaSuccess);
}

/* What is allocated stays until it is freed. */
SIM_API cudaError_t cudaMemPoolDestroy(cudaMemPool_t handle)
{
    SIM_ENTER(cudaMemPoolDestroy);
    return sim_leave(sim_handle_remove(kind, handle) ? cudaErrorInvalidValue : cudaSuccess);
}

static sim_pool *pool_of(cudaMemPool_t handle, const char *api)
{
    if (sim_handle_known(kind, handle))
        return (sim_pool *)handle;
    sim_fail("%s: %p is no memory pool: it was destroyed or never made", api, (void *)handle);
    return NULL;
}

SIM_API cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t handle, enum cudaMemPoolAttr attribute, void *value)
{
    SIM_ENTER(cudaMemPoolSetAttribute);
    sim_pool *pool = pool_of(handle, "cudaMemPoolSetAttribute");
    if (pool == NULL || value == NULL || attribute != cudaMemPoolAttrReleaseThreshold)
        return sim_leave(cudaErrorInvalidValue);
    memcpy(&pool->keep, value, sizeof pool->keep);
    return sim_leave(cudaSuccess);
}

SIM_API cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t handle, enum cudaMemPoolAttr attribute, void *value)
{
    SIM_ENTER(cudaMemPoolGetAttribute);
    sim_pool *pool = pool_of(handle, "cudaMemPoolGetAttribute");
    if (pool == NULL || value == NULL)
        return sim_leave(cudaErrorInvalidValue);
    pthread_mutex_lock(&lock);
    const uint64_t *from = attribute == cudaMemPoolAttrUsedMemCurrent       ? &pool->used
                           : attribute == cudaMemPoolAttrUsedMemHigh        ? &pool->high
                           : attribute == cudaMemPoolAttrReservedMemCurrent ? &pool->held
                           : attribute == cudaMemPoolAttrReservedMemHigh    ? &pool->high_held
                           : attribute == cudaMemPoolAttrReleaseThreshold   ? &pool->keep
                                                                            : NULL;
    if (from != NULL)
        memcpy(value, from, sizeof *from);
    pthread_mutex_unlock(&lock);
    return sim_leave(from != NULL ? cudaSuccess : cudaErrorInvalidValue);
}

SIM_API cudaError_t cudaMemPoolTrimTo(cudaMemPool_t handle, size_t keep)
{
    SIM_ENTER(cudaMemPoolTrimTo);
    sim_pool *pool = pool_of(handle, "cudaMemPoolTrimTo");
    if (pool == NULL)
        return sim_leave(cudaErrorInvalidValue);
    pthread_mutex_lock(&lock);
    shrink(pool, keep);
    pthread_mutex_unlock(&lock);
    return sim_leave(cudaSuccess);
}

SIM_API cudaError_t cudaMallocFromPoolAsync(void **ptr, size_t nbytes, cudaMemPool_t handle, cudaStream_t into)
{
    SIM_ENTER(cudaMallocFromPoolAsync);
    sim_pool *pool = pool_of(handle, "cudaMallocFromPoolAsync");
    return sim_leave(pool == NULL ? cudaErrorInvalidValue
                                  : sim_malloc_async(ptr, nbytes, pool, into, "cudaMallocFromPoolAsync", SIM_CALLER));
}

int sim_pool_device(const sim_pool *pool)
{
    return pool >= defaults && pool < defaults + SIM_MAX_DEVICES ? (int)(pool - defaults) : pool->device;
}
