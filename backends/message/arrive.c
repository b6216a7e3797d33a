/* backends/message/arrive.c - what a packet does when it comes; see message.h.
 *
 * Called from the transport's progress, so it may start packets and transfers but never waits.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "message.h"

#include <string.h>

static void log_lost(ki_msg_group *group, const char *line)
{
    const kith_be_host *host = group->engine->host;
    host->log(host->cookie, KITH_LOG_ERROR, line);
}

/* Answers an RTS that op matched. nbytes 0 for a receive that is too small: the sender's send ends, nothing moves. */
static kith_status answer(ki_msg_op *op, const ki_msg_header *rts, size_t nbytes, uint64_t token)
{
    ki_msg_group *group = op->group;
    ki_msg_header cts = { .group = group->id,
                          .tag = token,
                          .nbytes = nbytes,
                          .sequence = rts->sequence,
                          .source = (uint32_t)group->rank,
                          .kind = KI_PACKET_CTS };
    return group->engine->wire->packet(group, op->peer, &cts, NULL, 0, NULL);
}

static void start_moving(ki_msg_op *op, const ki_msg_header *rts)
{
    ki_msg_group *group = op->group;
    uint64_t token = 0;
    op->state = KI_MSG_MOVING;
    op->sequence = rts->sequence;
    op->nbytes_moving = (size_t)rts->nbytes;
    op->is_peer_device = rts->kind == KI_PACKET_RTS_DEVICE;
    ki_link_insert(&group->moving_in, &op->link);
    kith_status status = group->engine->wire->data_recv(op, &token);
    if (status == KITH_OK)
        status = answer(op, rts, op->nbytes_moving, token);
    if (status != KITH_OK && op->state == KI_MSG_MOVING) {
        group->engine->wire->detach(op);
        ki_msg_done(op, status);
    }
}

kith_status ki_msg_take(ki_msg_op *op, const void *from, size_t nbytes, bool is_device)
{
    const kith_be_host *host = op->group->engine->host;
    if (op->is_device || is_device)
        return host->device_copy(host->cookie, op->buffer, from, nbytes);
    if (nbytes > 0)
        memcpy(op->buffer, from, nbytes);
    return KITH_OK;
}

void ki_msg_deliver(ki_msg_op *op, const ki_msg_header *header, const void *payload, ki_msg_op *local)
{
    bool is_rts = ki_packet_is_rts(header);
    op->nbytes_sent = (size_t)header->nbytes;
    if (header->nbytes > op->nbytes) {
        if (is_rts)
            (void)answer(op, header, 0, 0);
        ki_msg_done(op, KITH_ERR_TRUNCATED);
    } else if (is_rts) {
        start_moving(op, header);
    } else {
        ki_msg_done(op, ki_msg_take(op, payload, (size_t)header->nbytes, local != NULL && local->is_device));
    }
    if (local != NULL)
        ki_msg_done(local, KITH_OK);
}

static ki_msg_op *find_by_sequence(ki_link *head, int peer, uint64_t sequence)
{
    for (ki_link *link = head->next; link != head; link = link->next) {
        ki_msg_op *op = (ki_msg_op *)(void *)link;
        if (op->sequence == sequence && op->peer == peer)
            return op;
    }
    return NULL;
}

ki_msg_op *ki_msg_moving_find(ki_msg_engine *engine, const ki_msg_header *header)
{
    ki_msg_group *group = ki_msg_group_find(engine, header->group);
    return group != NULL ? find_by_sequence(&group->moving_in, (int)header->source, header->sequence) : NULL;
}

static void on_message(ki_msg_group *group, const ki_msg_header *header, const void *payload, size_t nbytes)
{
    ki_msg_op *op = ki_posted_take(group, (int)header->source, header->tag);
    if (op != NULL) {
        ki_msg_deliver(op, header, payload, NULL);
        return;
    }
    ki_parcel *parcel = ki_parcel_create(group, header, payload, nbytes);
    if (parcel != NULL)
        ki_unexpected_add(group, parcel);
    else
        ki_msg_peer_failed(group, (int)header->source, "no memory for a message that came before its receive");
}

