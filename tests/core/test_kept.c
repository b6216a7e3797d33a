/* tests/core/test_kept.c - kept plans: the same results, errors and ends as without, and no memory beyond the limits.
 *
 * Ranks are threads over shm, whose messages carry plans where an algorithm is forced by a setting.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "conformance/harness.h"
#include "core/kept.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum { RANKS = 3, MOST = 4096 };

static const kith_setting forced[] = {
    { "algo", "all_reduce=linear,all_gather=linear,broadcast=knomial,all_to_all=linear,reduce=linear,"
              "barrier=dissemination" }
};

/* Sums of small whole numbers are exact. */
static int32_t value(int rank, size_t i, int call)
{
    return (int32_t)(i % 100) * (rank + 1) + call;
}

static int32_t sum(size_t i, int call)
{
    int32_t total = 0;
    for (int r = 0; r < RANKS; r++)
        total += value(r, i, call);
    return total;
}

static int kept_count(const kith_group *group)
{
    return group->kept != NULL ? group->kept->count : 0;
}

/* send NULL: in place. */
static void all_reduce(const rank_info *info, int32_t *send, int32_t *recv, size_t count, int call)
{
    int32_t *from = send != NULL ? send : recv;
    for (size_t i = 0; i < count; i++)
        from[i] = value(info->rank, i, call);
    REQUIRE_OK(kith_all_reduce(info->world, from, recv, count, KITH_INT32, KITH_SUM));
    for (size_t i = 0; i < count; i++)
        if (recv[i] != sum(i, call))
            rank_fail(__FILE__, __LINE__, "call %d, element %zu of %zu: wanted %d, got %d", call, i, count,
                      sum(i, call), recv[i]);
}

/* Counts, places and buffers change from call to call; more of them than are kept, and most come again. */
static void body_results(rank_info *info)
{
    static _Thread_local int32_t a[MOST], b[MOST], c[MOST];
    for (int call = 0; call < 200; call++) {
        size_t count = (size_t)(call * 7 % 23) * 50 + 1;
        all_reduce(info, call % 3 == 0 ? NULL : a, call % 2 == 0 ? b : c, count, call);
        REQUIRE(kept_count(info->world) <= KI_KEPT_MOST);
    }
    REQUIRE(kept_count(info->world) == KI_KEPT_MOST);
    uint64_t sequence = info->world->sequence;
    all_reduce(info, a, b, 10, 1);
    const kith_request *first = info->world->kept->plans[0].request;
    all_reduce(info, c, a, 10, 2);
    REQUIRE(info->world->kept->plans[0].request == first);
    all_reduce(info, NULL, a, 10, 3); /* in place: another plan */
    REQUIRE(info->world->kept->plans[0].request != first);
    REQUIRE(info->world->sequence == sequence + 3);
}

/* Each part of the key tells plans apart. */
static void body_keys(rank_info *info)
{
    int32_t own = info->rank + 1, all[RANKS], result = 0;
    float real = (float)own, real_result = 0;
    for (int round = 0; round < 3; round++) {
        REQUIRE_OK(kith_all_reduce(info->world, &own, &result, 1, KITH_INT32, KITH_SUM));
        REQUIRE(result == 6);
        REQUIRE_OK(kith_all_reduce(info->world, &own, &result, 1, KITH_INT32, KITH_MAX));
        REQUIRE(result == 3);
        REQUIRE_OK(kith_all_reduce(info->world, &real, &real_result, 1, KITH_F32, KITH_SUM));
        REQUIRE(real_result == 6.0f);
        REQUIRE_OK(kith_all_gather(info->world, &own, all, 1, KITH_INT32));
        REQUIRE(all[0] == 1 && all[1] == 2 && all[2] == 3);
        for (int root = 0; root < RANKS; root++) {
            result = own;
            REQUIRE_OK(kith_broadcast(info->world, &result, 1, KITH_INT32, root));
            REQUIRE(result == root + 1);
            result = 0;
            REQUIRE_OK(kith_reduce(info->world, &own, &result, 1, KITH_INT32, KITH_PROD, root));
            REQUIRE(result == (info->rank == root ? 6 : 0));
        }
        REQUIRE_OK(kith_barrier(info->world));
        REQUIRE(kept_count(info->world) == 11);
    }
}

/* A call that is refused leaves the plan, and the ranks in step. */
static void body_refused(rank_info *info)
{
    int32_t own[4] = { 1, 1, 1, 1 }, result[4];
    for (int round = 0; round < 2; round++) {
        REQUIRE_OK(kith_all_reduce(info->world, own, result, 4, KITH_INT32, KITH_SUM));
        REQUIRE_STATUS(kith_all_reduce(info->world, own, NULL, 4, KITH_INT32, KITH_SUM), KITH_ERR_INVALID_ARG);
        REQUIRE_DETAIL("a buffer is NULL");
        REQUIRE_STATUS(kith_all_reduce(info->world, own, (char *)own + 4, 4, KITH_INT32, KITH_SUM),
                       KITH_ERR_INVALID_ARG);
        REQUIRE_DETAIL("overlap");
        REQUIRE(kept_count(info->world) == 1);
    }
}

