/* topology/synthetic.h - what a description in words says; read_synthetic.c fills it, synthetic_check.c
 * completes it, synthetic_node.c and synthetic_net.c build from it.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_TOPOLOGY_SYNTHETIC_H
#define KI_TOPOLOGY_SYNTHETIC_H

#include "model.h"
#include "synthetic_words.h"

typedef enum ki_shape {
    KI_SHAPE_UNSAID,
    KI_SHAPE_NVSWITCH,
    KI_SHAPE_PCIE,
    KI_SHAPE_PAIRS, /* (0,1), (2,3), ...: NVLink bridges */
    KI_SHAPE_CUBE,  /* 8 GPUs, as in a DGX-1 */
    KI_SHAPE_MESH   /* every GPU to every other: NVLink, or xGMI */
} ki_shape;

typedef struct ki_synthetic {
    const char *text;          /* the description */
    const char *gpu_name;      /* as the driver would call it; NULL: not said */
    const ki_gpu_model *model; /* NULL: not said */
    bool is_grace;             /* CPUs are Grace: one NUMA node more for each GPU's memory */
    bool is_amd;
    int node_count, gpu_count, nic_count, socket_count, numa_count; /* of one node, but for the first */
    ki_shape shape;
    double nic_gbps;                                        /* 0: not said */
    const char *nic_fabric;                                 /* NULL: not said */
    int nodes_per_leaf, leaves_per_spine, nodes_per_domain; /* 0: not said */
    bool has_rails;
    int oversubscription; /* 2 for 2:1; 0: not said */
} ki_synthetic;

/* Fills in what the words leave open and checks the whole. False: p->status and the reason are set. */
bool ki_synthetic_complete(ki_words *p, kith_topology *t, ki_synthetic *s);
/* The one kind of node. Returns its index. */
int ki_synthetic_add_kind(kith_topology *t, const ki_synthetic *s);
/* Nodes of that kind, switches, NVLink domains. */
kith_status ki_synthetic_add_nodes(kith_topology *t, const ki_synthetic *s, int kind);

#endif
