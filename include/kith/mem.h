/* kith/mem.h - memory that all ranks of a group can reach.
 *
 * Any buffer may be given to any operation. Buffers from kith_mem_alloc() or under kith_mem_register() need no
 * staging on backends that can map them (shm): each rank reduces its slice straight from the others' buffers into the
 * others' buffers. The call is the same; the path is chosen, for each operation, by where the buffers of all ranks
 * lie.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KITH_MEM_H
#define KITH_MEM_H

#include <kith/group.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Allocates nbytes (its own value on each rank, > 0), page-aligned and zeroed, that all ranks of the group map where
 * the backend can; elsewhere ordinary memory. Collective, blocks; all ranks get the same status. KITH_ERR_NO_RESOURCE
 * says what is needed and what is free (of memory, or of the file system it names); of memory, what was allocated but
 * never touched still counts as free. Freed by kith_mem_free() or with the group. */
KITH_API kith_status kith_mem_alloc(kith_group *group, size_t nbytes, void **ptr);

/* Collective like kith_group_destroy(): every rank calls, none waits. No operation may be using the memory on any
 * rank: a kith_barrier() before it makes sure. ptr NULL is fine. KITH_ERR_INVALID_ARG when ptr is not the start of an
 * allocation of this group. */
KITH_API kith_status kith_mem_free(kith_group *group, void *ptr);

/* Makes an existing buffer reachable by the other ranks, in place: address and content stay. ptr and nbytes must be
 * multiples of the page size. Private anonymous memory (malloc, mmap) is replaced, page by page, by shared memory of
 * the same content: no other thread may write it during the call, and a child made by fork() afterwards shares it.
 * Collective, blocks. KITH_ERR_UNSUPPORTED, on all ranks, when the backend cannot. */
KITH_API kith_status kith_mem_register(kith_group *group, void *ptr, size_t nbytes);

/* Ends that; the buffer stays usable memory with its content. Every rank calls, none waits. */
KITH_API kith_status kith_mem_deregister(kith_group *group, void *ptr);

#ifdef __cplusplus
}
#endif
#endif
