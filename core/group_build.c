/* core/group_build.c - how a group comes into being, and how it goes.
 *
 * The members meet at the store under the group's id (see exchange.h). A member that fails on the way goes straight
 * to the closing round with its status, so everyone learns of it and nobody waits longer than the connect deadline.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "base/error.h"
#include "base/fault.h"
#include "base/log.h"
#include "device/group.h"
#include "device/hosts.h"
#include "exchange.h"
#include "group.h"
#include "instance.h"
#include "kept.h"
#include "memory.h"
#include "op.h"
#include "progress.h"
#include "request.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *ki_group_choose_backend(const kith_ctx *ctx, const char *wanted, const int *world_ranks, int size)
{
    if (strcmp(wanted, "auto") != 0)
        return wanted;
    bool is_one_node = true;
    for (int i = 1; i < size; i++)
        is_one_node = is_one_node && ctx->node_of[world_ranks[i]] == ctx->node_of[world_ranks[0]];
    if (is_one_node)
        return "shm";
    return ctx->has_ucx ? "ucx" : ctx->has_mpi ? "mpi" : "none";
}

/* Host indexes of the members, numbered by first appearance. */
static void number_nodes(kith_group *group)
{
    const int *host = group->ctx->node_of;
    group->node_count = 0;
    for (int i = 0; i < group->size; i++) {
        int known = 0;
        while (known < i && host[group->world_ranks[known]] != host[group->world_ranks[i]])
            known++;
        group->node_of[i] = known < i ? group->node_of[known] : group->node_count++;
    }
}

static uint32_t power_of_two(int64_t wanted)
{
    uint32_t capacity = 16;
    while (capacity < wanted && capacity < (1u << 20))
        capacity *= 2;
    return capacity;
}

static kith_status allocate(kith_group *group, const ki_group_spec *spec)
{
    kith_ctx *ctx = group->ctx;
    const kith_allocator *a = &ctx->allocator;
    group->trace_capacity = power_of_two(ki_config_int(ctx->config, "flight_records"));
    group->world_ranks = (int *)ki_calloc(a, (size_t)spec->size, sizeof(int));
    group->node_of = (int *)ki_calloc(a, (size_t)spec->size, 2 * sizeof(int)); /* and room for build_part() */
    group->trace = (ki_trace_record *)ki_calloc(a, group->trace_capacity, sizeof *group->trace);
    if (group->world_ranks != NULL) /* the closing round needs them, whatever else is missing */
        memcpy(group->world_ranks, spec->world_ranks, (size_t)spec->size * sizeof(int));
    if (group->world_ranks == NULL || group->node_of == NULL || group->trace == NULL)
        return ki_fail(KITH_ERR_NO_MEMORY, "group '%s': no memory for %d ranks", spec->name, spec->size);
    if (ctx->device != NULL &&
        (group->device = (struct ki_group_device *)ki_calloc(a, 1, sizeof *group->device)) == NULL)
        return KITH_ERR_NO_MEMORY;
    number_nodes(group);
    return ki_order_create(spec->size, NULL, &group->order);
}

static void link_group(kith_group *group)
{
    kith_ctx *ctx = group->ctx;
    group->previous = NULL;
    group->next = ctx->groups;
    if (ctx->groups != NULL)
        ctx->groups->previous = group;
    ctx->groups = group;
}

static void unlink_group(kith_group *group)
{
    if (group->previous != NULL)
        group->previous->next = group->next;
    else if (group->ctx->groups == group)
        group->ctx->groups = group->next;
    if (group->next != NULL)
        group->next->previous = group->previous;
}

