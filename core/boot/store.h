/* core/boot/store.h - where ranks meet before they can talk: a small key-value store.
 *
 * Three kinds, one table: TCP (a thread of rank 0 serves), file, in-process. Values are bytes. A store handle is used
 * by one thread. The TCP store also tells which ranks died: every client keeps its connection open, and the server
 * announces those that vanish without a goodbye.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_BOOT_STORE_H
#define KI_BOOT_STORE_H

#include <kith/status.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct ki_store ki_store;

typedef struct ki_store_options {
    const char
        *url; /* tcp://, file:///, inproc:// as in kith/context.h; "" on rank 0: TCP, where others can reach it */
    const char *secret; /* NULL or "": none */
    const char *ifname; /* KITH_IFNAME; NULL or "": any */
    int rank, size;
    int64_t timeout_ms; /* of connecting */
} ki_store_options;

/* Rank 0 creates, the others connect, with retries and backoff until the deadline. */
kith_status ki_store_open(const ki_store_options *options, ki_store **store);

/* The URL that other ranks can use (with the port that was chosen). Borrowed. */
const char *ki_store_url(const ki_store *store);

/* Value becomes visible to all; replaces an older one. */
kith_status ki_store_set(ki_store *store, const char *key, const void *value, size_t nbytes);
/* The same, and waits until deadline_ns for the store to say that it has it; KITH_ERR_TIMEOUT: it has not said so, for
 * the rank that serves stands still. The value may become visible later. */
kith_status ki_store_set_until(ki_store *store, const char *key, const void *value, size_t nbytes, int64_t deadline_ns);

/* Waits for the key until deadline_ns (0: none). *value is malloc'ed: the caller frees. KITH_ERR_TIMEOUT names the key.
 * With deadline 1 (past) it does not wait. */
kith_status ki_store_get(ki_store *store, const char *key, int64_t deadline_ns, void **value, size_t *nbytes);

/* All-gather among `count` participants under one key: participant `index` gives nbytes, all get out[count * nbytes]
 * once all have come. Keys are used once. On KITH_ERR_TIMEOUT is_missing[i] (may be NULL) tells who did not come.
 * KITH_ERR_PEER_FAILED when a participant is known to have died: world_ranks[i] (may be NULL) gives their world ranks.
 */
kith_status ki_store_gather(ki_store *store, const char *key, int index, int count, const int *world_ranks,
                            const void *in, size_t nbytes, void *out, int64_t deadline_ns, unsigned char *is_missing);

/* Sets, gets and gathers of this handle so far. Each is one round trip of this rank, however many ranks take part. */
uint64_t ki_store_requests(const ki_store *store);

/* Events that others caused, polled without blocking (cheap enough for every few milliseconds of a wait). */
typedef enum ki_event_kind { KI_EVENT_RANK_DIED, KI_EVENT_ABORT, KI_EVENT_FAILURE } ki_event_kind;
typedef struct ki_event {
    ki_event_kind kind;
    int rank;       /* who died, who aborted, or where an operation failed (world rank) */
    uint64_t value; /* ABORT, FAILURE: group id */
} ki_event;
bool ki_store_poll_event(ki_store *store, ki_event *event);

/* Tells all others (best effort, does not block). */
void ki_store_announce(ki_store *store, ki_event_kind kind, uint64_t value);

/* Leaves with a goodbye. Rank 0 of a TCP store goes on serving until all clients left or the deadline passes;
 * is_orderly false: closes at once, so that the others see a death. NULL is fine. */
void ki_store_close(ki_store *store, bool is_orderly, int64_t deadline_ns);

#endif
