/* tools/bench/calls.c - one operation of the public API, on buffers of one point.
 *
 * Blocking collectives are called by their own functions, as a trainer calls them. Patterns of messages are lists of
 * what this rank sends and receives; ping_pong alone has an order.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "bench.h"

#include <stdlib.h>

#define TAG 1

static unsigned char *own_part(const bench_call *call, void *buffer)
{
    return (unsigned char *)buffer + call->shape.own_first * call->element_nbytes;
}

/* Where the operation reads and writes. In place means what kith/coll.h means by it. */
static void place_buffers(bench_call *call, bool is_in_place, void *send_buffer, void *recv_buffer)
{
    bool is_root = call->shape.rank == call->shape.root;
    call->send = send_buffer;
    call->recv = recv_buffer;
    if (!is_in_place)
        return;
    switch ((int)call->shape.op) {
    case KITH_REDUCE_SCATTER:
    case KITH_REDUCE_SCATTER_V:
        call->recv = own_part(call, send_buffer);
        break;
    case KITH_ALL_GATHER:
    case KITH_ALL_GATHER_V:
        call->send = own_part(call, recv_buffer);
        break;
    case KITH_GATHER:
    case KITH_GATHER_V:
        if (is_root)
            call->send = own_part(call, recv_buffer);
        break;
    case KITH_SCATTER:
    case KITH_SCATTER_V:
        if (is_root)
            call->recv = own_part(call, send_buffer);
        break;
    default:
        call->send = recv_buffer;
        break;
    }
}

/* What kith_coll_args wants as its count. */
static size_t argument_count(const bench_shape *shape)
{
    switch ((int)shape->op) {
    case KITH_REDUCE_SCATTER:
    case KITH_SCATTER:
    case KITH_SCATTER_V:
        return shape->recv_count;
    case KITH_ALL_GATHER:
    case KITH_GATHER:
    case KITH_GATHER_V:
        return shape->send_count;
    case KITH_ALL_TO_ALL:
        return shape->count / (size_t)shape->size;
    default:
        return shape->count;
    }
}

static void describe_collective(bench_call *call)
{
    const bench_shape *shape = &call->shape;
    kith_coll_args args = KITH_COLL_ARGS_INIT;
    args.kind = (kith_coll_kind)shape->op;
    args.send = call->send;
    args.recv = call->recv;
    args.count = argument_count(shape);
    args.dtype = call->dtype;
    args.op = call->redop;
    args.root = shape->root;
    args.send_counts = args.recv_counts = shape->counts;
    if (args.kind == KITH_SCATTER_V)
        args.recv_counts = NULL;
    else if (args.kind != KITH_ALL_TO_ALL_V)
        args.send_counts = NULL;
    call->args = args;
}

static void add_message(bench_call *call, bool is_send, int peer, void *buffer)
{
    call->messages[call->message_count++] =
        (kith_p2p_args){ is_send, buffer, call->shape.count, call->dtype, peer, TAG };
}

static void describe_messages(bench_call *call, void *send_buffer)
{
    const bench_shape *shape = &call->shape;
    unsigned char *recv = call->recv;
    int peer = shape->rank == shape->src ? shape->dst : shape->src;
    if (shape->op == BENCH_MANY_TO_ONE) {
        for (int r = 0; shape->rank == shape->root && r < shape->size; r++) {
            if (r == shape->root)
                continue;
            add_message(call, false, r, recv);
            recv += shape->count * call->element_nbytes;
        }
        if (shape->rank != shape->root)
            add_message(call, true, shape->root, send_buffer);
    } else if (shape->op == BENCH_RING_EXCHANGE) {
        add_message(call, false, (shape->rank + shape->size - 1) % shape->size, recv);
        add_message(call, true, (shape->rank + 1) % shape->size, send_buffer);
    } else if (bench_shape_is_active(shape)) {
        add_message(call, false, peer, recv);
        add_message(call, true, peer, send_buffer);
    }
}

bool bench_call_make(bench_call *call, kith_group *group, const bench_shape *shape, kith_dtype dtype, kith_op redop,
                     bool is_in_place, void *send_buffer, void *recv_buffer)
{
    *call = (bench_call){
        .group = group, .shape = *shape, .dtype = dtype, .redop = redop, .element_nbytes = kith_dtype_nbytes(dtype)
    };
    size_t most = (size_t)shape->size + 2;
    call->messages = calloc(most, sizeof *call->messages);
    call->requests = calloc(most, sizeof *call->requests);
    if (call->messages == NULL || call->requests == NULL)
        return false;
    place_buffers(call, is_in_place, send_buffer, recv_buffer);
    if (bench_op_is_pattern(shape->op))
        describe_messages(call, send_buffer);
    else
        describe_collective(call);
    return true;
}

void bench_call_free(bench_call *call)
{
    free(call->messages);
    free(call->requests);
    bench_shape_free(&call->shape);
    *call = (bench_call){ 0 };
}

