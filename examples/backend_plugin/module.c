/* module.c - the table, and the instance. The library finds kith_backend_v1() in libkith_socket.so and copies the
 * table.
 *
 * Optional functions that are left out: query and coll_... (no collective of its own), launch (it starts no ranks),
 * mem_... (it maps no memory).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "socket.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Asked before anything else, also by `kith info`: cheap, and nothing stays behind. */
static kith_status available(char *reason, size_t reason_nbytes)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        snprintf(reason, reason_nbytes, "no UNIX sockets: %s", strerror(errno));
        return KITH_ERR_UNSUPPORTED;
    }
    close(fd);
    snprintf(reason, reason_nbytes, "UNIX sockets, one host");
    return KITH_OK;
}

static void be_close(void *be)
{
    instance *self = (instance *)be;
    const kith_be_host *host = self->host;
    for (int r = 0; self->peers != NULL && r < host->size; r++) {
        connection *peer = &self->peers[r];
        while (peer->first != NULL && peer->first->owner == NULL) { /* rests of cancelled sends */
            outgoing *next = peer->first->next;
            host->free(host->cookie, peer->first);
            peer->first = next;
        }
        if (peer->fd >= 0)
            close(peer->fd);
    }
    if (self->listener >= 0)
        close(self->listener);
    if (self->peers != NULL)
        host->free(host->cookie, self->peers);
    host->free(host->cookie, self);
}

/* Local: the other ranks may not be there yet, so no connection can be made here. */
static kith_status be_open(const kith_be_host *host, void **be)
{
    instance *self = (instance *)host->alloc(host->cookie, sizeof *self, 64);
    if (self == NULL)
        return host->fail(KITH_ERR_NO_MEMORY, "socket: no memory for an instance");
    memset(self, 0, sizeof *self);
    self->host = host;
    self->listener = -1;
    self->peers = (connection *)host->alloc(host->cookie, sizeof *self->peers * (size_t)host->size, 64);
    kith_status status = KITH_OK;
    if (self->peers == NULL)
        status = host->fail(KITH_ERR_NO_MEMORY, "socket: no memory for %d connections", host->size);
    for (int r = 0; self->peers != NULL && r < host->size; r++) {
        self->peers[r] = (connection){ .fd = -1 };
        self->peers[r].end = &self->peers[r].first;
    }
    if (status == KITH_OK)
        status = instance_listen(self);
    if (status != KITH_OK) {
        be_close(self);
        return status;
    }
    *be = self;
    return KITH_OK;
}

static void progress(void *be)
{
    instance *self = (instance *)be;
    for (int r = 0; r < self->host->size; r++)
        if (self->peers[r].fd >= 0)
            connection_progress(self, r, 64); /* other peers want their turn */
}

/* The library waits with this at the end, so that what was sent does arrive. */
static int is_drained(void *be)
{
    instance *self = (instance *)be;
    progress(be);
    for (int r = 0; r < self->host->size; r++)
        if (self->peers[r].fd >= 0 && self->peers[r].first != NULL)
            return 0;
    return 1;
}

/* Sleeps until a socket has something, or could take something. */
static void idle(void *be, int64_t timeout_ns)
{
    enum { MOST = 256 };
    instance *self = (instance *)be;
    struct pollfd fds[MOST];
    struct timespec timeout = { .tv_sec = timeout_ns / 1000000000, .tv_nsec = timeout_ns % 1000000000 };
    nfds_t count = 0;
    for (int r = 0; r < self->host->size && count < MOST; r++) {
        const connection *peer = &self->peers[r];
        if (peer->fd >= 0)
            fds[count++] =
                (struct pollfd){ .fd = peer->fd, .events = (short)(POLLIN | (peer->first != NULL ? POLLOUT : 0)) };
    }
    (void)ppoll(fds, count, &timeout, NULL);
}

static const kith_backend table = {
    .abi = KITH_BACKEND_ABI,
    .struct_size = sizeof(kith_backend),
    .name = "socket",
    .available = available,
    .open = be_open,
    .close = be_close,
    .group_create = group_create,
    .group_destroy = group_destroy,
    .group_abort = group_abort,
    .send_start = send_start,
    .recv_start = recv_start,
    .msg_test = msg_test,
    .msg_cancel = msg_cancel,
    .progress = progress,
    .is_drained = is_drained,
    .idle = idle,
};

#if defined(__GNUC__)
__attribute__((visibility("default")))
#endif
const kith_backend *
kith_backend_v1(void);

const kith_backend *kith_backend_v1(void)
{
    return &table;
}
