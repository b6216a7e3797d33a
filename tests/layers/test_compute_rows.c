/* tests/layers/test_compute_rows.c - rows by number: embedding, dispatch to experts, what a router needs.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "compute_help.h"

#include <math.h>

static const ki_mat none;

/* Numbers from -1 (or a little outside) to count, some of them twice. */
static int32_t *numbers(int64_t count, int64_t least, int64_t most)
{
    int32_t *ids = (int32_t *)test_memory((size_t)count * sizeof *ids);
    for (int64_t i = 0; i < count; i++)
        ids[i] = (int32_t)(least + (int64_t)(test_word() % (uint32_t)(most - least + 1)));
    return ids;
}

/* A table of 6 rows that are ids 4 .. 9 of a vocabulary of 14. */
static void check_embedding(const test_case *c)
{
    const int64_t first = 4, count = 6;
    ki_mat table = test_random(c->dtype, count, c->cols, 1), y = test_random(c->dtype, c->rows, c->cols, 1);
    ki_mat dy = test_random(c->dtype, c->rows, c->cols, 1), grad = test_random(c->wide, count, c->cols, 1);
    ki_mat before = test_copy_of(grad);
    int32_t *ids = numbers(c->rows, 0, 13);
    test_done(c, "gather_rows", c->ops->gather_rows(c->compute, ids, first, table, y));
    test_done(c, "scatter_rows", c->ops->scatter_rows(c->compute, ids, first, dy, grad));
    for (int64_t k = 0; k < c->cols; k++) {
        for (int64_t r = 0; r < c->rows; r++) {
            bool is_here = ids[r] >= first && ids[r] < first + count;
            test_near(c, "gather_rows", y, r, k, is_here ? test_at(table, ids[r] - first, k) : 0, 0, 0);
        }
        for (int64_t t = 0; t < count; t++) {
            double sum = test_at(before, t, k), size = fabs(sum);
            for (int64_t r = 0; r < c->rows; r++)
                if (ids[r] - first == t) {
                    sum += test_at(dy, r, k);
                    size += fabs(test_at(dy, r, k));
                }
            test_near(c, "scatter_rows", grad, t, k, sum, size, 4 + (double)c->rows / 8);
        }
    }
}

static void check_pick(const test_case *c)
{
    ki_mat x = test_random(c->dtype, 4, c->cols, 1), y = test_random(c->dtype, c->rows, c->cols, 1);
    ki_mat weights = test_random(c->wide, c->rows, 1, 1), plain = test_random(c->dtype, c->rows, c->cols, 1);
    int32_t *rows = numbers(c->rows, -1, 3);
    test_done(c, "pick_rows", c->ops->pick_rows(c->compute, rows, weights, x, y));
    test_done(c, "pick_rows", c->ops->pick_rows(c->compute, rows, none, x, plain));
    for (int64_t r = 0; r < c->rows; r++)
        for (int64_t k = 0; k < c->cols; k++) {
            double value = rows[r] < 0 ? 0 : test_at(x, rows[r], k);
            test_near(c, "pick_rows with weights", y, r, k, value * test_at(weights, r, 0), 8, 1);
            test_near(c, "pick_rows", plain, r, k, value, 0, 0);
        }
    ki_mat in_order = test_random(c->dtype, c->rows, c->cols, 1);
    test_done(c, "pick_rows", c->ops->pick_rows(c->compute, NULL, weights, y, in_order));
    for (int64_t r = 0; r < c->rows; r++)
        for (int64_t k = 0; k < c->cols; k++) {
            double value = test_at(y, r, k) * test_at(weights, r, 0);
            test_near(c, "pick_rows in order", in_order, r, k, value, fabs(value), 1);
        }
}

