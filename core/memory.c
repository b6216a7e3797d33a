/* core/memory.c - the public functions of kith/mem.h.
 *
 * The core keeps the list and checks; mapping is the backend's. Where the backend has no mapped memory, an allocation
 * is ordinary memory, so that a program need not care.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "memory.h"

#include "base/error.h"
#include "exchange.h"
#include "progress.h"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The backend's own allocation takes part in the group's rounds; ours just agrees on the status. */
static kith_status ordinary_alloc(kith_group *group, size_t nbytes, void **ptr)
{
    const kith_allocator *a = &group->ctx->allocator;
    void *memory = a->alloc(a->arg, nbytes, (size_t)sysconf(_SC_PAGESIZE));
    kith_status status =
        memory != NULL ? KITH_OK : ki_fail(KITH_ERR_NO_MEMORY, "kith_mem_alloc: no memory for %zu bytes", nbytes);
    status = ki_group_exchange(group, "kith_mem_alloc", status, NULL, 0, NULL);
    if (status != KITH_OK) {
        if (memory != NULL)
            a->free(a->arg, memory);
        return status;
    }
    memset(memory, 0, nbytes);
    *ptr = memory;
    return KITH_OK;
}

static ki_mem *new_entry(kith_group *group, size_t nbytes)
{
    ki_mem *entry = (ki_mem *)ki_calloc(&group->ctx->allocator, 1, sizeof *entry);
    if (entry != NULL)
        entry->nbytes = nbytes;
    return entry;
}

static void keep(kith_group *group, ki_mem *entry)
{
    entry->next = group->memory;
    group->memory = entry;
}

static ki_mem **find(kith_group *group, const void *ptr, bool is_registered)
{
    ki_mem **link = &group->memory;
    while (*link != NULL && ((*link)->ptr != ptr || (*link)->is_registered != is_registered))
        link = &(*link)->next;
    return link;
}

kith_status kith_mem_alloc(kith_group *group, size_t nbytes, void **ptr)
{
    KI_CHECK_GROUP(group, "kith_mem_alloc");
    kith_status status = ki_group_refuse(group, "kith_mem_alloc");
    if (status != KITH_OK)
        return status;
    if (status == KITH_OK && (nbytes == 0 || nbytes > PTRDIFF_MAX || ptr == NULL))
        status = ki_fail_quiet(KITH_ERR_INVALID_ARG, "kith_mem_alloc: ptr is NULL, or %zu bytes are not 1 to %td",
                               nbytes, PTRDIFF_MAX);
    ki_mem *entry = status == KITH_OK ? new_entry(group, nbytes) : NULL;
    if (status == KITH_OK && entry == NULL)
        status = KITH_ERR_NO_MEMORY;
    /* everyone comes here first, so that a bad argument on one rank is an error on all */
    status = ki_group_exchange(group, "kith_mem_alloc", status, NULL, 0, NULL);
    if (status == KITH_OK && group->size > 1 && group->coll_backend->mem_alloc != NULL) {
        status = group->coll_backend->mem_alloc(group->coll_bg, nbytes, &entry->ptr);
        entry->is_mapped = true;
    } else if (status == KITH_OK) {
        status = ordinary_alloc(group, nbytes, &entry->ptr);
    }
    if (status != KITH_OK) {
        ki_free(&group->ctx->allocator, entry);
        return status;
    }
    keep(group, entry);
    *ptr = entry->ptr;
    return KITH_OK;
}

static kith_status drop(kith_group *group, ki_mem **link)
{
    ki_mem *entry = *link;
    const kith_allocator *a = &group->ctx->allocator;
    kith_status status = KITH_OK;
    if (entry->is_registered)
        status = entry->is_mapped ? group->coll_backend->mem_deregister(group->coll_bg, entry->ptr) : KITH_OK;
    else if (entry->is_mapped)
        status = group->coll_backend->mem_free(group->coll_bg, entry->ptr);
    else
        a->free(a->arg, entry->ptr);
    *link = entry->next;
    ki_free(a, entry);
    return status;
}

kith_status kith_mem_free(kith_group *group, void *ptr)
{
    KI_CHECK_GROUP(group, "kith_mem_free");
    if (ptr == NULL)
        return KITH_OK;
    ki_mem **link = find(group, ptr, false);
    if (*link == NULL)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "kith_mem_free: %p is not the start of an allocation of group '%s'",
                             ptr, group->name);
    return drop(group, link);
}

kith_status kith_mem_register(kith_group *group, void *ptr, size_t nbytes)
{
    KI_CHECK_GROUP(group, "kith_mem_register");
    kith_status status = ki_group_refuse(group, "kith_mem_register");
    if (status != KITH_OK)
        return status;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    if (status == KITH_OK && (ptr == NULL || nbytes == 0 || (uintptr_t)ptr % page != 0 || nbytes % page != 0))
        status = ki_fail_quiet(KITH_ERR_INVALID_ARG,
                               "kith_mem_register: address %p and %zu bytes must be multiples of the page size, %zu",
                               ptr, nbytes, page);
    ki_mem *entry = status == KITH_OK ? new_entry(group, nbytes) : NULL;
    if (status == KITH_OK && entry == NULL)
        status = KITH_ERR_NO_MEMORY;
    status = ki_group_exchange(group, "kith_mem_register", status, NULL, 0, NULL);
    if (status == KITH_OK && group->size > 1) {
        if (group->coll_backend->mem_register == NULL || group->coll_backend->mem_deregister == NULL)
            status = ki_fail(KITH_ERR_UNSUPPORTED, "kith_mem_register: backend %s has no mapped memory",
                             group->coll_backend->name);
        else
            status = group->coll_backend->mem_register(group->coll_bg, ptr, nbytes);
    }
    if (status != KITH_OK) {
        ki_free(&group->ctx->allocator, entry);
        return status;
    }
    entry->ptr = ptr;
    entry->is_registered = true;
    entry->is_mapped = group->size > 1;
    keep(group, entry);
    return KITH_OK;
}

kith_status kith_mem_deregister(kith_group *group, void *ptr)
{
    KI_CHECK_GROUP(group, "kith_mem_deregister");
    if (ptr == NULL)
        return KITH_OK;
    ki_mem **link = find(group, ptr, true);
    if (*link == NULL)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "kith_mem_deregister: %p is not registered on group '%s'", ptr,
                             group->name);
    return drop(group, link);
}

void ki_memory_free_all(kith_group *group)
{
    while (group->memory != NULL)
        drop(group, &group->memory);
}
