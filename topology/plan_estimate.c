/* topology/plan_estimate.c - about how long a step takes on a machine, without placing it.
 *
 * Placing and pricing a layout on a large machine takes a fraction of a second, and a search looks at hundreds. Here
 * each row takes the time of one class of link: NVLink where its groups stay inside an NVLink island, PCIe inside a
 * node, else InfiniBand; NVLink and InfiniBand with the bandwidth that the machine has. Ranks are taken to fill nodes
 * in their order, so that the strides of the axes tell it.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "plan_parts.h"

#include <string.h>

/* How the groups of a row lie among ranks. */
typedef struct extent {
    int64_t stride; /* from one member to the next */
    int64_t span;   /* ranks from the first to the last member, both included, at most */
} extent;

static extent extent_of(const kith_plan *plan, const kith_plan_traffic_row *row)
{
    static const char *const names[] = { "tp", "cp", "ep", "dp", "pp" };
    const kith_plan_options *o = &plan->options;
    const int sizes[] = { o->tp, o->cp, o->ep, o->dp, o->pp };
    bool is_ends = strcmp(row->group, "embed") == 0; /* two ranks, but a pipeline apart */
    const char *group = is_ends ? "pp" : row->group;
    extent found = { 0, 1 };
    int64_t stride = 1;
    for (const char *word = o->order; *word != '\0'; word += word[2] == '-' ? 3 : 2) {
        int axis = 0;
        while (axis < 4 && strncmp(word, names[axis], 2) != 0)
            axis++;
        bool is_part = !is_ends && row->group_size < sizes[axis]; /* neighbours on that axis */
        if (sizes[axis] > 1 && strstr(group, names[axis]) != NULL) {
            found.stride = found.stride > 0 ? found.stride : stride;
            found.span = stride * (is_part ? row->group_size : sizes[axis]);
        }
        stride *= sizes[axis];
    }
    return found;
}

/* The time of a class with another bandwidth than its own. */
static double time_at(const kith_plan_traffic_row *row, kith_plan_link link, double class_gbps, double gbps)
{
    return row->time_s[link] + row->ops * row->wire_nbytes * (1 / gbps - 1 / class_gbps) / 1e9;
}

/* As many rings leave a node as it has members next to each other in different groups; in an all_to_all every rank
 * sends to other nodes. They share the node's NICs, and one ring has no more than one NIC. */
static double network_time(const kith_plan_traffic_row *row, extent e, const ki_layout_room *room)
{
    if (!(room->nic_gbps > 0 && room->node_gbps > 0))
        return row->time_s[KITH_PLAN_IB];
    bool is_all = strcmp(row->op, "all_to_all") == 0 || e.stride > room->island_size;
    double share = room->node_gbps / (double)(is_all ? room->island_size : e.stride);
    return time_at(row, KITH_PLAN_IB, room->ib_gbps, share < room->nic_gbps ? share : room->nic_gbps);
}

static double row_time(const kith_plan *plan, const kith_plan_traffic_row *row, const ki_layout_room *room)
{
    extent e = extent_of(plan, row);
    if (e.span > room->island_size)
        return network_time(row, e, room);
    if (e.span > room->nvlink_size)
        return row->time_s[KITH_PLAN_PCIE];
    return room->nvlink_gbps > 0 ? time_at(row, KITH_PLAN_NVLINK, room->nvlink_class_gbps, room->nvlink_gbps)
                                 : row->time_s[KITH_PLAN_NVLINK];
}

double ki_layout_estimate(const kith_plan *plan, const ki_layout_room *room)
{
    kith_plan guess = *plan;
    for (int i = 0; i < guess.row_count; i++)
        guess.rows[i].placed_s = row_time(plan, &plan->rows[i], room);
    ki_layout_fill_step(&guess, KITH_PLAN_LINKS);
    return guess.placed_step_s;
}
