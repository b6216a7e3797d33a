/* tests/schedules/test_check_mutations.c - kith_schedule_check() against the oracle: right plans of every kind with one
 * thing changed, random plans of few actions, and all orders of the smallest pipeline. Both have to say the same.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "oracle.h"

#include <kith/context.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MUTANTS_OF_PLAN = 100, RANDOM_PLANS = 12000 };

static const char *text_of_lists(const draft *d)
{
    static char text[1 << 16];
    size_t length = 0;
    for (int rank = 0; rank < d->ranks; rank++)
        for (size_t i = 0; i <= d->lists[rank].count && length + 64 < sizeof text; i++) {
            char word[64] = "\n";
            const kith_action *a = &d->lists[rank].actions[i];
            bool is_end = i == d->lists[rank].count;
            if (!is_end)
                kith_action_text(a, word, sizeof word);
            length += (size_t)snprintf(text + length, sizeof text - length, "%s%s", word,
                                       is_end ? "" : (a->is_overlapped ? "& " : " "));
        }
    return text;
}

/* A refusal comes with a sentence and a table that marks a place; else there is no report. */
static void expect_report(kith_status status, const char *report)
{
    if (status == KITH_OK) {
        assert_null(report);
        return;
    }
    assert_int_equal(status, KITH_ERR_INVALID_ARG);
    assert_non_null(report);
    assert_non_null(strstr(report, kith_error_detail()));
    assert_non_null(strchr(report, '>'));
}

typedef struct tally {
    int accepted, refused;
} tally;

static void compare(const draft *d, const kith_schedule_check_options *o, uint64_t seed, const char *what, tally *sum)
{
    kith_schedule *plan = draft_plan(d);
    assert_non_null(plan);
    const char *why;
    char *report;
    kith_status status = kith_schedule_check(plan, o, &report);
    expect_report(status, report);
    draft seen; /* as it was appended: without the fields that a type has not */
    draft_init(&seen, plan);
    bool is_right = oracle_accepts(&seen, o, seed, &why);
    if (is_right != (status == KITH_OK))
        fail_msg("%s, capacity %d, one channel %d, bound %d: wanted %s (%s), got %s (%s)\n%s", what, o->capacity,
                 o->is_one_channel, o->in_flight_bound, is_right ? "right" : "refused", why,
                 status == KITH_OK ? "right" : "refused", status == KITH_OK ? "" : kith_error_detail(),
                 text_of_lists(&seen));
    sum->accepted += is_right;
    sum->refused += !is_right;
    draft_fini(&seen);
    kith_free(report);
    kith_schedule_destroy(plan);
}

static kith_schedule_check_options random_options(uint64_t *seed)
{
    static const int capacities[] = { 0, 0, 1, 2, 1 << 30 };
    kith_schedule_check_options o = KITH_SCHEDULE_CHECK_OPTIONS_INIT;
    o.capacity = capacities[random_below(seed, 5)];
    o.is_one_channel = (int)random_below(seed, 2);
    o.in_flight_bound = random_below(seed, 8) == 0 ? 1 + (int)random_below(seed, 6) : 0;
    return o;
}

/* ---- mutants ---- */

/* Some place of the draft; false when the list is empty. */
static bool pick(const draft *d, uint64_t *seed, int *rank, size_t *position)
{
    *rank = (int)random_below(seed, (unsigned)d->ranks);
    if (d->lists[*rank].count == 0)
        return false;
    *position = random_below(seed, (unsigned)d->lists[*rank].count);
    return true;
}

/* Gives an action of one scope the fields that it needs in another. */
static void fit(const draft *d, kith_action *a, uint64_t *seed)
{
    if (a->stage < 0)
        a->stage = (int)random_below(seed, (unsigned)d->stages);
    if (a->microbatch < 0)
        a->microbatch = (int)random_below(seed, (unsigned)d->microbatches);
}

static void retype(const draft *d, kith_action *a, uint64_t *seed)
{
    a->type = (kith_action_type)random_below(seed, KITH_ACTION_TYPE_COUNT);
    fit(d, a, seed);
}

