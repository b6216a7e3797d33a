/* tests/conformance/suite_async.c - many groups at once: requests that interleave, waited for in any order.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "harness.h"
#include "memory.h"

#include <string.h>

#define WIDTH 48

typedef struct job {
    kith_request *request;
    long send[WIDTH], recv[WIDTH * 8];
    int kind; /* 0 all_reduce on tp, 1 reduce_scatter on dp, 2 all_gather on world */
    long step;
} job;

static long input(int rank, long step, int i)
{
    return rank * 1000 + step * 7 + i;
}

static void start(const rank_info *info, const kith_mesh *mesh, job *j, long step)
{
    kith_group *group = j->kind == 0   ? kith_mesh_group(mesh, "tp")
                        : j->kind == 1 ? kith_mesh_group(mesh, "dp")
                                       : info->world;
    size_t part = WIDTH / (size_t)kith_group_size(group);
    j->step = step;
    for (int i = 0; i < WIDTH; i++)
        j->send[i] = input(info->rank, step, i);
    if (j->kind == 0)
        REQUIRE_OK(kith_all_reduce_start(group, j->send, j->recv, WIDTH, KITH_INT64, KITH_SUM, &j->request));
    else if (j->kind == 1)
        REQUIRE_OK(kith_reduce_scatter_start(group, j->send, j->recv, part, KITH_INT64, KITH_SUM, &j->request));
    else
        REQUIRE_OK(kith_all_gather_start(group, j->send, j->recv, 4, KITH_INT64, &j->request));
}

static void finish(const rank_info *info, const kith_mesh *mesh, job *j)
{
    REQUIRE_OK(kith_wait(&j->request));
    kith_group *group = j->kind == 0   ? kith_mesh_group(mesh, "tp")
                        : j->kind == 1 ? kith_mesh_group(mesh, "dp")
                                       : info->world;
    int size = kith_group_size(group), part = WIDTH / size;
    int first = j->kind == 1 ? kith_group_rank(group) * part : 0, count = j->kind == 0 ? WIDTH : part;
    for (int i = 0; j->kind < 2 && i < count; i++) {
        long wanted = 0;
        for (int r = 0; r < size; r++)
            wanted += input(kith_group_world_rank(group, r), j->step, first + i);
        if (j->recv[i] != wanted)
            rank_fail(__FILE__, __LINE__, "kind %d step %ld element %d: wanted %ld, got %ld", j->kind, j->step, i,
                      wanted, j->recv[i]);
    }
    for (int r = 0; j->kind == 2 && r < size; r++)
        for (int i = 0; i < 4; i++)
            REQUIRE(j->recv[r * 4 + i] == input(r, j->step, i));
}

/* Rounds of interleaved operations on rows, columns and the world, each round waited for in a random order of its
 * own. */
static void test_interleaved(const rank_info *info)
{
    enum { JOBS = 24 };
    int rows = info->size % 2 == 0 ? 2 : 1;
    const kith_mesh_axis axes[] = { { "dp", rows }, { "tp", 0 } };
    kith_mesh *mesh = NULL;
    REQUIRE_OK(kith_mesh_create(info->world, axes, 2, NULL, &mesh));
    job *jobs = (job *)calloc(JOBS, sizeof *jobs);
    unsigned state = 7u * (unsigned)info->rank + 1;
    int rounds = 1000 / JOBS + 1;
    for (int round = 0; round < rounds; round++) {
        for (int i = 0; i < JOBS; i++) {
            jobs[i].kind = i % 3;
            start(info, mesh, &jobs[i], round * JOBS + i);
        }
        for (int left = JOBS; left > 0; left--) {
            state = state * 1103515245u + 12345u;
            int i = (int)(state >> 10) % JOBS;
            while (jobs[i].request == NULL)
                i = (i + 1) % JOBS;
            finish(info, mesh, &jobs[i]);
        }
    }
    free(jobs);
    REQUIRE_OK(kith_mesh_destroy(mesh));
}

/* Two groups of the same ranks; odd ranks post in the other order. */
static void test_posting_order(const rank_info *info)
{
    enum { COUNT = 1 << 18 };
    kith_group *other = NULL;
    REQUIRE_OK(kith_group_dup(info->world, NULL, &other));
    int *a = (int *)memory_alloc(COUNT * sizeof *a), *b = (int *)memory_alloc(COUNT * sizeof *b);
    for (int i = 0; i < COUNT; i++) {
        a[i] = i + info->rank;
        b[i] = 2 * i + info->rank;
    }
    bool is_odd = info->rank % 2 == 1;
    kith_request *first = NULL, *second = NULL;
    memory_push();
    int *x = (int *)memory_at(is_odd ? b : a), *y = (int *)memory_at(is_odd ? a : b);
    REQUIRE_OK(kith_all_reduce_start(is_odd ? other : info->world, x, x, COUNT, KITH_INT32, KITH_SUM, &first));
    REQUIRE_OK(kith_all_reduce_start(is_odd ? info->world : other, y, y, COUNT, KITH_INT32, KITH_SUM, &second));
    REQUIRE_OK(kith_wait(&first));
    REQUIRE_OK(kith_wait(&second));
    memory_pull();
    int n = info->size, ranks = n * (n - 1) / 2;
    for (int i = 0; i < COUNT; i++)
        REQUIRE(a[i] == n * i + ranks && b[i] == 2 * n * i + ranks);
    memory_free(a);
    memory_free(b);
    REQUIRE_OK(kith_group_destroy(other));
}

