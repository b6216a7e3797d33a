/* tools/topo_draw.h - the picture of a machine.
 *
 * ki_drawing_create() turns a topology and a placement into a list of shapes (draw.h).
 *
 * How a node is drawn. Containment says who hangs on whom: node > package > NUMA node > PCI switch > GPUs and NICs. All
 * GPUs stand on one line, with their NICs above them, so that everything below that line is free for NVLink: a bar for
 * NVSwitch, arcs for direct links. Clusters are drawn the same way: switches contain switches contain nodes.
 *
 * Files: topo_groups.c who is in which group; topo_region.c the containers of a node, topo_layout.c their places,
 * topo_links.c what is below the GPUs; topo_cluster.c switches and nodes; topo_draw.c puts it together.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_TOOLS_TOPO_DRAW_H
#define KI_TOOLS_TOPO_DRAW_H

#include "draw.h"

#include <kith/placement.h>

/* ---- groups (topo_groups.c) ---- */

/* One group of the axis that is shown. */
typedef struct ki_group {
    const int *ring; /* [size] global GPUs; the placement's */
    kith_link worst; /* narrowest hop of the ring; type SELF: a group of one */
    int from, to;    /* global GPUs of that hop; -1 */
    bool is_even;    /* all hops are alike */
} ki_group;

/* Which rank and which group a GPU has. The axis shown is tp, or with groups of one the first that has more. */
typedef struct ki_groups {
    const char *axis; /* "tp"; NULL: no placement */
    int size, count;
    ki_group *groups;
    int *rank_of, *group_of; /* of global GPUs; -1: none */
    int *stage_of;           /* position along pp */
    int stage_count;         /* 1: no pipeline */
    int gpu_count;
} ki_groups;

/* False when memory is short. placement may be NULL. */
bool ki_groups_create(const kith_topology *topology, const kith_placement *placement, ki_groups *groups);
void ki_groups_destroy(ki_groups *groups);
/* -1 where there is none. */
int ki_groups_rank(const ki_groups *groups, int global_gpu);
int ki_groups_group(const ki_groups *groups, int global_gpu);
int ki_groups_stage(const ki_groups *groups, int global_gpu);

/* ---- the containers of a node (topo_region.c, topo_layout.c) ---- */

typedef struct ki_region {
    int parent; /* -1: the node itself, region 0 */
    ki_style style;
    char title[160], detail[256], tip[256];
    int member_count;  /* devices in it and below */
    bool is_dissolved; /* not worth a box: what is in it belongs to the parent */
    double x, y, w;    /* place; y is the line on which its devices stand */
    double up, down;   /* extent above and below that line */
    double shift;      /* of its line above the parent's, where children stand in rows */
} ki_region;

typedef struct ki_node_layout {
    const kith_topology *topology;
    const kith_node_kind *kind;
    const ki_groups *groups;
    int first_gpu; /* global number of the kind's first GPU on the node that is drawn */
    const char *node_name;
    ki_region *regions;
    int region_count, region_room;
    int *gpu_region, *nic_region;
    double *gpu_x, *nic_x, *nic_y; /* left edge; top edge of NICs */
    double nic_width;
    int *slot;           /* GPUs from left to right: slot[gpu] */
    double gpu_y;        /* top edge of all GPUs */
    double links_height; /* room below the GPUs' boxes */
    double width, height;
    bool is_failed;
} ki_node_layout;

#define KI_GPU_WIDTH 86.0
#define KI_GPU_HEIGHT 54.0
#define KI_NIC_WIDTH 62.0 /* at least */
#define KI_NIC_MAX_WIDTH 112.0
#define KI_NIC_HEIGHT 22.0
#define KI_GAP 8.0
#define KI_PAD 10.0

/* The region that a device or region really stands in: the next that is not dissolved. */
int ki_region_visible(const ki_node_layout *layout, int region);

/* What a NIC is called in pictures and tables. */
const char *ki_nic_name(const kith_nic *nic);
/* Nothing is known of nodes of this kind but their names. */
bool ki_kind_is_empty(const kith_node_kind *kind);

void ki_regions_make(ki_node_layout *layout);
void ki_layout_place(ki_node_layout *layout);
void ki_layout_destroy(ki_node_layout *layout);

/* Clusters of more nodes are drawn by leaf switch. */
#define KI_NODES_DRAWN 400

/* ---- what is drawn (topo_links.c, topo_cluster.c, topo_draw.c) ---- */

double ki_links_height(const ki_node_layout *layout);
void ki_links_draw(ki_drawing *drawing, const ki_node_layout *layout, double x, double y);
/* Draws switches and nodes at (x, y), at most max_width wide; *width and *height: what it took. */
void ki_cluster_draw(ki_drawing *drawing, const kith_topology *topology, const ki_groups *groups, double x, double y,
                     double max_width, double *width, double *height);

/* NULL when memory is short. placement may be NULL. */
ki_drawing *ki_drawing_create(const kith_topology *topology, const kith_placement *placement);

#endif
