/* core/group.c - the public functions of kith/group.h.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "group.h"

#include "base/error.h"
#include "device/group.h"
#include "device/hosts.h"
#include "exchange.h"
#include "progress.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- creation ---- */

static kith_status check_options(const kith_group_options *options)
{
    if (options == NULL)
        return KITH_OK;
    if (options->struct_size != sizeof *options)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG,
                             "group options: struct_size is %zu, start from KITH_GROUP_OPTIONS_INIT",
                             options->struct_size);
    if (options->name != NULL && strlen(options->name) > 63)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "group options: the name '%.20s...' is longer than 63 bytes",
                             options->name);
    if (options->is_check != 0 && options->is_check != 1)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "group options: is_check is %d, not 0 or 1", options->is_check);
    return KITH_OK;
}

kith_status ki_group_build_child(kith_group *parent, const int *world_ranks, int count,
                                 const kith_group_options *options, const char *default_name, uint64_t salt,
                                 kith_status mine, kith_group **group)
{
    kith_ctx *ctx = parent->ctx;
    const kith_group_options none = KITH_GROUP_OPTIONS_INIT;
    const kith_group_options *o = options != NULL ? options : &none;
    ki_group_spec spec = {
        .name = o->name != NULL ? o->name : default_name,
        .backend = o->backend != NULL ? o->backend : parent->wanted, /* "auto" chooses anew for the members */
        .world_ranks = world_ranks,
        .size = count,
        .rank = -1,
        .timeout_ms = o->timeout_ms < 0   ? 0
                      : o->timeout_ms > 0 ? o->timeout_ms
                                          : parent->timeout_ms,
        .is_check = o->is_check != 0 || ctx->is_check,
    };
    for (int i = 0; i < count; i++)
        if (world_ranks[i] == ctx->rank)
            spec.rank = i;
    spec.id = ki_hash(ki_hash(parent->id, &salt, sizeof salt), world_ranks, (size_t)count * sizeof *world_ranks);
    kith_status status = ki_device_split(parent, &spec);
    if (mine == KITH_OK)
        mine = status;
    if (mine == KITH_OK)
        return ki_group_build(ctx, &spec, group);
    ki_device_split_discard(&spec);
    return ki_group_give_up(ctx, &spec, mine);
}

kith_status ki_group_stay_out(kith_group *parent)
{
    ki_group_spec none = { .backend = parent->wanted, .rank = -1 };
    kith_status status = ki_device_split(parent, &none);
    ki_device_split_discard(&none);
    return status;
}

/* Options as others must have them too. */
static uint64_t hash_options(const kith_group_options *o)
{
    uint64_t hash = KI_HASH_INIT;
    if (o == NULL)
        return hash;
    if (o->name != NULL)
        hash = ki_hash(hash, o->name, strlen(o->name));
    if (o->backend != NULL)
        hash = ki_hash(hash, o->backend, strlen(o->backend));
    hash = ki_hash(hash, &o->timeout_ms, sizeof o->timeout_ms);
    return ki_hash(hash, &o->is_check, sizeof o->is_check);
}

enum { WISH_SPLIT, WISH_LIST, WISH_DUP };

typedef struct wish {
    int32_t call; /* WISH_...; the hash covers a list */
    int32_t color, key;
    int32_t pad;
    uint64_t hash;
} wish;

/* Round one over the parent: what everyone wants. all: [parent's size]. */
static kith_status gather_wishes(kith_group *parent, const char *what, kith_status mine, const wish *own, wish *all)
{
    kith_status status = ki_group_exchange(parent, what, mine, own, sizeof *own, all);
    for (int i = 0; status == KITH_OK && i < parent->size; i++) {
        if (all[i].call != own->call)
            status = ki_fail(KITH_ERR_MISMATCH, "%s: ranks of '%s' called create, split or dup at the same time", what,
                             parent->name);
        else if (all[i].hash != all[0].hash)
            status = ki_fail(KITH_ERR_MISMATCH, "%s: ranks 0 and %d of '%s' gave different lists or options", what, i,
                             parent->name);
    }
    return status;
}

