/* backends/shm/doorbell.c - sleeping, and waking those who sleep.
 *
 * A rank that has waited for long sleeps on its doorbell, a futex word in each of its groups' arenas. Ranks that
 * publish something look at one counter, `sleepers`, and ring only when it is not zero, so the common case costs one
 * load of a line that nobody writes.
 *
 * The sleeper says that it sleeps, then looks once more; the publisher publishes, then looks at sleepers. On both
 * sides the store must come before the load. The sleeper pays for both: membarrier() makes every running thread of the
 * processes that registered pass a barrier. Where the kernel lacks it, a sleep may miss its wake-up and lasts
 * SHORT_SLEEP_NS at most.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "internal.h"
#include <errno.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define SHORT_SLEEP_NS 500000
#define GROUPS_MAX 64 /* that one sleep listens to; with more it is a short one */

#ifndef FUTEX_32
#define FUTEX_32 2
#endif

static long membarrier(int command)
{
    return syscall(SYS_membarrier, command, 0, 0);
}

void shm_doorbell_open(shm_instance *instance)
{
    instance->has_membarrier = membarrier(MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED) == 0;
}

void shm_heavy_fence(void)
{
    membarrier(MEMBARRIER_CMD_GLOBAL_EXPEDITED);
}

static uint32_t *bell_of(shm_group *group, int rank)
{
    return (uint32_t *)(void *)&group->blocks[rank].doorbell.value;
}

void shm_doorbell_ring(shm_group *group)
{
    for (int r = 0; r < group->size; r++) {
        if (r == group->rank)
            continue;
        __atomic_add_fetch(bell_of(group, r), 1, __ATOMIC_SEQ_CST);
        syscall(SYS_futex, bell_of(group, r), FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
    }
}

/* As the kernel's struct futex_waitv. */
struct wait_entry {
    uint64_t value, address;
    uint32_t flags, reserved;
};

static void wait_on(struct wait_entry *entries, unsigned count, int64_t timeout_ns)
{
#ifdef SYS_futex_waitv
    int64_t until = shm_now_ns() + timeout_ns;
    struct timespec deadline = { (time_t)(until / 1000000000), (long)(until % 1000000000) };
    if (count > 1) {
        if (syscall(SYS_futex_waitv, entries, count, 0, &deadline, CLOCK_MONOTONIC) >= 0 || errno != ENOSYS)
            return;
    }
#endif
    struct timespec timeout = { (time_t)(timeout_ns / 1000000000), (long)(timeout_ns % 1000000000) };
    if (count == 1)
        syscall(SYS_futex, (uint32_t *)(uintptr_t)entries[0].address, FUTEX_WAIT, (uint32_t)entries[0].value, &timeout,
                NULL, 0);
    else
        nanosleep(&timeout, NULL);
}

static bool is_waiting(const shm_group *group)
{
    return group->coll.is_active || shm_messages_pending(group);
}

/* Tries everything once more. */
static bool has_news(shm_instance *instance)
{
    bool is_news = false;
    for (shm_group *group = instance->groups; group != NULL; group = group->next) {
        if (!is_waiting(group))
            continue;
        uint64_t before = group->coll.moves;
        bool was_active = group->coll.is_active;
        shm_coll_advance(group);
        is_news |= before != group->coll.moves || was_active != group->coll.is_active;
        is_news |= shm_messages_progress(group);
        is_news |= __atomic_load_n(&group->header->aborted.value, __ATOMIC_ACQUIRE) != 0;
    }
    return is_news;
}

void shm_idle(void *instance_, int64_t timeout_ns)
{
    shm_instance *instance = instance_;
    struct wait_entry entries[GROUPS_MAX] = { 0 };
    shm_group *counted[GROUPS_MAX];
    unsigned count = 0;
    bool is_short = !instance->has_membarrier;
    for (shm_group *group = instance->groups; group != NULL; group = group->next) {
        if (!is_waiting(group))
            continue;
        if (count == GROUPS_MAX) {
            is_short = true;
            break;
        }
        __atomic_add_fetch(&group->header->sleepers.value, 1, __ATOMIC_SEQ_CST);
        uint32_t *bell = bell_of(group, group->rank);
        entries[count].value = __atomic_load_n(bell, __ATOMIC_ACQUIRE);
        entries[count].address = (uint64_t)(uintptr_t)bell;
        entries[count].flags = FUTEX_32;
        counted[count++] = group;
    }
    if (instance->has_membarrier)
        shm_heavy_fence();
    if (count > 0 && !has_news(instance))
        wait_on(entries, count, is_short && timeout_ns > SHORT_SLEEP_NS ? SHORT_SLEEP_NS : timeout_ns);
    for (unsigned i = 0; i < count; i++)
        __atomic_sub_fetch(&counted[i]->header->sleepers.value, 1, __ATOMIC_SEQ_CST);
}
