/* tests/backends/ucx/test_ucx.c - the ucx module by itself: messages over several transports, and peers that die.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "../stub/stub.h"
#include "backends/message/message.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static const kith_backend *backend;

/* The state of a test: which scenario, over which transports, with how many ranks. */
typedef struct variant {
    const char *tls;
    int ranks;
} variant;

static const variant variants[] = { { "", 2 }, { "", 3 }, { "posix", 2 }, { "tcp", 3 }, { "sysv,cma", 2 } };

static void run_scenario(void **state)
{
    const stub_scenario *scenario = (const stub_scenario *)*state;
    for (size_t i = 0; i < sizeof variants / sizeof *variants; i++) {
        stub_set("ucx_tls", variants[i].tls);
        int failures = stub_fork(backend, variants[i].ranks, scenario->fn, -1);
        if (failures != 0)
            print_error("%s over '%s' with %d ranks\n", scenario->name, variants[i].tls, variants[i].ranks);
        assert_int_equal(failures, 0);
    }
}

/* Small eager limits: every message takes the way of the large ones. */
static void test_all_large(void **state)
{
    (void)state;
    stub_set("ucx_tls", "");
    stub_set("ucx_eager", "0");
    for (const stub_scenario *scenario = stub_message_scenarios; scenario->fn != NULL; scenario++)
        assert_int_equal(stub_fork(backend, 3, scenario->fn, -1), 0);
    stub_set("ucx_eager", "32768");
}

/* An eager message carries half of its number. */
static void test_numbers(void **state)
{
    static const uint64_t due[] = { 0, 5, UINT32_MAX, (uint64_t)UINT32_MAX + 1, UINT64_C(0x7fffffff80000000) };
    (void)state;
    for (size_t i = 0; i < sizeof due / sizeof *due; i++)
        for (int64_t ahead = -2000; ahead <= 2000; ahead += 7) {
            uint64_t sent = due[i] + (uint64_t)ahead;
            assert_true(ki_whole_sequence(due[i], (uint32_t)sent) == sent);
        }
}

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Rank 1 dies with messages of all kinds waiting for it; the others are told within seconds and can close. */
static void dying(stub *s)
{
    int rank = s->host.rank, size = s->host.size;
    static unsigned char buffer[4][4000000];
    kith_be_slot slots[4];
    kith_be_msg msgs[4];
    size_t nbytes = 0;
    if (rank == 1) {
        for (int r = 0; r < size; r++)
            if (r != 1)
                stub_send_start(s->world, buffer[0], 10, r, 1, &slots[0], &msgs[0]);
        for (int r = 0; r < size; r++)
            if (r != 1) {
                stub_recv_start(s->world, buffer[1], 10, r, 1, &slots[1], &msgs[1]);
                CHECK_EQUAL(stub_wait(s->world, &slots[1], &nbytes), KITH_OK);
            }
        /* UCX watches only peers that its connection was set up with; before that, the library's store tells of
         * deaths */
        for (int64_t start = now_ms(); now_ms() - start < 300;)
            s->backend->progress(s->be);
        kill(getpid(), SIGKILL);
    }
    stub_recv_start(s->world, buffer[0], 10, 1, 1, &slots[0], &msgs[0]);
    CHECK_EQUAL(stub_wait(s->world, &slots[0], &nbytes), KITH_OK);
    stub_send_start(s->world, buffer[0], 10, 1, 1, &slots[0], &msgs[0]);
    CHECK_EQUAL(stub_wait(s->world, &slots[0], &nbytes), KITH_OK);
    int64_t start = now_ms();
    stub_recv_start(s->world, buffer[0], sizeof buffer[0], 1, 2, &slots[0], &msgs[0]);
    stub_send_start(s->world, buffer[1], sizeof buffer[1], 1, 3, &slots[1], &msgs[1]);
    stub_send_start(s->world, buffer[2], 100, 1, 4, &slots[2], &msgs[2]);
    CHECK_EQUAL(stub_wait(s->world, &slots[0], &nbytes), KITH_ERR_PEER_FAILED);
    CHECK_EQUAL(s->world->failed_peer, 1);
    CHECK_EQUAL(stub_wait(s->world, &slots[1], &nbytes), KITH_ERR_PEER_FAILED);
    kith_status status = stub_wait(s->world, &slots[2], &nbytes); /* small: may have gone before anybody knew */
    CHECK(status == KITH_OK || status == KITH_ERR_PEER_FAILED);
    CHECK(now_ms() - start < 15000);
    if (size > 2) { /* the survivors still reach each other */
        int other = rank == 0 ? 2 : 0;
        stub_send_start(s->world, buffer[0], 1000000, other, 5, &slots[0], &msgs[0]);
        stub_recv_start(s->world, buffer[1], 1000000, other, 5, &slots[1], &msgs[1]);
        CHECK_EQUAL(stub_wait(s->world, &slots[1], &nbytes), KITH_OK);
        CHECK_EQUAL(stub_wait(s->world, &slots[0], &nbytes), KITH_OK);
    }
    start = now_ms();
    stub_group_free(s->world);
    s->backend->close(s->be);
    CHECK(now_ms() - start < 5000);
    _exit(0);
}