/* Round two: did every new group come about? */
static kith_status finish(kith_group *parent, const char *what, kith_status mine, kith_group *made, kith_group **group)
{
    kith_status status = ki_group_exchange(parent, what, mine, NULL, 0, NULL);
    if (status != KITH_OK) {
        ki_group_dispose(made);
        return status;
    }
    *group = made;
    return KITH_OK;
}

static kith_status check_call(kith_group *parent, const kith_group_options *options, kith_group **group,
                              const char *function)
{
    KI_CHECK_GROUP(parent, function);
    if (group == NULL)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "%s: the pointer for the group is NULL", function);
    kith_status status = ki_group_refuse(parent, function);
    return status != KITH_OK ? status : check_options(options);
}

/* The others are in step with this rank: a wrong argument here becomes everybody's error. An aborted parent is an
 * answer at once. */
static bool is_usable(const kith_group *parent)
{
    return ki_group_is_valid(parent) && parent->status == KITH_OK;
}

static kith_status check_list(const kith_group *parent, const int *ranks, size_t count)
{
    if (count == 0 || ranks == NULL)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "kith_group_create: the list of ranks is empty");
    if (count > (size_t)parent->size)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "kith_group_create: %zu ranks from a group of %d", count,
                             parent->size);
    for (size_t i = 0; i < count; i++) {
        if (ranks[i] < 0 || ranks[i] >= parent->size)
            return ki_fail_quiet(KITH_ERR_INVALID_ARG,
                                 "kith_group_create: rank %d is outside the parent '%s' (0 to %d)", ranks[i],
                                 parent->name, parent->size - 1);
        for (size_t j = 0; j < i; j++)
            if (ranks[j] == ranks[i])
                return ki_fail_quiet(KITH_ERR_INVALID_ARG, "kith_group_create: rank %d is listed twice", ranks[i]);
    }
    return KITH_OK;
}

static void default_name(const kith_group *parent, uint32_t number, char *name, size_t nbytes)
{
    snprintf(name, nbytes, "%.40s/%u", parent->name, number);
}

kith_status kith_group_create(kith_group *parent, const int *ranks, size_t count, const kith_group_options *options,
                              kith_group **group)
{
    kith_status status = check_call(parent, options, group, "kith_group_create");
    if (!is_usable(parent))
        return status;
    if (status == KITH_OK)
        status = check_list(parent, ranks, count);
    uint32_t number = parent->child_count++;
    char name[64];
    default_name(parent, number, name, sizeof name);
    wish own = { .call = WISH_LIST }, *all = (wish *)calloc((size_t)parent->size, sizeof *all);
    int *world = (int *)malloc((size_t)parent->size * sizeof *world);
    if (status == KITH_OK && (all == NULL || world == NULL))
        status = ki_fail(KITH_ERR_NO_MEMORY, "kith_group_create: no memory");
    if (status == KITH_OK)
        own.hash = ki_hash(hash_options(options), ranks, count * sizeof *ranks);
    status = gather_wishes(parent, "kith_group_create", status, &own, all);
    kith_group *made = NULL;
    if (status == KITH_OK) {
        bool is_member = false;
        for (size_t i = 0; i < count; i++) {
            world[i] = parent->world_ranks[ranks[i]];
            is_member |= ranks[i] == parent->rank;
        }
        status = is_member ? ki_group_build_child(parent, world, (int)count, options, name, number, KITH_OK, &made)
                           : ki_group_stay_out(parent);
        status = finish(parent, "kith_group_create", status, made, group);
    }
    free(all);
    free(world);
    return status;
}

typedef struct keyed {
    int key, rank;
} keyed;

static int by_key(const void *a, const void *b)
{
    const keyed *x = (const keyed *)a, *y = (const keyed *)b;
    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return x->rank - y->rank;
}

