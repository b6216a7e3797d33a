/* stream.c - bytes in and out of one connection.
 *
 * Out: a queue of frames, the first of which may be half gone. In: one frame at a time; when its header is complete,
 * frame_begins() decides where the payload goes, and the bytes are read straight to that place. Both sides go on
 * until the socket would block.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "socket.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#define UNIT_PARTS 4

/* ---- out ---- */

/* The next piece, or the mark of a cancelled frame. */
void frame_begin_unit(outgoing *frame, bool has_header)
{
    size_t left = (size_t)frame->header.nbytes - frame->offset;
    frame->has_header = has_header;
    frame->unit_done = 0;
    frame->length = left < PIECE_NBYTES ? left : PIECE_NBYTES;
    frame->piece = frame->payload + frame->offset;
    frame->end = END_HOLDS;
    if (frame->owner == NULL) {
        frame->length = PIECE_TAKEN_BACK;
        frame->piece = NULL;
    }
}

bool frame_is_last_unit(const outgoing *frame)
{
    return frame->length != PIECE_TAKEN_BACK && frame->offset + (size_t)frame->length == (size_t)frame->header.nbytes;
}

void connection_queue(connection *peer, outgoing *frame)
{
    frame->next = NULL;
    frame_begin_unit(frame, true);
    *peer->end = frame;
    peer->end = &frame->next;
}

/* What the unit consists of, without the bytes that are gone. Returns the number of parts. */
static size_t unit_parts(outgoing *frame, struct iovec *parts)
{
    bool has_piece = frame->piece != NULL && frame->header.nbytes > 0;
    struct iovec all[UNIT_PARTS] = { { &frame->header, frame->has_header ? sizeof frame->header : 0 },
                                     { &frame->length, frame->header.nbytes > 0 ? sizeof frame->length : 0 },
                                     { (void *)(uintptr_t)frame->piece, has_piece ? (size_t)frame->length : 0 },
                                     { &frame->end, frame_is_last_unit(frame) ? sizeof frame->end : 0 } };
    size_t skip = frame->unit_done, count = 0;
    for (size_t i = 0; i < UNIT_PARTS; i++) {
        size_t gone = skip < all[i].iov_len ? skip : all[i].iov_len;
        skip -= gone;
        if (gone < all[i].iov_len)
            parts[count++] = (struct iovec){ (unsigned char *)all[i].iov_base + gone, all[i].iov_len - gone };
    }
    return count;
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

static void unit_sent(instance *self, connection *peer, outgoing *frame)
{
    if (frame->length != PIECE_TAKEN_BACK) {
        frame->offset += (size_t)frame->length;
        if (frame->offset < frame->header.nbytes) {
            frame_begin_unit(frame, false);
            return;
        }
    }
    frame_sent(self, peer, frame);
}

/* 1: go on; 0: would block. A lost connection is noticed when reading. */
static int step_out(instance *self, connection *peer)
{
    outgoing *frame = peer->first;
    struct iovec parts[UNIT_PARTS];
    if (frame == NULL)
        return 0;
    struct msghdr message = { .msg_iov = parts, .msg_iovlen = unit_parts(frame, parts) };
    ssize_t sent = sendmsg(peer->fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0)
        return 0;
    frame->unit_done += (size_t)sent;
    if (unit_parts(frame, parts) > 0)
        return 0;
    unit_sent(self, peer, frame);
    return 1;
}

/* ---- in ---- */

/* Where the next bytes go, and how many are wanted. Bytes for nobody go into waste. */
static unsigned char *destination(connection *peer, unsigned char *waste, size_t waste_nbytes, size_t *wanted)
{
    if (peer->header_done < sizeof peer->in) {
        *wanted = sizeof peer->in - peer->header_done;
        return (unsigned char *)&peer->in + peer->header_done;
    }
    if (peer->offset == peer->in.nbytes) {
        *wanted = sizeof peer->last;
        return &peer->last;
    }
    if (peer->length_done < sizeof peer->length) {
        *wanted = sizeof peer->length - peer->length_done;
        return (unsigned char *)&peer->length + peer->length_done;
    }
    *wanted = peer->piece_left;
    if (peer->receive != NULL)
        return peer->receive->buffer + peer->offset;
    if (peer->parcel != NULL)
        return peer->parcel->payload + peer->offset;
    *wanted = *wanted < waste_nbytes ? *wanted : waste_nbytes;
    return waste;
}

static void frame_finish(instance *self, connection *peer, bool is_taken_back)
{
    peer->header_done = peer->length_done = 0;
    if (is_taken_back)
        frame_taken_back(self, peer);
    else
        frame_ends(self, peer);
}

/* Bytes came to where destination() said. False when they cannot be right. */
static bool advance(instance *self, connection *peer, size_t got)
{
    if (peer->header_done < sizeof peer->in) {
        peer->header_done += got;
        if (peer->header_done < sizeof peer->in)
            return true;
        peer->offset = 0;
        frame_begins(self, peer);
    } else if (peer->offset == peer->in.nbytes) {
        frame_finish(self, peer, peer->last != END_HOLDS);
    } else if (peer->length_done < sizeof peer->length) {
        peer->length_done += got;
        if (peer->length_done < sizeof peer->length)
            return true;
        if (peer->length == PIECE_TAKEN_BACK) {
            frame_finish(self, peer, true);
            return true;
        }
        peer->piece_left = (size_t)peer->length;
        return peer->length > 0 && peer->length <= peer->in.nbytes - peer->offset;
    } else {
        peer->offset += got;
        peer->piece_left -= got;
        if (peer->piece_left == 0)
            peer->length_done = 0;
    }
    return true;
}

/* 1: go on; 0: would block; -1: the connection is lost. */
static int step_in(instance *self, connection *peer)
{
    unsigned char waste[4096];
    size_t wanted;
    unsigned char *to = destination(peer, waste, sizeof waste, &wanted);
    ssize_t got = recv(peer->fd, to, wanted, MSG_DONTWAIT);
    if (got < 0)
        return errno == EAGAIN || errno == EINTR ? 0 : -1;
    if (got == 0 || !advance(self, peer, (size_t)got))
        return -1;
    return 1;
}

void connection_progress(instance *self, int world_rank, int steps)
{
    connection *peer = &self->peers[world_rank];
    int out = 1, in = 1;
    for (; steps > 0 && (out > 0 || in > 0); steps--) {
        out = out > 0 ? step_out(self, peer) : out;
        in = in > 0 ? step_in(self, peer) : in;
    }
    if (in < 0) /* what the peer had sent before it went has been read */
        peer_gone(self, world_rank, "the connection was closed");
}
