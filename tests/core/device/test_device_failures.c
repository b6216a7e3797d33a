/* tests/core/device/test_device_failures.c - what is refused on device memory, and how what fails ends: deadlines,
 * aborts, ranks that die.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "core/device/gpu.h"

#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

enum { COUNT = 2000 };

typedef struct work {
    kith_group *group;
    gpu gpu;
    int rank, size;
    float *a, *b; /* [COUNT * size], on the device */
    float *host;
} work;

static work begin(const rank_info *info)
{
    work w = { .group = info->world, .rank = info->rank, .size = info->size };
    size_t nbytes = (size_t)COUNT * (size_t)info->size * sizeof(float);
    gpu_open(info, &w.gpu);
    w.a = (float *)gpu_alloc(&w.gpu, nbytes);
    w.b = (float *)gpu_alloc(&w.gpu, nbytes);
    REQUIRE((w.host = (float *)calloc(1, nbytes)) != NULL);
    gpu_put(&w.gpu, w.a, w.host, nbytes, true);
    gpu_put(&w.gpu, w.b, w.host, nbytes, true);
    return w;
}

static void finish(work *w)
{
    REQUIRE_OK(kith_device_free(w->gpu.device, w->a));
    REQUIRE_OK(kith_device_free(w->gpu.device, w->b));
    gpu_close(&w->gpu);
    free(w->host);
}

static int64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Outside of the library: who leaves it at once, or ends the group, may be seen to do so first. */
static void meet(rank_info *info, int counter)
{
    atomic_fetch_add(&info->board->counters[counter], 1);
    while (atomic_load(&info->board->counters[counter]) < info->size)
        sched_yield();
}

/* ---- refused ---- */

static void refusals(rank_info *info)
{
    work w = begin(info);
    kith_request *request = NULL;
    REQUIRE_STATUS(kith_all_reduce(w.group, w.host, w.b, COUNT, KITH_F32, KITH_SUM), KITH_ERR_INVALID_ARG);
    REQUIRE_DETAIL("the send buffer is host memory and the receive buffer is device memory");
    REQUIRE_STATUS(kith_all_gather_start(w.group, w.a, w.host, COUNT, KITH_F32, &request), KITH_ERR_INVALID_ARG);
    REQUIRE_DETAIL("must be of the same kind");
    REQUIRE(request == NULL);
    /* only what this rank uses counts */
    REQUIRE_OK(kith_reduce(w.group, w.a, w.rank == 0 ? (void *)w.b : (void *)w.host, COUNT, KITH_F32, KITH_SUM, 0));
    if (info->size > 1) {
        kith_device *other = NULL;
        void *foreign = NULL;
        kith_device_info own = KITH_DEVICE_INFO_INIT;
        REQUIRE_OK(kith_device_describe(w.gpu.device, &own));
        REQUIRE_OK(kith_device_open(own.ordinal == 3 ? 0 : 3, &other));
        REQUIRE_OK(kith_device_alloc(other, 4096, &foreign));
        REQUIRE_STATUS(kith_all_reduce(w.group, foreign, foreign, 8, KITH_F32, KITH_SUM), KITH_ERR_INVALID_ARG);
        REQUIRE_DETAIL("the context's device is");
        REQUIRE_STATUS(kith_send(w.group, foreign, 8, KITH_F32, 0, 0), KITH_ERR_INVALID_ARG);
        kith_stream *stream = NULL;
        REQUIRE_OK(kith_stream_create(other, &stream));
        REQUIRE_STATUS(kith_group_set_stream(w.group, stream), KITH_ERR_INVALID_ARG);
        REQUIRE_OK(kith_stream_destroy(stream));
        REQUIRE_OK(kith_device_free(other, foreign));
        REQUIRE_OK(kith_device_close(other));
    }
    kith_stream *gone = NULL;
    REQUIRE_OK(kith_stream_create(w.gpu.device, &gone));
    REQUIRE_OK(kith_group_set_stream(w.group, gone));
    REQUIRE_OK(kith_stream_destroy(gone));
    REQUIRE_STATUS(kith_all_reduce(w.group, w.a, w.b, COUNT, KITH_F32, KITH_SUM), KITH_ERR_INVALID_ARG);
    REQUIRE_DETAIL("was destroyed");
    REQUIRE_OK(kith_group_set_stream(w.group, NULL));
    /* and all of that harmed nobody */
    REQUIRE_OK(kith_all_reduce(w.group, w.a, w.b, COUNT, KITH_F32, KITH_SUM));
    REQUIRE_OK(kith_barrier(w.group));
    finish(&w);
}

