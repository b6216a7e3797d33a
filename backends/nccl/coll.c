/* backends/nccl/coll.c - collectives as calls of NCCL.
 *
 * What NCCL has is one call. The rest is a group of calls, which NCCL runs as one kernel:
 *
 *   reduce_scatter_v    a reduce to each rank          all_gather_v   a broadcast from each rank
 *   gather, scatter, their v-forms, all_to_all_v, and all_to_all before 2.28: sends and receives
 *
 * In place. NCCL knows all_gather and reduce_scatter in the own block. A reduce_scatter whose result goes to the start
 * of its input is made in the own block and then copied. all_to_all in place goes through a scratch of the group, a
 * piece of every block at a time. Blocks that a rank keeps for itself are copies on the device.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "backend.h"

#include <string.h>

typedef struct call {
    nccl_line *line;
    const nccl_functions *nccl;
    const kith_be_coll *coll;
    const unsigned char *send;
    unsigned char *recv;
    int rank, size;
} call;

static ncclResult_t copy(call *c, void *to, const void *from, size_t nbytes)
{
    if (nbytes == 0 || to == from)
        return ncclSuccess;
    cudaError_t error = c->line->be->cuda->cudaMemcpyAsync(to, from, nbytes, cudaMemcpyDeviceToDevice, c->line->stream);
    return error == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}

static ncclResult_t send_to(call *c, int peer, const void *from, size_t nbytes)
{
    return nbytes == 0 ? ncclSuccess : c->nccl->ncclSend(from, nbytes, ncclUint8, peer, c->line->comm, c->line->stream);
}

static ncclResult_t recv_from(call *c, int peer, void *to, size_t nbytes)
{
    return nbytes == 0 ? ncclSuccess : c->nccl->ncclRecv(to, nbytes, ncclUint8, peer, c->line->comm, c->line->stream);
}

/* In a group a call that is accepted says success or "in progress"; the group's end has the last word. */
static bool is_accepted(ncclResult_t result)
{
    return result == ncclSuccess || result == ncclInProgress;
}

static ncclResult_t end_group(call *c, ncclResult_t result)
{
    ncclResult_t end = c->nccl->ncclGroupEnd();
    return is_accepted(result) ? end : result;
}

/* ---- reductions ---- */

static ncclResult_t reduce(call *c)
{
    const kith_be_coll *k = c->coll;
    ncclDataType_t type = ncclUint8;
    ncclRedOp_t op;
    nccl_dtype(k->dtype, &type);
    ncclResult_t result = nccl_operator(c->line, k, type, &op);
    if (result != ncclSuccess)
        return result;
    ncclComm_t comm = c->line->comm;
    cudaStream_t stream = c->line->stream;
    unsigned char *own = (unsigned char *)(uintptr_t)c->send + (size_t)c->rank * k->count * k->nbytes;
    switch (k->kind) {
    case KITH_ALL_REDUCE:
        return c->nccl->ncclAllReduce(c->send, c->recv, k->count, type, op, comm, stream);
    case KITH_REDUCE:
        return c->nccl->ncclReduce(c->send, c->recv, k->count, type, op, k->root, comm, stream);
    default: /* reduce_scatter */
        return c->nccl->ncclReduceScatter(c->send, c->recv == c->send ? own : c->recv, k->count, type, op, comm,
                                          stream);
    }
}

static ncclResult_t reduce_scatter_v(call *c)
{
    const kith_be_coll *k = c->coll;
    ncclDataType_t type = ncclUint8;
    ncclRedOp_t op;
    nccl_dtype(k->dtype, &type);
    ncclResult_t result = nccl_operator(c->line, k, type, &op);
    if (result != ncclSuccess)
        return result;
    c->nccl->ncclGroupStart();
    const unsigned char *block = c->send;
    for (int r = 0; r < c->size && is_accepted(result); r++) {
        size_t count = k->recv_counts[r];
        void *to = r != c->rank ? NULL : c->recv == c->send ? (void *)(uintptr_t)block : c->recv;
        if (count > 0)
            result = c->nccl->ncclReduce(block, to, count, type, op, r, c->line->comm, c->line->stream);
        block += count * k->nbytes;
    }
    return end_group(c, result);
}

