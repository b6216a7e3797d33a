/* tools/bench/matrix.c - what all_pairs measured, as matrices: times of the first size, bandwidths of the last.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "bench.h"

#include <math.h>
#include <string.h>

bool bench_matrix_is_shown(const bench_row *row)
{
    return row->src >= 0 && row->ranks <= BENCH_MATRIX_RANKS && row->ranks > 1;
}

static bool is_same_matrix(const bench_row *a, const bench_row *b)
{
    return b->src >= 0 && a->nbytes == b->nbytes && strcmp(a->dtype, b->dtype) == 0 &&
           strcmp(a->memory, b->memory) == 0;
}

/* Rows that differ in their sizes and pairs alone. */
static bool is_same_series(const bench_row *a, const bench_row *b)
{
    return b->src >= 0 && strcmp(a->dtype, b->dtype) == 0 && strcmp(a->memory, b->memory) == 0;
}

static void print_cell(FILE *out, const bench_row *rows, size_t count, int i, int j, bool is_time)
{
    for (size_t r = 0; r < count; r++) {
        const bench_row *row = &rows[r];
        if (!((row->src == i && row->dst == j) || (row->src == j && row->dst == i)))
            continue;
        double value = is_time ? row->us.median : row->algbw_gbps;
        if (!row->us.is_reliable)
            fprintf(out, " %8s", "?");
        else
            fprintf(out, value < 100 ? " %8.2f" : " %8.1f", value);
        return;
    }
    fprintf(out, " %8s", "-");
}

static void print_matrix(FILE *out, const bench_row *rows, size_t count, bool is_time)
{
    char size[32];
    int64_t wrong = 0;
    bench_size_print(rows->nbytes, size, sizeof size);
    fprintf(out, "\n# all_pairs, %s of %s, %s memory: %s\n     ", rows->dtype, size, rows->memory,
            is_time ? "us one way" : "GB/s one way");
    for (int j = 0; j < rows->ranks; j++)
        fprintf(out, " %8d", j);
    for (int i = 0; i < rows->ranks; i++) {
        fprintf(out, "\n%5d", i);
        for (int j = 0; j < rows->ranks; j++)
            print_cell(out, rows, count, i, j, is_time);
    }
    fputc('\n', out);
    for (size_t r = 0; r < count; r++)
        wrong += rows[r].errors > 0 ? rows[r].errors : 0;
    if (wrong > 0)
        fprintf(out, "# wrong elements: %lld\n", (long long)wrong);
}

static size_t run_length(const bench_row *rows, size_t count, bool (*is_same)(const bench_row *, const bench_row *))
{
    size_t length = 1;
    while (length < count && is_same(&rows[0], &rows[length]))
        length++;
    return length;
}

void bench_matrix_print(FILE *out, const bench_rows *all)
{
    for (size_t at = 0, series; at < all->count; at += series) {
        const bench_row *rows = &all->list[at];
        series = 1;
        if (!bench_matrix_is_shown(rows))
            continue;
        series = run_length(rows, all->count - at, is_same_series);
        size_t first = run_length(rows, series, is_same_matrix), last = 0;
        print_matrix(out, rows, first, true);
        for (size_t next = first; next < series; next += run_length(rows + next, series - next, is_same_matrix))
            last = next;
        print_matrix(out, rows + last, run_length(rows + last, series - last, is_same_matrix), false);
    }
}
