/* bench/floors/staged.c
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "staged.h"

#define MOST_CELLS 8
#define RING_NBYTES ((size_t)1 << 20) /* long chunks have fewer cells, but the two kinds that halves sends need four */
#define SMALLEST_CHUNK 4096
#define MOST_CHUNKS 1024          /* a chunk this much smaller than the message cannot win */
#define STREAMING_FROM (1u << 20) /* nor can streaming stores inside the caches */

void floor_ring_init(floor_ring *ring, size_t chunk)
{
    *ring = (floor_ring){ .chunk = chunk, .cell_count = MOST_CELLS };
    while (ring->cell_count > 4 && ring->cell_count * chunk > RING_NBYTES) {
        ring->cell_count /= 2;
    }
    for (int sender = 0; sender < 2; sender++) {
        ring->cells[sender] = floor_shared_memory(ring->cell_count * (chunk + 2 * FLOOR_LINE));
    }
    ring->taken = floor_shared_memory(2 * sizeof(bench_flag));
}

bool floor_staged_can_run(void *self, bench_op op, size_t nbytes, int size)
{
    const floor_staged *staged = self;
    size_t chunk = staged->ring->chunk;
    if (size != 2 || op == BENCH_BARRIER || nbytes / chunk > MOST_CHUNKS ||
        (chunk > SMALLEST_CHUNK && nbytes < chunk)) {
        return false;
    }
    return (!staged->is_streaming || nbytes >= STREAMING_FROM) &&
           (!staged->is_halves || (op == BENCH_ALL_REDUCE && nbytes >= 2 * SMALLEST_CHUNK));
}

static unsigned char *ring_cell(const floor_ring *ring, int sender, uint32_t sequence)
{
    return ring->cells[sender] + (sequence % ring->cell_count) * (ring->chunk + 2 * FLOOR_LINE);
}

/* A free cell of mine, with room for a chunk. */
static unsigned char *acquire_cell(const floor_staged *staged)
{
    floor_ring *ring = staged->ring;
    uint32_t sequence = ++ring->put_count;
    floor_await(staged->space, &ring->taken[staged->space->rank ^ 1].value, sequence - ring->cell_count);
    return ring_cell(ring, staged->space->rank, sequence);
}

static void publish_cell(const floor_staged *staged, unsigned char *cell)
{
    floor_publish((_Atomic uint32_t *)(void *)cell, staged->ring->put_count);
}

static void put_chunk(const floor_staged *staged, const float *from, size_t count)
{
    unsigned char *cell = acquire_cell(staged);
    memcpy(floor_cell_payload(cell, count * sizeof(float)), from, count * sizeof(float));
    publish_cell(staged, cell);
}

static const float *get_chunk(const floor_staged *staged, size_t count)
{
    floor_ring *ring = staged->ring;
    uint32_t sequence = ++ring->get_count;
    unsigned char *cell = ring_cell(ring, staged->space->rank ^ 1, sequence);
    return (const float *)(const void *)floor_cell_get(staged->space, cell, count * sizeof(float), sequence);
}

static void release_chunk(const floor_staged *staged)
{
    floor_publish(&staged->ring->taken[staged->space->rank].value, staged->ring->get_count);
}

static size_t chunk_count(const floor_staged *staged, size_t count, size_t k)
{
    size_t chunk = staged->ring->chunk / sizeof(float);
    size_t left = count - k * chunk;
    return left < chunk ? left : chunk;
}

static size_t chunks_in(const floor_staged *staged, size_t count)
{
    size_t chunk = staged->ring->chunk / sizeof(float);
    return (count + chunk - 1) / chunk;
}

/* Sends put_count elements of `put` while get_count arrive; what arrives, plus addend where there is one, goes to
 * `get`. */
static void stream(const floor_staged *staged, const float *put, size_t put_count, float *get, const float *addend,
                   size_t get_count)
{
    size_t chunk = staged->ring->chunk / sizeof(float);
    size_t puts = chunks_in(staged, put_count);
    size_t gets = chunks_in(staged, get_count);
    for (size_t k = 0; k < puts || k <= gets; k++) {
        if (k < puts) {
            put_chunk(staged, put + k * chunk, chunk_count(staged, put_count, k));
        }
        if (k == 0 || k > gets) {
            continue;
        }
        size_t count = chunk_count(staged, get_count, k - 1);
        float *to = get + (k - 1) * chunk;
        const float *from = get_chunk(staged, count);
        if (addend != NULL) {
            floor_add(to, addend + (k - 1) * chunk, from, count, staged->is_streaming);
        } else {
            floor_copy(to, from, count * sizeof(float), staged->is_streaming);
        }
        release_chunk(staged);
    }
}

