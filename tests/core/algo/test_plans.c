/* tests/core/algo/test_plans.c - plans as data, never run: messages of both sides fit, offsets beyond memory are right.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "core/algo/algo.h"
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

/* The same operation as all ranks see it. Addresses are numbers; nobody reads through them. */
typedef struct cast_plan {
    int size, root;
    size_t count;
    size_t *counts, *displs, *even, *even_displs;
    ki_order order;
    ki_reducer reducer;
    ki_op op;
    kith_be_coll coll;
    ki_algo_args args;
    ki_plan *plans; /* [size] */
} cast_plan;

static void cast_init(cast_plan *cast, int size, size_t count, kith_dtype dtype, int op)
{
    size_t n = (size_t)size, at = 0;
    memset(cast, 0, sizeof *cast);
    cast->size = size;
    cast->count = count;
    cast->root = size / 2;
    cast->counts = calloc(4 * n, sizeof(size_t));
    cast->displs = cast->counts + n;
    cast->even = cast->displs + n;
    cast->even_displs = cast->even + n;
    for (size_t r = 0; r < n; r++) {
        cast->counts[r] = r % 3 == 1 ? 0 : count / (r % 4 + 1) + r % 2;
        cast->displs[r] = at;
        at += cast->counts[r] + r % 2;
        cast->even[r] = count;
        cast->even_displs[r] = count * r;
    }
    cast->op = (ki_op){ .builtin = op, .is_commutative = true };
    assert_int_equal(ki_order_create(size, NULL, &cast->order), KITH_OK);
    ki_reducer_init(&cast->reducer, dtype, &cast->op, &cast->order);
    cast->plans = calloc(n, sizeof *cast->plans);
    cast->coll = (kith_be_coll){ .dtype = dtype, .op = op, .root = cast->root, .nbytes = kith_dtype_nbytes(dtype) };
}

static void cast_fini(cast_plan *cast)
{
    for (int r = 0; r < cast->size; r++)
        ki_plan_fini(&cast->plans[r]);
    free(cast->plans);
    free(cast->counts);
    ki_order_destroy(&cast->order);
}

static bool reduces(kith_coll_kind kind)
{
    return kind == KITH_ALL_REDUCE || kind == KITH_REDUCE || kind == KITH_REDUCE_SCATTER ||
           kind == KITH_REDUCE_SCATTER_V;
}

static void set_rank(cast_plan *cast, const ki_algo *algo, int rank)
{
    kith_be_coll *coll = &cast->coll;
    kith_coll_kind kind = algo->kind;
    bool is_pairwise = kind == KITH_ALL_TO_ALL_V;
    coll->kind = kind;
    coll->count = kind == KITH_GATHER_V || kind == KITH_SCATTER_V ? cast->counts[rank] : cast->count;
    coll->send_counts = coll->recv_counts = is_pairwise ? cast->even : cast->counts;
    coll->send_displs = coll->recv_displs = is_pairwise ? cast->even_displs : cast->displs;
    coll->send = (const void *)((uintptr_t)1 << 12);
    coll->recv = kind == KITH_BROADCAST ? (void *)((uintptr_t)1 << 12) : (void *)((uintptr_t)1 << 61);
    coll->reducer = reduces(kind) ? &cast->reducer.base : NULL;
    cast->args = (ki_algo_args){ .rank = rank,
                                 .size = cast->size,
                                 .coll = coll,
                                 .order = &cast->order,
                                 .reducer = reduces(kind) ? &cast->reducer : NULL,
                                 .radix = cast->args.radix,
                                 .segment_nbytes = cast->args.segment_nbytes };
}

static void emit_all(cast_plan *cast, const ki_algo *algo, bool has_check)
{
    for (int r = 0; r < cast->size; r++) {
        set_rank(cast, algo, r);
        kith_status status = ki_algo_emit(algo, &cast->args, &cast->plans[r]);
        if (status == KITH_OK && has_check)
            status = ki_plan_check(&cast->plans[r], &cast->args);
        if (status != KITH_OK)
            fail_msg("%s %s, p %d, rank %d, count %zu: %s", kith_coll_name(algo->kind), algo->name, cast->size, r,
                     cast->count, kith_error_detail());
    }
}

/* The next message of a kind to or from a peer, from step *at on; NULL at the end. */
static const ki_step *next_message(const ki_plan *plan, ki_step_kind kind, int peer, size_t *at)
{
    while (*at < plan->step_count) {
        const ki_step *step = &plan->steps[(*at)++];
        if (step->kind == kind && step->peer == peer)
            return step;
    }
    return NULL;
}

