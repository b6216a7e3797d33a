/* topology/plan_simulate.c - idle time and microbatches in flight of schedules without a formula: the schedule itself
 * is made and run on a clock (kith/schedule.h), with F, I and W of the layout and messages that take no time.
 *
 * Many microbatches idle no more than a few: a plan is a beginning, a pattern without gaps that repeats with every p
 * microbatches, and an end. From 2 p on nothing changes but by the rest modulo p, so no more than 3 p are simulated.
 * This is exact (tests/topology/test_plan_schedules.c), but for `auto`, which may find a slightly better plan when it
 * sees all microbatches; it is shortened only where its search would take long.
 *
 * A search meets the same pipelines again and again: ki_layout_memo keeps them. Times are told apart by their
 * proportions, rounded, so that a layout costs the same whatever else was looked at before.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "core/base/error.h"
#include "grow.h"
#include "plan_parts.h"

#include <math.h>
#include <stdlib.h>

#define SETTLED_FACTOR 2         /* microbatches, in multiples of p, from which on nothing changes */
#define RANKS_MAX 4096           /* of kith_schedule_create() */
#define PAIRS_MAX (1 << 21)      /* of a stage and a microbatch that are simulated: about two seconds */
#define AUTO_PAIRS_MAX (1 << 11) /* for `auto`, which makes dozens of plans to choose from, where it may be shortened */

typedef struct shape {
    kith_schedule_kind kind;
    int pp, chunks, microbatches;
    ki_layout_times share; /* of the sum of the three */
} shape;

typedef struct ki_layout_sample {
    shape of;
    double idle, idle_in_stage; /* in times of a microbatch */
    double in_flight[KI_PIPE_RANKS];
    int inner_rank;
} ki_layout_sample;

void ki_layout_memo_fini(ki_layout_memo *memo)
{
    free(memo->samples);
    *memo = (ki_layout_memo){ 0 };
}

static bool is_same(const shape *a, const shape *b)
{
    return a->kind == b->kind && a->pp == b->pp && a->chunks == b->chunks && a->microbatches == b->microbatches &&
           a->share.forward_s == b->share.forward_s && a->share.input_s == b->share.input_s &&
           a->share.weight_s == b->share.weight_s;
}

static bool recall(const ki_layout_memo *memo, ki_layout_sample *sample)
{
    for (int i = 0; memo != NULL && i < memo->count; i++)
        if (is_same(&memo->samples[i].of, &sample->of)) {
            *sample = memo->samples[i];
            return true;
        }
    return false;
}

/* Without memory for it, it is simulated again the next time. */
static void remember(ki_layout_memo *memo, const ki_layout_sample *sample)
{
    if (memo != NULL && ki_grow((void **)&memo->samples, memo->count, &memo->room, sizeof *sample))
        memo->samples[memo->count++] = *sample;
}

/* ---- one simulation ---- */

static kith_status make_schedule(const shape *of, kith_schedule_costs *costs, kith_schedule **schedule)
{
    kith_schedule_options o = KITH_SCHEDULE_OPTIONS_INIT;
    o.kind = of->kind;
    o.ranks = of->pp;
    o.chunks = of->chunks;
    o.microbatches = of->microbatches;
    costs->same.f = of->share.forward_s / of->chunks;
    costs->same.i = of->share.input_s / of->chunks;
    costs->same.w = of->share.weight_s / of->chunks;
    costs->same.weight_nbytes = costs->same.activation_nbytes; /* what waits for W counts as the whole */
    o.costs = costs;
    return kith_schedule_create(&o, schedule);
}

static kith_status count_held(const kith_schedule *schedule, ki_layout_sample *sample)
{
    kith_status status = KITH_OK;
    int last = sample->of.pp - 1;
    for (int rank = 0; rank <= last && status == KITH_OK; rank++) {
        kith_in_flight peak;
        status = kith_schedule_in_flight(schedule, rank, &peak);
        if (status != KITH_OK)
            break;
        double *held = &sample->in_flight[rank == 0 ? KI_FIRST_RANK : rank == last ? KI_LAST_RANK : KI_INNER_RANK];
        double microbatches = (double)peak.held / sample->of.chunks;
        if (rank > 0 && rank < last && microbatches > *held)
            sample->inner_rank = rank;
        *held = fmax(*held, microbatches);
    }
    return status;
}

