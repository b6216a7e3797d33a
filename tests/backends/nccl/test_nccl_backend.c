/* tests/backends/nccl/test_nccl_backend.c - the nccl module by itself, on simulated GPUs: what it computes, in which
 * order, and how it ends.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "device.h"

#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define MANY (1 << 20)

static const kith_backend *backend;
static stub_fn scenario;

static const int everybody[] = { 0, 1, 2, 3 };

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* ---- helpers ---- */

typedef struct started {
    kith_be_coll coll;
    kith_be_msg msg;
    kith_be_slot slot;
} started;

static void all_reduce(stub_group *group, started *op, const int *send, int *recv, size_t count, void *stream)
{
    memset(op, 0, sizeof *op);
    op->coll = (kith_be_coll){ .kind = KITH_ALL_REDUCE,
                               .dtype = KITH_INT32,
                               .op = KITH_SUM,
                               .send = send,
                               .recv = recv,
                               .count = count,
                               .nbytes = 4,
                               .is_device = 1,
                               .stream = stream,
                               .has_stream = stream != NULL };
    CHECK_EQUAL(group->owner->backend->coll_start(group->group, &op->coll, &op->slot), KITH_OK);
}

static kith_status wait_coll(stub_group *group, started *op)
{
    int64_t end = now_ms() + 30000;
    for (int is_done = 0; now_ms() < end;) {
        kith_status status = group->owner->backend->coll_test(group->group, &op->slot, &is_done);
        if (status != KITH_OK || is_done)
            return status;
        group->owner->backend->progress(group->owner->be);
        usleep(20); /* others have the work */
    }
    return KITH_ERR_TIMEOUT;
}

static void message(stub_group *group, started *op, bool is_send, int *buffer, size_t count, int peer, uint64_t tag)
{
    memset(op, 0, sizeof *op);
    op->msg = (kith_be_msg){ .peer = peer, .tag = tag, .buffer = buffer, .nbytes = count * 4, .is_device = 1 };
    const kith_backend *b = group->owner->backend;
    CHECK_EQUAL((is_send ? b->send_start : b->recv_start)(group->group, &op->msg, &op->slot), KITH_OK);
}

static void expect_ints(const int *ptr, size_t count, int wanted)
{
    int *host = (int *)malloc(count * sizeof *host);
    CHECK(host != NULL);
    device_read(host, ptr, count);
    for (size_t i = 0; i < count; i++)
        CHECK_EQUAL(host[i], wanted);
    free(host);
}

/* Every scenario runs on a device of its own. */
static void on_device(stub *s)
{
    scenario(s);
    stub_barrier(s);
}

static int run_on(int ranks, stub_fn fn)
{
    scenario = fn;
    return stub_fork(backend, ranks, on_device, -1);
}

/* ---- what it computes ---- */

static void colls(stub *s)
{
    CHECK(stub_colls(s, true) > 100); /* types and operators: the conformance suite */
}

static void test_colls(void **state)
{
    (void)state;
    for (int ranks = 1; ranks <= 4; ranks *= 2)
        assert_int_equal(run_on(ranks, colls), 0);
}

