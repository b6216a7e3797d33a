/* tests/simgpu/nccl/run.c - what a stream's thread does for a launch; see board.h for the protocol.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "sim.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SPINS 40

/* ---- waiting ---- */

static int second_time(void *arg)
{
    int *times = (int *)arg;
    return (*times)++ > 0;
}

static bool is_exiting(void)
{
    int times = 0;
    return sim_wait_until(second_time, &times) != 0;
}

bool sim_comm_wait(ncclComm_t comm, bool (*is_done)(void *arg), void *arg)
{
    for (unsigned turn = 0;; turn++) {
        unsigned heard = atomic_load(&comm->board->seats[comm->rank].bell);
        if (atomic_load(&comm->is_aborted))
            return false;
        if (is_done(arg))
            return true;
        if (turn < SPINS) {
            sched_yield();
            continue;
        }
        sim_board_sleep(comm->board, comm->rank, heard);
        if (turn % 64 == 0 && is_exiting())
            return false;
    }
}

/* ---- collectives ---- */

typedef struct collective {
    ncclComm_t comm;
    const sim_task *task;
    uint64_t number; /* of the call, or of the piece */
    const unsigned char *send;
    unsigned char *recv;
    size_t element, piece; /* bytes of one; elements of a block in a piece */
} collective;

static sim_call *call_of(const collective *c, int rank)
{
    return &c->comm->board->seats[rank].calls[c->number % 2];
}

static bool all_called(void *arg)
{
    const collective *c = (const collective *)arg;
    for (int r = 0; r < c->comm->size; r++)
        if (atomic_load(&call_of(c, r)->number) < c->number)
            return false;
    return true;
}

static void describe(const sim_call *call, char *text, size_t nbytes)
{
    const sim_op op = { .base = (ncclRedOp_t)call->op };
    snprintf(text, nbytes, "%s(%llu of %s, %s, root %d)", sim_kind_name((sim_kind)call->kind),
             (unsigned long long)call->count, sim_type_name((ncclDataType_t)call->type), sim_op_name(&op), call->root);
}

static bool is_equal(const sim_call *a, const sim_call *b)
{
    return a->kind == b->kind && a->type == b->type && a->op == b->op && a->root == b->root && a->count == b->count &&
           memcmp(&a->scalar, &b->scalar, sizeof a->scalar) == 0;
}

/* Every rank makes the same call. */
static bool meet(collective *c)
{
    ncclComm_t comm = c->comm;
    const sim_task *t = c->task;
    c->number = ++comm->collectives;
    sim_call *mine = call_of(c, comm->rank);
    mine->kind = (int)t->kind;
    mine->type = (int)t->type;
    mine->op = (int)t->op.base;
    mine->root = t->root;
    mine->count = t->count;
    mine->scalar = t->op.scalar + (double)t->op.int_scalar;
    atomic_store(&mine->number, c->number);
    sim_board_ring_all(comm->board, comm->size);
    if (!sim_comm_wait(comm, all_called, c))
        return false;
    for (int r = 0; r < comm->size; r++) {
        if (is_equal(mine, call_of(c, r)))
            continue;
        char here[160], there[160];
        describe(mine, here, sizeof here);
        describe(call_of(c, r), there, sizeof there);
        sim_fail("NCCL: rank %d calls %s where rank %d calls %s", comm->rank, here, r, there);
        return false;
    }
    return true;
}

static bool all_drained(void *arg)
{
    const collective *c = (const collective *)arg;
    for (int r = 0; r < c->comm->size; r++)
        if (atomic_load(&c->comm->board->seats[r].drained) + 2 < c->number)
            return false;
    return true;
}

static bool all_filled(void *arg)
{
    const collective *c = (const collective *)arg;
    for (int r = 0; r < c->comm->size; r++)
        if (atomic_load(&c->comm->board->seats[r].filled) < c->number)
            return false;
    return true;
}

static size_t blocks_of(const collective *c)
{
    sim_kind kind = c->task->kind;
    bool is_split = kind == SIM_REDUCE_SCATTER || kind == SIM_ALL_TO_ALL || kind == SIM_SCATTER;
    return is_split ? (size_t)c->comm->size : 1;
}

static bool gives(const collective *c)
{
    bool is_from_root = c->task->kind == SIM_BROADCAST || c->task->kind == SIM_SCATTER;
    return !is_from_root || c->comm->rank == c->task->root;
}

static bool takes(const collective *c)
{
    bool is_to_root = c->task->kind == SIM_REDUCE || c->task->kind == SIM_GATHER;
    return !is_to_root || c->comm->rank == c->task->root;
}

static unsigned char *cell_of(const collective *c, int rank)
{
    return c->comm->board->cells[rank][(c->number - 1) % 2];
}

static void fill(const collective *c, size_t at, size_t count)
{
    for (size_t b = 0; gives(c) && b < blocks_of(c); b++)
        memcpy(cell_of(c, c->comm->rank) + b * c->piece * c->element, c->send + (b * c->task->count + at) * c->element,
               count * c->element);
}

