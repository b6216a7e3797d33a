/* backends/mpi/transfer.c - the bytes of large messages, in chunks through bounce buffers; see backend.h.
 *
 * The receiver picks an MPI tag that no other transfer to it uses on this communicator, posts receives for the first
 * chunks and puts the tag into the CTS. Both sides keep MPI_WINDOW chunks under way; MPI's order makes the k-th
 * message with that tag the k-th chunk. Chunks are finished oldest first, and copied from or to the caller's buffer
 * by us.
 *
 * Cancelled (op is NULL): the sender, if chunks are missing, sends an empty one, upon which the receiver gives up; the
 * receiver goes on receiving and forgets. Either way both sides end, and the tag is free again.
 *
 * Chunks are parts of the caller's buffer, and nothing is copied, with mpi_native=blocking and on device memory.
 * Receives are as long as what was announced, so a message never passes the end of a buffer (Open MPI 4.1 writes
 * beyond it when a longer one comes from the same host). A cancel then waits for what is under way.
 *
 * Both sides cut alike. Chunks are large with mpi_native=blocking, and where both buffers are device memory, which the
 * receiver learns from the RTS and says in the CTS. A device's buffer against one of the host has small ones.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "backend.h"

#include <sched.h>
#include <string.h>
#include <time.h>

#define DIRECT_CHUNK_NBYTES ((size_t)1 << 30)
#define TOKEN_LARGE ((uint64_t)1 << 32) /* beside the tag: both buffers are device memory */
#define DETACH_WAIT_S 2

typedef struct mpi_chunk {
    MPI_Request request;
    unsigned char *bounce; /* or a part of the caller's buffer */
    size_t offset, nbytes; /* of the message; nbytes 0: the mark of a sender that gave up */
} mpi_chunk;

struct mpi_transfer {
    mpi_transfer *next;
    ki_msg_op *op;           /* NULL: cancelled */
    bool is_send, is_marked; /* marked: the empty chunk is on its way */
    int peer, tag;
    uint64_t sequence;
    size_t nbytes, posted, chunk_nbytes;
    unsigned char *direct; /* the caller's buffer, when chunks lie in it */
    mpi_chunk window[MPI_WINDOW];
    int head, count; /* oldest chunk, chunks under way */
    unsigned char memory[];
};

static mpi_group *group_of(const ki_msg_op *op)
{
    return (mpi_group *)op->group->wire_group;
}

static int tag_get(mpi_group *group)
{
    if (group->free_tag_count > 0)
        return group->free_tags[--group->free_tag_count];
    return group->last_tag < group->be->tag_limit ? ++group->last_tag : -1;
}

static void tag_put(mpi_group *group, int tag)
{
    const kith_be_host *host = group->be->host;
    if (group->free_tag_count == group->free_tag_capacity) {
        int capacity = group->free_tag_capacity > 0 ? 2 * group->free_tag_capacity : 64;
        int *larger = (int *)host->alloc(host->cookie, (size_t)capacity * sizeof *larger, 16);
        if (larger == NULL)
            return; /* one tag less */
        if (group->free_tag_count > 0)
            memcpy(larger, group->free_tags, (size_t)group->free_tag_count * sizeof *larger);
        if (group->free_tags != NULL)
            host->free(host->cookie, group->free_tags);
        group->free_tags = larger;
        group->free_tag_capacity = capacity;
    }
    group->free_tags[group->free_tag_count++] = tag;
}

static mpi_transfer *transfer_create(ki_msg_op *op, bool is_send, uint64_t token)
{
    mpi_group *group = group_of(op);
    const kith_be_host *host = group->be->host;
    bool is_direct = group->be->is_blocking || op->is_device;
    bool is_large = group->be->is_blocking || (token & TOKEN_LARGE) != 0;
    size_t most = is_large ? DIRECT_CHUNK_NBYTES : group->be->chunk_nbytes;
    size_t chunk = most < op->nbytes_moving ? most : op->nbytes_moving;
    size_t windows = (op->nbytes_moving + chunk - 1) / chunk;
    windows = windows < MPI_WINDOW ? windows : MPI_WINDOW;
    size_t bounce = is_direct ? 0 : chunk * windows;
    mpi_transfer *transfer = (mpi_transfer *)host->alloc(host->cookie, sizeof *transfer + bounce, 64);
    if (transfer == NULL)
        return NULL;
    memset(transfer, 0, sizeof *transfer);
    transfer->op = op;
    transfer->is_send = is_send;
    transfer->peer = op->peer;
    transfer->tag = (int)(token & ~TOKEN_LARGE);
    transfer->sequence = op->sequence;
    transfer->nbytes = op->nbytes_moving;
    transfer->chunk_nbytes = chunk;
    transfer->direct = is_direct ? (unsigned char *)op->buffer : NULL;
    for (size_t i = 0; i < MPI_WINDOW; i++) {
        transfer->window[i].request = MPI_REQUEST_NULL;
        if (!is_direct)
            transfer->window[i].bounce = transfer->memory + chunk * (i < windows ? i : 0);
    }
    transfer->next = group->transfers;
    group->transfers = transfer;
    op->wire[0] = (uint64_t)(uintptr_t)transfer;
    return transfer;
}

