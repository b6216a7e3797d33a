/* backends/nccl/status.c - what NCCL and CUDA say, in our statuses and in sentences.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "backend.h"

#include <stdio.h>
#include <time.h>

/* Libraries that are newer than this table have more results: what is not known here is the library's own failure. */
kith_status nccl_status(ncclResult_t result)
{
    switch ((int)result) {
    case ncclSuccess:
        return KITH_OK;
    case ncclUnhandledCudaError: /* the driver or the device refused something */
    case ncclSystemError:
        return KITH_ERR_NO_RESOURCE;
    case ncclInvalidArgument:
    case ncclInvalidUsage: /* two ranks on one GPU */
        return KITH_ERR_INVALID_ARG;
    case ncclRemoteError:
        return KITH_ERR_PEER_FAILED;
    default:
        return KITH_ERR_INTERNAL;
    }
}

const char *nccl_words(const nccl_be *be, ncclComm_t comm, ncclResult_t result, char *text, size_t nbytes)
{
    const char *last = be->nccl->ncclGetLastError(comm);
    const char *plain = be->nccl->ncclGetErrorString(result);
    bool has_last = last != NULL && *last != '\0';
    snprintf(text, nbytes, "NCCL: %s (%d)%s%s", plain != NULL ? plain : "unknown result", (int)result,
             has_last ? ": " : "", has_last ? last : "");
    for (char *c = text; *c != '\0'; c++) /* NCCL's texts may have lines */
        if (*c == '\n')
            *c = ' ';
    return text;
}

kith_status nccl_cuda_fail(const nccl_be *be, const char *what, cudaError_t error)
{
    char text[200];
    return be->host->fail(error == cudaErrorMemoryAllocation ? KITH_ERR_NO_MEMORY : KITH_ERR_NO_RESOURCE,
                          "backend nccl: %s on device %d: %s", what, be->device,
                          ki_cuda_words(be->cuda, error, text, sizeof text));
}

int64_t nccl_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

void nccl_pause(void)
{
    struct timespec pause = { 0, 100000 };
    nanosleep(&pause, NULL);
}
