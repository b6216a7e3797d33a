/* backends/mpi/coll_start.c - non-blocking native collectives, on duplicates of the caller's buffers; see backend.h.
 *
 * On device memory MPI works on the caller's buffers, except that what is sent is duplicated on the host where it is
 * also the receive buffer and MPI, or one of them, would not have it (needs_copy). A cancel waits for MPI, for a
 * while.
 *
 * start copies what this rank contributes, lets MPI work on the copies, and the test that finds it complete copies
 * the result out. The blocks of the _v operations lie one after the other in the duplicates. Cancelling lets go of
 * the caller's buffers at once; MPI's own are left with it for good (MPI has no way to end a collective), and the
 * group ends with them.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "backend.h"

#include <sched.h>
#include <string.h>
#include <time.h>

#define CANCEL_WAIT_S 2

typedef struct mpi_coll_op {
    kith_be_coll call;        /* on the duplicates */
    const kith_be_coll *user; /* the core's; valid until the end or the cancel */
    mpi_sink sink;
    int done; /* requests that are complete */
    mpi_scratch duplicates, requests, displs, arrays;
} mpi_coll_op;

static size_t sum(const size_t *counts, int size)
{
    size_t total = 0;
    for (int r = 0; counts != NULL && r < size; r++)
        total += counts[r];
    return total;
}

/* Elements that this rank gives and takes. */
static void extents(const mpi_group *g, const kith_be_coll *c, size_t *give, size_t *take)
{
    bool is_root = g->rank == c->root;
    size_t all = c->count * (size_t)g->size;
    *give = *take = c->count;
    switch (c->kind) {
    case KITH_ALL_REDUCE:
        break;
    case KITH_BROADCAST:
        *give = 0;
        break;
    case KITH_REDUCE:
        *take = is_root ? c->count : 0;
        break;
    case KITH_REDUCE_SCATTER:
        *give = all;
        break;
    case KITH_REDUCE_SCATTER_V:
        *give = sum(c->recv_counts, g->size), *take = c->recv_counts[g->rank];
        break;
    case KITH_ALL_GATHER:
        *take = all;
        break;
    case KITH_ALL_GATHER_V:
        *give = c->recv_counts[g->rank], *take = sum(c->recv_counts, g->size);
        break;
    case KITH_GATHER:
        *take = is_root ? all : 0;
        break;
    case KITH_SCATTER:
        *give = is_root ? all : 0;
        break;
    case KITH_GATHER_V:
        *take = is_root ? sum(c->recv_counts, g->size) : 0;
        break;
    case KITH_SCATTER_V:
        *give = is_root ? sum(c->send_counts, g->size) : 0;
        break;
    case KITH_ALL_TO_ALL:
        *give = *take = all;
        break;
    case KITH_ALL_TO_ALL_V:
        *give = sum(c->send_counts, g->size), *take = sum(c->recv_counts, g->size);
        break;
    case KITH_BARRIER:
        *give = *take = 0;
        break;
    }
}

static bool has_give_blocks(const mpi_group *g, const kith_be_coll *c)
{
    return c->kind == KITH_ALL_TO_ALL_V || (c->kind == KITH_SCATTER_V && g->rank == c->root);
}

static bool has_take_blocks(const mpi_group *g, const kith_be_coll *c)
{
    return c->kind == KITH_ALL_TO_ALL_V || c->kind == KITH_ALL_GATHER_V ||
           (c->kind == KITH_GATHER_V && g->rank == c->root);
}

/* packed holds the blocks one after the other; loose has them at displs. */
static void copy_blocks(unsigned char *packed, unsigned char *loose, const size_t *counts, const size_t *displs,
                        int size, size_t nbytes, bool is_packing)
{
    for (int r = 0; r < size; r++) {
        size_t length = counts[r] * nbytes;
        unsigned char *block = loose + displs[r] * nbytes;
        if (length > 0)
            memcpy(is_packing ? packed : block, is_packing ? block : packed, length);
        packed += length;
    }
}

static size_t *running_displs(size_t *out, const size_t *counts, int size)
{
    size_t total = 0;
    for (int r = 0; r < size; r++) {
        out[r] = total;
        total += counts[r];
    }
    return out;
}

