/* tests/simgpu/nccl/launch.c - from calls to operations of streams.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define GROUP_COMMS 64

/* What this thread called since ncclGroupStart(), for each communicator. */
static _Thread_local struct {
    int depth, count, aborted_count;
    ncclResult_t error;
    ncclComm_t aborted[GROUP_COMMS];
    struct {
        ncclComm_t comm;
        sim_task *first, *last;
    } lists[GROUP_COMMS];
} group;

void sim_tasks_free(sim_task *tasks)
{
    while (tasks != NULL) {
        sim_task *next = tasks->next;
        free(tasks);
        tasks = next;
    }
}

/* ---- launching ---- */

static bool is_message(const sim_task *task)
{
    return task->kind == SIM_SEND || task->kind == SIM_RECV;
}

static uint64_t shape_of(const sim_task *t)
{
    const uint64_t facts[] = { t->kind, t->type, t->op.base, t->count };
    uint64_t hash = 1;
    for (size_t i = 0; i < sizeof facts / sizeof *facts; i++)
        hash = (hash ^ facts[i]) * 0x9e3779b97f4a7c15u, hash ^= hash >> 29;
    return hash | 1;
}

/* NCCL connects ranks when it first needs them for an algorithm, which a collective's size and type choose. */
static int connections_for(ncclComm_t comm, const sim_task *tasks)
{
    int needed = 1;
    for (const sim_task *t = tasks; t != NULL; t = t->next) {
        uint64_t shape = shape_of(t);
        int i = 0;
        if (is_message(t))
            continue;
        while (i < comm->shape_count && comm->shapes[i] != shape)
            i++;
        if (i == SIM_SHAPES)
            sim_fail("more than %d sorts of collectives on one communicator", SIM_SHAPES);
        if (i == comm->shape_count)
            comm->shapes[comm->shape_count++] = shape;
        needed = needed > i + 2 ? needed : i + 2;
    }
    return needed;
}

/* A collective needs all ranks to have come so far, a message the peer. */
static bool is_connected(ncclComm_t comm, const sim_launch *launch)
{
    const sim_seat *seats = comm->board->seats;
    for (const sim_task *t = launch->tasks; t != NULL; t = t->next) {
        if (is_message(t) && atomic_load(&seats[t->root].connected) == 0)
            return false;
        for (int r = 0; !is_message(t) && r < comm->size; r++)
            if (atomic_load(&seats[r].connected) < launch->connections)
                return false;
    }
    return true;
}

void sim_comm_submit_waiting(ncclComm_t comm)
{
    while (comm->waiting != NULL && is_connected(comm, comm->waiting)) {
        sim_launch *launch = comm->waiting;
        comm->waiting = launch->next;
        const char *what = sim_kind_name(launch->tasks->kind);
        sim_stream_submit(launch->stream, what, sim_launch_run, launch);
    }
}

void sim_comm_drop_waiting(ncclComm_t comm)
{
    while (comm->waiting != NULL) {
        sim_launch *launch = comm->waiting;
        comm->waiting = launch->next;
        sim_tasks_free(launch->tasks);
        free(launch);
        atomic_fetch_sub(&comm->references, 1);
    }
}

static _Thread_local int launches_here;

/* For tests: how many launches this thread has made. */
SIM_API int sim_nccl_launches_here(void);

SIM_API int sim_nccl_launches_here(void)
{
    return launches_here;
}

static ncclResult_t wait_inside(ncclComm_t comm)
{
    atomic_fetch_add(&comm->inside, 1);
    while (comm->waiting != NULL && !atomic_load(&comm->is_aborted)) {
        sim_comm_submit_waiting(comm);
        if (comm->waiting != NULL)
            usleep(100);
    }
    bool is_ended = comm->waiting != NULL;
    sim_comm_drop_waiting(comm);
    atomic_fetch_sub(&comm->inside, 1);
    return is_ended ? ncclInternalError : ncclSuccess;
}

