/* tools/bench/shape.c - who holds and gets how many elements, and where each comes from.
 *
 * Of `count` elements, part r of an even operation is count / size; part r of a v-form is what lies between the
 * boundaries count * r (r + 1) / (n (n + 1)), so rank r has about (r + 1) shares, and none is lost. In all_to_all_v
 * rank i gives part (i + j) mod n to rank j: both ends of a pair know the same number, and every rank gives and gets
 * `count`.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "bench.h"

#include <stdlib.h>

/* count * r (r + 1) / (n (n + 1)), rounded down, without overflow. */
static size_t boundary(size_t count, int r, int n)
{
    size_t parts = (size_t)n * ((size_t)n + 1), first = (size_t)r * ((size_t)r + 1);
    return count / parts * first + count % parts * first / parts;
}

static size_t uneven_part(size_t count, int r, int n)
{
    return boundary(count, r + 1, n) - boundary(count, r, n);
}

/* Elements that rank i gives to rank j in all_to_all and all_to_all_v. */
static size_t pair_count(const bench_shape *shape, int i, int j)
{
    if (shape->counts == NULL)
        return shape->count / (size_t)shape->size;
    return uneven_part(shape->count, (i + j) % shape->size, shape->size);
}

static size_t part_count(const bench_shape *shape, int r)
{
    return shape->counts != NULL ? shape->counts[r] : shape->count / (size_t)shape->size;
}

static size_t part_first(const bench_shape *shape, int r)
{
    return shape->counts != NULL ? boundary(shape->count, r, shape->size)
                                 : shape->count / (size_t)shape->size * (size_t)r;
}

/* Whether nbytes is split into a part for each rank. */
static bool is_in_parts(bench_op op)
{
    switch ((int)op) {
    case KITH_REDUCE_SCATTER:
    case KITH_ALL_GATHER:
    case KITH_GATHER:
    case KITH_SCATTER:
    case KITH_ALL_TO_ALL:
        return true;
    default:
        return bench_op_is_uneven(op);
    }
}

static bool make_counts(bench_shape *shape)
{
    shape->counts = calloc((size_t)shape->size, sizeof *shape->counts);
    if (shape->counts == NULL)
        return false;
    for (int r = 0; r < shape->size; r++) {
        int part = shape->op == (bench_op)KITH_ALL_TO_ALL_V ? (shape->rank + r) % shape->size : r;
        shape->counts[r] = uneven_part(shape->count, part, shape->size);
    }
    return true;
}

static void count_collective(bench_shape *shape)
{
    size_t own = is_in_parts(shape->op) ? part_count(shape, shape->rank) : shape->count;
    bool is_root = shape->rank == shape->root;
    shape->send_count = shape->count;
    shape->recv_count = shape->count;
    shape->own_first = is_in_parts(shape->op) ? part_first(shape, shape->rank) : 0;
    switch ((int)shape->op) {
    case KITH_REDUCE_SCATTER:
    case KITH_REDUCE_SCATTER_V:
        shape->recv_count = own;
        break;
    case KITH_ALL_GATHER:
    case KITH_ALL_GATHER_V:
        shape->send_count = own;
        break;
    case KITH_GATHER:
    case KITH_GATHER_V:
        shape->send_count = own;
        shape->recv_count = is_root ? shape->count : 0;
        break;
    case KITH_SCATTER:
    case KITH_SCATTER_V:
        shape->send_count = is_root ? shape->count : 0;
        shape->recv_count = own;
        break;
    case KITH_BROADCAST:
        shape->send_count = is_root ? shape->count : 0;
        break;
    case KITH_REDUCE:
        shape->recv_count = is_root ? shape->count : 0;
        break;
    case KITH_BARRIER:
        shape->count = shape->send_count = shape->recv_count = 0;
        break;
    default:
        break;
    }
}

static void count_pattern(bench_shape *shape)
{
    size_t others = (size_t)shape->size - 1;
    bool is_root = shape->rank == shape->root;
    bool is_of_pair = shape->rank == shape->src || shape->rank == shape->dst;
    shape->send_count = shape->recv_count = shape->count;
    if (shape->op == BENCH_MANY_TO_ONE) {
        shape->send_count = is_root ? 0 : shape->count;
        shape->recv_count = is_root ? shape->count * others : 0;
    } else if (shape->op != BENCH_RING_EXCHANGE && !is_of_pair) {
        shape->send_count = shape->recv_count = 0;
    }
}

