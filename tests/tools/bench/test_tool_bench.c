/* tests/tools/bench/test_tool_bench.c - parts of kith bench by themselves: medians, bus factors, sizes, who holds what,
 * data and their results, rows.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "tools/bench/bench.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- medians ---- */

static void the_interval_is_that_of_the_sign_test(void **state)
{
    (void)state;
    /* From tables of the binomial distribution: the k-th smallest and largest hold the median with at least 95 %. */
    static const size_t wanted[][2] = { { 1, 0 },  { 5, 0 },  { 6, 1 },  { 8, 1 },   { 9, 2 },   { 11, 2 },  { 12, 3 },
                                        { 15, 4 }, { 20, 6 }, { 25, 8 }, { 30, 10 }, { 50, 18 }, { 100, 40 } };
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++)
        assert_int_equal(bench_median_rank(wanted[i][0]), wanted[i][1]);
    /* Where coins are no longer counted the formula goes on from there. */
    assert_in_range(bench_median_rank(501), bench_median_rank(500), bench_median_rank(500) + 1);
}

static void percentiles_lie_between_their_neighbours(void **state)
{
    (void)state;
    double samples[101];
    for (int i = 0; i <= 100; i++)
        samples[i] = 1000 + (i * 37) % 101; /* each of 1000 to 1100 once */
    bench_summary summary = bench_summarize(samples, 101);
    assert_true(summary.min == 1000 && summary.max == 1100 && summary.median == 1050);
    assert_true(summary.p25 == 1025 && summary.p75 == 1075 && summary.p95 == 1095 && summary.p99 == 1099);
    assert_true(summary.low == 1040 && summary.high == 1060 && summary.is_reliable);
    double few[] = { 4, 1, 3, 2 };
    summary = bench_summarize(few, 4);
    assert_true(summary.median == 2.5 && summary.p25 == 1.75 && summary.p75 == 3.25);
}

static void a_median_that_may_be_anywhere_is_not_reliable(void **state)
{
    (void)state;
    double samples[100];
    for (int i = 0; i < 100; i++)
        samples[i] = i % 2 == 0 ? 10 : 20; /* two humps: the median may be either */
    assert_false(bench_summarize(samples, 100).is_reliable);
    for (int i = 0; i < 100; i++)
        samples[i] = i < 20 ? 1000 : 10; /* a fifth is far away: the median does not mind */
    bench_summary summary = bench_summarize(samples, 100);
    assert_true(summary.is_reliable && summary.median == 10 && summary.max == 1000);
    double five[] = { 10, 10, 10, 10, 10 };
    assert_false(bench_summarize(five, 5).is_reliable); /* too few to say, however alike */
    assert_false(bench_summarize(five, 0).is_reliable);
    assert_true(isnan(bench_summarize(five, 0).median));
}

/* ---- operations ---- */

static void bus_factors_are_those_of_nccl_tests(void **state)
{
    (void)state;
    static const struct {
        int op, ranks;
        double factor;
    } wanted[] = {
        { KITH_ALL_REDUCE, 2, 1 },        { KITH_ALL_REDUCE, 4, 1.5 },        { KITH_ALL_REDUCE, 8, 1.75 },
        { KITH_REDUCE_SCATTER, 4, 0.75 }, { KITH_REDUCE_SCATTER_V, 4, 0.75 }, { KITH_ALL_GATHER, 8, 0.875 },
        { KITH_ALL_GATHER_V, 8, 0.875 },  { KITH_ALL_TO_ALL, 2, 0.5 },        { KITH_ALL_TO_ALL_V, 2, 0.5 },
        { KITH_GATHER, 4, 0.75 },         { KITH_GATHER_V, 4, 0.75 },         { KITH_SCATTER, 4, 0.75 },
        { KITH_SCATTER_V, 4, 0.75 },      { KITH_BROADCAST, 8, 1 },           { KITH_REDUCE, 8, 1 },
        { KITH_BARRIER, 8, 0 },           { BENCH_PING_PONG, 8, 1 },          { BENCH_BIDIRECTIONAL, 8, 1 },
        { BENCH_RING_EXCHANGE, 8, 1 },    { BENCH_ALL_PAIRS, 8, 1 },          { BENCH_MANY_TO_ONE, 8, 7 },
        { KITH_ALL_REDUCE, 1, 0 },        { BENCH_MANY_TO_ONE, 1, 0 },
    };
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++)
        assert_true(bench_op_bus_factor((bench_op)wanted[i].op, wanted[i].ranks) == wanted[i].factor);
}

