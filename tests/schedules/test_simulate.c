/* tests/schedules/test_simulate.c - the clock on plans that can be followed by hand, the formulas of naive, GPipe and
 * 1F1B over ranges, and plans that cannot run.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "simulate_help.h"

#include "core/base/fault.h"
#include "schedules/schedule.h"

#include <time.h>

/* "0-1 1-3": the intervals of a rank's actions. */
static void expect_times(const simulated *s, int rank, const char *wanted)
{
    char got[1024] = "";
    size_t count;
    const kith_interval *at = kith_simulation_intervals(s->run, rank, &count);
    for (size_t i = 0; i < count; i++)
        snprintf(got + strlen(got), sizeof got - strlen(got), "%s%g-%g", i > 0 ? " " : "", at[i].start, at[i].end);
    if (strcmp(got, wanted) != 0)
        fail_msg("%s: rank %d: wanted %s, got %s", s->name, rank, wanted, got);
}

static void expect_in_flight(const simulated *s, const int *wanted)
{
    for (int rank = 0; rank < kith_schedule_ranks(s->plan); rank++) {
        kith_in_flight counted;
        assert_int_equal(kith_schedule_in_flight(s->plan, rank, &counted), KITH_OK);
        expect_figure(s->name, "in flight", kith_simulation_rank(s->run, rank)->in_flight, wanted[rank], 0);
        expect_figure(s->name, "in flight of the list", counted.activations, wanted[rank], 0);
    }
}

/* ---- formulas ---- */

static void test_naive(void **state)
{
    (void)state;
    for (int p = 1; p <= 5; p++)
        for (int m = 1; m <= 6; m++) {
            simulated s = simulate(KITH_SCHEDULE_NAIVE, p, m, 1, "F=2,B=5");
            expect_figure(s.name, "makespan", s.total->makespan, 7 * p * m, 0);
            expect_figure(s.name, "bubble", s.total->bubble, 7 * (p - 1) * m, 0);
            expect_in_flight(&s, (int[]){ 1, 1, 1, 1, 1 });
            discard(&s);
        }
}

static void test_gpipe_and_1f1b(void **state)
{
    static const kith_schedule_kind kinds[] = { KITH_SCHEDULE_GPIPE, KITH_SCHEDULE_1F1B };
    (void)state;
    for (int p = 1; p <= 8; p++)
        for (int m = 1; m <= 17; m++)
            for (int k = 0; k < 2; k++) {
                simulated s = simulate(kinds[k], p, m, 1, "F=3,B=7");
                int in_flight[8];
                for (int rank = 0; rank < p; rank++)
                    in_flight[rank] = k == 0 || m < p - rank ? m : p - rank;
                expect_figure(s.name, "bubble", s.total->bubble, 10 * (p - 1), 0);
                expect_figure(s.name, "rate", s.total->rate, (p - 1) / (double)(m + p - 1), 1e-15);
                expect_figure(s.name, "messages", (double)s.total->sent_count, 2 * m * (p - 1), 0);
                expect_in_flight(&s, in_flight);
                discard(&s);
            }
}

/* The first forward of rank r starts when it can, not later: r (F + C + L). */
static void test_warm_up_is_tight(void **state)
{
    (void)state;
    simulated s = simulate(KITH_SCHEDULE_1F1B, 6, 9, 1, "F=4,B=8,C=2,L=1");
    for (int rank = 0; rank < 6; rank++)
        expect_figure(s.name, "start", kith_simulation_rank(s.run, rank)->start, 7 * rank, 0);
    discard(&s);
}

/* Every kind takes the same time as computation alone and with the messages and all else of a step; and counts the
 * messages that are in its lists. */