static bool get_memory(mpi_group *g, mpi_coll_op *op, const kith_be_coll *c, size_t give, size_t take)
{
    size_t give_nbytes = (give * c->nbytes + 63) & ~(size_t)63;
    unsigned char *memory = (unsigned char *)mpi_scratch_get(g, &op->duplicates, give_nbytes + take * c->nbytes + 1);
    op->sink.requests = (MPI_Request *)mpi_scratch_get(g, &op->requests, mpi_coll_pieces(g, c) * sizeof(MPI_Request));
    size_t *displs = (size_t *)mpi_scratch_get(g, &op->displs, 2 * (size_t)g->size * sizeof *displs);
    op->sink.count = op->done = 0;
    if (memory == NULL || op->sink.requests == NULL || displs == NULL ||
        !mpi_arrays_get(g, &op->arrays, &op->sink.arrays))
        return false;
    op->call = *c;
    op->call.send = memory;
    op->call.recv = memory + give_nbytes;
    if (has_give_blocks(g, c))
        op->call.send_displs = running_displs(displs, c->send_counts, g->size);
    if (has_take_blocks(g, c))
        op->call.recv_displs = running_displs(displs + g->size, c->recv_counts, g->size);
    op->user = c;
    return true;
}

static bool needs_copy(const mpi_group *g, const kith_be_coll *c, size_t give)
{
    const unsigned char *first = (const unsigned char *)c->send, *out = (const unsigned char *)c->recv;
    bool is_alias = give > 0 && out != NULL && out >= first && out < first + give * c->nbytes;
    return is_alias && (c->kind == KITH_REDUCE_SCATTER || c->kind == KITH_REDUCE_SCATTER_V ||
                        c->kind == KITH_ALL_TO_ALL || (c->kind == KITH_REDUCE && g->rank == c->root));
}

/* The caller's own buffers. */
static kith_status take_device(mpi_group *g, mpi_coll_op *op, size_t give)
{
    const kith_be_host *host = g->be->host;
    const kith_be_coll *c = op->user;
    void *duplicate = (void *)(uintptr_t)op->call.send;
    bool is_copy = needs_copy(g, c, give);
    op->call.send = is_copy ? duplicate : c->send;
    op->call.recv = c->recv;
    op->call.send_displs = c->send_displs;
    op->call.recv_displs = c->recv_displs;
    return is_copy ? host->device_copy(host->cookie, duplicate, c->send, give * c->nbytes) : KITH_OK;
}

static void copy_in(mpi_group *g, mpi_coll_op *op, size_t give)
{
    const kith_be_coll *c = op->user;
    unsigned char *packed = (unsigned char *)(uintptr_t)op->call.send;
    if (c->kind == KITH_BROADCAST) {
        if (g->rank == c->root && c->count > 0)
            memcpy(op->call.recv, c->recv, c->count * c->nbytes);
    } else if (has_give_blocks(g, c)) {
        copy_blocks(packed, (unsigned char *)(uintptr_t)c->send, c->send_counts, c->send_displs, g->size, c->nbytes,
                    true);
    } else if (give > 0) {
        memcpy(packed, c->send, give * c->nbytes);
    }
}

static void copy_out(mpi_group *g, mpi_coll_op *op)
{
    const kith_be_coll *c = op->user;
    size_t give, take;
    extents(g, c, &give, &take);
    if (c->kind == KITH_BROADCAST && g->rank == c->root)
        return;
    if (has_take_blocks(g, c))
        copy_blocks((unsigned char *)op->call.recv, (unsigned char *)c->recv, c->recv_counts, c->recv_displs, g->size,
                    c->nbytes, false);
    else if (take > 0)
        memcpy(c->recv, op->call.recv, take * c->nbytes);
}

static void op_free(mpi_group *g, mpi_coll_op *op)
{
    const kith_be_host *host = g->be->host;
    void *parts[] = { op->duplicates.ptr, op->requests.ptr, op->displs.ptr, op->arrays.ptr, op };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (parts[i] != NULL)
            host->free(host->cookie, parts[i]);
}

void mpi_coll_spare_free(mpi_group *group)
{
    if (group->spare != NULL)
        op_free(group, group->spare);
    group->spare = NULL;
}

