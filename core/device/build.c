/* core/device/build.c - the part of a group that device memory needs: how it comes about and how it goes.
 *
 * What each rank has was told when the ranks joined (facts.h), so whether a backend for device memory is tried is a
 * local decision that all members make alike. Making it is collective; afterwards the members agree: where it was asked
 * for by name, a failure on one is everybody's, else all go without it.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "../base/error.h"
#include "../base/log.h"
#include "../exchange.h"
#include "../group.h"
#include "../instance.h"
#include "facts.h"
#include "group.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const kith_backend *find_open(const kith_ctx *ctx, const char *name)
{
    for (int i = 0; i < ctx->instance_count; i++)
        if (strcmp(ctx->instances[i].backend->name, name) == 0)
            return ctx->instances[i].backend;
    return NULL;
}

kith_status ki_device_backend_check(const kith_ctx *ctx, const char *name, bool *is_device_only)
{
    *is_device_only = false;
    if (strcmp(name, "auto") == 0 || strcmp(name, "shm") == 0)
        return KITH_OK;
    const kith_backend *backend = find_open(ctx, name);
    kith_status status = backend != NULL ? KITH_OK : ki_registry_find(name, &backend);
    if (status == KITH_OK)
        *is_device_only = backend->memory != NULL && backend->memory(NULL) == KITH_BE_DEVICE;
    return status;
}

static const struct ki_device_fact *fact_of(const kith_group *group, int rank)
{
    return &group->ctx->device_facts[group->world_ranks[rank]];
}

static bool is_uniform(const kith_group *group)
{
    for (int i = 0; i < group->size; i++)
        if (!fact_of(group, i)->has_device)
            return false;
    return true;
}

/* NCCL wants a device for each rank. */
static bool may_use_nccl(const kith_group *group)
{
    if (group->size == 1 || group->is_internal || !is_uniform(group))
        return false;
    for (int i = 0; i < group->size; i++) {
        if (!fact_of(group, i)->has_nccl)
            return false;
        for (int j = 0; j < i; j++)
            if (group->node_of[i] == group->node_of[j] && fact_of(group, i)->identity == fact_of(group, j)->identity)
                return false;
    }
    return true;
}

static kith_status check_members(const kith_group *group, const char *wanted)
{
    for (int i = 0; i < group->size; i++)
        if (group->ctx->device_facts == NULL || !fact_of(group, i)->has_device)
            return ki_fail(KITH_ERR_INVALID_ARG,
                           "group '%s': backend %s moves device memory, and world rank %d has no device "
                           "(kith_init_options.device or KITH_DEVICE, as cuda:local)",
                           group->name, wanted, group->world_ranks[i]);
    return KITH_OK;
}

/* ---- the backend's part ---- */

static kith_status open_part(kith_group *group, const char *name)
{
    struct ki_group_device *device = group->device;
    kith_status status = ki_instance_get(group->ctx, name, &device->instance);
    if (status != KITH_OK)
        return status;
    const kith_backend *backend = device->instance->backend;
    device->backend = backend;
    kith_be_group_info info = {
        .struct_size = sizeof info,
        .cookie = group,
        .name = group->name,
        .id = group->id,
        .rank = group->rank,
        .size = group->size,
        .world_ranks = group->world_ranks,
        .node_of = group->node_of,
        .is_one_node = group->node_count == 1,
    };
    status = backend->group_create(device->instance->be, &info, &device->bg);
    if (status == KITH_OK && backend->memory != NULL && (backend->memory(device->bg) & KITH_BE_DEVICE) == 0)
        status = ki_fail(KITH_ERR_UNSUPPORTED, "group '%s': backend %s takes no device memory", group->name, name);
    return status == KITH_OK ? ki_group_ask(backend, device->bg, device->native) : status;
}

static void drop_part(struct ki_group_device *device)
{
    if (device->bg != NULL)
        device->backend->group_destroy(device->bg);
    device->bg = NULL;
    device->backend = NULL;
    device->instance = NULL;
    memset(device->native, 0, sizeof device->native);
}

static uint64_t hash_part(const kith_group *group)
{
    uint64_t hash = group->agreed_hash;
    for (int kind = 0; kind < KITH_COLL_COUNT; kind++)
        for (int column = 0; column < KI_QUERY_OPS; column++)
            hash = ki_hash(hash, &group->device->native[kind][column], 2 * sizeof(uint32_t));
    return hash;
}

/* Everyone's status, then what each backend said it can do. */
static kith_status agree(kith_group *group, const char *name, kith_status mine)
{
    char what[128];
    uint64_t hash = mine == KITH_OK ? hash_part(group) : 0;
    uint64_t *all = (uint64_t *)calloc((size_t)group->size, sizeof *all);
    if (all == NULL && mine == KITH_OK)
        mine = ki_fail(KITH_ERR_NO_MEMORY, "group '%s': no memory", group->name);
    snprintf(what, sizeof what, "creating group '%s' over %s", group->name, name);
    kith_status status = ki_group_exchange(group, what, mine, &hash, sizeof hash, all);
    for (int i = 0; status == KITH_OK && i < group->size; i++)
        if (all[i] != all[0])
            status = ki_fail(KITH_ERR_MISMATCH,
                             "creating group '%s': ranks 0 and %d have libraries of %s that can do different things",
                             group->name, i, name);
    free(all);
    return status;
}

kith_status ki_group_device_open(kith_group *group, const char *wanted)
{
    if (wanted != NULL) {
        kith_status status = check_members(group, wanted);
        if (status != KITH_OK)
            return status;
    }
    if (group->device == NULL)
        return KITH_OK;
    group->device->is_uniform = is_uniform(group);
    group->device->piece_nbytes = ki_config_nbytes(group->ctx->config, "stage_nbytes");
    const char *name = wanted != NULL ? wanted : may_use_nccl(group) ? "nccl" : NULL;
    if (name == NULL)
        return KITH_OK;
    kith_status status = agree(group, name, open_part(group, name));
    if (status == KITH_OK)
        return KITH_OK;
    drop_part(group->device);
    if (wanted != NULL)
        return status;
    ki_log(KITH_LOG_WARN, "group '%s': device memory passes through the host: %s", group->name, kith_error_detail());
    group->creation_status = KITH_OK; /* all members come to the next round */
    return KITH_OK;
}

void ki_group_device_close(kith_group *group)
{
    if (group->device == NULL)
        return;
    drop_part(group->device);
    ki_free(&group->ctx->allocator, group->device);
    group->device = NULL;
}

void ki_group_device_abort(kith_group *group)
{
    struct ki_group_device *device = group->device;
    if (device != NULL && device->bg != NULL && atomic_exchange(&device->is_aborted, 1) == 0)
        device->backend->group_abort(device->bg);
}
