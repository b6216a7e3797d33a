/* core/device/staged.c - see staged.h.
 *
 *     device --copy in--> pinned block --the host's collective--> pinned block --copy out--> device
 *
 * all_reduce, reduce and broadcast are cut into pieces when they are large: copies of the pieces before and behind run
 * while the host works on one, with at most DEPTH blocks. Each piece is a collective of its own, on all members, with
 * the next sequence number; elements are combined in the same order as ever. Everything else passes as a whole; blocks
 * that lie apart on the device lie packed on the host, so nothing between them is written.
 *
 * The host's operation is an ordinary request that stands in no queue: this request, at the head of the queue, stands
 * for it.
 *
 * Where the group is direct (group.h) there are no copies: one host operation on the caller's own buffers, begun when
 * they are ready. It has ended on the device when the transport says so, so a stream needs no event behind it.
 *
 * A group of one rank has nothing to send: a copy on the device, unless an operator must look at the elements.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "staged.h"

#include "../base/error.h"
#include "../coll.h"
#include "../dispatch.h"
#include "../hier.h"
#include "arithmetic.h"
#include "hosts.h"
#include "sides.h"
#include "stage.h"

#define DEPTH 4
#define ALIGNMENT 256

struct ki_staged {
    kith_request *inner; /* the host's operation of the piece that runs */
    bool is_running, is_ready, is_local, is_direct;
    size_t piece; /* elements of one */
    size_t pieces;
    size_t next_in, next_run;
    size_t send_nbytes, recv_nbytes; /* of a whole operation, packed */
    ki_stage_block *blocks[DEPTH];
    ki_device_hosts *hosts; /* an all_reduce that is a plan over hosts */
    bool is_copied;         /* local: the copy was put in */
    void *done;             /* local: event behind it */
};

_Static_assert(sizeof(struct ki_staged) <= KI_STAGED_NBYTES, "it lives in the request");

static struct ki_staged *staged_of(const kith_request *request)
{
    return (struct ki_staged *)(uintptr_t)request->staged;
}

/* ---- what is copied ---- */

typedef kith_status (*copy_fn)(kith_ctx *ctx, unsigned char *device, unsigned char *host, size_t nbytes);

static kith_status copy_in(kith_ctx *ctx, unsigned char *device, unsigned char *host, size_t nbytes)
{
    return ki_stage_copy_in(ctx, host, device, nbytes);
}

static kith_status copy_out(kith_ctx *ctx, unsigned char *device, unsigned char *host, size_t nbytes)
{
    return ki_stage_copy_out(ctx, device, host, nbytes);
}

/* Between the device's places and one run on the host. Blocks that follow each other go in one copy. */
static kith_status copy_side(const kith_request *request, ki_side s, unsigned char *host, copy_fn copy)
{
    kith_ctx *ctx = request->group->ctx;
    size_t nbytes = request->coll.nbytes;
    if (s.counts == NULL)
        return copy(ctx, s.base, host, s.count * nbytes);
    kith_status status = KITH_OK;
    int size = request->group->size;
    for (int i = 0; i < size && status == KITH_OK;) {
        size_t start = s.displs[i], count = s.counts[i];
        for (i++; i < size && (s.counts[i] == 0 || (count > 0 && s.displs[i] == start + count)); i++)
            count += s.counts[i];
        if (count > 0)
            status = copy(ctx, s.base + start * nbytes, host, count * nbytes);
        host += count * nbytes;
    }
    return status;
}

/* ---- pieces ---- */

static bool is_split(const kith_request *request)
{
    const ki_op *op = request->coll.reducer != NULL ? request->reducer.op : NULL;
    return ki_device_hosts_can(request->group, &request->coll, op);
}

static bool is_direct(const kith_request *request)
{
    const kith_group *group = request->group;
    if (!group->device->is_direct || group->size == 1)
        return false;
    if (request->coll.reducer == NULL)
        return true;
    const ki_op *op = request->reducer.op;
    bool is_native = ki_select_forced(group->ctx->select, request->coll.kind) == NULL &&
                     ki_dispatch_is_native(group, &request->coll, op, true);
    /* the order of a plan over hosts is another: there the host computes */
    return is_native || (ki_device_computes(group->ctx, op) && !ki_hier_can(group, &request->coll, op));
}

