/* tests/schedules/test_schedule_costs.c - costs as words and as profiles: what they set, and what is refused.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "simulate_help.h"

#include "comma.h"
#include "core/base/fault.h"

#include <stdlib.h>
#include <unistd.h>

/* f i w b fb recompute send latency activation weight message */
static void expect_cost(const char *name, const kith_stage_cost *got, const char *wanted)
{
    char text[256];
    snprintf(text, sizeof text, "%g %g %g %g %g %g %g %g %g %g %g", got->f, got->i, got->w, got->b, got->fb,
             got->recompute, got->send, got->latency, got->activation_nbytes, got->weight_nbytes, got->message_nbytes);
    if (strcmp(text, wanted) != 0)
        fail_msg("%s: wanted %s, got %s", name, wanted, text);
}

static void test_words(void **state)
{
    static const struct {
        const char *text, *wanted;
    } rows[] = {
        { "F=10,I=12,W=8,C=1", "10 12 8 -1 -1 -1 1 0 1 0 1" },
        { " f = 1.5 ,\tw=2e-1", "1.5 1 0.2 -1 -1 -1 0 0 1 0 1" },
        { "B=5", "1 2.5 2.5 5 -1 -1 0 0 1 0 1" },
        { "I=2,B=5", "1 2 3 5 -1 -1 0 0 1 0 1" },
        { "B=5,W=1", "1 4 1 5 -1 -1 0 0 1 0 1" },
        { "B=7,I=1,W=2", "1 1 2 7 -1 -1 0 0 1 0 1" },
        { "FB=3,R=.5,L=4,A=100,G=30,M=1e6", "1 1 1 -1 3 0.5 0 4 100 30 1e+06" },
        { "F=0", "0 1 1 -1 -1 -1 0 0 1 0 1" },
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        kith_schedule_costs costs = costs_of(rows[i].text);
        expect_cost(rows[i].text, &costs.same, rows[i].wanted);
        assert_int_equal(costs.stage_count, 0);
        assert_int_equal(costs.struct_size, sizeof costs);
    }
}

static void test_words_that_are_refused(void **state)
{
    static const struct {
        const char *text, *words;
    } rows[] = {
        { "", "'' is not of the form F=10" },
        { "F=1,", "'' is not of the form F=10" },
        { "F", "'F' is not of the form F=10" },
        { "Q=1", "'Q=1' sets none of F, I, W, B, FB, R, C, L, A, G, M" },
        { "=1", "'=1' sets none of F, I" },
        { "FBB=1", "'FBB=1' sets none of" },
        { "F=", "'F=' is no finite number of at least 0" },
        { "F=-1", "'F=-1' is no finite number" },
        { "F=nan", "'F=nan' is no finite number" },
        { "F=inf", "'F=inf' is no finite number" },
        { "F=1e999", "'F=1e999' is no finite number" },
        { "F=0x10", "'F=0x10' is no finite number" },
        { "F=1 2", "'F=1 2' is no finite number" },
        { "F=1e", "'F=1e' is no finite number" },
        { "F=.", "'F=.' is no finite number" },
        { "F=1;I=2", "'F=1;I=2' is no finite number" },
        { "F=1,f=2", "F is given twice" },
        { "B=2,I=3", "I=3 is more than B=2" },
        { "B=2,W=3", "W=3 is more than B=2" },
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        kith_schedule_costs costs = { .stage_count = 77 };
        expect_failure(kith_schedule_costs_parse(rows[i].text, &costs), KITH_ERR_INVALID_ARG, rows[i].words);
        assert_int_equal(costs.stage_count, 77); /* nothing was written */
    }
    kith_schedule_costs costs;
    expect_failure(kith_schedule_costs_parse(NULL, &costs), KITH_ERR_INVALID_ARG, "text is NULL");
    expect_failure(kith_schedule_costs_parse("F=1", NULL), KITH_ERR_INVALID_ARG, "costs is NULL");
}

/* ---- profiles ---- */