static void check_add_rows_to(const test_case *c, kith_dtype to)
{
    ki_mat x = test_random(c->dtype, c->rows, c->cols, 1), y = test_random(to, 70, c->cols, 1);
    ki_mat weights = test_random(c->wide, c->rows, 1, 1), before = test_copy_of(y);
    int32_t *rows = numbers(c->rows, -1, 69);
    /* A row of T is rounded each time something is added to it; the others once. */
    double roundings = to == KITH_BF16 ? 0x1p-8 : to == KITH_F16 ? 0x1p-11 : 0;
    test_done(c, "add_rows", c->ops->add_rows(c->compute, rows, weights, x, y));
    for (int64_t t = 0; t < y.rows; t++)
        for (int64_t k = 0; k < c->cols; k++) {
            double sum = test_at(before, t, k), size = fabs(sum);
            for (int64_t r = 0; r < c->rows; r++)
                if (rows[r] == t) {
                    sum += test_at(weights, r, 0) * test_at(x, r, k);
                    size += fabs(test_at(weights, r, 0) * test_at(x, r, k));
                }
            test_near(c, "add_rows", y, t, k, sum, size, 16 + roundings * 16 / 0x1p-24);
        }
}

static void check_add_rows(const test_case *c)
{
    check_add_rows_to(c, c->dtype);
    check_add_rows_to(c, c->wide);
}

static void check_dots(const test_case *c)
{
    ki_mat a = test_random(c->dtype, c->rows, c->cols, 1), b = test_random(c->dtype, c->rows, c->cols, 1);
    ki_mat dots = test_random(c->wide, c->rows, 1, 1);
    test_done(c, "row_dots", c->ops->row_dots(c->compute, a, b, dots));
    for (int64_t r = 0; r < c->rows; r++) {
        long double sum = 0;
        double size = 0;
        for (int64_t k = 0; k < c->cols; k++) {
            sum += (long double)test_at(a, r, k) * (long double)test_at(b, r, k);
            size += fabs(test_at(a, r, k) * test_at(b, r, k));
        }
        test_near(c, "row_dots", dots, r, 0, (double)sum, size, 32);
    }
}

/* Few different values, so that there are ties. */
static void check_top_k(const test_case *c)
{
    ki_mat x = test_integers(c->wide, c->rows, c->cols, 3);
    for (int64_t k = 0; k <= 4 && k <= c->cols; k++) {
        ki_mat values = test_random(c->wide, c->rows, k, 1);
        int32_t *columns = (int32_t *)test_memory((size_t)(c->rows * k) * sizeof *columns);
        test_done(c, "top_k", c->ops->top_k(c->compute, x, k, values, columns));
        for (int64_t r = 0; r < c->rows; r++)
            for (int64_t i = 0; i < k; i++) {
                const int32_t col = columns[r * k + i];
                int64_t before = 0; /* columns that come first: larger, or as large and lower */
                for (int64_t j = 0; j < c->cols; j++)
                    before +=
                        test_at(x, r, j) > test_at(x, r, col) || (test_at(x, r, j) == test_at(x, r, col) && j < col);
                if (before != i)
                    fail_msg("top_k: row %lld gives column %d at place %lld, which is at %lld", (long long)r, (int)col,
                             (long long)i, (long long)before);
                test_near(c, "top_k", values, r, i, test_at(x, r, col), 0, 0);
            }
    }
}

static void check_top_k_nan(const test_case *c)
{
    ki_mat x = test_integers(c->wide, 1, 6, 3), values = test_zeros(c->wide, 1, 2);
    int32_t columns[2];
    test_set(x, 0, 2, INFINITY);
    test_set(x, 0, 4, NAN);
    test_done(c, "top_k", c->ops->top_k(c->compute, x, 2, values, columns));
    assert_true(columns[0] == 4 && isnan(test_at(values, 0, 0)) && columns[1] == 2);
}

static void test_embedding(void **state)
{
    (void)state;
    test_everywhere(check_embedding);
}

static void test_experts(void **state)
{
    (void)state;
    test_everywhere(check_pick);
    test_everywhere(check_add_rows);
}

static void test_router(void **state)
{
    (void)state;
    test_everywhere(check_dots);
    test_everywhere(check_top_k);
    test_shape(1, 6, check_top_k_nan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_embedding),
        cmocka_unit_test(test_experts),
        cmocka_unit_test(test_router),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
