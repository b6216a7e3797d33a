/* topology/nccl_kind.c - the GPUs and NICs of an NCCL topology file as entries of a kind, and what is odd about the
 * file.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "nccl.h"

#include "sets.h"
#include <stdlib.h>
#include <string.h>

static const char *bus_text(kith_topology *t, const kith_pci_address *address)
{
    char text[24];
    return address->is_known ? ki_topology_dup(t, kith_pci_text(address, text, sizeof text)) : NULL;
}

/* AMD: "gcn" is the model; "sm" is then a number of compute units and no capability. */
static void name_gpu(ki_nccl *n, kith_gpu *gpu, const ki_nccl_device *device)
{
    const char *gcn = ki_xml_get(device->element, "gcn");
    int vendor = ki_nccl_hex(device->pci, "vendor");
    gpu->vendor = ki_pci_vendor_name(vendor);
    if (gcn != NULL) {
        gpu->name = strcmp(gcn, "910") == 0
                        ? "gfx90a" /* how old RCCL writes it as a number */
                        : ki_topology_format(n->t, "%s%.32s", strncmp(gcn, "gfx", 3) == 0 ? "" : "gfx", gcn);
        gpu->vendor = "amd";
        return;
    }
    int sm = ki_nccl_number(n, device->element, "sm");
    if (sm > 0 && sm < 1000 && vendor != KI_VENDOR_AMD) {
        gpu->compute_capability = sm;
        gpu->vendor = "nvidia";
    }
}

static void make_gpu(ki_nccl *n, const ki_nccl_device *device, int index)
{
    const ki_nccl_cpu *cpu = &n->cpus[device->cpu];
    kith_gpu *gpu = ki_kind_add_gpu(n->t, n->kind);
    gpu->index = index;
    gpu->pci = ki_nccl_address(n, device->pci);
    gpu->pci_switch = device->pci_switch;
    gpu->cpus = cpu->cpus;
    name_gpu(n, gpu, device);
    if (device->element == device->pci)
        gpu->name = bus_text(n->t, &gpu->pci);
    if (cpu->numaid >= 0)
        ki_gpu_set_numas(n->t, gpu, ki_topology_format(n->t, "%d", cpu->numaid), "nccl");
    ki_pcie_link(n->t, ki_xml_get(device->pci, "link_speed"), ki_xml_get(device->pci, "link_width"),
                 &gpu->pcie_generation, &gpu->pcie_width, &gpu->pcie_gbps);
}

/* speed is Mb/s of the wire; a collective library reaches a little less. */
static void set_nic_speed(ki_nccl *n, kith_nic *nic, const ki_xml *element)
{
    int speed = ki_nccl_number(n, element, "speed");
    if (speed <= 0)
        return;
    nic->gbps = speed / 8000.0 * ki_constant_gbps(n->t, "net-efficiency");
    nic->gbps_certainty = KITH_KNOWN;
}

static void make_nic(ki_nccl *n, const ki_nccl_device *device)
{
    kith_nic *nic = ki_kind_add_nic(n->t, n->kind);
    const char *name = ki_xml_get(device->element, "name");
    int class_id = device->pci != NULL ? ki_pci_class(ki_xml_get(device->pci, "class")) : -1;
    nic->pci = ki_nccl_address(n, device->pci);
    nic->name = device->element == device->pci ? bus_text(n->t, &nic->pci) : ki_topology_dup(n->t, name);
    nic->device = ki_topology_dup(n->t, name);
    if (nic->name == NULL)
        nic->name = ki_topology_format(n->t, "net%d", device->dev >= 0 ? device->dev : nic->index);
    nic->fabric = ki_nic_fabric(nic->device != NULL ? nic->device : "", class_id, ki_nccl_hex(device->pci, "vendor"));
    nic->guid = ki_topology_dup(n->t, ki_xml_get(device->element, "guid"));
    nic->cpus = n->cpus[device->cpu].cpus;
    nic->numa = n->cpus[device->cpu].numaid;
    nic->pci_switch = device->pci_switch;
    nic->port_count = device->element == device->pci ? 0 : 1;
    set_nic_speed(n, nic, device->element);
}

static int compare_gpus(const void *a, const void *b)
{
    const ki_nccl_device *first = (const ki_nccl_device *)a, *second = (const ki_nccl_device *)b;
    if (first->dev != second->dev)
        return (unsigned)first->dev < (unsigned)second->dev ? -1 : 1; /* those without a number last */
    kith_pci_address x, y;
    ki_pci_parse(ki_xml_get(first->pci, "busid"), &x);
    ki_pci_parse(ki_xml_get(second->pci, "busid"), &y);
    return ki_pci_compare(&x, &y);
}

