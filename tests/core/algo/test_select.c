/* tests/core/algo/test_select.c - the table of rules: what is chosen, forced, loaded, refused.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "core/algo/select.h"
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* An operation to ask about. */
typedef struct question {
    kith_be_coll coll;
    ki_algo_args args;
    ki_order order;
    ki_reducer reducer;
    ki_op op;
} question_data;

static void ask_init(question_data *q, kith_coll_kind kind, int size, size_t count, const int *node_of)
{
    memset(q, 0, sizeof *q);
    bool reduces =
        kind == KITH_ALL_REDUCE || kind == KITH_REDUCE || kind == KITH_REDUCE_SCATTER || kind == KITH_REDUCE_SCATTER_V;
    q->op = (ki_op){ .builtin = KITH_SUM, .is_commutative = true };
    assert_int_equal(ki_order_create(size, node_of, &q->order), KITH_OK);
    ki_reducer_init(&q->reducer, KITH_F32, &q->op, &q->order);
    q->coll = (kith_be_coll){ .kind = kind,
                              .dtype = KITH_F32,
                              .count = count,
                              .nbytes = 4,
                              .op = KITH_SUM,
                              .reducer = reduces ? &q->reducer.base : NULL };
    q->args = (ki_algo_args){
        .size = size, .coll = &q->coll, .order = &q->order, .node_of = node_of, .reducer = reduces ? &q->reducer : NULL
    };
}

static ki_select *make(const char *force, const char *path, bool is_deterministic)
{
    ki_select *select = NULL;
    ki_select_options options = { .force = force, .table_path = path, .is_deterministic = is_deterministic };
    if (ki_select_create(&options, &select) != KITH_OK)
        fail_msg("%s", kith_error_detail());
    return select;
}

static const char *find(const ki_select *select, kith_coll_kind kind, int size, size_t count, const int *node_of)
{
    question_data q;
    const ki_algo *algo = NULL;
    ask_init(&q, kind, size, count, node_of);
    kith_status status = ki_select_find(select, &q.args, &algo);
    ki_order_destroy(&q.order);
    if (status != KITH_OK)
        fail_msg("%s", kith_error_detail());
    return algo->name;
}

static void test_builtin(void **state)
{
    (void)state;
    static const int hosts[] = { 0, 1, 0, 1, 0, 1 };
    ki_select *select = make(NULL, NULL, true);
    assert_string_equal(find(select, KITH_ALL_REDUCE, 4, 1, NULL), "recursive_doubling");
    assert_string_equal(find(select, KITH_ALL_REDUCE, 4, 2048, NULL), "recursive_doubling");
    assert_string_equal(find(select, KITH_ALL_REDUCE, 4, 2049, NULL), "linear");
    assert_string_equal(find(select, KITH_ALL_REDUCE, 4, (size_t)1 << 30, NULL), "rabenseifner");
    assert_string_equal(find(select, KITH_ALL_REDUCE, 6, 8, hosts), "reduce_broadcast");
    assert_string_equal(find(select, KITH_ALL_REDUCE, 6, (size_t)1 << 30, hosts), "linear"); /* no rule: the first */
    assert_string_equal(find(select, KITH_ALL_GATHER, 5, 1, NULL), "bruck");
    assert_string_equal(find(select, KITH_ALL_GATHER, 8, 1, NULL), "recursive_doubling");
    assert_string_equal(find(select, KITH_BROADCAST, 4, 1 << 20, NULL), "chain_segmented");
    assert_string_equal(find(select, KITH_BARRIER, 6, 0, NULL), "dissemination");
    assert_string_equal(find(select, KITH_BARRIER, 6, 0, hosts), "knomial");
    ki_select_destroy(select);
    select = make("", "", false);
    assert_string_equal(find(select, KITH_ALL_REDUCE, 4, (size_t)1 << 30, NULL), "segmented_ring");
    ki_select_destroy(select);
    ki_select_destroy(NULL);
}

/* At most six rules a collective; every rule's algorithm belongs to it. */
static void test_rules_are_whole(void **state)
{
    (void)state;
    ki_select *select = make(NULL, NULL, true);
    int counts[KITH_COLL_COUNT] = { 0 };
    ki_select_rule rule;
    for (size_t i = 0; ki_select_rule_at(select, i, &rule); i++) {
        assert_int_equal(rule.algo->kind, rule.kind);
        assert_non_null(ki_select_hosts_name(rule.hosts));
        counts[rule.kind]++;
    }
    for (int kind = 0; kind < KITH_COLL_COUNT; kind++)
        assert_in_range(counts[kind], 1, 6);
    ki_select_destroy(select);
}