/* World ranks of those who chose color, ordered by key then rank. */
static int select_color(const kith_group *parent, const wish *all, int color, keyed *sorted, int *world)
{
    int count = 0;
    for (int i = 0; i < parent->size; i++)
        if (all[i].color == color)
            sorted[count++] = (keyed){ all[i].key, i };
    qsort(sorted, (size_t)count, sizeof *sorted, by_key);
    for (int i = 0; i < count; i++)
        world[i] = parent->world_ranks[sorted[i].rank];
    return count;
}

kith_status kith_group_split(kith_group *parent, int color, int key, const kith_group_options *options,
                             kith_group **group)
{
    kith_status status = check_call(parent, options, group, "kith_group_split");
    if (!is_usable(parent))
        return status;
    if (status == KITH_OK && color < KITH_NO_COLOR)
        status =
            ki_fail_quiet(KITH_ERR_INVALID_ARG, "kith_group_split: color %d is negative and not KITH_NO_COLOR", color);
    uint32_t number = parent->child_count++;
    char name[64];
    default_name(parent, number, name, sizeof name);
    size_t size = (size_t)parent->size;
    wish own = { .call = WISH_SPLIT, .color = color, .key = key }, *all = (wish *)calloc(size, sizeof *all);
    keyed *sorted = (keyed *)calloc(size, sizeof *sorted);
    int *world = (int *)calloc(size, sizeof *world);
    if (status == KITH_OK && (all == NULL || sorted == NULL || world == NULL))
        status = ki_fail(KITH_ERR_NO_MEMORY, "kith_group_split: no memory");
    if (status == KITH_OK)
        own.hash = hash_options(options);
    status = gather_wishes(parent, "kith_group_split", status, &own, all);
    kith_group *made = NULL;
    if (status == KITH_OK) {
        if (color != KITH_NO_COLOR) {
            int count = select_color(parent, all, color, sorted, world);
            status = ki_group_build_child(parent, world, count, options, name, number, KITH_OK, &made);
        } else {
            status = ki_group_stay_out(parent);
        }
        status = finish(parent, "kith_group_split", status, made, group);
    }
    free(all);
    free(sorted);
    free(world);
    return status;
}

kith_status kith_group_dup(kith_group *parent, const kith_group_options *options, kith_group **group)
{
    kith_status status = check_call(parent, options, group, "kith_group_dup");
    if (!is_usable(parent))
        return status;
    uint32_t number = parent->child_count++;
    char name[64];
    default_name(parent, number, name, sizeof name);
    wish own = { .call = WISH_DUP, .hash = status == KITH_OK ? hash_options(options) : 0 };
    wish *all = (wish *)calloc((size_t)parent->size, sizeof *all);
    if (status == KITH_OK && all == NULL)
        status = ki_fail(KITH_ERR_NO_MEMORY, "kith_group_dup: no memory");
    status = gather_wishes(parent, "kith_group_dup", status, &own, all);
    free(all);
    return status != KITH_OK
               ? status
               : ki_group_build_child(parent, parent->world_ranks, parent->size, options, name, number, KITH_OK, group);
}

kith_status kith_group_destroy(kith_group *group)
{
    if (group == NULL)
        return KITH_OK;
    KI_CHECK_GROUP(group, "kith_group_destroy");
    if (group == group->ctx->world)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "kith_group_destroy: the world goes with kith_finalize()");
    if (group->is_of_mesh)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "kith_group_destroy: group '%s' goes with kith_mesh_destroy()",
                             group->name);
    ki_group_dispose(group);
    return KITH_OK;
}

void ki_group_abort_transports(kith_group *group)
{
    group->backend->group_abort(group->bg);
    if (group->coll_bg != group->bg)
        group->coll_backend->group_abort(group->coll_bg);
}

kith_status kith_group_abort(kith_group *group)
{
    KI_CHECK_GROUP(group, "kith_group_abort");
    atomic_store_explicit(&group->abort_flag, 1, memory_order_release);
    ki_group_abort_transports(group);
    ki_group_device_abort(group);
    if (group->node != NULL)
        kith_group_abort(group->node);
    if (group->leaders != NULL)
        kith_group_abort(group->leaders);
    if (group->device != NULL)
        ki_device_hosts_abort(group);
    return KITH_OK;
}

