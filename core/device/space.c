/* core/device/space.c - see space.h.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "space.h"

#include "core/base/error.h"
#include "core/base/mem.h"
#include "core/progress.h"
#include "device.h"
#include "group.h"
#include <stdlib.h>
#include <string.h>

#define ALIGNMENT 64

const ki_space ki_host_space = { 0 };

/* ---- opening ---- */

static kith_status check_stream(const char *function, const kith_device *device, const kith_stream *stream)
{
    kith_status status = ki_stream_check(stream, function);
    if (status == KITH_OK && stream->device->ordinal != device->ordinal)
        return ki_fail(KITH_ERR_INVALID_ARG, "%s: a stream of device %d, and device %d", function,
                       stream->device->ordinal, device->ordinal);
    return status;
}

/* It keeps nothing: what is kept for later is what its owner does not give back. */
static kith_status make_pool(kith_device *device, kith_pool **pool)
{
    kith_pool_options options = KITH_POOL_OPTIONS_INIT;
    options.keep_nbytes = 0;
    kith_status status = kith_pool_create(device, &options, pool);
    return status == KITH_ERR_UNSUPPORTED ? KITH_OK : status;
}

kith_status ki_space_open(const char *function, kith_device *device, kith_stream *stream, ki_space *space)
{
    *space = ki_host_space;
    if (device == NULL && stream == NULL)
        return KITH_OK;
    if (device == NULL)
        return ki_fail(KITH_ERR_INVALID_ARG, "%s: a stream without its device", function);
    kith_status status = ki_device_check(device, function);
    ki_space made = { .device = device, .stream = stream, .owns_stream = stream == NULL };
    if (status == KITH_OK)
        status = stream == NULL ? kith_stream_create(device, &made.stream) : check_stream(function, device, stream);
    if (status != KITH_OK)
        return status;
    status = make_pool(device, &made.pool);
    if (status != KITH_OK) {
        if (made.owns_stream)
            kith_stream_destroy(made.stream);
        return status;
    }
    ki_device_use(device);
    *space = made;
    return KITH_OK;
}

void ki_space_close(ki_space *space)
{
    if (!space->is_stuck) {
        kith_pool_destroy(space->pool);
        if (space->owns_stream)
            kith_stream_destroy(space->stream);
    }
    if (space->device != NULL)
        ki_device_unuse(space->device);
    *space = ki_host_space;
}

kith_status ki_space_open_compute(const ki_space *space, bool allows_tf32, struct ki_compute **compute)
{
    const kith_device *device = space->device;
    return device->ops->compute_open(device->ordinal, space->stream->native, allows_tf32, compute);
}

/* ---- memory ---- */

static void *alloc_on_host(size_t nbytes)
{
    size_t room;
    if (!ki_add(nbytes > 0 ? nbytes : 1, ALIGNMENT - 1, &room))
        return NULL;
    return aligned_alloc(ALIGNMENT, room / ALIGNMENT * ALIGNMENT);
}

void *ki_space_alloc(const ki_space *space, size_t nbytes)
{
    void *memory = NULL;
    if (ki_space_is_host(space))
        return alloc_on_host(nbytes);
    return kith_device_alloc(space->device, nbytes > 0 ? nbytes : 1, &memory) == KITH_OK ? memory : NULL;
}

void *ki_space_calloc(const ki_space *space, size_t count, size_t nbytes)
{
    size_t all;
    if (ki_space_is_host(space))
        return ki_calloc(NULL, count, nbytes);
    if (!ki_mul(count, nbytes, &all))
        return NULL;
    void *memory = ki_space_alloc(space, all);
    if (memory == NULL || ki_space_fill(space, memory, 0, all) == KITH_OK)
        return memory;
    ki_space_free(space, memory);
    return NULL;
}

void ki_space_free(const ki_space *space, void *memory)
{
    if (ki_space_is_host(space))
        free(memory);
    else if (!space->is_stuck)
        kith_device_free(space->device, memory);
}

void *ki_space_take(const ki_space *space, size_t nbytes)
{
    void *memory = NULL;
    if (space->pool == NULL)
        return ki_space_alloc(space, nbytes);
    return kith_pool_alloc(space->pool, space->stream, nbytes > 0 ? nbytes : 1, &memory) == KITH_OK ? memory : NULL;
}

kith_status ki_space_give(const ki_space *space, void *memory)
{
    if (memory == NULL || space->is_stuck)
        return KITH_OK;
    if (space->pool != NULL)
        return kith_pool_free(space->pool, space->stream, memory);
    kith_status status = ki_space_wait(space);
    if (status == KITH_OK)
        ki_space_free(space, memory);
    return status;
}

/* ---- contents ---- */

kith_status ki_space_copy(const ki_space *space, void *to, const void *from, size_t nbytes)
{
    if (nbytes == 0)
        return KITH_OK;
    if (!ki_space_is_host(space))
        return kith_stream_copy(space->stream, to, from, nbytes);
    memcpy(to, from, nbytes);
    return KITH_OK;
}

/* ---- waiting ---- */

