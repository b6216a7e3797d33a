/* topology/place_memory.c - prices of an axis that are remembered while a search compares placements.
 *
 * A search asks for the same groups again and again: exchanging two GPUs changes the groups of some axes and leaves
 * those of others as they were. Groups are known by a hash of 64 bits over their members, in whatever order the groups
 * come; older prices make room for newer ones.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "place_search.h"

#include "core/base/mem.h"

enum { ENTRIES = 8192 }; /* a power of two */

/* What one axis takes in a step with these groups. */
struct ki_remembered {
    uint64_t groups; /* 0: empty */
    double step_s;
    bool is_least; /* it takes that or more */
};

kith_status ki_memory_init(ki_price_memory *memory, int most_ranks)
{
    *memory = (ki_price_memory){ .ranks_left = most_ranks };
    memory->entries = (ki_remembered *)ki_calloc(NULL, ENTRIES, sizeof *memory->entries);
    return memory->entries != NULL ? KITH_OK : KITH_ERR_NO_MEMORY;
}

void ki_memory_fini(ki_price_memory *memory)
{
    ki_free(NULL, memory->entries);
    memory->entries = NULL;
}

static uint64_t mix(uint64_t x) /* splitmix64: every bit of x changes half of the result */
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/* Members in their order, groups in any. */
static uint64_t hash_groups(int axis, const int *groups, int size, int count)
{
    uint64_t sum = 0;
    for (int g = 0; g < count; g++) {
        uint64_t hash = mix((uint64_t)axis + 1);
        for (int i = 0; i < size; i++)
            hash = mix(hash + 0x9e3779b97f4a7c15u + (uint64_t)groups[g * size + i]);
        sum += hash;
    }
    return sum != 0 ? sum : 1;
}

/* What a price takes out of the budget: its ranks, and for groups of more than nine GPUs in a node what finding their
 * ring takes, which doubles with each GPU (place_ring.c). */
static int price_of_pricing(const ki_search *w, int size, int count)
{
    enum { CHEAP_RING = 9, DEAREST_RING = 16 };
    int in_node = 0;
    for (int k = 0; size > CHEAP_RING && k < kith_topology_kind_count(w->t); k++) {
        int usable = w->islands.usable_count[k];
        in_node = usable > in_node ? usable : in_node;
    }
    in_node = in_node < size ? in_node : size;
    in_node = in_node < DEAREST_RING ? in_node : DEAREST_RING;
    return in_node > CHEAP_RING ? size * count << (in_node - CHEAP_RING) : size * count;
}

kith_status ki_memory_price(ki_search *w, ki_price_memory *memory, int axis, const int *groups, int size, int count,
                            double limit_s, double *step_s)
{
    uint64_t hash = hash_groups(axis, groups, size, count);
    ki_remembered *entry = &memory->entries[hash % ENTRIES];
    bool is_known = entry->groups == hash;
    if (is_known && (!entry->is_least || entry->step_s >= limit_s)) {
        *step_s = entry->step_s;
        return KITH_OK;
    }
    kith_cost cost;
    const ki_use *use = &w->uses[axis];
    double call_limit_s = (limit_s + use->hidden_s) / use->calls * (1 + 1e-12); /* no rounding below limit_s */
    memory->ranks_left -= is_known ? 0 : price_of_pricing(w, size, count);
    kith_status status =
        ki_price_groups(&w->maker, axis, use, groups, size, count, call_limit_s, w->scratch + w->sizes.world, &cost);
    if (status != KITH_OK)
        return status;
    *step_s = ki_use_step_s(use, cost.time_s);
    *entry = (ki_remembered){ hash, *step_s, cost.time_s >= call_limit_s };
    return KITH_OK;
}

int ki_search_axes(const ki_search *w, int *axes)
{
    int count = 0;
    for (int i = 0; i < KI_AXES; i++) {
        int axis = w->sizes.order[i];
        if (w->sizes.size[axis] > 1 && w->uses[axis].calls > 0)
            axes[count++] = axis;
    }
    return count;
}
