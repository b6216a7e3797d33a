/* kith/device.h - GPUs: their memory, streams and events, as far as collectives and layers need them.
 *
 *     kith_device *gpu;
 *     kith_device_open(0, &gpu);                                 // CUDA device 0, for this thread's objects
 *     kith_stream *work;
 *     kith_stream_create(gpu, &work);                            // or kith_stream_wrap(): the trainer's own
 *     kith_group_set_stream(world, work);
 *     kith_all_reduce(world, gradients, gradients, n, KITH_F32, KITH_SUM);   // device memory: goes in the stream
 *     kith_stream_synchronize(work);
 *
 * CUDA is opened at run time: libkith and its modules link to none of its libraries. Where it is missing, or no device
 * is there, the functions that make something return KITH_ERR_UNSUPPORTED with the reason, which `kith info` prints
 * too; everything on host memory works as ever.
 *
 * Order. Work in one stream runs in the order in which it was put there; streams are ordered among each other by
 * events alone. kith_group_set_stream() says into which stream a group's operations on device memory belong: an
 * operation begins when the work that the stream held at the call is done. The blocking forms then return as soon as
 * the operation is ordered - later work of the stream comes after it - and not when it has run. A started operation
 * runs beside later work of the stream, until kith_request_stream_wait() orders a stream behind it, or kith_wait()
 * blocks the host. Without a stream, buffers must be ready when the operation is called, and blocking means blocking.
 * Operations on host memory do not know streams.
 *
 * Failures of what is ordered in a stream (a peer died, a deadline passed) come out of later calls on the group, of
 * kith_group_synchronize() and of kith_group_status(). An operation on device memory, messages included, that fails on
 * one rank because of its device or of NCCL ends the group there, and on the other ranks as KITH_ERR_PEER_FAILED (or
 * KITH_ERR_ABORTED, where the transport says so first).
 *
 * Which memory a pointer belongs to is asked from CUDA at every operation of a context that has a device; all buffers
 * of an operation are memory of the context's device, or none is, and all ranks give the same kind. A rank whose part
 * is empty and whose pointers are NULL counts as giving device memory when the group has a stream. Device memory
 * reaches the other ranks by NCCL where the group has it, else through pinned buffers on the host, over whatever the
 * group uses for host memory; large all_reduce, reduce and broadcast in pieces (KITH_STAGE_NBYTES).
 *
 * A context without a device knows device memory only in a process in which some kith_device is open; then it refuses
 * it.
 *
 * Threads: a device's objects are used by one thread at a time, like a context. The calling thread's current CUDA
 * device is as before after every call.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KITH_DEVICE_H
#define KITH_DEVICE_H

#include <kith/request.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kith_device kith_device;
typedef struct kith_stream kith_stream;
typedef struct kith_event kith_event;
typedef struct kith_pool kith_pool;

/* Devices that this process may use (CUDA_VISIBLE_DEVICES counts). KITH_ERR_UNSUPPORTED with the reason when CUDA
 * cannot be used; *count is then 0. */
KITH_API kith_status kith_device_count(int *count);

/* Opens device `ordinal` of this process, -1: the calling thread's current one. Opening one twice gives two handles to
 * the same device. Owner: the caller, until kith_device_close(), after everything made on it. */
KITH_API kith_status kith_device_open(int ordinal, kith_device **device);
/* KITH_ERR_BUSY while memory, streams, events or pools of it are alive, or a context or layers use it; the detail
 * counts them. NULL is fine. */
KITH_API kith_status kith_device_close(kith_device *device);

typedef struct kith_device_info {
    size_t struct_size;
    char name[128]; /* "NVIDIA H200" */
    char uuid[48];  /* "GPU-..." */
    char pci[24];   /* "0000:3b:00.0" */
    int ordinal;
    int major, minor; /* compute capability */
    int processors;   /* streaming multiprocessors */
    uint64_t memory_nbytes, free_nbytes;
} kith_device_info;

#define KITH_DEVICE_INFO_INIT                                                                                          \
    {                                                                                                                  \
        sizeof(kith_device_info), "", "", "", 0, 0, 0, 0, 0, 0                                                         \
    }

/* Fills *info up to its struct_size. */
KITH_API kith_status kith_device_describe(kith_device *device, kith_device_info *info);

