/* topology/hwloc_devices.c - which objects of hwloc are the GPUs and NICs of a machine.
 *
 * One GPU has many names: a PCI function, cuda0, nvml0, opencl0d0, card1, renderD128. All that hang on one PCI function
 * are one GPU. What counts as a GPU depends on what hwloc was built with when it looked: CUDA, NVML, RSMI and oneAPI
 * name those that compute; without them OpenCL does; without that the class of the PCI function must do. The best of
 * the three is used for the whole machine, so a console's graphics never count beside real GPUs; GPUs that are left out
 * because their driver does not show them are a doubt. A live machine keeps these too: NVML tells what is with them.
 *
 * NICs are OpenFabrics devices (mlx5_0, hfi1_0, efa_0) and interfaces of HPC fabrics (hsi0); the IP interface on the
 * same PCI function (ib0) is the same NIC. Ethernet interfaces count only where nothing else does.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "hwloc_kind.h"

#include <stdlib.h>
#include <string.h>

enum { BY_CLASS = 1, BY_OPENCL, BY_LIBRARY };

int ki_hwloc_number(const char *prefix, const char *name)
{
    size_t length = strlen(prefix);
    return name != NULL && strncmp(name, prefix, length) == 0 ? ki_text_number(name + length, 10) : -1;
}

static hwloc_obj_t pci_of(hwloc_obj_t obj)
{
    while (obj != NULL && obj->type == HWLOC_OBJ_OS_DEVICE)
        obj = obj->parent;
    return obj != NULL && obj->type == HWLOC_OBJ_PCI_DEVICE ? obj : NULL;
}

static void init_device(ki_hwloc_device *device, hwloc_obj_t pci)
{
    *device = (ki_hwloc_device){ .pci = pci, .class_id = -1, .vendor = -1, .nvml = -1, .cuda = -1, .other = -1 };
    device->index = -1;
    if (pci == NULL)
        return;
    const struct hwloc_pcidev_attr_s *attr = &pci->attr->pcidev;
    device->class_id = attr->class_id;
    device->vendor = attr->vendor_id;
    device->address = (kith_pci_address){
        .is_known = true, .domain = attr->domain, .bus = attr->bus, .device = attr->dev, .function = attr->func
    };
}

ki_hwloc_device *ki_hwloc_add_gpu(ki_hwloc *h)
{
    if (h->gpu_count == KI_MAX_GPUS) {
        ki_topology_set_status(
            h->t, ki_fail_quiet(KITH_ERR_INVALID_ARG, "topology: more than %d GPUs in a node", KI_MAX_GPUS));
        return NULL;
    }
    ki_hwloc_device *device = &h->gpus[h->gpu_count++];
    init_device(device, NULL);
    return device;
}

static ki_hwloc_device *gpu_at(ki_hwloc *h, hwloc_obj_t pci)
{
    for (int i = 0; i < h->gpu_count; i++)
        if (h->gpus[i].pci == pci)
            return &h->gpus[i];
    ki_hwloc_device *device = ki_hwloc_add_gpu(h);
    if (device != NULL)
        init_device(device, pci);
    return device;
}

/* ---- GPUs ---- */

/* What an OS device's name says: strength, and the number in it. */
static int strength_of(const char *name, int *nvml, int *cuda, int *other)
{
    *nvml = ki_hwloc_number("nvml", name);
    *cuda = ki_hwloc_number("cuda", name);
    *other = ki_hwloc_number("rsmi", name);
    if (*other < 0)
        *other = ki_hwloc_number("ze", name);
    if (*nvml >= 0 || *cuda >= 0 || *other >= 0)
        return BY_LIBRARY;
    return strncmp(name, "opencl", 6) == 0 ? BY_OPENCL : 0;
}

