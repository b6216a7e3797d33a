/* bench/cases/cases.h - the operations that are measured: how large their buffers are, and what must be in them
 * afterwards.
 *
 * nbytes means one thing for every driver:
 *   all_reduce, broadcast, reduce, ping_pong, sendrecv   the vector, the message
 *   reduce_scatter, all_gather, all_to_all               all blocks together: each rank's block is nbytes / size
 * It is rounded up so that every rank has at least one element. The root of broadcast and reduce is rank 0. ping_pong
 * runs between ranks 0 and 1, sendrecv between neighbours (0,1), (2,3), ...; times of ping_pong are one way.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef BENCH_CASES_H
#define BENCH_CASES_H

#include <stdbool.h>
#include <stddef.h>

typedef enum bench_op {
    BENCH_ALL_REDUCE,
    BENCH_REDUCE_SCATTER,
    BENCH_ALL_GATHER,
    BENCH_ALL_TO_ALL,
    BENCH_BROADCAST,
    BENCH_REDUCE,
    BENCH_BARRIER,
    BENCH_PING_PONG,
    BENCH_SENDRECV,
    BENCH_OP_COUNT
} bench_op;

/* What an operation of nbytes is for one rank. Counts are elements. */
typedef struct bench_shape {
    bench_op op;
    int rank, size;
    size_t element_nbytes;
    size_t count;      /* all blocks together */
    size_t block;      /* count / size for the blockwise operations, else count */
    size_t send_count; /* 0: this rank sends nothing */
    size_t recv_count; /* 0: this rank receives nothing */
} bench_shape;

const char *bench_op_name(bench_op op);

/* Writes *op; false for a word that is no operation. */
bool bench_op_parse(const char *name, bench_op *op);

/* True when the operation has no size (barrier). */
bool bench_op_is_sizeless(bench_op op);

/* True when ranks talk in pairs and the operation needs at least two of them. */
bool bench_op_is_pairwise(bench_op op);

/* What the time of one run is multiplied with: 0.5 for ping_pong, whose round trip is two messages. */
double bench_op_scale(bench_op op);

/* nbytes rounded up to what the operation can have on size ranks. */
size_t bench_op_nbytes(bench_op op, size_t nbytes, size_t element_nbytes, int size);

bench_shape bench_shape_of(bench_op op, size_t nbytes, size_t element_nbytes, int rank, int size);

/* Partner of a rank in the pairwise operations, -1 when it has none and only watches. */
int bench_shape_partner(const bench_shape *shape);

/* Where recv[i] comes from: element *index of the send buffer of rank *from; *from = -1: of all ranks, reduced. */
void bench_shape_source(const bench_shape *shape, size_t i, int *from, size_t *index);

/* How many elements from recv[i] on come from consecutive elements of the same send buffer. */
size_t bench_shape_run(const bench_shape *shape, size_t i);

#endif
