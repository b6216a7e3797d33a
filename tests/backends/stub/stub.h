/* tests/backends/stub/stub.h - a kith_be_host without the library: tries one backend module by itself.
 *
 * Ranks are processes that share a mapped file: exchange() and barriers go through it. They are forked here
 * (stub_fork), or started by mpirun, when the backend is an MPI (stub_join; the file's name comes from
 * KITH_STUB_FILE). A check that fails prints expression, wanted and got, and ends the rank with status 1.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef STUB_H
#define STUB_H

#include <kith/backend.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define STUB_RANKS 16
#define STUB_GROUPS 64

typedef struct stub stub;
typedef struct stub_group stub_group;

struct stub_group {
    stub *owner;
    kith_be_group_info info;
    int world_ranks[STUB_RANKS], node_of[STUB_RANKS];
    int index;       /* in the shared file */
    void *group;     /* the backend's */
    int failed_peer; /* from peer_failed(); -2: none */
};

struct stub {
    const kith_backend *backend;
    kith_be_host host;
    void *be;
    int node_of[STUB_RANKS];
    int group_count;
    stub_group *world;
    void *shared;
};

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            stub_failed(__FILE__, __LINE__, #condition);                                                               \
        }                                                                                                              \
    } while (0)

#define CHECK_EQUAL(got, wanted)                                                                                       \
    do {                                                                                                               \
        long long got_ = (long long)(got), wanted_ = (long long)(wanted);                                              \
        if (got_ != wanted_) {                                                                                         \
            fprintf(stderr, "wanted %lld, got %lld: ", wanted_, got_);                                                 \
            stub_failed(__FILE__, __LINE__, #got " == " #wanted);                                                      \
        }                                                                                                              \
    } while (0)

void stub_failed(const char *file, int line, const char *expression);

/* The module's table. path NULL: file of that name in the build folder's module folder. */
const kith_backend *stub_load(const char *file);

/* A setting for instances opened later ("ucx_tls"). */
void stub_set(const char *name, const char *value);

typedef void (*stub_fn)(stub *s);

/* Forks size ranks, each opens the backend, makes the world group, calls fn and closes. Returns 0 when all ended with
 * 0; a rank that is_expected_dead[r] may end anyhow. */
int stub_fork(const kith_backend *backend, int size, stub_fn fn, int dead_rank);

/* The services for a world of one rank, for open() alone. */
void stub_host(kith_be_host *host);

/* This process is rank of size: opens the backend and the world. */
stub *stub_join(const kith_backend *backend, int rank, int size);
void stub_leave(stub *s);

stub_group *stub_group_make(stub *s, const int *world_ranks, int size); /* NULL when this rank is not in it */
void stub_group_free(stub_group *group);

/* Among all ranks. */
void stub_barrier(stub *s);
const char *stub_error(void); /* text of the last fail() */
bool stub_was_error(void);

/* Blocking forms; the status of the operation. */
kith_status stub_wait(stub_group *group, kith_be_slot *slot, size_t *nbytes);
void stub_send_start(stub_group *group, const void *buffer, size_t nbytes, int peer, uint64_t tag, kith_be_slot *slot,
                     kith_be_msg *msg);
void stub_recv_start(stub_group *group, void *buffer, size_t nbytes, int peer, uint64_t tag, kith_be_slot *slot,
                     kith_be_msg *msg);

/* For backends that take device memory alone: the collectives of colls.c run on a copy that lies there. */
typedef struct stub_device {
    void *(*upload)(const void *host, size_t nbytes);          /* a copy in device memory */
    void (*download)(void *host, void *device, size_t nbytes); /* back, and frees it */
    void *stream; /* what the copies are in, so the backend must order itself behind it; NULL: they are done */
} stub_device;
extern stub_device stub_device_memory; /* upload NULL: host memory */
/* Called on each rank before it opens the backend, with its rank as the device, and after it closed it; may be NULL. */
extern void (*stub_device_begin)(int ordinal);
extern void (*stub_device_end)(void);

/* Deterministic numbers. */
uint64_t stub_random(uint64_t *state);

/* ---- messages.c: what every backend's messages must do ---- */

typedef struct stub_scenario {
    const char *name;
    stub_fn fn;
} stub_scenario;

extern const stub_scenario stub_message_scenarios[]; /* ends with fn NULL */

/* ---- colls.c: native collectives against a reference ---- */

/* Every operation that query() calls native, on exact data: blocking and not, in and out of place, several counts.
 * Returns how many were tried. */
int stub_colls(stub *s, bool is_brief); /* brief: sums of two dtypes */
/* Non-blocking ones, cancelled half way: buffers stay as they are. */
void stub_coll_cancel(stub *s);

#endif
