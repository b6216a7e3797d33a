/* tests/backends/shm/test_memory.c - memory that all ranks map: allocation, registration, refusals.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "harness.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#define PAGES 300

static void sum_of(harness_rank *me, float *send, float *recv, size_t count)
{
    kith_be_reducer reducer;
    harness_reducer(&reducer, KITH_F32, KITH_SUM);
    kith_be_coll coll = { .kind = KITH_ALL_REDUCE,
                          .dtype = KITH_F32,
                          .op = KITH_SUM,
                          .send = send,
                          .recv = recv,
                          .count = count,
                          .nbytes = 4,
                          .reducer = &reducer };
    for (size_t i = 0; i < count; i++)
        send[i] = (float)(me->rank + (int)(i % 13));
    HARNESS_CHECK(me, harness_coll(me, &coll) == KITH_OK);
    float ranks = (float)(me->size * (me->size - 1) / 2);
    for (size_t i = 0; i < count; i++)
        if (recv[i] != ranks + (float)(me->size * (int)(i % 13))) {
            harness_fail(me, "element %zu of %zu is %g", i, count, (double)recv[i]);
            break;
        }
}

/* Many parts of different size, freed in another order than they were made. */
static void allocate(harness_rank *me)
{
    enum { PARTS = 40 };
    void *parts[PARTS];
    for (size_t i = 0; i < PARTS; i++) {
        HARNESS_CHECK(me, me->backend->mem_alloc(me->group, 20000 + i * 5000 + (size_t)me->rank, &parts[i]) == KITH_OK);
        HARNESS_CHECK(me, (uintptr_t)parts[i] % 4096 == 0 && ((unsigned char *)parts[i])[20000] == 0);
    }
    for (size_t i = 0; i + 1 < PARTS; i += 2)
        sum_of(me, parts[i], parts[i + 1], 5000);
    for (size_t i = 0; i < PARTS; i += 3)
        HARNESS_CHECK(me, me->backend->mem_free(me->group, parts[i]) == KITH_OK);
    HARNESS_CHECK(me, me->backend->mem_free(me->group, (char *)parts[1] + 4096) == KITH_ERR_INVALID_ARG);
    sum_of(me, parts[1], parts[2], 5000);
    void *more = NULL;
    HARNESS_CHECK(me, me->backend->mem_alloc(me->group, 100000, &more) == KITH_OK);
    sum_of(me, parts[1], more, 5000);
    /* The rest goes with the group. */
}

/* One rank cannot: all get its status, and nothing is left. */
static void refuse(harness_rank *me)
{
    void *data = NULL;
    kith_status status = me->backend->mem_alloc(me->group, me->rank == 1 ? 0 : 4096, &data);
    HARNESS_CHECK(me, status == KITH_ERR_INVALID_ARG && data == NULL);
    /* more than any machine has: told now, not by a signal when the pages are touched */
    status = me->backend->mem_alloc(me->group, (size_t)1 << 44, &data);
    HARNESS_CHECK(me, status == KITH_ERR_NO_RESOURCE && data == NULL);
    HARNESS_CHECK(me, me->backend->mem_alloc(me->group, 4096, &data) == KITH_OK);
}

static void register_pages(harness_rank *me)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), nbytes = PAGES * page;
    float *send = mmap(NULL, nbytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    float *recv = aligned_alloc(page, nbytes);
    for (size_t i = 0; i < nbytes / 4; i++)
        send[i] = recv[i] = (float)(i + (size_t)me->rank);
    HARNESS_CHECK(me, me->backend->mem_register(me->group, send, nbytes) == KITH_OK);
    HARNESS_CHECK(me, me->backend->mem_register(me->group, recv, nbytes) == KITH_OK);
    for (size_t i = 0; i < nbytes / 4; i++)
        HARNESS_CHECK(me, send[i] == (float)(i + (size_t)me->rank) && recv[i] == send[i]);
    HARNESS_CHECK(me, me->backend->mem_register(me->group, (char *)send + page, page) == KITH_ERR_INVALID_ARG);
    sum_of(me, send, recv, nbytes / 4);
    sum_of(me, recv, send, 3000);
    float kept = send[2999];
    harness_barrier(me);
    HARNESS_CHECK(me, me->backend->mem_deregister(me->group, send) == KITH_OK);
    HARNESS_CHECK(me, send[2999] == kept);
    HARNESS_CHECK(me, me->backend->mem_deregister(me->group, send) == KITH_ERR_INVALID_ARG);
    sum_of(me, send, recv, 50000); /* one is mapped, one is not */
    HARNESS_CHECK(me, me->backend->mem_deregister(me->group, recv) == KITH_OK);
    sum_of(me, send, recv, 50000);
    munmap(send, nbytes);
    free(recv);
}

static void refuse_registration(harness_rank *me)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *data = mmap(NULL, 4 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *shared = mmap(NULL, 4 * page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    HARNESS_CHECK(me, me->backend->mem_register(me->group, data + 1, page) == KITH_ERR_INVALID_ARG);
    HARNESS_CHECK(me, me->backend->mem_register(me->group, data, page + 1) == KITH_ERR_INVALID_ARG);
    HARNESS_CHECK(me, me->backend->mem_register(me->group, shared, 4 * page) == KITH_ERR_UNSUPPORTED);
    munmap(data + 2 * page, page);
    HARNESS_CHECK(me, me->backend->mem_register(me->group, data, 4 * page) == KITH_ERR_UNSUPPORTED);
    memset(data, 5, 2 * page);
    HARNESS_CHECK(me, me->backend->mem_register(me->group, me->rank == 0 ? shared : data, 2 * page) ==
                          KITH_ERR_UNSUPPORTED);
    HARNESS_CHECK(me, data[0] == 5 && data[2 * page - 1] == 5);
    HARNESS_CHECK(me, me->backend->mem_register(me->group, data, 2 * page) == KITH_OK);
    HARNESS_CHECK(me, data[0] == 5 && data[2 * page - 1] == 5);
}

static void run_both(harness_body body)
{
    static const harness_setting file[] = { { "shm_memfd", "off" }, { NULL, NULL } };
    for (int size = 2; size <= 4; size += 2) {
        harness_options processes = { .size = size }, files = { .size = size, .settings = file },
                        threads = { .size = size, .is_threads = true };
        assert_int_equal(harness_run(&processes, body, NULL), 0);
        assert_int_equal(harness_run(&files, body, NULL), 0);
        assert_int_equal(harness_run(&threads, body, NULL), 0);
    }
}

static void test_allocate(void **state)
{
    (void)state;
    run_both(allocate);
}

static void test_refuse(void **state)
{
    (void)state;
    run_both(refuse);
}

static void test_register(void **state)
{
    (void)state;
    run_both(register_pages);
}

static void test_refuse_registration(void **state)
{
    (void)state;
    run_both(refuse_registration);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_allocate),
        cmocka_unit_test(test_refuse),
        cmocka_unit_test(test_register),
        cmocka_unit_test(test_refuse_registration),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
