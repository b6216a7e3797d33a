/* backends/nccl/task.c - calls of blocking communicators that may wait for other ranks; see backend.h.
 *
 * Such a call is made by a thread that ends with it, and the line asks at each progress whether it is back: so a
 * deadline or an abort finds the host awake, as with a communicator that does not block.
 *
 *   - The making of a communicator. Nothing can be done to one that is not made: a line that breaks leaves the thread,
 *     and what it makes too late is aborted there.
 *   - A split (split.c), of communicators that do not block as well: they are asked until it is over.
 *   - The first operation of a shape. NCCL connects ranks when it first needs the connections of an algorithm, and
 *     which one that is follows from the operation, its type and its size. Equal operations find what they need.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "backend.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What is issued, as a copy: a thread that does not come back from NCCL in time keeps it, while the core's slots and
 * arrays serve other operations. */
typedef struct issued {
    nccl_op *ops; /* chained as on the line */
    kith_be_coll coll;
    kith_be_reducer reducer;
    kith_be_msg *messages;
    size_t *counts; /* [4 * size] */
} issued;

struct nccl_task {
    const nccl_functions *nccl;
    const ki_cuda *cuda;
    int device;
    atomic_int references; /* the thread, the line, an ending that waits for it */
    atomic_int state;      /* TASK_... */
    atomic_bool is_called_back;
    ncclResult_t result;
    char words[300]; /* NCCL's, of a failure */
    /* making */
    ncclComm_t comm;
    ncclUniqueId id;
    int rank, size;
    ncclConfig_t config;
    char net[128];
    /* splitting: of this one, into comm */
    ncclComm_t parent;
    int color, key;
    /* issuing */
    nccl_line *line;
    issued *issued;
    bool is_last_step;
};

enum { TASK_RUNS = 0, TASK_IS_DONE, TASK_IS_LEFT };

static void free_issued(issued *copy)
{
    if (copy == NULL)
        return;
    free(copy->ops);
    free(copy->messages);
    free(copy->counts);
    free(copy);
}

static void free_task(nccl_task *task)
{
    free_issued(task->issued);
    free(task);
}

void nccl_task_release(nccl_task *task)
{
    if (task != NULL && atomic_fetch_sub(&task->references, 1) == 1)
        free_task(task);
}

nccl_task *nccl_task_hold(nccl_task *task)
{
    atomic_fetch_add(&task->references, 1);
    return task;
}

bool nccl_task_is_done(const nccl_task *task)
{
    return atomic_load(&task->state) == TASK_IS_DONE;
}

ncclResult_t nccl_task_result(const nccl_task *task, ncclComm_t *comm, bool *is_last_step, const char **words)
{
    if (task->line == NULL)
        *comm = task->comm;
    else
        *is_last_step = task->is_last_step;
    *words = task->words;
    return task->result;
}

void nccl_task_call_back(nccl_task *task, ncclComm_t comm)
{
    atomic_store(&task->is_called_back, true);
    if (task->nccl->ncclCommRevoke != NULL)
        task->nccl->ncclCommRevoke(comm, NCCL_REVOKE_DEFAULT);
    while (!nccl_task_is_done(task))
        nccl_pause();
}

/* What NCCL made although the split failed. */
void nccl_task_clear(nccl_task *task)
{
    if (task->parent != NULL && task->result != ncclSuccess && task->comm != NULL)
        task->nccl->ncclCommAbort(task->comm);
    task->comm = task->result != ncclSuccess ? NULL : task->comm;
}

bool nccl_task_leave(nccl_task *task)
{
    int runs = TASK_RUNS;
    return atomic_compare_exchange_strong(&task->state, &runs, TASK_IS_LEFT);
}

bool nccl_thread_start(void *(*run)(void *arg), void *arg)
{
    pthread_attr_t attributes;
    pthread_t thread;
    if (pthread_attr_init(&attributes) != 0)
        return false;
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    bool is_started = pthread_create(&thread, &attributes, run, arg) == 0;
    pthread_attr_destroy(&attributes);
    return is_started;
}