static kith_status load_text(const char *text, size_t nbytes, kith_schedule_costs *costs)
{
    char path[] = "kith-profile-XXXXXX";
    int file = mkstemp(path);
    assert_true(file >= 0);
    assert_int_equal(write(file, text, nbytes), (ssize_t)nbytes);
    close(file);
    kith_status status = kith_schedule_costs_load(path, costs);
    unlink(path);
    return status;
}

static void test_profiles(void **state)
{
    static const char *const texts[] = {
        "stage,F,I,W,C\n0,10,12,8,1\n1,11,12.5,8,0\n",
        "stage,F,I,W,C\r\n1,11,12.5,8,0\r\n0,10,12,8,1\r\n",
        "\xef\xbb\xbf# measured\n\n \"Stage\" , c,W, f ,I\n# more\n0,1,8,10,12\n\n1,0,8,\"11\",12.5",
    };
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        kith_schedule_costs costs;
        if (load_text(texts[i], strlen(texts[i]), &costs) != KITH_OK)
            fail_msg("%s: %s", texts[i], kith_error_detail());
        assert_int_equal(costs.stage_count, 2);
        expect_cost(texts[i], &costs.stages[0], "10 12 8 -1 -1 -1 1 0 1 0 1");
        expect_cost(texts[i], &costs.stages[1], "11 12.5 8 -1 -1 -1 0 0 1 0 1");
        kith_free((void *)costs.stages);
    }
}

/* A profile is what kith_schedule_simulate() takes; its number of stages has to be that of the plan. */
static void test_profile_simulated(void **state)
{
    static const char text[] = "stage,F,B,L\n0,1,2,0\n1,4,8,1\n2,1,2,0\n";
    (void)state;
    kith_schedule_costs costs;
    kith_schedule_options o = KITH_SCHEDULE_OPTIONS_INIT;
    kith_schedule *plan;
    kith_simulation *run;
    assert_int_equal(load_text(text, sizeof text - 1, &costs), KITH_OK);
    o.ranks = 3;
    o.microbatches = 1;
    assert_int_equal(kith_schedule_create(&o, &plan), KITH_OK);
    assert_int_equal(kith_schedule_simulate(plan, &costs, &run), KITH_OK);
    expect_figure("profile", "makespan", kith_simulation_total(run)->makespan, 1 + 4 + 1 + 1 + 2 + 1 + 8 + 2, 0);
    expect_figure("profile", "bubble", kith_simulation_total(run)->bubble, 20 - 12, 0);
    kith_simulation_destroy(run);
    kith_schedule_destroy(plan);
    o.ranks = 2;
    assert_int_equal(kith_schedule_create(&o, &plan), KITH_OK);
    expect_failure(kith_schedule_simulate(plan, &costs, &run), KITH_ERR_INVALID_ARG,
                   "costs of 3 stages for a plan of 2: it takes the cost of each stage, or one that holds for all");
    kith_schedule_destroy(plan);
    kith_free((void *)costs.stages);
}

