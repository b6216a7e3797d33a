/* topology/place_judge.c - which of two placements is better.
 *
 * By the cost of a step, then by what is sent at all (part of it may be hidden), then by bytes over switches (which
 * need no constants), then by the links inside the innermost groups and by sockets.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "place_search.h"

#include <math.h>

enum { MOST_INSIDE = 256 };

/* Fewer bytes over switches at the same cost are worth an unusual order from 2 * 1 % on. */
#define WORTHWHILE 0.01

int ki_innermost_axis(const ki_sizes *sizes)
{
    for (int i = 0; i < KI_AXES; i++)
        if (sizes->size[sizes->order[i]] > 1)
            return sizes->order[i];
    return -1;
}

static void add_pair(const kith_topology *t, int from, int to, ki_candidate *c)
{
    int node_a, node_b, a, b;
    if (!kith_topology_locate(t, from, &node_a, &a) || !kith_topology_locate(t, to, &node_b, &b))
        return;
    if (node_a == node_b) {
        const kith_node_kind *kind = kith_topology_kind(t, kith_topology_node(t, node_a)->kind);
        int value = ki_gpu_pair_value(kind, a, b);
        c->inside += value;
        c->finer += value < KI_VALUE_OF_NVLINK ? ki_gpu_pair_finer(kind, a, b) : 0;
        return;
    }
    kith_link link = kith_topology_link(t, from, to);
    c->inside += ki_link_value(&link);
}

static void look_inside(const ki_search *w, ki_candidate *c)
{
    int axis = ki_innermost_axis(&w->sizes), size = axis < 0 ? 1 : w->sizes.size[axis];
    c->inside = c->finer = 0;
    if (size > MOST_INSIDE)
        return;
    for (int at = 0; at < w->sizes.world; at += size) /* the innermost axis has stride 1 */
        for (int i = 0; i < size; i++)
            for (int j = 0; j < i; j++)
                add_pair(w->t, c->gpus[at + i], c->gpus[at + j], c);
}

kith_status ki_candidate_judge(ki_search *w, ki_candidate *c)
{
    double known_s = w->has_candidate ? w->best.price.total : w->identity.price.total;
    double limit_s = c->is_climbed && isfinite(known_s) ? known_s * (1 + 1e-6) : INFINITY;
    kith_status status = ki_price_make(&w->maker, &w->sizes, w->uses, c->gpus, limit_s, w->scratch, &c->price);
    if (status == KITH_OK)
        status = ki_cut_count(&w->islands, &w->distances, &w->sizes, w->flows, c->island_of_rank, &c->cut);
    look_inside(w, c);
    return status;
}

static int compare_doubles(double a, double b, double tolerance)
{
    if (a == b || (isfinite(a) && isfinite(b) && fabs(a - b) <= tolerance * (fabs(a) + fabs(b))))
        return 0;
    return a < b ? -1 : 1;
}

int ki_compare_costs(double a, double b)
{
    return compare_doubles(a, b, 1e-9);
}

bool ki_candidate_is_better(const ki_candidate *a, const ki_candidate *b)
{
    int order = ki_compare_costs(a->price.total, b->price.total);
    if (order == 0)
        order = ki_compare_costs(a->price.sent_s, b->price.sent_s);
    if (order == 0)
        order = compare_doubles(a->cut.bytes, b->cut.bytes, WORTHWHILE);
    if (order != 0)
        return order < 0;
    return a->inside != b->inside ? a->inside > b->inside : a->finer > b->finer;
}
