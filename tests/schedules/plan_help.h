/* tests/schedules/plan_help.h - plans for tests of generators, as text and on a clock of the tests' own.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef TESTS_SCHEDULES_PLAN_HELP_H
#define TESTS_SCHEDULES_PLAN_HELP_H

#include <kith/schedule.h>
#include <stdbool.h>

#define KIND(name) KITH_SCHEDULE_##name

/* The plan; the test fails with the library's sentence when there is none. */
kith_schedule *plan_make(const kith_schedule_options *options);
kith_schedule *plan_of(kith_schedule_kind kind, int ranks, int microbatches, int chunks);

/* Fails unless the list of a rank, without the stages' numbers but with chunks ("F0.2": chunk 0, microbatch 2; "&"
 * after the first of a pair), is the wanted one. */
void expect_list(const kith_schedule *plan, int rank, const char *wanted);
void expect_note(const kith_schedule *plan, const char *wanted); /* NULL: none */
/* Peaks of activations, ranks in order. */
void expect_in_flight(const kith_schedule *plan, const int *wanted);

typedef struct plan_times {
    double f, i, w, pair; /* pair: an overlapped forward and backward; negative: their sum. B takes i + w */
    double message;       /* from the end of a computation to its arrival on another rank */
} plan_times;

#define PLAN_RANKS_MAX 64
typedef struct plan_clock {
    double makespan, busiest, longest_span;
    double busy[PLAN_RANKS_MAX]; /* of each rank */
    double idle[PLAN_RANKS_MAX]; /* inside the rank's own span */
} plan_clock;

/* Runs the lists in order. False when they cannot go on: a plan that waits for itself. */
bool plan_run(const kith_schedule *plan, plan_times times, plan_clock *clock);

/* Each F and each B, or I and then W, of every stage and microbatch once, on the rank of the stage; nothing else but
 * these types; pairs are an F and a B. False: *why says what is wrong (static storage). */
bool plan_is_complete(const kith_schedule *plan, const char **why);

#endif
