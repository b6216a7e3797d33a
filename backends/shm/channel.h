/* backends/shm/channel.h - messages: what lies in the arena for each ordered pair of ranks, and what each side keeps.
 *
 * A channel carries the messages of one rank to another. It is a ring of lines with a ring of bytes beside it, written
 * by the sender alone, and some offers, which both write (offer.c):
 *
 *     line   flag | tag | kind, size | up to 104 bytes of payload, or where it lies
 *     bytes  payloads of middle size, pieces of long ones
 *     offer  a long message: the sender says where it lies, the receiver takes it
 *
 * A line's flag is its number, counted from 1 and never reset, so an old line is never mistaken for a new one. The
 * receiver empties the ring in order whenever it looks: what no receive has been posted for is copied to private
 * memory. So a message that nobody wants yet holds up nothing, however many there are.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_SHM_CHANNEL_H
#define KI_SHM_CHANNEL_H

#include "internal.h"

#define SHM_LINE_INLINE 104
#define SHM_OFFERS 4 /* long messages of a channel that can be fetched at once; others are sent in pieces */
#define SHM_NO_OFFER UINT32_MAX

typedef enum shm_line_kind {
    SHM_LINE_EAGER,    /* a message */
    SHM_LINE_OFFER,    /* a long message, to be fetched */
    SHM_LINE_REQUEST,  /* from the receiver: send the pieces of long message `tag` */
    SHM_LINE_PIECE,    /* a piece of long message `tag` */
    SHM_LINE_WITHDRAWN /* long message `tag` will not come */
} shm_line_kind;

/* Where a long message lies in its sender's process. */
typedef struct shm_offer_note {
    uint64_t address;
    uint64_t offset; /* in the region, when there is one */
    uint32_t region; /* 0: none */
    uint32_t index;  /* of the shm_offer, SHM_NO_OFFER when all were in use */
    uint64_t id;
} shm_offer_note;

typedef struct shm_message_line {
    uint64_t flag;
    uint64_t tag;
    uint64_t kind_nbytes; /* kind in the upper 8 bits, size of the message (or piece) below */
    union {
        unsigned char bytes[SHM_LINE_INLINE];
        struct {
            uint64_t start, end; /* positions in the ring of bytes */
        } body;
        shm_offer_note offer;
    };
} __attribute__((aligned(128))) shm_message_line; /* a pair of cache lines, which are fetched together */

/* How a long message goes. */
typedef enum shm_way { SHM_WAY_PIECES = 1, SHM_WAY_DIRECT, SHM_WAY_REMOTE } shm_way;

/* See offer.c. Ids number the long messages of a channel, from 1. */
typedef struct shm_offer {
    struct {
        uint64_t state; /* both write, atomically: id and what became of it */
        uint64_t next;  /* both write, atomically: next piece to be moved */
    } __attribute__((aligned(128))) shared;
    struct {
        uint64_t taken;  /* id: what follows is valid */
        uint64_t closed; /* id: the receiver is through */
        uint64_t failed; /* id: the kernel refused it a piece */
        uint64_t moved;  /* bytes that the receiver moved */
        uint64_t limit;  /* bytes that it wants */
        uint64_t piece_nbytes;
        uint64_t address, offset;
        uint32_t region, way;
    } __attribute__((aligned(128))) receiver;
    struct {
        uint64_t moved;     /* bytes that the sender moved */
        uint64_t withdrawn; /* id */
        uint64_t failed;    /* id: the kernel refused it a piece */
    } __attribute__((aligned(128))) sender;
} shm_offer;

typedef struct shm_channel_head {
    shm_word lines_consumed, bytes_consumed; /* by the receiver */
    shm_offer offers[SHM_OFFERS];
} shm_channel_head;

typedef enum shm_message_state {
    SHM_MESSAGE_DONE = 1,
    SHM_MESSAGE_QUEUED,  /* a send that waits for room */
    SHM_MESSAGE_OFFERED, /* a long send */
    SHM_MESSAGE_POSTED,  /* a receive without a message */
    SHM_MESSAGE_TAKING,  /* a receive of a long message */
    SHM_MESSAGE_SELF     /* a send to the own rank that waits for its receive */
} shm_message_state;