/* "dev" of NICs where each has its own; virtual interfaces are written once for each CPU, there the position counts. */
static void number_nics(ki_nccl *n)
{
    for (int i = 0; i < n->nic_count; i++)
        for (int j = 0; j < i; j++)
            if (n->nics[i].dev < 0 || n->nics[i].dev == n->nics[j].dev)
                return;
    for (int i = 0; i < n->nic_count; i++)
        if (n->nics[i].dev >= 0)
            ((kith_nic *)(uintptr_t)&n->kind->view.nics[i])->index = n->nics[i].dev;
}

/* One bus id is one thing. A file where it is a bridge here and a device there has no certain meaning. */
static void check_address(ki_nccl *n, const ki_nccl_device *device, const kith_pci_address *address)
{
    char text[24];
    for (int i = 0; i < n->kind->view.switch_count && address->is_known; i++)
        if (ki_pci_compare(&n->kind->view.switches[i].pci, address) == 0)
            ki_nccl_refuse(n, device->pci, "%s is a bridge in one place and a device in another",
                           kith_pci_text(address, text, sizeof text));
}

static void check_addresses(ki_nccl *n)
{
    char text[24];
    for (int i = 0; i < n->gpu_count && n->status == KITH_OK; i++) {
        const kith_pci_address *own = &n->kind->view.gpus[i].pci;
        check_address(n, &n->gpus[i], own);
        for (int j = 0; j < i && own->is_known; j++)
            if (ki_pci_compare(&n->kind->view.gpus[j].pci, own) == 0)
                ki_nccl_refuse(n, n->gpus[i].pci, "two GPUs have the bus id %s", kith_pci_text(own, text, sizeof text));
    }
    for (int i = 0; i < n->nic_count && n->status == KITH_OK; i++)
        check_address(n, &n->nics[i], &n->kind->view.nics[i].pci);
}

static void make_devices(ki_nccl *n)
{
    int next = 0; /* number of a GPU without one */
    qsort(n->gpus, (size_t)n->gpu_count, sizeof n->gpus[0], compare_gpus);
    for (int i = 0; i < n->gpu_count && n->status == KITH_OK; i++) {
        int index = n->gpus[i].dev >= 0 ? n->gpus[i].dev : next;
        make_gpu(n, &n->gpus[i], index);
        next = index + 1;
    }
    for (int i = 0; i < n->nic_count && n->status == KITH_OK; i++)
        make_nic(n, &n->nics[i]);
    if (n->status != KITH_OK || n->t->status != KITH_OK)
        return;
    check_addresses(n);
    number_nics(n);
}

/* Do the masks of two NUMA nodes have CPUs in common? */
static bool is_overlap(const ki_nccl_cpu *x, const ki_nccl_cpu *y)
{
    ki_cpuset a = { NULL, 0 }, b = { NULL, 0 };
    bool is_common = x->cpus != NULL && y->cpus != NULL && ki_cpuset_parse(x->cpus, &a) &&
                     ki_cpuset_parse(y->cpus, &b) && ki_cpuset_intersects(&a, &b);
    ki_cpuset_fini(&a);
    ki_cpuset_fini(&b);
    return is_common;
}

static void doubt_masks(ki_nccl *n)
{
    int pairs = 0, first = 0, second = 0;
    for (int i = 0; i < n->cpu_count; i++)
        for (int j = 0; j < i; j++)
            if (is_overlap(&n->cpus[i], &n->cpus[j]) && pairs++ == 0) {
                first = j;
                second = i;
            }
    if (pairs > 0)
        ki_topology_doubt(
            n->t, ki_kind_index(n->t, n->kind), -1, n->source->name, n->cpus[second].element->line, "numa-overlap",
            "%d pairs of NUMA nodes have CPUs in common (%d: %s, %d: %s); the affinity masks are wrong, "
            "ranks must not be bound by them",
            pairs, n->cpus[first].numaid, n->cpus[first].cpus, n->cpus[second].numaid, n->cpus[second].cpus);
}

static void doubt_cpus(ki_nccl *n)
{
    doubt_masks(n);
    if (n->cpu_count == 1 && n->gpu_count >= 8)
        ki_topology_doubt(n->t, ki_kind_index(n->t, n->kind), -1, n->source->name, n->cpus[0].element->line, "one-cpu",
                          "all %d GPUs stand below one <cpu>; if the host has more NUMA nodes, the file hides which of "
                          "them a GPU is near to",
                          n->gpu_count);
}

static void doubt_unknown(ki_nccl *n)
{
    if (n->unknown_count > 0)
        ki_topology_doubt(
            n->t, ki_kind_index(n->t, n->kind), -1, n->source->name, n->unknown->line, "pci-class-missing",
            "%d PCI devices have no class (NCCL looks it up at run time); GPUs and NICs may be among them",
            n->unknown_count);
}

void ki_nccl_build(ki_nccl *n)
{
    make_devices(n);
    ki_kind_make_links(n->t, n->kind);
    if (n->status != KITH_OK || n->t->status != KITH_OK)
        return;
    ki_nccl_join(n);
    doubt_cpus(n);
    doubt_unknown(n);
}
