/* schedules/check_report.c - the counterexample as a table: ranks side by side, their lists downwards, the places in
 * question between '>' and '<', the first of an overlapped pair before a '&'.
 *
 *     rank 3: 3F0 is missing: each stage runs each microbatch forward once; 3B0 stands at position 1
 *
 *     position  rank 0  rank 1  rank 2  rank 3
 *            0  0F0     1F0     2F0     3F1
 *            1  0F1     1F1     2F1     >3B0<
 *
 * Of long plans it shows the neighbourhood: some positions around the place, and no more than COLUMNS ranks. Where the
 * places lie far apart, or the ranks stand still at different positions, each column is moved so that its own place
 * is in the middle, and the rows count from there.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "check.h"

#include "core/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COLUMNS 8
#define AROUND 8 /* rows before and after the place */
#define CELL_NBYTES 48

typedef struct table {
    const ki_checker *c;
    int ranks[COLUMNS]; /* shown, ascending */
    int columns;
    bool is_moved;          /* rows count from the middle of each column */
    size_t middle[COLUMNS]; /* 0 when not moved */
    long first, last;       /* rows */
    int width[COLUMNS];
} table;

static const ki_checker_mark *mark_of(const ki_checker *c, int rank)
{
    for (int i = c->mark_count - 1; i >= 0; i--)
        if (c->marks[i].rank == rank)
            return &c->marks[i];
    return NULL;
}

static bool is_shown(const table *t, int rank)
{
    for (int i = 0; i < t->columns; i++)
        if (t->ranks[i] == rank)
            return true;
    return false;
}

static void show(table *t, int rank)
{
    if (t->columns < COLUMNS && rank >= 0 && rank < t->c->plan->ranks && !is_shown(t, rank))
        t->ranks[t->columns++] = rank;
}

static int compare_ints(const void *a, const void *b)
{
    int left = *(const int *)a, right = *(const int *)b;
    return (left > right) - (left < right);
}

/* Those with marks, then their neighbours, near ones first. */
static void choose_ranks(table *t)
{
    for (int i = 0; i < t->c->mark_count; i++)
        show(t, t->c->marks[i].rank);
    for (int distance = 1; distance < t->c->plan->ranks && t->columns < COLUMNS; distance++)
        for (int i = 0; i < t->c->mark_count; i++) {
            show(t, t->c->marks[i].rank - distance);
            show(t, t->c->marks[i].rank + distance);
        }
    qsort(t->ranks, (size_t)t->columns, sizeof t->ranks[0], compare_ints);
}

static long longest_list(const ki_checker *c)
{
    size_t longest = 0;
    for (int rank = 0; rank < c->plan->ranks; rank++)
        longest = c->plan->lists[rank].count > longest ? c->plan->lists[rank].count : longest;
    return (long)longest;
}

static void choose_rows(table *t)
{
    const ki_checker *c = t->c;
    long low = (long)c->marks[0].position, high = low, longest = longest_list(c);
    for (int i = 1; i < c->mark_count; i++) {
        long position = (long)c->marks[i].position;
        low = position < low ? position : low;
        high = position > high ? position : high;
    }
    t->is_moved = longest > 2 * AROUND + 1 && (c->stand != NULL || high - low > AROUND);
    for (int i = 0; t->is_moved && i < t->columns; i++) {
        const ki_checker_mark *mark = mark_of(c, t->ranks[i]);
        size_t stand = c->stand != NULL ? c->stand[t->ranks[i]] : c->marks[0].position;
        t->middle[i] = mark != NULL ? mark->position : stand;
    }
    t->first = t->is_moved ? -AROUND : low - AROUND;
    t->last = t->is_moved ? AROUND : high + AROUND;
    if (longest <= 2 * AROUND + 1) {
        t->first = 0;
        t->last = high > longest - 1 ? high : longest - 1;
    }
    if (!t->is_moved && t->first < 0)
        t->first = 0;
    if (!t->is_moved && t->last > longest)
        t->last = longest;
}

static bool is_marked(const ki_checker *c, int rank, long position)
{
    for (int i = 0; i < c->mark_count; i++)
        if (c->marks[i].rank == rank && (long)c->marks[i].position == position)
            return true;
    return false;
}

static const char *cell(const table *t, int column, long row, char *buffer)
{
    int rank = t->ranks[column];
    const ki_action_list *list = &t->c->plan->lists[rank];
    long position = (long)t->middle[column] + row;
    bool has_action = position >= 0 && position < (long)list->count;
    char text[CELL_NBYTES - 4] = "";
    if (has_action)
        kith_action_text(&list->actions[position], text, sizeof text);
    bool is_overlapped = has_action && list->actions[position].is_overlapped;
    bool has_mark = is_marked(t->c, rank, position);
    snprintf(buffer, CELL_NBYTES, "%s%s%s%s", has_mark ? ">" : "", text, is_overlapped ? "&" : "", has_mark ? "<" : "");
    return buffer;
}

static void measure(table *t)
{
    char buffer[CELL_NBYTES];
    for (int column = 0; column < t->columns; column++) {
        t->width[column] = snprintf(buffer, sizeof buffer, "rank %d", t->ranks[column]);
        if (t->is_moved) {
            int width = snprintf(buffer, sizeof buffer, "at %zu", t->middle[column]);
            t->width[column] = width > t->width[column] ? width : t->width[column];
        }
        for (long row = t->first; row <= t->last; row++) {
            int width = (int)strlen(cell(t, column, row, buffer));
            t->width[column] = width > t->width[column] ? width : t->width[column];
        }
    }
}

static void add_cell(const table *t, ki_text *out, int column, const char *text)
{
    ki_text_add(out, "  %-*s", t->width[column], text);
}

/* Without blanks at the end of the line. */
static void end_line(ki_text *out)
{
    while (out->length > 0 && out->chars[out->length - 1] == ' ')
        out->chars[--out->length] = '\0';
    ki_text_add(out, "\n");
}

static void add_head(const table *t, ki_text *out)
{
    char buffer[CELL_NBYTES];
    ki_text_add(out, "%8s", t->is_moved ? "" : "position");
    for (int column = 0; column < t->columns; column++) {
        snprintf(buffer, sizeof buffer, "rank %d", t->ranks[column]);
        add_cell(t, out, column, buffer);
    }
    end_line(out);
    if (!t->is_moved)
        return;
    ki_text_add(out, "%8s", "position");
    for (int column = 0; column < t->columns; column++) {
        snprintf(buffer, sizeof buffer, "at %zu", t->middle[column]);
        add_cell(t, out, column, buffer);
    }
    end_line(out);
}

static void add_rows(const table *t, ki_text *out)
{
    char buffer[CELL_NBYTES];
    for (long row = t->first; row <= t->last; row++) {
        ki_text_add(out, t->is_moved && row != 0 ? "%+8ld" : "%8ld", row);
        for (int column = 0; column < t->columns; column++)
            add_cell(t, out, column, cell(t, column, row, buffer));
        end_line(out);
    }
}

char *ki_checker_report(const ki_checker *c, const char *sentence)
{
    table t = { .c = c };
    choose_ranks(&t);
    choose_rows(&t);
    measure(&t);
    ki_text out = { 0 };
    ki_text_add(&out, "%s\n\n", sentence);
    add_head(&t, &out);
    add_rows(&t, &out);
    if (out.is_failed) {
        ki_text_fini(&out);
        return NULL;
    }
    return out.chars;
}
