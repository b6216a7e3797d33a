/* core/device/post.c - operations that a device's backend runs, and the order of streams; see group.h.
 *
 * An operation goes to the backend when it is posted: one ordered queue for each communicator, and nothing of the host
 * stands before it. In check mode the ranks compare fingerprints first, which blocks.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "../base/error.h"
#include "../check.h"
#include "../dispatch.h"
#include "../progress.h"
#include "../request.h"
#include "group.h"
#include "stage.h"
#include <stdio.h>
#include <string.h>

#define LOOK_AT_LEAST 32
#define DRAIN_BROKEN_MS 2000

/* ---- streams ---- */

kith_status ki_device_stream(const kith_group *group, void **native, bool *has_stream)
{
    const kith_stream *stream = group->device->stream;
    *native = NULL;
    *has_stream = stream != NULL;
    if (stream == NULL)
        return KITH_OK;
    if (stream->handle.magic != KI_STREAM_MAGIC)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG,
                             "the stream of group '%s' was destroyed; kith_group_set_stream() "
                             "takes another, or NULL",
                             group->name);
    *native = stream->native;
    return KITH_OK;
}

kith_status ki_device_mark_ready(kith_request *request)
{
    kith_group *group = request->group;
    const kith_device *device = group->ctx->device;
    request->ready = NULL;
    kith_status status = ki_device_stream(group, &request->stream, &request->has_stream);
    bool is_local = request->kind == KI_REQUEST_COLL && group->size == 1;
    if (status != KITH_OK || !request->has_stream || request->way != KI_WAY_STAGED || is_local)
        return status; /* a lone rank's copy goes into the stream itself */
    status = ki_stage_take_event(group->ctx, &request->ready);
    return status == KITH_OK ? device->ops->event_record(device->ordinal, request->ready, request->stream) : status;
}

kith_status ki_device_is_ready(kith_request *request, bool *is_ready)
{
    const kith_device *device = request->group->ctx->device;
    int done = 1;
    kith_status status =
        request->ready != NULL ? device->ops->event_query(device->ordinal, request->ready, &done) : KITH_OK;
    *is_ready = done != 0;
    if (status == KITH_OK && done)
        ki_device_forget_ready(request);
    return status;
}

void ki_device_forget_ready(kith_request *request)
{
    if (request->ready != NULL)
        ki_stage_give_event(request->group->ctx, request->ready);
    request->ready = NULL;
}

/* ---- posting ---- */

/* Blocks: the others' fingerprints must be here before the operation is. */
static kith_status compare(kith_request *request)
{
    kith_group *group = request->group;
    ki_waiter waiter;
    ki_waiter_init(&waiter, group->ctx, group->timeout_ms);
    bool is_done = false;
    request->state = KI_STATE_CHECKING;
    ki_dispatch_fill(request);
    kith_status status = ki_check_start(request);
    while (status == KITH_OK && !is_done) {
        status = ki_check_step(request, &is_done);
        if (status != KITH_OK || is_done)
            break;
        ki_ctx_step(group->ctx);
        status = ki_group_refuse(group, kith_coll_name(request->coll.kind));
        if (status == KITH_OK && ki_waiter_pause(&waiter) != KITH_OK) {
            char text[160];
            ki_request_describe(request, text, sizeof text);
            status = ki_report_timeout(group, text, NULL, group->timeout_ms, true);
        }
    }
    if (status != KITH_OK)
        ki_check_cancel(request);
    ki_check_release(request);
    return status;
}

/* Those that are done are released, now and then: looking costs a question to CUDA for each. */
static void look_at_detached(kith_group *group)
{
    struct ki_group_device *device = group->device;
    if (device->detached < device->look_at)
        return;
    for (kith_request *r = group->messages, *next; r != NULL; r = next) {
        next = r->next;
        if (r->is_detached)
            ki_message_step(r);
    }
    device->look_at = 2 * device->detached > LOOK_AT_LEAST ? 2 * device->detached : LOOK_AT_LEAST;
}

void ki_device_post(kith_request *request)
{
    kith_group *group = request->group;
    struct ki_group_device *device = group->device;
    kith_status status = KITH_OK;
    look_at_detached(group);
    if (request->kind == KI_REQUEST_COLL && group->is_check && group->size > 1)
        status = compare(request);
    if (status == KITH_OK) {
        request->state = KI_STATE_RUNNING;
        memset(&request->slot, 0, sizeof request->slot);
    }
    if (status == KITH_OK && request->kind == KI_REQUEST_COLL) {
        request->coll.is_device = 1;
        request->coll.has_stream = request->has_stream;
        request->coll.stream = request->stream;
        status = device->backend->coll_start(device->bg, &request->coll, &request->slot);
    } else if (status == KITH_OK) {
        request->msg.is_device = 1;
        request->msg.has_stream = request->has_stream;
        request->msg.stream = request->stream;
        status = request->kind == KI_REQUEST_SEND
                     ? device->backend->send_start(device->bg, &request->msg, &request->slot)
                     : device->backend->recv_start(device->bg, &request->msg, &request->slot);
    }
    request->status = status;
}