/* One rank is wrong; all hear of it, and go on. */
static void refusals_checked(rank_info *info)
{
    work w = begin(info);
    void *from = w.rank == 1 ? (void *)w.host : (void *)w.a;
    REQUIRE_STATUS(kith_all_reduce(w.group, from, w.b, COUNT, KITH_F32, KITH_SUM), KITH_ERR_INVALID_ARG);
    REQUIRE_DETAIL("rank 1: ");
    REQUIRE_DETAIL("must be of the same kind");
    void *both = w.rank == 1 ? (void *)w.host : (void *)w.a;
    REQUIRE_STATUS(kith_all_reduce(w.group, both, both, COUNT, KITH_F32, KITH_SUM), KITH_ERR_MISMATCH);
    REQUIRE_DETAIL("device");
    REQUIRE_STATUS(kith_broadcast(w.group, w.a, w.rank == 0 ? COUNT : 5, KITH_F32, 0), KITH_ERR_MISMATCH);
    for (int i = 0; i < 3; i++)
        REQUIRE_OK(kith_all_reduce(w.group, w.a, w.b, COUNT, KITH_F32, KITH_SUM));
    REQUIRE_OK(kith_group_synchronize(w.group));
    REQUIRE_OK(kith_group_status(w.group));
    REQUIRE_OK(kith_barrier(w.group));
    finish(&w);
}

/* A context without a device, in a process that has one. */
static void without_device(rank_info *info)
{
    kith_device *device = NULL;
    kith_stream *stream = NULL;
    void *memory = NULL;
    float x = 1;
    REQUIRE_OK(kith_device_open(0, &device));
    REQUIRE_OK(kith_device_alloc(device, 4096, &memory));
    REQUIRE(kith_ctx_device(info->ctx) == NULL && kith_group_device_backend(info->world) == NULL);
    REQUIRE_STATUS(kith_all_reduce(info->world, memory, memory, 8, KITH_F32, KITH_SUM), KITH_ERR_INVALID_ARG);
    REQUIRE_DETAIL("made without a device");
    REQUIRE_STATUS(kith_send(info->world, memory, 8, KITH_F32, 0, 0), KITH_ERR_INVALID_ARG);
    REQUIRE_OK(kith_stream_create(device, &stream));
    REQUIRE_STATUS(kith_group_set_stream(info->world, stream), KITH_ERR_INVALID_ARG);
    REQUIRE_OK(kith_group_set_stream(info->world, NULL));
    REQUIRE_OK(kith_all_reduce(info->world, &x, &x, 1, KITH_F32, KITH_SUM));
    REQUIRE_OK(kith_group_synchronize(info->world));
    REQUIRE_OK(kith_stream_destroy(stream));
    REQUIRE_OK(kith_device_free(device, memory));
    REQUIRE_OK(kith_device_close(device));
}

/* ---- what never ends ---- */

