/* backends/shm/staged.c - large collectives on ordinary buffers: pieces through rings, one round a piece.
 *
 * Every rank owns a ring of bytes in the arena. Positions in it are 64-bit numbers that only grow and mean the same on
 * all ranks: a collective takes `rounds` pieces of chunk_nbytes from ring_position on, whether a rank has something to
 * write or not. In round k a writer puts piece k of its blocks at base + k * chunk and stores the end of it in
 * `published`; a reader that has taken piece k of every writer stores the same number in `consumed`. A piece may be
 * written where the ring's previous turn was consumed by all others.
 *
 *     writer   fill 0 | fill 1 | fill 2 ...          published
 *     reader            take 0 | take 1 | ...        consumed
 *
 * A rank that does not read says at once that it consumed everything, so it never holds up a writer. Blocks for
 * different readers lie side by side in a piece. In place: what round k writes into recv lies, in send, in pieces of
 * rounds up to k, which were filled before; the one exception (reduce_scatter_v into the front of send) reduces its own
 * piece from a copy.
 *
 * Rings stay in the shared cache; results larger than that are written around it (shm_copy).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "internal.h"

#define WORK_NBYTES 4194304 /* moved at most in one step, so that deadlines and other groups get their turn */
#define CHUNK_LEAST 32768
#define CHUNK_SYMMETRIC 524288
#define CHUNK_ROOTED 262144

/* Bytes of a piece of a block that a round moves, for a chunk. */
static size_t piece_of(const shm_group *group, size_t chunk)
{
    if (group->coll.traits->is_multicast)
        return chunk;
    return chunk / (size_t)(group->size - 1) / SHM_LINE * SHM_LINE;
}

/* Where all ranks write and read, a piece of half a cache costs the fewest hand-shakes and leaves nobody idle. From
 * one root to the others smaller pieces overlap the two copies. */
static size_t usual_chunk(const shm_group *group)
{
    const shm_coll *coll = &group->coll;
    bool is_rooted = coll->traits->is_root_writing || coll->traits->is_root_reading;
    size_t quarter = (size_t)group->sizes.ring_nbytes / 4, most = is_rooted ? CHUNK_ROOTED : CHUNK_SYMMETRIC;
    size_t block = shm_min(coll->block_nbytes, CHUNK_SYMMETRIC); /* the product cannot overflow */
    size_t row = coll->traits->is_multicast ? block : block * (size_t)(group->size - 1);
    if (group->is_oversubscribed) /* a hand-shake is a context switch */
        return quarter;
    return shm_min(row > CHUNK_LEAST ? row : CHUNK_LEAST, shm_min(most, quarter));
}

/* A power of two between what the path needs and half of the ring. */
static size_t chunk_of(const shm_group *group)
{
    size_t chunk = group->instance->settings.chunk_nbytes;
    if (chunk == SIZE_MAX)
        chunk = usual_chunk(group);
    size_t most = (size_t)group->sizes.ring_nbytes / 2, least = 4096, power = 4096;
    while (piece_of(group, least) < SHM_LINE && least < most)
        least *= 2;
    while (power < chunk || power < least)
        power *= 2;
    return shm_min(power, most);
}

void shm_staged_begin(shm_group *group)
{
    shm_coll *coll = &group->coll;
    coll->chunk_nbytes = chunk_of(group);
    coll->piece_nbytes = piece_of(group, coll->chunk_nbytes);
    coll->rounds = coll->block_nbytes / coll->piece_nbytes + (coll->block_nbytes % coll->piece_nbytes != 0);
    coll->base = shm_round_up(group->ring_position, coll->chunk_nbytes);
    coll->filled = coll->is_writer ? 0 : coll->rounds;
    coll->drained = coll->is_reader ? 0 : coll->rounds;
    coll->next_peer = 0;
    shm_span out = shm_out(group, group->rank), in = shm_in(group, group->rank);
    coll->own_nbytes = coll->has_own && out.data != in.data ? shm_min(out.nbytes, in.nbytes) : 0;
    coll->own_at = 0;
    group->ring_position = coll->base + coll->rounds * coll->chunk_nbytes;
    if (!coll->is_reader) {
        shm_store(&group->blocks[group->rank].consumed.value, group->ring_position);
        shm_wake(group);
    }
}

/* The part of a block that round k moves. */
static shm_span piece(const shm_coll *coll, shm_span block, uint64_t round)
{
    size_t start = (size_t)round * coll->piece_nbytes;
    if (start >= block.nbytes)
        return (shm_span){ NULL, 0 };
    return (shm_span){ block.data + start, shm_min(coll->piece_nbytes, block.nbytes - start) };
}

bool shm_ring_is_free(shm_group *group, uint64_t end)
{
    if (end <= group->consumed_min + group->sizes.ring_nbytes)
        return true;
    uint64_t least = UINT64_MAX;
    for (int r = 0; r < group->size; r++) {
        uint64_t consumed = r == group->rank ? UINT64_MAX : shm_load(&group->blocks[r].consumed.value);
        least = consumed < least ? consumed : least;
    }
    group->consumed_min = least;
    return end <= least + group->sizes.ring_nbytes;
}

