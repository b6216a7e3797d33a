/* core/boot/store_inproc.c - a store among threads of one process: a named hub with one mutex and one condition.
 *
 * Life of a hub: the first rank that opens a name makes it; every handle counts; the first close after all ranks have
 * come takes the name out of the registry (the job is over, a new job of that name gets a new hub), the last close
 * frees it. A name stands for one job: a rank that is there already, or another size, is refused. A rank that was there
 * and left begins a new job.
 *
 * Locks, in order: registry_lock, hub->lock. News for a rank is appended to its mailbox and moved to the handle's queue
 * by its own thread, because the queue belongs to the handle.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "../base/clock.h"
#include "../base/error.h"
#include "../base/mem.h"
#include "store_kind.h"
#include "table.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct hub {
    struct hub *next;
    bool is_listed; /* in the registry; registry_lock */
    int use_count;  /* registry_lock */
    int size;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    ki_table *table;
    ki_event *log; /* all events of the job, in order; each handle reads on from where it is */
    size_t log_capacity;
    atomic_size_t log_count; /* written under lock; read without, to see cheaply that there is no news */
    char name[];
} hub;

typedef struct inproc_store {
    ki_store base;
    hub *hub;
    size_t seen; /* events of hub->log */
} inproc_store;

static pthread_mutex_t registry_lock = PTHREAD_MUTEX_INITIALIZER;
static hub *registry;

/* ---- hubs ---- */

static void init_condition(pthread_cond_t *condition)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(condition, &attributes);
    pthread_condattr_destroy(&attributes);
}

static hub *create_hub(const char *name, int size)
{
    size_t name_nbytes = strlen(name) + 1;
    hub *h = ki_calloc(NULL, 1, sizeof *h + name_nbytes);
    if (!h)
        return NULL;
    h->table = ki_table_create(size);
    if (!h->table) {
        ki_free(NULL, h);
        return NULL;
    }
    memcpy(h->name, name, name_nbytes);
    h->size = size;
    pthread_mutex_init(&h->lock, NULL);
    init_condition(&h->changed);
    h->is_listed = true;
    h->next = registry;
    registry = h;
    return h;
}

/* registry_lock held. */
static void unlist(hub *h)
{
    if (!h->is_listed)
        return;
    hub **link = &registry;
    while (*link != h)
        link = &(*link)->next;
    *link = h->next;
    h->is_listed = false;
}

static void destroy_hub(hub *h)
{
    ki_table_destroy(h->table);
    ki_free(NULL, h->log);
    pthread_cond_destroy(&h->changed);
    pthread_mutex_destroy(&h->lock);
    ki_free(NULL, h);
}

static bool has_left(hub *h, int rank)
{
    pthread_mutex_lock(&h->lock);
    ki_rank_state state = ki_table_rank_state(h->table, rank);
    pthread_mutex_unlock(&h->lock);
    return state == KI_RANK_LEFT || state == KI_RANK_DIED;
}

/* registry_lock held. */
static kith_status find_hub(const ki_store_options *options, const char *name, hub **out)
{
    hub *h = registry;
    while (h && strcmp(h->name, name) != 0)
        h = h->next;
    if (h && h->size == options->size && has_left(h, options->rank)) {
        unlist(h);
        h = NULL;
    }
    if (!h)
        h = create_hub(name, options->size);
    if (!h)
        return KITH_ERR_NO_MEMORY;
    if (h->size != options->size)
        return ki_fail(KITH_ERR_MISMATCH, "store inproc://%s: rank %d says the job has %d ranks, others say %d", name,
                       options->rank, options->size, h->size);
    pthread_mutex_lock(&h->lock);
    bool is_taken = ki_table_rank_state(h->table, options->rank) != KI_RANK_ABSENT;
    if (!is_taken)
        ki_table_set_rank_state(h->table, options->rank, KI_RANK_JOINED);
    pthread_mutex_unlock(&h->lock);
    if (is_taken)
        return ki_fail(KITH_ERR_INVALID_ARG,
                       "store inproc://%s: rank %d of %d is there already (two threads with one rank?)", name,
                       options->rank, options->size);
    *out = h;
    return KITH_OK;
}

/* ---- waiting, events ---- */

/* Lock held. False: the deadline passed. */
static bool wait_for_change(hub *h, int64_t deadline_ns)
{
    if (deadline_ns == 0) {
        pthread_cond_wait(&h->changed, &h->lock);
        return true;
    }
    struct timespec t = { (time_t)(deadline_ns / 1000000000), (long)(deadline_ns % 1000000000) };
    return !ki_deadline_passed(deadline_ns) && pthread_cond_timedwait(&h->changed, &h->lock, &t) == 0;
}

/* Lock held. An event that finds no memory is lost; the states in the table are not. */
static void publish(hub *h, ki_event event)
{
    size_t count = atomic_load_explicit(&h->log_count, memory_order_relaxed);
    if (count == h->log_capacity) {
        size_t capacity = count ? 2 * count : 16;
        ki_event *log = ki_calloc(NULL, capacity, sizeof *log);
        if (!log)
            return;
        if (count)
            memcpy(log, h->log, count * sizeof *log);
        ki_free(NULL, h->log);
        h->log = log;
        h->log_capacity = capacity;
    }
    h->log[count] = event;
    atomic_store_explicit(&h->log_count, count + 1, memory_order_release);
}

