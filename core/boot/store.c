/* core/boot/store.c - the store's public functions: checks, dispatch to the kind, texts, event queue.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "store.h"
#include "../base/clock.h"
#include "../base/error.h"
#include "../base/log.h"
#include "../base/mem.h"
#include "store_kind.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_EVENTS = 16, NAMED_RANKS = 16 };

kith_status ki_store_open(const ki_store_options *options, ki_store **store)
{
    static const struct {
        const char *scheme;
        kith_status (*open)(const ki_store_options *options, const char *rest, ki_store **store);
    } kinds[] = { { "tcp://", ki_store_tcp_open },
                  { "file://", ki_store_file_open },
                  { "inproc://", ki_store_inproc_open } };

    if (options->size <= 0 || options->rank < 0 || options->rank >= options->size)
        return ki_fail(KITH_ERR_INVALID_ARG, "store: rank %d of %d", options->rank, options->size);
    if (strlen(options->url) >= KI_STORE_URL_NBYTES - 64)
        return ki_fail(KITH_ERR_INVALID_ARG, "store: the URL has %zu bytes, at most %d are allowed",
                       strlen(options->url), KI_STORE_URL_NBYTES - 65);
    if (!*options->url)
        return ki_store_tcp_open(options, "", store);
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        size_t n = strlen(kinds[i].scheme);
        if (strncmp(options->url, kinds[i].scheme, n) == 0)
            return kinds[i].open(options, options->url + n, store);
    }
    return ki_fail(KITH_ERR_INVALID_ARG, "store \"%s\": valid are tcp://host:port, file:///path and inproc://name",
                   options->url);
}

const char *ki_store_url(const ki_store *store)
{
    return store->url;
}

static kith_status check_key(const char *key, size_t nbytes)
{
    size_t n = strlen(key);
    if (n == 0 || n >= KI_STORE_KEY_NBYTES)
        return ki_fail(KITH_ERR_INVALID_ARG, "store: a key of %zu bytes, valid are 1 to %d", n,
                       KI_STORE_KEY_NBYTES - 1);
    if (nbytes > KI_STORE_VALUE_NBYTES)
        return ki_fail(KITH_ERR_INVALID_ARG, "store: a value of %zu bytes for \"%s\", at most %zu are allowed", nbytes,
                       key, KI_STORE_VALUE_NBYTES);
    return KITH_OK;
}

kith_status ki_store_set(ki_store *store, const char *key, const void *value, size_t nbytes)
{
    return ki_store_set_until(store, key, value, nbytes, ki_deadline_after_ms(store->timeout_ms));
}

kith_status ki_store_set_until(ki_store *store, const char *key, const void *value, size_t nbytes, int64_t deadline_ns)
{
    kith_status s = check_key(key, nbytes);
    store->requests++;
    if (s == KITH_OK)
        s = store->ops->set(store, key, value, nbytes, deadline_ns);
    return s == KITH_ERR_TIMEOUT
               ? ki_fail_quiet(s, "store %s: setting \"%s\" was not answered in time", store->url, key)
               : s;
}

kith_status ki_store_get(ki_store *store, const char *key, int64_t deadline_ns, void **value, size_t *nbytes)
{
    kith_status s = check_key(key, 0);
    store->requests++;
    if (s == KITH_OK)
        s = store->ops->get(store, key, deadline_ns, value, nbytes);
    if (s == KITH_ERR_TIMEOUT)
        return ki_fail_quiet(s, "store: no rank has set \"%s\"", key);
    return s;
}

/* "1, 2, 5 and 300 more". Participant numbers become world ranks where these are known. */
static void name_missing(const ki_gather_args *args, char *text, size_t nbytes)
{
    size_t used = 0;
    int named = 0, total = 0;
    text[0] = '\0';
    for (int i = 0; i < args->count; i++) {
        if (!args->is_missing[i])
            continue;
        total++;
        if (named == NAMED_RANKS || used + 16 >= nbytes)
            continue;
        int rank = args->world_ranks ? args->world_ranks[i] : i;
        used += (size_t)snprintf(text + used, nbytes - used, "%s%d", named ? ", " : "", rank);
        named++;
    }
    if (total > named)
        snprintf(text + used, nbytes - used, " and %d more", total - named);
}

