/* tests/core/test_coll_arguments.c - every rule of kith/coll.h that makes an argument invalid.
 *
 * Alone, and on three ranks that are threads. A refusal is local and sends nothing: all ranks make the same wrong calls
 * without meeting, and afterwards the group is still in step. What is allowed at the edge of a rule is tried too.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "conformance/harness.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum { COUNT = 8, RANKS = 3, ROOM = 1024 };

typedef struct call {
    kith_group *group;
    int rank, size;
    float *a, *b; /* [ROOM] each, far from each other */
    size_t counts[RANKS], displs[RANKS];
} call;

static kith_coll_args args_of(const call *c, kith_coll_kind kind)
{
    kith_coll_args args = KITH_COLL_ARGS_INIT;
    args.kind = kind;
    args.send = c->a;
    args.recv = c->b;
    args.count = COUNT;
    args.send_counts = args.recv_counts = c->counts;
    args.dtype = KITH_F32;
    return args;
}

/* Refused by the starting and the persistent form alike; the request is not written. */
static void expect_refused(const call *c, const kith_coll_args *args, const char *part, int line)
{
    kith_request *const untouched = (kith_request *)(uintptr_t)64;
    kith_request *request = untouched;
    for (int form = 0; form < 2; form++) {
        kith_status status =
            form == 0 ? kith_coll_start(c->group, args, &request) : kith_coll_init(c->group, args, &request);
        if (status != KITH_ERR_INVALID_ARG || request != untouched)
            rank_fail(__FILE__, line, "%s with %s: got %s", kith_coll_name(args->kind), part, kith_status_name(status));
        require_text(__FILE__, line, kith_error_detail(), part);
        require_text(__FILE__, line, kith_error_detail(), kith_coll_name(args->kind));
    }
}

#define REFUSED(c, args, part) expect_refused(c, args, part, __LINE__)

static void expect_allowed(const call *c, const kith_coll_args *args, int line)
{
    kith_request *request = NULL;
    kith_status status = kith_coll_start(c->group, args, &request);
    if (status == KITH_OK)
        status = kith_wait(&request);
    if (status != KITH_OK)
        rank_fail(__FILE__, line, "%s: got %s: %s", kith_coll_name(args->kind), kith_status_name(status),
                  kith_error_detail());
}

#define ALLOWED(c, args) expect_allowed(c, args, __LINE__)

static bool reduces(kith_coll_kind kind)
{
    return kind == KITH_ALL_REDUCE || kind == KITH_REDUCE_SCATTER || kind == KITH_REDUCE_SCATTER_V ||
           kind == KITH_REDUCE;
}

static bool has_root(kith_coll_kind kind)
{
    return kind == KITH_BROADCAST || kind == KITH_REDUCE || kind == KITH_GATHER || kind == KITH_SCATTER ||
           kind == KITH_GATHER_V || kind == KITH_SCATTER_V;
}

static bool has_blocks(kith_coll_kind kind) /* counts by array */
{
    return kind == KITH_REDUCE_SCATTER_V || kind == KITH_ALL_GATHER_V || kind == KITH_GATHER_V ||
           kind == KITH_SCATTER_V || kind == KITH_ALL_TO_ALL_V;
}

/* ---- the call itself ---- */

