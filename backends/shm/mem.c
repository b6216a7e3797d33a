/* backends/shm/mem.c - memory that all ranks of a group map.
 *
 * A region has one part per rank, each a shared memory object of its owner that all others map too. kith_mem_alloc() makes new
 * parts; kith_mem_register() moves the caller's pages into a part: the content is copied into the object and the object is
 * mapped over the pages, so addresses stay. Regions are numbered alike on all ranks, so an operation names a
 * buffer as (region, offset), and each rank knows where it has mapped that.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "internal.h"
#include <stdlib.h>

uint32_t shm_region_find(shm_group *group, const void *data, size_t nbytes, uint64_t *offset)
{
    for (size_t i = 0; i < group->region_count; i++) {
        const shm_region *region = &group->regions[i];
        uintptr_t start = (uintptr_t)region->bases[group->rank], at = (uintptr_t)data;
        size_t room = region->nbytes[group->rank];
        if (at >= start && at - start <= room && nbytes <= room - (at - start)) {
            *offset = at - start;
            return region->id;
        }
    }
    return 0;
}

unsigned char *shm_region_at(shm_group *group, uint32_t id, int rank, uint64_t offset)
{
    for (size_t i = 0; i < group->region_count; i++)
        if (group->regions[i].id == id)
            return group->regions[i].bases[rank] + offset;
    return NULL;
}