static void test_lowered_takes_the_same_time(void **state)
{
    static const char *const costs[] = { "F=3,I=4,W=2", "F=3,I=4,W=2,C=1,L=2", "F=2,B=5,FB=6,C=3" };
    (void)state;
    for (int kind = 0; kind < KITH_SCHEDULE_CUSTOM; kind++)
        for (size_t c = 0; c < sizeof costs / sizeof costs[0]; c++) {
            simulated plain = simulate((kith_schedule_kind)kind, 4, 9, 0, costs[c]);
            kith_schedule *plan;
            assert_int_equal(kith_schedule_lower(plain.plan, NULL, &plan), KITH_OK);
            simulated lowered = simulate_plan(plan, costs[c], plain.name);
            expect_figure(plain.name, "makespan", lowered.total->makespan, plain.total->makespan, 0);
            expect_figure(plain.name, "bubble in the span", lowered.total->span_bubble, plain.total->span_bubble, 0);
            for (int rank = 0; rank < 4; rank++) {
                const kith_simulation_rank_result *a = kith_simulation_rank(plain.run, rank);
                const kith_simulation_rank_result *b = kith_simulation_rank(lowered.run, rank);
                size_t count, sends = 0;
                const kith_action *actions = kith_schedule_actions(plan, rank, &count);
                for (size_t i = 0; i < count; i++)
                    sends += ki_action_is_send(actions[i].type);
                expect_figure(plain.name, "start", b->start, a->start, 0);
                expect_figure(plain.name, "end", b->end, a->end, 0);
                expect_figure(plain.name, "in flight", b->in_flight, a->in_flight, 0);
                expect_figure(plain.name, "peak", b->peak_nbytes, a->peak_nbytes, 0);
                expect_figure(plain.name, "messages", (double)a->sent_count, (double)sends, 0);
            }
            discard(&lowered);
            discard(&plain);
        }
}

/* ---- by hand ---- */

/* Two messages leave at once, and the connection takes them one after the other; the way back is its own. */
static void test_connection_is_filled(void **state)
{
    (void)state;
    kith_schedule *plan = empty_plan("01", 3);
    add_actions(plan, 0, "0F0 0F1 0F2 0B0 0B1 0B2");
    add_actions(plan, 1, "1F0 1B0 1F1 1B1 1F2 1B2");
    simulated s = simulate_plan(plan, "F=1,B=1,C=3,L=2", "connection");
    /* F0 arrives at 1+3+2, F1 leaves at 4, F2 at 7; B0 leaves at 8, B1 at 11, B2 at 14 */
    expect_times(&s, 0, "0-1 1-2 2-3 13-14 16-17 19-20");
    expect_times(&s, 1, "6-7 7-8 9-10 10-11 12-13 13-14");
    expect_figure(s.name, "messages", (double)kith_simulation_rank(s.run, 1)->sent_count, 3, 0);
    expect_figure(s.name, "span bubble of rank 1", kith_simulation_rank(s.run, 1)->span_bubble, 2, 0);
    expect_figure(s.name, "span bubble of rank 0", kith_simulation_rank(s.run, 0)->span_bubble, 14, 0);
    discard(&s);
}

/* Stages 0 and 2 on rank 0, 1 and 3 on rank 1: the activation of 0 and the gradient of 2, made at the same time, go the
 * same way, in the order of the list. */
static void test_stages_share_a_connection(void **state)
{
    (void)state;
    kith_schedule *plan = empty_plan("0101", 2);
    add_actions(plan, 0, "0F0 2F0 (0F1 2B0) 2F1 2B1 0B0 0B1");
    add_actions(plan, 1, "1F0 3F0 3B0 1F1 1B0 3F1 3B1 1B1");
    simulated s = simulate_plan(plan, "F=1,B=2,C=4", "shared");
    expect_times(&s, 0, "0-1 10-11 22-25 22-25 34-35 46-48 48-50 58-60");
    expect_times(&s, 1, "5-6 15-16 16-18 29-30 33-35 39-40 40-42 52-54");
    discard(&s);
}

/* An overlapped pair takes fb and begins when both have their data; without fb it takes their sum. */
static void test_overlap(void **state)
{
    (void)state;
    for (int is_given = 0; is_given < 2; is_given++) {
        kith_schedule *plan = empty_plan("01", 2);
        add_actions(plan, 0, "0F0 (0F1 0B0) 0B1");
        add_actions(plan, 1, "1F0 1B0 1F1 1B1");
        simulated s = simulate_plan(plan, is_given ? "F=1,B=2,FB=2.5" : "F=1,B=2", "overlap");
        expect_times(&s, 0, is_given ? "0-1 4-6.5 4-6.5 9.5-11.5" : "0-1 4-7 4-7 10-12");
        expect_times(&s, 1, is_given ? "1-2 2-4 6.5-7.5 7.5-9.5" : "1-2 2-4 7-8 8-10");
        expect_figure(s.name, "busy", kith_simulation_rank(s.run, 0)->busy, is_given ? 5.5 : 6, 0);
        expect_figure(s.name, "in flight", kith_simulation_rank(s.run, 0)->in_flight, 2, 0);
        discard(&s);
    }
}

