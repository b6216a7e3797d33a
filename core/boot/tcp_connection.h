/* core/boot/tcp_connection.h - one client as the server sees it: buffers, and where it is in the protocol of wire.h.
 *
 * Receiving fills one growing buffer. Sending is a queue of pieces: a header of its own and a shared blob, so that the
 * result of a gather of 512 ranks is kept once.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_BOOT_TCP_CONNECTION_H
#define KI_BOOT_TCP_CONNECTION_H

#include "../base/sock.h"
#include "table.h"
#include "wire.h"

typedef enum ki_connection_state {
    KI_CONNECTION_HELLO,    /* nothing believed yet */
    KI_CONNECTION_WELCOMED, /* rank is known, has not joined */
    KI_CONNECTION_MEMBER,
    KI_CONNECTION_LEAVING /* answer is being sent, input is thrown away, then it closes */
} ki_connection_state;

typedef struct ki_piece {
    struct ki_piece *next;
    ki_blob *blob; /* may be NULL */
    size_t head_nbytes;
    size_t sent; /* of head and blob together */
    unsigned char head[];
} ki_piece;

typedef struct ki_connection {
    struct ki_connection *next, *previous;
    int fd, rank;
    ki_connection_state state;
    bool is_broken;      /* to be closed by the loop */
    bool is_shut;        /* LEAVING: our side is closed */
    bool wants_write;    /* registered for it */
    int64_t deadline_ns; /* of HELLO, WELCOMED, LEAVING; 0: none */
    unsigned char *in;
    size_t in_nbytes, in_capacity;
    ki_piece *first, **last;
    size_t queued_nbytes;
    /* the open request */
    uint32_t wait_id;
    char *wait_key; /* GET; NULL: none */
    ki_gather *wait_gather;
    char peer[KI_SOCK_TEXT_NBYTES];
} ki_connection;

ki_connection *ki_connection_create(int fd, const char *peer);
void ki_connection_destroy(ki_connection *c); /* closes */

/* Receives what is there, at most about 1 MiB, into c->in; sets is_broken at the end of the stream or on an error. */
void ki_connection_receive(ki_connection *c);

/* The whole next frame: copies the header and points key and value into the buffer. False: not there yet, or it is
 * insane (is_broken). */
bool ki_connection_peek(ki_connection *c, ki_wire_frame *frame, const unsigned char **key, const unsigned char **value);
void ki_connection_consume(ki_connection *c, size_t nbytes);

/* Queues head (copied) and blob (a reference is taken; may be NULL) and sends what goes at once. */
void ki_connection_send(ki_connection *c, const void *head, size_t head_nbytes, ki_blob *blob);
void ki_connection_flush(ki_connection *c);

#endif
