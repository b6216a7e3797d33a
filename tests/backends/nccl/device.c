/* tests/backends/nccl/device.c - see device.h.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "device.h"

#include <string.h>

const ki_cuda *device_cuda(void)
{
    static const ki_cuda *cuda;
    char reason[400];
    if (cuda == NULL)
        cuda = ki_cuda_open(getenv("KITH_CUDART_LIBRARY"), reason, sizeof reason);
    CHECK(cuda != NULL);
    return cuda;
}

static void *upload(const void *host, size_t nbytes)
{
    void *ptr = NULL;
    CUDA(cudaMalloc(&ptr, nbytes));
    CUDA(cudaMemcpyAsync(ptr, host, nbytes, cudaMemcpyHostToDevice, (cudaStream_t)stub_device_memory.stream));
    return ptr;
}

static void download(void *host, void *ptr, size_t nbytes)
{
    CUDA(cudaMemcpyAsync(host, ptr, nbytes, cudaMemcpyDeviceToHost, (cudaStream_t)stub_device_memory.stream));
    CUDA(cudaStreamSynchronize((cudaStream_t)stub_device_memory.stream));
    CUDA(cudaFree(ptr));
}

void device_begin(int ordinal)
{
    cudaStream_t stream;
    CUDA(cudaSetDevice(ordinal));
    CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    stub_device_memory = (stub_device){ upload, download, stream };
}

void device_end(void)
{
    CUDA(cudaStreamDestroy((cudaStream_t)stub_device_memory.stream));
}

int *device_ints(size_t count, int value)
{
    int *host = (int *)malloc(count * sizeof *host), *ptr;
    CHECK(host != NULL);
    for (size_t i = 0; i < count; i++)
        host[i] = value;
    ptr = (int *)upload(host, count * sizeof *host);
    CUDA(cudaStreamSynchronize((cudaStream_t)stub_device_memory.stream));
    free(host);
    return ptr;
}

void device_read(int *to, const int *from, size_t count)
{
    CUDA(
        cudaMemcpyAsync(to, from, count * sizeof *to, cudaMemcpyDeviceToHost, (cudaStream_t)stub_device_memory.stream));
    CUDA(cudaStreamSynchronize((cudaStream_t)stub_device_memory.stream));
}

void device_free(void *ptr)
{
    CUDA(cudaFree(ptr));
}
