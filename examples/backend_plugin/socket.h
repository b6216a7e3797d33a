/* socket.h - an example of a backend made outside of kith: messages over UNIX sockets, for ranks of one host.
 *
 * Read kith/backend.h first; then module.c (the table), connect.c (groups), message.c (messages), in this order. It
 * gives send and receive only: the library makes every collective out of them.
 *
 * The parts:
 *   instance   one per kith context: a listening socket, and one connection per peer process, shared by all groups.
 *   group      its id goes into every frame, so messages of different groups never meet.
 *   frame      a header, then the payload in pieces, each with its length before it, then one byte that says whether
 *              the message holds. A socket keeps the order, and with it the order inside a tag. Pieces are there so
 *              that a cancelled message can stop after one; the last byte, so that it can be taken back until its
 *              very end.
 *   operation  a send or a receive. It lives in the core's slot: starting one allocates nothing.
 *   parcel     a message that came before its receive was posted; the only thing that is allocated while running.
 *
 * Rules of the interface that shaped it:
 *   - nothing blocks, except group_create(), which has a deadline;
 *   - a failure is told with host->fail() once, by the function that sees it, and passed on as a status;
 *   - after msg_cancel() the caller's buffer is not touched: of a frame that is half way out, the rest of the piece
 *     is copied, and a mark follows that takes the message back; the rest of one that is half way in is thrown away;
 *   - a rank whose group_create() fails still takes part in host->exchange(), so that all learn of it.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef SOCKET_H
#define SOCKET_H

#include <kith/backend.h>
#include <stdatomic.h>
#include <stdbool.h>

typedef struct instance instance;
typedef struct group group;
typedef struct operation operation;

/* What goes before each payload. All ranks run on one host, so it is sent as it lies in memory. */
typedef struct frame_header {
    uint64_t group; /* id */
    uint64_t tag;
    uint64_t nbytes;
    uint64_t source; /* group rank of the sender */
} frame_header;

#define PIECE_NBYTES ((size_t)64 << 10)
#define PIECE_TAKEN_BACK UINT64_MAX /* instead of a length: the sender cancelled, no more pieces come */
enum { END_HOLDS = 0, END_TAKEN_BACK = 1 };

/* A frame on its way out. Part of a send; or on its own, when the send was cancelled half way. It goes in units: the
 * length of a piece and the piece; before the first one, the header; after the last one, the end. */
typedef struct outgoing {
    struct outgoing *next;
    frame_header header;
    bool has_header; /* the unit that goes now begins with the header */
    uint64_t length; /* of the piece that goes now, or the mark */
    const unsigned char *piece;
    unsigned char end;
    size_t unit_done; /* bytes of the unit that are gone */
    size_t offset;    /* of the piece in the payload */
    const unsigned char *payload;
    operation *owner; /* NULL: cancelled; ends with the mark, and is freed */
} outgoing;

struct operation {
    operation *next; /* of the posted receives */
    group *group;
    int peer; /* group rank */
    bool is_send, is_done;
    kith_status status; /* when done */
    uint64_t tag;
    unsigned char *buffer;
    size_t nbytes;         /* of the message, or the most that is received */
    size_t message_nbytes; /* of the message that a receive matched */
    outgoing out;
};
_Static_assert(sizeof(operation) <= sizeof(kith_be_slot), "an operation fits into the core's slot");

/* A message that nobody has asked for yet. */
typedef struct parcel {
    struct parcel *next;
    frame_header header;
    bool is_whole;    /* all bytes are here */
    operation *taker; /* a receive that matched it while its bytes were coming */
    unsigned char payload[];
} parcel;

/* Another process. */
typedef struct connection {
    int fd;       /* -1: none */
    bool is_gone; /* it closed, or died */
    outgoing *first, **end;
    frame_header in;    /* of the frame that is coming */
    size_t header_done; /* bytes of it that are here */
    uint64_t length;    /* of the piece that is coming */
    size_t length_done; /* bytes of that number that are here */
    size_t piece_left;
    unsigned char last; /* END_... */
    size_t offset;      /* of the next byte in the payload */
    operation *receive; /* where the payload goes: a receive, a parcel, or (both NULL) nowhere */
    parcel *parcel;
} connection;

struct instance {
    const kith_be_host *host;
    int listener;
    connection *peers; /* [world size] */
    group *groups;
};

struct group {
    group *next;
    instance *owner;
    kith_be_group_info info;
    operation *posted;     /* oldest first */
    parcel *unexpected;    /* oldest first */
    atomic_int is_aborted; /* the only thing that another thread sets */
};

/* connect.c */
kith_status instance_listen(instance *self);
kith_status group_create(void *be, const kith_be_group_info *info, void **out);
void group_destroy(void *handle);
void group_abort(void *handle);

/* message.c */
kith_status send_start(void *handle, const kith_be_msg *msg, kith_be_slot *slot);
kith_status recv_start(void *handle, const kith_be_msg *msg, kith_be_slot *slot);
kith_status msg_test(void *handle, kith_be_slot *slot, int *is_done, size_t *nbytes);
void msg_cancel(void *handle, kith_be_slot *slot);

/* stream.c */
/* Moves what the socket takes and gives right now, in so many steps at most. */
void connection_progress(instance *self, int world_rank, int steps);
void connection_queue(connection *peer, outgoing *frame);
void frame_begin_unit(outgoing *frame, bool has_header);
bool frame_is_last_unit(const outgoing *frame);

/* message.c, for stream.c: a header is complete; sets where its payload goes. A payload is complete. */
void frame_begins(instance *self, connection *peer);
void frame_ends(instance *self, connection *peer);
/* The sender cancelled it. */
void frame_taken_back(instance *self, connection *peer);
/* Ends operations with a process that is gone. */
void peer_gone(instance *self, int world_rank, const char *why);

#endif
