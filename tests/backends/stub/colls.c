/* tests/backends/stub/colls.c - a backend's own collectives against a serial reference, on the bare table.
 *
 * The value that rank r contributes at element i is a small integer, so sums and products are exact in every dtype.
 * The reference is computed here, in double precision, from all ranks' contributions.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "stub.h"

#include <string.h>
#include <unistd.h>

typedef struct call {
    stub *s;
    stub_group *group;
    kith_be_coll coll;
    size_t counts[STUB_RANKS], displs[STUB_RANKS];         /* of the _v operations whose arrays all know */
    size_t out_counts[STUB_RANKS], out_displs[STUB_RANKS]; /* all_to_all_v */
    unsigned char *send, *recv, *whole;                    /* whole: what send and recv may share */
    size_t send_nbytes, recv_nbytes, whole_nbytes;
    bool is_in_place;
} call;

static double value(int rank, size_t i, int op)
{
    uint64_t mixed = ((uint64_t)rank * 31 + i * 7) ^ (i >> 5);
    return op == KITH_PROD ? (double)(1 + mixed % 2) : (double)(mixed % 15);
}

static void put(kith_dtype dtype, void *base, size_t i, double v)
{
    switch (dtype) {
    case KITH_INT8:
        ((int8_t *)base)[i] = (int8_t)v;
        break;
    case KITH_UINT8:
        ((uint8_t *)base)[i] = (uint8_t)v;
        break;
    case KITH_INT16:
        ((int16_t *)base)[i] = (int16_t)v;
        break;
    case KITH_UINT16:
        ((uint16_t *)base)[i] = (uint16_t)v;
        break;
    case KITH_INT32:
        ((int32_t *)base)[i] = (int32_t)v;
        break;
    case KITH_UINT32:
        ((uint32_t *)base)[i] = (uint32_t)v;
        break;
    case KITH_INT64:
        ((int64_t *)base)[i] = (int64_t)v;
        break;
    case KITH_UINT64:
        ((uint64_t *)base)[i] = (uint64_t)v;
        break;
    case KITH_F32:
        ((float *)base)[i] = (float)v;
        break;
    case KITH_F64:
        ((double *)base)[i] = v;
        break;
    case KITH_F16:
    case KITH_BF16:
        ((uint16_t *)base)[i] = (uint16_t)(v * 3 + 1);
        break; /* moved only: any bits do */
    default:
        ((uint8_t *)base)[i] = (uint8_t)(v * 5 + 1);
        break;
    }
}

static double combine(double a, double b, int op)
{
    uint64_t x = (uint64_t)a, y = (uint64_t)b;
    switch (op) {
    case KITH_SUM:
    case KITH_AVG:
        return a + b;
    case KITH_PROD:
        return a * b;
    case KITH_MIN:
        return a < b ? a : b;
    case KITH_MAX:
        return a > b ? a : b;
    case KITH_BAND:
        return (double)(x & y);
    case KITH_BOR:
        return (double)(x | y);
    default:
        return (double)(x ^ y);
    }
}

static double reduced(const call *c, size_t i)
{
    double v = value(0, i, c->coll.op);
    for (int r = 1; r < c->group->info.size; r++)
        v = combine(v, value(r, i, c->coll.op), c->coll.op);
    return c->coll.op == KITH_AVG ? v / c->group->info.size : v;
}

/* Element j of rank r's own contribution to the operation; for all_to_all: of its block for rank `to`. */
static double contributed(const call *c, int r, int to, size_t j)
{
    return value(r, j + (size_t)to * 1000, c->coll.op);
}

static void expect(const call *c, const unsigned char *base, size_t at, double v, const char *what)
{
    unsigned char wanted[8];
    put(c->coll.dtype, wanted, 0, v);
    if (memcmp(base + at * c->coll.nbytes, wanted, c->coll.nbytes) != 0) {
        fprintf(stderr, "operation %d, dtype %d, op %d, count %zu, in place %d: element %zu is wrong (wanted %g)\n",
                (int)c->coll.kind, (int)c->coll.dtype, c->coll.op, c->coll.count, c->is_in_place, at, v);
        stub_failed(__FILE__, __LINE__, what);
    }
}

static size_t block_of(int r, size_t count)
{
    return count + (size_t)r % 3;
}

