/* tools/topo_layout.c - where everything of a node stands.
 *
 * Bottom up: the width of a container, and how far it reaches above and below the line on which its devices stand. Then
 * top down: places. Without GPUs there is no need for one common line, so containers stand in rows.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "topo_draw.h"

#include <stdlib.h>
#include <string.h>

#define ROW_WIDTH 640.0 /* of containers in a container, without GPUs */
#define SOCKET_GAP 64.0 /* between packages, where their link is drawn */
#define MIN_WIDTH 150.0 /* of a NUMA node: room for its list of CPUs */
#define MIN_PCI_WIDTH 76.0
#define MAX_TITLE 420.0 /* a longer title is cut */
#define NODE_MIN_WIDTH 620.0

static double title_height(const ki_region *region)
{
    if (region->style == KI_STYLE_NODE)
        return 42;
    if (region->style == KI_STYLE_NUMA)
        return region->detail[0] != '\0' ? 36 : 22;
    return region->style == KI_STYLE_PACKAGE ? 24 : 19;
}

/* Devices that stand in the container itself. */
typedef struct own_devices {
    int gpus, nics, columns;
    double w, h;
} own_devices;

/* Where no GPUs give the width: a grid that is wider than high. */
static int nic_columns(int nics)
{
    int columns = 4;
    while (columns * columns < nics + nics / 2)
        columns++;
    return columns;
}

static own_devices count_own(const ki_node_layout *self, int region)
{
    own_devices own = { 0 };
    for (int g = 0; g < self->kind->gpu_count; g++)
        own.gpus += ki_region_visible(self, self->gpu_region[g]) == region;
    for (int n = 0; n < self->kind->nic_count; n++)
        own.nics += ki_region_visible(self, self->nic_region[n]) == region;
    double gpus_width = own.gpus * (KI_GPU_WIDTH + KI_GAP) - (own.gpus > 0 ? KI_GAP : 0);
    own.columns = own.gpus > 0 ? (int)((gpus_width + KI_GAP) / (self->nic_width + KI_GAP)) : nic_columns(own.nics);
    if (own.columns < 1)
        own.columns = 1; /* a NIC can be wider than a GPU */
    if (own.columns > own.nics)
        own.columns = own.nics;
    double nics_width = own.columns * (self->nic_width + KI_GAP) - (own.columns > 0 ? KI_GAP : 0);
    int rows = own.columns > 0 ? (own.nics + own.columns - 1) / own.columns : 0;
    own.w = gpus_width > nics_width ? gpus_width : nics_width;
    own.h = (own.gpus > 0 ? KI_GPU_HEIGHT : 0) + rows * KI_NIC_HEIGHT + (rows > 0 ? (rows - 1) * 5.0 : 0) +
            (own.gpus > 0 && rows > 0 ? KI_GAP : 0);
    return own;
}

static double gap_before(const ki_node_layout *self, int child)
{
    const ki_region *region = &self->regions[child];
    bool has_socket_link = region->style == KI_STYLE_PACKAGE && self->kind->package_count == 2;
    return has_socket_link ? SOCKET_GAP : region->style == KI_STYLE_PACKAGE ? 14 : KI_GAP;
}

static bool is_child(const ki_node_layout *self, int child, int parent)
{
    return !self->regions[child].is_dissolved && ki_region_visible(self, self->regions[child].parent) == parent;
}

/* Packages and NUMA nodes of one row are equally high. */
static void level_row(ki_node_layout *self, int parent, int first, int end, double up, double down)
{
    for (int child = first; child < end; child++) {
        ki_region *region = &self->regions[child];
        if (!is_child(self, child, parent) || (region->style != KI_STYLE_PACKAGE && region->style != KI_STYLE_NUMA))
            continue;
        region->up = up;
        region->down = down;
    }
}

/* Children next to each other, in rows no wider than `limit`. x and shift of the children are relative. */
static void measure_children(ki_node_layout *self, int index, double limit, double *w, double *up, double *down)
{
    double row_w = 0, row_up = 0, row_down = 0;
    int first = index + 1;
    *w = *up = *down = 0;
    for (int child = index + 1; child <= self->region_count; child++) {
        bool is_end = child == self->region_count;
        if (!is_end && !is_child(self, child, index))
            continue;
        double gap = row_w == 0 || is_end ? 0 : gap_before(self, child);
        bool is_full = is_end || (row_w > 0 && row_w + gap + self->regions[child].w > limit);
        if (is_full && row_w > 0) {
            double rise = 0;
            level_row(self, index, first, child, row_up, row_down);
            /* Rows before this one move up by its height. */
            if (*w > 0)
                rise = row_up + KI_GAP + *down;
            for (int earlier = index + 1; *w > 0 && earlier < first; earlier++)
                if (is_child(self, earlier, index))
                    self->regions[earlier].shift += rise;
            *up = *w > 0 ? *up + rise : row_up;
            *down = row_down;
            *w = row_w > *w ? row_w : *w;
            row_w = row_up = row_down = gap = 0;
            first = child;
        }
        if (is_end)
            return;
        ki_region *region = &self->regions[child];
        region->x = row_w + gap;
        row_w += gap + region->w;
        row_up = region->up > row_up ? region->up : row_up;
        row_down = region->down > row_down ? region->down : row_down;
    }
}

