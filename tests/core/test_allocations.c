/* tests/core/test_allocations.c - once an operation has run, running it again allocates nothing.
 *
 * The linker sends every allocation of the library's objects (and of this program) through the counters below. Ranks
 * are threads; each counts its own. Blocking collectives and messages, started ones, and persistent ones are run a
 * few times first, so that pools are filled, and then watched; natively, and as plans over messages.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "conformance/harness.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static _Thread_local long allocations;

void *__real_malloc(size_t nbytes);
void *__real_calloc(size_t count, size_t nbytes);
void *__real_realloc(void *ptr, size_t nbytes);
void *__real_aligned_alloc(size_t alignment, size_t nbytes);
int __real_posix_memalign(void **ptr, size_t alignment, size_t nbytes);
void *__wrap_malloc(size_t nbytes);
void *__wrap_calloc(size_t count, size_t nbytes);
void *__wrap_realloc(void *ptr, size_t nbytes);
void *__wrap_aligned_alloc(size_t alignment, size_t nbytes);
int __wrap_posix_memalign(void **ptr, size_t alignment, size_t nbytes);

void *__wrap_malloc(size_t nbytes)
{
    allocations++;
    return __real_malloc(nbytes);
}

void *__wrap_calloc(size_t count, size_t nbytes)
{
    allocations++;
    return __real_calloc(count, nbytes);
}

void *__wrap_realloc(void *ptr, size_t nbytes)
{
    allocations++;
    return __real_realloc(ptr, nbytes);
}

void *__wrap_aligned_alloc(size_t alignment, size_t nbytes)
{
    allocations++;
    return __real_aligned_alloc(alignment, nbytes);
}

int __wrap_posix_memalign(void **ptr, size_t alignment, size_t nbytes)
{
    allocations++;
    return __real_posix_memalign(ptr, alignment, nbytes);
}

enum { MOST = 200000, WARM = 3, WATCHED = 5 };

typedef struct work {
    kith_group *group;
    int rank, size;
    size_t count;
    float *send, *recv; /* [MOST * size] */
} work;

/* Every collective once, blocking or started. */
static void run_collectives(const work *w, bool is_started)
{
    size_t counts[8];
    for (int i = 0; i < w->size; i++)
        counts[i] = w->count;
    for (int kind = 0; kind < KITH_COLL_COUNT; kind++) {
        kith_coll_args args = KITH_COLL_ARGS_INIT;
        kith_request *request = NULL;
        args.kind = (kith_coll_kind)kind;
        args.send = w->send;
        args.recv = w->recv;
        args.count = w->count;
        args.send_counts = args.recv_counts = counts;
        args.dtype = KITH_F32;
        if (is_started) {
            REQUIRE_OK(kith_coll_start(w->group, &args, &request));
            REQUIRE_OK(kith_wait(&request));
        }
    }
    if (is_started)
        return;
    kith_group *g = w->group;
    size_t n = w->count;
    REQUIRE_OK(kith_all_reduce(g, w->send, w->recv, n, KITH_F32, KITH_SUM));
    REQUIRE_OK(kith_reduce_scatter(g, w->send, w->recv, n, KITH_BF16, KITH_AVG));
    REQUIRE_OK(kith_reduce_scatter_v(g, w->send, w->recv, counts, KITH_F32, KITH_MAX));
    REQUIRE_OK(kith_all_gather(g, w->send, w->recv, n, KITH_F32));
    REQUIRE_OK(kith_all_gather_v(g, w->send, w->recv, counts, NULL, KITH_F32));
    REQUIRE_OK(kith_broadcast(g, w->recv, n, KITH_F32, 1));
    REQUIRE_OK(kith_reduce(g, w->send, w->recv, n, KITH_INT32, KITH_SUM, 1));
    REQUIRE_OK(kith_gather(g, w->send, w->recv, n, KITH_F32, 0));
    REQUIRE_OK(kith_scatter(g, w->send, w->recv, n, KITH_F32, 0));
    REQUIRE_OK(kith_gather_v(g, w->send, n, w->recv, counts, NULL, KITH_F32, 0));
    REQUIRE_OK(kith_scatter_v(g, w->send, counts, NULL, w->recv, n, KITH_F32, 0));
    REQUIRE_OK(kith_all_to_all(g, w->send, w->recv, n, KITH_F32));
    REQUIRE_OK(kith_all_to_all_v(g, w->send, counts, NULL, w->recv, counts, NULL, KITH_F32));
    REQUIRE_OK(kith_barrier(g));
}

