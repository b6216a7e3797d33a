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

typedef struct verdict {
    int32_t status;
    char detail[252];
} verdict;

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

/* Statuses of all, and who is missing. Made in the first round of a context and kept: later rounds must not fail on one
 * rank for memory, as the others would wait for it until the connect deadline. */
static verdict *make_room(kith_ctx *ctx)
{
    if (ctx->exchange_room == NULL)
        ctx->exchange_room = ki_calloc(&ctx->allocator, (size_t)ctx->size, sizeof(verdict) + 1);
    return (verdict *)ctx->exchange_room;
}

kith_status ki_boot_exchange(kith_ctx *ctx, const char *key, const char *what, const int *world_ranks, int index,
                             int count, kith_status mine, const void *in, size_t nbytes, void *out)
{
    if (count == 1) {
        if (mine == KITH_OK && nbytes > 0)
            memcpy(out, in, nbytes);
        return mine;
    }
    verdict own = { mine, "" };
    if (mine != KITH_OK)
        snprintf(own.detail, sizeof own.detail, "%s", kith_error_detail());
    verdict *all = make_room(ctx);
    if (all == NULL)
        return ki_fail(KITH_ERR_NO_MEMORY, "%s: no memory for %d ranks", what, count);
    unsigned char *is_missing = (unsigned char *)(all + ctx->size);
    char round[256];
    snprintf(round, sizeof round, "%s/s", key);
    kith_status status = gather(ctx, round, what, world_ranks, index, count, is_missing, &own, sizeof own, all);
    int worst = index;
    for (int i = 0; status == KITH_OK && i < count; i++)
        if (all[i].status < all[worst].status)
            worst = i;
    if (status == KITH_OK && all[worst].status != KITH_OK) {
        all[worst].detail[sizeof all[worst].detail - 1] = '\0';
        status = (kith_status)all[worst].status;
        if (worst != index)
            ki_fail(status, "%s: world rank %d: %s", what, world_ranks[worst], all[worst].detail);
    }
    if (status != KITH_OK || nbytes == 0)
        return status;
    snprintf(round, sizeof round, "%s/p", key);
    return gather(ctx, round, what, world_ranks, index, count, is_missing, in, nbytes, out);
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
