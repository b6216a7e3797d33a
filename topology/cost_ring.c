/* topology/cost_ring.c - rings and chains, where all steps are alike: closed forms, so that thousands of ranks are
 * priced in microseconds each.
 *
 * Ring of n ranks, S bytes; hop h takes a_h + b_h for one block of S/n, b_h with all hops of all groups in motion.
 *
 * Reduce-scatter: a rank combines a block before it passes it on, and both ends wait for a block to be over before the
 * next one starts (core/algo/ring.c). The slowest hop sets the pace: (n-1) max(a + b).
 *
 * All-gather: one receive is posted ahead, and nobody waits for sends. So two blocks can be under way on a hop, the
 * second one behind the first by as long as the hop before takes for a block, d. They share the hop, and the next pair
 * starts when the first is over. A message is a request, an answer and the bytes (backends/message), which take a
 * third of a each; where blocks wait for the hop, their requests are there already, and 2/3 a is left. So a slow hop
 * takes a block every
 *     P = max(b, (2/3 a + 2b - min(b, d)) / 2).
 * A block goes hop by hop (a + b each) and waits at the slowest hop (P each, P the largest):
 *     (n-1) P + max over arcs of at most n-1 hops of sum (a + b - P).
 * b of a hop that is not always busy lies between alone and shared. Rings of several groups go in step and meet in the
 * part of the time that the hop is busy. Several rings of one group pass a GPU one after the other, at any time: they
 * meet as at a server that is shared by all who are there, alone / (1 - share of the time that is the others').
 * With equal hops that is the (n-1)(a + b) of every textbook.
 *
 * Chain of s segments: sum over hops (a + b/s) + (s-1) max b/s.
 *
 * Several rings, each with its share of the bytes, come from cost_multi_ring.c.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "cost.h"

#include "core/base/error.h"
#include "core/base/mem.h"
#include <math.h>
#include <string.h>

enum { CHAIN_SEGMENT_NBYTES = 128 * 1024, MOST_SEGMENTS = 64 };

static const double answered = 2.0 / 3; /* of the latency, when the request came before */

/* ---- one ring ---- */

/* Sums over all hops of one ring. */
typedef struct ring_sums {
    double most_step_s; /* max (a + b) */
    double pace_s;      /* P */
} ring_sums;

static ring_sums sum_up(const ki_hop_time *hops, int n)
{
    ring_sums sums = { 0 };
    for (int i = 0; i < n; i++) {
        const ki_hop_time *before = &hops[i > 0 ? i - 1 : n - 1];
        double a = hops[i].latency_s, b = hops[i].transfer_s, behind_s = before->latency_s + before->transfer_s;
        sums.most_step_s = fmax(sums.most_step_s, a + b);
        sums.pace_s = fmax(sums.pace_s, fmax(b, (answered * a + 2 * b - fmin(b, behind_s)) / 2));
    }
    return sums;
}

/* The transfer of a block that did not queue. A hop that takes a block every wait_s is busy for b of it, and meets the
 * others that share it only then. */
static double met_transfer(const ki_hop_time *hop, double wait_s, bool is_in_step)
{
    double others_s = hop->transfer_s - hop->alone_s;
    if (wait_s <= hop->transfer_s)
        return hop->transfer_s;
    return is_in_step ? hop->alone_s + others_s * hop->transfer_s / wait_s : hop->alone_s / (1 - others_s / wait_s);
}

/* The largest sum of a + b - P over an arc of 1 to n-1 hops: the best arc that does not cross the start, or all but the
 * worst arc. */
static double best_arc(const ki_hop_time *hops, int n, double wait_s, bool is_in_step)
{
    double total = 0, best = -INFINITY, worst = INFINITY, least = INFINITY, high = 0, low = 0;
    for (int i = 0; i < n; i++) {
        double gain = hops[i].latency_s + met_transfer(&hops[i], wait_s, is_in_step) - wait_s;
        high = fmax(high, 0) + gain;
        low = fmin(low, 0) + gain;
        best = fmax(best, high);
        worst = fmin(worst, low);
        least = fmin(least, gain);
        total += gain;
    }
    return least >= 0 ? total - least : fmax(best, total - worst);
}

static double ring_time(const ki_cost_case *c, const ki_hop_time *hops, bool is_in_step)
{
    int n = c->size;
    ring_sums sums = sum_up(hops, n);
    double time_s = 0;
    if (c->kind != KITH_ALL_GATHER)
        time_s += (n - 1) * sums.most_step_s;
    if (c->kind != KITH_REDUCE_SCATTER)
        time_s += (n - 1) * sums.pace_s + best_arc(hops, n, sums.pace_s, is_in_step);
    return time_s;
}

/* The part that latencies make: a hop that waits for the slowest one anyway hides its own. hops lose theirs. */
static double ring_latency(const ki_cost_case *c, ki_hop_time *hops, bool is_in_step, double time_s)
{
    for (int i = 0; i < c->size; i++)
        hops[i].latency_s = 0;
    return fmax(time_s - ring_time(c, hops, is_in_step), 0);
}