/* ---- memory ---- */

typedef enum kith_memory {
    KITH_MEMORY_HOST = 0, /* all that CUDA does not know */
    KITH_MEMORY_PINNED,   /* of the host, known to CUDA: copies run beside the host */
    KITH_MEMORY_DEVICE,
    KITH_MEMORY_MANAGED /* reached from both; treated as device memory */
} kith_memory;

/* "host", "pinned", "device", "managed". Static storage. */
KITH_API const char *kith_memory_name(kith_memory memory);

/* What ptr points to; *ordinal (may be NULL) the device it lies on, -1 for the host. Host memory when CUDA cannot be
 * used. */
KITH_API kith_status kith_memory_kind(const void *ptr, kith_memory *memory, int *ordinal);

/* nbytes > 0, 256-byte aligned, not zeroed. KITH_ERR_NO_MEMORY says how much is free. Freed by kith_device_free() of
 * the same handle (memory of another or of a pool: KITH_ERR_INVALID_ARG), which waits for work of the device that may
 * use it. NULL is fine. */
KITH_API kith_status kith_device_alloc(kith_device *device, size_t nbytes, void **ptr);
KITH_API kith_status kith_device_free(kith_device *device, void *ptr);

/* Pinned memory of the host, page-aligned. */
KITH_API kith_status kith_device_alloc_pinned(kith_device *device, size_t nbytes, void **ptr);
KITH_API kith_status kith_device_free_pinned(kith_device *device, void *ptr);

/* ---- streams ---- */

KITH_API kith_status kith_stream_create(kith_device *device, kith_stream **stream);
/* A stream of the caller (cudaStream_t; NULL is CUDA's default stream), who keeps it alive; destroying the handle
 * leaves it alone. */
KITH_API kith_status kith_stream_wrap(kith_device *device, void *native, kith_stream **stream);
KITH_API void *kith_stream_native(const kith_stream *stream);
/* Waits for the work in a stream that kith_stream_create() made. NULL is fine. */
KITH_API kith_status kith_stream_destroy(kith_stream *stream);
/* Blocks until all work that was put in is done; its first failure is returned (KITH_ERR_INTERNAL with CUDA's
 * words). */
KITH_API kith_status kith_stream_synchronize(kith_stream *stream);
/* *is_done = 1 when it holds no work. Never blocks. */
KITH_API kith_status kith_stream_query(kith_stream *stream, int *is_done);

/* Copies in the order of the stream, any direction; returns at once where a side is not ordinary host memory, and both
 * buffers must stay until the stream came there. Ordinary host memory is read (written) when the call returns. */
KITH_API kith_status kith_stream_copy(kith_stream *stream, void *to, const void *from, size_t nbytes);
/* Sets each of nbytes bytes of device memory to `byte`. */
KITH_API kith_status kith_stream_fill(kith_stream *stream, void *ptr, int byte, size_t nbytes);

/* ---- memory in the order of a stream ---- */

/* A pool of a device's memory. Its allocations and frees take their place in a stream and wait for nothing, where
 * kith_device_free() waits for all work of the device, collectives of other ranks included:
 *
 *     kith_pool_create(gpu, NULL, &pool);
 *     kith_pool_alloc(pool, work, nbytes, &scratch);   // at once
 *     ...                                              // work on scratch is put into `work`
 *     kith_pool_free(pool, work, scratch);             // at once: goes when the stream comes there
 *
 * The memory may be used by work that is put into the stream after kith_pool_alloc() and before kith_pool_free(), and
 * by work that is ordered between these two by events. The same memory is then given out again, so work that is not
 * ordered so reads and writes somebody else's. */
typedef struct kith_pool_options {
    size_t struct_size;
    uint64_t keep_nbytes; /* of what was freed, kept for later allocations; what is more goes back to the device when a
                             stream, an event or the device is waited for. UINT64_MAX: all is kept */
    uint64_t most_nbytes; /* that the pool may take from the device; 0: as many as there are */
} kith_pool_options;

#define KITH_POOL_OPTIONS_INIT                                                                                         \
    {                                                                                                                  \
        sizeof(kith_pool_options), UINT64_MAX, 0                                                                       \
    }

