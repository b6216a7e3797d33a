/* core/algo/all_reduce_direct.c - all_reduce by evaluating the documented tree over raw contributions.
 *
 * linear: rank r owns slice r; everybody sends it that slice, it evaluates the tree and sends the result to everybody.
 * Two rounds of p-1 messages that are all in flight together: few waits, least bytes.
 * all_gather_reduce: everybody gets everything and evaluates the whole tree; for a few bytes, where messages are all
 * that counts.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "list.h"
#include "parts.h"

static void send_results(const ki_algo_args *args, ki_plan *plan, const size_t *bounds)
{
    int rank = args->rank, size = args->size;
    size_t nbytes = args->coll->nbytes;
    for (int k = 1; k < size; k++) {
        int to = ki_wrap(rank + k, size), from = ki_wrap(rank - k, size);
        ki_plan_recv(plan, from, ki_at(KI_BUF_RECV, bounds[from] * nbytes), (bounds[from + 1] - bounds[from]) * nbytes);
        ki_plan_send(plan, to, ki_at(KI_BUF_RECV, bounds[rank] * nbytes), (bounds[rank + 1] - bounds[rank]) * nbytes);
    }
}

static void emit_linear(const ki_algo_args *args, ki_plan *plan)
{
    size_t *bounds = ki_slice_bounds(plan, args->coll->count, args->size);
    if (!bounds)
        return;
    ki_direct_reduce(args, plan, bounds, ki_at(KI_BUF_RECV, bounds[args->rank] * args->coll->nbytes), args->size);
    send_results(args, plan, bounds);
}

static void emit_gather(const ki_algo_args *args, ki_plan *plan)
{
    size_t count = args->coll->count, nbytes = args->coll->nbytes;
    ki_ref all = ki_gather_raw(args, plan, count, nbytes);
    ki_ref *sources = ki_plan_reduce(plan, ki_at(KI_BUF_RECV, 0), count, args->size);
    for (int r = 0; sources && r < args->size; r++)
        sources[r] = ki_plus(all, (size_t)ki_wrap(r - args->rank, args->size), count * nbytes);
}

const ki_algo ki_all_reduce_linear = {
    .name = "linear",
    .kind = KITH_ALL_REDUCE,
    .is_deterministic = true,
    .cost = "2(p-1)a in 2 rounds + 2(p-1)/p n b",
    .emit = emit_linear,
};

const ki_algo ki_all_reduce_all_gather_reduce = {
    .name = "all_gather_reduce",
    .kind = KITH_ALL_REDUCE,
    .is_deterministic = true,
    .cost = "log2(p) a + (p-1) n b",
    .emit = emit_gather,
};
