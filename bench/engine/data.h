/* bench/engine/data.h - what is sent, and what must arrive.
 *
 * Element i of rank r's send buffer in iteration t is a whole number from 0 to 30:
 *
 *     value(r, t, i) = (i + offset(r, t, i / 1024)) mod 31
 *
 * where offset mixes the rank, the iteration and the piece of 1024 elements. So every piece differs from its
 * neighbours, from the same piece of other ranks and from what the last iteration left behind, and sums over up to 8
 * ranks stay at or below 240: exact even in bf16, so results are compared bit by bit. Filling and checking copy
 * prepared patterns, which runs at memory speed.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef BENCH_DATA_H
#define BENCH_DATA_H

#include "../cases/cases.h"

#include <stdint.h>

typedef enum bench_dtype { BENCH_F32, BENCH_F64, BENCH_BF16, BENCH_INT32, BENCH_DTYPE_COUNT } bench_dtype;

const char *bench_dtype_name(bench_dtype dtype);
size_t bench_dtype_nbytes(bench_dtype dtype);
bool bench_dtype_parse(const char *name, bench_dtype *dtype);

/* One element of value into *element, and back. */
void bench_dtype_store(bench_dtype dtype, int value, void *element);
double bench_dtype_load(bench_dtype dtype, const void *element);

/* The patterns of one dtype. Made by bench_data_init(), needs no cleaning up. */
#define BENCH_DATA_PERIOD 31
#define BENCH_DATA_PIECE 1024
typedef struct bench_data {
    bench_dtype dtype;
    size_t nbytes;                                                      /* of an element */
    unsigned char pattern[(BENCH_DATA_PIECE + BENCH_DATA_PERIOD) * 8];  /* j mod 31 */
    unsigned char expected[(BENCH_DATA_PIECE + BENCH_DATA_PERIOD) * 8]; /* scratch of bench_data_check() */
} bench_data;

void bench_data_init(bench_data *data, bench_dtype dtype);

int bench_data_value(int rank, uint32_t iteration, size_t index);

/* Writes send_count elements. */
void bench_data_fill(const bench_data *data, const bench_shape *shape, uint32_t iteration, void *send);

/* Where a result is wrong. */
typedef struct bench_data_error {
    size_t index;
    double wanted, got;
} bench_data_error;

/* Compares every element of recv; false, with *error written, at the first that is wrong. */
bool bench_data_check(bench_data *data, const bench_shape *shape, uint32_t iteration, const void *recv,
                      bench_data_error *error);

/* Compares the first, the last and six elements between, others in each iteration: cheap enough for every iteration. */
bool bench_data_check_samples(const bench_data *data, const bench_shape *shape, uint32_t iteration, const void *recv,
                              bench_data_error *error);

#endif
