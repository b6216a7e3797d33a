/* core/slab.c - type-stable memory for handles.
 *
 * Handles are recycled, never given back: a stale handle always points to readable memory of its own kind, whose
 * magic tells that it is not live. Those that the caller destroys rest for a while before they are used again, so that
 * a second destroy does not meet a successor; requests, whose handles the library sets to NULL, do not. The slabs are
 * process-wide and guarded by one mutex; they stay reachable, so leak checkers are content.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "base/error.h"
#include "device/device.h"
#include "object.h"
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* Free handles, oldest first. */
typedef struct slab {
    ki_handle *first, *last;
    int count, rest; /* rest: so many stay unused */
} slab;
static slab ctxs = { NULL, NULL, 0, 16 }, groups = { NULL, NULL, 0, 64 }, meshes = { NULL, NULL, 0, 16 },
            requests = { NULL, NULL, 0, 0 }, devices = { NULL, NULL, 0, 16 }, streams = { NULL, NULL, 0, 64 },
            events = { NULL, NULL, 0, 64 }, pools = { NULL, NULL, 0, 16 };

uint64_t ki_process_mark;

_Static_assert(offsetof(kith_ctx, handle) == 0, "a handle comes first");
_Static_assert(offsetof(kith_group, handle) == 0, "a handle comes first");
_Static_assert(offsetof(kith_request, handle) == 0, "a handle comes first");
_Static_assert(offsetof(kith_mesh, handle) == 0, "a handle comes first");
_Static_assert(offsetof(kith_device, handle) == 0, "a handle comes first");
_Static_assert(offsetof(kith_stream, handle) == 0, "a handle comes first");
_Static_assert(offsetof(kith_event, handle) == 0, "a handle comes first");
_Static_assert(offsetof(kith_pool, handle) == 0, "a handle comes first");

/* In the child; other threads do not exist there. */
static void on_fork(void)
{
    ki_process_mark += UINT64_C(1) << 56;
}

static void watch_forks(void)
{
    pthread_atfork(NULL, NULL, on_fork);
}

static void *take(slab *from, size_t nbytes)
{
    pthread_once(&once, watch_forks);
    pthread_mutex_lock(&lock);
    ki_handle *handle = from->count > from->rest ? from->first : NULL;
    if (handle != NULL) {
        from->first = handle->next_free;
        from->count--;
    }
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

/* The object is zero already, apart from what it keeps for its next life. The newest request is used next: it is in
 * the cache. */
static void give(slab *to, ki_handle *handle)
{
    pthread_mutex_lock(&lock);
    bool is_next = to->rest == 0 && to->first != NULL;
    if (is_next) {
        handle->next_free = to->first;
        to->first = handle;
    } else {
        handle->next_free = NULL;
        if (to->count > 0)
            to->last->next_free = handle;
        else
            to->first = handle;
        to->last = handle;
    }
    to->count++;
    pthread_mutex_unlock(&lock);
}

kith_ctx *ki_ctx_alloc(void)
{
    return (kith_ctx *)take(&ctxs, sizeof(kith_ctx));
}

void ki_ctx_release(kith_ctx *ctx)
{
    memset(ctx, 0, sizeof *ctx);
    give(&ctxs, &ctx->handle);
}

kith_group *ki_group_alloc(void)
{
    return (kith_group *)take(&groups, sizeof(kith_group));
}

void ki_group_release(kith_group *group)
{
    memset(group, 0, sizeof *group);
    give(&groups, &group->handle);
}

kith_mesh *ki_mesh_alloc(void)
{
    return (kith_mesh *)take(&meshes, sizeof(kith_mesh));
}

void ki_mesh_release(kith_mesh *mesh)
{
    memset(mesh, 0, sizeof *mesh);
    give(&meshes, &mesh->handle);
}

kith_request *ki_request_alloc(void)
{
    kith_request *request = (kith_request *)take(&requests, sizeof *request);
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
    give(&requests, &request->handle);
}

kith_device *ki_device_handle_alloc(void)
{
    return (kith_device *)take(&devices, sizeof(kith_device));
}

void ki_device_handle_release(kith_device *device)
{
    memset(device, 0, sizeof *device);
    give(&devices, &device->handle);
}

kith_stream *ki_stream_handle_alloc(void)
{
    return (kith_stream *)take(&streams, sizeof(kith_stream));
}

void ki_stream_handle_release(kith_stream *stream)
{
    memset(stream, 0, sizeof *stream);
    give(&streams, &stream->handle);
}

kith_event *ki_event_handle_alloc(void)
{
    return (kith_event *)take(&events, sizeof(kith_event));
}

void ki_event_handle_release(kith_event *event)
{
    memset(event, 0, sizeof *event);
    give(&events, &event->handle);
}

kith_pool *ki_pool_handle_alloc(void)
{
    return (kith_pool *)take(&pools, sizeof(kith_pool));
}

void ki_pool_handle_release(kith_pool *pool)
{
    memset(pool, 0, sizeof *pool);
    give(&pools, &pool->handle);
}
