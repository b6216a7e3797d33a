/* tools/topo_html_tables.c - tables of the page about the machine: GPUs, links, doubts, constants.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "topo.h"
#include "topo_draw.h"

#include <stdlib.h>

#define MAX_GRID 64 /* GPUs in a grid of links */

/* ---- GPUs ---- */

static void nearest_nics(FILE *out, const kith_node_kind *kind, int gpu)
{
    enum { SHOWN = 8 };
    int nics[SHOWN];
    kith_link_type type = KITH_LINK_UNKNOWN;
    int count = kith_nearest_nics(kind, gpu, nics, SHOWN, &type);
    fputs("<td>", out);
    if (count <= 0)
        fputs(kind->nic_count == 0 ? "none" : "unknown", out);
    for (int i = 0; i < count && i < SHOWN; i++) {
        const kith_nic *nic = &kind->nics[nics[i]];
        if (i > 0)
            fputs(", ", out);
        ki_text_escape(out, ki_nic_name(nic));
    }
    if (count > SHOWN)
        fprintf(out, " and %d more", count - SHOWN);
    if (count > 0)
        fprintf(out, " <span class=\"soft\">(%s)</span>", kith_link_type_name(type));
    fputs("</td>", out);
}

static void gpu_row(FILE *out, const kith_node_kind *kind, int gpu)
{
    const kith_gpu *it = &kind->gpus[gpu];
    char text[64];
    fprintf(out, "<tr><th scope=\"row\" class=\"n\">%d</th>", it->index);
    ki_html_cell(out, it->name);
    ki_html_cell(out, it->pci.is_known ? kith_pci_text(&it->pci, text, sizeof(text)) : NULL);
    ki_html_cell(out, it->numa_text);
    ki_html_cell(out, it->cpus);
    nearest_nics(out, kind, gpu);
    ki_html_cell(out, it->memory_nbytes > 0 ? ki_text_bytes(text, sizeof(text), (double)it->memory_nbytes) : NULL);
    ki_html_cell(out, it->is_lost       ? "does not answer"
                      : it->is_mig      ? "split into MIG instances"
                      : !it->is_allowed ? "not allowed here"
                                        : "");
    fputs("</tr>\n", out);
}

static void kind_heading(FILE *out, const kith_topology *topology, const kith_node_kind *kind)
{
    if (kith_topology_kind_count(topology) < 2)
        return;
    fputs("<h3>", out);
    ki_text_escape(out, kind->name);
    fputs("</h3>\n", out);
}

void ki_topo_html_gpus(FILE *out, const ki_topo_machine *machine)
{
    static const char *const heads[] = { "GPU",          "Model",  "PCI address", "NUMA node", "CPUs",
                                         "Nearest NICs", "Memory", "State",       NULL };
    fputs("<section id=\"gpus\"><h2>GPUs</h2>\n", out);
    for (int k = 0; k < kith_topology_kind_count(machine->topology); k++) {
        const kith_node_kind *kind = kith_topology_kind(machine->topology, k);
        if (kind->gpu_count == 0)
            continue;
        kind_heading(out, machine->topology, kind);
        ki_html_table(out, "GPUs", NULL, heads, "n-------");
        for (int g = 0; g < kind->gpu_count; g++)
            gpu_row(out, kind, g);
        ki_html_table_end(out);
    }
    fputs("</section>\n", out);
}

/* ---- the grid of links ---- */

static const char *class_of(kith_link_type type)
{
    switch (type) {
    case KITH_LINK_NVLINK:
    case KITH_LINK_XGMI:
    case KITH_LINK_C2C:
        return "nv";
    case KITH_LINK_BOARD:
    case KITH_LINK_PIX:
        return "pix";
    case KITH_LINK_PXB:
        return "pxb";
    case KITH_LINK_PHB:
        return "phb";
    case KITH_LINK_NODE:
        return "node";
    case KITH_LINK_SYS:
    case KITH_LINK_NET:
        return "sys";
    case KITH_LINK_SELF:
        return "self";
    default:
        return "unknown";
    }
}

static void link_cell(FILE *out, const kith_link *link)
{
    char name[16], gbps[32];
    fprintf(out, "<td class=\"%s\" title=\"%s%s\">%s</td>", class_of(link->type),
            link->type == KITH_LINK_SELF ? "itself" : ki_text_gbps(gbps, sizeof(gbps), link->gbps),
            link->certainty == KITH_ASSUMED ? ", assumed" : "", kith_link_name(link, name, sizeof(name)));
}