static void premul(stub *s)
{
    static const struct {
        kith_dtype dtype;
        uint32_t two, wanted[3]; /* of 1, 2, 4 ranks: each gives 2, times 3 */
        size_t nbytes;
    } cases[] = { { KITH_INT32, 2, { 6, 12, 24 }, 4 },
                  { KITH_F32, 0x40000000, { 0x40c00000, 0x41400000, 0x41c00000 }, 4 },
                  { KITH_F16, 0x4000, { 0x4600, 0x4a00, 0x4e00 }, 2 },
                  { KITH_BF16, 0x4000, { 0x40c0, 0x4140, 0x41c0 }, 2 } };
    int which = s->host.size == 1 ? 0 : s->host.size == 2 ? 1 : 2;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        kith_be_query question = { .kind = KITH_ALL_REDUCE, .dtype = cases[i].dtype, .op = -1, .is_premul_sum = 1 };
        kith_be_answer answer = { 0 };
        kith_be_reducer reducer = { .nbytes = cases[i].nbytes, .scalar = 3.0, .int_scalar = 3 };
        started op;
        int *x = device_ints(1, (int)cases[i].two), got = 0;
        memset(&op, 0, sizeof op);
        CHECK_EQUAL(s->backend->query(s->world->group, &question, &answer), KITH_OK);
        CHECK_EQUAL(answer.is_native, 1);
        question.is_premul_sum = 0; /* an operator of the user's */
        CHECK_EQUAL(s->backend->query(s->world->group, &question, &answer), KITH_OK);
        CHECK_EQUAL(answer.is_native, 0);
        op.coll = (kith_be_coll){ .kind = KITH_ALL_REDUCE,
                                  .dtype = cases[i].dtype,
                                  .op = -1,
                                  .send = x,
                                  .recv = x,
                                  .count = 1,
                                  .nbytes = cases[i].nbytes,
                                  .reducer = &reducer,
                                  .is_device = 1,
                                  .is_premul_sum = 1 };
        for (int again = 0; again < 1; again++) {
            CHECK_EQUAL(s->backend->coll_start(s->world->group, &op.coll, &op.slot), KITH_OK);
            CHECK_EQUAL(wait_coll(s->world, &op), KITH_OK);
        }
        device_read(&got, x, 1);
        CHECK_EQUAL(cases[i].nbytes == 2 ? got & 0xffff : got, (int)cases[i].wanted[which]);
        device_free(x);
    }
}

static void test_premul(void **state)
{
    (void)state;
    assert_int_equal(run_on(1, premul), 0);
    assert_int_equal(run_on(4, premul), 0);
}

/* What NCCL does not reduce. */
static void refusals(stub *s)
{
    static const struct {
        kith_dtype dtype;
        int op, is_native;
    } cases[] = { { KITH_INT16, KITH_SUM, 0 }, { KITH_UINT16, KITH_MAX, 0 }, { KITH_INT32, KITH_BAND, 0 },
                  { KITH_INT32, KITH_AVG, 1 }, { KITH_F32, KITH_MIN, 1 },    { KITH_INT16, -1, 0 } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        kith_be_query question = { .kind = KITH_REDUCE, .dtype = cases[i].dtype, .op = cases[i].op };
        kith_be_answer answer = { 0 };
        CHECK_EQUAL(s->backend->query(s->world->group, &question, &answer), KITH_OK);
        CHECK_EQUAL(answer.is_native, cases[i].is_native);
        question.kind = KITH_ALL_GATHER; /* moves whatever it is */
        CHECK_EQUAL(s->backend->query(s->world->group, &question, &answer), KITH_OK);
        CHECK_EQUAL(answer.is_native, 1);
    }
    CHECK_EQUAL(s->backend->memory(s->world->group), KITH_BE_DEVICE);
}

static void test_refusals(void **state)
{
    (void)state;
    assert_int_equal(run_on(2, refusals), 0);
}

/* ---- in which order ---- */

/* Two groups, started in different orders: independent, whatever the first connection of NCCL waits for. */
static void crossed_groups(stub *s)
{
    stub_group *other = stub_group_make(s, everybody, s->host.size);
    int *a = device_ints(MANY, 1), *b = device_ints(MANY, 2), n = s->host.size;
    started first, second;
    bool is_odd = s->host.rank % 2 == 1;
    for (int i = 0, power = 1; i < 3; i++, power *= n) {
        all_reduce(is_odd ? other : s->world, &first, is_odd ? b : a, is_odd ? b : a, MANY, NULL);
        all_reduce(is_odd ? s->world : other, &second, is_odd ? a : b, is_odd ? a : b, MANY, NULL);
        CHECK_EQUAL(wait_coll(is_odd ? other : s->world, &first), KITH_OK);
        CHECK_EQUAL(wait_coll(is_odd ? s->world : other, &second), KITH_OK);
        expect_ints(a, MANY, power * n);
        expect_ints(b, MANY, 2 * power * n);
    }
    device_free(a);
    device_free(b);
    stub_group_free(other);
}

static void test_crossed_groups(void **state)
{
    (void)state;
    assert_int_equal(run_on(4, crossed_groups), 0);
}

