/* backends/nccl/split.c - communicators of groups that come out of a group with one: ncclCommSplit().
 *
 * It knows the ranks and the machine already, so it is sooner than a communicator from a unique id, above all with many
 * ranks. NCCL wants all ranks of the parent in the call, those too that will be in no group, and nothing under way on
 * the parent. So all members of the parent first tell each other whether they can; unless all can, none does, and the
 * groups get their communicators from unique ids. Afterwards they tell whether it went well. Where it did not, NCCL
 * leaves open what became of the parent's communicator: it is aborted, and the groups that were to be made go by unique
 * ids.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "backend.h"

#include <stdio.h>
#include <string.h>

#define NOTE_EVERY_NS 20000000

struct nccl_split {
    ncclComm_t comm;
};

typedef struct vote {
    int version, color; /* color below 0: in no group */
    int can;
} vote;

/* Nothing may be under way; what is ends by itself, as all ranks have posted it. */
static bool is_idle(nccl_group *group, int64_t deadline_ns)
{
    nccl_line *line = &group->line;
    for (;;) {
        nccl_progress(group->be); /* of all groups: another rank may wait for one before it comes here */
        pthread_mutex_lock(&group->lock);
        bool is_broken = line->state == LINE_BROKEN;
        bool is_done = line->state == LINE_READY && line->waiting == NULL &&
                       line->be->cuda->cudaStreamQuery(line->stream) == cudaSuccess;
        (void)line->be->cuda->cudaGetLastError(); /* not the program's next answer */
        pthread_mutex_unlock(&group->lock);
        if (is_broken || is_done || nccl_now_ns() > deadline_ns)
            return is_done && !is_broken;
        nccl_pause();
    }
}

static bool all_can(const vote *votes, int size)
{
    bool is_any_in = false;
    for (int r = 0; r < size; r++) {
        if (!votes[r].can || votes[r].version != votes[0].version)
            return false;
        is_any_in |= votes[r].color >= 0;
    }
    return is_any_in;
}

static kith_status fail(nccl_group *group, kith_status status, const char *why)
{
    pthread_mutex_lock(&group->lock);
    nccl_line_break(&group->line, status, why);
    pthread_mutex_unlock(&group->lock);
    return status;
}

/* Until the call is over, somebody failed, or the time is up. */
static kith_status wait_for_split(nccl_group *group, nccl_task *task, const char *note, int64_t deadline_ns)
{
    const kith_be_host *host = group->be->host;
    int64_t look_ns = 0;
    for (;;) {
        char ignored;
        pthread_mutex_lock(&group->lock);
        bool is_done = nccl_task_is_done(task), is_broken = group->line.state == LINE_BROKEN;
        pthread_mutex_unlock(&group->lock);
        int64_t now = nccl_now_ns();
        if (is_done || is_broken)
            return is_broken ? group->line.failure : KITH_OK;
        if (now > deadline_ns)
            return fail(group, KITH_ERR_TIMEOUT, "ncclCommSplit did not end within connect_timeout_ms");
        if (now > look_ns && host->get(group->cookie, note, &ignored, 1) == KITH_OK)
            return fail(group, KITH_ERR_PEER_FAILED, "ncclCommSplit failed on another rank");
        look_ns = now > look_ns ? now + NOTE_EVERY_NS : look_ns;
        nccl_pause();
    }
}

/* The call itself is a task's, as it waits for the others in a blocking communicator; in one that does not block the
 * task asks. */