/* What i sends to j is what j receives from i: in number, order and size. */
static size_t compare_pair(const cast_plan *cast, const ki_algo *algo, int i, int j)
{
    size_t at_send = 0, at_recv = 0, count = 0;
    for (;; count++) {
        const ki_step *send = next_message(&cast->plans[i], KI_STEP_SEND, j, &at_send);
        const ki_step *recv = next_message(&cast->plans[j], KI_STEP_RECV, i, &at_recv);
        if (!send && !recv)
            return count;
        if (!send || !recv || send->count != recv->count)
            fail_msg("%s %s, p %d, count %zu: message %zu from %d to %d: %zu bytes sent, %zu expected",
                     kith_coll_name(algo->kind), algo->name, cast->size, cast->count, count, i, j,
                     send ? send->count : 0, recv ? recv->count : 0);
    }
}

/* stride: every so many ranks as senders; with 1, all messages must be found again. */
static void compare_pairs(const cast_plan *cast, const ki_algo *algo, int stride)
{
    size_t paired = 0, messages = 0;
    for (int i = 0; i < cast->size; i += stride) {
        messages += cast->plans[i].message_count;
        for (int j = 0; j < cast->size; j++)
            paired += compare_pair(cast, algo, i, j);
    }
    if (stride == 1)
        assert_int_equal(messages, 2 * paired);
}

static void for_all_algorithms(cast_plan *cast, bool has_check, int stride)
{
    for (int kind = 0; kind < KITH_COLL_COUNT; kind++) {
        size_t count;
        const ki_algo *const *list = ki_algo_list((kith_coll_kind)kind, &count);
        for (size_t a = 0; a < count; a++) {
            set_rank(cast, list[a], 0);
            if (!ki_algo_is_possible(list[a], &cast->args))
                continue;
            emit_all(cast, list[a], has_check);
            compare_pairs(cast, list[a], stride);
        }
    }
}

static void test_messages_pair_up(void **state)
{
    (void)state;
    for (int size = 1; size <= 40; size++) {
        size_t p = (size_t)size, counts[] = { 1, p - 1, 3 * p + 1 };
        for (size_t c = 0; c < 3; c++) {
            cast_plan cast;
            cast_init(&cast, size, counts[c], c == 1 ? KITH_BF16 : KITH_F32, c == 1 ? KITH_AVG : KITH_SUM);
            cast.args.radix = size % 5;
            cast.args.segment_nbytes = c == 2 ? 16 : 0;
            for_all_algorithms(&cast, size <= 17, 1);
            cast_fini(&cast);
        }
    }
}

static void test_hundreds_of_ranks(void **state)
{
    (void)state;
    cast_plan cast;
    cast_init(&cast, 200, 1001, KITH_F32, KITH_SUM);
    for_all_algorithms(&cast, false, 13);
    cast_fini(&cast);
}

static void test_counts_beyond_memory(void **state)
{
    (void)state;
    static const int sizes[] = { 1, 2, 3, 5, 8, 17, 33 };
    static const size_t counts[] = { ((size_t)1 << 31) + 5, (size_t)1 << 33, ((size_t)1 << 40) + 3 };
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        for (size_t c = 0; c < 3; c++) {
            cast_plan cast;
            cast_init(&cast, sizes[s], counts[c], c == 1 ? KITH_BF16 : KITH_INT64, KITH_AVG);
            cast.args.segment_nbytes = s % 2 ? 65536 : 0;
            for_all_algorithms(&cast, true, 1);
            cast_fini(&cast);
        }
    }
}

/* Every element of a huge all_reduce is written, and the last byte is the last one. */
static void test_last_byte(void **state)
{
    (void)state;
    size_t count = ((size_t)1 << 40) + 3, nbytes = 8 * count;
    size_t algo_count;
    const ki_algo *const *list = ki_algo_list(KITH_ALL_REDUCE, &algo_count);
    for (size_t a = 0; a < algo_count; a++) {
        cast_plan cast;
        cast_init(&cast, 7, count, KITH_INT64, KITH_SUM);
        emit_all(&cast, list[a], false);
        for (int r = 0; r < 7; r++) {
            size_t end = 0;
            for (size_t i = 0; i < cast.plans[r].step_count; i++) {
                const ki_step *step = &cast.plans[r].steps[i];
                bool is_bytes = step->kind == KI_STEP_RECV || step->kind == KI_STEP_COPY;
                if (step->kind != KI_STEP_SEND && step->kind != KI_STEP_WAIT && step->dst.buf == KI_BUF_RECV &&
                    step->dst.offset + step->count * (is_bytes ? 1 : 8) > end)
                    end = step->dst.offset + step->count * (is_bytes ? 1 : 8);
            }
            assert_int_equal(end, nbytes);
        }
        cast_fini(&cast);
    }
}

static void test_more_than_addressable(void **state)
{
    (void)state;
    for (int kind = 0; kind < KITH_BARRIER; kind++) {
        size_t count;
        const ki_algo *const *list = ki_algo_list((kith_coll_kind)kind, &count);
        for (size_t a = 0; a < count; a++) {
            cast_plan cast;
            cast_init(&cast, 4, SIZE_MAX / 8, KITH_F64, KITH_SUM);
            set_rank(&cast, list[a], cast.root);
            assert_int_equal(ki_algo_emit(list[a], &cast.args, &cast.plans[0]), KITH_ERR_INVALID_ARG);
            assert_non_null(strstr(kith_error_detail(), "more bytes than can be addressed"));
            cast_fini(&cast);
        }
    }
}

