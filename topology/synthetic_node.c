/* topology/synthetic_node.c - the node of a machine in words, made as such nodes usually are.
 *
 * Sockets have 48 cores of two threads (Grace: 72 of one), numbered as Linux does. GPUs are spread evenly over PCI
 * switches and these over NUMA nodes: a switch for each GPU when there are as many NICs, else one for two. NICs are
 * spread over the switches in the same way. Devices behind one switch are PIX, on one NUMA node NODE, else SYS; Grace
 * has no PCI switches. NVLinks come from the model of the GPU.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "synthetic.h"

#include <stdio.h>
#include <string.h>

/* Where the i-th of count things lies when they are spread over places. */
static int spread(int i, int count, int places)
{
    return (int)((long)i * places / count);
}

/* ---- CPUs ---- */

static void add_cpus(kith_topology *t, ki_kind *kind, const ki_synthetic *s)
{
    int cores = s->is_grace ? 72 : 48, total = cores * s->socket_count;
    int per_socket = s->numa_count / s->socket_count, share = cores / per_socket;
    kind->view.architecture = s->is_grace ? "aarch64" : NULL;
    kind->view.cpu_vendor = s->is_grace ? "arm" : NULL;
    for (int p = 0; p < s->socket_count; p++) {
        const char *model = s->is_grace ? "Grace" : NULL;
        kith_package *package = ki_kind_add_package(t, kind);
        package->model = model;
        package->cpus = s->is_grace ? ki_topology_format(t, "%d-%d", p * cores, (p + 1) * cores - 1)
                                    : ki_topology_format(t, "%d-%d,%d-%d", p * cores, (p + 1) * cores - 1,
                                                         total + p * cores, total + (p + 1) * cores - 1);
    }
    for (int n = 0; n < s->numa_count; n++) {
        int first = n * share, last = first + share - 1;
        kith_numa *numa = ki_kind_add_numa(t, kind);
        numa->package = n / per_socket;
        numa->cpus = s->is_grace ? ki_topology_format(t, "%d-%d", first, last)
                                 : ki_topology_format(t, "%d-%d,%d-%d", first, last, total + first, total + last);
    }
}

/* ---- PCI ---- */

static int pci_switch_count(const ki_synthetic *s)
{
    if (s->is_grace)
        return 0;
    return s->nic_count >= s->gpu_count ? s->gpu_count : (s->gpu_count + 1) / 2;
}

static void add_pci_switches(kith_topology *t, ki_kind *kind, const ki_synthetic *s, int count)
{
    for (int i = 0; i < count; i++) {
        kith_pci_switch *pci = ki_kind_add_switch(t, kind);
        pci->host_bridge = i;
        pci->numa = spread(i, count, s->numa_count);
        pci->gbps = s->model != NULL ? ki_pcie_gbps(t, s->model->pcie_generation, 16) : 0;
    }
}

/* NUMA node of a device: that of its switch. */
static int numa_of(const ki_kind *kind, const ki_synthetic *s, int i, int count, int pci_switch)
{
    return pci_switch >= 0 ? kind->view.switches[pci_switch].numa : spread(i, count, s->numa_count);
}

static void add_gpus(kith_topology *t, ki_kind *kind, const ki_synthetic *s, int switches)
{
    for (int i = 0; i < s->gpu_count && t->status == KITH_OK; i++) {
        kith_gpu *gpu = ki_kind_add_gpu(t, kind);
        gpu->pci_switch = switches > 0 ? spread(i, s->gpu_count, switches) : -1;
        gpu->host_bridge = gpu->pci_switch >= 0 ? gpu->pci_switch : i;
        int numa = numa_of(kind, s, i, s->gpu_count, gpu->pci_switch);
        char number[16];
        snprintf(number, sizeof number, "%d", numa);
        ki_gpu_set_numas(t, gpu, number, "synthetic");
        gpu->cpus = kind->view.numas[numa].cpus;
        gpu->name = s->gpu_name;
        gpu->vendor = s->is_amd ? "amd" : s->gpu_name != NULL ? "nvidia" : NULL;
        if (s->model == NULL)
            continue;
        gpu->compute_capability = s->model->compute_capability;
        gpu->memory_nbytes = (uint64_t)(s->model->memory_gb * 1e9);
        gpu->pcie_generation = s->model->pcie_generation;
        gpu->pcie_width = 16;
    }
}

static void add_nics(kith_topology *t, ki_kind *kind, const ki_synthetic *s, int switches)
{
    for (int i = 0; i < s->nic_count && t->status == KITH_OK; i++) {
        kith_nic *nic = ki_kind_add_nic(t, kind);
        nic->name = ki_topology_format(t, "NIC%d", i);
        nic->fabric = s->nic_fabric;
        nic->pci_switch = switches > 0 ? spread(i, s->nic_count, switches) : -1;
        nic->host_bridge = nic->pci_switch >= 0 ? nic->pci_switch : s->gpu_count + i;
        nic->numa = numa_of(kind, s, i, s->nic_count, nic->pci_switch);
        nic->cpus = kind->view.numas[nic->numa].cpus;
        nic->port_count = 1;
        nic->gbps = s->nic_gbps;
        nic->gbps_certainty = s->nic_gbps > 0 ? KITH_KNOWN : KITH_UNKNOWN;
    }
}

