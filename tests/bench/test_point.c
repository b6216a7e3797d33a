/* tests/bench/test_point.c - bench/engine/point.c and segment.c: ranks made by fork() run operations of this file over
 * shared memory, right and wrong ones.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "../../bench/engine/clock.h"
#include "../../bench/engine/point.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define COUNT 3000
#define MAX_SIZE 3

enum fault { NO_FAULT, ONE_ELEMENT, NOTHING_RECEIVED, LAST_ITERATION_ONLY, STALE };

/* Everybody's vectors of the last two operations. */
typedef struct exchange {
    float values[2][MAX_SIZE][COUNT];
} exchange;

typedef struct fake_all_reduce {
    bench_peers *peers;
    exchange *shared;
    enum fault fault;
    int calls, faulty_call;
} fake_all_reduce;

/* all_reduce with the engine's own barrier. */
static bool run(void *self, const bench_call *call)
{
    fake_all_reduce *fake = self;
    size_t count = call->shape->count;
    int slot = fake->calls & 1;
    memcpy(fake->shared->values[slot][call->shape->rank], call->send, count * sizeof(float));
    bench_barrier(fake->peers);
    bool is_faulty_now = fake->calls++ == fake->faulty_call;
    if (fake->fault == NOTHING_RECEIVED || (fake->fault == STALE && is_faulty_now)) {
        return true;
    }
    float *recv = call->recv;
    for (size_t i = 0; i < count; i++) {
        recv[i] = 0;
        for (int r = 0; r < call->shape->size; r++) {
            recv[i] += fake->shared->values[slot][r][i];
        }
    }
    if (call->shape->rank == call->shape->size - 1 && (fake->fault == ONE_ELEMENT || is_faulty_now)) {
        recv[count / 3 + 1] += fake->fault == NO_FAULT ? 0 : 1;
    }
    return true;
}

/* Runs a point on `size` processes and gives rank 0's result. faulty_call: which call goes wrong; -1: see fault. */
static bench_result run_point(int size, bench_mode mode, enum fault fault, int faulty_call)
{
    static float send[COUNT], recv[COUNT];
    bench_segment *segment = bench_segment_for_children();
    exchange *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_non_null(segment);
    assert_true(shared != MAP_FAILED);
    int rank = 0;
    for (int r = 1; r < size && rank == 0; r++) {
        rank = fork() == 0 ? r : 0;
    }
    bench_peers peers;
    bench_peers_init(&peers, segment, rank, size, bench_usable_cpus());
    fake_all_reduce fake = { &peers, shared, fault, 0, faulty_call };
    bench_variant variant = { "fake", &fake, NULL, run, NULL };
    bench_driver driver = { "test", &variant, 1, &peers };
    bench_data data;
    bench_data_init(&data, BENCH_F32);
    bench_limits limits = { 9, 9, 1 };
    bench_result result;
    bool is_done = bench_point(&driver, &variant, &data, BENCH_ALL_REDUCE, COUNT * sizeof(float), mode, &limits, send,
                               recv, &result);
    if (rank != 0) {
        _exit(is_done ? 0 : 1);
    }
    for (int r = 1; r < size; r++) {
        int status;
        assert_true(wait(&status) > 0);
        assert_int_equal(status, 0);
    }
    assert_true(is_done);
    munmap(shared, sizeof(*shared));
    munmap(segment, sizeof(*segment));
    return result;
}

static void right_operations_are_right(void **state)
{
    (void)state;
    for (int size = 1; size <= MAX_SIZE; size++) {
        bench_result result = run_point(size, BENCH_COLD, NO_FAULT, -1);
        assert_true(result.is_right);
        assert_int_equal(result.us.count, 9);
        assert_int_equal(result.nbytes, COUNT * sizeof(float));
        assert_true(result.us.min > 0 && result.us.min <= result.us.median && result.us.median <= result.us.max);
        assert_true(size == 1 ? result.flag_before_ns == 0 : result.flag_before_ns > 0);
        result = run_point(size, BENCH_BACK_TO_BACK, NO_FAULT, -1);
        assert_true(result.is_right);
        assert_true(result.us.count >= 3);
        assert_true(result.us.min > 0);
    }
}

static void one_wrong_element_on_one_rank_is_found(void **state)
{
    (void)state;
    assert_false(run_point(2, BENCH_COLD, ONE_ELEMENT, -1).is_right);
    assert_false(run_point(3, BENCH_COLD, ONE_ELEMENT, -1).is_right);
    assert_false(run_point(2, BENCH_BACK_TO_BACK, ONE_ELEMENT, -1).is_right);
}

static void an_operation_that_does_nothing_is_found(void **state)
{
    (void)state;
    assert_false(run_point(2, BENCH_COLD, NOTHING_RECEIVED, -1).is_right);
    assert_false(run_point(2, BENCH_BACK_TO_BACK, NOTHING_RECEIVED, -1).is_right);
}

/* The samples of every iteration see that recv kept what the last iteration brought. */
static void a_stale_result_in_any_iteration_is_found(void **state)
{
    (void)state;
    for (int call = 1; call < 9; call++) {
        assert_false(run_point(2, BENCH_COLD, STALE, call).is_right);
    }
}

/* One element is wrong only in the first call, which warm-up makes. */
static void warm_up_is_checked(void **state)
{
    (void)state;
    assert_false(run_point(2, BENCH_COLD, LAST_ITERATION_ONLY, 0).is_right);
}

int main(void)
{
    alarm(50);
    bench_clock_init();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(right_operations_are_right),
        cmocka_unit_test(one_wrong_element_on_one_rank_is_found),
        cmocka_unit_test(an_operation_that_does_nothing_is_found),
        cmocka_unit_test(a_stale_result_in_any_iteration_is_found),
        cmocka_unit_test(warm_up_is_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
