/* backends/shm/touch.c - working in other ranks' buffers, and being able to forbid it.
 *
 * On the direct and remote paths ranks read and write each other's buffers. A rank that gives an operation up
 * (coll_cancel) must know that nobody does so any more: it sets `poisoned`, for good, and waits until no rank says
 * that it is `touching`. A worker says it is touching, then looks at poisoned; the canceller sets poisoned, then looks
 * at touching: on both sides the store has to come before the load. The canceller pays for both (shm_heavy_fence), the
 * worker only where the kernel lacks membarrier.
 *
 * A process that is stopped by a signal in the middle of a piece cannot be waited for: after CANCEL_WAIT_NS the
 * canceller gives up, and when that process goes on it may finish that piece. A process that died is not waited for.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "internal.h"
#include <sched.h>

#define CANCEL_WAIT_NS 2000000000

bool shm_touch_begin(shm_group *group)
{
    uint64_t *touching = &group->blocks[group->rank].touching.value;
    if (group->has_membarrier) {
        shm_store(touching, group->coll.number);
        __atomic_signal_fence(__ATOMIC_SEQ_CST);
    } else {
        __atomic_store_n(touching, group->coll.number, __ATOMIC_SEQ_CST);
    }
    if (__builtin_expect(__atomic_load_n(&group->header->poisoned.value, __ATOMIC_SEQ_CST) == 0, 1))
        return true;
    shm_store(touching, 0);
    return false;
}

void shm_touch_end(shm_group *group)
{
    shm_store(&group->blocks[group->rank].touching.value, 0);
}

void shm_touch_forbid(shm_group *group)
{
    __atomic_store_n(&group->header->poisoned.value, 1, __ATOMIC_SEQ_CST);
    shm_heavy_fence();
    int64_t until = shm_now_ns() + CANCEL_WAIT_NS;
    for (int r = 0; r < group->size; r++)
        while (r != group->rank && __atomic_load_n(&group->blocks[r].touching.value, __ATOMIC_SEQ_CST) != 0 &&
               shm_peer_is_alive(group, r) && shm_now_ns() < until)
            sched_yield();
}