static kith_status simulate(ki_layout_sample *sample)
{
    kith_schedule_costs costs = KITH_SCHEDULE_COSTS_INIT;
    kith_schedule *schedule = NULL;
    kith_simulation *run = NULL;
    kith_status status = make_schedule(&sample->of, &costs, &schedule);
    if (status == KITH_OK)
        status = kith_schedule_simulate(schedule, &costs, &run);
    if (status == KITH_OK)
        status = count_held(schedule, sample);
    if (status == KITH_OK) {
        sample->idle = fmax(kith_simulation_total(run)->bubble, 0); /* differences of sums: no -0.0 */
        sample->idle_in_stage = fmax(kith_simulation_total(run)->span_bubble, 0);
    }
    kith_simulation_destroy(run);
    kith_schedule_destroy(schedule);
    return status;
}

/* ---- all microbatches ---- */

static double rounded(double value)
{
    const double grain = 0x1p-42; /* above the noise of what the times are made with, below what anyone sees */
    return rint(value / grain) * grain;
}

static ki_layout_times share_of(ki_layout_times times)
{
    double all = times.forward_s + times.input_s + times.weight_s;
    return (ki_layout_times){ rounded(times.forward_s / all), rounded(times.input_s / all),
                              rounded(times.weight_s / all) };
}

/* How many microbatches stand for all. */
static double length_of(const ki_layout_pipe *pipe)
{
    double pp = pipe->pp, settled = SETTLED_FACTOR * pp;
    if (pipe->kind == KITH_SCHEDULE_AUTO)
        settled = fmax(settled, floor(AUTO_PAIRS_MAX / pp / pp) * pp);
    return pipe->microbatches < settled + pp ? pipe->microbatches : settled + fmod(pipe->microbatches, pp);
}

static kith_status check_size(const ki_layout_pipe *pipe, double microbatches)
{
    if (pipe->pp <= RANKS_MAX && (double)pipe->pp * pipe->chunks * microbatches <= PAIRS_MAX)
        return KITH_OK;
    return ki_fail_quiet(KITH_ERR_INVALID_ARG,
                         "plan: pp %d with %d chunk%s is too long for the schedule %s, which is simulated; valid: pp * "
                         "chunks * microbatches (3 pp stand for more) up to %d and pp up to %d, or naive, gpipe, 1f1b",
                         pipe->pp, pipe->chunks, pipe->chunks == 1 ? "" : "s", kith_schedule_kind_name(pipe->kind),
                         PAIRS_MAX, RANKS_MAX);
}

kith_status ki_layout_simulate(const ki_layout_pipe *pipe, ki_layout_memo *memo, ki_layout_figures *figures)
{
    double microbatches = length_of(pipe);
    kith_status status = check_size(pipe, microbatches);
    if (status != KITH_OK)
        return status;
    ki_layout_sample sample = { .of = { pipe->kind, pipe->pp, pipe->chunks, (int)microbatches,
                                        share_of(pipe->times) } };
    if (!recall(memo, &sample)) {
        status = simulate(&sample);
        if (status != KITH_OK)
            return status;
        remember(memo, &sample);
    }
    figures->bubble = sample.idle / pipe->microbatches;
    figures->bubble_in_stage = sample.idle_in_stage / pipe->microbatches;
    figures->inner_rank = sample.inner_rank;
    bool holds_all = pipe->kind == KITH_SCHEDULE_LOOPED_BFS; /* all forwards come first */
    for (int i = 0; i < KI_PIPE_RANKS; i++)
        figures->in_flight[i] = holds_all ? pipe->microbatches : sample.in_flight[i];
    return KITH_OK;
}
