/* tests/schedules/test_generate_every.c - every kind over ranges of ranks, chunks and microbatches: each action exactly
 * once, and the lists run to their end. With the argument "whole" every size up to 16 ranks, 4 chunks and 64
 * microbatches; else a part of them.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "plan_help.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static bool is_whole; /* all sizes */

static void check(const kith_schedule_options *o)
{
    kith_schedule *plan = plan_make(o);
    const char *why = "it waits for itself";
    plan_clock clock;
    if (!plan_is_complete(plan, &why) || !plan_run(plan, (plan_times){ 1, 1, 1, -1, 0 }, &clock))
        fail_msg("%s, p = %d, m = %d, v = %d, groups of %d, factor %d, forward only %d: %s",
                 kith_schedule_kind_name(o->kind), o->ranks, o->microbatches, o->chunks, o->group_size,
                 o->warmup_factor, o->is_forward_only, why != NULL ? why : "it waits for itself");
    kith_schedule_destroy(plan);
}

static bool has_chunks(kith_schedule_kind kind)
{
    return kind == KIND(INTERLEAVED) || kind == KIND(INTERLEAVED_ZB) || kind == KIND(LOOPED_BFS) || kind == KIND(NAIVE);
}

static void check_groups(kith_schedule_options o)
{
    const int sizes[] = { o.ranks + 1, 2 * o.ranks - 1, 2 * o.ranks };
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        if (sizes[i] < o.ranks)
            continue;
        o.group_size = sizes[i];
        check(&o);
    }
}

static void check_size(kith_schedule_options o)
{
    check(&o);
    o.is_forward_only = 1;
    check(&o);
    o.is_forward_only = 0;
    if (o.kind != KIND(INTERLEAVED) && o.kind != KIND(INTERLEAVED_ZB))
        return;
    check_groups(o);
    if (o.kind == KIND(INTERLEAVED)) {
        o.warmup_factor = 1;
        check(&o);
        check_groups(o);
    }
}

/* Of the whole range, in the short test: small sizes, and some of the others. */
static bool is_taken(int p, int m)
{
    return is_whole || (p <= 6 && m <= 2 * p + 3) || (p * 31 + m * 17) % 23 == 0;
}

static void test_every(void **state)
{
    (void)state;
    for (int kind = 0; kind < KITH_SCHEDULE_CUSTOM; kind++)
        for (int v = 1; v <= 4; v++) {
            kith_schedule_options o = KITH_SCHEDULE_OPTIONS_INIT;
            o.kind = (kith_schedule_kind)kind;
            o.chunks = has_chunks(o.kind) ? v : 0;
            if (v > 1 && !has_chunks(o.kind))
                break;
            for (o.ranks = 1; o.ranks <= 16; o.ranks++)
                for (o.microbatches = 1; o.microbatches <= 64; o.microbatches++)
                    if (is_taken(o.ranks, o.microbatches))
                        check_size(o);
        }
}

int main(int argc, char **argv)
{
    is_whole = argc > 1 && strcmp(argv[1], "whole") == 0;
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_every) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
