/* tests/core/algo/test_order.c - same bits: every algorithm that claims the documented order, on data whose sum depends
 * on the order.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "trial.h"
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdlib.h>

static const kith_coll_kind reductions[] = { KITH_ALL_REDUCE, KITH_REDUCE, KITH_REDUCE_SCATTER, KITH_REDUCE_SCATTER_V };

/* Runs all algorithms that are deterministic for this order. Returns how many. */
static int run_all(int size, const int *node_of, kith_dtype dtype, int op, size_t count, uint64_t seed)
{
    int tried = 0;
    ki_order order;
    ki_reducer reducer;
    ki_op ki = { .builtin = op, .is_commutative = true };
    assert_int_equal(ki_order_create(size, node_of, &order), KITH_OK);
    ki_reducer_init(&reducer, dtype, &ki, &order);
    for (size_t k = 0; k < 4; k++) {
        size_t algo_count;
        const ki_algo *const *list = ki_algo_list(reductions[k], &algo_count);
        for (size_t a = 0; a < algo_count; a++) {
            kith_be_coll coll = { .kind = reductions[k], .dtype = dtype, .op = op, .reducer = &reducer.base };
            ki_algo_args args = {
                .size = size, .coll = &coll, .reducer = &reducer, .order = &order, .node_of = node_of
            };
            if (!ki_algo_is_deterministic(list[a], &args) || !ki_algo_is_possible(list[a], &args))
                continue;
            trial_case trial = { .algo = list[a],
                                 .size = size,
                                 .root = size - 1,
                                 .count = count,
                                 .dtype = dtype,
                                 .op = op,
                                 .place = (trial_place)(seed % 2),
                                 .mode = (fake_mode)(seed % 3),
                                 .seed = seed,
                                 .node_of = node_of,
                                 .is_order_data = true,
                                 .segment_nbytes = seed % 2 ? 100 : 0 };
            trial_run(&trial);
            tried++;
        }
    }
    ki_order_destroy(&order);
    return tried;
}

static void test_one_host(void **state)
{
    (void)state;
    static const int sizes[] = { 2, 3, 4, 5, 6, 7, 8, 9, 11, 13, 16, 17, 24, 31, 33 };
    static const size_t counts[] = { 1, 7, 100, 736 };
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        for (size_t c = 0; c < 4; c++) {
            assert_true(run_all(sizes[s], NULL, KITH_F32, KITH_SUM, counts[c], s * 4 + c) >= 12);
            assert_true(run_all(sizes[s], NULL, KITH_BF16, KITH_AVG, counts[c], s * 4 + c + 1) >= 12);
        }
        assert_true(run_all(sizes[s], NULL, KITH_F64, KITH_AVG, 53, s) >= 12);
    }
}

static void test_several_hosts(void **state)
{
    (void)state;
    static const int alternating[] = { 0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1 }, blocks[] = { 0, 0, 0, 1, 1, 2, 2, 2, 2 },
                     backwards[] = { 0, 2, 2, 1, 1, 0, 3 };
    for (uint64_t seed = 0; seed < 6; seed++) {
        assert_true(run_all(11, alternating, KITH_F32, KITH_SUM, 97, seed) >= 6);
        assert_true(run_all(9, blocks, KITH_BF16, KITH_AVG, 64, seed) >= 6);
        assert_true(run_all(7, backwards, KITH_F32, KITH_AVG, 33, seed) >= 6);
    }
}

/* The data does what it is for: another order gives other bits, so the tests above could fail. */
static void test_data_depends_on_order(void **state)
{
    (void)state;
    static const int halves[] = { 0, 1, 0, 1, 0, 1, 0, 1 };
    ki_order flat, hosts;
    assert_int_equal(ki_order_create(8, NULL, &flat), KITH_OK);
    assert_int_equal(ki_order_create(8, halves, &hosts), KITH_OK);
    ki_op sum = { .builtin = KITH_SUM, .is_commutative = true };
    ki_reducer a, b;
    ki_reducer_init(&a, KITH_F32, &sum, &flat);
    ki_reducer_init(&b, KITH_F32, &sum, &hosts);
    float data[8][64], one[64], other[64];
    const void *sources[8];
    uint64_t random = 4;
    for (int r = 0; r < 8; r++) {
        sources[r] = data[r];
        for (int i = 0; i < 64; i++)
            data[r][i] = (float)(int)(fake_random(&random) >> 40) * (i % 2 ? 1.0f : 4096.0f);
    }
    a.base.reduce(&a.base, sources, 8, (void *[]){ one }, 1, 64, 0);
    b.base.reduce(&b.base, sources, 8, (void *[]){ other }, 1, 64, 0);
    assert_memory_not_equal(one, other, sizeof one);
    assert_true(ki_order_is_flat(&flat));
    assert_false(ki_order_is_flat(&hosts));
    ki_order_destroy(&flat);
    ki_order_destroy(&hosts);
}

/* Hosts of four neighbours each make the same tree as one host does. */
static void test_flat_orders(void **state)
{
    (void)state;
    static const int fours[] = { 0, 0, 0, 0, 1, 1, 1, 1 };
    for (int size = 1; size <= 70; size++) {
        ki_order order;
        assert_int_equal(ki_order_create(size, NULL, &order), KITH_OK);
        assert_true(ki_order_is_flat(&order));
        if (size > 1) {
            order.program[0] = 1;
            assert_false(ki_order_is_flat(&order));
        }
        ki_order_destroy(&order);
    }
    ki_order order;
    assert_int_equal(ki_order_create(8, fours, &order), KITH_OK);
    assert_true(ki_order_is_flat(&order));
    ki_order_destroy(&order);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_host),
        cmocka_unit_test(test_several_hosts),
        cmocka_unit_test(test_data_depends_on_order),
        cmocka_unit_test(test_flat_orders),
    };
    return cmocka_run_group_tests_name("order", tests, NULL, NULL);
}