/* The result stands in the own block, and belongs to the start. */
static ncclResult_t move_to_start(call *c)
{
    const kith_be_coll *k = c->coll;
    size_t before = 0, count = k->count;
    if (k->kind == KITH_REDUCE_SCATTER)
        before = k->count * (size_t)c->rank;
    else
        count = k->recv_counts[c->rank];
    for (int r = 0; k->kind == KITH_REDUCE_SCATTER_V && r < c->rank; r++)
        before += k->recv_counts[r];
    size_t nbytes = count * k->nbytes, way = before * k->nbytes;
    if (nbytes <= way)
        return copy(c, c->recv, c->send + way, nbytes);
    ncclResult_t result = ncclSuccess; /* the block overlaps its place: through the scratch, in pieces */
    for (size_t done = 0, piece; way > 0 && done < nbytes && result == ncclSuccess; done += piece) {
        piece = nbytes - done < NCCL_SCRATCH_NBYTES ? nbytes - done : NCCL_SCRATCH_NBYTES;
        result = copy(c, c->line->group->scratch, c->send + way + done, piece);
        if (result == ncclSuccess)
            result = copy(c, c->recv + done, c->line->group->scratch, piece);
    }
    return result;
}

/* ---- moves ---- */

static ncclResult_t all_gather_v(call *c)
{
    const kith_be_coll *k = c->coll;
    ncclResult_t result = ncclSuccess;
    c->nccl->ncclGroupStart();
    for (int r = 0; r < c->size && is_accepted(result); r++) {
        unsigned char *block = c->recv + k->recv_displs[r] * k->nbytes;
        if (k->recv_counts[r] > 0)
            result = c->nccl->ncclBroadcast(r == c->rank ? c->send : block, block, k->recv_counts[r] * k->nbytes,
                                            ncclUint8, r, c->line->comm, c->line->stream);
    }
    return end_group(c, result);
}

/* gather and gather_v: counts NULL: count for every rank. */
static ncclResult_t gather(call *c, const size_t *counts, const size_t *displs)
{
    const kith_be_coll *k = c->coll;
    size_t own = k->count * k->nbytes;
    if (c->rank != k->root)
        return send_to(c, k->root, c->send, own);
    ncclResult_t result = ncclSuccess;
    c->nccl->ncclGroupStart();
    for (int r = 0; r < c->size && is_accepted(result); r++) {
        size_t at = displs != NULL ? displs[r] : k->count * (size_t)r, count = counts != NULL ? counts[r] : k->count;
        if (r != c->rank)
            result = recv_from(c, r, c->recv + at * k->nbytes, count * k->nbytes);
    }
    result = end_group(c, result);
    size_t at = displs != NULL ? displs[c->rank] : k->count * (size_t)c->rank;
    ncclResult_t copied = copy(c, c->recv + at * k->nbytes, c->send, own);
    return copied != ncclSuccess ? copied : result;
}

static ncclResult_t scatter(call *c, const size_t *counts, const size_t *displs)
{
    const kith_be_coll *k = c->coll;
    size_t own = k->count * k->nbytes;
    if (c->rank != k->root)
        return recv_from(c, k->root, c->recv, own);
    ncclResult_t result = ncclSuccess;
    c->nccl->ncclGroupStart();
    for (int r = 0; r < c->size && is_accepted(result); r++) {
        size_t at = displs != NULL ? displs[r] : k->count * (size_t)r, count = counts != NULL ? counts[r] : k->count;
        if (r != c->rank)
            result = send_to(c, r, c->send + at * k->nbytes, count * k->nbytes);
    }
    result = end_group(c, result);
    size_t at = displs != NULL ? displs[c->rank] : k->count * (size_t)c->rank;
    ncclResult_t copied = copy(c, c->recv, c->send + at * k->nbytes, own);
    return copied != ncclSuccess ? copied : result;
}

static ncclResult_t all_to_all_v(call *c)
{
    const kith_be_coll *k = c->coll;
    ncclResult_t result = ncclSuccess;
    c->nccl->ncclGroupStart();
    for (int i = 0; i < c->size && is_accepted(result); i++) {
        int to = (c->rank + i) % c->size, from = (c->rank + c->size - i) % c->size;
        if (to != c->rank)
            result = send_to(c, to, c->send + k->send_displs[to] * k->nbytes, k->send_counts[to] * k->nbytes);
        if (from != c->rank && is_accepted(result))
            result = recv_from(c, from, c->recv + k->recv_displs[from] * k->nbytes, k->recv_counts[from] * k->nbytes);
    }
    result = end_group(c, result);
    ncclResult_t copied = copy(c, c->recv + k->recv_displs[c->rank] * k->nbytes,
                               c->send + k->send_displs[c->rank] * k->nbytes, k->send_counts[c->rank] * k->nbytes);
    return copied != ncclSuccess ? copied : result;
}

