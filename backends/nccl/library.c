/* backends/nccl/library.c - opening NCCL; see library.h.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "library.h"

#include "core/base/library.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static nccl_functions functions;
static int is_open;

static const char *const files[] = { "libnccl.so.2", "/usr/local/cuda/lib64/libnccl.so.2", "libnccl.so", NULL };

const char *nccl_version_text(int version, char *text, size_t nbytes)
{
    snprintf(text, nbytes, "%d.%d.%d", version / 10000, version / 100 % 100, version % 100);
    return text;
}

/* The name of a function that the library lacks, or NULL. */
static const char *fill(void *handle)
{
#define NCCL_FIND(function)                                                                                            \
    if (!ki_library_find(handle, #function, &functions.function))                                                      \
        return #function;
    NCCL_FUNCTIONS(NCCL_FIND)
#undef NCCL_FIND
#define NCCL_FIND(function) ki_library_find(handle, #function, &functions.function);
    NCCL_LATER_FUNCTIONS(NCCL_FIND)
#undef NCCL_FIND
    return NULL;
}

static int fits(void *arg, void *handle, char *why, size_t why_nbytes)
{
    char text[32];
    __typeof__(ncclGetVersion) *get_version;
    (void)arg;
    if (!ki_library_find(handle, "ncclGetVersion", &get_version) || get_version(&functions.version) != ncclSuccess) {
        snprintf(why, why_nbytes, "this libnccl does not tell its version");
        return 0;
    }
    nccl_version_text(functions.version, text, sizeof text);
    if (functions.version < NCCL_OLDEST) {
        snprintf(why, why_nbytes, "NCCL %s is here, 2.19 or newer is needed", text);
        return 0;
    }
    const char *missing = fill(handle);
    if (missing != NULL)
        snprintf(why, why_nbytes, "this NCCL %s has no %s", text, missing);
    return missing == NULL;
}

const nccl_functions *nccl_library(char *reason, size_t reason_nbytes)
{
    char refused[512];
    const ki_library_search search = { "NCCL", "KITH_NCCL_LIBRARY", getenv("KITH_NCCL_LIBRARY"), files, fits, NULL };
    pthread_mutex_lock(&lock);
    if (!is_open)
        is_open = ki_library_open(&search, reason, reason_nbytes, refused, sizeof refused) != NULL;
    int is_usable = is_open;
    pthread_mutex_unlock(&lock);
    return is_usable ? &functions : NULL;
}