/* Sizes and arrays; count is the operation's. */
static void lay_out(call *c, kith_coll_kind kind, size_t count)
{
    int size = c->group->info.size, rank = c->group->info.rank;
    kith_be_coll *k = &c->coll;
    size_t n = (size_t)size, at = 0, out_at = 0, total = 0, out_total = 0;
    bool is_pairwise = kind == KITH_ALL_TO_ALL_V;
    for (int r = 0; r < size; r++) {
        c->counts[r] = is_pairwise ? block_of(r + rank, count) : block_of(r, count);
        c->out_counts[r] = block_of(r + rank, count);
        c->displs[r] = at, c->out_displs[r] = out_at;
        at += c->counts[r] + (kind == KITH_REDUCE_SCATTER_V ? 0 : 2); /* gaps */
        out_at += c->out_counts[r] + 1;
        total += c->counts[r], out_total += c->out_counts[r];
    }
    k->count = count;
    size_t give = count, take = count;
    switch (kind) {
    case KITH_REDUCE_SCATTER:
        give = count * n;
        break;
    case KITH_REDUCE_SCATTER_V:
        give = total, take = c->counts[rank];
        break;
    case KITH_ALL_GATHER:
    case KITH_GATHER:
        take = count * n;
        break;
    case KITH_SCATTER:
        give = count * n;
        break;
    case KITH_ALL_TO_ALL:
        give = take = count * n;
        break;
    case KITH_ALL_GATHER_V:
        give = c->counts[rank], take = at;
        break;
    case KITH_GATHER_V:
        give = k->count = c->counts[rank], take = at;
        break;
    case KITH_SCATTER_V:
        give = at, take = k->count = c->counts[rank];
        break;
    case KITH_ALL_TO_ALL_V:
        give = out_at, take = at;
        break;
    default:
        break;
    }
    (void)out_total;
    c->send_nbytes = give * k->nbytes;
    c->recv_nbytes = take * k->nbytes;
    k->recv_counts = c->counts, k->recv_displs = c->displs;
    k->send_counts = is_pairwise ? c->out_counts : c->counts;
    k->send_displs = is_pairwise ? c->out_displs : c->displs;
}

/* Where send and recv lie relative to each other; false when the operation has no in-place form (on this rank). */
static void place(call *c)
{
    int rank = c->group->info.rank;
    kith_be_coll *k = &c->coll;
    size_t own = (size_t)rank * k->count * k->nbytes, own_v = c->displs[rank] * k->nbytes;
    size_t nbytes = c->send_nbytes + c->recv_nbytes + 64;
    bool is_root = rank == k->root;
    c->whole = (unsigned char *)malloc(nbytes);
    CHECK(c->whole != NULL);
    memset(c->whole, 0xCD, nbytes);
    c->whole_nbytes = nbytes;
    c->send = c->whole;
    c->recv = c->whole + c->send_nbytes + 32;
    if (k->kind == KITH_BROADCAST)
        c->send = c->recv;
    if (!c->is_in_place)
        return;
    switch (k->kind) {
    case KITH_ALL_REDUCE:
    case KITH_ALL_TO_ALL:
        c->recv = c->send;
        break;
    case KITH_REDUCE:
        if (is_root)
            c->recv = c->send;
        break;
    case KITH_REDUCE_SCATTER:
        c->recv = k->count % 2 == 0 ? c->send : c->send + own;
        break;
    case KITH_REDUCE_SCATTER_V:
        c->recv = k->count % 2 == 0 ? c->send : c->send + own_v;
        break;
    case KITH_ALL_GATHER:
        c->send = c->recv + own;
        break;
    case KITH_ALL_GATHER_V:
        c->send = c->recv + own_v;
        break;
    case KITH_GATHER:
        if (is_root)
            c->send = c->recv + own;
        break;
    case KITH_GATHER_V:
        if (is_root)
            c->send = c->recv + own_v;
        break;
    case KITH_SCATTER:
        if (is_root)
            c->recv = c->send + own;
        break;
    case KITH_SCATTER_V:
        if (is_root)
            c->recv = c->send + own_v;
        break;
    default:
        break;
    }
}

