/* tests/layers/test_compute_ids.c - what embedding and head need of layers/compute beside the loss: checks of ids, sums
 * of two numbers a token, the sum of all losses.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "layers/compute/compute.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static ki_compute *open_host(void)
{
    ki_compute *compute;
    assert_int_equal(ki_compute_open_host(0, &compute), KITH_OK);
    return compute;
}

static void expect_found(const int32_t *ids, int64_t rows, int32_t ignored, int64_t row, int32_t id, int64_t counted)
{
    ki_compute *compute = open_host();
    ki_ids_found found;
    memset(&found, 0xff, sizeof found);
    assert_int_equal(compute->ops->check_ids(compute, ids, rows, 10, ignored, &found), KITH_OK);
    assert_int_equal(found.row, row);
    assert_int_equal(found.counted, counted);
    if (row >= 0)
        assert_int_equal(found.id, id);
    ki_compute_close(compute);
}

static void test_ids(void **state)
{
    (void)state;
    static const int32_t ids[] = { 0, 9, -100, 4, -100, 10, -1, INT32_MIN, INT32_MAX };
    expect_found(ids, 0, -100, -1, 0, 0);
    expect_found(ids, 5, -100, -1, 0, 3); // 0, 9, 4
    expect_found(ids, 9, -100, 5, 10, 7);
    expect_found(ids, 5, 0, 2, -100, 4); // 0 is ignored, -100 is nothing
    expect_found(ids + 6, 3, 4, 0, -1, 3);
    expect_found(ids + 6, 3, -1, 1, INT32_MIN, 2);
    expect_found(ids + 8, 1, -1, 0, INT32_MAX, 1);
    expect_found(ids + 3, 1, 4, -1, 0, 0);
}

/* Runs check on all instruction sets that this machine has. */
static void everywhere(void (*check)(ki_compute *compute))
{
    static const char *const sets[] = { "generic", "avx2", "avx512" };
    ki_compute *compute = open_host();
    for (size_t i = 0; i < sizeof sets / sizeof sets[0]; i++)
        if (ki_compute_select_loops(compute, sets[i]))
            check(compute);
    ki_compute_close(compute);
}

/* 2^24 and ones: f32 would lose them. Rows have gaps, whose content does not count. */
static void check_sum(ki_compute *compute)
{
    enum { ROWS = 3, COLS = 1500, STRIDE = COLS + 5 };
    static float x[ROWS * STRIDE];
    for (int i = 0; i < ROWS * STRIDE; i++)
        x[i] = i % STRIDE < COLS ? 1 : NAN;
    x[STRIDE] = 16777216;
    ki_mat m = { x, ROWS, COLS, STRIDE, KITH_F32 };
    double sum = -1;
    assert_int_equal(compute->ops->sum_elements(compute, m, &sum), KITH_OK);
    assert_true(sum == 16777216.0 + ROWS * COLS - 1);
    m.rows = 0;
    assert_int_equal(compute->ops->sum_elements(compute, m, &sum), KITH_OK);
    assert_true(sum == 0);
}

/* Without the third number everything is as with it; nothing is written behind the second. */
static void check_two_numbers(ki_compute *compute)
{
    enum { ROWS = 2, COLS = 700 };
    static float logits[ROWS * COLS], dlogits[2][ROWS * COLS];
    static const int32_t targets[ROWS] = { 5, 699 };
    float max[ROWS], two[ROWS * 2 + 1], three[ROWS * 3], losses[2][ROWS];
    for (int i = 0; i < ROWS * COLS; i++)
        logits[i] = (float)(i * 37 % 101) / 17;
    ki_mat x = { logits, ROWS, COLS, COLS, KITH_F32 }, m = { max, ROWS, 1, 1, KITH_F32 };
    ki_mat sums[2] = { { two, ROWS, 2, 2, KITH_F32 }, { three, ROWS, 3, 3, KITH_F32 } };
    two[ROWS * 2] = 123;
    assert_int_equal(compute->ops->row_max(compute, x, m), KITH_OK);
    for (int i = 0; i < 2; i++) {
        ki_mat loss = { losses[i], ROWS, 1, 1, KITH_F32 }, dx = { dlogits[i], ROWS, COLS, COLS, KITH_F32 };
        assert_int_equal(compute->ops->loss_sums(compute, x, targets, 0, m, sums[i]), KITH_OK);
        assert_int_equal(compute->ops->losses(compute, sums[i], targets, -100, 0, COLS, loss), KITH_OK);
        assert_int_equal(compute->ops->loss_grad(compute, x, targets, 0, -100, 0, COLS, 1, m, sums[i], dx), KITH_OK);
    }
    assert_true(two[ROWS * 2] == 123);
    assert_true(two[0] == three[0] && two[1] == three[1] && two[2] == three[3] && two[3] == three[4]);
    assert_memory_equal(losses[0], losses[1], sizeof losses[0]);
    assert_memory_equal(dlogits[0], dlogits[1], sizeof dlogits[0]);
}

static void test_sum(void **state)
{
    (void)state;
    everywhere(check_sum);
}

static void test_two_numbers(void **state)
{
    (void)state;
    everywhere(check_two_numbers);
}

static void test_dry(void **state)
{
    (void)state;
    ki_compute *compute;
    ki_ids_found found;
    double sum = 7;
    ki_mat nothing = { NULL, 1000, 1, 1, KITH_F32 };
    assert_int_equal(ki_compute_open_dry(&compute), KITH_OK);
    assert_int_equal(compute->ops->check_ids(compute, NULL, 1000, 10, -100, &found), KITH_OK);
    assert_true(found.row == -1 && found.counted == 1000);
    assert_int_equal(compute->ops->sum_elements(compute, nothing, &sum), KITH_OK);
    assert_true(sum == 0);
    ki_compute_close(compute);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ids),
        cmocka_unit_test(test_sum),
        cmocka_unit_test(test_two_numbers),
        cmocka_unit_test(test_dry),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
