/* core/algo/all_reduce_doubling.c - all_reduce in log2(p) exchanges (fold.c tells why the bits are the documented
 * ones).
 *
 * recursive_doubling exchanges whole vectors: fewest messages. rabenseifner halves them on the way (reduce-scatter) and
 * puts the finished parts together on the way back (all-gather): twice the messages, least bytes.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "list.h"
#include "parts.h"

/* The odd ranks of the fold get the result from their even partner. */
static void fold_out(ki_work *work)
{
    ki_plan *plan = work->plan;
    size_t nbytes = work->count * work->raw_nbytes;
    if (work->fold.place < 0)
        ki_plan_recv(plan, work->args->rank - 1, ki_at(KI_BUF_RECV, 0), nbytes);
    else if (ki_fold_is_pair(&work->fold, work->fold.place))
        ki_plan_send(plan, work->args->rank + 1, ki_at(KI_BUF_RECV, 0), nbytes);
}

static void emit_doubling(const ki_algo_args *args, ki_plan *plan)
{
    ki_work work = ki_work_of(args, plan, true);
    ki_fold_in(&work);
    if (work.fold.place >= 0) {
        for (int mask = 1; mask < work.fold.q; mask *= 2)
            ki_exchange(&work, mask, 0, work.count, 0, work.count);
        ki_finish(&work, ki_at(KI_BUF_RECV, 0), 0, work.count);
    }
    fold_out(&work);
}

/* Parts that were halved apart come together again, nearest to the end first. */
static void gather_halves(ki_work *work, const size_t *bounds)
{
    ki_plan *plan = work->plan;
    int q = work->fold.q, place = work->fold.place;
    size_t nbytes = work->raw_nbytes;
    for (int mask = q / 2; mask >= 1; mask /= 2) {
        ki_range all = ki_range_of(q, place, mask), mine = ki_range_of(q, place, mask * 2);
        ki_range theirs =
            mine.first == all.first ? (ki_range){ mine.last, all.last } : (ki_range){ all.first, mine.first };
        int peer = ki_fold_rank(&work->fold, place ^ mask);
        size_t start = ki_plan_mark(plan);
        ki_plan_recv(plan, peer, ki_at(KI_BUF_RECV, bounds[theirs.first] * nbytes),
                     (bounds[theirs.last] - bounds[theirs.first]) * nbytes);
        ki_plan_send(plan, peer, ki_at(KI_BUF_RECV, bounds[mine.first] * nbytes),
                     (bounds[mine.last] - bounds[mine.first]) * nbytes);
        ki_plan_wait(plan, start, ki_plan_mark(plan));
    }
}

static void emit_rabenseifner(const ki_algo_args *args, ki_plan *plan)
{
    ki_work work = ki_work_of(args, plan, true);
    ki_fold_in(&work);
    if (work.fold.place >= 0) {
        size_t *bounds = ki_slice_bounds(plan, work.count, work.fold.q);
        if (!bounds)
            return;
        ki_halve(&work, bounds);
        size_t at = ki_position_of(work.fold.q, work.fold.place);
        ki_finish(&work, ki_at(KI_BUF_RECV, bounds[at] * work.raw_nbytes), bounds[at], bounds[at + 1] - bounds[at]);
        gather_halves(&work, bounds);
    }
    fold_out(&work);
}

const ki_algo ki_all_reduce_recursive_doubling = {
    .name = "recursive_doubling",
    .kind = KITH_ALL_REDUCE,
    .is_deterministic = true,
    .needs_flat_order = true,
    .cost = "log2(p) (a + n b); p not a power of 2: + 2(a + n b)",
    .emit = emit_doubling,
};

const ki_algo ki_all_reduce_rabenseifner = {
    .name = "rabenseifner",
    .kind = KITH_ALL_REDUCE,
    .is_deterministic = true,
    .needs_flat_order = true,
    .cost = "2 log2(p) a + 2(p-1)/p n b; p not a power of 2: + 2(a + n b)",
    .emit = emit_rabenseifner,
};
