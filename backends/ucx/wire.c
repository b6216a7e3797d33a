/* backends/ucx/wire.c - packets and data as active messages: the transport under backends/message; see ucx.h.
 *
 * A ucx_packet holds what UCX reads or hands back until a send or a rendezvous receive is complete; in the usual case
 * UCX is done at once and the packet goes straight back to the free list.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "ucx.h"

#include <string.h>

static ucx_packet *packet_get(ucx_be *be)
{
    ucx_packet *packet = be->free_packets;
    if (packet != NULL) {
        be->free_packets = packet->next;
        return packet;
    }
    packet = (ucx_packet *)be->host->alloc(be->host->cookie, sizeof *packet, 64);
    if (packet != NULL)
        packet->be = be;
    return packet;
}

static void packet_put(ucx_packet *packet)
{
    packet->op = NULL;
    packet->next = packet->be->free_packets;
    packet->be->free_packets = packet;
}

/* Packets that UCX still has (a peer that never took them) are lost with the worker. */
void ucx_packets_free(ucx_be *be)
{
    while (be->free_packets != NULL) {
        ucx_packet *packet = be->free_packets;
        be->free_packets = packet->next;
        be->host->free(be->host->cookie, packet);
    }
}

static ucs_memory_type_t ucx_memory_type(bool is_device)
{
    return is_device ? UCS_MEMORY_TYPE_CUDA : UCS_MEMORY_TYPE_HOST;
}

static void packet_ended(ucx_packet *packet, ucs_status_t status)
{
    ki_msg_op *op = packet->op;
    packet->be->in_flight--;
    packet_put(packet);
    if (op != NULL)
        ki_msg_done(op, status == UCS_OK ? KITH_OK : KITH_ERR_PEER_FAILED);
}

static void on_sent(void *request, ucs_status_t status, void *user_data)
{
    ucx_packet *packet = (ucx_packet *)user_data;
    const ucx_functions *ucx = packet->be->ucx;
    packet_ended(packet, status);
    ucx->ucp_request_free(request);
}

static void on_received(void *request, ucs_status_t status, size_t nbytes, void *user_data)
{
    (void)nbytes;
    on_sent(request, status, user_data);
}

static kith_status send_failed(ucx_be *be, int world_rank, ucs_status_t status)
{
    const char *text = be->ucx->ucs_status_string(status);
    ucx_peer_fail(&be->peers[world_rank], text);
    return be->host->fail(KITH_ERR_PEER_FAILED, "UCX cannot send to world rank %d: %s", world_rank, text);
}

/* Returns the active message's id. */
static unsigned write_header(ucx_packet *packet, const ki_msg_header *header)
{
    if (header->kind != KI_PACKET_EAGER) {
        packet->header = *header;
        return KI_UCX_AM_PACKET;
    }
    packet->eager = (ucx_eager_header){
        .group = header->group, .tag = header->tag, .sequence = (uint32_t)header->sequence, .source = header->source
    };
    return KI_UCX_AM_EAGER;
}

static kith_status send_packet(ucx_be *be, int world_rank, const ki_msg_header *header, const void *payload,
                               size_t nbytes, ki_msg_op *op, uint32_t flags)
{
    bool is_device = op != NULL && op->is_device; /* payload is a part of its buffer then */
    kith_status status = KITH_OK;
    ucp_ep_h ep = ucx_endpoint_get(be, world_rank, &status);
    if (ep == NULL)
        return status;
    ucx_packet *packet = packet_get(be);
    if (packet == NULL)
        return be->host->fail(KITH_ERR_NO_MEMORY, "no memory for a packet to world rank %d", world_rank);
    unsigned id = write_header(packet, header);
    size_t header_nbytes = id == KI_UCX_AM_EAGER ? sizeof packet->eager : sizeof packet->header;
    packet->op = op;
    ucp_request_param_t param = { .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
                                                  UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FIELD_MEMORY_TYPE,
                                  .flags = flags,
                                  .cb = { .send = on_sent },
                                  .user_data = packet,
                                  .memory_type = ucx_memory_type(is_device) };
    void *request = be->ucx->ucp_am_send_nbx(ep, id, &packet->header, header_nbytes, payload, nbytes, &param);
    if (request == NULL) {
        packet_put(packet);
        if (op != NULL)
            ki_msg_done(op, KITH_OK);
        return KITH_OK;
    }
    if (UCS_PTR_IS_ERR(request)) {
        packet_put(packet);
        return send_failed(be, world_rank, UCS_PTR_STATUS(request));
    }
    be->in_flight++;
    if (op != NULL)
        op->wire[0] = (uint64_t)(uintptr_t)packet;
    return KITH_OK;
}

