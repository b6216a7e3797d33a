/* topology/placement_print.c - a placement as text and as members of a JSON object.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "place.h"

#include "core/base/error.h"
#include "print.h"

#include <math.h>
#include <string.h>

enum { MOST_SHOWN = 16, MOST_ON_A_LINE = 32 }; /* members of a group, GPUs of all groups */

static const char *link_name(const kith_topology *t, kith_link_type type, int from, int to, char *buffer, size_t nbytes)
{
    kith_link link = { .type = type };
    if (from >= 0)
        link = kith_topology_link(t, from, to);
    return kith_link_name(&link, buffer, nbytes);
}

/* ---- JSON ---- */

static void add_number(ki_text *out, const char *key, double value)
{
    ki_text_add(out, ", \"%s\": ", key);
    ki_print_number(out, value);
}

static void add_groups(ki_text *out, const kith_topology *t, const int *groups, int size, int count)
{
    ki_text_add(out, "[");
    for (int g = 0; g < count; g++) {
        ki_text_add(out, "%s[", g > 0 ? "," : "");
        for (int i = 0; i < size; i++)
            ki_text_add(out, "%s%d", i > 0 ? "," : "",
                        ki_print_gpu_number(t, groups[(size_t)g * (size_t)size + (size_t)i]));
        ki_text_add(out, "]");
    }
    ki_text_add(out, "]");
}

static void add_ranks(ki_text *out, const kith_topology *t, const kith_placement *p)
{
    ki_text_add(out, ",\n    \"ranks\": [");
    for (int r = 0; r < p->rank_count; r++) {
        int node = -1, gpu = -1;
        kith_topology_locate(t, p->gpus[r], &node, &gpu);
        ki_text_add(out, "%s\n      { \"rank\": %d, \"node\": ", r > 0 ? "," : "", r);
        ki_text_add_json(out, node >= 0 ? kith_topology_node(t, node)->name : NULL);
        ki_text_add(out, ", \"gpu\": %d, \"global_gpu\": %d }",
                    node >= 0 ? kith_topology_kind(t, kith_topology_node(t, node)->kind)->gpus[gpu].index : -1,
                    p->gpus[r]);
    }
    ki_text_add(out, "\n    ]");
}

static void add_placement(ki_text *out, const kith_topology *t, const kith_placement *p)
{
    ki_text_add(out, "\"placement\": {\n    \"order\": \"%s\",\n    \"sizes\": { ", p->sizes.text);
    for (int a = 0; a < KI_AXES; a++)
        ki_text_add(out, "%s\"%s\": %d", a > 0 ? ", " : "", ki_axis_names[a], p->sizes.size[a]);
    ki_text_add(out, " }");
    for (int a = 0; a < KI_AXES; a++) {
        ki_text_add(out, ",\n    \"%s\": ", ki_axis_names[a]);
        add_groups(out, t, p->axes[a].groups, p->axes[a].size, p->axes[a].group_count);
    }
    add_ranks(out, t, p);
    ki_text_add(out, ",\n    \"leftover\": [");
    for (int i = 0; i < p->leftover_count; i++)
        ki_text_add(out, "%s%d", i > 0 ? "," : "", ki_print_gpu_number(t, p->leftover[i]));
    ki_text_add(out, "]\n  }");
}

static void add_bottleneck(ki_text *out, const kith_topology *t, const kith_axis_report *axis)
{
    char name[16];
    if (axis->bottleneck_from < 0) {
        ki_text_add(out, "null");
        return;
    }
    ki_text_add(out, "{ \"link\": \"%s\"", kith_link_name(&axis->bottleneck, name, sizeof name));
    ki_text_add(out, ", \"gbps\": ");
    if (axis->bottleneck.gbps > 0)
        ki_print_number(out, axis->bottleneck.gbps);
    else
        ki_text_add(out, "null");
    ki_text_add(out, ", \"from\": %d, \"to\": %d, \"group\": %d }", ki_print_gpu_number(t, axis->bottleneck_from),
                ki_print_gpu_number(t, axis->bottleneck_to), axis->bottleneck_group);
}

