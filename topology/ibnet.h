/* topology/ibnet.h - an InfiniBand fabric as `ibnetdiscover` prints it: the parts that read it share this.
 *
 * read_ibnet.c turns the text into devices and ports and checks them, ibnet_tree.c makes a tree of the switches,
 * ibnet_nodes.c makes nodes of the channel adapters (CAs). All strings are pieces of the text.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_TOPOLOGY_IBNET_H
#define KI_TOPOLOGY_IBNET_H

#include "name_map.h"
#include "reader.h"

typedef struct ki_ib_text {
    const char *chars;
    size_t length;
} ki_ib_text;

typedef struct ki_ib_port {
    int number; /* from 1; rising inside one device */
    int line;
    ki_ib_text peer_id, peer_description;
    int peer, peer_number; /* device (set when all are known) and its port */
    double gbps;           /* 0: unknown */
} ki_ib_port;

typedef enum ki_ib_kind { KI_IB_CA, KI_IB_SWITCH, KI_IB_ROUTER } ki_ib_kind;

typedef struct ki_ib_device {
    ki_ib_kind kind;
    ki_ib_text id;          /* "S-2c5e..." */
    ki_ib_text description; /* what stands in quotes behind it */
    ki_ib_text host, ca;    /* CAs: "gpu001" and "mlx5_0"; host has length 0 where there is none */
    bool is_aggregation;    /* a CA inside a switch (SHARP) */
    int line;
    int first_port, port_count;
    int level; /* switches: 0 has hosts, else the distance to one that has; -1: no way to one */
    int group; /* switches: which group of switches stands for it in the tree; -1: none */
    int leaf;  /* switches with hosts: index in the topology; -1: none */
} ki_ib_device;

typedef struct ki_ib_fabric {
    kith_topology *t;
    const char *file;
    ki_name_map ids;
    ki_ib_device *devices;
    ki_ib_port *ports;
    int device_count, device_room, port_count, port_room;
    int rate_line; /* of the first link whose rate is not known; 0: none */
} ki_ib_fabric;

/* Does the device count as a host's: a CA that is not part of a switch? */
static inline bool ki_ib_is_host(const ki_ib_device *device)
{
    return device->kind == KI_IB_CA && !device->is_aggregation;
}

/* GB/s of "4xNDR"; 0: unknown rate. */
double ki_ib_rate_gbps(const kith_topology *t, const char *text, size_t length);

/* Adds the switches and sets the leaf of each switch that has hosts. */
kith_status ki_ib_add_switches(ki_ib_fabric *fabric);
/* Adds the nodes, with their leaves and rails. */
kith_status ki_ib_add_nodes(ki_ib_fabric *fabric);

#endif
