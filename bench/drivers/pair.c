/* bench/drivers/pair.c - bench-pair-openmpi, bench-pair-mpich: the bare MPI call and Kith's mpi backend in one process.
 *
 * What the backend costs is a few nanoseconds to a few per cent, less than two processes differ by chance: here both
 * use the same MPI library in the same processes, and whoever asks (serve) or sweeps takes turns between them.
 * Variants: raw, ordinary.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "../engine/clock.h"
#include "../engine/session.h"
#include "kith_calls.h"
#include "mpi_calls.h"

#include <mpi.h>
#include <stdio.h>

static int measure(const bench_options *options, kith_group *world, int usable_cpus)
{
    bench_kith selves[BENCH_KITH_VARIANTS];
    bench_variant kith_variants[BENCH_KITH_VARIANTS];
    bench_segment *segment;
    int rank = kith_group_rank(world);
    if (!bench_mpi_meet(&segment, rank)) {
        return 1;
    }
    bench_kith_variants(world, selves, kith_variants);
    bench_variant variants[2] = { bench_mpi_variant, kith_variants[BENCH_KITH_ORDINARY] };
    bench_peers peers;
    bench_peers_init(&peers, segment, rank, kith_group_size(world), usable_cpus);
    bench_driver driver = { "pair-" BENCH_MPI_NAME, variants, 2, &peers };
    return bench_session_run(&driver, options);
}

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
    kith_init_options init = KITH_INIT_OPTIONS_INIT;
    init.backend = "mpi";
    kith_ctx *ctx;
    int exit_status = 1;
    kith_status status = kith_init(&init, &ctx);
    if (status == KITH_OK) {
        exit_status = measure(&options, kith_world(ctx), usable_cpus);
        status = kith_finalize(ctx);
    }
    if (status != KITH_OK || exit_status != 0) {
        bench_kith_complain("pair", status);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    MPI_Finalize();
    return exit_status;
}
