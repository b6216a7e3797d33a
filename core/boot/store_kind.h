/* core/boot/store_kind.h - what a kind of store implements, and the parts that all kinds share.
 *
 * A kind allocates its own struct, which begins with struct ki_store, and fills `ops`. store.c checks the arguments
 * once, so the functions here get valid ones. Events are queued in the handle by whatever function happens to notice
 * them.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_BOOT_STORE_KIND_H
#define KI_BOOT_STORE_KIND_H

#include "store.h"

enum {
    KI_STORE_URL_NBYTES = 640,
    KI_STORE_KEY_NBYTES = 256,      /* longest key, with its NUL */
    KI_STORE_GATHER_RANKS = 1 << 20 /* most participants of a gather */
};
#define KI_STORE_VALUE_NBYTES ((size_t)64 << 20) /* longest value, and longest result of a gather */

typedef struct ki_gather_args {
    const char *key;
    int index, count;
    const int *world_ranks; /* may be NULL */
    const void *in;
    size_t nbytes;
    void *out;
    unsigned char *is_missing; /* never NULL here: [count] */
    int dead_rank;             /* out, with KITH_ERR_PEER_FAILED: world rank */
} ki_gather_args;

/* Statuses without a detail text where store.c writes it: KITH_ERR_TIMEOUT, and KITH_ERR_PEER_FAILED of gather
 * with a dead_rank >= 0. All others come with one. */
typedef struct ki_store_ops {
    kith_status (*set)(ki_store *store, const char *key, const void *value, size_t nbytes, int64_t deadline_ns);
    kith_status (*get)(ki_store *store, const char *key, int64_t deadline_ns, void **value, size_t *nbytes);
    kith_status (*gather)(ki_store *store, ki_gather_args *args, int64_t deadline_ns);
    void (*poll)(ki_store *store); /* moves news into the event queue */
    void (*announce)(ki_store *store, ki_event_kind kind, uint64_t value);
    void (*close)(ki_store *store, bool is_orderly, int64_t deadline_ns);
} ki_store_ops;

struct ki_store {
    const ki_store_ops *ops;
    int rank, size;
    int64_t timeout_ms; /* of connecting; also for requests without a deadline of their own that need no other rank */
    char url[KI_STORE_URL_NBYTES];
    uint64_t requests; /* so far: each is a round trip */
    ki_event *events; /* ring */
    size_t event_first, event_count, event_capacity;
};

/* Fills the shared part. */
void ki_store_init(ki_store *store, const ki_store_ops *ops, const ki_store_options *options, const char *url);
/* Frees the queue and the handle. */
void ki_store_free(ki_store *store);
/* Best effort: an event that finds no memory is logged and lost. */
void ki_store_push_event(ki_store *store, ki_event event);

/* The kinds. rest: the URL after "scheme://". */
kith_status ki_store_tcp_open(const ki_store_options *options, const char *rest, ki_store **store);
kith_status ki_store_file_open(const ki_store_options *options, const char *rest, ki_store **store);
kith_status ki_store_inproc_open(const ki_store_options *options, const char *rest, ki_store **store);

#endif
