/* tools/compare/text.c - tables for a terminal, at most 100 columns wide: a panel each, a line a size, the times of all
 * series and their ratios. Pairs of ranks are a grid for each series instead.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifdef KITH_HAVE_JANSSON
#include "peers.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define WIDTH_MOST 100
#define POINT_WIDTH 12
#define PLAIN_WIDTH 11    /* a time; more when the name is longer, up to the next */
#define COMPARED_WIDTH 22 /* a time, a ratio and its mark */
#define GRID_MOST 12      /* ranks in a grid that is printed */

/* Columns that a text of UTF-8 takes, as far as characters are one wide. */
static int width_of(const char *text)
{
    int width = 0;
    for (; *text != '\0'; text++)
        width += ((unsigned char)*text & 0xc0) != 0x80;
    return width;
}

/* A text in a column, to the right. */
static void print_right(FILE *out, const char *text, int width)
{
    int have = width_of(text);
    fprintf(out, "%*s%s", have < width ? width - have : 0, "", text);
}

/* The last so many characters. */
static const char *tail_of(const char *text, int count)
{
    const char *end = text + strlen(text);
    while (end > text && (count > 0 || ((unsigned char)*end & 0xc0) == 0x80)) {
        end--;
        count -= ((unsigned char)*end & 0xc0) != 0x80;
    }
    return end;
}

/* The same of a name; what does not fit is left out in its middle, as names differ at their ends. */
static void print_name(FILE *out, const char *name, int width)
{
    if (width_of(name) <= width) {
        print_right(out, name, width);
        return;
    }
    int head = (width - 1) / 2, taken = 0;
    for (const char *p = name; taken < head || ((unsigned char)*p & 0xc0) == 0x80; p++) {
        taken += ((unsigned char)p[1] & 0xc0) != 0x80; /* complete with this byte */
        fputc(*p, out);
    }
    fprintf(out, "~%s", tail_of(name, width - 1 - head));
}

static bool is_in_panel(const ki_comparison *c, const ki_panel *panel, int series)
{
    bool is_all;
    return !ki_panel_lacks(c, panel, series, &is_all) || !is_all;
}

static int column_width(const ki_comparison *c, int series)
{
    int name = width_of(c->series[series].name) + 2;
    if (c->series[series].baseline >= 0 || name > COMPARED_WIDTH)
        return COMPARED_WIDTH;
    return name > PLAIN_WIDTH ? name : PLAIN_WIDTH;
}

/* The cell of a value; empty when there is none. */
static void value_text(const ki_comparison *c, const ki_value *value, int series, char *cell, size_t nbytes)
{
    char time[32];
    cell[0] = '\0';
    if (value == NULL)
        return;
    ki_time_name(value->time_us, time, sizeof(time));
    if (c->series[series].baseline < 0)
        snprintf(cell, nbytes, "%s%s", time, value->errors > 0 ? "!" : "");
    else if (isnan(value->speed.ratio))
        snprintf(cell, nbytes, "%9s %6s %s", time, "", ki_value_mark(value));
    else
        snprintf(cell, nbytes, "%9s %6.3g %s", time, value->speed.ratio, ki_value_mark(value));
}

static void print_values(const ki_comparison *c, const ki_match *match, const int *shown, int first, int end, FILE *out)
{
    char cell[64];
    int empty = 0; /* columns, which are written before the next cell that has something */
    for (int i = first; i < end; i++) {
        int width = column_width(c, shown[i]);
        value_text(c, match->values[shown[i]], shown[i], cell, sizeof(cell));
        if (cell[0] == '\0') {
            empty += width;
            continue;
        }
        int spaces = 0; /* at its end, where a mark could be */
        for (size_t end_at = strlen(cell); end_at > 0 && cell[end_at - 1] == ' '; end_at--)
            spaces++;
        cell[strlen(cell) - (size_t)spaces] = '\0';
        fprintf(out, "%*s", empty, "");
        print_right(out, cell, width - spaces);
        empty = spaces;
    }
    fputc('\n', out);
}

/* The series [first, end) of shown. */
static void print_columns(const ki_comparison *c, const ki_panel *panel, const int *shown, int first, int end,
                          FILE *out)
{
    char size[64];
    print_right(out, panel->is_pairs ? "ranks" : "size", POINT_WIDTH);
    for (int i = first; i < end; i++) {
        fputc(' ', out);
        print_name(out, c->series[shown[i]].name, column_width(c, shown[i]) - 1);
    }
    fputc('\n', out);
    for (size_t m = panel->first; m < panel->first + panel->count; m++) {
        print_right(out, ki_match_name(&c->matches[m], size, sizeof(size)), POINT_WIDTH);
        print_values(c, &c->matches[m], shown, first, end, out);
    }
}