static void fill_send(call *c)
{
    const kith_be_coll *k = &c->coll;
    int rank = c->group->info.rank, size = c->group->info.size;
    bool is_root = rank == k->root;
    switch (k->kind) {
    case KITH_BARRIER:
        break;
    case KITH_ALL_TO_ALL:
        for (int to = 0; to < size; to++)
            for (size_t j = 0; j < k->count; j++)
                put(k->dtype, c->send, (size_t)to * k->count + j, contributed(c, rank, to, j));
        break;
    case KITH_ALL_TO_ALL_V:
        for (int to = 0; to < size; to++)
            for (size_t j = 0; j < k->send_counts[to]; j++)
                put(k->dtype, c->send, k->send_displs[to] + j, contributed(c, rank, to, j));
        break;
    case KITH_SCATTER_V:
        for (int to = 0; to < size && is_root; to++)
            for (size_t j = 0; j < c->counts[to]; j++)
                put(k->dtype, c->send, c->displs[to] + j, contributed(c, rank, to, j));
        break;
    case KITH_SCATTER:
        for (int to = 0; to < size && is_root; to++)
            for (size_t j = 0; j < k->count; j++)
                put(k->dtype, c->send, (size_t)to * k->count + j, contributed(c, rank, to, j));
        break;
    case KITH_BROADCAST:
        for (size_t j = 0; j < k->count && is_root; j++)
            put(k->dtype, c->send, j, value(rank, j, k->op));
        break;
    default:
        for (size_t j = 0; j < c->send_nbytes / k->nbytes; j++)
            put(k->dtype, c->send, j, value(rank, j, k->op));
    }
}

static void check_blocks(const call *c, const size_t *counts, const size_t *displs, bool is_pairwise)
{
    for (int r = 0; r < c->group->info.size; r++)
        for (size_t j = 0; j < counts[r]; j++)
            expect(c, c->recv, displs[r] + j,
                   is_pairwise ? contributed(c, r, c->group->info.rank, j) : value(r, j, c->coll.op), "block");
}

static void check_recv(const call *c)
{
    const kith_be_coll *k = &c->coll;
    int rank = c->group->info.rank, size = c->group->info.size;
    bool is_root = rank == k->root;
    size_t equal[STUB_RANKS], places[STUB_RANKS];
    for (int r = 0; r < size; r++)
        equal[r] = k->count, places[r] = (size_t)r * k->count;
    switch (k->kind) {
    case KITH_ALL_REDUCE:
    case KITH_REDUCE:
        for (size_t j = 0; j < k->count && (k->kind == KITH_ALL_REDUCE || is_root); j++)
            expect(c, c->recv, j, reduced(c, j), "reduction");
        break;
    case KITH_REDUCE_SCATTER:
        for (size_t j = 0; j < k->count; j++)
            expect(c, c->recv, j, reduced(c, (size_t)rank * k->count + j), "reduce_scatter");
        break;
    case KITH_REDUCE_SCATTER_V:
        for (size_t j = 0; j < c->counts[rank]; j++)
            expect(c, c->recv, j, reduced(c, c->displs[rank] + j), "reduce_scatter_v");
        break;
    case KITH_BROADCAST:
        for (size_t j = 0; j < k->count; j++)
            expect(c, c->recv, j, value(k->root, j, k->op), "broadcast");
        break;
    case KITH_ALL_GATHER:
        check_blocks(c, equal, places, false);
        break;
    case KITH_ALL_GATHER_V:
        check_blocks(c, c->counts, c->displs, false);
        break;
    case KITH_GATHER:
        if (is_root)
            check_blocks(c, equal, places, false);
        break;
    case KITH_GATHER_V:
        if (is_root)
            check_blocks(c, c->counts, c->displs, false);
        break;
    case KITH_SCATTER:
    case KITH_SCATTER_V:
        for (size_t j = 0; j < k->count; j++)
            expect(c, c->recv, j, contributed(c, k->root, rank, j), "scatter");
        break;
    case KITH_ALL_TO_ALL:
        check_blocks(c, equal, places, true);
        break;
    case KITH_ALL_TO_ALL_V:
        check_blocks(c, c->counts, c->displs, true);
        break;
    case KITH_BARRIER:
        break;
    }
}

static void start_and_wait(call *c, bool is_blocking)
{
    const kith_backend *backend = c->s->backend;
    kith_be_slot slot = { { 0 } };
    if (is_blocking && backend->coll_run != NULL) {
        kith_status status = backend->coll_run(c->group->group, &c->coll);
        if (status != KITH_ERR_UNSUPPORTED) { /* else this group wants coll_start always */
            CHECK_EQUAL(status, KITH_OK);
            return;
        }
    }
    CHECK_EQUAL(backend->coll_start(c->group->group, &c->coll, &slot), KITH_OK);
    for (int is_done = 0; !is_done;) {
        CHECK_EQUAL(backend->coll_test(c->group->group, &slot, &is_done), KITH_OK);
        if (backend->progress != NULL)
            backend->progress(c->s->be);
        if (!is_done && c->coll.is_device)
            usleep(20); /* others have the work */
    }
}

