/* layers/compute/cuda/cublas.c - finds cuBLAS (see cublas.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "cublas.h"

#include "core/base/library.h"
#include <pthread.h>
#include <stdio.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static ki_cublas table;
static int is_open;

#define FOLDER "/usr/local/cuda/lib64/"

/* A cuBLAS wants a driver as its own CUDA's runtime does, so that of the runtime's version goes first. */
static const char *const files_13[] = {
    "libcublas.so.13",        "libcublas.so.12",     "libcublas.so", FOLDER "libcublas.so.13",
    FOLDER "libcublas.so.12", FOLDER "libcublas.so", NULL,
};
static const char *const files_12[] = {
    "libcublas.so.12",        "libcublas.so.13",     "libcublas.so", FOLDER "libcublas.so.12",
    FOLDER "libcublas.so.13", FOLDER "libcublas.so", NULL,
};

static int fill(void *arg, void *handle, char *why, size_t why_nbytes)
{
    ki_cublas *const cublas = (ki_cublas *)arg;
#define KI_CUBLAS_FIND(function)                                                                                       \
    if (!ki_library_find(handle, #function, &cublas->function)) {                                                      \
        snprintf(why, why_nbytes, "needs cuBLAS 12 or newer (%s is missing)", #function);                              \
        return 0;                                                                                                      \
    }
    KI_CUBLAS_FUNCTIONS(KI_CUBLAS_FIND)
#undef KI_CUBLAS_FIND
    cublas->has_lt = 1;
#define KI_CUBLAS_FIND(function) cublas->has_lt &= ki_library_find(handle, #function, &cublas->function);
    KI_CUBLAS_LT_FUNCTIONS(KI_CUBLAS_FIND) /* a search in a library goes on in those that it needs */
#undef KI_CUBLAS_FIND
    return 1;
}

const ki_cublas *ki_cublas_open(const char *library, int runtime, char *reason, size_t reason_nbytes)
{
    char refused[512];
    const ki_library_search search = { "cuBLAS", "cublas_library",
                                       library,  runtime > 0 && runtime < 13000 ? files_12 : files_13,
                                       fill,     &table };
    pthread_mutex_lock(&lock);
    if (!is_open)
        is_open = ki_library_open(&search, reason, reason_nbytes, refused, sizeof refused) != NULL;
    pthread_mutex_unlock(&lock);
    return is_open ? &table : NULL;
}
