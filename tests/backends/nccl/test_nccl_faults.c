/* tests/backends/nccl/test_nccl_faults.c - groups over NCCL when something goes wrong: every rank ends, with the right
 * status, and has its buffers to itself afterwards.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "conformance/harness.h"

#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define COUNT 100000

static const kith_setting settings[] = { { "device", "cuda:local" }, { "check", "1" } };

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int run(const char *backend, rank_function function, bool joins_itself, bool is_checked, bool may_die)
{
    const run_options options = { .mode = LAUNCH_FORK,
                                  .size = 4,
                                  .backend = backend,
                                  .settings = settings,
                                  .setting_count = is_checked ? 2 : 1,
                                  .timeout_s = 40,
                                  .joins_itself = joins_itself,
                                  .may_die = may_die };
    return run_ranks(&options, function, NULL);
}

/* ---- buffers ---- */

static float *filled(const rank_info *info, float value)
{
    static _Thread_local float host[COUNT];
    float *ptr = NULL;
    kith_stream *stream = NULL;
    for (int i = 0; i < COUNT; i++)
        host[i] = value;
    kith_device *device = kith_ctx_device(info->ctx);
    REQUIRE_OK(kith_device_alloc(device, sizeof host, (void **)&ptr));
    REQUIRE_OK(kith_stream_create(device, &stream));
    REQUIRE_OK(kith_stream_copy(stream, ptr, host, sizeof host));
    REQUIRE_OK(kith_stream_synchronize(stream));
    REQUIRE_OK(kith_stream_destroy(stream));
    return ptr;
}

static void expect(const rank_info *info, const float *ptr, float wanted)
{
    static _Thread_local float host[COUNT];
    kith_stream *stream = NULL;
    REQUIRE_OK(kith_stream_create(kith_ctx_device(info->ctx), &stream));
    REQUIRE_OK(kith_stream_copy(stream, host, ptr, sizeof host));
    REQUIRE_OK(kith_stream_synchronize(stream));
    REQUIRE_OK(kith_stream_destroy(stream));
    for (int i = 0; i < COUNT; i++)
        if (host[i] != wanted)
            rank_fail(__FILE__, __LINE__, "element %d: wanted %g, got %g", i, (double)wanted, (double)host[i]);
}

static void let_go(const rank_info *info, float *ptr)
{
    REQUIRE_OK(kith_device_free(kith_ctx_device(info->ctx), ptr));
}

/* ---- nobody comes ---- */

static void late(rank_info *info)
{
    kith_group *group = NULL;
    REQUIRE_OK(kith_group_dup(info->world, NULL, &group));
    REQUIRE(strcmp(kith_group_device_backend(group), "nccl") == 0);
    REQUIRE_OK(kith_group_set_timeout(group, 1000));
    float *x = filled(info, 3);
    REQUIRE_OK(kith_all_reduce(group, x, x, COUNT, KITH_F32, KITH_MAX));
    if (info->rank != info->size - 1) {
        double start = seconds();
        REQUIRE_STATUS(kith_all_reduce(group, x, x, COUNT, KITH_F32, KITH_SUM), KITH_ERR_TIMEOUT);
        REQUIRE(seconds() - start < 10);
        REQUIRE_DETAIL("all_reduce f32 x100000 sum");
        REQUIRE_STATUS(kith_group_status(group), KITH_ERR_TIMEOUT);
        REQUIRE_STATUS(kith_barrier(group), KITH_ERR_TIMEOUT);
        expect(info, x, 3);
    }
    REQUIRE_OK(kith_barrier(info->world));
    REQUIRE_OK(kith_group_destroy(group));
    let_go(info, x);
}

static void test_late(void **state)
{
    (void)state;
    assert_int_equal(run("nccl", late, false, false, false), 0);
}

/* ---- abort ---- */

static void *abort_soon(void *arg)
{
    usleep(200000); /* the others stand in the operation by then; an earlier abort must end it as well */
    kith_group_abort((kith_group *)arg);
    return NULL;
}

