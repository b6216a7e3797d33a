/* layers/compute/blas.h - the CBLAS that multiplies matrices, opened at run time.
 *
 * libkith links to no BLAS. The first call looks for one: the library that KITH_BLAS_LIBRARY names and no other, else
 * the first of a list that can be opened (OpenBLAS, BLIS, MKL, reference). It must have 32-bit indices, which a small
 * product proves. It stays open until the process ends, since its threads do too.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_LAYERS_BLAS_H
#define KI_LAYERS_BLAS_H

#include <kith/status.h>
#include <stdbool.h>

/* Numbers of the CBLAS interface. */
enum { KI_BLAS_ROW_MAJOR = 101, KI_BLAS_AS_IS = 111, KI_BLAS_TRANSPOSED = 112 };

typedef void (*ki_sgemm_fn)(int order, int of_a, int of_b, int m, int n, int k, float alpha, const float *a, int lda,
                            const float *b, int ldb, float beta, float *c, int ldc);
typedef void (*ki_dgemm_fn)(int order, int of_a, int of_b, int m, int n, int k, double alpha, const double *a, int lda,
                            const double *b, int ldb, double beta, double *c, int ldc);

typedef struct ki_blas {
    ki_sgemm_fn sgemm;
    ki_dgemm_fn dgemm;
    void (*set_threads)(int threads); /* NULL: this library has no such function */
    char library[256];                /* as it was opened */
    char version[256];                /* as the library tells; "" when it has no way to */
} ki_blas;

/* The library, looked for once a process. KITH_ERR_UNSUPPORTED when there is none; the detail, which is not logged,
 * says what was tried. */
kith_status ki_blas_get(const ki_blas **blas);

/* How many threads a product may use, for the whole process. False when the library cannot be told. */
bool ki_blas_set_threads(const ki_blas *blas, int threads);

#endif
