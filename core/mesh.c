/* core/mesh.c - the mesh object: one group per axis and per product, made together. See kith/mesh.h; arithmetic in
 * grid.c.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "mesh.h"

#include "base/error.h"
#include "exchange.h"
#include "group.h"
#include "progress.h"
#include "topology/place.h"
#include <kith/placement.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EMBED_MASK (1u << 31) /* first and last rank of pp */

/* ---- making ---- */

static kith_status make_room(kith_mesh *mesh)
{
    const kith_allocator *a = &mesh->ctx->allocator;
    mesh->placement = (int *)ki_calloc(a, (size_t)mesh->grid.world, sizeof(int));
    mesh->position_of = (int *)ki_calloc(a, (size_t)mesh->grid.world, sizeof(int));
    mesh->scratch = (int *)ki_calloc(a, (size_t)mesh->grid.world, 2 * sizeof(int));
    return mesh->placement != NULL && mesh->position_of != NULL && mesh->scratch != NULL ? KITH_OK : KITH_ERR_NO_MEMORY;
}

static kith_status place(kith_mesh *mesh, const int *placement)
{
    int world = mesh->grid.world;
    for (int i = 0; i < world; i++)
        mesh->position_of[i] = -1;
    for (int i = 0; i < world; i++) {
        int rank = placement != NULL ? placement[i] : i;
        if (rank < 0 || rank >= world || mesh->position_of[rank] >= 0)
            return ki_fail_quiet(KITH_ERR_INVALID_ARG, "mesh: placement[%d] = %d is outside 0 to %d or repeated", i,
                                 rank, world - 1);
        mesh->placement[i] = rank;
        mesh->position_of[rank] = i;
    }
    mesh->position = mesh->position_of[mesh->rank];
    return KITH_OK;
}

/* Value of key in "tp=shm,dp=ucx"; false when there is none. */
static bool find_backend(const char *list, const char *key, char *value, size_t nbytes)
{
    size_t length = strlen(key);
    while (list != NULL && *list != '\0') {
        size_t entry = strcspn(list, ",");
        if (entry > length && strncmp(list, key, length) == 0 && list[length] == '=') {
            snprintf(value, nbytes, "%.*s", (int)(entry - length - 1), list + length + 1);
            return true;
        }
        list += entry + (list[entry] == ',');
    }
    return false;
}

/* Every entry is a name of this mesh and a backend's: a misspelt one would be passed over in silence. */
static kith_status check_backends(const ki_grid *grid, const char *list)
{
    while (list != NULL && *list != '\0') {
        char name[64];
        unsigned mask;
        size_t entry = strcspn(list, ","), key = strcspn(list, "=,");
        if (key == 0 || key >= sizeof name || key + 1 >= entry)
            return ki_fail_quiet(KITH_ERR_INVALID_ARG, "mesh: backends has '%.*s', which is not axis=backend",
                                 (int)entry, list);
        snprintf(name, sizeof name, "%.*s", (int)key, list);
        kith_status status = strcmp(name, "embed") == 0 ? KITH_OK : ki_grid_mask(grid, name, &mask);
        if (status != KITH_OK)
            return status;
        list += entry + (list[entry] == ',');
    }
    return KITH_OK;
}

/* A rank that has failed goes on to each further group with that: the members of one that it did not come to would wait
 * for it, and the groups of base would be numbered otherwise than on other ranks. */
static void note(kith_mesh *mesh, kith_status status)
{
    if (mesh->status == KITH_OK)
        mesh->status = status;
}

static void add_group(kith_mesh *mesh, const char *name, unsigned mask, const int *positions, int count,
                      const kith_mesh_options *options)
{
    kith_group *base = mesh->base;
    uint32_t number = base->child_count++;
    if (mesh->group_count == KI_MESH_MAX_GROUPS) {
        note(mesh, ki_fail_quiet(KITH_ERR_INVALID_ARG, "mesh: more than %d groups", KI_MESH_MAX_GROUPS));
        return;
    }
    ki_mesh_group *slot = &mesh->groups[mesh->group_count++];
    slot->mask = mask;
    if (count == 0) {
        note(mesh, ki_group_stay_out(base));
        return;
    }
    int *world = mesh->scratch + mesh->grid.world;
    for (int i = 0; i < count; i++)
        world[i] = base->world_ranks[mesh->placement[positions[i]]];
    char backend[32];
    kith_group_options made = KITH_GROUP_OPTIONS_INIT;
    made.name = name;
    made.timeout_ms = options->timeout_ms;
    if (find_backend(options->backends, name, backend, sizeof backend))
        made.backend = backend;
    note(mesh, ki_group_build_child(base, world, count, &made, name, number, mesh->status, &slot->group));
    if (slot->group != NULL)
        slot->group->is_of_mesh = true;
}

