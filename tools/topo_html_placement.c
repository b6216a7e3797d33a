/* tools/topo_html_placement.c - tables of the page about the placement: axes, groups, and what tp costs on NVLink, PCIe
 * and InfiniBand side by side.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "topo.h"
#include "topo_draw.h"

#include <string.h>

#define MAX_GROUPS 64
#define USUAL_MODEL "llama-2-70b" /* for the comparison where no model was named */

static const char *const axis_names[KITH_PLACEMENT_AXES] = { "tp", "cp", "ep", "dp", "pp" };

/* "GPU 3", or "node1 GPU 3" in a cluster. */
static void write_gpu(FILE *out, const kith_topology *topology, int global)
{
    int node, gpu;
    if (!kith_topology_locate(topology, global, &node, &gpu)) {
        fputc('?', out);
        return;
    }
    const kith_node *it = kith_topology_node(topology, node);
    if (kith_topology_node_count(topology) > 1) {
        ki_text_escape(out, it->name);
        fputc(' ', out);
    }
    fprintf(out, "GPU %d", kith_topology_kind(topology, it->kind)->gpus[gpu].index);
}

static void axis_row(FILE *out, const kith_topology *topology, const kith_axis_report *axis)
{
    char text[64];
    bool is_single = axis->size < 2;
    fprintf(out, "<tr><th scope=\"row\">%s</th><td class=\"n\">%d</td><td class=\"n\">%d</td><td%s>%s</td><td>",
            axis->name, axis->size, axis->group_count,
            axis->leaves_nvlink && strcmp(axis->name, "tp") == 0 ? " class=\"bad\"" : "",
            is_single ? "none needed" : kith_link_name(&axis->bottleneck, text, sizeof(text)));
    if (!is_single && axis->bottleneck_from >= 0) {
        write_gpu(out, topology, axis->bottleneck_from);
        fputs(" to ", out);
        write_gpu(out, topology, axis->bottleneck_to);
    }
    fputs("</td>", out);
    ki_html_number(out, is_single ? "" : ki_text_gbps(text, sizeof(text), axis->cost.gbps));
    ki_html_number(out, is_single ? "" : ki_text_time(text, sizeof(text), axis->cost.time_s));
    ki_html_number(out, is_single ? "" : ki_text_time(text, sizeof(text), axis->identity_cost.time_s));
    fprintf(out, "<td>%s</td></tr>\n", is_single || axis->cost.algorithm == NULL ? "" : axis->cost.algorithm);
}

static void group_rows(FILE *out, const kith_topology *topology, const ki_groups *groups)
{
    char name[16];
    for (int i = 0; i < groups->count && i < MAX_GROUPS; i++) {
        const ki_group *group = &groups->groups[i];
        fprintf(out, "<tr><th scope=\"row\" class=\"n\">%d</th><td>", i);
        for (int j = 0; j < groups->size && j < MAX_GROUPS; j++) {
            if (j > 0)
                fputs(", ", out);
            write_gpu(out, topology, group->ring[j]);
        }
        fprintf(out, "%s</td><td>%s</td></tr>\n", groups->size > MAX_GROUPS ? ", ..." : "",
                groups->size < 2 ? "none needed" : kith_link_name(&group->worst, name, sizeof(name)));
    }
}

static void groups_table(FILE *out, const kith_topology *topology, const kith_placement *placement)
{
    static const char *const heads[] = { "Group", "GPUs in ring order", "Slowest link", NULL };
    ki_groups groups;
    if (!ki_groups_create(topology, placement, &groups))
        return;
    fprintf(out, "<h3>Groups of %s</h3>\n", groups.axis);
    ki_html_table(out, "Groups", NULL, heads, "n--");
    group_rows(out, topology, &groups);
    ki_html_table_end(out);
    if (groups.count > MAX_GROUPS)
        fprintf(out, "<p class=\"soft\">The first %d of %d groups.</p>\n", MAX_GROUPS, groups.count);
    ki_groups_destroy(&groups);
}

static void write_leftover(FILE *out, const ki_topo_machine *machine)
{
    int count = kith_placement_leftover_count(machine->placement);
    if (count == 0)
        return;
    fprintf(out, "<p class=\"bad\">%d GPU%s without a rank: ", count, count == 1 ? "" : "s");
    for (int i = 0; i < count && i < MAX_GROUPS; i++) {
        if (i > 0)
            fputs(", ", out);
        write_gpu(out, machine->topology, kith_placement_leftover(machine->placement, i));
    }
    fputs(count > MAX_GROUPS ? ", ...</p>\n" : "</p>\n", out);
}

