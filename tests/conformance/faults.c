/* tests/conformance/faults.c - ranks that die, never come, abort or disagree: nobody hangs, everybody hears why.
 *
 *     faults --case NAME --backend NAME -n RANKS
 *
 * Cases: late (a rank never comes: timeout in 2 to 3 s that names it), groups (two groups in different order: the
 * text names both), abort (from a second thread), kill (SIGKILL of one rank in the middle of each collective),
 * mismatch (check mode), stale (handles after destruction), crossed (both send first above the eager size), teardown
 * (a slow peer at the end), exit (a sender that leaves at once), frozen (rank 0, which serves the store, stands still).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#define _GNU_SOURCE
#include "harness.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- late ---- */

static void case_late(rank_info *info)
{
    enum { COUNT = 100000 };
    int missing = info->size - 1;
    static float send[COUNT], recv[COUNT], copy[COUNT];
    kith_group *group = NULL;
    REQUIRE_OK(kith_group_dup(info->world, NULL, &group));
    REQUIRE_OK(kith_group_set_timeout(group, 2000));
    float one = 1;
    REQUIRE_OK(kith_all_reduce(group, &one, &one, 1, KITH_F32, KITH_SUM));
    if (info->rank == missing) {
        sleep(5);
        REQUIRE_OK(kith_barrier(info->world));
        return;
    }
    double start = seconds();
    REQUIRE_STATUS(kith_all_reduce(group, send, recv, COUNT, KITH_F32, KITH_SUM), KITH_ERR_TIMEOUT);
    double took = seconds() - start;
    if (took < 1.9 || took > 3.2)
        rank_fail(__FILE__, __LINE__, "the timeout took %.2f s instead of 2 to 3", took);
    char text[64], detail[1024];
    snprintf(detail, sizeof detail, "%s", kith_error_detail());
    REQUIRE_TEXT(detail, "all_reduce f32 x100000 sum seq 1");
    REQUIRE_TEXT(detail, kith_group_name(group));
    snprintf(text, sizeof text, "missing rank: %d", missing);
    REQUIRE_TEXT(detail, text);
    /* from now on the buffers are ours: nobody writes to them, not even when the late rank comes */
    memset(recv, 0x5a, sizeof recv);
    memcpy(copy, recv, sizeof recv);
    REQUIRE_STATUS(kith_barrier(group), KITH_ERR_TIMEOUT);
    REQUIRE_STATUS(kith_group_status(group), KITH_ERR_TIMEOUT);
    REQUIRE_OK(kith_barrier(info->world));
    REQUIRE(memcmp(copy, recv, sizeof recv) == 0);
}

/* ---- groups ---- */

static void case_groups(rank_info *info)
{
    kith_group *other = NULL;
    kith_group_options options = KITH_GROUP_OPTIONS_INIT;
    options.name = "other";
    options.timeout_ms = 1000;
    REQUIRE_OK(kith_group_dup(info->world, &options, &other));
    REQUIRE_OK(kith_group_set_timeout(info->world, 1000));
    static float x[1 << 18];
    kith_group *mine = info->rank % 2 == 0 ? info->world : other;
    REQUIRE_STATUS(kith_all_reduce(mine, x, x, 1 << 18, KITH_F32, KITH_SUM), KITH_ERR_TIMEOUT);
    REQUIRE_DETAIL("'world'");
    REQUIRE_DETAIL("'other'");
}

/* ---- abort ---- */

static void *abort_soon(void *group)
{
    usleep(500000);
    kith_group_abort((kith_group *)group);
    return NULL;
}

static void case_abort(rank_info *info)
{
    kith_group *group = NULL;
    REQUIRE_OK(kith_group_dup(info->world, NULL, &group));
    if (info->rank == info->size - 1) { /* never enters */
        sleep(2);
        REQUIRE_OK(kith_barrier(info->world));
        return;
    }
    static float x[300000], y[300000];
    kith_request *request = NULL, *message = NULL;
    pthread_t thread;
    REQUIRE_OK(kith_all_reduce_start(group, x, y, 300000, KITH_F32, KITH_SUM, &request));
    REQUIRE_OK(kith_recv_start(group, y, 1, KITH_F32, info->size - 1, 0, &message));
    REQUIRE(pthread_create(&thread, NULL, abort_soon, group) == 0);
    double start = seconds();
    REQUIRE_STATUS(kith_wait(&request), KITH_ERR_ABORTED);
    REQUIRE_STATUS(kith_wait(&message), KITH_ERR_ABORTED);
    REQUIRE(seconds() - start < 1.5);
    REQUIRE_STATUS(kith_barrier(group), KITH_ERR_ABORTED);
    pthread_join(thread, NULL);
    REQUIRE_OK(kith_group_destroy(group));
    REQUIRE_OK(kith_barrier(info->world));
}