static void test_call(const call *c)
{
    kith_coll_args args = args_of(c, KITH_ALL_REDUCE);
    kith_request *request = NULL;
    REQUIRE_STATUS(kith_coll_start(NULL, &args, &request), KITH_ERR_INVALID_ARG);
    REQUIRE_STATUS(kith_coll_init(NULL, &args, &request), KITH_ERR_INVALID_ARG);
    REQUIRE_STATUS(kith_coll_start(c->group, NULL, &request), KITH_ERR_INVALID_ARG);
    REQUIRE_STATUS(kith_coll_start(c->group, &args, NULL), KITH_ERR_INVALID_ARG);
    REQUIRE_STATUS(kith_coll_init(c->group, &args, NULL), KITH_ERR_INVALID_ARG);
    REQUIRE_STATUS(kith_all_reduce_start(c->group, c->a, c->b, 1, KITH_F32, KITH_SUM, NULL), KITH_ERR_INVALID_ARG);
    REQUIRE_STATUS(kith_all_reduce(NULL, c->a, c->b, 1, KITH_F32, KITH_SUM), KITH_ERR_INVALID_ARG);
    REQUIRE_STATUS(kith_barrier(NULL), KITH_ERR_INVALID_ARG);
    REQUIRE_STATUS(kith_all_reduce_scalar(c->group, NULL, KITH_SUM), KITH_ERR_INVALID_ARG);
    for (int kind = -1; kind <= KITH_COLL_COUNT; kind += KITH_COLL_COUNT + 1) {
        args.kind = (kith_coll_kind)kind;
        REQUIRE_STATUS(kith_coll_start(c->group, &args, &request), KITH_ERR_INVALID_ARG);
        REQUIRE_STATUS(kith_coll_query(c->group, (kith_coll_kind)kind, KITH_F32, KITH_SUM), KITH_ERR_INVALID_ARG);
        REQUIRE(strcmp(kith_coll_name((kith_coll_kind)kind), "unknown collective") == 0);
    }
    args.kind = KITH_ALL_REDUCE;
    for (size_t nbytes = 0; nbytes <= sizeof args + 8; nbytes += 8) {
        args.struct_size = nbytes;
        if (nbytes != sizeof args)
            REQUIRE_STATUS(kith_coll_start(c->group, &args, &request), KITH_ERR_INVALID_ARG);
    }
    REQUIRE(request == NULL);
}

/* ---- dtype, operator, root ---- */

static void test_numbers(const call *c)
{
    for (int kind = 0; kind < KITH_BARRIER; kind++) {
        kith_coll_args args = args_of(c, (kith_coll_kind)kind);
        args.dtype = (kith_dtype)KITH_DTYPE_COUNT;
        REFUSED(c, &args, "14 is no dtype");
        args.dtype = (kith_dtype)-1;
        REFUSED(c, &args, "is no dtype");
        args.dtype = KITH_F32;
        if (has_root((kith_coll_kind)kind)) {
            args.root = -1;
            REFUSED(c, &args, "root -1 is outside");
            args.root = c->size;
            REFUSED(c, &args, "is outside the group");
            args.root = 0;
        }
        if (!reduces((kith_coll_kind)kind))
            continue;
        static const kith_op wrong[] = { -1, KITH_OP_BUILTIN_COUNT, 999, 1000, 1 << 30 };
        for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
            args.op = wrong[i];
            REFUSED(c, &args, "is no operator");
        }
        for (args.op = KITH_BAND; args.op <= KITH_BXOR; args.op++) {
            kith_request *request = NULL;
            REQUIRE_STATUS(kith_coll_start(c->group, &args, &request), KITH_ERR_INVALID_ARG);
            REQUIRE_DETAIL(kith_op_name(NULL, args.op));
            REQUIRE_DETAIL("f32");
        }
    }
}

/* An operator that was destroyed, and a scalar that the dtype does not hold. */
static void test_made_operators(const call *c)
{
    kith_op half = 0, gone = 0;
    kith_ctx *ctx = kith_group_ctx(c->group);
    kith_coll_args args = args_of(c, KITH_ALL_REDUCE);
    REQUIRE_OK(kith_op_create_premul_sum(ctx, 0.5, &half));
    REQUIRE_OK(kith_op_create_premul_sum(ctx, 1, &gone));
    REQUIRE_OK(kith_op_destroy(ctx, gone));
    REQUIRE_STATUS(kith_op_destroy(ctx, gone), KITH_ERR_INVALID_ARG);
    args.op = gone;
    REFUSED(c, &args, "is no operator");
    args.op = half;
    ALLOWED(c, &args);
    args.dtype = KITH_INT32;
    kith_request *request = NULL;
    REQUIRE_STATUS(kith_coll_start(c->group, &args, &request), KITH_ERR_INVALID_ARG);
    REQUIRE_DETAIL("whole scalar");
    REQUIRE_OK(kith_op_destroy(ctx, half));
}

