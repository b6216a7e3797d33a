/* tests/simgpu/api.c - devices, errors, and what every function of the simulated runtime begins and ends with.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "engine.h"
#include <dlfcn.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A small one, so that whoever fills the processors with blocks does not run empty threads. */
enum { MAJOR = 9, MINOR = 0, PROCESSORS = 4, SHARED_NBYTES = 48 << 10, SHARED_OPTIN_NBYTES = 227 << 10 };

static __thread cudaError_t last_error;
static _Atomic int broken[SIM_MAX_DEVICES]; /* a cudaError_t */
static _Atomic bool is_exiting;
static pid_t started_by; /* 0: not started */
static struct sigaction before_fault;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* ---- the host touches memory of a device ---- */

static void put(const char *text)
{
    if (write(STDERR_FILENO, text, strlen(text)) < 0)
        return;
}

/* Says what it was and lets it happen again, to whoever was there before. */
static void on_fault(int number, siginfo_t *info, void *context)
{
    char text[384], explained[256];
    void *from;
    (void)number;
    (void)context;
    if (sim_memory_is_ours(info->si_addr)) {
        from = info->si_addr;
        snprintf(text, sizeof text, "simgpu: the host touches %p itself: %s\n", from,
                 sim_memory_explain(from, 1, explained, sizeof explained));
        put(text);
    }
    sigaction(SIGSEGV, &before_fault, NULL);
}

static void start(void)
{
    sim_settings_get();
    started_by = getpid();
    struct sigaction action = { 0 };
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
    sigemptyset(&action.sa_mask);
    sigaction(SIGSEGV, &action, &before_fault);
}

/* ---- the end of the process ---- */

__attribute__((destructor)) static void at_exit(void)
{
    char handles[256], buffers[512];
    if (started_by != getpid())
        return; /* never used, or a child after fork() */
    atomic_store(&is_exiting, true);
    const sim_settings *settings = sim_settings_get();
    const int handle_count = sim_handle_leaks(handles, sizeof handles);
    const int buffer_count = sim_memory_leaks(buffers, sizeof buffers);
    if (settings->check_leaks && handle_count + buffer_count > 0)
        sim_fail("the process ends and was to release: %s%s%s", handles,
                 handle_count > 0 && buffer_count > 0 ? ", " : "", buffers);
}

bool sim_is_exiting(void)
{
    return atomic_load(&is_exiting);
}

const char *sim_where(const void *address, char *text, size_t text_nbytes)
{
    Dl_info info;
    if (dladdr(address, &info) == 0 || info.dli_fname == NULL) {
        snprintf(text, text_nbytes, "%p", address);
        return text;
    }
    const char *file = strrchr(info.dli_fname, '/');
    file = file == NULL ? info.dli_fname : file + 1;
    if (info.dli_sname != NULL)
        snprintf(text, text_nbytes, "%s of %s", info.dli_sname, file);
    else
        snprintf(text, text_nbytes, "%s+0x%zx", file, (size_t)((const char *)address - (const char *)info.dli_fbase));
    return text;
}

/* ---- begin and end of a function ---- */

cudaError_t sim_enter(const char *api, bool is_bare)
{
    pthread_once(&once, start);
    if (started_by != getpid())
        return cudaErrorInitializationError; /* CUDA does not survive fork() either */
    const sim_op *op = sim_running();
    if (op != NULL && op->is_host_function)
        sim_fail("%s: called by a host function of a stream, which may call nothing of CUDA", api);
    if (sim_settings_get()->is_too_new)
        return cudaErrorInsufficientDriver;
    if (sim_settings_get()->devices == 0)
        return cudaErrorNoDevice;
    if (!is_bare)
        sim_context_need(api);
    return sim_device_error(sim_current_device());
}

cudaError_t sim_leave(cudaError_t error)
{
    if (error != cudaSuccess)
        last_error = error;
    return error;
}

SIM_API cudaError_t cudaGetLastError(void)
{
    const cudaError_t error = last_error;
    last_error = cudaSuccess;
    const cudaError_t lasting = sim_device_error(sim_current_device());
    return error != cudaSuccess ? error : lasting;
}

SIM_API cudaError_t cudaPeekAtLastError(void)
{
    return last_error != cudaSuccess ? last_error : sim_device_error(sim_current_device());
}

cudaError_t sim_device_error(int device)
{
    return (cudaError_t)atomic_load(&broken[device]);
}

void sim_device_broken(int device, int cuda_error)
{
    int none = cudaSuccess;
    atomic_compare_exchange_strong(&broken[device], &none, cuda_error);
}

