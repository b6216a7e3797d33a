/* core/device/stage.c - see stage.h.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "stage.h"

#include "../base/error.h"
#include "../progress.h"
#include <stdlib.h>

#define LEAST_NBYTES ((size_t)64 << 10)

struct ki_stage {
    void *in, *out; /* streams */
    bool has_copied;
    ki_stage_block *blocks; /* given back */
    void **events;
    size_t event_count, event_capacity;
};

static kith_status open_stage(kith_ctx *ctx)
{
    if (ctx->stage != NULL)
        return KITH_OK;
    const ki_device_ops *ops = ctx->device->ops;
    int ordinal = ctx->device->ordinal;
    struct ki_stage *stage = (struct ki_stage *)calloc(1, sizeof *stage);
    if (stage == NULL)
        return ki_fail(KITH_ERR_NO_MEMORY, "no memory to stage device memory");
    kith_status status = ops->stream_create(ordinal, &stage->in);
    if (status != KITH_OK)
        goto free_stage;
    status = ops->stream_create(ordinal, &stage->out);
    if (status != KITH_OK)
        goto destroy_in;
    ctx->stage = stage;
    return KITH_OK;
destroy_in:
    ops->stream_destroy(ordinal, stage->in);
free_stage:
    free(stage);
    return status;
}

static void free_block(kith_ctx *ctx, ki_stage_block *block)
{
    const ki_device_ops *ops = ctx->device->ops;
    int ordinal = ctx->device->ordinal;
    if (block->in != NULL)
        ops->event_destroy(ordinal, block->in);
    if (block->out != NULL)
        ops->event_destroy(ordinal, block->out);
    if (block->ptr != NULL && block->is_device)
        ops->free(ordinal, block->ptr);
    else if (block->ptr != NULL)
        ops->free_pinned(ordinal, block->ptr);
    free(block);
}

void ki_stage_close(kith_ctx *ctx)
{
    struct ki_stage *stage = ctx->stage;
    if (stage == NULL)
        return;
    const ki_device_ops *ops = ctx->device->ops;
    int ordinal = ctx->device->ordinal;
    ki_stage_settle(ctx);
    while (stage->blocks != NULL) {
        ki_stage_block *next = stage->blocks->next;
        free_block(ctx, stage->blocks);
        stage->blocks = next;
    }
    while (stage->event_count > 0)
        ops->event_destroy(ordinal, stage->events[--stage->event_count]);
    ops->stream_destroy(ordinal, stage->in);
    ops->stream_destroy(ordinal, stage->out);
    free(stage->events);
    free(stage);
    ctx->stage = NULL;
}

/* ---- blocks ---- */

static kith_status make_block(kith_ctx *ctx, size_t nbytes, bool is_device, ki_stage_block **block)
{
    const ki_device_ops *ops = ctx->device->ops;
    int ordinal = ctx->device->ordinal;
    size_t rounded = LEAST_NBYTES;
    while (rounded < nbytes && rounded <= SIZE_MAX / 2)
        rounded *= 2;
    ki_stage_block *made = (ki_stage_block *)calloc(1, sizeof *made);
    if (made == NULL)
        return ki_fail(KITH_ERR_NO_MEMORY, "no memory to stage device memory");
    made->nbytes = rounded < nbytes ? nbytes : rounded;
    made->is_device = is_device;
    void *ptr = NULL;
    kith_status status = ops->event_create(ordinal, &made->in);
    if (status == KITH_OK)
        status = ops->event_create(ordinal, &made->out);
    if (status == KITH_OK)
        status = is_device ? ops->alloc(ordinal, made->nbytes, &ptr) : ops->alloc_pinned(ordinal, made->nbytes, &ptr);
    made->ptr = (unsigned char *)ptr;
    if (status != KITH_OK) {
        free_block(ctx, made);
        return status;
    }
    *block = made;
    return KITH_OK;
}

/* The smallest that is large enough and idle. */
static kith_status take(kith_ctx *ctx, size_t nbytes, bool is_device, ki_stage_block **block)
{
    kith_status status = open_stage(ctx);
    if (status != KITH_OK)
        return status;
    ki_stage_block **best = NULL;
    for (ki_stage_block **link = &ctx->stage->blocks; *link != NULL; link = &(*link)->next) {
        bool is_in = false, is_out = false;
        if ((*link)->is_device != is_device || (*link)->nbytes < nbytes ||
            (best != NULL && (*best)->nbytes <= (*link)->nbytes))
            continue;
        status = ki_stage_is_in(ctx, *link, &is_in);
        if (status == KITH_OK)
            status = ki_stage_is_out(ctx, *link, &is_out);
        if (status != KITH_OK)
            return status;
        if (is_in && is_out)
            best = link;
    }
    if (best == NULL)
        return make_block(ctx, nbytes, is_device, block);
    *block = *best;
    *best = (*block)->next;
    return KITH_OK;
}

kith_status ki_stage_take(kith_ctx *ctx, size_t nbytes, ki_stage_block **block)
{
    return take(ctx, nbytes, false, block);
}

