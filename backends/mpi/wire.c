/* backends/mpi/wire.c - packets over MPI, and progress; see backend.h.
 *
 * A packet is one MPI message with tag 0 on the group's communicator: header and payload together, in a buffer of
 * ours that lives until MPI has sent it. MPI keeps the order of messages between two ranks, so packets come in order.
 * MPI_RING receives from any source are posted per group; since MPI matches them in the order of posting, they are
 * looked at in that order, and stop at the first that is not complete.
 *
 * Only groups with something to do are looked at: packets of others wait in MPI or in the posted receives.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "backend.h"

#include <stddef.h>
#include <string.h>

static size_t packet_nbytes(const mpi_be *be)
{
    return sizeof(ki_msg_header) + be->eager_nbytes;
}

static unsigned char *ring_buffer(const mpi_group *group, int index)
{
    return group->ring_buffers + ((packet_nbytes(group->be) + 63) & ~(size_t)63) * (size_t)index;
}

static int ring_post(mpi_group *group, int index)
{
    return MPI_Irecv(ring_buffer(group, index), (int)packet_nbytes(group->be), MPI_BYTE, MPI_ANY_SOURCE, 0, group->comm,
                     &group->ring[index]);
}

kith_status mpi_ring_start(mpi_group *group)
{
    const kith_be_host *host = group->be->host;
    size_t stride = (packet_nbytes(group->be) + 63) & ~(size_t)63;
    for (int i = 0; i < MPI_RING; i++)
        group->ring[i] = MPI_REQUEST_NULL;
    group->ring_buffers = (unsigned char *)host->alloc(host->cookie, stride * MPI_RING, 64);
    if (group->ring_buffers == NULL)
        return host->fail(KITH_ERR_NO_MEMORY, "backend mpi: no memory for packets");
    group->is_ring_up = true;
    for (int i = 0; i < MPI_RING; i++) {
        int code = ring_post(group, i);
        if (code != MPI_SUCCESS)
            return mpi_status(host, code, "MPI_Irecv");
    }
    return KITH_OK;
}

void mpi_ring_stop(mpi_group *group)
{
    const kith_be_host *host = group->be->host;
    if (!group->is_ring_up)
        return;
    group->is_ring_up = false;
    for (int i = 0; i < MPI_RING && mpi_is_running(); i++)
        if (group->ring[i] != MPI_REQUEST_NULL) {
            MPI_Cancel(&group->ring[i]);
            MPI_Wait(&group->ring[i], MPI_STATUS_IGNORE); /* ends: cancelled, or a packet that is here already */
        }
    host->free(host->cookie, group->ring_buffers);
}

static void group_failed(mpi_group *group, int code)
{
    const kith_be_host *host = group->be->host;
    (void)mpi_status(host, code, "receiving packets");
    group->is_ring_up = false; /* no further attempts */
    host->peer_failed(group->messages->cookie, -1, "MPI reported an error on the group's communicator");
}

static void ring_progress(mpi_group *group)
{
    for (int budget = 2 * MPI_RING; budget > 0 && group->is_ring_up; budget--) {
        int index = group->ring_head, is_here = 0, nbytes = 0;
        MPI_Status status;
        int code = MPI_Test(&group->ring[index], &is_here, &status);
        if (code == MPI_SUCCESS && !is_here)
            return;
        if (code == MPI_SUCCESS)
            code = MPI_Get_count(&status, MPI_BYTE, &nbytes);
        if (code == MPI_SUCCESS && nbytes >= (int)sizeof(ki_msg_header)) {
            const unsigned char *packet = ring_buffer(group, index);
            ki_msg_header header;
            memcpy(&header, packet, sizeof header);
            if (header.group == group->messages->id)
                ki_msg_arrived(&group->be->engine, &header, packet + sizeof header, (size_t)nbytes - sizeof header);
        }
        if (code == MPI_SUCCESS)
            code = ring_post(group, index);
        if (code != MPI_SUCCESS) {
            group_failed(group, code);
            return;
        }
        group->ring_head = (index + 1) % MPI_RING;
    }
}

static mpi_packet *packet_get(mpi_be *be)
{
    mpi_packet *packet = be->free_packets;
    if (packet != NULL) {
        be->free_packets = packet->next;
        return packet;
    }
    return (mpi_packet *)be->host->alloc(be->host->cookie, sizeof *packet + be->eager_nbytes, 64);
}

static void packet_put(mpi_be *be, mpi_packet *packet)
{
    packet->next = be->free_packets;
    be->free_packets = packet;
}

