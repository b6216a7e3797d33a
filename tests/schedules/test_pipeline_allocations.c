/* tests/schedules/test_pipeline_allocations.c - creation of a pipeline with every one of its allocations failing in
 * turn, on one rank of two: both hear of it, nothing leaks (AddressSanitizer looks), and the group goes on.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "toy.h"

#include "core/base/fault.h"

#include <kith/pipeline.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* The N-th allocation from now on fails; 0: none. */
static void fail_allocation(const rank_info *info, int number)
{
    char text[32];
    snprintf(text, sizeof text, "alloc:%d@%d", number, info->size - 1);
    if (number > 0)
        setenv("KITH_FAULT", text, 1);
    else
        unsetenv("KITH_FAULT");
    REQUIRE_OK(ki_fault_configure(info->rank));
}

static void walk(rank_info *info)
{
    toy_options o = { .replicas = 1, .is_exact = true, .microbatches = 4 };
    kith_schedule *plan = toy_plan(KITH_SCHEDULE_ZB_V, info->size, o.microbatches, 0, false);
    REQUIRE(plan != NULL);
    toy t;
    toy_create(&t, &o, plan, info->rank);
    kith_pipeline_options options = toy_pipeline_options(&t);
    options.is_ordered = options.keeps_times = options.shares_loss = 1;
    kith_pipeline_callbacks callbacks = toy_callbacks(&t);
    kith_pipeline *pipeline = NULL;
    kith_status status = KITH_ERR_NO_MEMORY;
    int number = 0;
    while (status != KITH_OK) {
        fail_allocation(info, ++number);
        status = kith_pipeline_create(plan, info->world, &callbacks, &options, &pipeline);
        fail_allocation(info, 0);
        if (status != KITH_OK)
            REQUIRE_STATUS(status, KITH_ERR_NO_MEMORY);
    }
    REQUIRE(number > 20);
    toy_attach(&t, pipeline);
    REQUIRE_OK(kith_pipeline_step(pipeline));
    kith_pipeline_destroy(pipeline);
    toy_destroy(&t);
    kith_schedule_destroy(plan);
}

static void test_creation(void **state)
{
    (void)state;
    for (int size = 1; size <= 2; size++) {
        run_options options = { .mode = LAUNCH_FORK, .size = size, .backend = "shm", .timeout_s = 50 };
        assert_int_equal(run_ranks(&options, walk, NULL), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_creation) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
