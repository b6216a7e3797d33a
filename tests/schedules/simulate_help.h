/* tests/schedules/simulate_help.h - what the tests of simulation share. A failure prints wanted and got.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KITH_TESTS_SIMULATE_HELP_H
#define KITH_TESTS_SIMULATE_HELP_H

#include <kith/mem.h>
#include <kith/schedule.h>
#include <kith/status.h>

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* A plan, its simulation, and what they are called in failures. */
typedef struct simulated {
    kith_schedule *plan;
    kith_simulation *run;
    const kith_simulation_total_result *total;
    char name[128];
} simulated;

static inline void expect_figure(const char *what, const char *figure, double got, double wanted, double tolerance)
{
    if (!(fabs(got - wanted) <= tolerance))
        fail_msg("%s: %s: wanted %.17g, got %.17g", what, figure, wanted, got);
}

/* The status, and words that the sentence has to hold. */
static inline void expect_failure(kith_status got, kith_status wanted, const char *words)
{
    if (got != wanted || strstr(kith_error_detail(), words) == NULL)
        fail_msg("wanted %s with '%s', got %s: %s", kith_status_name(wanted), words, kith_status_name(got),
                 got == KITH_OK ? "" : kith_error_detail());
}

static inline kith_schedule_costs costs_of(const char *text)
{
    kith_schedule_costs costs;
    if (kith_schedule_costs_parse(text, &costs) != KITH_OK)
        fail_msg("%s: %s", text, kith_error_detail());
    return costs;
}

static inline simulated simulate_plan(kith_schedule *plan, const char *costs, const char *name)
{
    simulated s = { .plan = plan };
    kith_schedule_costs parsed = costs_of(costs);
    snprintf(s.name, sizeof s.name, "%.63s, %.60s", name, costs);
    if (kith_schedule_simulate(plan, &parsed, &s.run) != KITH_OK)
        fail_msg("%s: %s", s.name, kith_error_detail());
    s.total = kith_simulation_total(s.run);
    return s;
}

static inline simulated simulate_options(const kith_schedule_options *o, const char *costs)
{
    char name[64];
    kith_schedule *plan;
    snprintf(name, sizeof name, "%s p=%d m=%d v=%d", kith_schedule_kind_name(o->kind), o->ranks, o->microbatches,
             o->chunks);
    if (kith_schedule_create(o, &plan) != KITH_OK)
        fail_msg("%s: %s", name, kith_error_detail());
    return simulate_plan(plan, costs, name);
}

static inline simulated simulate(kith_schedule_kind kind, int ranks, int microbatches, int chunks, const char *costs)
{
    kith_schedule_options o = KITH_SCHEDULE_OPTIONS_INIT;
    o.kind = kind;
    o.ranks = ranks;
    o.microbatches = microbatches;
    o.chunks = chunks;
    return simulate_options(&o, costs);
}

static inline void discard(simulated *s)
{
    kith_simulation_destroy(s->run);
    kith_schedule_destroy(s->plan);
}

/* An empty plan; stages: the ranks of its stages, as digits. */
static inline kith_schedule *empty_plan(const char *ranks_of_stages, int microbatches)
{
    int ranks = 0, stages = (int)strlen(ranks_of_stages), rank_of_stage[16];
    kith_schedule *plan;
    for (int stage = 0; stage < stages; stage++) {
        rank_of_stage[stage] = ranks_of_stages[stage] - '0';
        ranks = rank_of_stage[stage] >= ranks ? rank_of_stage[stage] + 1 : ranks;
    }
    if (kith_schedule_create_custom(ranks, stages, rank_of_stage, microbatches, &plan) != KITH_OK)
        fail_msg("%s", kith_error_detail());
    return plan;
}

/* Appends "0F0 1F0 0SEND_F0 (0F1 1B0) ZERO_GRAD": cells, and overlapped pairs in parentheses. */
static inline void add_actions(kith_schedule *plan, int rank, const char *text)
{
    char copy[2048], *rest = NULL;
    snprintf(copy, sizeof copy, "%s", text);
    for (char *word = strtok_r(copy, " ", &rest); word != NULL; word = strtok_r(NULL, " ", &rest)) {
        kith_action a = { KITH_ACTION_IDLE, -1, -1, -1, *word == '(' };
        char *cell = word + a.is_overlapped, *end;
        long stage = strtol(cell, &end, 10);
        a.stage = end > cell ? (int)stage : -1;
        size_t length = strspn(end, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_");
        for (int type = 1; type < KITH_ACTION_TYPE_COUNT; type++) {
            const char *name = kith_action_name((kith_action_type)type);
            if (strlen(name) == length && strncmp(name, end, length) == 0)
                a.type = (kith_action_type)type;
        }
        a.microbatch = end[length] >= '0' && end[length] <= '9' ? atoi(end + length) : -1;
        if (a.type == KITH_ACTION_IDLE && strcmp(word, "-") != 0)
            fail_msg("'%s' is no action", word);
        if (kith_schedule_append(plan, rank, &a) != KITH_OK)
            fail_msg("%s: %s", word, kith_error_detail());
    }
}

#endif