ncclResult_t sim_comm_launch(ncclComm_t comm, sim_task *tasks)
{
    char fault[32];
    snprintf(fault, sizeof fault, "nccl_async:%d", comm->rank);
    sim_launch *launch = (sim_launch *)calloc(1, sizeof *launch);
    if (launch == NULL)
        abort();
    launches_here++;
    launch->comm = comm;
    launch->tasks = tasks;
    launch->stream = tasks->stream;
    launch->number = comm->launched++;
    launch->connections = connections_for(comm, tasks);
    if (sim_fault(fault)) {
        launch->is_stuck = true;
        atomic_store(&comm->error, (int)sim_comm_error(comm, ncclRemoteError, "injected: a peer's connection closed"));
    }
    atomic_fetch_add(&comm->references, 1);
    atomic_int *connected = &comm->board->seats[comm->rank].connected;
    if (atomic_load(connected) < launch->connections)
        atomic_store(connected, launch->connections);
    comm->waiting = launch;
    comm->questions = sim_questions();
    return comm->is_blocking ? wait_inside(comm) : ncclInProgress;
}

/* ---- groups ---- */

bool sim_group_keeps(ncclComm_t aborted)
{
    if (group.depth == 0)
        return false;
    if (SIM_NCCL_VERSION < 22200) {
        sim_fail("ncclCommAbort: NCCL before 2.22 does not abort in a group of calls");
        return false;
    }
    if (group.aborted_count == GROUP_COMMS)
        sim_fail("more than %d aborts in one group of calls", GROUP_COMMS);
    group.aborted[group.aborted_count++] = aborted;
    return true;
}

SIM_API ncclResult_t ncclGroupStart(void)
{
    if (group.depth++ == 0) {
        group.count = group.aborted_count = 0;
        group.error = ncclSuccess;
    }
    return ncclSuccess;
}

SIM_API ncclResult_t ncclGroupEnd(void)
{
    if (group.depth == 0) {
        sim_fail("ncclGroupEnd without ncclGroupStart");
        return ncclInvalidUsage;
    }
    if (--group.depth > 0)
        return ncclSuccess;
    ncclResult_t result = group.error;
    for (int i = 0; i < group.count; i++) {
        if (group.error != ncclSuccess) {
            sim_tasks_free(group.lists[i].first);
            continue;
        }
        ncclResult_t answer = sim_comm_launch(group.lists[i].comm, group.lists[i].first);
        result = answer != ncclSuccess ? answer : result;
    }
    for (int i = 0; i < group.aborted_count; i++)
        sim_comm_free(group.aborted[i]);
    return result;
}

static ncclResult_t add(ncclComm_t comm, const sim_task *task)
{
    sim_task *copy = (sim_task *)malloc(sizeof *copy);
    if (copy == NULL)
        abort();
    *copy = *task;
    copy->next = NULL;
    int i = 0;
    while (i < group.count && group.lists[i].comm != comm)
        i++;
    if (i == GROUP_COMMS)
        sim_fail("more than %d communicators in one group of calls", GROUP_COMMS);
    if (i == group.count) {
        group.lists[group.count].comm = comm;
        group.lists[group.count++].first = group.lists[i].last = copy;
        return ncclSuccess;
    }
    if (group.lists[i].first->stream != copy->stream)
        sim_fail("%s on rank %d: one group of calls uses two streams of one communicator", sim_kind_name(task->kind),
                 comm->rank);
    group.lists[i].last = group.lists[i].last->next = copy;
    return ncclSuccess;
}

/* ---- the calls ---- */

typedef struct span {
    const unsigned char *from;
    size_t nbytes;
} span;

static span sent(ncclComm_t comm, const sim_task *t)
{
    size_t nbytes = t->count * sim_type_nbytes(t->type), all = nbytes * (size_t)comm->size;
    bool is_root = comm->rank == t->root;
    span s = { (const unsigned char *)t->send, nbytes };
    if (t->kind == SIM_REDUCE_SCATTER || t->kind == SIM_ALL_TO_ALL)
        s.nbytes = all;
    else if (t->kind == SIM_SCATTER)
        s.nbytes = is_root ? all : 0;
    else if (t->kind == SIM_RECV || (t->kind == SIM_BROADCAST && !is_root))
        s.nbytes = 0;
    return s;
}

static span received(ncclComm_t comm, const sim_task *t)
{
    size_t nbytes = t->count * sim_type_nbytes(t->type), all = nbytes * (size_t)comm->size;
    bool is_root = comm->rank == t->root;
    span s = { (const unsigned char *)t->recv, nbytes };
    if (t->kind == SIM_ALL_GATHER || t->kind == SIM_ALL_TO_ALL)
        s.nbytes = all;
    else if (t->kind == SIM_GATHER)
        s.nbytes = is_root ? all : 0;
    else if (t->kind == SIM_SEND || (t->kind == SIM_REDUCE && !is_root))
        s.nbytes = 0;
    return s;
}

