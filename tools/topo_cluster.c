/* tools/topo_cluster.c - the picture of many nodes: switches contain switches contain nodes.
 *
 * Up to KI_NODES_DRAWN every node is a small box in the colour of what its ranks have in common; above that a leaf
 * switch is one box with the number of its nodes. Without switches, NVLink domains (or blocks of the scheduler) are the
 * containers, without those the nodes stand side by side.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "topo_draw.h"

#include <stdlib.h>

#define MAX_BOXES 1200
#define NODE_MIN_WIDTH 54.0
#define NODE_MAX_WIDTH 120.0
#define NODE_HEIGHT 20.0
#define NODE_GAP 5.0
#define ROW_WIDTH 480.0 /* of nodes in a switch: eight of the narrowest */
#define TITLE_HEIGHT 24.0
#define LEAF_MIN_WIDTH 130.0
#define LEAF_MAX_TITLE 440.0

/* A container: a switch, a domain, or the floor on which everything stands (index 0). */
typedef struct holder {
    int parent;
    const char *name;
    int node_count, own_nodes; /* in all, directly */
    int *nodes;                /* borrowed from the pool */
    double x, y, w, h;
    char detail[96];
} holder;

typedef struct cluster {
    const kith_topology *topology;
    const ki_groups *groups;
    holder *holders;
    int holder_count, *pool;
    bool shows_nodes;
    double node_width; /* for the longest name, within reason */
} cluster;

/* ---- what contains what ---- */

static int holder_of_node(const cluster *self, int node)
{
    const kith_node *it = kith_topology_node(self->topology, node);
    int index = kith_topology_switch_count(self->topology) > 0 ? it->leaf : it->domain;
    return index >= 0 && index + 1 < self->holder_count ? index + 1 : 0;
}

static void describe(const cluster *self, int index, holder *to)
{
    char gbps[32];
    if (kith_topology_switch_count(self->topology) == 0) {
        const kith_domain *domain = kith_topology_domain(self->topology, index);
        *to = (holder){ .name = domain->name };
        snprintf(to->detail, sizeof(to->detail), "%s", domain->is_nvlink ? "NVLink domain" : "block");
        return;
    }
    const kith_switch *it = kith_topology_switch(self->topology, index);
    *to = (holder){ .parent = it->parent >= 0 && it->parent < index ? it->parent + 1 : 0, .name = it->name };
    if (it->uplink_count > 0 && it->uplink_gbps > 0)
        snprintf(to->detail, sizeof(to->detail), "up %d x %s", it->uplink_count,
                 ki_text_gbps(gbps, sizeof(gbps), it->uplink_gbps));
    else if (it->uplink_count > 0)
        snprintf(to->detail, sizeof(to->detail), "%d links up", it->uplink_count);
}

static bool fill(cluster *self)
{
    int node_count = kith_topology_node_count(self->topology), next = 0;
    int switches = kith_topology_switch_count(self->topology), domains = kith_topology_domain_count(self->topology);
    self->holder_count = 1 + (switches > 0 ? switches : domains);
    self->holders = calloc((size_t)self->holder_count, sizeof(*self->holders));
    self->pool = calloc((size_t)node_count + 1, sizeof(int));
    if (self->holders == NULL || self->pool == NULL)
        return false;
    for (int i = 1; i < self->holder_count; i++)
        describe(self, i - 1, &self->holders[i]);
    for (int n = 0; n < node_count; n++)
        self->holders[holder_of_node(self, n)].node_count++;
    for (int i = 0; i < self->holder_count; i++) {
        self->holders[i].nodes = self->pool + next;
        next += self->holders[i].node_count;
    }
    for (int n = 0; n < node_count; n++) {
        holder *to = &self->holders[holder_of_node(self, n)];
        to->nodes[to->own_nodes++] = n;
    }
    for (int i = self->holder_count - 1; i > 0; i--)
        self->holders[self->holders[i].parent].node_count += self->holders[i].node_count;
    self->shows_nodes = node_count <= KI_NODES_DRAWN;
    self->node_width = NODE_MIN_WIDTH;
    for (int n = 0; self->shows_nodes && n < node_count; n++) {
        double width = ki_text_width(kith_topology_node(self->topology, n)->name, 9.5, false) + 10;
        if (width > self->node_width)
            self->node_width = width < NODE_MAX_WIDTH ? width : NODE_MAX_WIDTH;
    }
    return true;
}

/* ---- places ---- */

static bool is_shown(const holder *it)
{
    return it->node_count > 0;
}

