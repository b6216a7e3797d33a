/* topology/hardware.h - what addresses, class codes, link speeds and CPU models mean. Text in, numbers out; no files.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_TOPOLOGY_HARDWARE_H
#define KI_TOPOLOGY_HARDWARE_H

#include "model.h"

/* PCI classes: the upper 16 bits of what sysfs and NCCL write ("0x030200"), all of what hwloc has. */
#define KI_PCI_ETHERNET 0x0200
#define KI_PCI_INFINIBAND 0x0207
#define KI_PCI_VGA 0x0300
#define KI_PCI_3D 0x0302
#define KI_PCI_DISPLAY 0x0380
#define KI_PCI_BRIDGE 0x0604
#define KI_PCI_NVSWITCH 0x0680
#define KI_PCI_ACCELERATOR 0x1200

#define KI_VENDOR_NVIDIA 0x10de
#define KI_VENDOR_AMD 0x1002
#define KI_VENDOR_INTEL 0x8086
#define KI_VENDOR_AMAZON 0x1d0f

typedef enum ki_pci_kind {
    KI_PCI_BAD,    /* no address */
    KI_PCI_HIDDEN, /* "fffffff:ffff:ff": the driver's word for a device that this virtual machine does not see */
    KI_PCI_GOOD
} ki_pci_kind;

/* Reads "0000:1b:00.0", "00000000:1B:00.0", "10000:01:00.0", also without domain or function. */
ki_pci_kind ki_pci_parse(const char *text, kith_pci_address *address);
/* Same slot: functions of one device count as one. Unknown addresses are never the same. */
bool ki_pci_is_same_device(const kith_pci_address *a, const kith_pci_address *b);
/* Order of the bus: domain, bus, device, function; unknown last. For qsort-like use. */
int ki_pci_compare(const kith_pci_address *a, const kith_pci_address *b);
/* "0x030200" -> 0x0302; -1: no class. */
int ki_pci_class(const char *text);
/* Is this function a GPU that computes? Consoles of servers (ASPEED, Matrox) and sound functions are not. */
bool ki_pci_is_gpu(int class_id, int vendor);
/* "nvidia", "amd", "intel"; NULL: another. */
const char *ki_pci_vendor_name(int vendor);

/* A PCIe link by NCCL's rules: a width of 0 is 16 lanes. All 0 when the speed is not given (a virtual machine): NCCL
 * would take Gen3 then, Kith says that it does not know. */
void ki_pcie_link(const kith_topology *t, const char *speed, const char *width, int *generation, int *lanes,
                  double *gbps);

/* Fabric of a device by its name: mlx5_0 (class tells InfiniBand from RoCE), rdmap79s0, hsi0, eth0. NULL: none. */
const char *ki_nic_fabric(const char *name, int class_id, int vendor);

/* "intel", "amd", "arm", "ibm", "zhaoxin" from "GenuineIntel" and so on, or from the architecture; NULL: unknown. */
const char *ki_cpu_vendor(const char *vendor, const char *architecture);
/* Key of the constant for the link between two packages; NULL: the model is not known. */
const char *ki_cpu_socket_key(const char *vendor, int family, int model);
/* Fills cpu_vendor, architecture and, for a known model, socket_gbps. Texts may be NULL. */
void ki_kind_set_cpu(kith_topology *t, ki_kind *kind, const char *vendor, const char *architecture, int family,
                     int model);

/* Number in a text, -1 when it is none (also for what is negative or above 2^30). Base as in strtol. */
int ki_text_number(const char *text, int base);

#endif
