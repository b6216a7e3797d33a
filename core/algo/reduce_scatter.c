/* core/algo/reduce_scatter.c - reduce_scatter and reduce_scatter_v, which differ in the blocks' sizes only.
 *
 * linear, pairwise: each rank gets the raw contributions to its block and evaluates the documented tree; linear has
 * many exchanges in flight, pairwise two.
 * recursive_halving: the blocks are laid out in the order in which halving at distance 1, 2, 4, ... gives them away
 * (position of a place: its bits reversed), so that every exchange is one span. A place that stands for a pair has the
 * blocks of both.
 * ring: see ring.c.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "list.h"
#include "parts.h"

enum { WINDOW = 32 };

static void emit_direct(const ki_algo_args *args, ki_plan *plan, int window)
{
    size_t *bounds = ki_block_bounds(args, plan);
    if (bounds)
        ki_direct_reduce(args, plan, bounds, ki_at(KI_BUF_RECV, 0), window);
}

static void emit_linear(const ki_algo_args *args, ki_plan *plan)
{
    emit_direct(args, plan, WINDOW);
}

static void emit_pairwise(const ki_algo_args *args, ki_plan *plan)
{
    emit_direct(args, plan, 1);
}

static void emit_ring(const ki_algo_args *args, ki_plan *plan)
{
    size_t *bounds = ki_block_bounds(args, plan);
    if (bounds)
        ki_ring_reduce(args, plan, bounds, ki_at(KI_BUF_RECV, 0), args->segment_nbytes);
}

/* ---- recursive halving ---- */

static size_t block_count(const ki_algo_args *args, int r)
{
    return args->coll->kind == KITH_REDUCE_SCATTER_V ? args->coll->recv_counts[r] : args->coll->count;
}

/* Elements that the place at a position has: of one rank, or of a pair. */
static size_t place_count(const ki_algo_args *args, const ki_fold *fold, int place)
{
    int rank = ki_fold_rank(fold, place);
    return block_count(args, rank) + (ki_fold_is_pair(fold, place) ? block_count(args, rank + 1) : 0);
}

/* starts[r] of rank r's block in SEND for r <= p, then bounds of positions. Positions are reversed places, and
 * reversing is its own inverse. */
static size_t *layout(const ki_algo_args *args, ki_plan *plan, const ki_fold *fold)
{
    size_t *starts = ki_plan_numbers(plan, (size_t)args->size + 1 + (size_t)fold->q + 1);
    if (!starts)
        return NULL;
    starts[0] = 0;
    for (int r = 0; r < args->size; r++)
        starts[r + 1] = starts[r] + block_count(args, r);
    size_t *bounds = starts + args->size + 1;
    bounds[0] = 0;
    for (int i = 0; i < fold->q; i++)
        bounds[i + 1] = bounds[i] + place_count(args, fold, (int)ki_position_of(fold->q, i));
    return starts;
}

/* acc or other (acc elements, in positions) = raw vector (in rank order). */
static void load_blocks(const ki_work *work, const size_t *starts, ki_ref to, ki_ref from)
{
    const size_t *bounds = starts + work->args->size + 1;
    for (int place = 0; place < work->fold.q; place++) {
        size_t first = starts[ki_fold_rank(&work->fold, place)];
        ki_plan_load(work->plan, ki_plus(to, bounds[ki_position_of(work->fold.q, place)], work->acc_nbytes),
                     ki_plus(from, first, work->raw_nbytes), place_count(work->args, &work->fold, place));
    }
}

/* The odd one of a pair: gives everything, gets its block. */
static void emit_guest(const ki_algo_args *args, ki_plan *plan, size_t total)
{
    size_t nbytes = args->coll->nbytes, start = ki_plan_mark(plan);
    ki_plan_send(plan, args->rank - 1, ki_at(KI_BUF_SEND, 0), total * nbytes);
    ki_plan_wait(plan, start, ki_plan_mark(plan));
    ki_plan_recv(plan, args->rank - 1, ki_at(KI_BUF_RECV, 0), block_count(args, args->rank) * nbytes);
}

