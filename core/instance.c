/* core/instance.c - see instance.h. What a backend gets is kith_be_host: functions that find the context again
 * through the cookie.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "instance.h"

#include "base/error.h"
#include "base/ifname.h"
#include "base/log.h"
#include "device/group.h"
#include "device/stage.h"
#include "exchange.h"
#include "progress.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *ki_ctx_setting(const kith_ctx *ctx, const char *name, const char *default_value)
{
    const char *value = ki_config_get(ctx->config, name);
    return value != NULL ? value : default_value;
}

static void host_log(void *cookie, kith_log_level level, const char *line)
{
    ki_instance *instance = (ki_instance *)cookie;
    ki_log(level, "%s: %s", instance->backend->name, line);
}

static void *host_alloc(void *cookie, size_t nbytes, size_t alignment)
{
    ki_instance *instance = (ki_instance *)cookie;
    const kith_allocator *a = &instance->ctx->allocator;
    return a->alloc(a->arg, nbytes, alignment);
}

static void host_free(void *cookie, void *ptr)
{
    ki_instance *instance = (ki_instance *)cookie;
    if (ptr != NULL)
        instance->ctx->allocator.free(instance->ctx->allocator.arg, ptr);
}

static const char *host_setting(void *cookie, const char *name, const char *default_value)
{
    kith_ctx *ctx = ((ki_instance *)cookie)->ctx;
    if (strcmp(name, "ifname") != 0)
        return ki_ctx_setting(ctx, name, default_value);
    ki_ifname_names(ki_ctx_setting(ctx, name, ""), ctx->interfaces, sizeof ctx->interfaces);
    return ctx->interfaces;
}

/* Groups are created one at a time: the facts go to the one that is not ready yet. */
static void host_agree(void *cookie, const char *name, uint64_t value)
{
    kith_ctx *ctx = ((ki_instance *)cookie)->ctx;
    for (kith_group *g = ctx->groups; g != NULL; g = g->next) {
        if (g->is_ready || (g->instance != cookie && g->coll_instance != cookie &&
                            (g->device == NULL || g->device->instance != cookie)))
            continue;
        g->agreed_hash = ki_hash(g->agreed_hash, name, strlen(name));
        g->agreed_hash = ki_hash(g->agreed_hash, &value, sizeof value);
        return;
    }
}

static kith_status host_exchange(void *group_cookie, kith_status mine, const void *in, size_t nbytes, void *out)
{
    kith_group *group = (kith_group *)group_cookie;
    return ki_group_exchange(group, group->name, mine, in, nbytes, out);
}

static void note_key(const kith_group *group, const char *name, char *key, size_t nbytes)
{
    snprintf(key, nbytes, "note/%016llx/%s", (unsigned long long)group->id, name);
}

static kith_status host_put(void *group_cookie, const char *name, const void *note, size_t nbytes)
{
    kith_group *group = (kith_group *)group_cookie;
    char key[160];
    if (nbytes > KITH_BE_NOTE_NBYTES)
        return ki_fail(KITH_ERR_INTERNAL, "a backend's note '%s' has %zu bytes, %d are allowed", name, nbytes,
                       KITH_BE_NOTE_NBYTES);
    note_key(group, name, key, sizeof key);
    return group->ctx->store != NULL ? ki_store_set(group->ctx->store, key, note, nbytes)
                                     : KITH_OK; /* one rank alone */
}

static kith_status host_get(void *group_cookie, const char *name, void *note, size_t nbytes)
{
    kith_group *group = (kith_group *)group_cookie;
    char key[160];
    void *value = NULL;
    size_t got = 0;
    note_key(group, name, key, sizeof key);
    if (group->ctx->store == NULL) /* a job of one rank */
        return KITH_ERR_BUSY;
    kith_status status = ki_store_get(group->ctx->store, key, 1, &value, &got);
    if (status == KITH_ERR_TIMEOUT)
        return KITH_ERR_BUSY;
    if (status == KITH_OK && got != nbytes)
        status =
            ki_fail(KITH_ERR_INTERNAL, "a backend's note '%s' has %zu bytes, %zu were expected", name, got, nbytes);
    if (status == KITH_OK)
        memcpy(note, value, nbytes);
    free(value);
    return status;
}

static kith_status host_device_copy(void *cookie, void *to, const void *from, size_t nbytes)
{
    return ki_stage_copy_now(((ki_instance *)cookie)->ctx, to, from, nbytes);
}

static void host_peer_failed(void *group_cookie, int peer, const char *why)
{
    kith_group *group = (kith_group *)group_cookie;
    if (!ki_group_is_valid(group))
        return;
    if (peer >= 0 && peer < group->size)
        ki_group_fail(group, KITH_ERR_PEER_FAILED, "group '%s': rank %d (world rank %d) failed: %s", group->name, peer,
                      group->world_ranks[peer], why);
    else
        ki_group_fail(group, KITH_ERR_PEER_FAILED, "group '%s': the transport failed: %s", group->name, why);
}

static void fill_host(ki_instance *instance)
{
    kith_ctx *ctx = instance->ctx;
    instance->host = (kith_be_host){
        .struct_size = sizeof(kith_be_host),
        .cookie = instance,
        .rank = ctx->rank,
        .size = ctx->size,
        .local_rank = ctx->local_rank,
        .local_size = ctx->local_size,
        .node_of = ctx->node_of,
        .is_threads = ctx->is_threads,
        .spin = ctx->spin,
        .connect_timeout_ms = ctx->connect_timeout_ms,
        .fail = ki_fail,
        .log = host_log,
        .alloc = host_alloc,
        .free = host_free,
        .setting = host_setting,
        .agree = host_agree,
        .exchange = host_exchange,
        .peer_failed = host_peer_failed,
        .job_id = ctx->job_id,
        .device = ctx->device != NULL ? ctx->device->ordinal : -1,
        .put = host_put,
        .get = host_get,
        .device_copy = host_device_copy,
    };
}

kith_status ki_instance_get(kith_ctx *ctx, const char *name, ki_instance **instance)
{
    for (int i = 0; i < ctx->instance_count; i++) {
        if (strcmp(ctx->instances[i].backend->name, name) == 0) {
            *instance = &ctx->instances[i];
            return KITH_OK;
        }
    }
    if (ctx->instance_count == KI_MAX_INSTANCES)
        return ki_fail(KITH_ERR_NO_RESOURCE, "more than %d backends in one context", KI_MAX_INSTANCES);
    const kith_backend *backend;
    kith_status status = ki_registry_find(name, &backend);
    if (status != KITH_OK)
        return status;
    status = ki_config_add_backend(ctx->config, backend);
    if (status != KITH_OK)
        return status;
    ki_instance *fresh = &ctx->instances[ctx->instance_count];
    fresh->backend = backend;
    fresh->ctx = ctx;
    fill_host(fresh);
    status = backend->open(&fresh->host, &fresh->be);
    if (status != KITH_OK)
        return status;
    ctx->instance_count++;
    *instance = fresh;
    return KITH_OK;
}

void ki_instances_close(kith_ctx *ctx)
{
    while (ctx->instance_count > 0) {
        ki_instance *last = &ctx->instances[--ctx->instance_count];
        last->backend->close(last->be);
    }
}