static kith_status wire_packet(ki_msg_group *group, int peer, const ki_msg_header *header, const void *payload,
                               size_t nbytes, ki_msg_op *op)
{
    return send_packet((ucx_be *)group->wire_group, group->world_ranks[peer], header, payload, nbytes, op,
                       UCP_AM_SEND_FLAG_EAGER);
}

static size_t wire_eager_nbytes(ki_msg_group *group, int peer)
{
    ucx_be *be = (ucx_be *)group->wire_group;
    const int *node_of = be->host->node_of;
    return node_of[group->world_ranks[peer]] == node_of[be->host->rank] ? be->eager_near : be->eager_far;
}

/* The data comes as an active message that names the sequence number: nothing to prepare. */
static kith_status wire_data_recv(ki_msg_op *op, uint64_t *token)
{
    (void)op;
    *token = 0;
    return KITH_OK;
}

static kith_status wire_data_send(ki_msg_op *op, uint64_t token)
{
    ki_msg_group *group = op->group;
    ki_msg_header header = { .group = group->id,
                             .nbytes = op->nbytes_moving,
                             .sequence = op->sequence,
                             .source = (uint32_t)group->rank,
                             .kind = KI_PACKET_DATA };
    (void)token;
    return send_packet((ucx_be *)group->wire_group, group->world_ranks[op->peer], &header, op->buffer,
                       op->nbytes_moving, op, UCP_AM_SEND_FLAG_RNDV);
}

/* Drives an operation on that is to be cancelled, while its peer lives. */
static void drive_on(ki_msg_op *op, const ucx_peer *peer)
{
    int64_t until = ucx_now_ms() + KI_UCX_CANCEL_MS;
    while (op->state != KI_MSG_DONE && !peer->is_failed && ucx_now_ms() < until)
        peer->be->ucx->ucp_worker_progress(peer->be->worker);
}

/* Closes the peer's endpoint, upon which UCX ends its requests; those that it does not end in time it never ends. */
static void force_end(ki_msg_op *op, ucx_peer *peer)
{
    ucx_be *be = peer->be;
    ucx_endpoint_force(peer, "it stopped in the middle of a message that was cancelled");
    bool is_first = peer->let_go_by_ms == 0;
    if (is_first)
        peer->let_go_by_ms = ucx_now_ms() + KI_UCX_CANCEL_MS;
    do
        be->ucx->ucp_worker_progress(be->worker);
    while (op->state != KI_MSG_DONE && ucx_now_ms() < peer->let_go_by_ms);
    if (op->state != KI_MSG_DONE && is_first)
        be->host->log(be->host->cookie, KITH_LOG_ERROR,
                      "ucx: UCX did not let go of a buffer after its endpoint was closed");
}

static void wire_detach(ki_msg_op *op)
{
    ucx_be *be = (ucx_be *)op->group->wire_group;
    ucx_packet *packet = (ucx_packet *)(uintptr_t)op->wire[0];
    ucx_peer *peer = &be->peers[op->group->world_ranks[op->peer]];
    if (packet == NULL || packet->op != op) /* waits for DATA: UCX does not know the buffer */
        return;
    drive_on(op, peer);
    if (op->state != KI_MSG_DONE)
        force_end(op, peer);
    if (op->state != KI_MSG_DONE)
        packet->op = NULL;
}

const ki_wire ucx_wire = {
    .packet = wire_packet,
    .eager_nbytes = wire_eager_nbytes,
    .data_recv = wire_data_recv,
    .data_send = wire_data_send,
    .detach = wire_detach,
};

