/* bench/layers/cases.h - the functions of layers/compute that benchmarks call, the matrices they are called with, and
 * how many bytes they have to move.
 *
 * Which table computes and where the matrices lie is the program's business: the host's (kernels.c) or a GPU's
 * (bench/gpu).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef BENCH_LAYERS_CASES_H
#define BENCH_LAYERS_CASES_H

#include "layers/compute/compute.h"

enum { BENCH_MATRICES = 16 };

typedef struct bench_data bench_data;

struct bench_data {
    ki_compute *compute;
    kith_dtype dtype, wide; /* T, A(T) */
    int64_t rows, cols;     /* at least 1 and 3 */
    ki_mat x, y, z, u, v;   /* T, [rows, cols] */
    ki_mat a, b, c, d;      /* A, [rows, cols] */
    ki_mat weight, bias;    /* T, [1, cols] */
    ki_mat weight_grad, bias_grad;
    ki_mat mean, rstd, sums; /* A, [rows, 1], [rows, 3] */
    int32_t *ids, *columns;  /* [rows], [rows * 2] */
    ki_dropout dropout;
    double sum;
    /* Memory where the table computes, aligned to 64 bytes (NULL: none left), and bytes of the host put into it. */
    void *(*alloc)(bench_data *b, size_t nbytes);
    kith_status (*put)(bench_data *b, void *to, const void *from, size_t nbytes);
    void *owner;
};

/* All of the above, from compute, dtype, rows, cols, alloc and put. Freed by the program. */
kith_status bench_make_data(bench_data *b);

/* Every matrix of it. */
size_t bench_matrices(bench_data *b, ki_mat *list[BENCH_MATRICES]);

typedef struct bench_case {
    const char *name;
    kith_status (*run)(bench_data *b);
    int stored, wide; /* matrices of T and of A that are read or written */
} bench_case;

extern const bench_case bench_cases[];
extern const size_t bench_case_count;

#endif
