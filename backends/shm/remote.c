/* backends/shm/remote.c - reading and writing the other ranks' private memory through the kernel.
 *
 * process_vm_readv() and process_vm_writev() copy between two processes without staging. Whether they are permitted
 * depends on user, capabilities, ptrace scope and container settings, so nothing is assumed: at group creation every
 * rank reads a number from, and writes one into, a page of every other rank, and the group uses them only if all of it
 * succeeded everywhere.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "internal.h"
#include <errno.h>
#include <sys/uio.h>

/* Often the kernel knows first that a process has ended. Leaves the reason in errno. */
static void fail(shm_group *group, int peer, int reason)
{
    if (reason == ESRCH)
        shm_peer_fail(group, peer);
    errno = reason;
}

static bool transfer(shm_group *group, int peer, unsigned char *near, unsigned char *far, size_t nbytes, bool is_write)
{
    while (nbytes > 0) {
        struct iovec local = { near, nbytes }, remote = { far, nbytes };
        ssize_t moved = is_write ? process_vm_writev(group->peers[peer].pid, &local, 1, &remote, 1, 0)
                                 : process_vm_readv(group->peers[peer].pid, &local, 1, &remote, 1, 0);
        if (moved <= 0) {
            if (moved < 0 && errno == EINTR)
                continue;
            fail(group, peer, moved < 0 ? errno : EFAULT);
            return false;
        }
        near += moved;
        far += moved;
        nbytes -= (size_t)moved;
    }
    return true;
}

bool shm_remote_read(shm_group *group, int peer, void *to, const void *from, size_t nbytes)
{
    return transfer(group, peer, to, (unsigned char *)(uintptr_t)from, nbytes, false);
}

bool shm_remote_write(shm_group *group, int peer, void *to, const void *from, size_t nbytes)
{
    return transfer(group, peer, (unsigned char *)(uintptr_t)from, to, nbytes, true);
}