static kith_status run_collective(const bench_call *call)
{
    const kith_coll_args *a = &call->args;
    kith_group *group = call->group;
    switch (a->kind) {
    case KITH_ALL_REDUCE:
        return kith_all_reduce(group, a->send, a->recv, a->count, a->dtype, a->op);
    case KITH_REDUCE_SCATTER:
        return kith_reduce_scatter(group, a->send, a->recv, a->count, a->dtype, a->op);
    case KITH_REDUCE_SCATTER_V:
        return kith_reduce_scatter_v(group, a->send, a->recv, a->recv_counts, a->dtype, a->op);
    case KITH_ALL_GATHER:
        return kith_all_gather(group, a->send, a->recv, a->count, a->dtype);
    case KITH_ALL_GATHER_V:
        return kith_all_gather_v(group, a->send, a->recv, a->recv_counts, NULL, a->dtype);
    case KITH_BROADCAST:
        return kith_broadcast(group, a->recv, a->count, a->dtype, a->root);
    case KITH_REDUCE:
        return kith_reduce(group, a->send, a->recv, a->count, a->dtype, a->op, a->root);
    case KITH_GATHER:
        return kith_gather(group, a->send, a->recv, a->count, a->dtype, a->root);
    case KITH_SCATTER:
        return kith_scatter(group, a->send, a->recv, a->count, a->dtype, a->root);
    case KITH_GATHER_V:
        return kith_gather_v(group, a->send, a->count, a->recv, a->recv_counts, NULL, a->dtype, a->root);
    case KITH_SCATTER_V:
        return kith_scatter_v(group, a->send, a->send_counts, NULL, a->recv, a->count, a->dtype, a->root);
    case KITH_ALL_TO_ALL:
        return kith_all_to_all(group, a->send, a->recv, a->count, a->dtype);
    case KITH_ALL_TO_ALL_V:
        return kith_all_to_all_v(group, a->send, a->send_counts, NULL, a->recv, a->recv_counts, NULL, a->dtype);
    case KITH_BARRIER:
        return kith_barrier(group);
    }
    return KITH_ERR_INTERNAL;
}

/* messages[0] receives, messages[1] sends; the one that waits first is the peer of src. */
static kith_status run_in_turns(const bench_call *call)
{
    const bench_shape *shape = &call->shape;
    const kith_p2p_args *in = &call->messages[0], *out = &call->messages[1];
    if (shape->src == shape->dst)
        return kith_sendrecv(call->group, out->buffer, out->count, out->peer, TAG, in->buffer, in->count, in->peer, TAG,
                             call->dtype);
    if (shape->rank == shape->src) {
        kith_status status = kith_send(call->group, out->buffer, out->count, out->dtype, out->peer, TAG);
        return status != KITH_OK ? status
                                 : kith_recv(call->group, in->buffer, in->count, in->dtype, in->peer, TAG, NULL);
    }
    kith_status status = kith_recv(call->group, in->buffer, in->count, in->dtype, in->peer, TAG, NULL);
    return status != KITH_OK ? status : kith_send(call->group, out->buffer, out->count, out->dtype, out->peer, TAG);
}

kith_status bench_call_run(bench_call *call)
{
    if (!bench_op_is_pattern(call->shape.op))
        return run_collective(call);
    if (call->message_count == 0)
        return KITH_OK;
    if (bench_op_takes_turns(call->shape.op))
        return run_in_turns(call);
    kith_status status = bench_call_start(call);
    return status != KITH_OK ? status : bench_call_wait(call);
}

kith_status bench_call_start(bench_call *call)
{
    if (!bench_op_is_pattern(call->shape.op)) {
        call->started = 1;
        return kith_coll_start(call->group, &call->args, &call->requests[0]);
    }
    call->started = call->message_count;
    if (call->message_count == 0)
        return KITH_OK;
    return kith_batch_start(call->group, call->messages, call->message_count, call->requests);
}

kith_status bench_call_wait(bench_call *call)
{
    return kith_wait_all(call->requests, call->started);
}

void bench_call_needs(const bench_shape *shape, bool is_in_place, size_t *send_count, size_t *recv_count)
{
    bench_call call = { .shape = *shape, .element_nbytes = 1 };
    unsigned char send, recv; /* never touched: only which of them the operation is in */
    size_t most = shape->send_count > shape->recv_count ? shape->send_count : shape->recv_count;
    *send_count = shape->send_count;
    *recv_count = shape->op == (bench_op)KITH_BROADCAST ? shape->count : shape->recv_count;
    if (!is_in_place)
        return;
    call.shape.own_first = 0;
    place_buffers(&call, true, &send, &recv);
    if (call.send == &recv && call.recv == &recv) {
        *send_count = 0;
        *recv_count = most;
    } else if (call.send == &send && call.recv == &send) {
        *send_count = most;
        *recv_count = 0;
    }
}
