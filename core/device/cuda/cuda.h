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

/* Ends the call: there are no `nbytes` bytes, and how many are free. */
kith_status ki_cuda_no_memory(const ki_cuda_call *call, size_t nbytes);

/* Rows of the module's table (memory.c, stream.c, pool.c). */
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

cudaError_t ki_cuda_has_pools(const ki_cuda *cuda, int ordinal, int *has_pools);
kith_status ki_cuda_pool_create(int ordinal, uint64_t keep_nbytes, uint64_t most_nbytes, void **pool);
kith_status ki_cuda_pool_destroy(int ordinal, void *pool);
kith_status ki_cuda_pool_alloc(int ordinal, void *pool, void *stream, size_t nbytes, void **ptr);
kith_status ki_cuda_pool_free(int ordinal, void *stream, void *ptr);
kith_status ki_cuda_pool_trim(int ordinal, void *pool, uint64_t keep_nbytes);
kith_status ki_cuda_pool_describe(int ordinal, void *pool, kith_pool_info *info);

/* Loads all kernels of a library on the calling thread's device. A kernel that is loaded at its first launch may wait
 * for all that the device runs, so also for a collective that waits for this rank. */
cudaError_t ki_cuda_load_kernels(const ki_cuda *cuda, cudaLibrary_t library);

/* reduce/launch.c */
kith_status ki_cuda_reduce(int ordinal, void *stream, const ki_device_reduce *what);

/* layers/compute/cuda/table.c */
kith_status ki_cuda_compute_open(int ordinal, void *stream, int is_tf32, struct ki_compute **compute);

#endif
