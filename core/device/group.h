/* core/device/group.h - how a group's operations on device memory go.
 *
 * Every group has its host transport. In a context with a device it also has this: perhaps a backend for device memory
 * alone (NCCL) with a group of its own beside the host's, else operations pass through the host. Which way an operation
 * takes follows from its kind and from tables that were agreed when the group was made, so all members take the same.
 *
 *   host     the buffers are host memory: as ever
 *   waiting  a message on host memory that comes after one of the same kind, peer and tag that waits for its buffer
 *   device   handed to the device's backend at the call; stands in group->messages until it is done, not in the queue
 *   staged   in the group's queue (messages: in group->messages); copied to pinned memory, run as an ordinary host
 *            operation, copied back (staged.c, message.c). Where the host's transport takes device memory itself
 *            (is_direct) the copies are left out: it is given the caller's buffers when they are ready. That is so for
 *            messages, for collectives that only move data, and for reductions that the transport or the device
 *            computes (arithmetic.h)
 *
 * An all_reduce over several hosts may be a plan of such operations on two groups, inside and across; it stands in the
 * queue as a staged one does (hosts.h).
 *
 * Streams. A group's stream is looked at when an operation is posted. The device's backend gets it. What is staged
 * keeps an event behind what the stream held (`ready`), and is ordered before the stream's later work by
 * `order_stream`: the request then ends when the last copy was put in and the stream waits for it.
 *
 * A device request whose completion is ordered into a stream is detached: nobody waits for it, it releases itself, and
 * its failure becomes the group's.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_DEVICE_GROUP_H
#define KI_DEVICE_GROUP_H

#include "device.h"

struct ki_group_device {
    ki_instance *instance; /* of a backend for device memory alone; NULL: none */
    const kith_backend *backend;
    void *bg;
    ki_native native[KITH_COLL_COUNT][KI_QUERY_OPS];
    kith_stream *stream;         /* NULL: buffers are ready when they are given */
    bool is_uniform;             /* every member has a device: what is large is cut alike on all */
    bool is_direct;              /* the host's transport takes device memory; native is then what it computes there */
    bool has_tried;              /* NCCL over all members, and could not be had */
    kith_group *inside, *across; /* see hosts.h; NULL: no such plan */
    char why_staged[400], how[512]; /* see kith_group_device_summary() */
    size_t piece_nbytes;
    int detached, look_at;  /* detached requests; how many make a post look for those that are done */
    uint64_t message_count; /* posted so far */
    int unstarted;          /* messages that wait for a buffer or for their turn */
    atomic_int is_aborted;
};

/* ---- creation and end (build.c) ---- */

/* Is `name` a backend for device memory alone? KITH_OK also when it is none; fails when there is no such backend. */
kith_status ki_device_backend_check(const kith_ctx *ctx, const char *name, bool *is_device_only);
/* The group's part for device memory. Collective over the members when any of them has a device. Call it when the
 * host's part stands on all. wanted: a backend for device memory that must work, or NULL: the best that does. Takes
 * spec->split over when it comes to the backend's part. */
kith_status ki_group_device_open(kith_group *group, const char *wanted, ki_group_spec *spec);
/* The group stands: what kith_group_device_summary() says of it. */
void ki_group_device_tell(kith_group *group);
void ki_group_device_close(kith_group *group);
/* Groups are about to be made out of parent: every member calls it, with the members of its own group to come (count 0:
 * none) and the backend that is wanted for it. Sets spec->parent and spec->split. KITH_ERR_...: on all members. */
kith_status ki_device_split(kith_group *parent, ki_group_spec *spec);
/* The group did not come so far as to take it. */
void ki_device_split_discard(ki_group_spec *spec);
/* Any thread: what runs on the device ends. */
void ki_group_device_abort(kith_group *group);
/* The same for all groups of the context that have this rank of the world (-1: for all), together: an abort of NCCL may
 * wait for what other groups run. */
void ki_ctx_device_abort(kith_ctx *ctx, int world_rank);

/* ---- memory (memory.c) ---- */

/* What a checked collective's buffers are; sets request->way. KITH_ERR_INVALID_ARG: mixed, another device's, or device
 * memory in a context without a device. */
kith_status ki_device_classify(kith_request *request);
kith_status ki_device_classify_message(kith_request *request);
/* Quick look, for calls that would not make a request on host memory. */
kith_status ki_device_touches(const kith_group *group, const void *a, const void *b, bool *is_device);

/* ---- running (post.c) ---- */

/* Way device: hands it to the backend; request->status tells at once when that failed. The caller lists it. */
void ki_device_post(kith_request *request);
kith_status ki_device_step(kith_request *request, bool *is_done);
void ki_device_cancel(kith_request *request);
/* Orders a stream behind a posted request and releases it; blocks the host as far as the operation passes through it.
 * received may be NULL. */
kith_status ki_device_order(kith_request *request, void *stream, size_t *received);
/* Waits as a blocking call does: until it is done, or only ordered when the group has a stream. Releases. */
kith_status ki_device_finish(kith_request *request, size_t *received);
/* Messages between the two calls start as one, where the device's backend has them. */
kith_status ki_device_batch_begin(kith_group *group);
kith_status ki_device_batch_end(kith_group *group);
/* Detached requests end on their own; waits for them, with a deadline. */
void ki_device_drain(kith_group *group);

/* Remembers what the group's stream holds now. */
kith_status ki_device_mark_ready(kith_request *request);
kith_status ki_device_is_ready(kith_request *request, bool *is_ready);
void ki_device_forget_ready(kith_request *request);
/* The group's stream; fails when it was destroyed. *native valid if *has_stream. */
kith_status ki_device_stream(const kith_group *group, void **native, bool *has_stream);

static inline bool ki_device_is_asked(void)
{
    return __builtin_expect(atomic_load_explicit(&ki_devices_open, memory_order_relaxed) != 0, 0);
}

#endif
