/* core/device/cuda/runtime.c - finds the CUDA runtime (see runtime.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "runtime.h"

#include "core/base/library.h"
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
    NULL,
};

static int find(void *handle, const char *name, void *function, char *why, size_t why_nbytes)
{
    if (ki_library_find(handle, name, function))
        return 1;
    snprintf(why, why_nbytes, "needs CUDA runtime 12.8 or newer (%s is missing)", name);
    return 0;
}

static int fill(void *handle, ki_cuda *cuda, char *why, size_t why_nbytes)
{
    Dl_info where;
#define KI_CUDA_FIND(function)                                                                                         \
    if (!find(handle, #function, &cuda->function, why, why_nbytes))                                                    \
        return 0;
    KI_CUDA_FUNCTIONS(KI_CUDA_FIND)
#undef KI_CUDA_FIND
    /* Its name was another one in version 12. */
    if (!find(handle, "cudaGetDeviceProperties_v2", &cuda->properties, why, why_nbytes) &&
        !find(handle, "cudaGetDeviceProperties", &cuda->properties, why, why_nbytes))
        return 0;
    void *symbol;
    memcpy(&symbol, &cuda->cudaGetDeviceCount, sizeof symbol);
    if (dladdr(symbol, &where) != 0 && where.dli_fname != NULL)
        snprintf(cuda->file, sizeof cuda->file, "%s", where.dli_fname);
    if (cuda->cudaRuntimeGetVersion(&cuda->version) != cudaSuccess)
        cuda->version = 0;
    return 1;
}

/* Where the driver lacks one, calls that need it say so; a machine without driver has no device either. */
static void fill_driver(ki_cuda *cuda)
{
    enum cudaDriverEntryPointQueryResult result;
    void *symbol;
#define KI_CUDA_ASK(function)                                                                                          \
    symbol = NULL;                                                                                                     \
    if (cuda->cudaGetDriverEntryPointByVersion(#function, &symbol, 12000, cudaEnableDefault, &result) != cudaSuccess)  \
        symbol = NULL;                                                                                                 \
    memcpy(&cuda->function, &symbol, sizeof symbol);
    KI_CUDA_DRIVER_FUNCTIONS(KI_CUDA_ASK)
#undef KI_CUDA_ASK
    (void)cuda->cudaGetLastError();
}

/* A runtime of a newer major version than the driver's can do nothing; an older one that is there too may. */
static int fits(void *arg, void *handle, char *why, size_t why_nbytes)
{
    ki_cuda *const cuda = (ki_cuda *)arg;
    char text[256];
    int count = 0;
    memset(cuda, 0, sizeof *cuda);
    if (!fill(handle, cuda, why, why_nbytes))
        return 0;
    const cudaError_t error = cuda->cudaGetDeviceCount(&count);
    (void)cuda->cudaGetLastError();
    if (error == cudaErrorInsufficientDriver) {
        snprintf(why, why_nbytes, "CUDA runtime %d.%d: %s", cuda->version / 1000, cuda->version % 1000 / 10,
                 ki_cuda_words(cuda, error, text, sizeof text));
        return 0;
    }
    fill_driver(cuda);
    return 1;
}

const ki_cuda *ki_cuda_open(const char *library, char *reason, size_t reason_nbytes)
{
    char refused[sizeof table.refused];
    const ki_library_search search = { "the CUDA runtime", "cudart_library", library, files, fits, &table };
    pthread_mutex_lock(&lock);
    if (!is_open) {
        is_open = ki_library_open(&search, reason, reason_nbytes, refused, sizeof refused) != NULL;
        memcpy(table.refused, refused, sizeof refused);
    }
    pthread_mutex_unlock(&lock);
    return is_open ? &table : NULL;
}

const char *ki_cuda_words(const ki_cuda *cuda, cudaError_t error, char *text, size_t nbytes)
{
    snprintf(text, nbytes, "%s (%s)", cuda->cudaGetErrorString(error), cuda->cudaGetErrorName(error));
    return text;
}

/* Room for structures of versions that are newer than the headers. */
typedef union properties_room {
    struct cudaDeviceProp properties;
    char room[8192];
} properties_room;

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
