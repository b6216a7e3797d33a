/* tests/conformance/suite_collectives.c - every operation x dtype x op x in/out of place x root x count, against the
 * reference.
 *
 * The argument selects a depth: "full" (default) walks every dtype and op for small counts and a few for large ones;
 * "few" takes those few for all counts, for runs that look at who touches memory and not at arithmetic; "brief" does
 * without the largest count besides, for runs that repeat the suite under many forced algorithms; "types" walks every
 * dtype and op for a few small counts. Guards before and
 * after each output buffer must survive, and inputs of out-of-place calls must not change.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "harness.h"
#include "memory.h"
#include "reference.h"

#include <stdint.h>
#include <string.h>

#define GUARD 64
#define GUARD_BYTE 0xa5
#define ODD_SHIFT 4 /* elements by which out-of-place buffers are shifted from their 64-byte alignment */

typedef struct buffers {
    unsigned char *send_block, *recv_block; /* with guards */
    size_t send_nbytes, recv_nbytes;
    unsigned char *send, *recv;
} buffers;

typedef struct point {
    rank_info *info;
    kith_group *group;
    int rank, size;
    kith_dtype dtype;
    kith_op op;
    size_t count;
    int root;
    bool in_place;
    size_t element;
    unsigned mode; /* 0 blocking, 1 started, 2 persistent */
} point;

static void describe(const point *p, const char *what, char *text, size_t nbytes)
{
    snprintf(text, nbytes, "%s %s %s count %zu root %d %s mode %u", what, kith_dtype_name(p->dtype),
             kith_op_name(NULL, p->op), p->count, p->root, p->in_place ? "in place" : "out of place", p->mode);
}

static void allocate(const point *p, buffers *b, size_t send_count, size_t recv_count)
{
    size_t shift = ODD_SHIFT * p->element;
    b->send_nbytes = send_count * p->element;
    b->recv_nbytes = recv_count * p->element;
    b->send_block = (unsigned char *)memory_alloc(b->send_nbytes + 2 * GUARD + shift);
    b->recv_block = (unsigned char *)memory_alloc(b->recv_nbytes + 2 * GUARD + shift);
    memset(b->send_block, GUARD_BYTE, b->send_nbytes + 2 * GUARD + shift);
    memset(b->recv_block, GUARD_BYTE, b->recv_nbytes + 2 * GUARD + shift);
    b->send = b->send_block + GUARD + (p->count % 2 != 0 ? shift : 0);
    b->recv = b->recv_block + GUARD + (p->count % 3 != 0 ? shift : 0);
}

static void check_guards(const point *p, const buffers *b, const char *what)
{
    char text[200];
    describe(p, what, text, sizeof text);
    for (size_t i = 0; i < GUARD; i++) {
        if (b->recv[-1 - (ptrdiff_t)i] != GUARD_BYTE || b->recv[b->recv_nbytes + i] != GUARD_BYTE)
            rank_fail(__FILE__, __LINE__, "%s: wrote %zu bytes outside of the receive buffer", text, i + 1);
        if (b->send[-1 - (ptrdiff_t)i] != GUARD_BYTE || b->send[b->send_nbytes + i] != GUARD_BYTE)
            rank_fail(__FILE__, __LINE__, "%s: wrote %zu bytes outside of the send buffer", text, i + 1);
    }
}

static void release(buffers *b)
{
    memory_free(b->send_block);
    memory_free(b->recv_block);
}

static void expect(const point *p, const char *what, const void *buffer, size_t index, long wanted, size_t position)
{
    long got = ref_get(buffer, p->dtype, index);
    if (got == wanted)
        return;
    char text[200];
    describe(p, what, text, sizeof text);
    rank_fail(__FILE__, __LINE__, "%s: element %zu: wanted %ld, got %ld", text, position, wanted, got);
}

/* Runs args in the form that p->mode says. */
static void run(const point *p, kith_coll_args *args)
{
    kith_request *request = NULL;
    char text[200];
    kith_status status;
    args->dtype = p->dtype;
    args->op = p->op;
    args->root = p->root;
    if (p->mode == 2) {
        status = kith_coll_init(p->group, args, &request);
        if (status == KITH_OK)
            status = kith_request_start(request);
        if (status == KITH_OK)
            status = kith_wait(&request);
        if (status == KITH_OK)
            status = kith_request_free(&request);
    } else {
        status = kith_coll_start(p->group, args, &request);
        if (status == KITH_OK)
            status = kith_wait(&request);
    }
    describe(p, kith_coll_name(args->kind), text, sizeof text);
    if (status != KITH_OK)
        rank_fail(__FILE__, __LINE__, "%s: %s: %s", text, kith_status_name(status), kith_error_detail());
}

