/* topology/nccl_links.c - how near the devices of an NCCL topology file are to each other, and their NVLinks.
 *
 * Nearness is counted as NCCL does it: PIX below the same PCI bridge, PXB below different ones that meet in a third,
 * PHB through the CPU, SYS between two <cpu> (NUMA nodes; NCCL does not know which of them share a package).
 *
 * A link's target is a bus id. NVSwitch: the GPU's links go into the switch, and all GPUs that have some reach each
 * other. A GPU of the file: a direct link. fffffff:ffff:ff: the driver hides the peer in a virtual machine; NCCL takes
 * that for NVSwitch, so does Kith, with a doubt. The GPU itself (seen where a hypervisor renumbers the bus): there are
 * links, and nobody knows where to.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "nccl.h"

#include "core/base/mem.h"
#include <stdlib.h>
#include <string.h>

enum { CLASS_NVSWITCH = 0x068000, MOST_LINKS = 64 };

/* ---- nearness ---- */

static kith_link_type nearness(const ki_nccl *n, const ki_nccl_device *a, const ki_nccl_device *b)
{
    const kith_pci_switch *switches = n->kind->view.switches;
    if (a->cpu != b->cpu)
        return KITH_LINK_SYS;
    if (a->pci_switch >= 0 && a->pci_switch == b->pci_switch)
        return KITH_LINK_PIX;
    for (int above = a->pci_switch; above >= 0; above = switches[above].parent)
        for (int other = b->pci_switch; other >= 0; other = switches[other].parent)
            if (above == other)
                return KITH_LINK_PXB;
    return KITH_LINK_PHB;
}

static void set_nearness(ki_nccl *n)
{
    kith_certainty certainty = n->kind->view.is_virtual ? KITH_ASSUMED : KITH_KNOWN;
    for (int i = 0; i < n->gpu_count; i++) {
        for (int j = 0; j < i; j++)
            ki_kind_set_link(n->kind, i, j, nearness(n, &n->gpus[i], &n->gpus[j]), 0, certainty);
        for (int j = 0; j < n->nic_count; j++)
            *ki_kind_nic_link(n->kind, i, j) =
                (kith_link){ .type = nearness(n, &n->gpus[i], &n->nics[j]), .certainty = certainty };
    }
}

/* ---- virtual machines ---- */

/* Signs that a hypervisor flattened the tree. A box whose GPUs hang on the CPU without a bridge is not yet one: the
 * NUMA node or the link must be unreadable, or each GPU must be alone in a PCI domain (Hyper-V, some KVM). */
static bool is_flattened(const ki_nccl *n)
{
    const kith_node_kind *kind = &n->kind->view;
    bool is_alone = kind->gpu_count > 1;
    if (n->has_bridges || kind->gpu_count == 0)
        return false;
    for (int i = 0; i < kind->gpu_count; i++) {
        if (n->cpus[n->gpus[i].cpu].numaid < 0 || kind->gpus[i].pcie_generation == 0)
            return true;
        for (int j = 0; j < i; j++)
            is_alone = is_alone && kind->gpus[i].pci.domain != kind->gpus[j].pci.domain;
        is_alone = is_alone && kind->gpus[i].pci.bus == 0;
    }
    return is_alone;
}

static void find_machine(ki_nccl *n)
{
    int k = ki_kind_index(n->t, n->kind), lost = 0;
    for (int i = 0; i < n->gpu_count; i++)
        lost += n->cpus[n->gpus[i].cpu].numaid < 0;
    if (lost > 0)
        ki_topology_doubt(n->t, k, -1, n->source->name, 0, "numa-unknown",
                          "%d GPUs stand below a <cpu> with numaid -1: their NUMA node is unknown, not node 0", lost);
    if (!is_flattened(n))
        return;
    n->kind->view.is_virtual = true;
    ki_topology_doubt(n->t, k, -1, n->source->name, 0, "vm-pcie-hidden",
                      "a virtual machine that hides its PCIe tree: PHB and SYS are what it shows, the real paths may "
                      "differ; a topology file of the machine type tells them");
}

/* ---- NVLink and xGMI ---- */

typedef struct links {
    int *direct; /* [gpus * gpus], as each row tells it */
    int into_switch[KI_MAX_GPUS];
    int total[KI_MAX_GPUS];
    int hidden, own, gone; /* GPUs with links to a hidden peer, to themselves, to what is not in the file */
    int elements;
} links;

static int find_gpu(const ki_nccl *n, const kith_pci_address *address)
{
    for (int i = 0; i < n->gpu_count; i++)
        if (ki_pci_is_same_device(&n->kind->view.gpus[i].pci, address))
            return i;
    return -1;
}

static void count_link(ki_nccl *n, links *l, int gpu, const ki_xml *link)
{
    const char *target = ki_xml_get(link, "target");
    int count = ki_text_number(ki_xml_get(link, "count"), 10);
    kith_pci_address address;
    ki_pci_kind kind = ki_pci_parse(target, &address);
    if (count < 1 || count > MOST_LINKS)
        ki_nccl_refuse(n, link, "count of <%s> is '%.20s'; valid: 1 to %d", link->name,
                       ki_xml_get(link, "count") != NULL ? ki_xml_get(link, "count") : "", MOST_LINKS);
    if (kind == KI_PCI_BAD)
        ki_nccl_refuse(n, link, "target of <%s> is '%.40s'; valid: like 0000:1b:00.0", link->name,
                       target != NULL ? target : "");
    if (n->status != KITH_OK)
        return;
    l->elements++;
    l->total[gpu] += count;
    int peer = find_gpu(n, &address);
    if (kind == KI_PCI_HIDDEN) {
        l->into_switch[gpu] += count;
        l->hidden++;
    } else if (ki_text_number(ki_xml_get(link, "tclass"), 16) == CLASS_NVSWITCH)
        l->into_switch[gpu] += count;
    else if (peer == gpu)
        l->own++;
    else if (peer >= 0)
        l->direct[gpu * n->gpu_count + peer] += count;
    else if (ki_pci_class(ki_xml_get(link, "tclass")) >> 8 == KI_PCI_VGA >> 8)
        l->gone++;
}

