/* bench/drivers/overhead.c
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "overhead.h"

#include "../engine/clock.h"
#include "../engine/stats.h"
#include "allocations.h"
#include "kith_calls.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>

#define BATCHES 201
#define CALLS_PER_BATCH 500

typedef struct overhead_case {
    const char *name;
    kith_status (*call)(kith_group *group, float *send, float *recv);
} overhead_case;

static kith_status all_reduce(kith_group *group, float *send, float *recv)
{
    return kith_all_reduce(group, send, recv, 1, KITH_F32, KITH_SUM);
}

static kith_status all_reduce_in_place(kith_group *group, float *send, float *recv)
{
    (void)send;
    return kith_all_reduce(group, recv, recv, 1, KITH_F32, KITH_SUM);
}

static kith_status all_gather(kith_group *group, float *send, float *recv)
{
    return kith_all_gather(group, send, recv, 1, KITH_F32);
}

static kith_status reduce_scatter(kith_group *group, float *send, float *recv)
{
    return kith_reduce_scatter(group, send, recv, 1, KITH_F32, KITH_SUM);
}

static kith_status all_to_all(kith_group *group, float *send, float *recv)
{
    return kith_all_to_all(group, send, recv, 1, KITH_F32);
}

static kith_status broadcast(kith_group *group, float *send, float *recv)
{
    (void)send;
    return kith_broadcast(group, recv, 1, KITH_F32, 0);
}

static kith_status barrier(kith_group *group, float *send, float *recv)
{
    (void)send;
    (void)recv;
    return kith_barrier(group);
}

static int other_rank(const kith_group *group)
{
    return (kith_group_rank(group) + 1) % kith_group_size(group);
}

static kith_status send_one(kith_group *group, float *send, float *recv)
{
    (void)recv;
    return kith_send(group, send, 1, KITH_F32, other_rank(group), 1);
}

static kith_status recv_one(kith_group *group, float *send, float *recv)
{
    (void)send;
    return kith_recv(group, recv, 1, KITH_F32, other_rank(group), 1, NULL);
}

static kith_status all_reduce_started(kith_group *group, float *send, float *recv)
{
    kith_request *request;
    kith_status status = kith_all_reduce_start(group, send, recv, 1, KITH_F32, KITH_SUM, &request);
    return status != KITH_OK ? status : kith_wait(&request);
}

static const overhead_case cases[] = {
    { "all_reduce", all_reduce },
    { "all_reduce in place", all_reduce_in_place },
    { "reduce_scatter", reduce_scatter },
    { "all_gather", all_gather },
    { "all_to_all", all_to_all },
    { "broadcast", broadcast },
    { "barrier", barrier },
    { "send", send_one },
    { "recv", recv_one },
    { "all_reduce_start, wait", all_reduce_started },
};

/* Median time of a call in nanoseconds, and the allocations of all calls but the first batch. */
static kith_status measure(const overhead_case *what, kith_group *group, bench_summary *ns, uint64_t *allocations)
{
    static double samples[BATCHES];
    float send[256] = { 1 }, recv[256] = { 0 };
    uint64_t before = 0;
    for (int batch = -1; batch < BATCHES; batch++) {
        if (batch == 0) {
            before = bench_allocations();
        }
        uint64_t start = bench_ticks();
        for (int k = 0; k < CALLS_PER_BATCH; k++) {
            kith_status status = what->call(group, send, recv);
            if (status != KITH_OK) {
                return status;
            }
        }
        if (batch >= 0) {
            samples[batch] = bench_ticks_to_ns(bench_ticks() - start) / CALLS_PER_BATCH;
        }
    }
    *allocations = bench_allocations() - before;
    *ns = bench_summarize(samples, BATCHES);
    return KITH_OK;
}

static kith_status measure_all(kith_group *group, json_t *rows)
{
    bool is_printing = kith_group_rank(group) == 0;
    if (is_printing) {
        printf("%-24s %10s %10s %12s\n", "call", "min ns", "median ns", "allocations");
    }
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        bench_summary ns;
        uint64_t allocations;
        kith_status status = measure(&cases[i], group, &ns, &allocations);
        if (status != KITH_OK) {
            bench_kith_complain(cases[i].name, status);
            return status;
        }
        if (is_printing) {
            printf("%-24s %10.1f %10.1f %12llu\n", cases[i].name, ns.min, ns.median, (unsigned long long)allocations);
        }
        json_array_append_new(rows, json_pack("{s:s, s:f, s:f, s:I}", "call", cases[i].name, "min_ns", ns.min,
                                              "median_ns", ns.median, "allocations", (json_int_t)allocations));
    }
    return KITH_OK;
}

int bench_overhead(const char *json_path)
{
    kith_init_options init = KITH_INIT_OPTIONS_INIT;
    init.backend = "null";
    init.allocator = bench_allocator();
    kith_ctx *ctx;
    kith_status status = kith_init(&init, &ctx);
    if (status != KITH_OK) {
        bench_kith_complain("kith_init with the null backend (KITH_BACKEND_PATH must name its folder)", status);
        return 1;
    }
    json_t *rows = json_array();
    status = measure_all(kith_world(ctx), rows);
    bool is_written = true;
    if (status == KITH_OK && json_path != NULL && kith_rank(ctx) == 0) {
        json_t *document = json_pack("{s:s, s:b, s:O}", "format", "kith-bench-overhead-1", "counts_malloc",
                                     bench_allocations_see_malloc(), "rows", rows);
        is_written = json_dump_file(document, json_path, JSON_INDENT(1) | JSON_REAL_PRECISION(6)) == 0;
        json_decref(document);
    }
    json_decref(rows);
    kith_finalize(ctx);
    return status == KITH_OK && is_written ? 0 : 1;
}
