/* tests/core/boot/test_store_faults.c - every allocation, socket call and open of a small job fails once.
 *
 * Whatever fails: both ranks come back within their deadlines, with a status and a text, and a result that is called
 * good is good. Nothing leaks (the address sanitizer looks). Which call is the n-th varies with the threads' timing;
 * the walk covers them all.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "boot_test.h"

#include "core/base/config.h"

enum { SHORT_MS = 250, LONG_MS = 20000 };

static int64_t limit_ms; /* of each step of the job */

static int64_t soon(void)
{
    return ki_deadline_after_ms(limit_ms);
}

static kith_status use_store(rank_run *run)
{
    int mine = run->rank + 40, all[2] = { 0, 0 }, ranks[2] = { 0, 1 };
    unsigned char missing[2];
    void *value = NULL;
    size_t nbytes = 0;
    ki_event event;
    kith_status s = ki_store_gather(run->store, "g", run->rank, 2, ranks, &mine, sizeof mine, all, soon(), missing);
    if (s == KITH_OK && (all[0] != 40 || all[1] != 41))
        run->failed_line = __LINE__;
    if (s == KITH_OK && run->rank == 0)
        s = ki_store_set(run->store, "k", "v", 2);
    if (s == KITH_OK)
        s = ki_store_get(run->store, "k", soon(), &value, &nbytes);
    if (s == KITH_OK && (nbytes != 2 || strcmp(value, "v") != 0))
        run->failed_line = __LINE__;
    free(value);
    ki_store_announce(run->store, KI_EVENT_ABORT, 3);
    while (ki_store_poll_event(run->store, &event)) {
    }
    return s;
}

static void *fault_main(void *arg)
{
    rank_run *run = arg;
    ki_fault_set_rank(run->rank);
    kith_status s = open_rank(run);
    if (s == KITH_OK) {
        s = use_store(run);
        ki_store_close(run->store, true, soon());
    }
    if (s != KITH_OK && !kith_error_detail()[0])
        run->failed_line = __LINE__;
    *(kith_status *)run->shared = s;
    return NULL;
}

/* Runs the job with one fault; the number of ranks that failed. */
static int run_job(const char *kind, const char *fault, int64_t step_limit_ms)
{
    char url[512];
    rank_run runs[2];
    kith_status status[2] = { KITH_OK, KITH_OK };
    make_url(kind, url, sizeof url);
    limit_ms = step_limit_ms;
    setenv("KITH_FAULT", fault, 1);
    ki_fault_configure(-1);
    int64_t began = ki_now_ns();
    for (int i = 0; i < 2; i++) {
        runs[i] = (rank_run){ .rank = i, .size = 2, .url = url, .timeout_ms = limit_ms, .shared = &status[i] };
        assert_int_equal(pthread_create(&runs[i].thread, NULL, fault_main, &runs[i]), 0);
    }
    for (int i = 0; i < 2; i++)
        pthread_join(runs[i].thread, NULL);
    setenv("KITH_FAULT", "", 1);
    ki_fault_configure(-1);
    for (int i = 0; i < 2; i++) {
        if (runs[i].failed_line)
            fail_msg("%s, %s: rank %d, line %d, %s", kind, fault, i, runs[i].failed_line, kith_status_name(status[i]));
    }
    if (ki_now_ns() - began > INT64_C(30000000000))
        fail_msg("%s, %s: took %g s", kind, fault, (double)(ki_now_ns() - began) * 1e-9);
    return (status[0] != KITH_OK) + (status[1] != KITH_OK);
}

static void walk(const char *kind, const char *what, int last)
{
    char fault[32];
    int failures = 0;
    for (int n = 1; n <= last; n++) {
        for (int rank = 0; rank < 2; rank++) {
            snprintf(fault, sizeof fault, "%s:%d@%d", what, n, rank);
            failures += run_job(kind, fault, SHORT_MS);
        }
    }
    assert_true(failures > 0); /* the faults were there */
    assert_int_equal(run_job(kind, "", LONG_MS), 0);
}

static void test_inproc(void **state)
{
    (void)state;
    walk("inproc", "alloc", 14);
}

static void test_tcp_allocations(void **state)
{
    (void)state;
    walk("tcp", "alloc", 30);
}

static void test_tcp_sockets(void **state)
{
    (void)state;
    walk("tcp", "socket", 30);
}

static void test_tcp_port_file(void **state)
{
    (void)state;
    assert_int_equal(run_job("tcp", "open:1@0", SHORT_MS), 2); /* rank 0 cannot write it */
    assert_int_equal(run_job("tcp", "open:1@1", LONG_MS), 0);  /* a client tries again */
}

static void test_file(void **state)
{
    (void)state;
    walk("file", "alloc", 30);
    walk("file", "open", 3);
}

static void test_config(void **state)
{
    (void)state;
    char fault[32];
    static const kith_be_setting rows[] = { { "test_row", "1", "help", 0 },
                                            { "test_late", "x", "help", 0 },
                                            { NULL, NULL, NULL, 0 } };
    static const kith_backend backend = {
        .abi = KITH_BACKEND_ABI, .struct_size = sizeof backend, .name = "test", .settings = rows
    };
    const kith_setting settings[] = { { "algo", "ring" }, { "test_late", "y" }, { "other_name", "z" } };
    int failures = 0, n = 0;
    kith_status s = KITH_ERR_NO_MEMORY;
    while (s != KITH_OK) {
        ki_config *config = NULL;
        snprintf(fault, sizeof fault, "alloc:%d", ++n);
        setenv("KITH_FAULT", fault, 1);
        ki_fault_configure(0);
        s = ki_config_create(settings, 3, NULL, 0, &config);
        if (s == KITH_OK)
            s = ki_config_add_backend(config, &backend);
        if (s == KITH_OK)
            assert_string_equal(ki_config_get(config, "test_late"), "y");
        else
            assert_int_equal(s, KITH_ERR_NO_MEMORY);
        failures += s != KITH_OK;
        ki_config_destroy(config);
        assert_true(n < 1000);
    }
    setenv("KITH_FAULT", "", 1);
    ki_fault_configure(0);
    assert_true(failures > 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_config),      cmocka_unit_test(test_inproc),
        cmocka_unit_test(test_file),        cmocka_unit_test(test_tcp_allocations),
        cmocka_unit_test(test_tcp_sockets), cmocka_unit_test(test_tcp_port_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
