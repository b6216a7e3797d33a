/* topology/synthetic_net.c - nodes and network of a machine in words: leaves, spines and a core, NVLink domains.
 *
 * Nodes fill leaf after leaf and leaves spine after spine; the last of each may be part empty. With rails a leaf is as
 * many switches as a node has NICs. A leaf has as many uplinks as ports for NICs, or that share of them that an
 * oversubscribed network has; so has a spine.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "synthetic.h"

#include <limits.h>

/* The switches that were added: leaf l, rail r is switch first_leaf + l * rails + r. */
typedef struct network {
    int leaves, rails, spines;
    int first_leaf; /* -1: none */
    int64_t leaf_uplinks;
} network;

static int parts_of(int count, int size)
{
    return (int)(((int64_t)count + size - 1) / size);
}

static void add_switch(kith_topology *t, const ki_synthetic *s, const char *name, int parent, int level,
                       int64_t uplinks)
{
    kith_switch *added = ki_topology_add_switch(t, name, parent);
    added->level = level;
    if (parent < 0)
        return;
    added->uplink_count = (int)uplinks;
    added->uplink_gbps = s->nic_gbps;
}

static kith_status add_switches(kith_topology *t, const ki_synthetic *s, network *net)
{
    net->first_leaf = -1;
    if (s->nodes_per_leaf == 0)
        return KITH_OK;
    net->leaves = parts_of(s->node_count, s->nodes_per_leaf);
    net->rails = s->has_rails ? s->nic_count : 1;
    net->spines = s->leaves_per_spine > 0 ? parts_of(net->leaves, s->leaves_per_spine) : 1;
    int per_spine = s->leaves_per_spine > 0 ? s->leaves_per_spine : net->leaves;
    int64_t ports = (int64_t)s->nodes_per_leaf * (s->has_rails ? 1 : s->nic_count);
    int share = s->oversubscription > 0 ? s->oversubscription : 1;
    net->leaf_uplinks = (ports + share - 1) / share;
    int64_t spine_uplinks = net->leaf_uplinks * net->rails * per_spine;
    if (spine_uplinks > INT_MAX)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "synthetic machine: a spine would have more than %d links", INT_MAX);
    bool has_spines = net->leaves * net->rails > 1 || s->leaves_per_spine > 0;
    int core = net->spines > 1 ? t->switch_count : -1, first_spine = t->switch_count + (core >= 0);
    if (core >= 0)
        add_switch(t, s, "core", -1, 2, 0);
    for (int i = 0; has_spines && i < net->spines && t->status == KITH_OK; i++)
        add_switch(t, s, ki_topology_format(t, "spine%d", i), core, 1, spine_uplinks);
    net->first_leaf = t->switch_count;
    for (int l = 0; l < net->leaves; l++)
        for (int r = 0; r < net->rails && t->status == KITH_OK; r++) {
            const char *name =
                s->has_rails ? ki_topology_format(t, "leaf%d-rail%d", l, r) : ki_topology_format(t, "leaf%d", l);
            add_switch(t, s, name, has_spines ? first_spine + l / per_spine : -1, 0, net->leaf_uplinks);
        }
    return t->status;
}

static void add_domains(kith_topology *t, const ki_synthetic *s)
{
    int size = s->nodes_per_domain < s->node_count ? s->nodes_per_domain : s->node_count;
    int generation = s->model != NULL ? s->model->nvlink_generation : 4;
    int links = s->model != NULL ? s->model->nvlink_count : 18;
    for (int d = 0; s->nodes_per_domain > 0 && d < parts_of(s->node_count, size) && t->status == KITH_OK; d++)
        ki_topology_add_domain(t, ki_topology_format(t, "domain%d", d), true)->gbps =
            links * ki_constant_gbps(t, ki_nvlink_key(generation, false));
}

/* All nodes of a leaf have the same rails: one list for each leaf. */
static const int *make_rails(kith_topology *t, const network *net, int leaf)
{
    int *rails = (int *)ki_topology_alloc(t, (size_t)net->rails, sizeof *rails);
    for (int r = 0; rails != NULL && r < net->rails; r++)
        rails[r] = net->first_leaf + leaf * net->rails + r;
    return rails;
}

kith_status ki_synthetic_add_nodes(kith_topology *t, const ki_synthetic *s, int kind)
{
    network net = { 0 };
    int first_domain = t->domain_count;
    kith_status status = add_switches(t, s, &net);
    if (status != KITH_OK)
        return status;
    add_domains(t, s);
    const int *rails = NULL;
    for (int n = 0; n < s->node_count && t->status == KITH_OK; n++) {
        kith_node *node = ki_topology_add_node(t, ki_topology_format(t, "node%d", n), kind);
        if (s->nodes_per_domain > 0)
            node->domain = first_domain + n / s->nodes_per_domain;
        if (net.first_leaf < 0)
            continue;
        int leaf = n / s->nodes_per_leaf;
        node->leaf = net.first_leaf + leaf * net.rails;
        if (!s->has_rails)
            continue;
        if (n % s->nodes_per_leaf == 0)
            rails = make_rails(t, &net, leaf);
        node->rails = rails;
        node->rail_count = rails != NULL ? net.rails : 0;
    }
    return t->status;
}
