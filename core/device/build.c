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
#include "arithmetic.h"
#include "facts.h"
#include "group.h"
#include "hosts.h"
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

static bool is_shared(const kith_group *group, int i, int j)
{
    return group->node_of[i] == group->node_of[j] && fact_of(group, i)->identity == fact_of(group, j)->identity;
}

/* Why a member cannot have NCCL, of its own accord or beside those before it; false: it can. */
static bool find_obstacle(const kith_group *group, int i, char *why, size_t nbytes)
{
    const int *world = group->world_ranks;
    if (!fact_of(group, i)->has_device) {
        snprintf(why, nbytes, "world rank %d has no device", world[i]);
        return true;
    }
    if (!fact_of(group, i)->has_nccl) {
        if (i == group->rank)
            snprintf(why, nbytes, "%s", group->ctx->no_nccl);
        else
            snprintf(why, nbytes, "world rank %d cannot use NCCL (`kith info` there says why)", world[i]);
        return true;
    }
    for (int j = 0; j < i; j++)
        if (is_shared(group, i, j)) {
            snprintf(why, nbytes, "world ranks %d and %d share a GPU", world[j], world[i]);
            return true;
        }
    return false;
}

/* NCCL wants a device for each rank. The reason against it is this rank's own where it has one. */
static bool may_use_nccl(const kith_group *group, char *why, size_t nbytes)
{
    if (group->size == 1 || group->is_internal) {
        snprintf(why, nbytes, "%s", group->size == 1 ? "the group has one rank" : "it is a part of another group");
        return false;
    }
    if (!fact_of(group, group->rank)->has_nccl)
        return !find_obstacle(group, group->rank, why, nbytes);
    for (int i = 0; i < group->size; i++)
        if (find_obstacle(group, i, why, nbytes))
            return false;
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

static kith_status open_part(kith_group *group, const char *name, ki_group_spec *spec)
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
        .split = spec->split,
    };
    spec->split = NULL;
    status = backend->group_create(device->instance->be, &info, &device->bg);
    if (status == KITH_OK && backend->memory != NULL && (backend->memory(device->bg) & KITH_BE_DEVICE) == 0)
        status = ki_fail(KITH_ERR_UNSUPPORTED, "group '%s': backend %s takes no device memory", group->name, name);
    return status == KITH_OK ? ki_group_ask(backend, device->bg, true, device->native) : status;
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

/* ---- the host's transport, where it takes device memory ---- */

typedef struct direct_answer {
    uint64_t is_able, hash;
} direct_answer;

static direct_answer ask_transport(kith_group *group, kith_status *status)
{
    direct_answer mine = { 0, 0 };
    mine.is_able = (group->backend->memory(group->bg) & KITH_BE_DEVICE) != 0;
    if (mine.is_able)
        *status = ki_group_ask(group->backend, group->bg, true, group->device->native);
    if (mine.is_able && *status == KITH_OK)
        *status = ki_device_prepare(group->ctx);
    mine.hash = hash_part(group);
    return mine;
}

/* All members hand their device memory to the transport, or none does: a collective of which some pass through the host
 * is cut otherwise. */
static kith_status open_direct(kith_group *group)
{
    if (group->size == 1 || !group->device->is_uniform || group->backend->memory == NULL)
        return KITH_OK;
    char what[128];
    kith_status status = KITH_OK;
    direct_answer mine = ask_transport(group, &status);
    direct_answer *all = (direct_answer *)calloc((size_t)group->size, sizeof *all);
    if (all == NULL && status == KITH_OK)
        status = ki_fail(KITH_ERR_NO_MEMORY, "group '%s': no memory", group->name);
    snprintf(what, sizeof what, "creating group '%s': device memory over %s", group->name, group->backend->name);
    status = ki_group_exchange(group, what, status, &mine, sizeof mine, all);
    bool is_able = status == KITH_OK;
    for (int i = 0; status == KITH_OK && i < group->size; i++)
        is_able = is_able && all[i].is_able && all[i].hash == all[0].hash;
    group->device->is_direct = is_able;
    if (is_able)
        ki_log(KITH_LOG_INFO, "group '%s': device memory goes straight to %s", group->name, group->backend->name);
    if (!is_able)
        memset(group->device->native, 0, sizeof group->device->native);
    free(all);
    return status;
}