static void aborted(rank_info *info)
{
    kith_group *group = NULL;
    REQUIRE_OK(kith_group_dup(info->world, NULL, &group));
    float *x = filled(info, 3);
    if (info->rank != info->size - 1) {
        kith_request *request = NULL;
        pthread_t thread;
        double start = seconds();
        REQUIRE_OK(kith_all_reduce_start(group, x, x, COUNT, KITH_F32, KITH_SUM, &request));
        REQUIRE(pthread_create(&thread, NULL, abort_soon, group) == 0);
        REQUIRE_STATUS(kith_wait(&request), KITH_ERR_ABORTED);
        REQUIRE(seconds() - start < 5);
        pthread_join(thread, NULL);
        REQUIRE_STATUS(kith_barrier(group), KITH_ERR_ABORTED);
        expect(info, x, 3);
    }
    REQUIRE_OK(kith_barrier(info->world));
    REQUIRE_OK(kith_group_destroy(group));
    let_go(info, x);
}

static void test_abort(void **state)
{
    (void)state;
    assert_int_equal(run("nccl", aborted, false, false, false), 0);
}

/* ---- death ---- */

static void killed(rank_info *info)
{
    REQUIRE_OK(join_ranks(info, NULL, &info->ctx));
    info->world = kith_world(info->ctx);
    float *x = filled(info, 0);
    double start = seconds();
    kith_status status = KITH_OK;
    for (int i = 0; status == KITH_OK && seconds() - start < 20; i++) {
        if (info->rank == 2 && i == 5)
            kill(getpid(), SIGKILL);
        status = kith_all_reduce(info->world, x, x, COUNT, KITH_F32, KITH_SUM);
    }
    if (status != KITH_ERR_PEER_FAILED && status != KITH_ERR_ABORTED)
        rank_fail(__FILE__, __LINE__, "wanted peer failed, got %s: %s", kith_status_name(status), kith_error_detail());
    expect(info, x, 0);
    let_go(info, x);
    kith_abandon(info->ctx);
}

static void test_kill(void **state)
{
    (void)state;
    assert_int_equal(run("nccl", killed, true, false, true), 0);
}

/* Operations of three groups stand on the device when the rank dies: the abort of one must not wait for the others'. */
static void killed_in_groups(rank_info *info)
{
    kith_group *groups[3];
    kith_request *requests[3];
    REQUIRE_OK(join_ranks(info, NULL, &info->ctx));
    info->world = kith_world(info->ctx);
    float *x = filled(info, 0);
    for (int i = 0; i < 3; i++) {
        REQUIRE_OK(kith_group_dup(info->world, NULL, &groups[i]));
        REQUIRE_OK(kith_all_reduce(groups[i], x, x, COUNT, KITH_F32, KITH_SUM));
    }
    REQUIRE_OK(kith_barrier(info->world));
    if (info->rank == 2)
        kill(getpid(), SIGKILL);
    double start = seconds();
    for (int i = 0; i < 3; i++)
        REQUIRE_OK(
            kith_all_reduce_start(groups[i], x + 1000 * i, x + 1000 * i, 1000, KITH_F32, KITH_SUM, &requests[i]));
    for (int i = 0; i < 3; i++)
        REQUIRE_STATUS(kith_wait(&requests[i]), KITH_ERR_PEER_FAILED);
    REQUIRE(seconds() - start < 10);
    expect(info, x, 0);
    let_go(info, x);
    kith_abandon(info->ctx);
}

static void test_kill_in_groups(void **state)
{
    (void)state;
    assert_int_equal(run("nccl", killed_in_groups, true, false, true), 0);
}

/* ---- different calls, in check mode: nothing is given to NCCL ---- */

static void mismatched(rank_info *info)
{
    float *x = filled(info, 1);
    bool is_odd = info->rank == 1;
    kith_group *w = info->world;
    REQUIRE_STATUS(kith_all_reduce(w, x, x, is_odd ? 32 : 64, KITH_F32, KITH_SUM), KITH_ERR_MISMATCH);
    REQUIRE_DETAIL("rank 1: all_reduce f32 x32 sum");
    REQUIRE_STATUS(kith_all_reduce(w, x, x, 64, KITH_F32, is_odd ? KITH_MAX : KITH_SUM), KITH_ERR_MISMATCH);
    REQUIRE_DETAIL("rank 1: all_reduce f32 x64 max");
    REQUIRE_STATUS(is_odd ? kith_broadcast(w, x, 64, KITH_F32, 1) : kith_all_reduce(w, x, x, 64, KITH_F32, KITH_SUM),
                   KITH_ERR_MISMATCH);
    REQUIRE_OK(kith_all_reduce(w, x, x, COUNT, KITH_F32, KITH_SUM)); /* the group is whole */
    expect(info, x, (float)info->size);
    let_go(info, x);
}

