/* backends/message/message.h - messages over packets: the part that the mpi and ucx backends share.
 *
 * A transport carries packets (a header, and a small payload) between the members of a group and, for large messages,
 * bytes from one buffer to another. This module makes kith's messages out of that: exact matching on (group, sender,
 * 64-bit tag), first in first out inside a tag, unexpected messages, truncation, messages to self, cancellation. Each
 * module compiles its own copy; nothing is shared at run time.
 *
 * Protocol, per (group, sender, receiver):
 *   EAGER    the whole message in one packet. The send is complete when the transport no longer needs the buffer.
 *   RTS      "a message of n bytes with this tag is here": large messages, and (RTS_DEVICE) those that lie on a
 *            device. The receiver keeps it until a receive matches.
 *   CTS      the answer: "send me k bytes of number s" (k = 0: the receive's buffer is too small, count it as sent).
 *            Only now does the transport see the sender's buffer, so a send that nobody received can be taken back at
 *            once.
 *   DATA     a transport's mark on the bytes, if it needs one; never seen here.
 *   BACK     the sender took number s back. An unexpected entry is dropped; a receive that it had matched goes back
 *            to the head of its queue.
 *   BYE      the sender closes: its silence is no failure any more.
 * EAGER, RTS and BACK carry a sequence number. A transport may deliver packets out of order: those that come early are
 * held until their turn, so that matching sees them in the order of sending. CTS and DATA name the RTS's number.
 *
 * Device memory (is_device) on either side: what would be a memcpy is done by host->device_copy, a payload of a packet
 * is never device memory, and the transport is told where a transfer's own buffer lies and where the peer's does.
 *
 * Buffers: a receive's buffer is written by memcpy from a packet, or by the transport between the CTS and the
 * completion. When ki_msg_detach() returns, neither happens any more; how is the transport's business
 * (ki_wire.detach).
 *
 * Threads: as the backend's instance, one at a time; is_aborted is set from anywhere.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_MESSAGE_H
#define KI_MESSAGE_H

#include <kith/backend.h>
#include <stdatomic.h>
#include <stdbool.h>

typedef struct ki_msg_op ki_msg_op;
typedef struct ki_msg_group ki_msg_group;
typedef struct ki_msg_engine ki_msg_engine;

typedef enum ki_packet_kind {
    KI_PACKET_EAGER = 1,
    KI_PACKET_RTS,
    KI_PACKET_CTS,
    KI_PACKET_DATA,
    KI_PACKET_BACK,
    KI_PACKET_BYE,
    KI_PACKET_RTS_DEVICE
} ki_packet_kind;

/* On the wire as it is: all ranks of a job have the same byte order. */
typedef struct ki_msg_header {
    uint64_t group;    /* id */
    uint64_t tag;      /* EAGER, RTS: the message's. CTS: the transport's token. BACK: number of what is taken back */
    uint64_t nbytes;   /* EAGER, RTS: of the message. CTS, DATA: that are sent */
    uint64_t sequence; /* own for EAGER, RTS, BACK; the RTS's for CTS, DATA */
    uint32_t source;   /* group rank of the sender of this packet; BYE: world rank */
    uint32_t kind;
} ki_msg_header;

/* What a transport does. peer is a group rank and never the own. */
typedef struct ki_wire {
    /* Sends a packet. header may be reused at once. op NULL: there is no payload. With op: the transport calls
     * ki_msg_done(op) now or later, when the payload may be reused. A failure concerns this packet; the peer is
     * marked by the transport. */
    kith_status (*packet)(ki_msg_group *group, int peer, const ki_msg_header *header, const void *payload,
                          size_t nbytes, ki_msg_op *op);
    /* Largest payload of an EAGER packet to peer. */
    size_t (*eager_nbytes)(ki_msg_group *group, int peer);
    /* Gets ready for op->nbytes_moving bytes into op->buffer from peer's message op->sequence; *token goes into the
     * CTS. Ends with ki_msg_done(op). */
    kith_status (*data_recv)(ki_msg_op *op, uint64_t *token);
    /* The receiver is ready: sends op->nbytes_moving bytes. Ends with ki_msg_done(op). */
    kith_status (*data_send)(ki_msg_op *op, uint64_t token);
    /* op leaves an EAGER packet or a data transfer that did not end. On return its buffer is not touched again. */
    void (*detach)(ki_msg_op *op);
    /* The bytes of peer's message number sequence, which a CTS asked for, will not come. May be NULL. */
    void (*taken_back)(ki_msg_group *group, int peer, uint64_t sequence);
} ki_wire;