kith_status ki_group_ask(const kith_backend *backend, void *bg, bool is_device, ki_native (*table)[KI_QUERY_OPS])
{
    for (int kind = 0; kind < KITH_COLL_COUNT; kind++) {
        for (int column = 0; column < KI_QUERY_OPS; column++) {
            ki_native *native = &table[kind][column];
            for (int dtype = 0; dtype < KITH_DTYPE_COUNT; dtype++) {
                kith_be_query query = { .kind = (kith_coll_kind)kind,
                                        .dtype = (kith_dtype)dtype,
                                        .op = column < KITH_OP_BUILTIN_COUNT ? column : -1,
                                        .is_reducer_commutative = column != KITH_OP_BUILTIN_COUNT + 1,
                                        .is_premul_sum = column == KITH_OP_BUILTIN_COUNT + 2,
                                        .is_device = is_device };
                kith_be_answer answer = { 0, 0, NULL };
                kith_status status = backend->query(bg, &query, &answer);
                if (status != KITH_OK)
                    return status;
                native->dtypes |= (uint32_t)(answer.is_native != 0) << dtype;
                native->exact_dtypes |= (uint32_t)(answer.is_native && answer.is_deterministic) << dtype;
                if (answer.is_native)
                    native->algorithm = answer.algorithm;
            }
        }
    }
    return KITH_OK;
}

/* What all members must have found alike; compared in the closing round. */
static uint64_t hash_facts(const kith_group *group)
{
    uint64_t hash = group->agreed_hash;
    uint64_t select = ki_select_hash(group->ctx->select);
    hash = ki_hash(hash, &select, sizeof select);
    hash = ki_hash(hash, group->backend->name, strlen(group->backend->name));
    hash = ki_hash(hash, group->node_of, (size_t)group->size * sizeof(int));
    for (int kind = 0; kind < KITH_COLL_COUNT; kind++)
        for (int column = 0; column < KI_QUERY_OPS; column++)
            hash = ki_hash(hash, &group->native[kind][column], 2 * sizeof(uint32_t));
    hash = ki_hash(hash, &group->is_check, sizeof group->is_check);
    return hash;
}

static kith_status attach(kith_group *group, const char *name, ki_instance **instance, void **bg)
{
    if (strcmp(name, "shm") == 0 && ki_fault(KI_FAULT_SHM))
        return ki_fail(KITH_ERR_NO_RESOURCE, "group '%s': shared memory is refused by KITH_FAULT", group->name);
    kith_status status = ki_instance_get(group->ctx, name, instance);
    if (status != KITH_OK)
        return status;
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
    return (*instance)->backend->group_create((*instance)->be, &info, bg);
}

static kith_status open_backend(kith_group *group, const char *name)
{
    if (strcmp(name, "none") == 0)
        return ki_fail(
            KITH_ERR_UNSUPPORTED,
            "group '%s' spans hosts, and neither ucx nor mpi can be used on all of them; `kith info` says why",
            group->name);
    kith_status status = attach(group, name, &group->instance, &group->bg);
    if (status != KITH_OK)
        return status;
    group->backend = group->coll_backend = group->instance->backend;
    group->coll_instance = group->instance;
    group->coll_bg = group->bg;
    return ki_group_ask(group->backend, group->bg, false, group->native);
}

/* Closing round: everyone's status, then the facts. */
static kith_status close_creation(kith_group *group, kith_status mine, const char *part)
{
    uint64_t hash = mine == KITH_OK ? hash_facts(group) : 0;
    uint64_t *all = (uint64_t *)calloc((size_t)group->size, sizeof *all);
    if (all == NULL && mine == KITH_OK)
        mine = ki_fail(KITH_ERR_NO_MEMORY, "group '%s': no memory", group->name);
    char what[120];
    snprintf(what, sizeof what, "creating group '%s'%s", group->name, part);
    kith_status status = ki_group_exchange(group, what, mine, &hash, sizeof hash, all);
    for (int i = 0; status == KITH_OK && i < group->size; i++)
        if (all[i] != all[0])
            status = ki_fail(KITH_ERR_MISMATCH,
                             "creating group '%s': ranks 0 and %d disagree on backend, algorithms or capabilities "
                             "(settings or files differ)",
                             group->name, i);
    free(all);
    return status;
}

/* ---- collectives inside a host over shared memory, where the backend has messages alone ---- */

static bool is_any_forced(const kith_group *group)
{
    for (int kind = 0; kind < KITH_COLL_COUNT; kind++)
        if (ki_select_forced(group->ctx->select, (kith_coll_kind)kind) != NULL)
            return true;
    return false;
}