static bool is_ordered_with(const ki_space *space, const kith_group *group)
{
    return group->size > 1 && group->device != NULL && group->device->stream == space->stream;
}

/* The longest that an operation of any group may take; 0: for ever. */
static int64_t limit_of(const ki_space *space)
{
    int64_t limit = 0;
    for (const kith_group *g = space->ctx->groups; g != NULL; g = g->next)
        if (is_ordered_with(space, g) && g->timeout_ms > limit)
            limit = g->timeout_ms;
    return limit;
}

/* The first failure of a group; is_late: also of one whose operations do not come to their end. */
static kith_status look_at_groups(const ki_space *space, bool is_late)
{
    for (kith_group *g = space->ctx->groups; g != NULL; g = g->next) {
        kith_status status = !is_ordered_with(space, g) ? KITH_OK : is_late ? kith_group_synchronize(g) : g->status;
        if (status != KITH_OK)
            return is_late ? status : ki_group_refuse(g, "work on a device");
    }
    return KITH_OK;
}

kith_status ki_space_wait(const ki_space *space)
{
    int is_done = 0;
    ki_waiter waiter;
    if (ki_space_is_host(space))
        return KITH_OK;
    if (space->ctx == NULL || space->ctx->size == 1)
        return kith_stream_synchronize(space->stream);
    kith_status status = kith_stream_query(space->stream, &is_done);
    ki_waiter_init(&waiter, space->ctx, limit_of(space));
    while (status == KITH_OK && !is_done) {
        ki_ctx_step(space->ctx);
        bool is_late = ki_waiter_pause(&waiter) != KITH_OK;
        status = look_at_groups(space, is_late);
        if (is_late)
            ki_waiter_init(&waiter, space->ctx, limit_of(space)); // what is left is computation
        if (status == KITH_OK)
            status = kith_stream_query(space->stream, &is_done);
    }
    return status == KITH_OK ? kith_stream_synchronize(space->stream) : status;
}

void ki_space_settle(ki_space *space)
{
    int is_done = 0;
    ki_waiter waiter;
    if (!ki_ctx_is_valid(space->ctx)) // memory may outlive its context, whose groups have ended then
        space->ctx = NULL;
    if (ki_space_is_host(space) || space->is_stuck || ki_space_wait(space) == KITH_OK || space->ctx == NULL)
        return;
    ki_waiter_init(&waiter, space->ctx, KI_DEVICE_GRACE_MS);
    while (kith_stream_query(space->stream, &is_done) == KITH_OK && !is_done && !space->is_stuck) {
        ki_ctx_step(space->ctx);
        space->is_stuck = ki_waiter_pause(&waiter) != KITH_OK;
    }
}

/* Pinned memory is read when the stream comes there; all other at once. */
static bool is_read_later(const void *memory)
{
    kith_memory kind = KITH_MEMORY_PINNED;
    return kith_memory_kind(memory, &kind, NULL) != KITH_OK || kind != KITH_MEMORY_HOST;
}

kith_status ki_space_copy_in(const ki_space *space, void *to, const void *from, size_t nbytes)
{
    kith_status status = ki_space_copy(space, to, from, nbytes);
    if (status == KITH_OK && nbytes > 0 && !ki_space_is_host(space) && is_read_later(from))
        status = ki_space_wait(space);
    return status;
}

kith_status ki_space_copy_out(const ki_space *space, void *to, const void *from, size_t nbytes)
{
    /* CUDA brings device memory to ordinary memory while the caller stands, without a deadline: so all before it
     * first. */
    kith_status status = ki_space_is_host(space) || nbytes == 0 ? KITH_OK : ki_space_wait(space);
    if (status == KITH_OK)
        status = ki_space_copy(space, to, from, nbytes);
    return status == KITH_OK && nbytes > 0 ? ki_space_wait(space) : status;
}

kith_status ki_space_fill(const ki_space *space, void *memory, int byte, size_t nbytes)
{
    if (nbytes == 0)
        return KITH_OK;
    if (!ki_space_is_host(space))
        return kith_stream_fill(space->stream, memory, byte, nbytes);
    memset(memory, byte, nbytes);
    return KITH_OK;
}

bool ki_space_has(const ki_space *space, const void *memory)
{
    kith_memory kind = KITH_MEMORY_HOST;
    if (ki_space_is_host(space) || memory == NULL)
        return true;
    return kith_memory_kind(memory, &kind, NULL) == KITH_OK &&
           (kind == KITH_MEMORY_DEVICE || kind == KITH_MEMORY_MANAGED);
}

/* ---- groups ---- */

kith_status ki_space_join(ki_space *space, kith_group *group)
{
    if (ki_space_is_host(space) || group == NULL)
        return KITH_OK;
    space->ctx = kith_group_ctx(group);
    return kith_group_set_stream(group, space->stream);
}

kith_status ki_space_end(const ki_space *space, kith_request **request)
{
    if (*request == NULL)
        return KITH_OK;
    return ki_space_is_host(space) ? kith_wait(request) : kith_request_stream_wait(request, space->stream);
}
