/* core/context.c - kith_init and kith_finalize.
 *
 * Order of joining: options and settings -> who and where (boot/launch) -> the store -> hello (join.c) -> which
 * backends are usable everywhere -> the world group. Each step's failure is carried to the next meeting of the ranks,
 * so that all return the same status; before the store is open a failure is local, and the others miss this rank at
 * their deadline.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "base/clock.h"
#include "base/error.h"
#include "base/fault.h"
#include "base/log.h"
#include "device/facts.h"
#include "device/group.h"
#include "exchange.h"
#include "group.h"
#include "instance.h"
#include "join.h"
#include "mesh.h"
#include "op.h"
#include "progress.h"
#include "request.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- options and settings ---- */

/* Callers that were compiled before there were devices bring a shorter struct. */
static kith_status take_options(const kith_init_options *given, kith_init_options *options)
{
    if (given != NULL && given->struct_size != sizeof *given &&
        given->struct_size != offsetof(kith_init_options, device))
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "kith_init: struct_size is %zu, start from KITH_INIT_OPTIONS_INIT",
                             given->struct_size);
    if (given != NULL)
        memcpy(options, given, given->struct_size);
    return KITH_OK;
}

static kith_status check_options(const kith_init_options *options)
{
    if (options->size < 0 || (options->size > 0 && (options->rank < 0 || options->rank >= options->size)))
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "kith_init: rank %d of %d is not possible", options->rank,
                             options->size);
    if (options->connect_timeout_ms < 0)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG,
                             "kith_init: connect_timeout_ms is negative; joining needs a deadline");
    if (options->settings == NULL && options->setting_count > 0)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "kith_init: settings is NULL but setting_count is %zu",
                             options->setting_count);
    const kith_allocator *a = options->allocator;
    if (a != NULL && (a->alloc == NULL || a->free == NULL))
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "kith_init: the allocator lacks alloc or free");
    return KITH_OK;
}

static kith_status make_select(kith_ctx *ctx)
{
    ki_select_options options = {
        .force = ki_config_get(ctx->config, "algo"),
        .table_path = ki_config_get(ctx->config, "algo_table"),
        .is_deterministic = strcmp(ki_config_get(ctx->config, "deterministic"), "off") != 0,
        .allocator = &ctx->allocator,
    };
    return ki_select_create(&options, &ctx->select);
}

static kith_status read_settings(kith_ctx *ctx, const kith_init_options *options)
{
    const kith_backend *shm;
    kith_status status = ki_registry_find("shm", &shm);
    if (status != KITH_OK)
        return status;
    status = ki_config_create(options->settings, options->setting_count, &shm, 1, &ctx->config);
    if (status != KITH_OK)
        return status;
    ctx->timeout_ms = options->timeout_ms == 0  ? ki_config_int(ctx->config, "timeout_ms")
                      : options->timeout_ms < 0 ? 0
                                                : options->timeout_ms;
    ctx->connect_timeout_ms = options->connect_timeout_ms > 0 ? options->connect_timeout_ms
                                                              : ki_config_int(ctx->config, "connect_timeout_ms");
    ctx->is_check = ki_config_bool(ctx->config, "check");
    const char *backend = options->backend != NULL ? options->backend : ki_config_get(ctx->config, "backend");
    snprintf(ctx->backend, sizeof ctx->backend, "%s", backend);
    return make_select(ctx);
}

/* ---- meeting ---- */

/* The mpi module is asked who we are only when there is a reason to open it: MPI is in the process, the user wants
 * mpi, or an MPI launcher started us. */
static bool may_ask_mpi(const kith_ctx *ctx)
{
    return dlsym(RTLD_DEFAULT, "MPI_Initialized") != NULL || strcmp(ctx->backend, "mpi") == 0 ||
           getenv("OMPI_COMM_WORLD_SIZE") != NULL || getenv("PMI_SIZE") != NULL;
}

