/* topology/plan_place.c - a plan on a machine: what its GPUs can do, where kith_place() puts the ranks, and what each
 * kind of communication costs there.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "core/base/error.h"
#include "cost.h"
#include "model.h"
#include "place.h"
#include "plan_parts.h"
#include <kith/mesh.h>

#include <stdlib.h>
#include <string.h>

#define ASSUMED_TFLOPS 312 /* A100, bf16: what the papers were measured on */

/* ---- what the GPUs can do ---- */

/* Peak of a GPU in the precision of the weights; 0: unknown. */
static double peak_of(const ki_gpu_model *model, int parameter_nbytes)
{
    if (model == NULL)
        return 0;
    if (parameter_nbytes == 4) /* TF32 */
        return model->tflops / 2;
    bool has_fp8 = model->compute_capability >= 89;
    return parameter_nbytes == 1 && has_fp8 ? 2 * model->tflops : model->tflops;
}

static double memory_of(const kith_gpu *gpu, const ki_gpu_model *model)
{
    if (gpu->memory_nbytes > 0)
        return (double)gpu->memory_nbytes;
    return model != NULL ? model->memory_gb * 1e9 : 0;
}

static void lower(double *least, double value, bool *is_complete)
{
    if (!(value > 0))
        *is_complete = false;
    else if (*least <= 0 || value < *least)
        *least = value;
}

/* The least of all GPUs; 0 where one is unknown. */
static void use_topology(const kith_plan_options *o, const kith_topology *topology, double *peak, double *memory)
{
    const ki_gpu_model *said = ki_gpu_model_find(o->gpu, 0);
    bool has_peaks = true, has_memories = true;
    for (int k = 0; k < kith_topology_kind_count(topology); k++) {
        const kith_node_kind *kind = kith_topology_kind(topology, k);
        for (int i = 0; i < kind->gpu_count; i++) {
            const kith_gpu *gpu = &kind->gpus[i];
            const ki_gpu_model *found = ki_gpu_model_find(gpu->name, gpu->compute_capability);
            const ki_gpu_model *model = found != NULL ? found : said;
            lower(peak, peak_of(model, o->parameter_nbytes), &has_peaks);
            lower(memory, memory_of(gpu, model), &has_memories);
        }
    }
    *peak = has_peaks ? *peak : 0;
    *memory = has_memories ? *memory : 0;
}

kith_status ki_layout_use_gpus(kith_plan *plan, const kith_topology *topology)
{
    kith_plan_options *o = &plan->options;
    const ki_gpu_model *said = ki_gpu_model_find(o->gpu, 0);
    double peak = 0, memory = 0;
    if (o->gpu != NULL && said == NULL && !(o->peak_tflops > 0 && o->gpu_memory_nbytes > 0))
        return ki_gpu_model_check(o->gpu);
    if (topology != NULL) {
        use_topology(o, topology, &peak, &memory);
    } else if (said != NULL) {
        peak = peak_of(said, o->parameter_nbytes);
        memory = said->memory_gb * 1e9;
    }
    if (!(o->gpu_memory_nbytes > 0))
        o->gpu_memory_nbytes = memory;
    if (o->peak_tflops > 0)
        return KITH_OK;
    plan->is_peak_assumed = peak <= 0;
    o->peak_tflops = peak > 0 ? peak : o->parameter_nbytes == 4 ? ASSUMED_TFLOPS / 2.0 : ASSUMED_TFLOPS;
    return KITH_OK;
}

/* ---- groups of a row, as global GPUs ---- */

typedef struct groups {
    int *gpus; /* [world] */
    int size, count;
} groups;

static kith_status enumerate(const kith_plan *plan, const char *axes, groups *out)
{
    const kith_plan_options *o = &plan->options;
    const kith_mesh_axis sizes[] = {
        { "tp", o->tp }, { "cp", o->cp }, { "ep", o->ep }, { "dp", o->dp }, { "pp", o->pp }
    };
    return kith_mesh_enumerate(sizes, sizeof sizes / sizeof sizes[0], o->order, axes, plan->world, out->gpus,
                               &out->size, &out->count);
}