/* A pair of two stages takes the mean of their fb; with an I, what is left of it without W. */
static void test_overlap_of_two_stages(void **state)
{
    (void)state;
    kith_stage_cost stages[2] = { KITH_STAGE_COST_INIT, KITH_STAGE_COST_INIT };
    kith_schedule_costs costs = KITH_SCHEDULE_COSTS_INIT;
    stages[0].fb = 3;
    stages[1].fb = 5;
    stages[1].w = 1.5;
    costs.stage_count = 2;
    costs.stages = stages;
    kith_schedule *plan = empty_plan("00", 2);
    add_actions(plan, 0, "0F0 1F0 (0F1 1I0) 1W0 0B0 1F1 1B1 0B1");
    simulated s = { .plan = plan, .name = "two stages" };
    assert_int_equal(kith_schedule_simulate(plan, &costs, &s.run), KITH_OK);
    expect_times(&s, 0, "0-1 1-2 2-4.5 2-4.5 4.5-6 6-8 8-9 9-11.5 11.5-13.5");
    discard(&s);
}

/* Both are held then: the forward's that begins, the backward's that has not ended. */
static void test_overlap_holds_both(void **state)
{
    (void)state;
    kith_schedule *plan = empty_plan("0", 2);
    add_actions(plan, 0, "0F0 (0F1 0B0) 0B1");
    simulated s = simulate_plan(plan, "F=1,B=2,FB=2,A=10", "held");
    expect_in_flight(&s, (int[]){ 2 });
    expect_figure(s.name, "bytes", kith_simulation_rank(s.run, 0)->peak_nbytes, 20, 0);
    discard(&s);
}

static void test_memory(void **state)
{
    (void)state;
    kith_schedule *plan = empty_plan("0", 3);
    add_actions(plan, 0, "0F0 0F1 0I0 0I1 0F2 0I2 0W0 0W1 0W2");
    simulated s = simulate_plan(plan, "A=10,G=4", "memory");
    const kith_simulation_rank_result *r = kith_simulation_rank(s.run, 0);
    expect_figure(s.name, "in flight", r->in_flight, 2, 0);
    expect_figure(s.name, "for W", r->in_flight_weights, 3, 0);
    expect_figure(s.name, "held", r->held, 3, 0);
    expect_figure(s.name, "bytes", r->peak_nbytes, 20, 0); /* two activations; 4 + 4 + 10 = 18 later */
    discard(&s);
}

/* A plan without backward keeps nothing: one activation while its forward runs. */
static void test_forward_only(void **state)
{
    (void)state;
    kith_schedule *plan = empty_plan("01", 3);
    add_actions(plan, 0, "0F0 0F1 0F2");
    add_actions(plan, 1, "1F0 1F1 1F2");
    simulated s = simulate_plan(plan, "F=2,L=1", "forward");
    expect_figure(s.name, "makespan", s.total->makespan, 9, 0);
    expect_in_flight(&s, (int[]){ 1, 1 });
    expect_figure(s.name, "messages", (double)s.total->sent_count, 3, 0);
    discard(&s);
}

/* What does not compute takes no time, wherever it stands, and does not lengthen a span. */
static void test_messages_in_lists(void **state)
{
    (void)state;
    kith_schedule *plan = empty_plan("01", 2);
    add_actions(plan, 0,
                "ZERO_GRAD 0LOAD_INPUT0 0F0 0SEND_F0 - 0F1 0SEND_F1 0RECV_B0 0B0 0RECV_B1 0B1 0REDUCE_GRAD "
                "OPTIMIZER_STEP");
    add_actions(plan, 1, "ZERO_GRAD 1RECV_F0 1RECV_F1 1F0 1RECOMPUTE0 1B0 1SEND_B0 1F1 1B1 1SEND_B1 OPTIMIZER_STEP");
    simulated s = simulate_plan(plan, "F=1,B=2,C=2,L=1,R=1.5", "lowered");
    expect_times(&s, 0, "0-0 0-0 0-1 1-1 1-1 1-2 3-3 11.5-11.5 11.5-13.5 14.5-14.5 14.5-16.5 16.5-16.5 16.5-16.5");
    expect_times(&s, 1, "0-0 4-4 6-6 4-5 5-6.5 6.5-8.5 8.5-8.5 8.5-9.5 9.5-11.5 11.5-11.5 11.5-11.5");
    expect_figure(s.name, "start of rank 1", kith_simulation_rank(s.run, 1)->start, 4, 0);
    expect_figure(s.name, "busy of rank 1", kith_simulation_rank(s.run, 1)->busy, 7.5, 0);
    discard(&s);
}