/* ---- the checker finds what it is for ---- */

typedef struct small_plan {
    kith_be_coll coll;
    ki_algo_args args;
    ki_plan plan;
} small_plan;

static void small_init(small_plan *small)
{
    memset(small, 0, sizeof *small);
    small->coll = (kith_be_coll){ .kind = KITH_BROADCAST,
                                  .count = 100,
                                  .nbytes = 1,
                                  .send = (void *)(uintptr_t)4096,
                                  .recv = (void *)(uintptr_t)4096 };
    small->args = (ki_algo_args){ .rank = 0, .size = 3, .coll = &small->coll };
}

static void expect_complaint(small_plan *small, const char *text)
{
    assert_int_equal(ki_plan_check(&small->plan, &small->args), KITH_ERR_INTERNAL);
    if (!strstr(kith_error_detail(), text))
        fail_msg("wanted \"%s\" in \"%s\"", text, kith_error_detail());
    ki_plan_fini(&small->plan);
    small_init(small);
}

static ki_ref at(ki_buf buf, size_t offset)
{
    return (ki_ref){ buf, offset };
}

static void test_checker(void **state)
{
    (void)state;
    small_plan small;
    small_init(&small);
    ki_plan_recv(&small.plan, 1, at(KI_BUF_RECV, 0), 10);
    expect_complaint(&small, "messages in flight");
    ki_plan_recv(&small.plan, 0, at(KI_BUF_RECV, 0), 10);
    expect_complaint(&small, "peer");
    ki_plan_recv(&small.plan, 1, at(KI_BUF_RECV, 91), 10);
    expect_complaint(&small, "beyond recv");
    ki_plan_send(&small.plan, 1, at(KI_BUF_TEMP, 0), 1);
    expect_complaint(&small, "beyond scratch");
    ki_plan_recv(&small.plan, 1, at(KI_BUF_RECV, 0), 10);
    ki_plan_send(&small.plan, 2, at(KI_BUF_SEND, 9), 10);
    expect_complaint(&small, "reads what is being received");
    ki_plan_send(&small.plan, 1, at(KI_BUF_SEND, 0), 10);
    ki_plan_recv(&small.plan, 2, at(KI_BUF_RECV, 5), 10);
    expect_complaint(&small, "writes what is being sent");
    ki_plan_recv(&small.plan, 1, at(KI_BUF_RECV, 0), 10);
    ki_plan_recv(&small.plan, 2, at(KI_BUF_RECV, 9), 10);
    expect_complaint(&small, "writes what is being received");
    ki_plan_copy(&small.plan, at(KI_BUF_SEND, 0), at(KI_BUF_RECV, 50), 10);
    expect_complaint(&small, "writes to send");
    ki_plan_copy(&small.plan, at(KI_BUF_RECV, 0), at(KI_BUF_RECV, 5), 10);
    expect_complaint(&small, "overlaps the result");
    ki_plan_load(&small.plan, at(KI_BUF_RECV, 0), at(KI_BUF_RECV, 5), 10);
    expect_complaint(&small, "without a reducer");
    ki_plan_recv(&small.plan, 1, at(KI_BUF_RECV, 0), 10);
    ki_plan_wait_all(&small.plan);
    ki_plan_copy(&small.plan, at(KI_BUF_RECV, 20), at(KI_BUF_RECV, 5), 10);
    assert_int_equal(ki_plan_check(&small.plan, &small.args), KITH_OK);
    ki_plan_fini(&small.plan);
}

static void test_registry(void **state)
{
    (void)state;
    for (int kind = 0; kind < KITH_COLL_COUNT; kind++) {
        size_t count;
        const ki_algo *const *list = ki_algo_list((kith_coll_kind)kind, &count);
        assert_true(count > 0);
        assert_null(list[0]->is_possible);
        assert_false(list[0]->needs_commutative);
        assert_true(list[0]->is_deterministic && !list[0]->needs_flat_order);
        for (size_t a = 0; a < count; a++) {
            assert_int_equal(list[a]->kind, kind);
            assert_ptr_equal(ki_algo_find((kith_coll_kind)kind, list[a]->name), list[a]);
            assert_true(list[a]->cost && list[a]->cost[0]);
        }
        assert_null(ki_algo_find((kith_coll_kind)kind, "nothing"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_messages_pair_up),
        cmocka_unit_test(test_hundreds_of_ranks),
        cmocka_unit_test(test_counts_beyond_memory),
        cmocka_unit_test(test_last_byte),
        cmocka_unit_test(test_more_than_addressable),
        cmocka_unit_test(test_checker),
        cmocka_unit_test(test_registry),
    };
    return cmocka_run_group_tests_name("plans", tests, NULL, NULL);
}
