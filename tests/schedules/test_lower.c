/* tests/schedules/test_lower.c - what lowering adds and where, and that taking it away gives the plan back.
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

static kith_schedule *make(kith_schedule_kind kind, int ranks, int microbatches, bool is_forward_only)
{
    kith_schedule_options o = KITH_SCHEDULE_OPTIONS_INIT;
    o.kind = kind;
    o.ranks = ranks;
    o.microbatches = microbatches;
    o.is_forward_only = is_forward_only;
    kith_schedule *plan;
    if (kith_schedule_create(&o, &plan) != KITH_OK)
        fail_msg("%s", kith_error_detail());
    return plan;
}

static kith_schedule *lower(const kith_schedule *plan, const kith_lower_options *o)
{
    kith_schedule *lowered;
    if (kith_schedule_lower(plan, o, &lowered) != KITH_OK)
        fail_msg("%s", kith_error_detail());
    return lowered;
}

static void expect_lists(const kith_schedule *plan, const char *const *wanted)
{
    for (int rank = 0; rank < kith_schedule_ranks(plan); rank++)
        if (strcmp(list_text(plan, rank), wanted[rank]) != 0)
            fail_msg("rank %d\nwanted %s\n   got %s", rank, wanted[rank], list_text(plan, rank));
}

static void expect_lowered(const kith_schedule *plan, const kith_lower_options *o, const char *const *wanted)
{
    kith_schedule *lowered = lower(plan, o);
    expect_lists(lowered, wanted);
    kith_schedule_destroy(lowered);
}

/* 0 F0 F1 | B0 | F2 B1 | B2 of rank 0 and F B F B F B of rank 1: by hand, with F = 1 and B = 2. */
static void by_hand(void **state)
{
    (void)state;
    kith_schedule *plan = make(KITH_SCHEDULE_1F1B, 2, 3, false);
    static const char *const wanted[] = {
        "ZERO_GRAD 0LOAD_INPUT0 0F0 0SEND_F0 0LOAD_INPUT1 0F1 0SEND_F1 0RECV_B0 0B0 0LOAD_INPUT2 0F2 0SEND_F2 0RECV_B1 "
        "0B1 0RECV_B2 0B2 0REDUCE_GRAD OPTIMIZER_STEP",
        "ZERO_GRAD 1RECV_F0 1LOAD_TARGET0 1F0 1RECV_F1 1B0 1SEND_B0 1LOAD_TARGET1 1F1 1B1 1RECV_F2 1SEND_B1 "
        "1LOAD_TARGET2 1F2 1B2 1SEND_B2 1REDUCE_GRAD OPTIMIZER_STEP",
    };
    expect_lowered(plan, NULL, wanted);
    kith_lower_options o = KITH_LOWER_OPTIONS_INIT;
    o.has_load = o.has_zero_grad = 0;
    o.has_recompute = o.has_tied = 1;
    static const char *const tied[] = {
        "0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0RECOMPUTE0 0B0 0F2 0SEND_F2 0RECV_B1 0RECOMPUTE1 0B1 0RECV_B2 0RECOMPUTE2 "
        "0B2 0REDUCE_TIED 0REDUCE_GRAD OPTIMIZER_STEP",
        "1RECV_F0 1F0 1RECV_F1 1RECOMPUTE0 1B0 1SEND_B0 1F1 1RECOMPUTE1 1B1 1RECV_F2 1SEND_B1 1F2 1RECOMPUTE2 1B2 "
        "1SEND_B2 1REDUCE_TIED 1REDUCE_GRAD OPTIMIZER_STEP",
    };
    expect_lowered(plan, &o, tied);
    o = (kith_lower_options)KITH_LOWER_MESSAGES_INIT;
    static const char *const messages[] = {
        "0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0 0F2 0SEND_F2 0RECV_B1 0B1 0RECV_B2 0B2",
        "1RECV_F0 1F0 1RECV_F1 1B0 1SEND_B0 1F1 1B1 1RECV_F2 1SEND_B1 1F2 1B2 1SEND_B2",
    };
    expect_lowered(plan, &o, messages);
    kith_schedule_destroy(plan);
}

