/* topology/place_island.c - what ranks may use: islands, and the GPUs of each kind of node.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "place.h"

#include "core/base/error.h"
#include "core/base/mem.h"
#include "model.h"

#include <stdlib.h>

/* GPUs that may have a rank, MIG parents last. */
static kith_status find_usable(ki_islands *s, int k)
{
    const kith_node_kind *kind = kith_topology_kind(s->t, k);
    s->usable[k] = (int *)ki_calloc(NULL, (size_t)kind->gpu_count, sizeof(int));
    if (s->usable[k] == NULL)
        return KITH_ERR_NO_MEMORY;
    for (int pass = 0; pass < 2; pass++)
        for (int g = 0; g < kind->gpu_count; g++)
            if (ki_gpu_is_usable(&kind->gpus[g]) && kind->gpus[g].is_mig == (pass == 1))
                s->usable[k][s->usable_count[k]++] = g;
    return KITH_OK;
}

static int nvlink_domain(const kith_topology *t, const kith_node *node)
{
    return node->domain >= 0 && kith_topology_domain(t, node->domain)->is_nvlink ? node->domain : -1;
}

/* One island for each node without a domain and each domain, in the order of first nodes. */
static void list_islands(ki_islands *s, int *island_of_domain, int *island_of_node)
{
    int node_count = kith_topology_node_count(s->t);
    for (int d = 0; d < kith_topology_domain_count(s->t); d++)
        island_of_domain[d] = -1;
    for (int n = 0; n < node_count; n++) {
        const kith_node *node = kith_topology_node(s->t, n);
        int domain = nvlink_domain(s->t, node), gpus = s->usable_count[node->kind];
        island_of_node[n] = -1;
        if (!node->is_allowed || gpus == 0)
            continue;
        int at = domain >= 0 ? island_of_domain[domain] : -1;
        if (at < 0) {
            at = s->count++;
            s->islands[at] = (ki_island){ .domain = domain, .kind = node->kind };
            if (domain >= 0)
                island_of_domain[domain] = at;
        }
        ki_island *island = &s->islands[at];
        island->kind = island->node_count++ == 0 ? node->kind : -1;
        island->gpu_count += gpus;
        island_of_node[n] = at;
        s->total += gpus;
        s->most = island->gpu_count > s->most ? island->gpu_count : s->most;
    }
}

static void list_nodes(ki_islands *s, const int *island_of_node)
{
    int from = 0;
    for (int i = 0; i < s->count; i++) {
        s->islands[i].node_from = from;
        from += s->islands[i].node_count;
        s->islands[i].node_count = 0;
    }
    for (int n = 0; n < kith_topology_node_count(s->t); n++)
        if (island_of_node[n] >= 0) {
            ki_island *island = &s->islands[island_of_node[n]];
            s->nodes[island->node_from + island->node_count++] = n;
        }
}

static int compare_sizes(const void *a, const void *b)
{
    const ki_island_size *x = (const ki_island_size *)a, *y = (const ki_island_size *)b;
    return (x->gpu_count < y->gpu_count) - (x->gpu_count > y->gpu_count);
}

/* Machines have few different sizes of island; questions about capacity are asked often. */
static void list_sizes(ki_islands *s)
{
    for (int i = 0; i < s->count; i++)
        s->sizes[i] = (ki_island_size){ s->islands[i].gpu_count, 1 };
    qsort(s->sizes, (size_t)s->count, sizeof s->sizes[0], compare_sizes);
    for (int i = 0; i < s->count; i++) {
        if (s->size_count > 0 && s->sizes[s->size_count - 1].gpu_count == s->sizes[i].gpu_count)
            s->sizes[s->size_count - 1].island_count++;
        else
            s->sizes[s->size_count++] = s->sizes[i];
    }
}

int ki_island_leaf(const ki_islands *islands, int island)
{
    return kith_topology_node(islands->t, islands->nodes[islands->islands[island].node_from])->leaf;
}