static void take(const collective *c, size_t at, size_t count)
{
    ncclComm_t comm = c->comm;
    const sim_task *t = c->task;
    size_t own = blocks_of(c) > 1 ? (size_t)comm->rank * c->piece * c->element : 0;
    const void *from[SIM_RANKS];
    for (int r = 0; r < comm->size; r++)
        from[r] = cell_of(c, r) + own;
    unsigned char *to = c->recv + at * c->element;
    int last = t->kind == SIM_REDUCE_SCATTER ? comm->rank
               : t->kind == SIM_REDUCE       ? t->root
                                             : (int)(at * (size_t)comm->size / t->count);
    if (t->kind == SIM_ALL_REDUCE || t->kind == SIM_REDUCE || t->kind == SIM_REDUCE_SCATTER)
        sim_reduce(&t->op, t->type, from, comm->size, last, to, count);
    else if (t->kind == SIM_BROADCAST || t->kind == SIM_SCATTER)
        memcpy(to, from[t->root], count * c->element);
    else /* a block of each rank */
        for (int r = 0; r < comm->size; r++)
            memcpy(to + (size_t)r * t->count * c->element, from[r], count * c->element);
}

static bool run_piece(collective *c, size_t at, size_t count)
{
    sim_board *board = c->comm->board;
    sim_seat *seat = &board->seats[c->comm->rank];
    c->number = ++c->comm->pieces;
    if (!sim_comm_wait(c->comm, all_drained, c))
        return false;
    fill(c, at, count);
    atomic_store(&seat->filled, c->number);
    sim_board_ring_all(board, c->comm->size);
    if (!sim_comm_wait(c->comm, all_filled, c))
        return false;
    if (takes(c))
        take(c, at, count);
    atomic_store(&seat->drained, c->number);
    sim_board_ring_all(board, c->comm->size);
    return true;
}

static bool run_collective(ncclComm_t comm, const sim_task *t)
{
    collective c = { .comm = comm, .task = t, .element = sim_type_nbytes(t->type) };
    size_t nbytes = t->count * c.element, all = nbytes * (size_t)comm->size;
    if (!meet(&c))
        return false;
    if (t->count == 0)
        return true;
    c.piece = SIM_CELL_NBYTES / c.element / blocks_of(&c);
    if (gives(&c))
        c.send = (const unsigned char *)sim_access(t->send, blocks_of(&c) > 1 ? all : nbytes, SIM_READ);
    bool is_all = t->kind == SIM_ALL_GATHER || t->kind == SIM_ALL_TO_ALL || t->kind == SIM_GATHER;
    if (takes(&c))
        c.recv = (unsigned char *)sim_access(t->recv, is_all ? all : nbytes, SIM_WRITE);
    if ((gives(&c) && c.send == NULL) || (takes(&c) && c.recv == NULL))
        return false;
    for (size_t at = 0; at < t->count; at += c.piece)
        if (!run_piece(&c, at, t->count - at < c.piece ? t->count - at : c.piece))
            return false;
    return true;
}

/* ---- messages ---- */

typedef struct transfer {
    const sim_task *task;
    sim_ring *ring;
    unsigned char *bytes;
    size_t nbytes, moved;
    uint64_t end; /* where a send ends in the ring */
    bool has_begun, is_done, is_send;
} transfer;

typedef struct exchange {
    ncclComm_t comm;
    transfer *transfers;
    size_t count, left;
    bool is_broken;
} exchange;

static void ring_copy(sim_ring *ring, uint64_t at, unsigned char *bytes, size_t nbytes, bool is_in)
{
    while (nbytes > 0) {
        size_t offset = at % SIM_RING_NBYTES,
               run = SIM_RING_NBYTES - offset < nbytes ? SIM_RING_NBYTES - offset : nbytes;
        if (is_in)
            memcpy(ring->bytes + offset, bytes, run);
        else
            memcpy(bytes, ring->bytes + offset, run);
        at += run, bytes += run, nbytes -= run;
    }
}

static bool push(transfer *t)
{
    uint64_t written = atomic_load(&t->ring->written), read = atomic_load(&t->ring->read);
    size_t room = SIM_RING_NBYTES - (size_t)(written - read);
    bool has_moved = false;
    if (!t->has_begun && room >= sizeof(uint64_t)) {
        uint64_t length = t->nbytes;
        ring_copy(t->ring, written, (unsigned char *)&length, sizeof length, true);
        written += sizeof length, room -= sizeof length;
        t->has_begun = has_moved = true;
        t->end = written + t->nbytes;
    }
    size_t part = t->nbytes - t->moved < room ? t->nbytes - t->moved : room;
    if (t->has_begun && part > 0) {
        ring_copy(t->ring, written, t->bytes + t->moved, part, true);
        t->moved += part, written += part;
        has_moved = true;
    }
    atomic_store(&t->ring->written, written);
    t->is_done = t->has_begun && t->moved == t->nbytes && read >= t->end;
    return has_moved || t->is_done;
}

