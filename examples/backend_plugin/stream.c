/* stream.c - bytes in and out of one connection.
 *
 * Out: a queue of frames, the first of which may be half gone. In: one frame at a time; when its header is complete,
 * frame_begins() decides where the payload goes, and the bytes are read straight to that place. Both sides go on until the socket would
 * block.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "socket.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

void connection_queue(connection *peer, outgoing *frame)
{
    frame->next = NULL;
    *peer->end = frame;
    peer->end = &frame->next;
}

static void frame_sent(instance *self, connection *peer, outgoing *frame)
{
    peer->first = frame->next;
    if (peer->first == NULL)
        peer->end = &peer->first;
    if (frame->owner != NULL)
        frame->owner->is_done = true;
    else
        self->host->free(self->host->cookie, frame);
}

/* 1: go on; 0: would block; -1: the connection is lost. */
static int step_out(instance *self, connection *peer)
{
    outgoing *frame = peer->first;
    if (frame == NULL)
        return 0;
    size_t whole = sizeof frame->header + (size_t)frame->header.nbytes;
    struct iovec parts[2];
    int count = 0;
    if (frame->done < sizeof frame->header)
        parts[count++] = (struct iovec){ (unsigned char *)&frame->header + frame->done, sizeof frame->header - frame->done };
    size_t payload_done = frame->done > sizeof frame->header ? frame->done - sizeof frame->header : 0;
    if (frame->header.nbytes > payload_done)
        parts[count++] = (struct iovec){ (void *)(uintptr_t)(frame->payload + payload_done), (size_t)frame->header.nbytes - payload_done };
    struct msghdr message = { .msg_iov = parts, .msg_iovlen = (size_t)count };
    ssize_t sent = sendmsg(peer->fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0)
        return errno == EAGAIN || errno == EINTR ? 0 : -1;
    frame->done += (size_t)sent;
    if (frame->done < whole)
        return 0;
    frame_sent(self, peer, frame);
    return 1;
}

/* Where the next bytes go, and how many are wanted. Bytes for nobody go into waste. */
static unsigned char *destination(connection *peer, unsigned char *waste, size_t waste_nbytes, size_t *wanted)
{
    if (peer->in_done < sizeof peer->in) {
        *wanted = sizeof peer->in - peer->in_done;
        return (unsigned char *)&peer->in + peer->in_done;
    }
    size_t done = peer->in_done - sizeof peer->in;
    *wanted = (size_t)peer->in.nbytes - done;
    if (peer->receive != NULL)
        return peer->receive->buffer + done;
    if (peer->parcel != NULL)
        return peer->parcel->payload + done;
    *wanted = *wanted < waste_nbytes ? *wanted : waste_nbytes;
    return waste;
}

static int step_in(instance *self, connection *peer)
{
    unsigned char waste[4096];
    size_t wanted;
    unsigned char *to = destination(peer, waste, sizeof waste, &wanted);
    ssize_t got = recv(peer->fd, to, wanted, MSG_DONTWAIT);
    if (got < 0)
        return errno == EAGAIN || errno == EINTR ? 0 : -1;
    if (got == 0)
        return -1;
    peer->in_done += (size_t)got;
    if (peer->in_done == sizeof peer->in)
        frame_begins(self, peer);
    if (peer->in_done == sizeof peer->in + (size_t)peer->in.nbytes && peer->in_done >= sizeof peer->in) {
        frame_ends(self, peer);
        peer->in_done = 0;
    }
    return 1;
}

void connection_progress(instance *self, int world_rank)
{
    connection *peer = &self->peers[world_rank];
    int out = 1, in = 1;
    for (int budget = 64; budget > 0 && (out > 0 || in > 0); budget--) { /* other peers want their turn */
        out = out > 0 ? step_out(self, peer) : out;
        in = in > 0 ? step_in(self, peer) : in;
    }
    if (in < 0) /* what the peer had sent before it went has been read */
        peer_gone(self, world_rank, "the connection was closed");
}