/* Receives first: a message that comes before its receive has to be kept somewhere. */
static void run_messages(const work *w)
{
    int to = (w->rank + 1) % w->size, from = (w->rank + w->size - 1) % w->size;
    kith_request *requests[2];
    REQUIRE_OK(kith_recv_start(w->group, w->recv, w->count, KITH_F32, from, 1, &requests[0]));
    REQUIRE_OK(kith_barrier(w->group));
    REQUIRE_OK(kith_send_start(w->group, w->send, w->count, KITH_F32, to, 1, &requests[1]));
    REQUIRE_OK(kith_wait_all(requests, 2));
    REQUIRE_OK(kith_recv_start(w->group, w->recv, w->count, KITH_F32, from, 2, &requests[0]));
    REQUIRE_OK(kith_barrier(w->group));
    REQUIRE_OK(kith_send(w->group, w->send, 1, KITH_F32, to, 2));
    REQUIRE_OK(kith_wait(&requests[0]));
}

static void watch(const work *w, const char *what, int form)
{
    for (int i = 0; i < WARM + WATCHED; i++) {
        long before = allocations;
        if (form == 2)
            run_messages(w);
        else
            run_collectives(w, form == 1);
        if (i >= WARM && allocations != before)
            rank_fail(__FILE__, __LINE__, "%s of %zu elements: round %d made %ld allocations", what, w->count, i,
                      allocations - before);
        REQUIRE_OK(kith_barrier(w->group)); /* the threads share the pools: none runs ahead with a request more */
    }
}

static void body(rank_info *info)
{
    static const size_t counts[] = { 1, 100, 5000, MOST };
    work w = { .group = info->world, .rank = info->rank, .size = info->size };
    size_t nbytes = (size_t)MOST * (size_t)info->size * sizeof(float);
    REQUIRE(info->size <= 8);
    w.send = (float *)calloc(1, nbytes);
    w.recv = (float *)calloc(1, nbytes);
    REQUIRE(w.send != NULL && w.recv != NULL && allocations >= 2); /* the counters count */
    /* as many requests as ever run at once, so that the pool, which all threads share, is filled */
    kith_request *many[64];
    for (int i = 0; i < 64; i++)
        REQUIRE_OK(kith_barrier_start(w.group, &many[i]));
    REQUIRE_OK(kith_wait_all(many, 64));
    for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
        w.count = counts[c];
        watch(&w, "blocking collectives", 0);
        watch(&w, "started collectives", 1);
        watch(&w, "messages", 2);
    }
    free(w.send);
    free(w.recv);
}

/* The backend's own memory, which keeps a message that comes before its receive: not counted. */
static void *allocate_uncounted(void *arg, size_t nbytes, size_t alignment)
{
    (void)arg;
    return __real_aligned_alloc(alignment, (nbytes + alignment - 1) / alignment * alignment);
}

static void free_uncounted(void *arg, void *ptr)
{
    (void)arg;
    free(ptr);
}

/* Blocking collectives that are plans over messages: the second call runs from what the first one left. */
static void body_plans(rank_info *info)
{
    static const size_t counts[] = { 1, 300, 20000 };
    static _Thread_local float send[2 * 20000], recv[2 * 20000];
    const kith_allocator uncounted = { allocate_uncounted, free_uncounted, NULL };
    kith_init_options options = KITH_INIT_OPTIONS_INIT;
    kith_ctx *ctx = NULL;
    options.allocator = &uncounted;
    REQUIRE_OK(join_ranks(info, &options, &ctx));
    kith_group *g = kith_world(ctx);
    for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++)
        for (int i = 0; i < 1 + WATCHED; i++) {
            long before = allocations;
            REQUIRE_OK(kith_all_reduce(g, send, recv, counts[c], KITH_F32, KITH_SUM));
            REQUIRE_OK(kith_all_reduce(g, recv, recv, counts[c], KITH_BF16, KITH_MAX));
            REQUIRE_OK(kith_reduce_scatter(g, send, recv, counts[c], KITH_F32, KITH_SUM));
            REQUIRE_OK(kith_all_gather(g, send, recv, counts[c], KITH_F32));
            REQUIRE_OK(kith_all_to_all(g, send, recv, counts[c], KITH_F32));
            if (i > 0 && allocations != before)
                rank_fail(__FILE__, __LINE__, "plans of %zu elements: call %d made %ld allocations", counts[c], i + 1,
                          allocations - before);
        }
    REQUIRE_OK(kith_finalize(ctx));
}

/* algorithm NULL: shm's own collectives. */
static void run(int size, rank_function function, const char *algorithm)
{
    const kith_setting setting = { "algo", algorithm };
    const run_options options = { .mode = LAUNCH_THREADS,
                                  .size = size,
                                  .settings = &setting,
                                  .setting_count = algorithm != NULL,
                                  .joins_itself = function == body_plans,
                                  .timeout_s = 50 };
    assert_int_equal(run_ranks(&options, function, NULL), 0);
}

static void test_two_ranks(void **state)
{
    (void)state;
    run(2, body, NULL);
}

static void test_four_ranks(void **state)
{
    (void)state;
    run(4, body, NULL);
}

static void test_plans(void **state)
{
    (void)state;
    run(2, body_plans, "linear");
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_two_ranks), cmocka_unit_test(test_four_ranks),
                                        cmocka_unit_test(test_plans) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
