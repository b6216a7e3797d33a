/* tests/simgpu/event.c - events: marks of operations, kept by name.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "engine.h"
#include <stdlib.h>

static const char event_kind[] = "an event";

/* Never freed, so that a destroyed event's address is never an event's again. */
typedef struct sim_event {
    struct sim_event *next;
    int device;
    unsigned flags;
    sim_mark *mark; /* NULL: never recorded */
} sim_event;

static sim_event *events; /* all, dead ones too: reachable memory is no leak */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static sim_event *event_of(cudaEvent_t handle, const char *api)
{
    if (!sim_handle_known(event_kind, handle)) {
        sim_fail("%s: %p is no event: it was destroyed or never made", api, (void *)handle);
        return NULL;
    }
    return (sim_event *)handle;
}

static cudaError_t create(cudaEvent_t *handle, unsigned flags)
{
    const unsigned known = cudaEventBlockingSync | cudaEventDisableTiming | cudaEventInterprocess;
    if (handle == NULL || (flags & ~known) != 0)
        return cudaErrorInvalidValue;
    if (flags & cudaEventInterprocess) {
        sim_fail("cudaEventCreateWithFlags: cudaEventInterprocess is not simulated");
        return cudaErrorNotSupported;
    }
    if (sim_fault("event"))
        return cudaErrorMemoryAllocation;
    sim_event *event = calloc(1, sizeof *event);
    if (event == NULL)
        return cudaErrorMemoryAllocation;
    event->device = sim_current_device();
    event->flags = flags;
    pthread_mutex_lock(&lock);
    event->next = events;
    events = event;
    pthread_mutex_unlock(&lock);
    sim_handle_add(event_kind, event);
    *handle = (cudaEvent_t)event;
    return cudaSuccess;
}

SIM_API cudaError_t cudaEventCreate(cudaEvent_t *handle)
{
    SIM_ENTER(cudaEventCreate);
    return sim_leave(create(handle, cudaEventDefault));
}

SIM_API cudaError_t cudaEventCreateWithFlags(cudaEvent_t *handle, unsigned flags)
{
    SIM_ENTER(cudaEventCreateWithFlags);
    return sim_leave(create(handle, flags));
}

static sim_mark *exchange(sim_event *event, sim_mark *mark)
{
    pthread_mutex_lock(&lock);
    sim_mark *before = event->mark;
    event->mark = mark;
    pthread_mutex_unlock(&lock);
    return before;
}

SIM_API cudaError_t cudaEventDestroy(cudaEvent_t handle)
{
    SIM_ENTER(cudaEventDestroy);
    if (sim_handle_remove(event_kind, handle))
        return sim_leave(cudaErrorInvalidResourceHandle);
    sim_mark *mark = exchange((sim_event *)handle, NULL);
    if (mark != NULL)
        sim_mark_release(mark);
    return sim_leave(cudaSuccess);
}

SIM_API cudaError_t cudaEventRecord(cudaEvent_t handle, cudaStream_t into)
{
    SIM_ENTER(cudaEventRecord);
    sim_event *event = event_of(handle, "cudaEventRecord");
    sim_stream *stream = event == NULL ? NULL : sim_stream_of(into, "cudaEventRecord");
    if (event == NULL || stream == NULL)
        return sim_leave(cudaErrorInvalidResourceHandle);
    if (event->device != stream->device) {
        sim_fail("cudaEventRecord: the event was made on device %d and the stream on device %d", event->device,
                 stream->device);
        return sim_leave(cudaErrorInvalidResourceHandle);
    }
    sim_mark *mark;
    sim_stream_put(stream, sim_op_new("event record", NULL, NULL), &mark);
    sim_mark *before = exchange(event, mark);
    if (before != NULL)
        sim_mark_release(before);
    return sim_leave(cudaSuccess);
}

SIM_API cudaError_t cudaStreamWaitEvent(cudaStream_t from, cudaEvent_t handle, unsigned flags)
{
    SIM_ENTER(cudaStreamWaitEvent);
    sim_event *event = event_of(handle, "cudaStreamWaitEvent");
    sim_stream *stream = event == NULL ? NULL : sim_stream_of(from, "cudaStreamWaitEvent");
    if (event == NULL || stream == NULL)
        return sim_leave(cudaErrorInvalidResourceHandle);
    if (flags != 0)
        return sim_leave(cudaErrorInvalidValue);
    pthread_mutex_lock(&lock);
    if (event->mark != NULL && !sim_fault("forget_wait")) {
        sim_op *op = sim_op_new("event wait", NULL, NULL);
        sim_op_wait(op, event->mark);
        sim_stream_put(stream, op, NULL);
    }
    pthread_mutex_unlock(&lock);
    return sim_leave(cudaSuccess);
}

SIM_API cudaError_t cudaEventQuery(cudaEvent_t handle)
{
    SIM_ENTER(cudaEventQuery);
    sim_event *event = event_of(handle, "cudaEventQuery");
    if (event == NULL)
        return sim_leave(cudaErrorInvalidResourceHandle);
    pthread_mutex_lock(&lock);
    const bool is_done = sim_mark_is_done(event->mark);
    pthread_mutex_unlock(&lock);
    return sim_leave(is_done ? sim_device_error(event->device) : cudaErrorNotReady);
}

/* The mark behind the event, which lives while it is waited for. */
static sim_mark *held(sim_event *event)
{
    pthread_mutex_lock(&lock);
    sim_mark *mark = event->mark;
    if (mark != NULL)
        sim_mark_hold(mark);
    pthread_mutex_unlock(&lock);
    return mark;
}

SIM_API cudaError_t cudaEventSynchronize(cudaEvent_t handle)
{
    SIM_ENTER(cudaEventSynchronize);
    sim_event *event = event_of(handle, "cudaEventSynchronize");
    if (event == NULL)
        return sim_leave(cudaErrorInvalidResourceHandle);
    sim_mark *mark = held(event);
    if (mark != NULL) {
        sim_mark_wait(mark);
        sim_mark_release(mark);
    }
    sim_pool_settle(event->device);
    return sim_leave(sim_device_error(event->device));
}

SIM_API cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to)
{
    SIM_ENTER(cudaEventElapsedTime);
    sim_event *first = event_of(from, "cudaEventElapsedTime"), *second = event_of(to, "cudaEventElapsedTime");
    if (first == NULL || second == NULL || first->mark == NULL || second->mark == NULL ||
        ((first->flags | second->flags) & cudaEventDisableTiming) != 0)
        return sim_leave(cudaErrorInvalidResourceHandle);
    if (!sim_mark_is_done(first->mark) || !sim_mark_is_done(second->mark))
        return sim_leave(cudaErrorNotReady);
    *ms = (float)((double)(second->mark->time_ns - first->mark->time_ns) / 1e6);
    return sim_leave(cudaSuccess);
}
