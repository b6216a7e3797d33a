/* backends/shm/mem.c - memory that all ranks of a group map.
 *
 * A region has one part per rank, each a shared memory object of its owner that all others map too. kith_mem_alloc()
 * makes new parts; kith_mem_register() moves the caller's pages into a part: their content is copied into the object
 * and the object is mapped over them, so addresses stay. Regions are numbered alike on all ranks, since they are made
 * and freed in the same order everywhere: an operation names a buffer as (region, offset), and each rank knows where
 * it has mapped that.
 *
 * In a process with several ranks they share one mapping of each part (object.c).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "internal.h"
#include <errno.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- finding ---- */

/* Index of the first region that starts behind data. */
static size_t upper_bound(const shm_group *group, const void *data)
{
    size_t low = 0, high = group->region_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if ((uintptr_t)group->regions[middle]->parts[group->rank].base <= (uintptr_t)data)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

uint32_t shm_region_find(shm_group *group, const void *data, size_t nbytes, uint64_t *offset)
{
    size_t next = upper_bound(group, data);
    if (next == 0)
        return 0;
    const shm_region *region = group->regions[next - 1];
    const shm_part *part = &region->parts[group->rank];
    size_t at = (size_t)((uintptr_t)data - (uintptr_t)part->base);
    if (at > part->nbytes || nbytes > part->nbytes - at)
        return 0;
    *offset = at;
    return region->id;
}

unsigned char *shm_region_at(shm_group *group, uint32_t id, int rank, uint64_t offset)
{
    if (id == 0 || id > group->region_ids || group->regions_by_id[id - 1] == NULL)
        return NULL;
    const shm_part *part = &group->regions_by_id[id - 1]->parts[rank];
    return offset <= part->nbytes ? part->base + offset : NULL;
}

static shm_region *find_start(shm_group *group, const void *ptr, bool is_registered)
{
    size_t next = upper_bound(group, ptr);
    if (next == 0)
        return NULL;
    shm_region *region = group->regions[next - 1];
    return region->parts[group->rank].base == ptr && region->is_registered == is_registered ? region : NULL;
}

/* ---- the tables ---- */

static bool reserve(shm_group *group)
{
    if (group->region_count < group->region_capacity && group->region_ids < group->region_capacity)
        return true;
    size_t capacity = group->region_capacity * 2 + 16;
    shm_region **sorted = shm_new(group->host, capacity, sizeof *sorted);
    shm_region **by_id = shm_new(group->host, capacity, sizeof *by_id);
    if (sorted == NULL || by_id == NULL) {
        shm_delete(group->host, sorted);
        shm_delete(group->host, by_id);
        return false;
    }
    if (group->region_capacity != 0) {
        memcpy(sorted, group->regions, group->region_count * sizeof *sorted);
        memcpy(by_id, group->regions_by_id, group->region_ids * sizeof *by_id);
        shm_delete(group->host, group->regions);
        shm_delete(group->host, group->regions_by_id);
    }
    group->regions = sorted;
    group->regions_by_id = by_id;
    group->region_capacity = capacity;
    return true;
}

static void insert(shm_group *group, shm_region *region)
{
    size_t at = upper_bound(group, region->parts[group->rank].base);
    memmove(&group->regions[at + 1], &group->regions[at], (group->region_count - at) * sizeof *group->regions);
    group->regions[at] = region;
    group->region_count++;
    region->id = ++group->region_ids;
    group->regions_by_id[region->id - 1] = region;
}

static void take_out(shm_group *group, shm_region *region)
{
    size_t at = upper_bound(group, region->parts[group->rank].base) - 1;
    memmove(&group->regions[at], &group->regions[at + 1], (group->region_count - at - 1) * sizeof *group->regions);
    group->region_count--;
    group->regions_by_id[region->id - 1] = NULL;
}

/* ---- mapping ---- */

/* Unmaps what is mapped. Pages of a registered buffer stay in their process, their owner turns them back. */
static void unmap_parts(shm_group *group, shm_region *region)
{
    for (int r = 0; r < group->size; r++)
        if (region->parts[r].base != NULL)
            shm_unmap(region->parts[r].nonce, region->is_registered && group->peers[r].is_here);
}

static kith_status map_part(shm_group *group, shm_region *region, int rank, const shm_handle *handles,
                            const shm_object *own, void *at)
{
    shm_part *part = &region->parts[rank];
    kith_status status = shm_map(group->instance, &handles[rank], own, at, false, &part->base);
    if (status != KITH_OK) {
        part->base = NULL;
        return status;
    }
    part->nbytes = (size_t)handles[rank].nbytes;
    part->nonce = handles[rank].nonce;
    return KITH_OK;
}

/* What the machine can still give: memory and swap. UINT64_MAX where it does not say. */
static uint64_t available_nbytes(void)
{
    FILE *in = fopen("/proc/meminfo", "re");
    char line[128];
    unsigned long long kilobytes, available = 0;
    bool is_known = false;
    while (in != NULL && fgets(line, sizeof line, in) != NULL) {
        if (sscanf(line, "MemAvailable: %llu kB", &kilobytes) == 1)
            is_known = true;
        else if (sscanf(line, "SwapFree: %llu kB", &kilobytes) != 1)
            continue;
        available += kilobytes;
    }
    if (in != NULL)
        fclose(in);
    return is_known ? (uint64_t)available * 1024 : UINT64_MAX;
}

/* A memfd of any size can be made and mapped; the process that touches more than there is gets killed. */
static kith_status check_room(const shm_group *group, uint64_t nbytes)
{
    uint64_t available = group->is_memfd ? available_nbytes() : UINT64_MAX;
    if (nbytes <= available)
        return KITH_OK;
    return group->host->fail(KITH_ERR_NO_RESOURCE,
                             "group %s: %llu bytes of shared memory are needed, %llu bytes of memory are free here; "
                             "smaller buffers help",
                             group->name, (unsigned long long)nbytes, (unsigned long long)available);
}

static uint64_t sum_of_parts(const shm_group *group, const shm_handle *handles)
{
    uint64_t sum = 0;
    for (int r = 0; r < group->size; r++)
        if (__builtin_add_overflow(sum, handles[r].nbytes, &sum))
            return UINT64_MAX;
    return sum;
}

/* The own part first: where ranks share a mapping, it is the one at the caller's address. Collective. */
static kith_status map_parts(shm_group *group, shm_region *region, const shm_handle *handles, const shm_object *own,
                             void *at)
{
    bool is_filled = at != NULL; /* a registered buffer's content is in the object: what it needs has been taken */
    kith_status status = is_filled ? KITH_OK : check_room(group, sum_of_parts(group, handles));
    if (status == KITH_OK)
        status = map_part(group, region, group->rank, handles, own, at);
    status = group->host->exchange(group->cookie, status, NULL, 0, NULL);
    for (int k = 1; k < group->size && status == KITH_OK; k++)
        status = map_part(group, region, (group->rank + k) % group->size, handles, NULL, NULL);
    return group->host->exchange(group->cookie, status, NULL, 0, NULL);
}

static kith_status create_object(shm_group *group, size_t nbytes, shm_object *object)
{
    if (!group->is_memfd)
        return shm_object_create(group->instance, nbytes, "a smaller buffer", object);
    if (shm_object_create(group->instance, nbytes, NULL, object) == KITH_OK)
        return KITH_OK;
    return group->host->fail(KITH_ERR_NO_RESOURCE, "group %s: no shared memory of %zu bytes: %s", group->name, nbytes,
                             strerror(errno));
}

/* Makes a region of everybody's objects. at: the pages to replace, or NULL. Collective. */
static kith_status share(shm_group *group, kith_status status, shm_object *object, void *at, shm_region **result)
{
    shm_handle *handles = shm_new(group->host, (size_t)group->size, sizeof *handles);
    shm_region *region = shm_new(group->host, 1, sizeof *region + (size_t)group->size * sizeof region->parts[0]);
    if (status == KITH_OK && (handles == NULL || region == NULL || !reserve(group)))
        status = group->host->fail(KITH_ERR_NO_MEMORY, "no memory for a region of group %s", group->name);
    status = group->host->exchange(group->cookie, status, &object->handle, sizeof object->handle, handles);
    if (status == KITH_OK) {
        region->is_registered = at != NULL;
        status = map_parts(group, region, handles, object, at);
        if (status != KITH_OK)
            unmap_parts(group, region);
    }
    shm_delete(group->host, handles);
    if (status != KITH_OK) {
        shm_delete(group->host, region);
        return status;
    }
    insert(group, region);
    *result = region;
    return KITH_OK;
}

/* ---- allocation ---- */

kith_status shm_mem_alloc(void *group_, size_t nbytes, void **ptr)
{
    shm_group *group = group_;
    shm_object object = { .fd = -1 };
    shm_region *region = NULL;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    kith_status status;
    if (nbytes == 0 || nbytes > SIZE_MAX / 2)
        status = group->host->fail(KITH_ERR_INVALID_ARG, "group %s: cannot allocate %zu bytes", group->name, nbytes);
    else
        status = create_object(group, shm_round_up(nbytes, page), &object);
    status = share(group, status, &object, NULL, &region);
    shm_object_close(&object);
    if (status == KITH_OK)
        *ptr = region->parts[group->rank].base;
    return status;
}

kith_status shm_mem_free(void *group_, void *ptr)
{
    shm_group *group = group_;
    if (ptr == NULL)
        return KITH_OK;
    shm_region *region = find_start(group, ptr, false);
    if (region == NULL)
        return group->host->fail(KITH_ERR_INVALID_ARG, "group %s: %p is not the start of memory from kith_mem_alloc()",
                                 group->name, ptr);
    take_out(group, region);
    unmap_parts(group, region);
    shm_delete(group->host, region);
    return KITH_OK;
}

/* ---- registration ---- */

/* Only private, writable memory that no file is behind may be replaced. */
static bool is_replaceable(uintptr_t start, uintptr_t end)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    char line[512];
    uintptr_t covered = start;
    while (maps != NULL && covered < end && fgets(line, sizeof line, maps) != NULL) {
        unsigned long long from, to, offset, inode;
        char access[8], device[16], name[256] = "";
        if (sscanf(line, "%llx-%llx %7s %llx %15s %llu %255s", &from, &to, access, &offset, device, &inode, name) < 6)
            continue;
        if (to <= covered)
            continue;
        if (from > covered || strncmp(access, "rw-p", 4) != 0 || inode != 0 || strncmp(name, "[stack", 6) == 0)
            break;
        covered = (uintptr_t)to;
    }
    if (maps != NULL)
        fclose(maps);
    return covered >= end;
}