static const char *mutate(draft *d, uint64_t *seed)
{
    int rank, other = (int)random_below(seed, (unsigned)d->ranks);
    size_t at, to;
    if (!pick(d, seed, &rank, &at))
        return "nothing";
    kith_action *a = &d->lists[rank].actions[at], copy = *a;
    switch (random_below(seed, 10)) {
    case 0:
    case 1:
        if (at + 1 == d->lists[rank].count)
            return "nothing";
        a[0] = a[1];
        a[1] = copy;
        return "neighbours swapped";
    case 2:
        draft_remove(d, rank, at);
        return "action dropped";
    case 3:
        draft_insert(d, rank, random_below(seed, (unsigned)d->lists[rank].count + 1), &copy);
        return "action twice";
    case 4:
        draft_remove(d, rank, at);
        to = random_below(seed, (unsigned)d->lists[rank].count + 1);
        draft_insert(d, rank, to, &copy);
        return "action moved";
    case 5:
        draft_remove(d, rank, at);
        draft_insert(d, other, random_below(seed, (unsigned)d->lists[other].count + 1), &copy);
        return "action moved to a rank";
    case 6:
        a->stage = a->stage < 0 ? -1 : (int)random_below(seed, (unsigned)d->stages);
        return "another stage";
    case 7:
        a->microbatch = a->microbatch < 0 ? -1 : (int)random_below(seed, (unsigned)d->microbatches);
        return "another microbatch";
    case 8:
        retype(d, a, seed);
        return "another type";
    default:
        a->is_overlapped = !a->is_overlapped;
        return "overlap toggled";
    }
}

/* Puts UNSHARD and RESHARD of a stage around what it computes, on and off. */
static void add_shards(draft *d, uint64_t *seed)
{
    int stage = (int)random_below(seed, (unsigned)d->stages), rank = d->rank_of_stage[stage];
    kith_action gather = { KITH_ACTION_UNSHARD, stage, -1, -1, 0 }, give_up = { KITH_ACTION_RESHARD, stage, -1, -1, 0 };
    size_t middle = random_below(seed, (unsigned)d->lists[rank].count + 1);
    if (middle > 0 && d->lists[rank].actions[middle - 1].is_overlapped)
        middle--;
    draft_insert(d, rank, middle, &gather);
    draft_insert(d, rank, middle, &give_up);
    draft_insert(d, rank, 0, &gather);
}

static kith_schedule *random_plan(kith_schedule_kind kind, uint64_t *seed)
{
    kith_schedule_options o = KITH_SCHEDULE_OPTIONS_INIT;
    o.kind = kind;
    o.ranks = 1 + (int)random_below(seed, 4);
    o.microbatches = 1 + (int)random_below(seed, 7);
    o.is_forward_only = random_below(seed, 6) == 0;
    o.is_fifo_backward = (int)random_below(seed, 2);
    kith_schedule *plan = NULL;
    return kith_schedule_create(&o, &plan) == KITH_OK ? plan : NULL;
}

static kith_schedule *lower_somehow(const kith_schedule *plan, uint64_t *seed)
{
    kith_lower_options o = KITH_LOWER_OPTIONS_INIT;
    o.has_load = (int)random_below(seed, 2);
    o.has_zero_grad = (int)random_below(seed, 2);
    o.has_reduce = (int)random_below(seed, 2);
    o.has_step = (int)random_below(seed, 2);
    o.has_recompute = (int)random_below(seed, 2);
    o.has_tied = (int)random_below(seed, 2);
    kith_schedule *lowered;
    if (kith_schedule_lower(plan, &o, &lowered) != KITH_OK)
        fail_msg("%s", kith_error_detail());
    return lowered;
}

static void try_mutants(const kith_schedule *plan, const char *kind, uint64_t *seed, tally *sum)
{
    for (int i = 0; i < MUTANTS_OF_PLAN; i++) {
        draft d;
        char what[128];
        draft_init(&d, plan);
        if (random_below(seed, 4) == 0)
            add_shards(&d, seed);
        const char *change = i == 0 ? "unchanged" : mutate(&d, seed);
        snprintf(what, sizeof what, "%s, %s", kind, change);
        kith_schedule_check_options o = random_options(seed);
        compare(&d, &o, *seed, what, sum);
        draft_fini(&d);
    }
}

static void mutants_are_found(void **state)
{
    (void)state;
    uint64_t seed = 20;
    for (int kind = 0; kind < KITH_SCHEDULE_CUSTOM; kind++) {
        tally sum = { 0, 0 };
        int plans = 0;
        for (int round = 0; round < 24; round++) {
            kith_schedule *plan = random_plan((kith_schedule_kind)kind, &seed);
            if (plan == NULL)
                continue;
            plans++;
            kith_schedule *lowered = lower_somehow(plan, &seed);
            const char *name = kith_schedule_kind_name((kith_schedule_kind)kind);
            try_mutants(round % 4 == 0 ? plan : lowered, name, &seed, &sum);
            kith_schedule_destroy(lowered);
            kith_schedule_destroy(plan);
        }
        if (plans < 10 || sum.accepted < 100 || sum.refused < 400)
            fail_msg("%s: %d plans, %d mutants accepted and %d refused: too few to mean much",
                     kith_schedule_kind_name((kith_schedule_kind)kind), plans, sum.accepted, sum.refused);
    }
}

/* ---- random plans ---- */

