/* backends/message/message.c - starting, testing and leaving messages; see message.h.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "message.h"

#include <string.h>

void ki_msg_engine_init(ki_msg_engine *engine, const kith_be_host *host, const ki_wire *wire)
{
    memset(engine, 0, sizeof *engine);
    engine->host = host;
    engine->wire = wire;
}

static ki_msg_group **table_of(ki_msg_engine *engine, uint64_t id)
{
    return &engine->groups[(id * 0x9E3779B97F4A7C15u) >> 58];
}

ki_msg_group *ki_msg_group_create(ki_msg_engine *engine, const kith_be_group_info *info, void *wire_group)
{
    const kith_be_host *host = engine->host;
    ki_msg_group *group = (ki_msg_group *)host->alloc(host->cookie, sizeof *group, 64);
    if (group == NULL)
        return NULL;
    memset(group, 0, sizeof *group);
    group->peers = (ki_msg_peer *)host->alloc(host->cookie, sizeof *group->peers * (size_t)info->size, 64);
    if (group->peers == NULL) {
        host->free(host->cookie, group);
        return NULL;
    }
    memset(group->peers, 0, sizeof *group->peers * (size_t)info->size);
    for (int r = 0; r < info->size; r++)
        ki_link_init(&group->peers[r].early);
    for (size_t bucket = 0; bucket < KI_MSG_BUCKETS; bucket++) {
        ki_link_init(&group->posted[bucket]);
        ki_link_init(&group->unexpected[bucket]);
    }
    ki_link_init(&group->waiting);
    ki_link_init(&group->moving_in);
    group->engine = engine;
    group->wire_group = wire_group;
    group->cookie = info->cookie;
    if (info->name != NULL)
        strncpy(group->name, info->name, sizeof group->name - 1);
    group->id = info->id;
    group->rank = info->rank;
    group->size = info->size;
    group->world_ranks = info->world_ranks;
    ki_msg_group **table = table_of(engine, info->id);
    group->next = *table;
    *table = group;
    return group;
}

static void free_parcels(ki_msg_group *group, ki_link *head)
{
    while (head->next != head) {
        ki_parcel *parcel = (ki_parcel *)(void *)head->next;
        ki_link_remove(&parcel->link);
        ki_parcel_free(group, parcel);
    }
}

void ki_msg_group_destroy(ki_msg_group *group)
{
    const kith_be_host *host;
    if (group == NULL)
        return;
    host = group->engine->host;
    for (ki_msg_group **at = table_of(group->engine, group->id); *at != NULL; at = &(*at)->next)
        if (*at == group) {
            *at = group->next;
            break;
        }
    for (size_t bucket = 0; bucket < KI_MSG_BUCKETS; bucket++)
        free_parcels(group, &group->unexpected[bucket]);
    for (int r = 0; r < group->size; r++)
        free_parcels(group, &group->peers[r].early);
    host->free(host->cookie, group->peers);
    host->free(host->cookie, group);
}

ki_msg_group *ki_msg_group_find(ki_msg_engine *engine, uint64_t id)
{
    ki_msg_group *group = *table_of(engine, id);
    while (group != NULL && group->id != id)
        group = group->next;
    return group;
}

static void op_init(ki_msg_op *op, ki_msg_group *group, const kith_be_msg *msg, bool is_send)
{
    ki_link_init(&op->link);
    op->group = group;
    op->peer = msg->peer;
    op->is_send = is_send;
    op->is_device = msg->is_device != 0;
    op->is_peer_device = false;
    op->state = KI_MSG_NONE;
    op->status = KITH_OK;
    op->tag = msg->tag;
    op->buffer = msg->buffer;
    op->nbytes = msg->nbytes;
    op->nbytes_moving = op->nbytes_sent = 0;
    memset(op->wire, 0, sizeof op->wire);
    group->active++;
}

void ki_msg_done(ki_msg_op *op, kith_status status)
{
    ki_link_remove(&op->link);
    op->status = status;
    op->state = KI_MSG_DONE;
    op->group->active--;
}

static kith_status send_to_self(ki_msg_group *group, ki_msg_op *op, const ki_msg_header *header)
{
    const kith_be_host *host = group->engine->host;
    ki_msg_op *receive = ki_posted_take(group, op->peer, op->tag);
    if (receive != NULL) {
        ki_msg_deliver(receive, header, op->buffer, op);
        return KITH_OK;
    }
    bool is_small = op->nbytes <= (op->is_device ? 0 : 8192);
    ki_parcel *parcel = ki_parcel_create(group, header, op->buffer, is_small ? op->nbytes : 0);
    if (parcel == NULL) {
        group->active--;
        return host->fail(KITH_ERR_NO_MEMORY, "message of %zu bytes to self: no memory for the queue", op->nbytes);
    }
    ki_unexpected_add(group, parcel);
    if (is_small) {
        ki_msg_done(op, KITH_OK);
    } else {
        parcel->local = op;
        op->state = KI_MSG_LOCAL;
    }
    return KITH_OK;
}

kith_status ki_msg_send(ki_msg_group *group, const kith_be_msg *msg, ki_msg_op *op)
{
    const ki_wire *wire = group->engine->wire;
    op_init(op, group, msg, true);
    ki_msg_header header = { .group = group->id,
                             .tag = msg->tag,
                             .nbytes = msg->nbytes,
                             .source = (uint32_t)group->rank,
                             .kind = KI_PACKET_EAGER };
    if (msg->peer == group->rank)
        return send_to_self(group, op, &header);
    ki_msg_peer *peer = &group->peers[msg->peer];
    kith_status status;
    header.sequence = op->sequence = peer->next_send++;
    if (msg->nbytes == 0 || (!op->is_device && msg->nbytes <= wire->eager_nbytes(group, msg->peer))) {
        op->state = KI_MSG_PACKET;
        status = wire->packet(group, msg->peer, &header, msg->buffer, msg->nbytes, op);
    } else {
        header.kind = op->is_device ? KI_PACKET_RTS_DEVICE : KI_PACKET_RTS;
        op->state = KI_MSG_WAITING;
        ki_link_insert(&group->waiting, &op->link);
        status = wire->packet(group, msg->peer, &header, NULL, 0, NULL);
    }
    if (status != KITH_OK && op->state != KI_MSG_DONE)
        ki_msg_done(op, status);
    return status;
}

kith_status ki_msg_recv(ki_msg_group *group, const kith_be_msg *msg, ki_msg_op *op)
{
    op_init(op, group, msg, false);
    ki_parcel *parcel = ki_unexpected_take(group, msg->peer, msg->tag);
    if (parcel == NULL) {
        ki_posted_add(op, false);
        return KITH_OK;
    }
    ki_msg_deliver(op, &parcel->header, parcel->local != NULL ? parcel->local->buffer : parcel->payload, parcel->local);
    ki_parcel_free(group, parcel);
    return KITH_OK;
}

static kith_status test_ended(ki_msg_op *op, size_t *nbytes)
{
    ki_msg_group *group = op->group;
    const kith_be_host *host = group->engine->host;
    if (op->status == KITH_ERR_TRUNCATED)
        return host->fail(KITH_ERR_TRUNCATED,
                          "group '%s': message of %zu bytes from rank %d, tag %llu, for a buffer of %zu bytes",
                          group->name, op->nbytes_sent, op->peer, (unsigned long long)op->tag, op->nbytes);
    if (op->status != KITH_OK)
        return host->fail(op->status, "group '%s': message %s rank %d, tag %llu, failed in the transport", group->name,
                          op->is_send ? "to" : "from", op->peer, (unsigned long long)op->tag);
    *nbytes = op->is_send ? op->nbytes : op->nbytes_sent;
    return KITH_OK;
}

kith_status ki_msg_test(ki_msg_op *op, int *is_done, size_t *nbytes)
{
    ki_msg_group *group = op->group;
    const kith_be_host *host = group->engine->host;
    *is_done = 1;
    if (op->state == KI_MSG_DONE)
        return test_ended(op, nbytes);
    if (atomic_load_explicit(&group->is_aborted, memory_order_relaxed)) {
        ki_msg_detach(op);
        return host->fail(KITH_ERR_ABORTED, "group '%s' was aborted", group->name);
    }
    if (group->peers[op->peer].is_failed) {
        ki_msg_detach(op);
        return host->fail(KITH_ERR_PEER_FAILED, "group '%s': rank %d (world rank %d) failed or left", group->name,
                          op->peer, group->world_ranks[op->peer]);
    }
    *is_done = 0;
    return KITH_OK;
}

static void take_back(ki_msg_op *op)
{
    ki_msg_group *group = op->group;
    ki_msg_peer *peer = &group->peers[op->peer];
    if (peer->is_failed)
        return;
    ki_msg_header header = { .group = group->id,
                             .tag = op->sequence,
                             .sequence = peer->next_send++,
                             .source = (uint32_t)group->rank,
                             .kind = KI_PACKET_BACK };
    (void)group->engine->wire->packet(group, op->peer, &header, NULL, 0, NULL);
}

void ki_msg_detach(ki_msg_op *op)
{
    ki_msg_group *group = op->group;
    ki_msg_state state = op->state;
    if (state == KI_MSG_NONE || state == KI_MSG_DONE) {
        op->state = KI_MSG_NONE;
        return;
    }
    if (state == KI_MSG_LOCAL)
        ki_unexpected_drop(group, op->peer, 0, op);
    if (state == KI_MSG_PACKET || state == KI_MSG_MOVING)
        group->engine->wire->detach(op);
    if (op->state == KI_MSG_DONE) { /* the transport ended it meanwhile */
        op->state = KI_MSG_NONE;
        return;
    }
    ki_link_remove(&op->link);
    if (state == KI_MSG_WAITING)
        take_back(op);
    op->state = KI_MSG_NONE;
    group->active--;
}

void ki_msg_peer_failed(ki_msg_group *group, int peer, const char *why)
{
    ki_msg_engine *engine = group->engine;
    if (group->peers[peer].is_failed)
        return;
    group->peers[peer].is_failed = true;
    engine->host->peer_failed(group->cookie, peer, why);
}