/* An operation begins behind the caller's stream and the stream goes on behind it; the host waits for neither. */
static void streams(stub *s)
{
    void *stream = stub_device_memory.stream;
    int *x = device_ints(MANY, 0), n = s->host.size, *host = (int *)malloc(MANY * sizeof *host);
    CHECK(host != NULL);
    for (int round = 1; round <= 5; round++) {
        started op[2];
        kith_status status;
        for (size_t i = 0; i < MANY; i++)
            host[i] = round;
        CUDA(cudaMemcpyAsync(x, host, MANY * sizeof *host, cudaMemcpyHostToDevice, (cudaStream_t)stream));
        all_reduce(s->world, &op[0], x, x, MANY, stream);
        all_reduce(s->world, &op[1], x, x, MANY, stream);
        while ((status = s->backend->stream_wait(s->world->group, &op[1].slot, stream)) == KITH_ERR_BUSY)
            s->backend->progress(s->be);
        CHECK_EQUAL(status, KITH_OK);
        expect_ints(x, MANY, round * n * n);
        for (int i = 0; i < 2; i++)
            CHECK_EQUAL(wait_coll(s->world, &op[i]), KITH_OK);
    }
    free(host);
    device_free(x);
}

static void test_streams(void **state)
{
    (void)state;
    assert_int_equal(run_on(2, streams), 0);
}

/* Both send first, a lot; then a ring; messages of one direction in order; others do nothing. */
static void messages(stub *s)
{
    int rank = s->host.rank, size = s->host.size, to = (rank + 1) % size, from = (rank + size - 1) % size;
    int *out = device_ints(MANY, rank + 10), *in[3];
    started send[3], recv[3];
    for (int i = 0; i < 3; i++)
        in[i] = device_ints(MANY, -1);
    if (rank == 1 || rank == 3) {
        int peer = 4 - rank;
        for (int i = 0; i < 3; i++)
            message(s->world, &send[i], true, out, (size_t)MANY >> i, peer, (uint64_t)i);
        for (int i = 0; i < 3; i++)
            message(s->world, &recv[i], false, in[i], (size_t)MANY >> i, peer, (uint64_t)i);
        for (int i = 0; i < 3; i++) {
            size_t nbytes = 0;
            CHECK_EQUAL(stub_wait(s->world, &recv[i].slot, &nbytes), KITH_OK);
            CHECK_EQUAL(nbytes, ((size_t)MANY >> i) * 4);
            CHECK_EQUAL(stub_wait(s->world, &send[i].slot, NULL), KITH_OK);
            expect_ints(in[i], (size_t)MANY >> i, peer + 10);
        }
    }
    message(s->world, &send[0], true, out, 1000, to, 0);
    message(s->world, &recv[0], false, in[0], 1000, from, 0);
    CHECK_EQUAL(stub_wait(s->world, &send[0].slot, NULL), KITH_OK);
    CHECK_EQUAL(stub_wait(s->world, &recv[0].slot, NULL), KITH_OK);
    expect_ints(in[0], 1000, from + 10);
    for (int i = 0; i < 3; i++)
        device_free(in[i]);
    device_free(out);
}

static void test_messages(void **state)
{
    (void)state;
    assert_int_equal(run_on(4, messages), 0);
}

/* Two messages of odd sizes to everybody, oneself too, as one batch on some ranks and one by one on the others. */
static void batches(stub *s)
{
    int rank = s->host.rank, size = s->host.size;
    const kith_backend *b = s->backend;
    started send[2][4], recv[2][4];
    int *out[2][4], *in[2][4];
    for (int k = 0; k < 2; k++)
        for (int r = 0; r < size; r++) {
            out[k][r] = device_ints((size_t)(r + 1 + k), rank * 100 + r * 10 + k);
            in[k][r] = device_ints((size_t)(rank + 1 + k), -1);
        }
    if (rank % 2 == 0)
        CHECK_EQUAL(b->batch_begin(s->world->group), KITH_OK);
    for (int k = 0; k < 2; k++)
        for (int r = 0; r < size; r++) {
            message(s->world, &send[k][r], true, out[k][r], (size_t)(r + 1 + k), r, 0);
            message(s->world, &recv[k][r], false, in[k][r], (size_t)(rank + 1 + k), r, 0);
        }
    if (rank % 2 == 0)
        CHECK_EQUAL(b->batch_end(s->world->group), KITH_OK);
    for (int k = 0; k < 2; k++)
        for (int r = 0; r < size; r++) {
            CHECK_EQUAL(stub_wait(s->world, &send[k][r].slot, NULL), KITH_OK);
            CHECK_EQUAL(stub_wait(s->world, &recv[k][r].slot, NULL), KITH_OK);
            expect_ints(in[k][r], (size_t)(rank + 1 + k), r * 100 + rank * 10 + k);
            device_free(in[k][r]);
            device_free(out[k][r]);
        }
    /* too long for the receive, to oneself: an error of that receive */
    int *x = device_ints(4, 1), *y = device_ints(4, 2);
    message(s->world, &send[0][0], true, x, 4, rank, 0);
    message(s->world, &recv[0][0], false, y, 2, rank, 0);
    CHECK_EQUAL(stub_wait(s->world, &send[0][0].slot, NULL), KITH_OK);
    CHECK_EQUAL(stub_wait(s->world, &recv[0][0].slot, NULL), KITH_ERR_TRUNCATED);
    expect_ints(y, 4, 2);
    device_free(x);
    device_free(y);
}

