/* schedules/simulate_run.c - the clock: each rank takes its list in order, each action as soon as its data are there.
 *
 * No queue of events ordered by time is needed. What a rank does depends on its own list and on the data it gets, never
 * on who was simulated first; and the messages of a connection all come from one rank, whose computations end in the
 * order of its list, so first come, first served is the order of the list as well. So a rank is run until it needs data
 * that are not there, and is put on the stack of runnable ranks again by the action that makes them: each action is
 * looked at once for each of its data at most, and once more.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "simulation.h"

#include "core/base/error.h"

#include <math.h>

/* One action, or an overlapped pair. */
typedef struct unit {
    const kith_action *actions;
    size_t count;
} unit;

static kith_status refuse(int rank, size_t position, const kith_action *action, const char *why)
{
    char text[64];
    return ki_fail(KITH_ERR_INVALID_ARG, "the plan cannot run: rank %d, action %zu, %s: %s", rank, position,
                   kith_action_text(action, text, sizeof text), why);
}

/* ---- what may come next ---- */

/* NULL: the rank has done what must come before on the same rank. */
static const char *broken_order(const kith_action *a, unsigned done)
{
    switch (a->type) {
    case KITH_ACTION_F:
        return done & KI_DONE_F ? "this forward was there before" : NULL;
    case KITH_ACTION_RECOMPUTE:
        return done & KI_DONE_F ? NULL : "its forward has not come before it";
    case KITH_ACTION_B:
    case KITH_ACTION_I:
        if (done & KI_DONE_INPUTS)
            return "its backward was there before";
        return done & KI_DONE_F ? NULL : "its forward has not come before it";
    case KITH_ACTION_W:
        if (done & KI_DONE_WEIGHTS)
            return "its backward for weights was there before";
        return done & KI_DONE_INPUTS ? NULL : "its backward for inputs (I) has not come before it";
    default:
        return NULL;
    }
}

/* The action at the cursor, with the next one when they overlap. */
static kith_status take_unit(const ki_run *run, int rank, unit *u)
{
    const ki_action_list *list = &run->s->lists[rank];
    size_t at = run->cursors[rank];
    u->actions = &list->actions[at];
    u->count = u->actions->is_overlapped ? 2 : 1;
    if (u->count == 2 && at + 1 < list->count && u->actions[1].is_overlapped)
        return refuse(rank, at + 1, u->actions + 1, "two actions overlap, not three");
    if (u->count == 2 && !ki_schedule_is_pair(list, at))
        return refuse(rank, at, u->actions, "only an F and, next, the B or I of another microbatch overlap");
    for (size_t i = 0; i < u->count; i++) {
        const kith_action *a = &u->actions[i];
        if (ki_action_scope_of(a->type) == KI_SCOPE_NOTHING)
            continue;
        if (run->s->rank_of_stage[a->stage] != rank)
            return refuse(rank, at + i, a, "the stage lies on another rank");
        if (ki_action_scope_of(a->type) == KI_SCOPE_STAGE)
            continue;
        const char *why = broken_order(a, run->done[ki_pair(run->s, a->stage, a->microbatch)]);
        if (why != NULL)
            return refuse(rank, at + i, a, why);
    }
    return KITH_OK;
}

/* When the action's data from other stages are there, if that is later than *start. False: not yet, the wait is noted.
 * */
static bool has_data(ki_run *run, int rank, const kith_action *a, double *start)
{
    bool is_forward = a->type == KITH_ACTION_F;
    if (!is_forward && a->type != KITH_ACTION_B && a->type != KITH_ACTION_I)
        return true;
    if (a->stage == (is_forward ? 0 : run->s->stages - 1))
        return true;
    ki_data data = is_forward ? KI_ACTIVATION : KI_GRADIENT;
    size_t pair = ki_pair(run->s, a->stage, a->microbatch);
    double arrival = run->arrivals[data][pair];
    if (arrival < 0) {
        run->waits[rank] = ki_wait_of(data, pair);
        return false;
    }
    *start = arrival > *start ? arrival : *start;
    return true;
}

/* ---- what follows from it ---- */

static void wake(ki_run *run, int rank, ki_data data, size_t pair)
{
    if (run->waits[rank] != ki_wait_of(data, pair))
        return;
    run->waits[rank] = KI_NO_WAIT;
    run->runnable[run->runnable_count++] = rank;
}

/* The data of stage and microbatch, ready now, go to the stage that uses them. */
static kith_status pass_on(ki_run *run, ki_data data, const kith_action *a, double now)
{
    int next = a->stage + (data == KI_ACTIVATION ? 1 : -1);
    if (next < 0 || next >= run->s->stages)
        return KITH_OK;
    size_t pair = ki_pair(run->s, next, a->microbatch);
    int connection = run->connections[data][a->stage];
    if (connection >= 0) {
        /* what a boundary costs stands at the stage below it, for both directions */
        const kith_stage_cost *cost = &run->costs[data == KI_ACTIVATION ? a->stage : next];
        kith_simulation_rank_result *sender = &run->out->results[run->s->rank_of_stage[a->stage]];
        double *free_from = &run->free_from[connection];
        now = *free_from > now ? *free_from : now;
        if (run->departures[data] != NULL)
            run->departures[data][pair] = now;
        *free_from = now + cost->send;
        now = *free_from + cost->latency;
        sender->sent_count++;
        sender->sent_nbytes += cost->message_nbytes;
    }
    if (!isfinite(now))
        return ki_fail(KITH_ERR_INVALID_ARG, "costs are so large that the times of the plan are beyond double");
    run->arrivals[data][pair] = now;
    wake(run, run->s->rank_of_stage[next], data, pair);
    return KITH_OK;
}

