/* tests/schedules/test_check.c - plans that are wrong in one known way, and the sentence and table that say so.
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

static const kith_schedule_check_options defaults = KITH_SCHEDULE_CHECK_OPTIONS_INIT;

/* wanted NULL: the plan is right. */
static void expect(const kith_schedule *plan, const kith_schedule_check_options *o, const char *wanted)
{
    char *report;
    kith_status status = kith_schedule_check(plan, o, &report);
    const char *got = status == KITH_OK ? "(right)" : kith_error_detail();
    if (strcmp(got, wanted != NULL ? wanted : "(right)") != 0)
        fail_msg("wanted: %s\n   got: %s", wanted != NULL ? wanted : "(right)", got);
    assert_int_equal(status, wanted != NULL ? KITH_ERR_INVALID_ARG : KITH_OK);
    assert_true((report != NULL) == (wanted != NULL));
    kith_free(report);
}

typedef struct row {
    const char *lists[2], *wanted;
} row;

/* Stage r on rank r; one microbatch, or two where a 1 stands somewhere. */
static void expect_rows(const row *rows, size_t count, int microbatches)
{
    for (size_t i = 0; i < count; i++) {
        kith_schedule *plan = plan_from(2, 2, microbatches, false, rows[i].lists);
        expect(plan, NULL, rows[i].wanted);
        kith_schedule_destroy(plan);
    }
}

#define FULL_0 "0F0 0SEND_F0 0RECV_B0 0B0"
#define FULL_1 "1RECV_F0 1F0 1B0 1SEND_B0"

static void computation(void **state)
{
    (void)state;
    static const row rows[] = {
        { { "0F0 0B0", "1F0 1B0" }, NULL },
        { { "0F0 0I0 0W0", "1F0 . 1I0 1W0" }, NULL },
        { { "0F0", "1F0" }, NULL },
        { { "0F0 0B0", "1B0" },
          "rank 1: 1F0 is missing: each stage runs each microbatch forward once; 1B0 stands at position 0" },
        { { "0F0 0B0", "" }, "rank 1: 1F0 is missing: each stage runs each microbatch forward once" },
        { { "0F0 0B0", "1F0" }, "rank 1: 1B0 is missing: as B or as I with W; 1F0 stands at position 0" },
        { { "0F0 0I0", "1F0 1B0" }, "rank 0: 0W0 is missing: its I is there; 0F0 stands at position 0" },
        { { "0F0 0B0", "1B0 1F0" }, "rank 1, position 0: 1B0 needs 1F0 before it, which comes at position 1 only" },
        { { "0F0 0W0 0I0", "1F0 1B0" }, "rank 0, position 1: 0W0 needs 0I0 before it, which comes at position 2 only" },
        { { "0F0 0W0", "1F0 1B0" }, "rank 0, position 1: 0W0 needs 0I0 before it, which this rank never has" },
        { { "0F0 0B0 0B0", "1F0 1B0" }, "rank 0, position 2: 0B0 comes a second time: the first is at position 1" },
        { { "0F0 0I0 0B0", "1F0 1B0" },
          "rank 0, position 2: 0B0 comes after 0I0 at position 1, which is the backward already" },
        { { "0F0 0B0 0W0", "1F0 1B0" },
          "rank 0, position 2: 0W0 comes after 0B0 at position 1, which has done the weights too" },
        { { "0F0 1F0 0B0", "1B0" }, "rank 0, position 1: 1F0 is on the wrong rank: stage 1 lies on rank 1" },
        { { "0F0 0B0 0RECOMPUTE0", "1F0 1B0" },
          "rank 0, position 1: 0B0 needs 0RECOMPUTE0 before it, which comes at position 2 only" },
        { { "0F0&", "1F0" },
          "rank 0, position 0: 0F0 is overlapped with nothing: expected is the B or I of another microbatch" },
        { { "0F0& 0B0", "1F0 1B0" },
          "rank 0, position 0: 0F0 is overlapped with 0B0: expected is the B or I of another microbatch" },
        { { "0F0 0B0&", "1F0 1B0" }, "rank 0, position 1: 0B0 is overlapped with what comes next: only an F can be" },
    };
    expect_rows(rows, sizeof rows / sizeof rows[0], 1);
}

