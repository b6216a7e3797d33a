/* core/device/arithmetic.c - see arithmetic.h.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "arithmetic.h"

#include "../base/error.h"
#include "../op.h"
#include "stage.h"

#define ALIGNMENT 256

bool ki_device_computes(const kith_ctx *ctx, const ki_op *op)
{
    return ctx->device->ops->reduce != NULL && op->builtin != KI_OP_USER;
}

kith_status ki_device_prepare(const kith_ctx *ctx)
{
    const ki_device_reduce nothing = { .step = KI_DEVICE_LOAD, .dtype = KITH_F32, .ranks = 1 };
    return ctx->device->ops->reduce != NULL ? ctx->device->ops->reduce(ctx->device->ordinal, NULL, &nothing) : KITH_OK;
}

static kith_ctx *ctx_of(void *arg)
{
    return ((kith_request *)arg)->group->ctx;
}

static kith_status copy(void *arg, void *to, const void *from, size_t nbytes)
{
    return ki_stage_copy_now(ctx_of(arg), to, from, nbytes);
}

static kith_status take_temp(void *arg, size_t nbytes, void **temp)
{
    kith_request *request = (kith_request *)arg;
    kith_status status = ki_stage_take_device(ctx_of(arg), nbytes, &request->block);
    if (status == KITH_OK)
        *temp = request->block->ptr;
    return status;
}

void ki_device_plan_end(kith_request *request)
{
    if (request->block != NULL)
        ki_stage_give(request->group->ctx, request->block);
    request->block = NULL;
}

/* ---- arithmetic, in the stream of copies to the device ---- */

static kith_status launch(kith_ctx *ctx, const ki_reducer *reducer, ki_reduce_step step, const void *a, const void *b,
                          void *out, size_t count)
{
    void *stream = NULL;
    const ki_device_reduce what = { .step = step,
                                    .dtype = reducer->dtype,
                                    .op = reducer->op->builtin == KI_OP_PREMUL_SUM ? KI_DEVICE_PREMUL
                                                                                   : reducer->op->builtin,
                                    .ranks = reducer->order->size,
                                    .scalar = reducer->base.scalar,
                                    .int_scalar = reducer->base.int_scalar,
                                    .a = a,
                                    .b = b,
                                    .out = out,
                                    .count = count };
    kith_status status = ki_stage_out_stream(ctx, &stream);
    return status == KITH_OK ? ctx->device->ops->reduce(ctx->device->ordinal, stream, &what) : status;
}

/* Also after a failure: nothing may run on in the scratch. */
static kith_status settle(kith_ctx *ctx, kith_status status)
{
    void *stream = NULL;
    kith_status settled = ki_stage_out_stream(ctx, &stream);
    if (settled == KITH_OK)
        settled = ctx->device->ops->stream_synchronize(ctx->device->ordinal, stream);
    return status != KITH_OK ? status : settled;
}

static kith_status compute(void *arg, const ki_reducer *reducer, ki_step_kind kind, const void *a, const void *b,
                           void *out, size_t count)
{
    ki_reduce_step step = kind == KI_STEP_LOAD      ? KI_DEVICE_LOAD
                          : kind == KI_STEP_COMBINE ? KI_DEVICE_COMBINE
                                                    : KI_DEVICE_STORE;
    return settle(ctx_of(arg), launch(ctx_of(arg), reducer, step, a, b, out, count));
}

/* The order's program over all elements at once: a slot for each entry of its stack. */
static kith_status run_program(kith_ctx *ctx, const ki_reducer *reducer, const void *const *sources, void *out,
                               size_t count, unsigned char *slots, size_t slot_nbytes)
{
    const ki_order *order = reducer->order;
    kith_status status = KITH_OK;
    size_t top = 0;
    for (int i = 0; i < order->length && status == KITH_OK; i++) {
        int rank = order->program[i];
        if (rank >= 0) {
            status = launch(ctx, reducer, KI_DEVICE_LOAD, sources[rank], NULL, slots + top * slot_nbytes, count);
            top++;
            continue;
        }
        top--;
        unsigned char *left = slots + (top - 1) * slot_nbytes;
        status = launch(ctx, reducer, KI_DEVICE_COMBINE, left, left + slot_nbytes, left, count);
    }
    return status == KITH_OK ? launch(ctx, reducer, KI_DEVICE_STORE, slots, NULL, out, count) : status;
}

static kith_status reduce(void *arg, const ki_reducer *reducer, const void *const *sources, void *out, size_t count)
{
    kith_ctx *ctx = ctx_of(arg);
    ki_stage_block *block = NULL;
    size_t slot_nbytes = (count * reducer->acc_nbytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    kith_status status = ki_stage_take_device(ctx, slot_nbytes * (size_t)reducer->order->depth, &block);
    if (status != KITH_OK)
        return status;
    status = settle(ctx, run_program(ctx, reducer, sources, out, count, block->ptr, slot_nbytes));
    ki_stage_give(ctx, block);
    return status;
}

const ki_site ki_device_moves = { .copy = copy };
const ki_site ki_device_reduces = { .copy = copy, .temp = take_temp, .compute = compute, .reduce = reduce };
