/* bench/floors/staged.h - the floor of ordinary buffers: nobody sees the other's memory, so everything passes through
 * a small shared buffer. For two ranks.
 *
 * Each direction has a ring of a few cells of one chunk. The sender copies a chunk into a cell; the receiver copies it
 * out or adds it to its own, and says that the cell is free. Both directions run at once, one chunk apart, so that a
 * rank fills its next cell while the other empties the last one. The best chunk depends on size and caches: the floor
 * is the minimum over all variants.
 *
 *   whole   all_reduce: both send their whole vector and both add it all
 *   halves  all_reduce: each adds one half and sends the sums back; less to add, twice the way
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef BENCH_FLOORS_STAGED_H
#define BENCH_FLOORS_STAGED_H

#include "space.h"

/* The cells of one chunk size; variants with the same chunk share them. */
typedef struct floor_ring {
    unsigned char *cells[2]; /* [sender] -> [cell_count] */
    bench_flag *taken;       /* [receiver] */
    size_t chunk;            /* bytes */
    uint32_t cell_count;     /* 4 or 8 */
    uint32_t put_count, get_count;
} floor_ring;

typedef struct floor_staged {
    floor_space *space; /* first */
    floor_ring *ring;
    bool is_halves, is_streaming;
} floor_staged;

/* Before the fork. */
void floor_ring_init(floor_ring *ring, size_t chunk);

bool floor_staged_can_run(void *self, bench_op op, size_t nbytes, int size);
bool floor_staged_run(void *self, const bench_call *call);

#endif
