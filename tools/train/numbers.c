/* tools/train/numbers.c - what a step was and what it cost, the same on all ranks.
 *
 * Three small sums. Over ranks with other data: the loss, in an order that the layout of the pipeline does not change.
 * Over the pipeline: what each stage adds, of which the loss has one summand. Over the world: times, and whether anyone
 * was told to stop.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "engine.h"

#include <math.h>
#include <string.h>

static const char *const time_names[TRAIN_TIMES] = {
    [TRAIN_FORWARD] = "forward", [TRAIN_BACKWARD] = "backward",
    [TRAIN_TP] = "tp",           [TRAIN_BUBBLE] = "bubble",
    [TRAIN_PP] = "pp",           [TRAIN_DP] = "dp",
    [TRAIN_OTHER] = "other",     [TRAIN_OPTIMIZER] = "optimizer",
};

const char *train_time_name(train_time time)
{
    return (unsigned)time < TRAIN_TIMES ? time_names[time] : NULL;
}

/* ---- sums ---- */

/* Summed over the stages of a pipeline. Doubles alone, so that it is one row of numbers. */
typedef struct stage_sums {
    double loss, auxiliary, dropped;
    train_count tp[KITH_COLL_COUNT], ep[KITH_COLL_COUNT], messages, tied, dp[KITH_COLL_COUNT];
} stage_sums;

typedef struct world_sums {
    double step_s, time_s[TRAIN_TIMES];
    double is_stopping;
} world_sums;

static kith_status sum(kith_group *group, void *doubles, size_t nbytes)
{
    if (kith_group_size(group) == 1)
        return KITH_OK;
    return kith_all_reduce(group, doubles, doubles, nbytes / sizeof(double), KITH_F64, KITH_SUM);
}

static bool has_last_stage(const train_engine *engine)
{
    const train_model *model = engine->model;
    return model->stages[model->stage_count - 1] == engine->job->layout.stages - 1;
}

static double own_loss(const train_engine *engine)
{
    double loss = 0;
    for (int64_t m = 0; has_last_stage(engine) && m < engine->job->layout.microbatches; m++)
        loss += engine->losses[m];
    return loss;
}

/* ---- counts ---- */

static void count_layers(const train_engine *engine, kith_layers_axis axis, train_count *counts)
{
    kith_layers_traffic traffic;
    kith_layers_get_axis_traffic(engine->model->layers, axis, &traffic);
    for (int kind = 0; kind < KITH_COLL_COUNT; kind++) {
        counts[kind].forward += (double)traffic.ops[KITH_PHASE_FORWARD][kind];
        counts[kind].backward += (double)traffic.ops[KITH_PHASE_BACKWARD][kind];
        counts[kind].step += (double)traffic.ops[KITH_PHASE_FINISH][kind];
        for (int phase = 0; phase < KITH_PHASES; phase++)
            counts[kind].nbytes += (double)traffic.nbytes[phase][kind];
    }
}

/* Both ends of the pipeline make it; the first one counts it. */
static void count_tied(const train_engine *engine, train_count *count)
{
    train_count counts[KITH_COLL_COUNT] = { 0 };
    if (engine->job->pp_rank != 0)
        return;
    count_layers(engine, KITH_LAYERS_TIED, counts);
    *count = counts[KITH_ALL_REDUCE];
}

static void count_messages(const train_engine *engine, train_count *count)
{
    kith_pipeline_stats stats = { 0 };
    size_t actions;
    const kith_action *list =
        kith_schedule_actions(kith_pipeline_schedule(engine->pipeline), engine->job->pp_rank, &actions);
    for (size_t i = 0; i < actions; i++) {
        count->forward += list[i].type == KITH_ACTION_SEND_F;
        count->backward += list[i].type == KITH_ACTION_SEND_B;
    }
    kith_pipeline_last_stats(engine->pipeline, &stats);
    count->nbytes = (double)stats.sent_nbytes;
}