static void end(nccl_task *task)
{
    const nccl_be names = { .nccl = task->nccl };
    if (task->result != ncclSuccess && task->result != ncclInProgress)
        nccl_words(&names, NULL, task->result, task->words, sizeof task->words);
    bool is_left = atomic_exchange(&task->state, TASK_IS_DONE) == TASK_IS_LEFT;
    if (is_left && task->line == NULL && task->result == ncclSuccess && task->comm != NULL)
        task->nccl->ncclCommAbort(task->comm);
    nccl_task_release(task);
}

static void *make(void *arg)
{
    nccl_task *task = (nccl_task *)arg;
    (void)task->cuda->cudaSetDevice(task->device);
    task->result = task->nccl->ncclCommInitRankConfig(&task->comm, task->size, task->id, task->rank, &task->config);
    end(task);
    return NULL;
}

/* Until NCCL has answered for this communicator. */
static ncclResult_t settle(const nccl_task *task, ncclComm_t comm, ncclResult_t result)
{
    while (result == ncclInProgress) {
        if (atomic_load(&task->is_called_back))
            return ncclInternalError;
        ncclResult_t answer = task->nccl->ncclCommGetAsyncError(comm, &result);
        if (answer != ncclSuccess)
            return answer;
        if (result == ncclInProgress)
            nccl_pause();
    }
    return result;
}

static void *split(void *arg)
{
    nccl_task *task = (nccl_task *)arg;
    (void)task->cuda->cudaSetDevice(task->device);
    ncclResult_t result = task->nccl->ncclCommSplit(task->parent, task->color, task->key, &task->comm, &task->config);
    result = settle(task, task->parent, result);
    if (result == ncclSuccess && task->comm != NULL)
        result = settle(task, task->comm, task->config.blocking == 0 ? ncclInProgress : ncclSuccess);
    task->result = result;
    end(task);
    return NULL;
}

static void *issue(void *arg)
{
    nccl_task *task = (nccl_task *)arg;
    nccl_line *line = task->line;
    (void)task->cuda->cudaSetDevice(task->device);
    task->is_last_step = true;
    nccl_op *ops = task->issued->ops;
    task->result = ops->coll != NULL ? nccl_coll_issue(line, ops, &task->is_last_step) : nccl_messages_issue(line, ops);
    end(task);
    return NULL;
}

static nccl_task *new_task(const nccl_be *be)
{
    nccl_task *task = (nccl_task *)calloc(1, sizeof *task);
    if (task == NULL)
        return NULL;
    task->nccl = be->nccl;
    task->cuda = be->cuda;
    task->device = be->device;
    atomic_init(&task->references, 2);
    return task;
}

static nccl_task *start(nccl_task *task, void *(*run)(void *arg))
{
    if (nccl_thread_start(run, task))
        return task;
    free_task(task);
    return NULL;
}

static void set_config(nccl_task *task, const ncclConfig_t *config)
{
    task->config = *config;
    if (config->netName != NULL) { /* the task may outlive the settings */
        snprintf(task->net, sizeof task->net, "%s", config->netName);
        task->config.netName = task->net;
    }
}

nccl_task *nccl_task_make(const nccl_line *line, const ncclUniqueId *id, const ncclConfig_t *config)
{
    nccl_task *task = new_task(line->be);
    if (task == NULL)
        return NULL;
    task->id = *id;
    task->rank = line->rank;
    task->size = line->size;
    set_config(task, config);
    return start(task, make);
}

nccl_task *nccl_task_split(const nccl_line *line, int color, int key)
{
    const ncclConfig_t config = nccl_line_config(line);
    nccl_task *task = new_task(line->be);
    if (task == NULL)
        return NULL;
    task->parent = line->comm;
    task->color = color >= 0 ? color : NCCL_SPLIT_NOCOLOR;
    task->key = key;
    set_config(task, &config);
    return start(task, split);
}

static const size_t *copy_counts(size_t *to, const size_t *from, int size)
{
    if (from != NULL)
        memcpy(to, from, (size_t)size * sizeof *from);
    return from != NULL ? to : NULL;
}

