/* core/device/module.h - what the module of a kind of device is: one table of functions, found by one versioned symbol.
 *
 * libkith asks for libkith_cuda.so in its module folder (and in KITH_BACKEND_PATH) and calls it through this table
 * alone. The module links to nothing of libkith, and opens the vendor's libraries at run time: opening the module
 * always works, available() says whether it can be used.
 *
 * Streams and events are the vendor's own handles (cudaStream_t, cudaEvent_t) as void pointers. Every function leaves
 * the calling thread's current device as it was. Statuses: KITH_OK, or a negative one after host->fail() with one
 * sentence.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_DEVICE_MODULE_H
#define KI_DEVICE_MODULE_H

#include <kith/device.h>
#include <kith/dtype.h>
#include <kith/op.h>

#define KI_DEVICE_ABI 1
#define KI_DEVICE_SYMBOL "kith_device_v1"

struct ki_compute;

/* One step of a reduction (core/reduce/reduce.h), of `count` elements in device memory: load makes accumulators of
 * elements, combine joins accumulators, store makes elements of them. out may be a, or b. */
typedef enum ki_reduce_step { KI_DEVICE_LOAD, KI_DEVICE_COMBINE, KI_DEVICE_STORE } ki_reduce_step;
#define KI_DEVICE_PREMUL 100 /* op: premul_sum, else a built-in operator's number */
typedef struct ki_device_reduce {
    ki_reduce_step step;
    kith_dtype dtype;
    int op, ranks; /* avg divides by ranks */
    double scalar;
    int64_t int_scalar;
    const void *a, *b; /* b: of combine */
    void *out;
    size_t count;
} ki_device_reduce;

/* What libkith hands in, once, before anything else is called. */
typedef struct ki_device_host {
    size_t struct_size;
    kith_status (*fail)(kith_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));
    /* Value of a setting of the process (environment), or default_value. */
    const char *(*setting)(const char *name, const char *default_value);
} ki_device_host;

typedef struct ki_device_ops {
    uint32_t abi;
    size_t struct_size;
    const char *name; /* "cuda" */

    void (*begin)(const ki_device_host *host);
    /* KITH_OK or KITH_ERR_UNSUPPORTED, with one line in reason either way. No lasting side effects on failure. */
    kith_status (*available)(char *reason, size_t reason_nbytes);
    kith_status (*count)(int *count);
    kith_status (*current)(int *ordinal); /* of the calling thread */
    kith_status (*describe)(int ordinal, kith_device_info *info);

    kith_status (*alloc)(int ordinal, size_t nbytes, void **ptr);
    kith_status (*free)(int ordinal, void *ptr);
    kith_status (*alloc_pinned)(int ordinal, size_t nbytes, void **ptr);
    kith_status (*free_pinned)(int ordinal, void *ptr);
    kith_status (*memory_kind)(const void *ptr, kith_memory *memory, int *ordinal);

    kith_status (*stream_create)(int ordinal, void **stream);
    kith_status (*stream_destroy)(int ordinal, void *stream);
    kith_status (*stream_synchronize)(int ordinal, void *stream);
    kith_status (*stream_query)(int ordinal, void *stream, int *is_done);
    kith_status (*event_create)(int ordinal, void **event);
    kith_status (*event_destroy)(int ordinal, void *event);
    kith_status (*event_record)(int ordinal, void *event, void *stream);
    kith_status (*event_query)(int ordinal, void *event, int *is_done);
    kith_status (*event_synchronize)(int ordinal, void *event);
    kith_status (*stream_wait_event)(int ordinal, void *stream, void *event);

    kith_status (*copy)(int ordinal, void *stream, void *to, const void *from, size_t nbytes);
    kith_status (*fill)(int ordinal, void *stream, void *ptr, int byte, size_t nbytes);

    /* Pools: see kith/device.h; KITH_ERR_UNSUPPORTED where the device has none. */
    kith_status (*pool_create)(int ordinal, uint64_t keep_nbytes, uint64_t most_nbytes, void **pool);
    kith_status (*pool_destroy)(int ordinal, void *pool);
    kith_status (*pool_alloc)(int ordinal, void *pool, void *stream, size_t nbytes, void **ptr);
    kith_status (*pool_free)(int ordinal, void *stream, void *ptr);
    kith_status (*pool_trim)(int ordinal, void *pool, uint64_t keep_nbytes);
    kith_status (*pool_describe)(int ordinal, void *pool, kith_pool_info *info);

    /* The arithmetic of layers on this device, in this stream (layers/compute/compute.h). is_tf32: f32 products may use
     * TF32. */
    kith_status (*compute_open)(int ordinal, void *stream, int is_tf32, struct ki_compute **compute);

    /* In this stream, with the bits that the host's arithmetic has. */
    kith_status (*reduce)(int ordinal, void *stream, const ki_device_reduce *what);
} ki_device_ops;

typedef const ki_device_ops *(*ki_device_fn)(void);

#endif
