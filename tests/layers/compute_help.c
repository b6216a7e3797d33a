/* tests/layers/compute_help.c - cases, matrices and comparisons (see compute_help.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "compute_help.h"
#include "core/base/mem.h"
#include "layers/compute/arith.h"
#include "layers/compute/loops.h"

#include <kith/kith.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GAP = 3, GAP_BYTE = 0xa5, MATRICES = 32 };

static ki_mat matrices[MATRICES];
static void *memories[MATRICES];
static int matrix_count, memory_count;
static uint64_t state = 1;

uint32_t test_word(void)
{
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(state >> 32);
}

static double uniform(void)
{
    return ((double)test_word() + 0.5) * 0x1p-32;
}

/* ---- matrices ---- */

static size_t nbytes_of(ki_mat m)
{
    return (size_t)(m.rows * m.stride) * kith_dtype_nbytes(m.dtype);
}

static ki_mat make(kith_dtype dtype, int64_t rows, int64_t cols)
{
    ki_mat m = { NULL, rows, cols, cols + GAP, dtype };
    assert_true(matrix_count < MATRICES);
    m.data = malloc(nbytes_of(m) + 1); /* exact, so that sanitizers see a step too far */
    assert_non_null(m.data);
    memset(m.data, GAP_BYTE, nbytes_of(m));
    matrices[matrix_count++] = m;
    return m;
}

void test_set(ki_mat m, int64_t row, int64_t col, double value)
{
    size_t at = (size_t)(row * m.stride + col);
    if (m.dtype == KITH_F64)
        ((double *)m.data)[at] = value;
    else if (m.dtype == KITH_F32)
        ((float *)m.data)[at] = (float)value;
    else
        ((uint16_t *)m.data)[at] = m.dtype == KITH_F16 ? ki_narrow_f16_f64(value) : ki_narrow_bf16_f64(value);
}

double test_at(ki_mat m, int64_t row, int64_t col)
{
    size_t at = (size_t)(row * m.stride + col);
    if (m.dtype == KITH_F64)
        return ((const double *)m.data)[at];
    if (m.dtype == KITH_F32)
        return (double)((const float *)m.data)[at];
    const uint16_t half = ((const uint16_t *)m.data)[at];
    return (double)(m.dtype == KITH_F16 ? ki_widen_f16(half) : ki_widen_bf16(half));
}

ki_mat test_zeros(kith_dtype dtype, int64_t rows, int64_t cols)
{
    ki_mat m = make(dtype, rows, cols);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < cols; c++)
            test_set(m, r, c, 0);
    return m;
}

ki_mat test_random(kith_dtype dtype, int64_t rows, int64_t cols, double deviation)
{
    ki_mat m = make(dtype, rows, cols);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < cols; c++)
            test_set(m, r, c, deviation * sqrt(-2 * log(uniform())) * cos(6.283185307179586 * uniform()));
    return m;
}

ki_mat test_integers(kith_dtype dtype, int64_t rows, int64_t cols, int most)
{
    ki_mat m = make(dtype, rows, cols);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < cols; c++)
            test_set(m, r, c, (double)(test_word() % (uint32_t)(2 * most + 1)) - most);
    return m;
}

ki_mat test_copy_of(ki_mat m)
{
    ki_mat copy = make(m.dtype, m.rows, m.cols);
    assert_int_equal(copy.stride, m.stride);
    memcpy(copy.data, m.data, nbytes_of(m));
    return copy;
}

void *test_memory(size_t nbytes)
{
    assert_true(memory_count < MATRICES);
    void *memory = calloc(1, nbytes + 1);
    assert_non_null(memory);
    memories[memory_count++] = memory;
    return memory;
}

static void free_all(void)
{
    while (matrix_count > 0)
        free(matrices[--matrix_count].data);
    while (memory_count > 0)
        free(memories[--memory_count]);
}

/* ---- comparison ---- */

static const char *name_of(const test_case *c)
{
    static char name[96];
    snprintf(name, sizeof name, "%s %s %lld x %lld", c->compute->loops != NULL ? c->compute->loops->isa : "dry",
             kith_dtype_name(c->dtype), (long long)c->rows, (long long)c->cols);
    return name;
}

/* Half a unit in the last place of 1. */
static double rounding_of(kith_dtype dtype)
{
    return dtype == KITH_F64 ? 0x1p-53 : dtype == KITH_F32 ? 0x1p-24 : dtype == KITH_F16 ? 0x1p-11 : 0x1p-8;
}

