/* tools/topo_draw.c - the whole picture: a head, one node of each kind, the cluster, and what the colours mean.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "topo_draw.h"

#include "topo.h"

#include <stdlib.h>
#include <string.h>

#define MARGIN 24.0
#define SECTION_GAP 20.0
#define MIN_WIDTH 620.0
#define CLUSTER_WIDTH 1180.0
#define MAX_KINDS 6
#define MAX_LEGEND_GROUPS 16
#define LEGEND_COLUMN 330.0

/* ---- one node ---- */

static void draw_region(ki_drawing *drawing, const ki_region *region, double x, double y)
{
    double left = x + region->x, top = y + region->y - region->up, room = region->w - 2 * KI_PAD;
    ki_shape *box = ki_draw(drawing, KI_SHAPE_BOX, region->style, left, top, region->w, region->up + region->down);
    if (region->tip[0] != '\0')
        ki_draw_tip(drawing, box, "%s", region->tip);
    bool is_pci = region->style == KI_STYLE_PCI || region->style == KI_STYLE_PCI_INFERRED;
    ki_draw_text(drawing, is_pci ? KI_STYLE_FAINT : KI_STYLE_STRONG, left + KI_PAD, top + (is_pci ? 13.5 : 16.5), room,
                 0, "%s", region->title);
    if (region->detail[0] != '\0')
        ki_draw_text(drawing, KI_STYLE_FAINT, left + KI_PAD, top + 29, room, 0, "%s", region->detail);
}

static void draw_gpu(ki_drawing *drawing, const ki_node_layout *layout, int gpu, double x, double y)
{
    const kith_gpu *it = &layout->kind->gpus[gpu];
    const ki_groups *groups = layout->groups;
    char address[32], nbytes[32];
    double left = x + layout->gpu_x[gpu], top = y + layout->gpu_y, middle = left + KI_GPU_WIDTH / 2,
           room = KI_GPU_WIDTH - 8;
    int global = layout->first_gpu + gpu, rank = ki_groups_rank(groups, global),
        group = ki_groups_group(groups, global);
    bool is_off = it->is_lost || it->is_mig || !it->is_allowed || (groups->axis != NULL && rank < 0);
    ki_shape *box = ki_draw(drawing, KI_SHAPE_BOX, is_off ? KI_STYLE_GPU_OFF : KI_STYLE_GPU, left, top, KI_GPU_WIDTH,
                            KI_GPU_HEIGHT);
    if (!is_off)
        box->group = group;
    kith_pci_text(&it->pci, address, sizeof(address));
    ki_draw_tip(
        drawing, box, "GPU %d: %s, PCI %s, NUMA %s, %s", it->index, it->name != NULL ? it->name : "model unknown",
        address, it->numa_text != NULL ? it->numa_text : "unknown",
        it->memory_nbytes > 0 ? ki_text_bytes(nbytes, sizeof(nbytes), (double)it->memory_nbytes) : "memory unknown");
    ki_draw_text(drawing, KI_STYLE_STRONG, middle, top + 18, room, 0.5, "GPU %d", it->index);
    const char *state = it->is_lost ? "lost" : it->is_mig ? "MIG" : !it->is_allowed ? "not allowed" : NULL;
    if (rank >= 0)
        ki_draw_text(drawing, KI_STYLE_SMALL, middle, top + 32, room, 0.5, "rank %d", rank);
    else if (state != NULL || groups->axis != NULL)
        ki_draw_text(drawing, KI_STYLE_SMALL, middle, top + 32, room, 0.5, "%s", state != NULL ? state : "no rank");
    if (group >= 0)
        ki_draw_text(drawing, KI_STYLE_FAINT, middle, top + 45, room, 0.5, "%s group %d", groups->axis, group);
    else if (it->pci.is_known)
        ki_draw_text(drawing, KI_STYLE_FAINT, middle, top + 45, room, 0.5, "%02x:%02x.%x", it->pci.bus, it->pci.device,
                     it->pci.function);
}