/* Values follow the iteration: a result that arrives late or early shows. */
static void test_reuse(const rank_info *info)
{
    int steps = info->argument != NULL ? atoi(info->argument) : 3000;
    int *x = (int *)memory_alloc(sizeof *x), *y = (int *)memory_alloc(sizeof *y);
    for (int i = 0; i < steps; i++) {
        *x = i, *y = info->rank == i % info->size ? i : -1;
        memory_push();
        REQUIRE_OK(kith_all_reduce(info->world, memory_at(x), memory_at(x), 1, KITH_INT32, KITH_SUM));
        REQUIRE_OK(kith_broadcast(info->world, memory_at(y), 1, KITH_INT32, i % info->size));
        memory_pull();
        REQUIRE(*x == i * info->size);
        REQUIRE(*y == i);
    }
    memory_free(x);
    memory_free(y);
}

static void test_polling(const rank_info *info)
{
    long *x = (long *)memory_alloc(sizeof *x), *y = (long *)memory_alloc(sizeof *y);
    kith_request *request = NULL;
    int is_done = 0;
    *x = 1, *y = 0;
    memory_push();
    REQUIRE_OK(kith_all_reduce_start(info->world, memory_at(x), memory_at(y), 1, KITH_INT64, KITH_SUM, &request));
    while (!is_done)
        REQUIRE_OK(kith_test(&request, &is_done));
    memory_pull();
    REQUIRE(*y == info->size && request == NULL);
    REQUIRE_OK(kith_test(&request, &is_done));
    REQUIRE(is_done == 1);
    memory_free(x);
    memory_free(y);
}

/* An operator by the user that is associative and not commutative: composition of affine maps modulo 2^32. */
static void compose(const void *left, void *inout, size_t count, kith_dtype dtype, void *arg)
{
    const unsigned *f = (const unsigned *)left;
    unsigned *g = (unsigned *)inout;
    (void)dtype, (void)arg;
    for (size_t i = 0; i < count;
         i++) { /* the element packs a (high half) and b (low half) of x -> a x + b, modulo 2^16 */
        unsigned a = (f[i] >> 16) * (g[i] >> 16) & 0xffff,
                 b = ((f[i] >> 16) * (g[i] & 0xffff) + (f[i] & 0xffff)) & 0xffff;
        g[i] = a << 16 | b;
    }
}

static void test_user_op(const rank_info *info)
{
    kith_op op = 0;
    REQUIRE_OK(kith_op_create_user(info->ctx, "compose", compose, 0, NULL, &op));
    for (size_t count = 1; count <= 20000; count = count * 13 + 6) {
        unsigned *x = (unsigned *)malloc(count * sizeof *x);
        for (size_t i = 0; i < count; i++)
            x[i] = (unsigned)(2 * (info->rank + 1) + 1) << 16 | (unsigned)(info->rank * 5 + (int)(i % 100));
        REQUIRE_OK(kith_all_reduce(info->world, x, x, count, KITH_UINT32, op));
        for (size_t i = 0; i < count; i++) {
            unsigned wanted = 3u << 16 | (unsigned)(i % 100);
            for (int r = 1; r < info->size; r++) {
                unsigned next = (unsigned)(2 * (r + 1) + 1) << 16 | (unsigned)(r * 5 + (int)(i % 100));
                compose(&wanted, &next, 1, KITH_UINT32, NULL);
                wanted = next;
            }
            REQUIRE(x[i] == wanted);
        }
        free(x);
    }
    REQUIRE_OK(kith_op_destroy(info->ctx, op));
    REQUIRE_STATUS(kith_op_destroy(info->ctx, op), KITH_ERR_INVALID_ARG);
    double scaled = 3;
    REQUIRE_OK(kith_op_create_premul_sum(info->ctx, 0.5, &op));
    REQUIRE_OK(kith_all_reduce(info->world, &scaled, &scaled, 1, KITH_F64, op));
    REQUIRE(scaled == 1.5 * info->size);
    int whole = 1;
    REQUIRE_STATUS(kith_all_reduce(info->world, &whole, &whole, 1, KITH_INT32, op), KITH_ERR_INVALID_ARG);
    REQUIRE_OK(kith_op_destroy(info->ctx, op));
}

void suite_async(rank_info *info)
{
    memory_begin(info);
    test_interleaved(info);
    test_posting_order(info);
    test_reuse(info);
    test_polling(info);
    test_user_op(info);
    memory_end();
}