static bool is_cut(const kith_request *request)
{
    const kith_be_coll *coll = &request->coll;
    const struct ki_group_device *device = request->group->device;
    return !is_direct(request) && !is_split(request) &&
           (coll->kind == KITH_ALL_REDUCE || coll->kind == KITH_REDUCE || coll->kind == KITH_BROADCAST) &&
           device->is_uniform && coll->count * coll->nbytes > device->piece_nbytes;
}

static size_t piece_of(const kith_request *request)
{
    size_t piece = request->group->device->piece_nbytes / request->coll.nbytes;
    return is_cut(request) && piece > 0 ? piece : request->coll.count;
}

uint64_t ki_staged_pieces(const kith_request *request)
{
    size_t piece = is_cut(request) ? piece_of(request) : 0;
    return piece > 0 ? (request->coll.count + piece - 1) / piece : 1;
}

static bool is_one_buffer(kith_coll_kind kind)
{
    return kind == KITH_ALL_REDUCE || kind == KITH_REDUCE || kind == KITH_BROADCAST;
}

/* The part of a side that belongs to piece k. */
static ki_side cut(const kith_request *request, ki_side s, size_t k)
{
    const struct ki_staged *staged = staged_of(request);
    if (staged->pieces == 1 || s.count == 0)
        return s;
    size_t start = k * staged->piece, left = s.count - start;
    return (ki_side){ s.base + start * request->coll.nbytes, left < staged->piece ? left : staged->piece, NULL, NULL };
}