static void size_of_nodes(const cluster *self, const holder *it, double *w, double *h)
{
    int per_row = (int)((ROW_WIDTH + NODE_GAP) / (self->node_width + NODE_GAP));
    int columns = it->own_nodes < per_row ? it->own_nodes : per_row;
    bool is_floor = it == &self->holders[0];
    if (is_floor && it->own_nodes > per_row)
        columns = it->own_nodes < 2 * per_row ? it->own_nodes : 2 * per_row;
    int rows = columns == 0 ? 0 : (it->own_nodes + columns - 1) / columns;
    *w = self->shows_nodes ? columns * (self->node_width + NODE_GAP) - NODE_GAP : LEAF_MIN_WIDTH - 2 * KI_PAD;
    *h = self->shows_nodes ? rows * (NODE_HEIGHT + NODE_GAP) - NODE_GAP : NODE_HEIGHT;
    if (it->own_nodes == 0 || (!self->shows_nodes && !is_floor))
        *w = *h = 0;
}

/* Flows the children of a container into rows; places are relative to the container. children is sorted by index, so
 * that one walk over the list finds them: next[i] is the next sibling. */
static void measure(cluster *self, int index, const int *first_child, const int *next, double limit)
{
    holder *it = &self->holders[index];
    double x = KI_PAD, y = index == 0 ? 0 : TITLE_HEIGHT + 2, row_h = 0, w, h;
    size_of_nodes(self, it, &w, &h);
    double widest = w + 2 * KI_PAD;
    y += h + (h > 0 ? KI_PAD : 0);
    for (int child = first_child[index]; child > 0; child = next[child]) {
        holder *inner = &self->holders[child];
        if (!is_shown(inner))
            continue;
        if (x > KI_PAD && x + inner->w + KI_PAD > limit) {
            x = KI_PAD;
            y += row_h + KI_PAD;
            row_h = 0;
        }
        inner->x = x;
        inner->y = y;
        x += inner->w + KI_PAD;
        row_h = inner->h > row_h ? inner->h : row_h;
        widest = x > widest ? x : widest;
    }
    double least = ki_text_width(it->name != NULL ? it->name : "", 12, true) + ki_text_width(it->detail, 9.5, false) +
                   2 * KI_PAD + 72;
    if (least > LEAF_MAX_TITLE)
        least = LEAF_MAX_TITLE;
    if (least < LEAF_MIN_WIDTH)
        least = LEAF_MIN_WIDTH;
    it->w = widest > least || index == 0 ? widest : least;
    it->h = y + row_h + (row_h > 0 ? KI_PAD : 0);
}

static bool place(cluster *self, double limit)
{
    int *first_child = calloc((size_t)self->holder_count, sizeof(int));
    int *next = calloc((size_t)self->holder_count, sizeof(int));
    int *level = calloc((size_t)self->holder_count, sizeof(int));
    bool has_memory = first_child != NULL && next != NULL && level != NULL;
    for (int i = self->holder_count - 1; has_memory && i > 0; i--) {
        next[i] = first_child[self->holders[i].parent];
        first_child[self->holders[i].parent] = i;
    }
    for (int i = 1; has_memory && i < self->holder_count; i++)
        level[i] = level[self->holders[i].parent] + 1;
    for (int i = self->holder_count - 1; has_memory && i >= 0; i--) {
        double room = limit - 2 * KI_PAD * level[i];
        measure(self, i, first_child, next, room > 3 * LEAF_MIN_WIDTH ? room : 3 * LEAF_MIN_WIDTH);
    }
    for (int i = 1; has_memory && i < self->holder_count; i++) {
        self->holders[i].x += self->holders[self->holders[i].parent].x;
        self->holders[i].y += self->holders[self->holders[i].parent].y;
    }
    free(first_child);
    free(next);
    free(level);
    return has_memory;
}

/* ---- ink ---- */

/* What all ranks of a node have in common: the pipeline stage where there are stages, else the group. -1: nothing. */
static int common_colour(const cluster *self, int node)
{
    const kith_node *it = kith_topology_node(self->topology, node);
    const kith_node_kind *kind = kith_topology_kind(self->topology, it->kind);
    int first = kith_topology_first_gpu(self->topology, node), common = -1;
    for (int g = 0; kind != NULL && g < kind->gpu_count; g++) {
        int group = self->groups->stage_count > 1 ? ki_groups_stage(self->groups, first + g)
                                                  : ki_groups_group(self->groups, first + g);
        if (group < 0)
            continue;
        if (common >= 0 && common != group)
            return -1;
        common = group;
    }
    return common;
}

