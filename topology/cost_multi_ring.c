/* topology/cost_multi_ring.c - several rings at once, each with its share of the bytes.
 *
 * Between units (nodes, or NVLink domains) ring c leaves a unit by its member c and enters the next by the same member,
 * so that rails are kept; inside one node rings are searched (ring_search.c).
 *
 * Rings that together carry most are not always the fastest: each has its latency, and they meet on PCIe. So those over
 * direct links alone count as well as those over all links, and so does one ring: the cheapest of each group
 * (ring_order.c), and the groups as they were given. What costs least is the price, so more links never make it dearer
 * by the choice of rings.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "cost.h"

#include "core/base/error.h"
#include "core/base/mem.h"
#include <math.h>
#include <string.h>

/* Length of the run of members that are in one unit, from i on. */
static int run_length(const ki_cost_case *c, const int *group, int i)
{
    int end = i + 1;
    while (end < c->size && ki_cost_unit(c->t, group[end]) == ki_cost_unit(c->t, group[i]))
        end++;
    return end - i;
}

static int shortest_run(const ki_cost_case *c, const int *group, int *runs)
{
    int least = c->size;
    *runs = 0;
    for (int i = 0, length; i < c->size; i += length) {
        length = run_length(c, group, i);
        least = length < least ? length : least;
        ++*runs;
    }
    return least;
}

/* Ring number `ring` of a group over several units: every second unit is walked backwards, so that it is left by the
 * member where the next unit is entered. */
static void turn_runs(const ki_cost_case *c, const int *group, int ring, int *order)
{
    bool is_back = false;
    for (int i = 0, length; i < c->size; i += length, is_back = !is_back) {
        length = run_length(c, group, i);
        for (int k = 0; k < length; k++) {
            int member = is_back ? ring - 1 - k : ring + k;
            order[i + k] = group[i + ((member % length) + length) % length];
        }
    }
}

typedef struct ring_set {
    ki_ring *rings;
    int *orders;
    int count;
} ring_set;

static bool is_same_shape(const ki_cost_case *c, const int *a, const int *b)
{
    int a_node, a_gpu, b_node, b_gpu;
    for (int i = 0; i < c->size; i++) {
        ki_locate(c->t, a[i], &a_node, &a_gpu);
        ki_locate(c->t, b[i], &b_node, &b_gpu);
        if (a_gpu != b_gpu || kith_topology_node(c->t, a_node)->kind != kith_topology_node(c->t, b_node)->kind)
            return false;
    }
    return true;
}

/* One unit may have several nodes: an NVLink domain, which is a switch. */
static bool is_in_one_node(const ki_cost_case *c, const int *group)
{
    int first, node, gpu;
    ki_locate(c->t, group[0], &first, &gpu);
    for (int i = 1; i < c->size; i++) {
        ki_locate(c->t, group[i], &node, &gpu);
        if (node != first)
            return false;
    }
    return true;
}

/* How the rings of a case are chosen; inside a node the first ones as ki_ring_way says. */
typedef enum way {
    WAY_DIRECT = KI_RINGS_DIRECT, /* over nodes: a ring for each member of a node */
    WAY_ANY = KI_RINGS_ANY,
    WAY_CHEAPEST = KI_RING_CHEAPEST,
    WAY_GIVEN, /* one, in the order of the group */
    WAYS
} way;

static int rings_of_group(const ki_cost_case *c, way how, int g, int *orders, double *shares)
{
    const int *group = c->groups + (size_t)g * (size_t)c->size;
    int runs, most = shortest_run(c, group, &runs), found = 0;
    if (how != WAY_GIVEN && runs == 1 && is_in_one_node(c, group))
        found = ki_rings_inside(c, group, (ki_ring_way)how, orders, shares);
    if (found != 0)
        return found;
    int count = runs == 1 || how != WAY_DIRECT ? 1 : most < KI_MOST_RINGS ? most : KI_MOST_RINGS;
    for (int r = 0; r < count; r++) {
        if (how == WAY_DIRECT)
            turn_runs(c, group, r, orders + (size_t)r * (size_t)c->size);
        else
            memcpy(orders, group, (size_t)c->size * sizeof *orders);
        shares[r] = 1.0 / count;
    }
    return count;
}