/* Where NCCL allows the two buffers to be one. */
static bool is_in_place(ncclComm_t comm, const sim_task *t)
{
    size_t own = t->count * sim_type_nbytes(t->type) * (size_t)comm->rank;
    const unsigned char *send = (const unsigned char *)t->send, *recv = (const unsigned char *)t->recv;
    switch (t->kind) {
    case SIM_ALL_REDUCE:
    case SIM_REDUCE:
    case SIM_BROADCAST:
        return send == recv;
    case SIM_ALL_GATHER:
    case SIM_GATHER:
        return send == recv + own;
    case SIM_REDUCE_SCATTER:
    case SIM_SCATTER:
        return recv == send + own;
    default:
        return false;
    }
}

static void check_buffers(ncclComm_t comm, const sim_task *t)
{
    span s = sent(comm, t), r = received(comm, t);
    if ((s.nbytes > 0 && s.from == NULL) || (r.nbytes > 0 && r.from == NULL))
        sim_fail("%s on rank %d: a buffer is NULL", sim_kind_name(t->kind), comm->rank);
    bool is_overlap = s.nbytes > 0 && r.nbytes > 0 && s.from < r.from + r.nbytes && r.from < s.from + s.nbytes;
    if (is_overlap && !is_in_place(comm, t))
        sim_fail("%s on rank %d: the buffers overlap, and it is not NCCL's in-place form", sim_kind_name(t->kind),
                 comm->rank);
}

static ncclResult_t check(ncclComm_t comm, const sim_task *t)
{
    int device = sim_stream_device(t->stream);
    if (device != comm->device)
        sim_fail("%s on rank %d: the stream belongs to device %d, the communicator to device %d",
                 sim_kind_name(t->kind), comm->rank, device, comm->device);
    if (sim_type_nbytes(t->type) == 0 || (SIM_NCCL_VERSION < 22400 && t->type >= ncclFloat8e4m3))
        return sim_comm_error(comm, ncclInvalidArgument, "%s: %d is no type", sim_kind_name(t->kind), (int)t->type);
    if (t->root < 0 || t->root >= comm->size)
        return sim_comm_error(comm, ncclInvalidArgument, "%s: %d is no rank", sim_kind_name(t->kind), t->root);
    check_buffers(comm, t);
    return ncclSuccess;
}

static ncclResult_t call(ncclComm_t comm, sim_task task)
{
    if (!sim_comm_is_usable(comm, sim_kind_name(task.kind)))
        return ncclInvalidUsage;
    if (atomic_load(&comm->is_revoked))
        return sim_comm_error(comm, ncclInvalidUsage, "%s: the communicator was revoked", sim_kind_name(task.kind));
    ncclGroupStart();
    ncclResult_t result = check(comm, &task);
    if (result == ncclSuccess)
        result = add(comm, &task);
    if (result != ncclSuccess)
        group.error = result;
    ncclResult_t end = ncclGroupEnd();
    return result != ncclSuccess ? result : end;
}

/* The operator, with its scalar as it is now. */
static ncclResult_t find_op(ncclComm_t comm, ncclRedOp_t op, ncclDataType_t type, sim_op *out)
{
    int index = (int)op - (int)ncclNumOps;
    *out = (sim_op){ .base = op };
    if (index < 0)
        return ncclSuccess;
    if (!sim_handle_is_live(SIM_KIND, comm) || index >= SIM_REDOPS || !comm->redops[index].is_used ||
        comm->redops[index].type != type) {
        sim_fail("NCCL: operator %d was not made for this communicator and type, or was destroyed", (int)op);
        return ncclInvalidArgument;
    }
    *out = comm->redops[index].op;
    return ncclSuccess;
}

