/* topology/paths.c - see paths.h: nodes that are used get a block of numbers each, network switches come last.
 *
 * Inside the network a route only has to leave the leaf switches of its NICs when those of the two ends differ. What
 * leaves a NIC's leaf and what enters the other's is moved up the tree until it meets; what meets at a switch costs no
 * uplink. So rails cost nothing while both ends use the same one.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "paths.h"

#include "core/base/mem.h"
#include "model.h"
#include "path_kind.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST_RESOURCES = 1 << 26 };

/* What still has to leave or enter a switch. */
typedef struct crossing {
    int at;
    float out, in;
} crossing;

struct ki_paths {
    const kith_topology *t;
    ki_kind_paths **kinds; /* [kind_count]; NULL: not used */
    int *slot;             /* [node_count] number among the used nodes; -1 */
    int *node, *base;      /* [used_count + 1] node and first resource of a slot */
    int used_count, resource_count;
    int *leaf; /* [switch_count] first of two resources of a switch; -1: does not limit */
    int leaf_base;
    int *leaf_owner;     /* switch of each pair of resources from leaf_base on */
    double *gbps;        /* [resource_count] */
    bool *is_common;     /* the same */
    ki_hop *hops;        /* scratch of the last route */
    crossing *crossings; /* scratch */
};

void ki_locate(const kith_topology *t, int global_gpu, int *node, int *gpu)
{
    *node = t->node_of_gpu[global_gpu];
    *gpu = global_gpu - t->first_gpu[*node];
}

/* ---- numbering ---- */

static kith_status use_kind(ki_paths *p, const kith_node *node)
{
    if (p->kinds[node->kind] != NULL)
        return KITH_OK;
    bool is_in_domain = node->domain >= 0 && p->t->domains[node->domain].is_nvlink;
    double gbps = is_in_domain ? p->t->domains[node->domain].gbps : 0;
    return ki_kind_paths_create(p->t, node->kind, gbps, &p->kinds[node->kind]);
}

static kith_status use_nodes(ki_paths *p, const int *gpus, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        int node, gpu;
        if (!kith_topology_locate(p->t, gpus[i], &node, &gpu))
            return ki_fail_quiet(KITH_ERR_INVALID_ARG, "cost: there is no GPU %d; valid: 0 to %d", gpus[i],
                                 kith_topology_gpu_count(p->t) - 1);
        if (p->slot[node] >= 0)
            continue;
        kith_status status = use_kind(p, &p->t->nodes[node]);
        if (status != KITH_OK)
            return status;
        p->slot[node] = p->used_count;
        p->node[p->used_count++] = node;
    }
    return KITH_OK;
}

static kith_status give_numbers(ki_paths *p)
{
    int64_t next = 0;
    for (int s = 0; s < p->used_count; s++) {
        p->base[s] = (int)next;
        next += p->kinds[p->t->nodes[p->node[s]].kind]->resource_count;
        if (next > MOST_RESOURCES)
            return ki_fail_quiet(KITH_ERR_INVALID_ARG, "cost: the nodes have more than %d links", MOST_RESOURCES);
    }
    p->base[p->used_count] = p->leaf_base = (int)next;
    int limiting = 0;
    for (int s = 0; s < p->t->switch_count; s++)
        if (p->t->switches[s].uplink_count > 0 && p->t->switches[s].uplink_gbps > 0) {
            p->leaf[s] = p->leaf_base + 2 * limiting;
            p->leaf_owner[limiting++] = s;
        }
    p->resource_count = p->leaf_base + 2 * limiting;
    return KITH_OK;
}

static void fill_resources(ki_paths *p)
{
    for (int s = 0; s < p->used_count; s++) {
        const ki_kind_paths *kind = p->kinds[p->t->nodes[p->node[s]].kind];
        for (int r = 0; r < kind->resource_count; r++) {
            p->gbps[p->base[s] + r] = kind->resources[r].gbps;
            p->is_common[p->base[s] + r] = kind->resources[r].kind >= KI_RESOURCE_SWITCH_UP;
        }
    }
    for (int r = p->leaf_base; r < p->resource_count; r++) {
        const kith_switch *owner = &p->t->switches[p->leaf_owner[(r - p->leaf_base) / 2]];
        p->gbps[r] = owner->uplink_count * owner->uplink_gbps;
        p->is_common[r] = true;
    }
}