/* Grace: the memory of each GPU is a NUMA node, numbered in steps of eight behind those of the CPUs. */
static void add_gpu_memory(kith_topology *t, ki_kind *kind, const ki_synthetic *s)
{
    for (int i = 0; s->is_grace && i < s->gpu_count && t->status == KITH_OK; i++) {
        kith_gpu *gpu = (kith_gpu *)(uintptr_t)&kind->view.gpus[i];
        kith_numa *numa = ki_kind_add_numa(t, kind);
        numa->os_index = s->numa_count + 8 * i;
        numa->cpus = "";
        numa->is_gpu_memory = true;
        numa->gpu = i;
        numa->memory_nbytes = gpu->memory_nbytes;
        numa->package = kind->view.numas[gpu->numas[0]].package;
        gpu->memory_numa = numa->os_index;
    }
}

/* ---- links ---- */

static kith_link_type pci_class(int switch_a, int numa_a, int switch_b, int numa_b)
{
    if (switch_a >= 0 && switch_a == switch_b)
        return KITH_LINK_PIX;
    return numa_a == numa_b ? KITH_LINK_NODE : KITH_LINK_SYS;
}

/* NVLinks between two GPUs of a DGX-1V; with NVLink 1 (DGX-1P) each pair that has any has one. */
static int cube_links(int a, int b, int generation)
{
    static const char v100[8][9] = { "01122000", "10210200", "12020010", "21200001",
                                     "20000112", "02001021", "00101202", "00012120" };
    int links = v100[a][b] - '0';
    if (generation != 1)
        return links;
    return (a / 4 == b / 4 && a != b) || a % 4 == b % 4 ? a != b : 0;
}

static int nvlinks(const ki_synthetic *s, int a, int b)
{
    int generation = s->model != NULL ? s->model->nvlink_generation : 0;
    int all = s->model != NULL ? s->model->nvlink_count : 18;
    switch (s->shape) {
    case KI_SHAPE_NVSWITCH:
        return all;
    case KI_SHAPE_PAIRS:
        return a / 2 == b / 2 ? all : 0;
    case KI_SHAPE_CUBE:
        return cube_links(a, b, generation);
    case KI_SHAPE_MESH:
        return s->is_amd ? 1 : all / (s->gpu_count - 1);
    default:
        return 0;
    }
}

static void set_links(ki_kind *kind, const ki_synthetic *s)
{
    kith_link_type direct = s->is_amd ? KITH_LINK_XGMI : KITH_LINK_NVLINK;
    for (int a = 0; a < s->gpu_count; a++)
        for (int b = 0; b < a; b++) {
            const kith_gpu *x = &kind->view.gpus[a], *y = &kind->view.gpus[b];
            int links = nvlinks(s, b, a);
            kith_link_type type =
                links > 0 ? direct : pci_class(x->pci_switch, x->numas[0], y->pci_switch, y->numas[0]);
            ki_kind_set_link(kind, a, b, type, links, KITH_KNOWN);
            if (s->model == NULL && links > 0)
                ki_kind_link(kind, a, b)->generation = ki_kind_link(kind, b, a)->generation =
                    s->shape == KI_SHAPE_CUBE ? 2 : 4;
        }
}

static void set_nic_links(ki_kind *kind, const ki_synthetic *s)
{
    for (int g = 0; g < s->gpu_count; g++)
        for (int n = 0; n < s->nic_count; n++) {
            const kith_gpu *gpu = &kind->view.gpus[g];
            const kith_nic *nic = &kind->view.nics[n];
            kith_link *link = ki_kind_nic_link(kind, g, n);
            link->type = pci_class(gpu->pci_switch, gpu->numas[0], nic->pci_switch, nic->numa);
            link->certainty = KITH_KNOWN;
        }
}

static void tell_assumed_gpu(kith_topology *t, const ki_kind *kind, const ki_synthetic *s)
{
    if (s->model != NULL || (s->shape != KI_SHAPE_NVSWITCH && s->shape != KI_SHAPE_CUBE))
        return;
    ki_topology_doubt(
        t, ki_kind_index(t, kind), -1, NULL, 0, "gpu-assumed",
        "the description does not say which GPUs these are; NVLinks as of %s are assumed; --gpu NAME tells",
        s->shape == KI_SHAPE_CUBE ? "V100" : "H100");
}

int ki_synthetic_add_kind(kith_topology *t, const ki_synthetic *s)
{
    int switches = pci_switch_count(s);
    ki_kind *kind = ki_topology_add_kind(t, s->text, "synthetic");
    add_cpus(t, kind, s);
    add_pci_switches(t, kind, s, switches);
    if (t->status == KITH_OK)
        add_gpus(t, kind, s, switches);
    if (t->status == KITH_OK)
        add_nics(t, kind, s, switches);
    if (t->status == KITH_OK)
        add_gpu_memory(t, kind, s);
    if (t->status == KITH_OK)
        ki_kind_make_links(t, kind);
    if (t->status != KITH_OK)
        return -1;
    set_links(kind, s);
    set_nic_links(kind, s);
    kind->view.nvlink = KITH_KNOWN;
    kind->view.has_nvswitch = s->shape == KI_SHAPE_NVSWITCH;
    tell_assumed_gpu(t, kind, s);
    return ki_kind_index(t, kind);
}
