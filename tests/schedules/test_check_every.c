/* tests/schedules/test_check_every.c - every plan that the generators make is right, lowered or not, whatever the
 * connections hold. With the argument "whole" every size up to 16 ranks, 4 chunks and 64 microbatches; else a part.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "check_help.h"

#include <kith/context.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static bool is_whole; /* all sizes */

static void expect_right(const kith_schedule *plan, const kith_schedule_options *o,
                         const kith_schedule_check_options *c, const char *what)
{
    char *report;
    if (kith_schedule_check(plan, c, &report) != KITH_OK)
        fail_msg("%s, p = %d, v = %d, m = %d, forward only %d, fifo %d, %s, capacity %d, one channel %d:\n%s",
                 kith_schedule_kind_name(o->kind), o->ranks, o->chunks, o->microbatches, o->is_forward_only,
                 o->is_fifo_backward, what, c->capacity, c->is_one_channel, report);
    assert_null(report);
}

/* A receive that waits must not depend on how much a connection holds. */
static void check_lowered(const kith_schedule *plan, const kith_schedule_options *o, const int *bounds, int round)
{
    static const int capacities[] = { 0, 1, 1 << 30 };
    kith_lower_options lower = KITH_LOWER_OPTIONS_INIT;
    lower.has_recompute = round % 2;
    lower.has_tied = round / 2 % 2;
    kith_schedule *lowered;
    if (kith_schedule_lower(plan, &lower, &lowered) != KITH_OK)
        fail_msg("%s", kith_error_detail());
    for (size_t i = 0; i < sizeof capacities / sizeof capacities[0]; i++)
        for (int is_one = 0; is_one < 2; is_one++) {
            kith_schedule_check_options c = KITH_SCHEDULE_CHECK_OPTIONS_INIT;
            c.capacity = capacities[i];
            c.is_one_channel = is_one;
            c.in_flight_bounds = bounds;
            expect_right(lowered, o, &c, "lowered");
        }
    kith_schedule_destroy(lowered);
}

/* Returns whether the generator makes this size at all. */
static bool check_size(const kith_schedule_options *o, int round)
{
    kith_schedule *plan;
    if (kith_schedule_create(o, &plan) != KITH_OK)
        return false;
    int bounds[64];
    for (int rank = 0; rank < o->ranks; rank++) {
        kith_in_flight peak;
        assert_int_equal(kith_schedule_in_flight(plan, rank, &peak), KITH_OK);
        bounds[rank] = peak.activations;
    }
    kith_schedule_check_options c = KITH_SCHEDULE_CHECK_OPTIONS_INIT;
    c.in_flight_bounds = bounds;
    expect_right(plan, o, &c, "computation");
    check_lowered(plan, o, bounds, round);
    kith_schedule_destroy(plan);
    return true;
}

static bool is_in_part(int ranks, int microbatches, int chunks)
{
    return (ranks <= 4 && microbatches <= 9) || (ranks * 7 + microbatches * 5 + chunks * 3) % 97 == 0 ||
           (ranks == 16 && microbatches == 64);
}

static int check_kind(kith_schedule_kind kind)
{
    int accepted = 0, round = 0;
    for (int ranks = 1; ranks <= 16; ranks++)
        for (int chunks = 1; chunks <= 4; chunks++)
            for (int microbatches = 1; microbatches <= 64; microbatches++) {
                if (!is_whole && !is_in_part(ranks, microbatches, chunks))
                    continue;
                kith_schedule_options o = KITH_SCHEDULE_OPTIONS_INIT;
                o.kind = kind;
                o.ranks = ranks;
                o.chunks = chunks;
                o.microbatches = microbatches;
                o.is_forward_only = ++round % 5 == 0;
                o.is_fifo_backward = round % 3 == 0;
                accepted += check_size(&o, round);
            }
    return accepted;
}

/* Kinds with one number of chunks make a quarter of the sizes. */
static void every_kind(void **state)
{
    (void)state;
    int least = is_whole ? 16 * 60 : 40;
    for (int kind = 0; kind < KITH_SCHEDULE_CUSTOM; kind++) {
        int accepted = check_kind((kith_schedule_kind)kind);
        if (accepted < least)
            fail_msg("%s: wanted %d plans and more, got %d", kith_schedule_kind_name((kith_schedule_kind)kind), least,
                     accepted);
    }
}

static size_t action_count(const kith_schedule *plan)
{
    size_t total = 0;
    for (int rank = 0; rank < kith_schedule_ranks(plan); rank++) {
        size_t count;
        kith_schedule_actions(plan, rank, &count);
        total += count;
    }
    return total;
}

/* F and B of 256 stages and 1024 microbatches, messages over 255 boundaries both ways, loads, and one of each rank's
 * and stage's own. */
static void large(void **state)
{
    (void)state;
    enum { RANKS = 64, STAGES = 4 * RANKS, MICROBATCHES = 1024 };
    kith_schedule_options o = KITH_SCHEDULE_OPTIONS_INIT;
    o.kind = KITH_SCHEDULE_INTERLEAVED;
    o.ranks = RANKS;
    o.chunks = 4;
    o.microbatches = MICROBATCHES;
    kith_schedule *plan, *lowered;
    assert_int_equal(kith_schedule_create(&o, &plan), KITH_OK);
    assert_int_equal(kith_schedule_lower(plan, NULL, &lowered), KITH_OK);
    assert_int_equal(action_count(plan), 2 * STAGES * MICROBATCHES);
    assert_int_equal(action_count(lowered), 2 * STAGES * MICROBATCHES + 4 * (STAGES - 1) * MICROBATCHES +
                                                2 * MICROBATCHES + STAGES + 2 * RANKS);
    kith_schedule_check_options c = KITH_SCHEDULE_CHECK_OPTIONS_INIT;
    expect_right(lowered, &o, &c, "lowered");
    kith_schedule_destroy(lowered);
    kith_schedule_destroy(plan);
}

int main(int argc, char **argv)
{
    is_whole = argc > 1 && strcmp(argv[1], "whole") == 0;
    const struct CMUnitTest tests[] = { cmocka_unit_test(every_kind), cmocka_unit_test(large) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