/* Results of a place: the own block to recv, the guest's to the guest. */
static void give_results(ki_work *work, size_t start)
{
    ki_plan *plan = work->plan;
    int rank = work->args->rank;
    size_t own = block_count(work->args, rank);
    ki_plan_store(plan, ki_at(KI_BUF_RECV, 0), ki_plus(work->acc, start, work->acc_nbytes), own);
    if (!ki_fold_is_pair(&work->fold, work->fold.place))
        return;
    size_t theirs = block_count(work->args, rank + 1);
    ki_ref result = work->is_identity ? ki_plus(work->acc, start + own, work->acc_nbytes) : work->raw;
    if (!work->is_identity)
        ki_plan_store(plan, result, ki_plus(work->acc, start + own, work->acc_nbytes), theirs);
    ki_plan_send(plan, rank + 1, result, theirs * work->raw_nbytes);
}

static ki_work work_of(const ki_algo_args *args, ki_plan *plan, size_t total)
{
    ki_work work = { .args = args,
                     .plan = plan,
                     .count = total,
                     .raw_nbytes = args->coll->nbytes,
                     .acc_nbytes = args->reducer->acc_nbytes,
                     .is_identity = args->reducer->is_identity,
                     .fold = ki_fold_of(args->size, args->rank),
                     .own = ki_at(KI_BUF_SEND, 0),
                     .is_loaded = true };
    if (work.fold.place >= 0) {
        work.acc = ki_plan_temp(plan, total, work.acc_nbytes);
        work.other = ki_plan_temp(plan, total, work.acc_nbytes);
        if (ki_fold_is_pair(&work.fold, work.fold.place))
            work.raw = ki_plan_temp(plan, total, work.raw_nbytes);
    }
    return work;
}

static void emit_halving(const ki_algo_args *args, ki_plan *plan)
{
    ki_fold fold = ki_fold_of(args->size, args->rank);
    size_t *starts = layout(args, plan, &fold);
    if (!starts)
        return;
    size_t total = starts[args->size], *bounds = starts + args->size + 1, mark = ki_plan_mark(plan);
    ki_work work = work_of(args, plan, total);
    if (fold.place < 0) {
        emit_guest(args, plan, total);
        return;
    }
    bool is_pair = ki_fold_is_pair(&fold, fold.place);
    if (is_pair)
        ki_plan_recv(plan, args->rank + 1, work.raw, total * work.raw_nbytes);
    load_blocks(&work, starts, work.acc, work.own);
    if (is_pair) {
        ki_plan_wait(plan, mark, ki_plan_mark(plan));
        load_blocks(&work, starts, work.other, work.raw);
        ki_plan_combine(plan, work.acc, work.acc, work.other, total);
    }
    ki_halve(&work, bounds);
    give_results(&work, bounds[ki_position_of(fold.q, fold.place)]);
}

#define KI_REDUCE_SCATTER(kind_, suffix)                                                                               \
    const ki_algo ki_reduce_scatter##suffix##_linear = {                                                               \
        .name = "linear",                                                                                              \
        .kind = kind_,                                                                                                 \
        .is_deterministic = true,                                                                                      \
        .cost = "(p-1)a in 1 round + (p-1)/p n b",                                                                     \
        .emit = emit_linear,                                                                                           \
    };                                                                                                                 \
    const ki_algo ki_reduce_scatter##suffix##_pairwise = {                                                             \
        .name = "pairwise",                                                                                            \
        .kind = kind_,                                                                                                 \
        .is_deterministic = true,                                                                                      \
        .cost = "(p-1)a + (p-1)/p n b",                                                                                \
        .emit = emit_pairwise,                                                                                         \
    };                                                                                                                 \
    const ki_algo ki_reduce_scatter##suffix##_recursive_halving = {                                                    \
        .name = "recursive_halving",                                                                                   \
        .kind = kind_,                                                                                                 \
        .is_deterministic = true,                                                                                      \
        .needs_flat_order = true,                                                                                      \
        .cost = "log2(p) a + (p-1)/p n b; p not a power of 2: + 2a + (1 + 1/p) n b",                                   \
        .emit = emit_halving,                                                                                          \
    };                                                                                                                 \
    const ki_algo ki_reduce_scatter##suffix##_ring = {                                                                 \
        .name = "ring",                                                                                                \
        .kind = kind_,                                                                                                 \
        .needs_commutative = true,                                                                                     \
        .cost = "(p-1)a + (p-1)/p n b",                                                                                \
        .emit = emit_ring,                                                                                             \
    };

KI_REDUCE_SCATTER(KITH_REDUCE_SCATTER, )
KI_REDUCE_SCATTER(KITH_REDUCE_SCATTER_V, _v)
