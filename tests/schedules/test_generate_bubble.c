/* tests/schedules/test_generate_bubble.c - bubbles of the kinds, by the formulas of their papers, on the tests' clock:
 * to the end of the step (makespan - busy) and inside a rank's own span.
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

#include <cmocka.h>

static const plan_times units = { 1, 1, 1, -1, 0 };

static plan_clock clock_of(kith_schedule *plan, plan_times times)
{
    plan_clock clock;
    if (!plan_run(plan, times, &clock))
        fail_msg("%s waits for itself", kith_schedule_kind_name(kith_schedule_kind_of(plan)));
    return clock;
}

static plan_clock clock_of_kind(kith_schedule_kind kind, int p, int m, int v, plan_times times)
{
    kith_schedule *plan = plan_of(kind, p, m, v);
    plan_clock clock = clock_of(plan, times);
    kith_schedule_destroy(plan);
    return clock;
}

static void expect(double got, double wanted, const char *what, int p, int m)
{
    if (fabs(got - wanted) > 1e-9 * (1 + fabs(wanted)))
        fail_msg("%s, p = %d, m = %d: wanted %g, got %g", what, p, m, wanted, got);
}

static double bubble_of(kith_schedule_kind kind, int p, int m, int v, plan_times times)
{
    plan_clock clock = clock_of_kind(kind, p, m, v, times);
    return clock.makespan - clock.busiest;
}

/* (p - 1)(F + B), with chunks that take 1/v of the stage. */
static void test_interleaved(void **state)
{
    (void)state;
    for (int p = 1; p <= 8; p++)
        for (int v = 1; v <= 4; v++)
            for (int m = p; m <= 4 * p; m += p)
                expect(bubble_of(KIND(INTERLEAVED), p, m, v, units), 3.0 * (p - 1), "interleaved", p, m);
    expect(bubble_of(KIND(INTERLEAVED), 4, 6, 2, units), 19, "an indivisible number of", 4, 6);
}

/* What factor 2 is for: messages that take time. One chunk: F 4, B 8. */
static void test_warm_up_factor(void **state)
{
    (void)state;
    static const struct {
        double message, one, two;
    } cases[] = { { 0, 36, 36 }, { 1, 66, 50 }, { 4, 156, 92 } };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (int factor = 1; factor <= 2; factor++) {
            kith_schedule_options o = KITH_SCHEDULE_OPTIONS_INIT;
            o.kind = KIND(INTERLEAVED);
            o.ranks = 4;
            o.microbatches = 8;
            o.warmup_factor = factor;
            kith_schedule *plan = plan_make(&o);
            plan_clock clock = clock_of(plan, (plan_times){ 4, 4, 4, -1, cases[i].message });
            expect(clock.makespan - clock.busiest, factor == 1 ? cases[i].one : cases[i].two, "factor", factor, 8);
            kith_schedule_destroy(plan);
        }
}

/* F, I, W = 10, 12, 8. To the end of the step (p - 1)(F + I - W) and (p - 1) F; inside the span of rank 0
 * (p - 1)(F + I - 2W) for zb-h2. */
static void test_zb_h(void **state)
{
    (void)state;
    const plan_times times = { 10, 12, 8, -1, 0 };
    for (int p = 1; p <= 12; p++) {
        int m = 3 * p;
        plan_clock h1 = clock_of_kind(KIND(ZB_H1), p, m, 0, times);
        expect(h1.makespan - h1.busiest, 14 * (p - 1), "zb-h1", p, m);
        expect(h1.idle[0], 14 * (p - 1), "zb-h1, rank 0", p, m);
        expect(h1.idle[p - 1], 0, "zb-h1, last rank", p, m);
        plan_clock h2 = clock_of_kind(KIND(ZB_H2), p, m, 0, times);
        expect(h2.makespan - h2.busiest, 10 * (p - 1), "zb-h2", p, m);
        expect(h2.idle[0], 6 * (p - 1), "zb-h2, rank 0", p, m);
        h2 = clock_of_kind(KIND(ZB_H2), p, m, 0, units);
        for (int r = 0; r < p; r++)
            expect(h2.idle[r], 0, "zb-h2 with equal times", p, m);
        plan_clock looped = clock_of_kind(KIND(INTERLEAVED_ZB), p, m, 3, times);
        expect(looped.makespan - looped.busiest, 14 * (p - 1), "interleaved-zb", p, m);
    }
}

static void test_zb_v(void **state)
{
    (void)state;
    for (int p = 1; p <= 8; p++)
        for (int m = 2 * p - 1; m <= 4 * p; m++) {
            plan_clock clock = clock_of_kind(KIND(ZB_V), p, m, 0, units);
            for (int r = 0; r < p; r++)
                expect(clock.idle[r], 0, "zb-v with equal times", p, m);
            expect(clock.makespan - clock.busiest, p - 1, "zb-v", p, m);
        }
    plan_clock clock = clock_of_kind(KIND(ZB_V), 4, 4, 0, units);
    const double idle[] = { 6, 4, 2, 0 };
    for (int r = 0; r < 4; r++)
        expect(clock.idle[r], idle[r], "zb-v that is not full, rank", r, 4);
}