static bool make_scratch(ki_paths *p)
{
    int hops = 0, nics = 0;
    for (int k = 0; k < p->t->kind_count; k++) {
        const ki_kind_paths *kind = p->kinds[k];
        if (kind == NULL)
            continue;
        hops = kind->hop_count + ki_kind_paths_most_hops(kind) > hops ? kind->hop_count + ki_kind_paths_most_hops(kind)
                                                                      : hops;
        nics = kind->kind->nic_count > nics ? kind->kind->nic_count : nics;
    }
    /* Both ends' halves, and the switches of the tree: each crossing climbs at most all of them. */
    size_t depth = (size_t)(p->resource_count - p->leaf_base);
    p->hops = (ki_hop *)ki_calloc(NULL, 2 * (size_t)hops + depth + 1, sizeof *p->hops);
    p->crossings = (crossing *)ki_calloc(NULL, 2 * (size_t)nics + 2, sizeof *p->crossings);
    p->gbps = (double *)ki_calloc(NULL, (size_t)p->resource_count + 1, sizeof *p->gbps);
    p->is_common = (bool *)ki_calloc(NULL, (size_t)p->resource_count + 1, sizeof *p->is_common);
    return p->hops != NULL && p->crossings != NULL && p->gbps != NULL && p->is_common != NULL;
}

static bool make_arrays(ki_paths *p, size_t gpu_count)
{
    size_t nodes = (size_t)p->t->node_count, used = gpu_count < nodes ? gpu_count : nodes;
    size_t switches = (size_t)p->t->switch_count;
    p->kinds = (ki_kind_paths **)ki_calloc(NULL, (size_t)p->t->kind_count + 1, sizeof *p->kinds);
    p->slot = (int *)ki_calloc(NULL, nodes + 1, sizeof *p->slot);
    p->node = (int *)ki_calloc(NULL, used + 1, sizeof *p->node);
    p->base = (int *)ki_calloc(NULL, used + 1, sizeof *p->base);
    p->leaf = (int *)ki_calloc(NULL, switches + 1, sizeof *p->leaf);
    p->leaf_owner = (int *)ki_calloc(NULL, switches + 1, sizeof *p->leaf_owner);
    if (p->kinds == NULL || p->slot == NULL || p->node == NULL || p->base == NULL || p->leaf == NULL ||
        p->leaf_owner == NULL)
        return false;
    memset(p->slot, 0xff, nodes * sizeof *p->slot);
    memset(p->leaf, 0xff, switches * sizeof *p->leaf);
    return true;
}

kith_status ki_paths_create(const kith_topology *t, const int *gpus, size_t count, ki_paths **paths)
{
    ki_paths *p = (ki_paths *)ki_calloc(NULL, 1, sizeof *p);
    if (p == NULL)
        return KITH_ERR_NO_MEMORY;
    p->t = t;
    kith_status status = make_arrays(p, count) ? KITH_OK : KITH_ERR_NO_MEMORY;
    if (status == KITH_OK)
        status = use_nodes(p, gpus, count);
    if (status == KITH_OK)
        status = give_numbers(p);
    if (status == KITH_OK && !make_scratch(p))
        status = KITH_ERR_NO_MEMORY;
    if (status != KITH_OK) {
        ki_paths_destroy(p);
        return status;
    }
    fill_resources(p);
    *paths = p;
    return KITH_OK;
}

void ki_paths_destroy(ki_paths *p)
{
    if (p == NULL)
        return;
    for (int k = 0; p->kinds != NULL && k < p->t->kind_count; k++)
        ki_kind_paths_destroy(p->kinds[k]);
    void *const arrays[] = { p->kinds,      p->slot, p->node,      p->base, p->leaf,
                             p->leaf_owner, p->gbps, p->is_common, p->hops, p->crossings };
    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++)
        ki_free(NULL, arrays[i]);
    ki_free(NULL, p);
}

int ki_paths_resource_count(const ki_paths *p)
{
    return p->resource_count;
}

const double *ki_paths_gbps(const ki_paths *p)
{
    return p->gbps;
}

/* ---- what a resource is ---- */

