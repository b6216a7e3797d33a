/* bench/engine/report.c
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "report.h"

#include "clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/utsname.h>
#include <unistd.h>

struct bench_report {
    json_t *rows;
    bool is_quiet, has_heading, is_right;
};

json_t *bench_row_json(const bench_row *row)
{
    const bench_result *result = &row->result;
    const bench_summary *us = &result->us;
    return json_pack("{s:s, s:s, s:s, s:s, s:i, s:I, s:s, s:i, s:I, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:I, s:b}",
                     "driver", row->driver, "variant", row->variant, "op", bench_op_name(result->op), "dtype",
                     bench_dtype_name(row->dtype), "ranks", row->ranks, "nbytes", (json_int_t)result->nbytes, "mode",
                     bench_mode_name(result->mode), "round", row->round, "iterations", (json_int_t)us->count, "min_us",
                     us->min, "p10_us", us->p10, "median_us", us->median, "p90_us", us->p90, "max_us", us->max,
                     "flag_before_ns", result->flag_before_ns, "flag_after_ns", result->flag_after_ns, "switches",
                     (json_int_t)result->switches, "is_right", (int)result->is_right);
}

bench_report *bench_report_create(bool is_quiet)
{
    bench_report *report = calloc(1, sizeof(*report));
    if (report == NULL) {
        return NULL;
    }
    report->rows = json_array();
    report->is_quiet = is_quiet;
    report->is_right = true;
    if (report->rows == NULL) {
        free(report);
        return NULL;
    }
    return report;
}

void bench_report_destroy(bench_report *report)
{
    if (report != NULL) {
        json_decref(report->rows);
        free(report);
    }
}

static void print_line(bench_report *report, const bench_row *row)
{
    const bench_result *result = &row->result;
    if (!report->has_heading) {
        printf("%-14s %-12s %-14s %5s %10s %-12s %9s %11s %11s %11s %6s %s\n", "driver", "variant", "operation",
               "ranks", "bytes", "mode", "samples", "min us", "median us", "p90 us", "flag", "data");
        report->has_heading = true;
    }
    printf("%-14s %-12s %-14s %5d %10zu %-12s %9zu %11.3f %11.3f %11.3f %6.0f %s\n", row->driver, row->variant,
           bench_op_name(result->op), row->ranks, result->nbytes, bench_mode_name(result->mode), result->us.count,
           result->us.min, result->us.median, result->us.p90, result->flag_before_ns,
           result->is_right ? "ok" : "WRONG");
    fflush(stdout);
}

void bench_report_add(bench_report *report, const bench_row *row)
{
    json_t *object = bench_row_json(row);
    if (object == NULL || json_array_append_new(report->rows, object) != 0) {
        fprintf(stderr, "bench: no memory for a row\n");
    }
    report->is_right = report->is_right && row->result.is_right;
    if (!report->is_quiet) {
        print_line(report, row);
    }
}

bool bench_report_write_json(const bench_report *report, const char *path)
{
    struct utsname system;
    uname(&system);
    json_t *document = json_pack("{s:s, s:{s:s, s:s, s:s, s:i}, s:O}", "format", "kith-bench-1", "machine", "system",
                                 system.sysname, "release", system.release, "clock", bench_clock_name(), "cpus",
                                 (int)sysconf(_SC_NPROCESSORS_ONLN), "rows", report->rows);
    bool is_written = document != NULL && json_dump_file(document, path, JSON_INDENT(1) | JSON_REAL_PRECISION(6)) == 0;
    json_decref(document);
    if (!is_written) {
        fprintf(stderr, "bench: cannot write %s\n", path);
    }
    return is_written;
}

static void write_csv_value(FILE *file, json_t *value)
{
    if (json_is_string(value)) {
        fputs(json_string_value(value), file);
    } else if (json_is_integer(value)) {
        fprintf(file, "%lld", (long long)json_integer_value(value));
    } else if (json_is_real(value)) {
        fprintf(file, "%.6g", json_real_value(value));
    } else {
        fputs(json_is_true(value) ? "true" : "false", file);
    }
}

bool bench_report_write_csv(const bench_report *report, const char *path)
{
    FILE *file = fopen(path, "w");
    if (file == NULL) {
        fprintf(stderr, "bench: cannot write %s\n", path);
        return false;
    }
    size_t index;
    json_t *row, *value;
    const char *key;
    json_array_foreach(report->rows, index, row)
    {
        const char *separator = "";
        if (index == 0) {
            json_object_foreach(row, key, value)
            {
                fprintf(file, "%s%s", separator, key);
                separator = ",";
            }
            fputc('\n', file);
        }
        separator = "";
        json_object_foreach(row, key, value)
        {
            fputs(separator, file);
            write_csv_value(file, value);
            separator = ",";
        }
        fputc('\n', file);
    }
    return fclose(file) == 0;
}

bool bench_report_is_right(const bench_report *report)
{
    return report->is_right;
}