static void test_batches(void **state)
{
    (void)state;
    assert_int_equal(run_on(4, batches), 0);
}

static void registration(stub *s)
{
    int *x = device_ints(MANY, 1);
    started op;
    CUDA(cudaSetDevice(3)); /* not the context's: NCCL is called on that one all the same */
    CHECK_EQUAL(s->backend->mem_register(s->world->group, x, MANY * sizeof *x), KITH_OK);
    CUDA(cudaSetDevice(s->host.rank));
    all_reduce(s->world, &op, x, x, MANY, NULL);
    CHECK_EQUAL(wait_coll(s->world, &op), KITH_OK);
    expect_ints(x, MANY, s->host.size);
    CUDA(cudaSetDevice(3));
    CHECK_EQUAL(s->backend->mem_deregister(s->world->group, x), KITH_OK);
    CUDA(cudaSetDevice(s->host.rank));
    CHECK_EQUAL(s->backend->mem_deregister(s->world->group, x), KITH_ERR_INVALID_ARG);
    device_free(x);
}

static void test_registration(void **state)
{
    (void)state;
    assert_int_equal(run_on(2, registration), 0);
}

/* What only a simulated NCCL tells; false: this is a real one, and there is nothing to compare. */
static bool ask_simulation(const char *name, void *function)
{
    void *handle = dlopen(getenv("KITH_NCCL_LIBRARY"), RTLD_NOW | RTLD_NOLOAD);
    void *symbol = handle != NULL ? dlsym(handle, name) : NULL;
    memcpy(function, &symbol, sizeof symbol);
    if (handle != NULL)
        dlclose(handle);
    return symbol != NULL;
}

/* The kernel of a message is small, that of a collective what NCCL likes. */
static void ctas(stub *s)
{
    int (*most_ctas)(int ranks);
    started op;
    if (!ask_simulation("sim_nccl_most_ctas", &most_ctas))
        return;
    int *x = device_ints(10, 7), next = s->host.rank ^ 1;
    if (s->host.rank < 2) {
        message(s->world, &op, s->host.rank == 0, x, 10, next, 0);
        CHECK_EQUAL(stub_wait(s->world, &op.slot, NULL), KITH_OK);
        CHECK_EQUAL(most_ctas(2), atoi(s->host.setting(s->host.cookie, "nccl_message_ctas", "4")));
    }
    CHECK_EQUAL(most_ctas(s->host.size), 0);
    device_free(x);
}

static void test_ctas(void **state)
{
    (void)state;
    assert_int_equal(run_on(3, ctas), 0);
    stub_set("nccl_message_ctas", "8");
    assert_int_equal(run_on(3, ctas), 0);
    stub_set("nccl_message_ctas", "4");
}

/* ---- how it ends ---- */

static void *abort_later(void *arg)
{
    stub_group *group = (stub_group *)arg;
    usleep(200000); /* the others stand in the operation by then; an earlier abort must end it as well */
    group->owner->backend->group_abort(group->group);
    return NULL;
}

/* The last rank never comes; the others abort from another thread, soon have an answer, and their buffers to
 * themselves. */
