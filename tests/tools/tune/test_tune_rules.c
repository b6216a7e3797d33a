/* tests/tools/tune/test_tune_rules.c - from times to rules, and from rows to curves and constants.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "tools/tune/tune.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <kith/topology.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- choosing ---- */

/* Two algorithms and a third that cannot run everywhere; sizes 1, 4, 16, ... */
static tune_times times_of(int sizes, const double (*us)[3])
{
    tune_times times = {
        .collective = "all_reduce", .size_count = sizes, .names = { "a", "b", "c" }, .algorithm_count = 3
    };
    for (int s = 0; s < sizes; s++) {
        times.nbytes[s] = (size_t)1 << (2 * s);
        memcpy(times.us[s], us[s], 3 * sizeof(double));
    }
    return times;
}

static void chooses(int sizes, const double (*us)[3], const char *wanted)
{
    tune_times times = times_of(sizes, us);
    int choice[TUNE_SIZES_MAX];
    tune_choose(&times, 0.02, choice);
    for (int s = 0; s < sizes; s++) {
        char got = choice[s] < 0 ? '-' : (char)('a' + choice[s]);
        if (got != wanted[s])
            fail_msg("size %d: wanted %c, got %c", s, wanted[s], got);
    }
}

static void test_the_fastest_is_chosen(void **state)
{
    (void)state;
    chooses(3, (const double[][3]){ { 1, 2, 3 }, { 4, 2, 3 }, { 4, 3, 2 } }, "abc");
    chooses(2, (const double[][3]){ { NAN, 2, 3 }, { NAN, NAN, 3 } }, "bc");
}

/* b is within 2 % of a at the first two sizes and the best from then on; at the third a is 3 % off. */
static void test_noise_makes_no_rules(void **state)
{
    (void)state;
    chooses(3, (const double[][3]){ { 1, 1.01, 9 }, { 1, 1.015, 9 }, { 1.03, 1, 9 } }, "bbb");
    chooses(3, (const double[][3]){ { 1, 1.03, 9 }, { 1, 1.015, 9 }, { 1.03, 1, 9 } }, "aab");
    /* of two that last as long the nearer one */
    chooses(2, (const double[][3]){ { 1.01, 1, 9 }, { 1.01, 1, 9 } }, "bb");
}

static void test_sizes_where_nothing_runs(void **state)
{
    (void)state;
    chooses(3, (const double[][3]){ { NAN, NAN, NAN }, { 1, 2, 3 }, { NAN, NAN, NAN } }, "aaa");
    chooses(1, (const double[][3]){ { NAN, NAN, NAN } }, "-");
}

static void test_the_file_has_a_rule_for_each_run(void **state)
{
    (void)state;
    tune_times times = times_of(3, (const double[][3]){ { 1, 2, 3 }, { 1, 2, 3 }, { 4, 3, 2 } });
    int choice[TUNE_SIZES_MAX];
    char *text = NULL;
    size_t nbytes;
    bool is_first = true;
    tune_choose(&times, 0.02, choice);
    FILE *out = open_memstream(&text, &nbytes);
    tune_rules_print(out, &times, choice, 6, "one", &is_first);
    fclose(out);
    assert_string_equal(text, "\n  {\"collective\": \"all_reduce\", \"min_ranks\": 6, \"max_ranks\": 6, "
                              "\"max_nbytes\": 8, \"hosts\": \"one\", "
                              "\"algorithm\": \"a\"},\n  {\"collective\": \"all_reduce\", \"min_ranks\": 6, "
                              "\"max_ranks\": 6, \"hosts\": \"one\", "
                              "\"algorithm\": \"c\"}");
    assert_false(is_first);
    free(text);
}

/* ---- curves ---- */

enum { POINTS = 12 };

/* What rings of n ranks with this latency of a step and bandwidth take. */
static void draw(tune_row *rows, const char *op, const char *link, int ranks, double latency_us, double gbps)
{
    double passes = strcmp(op, "all_reduce") == 0 ? 2 : strcmp(op, "all_gather") == 0 ? 1 : 0;
    double steps = passes > 0 ? passes * (ranks - 1) : 1, wire = passes > 0 ? passes * (ranks - 1) / ranks : 1;
    for (int i = 0; i < POINTS; i++) {
        rows[i] = (tune_row){ .ranks = ranks, .hosts = 1, .src = -1, .dst = -1, .nbytes = (double)(8 << (2 * i)) };
        snprintf(rows[i].op, sizeof rows[i].op, "%s", op);
        snprintf(rows[i].backend, sizeof rows[i].backend, "shm");
        snprintf(rows[i].link, sizeof rows[i].link, "%s", link);
        rows[i].time_us = steps * latency_us + wire * rows[i].nbytes / gbps * 1e-3;
    }
}

static void is_near(double got, double wanted)
{
    if (!(fabs(got - wanted) <= 1e-4 * wanted))
        fail_msg("wanted %.9g, got %.9g", wanted, got);
}