static void add_masked(kith_mesh *mesh, const char *name, unsigned mask, const kith_mesh_options *options)
{
    int count = ki_grid_extent(&mesh->grid, mask);
    ki_grid_members(&mesh->grid, mask, mesh->position, mesh->scratch);
    add_group(mesh, name, mask, mesh->scratch, count, options);
}

/* Options are the same on all ranks: so is a wrong name. */
static void add_products(kith_mesh *mesh, const kith_mesh_options *options)
{
    const char *list = options->products;
    while (list != NULL && *list != '\0') {
        char name[64];
        unsigned mask;
        size_t length = strcspn(list, ",");
        snprintf(name, sizeof name, "%.*s", (int)length, list);
        list += length + (list[length] == ',');
        kith_status status = ki_grid_mask(&mesh->grid, name, &mask);
        if (status == KITH_OK)
            add_masked(mesh, name, mask, options);
        else
            note(mesh, status);
    }
}

static void add_embed(kith_mesh *mesh, const kith_mesh_options *options)
{
    int axis = ki_grid_axis(&mesh->grid, "pp");
    if (axis < 0 || mesh->grid.sizes[axis] < 2)
        return;
    int stages = mesh->grid.sizes[axis], coord = ki_grid_coord(&mesh->grid, mesh->position, axis);
    ki_grid_members(&mesh->grid, 1u << axis, mesh->position, mesh->scratch);
    const int ends[2] = { mesh->scratch[0], mesh->scratch[stages - 1] };
    bool is_end = coord == 0 || coord == stages - 1;
    add_group(mesh, "embed", EMBED_MASK, ends, is_end ? 2 : 0, options);
}

/* All or nothing, everywhere: every group first (each agrees among its members), then one round over base. */
static kith_status make_groups(kith_mesh *mesh, const kith_mesh_options *options)
{
    for (int i = 0; i < mesh->grid.axis_count; i++)
        add_masked(mesh, mesh->grid.names[i], 1u << i, options);
    add_products(mesh, options);
    add_embed(mesh, options);
    return mesh->status;
}

/* ---- agreeing ---- */

/* What every rank tells the others: whether it made the same mesh, where it runs, and what it sees there. */
typedef struct mesh_fact {
    uint64_t hash;
    int32_t launched_gpu, visible_gpus;
} mesh_fact;

static uint64_t hash_devices(uint64_t hash, const kith_placement *devices)
{
    for (int i = 0; devices != NULL && i < kith_placement_rank_count(devices); i++) {
        int gpu = kith_placement_gpu(devices, i);
        hash = ki_hash(hash, &gpu, sizeof gpu);
    }
    return hash;
}

static uint64_t hash_mesh(const kith_mesh *mesh, const kith_mesh_options *options)
{
    uint64_t hash = ki_hash(KI_HASH_INIT, &mesh->grid, sizeof mesh->grid);
    hash = ki_hash(hash, mesh->placement, (size_t)mesh->grid.world * sizeof(int));
    hash = hash_devices(hash, options->devices);
    if (options->products != NULL)
        hash = ki_hash(hash, options->products, strlen(options->products));
    if (options->backends != NULL)
        hash = ki_hash(hash, options->backends, strlen(options->backends));
    return ki_hash(hash, &options->timeout_ms, sizeof options->timeout_ms);
}

/* Positions by GPU: the facts are the same on all ranks, so the outcome is, too. room holds four numbers for each rank:
 * nothing may fail on one rank alone here. */