static void count_links(ki_nccl *n, links *l, const char *name)
{
    for (int i = 0; i < n->gpu_count; i++)
        for (const ki_xml *link = n->gpus[i].element->first; link != NULL; link = link->next)
            if (strcmp(link->name, name) == 0)
                count_link(n, l, i, link);
}

/* The rows of both GPUs tell a direct link; the weaker one counts. */
static int direct_count(ki_nccl *n, const links *l, int i, int j)
{
    int there = l->direct[i * n->gpu_count + j], back = l->direct[j * n->gpu_count + i];
    int weaker = there < back ? there : back;
    if (there != back)
        ki_topology_doubt(n->t, ki_kind_index(n->t, n->kind), i, n->source->name, n->gpus[i].element->line,
                          "asymmetric", "GPU%d has %d links to GPU%d, which has %d back; %d are counted",
                          n->kind->view.gpus[i].index, there, n->kind->view.gpus[j].index, back, weaker);
    return weaker;
}

static void set_links(ki_nccl *n, const links *l, kith_link_type type)
{
    for (int i = 0; i < n->gpu_count; i++) {
        if (l->elements > 0)
            ((kith_gpu *)(uintptr_t)&n->kind->view.gpus[i])->link_count = l->total[i];
        for (int j = 0; j < i; j++) {
            int a = l->into_switch[i], b = l->into_switch[j];
            if (a > 0 && b > 0) {
                ki_kind_set_link(n->kind, i, j, type, a < b ? a : b, l->hidden > 0 ? KITH_ASSUMED : KITH_KNOWN);
                n->kind->view.has_nvswitch = true;
                continue;
            }
            int count = direct_count(n, l, i, j);
            if (count > 0)
                ki_kind_set_link(n->kind, i, j, type, count, KITH_KNOWN);
        }
    }
}

static void doubt_links(ki_nccl *n, const links *l)
{
    int k = ki_kind_index(n->t, n->kind);
    if (l->hidden > 0)
        ki_topology_doubt(n->t, k, -1, n->source->name, 0, "nvswitch-hidden",
                          "the peers of NVLinks are hidden from this virtual machine (fffffff:ffff:ff); taken for "
                          "NVSwitch, as NCCL does");
    if (l->own > 0)
        ki_topology_doubt(n->t, k, -1, n->source->name, 0, "nvlink-peer-unknown",
                          "%d NVLink entries name their own GPU as target: there are links, but the file does not tell "
                          "which GPUs they join",
                          l->own);
    if (l->gone > 0)
        ki_topology_doubt(n->t, k, -1, n->source->name, 0, "nvlink-peer-unknown",
                          "%d NVLink entries have a target that is not in the file; a GPU is missing in it", l->gone);
}

/* Known when links are told and their ends are, or when this sort of GPU has none. A file without links may have been
 * written by hand, for NCCL to add them. */
static kith_certainty certainty_of(const ki_nccl *n, const links *nvlink, const links *xgmi)
{
    bool can_have = n->gpu_count > 1;
    if (nvlink->own > 0 || nvlink->gone > 0)
        return KITH_UNKNOWN;
    if (nvlink->elements > 0 || xgmi->elements > 0)
        return nvlink->hidden > 0 ? KITH_ASSUMED : KITH_KNOWN;
    for (int i = 0; can_have && i < n->gpu_count; i++) {
        const kith_gpu *gpu = &n->kind->view.gpus[i];
        const ki_gpu_model *model = ki_gpu_model_find(gpu->name, gpu->compute_capability);
        if (model == NULL || model->nvlink_generation > 0 || gpu->compute_capability == 0)
            return KITH_UNKNOWN;
    }
    return n->gpu_count == 0 ? KITH_UNKNOWN : KITH_KNOWN;
}

static links *new_links(ki_nccl *n)
{
    links *l = (links *)ki_topology_alloc(n->t, 1, sizeof *l);
    if (l != NULL)
        l->direct = (int *)ki_topology_alloc(n->t, (size_t)n->gpu_count * (size_t)n->gpu_count + 1, sizeof(int));
    return l != NULL && l->direct != NULL ? l : NULL;
}

void ki_nccl_join(ki_nccl *n)
{
    find_machine(n);
    set_nearness(n);
    links *nvlink = new_links(n), *xgmi = new_links(n);
    if (nvlink == NULL || xgmi == NULL)
        return;
    count_links(n, nvlink, "nvlink");
    count_links(n, xgmi, "xgmi");
    if (n->status != KITH_OK)
        return;
    set_links(n, nvlink, KITH_LINK_NVLINK);
    set_links(n, xgmi, KITH_LINK_XGMI);
    doubt_links(n, nvlink);
    n->kind->view.nvlink = certainty_of(n, nvlink, xgmi);
}
