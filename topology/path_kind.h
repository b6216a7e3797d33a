/* topology/path_kind.h - the resources of one kind of node, numbered from 0; nodes of that kind repeat them.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_TOPOLOGY_PATH_KIND_H
#define KI_TOPOLOGY_PATH_KIND_H

#include "paths.h"

/* Hops that were put together, numbered inside the node; share of the NICs for the way through the network. */
typedef struct ki_half {
    int first_hop, hop_count; /* in hops */
    int first_nic, nic_count; /* in nics: resource is the NIC's position */
} ki_half;

typedef struct ki_kind_paths {
    const kith_node_kind *kind;
    const kith_topology *t;
    double domain_gbps;
    ki_resource *resources;
    int resource_count, resource_room;
    /* Resource of each thing; -1: does not limit. The two directions of one thing stand side by side: in = out + 1. */
    int *port;          /* [gpu] into the switch */
    int *pcie;          /* [gpu] */
    int *pair;          /* [gpu * gpu_count + gpu] */
    int *up;            /* [switch] */
    int *nic;           /* [nic], or [1] */
    int *socket;        /* [place * place_count + place] */
    int *place;         /* [gpu_count + nic_count] place of a device */
    int *place_package; /* [place_count] lowest place of its package, or itself */
    int place_count;
    ki_half *out, *in; /* [gpu] between a GPU and the network */
    ki_hop *hops, *nics;
    int hop_count, hop_room, nic_count, nic_room;
    double nvlink_latency_s, xgmi_latency_s, pcie_latency_s, net_latency_s;
    bool is_out_of_memory;
} ki_kind_paths;

/* domain_gbps: NVLink of a GPU into the domain that its nodes are in; 0: none. */
kith_status ki_kind_paths_create(const kith_topology *t, int kind, double domain_gbps, ki_kind_paths **paths);
void ki_kind_paths_destroy(ki_kind_paths *paths);

/* Appends the hops of a way between two devices over PCIe: switches up to where they meet, the socket link when the
 * class is SYS, and down again. Devices: GPUs, then NICs. write has room for ki_kind_paths_most_hops(). Returns how
 * many. */
int ki_kind_paths_pcie(const ki_kind_paths *paths, int from, int to, kith_link_type type, float share, ki_hop *write);
int ki_kind_paths_most_hops(const ki_kind_paths *paths);

#endif
