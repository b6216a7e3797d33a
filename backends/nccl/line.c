/* backends/nccl/line.c - one communicator, its stream and its queue; see backend.h.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "backend.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

kith_status nccl_line_open(nccl_line *line, nccl_group *group)
{
    memset(line, 0, sizeof *line);
    line->be = group->be;
    line->group = group;
    line->waiting_end = &line->waiting;
    cudaError_t error = line->be->cuda->cudaStreamCreateWithFlags(&line->stream, cudaStreamNonBlocking);
    return error == cudaSuccess ? KITH_OK : nccl_cuda_fail(line->be, "a stream could not be made", error);
}

/* In the size that NCCL 2.19 knows. */
static ncclConfig_t make_config(const nccl_line *line)
{
    const nccl_be *be = line->be;
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.size = (offsetof(ncclConfig_t, splitShare) + sizeof config.splitShare + 7) & ~(size_t)7;
    config.version = NCCL_VERSION(2, 19, 0);
    config.blocking = be->is_blocking && line == &line->group->line; /* two ranks that send first would both stand */
    if (be->min_ctas > 0)
        config.minCTAs = be->min_ctas;
    if (be->max_ctas > 0)
        config.maxCTAs = be->max_ctas;
    config.netName = be->net;
    return config;
}

static void fail_with(nccl_line *line, ncclResult_t result, const char *what)
{
    char words[300], text[sizeof line->why];
    snprintf(text, sizeof text, "%s: %s", what, nccl_words(line->be, line->comm, result, words, sizeof words));
    nccl_line_break(line, nccl_status(result), text);
}

kith_status nccl_line_make(nccl_line *line, const ncclUniqueId *id, int rank, int size)
{
    const nccl_be *be = line->be;
    ncclConfig_t config = make_config(line);
    line->rank = rank;
    line->size = size;
    ncclResult_t result = be->nccl->ncclCommInitRankConfig(&line->comm, size, *id, rank, &config);
    if (result == ncclSuccess || result == ncclInProgress) {
        line->state = result == ncclSuccess ? LINE_READY : LINE_MAKING;
        return KITH_OK;
    }
    fail_with(line, result, "a communicator could not be made");
    return line->failure;
}

/* ---- operations ---- */

kith_status nccl_line_put(nccl_line *line, nccl_op *op, bool has_stream, void *stream)
{
    nccl_be *be = line->be;
    op->line = line;
    if (line->state == LINE_BROKEN)
        return nccl_line_fail(line);
    kith_status status = nccl_event_get(be, &op->end);
    if (status == KITH_OK && has_stream)
        status = nccl_event_get(be, &op->begin);
    if (status == KITH_OK && has_stream) {
        cudaError_t error = be->cuda->cudaEventRecord(op->begin, (cudaStream_t)stream);
        if (error != cudaSuccess)
            status = nccl_cuda_fail(be, "the caller's stream could not be marked", error);
    }
    if (status != KITH_OK) {
        nccl_op_release(op);
        return status;
    }
    *line->waiting_end = op;
    line->waiting_end = &op->next;
    return KITH_OK;
}

void nccl_op_release(nccl_op *op)
{
    nccl_event_put(op->line->be, &op->begin);
    nccl_event_put(op->line->be, &op->end);
}

void nccl_line_take_out(nccl_line *line, nccl_op *op)
{
    for (nccl_op **at = &line->waiting; *at != NULL; at = &(*at)->next) {
        if (*at != op)
            continue;
        *at = op->next;
        if (line->waiting_end == &op->next)
            line->waiting_end = at;
        op->next = NULL;
        return;
    }
}

/* The head of the queue becomes what is issued; with it the messages of its batch. */
static void take_next(nccl_line *line)
{
    nccl_op *first = line->waiting, *last = first;
    while (first->batch != 0 && last->next != NULL && last->next->batch == first->batch)
        last = last->next;
    line->waiting = last->next;
    if (line->waiting == NULL)
        line->waiting_end = &line->waiting;
    last->next = NULL;
    line->issuing = first;
    for (nccl_op *op = first; op != NULL; op = op->next)
        op->state = OP_ISSUING;
}

