/* backends/shm/arena.c - the shared memory of a group, found together.
 *
 * Group rank 0 makes the object, tells its handle, and all map it; then all tell whether they could. First a memfd,
 * then a file: every rank goes through the same exchanges, so that a rank where something is refused makes all take
 * the other way or all fail with the same status. A file that does not fit into its file system is tried again with
 * smaller parts.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "internal.h"
#include <sys/mman.h>
#include <sys/statvfs.h>

#define ARENA_MAGIC UINT64_C(0x6b69746861726e61)

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

typedef struct offer {
    shm_handle handle;
    shm_sizes sizes;
} offer;

static kith_status take_sizes(shm_group *group, const shm_sizes *sizes)
{
    group->sizes = *sizes;
    if (shm_layout_compute(sizes, group->size, &group->layout))
        return KITH_OK;
    return group->host->fail(KITH_ERR_INVALID_ARG,
                             "group %s: KITH_SHM_CELL_NBYTES and KITH_SHM_RING_NBYTES are too large", group->name);
}

/* Rank 0: the largest file that fits. */
static kith_status create_fitting_file(shm_group *group, shm_object *object)
{
    shm_sizes sizes;
    struct statvfs system;
    uint64_t free_nbytes = UINT64_MAX;
    if (statvfs(group->instance->settings.directory, &system) == 0)
        free_nbytes = (uint64_t)system.f_bavail * system.f_frsize;
    kith_status status = KITH_ERR_NO_RESOURCE;
    for (int scale = 0; shm_sizes_choose(&group->instance->settings, group->size, scale, &sizes); scale++) {
        status = take_sizes(group, &sizes);
        if (status != KITH_OK)
            return status;
        shm_sizes smaller;
        bool is_last = !shm_sizes_choose(&group->instance->settings, group->size, scale + 1, &smaller);
        /* Half of what is free is left to the groups that come later. */
        if (!is_last && group->layout.total_nbytes > free_nbytes / 2)
            continue;
        return shm_object_create(group->instance, group->layout.total_nbytes,
                                 "a smaller KITH_SHM_RING_NBYTES or KITH_SHM_CELL_NBYTES", object);
    }
    return status;
}

static kith_status create_memfd(shm_group *group, shm_object *object)
{
    shm_sizes sizes;
    object->fd = -1;
    if (!group->instance->settings.use_memfd)
        return KITH_OK;
    shm_sizes_choose(&group->instance->settings, group->size, 0, &sizes);
    kith_status status = take_sizes(group, &sizes);
    if (status == KITH_OK && shm_object_create(group->instance, group->layout.total_nbytes, NULL, object) != KITH_OK)
        object->handle.is_valid = 0;
    return status;
}

/* Rank 0 offers object (on the others it is empty), all map it. Collective. *is_mapped: on all ranks. */
static kith_status map_together(shm_group *group, kith_status status, shm_object *object, bool is_quiet,
                                bool *is_mapped)
{
    offer mine = { object->handle, group->sizes }, *offers = shm_new(group->host, (size_t)group->size, sizeof *offers);
    int32_t mapped = 0, *all_mapped = shm_new(group->host, (size_t)group->size, sizeof *all_mapped);
    if (status == KITH_OK && (offers == NULL || all_mapped == NULL))
        status = group->host->fail(KITH_ERR_NO_MEMORY, "no memory to set up group %s", group->name);
    *is_mapped = false;
    status = group->host->exchange(group->cookie, status, &mine, sizeof mine, offers);
    if (status == KITH_OK && offers[0].handle.is_valid) {
        status = take_sizes(group, &offers[0].sizes);
        if (status == KITH_OK && offers[0].handle.nbytes == group->layout.total_nbytes) {
            status = shm_map(group->instance, &offers[0].handle, group->rank == 0 ? object : NULL, NULL, is_quiet,
                             &group->arena);
            mapped = status == KITH_OK;
            group->arena_nonce = offers[0].handle.nonce;
            group->is_memfd = offers[0].handle.fd >= 0;
        }
        status = group->host->exchange(group->cookie, is_quiet ? KITH_OK : status, &mapped, sizeof mapped, all_mapped);
        *is_mapped = status == KITH_OK;
        for (int r = 0; r < group->size && *is_mapped; r++)
            *is_mapped = all_mapped[r] != 0;
    }
    if (!*is_mapped && mapped)
        shm_unmap(group->arena_nonce, false);
    if (!*is_mapped)
        group->arena = NULL;
    shm_delete(group->host, offers);
    shm_delete(group->host, all_mapped);
    return status;
}

static void lay_out(shm_group *group)
{
    group->header = (shm_header *)(void *)group->arena;
    group->blocks = (shm_rank_block *)(void *)(group->arena + group->layout.blocks);
    group->cells = group->arena + group->layout.cells;
    group->rings = group->arena + group->layout.rings;
    /* What small collectives touch; the rest comes with its first use. */
    madvise(group->arena, group->layout.rings, MADV_POPULATE_WRITE);
}

kith_status shm_arena_create(shm_group *group)
{
    shm_object object = { .fd = -1 };
    bool is_mapped = false;
    kith_status status = group->rank == 0 ? create_memfd(group, &object) : KITH_OK;
    status = map_together(group, status, &object, true, &is_mapped);
    shm_object_close(&object);
    if (status == KITH_OK && !is_mapped) {
        if (group->rank == 0)
            status = create_fitting_file(group, &object);
        status = map_together(group, status, &object, false, &is_mapped);
        shm_object_close(&object);
        if (status == KITH_OK && !is_mapped)
            status = group->host->fail(KITH_ERR_NO_RESOURCE, "group %s: shared memory could not be mapped by all ranks",
                                       group->name);
    }
    if (status != KITH_OK)
        return status;
    lay_out(group);
    if (group->rank == 0) {
        group->header->nonce = group->arena_nonce;
        group->header->magic = ARENA_MAGIC;
    }
    return KITH_OK;
}
