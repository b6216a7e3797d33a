/* topology/plan.c - makes a plan: fills in defaults, checks that sizes divide what they split, and calls the parts (see
 * plan_parts.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "core/base/error.h"
#include "model.h"
#include "plan_parts.h"
#include <kith/mesh.h>

#include <string.h>

#define DEFAULT_SEQUENCE 2048
#define DEFAULT_EFFICIENCY 0.5
#define VOCAB_UNIT 128 /* as Megatron pads */

ki_layout_shape ki_layout_shape_of(const kith_plan *plan)
{
    const kith_plan_options *o = &plan->options;
    return (ki_layout_shape){
        .tokens = (double)o->micro_batch * (double)o->sequence / o->cp,
        .layers = (double)plan->model.layers / o->pp,
        .moe_layers = ki_model_moe_layers(&plan->model) / o->pp,
        .activation_nbytes = o->parameter_nbytes == 4 ? 4 : 2,
        .sequence_split = o->sequence_parallel ? o->tp : 1,
        .chunks = o->chunks,
        .dense_copies = o->dp * o->cp * o->ep,
        .expert_copies = o->dp * o->cp,
    };
}

void ki_layout_note(kith_plan *plan, const char *sentence)
{
    if (plan->note_count < KITH_PLAN_MAX_NOTES)
        plan->notes[plan->note_count++] = sentence;
}

/* ---- options ---- */

kith_status ki_layout_copy_options(const kith_plan_options *from, kith_plan_options *to)
{
    *to = (kith_plan_options)KITH_PLAN_OPTIONS_INIT;
    if (from == NULL)
        return KITH_OK;
    if (from->struct_size < sizeof(size_t))
        return ki_fail_quiet(KITH_ERR_INVALID_ARG,
                             "plan options: struct_size is %zu, start from KITH_PLAN_OPTIONS_INIT", from->struct_size);
    memcpy(to, from, from->struct_size < sizeof *to ? from->struct_size : sizeof *to);
    to->struct_size = sizeof *to;
    return KITH_OK;
}

kith_status ki_layout_stop(const char *what, double fraction)
{
    return ki_fail_quiet(KITH_ERR_ABORTED, "plan: progress() asked to stop at %s, %.0f %% done", what, fraction * 100);
}

kith_status ki_layout_tell(const kith_plan_options *options, const char *what, double fraction)
{
    if (options->progress == NULL || options->progress(options->progress_arg, what, fraction) == 0)
        return KITH_OK;
    return ki_layout_stop(what, fraction);
}

/* ---- defaults ---- */

static void default_int(int *value, int otherwise)
{
    if (*value == 0)
        *value = otherwise;
}

static void default_count(int64_t *value, int64_t otherwise)
{
    if (*value == 0)
        *value = otherwise;
}

/* With a topology an open dp is what the other axes leave of the ranks that can be placed. */
static kith_status fill_axes(kith_plan_options *o, const kith_topology *topology)
{
    default_int(&o->tp, 1);
    default_int(&o->cp, 1);
    default_int(&o->ep, 1);
    default_int(&o->pp, 1);
    bool is_sane = o->tp > 0 && o->cp > 0 && o->ep > 0 && o->pp > 0; /* else the check refuses it */
    if (o->dp == 0 && topology != NULL && is_sane)
        return ki_layout_choose_dp(o, topology);
    default_int(&o->dp, 1);
    return KITH_OK;
}

static void fill_batch(kith_plan_options *o)
{
    default_count(&o->micro_batch, 1);
    double together = (double)o->micro_batch * o->dp * o->ep; /* sequences of one microbatch on all ranks */
    if (o->microbatches == 0 && together >= 1 && together <= (double)o->global_batch)
        o->microbatches = o->global_batch / (int64_t)together;
    default_count(&o->microbatches, 1);
    bool is_sane = together >= 1 && o->microbatches >= 1 && together * (double)o->microbatches < 1e15;
    if (o->global_batch == 0 && is_sane) /* else the check refuses it */
        o->global_batch = (int64_t)together * o->microbatches;
}

static kith_status fill_rest(kith_plan_options *o, const kith_model *model)
{
    bool is_short = model->positions > 0 && model->positions < DEFAULT_SEQUENCE;
    default_count(&o->sequence, is_short ? model->positions : DEFAULT_SEQUENCE);
    default_int(&o->parameter_nbytes, 2);
    default_int(&o->gradient_nbytes, o->parameter_nbytes == 4 ? 4 : 2);
    if (o->order == NULL)
        o->order = KITH_MESH_DEFAULT_ORDER;
    if (!(o->efficiency > 0) && !(o->efficiency < 0))
        o->efficiency = DEFAULT_EFFICIENCY;
    return ki_layout_choose_chunks(o->schedule, o->pp, &o->chunks);
}

/* ---- notes ---- */

static bool is_zero_bubble(kith_schedule_kind kind)
{
    return kind == KITH_SCHEDULE_ZB_H1 || kind == KITH_SCHEDULE_ZB_H2 || kind == KITH_SCHEDULE_ZB_V;
}

