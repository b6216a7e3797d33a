/* tools/topo_links.c - what is drawn below the GPUs: NVSwitch as a bar, direct links as arcs, the slowest hop of each
 * group thick and labelled.
 *
 * Arcs do not cross where they need not: at a GPU, links to nearer GPUs begin further outside, so that long arcs hang
 * below short ones. The label of an arc stands at its lowest point; two labels never meet, because arcs over the same
 * distance have their middles a GPU apart, and arcs over different distances hang to different depths.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "topo_draw.h"

#include <stdlib.h>

#define FIRST_SAG 26.0
#define SAG_STEP 17.0
#define MAX_SAG 300.0
#define FOOT 14.0     /* below the deepest arc: room for its label */
#define MAX_ARCS 600  /* more are a blot */
#define MAX_LABELS 64 /* of arcs that are not the slowest of a group */
#define BAR_DROP 18.0 /* from the containers to the bar of the switch */
#define BAR_HEIGHT 26.0

static const kith_link *link_of(const ki_node_layout *self, int a, int b)
{
    return &self->kind->links[(size_t)a * (size_t)self->kind->gpu_count + (size_t)b];
}

static bool is_fast(const kith_link *link)
{
    return link->type == KITH_LINK_NVLINK || link->type == KITH_LINK_XGMI;
}

static bool is_arc(const ki_node_layout *self, int a, int b)
{
    return is_fast(link_of(self, a, b)) && !link_of(self, a, b)->is_switched;
}

static bool is_on_bar(const ki_node_layout *self, int gpu)
{
    for (int other = 0; other < self->kind->gpu_count; other++)
        if (other != gpu && is_fast(link_of(self, gpu, other)) && link_of(self, gpu, other)->is_switched)
            return true;
    return false;
}

/* The group whose slowest hop this is, when it is worth a mark: with a switch between them all hops are alike.
 * -1: none. */
static int marked_group(const ki_node_layout *self, int a, int b)
{
    const ki_groups *groups = self->groups;
    int from = self->first_gpu + a, to = self->first_gpu + b, index = ki_groups_group(groups, from);
    if (index < 0 || groups->size < 2)
        return -1;
    const ki_group *group = &groups->groups[index];
    bool is_hop = (group->from == from && group->to == to) || (group->from == to && group->to == from);
    return is_hop && !(group->is_even && group->worst.is_switched) ? index : -1;
}

static double sag_of(const ki_node_layout *self, int a, int b)
{
    double sag = FIRST_SAG + SAG_STEP * (abs(self->slot[a] - self->slot[b]) - 1);
    return sag > MAX_SAG ? MAX_SAG : sag;
}

/* The feet of the containers lie between the GPUs and the free room for links. */
static double feet(const ki_node_layout *self)
{
    return self->regions[0].down - KI_PAD;
}

double ki_links_height(const ki_node_layout *self)
{
    double deepest = 0;
    bool has_bar = false;
    for (int a = 0; self->kind->links != NULL && a < self->kind->gpu_count; a++) {
        has_bar = has_bar || is_on_bar(self, a);
        for (int b = a + 1; b < self->kind->gpu_count; b++)
            if ((is_arc(self, a, b) || marked_group(self, a, b) >= 0) && sag_of(self, a, b) > deepest)
                deepest = sag_of(self, a, b);
    }
    if (has_bar)
        return (deepest > 0 ? deepest + FOOT : 0) + BAR_DROP + BAR_HEIGHT + 8;
    return deepest > 0 ? deepest + FOOT : 0;
}

/* ---- arcs ---- */

/* Place of an arc's end among those of its GPU, from the left: links to the left first, the nearest outermost. */
static double port_x(const ki_node_layout *self, int gpu, int other)
{
    int before = 0, count = 0, mine = self->slot[other] - self->slot[gpu];
    for (int third = 0; third < self->kind->gpu_count; third++) {
        if (third == gpu || (!is_arc(self, gpu, third) && marked_group(self, gpu, third) < 0))
            continue;
        int its = self->slot[third] - self->slot[gpu];
        count++;
        bool is_left_of_mine = (its < 0) != (mine < 0) ? its < 0 : its > mine;
        before += third != other && is_left_of_mine;
    }
    double step = count > 1 ? (KI_GPU_WIDTH - 22) / (count - 1) : 0;
    if (step > 13)
        step = 13;
    return self->gpu_x[gpu] + KI_GPU_WIDTH / 2 + (before - (count - 1) / 2.0) * step;
}

