/* backends/shm/liveness.c - noticing that the others are gone.
 *
 * A rank that waits in vain looks every few milliseconds whether a peer's process has ended: through a pidfd, or, on
 * older kernels, by its pid and start time. What a process wrote before it died is still in the arena, so messages are
 * drained once more before the death is told. Ranks in this process are not watched, nor are pids that this process
 * cannot see (another pid name space): there the deadline has to do.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "internal.h"
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define CHECK_PERIOD_NS 20000000
#define POLLS_PER_CLOCK 64

int64_t shm_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Field 22 of /proc/<pid>/stat, 0 when there is no such process. The second field may hold blanks and parentheses. */
uint64_t shm_process_start_time(pid_t pid)
{
    char path[64], text[1024];
    snprintf(path, sizeof path, "/proc/%ld/stat", (long)pid);
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return 0;
    size_t nbytes = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[nbytes] = '\0';
    const char *at = strrchr(text, ')');
    for (int field = 2; at != NULL && field < 22; field++)
        at = strchr(at + 1, ' ');
    return at != NULL ? strtoull(at + 1, NULL, 10) : 0;
}

static int open_pidfd(pid_t pid)
{
#ifdef SYS_pidfd_open
    return (int)syscall(SYS_pidfd_open, pid, 0);
#else
    (void)pid;
    errno = ENOSYS;
    return -1;
#endif
}

void shm_peers_watch(shm_group *group)
{
    for (int r = 0; r < group->size; r++) {
        shm_peer *peer = &group->peers[r];
        peer->pidfd = -1;
        if (peer->is_here)
            continue;
        peer->pidfd = open_pidfd(peer->pid);
        peer->is_watched = shm_process_start_time(peer->pid) == peer->start_time;
        if (!peer->is_watched && peer->pidfd >= 0) {
            close(peer->pidfd);
            peer->pidfd = -1;
        }
    }
}

void shm_peers_unwatch(shm_group *group)
{
    for (int r = 0; r < group->size; r++)
        if (!group->peers[r].is_here && group->peers[r].pidfd >= 0)
            close(group->peers[r].pidfd);
}

static bool has_ended(const shm_peer *peer)
{
    if (peer->pidfd >= 0) {
        struct pollfd poll_fd = { peer->pidfd, POLLIN, 0 };
        return poll(&poll_fd, 1, 0) == 1;
    }
    return (kill(peer->pid, 0) != 0 && errno == ESRCH) || shm_process_start_time(peer->pid) != peer->start_time;
}

bool shm_peer_is_alive(shm_group *group, int rank)
{
    const shm_peer *peer = &group->peers[rank];
    return !peer->is_watched || (!peer->is_dead && !has_ended(peer));
}

/* A peer whose process ended; -1: none. One that died is named before one that left after the death of another. */
static int find_ended(shm_group *group)
{
    int left = -1;
    for (int r = 0; r < group->size; r++) {
        shm_peer *peer = &group->peers[r];
        if (!peer->is_watched || peer->is_dead || !has_ended(peer))
            continue;
        if (shm_load(&group->blocks[r].left.value) == 0)
            return r;
        left = left < 0 ? r : left;
    }
    return left;
}

kith_status shm_peer_fail(shm_group *group, int rank)
{
    shm_peer *peer = &group->peers[rank];
    bool has_left = shm_load(&group->blocks[rank].left.value) != 0;
    bool is_known = peer->is_dead;
    char why[96];
    peer->is_dead = true;
    snprintf(why, sizeof why, "process %ld %s", (long)peer->pid, has_left ? "left the group and ended" : "ended");
    if (!is_known)
        group->host->peer_failed(group->cookie, rank, why);
    return group->host->fail(KITH_ERR_PEER_FAILED, "group %s: rank %d (%s)", group->name, rank, why);
}

static kith_status look_for_dead(shm_group *group)
{
    int rank = find_ended(group);
    if (rank < 0)
        return KITH_OK;
    if (shm_messages_progress(group))
        return KITH_OK; /* its last words; look again later */
    return shm_peer_fail(group, rank);
}

/* Whoever sees a death first may abort on it: the others shall hear of the death. */
static kith_status fail_aborted(shm_group *group, int by)
{
    int ended = find_ended(group);
    if (ended >= 0 && ended != by && shm_load(&group->blocks[ended].left.value) == 0)
        return shm_peer_fail(group, ended);
    return group->host->fail(KITH_ERR_ABORTED, "group %s was aborted by rank %d", group->name, by);
}

kith_status shm_group_check(shm_group *group)
{
    uint64_t aborted = __atomic_load_n(&group->header->aborted.value, __ATOMIC_RELAXED);
    if (__builtin_expect(aborted != 0, 0))
        return fail_aborted(group, (int)aborted - 1);
    if (++group->polls % POLLS_PER_CLOCK != 0)
        return KITH_OK;
    int64_t now = shm_now_ns();
    if (now - group->checked_ns < CHECK_PERIOD_NS)
        return KITH_OK;
    group->checked_ns = now;
    return look_for_dead(group);
}