static void on_cts(ki_msg_group *group, const ki_msg_header *header)
{
    ki_msg_op *op = find_by_sequence(&group->waiting, (int)header->source, header->sequence);
    if (op == NULL) /* taken back meanwhile: BACK is on its way */
        return;
    ki_link_remove(&op->link);
    if (header->nbytes == 0) {
        ki_msg_done(op, KITH_OK);
        return;
    }
    op->state = KI_MSG_MOVING;
    op->nbytes_moving = (size_t)header->nbytes;
    kith_status status = group->engine->wire->data_send(op, header->tag);
    if (status != KITH_OK && op->state == KI_MSG_MOVING)
        ki_msg_done(op, status);
}

/* The receive that had matched waits again, before those that were posted after it. */
static void on_back(ki_msg_group *group, const ki_msg_header *header)
{
    int peer = (int)header->source;
    uint64_t sequence = header->tag;
    if (ki_unexpected_drop(group, peer, sequence, NULL))
        return;
    ki_msg_op *op = find_by_sequence(&group->moving_in, peer, sequence);
    if (group->engine->wire->taken_back != NULL)
        group->engine->wire->taken_back(group, peer, sequence);
    if (op == NULL)
        return;
    ki_link_remove(&op->link);
    ki_parcel *parcel = ki_unexpected_take(group, peer, op->tag);
    if (parcel == NULL) {
        ki_posted_add(op, true);
        return;
    }
    ki_msg_deliver(op, &parcel->header, parcel->payload, NULL);
    ki_parcel_free(group, parcel);
}

static void dispatch(ki_msg_group *group, const ki_msg_header *header, const void *payload, size_t nbytes)
{
    if (header->kind == KI_PACKET_BACK)
        on_back(group, header);
    else
        on_message(group, header, payload, nbytes);
}

/* Packets that were waiting for the one that came. */
static void release_early(ki_msg_group *group, ki_msg_peer *peer)
{
    ki_link *link = peer->early.next;
    while (link != &peer->early) {
        ki_parcel *parcel = (ki_parcel *)(void *)link;
        link = link->next;
        if (parcel->header.sequence != peer->next_recv)
            continue;
        ki_link_remove(&parcel->link);
        peer->next_recv++;
        dispatch(group, &parcel->header, parcel->payload, parcel->nbytes);
        ki_parcel_free(group, parcel);
        link = peer->early.next; /* the next number may stand anywhere */
    }
}

static void in_order(ki_msg_group *group, const ki_msg_header *header, const void *payload, size_t nbytes)
{
    ki_msg_peer *peer = &group->peers[header->source];
    if (header->sequence == peer->next_recv) {
        peer->next_recv++;
        dispatch(group, header, payload, nbytes);
        if (peer->early.next != &peer->early)
            release_early(group, peer);
        return;
    }
    ki_parcel *parcel = ki_parcel_create(group, header, payload, nbytes);
    if (parcel != NULL)
        ki_link_insert(&peer->early, &parcel->link);
    else
        ki_msg_peer_failed(group, (int)header->source, "no memory for a message that came early");
}

void ki_msg_arrived(ki_msg_engine *engine, const ki_msg_header *header, const void *payload, size_t nbytes)
{
    ki_msg_group *group = ki_msg_group_find(engine, header->group);
    if (group == NULL) /* destroyed here while the packet was on its way */
        return;
    if (header->source >= (uint32_t)group->size || (header->kind == KI_PACKET_EAGER && header->nbytes != nbytes)) {
        log_lost(group, "a packet with a damaged header was dropped");
        return;
    }
    switch (header->kind) {
    case KI_PACKET_EAGER:
    case KI_PACKET_RTS:
    case KI_PACKET_RTS_DEVICE:
    case KI_PACKET_BACK:
        in_order(group, header, payload, nbytes);
        break;
    case KI_PACKET_CTS:
        on_cts(group, header);
        break;
    default:
        log_lost(group, "a packet of unknown kind was dropped");
    }
}