static kith_status place_on_devices(kith_mesh *mesh, const kith_placement *devices, const mesh_fact *all, int *room)
{
    int world = mesh->grid.world, known = 0;
    int *launched = room, *order = room + world, *scratch = order + world;
    for (int i = 0; i < world; i++) {
        launched[i] = all[i].launched_gpu;
        known += launched[i] >= 0;
    }
    if (known > 0 && known < world)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG,
                             "kith_mesh_create: %d of %d ranks gave no launched_gpu; valid: all or none", world - known,
                             world);
    kith_status status = ki_placement_mesh_order(devices, known > 0 ? launched : NULL, order, scratch);
    return status == KITH_OK ? place(mesh, order) : status;
}

static void warn_visible(const kith_mesh *mesh, const mesh_fact *all, int *room)
{
    for (int i = 0; i < mesh->grid.world; i++)
        room[i] = all[i].visible_gpus;
    ki_mesh_warn_visible(mesh, room, room + mesh->grid.world);
}

/* Same mesh on all ranks? Then, with devices, who takes which position. */
static kith_status agree(kith_group *base, kith_mesh *mesh, kith_status mine, const kith_mesh_options *options)
{
    mesh_fact own = { mine == KITH_OK ? hash_mesh(mesh, options) : 0, options->launched_gpu,
                      options->visible_gpus > 0 ? options->visible_gpus : ki_visible_gpu_count() };
    mesh_fact *all = (mesh_fact *)calloc((size_t)base->size, sizeof *all + 4 * sizeof(int));
    if (all == NULL && mine == KITH_OK)
        mine = ki_fail(KITH_ERR_NO_MEMORY, "kith_mesh_create: no memory");
    kith_status status = ki_group_exchange(base, "kith_mesh_create", mine, &own, sizeof own, all);
    for (int i = 0; status == KITH_OK && i < base->size; i++)
        if (all[i].hash != all[0].hash)
            status =
                ki_fail(KITH_ERR_MISMATCH, "kith_mesh_create: ranks 0 and %d gave different axes, order or options", i);
    if (status == KITH_OK && options->devices != NULL)
        status = place_on_devices(mesh, options->devices, all, (int *)(all + base->size));
    if (status == KITH_OK)
        warn_visible(mesh, all, (int *)(all + base->size));
    free(all);
    return status;
}

static void dispose(kith_mesh *mesh)
{
    const kith_allocator *a = &mesh->ctx->allocator;
    for (int i = mesh->group_count - 1; i >= 0; i--)
        ki_group_dispose(mesh->groups[i].group);
    ki_free(a, mesh->placement);
    ki_free(a, mesh->position_of);
    ki_free(a, mesh->scratch);
    ki_mesh_release(mesh);
}

/* The placement's axes that are longer than 1 must be the mesh's, in the same order: a position is a GPU by them. */
static kith_status check_axes_of(const kith_placement *devices, const ki_grid *grid)
{
    const char *order = kith_placement_order(devices);
    int next = 0;
    while (*order != '\0') {
        char name[KI_AXIS_NAME];
        size_t length = strcspn(order, "-");
        snprintf(name, sizeof name, "%.*s", (int)length, order);
        order += length + (order[length] == '-');
        const kith_axis_report *axis = kith_placement_axis(devices, name);
        if (axis == NULL || axis->size == 1)
            continue;
        while (next < grid->axis_count && grid->sizes[next] == 1)
            next++;
        if (next == grid->axis_count || strcmp(grid->names[next], name) != 0 || grid->sizes[next] != axis->size)
            return ki_fail_quiet(
                KITH_ERR_INVALID_ARG,
                "mesh: devices has %s %d where the mesh has %s %d; axes, sizes and order must be equal", name,
                axis->size, next < grid->axis_count ? grid->names[next] : "no axis",
                next < grid->axis_count ? grid->sizes[next] : 0);
        next++;
    }
    return KITH_OK;
}

static kith_status check_devices(const kith_mesh *mesh, const kith_mesh_options *options)
{
    if (options->placement != NULL)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "mesh: placement and devices are both given; valid: one of them");
    if (kith_placement_rank_count(options->devices) != mesh->grid.world)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "mesh: devices places %d ranks, the mesh has %d",
                             kith_placement_rank_count(options->devices), mesh->grid.world);
    return check_axes_of(options->devices, &mesh->grid);
}