static void aborting(stub *s)
{
    stub_group *group = stub_group_make(s, everybody, s->host.size);
    int *x = device_ints(MANY, 7);
    if (s->host.rank != s->host.size - 1) {
        started op, message_op;
        pthread_t thread;
        all_reduce(group, &op, x, x, MANY, stub_device_memory.stream);
        message(group, &message_op, false, x, 1, s->host.size - 1, 0);
        CHECK_EQUAL(pthread_create(&thread, NULL, abort_later, group), 0);
        int64_t start = now_ms();
        CHECK_EQUAL(wait_coll(group, &op), KITH_ERR_ABORTED);
        CHECK_EQUAL(stub_wait(group, &message_op.slot, NULL), KITH_ERR_ABORTED);
        CHECK(strstr(stub_error(), "aborted") != NULL);
        CHECK(now_ms() - start < 5000);
        pthread_join(thread, NULL);
        expect_ints(x, MANY, 7);
        CHECK_EQUAL(s->backend->coll_start(group->group, &op.coll, &op.slot), KITH_ERR_ABORTED);
    }
    stub_barrier(s);
    stub_group_free(group);
    device_free(x);
}

static void test_abort(void **state)
{
    (void)state;
    assert_int_equal(run_on(4, aborting), 0);
}

/* Ranks 0 and 1 of 4 have operations in three groups that the others never come to: all are aborted at once, or one
 * after the other, and each is over soon. */
static void abort_in_pieces(stub *s, bool is_together)
{
    stub_group *groups[3];
    void *handles[3];
    started op[3], message_op[3];
    int *x = device_ints(1000, 7);
    for (int i = 0; i < 3; i++) {
        groups[i] = stub_group_make(s, everybody, s->host.size);
        handles[i] = groups[i]->group;
        all_reduce(groups[i], &op[i], x + 100, x + 100, 100, NULL); /* makes NCCL connect */
        CHECK_EQUAL(wait_coll(groups[i], &op[i]), KITH_OK);
        message(groups[i], &message_op[i], s->host.rank % 2 == 0, x, 10, s->host.rank ^ 1, 0);
        CHECK_EQUAL(stub_wait(groups[i], &message_op[i].slot, NULL), KITH_OK);
    }
    stub_barrier(s);
    if (s->host.rank < 2) {
        for (int i = 0; i < 3; i++) {
            all_reduce(groups[i], &op[i], x, x, 100, NULL);
            if (s->host.rank == 0)
                message(groups[i], &message_op[i], true, x, 10, 1, 0); /* whose receive is never posted */
        }
        for (int64_t end = now_ms() + 20; now_ms() < end;)
            s->backend->progress(s->be);
        int64_t start = now_ms();
        if (is_together)
            s->backend->groups_abort(handles, 3);
        for (int i = 0; !is_together && i < 3; i++)
            s->backend->group_abort(handles[i]);
        CHECK(now_ms() - start < 1500); /* less than the time after which a stream is given up */
        for (int i = 0; i < 3; i++) {
            CHECK_EQUAL(wait_coll(groups[i], &op[i]), KITH_ERR_ABORTED);
            if (s->host.rank == 0)
                CHECK_EQUAL(stub_wait(groups[i], &message_op[i].slot, NULL), KITH_ERR_ABORTED);
        }
    }
    stub_barrier(s);
    for (int i = 0; i < 3; i++)
        stub_group_free(groups[i]);
    device_free(x);
}

static void aborting_together(stub *s)
{
    abort_in_pieces(s, true);
}

static void aborting_in_turn(stub *s)
{
    abort_in_pieces(s, false);
}

static void test_aborts(void **state)
{
    (void)state;
    assert_int_equal(run_on(4, aborting_together), 0);
    assert_int_equal(run_on(4, aborting_in_turn), 0);
}

/* The device has room for one kernel of NCCL (KITH_SIMGPU_NCCL_KERNELS): those of the later groups are behind it. */
static void test_crowded(void **state)
{
    (void)state;
    assert_int_equal(run_on(4, aborting_together), 0);
}

