/* tests/schedules/test_generate.c - the orders of the kinds: small ones worked out by hand, warm-ups and what is in
 * flight by closed form, notes, and what is refused.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "core/base/error.h"
#include "core/base/fault.h"
#include "plan_help.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static kith_schedule_options options(kith_schedule_kind kind, int ranks, int microbatches, int chunks)
{
    kith_schedule_options o = KITH_SCHEDULE_OPTIONS_INIT;
    o.kind = kind;
    o.ranks = ranks;
    o.microbatches = microbatches;
    o.chunks = chunks;
    return o;
}

static int lesser(int a, int b)
{
    return a < b ? a : b;
}

/* How many F come before the first backward. */
static int forwards_first(const kith_schedule *plan, int rank)
{
    size_t count;
    const kith_action *list = kith_schedule_actions(plan, rank, &count);
    int forwards = 0;
    while ((size_t)forwards < count && list[forwards].type == KITH_ACTION_F)
        forwards++;
    return forwards;
}

static void expect_forwards_first(const kith_schedule *plan, const int *wanted)
{
    for (int rank = 0; rank < kith_schedule_ranks(plan); rank++)
        if (forwards_first(plan, rank) != wanted[rank])
            fail_msg("rank %d: wanted %d F before the first backward, got %d", rank, wanted[rank],
                     forwards_first(plan, rank));
}

/* ---- interleaved ---- */

static void test_interleaved_groups(void **state)
{
    (void)state;
    kith_schedule_options o = options(KIND(INTERLEAVED), 2, 5, 2);
    o.group_size = 3;
    kith_schedule *plan = plan_make(&o);
    const int microbatches[] = { 0, 1, 2, 0, 1, 2, 3, 4, 3, 4 };
    const int chunks[] = { 0, 0, 0, 1, 1, 1, 0, 0, 1, 1 };
    for (int rank = 0; rank < 2; rank++) {
        size_t count;
        const kith_action *list = kith_schedule_actions(plan, rank, &count);
        int place = 0;
        for (size_t i = 0; i < count; i++) {
            if (list[i].type != KITH_ACTION_F)
                continue;
            assert_int_equal(list[i].microbatch, microbatches[place]);
            assert_int_equal(list[i].chunk, chunks[place++]);
        }
        assert_int_equal(place, 10);
    }
    expect_note(plan, "5 microbatches in groups of 3: bubble is larger than with a multiple of 3");
    kith_schedule_destroy(plan);
}

static void test_interleaved_lists(void **state)
{
    (void)state;
    kith_schedule *plan = plan_of(KIND(INTERLEAVED), 2, 4, 2);
    expect_list(plan, 0, "F0.0 F0.1 F1.0 F1.1 F0.2 B1.0 F0.3 B1.1 F1.2 B0.0 F1.3 B0.1 B1.2 B1.3 B0.2 B0.3");
    expect_list(plan, 1, "F0.0 F0.1 F1.0 B1.0 F1.1 B1.1 F0.2 B0.0 F0.3 B0.1 F1.2 B1.2 F1.3 B1.3 B0.2 B0.3");
    assert_int_equal(kith_schedule_stage_of_chunk(plan, 1, 1), 3);
    expect_note(plan, NULL);
    kith_schedule_destroy(plan);
}

/* One more F than the warm-up comes before the first backward, unless there are no more. */
static void test_interleaved_warm_up(void **state)
{
    (void)state;
    static const struct {
        int p, v, m;
        int first[8];
    } cases[] = {
        { 4, 2, 8, { 11, 9, 7, 5 } }, { 8, 4, 16, { 39, 37, 35, 33, 31, 29, 27, 25 } },
        { 4, 2, 4, { 8, 8, 7, 5 } },  { 4, 2, 1, { 2, 2, 2, 2 } },
        { 1, 3, 2, { 3 } },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        kith_schedule *plan = plan_of(KIND(INTERLEAVED), cases[i].p, cases[i].m, cases[i].v);
        expect_forwards_first(plan, cases[i].first);
        expect_in_flight(plan, cases[i].first);
        kith_schedule_destroy(plan);
    }
    kith_schedule_options o = options(KIND(INTERLEAVED), 4, 8, 2);
    o.warmup_factor = 1;
    kith_schedule *plan = plan_make(&o);
    expect_in_flight(plan, (const int[]){ 8, 7, 6, 5 });
    kith_schedule_destroy(plan);
}

static void test_interleaved_closed_form(void **state)
{
    (void)state;
    for (int p = 1; p <= 8; p++)
        for (int v = 1; v <= 4; v++)
            for (int m = p; m <= 4 * p; m += p) {
                int wanted[8];
                for (int r = 0; r < p; r++)
                    wanted[r] = lesser(m * v, 2 * (p - 1 - r) + (v - 1) * p + 1);
                kith_schedule *plan = plan_of(KIND(INTERLEAVED), p, m, v);
                expect_in_flight(plan, wanted);
                kith_schedule_destroy(plan);
            }
}

/* ---- split backwards ---- */

