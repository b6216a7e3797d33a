/* core/device/group.c - what groups have to do with devices: the last section of kith/device.h.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "group.h"

#include "../base/error.h"
#include "../progress.h"
#include "../request.h"
#include "../trace.h"
#include "stage.h"

static kith_status check_stream(const kith_group *group, const kith_stream *stream, const char *function)
{
    kith_status status = ki_stream_check(stream, function);
    if (status != KITH_OK)
        return status;
    const kith_device *device = group->ctx->device;
    if (device == NULL)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG,
                             "%s: the context of group '%s' was made without a device (kith_init_options.device, "
                             "KITH_DEVICE)",
                             function, group->name);
    if (stream->device->ordinal != device->ordinal)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "%s: the stream is of device %d, the context of group '%s' has %d",
                             function, stream->device->ordinal, group->name, device->ordinal);
    return KITH_OK;
}

kith_status kith_group_set_stream(kith_group *group, kith_stream *stream)
{
    KI_CHECK_GROUP(group, "kith_group_set_stream");
    kith_status status = stream != NULL ? check_stream(group, stream, "kith_group_set_stream") : KITH_OK;
    if (status == KITH_OK && group->device != NULL)
        group->device->stream = stream;
    return status;
}

kith_status kith_request_stream_wait(kith_request **request, kith_stream *stream)
{
    kith_status status = ki_request_check_handle(request, "kith_request_stream_wait");
    if (status != KITH_OK || *request == NULL)
        return status;
    kith_request *r = *request;
    if (r->way == KI_WAY_HOST || r->way == KI_WAY_WAITING)
        return kith_wait(request);
    status = check_stream(r->group, stream, "kith_request_stream_wait");
    if (status == KITH_OK && r->is_detached)
        status = ki_fail_quiet(KITH_ERR_INVALID_ARG, "kith_request_stream_wait: the request is ordered already");
    if (status != KITH_OK)
        return status;
    if (!r->is_persistent)
        *request = NULL;
    return ki_device_order(r, stream->native, NULL);
}

/* One that is on the device, or on its way there or back. */
static const kith_request *find_running(const kith_group *group)
{
    for (const kith_request *r = group->queue_head; r != NULL; r = r->next)
        if (r->way != KI_WAY_HOST)
            return r;
    for (const kith_request *r = group->messages; r != NULL; r = r->next)
        if (r->way != KI_WAY_HOST)
            return r;
    return NULL;
}

static kith_status time_out(kith_group *group, const kith_request *late)
{
    char text[160];
    ki_request_describe(late, text, sizeof text);
    kith_status status = ki_report_timeout(group, text, NULL, group->timeout_ms, true);
    ki_trace_dump_on_timeout(group->ctx);
    ki_group_fail(group, status, "%s", kith_error_detail());
    if (late->way == KI_WAY_DEVICE)
        ki_group_tell_failure(group);
    ki_group_end_requests(group);
    return ki_group_refuse(group, "kith_group_synchronize");
}

kith_status kith_group_synchronize(kith_group *group)
{
    KI_CHECK_GROUP(group, "kith_group_synchronize");
    kith_status status = ki_group_refuse(group, "kith_group_synchronize");
    if (status != KITH_OK || group->device == NULL)
        return status;
    ki_waiter waiter;
    ki_waiter_init(&waiter, group->ctx, group->timeout_ms);
    for (;;) {
        const kith_request *late = find_running(group);
        if (late == NULL)
            break;
        ki_ctx_step(group->ctx);
        status = ki_group_refuse(group, "kith_group_synchronize");
        if (status != KITH_OK)
            return status;
        late = find_running(group);
        if (late != NULL && ki_waiter_pause(&waiter) != KITH_OK)
            return time_out(group, late);
    }
    status = ki_stage_settle(group->ctx);
    if (status != KITH_OK) {
        ki_group_fail(group, status, "copies of device memory failed: %s", kith_error_detail());
        ki_group_tell_failure(group);
    }
    return ki_group_refuse(group, "kith_group_synchronize");
}

const char *kith_group_device_backend(const kith_group *group)
{
    if (!ki_group_is_valid(group) || group->device == NULL)
        return NULL;
    if (group->device->bg != NULL)
        return group->device->backend->name;
    return group->device->is_direct ? group->backend->name : "staged";
}

const char *kith_group_device_summary(const kith_group *group)
{
    return ki_group_is_valid(group) && group->device != NULL ? group->device->how : NULL;
}