bool bench_shape_make(bench_shape *shape, bench_op op, size_t nbytes, size_t element_nbytes, int rank, int size,
                      int root)
{
    *shape = (bench_shape){ .op = op, .rank = rank, .size = size, .root = root, .dst = size > 1 ? 1 : 0 };
    size_t unit = is_in_parts(op) && !bench_op_is_uneven(op) ? (size_t)size : 1;
    size_t units = nbytes / element_nbytes / unit;
    shape->count = (units > 0 ? units : 1) * unit;
    if (bench_op_is_uneven(op) && !make_counts(shape))
        return false;
    if (bench_op_is_pattern(op))
        count_pattern(shape);
    else
        count_collective(shape);
    return true;
}

void bench_shape_pair(bench_shape *shape, int src, int dst)
{
    shape->src = src;
    shape->dst = dst;
    count_pattern(shape);
}

void bench_shape_free(bench_shape *shape)
{
    free(shape->counts);
    shape->counts = NULL;
}

/* The part of recv that holds element i: whose it is, where it begins, how long it is. */
static void find_part(const bench_shape *shape, size_t i, int *rank, size_t *first, size_t *count)
{
    bool is_exchange = shape->op == (bench_op)KITH_ALL_TO_ALL || shape->op == (bench_op)KITH_ALL_TO_ALL_V;
    *first = 0;
    for (*rank = 0; *rank < shape->size; (*rank)++) {
        *count = is_exchange ? pair_count(shape, *rank, shape->rank) : part_count(shape, *rank);
        if (i - *first < *count)
            return;
        *first += *count;
    }
}

/* Where the part for this rank begins in what rank i gives. */
static size_t exchange_first(const bench_shape *shape, int i)
{
    size_t first = 0;
    for (int j = 0; j < shape->rank; j++)
        first += pair_count(shape, i, j);
    return first;
}

static void find_message(const bench_shape *shape, size_t i, int *from, size_t *index)
{
    *index = i;
    if (shape->op == BENCH_RING_EXCHANGE)
        *from = (shape->rank + shape->size - 1) % shape->size;
    else if (shape->op == BENCH_MANY_TO_ONE) {
        int sender = (int)(i / shape->count); /* among the others */
        *from = sender < shape->root ? sender : sender + 1;
        *index = i % shape->count;
    } else
        *from = shape->rank == shape->src ? shape->dst : shape->src;
}

void bench_shape_source(const bench_shape *shape, size_t i, int *from, size_t *index, size_t *count)
{
    size_t first = 0;
    *from = -1;
    *index = i;
    *count = shape->recv_count - i;
    switch ((int)shape->op) {
    case KITH_REDUCE_SCATTER:
    case KITH_REDUCE_SCATTER_V:
        *index = shape->own_first + i;
        break;
    case KITH_ALL_GATHER:
    case KITH_ALL_GATHER_V:
    case KITH_GATHER:
    case KITH_GATHER_V:
        find_part(shape, i, from, &first, count);
        *index = i - first;
        *count -= *index;
        break;
    case KITH_ALL_TO_ALL:
    case KITH_ALL_TO_ALL_V:
        find_part(shape, i, from, &first, count);
        *count -= i - first;
        *index = exchange_first(shape, *from) + i - first;
        break;
    case KITH_SCATTER:
    case KITH_SCATTER_V:
        *from = shape->root;
        *index = shape->own_first + i;
        break;
    case KITH_BROADCAST:
        *from = shape->root;
        break;
    default:
        if (bench_op_is_pattern(shape->op)) {
            find_message(shape, i, from, index);
            if (shape->op == BENCH_MANY_TO_ONE)
                *count = shape->count - *index;
        }
        break;
    }
}

bool bench_shape_is_active(const bench_shape *shape)
{
    return !bench_op_is_pattern(shape->op) || shape->send_count > 0 || shape->recv_count > 0;
}
