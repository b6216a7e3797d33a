/* core/algo/gather_scatter.c - gather, scatter and their forms with counts.
 *
 * linear: root exchanges one message with each rank. binomial: blocks of a subtree travel packed, in order of places
 * (ranks renumbered from root); only root's end can wrap around the group's size, and goes through scratch then. With
 * counts of their own only linear is possible: a rank knows its own count alone.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "list.h"
#include "parts.h"

/* The block of each rank on root. */
static ki_blocks root_blocks(const ki_algo_args *args)
{
    const kith_be_coll *coll = args->coll;
    if (coll->kind == KITH_GATHER_V)
        return ki_blocks_v(KI_BUF_RECV, coll->recv_counts, coll->recv_displs, coll->nbytes);
    if (coll->kind == KITH_SCATTER_V)
        return ki_blocks_v(KI_BUF_SEND, coll->send_counts, coll->send_displs, coll->nbytes);
    return ki_blocks_equal(coll->kind == KITH_GATHER ? KI_BUF_RECV : KI_BUF_SEND, coll->count, coll->nbytes);
}

static void emit_gather_linear(const ki_algo_args *args, ki_plan *plan)
{
    const kith_be_coll *coll = args->coll;
    if (args->rank != coll->root) {
        ki_plan_send(plan, coll->root, ki_at(KI_BUF_SEND, 0), coll->count * coll->nbytes);
        return;
    }
    ki_blocks blocks = root_blocks(args);
    for (int r = 0; r < args->size; r++)
        if (r != args->rank)
            ki_plan_recv(plan, r, ki_block_at(&blocks, r), ki_block_nbytes(&blocks, r));
    ki_plan_copy(plan, ki_block_at(&blocks, args->rank), ki_at(KI_BUF_SEND, 0), coll->count * coll->nbytes);
}

static void emit_scatter_linear(const ki_algo_args *args, ki_plan *plan)
{
    const kith_be_coll *coll = args->coll;
    if (args->rank != coll->root) {
        ki_plan_recv(plan, coll->root, ki_at(KI_BUF_RECV, 0), coll->count * coll->nbytes);
        return;
    }
    ki_blocks blocks = root_blocks(args);
    for (int r = 0; r < args->size; r++)
        if (r != args->rank)
            ki_plan_send(plan, r, ki_block_at(&blocks, r), ki_block_nbytes(&blocks, r));
    ki_plan_copy(plan, ki_at(KI_BUF_RECV, 0), ki_block_at(&blocks, args->rank), coll->count * coll->nbytes);
}

/* ---- binomial ---- */

/* A subtree's blocks on root: the places [child, child + span) as ranks [first, first + until_end), then from rank 0
 * on. */
typedef struct subtree {
    size_t span, until_end;
    int first;
} subtree;

static subtree span_of(const ki_tree *tree, int child, int mask)
{
    subtree result = { (size_t)(mask < tree->size - child ? mask : tree->size - child), 0, ki_tree_rank(tree, child) };
    result.until_end = ki_min(result.span, (size_t)(tree->size - result.first));
    return result;
}

/* Blocks that this rank handles for its subtree, the own one first. */
static size_t subtree_blocks(const ki_tree *tree)
{
    return (size_t)(tree->reach < tree->size - tree->place ? tree->reach : tree->size - tree->place);
}

static void gather_at_root(const ki_tree *tree, ki_plan *plan, size_t block)
{
    int mask = 0, digit = 0, child;
    while ((child = ki_tree_next_child(tree, &mask, &digit)) >= 0) {
        subtree span = span_of(tree, child, mask);
        ki_ref to = ki_at(KI_BUF_RECV, (size_t)span.first * block);
        if (span.until_end == span.span) {
            ki_plan_recv(plan, ki_tree_rank(tree, child), to, span.span * block);
            continue;
        }
        ki_ref packed = ki_plan_temp(plan, span.span, block);
        size_t start = ki_plan_mark(plan);
        ki_plan_recv(plan, ki_tree_rank(tree, child), packed, span.span * block);
        ki_plan_wait(plan, start, ki_plan_mark(plan));
        ki_plan_copy(plan, to, packed, span.until_end * block);
        ki_plan_copy(plan, ki_at(KI_BUF_RECV, 0), ki_plus(packed, span.until_end, block),
                     (span.span - span.until_end) * block);
    }
    ki_plan_copy(plan, ki_at(KI_BUF_RECV, (size_t)tree->root * block), ki_at(KI_BUF_SEND, 0), block);
}

