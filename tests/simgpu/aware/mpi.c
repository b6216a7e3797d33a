/* tests/simgpu/aware/mpi.c - a CUDA-aware MPI out of one that is not: a library for LD_PRELOAD.
 *
 * It says that it takes device memory, and does, for the calls that backends/mpi makes: buffers on a simulated device
 * are bounced through host memory around the same call of the real library (PMPI). Any other call with such a buffer
 * reaches the real library, which touches it, and the simulator ends the process. With Open MPI that is so for
 * non-blocking collectives, as it may be with the real one.
 *
 * A device's buffer is used from the start of a call to its end: what is sent is read at the start; a receive's is
 * overwritten at the start, as a library may do, and again at the end.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "device.h"

#include <mpi.h>
#include <stdlib.h>
#include <string.h>

/* A call under way: memory to free at its end, and what is to be copied to the device then. */
typedef struct pending {
    struct pending *next;
    MPI_Request request;
    void *send, *recv; /* on the host; NULL: none */
    void *device;
    size_t nbytes;
    bool is_message; /* the status says how much came */
} pending;

static pending *first;

#define LINKAGE __attribute__((visibility("default")))

LINKAGE int MPIX_Query_cuda_support(void);
LINKAGE int MPIX_Query_cuda_support(void)
{
    return 1;
}

static void keep(MPI_Request request, pending what)
{
    pending *made = (pending *)aware_alloc(sizeof *made);
    *made = what;
    made->request = request;
    made->next = first;
    first = made;
}

static void end(MPI_Request request, MPI_Status *status)
{
    pending **at = &first;
    while (*at != NULL && (*at)->request != request)
        at = &(*at)->next;
    pending *found = *at;
    if (found == NULL)
        return;
    int is_cancelled = 0, count = 0;
    if (found->is_message && found->recv != NULL) {
        PMPI_Test_cancelled(status, &is_cancelled);
        PMPI_Get_count(status, MPI_BYTE, &count);
        found->nbytes = (size_t)count;
    }
    if (found->recv != NULL && !is_cancelled)
        aware_copy(found->device, found->recv, found->nbytes);
    *at = found->next;
    free(found->send);
    free(found->recv);
    free(found);
}

LINKAGE int MPI_Test(MPI_Request *request, int *is_done, MPI_Status *status)
{
    MPI_Request before = *request;
    MPI_Status own;
    int code = PMPI_Test(request, is_done, &own);
    if (code == MPI_SUCCESS && *is_done && before != MPI_REQUEST_NULL)
        end(before, &own);
    if (status != MPI_STATUS_IGNORE)
        *status = own;
    return code;
}

LINKAGE int MPI_Wait(MPI_Request *request, MPI_Status *status)
{
    MPI_Request before = *request;
    MPI_Status own;
    int code = PMPI_Wait(request, &own);
    if (code == MPI_SUCCESS && before != MPI_REQUEST_NULL)
        end(before, &own);
    if (status != MPI_STATUS_IGNORE)
        *status = own;
    return code;
}

LINKAGE int MPI_Isend(const void *buffer, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm,
                      MPI_Request *request)
{
    if (!aware_is_device(buffer))
        return PMPI_Isend(buffer, count, type, peer, tag, comm, request);
    void *copy = aware_alloc((size_t)count);
    aware_copy(copy, buffer, (size_t)count);
    int code = PMPI_Isend(copy, count, type, peer, tag, comm, request);
    keep(*request, (pending){ .send = copy, .is_message = true });
    return code;
}

LINKAGE int MPI_Irecv(void *buffer, int count, MPI_Datatype type, int peer, int tag, MPI_Comm comm,
                      MPI_Request *request)
{
    if (!aware_is_device(buffer))
        return PMPI_Irecv(buffer, count, type, peer, tag, comm, request);
    void *copy = aware_alloc((size_t)count);
    aware_spoil(buffer, (size_t)count);
    int code = PMPI_Irecv(copy, count, type, peer, tag, comm, request);
    keep(*request, (pending){ .recv = copy, .device = buffer, .is_message = true });
    return code;
}

#ifndef OPEN_MPI
/* ---- collectives ---- */

static size_t size_of(MPI_Datatype type, MPI_Count count)
{
    int nbytes = 0;
    PMPI_Type_size(type, &nbytes);
    return (size_t)nbytes * (size_t)count;
}

static int ranks_of(MPI_Comm comm)
{
    int size = 1;
    PMPI_Comm_size(comm, &size);
    return size;
}

