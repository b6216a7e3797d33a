/* core/exchange.c - see exchange.h.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "exchange.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "text.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DETAIL_NBYTES 252

/* Of all ranks of the context. */
typedef struct room {
    int32_t *statuses;
    char *details; /* [DETAIL_NBYTES] each */
    unsigned char *is_missing;
} room;

static kith_status fail_missing(const char *what, const int *world_ranks, int count, const unsigned char *is_missing,
                                int64_t timeout_ms)
{
    ki_text list = { 0 };
    int missing = 0;
    for (int i = 0; i < count; i++) {
        if (!is_missing[i])
            continue;
        if (missing++ < 16)
            ki_text_add(&list, "%s%d", missing > 1 ? ", " : "", world_ranks[i]);
    }
    kith_status status = ki_fail(
        KITH_ERR_TIMEOUT,
        "%s: %d of %d ranks did not come within %lld ms (connect_timeout_ms): missing world rank%s %s%s", what, missing,
        count, (long long)timeout_ms, missing == 1 ? "" : "s", ki_text_chars(&list), missing > 16 ? " and more" : "");
    ki_text_fini(&list);
    return status;
}

static kith_status gather(kith_ctx *ctx, const char *key, const char *what, const int *world_ranks, int index,
                          int count, unsigned char *is_missing, const void *in, size_t nbytes, void *out)
{
    memset(is_missing, 0, (size_t)count);
    kith_status status = ki_store_gather(ctx->store, key, index, count, world_ranks, in, nbytes, out,
                                         ki_deadline_after_ms(ctx->connect_timeout_ms), is_missing);
    if (status == KITH_ERR_TIMEOUT)
        status = fail_missing(what, world_ranks, count, is_missing, ctx->connect_timeout_ms);
    else if (status != KITH_OK)
        status = ki_fail_context(status, "%s", what);
    return status;
}

/* Statuses and sentences of all, and who is missing. Made in the first round of a context and kept: later rounds must
 * not fail on one rank for memory, as the others would wait for it until the connect deadline. */
static bool make_room(kith_ctx *ctx, room *made)
{
    size_t size = (size_t)ctx->size;
    if (ctx->exchange_room == NULL)
        ctx->exchange_room = ki_calloc(&ctx->allocator, size, sizeof(int32_t) + DETAIL_NBYTES + 1);
    made->statuses = (int32_t *)ctx->exchange_room;
    made->details = (char *)(made->statuses + size);
    made->is_missing = (unsigned char *)(made->details + size * DETAIL_NBYTES);
    return ctx->exchange_room != NULL;
}

/* Some rank failed, which all know now: its status, with its sentence, becomes everybody's. Sentences travel only here,
 * because in each gather everybody gets what everybody gave. */
static kith_status share_failure(kith_ctx *ctx, const char *key, const char *what, const int *world_ranks, int index,
                                 int count, const room *at, int worst)
{
    char own[DETAIL_NBYTES] = "", round[256];
    kith_status status = (kith_status)at->statuses[worst];
    if (at->statuses[index] != KITH_OK)
        snprintf(own, sizeof own, "%s", kith_error_detail());
    snprintf(round, sizeof round, "%s/d", key);
    memset(at->is_missing, 0, (size_t)count);
    kith_status gathered = ki_store_gather(ctx->store, round, index, count, world_ranks, own, sizeof own, at->details,
                                           ki_deadline_after_ms(ctx->connect_timeout_ms), at->is_missing);
    char *detail = at->details + (size_t)worst * DETAIL_NBYTES;
    detail[DETAIL_NBYTES - 1] = '\0';
    if (worst == index)
        return gathered == KITH_OK ? status : ki_fail_quiet(status, "%s", own);
    return ki_fail(status, "%s: world rank %d: %s", what, world_ranks[worst],
                   gathered == KITH_OK ? detail : "it could not say why");
}

kith_status ki_boot_exchange(kith_ctx *ctx, const char *key, const char *what, const int *world_ranks, int index,
                             int count, kith_status mine, const void *in, size_t nbytes, void *out)
{
    if (count == 1) {
        if (mine == KITH_OK && nbytes > 0)
            memcpy(out, in, nbytes);
        return mine;
    }
    int32_t own = mine;
    room all;
    if (!make_room(ctx, &all))
        return ki_fail(KITH_ERR_NO_MEMORY, "%s: no memory for %d ranks", what, count);
    char round[256];
    snprintf(round, sizeof round, "%s/s", key);
    kith_status status =
        gather(ctx, round, what, world_ranks, index, count, all.is_missing, &own, sizeof own, all.statuses);
    int worst = index;
    for (int i = 0; status == KITH_OK && i < count; i++)
        if (all.statuses[i] < all.statuses[worst])
            worst = i;
    if (status == KITH_OK && all.statuses[worst] != KITH_OK)
        return share_failure(ctx, key, what, world_ranks, index, count, &all, worst);
    if (status != KITH_OK || nbytes == 0)
        return status;
    snprintf(round, sizeof round, "%s/p", key);
    return gather(ctx, round, what, world_ranks, index, count, all.is_missing, in, nbytes, out);
}

static void name_round(uint64_t group_id, uint32_t number, char *key, size_t nbytes)
{
    snprintf(key, nbytes, "g/%016llx/%u", (unsigned long long)group_id, number);
}

kith_status ki_group_exchange(kith_group *group, const char *what, kith_status mine, const void *in, size_t nbytes,
                              void *out)
{
    char key[128];
    /* Once a round of a creation has failed for all, nobody comes to the next one. */
    if (!group->is_ready && group->creation_status != KITH_OK)
        return group->creation_status;
    name_round(group->id, group->exchange_count++, key, sizeof key);
    kith_status status =
        ki_boot_exchange(group->ctx, key, what, group->world_ranks, group->rank, group->size, mine, in, nbytes, out);
    if (!group->is_ready)
        group->creation_status = status;
    return status;
}

kith_status ki_group_give_up(kith_ctx *ctx, const ki_group_spec *spec, kith_status mine)
{
    char key[128], what[96];
    name_round(spec->id, 0, key, sizeof key);
    snprintf(what, sizeof what, "creating group '%s'", spec->name);
    return ki_boot_exchange(ctx, key, what, spec->world_ranks, spec->rank, spec->size, mine, NULL, 0, NULL);
}
