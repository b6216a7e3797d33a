/* topology/place_seat.c - host and GPU of a rank, and whether it runs there.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "place.h"

#include "hardware.h"
#include <stdio.h>

static const kith_gpu *find_seat(const kith_placement *p, const kith_topology *t, int rank, const kith_node **node)
{
    int n, gpu;
    if (!kith_topology_locate(t, kith_placement_gpu(p, rank), &n, &gpu))
        return NULL;
    *node = kith_topology_node(t, n);
    return &kith_topology_kind(t, (*node)->kind)->gpus[gpu];
}

bool ki_placement_is_seat(const kith_placement *p, const kith_topology *t, int rank, const char *host, const char *pci)
{
    const kith_node *node;
    kith_pci_address address;
    const kith_gpu *gpu = find_seat(p, t, rank, &node);
    if (gpu == NULL || !ki_is_same_host(node->name, host))
        return false;
    return pci == NULL || !gpu->pci.is_known ||
           (ki_pci_parse(pci, &address) == KI_PCI_GOOD && ki_pci_is_same_device(&gpu->pci, &address));
}

bool ki_placement_is_address(const char *pci)
{
    kith_pci_address address;
    return ki_pci_parse(pci, &address) == KI_PCI_GOOD;
}

const char *ki_placement_seat_text(const kith_placement *p, const kith_topology *t, int rank, char *buffer,
                                   size_t nbytes)
{
    const kith_node *node;
    char pci[24];
    const kith_gpu *gpu = find_seat(p, t, rank, &node);
    if (gpu == NULL)
        snprintf(buffer, nbytes, "no GPU");
    else if (gpu->pci.is_known)
        snprintf(buffer, nbytes, "%.64s, GPU %s", node->name, kith_pci_text(&gpu->pci, pci, sizeof pci));
    else
        snprintf(buffer, nbytes, "%.64s, GPU %d", node->name, gpu->index);
    return buffer;
}
