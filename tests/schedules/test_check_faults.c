/* tests/schedules/test_check_faults.c - each allocation of lowering and checking fails once: the status says so,
 * nothing is handed out, nothing leaks, and with enough memory it works.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "check_help.h"
#include "core/base/fault.h"

#include <kith/context.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static void fail_allocation(int number)
{
    char text[32];
    snprintf(text, sizeof text, "alloc:%d", number);
    setenv("KITH_FAULT", text, 1);
    assert_int_equal(ki_fault_configure(0), KITH_OK);
}

static void fail_none(void)
{
    unsetenv("KITH_FAULT");
    assert_int_equal(ki_fault_configure(0), KITH_OK);
}

typedef kith_status (*try_fn)(const kith_schedule *plan);

/* How often it failed before it went through with `wanted`. */
static int walk(const kith_schedule *plan, try_fn try, kith_status wanted)
{
    int failures = 0;
    kith_status status;
    do {
        fail_allocation(failures + 1);
        status = try(plan);
        failures += status == KITH_ERR_NO_MEMORY;
        assert_true(failures < 1000);
    } while (status == KITH_ERR_NO_MEMORY);
    fail_none();
    assert_int_equal(status, wanted);
    return failures;
}

static kith_status try_lower(const kith_schedule *plan)
{
    kith_schedule *lowered = NULL;
    kith_status status = kith_schedule_lower(plan, NULL, &lowered);
    assert_true((lowered != NULL) == (status == KITH_OK));
    kith_schedule_destroy(lowered);
    return status;
}

static kith_status try_compute_only(const kith_schedule *plan)
{
    kith_schedule *back = NULL;
    kith_status status = kith_schedule_compute_only(plan, &back);
    assert_true((back != NULL) == (status == KITH_OK));
    kith_schedule_destroy(back);
    return status;
}

static kith_status try_check(const kith_schedule *plan)
{
    char *report;
    kith_status status = kith_schedule_check(plan, NULL, &report);
    assert_true((report != NULL) == (status == KITH_ERR_INVALID_ARG));
    kith_free(report);
    return status;
}

static void right_plan(void **state)
{
    (void)state;
    kith_schedule_options o = KITH_SCHEDULE_OPTIONS_INIT;
    o.kind = KITH_SCHEDULE_INTERLEAVED;
    o.ranks = 2;
    o.microbatches = 3; /* not a multiple: the plan has a note */
    kith_schedule *plan, *lowered;
    assert_int_equal(kith_schedule_create(&o, &plan), KITH_OK);
    assert_non_null(kith_schedule_note(plan, 0));
    assert_int_equal(kith_schedule_lower(plan, NULL, &lowered), KITH_OK);
    assert_true(walk(plan, try_lower, KITH_OK) > 20);
    assert_true(walk(lowered, try_compute_only, KITH_OK) > 5);
    assert_true(walk(plan, try_check, KITH_OK) > 5);
    assert_true(walk(lowered, try_check, KITH_OK) > 10);
    kith_schedule_destroy(lowered);
    kith_schedule_destroy(plan);
}

static void wrong_plan(void **state)
{
    (void)state;
    static const char *const lists[] = { "0F0 0RECV_B0 0SEND_F0 0B0", "1RECV_F0 1F0 1B0 1SEND_B0" };
    kith_schedule *plan = plan_from(2, 2, 1, false, lists);
    assert_true(walk(plan, try_check, KITH_ERR_INVALID_ARG) > 10);
    kith_schedule_destroy(plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(right_plan), cmocka_unit_test(wrong_plan) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
