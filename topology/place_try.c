/* topology/place_try.c - candidates by rule, unit after unit; the best is kept.
 *
 * For each unit: the order of GPUs in each kind of node (place_local.c), nodes in the order of the file and by switch
 * (place_cluster.c), swaps over switches (place_swap.c), kinds of nodes in other orders (place_class.c). Then a climb
 * by cost (place_climb.c), from GPUs in the order of their numbers and on small jobs also from an order that does not
 * know the numbers (place_canon.c); in one node all orders instead (place_exact.c). Over nodes axes in other orders
 * follow (place_orders.c), and swaps of whole units (place_units.c). What comes later must be better, so among equals
 * the smallest numbers stay.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "place_search.h"

#include "core/base/error.h"
#include "core/base/mem.h"

#include <math.h>
#include <string.h>

enum {
    MOST_UNITS_TRIED = 2,
    MOST_CLASSES_PERMUTED = 4, /* 24 orders */
    MOST_LEAVES_TRIED = 16,
    MOST_PERMUTED_RANKS = 512,    /* more ranks: the cheapest kind of node first, and no other order */
    MOST_RANKS_OF_TWO_STARTS = 64 /* where a price takes long there is one start */
};

/* Ranks onto one island; returns how many. An island of several nodes is filled node by node. */
static int fill_island(ki_search *w, ki_candidate *c, int index, int unit, int position, int rank)
{
    const ki_island *island = &w->islands.islands[index];
    int count = island->gpu_count / unit * unit, filled = 0;
    count = count < w->sizes.world - rank ? count : w->sizes.world - rank;
    for (int n = 0; n < island->node_count && filled < count; n++) {
        int node = w->islands.nodes[island->node_from + n], kind = kith_topology_node(w->t, node)->kind;
        int first = kith_topology_first_gpu(w->t, node), usable = w->islands.usable_count[kind];
        bool is_whole = island->node_count == 1 || usable % unit == 0;
        const int *gpus = is_whole ? w->locals[kind].gpus : w->islands.usable[kind];
        int most = is_whole ? w->locals[kind].gpu_count : usable;
        for (int g = 0; g < most && filled < count; g++, filled++) {
            c->gpus[rank + filled] = first + gpus[g];
            c->island_of_rank[rank + filled] = index;
            w->position_of_rank[rank + filled] = position;
        }
    }
    return filled;
}

kith_status ki_search_assign(ki_search *w, ki_candidate *c, const int *sequence, int unit)
{
    int rank = 0;
    for (int i = 0; i < w->islands.count && rank < w->sizes.world; i++)
        rank += fill_island(w, c, sequence[i], unit, i, rank);
    return rank == w->sizes.world
               ? KITH_OK
               : ki_fail(KITH_ERR_INTERNAL, "placement: %d of %d ranks found room", rank, w->sizes.world);
}

static bool is_same(const ki_search *w, const ki_candidate *a, const ki_candidate *b)
{
    return memcmp(a->gpus, b->gpus, (size_t)w->sizes.world * sizeof(int)) == 0;
}

/* Without traffic the weights of the axes are made up: then an order that is no rule's must be worth it. */
static bool is_worth_it(const ki_search *w)
{
    const double least_gain = 0.05;
    double other = w->identity.price.total;
    if (w->has_traffic || !w->trial.is_climbed || (w->has_candidate && w->best.is_climbed))
        return true;
    if (w->has_candidate && ki_candidate_is_better(&w->best, &w->identity))
        other = w->best.price.total;
    return w->trial.price.total < other * (1 - least_gain) || !isfinite(other);
}

static double innermost_call_s(const ki_search *w, const ki_candidate *c)
{
    int axis = ki_innermost_axis(&w->sizes);
    return axis >= 0 ? c->price.cost[axis].time_s : 0;
}

/* After a climb it is known how many partitions are as good only if it left the innermost groups as good as they were.
 */
static bool is_as_first(const ki_search *w)
{
    return w->trial.inside == w->rule_inside && ki_compare_costs(innermost_call_s(w, &w->trial), w->rule_call_s) <= 0;
}

/* c: what the trial is, which may have been priced before. */
static void remember(ki_search *w, const ki_candidate *c)
{
    w->last_cost = c->price.total;
    w->last_cut_bytes = c->cut.bytes;
    if (w->trial.is_climbed)
        return;
    w->rule_inside = c->inside;
    w->rule_call_s = innermost_call_s(w, c);
}

