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
    cudaError_t error =
        line->be->cuda->cudaStreamCreateWithPriority(&line->stream, cudaStreamNonBlocking, line->be->stream_priority);
    return error == cudaSuccess ? KITH_OK : nccl_cuda_fail(line->be, "a stream could not be made", error);
}

/* In the size that NCCL 2.19 knows. */
ncclConfig_t nccl_line_config(const nccl_line *line)
{
    const nccl_be *be = line->be;
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.size = (offsetof(ncclConfig_t, splitShare) + sizeof config.splitShare + 7) & ~(size_t)7;
    config.version = NCCL_VERSION(2, 19, 0);
    config.blocking = be->is_blocking;
    bool is_of_messages = line != &line->group->line;
    int most = be->max_ctas;
    if (is_of_messages && (most == 0 || be->message_ctas < most))
        most = be->message_ctas;
    if (be->min_ctas > 0)
        config.minCTAs = most > 0 && be->min_ctas > most ? most : be->min_ctas;
    if (most > 0)
        config.maxCTAs = most;
    config.netName = be->net;
    return config;
}

static void fail_in_words(nccl_line *line, ncclResult_t result, const char *what, const char *words)
{
    char text[sizeof line->why];
    snprintf(text, sizeof text, "%s: %s", what, words);
    nccl_line_break(line, nccl_status(result), text);
}

static void fail_with(nccl_line *line, ncclResult_t result, const char *what)
{
    char words[300];
    fail_in_words(line, result, what, nccl_words(line->be, line->comm, result, words, sizeof words));
}

kith_status nccl_line_make(nccl_line *line, const ncclUniqueId *id, int rank, int size)
{
    const nccl_be *be = line->be;
    ncclConfig_t config = nccl_line_config(line);
    line->rank = rank;
    line->size = size;
    if (be->is_blocking && (line->task = nccl_task_make(line, id, &config)) != NULL) {
        line->state = LINE_MAKING;
        return KITH_OK;
    }
    config.blocking = 0; /* without a thread for it */
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
    if (line->be->is_blocking && line->size > 1 && nccl_is_new_shape(line) &&
        (line->task = nccl_task_issue(line)) != NULL)
        return ncclInProgress;
    if (line->issuing->coll != NULL)
        return nccl_coll_issue(line, line->issuing, &line->is_last_step);
    return nccl_messages_issue(line, line->issuing);
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

/* What the task's call has returned. false: it has not. */
static bool collect(nccl_line *line)
{
    const char *words = "", *what = "an operation failed";
    if (!nccl_task_is_done(line->task))
        return false;
    nccl_task *task = line->task;
    line->task = NULL;
    ncclResult_t result = nccl_task_result(task, &line->comm, &line->is_last_step, &words);
    if (line->state == LINE_MAKING)
        what = "a communicator could not be made";
    if (line->state == LINE_MAKING && result != ncclSuccess)
        line->comm = NULL;
    if (result != ncclSuccess && result != ncclInProgress)
        fail_in_words(line, result, what, words);
    nccl_task_release(task);
    return true;
}

void nccl_line_advance(nccl_line *line)
{
    if (line->task != NULL && !collect(line))
        return;
    while (line->task == NULL &&
           (line->state == LINE_MAKING || line->state == LINE_READY || line->state == LINE_ISSUING)) {
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

/* ---- what became of an operation ---- */

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