static kith_status gather_failed(kith_status s, const ki_gather_args *args)
{
    char text[256];
    if (s == KITH_ERR_TIMEOUT) {
        name_missing(args, text, sizeof text);
        return ki_fail_quiet(s, "store: \"%s\" is incomplete, missing %s %s", args->key,
                             args->world_ranks ? "ranks" : "participants", text);
    }
    if (s == KITH_ERR_PEER_FAILED && args->dead_rank >= 0)
        return ki_fail_quiet(s, "store: \"%s\" cannot complete, rank %d has died or left", args->key, args->dead_rank);
    return s;
}

kith_status ki_store_gather(ki_store *store, const char *key, int index, int count, const int *world_ranks,
                            const void *in, size_t nbytes, void *out, int64_t deadline_ns, unsigned char *is_missing)
{
    size_t total;
    kith_status s = check_key(key, 0);
    if (s != KITH_OK)
        return s;
    if (count <= 0 || count > KI_STORE_GATHER_RANKS || index < 0 || index >= count)
        return ki_fail(KITH_ERR_INVALID_ARG, "store: participant %d of %d in \"%s\"", index, count, key);
    if (!ki_mul((size_t)count, nbytes, &total) || total > KI_STORE_VALUE_NBYTES)
        return ki_fail(KITH_ERR_INVALID_ARG, "store: \"%s\" gathers %d times %zu bytes, at most %zu in all are allowed",
                       key, count, nbytes, KI_STORE_VALUE_NBYTES);
    unsigned char *mask = is_missing ? is_missing : ki_calloc(NULL, (size_t)count, 1);
    if (!mask)
        return KITH_ERR_NO_MEMORY;
    memset(mask, 0, (size_t)count);
    ki_gather_args args = { key, index, count, world_ranks, in, nbytes, out, mask, -1 };
    store->requests++;
    s = gather_failed(store->ops->gather(store, &args, deadline_ns), &args);
    if (mask != is_missing)
        ki_free(NULL, mask);
    return s;
}

uint64_t ki_store_requests(const ki_store *store)
{
    return store->requests;
}

bool ki_store_poll_event(ki_store *store, ki_event *event)
{
    if (store->event_count == 0)
        store->ops->poll(store);
    if (store->event_count == 0)
        return false;
    *event = store->events[store->event_first];
    store->event_first = (store->event_first + 1) % store->event_capacity;
    store->event_count--;
    return true;
}

void ki_store_announce(ki_store *store, ki_event_kind kind, uint64_t value)
{
    store->ops->announce(store, kind, value);
}

void ki_store_close(ki_store *store, bool is_orderly, int64_t deadline_ns)
{
    if (store)
        store->ops->close(store, is_orderly, deadline_ns);
}

/* ---- shared by the kinds ---- */

void ki_store_init(ki_store *store, const ki_store_ops *ops, const ki_store_options *options, const char *url)
{
    store->ops = ops;
    store->rank = options->rank;
    store->size = options->size;
    store->timeout_ms = options->timeout_ms;
    snprintf(store->url, sizeof store->url, "%s", url);
}

void ki_store_free(ki_store *store)
{
    ki_free(NULL, store->events);
    ki_free(NULL, store);
}

static bool grow_events(ki_store *store)
{
    size_t capacity = store->event_capacity ? 2 * store->event_capacity : FIRST_EVENTS;
    ki_event *events = ki_calloc(NULL, capacity, sizeof *events);
    if (!events)
        return false;
    for (size_t i = 0; i < store->event_count; i++)
        events[i] = store->events[(store->event_first + i) % store->event_capacity];
    ki_free(NULL, store->events);
    store->events = events;
    store->event_first = 0;
    store->event_capacity = capacity;
    return true;
}

void ki_store_push_event(ki_store *store, ki_event event)
{
    if (store->event_count == store->event_capacity && !grow_events(store)) {
        ki_log(KITH_LOG_ERROR, "store: an event of rank %d is lost, no memory", event.rank);
        return;
    }
    store->events[(store->event_first + store->event_count) % store->event_capacity] = event;
    store->event_count++;
}
