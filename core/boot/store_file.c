/* core/boot/store_file.c - a store in one file that all ranks can open.
 *
 * Every handle replays the records of the file (file_log.h) into a table of its own; nobody serves. A rank that waits
 * polls the file, ten thousand times a second at first and two hundred times later.
 *
 * Old files. A job that was killed leaves its file, and a rank of the next job may open it before rank 0 has put the
 * new one in place. So a rank believes nothing until it is confirmed: it writes JOIN with a random number, rank 0
 * acknowledges the number whenever it looks at the file (in every function of its handle). Until then the rank keeps
 * what it wrote, and when the path turns into another file it starts over there.
 *
 * Deaths: a rank that closes without order says so; one that was killed no longer holds the lock on its byte, which
 * whoever waits looks for several times a second.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "../base/clock.h"
#include "../base/error.h"
#include "../base/log.h"
#include "../base/mem.h"
#include "../base/sock.h"
#include "file_log.h"
#include "table.h"
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FIRST_PAUSE_NS = 100000, LAST_PAUSE_NS = 5000000, LIFE_CHECK_MS = 250 };

/* What was written before the confirmation. */
typedef struct kept {
    struct kept *next;
    ki_record record;
    ki_blob *value;
    char key[KI_STORE_KEY_NBYTES];
} kept;

typedef struct file_store {
    ki_store base;
    ki_file_log log;
    ki_table *table;
    uint64_t nonce;
    bool is_confirmed;
    kept *first_kept, **last_kept;
    int64_t next_life_check_ns;
    ki_gather *awaited; /* of the gather that is waited for: it stays when it is complete */
    char path[KI_STORE_URL_NBYTES];
} file_store;

/* ---- writing ---- */

static kith_status append(file_store *s, ki_record record, const char *key, const void *value, size_t nbytes,
                          const void *more, size_t more_nbytes)
{
    record.rank = s->base.rank;
    return ki_file_log_append(&s->log, &record, key, value, nbytes, more, more_nbytes,
                              ki_deadline_after_ms(s->base.timeout_ms));
}

/* Keeps a copy first while it may have to be written again. */
static kith_status write_record(file_store *s, ki_record record, const char *key, const void *value, size_t nbytes,
                                const void *more, size_t more_nbytes)
{
    if (s->is_confirmed)
        return append(s, record, key, value, nbytes, more, more_nbytes);
    kept *k = ki_calloc(NULL, 1, sizeof *k);
    if (!k)
        return KITH_ERR_NO_MEMORY;
    k->record = record;
    k->value = ki_blob_create(NULL, nbytes + more_nbytes);
    if (!k->value) {
        ki_free(NULL, k);
        return KITH_ERR_NO_MEMORY;
    }
    if (nbytes)
        memcpy(k->value->data, value, nbytes);
    if (more_nbytes)
        memcpy(k->value->data + nbytes, more, more_nbytes);
    snprintf(k->key, sizeof k->key, "%s", key);
    *s->last_kept = k;
    s->last_kept = &k->next;
    return append(s, record, key, value, nbytes, more, more_nbytes);
}

static void drop_kept(file_store *s)
{
    while (s->first_kept) {
        kept *k = s->first_kept;
        s->first_kept = k->next;
        ki_blob_unref(k->value);
        ki_free(NULL, k);
    }
    s->last_kept = &s->first_kept;
}

/* ---- replaying ---- */

static void rank_gone(file_store *s, int rank, ki_rank_state state)
{
    if (ki_table_rank_state(s->table, rank) == KI_RANK_DIED)
        return;
    ki_table_set_rank_state(s->table, rank, state);
    if (state == KI_RANK_DIED && rank != s->base.rank)
        ki_store_push_event(&s->base, (ki_event){ KI_EVENT_RANK_DIED, rank, 0 });
}