/* Where PCI objects are missing, the number in the name joins nvml0 with cuda0. */
static ki_hwloc_device *gpu_without_pci(ki_hwloc *h, int nvml, int cuda, int other)
{
    for (int i = 0; i < h->gpu_count; i++) {
        ki_hwloc_device *device = &h->gpus[i];
        if (device->pci == NULL && other < 0 && device->other < 0 &&
            (nvml >= 0 ? device->cuda == nvml : device->nvml == cuda))
            return device;
    }
    return ki_hwloc_add_gpu(h);
}

static void look_at_os_device(ki_hwloc *h, hwloc_obj_t os)
{
    int nvml = -1, cuda = -1, other = -1;
    int strength = os->name != NULL ? strength_of(os->name, &nvml, &cuda, &other) : 0;
    hwloc_obj_t pci = pci_of(os);
    if (strength == 0 || (pci == NULL && strength < BY_LIBRARY))
        return;
    ki_hwloc_device *device = pci != NULL ? gpu_at(h, pci) : gpu_without_pci(h, nvml, cuda, other);
    if (device == NULL)
        return;
    device->nvml = nvml >= 0 ? nvml : device->nvml;
    device->cuda = cuda >= 0 ? cuda : device->cuda;
    device->other = other >= 0 ? other : device->other;
    if (strength > device->strength || (strength == device->strength && nvml >= 0)) {
        device->strength = strength;
        device->os = os;
    }
}

/* OpenCL also runs on processors' graphics and CPUs; a GPU it is when PCI says so, or display class at least. */
static bool is_display(const ki_hwloc_device *device)
{
    return device->class_id >> 8 == KI_PCI_VGA >> 8 || device->class_id == KI_PCI_ACCELERATOR;
}

static void keep_best(ki_hwloc *h)
{
    int best = 0, kept = 0, hidden = 0;
    kith_pci_address first = { .is_known = false };
    for (int i = 0; i < h->gpu_count; i++) {
        if (h->gpus[i].strength == BY_OPENCL && !is_display(&h->gpus[i]))
            h->gpus[i].strength = 0;
        best = h->gpus[i].strength > best ? h->gpus[i].strength : best;
    }
    for (int i = 0; i < h->gpu_count; i++) {
        ki_hwloc_device *device = &h->gpus[i];
        bool is_gpu = ki_pci_is_gpu(device->class_id, device->vendor);
        if ((device->strength == best && best > 0) || (h->is_live && is_gpu)) {
            h->gpus[kept++] = *device;
        } else if (is_gpu) {
            first = hidden++ == 0 ? device->address : first;
        }
    }
    h->gpu_count = kept;
    char text[24];
    if (hidden > 0)
        ki_topology_doubt(
            h->t, ki_kind_index(h->t, h->kind), -1, h->kind->file, 0, "gpu-hidden",
            "%d GPUs on the PCI bus (the first at %s) are not shown by the driver as the others are; left "
            "out",
            hidden, kith_pci_text(&first, text, sizeof text));
    else if (best == BY_CLASS && !h->is_live)
        ki_topology_doubt(h->t, ki_kind_index(h->t, h->kind), -1, h->kind->file, 0, "gpu-by-class",
                          "hwloc had no CUDA, NVML or RSMI when it looked; %d GPUs are recognized by their PCI class",
                          kept);
}

/* Memory of a GPU that is a NUMA node names the GPU's PCI address: it is NVIDIA's, also where its ids are not known. */
static void find_by_memory(ki_hwloc *h)
{
    for (hwloc_obj_t numa = NULL; (numa = hwloc_get_next_obj_by_type(h->hw, HWLOC_OBJ_NUMANODE, numa)) != NULL;) {
        kith_pci_address address;
        if (ki_pci_parse(hwloc_obj_get_info_by_name(numa, "PCIBusID"), &address) != KI_PCI_GOOD)
            continue;
        hwloc_obj_t pci =
            hwloc_get_pcidev_by_busid(h->hw, address.domain, address.bus, address.device, address.function);
        ki_hwloc_device *device = pci != NULL ? gpu_at(h, pci) : NULL;
        if (device == NULL)
            continue;
        device->strength = BY_CLASS;
        device->vendor = KI_VENDOR_NVIDIA;
        device->class_id = KI_PCI_3D;
    }
}