/* First and last stage of each pipeline. */
static void keep_ends(groups *out)
{
    for (int i = 0; i < out->count; i++) {
        out->gpus[2 * i] = out->gpus[i * out->size];
        out->gpus[2 * i + 1] = out->gpus[i * out->size + out->size - 1];
    }
    out->size = 2;
}

/* The best rings of an axis where the placement knows them; a pipeline keeps the order of its stages. */
static bool use_rings(const kith_placement *placement, const kith_plan_traffic_row *row, groups *out)
{
    const kith_axis_report *report = strcmp(row->group, "pp") != 0 ? kith_placement_axis(placement, row->group) : NULL;
    if (report == NULL || report->rings == NULL || report->size != row->group_size)
        return false;
    out->size = report->size;
    out->count = report->group_count;
    memcpy(out->gpus, report->rings, (size_t)out->size * (size_t)out->count * sizeof *out->gpus);
    return true;
}

static kith_status find_groups(const kith_plan *plan, const kith_placement *placement, const kith_plan_traffic_row *row,
                               groups *out)
{
    bool is_ends = strcmp(row->group, "embed") == 0;
    if (use_rings(placement, row, out))
        return KITH_OK;
    kith_status status = enumerate(plan, is_ends ? "pp" : row->group, out);
    if (status != KITH_OK)
        return status;
    if (is_ends)
        keep_ends(out);
    if (out->size % row->group_size != 0)
        return ki_fail_quiet(KITH_ERR_INTERNAL, "plan: '%s' has groups of %d instead of %d", row->what, out->size,
                             row->group_size);
    out->count *= out->size / row->group_size; /* parts of a group: neighbours */
    out->size = row->group_size;
    for (int i = 0; i < out->size * out->count; i++)
        out->gpus[i] = kith_placement_gpu(placement, out->gpus[i]);
    return KITH_OK;
}

/* ---- prices ---- */

/* A row before this one that has the same price: forward, backward and recomputation send the same. -1: none. */
static int find_equal(const kith_plan *plan, int row)
{
    const kith_plan_traffic_row *wanted = &plan->rows[row];
    for (int i = 0; i < row; i++) {
        const kith_plan_traffic_row *other = &plan->rows[i];
        if (strcmp(other->group, wanted->group) == 0 && other->group_size == wanted->group_size &&
            strcmp(other->op, wanted->op) == 0 && other->message_nbytes == wanted->message_nbytes)
            return i;
    }
    return -1;
}

#define PLACING_SHARE 0.3 /* of the time, about; pricing the rows takes the rest */

/* kith_place() goes on to its end, so the wish to stop is kept until then. */
typedef struct listener {
    const kith_plan_options *options;
    bool has_stopped;
} listener;

static void pass_on(void *arg, const char *what, double fraction)
{
    listener *l = (listener *)arg;
    if (!l->has_stopped)
        l->has_stopped = ki_layout_tell(l->options, what, fraction * PLACING_SHARE) != KITH_OK;
}

static kith_status price_rows(kith_plan *plan, ki_cost_session *session, const kith_placement *placement,
                              groups *scratch)
{
    double one_s[KITH_PLAN_MAX_ROWS];
    for (int i = 0; i < plan->row_count; i++) {
        kith_plan_traffic_row *row = &plan->rows[i];
        kith_cost cost = { 0 };
        int equal = find_equal(plan, i);
        kith_status status =
            ki_layout_tell(&plan->options, "placing", PLACING_SHARE + (1 - PLACING_SHARE) * i / plan->row_count);
        if (status == KITH_OK && equal < 0)
            status = find_groups(plan, placement, row, scratch);
        if (status == KITH_OK && equal < 0)
            status = ki_cost_session_price(session, ki_layout_cost_op(row->op), scratch->gpus, scratch->size,
                                           scratch->count, row->message_nbytes, KI_NO_LIMIT, &cost);
        if (status != KITH_OK)
            return status;
        one_s[i] = equal < 0 ? cost.time_s : one_s[equal];
        row->placed_s = row->ops * one_s[i];
    }
    return ki_layout_tell(&plan->options, "placing", 1);
}

