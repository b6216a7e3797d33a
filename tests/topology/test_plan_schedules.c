/* tests/topology/test_plan_schedules.c - plans with every kind of schedule: their figures are those of the schedule
 * itself, made with all its microbatches and simulated.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "plan_expect.h"
#include "topology/plan_parts.h"

#include <stdio.h>

/* What the schedule says. */
typedef struct truth {
    double idle, idle_in_stage;
    double in_flight[KI_PIPE_RANKS];
    double message_count;
    bool is_v;
} truth;

/* weight_nbytes: held for W; 1: as much as for I. */
static truth ask_with(const ki_layout_pipe *pipe, double weight_nbytes)
{
    truth found = { .in_flight = { 0, 0, 0 } };
    kith_schedule_costs costs = KITH_SCHEDULE_COSTS_INIT;
    kith_schedule_options o = KITH_SCHEDULE_OPTIONS_INIT;
    kith_schedule *schedule;
    kith_simulation *run;
    o.kind = pipe->kind;
    o.ranks = pipe->pp;
    o.chunks = pipe->chunks;
    o.microbatches = (int)pipe->microbatches;
    costs.same.f = pipe->times.forward_s / pipe->chunks;
    costs.same.i = pipe->times.input_s / pipe->chunks;
    costs.same.w = pipe->times.weight_s / pipe->chunks;
    costs.same.weight_nbytes = weight_nbytes;
    o.costs = &costs;
    if (kith_schedule_create(&o, &schedule) != KITH_OK || kith_schedule_simulate(schedule, &costs, &run) != KITH_OK)
        fail_msg("%s", kith_error_detail());
    found.idle = kith_simulation_total(run)->bubble;
    found.idle_in_stage = kith_simulation_total(run)->span_bubble;
    found.message_count = (double)kith_simulation_total(run)->sent_count;
    found.is_v = pipe->pp > 1 && kith_schedule_rank_of_stage(schedule, kith_schedule_stages(schedule) - 1) == 0;
    for (int rank = 0; rank < pipe->pp; rank++) {
        int place = rank == 0 ? KI_FIRST_RANK : rank == pipe->pp - 1 ? KI_LAST_RANK : KI_INNER_RANK;
        found.in_flight[place] =
            fmax(found.in_flight[place], (double)kith_simulation_rank(run, rank)->held / pipe->chunks);
    }
    kith_simulation_destroy(run);
    kith_schedule_destroy(schedule);
    return found;
}

static truth ask_schedule(const ki_layout_pipe *pipe)
{
    return ask_with(pipe, 1);
}

static double all_of(const ki_layout_pipe *pipe)
{
    return pipe->times.forward_s + pipe->times.input_s + pipe->times.weight_s;
}

static void expect_figures(const ki_layout_pipe *pipe, ki_layout_memo *memo)
{
    char what[128];
    ki_layout_figures figures;
    truth wanted = ask_schedule(pipe);
    double work = pipe->microbatches * all_of(pipe);
    snprintf(what, sizeof what, "%s, pp %d, %d chunks, %g microbatches, F %.17g I %.17g W %.17g",
             kith_schedule_kind_name(pipe->kind), pipe->pp, pipe->chunks, pipe->microbatches, pipe->times.forward_s,
             pipe->times.input_s, pipe->times.weight_s);
    if (ki_layout_run_pipe(pipe, memo, &figures) != KITH_OK)
        fail_msg("%s: %s", what, kith_error_detail());
    /* differences of sums: as near as the sums are */
    if (fabs(figures.bubble * work - wanted.idle) > 1e-10 * (work + wanted.idle))
        fail_msg("%s: bubble: wanted %.17g, got %.17g", what, wanted.idle, figures.bubble * work);
    if (fabs(figures.bubble_in_stage * work - wanted.idle_in_stage) > 1e-10 * (work + wanted.idle))
        fail_msg("%s: in stage: wanted %.17g, got %.17g", what, wanted.idle_in_stage, figures.bubble_in_stage * work);
    for (int i = 0; i < KI_PIPE_RANKS; i++)
        if (i == KI_FIRST_RANK || pipe->pp > (i == KI_INNER_RANK ? 2 : 1))
            expect_near(what, figures.in_flight[i], wanted.in_flight[i], 0);
    double all;
    ki_layout_messages(pipe->kind, pipe->pp, pipe->chunks, pipe->microbatches, &all);
    expect_near(what, 2 * all, wanted.message_count, 0);
    assert_int_equal(pipe->pp > 1 && ki_layout_is_v(pipe->kind), wanted.is_v);
}

