/* layers/compute/gemm.c - matrix products by CBLAS; bf16 and f16 through tiles of f32.
 *
 * A product of halves is computed tile by tile: the operands' tiles are converted into scratch, sgemm sums over all of
 * k in f32, and a result that is stored as a half is rounded once. A tile costs 2 * 1024^3 * 2 operations for 4 M
 * conversions, so these are a few per cent; scratch is 20 MiB whatever the shape.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "gemm.h"
#include "blas.h"
#include "core/base/error.h"
#include "pool.h"
#include <assert.h>
#include <limits.h>

enum { TILE = 1024, TILE_K = 2048 };

/* The multiplications that a part has at least, and what its rows are multiples of: whole blocks of a BLAS's inner
 * loops, few enough that threads have alike. A part for each thread: each packs all of the other operand. */
enum { LEAST = 1 << 20, UNIT = 24, FEW = 16 };

typedef struct product {
    ki_compute *self;
    ki_transpose of_a, of_b;
    double alpha, beta;
    ki_mat a, b, c;
    int64_t m, n, k;
} product;

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static ki_mat part(ki_mat from, int64_t row, int64_t rows, int64_t col, int64_t cols)
{
    from.data = (char *)from.data + (size_t)(row * from.stride + col) * kith_dtype_nbytes(from.dtype);
    from.rows = rows;
    from.cols = cols;
    return from;
}

/* rows, cols as op() sees them */
static ki_mat part_of(ki_mat from, ki_transpose of, int64_t row, int64_t rows, int64_t col, int64_t cols)
{
    return of == KI_AS_IS ? part(from, row, rows, col, cols) : part(from, col, cols, row, rows);
}

static int blas_op(ki_transpose of)
{
    return of == KI_AS_IS ? KI_BLAS_AS_IS : KI_BLAS_TRANSPOSED;
}

/* All three of one type, f32 or f64. */
static void call_blas(const product *p)
{
    int m = (int)p->m, n = (int)p->n, k = (int)p->k;
    int lda = (int)p->a.stride, ldb = (int)p->b.stride, ldc = (int)p->c.stride;
    if (p->c.dtype == KITH_F64)
        p->self->blas->dgemm(KI_BLAS_ROW_MAJOR, blas_op(p->of_a), blas_op(p->of_b), m, n, k, p->alpha, p->a.data, lda,
                             p->b.data, ldb, p->beta, p->c.data, ldc);
    else
        p->self->blas->sgemm(KI_BLAS_ROW_MAJOR, blas_op(p->of_a), blas_op(p->of_b), m, n, k, (float)p->alpha, p->a.data,
                             lda, p->b.data, ldb, (float)p->beta, p->c.data, ldc);
}

/* A product whose parts are rows or columns of c. */
typedef struct cut_product {
    const product *whole;
    int64_t parts;
    int64_t units; /* of UNIT rows or columns, dealt to the parts; the last part has what is left over, too */
    bool is_columns;
} cut_product;

static int64_t first_of(const cut_product *cut, int64_t part)
{
    return UNIT * (part * (cut->units / cut->parts) + smaller(part, cut->units % cut->parts));
}

static void multiply_part(const void *call, int64_t number, int worker)
{
    const cut_product *cut = (const cut_product *)call;
    product p = *cut->whole;
    const bool is_last = number == cut->parts - 1;
    const int64_t first = first_of(cut, number), next = is_last ? INT64_MAX : first_of(cut, number + 1);
    (void)worker;
    if (cut->is_columns) {
        p.n = smaller(next, p.n) - first;
        p.b = part_of(p.b, p.of_b, 0, p.k, first, p.n);
        p.c = part(p.c, 0, p.m, first, p.n);
    } else {
        p.m = smaller(next, p.m) - first;
        p.a = part_of(p.a, p.of_a, first, p.m, 0, p.k);
        p.c = part(p.c, first, p.m, 0, p.n);
    }
    call_blas(&p);
}

/* By this rank's threads. Cut by rows: OpenBLAS then gives the bits of the whole product, as it does not when columns
 * are cut. So those are cut only where there are FEW rows, as when words are generated. */
static void multiply(const product *p)
{
    const int threads = ki_pool_threads(p->self->pool);
    const double most = (double)p->m * (double)p->n * (double)p->k / LEAST;
    if (threads == 1 || most < 2) {
        call_blas(p);
        return;
    }
    const bool is_columns = p->m <= FEW;
    const int64_t units = (is_columns ? p->n : p->m) / UNIT;
    const int64_t wanted = most < threads ? (int64_t)most : threads;
    const cut_product cut = { p, units > 1 ? smaller(wanted, units) : 1, units, is_columns };
    ki_pool_run(p->self->pool, cut.parts, multiply_part, &cut);
}