/* What all placements of a plan share. */
typedef struct placer {
    const kith_topology *topology;
    ki_cost_session *session;
    groups scratch;
} placer;

/* Where the ranks go when kith_place() is told these options; its times into plan. */
static kith_status place_once(placer *p, kith_plan *plan, const kith_placement_options *options, bool is_quick,
                              kith_placement **placement)
{
    listener *heard = (listener *)options->progress_arg;
    kith_status status = ki_place(p->topology, options, is_quick, p->session, placement);
    if (heard->has_stopped)
        status = ki_layout_stop("placing", PLACING_SHARE);
    if (status == KITH_OK)
        status = price_rows(plan, p->session, *placement, &p->scratch);
    if (status == KITH_OK)
        ki_layout_fill_step(plan, KITH_PLAN_LINKS);
    return status;
}

/* What kith_place() weighs is an estimate of the step: rows of an axis count as calls of its heaviest, stages as alike.
 * The order of the numbers is priced by the plan's own formula, too, and taken where a step is shorter with it. */
static kith_status prefer_numbers(placer *p, kith_plan *plan, kith_placement_options options,
                                  kith_placement **placement)
{
    kith_plan other = *plan;
    kith_placement *numbers = NULL;
    if ((*placement)->is_identity)
        return KITH_OK;
    options.keep_order = true;
    options.progress = NULL; /* all is told */
    other.options.progress = NULL;
    kith_status status = place_once(p, &other, &options, false, &numbers);
    if (status == KITH_OK && other.placed_step_s < plan->placed_step_s * (1 - 1e-9)) {
        kith_placement *placed = *placement;
        *placement = numbers;
        numbers = placed;
        other.options.progress = plan->options.progress;
        *plan = other;
    }
    kith_placement_destroy(numbers);
    return status == KITH_ERR_UNSUPPORTED ? KITH_OK : status; /* a link of unknown bandwidth, in that order alone */
}

static kith_placement_options placing_options(const kith_plan *plan, const kith_axis_traffic *traffic, listener *heard)
{
    const kith_plan_options *o = &plan->options;
    kith_placement_options options = KITH_PLACEMENT_OPTIONS_INIT;
    options.tp = o->tp;
    options.cp = o->cp;
    options.ep = o->ep;
    options.dp = o->dp;
    options.pp = o->pp;
    options.order = o->order;
    options.traffic = traffic;
    options.keep_order = o->keep_order;
    options.progress = pass_on;
    options.progress_arg = heard;
    return options;
}

static kith_status place_in_session(placer *p, kith_plan *plan, bool is_quick, kith_placement **placement)
{
    kith_axis_traffic traffic[KITH_PLACEMENT_AXES];
    listener heard = { &plan->options, false };
    kith_plan_traffic(plan, traffic);
    kith_placement_options options = placing_options(plan, traffic, &heard);
    kith_status status = place_once(p, plan, &options, is_quick, placement);
    bool compares = !options.keep_order && !(is_quick && plan->world > KI_QUICK_RANKS);
    return status == KITH_OK && compares ? prefer_numbers(p, plan, options, placement) : status;
}

kith_status ki_layout_place(kith_plan *plan, const kith_topology *topology, bool is_quick, ki_cost_session *session,
                            kith_placement **placement)
{
    placer p = { topology, session, { (int *)malloc((size_t)plan->world * sizeof(int)), 0, 0 } };
    kith_placement *found = NULL;
    kith_status status = KITH_OK;
    if (p.scratch.gpus == NULL)
        status = ki_fail_quiet(KITH_ERR_NO_MEMORY, "plan: no memory for the groups of %d ranks", plan->world);
    if (status == KITH_OK && session == NULL)
        status = ki_cost_session_create(topology, &p.session);
    if (status == KITH_OK)
        status = place_in_session(&p, plan, is_quick, &found);
    if (session == NULL)
        ki_cost_session_destroy(p.session);
    free(p.scratch.gpus);
    if (status == KITH_OK && placement != NULL)
        *placement = found;
    else
        kith_placement_destroy(found);
    return status;
}
