/* bench/drivers/mpi_calls.h - the operations as calls of a bare MPI.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef BENCH_MPI_CALLS_H
#define BENCH_MPI_CALLS_H

#include "../engine/driver.h"

/* Each operation is the one call that a program would write, on MPI_COMM_WORLD. Ordinary buffers. */
extern const bench_variant bench_mpi_variant;

/* True when this MPI has the type. */
bool bench_mpi_has(bench_dtype dtype);

/* All ranks of MPI_COMM_WORLD map a new segment; false, on all of them, when one could not. */
bool bench_mpi_meet(bench_segment **segment, int rank);

#endif