static void test_dying(void **state)
{
    static const char *const tls[] = { "", "tcp", "posix" };
    (void)state;
    for (size_t i = 0; i < sizeof tls / sizeof *tls; i++) {
        stub_set("ucx_tls", tls[i]);
        assert_int_equal(stub_fork(backend, 3, dying, 1), 0);
    }
}

/* Rank 1 stops (not dead) in the middle of a large transfer: cancelling ends in bounded time, and the buffers are
 * left alone. */
static void stopped(stub *s)
{
    static unsigned char buffer[64 << 20];
    kith_be_slot slot;
    kith_be_msg msg;
    if (s->host.rank == 1) {
        stub_recv_start(s->world, buffer, sizeof buffer, 0, 1, &slot, &msg);
        for (int i = 0; i < 3; i++)
            s->backend->progress(s->be);
        raise(SIGSTOP); /* the parent lets it go on later */
        _exit(0);
    }
    stub_send_start(s->world, buffer, sizeof buffer, 1, 1, &slot, &msg);
    for (int64_t start = now_ms(); now_ms() - start < 300;)
        s->backend->progress(s->be);
    int64_t start = now_ms();
    s->backend->msg_cancel(s->world->group, &slot);
    CHECK(now_ms() - start < 3000);
    memset(buffer, 0xBB, sizeof buffer);
    stub_group_free(s->world);
    s->backend->close(s->be);
    CHECK(now_ms() - start < 6000);
    _exit(0);
}

static void test_stopped(void **state)
{
    static const char *const tls[] = { "tcp", "" };
    (void)state;
    for (size_t i = 0; i < sizeof tls / sizeof *tls; i++) {
        stub_set("ucx_tls", tls[i]);
        assert_int_equal(stub_fork(backend, 2, stopped, 1), 0);
    }
}

static void bad_setting(void **state)
{
    kith_be_host host;
    void *be = NULL;
    (void)state;
    stub_set("ucx_eager", "many");
    stub_host(&host);
    assert_int_equal(backend->open(&host, &be), KITH_ERR_INVALID_ARG);
    assert_non_null(strstr(stub_error(), "ucx_eager=many"));
    stub_set("ucx_eager", "32768");
    stub_set("ucx_tls", "no_such_transport");
    assert_int_not_equal(backend->open(&host, &be), KITH_OK);
    stub_set("ucx_tls", "");
}

int main(void)
{
    char reason[512] = "";
    struct CMUnitTest tests[32];
    size_t count = 0;
    cmocka_set_test_filter(getenv("KITH_TEST_FILTER"));
    backend = stub_load("libkith_ucx.so");
    if (backend == NULL || backend->available(reason, sizeof reason) != KITH_OK) {
        printf("skipped: ucx: %s\n", backend == NULL ? "the module is not there" : reason);
        return 77;
    }
    for (const stub_scenario *scenario = stub_message_scenarios; scenario->fn != NULL; scenario++)
        tests[count++] = (struct CMUnitTest){ scenario->name, run_scenario, NULL, NULL, (void *)(uintptr_t)scenario };
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(test_all_large);
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(test_numbers);
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(test_dying);
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(test_stopped);
    tests[count++] = (struct CMUnitTest)cmocka_unit_test(bad_setting);
    return _cmocka_run_group_tests("ucx", tests, count, NULL, NULL);
}