/* Frees the buffers of packets that have gone, oldest first. */
static void sending_progress(mpi_be *be)
{
    while (be->sending != NULL) {
        mpi_packet *packet = be->sending;
        int is_gone = 0;
        if (MPI_Test(&packet->request, &is_gone, MPI_STATUS_IGNORE) == MPI_SUCCESS && !is_gone)
            return;
        be->sending = packet->next;
        if (be->sending == NULL)
            be->sending_end = &be->sending;
        packet_put(be, packet);
    }
}

void mpi_packets_free(mpi_be *be)
{
    for (int polls = 0; be->sending != NULL && mpi_is_running() && polls < 100000; polls++)
        sending_progress(be);
    if (be->sending != NULL)
        be->host->log(be->host->cookie, KITH_LOG_WARN, "mpi: packets that no rank took stay with MPI");
    while (be->free_packets != NULL) {
        mpi_packet *packet = be->free_packets;
        be->free_packets = packet->next;
        be->host->free(be->host->cookie, packet);
    }
}

static kith_status wire_packet(ki_msg_group *messages, int peer, const ki_msg_header *header, const void *payload,
                               size_t nbytes, ki_msg_op *op)
{
    mpi_group *group = (mpi_group *)messages->wire_group;
    mpi_be *be = group->be;
    mpi_packet *packet = packet_get(be);
    int is_gone = 0;
    if (packet == NULL)
        return be->host->fail(KITH_ERR_NO_MEMORY, "backend mpi: no memory for a packet");
    packet->header = *header;
    if (nbytes > 0)
        memcpy(packet->payload, payload, nbytes);
    int code =
        MPI_Isend(&packet->header, (int)(sizeof *header + nbytes), MPI_BYTE, peer, 0, group->comm, &packet->request);
    if (code == MPI_SUCCESS)
        code = MPI_Test(&packet->request, &is_gone, MPI_STATUS_IGNORE);
    if (code != MPI_SUCCESS || is_gone) {
        packet_put(be, packet);
    } else {
        packet->next = NULL;
        *be->sending_end = packet;
        be->sending_end = &packet->next;
    }
    if (code != MPI_SUCCESS)
        return mpi_status(be->host, code, "MPI_Isend");
    if (op != NULL)
        ki_msg_done(op, KITH_OK);
    return KITH_OK;
}
_Static_assert(offsetof(mpi_packet, payload) == offsetof(mpi_packet, header) + sizeof(ki_msg_header),
               "header and payload are sent as one piece");

static size_t wire_eager_nbytes(ki_msg_group *messages, int peer)
{
    (void)peer;
    return ((mpi_group *)messages->wire_group)->be->eager_nbytes;
}

const ki_wire mpi_wire = {
    .packet = wire_packet,
    .eager_nbytes = wire_eager_nbytes,
    .data_recv = mpi_transfer_recv,
    .data_send = mpi_transfer_send,
    .detach = mpi_transfer_detach,
    .taken_back = mpi_transfer_taken_back,
};

/* What a finished operation left with MPI moves only while MPI is called, and a rank may wait elsewhere: in a group of
 * another backend. That it waits is seen from many turns without a call: one here and there would only cost time.
 * Packets of tag 0 that this finds stay where they are. */
static void call_mpi(mpi_be *be)
{
    enum { TURNS = 16 };
    int is_there = 0;
    const mpi_group *group = be->groups;
    be->idle_turns = be->has_called ? 0 : be->idle_turns + 1;
    be->has_called = false;
    if (be->idle_turns < TURNS)
        return;
    be->idle_turns = 0;
    if (group != NULL && group->comm != MPI_COMM_NULL && !group->is_comm_lost && mpi_is_running())
        (void)MPI_Iprobe(MPI_ANY_SOURCE, 0, group->comm, &is_there, MPI_STATUS_IGNORE);
}

void mpi_progress(void *instance)
{
    mpi_be *be = (mpi_be *)instance;
    for (mpi_group *group = be->groups; group != NULL; group = group->next) {
        be->has_called = be->has_called || group->messages->active > 0 || group->transfers != NULL;
        if (group->messages->active > 0 || group->transfers != NULL)
            ring_progress(group);
        if (group->transfers != NULL)
            mpi_transfers_progress(group);
    }
    if (be->sending != NULL)
        sending_progress(be);
    else
        call_mpi(be);
}

int mpi_is_drained(void *instance)
{
    mpi_be *be = (mpi_be *)instance;
    mpi_progress(be);
    for (mpi_group *group = be->groups; group != NULL; group = group->next)
        if (group->transfers != NULL)
            return 0;
    return be->sending == NULL;
}