/* Costs of a boundary stand at the stage below it, for both directions. */
static void test_costs_of_stages(void **state)
{
    (void)state;
    kith_stage_cost stages[3] = { KITH_STAGE_COST_INIT, KITH_STAGE_COST_INIT, KITH_STAGE_COST_INIT };
    kith_schedule_costs costs = KITH_SCHEDULE_COSTS_INIT;
    stages[0].send = 10;
    stages[0].message_nbytes = 100;
    stages[1].latency = 5;
    stages[1].b = 4;
    stages[2].send = stages[2].latency = stages[2].message_nbytes = 1000; /* there is no boundary behind it */
    costs.stage_count = 3;
    costs.stages = stages;
    kith_schedule *plan = empty_plan("012", 1);
    add_actions(plan, 0, "0F0 0B0");
    add_actions(plan, 1, "1F0 1B0");
    add_actions(plan, 2, "2F0 2B0");
    simulated s = { .plan = plan, .name = "stages" };
    assert_int_equal(kith_schedule_simulate(plan, &costs, &s.run), KITH_OK);
    expect_times(&s, 2, "17-18 18-20");
    expect_times(&s, 1, "11-12 25-29");
    expect_times(&s, 0, "0-1 39-41");
    expect_figure(s.name, "bytes of rank 0", kith_simulation_rank(s.run, 0)->sent_nbytes, 100, 0);
    expect_figure(s.name, "bytes of rank 1", kith_simulation_rank(s.run, 1)->sent_nbytes, 101, 0);
    discard(&s);
}

static void test_no_time_at_all(void **state)
{
    (void)state;
    simulated s = simulate(KITH_SCHEDULE_1F1B, 3, 4, 1, "F=0,B=0");
    expect_figure(s.name, "makespan", s.total->makespan, 0, 0);
    expect_figure(s.name, "rate", s.total->rate + s.total->span_rate, 0, 0);
    discard(&s);
}

/* ---- plans that cannot run ---- */

static void expect_refused(const char *stages, int microbatches, const char *const *lists, const char *words)
{
    kith_schedule *plan = empty_plan(stages, microbatches);
    kith_simulation *run = NULL;
    for (int rank = 0; rank < kith_schedule_ranks(plan); rank++)
        add_actions(plan, rank, lists[rank]);
    expect_failure(kith_schedule_simulate(plan, NULL, &run), KITH_ERR_INVALID_ARG, words);
    assert_null(run);
    kith_schedule_destroy(plan);
}

