/* bench/drivers/mpi_calls.c
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "mpi_calls.h"

#include "ordinary.h"

#include <limits.h>
#include <mpi.h>
#include <stdint.h>

#define TAG_THERE 1
#define TAG_BACK 2

static MPI_Datatype mpi_type(bench_dtype dtype)
{
    switch (dtype) {
    case BENCH_F64:
        return MPI_DOUBLE;
    case BENCH_INT32:
        return MPI_INT32_T;
#ifdef MPIX_BFLOAT16 /* MPICH has it from version 5 on; elsewhere bench_mpi_has() says no */
    case BENCH_BF16:
        return MPIX_BFLOAT16;
#endif
    default:
        return MPI_FLOAT;
    }
}

bool bench_mpi_has(bench_dtype dtype)
{
#ifdef MPIX_BFLOAT16
    (void)dtype;
    return true;
#else
    return dtype != BENCH_BF16;
#endif
}

static void ping_pong(const bench_call *call, int count, MPI_Datatype type, int partner)
{
    if (call->shape->rank == 0) {
        MPI_Send(call->send, count, type, partner, TAG_THERE, MPI_COMM_WORLD);
        MPI_Recv(call->recv, count, type, partner, TAG_BACK, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
        MPI_Recv(call->recv, count, type, partner, TAG_THERE, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(call->send, count, type, partner, TAG_BACK, MPI_COMM_WORLD);
    }
}

/* MPI_COMM_WORLD has the default error handler: a call that fails ends the job with MPI's own message. */
static bool run(void *self, const bench_call *call)
{
    (void)self;
    const bench_shape *shape = call->shape;
    MPI_Datatype type = mpi_type(call->dtype);
    int count = (int)shape->count;
    int block = (int)shape->block;
    int partner = bench_shape_partner(shape);
    switch (shape->op) {
    case BENCH_ALL_REDUCE:
        MPI_Allreduce(call->send, call->recv, count, type, MPI_SUM, MPI_COMM_WORLD);
        break;
    case BENCH_REDUCE_SCATTER:
        MPI_Reduce_scatter_block(call->send, call->recv, block, type, MPI_SUM, MPI_COMM_WORLD);
        break;
    case BENCH_ALL_GATHER:
        MPI_Allgather(call->send, block, type, call->recv, block, type, MPI_COMM_WORLD);
        break;
    case BENCH_ALL_TO_ALL:
        MPI_Alltoall(call->send, block, type, call->recv, block, type, MPI_COMM_WORLD);
        break;
    case BENCH_BROADCAST:
        MPI_Bcast(shape->rank == 0 ? call->send : call->recv, count, type, 0, MPI_COMM_WORLD);
        break;
    case BENCH_REDUCE:
        MPI_Reduce(call->send, call->recv, count, type, MPI_SUM, 0, MPI_COMM_WORLD);
        break;
    case BENCH_BARRIER:
        MPI_Barrier(MPI_COMM_WORLD);
        break;
    case BENCH_PING_PONG:
        if (partner >= 0) {
            ping_pong(call, count, type, partner);
        }
        break;
    default:
        if (partner >= 0) {
            MPI_Sendrecv(call->send, count, type, partner, TAG_THERE, call->recv, count, type, partner, TAG_THERE,
                         MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
        break;
    }
    return true;
}

static bool can_run(void *self, bench_op op, size_t nbytes, int size)
{
    (void)self;
    (void)op;
    (void)size;
    return nbytes / 4 <= INT_MAX;
}

const bench_variant bench_mpi_variant = {
    .name = "raw", .allocate = bench_allocate_ordinary, .run = run, .can_run = can_run
};

bool bench_mpi_meet(bench_segment **segment, int rank)
{
    char name[64] = "";
    bool is_open = rank == 0 ? bench_segment_create(name, segment) : true;
    MPI_Bcast(name, (int)sizeof(name), MPI_CHAR, 0, MPI_COMM_WORLD);
    if (rank != 0) {
        is_open = bench_segment_open(name, segment);
    }
    int mine = is_open, all;
    MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    if (rank == 0) {
        bench_segment_forget(name);
    }
    return all != 0;
}
