/* message.c - sends, receives, and how they meet.
 *
 * A frame that comes looks for the oldest posted receive of its group with the same source and tag; without one it
 * becomes a parcel at the end of the group's list. A receive that is posted looks for the oldest such parcel first.
 * Both lists are in order, so messages of one sender and tag are received in the order of sending.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "socket.h"

#include <string.h>
#include <unistd.h>

static operation *operation_start(group *self, const kith_be_msg *msg, kith_be_slot *slot, bool is_send)
{
    operation *op = (operation *)(void *)slot; /* zeroed by the library */
    op->group = self;
    op->peer = msg->peer;
    op->is_send = is_send;
    op->tag = msg->tag;
    op->buffer = (unsigned char *)msg->buffer;
    op->nbytes = msg->nbytes;
    return op;
}

static void receive_done(operation *op, size_t message_nbytes)
{
    op->message_nbytes = message_nbytes;
    op->status = message_nbytes > op->nbytes ? KITH_ERR_TRUNCATED : KITH_OK;
    op->is_done = true;
}

/* ---- posted receives ---- */

static operation *posted_take(group *self, const frame_header *header)
{
    for (operation **at = &self->posted; *at != NULL; at = &(*at)->next)
        if ((*at)->tag == header->tag && (uint64_t)(*at)->peer == header->source) {
            operation *op = *at;
            *at = op->next;
            return op;
        }
    return NULL;
}

static void posted_add(group *self, operation *op)
{
    operation **at = &self->posted;
    while (*at != NULL)
        at = &(*at)->next;
    op->next = NULL;
    *at = op;
}

/* A receive whose message was taken back waits again, before those that were posted after it. */
static void posted_return(group *self, operation *op)
{
    op->next = self->posted;
    self->posted = op;
}

static void posted_remove(group *self, operation *op)
{
    for (operation **at = &self->posted; *at != NULL; at = &(*at)->next)
        if (*at == op) {
            *at = op->next;
            return;
        }
}

/* ---- parcels ---- */

static parcel *parcel_add(group *self, const frame_header *header)
{
    const kith_be_host *host = self->owner->host;
    parcel *made = (parcel *)host->alloc(host->cookie, sizeof *made + (size_t)header->nbytes, 64);
    if (made == NULL)
        return NULL;
    *made = (parcel){ .header = *header };
    parcel **at = &self->unexpected;
    while (*at != NULL)
        at = &(*at)->next;
    *at = made;
    return made;
}

static void parcel_remove(group *self, parcel *gone)
{
    const kith_be_host *host = self->owner->host;
    parcel **at = &self->unexpected;
    while (*at != gone)
        at = &(*at)->next;
    *at = gone->next;
    host->free(host->cookie, gone);
}

static void parcel_deliver(group *self, parcel *from, operation *op)
{
    if (from->header.nbytes <= op->nbytes && from->header.nbytes > 0)
        memcpy(op->buffer, from->payload, (size_t)from->header.nbytes);
    receive_done(op, (size_t)from->header.nbytes);
    parcel_remove(self, from);
}

static parcel *parcel_find(group *self, const operation *op)
{
    for (parcel *at = self->unexpected; at != NULL; at = at->next)
        if (at->taker == NULL && at->header.tag == op->tag && at->header.source == (uint64_t)op->peer)
            return at;
    return NULL;
}

/* ---- what comes ---- */

static group *group_find(instance *self, uint64_t id)
{
    group *at = self->groups;
    while (at != NULL && at->info.id != id)
        at = at->next;
    return at;
}

void frame_begins(instance *self, connection *peer)
{
    group *to = group_find(self, peer->in.group);
    peer->receive = NULL;
    peer->parcel = NULL;
    if (to == NULL) /* destroyed here while the frame was on its way: the payload goes nowhere */
        return;
    operation *op = posted_take(to, &peer->in);
    if (op == NULL) {
        peer->parcel = parcel_add(to, &peer->in);
        if (peer->parcel == NULL) /* without memory the message is lost: the group cannot go on */
            self->host->peer_failed(to->info.cookie, (int)peer->in.source,
                                    "no memory for a message that came before its receive");
    } else if (peer->in.nbytes > op->nbytes) {
        receive_done(op, (size_t)peer->in.nbytes); /* truncated: later messages are intact */
    } else {
        peer->receive = op;
    }
}

void frame_ends(instance *self, connection *peer)
{
    parcel *whole = peer->parcel;
    if (peer->receive != NULL)
        receive_done(peer->receive, (size_t)peer->in.nbytes);
    peer->receive = NULL;
    peer->parcel = NULL;
    if (whole == NULL)
        return;
    whole->is_whole = true;
    if (whole->taker != NULL)
        parcel_deliver(group_find(self, whole->header.group), whole, whole->taker);
}

void frame_taken_back(instance *self, connection *peer)
{
    group *of = group_find(self, peer->in.group);
    operation *op = peer->receive;
    if (of != NULL && peer->parcel != NULL) {
        op = peer->parcel->taker;
        parcel_remove(of, peer->parcel);
    }
    if (of != NULL && op != NULL)
        posted_return(of, op);
    peer->receive = NULL;
    peer->parcel = NULL;
}

void peer_gone(instance *self, int world_rank, const char *why)
{
    connection *peer = &self->peers[world_rank];
    if (peer->is_gone)
        return;
    peer->is_gone = true;
    close(peer->fd);
    peer->fd = -1;
    /* The library learns only of groups where somebody waits for this peer: a process that has finished closes, too. */
    for (group *at = self->groups; at != NULL; at = at->next)
        for (operation *op = at->posted; op != NULL; op = op->next)
            if (at->info.world_ranks[op->peer] == world_rank) {
                self->host->peer_failed(at->info.cookie, op->peer, why);
                break;
            }
}

