/* bench/floors/direct.c
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "direct.h"

#define TILE 2048 /* elements summed over more than two ranks at a time: stays in the first cache */
#define LINE_ELEMENTS (FLOOR_LINE / sizeof(float))
#define SHARED_FROM 1024          /* elements from which sender and receiver move half each */
#define STREAMING_FROM (1u << 18) /* bytes */

bool floor_direct_can_run(void *self, bench_op op, size_t nbytes, int size)
{
    const floor_direct *direct = self;
    (void)size;
    if (op == BENCH_BARRIER || (direct->is_streaming && nbytes < STREAMING_FROM)) {
        return false;
    }
    return !direct->is_whole || op == BENCH_ALL_REDUCE || op == BENCH_REDUCE;
}

static const float *send_of(const floor_direct *direct, int rank)
{
    return floor_mapped(direct->space, rank, 0);
}

static float *recv_of(const floor_direct *direct, int rank)
{
    return floor_mapped(direct->space, rank, 1);
}

/* Elements [from, to) of all vectors, summed into the first `outs` of the given results. */
static void sum_range(const floor_direct *direct, size_t from, size_t to, float *const *outs, int out_count)
{
    int size = direct->space->size;
    bool is_streaming = direct->is_streaming;
    if (size == 2 && out_count == 1) {
        floor_add(outs[0] + from, send_of(direct, 0) + from, send_of(direct, 1) + from, to - from, is_streaming);
        return;
    }
    if (size == 2) {
        floor_add_twice(outs[0] + from, outs[1] + from, send_of(direct, 0) + from, send_of(direct, 1) + from, to - from,
                        is_streaming);
        return;
    }
    float tile[TILE];
    for (size_t i = from; i < to; i += TILE) {
        size_t count = to - i < TILE ? to - i : TILE;
        floor_add(tile, send_of(direct, 0) + i, send_of(direct, 1) + i, count, false);
        for (int r = 2; r < size; r++) {
            floor_add(tile, tile, send_of(direct, r) + i, count, false);
        }
        for (int r = 0; r < out_count; r++) {
            floor_copy(outs[r] + i, tile, count * sizeof(float), is_streaming);
        }
    }
}

/* The elements that this rank sums: whole lines, the rest goes to the last rank. */
static void slice_of(const bench_shape *shape, size_t *from, size_t *to)
{
    size_t slice = (shape->count / (size_t)shape->size + LINE_ELEMENTS - 1) / LINE_ELEMENTS * LINE_ELEMENTS;
    size_t start = slice * (size_t)shape->rank;
    *from = start < shape->count ? start : shape->count;
    *to = shape->rank == shape->size - 1 || *from + slice > shape->count ? shape->count : *from + slice;
}

static void all_reduce(const floor_direct *direct, const bench_call *call)
{
    const bench_shape *shape = call->shape;
    float *outs[BENCH_MAX_RANKS];
    if (direct->is_whole || shape->size == 1) {
        outs[0] = call->recv;
        sum_range(direct, 0, shape->count, outs, 1);
        return;
    }
    for (int r = 0; r < shape->size; r++) {
        outs[r] = recv_of(direct, r);
    }
    size_t from, to;
    slice_of(shape, &from, &to);
    sum_range(direct, from, to, outs, shape->size);
}

static void reduce_scatter(const floor_direct *direct, const bench_call *call)
{
    const bench_shape *shape = call->shape;
    size_t from = (size_t)shape->rank * shape->block;
    float *out = (float *)call->recv - from; /* so that element `from` lands on recv[0] */
    sum_range(direct, from, from + shape->block, &out, 1);
}

static void gather_blocks(const floor_direct *direct, const bench_call *call, size_t offset)
{
    const bench_shape *shape = call->shape;
    for (int k = 0; k < shape->size; k++) {
        int peer = (shape->rank + k) % shape->size;
        floor_copy((float *)call->recv + (size_t)peer * shape->block, send_of(direct, peer) + offset,
                   shape->block * sizeof(float), direct->is_streaming);
    }
}

/* A message from one rank to another: of long ones both move a half. */
static void move(const floor_direct *direct, int from, int to, size_t count)
{
    int me = direct->space->rank;
    size_t pulled = count < SHARED_FROM ? count : count / 2;
    if (me == to) {
        floor_copy(recv_of(direct, to), send_of(direct, from), pulled * sizeof(float), direct->is_streaming);
    } else if (me == from && pulled < count) {
        floor_copy(recv_of(direct, to) + pulled, send_of(direct, from) + pulled, (count - pulled) * sizeof(float),
                   direct->is_streaming);
    }
}

static void broadcast(const floor_direct *direct, const bench_call *call)
{
    if (call->shape->size == 2) {
        move(direct, 0, 1, call->shape->count);
    } else if (call->shape->rank != 0) {
        floor_copy(call->recv, send_of(direct, 0), call->shape->count * sizeof(float), direct->is_streaming);
    }
}

/* Every rank sums its slice into the root's result; whole: the root sums all of it. */
static void reduce(const floor_direct *direct, const bench_call *call)
{
    float *out = recv_of(direct, 0);
    size_t from = 0, to = call->shape->rank == 0 ? call->shape->count : 0;
    if (!direct->is_whole && call->shape->size > 1) {
        slice_of(call->shape, &from, &to);
    }
    sum_range(direct, from, to, &out, 1);
}

bool floor_direct_run(void *self, const bench_call *call)
{
    const floor_direct *direct = self;
    const bench_shape *shape = call->shape;
    int partner = bench_shape_partner(shape);
    floor_barrier(direct->space);
    switch (shape->op) {
    case BENCH_ALL_REDUCE:
        all_reduce(direct, call);
        break;
    case BENCH_REDUCE_SCATTER:
        reduce_scatter(direct, call);
        break;
    case BENCH_ALL_GATHER:
        gather_blocks(direct, call, 0);
        break;
    case BENCH_ALL_TO_ALL:
        gather_blocks(direct, call, (size_t)shape->rank * shape->block);
        break;
    case BENCH_BROADCAST:
        broadcast(direct, call);
        break;
    case BENCH_REDUCE:
        reduce(direct, call);
        break;
    case BENCH_PING_PONG:
        move(direct, 0, 1, shape->count);
        floor_barrier(direct->space);
        move(direct, 1, 0, shape->count);
        break;
    default:
        if (partner >= 0) {
            floor_copy(call->recv, send_of(direct, partner), shape->count * sizeof(float), direct->is_streaming);
        }
        break;
    }
    floor_barrier(direct->space);
    return true;
}

bool floor_flags_can_run(void *self, bench_op op, size_t nbytes, int size)
{
    (void)self;
    (void)nbytes;
    (void)size;
    return op == BENCH_BARRIER;
}

bool floor_flags_run(void *self, const bench_call *call)
{
    const floor_direct *direct = self;
    (void)call;
    floor_barrier(direct->space);
    return true;
}