/* A small right plan, shaken: some actions change places within their lists. Often still right. */
static void shake(draft *d, uint64_t *seed)
{
    for (unsigned left = random_below(seed, 5); left > 0; left--) {
        int rank;
        size_t at;
        if (!pick(d, seed, &rank, &at))
            continue;
        kith_action copy = d->lists[rank].actions[at];
        draft_remove(d, rank, at);
        size_t most = d->lists[rank].count, low = at > 2 ? at - 2 : 0, high = at + 2 < most ? at + 2 : most;
        draft_insert(d, rank, low + random_below(seed, (unsigned)(high - low + 1)), &copy);
    }
}

static void shaken_plans(void **state)
{
    (void)state;
    uint64_t seed = 7;
    tally sum = { 0, 0 };
    for (int i = 0; i < RANDOM_PLANS / 2; i++) {
        kith_schedule *plan = random_plan((kith_schedule_kind)random_below(&seed, KITH_SCHEDULE_CUSTOM), &seed);
        if (plan == NULL)
            continue;
        kith_schedule *lowered = lower_somehow(plan, &seed);
        draft d;
        draft_init(&d, random_below(&seed, 3) == 0 ? plan : lowered);
        shake(&d, &seed);
        kith_schedule_check_options o = random_options(&seed);
        compare(&d, &o, seed, "shaken", &sum);
        draft_fini(&d);
        kith_schedule_destroy(lowered);
        kith_schedule_destroy(plan);
    }
    if (sum.accepted < 500 || sum.refused < 500)
        fail_msg("wanted 500 of each, got %d accepted, %d refused", sum.accepted, sum.refused);
}

/* Any actions at all. */
static void noise(void **state)
{
    (void)state;
    uint64_t seed = 3;
    tally sum = { 0, 0 };
    kith_action actions[3][16];
    for (int i = 0; i < RANDOM_PLANS; i++) {
        draft d = { .ranks = 1 + (int)random_below(&seed, 3) };
        d.stages = d.ranks + (int)random_below(&seed, 3);
        d.microbatches = 1 + (int)random_below(&seed, 2);
        for (int stage = 0; stage < d.stages; stage++)
            d.rank_of_stage[stage] = stage < d.ranks ? stage : (int)random_below(&seed, (unsigned)d.ranks);
        for (int rank = 0; rank < d.ranks; rank++) {
            d.lists[rank].actions = actions[rank];
            d.lists[rank].count = random_below(&seed, 13);
            for (size_t k = 0; k < d.lists[rank].count; k++) {
                kith_action *a = &actions[rank][k];
                *a = (kith_action){ KITH_ACTION_IDLE, -1, -1, -1, random_below(&seed, 16) == 0 };
                retype(&d, a, &seed);
            }
        }
        kith_schedule_check_options o = random_options(&seed);
        compare(&d, &o, seed, "noise", &sum);
    }
    assert_int_equal(sum.accepted + sum.refused, RANDOM_PLANS);
}

/* ---- all orders of the smallest pipeline ---- */

static void swap(kith_action *a, kith_action *b)
{
    kith_action copy = *a;
    *a = *b;
    *b = copy;
}

static void all_orders(draft *d, int rank, size_t from, const kith_schedule_check_options *o, tally *sum)
{
    kith_action *actions = d->lists[rank].actions;
    size_t count = d->lists[rank].count;
    if (from == count) {
        if (rank + 1 < d->ranks)
            all_orders(d, rank + 1, 0, o, sum);
        else
            compare(d, o, 1, "an order", sum);
        return;
    }
    for (size_t i = from; i < count; i++) {
        swap(&actions[from], &actions[i]);
        all_orders(d, rank, from + 1, o, sum);
        swap(&actions[from], &actions[i]);
    }
}

/* F, its message, the message back, B: of 4! * 4! orders one is right. */
static void one_order_is_right(void **state)
{
    (void)state;
    const char *const lists[] = { "0F0 0SEND_F0 0RECV_B0 0B0", "1RECV_F0 1F0 1B0 1SEND_B0" };
    for (int capacity = 0; capacity < 2; capacity++) {
        kith_schedule *plan = plan_from(2, 2, 1, false, lists);
        kith_schedule_check_options o = KITH_SCHEDULE_CHECK_OPTIONS_INIT;
        o.capacity = capacity;
        tally sum = { 0, 0 };
        draft d;
        draft_init(&d, plan);
        all_orders(&d, 0, 0, &o, &sum);
        assert_int_equal(sum.accepted, 1);
        assert_int_equal(sum.refused, 24 * 24 - 1);
        draft_fini(&d);
        kith_schedule_destroy(plan);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_order_is_right),
        cmocka_unit_test(mutants_are_found),
        cmocka_unit_test(shaken_plans),
        cmocka_unit_test(noise),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
