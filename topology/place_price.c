/* topology/place_price.c - the groups of a placement, and what they cost.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "place.h"

#include "cost.h"

#include <math.h>
#include <string.h>

enum { INWARDS = 8, MOST_FOLDED_RANKS = 64 };

/* Without traffic the order of axes alone counts: the outermost has one all_reduce of 64 MiB, each axis further in has
 * INWARDS times as many. In reports an axis without calls has the price of one such all_reduce. */
void ki_uses_make(const kith_placement_options *options, const ki_sizes *sizes, ki_use *uses)
{
    bool has_traffic = false;
    double calls = 1;
    for (int a = 0; options->traffic != NULL && a < KI_AXES; a++)
        has_traffic = has_traffic || options->traffic[a].calls > 0;
    for (int i = KI_AXES - 1; i >= 0; i--) {
        int a = sizes->order[i];
        bool is_alone = sizes->size[a] == 1;
        uses[a] = (ki_use){ KITH_COST_ALL_REDUCE, has_traffic || is_alone ? 0 : calls, 64.0 * 1024 * 1024, 0 };
        calls *= is_alone ? 1 : INWARDS;
        if (has_traffic && options->traffic[a].calls > 0)
            uses[a] = (ki_use){ options->traffic[a].op, options->traffic[a].calls, options->traffic[a].nbytes,
                                options->traffic[a].hidden_s };
    }
}

double ki_use_hop_nbytes(const ki_use *use, int size)
{
    double share = size > 1 ? (double)(size - 1) / size : 0; /* (n - 1) / n, and n = 1 sends nothing */
    switch (use->op) {
    case KITH_COST_ALL_REDUCE:
        return use->calls * 2 * share * use->nbytes;
    case KITH_COST_REDUCE_SCATTER:
    case KITH_COST_ALL_GATHER:
    case KITH_COST_ALL_TO_ALL:
        return use->calls * share * use->nbytes;
    case KITH_COST_SEND_RECV:
    case KITH_COST_BROADCAST:
    case KITH_COST_SHIFT:
        return size > 1 ? use->calls * use->nbytes : 0;
    }
    return 0;
}

double ki_use_step_s(const ki_use *use, double call_s)
{
    return use->calls > 0 ? fmax(use->calls * call_s - use->hidden_s, 0) : 0;
}

bool ki_use_is_chain(const ki_use *use)
{
    return use->op == KITH_COST_SEND_RECV || use->op == KITH_COST_BROADCAST;
}

void ki_axis_groups(const ki_sizes *sizes, int axis, const int *gpus, int *groups)
{
    int size = sizes->size[axis];
    for (int g = 0; g < sizes->world / size; g++) {
        int base = ki_sizes_group_base(sizes, axis, g);
        for (int i = 0; i < size; i++)
            *groups++ = gpus[base + i * sizes->stride[axis]];
    }
}

/* Stages of a pipeline and messages to the next rank have an order of their own. */
bool ki_use_is_ordered(const ki_use *use, int axis)
{
    return axis == KI_PP || use->op == KITH_COST_SEND_RECV || use->op == KITH_COST_SHIFT;
}

kith_status ki_rings_make(ki_ring_maker *maker, int axis, const ki_use *use, const int *groups, int size, int count,
                          int *rings)
{
    memcpy(rings, groups, (size_t)size * (size_t)count * sizeof *rings);
    if (size == 1 || ki_use_is_ordered(use, axis))
        return KITH_OK;
    for (int g = 0; g < count; g++) {
        kith_status status = ki_ring_of_group(maker, groups + g * size, size, rings + g * size);
        if (status != KITH_OK)
            return status;
    }
    return KITH_OK;
}

static kith_status price_orders(ki_ring_maker *maker, const ki_use *use, const int *orders, int size, int count,
                                ki_cost_limit limit, kith_cost *cost)
{
    kith_status status = ki_cost_session_price(maker->session, use->op, orders, size, count, use->nbytes, limit, cost);
    if (status != KITH_ERR_UNSUPPORTED)
        return status;
    /* a link of unknown bandwidth */
    *cost = (kith_cost){ .time_s = INFINITY, .slowest_from = -1, .slowest_to = -1, .algorithm = "none" };
    return KITH_OK;
}

