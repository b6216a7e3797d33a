/* tests/core/device/test_device_hosts.c - all_reduce on device memory over several hosts: NCCL inside, the host's
 * transport between them (core/device/hosts.h). The hosts are pretended, the transport between them is real UCX.
 *
 * Values are small integers, so every order of adding gives the same; the same operation on host memory says what is
 * wanted.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "core/device/gpu.h"

#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

enum { MOST = 5001 };

static atomic_int split_groups; /* of this process, by its log */

static void on_log(void *arg, kith_log_level level, const char *line)
{
    (void)arg, (void)level;
    if (strstr(line, "goes over nccl inside hosts and ucx between them") != NULL)
        atomic_fetch_add(&split_groups, 1);
}

typedef struct work {
    kith_group *group;
    gpu gpu;
    int rank, size;
    unsigned char *host, *wanted, *got; /* [MOST] f64 at most */
    void *send, *recv;                  /* the same, on the device */
} work;

static work begin(const rank_info *info)
{
    work w = { .group = info->world, .rank = info->rank, .size = info->size };
    size_t room = MOST * sizeof(double);
    gpu_open(info, &w.gpu);
    unsigned char **hosts[] = { &w.host, &w.wanted, &w.got };
    for (size_t i = 0; i < 3; i++)
        REQUIRE((*hosts[i] = (unsigned char *)calloc(1, room)) != NULL);
    w.send = gpu_alloc(&w.gpu, room);
    w.recv = gpu_alloc(&w.gpu, room);
    gpu_put(&w.gpu, w.send, w.host, room, true);
    gpu_put(&w.gpu, w.recv, w.host, room, true);
    return w;
}

static void finish(work *w)
{
    REQUIRE_OK(kith_device_free(w->gpu.device, w->send));
    REQUIRE_OK(kith_device_free(w->gpu.device, w->recv));
    gpu_close(&w->gpu);
    free(w->host);
    free(w->wanted);
    free(w->got);
}

static void fill(const work *w, size_t count, kith_dtype dtype)
{
    for (size_t i = 0; i < count; i++) {
        int value = (int)((i * 7 + (size_t)w->rank * 3) % 16) * 4; /* averages of four are whole */
        if (dtype == KITH_F32)
            ((float *)(void *)w->host)[i] = (float)value;
        else if (dtype == KITH_F64)
            ((double *)(void *)w->host)[i] = (double)value;
        else
            w->host[i] = (unsigned char)value;
    }
}

static void try_one(work *w, size_t count, kith_dtype dtype, kith_op op, bool is_in_place, bool has_stream)
{
    size_t nbytes = count * kith_dtype_nbytes(dtype);
    kith_request *request = NULL;
    fill(w, count, dtype);
    REQUIRE_OK(kith_all_reduce(w->group, w->host, w->wanted, count, dtype, op));
    REQUIRE_OK(kith_group_set_stream(w->group, has_stream ? w->gpu.stream : NULL));
    void *from = is_in_place ? w->recv : w->send;
    memset(w->got, 0xab, nbytes);
    gpu_put(&w->gpu, w->recv, w->got, nbytes, !has_stream);
    gpu_put(&w->gpu, from, w->host, nbytes, !has_stream);
    if (has_stream) {
        REQUIRE_OK(kith_all_reduce(w->group, from, w->recv, count, dtype, op));
    } else {
        REQUIRE_OK(kith_all_reduce_start(w->group, from, w->recv, count, dtype, op, &request));
        REQUIRE_OK(kith_wait(&request));
    }
    gpu_get(&w->gpu, w->got, w->recv, nbytes);
    for (size_t i = 0; i < nbytes; i++)
        if (w->got[i] != w->wanted[i])
            rank_fail(__FILE__, __LINE__, "x%zu %s op %d%s%s: byte %zu is %02x, wanted %02x", count,
                      kith_dtype_name(dtype), (int)op, is_in_place ? ", in place" : "", has_stream ? ", stream" : "", i,
                      w->got[i], w->wanted[i]);
    REQUIRE_OK(kith_group_set_stream(w->group, NULL));
}

