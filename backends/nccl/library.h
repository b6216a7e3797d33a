/* backends/nccl/library.h - NCCL, opened when it is needed.
 *
 * The module links neither to NCCL nor to CUDA. nccl_library() looks for libnccl.so.2 - first the file that
 * KITH_NCCL_LIBRARY names, then what the process has or the loader finds, then CUDA's usual folder - and fills the
 * table below. Versions are told apart by what is there and by ncclGetVersion(): functions of the first list are those
 * of 2.19, without which nothing works; those of the second are NULL where the library has none.
 *
 * Structures that grew (ncclConfig_t) are handed over in the size that 2.19 knows, which every later library takes.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_NCCL_LIBRARY_H
#define KI_NCCL_LIBRARY_H

#include <nccl.h>
#include <stddef.h>

#define NCCL_OLDEST 21900
#define NCCL_WITH_FP8 22400

#define NCCL_FUNCTIONS(X)                                                                                              \
    X(ncclGetUniqueId)                                                                                                 \
    X(ncclCommInitRankConfig)                                                                                          \
    X(ncclCommFinalize)                                                                                                \
    X(ncclCommDestroy)                                                                                                 \
    X(ncclCommAbort)                                                                                                   \
    X(ncclGetErrorString)                                                                                              \
    X(ncclGetLastError)                                                                                                \
    X(ncclCommGetAsyncError)                                                                                           \
    X(ncclRedOpCreatePreMulSum)                                                                                        \
    X(ncclRedOpDestroy)                                                                                                \
    X(ncclReduce)                                                                                                      \
    X(ncclBroadcast)                                                                                                   \
    X(ncclAllReduce)                                                                                                   \
    X(ncclReduceScatter)                                                                                               \
    X(ncclAllGather)                                                                                                   \
    X(ncclSend)                                                                                                        \
    X(ncclRecv)                                                                                                        \
    X(ncclGroupStart)                                                                                                  \
    X(ncclGroupEnd)

#define NCCL_LATER_FUNCTIONS(X)                                                                                        \
    X(ncclCommRegister)                                                                                                \
    X(ncclCommDeregister)                                                                                              \
    X(ncclCommRevoke)                                                                                                  \
    X(ncclCommSplit)                                                                                                   \
    X(ncclAlltoAll)

typedef struct nccl_functions {
#define NCCL_MEMBER(function) __typeof__(function) *function;
    NCCL_FUNCTIONS(NCCL_MEMBER)
    NCCL_LATER_FUNCTIONS(NCCL_MEMBER)
#undef NCCL_MEMBER
    int version; /* 22809 */
} nccl_functions;

/* The process's table, or NULL with one line in reason. Thread-safe. */
const nccl_functions *nccl_library(char *reason, size_t reason_nbytes);

/* "2.28.9", in text, which is returned. */
const char *nccl_version_text(int version, char *text, size_t nbytes);

#endif
