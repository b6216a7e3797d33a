/* connect.c - groups, and the connections that they need.
 *
 * A process listens on an abstract UNIX address made of the job's id and its world rank: nothing to exchange, and
 * nothing in the file system to clean up. group_create() is collective, so this is where connections are made:
 *
 *   1. exchange: everybody is here, so everybody listens;
 *   2. connect to the members with a lower world rank, say who we are, and accept the higher ones (not those that an
 *      earlier group has connected already);
 *   3. the library compares all ranks' statuses after group_create(): if one failed, it destroys the group on the
 *      others.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "socket.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* An address that starts with a zero byte is abstract: it disappears with its socket. */
static socklen_t address_of(const instance *self, int world_rank, struct sockaddr_un *address)
{
    memset(address, 0, sizeof *address);
    address->sun_family = AF_UNIX;
    int length = snprintf(address->sun_path + 1, sizeof address->sun_path - 1, "kith-socket-%llx-%d",
                          (unsigned long long)self->host->job_id, world_rank);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
}

kith_status instance_listen(instance *self)
{
    const kith_be_host *host = self->host;
    struct sockaddr_un address;
    socklen_t nbytes = address_of(self, host->rank, &address);
    self->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (self->listener < 0)
        return host->fail(KITH_ERR_NO_RESOURCE, "socket: no socket: %s", strerror(errno));
    if (bind(self->listener, (struct sockaddr *)&address, nbytes) != 0 || listen(self->listener, SOMAXCONN) != 0)
        return host->fail(KITH_ERR_NO_RESOURCE, "socket: cannot listen as %s: %s", address.sun_path + 1,
                          strerror(errno));
    return KITH_OK;
}

static kith_status use(instance *self, int world_rank, int fd)
{
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0) {
        close(fd);
        return self->host->fail(KITH_ERR_NO_RESOURCE, "socket: fcntl: %s", strerror(errno));
    }
    self->peers[world_rank].fd = fd;
    return KITH_OK;
}

static kith_status connect_to(instance *self, int world_rank)
{
    const kith_be_host *host = self->host;
    struct sockaddr_un address;
    socklen_t nbytes = address_of(self, world_rank, &address);
    uint32_t me = (uint32_t)host->rank;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return host->fail(KITH_ERR_NO_RESOURCE, "socket: no socket: %s", strerror(errno));
    /* A UNIX connect is complete when it is in the listener's queue: this does not wait for the other side. */
    if (connect(fd, (struct sockaddr *)&address, nbytes) != 0 ||
        send(fd, &me, sizeof me, MSG_NOSIGNAL) != (ssize_t)sizeof me) {
        int cause = errno;
        close(fd);
        return host->fail(KITH_ERR_UNREACHABLE, "socket: cannot connect to world rank %d: %s", world_rank,
                          strerror(cause));
    }
    return use(self, world_rank, fd);
}

static kith_status accept_one(instance *self, int64_t until_ms)
{
    const kith_be_host *host = self->host;
    uint32_t who;
    int64_t left = until_ms - now_ms();
    struct pollfd fd = { .fd = self->listener, .events = POLLIN };
    if (left <= 0 || poll(&fd, 1, (int)left) == 0)
        return host->fail(KITH_ERR_TIMEOUT,
                          "socket: a member of the group did not connect within the connect deadline");
    int peer = accept(self->listener, NULL, NULL);
    if (peer < 0)
        return errno == EAGAIN || errno == EINTR
                   ? KITH_OK
                   : host->fail(KITH_ERR_NO_RESOURCE, "socket: accept: %s", strerror(errno));
    /* The peer's number follows at once. A stranger that connects and says nothing is waited for a second, once. */
    fd = (struct pollfd){ .fd = peer, .events = POLLIN };
    if (poll(&fd, 1, 1000) != 1 || recv(peer, &who, sizeof who, MSG_DONTWAIT) != (ssize_t)sizeof who ||
        who >= (uint32_t)host->size || self->peers[who].fd >= 0) {
        close(peer);
        return KITH_OK;
    }
    return use(self, (int)who, peer);
}

static bool is_connected(const instance *self, int world_rank)
{
    return world_rank == self->host->rank || self->peers[world_rank].fd >= 0 || self->peers[world_rank].is_gone;
}

static kith_status connect_members(instance *self, const kith_be_group_info *info)
{
    kith_status status = KITH_OK;
    int64_t until = now_ms() + self->host->connect_timeout_ms;
    for (int r = 0; r < info->size && status == KITH_OK; r++)
        if (info->world_ranks[r] < self->host->rank && !is_connected(self, info->world_ranks[r]))
            status = connect_to(self, info->world_ranks[r]);
    for (int r = 0; r < info->size; r++)
        while (status == KITH_OK && !is_connected(self, info->world_ranks[r]))
            status = accept_one(self, until);
    return status;
}

kith_status group_create(void *be, const kith_be_group_info *info, void **out)
{
    instance *self = (instance *)be;
    const kith_be_host *host = self->host;
    kith_status status = KITH_OK;
    unsigned char mine = 1;
    group *made = (group *)host->alloc(host->cookie, sizeof *made, 64);
    unsigned char *all = (unsigned char *)host->alloc(host->cookie, (size_t)info->size, 16);
    if (made == NULL || all == NULL)
        status = host->fail(KITH_ERR_NO_MEMORY, "socket: no memory for a group of %d ranks", info->size);
    else if (!info->is_one_node)
        status =
            host->fail(KITH_ERR_UNSUPPORTED, "socket: the ranks of group '%s' are on more than one host", info->name);
    status = host->exchange(info->cookie, status, &mine, sizeof mine, all); /* also when we failed */
    if (status == KITH_OK)
        status = connect_members(self, info);
    if (all != NULL)
        host->free(host->cookie, all);
    if (status != KITH_OK) {
        if (made != NULL)
            host->free(host->cookie, made);
        return status;
    }
    memset(made, 0, sizeof *made);
    made->owner = self;
    made->info = *info;
    made->next = self->groups;
    self->groups = made;
    *out = made;
    return KITH_OK;
}

void group_destroy(void *handle)
{
    group *self = (group *)handle;
    if (self == NULL)
        return;
    const kith_be_host *host = self->owner->host;
    group **at = &self->owner->groups;
    while (*at != self)
        at = &(*at)->next;
    *at = self->next;
    for (int r = 0; r < host->size; r++) { /* a parcel that is still coming: its rest is thrown away */
        connection *peer = &self->owner->peers[r];
        if (peer->parcel != NULL && peer->parcel->header.group == self->info.id)
            peer->parcel = NULL;
    }
    while (self->unexpected != NULL) {
        parcel *next = self->unexpected->next;
        host->free(host->cookie, self->unexpected);
        self->unexpected = next;
    }
    host->free(host->cookie, self);
}

void group_abort(void *handle)
{
    atomic_store(&((group *)handle)->is_aborted, 1);
}
