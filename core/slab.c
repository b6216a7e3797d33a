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
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static ki_handle *free_ctxs, *free_groups, *free_requests, *free_meshes;

_Static_assert(offsetof(kith_ctx, handle) == 0, "a handle comes first");
_Static_assert(offsetof(kith_group, handle) == 0, "a handle comes first");
_Static_assert(offsetof(kith_request, handle) == 0, "a handle comes first");
_Static_assert(offsetof(kith_mesh, handle) == 0, "a handle comes first");

static void *take(ki_handle **list, size_t nbytes)
{
    pthread_mutex_lock(&lock);
    ki_handle *handle = *list;
    if (handle != NULL)
        *list = handle->next_free;
    pthread_mutex_unlock(&lock);
    if (handle != NULL) {
        handle->next_free = NULL;
        return handle;
    }
    void *memory = aligned_alloc(64, (nbytes + 63) / 64 * 64);
    if (memory == NULL)
        ki_fail(KITH_ERR_NO_MEMORY, "no memory for a handle of %zu bytes", nbytes);
    else
        memset(memory, 0, nbytes);
    return memory;
}

/* The object is zero already, apart from what it keeps for its next life. */
static void give(ki_handle **list, ki_handle *handle)
{
    pthread_mutex_lock(&lock);
    handle->next_free = *list;
    *list = handle;
    pthread_mutex_unlock(&lock);
}

kith_ctx *ki_ctx_alloc(void)
{
    return (kith_ctx *)take(&free_ctxs, sizeof(kith_ctx));
}

void ki_ctx_release(kith_ctx *ctx)
{
    memset(ctx, 0, sizeof *ctx);
    give(&free_ctxs, &ctx->handle);
}

kith_group *ki_group_alloc(void)
{
    return (kith_group *)take(&free_groups, sizeof(kith_group));
}

void ki_group_release(kith_group *group)
{
    memset(group, 0, sizeof *group);
    give(&free_groups, &group->handle);
}

kith_mesh *ki_mesh_alloc(void)
{
    return (kith_mesh *)take(&free_meshes, sizeof(kith_mesh));
}

void ki_mesh_release(kith_mesh *mesh)
{
    memset(mesh, 0, sizeof *mesh);
    give(&free_meshes, &mesh->handle);
}

kith_request *ki_request_alloc(void)
{
    kith_request *request = (kith_request *)take(&free_requests, sizeof *request);
    if (request != NULL)
        request->handle.magic = KI_REQUEST_MAGIC;
    return request;
}

/* A request keeps the executor's memory and the arrays; the rest starts from zero. */
void ki_request_release(kith_request *request)
{
    ki_executor executor = request->executor;
    size_t *arrays = request->arrays, capacity = request->arrays_capacity;
    free(request->detail);
    memset(request, 0, sizeof *request);
    request->executor = executor;
    request->arrays = arrays;
    request->arrays_capacity = capacity;
    give(&free_requests, &request->handle);
}