static void forward_only(void **state)
{
    (void)state;
    kith_schedule *plan = make(KITH_SCHEDULE_1F1B, 2, 2, true);
    kith_lower_options o = KITH_LOWER_OPTIONS_INIT;
    o.has_recompute = o.has_tied = 1;
    static const char *const wanted[] = {
        "0LOAD_INPUT0 0F0 0SEND_F0 0LOAD_INPUT1 0F1 0SEND_F1",
        "1RECV_F0 1LOAD_TARGET0 1F0 1RECV_F1 1LOAD_TARGET1 1F1",
    };
    expect_lowered(plan, &o, wanted);
    kith_schedule_destroy(plan);
}

/* One rank has the first and the last stage, and one copy of the weight; the turn of the V needs no messages. */
static void v_has_nothing_to_tie(void **state)
{
    (void)state;
    static const char *const lists[] = { "0F0 3F0 3I0 3W0 0B0", "1F0 2F0 . 2B0 1B0" };
    static const char *const wanted[] = {
        "0F0 0SEND_F0 3RECV_F0 3F0 3I0 3SEND_B0 3W0 3REDUCE_GRAD 0RECV_B0 0B0 0REDUCE_GRAD",
        "1RECV_F0 1F0 2F0 2SEND_F0 2RECV_B0 2B0 2REDUCE_GRAD 1B0 1SEND_B0 1REDUCE_GRAD",
    };
    kith_schedule *plan = plan_from(2, 4, 1, true, lists);
    kith_lower_options o = KITH_LOWER_MESSAGES_INIT;
    o.has_reduce = o.has_tied = 1;
    expect_lowered(plan, &o, wanted);
    kith_schedule_destroy(plan);
}

/* Nothing stands inside an overlapped pair: what its parts need comes before, what they make is sent after it. */
static void pairs_stay_together(void **state)
{
    (void)state;
    static const char *const lists[] = { "0F0 0F1 0F2& 0B0 0B1 0B2",
                                         "1UNSHARD 1F0 1F1& 1B0 1F2& 1B1 1RESHARD 1UNSHARD 1B2" };
    static const char *const wanted[] = {
        "0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0RECOMPUTE0 0F2& 0B0 0SEND_F2 0RECV_B1 0RECOMPUTE1 0B1 0RECV_B2 "
        "0RECOMPUTE2 0B2 0REDUCE_GRAD",
        "1UNSHARD 1RECV_F0 1F0 1RECV_F1 1RECOMPUTE0 1F1& 1B0 1SEND_B0 1RECV_F2 1RECOMPUTE1 1F2& 1B1 1SEND_B1 1RESHARD "
        "1UNSHARD 1RECOMPUTE2 1B2 1SEND_B2 1REDUCE_GRAD",
    };
    kith_schedule *plan = plan_from(2, 2, 3, false, lists);
    kith_lower_options o = KITH_LOWER_MESSAGES_INIT;
    o.has_recompute = o.has_reduce = 1;
    expect_lowered(plan, &o, wanted);
    kith_schedule_destroy(plan);
}

/* Costs say what starts before a message is sent. With a slow second stage the first is far ahead; without any costs
 * everything happens at once, and still no receive stands before what can run without it. */
static void costs_order_messages(void **state)
{
    (void)state;
    kith_schedule *plan = make(KITH_SCHEDULE_GPIPE, 2, 3, false);
    kith_stage_cost stages[2] = { KITH_STAGE_COST_INIT, KITH_STAGE_COST_INIT };
    kith_schedule_costs costs = KITH_SCHEDULE_COSTS_INIT;
    kith_lower_options o = KITH_LOWER_MESSAGES_INIT;
    o.costs = &costs;
    costs.stage_count = 2;
    costs.stages = stages;
    stages[1].f = 10;
    static const char *const slow[] = {
        "0F0 0SEND_F0 0F1 0SEND_F1 0F2 0SEND_F2 0RECV_B2 0B2 0RECV_B1 0B1 0RECV_B0 0B0",
        "1RECV_F0 1F0 1RECV_F1 1RECV_F2 1F1 1F2 1B2 1SEND_B2 1B1 1SEND_B1 1B0 1SEND_B0",
    };
    expect_lowered(plan, &o, slow);
    stages[0].f = stages[0].b = stages[1].f = stages[1].b = 0;
    static const char *const nothing[] = {
        "0F0 0SEND_F0 0F1 0SEND_F1 0F2 0SEND_F2 0RECV_B2 0B2 0RECV_B1 0B1 0RECV_B0 0B0",
        "1RECV_F0 1F0 1RECV_F1 1F1 1RECV_F2 1F2 1B2 1SEND_B2 1B1 1SEND_B1 1B0 1SEND_B0",
    };
    expect_lowered(plan, &o, nothing);
    stages[1].f = -1;
    kith_schedule *lowered;
    assert_int_equal(kith_schedule_lower(plan, &o, &lowered), KITH_ERR_INVALID_ARG);
    kith_schedule_destroy(plan);
}

