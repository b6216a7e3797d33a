/* tools/topo_draw.h - a picture of a machine: first pure geometry, then ink.
 *
 * ki_drawing_create() turns a topology and a placement into a list of shapes (boxes, lines, curves, texts) with names
 * of styles instead of colours. The list is written as SVG (topo_svg.c) or painted with cairo (topo_cairo.c), so both
 * show the same. Lengths are points (1/72 inch); y grows downwards.
 *
 * How a node is drawn. Containment says who hangs on whom: node > package > NUMA node > PCI switch > GPUs and NICs. All
 * GPUs stand on one line, with their NICs above them, so that everything below that line is free for NVLink: a bar for
 * NVSwitch, arcs for direct links. Clusters are drawn the same way: switches contain switches contain nodes.
 *
 * Files: topo_shape.c the list; topo_text.c texts that are safe to draw; topo_style.c colours and fonts; topo_groups.c
 * who is in which group; topo_region.c the containers of a node, topo_layout.c their places, topo_links.c what is below
 * the GPUs; topo_cluster.c switches and nodes; topo_draw.c puts it together.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_TOOLS_TOPO_DRAW_H
#define KI_TOOLS_TOPO_DRAW_H

#include <kith/placement.h>
#include <stdio.h>

/* ---- styles (topo_style.c) ---- */

typedef enum ki_style {
    KI_STYLE_PAGE,
    KI_STYLE_NODE,
    KI_STYLE_PACKAGE,
    KI_STYLE_NUMA,
    KI_STYLE_PCI,          /* a PCI switch */
    KI_STYLE_PCI_INFERRED, /* the same, known from nearness alone */
    KI_STYLE_GPU,          /* in the colour of its group */
    KI_STYLE_GPU_OFF,      /* without a rank */
    KI_STYLE_NIC,
    KI_STYLE_NVSWITCH,
    KI_STYLE_SWITCH,    /* between nodes */
    KI_STYLE_PILL,      /* doubts */
    KI_STYLE_NVLINK,    /* lines from here */
    KI_STYLE_STUB,      /* GPU to NVSwitch, in the colour of its group */
    KI_STYLE_WORST,     /* slowest link of a group */
    KI_STYLE_WORST_PCI, /* the same where it is not NVLink */
    KI_STYLE_SOCKET,
    KI_STYLE_TITLE, /* texts from here */
    KI_STYLE_HEADING,
    KI_STYLE_TEXT,
    KI_STYLE_STRONG,
    KI_STYLE_SMALL,
    KI_STYLE_FAINT,
    KI_STYLE_LINK_LABEL,
    KI_STYLE_WORST_LABEL,
    KI_STYLE_COUNT
} ki_style;

typedef struct ki_style_look {
    const char *class_name;
    unsigned fill, stroke; /* 0xRRGGBB; for texts the fill is the colour */
    unsigned dark_fill, dark_stroke;
    double line; /* width of the stroke; 0: none */
    double dash; /* length of dashes; 0: a full line */
    double radius;
    double font; /* size; 0: no text */
    bool is_bold, is_hollow;
} ki_style_look;

const ki_style_look *ki_style_look_of(ki_style style);

/* Colours of groups, repeated when there are more. */
#define KI_GROUP_COLOURS 10
void ki_group_colours(int group, bool is_dark, unsigned *fill, unsigned *stroke);

/* The rules of CSS for everything below a selector (".picture" or ""), light, and dark where
 * the reader prefers that. */
void ki_style_css(FILE *out, const char *scope, bool has_dark);

/* ---- shapes (topo_shape.c) ---- */

typedef enum ki_shape_sort { KI_SHAPE_BOX, KI_SHAPE_LINE, KI_SHAPE_CURVE, KI_SHAPE_TEXT } ki_shape_sort;

typedef struct ki_shape {
    ki_shape_sort sort;
    ki_style style;
    int group;         /* its colour; -1: that of the style */
    double x, y, w, h; /* line: to (x + w, y + h). Curve: to (x + w, y), hanging down by h. Text: w is the width it may
                        * have at most (0: any), (x, y) the point on its base line where it is aligned */
    double line;       /* width; 0: that of the style */
    double align;      /* text: 0 left, 0.5 middle, 1 right of x */
    char *text;        /* NULL: none */
    char *tip;         /* shown on hovering; NULL: none */
} ki_shape;

typedef struct ki_drawing {
    ki_shape *shapes;
    size_t count, room;
    double width, height;
    char *title;
    bool is_failed; /* memory was short: the list is not whole */
} ki_drawing;

ki_shape *ki_draw(ki_drawing *drawing, ki_shape_sort sort, ki_style style, double x, double y, double w, double h);
/* The text is cleaned, and cut with an ellipsis when it would be wider than w (0: any). */
ki_shape *ki_draw_text(ki_drawing *drawing, ki_style style, double x, double y, double w, double align,
                       const char *format, ...) __attribute__((format(printf, 7, 8)));
void ki_draw_tip(ki_drawing *drawing, ki_shape *shape, const char *format, ...) __attribute__((format(printf, 3, 4)));
void ki_drawing_destroy(ki_drawing *drawing);

/* ---- texts (topo_text.c) ---- */

/* Makes a text valid UTF-8 of one line in place: what is not, becomes '?', so names out of files cannot break the
 * drawing. */
void ki_text_clean(char *text);
/* Width in points at that size, as the widest common sans-serif font has it. */
double ki_text_width(const char *text, double font, bool is_bold);
/* Writes text for XML and HTML: < > & " ' and what is no character at all are replaced. NULL writes nothing. */
void ki_text_escape(FILE *out, const char *text);
/* "0-3, 8" out of numbers in ascending order. */
void ki_text_ranges(char *buffer, size_t nbytes, const int *numbers, int count);
/* "12 us", "3.4 ms"; "370.8 GB/s" ("?" for 0); "80 GiB". Return buffer. */
const char *ki_text_time(char *buffer, size_t nbytes, double seconds);
const char *ki_text_gbps(char *buffer, size_t nbytes, double gbps);
const char *ki_text_bytes(char *buffer, size_t nbytes, double value);

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

/* topo_svg.c. is_inline: part of a page of HTML, which has the style rules. */
void ki_drawing_svg(const ki_drawing *drawing, bool is_inline, FILE *out);
/* topo_cairo.c. False with a sentence when cairo failed. */
bool ki_drawing_png(const ki_drawing *drawing, FILE *out, const char **error);
bool ki_drawing_pdf(const ki_drawing *drawing, FILE *out, const char **error);

#endif