/* Rank 0 does not come. */
static void deadlines(rank_info *info)
{
    work w = begin(info);
    kith_request *request = NULL;
    bool is_nccl = strcmp(info->argument, "nccl") == 0;
    REQUIRE_TEXT(kith_group_device_backend(w.group), info->argument);
    REQUIRE_OK(kith_all_reduce(w.group, w.a, w.b, COUNT, KITH_F32, KITH_SUM));
    REQUIRE_OK(kith_barrier(w.group));
    if (!is_nccl) { /* a message is taken back, and the group goes on */
        if (w.rank != 0) {
            REQUIRE_OK(kith_recv_start(w.group, w.b, COUNT, KITH_F32, 0, 3, &request));
            REQUIRE_STATUS(kith_wait_timeout(&request, 50), KITH_ERR_TIMEOUT);
            REQUIRE_OK(kith_group_status(w.group));
        }
        REQUIRE_OK(kith_barrier(w.group));
    }
    REQUIRE_OK(kith_group_set_timeout(w.group, 300));
    REQUIRE_OK(kith_group_set_stream(w.group, w.gpu.stream));
    if (w.rank != 0) {
        int64_t start = now_ms();
        kith_status status = kith_all_reduce(w.group, w.a, w.b, COUNT, KITH_F32, KITH_SUM);
        if (is_nccl) { /* only ordered: nobody has waited yet */
            REQUIRE_STATUS(status, KITH_OK);
            status = kith_group_synchronize(w.group);
        }
        REQUIRE_STATUS(status, KITH_ERR_TIMEOUT);
        REQUIRE_DETAIL("all_reduce");
        REQUIRE(now_ms() - start < 5000);
        REQUIRE_STATUS(kith_group_status(w.group), KITH_ERR_TIMEOUT);
        REQUIRE_STATUS(kith_all_reduce(w.group, w.a, w.b, COUNT, KITH_F32, KITH_SUM), KITH_ERR_TIMEOUT);
        REQUIRE_OK(kith_stream_synchronize(w.gpu.stream)); /* nothing holds the stream any more */
    }
    meet(info, 0);
    finish(&w);
}

static void aborts(rank_info *info)
{
    work w = begin(info);
    kith_request *request = NULL;
    REQUIRE_TEXT(kith_group_device_backend(w.group), info->argument);
    REQUIRE_OK(kith_group_set_stream(w.group, w.gpu.stream));
    REQUIRE_OK(kith_all_reduce(w.group, w.a, w.b, COUNT, KITH_F32, KITH_SUM));
    REQUIRE_OK(kith_barrier(w.group));
    meet(info, 1); /* nobody is in the barrier any more */
    if (w.rank == 0) {
        REQUIRE_OK(kith_group_abort(w.group));
    } else {
        REQUIRE_OK(kith_all_reduce_start(w.group, w.a, w.b, COUNT, KITH_F32, KITH_SUM, &request));
        REQUIRE_STATUS(kith_wait(&request), KITH_ERR_ABORTED);
    }
    REQUIRE_STATUS(kith_all_reduce(w.group, w.a, w.b, COUNT, KITH_F32, KITH_SUM), KITH_ERR_ABORTED);
    REQUIRE_STATUS(kith_group_synchronize(w.group), KITH_ERR_ABORTED);
    REQUIRE_OK(kith_stream_synchronize(w.gpu.stream));
    meet(info, 0);
    finish(&w);
}

static void deaths(rank_info *info)
{
    work w = begin(info);
    REQUIRE_TEXT(kith_group_device_backend(w.group), info->argument);
    REQUIRE_OK(kith_group_set_timeout(w.group, 20000));
    REQUIRE_OK(kith_all_reduce(w.group, w.a, w.b, COUNT, KITH_F32, KITH_SUM));
    REQUIRE_OK(kith_barrier(w.group));
    if (w.rank == 1)
        kill(getpid(), SIGKILL);
    REQUIRE_OK(kith_group_set_stream(w.group, w.gpu.stream));
    kith_status status = kith_all_reduce(w.group, w.a, w.b, COUNT, KITH_F32, KITH_SUM);
    if (status == KITH_OK)
        status = kith_group_synchronize(w.group);
    REQUIRE_STATUS(status, KITH_ERR_PEER_FAILED);
    REQUIRE_OK(kith_stream_synchronize(w.gpu.stream));
    finish(&w);
}

