/* backends/ucx/ucx.h - the ucx backend: messages over UCP active messages.
 *
 * One UCP context and worker per kith context, one endpoint per peer process, made when the first message goes to it
 * or is awaited from it. Matching, order and cancellation are backends/message's; this folder is its transport:
 *
 *   eager    one active message of its own id (KI_UCX_AM_EAGER): ucx_eager_header as its header, the payload as its
 *            data. The header is short so that 64 bytes still fit an element of UCX's shared memory queue beside it;
 *            what does not fit is packed into a buffer, which takes 0.15 us more. UCX may deliver a short message
 *            before an earlier long one (they may take different lanes); the sequence numbers put that right.
 *   packet   any other one: KI_UCX_AM_PACKET, the header as its header.
 *   data     after the receiver's CTS: one active message with the rendezvous flag. The receiver's callback hands UCX
 *            the receive's buffer, so large messages move without a copy wherever the transport can (RDMA, TCP).
 *            Within a host UCX 1.13 takes them through its shared memory in pieces, and not through CMA, on endpoints
 *            that want to hear of peers that die. That costs a third of the time of 64 to 256 KiB, and of long
 *            exchanges, where all cores copy anyway; long messages one way are no slower, since both sides copy.
 *
 * Why active messages and not UCP tags: a tag has 64 bits, and we must match group id, sender and a 64-bit tag exactly.
 * Why our own RTS/CTS before UCX's: UCX cannot take back a rendezvous send, and ends it only when the peer polls.
 * With ours, UCX sees the buffer only after the receiver has matched; a peer that never comes leaves nothing to take
 * back.
 *
 * Cancelling something that UCX has (an eager send behind a full queue, a transfer under way): it is driven on for
 * KI_UCX_CANCEL_MS; if the peer does not move, its endpoint is closed by force, upon which UCX ends all requests on it
 * and touches no buffer again. Then messages with that peer fail in all groups, which is what a peer deserves that
 * stopped in the middle of a transfer. Both waits belong to the peer and not to the operation: a collective may have
 * dozens of pieces under way to a rank that died.
 *
 * Peers that die: UCX tells through the endpoint's error handler (TCP at once, shared memory by a check every
 * second). The handler marks the peer in all groups and tells the core. A peer that closes says BYE first, so its
 * closing is no failure.
 *
 * Device memory is given to UCX as it is where its context says that it takes CUDA's (ucx_device_memory): such a
 * message is always announced first, and its data named with its type of memory.
 *
 * Addresses: exchanged at group creation, only if some member lacks another's.
 *
 * Threads: one at a time per instance; group_abort only sets a flag.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_UCX_H
#define KI_UCX_H

#include "../message/message.h"
#include "library.h"

#define KI_UCX_CANCEL_MS 700
#define KI_UCX_CLOSE_MS 1000

enum { KI_UCX_AM_PACKET, KI_UCX_AM_EAGER };

typedef struct ucx_be ucx_be;

/* What an EAGER's ki_msg_header says that the message itself does not. sequence: the lower half, which tells numbers
 * apart that are less than 2^31 packets from the next one. */
typedef struct ucx_eager_header {
    uint64_t group;
    uint64_t tag;
    uint32_t sequence;
    uint32_t source;
} ucx_eager_header;

/* One active message, or one rendezvous receive, that UCX may still have. */
typedef struct ucx_packet {
    struct ucx_packet *next; /* of the free list */
    ucx_be *be;
    ki_msg_op *op; /* NULL: nobody waits for it */
    union {        /* UCX reads it until the send is complete */
        ki_msg_header header;
        ucx_eager_header eager;
    };
} ucx_packet;

/* Another process of the job. */
typedef struct ucx_peer {
    ucx_be *be;
    void *address; /* NULL: not known yet */
    ucp_ep_h ep;   /* NULL: none yet, or closed */
    int world_rank;
    bool is_failed;       /* no endpoint is made again */
    bool has_left;        /* said BYE */
    bool needs_closing;   /* failed in UCX's error handler; closed at the next progress */
    int64_t let_go_by_ms; /* of a failed peer: how long its cancelled operations wait for UCX; 0: none was cancelled */
} ucx_peer;

struct ucx_be {
    const kith_be_host *host;
    const ucx_functions *ucx;
    ucp_context_h context;
    ucp_worker_h worker;
    ucp_address_t *address;
    size_t address_nbytes;
    int event_fd;
    ucx_peer *peers; /* [world size] */
    bool has_failures;
    ki_msg_engine engine;
    ucx_packet *free_packets;
    size_t in_flight; /* packets that UCX has */
    void *flush;      /* request of is_drained(), NULL when none runs */
    size_t eager_near, eager_far;
    bool takes_device;
};

/* worker.c */
extern const kith_be_setting ucx_settings[];
kith_status ucx_open(const kith_be_host *host, void **be);
void ucx_close(void *be);
void ucx_progress(void *be);
int ucx_is_drained(void *be);
void ucx_idle(void *be, int64_t timeout_ns);
int64_t ucx_now_ms(void);
unsigned ucx_memory(void *group);

/* endpoint.c */
/* The endpoint of a group's member; NULL after host->fail() when there is none. */
ucp_ep_h ucx_endpoint_get(ucx_be *be, int world_rank, kith_status *status);
void ucx_peer_fail(ucx_peer *peer, const char *why);
/* Closes what the error handler marked. Not from a callback. */
void ucx_endpoints_sweep(ucx_be *be);
/* Ends everything UCX has for this peer. Not from a callback. */
void ucx_endpoint_force(ucx_peer *peer, const char *why);
void ucx_endpoints_close(ucx_be *be);

/* wire.c */
extern const ki_wire ucx_wire;
ucs_status_t ucx_on_packet(void *arg, const void *header, size_t header_nbytes, void *data, size_t nbytes,
                           const ucp_am_recv_param_t *param);
ucs_status_t ucx_on_eager(void *arg, const void *header, size_t header_nbytes, void *data, size_t nbytes,
                          const ucp_am_recv_param_t *param);
void ucx_packets_free(ucx_be *be);
/* Tells a peer that this process closes. */
void ucx_send_bye(ucx_peer *peer);

/* group.c */
kith_status ucx_group_create(void *be, const kith_be_group_info *info, void **group);
void ucx_group_destroy(void *group);
void ucx_group_abort(void *group);

#endif
