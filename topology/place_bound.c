/* topology/place_bound.c - what no placement can beat: the bytes that must move, over the most that GPUs can move.
 *
 * Axis by axis, as if one group of n GPUs had the machine for itself and latencies were nothing. The parts of a group
 * are what stands on one side of a border; with k parts of at most `most` GPUs at least `total` vectors cross borders,
 * all parts together (an all_reduce: k - 1 to gather what the parts have, k - 1 to tell them), and they cross them
 * through n GPUs. Each GPU by itself is a part, so the same count bounds the bytes that GPUs send at all.
 *
 * A group is either joined by NVLink, or in one island where some GPUs have only PCIe between them, or in several
 * islands with the network between them. Which is best is not asked: the least of the three bounds holds for all.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "place.h"

#include "model.h"

#include <math.h>
#include <stdlib.h>

/* Routes keep shares of NICs as float, so what they carry may be off by this much. */
#define SLACK 1e-6

/* GB/s of the best GPU: over NVLink to its best peers, over PCIe, and through its NICs. INFINITY: nothing limits. */
typedef struct limits {
    double nvlink_gbps, pcie_gbps, network_gbps;
} limits;

/* What may hang together. */
typedef struct nvlink_shape {
    int joined_most; /* GPUs that NVLink joins, the most */
    bool is_mesh;    /* some of them have no NVLink to each other */
} nvlink_shape;

static bool is_direct(const kith_link *link)
{
    return link->type == KITH_LINK_NVLINK || link->type == KITH_LINK_XGMI;
}

/* ---- what a GPU can carry ---- */

static int compare_down(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x < y) - (x > y);
}

/* The port into the switch, and the widest links to so many peers. is_out: of what GPU g sends, else receives. */
static double nvlink_of(const kith_node_kind *kind, int g, bool is_out, int peers, double domain_gbps)
{
    double pair[KI_MAX_GPUS], port = domain_gbps;
    int pairs = 0, n = kind->gpu_count;
    bool has_port = false;
    for (int other = 0; other < n; other++) {
        const kith_link *link = &kind->links[is_out ? g * n + other : other * n + g];
        const kith_link *row = &kind->links[g * n + other]; /* what the port is made of */
        if (is_direct(row) && row->is_switched)
            port = fmax(port, row->gbps);
        has_port = has_port || (is_direct(link) && link->is_switched);
        if (is_direct(link) && !link->is_switched && link->gbps > 0)
            pair[pairs++] = link->gbps;
    }
    if (has_port && !(port > 0))
        return INFINITY;
    qsort(pair, (size_t)pairs, sizeof pair[0], compare_down);
    for (int i = 0; i < pairs && i < peers; i++)
        port += pair[i];
    return port;
}

/* All NICs that a GPU uses, behind its PCIe link. */
static double network_of(const kith_topology *t, const kith_node_kind *kind, int g, double pcie_gbps)
{
    const kith_link *row = kind->nic_links + (size_t)g * (size_t)kind->nic_count;
    double gbps = kind->nic_count == 0 ? ki_constant_gbps(t, "net-unknown") : 0;
    kith_link_type nearest;
    kith_nearest_nics(kind, g, NULL, 0, &nearest);
    for (int nic = 0; nic < kind->nic_count; nic++)
        if ((nearest == KITH_LINK_UNKNOWN || row[nic].type == nearest) && kind->nics[nic].gbps > 0)
            gbps += kind->nics[nic].gbps;
    return fmin(pcie_gbps, gbps > 0 ? gbps : INFINITY);
}

static limits find_limits(const ki_islands *s, int peers)
{
    limits most = { 0, 0, 0 };
    double domain_gbps = 0;
    for (int i = 0; i < s->count; i++)
        if (s->islands[i].domain >= 0) {
            double gbps = kith_topology_domain(s->t, s->islands[i].domain)->gbps;
            domain_gbps = fmax(domain_gbps, gbps > 0 ? gbps : INFINITY);
        }
    for (int k = 0; k < kith_topology_kind_count(s->t); k++)
        for (int i = 0; i < s->usable_count[k]; i++) {
            const kith_node_kind *kind = kith_topology_kind(s->t, k);
            int g = s->usable[k][i];
            double pcie = kind->gpus[g].pcie_gbps > 0 ? kind->gpus[g].pcie_gbps : INFINITY;
            most.pcie_gbps = fmax(most.pcie_gbps, pcie);
            most.network_gbps = fmax(most.network_gbps, network_of(s->t, kind, g, pcie));
            most.nvlink_gbps = fmax(most.nvlink_gbps, nvlink_of(kind, g, true, peers, domain_gbps));
            most.nvlink_gbps = fmax(most.nvlink_gbps, nvlink_of(kind, g, false, peers, domain_gbps));
        }
    return most;
}

