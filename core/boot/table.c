/* core/boot/table.c - the content of a store (see table.h): two chained hash tables and an array of rank states.
 *
 * A gather lives from its first contribution until ki_table_forget(). One that failed stays, so that participants who
 * come late learn it too; that is at most a few per job, as a job does not go on long after a death.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "table.h"
#include "../base/error.h"
#include "../base/mem.h"
#include <string.h>

enum { BUCKETS = 512 };

typedef struct entry {
    struct entry *next;
    ki_blob *value;
    char key[];
} entry;

struct ki_table {
    int size, joined_count, ever_joined_count;
    unsigned char *states; /* [size] of ki_rank_state */
    entry *entries[BUCKETS];
    ki_gather *gathers[BUCKETS];
};

ki_blob *ki_blob_create(const void *data, size_t nbytes)
{
    size_t total;
    if (!ki_add(sizeof(ki_blob), nbytes, &total))
        return NULL;
    ki_blob *blob = ki_calloc(NULL, 1, total);
    if (!blob)
        return NULL;
    blob->use_count = 1;
    blob->nbytes = nbytes;
    if (data && nbytes)
        memcpy(blob->data, data, nbytes);
    return blob;
}

ki_blob *ki_blob_ref(ki_blob *blob)
{
    blob->use_count++;
    return blob;
}

void ki_blob_unref(ki_blob *blob)
{
    if (blob && --blob->use_count == 0)
        ki_free(NULL, blob);
}

static size_t bucket_of(const char *key)
{
    return (size_t)(ki_hash(KI_HASH_INIT, key, strlen(key)) % BUCKETS);
}

ki_table *ki_table_create(int size)
{
    ki_table *table = ki_calloc(NULL, 1, sizeof *table);
    if (!table)
        return NULL;
    table->size = size;
    table->states = ki_calloc(NULL, (size_t)size, 1);
    if (!table->states) {
        ki_free(NULL, table);
        return NULL;
    }
    return table;
}

static void free_gather(ki_gather *gather)
{
    ki_blob_unref(gather->result);
    ki_free(NULL, gather->world_ranks);
    ki_free(NULL, gather->arrived);
    ki_free(NULL, gather);
}

void ki_table_destroy(ki_table *table)
{
    if (!table)
        return;
    for (size_t i = 0; i < BUCKETS; i++) {
        for (entry *e = table->entries[i], *next; e; e = next) {
            next = e->next;
            ki_blob_unref(e->value);
            ki_free(NULL, e);
        }
        for (ki_gather *g = table->gathers[i], *next; g; g = next) {
            next = g->next;
            free_gather(g);
        }
    }
    ki_free(NULL, table->states);
    ki_free(NULL, table);
}

/* ---- keys ---- */

static entry *find_entry(const ki_table *table, const char *key)
{
    entry *e = table->entries[bucket_of(key)];
    while (e && strcmp(e->key, key) != 0)
        e = e->next;
    return e;
}

kith_status ki_table_set(ki_table *table, const char *key, const void *value, size_t nbytes)
{
    size_t key_nbytes = strlen(key) + 1;
    entry *e = find_entry(table, key);
    ki_blob *blob = ki_blob_create(value, nbytes);
    if (!blob)
        return KITH_ERR_NO_MEMORY;
    if (e) {
        ki_blob_unref(e->value);
        e->value = blob;
        return KITH_OK;
    }
    e = ki_calloc(NULL, 1, sizeof *e + key_nbytes);
    if (!e) {
        ki_blob_unref(blob);
        return KITH_ERR_NO_MEMORY;
    }
    memcpy(e->key, key, key_nbytes);
    e->value = blob;
    e->next = table->entries[bucket_of(key)];
    table->entries[bucket_of(key)] = e;
    return KITH_OK;
}

ki_blob *ki_table_get(const ki_table *table, const char *key)
{
    const entry *e = find_entry(table, key);
    return e ? e->value : NULL;
}

/* ---- gathers ---- */

