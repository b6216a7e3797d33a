/* tests/core/algo/test_collectives.c - every algorithm on simulated ranks against the serial reference.
 *
 * Sizes of groups, counts around them, in and out of place, first and last root; dtypes, operators, message modes,
 * segments and radixes rotate over the cases, so that every pair of neighbouring settings occurs. KITH_TEST_RANKS=n:
 * only groups of n.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "trial.h"
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

static const int sizes[] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 16, 17, 33 };

static const struct {
    kith_dtype dtype;
    int op;
} kinds[] = {
    { KITH_F32, KITH_SUM },    { KITH_INT32, KITH_SUM },  { KITH_BF16, KITH_AVG },   { KITH_INT64, KITH_MAX },
    { KITH_UINT8, KITH_SUM },  { KITH_F16, KITH_SUM },    { KITH_INT16, KITH_BXOR }, { KITH_F64, KITH_MIN },
    { KITH_INT8, KITH_AVG },   { KITH_F8E4M3, KITH_SUM }, { KITH_F32, KITH_PROD },   { KITH_UINT32, KITH_BAND },
    { KITH_F64, KITH_AVG },    { KITH_F8E5M2, KITH_MAX }, { KITH_INT64, KITH_AVG },  { KITH_INT64, OP_AFFINE },
    { KITH_UINT16, KITH_BOR },
};

enum { KINDS = sizeof kinds / sizeof *kinds };

static int only_ranks(void)
{
    const char *text = getenv("KITH_TEST_RANKS");
    return text ? atoi(text) : 0;
}

static bool has_root(kith_coll_kind kind)
{
    return kind == KITH_BROADCAST || kind == KITH_REDUCE || kind == KITH_GATHER || kind == KITH_SCATTER ||
           kind == KITH_GATHER_V || kind == KITH_SCATTER_V;
}

static bool has_place(kith_coll_kind kind, trial_place place)
{
    if (place == IN_PLACE_START)
        return kind == KITH_REDUCE_SCATTER || kind == KITH_REDUCE_SCATTER_V;
    return place == OUT_OF_PLACE || (kind != KITH_BROADCAST && kind != KITH_BARRIER && kind != KITH_ALL_TO_ALL_V);
}

/* Total work of a case, to leave out the largest ones. */
static bool is_too_long(kith_coll_kind kind, int size, size_t count)
{
    bool is_square = kind != KITH_ALL_REDUCE && kind != KITH_BROADCAST && kind != KITH_REDUCE;
    return is_square && size > 9 && count > 736;
}

static void run_counts(const ki_algo *algo, int size, unsigned *turn)
{
    size_t p = (size_t)size, counts[] = { 0, 1, p - 1, p, p + 1, 736, 4097 };
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
        if (is_too_long(algo->kind, size, counts[c]) || (algo->kind == KITH_BARRIER && c > 0))
            continue;
        for (int place = OUT_OF_PLACE; place <= IN_PLACE_START; place++) {
            for (int root = 0; root < size && has_place(algo->kind, (trial_place)place);
                 root += size > 1 ? size - 1 : 1) {
                if (root > 0 && !has_root(algo->kind))
                    break;
                unsigned t = (*turn)++;
                trial_case trial = { .algo = algo,
                                     .size = size,
                                     .root = root,
                                     .count = counts[c],
                                     .dtype = kinds[t % KINDS].dtype,
                                     .op = kinds[t % KINDS].op,
                                     .place = (trial_place)place,
                                     .mode = (fake_mode)(t / KINDS % 3),
                                     .seed = t,
                                     .segment_nbytes = t % 5 == 0   ? 64
                                                       : t % 5 == 1 ? 1000
                                                                    : 0,
                                     .radix = (int[]){ 0, 2, 3, 8 }[t % 4] };
                trial_run(&trial);
            }
        }
    }
}

/* One test for each collective: all its algorithms. */
static void run_collective(void **state)
{
    size_t count;
    kith_coll_kind kind = *(const kith_coll_kind *)*state;
    const ki_algo *const *list = ki_algo_list(kind, &count);
    assert_true(count > 0);
    unsigned turn = (unsigned)kind * 5;
    for (size_t a = 0; a < count; a++)
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
            if (only_ranks() == 0 || only_ranks() == sizes[s])
                run_counts(list[a], sizes[s], &turn);
}

/* Every dtype and operator through every algorithm that reduces, once. */
static void run_kinds(void **state)
{
    (void)state;
    static const kith_coll_kind reductions[] = { KITH_ALL_REDUCE, KITH_REDUCE, KITH_REDUCE_SCATTER,
                                                 KITH_REDUCE_SCATTER_V };
    for (size_t k = 0; k < 4; k++) {
        size_t count;
        const ki_algo *const *list = ki_algo_list(reductions[k], &count);
        for (size_t i = 0; i < count * KINDS; i++) {
            trial_case trial = { .algo = list[i / KINDS],
                                 .size = 6,
                                 .root = 3,
                                 .count = 37,
                                 .dtype = kinds[i % KINDS].dtype,
                                 .op = kinds[i % KINDS].op,
                                 .place = (trial_place)(i % 2),
                                 .mode = (fake_mode)(i % 3),
                                 .seed = i };
            trial_run(&trial);
        }
    }
}

/* Operators that do not commute keep rank order, in every algorithm that does not ask for commutativity. */
static void run_noncommutative(void **state)
{
    (void)state;
    static const kith_coll_kind reductions[] = { KITH_ALL_REDUCE, KITH_REDUCE, KITH_REDUCE_SCATTER,
                                                 KITH_REDUCE_SCATTER_V };
    int tried = 0;
    for (size_t k = 0; k < 4; k++) {
        size_t count;
        const ki_algo *const *list = ki_algo_list(reductions[k], &count);
        for (size_t a = 0; a < count; a++) {
            for (size_t s = 0; s < sizeof sizes / sizeof *sizes && !list[a]->needs_commutative; s++, tried++) {
                trial_case trial = { .algo = list[a],
                                     .size = sizes[s],
                                     .root = sizes[s] / 2,
                                     .count = 50,
                                     .dtype = KITH_INT64,
                                     .op = OP_AFFINE,
                                     .place = (trial_place)(s % 2),
                                     .mode = FAKE_MIXED,
                                     .seed = s + 100 };
                trial_run(&trial);
            }
        }
    }
    assert_true(tried > 100);
}

#define COLLECTIVE(symbol, number, name)                                                                               \
    { name, run_collective, NULL, NULL, (void *)(uintptr_t) & (const kith_coll_kind){ symbol } },

int main(void)
{
    const struct CMUnitTest tests[] = {
        KITH_COLL_TABLE(COLLECTIVE) cmocka_unit_test(run_kinds),
        cmocka_unit_test(run_noncommutative),
    };
    return cmocka_run_group_tests_name("collectives", tests, NULL, NULL);
}