/* Elements up to the end of the last block. */
static MPI_Count reach(const MPI_Count *counts, const MPI_Aint *displs, int size)
{
    MPI_Count most = 0;
    for (int r = 0; r < size; r++)
        if (counts[r] > 0 && displs[r] + counts[r] > most)
            most = displs[r] + counts[r];
    return most;
}

static MPI_Count reach_int(const int *counts, const int *displs, int size)
{
    MPI_Count most = 0;
    for (int r = 0; r < size; r++)
        if (counts[r] > 0 && displs[r] + counts[r] > most)
            most = displs[r] + counts[r];
    return most;
}

/* The buffers that the real library is given. What it receives begins with what is there: the gaps between blocks, and
 * what an operation in place starts from. */
typedef struct bounce {
    const void *send;
    void *recv;
    pending pending;
} bounce;

static bounce prepare(const void *send, size_t send_nbytes, void *recv, size_t recv_nbytes)
{
    bounce b = { .send = send, .recv = recv };
    if (send != MPI_IN_PLACE && aware_is_device(send)) {
        b.send = b.pending.send = aware_alloc(send_nbytes);
        aware_copy(b.pending.send, send, send_nbytes);
    }
    if (recv != MPI_IN_PLACE && aware_is_device(recv)) {
        b.recv = b.pending.recv = aware_alloc(recv_nbytes);
        b.pending.device = recv;
        b.pending.nbytes = recv_nbytes;
        aware_copy(b.recv, recv, recv_nbytes);
        aware_copy(recv, b.recv, recv_nbytes); /* a library may write from the start on */
    }
    return b;
}

static int started(const bounce *b, int code, const MPI_Request *request)
{
    keep(*request, b->pending);
    return code;
}

LINKAGE int MPIX_GPU_query_support(int type, int *is_supported)
{
    (void)type;
    *is_supported = 1;
    return MPI_SUCCESS;
}

LINKAGE int MPI_Iallreduce(const void *send, void *recv, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm,
                           MPI_Request *request)
{
    bounce b = prepare(send, size_of(type, count), recv, size_of(type, count));
    return started(&b, PMPI_Iallreduce(b.send, b.recv, count, type, op, comm, request), request);
}

LINKAGE int MPI_Ibcast(void *buffer, int count, MPI_Datatype type, int root, MPI_Comm comm, MPI_Request *request)
{
    bounce b = prepare(NULL, 0, buffer, size_of(type, count));
    return started(&b, PMPI_Ibcast(b.recv, count, type, root, comm, request), request);
}

LINKAGE int MPI_Ireduce(const void *send, void *recv, int count, MPI_Datatype type, MPI_Op op, int root, MPI_Comm comm,
                        MPI_Request *request)
{
    bounce b = prepare(send, size_of(type, count), recv, size_of(type, count));
    return started(&b, PMPI_Ireduce(b.send, b.recv, count, type, op, root, comm, request), request);
}

LINKAGE int MPI_Ireduce_scatter_block(const void *send, void *recv, int count, MPI_Datatype type, MPI_Op op,
                                      MPI_Comm comm, MPI_Request *request)
{
    bounce b = prepare(send, size_of(type, count) * (size_t)ranks_of(comm), recv, size_of(type, count));
    return started(&b, PMPI_Ireduce_scatter_block(b.send, b.recv, count, type, op, comm, request), request);
}

LINKAGE int MPI_Ireduce_scatter(const void *send, void *recv, const int *counts, MPI_Datatype type, MPI_Op op,
                                MPI_Comm comm, MPI_Request *request)
{
    MPI_Count all = 0;
    int rank = 0;
    PMPI_Comm_rank(comm, &rank);
    for (int r = 0; r < ranks_of(comm); r++)
        all += counts[r];
    bounce b = prepare(send, size_of(type, all), recv, size_of(type, counts[rank]));
    return started(&b, PMPI_Ireduce_scatter(b.send, b.recv, counts, type, op, comm, request), request);
}

LINKAGE int MPI_Iallgather(const void *send, int send_count, MPI_Datatype send_type, void *recv, int recv_count,
                           MPI_Datatype recv_type, MPI_Comm comm, MPI_Request *request)
{
    bounce b = prepare(send, send == MPI_IN_PLACE ? 0 : size_of(send_type, send_count), recv,
                       size_of(recv_type, recv_count) * (size_t)ranks_of(comm));
    return started(&b, PMPI_Iallgather(b.send, send_count, send_type, b.recv, recv_count, recv_type, comm, request),
                   request);
}

