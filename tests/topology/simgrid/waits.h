/* tests/topology/simgrid/waits.h - a rank that waits without polling.
 *
 * A backend asks with MPI_Test whether a message is over. A simulated rank that asks again and again must let some
 * simulated time pass between two questions, or the simulation stands still; whatever is chosen for it is either slow
 * to simulate or makes every step later. So MPI_Isend, MPI_Irecv, MPI_Test and MPI_Cancel of the objects of this
 * program are led here (ld --wrap): this side keeps the requests of each rank, MPI_Test only looks whether
 * waits_for_any() has seen the end of one, and waits_for_any() blocks in MPI_Waitany. A message is noticed at the
 * moment when it ends, as by a rank that polls without a pause. What is sent, when, and to whom is the backend's
 * alone.
 *
 * Receives from any source: MPI gives the receive that was posted first the message that arrives first. SMPI gives it
 * the message that was sent first, however long that is on its way, so a packet over the network would hold back those
 * over NVLink. So they are received into memory of this side, and handed out in the order in which they arrived.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef TESTS_SIMGRID_WAITS_H
#define TESTS_SIMGRID_WAITS_H

#include <stdbool.h>

/* Blocks until one of the calling rank's messages is over. False when none is under way. */
bool waits_for_any(void);

/* Grows with each message that the calling rank starts or has seen the end of: unchanged means that a round of
 * progress did nothing. */
unsigned long waits_events(void);

#endif