static void test_profiles_that_are_refused(void **state)
{
    static const struct {
        const char *text, *words;
    } rows[] = {
        { "", "no line that names the columns: stage, and of F, I, W, B" },
        { "# nothing\n\n", "no line that names the columns" },
        { "F,I,W\n1,1,1\n", ":1: no column 'stage'" },
        { "stage,F,Q\n", ":1:9: 'Q' is no column: valid are stage, F, I" },
        { "stage,F,,I\n", ":1:9: '' is no column" },
        { "stage,F,f\n", ":1:9: 'f' is there twice" },
        { "stage,stage\n", ":1:7: 'stage' is there twice" },
        { "stage,F\n", "no line of a stage below" },
        { "stage,F\n0,1,2\n", ":2:5: '2' is one value more than there are columns" },
        { "stage,F,I\n0,1\n", ":2: 2 values for 3 columns" },
        { "stage,F\n0,x\n", ":2:3: 'x' is no finite number of at least 0" },
        { "stage,F\n0,-1\n", ":2:3: '-1' is no finite number" },
        { "stage,F\n0,\n", ":2:3: '' is no finite number" },
        { "stage,F\n-1,1\n", ":2:1: '-1' is no finite number" },
        { "stage,F\n0.5,1\n", ":2:1: '0.5' is no stage" },
        { "stage,F\n65536,1\n", ":2:1: '65536' is no stage: valid are 0 to 65535" },
        { "stage,F\n1e300,1\n", ":2:1: '1e300' is no stage" },
        { "stage,F\n0,1\n0,1\n", ":3: stage 0 is there twice" },
        { "stage,F\n0,1\n2,1\n", "no line for stage 1, though there is one for stage 2" },
        { "stage,B,I\n0,1,2\n", ":2: I=2 is more than B=1" },
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        kith_schedule_costs costs = { .stage_count = 77 };
        expect_failure(load_text(rows[i].text, strlen(rows[i].text), &costs), KITH_ERR_INVALID_ARG, rows[i].words);
        assert_int_equal(costs.stage_count, 77);
    }
    kith_schedule_costs costs;
    expect_failure(kith_schedule_costs_load("no/such/profile.csv", &costs), KITH_ERR_IO, "no/such/profile.csv: cannot");
    expect_failure(kith_schedule_costs_load(".", &costs), KITH_ERR_IO, ".: is a folder");
    expect_failure(kith_schedule_costs_load(NULL, &costs), KITH_ERR_INVALID_ARG, "path is NULL");
}

/* Each cut and each changed byte of a profile is either read or refused; nothing crashes. */
static void test_damaged_profiles(void **state)
{
    static const char text[] = "stage,F,I,W,C\n0,10,12,8,1\n1,\"11\",12.5,8,0\n";
    static const char bytes[] = { 0, '\n', ',', '"', 'e', '.', '9', -1 };
    (void)state;
    int read = 0;
    for (size_t at = 0; at < sizeof text - 1; at++)
        for (size_t b = 0; b <= sizeof bytes; b++) {
            char copy[sizeof text];
            kith_schedule_costs costs;
            memcpy(copy, text, sizeof text);
            if (b < sizeof bytes)
                copy[at] = bytes[b];
            kith_status status = load_text(copy, b < sizeof bytes ? sizeof text - 1 : at, &costs);
            if (status == KITH_OK) {
                read++;
                kith_free((void *)costs.stages);
            } else {
                assert_int_equal(status, KITH_ERR_INVALID_ARG);
            }
        }
    if (read < 20) /* changed digits, quotes around a cell, cuts behind a line */
        fail_msg("%d damaged profiles were read: wanted 20", read);
}

static void test_no_memory(void **state)
{
    static const char text[] = "stage,F\n0,1\n40,1\n";
    (void)state;
    kith_schedule_costs costs;
    for (int n = 1; n <= 5; n++) { /* the text, and twice two arrays */
        char fault[32];
        snprintf(fault, sizeof fault, "alloc:%d", n);
        setenv("KITH_FAULT", fault, 1);
        ki_fault_configure(0);
        kith_status status = load_text(text, sizeof text - 1, &costs);
        unsetenv("KITH_FAULT");
        ki_fault_configure(0);
        if (status != KITH_ERR_NO_MEMORY)
            fail_msg("allocation %d: wanted no memory, got %s", n, kith_status_name(status));
    }
}

/* ---- numbers ---- */

/* A program may have set a locale with a decimal comma; words have a point. */
static void test_locale(void **state)
{
    (void)state;
    if (!set_comma_locale()) {
        print_message("skipped: no localedef, which makes a locale with a decimal comma\n");
        skip();
    }
    kith_schedule_costs costs = costs_of("F=1.5");
    setlocale(LC_NUMERIC, "C");
    expect_figure("locale", "F", costs.same.f, 1.5, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_words),
        cmocka_unit_test(test_words_that_are_refused),
        cmocka_unit_test(test_profiles),
        cmocka_unit_test(test_profile_simulated),
        cmocka_unit_test(test_profiles_that_are_refused),
        cmocka_unit_test(test_damaged_profiles),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_locale),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
