/* core/base/fault.h - injected failures, for tests.
 *
 * KITH_FAULT="alloc:7" makes the 7th allocation (of this process) fail, "socket:2" the second socket call, "shm:1" the
 * first creation of a group over shared memory, "open:3" the third open; several are separated by commas; "@2" after
 * the number limits it to world rank 2 ("shm:1@2"). Compiled in always: one relaxed load when nothing is set.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_BASE_FAULT_H
#define KI_BASE_FAULT_H

#include <kith/status.h>
#include <stdbool.h>

typedef enum ki_fault_kind {
    KI_FAULT_ALLOC,
    KI_FAULT_SOCKET,
    KI_FAULT_SHM,
    KI_FAULT_OPEN,
    KI_FAULT_KINDS
} ki_fault_kind;

/* True when this call is the one that shall fail. */
bool ki_fault(ki_fault_kind kind);

/* Reads the environment again and sets the rank; called by kith_init(). KITH_ERR_INVALID_ARG names an entry that is
 * none; the others hold. */
kith_status ki_fault_configure(int world_rank);

/* For threads that the library starts: the rank they work for. */
void ki_fault_set_rank(int world_rank);

#endif
