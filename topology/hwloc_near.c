/* topology/hwloc_near.c - PCI switches, and how near GPUs and NICs are, out of the tree that hwloc has.
 *
 * hwloc shows every port of a switch as a bridge. A bridge becomes a switch of the model when at least two of the
 * branches below it have a GPU or NIC: only there do transfers share a link upwards.
 *
 * Nearness as nvidia-smi names it: PIX when both devices reach a common bridge through one bridge each at most (the
 * ports of one switch), PXB through more, PHB below one host bridge, NODE between host bridges of one NUMA node, SYS
 * else. A device whose place among the CPUs is unknown (virtual machines put it below the whole machine) gets SYS, the
 * worst class, as an assumption.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "hwloc_kind.h"

#include <string.h>

/* ---- switches ---- */

/* What obj->userdata points to. */
typedef struct mark {
    int branches;    /* children below which there is a device */
    bool is_counted; /* by its parent */
    int position;    /* in kind->switches; -1: not there */
} mark;

static bool is_pci_bridge(hwloc_obj_t obj)
{
    return obj != NULL && obj->type == HWLOC_OBJ_BRIDGE && obj->attr->bridge.upstream_type == HWLOC_OBJ_BRIDGE_PCI;
}

static bool is_host_bridge(hwloc_obj_t obj)
{
    return obj != NULL && obj->type == HWLOC_OBJ_BRIDGE && !is_pci_bridge(obj);
}

static mark *mark_of(ki_hwloc *h, hwloc_obj_t obj)
{
    static _Thread_local mark dummy;
    if (obj->userdata == NULL) {
        mark *fresh = (mark *)ki_topology_alloc(h->t, 1, sizeof *fresh);
        if (fresh == NULL)
            return &dummy;
        fresh->position = -1;
        obj->userdata = fresh;
    }
    return (mark *)obj->userdata;
}

/* Two functions of one device are one branch. */
static bool is_sibling_counted(hwloc_obj_t obj)
{
    if (obj->type != HWLOC_OBJ_PCI_DEVICE)
        return false;
    for (hwloc_obj_t other = obj->parent->io_first_child; other != NULL; other = other->next_sibling)
        if (other != obj && other->type == HWLOC_OBJ_PCI_DEVICE && other->userdata != NULL &&
            ((mark *)other->userdata)->is_counted && other->attr->pcidev.bus == obj->attr->pcidev.bus &&
            other->attr->pcidev.dev == obj->attr->pcidev.dev)
            return true;
    return false;
}

static void mark_path(ki_hwloc *h, hwloc_obj_t obj)
{
    for (; obj != NULL && is_pci_bridge(obj->parent); obj = obj->parent) {
        mark *own = mark_of(h, obj);
        if (own->is_counted)
            return;
        mark_of(h, obj->parent)->branches += !is_sibling_counted(obj);
        own->is_counted = true;
    }
}

/* The nearest switch above an object; NULL: none. */
static hwloc_obj_t switch_above(ki_hwloc *h, hwloc_obj_t obj)
{
    for (obj = obj != NULL ? obj->parent : NULL; is_pci_bridge(obj); obj = obj->parent)
        if (mark_of(h, obj)->branches > 1)
            return obj;
    return NULL;
}

static hwloc_obj_t host_bridge_above(hwloc_obj_t obj)
{
    while (obj != NULL && obj->type != HWLOC_OBJ_BRIDGE && obj->parent != NULL)
        obj = obj->parent;
    while (is_pci_bridge(obj))
        obj = obj->parent;
    return is_host_bridge(obj) ? obj : NULL;
}

/* Host bridges are numbered in hwloc's order. -1: none. */
static int host_bridge_number(ki_hwloc *h, hwloc_obj_t obj)
{
    hwloc_obj_t wanted = host_bridge_above(obj);
    int number = 0;
    for (hwloc_obj_t bridge = NULL; wanted != NULL && (bridge = hwloc_get_next_bridge(h->hw, bridge)) != NULL;) {
        if (bridge == wanted)
            return number;
        number += is_host_bridge(bridge);
    }
    return -1;
}

static int numa_position(const ki_hwloc *h, hwloc_obj_t bridge)
{
    hwloc_obj_t place = hwloc_get_non_io_ancestor_obj(h->hw, bridge);
    if (place == NULL || place->nodeset == NULL || hwloc_bitmap_weight(place->nodeset) != 1)
        return -1;
    for (int i = 0; i < h->kind->view.numa_count; i++)
        if (h->kind->view.numas[i].os_index == hwloc_bitmap_first(place->nodeset))
            return i;
    return -1;
}

static void fill_switch(ki_hwloc *h, kith_pci_switch *added, hwloc_obj_t bridge)
{
    const struct hwloc_pcidev_attr_s *pci = &bridge->attr->bridge.upstream.pci;
    const kith_constant *gen3 = ki_constant(h->t, "pcie3");
    added->host_bridge = host_bridge_number(h, bridge);
    added->numa = numa_position(h, bridge);
    added->name = ki_topology_dup(h->t, hwloc_obj_get_info_by_name(bridge, "PCIDevice"));
    added->pci = (kith_pci_address){
        .is_known = true, .domain = pci->domain, .bus = pci->bus, .device = pci->dev, .function = pci->func
    };
    if (pci->linkspeed > 0 && pci->linkspeed < 1000)
        added->gbps = (double)pci->linkspeed * gen3->effective_gbps / gen3->raw_gbps;
}