kith_status ki_device_step(kith_request *request, bool *is_done)
{
    struct ki_group_device *device = request->group->device;
    int done = 0;
    size_t nbytes = 0;
    kith_status status = request->kind == KI_REQUEST_COLL
                             ? device->backend->coll_test(device->bg, &request->slot, &done)
                             : device->backend->msg_test(device->bg, &request->slot, &done, &nbytes);
    request->received = nbytes;
    *is_done = done != 0;
    return status;
}

void ki_device_cancel(kith_request *request)
{
    struct ki_group_device *device = request->group->device;
    if (request->kind == KI_REQUEST_COLL)
        device->backend->coll_cancel(device->bg, &request->slot);
    else
        device->backend->msg_cancel(device->bg, &request->slot);
}

kith_status ki_device_batch_begin(kith_group *group)
{
    struct ki_group_device *device = group->device;
    bool has = device != NULL && device->bg != NULL && device->backend->batch_begin != NULL;
    return has ? device->backend->batch_begin(device->bg) : KITH_OK;
}

kith_status ki_device_batch_end(kith_group *group)
{
    struct ki_group_device *device = group->device;
    bool has = device != NULL && device->bg != NULL && device->backend->batch_end != NULL;
    return has ? device->backend->batch_end(device->bg) : KITH_OK;
}

/* ---- order ---- */

static void detach(kith_request *request)
{
    request->is_detached = true;
    request->group->device->detached++;
}

static kith_status order_on_device(kith_request *request, void *stream, size_t *received)
{
    kith_group *group = request->group;
    struct ki_group_device *device = group->device;
    int64_t limit = group->timeout_ms;
    ki_waiter waiter;
    ki_waiter_init(&waiter, group->ctx, limit);
    if (device->backend->stream_wait == NULL)
        return ki_request_wait(request, KITH_TIMEOUT_DEFAULT, received);
    while (request->state != KI_STATE_DONE) {
        kith_status status = ki_group_refuse(group, "operation");
        if (status == KITH_OK)
            status = device->backend->stream_wait(device->bg, &request->slot, stream);
        if (status == KITH_OK) {
            if (received != NULL)
                *received = request->kind == KI_REQUEST_RECV ? request->msg.nbytes : 0;
            detach(request);
            return KITH_OK;
        }
        if (status != KITH_ERR_BUSY) {
            ki_request_fail(request, status);
            break;
        }
        ki_ctx_step(group->ctx);
        if (request->state != KI_STATE_DONE && ki_waiter_pause(&waiter) != KITH_OK)
            return ki_request_time_out(request, limit, true);
    }
    return ki_request_collect(request);
}

kith_status ki_device_order(kith_request *request, void *stream, size_t *received)
{
    if (request->way == KI_WAY_DEVICE)
        return order_on_device(request, stream, received);
    request->has_order = request->way == KI_WAY_STAGED;
    request->order_stream = stream;
    return ki_request_wait(request, KITH_TIMEOUT_DEFAULT, received);
}

kith_status ki_device_finish(kith_request *request, size_t *received)
{
    if (request->has_stream)
        return ki_device_order(request, request->stream, received);
    return ki_request_wait(request, KITH_TIMEOUT_DEFAULT, received);
}

/* ---- end ---- */

/* Where the world has failed, members may have left with operations that they never posted. */
static int64_t drain_limit(const kith_group *group)
{
    const kith_ctx *ctx = group->ctx;
    int64_t limit = group->timeout_ms > 0 ? group->timeout_ms : ctx->connect_timeout_ms;
    return ctx->world->status != KITH_OK && limit > DRAIN_BROKEN_MS ? DRAIN_BROKEN_MS : limit;
}

void ki_device_drain(kith_group *group)
{
    struct ki_group_device *device = group->device;
    ki_waiter waiter;
    if (device == NULL || device->detached == 0)
        return;
    int64_t limit = drain_limit(group);
    ki_waiter_init(&waiter, group->ctx, limit);
    while (device->detached > 0 && group->status == KITH_OK) {
        ki_ctx_step(group->ctx);
        if (device->detached == 0 || ki_waiter_pause(&waiter) == KITH_OK)
            continue;
        ki_group_fail(group, KITH_ERR_TIMEOUT, "group '%s': %d operations did not leave the device within %lld ms",
                      group->name, device->detached, (long long)limit);
        ki_group_tell_failure(group);
    }
}