static kith_status fill(kith_mesh *mesh, kith_group *base, const kith_mesh_axis *axes, size_t axis_count,
                        const kith_mesh_options *options)
{
    mesh->ctx = base->ctx;
    mesh->base = base;
    mesh->rank = base->rank;
    kith_status status = ki_grid_init(axes, axis_count, options->order, base->size, &mesh->grid);
    if (status == KITH_OK)
        status = make_room(mesh);
    if (status == KITH_OK)
        status = options->devices != NULL ? check_devices(mesh, options) : place(mesh, options->placement);
    return status == KITH_OK ? check_backends(&mesh->grid, options->backends) : status;
}

kith_status kith_mesh_create(kith_group *base, const kith_mesh_axis *axes, size_t axis_count,
                             const kith_mesh_options *options, kith_mesh **mesh)
{
    kith_mesh_options known = KITH_MESH_OPTIONS_INIT; /* devices came later than the rest */
    KI_CHECK_GROUP(base, "kith_mesh_create");
    kith_status status = ki_group_refuse(base, "kith_mesh_create");
    if (status != KITH_OK)
        return status;
    if (mesh == NULL ||
        (options != NULL && !ki_options_copy(&known, sizeof known, options, offsetof(kith_mesh_options, devices))))
        status = ki_fail_quiet(KITH_ERR_INVALID_ARG,
                               "kith_mesh_create: mesh is NULL, or start options from KITH_MESH_OPTIONS_INIT");
    options = &known;
    kith_mesh *made = status == KITH_OK ? ki_mesh_alloc() : NULL;
    if (status == KITH_OK)
        status = made != NULL ? fill(made, base, axes, axis_count, options) : KITH_ERR_NO_MEMORY;
    status = agree(base, made, status, options);
    if (status == KITH_OK) {
        status = make_groups(made, options);
        status = ki_group_exchange(base, "kith_mesh_create", status, NULL, 0, NULL);
    }
    if (status != KITH_OK) {
        if (made != NULL)
            dispose(made);
        return status;
    }
    made->handle.magic = KI_MESH_MAGIC;
    made->next = base->ctx->meshes;
    base->ctx->meshes = made;
    *mesh = made;
    return KITH_OK;
}

kith_status kith_mesh_destroy(kith_mesh *mesh)
{
    if (mesh == NULL)
        return KITH_OK;
    if (!ki_mesh_is_valid(mesh))
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "kith_mesh_destroy: the mesh is destroyed, or not a mesh");
    kith_mesh **link = &mesh->ctx->meshes;
    while (*link != NULL && *link != mesh)
        link = &(*link)->next;
    if (*link == mesh)
        *link = mesh->next;
    dispose(mesh);
    return KITH_OK;
}

/* ---- questions ---- */

kith_group *kith_mesh_group(const kith_mesh *mesh, const char *axes)
{
    unsigned mask = EMBED_MASK;
    if (!ki_mesh_is_valid(mesh) || axes == NULL)
        return NULL;
    if (strcmp(axes, "embed") != 0 && ki_grid_mask(&mesh->grid, axes, &mask) != KITH_OK)
        return NULL;
    for (int i = 0; i < mesh->group_count; i++)
        if (mesh->groups[i].mask == mask)
            return mesh->groups[i].group;
    return NULL;
}

int kith_mesh_size(const kith_mesh *mesh, const char *axes)
{
    unsigned mask;
    return ki_mesh_is_valid(mesh) && ki_grid_mask(&mesh->grid, axes, &mask) == KITH_OK
               ? ki_grid_extent(&mesh->grid, mask)
               : -1;
}

int kith_mesh_coord_of(const kith_mesh *mesh, const char *axis, int base_rank)
{
    if (!ki_mesh_is_valid(mesh) || axis == NULL || base_rank < 0 || base_rank >= mesh->grid.world)
        return -1;
    for (int i = 0; i < mesh->grid.axis_count; i++)
        if (strcmp(mesh->grid.names[i], axis) == 0)
            return ki_grid_coord(&mesh->grid, mesh->position_of[base_rank], i);
    return -1;
}

int kith_mesh_coord(const kith_mesh *mesh, const char *axis)
{
    return ki_mesh_is_valid(mesh) ? kith_mesh_coord_of(mesh, axis, mesh->rank) : -1;
}
