/* tests/core/device/test_device_collectives.c - collectives on device memory give what they give on host memory, bit
 * for bit.
 *
 * Every collective is run on host memory first. Then the same on the device: blocking, started, persistent; without a
 * stream, and behind a copy that the stream has not reached yet; read back in the stream's order without any wait of
 * the host in between. What is staged must be added in the same order as ever, so values are no small integers; NCCL
 * has an order of its own, so there they are.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "core/device/ways.h"

enum { MOST = 5000, FEW = 333, RANKS = 4 }; /* 20000 bytes: five pieces */

typedef enum form { BLOCKING, STARTED, ORDERED, PERSISTENT, FORMS } form;

typedef struct work {
    kith_group *group;
    gpu gpu;
    int rank, size;
    bool has_stream, is_nccl;
    unsigned char *host_send, *host_recv, *wanted, *got; /* [room] */
    void *send, *recv;                                   /* [room], on the device */
    size_t room;
    size_t counts[RANKS], displs[RANKS];
} work;

static void fill(const work *w, unsigned char *to, unsigned seed, bool is_float)
{
    uint32_t state = seed * 2654435761u + 12345u;
    for (size_t i = 0; i < w->room / 4; i++) {
        state = state * 1664525u + 1013904223u;
        uint32_t bits = w->is_nccl ? state & 0x3f003fu : state;
        float value = w->is_nccl ? (float)(state >> 26) : (float)(state >> 8) / 1000.0f - 3000.0f;
        memcpy(to + 4 * i, is_float ? (const void *)&value : (const void *)&bits, 4);
    }
}

/* Blocks with gaps between them, in another order than that of the ranks. */
static void spread(work *w, size_t count, bool is_same_everywhere)
{
    size_t at = 0;
    for (int k = 0; k < w->size; k++) {
        int i = (k + 1) % w->size;
        w->counts[i] = is_same_everywhere ? count / 2 + (size_t)i * (count / 8) : count;
        w->displs[i] = at;
        at += w->counts[i] + (size_t)(k % 2) * 3;
    }
}

static kith_coll_args arguments(work *w, kith_coll_kind kind, size_t count, kith_dtype dtype, kith_op op)
{
    kith_coll_args args = KITH_COLL_ARGS_INIT;
    args.kind = kind;
    args.count = count;
    args.dtype = dtype;
    args.op = op;
    args.root = w->size - 1;
    bool is_v = kind == KITH_REDUCE_SCATTER_V || kind == KITH_ALL_GATHER_V || kind == KITH_GATHER_V ||
                kind == KITH_SCATTER_V || kind == KITH_ALL_TO_ALL_V;
    if (!is_v)
        return args;
    spread(w, count, kind != KITH_ALL_TO_ALL_V);
    if (kind != KITH_SCATTER_V)
        args.recv_counts = w->counts;
    if (kind == KITH_SCATTER_V || kind == KITH_ALL_TO_ALL_V)
        args.send_counts = w->counts;
    if (kind == KITH_ALL_GATHER_V || kind == KITH_GATHER_V || kind == KITH_ALL_TO_ALL_V)
        args.recv_displs = w->displs;
    if (kind == KITH_SCATTER_V || kind == KITH_ALL_TO_ALL_V)
        args.send_displs = w->displs;
    args.count = w->counts[w->rank];
    return args;
}

static void run_host(work *w, kith_coll_args args)
{
    kith_request *request = NULL;
    args.send = w->host_send;
    args.recv = w->host_recv;
    REQUIRE_OK(kith_coll_start(w->group, &args, &request));
    REQUIRE_OK(kith_wait(&request));
}