/* The buffers are as the operation shall find them. */
static kith_coll_args args_of(kith_coll_kind kind, const void *send, void *recv, size_t count)
{
    kith_coll_args args = KITH_COLL_ARGS_INIT;
    memory_push();
    args.kind = kind;
    args.send = memory_at(send);
    args.recv = memory_at(recv);
    args.count = count;
    return args;
}

static void finish(const point *p, const char *what, buffers *b)
{
    check_guards(p, b, what);
    release(b);
}

static void check_inputs(const point *p, const buffers *b, const char *what, size_t count)
{
    for (size_t i = 0; !p->in_place && i < count; i++)
        expect(p, what, b->send, i, ref_input(p->op, p->dtype, p->size, p->rank, i), i);
}

/* ---- reductions ---- */

static void test_all_reduce(point *p)
{
    buffers b;
    allocate(p, &b, p->count, p->count);
    unsigned char *send = p->in_place ? b.recv : b.send;
    for (size_t i = 0; i < p->count; i++)
        ref_put(send, p->dtype, i, ref_input(p->op, p->dtype, p->size, p->rank, i));
    kith_coll_args args = args_of(KITH_ALL_REDUCE, send, b.recv, p->count);
    if (p->mode == 0)
        REQUIRE_OK(kith_all_reduce(p->group, args.send, args.recv, p->count, p->dtype, p->op));
    else
        run(p, &args);
    memory_pull();
    for (size_t i = 0; i < p->count; i++)
        expect(p, "all_reduce", b.recv, i, ref_result(p->op, p->dtype, p->size, i), i);
    check_inputs(p, &b, "all_reduce input", p->count);
    finish(p, "all_reduce", &b);
}

static void test_reduce(point *p)
{
    buffers b;
    bool is_root = p->rank == p->root;
    allocate(p, &b, p->count, is_root ? p->count : 0);
    unsigned char *send = p->in_place && is_root ? b.recv : b.send;
    for (size_t i = 0; i < p->count; i++)
        ref_put(send, p->dtype, i, ref_input(p->op, p->dtype, p->size, p->rank, i));
    kith_coll_args args = args_of(KITH_REDUCE, send, is_root ? b.recv : NULL, p->count);
    if (p->mode == 0)
        REQUIRE_OK(kith_reduce(p->group, args.send, args.recv, p->count, p->dtype, p->op, p->root));
    else
        run(p, &args);
    memory_pull();
    for (size_t i = 0; is_root && i < p->count; i++)
        expect(p, "reduce", b.recv, i, ref_result(p->op, p->dtype, p->size, i), i);
    if (send == b.send)
        for (size_t i = 0; i < p->count; i++)
            expect(p, "reduce input", b.send, i, ref_input(p->op, p->dtype, p->size, p->rank, i), i);
    finish(p, "reduce", &b);
}

/* In place in both allowed forms: own block, or the start. */
static void test_reduce_scatter(point *p, bool at_start)
{
    buffers b;
    size_t total = p->count * (size_t)p->size, first = p->count * (size_t)p->rank;
    allocate(p, &b, total, p->in_place ? 0 : p->count);
    for (size_t i = 0; i < total; i++)
        ref_put(b.send, p->dtype, i, ref_input(p->op, p->dtype, p->size, p->rank, i));
    unsigned char *recv = !p->in_place ? b.recv : at_start ? b.send : b.send + first * p->element;
    kith_coll_args args = args_of(KITH_REDUCE_SCATTER, b.send, recv, p->count);
    if (p->mode == 0)
        REQUIRE_OK(kith_reduce_scatter(p->group, args.send, args.recv, p->count, p->dtype, p->op));
    else
        run(p, &args);
    memory_pull();
    for (size_t i = 0; i < p->count; i++)
        expect(p, "reduce_scatter", recv, i, ref_result(p->op, p->dtype, p->size, first + i), i);
    check_inputs(p, &b, "reduce_scatter input", total);
    finish(p, "reduce_scatter", &b);
}

/* Uneven counts: none for rank 1, one more for odd ones. */
static size_t uneven(const point *p, int rank)
{
    return rank == 1 ? 0 : p->count + (size_t)(rank % 2);
}

