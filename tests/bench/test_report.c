/* tests/bench/test_report.c - bench/engine/report.c: what is written can be read again.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "../../bench/engine/report.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static bench_row sample_row(const char *driver, bool is_right)
{
    return (bench_row){ .driver = driver,
                        .variant = "ordinary",
                        .dtype = BENCH_F32,
                        .ranks = 2,
                        .round = 1,
                        .result = { .op = BENCH_ALL_GATHER,
                                    .mode = BENCH_BACK_TO_BACK,
                                    .nbytes = 4096,
                                    .us = { 15, 1.25, 1.5, 2, 3, 4 },
                                    .flag_before_ns = 57,
                                    .flag_after_ns = 58.5,
                                    .switches = 3,
                                    .is_right = is_right } };
}

static void temporary_name(char *name, size_t nbytes)
{
    snprintf(name, nbytes, "/tmp/kith-test-report-XXXXXX");
    int fd = mkstemp(name);
    assert_true(fd >= 0);
    close(fd);
}

static void rows_have_all_fields(void **state)
{
    (void)state;
    bench_row row = sample_row("a \"quoted\" name", true);
    json_t *object = bench_row_json(&row);
    assert_non_null(object);
    assert_string_equal(json_string_value(json_object_get(object, "driver")), "a \"quoted\" name");
    assert_string_equal(json_string_value(json_object_get(object, "op")), "all_gather");
    assert_string_equal(json_string_value(json_object_get(object, "mode")), "back_to_back");
    assert_string_equal(json_string_value(json_object_get(object, "dtype")), "f32");
    assert_int_equal(json_integer_value(json_object_get(object, "nbytes")), 4096);
    assert_int_equal(json_integer_value(json_object_get(object, "iterations")), 15);
    assert_true(json_real_value(json_object_get(object, "median_us")) == 2);
    assert_true(json_real_value(json_object_get(object, "flag_after_ns")) == 58.5);
    assert_true(json_is_true(json_object_get(object, "is_right")));
    json_decref(object);
}

static void json_file_can_be_read(void **state)
{
    (void)state;
    char name[64];
    temporary_name(name, sizeof(name));
    bench_report *report = bench_report_create(true);
    bench_row first = sample_row("one", true), second = sample_row("two\\\n", true);
    bench_report_add(report, &first);
    bench_report_add(report, &second);
    assert_true(bench_report_write_json(report, name));
    assert_true(bench_report_is_right(report));
    json_t *document = json_load_file(name, JSON_REJECT_DUPLICATES, NULL);
    assert_non_null(document);
    assert_string_equal(json_string_value(json_object_get(document, "format")), "kith-bench-1");
    json_t *rows = json_object_get(document, "rows");
    assert_int_equal(json_array_size(rows), 2);
    assert_string_equal(json_string_value(json_object_get(json_array_get(rows, 1), "driver")), "two\\\n");
    json_decref(document);
    bench_report_destroy(report);
    unlink(name);
}

static void csv_has_a_heading_and_as_many_fields(void **state)
{
    (void)state;
    char name[64], heading[1024], line[1024], extra[16];
    temporary_name(name, sizeof(name));
    bench_report *report = bench_report_create(true);
    bench_row row = sample_row("one", true);
    bench_report_add(report, &row);
    assert_true(bench_report_write_csv(report, name));
    FILE *file = fopen(name, "r");
    assert_non_null(file);
    assert_non_null(fgets(heading, sizeof(heading), file));
    assert_non_null(fgets(line, sizeof(line), file));
    assert_null(fgets(extra, sizeof(extra), file));
    fclose(file);
    int heading_commas = 0, line_commas = 0;
    for (const char *c = heading; *c != '\0'; c++) {
        heading_commas += *c == ',';
    }
    for (const char *c = line; *c != '\0'; c++) {
        line_commas += *c == ',';
    }
    assert_int_equal(heading_commas, line_commas);
    assert_ptr_equal(strstr(heading, "driver,variant,op,dtype,ranks,nbytes,mode"), heading);
    assert_ptr_equal(strstr(line, "one,ordinary,all_gather,f32,2,4096,back_to_back,1,15,1.25,1.5,2,3,4,57,58.5,3,true"),
                     line);
    bench_report_destroy(report);
    unlink(name);
}

static void one_wrong_row_makes_the_report_wrong(void **state)
{
    (void)state;
    bench_report *report = bench_report_create(true);
    bench_row good = sample_row("one", true), bad = sample_row("two", false);
    bench_report_add(report, &bad);
    bench_report_add(report, &good);
    assert_false(bench_report_is_right(report));
    bench_report_destroy(report);
}

static void a_file_that_cannot_be_written_is_told(void **state)
{
    (void)state;
    bench_report *report = bench_report_create(true);
    assert_false(bench_report_write_json(report, "/nonexistent/x.json"));
    assert_false(bench_report_write_csv(report, "/nonexistent/x.csv"));
    bench_report_destroy(report);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_have_all_fields),
        cmocka_unit_test(json_file_can_be_read),
        cmocka_unit_test(csv_has_a_heading_and_as_many_fields),
        cmocka_unit_test(one_wrong_row_makes_the_report_wrong),
        cmocka_unit_test(a_file_that_cannot_be_written_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