static ncclResult_t all_to_all_apart(call *c)
{
    size_t nbytes = c->coll->count * c->coll->nbytes, own = nbytes * (size_t)c->rank;
    if (c->nccl->ncclAlltoAll != NULL)
        return c->nccl->ncclAlltoAll(c->send, c->recv, nbytes, ncclUint8, c->line->comm, c->line->stream);
    ncclResult_t result = ncclSuccess;
    c->nccl->ncclGroupStart();
    for (int i = 1; i < c->size && is_accepted(result); i++) {
        int to = (c->rank + i) % c->size, from = (c->rank + c->size - i) % c->size;
        result = send_to(c, to, c->send + nbytes * (size_t)to, nbytes);
        if (is_accepted(result))
            result = recv_from(c, from, c->recv + nbytes * (size_t)from, nbytes);
    }
    result = end_group(c, result);
    ncclResult_t copied = copy(c, c->recv + own, c->send + own, nbytes);
    return copied != ncclSuccess ? copied : result;
}

/* ---- all_to_all in place: step i exchanges piece i, after piece i-1 was copied from the scratch ---- */

static size_t piece_nbytes(const call *c)
{
    size_t piece = NCCL_SCRATCH_NBYTES / (size_t)c->size & ~(size_t)255, block = c->coll->count * c->coll->nbytes;
    return block < piece ? block : piece;
}

static size_t piece_length(const call *c, size_t step)
{
    size_t block = c->coll->count * c->coll->nbytes, at = step * piece_nbytes(c);
    return block - at < piece_nbytes(c) ? block - at : piece_nbytes(c);
}

static ncclResult_t take_from_scratch(call *c, size_t step)
{
    size_t block = c->coll->count * c->coll->nbytes, piece = piece_nbytes(c);
    ncclResult_t result = ncclSuccess;
    for (int r = 0; r < c->size && result == ncclSuccess; r++)
        if (r != c->rank)
            result = copy(c, c->recv + (size_t)r * block + step * piece,
                          (unsigned char *)c->line->group->scratch + (size_t)r * piece, piece_length(c, step));
    return result;
}

static ncclResult_t exchange_piece(call *c, size_t step)
{
    size_t block = c->coll->count * c->coll->nbytes, piece = piece_nbytes(c), length = piece_length(c, step);
    ncclResult_t result = ncclSuccess;
    c->nccl->ncclGroupStart();
    for (int i = 1; i < c->size && is_accepted(result); i++) {
        int to = (c->rank + i) % c->size, from = (c->rank + c->size - i) % c->size;
        result = send_to(c, to, c->recv + (size_t)to * block + step * piece, length);
        if (is_accepted(result))
            result = recv_from(c, from, (unsigned char *)c->line->group->scratch + (size_t)from * piece, length);
    }
    return end_group(c, result);
}

static ncclResult_t all_to_all_in_place(call *c, size_t step, bool *is_last)
{
    size_t block = c->coll->count * c->coll->nbytes, piece = piece_nbytes(c);
    size_t pieces = piece > 0 ? (block + piece - 1) / piece : 0;
    if (pieces == 0 || c->size == 1)
        return ncclSuccess;
    if (step > 0) {
        ncclResult_t result = take_from_scratch(c, step - 1);
        if (result != ncclSuccess || step == pieces)
            return result;
    }
    *is_last = false;
    return exchange_piece(c, step);
}

/* ---- the table ---- */

static ncclResult_t reduce_scatter_any(call *c, size_t step, bool *is_last)
{
    bool is_v = c->coll->kind == KITH_REDUCE_SCATTER_V;
    if (step > 0)
        return move_to_start(c);
    *is_last = c->recv != c->send;
    return is_v ? reduce_scatter_v(c) : reduce(c);
}

ncclResult_t nccl_coll_issue(nccl_line *line, nccl_op *op, bool *is_last)
{
    const kith_be_coll *k = op->coll;
    call c = { .line = line,
               .nccl = line->be->nccl,
               .coll = k,
               .send = (const unsigned char *)k->send,
               .recv = (unsigned char *)k->recv,
               .rank = line->rank,
               .size = line->size };
    *is_last = true;
    switch (k->kind) {
    case KITH_ALL_REDUCE:
    case KITH_REDUCE:
        return reduce(&c);
    case KITH_REDUCE_SCATTER:
    case KITH_REDUCE_SCATTER_V:
        return reduce_scatter_any(&c, op->step, is_last);
    case KITH_ALL_GATHER:
        return c.nccl->ncclAllGather(c.send, c.recv, k->count * k->nbytes, ncclUint8, line->comm, line->stream);
    case KITH_ALL_GATHER_V:
        return all_gather_v(&c);
    case KITH_BROADCAST:
        return c.nccl->ncclBroadcast(c.recv, c.recv, k->count * k->nbytes, ncclUint8, k->root, line->comm,
                                     line->stream);
    case KITH_GATHER:
        return gather(&c, NULL, NULL);
    case KITH_GATHER_V:
        return gather(&c, k->recv_counts, k->recv_displs);
    case KITH_SCATTER:
        return scatter(&c, NULL, NULL);
    case KITH_SCATTER_V:
        return scatter(&c, k->send_counts, k->send_displs);
    case KITH_ALL_TO_ALL:
        return c.send == c.recv ? all_to_all_in_place(&c, op->step, is_last) : all_to_all_apart(&c);
    case KITH_ALL_TO_ALL_V:
        return all_to_all_v(&c);
    case KITH_BARRIER: /* has no buffers, so it is the host's; nccl_query() says so */
        break;
    }
    return ncclInvalidArgument;
}

