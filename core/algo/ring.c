/* core/algo/ring.c - moving blocks around a ring, whole or in segments.
 *
 * Ring reduce-scatter, step k of p-1: send the partial result of block rank-1-k to the right, receive that of block
 * rank-2-k from the left and add the own contribution to it. After the last step the own block is complete. Each block
 * is combined in an order of its own (it starts one rank to the right of its owner), so this is not the documented
 * tree, and the operator must commute.
 *
 * Two scratch blocks alternate: step k receives into k%2 and step k+1 sends from there. Segment s of a step is sent on
 * as soon as it was received and combined, so segments of neighbouring steps overlap. A segment covers the same span of
 * every block, so that receiving segment s needs exactly that the send of segment s from the same scratch block is
 * over.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "parts.h"

ki_segments ki_segments_of(size_t count, size_t nbytes, size_t wanted_nbytes)
{
    ki_segments segments = { count, count, count > 0 };
    if (count == 0 || wanted_nbytes == 0)
        return segments;
    size_t least = (count - 1) / KI_SEGMENTS_MOST + 1, piece = wanted_nbytes / nbytes;
    segments.piece = piece < least ? least : ki_min(piece, count);
    segments.pieces = (int)((count - 1) / segments.piece + 1);
    return segments;
}

void ki_ring_gather(ki_plan *plan, const ki_blocks *blocks, int size, int me, int left, int right)
{
    if (size == 1)
        return;
    size_t first = ki_plan_mark(plan), next = 0;
    int incoming = ki_wrap(me - 1, size);
    ki_plan_recv(plan, left, ki_block_at(blocks, incoming), ki_block_nbytes(blocks, incoming));
    size_t last = ki_plan_mark(plan);
    ki_plan_send(plan, right, ki_block_at(blocks, me), ki_block_nbytes(blocks, me));
    for (int k = 0; k < size - 1; k++) {
        int after = ki_wrap(incoming - 1, size);
        next = ki_plan_mark(plan);
        if (k < size - 2)
            ki_plan_recv(plan, left, ki_block_at(blocks, after), ki_block_nbytes(blocks, after));
        size_t next_last = ki_plan_mark(plan);
        ki_plan_wait(plan, first, last);
        if (k < size - 2)
            ki_plan_send(plan, right, ki_block_at(blocks, incoming), ki_block_nbytes(blocks, incoming));
        first = next;
        last = next_last;
        incoming = after;
    }
}

/* What a ring reduction works on. */
typedef struct ring_state {
    const ki_algo_args *args;
    ki_plan *plan;
    const size_t *bounds;
    ki_segments segments; /* of the longest block */
    ki_ref scratch[2];
    ki_ref own; /* own contribution to a segment, acc; unused when acc elements are raw elements */
    size_t raw_nbytes, acc_nbytes;
    int left, right;
    size_t sent[KI_SEGMENTS_MOST], received[KI_SEGMENTS_MOST]; /* marks of the newest message of a segment */
} ring_state;

/* Elements of segment s of a block; *start: where it begins in the block. */
static size_t segment_of(const ring_state *ring, int block, int s, size_t *start)
{
    size_t count = ring->bounds[block + 1] - ring->bounds[block];
    *start = ki_segment_start(&ring->segments, s);
    return *start >= count ? 0 : ki_min(ring->segments.piece, count - *start);
}

static ring_state ring_of(const ki_algo_args *args, ki_plan *plan, const size_t *bounds, size_t segment_nbytes)
{
    size_t longest = 0;
    for (int r = 0; r < args->size; r++)
        if (bounds[r + 1] - bounds[r] > longest)
            longest = bounds[r + 1] - bounds[r];
    size_t acc_nbytes = args->reducer->acc_nbytes;
    ring_state ring = { .args = args,
                        .plan = plan,
                        .bounds = bounds,
                        .raw_nbytes = args->reducer->base.nbytes,
                        .acc_nbytes = acc_nbytes,
                        .left = ki_wrap(args->rank - 1, args->size),
                        .right = ki_wrap(args->rank + 1, args->size) };
    ring.segments = ki_segments_of(longest, acc_nbytes, segment_nbytes);
    ring.scratch[0] = ki_plan_temp(plan, longest, acc_nbytes);
    ring.scratch[1] = ki_plan_temp(plan, longest, acc_nbytes);
    if (!args->reducer->is_identity)
        ring.own = ki_plan_temp(plan, ring.segments.piece, acc_nbytes);
    return ring;
}

