/* core/device/cuda/module.c - the cuda module: its table, whether it can be used, and what devices there are.
 *
 * Opening this file's library needs nothing of CUDA; the runtime is opened by the first function that is called. Where
 * a device is missing CUDA's own words say why (no device, a driver that is too old).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "cuda.h"
#include <stdio.h>
#include <string.h>

const ki_device_host *ki_cuda_host;

static void begin(const ki_device_host *host)
{
    ki_cuda_host = host;
}

static const ki_cuda *open_runtime(char *reason, size_t nbytes)
{
    return ki_cuda_open(ki_cuda_host->setting("cudart_library", ""), reason, nbytes);
}

const ki_cuda *ki_cuda_get(void)
{
    char reason[512];
    const ki_cuda *cuda = open_runtime(reason, sizeof reason);
    if (cuda == NULL)
        (void)ki_cuda_host->fail(KITH_ERR_UNSUPPORTED, "cuda: %s", reason);
    return cuda;
}

static kith_status status_of(cudaError_t error)
{
    switch (error) {
    case cudaErrorMemoryAllocation:
        return KITH_ERR_NO_MEMORY;
    case cudaErrorInvalidDevice:
    case cudaErrorInvalidValue:
    case cudaErrorInvalidResourceHandle:
        return KITH_ERR_INVALID_ARG;
    case cudaErrorNoDevice:
    case cudaErrorInsufficientDriver:
    case cudaErrorNotSupported:
    case cudaErrorNoKernelImageForDevice:
        return KITH_ERR_UNSUPPORTED;
    default:
        return KITH_ERR_INTERNAL;
    }
}

kith_status ki_cuda_fail(cudaError_t error, const char *what)
{
    char text[256], reason[512];
    const ki_cuda *cuda = open_runtime(reason, sizeof reason);
    if (cuda == NULL)
        return ki_cuda_host->fail(KITH_ERR_UNSUPPORTED, "cuda: %s", reason);
    (void)cuda->cudaGetLastError(); /* told here, and not by the next call once more */
    return ki_cuda_host->fail(status_of(error), "cuda: %s: %s", what, ki_cuda_words(cuda, error, text, sizeof text));
}

ki_cuda_call ki_cuda_begin(int ordinal)
{
    ki_cuda_call call = { .cuda = ki_cuda_get(), .ordinal = ordinal, .before = ordinal, .status = KITH_OK };
    if (call.cuda == NULL) {
        call.status = KITH_ERR_UNSUPPORTED;
        return call;
    }
    const cudaError_t error = ki_cuda_enter(call.cuda, ordinal, &call.before);
    if (error != cudaSuccess) {
        char what[64];
        snprintf(what, sizeof what, "using device %d", ordinal);
        call.status = ki_cuda_fail(error, what);
        call.cuda = NULL;
    }
    return call;
}

kith_status ki_cuda_end(const ki_cuda_call *call, cudaError_t error, const char *what)
{
    const kith_status status = error == cudaSuccess ? KITH_OK : ki_cuda_fail(error, what);
    ki_cuda_leave(call->cuda, call->ordinal, call->before);
    return status;
}

/* ---- can it be used, and what is there? ---- */

static kith_status available(char *reason, size_t nbytes)
{
    char text[256];
    int count = 0, driver = 0;
    const ki_cuda *cuda = open_runtime(reason, nbytes);
    if (cuda == NULL)
        return KITH_ERR_UNSUPPORTED;
    const cudaError_t error = cuda->cudaGetDeviceCount(&count);
    if (error != cudaSuccess || count == 0) {
        (void)cuda->cudaGetLastError();
        snprintf(reason, nbytes, "CUDA runtime %d.%d (%s): %s", cuda->version / 1000, cuda->version % 1000 / 10,
                 cuda->file, ki_cuda_words(cuda, error != cudaSuccess ? error : cudaErrorNoDevice, text, sizeof text));
        return KITH_ERR_UNSUPPORTED;
    }
    if (cuda->cudaDriverGetVersion(&driver) != cudaSuccess)
        driver = 0;
    snprintf(reason, nbytes, "%d device%s, CUDA runtime %d.%d, driver for %d.%d%s%s", count, count == 1 ? "" : "s",
             cuda->version / 1000, cuda->version % 1000 / 10, driver / 1000, driver % 1000 / 10,
             cuda->refused[0] != '\0' ? "; not used: " : "", cuda->refused);
    return KITH_OK;
}

static kith_status count_devices(int *count)
{
    *count = 0;
    const ki_cuda *cuda = ki_cuda_get();
    if (cuda == NULL)
        return KITH_ERR_UNSUPPORTED;
    const cudaError_t error = cuda->cudaGetDeviceCount(count);
    if (error == cudaSuccess)
        return KITH_OK;
    *count = 0;
    return ki_cuda_fail(error, "counting devices");
}