static kith_status find_launch(kith_ctx *ctx, const kith_init_options *options)
{
    const kith_backend *module = NULL;
    size_t count = 0;
    if (options->size == 0 && may_ask_mpi(ctx) && ki_registry_has("mpi") &&
        ki_registry_find("mpi", &module) == KITH_OK && module->launch != NULL)
        count = 1;
    kith_status status = ki_launch_detect(options, ctx->config, &module, count, &ctx->launch);
    if (status != KITH_OK)
        return status;
    ctx->rank = ctx->launch.rank;
    ctx->size = ctx->launch.size;
    ki_log_set_rank(ctx->rank);
    ki_log(KITH_LOG_INFO, "rank %d of %d from %s", ctx->rank, ctx->size, ctx->launch.source);
    return ki_fault_configure(ctx->rank);
}

static kith_status open_store(kith_ctx *ctx, const kith_init_options *options)
{
    if (ctx->size == 1)
        return KITH_OK;
    ki_store_options store = {
        .url = ctx->launch.store,
        .secret = options->secret != NULL ? options->secret : ki_config_get(ctx->config, "secret"),
        .ifname = ki_config_get(ctx->config, "ifname"),
        .rank = ctx->rank,
        .size = ctx->size,
        .timeout_ms = ctx->connect_timeout_ms,
    };
    kith_status status = KITH_OK;
    if (!ctx->launch.needs_broadcast)
        return ki_store_open(&store, &ctx->store);
    /* Rank 0 listens where it likes and tells the others through MPI; an empty text tells that it failed. */
    char url[512] = "";
    if (ctx->rank == 0) {
        status = ki_store_open(&store, &ctx->store);
        if (status == KITH_OK)
            snprintf(url, sizeof url, "%s", ki_store_url(ctx->store));
    }
    kith_status told = ctx->launch.module->launch_broadcast(url, sizeof url);
    if (status != KITH_OK || told != KITH_OK)
        return status != KITH_OK ? status : told;
    if (ctx->rank == 0)
        return KITH_OK;
    if (url[0] == '\0')
        return ki_fail(KITH_ERR_UNREACHABLE, "kith_init: rank 0 could not open the store");
    store.url = url;
    return ki_store_open(&store, &ctx->store);
}

/* "auto" across hosts needs to know what all ranks can use. */
static kith_status agree_backends(kith_ctx *ctx)
{
    bool is_auto = strcmp(ctx->backend, "auto") == 0 || ctx->device_facts != NULL; /* beside a backend for devices */
    if (ctx->node_count == 1 || !is_auto)
        return KITH_OK;
    const kith_backend *found;
    unsigned char own[2] = { ki_registry_has("ucx") && ki_registry_find("ucx", &found) == KITH_OK,
                             ki_registry_has("mpi") && ki_registry_find("mpi", &found) == KITH_OK };
    unsigned char *all = (unsigned char *)calloc((size_t)ctx->size, sizeof own);
    int *ranks = (int *)malloc((size_t)ctx->size * sizeof *ranks);
    if (all == NULL || ranks == NULL) {
        free(all);
        free(ranks);
        return ki_fail(KITH_ERR_NO_MEMORY, "kith_init: no memory");
    }
    for (int i = 0; i < ctx->size; i++)
        ranks[i] = i;
    kith_status status =
        ki_boot_exchange(ctx, "join/backends", "kith_init", ranks, ctx->rank, ctx->size, KITH_OK, own, sizeof own, all);
    ctx->has_ucx = ctx->has_mpi = true;
    for (int i = 0; status == KITH_OK && i < ctx->size; i++) {
        ctx->has_ucx = ctx->has_ucx && all[2 * i] != 0;
        ctx->has_mpi = ctx->has_mpi && all[2 * i + 1] != 0;
    }
    free(all);
    free(ranks);
    return status;
}

static kith_status build_world(kith_ctx *ctx)
{
    int *ranks = (int *)malloc((size_t)ctx->size * sizeof *ranks);
    if (ranks == NULL)
        return ki_fail(KITH_ERR_NO_MEMORY, "kith_init: no memory for %d ranks", ctx->size);
    for (int i = 0; i < ctx->size; i++)
        ranks[i] = i;
    ki_group_spec spec = {
        .name = "world",
        .backend = ctx->backend,
        .id = ki_hash(KI_HASH_INIT, "world", 5),
        .world_ranks = ranks,
        .size = ctx->size,
        .rank = ctx->rank,
        .timeout_ms = ctx->timeout_ms,
        .is_check = ctx->is_check,
    };
    kith_status status = ki_group_build(ctx, &spec, &ctx->world);
    free(ranks);
    return status;
}