/* ---- kill ---- */

typedef struct buffers {
    float *send, *recv;
    size_t count;
} buffers;

static kith_status call(kith_group *group, kith_coll_kind kind, const buffers *b)
{
    kith_coll_args args = KITH_COLL_ARGS_INIT;
    size_t counts[64], n = (size_t)kith_group_size(group);
    for (size_t i = 0; i < n; i++)
        counts[i] = b->count / n;
    args.kind = kind;
    args.send = b->send;
    args.recv = b->recv;
    args.count = kind == KITH_ALL_REDUCE || kind == KITH_BROADCAST || kind == KITH_REDUCE ? b->count : b->count / n;
    args.send_counts = args.recv_counts = counts;
    args.dtype = KITH_F32;
    kith_request *request = NULL;
    kith_status status = kith_coll_start(group, &args, &request);
    return status == KITH_OK ? kith_wait(&request) : status;
}

/* Everyone runs the collective of the argument over and over; one rank is killed from outside in the middle of it. */
static void case_kill(rank_info *info)
{
    kith_coll_kind kind = (kith_coll_kind)atoi(info->argument);
    int victim = info->size - 1 - (int)kind % info->size;
    buffers b = { NULL, NULL, 1u << 20 };
    b.send = (float *)calloc(b.count, sizeof *b.send);
    b.recv = (float *)calloc(b.count, sizeof *b.recv);
    REQUIRE_OK(join_ranks(info, NULL, &info->ctx));
    info->world = kith_world(info->ctx);
    if (info->rank == victim) {
        pid_t self = getpid();
        if (fork() == 0) {
            usleep(150000 + 3000 * (unsigned)kind);
            kill(self, SIGKILL);
            _exit(0);
        }
    }
    double start = seconds();
    kith_status status = KITH_OK;
    while (status == KITH_OK && seconds() - start < 20)
        status = call(info->world, kind, &b);
    double took = seconds() - start;
    /* a survivor that noticed first and left may have aborted the group for the others */
    if (status != KITH_ERR_PEER_FAILED && status != KITH_ERR_ABORTED)
        rank_fail(__FILE__, __LINE__, "%s: wanted peer failed, got %s after %.1f s: %s", kith_coll_name(kind),
                  kith_status_name(status), took, kith_error_detail());
    if (took > 8)
        rank_fail(__FILE__, __LINE__, "%s: the survivors learned of it after %.1f s only", kith_coll_name(kind), took);
    kith_abandon(info->ctx);
    free(b.send);
    free(b.recv);
}

/* ---- mismatch ---- */

static void expect_mismatch(rank_info *info, kith_status status, const char *part)
{
    if (status != KITH_ERR_MISMATCH)
        rank_fail(__FILE__, __LINE__, "wanted mismatch about \"%s\", got %s: %s", part, kith_status_name(status),
                  kith_error_detail());
    REQUIRE_DETAIL(part);
    int x = 1; /* the group stays usable */
    REQUIRE_OK(kith_all_reduce(info->world, &x, &x, 1, KITH_INT32, KITH_SUM));
    REQUIRE(x == info->size);
}