/* Adds a chunk of the other's contribution to my half, into my result and into the cell that brings the sum back. */
static void sum_chunk(const floor_staged *staged, const float *mine, float *result, size_t count)
{
    unsigned char *cell = acquire_cell(staged);
    float *sums = (float *)(void *)floor_cell_payload(cell, count * sizeof(float));
    floor_add_twice(result, sums, mine, get_chunk(staged, count), count, false);
    publish_cell(staged, cell);
    release_chunk(staged);
}

/* Contributions and sums share the ring in a fixed order, c0 c1 s0 c2 s1 ...: at step k a rank puts c[k], then gets
 * c[k-1] and puts s[k-1], then gets s[k-2]. Both halves have the same number of chunks,
 * or one differs by one. */
static void all_reduce_halves(const floor_staged *staged, const float *send, float *recv, size_t count)
{
    size_t chunk = staged->ring->chunk / sizeof(float);
    size_t first = count / 2;
    size_t start[2] = { 0, first }, length[2] = { first, count - first };
    int me = staged->space->rank, peer = me ^ 1;
    size_t mine = chunks_in(staged, length[me]), theirs = chunks_in(staged, length[peer]);
    size_t steps = (mine > theirs ? mine : theirs) + 2;
    for (size_t k = 0; k < steps; k++) {
        if (k < theirs) {
            put_chunk(staged, send + start[peer] + k * chunk, chunk_count(staged, length[peer], k));
        }
        if (k >= 1 && k - 1 < mine) {
            size_t at = start[me] + (k - 1) * chunk;
            sum_chunk(staged, send + at, recv + at, chunk_count(staged, length[me], k - 1));
        }
        if (k >= 2 && k - 2 < theirs) {
            size_t sums = chunk_count(staged, length[peer], k - 2);
            floor_copy(recv + start[peer] + (k - 2) * chunk, get_chunk(staged, sums), sums * sizeof(float),
                       staged->is_streaming);
            release_chunk(staged);
        }
    }
}

static void run_pair(const floor_staged *staged, const bench_call *call)
{
    size_t count = call->shape->count;
    if (call->shape->op == BENCH_SENDRECV) {
        stream(staged, call->send, count, call->recv, NULL, count);
    } else if (call->shape->rank == 0) {
        stream(staged, call->send, count, NULL, NULL, 0);
        stream(staged, NULL, 0, call->recv, NULL, count);
    } else {
        stream(staged, NULL, 0, call->recv, NULL, count);
        stream(staged, call->send, count, NULL, NULL, 0);
    }
}

bool floor_staged_run(void *self, const bench_call *call)
{
    const floor_staged *staged = self;
    const bench_shape *shape = call->shape;
    const float *send = call->send;
    float *recv = call->recv;
    size_t block = shape->block;
    size_t mine = (size_t)shape->rank * block, theirs = block - mine;
    switch (shape->op) {
    case BENCH_ALL_REDUCE:
        if (staged->is_halves) {
            all_reduce_halves(staged, send, recv, shape->count);
        } else {
            stream(staged, send, shape->count, recv, send, shape->count);
        }
        break;
    case BENCH_REDUCE_SCATTER:
        stream(staged, send + theirs, block, recv, send + mine, block);
        break;
    case BENCH_ALL_GATHER:
        stream(staged, send, block, recv + theirs, NULL, block);
        floor_copy(recv + mine, send, block * sizeof(float), staged->is_streaming);
        break;
    case BENCH_ALL_TO_ALL:
        stream(staged, send + theirs, block, recv + theirs, NULL, block);
        floor_copy(recv + mine, send + mine, block * sizeof(float), staged->is_streaming);
        break;
    case BENCH_BROADCAST:
        stream(staged, send, shape->send_count, recv, NULL, shape->recv_count);
        break;
    case BENCH_REDUCE:
        stream(staged, send, shape->rank == 0 ? 0 : shape->count, recv, send, shape->recv_count);
        break;
    default:
        run_pair(staged, call);
        break;
    }
    return true;
}
