/* topology/nccl.h - an NCCL topology file on its way: read_nccl.c finds the devices, nccl_kind.c makes entries of them,
 * nccl_links.c joins them.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_TOPOLOGY_NCCL_H
#define KI_TOPOLOGY_NCCL_H

#include "document.h"
#include "hardware.h"
#include "reader.h"

enum { KI_NCCL_MOST_CPUS = 256 };

/* Where a device hangs. */
typedef struct ki_nccl_device {
    const ki_xml *element; /* <gpu>, <net>, or <pci> of a file that leaves the inside of devices out */
    const ki_xml *pci;     /* NULL: <nic> directly below a <cpu> */
    int cpu;               /* position in cpus */
    int pci_switch;        /* position in kind->switches; -1: none above */
    int dev;               /* "dev"; -1: none */
} ki_nccl_device;

typedef struct ki_nccl_cpu {
    const ki_xml *element;
    int numaid; /* -1: unknown */
    const char *cpus;
} ki_nccl_cpu;

typedef struct ki_nccl {
    kith_topology *t;
    const ki_source *source;
    ki_kind *kind;
    kith_status status; /* first refusal */
    ki_nccl_cpu cpus[KI_NCCL_MOST_CPUS];
    int cpu_count;
    ki_nccl_device gpus[KI_MAX_GPUS];
    int gpu_count;
    ki_nccl_device nics[KI_MAX_NICS];
    int nic_count;
    int unknown_count; /* <pci> without class: NCCL looks at run time what they are */
    const ki_xml *unknown;
    bool has_bridges; /* some device is behind a PCI bridge */
} ki_nccl;

/* Keeps the first refusal: "file:line: reason". */
void ki_nccl_refuse(ki_nccl *n, const ki_xml *element, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Attribute as a number, which must be one when it is there; -1 when it is not there, or "-1". */
int ki_nccl_number(ki_nccl *n, const ki_xml *element, const char *attribute);
/* "0x10de" -> 0x10de; -1: none. */
int ki_nccl_hex(const ki_xml *element, const char *attribute);
/* Bus id of a <pci>; unknown for NULL. */
kith_pci_address ki_nccl_address(ki_nccl *n, const ki_xml *pci);
/* nccl_kind.c: from devices to the kind, links included. */
void ki_nccl_build(ki_nccl *n);
/* nccl_links.c: nearness, NVLink and xGMI of the kind's GPUs and NICs, which stand in the order of n->gpus, n->nics. */
void ki_nccl_join(ki_nccl *n);

#endif