/* ---- entries ---- */

static kith_status prepare(nccl_group *group, const kith_be_coll *coll)
{
    nccl_be *be = group->be;
    bool may_need_it = coll->kind == KITH_ALL_TO_ALL || coll->kind == KITH_REDUCE_SCATTER_V;
    if (!may_need_it || coll->send != coll->recv || group->scratch != NULL)
        return KITH_OK;
    cudaError_t error = be->cuda->cudaMalloc(&group->scratch, NCCL_SCRATCH_NBYTES);
    return error == cudaSuccess ? KITH_OK : nccl_cuda_fail(be, "no memory to work in place", error);
}

kith_status nccl_coll_start(void *handle, const kith_be_coll *coll, kith_be_slot *slot)
{
    nccl_group *group = (nccl_group *)handle;
    nccl_op *op = (nccl_op *)(void *)slot;
    int before = 0;
    op->coll = coll;
    op->line = &group->line;
    pthread_mutex_lock(&group->lock);
    ki_cuda_enter(group->be->cuda, group->be->device, &before);
    kith_status status = prepare(group, coll);
    if (status == KITH_OK)
        status = nccl_line_put(&group->line, op, coll->has_stream != 0, coll->stream);
    if (status == KITH_OK)
        nccl_line_advance(&group->line);
    ki_cuda_leave(group->be->cuda, group->be->device, before);
    pthread_mutex_unlock(&group->lock);
    return status;
}

kith_status nccl_coll_test(void *handle, kith_be_slot *slot, int *is_done)
{
    nccl_group *group = (nccl_group *)handle;
    int before = 0;
    pthread_mutex_lock(&group->lock);
    ki_cuda_enter(group->be->cuda, group->be->device, &before);
    kith_status status = nccl_op_test((nccl_op *)(void *)slot, is_done);
    ki_cuda_leave(group->be->cuda, group->be->device, before);
    pthread_mutex_unlock(&group->lock);
    return status;
}

void nccl_coll_cancel(void *handle, kith_be_slot *slot)
{
    nccl_group *group = (nccl_group *)handle;
    nccl_op *op = (nccl_op *)(void *)slot;
    int before = 0;
    pthread_mutex_lock(&group->lock);
    ki_cuda_enter(group->be->cuda, group->be->device, &before);
    if (op->state != OP_ENDED) { /* the group is over: messages that wait for what never comes end with it */
        nccl_line *list = NULL;
        nccl_group_mark_broken(group, KITH_ERR_ABORTED, "an operation was cancelled", &list);
        nccl_lines_end(list);
    }
    op->state = OP_ENDED;
    op->status = KITH_ERR_ABORTED;
    nccl_op_release(op);
    ki_cuda_leave(group->be->cuda, group->be->device, before);
    pthread_mutex_unlock(&group->lock);
}

kith_status nccl_stream_wait(void *handle, kith_be_slot *slot, void *stream)
{
    nccl_group *group = (nccl_group *)handle;
    nccl_op *op = (nccl_op *)(void *)slot;
    kith_status status = KITH_OK;
    int before = 0;
    pthread_mutex_lock(&group->lock);
    ki_cuda_enter(group->be->cuda, group->be->device, &before);
    if (op->state != OP_ENDED)
        nccl_line_advance(op->line);
    if (op->state == OP_WAITING || op->state == OP_ISSUING) {
        status = KITH_ERR_BUSY;
    } else if (op->line->state == LINE_BROKEN && op->status == KITH_OK && op->state != OP_ENDED) {
        status = nccl_line_fail(op->line);
    } else if (op->state == OP_RUNNING) {
        cudaError_t error = group->be->cuda->cudaStreamWaitEvent((cudaStream_t)stream, op->end, 0);
        if (error != cudaSuccess)
            status = nccl_cuda_fail(group->be, "a stream could not be ordered behind an operation", error);
    } else if (op->status != KITH_OK) {
        status = nccl_line_fail(op->line);
    }
    ki_cuda_leave(group->be->cuda, group->be->device, before);
    pthread_mutex_unlock(&group->lock);
    return status;
}
