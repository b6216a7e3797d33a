/* core/device/facts.c - see facts.h.
 *
 * Ranks tell in their hello (join.c) whether they want a device. When one does, all meet once more: whoever could not
 * open its device fails everybody's kith_init() with the reason, and what each has is known to all afterwards, so
 * that a group's way for device memory is a local decision that all members make alike.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "facts.h"

#include "../base/error.h"
#include "../base/log.h"
#include "../exchange.h"
#include "../instance.h"
#include "../registry.h"
#include "stage.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Opened here, not with the first group that wants it: groups may do without NCCL, but a wrong setting is the user's
 * mistake and ends everybody's kith_init(). */
static kith_status try_nccl(kith_ctx *ctx, struct ki_device_fact *own)
{
    ki_instance *instance;
    if (!ki_registry_tell("nccl", ctx->no_nccl, sizeof ctx->no_nccl))
        return KITH_OK;
    kith_status status = ki_instance_get(ctx, "nccl", &instance);
    own->can_nccl = status == KITH_OK;
    if (status == KITH_OK || status == KITH_ERR_INVALID_ARG)
        return status;
    snprintf(ctx->no_nccl, sizeof ctx->no_nccl, "%s", kith_error_detail());
    ki_log(KITH_LOG_WARN, "rank %d does without NCCL: %s", ctx->rank, kith_error_detail());
    return KITH_OK;
}

static kith_status find_fact(kith_ctx *ctx, struct ki_device_fact *own)
{
    kith_device_info info = KITH_DEVICE_INFO_INIT;
    kith_status status = kith_device_describe(ctx->device, &info);
    if (status != KITH_OK)
        return status;
    own->has_device = 1;
    own->identity = ki_hash(ki_hash(KI_HASH_INIT, info.uuid, strlen(info.uuid)), info.pci, strlen(info.pci));
    bool may_use = strcmp(ctx->backend, "auto") == 0 || strcmp(ctx->backend, "nccl") == 0;
    bool may_split = strcmp(ki_config_get(ctx->config, "device_hier"), "on") == 0;
    status = may_use || may_split ? try_nccl(ctx, own) : KITH_OK;
    own->has_nccl = may_use && own->can_nccl;
    if (!may_use)
        snprintf(ctx->no_nccl, sizeof ctx->no_nccl, "backend %s was asked for", ctx->backend);
    return status;
}

kith_status ki_ctx_open_device(kith_ctx *ctx, const char *wanted, bool wants)
{
    if (!wants)
        return KITH_OK;
    size_t size = (size_t)ctx->size;
    struct ki_device_fact own = { 0 };
    int *ranks = (int *)calloc(size, sizeof *ranks);
    ctx->device_facts = (struct ki_device_fact *)ki_calloc(&ctx->allocator, size, sizeof *ctx->device_facts);
    kith_status status = KITH_OK;
    if (ranks == NULL || ctx->device_facts == NULL)
        status = ki_fail(KITH_ERR_NO_MEMORY, "kith_init: no memory for %d ranks", ctx->size);
    for (int i = 0; ranks != NULL && i < ctx->size; i++)
        ranks[i] = i;
    if (status == KITH_OK && *wanted != '\0')
        status = ki_device_open_named(wanted, ctx->local_rank, &ctx->device);
    if (ctx->device != NULL && status == KITH_OK)
        status = find_fact(ctx, &own);
    if (status != KITH_OK)
        ki_fail_context(status, "kith_init");
    if (ranks != NULL)
        status = ki_boot_exchange(ctx, "join/device", "kith_init", ranks, ctx->rank, ctx->size, status, &own,
                                  sizeof own, ctx->device_facts);
    free(ranks);
    return status;
}

void ki_ctx_close_device(kith_ctx *ctx)
{
    ki_stage_close(ctx);
    ki_device_close_of_context(ctx->device);
    ctx->device = NULL;
    ki_free(&ctx->allocator, ctx->device_facts);
    ctx->device_facts = NULL;
}

kith_device *kith_ctx_device(const kith_ctx *ctx)
{
    return ki_ctx_is_valid(ctx) ? ctx->device : NULL;
}