static kith_status fill_object(shm_group *group, void *ptr, size_t nbytes, shm_object *object)
{
    kith_status status = check_room(group, nbytes);
    if (status == KITH_OK)
        status = create_object(group, nbytes, object);
    if (status != KITH_OK)
        return status;
    void *copy = mmap(NULL, nbytes, PROT_READ | PROT_WRITE, MAP_SHARED, object->fd, 0);
    if (copy == MAP_FAILED) {
        status = group->host->fail(KITH_ERR_NO_RESOURCE, "cannot map %zu bytes of shared memory: %s", nbytes,
                                   strerror(errno));
        shm_object_close(object);
        return status;
    }
    memcpy(copy, ptr, nbytes);
    munmap(copy, nbytes);
    return KITH_OK;
}

/* Puts private pages with the same content under the buffer again. If there is no memory for that, the shared ones
 * stay. */
static void make_private(void *ptr, size_t nbytes)
{
    void *copy = mmap(NULL, nbytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (copy == MAP_FAILED)
        return;
    memcpy(copy, ptr, nbytes);
    if (mremap(copy, nbytes, nbytes, MREMAP_MAYMOVE | MREMAP_FIXED, ptr) == MAP_FAILED)
        munmap(copy, nbytes);
}

static kith_status check_buffer(shm_group *group, void *ptr, size_t nbytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    uintptr_t start = (uintptr_t)ptr;
    if (ptr == NULL || nbytes == 0 || start % page != 0 || nbytes % page != 0 || nbytes > UINTPTR_MAX - start)
        return group->host->fail(
            KITH_ERR_INVALID_ARG,
            "group %s: address %p and size %zu of a registration must be multiples of the page size %zu", group->name,
            ptr, nbytes, page);
    size_t next = upper_bound(group, (const unsigned char *)ptr + nbytes - 1);
    const shm_part *part = next > 0 ? &group->regions[next - 1]->parts[group->rank] : NULL;
    if (part != NULL && (uintptr_t)part->base + part->nbytes > start)
        return group->host->fail(KITH_ERR_INVALID_ARG, "group %s: part of %p, %zu bytes is mapped by the group already",
                                 group->name, ptr, nbytes);
    if (!is_replaceable(start, start + nbytes))
        return group->host->fail(
            KITH_ERR_UNSUPPORTED,
            "group %s: only private writable memory without a file behind it can be registered; not all of "
            "%p, %zu bytes is that",
            group->name, ptr, nbytes);
    return KITH_OK;
}

kith_status shm_mem_register(void *group_, void *ptr, size_t nbytes)
{
    shm_group *group = group_;
    shm_object object = { .fd = -1 };
    shm_region *region = NULL;
    kith_status status = check_buffer(group, ptr, nbytes);
    if (status == KITH_OK)
        status = fill_object(group, ptr, nbytes, &object);
    bool is_filled = status == KITH_OK;
    status = share(group, status, &object, ptr, &region);
    if (status != KITH_OK && is_filled)
        make_private(ptr, nbytes); /* the pages may have been replaced before another rank failed */
    shm_object_close(&object);
    return status;
}

kith_status shm_mem_deregister(void *group_, void *ptr)
{
    shm_group *group = group_;
    if (ptr == NULL)
        return KITH_OK;
    shm_region *region = find_start(group, ptr, true);
    if (region == NULL)
        return group->host->fail(KITH_ERR_INVALID_ARG, "group %s: %p is not the start of a registered buffer",
                                 group->name, ptr);
    size_t nbytes = region->parts[group->rank].nbytes;
    take_out(group, region);
    unmap_parts(group, region);
    make_private(ptr, nbytes);
    shm_delete(group->host, region);
    return KITH_OK;
}

void shm_regions_destroy(shm_group *group)
{
    while (group->region_count > 0) {
        shm_region *region = group->regions[group->region_count - 1];
        void *base = region->parts[group->rank].base;
        if (region->is_registered)
            shm_mem_deregister(group, base);
        else
            shm_mem_free(group, base);
    }
    shm_delete(group->host, group->regions);
    shm_delete(group->host, group->regions_by_id);
    group->regions = NULL;
    group->regions_by_id = NULL;
}