static void run(call *c, bool is_blocking)
{
    const stub_device *device = &stub_device_memory;
    unsigned char *whole = c->whole;
    if (device->upload != NULL)
        whole = (unsigned char *)device->upload(c->whole, c->whole_nbytes);
    c->coll.send = whole + (c->send - c->whole);
    c->coll.recv = whole + (c->recv - c->whole);
    c->coll.is_device = device->upload != NULL;
    c->coll.has_stream = device->stream != NULL;
    c->coll.stream = device->stream;
    start_and_wait(c, is_blocking);
    if (device->upload != NULL)
        device->download(c->whole, whole, c->whole_nbytes);
}

static void try_one(stub *s, kith_coll_kind kind, kith_dtype dtype, int op, int root, size_t count, int form)
{
    call c = { .s = s, .group = s->world, .is_in_place = form & 1 };
    c.coll = (kith_be_coll){ .kind = kind,
                             .dtype = dtype,
                             .op = op,
                             .root = root,
                             .nbytes = dtype == KITH_F64 || dtype == KITH_INT64 || dtype == KITH_UINT64   ? 8
                                       : dtype == KITH_F32 || dtype == KITH_INT32 || dtype == KITH_UINT32 ? 4
                                       : dtype == KITH_F16 || dtype == KITH_BF16 || dtype == KITH_INT16 ||
                                               dtype == KITH_UINT16
                                           ? 2
                                           : 1 };
    lay_out(&c, kind, count);
    place(&c);
    fill_send(&c);
    run(&c, form < 2);
    check_recv(&c);
    free(c.whole);
}

static bool is_native(stub *s, kith_coll_kind kind, kith_dtype dtype, int op)
{
    kith_be_query question = { .kind = kind, .dtype = dtype, .op = op, .is_reducer_commutative = 1 };
    kith_be_answer answer = { 0 };
    CHECK_EQUAL(s->backend->query(s->world->group, &question, &answer), KITH_OK);
    return answer.is_native;
}

int stub_colls(stub *s, bool is_brief)
{
    static const size_t counts[] = { 0, 1, 3, 64, 1000, 40001 };
    int tried = 0, size = s->world->info.size, forms = s->backend->coll_run != NULL ? 4 : 2; /* 2, 3: started */
    for (int kind = 0; kind < KITH_COLL_COUNT; kind++)
        for (int dtype = 0; dtype < KITH_DTYPE_COUNT; dtype++)
            for (int op = 0; op < KITH_OP_BUILTIN_COUNT; op++) {
                bool is_reducing = kind == KITH_ALL_REDUCE || kind == KITH_REDUCE_SCATTER ||
                                   kind == KITH_REDUCE_SCATTER_V || kind == KITH_REDUCE;
                if (is_brief && (op != KITH_SUM || (dtype != KITH_INT32 && dtype != KITH_F32)))
                    continue;
                if (is_reducing && (dtype == KITH_F16 || dtype == KITH_BF16 || dtype > KITH_F64))
                    continue; /* put() has any bits for these */
                if ((!is_reducing && op != KITH_SUM) || !is_native(s, (kith_coll_kind)kind, (kith_dtype)dtype, op))
                    continue;
                for (size_t k = 0; k < sizeof counts / sizeof *counts; k++)
                    for (int form = 0; form < forms; form++, tried++)
                        if (!(kind == KITH_ALL_TO_ALL_V && (form & 1)))
                            try_one(s, (kith_coll_kind)kind, (kith_dtype)dtype, op, k % 2 == 0 ? 0 : size - 1,
                                    counts[k], form);
            }
    return tried;
}

void stub_coll_cancel(stub *s)
{
    enum { COUNT = 100000 };
    static const int all[] = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15 };
    stub_group *group = stub_group_make(s, all, s->world->info.size);
    int32_t *send = (int32_t *)calloc(COUNT, sizeof *send), *recv = (int32_t *)calloc(COUNT, sizeof *recv);
    kith_be_slot slot = { { 0 } };
    CHECK(send != NULL && recv != NULL);
    kith_be_coll coll = { .kind = KITH_ALL_REDUCE,
                          .dtype = KITH_INT32,
                          .op = KITH_SUM,
                          .send = send,
                          .recv = recv,
                          .count = COUNT,
                          .nbytes = 4 };
    CHECK_EQUAL(s->backend->coll_start(group->group, &coll, &slot), KITH_OK);
    s->backend->coll_cancel(group->group, &slot);
    memset(recv, 0xEE, COUNT * sizeof *recv);
    stub_barrier(s);
    for (int polls = 0; polls < 10000; polls++)
        s->backend->progress(s->be);
    for (int i = 0; i < COUNT; i++)
        CHECK_EQUAL((uint32_t)recv[i], 0xEEEEEEEEu);
    stub_barrier(s);
    stub_group_free(group);
    free(send);
    free(recv);
}