static void draw_nic(ki_drawing *drawing, const ki_node_layout *layout, int nic, double x, double y)
{
    const kith_nic *it = &layout->kind->nics[nic];
    double left = x + layout->nic_x[nic], top = y + layout->nic_y[nic];
    char address[32], gbps[32];
    ki_shape *box = ki_draw(drawing, KI_SHAPE_BOX, KI_STYLE_NIC, left, top, layout->nic_width, KI_NIC_HEIGHT);
    kith_pci_text(&it->pci, address, sizeof(address));
    ki_draw_tip(drawing, box, "%s (%s): %s, PCI %s, %s", ki_nic_name(it), it->name != NULL ? it->name : "?",
                it->fabric != NULL ? it->fabric : "fabric unknown", address,
                ki_text_gbps(gbps, sizeof(gbps), it->gbps));
    ki_draw_text(drawing, KI_STYLE_SMALL, left + layout->nic_width / 2, top + 14.5, layout->nic_width - 8, 0.5, "%s",
                 ki_nic_name(it));
}

/* Between two packages that stand side by side. */
static void draw_socket_link(ki_drawing *drawing, const ki_node_layout *layout, double x, double y)
{
    const ki_region *packages[2] = { NULL, NULL };
    char gbps[32];
    for (int r = 1; r < layout->region_count; r++)
        if (layout->regions[r].style == KI_STYLE_PACKAGE)
            packages[packages[0] == NULL ? 0 : 1] = &layout->regions[r];
    if (layout->kind->package_count != 2 || packages[1] == NULL || packages[0]->y != packages[1]->y)
        return;
    double from = x + packages[0]->x + packages[0]->w, to = x + packages[1]->x;
    double middle = y + packages[0]->y - packages[0]->up / 2;
    ki_draw(drawing, KI_SHAPE_LINE, KI_STYLE_SOCKET, from, middle, to - from, 0);
    if (layout->kind->socket_gbps > 0)
        ki_draw_text(drawing, KI_STYLE_FAINT, (from + to) / 2, middle - 6, to - from - 4, 0.5, "%s",
                     ki_text_gbps(gbps, sizeof(gbps), layout->kind->socket_gbps));
    ki_draw_text(drawing, KI_STYLE_FAINT, (from + to) / 2, middle + 14, to - from - 4, 0.5, "SYS");
}

/* Into buffer, with an ellipsis where it is too long; characters stay whole. */
static const char *shorten(char *buffer, size_t nbytes, const char *text)
{
    if ((size_t)snprintf(buffer, nbytes, "%s", text) < nbytes)
        return buffer;
    size_t end = nbytes - 4;
    while (end > 0 && ((unsigned char)buffer[end] & 0xc0) == 0x80)
        end--;
    memcpy(buffer + end, "...", 4);
    return buffer;
}

static void describe_node(ki_node_layout *layout, int same_count)
{
    const kith_node_kind *kind = layout->kind;
    ki_region *node = &layout->regions[0];
    const char *gpu = kind->gpu_count > 0 ? kind->gpus[0].name : NULL;
    char name[84], gpu_name[84], cpu_name[64];
    if (same_count > 1)
        snprintf(node->title, sizeof(node->title), "%s, one of %d equal nodes",
                 shorten(name, sizeof(name), layout->node_name), same_count);
    else
        shorten(node->title, sizeof(node->title), layout->node_name);
    snprintf(node->detail, sizeof(node->detail), "%d GPU%s%s%s, %d NIC%s%s%s%s", kind->gpu_count,
             kind->gpu_count == 1 ? "" : "s", gpu != NULL ? ": " : "",
             shorten(gpu_name, sizeof(gpu_name), gpu != NULL ? gpu : ""), kind->nic_count,
             kind->nic_count == 1 ? "" : "s", kind->cpu_model != NULL ? ", " : "",
             shorten(cpu_name, sizeof(cpu_name), kind->cpu_model != NULL ? kind->cpu_model : ""),
             kind->is_virtual ? ", a virtual machine" : "");
}

static void draw_node(ki_drawing *drawing, const ki_node_layout *layout, double x, double y)
{
    for (int r = 0; r < layout->region_count; r++) {
        ki_region region = layout->regions[r];
        if (r == 0)
            region.down += layout->links_height;
        if (!region.is_dissolved)
            draw_region(drawing, &region, x, y);
    }
    draw_socket_link(drawing, layout, x, y);
    for (int n = 0; n < layout->kind->nic_count; n++)
        draw_nic(drawing, layout, n, x, y);
    ki_links_draw(drawing, layout, x, y);
    for (int g = 0; g < layout->kind->gpu_count; g++)
        draw_gpu(drawing, layout, g, x, y);
}

