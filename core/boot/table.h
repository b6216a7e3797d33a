/* core/boot/table.h - the content of a store: keys, gathers in progress, and which ranks have come and gone.
 *
 * The TCP server has one, an in-process store has one under its mutex, and each handle of a file store has one that it
 * fills by replaying the file. No locks, no waiting here.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_BOOT_TABLE_H
#define KI_BOOT_TABLE_H

#include <kith/status.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes with a count of their users. Not thread-safe. */
typedef struct ki_blob {
    unsigned use_count;
    size_t nbytes;
    unsigned char data[];
} ki_blob;

ki_blob *ki_blob_create(const void *data, size_t nbytes); /* data NULL: zeros. NULL: no memory */
ki_blob *ki_blob_ref(ki_blob *blob);
void ki_blob_unref(ki_blob *blob); /* NULL is fine */

typedef struct ki_gather {
    struct ki_gather *next;
    int count, arrived_count;
    int taken_count;        /* for users that count who has the result */
    int dead_rank;          /* world rank of one that died or left before its contribution; -1 */
    size_t nbytes;          /* of each contribution */
    int *world_ranks;       /* [count], or NULL while nobody told */
    unsigned char *arrived; /* [count] */
    ki_blob *result;        /* [count * nbytes] */
    char key[];
} ki_gather;

typedef enum ki_rank_state { KI_RANK_ABSENT, KI_RANK_JOINED, KI_RANK_LEFT, KI_RANK_DIED } ki_rank_state;

typedef struct ki_table ki_table;

ki_table *ki_table_create(int size);
void ki_table_destroy(ki_table *table);

kith_status ki_table_set(ki_table *table, const char *key, const void *value, size_t nbytes);
ki_blob *ki_table_get(const ki_table *table, const char *key); /* borrowed; NULL: not set */

/* Adds a contribution. KITH_ERR_MISMATCH (text stored, not logged) when count or nbytes differ from the first one's or
 * the participant has come already. *gather is set on KITH_OK: look at arrived_count == count and dead_rank >= 0. */
kith_status ki_table_contribute(ki_table *table, const char *key, int index, int count, const int *world_ranks,
                                const void *in, size_t nbytes, ki_gather **gather);
void ki_table_forget(ki_table *table, ki_gather *gather);

static inline bool ki_gather_is_complete(const ki_gather *gather)
{
    return gather->arrived_count == gather->count;
}

/* is_missing[i] = has not come, [count]. */
void ki_gather_missing(const ki_gather *gather, unsigned char *is_missing);

/* State of ranks, 0 <= rank < size. Leaving or dying marks the gathers that wait for the rank: dead_rank. */
ki_rank_state ki_table_rank_state(const ki_table *table, int rank);
void ki_table_set_rank_state(ki_table *table, int rank, ki_rank_state state);
int ki_table_joined_count(const ki_table *table); /* now members */
int ki_table_ever_joined_count(const ki_table *table);

#endif