static void run_blocking(work *w, const kith_coll_args *a)
{
    kith_group *g = w->group;
    switch (a->kind) {
    case KITH_ALL_REDUCE:
        REQUIRE_OK(kith_all_reduce(g, a->send, a->recv, a->count, a->dtype, a->op));
        break;
    case KITH_BROADCAST:
        REQUIRE_OK(kith_broadcast(g, a->recv, a->count, a->dtype, a->root));
        break;
    case KITH_ALL_GATHER:
        REQUIRE_OK(kith_all_gather(g, a->send, a->recv, a->count, a->dtype));
        break;
    case KITH_REDUCE_SCATTER:
        REQUIRE_OK(kith_reduce_scatter(g, a->send, a->recv, a->count, a->dtype, a->op));
        break;
    case KITH_REDUCE_SCATTER_V:
        REQUIRE_OK(kith_reduce_scatter_v(g, a->send, a->recv, a->recv_counts, a->dtype, a->op));
        break;
    case KITH_ALL_GATHER_V:
        REQUIRE_OK(kith_all_gather_v(g, a->send, a->recv, a->recv_counts, a->recv_displs, a->dtype));
        break;
    case KITH_REDUCE:
        REQUIRE_OK(kith_reduce(g, a->send, a->recv, a->count, a->dtype, a->op, a->root));
        break;
    case KITH_GATHER:
        REQUIRE_OK(kith_gather(g, a->send, a->recv, a->count, a->dtype, a->root));
        break;
    case KITH_SCATTER:
        REQUIRE_OK(kith_scatter(g, a->send, a->recv, a->count, a->dtype, a->root));
        break;
    case KITH_GATHER_V:
        REQUIRE_OK(kith_gather_v(g, a->send, a->count, a->recv, a->recv_counts, a->recv_displs, a->dtype, a->root));
        break;
    case KITH_SCATTER_V:
        REQUIRE_OK(kith_scatter_v(g, a->send, a->send_counts, a->send_displs, a->recv, a->count, a->dtype, a->root));
        break;
    case KITH_ALL_TO_ALL:
        REQUIRE_OK(kith_all_to_all(g, a->send, a->recv, a->count, a->dtype));
        break;
    case KITH_ALL_TO_ALL_V:
        REQUIRE_OK(kith_all_to_all_v(g, a->send, a->send_counts, a->send_displs, a->recv, a->recv_counts,
                                     a->recv_displs, a->dtype));
        break;
    default:
        REQUIRE_OK(kith_barrier(g));
    }
}

static void run_device(work *w, const kith_coll_args *args, form how)
{
    kith_request *request = NULL;
    if (how == BLOCKING) {
        run_blocking(w, args);
        return;
    }
    if (how == PERSISTENT) {
        REQUIRE_OK(kith_coll_init(w->group, args, &request));
        for (int i = 0; i < 2; i++) {
            REQUIRE_OK(kith_request_start(request));
            REQUIRE_OK(kith_wait(&request));
        }
        REQUIRE_OK(kith_request_free(&request));
        return;
    }
    REQUIRE_OK(kith_coll_start(w->group, args, &request));
    if (how == ORDERED)
        REQUIRE_OK(kith_request_stream_wait(&request, w->gpu.stream));
    else
        REQUIRE_OK(kith_wait(&request));
    REQUIRE(request == NULL);
}

static void compare(const work *w, const kith_coll_args *args, form how, bool is_in_place)
{
    for (size_t i = 0; i < w->room; i++)
        if (w->got[i] != w->wanted[i])
            rank_fail(__FILE__, __LINE__, "%s x%zu %s, form %d%s%s: byte %zu is %02x, wanted %02x",
                      kith_coll_name(args->kind), args->count, kith_dtype_name(args->dtype), (int)how,
                      w->has_stream ? ", stream" : "", is_in_place ? ", in place" : "", i, w->got[i], w->wanted[i]);
}