static void add_bytes(ki_text *out, const kith_axis_report *axis)
{
    bool is_first = true;
    ki_text_add(out, ", \"bytes_by_link\": { ");
    for (int type = KITH_LINK_SELF - 1; type >= 0; type--) {
        if (axis->bytes_by_type[type] <= 0)
            continue;
        ki_text_add(out, "%s\"%s\": ", is_first ? "" : ", ", kith_link_type_name((kith_link_type)type));
        ki_print_number(out, axis->bytes_by_type[type]);
        is_first = false;
    }
    ki_text_add(out, "%s}", is_first ? "" : " ");
}

static void add_axis(ki_text *out, const kith_topology *t, const kith_axis_report *axis)
{
    char name[16];
    ki_text_add(out, "{ \"size\": %d, \"group_count\": %d, \"leaves_nvlink\": %s", axis->size, axis->group_count,
                axis->leaves_nvlink ? "true" : "false");
    add_number(out, "time_s", axis->cost.time_s);
    add_number(out, "identity_time_s", axis->identity_cost.time_s);
    add_number(out, "step_s", axis->step_s);
    add_number(out, "identity_step_s", axis->identity_step_s);
    add_number(out, "gbps", axis->cost.gbps);
    ki_text_add(out, ", \"slowest\": \"%s\"",
                link_name(t, axis->cost.slowest, axis->cost.slowest_from, axis->cost.slowest_to, name, sizeof name));
    ki_text_add(out, ", \"identity_slowest\": \"%s\", \"algorithm\": ",
                link_name(t, axis->identity_cost.slowest, axis->identity_cost.slowest_from,
                          axis->identity_cost.slowest_to, name, sizeof name));
    ki_text_add_json(out, axis->cost.algorithm);
    add_bytes(out, axis);
    ki_text_add(out, ", \"equally_good\": %lld, \"rings\": ", (long long)axis->equally_good);
    add_groups(out, t, axis->rings, axis->size, axis->size > 1 ? axis->group_count : 0);
    ki_text_add(out, " }");
}

void ki_print_placement_members(ki_text *out, const kith_topology *t, const kith_placement *p)
{
    add_placement(out, t, p);
    ki_text_add(out, ",\n  \"bottleneck\": {");
    for (int a = 0; a < KI_AXES; a++) {
        ki_text_add(out, "%s\n    \"%s\": ", a > 0 ? "," : "", ki_axis_names[a]);
        add_bottleneck(out, t, &p->axes[a]);
    }
    ki_text_add(out, "\n  },\n  \"axes\": {");
    for (int a = 0; a < KI_AXES; a++) {
        ki_text_add(out, "%s\n    \"%s\": ", a > 0 ? "," : "", ki_axis_names[a]);
        add_axis(out, t, &p->axes[a]);
    }
    ki_text_add(out, "\n  },\n  \"cost\": ");
    ki_print_number(out, p->cost);
    add_number(out, "identity_cost", p->identity_cost);
    add_number(out, "lower_bound", p->lower_bound);
    ki_text_add(out, ",\n  \"notes\": [");
    for (int i = 0; i < p->note_count; i++) {
        ki_text_add(out, "%s\n    { \"text\": ", i > 0 ? "," : "");
        ki_text_add_json(out, p->notes[i].text);
        ki_text_add(out, ", \"is_warning\": %s }", p->notes[i].is_warning ? "true" : "false");
    }
    ki_text_add(out, "%s]", p->note_count > 0 ? "\n  " : "");
}

/* ---- text ---- */

static void say_group(ki_text *out, const kith_topology *t, const int *group, int size)
{
    int shown = size <= MOST_SHOWN ? size : 4;
    ki_text_add(out, "{");
    for (int i = 0; i < shown; i++)
        ki_text_add(out, "%s%d", i > 0 ? "," : "", ki_print_gpu_number(t, group[i]));
    if (shown < size)
        ki_text_add(out, ",...,%d", ki_print_gpu_number(t, group[size - 1]));
    ki_text_add(out, "}");
}

