/* core/device/cuda/stream.c - streams and events: CUDA's own handles.
 *
 * Streams are made without the implicit order that the default stream has with others; order among streams is events
 * alone. Events carry no times.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "cuda.h"

kith_status ki_cuda_stream_create(int ordinal, void **stream)
{
    cudaStream_t made = NULL;
    const ki_cuda_call call = ki_cuda_begin(ordinal);
    if (call.cuda == NULL)
        return call.status;
    const cudaError_t error = call.cuda->cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking);
    const kith_status status = ki_cuda_end(&call, error, "creating a stream");
    if (status == KITH_OK)
        *stream = made;
    return status;
}

/* CUDA lets the work of a stream that is destroyed run on; here, it has run. */
kith_status ki_cuda_stream_destroy(int ordinal, void *stream)
{
    const ki_cuda_call call = ki_cuda_begin(ordinal);
    if (call.cuda == NULL)
        return call.status;
    const cudaError_t waited = call.cuda->cudaStreamSynchronize((cudaStream_t)stream);
    const cudaError_t error = call.cuda->cudaStreamDestroy((cudaStream_t)stream);
    return ki_cuda_end(&call, waited != cudaSuccess ? waited : error, "destroying a stream");
}

kith_status ki_cuda_stream_synchronize(int ordinal, void *stream)
{
    const ki_cuda_call call = ki_cuda_begin(ordinal);
    return call.cuda == NULL
               ? call.status
               : ki_cuda_end(&call, call.cuda->cudaStreamSynchronize((cudaStream_t)stream), "work of a stream");
}

/* cudaErrorNotReady is an answer. */
static kith_status end_query(const ki_cuda_call *call, cudaError_t error, const char *what, int *is_done)
{
    if (error == cudaErrorNotReady)
        (void)call->cuda->cudaGetLastError();
    const kith_status status = ki_cuda_end(call, error == cudaErrorNotReady ? cudaSuccess : error, what);
    if (status == KITH_OK)
        *is_done = error == cudaSuccess;
    return status;
}

kith_status ki_cuda_stream_query(int ordinal, void *stream, int *is_done)
{
    const ki_cuda_call call = ki_cuda_begin(ordinal);
    return call.cuda == NULL
               ? call.status
               : end_query(&call, call.cuda->cudaStreamQuery((cudaStream_t)stream), "work of a stream", is_done);
}

kith_status ki_cuda_event_create(int ordinal, void **event)
{
    cudaEvent_t made = NULL;
    const ki_cuda_call call = ki_cuda_begin(ordinal);
    if (call.cuda == NULL)
        return call.status;
    const cudaError_t error = call.cuda->cudaEventCreateWithFlags(&made, cudaEventDisableTiming);
    const kith_status status = ki_cuda_end(&call, error, "creating an event");
    if (status == KITH_OK)
        *event = made;
    return status;
}

kith_status ki_cuda_event_destroy(int ordinal, void *event)
{
    const ki_cuda_call call = ki_cuda_begin(ordinal);
    return call.cuda == NULL
               ? call.status
               : ki_cuda_end(&call, call.cuda->cudaEventDestroy((cudaEvent_t)event), "destroying an event");
}

kith_status ki_cuda_event_record(int ordinal, void *event, void *stream)
{
    const ki_cuda_call call = ki_cuda_begin(ordinal);
    return call.cuda == NULL ? call.status
                             : ki_cuda_end(&call, call.cuda->cudaEventRecord((cudaEvent_t)event, (cudaStream_t)stream),
                                           "recording an event");
}

kith_status ki_cuda_event_query(int ordinal, void *event, int *is_done)
{
    const ki_cuda_call call = ki_cuda_begin(ordinal);
    return call.cuda == NULL
               ? call.status
               : end_query(&call, call.cuda->cudaEventQuery((cudaEvent_t)event), "work that an event marks", is_done);
}

kith_status ki_cuda_event_synchronize(int ordinal, void *event)
{
    const ki_cuda_call call = ki_cuda_begin(ordinal);
    return call.cuda == NULL
               ? call.status
               : ki_cuda_end(&call, call.cuda->cudaEventSynchronize((cudaEvent_t)event), "work that an event marks");
}

kith_status ki_cuda_stream_wait_event(int ordinal, void *stream, void *event)
{
    const ki_cuda_call call = ki_cuda_begin(ordinal);
    return call.cuda == NULL
               ? call.status
               : ki_cuda_end(&call, call.cuda->cudaStreamWaitEvent((cudaStream_t)stream, (cudaEvent_t)event, 0),
                             "letting a stream wait");
}