/* "ucx_tls" is a row of the ucx backend, which may be opened later or never. */
static bool belongs_to_backend(const char *name)
{
    char backend[32];
    size_t length = strcspn(name, "_");
    if (name[length] == '\0' || length >= sizeof backend)
        return false;
    memcpy(backend, name, length);
    backend[length] = '\0';
    return ki_registry_has(backend);
}

static kith_status join(kith_ctx *ctx, const kith_init_options *options)
{
    kith_status status = read_settings(ctx, options);
    if (status == KITH_OK)
        status = find_launch(ctx, options);
    if (status == KITH_OK)
        status = open_store(ctx, options);
    if (status != KITH_OK)
        return status;
    const char *device = options->device != NULL ? options->device : ki_config_get(ctx->config, "device");
    bool wants_device = false;
    ctx->node_of = (int *)ki_calloc(&ctx->allocator, (size_t)ctx->size, sizeof(int));
    status = ki_join(ctx, ctx->node_of != NULL ? KITH_OK : KITH_ERR_NO_MEMORY, *device != '\0', &wants_device);
    if (status == KITH_OK)
        status = ki_ctx_open_device(ctx, device, wants_device);
    if (status == KITH_OK)
        status = agree_backends(ctx);
    if (status == KITH_OK)
        status = build_world(ctx);
    if (status == KITH_OK)
        status = ki_config_check_claimed(ctx->config, belongs_to_backend);
    if (status == KITH_OK)
        ki_config_warn_unknown(ctx->config, belongs_to_backend);
    return status;
}

/* ---- leaving ---- */

static void tear_down(kith_ctx *ctx, bool is_orderly)
{
    while (ctx->meshes != NULL)
        kith_mesh_destroy(ctx->meshes);
    ctx->world = NULL;
    while (ctx->groups != NULL) {
        kith_group *group = ctx->groups;
        while (group->is_internal && group->next != NULL) /* parts go with their whole */
            group = group->next;
        ki_group_dispose(group);
    }
    ki_release_persistent(ctx, NULL);
    ki_instances_close(ctx);
    ki_ctx_close_device(ctx);
    ki_store_close(ctx->store, is_orderly, ki_deadline_after_ms(ctx->connect_timeout_ms));
    ki_ops_fini(ctx);
    ki_select_destroy(ctx->select);
    ki_free(&ctx->allocator, ctx->node_of);
    ki_free(&ctx->allocator, ctx->exchange_room);
    ki_config_destroy(ctx->config);
    ki_ctx_release(ctx);
}

kith_status kith_init(const kith_init_options *options, kith_ctx **ctx)
{
    kith_init_options own = KITH_INIT_OPTIONS_INIT;
    if (ctx == NULL)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "kith_init: the pointer for the context is NULL");
    kith_status status = take_options(options, &own);
    options = &own;
    if (status == KITH_OK)
        status = check_options(options);
    if (status != KITH_OK)
        return status;
    kith_ctx *made = ki_ctx_alloc();
    if (made == NULL)
        return KITH_ERR_NO_MEMORY;
    ki_allocator_init(&made->allocator, options->allocator);
    status = join(made, options);
    if (status != KITH_OK) {
        char detail[KI_DETAIL_NBYTES];
        snprintf(detail, sizeof detail, "%s", kith_error_detail());
        tear_down(made, true);
        return ki_fail_quiet(status, "%s", detail);
    }
    made->handle.magic = KI_CTX_MAGIC;
    *ctx = made;
    return KITH_OK;
}

