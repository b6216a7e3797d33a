/* tests/schedules/plan_help.c - see plan_help.h.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "plan_help.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

kith_schedule *plan_make(const kith_schedule_options *options)
{
    kith_schedule *plan = NULL;
    if (kith_schedule_create(options, &plan) != KITH_OK)
        fail_msg("%s, p = %d, m = %d, v = %d: %s", kith_schedule_kind_name(options->kind), options->ranks,
                 options->microbatches, options->chunks, kith_error_detail());
    return plan;
}

kith_schedule *plan_of(kith_schedule_kind kind, int ranks, int microbatches, int chunks)
{
    kith_schedule_options o = KITH_SCHEDULE_OPTIONS_INIT;
    o.kind = kind;
    o.ranks = ranks;
    o.microbatches = microbatches;
    o.chunks = chunks;
    return plan_make(&o);
}

void expect_list(const kith_schedule *plan, int rank, const char *wanted)
{
    char got[4096] = "";
    size_t count, used = 0;
    const kith_action *list = kith_schedule_actions(plan, rank, &count);
    for (size_t i = 0; i < count && used < sizeof got - 32; i++)
        used += (size_t)snprintf(got + used, sizeof got - used, "%s%s%d.%d%s", i > 0 ? " " : "",
                                 kith_action_name(list[i].type), list[i].chunk, list[i].microbatch,
                                 list[i].is_overlapped ? "&" : "");
    if (strcmp(got, wanted) != 0)
        fail_msg("rank %d:\n wanted %s\n got    %s", rank, wanted, got);
}

void expect_note(const kith_schedule *plan, const char *wanted)
{
    const char *got = kith_schedule_note(plan, 0);
    if (wanted == NULL && got != NULL)
        fail_msg("wanted no note, got '%s'", got);
    if (wanted != NULL && (got == NULL || strcmp(got, wanted) != 0))
        fail_msg("wanted the note '%s', got '%s'", wanted, got != NULL ? got : "(none)");
}

void expect_in_flight(const kith_schedule *plan, const int *wanted)
{
    for (int rank = 0; rank < kith_schedule_ranks(plan); rank++) {
        kith_in_flight got;
        assert_int_equal(kith_schedule_in_flight(plan, rank, &got), KITH_OK);
        if (got.activations != wanted[rank])
            fail_msg("%s, rank %d: wanted %d in flight, got %d", kith_schedule_kind_name(kith_schedule_kind_of(plan)),
                     rank, wanted[rank], got.activations);
    }
}

/* ---- the clock ---- */

typedef struct runner {
    const kith_schedule *plan;
    plan_times times;
    double *forward_end, *backward_end; /* [stages * microbatches], negative: not yet */
    size_t *next;                       /* [ranks] */
    double *now, *start, *busy;         /* [ranks] */
} runner;

static double *place(const runner *r, double *ends, int stage, int microbatch)
{
    return &ends[(size_t)stage * (size_t)kith_schedule_microbatches(r->plan) + (size_t)microbatch];
}

/* When the result of `from` is there for `to`; negative: not yet. */
static double arrival(const runner *r, double *ends, int from, int to, int microbatch)
{
    double end = *place(r, ends, from, microbatch);
    bool is_far = kith_schedule_rank_of_stage(r->plan, from) != kith_schedule_rank_of_stage(r->plan, to);
    return end < 0 ? end : end + (is_far ? r->times.message : 0);
}

static double ready_at(const runner *r, const kith_action *a)
{
    if (a->type == KITH_ACTION_F)
        return a->stage == 0 ? 0 : arrival(r, r->forward_end, a->stage - 1, a->stage, a->microbatch);
    if (a->type == KITH_ACTION_W)
        return *place(r, r->backward_end, a->stage, a->microbatch);
    double own = *place(r, r->forward_end, a->stage, a->microbatch);
    if (own < 0 || a->stage + 1 == kith_schedule_stages(r->plan))
        return own;
    double above = arrival(r, r->backward_end, a->stage + 1, a->stage, a->microbatch);
    return above < 0 ? above : fmax(own, above);
}

static double time_of(const runner *r, const kith_action *a)
{
    if (a->type == KITH_ACTION_F)
        return r->times.f;
    if (a->type == KITH_ACTION_B)
        return r->times.i + r->times.w;
    return a->type == KITH_ACTION_I ? r->times.i : r->times.w;
}

static void finish(runner *r, const kith_action *a, double end)
{
    if (a->type == KITH_ACTION_F)
        *place(r, r->forward_end, a->stage, a->microbatch) = end;
    else if (a->type != KITH_ACTION_W)
        *place(r, r->backward_end, a->stage, a->microbatch) = end;
}

/* Takes the next action of a rank, or pair of actions. False: it has to wait. */
static bool step(runner *r, int rank, const kith_action *a)
{
    double ready = ready_at(r, &a[0]), time = time_of(r, &a[0]);
    if (a[0].is_overlapped) {
        double other = ready_at(r, &a[1]);
        time = r->times.pair >= 0 ? r->times.pair : time + time_of(r, &a[1]);
        ready = ready < 0 || other < 0 ? -1 : fmax(ready, other);
    }
    if (ready < 0)
        return false;
    double start = fmax(r->now[rank], ready);
    r->start[rank] = r->next[rank] == 0 ? start : r->start[rank];
    r->now[rank] = start + time;
    r->busy[rank] += time;
    finish(r, &a[0], r->now[rank]);
    if (a[0].is_overlapped)
        finish(r, &a[1], r->now[rank]);
    r->next[rank] += a[0].is_overlapped ? 2 : 1;
    return true;
}

