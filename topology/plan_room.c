/* topology/plan_room.c - how many ranks a machine has room for. kith_place() decides that: GPUs that may not be used do
 * not count, and what an island cannot fill with whole groups is left over. A plan follows the same rules, else it had
 * ranks that cannot be placed.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "place.h"
#include "plan_parts.h"

enum { DP = 3 }; /* in ki_sizes */

/* The sizes that placement takes for these options with an open dp. */
static kith_status choose(const kith_plan_options *o, const kith_topology *topology, ki_sizes *sizes)
{
    kith_placement_options wanted = KITH_PLACEMENT_OPTIONS_INIT;
    ki_islands islands;
    wanted.tp = o->tp > 0 ? o->tp : 1;
    wanted.cp = o->cp;
    wanted.ep = o->ep;
    wanted.pp = o->pp;
    wanted.order = o->order;
    kith_status status = ki_islands_make(topology, &islands);
    if (status != KITH_OK)
        return status;
    status = ki_sizes_choose(&wanted, &islands, sizes);
    ki_islands_fini(&islands);
    return status;
}

kith_status ki_layout_choose_dp(kith_plan_options *o, const kith_topology *topology)
{
    ki_sizes sizes;
    kith_status status = choose(o, topology, &sizes);
    if (status == KITH_OK)
        o->dp = sizes.size[DP];
    return status;
}

kith_status ki_layout_choose_world(const kith_plan_options *o, const kith_topology *topology, int *world)
{
    ki_sizes sizes;
    kith_status status = choose(o, topology, &sizes);
    if (status != KITH_OK)
        return status;
    int given = sizes.world / sizes.size[DP]; /* what the others take; a dp that is given must come out even, too */
    int64_t step = (int64_t)given * (o->dp > 0 ? o->dp : 1);
    *world = sizes.world >= step ? (int)(sizes.world / step * step) : sizes.world;
    return KITH_OK;
}

/* The kind with the least network for each of its GPUs counts. */
static void find_network(const ki_islands *islands, ki_layout_room *room)
{
    room->nic_gbps = room->node_gbps = 0;
    for (int k = 0; k < kith_topology_kind_count(islands->t); k++) {
        const kith_node_kind *kind = kith_topology_kind(islands->t, k);
        double most = 0, sum = 0;
        for (int i = 0; i < kind->nic_count; i++) {
            sum += kind->nics[i].gbps > 0 ? kind->nics[i].gbps : 0;
            most = kind->nics[i].gbps > most ? kind->nics[i].gbps : most;
        }
        if (islands->usable_count[k] == 0 || !(sum > 0))
            continue;
        sum *= (double)islands->most / islands->usable_count[k];
        if (!(room->node_gbps > 0) || sum < room->node_gbps) {
            room->node_gbps = sum;
            room->nic_gbps = most;
        }
    }
}

static double find_nvlink(const ki_islands *islands)
{
    double least = 0;
    for (int k = 0; k < kith_topology_kind_count(islands->t); k++) {
        const kith_node_kind *kind = kith_topology_kind(islands->t, k);
        if (islands->usable_count[k] < 2)
            continue;
        const kith_link *link = &kind->links[islands->usable[k][0] * kind->gpu_count + islands->usable[k][1]];
        bool is_known = link->type == KITH_LINK_NVLINK && link->gbps > 0;
        if (is_known && (!(least > 0) || link->gbps < least))
            least = link->gbps;
    }
    return least;
}

kith_status ki_layout_room_of(const kith_topology *topology, ki_layout_room *room)
{
    ki_islands islands;
    kith_status status = ki_islands_make(topology, &islands);
    if (status != KITH_OK)
        return status;
    int nvlink = ki_islands_nvlink_size(&islands);
    room->total = islands.total;
    room->island_size = islands.most;
    room->nvlink_size = nvlink >= 0 ? nvlink : islands.most;
    room->ib_gbps = ki_layout_link_gbps(topology, KITH_PLAN_IB);
    room->nvlink_class_gbps = ki_layout_link_gbps(topology, KITH_PLAN_NVLINK);
    room->nvlink_gbps = find_nvlink(&islands);
    find_network(&islands, room);
    ki_islands_fini(&islands);
    return KITH_OK;
}