/* ---- properties of every kind ---- */

static double makespan_of(const kith_schedule *plan)
{
    kith_simulation *run;
    if (kith_schedule_simulate(plan, NULL, &run) != KITH_OK)
        fail_msg("%s", kith_error_detail());
    double makespan = kith_simulation_total(run)->makespan;
    kith_simulation_destroy(run);
    return makespan;
}

/* Blocked by each receive in list order, no plan takes longer than its computation does. */
static void receives_hold_nothing_up(void **state)
{
    (void)state;
    for (int kind = 0; kind < KITH_SCHEDULE_CUSTOM; kind++)
        for (int ranks = 1; ranks <= 6; ranks++)
            for (int microbatches = 1; microbatches <= 13; microbatches += 3) {
                kith_schedule *plan = make((kith_schedule_kind)kind, ranks, microbatches, false);
                kith_schedule *lowered = lower(plan, NULL);
                double wanted = makespan_of(plan), first[64], got = strict_clock(lowered, false, first);
                if (got != wanted || makespan_of(lowered) != wanted)
                    fail_msg("%s, p = %d, m = %d: wanted %g, got %g strictly, %g simulated",
                             kith_schedule_kind_name((kith_schedule_kind)kind), ranks, microbatches, wanted, got,
                             makespan_of(lowered));
                if (strict_clock(lowered, true, first) < 0)
                    fail_msg("%s, p = %d, m = %d: waits for itself", kith_schedule_kind_name((kith_schedule_kind)kind),
                             ranks, microbatches);
                kith_schedule_destroy(lowered);
                kith_schedule_destroy(plan);
            }
}

/* Rank r starts at r * F, even where a send waits for its receive: no receive of a later microbatch is in the way. */
static void warm_up_has_no_bubble(void **state)
{
    (void)state;
    static const kith_schedule_kind kinds[] = { KITH_SCHEDULE_NAIVE,       KITH_SCHEDULE_GPIPE,     KITH_SCHEDULE_1F1B,
                                                KITH_SCHEDULE_ZB_H1,       KITH_SCHEDULE_ZB_H2,     KITH_SCHEDULE_ZB_V,
                                                KITH_SCHEDULE_INTERLEAVED, KITH_SCHEDULE_DUALPIPE_V };
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        kith_schedule *plan = make(kinds[i], 8, 16, false), *lowered = lower(plan, NULL);
        for (int is_rendezvous = 0; is_rendezvous < 2; is_rendezvous++) {
            double first[64];
            assert_true(strict_clock(lowered, is_rendezvous, first) > 0);
            for (int rank = 0; rank < 8; rank++)
                if (first[rank] != rank)
                    fail_msg("%s, rank %d, rendezvous %d: wanted a start at %d, got %g",
                             kith_schedule_kind_name(kinds[i]), rank, is_rendezvous, rank, first[rank]);
        }
        kith_schedule_destroy(lowered);
        kith_schedule_destroy(plan);
    }
}

static void expect_same(const kith_schedule *a, const kith_schedule *b)
{
    char *text = NULL;
    for (int rank = 0; rank < kith_schedule_ranks(a); rank++) {
        text = strdup(list_text(a, rank));
        if (strcmp(text, list_text(b, rank)) != 0)
            fail_msg("rank %d\nwanted %s\n   got %s", rank, text, list_text(b, rank));
        free(text);
    }
}