/* Other collectives and messages of the group go their ways in between. */
static void try_others(work *w)
{
    float *host = (float *)(void *)w->host, *got = (float *)(void *)w->got;
    size_t each = 100, all = each * (size_t)w->size;
    fill(w, each, KITH_F32);
    REQUIRE_OK(kith_all_gather(w->group, host, w->wanted, each, KITH_F32));
    gpu_put(&w->gpu, w->send, host, each * sizeof(float), true);
    REQUIRE_OK(kith_all_gather(w->group, w->send, w->recv, each, KITH_F32));
    gpu_get(&w->gpu, got, w->recv, all * sizeof(float));
    REQUIRE(memcmp(got, w->wanted, all * sizeof(float)) == 0);
    REQUIRE_OK(kith_sendrecv(w->group, w->send, each, (w->rank + 1) % w->size, 1, w->recv, each,
                             (w->rank + w->size - 1) % w->size, 1, KITH_F32));
}

static void results(rank_info *info)
{
    static const size_t counts[] = { 0, 1, 2, 3, 333, MOST };
    work w = begin(info);
    kith_op scaled;
    bool is_split = strcmp(info->argument, "split") == 0;
    const char *split = "all_reduce by nccl inside hosts and ucx between them, the rest staged over ucx: ";
    REQUIRE(atomic_load(&split_groups) == is_split);
    REQUIRE((strstr(kith_group_device_summary(w.group), "inside hosts") != NULL) == is_split);
    if (is_split)
        REQUIRE_TEXT(kith_group_device_summary(w.group), split);
    REQUIRE_OK(kith_op_create_premul_sum(info->ctx, 0.5, &scaled));
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        try_one(&w, counts[i], KITH_F32, KITH_SUM, i % 2 == 1, false);
        try_one(&w, counts[i], KITH_INT8, KITH_MAX, i % 2 == 0, true);
    }
    for (int form = 0; form < 4; form++)
        try_one(&w, MOST, KITH_F64, KITH_AVG, form % 2 == 1, form / 2 == 1);
    try_one(&w, 333, KITH_F32, scaled, false, true);
    try_one(&w, 333, KITH_UINT8, KITH_AVG, false, false); /* not by hosts: would be cut off twice */
    try_others(&w);
    try_one(&w, 333, KITH_F32, KITH_PROD, false, false);
    REQUIRE_OK(kith_op_destroy(info->ctx, scaled));
    finish(&w);
}

/* ---- what fails ---- */

static void is_over(work *w, kith_status status, kith_status a, kith_status b)
{
    if (status != a && status != b)
        rank_fail(__FILE__, __LINE__, "ended with %s: %s", kith_status_name(status), kith_error_detail());
    REQUIRE(kith_group_status(w->group) != KITH_OK);
    REQUIRE(kith_all_reduce(w->group, w->send, w->recv, 10, KITH_F32, KITH_SUM) != KITH_OK);
    REQUIRE_OK(kith_stream_synchronize(w->gpu.stream));
}

/* Rank 0 does not come: its host waits inside, the others between hosts. */
static void late(rank_info *info)
{
    work w = begin(info);
    REQUIRE_OK(kith_all_reduce(w.group, w.send, w.recv, MOST, KITH_F32, KITH_SUM));
    REQUIRE_OK(kith_barrier(w.group));
    REQUIRE_OK(kith_group_set_timeout(w.group, 300));
    if (w.rank != 0) {
        kith_status status = kith_all_reduce(w.group, w.send, w.recv, MOST, KITH_F32, KITH_SUM);
        is_over(&w, status, KITH_ERR_TIMEOUT, KITH_ERR_ABORTED);
    }
    finish(&w);
}

