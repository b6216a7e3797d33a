/* core/algo/parts.h - what algorithms are made of: slices, folding to a power of two, halving, rings, trees.
 *
 * Notation of costs: p ranks, a seconds per message, b seconds per byte, n bytes (as in select.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_ALGO_PARTS_H
#define KI_ALGO_PARTS_H

#include "algo.h"

static inline ki_ref ki_at(ki_buf buf, size_t offset)
{
    ki_ref ref = { buf, offset };
    return ref;
}

/* ref moved by count elements of nbytes. */
static inline ki_ref ki_plus(ki_ref ref, size_t count, size_t nbytes)
{
    ref.offset += count * nbytes;
    return ref;
}

static inline int ki_wrap(int rank, int size)
{
    return rank < 0 ? rank + size : rank >= size ? rank - size : rank;
}

static inline size_t ki_min(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Start of slice i when count elements are cut into parts nearly equal slices; the first ones are longer. i may be
 * parts. */
static inline size_t ki_slice(size_t count, int parts, int i)
{
    size_t n = (size_t)parts, k = (size_t)i;
    return count / n * k + ki_min(count % n, k);
}

/* ---- segments ---- */

/* A span of count elements in pieces: the last may be shorter. At most KI_SEGMENTS_MOST, so that plans stay small. */
#define KI_SEGMENTS_MOST 64
typedef struct ki_segments {
    size_t count, piece;
    int pieces; /* 0 when count is 0 */
} ki_segments;

/* wanted_nbytes 0: one piece. */
ki_segments ki_segments_of(size_t count, size_t nbytes, size_t wanted_nbytes);

static inline size_t ki_segment_start(const ki_segments *segments, int i)
{
    return segments->piece * (size_t)i;
}

static inline size_t ki_segment_count(const ki_segments *segments, int i)
{
    size_t start = ki_segment_start(segments, i);
    return start >= segments->count ? 0 : ki_min(segments->piece, segments->count - start);
}

/* ---- limiting what is in flight ---- */

/* Call ki_window_next() after each exchange: between every and 2 * every of them stay in flight. */
typedef struct ki_window {
    ki_plan *plan;
    int every, posted;
    size_t batch_start;
} ki_window;

static inline ki_window ki_window_of(ki_plan *plan, int every)
{
    ki_window window = { plan, every, 0, ki_plan_mark(plan) };
    return window;
}

static inline void ki_window_next(ki_window *window)
{
    if (++window->posted % window->every != 0)
        return;
    ki_plan_wait(window->plan, 0, window->batch_start);
    window->batch_start = ki_plan_mark(window->plan);
}

/* ---- folding to a power of two ---- */

/* q = 2^k <= p places, e = p - q. The 2e lowest ranks share e places in pairs; the odd one of a pair has none. */
typedef struct ki_fold {
    int q, e;
    int place; /* of this rank; -1: none */
} ki_fold;

ki_fold ki_fold_of(int size, int rank);

/* The rank that acts at a place. */
static inline int ki_fold_rank(const ki_fold *fold, int place)
{
    return place < fold->e ? 2 * place : place + fold->e;
}

/* Accumulated by two ranks before the first exchange? */
static inline bool ki_fold_is_pair(const ki_fold *fold, int place)
{
    return place < fold->e;
}

/* ---- reducing along the documented tree ---- */

/* What the logarithmic reductions work on. All count elements of the vector. */
typedef struct ki_work {
    const ki_algo_args *args;
    ki_plan *plan;
    size_t count;
    size_t raw_nbytes, acc_nbytes;
    bool is_identity;
    ki_fold fold;
    ki_ref acc;        /* accumulator; RECV itself where that is allowed and acc elements are raw elements */
    ki_ref other;      /* a partner's acc elements */
    ki_ref raw;        /* a partner's raw elements (other when is_identity) */
    ki_ref own;        /* own contribution, raw */
    bool is_loaded;    /* acc holds the own value; else it is still in own */
    bool is_raw_first; /* ranks without a partner in the fold send raw elements in the first exchange */
} ki_work;

/* Takes scratch. may_use_recv: recv has room for count elements on this rank. */
ki_work ki_work_of(const ki_algo_args *args, ki_plan *plan, bool may_use_recv);

/* The pairs of the fold: the odd rank sends its contribution (all of it; waits), the even one combines. */
void ki_fold_in(ki_work *work);

/* One exchange of elements [out, out + out_count) against [in, in + in_count) with the rank at a neighbouring place,
 * then acc[in] = tree(acc[in], theirs). mask is the distance. In the first exchange ranks send raw elements, which
 * are never longer. */
void ki_exchange(ki_work *work, int mask, size_t out, size_t out_count, size_t in, size_t in_count);

/* The elements that a place has after the exchanges at distances below mask, bounds[i] being the start of position i
 * of q. */
typedef struct ki_range {
    size_t first, last; /* positions [first, last) */
} ki_range;
ki_range ki_range_of(int q, int place, int mask);

/* dst (raw) = the finished elements [first, first + count) of the accumulator. */
void ki_finish(ki_work *work, ki_ref dst, size_t first, size_t count);

/* Recursive halving, distance 1 first: place v ends with position reversed(v), bounds[q + 1] in elements. */
void ki_halve(ki_work *work, const size_t *bounds);
/* The position where a place's result stands. */
static inline size_t ki_position_of(int q, int place)
{
    return ki_range_of(q, place, q).first;
}

/* ---- moving finished data ---- */

/* The block of each rank in a buffer: equal blocks, or counts and displacements. */
typedef struct ki_blocks {
    ki_buf buf;
    size_t nbytes;        /* of an element */
    size_t count;         /* equal blocks */
    const size_t *counts; /* NULL: equal blocks */
    const size_t *displs;
    size_t total; /* elements cut into nearly equal slices, when parts > 0 */
    int parts;
} ki_blocks;

ki_blocks ki_blocks_equal(ki_buf buf, size_t count, size_t nbytes);
ki_blocks ki_blocks_v(ki_buf buf, const size_t *counts, const size_t *displs, size_t nbytes);
ki_blocks ki_slices(ki_buf buf, size_t total, int parts, size_t nbytes);
ki_ref ki_block_at(const ki_blocks *blocks, int i);
size_t ki_block_nbytes(const ki_blocks *blocks, int i);

/* Ring all-gather: this rank has block me (its own index among size, neighbours being me - 1 and me + 1 at these
 * ranks) in place; gets all. */
void ki_ring_gather(ki_plan *plan, const ki_blocks *blocks, int size, int me, int left, int right);

/* Ring reduce-scatter of SEND: rank r's reduction of elements [bounds[r], bounds[r + 1]) goes to dst (raw).
 * segment_nbytes 0: whole blocks. Each message carries acc elements. */
void ki_ring_reduce(const ki_algo_args *args, ki_plan *plan, const size_t *bounds, ki_ref dst, size_t segment_nbytes);

/* A k-nomial tree over ranks renumbered from root: place 0 is the root; children of place v are v + d * mask. */
typedef struct ki_tree {
    int size, root, radix, place;
    int parent; /* rank, -1 on the root */
    int reach;  /* masks below this one have children; places [place, place + reach) are the subtree (cut at size) */
} ki_tree;
ki_tree ki_tree_of(int size, int rank, int root, int radix);
/* Calls of a loop over children, furthest (biggest subtree) first: mask and digit are the loop's state. Returns the
 * child's place, or -1. */
int ki_tree_next_child(const ki_tree *tree, int *mask, int *digit);
static inline int ki_tree_rank(const ki_tree *tree, int place)
{
    return ki_wrap(place + tree->root, tree->size);
}

/* Broadcast of count elements at buf down a tree, in segments. */
void ki_tree_broadcast(ki_plan *plan, const ki_tree *tree, ki_ref buf, size_t count, size_t nbytes,
                       size_t segment_nbytes);

/* Reduction along args->order: the lowest rank of each subtree collects. Returns the rank that ends with the result.
 * acc: where this rank accumulates. */
int ki_order_reduce(const ki_algo_args *args, ki_plan *plan, size_t count, ki_ref acc);

/* Every rank's raw contribution into scratch: sources for ki_plan_reduce(). Bruck, log2(p) messages. Returns the
 * first block; rank r's is ((r - rank) mod p) blocks further. */
ki_ref ki_gather_raw(const ki_algo_args *args, ki_plan *plan, size_t count, size_t nbytes);

/* Elements of raw data that rank r contributes to every other rank's block: sends all, receives into scratch,
 * evaluates the tree into dst.
 * window: exchanges in flight. bounds[size + 1] of blocks in SEND. */
void ki_direct_reduce(const ki_algo_args *args, ki_plan *plan, const size_t *bounds, ki_ref dst, int window);

/* Element bounds of the blocks of reduce_scatter(_v): ki_plan_numbers with size + 1 entries. NULL on failure. */
size_t *ki_block_bounds(const ki_algo_args *args, ki_plan *plan);
/* ... of nearly equal slices of count elements. */
size_t *ki_slice_bounds(ki_plan *plan, size_t count, int parts);

#endif