static void count_optimizer(const train_engine *engine, train_count *counts)
{
    kith_optim_traffic traffic;
    kith_optim_get_traffic(engine->model->optim, &traffic);
    const double sums = (double)(traffic.all_reduces + traffic.reduce_scatters);
    double early = 0;
    kith_optim_bucket bucket;
    for (size_t i = 0; i < kith_optim_bucket_count(engine->model->optim); i++)
        if (kith_optim_get_bucket(engine->model->optim, i, &bucket) == KITH_OK)
            early += bucket.was_early;
    early = fmin(early, sums);
    train_count *reduced = &counts[traffic.reduce_scatters > 0 ? KITH_REDUCE_SCATTER : KITH_ALL_REDUCE];
    reduced->backward += early;
    counts[KITH_ALL_REDUCE].step += (double)traffic.all_reduces;
    counts[KITH_REDUCE_SCATTER].step += (double)traffic.reduce_scatters;
    reduced->step -= early;
    counts[KITH_ALL_GATHER].step += (double)traffic.all_gathers;
    counts[KITH_ALL_REDUCE].nbytes += (double)traffic.all_reduce_nbytes;
    counts[KITH_REDUCE_SCATTER].nbytes += (double)traffic.reduce_scatter_nbytes;
    counts[KITH_ALL_GATHER].nbytes += (double)traffic.all_gather_nbytes;
}

/* ---- times ---- */

/* What the layers waited for, by phase, and by whom they waited for. */
typedef struct waits {
    double phase_s[KITH_PHASES], time_s[TRAIN_TIMES];
} waits;

static waits sum_waits(const train_engine *engine)
{
    static const train_time times[KITH_LAYERS_AXES] = { [KITH_LAYERS_TP] = TRAIN_TP,
                                                        [KITH_LAYERS_EP] = TRAIN_TP,
                                                        [KITH_LAYERS_DATA] = TRAIN_DP,
                                                        [KITH_LAYERS_TIED] = TRAIN_PP };
    waits sum = { 0 };
    for (int axis = 0; axis < KITH_LAYERS_AXES; axis++) {
        kith_layers_traffic traffic;
        kith_layers_get_axis_traffic(engine->model->layers, (kith_layers_axis)axis, &traffic);
        for (int phase = 0; phase < KITH_PHASES; phase++)
            for (int kind = 0; kind < KITH_TRAFFIC_KINDS; kind++) {
                double wait_s = 1e-9 * (double)traffic.wait_ns[phase][kind];
                sum.phase_s[phase] += wait_s;
                sum.time_s[times[axis]] += wait_s;
            }
    }
    return sum;
}

static train_time time_of(kith_action_type type)
{
    switch (type) {
    case KITH_ACTION_F:
        return TRAIN_FORWARD;
    case KITH_ACTION_B:
    case KITH_ACTION_I:
    case KITH_ACTION_W:
    case KITH_ACTION_RECOMPUTE:
        return TRAIN_BACKWARD;
    case KITH_ACTION_OPTIMIZER_STEP:
        return TRAIN_OPTIMIZER;
    default:
        return TRAIN_OTHER;
    }
}

/* Messages are under way while stages compute: how long that is says nothing. */
static bool is_message(kith_action_type type)
{
    return type >= KITH_ACTION_SEND_F && type <= KITH_ACTION_RECV_B;
}

/* What the list of the rank says, and then out of each what was spent on waiting for others. What is left of the step
 * is the time between its actions: standing still. Every moment is in one of them, so they add up to the step. */
static void take_times(const train_engine *engine, double *time_s)
{
    const waits waited = sum_waits(engine);
    size_t count, actions;
    const kith_interval *at = kith_pipeline_intervals(engine->pipeline, &count);
    const kith_action *list =
        kith_schedule_actions(kith_pipeline_schedule(engine->pipeline), engine->job->pp_rank, &actions);
    double busy_s = 0;
    for (size_t i = 0; i < count && i < actions; i++) {
        if (is_message(list[i].type))
            continue;
        time_s[time_of(list[i].type)] += at[i].end - at[i].start;
        busy_s += at[i].end - at[i].start;
    }
    double data_s = engine->optim_result.reduce_wait_s + engine->optim_result.gather_wait_s;
    double settling_s = time_s[TRAIN_OPTIMIZER] - engine->reduce_s - engine->update_s;
    time_s[TRAIN_OPTIMIZER] = engine->reduce_s + engine->update_s - data_s - waited.phase_s[KITH_PHASE_FINISH];
    time_s[TRAIN_FORWARD] -= waited.phase_s[KITH_PHASE_FORWARD];
    time_s[TRAIN_BACKWARD] -= waited.phase_s[KITH_PHASE_BACKWARD];
    for (int i = 0; i < TRAIN_TIMES; i++)
        time_s[i] += waited.time_s[i];
    time_s[TRAIN_DP] += data_s;
    double idle_s = engine->step_s - busy_s + settling_s; // settling: the last messages, and the slowest rank
    time_s[engine->job->layout.pp > 1 ? TRAIN_PP : TRAIN_OTHER] += idle_s;
    for (int i = 0; i < TRAIN_TIMES; i++)
        time_s[i] = fmax(time_s[i], 0);
}