/* Names of nodes differ at their ends, so a long one loses its beginning. */
static const char *fitting_tail(const char *name, double width)
{
    const char *tail = name;
    if (ki_text_width(name, 9.5, false) <= width)
        return name;
    while (*tail != '\0' && (ki_text_width(tail, 9.5, false) + 9.5 > width || ((unsigned char)*tail & 0xc0) == 0x80))
        tail++;
    return tail;
}

static void draw_nodes(ki_drawing *drawing, const cluster *self, const holder *it, double x, double y)
{
    double w, h;
    size_of_nodes(self, it, &w, &h);
    int columns = (int)((w + NODE_GAP + 0.5) / (self->node_width + NODE_GAP));
    for (int i = 0; i < it->own_nodes; i++) {
        const kith_node *node = kith_topology_node(self->topology, it->nodes[i]);
        const kith_node_kind *kind = kith_topology_kind(self->topology, node->kind);
        double left = x + i % columns * (self->node_width + NODE_GAP), top = y + i / columns * (NODE_HEIGHT + NODE_GAP);
        ki_shape *box = ki_draw(drawing, KI_SHAPE_BOX, node->is_allowed ? KI_STYLE_GPU : KI_STYLE_GPU_OFF, left, top,
                                self->node_width, NODE_HEIGHT);
        if (node->is_allowed)
            box->group = common_colour(self, it->nodes[i]);
        ki_draw_tip(drawing, box, "%s: %d GPUs, kind %s%s%s", node->name, kind != NULL ? kind->gpu_count : 0,
                    kind != NULL ? kind->name : "?", node->domain >= 0 ? ", domain " : "",
                    node->domain >= 0 ? kith_topology_domain(self->topology, node->domain)->name : "");
        const char *tail = fitting_tail(node->name, self->node_width - 4);
        ki_draw_text(drawing, KI_STYLE_SMALL, left + self->node_width / 2, top + 13.5, self->node_width - 4, 0.5,
                     "%s%s", tail == node->name ? "" : "\xe2\x80\xa6", tail);
    }
}

static void draw_holder(ki_drawing *drawing, const cluster *self, const holder *it, double x, double y)
{
    bool is_floor = it == &self->holders[0];
    double left = x + it->x, top = y + it->y;
    if (!is_floor) {
        ki_shape *box = ki_draw(drawing, KI_SHAPE_BOX, KI_STYLE_SWITCH, left, top, it->w, it->h);
        ki_draw_tip(drawing, box, "%s: %d nodes%s%s", it->name, it->node_count, it->detail[0] != '\0' ? ", " : "",
                    it->detail);
        char count[128];
        snprintf(count, sizeof(count), "%d nodes%s%s", it->node_count, it->detail[0] != '\0' ? ", " : "", it->detail);
        double name_w = ki_text_width(it->name, 12, true), room = it->w - 2 * KI_PAD;
        if (name_w > room * 0.62)
            name_w = room * 0.62;
        ki_draw_text(drawing, KI_STYLE_STRONG, left + KI_PAD, top + 17, name_w + 1, 0, "%s", it->name);
        ki_draw_text(drawing, KI_STYLE_FAINT, left + it->w - KI_PAD, top + 16.5, room - name_w - 8, 1, "%s", count);
    }
    double inner = top + (is_floor ? 0 : TITLE_HEIGHT + 2);
    if (self->shows_nodes)
        draw_nodes(drawing, self, it, left + KI_PAD, inner);
    else if (is_floor && it->own_nodes > 0)
        ki_draw_text(drawing, KI_STYLE_TEXT, left + KI_PAD, inner + 13, it->w - 2 * KI_PAD, 0, "%d nodes",
                     it->own_nodes);
}

void ki_cluster_draw(ki_drawing *drawing, const kith_topology *topology, const ki_groups *groups, double x, double y,
                     double max_width, double *width, double *height)
{
    cluster self = { .topology = topology, .groups = groups };
    *width = *height = 0;
    if (fill(&self) && place(&self, max_width)) {
        int drawn = 0;
        for (int i = 0; i < self.holder_count && drawn < MAX_BOXES; i++) {
            if (!is_shown(&self.holders[i]))
                continue;
            draw_holder(drawing, &self, &self.holders[i], x, y);
            drawn++;
        }
        *width = self.holders[0].w;
        *height = self.holders[0].h;
    } else {
        drawing->is_failed = true;
    }
    free(self.holders);
    free(self.pool);
}
