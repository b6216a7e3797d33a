/* backends/nccl/library.c - opening NCCL; see library.h.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "library.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static nccl_functions functions;
static int is_open;

static const char *const names[] = { "libnccl.so.2", "/usr/local/cuda/lib64/libnccl.so.2", "libnccl.so" };

const char *nccl_version_text(int version, char *text, size_t nbytes)
{
    snprintf(text, nbytes, "%d.%d.%d", version / 10000, version / 100 % 100, version % 100);
    return text;
}

static void *open_any(char *why, size_t why_nbytes)
{
    const char *asked = getenv("KITH_NCCL_LIBRARY");
    if (asked != NULL && *asked != '\0') {
        void *handle = dlopen(asked, RTLD_NOW | RTLD_LOCAL);
        const char *text = handle == NULL ? dlerror() : NULL;
        if (handle == NULL)
            snprintf(why, why_nbytes, "KITH_NCCL_LIBRARY=%s cannot be loaded: %s", asked, text != NULL ? text : "?");
        return handle;
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        void *handle = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
        const char *text = handle == NULL ? dlerror() : NULL;
        if (handle != NULL)
            return handle;
        if (i == 0)
            snprintf(why, why_nbytes, "NCCL cannot be loaded: %s", text != NULL ? text : "libnccl.so.2 not found");
    }
    return NULL;
}

static void find(void *handle, const char *name, void *function)
{
    void *address = dlsym(handle, name);
    memcpy(function, &address, sizeof address);
}

/* The name of a function that the library lacks, or NULL. */
static const char *fill(void *handle)
{
#define NCCL_FIND(function)                                                                                            \
    find(handle, #function, &functions.function);                                                                      \
    if (functions.function == NULL)                                                                                    \
        return #function;
    NCCL_FUNCTIONS(NCCL_FIND)
#undef NCCL_FIND
#define NCCL_FIND(function) find(handle, #function, &functions.function);
    NCCL_LATER_FUNCTIONS(NCCL_FIND)
#undef NCCL_FIND
    return NULL;
}

static int open_library(char *why, size_t why_nbytes)
{
    char text[32];
    void *handle = open_any(why, why_nbytes);
    if (handle == NULL)
        return 0;
    __typeof__(ncclGetVersion) *get_version;
    find(handle, "ncclGetVersion", &get_version);
    if (get_version == NULL || get_version(&functions.version) != ncclSuccess) {
        snprintf(why, why_nbytes, "this libnccl does not tell its version");
    } else if (functions.version < NCCL_OLDEST) {
        snprintf(why, why_nbytes, "NCCL %s is here, 2.19 or newer is needed",
                 nccl_version_text(functions.version, text, sizeof text));
    } else {
        const char *missing = fill(handle);
        if (missing == NULL)
            return 1;
        snprintf(why, why_nbytes, "this NCCL %s has no %s", nccl_version_text(functions.version, text, sizeof text),
                 missing);
    }
    dlclose(handle);
    return 0;
}

const nccl_functions *nccl_library(char *reason, size_t reason_nbytes)
{
    pthread_mutex_lock(&lock);
    if (!is_open)
        is_open = open_library(reason, reason_nbytes);
    int is_usable = is_open;
    pthread_mutex_unlock(&lock);
    return is_usable ? &functions : NULL;
}
