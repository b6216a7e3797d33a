/* core/algo/all_reduce_tree.c - all_reduce as a reduction along the documented tree, then a k-nomial broadcast.
 *
 * Follows any order: on a group that spans hosts, partial results are combined inside each host before one message goes
 * to another.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "list.h"
#include "parts.h"

static void emit(const ki_algo_args *args, ki_plan *plan)
{
    size_t count = args->coll->count;
    ki_ref result = ki_at(KI_BUF_RECV, 0);
    ki_ref acc = args->reducer->is_identity ? result : ki_plan_temp(plan, count, args->reducer->acc_nbytes);
    int top = ki_order_reduce(args, plan, count, acc);
    if (args->rank == top)
        ki_plan_store(plan, result, acc, count);
    ki_tree tree = ki_tree_of(args->size, args->rank, top, args->radix > 0 ? args->radix : 4);
    ki_tree_broadcast(plan, &tree, result, count, args->coll->nbytes, args->segment_nbytes);
}

const ki_algo ki_all_reduce_reduce_broadcast = {
    .name = "reduce_broadcast",
    .kind = KITH_ALL_REDUCE,
    .is_deterministic = true,
    .cost = "2 log2(p) (a + n b)",
    .emit = emit,
};