static void test_plans_that_cannot_run(void **state)
{
    static const struct {
        const char *stages;
        int microbatches;
        const char *lists[3], *words;
    } rows[] = {
        { "01",
          2,
          { "0F0 0B0 0F1 0B1", "1F0 1F1 1B0 1B1" },
          "rank 0, action 1, 0B0 waits for 1B0 of rank 1, its action 2; rank 1, action 1, 1F1 waits for 0F1 of rank 0, "
          "its action 2" },
        { "01", 1, { "0F0 0B0", "1F0" }, "rank 0, action 1, 0B0 waits for 1B0 of rank 1, which is not in its list" },
        { "012",
          1,
          { "0F0 0B0", "1F0 1B0", "2F0" },
          "rank 1, action 1, 1B0 waits for 2B0 of rank 2, which is not in its list" },
        { "01", 2, { "0F0 0F0", "1F0 1F1" }, "rank 0, action 1, 0F0: this forward was there before" },
        { "0", 1, { "0B0 0F0" }, "rank 0, action 0, 0B0: its forward has not come before it" },
        { "0", 1, { "0F0 0B0 0I0" }, "action 2, 0I0: its backward was there before" },
        { "0", 1, { "0F0 0W0" }, "action 1, 0W0: its backward for inputs (I) has not come before it" },
        { "0", 1, { "0F0 0B0 0W0" }, "action 2, 0W0: its backward for weights was there before" },
        { "0", 1, { "0RECOMPUTE0 0F0" }, "action 0, 0RECOMPUTE0: its forward has not come before it" },
        { "01", 1, { "0F0 1F0", "1F0" }, "rank 0, action 1, 1F0: the stage lies on another rank" },
        { "01", 1, { "0F0 1REDUCE_GRAD", "1F0" }, "rank 0, action 1, 1REDUCE_GRAD: the stage lies on another rank" },
        { "0", 2, { "0F0 (0F1 0F0)" }, "action 1, 0F1: only an F and, next, the B or I of another microbatch overlap" },
        { "0", 2, { "0F0 0B0 (0F1" }, "action 2, 0F1: only an F and, next, the B or I of another microbatch overlap" },
        { "0",
          2,
          { "0F0 (0B0 0F1) 0B1" },
          "action 1, 0B0: only an F and, next, the B or I of another microbatch overlap" },
        { "0", 2, { "0F0 (0F1 (0B0 0B1" }, "action 2, 0B0: two actions overlap, not three" },
        { "0", 1, { "(0F0 0B0" }, "action 0, 0F0: only an F and, next, the B or I of another microbatch overlap" },
        { "01", 1, { "0F0 0SEND_B0", "1F0" }, "rank 0, action 1, 0SEND_B0: no message goes that way" },
        { "01", 1, { "0F0", "1F0 1SEND_F0" }, "rank 1, action 1, 1SEND_F0: no message goes that way" },
        { "00", 1, { "0F0 0SEND_F0 1F0" }, "action 1, 0SEND_F0: no message goes that way" },
        { "01", 1, { "0F0 0RECV_B0", "1F0" }, "rank 0, action 1, 0RECV_B0: no rank makes these data" },
        { "0", 3, { "0F0 0F1" }, "2 actions for 1 stage and 3 microbatches" },
        { "0", 3, { "0F0 0B0 0F2" }, "1 forwards of 3 are missing" },
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        expect_refused(rows[i].stages, rows[i].microbatches, rows[i].lists, rows[i].words);
}

/* A ring of more ranks than a sentence names, entered from a rank that is not on it: stage 40 waits for the ring of 20
 * ranks, whose first one wants to go on with stage 20 before it has begun with stage 0. */
static void test_long_ring(void **state)
{
    (void)state;
    int rank_of_stage[41];
    kith_schedule *plan;
    kith_simulation *run;
    for (int stage = 0; stage < 41; stage++)
        rank_of_stage[stage] = stage < 40 ? 1 + stage % 20 : 0;
    assert_int_equal(kith_schedule_create_custom(21, 41, rank_of_stage, 1, &plan), KITH_OK);
    add_actions(plan, 0, "40F0");
    add_actions(plan, 1, "20F0 0F0");
    for (int rank = 2; rank <= 20; rank++) {
        char list[32];
        snprintf(list, sizeof list, "%dF0 %dF0", rank - 1, rank + 19);
        add_actions(plan, rank, list);
    }
    expect_failure(kith_schedule_simulate(plan, NULL, &run), KITH_ERR_INVALID_ARG, "; and so on, round to rank");
    assert_null(strstr(kith_error_detail(), "rank 0"));
    kith_schedule_destroy(plan);
}

static void test_costs_that_are_refused(void **state)
{
    static const struct {
        double f, latency;
        int stage_count;
        const char *words;
    } rows[] = {
        { -1, 0, 0, "costs: f of each stage is -1: it has to be finite and not negative" },
        { NAN, 0, 0, "costs: f of each stage is nan" },
        { INFINITY, 0, 0, "costs: f of each stage is inf" },
        { 1e308, 0, 0, "beyond double" },
        { 1, 1e308, 0, "beyond double" },
        { 1, 0, 3,
          "costs of 3 stages that are NULL for a plan of 2: it takes the cost of each stage, or one that holds for "
          "all" },
    };
    (void)state;
    kith_schedule_options o = KITH_SCHEDULE_OPTIONS_INIT;
    kith_schedule *plan;
    kith_simulation *run = NULL;
    o.ranks = 2;
    o.microbatches = 2;
    assert_int_equal(kith_schedule_create(&o, &plan), KITH_OK);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        kith_schedule_costs costs = KITH_SCHEDULE_COSTS_INIT;
        costs.same.f = rows[i].f;
        costs.same.latency = rows[i].latency;
        costs.stage_count = rows[i].stage_count;
        expect_failure(kith_schedule_simulate(plan, &costs, &run), KITH_ERR_INVALID_ARG, rows[i].words);
    }
    kith_schedule_costs unset = { 0 };
    expect_failure(kith_schedule_simulate(plan, &unset, &run), KITH_ERR_INVALID_ARG, "KITH_SCHEDULE_COSTS_INIT");
    kith_schedule_costs open = KITH_SCHEDULE_COSTS_INIT;
    open.same.b = -INFINITY;
    expect_failure(kith_schedule_simulate(plan, &open, &run), KITH_ERR_INVALID_ARG, "costs: b of each stage is -inf");
    expect_failure(kith_schedule_simulate(NULL, NULL, &run), KITH_ERR_INVALID_ARG, "schedule is NULL");
    expect_failure(kith_schedule_simulate(plan, NULL, NULL), KITH_ERR_INVALID_ARG, "simulation is NULL");
    assert_null(run);
    assert_null(kith_simulation_total(NULL));
    kith_schedule_destroy(plan);
}

