/* tests/layers/test_pool.c - every part runs once, whatever the threads are doing.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "layers/compute/pool.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST_PARTS = 64, MOST_THREADS = 8 };

typedef struct counts {
    int runs[MOST_PARTS];            /* each written by the part alone: plain, so that a race would be seen */
    atomic_int inside[MOST_THREADS]; /* parts that run as this worker */
    atomic_int clashes;
    int threads;
} counts;

static void count_part(const void *call, int64_t part, int worker)
{
    counts *c = *(counts *const *)call;
    if (worker < 0 || worker >= c->threads || atomic_fetch_add(&c->inside[worker], 1) != 0)
        atomic_fetch_add(&c->clashes, 1);
    c->runs[part]++;
    if (worker >= 0 && worker < c->threads)
        atomic_fetch_sub(&c->inside[worker], 1);
}

/* Calls of 0 .. MOST_PARTS - 1 parts, `rounds` times. The number of mistakes. */
static int mistakes_of(ki_pool *pool, int threads, int rounds)
{
    counts *c = (counts *)calloc(1, sizeof *c);
    int mistakes = 0;
    for (int round = 0; round < rounds; round++) {
        const int parts = round % MOST_PARTS;
        memset(c->runs, 0, sizeof c->runs);
        c->threads = threads;
        ki_pool_run(pool, parts, count_part, &c);
        for (int part = 0; part < MOST_PARTS; part++)
            mistakes += c->runs[part] != (part < parts);
    }
    mistakes += atomic_load(&c->clashes);
    free(c);
    return mistakes;
}

static atomic_int begun;

static void count_begin(void)
{
    atomic_fetch_add(&begun, 1);
}

static void each_part_runs_once(void **state)
{
    (void)state;
    for (int threads = 1; threads <= MOST_THREADS; threads++) {
        ki_pool *pool;
        assert_int_equal(ki_pool_create(threads, count_begin, &pool), KITH_OK);
        atomic_store(&begun, 0);
        assert_int_equal(ki_pool_threads(pool), threads);
        assert_int_equal(mistakes_of(pool, threads, 500), 0);
        ki_pool_destroy(pool); /* which waits for workers that are only about to begin */
        assert_int_equal(atomic_load(&begun), threads - 1);
    }
}

static void no_pool_is_one_thread(void **state)
{
    (void)state;
    ki_pool *unused;
    assert_int_equal(ki_pool_threads(NULL), 1);
    assert_int_equal(mistakes_of(NULL, 1, MOST_PARTS), 0);
    assert_int_equal(ki_pool_create(4, NULL, &unused), KITH_OK);
    ki_pool_destroy(unused); /* its threads were never started */
    ki_pool_destroy(NULL);
}

/* Workers sleep between calls that are far apart, and wake up. */
static void sleepers_wake(void **state)
{
    (void)state;
    ki_pool *pool;
    assert_int_equal(ki_pool_create(3, NULL, &pool), KITH_OK);
    for (int i = 0; i < 10; i++) {
        usleep(5000); /* longer than workers stay awake */
        assert_int_equal(mistakes_of(pool, 3, MOST_PARTS), 0);
    }
    usleep(5000); /* and so that the end finds them asleep */
    ki_pool_destroy(pool);
}

static void *be_rank(void *argument)
{
    int *mistakes = (int *)argument;
    ki_pool *pool;
    *mistakes = ki_pool_create(2, NULL, &pool) == KITH_OK ? 0 : 1;
    if (*mistakes == 0) {
        *mistakes = mistakes_of(pool, 2, 2000);
        ki_pool_destroy(pool);
    }
    return NULL;
}

/* Four ranks as threads with two threads each: more than most machines that test this have cores. */
static void pools_side_by_side(void **state)
{
    (void)state;
    pthread_t ranks[4];
    int mistakes[4];
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&ranks[i], NULL, be_rank, &mistakes[i]), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(ranks[i], NULL);
    for (int i = 0; i < 4; i++)
        assert_int_equal(mistakes[i], 0);
}

/* A child has the pool but not its workers. */
static void child_works_alone(void **state)
{
    (void)state;
    ki_pool *pool;
    int ended = 0;
    assert_int_equal(ki_pool_create(3, NULL, &pool), KITH_OK);
    assert_int_equal(mistakes_of(pool, 3, MOST_PARTS), 0);
    const pid_t child = fork();
    if (child == 0) {
        alarm(20);
        const int mistakes = mistakes_of(pool, 3, MOST_PARTS);
        ki_pool_destroy(pool);
        _exit(mistakes != 0);
    }
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &ended, 0), child);
    assert_int_equal(ended, 0);
    assert_int_equal(mistakes_of(pool, 3, MOST_PARTS), 0);
    ki_pool_destroy(pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_part_runs_once), cmocka_unit_test(no_pool_is_one_thread), cmocka_unit_test(sleepers_wake),
        cmocka_unit_test(pools_side_by_side),  cmocka_unit_test(child_works_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
