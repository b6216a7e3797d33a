/* tests/schedules/test_auto.c - automatic plans: published bubble rates, bounds that hold, never worse than the plans
 * made by hand, and what is refused.
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

static kith_schedule_costs costs_of(double f, double i, double w, double send)
{
    kith_schedule_costs costs = KITH_SCHEDULE_COSTS_INIT;
    costs.same.f = f;
    costs.same.i = i;
    costs.same.w = w;
    costs.same.send = send;
    return costs;
}

static kith_schedule_options options(int p, int m, const kith_schedule_costs *costs, double bound)
{
    kith_schedule_options o = KITH_SCHEDULE_OPTIONS_INIT;
    o.kind = KIND(AUTO);
    o.ranks = p;
    o.microbatches = m;
    o.costs = costs;
    o.memory_bound = bound;
    return o;
}

static double span_of(kith_schedule *plan, const kith_stage_cost *cost)
{
    plan_clock clock;
    if (!plan_run(plan, (plan_times){ cost->f, cost->i, cost->w, -1, cost->send }, &clock))
        fail_msg("%s waits for itself", kith_schedule_kind_name(kith_schedule_kind_of(plan)));
    kith_schedule_destroy(plan);
    return clock.longest_span;
}

/* The most bytes along a rank's list. */
static double peak_of(const kith_schedule *plan, int rank, const kith_stage_cost *cost)
{
    size_t count;
    const kith_action *list = kith_schedule_actions(plan, rank, &count);
    double held = 0, peak = 0;
    for (size_t i = 0; i < count; i++) {
        if (list[i].type == KITH_ACTION_F)
            held += cost->activation_nbytes;
        else if (list[i].type == KITH_ACTION_I)
            held += cost->weight_nbytes - cost->activation_nbytes;
        else
            held -= cost->weight_nbytes;
        peak = fmax(peak, held);
    }
    return peak;
}

static void expect_within(const kith_schedule *plan, const kith_stage_cost *stages, int stride, double bound)
{
    for (int rank = 0; rank < kith_schedule_ranks(plan); rank++) {
        double peak = peak_of(plan, rank, &stages[rank * stride]);
        if (peak > bound * (1 + 1e-6))
            fail_msg("p = %d, m = %d, rank %d: a bound of %g, and %g held", kith_schedule_ranks(plan),
                     kith_schedule_microbatches(plan), rank, bound, peak);
    }
}

/* Profiles and rates of the paper: F, I, W and message, hidden size and heads (for the memory), the rate with p and
 * with 2p activations. */
static void test_published(void **state)
{
    (void)state;
    static const struct {
        int p, m;
        double f, i, w, send, hidden, heads, rates[2];
    } rows[] = {
        { 8, 24, 18522, 18086, 9337, 601, 2304, 24, { .1585, .0433 } },
        { 8, 32, 18513, 18086, 9331, 626, 2304, 24, { .1242, .0039 } },
        { 8, 64, 18546, 18097, 9321, 762, 2304, 24, { .0674, .0026 } },
        { 8, 24, 29718, 29444, 19927, 527, 4096, 32, { .1323, .0029 } },
        { 16, 48, 11347, 11248, 8132, 377, 5120, 40, { .1397, .0066 } },
        { 32, 96, 10419, 10207, 7715, 408, 6144, 48, { .1421, .0038 } },
        { 32, 256, 10402, 10248, 7698, 460, 6144, 48, { .0594, .0018 } },
    };
    for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++)
        for (int times = 1; times <= 2; times++) {
            kith_schedule_costs costs = costs_of(rows[k].f, rows[k].i, rows[k].w, rows[k].send);
            costs.same.activation_nbytes = 34 * rows[k].hidden + 5 * rows[k].heads * 1024;
            costs.same.weight_nbytes = 32 * rows[k].hidden;
            kith_schedule_options o =
                options(rows[k].p, rows[k].m, &costs, times * rows[k].p * costs.same.activation_nbytes);
            kith_schedule *plan = plan_make(&o);
            expect_within(plan, &costs.same, 0, o.memory_bound);
            double span = span_of(plan, &costs.same);
            double rate = (span - rows[k].m * (rows[k].f + rows[k].i + rows[k].w)) / span;
            if (rate > rows[k].rates[times - 1] + 0.0015)
                fail_msg("p = %d, m = %d, %d p: wanted a rate of %.4f, got %.4f", rows[k].p, rows[k].m, times,
                         rows[k].rates[times - 1], rate);
        }
}

/* A generator of its own, so that the cases are the same everywhere. */
static double draw(uint64_t *seed, const double *values, int count)
{
    *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return values[(*seed >> 33) % (uint64_t)count];
}

static void test_not_worse_than_by_hand(void **state)
{
    (void)state;
    static const double times[] = { 1, 5, 10, 20, 30 }, sends[] = { 0, 0, 1 }, weights[] = { 0, 0.5, 1 };
    uint64_t seed = 7;
    for (int round = 0; round < 200; round++) {
        int p = 2 + round % 7, m = 1 + (round * 7) % 30;
        kith_schedule_costs costs =
            costs_of(draw(&seed, times, 5), draw(&seed, times, 5), draw(&seed, times, 5), draw(&seed, sends, 3));
        costs.same.weight_nbytes = draw(&seed, weights, 3);
        for (int c = 1; c <= 2; c++) {
            kith_schedule_options o = options(p, m, &costs, c * p);
            kith_schedule *plan = plan_make(&o);
            expect_within(plan, &costs.same, 0, c * p);
            double got = span_of(plan, &costs.same);
            double by_hand = span_of(plan_of(c == 1 ? KIND(ZB_H1) : KIND(ZB_H2), p, m, 0), &costs.same);
            if (got > by_hand * (1 + 1e-9))
                fail_msg("p = %d, m = %d, F, I, W, C = %g, %g, %g, %g: zb-h%d takes %g, auto %g", p, m, costs.same.f,
                         costs.same.i, costs.same.w, costs.same.send, c, by_hand, got);
        }
    }
}

