/* bench/drivers/allocations.c
 *
 * A program's own malloc takes the place of the C library's for all its shared objects, libkith among them. glibc
 * keeps its implementation reachable under other names; the functions here count and pass on.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "allocations.h"

#include <errno.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdlib.h>

/* Of each thread: on rank 0 a thread serves the store, and allocates when other ranks come to it. */
static _Thread_local uint64_t allocation_count;
static _Atomic uint64_t held_nbytes;

#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define SEES_MALLOC 1
void *__libc_malloc(size_t nbytes);
void *__libc_calloc(size_t count, size_t nbytes);
void *__libc_realloc(void *ptr, size_t nbytes);
void *__libc_memalign(size_t alignment, size_t nbytes);

static void count_one(void)
{
    allocation_count++;
}

__attribute__((visibility("default"))) void *malloc(size_t nbytes)
{
    count_one();
    return __libc_malloc(nbytes);
}

__attribute__((visibility("default"))) void *calloc(size_t count, size_t nbytes)
{
    count_one();
    return __libc_calloc(count, nbytes);
}

__attribute__((visibility("default"))) void *realloc(void *ptr, size_t nbytes)
{
    count_one();
    return __libc_realloc(ptr, nbytes);
}

__attribute__((visibility("default"))) void *aligned_alloc(size_t alignment, size_t nbytes)
{
    count_one();
    return __libc_memalign(alignment, nbytes);
}

__attribute__((visibility("default"))) int posix_memalign(void **ptr, size_t alignment, size_t nbytes)
{
    count_one();
    void *memory = __libc_memalign(alignment, nbytes);
    if (memory == NULL) {
        return ENOMEM;
    }
    *ptr = memory;
    return 0;
}
#else
#define SEES_MALLOC 0
#endif

static void *hook_alloc(void *arg, size_t nbytes, size_t alignment)
{
    (void)arg;
    void *memory = NULL;
    allocation_count++;
    alignment = alignment < sizeof(void *) ? sizeof(void *) : alignment;
    if (posix_memalign(&memory, alignment, nbytes) != 0) {
        return NULL;
    }
    atomic_fetch_add(&held_nbytes, malloc_usable_size(memory));
    return memory;
}

static void hook_free(void *arg, void *ptr)
{
    (void)arg;
    atomic_fetch_sub(&held_nbytes, malloc_usable_size(ptr));
    free(ptr);
}

uint64_t bench_allocations(void)
{
    return allocation_count;
}

uint64_t bench_allocated_nbytes(void)
{
    return atomic_load(&held_nbytes);
}

int bench_allocations_see_malloc(void)
{
    return SEES_MALLOC;
}

const kith_allocator *bench_allocator(void)
{
    static const kith_allocator allocator = { hook_alloc, hook_free, NULL };
    return &allocator;
}