static void receive(ring_state *ring, int k, int s)
{
    size_t start, count = segment_of(ring, ki_wrap(ring->args->rank - 2 - k, ring->args->size), s, &start);
    ring->received[s] = ki_plan_mark(ring->plan);
    ki_plan_recv(ring->plan, ring->left, ki_plus(ring->scratch[k % 2], start, ring->acc_nbytes),
                 count * ring->acc_nbytes);
}

static void send(ring_state *ring, int k, int s)
{
    int block = ki_wrap(ring->args->rank - 1 - k, ring->args->size);
    size_t start, count = segment_of(ring, block, s, &start);
    ki_ref from = ki_plus(ring->scratch[(k + 1) % 2], start, ring->acc_nbytes);
    if (k == 0) {
        ki_ref raw = ki_at(KI_BUF_SEND, (ring->bounds[block] + start) * ring->raw_nbytes);
        if (ring->args->reducer->is_identity)
            from = raw;
        else
            ki_plan_load(ring->plan, from, raw, count);
    }
    ring->sent[s] = ki_plan_mark(ring->plan);
    ki_plan_send(ring->plan, ring->right, from, count * ring->acc_nbytes);
}

/* Adds the own contribution to what step k received. */
static void add_own(ring_state *ring, int k, int s)
{
    int block = ki_wrap(ring->args->rank - 2 - k, ring->args->size);
    size_t start, count = segment_of(ring, block, s, &start);
    ki_ref partial = ki_plus(ring->scratch[k % 2], start, ring->acc_nbytes);
    ki_ref own = ki_at(KI_BUF_SEND, (ring->bounds[block] + start) * ring->raw_nbytes);
    if (!ring->args->reducer->is_identity) {
        ki_plan_load(ring->plan, ring->own, own, count);
        own = ring->own;
    }
    ki_plan_combine(ring->plan, partial, partial, own, count);
}

/* Waits for the message at a mark, if one was appended there before the mark end. */
static void wait_one(ki_plan *plan, size_t mark, size_t end)
{
    ki_plan_wait(plan, mark, ki_min(mark + 1, end));
}

/* One segment of one step: posts the next receive, takes this one, combines, passes on. */
static void advance(ring_state *ring, int k, int s, ki_ref dst)
{
    ki_plan *plan = ring->plan;
    int rank = ring->args->rank, size = ring->args->size, last = size - 2;
    size_t start, count = segment_of(ring, ki_wrap(rank - 2 - k, size), s, &start);
    size_t mark = ring->received[s];
    if (k < last) {
        size_t sent_start, sent_count = segment_of(ring, ki_wrap(rank - 1 - k, size), s, &sent_start);
        if (sent_count > 0)
            wait_one(plan, ring->sent[s], ki_plan_mark(plan));
        receive(ring, k + 1, s);
    }
    if (count > 0)
        wait_one(plan, mark, ki_plan_mark(plan));
    add_own(ring, k, s);
    if (k < last)
        send(ring, k + 1, s);
    else
        ki_plan_store(plan, ki_plus(dst, start, ring->raw_nbytes),
                      ki_plus(ring->scratch[k % 2], start, ring->acc_nbytes), count);
}

void ki_ring_reduce(const ki_algo_args *args, ki_plan *plan, const size_t *bounds, ki_ref dst, size_t segment_nbytes)
{
    if (args->size == 1) {
        ki_ref *source = ki_plan_reduce(plan, dst, bounds[1], 1);
        if (source)
            source[0] = ki_at(KI_BUF_SEND, 0);
        return;
    }
    ring_state ring = ring_of(args, plan, bounds, segment_nbytes);
    size_t first = ki_plan_mark(plan);
    for (int s = 0; s < ring.segments.pieces; s++) {
        receive(&ring, 0, s);
        send(&ring, 0, s);
    }
    if (args->size == 2) /* the only step stores the result, perhaps in place of what is being sent */
        ki_plan_wait(plan, first, ki_plan_mark(plan));
    for (int k = 0; k < args->size - 1; k++)
        for (int s = 0; s < ring.segments.pieces; s++)
            advance(&ring, k, s, dst);
}