static void names_are_read_back(void **state)
{
    (void)state;
    for (int i = 0; i < BENCH_OP_COUNT; i++) {
        bench_op op = BENCH_OP_COUNT;
        assert_true(bench_op_parse(bench_op_name((bench_op)i), &op));
        assert_int_equal(op, i);
    }
    bench_op op;
    assert_false(bench_op_parse("all_reduc", &op));
    assert_false(bench_op_parse("", &op));
}

static void sizes_are_bytes_with_units(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t nbytes; /* 0: refused */
    } cases[] = { { "1", 1 },
                  { "8k", 8192 },
                  { "3M", (size_t)3 << 20 },
                  { "2g", (size_t)2 << 30 },
                  { "0", 0 },
                  { "", 0 },
                  { "k", 0 },
                  { "-1", 0 },
                  { "1.5k", 0 },
                  { "8kb", 0 },
                  { "99999999999999999999", 0 },
                  { "17179869184G", 0 },
                  { "17179869183G", (size_t)17179869183u << 30 } };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        size_t nbytes = 0;
        assert_int_equal(bench_size_parse(cases[i].text, &nbytes), cases[i].nbytes != 0);
        assert_int_equal(nbytes, cases[i].nbytes);
    }
}

/* ---- who holds what ---- */

/* What all ranks give in one operation, and what each gets, must fit: every element that is got lies within what the
 * other gives, runs have no gaps, and both ends of a pair know the same counts. */
static void check_shape(bench_op op, size_t nbytes, int size, int root)
{
    bench_shape shapes[9];
    for (int r = 0; r < size; r++) {
        assert_true(bench_shape_make(&shapes[r], op, nbytes, 4, r, size, root));
        assert_int_equal(shapes[r].count, shapes[0].count);
        assert_true(bench_op_is_sizeless(op) || shapes[r].count >= 1);
        assert_true(shapes[r].count * 4 <= nbytes || shapes[r].count <= (size_t)size);
    }
    for (int r = 0; r < size; r++) {
        size_t index, count;
        int from;
        for (size_t i = 0; i < shapes[r].recv_count; i += count) {
            bench_shape_source(&shapes[r], i, &from, &index, &count);
            assert_true(count > 0 && i + count <= shapes[r].recv_count);
            assert_true(from < size);
            if (from >= 0)
                assert_true(index + count <= shapes[from].send_count);
            else
                assert_true(index + count <= shapes[r].count);
        }
    }
    if (op == (bench_op)KITH_ALL_TO_ALL_V)
        for (int i = 0; i < size; i++)
            for (int j = 0; j < size; j++)
                assert_int_equal(shapes[i].counts[j], shapes[j].counts[i]);
    for (int r = 0; r < size; r++)
        bench_shape_free(&shapes[r]);
}

static void shapes_of_all_ranks_fit_together(void **state)
{
    (void)state;
    static const size_t sizes[] = { 1, 4, 60, 4096, 70001 };
    for (int op = 0; op < BENCH_OP_COUNT; op++)
        for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++)
            for (int size = 1; size <= 9; size++)
                check_shape((bench_op)op, sizes[s], size, size - 1);
}

static void uneven_parts_lose_nothing(void **state)
{
    (void)state;
    bench_shape shape;
    assert_true(bench_shape_make(&shape, (bench_op)KITH_ALL_GATHER_V, 400, 4, 1, 4, 0));
    static const size_t wanted[] = { 10, 20, 30, 40 };
    for (int r = 0; r < 4; r++)
        assert_int_equal(shape.counts[r], wanted[r]);
    assert_int_equal(shape.own_first, 10);
    bench_shape_free(&shape);
    assert_true(bench_shape_make(&shape, (bench_op)KITH_ALL_GATHER_V, (size_t)1 << 62, 1, 0, 4096, 0));
    size_t sum = 0;
    for (int r = 0; r < 4096; r++)
        sum += shape.counts[r];
    assert_true(sum == (size_t)1 << 62);
    bench_shape_free(&shape);
}

/* ---- data ---- */