static void test_bytes(void **state)
{
    (void)state;
    static const size_t counts[] = { 5, 0, 7 };
    static const struct {
        kith_coll_kind kind;
        size_t nbytes;
    } wanted[] = { { KITH_ALL_REDUCE, 40 },      { KITH_REDUCE, 40 },      { KITH_BROADCAST, 40 },
                   { KITH_REDUCE_SCATTER, 120 }, { KITH_ALL_GATHER, 120 }, { KITH_GATHER, 120 },
                   { KITH_SCATTER, 120 },        { KITH_ALL_TO_ALL, 120 }, { KITH_REDUCE_SCATTER_V, 48 },
                   { KITH_ALL_GATHER_V, 48 },    { KITH_GATHER_V, 0 },     { KITH_SCATTER_V, 0 },
                   { KITH_ALL_TO_ALL_V, 0 },     { KITH_BARRIER, 0 } };
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        question_data q;
        ask_init(&q, wanted[i].kind, 3, 10, NULL);
        q.coll.recv_counts = counts;
        assert_int_equal(ki_select_nbytes(&q.args), wanted[i].nbytes);
        q.coll.count = SIZE_MAX / 2;
        if (wanted[i].nbytes == 40 || wanted[i].nbytes == 120)
            assert_int_equal(ki_select_nbytes(&q.args), SIZE_MAX); /* too many to count */
        ki_order_destroy(&q.order);
    }
}

static void test_force(void **state)
{
    (void)state;
    ki_select *select = make("all_gather=ring,broadcast=knomial", NULL, true);
    assert_string_equal(find(select, KITH_ALL_GATHER, 4, 1, NULL), "ring");
    assert_string_equal(find(select, KITH_BROADCAST, 4, 1 << 20, NULL), "knomial");
    assert_string_equal(find(select, KITH_ALL_REDUCE, 4, 1, NULL), "recursive_doubling");
    assert_string_equal(ki_select_forced(select, KITH_BROADCAST), "knomial");
    assert_null(ki_select_forced(select, KITH_REDUCE));
    ki_select_destroy(select);
    select = make("ring", NULL, false);
    assert_string_equal(find(select, KITH_ALL_REDUCE, 4, 1, NULL), "ring");
    assert_string_equal(find(select, KITH_REDUCE_SCATTER, 4, 1, NULL), "ring");
    assert_null(ki_select_forced(select, KITH_BARRIER));
    ki_select_destroy(select);
}

static void refuse(const char *force, const char *path, kith_status wanted, const char *text)
{
    ki_select *select = NULL;
    ki_select_options options = { .force = force, .table_path = path, .is_deterministic = true };
    kith_status status = ki_select_create(&options, &select);
    if (status != wanted || !strstr(kith_error_detail(), text))
        fail_msg("wanted %d \"%s\", got %d \"%s\"", wanted, text, status, kith_error_detail());
    assert_null(select);
}

static void test_force_refused(void **state)
{
    (void)state;
    refuse("rings", NULL, KITH_ERR_INVALID_ARG,
           "no collective has an algorithm \"rings\"; there are linear, all_gather_reduce");
    refuse("broadcast=ring", NULL, KITH_ERR_INVALID_ARG,
           "broadcast has no algorithm \"ring\"; valid are linear, binomial, knomial");
    refuse("allreduce=ring", NULL, KITH_ERR_INVALID_ARG, "there is no collective \"allreduce\"; valid are all_reduce");
    refuse("all_reduce=", NULL, KITH_ERR_INVALID_ARG, "has no algorithm \"\"");
}

static void expect_unsupported(const char *force, kith_coll_kind kind, int size, bool is_commutative, const char *text)
{
    question_data q;
    const ki_algo *algo = NULL;
    ki_select *select = make(force, NULL, is_commutative);
    ask_init(&q, kind, size, 100, NULL);
    q.reducer.base.is_commutative = is_commutative;
    assert_int_equal(ki_select_find(select, &q.args, &algo), KITH_ERR_UNSUPPORTED);
    if (!strstr(kith_error_detail(), text))
        fail_msg("wanted \"%s\" in \"%s\"", text, kith_error_detail());
    assert_null(algo);
    ki_order_destroy(&q.order);
    ki_select_destroy(select);
}