/* Position of the nearest switch above an object, made with all above it. Recursion is as deep as the tree. */
static int switch_position(ki_hwloc *h, hwloc_obj_t obj)
{
    hwloc_obj_t bridge = switch_above(h, obj);
    if (bridge == NULL || h->t->status != KITH_OK)
        return -1;
    mark *own = mark_of(h, bridge);
    if (own->position >= 0)
        return own->position;
    int parent = switch_position(h, bridge);
    kith_pci_switch *added = ki_kind_add_switch(h->t, h->kind);
    added->parent = parent;
    fill_switch(h, added, bridge);
    return own->position = h->kind->view.switch_count - 1;
}

static void add_switches(ki_hwloc *h)
{
    for (int i = 0; i < h->gpu_count; i++)
        mark_path(h, h->gpus[i].pci);
    for (int i = 0; i < h->nic_count; i++)
        mark_path(h, h->nics[i].pci);
    for (int i = 0; i < h->gpu_count; i++) {
        kith_gpu *gpu = (kith_gpu *)(uintptr_t)&h->kind->view.gpus[i];
        gpu->pci_switch = switch_position(h, h->gpus[i].pci);
        gpu->host_bridge = host_bridge_number(h, h->gpus[i].pci);
    }
    for (int i = 0; i < h->nic_count; i++) {
        kith_nic *nic = (kith_nic *)(uintptr_t)&h->kind->view.nics[i];
        nic->pci_switch = switch_position(h, h->nics[i].pci);
        nic->host_bridge = host_bridge_number(h, h->nics[i].pci);
    }
}

/* ---- nearness ---- */

static bool is_above(hwloc_obj_t above, hwloc_obj_t obj)
{
    while (obj != NULL && obj != above)
        obj = obj->parent;
    return obj == above;
}

/* Bridges strictly between an object and one above it. */
static int bridges_between(hwloc_obj_t obj, hwloc_obj_t above)
{
    int count = 0;
    for (obj = obj->parent; obj != NULL && obj != above; obj = obj->parent)
        count += obj->type == HWLOC_OBJ_BRIDGE;
    return count;
}

static kith_link between_places(const ki_hwloc *h, const ki_hwloc_device *a, const ki_hwloc_device *b)
{
    hwloc_obj_t x = ki_hwloc_locality(h, a), y = ki_hwloc_locality(h, b);
    if (x == NULL || y == NULL)
        return (kith_link){ .type = KITH_LINK_SYS, .certainty = KITH_ASSUMED };
    bool is_same = hwloc_bitmap_intersects(x->nodeset, y->nodeset) != 0;
    return (kith_link){ .type = is_same ? KITH_LINK_NODE : KITH_LINK_SYS, .certainty = KITH_KNOWN };
}

/* hwloc 1.x and filtered files leave bridges out: a device directly below a host bridge, but on another bus. */
static bool lost_bridges(const ki_hwloc_device *device)
{
    hwloc_obj_t parent = device->pci->parent;
    return is_host_bridge(parent) && parent->attr->bridge.downstream_type == HWLOC_OBJ_BRIDGE_PCI &&
           parent->attr->bridge.downstream.pci.secondary_bus != device->pci->attr->pcidev.bus;
}

static kith_link nearness(const ki_hwloc *h, const ki_hwloc_device *a, const ki_hwloc_device *b)
{
    if (a->pci == NULL || b->pci == NULL)
        return between_places(h, a, b);
    hwloc_obj_t common = a->pci;
    while (common != NULL && !is_above(common, b->pci))
        common = common->parent;
    kith_link link = { .certainty = KITH_KNOWN };
    if (is_host_bridge(common)) {
        link.type = KITH_LINK_PHB;
        link.certainty = lost_bridges(a) && lost_bridges(b) ? KITH_ASSUMED : KITH_KNOWN;
    } else if (common == NULL || (common->type != HWLOC_OBJ_PCI_DEVICE && common->type != HWLOC_OBJ_BRIDGE)) {
        link = between_places(h, a, b);
    } else {
        bool is_one = bridges_between(a->pci, common) <= 1 && bridges_between(b->pci, common) <= 1;
        link.type = is_one ? KITH_LINK_PIX : KITH_LINK_PXB;
    }
    return link;
}

static void doubt_places(ki_hwloc *h, int lost, int flat)
{
    int k = ki_kind_index(h->t, h->kind);
    if (lost > 0)
        ki_topology_doubt(
            h->t, k, -1, h->kind->file, 0, "pci-locality",
            "for %d of %d GPUs it is unknown which CPUs are near (the firmware or the hypervisor does not "
            "say); links to them are taken for SYS",
            lost, h->gpu_count);
    if (flat > 0)
        ki_topology_doubt(h->t, k, -1, h->kind->file, 0, "pci-bridges-missing",
                          "hwloc left the PCI bridges out; devices that are shown as PHB may share a PCIe switch");
}

void ki_hwloc_near(ki_hwloc *h)
{
    add_switches(h);
    if (h->t->status != KITH_OK)
        return;
    int lost = 0, flat = 0;
    for (int i = 0; i < h->gpu_count; i++) {
        lost += ki_hwloc_locality(h, &h->gpus[i]) == NULL;
        for (int j = 0; j < i; j++) {
            kith_link link = nearness(h, &h->gpus[i], &h->gpus[j]);
            flat += link.type == KITH_LINK_PHB && link.certainty == KITH_ASSUMED;
            ki_kind_set_link(h->kind, i, j, link.type, 0, link.certainty);
        }
        for (int j = 0; j < h->nic_count; j++)
            *ki_kind_nic_link(h->kind, i, j) = nearness(h, &h->gpus[i], &h->nics[j]);
    }
    doubt_places(h, lost, flat);
}