static void case_mismatch(rank_info *info)
{
    float x[64] = { 0 }, y[64 * 8] = { 0 };
    bool is_odd = info->rank == 1;
    kith_group *w = info->world;
    expect_mismatch(info, kith_all_reduce(w, x, y, is_odd ? 32 : 64, KITH_F32, KITH_SUM),
                    "rank 1: all_reduce f32 x32 sum seq 0");
    expect_mismatch(info, kith_all_reduce(w, x, y, 8, is_odd ? KITH_INT32 : KITH_F32, KITH_SUM),
                    "rank 1: all_reduce int32 x8");
    expect_mismatch(info, kith_all_reduce(w, x, y, 8, KITH_F32, is_odd ? KITH_MAX : KITH_SUM),
                    "rank 1: all_reduce f32 x8 max");
    expect_mismatch(info, kith_broadcast(w, x, 8, KITH_F32, info->rank), "rank 1: broadcast f32 x8 root 1");
    expect_mismatch(info,
                    is_odd ? kith_all_gather(w, x, y, 8, KITH_F32) : kith_all_reduce(w, x, y, 8, KITH_F32, KITH_SUM),
                    "rank 1: all_gather f32 x8");
    expect_mismatch(info, is_odd ? kith_barrier(w) : kith_all_reduce(w, x, y, 0, KITH_F32, KITH_SUM),
                    "rank 1: barrier");
    /* in place on one rank alone is legal */
    for (int i = 0; i < 64; i++)
        x[i] = 1;
    REQUIRE_OK(kith_all_reduce(w, x, is_odd ? x : y, 64, KITH_F32, KITH_SUM));
    REQUIRE((is_odd ? x : y)[63] == (float)info->size);
    /* one rank's bad argument is everybody's error */
    REQUIRE_STATUS(kith_all_reduce(w, is_odd ? NULL : x, y, 8, KITH_F32, KITH_SUM), KITH_ERR_INVALID_ARG);
    REQUIRE_DETAIL("NULL");
    size_t counts[64], other[64];
    for (int i = 0; i < info->size; i++)
        counts[i] = other[i] = 2;
    counts[0] = is_odd ? 3 : 2;
    expect_mismatch(info, kith_reduce_scatter_v(w, x, y, counts, KITH_F32, KITH_SUM), "counts");
    /* a pair of all_to_all_v that disagrees: rank 0 sends rank 1 nothing, which expects 8 */
    for (int i = 0; i < info->size; i++)
        counts[i] = other[i] = 2;
    if (info->rank == 0)
        counts[1] = 0;
    if (info->rank == 1)
        other[0] = 8;
    expect_mismatch(info, kith_all_to_all_v(w, x, counts, NULL, y, other, NULL, KITH_F32),
                    "rank 0 sends 0 elements to rank 1, which expects 8");
    kith_op op = 0;
    REQUIRE_OK(kith_op_create_premul_sum(info->ctx, is_odd ? 2 : 3, &op));
    expect_mismatch(info, kith_all_reduce(w, x, y, 8, KITH_F32, op), "premul_sum(2)");
    REQUIRE_OK(kith_op_destroy(info->ctx, op));
}

/* ---- stale handles ---- */

static void case_stale(rank_info *info)
{
    float x = 1;
    kith_group *world = NULL, *dup = NULL;
    REQUIRE_OK(join_ranks(info, NULL, &info->ctx));
    world = kith_world(info->ctx);
    REQUIRE_OK(kith_group_dup(world, NULL, &dup));
    kith_ctx *ctx = info->ctx;
    REQUIRE_OK(kith_finalize(ctx));
    REQUIRE_STATUS(kith_all_reduce(world, &x, &x, 1, KITH_F32, KITH_SUM), KITH_ERR_INVALID_ARG);
    REQUIRE_STATUS(kith_group_destroy(dup), KITH_ERR_INVALID_ARG);
    REQUIRE_STATUS(kith_finalize(ctx), KITH_ERR_INVALID_ARG);
    REQUIRE(kith_rank(ctx) == -1 && kith_world(ctx) == NULL && kith_group_rank(world) == -1);
    REQUIRE_STATUS(kith_send(world, &x, 1, KITH_F32, 0, 0), KITH_ERR_INVALID_ARG);
    REQUIRE_OK(kith_finalize(NULL));
}

/* ---- both send first ---- */

static void case_crossed(rank_info *info)
{
    size_t count = (size_t)16 << 20;
    float *x = (float *)calloc(count, sizeof *x), *y = (float *)calloc(count, sizeof *y);
    if (info->rank > 1) {
        REQUIRE_OK(kith_barrier(info->world));
        free(x);
        free(y);
        return;
    }
    kith_group *w = info->world;
    int peer = 1 - info->rank;
    REQUIRE_OK(kith_group_set_timeout(w, 1000));
    REQUIRE_STATUS(kith_send(w, x, count, KITH_F32, peer, 0), KITH_ERR_TIMEOUT);
    char text[64];
    snprintf(text, sizeof text, "rank %d has no matching receive", peer);
    REQUIRE_DETAIL(text);
    REQUIRE_OK(kith_group_set_timeout(w, 0));
    REQUIRE_OK(kith_sendrecv(w, x, count, peer, 1, y, count, peer, 1, KITH_F32));
    REQUIRE_OK(kith_barrier(w));
    free(x);
    free(y);
}

/* ---- leaving ---- */

static void case_teardown(rank_info *info)
{
    if (info->rank == info->size - 1)
        sleep(3);
}