/* As many series beside each other as there is room for. */
static void print_table(const ki_comparison *c, const ki_panel *panel, FILE *out)
{
    int shown[KI_SERIES_MAX], count = 0;
    for (int s = 0; s < c->series_count; s++)
        if (is_in_panel(c, panel, s))
            shown[count++] = s;
    for (int first = 0, end; first < count; first = end) {
        int width = POINT_WIDTH;
        for (end = first; end < count && (end == first || width + column_width(c, shown[end]) <= WIDTH_MOST); end++)
            width += column_width(c, shown[end]);
        print_columns(c, panel, shown, first, end, out);
    }
}

/* ---- pairs ---- */

static void print_pair(const ki_comparison *c, const ki_panel *panel, int series, int from, int to, FILE *out)
{
    const ki_value *value = ki_pair_value(c, panel, series, from, to);
    double reading = ki_pair_reading(panel, value);
    if (value == NULL)
        fprintf(out, " %6s", "-");
    else if (isnan(reading))
        fprintf(out, " %6s", "?");
    else
        fprintf(out, reading < 1000 ? " %*.3g%s" : " %*.0f%s", value->row->is_slow ? 5 : 6, reading,
                value->row->is_slow ? "<" : "");
}

static void print_grid(const ki_comparison *c, const ki_panel *panel, int series, int ranks, FILE *out)
{
    fprintf(out, "  %s, %s\n  from\\to", c->series[series].name, ki_pairs_show_time(panel) ? "us" : "GB/s");
    for (int to = 0; to < ranks; to++)
        fprintf(out, " %6d", to);
    fputc('\n', out);
    for (int from = 0; from < ranks; from++) {
        fprintf(out, "  %7d", from);
        for (int to = 0; to < ranks; to++)
            print_pair(c, panel, series, from, to, out);
        fputc('\n', out);
    }
    if (ki_panel_has_slow(c, panel, series))
        fputs("  <: below what the link of the pair, or the median of its like, lets expect\n", out);
}

static void print_pairs(const ki_comparison *c, const ki_panel *panel, FILE *out)
{
    int ranks = ki_pair_ranks(c, panel);
    if (ranks > GRID_MOST) {
        fprintf(out, "  pairs of %d ranks: see --html or --csv\n", ranks);
        return;
    }
    for (int s = 0; s < c->series_count; s++)
        if (is_in_panel(c, panel, s))
            print_grid(c, panel, s, ranks, out);
}

/* ---- all ---- */

static void print_files(const ki_comparison *c, FILE *out)
{
    const ki_results *results = c->results;
    for (int i = 0; i < results->file_count; i++) {
        const ki_file *file = &results->files[i];
        const char *date = ki_words_text(&results->words, file->facts[KI_FACT_DATE]);
        const char *cpu = ki_words_text(&results->words, file->facts[KI_FACT_CPU]);
        const char *cut_off = ki_words_text(&results->words, file->facts[KI_FACT_CUT_OFF]);
        fprintf(out, "%s: %zu row%s of %s%s%s%s%s%s%s\n", ki_words_text(&results->words, file->label), file->row_count,
                file->row_count == 1 ? "" : "s", ki_words_text(&results->words, file->name),
                date[0] != '\0' ? ", " : "", date, cpu[0] != '\0' ? ", " : "", cpu,
                cut_off[0] != '\0' ? ", cut off by " : "", cut_off);
    }
}

/* Adds a text to a list, on a new line when the line is full. */
static void print_item(FILE *out, const char *between, const char *text, int *column)
{
    int width = width_of(between) + width_of(text);
    if (*column > 0 && *column + width > WIDTH_MOST) {
        fprintf(out, "%s\n    ", between[0] == ',' ? "," : "");
        between = between[0] == ',' ? "" : between + 1;
        *column = 4;
    }
    fprintf(out, "%s%s", between, text);
    *column += width;
}

/* Who is beside this baseline; -1: beside none. */
static void print_beside(const ki_comparison *c, int baseline, FILE *out)
{
    int column = 0;
    for (int s = 0; s < c->series_count; s++)
        if (c->series[s].baseline == baseline && !c->series[s].is_baseline)
            print_item(out, column > 0 ? ", " : "", c->series[s].name, &column);
    if (column == 0)
        return;
    print_item(out, " beside ", baseline >= 0 ? c->series[baseline].name : "nothing", &column);
    fputs(baseline >= 0 ? "\n" : ", as the baseline has no such backend and link; see --baseline\n", out);
}

void ki_compare_text(const ki_comparison *c, FILE *out)
{
    char name[256];
    print_files(c, out);
    for (int baseline = -1; baseline < c->series_count && c->series_count > 1; baseline++)
        print_beside(c, baseline, out);
    for (size_t i = 0; i < c->panel_count; i++) {
        fprintf(out, "\n%s\n", ki_panel_name(c, &c->panels[i], name, sizeof(name)));
        if (c->panels[i].is_pairs)
            print_pairs(c, &c->panels[i], out);
        else
            print_table(c, &c->panels[i], out);
    }
    ki_compare_text_peers(c, out);
    ki_compare_text_lists(c, out);
}

#else
typedef int ki_compare_text_needs_jansson; /* a file must not be empty */
#endif