LINKAGE int MPI_Igather(const void *send, int send_count, MPI_Datatype send_type, void *recv, int recv_count,
                        MPI_Datatype recv_type, int root, MPI_Comm comm, MPI_Request *request)
{
    bounce b = prepare(send, send == MPI_IN_PLACE ? 0 : size_of(send_type, send_count), recv,
                       recv == NULL ? 0 : size_of(recv_type, recv_count) * (size_t)ranks_of(comm));
    return started(&b, PMPI_Igather(b.send, send_count, send_type, b.recv, recv_count, recv_type, root, comm, request),
                   request);
}

LINKAGE int MPI_Iscatter(const void *send, int send_count, MPI_Datatype send_type, void *recv, int recv_count,
                         MPI_Datatype recv_type, int root, MPI_Comm comm, MPI_Request *request)
{
    bounce b = prepare(send, send == NULL ? 0 : size_of(send_type, send_count) * (size_t)ranks_of(comm), recv,
                       recv == MPI_IN_PLACE ? 0 : size_of(recv_type, recv_count));
    return started(&b, PMPI_Iscatter(b.send, send_count, send_type, b.recv, recv_count, recv_type, root, comm, request),
                   request);
}

LINKAGE int MPI_Ialltoall(const void *send, int send_count, MPI_Datatype send_type, void *recv, int recv_count,
                          MPI_Datatype recv_type, MPI_Comm comm, MPI_Request *request)
{
    size_t ranks = (size_t)ranks_of(comm);
    bounce b = prepare(send, size_of(send_type, send_count) * ranks, recv, size_of(recv_type, recv_count) * ranks);
    return started(&b, PMPI_Ialltoall(b.send, send_count, send_type, b.recv, recv_count, recv_type, comm, request),
                   request);
}

LINKAGE int MPI_Iallgatherv(const void *send, int send_count, MPI_Datatype send_type, void *recv, const int *counts,
                            const int *displs, MPI_Datatype recv_type, MPI_Comm comm, MPI_Request *request)
{
    bounce b = prepare(send, send == MPI_IN_PLACE ? 0 : size_of(send_type, send_count), recv,
                       size_of(recv_type, reach_int(counts, displs, ranks_of(comm))));
    return started(
        &b, PMPI_Iallgatherv(b.send, send_count, send_type, b.recv, counts, displs, recv_type, comm, request), request);
}

#if MPI_VERSION >= 4
LINKAGE int MPI_Igatherv_c(const void *send, MPI_Count send_count, MPI_Datatype send_type, void *recv,
                           const MPI_Count *counts, const MPI_Aint *displs, MPI_Datatype recv_type, int root,
                           MPI_Comm comm, MPI_Request *request)
{
    bounce b = prepare(send, send == MPI_IN_PLACE ? 0 : size_of(send_type, send_count), recv,
                       recv == NULL ? 0 : size_of(recv_type, reach(counts, displs, ranks_of(comm))));
    return started(
        &b, PMPI_Igatherv_c(b.send, send_count, send_type, b.recv, counts, displs, recv_type, root, comm, request),
        request);
}

LINKAGE int MPI_Iscatterv_c(const void *send, const MPI_Count *counts, const MPI_Aint *displs, MPI_Datatype send_type,
                            void *recv, MPI_Count recv_count, MPI_Datatype recv_type, int root, MPI_Comm comm,
                            MPI_Request *request)
{
    bounce b = prepare(send, send == NULL ? 0 : size_of(send_type, reach(counts, displs, ranks_of(comm))), recv,
                       recv == MPI_IN_PLACE ? 0 : size_of(recv_type, recv_count));
    return started(
        &b, PMPI_Iscatterv_c(b.send, counts, displs, send_type, b.recv, recv_count, recv_type, root, comm, request),
        request);
}

LINKAGE int MPI_Ialltoallv_c(const void *send, const MPI_Count *send_counts, const MPI_Aint *send_displs,
                             MPI_Datatype send_type, void *recv, const MPI_Count *recv_counts,
                             const MPI_Aint *recv_displs, MPI_Datatype recv_type, MPI_Comm comm, MPI_Request *request)
{
    int ranks = ranks_of(comm);
    bounce b = prepare(send, size_of(send_type, reach(send_counts, send_displs, ranks)), recv,
                       size_of(recv_type, reach(recv_counts, recv_displs, ranks)));
    return started(&b,
                   PMPI_Ialltoallv_c(b.send, send_counts, send_displs, send_type, b.recv, recv_counts, recv_displs,
                                     recv_type, comm, request),
                   request);
}
#endif
#endif
