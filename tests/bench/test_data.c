/* tests/bench/test_data.c - bench/engine/data.c: right data pass, and every kind of wrong data is found.
 *
 * Results are computed here element by element from bench_data_value(), by loops of their own.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "../../bench/engine/data.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define RANKS 3
#define COUNT (3 * 1500) /* several pieces; blocks that do not end with one */

static bench_data data;

static int right_value(bench_op op, int rank, uint32_t iteration, size_t i)
{
    size_t block = COUNT / RANKS;
    int sum = 0;
    switch (op) {
    case BENCH_ALL_REDUCE:
    case BENCH_REDUCE_SCATTER:
        for (int r = 0; r < RANKS; r++) {
            sum += bench_data_value(r, iteration, op == BENCH_ALL_REDUCE ? i : (size_t)rank * block + i);
        }
        return sum;
    case BENCH_ALL_GATHER:
        return bench_data_value((int)(i / block), iteration, i % block);
    case BENCH_ALL_TO_ALL:
        return bench_data_value((int)(i / block), iteration, (size_t)rank * block + i % block);
    case BENCH_BROADCAST:
        return bench_data_value(0, iteration, i);
    default:
        return bench_data_value(rank ^ 1, iteration, i);
    }
}

static void *right_result(const bench_shape *shape, uint32_t iteration)
{
    unsigned char *recv = calloc(COUNT + 1, data.nbytes);
    assert_non_null(recv);
    for (size_t i = 0; i < shape->recv_count; i++) {
        bench_dtype_store(data.dtype, right_value(shape->op, shape->rank, iteration, i), recv + i * data.nbytes);
    }
    return recv;
}

static void elements_store_and_load(void **state)
{
    (void)state;
    for (int dtype = 0; dtype < BENCH_DTYPE_COUNT; dtype++) {
        for (int value = 0; value <= 240; value++) {
            unsigned char element[8];
            bench_dtype_store((bench_dtype)dtype, value, element);
            assert_true(bench_dtype_load((bench_dtype)dtype, element) == value);
        }
    }
}

static void fill_writes_the_values(void **state)
{
    (void)state;
    for (int dtype = 0; dtype < BENCH_DTYPE_COUNT; dtype++) {
        bench_data_init(&data, (bench_dtype)dtype);
        bench_shape shape = bench_shape_of(BENCH_ALL_REDUCE, COUNT * data.nbytes, data.nbytes, 1, RANKS);
        unsigned char *send = malloc(COUNT * data.nbytes);
        assert_non_null(send);
        bench_data_fill(&data, &shape, 17, send);
        for (size_t i = 0; i < COUNT; i++) {
            assert_true(bench_dtype_load(data.dtype, send + i * data.nbytes) == bench_data_value(1, 17, i));
        }
        free(send);
    }
}

static void right_results_pass(void **state)
{
    (void)state;
    bench_data_error error;
    for (int dtype = 0; dtype < BENCH_DTYPE_COUNT; dtype++) {
        bench_data_init(&data, (bench_dtype)dtype);
        for (int op = 0; op < BENCH_OP_COUNT; op++) {
            bench_shape shape = bench_shape_of((bench_op)op, COUNT * data.nbytes, data.nbytes, 1, RANKS);
            void *recv = right_result(&shape, 5);
            assert_true(bench_data_check(&data, &shape, 5, recv, &error));
            assert_true(bench_data_check_samples(&data, &shape, 5, recv, &error));
            free(recv);
        }
    }
}

/* Changes one element to its neighbour's value plus one and wants it found exactly there. */
static void one_wrong_element_is_found(void **state)
{
    (void)state;
    static const size_t places[] = { 0, 1, 700, 1023, 1024, 1499 };
    bench_data_init(&data, BENCH_F32);
    for (int op = 0; op < BENCH_OP_COUNT; op++) {
        bench_shape shape = bench_shape_of((bench_op)op, COUNT * data.nbytes, data.nbytes, 1, RANKS);
        for (size_t k = 0; k < sizeof(places) / sizeof(places[0]) && shape.recv_count > 0; k++) {
            bench_data_error error = { 0 };
            float *recv = right_result(&shape, 9);
            float right = recv[places[k]];
            recv[places[k]] = right + 1;
            assert_false(bench_data_check(&data, &shape, 9, recv, &error));
            assert_int_equal(error.index, places[k]);
            assert_true(error.got == error.wanted + 1 && (float)error.wanted == right);
            free(recv);
        }
    }
}

static void stale_results_are_found(void **state)
{
    (void)state;
    bench_data_error error;
    bench_data_init(&data, BENCH_F32);
    for (uint32_t iteration = 1; iteration < 50; iteration++) {
        bench_shape shape = bench_shape_of(BENCH_ALL_REDUCE, COUNT * data.nbytes, data.nbytes, 0, RANKS);
        void *recv = right_result(&shape, iteration - 1);
        assert_false(bench_data_check(&data, &shape, iteration, recv, &error));
        free(recv);
    }
}

static void a_piece_in_the_wrong_place_is_found(void **state)
{
    (void)state;
    bench_data_error error;
    bench_data_init(&data, BENCH_F32);
    bench_shape shape = bench_shape_of(BENCH_BROADCAST, COUNT * data.nbytes, data.nbytes, 1, RANKS);
    float *recv = right_result(&shape, 3);
    /* 31 pieces further the ramp would repeat, were it not for the offset of each piece; here two pieces swap */
    float piece[BENCH_DATA_PIECE];
    memcpy(piece, recv, sizeof(piece));
    memcpy(recv, recv + 2 * BENCH_DATA_PIECE, sizeof(piece));
    memcpy(recv + 2 * BENCH_DATA_PIECE, piece, sizeof(piece));
    assert_false(bench_data_check(&data, &shape, 3, recv, &error));
    free(recv);
}

static void samples_find_an_untouched_buffer(void **state)
{
    (void)state;
    bench_data_error error;
    bench_data_init(&data, BENCH_F32);
    bench_shape shape = bench_shape_of(BENCH_ALL_TO_ALL, COUNT * data.nbytes, data.nbytes, 2, RANKS);
    float *recv = calloc(COUNT, sizeof(float));
    assert_non_null(recv);
    assert_false(bench_data_check_samples(&data, &shape, 1, recv, &error));
    free(recv);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(elements_store_and_load),
        cmocka_unit_test(fill_writes_the_values),
        cmocka_unit_test(right_results_pass),
        cmocka_unit_test(one_wrong_element_is_found),
        cmocka_unit_test(stale_results_are_found),
        cmocka_unit_test(a_piece_in_the_wrong_place_is_found),
        cmocka_unit_test(samples_find_an_untouched_buffer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