/* Stages that differ in everything, bounds that are tight, weights that need more than activations. */
static void test_stages(void **state)
{
    (void)state;
    static const double times[] = { 0, 1, 3, 8, 20 }, nbytes[] = { 0, 1, 2, 5, 9 };
    uint64_t seed = 11;
    for (int round = 0; round < 300; round++) {
        int p = 1 + round % 9, m = 1 + round % 17;
        kith_stage_cost stages[9];
        double least = 0;
        for (int r = 0; r < p; r++) {
            stages[r] = (kith_stage_cost)KITH_STAGE_COST_INIT;
            stages[r].f = draw(&seed, times, 5);
            stages[r].i = draw(&seed, times, 5);
            stages[r].w = draw(&seed, times, 5);
            stages[r].send = draw(&seed, times, 3);
            stages[r].latency = draw(&seed, times, 3);
            stages[r].activation_nbytes = draw(&seed, nbytes, 5);
            stages[r].weight_nbytes = draw(&seed, nbytes, 5);
            least = fmax(least, fmax(stages[r].activation_nbytes, stages[r].weight_nbytes));
        }
        kith_schedule_costs costs = KITH_SCHEDULE_COSTS_INIT;
        costs.stage_count = p;
        costs.stages = stages;
        kith_schedule_options o = options(p, m, &costs, least * (1 + round % 3));
        kith_schedule *plan = plan_make(&o);
        const char *why;
        plan_clock clock;
        if (!plan_is_complete(plan, &why))
            fail_msg("round %d: %s", round, why);
        assert_true(plan_run(plan, (plan_times){ 1, 1, 1, -1, 0 }, &clock));
        if (o.memory_bound > 0)
            expect_within(plan, stages, 1, o.memory_bound);
        kith_schedule_destroy(plan);
    }
}

/* The same options give the same plan; one rank works through without waiting. */
static void test_small(void **state)
{
    (void)state;
    kith_schedule_options o = options(1, 3, NULL, 0);
    kith_schedule *plan = plan_make(&o);
    plan_clock clock;
    assert_true(plan_run(plan, (plan_times){ 1, 1, 1, -1, 0 }, &clock));
    assert_true(clock.makespan == 9);
    expect_in_flight(plan, (const int[]){ 1 });
    kith_schedule_destroy(plan);
    o = options(4, 8, NULL, INFINITY); /* any memory */
    plan = plan_make(&o);
    assert_true(span_of(plan, &(kith_stage_cost)KITH_STAGE_COST_INIT) == 24);
    o = options(4, 8, NULL, 0);
    kith_schedule *a = plan_make(&o), *b = plan_make(&o);
    for (int rank = 0; rank < 4; rank++) {
        size_t count, other;
        const kith_action *left = kith_schedule_actions(a, rank, &count);
        const kith_action *right = kith_schedule_actions(b, rank, &other);
        assert_int_equal(count, other);
        assert_memory_equal(left, right, count * sizeof *left);
    }
    kith_schedule_destroy(a);
    kith_schedule_destroy(b);
}

static void refuse(kith_schedule_options o, const char *wanted)
{
    kith_schedule *plan = NULL;
    assert_int_equal(kith_schedule_create(&o, &plan), KITH_ERR_INVALID_ARG);
    assert_null(plan);
    if (strcmp(kith_error_detail(), wanted) != 0)
        fail_msg("wanted '%s'\ngot    '%s'", wanted, kith_error_detail());
}

static void test_refused(void **state)
{
    (void)state;
    kith_schedule_costs costs = costs_of(1, 1, 1, 0);
    costs.same.activation_nbytes = 10;
    costs.same.weight_nbytes = 12;
    refuse(options(4, 8, &costs, 11), "auto with a memory bound of 11 bytes: valid are 12 and more, or 0");
    refuse(options(4, 8, &costs, -1), "auto with a memory bound of -1 bytes: valid are 12 and more, or 0");
    refuse(options(4, 8, &costs, NAN), "auto with a memory bound of nan bytes: valid are 12 and more, or 0");
    costs.same.w = -2;
    refuse(options(4, 8, &costs, 0), "costs: w of each stage is -2: it has to be finite and not negative");
    costs.same.w = 1;
    costs.same.f = INFINITY;
    refuse(options(4, 8, &costs, 0), "costs: f of each stage is inf: it has to be finite and not negative");
    costs.same.f = 2e30;
    refuse(options(4, 8, &costs, 0), "costs: 2e+30 of stage 0 is too large for auto: valid are 0 to 1e+30");
    kith_stage_cost stages[3] = { KITH_STAGE_COST_INIT, KITH_STAGE_COST_INIT, KITH_STAGE_COST_INIT };
    costs.stage_count = 3;
    costs.stages = stages;
    refuse(options(4, 8, &costs, 0),
           "costs of 3 stages for a plan of 4: it takes the cost of each stage, or one that holds for all");
    costs.struct_size = 0;
    refuse(options(4, 8, &costs, 0), "costs were not filled with KITH_SCHEDULE_COSTS_INIT");
    kith_schedule_options o = options(4, 8, NULL, 0);
    o.chunks = 2;
    refuse(o, "auto with 2 chunks a rank: it has 1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_published), cmocka_unit_test(test_not_worse_than_by_hand),
        cmocka_unit_test(test_stages),    cmocka_unit_test(test_small),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
