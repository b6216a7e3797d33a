/* backends/mpi/coll.c - collectives as MPI calls, blocking or not; see backend.h.
 *
 * In place: MPI_IN_PLACE where each rank may decide it for itself (all_reduce, all_gather: the implementations copy
 * the own contribution and go on alike; the roots of reduce, gather and scatter: by the standard). For all_to_all and
 * reduce_scatter MPI wants it on all ranks or on none and kith does not, so a copy is made there.
 *
 * Large counts: MPI's are int (the _c calls of MPI 4 are used where counts are not known everywhere). Above
 * slice_nbytes an element-wise operation becomes several over slices; one over equal blocks gets a type of a whole
 * block; reduce_scatter becomes a reduce to each rank, all_gather_v a broadcast from each. All ranks decide alike:
 * they know the same counts.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "backend.h"

#include <limits.h>
#include <string.h>

/* One MPI call in its blocking or non-blocking form. */
#define CALL(blocking, starting, sink, ...)                                                                            \
    ((sink) == NULL ? blocking(__VA_ARGS__) : starting(__VA_ARGS__, &(sink)->requests[(sink)->count++]))

void *mpi_scratch_get(mpi_group *group, mpi_scratch *scratch, size_t nbytes)
{
    const kith_be_host *host = group->be->host;
    if (scratch->nbytes < nbytes) {
        if (scratch->ptr != NULL)
            host->free(host->cookie, scratch->ptr);
        scratch->ptr = host->alloc(host->cookie, nbytes, 64);
        scratch->nbytes = scratch->ptr != NULL ? nbytes : 0;
    }
    return scratch->ptr;
}

bool mpi_arrays_get(mpi_group *group, mpi_scratch *memory, mpi_arrays *arrays)
{
    size_t size = (size_t)group->size;
    unsigned char *at = (unsigned char *)mpi_scratch_get(group, memory, size * 2 * 3 * sizeof(int64_t));
    if (at == NULL)
        return false;
    arrays->ints = (int *)(void *)at;
#if MPI_VERSION >= 4
    _Static_assert(sizeof(MPI_Count) <= sizeof(int64_t) && sizeof(MPI_Aint) <= sizeof(int64_t),
                   "room for MPI's integers");
    arrays->counts = (MPI_Count *)(void *)(at + size * 2 * sizeof(int64_t));
    arrays->displs = (MPI_Aint *)(void *)(at + size * 4 * sizeof(int64_t));
#endif
    return true;
}

static mpi_arrays *arrays_of(mpi_group *group, mpi_sink *sink)
{
    return sink != NULL ? &sink->arrays : &group->arrays;
}

static const void *at(const void *base, size_t offset)
{
    return (const unsigned char *)base + offset;
}

static void *at_rw(void *base, size_t offset)
{
    return (unsigned char *)base + offset;
}

static size_t sum(const size_t *counts, int size)
{
    size_t total = 0;
    for (int r = 0; r < size; r++)
        total += counts[r];
    return total;
}

/* Elements of a slice. */
static size_t slice_of(const mpi_group *group, const kith_be_coll *c)
{
    size_t count = group->be->slice_nbytes / c->nbytes;
    return count > 0 ? count : 1;
}

static size_t slices(size_t count, size_t slice)
{
    return count > slice ? (count + slice - 1) / slice : 1;
}

static bool is_large(const mpi_group *group, const kith_be_coll *c, size_t count)
{
    return count > 1 && count * c->nbytes > group->be->slice_nbytes; /* count > slice_of(), without a division */
}

/* ---- slices ---- */

static int all_reduce(mpi_group *g, const kith_be_coll *c, mpi_sink *sink)
{
    MPI_Datatype type = mpi_type_reduce(c->dtype, c->op);
    MPI_Op op = mpi_op(c->op);
    if (!is_large(g, c, c->count))
        return CALL(MPI_Allreduce, MPI_Iallreduce, sink, c->send == c->recv ? MPI_IN_PLACE : c->send, c->recv,
                    (int)c->count, type, op, g->comm);
    size_t slice = slice_of(g, c);
    int code = MPI_SUCCESS;
    for (size_t done = 0; done < c->count && code == MPI_SUCCESS; done += slice) {
        size_t count = c->count - done < slice ? c->count - done : slice;
        code =
            CALL(MPI_Allreduce, MPI_Iallreduce, sink, c->send == c->recv ? MPI_IN_PLACE : at(c->send, done * c->nbytes),
                 at_rw(c->recv, done * c->nbytes), (int)count, type, op, g->comm);
    }
    return code;
}

