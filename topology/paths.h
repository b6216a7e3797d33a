/* topology/paths.h - which parts of the machine a transfer between two GPUs uses.
 *
 * A route is a short list of resources, each used in one direction, so that traffic both ways does not meet:
 *   a GPU's NVLink port out of and into the switch, or the direct links of a pair;
 *   a GPU's PCIe link, the uplinks of the PCI switches between the two ends, the link between two sockets;
 *   a NIC out and in, with the way of the GPU to it; uplinks of leaf switches where their number is known.
 * A hop with share 0.5 carries half of the bytes: a GPU with two equally near NICs uses both, in the ratio of their
 * speeds. A resource is an index below ki_paths_resource_count(): users keep their counts in plain arrays.
 *
 * What is not described does not limit: no PCI switches, no uplinks. Two exceptions, so that unknown is not free: GPUs
 * whose link is unknown meet on PCIe through the host (the route keeps the type unknown), and a node whose NICs are not
 * described has one of unknown speed ("net-unknown" in the table of constants).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_TOPOLOGY_PATHS_H
#define KI_TOPOLOGY_PATHS_H

#include <kith/topology.h>

typedef struct ki_hop {
    int resource;
    float share; /* of the transfer's bytes */
} ki_hop;

typedef struct ki_route {
    kith_link_type type; /* as kith_topology_link() tells */
    double gbps;         /* when nothing else moves */
    double latency_s;
    const ki_hop *hops;
    int hop_count;
} ki_route;

typedef enum ki_resource_kind {
    KI_RESOURCE_NVLINK_OUT, /* of GPU a into the switch */
    KI_RESOURCE_NVLINK_IN,
    KI_RESOURCE_PAIR,     /* direct NVLink or xGMI from GPU a to GPU b */
    KI_RESOURCE_PCIE_OUT, /* of GPU a */
    KI_RESOURCE_PCIE_IN,
    KI_RESOURCE_SWITCH_UP, /* of PCI switch a to what is above it */
    KI_RESOURCE_SWITCH_DOWN,
    KI_RESOURCE_SOCKET,  /* from place a to place b; a place is a NUMA node, or a package towards other packages */
    KI_RESOURCE_NIC_OUT, /* of NIC a; -1: the NIC that stands for those that are not described */
    KI_RESOURCE_NIC_IN,
    KI_RESOURCE_LEAF_UP, /* of network switch a */
    KI_RESOURCE_LEAF_DOWN
} ki_resource_kind;

typedef struct ki_resource {
    ki_resource_kind kind;
    int a, b;
    double gbps;
} ki_resource;

typedef struct ki_paths ki_paths;

/* kith_topology_locate() for a GPU that is there. */
void ki_locate(const kith_topology *t, int global_gpu, int *node, int *gpu);

/* Resources of the nodes that the given GPUs (global numbers, checked) are on. The topology must live as long.
 * KITH_ERR_INVALID_ARG for a number that is no GPU, KITH_ERR_NO_MEMORY. */
kith_status ki_paths_create(const kith_topology *t, const int *gpus, size_t count, ki_paths **paths);
void ki_paths_destroy(ki_paths *paths);

int ki_paths_resource_count(const ki_paths *paths);
/* GB/s of each resource, ki_paths_resource_count() entries. */
const double *ki_paths_gbps(const ki_paths *paths);
/* What a resource is; *node: whose, -1 for network switches. */
ki_resource ki_paths_resource(const ki_paths *paths, int resource, int *node);
/* A NIC, a socket link or an uplink: shared by GPUs because of where they are, not because of what they do. */
bool ki_paths_is_common(const ki_paths *paths, int resource);

/* The route between two different GPUs of those nodes. hops are good until the next call. KITH_ERR_UNSUPPORTED when no
 * bandwidth at all is known on the way. One thread at a time. */
kith_status ki_paths_route(ki_paths *paths, int from, int to, ki_route *route);

/* Name of a resource for people and for other tools: "node3.nic0.out". At least 64 bytes. Returns buffer. */
const char *ki_paths_name(const ki_paths *paths, int resource, char *buffer, size_t nbytes);

#endif