static ki_gather *create_gather(ki_table *table, const char *key, int count, size_t nbytes)
{
    size_t key_nbytes = strlen(key) + 1, total;
    if (!ki_mul((size_t)count, nbytes, &total))
        return NULL;
    ki_gather *g = ki_calloc(NULL, 1, sizeof *g + key_nbytes);
    if (!g)
        return NULL;
    memcpy(g->key, key, key_nbytes);
    g->count = count;
    g->nbytes = nbytes;
    g->dead_rank = -1;
    g->arrived = ki_calloc(NULL, (size_t)count, 1);
    g->result = ki_blob_create(NULL, total);
    if (!g->arrived || !g->result) {
        free_gather(g);
        return NULL;
    }
    g->next = table->gathers[bucket_of(key)];
    table->gathers[bucket_of(key)] = g;
    return g;
}

static bool is_gone(const ki_table *table, int rank)
{
    return rank >= 0 && rank < table->size &&
           (table->states[rank] == KI_RANK_LEFT || table->states[rank] == KI_RANK_DIED);
}

static void look_for_dead(const ki_table *table, ki_gather *g)
{
    for (int i = 0; i < g->count && g->world_ranks && g->dead_rank < 0; i++) {
        if (!g->arrived[i] && is_gone(table, g->world_ranks[i]))
            g->dead_rank = g->world_ranks[i];
    }
}

static kith_status learn_world_ranks(ki_gather *g, const int *world_ranks)
{
    if (g->world_ranks || !world_ranks)
        return KITH_OK;
    g->world_ranks = ki_calloc(NULL, (size_t)g->count, sizeof *g->world_ranks);
    if (!g->world_ranks)
        return KITH_ERR_NO_MEMORY;
    memcpy(g->world_ranks, world_ranks, (size_t)g->count * sizeof *g->world_ranks);
    return KITH_OK;
}

kith_status ki_table_contribute(ki_table *table, const char *key, int index, int count, const int *world_ranks,
                                const void *in, size_t nbytes, ki_gather **gather)
{
    ki_gather *g = table->gathers[bucket_of(key)];
    while (g && strcmp(g->key, key) != 0)
        g = g->next;
    if (!g)
        g = create_gather(table, key, count, nbytes);
    if (!g)
        return KITH_ERR_NO_MEMORY;
    if (g->count != count || g->nbytes != nbytes)
        return ki_fail_quiet(KITH_ERR_MISMATCH,
                             "store: \"%s\": participant %d gathers %d times %zu bytes, the first one %d times %zu",
                             key, index, count, nbytes, g->count, g->nbytes);
    if (g->arrived[index])
        return ki_fail_quiet(KITH_ERR_MISMATCH, "store: \"%s\": participant %d of %d came twice", key, index, count);
    kith_status s = learn_world_ranks(g, world_ranks);
    if (s != KITH_OK)
        return s;
    if (nbytes)
        memcpy(g->result->data + (size_t)index * nbytes, in, nbytes);
    g->arrived[index] = 1;
    g->arrived_count++;
    look_for_dead(table, g);
    *gather = g;
    return KITH_OK;
}

void ki_table_forget(ki_table *table, ki_gather *gather)
{
    ki_gather **link = &table->gathers[bucket_of(gather->key)];
    while (*link != gather)
        link = &(*link)->next;
    *link = gather->next;
    free_gather(gather);
}

void ki_gather_missing(const ki_gather *gather, unsigned char *is_missing)
{
    for (int i = 0; i < gather->count; i++)
        is_missing[i] = !gather->arrived[i];
}

/* ---- ranks ---- */

ki_rank_state ki_table_rank_state(const ki_table *table, int rank)
{
    return (ki_rank_state)table->states[rank];
}

void ki_table_set_rank_state(ki_table *table, int rank, ki_rank_state state)
{
    ki_rank_state before = (ki_rank_state)table->states[rank];
    if (before == state)
        return;
    table->joined_count += (state == KI_RANK_JOINED) - (before == KI_RANK_JOINED);
    table->ever_joined_count += before == KI_RANK_ABSENT;
    table->states[rank] = (unsigned char)state;
    if (!is_gone(table, rank))
        return;
    for (size_t i = 0; i < BUCKETS; i++) {
        for (ki_gather *g = table->gathers[i]; g; g = g->next)
            look_for_dead(table, g);
    }
}

int ki_table_joined_count(const ki_table *table)
{
    return table->joined_count;
}

int ki_table_ever_joined_count(const ki_table *table)
{
    return table->ever_joined_count;
}
