/* backends/shm/slices.c - all_reduce and reduce of three ranks and more on ordinary buffers.
 *
 * In rounds as in staged.c, but a round has two halves. First every rank publishes a piece of its whole input. Then
 * each rank reduces its slice of the piece from all rings, in the documented order, and publishes the result;
 * everybody (or root alone) copies the other slices out. Each rank so reads 1/p of every input instead of all of it.
 *
 *     piece 0 | slice 0 | piece 1 | slice 1 | ...    positions in each rank's ring, chunk_nbytes each
 *
 * A rank publishes piece k + 1 before it waits for the slices of round k, so that nobody idles at the turn.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "internal.h"

#define WORK_NBYTES 4194304

void shm_slices_begin(shm_group *group)
{
    shm_coll *coll = &group->coll;
    size_t chunk = group->instance->settings.chunk_nbytes;
    if (chunk == SIZE_MAX)
        chunk = group->is_oversubscribed ? group->sizes.ring_nbytes / 4 : 262144;
    size_t power = 4096;
    while (power < chunk && power < group->sizes.ring_nbytes / 4)
        power *= 2;
    coll->chunk_nbytes = coll->piece_nbytes = shm_min(power, (size_t)group->sizes.ring_nbytes / 4);
    coll->rounds = coll->block_nbytes / coll->piece_nbytes + (coll->block_nbytes % coll->piece_nbytes != 0);
    coll->base = shm_round_up(group->ring_position, coll->chunk_nbytes);
    coll->filled = coll->reduced = coll->drained = 0;
    coll->next_peer = 0;
    group->ring_position = coll->base + 2 * coll->rounds * coll->chunk_nbytes;
}

/* Bytes of round k's piece. */
static size_t piece_nbytes(const shm_coll *coll, uint64_t round)
{
    return shm_min(coll->piece_nbytes, coll->block_nbytes - (size_t)round * coll->piece_nbytes);
}

/* Slice r of a piece: whole lines, all of nearly the same size. */
static void slice_of(const shm_group *group, uint64_t round, int rank, size_t *start, size_t *nbytes)
{
    size_t piece = piece_nbytes(&group->coll, round);
    size_t each = shm_round_up((piece + (size_t)group->size - 1) / (size_t)group->size, SHM_LINE);
    *start = shm_min(each * (size_t)rank, piece);
    *nbytes = shm_min(each, piece - *start);
}

static bool has_all(shm_group *group, uint64_t end)
{
    shm_coll *coll = &group->coll;
    for (int r = coll->next_peer; r < group->size; r++) {
        coll->next_peer = r;
        if (r != group->rank && shm_load(&group->blocks[r].published.value) < end)
            return false;
    }
    coll->next_peer = 0;
    return true;
}

static uint64_t piece_at(const shm_coll *coll, uint64_t round)
{
    return coll->base + 2 * round * coll->chunk_nbytes;
}

static uint64_t slice_at(const shm_coll *coll, uint64_t round)
{
    return piece_at(coll, round) + coll->chunk_nbytes;
}

static void publish(shm_group *group, uint64_t end)
{
    shm_store(&group->blocks[group->rank].published.value, end);
    shm_wake(group);
}

/* Says up to where this rank needs nothing any more: pieces are used up by its reduction, slices by copying them out.
 * */
static void say_consumed(shm_group *group)
{
    const shm_coll *coll = &group->coll;
    uint64_t position = coll->drained == coll->reduced ? piece_at(coll, coll->drained) : slice_at(coll, coll->drained);
    shm_store(&group->blocks[group->rank].consumed.value, position);
    shm_wake(group);
}

static void fill(shm_group *group)
{
    shm_coll *coll = &group->coll;
    uint64_t position = piece_at(coll, coll->filled);
    const unsigned char *from = shm_out(group, group->rank).data + (size_t)coll->filled * coll->piece_nbytes;
    unsigned char *to = shm_ring_at(group, group->rank, position);
    size_t piece = piece_nbytes(coll, coll->filled), start, nbytes;
    slice_of(group, coll->filled, group->rank, &start, &nbytes);
    memcpy(to, from, start);
    memcpy(to + start + nbytes, from + start + nbytes, piece - start - nbytes);
    coll->filled++;
    publish(group, position + coll->chunk_nbytes);
}

static void reduce_slice(shm_group *group)
{
    shm_coll *coll = &group->coll;
    uint64_t round = coll->reduced;
    size_t start, nbytes, offset = (size_t)round * coll->piece_nbytes;
    slice_of(group, round, group->rank, &start, &nbytes);
    for (int r = 0; r < group->size; r++)
        group->sources[r] = r == group->rank ? shm_out(group, r).data + offset + start
                                             : shm_ring_at(group, r, piece_at(coll, round)) + start;
    bool is_all = !coll->traits->is_root_reading;
    int targets = 0;
    if (coll->is_reader)
        group->targets[targets++] = shm_in(group, group->rank).data + offset + start;
    if (is_all || !coll->is_reader)
        group->targets[targets++] = shm_ring_at(group, group->rank, slice_at(coll, round));
    const kith_be_reducer *reducer = coll->args->reducer;
    if (nbytes != 0)
        reducer->reduce(reducer, group->sources, group->size, group->targets, targets, nbytes / reducer->nbytes, 0);
    coll->reduced++;
    coll->next_peer = 0;
    publish(group, slice_at(coll, round) + coll->chunk_nbytes);
}

static void drain(shm_group *group)
{
    shm_coll *coll = &group->coll;
    uint64_t round = coll->drained;
    for (int k = 1; coll->is_reader && k < group->size; k++) {
        int r = (group->rank + k) % group->size;
        size_t start, nbytes;
        slice_of(group, round, r, &start, &nbytes);
        if (nbytes != 0)
            shm_copy(group, shm_in(group, group->rank).data + (size_t)round * coll->piece_nbytes + start,
                     shm_ring_at(group, r, slice_at(coll, round)), nbytes, coll->block_nbytes);
    }
    coll->drained++;
}

/* The next thing that can be done. False when there is nothing. */
static bool advance(shm_group *group)
{
    shm_coll *coll = &group->coll;
    if (coll->filled < coll->rounds && coll->filled == coll->reduced &&
        shm_ring_is_free(group, slice_at(coll, coll->filled))) {
        fill(group);
        return true;
    }
    if (coll->reduced < coll->filled && has_all(group, slice_at(coll, coll->reduced)) &&
        shm_ring_is_free(group, piece_at(coll, coll->reduced + 1))) {
        reduce_slice(group);
        say_consumed(group);
        return true;
    }
    coll->next_peer = 0;
    if (coll->drained < coll->reduced && (!coll->is_reader || has_all(group, piece_at(coll, coll->drained + 1)))) {
        drain(group);
        say_consumed(group);
        return true;
    }
    coll->next_peer = 0;
    return false;
}

bool shm_slices_step(shm_group *group)
{
    shm_coll *coll = &group->coll;
    size_t work = 0;
    while (work < WORK_NBYTES && advance(group)) {
        work += coll->chunk_nbytes;
        coll->moves++;
    }
    if (coll->drained < coll->rounds)
        return false;
    shm_store(&group->blocks[group->rank].done.value, coll->number);
    shm_wake(group);
    return true;
}
