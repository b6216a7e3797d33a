/* core/device/owned.c - see owned.h: a table of addresses with a chain for each slot, one for the process.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "owned.h"

#include "../base/error.h"
#include <pthread.h>
#include <stdlib.h>

#define SLOTS 4096 /* a power of two; a program that holds some thousand blocks at once is rare */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static ki_owned *slots[SLOTS];

/* Addresses are multiples of 256 at least, often of much more. */
static ki_owned **slot_of(const void *ptr)
{
    return &slots[((uintptr_t)ptr >> 8) * UINT64_C(0x9e3779b97f4a7c15) >> 52];
}

ki_owned *ki_owned_new(ki_owned_kind kind, const void *owner, int ordinal)
{
    ki_owned *entry = (ki_owned *)malloc(sizeof *entry);
    if (entry == NULL)
        ki_fail(KITH_ERR_NO_MEMORY, "no memory for the record of an allocation");
    else
        *entry = (ki_owned){ .owner = owner, .kind = kind, .ordinal = ordinal };
    return entry;
}

void ki_owned_add(ki_owned *entry, const void *ptr)
{
    ki_owned **slot = slot_of(ptr);
    entry->ptr = ptr;
    pthread_mutex_lock(&lock);
    entry->next = *slot;
    *slot = entry;
    pthread_mutex_unlock(&lock);
}

static kith_status refuse(const char *function, ki_owned_kind kind, const ki_owned *real)
{
    static const char *const ways[] = { "kith_device_alloc", "kith_device_alloc_pinned", "kith_pool_alloc" };
    if (real->ptr == NULL)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG,
                             "%s: the pointer is not the begin of memory that the library gave and that is not freed",
                             function);
    return ki_fail_quiet(KITH_ERR_INVALID_ARG, "%s: the memory is of %s() on device %d, and not of this handle's %s()",
                         function, ways[real->kind], real->ordinal, ways[kind]);
}

kith_status ki_owned_take(const char *function, ki_owned_kind kind, const void *owner, const void *ptr,
                          ki_owned **entry)
{
    ki_owned real = { 0 };
    ki_owned **at = slot_of(ptr);
    *entry = NULL;
    pthread_mutex_lock(&lock);
    while (*at != NULL && (*at)->ptr != ptr)
        at = &(*at)->next;
    if (*at != NULL)
        real = **at;
    if (real.ptr != NULL && real.kind == kind && real.owner == owner) {
        *entry = *at;
        *at = real.next;
    }
    pthread_mutex_unlock(&lock);
    return *entry != NULL ? KITH_OK : refuse(function, kind, &real);
}

void ki_owned_drop(ki_owned *entry)
{
    free(entry);
}
