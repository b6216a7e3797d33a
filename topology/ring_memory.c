/* topology/ring_memory.c - rings of groups inside a node that were searched before.
 *
 * They depend on which GPUs of which kind of node a group has, not on the node and not on the order of the group; a
 * search for a placement asks for the same few hundred sets thousands of times.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "cost.h"

#include "core/base/mem.h"
#include <stdint.h>
#include <string.h>

enum { ENTRIES = 1024 };

/* What was asked for; compared whole, so it has no gaps that nobody sets. */
typedef struct key {
    double nbytes; /* 0: does not matter */
    int node_kind, coll_kind, way, size;
    int is_used;
    int members[KI_MOST_ORDERED]; /* positions in the node, ascending; then 0 */
    int unused;                   /* no gap at the end */
} key;

typedef struct entry {
    key key;
    int count;
    int orders[KI_MOST_RINGS * KI_MOST_ORDERED]; /* positions */
    double shares[KI_MOST_RINGS];
} entry;

_Static_assert(sizeof(key) == sizeof(double) + (6 + KI_MOST_ORDERED) * sizeof(int), "keys are compared as bytes");

struct ki_ring_sets {
    entry entries[ENTRIES];
};

ki_ring_sets *ki_ring_sets_create(void)
{
    return (ki_ring_sets *)ki_calloc(NULL, 1, sizeof(ki_ring_sets));
}

void ki_ring_sets_destroy(ki_ring_sets *sets)
{
    ki_free(NULL, sets);
}

/* Returns the first GPU of the node. */
static int make_key(const ki_cost_case *c, const int *group, ki_ring_way how, key *k)
{
    int node = 0, gpu;
    *k = (key){ .size = c->size, .way = (int)how, .is_used = 1 };
    for (int i = 0; i < c->size; i++) {
        ki_locate(c->t, group[i], &node, &gpu);
        int at = i;
        for (; at > 0 && gpu < k->members[at - 1]; at--)
            k->members[at] = k->members[at - 1];
        k->members[at] = gpu;
    }
    k->node_kind = kith_topology_node(c->t, node)->kind;
    k->coll_kind = how == KI_RING_CHEAPEST ? (int)c->kind : -1;
    k->nbytes = how == KI_RING_CHEAPEST ? c->nbytes : 0;
    return kith_topology_first_gpu(c->t, node);
}

static entry *slot_of(ki_ring_sets *sets, const key *k)
{
    uint64_t hash = (uint64_t)k->nbytes;
    for (int i = 0; i < KI_MOST_ORDERED; i++)
        hash = hash * 31 + (uint64_t)k->members[i];
    hash = ((hash * 31 + (uint64_t)k->size) * 31 + (uint64_t)(k->coll_kind + 1) * 3 + (uint64_t)k->way) * 31 +
           (uint64_t)k->node_kind;
    return &sets->entries[hash * 0x9e3779b97f4a7c15u >> 54];
}

static int search(const ki_cost_case *c, const int *group, ki_ring_way how, int *orders, double *shares)
{
    if (how != KI_RING_CHEAPEST)
        return ki_find_rings(c->paths, group, c->size, how == KI_RINGS_DIRECT, KI_MOST_RINGS, orders, shares);
    shares[0] = 1;
    return ki_cheapest_ring(c, group, orders) == KITH_OK ? 1 : -1;
}

int ki_rings_inside(const ki_cost_case *c, const int *group, ki_ring_way how, int *orders, double *shares)
{
    if (c->ring_sets == NULL || c->size > KI_MOST_ORDERED)
        return search(c, group, how, orders, shares);
    key k;
    int first = make_key(c, group, how, &k);
    entry *e = slot_of(c->ring_sets, &k);
    if (memcmp(&e->key, &k, sizeof k) != 0) {
        e->key.is_used = 0;
        e->count = search(c, group, how, orders, shares);
        if (e->count < 0)
            return -1;
        e->key = k;
        for (int i = 0; i < e->count * c->size; i++)
            e->orders[i] = orders[i] - first;
        memcpy(e->shares, shares, (size_t)e->count * sizeof *shares);
    }
    for (int i = 0; i < e->count * c->size; i++)
        orders[i] = e->orders[i] + first;
    memcpy(shares, e->shares, (size_t)e->count * sizeof *shares);
    return e->count;
}