static int bcast(mpi_group *g, const kith_be_coll *c, void *buffer, size_t total, int root, mpi_sink *sink)
{
    MPI_Datatype type = mpi_type_move(c->nbytes);
    if (!is_large(g, c, total))
        return CALL(MPI_Bcast, MPI_Ibcast, sink, buffer, (int)total, type, root, g->comm);
    size_t slice = slice_of(g, c), done = 0;
    int code;
    do {
        size_t count = total - done < slice ? total - done : slice;
        code = CALL(MPI_Bcast, MPI_Ibcast, sink, at_rw(buffer, done * c->nbytes), (int)count, type, root, g->comm);
        done += slice;
    } while (done < total && code == MPI_SUCCESS);
    return code;
}

/* MPICH 4.0 crashes in MPI_Reduce with MPI_IN_PLACE and more than 2 KiB at a root other than 0: it gets a copy. */
static const void *reduce_in_place(mpi_group *g, const kith_be_coll *c, size_t total, int root)
{
#ifdef OPEN_MPI
    (void)g, (void)c, (void)total, (void)root;
    return MPI_IN_PLACE;
#else
    if (root == 0 || total == 0)
        return MPI_IN_PLACE;
    void *copy = mpi_scratch_get(g, &g->scratch, total * c->nbytes);
    if (copy != NULL)
        memcpy(copy, c->send, total * c->nbytes);
    return copy;
#endif
}

static int reduce_to(mpi_group *g, const kith_be_coll *c, const void *send, void *recv, size_t total, int root,
                     mpi_sink *sink)
{
    MPI_Datatype type = mpi_type_reduce(c->dtype, c->op);
    MPI_Op op = mpi_op(c->op);
    bool is_root = g->rank == root, is_in_place = is_root && send == recv;
    size_t slice = slice_of(g, c), done = 0;
    int code;
    if (is_in_place)
        send = reduce_in_place(g, c, total, root);
    if (send == NULL && total > 0)
        return MPI_ERR_NO_MEM;
    do {
        size_t count = total - done < slice ? total - done : slice;
        code = CALL(MPI_Reduce, MPI_Ireduce, sink, send == MPI_IN_PLACE ? MPI_IN_PLACE : at(send, done * c->nbytes),
                    is_root ? at_rw(recv, done * c->nbytes) : NULL, (int)count, type, op, root, g->comm);
        done += slice;
    } while (done < total && code == MPI_SUCCESS);
    return code;
}

/* ---- reduce_scatter ---- */

static int reduce_scatter_once(mpi_group *g, const kith_be_coll *c, const size_t *counts, void *recv, mpi_sink *sink)
{
    MPI_Datatype type = mpi_type_reduce(c->dtype, c->op);
    if (counts == NULL)
        return CALL(MPI_Reduce_scatter_block, MPI_Ireduce_scatter_block, sink, c->send, recv, (int)c->count, type,
                    mpi_op(c->op), g->comm);
    int *ints = arrays_of(g, sink)->ints;
    for (int r = 0; r < g->size; r++)
        ints[r] = (int)counts[r];
    return CALL(MPI_Reduce_scatter, MPI_Ireduce_scatter, sink, c->send, recv, ints, type, mpi_op(c->op), g->comm);
}

static int reduce_scatter_roots(mpi_group *g, const kith_be_coll *c, const size_t *counts, void *recv, mpi_sink *sink)
{
    size_t done = 0;
    int code = MPI_SUCCESS;
    for (int root = 0; root < g->size && code == MPI_SUCCESS; root++) {
        size_t count = counts != NULL ? counts[root] : c->count;
        code = reduce_to(g, c, at(c->send, done * c->nbytes), recv, count, root, sink);
        done += count;
    }
    return code;
}

