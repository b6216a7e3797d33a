/* tests/core/test_group_steps.c - how many steps a rank takes to join and to make groups, for 2 to 32 ranks.
 *
 * A step is a request to the store: the rank sends one and waits for the answer. What else a rank does while a group is
 * made it does without waiting for others, but for the hand-over between ranks 0 and 1 that shm times. Ranks are
 * threads. Whatever their number, a rank may take no more than MOST steps and STEPS_OF_DOUBLING for each doubling.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "conformance/harness.h"
#include "core/boot/store.h"
#include "core/object.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum { MOST = 20, STEPS_OF_DOUBLING = 2 };

static int doublings(int ranks)
{
    int count = 0;
    while (1 << count < ranks)
        count++;
    return count;
}

/* Steps of this rank since *before, which becomes now. */
static void check_steps(const rank_info *info, const char *what, uint64_t *before)
{
    uint64_t now = ki_store_requests(info->ctx->store), steps = now - *before;
    uint64_t most = MOST + STEPS_OF_DOUBLING * (uint64_t)doublings(info->size);
    if (info->rank == 0)
        printf("%d ranks, %s: %llu steps\n", info->size, what, (unsigned long long)steps);
    if (steps == 0 || steps > most)
        rank_fail(__FILE__, __LINE__, "%s on %d ranks: %llu steps, wanted 1 to %llu", what, info->size,
                  (unsigned long long)steps, (unsigned long long)most);
    *before = now;
}

static void body(rank_info *info)
{
    kith_group *dup = NULL, *half = NULL, *list = NULL;
    int ranks[64];
    uint64_t steps = 0;
    REQUIRE(info->size <= 64);
    check_steps(info, "kith_init", &steps);
    for (int i = 0; i < info->size; i++)
        ranks[i] = info->size - 1 - i;
    REQUIRE_OK(kith_group_dup(info->world, NULL, &dup));
    check_steps(info, "kith_group_dup", &steps);
    REQUIRE_OK(kith_group_split(info->world, info->rank % 2, 0, NULL, &half));
    check_steps(info, "kith_group_split", &steps);
    REQUIRE_OK(kith_group_create(info->world, ranks, (size_t)info->size, NULL, &list));
    check_steps(info, "kith_group_create", &steps);
    REQUIRE_OK(kith_barrier(list));
}

static void test_steps_do_not_grow_with_the_ranks(void **state)
{
    (void)state;
    for (int size = 2; size <= 32; size *= 2) {
        const run_options options = { .mode = LAUNCH_THREADS, .size = size, .timeout_s = 50 };
        assert_int_equal(run_ranks(&options, body, NULL), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_steps_do_not_grow_with_the_ranks) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