/* Scratch is one for all plans and has a limit; an operation beyond it runs and is not kept. */
static void body_memory(rank_info *info)
{
    size_t most = 3 * KI_KEPT_TEMP_NBYTES / sizeof(int32_t);
    int32_t *send = (int32_t *)calloc(most, sizeof *send), *recv = (int32_t *)calloc(most, sizeof *recv);
    REQUIRE(send != NULL && recv != NULL);
    for (int round = 0; round < 2; round++) {
        for (size_t count = 1; count < most; count *= 16)
            all_reduce(info, send, recv, count, round);
        int before = kept_count(info->world);
        all_reduce(info, send, recv, most, round);
        REQUIRE(kept_count(info->world) == before);
        REQUIRE(info->world->kept->temp_capacity <= KI_KEPT_TEMP_NBYTES);
        for (int i = 0; i < before; i++)
            REQUIRE(info->world->kept->plans[i].request->executor.temp == NULL);
    }
    free(send);
    free(recv);
}

/* A deadline holds for a plan that ran before; who has not come is told, and the group is over. */
static void body_late(rank_info *info)
{
    int32_t own = 1, result = 0;
    for (int i = 0; i < 3; i++)
        REQUIRE_OK(kith_all_reduce(info->world, &own, &result, 1, KITH_INT32, KITH_SUM));
    if (info->rank == 0) { /* comes only when the others have given up */
        while (atomic_load(&info->board->counters[0]) < RANKS - 1) {
        }
        return;
    }
    REQUIRE_STATUS(kith_all_reduce(info->world, &own, &result, 1, KITH_INT32, KITH_SUM), KITH_ERR_TIMEOUT);
    REQUIRE_DETAIL("all_reduce int32 x1 sum seq 3 on group 'world'");
    REQUIRE_DETAIL("did not complete within 300 ms");
    REQUIRE(kept_count(info->world) == 0);
    REQUIRE_STATUS(kith_all_reduce(info->world, &own, &result, 1, KITH_INT32, KITH_SUM), KITH_ERR_TIMEOUT);
    REQUIRE_DETAIL("seq 3");
    atomic_fetch_add(&info->board->counters[0], 1);
}

/* What a started collective has in the queue comes first, whatever is kept. */
static void body_queued(rank_info *info)
{
    int32_t own = info->rank + 1, started = 0, result = 0;
    for (int i = 0; i < 5; i++) {
        kith_request *request = NULL;
        REQUIRE_OK(kith_all_reduce_start(info->world, &own, &started, 1, KITH_INT32, KITH_SUM, &request));
        REQUIRE_OK(kith_all_reduce(info->world, &own, &result, 1, KITH_INT32, KITH_MAX));
        REQUIRE_OK(kith_wait(&request));
        REQUIRE(started == 6 && result == 3);
    }
}

/* A persistent request keeps its plan: the results of each start are those of its buffers then. */
static void body_persistent(rank_info *info)
{
    int32_t own = 0, result = 0;
    kith_coll_args args = KITH_COLL_ARGS_INIT;
    args.kind = KITH_ALL_REDUCE;
    args.send = &own;
    args.recv = &result;
    args.count = 1;
    args.dtype = KITH_INT32;
    args.op = KITH_SUM;
    kith_request *request = NULL;
    REQUIRE_OK(kith_coll_init(info->world, &args, &request));
    for (int i = 0; i < 5; i++) {
        own = i * (info->rank + 1);
        REQUIRE_OK(kith_request_start(request));
        REQUIRE_OK(kith_wait(&request));
        REQUIRE(result == 6 * i);
    }
    REQUIRE_OK(kith_request_free(&request));
}

static void run_body(rank_function body, int64_t timeout_ms)
{
    const run_options options = { .mode = LAUNCH_THREADS,
                                  .size = RANKS,
                                  .backend = "shm",
                                  .settings = forced,
                                  .setting_count = sizeof forced / sizeof *forced,
                                  .timeout_ms = timeout_ms,
                                  .timeout_s = 60 };
    assert_int_equal(run_ranks(&options, body, NULL), 0);
}

#define CASE(name, timeout_ms)                                                                                         \
    static void test_##name(void **state)                                                                              \
    {                                                                                                                  \
        (void)state;                                                                                                   \
        run_body(body_##name, timeout_ms);                                                                             \
    }
CASE(results, 0)
CASE(keys, 0)
CASE(refused, 0)
CASE(memory, 0)
CASE(late, 300)
CASE(queued, 0)
CASE(persistent, 0)

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_results),   cmocka_unit_test(test_keys),
                                        cmocka_unit_test(test_refused),   cmocka_unit_test(test_memory),
                                        cmocka_unit_test(test_late),      cmocka_unit_test(test_queued),
                                        cmocka_unit_test(test_persistent) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
