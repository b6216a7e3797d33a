/* core/algo/fold.c - reductions that are the documented tree by construction.
 *
 * Let q be the largest power of two <= p and e = p - q. First the 2e lowest ranks combine in pairs (0,1), (2,3), ...:
 * the odd rank hands its contribution to the even one and is out until the end. The q ranks that are left stand at
 * places 0 .. q-1, in rank order. Then places exchange at distance 1, 2, 4, ... and combine, the lower place being the
 * left operand: after distance d, a place holds the value of the subtree over its 2d neighbours. That is the tree of
 * kith/coll.h; the usual order of halving (distance q/2 first) would be another one.
 *
 *     p = 5:   (0,1) -> place 0;  2, 3, 4 -> places 1, 2, 3;   distance 1: {0,1} {2,3};   distance 2: {0..3}
 *
 * When vectors are halved while they are exchanged, place v keeps the lower half where its bit is 0; so it ends with
 * the part at position "v with its bits reversed".
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "parts.h"

ki_fold ki_fold_of(int size, int rank)
{
    ki_fold fold = { 1, 0, 0 };
    while (fold.q <= size / 2)
        fold.q *= 2;
    fold.e = size - fold.q;
    if (rank >= 2 * fold.e)
        fold.place = rank - fold.e;
    else
        fold.place = rank % 2 == 0 ? rank / 2 : -1;
    return fold;
}

ki_work ki_work_of(const ki_algo_args *args, ki_plan *plan, bool may_use_recv)
{
    const ki_reducer *reducer = args->reducer;
    ki_work work = { .args = args,
                     .plan = plan,
                     .count = args->coll->count,
                     .raw_nbytes = reducer->base.nbytes,
                     .acc_nbytes = reducer->acc_nbytes,
                     .is_identity = reducer->is_identity,
                     .fold = ki_fold_of(args->size, args->rank),
                     .own = ki_at(KI_BUF_SEND, 0),
                     .is_raw_first = true };
    if (work.fold.place < 0)
        return work; /* only sends and receives user memory */
    work.acc =
        work.is_identity && may_use_recv ? ki_at(KI_BUF_RECV, 0) : ki_plan_temp(plan, work.count, work.acc_nbytes);
    if (args->size == 1)
        return work;
    work.other = ki_plan_temp(plan, work.count, work.acc_nbytes);
    work.raw = work.is_identity ? work.other : ki_plan_temp(plan, work.count, work.raw_nbytes);
    return work;
}

/* acc[in] = own value (op) theirs, in rank order. The own value still stands in the user's buffer before the first
 * exchange. */
static void combine(ki_work *work, size_t in, size_t count, bool is_theirs_raw, bool is_own_left)
{
    ki_plan *plan = work->plan;
    ki_ref acc = ki_plus(work->acc, in, work->acc_nbytes), own = acc;
    if (is_theirs_raw && !work->is_identity)
        ki_plan_load(plan, work->other, work->raw, count);
    if (!work->is_loaded && work->is_identity)
        own = ki_plus(work->own, in, work->raw_nbytes);
    ki_plan_combine(plan, acc, is_own_left ? own : work->other, is_own_left ? work->other : own, count);
    work->is_loaded = true;
}

void ki_fold_in(ki_work *work)
{
    ki_plan *plan = work->plan;
    int rank = work->args->rank, place = work->fold.place;
    size_t start = ki_plan_mark(plan);
    if (place < 0) {
        ki_plan_send(plan, rank - 1, work->own, work->count * work->raw_nbytes);
        ki_plan_wait(plan, start, ki_plan_mark(plan));
    } else if (ki_fold_is_pair(&work->fold, place)) {
        ki_plan_recv(plan, rank + 1, work->raw, work->count * work->raw_nbytes);
        if (!work->is_identity)
            ki_plan_load(plan, work->acc, work->own, work->count);
        ki_plan_wait(plan, start, ki_plan_mark(plan));
        combine(work, 0, work->count, true, true);
    }
}

void ki_exchange(ki_work *work, int mask, size_t out, size_t out_count, size_t in, size_t in_count)
{
    ki_plan *plan = work->plan;
    int place = work->fold.place, partner = place ^ mask, peer = ki_fold_rank(&work->fold, partner);
    bool is_theirs_raw = work->is_raw_first && mask == 1 && !ki_fold_is_pair(&work->fold, partner);
    size_t start = ki_plan_mark(plan);
    if (is_theirs_raw)
        ki_plan_recv(plan, peer, work->raw, in_count * work->raw_nbytes);
    else
        ki_plan_recv(plan, peer, work->other, in_count * work->acc_nbytes);
    if (work->is_loaded)
        ki_plan_send(plan, peer, ki_plus(work->acc, out, work->acc_nbytes), out_count * work->acc_nbytes);
    else
        ki_plan_send(plan, peer, ki_plus(work->own, out, work->raw_nbytes), out_count * work->raw_nbytes);
    if (!work->is_loaded && !work->is_identity)
        ki_plan_load(plan, ki_plus(work->acc, in, work->acc_nbytes), ki_plus(work->own, in, work->raw_nbytes),
                     in_count);
    ki_plan_wait(plan, start, ki_plan_mark(plan));
    combine(work, in, in_count, is_theirs_raw, place < partner);
}

void ki_finish(ki_work *work, ki_ref dst, size_t first, size_t count)
{
    ki_ref acc = ki_plus(work->acc, first, work->acc_nbytes);
    if (!work->is_loaded)
        ki_plan_load(work->plan, acc, ki_plus(work->own, first, work->raw_nbytes), count);
    ki_plan_store(work->plan, dst, acc, count);
}

ki_range ki_range_of(int q, int place, int mask)
{
    ki_range range = { 0, (size_t)q };
    for (int m = 1; m < mask; m *= 2) {
        size_t middle = (range.first + range.last) / 2;
        if (place & m)
            range.first = middle;
        else
            range.last = middle;
    }
    return range;
}

void ki_halve(ki_work *work, const size_t *bounds)
{
    int q = work->fold.q, place = work->fold.place;
    for (int mask = 1; mask < q; mask *= 2) {
        ki_range all = ki_range_of(q, place, mask), keep = ki_range_of(q, place, mask * 2);
        ki_range give =
            keep.first == all.first ? (ki_range){ keep.last, all.last } : (ki_range){ all.first, keep.first };
        ki_exchange(work, mask, bounds[give.first], bounds[give.last] - bounds[give.first], bounds[keep.first],
                    bounds[keep.last] - bounds[keep.first]);
    }
}
