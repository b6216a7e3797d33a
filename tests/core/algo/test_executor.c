/* tests/core/algo/test_executor.c - waiting, resuming, pieces, slots, cancelling, and what happens when things fail.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "core/algo/algo.h"
#include "core/base/fault.h"
#include "fake.h"
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RANKS = 3 };

/* An all_reduce of int32 ones on three ranks. */
typedef struct test_world {
    fake_world *fake;
    ki_order order;
    ki_reducer reducer;
    ki_op op;
    size_t count;
    int32_t *data[RANKS];
    kith_be_coll coll[RANKS];
    ki_algo_args args[RANKS];
    ki_executor executor[RANKS];
    bool is_done[RANKS];
} test_world;

static void world_init(test_world *w, size_t count)
{
    memset(w, 0, sizeof *w);
    w->count = count;
    w->op = (ki_op){ .builtin = KITH_SUM, .is_commutative = true };
    assert_int_equal(ki_order_create(RANKS, NULL, &w->order), KITH_OK);
    ki_reducer_init(&w->reducer, KITH_INT32, &w->op, &w->order);
    for (int r = 0; r < RANKS; r++) {
        w->data[r] = malloc((count + 1) * sizeof(int32_t));
        w->coll[r] = (kith_be_coll){ .kind = KITH_ALL_REDUCE,
                                     .dtype = KITH_INT32,
                                     .op = KITH_SUM,
                                     .count = count,
                                     .nbytes = 4,
                                     .send = w->data[r],
                                     .recv = w->data[r],
                                     .reducer = &w->reducer.base };
        w->args[r] =
            (ki_algo_args){ .rank = r, .size = RANKS, .coll = &w->coll[r], .reducer = &w->reducer, .order = &w->order };
    }
}

static kith_status start(test_world *w, int r, const char *algo)
{
    for (size_t i = 0; i < w->count; i++)
        w->data[r][i] = 1;
    w->is_done[r] = false;
    ki_transport transport = { .backend = &fake_backend, .group = fake_rank(w->fake, r), .tag = 9 };
    return ki_executor_start(&w->executor[r], ki_algo_find(KITH_ALL_REDUCE, algo), &w->args[r], &transport);
}

static void start_all(test_world *w, const char *algo, fake_mode mode)
{
    w->fake = fake_create(RANKS, mode, 3);
    for (int r = 0; r < RANKS; r++)
        assert_int_equal(start(w, r, algo), KITH_OK);
}

/* Steps ranks [0, ranks) until nothing moves any more. The first failure ends it. */
static kith_status settle(test_world *w, int ranks, int *failed)
{
    for (int i = 0; i < 300; i++) {
        for (int r = 0; r < ranks; r++) {
            kith_status status = w->is_done[r] ? KITH_OK : ki_executor_step(&w->executor[r], &w->is_done[r]);
            *failed = r;
            if (status != KITH_OK)
                return status;
        }
        fake_tick(w->fake);
    }
    return KITH_OK;
}

static void expect_result(const test_world *w)
{
    for (int r = 0; r < RANKS; r++) {
        assert_true(w->is_done[r]);
        for (size_t i = 0; i < w->count; i++)
            assert_int_equal(w->data[r][i], RANKS);
    }
}

static void world_fini(test_world *w)
{
    for (int r = 0; r < RANKS; r++) {
        ki_executor_fini(&w->executor[r]);
        free(w->data[r]);
    }
    ki_order_destroy(&w->order);
}

static void run(test_world *w, const char *algo)
{
    int failed;
    start_all(w, algo, FAKE_RENDEZVOUS);
    assert_int_equal(settle(w, RANKS, &failed), KITH_OK);
    expect_result(w);
    fake_destroy(w->fake);
}

/* Reductions of 4 Mi elements are 16 pieces and more. */
static void test_pieces(void **state)
{
    (void)state;
    test_world w;
    world_init(&w, ((size_t)4 << 20) + 13);
    run(&w, "linear");
    run(&w, "recursive_doubling");
    world_fini(&w);
}

/* Used again, an executor allocates nothing: every allocation would fail now. */
static void test_memory_is_kept(void **state)
{
    (void)state;
    test_world w;
    world_init(&w, 1000);
    run(&w, "linear");
    ki_plan before = w.executor[1].plan;
    kith_be_slot *slots = w.executor[1].slots;
    setenv("KITH_FAULT", "alloc:1", 1);
    ki_fault_configure(0);
    run(&w, "linear");
    unsetenv("KITH_FAULT");
    ki_fault_configure(0);
    assert_ptr_equal(w.executor[1].plan.steps, before.steps);
    assert_ptr_equal(w.executor[1].slots, slots);
    world_fini(&w);
}

/* Each allocation of a start fails once; the executor can be used afterwards. */
static void test_no_memory(void **state)
{
    (void)state;
    int failures = 0;
    for (int n = 1;; n++) {
        test_world w;
        char text[32];
        world_init(&w, 100);
        w.fake = fake_create(RANKS, FAKE_EAGER, 1);
        snprintf(text, sizeof text, "alloc:%d", n);
        setenv("KITH_FAULT", text, 1);
        ki_fault_configure(0);
        kith_status status = start(&w, 0, "linear");
        unsetenv("KITH_FAULT");
        ki_fault_configure(0);
        if (status != KITH_OK) {
            assert_int_equal(status, KITH_ERR_NO_MEMORY);
            failures++;
        }
        ki_executor_cancel(&w.executor[0]);
        fake_destroy(w.fake);
        run(&w, "linear");
        world_fini(&w);
        if (status == KITH_OK)
            break;
    }
    assert_true(failures >= 6); /* steps, references, bounds, messages, slots, scratch, ... */
}