typedef struct ki_link {
    struct ki_link *next, *prev;
} ki_link;

typedef enum ki_msg_state {
    KI_MSG_NONE = 0,
    KI_MSG_POSTED,  /* receive: nothing has matched */
    KI_MSG_LOCAL,   /* large send to self: nothing has matched */
    KI_MSG_WAITING, /* send: RTS is out, no CTS yet */
    KI_MSG_PACKET,  /* send: EAGER packet not gone yet */
    KI_MSG_MOVING,  /* data transfer */
    KI_MSG_DONE
} ki_msg_state;

/* One message operation; lives in the core's slot. */
struct ki_msg_op {
    ki_link link; /* queue of the state: posted, waiting, moving */
    ki_msg_group *group;
    int peer;
    bool is_send;
    bool is_device;      /* buffer is device memory */
    bool is_peer_device; /* receive of a data transfer: the sender's is */
    ki_msg_state state;
    kith_status status; /* DONE */
    uint64_t tag;
    void *buffer;
    size_t nbytes;        /* of the message, or the most that is received */
    size_t nbytes_moving; /* of the data transfer */
    size_t nbytes_sent;   /* receive: length of the message that matched */
    uint64_t sequence;    /* of the RTS */
    uint64_t wire[6];     /* the transport's */
};
_Static_assert(sizeof(ki_msg_op) <= sizeof(kith_be_slot), "a message fits into the core's slot");

typedef struct ki_msg_peer {
    uint64_t next_send, next_recv; /* sequence numbers */
    ki_link early;                 /* packets that came before their turn */
    bool is_failed;
} ki_msg_peer;

#define KI_MSG_BUCKETS 64 /* of the queues, by (peer, tag) */

struct ki_msg_group {
    ki_msg_group *next; /* of the engine's table */
    ki_msg_engine *engine;
    void *wire_group; /* the transport's */
    void *cookie;
    char name[64];
    uint64_t id;
    int rank, size;
    const int *world_ranks;
    ki_msg_peer *peers; /* [size] */
    ki_link posted[KI_MSG_BUCKETS], unexpected[KI_MSG_BUCKETS];
    ki_link waiting, moving_in;
    size_t active; /* operations that did not end */
    atomic_int is_aborted;
};

struct ki_msg_engine {
    const kith_be_host *host;
    const ki_wire *wire;
    ki_msg_group *groups[64];
    struct ki_parcel *spare_parcels; /* short ones, linked by link.next, for the next messages that come too early */
    int spare_count;
    int is_failing; /* guards against a failure reported inside the report of a failure */
};

void ki_msg_engine_init(ki_msg_engine *engine, const kith_be_host *host, const ki_wire *wire);
/* When no group is left. In match.c. */
void ki_msg_engine_fini(ki_msg_engine *engine);

/* A group that packets can be received for from now on; NULL when memory ran out. Destroy it when no operation is
 * active. */
ki_msg_group *ki_msg_group_create(ki_msg_engine *engine, const kith_be_group_info *info, void *wire_group);
void ki_msg_group_destroy(ki_msg_group *group);
ki_msg_group *ki_msg_group_find(ki_msg_engine *engine, uint64_t id);

