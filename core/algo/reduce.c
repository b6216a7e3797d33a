/* core/algo/reduce.c - reduce: the result on one rank only.
 *
 * linear: root gets all contributions and evaluates the tree.
 * binomial: along the documented tree (tree.c); whoever ends with the result sends it to root.
 * knomial: a flatter tree from root; another order, so not deterministic.
 * scatter_gather: halving as in fold.c, then every place sends its part to root.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "list.h"
#include "parts.h"

static void emit_linear(const ki_algo_args *args, ki_plan *plan)
{
    size_t count = args->coll->count, nbytes = args->coll->nbytes;
    int root = args->coll->root;
    if (args->rank != root) {
        ki_plan_send(plan, root, ki_at(KI_BUF_SEND, 0), count * nbytes);
        return;
    }
    ki_ref theirs = ki_plan_temp(plan, (size_t)args->size, count * nbytes);
    for (int r = 0; r < args->size; r++)
        if (r != root)
            ki_plan_recv(plan, r, ki_plus(theirs, (size_t)r, count * nbytes), count * nbytes);
    ki_plan_wait_all(plan);
    ki_ref *sources = ki_plan_reduce(plan, ki_at(KI_BUF_RECV, 0), count, args->size);
    for (int r = 0; sources && r < args->size; r++)
        sources[r] = r == root ? ki_at(KI_BUF_SEND, 0) : ki_plus(theirs, (size_t)r, count * nbytes);
}

/* Where a rank may accumulate: recv belongs to root alone. */
static ki_ref accumulator(const ki_algo_args *args, ki_plan *plan)
{
    if (args->rank == args->coll->root && args->reducer->is_identity)
        return ki_at(KI_BUF_RECV, 0);
    return ki_plan_temp(plan, args->coll->count, args->reducer->acc_nbytes);
}

static void emit_binomial(const ki_algo_args *args, ki_plan *plan)
{
    size_t count = args->coll->count, nbytes = args->coll->nbytes;
    int root = args->coll->root;
    ki_ref acc = accumulator(args, plan), result = ki_at(KI_BUF_RECV, 0);
    int top = ki_order_reduce(args, plan, count, acc);
    if (args->rank == top && top != root) {
        result = args->reducer->is_identity ? acc : ki_plan_temp(plan, count, nbytes);
        if (!args->reducer->is_identity)
            ki_plan_store(plan, result, acc, count);
        ki_plan_send(plan, root, result, count * nbytes);
    } else if (args->rank == root && top != root) {
        ki_plan_recv(plan, top, result, count * nbytes);
    } else if (args->rank == root) {
        ki_plan_store(plan, result, acc, count);
    }
}

/* Receives from all children at once, combines nearest first. */
static void emit_knomial(const ki_algo_args *args, ki_plan *plan)
{
    size_t count = args->coll->count, acc_nbytes = args->reducer->acc_nbytes;
    ki_tree tree = ki_tree_of(args->size, args->rank, args->coll->root, args->radix > 0 ? args->radix : 4);
    ki_ref acc = accumulator(args, plan), first = ki_plan_temp(plan, 0, 1);
    size_t children = 0, start = ki_plan_mark(plan);
    int mask = 0, digit = 0, child;
    while ((child = ki_tree_next_child(&tree, &mask, &digit)) >= 0) {
        ki_ref theirs = ki_plan_temp(plan, count, acc_nbytes);
        first = children++ == 0 ? theirs : first;
        ki_plan_recv(plan, ki_tree_rank(&tree, child), theirs, count * acc_nbytes);
    }
    size_t stride = (count * acc_nbytes + 63) & ~(size_t)63;
    ki_plan_load(plan, acc, ki_at(KI_BUF_SEND, 0), count);
    for (size_t i = children; count > 0 && i-- > 0;) {
        ki_plan_wait(plan, start + i, start + i + 1);
        ki_plan_combine(plan, acc, acc, ki_plus(first, i, stride), count);
    }
    if (tree.parent >= 0)
        ki_plan_send(plan, tree.parent, acc, count * acc_nbytes);
    else
        ki_plan_store(plan, ki_at(KI_BUF_RECV, 0), acc, count);
}

/* Root's receives: the part of every place, in order of places. */
static void collect_parts(ki_work *work, const size_t *bounds)
{
    for (int place = 0; place < work->fold.q; place++) {
        size_t at = ki_position_of(work->fold.q, place);
        if (place != work->fold.place)
            ki_plan_recv(work->plan, ki_fold_rank(&work->fold, place),
                         ki_at(KI_BUF_RECV, bounds[at] * work->raw_nbytes),
                         (bounds[at + 1] - bounds[at]) * work->raw_nbytes);
    }
}

static void emit_scatter_gather(const ki_algo_args *args, ki_plan *plan)
{
    int root = args->coll->root;
    ki_work work = ki_work_of(args, plan, args->rank == root);
    size_t *bounds = ki_slice_bounds(plan, work.count, work.fold.q);
    if (!bounds)
        return;
    ki_fold_in(&work);
    size_t at = 0, part = 0;
    if (work.fold.place >= 0) {
        ki_halve(&work, bounds);
        at = ki_position_of(work.fold.q, work.fold.place);
        part = bounds[at + 1] - bounds[at];
    }
    if (args->rank == root) {
        if (work.fold.place >= 0)
            ki_finish(&work, ki_at(KI_BUF_RECV, bounds[at] * work.raw_nbytes), bounds[at], part);
        collect_parts(&work, bounds);
    } else if (work.fold.place >= 0) {
        ki_ref result = work.is_identity ? ki_plus(work.acc, bounds[at], work.acc_nbytes) : work.raw;
        ki_finish(&work, result, bounds[at], part);
        ki_plan_send(plan, root, result, part * work.raw_nbytes);
    }
}

const ki_algo ki_reduce_linear = {
    .name = "linear",
    .kind = KITH_REDUCE,
    .is_deterministic = true,
    .cost = "(p-1)a at root in 1 round + (p-1) n b",
    .emit = emit_linear,
};

const ki_algo ki_reduce_binomial = {
    .name = "binomial",
    .kind = KITH_REDUCE,
    .is_deterministic = true,
    .cost = "log2(p) (a + n b)",
    .emit = emit_binomial,
};

const ki_algo ki_reduce_knomial = {
    .name = "knomial",
    .kind = KITH_REDUCE,
    .needs_commutative = true,
    .cost = "log_k(p) (k-1) (a + n b)",
    .emit = emit_knomial,
};

const ki_algo ki_reduce_scatter_gather = {
    .name = "scatter_gather",
    .kind = KITH_REDUCE,
    .is_deterministic = true,
    .needs_flat_order = true,
    .cost = "(log2(p) + p-1 at root) a + 2(p-1)/p n b; p not a power of 2: + a + n b",
    .emit = emit_scatter_gather,
};