/* Lives in the core's slot. */
typedef struct shm_message {
    struct shm_message *next, *previous;               /* queue or posted list */
    struct shm_message *next_active, *previous_active; /* long messages */
    unsigned char *buffer;
    size_t nbytes; /* of a send; the most that a receive takes */
    size_t moved;  /* bytes: result of a receive; pieces sent or taken of a long message */
    size_t limit;  /* long messages */
    size_t total;  /* TAKING: size of the message */
    uint64_t tag, id;
    int32_t peer;
    uint32_t index; /* of the offer */
    shm_message_state state;
    kith_status status;
    shm_way way;             /* once it is known */
    bool is_requested;       /* TAKING: the sender was asked for the pieces */
    unsigned char *far_side; /* DIRECT: the other buffer as mapped here; REMOTE: its address there */
    size_t piece_nbytes;
    int64_t started_ns; /* TAKING: of a trial (trial.c); 0: it is none */
} shm_message;

_Static_assert(sizeof(shm_message) <= sizeof(kith_be_slot), "a message fits into the core's slot");

/* A message that came before its receive. */
typedef struct shm_early {
    struct shm_early *next;
    uint64_t tag;
    size_t nbytes;
    shm_message *self; /* a send of the own rank, else NULL */
    bool is_offer;
    shm_offer_note offer;
    unsigned char data[]; /* else the payload */
} shm_early;

typedef struct shm_message_list {
    shm_message *head, *tail;
} shm_message_list;

/* One rank's two channels with a peer, and what it knows of them. */
typedef struct shm_channel {
    int peer;
    /* to the peer */
    shm_channel_head *out;
    shm_message_line *out_lines;
    unsigned char *out_bytes;
    uint64_t lines_sent, bytes_sent, lines_free, bytes_free; /* free: what the peer has consumed, as last seen */
    shm_message_list queue;
    uint64_t offered[SHM_OFFERS]; /* id of the last use of each offer, 0: none */
    bool is_offered[SHM_OFFERS];  /* a send of this rank still uses it */
    uint64_t long_count;
    /* from the peer */
    shm_channel_head *in;
    shm_message_line *in_lines;
    unsigned char *in_bytes;
    uint64_t lines_received;
    shm_message_list posted;
    shm_early *early, *early_last;
    shm_trial trials[SHM_TRIAL_CLASSES]; /* of long messages */
} shm_channel;

typedef struct shm_channels {
    shm_channel *of;     /* [size] */
    shm_message *active; /* long messages under way */
    size_t pending;      /* messages that are not complete */
    size_t queued;       /* of these, sends that wait for room */
    int next_look;       /* peer whose channel is looked at though nothing is expected from it */
    uint64_t line_count, byte_count;
    size_t eager_nbytes;
} shm_channels;

/* ---- channel.c ---- */

/* True when a line and nbytes of body can be written now. */
bool shm_channel_has_room(shm_channels *all, shm_channel *channel, size_t nbytes);
/* The next line to fill in; then publish it. Precondition: has room. */
shm_message_line *shm_channel_line(shm_channels *all, shm_channel *channel);
void shm_channel_publish(shm_group *group, shm_channel *channel, shm_message_line *line);
/* nbytes in a row in the ring of bytes, noted in line. Precondition: has room. */
unsigned char *shm_channel_body(shm_channels *all, shm_channel *channel, size_t nbytes, shm_message_line *line);
/* The next line from the peer, NULL when there is none. */
shm_message_line *shm_channel_peek(shm_channels *all, shm_channel *channel);
/* Done with the line that peek gave. */
void shm_channel_consume(shm_group *group, shm_channel *channel, const shm_message_line *line);

static inline shm_line_kind shm_line_kind_of(const shm_message_line *line)
{
    return (shm_line_kind)(line->kind_nbytes >> 56);
}

static inline size_t shm_line_nbytes(const shm_message_line *line)
{
    return (size_t)(line->kind_nbytes & UINT64_C(0xffffffffffffff));
}

static inline uint64_t shm_kind_nbytes(shm_line_kind kind, size_t nbytes)
{
    return (uint64_t)kind << 56 | (uint64_t)nbytes;
}

/* ---- offer.c ---- */

/* Announces a long message. Precondition: has room for a line. */
void shm_offer_make(shm_group *group, shm_channel *channel, shm_message *send);
/* Binds a receive to an offer. False when the sender has withdrawn it. */
bool shm_offer_take(shm_group *group, shm_channel *channel, const shm_offer_note *note, size_t nbytes,
                    shm_message *recv);
/* A line that belongs to a long message. */
void shm_offer_line(shm_group *group, shm_channel *channel, const shm_message_line *line);
/* Advances a long message; true when something happened. */
bool shm_offer_step(shm_group *group, shm_message *message);
/* Takes a long message back: nobody touches its buffer afterwards. */
void shm_offer_cancel(shm_group *group, shm_message *message);

/* ---- messages.c ---- */

/* The message is complete. */
void shm_message_finish(shm_group *group, shm_message *message, kith_status status);

#endif