static unsigned next_random(unsigned *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

/* For `auto` so that proportions are exact: of plans that are equally good, rounding may choose another. */
static ki_layout_times random_times(unsigned *seed, kith_schedule_kind kind)
{
    double f = next_random(seed) % 100 + 1, i = next_random(seed) % 100 + 1, w = next_random(seed) % 100 + 1;
    return kind == KITH_SCHEDULE_AUTO ? (ki_layout_times){ f, i, 256 - f - i }
                                      : (ki_layout_times){ f / 7, i / 7, w / 7 };
}

/* Random proportions of F, I and W, numbers of microbatches from one to many times pp, with every rest. */
static void test_every_kind_as_simulated(void **state)
{
    unsigned seed = 1;
    ki_layout_memo memo = { 0 };
    (void)state;
    for (int kind = KITH_SCHEDULE_NAIVE; kind < KITH_SCHEDULE_CUSTOM; kind++)
        for (int i = 0; i < 150; i++) {
            ki_layout_pipe pipe = { .kind = (kith_schedule_kind)kind, .pp = 1 + (int)(next_random(&seed) % 9) };
            bool has_any = kind == KITH_SCHEDULE_NAIVE || ki_layout_is_looped(pipe.kind);
            pipe.chunks = has_any ? 1 + (int)(next_random(&seed) % 4) : ki_layout_is_v(pipe.kind) ? 2 : 1;
            pipe.microbatches = 1 + next_random(&seed) % (i % 5 == 0 ? 150 : 25);
            pipe.times = random_times(&seed, pipe.kind);
            expect_figures(&pipe, i % 2 == 0 ? &memo : NULL);
        }
    assert_true(memo.count > 100);
    ki_layout_memo_fini(&memo);
}

/* Up to what its search can do quickly `auto` is looked at whole; beyond, it is near, and never better than it is. */
static void test_auto_of_many_microbatches(void **state)
{
    ki_layout_pipe pipe = { KITH_SCHEDULE_AUTO, 4, 1, 2000, { 10, 13, 8 } };
    ki_layout_figures figures;
    (void)state;
    truth wanted = ask_schedule(&pipe);
    assert_int_equal(ki_layout_run_pipe(&pipe, NULL, &figures), KITH_OK);
    expect_near("bubble", figures.bubble * 2000 * 31, wanted.idle, 0.05);
}

/* `auto` fills the memory that it is allowed, and idles less the less waits for W. A plan counts that as a whole
 * microbatch, so that it never holds more than p; made with A=1,G=1 kith_schedule_create()'s is the same. */
static void test_auto_counts_what_waits(void **state)
{
    (void)state;
    for (int m = 5; m <= 9; m += 4) {
        kith_model model = named("llama-2-7b");
        kith_plan_options options = options_of(1, 2, 1, 2048);
        options.schedule = KITH_SCHEDULE_AUTO;
        options.microbatches = m;
        kith_plan plan = make(&model, &options);
        ki_layout_pipe pipe = { KITH_SCHEDULE_AUTO, 2, 1, m, ki_layout_count_times(&plan) };
        double work = m * all_of(&pipe);
        truth whole = ask_with(&pipe, 1), nothing = ask_with(&pipe, 0);
        expect_near("whole", plan.bubble, whole.idle / work, 1e-9);
        expect_near("held", plan.memory.in_flight, 2, 0);
        expect_near("held", whole.in_flight[KI_FIRST_RANK], 2, 0);
        assert_true(nothing.idle < whole.idle * 0.95);
        assert_true(nothing.in_flight[KI_FIRST_RANK] > 2);
        assert_non_null(strstr(plan.notes[plan.note_count - 1], "A=1,G=1"));
    }
}

static void expect_plan(kith_schedule_kind kind, int pp, int64_t microbatches)
{
    kith_model model = named("llama-2-7b");
    kith_plan_options o = options_of(1, pp, 1, 1024);
    o.schedule = kind;
    o.microbatches = microbatches;
    kith_plan plan = make(&model, &o);
    ki_layout_pipe pipe = { kind, pp, plan.options.chunks, (double)microbatches, ki_layout_count_times(&plan) };
    truth wanted = ask_schedule(&pipe);
    double work = pipe.microbatches * all_of(&pipe);
    expect_near(kith_schedule_kind_name(kind), plan.bubble, wanted.idle / work, 1e-9);
    int place = plan.memory.stage == 0 ? KI_FIRST_RANK : plan.memory.stage == pp - 1 ? KI_LAST_RANK : KI_INNER_RANK;
    expect_near(kith_schedule_kind_name(kind), plan.memory.in_flight, wanted.in_flight[place], 0);
    assert_int_equal(plan.options.chunks, ki_layout_is_v(kind) || ki_layout_is_looped(kind) ? 2 : 1);
}

/* The plan's own lines. */
static void test_plans_of_every_kind(void **state)
{
    (void)state;
    for (int kind = KITH_SCHEDULE_NAIVE; kind < KITH_SCHEDULE_CUSTOM; kind++) {
        expect_plan((kith_schedule_kind)kind, 4, 16);
        expect_plan((kith_schedule_kind)kind, 8, 5);
    }
}

/* A search remembers what it has simulated: its plans are those that are made alone. */
static void test_search_as_alone(void **state)
{
    static const kith_schedule_kind kinds[] = { KITH_SCHEDULE_ZB_V, KITH_SCHEDULE_INTERLEAVED_ZB, KITH_SCHEDULE_AUTO };
    static kith_plan plans[40];
    kith_model model = named("llama-2-7b");
    (void)state;
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        kith_plan_options o = options_of(0, 0, 1, 1024);
        int count, tried;
        o.schedule = kinds[k];
        o.global_batch = 96;
        if (kith_plan_search(NULL, &model, &o, 32, plans, 40, &count, &tried) != KITH_OK)
            fail_msg("%s", kith_error_detail());
        assert_int_equal(count, 40);
        for (int i = 0; i < count; i++) {
            kith_plan alone = make(&model, &plans[i].options);
            expect_near("bubble", plans[i].bubble, alone.bubble, 0);
            expect_near("in flight", plans[i].memory.in_flight, alone.memory.in_flight, 0);
            expect_near("step", plans[i].step_s[0], alone.step_s[0], 0);
        }
    }
}