/* A message that is cancelled does not wait for what other lines of the device run. */
static void cancelling_beside(stub *s)
{
    stub_group *other = stub_group_make(s, everybody, s->host.size);
    int *x = device_ints(1000, 7);
    started op, message_op;
    all_reduce(other, &op, x, x, 100, NULL);
    CHECK_EQUAL(wait_coll(other, &op), KITH_OK);
    message(s->world, &message_op, s->host.rank == 0, x + 500, 10, 1 - s->host.rank, 0);
    CHECK_EQUAL(stub_wait(s->world, &message_op.slot, NULL), KITH_OK);
    stub_barrier(s);
    if (s->host.rank == 0) {
        all_reduce(other, &op, x, x, 100, NULL);
        message(s->world, &message_op, true, x + 500, 10, 1, 0);
        for (int64_t end = now_ms() + 20; now_ms() < end;)
            s->backend->progress(s->be);
        int64_t start = now_ms();
        s->backend->msg_cancel(s->world->group, &message_op.slot);
        CHECK(now_ms() - start < 1500);
    }
    stub_barrier(s);
    if (s->host.rank == 1)
        all_reduce(other, &op, x, x, 100, NULL);
    CHECK_EQUAL(wait_coll(other, &op), KITH_OK); /* the other line is whole */
    stub_group_free(other);
    device_free(x);
}

static void test_cancel_beside(void **state)
{
    (void)state;
    assert_int_equal(run_on(2, cancelling_beside), 0);
}

/* A receive that nobody serves is taken back, and the direction lives on; one that NCCL has ends its direction
 * alone. */
static void cancelling(stub *s)
{
    int *x = device_ints(1000, s->host.rank), *y = device_ints(1000, -1);
    started op, other;
    int peer = 1 - s->host.rank;
    if (s->host.rank == 0) {
        message(s->world, &op, false, y, 1000, peer, 0); /* before the channel stands: nobody has it */
        s->backend->msg_cancel(s->world->group, &op.slot);
    }
    stub_barrier(s);
    if (s->host.rank == 0)
        message(s->world, &op, false, y, 1000, peer, 0);
    else
        message(s->world, &op, true, x, 1000, peer, 0);
    CHECK_EQUAL(stub_wait(s->world, &op.slot, NULL), KITH_OK);
    if (s->host.rank == 0) {
        expect_ints(y, 1000, 1);
        message(s->world, &op, false, y, 1000, peer, 0); /* the channel stands: NCCL has it */
        for (int64_t end = now_ms() + 100; now_ms() < end;)
            s->backend->progress(s->be);
        s->backend->msg_cancel(s->world->group, &op.slot);
        expect_ints(y, 1000, 1);
        CHECK_EQUAL(s->backend->recv_start(s->world->group, &op.msg, &op.slot), KITH_ERR_ABORTED);
    }
    /* the other direction, and collectives, are whole */
    if (s->host.rank == 0)
        message(s->world, &other, true, x, 1000, peer, 0);
    else
        message(s->world, &other, false, y, 1000, peer, 0);
    CHECK_EQUAL(stub_wait(s->world, &other.slot, NULL), KITH_OK);
    all_reduce(s->world, &other, x, x, 1000, NULL);
    CHECK_EQUAL(wait_coll(s->world, &other), KITH_OK);
    expect_ints(x, 1000, 1);
    device_free(x);
    device_free(y);
}

static void test_cancel(void **state)
{
    (void)state;
    assert_int_equal(run_on(2, cancelling), 0);
}

/* An error that NCCL has noticed while operations run: on its rank the peer failed, with NCCL's words; others
 * cancel. */
static void asynchronous(stub *s)
{
    stub_group *group = stub_group_make(s, everybody, s->host.size);
    int *x = device_ints(1000, 1);
    started op;
    kith_status status = KITH_OK;
    for (int i = 0; i < 3 && status == KITH_OK; i++) {
        all_reduce(group, &op, x, x, 1000, NULL);
        if (s->host.rank != 1 && i == 2) {
            for (int64_t end = now_ms() + 100; now_ms() < end;)
                s->backend->progress(s->be);
            s->backend->coll_cancel(group->group, &op.slot);
            break;
        }
        status = wait_coll(group, &op);
    }
    CHECK_EQUAL(status, s->host.rank == 1 ? KITH_ERR_PEER_FAILED : KITH_OK);
    if (s->host.rank == 1)
        CHECK(strstr(stub_error(), "injected: a peer's connection closed") != NULL);
    stub_barrier(s);
    stub_group_free(group);
    device_free(x);
}

static void test_asynchronous(void **state)
{
    (void)state;
    assert_int_equal(run_on(4, asynchronous), 0);
}