static size_t fill_uneven(const point *p, size_t *counts, size_t *displs, size_t gap)
{
    size_t end = 0;
    for (int r = 0; r < p->size; r++) {
        counts[r] = uneven(p, r);
        displs[r] = end;
        end += counts[r] + gap;
    }
    return end;
}

static void test_reduce_scatter_v(point *p)
{
    buffers b;
    size_t counts[64] = { 0 }, displs[64] = { 0 }, total = fill_uneven(p, counts, displs, 0);
    allocate(p, &b, total, p->in_place ? 0 : counts[p->rank]);
    for (size_t i = 0; i < total; i++)
        ref_put(b.send, p->dtype, i, ref_input(p->op, p->dtype, p->size, p->rank, i));
    unsigned char *recv = p->in_place ? b.send + displs[p->rank] * p->element : b.recv;
    memory_push();
    REQUIRE_OK(kith_reduce_scatter_v(p->group, memory_at(b.send), memory_at(recv), counts, p->dtype, p->op));
    memory_pull();
    for (size_t i = 0; i < counts[p->rank]; i++)
        expect(p, "reduce_scatter_v", recv, i, ref_result(p->op, p->dtype, p->size, displs[p->rank] + i), i);
    check_inputs(p, &b, "reduce_scatter_v input", total);
    finish(p, "reduce_scatter_v", &b);
}

/* ---- movement ---- */

static void fill_moved(const point *p, unsigned char *buffer, size_t first, size_t count)
{
    for (size_t i = 0; i < count; i++)
        ref_put(buffer, p->dtype, i, ref_move(p->dtype, p->rank, first + i));
}

static void test_all_gather(point *p)
{
    buffers b;
    size_t own = p->count * (size_t)p->rank;
    allocate(p, &b, p->count, p->count * (size_t)p->size);
    unsigned char *send = p->in_place ? b.recv + own * p->element : b.send;
    fill_moved(p, send, 0, p->count);
    kith_coll_args args = args_of(KITH_ALL_GATHER, send, b.recv, p->count);
    if (p->mode == 0)
        REQUIRE_OK(kith_all_gather(p->group, args.send, args.recv, p->count, p->dtype));
    else
        run(p, &args);
    memory_pull();
    for (int r = 0; r < p->size; r++)
        for (size_t i = 0; i < p->count; i++)
            expect(p, "all_gather", b.recv, (size_t)r * p->count + i, ref_move(p->dtype, r, i), i);
    finish(p, "all_gather", &b);
}

static void test_gather_like_v(point *p, kith_coll_kind kind)
{
    buffers b;
    size_t counts[64] = { 0 }, displs[64] = { 0 }, gap = p->in_place ? 0 : 3, end = fill_uneven(p, counts, displs, gap);
    bool is_receiver = kind == KITH_ALL_GATHER_V || p->rank == p->root;
    allocate(p, &b, counts[p->rank], is_receiver ? end : 0);
    unsigned char *send = p->in_place && is_receiver ? b.recv + displs[p->rank] * p->element : b.send;
    fill_moved(p, send, 0, counts[p->rank]);
    memory_push();
    if (kind == KITH_ALL_GATHER_V)
        REQUIRE_OK(kith_all_gather_v(p->group, memory_at(send), memory_at(b.recv), counts, gap == 0 ? NULL : displs,
                                     p->dtype));
    else
        REQUIRE_OK(kith_gather_v(p->group, memory_at(send), counts[p->rank], is_receiver ? memory_at(b.recv) : NULL,
                                 is_receiver ? counts : NULL, is_receiver && gap != 0 ? displs : NULL, p->dtype,
                                 p->root));
    memory_pull();
    for (int r = 0; is_receiver && r < p->size; r++) {
        for (size_t i = 0; i < counts[r]; i++)
            expect(p, kith_coll_name(kind), b.recv, displs[r] + i, ref_move(p->dtype, r, i), i);
        for (size_t i = 0; i < gap * p->element; i++) /* gaps stay as they were */
            REQUIRE(b.recv[(displs[r] + counts[r]) * p->element + i] == GUARD_BYTE);
    }
    finish(p, kith_coll_name(kind), &b);
}

static void test_broadcast(point *p)
{
    buffers b;
    allocate(p, &b, 0, p->count);
    if (p->rank == p->root)
        fill_moved(p, b.recv, 0, p->count);
    kith_coll_args args = args_of(KITH_BROADCAST, NULL, b.recv, p->count);
    if (p->mode == 0)
        REQUIRE_OK(kith_broadcast(p->group, args.recv, p->count, p->dtype, p->root));
    else
        run(p, &args);
    memory_pull();
    for (size_t i = 0; i < p->count; i++)
        expect(p, "broadcast", b.recv, i, ref_move(p->dtype, p->root, i), i);
    finish(p, "broadcast", &b);
}

