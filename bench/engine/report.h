/* bench/engine/report.h - rows: what was measured, as JSON, as CSV, as a table for people.
 *
 * A row is a flat object; times are microseconds:
 *
 *   {"driver": "kith-shm", "variant": "ordinary", "op": "all_reduce", "dtype": "f32", "ranks": 2, "nbytes": 1024,
 *    "mode": "cold", "round": 0, "iterations": 1000, "min_us": ..., "p10_us": ..., "median_us": ..., "p90_us": ...,
 *    "max_us": ..., "flag_before_ns": ..., "flag_after_ns": ..., "switches": 0, "is_right": true}
 *
 * A file of rows is {"format": "kith-bench-1", "machine": {...}, "rows": [...]}.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef BENCH_REPORT_H
#define BENCH_REPORT_H

#include "point.h"

#include <jansson.h>

typedef struct bench_row {
    const char *driver, *variant;
    bench_dtype dtype;
    int ranks, round;
    bench_result result;
} bench_row;

/* A new object; NULL when there is no memory. */
json_t *bench_row_json(const bench_row *row);

/* Collects the rows of a run. */
typedef struct bench_report bench_report;

/* NULL when there is no memory. is_quiet: no table on stdout. */
bench_report *bench_report_create(bool is_quiet);
void bench_report_destroy(bench_report *report);

/* Adds a row and prints its line of the table. */
void bench_report_add(bench_report *report, const bench_row *row);

/* Each writes everything added so far; false, with a message on stderr, when the file cannot be written. */
bool bench_report_write_json(const bench_report *report, const char *path);
bool bench_report_write_csv(const bench_report *report, const char *path);

/* True when no row had wrong data. */
bool bench_report_is_right(const bench_report *report);

#endif