static void messages(void **state)
{
    (void)state;
    static const row rows[] = {
        { { FULL_0, FULL_1 }, NULL },
        { { "0F0 0SEND_F0", "1RECV_F0 1F0" }, NULL },
        { { "0F0 0RECV_B0 0B0", FULL_1 },
          "rank 0: 0SEND_F0 is missing: the next stage lies on another rank and needs the activation; 0F0 stands at "
          "position 0" },
        { { FULL_0, "1RECV_F0 1F0 1B0" },
          "rank 1: 1SEND_B0 is missing: the stage before lies on another rank and needs the gradient; 1RECV_F0 stands "
          "at position 0" },
        { { FULL_0, "1F0 1B0 1SEND_B0" },
          "rank 1, position 0: 1F0 needs 1RECV_F0 before it, which this rank never has" },
        { { "0F0 0SEND_F0 0B0", FULL_1 },
          "rank 0, position 2: 0B0 needs 0RECV_B0 before it, which this rank never has" },
        { { "0SEND_F0 0F0 0RECV_B0 0B0", FULL_1 },
          "rank 0, position 0: 0SEND_F0 needs 0F0 before it, which comes at position 1 only" },
        { { FULL_0, "1RECV_F0 1F0 1SEND_B0 1B0" },
          "rank 1, position 2: 1SEND_B0 needs 1B0 before it, which comes at position 3 only" },
        { { "0F0 0RECV_B0 0B0 0SEND_F0", FULL_1 },
          "rank 0, position 3: 0SEND_F0 comes after 0B0 at position 2, which has given the activation up" },
        { { FULL_0, "1RECV_F0 1RECV_F0 1F0 1B0 1SEND_B0" },
          "rank 1, position 1: 1RECV_F0 comes a second time: the first is at position 0" },
        { { "0F0 0SEND_F0 0RECV_B0 0B0 0SEND_B0", FULL_1 },
          "rank 0, position 4: 0SEND_B0 has no other end: there is no stage before" },
        { { FULL_0, "1RECV_F0 1F0 1RECV_B0 1B0 1SEND_B0" },
          "rank 1, position 2: 1RECV_B0 has no other end: there is no next stage" },
        { { "0F0 0SEND_F0 0RECV_B0", "1RECV_F0 1F0" },
          "rank 0, position 2: 0RECV_B0 is of no use: the plan has no backward" },
        { { "0F0 0RECV_B0 0SEND_F0 0B0", FULL_1 },
          "2 ranks wait for each other: rank 0 at position 1 (0RECV_B0) for 1SEND_B0 at position 3 of rank 1; rank 1 "
          "at "
          "position 0 (1RECV_F0) for 0SEND_F0 at position 2 of rank 0" },
    };
    expect_rows(rows, sizeof rows / sizeof rows[0], 1);
}

