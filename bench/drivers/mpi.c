/* bench/drivers/mpi.c - bench-openmpi, bench-mpich: the same operations on a bare MPI, without Kith.
 *
 * One source, compiled once for each MPI that is there, and started by that MPI's mpirun. MPI_Init and the broadcast
 * of the segment's name are all the set-up there is.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "../engine/clock.h"
#include "../engine/session.h"
#include "mpi_calls.h"

#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    bench_options options;
    bench_options_init(&options);
    argp_parse(&bench_options_argp, argc, argv, 0, NULL, &options);
    int usable_cpus = bench_usable_cpus();
    int local_rank = bench_launcher_local_rank();
    if (options.is_pinned && local_rank >= 0) {
        bench_pin(local_rank);
    }
    bench_clock_init();
    MPI_Init(&argc, &argv);
    int rank, size;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    bench_segment *segment = NULL;
    int status = 1;
    if (size <= BENCH_MAX_RANKS && bench_mpi_has(options.dtype) && bench_mpi_meet(&segment, rank)) {
        bench_peers peers;
        bench_peers_init(&peers, segment, rank, size, usable_cpus);
        bench_driver driver = { BENCH_MPI_NAME, &bench_mpi_variant, 1, &peers };
        status = bench_session_run(&driver, &options);
    } else if (rank == 0) {
        fprintf(stderr, "bench: needs at most %d ranks on one host and a dtype that MPI has\n", BENCH_MAX_RANKS);
    }
    if (status != 0) {
        MPI_Abort(MPI_COMM_WORLD, status);
    }
    MPI_Finalize();
    return status;
}