/* One rank's NCCL refuses: no rank has the group, and nobody waits for the deadline. */
static void refused(stub *s)
{
    stub_group group = *s->world;
    void *made = NULL;
    int64_t start = now_ms();
    group.index = 40;
    group.info.cookie = &group;
    group.info.id = 0x9999;
    kith_status status = s->backend->group_create(s->be, &group.info, &made);
    CHECK(status == KITH_ERR_NO_RESOURCE || status == KITH_ERR_PEER_FAILED);
    CHECK(made == NULL && now_ms() - start < 5000);
    if (s->host.rank == 2)
        CHECK(strstr(stub_error(), "injected: rank 2 cannot join") != NULL);
}

static void test_refused(void **state)
{
    (void)state;
    assert_int_equal(run_on(4, refused), 0);
}

/* NCCL 2.19 has neither all-to-all, nor registration, nor 8-bit floats. */
static void old_library(stub *s)
{
    kith_be_query question = { .kind = KITH_ALL_REDUCE, .dtype = KITH_F8E4M3, .op = KITH_SUM };
    kith_be_answer answer = { 0 };
    CHECK_EQUAL(s->backend->query(s->world->group, &question, &answer), KITH_OK);
    CHECK_EQUAL(answer.is_native, 0);
    question.kind = KITH_ALL_TO_ALL;
    CHECK_EQUAL(s->backend->query(s->world->group, &question, &answer), KITH_OK);
    CHECK_EQUAL(answer.is_native, 1);
    int *x = device_ints(1000, 1);
    CHECK_EQUAL(s->backend->mem_register(s->world->group, x, 4000), KITH_ERR_UNSUPPORTED);
    device_free(x);
    CHECK(stub_colls(s, true) > 100);
    abort_in_pieces(s, true);
}

static void test_old(void **state)
{
    (void)state;
    assert_int_equal(run_on(4, old_library), 0);
}

/* ---- libraries ---- */

static void expect_reason(const char *wanted)
{
    char reason[512] = "";
    assert_int_equal(backend->available(reason, sizeof reason), KITH_ERR_UNSUPPORTED);
    if (strstr(reason, wanted) == NULL)
        fail_msg("wanted \"%s\" in the reason, got: %s", wanted, reason);
}

/* Before any library was opened. */
static void test_reasons(void **state)
{
    char here[512];
    (void)state;
    snprintf(here, sizeof here, "%s", getenv("KITH_NCCL_LIBRARY"));
    setenv("KITH_NCCL_LIBRARY", "/nowhere/libnccl.so.2", 1);
    expect_reason("NCCL that KITH_NCCL_LIBRARY names cannot be opened: /nowhere/libnccl.so.2");
    setenv("KITH_NCCL_LIBRARY", getenv("KITH_CUDART_LIBRARY"), 1);
    expect_reason("this libnccl does not tell its version");
    setenv("KITH_NCCL_LIBRARY", here, 1);
    setenv("KITH_SIMGPU_NCCL_VERSION", "21805", 1);
    expect_reason("NCCL 2.18.5 is here, 2.19 or newer is needed");
    unsetenv("KITH_SIMGPU_NCCL_VERSION");
    assert_int_equal(backend->available(here, sizeof here), KITH_OK);
    if (strncmp(here, "NCCL 2.", 7) != 0)
        fail_msg("wanted NCCL's version, got: %s", here);
}

static void test_settings(void **state)
{
    static const char *const wrong[][2] = { { "nccl_max_ctas", "65" },    { "nccl_min_ctas", "x" },
                                            { "nccl_message_ctas", "0" }, { "nccl_message_ctas", "33" },
                                            { "nccl_p2p", "perhaps" },    { "nccl_shm", "no" },
                                            { "nccl_launch", "sometime" } };
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        kith_be_host host;
        void *be = NULL;
        stub_host(&host);
        host.device = 0;
        stub_set(wrong[i][0], wrong[i][1]);
        assert_int_equal(backend->open(&host, &be), KITH_ERR_INVALID_ARG);
        assert_non_null(strstr(stub_error(), wrong[i][0]));
        stub_set(wrong[i][0], strcmp(wrong[i][0], "nccl_launch") == 0  ? "nonblocking"
                              : strstr(wrong[i][0], "message") != NULL ? "4"
                              : strstr(wrong[i][0], "ctas") != NULL    ? "0"
                                                                       : "auto");
        host.device = -1;
        assert_int_equal(backend->open(&host, &be), KITH_ERR_UNSUPPORTED);
        assert_non_null(strstr(stub_error(), "has no device"));
    }
}

