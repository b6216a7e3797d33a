/* topology/place_value.c - what links are worth when partitions are compared.
 *
 * The values only order things: they must not depend on constants that are guessed, so that one matrix has one answer.
 * Costs are computed with bandwidths elsewhere (kith_cost_collective).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "place.h"

#include "sets.h"

#include <string.h>

enum { MOST_LINKS = 1000 };

int ki_link_value(const kith_link *link)
{
    static const int values[] = {
        [KITH_LINK_UNKNOWN] = 0, [KITH_LINK_NET] = 500,  [KITH_LINK_SYS] = 1000, [KITH_LINK_NODE] = 1200,
        [KITH_LINK_PHB] = 2000,  [KITH_LINK_PXB] = 2390, [KITH_LINK_PIX] = 2400, [KITH_LINK_BOARD] = 2405,
        [KITH_LINK_C2C] = 30000, [KITH_LINK_XGMI] = 0,   [KITH_LINK_NVLINK] = 0, [KITH_LINK_SELF] = 0,
    };
    if ((unsigned)link->type > KITH_LINK_SELF)
        return 0;
    if (link->type != KITH_LINK_NVLINK && link->type != KITH_LINK_XGMI)
        return values[link->type];
    int count = link->count < MOST_LINKS ? link->count : MOST_LINKS;
    return count > 1 ? 2000 * count : KI_VALUE_OF_NVLINK;
}

bool ki_gpu_is_usable(const kith_gpu *gpu)
{
    return gpu->is_allowed && !gpu->is_lost;
}

int ki_gpu_pair_value(const kith_node_kind *kind, int a, int b)
{
    static const kith_link system = { .type = KITH_LINK_SYS };
    int value = ki_link_value(&kind->links[a * kind->gpu_count + b]);
    bool is_mig = kind->gpus[a].is_mig || kind->gpus[b].is_mig;
    return is_mig && value > ki_link_value(&system) ? ki_link_value(&system) : value;
}

/* Packages where they are known, else NUMA nodes. */
static int place_of(const kith_node_kind *kind, int numa_index)
{
    for (int i = 0; i < kind->numa_count; i++)
        if (kind->numas[i].os_index == numa_index && kind->numas[i].package >= 0)
            return kind->numas[i].package;
    return -1 - numa_index;
}

static bool share_socket(const kith_node_kind *kind, const kith_gpu *a, const kith_gpu *b)
{
    for (int i = 0; i < a->numa_count; i++)
        for (int j = 0; j < b->numa_count; j++)
            if (place_of(kind, a->numas[i]) == place_of(kind, b->numas[j]))
                return true;
    if (a->numa_count > 0 && b->numa_count > 0)
        return false;
    return a->cpus != NULL && b->cpus != NULL && a->cpus[0] != '\0' && strcmp(a->cpus, b->cpus) == 0;
}

static bool share_nic(const kith_node_kind *kind, int a, int b)
{
    const kith_link *of_a = kind->nic_links + (size_t)a * (size_t)kind->nic_count;
    const kith_link *of_b = kind->nic_links + (size_t)b * (size_t)kind->nic_count;
    kith_link_type best_a, best_b;
    kith_nearest_nics(kind, a, NULL, 0, &best_a);
    kith_nearest_nics(kind, b, NULL, 0, &best_b);
    for (int nic = 0; nic < kind->nic_count && best_a != KITH_LINK_UNKNOWN && best_b != KITH_LINK_UNKNOWN; nic++)
        if (of_a[nic].type == best_a && of_b[nic].type == best_b)
            return true;
    return false;
}

/* A NIC that two GPUs share is not shared with a third group when both are in one; so sharing counts for a pair. */
int ki_gpu_pair_finer(const kith_node_kind *kind, int a, int b)
{
    return (share_socket(kind, &kind->gpus[a], &kind->gpus[b]) ? 1000 : 0) + (share_nic(kind, a, b) ? 1 : 0);
}
