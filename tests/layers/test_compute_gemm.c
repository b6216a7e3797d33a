/* tests/layers/test_compute_gemm.c - matrix products: both operands as they are and transposed, strides, alpha and
 * beta, bf16 by tiles.
 *
 * Whole numbers small enough that every partial sum is exact, so results are compared with ==, whatever order BLAS sums
 * in.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "compute_help.h"

#include <kith/kith.h>
#include <math.h>
#include <string.h>

typedef struct shape {
    int64_t m, n, k;
} shape;

static ki_mat operand(const test_case *c, ki_transpose of, int64_t rows, int64_t cols)
{
    return of == KI_AS_IS ? test_integers(c->dtype, rows, cols, 8) : test_integers(c->dtype, cols, rows, 8);
}

static double element(ki_mat m, ki_transpose of, int64_t row, int64_t col)
{
    return of == KI_AS_IS ? test_at(m, row, col) : test_at(m, col, row);
}

static void check_product(const test_case *c, kith_dtype out, shape s, ki_transpose of_a, ki_transpose of_b,
                          double alpha, double beta)
{
    ki_mat a = operand(c, of_a, s.m, s.k), b = operand(c, of_b, s.k, s.n), y = test_integers(out, s.m, s.n, 8);
    ki_mat before = test_copy_of(y);
    for (int64_t i = 0; i < s.m * s.n && beta == 0; i++)
        test_set(y, i / s.n, i % s.n, NAN); /* c may hold anything */
    test_done(c, "gemm", c->ops->gemm(c->compute, of_a, of_b, alpha, a, b, beta, y));
    for (int64_t i = 0; i < s.m; i++)
        for (int64_t j = 0; j < s.n; j++) {
            double sum = 0;
            for (int64_t l = 0; l < s.k; l++)
                sum += element(a, of_a, i, l) * element(b, of_b, l, j);
            sum *= alpha;
            sum += beta == 0 ? 0 : beta * test_at(before, i, j);
            test_near(c, "gemm", y, i, j, sum, 0, 0);
        }
}

static void check_gemm(const test_case *c)
{
    static const shape shapes[] = { { 1, 1, 1 }, { 3, 5, 7 }, { 16, 1, 33 }, { 1, 17, 512 }, { 4, 3, 0 }, { 0, 3, 4 } };
    static const double scales[][2] = { { 1, 0 }, { 1, 1 }, { -2, 0.5 } };
    const int64_t i = c->cols;
    for (int of = 0; of < 4; of++) {
        ki_transpose of_a = of & 1 ? KI_TRANSPOSED : KI_AS_IS, of_b = of & 2 ? KI_TRANSPOSED : KI_AS_IS;
        check_product(c, c->dtype, shapes[c->rows], of_a, of_b, scales[i][0], scales[i][1]);
        check_product(c, c->wide, shapes[c->rows], of_a, of_b, scales[i][0], scales[i][1]);
    }
}

/* More than one tile in every direction (bf16, f16): ones times ones is k, whose sum goes over tiles of k. */
static void check_tiles(const test_case *c)
{
    if (c->dtype != KITH_BF16 && c->dtype != KITH_F16)
        return;
    const int64_t m = 1030, n = 1027, k = 2050;
    ki_mat a = test_zeros(c->dtype, m, k), b = test_zeros(c->dtype, k, n), y = test_zeros(KITH_F32, m, n);
    ki_mat rounded = test_zeros(c->dtype, m, n);
    (void)c->ops->fill(c->compute, a, 1);
    (void)c->ops->fill(c->compute, b, 1);
    test_set(a, m - 1, k - 1, 3);
    test_set(b, k - 1, n - 1, 5);
    test_done(c, "gemm", c->ops->gemm(c->compute, KI_AS_IS, KI_AS_IS, 1, a, b, 0, y));
    test_done(c, "gemm", c->ops->gemm(c->compute, KI_AS_IS, KI_AS_IS, 1, a, b, 0, rounded));
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            double last = (i == m - 1 ? 3 : 1) * (j == n - 1 ? 5 : 1);
            test_near(c, "gemm by tiles", y, i, j, (double)(k - 1) + last, 0, 0);
            test_near(c, "gemm by tiles, rounded", rounded, i, j, (double)(k - 1) + last, 0, 0);
        }
}

/* A sum in bf16 would stop at 256, one in f16 at 2048; one that is rounded at the end does not. */
static void check_rounded_once(const test_case *c)
{
    if (c->dtype != KITH_BF16 && c->dtype != KITH_F16)
        return;
    ki_mat a = test_zeros(c->dtype, 1, 2304), y = test_zeros(c->dtype, 1, 1);
    (void)c->ops->fill(c->compute, a, 1);
    test_done(c, "gemm", c->ops->gemm(c->compute, KI_AS_IS, KI_TRANSPOSED, 1, a, a, 0, y));
    test_near(c, "a long sum of halves", y, 0, 0, 2304, 0, 0);
    test_set(y, 0, 0, 256);
    test_done(c, "gemm", c->ops->gemm(c->compute, KI_AS_IS, KI_TRANSPOSED, 0x1p-11, a, a, 1, y)); /* 1.125 */
    test_near(c, "beta of halves", y, 0, 0, 257.125, 0, 0);
}

static void check_refusals(const test_case *c)
{
    ki_mat a = test_zeros(c->dtype, 2, 2), b = test_zeros(KITH_F64, 2, 2);
    ki_mat wide = a;
    if (c->dtype != KITH_F64)
        assert_int_equal(c->ops->gemm(c->compute, KI_AS_IS, KI_AS_IS, 1, a, b, 0, a), KITH_ERR_UNSUPPORTED);
    wide.stride = INT64_C(1) << 32;
    wide.rows = 0; /* nothing of it is read */
    ki_mat out = wide;
    out.cols = 2;
    assert_int_equal(c->ops->gemm(c->compute, KI_AS_IS, KI_AS_IS, 1, wide, a, 0, out), KITH_ERR_UNSUPPORTED);
    assert_non_null(strstr(kith_error_detail(), "2147483647"));
}

static void test_gemm(void **state)
{
    (void)state;
    for (int64_t shape_at = 0; shape_at < 6; shape_at++)
        for (int64_t scale_at = 0; scale_at < 3; scale_at++)
            test_shape(shape_at, scale_at, check_gemm);
}

static void test_halves(void **state)
{
    (void)state;
    test_shape(1, 1, check_tiles);
    test_shape(1, 1, check_rounded_once);
}

static void test_refusals(void **state)
{
    (void)state;
    test_shape(1, 1, check_refusals);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gemm),
        cmocka_unit_test(test_halves),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