void ucx_send_bye(ucx_peer *peer)
{
    ki_msg_header header = { .source = (uint32_t)peer->be->host->rank, .kind = KI_PACKET_BYE };
    (void)send_packet(peer->be, peer->world_rank, &header, NULL, 0, NULL, UCP_AM_SEND_FLAG_EAGER);
}

static void on_bye(ucx_be *be, const ki_msg_header *header)
{
    if (header->source >= (uint32_t)be->host->size)
        return;
    ucx_peer *peer = &be->peers[header->source];
    peer->has_left = true;
    peer->needs_closing = peer->ep != NULL;
    be->has_failures |= peer->needs_closing;
    ucx_peer_fail(peer, "it left");
}

/* The bytes of a message that a receive here asked for. When the receive was cancelled meanwhile, returning UCS_OK
 * drops them and ends the sender's operation. */
static ucs_status_t on_data(ucx_be *be, const ki_msg_header *header, void *data, size_t nbytes, uint64_t attributes)
{
    ki_msg_op *op = ki_msg_moving_find(&be->engine, header);
    if (op == NULL || nbytes != op->nbytes_moving)
        return UCS_OK;
    if ((attributes & UCP_AM_RECV_ATTR_FLAG_RNDV) == 0) {
        ki_msg_done(op, ki_msg_take(op, data, nbytes, false));
        return UCS_OK;
    }
    ucx_packet *packet = packet_get(be);
    if (packet == NULL) {
        ki_msg_done(op, KITH_ERR_NO_MEMORY);
        return UCS_OK;
    }
    packet->op = op;
    op->wire[0] = (uint64_t)(uintptr_t)packet;
    be->in_flight++;
    ucp_request_param_t param = { .op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
                                                  UCP_OP_ATTR_FIELD_MEMORY_TYPE | UCP_OP_ATTR_FLAG_NO_IMM_CMPL,
                                  .cb = { .recv_am = on_received },
                                  .user_data = packet,
                                  .memory_type = ucx_memory_type(op->is_device) };
    void *request = be->ucx->ucp_am_recv_data_nbx(be->worker, data, op->buffer, nbytes, &param);
    if (request == NULL || UCS_PTR_IS_ERR(request))
        packet_ended(packet, UCS_PTR_STATUS(request));
    return UCS_OK;
}

ucs_status_t ucx_on_packet(void *arg, const void *header, size_t header_nbytes, void *data, size_t nbytes,
                           const ucp_am_recv_param_t *param)
{
    ucx_be *be = (ucx_be *)arg;
    ki_msg_header copy; /* UCX aligns its header to 1 */
    if (header_nbytes != sizeof copy)
        return UCS_OK;
    memcpy(&copy, header, sizeof copy);
    if (copy.kind == KI_PACKET_DATA)
        return on_data(be, &copy, data, nbytes, param->recv_attr);
    if ((param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0)
        return UCS_OK;
    if (copy.kind == KI_PACKET_BYE)
        on_bye(be, &copy);
    else
        ki_msg_arrived(&be->engine, &copy, data, nbytes);
    return UCS_OK;
}

static uint64_t whole_sequence(const ki_msg_group *group, const ucx_eager_header *header)
{
    if (header->source >= (uint32_t)group->size) /* damaged: ki_msg_arrived() says so */
        return header->sequence;
    return ki_whole_sequence(group->peers[header->source].next_recv, header->sequence);
}

ucs_status_t ucx_on_eager(void *arg, const void *header, size_t header_nbytes, void *data, size_t nbytes,
                          const ucp_am_recv_param_t *param)
{
    ucx_be *be = (ucx_be *)arg;
    ucx_eager_header copy;
    if (header_nbytes != sizeof copy || (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0)
        return UCS_OK;
    memcpy(&copy, header, sizeof copy);
    const ki_msg_group *group = ki_msg_group_find(&be->engine, copy.group);
    if (group == NULL) /* destroyed here while it was on its way */
        return UCS_OK;
    ki_msg_header whole = { .group = copy.group,
                            .tag = copy.tag,
                            .nbytes = nbytes,
                            .sequence = whole_sequence(group, &copy),
                            .source = copy.source,
                            .kind = KI_PACKET_EAGER };
    ki_msg_arrived(&be->engine, &whole, data, nbytes);
    return UCS_OK;
}
