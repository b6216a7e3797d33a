/* core/base/mem.c - memory for the library's own objects.
 *
 * Everything is zeroed and starts on a cache line, so that objects that different threads write never share a line at
 * their start. With the caller's hooks the alignment is asked from them.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "mem.h"
#include "error.h"
#include "fault.h"
#include <stdlib.h>
#include <string.h>

enum { ALIGNMENT = 64 };

static void *default_alloc(void *arg, size_t nbytes, size_t alignment)
{
    (void)arg;
    void *ptr = NULL;
    return posix_memalign(&ptr, alignment, nbytes) == 0 ? ptr : NULL;
}

static void default_free(void *arg, void *ptr)
{
    (void)arg;
    free(ptr);
}

static const kith_allocator default_allocator = { default_alloc, default_free, NULL };

void ki_allocator_init(kith_allocator *allocator, const kith_allocator *user)
{
    *allocator = user ? *user : default_allocator;
}

void *ki_calloc(const kith_allocator *allocator, size_t count, size_t nbytes)
{
    size_t total;
    if (!ki_mul(count, nbytes, &total)) {
        ki_fail(KITH_ERR_NO_MEMORY, "%zu objects of %zu bytes are more than memory can address", count, nbytes);
        return NULL;
    }
    if (total == 0)
        total = 1;
    if (!allocator)
        allocator = &default_allocator;
    void *ptr = ki_fault(KI_FAULT_ALLOC) ? NULL : allocator->alloc(allocator->arg, total, ALIGNMENT);
    if (!ptr) {
        ki_fail(KITH_ERR_NO_MEMORY, "allocating %zu bytes failed", total);
        return NULL;
    }
    return memset(ptr, 0, total);
}

void ki_free(const kith_allocator *allocator, void *ptr)
{
    if (!ptr)
        return;
    if (!allocator)
        allocator = &default_allocator;
    allocator->free(allocator->arg, ptr);
}

char *ki_strdup(const kith_allocator *allocator, const char *text)
{
    size_t nbytes = strlen(text) + 1;
    char *copy = ki_calloc(allocator, nbytes, 1);
    return copy ? memcpy(copy, text, nbytes) : NULL;
}