static void replay_gather(file_store *s, const ki_record *r, const char *key, const unsigned char *value)
{
    size_t total, nbytes = (size_t)r->arg;
    ki_gather *g;
    int *ranks = NULL;
    if (r->b <= 0 || r->b > KI_STORE_GATHER_RANKS || r->a < 0 || r->a >= r->b ||
        !ki_mul(nbytes, (size_t)r->b, &total) || total > KI_STORE_VALUE_NBYTES || r->value_nbytes < nbytes)
        return;
    size_t ranks_nbytes = (size_t)r->b * sizeof(int32_t);
    if (r->value_nbytes - nbytes == ranks_nbytes) {
        ranks = ki_calloc(NULL, 1, ranks_nbytes);
        if (ranks)
            memcpy(ranks, value + nbytes, ranks_nbytes);
    }
    kith_status status = ki_table_contribute(s->table, key, r->a, r->b, ranks, value, nbytes, &g);
    ki_free(NULL, ranks);
    if (status == KITH_OK && r->rank == s->base.rank)
        s->awaited = g;
    if (status == KITH_OK && ki_gather_is_complete(g) && g != s->awaited)
        ki_table_forget(s->table, g); /* between others */
}

static void acknowledge(file_store *s, const ki_record *r)
{
    ki_record ack = { .kind = KI_RECORD_ACK, .arg = r->arg };
    if (append(s, ack, "", NULL, 0, NULL, 0) != KITH_OK)
        ki_log(KITH_LOG_ERROR, "store file://%s: rank %d cannot be acknowledged", s->path, r->rank);
}

/* A rank that was here before has begun the next job and waits for that one's file: it is not acknowledged. */
static void replay_joined(file_store *s, const ki_record *r)
{
    if (ki_table_rank_state(s->table, r->rank) != KI_RANK_ABSENT)
        return;
    ki_table_set_rank_state(s->table, r->rank, KI_RANK_JOINED);
    if (s->base.rank == 0 && r->rank != 0)
        acknowledge(s, r);
}

static void replay(file_store *s, const ki_record *r, const unsigned char *key, const unsigned char *value)
{
    char key_text[KI_STORE_KEY_NBYTES];
    if (r->rank < 0 || r->rank >= s->base.size)
        return;
    memcpy(key_text, key, r->key_nbytes);
    key_text[r->key_nbytes] = '\0';
    switch ((ki_record_kind)r->kind) {
    case KI_RECORD_HEADER:
        break;
    case KI_RECORD_JOIN:
        replay_joined(s, r);
        break;
    case KI_RECORD_ACK:
        s->is_confirmed |= r->rank == 0 && r->arg == s->nonce;
        break;
    case KI_RECORD_SET:
        ki_table_set(s->table, key_text, value, (size_t)r->value_nbytes);
        break;
    case KI_RECORD_GATHER:
        replay_gather(s, r, key_text, value);
        break;
    case KI_RECORD_ABORT:
    case KI_RECORD_FAILURE:
        if (r->rank != s->base.rank) {
            ki_event_kind kind = r->kind == KI_RECORD_ABORT ? KI_EVENT_ABORT : KI_EVENT_FAILURE;
            ki_store_push_event(&s->base, (ki_event){ kind, r->rank, r->arg });
        }
        break;
    case KI_RECORD_LEFT:
        rank_gone(s, r->rank, KI_RANK_LEFT);
        break;
    case KI_RECORD_DIED:
        rank_gone(s, r->rank, KI_RANK_DIED);
        break;
    }
}

static kith_status attach(file_store *s);

/* An unconfirmed rank whose path became another file: everything again, there. */
static void start_over(file_store *s)
{
    ki_file_log next = { .fd = -1 };
    if (ki_file_log_open(&next, s->path) != KITH_OK)
        return; /* not there yet */
    ki_table *table = ki_table_create(s->base.size);
    if (!table) {
        ki_file_log_close(&next);
        return;
    }
    ki_table_destroy(s->table);
    ki_file_log_close(&s->log);
    s->table = table;
    s->log = next;
    s->awaited = NULL;
    s->base.event_count = 0;
    kith_status status = attach(s);
    for (kept *k = s->first_kept; k && status == KITH_OK; k = k->next)
        status = append(s, k->record, k->key, k->value->data, k->value->nbytes, NULL, 0);
}