/* Who names algorithms wants those. */
static bool wants_shared_memory(const kith_group *group)
{
    const ki_config *config = group->ctx->config;
    const char *mode = ki_config_get(config, "hier");
    if (group->size == 1 || group->node_count > 1 || group->is_internal || group->backend->coll_start != NULL ||
        strcmp(mode, "off") == 0)
        return false;
    return strcmp(mode, "on") == 0 || (ki_config_get(config, "algo_table")[0] == '\0' && !is_any_forced(group));
}

/* All members end up with it, or none. Rounds as in a creation: who fails goes to the closing one. */
static kith_status open_shared_memory(kith_group *group)
{
    ki_instance *own = group->coll_instance;
    void *bg = NULL;
    group->is_ready = false;
    kith_status status = attach(group, "shm", &group->coll_instance, &bg);
    if (status == KITH_OK)
        status = ki_group_ask(group->coll_instance->backend, bg, false, group->native);
    status = close_creation(group, status, ": shared memory");
    group->is_ready = true;
    if (status == KITH_OK) {
        group->coll_backend = group->coll_instance->backend;
        group->coll_bg = bg;
        return KITH_OK;
    }
    if (bg != NULL)
        group->coll_instance->backend->group_destroy(bg);
    group->coll_instance = own;
    group->creation_status = KITH_OK;
    memset(group->native, 0, sizeof group->native);
    if (strcmp(ki_config_get(group->ctx->config, "hier"), "on") == 0)
        return status;
    ki_log(KITH_LOG_WARN, "group '%s' goes without collectives over shared memory: %s", group->name,
           kith_error_detail());
    return ki_group_ask(group->backend, group->bg, false, group->native);
}

/* ---- the hierarchical plan's groups ---- */

static bool wants_hier(const kith_group *group)
{
    const char *mode = ki_config_get(group->ctx->config, "hier");
    if (group->is_internal || group->node_count == 1 || strcmp(mode, "off") == 0)
        return false;
    return strcmp(mode, "on") == 0 || group->node_count < group->size;
}

kith_status ki_group_build_part(kith_group *group, const char *suffix, const char *backend, const int *world_ranks,
                                int count, int rank, kith_group **part)
{
    char name[80];
    snprintf(name, sizeof name, "%.40s.%s", group->name, suffix);
    uint64_t id = ki_hash(ki_hash(group->id, suffix, strlen(suffix)), &world_ranks[0], sizeof world_ranks[0]);
    ki_group_spec spec = { .name = name,
                           .backend = backend,
                           .id = id,
                           .world_ranks = world_ranks,
                           .size = count,
                           .rank = rank,
                           .timeout_ms = group->timeout_ms,
                           .is_internal = true };
    return ki_group_build(group->ctx, &spec, part);
}

static kith_status build_part(kith_group *group, const char *suffix, const char *backend, bool is_leaders,
                              kith_group **part)
{
    int count = 0, mine = -1, *ranks = group->node_of + group->size; /* nothing that could fail on one rank alone */
    for (int i = 0; i < group->size; i++) {
        bool is_first = true;
        for (int j = 0; is_leaders && j < i; j++)
            is_first = is_first && group->node_of[j] != group->node_of[i];
        if (is_leaders ? !is_first : group->node_of[i] != group->node_of[group->rank])
            continue;
        if (i == group->rank)
            mine = count;
        ranks[count++] = group->world_ranks[i];
    }
    return mine < 0 ? KITH_OK : ki_group_build_part(group, suffix, backend, ranks, count, mine, part);
}

/* All members end up with the plan, or none. */
static kith_status build_hier(kith_group *group)
{
    kith_status status = build_part(group, "node", "shm", false, &group->node);
    kith_status among = build_part(group, "leaders", group->backend->name, true, &group->leaders);
    if (status == KITH_OK)
        status = among;
    status = ki_group_exchange(group, "hierarchical plan", status, NULL, 0, NULL);
    if (status == KITH_OK) {
        group->is_fast = false;
        return KITH_OK;
    }
    ki_group_dispose(group->node);
    ki_group_dispose(group->leaders);
    group->node = group->leaders = NULL;
    if (strcmp(ki_config_get(group->ctx->config, "hier"), "on") == 0)
        return status;
    ki_log(KITH_LOG_WARN, "group '%s' goes without a hierarchical plan: %s", group->name, kith_error_detail());
    return KITH_OK;
}

