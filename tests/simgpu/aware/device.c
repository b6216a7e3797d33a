/* tests/simgpu/aware/device.c - see device.h.
 *
 * The simulated runtime is the one that the library opens (KITH_CUDART_LIBRARY).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "device.h"

#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

static struct {
    int (*memory_of)(const void *ptr, int *device, void **from, size_t *nbytes);
    cudaError_t (*get_device)(int *device);
    cudaError_t (*set_device)(int device);
    cudaError_t (*stream_create)(cudaStream_t *stream, unsigned flags);
    cudaError_t (*stream_synchronize)(cudaStream_t stream);
    cudaError_t (*stream_destroy)(cudaStream_t stream);
    cudaError_t (*copy)(void *to, const void *from, size_t nbytes, enum cudaMemcpyKind kind, cudaStream_t stream);
    cudaError_t (*fill)(void *to, int byte, size_t nbytes, cudaStream_t stream);
} cuda;

_Noreturn static void give_up(const char *what)
{
    fprintf(stderr, "aware: %s\n", what);
    abort();
}

static void find(void *library, const char *name, void *function)
{
    *(void **)function = dlsym(library, name);
    if (*(void **)function == NULL)
        give_up(name);
}

static bool open_runtime(void)
{
    const char *path = getenv("KITH_CUDART_LIBRARY");
    void *library = path != NULL ? dlopen(path, RTLD_NOW | RTLD_NOLOAD) : NULL;
    if (library == NULL)
        return false; /* nobody has device memory yet */
    find(library, "cudaGetDevice", &cuda.get_device);
    find(library, "cudaSetDevice", &cuda.set_device);
    find(library, "cudaStreamCreateWithFlags", &cuda.stream_create);
    find(library, "cudaStreamSynchronize", &cuda.stream_synchronize);
    find(library, "cudaStreamDestroy", &cuda.stream_destroy);
    find(library, "cudaMemcpyAsync", &cuda.copy);
    find(library, "cudaMemsetAsync", &cuda.fill);
    find(library, "sim_memory_of", &cuda.memory_of);
    return true;
}

bool aware_is_device(const void *ptr)
{
    if (ptr == NULL || (cuda.memory_of == NULL && !open_runtime()))
        return false;
    return cuda.memory_of(ptr, NULL, NULL, NULL) == 1;
}

static void check(cudaError_t error)
{
    if (error != cudaSuccess)
        give_up("the simulated runtime failed");
}

/* from NULL: a fill. */
static void run(void *to, const void *from, size_t nbytes)
{
    int device = 0, before = 0;
    cudaStream_t stream;
    cuda.memory_of(aware_is_device(to) ? to : from, &device, NULL, NULL);
    check(cuda.get_device(&before));
    check(cuda.set_device(device));
    check(cuda.stream_create(&stream, cudaStreamNonBlocking));
    check(from != NULL ? cuda.copy(to, from, nbytes, cudaMemcpyDefault, stream) : cuda.fill(to, 0xfd, nbytes, stream));
    check(cuda.stream_synchronize(stream));
    check(cuda.stream_destroy(stream));
    check(cuda.set_device(before));
}

void aware_copy(void *to, const void *from, size_t nbytes)
{
    if (nbytes > 0)
        run(to, from, nbytes);
}

void aware_spoil(void *device, size_t nbytes)
{
    if (nbytes > 0)
        run(device, NULL, nbytes);
}

void *aware_alloc(size_t nbytes)
{
    void *memory = malloc(nbytes > 0 ? nbytes : 1);
    if (memory == NULL)
        give_up("no memory");
    return memory;
}