/* Sent data leaves, as far as that needs this process. */
static void drain(kith_ctx *ctx)
{
    int64_t deadline = ki_deadline_after_ms(ctx->connect_timeout_ms);
    ki_waiter waiter;
    ki_waiter_init(&waiter, ctx, 0);
    for (int i = 0; i < ctx->instance_count; i++) {
        ki_instance *instance = &ctx->instances[i];
        while (ctx->world->status == KITH_OK && !instance->backend->is_drained(instance->be) &&
               !ki_deadline_passed(deadline)) {
            ki_ctx_step(ctx);
            ki_waiter_pause(&waiter);
        }
    }
}

static kith_status meet_at_end(kith_ctx *ctx, bool is_healthy)
{
    if (ctx->size == 1 || !is_healthy)
        return KITH_OK; /* after a failure nobody is waited for */
    kith_status status = ki_boot_exchange(ctx, "finalize", "kith_finalize", ctx->world->world_ranks, ctx->rank,
                                          ctx->size, KITH_OK, NULL, 0, NULL);
    return status == KITH_ERR_PEER_FAILED ? KITH_OK : status; /* who died, or left after a failure, is not waited for */
}

kith_status kith_finalize(kith_ctx *ctx)
{
    if (ctx == NULL)
        return KITH_OK;
    if (!ki_ctx_is_valid(ctx))
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "kith_finalize: not a context, or finalized before");
    bool is_healthy = ctx->world->status == KITH_OK;
    for (kith_group *g = ctx->groups; g != NULL; g = g->next) {
        ki_device_drain(g);
        if (g->queue_head == NULL && g->messages == NULL)
            continue;
        ki_group_fail(g, KITH_ERR_ABORTED, "group '%s' was finalized with requests pending", g->name);
        ki_group_end_requests(g);
    }
    drain(ctx);
    kith_status status = meet_at_end(ctx, is_healthy);
    char detail[KI_DETAIL_NBYTES];
    snprintf(detail, sizeof detail, "%s", kith_error_detail());
    tear_down(ctx, true);
    return status == KITH_OK ? KITH_OK : ki_fail_quiet(status, "%s", detail);
}

void kith_abandon(kith_ctx *ctx)
{
    if (!ki_ctx_is_valid(ctx))
        return;
    ki_ctx_device_abort(ctx, -1);
    for (kith_group *g = ctx->groups; g != NULL; g = g->next) {
        if (g->handle.magic != KI_GROUP_MAGIC)
            continue;
        ki_group_fail(g, KITH_ERR_ABORTED, "the context was abandoned");
        ki_group_abort_transports(g);
        ki_group_device_abort(g);
        ki_group_end_requests(g);
    }
    tear_down(ctx, false);
}

/* ---- questions ---- */

int kith_rank(const kith_ctx *ctx)
{
    return ki_ctx_is_valid(ctx) ? ctx->rank : -1;
}

int kith_size(const kith_ctx *ctx)
{
    return ki_ctx_is_valid(ctx) ? ctx->size : -1;
}

int kith_local_rank(const kith_ctx *ctx)
{
    return ki_ctx_is_valid(ctx) ? ctx->local_rank : -1;
}

int kith_local_size(const kith_ctx *ctx)
{
    return ki_ctx_is_valid(ctx) ? ctx->local_size : -1;
}

int kith_node_of(const kith_ctx *ctx, int world_rank)
{
    return ki_ctx_is_valid(ctx) && world_rank >= 0 && world_rank < ctx->size ? ctx->node_of[world_rank] : -1;
}

int kith_node_count(const kith_ctx *ctx)
{
    return ki_ctx_is_valid(ctx) ? ctx->node_count : -1;
}

kith_group *kith_world(const kith_ctx *ctx)
{
    return ki_ctx_is_valid(ctx) ? ctx->world : NULL;
}

kith_status kith_progress(kith_ctx *ctx)
{
    if (!ki_ctx_is_valid(ctx))
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "kith_progress: not a context");
    ki_ctx_step(ctx);
    for (kith_group *group = ctx->groups; group != NULL; group = group->next)
        ki_group_notice_abort(group);
    return KITH_OK;
}

const char *kith_version(void)
{
    return KITH_VERSION_STRING;
}

void kith_free(void *ptr)
{
    free(ptr);
}
