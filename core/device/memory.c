/* core/device/memory.c - whose memory an operation is given, and so which way it goes.
 *
 * CUDA is asked about the first byte of each buffer that the operation uses on this rank. A rank that gives no memory
 * at all (its part is empty, its pointers are NULL) takes the way of device memory when the group has a stream.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "../base/error.h"
#include "../dispatch.h"
#include "group.h"
#include "hosts.h"

/* *is_device: memory of the context's device. */
static kith_status look(const kith_group *group, const void *ptr, const char *operation, bool *is_device)
{
    const kith_device *device = group->ctx->device;
    kith_memory memory = KITH_MEMORY_HOST;
    int ordinal = -1;
    kith_status status = kith_memory_kind(ptr, &memory, &ordinal);
    *is_device = memory == KITH_MEMORY_DEVICE || memory == KITH_MEMORY_MANAGED;
    if (status != KITH_OK || !*is_device)
        return status;
    if (device == NULL)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG,
                             "%s on group '%s': %p is memory of device %d, and the context was made without a device "
                             "(kith_init_options.device, KITH_DEVICE)",
                             operation, group->name, ptr, ordinal);
    if (memory == KITH_MEMORY_DEVICE && ordinal != device->ordinal)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG,
                             "%s on group '%s': %p is memory of device %d, the context's device is %d", operation,
                             group->name, ptr, ordinal, device->ordinal);
    return KITH_OK;
}

kith_status ki_device_touches(const kith_group *group, const void *a, const void *b, bool *is_device)
{
    bool has_a = false, has_b = false;
    kith_status status = a != NULL ? look(group, a, "operation", &has_a) : KITH_OK;
    if (status == KITH_OK && b != NULL && b != a)
        status = look(group, b, "operation", &has_b);
    *is_device = has_a || has_b || (a == NULL && b == NULL && group->device != NULL && group->device->stream != NULL);
    return status;
}

/* A stream that was destroyed is found before anything is posted. */
static kith_status check_stream(const kith_group *group)
{
    void *native;
    bool has_stream;
    return ki_device_stream(group, &native, &has_stream);
}

/* Of the buffers that are used; NULL: not used. */
static kith_status look_at_pair(const kith_group *group, const void *send, const void *recv, const char *operation,
                                bool *is_device)
{
    bool is_send_device = false, is_recv_device = false;
    kith_status status = send != NULL ? look(group, send, operation, &is_send_device) : KITH_OK;
    if (status == KITH_OK && recv != NULL)
        status = send == recv ? KITH_OK : look(group, recv, operation, &is_recv_device);
    if (status != KITH_OK)
        return status;
    if (send == recv)
        is_recv_device = is_send_device;
    if (send != NULL && recv != NULL && is_send_device != is_recv_device)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG,
                             "%s on group '%s': the send buffer is %s memory and the receive buffer is %s memory; both "
                             "must be of the same kind",
                             operation, group->name, is_send_device ? "device" : "host",
                             is_recv_device ? "device" : "host");
    *is_device = is_send_device || is_recv_device;
    return KITH_OK;
}

static bool takes_device(const kith_request *request)
{
    const kith_group *group = request->group;
    const struct ki_group_device *device = group->device;
    const ki_op *op = request->coll.reducer != NULL ? request->reducer.op : NULL;
    if (device->bg == NULL)
        return false;
    const ki_native *native = &device->native[request->coll.kind][ki_op_column(op)];
    uint32_t dtypes = group->is_exact ? native->exact_dtypes : native->dtypes;
    return (dtypes >> request->coll.dtype & 1) != 0;
}

kith_status ki_device_classify(kith_request *request)
{
    const kith_group *group = request->group;
    const kith_be_coll *coll = &request->coll;
    const ki_op *op = coll->reducer != NULL ? request->reducer.op : NULL;
    size_t send = 0, recv = 0;
    bool is_device = false;
    if (coll->kind == KITH_BARRIER || ki_coll_is_empty(coll))
        return KITH_OK;
    const ki_algo_args args = { .rank = group->rank, .size = group->size, .coll = coll };
    ki_coll_extents(&args, &send, &recv);
    kith_status status = look_at_pair(group, send > 0 ? coll->send : NULL, recv > 0 ? coll->recv : NULL,
                                      kith_coll_name(coll->kind), &is_device);
    if (status != KITH_OK)
        return status;
    if (send == 0 && recv == 0) { /* nothing here: what other memory was named, else the stream */
        const void *named = coll->send != NULL ? coll->send : coll->recv;
        status = named != NULL ? look(group, named, kith_coll_name(coll->kind), &is_device) : KITH_OK;
        if (named == NULL)
            is_device = group->device != NULL && group->device->stream != NULL;
    }
    if (status == KITH_OK && is_device)
        status = check_stream(group);
    if (status == KITH_OK && is_device)
        request->way = takes_device(request) && !ki_device_hosts_can(group, coll, op) ? KI_WAY_DEVICE : KI_WAY_STAGED;
    return status;
}

kith_status ki_device_classify_message(kith_request *request)
{
    const kith_group *group = request->group;
    bool is_device = false;
    const char *operation = request->kind == KI_REQUEST_SEND ? "send" : "receive";
    if (request->msg.buffer == NULL) {
        is_device = group->device != NULL && group->device->stream != NULL;
    } else {
        kith_status status = look(group, request->msg.buffer, operation, &is_device);
        if (status != KITH_OK)
            return status;
    }
    if (!is_device)
        return KITH_OK;
    request->way = group->device->bg != NULL ? KI_WAY_DEVICE : KI_WAY_STAGED;
    return check_stream(group);
}
