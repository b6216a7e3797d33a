/* schedules/simulate.c - kith_schedule_simulate(): memory, the run, and the figures that follow from it.
 *
 * Two bubbles are counted, as the literature has two. Against the makespan every rank waits for the slowest, as it does
 * where a step ends with a synchronization. Against the span, the time from a rank's first to its last computation, the
 * ranks may enter the next step one after the other, as the zero-bubble papers count.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "simulation.h"

#include "core/base/error.h"
#include "core/base/mem.h"

#include <math.h>
#include <stdlib.h>

/* ---- memory ---- */

/* A plan without a forward for each pair does not run. Asking first bounds the tables by the size of the lists. */
static kith_status count_pairs(const kith_schedule *s, size_t *pairs, size_t *actions)
{
    *actions = 0;
    for (int rank = 0; rank < s->ranks; rank++)
        *actions += s->lists[rank].count;
    if (!ki_mul((size_t)s->stages, (size_t)s->microbatches, pairs) || *actions < *pairs)
        return ki_fail(
            KITH_ERR_INVALID_ARG,
            "the plan is not complete: %zu action%s for %d stage%s and %d microbatch%s, which need a forward "
            "each",
            *actions, *actions == 1 ? "" : "s", s->stages, s->stages == 1 ? "" : "s", s->microbatches,
            s->microbatches == 1 ? "" : "es");
    return KITH_OK;
}

static kith_status simulation_new(const kith_schedule *s, size_t actions, kith_simulation **simulation)
{
    kith_simulation *made = ki_schedule_zeroed(1, sizeof *made);
    if (made == NULL)
        return ki_fail(KITH_ERR_NO_MEMORY, "no memory for a simulation");
    made->ranks = s->ranks;
    made->results = ki_schedule_zeroed((size_t)s->ranks, sizeof *made->results);
    made->first = ki_schedule_zeroed((size_t)s->ranks + 1, sizeof *made->first);
    made->intervals = ki_schedule_zeroed(actions, sizeof *made->intervals);
    if (made->results == NULL || made->first == NULL || made->intervals == NULL) {
        kith_simulation_destroy(made);
        return ki_fail(KITH_ERR_NO_MEMORY, "no memory for the times of %zu actions", actions);
    }
    for (int rank = 0; rank < s->ranks; rank++)
        made->first[rank + 1] = made->first[rank] + s->lists[rank].count;
    *simulation = made;
    return KITH_OK;
}

static void run_fini(ki_run *run)
{
    for (int data = 0; data < KI_DATA_COUNT; data++) {
        free(run->arrivals[data]);
        free(run->departures[data]);
        free(run->connections[data]);
    }
    free(run->cursors);
    free(run->clocks);
    free(run->has_begun);
    free(run->waits);
    free(run->runnable);
    free(run->done);
    free(run->free_from);
}

static bool has_all(const ki_run *run)
{
    bool is_there = run->cursors != NULL && run->clocks != NULL && run->has_begun != NULL && run->waits != NULL &&
                    run->runnable != NULL && run->done != NULL && run->free_from != NULL;
    for (int data = 0; data < KI_DATA_COUNT; data++) {
        is_there = is_there && run->arrivals[data] != NULL && run->connections[data] != NULL;
        is_there = is_there && (run->departures[data] != NULL || !run->s->has_messages);
    }
    return is_there;
}

static kith_status run_init(ki_run *run, size_t pairs)
{
    size_t ranks = (size_t)run->s->ranks, stages = (size_t)run->s->stages;
    run->cursors = ki_schedule_zeroed(ranks, sizeof *run->cursors);
    run->clocks = ki_schedule_zeroed(ranks, sizeof *run->clocks);
    run->has_begun = ki_schedule_zeroed(ranks, sizeof *run->has_begun);
    run->waits = ki_schedule_zeroed(ranks, sizeof *run->waits);
    run->runnable = ki_schedule_zeroed(ranks, sizeof *run->runnable);
    run->done = ki_schedule_zeroed(pairs, sizeof *run->done);
    run->free_from = ki_schedule_zeroed(2 * stages, sizeof *run->free_from);
    for (int data = 0; data < KI_DATA_COUNT; data++) {
        run->arrivals[data] = ki_schedule_zeroed(pairs, sizeof **run->arrivals);
        run->departures[data] = run->s->has_messages ? ki_schedule_zeroed(pairs, sizeof **run->departures) : NULL;
        run->connections[data] = ki_schedule_zeroed(stages, sizeof **run->connections);
    }
    if (!has_all(run))
        return ki_fail(KITH_ERR_NO_MEMORY, "no memory to simulate %zu stages and microbatches", pairs);
    for (size_t rank = 0; rank < ranks; rank++)
        run->waits[rank] = KI_NO_WAIT;
    for (size_t pair = 0; pair < pairs; pair++)
        run->arrivals[KI_ACTIVATION][pair] = run->arrivals[KI_GRADIENT][pair] = -1;
    return ki_run_connect(run);
}

