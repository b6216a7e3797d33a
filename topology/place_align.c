/* topology/place_align.c - the order of members inside the units of a node, where it matters.
 *
 * A partition says who is in a group, not in which order. Two things depend on it. Equal positions of two units meet on
 * the next axis out, so the members of each unit are permuted until they face those of the first unit over the widest
 * links; who talks to whom inside a unit does not change by that. And an axis whose ranks talk to the next one
 * (pipeline, context) needs neighbours in the order of a good ring. Both keep the given order where nothing is gained.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "place.h"

#include "core/base/mem.h"

#include <limits.h>
#include <string.h>

enum { MOST_PERMUTED = 8 }; /* 40,320 orders */

typedef struct facing {
    const kith_node_kind *kind;
    const int *first; /* members of the unit that stays */
    const int *other;
    int size;
    int order[MOST_PERMUTED], best[MOST_PERMUTED];
    int narrowest; /* of the best so far */
    int64_t sum;
} facing;

/* Positions from `at` on are open; used: mask of members that have one. */
static void permute(facing *f, int at, unsigned used, int narrowest, int64_t sum)
{
    if (narrowest < f->narrowest)
        return;
    if (at == f->size) {
        if (narrowest > f->narrowest || sum > f->sum) {
            f->narrowest = narrowest;
            f->sum = sum;
            memcpy(f->best, f->order, sizeof f->best);
        }
        return;
    }
    for (int i = 0; i < f->size; i++) {
        if ((used >> i & 1) != 0)
            continue;
        int link = ki_gpu_pair_value(f->kind, f->first[at], f->other[i]);
        f->order[at] = i;
        permute(f, at + 1, used | 1u << i, link < narrowest ? link : narrowest, sum + link);
    }
}

void ki_align_units(const kith_node_kind *kind, int *members, int unit_count, int unit_size)
{
    int turned[MOST_PERMUTED];
    if (unit_size < 2 || unit_size > MOST_PERMUTED)
        return;
    for (int u = 1; u < unit_count; u++) {
        int *unit = members + u * unit_size;
        facing f = { .kind = kind, .first = members, .other = unit, .size = unit_size, .narrowest = -1, .sum = -1 };
        permute(&f, 0, 0, INT_MAX, 0); /* the given order comes first, so it wins ties */
        for (int i = 0; i < unit_size; i++)
            turned[i] = unit[f.best[i]];
        memcpy(unit, turned, (size_t)unit_size * sizeof *unit);
    }
}

/* Cut where the ring is narrowest: a chain does not need that link. */
static int start_of_chain(const int *value, int n, const int *ring)
{
    int start = 0, narrowest = INT_MAX;
    for (int i = 0; i < n; i++) {
        int link = value[ring[(i + n - 1) % n] * n + ring[i]];
        if (link < narrowest) {
            narrowest = link;
            start = i;
        }
    }
    return start;
}

kith_status ki_order_neighbours(const int *value, int unit_count, bool is_chain, int *groups, int size, int group_count)
{
    int *table = (int *)ki_calloc(NULL, (size_t)size * (size_t)size + 2 * (size_t)size, sizeof *table);
    if (table == NULL)
        return KITH_ERR_NO_MEMORY;
    int *ring = table + size * size, *turned = ring + size, narrowest = 0;
    for (int g = 0; g < group_count && narrowest >= 0; g++) {
        int *group = groups + g * size;
        for (int i = 0; i < size; i++)
            for (int j = 0; j < size; j++)
                table[i * size + j] = value[group[i] * unit_count + group[j]];
        narrowest = ki_ring_order(table, size, ring);
        int start = is_chain && narrowest >= 0 ? start_of_chain(table, size, ring) : 0;
        for (int i = 0; i < size && narrowest >= 0; i++)
            turned[i] = group[ring[(start + i) % size]];
        if (narrowest >= 0)
            memcpy(group, turned, (size_t)size * sizeof *group);
    }
    ki_free(NULL, table);
    return narrowest >= 0 ? KITH_OK : KITH_ERR_NO_MEMORY;
}