/* The first node of a kind stands for all of them. */
static bool draw_kind(ki_drawing *drawing, const kith_topology *topology, const ki_groups *groups, int kind, double *y)
{
    int node = -1, same_count = 0;
    if (ki_kind_is_empty(kith_topology_kind(topology, kind)))
        return true;
    for (int n = kith_topology_node_count(topology) - 1; n >= 0; n--) {
        if (kith_topology_node(topology, n)->kind != kind)
            continue;
        node = n;
        same_count++;
    }
    if (node < 0)
        return true;
    ki_node_layout layout = { .topology = topology,
                              .kind = kith_topology_kind(topology, kind),
                              .groups = groups,
                              .first_gpu = kith_topology_first_gpu(topology, node),
                              .node_name = kith_topology_node(topology, node)->name };
    ki_regions_make(&layout);
    if (!layout.is_failed)
        describe_node(&layout, same_count);
    if (!layout.is_failed)
        ki_layout_place(&layout);
    bool is_done = !layout.is_failed;
    if (is_done) {
        draw_node(drawing, &layout, MARGIN, *y);
        *y += layout.height + SECTION_GAP;
        if (layout.width > drawing->width)
            drawing->width = layout.width;
    }
    ki_layout_destroy(&layout);
    return is_done;
}

/* ---- the legend ---- */

static void group_text(const kith_topology *topology, const ki_groups *groups, int index, char *text, size_t nbytes)
{
    const ki_group *group = &groups->groups[index];
    enum { SHOWN = 64 };
    int numbers[SHOWN];
    char name[16], list[160];
    int count = groups->size < SHOWN ? groups->size : SHOWN;
    for (int i = 0; i < count; i++) {
        int node, gpu;
        numbers[i] = group->ring[i];
        if (kith_topology_node_count(topology) == 1 && kith_topology_locate(topology, numbers[i], &node, &gpu))
            numbers[i] = kith_topology_kind(topology, kith_topology_node(topology, node)->kind)->gpus[gpu].index;
    }
    ki_text_ranges(list, sizeof(list), numbers, count);
    snprintf(text, nbytes, "%s group %d: GPU%s %s%s%s", groups->axis, index, groups->size > 1 ? "s" : "", list,
             groups->size > 1 ? "; slowest " : "",
             groups->size > 1 ? kith_link_name(&group->worst, name, sizeof(name)) : "");
}

static void draw_legend_groups(ki_drawing *drawing, const kith_topology *topology, const ki_groups *groups, double *y)
{
    int shown = groups->count < MAX_LEGEND_GROUPS ? groups->count : MAX_LEGEND_GROUPS;
    int columns = (int)(drawing->width / LEGEND_COLUMN);
    if (columns < 1)
        columns = 1;
    for (int i = 0; i < shown; i++) {
        char text[320];
        double left = MARGIN + i % columns * LEGEND_COLUMN, top = *y + i / columns * 18;
        ki_draw(drawing, KI_SHAPE_BOX, KI_STYLE_GPU, left, top, 16, 11)->group = i;
        group_text(topology, groups, i, text, sizeof(text));
        ki_draw_text(drawing, KI_STYLE_TEXT, left + 23, top + 9.5, LEGEND_COLUMN - 36, 0, "%s", text);
    }
    *y += (shown + columns - 1) / columns * 18;
    if (shown < groups->count) {
        ki_draw_text(drawing, KI_STYLE_FAINT, MARGIN, *y + 9, 0, 0, "and %d more %s groups; colours repeat",
                     groups->count - shown, groups->axis);
        *y += 18;
    }
    *y += 6;
}

static bool uses(const ki_drawing *drawing, ki_style style)
{
    for (size_t i = 0; i < drawing->count; i++)
        if (drawing->shapes[i].style == style)
            return true;
    return false;
}