static cudaError_t wait_for_callers(nccl_line *line)
{
    cudaError_t error = cudaSuccess;
    for (nccl_op *op = line->issuing; op != NULL && error == cudaSuccess; op = op->next)
        if (op->begin != NULL)
            error = line->be->cuda->cudaStreamWaitEvent(line->stream, op->begin, 0);
    return error;
}

/* Everything of line->issuing is in the stream. */
static cudaError_t mark_ends(nccl_line *line)
{
    cudaError_t error = cudaSuccess;
    for (nccl_op *op = line->issuing, *next; op != NULL && error == cudaSuccess; op = next) {
        next = op->next;
        error = line->be->cuda->cudaEventRecord(op->end, line->stream);
        if (error == cudaSuccess) {
            op->state = OP_RUNNING;
            op->next = NULL;
            line->issuing = next;
        }
    }
    return error;
}

static void break_for_cuda(nccl_line *line, cudaError_t error)
{
    char words[200], text[sizeof line->why];
    snprintf(text, sizeof text, "CUDA: %s", ki_cuda_words(line->be->cuda, error, words, sizeof words));
    nccl_line_break(line, KITH_ERR_NO_RESOURCE, text);
}

/* The next call of what is being issued. Returns what NCCL said. */
static ncclResult_t give(nccl_line *line)
{
    line->state = LINE_ISSUING;
    line->is_last_step = true;
    if (line->issuing->coll != NULL)
        return nccl_coll_issue(line, line->issuing, &line->is_last_step);
    return nccl_messages_issue(line);
}

static ncclResult_t begin_next(nccl_line *line)
{
    take_next(line);
    cudaError_t error = wait_for_callers(line);
    if (error == cudaSuccess)
        return give(line);
    break_for_cuda(line, error);
    return ncclInProgress;
}

/* NCCL has done the last call. Returns false when there is nothing else to do now. */
static bool go_on(nccl_line *line, ncclResult_t *result)
{
    if (line->state == LINE_ISSUING && !line->is_last_step) {
        line->issuing->step++;
        *result = give(line);
        return true;
    }
    if (line->state == LINE_ISSUING) {
        cudaError_t error = mark_ends(line);
        if (error != cudaSuccess) {
            break_for_cuda(line, error);
            return false;
        }
    }
    line->state = LINE_READY;
    bool is_held = line->waiting != NULL && line->group->is_batching && line->waiting->batch == line->group->batch;
    if (line->waiting == NULL || is_held)
        return false;
    *result = begin_next(line);
    return true;
}

/* What NCCL says of the communicator: of its making, of the last call, of what runs. */
static ncclResult_t ask(const nccl_line *line)
{
    ncclResult_t result = ncclSuccess;
    ncclResult_t answer = line->be->nccl->ncclCommGetAsyncError(line->comm, &result);
    return answer != ncclSuccess ? answer : result;
}

void nccl_line_advance(nccl_line *line)
{
    while (line->state == LINE_MAKING || line->state == LINE_READY || line->state == LINE_ISSUING) {
        bool is_made = line->state != LINE_MAKING;
        ncclResult_t result = line->state == LINE_READY ? ncclSuccess : ask(line);
        if (result == ncclInProgress)
            return;
        if (result == ncclSuccess && !go_on(line, &result))
            return;
        if (result != ncclSuccess && result != ncclInProgress)
            fail_with(line, result, is_made ? "an operation failed" : "a communicator could not be made");
    }
}

/* ---- ends ---- */

static void end_all(nccl_line *line, nccl_op **list, kith_status status)
{
    while (*list != NULL) {
        nccl_op *op = *list;
        line->has_broken_batch |= op->batch != 0 && op->batch == line->group->batch;
        *list = op->next;
        op->next = NULL;
        op->state = OP_ENDED;
        op->status = status;
    }
}

