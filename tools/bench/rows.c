/* tools/bench/rows.c - one row for each point, as JSON and as CSV. Scripts rely on the names.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "../json.h"
#include "bench.h"

#include <math.h>
#include <stdlib.h>

bool bench_rows_add(bench_rows *rows, const bench_row *row)
{
    if (rows->count == rows->capacity) {
        size_t capacity = rows->capacity > 0 ? 2 * rows->capacity : 64;
        bench_row *list = reallocarray(rows->list, capacity, sizeof *list);
        if (list == NULL)
            return false;
        rows->list = list;
        rows->capacity = capacity;
    }
    rows->list[rows->count++] = *row;
    return true;
}

void bench_rows_free(bench_rows *rows)
{
    free(rows->list);
    *rows = (bench_rows){ 0 };
}

typedef enum cell_kind { CELL_TEXT, CELL_NUMBER, CELL_BOOL } cell_kind;

typedef struct bench_cell {
    const char *name;
    cell_kind kind;
    const char *text;
    double number; /* NaN: null, an empty cell */
} bench_cell;

#define CELLS_MAX 48

static size_t add_text(bench_cell *cells, size_t count, const char *name, const char *text)
{
    cells[count] = (bench_cell){ name, CELL_TEXT, text, 0 };
    return count + 1;
}

static size_t add_number(bench_cell *cells, size_t count, const char *name, double number)
{
    cells[count] = (bench_cell){ name, CELL_NUMBER, NULL, number };
    return count + 1;
}

/* Names first that every script knows; then what says more. */
static size_t fill_cells(const bench_row *row, bench_cell *cells)
{
    size_t n = 0;
    n = add_text(cells, n, "op", row->op);
    n = add_text(cells, n, "backend", row->backend);
    n = add_text(cells, n, "link", row->link);
    n = add_text(cells, n, "dtype", row->dtype);
    n = add_text(cells, n, "redop", row->redop);
    n = add_number(cells, n, "ranks", row->ranks);
    n = add_number(cells, n, "nbytes", (double)row->nbytes);
    n = add_number(cells, n, "time_us_median", row->us.is_reliable ? row->us.median : NAN);
    n = add_number(cells, n, "time_us_min", row->us.min);
    n = add_number(cells, n, "time_us_p99", row->us.p99);
    n = add_number(cells, n, "algbw_gbps", row->algbw_gbps);
    n = add_number(cells, n, "busbw_gbps", row->busbw_gbps);
    n = add_number(cells, n, "errors", (double)row->errors);
    n = add_number(cells, n, "time_us_p25", row->us.p25);
    n = add_number(cells, n, "time_us_p75", row->us.p75);
    n = add_number(cells, n, "time_us_p95", row->us.p95);
    n = add_number(cells, n, "time_us_max", row->us.max);
    n = add_number(cells, n, "samples", (double)row->us.count);
    n = add_number(cells, n, "batch", (double)row->batch);
    cells[n++] = (bench_cell){ "reliable", CELL_BOOL, NULL, row->us.is_reliable };
    n = add_text(cells, n, "place", row->place);
    n = add_text(cells, n, "memory", row->memory);
    n = add_text(cells, n, "group", row->group);
    n = add_number(cells, n, "group_count", row->group_count);
    n = add_text(cells, n, "mode", row->mode);
    n = add_text(cells, n, "algorithm", row->algorithm);
    n = add_number(cells, n, "hosts", row->hosts);
    n = add_number(cells, n, "alone_us", row->alone_us);
    n = add_number(cells, n, "compute_us", row->compute_us);
    n = add_number(cells, n, "hidden_percent", row->us.is_reliable ? row->hidden_percent : NAN);
    n = add_number(cells, n, "src", row->src >= 0 ? (double)row->src : NAN);
    n = add_number(cells, n, "dst", row->dst >= 0 ? (double)row->dst : NAN);
    n = add_text(cells, n, "cores", row->cores);
    n = add_number(cells, n, "cores_before_ns", row->cores_before_ns);
    n = add_number(cells, n, "cores_after_ns", row->cores_after_ns);
    n = add_text(cells, n, "pair_link", row->pair_link);
    n = add_number(cells, n, "expected_gbps", row->expected_gbps);
    cells[n++] = (bench_cell){ "below_expected", CELL_BOOL, NULL, row->is_below };
    return n;
}

static void print_json_cell(FILE *out, const bench_cell *cell)
{
    if (cell->kind == CELL_TEXT)
        ki_json_string(out, cell->name, cell->text);
    else if (cell->kind == CELL_BOOL)
        ki_json_bool(out, cell->name, cell->number != 0);
    else
        ki_json_number(out, cell->name, cell->number);
}

void bench_rows_json(const bench_rows *rows, FILE *out)
{
    bench_cell cells[CELLS_MAX];
    fputc('[', out);
    for (size_t r = 0; r < rows->count; r++) {
        size_t count = fill_cells(&rows->list[r], cells);
        fputs(r > 0 ? ",\n " : "\n ", out);
        ki_json_restart();
        ki_json_open(out, NULL, '{');
        for (size_t i = 0; i < count; i++)
            print_json_cell(out, &cells[i]);
        ki_json_close(out, '}');
    }
    fputs("\n]", out);
}

static void print_csv_cell(FILE *out, const bench_cell *cell)
{
    if (cell->kind == CELL_TEXT) /* names: no comma, no quotation mark */
        fputs(cell->text, out);
    else if (cell->kind == CELL_BOOL)
        fputs(cell->number != 0 ? "true" : "false", out);
    else if (isfinite(cell->number))
        fprintf(out, "%.12g", cell->number);
}

void bench_rows_csv(const bench_rows *rows, FILE *out)
{
    bench_cell cells[CELLS_MAX];
    bench_row none = {
        .op = "", .dtype = "", .redop = "", .place = "", .memory = "", .mode = "", .link = "", .cores = ""
    };
    size_t count = fill_cells(&none, cells);
    for (size_t i = 0; i < count; i++)
        fprintf(out, "%s%s", i > 0 ? "," : "", cells[i].name);
    fputc('\n', out);
    for (size_t r = 0; r < rows->count; r++) {
        fill_cells(&rows->list[r], cells);
        for (size_t i = 0; i < count; i++) {
            if (i > 0)
                fputc(',', out);
            print_csv_cell(out, &cells[i]);
        }
        fputc('\n', out);
    }
}