static int reduce_scatter(mpi_group *g, const kith_be_coll *c, const size_t *counts, mpi_sink *sink)
{
    size_t own = counts != NULL ? counts[g->rank] : c->count;
    size_t total = counts != NULL ? sum(counts, g->size) : c->count * (size_t)g->size;
    const unsigned char *first = (const unsigned char *)c->send, *out = (const unsigned char *)c->recv;
    bool is_alias = total > 0 && out >= first && out < first + total * c->nbytes;
    void *recv = is_alias ? mpi_scratch_get(g, &g->scratch, own * c->nbytes + 1) : c->recv;
    if (is_alias && recv == NULL)
        return MPI_ERR_NO_MEM;
    int code = is_large(g, c, total) ? reduce_scatter_roots(g, c, counts, recv, sink)
                                     : reduce_scatter_once(g, c, counts, recv, sink);
    if (is_alias && own > 0 && code == MPI_SUCCESS) /* non-blocking forms run on duplicates: never an alias */
        memcpy(c->recv, recv, own * c->nbytes);
    return code;
}

/* ---- equal blocks ---- */

/* A type of count elements, for counts beyond int. */
static int block_type(size_t count, MPI_Datatype element, size_t nbytes, MPI_Datatype *type)
{
    const size_t unit = (size_t)1 << 20;
    MPI_Datatype parts[2] = { MPI_DATATYPE_NULL, MPI_DATATYPE_NULL }, units = MPI_DATATYPE_NULL;
    MPI_Aint displs[2] = { 0, (MPI_Aint)(count / unit * unit * nbytes) };
    int lengths[2] = { 1, 1 };
    int code = count / unit > INT_MAX ? MPI_ERR_COUNT : MPI_Type_contiguous((int)unit, element, &units);
    if (code == MPI_SUCCESS)
        code = MPI_Type_contiguous((int)(count / unit), units, &parts[0]);
    if (code == MPI_SUCCESS)
        code = MPI_Type_contiguous((int)(count % unit), element, &parts[1]);
    if (code == MPI_SUCCESS)
        code = MPI_Type_create_struct(2, lengths, displs, parts, type);
    if (code == MPI_SUCCESS)
        code = MPI_Type_commit(type);
    for (int i = 0; i < 2; i++)
        if (parts[i] != MPI_DATATYPE_NULL)
            MPI_Type_free(&parts[i]);
    if (units != MPI_DATATYPE_NULL)
        MPI_Type_free(&units);
    return code;
}

static int all_to_all(mpi_group *g, const kith_be_coll *c, int count, MPI_Datatype type, mpi_sink *sink)
{
    const void *send = c->send;
    if (c->send == c->recv && c->count > 0) {
        size_t nbytes = c->count * c->nbytes * (size_t)g->size;
        void *copy = mpi_scratch_get(g, &g->scratch, nbytes);
        if (copy == NULL)
            return MPI_ERR_NO_MEM;
        memcpy(copy, c->send, nbytes);
        send = copy;
    }
    return CALL(MPI_Alltoall, MPI_Ialltoall, sink, send, count, type, c->recv, count, type, g->comm);
}

static int blocks(mpi_group *g, const kith_be_coll *c, int count, MPI_Datatype type, mpi_sink *sink)
{
    size_t own = (size_t)g->rank * c->count * c->nbytes;
    bool is_root = g->rank == c->root;
    switch (c->kind) {
    case KITH_ALL_GATHER:
        if (c->send == at(c->recv, own))
            return CALL(MPI_Allgather, MPI_Iallgather, sink, MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, c->recv, count, type,
                        g->comm);
        return CALL(MPI_Allgather, MPI_Iallgather, sink, c->send, count, type, c->recv, count, type, g->comm);
    case KITH_GATHER:
        if (is_root && c->send == at(c->recv, own))
            return CALL(MPI_Gather, MPI_Igather, sink, MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, c->recv, count, type,
                        c->root, g->comm);
        return CALL(MPI_Gather, MPI_Igather, sink, c->send, count, type, is_root ? c->recv : NULL, count, type, c->root,
                    g->comm);
    case KITH_SCATTER:
        if (is_root && c->recv == at(c->send, own))
            return CALL(MPI_Scatter, MPI_Iscatter, sink, c->send, count, type, MPI_IN_PLACE, 0, MPI_DATATYPE_NULL,
                        c->root, g->comm);
        return CALL(MPI_Scatter, MPI_Iscatter, sink, is_root ? c->send : NULL, count, type, c->recv, count, type,
                    c->root, g->comm);
    default:
        return all_to_all(g, c, count, type, sink);
    }
}

