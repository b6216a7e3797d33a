/* tools/topo_check.c - what scripts ask for: are there doubts, do two nodes differ, do the tp groups stay on NVLink?
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "topo.h"
#include "topo_draw.h"

#include <stdlib.h>

/* A doubt quotes the file, so control characters are taken out: they would drive the terminal. */
static bool print_doubt(FILE *out, const kith_doubt *doubt)
{
    char *line = NULL, number[16] = "";
    const char *file = doubt->file != NULL ? doubt->file : "";
    if (doubt->file != NULL && doubt->line > 0)
        snprintf(number, sizeof(number), ":%d", doubt->line);
    if (asprintf(&line, "%s: %s%s%s%s", doubt->code, file, number, file[0] != '\0' ? ": " : "", doubt->text) < 0)
        return false;
    ki_text_clean(line);
    fprintf(out, "%s\n", line);
    free(line);
    return true;
}

int ki_topo_doubt_count(const kith_topology *topology)
{
    int count = 0;
    for (int i = 0; i < kith_topology_doubt_count(topology); i++)
        count += !kith_topology_doubt(topology, i)->is_assumption;
    return count;
}

int ki_topo_lint(const ki_topo_options *options)
{
    kith_topology *topology = NULL;
    ki_output output;
    int result = ki_topo_load(options, options->paths, options->path_count, &topology);
    if (result != KI_EXIT_OK)
        return result;
    if (!ki_output_open(&output, &ki_command_topo)) {
        kith_topology_destroy(topology);
        return KI_TOPO_REFUSED;
    }
    int count = ki_topo_doubt_count(topology);
    for (int i = 0; i < kith_topology_doubt_count(topology); i++) {
        const kith_doubt *doubt = kith_topology_doubt(topology, i);
        if (!doubt->is_assumption && !print_doubt(output.stream, doubt))
            result = KI_TOPO_REFUSED;
    }
    kith_topology_destroy(topology);
    if (result != KI_EXIT_OK) {
        fputs("kith topo: memory is short\n", stderr);
        ki_output_drop(&output);
        return result;
    }
    result = ki_output_close(&output, options->output, false);
    return result == KI_EXIT_OK && count > 0 ? KI_TOPO_FOUND : result;
}

int ki_topo_diff(const ki_topo_options *options)
{
    kith_topology *a = NULL, *b = NULL;
    char *text = NULL;
    int count = 0;
    ki_output output;
    int result = ki_topo_load(options, options->paths, 1, &a);
    if (result == KI_EXIT_OK)
        result = ki_topo_load(options, options->paths + 1, 1, &b);
    if (result == KI_EXIT_OK) {
        kith_status status = kith_topology_diff(a, b, &text, &count);
        if (status != KITH_OK)
            result = ki_topo_refuse(status);
    }
    kith_topology_destroy(a);
    kith_topology_destroy(b);
    if (result == KI_EXIT_OK && !ki_output_open(&output, &ki_command_topo))
        result = KI_TOPO_REFUSED;
    if (result == KI_EXIT_OK) {
        fputs(text, output.stream);
        result = ki_output_close(&output, options->output, false);
    }
    kith_free(text);
    return result == KI_EXIT_OK && count > 0 ? KI_TOPO_FOUND : result;
}

/* ---- --require nvlink ---- */

/* "GPU 2 of node0" */
static const char *name_gpu(const kith_topology *topology, int global, char *text, size_t nbytes)
{
    int node, gpu;
    if (!kith_topology_locate(topology, global, &node, &gpu)) {
        snprintf(text, nbytes, "GPU ?");
        return text;
    }
    const kith_node *it = kith_topology_node(topology, node);
    snprintf(text, nbytes, "GPU %d of %s", kith_topology_kind(topology, it->kind)->gpus[gpu].index, it->name);
    return text;
}

static bool is_nvlink(kith_link_type type)
{
    return type == KITH_LINK_NVLINK || type == KITH_LINK_XGMI || type == KITH_LINK_SELF;
}

/* Nobody said whether there is NVLink: then the slowest link is no answer. */
static bool is_unsaid(const kith_topology *topology, int global)
{
    int node, gpu;
    if (!kith_topology_locate(topology, global, &node, &gpu))
        return true;
    return kith_topology_kind(topology, kith_topology_node(topology, node)->kind)->nvlink == KITH_UNKNOWN;
}

static void say_group(const kith_topology *topology, int index, const ki_group *group)
{
    char from[160], to[160], name[16];
    name_gpu(topology, group->from, from, sizeof(from));
    name_gpu(topology, group->to, to, sizeof(to));
    if (group->worst.type != KITH_LINK_NET && is_unsaid(topology, group->from))
        fprintf(stderr,
                "kith topo: tp group %d may leave NVLink: the source does not tell about NVLink between %s and %s\n",
                index, from, to);
    else
        fprintf(stderr, "kith topo: tp group %d leaves NVLink: %s between %s and %s\n", index,
                kith_link_name(&group->worst, name, sizeof(name)), from, to);
}

int ki_topo_require_nvlink(const ki_topo_machine *machine)
{
    ki_groups groups;
    const kith_axis_report *tp = machine->placement != NULL ? kith_placement_axis(machine->placement, "tp") : NULL;
    if (tp == NULL) {
        fputs("kith topo: there are no GPUs that NVLink could join\n", stderr);
        return KI_TOPO_REQUIRED;
    }
    if (tp->size < 2)
        return KI_EXIT_OK;
    if (!ki_groups_create(machine->topology, machine->placement, &groups)) {
        fputs("kith topo: memory is short\n", stderr);
        return KI_TOPO_REFUSED;
    }
    int leaving = 0;
    for (int i = 0; i < groups.count; i++) {
        if (is_nvlink(groups.groups[i].worst.type))
            continue;
        if (leaving++ == 0)
            say_group(machine->topology, i, &groups.groups[i]);
    }
    if (leaving > 1)
        fprintf(stderr, "kith topo: so do %d more tp groups\n", leaving - 1);
    ki_groups_destroy(&groups);
    return leaving > 0 ? KI_TOPO_REQUIRED : KI_EXIT_OK;
}
