/* core/device/message.c - see message.h.
 *
 *     send:     wait for the buffer -> copy in -> the host's send
 *     receive:  the host's receive -> wait for the buffer -> copy out
 *
 * In a direct group (group.h) there are no copies: either waits for the buffer and then goes as it is.
 *
 * Messages to the same peer with the same tag must be started in the order in which they were posted, also when a later
 * one has its data first, and also when a later one is host memory: such a message waits here for its turn.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "message.h"

#include "stage.h"
#include <string.h>

enum { PHASE_WAIT, PHASE_COPY_IN, PHASE_TURN, PHASE_RUN, PHASE_READY, PHASE_COPY_OUT };

static bool is_before(const kith_request *r, ki_request_kind kind, int peer, uint64_t tag, uint64_t number)
{
    return r->is_unstarted && r->kind == kind && r->msg.peer == peer && r->msg.tag == tag && r->number < number;
}

static bool has_turn(const kith_request *request)
{
    const kith_group *group = request->group;
    if (group->device->unstarted <= 1)
        return true;
    for (const kith_request *r = group->messages; r != NULL; r = r->next)
        if (is_before(r, request->kind, request->msg.peer, request->msg.tag, request->number))
            return false;
    return true;
}

bool ki_message_must_wait(const kith_group *group, ki_request_kind kind, int peer, uint64_t tag)
{
    if (group->device == NULL || group->device->unstarted == 0)
        return false;
    for (const kith_request *r = group->messages; r != NULL; r = r->next)
        if (is_before(r, kind, peer, tag, UINT64_MAX))
            return true;
    return false;
}

static void set_unstarted(kith_request *request, bool is_unstarted)
{
    if (request->is_unstarted != is_unstarted)
        request->group->device->unstarted += is_unstarted ? 1 : -1;
    request->is_unstarted = is_unstarted;
}

static kith_status start_host(kith_request *request)
{
    kith_group *group = request->group;
    set_unstarted(request, false);
    memset(&request->slot, 0, sizeof request->slot);
    request->phase = PHASE_RUN;
    kith_status status = request->kind == KI_REQUEST_SEND
                             ? group->backend->send_start(group->bg, &request->msg, &request->slot)
                             : group->backend->recv_start(group->bg, &request->msg, &request->slot);
    if (status != KITH_OK)
        request->phase = PHASE_WAIT; /* there is nothing to cancel */
    return status;
}

kith_status ki_staged_message_start(kith_request *request)
{
    kith_group *group = request->group;
    bool is_staged = request->way == KI_WAY_STAGED;
    request->phase = PHASE_WAIT;
    set_unstarted(request, true);
    request->msg.is_device = is_staged && group->device->is_direct;
    if (!is_staged || request->msg.is_device)
        return KITH_OK; /* waits for its turn; on the device for its buffer too */
    kith_status status = ki_stage_take(group->ctx, request->msg.nbytes, &request->block);
    if (status != KITH_OK)
        return status;
    request->buffer = request->msg.buffer;
    request->msg.buffer = request->block->ptr;
    return request->kind == KI_REQUEST_RECV && has_turn(request) ? start_host(request) : KITH_OK;
}

static kith_status test_host(kith_request *request, bool *is_done)
{
    kith_group *group = request->group;
    int done = 0;
    size_t nbytes = 0;
    kith_status status = group->backend->msg_test(group->bg, &request->slot, &done, &nbytes);
    *is_done = done != 0;
    if (status != KITH_OK || done)
        request->phase = PHASE_READY; /* the slot is over */
    request->received = nbytes;
    return status;
}

/* One transition; *has_moved tells that another may follow. */
static kith_status move(kith_request *request, bool *has_moved, bool *is_done)
{
    kith_ctx *ctx = request->group->ctx;
    bool is_send = request->kind == KI_REQUEST_SEND, is_staged = request->block != NULL, is_over = false;
    kith_status status = KITH_OK;
    *has_moved = false;
    switch (request->phase) {
    case PHASE_WAIT:
        if (request->msg.is_device || (is_send && is_staged))
            status = ki_device_is_ready(request, &is_over);
        else
            is_over = true;
        if (status != KITH_OK || !is_over)
            return status;
        request->phase = PHASE_TURN;
        if (is_send && is_staged) {
            status = ki_stage_copy_in(ctx, request->block->ptr, request->buffer, request->msg.nbytes);
            if (status == KITH_OK)
                status = ki_stage_mark_in(ctx, request->block);
            request->phase = PHASE_COPY_IN;
        }
        break;
    case PHASE_COPY_IN:
        status = ki_stage_is_in(ctx, request->block, &is_over);
        if (status != KITH_OK || !is_over)
            return status;
        request->phase = PHASE_TURN;
        break;
    case PHASE_TURN:
        if (!has_turn(request))
            return KITH_OK;
        status = start_host(request);
        break;
    case PHASE_RUN:
        status = test_host(request, &is_over);
        if (status != KITH_OK || !is_over)
            return status;
        *is_done = is_send || !is_staged || request->received == 0;
        break;
    case PHASE_READY:
        status = ki_device_is_ready(request, &is_over);
        if (status != KITH_OK || !is_over)
            return status;
        status = ki_stage_copy_out(ctx, request->buffer, request->block->ptr, request->received);
        if (status == KITH_OK)
            status = ki_stage_mark_out(ctx, request->block);
        request->phase = PHASE_COPY_OUT;
        break;
    default:
        if (request->has_order) {
            *is_done = true;
            return ctx->device->ops->stream_wait_event(ctx->device->ordinal, request->order_stream,
                                                       request->block->out);
        }
        return ki_stage_is_out(ctx, request->block, is_done);
    }
    *has_moved = true;
    return status;
}

kith_status ki_staged_message_step(kith_request *request, bool *is_done)
{
    kith_status status = KITH_OK;
    bool has_moved = true;
    while (status == KITH_OK && has_moved && !*is_done)
        status = move(request, &has_moved, is_done);
    return status;
}

void ki_staged_message_cancel(kith_request *request)
{
    if (request->phase == PHASE_RUN)
        request->group->backend->msg_cancel(request->group->bg, &request->slot);
    if (request->block != NULL)
        ki_stage_settle(request->group->ctx);
}

void ki_staged_message_finish(kith_request *request)
{
    set_unstarted(request, false);
    ki_device_forget_ready(request);
    if (request->block == NULL)
        return;
    request->msg.buffer = request->buffer;
    ki_stage_give(request->group->ctx, request->block);
    request->block = NULL;
}