/* What is too long to be simulated is refused; a formula holds for any length. */
static void test_long_pipelines(void **state)
{
    kith_model model = named("llama-2-7b");
    kith_plan_options o = options_of(1, 5000, 1, 128);
    kith_plan plan;
    (void)state;
    model.layers = 100000;
    o.microbatches = 3;
    o.schedule = KITH_SCHEDULE_1F1B;
    expect_near("formula", make(&model, &o).bubble, 4999.0 / 3, 1e-14);
    o.schedule = KITH_SCHEDULE_ZB_H1;
    expect_refused("ranks", kith_plan_make(NULL, &model, &o, &plan), KITH_ERR_INVALID_ARG, "pp up to 4096");
    o.pp = 1000;
    o.microbatches = 3;
    expect_near("few microbatches", make(&model, &o).memory.in_flight, 3, 0);
    o.microbatches = 1 << 30;
    expect_refused("many of them", kith_plan_make(NULL, &model, &o, &plan), KITH_ERR_INVALID_ARG,
                   "too long for the schedule zb-h1");
    o.schedule = KITH_SCHEDULE_CUSTOM;
    expect_refused("no kind", kith_plan_make(NULL, &model, &o, &plan), KITH_ERR_INVALID_ARG, "the schedule is 11");
}

static void expect_no_chunks(kith_schedule_kind kind, int pp, int chunks)
{
    kith_model model = named("llama-2-7b");
    kith_plan_options o = options_of(1, pp, 1, 1024);
    kith_schedule_options same = KITH_SCHEDULE_OPTIONS_INIT;
    kith_schedule *schedule;
    kith_plan plan;
    char sentence[256];
    int count, tried;
    same.kind = kind;
    same.ranks = pp;
    same.microbatches = 4;
    same.chunks = chunks;
    expect_refused("schedule", kith_schedule_create(&same, &schedule), KITH_ERR_INVALID_ARG, "chunks a rank");
    snprintf(sentence, sizeof sentence, "%s", kith_error_detail());
    o.schedule = kind;
    o.microbatches = 4;
    o.chunks = chunks;
    expect_refused("plan", kith_plan_make(NULL, &model, &o, &plan), KITH_ERR_INVALID_ARG, sentence);
    o.pp = 0;
    expect_refused("search", kith_plan_search(NULL, &model, &o, 8, &plan, 1, &count, &tried), KITH_ERR_INVALID_ARG,
                   sentence);
}

