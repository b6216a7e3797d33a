/* tools/topo_html.c - the page: one file that needs nothing else, no script, no font, no network.
 *
 * Everything that comes out of a file is escaped, and a policy in the head forbids the page to load or run anything, so
 * a name that slipped through could do no harm. Light and dark follow the reader's settings; on paper it is light.
 * Wide things scroll in frames of their own, which can be reached with the keyboard.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "topo.h"
#include "topo_draw.h"

static void write_fact(FILE *out, int count, const char *one, const char *many)
{
    fprintf(out, "<li><b>%d</b>%s</li>\n", count, count == 1 ? one : many);
}

static void write_summary(FILE *out, const ki_topo_machine *machine, const ki_drawing *drawing)
{
    const kith_topology *topology = machine->topology;
    int nics = 0, doubts = ki_topo_doubt_count(topology), switches = kith_topology_switch_count(topology);
    for (int n = 0; n < kith_topology_node_count(topology); n++)
        nics += kith_topology_kind(topology, kith_topology_node(topology, n)->kind)->nic_count;
    fputs("<header>\n<h1>", out);
    ki_text_escape(out, drawing->title);
    fputs("</h1>\n", out);
    bool is_described = false;
    for (int i = 0; i < kith_topology_kind_count(topology) && i < 3; i++) {
        const kith_node_kind *kind = kith_topology_kind(topology, i);
        if (ki_kind_is_empty(kind))
            continue;
        is_described = true;
        fputs("<p class=\"soft\">Read from <code>", out);
        ki_text_escape(out, kind->name);
        fputs("</code> (", out);
        ki_text_escape(out, kind->format);
        fputs(kind->is_virtual ? "), a virtual machine that hides its PCIe tree</p>\n" : ")</p>\n", out);
    }
    fputs("<ul class=\"facts\">\n", out);
    write_fact(out, kith_topology_node_count(topology), "node", "nodes");
    if (is_described) {
        write_fact(out, kith_topology_gpu_count(topology), "GPU", "GPUs");
        write_fact(out, nics, "NIC", "NICs");
    } else {
        fputs("<li><b>unknown</b>what is in the nodes</li>\n", out);
    }
    if (switches > 0)
        write_fact(out, switches, "switch between nodes", "switches between nodes");
    write_fact(out, doubts, "doubt", "doubts");
    fputs("</ul>\n<nav aria-label=\"Sections\"><ul>\n<li><a href=\"#picture\">Picture</a></li>\n", out);
    if (kith_topology_gpu_count(topology) > 0)
        fputs("<li><a href=\"#gpus\">GPUs</a></li>\n<li><a href=\"#links\">Links</a></li>\n", out);
    if (machine->placement != NULL)
        fputs("<li><a href=\"#placement\">Placement</a></li>\n<li><a href=\"#comparison\">Comparison</a></li>\n", out);
    fputs("<li><a href=\"#doubts\">Doubts</a></li>\n<li><a href=\"#constants\">Constants</a></li>\n</ul></nav>\n"
          "</header>\n<main>\n",
          out);
}

bool ki_topo_html(const ki_topo_machine *machine, FILE *out)
{
    ki_drawing *drawing = ki_drawing_create(machine->topology, machine->placement);
    if (drawing == NULL)
        return false;
    ki_page_head(out, drawing->title, "kith topo");
    write_summary(out, machine, drawing);
    fputs("<section id=\"picture\"><h2>Picture</h2>\n<figure class=\"picture scroll\" tabindex=\"0\" role=\"region\" "
          "aria-label=\"Picture of the machine\">\n",
          out);
    ki_drawing_svg(drawing, true, out);
    fputs("</figure></section>\n", out);
    if (kith_topology_gpu_count(machine->topology) > 0) {
        ki_topo_html_gpus(out, machine);
        ki_topo_html_links(out, machine);
    }
    if (machine->placement != NULL) {
        ki_topo_html_placement(out, machine);
        ki_topo_html_comparison(out, machine);
    }
    ki_topo_html_doubts(out, machine);
    ki_topo_html_constants(out, machine);
    fprintf(out,
            "</main>\n<footer>Made by kith topo %s. Bandwidths are GB/s (10<sup>9</sup> bytes a second) in one "
            "direction.</footer>\n</body>\n</html>\n",
            kith_version());
    ki_drawing_destroy(drawing);
    return true;
}