/* Prices are the dear part on large machines: what is known already is not priced again. */
kith_status ki_search_keep(ki_search *w)
{
    if (is_same(w, &w->trial, &w->identity)) {
        remember(w, &w->identity);
        w->first = w->has_candidate ? w->first : w->trial_first;
        return KITH_OK;
    }
    if (w->has_candidate && is_same(w, &w->trial, &w->best)) {
        remember(w, &w->best);
        return KITH_OK;
    }
    kith_status status = ki_candidate_judge(w, &w->trial);
    remember(w, &w->trial);
    if (status == KITH_OK && is_worth_it(w) && (!w->has_candidate || ki_candidate_is_better(&w->trial, &w->best))) {
        w->knows_first = !w->trial.is_climbed || is_as_first(w);
        ki_candidate other = w->best;
        w->best = w->trial;
        w->trial = other;
        w->first = w->trial_first;
        w->has_candidate = true;
    }
    return status;
}

/* A climb begins from the cheapest sequence; of equally cheap ones from that with fewer bytes over switches, which have
 * room for what a climb saves elsewhere. */
static bool is_better_start(const ki_search *w)
{
    int order = ki_compare_costs(w->last_cost, w->unit_cost);
    return order != 0 ? order < 0 : w->last_cut_bytes < w->unit_cut_bytes * (1 - 1e-9);
}

static kith_status consider(ki_search *w, const int *sequence, int unit)
{
    kith_status status = ki_search_assign(w, &w->trial, sequence, unit);
    w->trial.is_climbed = false;
    if (status == KITH_OK)
        status = ki_search_keep(w);
    if (status == KITH_OK && is_better_start(w)) {
        w->unit_cost = w->last_cost;
        w->unit_cut_bytes = w->last_cut_bytes;
        memcpy(w->unit_sequence, sequence, (size_t)w->islands.count * sizeof(int));
    }
    return status;
}

kith_status ki_search_make_locals(ki_search *w, int unit, bool is_canonical)
{
    w->has_first = false;
    for (int k = 0; k < kith_topology_kind_count(w->t); k++) {
        ki_local_fini(&w->locals[k]);
        if (w->islands.usable_count[k] == 0)
            continue;
        kith_status status = ki_local_make(&w->islands, &w->sizes, k, unit, is_canonical, &w->locals[k]);
        if (status != KITH_OK)
            return status;
        if (!w->has_first && w->locals[k].has_first) {
            w->trial_first = w->locals[k].first;
            w->has_first = true;
        }
    }
    return KITH_OK;
}

/* ---- sequences ---- */

/* By switch, and then with swaps where switches do not come out even. rank_of_island: see ki_sequence_make(). */
static kith_status try_sequence(ki_search *w, int unit, const int *rank_of_island)
{
    bool is_regular = true;
    kith_status status =
        ki_sequence_make(&w->islands, &w->distances, &w->sizes, unit, rank_of_island, w->sequence, &is_regular);
    bool can_improve = !is_regular && kith_topology_switch_count(w->t) > 0;
    bool is_new = w->is_quick || memcmp(w->sequence, w->file_order, (size_t)w->islands.count * sizeof(int)) != 0;
    if (status == KITH_OK && is_new && !(w->is_quick && can_improve))
        status = consider(w, w->sequence, unit);
    if (status != KITH_OK || !can_improve)
        return status;
    status = ki_search_assign(w, &w->trial, w->sequence, unit);
    if (status == KITH_OK)
        status = ki_sequence_improve(&w->islands, &w->distances, &w->sizes, unit, w->flows, w->position_of_rank,
                                     rank_of_island, w->sequence);
    return status == KITH_OK ? consider(w, w->sequence, unit) : status;
}

/* The next order of count numbers; false after the last. */
bool ki_next_permutation(int *order, int count)
{
    int i = count - 2, j = count - 1;
    while (i >= 0 && order[i] > order[i + 1])
        i--;
    if (i < 0)
        return false;
    while (order[j] < order[i])
        j--;
    int other = order[i];
    order[i] = order[j];
    order[j] = other;
    for (int low = i + 1, high = count - 1; low < high; low++, high--) {
        other = order[low];
        order[low] = order[high];
        order[high] = other;
    }
    return true;
}

/* Which kinds of node have ranks, and in which order: the cheapest first, and other orders where these are few. */
static kith_status try_classes(ki_search *w, int unit)
{
    int order[MOST_CLASSES_PERMUTED] = { 0, 1, 2, 3 }, count = 0, *rank = w->rank_of_island + w->islands.count;
    kith_status status = ki_classes_rank(w, unit, w->rank_of_island, &count);
    if (status != KITH_OK || count < 2)
        return status == KITH_OK && w->is_quick ? try_sequence(w, unit, NULL) : status;
    bool has_others = !w->is_quick && count <= MOST_CLASSES_PERMUTED && w->sizes.world <= MOST_PERMUTED_RANKS;
    if (!has_others)
        return try_sequence(w, unit, w->rank_of_island);
    do {
        for (int i = 0; i < w->islands.count; i++)
            rank[i] = w->rank_of_island[i] < count ? order[w->rank_of_island[i]] : count;
        status = try_sequence(w, unit, rank);
    } while (status == KITH_OK && ki_next_permutation(order, count));
    return status;
}