static void draw_arc(ki_drawing *drawing, const ki_node_layout *self, double x, double y, int a, int b, bool has_label)
{
    char name[16], gbps[32];
    const kith_link *link = link_of(self, a, b);
    bool is_marked = marked_group(self, a, b) >= 0;
    if (self->slot[a] > self->slot[b]) {
        int swap = a;
        a = b;
        b = swap;
    }
    double from = x + port_x(self, a, b), to = x + port_x(self, b, a), sag = feet(self) + sag_of(self, a, b);
    ki_style style = !is_marked ? KI_STYLE_NVLINK : is_fast(link) ? KI_STYLE_WORST : KI_STYLE_WORST_PCI;
    ki_shape *arc = ki_draw(drawing, KI_SHAPE_CURVE, style, from, y, to - from, sag);
    kith_link_name(link, name, sizeof(name));
    if (!is_marked)
        arc->line = 1 + 0.7 * (link->count > 6 ? 6 : link->count > 0 ? link->count - 1 : 0);
    ki_draw_tip(drawing, arc, "GPU %d - GPU %d: %s, %s", self->kind->gpus[a].index, self->kind->gpus[b].index, name,
                ki_text_gbps(gbps, sizeof(gbps), link->gbps));
    if (is_marked || has_label)
        ki_draw_text(drawing, is_marked ? KI_STYLE_WORST_LABEL : KI_STYLE_LINK_LABEL, (from + to) / 2, y + sag + 4, 0,
                     0.5, "%s", name);
}

static void draw_arcs(ki_drawing *drawing, const ki_node_layout *self, double x, double y, bool is_marked)
{
    int arcs = 0, drawn = 0;
    for (int a = 0; a < self->kind->gpu_count; a++)
        for (int b = a + 1; b < self->kind->gpu_count; b++)
            arcs += is_arc(self, a, b);
    for (int a = 0; a < self->kind->gpu_count; a++)
        for (int b = a + 1; b < self->kind->gpu_count; b++) {
            bool is_mark = marked_group(self, a, b) >= 0;
            if (is_mark != is_marked || (!is_mark && !is_arc(self, a, b)) || drawn > MAX_ARCS)
                continue;
            draw_arc(drawing, self, x, y, a, b, arcs <= MAX_LABELS);
            drawn++;
        }
}

/* ---- NVSwitch ---- */

static void draw_bar(ki_drawing *drawing, const ki_node_layout *self, double x, double y, double drop)
{
    double left = 1e9, right = 0;
    const kith_link *sample = NULL;
    for (int g = 0; g < self->kind->gpu_count; g++) {
        if (!is_on_bar(self, g))
            continue;
        double middle = x + self->gpu_x[g] + KI_GPU_WIDTH / 2;
        ki_shape *stub = ki_draw(drawing, KI_SHAPE_LINE, KI_STYLE_STUB, middle, y, 0, drop);
        stub->group = ki_groups_group(self->groups, self->first_gpu + g);
        left = middle < left ? middle : left;
        right = middle > right ? middle : right;
        for (int other = 0; other < self->kind->gpu_count; other++)
            if (other != g && link_of(self, g, other)->is_switched)
                sample = link_of(self, g, other);
    }
    if (sample == NULL)
        return;
    char name[16], gbps[32];
    bool is_nvlink = sample->type == KITH_LINK_NVLINK;
    left -= KI_GPU_WIDTH / 2;
    right += KI_GPU_WIDTH / 2;
    ki_draw(drawing, KI_SHAPE_BOX, KI_STYLE_NVSWITCH, left, y + drop, right - left, BAR_HEIGHT);
    ki_draw_text(drawing, KI_STYLE_STRONG, (left + right) / 2, y + drop + 17, right - left - 12, 0.5,
                 "%s: %s per GPU, %s", is_nvlink ? "NVSwitch" : "xGMI switch",
                 kith_link_name(sample, name, sizeof(name)), ki_text_gbps(gbps, sizeof(gbps), sample->gbps));
}

void ki_links_draw(ki_drawing *drawing, const ki_node_layout *self, double x, double y)
{
    if (self->kind->links == NULL)
        return;
    double bottom = y + self->gpu_y + KI_GPU_HEIGHT;
    bool has_bar = false;
    for (int g = 0; g < self->kind->gpu_count; g++)
        has_bar = has_bar || is_on_bar(self, g);
    if (has_bar)
        draw_bar(drawing, self, x, bottom, feet(self) + self->links_height - BAR_HEIGHT - 8);
    draw_arcs(drawing, self, x, bottom, false);
    draw_arcs(drawing, self, x, bottom, true);
}