static bool copy_coll(issued *copy, const kith_be_coll *coll, int size)
{
    copy->counts = (size_t *)calloc(4 * (size_t)size, sizeof(size_t));
    if (copy->counts == NULL)
        return false;
    copy->coll = *coll;
    copy->coll.send_counts = copy_counts(copy->counts, coll->send_counts, size);
    copy->coll.send_displs = copy_counts(copy->counts + size, coll->send_displs, size);
    copy->coll.recv_counts = copy_counts(copy->counts + 2 * (size_t)size, coll->recv_counts, size);
    copy->coll.recv_displs = copy_counts(copy->counts + 3 * (size_t)size, coll->recv_displs, size);
    if (coll->reducer != NULL) {
        copy->reducer = *coll->reducer;
        copy->coll.reducer = &copy->reducer;
    }
    copy->ops->coll = &copy->coll;
    return true;
}

static issued *copy_issued(const nccl_line *line)
{
    issued *copy = (issued *)calloc(1, sizeof *copy);
    size_t count = 0, i = 0;
    for (const nccl_op *op = line->issuing; op != NULL; op = op->next)
        count++;
    if (copy != NULL) {
        copy->ops = (nccl_op *)calloc(count, sizeof(nccl_op));
        copy->messages = (kith_be_msg *)calloc(count, sizeof(kith_be_msg));
    }
    bool is_whole = copy != NULL && copy->ops != NULL && copy->messages != NULL;
    for (const nccl_op *op = line->issuing; op != NULL && is_whole; op = op->next, i++) {
        copy->ops[i] = *op;
        copy->ops[i].next = op->next != NULL ? &copy->ops[i + 1] : NULL;
        if (op->coll != NULL)
            is_whole = copy_coll(copy, op->coll, line->size);
        else
            copy->messages[i] = *op->msg, copy->ops[i].msg = &copy->messages[i];
    }
    if (is_whole)
        return copy;
    free_issued(copy);
    return NULL;
}

nccl_task *nccl_task_issue(nccl_line *line)
{
    nccl_task *task = new_task(line->be);
    if (task == NULL)
        return NULL;
    task->line = line;
    task->issued = copy_issued(line);
    if (task->issued != NULL)
        return start(task, issue);
    free_task(task);
    return NULL;
}

/* ---- shapes ---- */

static uint64_t mix(uint64_t hash, uint64_t value)
{
    hash = (hash ^ value) * 0x9e3779b97f4a7c15u;
    return hash ^ hash >> 29;
}

static uint64_t mix_counts(uint64_t hash, const size_t *counts, int size, bool is_existence)
{
    for (int r = 0; counts != NULL && r < size; r++)
        hash = mix(hash, is_existence ? counts[r] > 0 : counts[r]);
    return hash;
}

/* Messages between two ranks need one connection, whatever their lengths. */
static bool is_of_messages(kith_coll_kind kind)
{
    return kind == KITH_GATHER || kind == KITH_GATHER_V || kind == KITH_SCATTER || kind == KITH_SCATTER_V ||
           kind == KITH_ALL_TO_ALL_V;
}

static uint64_t shape_of(const nccl_line *line, const kith_be_coll *k)
{
    bool is_sent = is_of_messages(k->kind);
    uint64_t hash = mix(mix(mix(1, (uint64_t)k->kind), (uint64_t)k->dtype), (uint64_t)(k->op + 1));
    hash = mix(mix(hash, (uint64_t)k->root), is_sent ? k->count > 0 : k->count);
    hash = mix(hash, k->send == k->recv);
    hash = mix_counts(hash, k->send_counts, line->size, is_sent);
    hash = mix_counts(hash, k->recv_counts, line->size, is_sent);
    if (line->group->memories != NULL) /* which buffers are registered may decide, too */
        hash = mix(mix(hash, (uint64_t)(uintptr_t)k->send), (uint64_t)(uintptr_t)k->recv);
    return hash | 1;
}

bool nccl_is_new_shape(nccl_line *line)
{
    const nccl_op *op = line->issuing;
    if (op->step > 0)
        return false;
    if (op->coll == NULL) {
        bool is_new = !line->has_connected;
        line->has_connected = true;
        return is_new;
    }
    uint64_t shape = shape_of(line, op->coll);
    uint64_t *place = &line->group->shapes[shape >> 8 & (NCCL_SHAPES - 1)];
    bool is_new = *place != shape; /* one that was pushed out is new again, which costs a thread */
    *place = shape;
    return is_new;
}
