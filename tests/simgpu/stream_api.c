/* tests/simgpu/stream_api.c - the runtime's functions for streams.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "engine.h"
#include <stdlib.h>

static cudaError_t create(cudaStream_t *handle, unsigned flags, int priority)
{
    if (handle == NULL || (flags & ~(unsigned)cudaStreamNonBlocking) != 0)
        return cudaErrorInvalidValue;
    if (sim_fault("stream"))
        return cudaErrorMemoryAllocation;
    *handle = (cudaStream_t)sim_stream_open(sim_current_device(), flags, priority);
    return cudaSuccess;
}

SIM_API cudaError_t cudaStreamCreate(cudaStream_t *handle)
{
    SIM_ENTER(cudaStreamCreate);
    return sim_leave(create(handle, cudaStreamDefault, 0));
}

SIM_API cudaError_t cudaStreamCreateWithFlags(cudaStream_t *handle, unsigned flags)
{
    SIM_ENTER(cudaStreamCreateWithFlags);
    return sim_leave(create(handle, flags, 0));
}

SIM_API cudaError_t cudaStreamCreateWithPriority(cudaStream_t *handle, unsigned flags, int priority)
{
    SIM_ENTER(cudaStreamCreateWithPriority);
    return sim_leave(create(handle, flags, priority > 0 ? 0 : priority < -5 ? -5 : priority));
}

/* Returns at once; the work that the stream holds is done nevertheless. */
SIM_API cudaError_t cudaStreamDestroy(cudaStream_t handle)
{
    SIM_ENTER(cudaStreamDestroy);
    if (handle == NULL || handle == cudaStreamLegacy || handle == cudaStreamPerThread) {
        sim_fail("cudaStreamDestroy: the default stream cannot be destroyed");
        return sim_leave(cudaErrorInvalidResourceHandle);
    }
    sim_stream *stream = sim_stream_of(handle, "cudaStreamDestroy");
    if (stream == NULL || sim_stream_close(stream) != 0)
        return sim_leave(cudaErrorInvalidResourceHandle);
    return sim_leave(cudaSuccess);
}

/* An operation of the default stream waits for the blocking ones, so one more tells when all are done. */
static sim_mark *whole_of(sim_stream *stream)
{
    sim_mark *mark;
    if (stream->number != 0)
        return sim_stream_newest(stream);
    sim_stream_put(stream, sim_op_new("synchronize", NULL, NULL), &mark);
    return mark;
}

SIM_API cudaError_t cudaStreamSynchronize(cudaStream_t handle)
{
    SIM_ENTER(cudaStreamSynchronize);
    sim_stream *stream = sim_stream_of(handle, "cudaStreamSynchronize");
    if (stream == NULL)
        return sim_leave(cudaErrorInvalidResourceHandle);
    sim_mark *mark = whole_of(stream);
    if (mark != NULL) {
        sim_mark_wait(mark);
        sim_mark_release(mark);
    }
    sim_pool_settle(stream->device);
    return sim_leave(sim_device_error(stream->device));
}

SIM_API cudaError_t cudaStreamQuery(cudaStream_t handle)
{
    SIM_ENTER(cudaStreamQuery);
    sim_stream *stream = sim_stream_of(handle, "cudaStreamQuery");
    if (stream == NULL)
        return sim_leave(cudaErrorInvalidResourceHandle);
    return sim_leave(sim_stream_is_idle(stream) ? sim_device_error(stream->device) : cudaErrorNotReady);
}

SIM_API cudaError_t cudaStreamGetDevice(cudaStream_t handle, int *device)
{
    SIM_ENTER(cudaStreamGetDevice);
    const sim_stream *stream = sim_stream_of(handle, "cudaStreamGetDevice");
    if (stream == NULL)
        return sim_leave(cudaErrorInvalidResourceHandle);
    *device = stream->device;
    return sim_leave(cudaSuccess);
}

SIM_API cudaError_t cudaStreamGetFlags(cudaStream_t handle, unsigned *flags)
{
    SIM_ENTER(cudaStreamGetFlags);
    const sim_stream *stream = sim_stream_of(handle, "cudaStreamGetFlags");
    if (stream == NULL)
        return sim_leave(cudaErrorInvalidResourceHandle);
    *flags = stream->flags;
    return sim_leave(cudaSuccess);
}

SIM_API cudaError_t cudaStreamIsCapturing(cudaStream_t handle, enum cudaStreamCaptureStatus *status)
{
    SIM_ENTER(cudaStreamIsCapturing);
    if (sim_stream_of(handle, "cudaStreamIsCapturing") == NULL)
        return sim_leave(cudaErrorInvalidResourceHandle);
    *status = cudaStreamCaptureStatusNone;
    return sim_leave(cudaSuccess);
}

SIM_API cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    SIM_ENTER(cudaDeviceGetStreamPriorityRange);
    *least = 0;
    *greatest = -5;
    return sim_leave(cudaSuccess);
}

SIM_API cudaError_t cudaDeviceSynchronize(void)
{
    SIM_ENTER(cudaDeviceSynchronize);
    sim_device_wait(sim_current_device(), true);
    sim_pool_settle(sim_current_device());
    return sim_leave(sim_device_error(sim_current_device()));
}

/* ---- host functions ---- */

typedef struct host_call {
    cudaHostFn_t function;
    void *data;
} host_call;

static void call_host(void *arg)
{
    const host_call *call = arg;
    sim_running()->is_host_function = true;
    call->function(call->data);
}

SIM_API cudaError_t cudaLaunchHostFunc(cudaStream_t handle, cudaHostFn_t function, void *data)
{
    SIM_ENTER(cudaLaunchHostFunc);
    sim_stream *stream = sim_stream_of(handle, "cudaLaunchHostFunc");
    if (stream == NULL || function == NULL)
        return sim_leave(stream == NULL ? cudaErrorInvalidResourceHandle : cudaErrorInvalidValue);
    host_call *call = malloc(sizeof *call);
    if (call == NULL)
        return sim_leave(cudaErrorMemoryAllocation);
    *call = (host_call){ function, data };
    sim_stream_put(stream, sim_op_new("host function", call_host, call), NULL);
    return sim_leave(cudaSuccess);
}
