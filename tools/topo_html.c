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

static const char page_css[] =
    ":root{--bg:#fff;--fg:#1b2530;--soft:#5f6b77;--line:#d5dce3;--panel:#f6f8fa;--accent:#2f74b5;--warn:#8a5a00;"
    "--nv:#cfe8b0;--pix:#d3eff5;--pxb:#dfeefa;--phb:#fbf3c4;--node:#fde3c8;--sys:#f7cfcf;--unknown:#e3e6ea}\n"
    "@media screen and (prefers-color-scheme:dark){:root{color-scheme:dark;--bg:#14181d;--fg:#e6ebf0;--soft:#9aa6b2;"
    "--line:#39434d;--panel:#1c2229;--accent:#6db3f2;--warn:#e8b64c;--nv:#2f4a17;--pix:#123c47;--pxb:#17324a;"
    "--phb:#443d10;--node:#4d3113;--sys:#5a2226;--unknown:#2c333a}}\n"
    "*{box-sizing:border-box}\n"
    "body{margin:0;background:var(--bg);color:var(--fg);font:16px/1.5 system-ui,-apple-system,\"Segoe UI\",Roboto,"
    "\"Helvetica Neue\",Arial,sans-serif}\n"
    "main,header,footer{max-width:1280px;margin:0 auto;padding:0 20px}\n"
    "h1{font-size:1.7rem;line-height:1.25;margin:28px 0 4px;overflow-wrap:anywhere}\n"
    "h2{font-size:1.2rem;margin:36px 0 10px;padding-top:4px}\n"
    "h3{font-size:1rem;margin:20px 0 8px}\n"
    "p,li{overflow-wrap:anywhere}\n"
    ".soft{color:var(--soft)}\n"
    ".facts{display:grid;grid-template-columns:repeat(auto-fit,minmax(130px,1fr));gap:10px;margin:18px 0;padding:0;"
    "list-style:none}\n"
    ".facts li{background:var(--panel);border:1px solid var(--line);border-radius:8px;padding:10px 14px}\n"
    ".facts b{display:block;font-size:1.35rem}\n"
    "nav ul{display:flex;flex-wrap:wrap;gap:4px 16px;padding:0;margin:12px 0;list-style:none}\n"
    "a{color:var(--accent)}\n"
    "a:focus-visible,.scroll:focus-visible{outline:3px solid var(--accent);outline-offset:2px}\n"
    ".scroll{overflow-x:auto;border:1px solid var(--line);border-radius:8px}\n"
    ".picture svg{display:block;width:100%;height:auto;min-width:680px;margin:0 auto}\n"
    "td{min-width:5.5rem}td.n,.grid td{min-width:0}\n"
    ".picture{margin:0;background:var(--bg)}\n"
    "table{border-collapse:collapse;width:100%;font-size:.9rem;font-variant-numeric:tabular-nums}\n"
    "th,td{padding:6px 12px;text-align:left;border-bottom:1px solid var(--line);vertical-align:top}\n"
    "thead th{background:var(--panel);font-weight:600}\n"
    "thead th,td.n,th.n{white-space:nowrap}\n"
    "td.n,th.n{text-align:right}\n"
    "tbody tr:last-child>*{border-bottom:0}\n"
    ".grid{width:auto}\n"
    ".grid td,.grid th{text-align:center;padding:5px 8px;border:1px solid var(--line);white-space:nowrap}\n"
    ".nv{background:var(--nv)}.pix{background:var(--pix)}.pxb{background:var(--pxb)}.phb{background:var(--phb)}\n"
    ".node{background:var(--node)}.sys{background:var(--sys)}.unknown{background:var(--unknown)}\n"
    ".bad{color:var(--warn);font-weight:600}\n"
    "code{font-family:ui-monospace,\"SF Mono\",Menlo,Consolas,monospace;font-size:.9em}\n"
    "footer{margin:40px auto 28px;color:var(--soft);font-size:.85rem}\n"
    "@media print{body{font-size:10pt}nav{display:none}.scroll{overflow:visible;border:0}"
    ".picture svg{min-width:0}h2{break-after:avoid}tr,.facts "
    "li{break-inside:avoid}main,header,footer{max-width:none}}\n";

static void write_head(FILE *out, const ki_drawing *drawing)
{
    fputs("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
          "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
          "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
          "<meta name=\"generator\" content=\"kith topo\">\n<title>",
          out);
    ki_text_escape(out, drawing->title);
    fputs("</title>\n<style>\n", out);
    fputs(page_css, out);
    ki_style_css(out, ".kith-topology", true);
    fputs("</style>\n</head>\n<body>\n", out);
}

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
    write_head(out, drawing);
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
