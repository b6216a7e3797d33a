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
    bool is_away; /* works on the arrays here, not on the engine's buffers */
    float send[COUNT], recv[COUNT];
    int pushes, pulls;
} fake_all_reduce;

static bool push(void *self, const bench_call *call)
{
    fake_all_reduce *fake = self;
    memcpy(fake->send, call->send, call->shape->send_count * sizeof(float));
    fake->pushes++;
    return true;
}

static bool pull(void *self, const bench_call *call)
{
    fake_all_reduce *fake = self;
    memcpy(call->recv, fake->recv, call->shape->recv_count * sizeof(float));
    fake->pulls++;
    return true;
}

/* all_reduce with the engine's own barrier. */
static bool run(void *self, const bench_call *call)
{
    fake_all_reduce *fake = self;
    size_t count = call->shape->count;
    int slot = fake->calls & 1;
    memcpy(fake->shared->values[slot][call->shape->rank], fake->is_away ? fake->send : call->send,
           count * sizeof(float));
    bench_barrier(fake->peers);
    bool is_faulty_now = fake->calls++ == fake->faulty_call;
    if (fake->fault == NOTHING_RECEIVED || (fake->fault == STALE && is_faulty_now)) {
        return true;
    }
    float *recv = fake->is_away ? fake->recv : call->recv;
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
static bench_result run_fake(int size, bench_mode mode, fake_all_reduce *fake)
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
    fake->peers = &peers;
    fake->shared = shared;
    bench_variant variant = { .name = "fake", .self = fake, .run = run };
    variant.push = fake->is_away ? push : NULL;
    variant.pull = fake->is_away ? pull : NULL;
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

static bench_result run_point(int size, bench_mode mode, enum fault fault, int faulty_call)
{
    fake_all_reduce fake = { .fault = fault, .faulty_call = faulty_call };
    return run_fake(size, mode, &fake);
}

static void data_may_be_away_from_the_engine(void **state)
{
    (void)state;
    for (int mode = 0; mode < BENCH_MODE_COUNT; mode++) {
        fake_all_reduce fake = { .faulty_call = -1, .is_away = true };
        assert_true(run_fake(2, (bench_mode)mode, &fake).is_right);
        assert_true(fake.pushes > 0 && fake.pulls > 0);
        assert_true(mode != BENCH_COLD || fake.pulls == fake.calls); /* every iteration's result was looked at */
        fake = (fake_all_reduce){ .faulty_call = -1, .is_away = true, .fault = ONE_ELEMENT };
        assert_false(run_fake(2, (bench_mode)mode, &fake).is_right);
    }
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
        cmocka_unit_test(data_may_be_away_from_the_engine),
        cmocka_unit_test(one_wrong_element_on_one_rank_is_found),
        cmocka_unit_test(an_operation_that_does_nothing_is_found),
        cmocka_unit_test(a_stale_result_in_any_iteration_is_found),
        cmocka_unit_test(warm_up_is_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