static kith_status build(kith_ctx *ctx, ki_group_spec *spec, kith_group **group)
{
    kith_group *made = ki_group_alloc();
    if (made == NULL)
        return ki_group_give_up(ctx, spec, KITH_ERR_NO_MEMORY);
    made->ctx = ctx;
    made->id = spec->id;
    made->rank = spec->rank;
    made->size = spec->size;
    made->recent_op = -1;
    made->timeout_ms = spec->timeout_ms;
    made->is_check = spec->is_check;
    made->is_internal = spec->is_internal;
    made->is_exact = strcmp(ki_config_get(ctx->config, "deterministic"), "on") == 0;
    made->agreed_hash = KI_HASH_INIT;
    snprintf(made->name, sizeof made->name, "%s", spec->name);
    snprintf(made->wanted, sizeof made->wanted, "%s", spec->backend);
    link_group(made);
    bool is_device_only = false;
    kith_status status = allocate(made, spec);
    if (status == KITH_OK)
        status = ki_device_backend_check(ctx, spec->backend, &is_device_only);
    const char *host = is_device_only ? "auto" : spec->backend;
    if (status == KITH_OK)
        status = open_backend(made, ki_group_choose_backend(ctx, host, spec->world_ranks, spec->size));
    status = made->world_ranks != NULL ? close_creation(made, status, "") : ki_group_give_up(ctx, spec, status);
    if (status == KITH_OK)
        status = ki_group_device_open(made, is_device_only ? spec->backend : NULL, spec);
    made->is_ready = true;
    made->is_fast = status == KITH_OK && !made->is_check && !is_any_forced(made);
    if (status == KITH_OK && wants_shared_memory(made))
        status = open_shared_memory(made);
    if (status == KITH_OK && wants_hier(made))
        status = build_hier(made);
    if (status == KITH_OK)
        status = ki_device_hosts_open(made);
    if (status != KITH_OK) {
        ki_group_dispose(made);
        return status;
    }
    ki_group_device_tell(made);
    made->handle.magic = KI_GROUP_MAGIC;
    ki_log(KITH_LOG_DEBUG, "group '%s': %d ranks on %d hosts over %s%s", made->name, made->size, made->node_count,
           made->backend->name,
           made->node != NULL                    ? ", hierarchical"
           : made->coll_backend != made->backend ? ", collectives over shared memory"
                                                 : "");
    *group = made;
    return KITH_OK;
}

kith_status ki_group_build(kith_ctx *ctx, const ki_group_spec *spec, kith_group **group)
{
    ki_group_spec own = *spec;
    kith_status status = build(ctx, &own, group);
    ki_device_split_discard(&own);
    return status;
}

void ki_group_dispose(kith_group *group)
{
    if (group == NULL)
        return;
    kith_ctx *ctx = group->ctx;
    if (group->handle.magic == KI_GROUP_MAGIC) {
        ki_device_drain(group);
        ki_group_fail(group, KITH_ERR_ABORTED, "group '%s' was destroyed", group->name);
        ki_group_end_requests(group);
        ki_release_persistent(ctx, group);
    }
    ki_kept_release(group);
    ki_group_dispose(group->node);
    ki_group_dispose(group->leaders);
    ki_memory_free_all(group);
    ki_group_device_close(group);
    if (group->coll_bg != NULL && group->coll_bg != group->bg)
        group->coll_backend->group_destroy(group->coll_bg);
    if (group->bg != NULL)
        group->backend->group_destroy(group->bg);
    unlink_group(group);
    ki_order_destroy(&group->order);
    ki_free(&ctx->allocator, group->trace);
    ki_free(&ctx->allocator, group->world_ranks);
    ki_free(&ctx->allocator, group->node_of);
    ki_group_release(group);
}