/* Until nobody writes to a buffer any more. What a caller's stream holds back is the caller's to release. */
static void drain(nccl_line *line)
{
    int64_t deadline_ns = nccl_now_ns() + (int64_t)NCCL_DRAIN_MS * 1000000;
    while (line->stream != NULL && line->be->cuda->cudaStreamQuery(line->stream) == cudaErrorNotReady) {
        (void)line->be->cuda->cudaGetLastError(); /* not the program's next answer */
        if (nccl_now_ns() > deadline_ns) {
            line->be->host->log(line->be->host->cookie, KITH_LOG_WARN,
                                "an aborted communicator's stream does not become empty");
            return;
        }
        nccl_pause();
    }
}

void nccl_line_break(nccl_line *line, kith_status status, const char *why)
{
    if (line->state == LINE_BROKEN)
        return;
    line->state = LINE_BROKEN;
    line->failure = status;
    snprintf(line->why, sizeof line->why, "%s", why);
    if (line->comm != NULL)
        line->be->nccl->ncclCommAbort(line->comm);
    line->comm = NULL;
    line->factor_count = 0;
    end_all(line, &line->issuing, status);
    end_all(line, &line->waiting, status);
    line->waiting_end = &line->waiting;
    drain(line);
}

kith_status nccl_line_fail(const nccl_line *line)
{
    return line->be->host->fail(line->failure, "backend nccl, group '%s': %s", line->group->name, line->why);
}

kith_status nccl_op_test(nccl_op *op, int *is_done)
{
    nccl_line *line = op->line;
    *is_done = op->state == OP_ENDED && op->status == KITH_OK;
    if (*is_done)
        return KITH_OK;
    nccl_line_advance(line);
    if (line->state != LINE_BROKEN && op->state == OP_RUNNING) {
        cudaError_t error = line->be->cuda->cudaEventQuery(op->end);
        if (error == cudaSuccess) {
            op->state = OP_ENDED;
            nccl_op_release(op);
            *is_done = 1;
            return KITH_OK;
        }
        (void)line->be->cuda->cudaGetLastError(); /* not the program's next answer */
        if (error != cudaErrorNotReady)
            break_for_cuda(line, error);
        else if (line->state == LINE_READY && ask(line) != ncclSuccess)
            fail_with(line, ask(line), "an operation failed while it ran");
    }
    if (line->state != LINE_BROKEN)
        return KITH_OK;
    op->state = OP_ENDED;
    op->status = line->failure;
    nccl_op_release(op);
    return nccl_line_fail(line);
}

void nccl_line_finalize(nccl_line *line)
{
    if (line->comm == NULL || line->state == LINE_BROKEN)
        return;
    if (line->state == LINE_MAKING) { /* the peer never came */
        nccl_line_break(line, KITH_ERR_ABORTED, "the group was destroyed");
        return;
    }
    nccl_factors_free(line);
    ncclResult_t result = line->be->nccl->ncclCommFinalize(line->comm);
    line->is_finalizing = result == ncclSuccess || result == ncclInProgress;
}

static bool is_final(nccl_line *line, int64_t deadline_ns)
{
    ncclResult_t result = ncclInProgress;
    while (line->is_finalizing) {
        if (line->be->nccl->ncclCommGetAsyncError(line->comm, &result) != ncclSuccess)
            return false;
        if (result != ncclInProgress)
            return result == ncclSuccess;
        if (nccl_now_ns() > deadline_ns)
            return false;
        nccl_pause();
    }
    return false;
}

void nccl_line_close(nccl_line *line, int64_t deadline_ns)
{
    if (line->comm != NULL && is_final(line, deadline_ns))
        line->be->nccl->ncclCommDestroy(line->comm);
    else if (line->comm != NULL) /* a peer keeps its side: ours goes alone */
        line->be->nccl->ncclCommAbort(line->comm);
    line->comm = NULL;
    line->state = LINE_BROKEN;
    line->failure = KITH_ERR_ABORTED;
    if (line->stream != NULL)
        line->be->cuda->cudaStreamDestroy(line->stream);
    line->stream = NULL;
}