static kith_status finish(ki_run *run, const kith_action *a, double now)
{
    if (!ki_action_is_compute(a->type))
        return KITH_OK;
    unsigned char *done = &run->done[ki_pair(run->s, a->stage, a->microbatch)];
    if (a->type == KITH_ACTION_F) {
        *done |= KI_DONE_F;
        run->forwards++;
        return pass_on(run, KI_ACTIVATION, a, now);
    }
    if (a->type == KITH_ACTION_B || a->type == KITH_ACTION_W)
        *done |= KI_DONE_WEIGHTS;
    if (a->type == KITH_ACTION_W)
        return KITH_OK;
    *done |= KI_DONE_INPUTS;
    return pass_on(run, KI_GRADIENT, a, now);
}

/* Start, end and busy time are those of computation: what takes no time does not lengthen a rank's span. Returns the
 * end. */
static double note_time(ki_run *run, int rank, const unit *u, double start, double duration)
{
    double end = start + duration;
    kith_simulation_rank_result *result = &run->out->results[rank];
    kith_interval *interval = &run->out->intervals[run->out->first[rank] + run->cursors[rank]];
    for (size_t i = 0; i < u->count; i++)
        interval[i] = (kith_interval){ start, end };
    if (!ki_action_is_compute(u->actions->type) && u->actions->type != KITH_ACTION_RECOMPUTE)
        return end;
    result->start = run->has_begun[rank] ? result->start : start;
    run->has_begun[rank] = 1;
    result->end = end;
    result->busy += duration;
    run->clocks[rank] = end;
    return end;
}

/* Runs the rank until its list ends or data are missing. */
static kith_status run_rank(ki_run *run, int rank)
{
    while (run->cursors[rank] < run->s->lists[rank].count) {
        unit u;
        kith_status status = take_unit(run, rank, &u);
        if (status != KITH_OK)
            return status;
        double start = run->clocks[rank];
        for (size_t i = 0; i < u.count; i++)
            if (!has_data(run, rank, &u.actions[i], &start))
                return KITH_OK;
        double duration =
            u.count == 2 ? ki_pair_duration(run->costs, u.actions) : ki_action_duration(run->costs, u.actions);
        double end = note_time(run, rank, &u, start, duration);
        for (size_t i = 0; i < u.count && status == KITH_OK; i++)
            status = finish(run, &u.actions[i], end);
        if (status != KITH_OK)
            return status;
        run->cursors[rank] += u.count;
    }
    return KITH_OK;
}

/* ---- messages that stand in the lists ---- */

/* A SEND stands at the moment when its message begins to leave, a RECV at the moment when it has come. */
static kith_status time_message(ki_run *run, int rank, size_t at)
{
    const kith_action *a = &run->s->lists[rank].actions[at];
    ki_data data = a->type == KITH_ACTION_SEND_F || a->type == KITH_ACTION_RECV_F ? KI_ACTIVATION : KI_GRADIENT;
    int direction = data == KI_ACTIVATION ? 1 : -1;
    int from = ki_action_is_send(a->type) ? a->stage : a->stage - direction;
    bool is_message = from >= 0 && from < run->s->stages && run->connections[data][from] >= 0;
    size_t pair = is_message ? ki_pair(run->s, from + direction, a->microbatch) : 0;
    if (!is_message || run->arrivals[data][pair] < 0)
        return refuse(rank, at, a, is_message ? "no rank makes these data" : "no message goes that way");
    double moment = ki_action_is_send(a->type) ? run->departures[data][pair] : run->arrivals[data][pair];
    run->out->intervals[run->out->first[rank] + at] = (kith_interval){ moment, moment };
    return KITH_OK;
}

static kith_status time_messages(ki_run *run)
{
    kith_status status = KITH_OK;
    for (int rank = 0; rank < run->s->ranks; rank++)
        for (size_t at = 0; at < run->s->lists[rank].count && status == KITH_OK; at++)
            if (ki_action_is_message(run->s->lists[rank].actions[at].type))
                status = time_message(run, rank, at);
    return status;
}

kith_status ki_run_all(ki_run *run)
{
    for (int rank = run->s->ranks - 1; rank >= 0; rank--)
        run->runnable[run->runnable_count++] = rank;
    while (run->runnable_count > 0) {
        kith_status status = run_rank(run, run->runnable[--run->runnable_count]);
        if (status != KITH_OK)
            return status;
    }
    for (int rank = 0; rank < run->s->ranks; rank++)
        if (run->cursors[rank] < run->s->lists[rank].count)
            return ki_run_explain(run);
    return run->s->has_messages ? time_messages(run) : KITH_OK;
}
