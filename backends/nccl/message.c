/* backends/nccl/message.c - messages: a line for each direction between two ranks, and copies to oneself.
 *
 * A channel is made at the first message of its direction, by the two ranks alone: the sender gets a unique id and
 * leaves it as a note, the receiver looks for the note at each progress. Until the communicator stands, messages
 * wait in the line's queue; afterwards each is one ncclSend() or ncclRecv(), those of a batch one group. The lines
 * of the two directions and of all peers are independent, so a message only ever waits for earlier ones of its own
 * direction.
 *
 * A message of no bytes has nothing that NCCL would carry: both sides are done at once.
 *
 * A message to oneself is a copy on the device, once both halves are there.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "backend.h"

#include <stdio.h>
#include <string.h>

#define NOTE_EVERY_NS 2000000

static nccl_channel *find_channel(const nccl_group *group, int from, int to)
{
    nccl_channel *c = group->channels;
    while (c != NULL && (c->from != from || c->to != to))
        c = c->next;
    return c;
}

static void note_name(const nccl_channel *channel, char *name, size_t nbytes)
{
    snprintf(name, nbytes, "nccl/%d/%d", channel->from, channel->to);
}

static kith_status lead(nccl_channel *channel)
{
    nccl_group *group = channel->line.group;
    nccl_be *be = group->be;
    ncclUniqueId id;
    char name[64], words[300];
    note_name(channel, name, sizeof name);
    ncclResult_t result = be->nccl->ncclGetUniqueId(&id);
    if (result != ncclSuccess)
        return be->host->fail(nccl_status(result), "backend nccl: no unique id for messages to rank %d: %s",
                              channel->to, nccl_words(be, NULL, result, words, sizeof words));
    kith_status status = be->host->put(group->cookie, name, &id, sizeof id);
    return status == KITH_OK ? nccl_line_make(&channel->line, &id, 0, 2) : status;
}

static void follow(nccl_channel *channel)
{
    nccl_group *group = channel->line.group;
    nccl_be *be = group->be;
    ncclUniqueId id;
    char name[64];
    int64_t now = nccl_now_ns();
    if (now < channel->ask_at_ns)
        return;
    channel->ask_at_ns = now + NOTE_EVERY_NS;
    note_name(channel, name, sizeof name);
    kith_status status = be->host->get(group->cookie, name, &id, sizeof id);
    if (status == KITH_OK)
        nccl_line_make(&channel->line, &id, 1, 2);
    else if (status != KITH_ERR_BUSY)
        nccl_line_break(&channel->line, status, "the sender's note could not be read");
}

/* The channel of a direction, made when it is not there. Breaking it when NCCL refuses is the caller's answer later. */
static kith_status get_channel(nccl_group *group, int from, int to, nccl_channel **out)
{
    nccl_be *be = group->be;
    nccl_channel *channel = find_channel(group, from, to);
    *out = channel;
    if (channel != NULL)
        return KITH_OK;
    channel = (nccl_channel *)be->host->alloc(be->host->cookie, sizeof *channel, 64);
    if (channel == NULL)
        return be->host->fail(KITH_ERR_NO_MEMORY, "backend nccl: no memory for messages with rank %d",
                              from == group->rank ? to : from);
    memset(channel, 0, sizeof *channel);
    channel->from = from;
    channel->to = to;
    kith_status status = nccl_line_open(&channel->line, group);
    if (status == KITH_OK && from == group->rank && from != to)
        status = lead(channel);
    if (status != KITH_OK && channel->line.state != LINE_BROKEN) {
        if (channel->line.stream != NULL)
            be->cuda->cudaStreamDestroy(channel->line.stream);
        be->host->free(be->host->cookie, channel);
        return status;
    }
    channel->next = group->channels;
    group->channels = channel;
    *out = channel;
    return KITH_OK;
}

/* ---- to oneself ---- */

static nccl_op *take_first(nccl_op **list)
{
    nccl_op *op = *list;
    *list = op->next;
    op->next = NULL;
    return op;
}

static cudaError_t copy_to_self(nccl_line *line, nccl_op *send, nccl_op *recv)
{
    const ki_cuda *cuda = line->be->cuda;
    cudaError_t error = cudaSuccess;
    if (send->begin != NULL)
        error = cuda->cudaStreamWaitEvent(line->stream, send->begin, 0);
    if (error == cudaSuccess && recv->begin != NULL)
        error = cuda->cudaStreamWaitEvent(line->stream, recv->begin, 0);
    if (error == cudaSuccess)
        error = cuda->cudaMemcpyAsync(recv->msg->buffer, send->msg->buffer, send->msg->nbytes, cudaMemcpyDeviceToDevice,
                                      line->stream);
    if (error == cudaSuccess)
        error = cuda->cudaEventRecord(send->end, line->stream);
    return error == cudaSuccess ? cuda->cudaEventRecord(recv->end, line->stream) : error;
}

