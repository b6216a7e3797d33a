/* core/algo/all_reduce_ring.c - all_reduce around a ring: reduce-scatter of slices, then all-gather of the results.
 *
 * Least bytes, only neighbours talk. Each slice is combined in an order of its own, so the bits are not the documented
 * ones (they are the same on all ranks).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "list.h"
#include "parts.h"

static void emit(const ki_algo_args *args, ki_plan *plan, size_t segment_nbytes)
{
    size_t count = args->coll->count, nbytes = args->coll->nbytes;
    size_t *bounds = ki_slice_bounds(plan, count, args->size);
    if (!bounds)
        return;
    ki_ring_reduce(args, plan, bounds, ki_at(KI_BUF_RECV, bounds[args->rank] * nbytes), segment_nbytes);
    ki_plan_wait_all(plan); /* sends from SEND, which may be RECV */
    ki_blocks slices = ki_slices(KI_BUF_RECV, count, args->size, nbytes);
    ki_ring_gather(plan, &slices, args->size, args->rank, ki_wrap(args->rank - 1, args->size),
                   ki_wrap(args->rank + 1, args->size));
}

static void emit_ring(const ki_algo_args *args, ki_plan *plan)
{
    emit(args, plan, 0);
}

static void emit_segmented(const ki_algo_args *args, ki_plan *plan)
{
    emit(args, plan, args->segment_nbytes > 0 ? args->segment_nbytes : (size_t)256 << 10);
}

const ki_algo ki_all_reduce_ring = {
    .name = "ring",
    .kind = KITH_ALL_REDUCE,
    .needs_commutative = true,
    .cost = "2(p-1)a + 2(p-1)/p n b",
    .emit = emit_ring,
};

const ki_algo ki_all_reduce_segmented_ring = {
    .name = "segmented_ring",
    .kind = KITH_ALL_REDUCE,
    .needs_commutative = true,
    .cost = "2(p-1)a + 2(p-1)/p n b, reduction overlaps with messages",
    .emit = emit_segmented,
};