static void compute_only_is_the_reverse(void **state)
{
    (void)state;
    for (int kind = 0; kind < KITH_SCHEDULE_CUSTOM; kind++)
        for (int ranks = 1; ranks <= 5; ranks++) {
            kith_schedule *plan = make((kith_schedule_kind)kind, ranks, 7, ranks == 3), *lowered = lower(plan, NULL),
                          *back;
            assert_int_equal(kith_schedule_compute_only(lowered, &back), KITH_OK);
            expect_same(plan, back);
            assert_true(kith_schedule_is_lowered(lowered));
            assert_false(kith_schedule_is_lowered(back));
            assert_int_equal(kith_schedule_kind_of(lowered), kind);
            assert_int_equal(kith_schedule_kind_of(back), kind);
            const char *note = kith_schedule_note(plan, 0), *kept = kith_schedule_note(back, 0);
            assert_true((note == NULL) == (kept == NULL));
            if (note != NULL)
                assert_string_equal(note, kept);
            kith_schedule_destroy(back);
            kith_schedule_destroy(lowered);
            kith_schedule_destroy(plan);
        }
}

static void expect_refusal(const kith_schedule *plan, const kith_lower_options *o, const char *wanted)
{
    kith_schedule *lowered = NULL;
    assert_int_equal(kith_schedule_lower(plan, o, &lowered), KITH_ERR_INVALID_ARG);
    assert_string_equal(kith_error_detail(), wanted);
    assert_null(lowered);
}

static void refusals(void **state)
{
    (void)state;
    static const char *const bad[] = { "0B0 0F0", "1F0 1B0" };
    kith_schedule *plan = plan_from(2, 2, 1, false, bad);
    expect_refusal(plan, NULL,
                   "the plan cannot run: rank 0, position 0: 0B0 needs 0F0 before it, which comes at position 1 only");
    kith_lower_options o = KITH_LOWER_OPTIONS_INIT;
    o.struct_size = 0;
    expect_refusal(plan, &o, "lowering options were not filled with KITH_LOWER_OPTIONS_INIT");
    kith_schedule_destroy(plan);
    static const char *const again[] = {
        "the plan has loads, reductions or steps already: kith_schedule_compute_only() gives what can be lowered",
        "the plan has messages already: kith_schedule_compute_only() gives what can be lowered",
    };
    for (int ranks = 1; ranks <= 2; ranks++) { /* one rank has no messages to tell it by */
        plan = make(KITH_SCHEDULE_1F1B, ranks, 2, false);
        kith_schedule *lowered = lower(plan, NULL);
        expect_refusal(lowered, NULL, again[ranks - 1]);
        kith_schedule_destroy(lowered);
        kith_schedule_destroy(plan);
    }
    expect_refusal(NULL, NULL, "kith_schedule_lower(): schedule is NULL");
    kith_schedule *back;
    assert_int_equal(kith_schedule_compute_only(NULL, &back), KITH_ERR_INVALID_ARG);
}

/* A mark of overlapping does not jump over what was taken away. */
static void broken_pair(void **state)
{
    (void)state;
    static const char *const lists[] = { "0F0 0F1& 0SEND_F0 0B0" };
    static const char *const wanted[] = { "0F0 0F1 0B0" };
    kith_schedule *plan = plan_from(1, 1, 2, false, lists), *back;
    assert_int_equal(kith_schedule_compute_only(plan, &back), KITH_OK);
    expect_lists(back, wanted);
    kith_schedule_destroy(back);
    kith_schedule_destroy(plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(by_hand),
        cmocka_unit_test(forward_only),
        cmocka_unit_test(v_has_nothing_to_tie),
        cmocka_unit_test(pairs_stay_together),
        cmocka_unit_test(costs_order_messages),
        cmocka_unit_test(receives_hold_nothing_up),
        cmocka_unit_test(warm_up_has_no_bubble),
        cmocka_unit_test(compute_only_is_the_reverse),
        cmocka_unit_test(refusals),
        cmocka_unit_test(broken_pair),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