static void test_gather(point *p)
{
    buffers b;
    bool is_root = p->rank == p->root;
    allocate(p, &b, p->count, is_root ? p->count * (size_t)p->size : 0);
    unsigned char *send = p->in_place && is_root ? b.recv + p->count * (size_t)p->rank * p->element : b.send;
    fill_moved(p, send, 0, p->count);
    kith_coll_args args = args_of(KITH_GATHER, send, is_root ? b.recv : NULL, p->count);
    if (p->mode == 0)
        REQUIRE_OK(kith_gather(p->group, args.send, args.recv, p->count, p->dtype, p->root));
    else
        run(p, &args);
    memory_pull();
    for (int r = 0; is_root && r < p->size; r++)
        for (size_t i = 0; i < p->count; i++)
            expect(p, "gather", b.recv, (size_t)r * p->count + i, ref_move(p->dtype, r, i), i);
    finish(p, "gather", &b);
}

static void test_scatter(point *p)
{
    buffers b;
    bool is_root = p->rank == p->root, is_own = p->in_place && is_root;
    size_t total = p->count * (size_t)p->size, own = p->count * (size_t)p->rank;
    allocate(p, &b, is_root ? total : 0, is_own ? 0 : p->count);
    if (is_root)
        fill_moved(p, b.send, 0, total);
    unsigned char *recv = is_own ? b.send + own * p->element : b.recv;
    kith_coll_args args = args_of(KITH_SCATTER, is_root ? b.send : NULL, recv, p->count);
    if (p->mode == 0)
        REQUIRE_OK(kith_scatter(p->group, args.send, args.recv, p->count, p->dtype, p->root));
    else
        run(p, &args);
    memory_pull();
    for (size_t i = 0; i < p->count; i++)
        expect(p, "scatter", recv, i, ref_move(p->dtype, p->root, own + i), i);
    finish(p, "scatter", &b);
}

static void test_scatter_v(point *p)
{
    buffers b;
    bool is_root = p->rank == p->root;
    size_t counts[64] = { 0 }, displs[64] = { 0 }, end = fill_uneven(p, counts, displs, 2);
    allocate(p, &b, is_root ? end : 0, counts[p->rank]);
    if (is_root)
        fill_moved(p, b.send, 0, end);
    memory_push();
    REQUIRE_OK(kith_scatter_v(p->group, is_root ? memory_at(b.send) : NULL, is_root ? counts : NULL,
                              is_root ? displs : NULL, memory_at(b.recv), counts[p->rank], p->dtype, p->root));
    memory_pull();
    for (size_t i = 0; i < counts[p->rank]; i++)
        expect(p, "scatter_v", b.recv, i, ref_move(p->dtype, p->root, displs[p->rank] + i), i);
    finish(p, "scatter_v", &b);
}

static void test_all_to_all(point *p)
{
    buffers b;
    size_t total = p->count * (size_t)p->size;
    allocate(p, &b, p->in_place ? 0 : total, total);
    unsigned char *send = p->in_place ? b.recv : b.send;
    fill_moved(p, send, 0, total);
    kith_coll_args args = args_of(KITH_ALL_TO_ALL, send, b.recv, p->count);
    if (p->mode == 0)
        REQUIRE_OK(kith_all_to_all(p->group, args.send, args.recv, p->count, p->dtype));
    else
        run(p, &args);
    memory_pull();
    for (int r = 0; r < p->size; r++)
        for (size_t i = 0; i < p->count; i++)
            expect(p, "all_to_all", b.recv, (size_t)r * p->count + i,
                   ref_move(p->dtype, r, (size_t)p->rank * p->count + i), i);
    finish(p, "all_to_all", &b);
}

/* Rank i sends j: count + (i + 2j) % 3 elements, nothing when i + j is a multiple of 5. */
static size_t pair_count(const point *p, int from, int to)
{
    return (from + to) % 5 == 0 ? 0 : p->count + (size_t)((from + 2 * to) % 3);
}