/* What is left over may be on one switch or another: where there is more room than ranks, each switch in turn comes
 * last. Nodes of one kind are not alike then, and their order in the file must not decide. Follows try_classes(). */
static kith_status try_leaves(ki_search *w, int unit)
{
    int leaves = kith_topology_switch_count(w->t), tried = 0, *rank = w->rank_of_island + w->islands.count;
    kith_status status = KITH_OK;
    if (w->is_quick || ki_islands_capacity(&w->islands, unit) - unit < w->sizes.world ||
        w->sizes.world > MOST_PERMUTED_RANKS)
        return KITH_OK;
    for (int leaf = 0; leaf < leaves && tried < MOST_LEAVES_TRIED && status == KITH_OK; leaf++) {
        int here = 0;
        for (int i = 0; i < w->islands.count; i++) {
            bool is_last = ki_island_leaf(&w->islands, i) == leaf;
            bool has_room = w->islands.islands[i].gpu_count >= unit;
            rank[i] = w->rank_of_island[i] + (is_last || !has_room ? w->islands.count + !has_room : 0);
            here += is_last && has_room;
        }
        if (here == 0 || here == w->islands.count)
            continue;
        tried++;
        status = try_sequence(w, unit, rank);
    }
    return status;
}

/* From the cheapest sequence; the order of GPUs is the one in w->locals. */
static kith_status climb(ki_search *w, int unit, bool is_thorough)
{
    memcpy(w->sequence, w->unit_sequence, (size_t)w->islands.count * sizeof(int));
    return ki_search_climb(w, unit, is_thorough);
}

static kith_status try_unit(ki_search *w, int unit)
{
    w->unit_cost = w->unit_cut_bytes = INFINITY;
    memcpy(w->unit_sequence, w->file_order, (size_t)w->islands.count * sizeof(int));
    kith_status status = ki_search_make_locals(w, unit, false);
    if (status == KITH_OK && !w->is_quick)
        status = consider(w, w->file_order, unit);
    if (status == KITH_OK && !w->is_quick)
        status = try_sequence(w, unit, NULL);
    if (status == KITH_OK)
        status = try_classes(w, unit);
    if (status == KITH_OK)
        status = try_leaves(w, unit);
    if (status != KITH_OK || ki_search_is_small(w))
        return status;
    status = climb(w, unit, false);
    if (status != KITH_OK || w->sizes.world > MOST_RANKS_OF_TWO_STARTS)
        return status;
    status = ki_search_make_locals(w, unit, true);
    return status == KITH_OK ? climb(w, unit, true) : status;
}

static double best_s(const ki_search *w)
{
    return w->has_candidate ? fmin(w->best.price.total, w->identity.price.total) : w->identity.price.total;
}

/* In one node: the cheapest of all orders, if there are not too many to look at. The better what is known before, the
 * fewer these are; afterwards the neighbours of what was found are looked at, and more where it is not proven. */
static kith_status try_exact(ki_search *w, int unit)
{
    bool is_proven = false;
    memcpy(w->unit_sequence, w->file_order, (size_t)w->islands.count * sizeof(int));
    kith_status status = ki_search_make_locals(w, unit, true);
    if (status == KITH_OK)
        status = climb(w, unit, false);
    if (status == KITH_OK)
        status = ki_search_exact(w, best_s(w), &is_proven);
    return status == KITH_OK ? climb(w, unit, !is_proven) : status;
}

kith_status ki_search_all(ki_search *w)
{
    int units[KI_AXES + 1], count = ki_sizes_units(&w->sizes, &w->islands, units);
    kith_status status = KITH_OK;
    count = count < MOST_UNITS_TRIED ? count : MOST_UNITS_TRIED;
    count = w->is_quick ? 1 : count;
    for (int i = 0; status == KITH_OK && i < count; i++) {
        if (w->options.progress != NULL)
            w->options.progress(w->options.progress_arg, "placing", (1.0 + i) / (2.0 + count));
        status = try_unit(w, units[i]);
    }
    if (status == KITH_OK && ki_search_is_small(w))
        return try_exact(w, units[0]);
    if (status == KITH_OK)
        status = ki_search_orders(w);
    return status == KITH_OK ? ki_search_units(w) : status;
}
