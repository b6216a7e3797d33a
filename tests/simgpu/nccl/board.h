/* tests/simgpu/nccl/board.h - the memory in which the ranks of a simulated communicator meet.
 *
 * A file in /dev/shm named by the unique id, all zero at first; it loses its name when all ranks have it. Each word has
 * one writer. Whoever changes something rings the bells of those that may wait for it (a futex each).
 *
 * Collectives go in pieces. Piece number p, from 0 over the whole life: each rank copies its part to its cell p % 2,
 * once all have read piece p - 2, and says so (filled = p + 1); reads what it needs from the others' cells once they
 * have filled theirs; and says so (drained = p + 1).
 *
 * Messages go through a ring for each pair: the length first, then the bytes.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef SIM_NCCL_BOARD_H
#define SIM_NCCL_BOARD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SIM_RANKS 16
#define SIM_CELL_NBYTES ((size_t)1 << 16)
#define SIM_RING_NBYTES ((size_t)1 << 15)

/* A collective as one rank called it. */
typedef struct sim_call {
    atomic_ullong number; /* from 1 */
    int kind, type, op, root;
    double scalar;
    uint64_t count;
} sim_call;

typedef struct sim_ring {
    _Alignas(64) atomic_ullong written;
    _Alignas(64) atomic_ullong read;
    unsigned char bytes[SIM_RING_NBYTES];
} sim_ring;

typedef struct sim_seat {
    _Alignas(64) atomic_uint bell;
    atomic_int joined;    /* sim_seat_mark() */
    atomic_int connected; /* has called: 1 for anything, and one more for each sort of collective */
    atomic_int gone;      /* finalized or aborted */
    atomic_int splits;    /* begun; the two newest: */
    int colors[2], keys[2];
    atomic_ullong filled, drained;
    sim_call calls[2];
} sim_seat;

typedef struct sim_board {
    atomic_int size;
    sim_seat seats[SIM_RANKS];
    sim_ring rings[SIM_RANKS][SIM_RANKS]; /* [from][to] */
    unsigned char cells[SIM_RANKS][2][SIM_CELL_NBYTES];
} sim_board;

/* Maps the board of this file, which is made when it is not there. NULL when the system refuses. */
sim_board *sim_board_open(const char *path);
void sim_board_close(sim_board *board);
void sim_board_ring(sim_board *board, int rank);
void sim_board_ring_all(sim_board *board, int size);
/* Sleeps a moment, or until the rank's bell is not `heard` any more. */
void sim_board_sleep(sim_board *board, int rank, unsigned heard);

#endif