static void emit_gather_binomial(const ki_algo_args *args, ki_plan *plan)
{
    size_t block = args->coll->count * args->coll->nbytes;
    ki_tree tree = ki_tree_of(args->size, args->rank, args->coll->root, 2);
    if (tree.parent < 0) {
        gather_at_root(&tree, plan, block);
        return;
    }
    size_t blocks = subtree_blocks(&tree);
    ki_ref mine = ki_at(KI_BUF_SEND, 0);
    if (blocks > 1) {
        mine = ki_plan_temp(plan, blocks, block);
        int mask = 0, digit = 0, child;
        while ((child = ki_tree_next_child(&tree, &mask, &digit)) >= 0)
            ki_plan_recv(plan, ki_tree_rank(&tree, child), ki_plus(mine, (size_t)(child - tree.place), block),
                         span_of(&tree, child, mask).span * block);
        ki_plan_copy(plan, mine, ki_at(KI_BUF_SEND, 0), block);
        ki_plan_wait_all(plan);
    }
    ki_plan_send(plan, tree.parent, mine, blocks * block);
}

static void scatter_at_root(const ki_tree *tree, ki_plan *plan, size_t block)
{
    int mask = 0, digit = 0, child;
    while ((child = ki_tree_next_child(tree, &mask, &digit)) >= 0) {
        subtree span = span_of(tree, child, mask);
        ki_ref from = ki_at(KI_BUF_SEND, (size_t)span.first * block);
        if (span.until_end < span.span) {
            ki_ref packed = ki_plan_temp(plan, span.span, block);
            ki_plan_copy(plan, packed, from, span.until_end * block);
            ki_plan_copy(plan, ki_plus(packed, span.until_end, block), ki_at(KI_BUF_SEND, 0),
                         (span.span - span.until_end) * block);
            from = packed;
        }
        ki_plan_send(plan, ki_tree_rank(tree, child), from, span.span * block);
    }
    ki_plan_copy(plan, ki_at(KI_BUF_RECV, 0), ki_at(KI_BUF_SEND, (size_t)tree->root * block), block);
}

static void emit_scatter_binomial(const ki_algo_args *args, ki_plan *plan)
{
    size_t block = args->coll->count * args->coll->nbytes;
    ki_tree tree = ki_tree_of(args->size, args->rank, args->coll->root, 2);
    if (tree.parent < 0) {
        scatter_at_root(&tree, plan, block);
        return;
    }
    size_t blocks = subtree_blocks(&tree);
    ki_ref mine = blocks > 1 ? ki_plan_temp(plan, blocks, block) : ki_at(KI_BUF_RECV, 0);
    ki_plan_recv(plan, tree.parent, mine, blocks * block);
    if (blocks == 1)
        return;
    ki_plan_wait_all(plan);
    int mask = 0, digit = 0, child;
    while ((child = ki_tree_next_child(&tree, &mask, &digit)) >= 0)
        ki_plan_send(plan, ki_tree_rank(&tree, child), ki_plus(mine, (size_t)(child - tree.place), block),
                     span_of(&tree, child, mask).span * block);
    ki_plan_copy(plan, ki_at(KI_BUF_RECV, 0), mine, block);
}

const ki_algo ki_gather_linear = {
    .name = "linear",
    .kind = KITH_GATHER,
    .is_deterministic = true,
    .cost = "(p-1)a at root in 1 round + (p-1)/p n b",
    .emit = emit_gather_linear,
};

const ki_algo ki_gather_binomial = {
    .name = "binomial",
    .kind = KITH_GATHER,
    .is_deterministic = true,
    .cost = "log2(p) a + (p-1)/p n b",
    .emit = emit_gather_binomial,
};

const ki_algo ki_gather_v_linear = {
    .name = "linear",
    .kind = KITH_GATHER_V,
    .is_deterministic = true,
    .cost = "(p-1)a at root in 1 round + (p-1)/p n b",
    .emit = emit_gather_linear,
};

const ki_algo ki_scatter_linear = {
    .name = "linear",
    .kind = KITH_SCATTER,
    .is_deterministic = true,
    .cost = "(p-1)a at root in 1 round + (p-1)/p n b",
    .emit = emit_scatter_linear,
};

const ki_algo ki_scatter_binomial = {
    .name = "binomial",
    .kind = KITH_SCATTER,
    .is_deterministic = true,
    .cost = "log2(p) a + (p-1)/p n b",
    .emit = emit_scatter_binomial,
};

const ki_algo ki_scatter_v_linear = {
    .name = "linear",
    .kind = KITH_SCATTER_V,
    .is_deterministic = true,
    .cost = "(p-1)a at root in 1 round + (p-1)/p n b",
    .emit = emit_scatter_linear,
};