kith_status ki_price_rings(const ki_cost_case *c, const ki_ring *rings, int ring_count, ki_price *price)
{
    int n = c->size;
    ki_flows *flows = c->flows;
    ki_hop_time *hops = (ki_hop_time *)ki_calloc(NULL, (size_t)n, sizeof *hops);
    if (hops == NULL)
        return KITH_ERR_NO_MEMORY;
    ki_flows_clear(flows);
    for (int r = 0; r < ring_count; r++)
        for (int i = 0; i < n; i++)
            ki_flows_add(flows, rings[r].order[i], rings[r].order[i + 1 < n ? i + 1 : 0],
                         c->nbytes * rings[r].share / n);
    for (int r = 0; r < ring_count && flows->status == KITH_OK && price->time_s < c->limit_s; r++) {
        for (int i = 0; i < n; i++) {
            int from = rings[r].order[i], to = rings[r].order[i + 1 < n ? i + 1 : 0];
            hops[i] = ki_flows_time(flows, from, to, c->nbytes * rings[r].share / n);
            ki_price_see(price, &hops[i], from, to, rings[r].share);
        }
        bool is_in_step = ring_count <= c->group_count;
        double time_s = ring_time(c, hops, is_in_step);
        if (time_s > price->time_s) {
            price->time_s = time_s;
            price->latency_s = ring_latency(c, hops, is_in_step, time_s);
        }
    }
    ki_free(NULL, hops);
    return flows->status;
}

kith_status ki_price_ring(const ki_cost_case *c, ki_price *price)
{
    ki_ring *rings = (ki_ring *)ki_calloc(NULL, (size_t)c->group_count, sizeof *rings);
    if (rings == NULL)
        return KITH_ERR_NO_MEMORY;
    for (int g = 0; g < c->group_count; g++)
        rings[g] = (ki_ring){ g, c->groups + (size_t)g * (size_t)c->size, 1 };
    kith_status status = ki_price_rings(c, rings, c->group_count, price);
    ki_free(NULL, rings);
    return status;
}

/* ---- chain, and each rank to the next: the last one sends nothing ---- */

/* Hops of one group into hops[]; count of them. */
static void time_hops(const ki_cost_case *c, const int *group, int count, double nbytes, ki_hop_time *hops,
                      ki_price *price)
{
    for (int i = 0; i < count; i++) {
        int next = group[(i + 1) % c->size];
        hops[i] = ki_flows_time(c->flows, group[i], next, nbytes);
        ki_price_see(price, &hops[i], group[i], next, 1);
    }
}

typedef void (*finish_fn)(const ki_hop_time *hops, int count, double nbytes, double *time_s, double *latency_s);

static void finish_chain(const ki_hop_time *hops, int count, double nbytes, double *time_s, double *latency_s)
{
    double segments = fmin(fmax(ceil(nbytes / CHAIN_SEGMENT_NBYTES), 1), MOST_SEGMENTS), most = 0;
    *time_s = *latency_s = 0;
    for (int i = 0; i < count; i++) {
        *latency_s += hops[i].latency_s;
        *time_s += hops[i].latency_s + hops[i].transfer_s / segments;
        most = fmax(most, hops[i].transfer_s / segments);
    }
    *time_s += (segments - 1) * most;
}

static void finish_neighbors(const ki_hop_time *hops, int count, double nbytes, double *time_s, double *latency_s)
{
    (void)nbytes;
    *time_s = *latency_s = 0;
    for (int i = 0; i < count; i++) {
        if (hops[i].latency_s + hops[i].transfer_s > *time_s) {
            *time_s = hops[i].latency_s + hops[i].transfer_s;
            *latency_s = hops[i].latency_s;
        }
    }
}

/* hop_count: size - 1 for a chain, size for a cycle. */
static kith_status price_line(const ki_cost_case *c, int hop_count, finish_fn finish, ki_price *price)
{
    ki_hop_time *hops = (ki_hop_time *)ki_calloc(NULL, (size_t)hop_count, sizeof *hops);
    if (hops == NULL)
        return KITH_ERR_NO_MEMORY;
    ki_flows_clear(c->flows);
    for (int g = 0; g < c->group_count; g++) {
        const int *group = c->groups + (size_t)g * (size_t)c->size;
        for (int i = 0; i < hop_count; i++)
            ki_flows_add(c->flows, group[i], group[(i + 1) % c->size], c->nbytes);
    }
    for (int g = 0; g < c->group_count && price->time_s < c->limit_s; g++) {
        double time_s, latency_s;
        time_hops(c, c->groups + (size_t)g * (size_t)c->size, hop_count, c->nbytes, hops, price);
        finish(hops, hop_count, c->nbytes, &time_s, &latency_s);
        if (time_s > price->time_s) {
            price->time_s = time_s;
            price->latency_s = latency_s;
        }
    }
    ki_free(NULL, hops);
    return c->flows->status;
}

kith_status ki_price_chain(const ki_cost_case *c, ki_price *price)
{
    return price_line(c, c->size - 1, finish_chain, price);
}

kith_status ki_price_neighbors(const ki_cost_case *c, ki_price *price)
{
    return price_line(c, c->size - 1, finish_neighbors, price);
}

kith_status ki_price_shift(const ki_cost_case *c, ki_price *price)
{
    return price_line(c, c->size, finish_neighbors, price);
}
