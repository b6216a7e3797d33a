/* topology/place_swap.c - bytes over switches, and a local search that makes them fewer.
 *
 * Where racks are uneven no sequence of islands keeps all groups inside a switch, and which groups are cut is a
 * quadratic assignment. From the sequence of place_cluster.c pairs of islands change places as long as that saves bytes
 * (Kernighan-Lin without look-ahead). What a swap changes is known from a graph between positions: an edge for each two
 * positions that neighbours in a ring or chain have on them, with the bytes of a step.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "place.h"

#include "core/base/mem.h"

#include <stdlib.h>

enum { MOST_TRIES = 500 * 1000 }; /* a fifth of a second with thousands of nodes */

/* ---- distances ---- */

kith_status ki_distances_make(const kith_topology *t, ki_distances *d)
{
    size_t nodes = (size_t)kith_topology_node_count(t);
    *d = (ki_distances){ .t = t };
    d->ancestors = (int *)ki_calloc(NULL, nodes * KI_DISTANCE_LEVELS, sizeof(int));
    if (d->ancestors == NULL)
        return KITH_ERR_NO_MEMORY;
    for (size_t n = 0; n < nodes; n++) {
        int at = kith_topology_node(t, (int)n)->leaf;
        for (size_t level = 0; level < KI_DISTANCE_LEVELS; level++) {
            d->ancestors[n * KI_DISTANCE_LEVELS + level] = at;
            at = at >= 0 ? kith_topology_switch(t, at)->parent : -1;
        }
    }
    return KITH_OK;
}

void ki_distances_fini(ki_distances *d)
{
    ki_free(NULL, d->ancestors);
    d->ancestors = NULL;
}

/* Nodes without a switch are as far as can be, but not when no switch is known at all. */
int ki_distance(const ki_distances *d, int a, int b)
{
    const int *of_a = d->ancestors + (size_t)a * KI_DISTANCE_LEVELS;
    const int *of_b = d->ancestors + (size_t)b * KI_DISTANCE_LEVELS;
    const kith_node *x = kith_topology_node(d->t, a), *y = kith_topology_node(d->t, b);
    if (a == b || kith_topology_switch_count(d->t) == 0)
        return 0;
    if (x->domain >= 0 && x->domain == y->domain && kith_topology_domain(d->t, x->domain)->is_nvlink)
        return 0;
    for (int level = 0; level < KI_DISTANCE_LEVELS; level++)
        if (of_a[level] >= 0 && of_a[level] == of_b[level])
            return level;
    return KI_DISTANCE_LEVELS;
}

static int island_distance(const ki_islands *islands, const ki_distances *d, int a, int b)
{
    return ki_distance(d, islands->nodes[islands->islands[a].node_from], islands->nodes[islands->islands[b].node_from]);
}

/* ---- counting ---- */

/* Rank that follows in the ring of an axis; the last of a chain is followed by itself. */
static int next_on_axis(const ki_sizes *sizes, int axis, bool is_chain, int rank)
{
    int64_t stride = sizes->stride[axis], size = sizes->size[axis];
    if (rank / stride % size < size - 1)
        return (int)(rank + stride);
    return is_chain ? rank : (int)(rank - stride * (size - 1));
}

/* Islands on the switch that has most of them. */
static int most_on_a_switch(const ki_islands *islands, int *count)
{
    int most = 1;
    for (int i = 0; i < islands->count; i++) {
        int leaf = kith_topology_node(islands->t, islands->nodes[islands->islands[i].node_from])->leaf;
        if (leaf >= 0 && ++count[leaf] > most)
            most = count[leaf];
    }
    return most;
}

/* A ring over more islands than one switch has enters as many switches as it needs, once each; a chain is in the first
 * one from the start. */
static double least_of_axis(const ki_sizes *sizes, int axis, bool is_chain, const int *island_of_rank, int most)
{
    double crossings = 0;
    int64_t stride = sizes->stride[axis];
    for (int g = 0; g < sizes->world / sizes->size[axis]; g++) {
        int base = ki_sizes_group_base(sizes, axis, g), islands = 1;
        for (int64_t i = 1; i < sizes->size[axis]; i++)
            islands += island_of_rank[base + i * stride] != island_of_rank[base + (i - 1) * stride];
        int switches = (islands + most - 1) / most;
        crossings += switches > 1 ? switches - is_chain : 0;
    }
    return crossings;
}

kith_status ki_cut_count(const ki_islands *islands, const ki_distances *d, const ki_sizes *sizes,
                         const ki_axis_flow *flows, const int *island_of_rank, ki_cut *cut)
{
    *cut = (ki_cut){ 0, 0 };
    if (kith_topology_switch_count(islands->t) == 0)
        return KITH_OK;
    int *count = (int *)ki_calloc(NULL, (size_t)kith_topology_switch_count(islands->t), sizeof *count);
    if (count == NULL)
        return KITH_ERR_NO_MEMORY;
    int most = most_on_a_switch(islands, count);
    ki_free(NULL, count);
    for (int axis = 0; axis < KI_AXES; axis++) {
        if (sizes->size[axis] == 1 || flows[axis].hop_nbytes <= 0)
            continue;
        int64_t levels = 0;
        for (int rank = 0; rank < sizes->world; rank++) {
            int here = island_of_rank[rank],
                there = island_of_rank[next_on_axis(sizes, axis, flows[axis].is_chain, rank)];
            levels += here != there ? island_distance(islands, d, here, there) : 0;
        }
        cut->bytes += (double)levels * flows[axis].hop_nbytes;
        cut->at_least +=
            least_of_axis(sizes, axis, flows[axis].is_chain, island_of_rank, most) * flows[axis].hop_nbytes;
    }
    return KITH_OK;
}

