/* tests/bench/test_options.c - bench/engine/options.c
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "../../bench/engine/options.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static error_t parse(bench_options *options, int argc, char **argv)
{
    bench_options_init(options);
    return argp_parse(&bench_options_argp, argc, argv, ARGP_SILENT, NULL, options);
}

static void sizes_have_suffixes(void **state)
{
    (void)state;
    size_t nbytes = 0;
    assert_true(bench_parse_nbytes("4", &nbytes));
    assert_int_equal(nbytes, 4);
    assert_true(bench_parse_nbytes("64k", &nbytes));
    assert_int_equal(nbytes, 65536);
    assert_true(bench_parse_nbytes("64M", &nbytes));
    assert_int_equal(nbytes, 64 << 20);
    assert_true(bench_parse_nbytes("2G", &nbytes));
    assert_int_equal(nbytes, (size_t)2 << 30);
}

static void bad_sizes_are_refused(void **state)
{
    (void)state;
    static const char *const texts[] = { "", "k", "-4", "4x", "4kB", "99999999999999999999G", "18446744073709551615k" };
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        size_t nbytes = 77;
        assert_false(bench_parse_nbytes(texts[i], &nbytes));
        assert_int_equal(nbytes, 77);
    }
}

static void lists_match_whole_words(void **state)
{
    (void)state;
    assert_true(bench_list_has(NULL, "anything"));
    assert_true(bench_list_has("ordinary,mapped", "mapped"));
    assert_true(bench_list_has("ordinary,mapped", "ordinary"));
    assert_false(bench_list_has("ordinary,mapped", "map"));
    assert_false(bench_list_has("ordinary,mapped", "registered"));
}

static void defaults_measure_everything_cold(void **state)
{
    (void)state;
    bench_options options;
    char *argv[] = { "bench", NULL };
    assert_int_equal(parse(&options, 1, argv), 0);
    for (int op = 0; op < BENCH_OP_COUNT; op++) {
        assert_true(options.has_op[op]);
    }
    assert_true(options.has_mode[BENCH_COLD]);
    assert_false(options.has_mode[BENCH_BACK_TO_BACK]);
    assert_int_equal(options.min_nbytes, 4);
    assert_int_equal(options.max_nbytes, 64 << 20);
    assert_true(options.is_pinned);
}

static void options_are_taken(void **state)
{
    (void)state;
    bench_options options;
    char *argv[] = { "bench",    "--op",        "barrier,all_gather",
                     "--mode",   "both",        "--min",
                     "1k",       "--max",       "4M",
                     "--factor", "2",           "--dtype",
                     "bf16",     "--budget-ms", "7",
                     "--rounds", "3",           "--no-pin",
                     "--json",   "x.json",      NULL };
    assert_int_equal(parse(&options, (int)(sizeof(argv) / sizeof(argv[0])) - 1, argv), 0);
    assert_true(options.has_op[BENCH_BARRIER] && options.has_op[BENCH_ALL_GATHER]);
    assert_false(options.has_op[BENCH_ALL_REDUCE]);
    assert_true(options.has_mode[BENCH_COLD] && options.has_mode[BENCH_BACK_TO_BACK]);
    assert_int_equal(options.min_nbytes, 1024);
    assert_int_equal(options.max_nbytes, 4 << 20);
    assert_int_equal(options.factor, 2);
    assert_int_equal(options.dtype, BENCH_BF16);
    assert_true(options.limits.budget_ms == 7);
    assert_int_equal(options.rounds, 3);
    assert_false(options.is_pinned);
    assert_string_equal(options.json_path, "x.json");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_have_suffixes),     cmocka_unit_test(bad_sizes_are_refused),
        cmocka_unit_test(lists_match_whole_words), cmocka_unit_test(defaults_measure_everything_cold),
        cmocka_unit_test(options_are_taken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