/* Copies most bytes of the own block. */
static void copy_own(shm_group *group, size_t most)
{
    shm_coll *coll = &group->coll;
    size_t part = shm_min(most, coll->own_nbytes - coll->own_at);
    if (part == 0)
        return;
    unsigned char *to = shm_in(group, group->rank).data + coll->own_at;
    shm_copy(group, to, shm_out(group, group->rank).data + coll->own_at, part, shm_result_nbytes(group));
    coll->own_at += part;
}

static void fill(shm_group *group)
{
    shm_coll *coll = &group->coll;
    uint64_t position = coll->base + coll->filled * coll->chunk_nbytes;
    unsigned char *to = shm_ring_at(group, group->rank, position);
    if (coll->traits->is_multicast) {
        shm_span from = piece(coll, shm_out(group, group->rank), coll->filled);
        if (from.nbytes != 0)
            memcpy(to, from.data, from.nbytes);
    } else {
        for (int r = 0; r < group->size; r++) {
            if (r == group->rank)
                continue;
            shm_span from = piece(coll, shm_out(group, r), coll->filled);
            if (from.nbytes != 0)
                memcpy(to + (size_t)shm_place(group->rank, r) * coll->piece_nbytes, from.data, from.nbytes);
        }
    }
    coll->filled++;
    shm_store(&group->blocks[group->rank].published.value, position + coll->chunk_nbytes);
    shm_wake(group);
    copy_own(group, coll->piece_nbytes);
}

/* Where the current round's piece of `writer` for this rank lies in the ring of `writer`. */
static const unsigned char *piece_in_ring(const shm_group *group, int writer)
{
    const shm_coll *coll = &group->coll;
    const unsigned char *at = shm_ring_at(group, writer, coll->base + coll->drained * coll->chunk_nbytes);
    return coll->traits->is_multicast ? at : at + (size_t)shm_place(writer, group->rank) * coll->piece_nbytes;
}

static void reduce_round(shm_group *group)
{
    shm_coll *coll = &group->coll;
    shm_span to = piece(coll, shm_in(group, group->rank), coll->drained);
    if (to.nbytes == 0)
        return;
    const unsigned char *own = piece(coll, shm_out(group, group->rank), coll->drained).data;
    if (coll->is_own_staged)
        own = memcpy(group->scratch, own, to.nbytes);
    for (int r = 0; r < group->size; r++)
        group->sources[r] = r == group->rank ? own : piece_in_ring(group, r);
    group->targets[0] = to.data;
    const kith_be_reducer *reducer = coll->args->reducer;
    reducer->reduce(reducer, group->sources, group->size, group->targets, 1, to.nbytes / reducer->nbytes,
                    shm_result_nbytes(group) >= group->stream_nbytes ? KITH_BE_REDUCE_STREAM : 0);
}

static bool is_writing(const shm_group *group, int rank)
{
    const shm_coll *coll = &group->coll;
    if (rank == group->rank)
        return false;
    if (coll->traits->is_root_writing)
        return rank == coll->args->root;
    return true;
}

/* Takes the current round from every writer. False while one has not published it. */
static bool take(shm_group *group)
{
    shm_coll *coll = &group->coll;
    uint64_t end = coll->base + (coll->drained + 1) * coll->chunk_nbytes;
    for (int r = coll->next_peer; r < group->size; r++) {
        coll->next_peer = r;
        if (!is_writing(group, r))
            continue;
        if (shm_load(&group->blocks[r].published.value) < end)
            return false;
        shm_span to = piece(coll, shm_in(group, r), coll->drained);
        if (!coll->traits->is_reducing && to.nbytes != 0)
            shm_copy(group, to.data, piece_in_ring(group, r), to.nbytes, shm_result_nbytes(group));
    }
    if (coll->traits->is_reducing)
        reduce_round(group);
    coll->next_peer = 0;
    coll->drained++;
    shm_store(&group->blocks[group->rank].consumed.value, end);
    shm_wake(group);
    if (!coll->is_writer)
        copy_own(group, coll->piece_nbytes);
    return true;
}

bool shm_staged_step(shm_group *group)
{
    shm_coll *coll = &group->coll;
    size_t work = 0;
    bool is_moving = true;
    while (is_moving && work < WORK_NBYTES) {
        is_moving = false;
        /* One round ahead of the readers: the peer's piece is on its way while this rank writes. */
        if (coll->filled < coll->rounds && coll->filled <= coll->drained + 1 &&
            shm_ring_is_free(group, coll->base + (coll->filled + 1) * coll->chunk_nbytes)) {
            fill(group);
            is_moving = true;
        }
        if (coll->drained < coll->rounds && (!coll->is_writer || coll->drained < coll->filled) && take(group))
            is_moving = true;
        if (is_moving) {
            work += coll->chunk_nbytes;
            coll->moves++;
        }
    }
    if (coll->filled < coll->rounds || coll->drained < coll->rounds)
        return false;
    copy_own(group, WORK_NBYTES);
    if (coll->own_at < coll->own_nbytes)
        return false;
    shm_store(&group->blocks[group->rank].done.value, coll->number);
    shm_wake(group);
    return true;
}
