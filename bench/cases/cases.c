/* bench/cases/cases.c - the table behind cases.h.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "cases.h"

#include <string.h>

typedef struct op_row {
    const char *name;
    bool is_blockwise, is_pairwise, is_sizeless;
    double scale;
} op_row;

static const op_row op_rows[BENCH_OP_COUNT] = {
    [BENCH_ALL_REDUCE] = { "all_reduce", false, false, false, 1.0 },
    [BENCH_REDUCE_SCATTER] = { "reduce_scatter", true, false, false, 1.0 },
    [BENCH_ALL_GATHER] = { "all_gather", true, false, false, 1.0 },
    [BENCH_ALL_TO_ALL] = { "all_to_all", true, false, false, 1.0 },
    [BENCH_BROADCAST] = { "broadcast", false, false, false, 1.0 },
    [BENCH_REDUCE] = { "reduce", false, false, false, 1.0 },
    [BENCH_BARRIER] = { "barrier", false, false, true, 1.0 },
    [BENCH_PING_PONG] = { "ping_pong", false, true, false, 0.5 },
    [BENCH_SENDRECV] = { "sendrecv", false, true, false, 1.0 },
};

const char *bench_op_name(bench_op op)
{
    return op_rows[op].name;
}

bool bench_op_parse(const char *name, bench_op *op)
{
    for (int i = 0; i < BENCH_OP_COUNT; i++) {
        if (strcmp(name, op_rows[i].name) == 0) {
            *op = (bench_op)i;
            return true;
        }
    }
    return false;
}

bool bench_op_is_sizeless(bench_op op)
{
    return op_rows[op].is_sizeless;
}

bool bench_op_is_pairwise(bench_op op)
{
    return op_rows[op].is_pairwise;
}

double bench_op_scale(bench_op op)
{
    return op_rows[op].scale;
}

size_t bench_op_nbytes(bench_op op, size_t nbytes, size_t element_nbytes, int size)
{
    if (op_rows[op].is_sizeless) {
        return 0;
    }
    size_t unit = element_nbytes * (op_rows[op].is_blockwise ? (size_t)size : 1);
    size_t units = nbytes / unit + (nbytes % unit != 0);
    return (units > 0 ? units : 1) * unit;
}

int bench_shape_partner(const bench_shape *shape)
{
    int partner = shape->rank ^ 1;
    if (partner >= shape->size || (shape->op == BENCH_PING_PONG && shape->rank > 1)) {
        return -1;
    }
    return partner;
}

bench_shape bench_shape_of(bench_op op, size_t nbytes, size_t element_nbytes, int rank, int size)
{
    bench_shape shape = { .op = op, .rank = rank, .size = size, .element_nbytes = element_nbytes };
    shape.count = bench_op_nbytes(op, nbytes, element_nbytes, size) / element_nbytes;
    shape.block = op_rows[op].is_blockwise ? shape.count / (size_t)size : shape.count;
    shape.send_count = shape.count;
    shape.recv_count = shape.count;
    if (op == BENCH_REDUCE_SCATTER) {
        shape.recv_count = shape.block;
    } else if (op == BENCH_ALL_GATHER) {
        shape.send_count = shape.block;
    } else if (op == BENCH_BROADCAST) {
        shape.send_count = rank == 0 ? shape.count : 0;
        shape.recv_count = rank == 0 ? 0 : shape.count;
    } else if (op == BENCH_REDUCE) {
        shape.recv_count = rank == 0 ? shape.count : 0;
    } else if (op_rows[op].is_pairwise && bench_shape_partner(&shape) < 0) {
        shape.send_count = 0;
        shape.recv_count = 0;
    }
    return shape;
}

void bench_shape_source(const bench_shape *shape, size_t i, int *from, size_t *index)
{
    *from = -1;
    *index = i;
    switch (shape->op) {
    case BENCH_REDUCE_SCATTER:
        *index = (size_t)shape->rank * shape->block + i;
        break;
    case BENCH_ALL_GATHER:
        *from = (int)(i / shape->block);
        *index = i % shape->block;
        break;
    case BENCH_ALL_TO_ALL:
        *from = (int)(i / shape->block);
        *index = (size_t)shape->rank * shape->block + i % shape->block;
        break;
    case BENCH_BROADCAST:
        *from = 0;
        break;
    case BENCH_PING_PONG:
    case BENCH_SENDRECV:
        *from = bench_shape_partner(shape);
        break;
    default:
        break;
    }
}

size_t bench_shape_run(const bench_shape *shape, size_t i)
{
    size_t left = shape->recv_count - i;
    size_t in_block = shape->block - i % shape->block;
    return left < in_block ? left : in_block;
}
