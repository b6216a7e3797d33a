/* core/device/cuda/runtime.h - the functions of the CUDA runtime that Kith calls, found in a library at run time.
 *
 * Nothing here is linked to CUDA: its headers give types and prototypes, and a library of any version from 12.8 on
 * gives the functions. Structures whose layout differs between versions (device properties, attributes of pointers)
 * are reached through the functions below alone.
 *
 * Compiled into each module that needs CUDA (cuda, nccl), each of which has a table of its own; it depends on libc
 * alone.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_DEVICE_CUDA_RUNTIME_H
#define KI_DEVICE_CUDA_RUNTIME_H

#include <cuda_runtime_api.h>
#include <kith/device.h>
#include <stddef.h>

/* Functions whose prototypes are the same in all versions. */
#define KI_CUDA_FUNCTIONS(X)                                                                                           \
    X(cudaDeviceGetAttribute)                                                                                          \
    X(cudaDeviceGetPCIBusId)                                                                                           \
    X(cudaDeviceSynchronize)                                                                                           \
    X(cudaDriverGetVersion)                                                                                            \
    X(cudaEventCreateWithFlags)                                                                                        \
    X(cudaEventDestroy)                                                                                                \
    X(cudaEventQuery)                                                                                                  \
    X(cudaEventRecord)                                                                                                 \
    X(cudaEventSynchronize)                                                                                            \
    X(cudaFree)                                                                                                        \
    X(cudaFreeHost)                                                                                                    \
    X(cudaGetDevice)                                                                                                   \
    X(cudaGetDeviceCount)                                                                                              \
    X(cudaGetErrorName)                                                                                                \
    X(cudaGetErrorString)                                                                                              \
    X(cudaGetLastError)                                                                                                \
    X(cudaHostAlloc)                                                                                                   \
    X(cudaLaunchKernel)                                                                                                \
    X(cudaLibraryGetKernel)                                                                                            \
    X(cudaLibraryLoadData)                                                                                             \
    X(cudaLibraryUnload)                                                                                               \
    X(cudaMalloc)                                                                                                      \
    X(cudaMemGetInfo)                                                                                                  \
    X(cudaMemcpyAsync)                                                                                                 \
    X(cudaMemsetAsync)                                                                                                 \
    X(cudaPointerGetAttributes)                                                                                        \
    X(cudaRuntimeGetVersion)                                                                                           \
    X(cudaSetDevice)                                                                                                   \
    X(cudaStreamCreateWithFlags)                                                                                       \
    X(cudaStreamDestroy)                                                                                               \
    X(cudaStreamQuery)                                                                                                 \
    X(cudaStreamSynchronize)                                                                                           \
    X(cudaStreamWaitEvent)

typedef struct ki_cuda {
#define KI_CUDA_MEMBER(function) __typeof__(function) *function;
    KI_CUDA_FUNCTIONS(KI_CUDA_MEMBER)
#undef KI_CUDA_MEMBER
    int (*properties)(void *properties, int ordinal); /* cudaGetDeviceProperties, whose structure changes */
    char file[256];                                   /* where they come from */
    int version;                                      /* 13000 */
} ki_cuda;

/* The process's table, made by the first call that succeeds; NULL with one sentence in reason. `library` is the file
 * that the setting cudart_library names (KITH_CUDART_LIBRARY); NULL or "": the usual places are searched. Any thread.
 * That there is a library says nothing of a driver or of a device. */
const ki_cuda *ki_cuda_open(const char *library, char *reason, size_t reason_nbytes);

/* "no CUDA-capable device is detected (cudaErrorNoDevice)", in `text`, which is returned. */
const char *ki_cuda_words(const ki_cuda *cuda, cudaError_t error, char *text, size_t nbytes);

/* Makes `ordinal` the calling thread's device and says in *before which it was; and back. */
cudaError_t ki_cuda_enter(const ki_cuda *cuda, int ordinal, int *before);
void ki_cuda_leave(const ki_cuda *cuda, int ordinal, int before);

/* What a pointer points to; *ordinal is -1 for the host. Memory that CUDA does not know is the host's. */
cudaError_t ki_cuda_memory_kind(const ki_cuda *cuda, const void *ptr, kith_memory *memory, int *ordinal);

/* Name and UUID of a device: all that is read of its properties. */
cudaError_t ki_cuda_name(const ki_cuda *cuda, int ordinal, char name[128], unsigned char uuid[16]);

#endif