/* ---- NULL ---- */

static void test_null(const call *c)
{
    for (int kind = 0; kind < KITH_BARRIER; kind++) {
        bool is_rooted = has_root((kith_coll_kind)kind), is_root = c->rank == 0;
        kith_coll_args args = args_of(c, (kith_coll_kind)kind);
        bool needs_send = kind != KITH_BROADCAST && (is_root || (kind != KITH_SCATTER && kind != KITH_SCATTER_V));
        bool needs_recv =
            !is_rooted || is_root || kind == KITH_BROADCAST || kind == KITH_SCATTER || kind == KITH_SCATTER_V;
        args.send = NULL;
        if (needs_send)
            REFUSED(c, &args, "NULL");
        args.send = c->a;
        args.recv = NULL;
        if (needs_recv)
            REFUSED(c, &args, "NULL");
        args.recv = c->b;
        bool needs_counts = has_blocks((kith_coll_kind)kind) && (!is_rooted || is_root);
        args.recv_counts = NULL;
        if (needs_counts && kind != KITH_SCATTER_V)
            REFUSED(c, &args, "counts");
        args.recv_counts = c->counts;
        args.send_counts = NULL;
        if (needs_counts && (kind == KITH_SCATTER_V || kind == KITH_ALL_TO_ALL_V))
            REFUSED(c, &args, "counts");
        args.send_counts = c->counts;
        /* what this rank does not use may be missing */
        if (!needs_send)
            args.send = NULL;
        if (!needs_recv)
            args.recv = NULL;
        if (!needs_counts)
            args.send_counts = args.recv_counts = NULL;
        ALLOWED(c, &args);
    }
}

/* Nothing to move: no buffer is needed, wherever its blocks are said to be. */
static void test_nothing(const call *c)
{
    static const size_t none[RANKS], far[RANKS] = { 7, SIZE_MAX / 64, 1000000 };
    for (int kind = 0; kind < KITH_BARRIER; kind++) {
        for (int with_displs = 0; with_displs < 2; with_displs++) {
            kith_coll_args args = args_of(c, (kith_coll_kind)kind);
            args.send = NULL;
            args.recv = NULL;
            args.count = 0;
            args.send_counts = args.recv_counts = none;
            args.send_displs = args.recv_displs = with_displs ? far : NULL;
            ALLOWED(c, &args);
        }
    }
}

/* ---- sizes ---- */

static void test_overflow(const call *c)
{
    for (int kind = 0; kind < KITH_BARRIER; kind++) {
        kith_coll_args args = args_of(c, (kith_coll_kind)kind);
        size_t huge[RANKS] = { COUNT, COUNT, COUNT }, apart[RANKS] = { 0, COUNT, 2 * COUNT };
        if (!has_blocks((kith_coll_kind)kind)) {
            static const size_t counts[] = { SIZE_MAX, SIZE_MAX / 2, SIZE_MAX / 4 + 1, SIZE_MAX / 8 + 1 };
            for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
                args.count = counts[i];
                REFUSED(c, &args, "64 bits");
            }
            continue;
        }
        if (has_root((kith_coll_kind)kind) && c->rank != 0)
            continue;
        args.send_counts = args.recv_counts = huge;
        huge[c->size - 1] = SIZE_MAX; /* the sum, or the bytes */
        if (c->size - 1 == c->rank)
            args.count = SIZE_MAX;
        REFUSED(c, &args, "64 bits");
        huge[c->size - 1] = SIZE_MAX / 4;
        if (c->size - 1 == c->rank)
            args.count = SIZE_MAX / 4;
        REFUSED(c, &args, "64 bits");
        huge[c->size - 1] = args.count = COUNT;
        apart[c->size - 1] = SIZE_MAX - 2; /* the end of a block */
        args.send_displs = args.recv_displs = apart;
        if (kind != KITH_REDUCE_SCATTER_V) /* has no displacements */
            REFUSED(c, &args, "64 bits");
        apart[c->size - 1] = SIZE_MAX / 4;
        if (kind != KITH_REDUCE_SCATTER_V)
            REFUSED(c, &args, "64 bits");
    }
}