/* ---- what hangs together ---- */

static void look_at_kind(const ki_islands *s, int k, bool has_domains, nvlink_shape *shape)
{
    const kith_node_kind *kind = kith_topology_kind(s->t, k);
    int island[KI_MAX_GPUS], count[KI_MAX_GPUS] = { 0 };
    bool has_islands = kith_nvlink_islands(kind, island) > 0;
    for (int i = 0; i < s->usable_count[k]; i++) {
        int a = s->usable[k][i];
        for (int j = 0; j < i; j++) {
            int b = s->usable[k][j];
            bool is_joined = has_domains || (has_islands && island[a] == island[b]);
            bool is_pair =
                is_direct(&kind->links[a * kind->gpu_count + b]) && is_direct(&kind->links[b * kind->gpu_count + a]);
            shape->is_mesh = shape->is_mesh || (is_joined && !is_pair);
        }
        if (has_islands && ++count[island[a]] > shape->joined_most)
            shape->joined_most = count[island[a]];
    }
}

static nvlink_shape find_shape(const ki_islands *s)
{
    nvlink_shape shape = { 1, false };
    bool has_domains = false;
    for (int i = 0; i < s->count; i++)
        if (s->islands[i].domain >= 0) {
            has_domains = true;
            if (s->islands[i].gpu_count > shape.joined_most)
                shape.joined_most = s->islands[i].gpu_count;
        }
    for (int k = 0; k < kith_topology_kind_count(s->t); k++)
        look_at_kind(s, k, has_domains, &shape);
    return shape;
}

/* ---- what must move ---- */

/* Vectors that cross borders between k parts of at most `most` of n ranks, all together. */
static double total_of(kith_cost_op op, int n, int k, int most)
{
    if (k < 2)
        return 0;
    switch (op) {
    case KITH_COST_ALL_REDUCE:
        return 2.0 * (k - 1);
    case KITH_COST_REDUCE_SCATTER:
    case KITH_COST_ALL_GATHER:
        return k - 1;
    case KITH_COST_ALL_TO_ALL: /* each rank has at most most - 1 peers on its side */
        return n - most;
    case KITH_COST_SHIFT:
    case KITH_COST_SEND_RECV: /* a whole message through one GPU, as if all n had one */
        return n;
    case KITH_COST_BROADCAST: /* a part without the root gets it through its own GPUs */
        return (double)n / most;
    }
    return 0;
}

static double seconds(const ki_use *use, double total, int n, double gbps)
{
    return total > 0 ? total * use->nbytes / n / gbps * 1e-9 : 0;
}

/* A group in parts of at most `most` that have only border_gbps of a GPU between them; least_parts: there are. */
static double in_parts(const ki_use *use, int n, int most, int least_parts, double border_gbps, const limits *l)
{
    enum { MOST_EXACT = 128 }; /* over more ranks all_to_all is priced by some of its distances */
    int k = (n + most - 1) / most;
    k = k > least_parts ? k : least_parts;
    most = most < n - k + 1 ? most : n - k + 1;
    double inside_s = seconds(use, total_of(use->op, n, n, 1), n, l->nvlink_gbps + l->pcie_gbps);
    bool is_sampled = use->op == KITH_COST_ALL_TO_ALL && n > MOST_EXACT;
    double border_s = is_sampled ? 0 : seconds(use, total_of(use->op, n, k, most), n, border_gbps);
    return fmax(inside_s, border_s);
}

static double bound_of_axis(const ki_islands *s, const nvlink_shape *shape, const ki_use *use, int n)
{
    limits l = find_limits(s, use->op == KITH_COST_SEND_RECV || use->op == KITH_COST_SHIFT ? 1 : n - 1);
    double least_s = INFINITY;
    if (n <= shape->joined_most)
        least_s = seconds(use, total_of(use->op, n, n, 1), n, l.nvlink_gbps);
    if (n <= s->most)
        least_s = fmin(least_s, in_parts(use, n, shape->joined_most, shape->is_mesh ? 1 : 2, l.pcie_gbps, &l));
    if (s->count > 1)
        least_s = fmin(least_s, in_parts(use, n, s->most, 2, l.network_gbps, &l));
    return isfinite(least_s) ? least_s : 0;
}

double ki_bound_find(const ki_islands *islands, const ki_sizes *sizes, const ki_use *uses)
{
    nvlink_shape shape = find_shape(islands);
    double bound = 0;
    for (int axis = 0; axis < KI_AXES; axis++)
        if (sizes->size[axis] > 1 && uses[axis].calls > 0)
            bound += ki_use_step_s(&uses[axis], bound_of_axis(islands, &shape, &uses[axis], sizes->size[axis]));
    return bound * (1 - SLACK);
}