static bool run_all(runner *r)
{
    int ranks = kith_schedule_ranks(r->plan);
    for (bool is_moving = true; is_moving;) {
        is_moving = false;
        for (int rank = 0; rank < ranks; rank++) {
            size_t count;
            const kith_action *list = kith_schedule_actions(r->plan, rank, &count);
            while (r->next[rank] < count && step(r, rank, &list[r->next[rank]]))
                is_moving = true;
        }
    }
    for (int rank = 0; rank < ranks; rank++) {
        size_t count;
        kith_schedule_actions(r->plan, rank, &count);
        if (r->next[rank] < count)
            return false;
    }
    return true;
}

bool plan_run(const kith_schedule *plan, plan_times times, plan_clock *clock)
{
    size_t ranks = (size_t)kith_schedule_ranks(plan);
    size_t pairs = (size_t)kith_schedule_stages(plan) * (size_t)kith_schedule_microbatches(plan);
    assert_true(ranks <= PLAN_RANKS_MAX);
    runner r = { .plan = plan, .times = times };
    double *memory = calloc(2 * pairs + 3 * ranks, sizeof *memory);
    r.next = calloc(ranks, sizeof *r.next);
    assert_true(memory != NULL && r.next != NULL);
    r.forward_end = memory;
    r.backward_end = memory + pairs;
    r.now = memory + 2 * pairs;
    r.start = r.now + ranks;
    r.busy = r.start + ranks;
    for (size_t i = 0; i < 2 * pairs; i++)
        memory[i] = -1;
    bool is_done = run_all(&r);
    *clock = (plan_clock){ 0 };
    for (size_t rank = 0; rank < ranks; rank++) {
        double span = r.now[rank] - r.start[rank];
        clock->makespan = fmax(clock->makespan, r.now[rank]);
        clock->busiest = fmax(clock->busiest, r.busy[rank]);
        clock->longest_span = fmax(clock->longest_span, span);
        clock->busy[rank] = r.busy[rank];
        clock->idle[rank] = span - r.busy[rank];
    }
    free(memory);
    free(r.next);
    return is_done;
}

/* ---- completeness ---- */

enum { SEEN_F = 1, SEEN_B = 2, SEEN_I = 4, SEEN_W = 8 };

/* Takes an action into the flags of its pair; NULL when it may be there. */
static const char *take(unsigned char *seen, kith_action_type type)
{
    switch ((int)type) {
    case KITH_ACTION_F:
        if (*seen != 0)
            return "an F twice, or after its backward";
        *seen |= SEEN_F;
        return NULL;
    case KITH_ACTION_B:
    case KITH_ACTION_I:
        if (*seen != SEEN_F)
            return "a backward twice, or before its F";
        *seen |= type == KITH_ACTION_B ? SEEN_B : SEEN_I;
        return NULL;
    case KITH_ACTION_W:
        if (*seen != (SEEN_F | SEEN_I))
            return "a W twice, or before its I";
        *seen |= SEEN_W;
        return NULL;
    default:
        return "an action that is no F, B, I or W";
    }
}

static const char *take_list(const kith_schedule *plan, int rank, unsigned char *seen)
{
    size_t count;
    const kith_action *list = kith_schedule_actions(plan, rank, &count);
    for (size_t i = 0; i < count; i++) {
        const kith_action *a = &list[i];
        if (kith_schedule_rank_of_stage(plan, a->stage) != rank ||
            kith_schedule_stage_of_chunk(plan, rank, a->chunk) != a->stage)
            return "a stage of another rank, or chunk";
        if (a->microbatch < 0 || a->microbatch >= kith_schedule_microbatches(plan))
            return "no such microbatch";
        if (a->is_overlapped && (i + 1 == count || a->type != KITH_ACTION_F || list[i + 1].type != KITH_ACTION_B))
            return "a pair that is not F and B";
        const char *why =
            take(&seen[(size_t)a->stage * (size_t)kith_schedule_microbatches(plan) + (size_t)a->microbatch], a->type);
        if (why != NULL)
            return why;
    }
    return NULL;
}

bool plan_is_complete(const kith_schedule *plan, const char **why)
{
    size_t pairs = (size_t)kith_schedule_stages(plan) * (size_t)kith_schedule_microbatches(plan);
    unsigned char *seen = calloc(pairs, 1);
    assert_non_null(seen);
    *why = NULL;
    for (int rank = 0; rank < kith_schedule_ranks(plan) && *why == NULL; rank++)
        *why = take_list(plan, rank, seen);
    bool is_forward_only = kith_schedule_is_forward_only(plan) != 0;
    for (size_t i = 0; i < pairs && *why == NULL; i++) {
        bool is_whole = seen[i] == (SEEN_F | SEEN_B) || seen[i] == (SEEN_F | SEEN_I | SEEN_W);
        if (is_forward_only ? seen[i] != SEEN_F : !is_whole)
            *why = "something is missing";
    }
    free(seen);
    return *why == NULL;
}
