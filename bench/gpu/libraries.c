/* bench/gpu/libraries.c - see libraries.h.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "libraries.h"

#include "core/base/library.h"
#include <stdio.h>
#include <stdlib.h>

bool bench_open_nccl(bench_nccl_library *table, char *reason, size_t reason_nbytes)
{
    static const char *const files[] = { "libnccl.so.2", "/usr/local/cuda/lib64/libnccl.so.2", "libnccl.so", NULL };
    char refused[512];
    const ki_library_search search = { "NCCL", "nccl_library", getenv("KITH_NCCL_LIBRARY"), files, NULL, NULL };
    void *handle = ki_library_open(&search, reason, reason_nbytes, refused, sizeof refused);
    if (handle == NULL)
        return false;
#define BENCH_FIND(function)                                                                                           \
    if (!ki_library_find(handle, #function, &table->function)) {                                                       \
        snprintf(reason, reason_nbytes, "%s is missing", #function);                                                   \
        return false;                                                                                                  \
    }
    BENCH_NCCL_FUNCTIONS(BENCH_FIND)
#undef BENCH_FIND
    return true;
}

const ki_cuda *bench_open_cuda(char *reason, size_t reason_nbytes)
{
    return ki_cuda_open(getenv("KITH_CUDART_LIBRARY"), reason, reason_nbytes);
}
