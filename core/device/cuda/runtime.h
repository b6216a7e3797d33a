/* core/device/cuda/runtime.h - the functions of the CUDA runtime that Kith calls, found in a library at run time.
 *
 * Nothing here is linked to CUDA: its headers give types and prototypes, and a library of any version from 12.8 on
 * gives the functions. Structures whose layout differs between versions (device properties, attributes of pointers)
 * are reached through the functions below alone.
 *
 * A context is what a process holds of a device: hundreds of megabytes of its memory, as long as the process lives.
 * cudaSetDevice() makes one, and so does nearly every call of the runtime where the thread has none. A rank works on
 * one device and must have none on others, also not for a moment on device 0, where all ranks of a host would meet. So
 * the device of a call is made current, and taken away again, through the driver, which puts the thread back to where
 * it was, a thread without context too; calls are made between ki_cuda_enter() and ki_cuda_leave(), those that need no
 * context excepted (counts, attributes, versions, errors, cudaLibraryLoadData).
 *
 * Compiled into each module that needs CUDA (cuda, nccl), each of which has a table of its own, with
 * core/base/library.c; it depends on libc alone.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_DEVICE_CUDA_RUNTIME_H
#define KI_DEVICE_CUDA_RUNTIME_H

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <kith/device.h>
#include <stddef.h>

/* Functions whose prototypes are the same in all versions. */
#define KI_CUDA_FUNCTIONS(X)                                                                                           \
    X(cudaDeviceGetAttribute)                                                                                          \
    X(cudaDeviceGetPCIBusId)                                                                                           \
    X(cudaDeviceGetStreamPriorityRange)                                                                                \
    X(cudaDeviceSynchronize)                                                                                           \
    X(cudaDriverGetVersion)                                                                                            \
    X(cudaEventCreateWithFlags)                                                                                        \
    X(cudaEventDestroy)                                                                                                \
    X(cudaEventQuery)                                                                                                  \
    X(cudaEventRecord)                                                                                                 \
    X(cudaEventSynchronize)                                                                                            \
    X(cudaFree)                                                                                                        \
    X(cudaFreeAsync)                                                                                                   \
    X(cudaFreeHost)                                                                                                    \
    X(cudaFuncGetAttributes)                                                                                           \
    X(cudaGetDevice)                                                                                                   \
    X(cudaGetDeviceCount)                                                                                              \
    X(cudaGetDriverEntryPointByVersion)                                                                                \
    X(cudaGetErrorName)                                                                                                \
    X(cudaGetErrorString)                                                                                              \
    X(cudaGetLastError)                                                                                                \
    X(cudaHostAlloc)                                                                                                   \
    X(cudaLaunchKernel)                                                                                                \
    X(cudaLibraryEnumerateKernels)                                                                                     \
    X(cudaLibraryGetKernel)                                                                                            \
    X(cudaLibraryGetKernelCount)                                                                                       \
    X(cudaLibraryLoadData)                                                                                             \
    X(cudaLibraryUnload)                                                                                               \
    X(cudaMalloc)                                                                                                      \
    X(cudaMallocFromPoolAsync)                                                                                         \
    X(cudaMemGetInfo)                                                                                                  \
    X(cudaMemPoolCreate)                                                                                               \
    X(cudaMemPoolDestroy)                                                                                              \
    X(cudaMemPoolGetAttribute)                                                                                         \
    X(cudaMemPoolSetAttribute)                                                                                         \
    X(cudaMemPoolTrimTo)                                                                                               \
    X(cudaMemcpyAsync)                                                                                                 \
    X(cudaMemsetAsync)                                                                                                 \
    X(cudaRuntimeGetVersion)                                                                                           \
    X(cudaSetDevice)                                                                                                   \
    X(cudaStreamCreateWithFlags)                                                                                       \
    X(cudaStreamCreateWithPriority)                                                                                    \
    X(cudaStreamDestroy)                                                                                               \
    X(cudaStreamQuery)                                                                                                 \
    X(cudaStreamSynchronize)                                                                                           \
    X(cudaStreamWaitEvent)

/* Functions of the driver, which the runtime hands out; the names of CUDA 12.0. */
#define KI_CUDA_DRIVER_FUNCTIONS(X)                                                                                    \
    X(cuCtxGetCurrent)                                                                                                 \
    X(cuCtxPopCurrent)                                                                                                 \
    X(cuCtxPushCurrent)                                                                                                \
    X(cuDeviceGet)                                                                                                     \
    X(cuDevicePrimaryCtxGetState)                                                                                      \
    X(cuDevicePrimaryCtxRetain)                                                                                        \
    X(cuPointerGetAttributes)

typedef struct ki_cuda {
#define KI_CUDA_MEMBER(function) __typeof__(function) *function;
    KI_CUDA_FUNCTIONS(KI_CUDA_MEMBER)
    KI_CUDA_DRIVER_FUNCTIONS(KI_CUDA_MEMBER)
#undef KI_CUDA_MEMBER
    int (*properties)(void *properties, int ordinal); /* cudaGetDeviceProperties, whose structure changes */
    char file[256];                                   /* where they come from */
    char refused[1024];                               /* libraries that were passed over, and why; "" */
    int version;                                      /* 13000 */
} ki_cuda;

/* The process's table, made by the first call that succeeds; NULL with one sentence in reason. `library` is the file
 * that the setting cudart_library names (KITH_CUDART_LIBRARY); NULL or "": the usual places are searched, and the first
 * library is taken that has all functions and whose version the driver is new enough for. Any thread. That there is
 * one says nothing of a device. */
const ki_cuda *ki_cuda_open(const char *library, char *reason, size_t reason_nbytes);

/* "no CUDA-capable device is detected (cudaErrorNoDevice)", in `text`, which is returned. */
const char *ki_cuda_words(const ki_cuda *cuda, cudaError_t error, char *text, size_t nbytes);

/* Makes `ordinal` the calling thread's device; ki_cuda_leave() puts the thread back, by what *before says. After a
 * failure there is nothing to put back, and ki_cuda_leave() does nothing. */
cudaError_t ki_cuda_enter(const ki_cuda *cuda, int ordinal, int *before);
void ki_cuda_leave(const ki_cuda *cuda, int ordinal, int before);

/* The calling thread's device, without making a context on it. */
cudaError_t ki_cuda_current(const ki_cuda *cuda, int *ordinal);

/* What a pointer points to; *ordinal is -1 for the host. Memory that CUDA does not know is the host's. Needs no device:
 * a process without any context has no memory of one. */
cudaError_t ki_cuda_memory_kind(const ki_cuda *cuda, const void *ptr, kith_memory *memory, int *ordinal);

/* Name and UUID of a device: all that is read of its properties. */
cudaError_t ki_cuda_name(const ki_cuda *cuda, int ordinal, char name[128], unsigned char uuid[16]);

#endif
