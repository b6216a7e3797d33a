/* bench/floors/space.h - what the floors' processes share, and how they wait for each other.
 *
 * A flag has one writer, counts up, and has lines of its own. A cell is a line with a sequence number in front, then
 * the payload: up to 60 bytes travel in the line of the sequence number, so that one line that moves brings both;
 * longer payloads start at the next line.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef BENCH_FLOORS_SPACE_H
#define BENCH_FLOORS_SPACE_H

#include "../engine/driver.h"
#include "kernels.h"

#include <string.h>

#define FLOOR_LINE 64
#define FLOOR_IN_LINE (FLOOR_LINE - sizeof(uint32_t))

/* One process's view of the run. */
typedef struct floor_space {
    int rank, size;
    bool is_spinning;
    bench_flag *barrier; /* [size] */
    uint32_t barrier_count;
    unsigned char *mapped; /* buffers that all ranks see: [size][2][mapped_nbytes] */
    size_t mapped_nbytes;
    void *ordinary[2]; /* send and recv of this process alone */
} floor_space;

void floor_pause(const floor_space *space);

static inline void floor_await(const floor_space *space, const _Atomic uint32_t *flag, uint32_t value)
{
    while ((int32_t)(atomic_load_explicit(flag, memory_order_acquire) - value) < 0) {
        floor_pause(space);
    }
}

static inline void floor_publish(_Atomic uint32_t *flag, uint32_t value)
{
    atomic_store_explicit(flag, value, memory_order_release);
}

/* Every rank raises its flag and waits for the others'. */
static inline void floor_barrier(floor_space *space)
{
    uint32_t count = ++space->barrier_count;
    floor_publish(&space->barrier[space->rank].value, count);
    for (int r = 0; r < space->size; r++) {
        if (r != space->rank) {
            floor_await(space, &space->barrier[r].value, count);
        }
    }
}

static inline unsigned char *floor_cell_payload(unsigned char *cell, size_t nbytes)
{
    return cell + (nbytes <= FLOOR_IN_LINE ? sizeof(uint32_t) : FLOOR_LINE);
}

static inline void floor_cell_put(unsigned char *cell, const void *payload, size_t nbytes, uint32_t sequence)
{
    memcpy(floor_cell_payload(cell, nbytes), payload, nbytes);
    floor_publish((_Atomic uint32_t *)(void *)cell, sequence);
}

static inline const unsigned char *floor_cell_get(const floor_space *space, unsigned char *cell, size_t nbytes,
                                                  uint32_t sequence)
{
    floor_await(space, (const _Atomic uint32_t *)(void *)cell, sequence);
    return floor_cell_payload(cell, nbytes);
}

static inline void *floor_mapped(const floor_space *space, int rank, int is_recv)
{
    return space->mapped + ((size_t)rank * 2 + (size_t)is_recv) * space->mapped_nbytes;
}

/* Memory that the processes to be forked will share, zeroed. Ends the process when there is none. */
void *floor_shared_memory(size_t nbytes);

/* Buffers for bench_variant.allocate; self of the variant starts with a floor_space pointer. */
bool floor_allocate_ordinary(void *self, size_t nbytes, void **send, void **recv);
bool floor_allocate_mapped(void *self, size_t nbytes, void **send, void **recv);

#endif
