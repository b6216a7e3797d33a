/* tests/backends/shm/harness.h - N ranks with one group each on the shared-memory backend, without the core.
 *
 * harness_run() starts the ranks as processes (fork) or threads, gives each a host table whose exchange goes through
 * shared memory, opens the backend, creates the group, calls the body on every rank, and takes everything down. Each
 * run has a deadline: ranks that are still there then are killed and the run fails.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef TEST_SHM_HARNESS_H
#define TEST_SHM_HARNESS_H

#include "backends/shm/shm.h"
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define HARNESS_RANKS 16
#define HARNESS_FIRST_MINUS 50 /* an op of the harness: left - right */
#define HARNESS_EXCHANGE_NBYTES 1024

typedef struct harness_shared harness_shared;

typedef struct harness_setting {
    const char *name, *value; /* "shm_cma", "off" */
} harness_setting;

typedef struct harness_options {
    int size;
    bool is_threads;
    const harness_setting *settings; /* ends with name NULL; may be NULL */
    int timeout_s;                   /* 0: 60 */
    bool may_fail_create;            /* the body is called with group NULL and status */
    int killed_rank;                 /* 1 + rank that may die by signal; 0: none; -1: all */
} harness_options;

typedef struct harness_rank {
    int rank, size;
    const harness_options *options;
    harness_shared *shared;
    kith_be_host host;
    const kith_backend *backend;
    void *be, *group;
    kith_status status; /* of group_create */
    int failed_peer;    /* told by peer_failed, -1: none */
    char detail[512];   /* of the last failure */
    void *notes;        /* 64 KiB of memory shared by all ranks */
    void *user;         /* harness_run's argument */
} harness_rank;

typedef void (*harness_body)(harness_rank *me);

/* 0 when all ranks came through and none called harness_fail(). */
int harness_run(const harness_options *options, harness_body body, void *user);

/* Notes a failure with expression, wanted and got; the rank goes on. */
void harness_fail(harness_rank *me, const char *format, ...) __attribute__((format(printf, 2, 3)));
int harness_failures(const harness_rank *me);

#define HARNESS_CHECK(me, condition)                                                                                   \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            harness_fail(me, "%s:%d: %s", __FILE__, __LINE__, #condition);                                             \
    } while (0)

void harness_barrier(harness_rank *me); /* of the harness, not of the backend */
int64_t harness_now_ns(void);

/* Blocking forms over the backend's table. The timeouts are the harness's own: 30 s. */
kith_status harness_coll(harness_rank *me, kith_be_coll *coll);
kith_status harness_wait_msg(harness_rank *me, kith_be_slot *slot, size_t *nbytes);

/* A reducer for f32 or uint8 and sum or HARNESS_FIRST_MINUS, combining in the order of kith/coll.h. */
void harness_reducer(kith_be_reducer *reducer, kith_dtype dtype, int op);

#endif