static void test_mismatch(void **state)
{
    (void)state;
    assert_int_equal(run("nccl", mismatched, false, true, false), 0);
}

/* ---- NCCL notices something on one rank (KITH_SIMGPU_FAULT): it knows why, and the others end, too ---- */

static void asynchronous(rank_info *info)
{
    float *x = filled(info, 1);
    kith_status status = KITH_OK;
    for (int i = 0; i < 3 && status == KITH_OK; i++)
        status = kith_all_reduce(info->world, x, x, COUNT, KITH_F32, KITH_SUM);
    if (info->rank == 1) {
        char detail[1024];
        snprintf(detail, sizeof detail, "%s", kith_error_detail());
        REQUIRE(status == KITH_ERR_PEER_FAILED);
        REQUIRE_TEXT(detail, "injected: a peer's connection closed");
    } else {
        REQUIRE_STATUS(status, KITH_ERR_PEER_FAILED);
        REQUIRE_DETAIL("an operation failed on rank 1 (world rank 1)");
    }
    let_go(info, x);
    atomic_fetch_add(&info->board->counters[0], 1);
    while (atomic_load(&info->board->counters[0]) < info->size) /* leaving would tell them, too */
        usleep(1000);
}

static void asynchronous_and_leave(rank_info *info)
{
    REQUIRE_OK(join_ranks(info, NULL, &info->ctx));
    info->world = kith_world(info->ctx);
    asynchronous(info);
    kith_abandon(info->ctx);
}

static void test_async(void **state)
{
    (void)state;
    assert_int_equal(run("nccl", asynchronous_and_leave, true, false, false), 0);
}

/* ---- a message that one rank cannot post: nobody waits for it ---- */

static void exchanges(rank_info *info, const char *backend, const char *fault)
{
    if (info->rank == 1)
        REQUIRE(setenv("KITH_SIMGPU_FAULT", fault, 1) == 0);
    REQUIRE_OK(join_ranks(info, NULL, &info->ctx));
    info->world = kith_world(info->ctx);
    REQUIRE(strcmp(kith_group_device_backend(info->world), backend) == 0);
    float *x = filled(info, 1), *y = filled(info, 2);
    int next = (info->rank + 1) % info->size, before = (info->rank + info->size - 1) % info->size;
    kith_status status = KITH_OK;
    for (int i = 0; i < 10 && status == KITH_OK; i++)
        status = kith_sendrecv(info->world, x, COUNT, next, 1, y, COUNT, before, 1, KITH_F32);
    if (info->rank == 1) {
        REQUIRE(status == KITH_ERR_NO_MEMORY && kith_group_status(info->world) == status);
        REQUIRE_DETAIL("out of memory");
    } else { /* by the word of rank 1, or by the mark that it left in the transport */
        REQUIRE(status == KITH_ERR_PEER_FAILED || (status == KITH_ERR_ABORTED && strcmp(backend, "staged") == 0));
        REQUIRE_DETAIL("rank 1");
    }
    let_go(info, x);
    let_go(info, y);
    atomic_fetch_add(&info->board->counters[0], 1);
    while (atomic_load(&info->board->counters[0]) < info->size) /* leaving would tell them, too */
        usleep(1000);
    kith_abandon(info->ctx);
}

static void exchanges_over_nccl(rank_info *info)
{
    exchanges(info, "nccl", "event:2");
}

static void exchanges_staged(rank_info *info)
{
    REQUIRE(setenv("KITH_NCCL_LIBRARY", "/nowhere/libnccl.so.2", 1) == 0);
    exchanges(info, "staged", "event:3");
}

static void test_message(void **state)
{
    (void)state;
    assert_int_equal(run("nccl", exchanges_over_nccl, true, false, false), 0);
    assert_int_equal(run(NULL, exchanges_staged, true, false, false), 0);
}

