/* core/algo/direct.c - reductions that collect raw contributions and evaluate the documented tree in one place.
 *
 * They give the documented bits for every group, also for the order of groups that span hosts, and round once without
 * sending accumulators: for half-precision types they move the fewest bytes.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "parts.h"

/* The own block, which is also written when it is the place of the result. With recv == send and blocks of different
 * sizes the two can overlap by a part: then the contribution moves to scratch first. */
static ki_ref own_block(const ki_algo_args *args, ki_plan *plan, size_t start, size_t count, ki_ref dst)
{
    const kith_be_coll *coll = args->coll;
    size_t nbytes = args->reducer->base.nbytes;
    ki_ref own = ki_at(KI_BUF_SEND, start * nbytes);
    bool is_apart = coll->send != coll->recv || dst.buf != KI_BUF_RECV || dst.offset == own.offset ||
                    dst.offset + count * nbytes <= own.offset;
    if (is_apart)
        return own;
    ki_ref copy = ki_plan_temp(plan, count, nbytes);
    ki_plan_copy(plan, copy, own, count * nbytes);
    return copy;
}

void ki_direct_reduce(const ki_algo_args *args, ki_plan *plan, const size_t *bounds, ki_ref dst, int window_every)
{
    int rank = args->rank, size = args->size;
    size_t nbytes = args->reducer->base.nbytes, count = bounds[rank + 1] - bounds[rank];
    ki_ref theirs = ki_plan_temp(plan, (size_t)(size - 1), count * nbytes);
    ki_window window = ki_window_of(plan, window_every);
    size_t start = ki_plan_mark(plan);
    for (int k = 1; k < size; k++) {
        int to = ki_wrap(rank + k, size), from = ki_wrap(rank - k, size);
        ki_plan_recv(plan, from, ki_plus(theirs, (size_t)(k - 1), count * nbytes), count * nbytes);
        ki_plan_send(plan, to, ki_at(KI_BUF_SEND, bounds[to] * nbytes), (bounds[to + 1] - bounds[to]) * nbytes);
        ki_window_next(&window);
    }
    if (count > 0) {
        ki_ref own = own_block(args, plan, bounds[rank], count, dst);
        ki_plan_wait(plan, start, ki_plan_mark(plan));
        ki_ref *sources = ki_plan_reduce(plan, dst, count, size);
        for (int r = 0; sources && r < size; r++)
            sources[r] = r == rank ? own : ki_plus(theirs, (size_t)(ki_wrap(rank - r, size) - 1), count * nbytes);
    } else {
        ki_plan_wait(plan, start, ki_plan_mark(plan));
    }
}

ki_ref ki_gather_raw(const ki_algo_args *args, ki_plan *plan, size_t count, size_t nbytes)
{
    int rank = args->rank, size = args->size;
    ki_ref all = ki_plan_temp(plan, (size_t)size, count * nbytes);
    ki_plan_copy(plan, all, ki_at(KI_BUF_SEND, 0), count * nbytes);
    for (int have = 1; have < size; have *= 2) {
        int take = have < size - have ? have : size - have;
        size_t start = ki_plan_mark(plan);
        ki_plan_recv(plan, ki_wrap(rank + have, size), ki_plus(all, (size_t)have, count * nbytes),
                     (size_t)take * count * nbytes);
        ki_plan_send(plan, ki_wrap(rank - have, size), all, (size_t)take * count * nbytes);
        ki_plan_wait(plan, start, ki_plan_mark(plan));
    }
    return all;
}