static mpi_coll_op *op_get(mpi_group *g)
{
    const kith_be_host *host = g->be->host;
    mpi_coll_op *op = g->spare;
    g->spare = NULL;
    if (op == NULL) {
        op = (mpi_coll_op *)host->alloc(host->cookie, sizeof *op, 64);
        if (op != NULL)
            memset(op, 0, sizeof *op);
    }
    return op;
}

static void op_put(mpi_group *g, mpi_coll_op *op)
{
    if (g->spare == NULL)
        g->spare = op;
    else
        op_free(g, op);
}

kith_status mpi_coll_start(void *handle, const kith_be_coll *coll, kith_be_slot *slot)
{
    mpi_group *g = (mpi_group *)handle;
    const kith_be_host *host = g->be->host;
    size_t give, take;
    mpi_coll_op *op = op_get(g);
    extents(g, coll, &give, &take);
    bool has_duplicates = !coll->is_device || needs_copy(g, coll, give);
    if (op == NULL || !get_memory(g, op, coll, has_duplicates ? give : 0, coll->is_device ? 0 : take)) {
        if (op != NULL)
            op_free(g, op);
        return host->fail(KITH_ERR_NO_MEMORY, "backend mpi: no memory for the duplicates of a non-blocking collective");
    }
    kith_status status = KITH_OK;
    if (coll->is_device)
        status = take_device(g, op, give);
    else
        copy_in(g, op, give);
    if (status != KITH_OK) {
        op_put(g, op);
        return status;
    }
    int code = mpi_coll_issue(g, &op->call, &op->sink);
    slot->words[0] = (uint64_t)(uintptr_t)op;
    if (code == MPI_SUCCESS)
        return KITH_OK;
    if (op->sink.count <= 1) /* the only call failed: nothing is with MPI */
        op_put(g, op);
    slot->words[0] = 0;
    return mpi_status(host, code, "start of a collective");
}

kith_status mpi_coll_test(void *handle, kith_be_slot *slot, int *is_done)
{
    mpi_group *g = (mpi_group *)handle;
    mpi_coll_op *op = (mpi_coll_op *)(uintptr_t)slot->words[0];
    if (atomic_load_explicit(&g->messages->is_aborted, memory_order_relaxed)) {
        mpi_coll_cancel(handle, slot);
        return g->be->host->fail(KITH_ERR_ABORTED, "group '%s' was aborted", g->messages->name);
    }
    int code = MPI_SUCCESS, is_complete = 1;
    *is_done = 0;
    g->be->has_called = true;
    while (op->done < op->sink.count && is_complete && code == MPI_SUCCESS) {
        code = MPI_Test(&op->sink.requests[op->done], &is_complete, MPI_STATUS_IGNORE);
        op->done += is_complete;
    }
    if (code != MPI_SUCCESS) {
        mpi_coll_cancel(handle, slot);
        return mpi_status(g->be->host, code, "collective");
    }
    if (op->done == op->sink.count) {
        *is_done = 1;
        if (!op->call.is_device)
            copy_out(g, op);
        op_put(g, op);
        slot->words[0] = 0;
    }
    return KITH_OK;
}

/* The caller's buffers are MPI's until it is done with them, which it may never be. */
static bool has_let_go(mpi_coll_op *op)
{
    for (time_t until = time(NULL) + CANCEL_WAIT_S; op->done < op->sink.count && time(NULL) <= until; sched_yield()) {
        int is_complete = 0;
        if (MPI_Test(&op->sink.requests[op->done], &is_complete, MPI_STATUS_IGNORE) != MPI_SUCCESS)
            return false;
        op->done += is_complete;
    }
    return op->done == op->sink.count;
}

/* MPI keeps the duplicates: they are never freed. */
void mpi_coll_cancel(void *handle, kith_be_slot *slot)
{
    mpi_group *g = (mpi_group *)handle;
    mpi_coll_op *op = (mpi_coll_op *)(uintptr_t)slot->words[0];
    if (op == NULL)
        return;
    if (op->call.is_device && has_let_go(op)) {
        op_put(g, op);
        slot->words[0] = 0;
        return;
    }
    slot->words[0] = 0;
    g->is_comm_lost = true;
    g->be->host->log(g->be->host->cookie, KITH_LOG_WARN,
                     op->call.is_device
                         ? "mpi: a native collective was cancelled; MPI may still use its buffers of the device"
                         : "mpi: a native collective was cancelled; its duplicates and its communicator stay with MPI");
}