/* options NULL: as after KITH_POOL_OPTIONS_INIT. KITH_ERR_UNSUPPORTED where the device has no pools. Owner: the caller,
 * until kith_pool_destroy(), before the device is closed. */
KITH_API kith_status kith_pool_create(kith_device *device, const kith_pool_options *options, kith_pool **pool);
/* Frees may be under way. KITH_ERR_BUSY while memory of it is not freed. NULL is fine. */
KITH_API kith_status kith_pool_destroy(kith_pool *pool);

/* nbytes > 0, 256-byte aligned, not zeroed. The stream is of the pool's device. KITH_ERR_NO_MEMORY says how much is
 * free, or what the limit is. */
KITH_API kith_status kith_pool_alloc(kith_pool *pool, kith_stream *stream, size_t nbytes, void **ptr);
/* Any stream of the device that comes after all that uses the memory. NULL is fine. */
KITH_API kith_status kith_pool_free(kith_pool *pool, kith_stream *stream, void *ptr);

/* Gives what is not in use back to the device, but for keep_nbytes. Memory whose free the host has not waited for
 * stays. */
KITH_API kith_status kith_pool_trim(kith_pool *pool, uint64_t keep_nbytes);

typedef struct kith_pool_info {
    size_t struct_size;
    uint64_t used_nbytes, most_used_nbytes; /* allocated now, and at most so far */
    uint64_t held_nbytes;                   /* taken from the device: used and kept */
} kith_pool_info;

#define KITH_POOL_INFO_INIT                                                                                            \
    {                                                                                                                  \
        sizeof(kith_pool_info), 0, 0, 0                                                                                \
    }

/* Fills *info up to its struct_size. */
KITH_API kith_status kith_pool_describe(kith_pool *pool, kith_pool_info *info);

/* ---- events ---- */

KITH_API kith_status kith_event_create(kith_device *device, kith_event **event);
KITH_API kith_status kith_event_destroy(kith_event *event); /* NULL is fine */
/* Marks the work that the stream holds now. */
KITH_API kith_status kith_event_record(kith_event *event, kith_stream *stream);
/* Later work of the stream waits for what the event marks; an event that was never recorded marks nothing. */
KITH_API kith_status kith_stream_wait_event(kith_stream *stream, kith_event *event);
KITH_API kith_status kith_event_query(kith_event *event, int *is_done);
KITH_API kith_status kith_event_synchronize(kith_event *event);

/* ---- contexts and groups ---- */

/* The device that a context was told to use (kith_init_options.device or KITH_DEVICE): "cuda" is the calling thread's
 * current one, "cuda:1" the second, "cuda:local" the one with the number of the local rank modulo the devices there
 * are. Borrowed; lives as long as ctx. NULL: none, and operations take host memory alone. */
KITH_API kith_device *kith_ctx_device(const kith_ctx *ctx);

/* What moves device memory of the group: "nccl"; "mpi" or "ucx" where that takes device memory itself; or "staged"
 * (through the host; also single operations that the others do not have). NULL when the context has no device. Static
 * storage. */
KITH_API const char *kith_group_device_backend(const kith_group *group);

/* The same in words, with what carries single operations and why the rest is staged: "staged over shm: world ranks 0
 * and 1 share a GPU". NULL when the context has no device. Lives as long as the group. */
KITH_API const char *kith_group_device_summary(const kith_group *group);

/* Operations of the group on device memory belong into this stream from now on; NULL: none. The stream is of the
 * context's device (kith_init_options.device), else KITH_ERR_INVALID_ARG; it must live until another is set, or the
 * group goes. Local. */
KITH_API kith_status kith_group_set_stream(kith_group *group, kith_stream *stream);

/* Orders `stream` behind a started operation on device memory and releases the request (*request = NULL): buffers
 * may be used by work put into the stream from now on. Blocks the host only as far as the operation passes through it
 * (staging). On host memory: kith_wait(). A failure that comes later is the group's. A persistent request stays, and
 * its next start waits for the run before. */
KITH_API kith_status kith_request_stream_wait(kith_request **request, kith_stream *stream);

/* Blocks until the group's operations on device memory have run, with the group's deadline; their first failure is
 * returned. */
KITH_API kith_status kith_group_synchronize(kith_group *group);

#ifdef __cplusplus
}
#endif
#endif