/* ---- counts that contradict each other on one rank ---- */

static void test_own_count(const call *c)
{
    kith_coll_args args = args_of(c, KITH_GATHER_V);
    args.root = c->rank;
    args.count = COUNT + 1;
    REFUSED(c, &args, "recv_counts");
    args.kind = KITH_SCATTER_V;
    REFUSED(c, &args, "send_counts");
    size_t other[RANKS] = { COUNT, COUNT, COUNT };
    other[c->rank] = COUNT - 1;
    args = args_of(c, KITH_ALL_TO_ALL_V);
    args.recv_counts = other;
    REFUSED(c, &args, "sends itself 8 elements but expects 7");
}

/* ---- overlap ---- */

static void refuse_at(const call *c, kith_coll_kind kind, const float *send, float *recv)
{
    kith_coll_args args = args_of(c, kind);
    args.send = send;
    args.recv = recv;
    args.root = has_root(kind) ? c->rank : 0; /* the root is the one that has both buffers */
    REFUSED(c, &args, "overlap");
}

static void test_overlap(const call *c)
{
    float *a = c->a;
    size_t own = (size_t)c->rank * COUNT, whole = (size_t)c->size * COUNT;
    static const kith_coll_kind vectors[] = { KITH_ALL_REDUCE, KITH_REDUCE };
    for (size_t i = 0; i < 2; i++) {
        refuse_at(c, vectors[i], a, a + 1);
        refuse_at(c, vectors[i], a + COUNT - 1, a);
        refuse_at(c, vectors[i], a, (float *)(void *)((char *)a + 1));
    }
    static const kith_coll_kind gathers[] = { KITH_ALL_GATHER, KITH_GATHER, KITH_ALL_GATHER_V, KITH_GATHER_V };
    for (size_t i = 0; i < 4; i++) {
        refuse_at(c, gathers[i], a + own + 1, a);
        refuse_at(c, gathers[i], a + whole - 1, a);
        if (c->size > 1)
            refuse_at(c, gathers[i], a + (own + COUNT) % whole, a); /* somebody else's block */
    }
    static const kith_coll_kind scatters[] = { KITH_REDUCE_SCATTER, KITH_SCATTER, KITH_REDUCE_SCATTER_V,
                                               KITH_SCATTER_V };
    for (size_t i = 0; i < 4; i++) {
        refuse_at(c, scatters[i], a, a + own + 1);
        refuse_at(c, scatters[i], a, a + whole - 1);
        if (c->size > 2 && c->rank == 0) /* block 1 is neither the own one nor the start */
            refuse_at(c, scatters[i], a, a + COUNT);
    }
    refuse_at(c, KITH_ALL_TO_ALL, a, a + 1);
    refuse_at(c, KITH_ALL_TO_ALL, a + whole - 1, a);
    refuse_at(c, KITH_ALL_TO_ALL_V, a, a); /* never in place */
    refuse_at(c, KITH_ALL_TO_ALL_V, a, a + whole - 1);
    if (c->rank != 0 || c->size == 1) { /* scatter: the start is not the own block */
        kith_coll_args args = args_of(c, KITH_SCATTER);
        args.root = c->rank;
        args.recv = a;
        if (c->rank != 0)
            REFUSED(c, &args, "overlap");
    }
}

/* Side by side, and in place, is fine. */
static void test_no_overlap(const call *c)
{
    size_t own = (size_t)c->rank * COUNT, whole = (size_t)c->size * COUNT;
    for (int kind = 0; kind < KITH_BARRIER; kind++) {
        kith_coll_args args = args_of(c, (kith_coll_kind)kind);
        args.recv = c->a + whole;
        ALLOWED(c, &args);
        args.recv = c->a;
        args.send = c->a + whole;
        ALLOWED(c, &args);
        if (kind == KITH_ALL_TO_ALL_V)
            continue;
        bool is_scatter = kind == KITH_REDUCE_SCATTER || kind == KITH_REDUCE_SCATTER_V || kind == KITH_SCATTER ||
                          kind == KITH_SCATTER_V;
        bool is_gather =
            kind == KITH_ALL_GATHER || kind == KITH_ALL_GATHER_V || kind == KITH_GATHER || kind == KITH_GATHER_V;
        args.send = is_gather ? c->a + own : c->a;
        args.recv = is_scatter ? c->a + own : c->a;
        ALLOWED(c, &args);
        args.recv = c->a;
        if (kind == KITH_REDUCE_SCATTER || kind == KITH_REDUCE_SCATTER_V)
            ALLOWED(c, &args); /* the start, too */
    }
}

