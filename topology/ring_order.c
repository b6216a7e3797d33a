/* topology/ring_order.c - the cheapest ring through a group in one node.
 *
 * By its price, not by the names of its links: two hops over PIX may be dearer than one over SYS, when both must share
 * the uplink of a switch. All (size-1)!/2 rings are looked at, cheap hops first, and those that are too dear already
 * when each hop is alone are not followed (branch and bound). What a ring costs does not depend on the order in which
 * the group names its members.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "cost.h"

#include <math.h>
#include <string.h>

/* Rings that are priced at most: all of 7 members, and of 8 those that come first. */
enum { MOST_PRICED = 600 };

/* One block over one hop that is alone; INFINITY where no bandwidth is known. */
typedef struct block_time {
    double step_s, transfer_s;
} block_time;

typedef struct search {
    ki_cost_case c; /* of the group alone */
    int size, left; /* left: rings that may still be priced */
    int members[KI_MOST_ORDERED];
    block_time hop[KI_MOST_ORDERED][KI_MOST_ORDERED];
    double least_step_s; /* of all hops */
    int order[KI_MOST_ORDERED], best[KI_MOST_ORDERED];
    double best_s;
    kith_status status;
} search;

/* Of the hops so far. */
typedef struct path {
    double sum_s, most_s, least_s, most_transfer_s;
} path;

static void sort(int *members, int size)
{
    for (int i = 1; i < size; i++)
        for (int j = i; j > 0 && members[j] < members[j - 1]; j--) {
            int member = members[j];
            members[j] = members[j - 1];
            members[j - 1] = member;
        }
}

static void time_hops(search *s)
{
    ki_flows *flows = s->c.flows;
    double nbytes = s->c.nbytes / s->size;
    ki_flows_clear(flows);
    s->least_step_s = INFINITY;
    for (int i = 0; i < s->size; i++)
        for (int j = 0; j < s->size; j++) {
            if (i == j)
                continue;
            flows->status = KITH_OK;
            ki_hop_time time = ki_flows_time(flows, s->members[i], s->members[j], nbytes);
            bool is_known = flows->status == KITH_OK;
            s->hop[i][j] = (block_time){ is_known ? time.latency_s + time.transfer_s : INFINITY, time.transfer_s };
            s->least_step_s = fmin(s->least_step_s, s->hop[i][j].step_s);
        }
    flows->status = KITH_OK;
}

static path with_hop(path p, block_time hop)
{
    return (path){ p.sum_s + hop.step_s, fmax(p.most_s, hop.step_s), fmin(p.least_s, hop.step_s),
                   fmax(p.most_transfer_s, hop.transfer_s) };
}

/* What no ring that begins like this can beat (cost_ring.c's formulas, each hop alone). In an all-gather a block goes
 * over all hops but one. */
static double bound(const search *s, const path *p, int hop_count)
{
    int steps = s->size - 1;
    double combined_s = steps * p->most_s;
    double rest_s = (s->size - hop_count) * s->least_step_s - p->least_s;
    double gathered_s = fmax(steps * p->most_transfer_s, p->sum_s + rest_s);
    if (s->c.kind == KITH_ALL_GATHER)
        return gathered_s;
    return s->c.kind == KITH_REDUCE_SCATTER ? combined_s : combined_s + gathered_s;
}

static void price_order(search *s)
{
    int global[KI_MOST_ORDERED];
    for (int i = 0; i < s->size; i++)
        global[i] = s->members[s->order[i]];
    const ki_ring ring = { 0, global, 1 };
    ki_price price = KI_PRICE_NONE;
    kith_status status = ki_price_rings(&s->c, &ring, 1, &price);
    s->left--;
    s->c.flows->status = KITH_OK;
    if (status == KITH_OK && price.time_s < s->best_s * (1 - 1e-9)) {
        s->best_s = price.time_s;
        memcpy(s->best, s->order, sizeof s->best);
    }
    s->status = status == KITH_ERR_UNSUPPORTED ? s->status : status;
}

/* Those not yet in the ring, the cheapest to reach first; returns how many. */
static int list_next(const search *s, int last, unsigned used, int *next)
{
    int count = 0;
    for (int i = 1; i < s->size; i++) {
        if ((used >> i & 1) != 0)
            continue;
        int at = count++;
        for (; at > 0 && s->hop[last][i].step_s < s->hop[last][next[at - 1]].step_s; at--)
            next[at] = next[at - 1];
        next[at] = i;
    }
    return count;
}

static void extend(search *s, int depth, unsigned used, path so_far)
{
    int last = s->order[depth - 1], next[KI_MOST_ORDERED];
    if (depth == s->size) {
        path whole = with_hop(so_far, s->hop[last][0]);
        /* the other way round it is the same ring */
        if (s->order[1] < last && bound(s, &whole, depth) < s->best_s * (1 - 1e-9))
            price_order(s);
        return;
    }
    int count = list_next(s, last, used, next);
    for (int i = 0; i < count && s->left > 0 && s->status == KITH_OK; i++) {
        path longer = with_hop(so_far, s->hop[last][next[i]]);
        if (!(bound(s, &longer, depth) < s->best_s * (1 - 1e-9)))
            continue;
        s->order[depth] = next[i];
        extend(s, depth + 1, used | 1u << next[i], longer);
    }
}

kith_status ki_cheapest_ring(const ki_cost_case *c, const int *group, int *order)
{
    search s = { .c = *c, .size = c->size, .left = MOST_PRICED, .best_s = INFINITY, .status = KITH_OK };
    memcpy(order, group, (size_t)c->size * sizeof *order);
    if (c->size < 4 || c->size > KI_MOST_ORDERED) /* of three there is one ring */
        return KITH_OK;
    s.c.groups = s.members;
    s.c.group_count = 1;
    memcpy(s.members, group, (size_t)c->size * sizeof *order);
    sort(s.members, s.size);
    time_hops(&s);
    extend(&s, 1, 1, (path){ .least_s = INFINITY });
    for (int i = 0; i < s.size && isfinite(s.best_s); i++)
        order[i] = s.members[s.best[i]];
    return s.status;
}
