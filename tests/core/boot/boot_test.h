/* tests/core/boot/boot_test.h - what the tests of core/base and core/boot share: ranks as threads, temporary names,
 * captured log.
 *
 * Assertions of CMocka jump, so threads do not use them: they record a line number in their rank_run, and the main
 * thread asserts.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef BOOT_TEST_H
#define BOOT_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/base/clock.h"
#include "core/base/error.h"
#include "core/base/fault.h"
#include "core/base/log.h"
#include "core/boot/store.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define assert_has(text, part)                                                                                         \
    do {                                                                                                               \
        if (!strstr((text), (part)))                                                                                   \
            fail_msg("\"%s\" does not contain \"%s\"", (text), (part));                                                \
    } while (0)

#define assert_status(call, wanted)                                                                                    \
    do {                                                                                                               \
        kith_status got_ = (call);                                                                                     \
        if (got_ != (wanted))                                                                                          \
            fail_msg("%s: got %s (%s), wanted %s", #call, kith_status_name(got_), kith_error_detail(),                 \
                     kith_status_name(wanted));                                                                        \
    } while (0)

typedef struct rank_run {
    int rank, size;
    const char *url, *secret, *ifname;
    int64_t timeout_ms;
    void *shared;
    void (*body)(struct rank_run *run);
    ki_store *store;
    int failed_line; /* 0: fine */
    char detail[1024];
    pthread_t thread;
} rank_run;

/* In a rank's body. */
#define RANK_CHECK(condition)                                                                                          \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            if (!run->failed_line) {                                                                                   \
                run->failed_line = __LINE__;                                                                           \
                snprintf(run->detail, sizeof run->detail, "%s [%s]", #condition, kith_error_detail());                 \
            }                                                                                                          \
            return;                                                                                                    \
        }                                                                                                              \
    } while (0)

static inline kith_status open_rank(rank_run *run)
{
    ki_store_options options = { run->url, run->secret, run->ifname, run->rank, run->size, run->timeout_ms };
    return ki_store_open(&options, &run->store);
}

static void *rank_main(void *arg)
{
    rank_run *run = arg;
    if (open_rank(run) != KITH_OK) {
        run->failed_line = __LINE__;
        snprintf(run->detail, sizeof run->detail, "open: %s", kith_error_detail());
        return NULL;
    }
    if (ki_store_gather(run->store, "all are here", run->rank, run->size, NULL, NULL, 0, NULL,
                        ki_deadline_after_ms(20000), NULL) == KITH_OK)
        run->body(run);
    else
        run->failed_line = __LINE__;
    if (run->failed_line)
        fprintf(stderr, "rank %d, line %d: %s\n", run->rank, run->failed_line, run->detail);
    ki_store_close(run->store, true, ki_deadline_after_ms(20000));
    return NULL;
}

/* Runs body on `size` ranks, each with an open store, and asserts that none failed. */
static inline void run_ranks(const char *url, int size, void (*body)(rank_run *), void *shared)
{
    rank_run *runs = calloc((size_t)size, sizeof *runs);
    assert_non_null(runs);
    for (int i = 0; i < size; i++) {
        runs[i] =
            (rank_run){ .rank = i, .size = size, .url = url, .timeout_ms = 20000, .shared = shared, .body = body };
        assert_int_equal(pthread_create(&runs[i].thread, NULL, rank_main, &runs[i]), 0);
    }
    for (int i = 0; i < size; i++)
        pthread_join(runs[i].thread, NULL);
    for (int i = 0; i < size; i++) {
        if (runs[i].failed_line)
            fail_msg("rank %d of %d, line %d: %s", i, size, runs[i].failed_line, runs[i].detail);
    }
    free(runs);
}

/* A path in the temporary folder that no other test uses. */
static inline const char *temporary_path(const char *what)
{
    static _Thread_local char path[256];
    static atomic_int count;
    const char *folder = getenv("TMPDIR");
    snprintf(path, sizeof path, "%s/kith-test-%s-%ld-%d", folder && *folder ? folder : "/tmp", what, (long)getpid(),
             atomic_fetch_add(&count, 1));
    return path;
}

/* kinds: "tcp", "file", "inproc"; each call gives a store of its own. */
static inline void make_url(const char *kind, char *url, size_t nbytes)
{
    const char *path = temporary_path(kind);
    if (strcmp(kind, "tcp") == 0)
        snprintf(url, nbytes, "tcp://127.0.0.1:0?file=%s", path);
    else
        snprintf(url, nbytes, "%s://%s", kind, path);
}

/* ---- captured log ---- */

static char captured_log[65536];
static size_t captured_nbytes;

static inline void capture(void *arg, kith_log_level level, const char *line)
{
    (void)arg;
    int n =
        snprintf(captured_log + captured_nbytes, sizeof captured_log - captured_nbytes, "%d %s\n", (int)level, line);
    if (n > 0 && captured_nbytes + (size_t)n < sizeof captured_log)
        captured_nbytes += (size_t)n;
}

static inline void start_capture(kith_log_level level)
{
    captured_nbytes = 0;
    captured_log[0] = '\0';
    kith_log_set(capture, NULL, level);
}

static inline void stop_capture(void)
{
    kith_log_set(NULL, NULL, KITH_LOG_NONE);
}

#endif
