/* tests/topology/machine.h - machines for tests and for the comparison with a simulator, built without any file.
 *
 * GPU g of a node is nearest (PIX) to NIC g * nics / gpus; sockets share GPUs and NICs evenly; what is on another
 * socket is SYS, the rest NODE. Zero means none or default.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef TESTS_TOPOLOGY_MACHINE_H
#define TESTS_TOPOLOGY_MACHINE_H

#include "topology/model.h"

typedef struct machine_spec {
    const char *gpu; /* "NVIDIA H100": PCIe and NVLink follow from it */
    int nodes, gpus, nics, sockets;
    int nvlinks;    /* on each pair; 0: PCIe alone */
    bool is_direct; /* no switch */
    double nic_gbps, socket_gbps;
    bool has_pci_switches; /* one for each NIC, with the GPUs nearest to it */
    int nodes_of_leaf;     /* 0: no network switches; a root above all leaves */
    bool has_rails;        /* a leaf for each NIC and block of nodes_of_leaf nodes */
    int uplinks;           /* of a leaf; 0: unknown */
    double uplink_gbps;
    int nodes_of_domain; /* NVLink domains */
    double domain_gbps;
    void (*edit)(kith_topology *t, ki_kind *kind); /* before links are derived */
} machine_spec;

/* NULL after a failure, which is printed. */
kith_topology *machine_create(const machine_spec *spec);

/* Machines that several tests use. */
extern const machine_spec machine_hgx_h100; /* 1 node, 8 NDR NICs, NVSwitch */
extern const machine_spec machine_dgx_1v;   /* 1 node, 4 EDR NICs, hybrid cube mesh of NVLink 2 */

/* groups[group_count * size]: rank r's GPU is first + r * stride inside a group, groups next to each other. */
void machine_groups(int *groups, int size, int group_count, int stride, int group_stride);

#endif
