/* topology/check.c - does a finished topology hold together? Bugs of readers show here and not in a report.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "model.h"

#define BROKEN(...) return ki_fail_quiet(KITH_ERR_INTERNAL, "topology: " __VA_ARGS__)

static kith_status check_links(const kith_node_kind *kind)
{
    if (kind->links == NULL || kind->nic_links == NULL)
        BROKEN("%s has no matrices", kind->name);
    for (int i = 0; i < kind->gpu_count; i++)
        for (int j = 0; j < kind->gpu_count; j++) {
            const kith_link *there = &kind->links[i * kind->gpu_count + j];
            const kith_link *back = &kind->links[j * kind->gpu_count + i];
            if ((there->type == KITH_LINK_SELF) != (i == j))
                BROKEN("%s: cell %d,%d is %s", kind->name, i, j, kith_link_type_name(there->type));
            if (there->type != back->type || there->count != back->count)
                BROKEN("%s: cells %d,%d and %d,%d differ", kind->name, i, j, j, i);
            if (there->count < 0 || there->gbps < 0)
                BROKEN("%s: cell %d,%d is negative", kind->name, i, j);
        }
    return KITH_OK;
}

kith_status ki_kind_check(const kith_node_kind *kind)
{
    if (kind->name == NULL || kind->format == NULL)
        BROKEN("a kind has no name or format");
    for (int i = 0; i < kind->switch_count; i++)
        if (kind->switches[i].parent >= i || kind->switches[i].parent < -1 ||
            kind->switches[i].numa >= kind->numa_count)
            BROKEN("%s: PCI switch %d has parent %d, NUMA node %d", kind->name, i, kind->switches[i].parent,
                   kind->switches[i].numa);
    for (int i = 0; i < kind->gpu_count; i++) {
        const kith_gpu *gpu = &kind->gpus[i];
        if (gpu->pci_switch >= kind->switch_count)
            BROKEN("%s: GPU %d hangs on PCI switch %d of %d", kind->name, i, gpu->pci_switch, kind->switch_count);
        for (int j = 0; j < i; j++)
            if (kind->gpus[j].index == gpu->index)
                BROKEN("%s: two GPUs have the number %d", kind->name, gpu->index);
    }
    for (int i = 0; i < kind->nic_count; i++)
        if (kind->nics[i].name == NULL || kind->nics[i].pci_switch >= kind->switch_count)
            BROKEN("%s: NIC %d has no name or a wrong switch", kind->name, i);
    return check_links(kind);
}

kith_status ki_topology_check(const kith_topology *t)
{
    for (int k = 0; k < t->kind_count; k++) {
        kith_status status = ki_kind_check(&t->kinds[k]->view);
        if (status != KITH_OK)
            return status;
    }
    for (int s = 0; s < t->switch_count; s++)
        if (t->switches[s].parent >= s || t->switches[s].parent < -1)
            BROKEN("switch %d has parent %d", s, t->switches[s].parent);
    for (int s = 0; s < t->switch_count; s++)
        if (t->switches[s].name == NULL || t->switches[s].level < 0 || t->switches[s].uplink_count < 0 ||
            (t->switches[s].parent >= 0 && t->switches[t->switches[s].parent].level <= t->switches[s].level))
            BROKEN("switch %d has level %d, %d uplinks", s, t->switches[s].level, t->switches[s].uplink_count);
    for (int n = 0; n < t->node_count; n++) {
        const kith_node *node = &t->nodes[n];
        if (node->kind < 0 || node->kind >= t->kind_count || node->leaf >= t->switch_count ||
            node->domain >= t->domain_count)
            BROKEN("node %s has kind %d, leaf %d, domain %d", node->name, node->kind, node->leaf, node->domain);
        for (int i = 0; i < node->rail_count; i++)
            if (node->rails == NULL || node->rails[i] < -1 || node->rails[i] >= t->switch_count)
                BROKEN("node %s has rail %d on a switch that is not there", node->name, i);
    }
    return KITH_OK;
}