static void end_pair(nccl_op *send, nccl_op *recv, kith_status sent, kith_status received)
{
    send->state = recv->state = OP_ENDED;
    send->status = sent;
    recv->status = received;
    nccl_op_release(send);
    nccl_op_release(recv);
}

static void match_one(nccl_op *send, nccl_op *recv)
{
    char words[200];
    recv->length = send->msg->nbytes;
    if (send->msg->nbytes > recv->msg->nbytes || send->msg->nbytes == 0) {
        end_pair(send, recv, KITH_OK, send->msg->nbytes == 0 ? KITH_OK : KITH_ERR_TRUNCATED);
        return;
    }
    send->state = recv->state = OP_RUNNING;
    cudaError_t error = copy_to_self(send->line, send, recv);
    if (error == cudaSuccess)
        return;
    nccl_line_break(send->line, KITH_ERR_NO_RESOURCE, ki_cuda_words(send->line->be->cuda, error, words, sizeof words));
    end_pair(send, recv, KITH_ERR_NO_RESOURCE, KITH_ERR_NO_RESOURCE);
}

static void match_self(nccl_group *group)
{
    while (group->self_sends != NULL && group->self_recvs != NULL) {
        nccl_op *send = take_first(&group->self_sends);
        match_one(send, take_first(&group->self_recvs));
    }
}

static void end_self(nccl_op **list)
{
    while (*list != NULL) {
        nccl_op *op = take_first(list);
        op->state = OP_ENDED;
        op->status = KITH_ERR_ABORTED;
    }
}

void nccl_self_break(nccl_group *group)
{
    end_self(&group->self_sends);
    end_self(&group->self_recvs);
}

static void put_self(nccl_group *group, nccl_line *line, nccl_op *op)
{
    nccl_op **end = op->is_send ? &group->self_sends : &group->self_recvs;
    nccl_line_take_out(line, op); /* the line's queue is NCCL's */
    while (*end != NULL)
        end = &(*end)->next;
    *end = op;
    if (!group->is_batching)
        match_self(group);
}

/* ---- starting ---- */

static kith_status start(nccl_group *group, const kith_be_msg *msg, nccl_op *op, bool is_send)
{
    nccl_channel *channel = NULL;
    int from = is_send ? group->rank : msg->peer, to = is_send ? msg->peer : group->rank;
    kith_status status = get_channel(group, from, to, &channel);
    if (status != KITH_OK)
        return status;
    op->msg = msg;
    op->is_send = is_send;
    op->length = msg->nbytes;
    op->batch = group->is_batching ? group->batch : 0;
    op->line = &channel->line;
    if (msg->nbytes == 0 && from != to) {
        op->state = OP_ENDED;
        return channel->line.state == LINE_BROKEN ? nccl_line_fail(&channel->line) : KITH_OK;
    }
    status = nccl_line_put(&channel->line, op, msg->has_stream != 0, msg->stream);
    if (status != KITH_OK)
        return status;
    if (from == to)
        put_self(group, &channel->line, op);
    else if (!group->is_batching)
        nccl_channels_advance(group);
    return KITH_OK;
}

static kith_status start_locked(void *handle, const kith_be_msg *msg, kith_be_slot *slot, bool is_send)
{
    nccl_group *group = (nccl_group *)handle;
    int before = 0;
    pthread_mutex_lock(&group->lock);
    ki_cuda_enter(group->be->cuda, group->be->device, &before);
    kith_status status = start(group, msg, (nccl_op *)(void *)slot, is_send);
    ki_cuda_leave(group->be->cuda, group->be->device, before);
    pthread_mutex_unlock(&group->lock);
    return status;
}

kith_status nccl_send_start(void *group, const kith_be_msg *msg, kith_be_slot *slot)
{
    return start_locked(group, msg, slot, true);
}

kith_status nccl_recv_start(void *group, const kith_be_msg *msg, kith_be_slot *slot)
{
    return start_locked(group, msg, slot, false);
}

