/* core/algo/tree.c - k-nomial trees, and the reduction that walks the documented order itself.
 *
 * k-nomial tree, radix k, over places 0 .. p-1 (place 0 is the root): write a place in base k; its parent has the
 * lowest non-zero digit cleared. So the children of v are v + d * mask for d in 1 .. k-1 and every power mask of k
 * below v's lowest non-zero digit, and the subtree of v + d * mask is the places [v + d * mask, v + (d + 1) * mask).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "parts.h"

ki_tree ki_tree_of(int size, int rank, int root, int radix)
{
    ki_tree tree = {
        .size = size, .root = root, .radix = radix < 2 ? 2 : radix, .place = ki_wrap(rank - root, size), .parent = -1
    };
    if (tree.radix > size && size >= 2)
        tree.radix = size;
    int mask = 1;
    while (mask < size && tree.place / mask % tree.radix == 0)
        mask = mask > size / tree.radix ? size : mask * tree.radix;
    tree.reach = mask;
    if (tree.place > 0)
        tree.parent = ki_tree_rank(&tree, tree.place - tree.place / mask % tree.radix * mask);
    return tree;
}

/* The greatest power of the radix below limit. */
static int power_below(int radix, int limit)
{
    int mask = 1;
    while (mask <= (limit - 1) / radix)
        mask *= radix;
    return mask;
}

int ki_tree_next_child(const ki_tree *tree, int *mask, int *digit)
{
    if (*mask == 0) { /* first call */
        if (tree->reach <= 1)
            return -1;
        *mask = power_below(tree->radix, tree->reach);
        *digit = tree->radix;
    }
    for (;;) {
        if (--*digit == 0) {
            if (*mask == 1)
                return -1;
            *mask /= tree->radix;
            *digit = tree->radix;
            continue;
        }
        long long child = (long long)tree->place + (long long)*digit * *mask;
        if (child < tree->size)
            return (int)child;
    }
}

void ki_tree_broadcast(ki_plan *plan, const ki_tree *tree, ki_ref buf, size_t count, size_t nbytes,
                       size_t segment_nbytes)
{
    ki_segments segments = ki_segments_of(count, nbytes, segment_nbytes);
    size_t start = ki_plan_mark(plan);
    if (tree->parent >= 0)
        for (int s = 0; s < segments.pieces; s++)
            ki_plan_recv(plan, tree->parent, ki_plus(buf, ki_segment_start(&segments, s), nbytes),
                         ki_segment_count(&segments, s) * nbytes);
    for (int s = 0; s < segments.pieces; s++) {
        if (tree->parent >= 0)
            ki_plan_wait(plan, start + (size_t)s, start + (size_t)s + 1);
        int mask = 0, digit = 0, child;
        while ((child = ki_tree_next_child(tree, &mask, &digit)) >= 0)
            ki_plan_send(plan, ki_tree_rank(tree, child), ki_plus(buf, ki_segment_start(&segments, s), nbytes),
                         ki_segment_count(&segments, s) * nbytes);
    }
}

int ki_order_reduce(const ki_algo_args *args, ki_plan *plan, size_t count, ki_ref acc)
{
    const ki_order *order = args->order;
    size_t acc_nbytes = args->reducer->acc_nbytes, depth = 0;
    size_t *owners = ki_plan_numbers(plan, (size_t)order->depth + 1);
    if (!owners)
        return 0;
    ki_ref other = { KI_BUF_TEMP, 0 };
    bool has_other = false;
    ki_plan_load(plan, acc, ki_at(KI_BUF_SEND, 0), count);
    for (int i = 0; i < order->length; i++) {
        if (order->program[i] >= 0) {
            owners[depth++] = (size_t)order->program[i];
            continue;
        }
        int right = (int)owners[--depth], left = (int)owners[depth - 1];
        size_t start = ki_plan_mark(plan);
        if (right == args->rank) {
            ki_plan_send(plan, left, acc, count * acc_nbytes);
            ki_plan_wait(plan, start, ki_plan_mark(plan));
        } else if (left == args->rank) {
            if (!has_other)
                other = ki_plan_temp(plan, count, acc_nbytes);
            has_other = true;
            ki_plan_recv(plan, right, other, count * acc_nbytes);
            ki_plan_wait(plan, start, ki_plan_mark(plan));
            ki_plan_combine(plan, acc, acc, other, count);
        }
    }
    return order->program[0];
}
