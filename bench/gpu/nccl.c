/* bench/gpu/nccl.c - kith_all_reduce() on backend nccl beside ncclAllReduce() called directly: the same buffers, the
 * same stream, a communicator of its own, in turns.
 *
 * Two times. The host's, of a call that puts its work into the stream and returns; and the total, until the stream is
 * through, divided by the calls of a batch. What is aimed at: at most 1 us more of the host, at most 1 % more in all.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "libraries.h"
#include "reduce.h"

#include <stdlib.h>

#define AIM_HOST_S 1e-6
#define AIM_SHARE 0.01

enum { KITH, NCCL, WAYS };

typedef struct comparison {
    reduce base;
    bench_nccl_library nccl;
    ncclComm_t comm;
    double host[WAYS], total[WAYS]; /* seconds of a call */
} comparison;

static void must_nccl(const comparison *c, ncclResult_t result, const char *what)
{
    if (result != ncclSuccess)
        give_up("%s: %s", what, c->nccl.ncclGetErrorString(result));
}

static void call(comparison *c, int way)
{
    const reduce *r = &c->base;
    if (way == KITH)
        must(kith_all_reduce(r->world, r->send, r->recv, r->count, KITH_F32, KITH_SUM), "kith_all_reduce");
    else
        must_nccl(c,
                  c->nccl.ncclAllReduce(r->send, r->recv, r->count, ncclFloat32, ncclSum, c->comm,
                                        (cudaStream_t)kith_stream_native(r->g->stream)),
                  "ncclAllReduce");
}

static void batch(comparison *c, int way, int calls)
{
    gpu *g = c->base.g;
    must(kith_barrier(c->base.world), "barrier");
    const double start = seconds_now();
    for (int i = 0; i < calls; i++)
        call(c, way);
    const double called = seconds_now();
    must(kith_stream_synchronize(g->stream), "all_reduce");
    const double host = (called - start) / calls, total = (seconds_now() - start) / calls;
    c->host[way] = host < c->host[way] ? host : c->host[way];
    c->total[way] = total < c->total[way] ? total : c->total[way];
}

static void check(comparison *c, int way, float *local)
{
    reduce_fill(&c->base, local, true);
    call(c, way);
    must(kith_stream_synchronize(c->base.g->stream), "all_reduce");
    reduce_check(&c->base, local, true, way == KITH ? "kith_all_reduce" : "ncclAllReduce");
}

static void tell(const comparison *c)
{
    const double more = c->host[KITH] - c->host[NCCL], share = c->total[KITH] / c->total[NCCL] - 1;
    report(words("all_reduce, f32, %s", size_words(c->base.count * sizeof(float))),
           words("host %s, total %s", time_words(c->host[KITH]), time_words(c->total[KITH])),
           words("NCCL %s, %s", time_words(c->host[NCCL]), time_words(c->total[NCCL])),
           words("%+.2f us%s, %+.1f %%%s", 1e6 * more, more > AIM_HOST_S ? " (over 1 us)" : "", 100 * share,
                 share > AIM_SHARE ? " (over 1 %)" : ""));
}

static void measure(comparison *c, size_t nbytes)
{
    gpu *g = c->base.g;
    const int calls = nbytes >= (size_t)16 << 20 ? 5 : g->is_quick ? 3 : 100, turns = g->is_quick ? 2 : 10;
    float *const local = (float *)malloc(nbytes);
    must(local != NULL ? KITH_OK : KITH_ERR_NO_MEMORY, "memory");
    c->base.count = nbytes / sizeof(float);
    for (int way = 0; way < WAYS; way++) {
        check(c, way, local);
        c->host[way] = c->total[way] = 1e30;
    }
    for (int turn = 0; turn < turns; turn++)
        for (int way = 0; way < WAYS; way++)
            batch(c, (turn + way) % WAYS, calls);
    reduce_largest(&c->base, c->host, WAYS);
    reduce_largest(&c->base, c->total, WAYS);
    if (c->base.rank == 0)
        tell(c);
    free(local);
}

static void connect_nccl(comparison *c)
{
    char reason[256];
    ncclUniqueId id;
    if (!bench_open_nccl(&c->nccl, reason, sizeof reason))
        give_up("%s", reason);
    if (c->base.rank == 0)
        must_nccl(c, c->nccl.ncclGetUniqueId(&id), "ncclGetUniqueId");
    must(kith_broadcast(c->base.world, &id, sizeof id, KITH_UINT8, 0), "the unique id");
    must_nccl(c, c->nccl.ncclCommInitRank(&c->comm, c->base.size, id, c->base.rank), "ncclCommInitRank");
}

void bench_nccl(gpu *g)
{
    int sizes_count, visible = 0;
    const size_t *sizes = reduce_sizes(g, &sizes_count);
    comparison c = { .base = {
                         .g = g, .world = kith_world(g->ctx), .rank = kith_rank(g->ctx), .size = kith_size(g->ctx) } };
    const char *carrier = kith_group_device_backend(c.base.world);
    must(kith_device_count(&visible), "devices");
    connect_nccl(&c);
    must(kith_group_set_stream(c.base.world, g->stream), "the group's stream");
    c.base.send = (float *)gpu_alloc(g, sizes[sizes_count - 1]);
    c.base.recv = (float *)gpu_alloc(g, sizes[sizes_count - 1]);
    const int used = c.base.size < visible ? c.base.size : visible;
    report_part("%s, %d rank%s on %d GPU%s", carrier != NULL ? carrier : "no device", c.base.size,
                c.base.size == 1 ? "" : "s", used, used == 1 ? "" : "s");
    for (int i = 0; i < sizes_count; i++)
        measure(&c, sizes[i]);
    must(kith_group_synchronize(c.base.world), "the group's work");
    must(kith_group_set_stream(c.base.world, NULL), "the group's stream");
    must_nccl(&c, c.nccl.ncclCommDestroy(c.comm), "ncclCommDestroy");
    gpu_free(g, c.base.send);
    gpu_free(g, c.base.recv);
}