static bool pull(exchange *x, transfer *t)
{
    uint64_t written = atomic_load(&t->ring->written), read = atomic_load(&t->ring->read);
    bool has_moved = false;
    if (!t->has_begun && written - read >= sizeof(uint64_t)) {
        uint64_t length = 0;
        ring_copy(t->ring, read, (unsigned char *)&length, sizeof length, false);
        read += sizeof length;
        t->has_begun = has_moved = true;
        if (length != t->nbytes) {
            sim_fail("NCCL: rank %d sends %llu bytes to rank %d, which receives %zu", t->task->root,
                     (unsigned long long)length, x->comm->rank, t->nbytes);
            x->is_broken = true;
            return true;
        }
    }
    size_t there = (size_t)(written - read), part = t->nbytes - t->moved < there ? t->nbytes - t->moved : there;
    if (t->has_begun && part > 0) {
        ring_copy(t->ring, read, t->bytes + t->moved, part, false);
        t->moved += part, read += part;
        has_moved = true;
    }
    atomic_store(&t->ring->read, read);
    t->is_done = t->has_begun && t->moved == t->nbytes;
    return has_moved || t->is_done;
}

/* Messages of one pair and direction go one after the other. */
static bool is_first(const exchange *x, size_t i)
{
    for (size_t k = 0; k < i; k++)
        if (!x->transfers[k].is_done && x->transfers[k].ring == x->transfers[i].ring &&
            x->transfers[k].is_send == x->transfers[i].is_send)
            return false;
    return true;
}

static bool move_on(void *arg)
{
    exchange *x = (exchange *)arg;
    for (bool has_moved = true; has_moved && x->left > 0 && !x->is_broken;) {
        has_moved = false;
        for (size_t i = 0; i < x->count && !x->is_broken; i++) {
            transfer *t = &x->transfers[i];
            if (t->is_done || !is_first(x, i) || !(t->is_send ? push(t) : pull(x, t)))
                continue;
            has_moved = true;
            x->left -= t->is_done;
            sim_board_ring(x->comm->board, t->task->root);
        }
    }
    return x->left == 0 || x->is_broken;
}

static bool run_messages(ncclComm_t comm, const sim_task *tasks)
{
    exchange x = { .comm = comm };
    for (const sim_task *t = tasks; t != NULL; t = t->next)
        x.count += t->kind == SIM_SEND || t->kind == SIM_RECV;
    if (x.count == 0)
        return true;
    x.transfers = (transfer *)calloc(x.count, sizeof *x.transfers);
    if (x.transfers == NULL)
        abort();
    for (const sim_task *t = tasks; t != NULL; t = t->next) {
        if (t->kind != SIM_SEND && t->kind != SIM_RECV)
            continue;
        transfer *made = &x.transfers[x.left++];
        bool is_send = t->kind == SIM_SEND;
        made->task = t;
        made->is_send = is_send;
        made->ring = is_send ? &comm->board->rings[comm->rank][t->root] : &comm->board->rings[t->root][comm->rank];
        made->nbytes = t->count * sim_type_nbytes(t->type);
        made->bytes =
            (unsigned char *)sim_access(is_send ? t->send : t->recv, made->nbytes, is_send ? SIM_READ : SIM_WRITE);
        x.is_broken |= made->nbytes > 0 && made->bytes == NULL;
    }
    bool is_complete = !x.is_broken && sim_comm_wait(comm, move_on, &x) && !x.is_broken;
    free(x.transfers);
    return is_complete;
}

/* ---- the launch ---- */

static bool is_turn(void *arg)
{
    const sim_launch *launch = (const sim_launch *)arg;
    return atomic_load(&launch->comm->done) == launch->number;
}

/* KITH_SIMGPU_NCCL_KERNELS: how many kernels of NCCL a device has room for. One that waits for room cannot leave, also
 * when it was told to: it is not there yet. */
#define DEVICES 64
static atomic_int kernels[DEVICES];

static int room(void)
{
    const char *text = getenv("KITH_SIMGPU_NCCL_KERNELS");
    return text != NULL ? atoi(text) : 0;
}

static int take_room(void *arg)
{
    atomic_int *count = (atomic_int *)arg;
    int now = atomic_load(count);
    return now < room() && atomic_compare_exchange_strong(count, &now, now + 1);
}

static bool never(void *arg)
{
    (void)arg;
    return false;
}

void sim_launch_run(void *arg)
{
    sim_launch *launch = (sim_launch *)arg;
    ncclComm_t comm = launch->comm;
    atomic_int *count = &kernels[comm->device % DEVICES];
    bool has_room = room() == 0 || sim_wait_until(take_room, count) == 0;
    bool is_well = has_room && sim_comm_wait(comm, is_turn, launch);
    if (is_well && launch->is_stuck)
        is_well = sim_comm_wait(comm, never, NULL);
    for (const sim_task *t = launch->tasks; is_well && t != NULL; t = t->next)
        if (t->kind != SIM_SEND && t->kind != SIM_RECV)
            is_well = run_collective(comm, t);
    if (is_well)
        run_messages(comm, launch->tasks);
    if (has_room && room() > 0)
        atomic_fetch_sub(count, 1);
    atomic_fetch_add(&comm->done, 1);
    sim_board_ring(comm->board, comm->rank);
    sim_tasks_free(launch->tasks);
    sim_comm_release(comm); /* the launch itself is freed by the engine */
}