static void expect_held(kith_schedule_kind kind, int p, int m, int v, int r, int activations, int weights, int held)
{
    kith_schedule *plan = plan_of(kind, p, m, v);
    kith_in_flight got;
    assert_int_equal(kith_schedule_in_flight(plan, r, &got), KITH_OK);
    if (got.activations != activations || got.held != held || (weights >= 0 && got.weights != weights))
        fail_msg("%s p = %d, m = %d, rank %d: wanted %d activations, %d weights, %d held, got %d, %d, %d",
                 kith_schedule_kind_name(kind), p, m, r, activations, weights, held, got.activations, got.weights,
                 got.held);
    kith_schedule_destroy(plan);
}

static void test_zb_h_lists(void **state)
{
    (void)state;
    kith_schedule *plan = plan_of(KIND(ZB_H1), 2, 3, 0);
    expect_list(plan, 0, "F0.0 F0.1 I0.0 W0.0 F0.2 I0.1 W0.1 I0.2 W0.2");
    expect_list(plan, 1, "F0.0 I0.0 F0.1 I0.1 W0.0 F0.2 I0.2 W0.1 W0.2");
    kith_schedule_destroy(plan);
    plan = plan_of(KIND(ZB_H2), 2, 4, 0);
    expect_list(plan, 0, "F0.0 F0.1 F0.2 I0.0 W0.0 F0.3 I0.1 W0.1 I0.2 W0.2 I0.3 W0.3");
    expect_list(plan, 1, "F0.0 I0.0 F0.1 I0.1 F0.2 I0.2 W0.0 F0.3 I0.3 W0.1 W0.2 W0.3");
    kith_schedule_destroy(plan);
}

/* Rank r: (p - r) M_B + r M_W, and (2(p - r) - 1) M_B + 2r M_W. The pending weights count one more while the I that
 * adds to them has ended and the W has not begun. */
static void test_zb_h_held(void **state)
{
    (void)state;
    for (int p = 1; p <= 8; p++)
        for (int r = 0; r < p; r++) {
            expect_held(KIND(ZB_H1), p, 3 * p, 0, r, p - r, r + 1, p);
            expect_held(KIND(ZB_H2), p, 3 * p, 0, r, 2 * (p - r) - 1, 2 * r + 1, 2 * p - 1);
            expect_held(KIND(INTERLEAVED_ZB), p, 3 * p, 2, r, 2 * p - r, r + 1, 2 * p);
        }
    for (int r = 0; r < 4; r++)
        expect_held(KIND(ZB_H2), 4, 2, 0, r, lesser(2, 2 * (4 - r) - 1), -1, 2);
}

static void test_interleaved_zb_lists(void **state)
{
    (void)state;
    kith_schedule *plan = plan_of(KIND(INTERLEAVED_ZB), 2, 2, 2);
    expect_list(plan, 0, "F0.0 F0.1 F1.0 F1.1 I1.0 W1.0 I1.1 W1.1 I0.0 W0.0 I0.1 W0.1");
    expect_list(plan, 1, "F0.0 F0.1 F1.0 I1.0 F1.1 I1.1 W1.0 I0.0 W1.1 I0.1 W0.0 W0.1");
    kith_schedule_destroy(plan);
    plan = plan_of(KIND(INTERLEAVED_ZB), 4, 8, 3);
    expect_forwards_first(plan, (const int[]){ 12, 11, 10, 9 });
    kith_schedule_destroy(plan);
}

/* ---- V ---- */

static void test_zb_v_lists(void **state)
{
    (void)state;
    kith_schedule *plan = plan_of(KIND(ZB_V), 2, 3, 0);
    expect_list(plan, 0,
                "F0.0 F0.1 F0.2 F1.0 I1.0 W1.0 F1.1 I1.1 W1.1 "
                "I0.0 W0.0 F1.2 I1.2 W1.2 I0.1 W0.1 I0.2 W0.2");
    expect_list(plan, 1,
                "F0.0 F1.0 F0.1 F1.1 I1.0 W1.0 F0.2 I0.0 W0.0 F1.2 I1.1 W1.1 "
                "I0.1 I1.2 I0.2 W0.1 W1.2 W0.2");
    assert_int_equal(kith_schedule_stage_of_chunk(plan, 0, 1), 3);
    assert_int_equal(kith_schedule_stage_of_chunk(plan, 1, 1), 2);
    kith_schedule_destroy(plan);
}

static void test_zb_v_held(void **state)
{
    (void)state;
    for (int p = 1; p <= 8; p++)
        for (int r = 0; r < p; r++)
            expect_held(KIND(ZB_V), p, 2 * p + 3, 0, r, 2 * p, -1, 2 * p);
    kith_schedule *plan = plan_of(KIND(ZB_V), 4, 4, 0);
    expect_note(plan, "m = 4 does not fill a V of 4 ranks: ranks are idle in between below m = 7");
    kith_schedule_destroy(plan);
}