/* What is only ordered when a group is destroyed, or the context goes, still runs. */
static void ends(rank_info *info)
{
    work w = begin(info);
    kith_group *twin = NULL;
    for (int i = 0; i < COUNT; i++)
        w.host[i] = (float)i;
    gpu_put(&w.gpu, w.a, w.host, COUNT * sizeof(float), true);
    REQUIRE_OK(kith_group_dup(w.group, NULL, &twin));
    REQUIRE_OK(kith_group_set_stream(twin, w.gpu.stream));
    for (int i = 0; i < 100; i++)
        REQUIRE_OK(kith_all_reduce(twin, w.a, w.b, COUNT, KITH_F32, KITH_MAX));
    REQUIRE_OK(kith_group_destroy(twin));
    gpu_get(&w.gpu, w.host, w.b, COUNT * sizeof(float));
    for (int i = 0; i < COUNT; i++)
        REQUIRE(w.host[i] == (float)i);
    REQUIRE_OK(kith_group_set_stream(w.group, w.gpu.stream));
    REQUIRE_OK(kith_all_reduce(w.group, w.a, w.b, COUNT, KITH_F32, KITH_MAX));
    REQUIRE_OK(kith_finalize(info->ctx));
    info->ctx = NULL;
    REQUIRE_OK(kith_stream_synchronize(w.gpu.stream)); /* the device is there until the last object has gone */
    finish(&w);
    REQUIRE_STATUS(kith_device_close(w.gpu.device), KITH_ERR_INVALID_ARG);
}

/* ---- runs ---- */

static void run(rank_function what, launch_mode mode, int size, const char *backend, const char *way,
                int64_t timeout_ms)
{
    run_options options = gpu_options(mode, size, backend);
    options.timeout_ms = timeout_ms;
    assert_int_equal(run_ranks(&options, what, way), 0);
}

static void test_refusals(void **state)
{
    (void)state;
    run(refusals, LAUNCH_FORK, 1, "shm", "staged", 0);
    run(refusals, LAUNCH_FORK, 3, "shm", "staged", 0);
    run(refusals, LAUNCH_FORK, 2, NULL, "nccl", 0);
}

static void test_refusals_checked(void **state)
{
    static const kith_setting settings[] = { { "device", "cuda:local" }, { "check", "on" } };
    run_options options = gpu_options(LAUNCH_FORK, 3, "shm");
    (void)state;
    options.settings = settings;
    options.setting_count = 2;
    assert_int_equal(run_ranks(&options, refusals_checked, "staged"), 0);
    options.backend = NULL;
    assert_int_equal(run_ranks(&options, refusals_checked, "nccl"), 0);
}

static void test_without_device(void **state)
{
    const run_options options = { .mode = LAUNCH_FORK, .size = 1, .timeout_s = 30 };
    (void)state;
    assert_int_equal(run_ranks(&options, without_device, NULL), 0);
}

static void test_deadlines(void **state)
{
    (void)state;
    run(deadlines, LAUNCH_FORK, 3, "shm", "staged", 0);
    run(deadlines, LAUNCH_FORK, 2, NULL, "nccl", 0);
}

static void test_aborts(void **state)
{
    (void)state;
    run(aborts, LAUNCH_FORK, 3, "shm", "staged", 0);
    run(aborts, LAUNCH_FORK, 2, NULL, "nccl", 0);
}

static void test_deaths(void **state)
{
    run_options options = gpu_options(LAUNCH_FORK, 3, "shm");
    (void)state;
    options.may_die = true;
    assert_int_equal(run_ranks(&options, deaths, "staged"), 0);
    options.backend = NULL;
    assert_int_equal(run_ranks(&options, deaths, "nccl"), 0);
}

static void test_ends(void **state)
{
    (void)state;
    run(ends, LAUNCH_FORK, 2, "shm", "staged", 0);
    run(ends, LAUNCH_FORK, 2, NULL, "nccl", 0);
}

/* Backend, way and ranks as arguments: what never ends, over a transport that takes device memory itself. */
static int run_on(const char *backend, const char *way, int size)
{
    run_options options = gpu_options(LAUNCH_FORK, size, backend);
    int failed =
        run_ranks(&options, deadlines, way) + run_ranks(&options, aborts, way) + run_ranks(&options, ends, way);
    options.may_die = true;
    return failed + run_ranks(&options, deaths, way);
}

int main(int argc, char **argv)
{
    if (argc == 4)
        return run_on(argv[1], argv[2], atoi(argv[3]));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_refusals),       cmocka_unit_test(test_refusals_checked),
        cmocka_unit_test(test_without_device), cmocka_unit_test(test_deadlines),
        cmocka_unit_test(test_aborts),         cmocka_unit_test(test_deaths),
        cmocka_unit_test(test_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