kith_status ki_group_device_open(kith_group *group, const char *wanted, ki_group_spec *spec)
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
    struct ki_group_device *device = group->device;
    const char *name = wanted;
    if (name == NULL && may_use_nccl(group, device->why_staged, sizeof device->why_staged))
        name = "nccl";
    if (name == NULL)
        return open_direct(group);
    kith_status status = agree(group, name, open_part(group, name, spec));
    if (status == KITH_OK)
        return KITH_OK;
    drop_part(group->device);
    if (wanted != NULL)
        return status;
    device->has_tried = true;
    snprintf(device->why_staged, sizeof device->why_staged, "%s", kith_error_detail());
    ki_log(KITH_LOG_WARN, "group '%s': device memory goes by the host's transport: %s", group->name,
           kith_error_detail());
    group->creation_status = KITH_OK; /* all members come to the next round */
    return open_direct(group);
}

void ki_group_device_tell(kith_group *group)
{
    struct ki_group_device *device = group->device;
    if (device == NULL)
        return;
    const char *host = group->backend->name;
    if (device->bg != NULL)
        snprintf(device->how, sizeof device->how, "%s", device->backend->name);
    else if (device->is_direct)
        snprintf(device->how, sizeof device->how, "%s, which takes device memory itself", host);
    else if (device->inside != NULL)
        snprintf(device->how, sizeof device->how,
                 "all_reduce by %s inside hosts and %s between them, the rest staged over %s: %s",
                 device->inside->device->backend->name, host, host, device->why_staged);
    else
        snprintf(device->how, sizeof device->how, "staged over %s: %s", host, device->why_staged);
}

/* ---- groups out of groups ---- */

/* Members of groups of one are in none that NCCL serves, unless it was asked for by name. */
kith_status ki_device_split(kith_group *parent, ki_group_spec *spec)
{
    const struct ki_group_device *device = parent->device;
    bool is_asked =
        spec->size > 0 && device != NULL && device->bg != NULL && strcmp(spec->backend, device->backend->name) == 0;
    int color = spec->size > 1 || is_asked ? spec->world_ranks[0] : -1;
    spec->parent = parent;
    spec->split = NULL;
    if (device == NULL || device->bg == NULL || device->backend->group_split == NULL)
        return KITH_OK;
    for (int i = 0; color >= 0 && i < spec->size; i++) /* the same for all members, another one in other groups */
        color = spec->world_ranks[i] < color ? spec->world_ranks[i] : color;
    return device->backend->group_split(device->bg, color, spec->rank, &spec->split);
}

void ki_device_split_discard(ki_group_spec *spec)
{
    const struct ki_group_device *device = spec->split != NULL ? spec->parent->device : NULL;
    if (device != NULL)
        device->backend->split_discard(device->instance->be, spec->split);
    spec->split = NULL;
}

void ki_group_device_close(kith_group *group)
{
    if (group->device == NULL)
        return;
    ki_device_hosts_close(group);
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

static bool is_to_abort(const kith_group *group, const ki_instance *instance, int world_rank)
{
    const struct ki_group_device *device = group->device;
    if (device == NULL || device->bg == NULL || device->instance != instance || group->handle.magic != KI_GROUP_MAGIC)
        return false;
    return world_rank < 0 || kith_group_rank_of_world(group, world_rank) >= 0;
}

static void abort_of_instance(const kith_ctx *ctx, const ki_instance *instance, int world_rank)
{
    size_t room = 0, count = 0;
    for (kith_group *g = ctx->groups; g != NULL; g = g->next)
        room += is_to_abort(g, instance, world_rank);
    void **groups = room > 0 ? (void **)calloc(room, sizeof *groups) : NULL;
    for (kith_group *g = ctx->groups; groups != NULL && g != NULL; g = g->next)
        if (is_to_abort(g, instance, world_rank) && atomic_exchange(&g->device->is_aborted, 1) == 0)
            groups[count++] = g->device->bg;
    if (count > 0)
        instance->backend->groups_abort(groups, count);
    free(groups); /* without memory each is aborted by itself when it fails */
}

void ki_ctx_device_abort(kith_ctx *ctx, int world_rank)
{
    for (int i = 0; i < ctx->instance_count; i++)
        if (ctx->instances[i].backend->groups_abort != NULL)
            abort_of_instance(ctx, &ctx->instances[i], world_rank);
}