static void test_forced_cannot_run(void **state)
{
    (void)state;
    expect_unsupported("all_reduce=ring", KITH_ALL_REDUCE, 4, true, "does not follow the documented order");
    expect_unsupported("all_reduce=ring", KITH_ALL_REDUCE, 4, true,
                       "possible on these 4 ranks are linear, all_gather_reduce, "
                       "recursive_doubling, rabenseifner, reduce_broadcast");
    expect_unsupported("reduce=knomial", KITH_REDUCE, 4, false, "needs a commutative operator");
    expect_unsupported("recursive_doubling", KITH_ALL_GATHER, 6, true, "is not possible with this number of ranks");
    expect_unsupported("neighbor_exchange", KITH_ALL_GATHER, 5, true,
                       "possible on these 5 ranks are linear, ring, bruck");
}

/* Integers have the same bits in every order: a ring is as good. */
static void test_integers_may_take_any_order(void **state)
{
    (void)state;
    question_data q;
    const ki_algo *algo = NULL;
    ki_select *select = make("all_reduce=ring", NULL, true);
    ask_init(&q, KITH_ALL_REDUCE, 4, 100, NULL);
    q.coll.dtype = KITH_INT32;
    assert_int_equal(ki_select_find(select, &q.args, &algo), KITH_OK);
    q.coll.op = -1; /* a user's operator may do anything */
    assert_int_equal(ki_select_find(select, &q.args, &algo), KITH_ERR_UNSUPPORTED);
    ki_order_destroy(&q.order);
    ki_select_destroy(select);
}

static void test_hash(void **state)
{
    (void)state;
    static const struct {
        const char *force;
        bool is_deterministic;
    } cases[] = {
        { NULL, true }, { NULL, false }, { "ring", false }, { "broadcast=linear", true }, { "broadcast=knomial", true }
    };
    uint64_t hashes[5];
    for (int i = 0; i < 5; i++) {
        ki_select *select = make(cases[i].force, NULL, cases[i].is_deterministic),
                  *again = make(cases[i].force, NULL, cases[i].is_deterministic);
        hashes[i] = ki_select_hash(select);
        assert_true(hashes[i] == ki_select_hash(again));
        for (int j = 0; j < i; j++)
            assert_true(hashes[i] != hashes[j]);
        ki_select_destroy(select);
        ki_select_destroy(again);
    }
}

/* ---- table files ---- */

static char path[64];

static const char *write_file(const char *text)
{
    snprintf(path, sizeof path, "/tmp/kith_select_%ld.json", (long)getpid());
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
    return path;
}

static void test_file(void **state)
{
    (void)state;
    static const int hosts[] = { 0, 0, 1, 1 };
    ki_select *select =
        make(NULL,
             write_file("{ \"version\": 1, \"rules\": [\n"
                        "  { \"collective\": \"all_reduce\", \"max_ranks\": 4, \"max_nbytes\": \"1k\", \"algorithm\": "
                        "\"all_gather_reduce\" },\n"
                        "  { \"collective\": \"all_reduce\", \"max_nbytes\": 65536, \"hosts\": \"many\", "
                        "\"algorithm\": \"rabenseifner\" },\n"
                        "  { \"collective\": \"all_reduce\", \"algorithm\": \"reduce_broadcast\" } ] }"),
             true);
    assert_string_equal(find(select, KITH_ALL_REDUCE, 4, 256, NULL), "all_gather_reduce");
    assert_string_equal(find(select, KITH_ALL_REDUCE, 4, 257, NULL), "reduce_broadcast");
    assert_string_equal(find(select, KITH_ALL_REDUCE, 4, 257, hosts),
                        "rabenseifner"); /* two hosts of 2: the same tree */
    assert_string_equal(find(select, KITH_ALL_REDUCE, 5, 1, NULL), "reduce_broadcast");
    assert_string_equal(find(select, KITH_ALL_GATHER, 5, 1, NULL), "bruck"); /* not named: built-in */
    ki_select *builtin = make(NULL, NULL, true);
    assert_true(ki_select_hash(select) != ki_select_hash(builtin));
    ki_select_destroy(builtin);
    ki_select_destroy(select);
    unlink(path);
}