static void steps(void **state)
{
    (void)state;
    static const row rows[] = {
        { { "ZERO_GRAD 0LOAD_INPUT0 0F0 0RECOMPUTE0 0B0 0REDUCE_TIED 0REDUCE_GRAD OPTIMIZER_STEP",
            "ZERO_GRAD 1LOAD_TARGET0 1F0 1B0 1REDUCE_TIED 1REDUCE_GRAD OPTIMIZER_STEP" },
          NULL },
        { { "0F0 0B0 ZERO_GRAD", "ZERO_GRAD 1F0 1B0" },
          "rank 0, position 2: ZERO_GRAD comes after a backward of this rank, whose gradients it would drop" },
        { { "ZERO_GRAD 0F0 0B0", "1F0 1B0" }, "rank 1: ZERO_GRAD is missing: other ranks have one" },
        { { "0F0 0B0 OPTIMIZER_STEP", "1F0 1B0" }, "rank 1: OPTIMIZER_STEP is missing: other ranks have one" },
        { { "0F0 0REDUCE_GRAD 0B0", "1F0 1B0 1REDUCE_GRAD" },
          "rank 0, position 1: 0REDUCE_GRAD comes when 0 of 1 microbatches have their B or W of stage 0: expected are "
          "all" },
        { { "0F0 0B0 0REDUCE_GRAD", "1F0 1B0" }, "rank 1: 1REDUCE_GRAD is missing: other stages have one" },
        { { "0F0 0B0 OPTIMIZER_STEP 0REDUCE_GRAD", "1F0 1B0 1REDUCE_GRAD OPTIMIZER_STEP" },
          "rank 0, position 2: OPTIMIZER_STEP needs 0REDUCE_GRAD before it" },
        { { "0F0 OPTIMIZER_STEP 0B0", "1F0 1B0 OPTIMIZER_STEP" },
          "rank 0, position 1: OPTIMIZER_STEP comes when 0 of 1 microbatches have their B or W of stage 0: expected "
          "are all" },
        { { "0F0 OPTIMIZER_STEP", "1F0" },
          "rank 0, position 1: OPTIMIZER_STEP comes when 0 of 1 microbatches have their B or W of stage 0: expected "
          "are all" },
        { { "0F0 0B0 0REDUCE_TIED", "1F0 1B0" },
          "rank 1: 1REDUCE_TIED is missing: the stage at the other end has one" },
        { { "0F0 0B0 0REDUCE_GRAD 0REDUCE_TIED", "1F0 1B0 1REDUCE_TIED 1REDUCE_GRAD" },
          "rank 0, position 2: 0REDUCE_GRAD needs 0REDUCE_TIED before it" },
        { { "0F0 0LOAD_INPUT0", "1F0" },
          "rank 0, position 0: 0F0 needs 0LOAD_INPUT0 before it, which comes at position 1 only" },
        { { "0LOAD_TARGET0 0F0", "1F0" },
          "rank 0, position 0: 0LOAD_TARGET0 is for stage 1, the last: other stages load nothing of this kind" },
        { { "0F0 0RECOMPUTE0", "1F0" }, "rank 0, position 1: 0RECOMPUTE0 is of no use: the plan has no backward" },
        { { "0UNSHARD 0F0 0RESHARD 0B0", "1F0 1B0" },
          "rank 0, position 3: 0B0 needs 0UNSHARD before it: the stage's parameters are not gathered" },
        { { "0UNSHARD 0F0 0RESHARD 0UNSHARD 0B0 0RESHARD", "1F0 1B0" }, NULL },
        { { "0UNSHARD 0UNSHARD 0F0", "1F0" },
          "rank 0, position 1: 0UNSHARD finds the stage's parameters gathered already" },
        { { "0F0 0B0 0REDUCE_TIED", "1F0 1REDUCE_TIED 1B0" },
          "rank 1, position 1: 1REDUCE_TIED comes when 0 of 1 microbatches have their B or W of stage 1: expected are "
          "all" },
    };
    expect_rows(rows, sizeof rows / sizeof rows[0], 1);
    static const row two[] = {
        { { "0F0 0F1 0RECOMPUTE0 0B0 0B1", "1F0 1B0 1F1 1B1" },
          "rank 0, position 4: 0B1 needs 0RECOMPUTE1 before it, which this rank never has" },
        { { "0LOAD_INPUT0 0F0 0F1", "1F0 1F1" },
          "rank 0, position 2: 0F1 needs 0LOAD_INPUT1 before it, which this rank never has" },
        { { "0F0 0F1 0B0 0B1", "1F0 1B0 1F1 1B1" }, NULL },
        { { "0F0 0F1& 0B0 0B1", "1F0 1B0 1F1 1B1" }, NULL },
        { { "0F0 0F1 0B0 0B1", "1F0 1F1& 1B0 1B1" }, NULL },
        { { "0F0 0F1& 0I0 0W0 0B1", "1F0 1B0 1F1 1B1" }, NULL },
        { { "0F0 0I0 0F1& 0W0 0B1", "1F0 1B0 1F1 1B1" },
          "rank 0, position 2: 0F1 is overlapped with 0W0: expected is the B or I of another microbatch" },
        { { "0F0& 0F1& 0B0 0B1", "1F0 1B0 1F1 1B1" },
          "rank 0, position 0: 0F0 is overlapped with 0F1: expected is the B or I of another microbatch" },
        { { "0F0 0F1& 0B0& 0B1", "1F0 1B0 1F1 1B1" },
          "rank 0, position 2: 0B0 is overlapped with what comes next: only an F can be" },
        { { "0F0 0F1 0B0 0B1", "1F0 1F1& . 1B0 1B1" },
          "rank 1, position 1: 1F1 is overlapped with IDLE: expected is the B or I of another microbatch" },
    };
    expect_rows(two, sizeof two / sizeof two[0], 2);
}