/* ---- a step ---- */

static kith_status collect_stages(const train_engine *engine, train_numbers *numbers)
{
    const train_job *job = engine->job;
    const train_layout *layout = &job->layout;
    stage_sums s = { .loss = own_loss(engine) };
    double shared[2] = { s.loss, (double)engine->dropped };
    kith_status status = sum(job->data, shared, sizeof shared);
    s.loss = shared[0], s.dropped = shared[1];
    s.auxiliary = engine->auxiliary / (double)layout->microbatches;
    count_layers(engine, KITH_LAYERS_TP, s.tp);
    count_layers(engine, KITH_LAYERS_EP, s.ep);
    count_layers(engine, KITH_LAYERS_DATA, s.dp);
    count_messages(engine, &s.messages);
    count_tied(engine, &s.tied);
    count_optimizer(engine, s.dp);
    if (status == KITH_OK)
        status = sum(job->pp, &s, sizeof s);
    numbers->tokens = (double)train_layout_samples(layout) * (double)layout->sequence;
    numbers->loss = s.loss / numbers->tokens;
    numbers->auxiliary = s.auxiliary;
    double choices = numbers->tokens * (double)(job->config.top_k * job->config.blocks);
    numbers->dropped = choices > 0 ? s.dropped / choices : 0;
    memcpy(numbers->tp, s.tp, sizeof s.tp);
    memcpy(numbers->ep, s.ep, sizeof s.ep);
    memcpy(numbers->dp, s.dp, sizeof s.dp);
    numbers->messages = s.messages;
    numbers->tied = s.tied;
    return status;
}

/* Of the time that ranks stood still, what the plan has them do. On rank 0, which tells. */
static kith_status split_idle(const train_engine *engine, double *time_s)
{
    const train_job *job = engine->job;
    double bubble_s;
    if (job->layout.pp == 1 || job->rank != 0)
        return KITH_OK;
    kith_status status = train_costs_bubble(job, &engine->costs, &bubble_s, NULL);
    if (status != KITH_OK)
        return status;
    time_s[TRAIN_BUBBLE] = fmin(bubble_s, time_s[TRAIN_PP]);
    time_s[TRAIN_PP] -= time_s[TRAIN_BUBBLE];
    return KITH_OK;
}

kith_status train_numbers_collect(train_engine *engine, bool is_stopping, train_numbers *numbers)
{
    const train_job *job = engine->job;
    *numbers = (train_numbers){ .step = engine->step,
                                .grad_norm = engine->grad_norm,
                                .rate = engine->rate,
                                .scale = engine->scale.scale,
                                .is_skipped = engine->optim_result.is_skipped };
    engine->made++;
    engine->skipped += engine->optim_result.is_skipped;
    world_sums w = { .step_s = engine->step_s, .is_stopping = is_stopping };
    take_times(engine, w.time_s);
    kith_status status = collect_stages(engine, numbers);
    if (status == KITH_OK)
        status = sum(job->world, &w, sizeof w);
    train_costs_clear(&engine->costs);
    train_costs_add(engine, &engine->costs);
    if (status == KITH_OK && job->layout.pp > 1)
        status = sum(job->world, engine->costs.sums, train_costs_count(&engine->costs) * sizeof(double));
    numbers->seconds = w.step_s / job->layout.world;
    for (int i = 0; i < TRAIN_TIMES; i++)
        numbers->time_s[i] = w.time_s[i] / job->layout.world;
    numbers->is_stopping = w.is_stopping > 0;
    return status == KITH_OK ? split_idle(engine, numbers->time_s) : status;
}

kith_status train_numbers_validate(train_engine *engine, int64_t batches, double *loss)
{
    const train_job *job = engine->job;
    double tokens = (double)train_layout_samples(&job->layout) * (double)job->layout.sequence;
    double total = 0;
    kith_status status = KITH_OK;
    for (int64_t i = 0; i < batches && status == KITH_OK; i++) {
        status = train_engine_evaluate(engine, i);
        total += own_loss(engine);
    }
    if (status == KITH_OK)
        status = sum(job->data, &total, sizeof total);
    if (status == KITH_OK)
        status = sum(job->pp, &total, sizeof total);
    *loss = total / (tokens * (double)batches);
    return status;
}
