/* core/device/cuda/context.c - which device a thread works on, without contexts on devices that nobody uses (see
 * runtime.h).
 *
 * The primary context of a device, which is the runtime's own, is retained when Kith first works on the device, and
 * then as long as the process lives. The numbers of the driver's errors are those of the runtime's.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "runtime.h"
#include <pthread.h>

/* What *before says: the thread has one context more. Else: ki_cuda_leave() has nothing to do. */
enum { PUSHED = -1, MAX_DEVICES = 64 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static CUcontext primaries[MAX_DEVICES]; /* atomic; NULL: Kith has not worked on it */

static cudaError_t retain(const ki_cuda *cuda, int ordinal, CUcontext *context)
{
    CUdevice device;
    CUresult result = cuda->cuDeviceGet(&device, ordinal);
    if (result == CUDA_SUCCESS)
        result = cuda->cuDevicePrimaryCtxRetain(context, device);
    return (cudaError_t)result;
}

static cudaError_t primary_of(const ki_cuda *cuda, int ordinal, CUcontext *context)
{
    if (cuda->cuDevicePrimaryCtxRetain == NULL || cuda->cuCtxPushCurrent == NULL || cuda->cuCtxPopCurrent == NULL ||
        cuda->cuCtxGetCurrent == NULL || cuda->cuDeviceGet == NULL)
        return cudaErrorInsufficientDriver;
    if (ordinal < 0 || ordinal >= MAX_DEVICES)
        return cudaErrorInvalidDevice;
    *context = __atomic_load_n(&primaries[ordinal], __ATOMIC_ACQUIRE);
    if (*context != NULL)
        return cudaSuccess;
    cudaError_t error = cudaSuccess;
    pthread_mutex_lock(&lock);
    *context = primaries[ordinal];
    if (*context == NULL)
        error = retain(cuda, ordinal, context);
    if (error == cudaSuccess)
        __atomic_store_n(&primaries[ordinal], *context, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&lock);
    return error;
}

cudaError_t ki_cuda_enter(const ki_cuda *cuda, int ordinal, int *before)
{
    CUcontext wanted, current = NULL;
    *before = ordinal;
    const cudaError_t error = primary_of(cuda, ordinal, &wanted);
    if (error != cudaSuccess)
        return error;
    CUresult result = cuda->cuCtxGetCurrent(&current);
    if (result == CUDA_SUCCESS && current != wanted) {
        result = cuda->cuCtxPushCurrent(wanted);
        if (result == CUDA_SUCCESS)
            *before = PUSHED;
    }
    return (cudaError_t)result;
}

void ki_cuda_leave(const ki_cuda *cuda, int ordinal, int before)
{
    CUcontext context;
    (void)ordinal;
    if (before == PUSHED)
        (void)cuda->cuCtxPopCurrent(&context);
}

/* Without a context it is device 0, which is what a thread begins with: cudaSetDevice() gives it one. */
cudaError_t ki_cuda_current(const ki_cuda *cuda, int *ordinal)
{
    CUcontext context = NULL;
    *ordinal = 0;
    if (cuda->cuCtxGetCurrent == NULL)
        return cudaErrorInsufficientDriver;
    const CUresult result = cuda->cuCtxGetCurrent(&context);
    return result != CUDA_SUCCESS || context == NULL ? (cudaError_t)result : cuda->cudaGetDevice(ordinal);
}

/* ---- what a pointer is ---- */

/* The driver wants a context to be current, any. One that the process has is lent to a thread without; -1: there is
 * none. */
static int some_device(const ki_cuda *cuda)
{
    int count = 0;
    for (int i = 0; i < MAX_DEVICES; i++)
        if (__atomic_load_n(&primaries[i], __ATOMIC_ACQUIRE) != NULL)
            return i;
    if (cuda->cudaGetDeviceCount(&count) != cudaSuccess)
        return -1;
    for (int i = 0; i < count && i < MAX_DEVICES; i++) {
        CUdevice device;
        unsigned flags = 0;
        int is_active = 0;
        if (cuda->cuDeviceGet(&device, i) == CUDA_SUCCESS &&
            cuda->cuDevicePrimaryCtxGetState(device, &flags, &is_active) == CUDA_SUCCESS && is_active)
            return i;
    }
    return -1;
}

static cudaError_t ask(const ki_cuda *cuda, const void *ptr, kith_memory *memory, int *ordinal)
{
    CUmemorytype type = (CUmemorytype)0;
    unsigned is_managed = 0;
    int device = -1;
    CUpointer_attribute wanted[] = { CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                     CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL };
    void *answers[] = { &type, &is_managed, &device };
    const CUresult result =
        cuda->cuPointerGetAttributes(sizeof wanted / sizeof wanted[0], wanted, answers, (CUdeviceptr)(uintptr_t)ptr);
    if (result == CUDA_ERROR_INVALID_CONTEXT || result == CUDA_ERROR_INVALID_VALUE)
        return cudaSuccess; /* of no context: the host's */
    if (result != CUDA_SUCCESS)
        return (cudaError_t)result;
    if (is_managed)
        *memory = KITH_MEMORY_MANAGED;
    else if (type == CU_MEMORYTYPE_DEVICE)
        *memory = KITH_MEMORY_DEVICE;
    else if (type == CU_MEMORYTYPE_HOST)
        *memory = KITH_MEMORY_PINNED;
    if (*memory == KITH_MEMORY_DEVICE || *memory == KITH_MEMORY_MANAGED)
        *ordinal = device;
    return cudaSuccess;
}

cudaError_t ki_cuda_memory_kind(const ki_cuda *cuda, const void *ptr, kith_memory *memory, int *ordinal)
{
    CUcontext current = NULL;
    int lent = -1, before = 0;
    *memory = KITH_MEMORY_HOST;
    *ordinal = -1;
    if (cuda->cuCtxGetCurrent == NULL || cuda->cuPointerGetAttributes == NULL ||
        cuda->cuDevicePrimaryCtxGetState == NULL || cuda->cuDeviceGet == NULL)
        return cudaErrorInsufficientDriver;
    CUresult result = cuda->cuCtxGetCurrent(&current);
    if (result != CUDA_SUCCESS)
        return (cudaError_t)result;
    if (current == NULL) {
        lent = some_device(cuda);
        if (lent < 0)
            return cudaSuccess;
        const cudaError_t error = ki_cuda_enter(cuda, lent, &before);
        if (error != cudaSuccess)
            return error;
    }
    const cudaError_t error = ask(cuda, ptr, memory, ordinal);
    if (lent >= 0)
        ki_cuda_leave(cuda, lent, before);
    return error;
}