ncclResult_t nccl_messages_issue(nccl_line *line, const nccl_op *first)
{
    const nccl_functions *nccl = line->be->nccl;
    ncclResult_t result = ncclSuccess;
    bool is_group = first->next != NULL;
    if (is_group)
        nccl->ncclGroupStart();
    for (const nccl_op *op = first; op != NULL; op = op->next) {
        int peer = 1 - line->rank;
        if (op->is_send)
            result = nccl->ncclSend(op->msg->buffer, op->msg->nbytes, ncclUint8, peer, line->comm, line->stream);
        else
            result = nccl->ncclRecv(op->msg->buffer, op->msg->nbytes, ncclUint8, peer, line->comm, line->stream);
        if (result != ncclSuccess && result != ncclInProgress)
            break;
    }
    if (!is_group)
        return result;
    ncclResult_t end = nccl->ncclGroupEnd();
    return result == ncclSuccess || result == ncclInProgress ? end : result;
}

/* ---- going on, ending ---- */

void nccl_channels_advance(nccl_group *group)
{
    for (nccl_channel *c = group->channels; c != NULL; c = c->next) {
        if (c->from != c->to && c->line.state == LINE_EMPTY)
            follow(c);
        nccl_line_advance(&c->line);
    }
}

kith_status nccl_msg_test(void *handle, kith_be_slot *slot, int *is_done, size_t *nbytes)
{
    nccl_group *group = (nccl_group *)handle;
    nccl_op *op = (nccl_op *)(void *)slot;
    kith_status status;
    int before = 0;
    pthread_mutex_lock(&group->lock);
    ki_cuda_enter(group->be->cuda, group->be->device, &before);
    if (op->line->state == LINE_EMPTY && op->state == OP_WAITING)
        nccl_channels_advance(group);
    if (op->state == OP_ENDED && op->status == KITH_ERR_TRUNCATED)
        status =
            group->be->host->fail(KITH_ERR_TRUNCATED, "a message of %zu bytes to oneself, the receive has room for %zu",
                                  op->length, op->msg->nbytes);
    else
        status = nccl_op_test(op, is_done);
    *nbytes = op->length;
    ki_cuda_leave(group->be->cuda, group->be->device, before);
    pthread_mutex_unlock(&group->lock);
    return status;
}

static void take_out_self(nccl_op **at, nccl_op *op)
{
    while (*at != NULL && *at != op)
        at = &(*at)->next;
    if (*at == op)
        *at = op->next;
}

/* What NCCL has not got yet is taken back. Else the direction ends: its communicator is aborted. */
void nccl_msg_cancel(void *handle, kith_be_slot *slot)
{
    nccl_group *group = (nccl_group *)handle;
    nccl_op *op = (nccl_op *)(void *)slot;
    int before = 0;
    pthread_mutex_lock(&group->lock);
    ki_cuda_enter(group->be->cuda, group->be->device, &before);
    nccl_line *line = op->line;
    if (op->state == OP_WAITING) {
        nccl_line_take_out(line, op);
        take_out_self(&group->self_sends, op);
        take_out_self(&group->self_recvs, op);
    } else if (op->state != OP_ENDED) {
        nccl_line_break(line, KITH_ERR_ABORTED, "a message that was under way in this direction was cancelled");
    }
    op->state = OP_ENDED;
    op->status = KITH_ERR_ABORTED;
    nccl_op_release(op);
    ki_cuda_leave(group->be->cuda, group->be->device, before);
    pthread_mutex_unlock(&group->lock);
}

kith_status nccl_batch_begin(void *handle)
{
    nccl_group *group = (nccl_group *)handle;
    pthread_mutex_lock(&group->lock);
    for (nccl_channel *c = group->channels; c != NULL; c = c->next)
        c->line.has_broken_batch = false;
    group->is_batching = true;
    group->batch++;
    pthread_mutex_unlock(&group->lock);
    return KITH_OK;
}

kith_status nccl_batch_end(void *handle)
{
    nccl_group *group = (nccl_group *)handle;
    kith_status status = KITH_OK;
    int before = 0;
    pthread_mutex_lock(&group->lock);
    ki_cuda_enter(group->be->cuda, group->be->device, &before);
    group->is_batching = false;
    match_self(group);
    nccl_channels_advance(group);
    for (const nccl_channel *c = group->channels; c != NULL && status == KITH_OK; c = c->next)
        if (c->line.has_broken_batch)
            status = nccl_line_fail(&c->line);
    ki_cuda_leave(group->be->cuda, group->be->device, before);
    pthread_mutex_unlock(&group->lock);
    return status;
}
