/* bench/gpu/libraries.c - see libraries.h.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "libraries.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The first of the names that opens; a variable of the environment goes before them and stands alone. */
static void *open_first(const char *variable, const char *const *names, char *reason, size_t reason_nbytes)
{
    const char *asked = getenv(variable);
    void *handle = NULL;
    if (asked != NULL && asked[0] != '\0')
        handle = dlopen(asked, RTLD_NOW | RTLD_LOCAL);
    else
        for (; handle == NULL && *names != NULL; names++)
            handle = dlopen(*names, RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL)
        snprintf(reason, reason_nbytes, "%s", dlerror());
    return handle;
}

static bool find(void *handle, const char *name, void *function, char *reason, size_t reason_nbytes)
{
    void *address = dlsym(handle, name);
    memcpy(function, &address, sizeof address);
    if (address == NULL)
        snprintf(reason, reason_nbytes, "%s is missing", name);
    return address != NULL;
}

bool bench_open_nccl(bench_nccl_library *table, char *reason, size_t reason_nbytes)
{
    static const char *const names[] = { "libnccl.so.2", "/usr/local/cuda/lib64/libnccl.so.2", "libnccl.so", NULL };
    void *handle = open_first("KITH_NCCL_LIBRARY", names, reason, reason_nbytes);
    bool is_whole = handle != NULL;
#define BENCH_FIND(function) is_whole = is_whole && find(handle, #function, &table->function, reason, reason_nbytes);
    BENCH_NCCL_FUNCTIONS(BENCH_FIND)
    return is_whole;
}

bool bench_open_cuda(bench_cuda_library *table, char *reason, size_t reason_nbytes)
{
    static const char *const names[] = { "libcudart.so.13",
                                         "libcudart.so.12",
                                         "libcudart.so",
                                         "/usr/local/cuda/lib64/libcudart.so.13",
                                         "/usr/local/cuda/lib64/libcudart.so.12",
                                         "/usr/local/cuda/lib64/libcudart.so",
                                         NULL };
    void *handle = open_first("KITH_CUDART_LIBRARY", names, reason, reason_nbytes);
    bool is_whole = handle != NULL;
    BENCH_CUDA_FUNCTIONS(BENCH_FIND)
#undef BENCH_FIND
    return is_whole;
}
