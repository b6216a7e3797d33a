/* tests/bench/test_cases.c - bench/cases/cases.c
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "../../bench/cases/cases.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

static void names_parse_back(void **state)
{
    (void)state;
    bench_op op;
    for (int i = 0; i < BENCH_OP_COUNT; i++) {
        assert_true(bench_op_parse(bench_op_name((bench_op)i), &op));
        assert_int_equal(op, i);
    }
    assert_false(bench_op_parse("allreduce", &op));
    assert_false(bench_op_parse("", &op));
}

static void sizes_round_up_to_whole_blocks(void **state)
{
    (void)state;
    assert_int_equal(bench_op_nbytes(BENCH_ALL_REDUCE, 4, 4, 8), 4);
    assert_int_equal(bench_op_nbytes(BENCH_ALL_REDUCE, 5, 4, 8), 8);
    assert_int_equal(bench_op_nbytes(BENCH_ALL_REDUCE, 0, 4, 8), 4);
    assert_int_equal(bench_op_nbytes(BENCH_ALL_GATHER, 4, 4, 8), 32);
    assert_int_equal(bench_op_nbytes(BENCH_ALL_TO_ALL, 64, 4, 3), 72);
    assert_int_equal(bench_op_nbytes(BENCH_BARRIER, 64, 4, 3), 0);
}

static void shapes_say_who_sends_and_receives_what(void **state)
{
    (void)state;
    bench_shape shape = bench_shape_of(BENCH_REDUCE_SCATTER, 48, 4, 1, 3);
    assert_int_equal(shape.count, 12);
    assert_int_equal(shape.send_count, 12);
    assert_int_equal(shape.recv_count, 4);
    shape = bench_shape_of(BENCH_ALL_GATHER, 48, 4, 1, 3);
    assert_int_equal(shape.send_count, 4);
    assert_int_equal(shape.recv_count, 12);
    shape = bench_shape_of(BENCH_BROADCAST, 48, 4, 0, 3);
    assert_int_equal(shape.send_count, 12);
    assert_int_equal(shape.recv_count, 0);
    shape = bench_shape_of(BENCH_BROADCAST, 48, 4, 2, 3);
    assert_int_equal(shape.send_count, 0);
    assert_int_equal(shape.recv_count, 12);
    shape = bench_shape_of(BENCH_REDUCE, 48, 4, 0, 3);
    assert_int_equal(shape.send_count, 12);
    assert_int_equal(shape.recv_count, 12);
    shape = bench_shape_of(BENCH_REDUCE, 48, 4, 2, 3);
    assert_int_equal(shape.send_count, 12);
    assert_int_equal(shape.recv_count, 0);
}

static void ranks_without_a_partner_watch(void **state)
{
    (void)state;
    bench_shape shape = bench_shape_of(BENCH_PING_PONG, 48, 4, 2, 4);
    assert_int_equal(bench_shape_partner(&shape), -1);
    assert_int_equal(shape.send_count, 0);
    assert_int_equal(shape.recv_count, 0);
    shape = bench_shape_of(BENCH_SENDRECV, 48, 4, 2, 4);
    assert_int_equal(bench_shape_partner(&shape), 3);
    shape = bench_shape_of(BENCH_SENDRECV, 48, 4, 2, 3);
    assert_int_equal(bench_shape_partner(&shape), -1);
}

static void received_elements_have_the_right_source(void **state)
{
    (void)state;
    int from;
    size_t index;
    bench_shape shape = bench_shape_of(BENCH_ALL_TO_ALL, 48, 4, 1, 3); /* blocks of 4 */
    bench_shape_source(&shape, 9, &from, &index);
    assert_int_equal(from, 2);
    assert_int_equal(index, 1 * 4 + 1);
    assert_int_equal(bench_shape_run(&shape, 9), 3);
    shape = bench_shape_of(BENCH_REDUCE_SCATTER, 48, 4, 2, 3);
    bench_shape_source(&shape, 3, &from, &index);
    assert_int_equal(from, -1);
    assert_int_equal(index, 2 * 4 + 3);
    shape = bench_shape_of(BENCH_ALL_GATHER, 48, 4, 0, 3);
    bench_shape_source(&shape, 5, &from, &index);
    assert_int_equal(from, 1);
    assert_int_equal(index, 1);
    shape = bench_shape_of(BENCH_REDUCE, 48, 4, 0, 3);
    bench_shape_source(&shape, 7, &from, &index);
    assert_int_equal(from, -1);
    assert_int_equal(index, 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_parse_back),
        cmocka_unit_test(sizes_round_up_to_whole_blocks),
        cmocka_unit_test(shapes_say_who_sends_and_receives_what),
        cmocka_unit_test(ranks_without_a_partner_watch),
        cmocka_unit_test(received_elements_have_the_right_source),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