static double load(kith_dtype dtype, const unsigned char *at)
{
    uint64_t bits = 0;
    size_t nbytes = kith_dtype_nbytes(dtype);
    memcpy(&bits, at, nbytes);
    static const int forms[KITH_DTYPE_COUNT][3] = {
        [KITH_F16] = { 10, 15, 5 },    [KITH_BF16] = { 7, 127, 8 }, [KITH_F32] = { 23, 127, 8 },
        [KITH_F64] = { 52, 1023, 11 }, [KITH_F8E4M3] = { 3, 7, 4 }, [KITH_F8E5M2] = { 2, 15, 5 }
    };
    const int *form = forms[dtype];
    if (form[0] == 0 || bits == 0)
        return (double)bits;
    int exponent = (int)(bits >> form[0] & ((UINT64_C(1) << form[2]) - 1));
    double fraction = (double)(bits & ((UINT64_C(1) << form[0]) - 1)) / (double)(UINT64_C(1) << form[0]);
    return ldexp(1 + fraction, exponent - form[1]);
}

static double combine(kith_op op, double a, double b)
{
    uint64_t x = (uint64_t)a, y = (uint64_t)b;
    switch (op) {
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
    case KITH_BXOR:
        return (double)(x ^ y);
    default:
        return a + b;
    }
}

#define ELEMENTS 2500 /* three pieces, the last one partly */

static void check_reduction(kith_dtype dtype, kith_op op, int size)
{
    static unsigned char given[9][ELEMENTS * 8], result[ELEMENTS * 8];
    size_t element = kith_dtype_nbytes(dtype), differ = 0;
    bench_data data;
    bench_data_init(&data, (bench_op)KITH_ALL_REDUCE, dtype, op, size, 1);
    for (int r = 0; r < size; r++)
        bench_data_fill(&data, r, 0, ELEMENTS, given[r]);
    bench_data_fill(&data, -1, 0, ELEMENTS, result);
    for (size_t i = 0; i < ELEMENTS; i++) {
        double sum = load(dtype, given[0] + i * element);
        for (int r = 1; r < size; r++) {
            sum = combine(op, sum, load(dtype, given[r] + i * element));
            differ += memcmp(given[r] + i * element, given[0] + i * element, element) != 0;
        }
        if (op == KITH_AVG)
            sum /= size;
        if (load(dtype, result + i * element) != sum)
            fail_msg("%s of %s on %d ranks: element %zu is to be %g, and %g comes of it", kith_op_name(NULL, op),
                     kith_dtype_name(dtype), size, i, load(dtype, result + i * element), sum);
    }
    assert_true(size == 1 || differ > 0); /* ranks do not all give the same */
}

static void results_come_of_what_is_given(void **state)
{
    (void)state;
    for (int dtype = 0; dtype < KITH_DTYPE_COUNT; dtype++)
        for (int op = 0; op < KITH_OP_BUILTIN_COUNT; op++)
            for (int size = 1; size <= 9 && kith_op_is_defined(op, (kith_dtype)dtype); size++)
                check_reduction((kith_dtype)dtype, op, size);
}

static void every_wrong_element_is_counted(void **state)
{
    (void)state;
    static float got[ELEMENTS];
    bench_data data;
    bench_data_init(&data, (bench_op)KITH_ALL_GATHER, KITH_F32, KITH_SUM, 3, 2);
    bench_data_fill(&data, 1, 100, ELEMENTS, got);
    assert_int_equal(bench_data_count_wrong(&data, 1, 100, ELEMENTS, got), 0);
    got[0] += 1;
    got[923] += 1; /* the last of the first piece, as it begins at 100 */
    got[924] = NAN;
    got[ELEMENTS - 1] = -got[ELEMENTS - 1] - 1;
    assert_int_equal(bench_data_count_wrong(&data, 1, 100, ELEMENTS, got), 4);
}

/* Data of another rank, another place, another run are other data. */
static void what_is_misplaced_is_seen(void **state)
{
    (void)state;
    static float got[ELEMENTS];
    bench_data data;
    bench_data_init(&data, (bench_op)KITH_ALL_GATHER, KITH_F32, KITH_SUM, 4, 1);
    bench_data_fill(&data, 1, 0, ELEMENTS, got);
    assert_true(bench_data_count_wrong(&data, 2, 0, ELEMENTS, got) > ELEMENTS / 2);
    assert_true(bench_data_count_wrong(&data, 1, BENCH_PIECE, ELEMENTS, got) > ELEMENTS / 2);
    assert_true(bench_data_count_wrong(&data, 1, 1, ELEMENTS, got) > ELEMENTS / 2);
    bench_data_init(&data, (bench_op)KITH_ALL_GATHER, KITH_F32, KITH_SUM, 4, 2);
    assert_true(bench_data_count_wrong(&data, 1, 0, ELEMENTS, got) > ELEMENTS / 2);
}