/* One sample of a style and its meaning, when the picture has it. */
static void draw_sample(ki_drawing *drawing, ki_style style, const char *meaning, double *x, double *y)
{
    if (!uses(drawing, style))
        return;
    double width = 34 + ki_text_width(meaning, ki_style_look_of(KI_STYLE_TEXT)->font, false) + 18;
    if (*x + width > MARGIN + drawing->width && *x > MARGIN) {
        *x = MARGIN;
        *y += 18;
    }
    if (ki_style_look_of(style)->is_hollow)
        ki_draw(drawing, KI_SHAPE_LINE, style, *x, *y + 6, 26, 0);
    else
        ki_draw(drawing, KI_SHAPE_BOX, style, *x, *y, 26, 12);
    ki_draw_text(drawing, KI_STYLE_TEXT, *x + 34, *y + 9.5, 0, 0, "%s", meaning);
    *x += width;
}

static void draw_legend(ki_drawing *drawing, const kith_topology *topology, const ki_groups *groups, double *y)
{
    double x = MARGIN;
    if (groups->axis != NULL)
        draw_legend_groups(drawing, topology, groups, y);
    draw_sample(drawing, KI_STYLE_WORST, "slowest link of a group", &x, y);
    draw_sample(drawing, KI_STYLE_WORST_PCI, "slowest link of a group, not NVLink", &x, y);
    draw_sample(drawing, KI_STYLE_NVLINK, "NVLink or xGMI, thicker: more links", &x, y);
    draw_sample(drawing, KI_STYLE_STUB, "links of a GPU into the switch", &x, y);
    draw_sample(drawing, KI_STYLE_PCI, "PCI switch", &x, y);
    draw_sample(drawing, KI_STYLE_PCI_INFERRED, "joined by PCI switches (from PIX, PXB)", &x, y);
    draw_sample(drawing, KI_STYLE_NIC, "NIC", &x, y);
    draw_sample(drawing, KI_STYLE_GPU_OFF, "not used", &x, y);
    if (x > MARGIN)
        *y += 18;
}

/* ---- the head ---- */

static const char *plural(int count)
{
    return count == 1 ? "" : "s";
}

/* Of nodes that are only named nobody knows what is in them. */
static void count_text(const kith_topology *topology, char *text, size_t nbytes)
{
    int nodes = kith_topology_node_count(topology), gpus = kith_topology_gpu_count(topology);
    int switches = kith_topology_switch_count(topology), nics = 0, unknown = 0;
    char devices[64] = "", network[32] = "", rest[64] = "";
    for (int n = 0; n < nodes; n++) {
        const kith_node_kind *kind = kith_topology_kind(topology, kith_topology_node(topology, n)->kind);
        nics += kind->nic_count;
        unknown += ki_kind_is_empty(kind);
    }
    if (unknown < nodes)
        snprintf(devices, sizeof(devices), ", %d GPU%s, %d NIC%s", gpus, plural(gpus), nics, plural(nics));
    if (switches > 0)
        snprintf(network, sizeof(network), ", %d switch%s", switches, switches == 1 ? "" : "es");
    if (unknown == nodes)
        snprintf(rest, sizeof(rest), "; what is in them is not described");
    else if (unknown > 0)
        snprintf(rest, sizeof(rest), "; what is in %d of them is not described", unknown);
    snprintf(text, nbytes, "%d node%s%s%s%s", nodes, plural(nodes), devices, network, rest);
}