/* The first operation of a shape may wait for others, and is another thread's; the rest is launched by the call. */
static void launches(stub *s)
{
    bool is_blocking = strcmp(s->host.setting(s->host.cookie, "nccl_launch", "auto"), "nonblocking") != 0;
    int (*own_launches)(void);
    started op;
    if (!ask_simulation("sim_nccl_launches_here", &own_launches))
        return;
    int *x = device_ints(1000, 1);
    for (size_t count = 10; count <= 1000; count *= 10)
        for (int i = 0; i < 4; i++) {
            int before = own_launches();
            all_reduce(s->world, &op, x, x, count, NULL);
            CHECK_EQUAL(own_launches() - before, i > 0 || !is_blocking);
            CHECK_EQUAL(wait_coll(s->world, &op), KITH_OK);
        }
    for (int i = 0; i < 3; i++) {
        int before = own_launches();
        message(s->world, &op, s->host.rank == 0, x, 10 + (size_t)i, 1 - s->host.rank, 0);
        CHECK_EQUAL(stub_wait(s->world, &op.slot, NULL), KITH_OK);
        CHECK_EQUAL(own_launches() - before, i > 0 || !is_blocking);
    }
    device_free(x);
}

static void test_launches(void **state)
{
    (void)state;
    assert_int_equal(run_on(2, launches), 0);
    stub_set("nccl_launch", "blocking");
    assert_int_equal(run_on(2, launches), 0);
    stub_set("nccl_launch", "nonblocking");
    assert_int_equal(run_on(2, launches), 0);
    assert_int_equal(run_on(2, streams), 0);
    assert_int_equal(run_on(4, batches), 0);
    assert_int_equal(run_on(4, aborting), 0);
    assert_int_equal(run_on(4, aborting_together), 0);
    stub_set("nccl_launch", "auto");
}

/* Each argument is a run of its own: the simulator reads the failure to inject once, and a process that has asked for
 * devices has no children that may use them, as with CUDA. */
int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_colls),          cmocka_unit_test(test_premul),        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_streams),        cmocka_unit_test(test_messages),      cmocka_unit_test(test_batches),
        cmocka_unit_test(test_crossed_groups), cmocka_unit_test(test_abort),         cmocka_unit_test(test_cancel),
        cmocka_unit_test(test_registration),   cmocka_unit_test(test_launches),      cmocka_unit_test(test_aborts),
        cmocka_unit_test(test_ctas),           cmocka_unit_test(test_cancel_beside),
    };
    const struct CMUnitTest crowded[] = { cmocka_unit_test(test_crowded) };
    const struct CMUnitTest libraries[] = { cmocka_unit_test(test_reasons), cmocka_unit_test(test_settings) };
    const struct CMUnitTest old[] = { cmocka_unit_test(test_old) };
    const struct CMUnitTest injected_async[] = { cmocka_unit_test(test_asynchronous) };
    const struct CMUnitTest injected_init[] = { cmocka_unit_test(test_refused) };
    cmocka_set_test_filter(getenv("KITH_TEST_FILTER"));
    stub_device_begin = device_begin;
    stub_device_end = device_end;
    backend = stub_load("libkith_nccl.so");
    if (backend == NULL) {
        printf("skipped: nccl: the module is not there\n");
        return 77;
    }
    if (argc > 1 && strcmp(argv[1], "libraries") == 0)
        return cmocka_run_group_tests_name("nccl, libraries", libraries, NULL, NULL);
    if (argc > 1 && strcmp(argv[1], "old") == 0)
        return cmocka_run_group_tests_name("nccl, version 2.19", old, NULL, NULL);
    if (argc > 1 && strcmp(argv[1], "async") == 0)
        return cmocka_run_group_tests_name("nccl, asynchronous error", injected_async, NULL, NULL);
    if (argc > 1 && strcmp(argv[1], "crowded") == 0)
        return cmocka_run_group_tests_name("nccl, kernels behind each other", crowded, NULL, NULL);
    if (argc > 1 && strcmp(argv[1], "init") == 0)
        return cmocka_run_group_tests_name("nccl, one rank cannot join", injected_init, NULL, NULL);
    return cmocka_run_group_tests_name("nccl", tests, NULL, NULL);
}
