/* tools/tune/arms.c - see arms.h.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "arms.h"

#include <errno.h>
#include <math.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define SAMPLES 13.0 /* operations of a round at least, warm-up included */
#define SLACK 2.0    /* of the budget that rounds may take */
enum { STORE_NBYTES = 320 };

/* ---- contexts ---- */

/* A port that was free a moment ago; 0: none. */
static int free_port(void)
{
    struct sockaddr_in address = { .sin_family = AF_INET };
    socklen_t nbytes = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), port = 0;
    if (fd < 0)
        return 0;
    if (bind(fd, (struct sockaddr *)&address, nbytes) == 0 &&
        getsockname(fd, (struct sockaddr *)&address, &nbytes) == 0)
        port = ntohs(address.sin_port);
    close(fd);
    return port;
}

/* Where the ranks of a further context meet: rank 0 says. */
static kith_status agree_store(kith_ctx *job, char *store)
{
    char host[256] = "127.0.0.1";
    memset(store, 0, STORE_NBYTES);
    if (kith_node_count(job) > 1)
        gethostname(host, sizeof host - 1);
    if (kith_rank(job) == 0)
        snprintf(store, STORE_NBYTES, "tcp://%s:%d", host, free_port());
    return kith_broadcast(kith_world(job), store, STORE_NBYTES, KITH_UINT8, 0);
}

kith_status tune_arm_open(tune_arm *arm, kith_ctx *job, kith_coll_kind kind, const char *algorithm, const char *table)
{
    char store[STORE_NBYTES], forced[96] = "";
    kith_init_options options = KITH_INIT_OPTIONS_INIT;
    kith_setting settings[5] = {
        { "algo", forced }, { "hier", "off" }, { "mpi_native", "off" }, { "timeout_ms", "0" }
    };
    *arm = (tune_arm){ .ctx = NULL };
    snprintf(arm->name, sizeof arm->name, "%s", algorithm != NULL ? algorithm : "table");
    if (algorithm != NULL)
        snprintf(forced, sizeof forced, "%s=%s", kith_coll_name(kind), algorithm);
    kith_status status = agree_store(job, store);
    if (status != KITH_OK)
        return status;
    options.rank = kith_rank(job);
    options.size = kith_size(job);
    options.store = store;
    options.backend = kith_group_backend(kith_world(job));
    options.settings = settings;
    options.setting_count = 4;
    if (table != NULL)
        settings[options.setting_count++] = (kith_setting){ "algo_table", table };
    status = kith_init(&options, &arm->ctx);
    return status == KITH_OK ? kith_group_dup(kith_world(arm->ctx), NULL, &arm->control) : status;
}

void tune_arm_close(tune_arm *arm)
{
    if (arm->has_call)
        bench_call_free(&arm->call);
    if (arm->ctx != NULL)
        kith_finalize(arm->ctx);
    *arm = (tune_arm){ .ctx = NULL };
}

/* ---- which algorithm ---- */

/* The count that the collective's function takes for an operation of nbytes. */
static size_t count_of(kith_coll_kind kind, const bench_shape *shape)
{
    switch (kind) {
    case KITH_REDUCE_SCATTER:
    case KITH_ALL_GATHER:
    case KITH_GATHER:
    case KITH_SCATTER:
    case KITH_ALL_TO_ALL:
        return shape->count / (size_t)shape->size;
    default:
        return shape->count;
    }
}

static bool make_shape(const tune_arm *arm, kith_coll_kind kind, size_t nbytes, bench_shape *shape)
{
    return bench_shape_make(shape, (bench_op)kind, nbytes, sizeof(float), kith_rank(arm->ctx), kith_size(arm->ctx), 0);
}

const char *tune_arm_algorithm(const tune_arm *arm, kith_coll_kind kind, size_t nbytes, const char **reason)
{
    const char *name = NULL;
    bench_shape shape;
    kith_status status = KITH_ERR_NO_MEMORY;
    if (make_shape(arm, kind, nbytes, &shape))
        status =
            kith_coll_algorithm(kith_world(arm->ctx), kind, count_of(kind, &shape), KITH_F32, KITH_SUM, &name, NULL);
    bench_shape_free(&shape);
    *reason = status == KITH_OK ? "" : kith_error_detail();
    return status == KITH_OK ? name : NULL;
}

/* ---- measuring ---- */