/* Drawn last, when the width is known; its height is fixed. */
static void draw_head(ki_drawing *drawing, const kith_topology *topology, const ki_groups *groups)
{
    char counts[256], doubts[48], name[320], format[64], source[416] = "";
    const kith_node_kind *kind = kith_topology_kind(topology, 0);
    int doubt_count = ki_topo_doubt_count(topology);
    count_text(topology, counts, sizeof(counts));
    if (kind != NULL && !ki_kind_is_empty(kind))
        snprintf(source, sizeof(source), "; read from %s (%s)", shorten(name, sizeof(name), kind->name),
                 shorten(format, sizeof(format), kind->format));
    snprintf(doubts, sizeof(doubts), "%d doubt%s", doubt_count, doubt_count == 1 ? "" : "s");
    double pill = doubt_count > 0 ? ki_text_width(doubts, 12, true) + 24 : 0, right = MARGIN + drawing->width;
    ki_draw_text(drawing, KI_STYLE_TITLE, MARGIN, MARGIN + 18, drawing->width - pill - 12, 0, "%s", drawing->title);
    ki_draw_text(drawing, KI_STYLE_TEXT, MARGIN, MARGIN + 37, drawing->width - pill - 12, 0, "%s%s", counts, source);
    if (groups->axis != NULL)
        ki_draw_text(drawing, KI_STYLE_TEXT, MARGIN, MARGIN + 54, drawing->width, 0, "%d %s group%s of %d GPU%s%s",
                     groups->count, groups->axis, groups->count == 1 ? "" : "s", groups->size,
                     groups->size == 1 ? "" : "s", groups->count > 1 ? ", in colours" : "");
    if (pill == 0)
        return;
    ki_draw(drawing, KI_SHAPE_BOX, KI_STYLE_PILL, right - pill, MARGIN + 2, pill, 22);
    ki_draw_text(drawing, KI_STYLE_STRONG, right - pill / 2, MARGIN + 17.5, pill - 8, 0.5, "%s", doubts);
}

static char *title_of(const kith_topology *topology)
{
    char text[256], name[204];
    int nodes = kith_topology_node_count(topology);
    const char *first = nodes > 0 ? kith_topology_node(topology, 0)->name : "machine";
    if (nodes > 1)
        snprintf(text, sizeof(text), "Cluster of %d nodes", nodes);
    else
        snprintf(text, sizeof(text), "Machine %s", shorten(name, sizeof(name), first));
    ki_text_clean(text);
    return strdup(text);
}

static void draw_cluster(ki_drawing *drawing, const kith_topology *topology, const ki_groups *groups, double *y)
{
    double width, height, limit = drawing->width > CLUSTER_WIDTH ? drawing->width : CLUSTER_WIDTH;
    bool has_switches = kith_topology_switch_count(topology) > 0;
    ki_draw_text(drawing, KI_STYLE_HEADING, MARGIN, *y + 12, 0, 0, "%s%s",
                 has_switches                               ? "Switches and nodes"
                 : kith_topology_domain_count(topology) > 0 ? "Domains and nodes"
                                                            : "Nodes",
                 groups->stage_count > 1 && kith_topology_node_count(topology) <= KI_NODES_DRAWN
                     ? ", in the colours of pipeline stages"
                     : "");
    *y += 22;
    ki_cluster_draw(drawing, topology, groups, MARGIN - KI_PAD, *y, limit, &width, &height);
    if (width - 2 * KI_PAD > drawing->width)
        drawing->width = width - 2 * KI_PAD;
    *y += height + SECTION_GAP - KI_PAD;
}

ki_drawing *ki_drawing_create(const kith_topology *topology, const kith_placement *placement)
{
    ki_groups groups;
    ki_drawing *drawing = calloc(1, sizeof(*drawing));
    if (drawing == NULL || !ki_groups_create(topology, placement, &groups)) {
        free(drawing);
        return NULL;
    }
    drawing->title = title_of(topology);
    drawing->width = MIN_WIDTH;
    double y = MARGIN + (groups.axis != NULL ? 70 : 52);
    int kinds = kith_topology_kind_count(topology);
    bool is_done = drawing->title != NULL;
    for (int i = 0; is_done && i < kinds && i < MAX_KINDS; i++)
        is_done = draw_kind(drawing, topology, &groups, i, &y);
    if (kinds > MAX_KINDS) {
        ki_draw_text(drawing, KI_STYLE_FAINT, MARGIN, y, 0, 0, "and %d more kinds of nodes", kinds - MAX_KINDS);
        y += SECTION_GAP;
    }
    if (kith_topology_node_count(topology) > 1 || kith_topology_switch_count(topology) > 0)
        draw_cluster(drawing, topology, &groups, &y);
    draw_legend(drawing, topology, &groups, &y);
    draw_head(drawing, topology, &groups);
    ki_groups_destroy(&groups);
    drawing->width += 2 * MARGIN;
    drawing->height = y + MARGIN - 6;
    if (is_done && !drawing->is_failed)
        return drawing;
    ki_drawing_destroy(drawing);
    return NULL;
}