static int equal_blocks(mpi_group *g, const kith_be_coll *c, mpi_sink *sink)
{
    MPI_Datatype type, element = mpi_type_move(c->nbytes);
    if (!is_large(g, c, c->count))
        return blocks(g, c, (int)c->count, element, sink);
    int code = block_type(c->count, element, c->nbytes, &type);
    if (code != MPI_SUCCESS)
        return code;
    code = blocks(g, c, 1, type, sink);
    MPI_Type_free(&type); /* goes away when the operation is complete */
    return code;
}

/* ---- blocks of different sizes ---- */

static bool is_beyond_int(const size_t *counts, const size_t *displs, int size)
{
    for (int r = 0; r < size; r++)
        if (counts[r] > INT_MAX || displs[r] > INT_MAX)
            return true;
    return false;
}

static int all_gather_v(mpi_group *g, const kith_be_coll *c, mpi_sink *sink)
{
    MPI_Datatype type = mpi_type_move(c->nbytes);
    size_t own = c->recv_counts[g->rank];
    void *slot = at_rw(c->recv, c->recv_displs[g->rank] * c->nbytes);
    bool is_in_place = c->send == slot;
    int code = MPI_SUCCESS;
    if (!is_large(g, c, sum(c->recv_counts, g->size)) && !is_beyond_int(c->recv_counts, c->recv_displs, g->size)) {
        int *ints = arrays_of(g, sink)->ints;
        for (int r = 0; r < g->size; r++) {
            ints[r] = (int)c->recv_counts[r];
            ints[g->size + r] = (int)c->recv_displs[r];
        }
        return CALL(MPI_Allgatherv, MPI_Iallgatherv, sink, is_in_place ? MPI_IN_PLACE : c->send,
                    is_in_place ? 0 : (int)own, type, c->recv, ints, ints + g->size, type, g->comm);
    }
    if (!is_in_place && own > 0) {
        const kith_be_host *host = g->be->host;
        if (!c->is_device)
            memcpy(slot, c->send, own * c->nbytes);
        else if (host->device_copy(host->cookie, slot, c->send, own * c->nbytes) != KITH_OK)
            return MPI_ERR_OTHER;
    }
    for (int r = 0; r < g->size && code == MPI_SUCCESS; r++)
        code = bcast(g, c, at_rw(c->recv, c->recv_displs[r] * c->nbytes), c->recv_counts[r], r, sink);
    return code;
}

#if MPI_VERSION >= 4
static void widen(const mpi_group *g, mpi_arrays *arrays, int half, const size_t *counts, const size_t *displs)
{
    for (int r = 0; counts != NULL && r < g->size; r++) {
        arrays->counts[half * g->size + r] = (MPI_Count)counts[r];
        arrays->displs[half * g->size + r] = (MPI_Aint)displs[r];
    }
}