static void grid(FILE *out, const kith_node_kind *kind)
{
    int gpus = kind->gpu_count < MAX_GRID ? kind->gpu_count : MAX_GRID;
    int nics = kind->nic_count < MAX_GRID && kind->nic_links != NULL ? kind->nic_count : 0;
    fputs("<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Links between devices\">"
          "<table class=\"grid\"><thead><tr><td></td>",
          out);
    for (int g = 0; g < gpus; g++)
        fprintf(out, "<th scope=\"col\">GPU%d</th>", kind->gpus[g].index);
    for (int n = 0; n < nics; n++) {
        fputs("<th scope=\"col\">", out);
        ki_text_escape(out, ki_nic_name(&kind->nics[n]));
        fputs("</th>", out);
    }
    fputs("</tr></thead><tbody>\n", out);
    for (int a = 0; a < gpus; a++) {
        fprintf(out, "<tr><th scope=\"row\">GPU%d</th>", kind->gpus[a].index);
        for (int b = 0; b < gpus; b++)
            link_cell(out, &kind->links[(size_t)a * (size_t)kind->gpu_count + (size_t)b]);
        for (int n = 0; n < nics; n++)
            link_cell(out, &kind->nic_links[(size_t)a * (size_t)kind->nic_count + (size_t)n]);
        fputs("</tr>\n", out);
    }
    ki_html_table_end(out);
    if (gpus < kind->gpu_count)
        fprintf(out, "<p class=\"soft\">The first %d of %d GPUs.</p>\n", gpus, kind->gpu_count);
}

void ki_topo_html_links(FILE *out, const ki_topo_machine *machine)
{
    fputs("<section id=\"links\"><h2>Links</h2>\n<p class=\"soft\">As <code>nvidia-smi topo -m</code> names them: NVn "
          "n bonded NVLinks, PIX one PCI switch, PXB several, PHB a host bridge, NODE within a NUMA node, SYS between "
          "NUMA nodes.</p>\n",
          out);
    for (int k = 0; k < kith_topology_kind_count(machine->topology); k++) {
        const kith_node_kind *kind = kith_topology_kind(machine->topology, k);
        if (kind->gpu_count == 0 || kind->links == NULL)
            continue;
        kind_heading(out, machine->topology, kind);
        grid(out, kind);
        if (kind->nvlink == KITH_UNKNOWN)
            fputs("<p class=\"bad\">The source does not tell about NVLink: links may be faster than shown.</p>\n", out);
    }
    fputs("</section>\n", out);
}

/* ---- doubts and constants ---- */

static void write_doubts(FILE *out, const kith_topology *topology, const char *title, bool is_assumption)
{
    static const char *const heads[] = { "Code", "Where", "What", NULL };
    ki_html_table(out, title, NULL, heads, "---");
    for (int i = 0; i < kith_topology_doubt_count(topology); i++) {
        const kith_doubt *doubt = kith_topology_doubt(topology, i);
        if (doubt->is_assumption != is_assumption)
            continue;
        fputs("<tr><td><code>", out);
        ki_text_escape(out, doubt->code);
        fputs("</code></td><td>", out);
        ki_text_escape(out, doubt->file);
        if (doubt->file != NULL && doubt->line > 0)
            fprintf(out, ":%d", doubt->line);
        fputs("</td>", out);
        ki_html_cell(out, doubt->text);
        fputs("</tr>\n", out);
    }
    ki_html_table_end(out);
}

void ki_topo_html_doubts(FILE *out, const ki_topo_machine *machine)
{
    int doubts = ki_topo_doubt_count(machine->topology);
    fputs("<section id=\"doubts\"><h2>Doubts</h2>\n", out);
    if (doubts > 0)
        write_doubts(out, machine->topology, "Doubts", false);
    else
        fputs("<p>None.</p>\n", out);
    if (kith_topology_doubt_count(machine->topology) > doubts) {
        fputs("<h3>Assumed</h3>\n<p class=\"soft\">The source does not say it; a rule filled it in.</p>\n", out);
        write_doubts(out, machine->topology, "Assumed", true);
    }
    fputs("</section>\n", out);
}

void ki_topo_html_constants(FILE *out, const ki_topo_machine *machine)
{
    static const char *const heads[] = { "Key", "Meaning", "Raw GB/s", "Effective GB/s", "Latency us", "Source", NULL };
    fputs(
        "<section id=\"constants\"><h2>Constants</h2>\n<p class=\"soft\">What costs are computed with. Raw is what the "
        "standard or the vendor says, effective what a collective library reaches.</p>\n",
        out);
    ki_html_table(out, "Constants", NULL, heads, "--nnn-");
    for (int i = 0; i < kith_topology_constant_count(machine->topology); i++) {
        const kith_constant *row = kith_topology_constant(machine->topology, i);
        fputs("<tr><td><code>", out);
        ki_text_escape(out, row->key);
        fputs("</code></td>", out);
        ki_html_cell(out, row->meaning);
        fprintf(out, "<td class=\"n\">%.4g</td><td class=\"n\">%.4g</td><td class=\"n\">%.3g</td><td>", row->raw_gbps,
                row->effective_gbps, row->latency_us);
        ki_text_escape(out, row->source);
        fputs(row->is_replaced ? " <span class=\"bad\">(replaced)</span></td></tr>\n" : "</td></tr>\n", out);
    }
    ki_html_table_end(out);
    fputs("</section>\n", out);
}
