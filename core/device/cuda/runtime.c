/* core/device/cuda/runtime.c - finds the CUDA runtime (see runtime.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "runtime.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static ki_cuda table;
static int is_open;

static const char *const files[] = {
    "libcudart.so.13",
    "libcudart.so.12",
    "libcudart.so",
    "/usr/local/cuda/lib64/libcudart.so.13",
    "/usr/local/cuda/lib64/libcudart.so.12",
    "/usr/local/cuda/lib64/libcudart.so",
};

static void *open_library(const char *library, char *reason, size_t reason_nbytes)
{
    if (library != NULL && library[0] != '\0') {
        void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
        const char *words = handle == NULL ? dlerror() : NULL;
        if (handle == NULL)
            snprintf(reason, reason_nbytes, "the CUDA runtime that cudart_library names cannot be opened: %s",
                     words != NULL ? words : library);
        return handle;
    }
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        void *handle = dlopen(files[i], RTLD_NOW | RTLD_LOCAL);
        if (handle != NULL)
            return handle;
    }
    snprintf(reason, reason_nbytes,
             "the CUDA runtime is not installed: neither libcudart.so.13 nor libcudart.so.12 is found, there or in "
             "/usr/local/cuda/lib64 (cudart_library may name the file)");
    return NULL;
}

/* Void pointers of dlsym() become functions. */
static int find(void *handle, const char *name, void *function, char *reason, size_t reason_nbytes)
{
    void *symbol = dlsym(handle, name);
    if (symbol == NULL) {
        snprintf(reason, reason_nbytes, "needs CUDA runtime 12.8 or newer (%s is missing)", name);
        return 0;
    }
    memcpy(function, &symbol, sizeof symbol);
    return 1;
}

static int fill(void *handle, ki_cuda *cuda, char *reason, size_t reason_nbytes)
{
    Dl_info where;
#define KI_CUDA_FIND(function)                                                                                         \
    if (!find(handle, #function, &cuda->function, reason, reason_nbytes))                                              \
        return 0;
    KI_CUDA_FUNCTIONS(KI_CUDA_FIND)
#undef KI_CUDA_FIND
    /* Its name was another one in version 12. */
    if (!find(handle, "cudaGetDeviceProperties_v2", &cuda->properties, reason, reason_nbytes) &&
        !find(handle, "cudaGetDeviceProperties", &cuda->properties, reason, reason_nbytes))
        return 0;
    void *symbol;
    memcpy(&symbol, &cuda->cudaGetDeviceCount, sizeof symbol);
    if (dladdr(symbol, &where) != 0 && where.dli_fname != NULL)
        snprintf(cuda->file, sizeof cuda->file, "%s", where.dli_fname);
    if (cuda->cudaRuntimeGetVersion(&cuda->version) != cudaSuccess)
        cuda->version = 0;
    return 1;
}

const ki_cuda *ki_cuda_open(const char *library, char *reason, size_t reason_nbytes)
{
    pthread_mutex_lock(&lock);
    if (!is_open) {
        void *handle = open_library(library, reason, reason_nbytes);
        if (handle != NULL) {
            memset(&table, 0, sizeof table);
            is_open = fill(handle, &table, reason, reason_nbytes);
            if (!is_open)
                dlclose(handle);
        }
    }
    pthread_mutex_unlock(&lock);
    return is_open ? &table : NULL;
}

const char *ki_cuda_words(const ki_cuda *cuda, cudaError_t error, char *text, size_t nbytes)
{
    snprintf(text, nbytes, "%s (%s)", cuda->cudaGetErrorString(error), cuda->cudaGetErrorName(error));
    return text;
}

cudaError_t ki_cuda_enter(const ki_cuda *cuda, int ordinal, int *before)
{
    cudaError_t error = cuda->cudaGetDevice(before);
    if (error != cudaSuccess)
        *before = ordinal;
    return *before == ordinal && error == cudaSuccess ? cudaSuccess : cuda->cudaSetDevice(ordinal);
}

void ki_cuda_leave(const ki_cuda *cuda, int ordinal, int before)
{
    if (before != ordinal)
        (void)cuda->cudaSetDevice(before);
}

/* Room for structures of versions that are newer than the headers. */
typedef union attributes_room {
    struct cudaPointerAttributes attributes;
    char room[512];
} attributes_room;

typedef union properties_room {
    struct cudaDeviceProp properties;
    char room[8192];
} properties_room;

cudaError_t ki_cuda_memory_kind(const ki_cuda *cuda, const void *ptr, kith_memory *memory, int *ordinal)
{
    attributes_room asked;
    memset(&asked, 0, sizeof asked);
    const cudaError_t error = cuda->cudaPointerGetAttributes(&asked.attributes, ptr);
    *memory = KITH_MEMORY_HOST;
    *ordinal = -1;
    if (error == cudaErrorInvalidValue) { /* what CUDA said of foreign memory before version 11 */
        (void)cuda->cudaGetLastError();
        return cudaSuccess;
    }
    if (error != cudaSuccess)
        return error;
    if (asked.attributes.type == cudaMemoryTypeHost)
        *memory = KITH_MEMORY_PINNED;
    if (asked.attributes.type == cudaMemoryTypeDevice)
        *memory = KITH_MEMORY_DEVICE;
    if (asked.attributes.type == cudaMemoryTypeManaged)
        *memory = KITH_MEMORY_MANAGED;
    if (*memory == KITH_MEMORY_DEVICE || *memory == KITH_MEMORY_MANAGED)
        *ordinal = asked.attributes.device;
    return cudaSuccess;
}

cudaError_t ki_cuda_name(const ki_cuda *cuda, int ordinal, char name[128], unsigned char uuid[16])
{
    properties_room asked;
    memset(&asked, 0, sizeof asked);
    const cudaError_t error = (cudaError_t)cuda->properties(&asked, ordinal);
    if (error != cudaSuccess)
        return error;
    snprintf(name, 128, "%.127s", asked.properties.name); /* the first two members, in all versions */
    memcpy(uuid, &asked.properties.uuid, 16);
    return cudaSuccess;
}