static kith_status split(nccl_group *group, int color, int key, const char *note, ncclComm_t *comm)
{
    nccl_line *line = &group->line;
    const kith_be_host *host = group->be->host;
    const char *words = "";
    bool ignored;
    pthread_mutex_lock(&group->lock);
    nccl_task *task = line->state == LINE_READY ? nccl_task_split(line, color, key) : NULL;
    if (task != NULL) {
        line->state = LINE_ISSUING;
        line->task = nccl_task_hold(task);
    }
    pthread_mutex_unlock(&group->lock);
    kith_status status = task != NULL
                             ? wait_for_split(group, task, note, nccl_now_ns() + host->connect_timeout_ms * 1000000)
                             : fail(group, KITH_ERR_NO_RESOURCE, "no thread to split the communicator");
    if (task != NULL && (nccl_task_is_done(task) || !nccl_task_leave(task))) {
        ncclResult_t result = nccl_task_result(task, comm, &ignored, &words);
        if (result != ncclSuccess)
            *comm = NULL;
        if (result != ncclSuccess && status == KITH_OK)
            status = fail(group, nccl_status(result), words);
    }
    pthread_mutex_lock(&group->lock);
    if (line->task != NULL) { /* the line is whole */
        nccl_task_release(line->task);
        line->task = NULL;
        line->state = LINE_READY;
    }
    pthread_mutex_unlock(&group->lock);
    nccl_task_release(task);
    if (status != KITH_OK && status != KITH_ERR_PEER_FAILED)
        host->put(group->cookie, note, "", 1);
    return status;
}

/* Whether all of them have what they want. */
static kith_status agree(nccl_group *group, kith_status mine, ncclComm_t comm, nccl_split **out)
{
    nccl_be *be = group->be;
    const kith_be_host *host = be->host;
    int well = mine == KITH_OK, *all = (int *)host->alloc(host->cookie, sizeof *all * (size_t)group->size, 64);
    nccl_split *made = comm != NULL ? (nccl_split *)host->alloc(host->cookie, sizeof *made, 64) : NULL;
    kith_status status = KITH_OK;
    if (all == NULL || (comm != NULL && made == NULL))
        status = host->fail(KITH_ERR_NO_MEMORY, "backend nccl: no memory for a split");
    status = host->exchange(group->cookie, status, &well, sizeof well, all);
    for (int r = 0; status == KITH_OK && r < group->size; r++)
        well &= all[r];
    if (status == KITH_OK && !well) {
        fail(group, KITH_ERR_INTERNAL, "ncclCommSplit failed");
        host->log(host->cookie, KITH_LOG_WARN, group->line.why);
    }
    if (status == KITH_OK && well && made != NULL) {
        made->comm = comm;
        *out = made;
        made = NULL;
    } else {
        nccl_put_away(be, comm);
    }
    host->free(host->cookie, made);
    host->free(host->cookie, all);
    return status;
}

kith_status nccl_group_split(void *handle, int color, int key, void **out)
{
    nccl_group *group = (nccl_group *)handle;
    nccl_be *be = group->be;
    const kith_be_host *host = be->host;
    nccl_split *made = NULL;
    ncclComm_t comm = NULL;
    char note[64];
    int before = 0;
    *out = NULL;
    if (!be->may_split) /* the setting is the same on all */
        return KITH_OK;
    vote mine = { .version = be->nccl->version, .color = color };
    vote *votes = (vote *)host->alloc(host->cookie, sizeof *votes * (size_t)group->size, 64);
    kith_status status =
        votes != NULL ? KITH_OK : host->fail(KITH_ERR_NO_MEMORY, "backend nccl: no memory to split a group");
    snprintf(note, sizeof note, "nccl/split/%u", group->split_count++);
    ki_cuda_enter(be->cuda, be->device, &before);
    mine.can = be->nccl->ncclCommSplit != NULL && is_idle(group, nccl_now_ns() + host->connect_timeout_ms * 1000000);
    status = host->exchange(group->cookie, status, &mine, sizeof mine, votes);
    if (status == KITH_OK && all_can(votes, group->size)) {
        status = split(group, color, key, note, &comm);
        status = agree(group, status, comm, &made);
    }
    ki_cuda_leave(be->cuda, be->device, before);
    host->free(host->cookie, votes);
    *out = made;
    return status;
}

ncclComm_t nccl_split_take(const nccl_be *be, nccl_split *made)
{
    ncclComm_t comm = made != NULL ? made->comm : NULL;
    be->host->free(be->host->cookie, made);
    return comm;
}

void nccl_split_discard(void *instance, void *made)
{
    const nccl_be *be = (const nccl_be *)instance;
    nccl_put_away(be, nccl_split_take(be, (nccl_split *)made));
}