kith_status ki_islands_make(const kith_topology *t, ki_islands *s)
{
    size_t kinds = (size_t)kith_topology_kind_count(t), nodes = (size_t)kith_topology_node_count(t);
    size_t domains = (size_t)kith_topology_domain_count(t);
    *s = (ki_islands){ .t = t };
    s->usable = (int **)ki_calloc(NULL, kinds, sizeof(int *));
    s->usable_count = (int *)ki_calloc(NULL, kinds, sizeof(int));
    s->nodes = (int *)ki_calloc(NULL, nodes, sizeof(int));
    s->islands = (ki_island *)ki_calloc(NULL, nodes, sizeof(ki_island));
    s->sizes = (ki_island_size *)ki_calloc(NULL, nodes, sizeof(ki_island_size));
    int *scratch = (int *)ki_calloc(NULL, nodes + domains, sizeof *scratch);
    kith_status status = KITH_ERR_NO_MEMORY;
    if (s->usable != NULL && s->usable_count != NULL && s->nodes != NULL && s->islands != NULL && s->sizes != NULL &&
        scratch != NULL)
        status = KITH_OK;
    for (int k = 0; status == KITH_OK && k < (int)kinds; k++)
        status = find_usable(s, k);
    if (status == KITH_OK) {
        list_islands(s, scratch, scratch + domains);
        list_nodes(s, scratch + domains);
        list_sizes(s);
    }
    ki_free(NULL, scratch);
    if (status == KITH_OK && s->count == 0)
        status = ki_fail_quiet(KITH_ERR_INVALID_ARG, "placement: the machine has no GPU that may be used and answers");
    if (status != KITH_OK)
        ki_islands_fini(s);
    return status;
}

void ki_islands_fini(ki_islands *s)
{
    for (int k = 0; s->usable != NULL && k < kith_topology_kind_count(s->t); k++)
        ki_free(NULL, s->usable[k]);
    ki_free(NULL, s->usable);
    ki_free(NULL, s->usable_count);
    ki_free(NULL, s->nodes);
    ki_free(NULL, s->islands);
    ki_free(NULL, s->sizes);
    *s = (ki_islands){ .t = s->t };
}

int64_t ki_islands_capacity(const ki_islands *s, int64_t unit)
{
    int64_t total = 0;
    for (int i = 0; i < s->size_count; i++)
        total += s->sizes[i].gpu_count / unit * unit * s->sizes[i].island_count;
    return total;
}

/* ---- NVLink ---- */

static int divisor(int a, int b)
{
    while (b != 0) {
        int rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* Sizes of the NVLink islands of a kind, taken into size; MIG parents do not count. 0: none, -1: unknown. */
static int nvlink_size_of_kind(const ki_islands *s, int k)
{
    const kith_node_kind *kind = kith_topology_kind(s->t, k);
    int island[KI_MAX_GPUS], count[KI_MAX_GPUS] = { 0 }, size = 0;
    int islands = kith_nvlink_islands(kind, island);
    if (islands <= 0)
        return islands;
    for (int i = 0; i < s->usable_count[k]; i++)
        if (!kind->gpus[s->usable[k][i]].is_mig)
            count[island[s->usable[k][i]]]++;
    for (int i = 0; i < islands; i++)
        size = divisor(size, count[i]);
    return size;
}

int ki_islands_nvlink_size(const ki_islands *s)
{
    int size = 0, last_kind = -1, of_kind = 0;
    for (int i = 0; i < s->count; i++) {
        const ki_island *island = &s->islands[i];
        if (island->domain < 0 && island->kind != last_kind) {
            last_kind = island->kind;
            of_kind = nvlink_size_of_kind(s, island->kind);
            if (of_kind < 0)
                return -1;
        }
        size = divisor(size, island->domain >= 0 ? island->gpu_count : of_kind > 0 ? of_kind : 1);
    }
    return size;
}
