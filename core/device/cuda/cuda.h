/* core/device/cuda/cuda.h - what the files of the cuda module share: the runtime, how its failures are told, and the
 * device that a call works on.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_DEVICE_CUDA_H
#define KI_DEVICE_CUDA_H

#include "core/device/module.h"
#include "runtime.h"

/* What libkith handed in; set by begin(). */
extern const ki_device_host *ki_cuda_host;

/* The runtime, or NULL after host->fail() with the reason. */
const ki_cuda *ki_cuda_get(void);

/* Status of a call of CUDA that failed: "cuda: <what>: <CUDA's words>". */
kith_status ki_cuda_fail(cudaError_t error, const char *what);

/* A call on one device: the thread's current device becomes `ordinal`, and is as before after ki_cuda_end(), which
 * passes on `error` as a status. */
typedef struct ki_cuda_call {
    const ki_cuda *cuda; /* NULL: it could not begin; status says why */
    int ordinal, before;
    kith_status status;
} ki_cuda_call;

ki_cuda_call ki_cuda_begin(int ordinal);
kith_status ki_cuda_end(const ki_cuda_call *call, cudaError_t error, const char *what);

/* Rows of the module's table (memory.c, stream.c). */
kith_status ki_cuda_alloc(int ordinal, size_t nbytes, void **ptr);
kith_status ki_cuda_free(int ordinal, void *ptr);
kith_status ki_cuda_alloc_pinned(int ordinal, size_t nbytes, void **ptr);
kith_status ki_cuda_free_pinned(int ordinal, void *ptr);
kith_status ki_cuda_kind(const void *ptr, kith_memory *memory, int *ordinal);
kith_status ki_cuda_copy(int ordinal, void *stream, void *to, const void *from, size_t nbytes);
kith_status ki_cuda_fill(int ordinal, void *stream, void *ptr, int byte, size_t nbytes);

kith_status ki_cuda_stream_create(int ordinal, void **stream);
kith_status ki_cuda_stream_destroy(int ordinal, void *stream);
kith_status ki_cuda_stream_synchronize(int ordinal, void *stream);
kith_status ki_cuda_stream_query(int ordinal, void *stream, int *is_done);
kith_status ki_cuda_event_create(int ordinal, void **event);
kith_status ki_cuda_event_destroy(int ordinal, void *event);
kith_status ki_cuda_event_record(int ordinal, void *event, void *stream);
kith_status ki_cuda_event_query(int ordinal, void *event, int *is_done);
kith_status ki_cuda_event_synchronize(int ordinal, void *event);
kith_status ki_cuda_stream_wait_event(int ordinal, void *stream, void *event);

/* layers/compute/cuda/table.c */
kith_status ki_cuda_compute_open(int ordinal, void *stream, int is_tf32, struct ki_compute **compute);

#endif
