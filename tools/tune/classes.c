/* tools/tune/classes.c - the link classes, and one thing that no backend says: whether processes may read each other.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "links.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

/* UCX fills up with another transport what one cannot do, and says nothing; so each of its classes is one transport
 * alone, and one that cannot carry Kith's messages by itself (they are active messages) is absent. Without KITH_HIER
 * collectives would go through the shared memory beside it. */
static const tune_class classes[] = {
    { "shm", "shm", { { "KITH_SHM_CMA", "off" } }, false, false },
    { "shm-cma", "shm", { { "KITH_SHM_CMA", "always" } }, false, true },
    { "ucx-posix", "ucx", { { "KITH_UCX_TLS", "posix" }, { "KITH_HIER", "off" } }, false, false },
    { "ucx-sysv", "ucx", { { "KITH_UCX_TLS", "sysv" }, { "KITH_HIER", "off" } }, false, false },
    { "ucx-cma", "ucx", { { "KITH_UCX_TLS", "cma" }, { "KITH_HIER", "off" } }, false, false },
    { "ucx-tcp", "ucx", { { "KITH_UCX_TLS", "tcp" }, { "KITH_HIER", "off" } }, false, false },
    { "ucx-rc", "ucx", { { "KITH_UCX_TLS", "rc" }, { "KITH_HIER", "off" } }, false, false },
    { "ucx-cuda_ipc", "ucx", { { "KITH_UCX_TLS", "cuda_ipc" }, { "KITH_HIER", "off" } }, true, false },
    { "mpi", "mpi", { { "KITH_MPI_NATIVE", "auto" } }, false, false },
    { "mpi-blocking", "mpi", { { "KITH_MPI_NATIVE", "blocking" } }, false, false },
    { "nccl-p2p", "nccl", { { "KITH_NCCL_P2P", "auto" } }, true, false },
    { "nccl-shm", "nccl", { { "KITH_NCCL_P2P", "off" } }, true, false },
    { "nccl-net", "nccl", { { "KITH_NCCL_P2P", "off" }, { "KITH_NCCL_SHM", "off" } }, true, false },
};

const tune_class *tune_class_at(size_t index)
{
    return index < sizeof classes / sizeof classes[0] ? &classes[index] : NULL;
}

/* 0, or the errno of reading a word of that process, which is a copy of this one. */
static int read_from(pid_t pid)
{
    static uint64_t word = 0x6b697468, copy;
    struct iovec here = { &copy, sizeof copy }, there = { &word, sizeof word };
    return process_vm_readv(pid, &here, 1, &there, 1, 0) == (ssize_t)sizeof copy ? 0 : errno != 0 ? errno : EIO;
}

/* Ranks are brothers, who may be allowed less than parents are. */
bool tune_cma_works(char *reason, size_t nbytes)
{
    int ends[2], status = 0, cause = EAGAIN;
    char byte;
    if (pipe(ends) != 0) {
        snprintf(reason, nbytes, "no pipe for a probe: %s", strerror(errno));
        return false;
    }
    pid_t read_one = fork();
    if (read_one == 0) {
        close(ends[1]);
        ssize_t got = read(ends[0], &byte, 1); /* until the other end is closed */
        _exit(got == 0 ? 0 : 1);
    }
    pid_t reader = read_one > 0 ? fork() : -1;
    if (reader == 0)
        _exit(read_from(read_one));
    if (reader > 0 && waitpid(reader, &status, 0) == reader && WIFEXITED(status))
        cause = WEXITSTATUS(status);
    close(ends[0]);
    close(ends[1]);
    if (read_one > 0)
        waitpid(read_one, &status, 0);
    if (cause != 0)
        snprintf(reason, nbytes, "process_vm_readv between processes: %s", strerror(cause));
    return cause == 0;
}