static void inproc_poll(ki_store *store)
{
    inproc_store *s = (inproc_store *)store;
    hub *h = s->hub;
    if (atomic_load_explicit(&h->log_count, memory_order_acquire) == s->seen)
        return;
    pthread_mutex_lock(&h->lock);
    for (; s->seen < atomic_load_explicit(&h->log_count, memory_order_relaxed); s->seen++) {
        if (h->log[s->seen].rank != store->rank)
            ki_store_push_event(store, h->log[s->seen]);
    }
    pthread_mutex_unlock(&h->lock);
}

static void inproc_announce(ki_store *store, ki_event_kind kind, uint64_t value)
{
    hub *h = ((inproc_store *)store)->hub;
    pthread_mutex_lock(&h->lock);
    publish(h, (ki_event){ kind, store->rank, value });
    pthread_cond_broadcast(&h->changed);
    pthread_mutex_unlock(&h->lock);
}

/* ---- keys and gathers ---- */

static kith_status inproc_set(ki_store *store, const char *key, const void *value, size_t nbytes, int64_t deadline_ns)
{
    hub *h = ((inproc_store *)store)->hub;
    (void)deadline_ns; /* nobody has to answer */
    pthread_mutex_lock(&h->lock);
    kith_status s = ki_table_set(h->table, key, value, nbytes);
    pthread_cond_broadcast(&h->changed);
    pthread_mutex_unlock(&h->lock);
    return s;
}

static kith_status inproc_get(ki_store *store, const char *key, int64_t deadline_ns, void **value, size_t *nbytes)
{
    hub *h = ((inproc_store *)store)->hub;
    kith_status s = KITH_ERR_TIMEOUT;
    pthread_mutex_lock(&h->lock);
    const ki_blob *blob;
    do
        blob = ki_table_get(h->table, key);
    while (!blob && wait_for_change(h, deadline_ns));
    if (!blob)
        blob = ki_table_get(h->table, key);
    if (blob) {
        void *copy = malloc(blob->nbytes ? blob->nbytes : 1);
        s = copy ? KITH_OK : ki_fail(KITH_ERR_NO_MEMORY, "allocating %zu bytes failed", blob->nbytes);
        if (copy) {
            if (blob->nbytes)
                memcpy(copy, blob->data, blob->nbytes);
            *value = copy;
            *nbytes = blob->nbytes;
        }
    }
    pthread_mutex_unlock(&h->lock);
    return s;
}

static kith_status inproc_gather(ki_store *store, ki_gather_args *args, int64_t deadline_ns)
{
    hub *h = ((inproc_store *)store)->hub;
    ki_gather *g = NULL;
    pthread_mutex_lock(&h->lock);
    kith_status s = ki_table_contribute(h->table, args->key, args->index, args->count, args->world_ranks, args->in,
                                        args->nbytes, &g);
    if (s == KITH_OK) {
        pthread_cond_broadcast(&h->changed);
        while (!ki_gather_is_complete(g) && g->dead_rank < 0 && wait_for_change(h, deadline_ns)) {
        }
        if (ki_gather_is_complete(g)) {
            if (g->result->nbytes)
                memcpy(args->out, g->result->data, g->result->nbytes);
            if (++g->taken_count == g->count)
                ki_table_forget(h->table, g);
        } else {
            s = g->dead_rank >= 0 ? KITH_ERR_PEER_FAILED : KITH_ERR_TIMEOUT;
            args->dead_rank = g->dead_rank;
            ki_gather_missing(g, args->is_missing);
            g->taken_count++; /* it will not come back for the result */
        }
    }
    pthread_mutex_unlock(&h->lock);
    return s;
}

/* ---- open, close ---- */

static void release_hub(hub *h, bool have_all_come)
{
    pthread_mutex_lock(&registry_lock);
    bool is_last = --h->use_count == 0;
    if (have_all_come || is_last)
        unlist(h);
    pthread_mutex_unlock(&registry_lock);
    if (is_last)
        destroy_hub(h);
}

/* Nobody serves anybody here: leaving needs no waiting. */
static void inproc_close(ki_store *store, bool is_orderly, int64_t deadline_ns)
{
    (void)deadline_ns;
    hub *h = ((inproc_store *)store)->hub;
    pthread_mutex_lock(&h->lock);
    ki_table_set_rank_state(h->table, store->rank, is_orderly ? KI_RANK_LEFT : KI_RANK_DIED);
    if (!is_orderly)
        publish(h, (ki_event){ KI_EVENT_RANK_DIED, store->rank, 0 });
    bool have_all_come = ki_table_ever_joined_count(h->table) == h->size;
    pthread_cond_broadcast(&h->changed);
    pthread_mutex_unlock(&h->lock);
    release_hub(h, have_all_come);
    ki_store_free(store);
}

static const ki_store_ops inproc_ops = { inproc_set,  inproc_get,      inproc_gather,
                                         inproc_poll, inproc_announce, inproc_close };

kith_status ki_store_inproc_open(const ki_store_options *options, const char *rest, ki_store **store)
{
    if (!*rest)
        return ki_fail(KITH_ERR_INVALID_ARG, "store \"%s\": the name is missing; valid: inproc://name", options->url);
    inproc_store *s = ki_calloc(NULL, 1, sizeof *s);
    if (!s)
        return KITH_ERR_NO_MEMORY;
    ki_store_init(&s->base, &inproc_ops, options, options->url);
    pthread_mutex_lock(&registry_lock);
    kith_status status = find_hub(options, rest, &s->hub);
    if (status == KITH_OK)
        s->hub->use_count++;
    pthread_mutex_unlock(&registry_lock);
    if (status != KITH_OK) {
        ki_store_free(&s->base);
        return status;
    }
    *store = &s->base;
    return KITH_OK;
}
