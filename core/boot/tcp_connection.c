/* core/boot/tcp_connection.c - buffers of one client of the TCP store's server (see tcp_connection.h).
 *
 * A client that asks but does not read would make the queue grow: above MAX_QUEUED it is cut off.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "tcp_connection.h"
#include "../base/mem.h"
#include <errno.h>
#include <stdio.h>
#include <sys/uio.h>
#include <unistd.h>

enum { FIRST_CAPACITY = 1024, KEEP_CAPACITY = 65536, RECEIVE_AT_ONCE = 1 << 20, PIECES_AT_ONCE = 16 };
#define MAX_QUEUED ((size_t)256 << 20)

ki_connection *ki_connection_create(int fd, const char *peer)
{
    ki_connection *c = ki_calloc(NULL, 1, sizeof *c);
    if (!c)
        return NULL;
    c->in = ki_calloc(NULL, 1, FIRST_CAPACITY);
    if (!c->in) {
        ki_free(NULL, c);
        return NULL;
    }
    c->in_capacity = FIRST_CAPACITY;
    c->fd = fd;
    c->rank = -1;
    c->last = &c->first;
    snprintf(c->peer, sizeof c->peer, "%s", peer);
    return c;
}

static void drop_first(ki_connection *c)
{
    ki_piece *p = c->first;
    c->first = p->next;
    if (!c->first)
        c->last = &c->first;
    c->queued_nbytes -= p->head_nbytes + (p->blob ? p->blob->nbytes : 0);
    ki_blob_unref(p->blob);
    ki_free(NULL, p);
}

void ki_connection_destroy(ki_connection *c)
{
    while (c->first)
        drop_first(c);
    close(c->fd);
    ki_free(NULL, c->wait_key);
    ki_free(NULL, c->in);
    ki_free(NULL, c);
}

/* ---- receiving ---- */

static bool set_capacity(ki_connection *c, size_t capacity)
{
    unsigned char *in = ki_calloc(NULL, 1, capacity);
    if (!in)
        return false;
    memcpy(in, c->in, c->in_nbytes);
    ki_free(NULL, c->in);
    c->in = in;
    c->in_capacity = capacity;
    return true;
}

/* Room for the frame that has begun to arrive; it was found sane by peek(). */
static bool make_room(ki_connection *c)
{
    ki_wire_frame frame;
    if (c->state != KI_CONNECTION_MEMBER || c->in_nbytes < sizeof frame)
        return true;
    memcpy(&frame, c->in, sizeof frame);
    size_t wanted = (size_t)ki_wire_frame_nbytes(&frame);
    if (!ki_wire_frame_is_sane(&frame) || wanted <= c->in_capacity)
        return true;
    return set_capacity(c, wanted);
}

void ki_connection_receive(ki_connection *c)
{
    if (!make_room(c) || c->in_nbytes == c->in_capacity) {
        c->is_broken = true;
        return;
    }
    size_t most = c->in_capacity - c->in_nbytes;
    ssize_t n = ki_sock_recv(c->fd, c->in + c->in_nbytes, most < RECEIVE_AT_ONCE ? most : RECEIVE_AT_ONCE);
    if (n > 0)
        c->in_nbytes += (size_t)n;
    else if (n == 0 || (errno != EAGAIN && errno != EWOULDBLOCK))
        c->is_broken = true;
}

bool ki_connection_peek(ki_connection *c, ki_wire_frame *frame, const unsigned char **key, const unsigned char **value)
{
    if (c->in_nbytes < sizeof *frame)
        return false;
    memcpy(frame, c->in, sizeof *frame);
    if (!ki_wire_frame_is_sane(frame)) {
        c->is_broken = true;
        return false;
    }
    if (c->in_nbytes < ki_wire_frame_nbytes(frame))
        return false;
    *key = c->in + sizeof *frame;
    *value = *key + frame->key_nbytes;
    return true;
}

void ki_connection_consume(ki_connection *c, size_t nbytes)
{
    c->in_nbytes -= nbytes;
    memmove(c->in, c->in + nbytes, c->in_nbytes);
    if (c->in_nbytes == 0 && c->in_capacity > KEEP_CAPACITY)
        set_capacity(c, FIRST_CAPACITY); /* when there is no memory, the large one stays */
}

/* ---- sending ---- */

static size_t piece_nbytes(const ki_piece *p)
{
    return p->head_nbytes + (p->blob ? p->blob->nbytes : 0);
}

static void add_part(struct iovec *parts, int *count, unsigned char *data, size_t nbytes, size_t *skip)
{
    size_t skipped = *skip < nbytes ? *skip : nbytes;
    *skip -= skipped;
    if (skipped < nbytes)
        parts[(*count)++] = (struct iovec){ data + skipped, nbytes - skipped };
}

static void account_sent(ki_connection *c, size_t nbytes)
{
    while (c->first) {
        size_t left = piece_nbytes(c->first) - c->first->sent;
        if (nbytes < left) {
            c->first->sent += nbytes;
            return;
        }
        nbytes -= left;
        drop_first(c);
    }
}

void ki_connection_flush(ki_connection *c)
{
    while (c->first && !c->is_broken) {
        struct iovec parts[2 * PIECES_AT_ONCE];
        int count = 0, pieces = 0;
        for (ki_piece *p = c->first; p && pieces < PIECES_AT_ONCE; p = p->next, pieces++) {
            size_t skip = p->sent;
            add_part(parts, &count, p->head, p->head_nbytes, &skip);
            if (p->blob)
                add_part(parts, &count, p->blob->data, p->blob->nbytes, &skip);
        }
        struct msghdr message = { .msg_iov = parts, .msg_iovlen = (size_t)count };
        ssize_t n = ki_sock_sendmsg(c->fd, &message);
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return;
        if (n < 0)
            c->is_broken = true;
        else
            account_sent(c, (size_t)n);
    }
}

void ki_connection_send(ki_connection *c, const void *head, size_t head_nbytes, ki_blob *blob)
{
    ki_piece *p = c->is_broken ? NULL : ki_calloc(NULL, 1, sizeof *p + head_nbytes);
    if (!p) {
        c->is_broken = true;
        return;
    }
    memcpy(p->head, head, head_nbytes);
    p->head_nbytes = head_nbytes;
    p->blob = blob ? ki_blob_ref(blob) : NULL;
    *c->last = p;
    c->last = &p->next;
    c->queued_nbytes += piece_nbytes(p);
    if (c->queued_nbytes > MAX_QUEUED)
        c->is_broken = true;
    ki_connection_flush(c);
}