SIM_API ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t *op, void *scalar, ncclDataType_t type,
                                              ncclScalarResidence_t residence, ncclComm_t comm)
{
    if (!sim_comm_is_usable(comm, "ncclRedOpCreatePreMulSum"))
        return ncclInvalidUsage;
    if (sim_type_nbytes(type) == 0 || residence != ncclScalarHostImmediate)
        return sim_comm_error(comm, ncclInvalidArgument, "ncclRedOpCreatePreMulSum: a type or a residence");
    for (int i = 0; i < SIM_REDOPS; i++) {
        sim_redop *r = &comm->redops[i];
        if (r->is_used)
            continue;
        *r = (sim_redop){ .is_used = true, .type = type, .op = { .base = ncclNumOps } };
        if (sim_type_is_float(type))
            r->op.scalar = sim_number(type, scalar);
        else
            r->op.int_scalar = sim_integer(type, scalar);
        *op = (ncclRedOp_t)((int)ncclNumOps + i);
        return ncclSuccess;
    }
    return sim_comm_error(comm, ncclInternalError, "more than %d operators", SIM_REDOPS);
}

SIM_API ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm)
{
    int index = (int)op - (int)ncclNumOps;
    if (!sim_handle_is_live(SIM_KIND, comm) || index < 0 || index >= SIM_REDOPS || !comm->redops[index].is_used) {
        sim_fail("ncclRedOpDestroy: operator %d was not made, or was destroyed", (int)op);
        return ncclInvalidArgument;
    }
    comm->redops[index].is_used = false;
    return ncclSuccess;
}

#define REDUCTION(kind_, root_)                                                                                        \
    sim_task task = {                                                                                                  \
        .kind = kind_, .send = send, .recv = recv, .count = count, .type = type, .root = root_, .stream = stream       \
    };                                                                                                                 \
    ncclResult_t found = find_op(comm, op, type, &task.op);                                                            \
    return found == ncclSuccess ? call(comm, task) : found

SIM_API ncclResult_t ncclAllReduce(const void *send, void *recv, size_t count, ncclDataType_t type, ncclRedOp_t op,
                                   ncclComm_t comm, cudaStream_t stream)
{
    REDUCTION(SIM_ALL_REDUCE, 0);
}

SIM_API ncclResult_t ncclReduce(const void *send, void *recv, size_t count, ncclDataType_t type, ncclRedOp_t op,
                                int root, ncclComm_t comm, cudaStream_t stream)
{
    REDUCTION(SIM_REDUCE, root);
}

SIM_API ncclResult_t ncclReduceScatter(const void *send, void *recv, size_t count, ncclDataType_t type, ncclRedOp_t op,
                                       ncclComm_t comm, cudaStream_t stream)
{
    REDUCTION(SIM_REDUCE_SCATTER, 0);
}

#define MOVE(kind_, send_, recv_, root_)                                                                               \
    return call(comm, (sim_task){ .kind = kind_,                                                                       \
                                  .send = send_,                                                                       \
                                  .recv = recv_,                                                                       \
                                  .count = count,                                                                      \
                                  .type = type,                                                                        \
                                  .root = root_,                                                                       \
                                  .stream = stream })

SIM_API ncclResult_t ncclBroadcast(const void *send, void *recv, size_t count, ncclDataType_t type, int root,
                                   ncclComm_t comm, cudaStream_t stream)
{
    MOVE(SIM_BROADCAST, send, recv, root);
}

SIM_API ncclResult_t ncclAllGather(const void *send, void *recv, size_t count, ncclDataType_t type, ncclComm_t comm,
                                   cudaStream_t stream)
{
    MOVE(SIM_ALL_GATHER, send, recv, 0);
}

#if SIM_NCCL_VERSION >= 22803
SIM_API ncclResult_t ncclAlltoAll(const void *send, void *recv, size_t count, ncclDataType_t type, ncclComm_t comm,
                                  cudaStream_t stream)
{
    MOVE(SIM_ALL_TO_ALL, send, recv, 0);
}

SIM_API ncclResult_t ncclGather(const void *send, void *recv, size_t count, ncclDataType_t type, int root,
                                ncclComm_t comm, cudaStream_t stream)
{
    MOVE(SIM_GATHER, send, recv, root);
}

SIM_API ncclResult_t ncclScatter(const void *send, void *recv, size_t count, ncclDataType_t type, int root,
                                 ncclComm_t comm, cudaStream_t stream)
{
    MOVE(SIM_SCATTER, send, recv, root);
}
#endif

SIM_API ncclResult_t ncclSend(const void *send, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                              cudaStream_t stream)
{
    MOVE(SIM_SEND, send, NULL, peer);
}

SIM_API ncclResult_t ncclRecv(void *recv, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                              cudaStream_t stream)
{
    MOVE(SIM_RECV, NULL, recv, peer);
}