static kith_status price_also(ki_ring_maker *maker, const ki_use *use, const int *orders, int size, int count,
                              kith_cost *cost)
{
    kith_cost here;
    const ki_cost_limit limit = { cost->time_s, isfinite(cost->time_s) };
    kith_status status = price_orders(maker, use, orders, size, count, limit, &here);
    if (status == KITH_OK && here.time_s < cost->time_s)
        *cost = here;
    return status;
}

/* Ring order p at place p ^ p/2 (Gray code): who differ in one bit, and so exchange in recursive doubling and halving,
 * are next to each other in the ring (of more than four members, some of them). Which hops of the ring the first
 * exchange takes, that of the most bytes, depends on where the ring begins. */
static void fold_rings(const int *rings, int from, int size, int count, int *folded)
{
    for (int g = 0; g < count; g++)
        for (int p = 0; p < size; p++)
            folded[g * size + (p ^ p >> 1)] = rings[g * size + (p + from) % size];
}

/* Between nodes other things decide. */
static bool can_fold(const kith_topology *t, const int *groups, int size, int count)
{
    int node, gpu;
    if (size < 4 || (size & (size - 1)) != 0 || size * count > MOST_FOLDED_RANKS)
        return false;
    for (int g = 0; g < count; g++) {
        const int *group = groups + g * size;
        if (!kith_topology_locate(t, group[0], &node, &gpu))
            return false;
        int first = kith_topology_first_gpu(t, node), behind = kith_topology_first_gpu(t, node + 1);
        for (int i = 1; i < size; i++)
            if (group[i] < first || group[i] >= behind)
                return false;
    }
    return true;
}

/* What can be the order: the rings of the widest links, the order of the ranks, and for exchanges in pairs the rings
 * folded. None of them is always the cheapest. */
kith_status ki_price_groups(ki_ring_maker *maker, int axis, const ki_use *use, const int *groups, int size, int count,
                            double limit_s, int *rings, kith_cost *cost)
{
    kith_status status = ki_rings_make(maker, axis, use, groups, size, count, rings);
    if (status == KITH_OK)
        status = price_orders(maker, use, rings, size, count, (ki_cost_limit){ limit_s, false }, cost);
    if (status != KITH_OK || ki_use_is_ordered(use, axis))
        return status;
    if (memcmp(rings, groups, (size_t)size * (size_t)count * sizeof *rings) != 0)
        status = price_also(maker, use, groups, size, count, cost);
    bool is_folded = status == KITH_OK && can_fold(maker->t, groups, size, count);
    for (int from = 0; from < 2 && is_folded && status == KITH_OK; from++) {
        int folded[MOST_FOLDED_RANKS];
        fold_rings(rings, from, size, count, folded);
        status = price_also(maker, use, folded, size, count, cost);
    }
    return status;
}

kith_status ki_price_make(ki_ring_maker *maker, const ki_sizes *sizes, const ki_use *uses, const int *gpus,
                          double limit_s, int *scratch, ki_step_price *price)
{
    *price = (ki_step_price){ .total = 0 };
    for (int axis = 0; axis < KI_AXES; axis++) {
        kith_cost *cost = &price->cost[axis];
        *cost = (kith_cost){ .slowest = KITH_LINK_SELF, .slowest_from = -1, .slowest_to = -1, .algorithm = "none" };
        if (sizes->size[axis] == 1 || price->total > limit_s)
            continue;
        ki_axis_groups(sizes, axis, gpus, scratch);
        kith_status status = ki_price_groups(maker, axis, &uses[axis], scratch, sizes->size[axis],
                                             sizes->world / sizes->size[axis], INFINITY, scratch + sizes->world, cost);
        if (status != KITH_OK)
            return status;
        price->step_s[axis] = ki_use_step_s(&uses[axis], cost->time_s);
        price->total += price->step_s[axis];
        price->sent_s += uses[axis].calls > 0 ? uses[axis].calls * cost->time_s : 0;
    }
    return KITH_OK;
}