static void add_notes(kith_plan *plan, const kith_topology *topology)
{
    const kith_plan_options *o = &plan->options;
    const kith_model *model = &plan->model;
    if (plan->is_peak_assumed)
        ki_layout_note(plan, "the peak of the GPUs is not known: that of an A100 is taken");
    if (o->tp > 1 && topology != NULL && ki_topology_lone_gpu(topology) != NULL)
        ki_layout_note(plan, "this process sees one GPU of its node: with tp, ranks that see one GPU each may have no "
                             "peer-to-peer");
    if (o->tp > model->kv_heads)
        ki_layout_note(plan, "tp is larger than the number of K and V heads: each is held by several ranks");
    if (o->pp > 1 && o->chunks > 1 && ki_layout_is_looped(o->schedule) && o->microbatches % o->pp != 0)
        ki_layout_note(plan, "the microbatches are no multiple of pp: with one the pipeline would idle less");
    if (o->pp > 1 && is_zero_bubble(o->schedule) && o->microbatches < 2 * o->pp - 1)
        ki_layout_note(plan, "fewer than 2 pp - 1 microbatches: with more a zero-bubble schedule would idle less");
    if (o->pp > 1 && o->schedule == KITH_SCHEDULE_AUTO)
        ki_layout_note(plan,
                       "auto: a microbatch that waits for W counts as a whole one (kith schedule --cost A=1,G=1); "
                       "where it is known to hold less, the pipeline may idle less");
    if (model->experts > 0 && o->tp > 1 && !o->sequence_parallel)
        ki_layout_note(plan, "experts with tp and without sequence parallelism: each tp rank sends all its tokens");
    if (model->experts > 0)
        ki_layout_note(plan, "tokens are taken as evenly spread over the experts");
    if (o->recompute == KITH_RECOMPUTE_SELECTIVE && o->flash_attention)
        ki_layout_note(plan, "flash attention keeps next to nothing of the core: selective recomputation gains little");
}

/* ---- making ---- */

/* Everything but the times on a machine. */
static kith_status fill(kith_plan *plan, const kith_topology *topology, ki_layout_memo *memo)
{
    const kith_plan_options *o = &plan->options;
    ki_layout_pipe pipe = { o->schedule, o->pp, o->chunks, (double)o->microbatches, ki_layout_count_times(plan) };
    ki_layout_figures figures;
    kith_status status = ki_layout_run_pipe(&pipe, memo, &figures);
    if (status != KITH_OK)
        return status;
    add_notes(plan, topology);
    ki_layout_fill_memory(plan, &figures);
    ki_layout_fill_traffic(plan, topology);
    ki_layout_fill_compute(plan, &figures);
    plan->placed_step_s = -1;
    plan->steps[KITH_PLAN_LINKS].total_s = -1;
    for (int link = 0; link < KITH_PLAN_LINKS; link++)
        ki_layout_fill_step(plan, link);
    return KITH_OK;
}

static kith_status prepare(const kith_topology *topology, const kith_model *model, const kith_plan_options *options,
                           kith_plan *plan)
{
    memset(plan, 0, sizeof *plan);
    plan->model = *model;
    default_count(&plan->model.moe_every, 1);
    kith_status status = ki_layout_copy_options(options, &plan->options);
    if (status == KITH_OK)
        status = fill_axes(&plan->options, topology);
    if (status != KITH_OK)
        return status;
    fill_batch(&plan->options);
    status = fill_rest(&plan->options, model);
    if (status == KITH_OK)
        status = ki_layout_check(plan);
    if (status != KITH_OK)
        return status;
    const kith_plan_options *o = &plan->options;
    int64_t unit = (int64_t)VOCAB_UNIT * o->tp;
    plan->world = o->tp * o->cp * o->ep * o->dp * o->pp;
    plan->padded_vocab = (model->vocab + unit - 1) / unit * unit;
    return ki_layout_use_gpus(plan, topology);
}

kith_status ki_layout_make(const kith_topology *topology, const kith_model *model, const kith_plan_options *options,
                           ki_layout_memo *memo, kith_plan *plan)
{
    kith_status status = prepare(topology, model, options, plan);
    return status == KITH_OK ? fill(plan, topology, memo) : status;
}

kith_status ki_layout_make_placed(const kith_topology *topology, const kith_model *model,
                                  const kith_plan_options *options, ki_layout_memo *memo, bool is_quick,
                                  struct ki_cost_session *session, kith_plan *plan, kith_placement **placement)
{
    kith_plan made;
    kith_status status = ki_layout_make(topology, model, options, memo, &made);
    if (status == KITH_OK && topology != NULL)
        status = ki_layout_place(&made, topology, is_quick, session, placement);
    if (status != KITH_OK)
        return status;
    made.options.progress = NULL; /* the caller's, for the time of the call */
    made.options.progress_arg = NULL;
    *plan = made;
    return KITH_OK;
}

kith_status kith_plan_make(const kith_topology *topology, const kith_model *model, const kith_plan_options *options,
                           kith_plan *plan)
{
    if (model == NULL || plan == NULL)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "plan: the model or the plan is NULL");
    return ki_layout_make_placed(topology, model, options, NULL, false, NULL, plan, NULL);
}

kith_status kith_plan_make_placed(const kith_topology *topology, const kith_model *model,
                                  const kith_plan_options *options, kith_plan *plan, kith_placement **placement)
{
    if (topology == NULL || model == NULL || plan == NULL || placement == NULL)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "plan: the topology, the model, the plan or the placement is NULL");
    return ki_layout_make_placed(topology, model, options, NULL, false, NULL, plan, placement);
}