static void transfer_free(mpi_group *group, mpi_transfer *transfer)
{
    const kith_be_host *host = group->be->host;
    mpi_transfer **at = &group->transfers;
    while (*at != transfer)
        at = &(*at)->next;
    *at = transfer->next;
    if (!transfer->is_send)
        tag_put(group, transfer->tag);
    host->free(host->cookie, transfer);
}

static int post_chunk(mpi_group *group, mpi_transfer *t, size_t nbytes)
{
    mpi_chunk *chunk = &t->window[(t->head + t->count) % MPI_WINDOW];
    chunk->offset = t->posted;
    chunk->nbytes = nbytes;
    t->count++;
    if (t->direct != NULL)
        chunk->bounce = t->direct + chunk->offset;
    if (!t->is_send)
        return MPI_Irecv(chunk->bounce, (int)nbytes, MPI_BYTE, t->peer, t->tag, group->comm, &chunk->request);
    if (nbytes > 0 && t->direct == NULL)
        memcpy(chunk->bounce, (const unsigned char *)t->op->buffer + chunk->offset, nbytes);
    return MPI_Isend(chunk->bounce, (int)nbytes, MPI_BYTE, t->peer, t->tag, group->comm, &chunk->request);
}

/* Fills the window. */
static int post_chunks(mpi_group *group, mpi_transfer *t)
{
    int code = MPI_SUCCESS;
    if (t->is_send && t->op == NULL) {
        if (t->posted == t->nbytes || t->is_marked || t->count == MPI_WINDOW)
            return code;
        t->is_marked = true;
        return post_chunk(group, t, 0);
    }
    while (t->posted < t->nbytes && t->count < MPI_WINDOW && code == MPI_SUCCESS) {
        size_t left = t->nbytes - t->posted;
        size_t nbytes = left < t->chunk_nbytes ? left : t->chunk_nbytes;
        code = post_chunk(group, t, nbytes);
        t->posted += nbytes;
    }
    return code;
}

/* Takes back receives for chunks that the sender does not send. */
static void cancel_chunks(mpi_transfer *t)
{
    for (; t->count > 0; t->count--) {
        MPI_Request *request = &t->window[t->head].request;
        if (*request != MPI_REQUEST_NULL) {
            MPI_Cancel(request);
            MPI_Wait(request, MPI_STATUS_IGNORE);
        }
        t->head = (t->head + 1) % MPI_WINDOW;
    }
}

static void finish(mpi_group *group, mpi_transfer *t, kith_status status)
{
    ki_msg_op *op = t->op;
    if (t->count == 0) /* else MPI still has chunks, after an error: they stay */
        transfer_free(group, t);
    else
        t->op = NULL;
    if (op != NULL)
        ki_msg_done(op, status);
}

/* The oldest chunk is complete. False when the transfer has ended with it. */
static bool take_chunk(mpi_group *group, mpi_transfer *t, const MPI_Status *status)
{
    mpi_chunk *chunk = &t->window[t->head];
    int nbytes = (int)chunk->nbytes;
    t->head = (t->head + 1) % MPI_WINDOW;
    t->count--;
    if (t->is_send)
        return true;
    MPI_Get_count(status, MPI_BYTE, &nbytes);
    if (nbytes != (int)chunk->nbytes) { /* the sender gave up */
        cancel_chunks(t);
        finish(group, t, KITH_ERR_PEER_FAILED);
        return false;
    }
    if (t->op != NULL && t->direct == NULL)
        memcpy((unsigned char *)t->op->buffer + chunk->offset, chunk->bounce, chunk->nbytes);
    return true;
}

