/* tools/topo_read.c - from options to a machine: what is read, where ranks go on it, what a model costs there.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "progress.h"
#include "topo.h"
#include "topo_draw.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int ki_topo_refuse(kith_status status)
{
    char detail[1024]; /* quotes names of files, which may hold what drives a terminal */
    snprintf(detail, sizeof(detail), "%s", kith_error_detail());
    ki_text_clean(detail);
    ki_progress_end();
    fprintf(stderr, "kith topo: %s\n", detail[0] != '\0' ? detail : kith_status_sentence(status));
    return KI_TOPO_REFUSED;
}

/* A number of nodes is for one node that is described without a name; where nodes are listed it would be ignored. */
static int check_node_count(const ki_topo_options *options, kith_topology *topology)
{
    int wanted = options->reading.node_count, count = kith_topology_node_count(topology);
    if (wanted == 0 || wanted == count)
        return KI_EXIT_OK;
    fprintf(stderr, "kith topo: --nodes %d cannot be used: %d node%s listed in what was read\n", wanted, count,
            count == 1 ? " is" : "s are");
    return KI_TOPO_REFUSED;
}

int ki_topo_load(const ki_topo_options *options, const char *const *paths, size_t path_count, kith_topology **topology)
{
    kith_status status = path_count == 0 ? kith_topology_detect(&options->reading, topology)
                                         : kith_topology_load(paths, path_count, &options->reading, topology);
    ki_progress_end();
    if (status != KITH_OK)
        return ki_topo_refuse(status);
    return check_node_count(options, *topology);
}

/* Reports for people and programs have a placement whenever there are GPUs; the drawings, too: they show groups. */
static bool wants_placement(const ki_topo_options *options, const kith_topology *topology)
{
    return kith_topology_gpu_count(topology) > 0 || options->has_layout || options->needs_nvlink ||
           options->export_form >= 0;
}

/* A name of the table, or the path of a config.json. */
static kith_status find_model(const char *name, kith_model *model)
{
    bool is_path = strchr(name, '/') != NULL || access(name, R_OK) == 0;
    return is_path ? kith_model_read(name, model) : kith_model_named(name, model);
}

/* With a model the axes are weighed by its traffic. Sizes that were left open are those of a placement without it. */
static kith_status place_model(const ki_topo_options *options, ki_topo_machine *machine)
{
    kith_plan_options planning = options->planning;
    kith_placement *first = NULL;
    kith_model model;
    kith_status status = find_model(options->model, &model);
    if (status == KITH_OK)
        status = kith_place(machine->topology, &options->placing, &first);
    if (status != KITH_OK)
        return status;
    planning.tp = kith_placement_axis(first, "tp")->size;
    planning.cp = kith_placement_axis(first, "cp")->size;
    planning.ep = kith_placement_axis(first, "ep")->size;
    planning.dp = kith_placement_axis(first, "dp")->size;
    planning.pp = kith_placement_axis(first, "pp")->size;
    kith_placement_destroy(first);
    planning.order = options->placing.order;
    planning.keep_order = options->placing.keep_order;
    status = kith_plan_make_placed(machine->topology, &model, &planning, &machine->plan, &machine->placement);
    machine->has_plan = status == KITH_OK;
    return status;
}

int ki_topo_machine_make(const ki_topo_options *options, ki_topo_machine *machine)
{
    *machine = (ki_topo_machine){ 0 };
    int result = ki_topo_load(options, options->paths, options->path_count, &machine->topology);
    if (result != KI_EXIT_OK || !wants_placement(options, machine->topology))
        return result;
    kith_status status = options->model != NULL ? place_model(options, machine)
                                                : kith_place(machine->topology, &options->placing, &machine->placement);
    ki_progress_end();
    return status == KITH_OK ? KI_EXIT_OK : ki_topo_refuse(status);
}

void ki_topo_machine_destroy(ki_topo_machine *machine)
{
    kith_placement_destroy(machine->placement);
    kith_topology_destroy(machine->topology);
    *machine = (ki_topo_machine){ 0 };
}
