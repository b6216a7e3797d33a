/* backends/nccl/end.c - how lines end: broken, or closed with their group; see backend.h.
 *
 * ncclCommAbort() tells the communicator's kernels to leave, and then frees memory, which on hardware waits for
 * whatever runs on the device. A kernel of another communicator that waits for a rank that is gone would hold it for
 * ever. So:
 *
 *   - Lines that break together are aborted together: inside one ncclGroupStart() and ncclGroupEnd() all their kernels
 *     are told to leave before anything is freed. Libraries before 2.22 have no such groups; there each communicator
 *     has a thread.
 *   - The freeing is the work of a thread that ends with it. Whoever breaks a line waits for the line's own stream
 *     alone, so lines that break one after the other do not stop each other either.
 *
 * A communicator that a thread is inside of (task.c) may not be aborted yet. It is revoked, which makes the thread come
 * back, and then aborted.
 *
 * Finalizing a blocking communicator waits for the others, so that is the work of such a thread as well.
 *
 * An ending belongs to its thread and to the lines that are in it; the last of these frees it.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "backend.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#define GROUPS_OF_ABORTS 22200 /* the first version whose groups of calls take ncclCommAbort() */

struct nccl_ending {
    const nccl_functions *nccl;
    const ki_cuda *cuda;
    int device;
    atomic_int references;
    atomic_bool is_done;
    nccl_task *task;    /* is inside of the only communicator */
    bool is_finalizing; /* the only communicator is whole */
    size_t count;
    ncclComm_t comms[];
};

static void release(nccl_ending *ending)
{
    if (ending != NULL && atomic_fetch_sub(&ending->references, 1) == 1)
        free(ending);
}

static void finalize(const nccl_ending *ending)
{
    ncclResult_t result = ending->nccl->ncclCommFinalize(ending->comms[0]);
    if (result == ncclSuccess)
        ending->nccl->ncclCommDestroy(ending->comms[0]);
    else
        ending->nccl->ncclCommAbort(ending->comms[0]);
}

static void abort_all(const nccl_ending *ending)
{
    bool is_group = ending->count > 1;
    if (is_group)
        ending->nccl->ncclGroupStart();
    for (size_t i = 0; i < ending->count; i++)
        ending->nccl->ncclCommAbort(ending->comms[i]);
    if (is_group)
        ending->nccl->ncclGroupEnd();
}

static void *work(void *arg)
{
    nccl_ending *ending = (nccl_ending *)arg;
    (void)ending->cuda->cudaSetDevice(ending->device);
    if (ending->task != NULL)
        nccl_task_call_back(ending->task, ending->comms[0]);
    if (ending->is_finalizing)
        finalize(ending);
    else
        abort_all(ending);
    if (ending->task != NULL) {
        nccl_task_clear(ending->task);
        nccl_task_release(ending->task);
    }
    atomic_store(&ending->is_done, true);
    release(ending);
    return NULL;
}

static nccl_ending *new_ending(const nccl_be *be, size_t most)
{
    nccl_ending *ending = (nccl_ending *)calloc(1, sizeof *ending + most * sizeof(ncclComm_t));
    if (ending == NULL)
        return NULL;
    ending->nccl = be->nccl;
    ending->cuda = be->cuda;
    ending->device = be->device;
    atomic_init(&ending->references, 1);
    return ending;
}

static void take(nccl_ending *ending, nccl_line *line)
{
    ending->comms[ending->count++] = line->comm;
    line->ending = ending;
    atomic_fetch_add(&ending->references, 1);
    if (line->task != NULL) /* it may have to read the handle yet */
        ending->task = nccl_task_hold(line->task);
    else
        line->comm = NULL;
}

/* The communicators of up to `most` lines of the list from here on. NULL: no memory. */
static nccl_ending *make_ending(const nccl_be *be, nccl_line *lines, size_t most)
{
    nccl_ending *ending = new_ending(be, most);
    if (ending == NULL)
        return NULL;
    bool is_alone = lines->task != NULL;
    for (nccl_line *line = lines; line != NULL && ending->count < most; line = is_alone ? NULL : line->next_broken)
        if (line->comm != NULL && (is_alone || line->task == NULL))
            take(ending, line);
    return ending;
}

static void start(nccl_ending *ending)
{
    if (!nccl_thread_start(work, ending))
        work(ending);
}

/* Where there is neither memory nor a thread it is done here. */
static void abort_here(const nccl_be *be, nccl_line *lines)
{
    bool is_group = be->nccl->version >= GROUPS_OF_ABORTS;
    if (is_group)
        be->nccl->ncclGroupStart();
    for (nccl_line *line = lines; line != NULL; line = line->next_broken) {
        if (line->comm != NULL && line->task == NULL) /* NCCL allows no abort beside a call: that one is left */
            be->nccl->ncclCommAbort(line->comm);
        line->comm = line->task == NULL ? NULL : line->comm;
    }
    if (is_group)
        be->nccl->ncclGroupEnd();
}

static void abort_communicators(const nccl_be *be, nccl_line *lines)
{
    size_t count = 0;
    for (const nccl_line *line = lines; line != NULL; line = line->next_broken)
        count += line->comm != NULL;
    size_t most = be->nccl->version >= GROUPS_OF_ABORTS ? count : 1;
    for (nccl_line *line = lines; line != NULL && count > 0; line = line->next_broken) {
        if (line->comm == NULL)
            continue;
        nccl_ending *ending = make_ending(be, line, most);
        if (ending == NULL) {
            abort_here(be, line);
            return;
        }
        start(ending);
    }
}

