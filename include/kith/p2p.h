/* kith/p2p.h - messages between two ranks of a group.
 *
 * Messages with the same sender, receiver, group and tag arrive in the order in which they were sent; others are
 * independent. Messages never cross groups or directions. A rank may send to itself.
 *
 * kith_send() may block until the receiver has posted the matching receive (it does above the backend's eager size):
 * two ranks that both send first and receive second can wait for each other. Use kith_sendrecv(), the _start forms or
 * a batch. A receive gives the size of its buffer; a longer message is KITH_ERR_TRUNCATED at the receiver, which
 * keeps working; a shorter one is fine and its size is reported: in whole elements by kith_recv(), in bytes by
 * kith_wait_received().
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KITH_P2P_H
#define KITH_P2P_H

#include <kith/dtype.h>
#include <kith/request.h>

#ifdef __cplusplus
extern "C" {
#endif

#define KITH_TAG_MAX 0x7fffffff /* tags are 0 .. KITH_TAG_MAX */

/* buffer: [count]. Blocks as said above. */
KITH_API kith_status kith_send(kith_group *group, const void *buffer, size_t count, kith_dtype dtype, int to, int tag);

/* buffer: [count], the most that is taken. received (elements) may be NULL. Blocks. */
KITH_API kith_status kith_recv(kith_group *group, void *buffer, size_t count, kith_dtype dtype, int from, int tag,
                               size_t *received);

/* Sends and receives at once; never deadlocks against the same call of the peers. The buffers must not overlap. */
KITH_API kith_status kith_sendrecv(kith_group *group, const void *send, size_t send_count, int to, int send_tag,
                                   void *recv, size_t recv_count, int from, int recv_tag, kith_dtype dtype);

/* Return at once; the peer need not be there. */
KITH_API kith_status kith_send_start(kith_group *group, const void *buffer, size_t count, kith_dtype dtype, int to,
                                     int tag, kith_request **request);
KITH_API kith_status kith_recv_start(kith_group *group, void *buffer, size_t count, kith_dtype dtype, int from, int tag,
                                     kith_request **request);

/* Persistent forms: start with kith_request_start(). */
KITH_API kith_status kith_send_init(kith_group *group, const void *buffer, size_t count, kith_dtype dtype, int to,
                                    int tag, kith_request **request);
KITH_API kith_status kith_recv_init(kith_group *group, void *buffer, size_t count, kith_dtype dtype, int from, int tag,
                                    kith_request **request);

/* One member of a batch. */
typedef struct kith_p2p_args {
    int is_send; /* 1: send, 0: receive */
    void *buffer;
    size_t count;
    kith_dtype dtype;
    int peer;
    int tag;
} kith_p2p_args;

/* Starts all members as one; they complete one by one, each with its own request in requests[count]. On
 * KITH_ERR_INVALID_ARG none was started. Ranks need not batch alike. */
KITH_API kith_status kith_batch_start(kith_group *group, const kith_p2p_args *members, size_t count,
                                      kith_request **requests);

#ifdef __cplusplus
}
#endif
#endif
