/* tools/tune/default_maps.c - which constants the links of GPUs stand for where the user does not say.
 *
 * Curves of NCCL inside a host tell of the link between the host's GPUs, when all of them have the same one: so many
 * NVLinks of one generation, or PCIe of one generation and width. Nothing is guessed of other links.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "tune.h"

#include <kith/topology.h>
#include <string.h>

/* The link that all pairs of GPUs have; false: they differ, or are fewer than two. */
static bool common_link(const kith_topology *topology, kith_link *link)
{
    int count = kith_topology_gpu_count(topology);
    for (int a = 0; a < count; a++)
        for (int b = a + 1; b < count; b++) {
            kith_link here = kith_topology_link(topology, a, b);
            if (a == 0 && b == 1)
                *link = here;
            if (here.type != link->type || here.count != link->count || here.generation != link->generation)
                return false;
        }
    return count >= 2;
}

/* A bridge joins two GPUs by four links of generation 3; its links are slower than those of other GPUs. */
static bool name_nvlink(const kith_link *link, tune_map *map)
{
    bool is_bridge = link->generation == 3 && link->count == 4 && !link->is_switched;
    map->count = link->count;
    snprintf(map->key, sizeof map->key, "nvlink%d%s", link->generation, is_bridge ? "-bridge" : "");
    return link->generation > 0 && link->count > 0;
}

static bool name_pcie(const kith_topology *topology, tune_map *map)
{
    const kith_gpu *gpus = kith_topology_kind(topology, 0)->gpus;
    map->count = gpus[0].pcie_width / 16.0; /* the constant is of 16 lanes */
    snprintf(map->key, sizeof map->key, "pcie%d", gpus[0].pcie_generation);
    return gpus[0].pcie_generation > 0 && gpus[0].pcie_width > 0;
}

bool tune_map_of_gpus(const kith_topology *topology, tune_map *map)
{
    kith_link link = { .type = KITH_LINK_UNKNOWN };
    if (kith_topology_node_count(topology) != 1 || !common_link(topology, &link))
        return false;
    switch (link.type) {
    case KITH_LINK_NVLINK:
        return name_nvlink(&link, map);
    case KITH_LINK_PIX:
    case KITH_LINK_PXB:
    case KITH_LINK_PHB:
        return name_pcie(topology, map);
    default:
        return false;
    }
}

size_t tune_maps_default(const tune_curves *curves, tune_map *maps)
{
    static const char *const links[] = { "nccl-p2p", "nccl" };
    kith_topology *topology = NULL;
    size_t count = 0;
    for (size_t i = 0; count == 0 && i < sizeof links / sizeof links[0]; i++) {
        const tune_curve *curve = tune_curve_of_link(curves, links[i]);
        if (curve == NULL || curve->key.hosts > 1 || strcmp(curve->key.memory, "device") != 0)
            continue;
        if (topology == NULL && kith_topology_detect(NULL, &topology) != KITH_OK)
            break;
        snprintf(maps[0].link, sizeof maps[0].link, "%s", links[i]);
        count = tune_map_of_gpus(topology, &maps[0]) ? 1 : 0;
    }
    kith_topology_destroy(topology);
    return count;
}