static void test_constants_come_back_out_of_rings(void **state)
{
    (void)state;
    static const struct {
        const char *op;
        int ranks;
    } cases[] = { { "all_reduce", 2 }, { "all_reduce", 8 }, { "all_gather", 4 }, { "ping_pong", 2 } };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        tune_row rows[POINTS];
        tune_curves curves;
        tune_constant constant;
        draw(rows, cases[i].op, "auto", cases[i].ranks, 3.5, 12);
        assert_true(tune_curves_make(rows, POINTS, &curves));
        assert_int_equal(curves.count, 1);
        assert_true(tune_constant_of(&curves.list[0], &constant));
        is_near(constant.latency_us, 3.5);
        is_near(constant.gbps, 12);
        tune_curves_free(&curves);
    }
}

static void test_rows_are_sorted_into_curves(void **state)
{
    (void)state;
    tune_row rows[3 * POINTS + 3];
    tune_curves curves;
    draw(rows, "ping_pong", "x", 2, 1, 10);
    draw(rows + POINTS, "all_reduce", "x", 2, 2, 20);
    draw(rows + 2 * POINTS, "all_reduce", "x", 4, 4, 40);
    rows[3 * POINTS] = rows[0]; /* a second time of a size: the shorter one counts */
    rows[3 * POINTS].time_us *= 2;
    rows[3 * POINTS + 1] = rows[5]; /* of a pair: no curve */
    rows[3 * POINTS + 1].src = 0;
    rows[3 * POINTS + 2] = rows[7]; /* no reliable median */
    rows[3 * POINTS + 2].nbytes = 12345;
    rows[3 * POINTS + 2].time_us = NAN;
    assert_true(tune_curves_make(rows, 3 * POINTS + 3, &curves));
    assert_int_equal(curves.count, 3);
    for (int i = 0; i < 3; i++)
        assert_int_equal(curves.list[i].count, POINTS);
    const tune_curve *last = &curves.list[2];
    assert_string_equal(last->key.op, "ping_pong");
    assert_int_equal(last->left_out, 1);
    is_near(last->fit.below.alpha_us, 1);
    const tune_curve *best = tune_curve_of_link(&curves, "x");
    assert_string_equal(best->key.op, "all_reduce");
    assert_int_equal(best->key.ranks, 4);
    assert_null(tune_curve_of_link(&curves, "y"));
    tune_curves_free(&curves);
}

static void test_which_link_stands_for_what(void **state)
{
    (void)state;
    tune_map maps[TUNE_MAPS_MAX];
    size_t count;
    char sentence[256];
    assert_true(tune_maps_parse("shm=pcie4,nccl=nvlink4*18", maps, &count, sentence, sizeof sentence));
    assert_int_equal(count, 2);
    assert_string_equal(maps[1].link, "nccl");
    assert_string_equal(maps[1].key, "nvlink4");
    assert_true(maps[0].count == 1 && maps[1].count == 18);
    static const char *const wrong[] = { "shm",         "=pcie4",      "shm=",     "shm=pcie4*0",
                                         "shm*2=pcie4", "shm=pcie4*x", "shm=pcie9" };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        if (tune_maps_parse(wrong[i], maps, &count, sentence, sizeof sentence))
            fail_msg("'%s' was taken", wrong[i]);
    assert_non_null(strstr(sentence, "there is no constant 'pcie9'"));
}

static void test_links_of_gpus_have_constants(void **state)
{
    (void)state;
    static const struct {
        const char *machine, *key; /* key NULL: none */
        double count;
    } cases[] = { { "8 H100 on NVSwitch", "nvlink4", 18 },
                  { "8 A100 on NVSwitch", "nvlink3", 12 },
                  { "2 A6000 in pairs of bridges", "nvlink3-bridge", 4 },
                  { "8 V100 in a cube mesh", NULL, 0 },
                  { "2 nodes of 8 H100 on NVSwitch, 8 NICs", NULL, 0 },
                  { "1 H100", NULL, 0 } };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        kith_topology *topology = NULL;
        tune_map map = { .key = "" };
        assert_int_equal(kith_topology_load(&cases[i].machine, 1, NULL, &topology), KITH_OK);
        bool is_found = tune_map_of_gpus(topology, &map);
        if (is_found != (cases[i].key != NULL) || (is_found && strcmp(map.key, cases[i].key) != 0) ||
            (is_found && map.count != cases[i].count))
            fail_msg("%s: got %s of %g", cases[i].machine, is_found ? map.key : "none", map.count);
        kith_topology_destroy(topology);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_fastest_is_chosen),
        cmocka_unit_test(test_noise_makes_no_rules),
        cmocka_unit_test(test_sizes_where_nothing_runs),
        cmocka_unit_test(test_the_file_has_a_rule_for_each_run),
        cmocka_unit_test(test_constants_come_back_out_of_rings),
        cmocka_unit_test(test_rows_are_sorted_into_curves),
        cmocka_unit_test(test_which_link_stands_for_what),
        cmocka_unit_test(test_links_of_gpus_have_constants),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