static void measure(ki_node_layout *self, int index)
{
    ki_region *region = &self->regions[index];
    double w, up, down;
    own_devices own = count_own(self, index);
    bool has_gpus = self->kind->gpu_count > 0;
    measure_children(self, index, has_gpus ? 1e9 : index == 0 ? 2 * ROW_WIDTH : ROW_WIDTH, &w, &up, &down);
    w += own.w + (w > 0 && own.w > 0 ? KI_GAP : 0);
    double title = ki_text_width(region->title, 12, true) + 2 * KI_PAD;
    double detail = ki_text_width(region->detail, 9.5, false) + 2 * KI_PAD;
    double least = region->style == KI_STYLE_PCI || region->style == KI_STYLE_PCI_INFERRED ? MIN_PCI_WIDTH : MIN_WIDTH;
    if (region->style == KI_STYLE_PACKAGE || region->style == KI_STYLE_NODE)
        least = title > detail ? title : detail;
    if (region->style == KI_STYLE_NUMA && title > least)
        least = title;
    if (least > MAX_TITLE)
        least = MAX_TITLE;
    if (region->style == KI_STYLE_NODE && least < NODE_MIN_WIDTH)
        least = NODE_MIN_WIDTH;
    region->w = (w + 2 * KI_PAD > least ? w + 2 * KI_PAD : least);
    region->up = (own.h > up ? own.h : up) + title_height(region);
    region->down = down + KI_PAD;
    if (up == 0 && own.h == 0)
        region->down = 2; /* an empty box needs no foot */
}

static void place_devices(ki_node_layout *self, int index, double x)
{
    const ki_region *region = &self->regions[index];
    own_devices own = count_own(self, index);
    double gpu_x = x, nics_bottom = region->y - (own.gpus > 0 ? KI_GPU_HEIGHT + KI_GAP : 0);
    int rows = own.columns > 0 ? (own.nics + own.columns - 1) / own.columns : 0, placed = 0;
    for (int g = 0; g < self->kind->gpu_count; g++) {
        if (ki_region_visible(self, self->gpu_region[g]) != index)
            continue;
        self->gpu_x[g] = gpu_x;
        gpu_x += KI_GPU_WIDTH + KI_GAP;
    }
    for (int n = 0; n < self->kind->nic_count; n++) {
        if (ki_region_visible(self, self->nic_region[n]) != index)
            continue;
        int row = placed / own.columns, column = placed % own.columns;
        self->nic_x[n] = x + column * (self->nic_width + KI_GAP);
        self->nic_y[n] = nics_bottom - (rows - row) * (KI_NIC_HEIGHT + 5) + 5;
        placed++;
    }
}

static bool has_one_row(const ki_node_layout *self, int index)
{
    for (int child = index + 1; child < self->region_count; child++)
        if (is_child(self, child, index) && self->regions[child].shift > 0)
            return false;
    return true;
}

/* Parents stand before their children in the list, so one pass suffices. */
static void place(ki_node_layout *self)
{
    for (int r = 0; r < self->region_count; r++) {
        ki_region *region = &self->regions[r];
        if (region->is_dissolved)
            continue;
        double end = region->x + KI_PAD;
        bool has_child = false, is_filled = region->style == KI_STYLE_PACKAGE && has_one_row(self, r);
        for (int child = r + 1; child < self->region_count; child++) {
            if (!is_child(self, child, r))
                continue;
            ki_region *inner = &self->regions[child];
            inner->x += region->x + KI_PAD;
            inner->y = region->y - inner->shift;
            if (is_filled && inner->style == KI_STYLE_NUMA)
                inner->up = region->up - title_height(region); /* as high as those of other packages */
            has_child = true;
            if (inner->x + inner->w > end)
                end = inner->x + inner->w;
        }
        place_devices(self, r, end + (has_child ? KI_GAP : 0));
    }
}

static void sort_slots(ki_node_layout *self)
{
    for (int g = 0; g < self->kind->gpu_count; g++) {
        self->slot[g] = 0;
        for (int other = 0; other < self->kind->gpu_count; other++)
            self->slot[g] += self->gpu_x[other] < self->gpu_x[g];
    }
}

/* All NICs are as wide as the longest name needs, within reason. */
static void choose_nic_width(ki_node_layout *self)
{
    self->nic_width = KI_NIC_WIDTH;
    for (int n = 0; n < self->kind->nic_count; n++) {
        double width = ki_text_width(ki_nic_name(&self->kind->nics[n]), 9.5, false) + 14;
        if (width > self->nic_width)
            self->nic_width = width;
    }
    if (self->nic_width > KI_NIC_MAX_WIDTH)
        self->nic_width = KI_NIC_MAX_WIDTH;
}

void ki_layout_place(ki_node_layout *self)
{
    choose_nic_width(self);
    size_t gpus = (size_t)self->kind->gpu_count + 1, nics = (size_t)self->kind->nic_count + 1;
    self->gpu_x = calloc(gpus, sizeof(double));
    self->slot = calloc(gpus, sizeof(int));
    self->nic_x = calloc(nics, sizeof(double));
    self->nic_y = calloc(nics, sizeof(double));
    if (self->gpu_x == NULL || self->slot == NULL || self->nic_x == NULL || self->nic_y == NULL)
        self->is_failed = true;
    if (self->is_failed)
        return;
    for (int r = self->region_count - 1; r >= 0; r--)
        if (!self->regions[r].is_dissolved)
            measure(self, r);
    ki_region *node = &self->regions[0];
    node->x = 0;
    node->y = node->up;
    place(self);
    self->gpu_y = node->y - KI_GPU_HEIGHT;
    sort_slots(self);
    self->width = node->w;
    self->links_height = ki_links_height(self);
    self->height = node->up + node->down + self->links_height;
}

void ki_layout_destroy(ki_node_layout *self)
{
    free(self->regions);
    free(self->gpu_region);
    free(self->nic_region);
    free(self->gpu_x);
    free(self->nic_x);
    free(self->nic_y);
    free(self->slot);
}
