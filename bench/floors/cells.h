/* bench/floors/cells.h - the floor of small messages: everything travels in one cell.
 *
 * Each rank writes its contribution into a cell of its own and reads the cells of the others. Cells are
 * double-buffered: to finish an operation a rank has seen everybody's cell of it, so nobody is more than one operation
 * behind. broadcast and reduce have no such answer: who writes waits, eight cells later, until the readers have passed.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef BENCH_FLOORS_CELLS_H
#define BENCH_FLOORS_CELLS_H

#include "space.h"

#define FLOOR_CELL_MAX 65536 /* largest payload */

typedef struct floor_cells {
    floor_space *space;       /* first */
    unsigned char *exchange;  /* [size][2] cells */
    unsigned char *broadcast; /* [8] cells */
    unsigned char *pair;      /* ping_pong: [2 directions][2] cells */
    unsigned char *reduce;    /* [size][8] cells */
    bench_flag *taken;        /* [size]: broadcasts read */
    bench_flag *summed;       /* [1]: reductions whose cells the root has read */
    uint32_t exchange_count, broadcast_count, reduce_count, pair_count;
} floor_cells;

/* Before the fork. */
void floor_cells_init(floor_cells *cells, floor_space *space);

bool floor_cells_can_run(void *self, bench_op op, size_t nbytes, int size);
bool floor_cells_run(void *self, const bench_call *call);

#endif
