/* tests/simgpu/cublas/product.c - computes a product when its stream comes to it.
 *
 * f32 and f64 are one call of the CBLAS with cuBLAS's own arguments. A row-major call of the host is the column-major
 * one with the operands exchanged, for the CBLAS too, so whoever asks cuBLAS for C^T = B^T A^T gets the host's bits.
 *
 * 16-bit operands are widened and summed in f32, tile by tile, in the tiles of layers/compute/gemm.c and for the same
 * reason: so the sums are the host's.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "cublas.h"
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { COLUMN_MAJOR = 102, AS_IS = 111, TRANSPOSED = 112, TILE = 1024, TILE_K = 2048 };

/* ---- 16 bits ---- */

static float float_of(uint32_t u)
{
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}

static uint32_t bits_of(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

static uint16_t to_bf16(float x)
{
    const uint32_t u = bits_of(x);
    if (x != x)
        return (uint16_t)(u >> 16 | 0x40u);
    return (uint16_t)((u + 0x7fffu + (u >> 16 & 1u)) >> 16);
}

/* A subnormal half is a small integer times 2^-24. */
static float from_f16(uint16_t h)
{
    const uint32_t sign = (uint32_t)(h & 0x8000u) << 16, exponent = h >> 10 & 31u, mantissa = h & 1023u;
    if (exponent == 0)
        return h & 0x8000u ? -(float)mantissa * 0x1p-24f : (float)mantissa * 0x1p-24f;
    if (exponent == 31)
        return float_of(sign | 0x7f800000u | mantissa << 13);
    return float_of(sign | (exponent + 112u) << 23 | mantissa << 13);
}

static uint16_t to_f16(float x)
{
    const uint32_t u = bits_of(x), sign = u >> 16 & 0x8000u;
    const float size = float_of(u & 0x7fffffffu);
    if (x != x)
        return (uint16_t)(sign | 0x7e00u);
    if (size >= 65520.0f)
        return (uint16_t)(sign | 0x7c00u);
    if (size < 0x1p-14f) /* adding 2^-1 leaves a multiple of 2^-24, rounded to nearest even */
        return (uint16_t)(sign | (bits_of(size + 0.5f) - bits_of(0.5f)));
    const uint32_t v = u & 0x7fffffffu;
    return (uint16_t)(sign | (((v + 0xfffu + (v >> 13 & 1u)) >> 13) - (112u << 10)));
}

/* To nearest, ties away from zero, as the instruction that converts. */
static float to_tf32(float x)
{
    return x - x != 0 ? x : float_of((bits_of(x) + 0x1000u) & 0xffffe000u);
}

static float element(const void *data, int64_t at, cudaDataType type)
{
    if (type == CUDA_R_32F)
        return ((const float *)data)[at];
    const uint16_t half = ((const uint16_t *)data)[at];
    return type == CUDA_R_16BF ? float_of((uint32_t)half << 16) : from_f16(half);
}

static void set_element(void *data, int64_t at, cudaDataType type, float x)
{
    if (type == CUDA_R_32F)
        ((float *)data)[at] = x;
    else
        ((uint16_t *)data)[at] = type == CUDA_R_16BF ? to_bf16(x) : to_f16(x);
}

static size_t nbytes_of(cudaDataType type)
{
    return type == CUDA_R_64F ? 8 : type == CUDA_R_32F ? 4 : 2;
}

/* ---- one product ---- */

/* The operands where they lie. */
typedef struct one {
    const void *a, *b, *bias;
    void *c;
} one;

static int blas_op(const sim_matrix *m)
{
    return m->is_transposed ? TRANSPOSED : AS_IS;
}

static void whole(const sim_product *p, const one *at)
{
    const sim_blas *blas = sim_blas_get();
    if (p->is_f64)
        blas->dgemm(COLUMN_MAJOR, blas_op(&p->a), blas_op(&p->b), (int)p->m, (int)p->n, (int)p->k, p->alpha, at->a,
                    (int)p->a.ld, at->b, (int)p->b.ld, p->beta, at->c, (int)p->c.ld);
    else
        blas->sgemm(COLUMN_MAJOR, blas_op(&p->a), blas_op(&p->b), (int)p->m, (int)p->n, (int)p->k, (float)p->alpha,
                    at->a, (int)p->a.ld, at->b, (int)p->b.ld, (float)p->beta, at->c, (int)p->c.ld);
    for (int64_t j = 0; at->bias != NULL && j < p->n; j++) /* f32: see types_fit() and cublasLt's descriptions */
        for (int64_t i = 0; i < p->m; i++)
            ((float *)at->c)[j * p->c.ld + i] += ((const float *)at->bias)[i];
}

/* rows x columns of the matrix as it is stored, from (row, column) on, packed. */
static void widen(const sim_matrix *from, const void *data, int64_t row, int64_t rows, int64_t column, int64_t columns,
                  bool is_tf32, float *to)
{
    for (int64_t j = 0; j < columns; j++)
        for (int64_t i = 0; i < rows; i++) {
            const float x = element(data, (column + j) * from->ld + row + i, from->type);
            to[j * rows + i] = is_tf32 ? to_tf32(x) : x;
        }
}

/* A part of op(matrix): first rows, then columns of what op() gives. Returns the leading dimension. */
static int64_t widen_op(const sim_product *p, const sim_matrix *from, const void *data, int64_t row, int64_t rows,
                        int64_t column, int64_t columns, float *to)
{
    if (from->is_transposed) {
        widen(from, data, column, columns, row, rows, p->is_tf32, to);
        return columns;
    }
    widen(from, data, row, rows, column, columns, p->is_tf32, to);
    return rows;
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* rows x columns of C, summed over all of k in f32. */
static void tile(const sim_product *p, const one *at, int64_t row, int64_t rows, int64_t column, int64_t columns,
                 float *scratch)
{
    float *a = scratch, *b = a + TILE * TILE_K, *c = b + TILE * TILE_K;
    if (p->beta != 0)
        widen(&p->c, at->c, row, rows, column, columns, false, c);
    for (int64_t from = 0; from < p->k; from += TILE_K) {
        const int64_t k = smaller(TILE_K, p->k - from);
        const int64_t lda = widen_op(p, &p->a, at->a, row, rows, from, k, a);
        const int64_t ldb = widen_op(p, &p->b, at->b, from, k, column, columns, b);
        sim_blas_get()->sgemm(COLUMN_MAJOR, blas_op(&p->a), blas_op(&p->b), (int)rows, (int)columns, (int)k,
                              (float)p->alpha, a, (int)lda, b, (int)ldb, from == 0 ? (float)p->beta : 1.0f, c,
                              (int)rows);
    }
    for (int64_t j = 0; j < columns; j++)
        for (int64_t i = 0; i < rows; i++)
            set_element(at->c, (column + j) * p->c.ld + row + i, p->c.type,
                        at->bias == NULL ? c[j * rows + i] : c[j * rows + i] + element(at->bias, row + i, p->c.type));
}

static void by_tiles(const sim_product *p, const one *at)
{
    float *scratch = malloc(sizeof *scratch * (2 * TILE * TILE_K + TILE * TILE));
    if (scratch == NULL)
        abort();
    for (int64_t column = 0; column < p->n; column += TILE)
        for (int64_t row = 0; row < p->m; row += TILE)
            tile(p, at, row, smaller(TILE, p->m - row), column, smaller(TILE, p->n - column), scratch);
    free(scratch);
}

/* k == 0: C = beta C */
static void scale(const sim_product *p, const one *at)
{
    for (int64_t j = 0; j < p->n; j++)
        for (int64_t i = 0; i < p->m; i++) {
            const int64_t where = j * p->c.ld + i;
            if (p->is_f64) {
                double *c = (double *)at->c + where;
                *c = p->beta == 0 ? 0 : *c * p->beta;
            } else {
                set_element(at->c, where, p->c.type,
                            p->beta == 0 ? 0 : element(at->c, where, p->c.type) * (float)p->beta);
            }
        }
}

/* One matrix of the batch; rows and columns as op() sees them. */
static void *reach(const sim_matrix *m, int64_t batch, int64_t rows, int64_t columns, int mode)
{
    const size_t nbytes = nbytes_of(m->type);
    if (m->is_transposed) {
        const int64_t swapped = rows;
        rows = columns;
        columns = swapped;
    }
    return sim_access_2d((char *)m->data + (size_t)(batch * m->stride) * nbytes, (size_t)rows * nbytes,
                         (size_t)m->ld * nbytes, (size_t)columns, mode);
}

/* 0 when alpha and beta are known. */
static int read_scalars(sim_product *p)
{
    const size_t nbytes = p->is_f64 ? sizeof(double) : sizeof(float);
    const void *alpha, *beta;
    if (p->alpha_at == NULL)
        return 0;
    if ((alpha = sim_access(p->alpha_at, nbytes, SIM_READ)) == NULL ||
        (beta = sim_access(p->beta_at, nbytes, SIM_READ)) == NULL)
        return 1;
    p->alpha = p->is_f64 ? *(const double *)alpha : (double)*(const float *)alpha;
    p->beta = p->is_f64 ? *(const double *)beta : (double)*(const float *)beta;
    return 0;
}

void sim_product_run(void *arg)
{
    sim_product *p = arg;
    if (read_scalars(p) != 0)
        return;
    if (p->workspace_nbytes > 0 && sim_access(p->workspace, p->workspace_nbytes, SIM_WRITE) == NULL)
        return;
    for (int64_t i = 0; i < p->batch; i++) {
        const one at = { p->k == 0 ? NULL : reach(&p->a, i, p->m, p->k, SIM_READ),
                         p->k == 0 ? NULL : reach(&p->b, i, p->k, p->n, SIM_READ),
                         p->bias == NULL ? NULL : sim_access(p->bias, (size_t)p->m * nbytes_of(p->c.type), SIM_READ),
                         reach(&p->c, i, p->m, p->n, p->beta == 0 ? SIM_WRITE : SIM_READ | SIM_WRITE) };
        if (at.c == NULL || (p->k > 0 && (at.a == NULL || at.b == NULL)) || (p->bias != NULL && at.bias == NULL))
            return;
        if (p->k == 0)
            scale(p, &at);
        else if (p->c.type == CUDA_R_64F || (p->a.type == CUDA_R_32F && !p->is_tf32))
            whole(p, &at);
        else
            by_tiles(p, &at);
    }
}
