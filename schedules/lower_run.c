/* schedules/lower_run.c - the order in which things happen on all ranks: a clock on which each rank takes its list.
 *
 * An action starts when its rank is free and its data have come. There is at most one event for each rank, the start or
 * the end of what is next or running, in a heap. At one time, ends come before starts, so that messages whose data are
 * ready at t stand before what starts at t; and among ends, forwards of later stages and backwards of earlier ones come
 * first, so that a rank passes on what it has before it takes the next. Starts of one time come in the order in
 * which they became possible: without it, actions that cost nothing would run ahead on one rank, and their messages
 * with them.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "lower.h"

#include "core/base/error.h"

#include <stdlib.h>

typedef enum rank_state { RANK_WAITS, RANK_STARTS, RANK_RUNS } rank_state;

typedef struct rank_clock {
    size_t next;      /* position in the source of what comes next, or runs */
    rank_state state; /* WAITS: for data, or at the end; the others are in the heap */
    double time;      /* of its event */
    long long turn;   /* among ends, or starts, of one time: the lowest first */
} rank_clock;

typedef struct run {
    ki_lowering *l;
    rank_clock *ranks; /* [ranks] */
    int *heap;         /* [ranks] */
    int heap_count;
    long long starts; /* that were put into the heap */
    double *inputs,
        *gradients; /* [stages * microbatches] when the data for F, and for B or I, come; negative: unknown */
} run;

/* ---- the heap ---- */

static bool comes_first(const run *r, int left, int right)
{
    const rank_clock *a = &r->ranks[left], *b = &r->ranks[right];
    if (a->time != b->time)
        return a->time < b->time;
    if (a->state != b->state)
        return a->state == RANK_RUNS;
    if (a->turn != b->turn)
        return a->turn < b->turn;
    return left < right;
}

static void swap(run *r, int i, int j)
{
    int rank = r->heap[i];
    r->heap[i] = r->heap[j];
    r->heap[j] = rank;
}

static void push(run *r, int rank)
{
    int i = r->heap_count++;
    r->heap[i] = rank;
    for (; i > 0 && comes_first(r, r->heap[i], r->heap[(i - 1) / 2]); i = (i - 1) / 2)
        swap(r, i, (i - 1) / 2);
}

static int pop(run *r)
{
    int first = r->heap[0];
    r->heap[0] = r->heap[--r->heap_count];
    for (int i = 0, child = 1; child < r->heap_count; child = 2 * i + 1) {
        if (child + 1 < r->heap_count && comes_first(r, r->heap[child + 1], r->heap[child]))
            child++;
        if (!comes_first(r, r->heap[child], r->heap[i]))
            break;
        swap(r, i, child);
        i = child;
    }
    return first;
}

/* ---- times ---- */

/* With recomputation, which goes right before the backward. */
static double unit_duration(const ki_lowering *l, const kith_action *actions, size_t count)
{
    const kith_action *last = &actions[count - 1];
    bool is_recomputed = l->o.has_recompute && (last->type == KITH_ACTION_B || last->type == KITH_ACTION_I);
    double again = is_recomputed ? l->costs[last->stage].recompute : 0;
    return again + (count == 2 ? ki_pair_duration(l->costs, actions) : ki_action_duration(l->costs, actions));
}

/* When what the action takes from another rank comes; 0 for nothing, negative when that is not known yet. */
static double data_time(const run *r, const kith_action *a)
{
    if (a->type != KITH_ACTION_F && a->type != KITH_ACTION_B && a->type != KITH_ACTION_I)
        return 0;
    const double *times = a->type == KITH_ACTION_F ? r->inputs : r->gradients;
    return times[ki_pair(r->l->source, a->stage, a->microbatch)];
}

/* ---- what happens ---- */

static size_t unit_at(const run *r, int rank, const kith_action **actions)
{
    *actions = &r->l->source->lists[rank].actions[r->ranks[rank].next];
    return (*actions)->is_overlapped ? 2 : 1;
}

/* Looks at what is next on a rank that is free: puts its start into the heap when its data's times are known. */
static void look(run *r, int rank, double now)
{
    rank_clock *clock = &r->ranks[rank];
    clock->state = RANK_WAITS;
    if (clock->next == r->l->source->lists[rank].count)
        return;
    const kith_action *actions;
    size_t count = unit_at(r, rank, &actions);
    double start = now;
    for (size_t i = 0; i < count; i++) {
        double time = data_time(r, &actions[i]);
        if (time < 0)
            return;
        start = time > start ? time : start;
    }
    clock->state = RANK_STARTS;
    clock->time = start;
    clock->turn = r->starts++;
    push(r, rank);
}