/* A plan as large as plans may be, without actions: refused before memory is asked for. */
static void test_empty_and_large(void **state)
{
    (void)state;
    int *rank_of_stage = calloc(KI_STAGES_MAX, sizeof *rank_of_stage);
    kith_schedule *plan;
    kith_simulation *run;
    assert_non_null(rank_of_stage);
    int microbatches = KI_PAIRS_MAX / KI_STAGES_MAX;
    assert_int_equal(kith_schedule_create_custom(1, KI_STAGES_MAX, rank_of_stage, microbatches, &plan), KITH_OK);
    expect_failure(kith_schedule_simulate(plan, NULL, &run), KITH_ERR_INVALID_ARG, "the plan is not complete");
    kith_schedule_destroy(plan);
    free(rank_of_stage);
}

/* ---- size, and failures of allocation ---- */

static void test_large(void **state)
{
    (void)state;
    simulated s = simulate(KITH_SCHEDULE_LOOPED_BFS, 64, 1024, 4, "F=1,B=2");
    /* breadth first: v m (F + B) and the ramps of the first and the last rank */
    expect_figure(s.name, "makespan", s.total->makespan, 4 * 1024 * 3 + 63 * 3, 0);
    expect_figure(s.name, "messages", (double)s.total->sent_count, 2 * 1024 * (64 * 4 - 1), 0);
    discard(&s);
    s = simulate(KITH_SCHEDULE_INTERLEAVED, 64, 1024, 4, "F=1,B=2");
    expect_figure(s.name, "bubble", s.total->bubble, 63 * 3, 0);
    discard(&s);
}

static void test_no_memory(void **state)
{
    (void)state;
    kith_schedule *plan = empty_plan("01", 1);
    add_actions(plan, 0, "0F0 0SEND_F0 0B0");
    add_actions(plan, 1, "1F0 1B0");
    kith_simulation *run = NULL;
    kith_status status = KITH_ERR_NO_MEMORY;
    int failed = 0;
    for (int n = 1; status == KITH_ERR_NO_MEMORY; n++) {
        char fault[32];
        snprintf(fault, sizeof fault, "alloc:%d", n);
        setenv("KITH_FAULT", fault, 1);
        assert_int_equal(ki_fault_configure(0), KITH_OK);
        status = kith_schedule_simulate(plan, NULL, &run);
        failed += status == KITH_ERR_NO_MEMORY;
    }
    unsetenv("KITH_FAULT");
    ki_fault_configure(0);
    assert_int_equal(status, KITH_OK);
    if (failed < 15)
        fail_msg("wanted at least 15 allocations, got %d", failed);
    kith_simulation_destroy(run);
    kith_schedule_destroy(plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_naive),
        cmocka_unit_test(test_gpipe_and_1f1b),
        cmocka_unit_test(test_warm_up_is_tight),
        cmocka_unit_test(test_lowered_takes_the_same_time),
        cmocka_unit_test(test_connection_is_filled),
        cmocka_unit_test(test_stages_share_a_connection),
        cmocka_unit_test(test_overlap),
        cmocka_unit_test(test_overlap_of_two_stages),
        cmocka_unit_test(test_overlap_holds_both),
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_forward_only),
        cmocka_unit_test(test_messages_in_lists),
        cmocka_unit_test(test_costs_of_stages),
        cmocka_unit_test(test_no_time_at_all),
        cmocka_unit_test(test_plans_that_cannot_run),
        cmocka_unit_test(test_long_ring),
        cmocka_unit_test(test_costs_that_are_refused),
        cmocka_unit_test(test_empty_and_large),
        cmocka_unit_test(test_large),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
