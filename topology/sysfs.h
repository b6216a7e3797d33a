/* topology/sysfs.h - what Linux tells of devices beyond hwloc: maximal PCIe speeds, bridges, NICs, hypervisors.
 *
 * Everything is read below the folder in HWLOC_FSROOT where that is set, so that snapshots of other machines work.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_TOPOLOGY_SYSFS_H
#define KI_TOPOLOGY_SYSFS_H

#include "model.h"

/* First line of a file without its end; false: not there, or not readable. format gives the path from "/". */
bool ki_sysfs_line(char *line, size_t nbytes, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Generation, width and bandwidth of a GPU as the slower of device and port can at most, by NCCL's rule; what is not
 * readable stays as it is. */
void ki_sysfs_pcie(kith_topology *t, kith_gpu *gpu);
/* PCIe bridges above a device, from the root port down, at most KI_SYSFS_MOST_BRIDGES. Returns how many; -1: the device
 * is not known here, or below more. */
enum { KI_SYSFS_MOST_BRIDGES = 16 };
int ki_sysfs_bridges(const kith_pci_address *device, kith_pci_address *bridges);
/* The first bytes of a device's configuration space; returns how many could be read. Ordinary users get 64. */
size_t ki_sysfs_config(const kith_pci_address *device, unsigned char *config, size_t nbytes);
/* Speed, ports, fabric and GUID of a NIC by its device name. */
void ki_sysfs_nic(kith_topology *t, kith_nic *nic);
/* Does the CPU say that a hypervisor is below? */
bool ki_sysfs_is_virtual(void);
/* How many PCI devices have a domain of more than 16 bits; first receives the name of one. */
int ki_sysfs_wide_domains(char *first, size_t nbytes);

#endif
