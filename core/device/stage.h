/* core/device/stage.h - where device memory passes through the host: pinned blocks, two streams for copies, events.
 *
 * One of these for each context, made when it is first needed. Copies from the device run in one stream, copies to it
 * in another. Neither ever waits for anybody's work: a copy is put in when the host has seen that its source is ready.
 * So no copy can stand behind work that waits for another rank, and waiting for both streams is always short.
 *
 * A block may be given back while copies from it are under way: it is handed out again when they are done.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_DEVICE_STAGE_H
#define KI_DEVICE_STAGE_H

#include "device.h"

typedef struct ki_stage_block {
    struct ki_stage_block *next;
    unsigned char *ptr;
    size_t nbytes;
    bool is_device;       /* ptr: scratch of kernels, else pinned */
    void *in, *out;       /* events behind the last copy from, and to, the device */
    bool has_in, has_out; /* ... which may still be under way */
} ki_stage_block;

void ki_stage_close(kith_ctx *ctx); /* with the context; waits for copies */

/* A block of at least nbytes (0 is fine). */
kith_status ki_stage_take(kith_ctx *ctx, size_t nbytes, ki_stage_block **block);
/* The same of device memory; nothing may be under way in it when it is given back. */
kith_status ki_stage_take_device(kith_ctx *ctx, size_t nbytes, ki_stage_block **block);
void ki_stage_give(kith_ctx *ctx, ki_stage_block *block);

/* Copies of one block: any number, then a mark. */
kith_status ki_stage_copy_in(kith_ctx *ctx, void *host, const void *device, size_t nbytes);
kith_status ki_stage_copy_out(kith_ctx *ctx, void *device, const void *host, size_t nbytes);
kith_status ki_stage_mark_in(kith_ctx *ctx, ki_stage_block *block);
kith_status ki_stage_mark_out(kith_ctx *ctx, ki_stage_block *block);
/* Whether what was marked is done; never blocks. */
kith_status ki_stage_is_in(kith_ctx *ctx, ki_stage_block *block, bool *is_done);
kith_status ki_stage_is_out(kith_ctx *ctx, ki_stage_block *block, bool *is_done);

/* A copy with the device on either side, or on both; done when it returns. What is read is ready. */
kith_status ki_stage_copy_now(kith_ctx *ctx, void *to, const void *from, size_t nbytes);

/* The stream of copies to the device, for other work that never waits for anybody. */
kith_status ki_stage_out_stream(kith_ctx *ctx, void **stream);

/* Waits for all copies: afterwards no buffer of the caller is touched. */
kith_status ki_stage_settle(kith_ctx *ctx);

/* Events of the device, used again and again. */
kith_status ki_stage_take_event(kith_ctx *ctx, void **event);
void ki_stage_give_event(kith_ctx *ctx, void *event);
/* For a request that is cancelled: until the event came, or until it should have, where what is before it was ended. */
void ki_stage_wait_event(kith_ctx *ctx, void *event);

#endif
