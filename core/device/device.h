/* core/device/device.h - devices from the inside: handles over the module's table.
 *
 * module.c opens the module once a process; device.c, stream.c, pool.c are the public functions of kith/device.h; the
 * rest of the library reaches the module through `ops` of a handle. Handles are of type-stable memory (slab.c): a stale
 * one is an error with a sentence.
 *
 * A context opens a handle of its own; it cannot be closed by others. When the context goes while memory, streams or
 * events of that handle are alive, the handle goes with the last of them.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_DEVICE_DEVICE_H
#define KI_DEVICE_DEVICE_H

#include "../object.h"
#include "module.h"

#define KI_DEVICE_MAGIC (0x6b6974686465ULL ^ ki_process_mark)
#define KI_STREAM_MAGIC (0x6b6974687374ULL ^ ki_process_mark)
#define KI_EVENT_MAGIC (0x6b6974686576ULL ^ ki_process_mark)
#define KI_POOL_MAGIC (0x6b697468706fULL ^ ki_process_mark)

/* How long work of a group that failed may take to end on a device, once the group was ended. */
#define KI_DEVICE_GRACE_MS 10000

struct kith_device {
    ki_handle handle;
    const ki_device_ops *ops;
    int ordinal;
    bool is_of_context; /* kith_finalize() closes it */
    bool is_closing;    /* goes with the last object made on it */
    int allocation_count, pinned_count, stream_count, event_count, pool_count;
    int user_count; /* layers and the like, see ki_device_use() */
};

struct kith_stream {
    ki_handle handle;
    kith_device *device;
    void *native;
    bool is_wrapped; /* the caller's */
};

struct kith_event {
    ki_handle handle;
    kith_device *device;
    void *native;
};

struct kith_pool {
    ki_handle handle;
    kith_device *device;
    void *native;
    uint64_t most_nbytes; /* as it was made */
    int allocation_count;
};

/* Handles of devices that are open in this process; 0: nobody can have device memory of ours. Read by every operation
 * of a context without a device. */
extern atomic_int ki_devices_open;

/* The table of the module that can be used here. KITH_ERR_UNSUPPORTED with the reason as detail (quiet). Asked once a
 * process. summary (may be NULL): one line of static storage, what was found or why not. */
kith_status ki_device_module(const ki_device_ops **ops, const char **summary);

/* Opens a device for a context: "cuda", "cuda:1", "cuda:local". KITH_ERR_INVALID_ARG for other texts. */
kith_status ki_device_open_named(const char *name, int local_rank, kith_device **device);
/* For the context: never refuses. NULL is fine. */
void ki_device_close_of_context(kith_device *device);

/* Something that lives as long as it likes uses the device: kith_device_close() refuses until ki_device_unuse(). */
void ki_device_use(kith_device *device);
void ki_device_unuse(kith_device *device);

/* Fails unless it is an open device (a live stream). */
kith_status ki_device_check(const kith_device *device, const char *function);
kith_status ki_stream_check(const kith_stream *stream, const char *function);

/* An object of the device went: releases the handle when it was waiting for that. */
void ki_device_settle(kith_device *device);

/* ---- slabs (slab.c) ---- */
kith_device *ki_device_handle_alloc(void);
void ki_device_handle_release(kith_device *device);
kith_stream *ki_stream_handle_alloc(void);
void ki_stream_handle_release(kith_stream *stream);
kith_event *ki_event_handle_alloc(void);
void ki_event_handle_release(kith_event *event);
kith_pool *ki_pool_handle_alloc(void);
void ki_pool_handle_release(kith_pool *pool);

#endif
