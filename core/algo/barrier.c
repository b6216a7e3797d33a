/* core/algo/barrier.c - barriers, with messages of one byte.
 *
 * dissemination: round i tells rank + 2^i that all of the 2^i ranks up to this one have come; after ceil(log2 p) rounds
 * that is everybody. linear: all report to rank 0, which answers. knomial: the same along a tree.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "list.h"
#include "parts.h"

static void emit_dissemination(const ki_algo_args *args, ki_plan *plan)
{
    ki_ref out = ki_plan_temp(plan, 1, 1), in = ki_plan_temp(plan, 1, 1);
    for (int distance = 1; distance < args->size; distance *= 2) {
        size_t start = ki_plan_mark(plan);
        ki_plan_recv(plan, ki_wrap(args->rank - distance, args->size), in, 1);
        ki_plan_send(plan, ki_wrap(args->rank + distance, args->size), out, 1);
        ki_plan_wait(plan, start, ki_plan_mark(plan));
    }
}

static void emit_tree(const ki_algo_args *args, ki_plan *plan, int radix)
{
    ki_tree tree = ki_tree_of(args->size, args->rank, 0, radix);
    ki_ref token = ki_plan_temp(plan, 1, 1), reports = ki_plan_temp(plan, (size_t)args->size, 1);
    int mask = 0, digit = 0, child;
    while ((child = ki_tree_next_child(&tree, &mask, &digit)) >= 0)
        ki_plan_recv(plan, child, ki_plus(reports, (size_t)child, 1), 1);
    ki_plan_wait_all(plan);
    if (tree.parent >= 0) {
        ki_plan_send(plan, tree.parent, token, 1);
        ki_plan_wait_all(plan);
    }
    ki_tree_broadcast(plan, &tree, token, 1, 1, 0);
}

static void emit_linear(const ki_algo_args *args, ki_plan *plan)
{
    emit_tree(args, plan, args->size);
}

static void emit_knomial(const ki_algo_args *args, ki_plan *plan)
{
    emit_tree(args, plan, args->radix > 0 ? args->radix : 4);
}

const ki_algo ki_barrier_dissemination = {
    .name = "dissemination",
    .kind = KITH_BARRIER,
    .is_deterministic = true,
    .cost = "log2(p) a",
    .emit = emit_dissemination,
};

const ki_algo ki_barrier_linear = {
    .name = "linear",
    .kind = KITH_BARRIER,
    .is_deterministic = true,
    .cost = "2(p-1)a at rank 0 in 2 rounds",
    .emit = emit_linear,
};

const ki_algo ki_barrier_knomial = {
    .name = "knomial",
    .kind = KITH_BARRIER,
    .is_deterministic = true,
    .cost = "2 log_k(p) a",
    .emit = emit_knomial,
};