static void try_form(work *w, kith_coll_args args, form how, bool is_in_place)
{
    bool is_float = args.dtype == KITH_F32;
    fill(w, w->host_send, (unsigned)(w->rank + 1), is_float);
    fill(w, w->host_recv, is_in_place || args.kind == KITH_BROADCAST ? (unsigned)(w->rank + 1) : 77u, is_float);
    memcpy(w->wanted, w->host_recv, w->room);
    memcpy(w->got, w->host_recv, w->room); /* what the device starts from */
    run_host(w, args);
    memcpy(w->wanted, w->host_recv, w->room);
    args.send = is_in_place ? w->recv : w->send;
    args.recv = w->recv;
    /* later work of the stream may still use what is written here */
    gpu_put(&w->gpu, w->send, w->host_send, w->room, !w->has_stream);
    gpu_put(&w->gpu, w->recv, w->got, w->room, !w->has_stream);
    run_device(w, &args, how);
    if (args.kind == KITH_BARRIER)
        REQUIRE_OK(kith_stream_synchronize(w->gpu.stream));
    gpu_get(&w->gpu, w->got, w->recv, w->room);
    compare(w, &args, how, is_in_place);
}

static void try_all(work *w, kith_coll_kind kind, size_t count, kith_dtype dtype, kith_op op)
{
    kith_coll_args args = arguments(w, kind, count, dtype, op);
    for (int how = 0; how < FORMS; how++) {
        if ((how == ORDERED && kind == KITH_BARRIER) || (how == PERSISTENT && count != FEW))
            continue;
        try_form(w, args, (form)how, false);
        if (how == PERSISTENT) /* in place the second run starts from the result of the first */
            continue;
        if (kind == KITH_ALL_REDUCE || kind == KITH_REDUCE)
            try_form(w, args, (form)how, kind == KITH_ALL_REDUCE || w->rank == args.root);
    }
}

static void body(rank_info *info)
{
    static const size_t sizes[] = { FEW, MOST, 1, 0 };
    work w = { .group = info->world, .rank = info->rank, .size = info->size };
    w.is_nccl = way_begin(info, &w.gpu);
    w.room = (size_t)(MOST + 8) * (size_t)info->size * sizeof(float);
    unsigned char **hosts[] = { &w.host_send, &w.host_recv, &w.wanted, &w.got };
    for (size_t i = 0; i < 4; i++)
        REQUIRE((*hosts[i] = (unsigned char *)calloc(1, w.room)) != NULL);
    w.send = gpu_alloc(&w.gpu, w.room);
    w.recv = gpu_alloc(&w.gpu, w.room);
    for (int pass = 0; pass < 2; pass++) {
        w.has_stream = pass == 1;
        REQUIRE_OK(kith_group_set_stream(w.group, w.has_stream ? w.gpu.stream : NULL));
        for (int kind = 0; kind < KITH_COLL_COUNT; kind++)
            for (size_t s = 0; s < (w.has_stream ? 2 : 4); s++)
                try_all(&w, (kith_coll_kind)kind, sizes[s], KITH_F32, KITH_SUM);
        if (!w.is_nccl)
            try_all(&w, KITH_ALL_REDUCE, MOST, KITH_BF16, KITH_AVG);
        try_all(&w, KITH_REDUCE_SCATTER, FEW, KITH_INT32, KITH_MAX);
        try_all(&w, KITH_ALL_REDUCE, MOST, KITH_INT8, KITH_BXOR);
    }
    way_end(&w.gpu, w.group, w.send, w.recv);
    for (size_t i = 0; i < 4; i++)
        free(*hosts[i]);
}

int main(int argc, char **argv)
{
    static way ways[] = {
        { "one_rank", LAUNCH_FORK, 1, "shm", "staged", NULL },
        { "two_processes", LAUNCH_FORK, 2, "shm", "staged", NULL },
        { "four_processes", LAUNCH_FORK, 4, "shm", "staged", NULL },
        { "nccl_processes", LAUNCH_FORK, 4, NULL, "nccl", NULL }, /* it is there, and each rank has a device */
        { "three_threads", LAUNCH_THREADS, 3, "shm", "staged", NULL },
        { "nccl_threads", LAUNCH_THREADS, 2, "nccl", "nccl", NULL },
    };
    return run_ways(argc, argv, ways, sizeof ways / sizeof ways[0], body);
}
