/* topology/hwloc_kind.h - from an hwloc topology to a kind; live discovery and hwloc XML share it.
 *
 * The steps, each in a file of its own: ki_hwloc_find() collects GPUs and NICs (hwloc_devices.c), ki_hwloc_build()
 * makes the kind of them (hwloc_kind.c), ki_hwloc_near() says how near they are (hwloc_near.c), ki_hwloc_links() reads
 * the matrices of NVLink and xGMI (hwloc_links.c). Between find and build live discovery adds what NVML knows.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_TOPOLOGY_HWLOC_KIND_H
#define KI_TOPOLOGY_HWLOC_KIND_H

#include "hardware.h"
#include <hwloc.h>

/* A GPU or NIC: a PCI function with the OS devices that drivers gave it. */
typedef struct ki_hwloc_device {
    hwloc_obj_t pci; /* NULL: hwloc has no PCI object for it */
    hwloc_obj_t os;  /* of a GPU the one that says most (CUDA, NVML, RSMI); NULL: none */
    kith_pci_address address;
    int class_id, vendor;  /* of PCI; -1: unknown */
    int nvml, cuda, other; /* numbers in the names of its OS devices; -1: none */
    int strength;          /* how sure it is that this GPU computes: 1 PCI class, 2 OpenCL, 3 a vendor's library */
    int index;             /* the number that it gets */
} ki_hwloc_device;

typedef struct ki_hwloc {
    kith_topology *t;
    hwloc_topology_t hw;
    ki_kind *kind;
    bool is_live;
    ki_hwloc_device *gpus; /* [KI_MAX_GPUS] */
    int gpu_count;
    ki_hwloc_device *nics; /* [KI_MAX_NICS] */
    int nic_count;
    int places; /* NUMA nodes with CPUs of their own; after build */
} ki_hwloc;

/* Collects devices and adds the kind. What does not fit is recorded in t->status. */
void ki_hwloc_find(ki_hwloc *h, const char *name, const char *format);
/* A GPU that only NVML knows of. NULL: too many. */
ki_hwloc_device *ki_hwloc_add_gpu(ki_hwloc *h);
/* Numbers and sorts the GPUs, then fills the kind; makes the matrices, all unknown. */
void ki_hwloc_build(ki_hwloc *h);
void ki_hwloc_near(ki_hwloc *h);
void ki_hwloc_links(ki_hwloc *h);

/* The object with a place among CPUs that a device hangs on; NULL: unknown (no PCI object, or the whole machine
 * although that has several NUMA nodes). */
hwloc_obj_t ki_hwloc_locality(const ki_hwloc *h, const ki_hwloc_device *device);
/* The set as a list, in the arena; "" for the empty set, NULL for NULL. An endless set is recorded in t->status. */
const char *ki_hwloc_list(kith_topology *t, hwloc_const_bitmap_t set);
/* Number behind a prefix: ("nvml", "nvml12") -> 12; -1: another name. */
int ki_hwloc_number(const char *prefix, const char *name);
/* Keeps everything, I/O too, and CPUs that this process may not use. Before hwloc_topology_load(). */
void ki_hwloc_configure(hwloc_topology_t hw);

#endif