static kith_status make_call(tune_arm *arm, kith_coll_kind kind, size_t nbytes, bench_buffers *buffers)
{
    bench_shape shape;
    if (!make_shape(arm, kind, nbytes, &shape)) {
        bench_shape_free(&shape);
        return KITH_ERR_NO_MEMORY;
    }
    arm->has_call = bench_call_make(&arm->call, kith_world(arm->ctx), &shape, KITH_F32, KITH_SUM, false, buffers->send,
                                    buffers->recv);
    return arm->has_call ? KITH_OK : KITH_ERR_NO_MEMORY;
}

static kith_status make_buffers(const tune_arm *arm, kith_coll_kind kind, size_t nbytes, bench_buffers *buffers)
{
    bench_shape shape;
    kith_status status = KITH_ERR_NO_MEMORY;
    if (make_shape(arm, kind, nbytes, &shape))
        status = bench_buffers_make(buffers, BENCH_HOST, kith_world(arm->ctx), shape.send_count * sizeof(float),
                                    shape.recv_count * sizeof(float));
    bench_shape_free(&shape);
    return status;
}

static kith_status measure_arm(tune_arm *arm, int round, double budget_s, bench_buffers *buffers)
{
    bench_run run = { .buffers = buffers,
                      .call_count = 1,
                      .mode = BENCH_BLOCKING,
                      .control = arm->control,
                      .budget_s = budget_s,
                      .scale = 1 };
    bench_timing timing;
    run.calls[0] = arm->call;
    kith_status status = bench_measure(&run, &timing);
    arm->rounds[round] = timing.us.median;
    return status;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void sum_up(tune_arm *arm, int rounds, double *us, double *spread)
{
    qsort(arm->rounds, (size_t)rounds, sizeof *arm->rounds, compare);
    *us = arm->rounds[rounds / 2];
    *spread = (arm->rounds[rounds - 1 - rounds / 4] - arm->rounds[rounds / 4]) / *us;
}

/* The engine takes some samples whatever the budget: of what takes long there are fewer rounds. Times are the same on
 * all ranks, and so is the number. */
static int count_rounds(const tune_arm *arms, int count, const bool *runs, double budget_s)
{
    double longest = 0;
    for (int i = 0; i < count; i++)
        if (runs[i])
            longest = fmax(longest, arms[i].rounds[0]);
    double fitting = SLACK * budget_s * 1e6 / (SAMPLES * fmax(longest, 1e-3));
    return fitting > TUNE_ROUNDS ? TUNE_ROUNDS : fitting < TUNE_ROUNDS_LEAST ? TUNE_ROUNDS_LEAST : (int)fitting;
}

static kith_status measure_rounds(tune_arm *arms, int count, const bool *runs, double budget_s, bench_buffers *buffers,
                                  int *rounds)
{
    kith_status status = KITH_OK;
    *rounds = TUNE_ROUNDS;
    for (int round = 0; status == KITH_OK && round < *rounds; round++) {
        for (int i = 0; status == KITH_OK && i < count; i++)
            if (runs[i])
                status = measure_arm(&arms[i], round, budget_s / TUNE_ROUNDS, buffers);
        if (status == KITH_OK && round == 0)
            *rounds = count_rounds(arms, count, runs, budget_s);
    }
    return status;
}

kith_status tune_arms_measure(tune_arm *arms, int count, kith_coll_kind kind, size_t nbytes, double budget_s,
                              double *us, double *spread)
{
    bench_buffers buffers = { .memory = BENCH_HOST };
    bool runs[TUNE_ALGORITHMS_MAX + 1];
    int rounds = 0;
    kith_status status = make_buffers(&arms[0], kind, nbytes, &buffers);
    for (int i = 0; i < count; i++) {
        const char *reason;
        us[i] = spread[i] = NAN;
        runs[i] = tune_arm_algorithm(&arms[i], kind, nbytes, &reason) != NULL;
        if (status == KITH_OK && runs[i])
            status = make_call(&arms[i], kind, nbytes, &buffers);
    }
    status = kith_agree(arms[0].control, status);
    if (status == KITH_OK)
        status = measure_rounds(arms, count, runs, budget_s, &buffers, &rounds);
    for (int i = 0; i < count; i++) {
        if (status == KITH_OK && runs[i])
            sum_up(&arms[i], rounds, &us[i], &spread[i]);
        if (arms[i].has_call)
            bench_call_free(&arms[i].call);
        arms[i].has_call = false;
    }
    bench_buffers_free(&buffers);
    return status;
}
