/* topology/cost_levels.c - collectives in levels: inside the units (nodes, or NVLink domains) and between them.
 *
 * hierarchical, k members in each of m units: reduce-scatter inside (S), then member i of every unit together on S/k,
 * k groups at the same time, each over its own NIC, then all-gather inside (S).
 *
 * hierarchical_leaders is what core/hier.h does: reduce to one member of each unit, all_reduce among these, broadcast.
 *
 * Each phase is the cheapest of the flat algorithms, and phases follow each other.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "cost.h"

#include "core/base/error.h"
#include "core/base/mem.h"

/* Groups cut into units: all have `units` of them with `members` each. inside: [group * units][members];
 * between: [group * members][units]. */
typedef struct levels {
    int units, members;
    int *inside, *between;
} levels;

/* Members of the group by unit, in ring order; units in the order of their first member. number: of each unit, -1 all
 * over, before and after. False when the units have not as many members each. */
static bool sort_group(const ki_cost_case *c, const int *group, int *number, int *placed, int *units, int *sorted)
{
    *units = 0;
    for (int i = 0; i < c->size; i++) {
        int *here = &number[ki_cost_unit(c->t, group[i])];
        if (*here < 0) {
            placed[*units] = 0;
            *here = (*units)++;
        }
    }
    int members = c->size / *units;
    bool is_even = members * *units == c->size;
    for (int i = 0; i < c->size && is_even; i++) {
        int unit = number[ki_cost_unit(c->t, group[i])];
        is_even = placed[unit] < members;
        if (is_even)
            sorted[unit * members + placed[unit]++] = group[i];
    }
    for (int i = 0; i < c->size; i++)
        number[ki_cost_unit(c->t, group[i])] = -1;
    return is_even;
}

static kith_status not_even(int g)
{
    return ki_fail_quiet(
        KITH_ERR_UNSUPPORTED,
        "cost: hierarchical needs groups with as many GPUs in each node or NVLink domain, at least 2 of "
        "2; group %d is not like that",
        g);
}

static kith_status cut_group(const ki_cost_case *c, int g, int *number, int *placed, levels *l)
{
    size_t first = (size_t)g * (size_t)c->size;
    int *sorted = l->inside + first, units;
    bool is_even = sort_group(c, c->groups + first, number, placed, &units, sorted);
    if (!is_even || units < 2 || units == c->size || (g > 0 && units != l->units))
        return not_even(g);
    l->units = units;
    l->members = c->size / units;
    for (int u = 0; u < units; u++)
        for (int m = 0; m < l->members; m++)
            l->between[first + (size_t)(m * units + u)] = sorted[u * l->members + m];
    return KITH_OK;
}

static kith_status cut(const ki_cost_case *c, levels *l)
{
    size_t all = (size_t)c->size * (size_t)c->group_count;
    int unit_count = kith_topology_node_count(c->t) + kith_topology_domain_count(c->t);
    int *number = (int *)ki_calloc(NULL, (size_t)unit_count + 1, sizeof *number);
    int *placed = (int *)ki_calloc(NULL, (size_t)c->size, sizeof *placed);
    l->inside = (int *)ki_calloc(NULL, all, sizeof *l->inside);
    l->between = (int *)ki_calloc(NULL, all, sizeof *l->between);
    bool has_memory = number != NULL && placed != NULL && l->inside != NULL && l->between != NULL;
    kith_status status = has_memory ? KITH_OK : KITH_ERR_NO_MEMORY;
    for (int u = 0; has_memory && u < unit_count; u++)
        number[u] = -1;
    for (int g = 0; g < c->group_count && status == KITH_OK; g++)
        status = cut_group(c, g, number, placed, l);
    ki_free(NULL, number);
    ki_free(NULL, placed);
    return status;
}

static void levels_fini(levels *l)
{
    ki_free(NULL, l->inside);
    ki_free(NULL, l->between);
}

/* One phase: adds its price. Where the phases before took too long already, the rest does not matter. */
static kith_status add_phase(const ki_cost_case *c, kith_coll_kind kind, const int *groups, int size, int group_count,
                             double nbytes, ki_price *price)
{
    if (size < 2 || price->time_s >= c->limit_s)
        return KITH_OK;
    ki_cost_case phase = *c;
    phase.is_again = false; /* the limit is that of the whole */
    phase.kind = kind;
    phase.groups = groups;
    phase.size = size;
    phase.group_count = group_count;
    phase.nbytes = nbytes;
    ki_price part = KI_PRICE_NONE;
    int *kept;
    kith_status status = ki_cost_unlike(&phase, &kept);
    if (status == KITH_OK)
        status = ki_price_best(&phase, &part);
    ki_free(NULL, kept);
    if (status == KITH_OK || status == KITH_ERR_UNSUPPORTED) /* what it takes at least counts, too */
        ki_price_add(price, &part);
    return status;
}

kith_status ki_price_hierarchical(const ki_cost_case *c, ki_price *price)
{
    levels l = { 0 };
    kith_status status = cut(c, &l);
    double between_nbytes = c->nbytes / (l.members > 0 ? l.members : 1);
    if (status == KITH_OK && c->kind != KITH_ALL_GATHER)
        status = add_phase(c, KITH_REDUCE_SCATTER, l.inside, l.members, c->group_count * l.units, c->nbytes, price);
    if (status == KITH_OK)
        status = add_phase(c, c->kind, l.between, l.units, c->group_count * l.members, between_nbytes, price);
    if (status == KITH_OK && c->kind != KITH_REDUCE_SCATTER)
        status = add_phase(c, KITH_ALL_GATHER, l.inside, l.members, c->group_count * l.units, c->nbytes, price);
    levels_fini(&l);
    return status;
}

/* The leaders of a group are the members 0 of its units: every members-th of `between`. */
kith_status ki_price_leaders(const ki_cost_case *c, ki_price *price)
{
    levels l = { 0 };
    kith_status status = cut(c, &l);
    int *leaders =
        status == KITH_OK ? (int *)ki_calloc(NULL, (size_t)l.units * (size_t)c->group_count, sizeof *leaders) : NULL;
    if (status == KITH_OK && leaders == NULL)
        status = KITH_ERR_NO_MEMORY;
    for (int g = 0; status == KITH_OK && g < c->group_count; g++)
        for (int u = 0; u < l.units; u++)
            leaders[g * l.units + u] = l.between[(size_t)g * (size_t)c->size + (size_t)u];
    kith_coll_kind into = c->kind == KITH_ALL_GATHER ? KITH_ALL_GATHER : KITH_REDUCE;
    double into_nbytes = c->kind == KITH_ALL_GATHER ? c->nbytes / (l.units > 0 ? l.units : 1) : c->nbytes;
    if (status == KITH_OK)
        status = add_phase(c, into, l.inside, l.members, c->group_count * l.units, into_nbytes, price);
    if (status == KITH_OK)
        status = add_phase(c, c->kind, leaders, l.units, c->group_count, c->nbytes, price);
    if (status == KITH_OK)
        status = add_phase(c, KITH_BROADCAST, l.inside, l.members, c->group_count * l.units, c->nbytes, price);
    ki_free(NULL, leaders);
    levels_fini(&l);
    return status;
}