static void aborts(rank_info *info)
{
    work w = begin(info);
    REQUIRE_OK(kith_all_reduce(w.group, w.send, w.recv, MOST, KITH_F32, KITH_SUM));
    REQUIRE_OK(kith_barrier(w.group));
    kith_status status =
        w.rank == 0 ? kith_group_abort(w.group) : kith_all_reduce(w.group, w.send, w.recv, MOST, KITH_F32, KITH_SUM);
    if (w.rank == 0)
        status = kith_group_status(w.group);
    is_over(&w, status, KITH_ERR_ABORTED, KITH_ERR_ABORTED);
    atomic_fetch_add(&info->board->counters[0], 1);
    while (atomic_load(&info->board->counters[0]) < w.size) /* who leaves at once may be seen to leave first */
        sched_yield();
    finish(&w);
}

static void deaths(rank_info *info)
{
    work w = begin(info);
    REQUIRE_OK(kith_all_reduce(w.group, w.send, w.recv, MOST, KITH_F32, KITH_SUM));
    REQUIRE_OK(kith_barrier(w.group));
    if (w.rank == 1)
        kill(getpid(), SIGKILL);
    kith_status status = kith_all_reduce(w.group, w.send, w.recv, MOST, KITH_F32, KITH_SUM);
    is_over(&w, status, KITH_ERR_PEER_FAILED, KITH_ERR_ABORTED);
    finish(&w);
}

/* NCCL fails on one rank of one host: the other host hears of it, without any deadline. */
static void failures(rank_info *info)
{
    if (info->rank == 1)
        REQUIRE(setenv("KITH_SIMGPU_FAULT", "nccl_async:1:3", 1) == 0);
    REQUIRE_OK(join_ranks(info, NULL, &info->ctx));
    info->world = kith_world(info->ctx);
    work w = begin(info);
    kith_status status = KITH_OK;
    for (int i = 0; i < 5 && status == KITH_OK; i++)
        status = kith_all_reduce(w.group, w.send, w.recv, MOST, KITH_F32, KITH_SUM);
    REQUIRE(status != KITH_OK && kith_group_status(w.group) != KITH_OK);
    finish(&w);
    REQUIRE_OK(kith_finalize(info->ctx));
}

/* ---- runs ---- */

static run_options options_of(const char *mode, const char *backend, int size, int hosts)
{
    static kith_setting settings[3] = { { "device", "cuda:local" }, { "stage_nbytes", "4k" }, { "device_hier", NULL } };
    settings[2].value = mode;
    run_options options = gpu_options(LAUNCH_FORK, size, backend);
    options.settings = settings;
    options.setting_count = 3;
    options.hosts = hosts;
    return options;
}

static void run(rank_function what, const char *mode, const char *backend, int size, int hosts, const char *argument)
{
    const run_options options = options_of(mode, backend, size, hosts);
    assert_int_equal(run_ranks(&options, what, argument), 0);
}

static void test_split(void **state)
{
    (void)state;
    run(results, "on", "ucx", 4, 2, "split");
}

/* Uneven hosts, one rank on each, or not wanted: the ways that there are without it. */
static void test_not_split(void **state)
{
    (void)state;
    run(results, "on", "ucx", 3, 2, "whole");
    run(results, "on", "ucx", 2, 2, "whole");
    run(results, "off", NULL, 4, 2, "whole");
}

/* NCCL over all hosts cannot be had: so it is used inside them. */
static void test_auto(void **state)
{
    (void)state;
    run(results, "auto", NULL, 4, 2, "split");
}

static void test_failures(void **state)
{
    run_options dying = options_of("on", "ucx", 4, 2), failing = dying;
    (void)state;
    run(late, "on", "ucx", 4, 2, NULL);
    run(aborts, "on", "ucx", 4, 2, NULL);
    dying.may_die = true;
    assert_int_equal(run_ranks(&dying, deaths, NULL), 0);
    failing.joins_itself = true;
    assert_int_equal(run_ranks(&failing, failures, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_split),
        cmocka_unit_test(test_not_split),
        cmocka_unit_test(test_auto),
        cmocka_unit_test(test_failures),
    };
    kith_log_set(on_log, NULL, KITH_LOG_INFO);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