/* Two stages each, in a V: the turn is inside rank 1. */
static void stages_on_one_rank(void **state)
{
    (void)state;
    static const row rows[] = {
        { { "0F0 3F0 3B0 0B0", "1F0 2F0 2B0 1B0" }, NULL },
        { { "0F0 3F0 3B0 0B0", "2F0 1F0 2B0 1B0" },
          "rank 1, position 0: 2F0 needs 1F0 before it, which comes at position 1 only" },
        { { "0F0 3F0 3B0 0B0", "1F0 2F0 1B0 2B0" },
          "rank 1, position 2: 1B0 needs 2B0 before it, which comes at position 3 only" },
        { { "0F0 0SEND_F0 3RECV_F0 3F0 3B0 3SEND_B0 0RECV_B0 0B0", "1RECV_F0 1F0 1SEND_F0 2F0 2B0 1B0" },
          "rank 1, position 2: 1SEND_F0 is a message of rank 1 to itself: the next stage lies here too" },
        { { "0F0 3F0 3B0 0B0 0REDUCE_TIED", "1F0 2F0 2B0 1B0" },
          "rank 0, position 4: 0REDUCE_TIED has nothing to add: rank 0 has first and last stage, and one weight" },
        { { "0F0 3F0 3B0 0B0", "1F0 2F0 2B0 1B0 2REDUCE_TIED" },
          "rank 1, position 4: 2REDUCE_TIED is of neither the first nor the last stage: only 0 and 3 share a weight" },
        { { "3F0 0F0 3B0 0B0", "1F0 2F0 2B0 1B0" },
          "2 ranks wait for each other: rank 0 at position 0 (3F0) for 2F0 at position 1 of rank 1; rank 1 at position "
          "0 (1F0) for 0F0 at position 1 of rank 0" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        kith_schedule *plan = plan_from(2, 4, 1, true, rows[i].lists);
        expect(plan, NULL, rows[i].wanted);
        kith_schedule_destroy(plan);
    }
}

/* Both ranks send before they receive: right only where a connection holds a message. */
#define CROSSED_0 "0F0 0F1 0SEND_F0 0SEND_F1 0RECV_B0 0B0 0RECV_B1 0B1"
#define CROSSED_1 "1RECV_F0 1F0 1B0 1SEND_B0 1RECV_F1 1F1 1B1 1SEND_B1"

static void capacity_decides(void **state)
{
    (void)state;
    const char *const lists[] = { CROSSED_0, CROSSED_1 };
    kith_schedule *plan = plan_from(2, 2, 2, false, lists);
    kith_schedule_check_options o = defaults;
    expect(
        plan, &o,
        "2 ranks wait for each other: rank 0 at position 3 (0SEND_F1) for 1RECV_F1 at position 4 of rank 1; rank 1 at "
        "position 3 (1SEND_B0) for 0RECV_B0 at position 4 of rank 0");
    o.capacity = 1;
    expect(plan, &o, NULL);
    o.is_one_channel = 1;
    expect(plan, &o, NULL);
    kith_schedule_destroy(plan);
}

static void order_of_messages(void **state)
{
    (void)state;
    const char *const lists[] = { "0F0 0F1 0SEND_F1 0SEND_F0", "1RECV_F0 1F0 1RECV_F1 1F1" };
    kith_schedule *plan = plan_from(2, 2, 2, false, lists);
    kith_schedule_check_options o = defaults;
    o.capacity = 2;
    expect(plan, &o,
           "rank 1, position 0: 1RECV_F0 would get another message: the next one from rank 0 is 0SEND_F1, sent at "
           "position 2");
    kith_schedule_destroy(plan);
}

/* With two ranks and two chunks each, rank 1 sends to rank 0 both activations of stage 1 and gradients of stage 1. */
static void one_channel_mixes(void **state)
{
    (void)state;
    const char *const lists[] = {
        "0F0 0SEND_F0 0F1 0SEND_F1 2RECV_F0 2F0 2SEND_F0 2RECV_B0 2B0 2SEND_B0 0RECV_B0 2RECV_F1 2F1 2SEND_F1 "
        "2RECV_B1 2B1 2SEND_B1 0B0 0RECV_B1 0B1",
        "1RECV_F0 1F0 1SEND_F0 3RECV_F0 3F0 3B0 3SEND_B0 1RECV_F1 1F1 1SEND_F1 1RECV_B0 1B0 1SEND_B0 3RECV_F1 3F1 3B1 "
        "3SEND_B1 1RECV_B1 1B1 1SEND_B1",
    };
    kith_schedule *plan = plan_from(2, 4, 2, false, lists);
    kith_schedule_check_options o = defaults;
    o.capacity = 4;
    expect(plan, &o, NULL);
    o.is_one_channel = 1;
    expect(plan, &o,
           "rank 0, position 10: 0RECV_B0 would get another message: the next one from rank 1 is 1SEND_F1, sent at "
           "position 9");
    kith_schedule_destroy(plan);
}

static void in_flight(void **state)
{
    (void)state;
    kith_schedule_options make = KITH_SCHEDULE_OPTIONS_INIT;
    make.ranks = 4;
    make.microbatches = 8;
    kith_schedule *plan;
    assert_int_equal(kith_schedule_create(&make, &plan), KITH_OK);
    kith_schedule_check_options o = defaults;
    const int exact[] = { 4, 3, 2, 1 }, tight[] = { 4, 3, 1, 1 }, open[] = { 0, 3, 0, 0 };
    o.in_flight_bound = 4;
    expect(plan, &o, NULL);
    o.in_flight_bound = 3;
    expect(plan, &o, "rank 0, position 3: 0F3 makes 4 in flight between F and B or I: at most 3 are allowed");
    o.in_flight_bounds = exact;
    expect(plan, &o, NULL);
    o.in_flight_bounds = open;
    expect(plan, &o, NULL);
    o.in_flight_bounds = tight;
    expect(plan, &o, "rank 2, position 1: 2F1 makes 2 in flight between F and B or I: at most 1 are allowed");
    kith_schedule_destroy(plan);
}

/* What PyTorch lists for the last rank of 1F1B: the first forward is missing. Its last one would be of a microbatch
 * that there is not, and cannot be appended. */
static void torch_last_rank(void **state)
{
    (void)state;
    kith_schedule_options make = KITH_SCHEDULE_OPTIONS_INIT;
    make.ranks = 4;
    make.microbatches = 8;
    kith_schedule *good;
    assert_int_equal(kith_schedule_create(&make, &good), KITH_OK);
    char lists[4][512];
    for (int rank = 0; rank < 3; rank++)
        snprintf(lists[rank], sizeof lists[rank], "%s", list_text(good, rank));
    strcpy(lists[3], "3F1 3B0 3F2 3B1 3F3 3B2 3F4 3B3 3F5 3B4 3F6 3B5 3F7 3B6 3B7");
    const char *const all[] = { lists[0], lists[1], lists[2], lists[3] };
    kith_schedule *plan = plan_from(4, 4, 8, false, all);
    expect(plan, NULL,
           "rank 3: 3F0 is missing: each stage runs each microbatch forward once; 3B0 stands at position 1");
    char *report;
    kith_schedule_check(plan, NULL, &report);
    assert_string_equal(
        report, "rank 3: 3F0 is missing: each stage runs each microbatch forward once; 3B0 stands at position 1\n"
                "\n"
                "position  rank 0  rank 1  rank 2  rank 3\n"
                "       0  0F0     1F0     2F0     3F1\n"
                "       1  0F1     1F1     2F1     >3B0<\n"
                "       2  0F2     1F2     2B0     3F2\n"
                "       3  0F3     1B0     2F2     3B1\n"
                "       4  0B0     1F3     2B1     3F3\n"
                "       5  0F4     1B1     2F3     3B2\n"
                "       6  0B1     1F4     2B2     3F4\n"
                "       7  0F5     1B2     2F4     3B3\n"
                "       8  0B2     1F5     2B3     3F5\n"
                "       9  0F6     1B3     2F5     3B4\n"
                "      10  0B3     1F6     2B4     3F6\n"
                "      11  0F7     1B4     2F6     3B5\n"
                "      12  0B4     1F7     2B5     3F7\n"
                "      13  0B5     1B5     2F7     3B6\n"
                "      14  0B6     1B6     2B6     3B7\n"
                "      15  0B7     1B7     2B7\n");
    kith_free(report);
    kith_schedule_destroy(plan);
    kith_schedule_destroy(good);
}

static kith_schedule *lowered_1f1b(int ranks, int microbatches)
{
    kith_schedule_options make = KITH_SCHEDULE_OPTIONS_INIT;
    kith_lower_options lower = KITH_LOWER_MESSAGES_INIT;
    make.ranks = ranks;
    make.microbatches = microbatches;
    kith_schedule *plan, *lowered;
    assert_int_equal(kith_schedule_create(&make, &plan), KITH_OK);
    assert_int_equal(kith_schedule_lower(plan, &lower, &lowered), KITH_OK);
    kith_schedule_destroy(plan);
    return lowered;
}

static size_t position_of(const draft *d, int rank, kith_action_type type, int microbatch)
{
    size_t at = 0;
    while (d->lists[rank].actions[at].type != type || d->lists[rank].actions[at].microbatch != microbatch)
        at++;
    return at;
}

static void move(draft *d, int rank, size_t from, size_t to)
{
    kith_action action = d->lists[rank].actions[from];
    draft_remove(d, rank, from);
    draft_insert(d, rank, to, &action);
}

static void expect_long_report(const draft *d, const char *const *wanted, size_t count)
{
    kith_schedule *plan = draft_plan(d);
    char *report;
    assert_int_equal(kith_schedule_check(plan, NULL, &report), KITH_ERR_INVALID_ARG);
    for (size_t i = 0; i < count; i++)
        if (strstr(report, wanted[i]) == NULL)
            fail_msg("wanted a line '%s', got:\n%s", wanted[i], report);
    int lines = 0;
    for (const char *c = report; *c != '\0'; c++)
        lines += *c == '\n';
    if (lines > 30 || strlen(report) > 4000)
        fail_msg("%d lines, %zu characters are not a neighbourhood:\n%s", lines, strlen(report), report);
    kith_free(report);
    kith_schedule_destroy(plan);
}

/* A long plan is cut to some ranks and positions around the place. */
static void report_of_an_order(void **state)
{
    (void)state;
    kith_schedule *good = lowered_1f1b(12, 40);
    draft d;
    draft_init(&d, good);
    size_t at = position_of(&d, 6, KITH_ACTION_B, 30);
    move(&d, 6, at, at - 1);
    static const char *const wanted[] = {
        "rank 6, position 198: 6B30 needs 6RECV_B30 before it, which comes at position 199 only\n\n",
        "position  rank 2     rank 3     rank 4     rank 5     rank 6     rank 7     rank 8     rank 9\n     190  ",
        "\n     197  2SEND_F37  3RECV_F37  4SEND_F36  5RECV_F36  6SEND_F35  7RECV_F35  8SEND_F34  9RECV_F34\n",
        ">6B30<",
        "\n     206  ",
    };
    expect_long_report(&d, wanted, sizeof wanted / sizeof wanted[0]);
    draft_fini(&d);
    kith_schedule_destroy(good);
}

/* Ranks that wait for each other stand at different positions: each is shown around its own. */
static void report_of_a_cycle(void **state)
{
    (void)state;
    kith_schedule *good = lowered_1f1b(12, 40);
    draft d;
    draft_init(&d, good);
    for (int microbatch = 29; microbatch <= 30; microbatch++) /* gradient 30 before activation 30 has gone */
        move(&d, 10, position_of(&d, 10, KITH_ACTION_RECV_B, microbatch), position_of(&d, 10, KITH_ACTION_SEND_F, 30));
    static const char *const wanted[] = {
        "2 ranks wait for each other: rank 10 at position 179 (10RECV_B29) for 11SEND_B29 at position 120 of rank 11; "
        "rank 11 at position 119 (11RECV_F30) for 10SEND_F30 at position 181 of rank 10\n\n",
        "          rank 4     rank 5     rank 6     rank 7     rank 8     rank 9     rank 10       rank 11\n",
        "position  at 197     at 194     at 191     at 188     at 185     at 182     at 179        at 119\n      -8  ",
        "  >10RECV_B29<  >11RECV_F30<\n      +1  ",
        "\n      +8  ",
    };
    expect_long_report(&d, wanted, sizeof wanted / sizeof wanted[0]);
    draft_fini(&d);
    kith_schedule_destroy(good);
}

/* A plan may claim much that it does not have, up to a bound. */
static void claims(void **state)
{
    (void)state;
    static int rank_of_stage[65536];
    kith_schedule *plan;
    assert_int_equal(kith_schedule_create_custom(1, 65536, rank_of_stage, 65, &plan), KITH_ERR_INVALID_ARG);
    assert_non_null(strstr(kith_error_detail(), "their product is at most 4194304"));
    assert_int_equal(kith_schedule_create_custom(1, 65536, rank_of_stage, 64, &plan), KITH_OK);
    expect(plan, NULL, "rank 0: 0F0 is missing: each stage runs each microbatch forward once");
    kith_action a = { KITH_ACTION_F, 0, 0, -1, 0 };
    assert_int_equal(kith_schedule_append(plan, 0, &a), KITH_OK);
    expect(plan, NULL, "rank 0: 0F1 is missing: each stage runs each microbatch forward once");
    kith_schedule_destroy(plan);
}

static void expect_failure(const kith_schedule *plan, const kith_schedule_check_options *o, const char *wanted)
{
    char *report = (char *)"";
    assert_int_equal(kith_schedule_check(plan, o, &report), KITH_ERR_INVALID_ARG);
    assert_string_equal(kith_error_detail(), wanted);
    assert_null(report);
}

static void arguments(void **state)
{
    (void)state;
    const char *const lists[] = { "0F0" };
    kith_schedule *plan = plan_from(1, 1, 1, false, lists);
    kith_schedule_check_options o = defaults;
    char *report = (char *)"";
    assert_int_equal(kith_schedule_check(NULL, NULL, &report), KITH_ERR_INVALID_ARG);
    assert_null(report);
    assert_int_equal(kith_schedule_check(plan, NULL, NULL), KITH_OK);
    int bounds[] = { -1 };
    o.struct_size = 0;
    expect_failure(plan, &o, "check options were not filled with KITH_SCHEDULE_CHECK_OPTIONS_INIT");
    o = defaults;
    o.capacity = -1;
    expect_failure(plan, &o, "a connection that holds -1 messages: valid are 0 and more");
    o = defaults;
    o.in_flight_bounds = bounds;
    expect_failure(plan, &o, "at most -1 in flight on rank 0: valid are 0 (any number) and more");
    kith_schedule_destroy(plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(computation),        cmocka_unit_test(messages),          cmocka_unit_test(steps),
        cmocka_unit_test(stages_on_one_rank), cmocka_unit_test(capacity_decides),  cmocka_unit_test(order_of_messages),
        cmocka_unit_test(one_channel_mixes),  cmocka_unit_test(in_flight),         cmocka_unit_test(torch_last_rank),
        cmocka_unit_test(report_of_an_order), cmocka_unit_test(report_of_a_cycle), cmocka_unit_test(claims),
        cmocka_unit_test(arguments),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
