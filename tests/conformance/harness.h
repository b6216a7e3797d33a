/* tests/conformance/harness.h - starting ranks, giving them a deadline, hearing how they ended.
 *
 * A suite is a function that runs on every rank. Ranks are forked processes, threads of this process, or - under
 * mpirun and the like - this process is one of them already. A rank that dies or is late fails the test with a
 * sentence; everything else is killed then. Checks compare exactly and print where, wanted and got.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef CONFORMANCE_HARNESS_H
#define CONFORMANCE_HARNESS_H

#include <kith/kith.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

typedef enum launch_mode { LAUNCH_FORK, LAUNCH_THREADS, LAUNCH_ENVIRONMENT } launch_mode;

/* Memory that all ranks see, zeroed before each run: for suites that kill, count or meet outside of the library. */
typedef struct shared_board {
    atomic_int counters[64];
    atomic_int pids[64];
} shared_board;

typedef struct rank_info {
    int rank, size;
    kith_ctx *ctx; /* NULL when the suite joins by itself */
    kith_group *world;
    shared_board *board;
    const char *argument; /* of the suite, from the command line */
    bool is_thread;
} rank_info;

typedef void (*rank_function)(rank_info *info);

typedef struct run_options {
    launch_mode mode;
    int size;
    const char *backend; /* NULL: auto */
    const kith_setting *settings;
    size_t setting_count;
    int timeout_s;      /* of the whole run */
    bool joins_itself;  /* do not call kith_init() for the suite */
    bool may_die;       /* a rank killed by a signal is part of the test */
    int64_t timeout_ms; /* kith_init_options.timeout_ms */
    int hosts;          /* > 1: ranks pretend to be on so many hosts (KITH_HOSTID) */
} run_options;

/* Runs function on every rank. Returns the number of ranks that failed. */
int run_ranks(const run_options *options, rank_function function, const char *argument);

/* kith_init() as the harness does it, for suites that join themselves. */
kith_status join_ranks(const rank_info *info, const kith_init_options *changes, kith_ctx **ctx);

/* Ends this rank as failed: prints the text with rank, file and line. */
_Noreturn void rank_fail(const char *file, int line, const char *format, ...) __attribute__((format(printf, 3, 4)));

#define REQUIRE(condition)                                                                                             \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            rank_fail(__FILE__, __LINE__, "%s does not hold (last detail: %s)", #condition, kith_error_detail());      \
    } while (0)

#define REQUIRE_STATUS(call, wanted)                                                                                   \
    do {                                                                                                               \
        kith_status got_ = (call);                                                                                     \
        if (got_ != (wanted))                                                                                          \
            rank_fail(__FILE__, __LINE__, "%s: wanted %s, got %s: %s", #call, kith_status_name(wanted),                \
                      kith_status_name(got_), kith_error_detail());                                                    \
    } while (0)

#define REQUIRE_OK(call) REQUIRE_STATUS(call, KITH_OK)

/* Fails this rank when part is not in text. */
void require_text(const char *file, int line, const char *text, const char *part);

#define REQUIRE_TEXT(text, part) require_text(__FILE__, __LINE__, text, part)
#define REQUIRE_DETAIL(part) REQUIRE_TEXT(kith_error_detail(), part)

/* The suites. */
void suite_collectives(rank_info *info);
void suite_groups(rank_info *info);
void suite_messages(rank_info *info);
void suite_async(rank_info *info);
void suite_determinism(rank_info *info);
void suite_large(rank_info *info);

#endif
