/* bench/floors/cells.c
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "cells.h"

#define CELL_STRIDE (FLOOR_CELL_MAX + 2 * FLOOR_LINE)
#define ONE_WAY_CELLS 8

void floor_cells_init(floor_cells *cells, floor_space *space)
{
    size_t ranks = (size_t)space->size;
    *cells = (floor_cells){ .space = space };
    cells->exchange = floor_shared_memory(ranks * 2 * CELL_STRIDE);
    cells->broadcast = floor_shared_memory(ONE_WAY_CELLS * CELL_STRIDE);
    cells->pair = floor_shared_memory(4 * CELL_STRIDE);
    cells->reduce = floor_shared_memory(ranks * ONE_WAY_CELLS * CELL_STRIDE);
    cells->summed = floor_shared_memory(sizeof(bench_flag));
    cells->taken = floor_shared_memory(ranks * sizeof(bench_flag));
}

bool floor_cells_can_run(void *self, bench_op op, size_t nbytes, int size)
{
    (void)self;
    (void)size;
    return op != BENCH_BARRIER && nbytes <= FLOOR_CELL_MAX;
}

static unsigned char *exchange_cell(const floor_cells *cells, int rank, uint32_t sequence)
{
    return cells->exchange + ((size_t)rank * 2 + (sequence & 1)) * CELL_STRIDE;
}

/* What rank reads of the payload that each other rank puts into its cell, and where it goes. With two ranks a
 * blockwise operation puts only the block that the other one wants. */
static void exchange(floor_cells *cells, const bench_call *call)
{
    const bench_shape *shape = call->shape;
    const floor_space *space = cells->space;
    size_t block = shape->block * sizeof(float);
    bool is_split = shape->op == BENCH_REDUCE_SCATTER || shape->op == BENCH_ALL_TO_ALL;
    bool is_summed = shape->op == BENCH_ALL_REDUCE || shape->op == BENCH_REDUCE_SCATTER;
    size_t mine = is_split ? (size_t)shape->rank * block : 0; /* my part of everybody's vector */
    bool puts_one = is_split && shape->size == 2;
    size_t put_nbytes = puts_one ? block : shape->send_count * sizeof(float);
    const unsigned char *send = call->send;
    unsigned char *recv = call->recv;

    uint32_t sequence = ++cells->exchange_count;
    floor_cell_put(exchange_cell(cells, shape->rank, sequence), puts_one ? send + (block - mine) : send, put_nbytes,
                   sequence);
    if (!is_summed) {
        memcpy(recv + (size_t)shape->rank * block, send + mine, block);
    }
    const float *sum_so_far = (const float *)(const void *)(send + mine);
    for (int k = 1; k < shape->size; k++) {
        int peer = (shape->rank + k) % shape->size;
        const unsigned char *from = floor_cell_get(space, exchange_cell(cells, peer, sequence), put_nbytes, sequence);
        from += puts_one ? 0 : mine;
        if (is_summed) {
            floor_add(call->recv, sum_so_far, (const float *)(const void *)from, shape->recv_count, false);
            sum_so_far = call->recv;
        } else {
            memcpy(recv + (size_t)peer * block, from, block);
        }
    }
}

static void sendrecv(floor_cells *cells, const bench_call *call, int partner)
{
    size_t nbytes = call->shape->send_count * sizeof(float);
    uint32_t sequence = ++cells->exchange_count;
    floor_cell_put(exchange_cell(cells, call->shape->rank, sequence), call->send, nbytes, sequence);
    memcpy(call->recv, floor_cell_get(cells->space, exchange_cell(cells, partner, sequence), nbytes, sequence), nbytes);
}

static unsigned char *reduce_cell(const floor_cells *cells, int rank, uint32_t sequence)
{
    return cells->reduce + ((size_t)rank * ONE_WAY_CELLS + sequence % ONE_WAY_CELLS) * CELL_STRIDE;
}

static void broadcast(floor_cells *cells, const bench_call *call)
{
    const bench_shape *shape = call->shape;
    size_t nbytes = shape->count * sizeof(float);
    uint32_t sequence = ++cells->broadcast_count;
    unsigned char *cell = cells->broadcast + (sequence % ONE_WAY_CELLS) * CELL_STRIDE;
    if (shape->rank != 0) {
        memcpy(call->recv, floor_cell_get(cells->space, cell, nbytes, sequence), nbytes);
        floor_publish(&cells->taken[shape->rank].value, sequence);
        return;
    }
    for (int r = 1; r < shape->size && sequence > ONE_WAY_CELLS; r++) {
        floor_await(cells->space, &cells->taken[r].value, sequence - ONE_WAY_CELLS);
    }
    floor_cell_put(cell, call->send, nbytes, sequence);
}

static void reduce(floor_cells *cells, const bench_call *call)
{
    const bench_shape *shape = call->shape;
    size_t nbytes = shape->count * sizeof(float);
    uint32_t sequence = ++cells->reduce_count;
    if (shape->rank != 0) {
        if (sequence > ONE_WAY_CELLS) {
            floor_await(cells->space, &cells->summed->value, sequence - ONE_WAY_CELLS);
        }
        floor_cell_put(reduce_cell(cells, shape->rank, sequence), call->send, nbytes, sequence);
        return;
    }
    const float *sum_so_far = call->send;
    for (int r = 1; r < shape->size; r++) {
        const unsigned char *from = floor_cell_get(cells->space, reduce_cell(cells, r, sequence), nbytes, sequence);
        floor_add(call->recv, sum_so_far, (const float *)(const void *)from, shape->count, false);
        sum_so_far = call->recv;
    }
    floor_publish(&cells->summed->value, sequence);
    if (shape->size == 1) {
        memcpy(call->recv, call->send, nbytes);
    }
}

static void ping_pong(floor_cells *cells, const bench_call *call)
{
    size_t nbytes = call->shape->send_count * sizeof(float);
    uint32_t sequence = ++cells->pair_count;
    unsigned char *there = cells->pair + (sequence & 1) * CELL_STRIDE;
    unsigned char *back = there + 2 * CELL_STRIDE;
    if (call->shape->rank == 0) {
        floor_cell_put(there, call->send, nbytes, sequence);
        memcpy(call->recv, floor_cell_get(cells->space, back, nbytes, sequence), nbytes);
    } else {
        memcpy(call->recv, floor_cell_get(cells->space, there, nbytes, sequence), nbytes);
        floor_cell_put(back, call->send, nbytes, sequence);
    }
}

bool floor_cells_run(void *self, const bench_call *call)
{
    floor_cells *cells = self;
    int partner = bench_shape_partner(call->shape);
    switch (call->shape->op) {
    case BENCH_BROADCAST:
        broadcast(cells, call);
        break;
    case BENCH_REDUCE:
        reduce(cells, call);
        break;
    case BENCH_PING_PONG:
        if (partner >= 0) {
            ping_pong(cells, call);
        }
        break;
    case BENCH_SENDRECV:
        if (partner >= 0) {
            sendrecv(cells, call, partner);
        } else {
            cells->exchange_count++; /* the numbers of all ranks stay together */
        }
        break;
    default:
        exchange(cells, call);
        break;
    }
    return true;
}