kith_status ki_stage_take_device(kith_ctx *ctx, size_t nbytes, ki_stage_block **block)
{
    return take(ctx, nbytes, true, block);
}

void ki_stage_give(kith_ctx *ctx, ki_stage_block *block)
{
    block->next = ctx->stage->blocks;
    ctx->stage->blocks = block;
}

/* ---- copies ---- */

kith_status ki_stage_copy_in(kith_ctx *ctx, void *host, const void *device, size_t nbytes)
{
    ctx->stage->has_copied = true;
    return nbytes == 0 ? KITH_OK : ctx->device->ops->copy(ctx->device->ordinal, ctx->stage->in, host, device, nbytes);
}

kith_status ki_stage_copy_out(kith_ctx *ctx, void *device, const void *host, size_t nbytes)
{
    ctx->stage->has_copied = true;
    return nbytes == 0 ? KITH_OK : ctx->device->ops->copy(ctx->device->ordinal, ctx->stage->out, device, host, nbytes);
}

kith_status ki_stage_mark_in(kith_ctx *ctx, ki_stage_block *block)
{
    block->has_in = true;
    return ctx->device->ops->event_record(ctx->device->ordinal, block->in, ctx->stage->in);
}

kith_status ki_stage_mark_out(kith_ctx *ctx, ki_stage_block *block)
{
    block->has_out = true;
    return ctx->device->ops->event_record(ctx->device->ordinal, block->out, ctx->stage->out);
}

static kith_status look(kith_ctx *ctx, void *event, bool *is_pending, bool *is_done)
{
    int done = 1;
    kith_status status = KITH_OK;
    if (*is_pending)
        status = ctx->device->ops->event_query(ctx->device->ordinal, event, &done);
    if (status == KITH_OK && done)
        *is_pending = false;
    *is_done = done != 0;
    return status;
}

kith_status ki_stage_is_in(kith_ctx *ctx, ki_stage_block *block, bool *is_done)
{
    return look(ctx, block->in, &block->has_in, is_done);
}

kith_status ki_stage_is_out(kith_ctx *ctx, ki_stage_block *block, bool *is_done)
{
    return look(ctx, block->out, &block->has_out, is_done);
}

kith_status ki_stage_settle(kith_ctx *ctx)
{
    if (ctx->stage == NULL || !ctx->stage->has_copied)
        return KITH_OK;
    kith_status in = ctx->device->ops->stream_synchronize(ctx->device->ordinal, ctx->stage->in);
    kith_status out = ctx->device->ops->stream_synchronize(ctx->device->ordinal, ctx->stage->out);
    ctx->stage->has_copied = false;
    return in != KITH_OK ? in : out;
}

kith_status ki_stage_out_stream(kith_ctx *ctx, void **stream)
{
    kith_status status = open_stage(ctx);
    if (status != KITH_OK)
        return status;
    ctx->stage->has_copied = true;
    *stream = ctx->stage->out;
    return KITH_OK;
}

kith_status ki_stage_copy_now(kith_ctx *ctx, void *to, const void *from, size_t nbytes)
{
    void *stream = NULL;
    if (nbytes == 0 || to == from)
        return KITH_OK;
    if (ctx->device == NULL)
        return ki_fail(KITH_ERR_INTERNAL, "a copy of device memory in a context without a device");
    const kith_device *device = ctx->device;
    kith_status status = ki_stage_out_stream(ctx, &stream);
    if (status == KITH_OK)
        status = device->ops->copy(device->ordinal, stream, to, from, nbytes);
    return status == KITH_OK ? device->ops->stream_synchronize(device->ordinal, stream) : status;
}

/* ---- events ---- */

void ki_stage_wait_event(kith_ctx *ctx, void *event)
{
    int is_done = 0;
    ki_waiter waiter;
    ki_waiter_init(&waiter, ctx, KI_DEVICE_GRACE_MS);
    while (ctx->device->ops->event_query(ctx->device->ordinal, event, &is_done) == KITH_OK && !is_done)
        if (ki_waiter_pause(&waiter) != KITH_OK)
            return;
}

kith_status ki_stage_take_event(kith_ctx *ctx, void **event)
{
    kith_status status = open_stage(ctx);
    if (status != KITH_OK)
        return status;
    struct ki_stage *stage = ctx->stage;
    if (stage->event_count == 0)
        return ctx->device->ops->event_create(ctx->device->ordinal, event);
    *event = stage->events[--stage->event_count];
    return KITH_OK;
}

void ki_stage_give_event(kith_ctx *ctx, void *event)
{
    struct ki_stage *stage = ctx->stage;
    if (stage->event_count == stage->event_capacity) {
        size_t capacity = stage->event_capacity > 0 ? 2 * stage->event_capacity : 16;
        void **more = (void **)realloc(stage->events, capacity * sizeof *more);
        if (more == NULL) {
            ctx->device->ops->event_destroy(ctx->device->ordinal, event);
            return;
        }
        stage->events = more;
        stage->event_capacity = capacity;
    }
    stage->events[stage->event_count++] = event;
}