/* ---- the slots ---- */

static void send_to_self(group *self, operation *op, const frame_header *header)
{
    const kith_be_host *host = self->owner->host;
    operation *receive = posted_take(self, header);
    op->is_done = true;
    if (receive != NULL) {
        if (op->nbytes <= receive->nbytes && op->nbytes > 0)
            memcpy(receive->buffer, op->buffer, op->nbytes);
        receive_done(receive, op->nbytes);
        return;
    }
    parcel *made = parcel_add(self, header);
    if (made == NULL) {
        op->status = host->fail(KITH_ERR_NO_MEMORY, "socket: no memory for a message of %zu bytes to self", op->nbytes);
        return;
    }
    made->is_whole = true;
    if (op->nbytes > 0)
        memcpy(made->payload, op->buffer, op->nbytes);
}

kith_status send_start(void *handle, const kith_be_msg *msg, kith_be_slot *slot)
{
    group *self = (group *)handle;
    operation *op = operation_start(self, msg, slot, true);
    frame_header header = {
        .group = self->info.id, .tag = msg->tag, .nbytes = msg->nbytes, .source = (uint64_t)self->info.rank
    };
    if (msg->peer == self->info.rank) {
        send_to_self(self, op, &header);
        return op->status;
    }
    int world_rank = self->info.world_ranks[msg->peer];
    op->out = (outgoing){ .header = header, .payload = op->buffer, .owner = op };
    connection_queue(&self->owner->peers[world_rank], &op->out);
    if (self->owner->peers[world_rank].fd >= 0)
        connection_progress(self->owner, world_rank, 2); /* a short one usually goes at once */
    return KITH_OK;
}

kith_status recv_start(void *handle, const kith_be_msg *msg, kith_be_slot *slot)
{
    group *self = (group *)handle;
    operation *op = operation_start(self, msg, slot, false);
    parcel *here = parcel_find(self, op);
    if (here == NULL)
        posted_add(self, op);
    else if (here->is_whole)
        parcel_deliver(self, here, op);
    else
        here->taker = op;
    return KITH_OK;
}

kith_status msg_test(void *handle, kith_be_slot *slot, int *is_done, size_t *nbytes)
{
    group *self = (group *)handle;
    operation *op = (operation *)(void *)slot;
    const kith_be_host *host = self->owner->host;
    int world_rank = self->info.world_ranks[op->peer];
    *is_done = 1;
    if (op->is_done && op->status == KITH_ERR_TRUNCATED)
        return host->fail(KITH_ERR_TRUNCATED,
                          "socket: message of %zu bytes from rank %d, tag %llu, for a buffer of %zu bytes",
                          op->message_nbytes, op->peer, (unsigned long long)op->tag, op->nbytes);
    if (op->is_done) {
        *nbytes = op->is_send ? op->nbytes : op->message_nbytes;
        return op->status;
    }
    if (atomic_load(&self->is_aborted)) {
        msg_cancel(handle, slot); /* an operation that ends with an error is over: let go of the buffer */
        return host->fail(KITH_ERR_ABORTED, "socket: group '%s' was aborted", self->info.name);
    }
    if (self->owner->peers[world_rank].is_gone) {
        msg_cancel(handle, slot);
        return host->fail(KITH_ERR_PEER_FAILED, "socket: rank %d of group '%s' is gone", op->peer, self->info.name);
    }
    *is_done = 0;
    return KITH_OK;
}

/* The piece that is half gone in memory of its own; the mark, or the end, comes behind it. NULL when there is no
 * memory. */
static outgoing *copy_rest(instance *self, const operation *op)
{
    const kith_be_host *host = self->host;
    outgoing *rest = (outgoing *)host->alloc(host->cookie, sizeof *rest + (size_t)op->out.length, 64);
    if (rest == NULL)
        return NULL;
    *rest = op->out;
    rest->owner = NULL;
    rest->piece = (unsigned char *)(rest + 1);
    rest->end = END_TAKEN_BACK;
    if (op->out.length > 0)
        memcpy(rest + 1, op->out.piece, (size_t)op->out.length);
    return rest;
}

/* A send that has not begun leaves the queue. Of one that is half way out the piece must be finished, or the receiver
 * would take the next frame for its rest. Without memory for that, the connection is given up. */
static void cancel_send(instance *self, connection *peer, operation *op)
{
    outgoing **at = &peer->first, *rest = NULL;
    while (*at != NULL && *at != &op->out)
        at = &(*at)->next;
    if (*at == NULL)
        return;
    if ((op->out.unit_done > 0 || op->out.offset > 0) && !peer->is_gone) {
        rest = copy_rest(self, op);
        if (rest == NULL)
            peer_gone(self, op->group->info.world_ranks[op->peer], "no memory for the rest of a cancelled message");
    }
    *at = rest != NULL ? rest : op->out.next;
    for (peer->end = &peer->first; *peer->end != NULL;)
        peer->end = &(*peer->end)->next;
}

void msg_cancel(void *handle, kith_be_slot *slot)
{
    group *self = (group *)handle;
    operation *op = (operation *)(void *)slot;
    connection *peer = &self->owner->peers[self->info.world_ranks[op->peer]];
    if (op->is_done)
        return;
    op->is_done = true;
    if (op->is_send) {
        cancel_send(self->owner, peer, op);
        return;
    }
    posted_remove(self, op);
    if (peer->receive == op) /* the rest of the payload goes nowhere */
        peer->receive = NULL;
    for (parcel *at = self->unexpected; at != NULL; at = at->next)
        if (at->taker == op)
            at->taker = NULL; /* the message is there for the next receive */
}