/* What kith tune writes: rules for one number of ranks, and others behind them. */
static void test_file_with_least_ranks(void **state)
{
    (void)state;
    ki_select *select =
        make(NULL,
             write_file("{ \"version\": 1, \"rules\": [\n"
                        "  { \"collective\": \"all_reduce\", \"min_ranks\": 4, \"max_ranks\": 4, \"max_nbytes\": 1024, "
                        "\"algorithm\": \"all_gather_reduce\" },\n"
                        "  { \"collective\": \"all_reduce\", \"min_ranks\": 4, \"algorithm\": \"linear\" },\n"
                        "  { \"collective\": \"all_reduce\", \"algorithm\": \"reduce_broadcast\" } ] }"),
             true);
    assert_string_equal(find(select, KITH_ALL_REDUCE, 4, 256, NULL), "all_gather_reduce");
    assert_string_equal(find(select, KITH_ALL_REDUCE, 3, 256, NULL), "reduce_broadcast");
    assert_string_equal(find(select, KITH_ALL_REDUCE, 4, 257, NULL), "linear");
    assert_string_equal(find(select, KITH_ALL_REDUCE, 5, 256, NULL), "linear");
    ki_select_destroy(select);
    unlink(path);
}

static void test_file_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text, *wanted;
    } cases[] = {
        { "[]", ":1:1: an object is expected, this is an array" },
        { "{ \"rules\": [] }", ":1:1: version must be 1" },
        { "{ \"version\": 2, \"rules\": [] }", ":1:14: version must be 1" },
        { "{ \"version\": 1 }", "rules must be an array" },
        { "{ \"version\": 1, \"rules\": [], \"more\": 1 }", ":1:38: unknown key more" },
        { "{ \"version\": 1, \"rules\": [\n 7 ] }", ":2:2: an object is expected, this is a number" },
        { "{ \"version\": 1, \"rules\": [ { \"algorithm\": \"ring\" } ] }", "the rule lacks collective" },
        { "{ \"version\": 1, \"rules\": [ { \"collective\": \"sum\", \"algorithm\": \"ring\" } ] }",
          "no such collective; valid are all_reduce" },
        { "{ \"version\": 1, \"rules\": [ { \"collective\": \"barrier\",\n\"algorithm\": \"ring\" } ] }",
          ":2:14: the collective has no such algorithm; valid are dissemination, linear, knomial" },
        { "{ \"version\": 1, \"rules\": [ { \"collective\": \"barrier\", \"algorithm\": 3 } ] }",
          "a string is expected for algorithm" },
        { "{ \"version\": 1, \"rules\": [ { \"collective\": \"barrier\", \"algorithm\": \"linear\", \"max_ranks\": 0 } "
          "] }",
          "is expected for max_ranks" },
        { "{ \"version\": 1, \"rules\": [ { \"collective\": \"barrier\", \"algorithm\": \"linear\", \"max_ranks\": 2.5 "
          "} ] }",
          "is expected for max_ranks" },
        { "{ \"version\": 1, \"rules\": [ { \"collective\": \"barrier\", \"algorithm\": \"linear\", \"max_nbytes\": "
          "\"-1k\" } ] }",
          "is expected for max_nbytes" },
        { "{ \"version\": 1, \"rules\": [ { \"collective\": \"barrier\", \"algorithm\": \"linear\", \"max_nbytes\": "
          "\"1kb\" } ] }",
          "is expected for max_nbytes" },
        { "{ \"version\": 1, \"rules\": [ { \"collective\": \"barrier\", \"algorithm\": \"linear\", \"hosts\": \"two\" "
          "} ] }",
          "hosts is \"any\", \"one\" or \"many\"" },
        { "{ \"version\": 1, \"rules\": [ { \"collective\": \"barrier\", \"algorithm\": \"linear\", \"ranks\": 2 } ] }",
          "unknown key ranks" },
        { "{ \"version\": 1,\n \"rules\": [ }", ":2:13: expected a value" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        refuse(NULL, write_file(cases[i].text), KITH_ERR_INVALID_ARG, cases[i].wanted);
    unlink(path);
    refuse(NULL, path, KITH_ERR_IO, "cannot be opened");
    refuse(NULL, "/tmp", KITH_ERR_IO, "reading failed");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_builtin),
        cmocka_unit_test(test_rules_are_whole),
        cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_force),
        cmocka_unit_test(test_force_refused),
        cmocka_unit_test(test_forced_cannot_run),
        cmocka_unit_test(test_integers_may_take_any_order),
        cmocka_unit_test(test_hash),
        cmocka_unit_test(test_file),
        cmocka_unit_test(test_file_with_least_ranks),
        cmocka_unit_test(test_file_refused),
    };
    return cmocka_run_group_tests_name("select", tests, NULL, NULL);
}