/* ---- a communicator that cannot be made: asked for by name, nobody joins; else all go through the host ---- */

static void refused(rank_info *info)
{
    kith_ctx *ctx = NULL;
    double start = seconds();
    kith_status status = join_ranks(info, NULL, &ctx);
    REQUIRE(status != KITH_OK && ctx == NULL);
    REQUIRE(seconds() - start < 10);
    atomic_store(&info->board->counters[info->rank], (int)-status);
    atomic_fetch_add(&info->board->counters[32], 1);
    while (atomic_load(&info->board->counters[32]) < info->size)
        usleep(1000);                    /* until all have told; the test's deadline ends it */
    for (int r = 0; r < info->size; r++) /* the same on all */
        REQUIRE(atomic_load(&info->board->counters[r]) == (int)-status);
}

static void staged(rank_info *info)
{
    REQUIRE(strcmp(kith_group_device_backend(info->world), "staged") == 0);
    float *x = filled(info, 1);
    REQUIRE_OK(kith_all_reduce(info->world, x, x, COUNT, KITH_F32, KITH_SUM));
    expect(info, x, (float)info->size);
    let_go(info, x);
}

static void test_cannot_join(void **state)
{
    (void)state;
    assert_int_equal(run("nccl", refused, true, false, false), 0);
    assert_int_equal(run(NULL, staged, false, false, false), 0);
}

/* ---- groups out of groups: split by NCCL where it can be, else made anew ---- */

/* What a simulated NCCL tells; -1: this is a real one. */
static int splits(void)
{
    const char *path = getenv("KITH_NCCL_LIBRARY");
    void *handle = path != NULL ? dlopen(path, RTLD_NOW | RTLD_NOLOAD) : NULL;
    int (*ask)(void) = NULL;
    if (handle != NULL)
        *(void **)&ask = dlsym(handle, "sim_nccl_splits");
    int count = ask != NULL ? ask() : -1;
    if (handle != NULL)
        dlclose(handle);
    return count;
}

static void sums(const rank_info *info, kith_group *group)
{
    if (group == NULL)
        return;
    float *x = filled(info, 1);
    REQUIRE(kith_group_size(group) == 1 || strcmp(kith_group_device_backend(group), "nccl") == 0);
    REQUIRE_OK(kith_all_reduce(group, x, x, COUNT, KITH_F32, KITH_SUM));
    expect(info, x, (float)kith_group_size(group));
    let_go(info, x);
}

static void make_groups(const rank_info *info, bool is_split)
{
    static const int three[] = { 3, 0, 1 };
    kith_group *groups[5] = { NULL };
    kith_request *request = NULL;
    kith_group *w = info->world;
    float *x = filled(info, 1);
    int before = splits();
    REQUIRE_OK(kith_all_reduce_start(w, x, x, COUNT, KITH_F32, KITH_SUM, &request)); /* under way when it is split */
    REQUIRE_OK(kith_group_split(w, info->rank % 2, -info->rank, NULL, &groups[0]));
    REQUIRE_OK(kith_wait(&request));
    REQUIRE(kith_group_world_rank(groups[0], 0) == 2 + info->rank % 2);
    REQUIRE_OK(kith_group_create(w, three, 3, NULL, &groups[1]));
    REQUIRE_OK(kith_group_split(w, info->rank == 3 ? KITH_NO_COLOR : 7, 0, NULL, &groups[2]));
    REQUIRE_OK(kith_group_dup(groups[0], NULL, &groups[3]));
    REQUIRE_OK(kith_group_split(w, info->rank == 0, 0, NULL, &groups[4])); /* one alone: nothing for NCCL */
    REQUIRE(before < 0 || splits() - before == (is_split ? 5 : 0));
    sums(info, w);
    for (int i = 0; i < 5; i++)
        sums(info, groups[i]);
    for (int i = 0; i < 5; i++)
        REQUIRE_OK(kith_group_destroy(groups[i]));
    let_go(info, x);
}

static void split_groups(rank_info *info)
{
    make_groups(info, true);
}