static void test_dualpipe_v_lists(void **state)
{
    (void)state;
    kith_schedule *plan = plan_of(KIND(DUALPIPE_V), 2, 4, 0);
    expect_list(plan, 0,
                "F0.0 F0.1 F0.2 F1.0 I1.0 W1.0 F1.1 "
                "F0.3& B1.1 F1.2& B0.0 "
                "B1.2 F1.3& B0.1 B1.3 I0.2 W0.2 I0.3 W0.3");
    expect_list(plan, 1,
                "F0.0 F1.0 F0.1 F1.1 "
                "F0.2 B1.0 F1.2& B0.0 F0.3& B1.1 F1.3& B0.1 "
                "B1.2 B0.2 I1.3 I0.3 W1.3 W0.3");
    kith_schedule_destroy(plan);
}

static void test_dualpipe_v_held(void **state)
{
    (void)state;
    for (int p = 2; p <= 8; p++)
        for (int r = 0; r < p; r++)
            expect_held(KIND(DUALPIPE_V), p, 2 * p + 2, 0, r, 2 * p + 1, -1, 2 * p + 1);
    kith_schedule *plan = plan_of(KIND(DUALPIPE_V), 4, 6, 0);
    expect_note(plan, "m = 6 does not fill a V of 4 ranks: the bubble is larger below m = 7");
    kith_schedule_destroy(plan);
    plan = plan_of(KIND(DUALPIPE_V), 4, 7, 0);
    expect_note(plan, NULL);
    kith_schedule_destroy(plan);
}

/* ---- forwards alone ---- */

static void test_forward_lists(void **state)
{
    (void)state;
    kith_schedule_options o = options(KIND(INTERLEAVED), 2, 5, 2);
    o.is_forward_only = 1;
    kith_schedule *plan = plan_make(&o);
    expect_list(plan, 0, "F0.0 F0.1 F1.0 F1.1 F0.2 F0.3 F0.4 F1.2 F1.3 F1.4"); /* the odd one joins the last group */
    assert_int_equal(kith_schedule_is_forward_only(plan), 1);
    kith_schedule_destroy(plan);
    o = options(KIND(ZB_V), 2, 3, 0);
    o.is_forward_only = 1;
    plan = plan_make(&o);
    expect_list(plan, 0, "F0.0 F0.1 F0.2 F1.0 F1.1 F1.2");
    expect_list(plan, 1, "F0.0 F1.0 F0.1 F1.1 F0.2 F1.2");
    kith_schedule_destroy(plan);
}

/* ---- refused ---- */

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
    refuse(options(KIND(ZB_V), 4, 8, 3), "zb-v with 3 chunks a rank: it has 2");
    refuse(options(KIND(DUALPIPE_V), 4, 8, 1), "dualpipe-v with 1 chunks a rank: it has 2");
    refuse(options(KIND(ZB_H1), 4, 8, 2), "zb-h1 with 2 chunks a rank: it has 1");
    refuse(options(KIND(INTERLEAVED), 4, 8, -1), "interleaved with -1 chunks a rank: valid are 1 to 65536");
    kith_schedule_options o = options(KIND(INTERLEAVED), 4, 8, 2);
    o.group_size = 3;
    refuse(o, "interleaved with groups of 3 microbatches on 4 ranks: valid are 4 and more");
    o.group_size = -1;
    refuse(o, "interleaved with groups of -1 microbatches on 4 ranks: valid are 4 and more");
    o.group_size = 0;
    o.warmup_factor = 3;
    refuse(o, "interleaved with warmup_factor 3: valid are 1, 2 and 0 for 2");
    o = options(KIND(INTERLEAVED_ZB), 4, 8, 2);
    o.group_size = 1;
    refuse(o, "interleaved-zb with groups of 1 microbatches on 4 ranks: valid are 4 and more");
}

static void test_no_memory(void **state)
{
    (void)state;
    for (int kind = 0; kind < KITH_SCHEDULE_CUSTOM; kind++) {
        kith_schedule_options o = options((kith_schedule_kind)kind, 3, 70, 0);
        bool is_made = false;
        for (int nth = 1; !is_made; nth++) {
            char fault[32];
            snprintf(fault, sizeof fault, "alloc:%d", nth);
            setenv("KITH_FAULT", fault, 1);
            assert_int_equal(ki_fault_configure(0), KITH_OK);
            kith_schedule *plan = NULL;
            kith_status status = kith_schedule_create(&o, &plan);
            is_made = status == KITH_OK;
            if (!is_made) {
                assert_int_equal(status, KITH_ERR_NO_MEMORY);
                assert_null(plan);
            }
            kith_schedule_destroy(plan);
            assert_true(nth < 200);
        }
        unsetenv("KITH_FAULT");
        assert_int_equal(ki_fault_configure(0), KITH_OK);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_interleaved_groups),
        cmocka_unit_test(test_interleaved_lists),
        cmocka_unit_test(test_interleaved_warm_up),
        cmocka_unit_test(test_interleaved_closed_form),
        cmocka_unit_test(test_zb_h_lists),
        cmocka_unit_test(test_zb_h_held),
        cmocka_unit_test(test_interleaved_zb_lists),
        cmocka_unit_test(test_zb_v_lists),
        cmocka_unit_test(test_zb_v_held),
        cmocka_unit_test(test_dualpipe_v_lists),
        cmocka_unit_test(test_dualpipe_v_held),
        cmocka_unit_test(test_forward_lists),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
