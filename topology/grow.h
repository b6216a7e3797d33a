/* topology/grow.h - plain arrays that readers need while they read; what stays is in the topology's arena.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_TOPOLOGY_GROW_H
#define KI_TOPOLOGY_GROW_H

#include "core/base/fault.h"

#include <stdlib.h>

/* Zeroed room for count elements, and one when count is 0; free() it. NULL: no memory. */
static inline void *ki_array(size_t count, size_t nbytes)
{
    return ki_fault(KI_FAULT_ALLOC) ? NULL : calloc(count > 0 ? count : 1, nbytes);
}

/* Room for one more element behind the count ones of *array. False: no memory, and the array is as it was. */
static inline bool ki_grow(void **array, int count, int *room, size_t nbytes)
{
    if (count < *room)
        return true;
    int wanted = *room == 0 ? 64 : 2 * *room;
    void *bigger = ki_fault(KI_FAULT_ALLOC) ? NULL : realloc(*array, (size_t)wanted * nbytes);
    if (bigger == NULL)
        return false;
    *array = bigger;
    *room = wanted;
    return true;
}

#endif