/* ---- words ---- */

typedef struct words {
    cudaError_t error;
    const char *name, *text;
} words;

static const words known[] = {
    { cudaSuccess, "cudaSuccess", "no error" },
    { cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument" },
    { cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory" },
    { cudaErrorInitializationError, "cudaErrorInitializationError", "initialization error" },
    { cudaErrorInvalidConfiguration, "cudaErrorInvalidConfiguration", "invalid configuration argument" },
    { cudaErrorInvalidMemcpyDirection, "cudaErrorInvalidMemcpyDirection", "invalid copy direction for memcpy" },
    { cudaErrorInsufficientDriver, "cudaErrorInsufficientDriver",
      "CUDA driver version is insufficient for CUDA runtime version" },
    { cudaErrorNoDevice, "cudaErrorNoDevice", "no CUDA-capable device is detected" },
    { cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal" },
    { cudaErrorInvalidKernelImage, "cudaErrorInvalidKernelImage", "device kernel image is invalid" },
    { cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle", "invalid resource handle" },
    { cudaErrorSymbolNotFound, "cudaErrorSymbolNotFound", "named symbol not found" },
    { cudaErrorNotReady, "cudaErrorNotReady", "device not ready" },
    { cudaErrorIllegalAddress, "cudaErrorIllegalAddress", "an illegal memory access was encountered" },
    { cudaErrorLaunchOutOfResources, "cudaErrorLaunchOutOfResources", "too many resources requested for launch" },
    { cudaErrorLaunchFailure, "cudaErrorLaunchFailure", "unspecified launch failure" },
    { cudaErrorNotSupported, "cudaErrorNotSupported", "operation not supported" },
    { cudaErrorUnknown, "cudaErrorUnknown", "unknown error" },
};

static const words *words_of(cudaError_t error)
{
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (known[i].error == error)
            return &known[i];
    return NULL;
}

SIM_API const char *cudaGetErrorName(cudaError_t error)
{
    const words *w = words_of(error);
    return w == NULL ? "unrecognized error code" : w->name;
}

SIM_API const char *cudaGetErrorString(cudaError_t error)
{
    const words *w = words_of(error);
    return w == NULL ? "unrecognized error code" : w->text;
}

/* ---- devices ---- */

int sim_device_count(void)
{
    return sim_settings_get()->devices;
}

void sim_device_uuid(int device, unsigned char uuid[16])
{
    memcpy(uuid, "simulated-gpu-\0", 16);
    uuid[15] = (unsigned char)sim_settings_get()->physical[device];
}

SIM_API cudaError_t cudaGetDeviceCount(int *count)
{
    *count = 0;
    SIM_ENTER_BARE(cudaGetDeviceCount);
    if (sim_fault("device_count"))
        return sim_leave(cudaErrorUnknown);
    *count = sim_device_count();
    return sim_leave(cudaSuccess);
}

SIM_API cudaError_t cudaGetDevice(int *device)
{
    SIM_ENTER_BARE(cudaGetDevice);
    *device = sim_current_device();
    return sim_leave(cudaSuccess);
}

/* A broken device can be left. */
SIM_API cudaError_t cudaSetDevice(int device)
{
    const cudaError_t error = sim_enter("cudaSetDevice", true);
    if (error == cudaErrorNoDevice || error == cudaErrorInitializationError)
        return sim_leave(error);
    if (device < 0 || device >= sim_device_count())
        return sim_leave(cudaErrorInvalidDevice);
    sim_context_choose(device, "cudaSetDevice");
    return sim_leave(sim_device_error(device));
}

static bool is_device(int device)
{
    return device >= 0 && device < sim_device_count();
}

SIM_API cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *properties, int device)
{
    SIM_ENTER_BARE(cudaGetDeviceProperties);
    if (!is_device(device))
        return sim_leave(cudaErrorInvalidDevice);
    memset(properties, 0, sizeof *properties);
    snprintf(properties->name, sizeof properties->name, "Simulated GPU");
    sim_device_uuid(device, (unsigned char *)&properties->uuid);
    properties->totalGlobalMem = sim_settings_get()->memory_nbytes;
    properties->sharedMemPerBlock = SHARED_NBYTES;
    properties->sharedMemPerBlockOptin = SHARED_OPTIN_NBYTES;
    properties->sharedMemPerMultiprocessor = SHARED_OPTIN_NBYTES + 1024;
    properties->reservedSharedMemPerBlock = 1024;
    properties->regsPerBlock = properties->regsPerMultiprocessor = 65536;
    properties->warpSize = 32;
    properties->maxThreadsPerBlock = 1024;
    memcpy(properties->maxThreadsDim, (int[3]){ 1024, 1024, 64 }, sizeof properties->maxThreadsDim);
    memcpy(properties->maxGridSize, (int[3]){ 2147483647, 65535, 65535 }, sizeof properties->maxGridSize);
    properties->major = MAJOR;
    properties->minor = MINOR;
    properties->multiProcessorCount = PROCESSORS;
    properties->maxThreadsPerMultiProcessor = 2048;
    properties->maxBlocksPerMultiProcessor = 32;
    properties->pciBusID = sim_settings_get()->physical[device] + 1;
    properties->unifiedAddressing = properties->canMapHostMemory = properties->concurrentKernels = 1;
    properties->asyncEngineCount = 3;
    properties->streamPrioritiesSupported = 1;
    properties->memoryPoolsSupported = sim_settings_get()->has_pools;
    return sim_leave(cudaSuccess);
}

static int attribute_of(enum cudaDeviceAttr attribute, int device)
{
    switch (attribute) {
    case cudaDevAttrComputeCapabilityMajor:
        return MAJOR;
    case cudaDevAttrComputeCapabilityMinor:
        return MINOR;
    case cudaDevAttrMultiProcessorCount:
        return PROCESSORS;
    case cudaDevAttrWarpSize:
        return 32;
    case cudaDevAttrMaxThreadsPerBlock:
    case cudaDevAttrMaxBlockDimX:
    case cudaDevAttrMaxBlockDimY:
        return 1024;
    case cudaDevAttrMaxThreadsPerMultiProcessor:
        return 2048;
    case cudaDevAttrMaxSharedMemoryPerBlock:
        return SHARED_NBYTES;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
        return SHARED_OPTIN_NBYTES;
    case cudaDevAttrUnifiedAddressing:
        return 1;
    case cudaDevAttrMemoryPoolsSupported:
        return sim_settings_get()->has_pools;
    case cudaDevAttrManagedMemory:
    case cudaDevAttrIntegrated:
    case cudaDevAttrPciDomainId:
    case cudaDevAttrPciDeviceId:
        return 0;
    case cudaDevAttrPciBusId:
        return sim_settings_get()->physical[device] + 1;
    default:
        return -1;
    }
}

SIM_API cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device)
{
    SIM_ENTER_BARE(cudaDeviceGetAttribute);
    if (!is_device(device))
        return sim_leave(cudaErrorInvalidDevice);
    const int known_value = attribute_of(attribute, device);
    if (known_value < 0) {
        sim_fail("cudaDeviceGetAttribute: attribute %d is not simulated", (int)attribute);
        return sim_leave(cudaErrorInvalidValue);
    }
    *value = known_value;
    return sim_leave(cudaSuccess);
}

SIM_API cudaError_t cudaDeviceGetPCIBusId(char *text, int text_nbytes, int device)
{
    SIM_ENTER_BARE(cudaDeviceGetPCIBusId);
    if (!is_device(device))
        return sim_leave(cudaErrorInvalidDevice);
    if (text_nbytes < 13)
        return sim_leave(cudaErrorInvalidValue);
    snprintf(text, (size_t)text_nbytes, "0000:%02X:00.0", (unsigned)sim_settings_get()->physical[device] + 1);
    return sim_leave(cudaSuccess);
}

SIM_API cudaError_t cudaMemGetInfo(size_t *free_nbytes, size_t *total_nbytes)
{
    SIM_ENTER(cudaMemGetInfo);
    *total_nbytes = sim_settings_get()->memory_nbytes;
    *free_nbytes = *total_nbytes - sim_memory_used(sim_current_device());
    return sim_leave(cudaSuccess);
}

SIM_API cudaError_t cudaRuntimeGetVersion(int *version)
{
    *version = CUDART_VERSION;
    return cudaSuccess;
}

SIM_API cudaError_t cudaDriverGetVersion(int *version)
{
    *version = CUDART_VERSION;
    return cudaSuccess;
}

/* A GPU reaches no memory of another one, except in copies. */
SIM_API cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer)
{
    SIM_ENTER_BARE(cudaDeviceCanAccessPeer);
    if (!is_device(device) || !is_device(peer))
        return sim_leave(cudaErrorInvalidDevice);
    *can = 0;
    return sim_leave(cudaSuccess);
}