static void find_gpus(ki_hwloc *h)
{
    for (hwloc_obj_t pci = NULL; (pci = hwloc_get_next_pcidev(h->hw, pci)) != NULL;)
        if (ki_pci_is_gpu(pci->attr->pcidev.class_id, pci->attr->pcidev.vendor_id)) {
            ki_hwloc_device *device = gpu_at(h, pci);
            if (device == NULL)
                return;
            device->strength = BY_CLASS;
        }
    find_by_memory(h);
    for (hwloc_obj_t os = NULL; (os = hwloc_get_next_osdev(h->hw, os)) != NULL;)
        look_at_os_device(h, os);
}

/* ---- NICs ---- */

static bool is_openfabrics(hwloc_obj_t os)
{
    return os->attr->osdev.type == HWLOC_OBJ_OSDEV_OPENFABRICS;
}

static bool is_fabric_interface(hwloc_obj_t os)
{
    const char *fabric = ki_nic_fabric(os->name, -1, -1);
    return fabric != NULL && (strcmp(fabric, "slingshot") == 0 || strcmp(fabric, "bxi") == 0);
}

/* Is there an OpenFabrics device on the same function? */
static bool has_openfabrics(hwloc_obj_t pci)
{
    for (hwloc_obj_t os = pci != NULL ? pci->io_first_child : NULL; os != NULL; os = os->next_sibling)
        if (os->type == HWLOC_OBJ_OS_DEVICE && is_openfabrics(os))
            return true;
    return false;
}

static void add_nic(ki_hwloc *h, hwloc_obj_t os)
{
    if (h->nic_count == KI_MAX_NICS) {
        ki_topology_set_status(
            h->t, ki_fail_quiet(KITH_ERR_INVALID_ARG, "topology: more than %d NICs in a node", KI_MAX_NICS));
        return;
    }
    ki_hwloc_device *device = &h->nics[h->nic_count++];
    init_device(device, pci_of(os));
    device->os = os;
}

/* Interfaces without a PCI function (bridges, tunnels, lo) are no NICs. */
static void find_nics(ki_hwloc *h, bool wants_ethernet)
{
    for (hwloc_obj_t os = NULL; h->t->status == KITH_OK && (os = hwloc_get_next_osdev(h->hw, os)) != NULL;) {
        bool is_network = os->name != NULL && os->attr->osdev.type == HWLOC_OBJ_OSDEV_NETWORK;
        if (os->name == NULL || (!is_network && !is_openfabrics(os)))
            continue;
        if (is_openfabrics(os)
                ? !wants_ethernet
                : pci_of(os) != NULL && !has_openfabrics(pci_of(os)) && (wants_ethernet || is_fabric_interface(os)))
            add_nic(h, os);
    }
}

void ki_hwloc_find(ki_hwloc *h, const char *name, const char *format)
{
    h->kind = ki_topology_add_kind(h->t, name, format);
    h->gpus = (ki_hwloc_device *)ki_topology_alloc(h->t, KI_MAX_GPUS, sizeof *h->gpus);
    h->nics = (ki_hwloc_device *)ki_topology_alloc(h->t, KI_MAX_NICS, sizeof *h->nics);
    if (h->t->status != KITH_OK)
        return;
    bool has_io = hwloc_get_next_pcidev(h->hw, NULL) != NULL || hwloc_get_next_osdev(h->hw, NULL) != NULL;
    if (!has_io)
        ki_topology_doubt(h->t, ki_kind_index(h->t, h->kind), -1, h->kind->file, 0, "no-io",
                          "hwloc looked without I/O devices: whether there are GPUs and NICs is unknown%s",
                          h->is_live ? "" : "; write the file with 'lstopo --whole-io'");
    find_gpus(h);
    keep_best(h);
    find_nics(h, false);
    if (h->nic_count == 0)
        find_nics(h, true);
}