static kith_status start(run *r, int rank)
{
    rank_clock *clock = &r->ranks[rank];
    const kith_action *actions;
    size_t count = unit_at(r, rank, &actions);
    clock->state = RANK_RUNS;
    clock->time += unit_duration(r->l, actions, count);
    clock->turn = actions->type == KITH_ACTION_F ? -actions->stage : actions->stage;
    push(r, rank);
    return actions->type == KITH_ACTION_IDLE ? KITH_OK : ki_lower_emit_start(r->l, rank, actions, count);
}

/* The stage that takes what the action makes gets to know when it comes. */
static void deliver(run *r, const kith_action *a, double now)
{
    const kith_schedule *s = r->l->source;
    bool is_forward = a->type == KITH_ACTION_F;
    int taker = is_forward ? a->stage + 1 : a->stage - 1;
    if (!(is_forward || a->type == KITH_ACTION_B || a->type == KITH_ACTION_I) || taker < 0 || taker >= s->stages)
        return;
    bool crosses = ki_schedule_crosses(s, is_forward ? a->stage : taker);
    const kith_stage_cost *cost = &r->l->costs[a->stage];
    double *times = is_forward ? r->inputs : r->gradients;
    times[ki_pair(s, taker, a->microbatch)] = crosses ? now + cost->send + cost->latency : now;
    int rank = s->rank_of_stage[taker];
    if (crosses && r->ranks[rank].state == RANK_WAITS)
        look(r, rank, now);
}

static kith_status end(run *r, int rank)
{
    rank_clock *clock = &r->ranks[rank];
    const kith_action *actions;
    size_t count = unit_at(r, rank, &actions);
    kith_status status = KITH_OK;
    for (size_t i = 0; i < count && status == KITH_OK; i++) {
        status = ki_lower_emit_end(r->l, &actions[i]);
        deliver(r, &actions[i], clock->time);
    }
    clock->next += count;
    look(r, rank, clock->time);
    return status;
}

static kith_status init(run *r, ki_lowering *l)
{
    const kith_schedule *s = l->source;
    size_t pairs = (size_t)s->stages * (size_t)s->microbatches;
    r->l = l;
    r->ranks = ki_schedule_zeroed((size_t)s->ranks, sizeof *r->ranks);
    r->heap = ki_schedule_zeroed((size_t)s->ranks, sizeof *r->heap);
    r->inputs = ki_schedule_zeroed(pairs, sizeof *r->inputs);
    r->gradients = ki_schedule_zeroed(pairs, sizeof *r->gradients);
    if (r->ranks == NULL || r->heap == NULL || r->inputs == NULL || r->gradients == NULL)
        return ki_schedule_no_memory("the lowering");
    for (size_t pair = 0; pair < pairs; pair++) {
        r->inputs[pair] = pair < (size_t)s->microbatches ? 0 : -1;
        r->gradients[pair] = pair >= pairs - (size_t)s->microbatches ? 0 : -1;
    }
    return KITH_OK;
}

static kith_status run_all(run *r)
{
    kith_status status = ki_lower_emit_begin(r->l);
    for (int rank = 0; rank < r->l->source->ranks; rank++)
        look(r, rank, 0);
    while (r->heap_count > 0 && status == KITH_OK) {
        int rank = pop(r);
        status = r->ranks[rank].state == RANK_STARTS ? start(r, rank) : end(r, rank);
    }
    for (int rank = 0; rank < r->l->source->ranks && status == KITH_OK; rank++)
        if (r->ranks[rank].next < r->l->source->lists[rank].count)
            status = ki_fail(KITH_ERR_INTERNAL, "rank %d stands still at position %zu of a plan that was checked", rank,
                             r->ranks[rank].next);
    return status == KITH_OK ? ki_lower_emit_finish(r->l) : status;
}

kith_status ki_lower_run(ki_lowering *l)
{
    run r = { 0 };
    kith_status status = init(&r, l);
    if (status == KITH_OK)
        status = run_all(&r);
    free(r.ranks);
    free(r.heap);
    free(r.inputs);
    free(r.gradients);
    return status;
}