static void transfer_progress(mpi_group *group, mpi_transfer *t)
{
    int code = MPI_SUCCESS;
    while (t->count > 0 && code == MPI_SUCCESS) {
        int is_complete = 0;
        MPI_Status status;
        code = MPI_Test(&t->window[t->head].request, &is_complete, &status);
        if (code != MPI_SUCCESS || !is_complete)
            break;
        if (!take_chunk(group, t, &status))
            return;
        code = post_chunks(group, t);
    }
    if (code != MPI_SUCCESS)
        finish(group, t, mpi_status(group->be->host, code, "transfer of a large message"));
    else if (t->count == 0)
        finish(group, t, KITH_OK);
}

void mpi_transfers_progress(mpi_group *group)
{
    mpi_transfer *next;
    for (mpi_transfer *t = group->transfers; t != NULL; t = next) {
        next = t->next;
        transfer_progress(group, t);
    }
}

static kith_status begin(mpi_group *group, mpi_transfer *transfer, ki_msg_op *op)
{
    if (transfer == NULL)
        return group->be->host->fail(KITH_ERR_NO_MEMORY, "backend mpi: no memory for a message of %zu bytes",
                                     op->nbytes_moving);
    int code = post_chunks(group, transfer);
    if (code == MPI_SUCCESS)
        return KITH_OK;
    transfer->op = NULL;
    op->wire[0] = 0;
    return mpi_status(group->be->host, code, "start of a large message");
}

kith_status mpi_transfer_recv(ki_msg_op *op, uint64_t *token)
{
    mpi_group *group = group_of(op);
    int tag = tag_get(group);
    if (tag < 0)
        return group->be->host->fail(KITH_ERR_NO_RESOURCE, "backend mpi: all %d tags are in use by large messages",
                                     group->be->tag_limit);
    *token = (uint64_t)tag | (op->is_device && op->is_peer_device ? TOKEN_LARGE : 0);
    mpi_transfer *transfer = transfer_create(op, false, *token);
    if (transfer == NULL)
        tag_put(group, tag);
    return begin(group, transfer, op);
}

kith_status mpi_transfer_send(ki_msg_op *op, uint64_t token)
{
    return begin(group_of(op), transfer_create(op, true, token), op);
}

static bool is_under_way(const mpi_group *group, const mpi_transfer *transfer)
{
    const mpi_transfer *t = group->transfers;
    while (t != NULL && t != transfer)
        t = t->next;
    return t != NULL;
}

/* The caller's buffer is MPI's until the chunks that are under way have ended. */
static void wait_direct(mpi_group *group, mpi_transfer *transfer)
{
    const kith_be_host *host = group->be->host;
    for (time_t until = time(NULL) + DETACH_WAIT_S; is_under_way(group, transfer); sched_yield()) {
        mpi_transfers_progress(group);
        if (time(NULL) <= until)
            continue;
        host->log(host->cookie, KITH_LOG_WARN,
                  "mpi: a cancelled message stays with MPI, which may still use its buffer (mpi_native=blocking, or "
                  "device memory)");
        group->is_comm_lost = true;
        return;
    }
}

void mpi_transfer_detach(ki_msg_op *op)
{
    mpi_transfer *transfer = (mpi_transfer *)(uintptr_t)op->wire[0];
    if (transfer == NULL)
        return;
    transfer->op = NULL;
    op->wire[0] = 0;
    if (transfer->is_send)
        (void)post_chunks(group_of(op), transfer);
    if (transfer->direct != NULL)
        wait_direct(group_of(op), transfer);
}

/* The receive's operation, if there is one, is the caller's business. */
void mpi_transfer_taken_back(ki_msg_group *messages, int peer, uint64_t sequence)
{
    mpi_group *group = (mpi_group *)messages->wire_group;
    for (mpi_transfer *t = group->transfers; t != NULL; t = t->next)
        if (!t->is_send && t->peer == peer && t->sequence == sequence) {
            cancel_chunks(t);
            if (t->op != NULL)
                t->op->wire[0] = 0;
            transfer_free(group, t);
            return;
        }
}

/* At the group's end: what MPI does not give back at once is lost. */
void mpi_transfers_stop(mpi_group *group)
{
    const kith_be_host *host = group->be->host;
    for (int polls = 0; group->transfers != NULL && polls < 10000; polls++)
        mpi_transfers_progress(group);
    if (group->transfers == NULL)
        return;
    group->is_comm_lost = true;
    host->log(host->cookie, KITH_LOG_WARN,
              "mpi: a cancelled message did not end; its buffers and communicator stay with MPI");
    group->transfers = NULL;
}
