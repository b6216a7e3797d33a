/* core/memory.h - allocations that belong to a group.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_MEMORY_H
#define KI_MEMORY_H

#include "object.h"

/* With the group: everything that kith_mem_alloc() gave out and kith_mem_register() took. */
void ki_memory_free_all(kith_group *group);

#endif
