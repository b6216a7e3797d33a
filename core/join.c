/* core/join.c - see join.h.
 *
 * One all-gather of a fixed record per rank: identity of the host, process, processors it may use, hash of the
 * settings that must agree. A second one, of the settings' texts, only when the hashes differ, to name the first
 * setting that does.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "join.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "exchange.h"
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#define SETTINGS_NBYTES 8192
#define DEFAULT_SPIN 4000

typedef struct hello {
    char host[256];
    char version[16];
    int64_t pid;
    uint64_t nonce; /* rank 0's becomes the job's id */
    uint64_t settings_hash;
    int32_t local_rank, local_size; /* what the launcher said; size 0: nothing */
    int32_t wants_device, pad;
    cpu_set_t cpus;
} hello;

/* "name=value\n" of every row that must agree. */
static void agreed_settings(const kith_ctx *ctx, char *text, size_t nbytes)
{
    ki_config_row row;
    size_t used = 0;
    for (size_t i = 0; ki_config_row_at(ctx->config, i, &row); i++) {
        if (!row.must_agree || used + 2 >= nbytes)
            continue;
        int length = snprintf(text + used, nbytes - used, "%s=%s\n", row.name, row.value);
        used += length < 0 ? 0 : (size_t)length < nbytes - used ? (size_t)length : nbytes - used - 1;
    }
    text[used < nbytes ? used : nbytes - 1] = '\0';
}

static void fill_hello(const kith_ctx *ctx, const char *settings, hello *own)
{
    memset(own, 0, sizeof *own);
    ki_host_identity(ctx->config, own->host, sizeof own->host);
    snprintf(own->version, sizeof own->version, "%s", KITH_VERSION_STRING);
    own->pid = getpid();
    if (getrandom(&own->nonce, sizeof own->nonce, 0) != (ssize_t)sizeof own->nonce)
        own->nonce = (uint64_t)ki_now_ns() * 0x9e3779b97f4a7c15u ^ (uint64_t)own->pid;
    own->settings_hash = ki_hash(KI_HASH_INIT, settings, strlen(settings));
    own->local_rank = ctx->launch.local_rank;
    own->local_size = ctx->launch.local_size;
    if (sched_getaffinity(0, sizeof own->cpus, &own->cpus) != 0)
        CPU_ZERO(&own->cpus);
}

/* The first line in which two settings texts differ. */
static kith_status name_difference(const char *texts, int size)
{
    for (int r = 1; r < size; r++) {
        const char *a = texts, *b = texts + (size_t)r * SETTINGS_NBYTES;
        while (*a != '\0' && *b != '\0') {
            size_t na = strcspn(a, "\n"), nb = strcspn(b, "\n");
            if (na != nb || memcmp(a, b, na) != 0)
                return ki_fail(KITH_ERR_MISMATCH,
                               "kith_init: settings differ between ranks: rank 0 has %.*s, rank %d has %.*s", (int)na,
                               a, r, (int)nb, b);
            a += na + (a[na] != '\0');
            b += nb + (b[nb] != '\0');
        }
    }
    return ki_fail(KITH_ERR_MISMATCH, "kith_init: ranks know different settings (other library or module versions?)");
}

static kith_status compare_settings(kith_ctx *ctx, const int *ranks, const char *settings)
{
    char *texts = (char *)calloc((size_t)ctx->size, SETTINGS_NBYTES);
    kith_status status = texts != NULL ? KITH_OK : ki_fail(KITH_ERR_NO_MEMORY, "kith_init: no memory");
    status = ki_boot_exchange(ctx, "join/settings", "kith_init", ranks, ctx->rank, ctx->size, status, settings,
                              SETTINGS_NBYTES, texts);
    if (status == KITH_OK)
        status = name_difference(texts, ctx->size);
    free(texts);
    return status;
}

static void number_hosts(kith_ctx *ctx, const hello *all)
{
    ctx->node_count = 0;
    for (int r = 0; r < ctx->size; r++) {
        int known = 0;
        while (known < r && strcmp(all[known].host, all[r].host) != 0)
            known++;
        ctx->node_of[r] = known < r ? ctx->node_of[known] : ctx->node_count++;
    }
}

/* Spinning pays only when every rank of the host has a processor of its own: the union of what they may use is
 * counted. */
static void look_around(kith_ctx *ctx, const hello *all)
{
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    ctx->local_rank = ctx->local_size = 0;
    ctx->is_threads = false;
    for (int r = 0; r < ctx->size; r++) {
        if (ctx->node_of[r] != ctx->node_of[ctx->rank])
            continue;
        ctx->local_rank += r < ctx->rank;
        ctx->local_size++;
        CPU_OR(&cpus, &cpus, &all[r].cpus);
        ctx->is_threads |= r != ctx->rank && all[r].pid == all[ctx->rank].pid;
    }
    const char *spin = ki_config_get(ctx->config, "spin");
    ctx->spin = strcmp(spin, "auto") != 0             ? (int)ki_config_int(ctx->config, "spin")
                : CPU_COUNT(&cpus) >= ctx->local_size ? DEFAULT_SPIN
                                                      : 0;
}

static kith_status compare(kith_ctx *ctx, const int *ranks, const hello *all, const char *settings)
{
    for (int r = 1; r < ctx->size; r++)
        if (strcmp(all[r].version, all[0].version) != 0)
            return ki_fail(KITH_ERR_MISMATCH, "kith_init: rank 0 runs version %s, rank %d version %s", all[0].version,
                           r, all[r].version);
    for (int r = 1; r < ctx->size; r++)
        if (all[r].settings_hash != all[0].settings_hash)
            return compare_settings(ctx, ranks, settings);
    return KITH_OK;
}

kith_status ki_join(kith_ctx *ctx, kith_status mine, bool wants_device, bool *some_want_device)
{
    size_t size = (size_t)ctx->size;
    hello own, *all = (hello *)calloc(size, sizeof *all);
    int *ranks = (int *)malloc(size * sizeof *ranks);
    char settings[SETTINGS_NBYTES];
    if (mine == KITH_OK && (all == NULL || ranks == NULL))
        mine = ki_fail(KITH_ERR_NO_MEMORY, "kith_init: no memory for %d ranks", ctx->size);
    for (int i = 0; ranks != NULL && i < ctx->size; i++)
        ranks[i] = i;
    memset(settings, 0, sizeof settings);
    agreed_settings(ctx, settings, sizeof settings);
    fill_hello(ctx, settings, &own);
    own.wants_device = wants_device;
    kith_status status = ranks == NULL ? mine
                                       : ki_boot_exchange(ctx, "join/hello", "kith_init", ranks, ctx->rank, ctx->size,
                                                          mine, &own, sizeof own, all);
    if (status == KITH_OK)
        status = compare(ctx, ranks, all, settings);
    if (status == KITH_OK) {
        ctx->job_id = all[0].nonce;
        number_hosts(ctx, all);
        look_around(ctx, all);
        *some_want_device = false;
        for (int r = 0; r < ctx->size; r++)
            *some_want_device |= all[r].wants_device != 0;
        if (own.local_size > 0 && own.local_size != ctx->local_size)
            ki_log(KITH_LOG_WARN, "the launcher said %d local ranks, %d share this host's memory", own.local_size,
                   ctx->local_size);
    }
    free(all);
    free(ranks);
    return status;
}