static void test_all_to_all_v(point *p)
{
    buffers b;
    size_t sent[64], received[64], send_displs[64], recv_displs[64], send_end = 0, recv_end = 0;
    for (int r = 0; r < p->size; r++) {
        sent[r] = pair_count(p, p->rank, r);
        received[r] = pair_count(p, r, p->rank);
        send_displs[r] = send_end;
        recv_displs[r] = recv_end;
        send_end += sent[r] + 1;
        recv_end += received[r] + 2;
    }
    allocate(p, &b, send_end, recv_end);
    for (int r = 0; r < p->size; r++)
        for (size_t i = 0; i < sent[r]; i++)
            ref_put(b.send, p->dtype, send_displs[r] + i, ref_move(p->dtype, p->rank * 31 + r, i));
    memory_push();
    REQUIRE_OK(kith_all_to_all_v(p->group, memory_at(b.send), sent, send_displs, memory_at(b.recv), received,
                                 recv_displs, p->dtype));
    memory_pull();
    for (int r = 0; r < p->size; r++)
        for (size_t i = 0; i < received[r]; i++)
            expect(p, "all_to_all_v", b.recv, recv_displs[r] + i, ref_move(p->dtype, r * 31 + p->rank, i), i);
    finish(p, "all_to_all_v", &b);
}

/* ---- the walk ---- */

static void test_reductions(point *p)
{
    test_all_reduce(p);
    test_reduce_scatter(p, false);
    test_reduce_scatter_v(p);
    if (p->in_place)
        test_reduce_scatter(p, true);
    for (p->root = 0; p->root<p->size; p->root += p->size> 1 ? p->size - 1 : 1)
        test_reduce(p);
    p->root = 0;
}

static void test_movements(point *p)
{
    test_all_gather(p);
    test_gather_like_v(p, KITH_ALL_GATHER_V);
    test_all_to_all(p);
    if (!p->in_place)
        test_all_to_all_v(p);
    for (p->root = 0; p->root<p->size; p->root += p->size> 1 ? p->size - 1 : 1) {
        test_broadcast(p);
        test_gather(p);
        test_scatter(p);
        test_gather_like_v(p, KITH_GATHER_V);
        test_scatter_v(p);
    }
    p->root = 0;
}

static bool is_rich(kith_dtype dtype)
{
    return dtype == KITH_F32 || dtype == KITH_BF16 || dtype == KITH_INT64;
}

static void walk_count(point *p, bool is_few)
{
    bool is_big = p->count > 1000;
    for (int dtype = 0; dtype < KITH_DTYPE_COUNT; dtype++) {
        p->dtype = (kith_dtype)dtype;
        p->element = kith_dtype_nbytes(p->dtype);
        if ((is_big && !is_rich(p->dtype)) || (is_few && !is_rich(p->dtype)))
            continue;
        for (int place = 0; place < 2; place++) {
            p->in_place = place == 1;
            p->mode = (unsigned)(p->count + (size_t)dtype + (size_t)place) % 3;
            p->op = KITH_SUM;
            test_movements(p);
            for (p->op = 0; p->op < KITH_OP_BUILTIN_COUNT; p->op++) {
                if (!kith_op_is_defined(p->op, p->dtype))
                    REQUIRE_STATUS(kith_coll_query(p->group, KITH_ALL_REDUCE, p->dtype, p->op), KITH_ERR_UNSUPPORTED);
                else if (!(is_big || is_few) || p->op == KITH_SUM || p->op == KITH_AVG || (is_few && p->op == KITH_MAX))
                    test_reductions(p);
            }
        }
    }
}

void suite_collectives(rank_info *info)
{
    bool is_brief = info->argument != NULL && strcmp(info->argument, "brief") == 0;
    bool is_types = info->argument != NULL && strcmp(info->argument, "types") == 0;
    bool is_few = is_brief || (info->argument != NULL && strcmp(info->argument, "few") == 0);
    point p = { .info = info, .group = info->world, .rank = info->rank, .size = info->size };
    size_t n = (size_t)info->size;
    const size_t counts[] = { 0, 1, n - 1, n, n + 1, 736, 4097, 1048576 };
    REQUIRE(info->size <= 64);
    memory_begin(info);
    for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
        p.count = counts[c];
        if (p.count < (is_types ? n + 1 : 1000000))
            walk_count(&p, is_few);
        REQUIRE_OK(kith_barrier(p.group));
    }
    /* one large point an operation: the walk above would take minutes with it */
    p.count = is_brief ? 65537 : 1048576;
    p.dtype = KITH_F32;
    p.element = 4;
    p.op = KITH_SUM;
    for (int place = 0; place < 2 && !is_types; place++) {
        p.in_place = place == 1;
        p.mode = (unsigned)place;
        test_reductions(&p);
        test_movements(&p);
    }
    memory_end();
}
