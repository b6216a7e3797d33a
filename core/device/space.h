/* core/device/space.h - where numbers lie that are computed with: the host's memory, or that of a device.
 *
 * Layers, optimizers, checkpoints and pipelines touch tensors through the table of arithmetic
 * (layers/compute/compute.h) and through the few functions here, so none of them knows which memory it is. On the host
 * they are malloc, memcpy and memset. On a device all of them but alloc and free are work in the space's stream: what
 * was put there before happens before, and what comes later comes after. Only copy_out and wait stop the host.
 *
 * Functions do nothing for no bytes, also with pointers that are NULL, as dry runs have them.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_DEVICE_SPACE_H
#define KI_DEVICE_SPACE_H

#include <kith/device.h>
#include <stdbool.h>

typedef struct ki_space {
    kith_device *device; /* NULL: the host */
    kith_stream *stream; /* of the device */
    bool owns_stream;
    bool is_stuck;   /* see ki_space_settle() */
    kith_pool *pool; /* NULL: the device has none */
    kith_ctx *ctx;   /* of the groups that joined; NULL: none did */
} ki_space;

struct ki_compute;

extern const ki_space ki_host_space;

static inline bool ki_space_is_host(const ki_space *space)
{
    return space->device == NULL;
}

/* The memory of a device, with its work in `stream` (of that device; NULL: one of the space's own); or the host's where
 * device is NULL. function: for texts. Fails with a sentence. */
kith_status ki_space_open(const char *function, kith_device *device, kith_stream *stream, ki_space *space);
void ki_space_close(ki_space *space);
/* The table of arithmetic of a device's space (layers/compute/compute.h), with its work in the same stream. */
kith_status ki_space_open_compute(const ki_space *space, bool allows_tf32, struct ki_compute **compute);

/* 64-byte aligned, not zeroed; for 0 bytes an address as well. NULL when there is no memory. Quiet: the caller knows
 * what it was for. */
void *ki_space_alloc(const ki_space *space, size_t nbytes);
/* Zeroed. NULL also when count * nbytes overflows. */
void *ki_space_calloc(const ki_space *space, size_t count, size_t nbytes);
/* Waits for all work of a device, collectives whose peers are gone included, and so without end: ki_space_settle()
 * before. NULL is fine. */
void ki_space_free(const ki_space *space, void *memory);
/* The same for memory that comes and goes while work is under way: of the space's pool, in the order of its stream.
 * give() waits for nothing; where the device has no pools it waits as ki_space_wait() does, and when that fails the
 * memory stays the caller's. */
void *ki_space_take(const ki_space *space, size_t nbytes);
kith_status ki_space_give(const ki_space *space, void *memory);

/* Both in the space. */
kith_status ki_space_copy(const ki_space *space, void *to, const void *from, size_t nbytes);
/* From the host's memory, which may change as soon as this returns. */
kith_status ki_space_copy_in(const ki_space *space, void *to, const void *from, size_t nbytes);
/* To the host's memory; it is there when this returns. */
kith_status ki_space_copy_out(const ki_space *space, void *to, const void *from, size_t nbytes);
kith_status ki_space_fill(const ki_space *space, void *memory, int byte, size_t nbytes);
/* Until all work of the space is done. Communication that it waits for is pushed on and has its groups' deadlines: a
 * peer that died or does not come ends this with the group's status. To be called before anything else that waits for
 * the stream by itself. */
kith_status ki_space_wait(const ki_space *space);

/* Before a space's memory goes for good: until its work is done, or was ended with the group that it belongs to. What
 * has not ended by then never will: is_stuck, and from there on the memory and the stream stay, for freeing them would
 * stop the host for ever. */
void ki_space_settle(ki_space *space);

/* Is this memory that the space's arithmetic can reach? On the host: all is. */
bool ki_space_has(const ki_space *space, const void *memory);

/* The group's operations on memory of the space are ordered with its work. */
kith_status ki_space_join(ki_space *space, kith_group *group);
/* A started operation on memory of the space: later work of the space comes behind it; *request becomes NULL. */
kith_status ki_space_end(const ki_space *space, kith_request **request);

#endif