static int local_counts(mpi_group *g, const kith_be_coll *c, mpi_sink *sink)
{
    MPI_Datatype type = mpi_type_move(c->nbytes);
    bool is_root = g->rank == c->root;
    mpi_arrays *arrays = arrays_of(g, sink);
    MPI_Count *out_counts = arrays->counts, *in_counts = arrays->counts + g->size, own = (MPI_Count)c->count;
    MPI_Aint *out_displs = arrays->displs, *in_displs = arrays->displs + g->size;
    if (c->kind == KITH_GATHER_V) {
        widen(g, arrays, 1, is_root ? c->recv_counts : NULL, c->recv_displs);
        bool is_in_place = is_root && c->send == at(c->recv, c->recv_displs[g->rank] * c->nbytes);
        return CALL(MPI_Gatherv_c, MPI_Igatherv_c, sink, is_in_place ? MPI_IN_PLACE : c->send, own, type,
                    is_root ? c->recv : NULL, in_counts, in_displs, type, c->root, g->comm);
    }
    if (c->kind == KITH_SCATTER_V) {
        widen(g, arrays, 0, is_root ? c->send_counts : NULL, c->send_displs);
        bool is_in_place = is_root && c->recv == at(c->send, c->send_displs[g->rank] * c->nbytes);
        return CALL(MPI_Scatterv_c, MPI_Iscatterv_c, sink, is_root ? c->send : NULL, out_counts, out_displs, type,
                    is_in_place ? MPI_IN_PLACE : c->recv, own, type, c->root, g->comm);
    }
    widen(g, arrays, 0, c->send_counts, c->send_displs);
    widen(g, arrays, 1, c->recv_counts, c->recv_displs);
    return CALL(MPI_Alltoallv_c, MPI_Ialltoallv_c, sink, c->send, out_counts, out_displs, type, c->recv, in_counts,
                in_displs, type, g->comm);
}
#else
static int local_counts(mpi_group *g, const kith_be_coll *c, mpi_sink *sink)
{
    (void)g, (void)c, (void)sink;
    return MPI_ERR_UNSUPPORTED_OPERATION; /* query() said so */
}
#endif

int mpi_coll_issue(mpi_group *g, const kith_be_coll *c, mpi_sink *sink)
{
    switch (c->kind) {
    case KITH_ALL_REDUCE:
        return all_reduce(g, c, sink);
    case KITH_REDUCE_SCATTER:
        return reduce_scatter(g, c, NULL, sink);
    case KITH_REDUCE_SCATTER_V:
        return reduce_scatter(g, c, c->recv_counts, sink);
    case KITH_BROADCAST:
        return bcast(g, c, c->recv, c->count, c->root, sink);
    case KITH_REDUCE:
        return reduce_to(g, c, c->send, c->recv, c->count, c->root, sink);
    case KITH_ALL_GATHER:
    case KITH_GATHER:
    case KITH_SCATTER:
    case KITH_ALL_TO_ALL:
        return equal_blocks(g, c, sink);
    case KITH_ALL_GATHER_V:
        return all_gather_v(g, c, sink);
    case KITH_GATHER_V:
    case KITH_SCATTER_V:
    case KITH_ALL_TO_ALL_V:
        return local_counts(g, c, sink);
    case KITH_BARRIER:
        return sink == NULL ? MPI_Barrier(g->comm) : MPI_Ibarrier(g->comm, &sink->requests[sink->count++]);
    }
    return MPI_ERR_ARG;
}

size_t mpi_coll_pieces(const mpi_group *g, const kith_be_coll *c)
{
    size_t slice = slice_of(g, c), pieces = 0;
    switch (c->kind) {
    case KITH_ALL_REDUCE:
    case KITH_BROADCAST:
    case KITH_REDUCE:
        return slices(c->count, slice);
    case KITH_REDUCE_SCATTER:
        return slices(c->count, slice) * (size_t)g->size;
    case KITH_REDUCE_SCATTER_V:
    case KITH_ALL_GATHER_V:
        for (int r = 0; r < g->size; r++)
            pieces += slices(c->recv_counts[r], slice);
        return pieces;
    default:
        return 1;
    }
}

kith_status mpi_coll_run(void *handle, const kith_be_coll *coll)
{
    mpi_group *group = (mpi_group *)handle;
    if (!group->be->is_blocking)
        return KITH_ERR_UNSUPPORTED; /* the core takes coll_start */
    int code = mpi_coll_issue(group, coll, NULL);
    return code == MPI_SUCCESS ? KITH_OK : mpi_status(group->be->host, code, "collective");
}