static void case_exit(rank_info *info)
{
    char out[64] = "sent just before leaving", in[64] = "";
    if (info->size < 2)
        return;
    if (info->rank == 0) {
        kith_request *request = NULL;
        REQUIRE_OK(kith_send_start(info->world, out, 64, KITH_UINT8, 1, 0, &request));
        REQUIRE_OK(kith_wait(&request));
    } else if (info->rank == 1) {
        sleep(1);
        REQUIRE_OK(kith_recv(info->world, in, 64, KITH_UINT8, 0, 0, NULL));
        REQUIRE(memcmp(out, in, 64) == 0);
    }
}

/* ---- frozen ---- */

/* Rank 0 stands still with all its threads, so nobody can ask in the store who is where: deadlines hold all the
 * same. */
static void case_frozen(rank_info *info)
{
    kith_group *group = NULL, *other = NULL;
    int64_t pid = getpid(), pids[64];
    float x = 1;
    REQUIRE(info->size > 2 && info->size <= 64);
    REQUIRE_OK(kith_group_dup(info->world, NULL, &group));
    REQUIRE_OK(kith_group_dup(info->world, NULL, &other));
    REQUIRE_OK(kith_group_set_timeout(group, 1000));
    REQUIRE_OK(kith_group_set_timeout(other, 1000));
    REQUIRE_OK(kith_all_gather(info->world, &pid, pids, 1, KITH_INT64));
    if (info->rank == 0) {
        raise(SIGSTOP);
        REQUIRE_OK(kith_barrier(info->world));
        return;
    }
    double start = seconds();
    REQUIRE_STATUS(kith_all_reduce(group, &x, &x, 1, KITH_F32, KITH_SUM), KITH_ERR_TIMEOUT);
    REQUIRE_DETAIL("missing rank: 0");
    REQUIRE_DETAIL("world rank 0, which serves the store, does not answer");
    REQUIRE_STATUS(kith_recv(other, &x, 1, KITH_F32, 0, 0, NULL), KITH_ERR_TIMEOUT);
    REQUIRE_DETAIL("rank 0 has no matching send; world rank 0, which serves the store, does not answer");
    double took = seconds() - start;
    if (took > 4.5)
        rank_fail(__FILE__, __LINE__, "two deadlines of 1 s took %.2f s, wanted up to 0.4 s more for each", took);
    if (info->rank > 1) {
        REQUIRE_OK(kith_send(info->world, &x, 1, KITH_F32, 1, 7));
    } else {
        for (int r = 2; r < info->size; r++)
            REQUIRE_OK(kith_recv(info->world, &x, 1, KITH_F32, r, 7, NULL));
        REQUIRE(kill((pid_t)pids[0], SIGCONT) == 0);
    }
    REQUIRE_OK(kith_barrier(info->world));
}

/* ---- the program ---- */

static int run_case(const char *name, run_options *options)
{
    static const kith_setting check[] = { { "check", "1" } };
    if (strcmp(name, "kill") == 0) {
        int failed = 0;
        options->joins_itself = options->may_die = true;
        for (int kind = 0; kind < KITH_COLL_COUNT && failed == 0; kind++) {
            char argument[16];
            snprintf(argument, sizeof argument, "%d", kind);
            failed = run_ranks(options, case_kill, argument);
        }
        return failed;
    }
    if (strcmp(name, "mismatch") == 0) {
        options->settings = check;
        options->setting_count = 1;
        return run_ranks(options, case_mismatch, NULL);
    }
    options->joins_itself = strcmp(name, "stale") == 0;
    static const struct {
        const char *name;
        rank_function function;
    } cases[] = { { "late", case_late },   { "groups", case_groups },   { "abort", case_abort },
                  { "stale", case_stale }, { "crossed", case_crossed }, { "teardown", case_teardown },
                  { "exit", case_exit },   { "frozen", case_frozen } };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        if (strcmp(cases[i].name, name) == 0)
            return run_ranks(options, cases[i].function, NULL);
    fprintf(stderr, "faults: no case %s\n", name);
    return 1;
}

int main(int argc, char **argv)
{
    run_options options = { .mode = LAUNCH_FORK, .size = 4, .timeout_s = 120 };
    const char *name = "late";
    kith_setting setting;
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--case") == 0)
            name = argv[i + 1];
        else if (strcmp(argv[i], "--backend") == 0)
            options.backend = argv[i + 1];
        else if (strcmp(argv[i], "-n") == 0)
            options.size = atoi(argv[i + 1]);
        else if (strcmp(argv[i], "--set") == 0 && strchr(argv[i + 1], '=') != NULL) {
            char *equals = strchr(argv[i + 1], '=');
            *equals = '\0';
            setting = (kith_setting){ argv[i + 1], equals + 1 };
            options.settings = &setting;
            options.setting_count = 1;
        }
    }
    return run_case(name, &options) > 0;
}
