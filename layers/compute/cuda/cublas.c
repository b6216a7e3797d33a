/* layers/compute/cuda/cublas.c - finds cuBLAS (see cublas.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "cublas.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static ki_cublas table;
static int is_open;

static const char *const files[] = {
    "libcublas.so.13",
    "libcublas.so.12",
    "libcublas.so",
    "/usr/local/cuda/lib64/libcublas.so.13",
    "/usr/local/cuda/lib64/libcublas.so.12",
    "/usr/local/cuda/lib64/libcublas.so",
};

static void *open_library(const char *library, char *reason, size_t reason_nbytes)
{
    if (library != NULL && library[0] != '\0') {
        void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
        const char *words = handle == NULL ? dlerror() : NULL;
        if (handle == NULL)
            snprintf(reason, reason_nbytes, "the library that cublas_library names cannot be opened: %s",
                     words != NULL ? words : library);
        return handle;
    }
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        void *handle = dlopen(files[i], RTLD_NOW | RTLD_LOCAL);
        if (handle != NULL)
            return handle;
    }
    snprintf(reason, reason_nbytes,
             "cuBLAS is not installed: neither libcublas.so.13 nor libcublas.so.12 is found, there or in "
             "/usr/local/cuda/lib64 (cublas_library may name the file)");
    return NULL;
}

static int fill(void *handle, char *reason, size_t reason_nbytes)
{
    void *symbol;
#define KI_CUBLAS_FIND(function)                                                                                       \
    symbol = dlsym(handle, #function);                                                                                 \
    if (symbol == NULL) {                                                                                              \
        snprintf(reason, reason_nbytes, "needs cuBLAS 12 or newer (%s is missing)", #function);                        \
        return 0;                                                                                                      \
    }                                                                                                                  \
    memcpy(&table.function, &symbol, sizeof symbol);
    KI_CUBLAS_FUNCTIONS(KI_CUBLAS_FIND)
#undef KI_CUBLAS_FIND
    return 1;
}

const ki_cublas *ki_cublas_open(const char *library, char *reason, size_t reason_nbytes)
{
    pthread_mutex_lock(&lock);
    if (!is_open) {
        void *handle = open_library(library, reason, reason_nbytes);
        if (handle != NULL) {
            is_open = fill(handle, reason, reason_nbytes);
            if (!is_open)
                dlclose(handle);
        }
    }
    pthread_mutex_unlock(&lock);
    return is_open ? &table : NULL;
}