static void refresh(file_store *s)
{
    ki_record record;
    const unsigned char *key, *value;
    if (!s->is_confirmed && ki_file_log_is_replaced(&s->log, s->path))
        start_over(s);
    while (ki_file_log_next(&s->log, &record, &key, &value))
        replay(s, &record, key, value);
    if (s->is_confirmed)
        drop_kept(s);
}

/* Whoever joined and holds its byte no longer has left, or died. */
static void check_lives(file_store *s)
{
    if (!s->is_confirmed || ki_now_ns() < s->next_life_check_ns)
        return;
    for (int rank = 0; rank < s->base.size; rank++) {
        if (rank == s->base.rank || ki_table_rank_state(s->table, rank) != KI_RANK_JOINED ||
            ki_file_log_is_held(&s->log, rank))
            continue;
        refresh(s); /* its last word comes before it lets go */
        if (ki_table_rank_state(s->table, rank) == KI_RANK_JOINED) {
            ki_log(KITH_LOG_INFO, "store file://%s: rank %d died", s->path, rank);
            rank_gone(s, rank, KI_RANK_DIED);
        }
    }
    s->next_life_check_ns = ki_deadline_after_ms(LIFE_CHECK_MS);
}

/* One turn of a wait. False: the deadline passed. */
static bool pause_and_refresh(file_store *s, int64_t *pause_ns, int64_t deadline_ns)
{
    if (ki_deadline_passed(deadline_ns))
        return false;
    ki_sleep_ns(*pause_ns);
    *pause_ns = *pause_ns * 5 / 4 < LAST_PAUSE_NS ? *pause_ns * 5 / 4 : LAST_PAUSE_NS;
    refresh(s);
    check_lives(s);
    return true;
}

/* ---- the operations ---- */

static kith_status file_set(ki_store *store, const char *key, const void *value, size_t nbytes, int64_t deadline_ns)
{
    file_store *s = (file_store *)store;
    (void)deadline_ns; /* nobody has to answer */
    refresh(s);
    return write_record(s, (ki_record){ .kind = KI_RECORD_SET }, key, value, nbytes, NULL, 0);
}

static kith_status file_get(ki_store *store, const char *key, int64_t deadline_ns, void **value, size_t *nbytes)
{
    file_store *s = (file_store *)store;
    int64_t pause_ns = FIRST_PAUSE_NS;
    const ki_blob *blob;
    refresh(s);
    while (!(blob = s->is_confirmed ? ki_table_get(s->table, key) : NULL) &&
           pause_and_refresh(s, &pause_ns, deadline_ns)) {
    }
    if (!blob)
        return KITH_ERR_TIMEOUT;
    void *copy = malloc(blob->nbytes ? blob->nbytes : 1);
    if (!copy)
        return ki_fail(KITH_ERR_NO_MEMORY, "allocating %zu bytes failed", blob->nbytes);
    if (blob->nbytes)
        memcpy(copy, blob->data, blob->nbytes);
    *value = copy;
    *nbytes = blob->nbytes;
    return KITH_OK;
}

