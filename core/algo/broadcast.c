/* core/algo/broadcast.c - broadcast. The buffer is recv on every rank.
 *
 * linear: root to everybody. knomial: a tree of radix k, in segments on request. chain_segmented: from rank to rank,
 * each passing on a segment while the next one comes. scatter_all_gather: slices down a binomial tree, then around a
 * ring.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "list.h"
#include "parts.h"

static void emit_linear(const ki_algo_args *args, ki_plan *plan)
{
    ki_tree tree = ki_tree_of(args->size, args->rank, args->coll->root, args->size);
    ki_tree_broadcast(plan, &tree, ki_at(KI_BUF_RECV, 0), args->coll->count, args->coll->nbytes, 0);
}

static void emit_knomial(const ki_algo_args *args, ki_plan *plan)
{
    ki_tree tree = ki_tree_of(args->size, args->rank, args->coll->root, args->radix > 0 ? args->radix : 4);
    ki_tree_broadcast(plan, &tree, ki_at(KI_BUF_RECV, 0), args->coll->count, args->coll->nbytes, args->segment_nbytes);
}

static void emit_binomial(const ki_algo_args *args, ki_plan *plan)
{
    ki_tree tree = ki_tree_of(args->size, args->rank, args->coll->root, 2);
    ki_tree_broadcast(plan, &tree, ki_at(KI_BUF_RECV, 0), args->coll->count, args->coll->nbytes, args->segment_nbytes);
}

static void emit_chain(const ki_algo_args *args, ki_plan *plan)
{
    int place = ki_wrap(args->rank - args->coll->root, args->size);
    int before = ki_wrap(args->rank - 1, args->size), after = ki_wrap(args->rank + 1, args->size);
    size_t nbytes = args->coll->nbytes, start = ki_plan_mark(plan);
    size_t wanted = args->segment_nbytes > 0 ? args->segment_nbytes : (size_t)128 << 10;
    ki_segments segments = ki_segments_of(args->coll->count, nbytes, wanted);
    for (int s = 0; place > 0 && s < segments.pieces; s++)
        ki_plan_recv(plan, before, ki_at(KI_BUF_RECV, ki_segment_start(&segments, s) * nbytes),
                     ki_segment_count(&segments, s) * nbytes);
    for (int s = 0; place < args->size - 1 && s < segments.pieces; s++) {
        if (place > 0)
            ki_plan_wait(plan, start + (size_t)s, start + (size_t)s + 1);
        ki_plan_send(plan, after, ki_at(KI_BUF_RECV, ki_segment_start(&segments, s) * nbytes),
                     ki_segment_count(&segments, s) * nbytes);
    }
}

/* Slices of the places [first, first + count), cut at the group's size. */
static size_t span_nbytes(const ki_algo_args *args, int first, int count)
{
    int last = count < args->size - first ? first + count : args->size;
    size_t n = args->coll->count;
    return (ki_slice(n, args->size, last) - ki_slice(n, args->size, first)) * args->coll->nbytes;
}

static void emit_scatter_all_gather(const ki_algo_args *args, ki_plan *plan)
{
    const kith_be_coll *coll = args->coll;
    ki_tree tree = ki_tree_of(args->size, args->rank, coll->root, 2);
    ki_blocks slices = ki_slices(KI_BUF_RECV, coll->count, args->size, coll->nbytes);
    if (tree.parent >= 0)
        ki_plan_recv(plan, tree.parent, ki_block_at(&slices, tree.place), span_nbytes(args, tree.place, tree.reach));
    ki_plan_wait_all(plan);
    int mask = 0, digit = 0, child;
    while ((child = ki_tree_next_child(&tree, &mask, &digit)) >= 0)
        ki_plan_send(plan, ki_tree_rank(&tree, child), ki_block_at(&slices, child), span_nbytes(args, child, mask));
    ki_plan_wait_all(plan); /* the ring brings the children's slices again */
    ki_ring_gather(plan, &slices, args->size, tree.place, ki_wrap(args->rank - 1, args->size),
                   ki_wrap(args->rank + 1, args->size));
}

const ki_algo ki_broadcast_linear = {
    .name = "linear",
    .kind = KITH_BROADCAST,
    .is_deterministic = true,
    .cost = "(p-1)(a + n b) at root",
    .emit = emit_linear,
};

const ki_algo ki_broadcast_binomial = {
    .name = "binomial",
    .kind = KITH_BROADCAST,
    .is_deterministic = true,
    .cost = "log2(p) (a + n b)",
    .emit = emit_binomial,
};

const ki_algo ki_broadcast_knomial = {
    .name = "knomial",
    .kind = KITH_BROADCAST,
    .is_deterministic = true,
    .cost = "log_k(p) (a + (k-1) n b)",
    .emit = emit_knomial,
};

const ki_algo ki_broadcast_chain_segmented = {
    .name = "chain_segmented",
    .kind = KITH_BROADCAST,
    .is_deterministic = true,
    .cost = "(p + s - 2)(a + n b / s), s segments",
    .emit = emit_chain,
};

const ki_algo ki_broadcast_scatter_all_gather = {
    .name = "scatter_all_gather",
    .kind = KITH_BROADCAST,
    .is_deterministic = true,
    .cost = "(log2(p) + p-1)a + 2(p-1)/p n b",
    .emit = emit_scatter_all_gather,
};