void ki_topo_html_placement(FILE *out, const ki_topo_machine *machine)
{
    static const char *const heads[] = { "Axis",      "Size",        "Groups",   "Slowest link",
                                         "Between",   "A rank gets", "One call", "In the order of numbers",
                                         "Algorithm", NULL };
    const kith_placement *placement = machine->placement;
    char cost[32], identity[32];
    fputs("<section id=\"placement\"><h2>Placement</h2>\n<p>", out);
    fprintf(out, "%d ranks in the order %s. A step's communication takes %s, in the order of the numbers %s.</p>\n",
            kith_placement_rank_count(placement), kith_placement_order(placement),
            ki_text_time(cost, sizeof(cost), kith_placement_cost(placement)),
            ki_text_time(identity, sizeof(identity), kith_placement_identity_cost(placement)));
    write_leftover(out, machine);
    ki_html_table(out, "Axes", NULL, heads, "-nn--nnn-");
    for (int i = 0; i < KITH_PLACEMENT_AXES; i++) {
        const kith_axis_report *axis = kith_placement_axis(placement, axis_names[i]);
        if (axis != NULL)
            axis_row(out, machine->topology, axis);
    }
    ki_html_table_end(out);
    if (kith_placement_note_count(placement) > 0)
        fputs("<h3>Why</h3>\n<ul>\n", out);
    for (int i = 0; i < kith_placement_note_count(placement); i++) {
        fputs(kith_placement_note_is_warning(placement, i) ? "<li class=\"bad\">" : "<li>", out);
        ki_text_escape(out, kith_placement_note(placement, i));
        fputs("</li>\n", out);
    }
    if (kith_placement_note_count(placement) > 0)
        fputs("</ul>\n", out);
    groups_table(out, machine->topology, placement);
    fputs("</section>\n", out);
}

/* ---- the comparison ---- */

/* The plan that was asked for, else one of a usual model with this tp. */
static kith_status plan_for(const ki_topo_machine *machine, int tp, kith_plan *plan)
{
    kith_model model;
    kith_plan_options options = KITH_PLAN_OPTIONS_INIT;
    if (machine->has_plan) {
        *plan = machine->plan;
        return KITH_OK;
    }
    options.tp = tp;
    kith_status status = kith_model_named(USUAL_MODEL, &model);
    return status == KITH_OK ? kith_plan_make(NULL, &model, &options, plan) : status;
}

static void comparison_row(FILE *out, const char *axis, const char *what, double ops, double nbytes,
                           const double *time_s)
{
    char text[64];
    fputs("<tr>", out);
    ki_html_cell(out, axis);
    ki_html_cell(out, what);
    fprintf(out, "<td class=\"n\">%.6g</td>", ops);
    ki_html_number(out, ki_text_bytes(text, sizeof(text), nbytes));
    for (int link = 0; link < KITH_PLAN_LINKS; link++)
        ki_html_number(out, ki_text_time(text, sizeof(text), time_s[link]));
    fputs("</tr>\n", out);
}

void ki_topo_html_comparison(FILE *out, const ki_topo_machine *machine)
{
    static const char *const heads[] = { "Axis",   "What", "Calls a step", "Bytes of one",
                                         "NVLink", "PCIe", "InfiniBand",   NULL };
    const kith_axis_report *tp = kith_placement_axis(machine->placement, "tp");
    kith_plan plan;
    fputs("<section id=\"comparison\"><h2>Link classes side by side</h2>\n", out);
    if (tp == NULL || tp->size < 2) {
        fputs("<p>Groups of tp have one GPU: there is nothing to send.</p></section>\n", out);
        return;
    }
    if (plan_for(machine, tp->size, &plan) != KITH_OK) {
        fputs("<p>No comparison: ", out);
        ki_text_escape(out, kith_error_detail());
        fputs("</p></section>\n", out);
        return;
    }
    fputs("<p class=\"soft\">Time of a step's communication if all of it ran on one class of link: ", out);
    ki_text_escape(out, plan.model.name);
    fprintf(out, ", tp %d, %lld sequence%s of %lld token%s in a microbatch%s.</p>\n", plan.options.tp,
            (long long)plan.options.micro_batch, plan.options.micro_batch == 1 ? "" : "s",
            (long long)plan.options.sequence, plan.options.sequence == 1 ? "" : "s",
            machine->has_plan ? "" : " (the model is an example; --model names another)");
    ki_html_table(out, "Link classes", NULL, heads, "--nnnnn");
    for (int i = 0; i < plan.row_count; i++)
        if (machine->has_plan || strcmp(plan.rows[i].axis, "tp") == 0)
            comparison_row(out, plan.rows[i].axis, plan.rows[i].what, plan.rows[i].ops, plan.rows[i].message_nbytes,
                           plan.rows[i].time_s);
    comparison_row(out, "tp", "all-reduces of a forward pass, at nominal bandwidth", plan.forward_table.ops,
                   plan.forward_table.bytes_per_op, plan.forward_table.time_s);
    ki_html_table_end(out);
    fputs("</section>\n", out);
}