/* The backend's slots, on a ki_msg_op in the core's slot. */
kith_status ki_msg_send(ki_msg_group *group, const kith_be_msg *msg, ki_msg_op *op);
kith_status ki_msg_recv(ki_msg_group *group, const kith_be_msg *msg, ki_msg_op *op);
kith_status ki_msg_test(ki_msg_op *op, int *is_done, size_t *nbytes);
void ki_msg_detach(ki_msg_op *op);

/* From the transport: a packet came; payload is valid during the call. Unknown groups and damaged headers are
 * dropped. */
void ki_msg_arrived(ki_msg_engine *engine, const ki_msg_header *header, const void *payload, size_t nbytes);

/* From the transport: op's payload or data transfer ended. */
void ki_msg_done(ki_msg_op *op, kith_status status);

/* For transports that put a header on the data: the receive that asked for it; NULL when it was cancelled. */
ki_msg_op *ki_msg_moving_find(ki_msg_engine *engine, const ki_msg_header *header);

/* From the transport: operations with this group rank end with KITH_ERR_PEER_FAILED; tells the core, once. */
void ki_msg_peer_failed(ki_msg_group *group, int peer, const char *why);

/* ---- between the files of this folder: match.c ---- */

/* A packet that waits: unexpected, or early. A send to self has local set instead of a payload. */
typedef struct ki_parcel {
    ki_link link;
    ki_msg_header header;
    ki_msg_op *local;
    size_t nbytes;
    unsigned char payload[];
} ki_parcel;
#define KI_PARCEL_SHORT_NBYTES ((size_t)512) /* a payload up to it has room for as much: such parcels are kept ... */
#define KI_PARCEL_SPARE_MOST 64              /* ... up to so many */

static inline bool ki_packet_is_rts(const ki_msg_header *header)
{
    return header->kind == KI_PACKET_RTS || header->kind == KI_PACKET_RTS_DEVICE;
}

/* The number that ends in these 32 bits and is nearest to the one that is due: for transports that send no more. */
static inline uint64_t ki_whole_sequence(uint64_t due, uint32_t low)
{
    return due + (uint64_t)(int64_t)(int32_t)(low - (uint32_t)due);
}

/* Into op's buffer, wherever it lies. is_device: from is device memory. */
kith_status ki_msg_take(ki_msg_op *op, const void *from, size_t nbytes, bool is_device);

static inline void ki_link_init(ki_link *head)
{
    head->next = head->prev = head;
}

static inline void ki_link_insert(ki_link *before, ki_link *link)
{
    link->next = before;
    link->prev = before->prev;
    before->prev->next = link;
    before->prev = link;
}

static inline void ki_link_remove(ki_link *link)
{
    link->prev->next = link->next;
    link->next->prev = link->prev;
    link->next = link->prev = link;
}

ki_parcel *ki_parcel_create(ki_msg_group *group, const ki_msg_header *header, const void *payload, size_t nbytes);
void ki_parcel_free(ki_msg_group *group, ki_parcel *parcel);

/* First posted receive for (peer, tag), removed from its queue; NULL when there is none. */
ki_msg_op *ki_posted_take(ki_msg_group *group, int peer, uint64_t tag);
void ki_posted_add(ki_msg_op *op, bool at_head);

/* First unexpected message of (peer, tag), removed; NULL when there is none. */
ki_parcel *ki_unexpected_take(ki_msg_group *group, int peer, uint64_t tag);
void ki_unexpected_add(ki_msg_group *group, ki_parcel *parcel);
/* Drops the entry of number sequence, or of the send to self; false when it is not there. */
bool ki_unexpected_drop(ki_msg_group *group, int peer, uint64_t sequence, const ki_msg_op *local);

/* Gives a message to a receive: copies, or starts the data transfer. Frees nothing. */
void ki_msg_deliver(ki_msg_op *op, const ki_msg_header *header, const void *payload, ki_msg_op *local);

#endif