static kith_status file_gather(ki_store *store, ki_gather_args *args, int64_t deadline_ns)
{
    file_store *s = (file_store *)store;
    int64_t pause_ns = FIRST_PAUSE_NS;
    size_t ranks_nbytes = args->world_ranks ? (size_t)args->count * sizeof(int32_t) : 0;
    ki_record record = { .kind = KI_RECORD_GATHER, .a = args->index, .b = args->count, .arg = args->nbytes };
    refresh(s);
    s->awaited = NULL;
    kith_status status = write_record(s, record, args->key, args->in, args->nbytes, args->world_ranks, ranks_nbytes);
    if (status != KITH_OK)
        return status;
    refresh(s);
    for (;;) {
        ki_gather *g = s->is_confirmed ? s->awaited : NULL;
        if (g && (ki_gather_is_complete(g) || g->dead_rank >= 0))
            break;
        if (!pause_and_refresh(s, &pause_ns, deadline_ns))
            break;
    }
    ki_gather *g = s->awaited;
    s->awaited = NULL;
    if (g && s->is_confirmed && ki_gather_is_complete(g)) {
        if (g->result->nbytes)
            memcpy(args->out, g->result->data, g->result->nbytes);
        ki_table_forget(s->table, g);
        return KITH_OK;
    }
    if (g)
        ki_gather_missing(g, args->is_missing);
    else
        args->is_missing[0] = args->index != 0;
    args->dead_rank = g && s->is_confirmed ? g->dead_rank : -1;
    return args->dead_rank >= 0 ? KITH_ERR_PEER_FAILED : KITH_ERR_TIMEOUT;
}

static void file_poll(ki_store *store)
{
    refresh((file_store *)store);
    check_lives((file_store *)store);
}

static void file_announce(ki_store *store, ki_event_kind kind, uint64_t value)
{
    static const uint32_t kinds[] = { [KI_EVENT_RANK_DIED] = KI_RECORD_DIED,
                                      [KI_EVENT_ABORT] = KI_RECORD_ABORT,
                                      [KI_EVENT_FAILURE] = KI_RECORD_FAILURE };
    ki_record record = { .kind = kinds[kind], .arg = value };
    if (write_record((file_store *)store, record, "", NULL, 0, NULL, 0) != KITH_OK)
        ki_log(KITH_LOG_ERROR, "store %s: an announcement is lost", store->url);
}

/* ---- open, close ---- */

static void free_store(file_store *s)
{
    drop_kept(s);
    ki_file_log_close(&s->log);
    ki_table_destroy(s->table);
    ki_store_free(&s->base);
}

static void file_close(ki_store *store, bool is_orderly, int64_t deadline_ns)
{
    file_store *s = (file_store *)store;
    int64_t pause_ns = FIRST_PAUSE_NS;
    write_record(s, (ki_record){ .kind = is_orderly ? KI_RECORD_LEFT : KI_RECORD_DIED }, "", NULL, 0, NULL, 0);
    refresh(s);
    if (s->base.rank == 0) {
        while (is_orderly && ki_table_joined_count(s->table) > 0 && pause_and_refresh(s, &pause_ns, deadline_ns)) {
        }
        if (!ki_file_log_is_replaced(&s->log, s->path) && unlink(s->path) != 0)
            ki_log(KITH_LOG_WARN, "store file://%s: cannot be removed: %s", s->path, strerror(errno));
    }
    free_store(s);
}

static const ki_store_ops file_ops = { file_set, file_get, file_gather, file_poll, file_announce, file_close };

/* Takes the rank's byte in the open file and joins. */
static kith_status attach(file_store *s)
{
    if (!ki_file_log_hold(&s->log, s->base.rank)) {
        if (errno == EAGAIN || errno == EACCES)
            return ki_fail(KITH_ERR_MISMATCH,
                           "store file://%s: rank %d of %d is there already; have two processes the same rank?",
                           s->path, s->base.rank, s->base.size);
        return ki_fail(KITH_ERR_NO_RESOURCE, "store file://%s: the file system refuses locks: %s", s->path,
                       strerror(errno));
    }
    return append(s, (ki_record){ .kind = KI_RECORD_JOIN, .arg = s->nonce }, "", NULL, 0, NULL, 0);
}

/* A file of a job that runs is not to be taken away, nor one that is no store at all: a path may be mistyped. */
static kith_status check_unused(const char *path)
{
    ki_file_log old = { .fd = -1 };
    ki_record record;
    const unsigned char *key, *value;
    struct stat about;
    if (ki_file_log_open(&old, path) != KITH_OK)
        return KITH_OK;
    bool is_used = ki_file_log_is_held(&old, 0);
    bool is_foreign = fstat(old.fd, &about) == 0 && about.st_size > 0 &&
                      !(ki_file_log_next(&old, &record, &key, &value) && record.kind == KI_RECORD_HEADER);
    ki_file_log_close(&old);
    if (is_foreign)
        return ki_fail(KITH_ERR_INVALID_ARG, "store file://%s: the file exists and is no store; it is left alone",
                       path);
    return is_used ? ki_fail(KITH_ERR_NO_RESOURCE,
                             "store file://%s: a running job uses this file; give each job its own", path)
                   : KITH_OK;
}