void test_near(const test_case *c, const char *what, ki_mat got, int64_t row, int64_t col, double wanted, double scale,
               double units)
{
    double value = test_at(got, row, col);
    double smallest = got.dtype == KITH_F16 ? 0x1p-25 : 0; /* half of what subnormal numbers are apart */
    double allowed = rounding_of(got.dtype) * fabs(wanted) + smallest + units * rounding_of(c->wide) * scale;
    bool is_right = isnan(wanted) ? isnan(value) : isinf(wanted) ? value == wanted : fabs(value - wanted) <= allowed;
    if (!is_right)
        fail_msg("%s of %s at (%lld, %lld): wanted %.17g, got %.17g, off by %.3g, allowed %.3g", what, name_of(c),
                 (long long)row, (long long)col, wanted, value, fabs(value - wanted), allowed);
}

void test_done(const test_case *c, const char *what, kith_status status)
{
    if (status != KITH_OK)
        fail_msg("%s of %s: %s: %s", what, name_of(c), kith_status_name(status), kith_error_detail());
    for (int i = 0; i < matrix_count; i++) {
        const ki_mat m = matrices[i];
        size_t nbytes = kith_dtype_nbytes(m.dtype);
        for (int64_t r = 0; r < m.rows; r++)
            for (size_t b = 0; b < GAP * nbytes; b++) {
                const unsigned char *gap = (const unsigned char *)m.data + (size_t)(r * m.stride + m.cols) * nbytes;
                if (gap[b] != GAP_BYTE)
                    fail_msg("%s of %s wrote behind row %lld of matrix %d", what, name_of(c), (long long)r, i);
            }
    }
}

void test_same(const test_case *c, const char *what, ki_mat a, ki_mat b)
{
    size_t nbytes = (size_t)a.cols * kith_dtype_nbytes(a.dtype), step = kith_dtype_nbytes(a.dtype);
    assert_true(a.dtype == b.dtype && a.rows == b.rows && a.cols == b.cols);
    for (int64_t r = 0; r < a.rows; r++)
        if (nbytes > 0 && memcmp((const char *)a.data + (size_t)(r * a.stride) * step,
                                 (const char *)b.data + (size_t)(r * b.stride) * step, nbytes) != 0)
            fail_msg("%s of %s: row %lld differs", what, name_of(c), (long long)r);
}

/* ---- cases ---- */

static const kith_dtype dtypes[] = { KITH_F32, KITH_F64, KITH_BF16, KITH_F16 };

static void run_dtypes(ki_compute *compute, int64_t rows, int64_t cols, void (*check)(const test_case *c))
{
    for (size_t d = 0; d < sizeof dtypes / sizeof dtypes[0]; d++) {
        test_case c = { compute, compute->ops, dtypes[d], ki_accumulator_of(dtypes[d]), rows, cols };
        check(&c);
        free_all();
    }
}

static ki_compute *open_host(void)
{
    ki_compute *compute = NULL;
    kith_status status = ki_compute_open_host(1, &compute);
    if (status == KITH_ERR_UNSUPPORTED) {
        print_message("skipped: %s\n", kith_error_detail());
        exit(77);
    }
    assert_int_equal(status, KITH_OK);
    return compute;
}

static void on_each_isa(const int64_t (*shapes)[2], size_t count, void (*check)(const test_case *c))
{
    ki_compute *compute = open_host();
    const ki_loops *loops;
    for (size_t i = 0; (loops = ki_loops_at(i)) != NULL; i++) {
        assert_true(ki_compute_select_loops(compute, loops->isa));
        for (size_t s = 0; s < count; s++)
            run_dtypes(compute, shapes[s][0], shapes[s][1], check);
    }
    ki_compute_close(compute);
}

void test_shape(int64_t rows, int64_t cols, void (*check)(const test_case *c))
{
    const int64_t shape[1][2] = { { rows, cols } };
    on_each_isa(shape, 1, check);
}

/* No rows, one, a few, more than a loop sums at a time; columns around the widths of vectors and of blocks. */
void test_everywhere(void (*check)(const test_case *c))
{
    static const int64_t shapes[][2] = {
        { 0, 7 },  { 1, 1 },  { 1, 17 },  { 5, 0 },   { 5, 1 },    { 5, 3 },   { 5, 7 },
        { 5, 17 }, { 5, 64 }, { 3, 511 }, { 3, 513 }, { 5, 1000 }, { 300, 3 }, { 130, 33 },
    };
    on_each_isa(shapes, sizeof shapes / sizeof shapes[0], check);
}
