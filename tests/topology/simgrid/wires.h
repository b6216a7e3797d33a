/* tests/topology/simgrid/wires.h - backends/mpi on simulated ranks.
 *
 * The sources of backends/mpi and backends/message are part of this program, and the table that they export
 * (kith_backend_v1) is opened with mpi_eager=0 and mpi_native=blocking. So each message of a plan is a request, an
 * answer, and the bytes in one piece: it crosses the way WIRES_TRIPS times. Kith's constants give the latency of a
 * step, with all that a transport has to say for it; the wires of the platform have that part of it.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef TESTS_SIMGRID_WIRES_H
#define TESTS_SIMGRID_WIRES_H

#include <kith/backend.h>

enum { WIRES_TRIPS = 3 };

typedef struct wires {
    const kith_backend *backend;
    void *instance;
    kith_be_host host;
} wires;

/* For the calling rank; the program ends when that fails. */
void wires_open(wires *w);
void wires_close(wires *w);

/* The group of ranks members[size] of MPI_COMM_WORLD, for the calling rank at place `place` of it. All ranks of the
 * world call it at the same time, those of no group with size 0, which gives NULL. number tells groups that are made
 * together apart; it is not negative. */
void *wires_group_create(wires *w, const int *members, int size, int place, int number);
void wires_group_destroy(wires *w, void *group);

#endif