/* Receive blocks that share elements, also where one lies inside another or begins elsewhere in the list. */
static void test_blocks(const call *c)
{
    static const kith_coll_kind kinds[] = { KITH_ALL_GATHER_V, KITH_GATHER_V, KITH_ALL_TO_ALL_V };
    if (c->size == 1)
        return;
    for (size_t i = 0; i < 3; i++) {
        size_t displs[][RANKS] = {
            { 0, COUNT - 1, 2 * COUNT }, { 2 * COUNT, COUNT, COUNT }, { 5, 100, 5 }, { COUNT, 0, COUNT / 2 }
        };
        for (size_t d = 0; d < sizeof displs / sizeof displs[0]; d++) {
            kith_coll_args args = args_of(c, kinds[i]);
            args.root = kinds[i] == KITH_GATHER_V ? c->rank : 0;
            args.recv_displs = displs[d];
            REFUSED(c, &args, "overlap");
        }
        /* empty blocks share nothing; send blocks may share */
        kith_coll_args args = args_of(c, kinds[i]);
        size_t counts[RANKS] = { COUNT, 0, COUNT }, inside[RANKS] = { 0, COUNT / 2, COUNT };
        args.recv_displs = inside;
        if (kinds[i] == KITH_ALL_TO_ALL_V)
            continue;
        args.recv_counts = counts;
        args.count = c->rank == 1 ? 0 : COUNT;
        ALLOWED(c, &args);
    }
    static const size_t same[RANKS];
    kith_coll_args args = args_of(c, KITH_ALL_TO_ALL_V);
    args.send_displs = same;
    ALLOWED(c, &args);
    args.kind = KITH_SCATTER_V;
    ALLOWED(c, &args);
}

/* ---- the walk ---- */

static void all_rules(rank_info *info)
{
    call c = { .group = info->world, .rank = info->rank, .size = info->size };
    c.a = (float *)calloc(ROOM, sizeof(float));
    c.b = (float *)calloc(ROOM, sizeof(float));
    REQUIRE(c.a != NULL && c.b != NULL && info->size <= RANKS);
    for (int i = 0; i < RANKS; i++)
        c.counts[i] = COUNT;
    test_call(&c);
    test_numbers(&c);
    test_made_operators(&c);
    test_null(&c);
    test_nothing(&c);
    test_overflow(&c);
    test_own_count(&c);
    test_overlap(&c);
    test_no_overlap(&c);
    test_blocks(&c);
    int x = info->rank;
    REQUIRE_OK(kith_all_reduce(info->world, &x, &x, 1, KITH_INT32, KITH_SUM));
    REQUIRE(x == info->size * (info->size - 1) / 2);
    free(c.a);
    free(c.b);
}

static void run(int size, const char *algorithm)
{
    const kith_setting forced = { "algo", algorithm };
    const run_options options = {
        .mode = LAUNCH_THREADS, .size = size, .settings = &forced, .setting_count = 1, .timeout_s = 50
    };
    assert_int_equal(run_ranks(&options, all_rules, NULL), 0);
}

static void test_alone(void **state)
{
    (void)state;
    run(1, "");
}

static void test_threads(void **state)
{
    (void)state;
    run(RANKS, "");
}

/* The rules are the core's, whoever runs the operation. */
static void test_threads_with_algorithms(void **state)
{
    (void)state;
    run(RANKS, "linear");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_alone),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_threads_with_algorithms),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