/* ---- the graph between positions ---- */

typedef struct edge {
    int from, to;
    double nbytes;
} edge;

typedef struct graph {
    edge *edges; /* both directions, by from */
    int *first;  /* [count + 1] */
} graph;

static int compare_edges(const void *a, const void *b)
{
    const edge *x = (const edge *)a, *y = (const edge *)b;
    return x->from != y->from ? (x->from > y->from) - (x->from < y->from) : (x->to > y->to) - (x->to < y->to);
}

static size_t list_edges(const ki_sizes *sizes, const ki_axis_flow *flows, const int *position_of_rank, edge *edges)
{
    size_t count = 0;
    for (int axis = 0; axis < KI_AXES; axis++)
        for (int rank = 0; rank < sizes->world && sizes->size[axis] > 1 && flows[axis].hop_nbytes > 0; rank++) {
            int here = position_of_rank[rank],
                there = position_of_rank[next_on_axis(sizes, axis, flows[axis].is_chain, rank)];
            if (here == there)
                continue;
            edges[count++] = (edge){ here, there, flows[axis].hop_nbytes };
            edges[count++] = (edge){ there, here, flows[axis].hop_nbytes };
        }
    return count;
}

static kith_status make_graph(const ki_sizes *sizes, const ki_axis_flow *flows, const int *position_of_rank,
                              int position_count, graph *g)
{
    size_t room = 2 * KI_AXES * (size_t)sizes->world, kept = 0;
    g->edges = (edge *)ki_calloc(NULL, room, sizeof(edge));
    g->first = (int *)ki_calloc(NULL, (size_t)position_count + 1, sizeof(int));
    if (g->edges == NULL || g->first == NULL)
        return KITH_ERR_NO_MEMORY;
    size_t count = list_edges(sizes, flows, position_of_rank, g->edges);
    qsort(g->edges, count, sizeof(edge), compare_edges);
    for (size_t i = 0; i < count; i++) {
        if (kept > 0 && compare_edges(&g->edges[kept - 1], &g->edges[i]) == 0)
            g->edges[kept - 1].nbytes += g->edges[i].nbytes;
        else
            g->edges[kept++] = g->edges[i];
    }
    for (int p = 0, at = 0; p <= position_count; p++) {
        while (at < (int)kept && g->edges[at].from < p)
            at++;
        g->first[p] = at;
    }
    return KITH_OK;
}

/* ---- swaps ---- */

typedef struct search {
    const ki_islands *islands;
    const ki_distances *d;
    const graph *g;
    const int *rank_of_island; /* NULL: all alike */
    int *sequence;
} search;

/* Bytes times levels of one position's edges if `island` were on it; those to `other` do not change. */
static double carried(const search *s, int position, int island, int other)
{
    double sum = 0;
    for (int e = s->g->first[position]; e < s->g->first[position + 1]; e++)
        if (s->g->edges[e].to != other)
            sum += s->g->edges[e].nbytes * island_distance(s->islands, s->d, island, s->sequence[s->g->edges[e].to]);
    return sum;
}

static bool try_swap(search *s, int p, int q)
{
    int a = s->sequence[p], b = s->sequence[q];
    double before = carried(s, p, a, q) + carried(s, q, b, p), after = carried(s, p, b, q) + carried(s, q, a, p);
    if (after >= before * (1 - 1e-12))
        return false;
    s->sequence[p] = b;
    s->sequence[q] = a;
    return true;
}

static void improve(search *s, int unit)
{
    int tries = 0;
    bool has_changed = true;
    while (has_changed && tries < MOST_TRIES) {
        has_changed = false;
        for (int p = 0; p < s->islands->count; p++) {
            int units = s->islands->islands[s->sequence[p]].gpu_count / unit;
            if (s->g->first[p] == s->g->first[p + 1] || carried(s, p, s->sequence[p], -1) <= 0)
                continue;
            for (int q = 0; q < s->islands->count && tries < MOST_TRIES; q++) {
                bool is_alike =
                    s->rank_of_island == NULL || s->rank_of_island[s->sequence[p]] == s->rank_of_island[s->sequence[q]];
                if (q == p || !is_alike || s->islands->islands[s->sequence[q]].gpu_count / unit != units)
                    continue;
                tries++;
                has_changed = try_swap(s, p, q) || has_changed;
            }
        }
    }
}

kith_status ki_sequence_improve(const ki_islands *islands, const ki_distances *d, const ki_sizes *sizes, int unit,
                                const ki_axis_flow *flows, const int *position_of_rank, const int *rank_of_island,
                                int *sequence)
{
    graph g = { NULL, NULL };
    kith_status status = make_graph(sizes, flows, position_of_rank, islands->count, &g);
    if (status == KITH_OK) {
        search s = { islands, d, &g, rank_of_island, sequence };
        improve(&s, unit);
    }
    ki_free(NULL, g.edges);
    ki_free(NULL, g.first);
    return status;
}