/* The thread that makes a communicator is left to itself. */
static void leave_making(nccl_line *line)
{
    const char *words;
    bool ignored;
    if (line->task == NULL || line->comm != NULL)
        return;
    if (!nccl_task_leave(line->task) && nccl_task_result(line->task, &line->comm, &ignored, &words) != ncclSuccess)
        line->comm = NULL;
    nccl_task_release(line->task);
    line->task = NULL;
}

/* Until the thread that issues an operation has left NCCL, and with it the operation. */
static void wait_for_task(nccl_line *line, int64_t deadline_ns)
{
    while (line->task != NULL && !nccl_task_is_done(line->task) && nccl_now_ns() <= deadline_ns)
        nccl_pause();
    if (line->task != NULL && !nccl_task_is_done(line->task))
        line->be->host->log(line->be->host->cookie, KITH_LOG_WARN,
                            "NCCL does not come back from a revoked communicator");
    nccl_task_release(line->task);
    line->task = NULL;
}

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
static void drain(nccl_line *line, int64_t deadline_ns)
{
    while (line->stream != NULL && line->be->cuda->cudaStreamQuery(line->stream) == cudaErrorNotReady) {
        (void)line->be->cuda->cudaGetLastError(); /* not the program's next answer */
        if (nccl_now_ns() > deadline_ns) {
            line->is_stuck = true;
            line->be->host->log(line->be->host->cookie, KITH_LOG_WARN,
                                "an aborted communicator's stream does not become empty");
            return;
        }
        nccl_pause();
    }
}

void nccl_line_mark_broken(nccl_line *line, kith_status status, const char *why, nccl_line **list)
{
    if (line->state == LINE_BROKEN)
        return;
    line->state = LINE_BROKEN;
    line->failure = status;
    snprintf(line->why, sizeof line->why, "%s", why);
    line->next_broken = *list;
    *list = line;
}

void nccl_lines_end(nccl_line *list)
{
    if (list == NULL)
        return;
    for (nccl_line *line = list; line != NULL; line = line->next_broken)
        leave_making(line);
    abort_communicators(list->be, list);
    int64_t deadline_ns = nccl_now_ns() + (int64_t)NCCL_DRAIN_MS * 1000000;
    for (nccl_line *line = list, *next; line != NULL; line = next) {
        next = line->next_broken;
        line->next_broken = NULL;
        wait_for_task(line, deadline_ns);
        line->factor_count = line->factor_next = 0; /* went with the communicator */
        line->comm = NULL;
        end_all(line, &line->issuing, line->failure);
        end_all(line, &line->waiting, line->failure);
        line->waiting_end = &line->waiting;
        drain(line, deadline_ns);
    }
}

void nccl_line_break(nccl_line *line, kith_status status, const char *why)
{
    nccl_line *list = NULL;
    nccl_line_mark_broken(line, status, why, &list);
    nccl_lines_end(list);
}

void nccl_put_away(const nccl_be *be, ncclComm_t comm)
{
    nccl_ending *ending = comm != NULL ? new_ending(be, 1) : NULL;
    if (ending != NULL) {
        ending->comms[ending->count++] = comm;
        start(ending);
    } else if (comm != NULL) {
        be->nccl->ncclCommAbort(comm);
    }
}

/* ---- closing ---- */

void nccl_line_finalize(nccl_line *line)
{
    if (line->comm == NULL || line->state == LINE_BROKEN)
        return;
    if (line->state == LINE_MAKING) { /* the peer never came */
        nccl_line_break(line, KITH_ERR_ABORTED, "the group was destroyed");
        return;
    }
    if (line->task != NULL) { /* an operation that nobody waits for any more */
        nccl_line_break(line, KITH_ERR_ABORTED, "the group was destroyed");
        return;
    }
    nccl_factors_free(line);
    nccl_ending *ending = line->be->is_blocking ? new_ending(line->be, 1) : NULL;
    if (ending != NULL) {
        ending->is_finalizing = true;
        take(ending, line);
        start(ending);
        return;
    }
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

void nccl_line_destroy(nccl_line *line, int64_t deadline_ns, nccl_line **list)
{
    if (line->comm != NULL && is_final(line, deadline_ns)) {
        line->be->nccl->ncclCommDestroy(line->comm);
        line->comm = NULL;
    }
    nccl_line_mark_broken(line, KITH_ERR_ABORTED, "the group was destroyed", list); /* a peer keeps its side */
}

bool nccl_line_is_over(nccl_line *line, int64_t deadline_ns)
{
    while (line->ending != NULL && !atomic_load(&line->ending->is_done)) {
        if (nccl_now_ns() > deadline_ns) /* one that waits for a peer's end has nothing of ours any more */
            return line->ending->is_finalizing;
        nccl_pause();
    }
    return true;
}

void nccl_line_close(nccl_line *line)
{
    release(line->ending);
    line->ending = NULL;
    if (line->stream != NULL)
        line->be->cuda->cudaStreamDestroy(line->stream);
    line->stream = NULL;
}
