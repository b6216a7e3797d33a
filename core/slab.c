/* core/slab.c - type-stable memory for handles.
 *
 * Handles are recycled, never given back: a stale handle always points to readable memory of its own kind, whose
 * magic tells that it is not live. The slabs are process-wide and guarded by one mutex; they stay reachable, so leak
 * checkers are content.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "base/error.h"
#include "object.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static kith_ctx *free_ctxs;
static kith_group *free_groups;
static kith_request *free_requests;

static void *fresh(size_t nbytes)
{
    void *memory = aligned_alloc(64, (nbytes + 63) / 64 * 64);
    if (memory == NULL)
        ki_fail(KITH_ERR_NO_MEMORY, "no memory for a handle of %zu bytes", nbytes);
    else
        memset(memory, 0, nbytes);
    return memory;
}

kith_ctx *ki_ctx_alloc(void)
{
    pthread_mutex_lock(&lock);
    kith_ctx *ctx = free_ctxs;
    if (ctx != NULL)
        free_ctxs = ctx->next_free;
    pthread_mutex_unlock(&lock);
    if (ctx == NULL)
        return (kith_ctx *)fresh(sizeof *ctx);
    memset(ctx, 0, sizeof *ctx);
    return ctx;
}

void ki_ctx_release(kith_ctx *ctx)
{
    memset(ctx, 0, sizeof *ctx);
    pthread_mutex_lock(&lock);
    ctx->next_free = free_ctxs;
    free_ctxs = ctx;
    pthread_mutex_unlock(&lock);
}

kith_group *ki_group_alloc(void)
{
    pthread_mutex_lock(&lock);
    kith_group *group = free_groups;
    if (group != NULL)
        free_groups = group->next_free;
    pthread_mutex_unlock(&lock);
    if (group == NULL)
        return (kith_group *)fresh(sizeof *group);
    memset(group, 0, sizeof *group);
    return group;
}

void ki_group_release(kith_group *group)
{
    memset(group, 0, sizeof *group);
    pthread_mutex_lock(&lock);
    group->next_free = free_groups;
    free_groups = group;
    pthread_mutex_unlock(&lock);
}

/* A request keeps the executor's memory and the arrays; the rest starts from zero. */
kith_request *ki_request_alloc(void)
{
    pthread_mutex_lock(&lock);
    kith_request *request = free_requests;
    if (request != NULL)
        free_requests = request->next_free;
    pthread_mutex_unlock(&lock);
    if (request == NULL)
        request = (kith_request *)fresh(sizeof *request);
    if (request != NULL) {
        request->next_free = NULL;
        request->magic = KI_REQUEST_MAGIC;
    }
    return request;
}

void ki_request_release(kith_request *request)
{
    ki_executor executor = request->executor;
    size_t *arrays = request->arrays, capacity = request->arrays_capacity;
    free(request->detail);
    memset(request, 0, sizeof *request);
    request->executor = executor;
    request->arrays = arrays;
    request->arrays_capacity = capacity;
    pthread_mutex_lock(&lock);
    request->next_free = free_requests;
    free_requests = request;
    pthread_mutex_unlock(&lock);
}
