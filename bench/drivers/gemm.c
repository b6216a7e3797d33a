/* bench/drivers/gemm.c
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "gemm.h"

#include <string.h>

void bench_gemm_init(bench_gemm *gemm)
{
    for (int i = 0; i < BENCH_GEMM_N; i++) {
        for (int j = 0; j < BENCH_GEMM_N; j++) {
            gemm->a[i][j] = (float)((i + j) % 7); /* small whole numbers: every sum is exact */
            gemm->b[i][j] = (float)((3 * i + j) % 5);
        }
    }
    memset(gemm->c, 0, sizeof(gemm->c));
}

void bench_gemm_stripe(bench_gemm *gemm, int stripe)
{
    int first = stripe % BENCH_GEMM_STRIPES * BENCH_GEMM_STRIPE;
    for (int i = first; i < first + BENCH_GEMM_STRIPE; i++) {
        float *row = gemm->c[i];
        memset(row, 0, sizeof(gemm->c[i]));
        for (int k = 0; k < BENCH_GEMM_N; k++) {
            const float factor = gemm->a[i][k];
            for (int j = 0; j < BENCH_GEMM_N; j++) {
                row[j] += factor * gemm->b[k][j];
            }
        }
    }
}

bool bench_gemm_is_right(const bench_gemm *gemm, int stripe)
{
    int i = stripe % BENCH_GEMM_STRIPES * BENCH_GEMM_STRIPE, j = BENCH_GEMM_N - 1;
    float wanted = 0;
    for (int k = 0; k < BENCH_GEMM_N; k++) {
        wanted += gemm->a[i][k] * gemm->b[k][j];
    }
    return gemm->c[i][j] == wanted;
}
