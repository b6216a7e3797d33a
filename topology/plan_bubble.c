/* topology/plan_bubble.c - what a pipeline schedule costs: idle time, microbatches in flight, messages.
 *
 * p stages, m microbatches, v parts of the model on each rank; F, I, W: times of the forward pass, of the gradient of
 * the inputs and of the gradient of the weights on a rank. Three kinds need no more than a formula, whatever m is:
 *
 *     schedule      idle, first start to last end   in flight on rank r
 *     naive         (p-1) m (F+I+W)                 1
 *     gpipe         (p-1) (F+I+W)                   m
 *     1f1b          (p-1) (F+I+W)                   min(m, p-r)
 *
 * The formulas of the other kinds hold for some m and some proportions of F, I and W only, so these are made and
 * simulated (plan_simulate.c). What a kind holds for W, a little less than a microbatch's activations, is counted as
 * the whole.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "plan_parts.h"

#include <math.h>

bool ki_layout_is_v(kith_schedule_kind kind)
{
    return kind == KITH_SCHEDULE_ZB_V || kind == KITH_SCHEDULE_DUALPIPE_V;
}

bool ki_layout_is_looped(kith_schedule_kind kind)
{
    return kind == KITH_SCHEDULE_INTERLEAVED || kind == KITH_SCHEDULE_LOOPED_BFS ||
           kind == KITH_SCHEDULE_INTERLEAVED_ZB;
}

static bool has_formula(kith_schedule_kind kind)
{
    return kind == KITH_SCHEDULE_NAIVE || kind == KITH_SCHEDULE_GPIPE || kind == KITH_SCHEDULE_1F1B;
}

static void use_formula(const ki_layout_pipe *pipe, ki_layout_figures *figures)
{
    double others = pipe->pp - 1, m = pipe->microbatches;
    bool is_naive = pipe->kind == KITH_SCHEDULE_NAIVE, is_1f1b = pipe->kind == KITH_SCHEDULE_1F1B;
    figures->bubble = figures->bubble_in_stage = is_naive ? others : others / m;
    double first = is_naive ? 1 : is_1f1b ? fmin(m, pipe->pp) : m;
    figures->in_flight[KI_FIRST_RANK] = first;
    figures->in_flight[KI_INNER_RANK] = is_1f1b ? fmin(m, pipe->pp - 1) : first;
    figures->in_flight[KI_LAST_RANK] = is_1f1b ? 1 : first;
    figures->inner_rank = 1;
}

kith_status ki_layout_run_pipe(const ki_layout_pipe *pipe, ki_layout_memo *memo, ki_layout_figures *figures)
{
    *figures = (ki_layout_figures){ 0, 0, { 1, 1, 1 }, 0 };
    if (!has_formula(pipe->kind))
        return ki_layout_simulate(pipe, memo, figures);
    use_formula(pipe, figures);
    return KITH_OK;
}

static bool has_any_chunks(kith_schedule_kind kind)
{
    return kind == KITH_SCHEDULE_NAIVE || ki_layout_is_looped(kind);
}

/* Where the kind has one number of chunks, a schedule of one microbatch tells whether it is this one. */
kith_status ki_layout_choose_chunks(kith_schedule_kind kind, int pp, int *chunks)
{
    kith_schedule_options smallest = KITH_SCHEDULE_OPTIONS_INIT;
    kith_schedule *schedule = NULL;
    if (*chunks == 0) /* on one rank nothing is interleaved */
        *chunks = ki_layout_is_v(kind) || (ki_layout_is_looped(kind) && pp != 1) ? 2 : 1;
    if (*chunks < 0 || (unsigned)kind > KITH_SCHEDULE_AUTO || has_any_chunks(kind)) /* ki_layout_check()'s */
        return KITH_OK;
    smallest.kind = kind;
    smallest.ranks = smallest.microbatches = 1;
    smallest.chunks = *chunks;
    kith_status status = kith_schedule_create(&smallest, &schedule);
    kith_schedule_destroy(schedule);
    return status;
}

double ki_layout_messages(kith_schedule_kind kind, int pp, int chunks, double microbatches, double *all)
{
    double parts = chunks; /* borders that a rank sends over each way */
    double borders = pp * parts - 1;
    if (ki_layout_is_v(kind)) {
        parts = pp > 2 ? 2 : 1; /* of two ranks each is an end of the V */
        borders = 2.0 * pp - 2; /* the turn is inside a rank */
    }
    *all = pp > 1 ? microbatches * borders : 0;
    return pp > 1 ? microbatches * parts : 0;
}