/* A rank that never comes: the others name it; after cancelling, their buffers stay as they are. */
static void test_missing_and_cancel(void **state)
{
    (void)state;
    test_world w;
    int failed;
    world_init(&w, 10);
    w.fake = fake_create(RANKS, FAKE_RENDEZVOUS, 3);
    assert_int_equal(start(&w, 0, "linear"), KITH_OK);
    assert_int_equal(start(&w, 1, "linear"), KITH_OK);
    assert_int_equal(settle(&w, 2, &failed), KITH_OK);
    assert_false(w.is_done[0] || w.is_done[1]);
    for (int r = 0; r < 2; r++) {
        unsigned char is_missing[RANKS] = { 0 };
        ki_executor_missing(&w.executor[r], is_missing);
        assert_memory_equal(is_missing, ((unsigned char[]){ 0, 0, 1 }), RANKS);
        ki_executor_cancel(&w.executor[r]);
    }
    assert_int_equal(fake_in_flight(w.fake), 0);
    int32_t before[10];
    memcpy(before, w.data[0], sizeof before);
    for (int i = 0; i < 20; i++)
        fake_tick(w.fake);
    assert_memory_equal(before, w.data[0], sizeof before);
    fake_destroy(w.fake);
    run(&w, "ring"); /* cancelled executors can be used again */
    world_fini(&w);
}

/* Only sends are open: those who do not take them are missing. */
static void test_missing_receivers(void **state)
{
    (void)state;
    test_world w;
    int failed;
    world_init(&w, 10);
    w.fake = fake_create(RANKS, FAKE_RENDEZVOUS, 3);
    for (int r = 0; r < RANKS; r++) {
        w.coll[r].kind = KITH_BROADCAST;
        w.args[r].reducer = NULL;
    }
    ki_transport transport = { .backend = &fake_backend, .group = fake_rank(w.fake, 0), .tag = 9 };
    assert_int_equal(ki_executor_start(&w.executor[0], ki_algo_find(KITH_BROADCAST, "linear"), &w.args[0], &transport),
                     KITH_OK);
    assert_int_equal(settle(&w, 1, &failed), KITH_OK);
    unsigned char is_missing[RANKS] = { 0 };
    ki_executor_missing(&w.executor[0], is_missing);
    assert_memory_equal(is_missing, ((unsigned char[]){ 0, 1, 1 }), RANKS);
    ki_executor_cancel(&w.executor[0]);
    fake_destroy(w.fake);
    world_fini(&w);
}

static void test_start_fails(void **state)
{
    (void)state;
    for (int n = 1; n <= 4; n++) {
        test_world w;
        int failed = -1;
        world_init(&w, 30);
        start_all(&w, "linear", FAKE_RENDEZVOUS);
        fake_fail_start(w.fake, n);
        assert_int_equal(settle(&w, RANKS, &failed), KITH_ERR_PEER_FAILED);
        assert_int_equal(failed, 0);
        for (int r = 0; r < RANKS; r++)
            ki_executor_cancel(&w.executor[r]);
        assert_int_equal(fake_in_flight(w.fake), 0);
        fake_destroy(w.fake);
        world_fini(&w);
    }
}

/* A message that is shorter than the plan says: the counts of two ranks differ. */
static void test_short_message(void **state)
{
    (void)state;
    test_world w;
    int failed;
    world_init(&w, 30);
    start_all(&w, "linear", FAKE_EAGER);
    fake_shorten(w.fake, 1, 4);
    assert_int_equal(settle(&w, RANKS, &failed), KITH_ERR_MISMATCH);
    assert_non_null(strstr(kith_error_detail(), "all_reduce: rank 1 sent 36 bytes where rank"));
    for (int r = 0; r < RANKS; r++)
        ki_executor_cancel(&w.executor[r]);
    fake_destroy(w.fake);
    world_fini(&w);
}

/* Slots are as many as fly together, not as many as there are messages. */
static void test_slots_are_reused(void **state)
{
    (void)state;
    test_world w;
    world_init(&w, 4096);
    for (int r = 0; r < RANKS; r++)
        w.args[r].segment_nbytes = 64;
    run(&w, "segmented_ring");
    assert_true(w.executor[0].plan.message_count > 200);
    assert_true(w.executor[0].slot_capacity < w.executor[0].plan.message_count);
    for (int r = 0; r < RANKS; r++)
        w.args[r].segment_nbytes = 0;
    run(&w, "ring");
    world_fini(&w);
}

static void test_nothing_to_do(void **state)
{
    (void)state;
    test_world w;
    world_init(&w, 0);
    run(&w, "linear");
    run(&w, "rabenseifner");
    ki_executor unused = { .next = 0 };
    ki_executor_cancel(&unused);
    ki_executor_fini(&unused);
    world_fini(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pieces),
        cmocka_unit_test(test_memory_is_kept),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_missing_and_cancel),
        cmocka_unit_test(test_missing_receivers),
        cmocka_unit_test(test_start_fails),
        cmocka_unit_test(test_short_message),
        cmocka_unit_test(test_slots_are_reused),
        cmocka_unit_test(test_nothing_to_do),
    };
    return cmocka_run_group_tests_name("executor", tests, NULL, NULL);
}