/* ---- rows ---- */

static bench_row some_row(void)
{
    double samples[] = { 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 10, 12 };
    bench_row row = { .op = "all_reduce",
                      .dtype = "f32",
                      .redop = "sum",
                      .place = "out",
                      .memory = "host",
                      .mode = "blocking",
                      .link = "auto",
                      .backend = "shm",
                      .group = "world",
                      .algorithm = "native",
                      .ranks = 2,
                      .group_count = 1,
                      .hosts = 1,
                      .nbytes = 1000,
                      .us = bench_summarize(samples, 12),
                      .batch = 5,
                      .algbw_gbps = 0.1,
                      .busbw_gbps = 0.1,
                      .errors = 0,
                      .compute_us = NAN,
                      .alone_us = NAN,
                      .hidden_percent = NAN,
                      .src = -1,
                      .dst = -1,
                      .cores = "near",
                      .cores_before_ns = 90,
                      .cores_after_ns = NAN,
                      .expected_gbps = NAN };
    return row;
}

static char *print_rows(const bench_rows *rows, void (*print)(const bench_rows *, FILE *))
{
    char *text = NULL;
    size_t nbytes = 0;
    FILE *out = open_memstream(&text, &nbytes);
    assert_non_null(out);
    print(rows, out);
    fclose(out);
    return text;
}

static void a_row_without_a_median_has_no_bandwidth(void **state)
{
    (void)state;
    bench_rows rows = { 0 };
    bench_row row = some_row();
    assert_true(bench_rows_add(&rows, &row));
    row.us.is_reliable = false;
    row.algbw_gbps = row.busbw_gbps = NAN;
    assert_true(bench_rows_add(&rows, &row));
    char *text = print_rows(&rows, bench_rows_json);
    assert_non_null(strstr(text, "\"time_us_median\": 10, \"time_us_min\": 10"));
    assert_non_null(strstr(text, "\"time_us_median\": null, \"time_us_min\": 10"));
    assert_non_null(strstr(text, "\"busbw_gbps\": null, \"errors\": 0, \"time_us_p25\": 10, \"time_us_p75\": 10"));
    free(text);
    text = print_rows(&rows, bench_rows_csv);
    int lines = 0, commas = 0, first = 0;
    for (const char *c = text; *c != '\0'; c++) {
        commas += *c == ',';
        lines += *c == '\n';
        if (lines == 1 && *c == '\n')
            first = commas;
    }
    assert_int_equal(lines, 3);
    assert_int_equal(commas, 3 * first); /* as many cells in each line */
    free(text);
    bench_rows_free(&rows);
}

static void what_is_hidden_is_a_share_of_the_operation(void **state)
{
    (void)state;
    assert_true(bench_hidden_percent(100, 200, 200) == 100);
    assert_true(bench_hidden_percent(100, 200, 300) == 0);
    assert_true(bench_hidden_percent(100, 100, 150) == 50);
    assert_true(bench_hidden_percent(100, 100, 250) == -50);
    assert_true(bench_hidden_percent(100, 100, 90) == 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_interval_is_that_of_the_sign_test),
        cmocka_unit_test(percentiles_lie_between_their_neighbours),
        cmocka_unit_test(a_median_that_may_be_anywhere_is_not_reliable),
        cmocka_unit_test(bus_factors_are_those_of_nccl_tests),
        cmocka_unit_test(names_are_read_back),
        cmocka_unit_test(sizes_are_bytes_with_units),
        cmocka_unit_test(shapes_of_all_ranks_fit_together),
        cmocka_unit_test(uneven_parts_lose_nothing),
        cmocka_unit_test(results_come_of_what_is_given),
        cmocka_unit_test(every_wrong_element_is_counted),
        cmocka_unit_test(what_is_misplaced_is_seen),
        cmocka_unit_test(a_row_without_a_median_has_no_bandwidth),
        cmocka_unit_test(what_is_hidden_is_a_share_of_the_operation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