static kith_status create_file(file_store *s)
{
    kith_status status = check_unused(s->path);
    if (status == KITH_OK)
        status = ki_file_log_create(&s->log, s->path);
    if (status != KITH_OK)
        return status;
    s->is_confirmed = true;
    status = append(s, (ki_record){ .kind = KI_RECORD_HEADER, .a = s->base.size }, "", NULL, 0, NULL, 0);
    if (status == KITH_OK)
        status = attach(s);
    if (status == KITH_OK)
        status = ki_file_log_publish(s->path);
    if (status != KITH_OK)
        ki_file_log_discard(s->path);
    return status;
}

/* The first record of a file that is worth joining. False: not, or not yet. */
static kith_status check_header(file_store *s, bool *is_ready)
{
    ki_record record;
    const unsigned char *key, *value;
    *is_ready = ki_file_log_next(&s->log, &record, &key, &value) && record.kind == KI_RECORD_HEADER;
    if (!*is_ready)
        return ki_fail_quiet(KITH_ERR_UNREACHABLE, "%s is not a store of this version", s->path);
    if (record.a != s->base.size) { /* may also be the file of an older job: the caller tries on */
        *is_ready = false;
        return ki_fail_quiet(KITH_ERR_MISMATCH, "rank %d says the job has %d ranks, the file was made for %d",
                             s->base.rank, s->base.size, record.a);
    }
    return KITH_OK;
}

static kith_status join_file(file_store *s, const ki_store_options *options)
{
    int64_t deadline_ns = ki_deadline_after_ms(options->timeout_ms);
    for (unsigned attempt = 0;; attempt++) {
        bool is_ready = false;
        kith_status status = ki_file_log_open(&s->log, s->path);
        if (status == KITH_OK)
            status = check_header(s, &is_ready);
        if (is_ready)
            return attach(s);
        ki_file_log_close(&s->log);
        if (ki_deadline_passed(deadline_ns)) {
            char reason[KI_DETAIL_NBYTES];
            snprintf(reason, sizeof reason, "%s", kith_error_detail());
            return ki_fail(status, "store file://%s: rank %d waited %lld ms for rank 0's file: %s", s->path,
                           s->base.rank, (long long)options->timeout_ms, reason);
        }
        ki_sock_backoff(attempt, deadline_ns);
    }
}

kith_status ki_store_file_open(const ki_store_options *options, const char *rest, ki_store **store)
{
    if (rest[0] != '/' || !rest[1])
        return ki_fail(KITH_ERR_INVALID_ARG, "store \"%s\": valid is file:///path with an absolute path", options->url);
    file_store *s = ki_calloc(NULL, 1, sizeof *s);
    if (!s)
        return KITH_ERR_NO_MEMORY;
    ki_store_init(&s->base, &file_ops, options, options->url);
    snprintf(s->path, sizeof s->path, "%s", rest);
    s->last_kept = &s->first_kept;
    s->log.fd = -1;
    if (getrandom(&s->nonce, sizeof s->nonce, GRND_NONBLOCK) != sizeof s->nonce)
        s->nonce = (uint64_t)ki_now_ns() ^ ((uint64_t)getpid() << 40) ^ (uint64_t)options->rank;
    s->table = ki_table_create(options->size);
    kith_status status = !s->table ? KITH_ERR_NO_MEMORY : options->rank == 0 ? create_file(s) : join_file(s, options);
    if (status != KITH_OK) {
        free_store(s);
        return status;
    }
    *store = &s->base;
    return KITH_OK;
}
