/* core/boot/wire.h - the protocol between the TCP store's server (a thread of rank 0) and its clients (all ranks).
 *
 * 1. The client connects and sends a hello. The server answers with a welcome: a verdict and a text that says why not.
 *    The first 16 bytes of both (magic, version) never change between releases, so that different releases can tell
 *    each other apart. Verdict RETRY: the job that this server belongs to is ending or is another one; the client
 *    connects again later.
 * 2. The client sends JOIN. From here on the end of the connection without GOODBYE means that the rank died: all other
 *    clients get EVENT(RANK_DIED). A connection that ends before JOIN was only a try.
 * 3. Requests carry an id that the REPLY repeats. A client has one request open at a time; it ends it early with
 *    CANCEL, which is always answered: REPLY(TIMEOUT), for a gather with the mask of the missing. The reply to the
 *    request may have been on its way: replies with an id that nobody waits for are dropped. CANCEL's own frame carries
 *    the id of the request.
 * 4. EVENT frames come at any time. GOODBYE makes the server close the connection.
 *
 * Frames: a fixed header, then key, then value. Integers are little-endian as the hosts are; the magic reads
 * differently elsewhere. Lengths are checked before anything is allocated; a frame that breaks a rule ends the
 * connection.
 *
 *     JOIN                                              GOODBYE
 *     SET       key, value                              -> REPLY(status)
 *     GET       key                                     -> REPLY(status, value)
 *     GATHER    key, a = index, b = count, arg = nbytes of a contribution, value = contribution, then, with
 *               KI_WIRE_HAS_RANKS, count world ranks (int32)  -> REPLY(status, dead rank, value)
 *     CANCEL                                            -> REPLY(TIMEOUT, value = mask)
 *     ANNOUNCE  a = kind, arg = value                   no reply; the others get EVENT
 *     EVENT     a = kind, b = rank, arg = value
 *     REPLY     a = status, b = dead rank, value; the text of a failure is the key
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_BOOT_WIRE_H
#define KI_BOOT_WIRE_H

#include "store_kind.h"
#include <assert.h>
#include <string.h>

#define KI_WIRE_MAGIC UINT64_C(0x314f54534854494b) /* "KITHSTO1" */
enum {
    KI_WIRE_VERSION = 1,
    KI_WIRE_SECRET_NBYTES = 256,
    KI_WIRE_HELLO_TIMEOUT_MS = 10000, /* for a client to finish its hello and join */
    KI_WIRE_HAS_RANKS = 1
};

typedef enum ki_wire_verdict { KI_WIRE_ACCEPTED, KI_WIRE_REFUSED, KI_WIRE_RETRY } ki_wire_verdict;

typedef struct ki_wire_hello {
    uint64_t magic;
    uint32_t version;
    uint32_t nbytes; /* of this struct */
    int32_t rank, size;
    uint64_t token; /* of ?token= or of the file of ?file=; 0: none */
    uint32_t secret_nbytes, reserved;
    char secret[KI_WIRE_SECRET_NBYTES]; /* zero-filled */
} ki_wire_hello;

typedef struct ki_wire_welcome {
    uint64_t magic;
    uint32_t version;
    uint32_t nbytes; /* of this struct */
    int32_t verdict; /* ki_wire_verdict */
    char text[236];
} ki_wire_welcome;

typedef enum ki_wire_op {
    KI_WIRE_JOIN = 1,
    KI_WIRE_SET,
    KI_WIRE_GET,
    KI_WIRE_GATHER,
    KI_WIRE_CANCEL,
    KI_WIRE_ANNOUNCE,
    KI_WIRE_GOODBYE,
    KI_WIRE_REPLY,
    KI_WIRE_EVENT
} ki_wire_op;

typedef struct ki_wire_frame {
    uint32_t op, id;
    int32_t a, b;
    uint32_t key_nbytes; /* without a NUL */
    uint32_t flags;
    uint64_t arg;
    uint64_t value_nbytes;
} ki_wire_frame;

static_assert(sizeof(ki_wire_hello) == 296, "no padding on the wire");
static_assert(sizeof(ki_wire_welcome) == 256, "no padding on the wire");
static_assert(sizeof(ki_wire_frame) == 40, "no padding on the wire");

/* Lengths that any frame may have; what an operation makes of them is its own check. */
static inline bool ki_wire_frame_is_sane(const ki_wire_frame *frame)
{
    return frame->op >= KI_WIRE_JOIN && frame->op <= KI_WIRE_EVENT && frame->key_nbytes < KI_STORE_KEY_NBYTES &&
           frame->value_nbytes <= KI_STORE_VALUE_NBYTES + (size_t)KI_STORE_GATHER_RANKS * sizeof(int32_t);
}

static inline uint64_t ki_wire_frame_nbytes(const ki_wire_frame *frame)
{
    return sizeof *frame + frame->key_nbytes + frame->value_nbytes;
}

#endif