/* The rings of all groups, in turn. Equal groups have equal rings: those of the group before, moved over. */
static kith_status find_set(const ki_cost_case *c, way how, ring_set *set)
{
    size_t n = (size_t)c->size;
    double shares[KI_MOST_RINGS];
    int count = 0;
    set->count = 0;
    for (int g = 0; g < c->group_count; g++) {
        const int *group = c->groups + (size_t)g * n;
        int *orders = set->orders + (size_t)set->count * n;
        if (count > 0 && is_in_one_node(c, group) && is_in_one_node(c, group - n) && is_same_shape(c, group - n, group))
            for (size_t i = 0; i < (size_t)count * n; i++)
                orders[i] = (orders - (size_t)count * n)[i] + group[0] - (group - n)[0];
        else
            count = rings_of_group(c, how, g, orders, shares);
        if (count < 0)
            return KITH_ERR_NO_MEMORY;
        for (int r = 0; r < count; r++, set->count++)
            set->rings[set->count] = (ki_ring){ g, set->orders + (size_t)set->count * n, shares[r] };
    }
    return KITH_OK;
}

static kith_status set_init(const ki_cost_case *c, ring_set *set)
{
    size_t most = 0, order_count;
    for (int g = 0; g < c->group_count; g++) {
        int runs, least = shortest_run(c, c->groups + (size_t)g * (size_t)c->size, &runs);
        most += runs > 1 && least < KI_MOST_RINGS ? (size_t)least : KI_MOST_RINGS;
    }
    *set = (ring_set){ 0 };
    if (!ki_mul(most, (size_t)c->size, &order_count))
        return KITH_ERR_NO_MEMORY;
    set->rings = (ki_ring *)ki_calloc(NULL, most, sizeof *set->rings);
    set->orders = (int *)ki_calloc(NULL, order_count, sizeof *set->orders);
    return set->rings != NULL && set->orders != NULL ? KITH_OK : KITH_ERR_NO_MEMORY;
}

static void set_fini(ring_set *set)
{
    ki_free(NULL, set->rings);
    ki_free(NULL, set->orders);
}

/* The cheapest way. One over a link of unknown bandwidth counts only where none is without. */
static kith_status choose_way(const ki_cost_case *c, ring_set *set, way *chosen, ki_price *price)
{
    kith_status best_status = KITH_ERR_UNSUPPORTED;
    bool is_searched = c->size <= KI_MOST_ORDERED && is_in_one_node(c, c->groups);
    for (way how = WAY_DIRECT; how < WAYS; how++) {
        if ((how == WAY_ANY || how == WAY_CHEAPEST) && !is_searched)
            continue;
        if (how == WAY_GIVEN && isfinite(c->limit_s)) /* the limit is what ring takes, or less */
            continue;
        kith_status status = find_set(c, how, set);
        if (status != KITH_OK)
            return status;
        ki_price here = KI_PRICE_NONE;
        c->flows->status = KITH_OK;
        status = ki_price_rings(c, set->rings, set->count, &here);
        if (status != KITH_OK && status != KITH_ERR_UNSUPPORTED)
            return status;
        bool is_first = how == WAY_DIRECT || (status == KITH_OK && best_status != KITH_OK);
        if (is_first || (status == best_status && here.time_s < price->time_s)) {
            *price = here;
            *chosen = how;
            best_status = status;
        }
    }
    c->flows->status = best_status;
    return best_status;
}

/* No way depends on the order of these groups, but the given one, which is ring's. */
static bool is_known(const ki_cost_case *c)
{
    bool is_inside = c->is_again && c->size <= KI_MOST_ORDERED;
    for (int g = 0; g < c->group_count && is_inside; g++)
        is_inside = is_in_one_node(c, c->groups + (size_t)g * (size_t)c->size);
    return is_inside;
}

kith_status ki_price_multi_ring(const ki_cost_case *c, ki_price *price)
{
    ring_set set;
    way how;
    if (is_known(c)) {
        price->time_s = c->limit_s;
        return KITH_OK;
    }
    kith_status status = set_init(c, &set);
    if (status == KITH_OK)
        status = choose_way(c, &set, &how, price);
    set_fini(&set);
    return status;
}

int ki_multi_rings(const ki_cost_case *c, int g, int *orders, double *shares)
{
    ring_set set;
    way how = WAY_DIRECT;
    ki_price price = KI_PRICE_NONE;
    kith_status status = set_init(c, &set);
    if (status == KITH_OK)
        status = choose_way(c, &set, &how, &price);
    set_fini(&set);
    return status == KITH_OK ? rings_of_group(c, how, g, orders, shares) : -1;
}