/* ---- figures ---- */

/* Sums of fractions in another order differ in the last bits, so what is as small as that is no gap. */
static double gap(double whole, double busy)
{
    return whole - busy > 1e-12 * whole ? whole - busy : 0;
}

static double share(double part, double whole)
{
    return whole > 0 ? part / whole : 0;
}

static void count_ranks(const ki_run *run)
{
    kith_simulation_total_result *total = &run->out->total;
    for (int rank = 0; rank < run->s->ranks; rank++) {
        kith_simulation_rank_result *r = &run->out->results[rank];
        total->makespan = fmax(total->makespan, r->end);
        total->sent_count += r->sent_count;
        total->sent_nbytes += r->sent_nbytes;
        kith_in_flight peak;
        ki_schedule_held(run->s, rank, run->costs, &peak, &r->peak_nbytes);
        r->in_flight = peak.activations;
        r->in_flight_weights = peak.weights;
        r->held = peak.held;
    }
}

static kith_status count_all(const ki_run *run)
{
    kith_simulation_total_result *total = &run->out->total;
    double busiest = 0, longest = 0, most_nbytes = 0;
    count_ranks(run);
    for (int rank = 0; rank < run->s->ranks; rank++) {
        kith_simulation_rank_result *r = &run->out->results[rank];
        r->bubble = gap(total->makespan, r->busy);
        r->span_bubble = gap(r->end - r->start, r->busy);
        busiest = fmax(busiest, r->busy);
        longest = fmax(longest, r->end - r->start);
        most_nbytes = fmax(most_nbytes, r->peak_nbytes);
    }
    if (!isfinite(total->makespan) || !isfinite(total->sent_nbytes) || !isfinite(most_nbytes))
        return ki_fail(KITH_ERR_INVALID_ARG, "costs are so large that the sums of the plan are beyond double");
    total->bubble = gap(total->makespan, busiest);
    total->rate = share(total->bubble, total->makespan);
    total->span_bubble = gap(longest, busiest);
    total->span_rate = share(total->span_bubble, longest);
    return KITH_OK;
}

static kith_status simulate(ki_run *run, size_t pairs)
{
    kith_status status = run_init(run, pairs);
    if (status == KITH_OK)
        status = ki_run_all(run);
    if (status == KITH_OK && run->forwards < pairs)
        status = ki_fail(KITH_ERR_INVALID_ARG, "the plan is not complete: %zu forwards of %zu are missing",
                         pairs - run->forwards, pairs);
    return status == KITH_OK ? count_all(run) : status;
}

/* ---- public ---- */

kith_status kith_schedule_simulate(const kith_schedule *s, const kith_schedule_costs *costs,
                                   kith_simulation **simulation)
{
    if (s == NULL || simulation == NULL)
        return ki_fail(KITH_ERR_INVALID_ARG, "kith_schedule_simulate(): %s is NULL",
                       s == NULL ? "schedule" : "simulation");
    size_t pairs, actions;
    kith_stage_cost *stage_costs = NULL;
    ki_run run = { .s = s };
    kith_status status = count_pairs(s, &pairs, &actions);
    if (status == KITH_OK)
        status = ki_schedule_stage_costs(s, costs, &stage_costs);
    run.costs = stage_costs;
    if (status == KITH_OK)
        status = simulation_new(s, actions, &run.out);
    if (status == KITH_OK)
        status = simulate(&run, pairs);
    run_fini(&run);
    free(stage_costs);
    if (status != KITH_OK) {
        kith_simulation_destroy(run.out);
        return status;
    }
    *simulation = run.out;
    return KITH_OK;
}

void kith_simulation_destroy(kith_simulation *simulation)
{
    if (simulation == NULL)
        return;
    free(simulation->results);
    free(simulation->first);
    free(simulation->intervals);
    free(simulation);
}

const kith_simulation_total_result *kith_simulation_total(const kith_simulation *simulation)
{
    return simulation != NULL ? &simulation->total : NULL;
}

const kith_simulation_rank_result *kith_simulation_rank(const kith_simulation *simulation, int rank)
{
    return simulation != NULL && rank >= 0 && rank < simulation->ranks ? &simulation->results[rank] : NULL;
}

const kith_interval *kith_simulation_intervals(const kith_simulation *simulation, int rank, size_t *count)
{
    bool is_inside = simulation != NULL && rank >= 0 && rank < simulation->ranks;
    if (count != NULL)
        *count = is_inside ? simulation->first[rank + 1] - simulation->first[rank] : 0;
    return is_inside ? simulation->intervals + simulation->first[rank] : NULL;
}