static void say_groups(ki_text *out, const kith_topology *t, const kith_axis_report *axis)
{
    int fitting = MOST_ON_A_LINE / (axis->size <= MOST_SHOWN ? axis->size : 6);
    int shown = axis->group_count <= fitting ? axis->group_count : fitting;
    ki_text_add(out, "     ");
    for (int g = 0; g < shown; g++) {
        ki_text_add(out, " ");
        say_group(out, t, axis->groups + (size_t)g * (size_t)axis->size, axis->size);
    }
    if (shown < axis->group_count)
        ki_text_add(out, " and %d more", axis->group_count - shown);
    ki_text_add(out, "\n");
}

static void say_cost(ki_text *out, const kith_topology *t, const char *what, const kith_cost *cost, double step_s)
{
    char name[16];
    if (!isfinite(cost->time_s)) {
        ki_text_add(out, "      %-22s unknown\n", what);
        return;
    }
    ki_text_add(out, "      %-22s %-6s %8.4g GB/s %10.4g ms a call %10.4g ms a step%s\n", what,
                link_name(t, cost->slowest, cost->slowest_from, cost->slowest_to, name, sizeof name), cost->gbps,
                cost->time_s * 1e3, step_s * 1e3, cost->is_shared ? "  (shared)" : "");
}

static void say_axis(ki_text *out, const kith_topology *t, const kith_axis_report *axis)
{
    char name[16];
    ki_text_add(out, "  %s  %d group%s of %d", axis->name, axis->group_count, axis->group_count == 1 ? "" : "s",
                axis->size);
    if (axis->bottleneck_from >= 0)
        ki_text_add(out, ", slowest link %s between GPUs %d and %d%s",
                    kith_link_name(&axis->bottleneck, name, sizeof name), ki_print_gpu_number(t, axis->bottleneck_from),
                    ki_print_gpu_number(t, axis->bottleneck_to), axis->leaves_nvlink ? "" : ", inside NVLink");
    ki_text_add(out, "\n");
    say_groups(out, t, axis);
    say_cost(out, t, "placed", &axis->cost, axis->step_s);
    say_cost(out, t, "order of the numbers", &axis->identity_cost, axis->identity_step_s);
}

void ki_print_placement_text(ki_text *out, const kith_topology *t, const kith_placement *p)
{
    ki_text_add(out, "placement: %d ranks, order %s (", p->rank_count, p->sizes.text);
    for (int i = 0; i < KI_AXES; i++)
        ki_text_add(out, "%s%s %d", i > 0 ? ", " : "", ki_axis_names[p->sizes.order[i]],
                    p->sizes.size[p->sizes.order[i]]);
    ki_text_add(out, ")\n");
    for (int i = 0; i < KI_AXES; i++)
        if (p->sizes.size[p->sizes.order[i]] > 1)
            say_axis(out, t, &p->axes[p->sizes.order[i]]);
    if (p->leftover_count > 0) {
        ki_text_add(out, "  left over: ");
        say_group(out, t, p->leftover, p->leftover_count);
        ki_text_add(out, "\n");
    }
    ki_text_add(out, "  communication of a step %.4g ms, in the order of the numbers %.4g ms, at least %.4g ms\n",
                p->cost * 1e3, p->identity_cost * 1e3, p->lower_bound * 1e3);
    for (int i = 0; i < p->note_count; i++)
        ki_text_add(out, "  %s%s\n", p->notes[i].is_warning ? "warning: " : "", p->notes[i].text);
}

kith_status kith_placement_print(const kith_topology *topology, const kith_placement *placement, kith_format format,
                                 char **text)
{
    ki_text out = { 0 };
    if (topology == NULL || placement == NULL || text == NULL)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "kith_placement_print: the topology, placement or text is NULL");
    kith_status status = ki_placement_check_topology(placement, topology, "kith_placement_print");
    if (status != KITH_OK)
        return status;
    if (format == KITH_FORMAT_JSON) {
        ki_text_add(&out, "{\n  ");
        ki_print_topology_members(&out, topology);
        ki_text_add(&out, ",\n  ");
        ki_print_placement_members(&out, topology, placement);
        ki_text_add(&out, "\n}\n");
    } else {
        ki_print_topology_text(&out, topology);
        ki_text_add(&out, "\n");
        ki_print_placement_text(&out, topology, placement);
    }
    return ki_print_finish(&out, text);
}