/* What the schedule refuses the plan refuses, in the same words; what it takes the plan takes. */
static void test_chunks_that_no_schedule_has(void **state)
{
    kith_model model = named("llama-2-7b");
    kith_plan_options o = options_of(1, 2, 1, 1024);
    (void)state;
    for (int kind = KITH_SCHEDULE_NAIVE; kind < KITH_SCHEDULE_CUSTOM; kind++)
        for (int chunks = 1; chunks <= 4; chunks *= 2) {
            bool is_v = ki_layout_is_v((kith_schedule_kind)kind);
            bool has_any = kind == KITH_SCHEDULE_NAIVE || ki_layout_is_looped((kith_schedule_kind)kind);
            o.schedule = (kith_schedule_kind)kind;
            o.chunks = chunks;
            if (has_any || chunks == (is_v ? 2 : 1)) {
                assert_int_equal(make(&model, &o).options.chunks, chunks);
            } else {
                expect_no_chunks((kith_schedule_kind)kind, 1, chunks);
                expect_no_chunks((kith_schedule_kind)kind, 2, chunks);
            }
        }
    o.schedule = KITH_SCHEDULE_ZB_V;
    o.chunks = -1;
    kith_plan plan;
    expect_refused("negative", kith_plan_make(NULL, &model, &o, &plan), KITH_ERR_INVALID_ARG, "number of chunks is -1");
}

/* Without a pipeline a schedule still says how many microbatches are held. */
static void test_one_stage(void **state)
{
    static const struct {
        kith_schedule_kind kind;
        double held;
    } cases[] = {
        { KITH_SCHEDULE_NAIVE, 1 },       { KITH_SCHEDULE_GPIPE, 8 },        { KITH_SCHEDULE_1F1B, 1 },
        { KITH_SCHEDULE_INTERLEAVED, 1 }, { KITH_SCHEDULE_ZB_H1, 1 },        { KITH_SCHEDULE_ZB_V, 1 },
        { KITH_SCHEDULE_LOOPED_BFS, 8 },  { KITH_SCHEDULE_DUALPIPE_V, 1.5 }, { KITH_SCHEDULE_AUTO, 1 },
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        kith_model model = named("llama-2-7b");
        kith_plan_options o = options_of(1, 1, 1, 1024);
        o.schedule = cases[i].kind;
        o.microbatches = 8;
        kith_plan plan = make(&model, &o);
        expect_near(kith_schedule_kind_name(cases[i].kind), plan.memory.in_flight, cases[i].held, 0);
        expect_near(kith_schedule_kind_name(cases[i].kind), plan.bubble, 0, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_kind_as_simulated),
        cmocka_unit_test(test_auto_of_many_microbatches),
        cmocka_unit_test(test_plans_of_every_kind),
        cmocka_unit_test(test_search_as_alone),
        cmocka_unit_test(test_long_pipelines),
        cmocka_unit_test(test_auto_counts_what_waits),
        cmocka_unit_test(test_chunks_that_no_schedule_has),
        cmocka_unit_test(test_one_stage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
