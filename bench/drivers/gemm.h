/* bench/drivers/gemm.h - a matrix product to compute with while something communicates.
 *
 * Plain C and one thread. How fast it is does not matter: its time with communication is compared with its own without.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef BENCH_GEMM_H
#define BENCH_GEMM_H

#include <stdbool.h>

#define BENCH_GEMM_N 256
#define BENCH_GEMM_STRIPE 8 /* rows of C in one call */
#define BENCH_GEMM_STRIPES (BENCH_GEMM_N / BENCH_GEMM_STRIPE)

typedef struct bench_gemm {
    float a[BENCH_GEMM_N][BENCH_GEMM_N], b[BENCH_GEMM_N][BENCH_GEMM_N], c[BENCH_GEMM_N][BENCH_GEMM_N];
} bench_gemm;

void bench_gemm_init(bench_gemm *gemm);

/* Rows [8 * stripe, ...) of C = A B; stripes count on past the matrix and begin again. */
void bench_gemm_stripe(bench_gemm *gemm, int stripe);

/* True when the last stripe holds the product. */
bool bench_gemm_is_right(const bench_gemm *gemm, int stripe);

#endif