/* An f32 matrix in scratch, as large as `like`. */
static ki_mat in_scratch(float *scratch, ki_mat like)
{
    return (ki_mat){ scratch, like.rows, like.cols, like.cols, KITH_F32 };
}

static kith_status convert(ki_compute *self, ki_mat from, float *scratch, ki_mat *to)
{
    *to = in_scratch(scratch, from);
    return self->ops->copy(self, from, *to);
}

static bool is_half(kith_dtype dtype)
{
    return dtype == KITH_BF16 || dtype == KITH_F16;
}

/* One tile of c: sums over k in `sum`, which is c itself when that is f32. */
static kith_status multiply_tile(const product *p, float *scratch, int64_t row, int64_t col)
{
    ki_compute *self = p->self;
    product tile = *p;
    tile.m = smaller(TILE, p->m - row);
    tile.n = smaller(TILE, p->n - col);
    ki_mat c = part(p->c, row, tile.m, col, tile.n);
    float *a_scratch = scratch, *b_scratch = scratch + TILE * TILE_K, *c_scratch = b_scratch + TILE * TILE_K;
    kith_status status = KITH_OK;
    tile.c = c;
    if (is_half(c.dtype)) {
        tile.c = in_scratch(c_scratch, c);
        if (p->beta != 0)
            status = self->ops->copy(self, c, tile.c);
    }
    for (int64_t at = 0; at < p->k && status == KITH_OK; at += TILE_K) {
        tile.k = smaller(TILE_K, p->k - at);
        tile.beta = at == 0 ? p->beta : 1;
        status = convert(self, part_of(p->a, p->of_a, row, tile.m, at, tile.k), a_scratch, &tile.a);
        if (status == KITH_OK)
            status = convert(self, part_of(p->b, p->of_b, at, tile.k, col, tile.n), b_scratch, &tile.b);
        if (status == KITH_OK)
            multiply(&tile);
    }
    return status == KITH_OK && is_half(c.dtype) ? self->ops->copy(self, tile.c, c) : status;
}

static kith_status multiply_halves(const product *p)
{
    void *scratch;
    kith_status status = ki_compute_scratch(p->self, sizeof(float) * (2 * TILE * TILE_K + TILE * TILE), &scratch);
    for (int64_t col = 0; col < p->n && status == KITH_OK; col += TILE)
        for (int64_t row = 0; row < p->m && status == KITH_OK; row += TILE)
            status = multiply_tile(p, (float *)scratch, row, col);
    return status;
}

static bool has_loops(kith_dtype in, kith_dtype out)
{
    return (in == KITH_F32 && out == KITH_F32) || (in == KITH_F64 && out == KITH_F64) ||
           (is_half(in) && (out == in || out == KITH_F32));
}

static bool fits_blas(ki_mat m)
{
    return m.rows <= INT_MAX && m.cols <= INT_MAX && m.stride <= INT_MAX;
}

kith_status ki_gemm(ki_compute *self, ki_transpose of_a, ki_transpose of_b, double alpha, ki_mat a, ki_mat b,
                    double beta, ki_mat c)
{
    product p = { self, of_a, of_b, alpha, beta, a, b, c, c.rows, c.cols, of_a == KI_AS_IS ? a.cols : a.rows };
    assert((of_a == KI_AS_IS ? a.rows : a.cols) == c.rows);
    assert((of_b == KI_AS_IS ? b.rows : b.cols) == p.k && (of_b == KI_AS_IS ? b.cols : b.rows) == c.cols);
    if (a.dtype != b.dtype || !has_loops(a.dtype, c.dtype))
        return ki_fail(KITH_ERR_UNSUPPORTED,
                       "layers: a product of %s and %s into %s: the host multiplies f32, f64, and bf16 and f16 into "
                       "themselves or f32",
                       kith_dtype_name(a.dtype), kith_dtype_name(b.dtype), kith_dtype_name(c.dtype));
    if (!fits_blas(a) || !fits_blas(b) || !fits_blas(c))
        return ki_fail(KITH_ERR_UNSUPPORTED,
                       "layers: a product of [%lld, %lld] and [%lld, %lld]: rows, columns and strides may be at most "
                       "2147483647, as CBLAS has them",
                       (long long)a.rows, (long long)a.cols, (long long)b.rows, (long long)b.cols);
    if (p.m == 0 || p.n == 0)
        return KITH_OK;
    if (p.k == 0)
        return beta == 0 ? self->ops->fill(self, c, 0) : self->ops->scale(self, beta, c);
    if (is_half(a.dtype))
        return multiply_halves(&p);
    multiply(&p);
    return KITH_OK;
}