static void mesh_groups(rank_info *info)
{
    static const kith_mesh_axis axes[] = { { "tp", 2 }, { "dp", 2 } };
    kith_mesh *mesh = NULL;
    int before = splits();
    REQUIRE_OK(kith_mesh_create(info->world, axes, 2, NULL, &mesh));
    REQUIRE(before < 0 || splits() - before >= 2);
    sums(info, kith_mesh_group(mesh, "tp"));
    sums(info, kith_mesh_group(mesh, "dp"));
    REQUIRE_OK(kith_mesh_destroy(mesh));
}

static void whole_groups(rank_info *info)
{
    REQUIRE_OK(join_ranks(info, NULL, &info->ctx));
    info->world = kith_world(info->ctx);
    make_groups(info, false);
    REQUIRE_OK(kith_finalize(info->ctx));
}

static void test_split(void **state)
{
    (void)state;
    assert_int_equal(run("nccl", split_groups, false, false, false), 0);
    assert_int_equal(run("nccl", mesh_groups, false, false, false), 0);
    setenv("KITH_NCCL_LAUNCH", "nonblocking", 1);
    assert_int_equal(run("nccl", split_groups, false, false, false), 0);
    unsetenv("KITH_NCCL_LAUNCH");
    setenv("KITH_NCCL_SPLIT", "off", 1);
    assert_int_equal(run("nccl", whole_groups, true, false, false), 0);
    unsetenv("KITH_NCCL_SPLIT");
}

/* One rank's split fails (KITH_SIMGPU_FAULT): the group is made anew on all; the parent's communicator is over. */
static void cannot_split(rank_info *info)
{
    kith_group *group = NULL;
    REQUIRE_OK(join_ranks(info, NULL, &info->ctx));
    info->world = kith_world(info->ctx);
    double start = seconds();
    REQUIRE_OK(kith_group_dup(info->world, NULL, &group));
    REQUIRE(seconds() - start < 5 && splits() == 0);
    sums(info, group);
    float *x = filled(info, 1);
    REQUIRE(kith_all_reduce(info->world, x, x, COUNT, KITH_F32, KITH_SUM) != KITH_OK);
    if (info->rank == 1)
        REQUIRE_DETAIL("injected: rank 1 cannot split");
    let_go(info, x);
    atomic_fetch_add(&info->board->counters[32], 1);
    while (atomic_load(&info->board->counters[32]) < info->size)
        usleep(
            1000); /* until all are so far, as one that leaves has died for the others; the test's deadline ends it */
    kith_abandon(info->ctx);
}

static void test_cannot_split(void **state)
{
    (void)state;
    assert_int_equal(run("nccl", cannot_split, true, false, false), 0);
    setenv("KITH_NCCL_LAUNCH", "nonblocking", 1);
    assert_int_equal(run("nccl", cannot_split, true, false, false), 0);
    unsetenv("KITH_NCCL_LAUNCH");
}

/* Each argument is a run of its own: the simulator reads the failure to inject once. */
int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_late),     cmocka_unit_test(test_abort),
                                        cmocka_unit_test(test_kill),     cmocka_unit_test(test_kill_in_groups),
                                        cmocka_unit_test(test_mismatch), cmocka_unit_test(test_split) };
    const struct CMUnitTest cannot_be_split[] = { cmocka_unit_test(test_cannot_split) };
    const struct CMUnitTest async[] = { cmocka_unit_test(test_async) };
    const struct CMUnitTest message[] = { cmocka_unit_test(test_message) };
    const struct CMUnitTest cannot_join[] = { cmocka_unit_test(test_cannot_join) };
    cmocka_set_test_filter(getenv("KITH_TEST_FILTER"));
    if (argc > 1 && strcmp(argv[1], "async") == 0)
        return cmocka_run_group_tests_name("nccl, asynchronous error", async, NULL, NULL);
    if (argc > 1 && strcmp(argv[1], "message") == 0)
        return cmocka_run_group_tests_name("nccl, a message that fails", message, NULL, NULL);
    if (argc > 1 && strcmp(argv[1], "split") == 0)
        return cmocka_run_group_tests_name("nccl, a split that fails", cannot_be_split, NULL, NULL);
    if (argc > 1) /* init, duplicate */
        return cmocka_run_group_tests_name("nccl, no communicator", cannot_join, NULL, NULL);
    return cmocka_run_group_tests_name("nccl, faults", tests, NULL, NULL);
}