static size_t align(size_t nbytes)
{
    return (nbytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* ---- start ---- */

/* Copies between device buffers are all that a lone rank needs, unless the operator changes single values. */
static bool is_plain(const kith_request *request)
{
    const ki_op *op = request->coll.reducer != NULL ? request->reducer.op : NULL;
    return op == NULL || op->builtin < KITH_OP_BUILTIN_COUNT;
}

static kith_status take_blocks(kith_request *request)
{
    struct ki_staged *staged = staged_of(request);
    size_t element = request->coll.nbytes, nbytes;
    if (is_one_buffer(request->coll.kind))
        nbytes = staged->piece * element;
    else
        nbytes = align(staged->send_nbytes) + staged->recv_nbytes;
    size_t count = staged->pieces < DEPTH ? staged->pieces : DEPTH;
    for (size_t i = 0; i < count; i++) {
        kith_status status = ki_stage_take(request->group->ctx, nbytes, &staged->blocks[i]);
        if (status != KITH_OK)
            return status;
    }
    return KITH_OK;
}

/* The host's operation, for the first piece. Its displacements are those of packed blocks. */
static kith_status make_inner(kith_request *request)
{
    struct ki_staged *staged = staged_of(request);
    const kith_be_coll *coll = &request->coll;
    unsigned char *host = staged->blocks[0]->ptr;
    bool is_one = is_one_buffer(coll->kind);
    const kith_coll_args args = {
        .struct_size = sizeof args,
        .kind = coll->kind,
        .send = host,
        .recv = is_one ? host : host + align(staged->send_nbytes),
        .count = staged->piece,
        .dtype = coll->dtype,
        .op = request->op_number,
        .root = coll->root,
        .send_counts = coll->send_counts,
        .recv_counts = coll->recv_counts,
    };
    return ki_coll_make(request->group, &args, false, &staged->inner);
}

/* The host's operation on the caller's own buffers. */
static kith_status make_direct(kith_request *request)
{
    struct ki_staged *staged = staged_of(request);
    const kith_be_coll *coll = &request->coll;
    const kith_coll_args args = {
        .struct_size = sizeof args,
        .kind = coll->kind,
        .send = coll->send,
        .recv = coll->recv,
        .count = coll->count,
        .dtype = coll->dtype,
        .op = request->op_number,
        .root = coll->root,
        .send_counts = coll->send_counts,
        .send_displs = coll->send_displs,
        .recv_counts = coll->recv_counts,
        .recv_displs = coll->recv_displs,
    };
    kith_status status = ki_coll_make(request->group, &args, false, &staged->inner);
    if (status == KITH_OK)
        staged->inner->coll.is_device = 1;
    return status;
}

kith_status ki_staged_start(kith_request *request)
{
    struct ki_staged *staged = staged_of(request);
    *staged = (struct ki_staged){ 0 };
    if (is_split(request))
        return ki_device_hosts_start(request, &staged->hosts);
    staged->is_direct = is_direct(request);
    if (staged->is_direct)
        return make_direct(request);
    staged->pieces = (size_t)ki_staged_pieces(request);
    staged->piece = piece_of(request);
    if (request->group->size == 1 && is_plain(request)) {
        staged->is_local = true;
        return KITH_OK;
    }
    staged->send_nbytes = ki_side_send(request).count * request->coll.nbytes;
    staged->recv_nbytes = ki_side_recv(request).count * request->coll.nbytes;
    kith_status status = take_blocks(request);
    return status == KITH_OK ? make_inner(request) : status;
}

/* ---- steps ---- */

/* Puts in copies from the device, as far as there are blocks. */
static kith_status feed(kith_request *request)
{
    struct ki_staged *staged = staged_of(request);
    kith_ctx *ctx = request->group->ctx;
    while (staged->next_in < staged->pieces && staged->next_in < staged->next_run + DEPTH) {
        ki_stage_block *block = staged->blocks[staged->next_in % DEPTH];
        bool is_out = false;
        kith_status status = ki_stage_is_out(ctx, block, &is_out);
        if (status != KITH_OK || !is_out)
            return status;
        ki_side s = cut(request, ki_side_send(request), staged->next_in);
        if (s.count > 0) {
            status = copy_side(request, s, block->ptr, copy_in);
            if (status == KITH_OK)
                status = ki_stage_mark_in(ctx, block);
        }
        if (status != KITH_OK)
            return status;
        staged->next_in++;
    }
    return KITH_OK;
}

static kith_status start_piece(kith_request *request)
{
    struct ki_staged *staged = staged_of(request);
    kith_request *inner = staged->inner;
    size_t k = staged->next_run;
    if (staged->pieces > 1) {
        size_t left = request->coll.count - k * staged->piece;
        inner->coll.send = inner->coll.recv = staged->blocks[k % DEPTH]->ptr;
        inner->coll.count = left < staged->piece ? left : staged->piece;
    }
    inner->coll.sequence = request->coll.sequence + k;
    staged->is_running = true;
    return ki_dispatch_start_part(inner);
}

static kith_status end_piece(kith_request *request)
{
    struct ki_staged *staged = staged_of(request);
    ki_stage_block *block = staged->blocks[staged->next_run % DEPTH];
    ki_hier_release(staged->inner);
    staged->is_running = false;
    staged->inner->state = KI_STATE_QUEUED;
    ki_side s = cut(request, ki_side_recv(request), staged->next_run++);
    if (s.count == 0)
        return KITH_OK;
    bool is_one = is_one_buffer(request->coll.kind);
    kith_status status = copy_side(request, s, block->ptr + (is_one ? 0 : align(staged->send_nbytes)), copy_out);
    return status == KITH_OK ? ki_stage_mark_out(request->group->ctx, block) : status;
}

/* The last copy was put in: orders a stream behind it, or looks whether it is done. */
static kith_status complete(kith_request *request, bool *is_done)
{
    struct ki_staged *staged = staged_of(request);
    kith_ctx *ctx = request->group->ctx;
    ki_stage_block *last = staged->blocks[(staged->pieces - 1) % DEPTH];
    if (!request->has_order)
        return ki_stage_is_out(ctx, last, is_done);
    *is_done = true;
    return last->has_out ? ctx->device->ops->stream_wait_event(ctx->device->ordinal, request->order_stream, last->out)
                         : KITH_OK;
}

static kith_status advance(kith_request *request, bool *is_done)
{
    struct ki_staged *staged = staged_of(request);
    for (;;) {
        bool is_over = false;
        kith_status status = feed(request);
        if (status == KITH_OK && staged->next_run == staged->pieces)
            return complete(request, is_done);
        if (status == KITH_OK && !staged->is_running) {
            if (staged->next_run == staged->next_in)
                return KITH_OK; /* no block is free yet */
            status = ki_stage_is_in(request->group->ctx, staged->blocks[staged->next_run % DEPTH], &is_over);
            if (status != KITH_OK || !is_over)
                return status;
            status = start_piece(request);
        }
        is_over = false;
        if (status == KITH_OK)
            status = ki_dispatch_step(staged->inner, &is_over);
        if (status != KITH_OK || !is_over)
            return status;
        status = end_piece(request);
        if (status != KITH_OK)
            return status;
    }
}

/* ---- one rank ---- */

/* The only block of a list may lie anywhere. */
static kith_status copy_local(kith_request *request, void *stream)
{
    const kith_device *device = request->group->ctx->device;
    ki_side from = ki_side_send(request), to = ki_side_recv(request);
    size_t nbytes = request->coll.nbytes;
    unsigned char *source = from.base + (from.displs != NULL ? from.displs[0] * nbytes : 0);
    unsigned char *target = to.base + (to.displs != NULL ? to.displs[0] * nbytes : 0);
    if (to.count == 0 || source == target)
        return KITH_OK;
    return device->ops->copy(device->ordinal, stream, target, source, to.count * nbytes);
}

/* In the group's own stream where it has one: there it is in order without any event. */
static kith_status start_local(kith_request *request)
{
    struct ki_staged *staged = staged_of(request);
    kith_ctx *ctx = request->group->ctx;
    void *stream = request->stream;
    kith_status status = request->has_stream ? KITH_OK : ki_stage_out_stream(ctx, &stream);
    if (status == KITH_OK)
        status = copy_local(request, stream);
    staged->is_copied = status == KITH_OK;
    if (status != KITH_OK || (request->has_order && request->has_stream && request->order_stream == stream))
        return status;
    status = ki_stage_take_event(ctx, &staged->done);
    return status == KITH_OK ? ctx->device->ops->event_record(ctx->device->ordinal, staged->done, stream) : status;
}

static kith_status step_local(kith_request *request, bool *is_done)
{
    struct ki_staged *staged = staged_of(request);
    const kith_device *device = request->group->ctx->device;
    int done = 1;
    kith_status status = staged->is_copied ? KITH_OK : start_local(request);
    if (status == KITH_OK && request->has_order && staged->done != NULL)
        status = device->ops->stream_wait_event(device->ordinal, request->order_stream, staged->done);
    else if (status == KITH_OK && staged->done != NULL)
        status = device->ops->event_query(device->ordinal, staged->done, &done);
    *is_done = done != 0;
    return status;
}

static kith_status step_direct(kith_request *request, bool *is_done)
{
    struct ki_staged *staged = staged_of(request);
    kith_status status = KITH_OK;
    if (!staged->is_running) {
        staged->inner->coll.sequence = request->coll.sequence;
        staged->is_running = true;
        status = ki_dispatch_start_part(staged->inner);
    }
    if (status == KITH_OK)
        status = ki_dispatch_step(staged->inner, is_done);
    if (status == KITH_OK && *is_done)
        staged->is_running = false;
    return status;
}

kith_status ki_staged_step(kith_request *request, bool *is_done)
{
    struct ki_staged *staged = staged_of(request);
    if (staged->is_local)
        return step_local(request, is_done);
    if (!staged->is_ready) {
        kith_status status = ki_device_is_ready(request, &staged->is_ready);
        if (status != KITH_OK || !staged->is_ready)
            return status;
    }
    if (staged->hosts != NULL)
        return ki_device_hosts_step(staged->hosts, is_done);
    return staged->is_direct ? step_direct(request, is_done) : advance(request, is_done);
}

/* ---- end ---- */

void ki_staged_cancel(kith_request *request)
{
    struct ki_staged *staged = staged_of(request);
    if (staged->hosts != NULL)
        ki_device_hosts_cancel(request, staged->hosts);
    if (staged->is_running)
        ki_dispatch_cancel(staged->inner);
    ki_stage_settle(request->group->ctx);
    if (staged->done != NULL)
        ki_stage_wait_event(request->group->ctx, staged->done);
}

void ki_staged_finish(kith_request *request)
{
    struct ki_staged *staged = staged_of(request);
    kith_ctx *ctx = request->group->ctx;
    ki_device_hosts_free(staged->hosts);
    staged->hosts = NULL;
    if (staged->inner != NULL) {
        ki_dispatch_finish(staged->inner);
        ki_device_plan_end(staged->inner);
        ki_request_release(staged->inner);
        staged->inner = NULL;
    }
    for (int i = 0; i < DEPTH; i++) {
        if (staged->blocks[i] != NULL)
            ki_stage_give(ctx, staged->blocks[i]);
        staged->blocks[i] = NULL;
    }
    if (staged->done != NULL)
        ki_stage_give_event(ctx, staged->done);
    staged->done = NULL;
    ki_device_forget_ready(request);
}

kith_request *ki_staged_inner(const kith_request *request)
{
    struct ki_staged *staged = staged_of(request);
    return staged->is_running ? staged->inner : NULL;
}
