/* topology/place_report.c - what each axis got: groups, rings, bottleneck, bytes over each class of link.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "place.h"

#include "core/base/mem.h"

#include <limits.h>
#include <string.h>

static int value_between(const kith_topology *t, int from, int to, const kith_link *link)
{
    int node_a, node_b, a, b;
    if (!kith_topology_locate(t, from, &node_a, &a) || !kith_topology_locate(t, to, &node_b, &b) || node_a != node_b)
        return ki_link_value(link);
    return ki_gpu_pair_value(kith_topology_kind(t, kith_topology_node(t, node_a)->kind), a, b);
}

typedef struct walk {
    const kith_topology *t;
    kith_axis_report *axis;
    int narrowest;
    double hop_nbytes;
} walk;

static void walk_hop(walk *w, int group, int from, int to)
{
    kith_link link = kith_topology_link(w->t, from, to);
    int value = value_between(w->t, from, to, &link);
    w->axis->bytes_by_type[link.type] += w->hop_nbytes;
    if (link.type != KITH_LINK_NVLINK && link.type != KITH_LINK_XGMI)
        w->axis->leaves_nvlink = true;
    if (value >= w->narrowest)
        return;
    w->narrowest = value;
    w->axis->bottleneck = link;
    w->axis->bottleneck_group = group;
    w->axis->bottleneck_from = from;
    w->axis->bottleneck_to = to;
}

/* A chain ends at its last member; a ring of two is one link, used both ways. */
static void walk_rings(walk *w, bool is_chain)
{
    for (int g = 0; g < w->axis->group_count; g++) {
        const int *ring = w->axis->rings + (size_t)g * (size_t)w->axis->size;
        for (int i = 0; i + is_chain < w->axis->size; i++)
            walk_hop(w, g, ring[i], ring[(i + 1) % w->axis->size]);
    }
}

/* all_to_all goes to every other member: a share of (n - 1) / n for each of the n - 1. */
static void spread_all_to_all(walk *w)
{
    memset(w->axis->bytes_by_type, 0, sizeof w->axis->bytes_by_type);
    for (int g = 0; g < w->axis->group_count; g++) {
        const int *group = w->axis->groups + (size_t)g * (size_t)w->axis->size;
        for (int i = 0; i < w->axis->size; i++)
            for (int j = 0; j < w->axis->size; j++)
                if (i != j)
                    w->axis->bytes_by_type[kith_topology_link(w->t, group[i], group[j]).type] +=
                        w->hop_nbytes / (w->axis->size - 1);
    }
}

static kith_status make_groups(kith_placement *p, ki_ring_maker *maker, int a, const ki_use *use)
{
    kith_axis_report *axis = &p->axes[a];
    size_t world = (size_t)p->rank_count;
    if (axis->size == 1) {
        axis->groups = axis->rings = p->gpus;
        return KITH_OK;
    }
    int *groups = (int *)ki_calloc(NULL, world, sizeof *groups), *rings = (int *)ki_calloc(NULL, world, sizeof *rings);
    axis->groups = groups;
    axis->rings = rings;
    if (groups == NULL || rings == NULL)
        return KITH_ERR_NO_MEMORY;
    ki_axis_groups(&p->sizes, a, p->gpus, groups);
    return ki_rings_make(maker, a, use, groups, axis->size, axis->group_count, rings);
}

static kith_status report_axis(kith_placement *p, ki_ring_maker *maker, int a, const ki_report_input *in)
{
    enum { MOST_PAIRS = 1024 };
    const ki_use *use = &in->uses[a];
    kith_axis_report *axis = &p->axes[a];
    *axis = (kith_axis_report){ .name = ki_axis_names[a],
                                .size = p->sizes.size[a],
                                .bottleneck_from = -1,
                                .bottleneck_to = -1,
                                .bottleneck = { .type = KITH_LINK_SELF } };
    axis->group_count = p->rank_count / axis->size;
    axis->cost = in->price->cost[a];
    axis->identity_cost = in->identity_price->cost[a];
    axis->step_s = in->price->step_s[a];
    axis->identity_step_s = in->identity_price->step_s[a];
    kith_status status = make_groups(p, maker, a, use);
    if (status != KITH_OK || axis->size == 1)
        return status;
    walk w = { maker->t, axis, INT_MAX, ki_use_hop_nbytes(use, axis->size) };
    walk_rings(&w, ki_use_is_chain(use));
    if (use->op == KITH_COST_ALL_TO_ALL && axis->size <= MOST_PAIRS)
        spread_all_to_all(&w);
    return KITH_OK;
}

/* What the innermost axis would need in the order of the numbers. */
static kith_status look_before(kith_placement *p, ki_ring_maker *maker, const ki_report_input *in)
{
    int a = in->first_axis;
    kith_axis_report before = { .size = p->sizes.size[a], .bottleneck = { .type = KITH_LINK_SELF } };
    before.group_count = p->rank_count / before.size;
    size_t world = (size_t)p->rank_count;
    int *groups = (int *)ki_calloc(NULL, 2 * world, sizeof *groups);
    if (groups == NULL)
        return KITH_ERR_NO_MEMORY;
    ki_axis_groups(&p->sizes, a, in->identity, groups);
    before.rings = groups + world;
    kith_status status = ki_rings_make(maker, a, &in->uses[a], groups, before.size, before.group_count, groups + world);
    walk w = { maker->t, &before, INT_MAX, 0 };
    if (status == KITH_OK)
        walk_rings(&w, ki_use_is_chain(&in->uses[a]));
    p->first_before = before.bottleneck;
    ki_free(NULL, groups);
    return status;
}

kith_status ki_placement_report(kith_placement *p, ki_ring_maker *maker, const ki_report_input *in)
{
    for (int a = 0; a < KI_AXES; a++) {
        kith_status status = report_axis(p, maker, a, in);
        if (status != KITH_OK)
            return status;
    }
    if (in->first != NULL && in->first_axis >= 0)
        p->axes[in->first_axis].equally_good = in->first->equally_good;
    return in->first_axis >= 0 && !in->is_identity ? look_before(p, maker, in) : KITH_OK;
}