static int slot_of(const ki_paths *p, int resource)
{
    int low = 0, high = p->used_count - 1; /* the last slot whose first resource is not above */
    while (low < high) {
        int middle = low + (high - low + 1) / 2;
        if (p->base[middle] <= resource)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

ki_resource ki_paths_resource(const ki_paths *p, int resource, int *node)
{
    *node = -1;
    if (resource >= p->leaf_base) {
        int offset = resource - p->leaf_base;
        return (ki_resource){ offset % 2 == 0 ? KI_RESOURCE_LEAF_UP : KI_RESOURCE_LEAF_DOWN, p->leaf_owner[offset / 2],
                              -1, p->gbps[resource] };
    }
    int slot = slot_of(p, resource);
    *node = p->node[slot];
    return p->kinds[p->t->nodes[*node].kind]->resources[resource - p->base[slot]];
}

bool ki_paths_is_common(const ki_paths *p, int resource)
{
    return p->is_common[resource];
}

const char *ki_paths_name(const ki_paths *p, int resource, char *buffer, size_t nbytes)
{
    static const char *const words[][2] = {
        { "gpu", "nvlink.out" }, { "gpu", "nvlink.in" }, { "gpu", "pair" },    { "gpu", "pcie.out" },
        { "gpu", "pcie.in" },    { "switch", "up" },     { "switch", "down" }, { "place", "socket" },
        { "nic", "out" },        { "nic", "in" },        { "leaf", "up" },     { "leaf", "down" },
    };
    int node;
    ki_resource r = ki_paths_resource(p, resource, &node);
    char owner[24] = "", other[16] = "";
    if (node >= 0)
        snprintf(owner, sizeof owner, "node%d.", node);
    if (r.b >= 0)
        snprintf(other, sizeof other, "%d", r.b);
    snprintf(buffer, nbytes, "%s%s%d.%s%s", owner, words[r.kind][0], r.a, words[r.kind][1], other);
    return buffer;
}

/* ---- routes ---- */

static void add_hops(ki_paths *p, ki_route *route, const ki_hop *hops, int count, int base)
{
    for (int i = 0; i < count; i++)
        p->hops[route->hop_count++] = (ki_hop){ base + hops[i].resource, hops[i].share };
}

static int cross_at(crossing *crossings, int count, int at, float out, float in)
{
    int i = 0;
    while (i < count && crossings[i].at != at)
        i++;
    if (i == count)
        crossings[i] = (crossing){ at, 0, 0 };
    crossings[i].out += out;
    crossings[i].in += in;
    return i == count ? count + 1 : count;
}

static int start_crossings(ki_paths *p, const kith_node *node, const ki_kind_paths *kind, const ki_half *half,
                           bool is_out, int count)
{
    const ki_hop *nics = kind->nics + half->first_nic;
    for (int i = 0; i < half->nic_count || (i == 0 && half->nic_count == 0); i++) {
        float share = half->nic_count > 0 ? nics[i].share : 1;
        bool has_rail = half->nic_count > 0 && nics[i].resource < node->rail_count;
        int leaf = has_rail ? node->rails[nics[i].resource] : node->leaf;
        if (leaf >= 0)
            count = cross_at(p->crossings, count, leaf, is_out ? share : 0, is_out ? 0 : share);
    }
    return count;
}

/* From the lowest switch up (parents have smaller numbers): what meets is done, the rest takes the uplinks. */
static void cross_tree(ki_paths *p, ki_route *route, int count)
{
    const float least = 1e-6f;
    while (count > 0) {
        int lowest = 0;
        for (int i = 1; i < count; i++)
            if (p->crossings[i].at > p->crossings[lowest].at)
                lowest = i;
        crossing here = p->crossings[lowest];
        p->crossings[lowest] = p->crossings[--count];
        float met = here.out < here.in ? here.out : here.in;
        here.out -= met;
        here.in -= met;
        int resource = p->leaf[here.at];
        if (resource >= 0 && here.out > least)
            p->hops[route->hop_count++] = (ki_hop){ resource, here.out };
        if (resource >= 0 && here.in > least)
            p->hops[route->hop_count++] = (ki_hop){ resource + 1, here.in };
        if (p->t->switches[here.at].parent >= 0 && (here.out > least || here.in > least))
            count = cross_at(p->crossings, count, p->t->switches[here.at].parent, here.out, here.in);
    }
}

static void network_route(ki_paths *p, int from_node, int from, int to_node, int to, ki_route *route)
{
    const kith_node *a = &p->t->nodes[from_node], *b = &p->t->nodes[to_node];
    const ki_kind_paths *from_kind = p->kinds[a->kind], *to_kind = p->kinds[b->kind];
    const ki_half *out = &from_kind->out[from], *in = &to_kind->in[to];
    add_hops(p, route, from_kind->hops + out->first_hop, out->hop_count, p->base[p->slot[from_node]]);
    add_hops(p, route, to_kind->hops + in->first_hop, in->hop_count, p->base[p->slot[to_node]]);
    double there = from_kind->net_latency_s, back = to_kind->net_latency_s;
    route->latency_s = there > back ? there : back;
    if (p->resource_count > p->leaf_base) {
        int count = start_crossings(p, a, from_kind, out, true, 0);
        cross_tree(p, route, start_crossings(p, b, to_kind, in, false, count));
    }
}

static void domain_route(ki_paths *p, int from_node, int from, int to_node, int to, ki_route *route)
{
    const ki_kind_paths *a = p->kinds[p->t->nodes[from_node].kind], *b = p->kinds[p->t->nodes[to_node].kind];
    if (a->port[from] >= 0)
        p->hops[route->hop_count++] = (ki_hop){ p->base[p->slot[from_node]] + a->port[from], 1 };
    if (b->port[to] >= 0)
        p->hops[route->hop_count++] = (ki_hop){ p->base[p->slot[to_node]] + b->port[to] + 1, 1 };
    route->latency_s = a->nvlink_latency_s;
}

static void node_route(ki_paths *p, int node, int from, int to, const kith_link *link, ki_route *route)
{
    const ki_kind_paths *kind = p->kinds[p->t->nodes[node].kind];
    int base = p->base[p->slot[node]], pair = kind->pair[from * kind->kind->gpu_count + to];
    bool is_nvlink = link->type == KITH_LINK_NVLINK || link->type == KITH_LINK_XGMI;
    if (is_nvlink && link->is_switched) {
        domain_route(p, node, from, node, to, route);
    } else if (is_nvlink) {
        if (pair >= 0)
            p->hops[route->hop_count++] = (ki_hop){ base + pair, 1 };
        route->latency_s = link->type == KITH_LINK_XGMI ? kind->xgmi_latency_s : kind->nvlink_latency_s;
    } else {
        if (kind->pcie[from] >= 0)
            p->hops[route->hop_count++] = (ki_hop){ base + kind->pcie[from], 1 };
        ki_hop *middle = p->hops + route->hop_count;
        int count = ki_kind_paths_pcie(kind, from, to, link->type, 1, middle);
        for (int i = 0; i < count; i++)
            middle[i].resource += base;
        route->hop_count += count;
        if (kind->pcie[to] >= 0)
            p->hops[route->hop_count++] = (ki_hop){ base + kind->pcie[to] + 1, 1 };
        route->latency_s = kind->pcie_latency_s;
    }
}

/* As kith_topology_link() has it. */
static bool is_one_domain(const kith_topology *t, int from_node, int to_node)
{
    int domain = t->nodes[from_node].domain;
    return domain >= 0 && domain == t->nodes[to_node].domain && t->domains[domain].is_nvlink;
}

kith_status ki_paths_route(ki_paths *p, int from, int to, ki_route *route)
{
    int from_node, from_gpu, to_node, to_gpu;
    ki_locate(p->t, from, &from_node, &from_gpu);
    ki_locate(p->t, to, &to_node, &to_gpu);
    *route = (ki_route){ .type = KITH_LINK_NET, .gbps = INFINITY, .hops = p->hops };
    if (from_node == to_node) {
        const kith_node_kind *kind = p->kinds[p->t->nodes[from_node].kind]->kind;
        const kith_link *link = &kind->links[from_gpu * kind->gpu_count + to_gpu];
        route->type = link->type;
        route->gbps = link->gbps > 0 ? link->gbps : INFINITY;
        node_route(p, from_node, from_gpu, to_gpu, link, route);
    } else if (is_one_domain(p->t, from_node, to_node)) {
        double gbps = p->t->domains[p->t->nodes[from_node].domain].gbps;
        route->type = KITH_LINK_NVLINK;
        route->gbps = gbps > 0 ? gbps : INFINITY;
        domain_route(p, from_node, from_gpu, to_node, to_gpu, route);
    } else {
        network_route(p, from_node, from_gpu, to_node, to_gpu, route);
    }
    for (int i = 0; i < route->hop_count; i++) {
        double alone = p->gbps[route->hops[i].resource];
        if (route->hops[i].share < 1)
            alone /= (double)route->hops[i].share;
        route->gbps = alone < route->gbps ? alone : route->gbps;
    }
    if (isfinite(route->gbps))
        return KITH_OK;
    return ki_fail_quiet(KITH_ERR_UNSUPPORTED, "cost: no bandwidth is known between GPU %d and GPU %d", from, to);
}