/* ---- questions ---- */

int kith_group_rank(const kith_group *group)
{
    return ki_group_is_valid(group) ? group->rank : -1;
}

int kith_group_size(const kith_group *group)
{
    return ki_group_is_valid(group) ? group->size : -1;
}

const char *kith_group_name(const kith_group *group)
{
    return ki_group_is_valid(group) ? group->name : "";
}

const char *kith_group_backend(const kith_group *group)
{
    if (!ki_group_is_valid(group))
        return "";
    bool is_device_only =
        group->device != NULL && group->device->bg != NULL && strcmp(group->device->backend->name, group->wanted) == 0;
    return is_device_only ? group->device->backend->name : group->backend->name;
}

kith_ctx *kith_group_ctx(const kith_group *group)
{
    return ki_group_is_valid(group) ? group->ctx : NULL;
}

int kith_group_world_rank(const kith_group *group, int rank)
{
    return ki_group_is_valid(group) && rank >= 0 && rank < group->size ? group->world_ranks[rank] : -1;
}

int kith_group_rank_of_world(const kith_group *group, int world_rank)
{
    for (int i = 0; ki_group_is_valid(group) && i < group->size; i++)
        if (group->world_ranks[i] == world_rank)
            return i;
    return -1;
}

kith_status kith_group_translate_rank(const kith_group *from, int rank, const kith_group *to, int *to_rank)
{
    KI_CHECK_GROUP(from, "kith_group_translate_rank");
    KI_CHECK_GROUP(to, "kith_group_translate_rank");
    int found = kith_group_rank_of_world(to, kith_group_world_rank(from, rank));
    if (to_rank == NULL || rank < 0 || rank >= from->size || found < 0)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "kith_group_translate_rank: rank %d of '%s' is not in '%s'", rank,
                             from->name, to->name);
    *to_rank = found;
    return KITH_OK;
}

kith_status kith_group_set_timeout(kith_group *group, int64_t timeout_ms)
{
    KI_CHECK_GROUP(group, "kith_group_set_timeout");
    if (timeout_ms < 0)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "kith_group_set_timeout: %lld ms is negative",
                             (long long)timeout_ms);
    group->timeout_ms = timeout_ms;
    if (group->node != NULL)
        group->node->timeout_ms = timeout_ms;
    if (group->leaders != NULL)
        group->leaders->timeout_ms = timeout_ms;
    return KITH_OK;
}

kith_status kith_group_status(const kith_group *group)
{
    KI_CHECK_GROUP(group, "kith_group_status");
    if (atomic_load_explicit(&group->abort_flag, memory_order_acquire) != 0 && group->status == KITH_OK)
        return ki_fail_quiet(KITH_ERR_ABORTED, "group '%s' was aborted", group->name);
    return group->status == KITH_OK ? KITH_OK : ki_fail_quiet(group->status, "%s", group->reason);
}

kith_status kith_agree(kith_group *group, kith_status mine)
{
    KI_CHECK_GROUP(group, "kith_agree");
    if (group->size == 1)
        return mine == KITH_OK ? KITH_OK
                               : ki_fail_quiet(mine, "kith_agree on group '%s': rank 0 gave %s", group->name,
                                               kith_status_name(mine));
    /* The lowest status wins; its lowest rank is carried along. */
    int64_t worst = (int64_t)mine * (INT64_C(1) << 32) + group->rank;
    kith_status status = kith_all_reduce(group, &worst, &worst, 1, KITH_INT64, KITH_MIN);
    if (status != KITH_OK)
        return status;
    kith_status agreed = (kith_status)(worst >> 32);
    int rank = (int)(worst & 0xffffffff);
    return agreed == KITH_OK ? KITH_OK
                             : ki_fail_quiet(agreed, "rank %d of group '%s' reported: %s", rank, group->name,
                                             kith_status_sentence(agreed));
}