static void expect_dualpipe(int p, int m, plan_times times)
{
    plan_clock clock = clock_of_kind(KIND(DUALPIPE_V), p, m, 0, times);
    double whole = times.i + times.w;
    double last = (p - 1) * (times.pair + whole - 3 * times.w);
    double saved = times.f + whole - times.pair; /* by a pair; ranks before the last but one have one less each */
    for (int r = 0; r < p; r++) {
        int fewer = r < p - 2 ? p - 2 - r : 0;
        expect(clock.makespan - clock.busy[r], last - fewer * saved, "dualpipe-v", p, m);
    }
}

/* (p - 1)(F&B + B - 3W) on the last rank, from m = 2p - 1 on. */
static void test_dualpipe_v(void **state)
{
    (void)state;
    for (int p = 1; p <= 8; p++)
        for (int m = 2 * p - 1; m <= 4 * p; m++) {
            expect_dualpipe(p, m, (plan_times){ 1, 1, 1, 3, 0 });
            expect_dualpipe(p, m, (plan_times){ 10, 10, 10, 26, 0 });
        }
    expect(bubble_of(KIND(DUALPIPE_V), 4, 10, 0, (plan_times){ 1, 1, 1, 3, 0 }), 6, "dualpipe-v", 4, 10);
}

/* The last rank of a loop ends at m v + p - 1; in a V what it ends with rises p - 1 ranks more. */
static void test_forward_only(void **state)
{
    (void)state;
    for (int kind = 0; kind < KITH_SCHEDULE_CUSTOM; kind++)
        for (int p = 1; p <= 6; p++)
            for (int m = 1; m <= 3 * p; m++) {
                kith_schedule_options o = KITH_SCHEDULE_OPTIONS_INIT;
                o.kind = (kith_schedule_kind)kind;
                o.ranks = p;
                o.microbatches = m;
                o.is_forward_only = 1;
                kith_schedule *plan = plan_make(&o);
                plan_clock clock = clock_of(plan, units);
                bool is_v = kith_schedule_rank_of_stage(plan, kith_schedule_stages(plan) - 1) == 0 && p > 1;
                int v = kith_schedule_chunks(plan);
                if (is_v)
                    expect(clock.makespan, 2 * m + 2 * (p - 1), kith_schedule_kind_name(o.kind), p, m);
                else if (m >= p || v == 1)
                    expect(clock.makespan, m * v + p - 1, kith_schedule_kind_name(o.kind), p, m);
                else
                    expect(clock.makespan, p * v + m - 1, kith_schedule_kind_name(o.kind), p, m);
                kith_schedule_destroy(plan);
            }
}

/* The published profiles on the plans made by hand; rates as published, cost the longest span of a rank. */
static void test_published(void **state)
{
    (void)state;
    static const struct {
        int p, m, v;
        double f, i, w, message, one_f_one_b, interleaved, h1, h2;
    } rows[] = {
        { 8, 24, 3, 18522, 18086, 9337, 601, .2431, .1055, .1585, .1083 },
        { 32, 256, 2, 10402, 10248, 7698, 460, .1352, .0624, .0594, .0257 },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        int p = rows[i].p, m = rows[i].m, v = rows[i].v;
        const plan_times whole = { rows[i].f, rows[i].i, rows[i].w, -1, rows[i].message };
        const plan_times chunk = { rows[i].f / v, rows[i].i / v, rows[i].w / v, -1, rows[i].message };
        const struct {
            kith_schedule_kind kind;
            int v;
            const plan_times *times;
            double rate, tolerance;
        } kinds[] = {
            { KIND(1F1B), 1, &whole, rows[i].one_f_one_b, 5e-5 },
            { KIND(INTERLEAVED), v, &chunk, rows[i].interleaved, 5e-3 }, /* the authors' clock leaves messages out */
            { KIND(ZB_H1), 1, &whole, rows[i].h1, 5e-5 },
            { KIND(ZB_H2), 1, &whole, rows[i].h2, 5e-5 },
        };
        for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
            plan_clock clock = clock_of_kind(kinds[k].kind, p, m, kinds[k].v, *kinds[k].times);
            double rate = (clock.longest_span - clock.busiest) / clock.longest_span;
            if (fabs(rate - kinds[k].rate) > kinds[k].tolerance)
                fail_msg("%s, p = %d: wanted a rate of %.4f, got %.4f", kith_schedule_kind_name(kinds[k].kind), p,
                         kinds[k].rate, rate);
        }
    }
}

/* zb-v, whose chunks are half a stage. */
static void test_published_v(void **state)
{
    (void)state;
    static const struct {
        int p, m;
        plan_times times;
        double rate;
    } rows[] = { { 16, 48, { 14407, 14380, 9676, -1, 1610 }, .0697 },
                 { 32, 256, { 9447, 9644, 7193, -1, 887 }, .0236 } };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        plan_clock clock = clock_of_kind(KIND(ZB_V), rows[i].p, rows[i].m, 0, rows[i].times);
        double rate = (clock.longest_span - clock.busiest) / clock.longest_span;
        if (fabs(rate - rows[i].rate) > 5e-3)
            fail_msg("zb-v, p = %d: wanted a rate of %.4f, got %.4f", rows[i].p, rows[i].rate, rate);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_interleaved), cmocka_unit_test(test_warm_up_factor), cmocka_unit_test(test_zb_h),
        cmocka_unit_test(test_zb_v),        cmocka_unit_test(test_dualpipe_v),     cmocka_unit_test(test_forward_only),
        cmocka_unit_test(test_published),   cmocka_unit_test(test_published_v),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