static kith_status current(int *ordinal)
{
    const ki_cuda *cuda = ki_cuda_get();
    if (cuda == NULL)
        return KITH_ERR_UNSUPPORTED;
    const cudaError_t error = ki_cuda_current(cuda, ordinal);
    return error == cudaSuccess ? KITH_OK : ki_cuda_fail(error, "asking for the current device");
}

static cudaError_t attribute(const ki_cuda *cuda, enum cudaDeviceAttr which, int ordinal, int *value)
{
    return cuda->cudaDeviceGetAttribute(value, which, ordinal);
}

static void write_uuid(const unsigned char uuid[16], char text[48])
{
    static const char dashes[16] = { [4] = 1, [6] = 1, [8] = 1, [10] = 1 };
    size_t at = (size_t)snprintf(text, 48, "GPU-");
    for (int i = 0; i < 16; i++)
        at += (size_t)snprintf(text + at, 48 - at, "%s%02x", dashes[i] ? "-" : "", uuid[i]);
}

static cudaError_t fill_info(const ki_cuda *cuda, int ordinal, kith_device_info *info)
{
    unsigned char uuid[16];
    size_t free_nbytes = 0, nbytes = 0;
    cudaError_t error = ki_cuda_name(cuda, ordinal, info->name, uuid);
    if (error == cudaSuccess)
        error = cuda->cudaDeviceGetPCIBusId(info->pci, sizeof info->pci, ordinal);
    if (error == cudaSuccess)
        error = attribute(cuda, cudaDevAttrComputeCapabilityMajor, ordinal, &info->major);
    if (error == cudaSuccess)
        error = attribute(cuda, cudaDevAttrComputeCapabilityMinor, ordinal, &info->minor);
    if (error == cudaSuccess)
        error = attribute(cuda, cudaDevAttrMultiProcessorCount, ordinal, &info->processors);
    if (error == cudaSuccess)
        error = cuda->cudaMemGetInfo(&free_nbytes, &nbytes);
    if (error != cudaSuccess)
        return error;
    write_uuid(uuid, info->uuid);
    info->ordinal = ordinal;
    info->memory_nbytes = nbytes;
    info->free_nbytes = free_nbytes;
    return cudaSuccess;
}

/* The caller's structure may be that of another version: as much of it is written as it has. */
static kith_status describe(int ordinal, kith_device_info *info)
{
    kith_device_info all = KITH_DEVICE_INFO_INIT;
    const ki_cuda_call call = ki_cuda_begin(ordinal);
    if (call.cuda == NULL)
        return call.status;
    const kith_status status = ki_cuda_end(&call, fill_info(call.cuda, ordinal, &all), "describing a device");
    if (status != KITH_OK)
        return status;
    all.struct_size = info->struct_size < sizeof all ? info->struct_size : sizeof all;
    memcpy(info, &all, all.struct_size);
    return KITH_OK;
}

static const ki_device_ops ops = {
    .abi = KI_DEVICE_ABI,
    .struct_size = sizeof ops,
    .name = "cuda",
    .begin = begin,
    .available = available,
    .count = count_devices,
    .current = current,
    .describe = describe,
    .alloc = ki_cuda_alloc,
    .free = ki_cuda_free,
    .alloc_pinned = ki_cuda_alloc_pinned,
    .free_pinned = ki_cuda_free_pinned,
    .memory_kind = ki_cuda_kind,
    .stream_create = ki_cuda_stream_create,
    .stream_destroy = ki_cuda_stream_destroy,
    .stream_synchronize = ki_cuda_stream_synchronize,
    .stream_query = ki_cuda_stream_query,
    .event_create = ki_cuda_event_create,
    .event_destroy = ki_cuda_event_destroy,
    .event_record = ki_cuda_event_record,
    .event_query = ki_cuda_event_query,
    .event_synchronize = ki_cuda_event_synchronize,
    .stream_wait_event = ki_cuda_stream_wait_event,
    .copy = ki_cuda_copy,
    .fill = ki_cuda_fill,
    .pool_create = ki_cuda_pool_create,
    .pool_destroy = ki_cuda_pool_destroy,
    .pool_alloc = ki_cuda_pool_alloc,
    .pool_free = ki_cuda_pool_free,
    .pool_trim = ki_cuda_pool_trim,
    .pool_describe = ki_cuda_pool_describe,
    .compute_open = ki_cuda_compute_open,
    .reduce = ki_cuda_reduce,
};

__attribute__((visibility("default"))) const ki_device_ops *kith_device_v1(void);

const ki_device_ops *kith_device_v1(void)
{
    return &ops;
}
