/* core/device/stream.c - streams and events: the second half of kith/device.h, except for what groups have to do with
 * them.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "../base/error.h"
#include "device.h"

kith_status ki_stream_check(const kith_stream *stream, const char *function)
{
    if (stream == NULL || stream->handle.magic != KI_STREAM_MAGIC)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "%s: the stream is NULL, destroyed, or not a stream", function);
    return KITH_OK;
}

static kith_status check_event(const kith_event *event, const char *function)
{
    if (event == NULL || event->handle.magic != KI_EVENT_MAGIC)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "%s: the event is NULL, destroyed, or not an event", function);
    return KITH_OK;
}

static kith_status refuse_null(const char *function)
{
    return ki_fail_quiet(KITH_ERR_INVALID_ARG, "%s: the pointer for the result is NULL", function);
}

/* ---- streams ---- */

static kith_status make_stream(kith_device *device, void *native, bool is_wrapped, kith_stream **stream)
{
    kith_stream *made = ki_stream_handle_alloc();
    if (made == NULL)
        return KITH_ERR_NO_MEMORY;
    kith_status status = is_wrapped ? KITH_OK : device->ops->stream_create(device->ordinal, &native);
    if (status != KITH_OK) {
        ki_stream_handle_release(made);
        return status;
    }
    made->device = device;
    made->native = native;
    made->is_wrapped = is_wrapped;
    made->handle.magic = KI_STREAM_MAGIC;
    device->stream_count++;
    *stream = made;
    return KITH_OK;
}

kith_status kith_stream_create(kith_device *device, kith_stream **stream)
{
    kith_status status = ki_device_check(device, "kith_stream_create");
    if (status != KITH_OK)
        return status;
    return stream == NULL ? refuse_null("kith_stream_create") : make_stream(device, NULL, false, stream);
}

kith_status kith_stream_wrap(kith_device *device, void *native, kith_stream **stream)
{
    kith_status status = ki_device_check(device, "kith_stream_wrap");
    if (status != KITH_OK)
        return status;
    return stream == NULL ? refuse_null("kith_stream_wrap") : make_stream(device, native, true, stream);
}

void *kith_stream_native(const kith_stream *stream)
{
    return ki_stream_check(stream, "kith_stream_native") == KITH_OK ? stream->native : NULL;
}

kith_status kith_stream_destroy(kith_stream *stream)
{
    if (stream == NULL)
        return KITH_OK;
    kith_status status = ki_stream_check(stream, "kith_stream_destroy");
    if (status != KITH_OK)
        return status;
    kith_device *device = stream->device;
    if (!stream->is_wrapped) {
        status = device->ops->stream_synchronize(device->ordinal, stream->native);
        kith_status destroyed = device->ops->stream_destroy(device->ordinal, stream->native);
        status = status != KITH_OK ? status : destroyed;
    }
    ki_stream_handle_release(stream);
    device->stream_count--;
    ki_device_settle(device);
    return status;
}

kith_status kith_stream_synchronize(kith_stream *stream)
{
    kith_status status = ki_stream_check(stream, "kith_stream_synchronize");
    return status == KITH_OK ? stream->device->ops->stream_synchronize(stream->device->ordinal, stream->native)
                             : status;
}

kith_status kith_stream_query(kith_stream *stream, int *is_done)
{
    kith_status status = ki_stream_check(stream, "kith_stream_query");
    if (status != KITH_OK)
        return status;
    return is_done == NULL ? refuse_null("kith_stream_query")
                           : stream->device->ops->stream_query(stream->device->ordinal, stream->native, is_done);
}

kith_status kith_stream_copy(kith_stream *stream, void *to, const void *from, size_t nbytes)
{
    kith_status status = ki_stream_check(stream, "kith_stream_copy");
    if (status != KITH_OK || nbytes == 0)
        return status;
    if (to == NULL || from == NULL || nbytes > PTRDIFF_MAX)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "kith_stream_copy: a buffer is NULL, or %zu bytes are too many",
                             nbytes);
    return stream->device->ops->copy(stream->device->ordinal, stream->native, to, from, nbytes);
}

kith_status kith_stream_fill(kith_stream *stream, void *ptr, int byte, size_t nbytes)
{
    kith_status status = ki_stream_check(stream, "kith_stream_fill");
    if (status != KITH_OK || nbytes == 0)
        return status;
    if (ptr == NULL || nbytes > PTRDIFF_MAX)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "kith_stream_fill: ptr is NULL, or %zu bytes are too many", nbytes);
    return stream->device->ops->fill(stream->device->ordinal, stream->native, ptr, byte, nbytes);
}

/* ---- events ---- */

kith_status kith_event_create(kith_device *device, kith_event **event)
{
    kith_status status = ki_device_check(device, "kith_event_create");
    if (status != KITH_OK)
        return status;
    if (event == NULL)
        return refuse_null("kith_event_create");
    kith_event *made = ki_event_handle_alloc();
    if (made == NULL)
        return KITH_ERR_NO_MEMORY;
    status = device->ops->event_create(device->ordinal, &made->native);
    if (status != KITH_OK) {
        ki_event_handle_release(made);
        return status;
    }
    made->device = device;
    made->handle.magic = KI_EVENT_MAGIC;
    device->event_count++;
    *event = made;
    return KITH_OK;
}

kith_status kith_event_destroy(kith_event *event)
{
    if (event == NULL)
        return KITH_OK;
    kith_status status = check_event(event, "kith_event_destroy");
    if (status != KITH_OK)
        return status;
    kith_device *device = event->device;
    status = device->ops->event_destroy(device->ordinal, event->native);
    ki_event_handle_release(event);
    device->event_count--;
    ki_device_settle(device);
    return status;
}

/* Events order streams of one device here; a record on another device's stream is refused by CUDA too. */
static kith_status check_pair(const kith_event *event, const kith_stream *stream, const char *function)
{
    kith_status status = check_event(event, function);
    if (status == KITH_OK)
        status = ki_stream_check(stream, function);
    return status;
}

kith_status kith_event_record(kith_event *event, kith_stream *stream)
{
    kith_status status = check_pair(event, stream, "kith_event_record");
    if (status != KITH_OK)
        return status;
    if (event->device->ordinal != stream->device->ordinal)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG,
                             "kith_event_record: the event is of device %d, the stream of device %d",
                             event->device->ordinal, stream->device->ordinal);
    return event->device->ops->event_record(event->device->ordinal, event->native, stream->native);
}

kith_status kith_stream_wait_event(kith_stream *stream, kith_event *event)
{
    kith_status status = check_pair(event, stream, "kith_stream_wait_event");
    return status == KITH_OK
               ? stream->device->ops->stream_wait_event(stream->device->ordinal, stream->native, event->native)
               : status;
}

kith_status kith_event_query(kith_event *event, int *is_done)
{
    kith_status status = check_event(event, "kith_event_query");
    if (status != KITH_OK)
        return status;
    return is_done == NULL ? refuse_null("kith_event_query")
                           : event->device->ops->event_query(event->device->ordinal, event->native, is_done);
}

kith_status kith_event_synchronize(kith_event *event)
{
    kith_status status = check_event(event, "kith_event_synchronize");
    return status == KITH_OK ? event->device->ops->event_synchronize(event->device->ordinal, event->native) : status;
}
