/* tools/compare/peers_text.c - Kith beside other libraries, for a terminal and for programs.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifdef KITH_HAVE_JANSSON
#include "peers.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define WIDTH_MOST 100
#define POINT_WIDTH 20 /* size and cores */
#define TIME_LEAST 11
#define RATIO_WIDTH 7

static int time_width(const ki_results *results, ki_word contender)
{
    char name[64];
    int width = (int)strlen(ki_contender_name(results, contender, name, sizeof(name))) + 2;
    return width > TIME_LEAST ? width : TIME_LEAST;
}

static int column_width(const ki_results *results, const ki_peer_table *table, int i)
{
    return time_width(results, table->contenders[i]) + (i < table->kith_count ? RATIO_WIDTH : 0);
}

static void print_heads(const ki_results *results, const ki_peer_table *table, int first, int end, FILE *out)
{
    char name[64];
    fprintf(out, "%12s%8s", "size", "cores");
    for (int i = first; i < end; i++) {
        fprintf(out, "%*s", time_width(results, table->contenders[i]),
                ki_contender_name(results, table->contenders[i], name, sizeof(name)));
        if (i < table->kith_count)
            fprintf(out, "%*s", RATIO_WIDTH, "ratio");
    }
    fputc('\n', out);
}

static void print_ratio(double ratio, FILE *out)
{
    if (isnan(ratio))
        fprintf(out, "%*s", RATIO_WIDTH, "-");
    else
        fprintf(out, "%*.3g", RATIO_WIDTH, ratio);
}

static void print_figure(const ki_results *results, const ki_peer_table *table, const ki_figure *figure, int first,
                         int end, FILE *out)
{
    char size[64], time[32];
    fprintf(out, "%12s%8s", figure->nbytes > 0 ? ki_size_name(figure->nbytes, size, sizeof(size)) : "-",
            ki_words_text(&results->words, figure->cores));
    for (int i = first; i < end; i++) {
        double us = ki_figure_us(figure, table->contenders[i]);
        fprintf(out, "%*s", time_width(results, table->contenders[i]),
                isnan(us) ? "-" : ki_time_name(us, time, sizeof(time)));
        if (i < table->kith_count)
            print_ratio(ki_figure_ratio(results, figure, table->contenders[i]), out);
    }
    fputc('\n', out);
}

static void print_means(const ki_results *results, const ki_peer_table *table, int first, int end, FILE *out)
{
    size_t count;
    fprintf(out, "%12s%8s", "mean", "");
    for (int i = first; i < end; i++) {
        fprintf(out, "%*s", time_width(results, table->contenders[i]), "");
        print_ratio(ki_peer_table_mean(results, table, table->contenders[i], &count), out);
    }
    fputc('\n', out);
}

/* As many contenders beside each other as there is room for; Kith's in blocks of their own. */
static void print_table(const ki_results *results, const ki_peer_table *table, FILE *out)
{
    for (int first = 0, end; first < table->contender_count; first = end) {
        int width = POINT_WIDTH, limit = first < table->kith_count ? table->kith_count : table->contender_count;
        for (end = first; end < limit && (end == first || width + column_width(results, table, end) <= WIDTH_MOST);
             end++)
            width += column_width(results, table, end);
        print_heads(results, table, first, end, out);
        for (size_t f = 0; f < table->count; f++)
            print_figure(results, table, &table->figures[f], first, end, out);
        if (first < table->kith_count)
            print_means(results, table, first, end, out);
    }
}

void ki_compare_text_peers(const ki_comparison *c, FILE *out)
{
    const ki_results *results = c->results;
    char name[256];
    if (results->figure_count == 0)
        return;
    fputs("\nKith beside its peers: a ratio says how many times as fast as the fastest peer of that size, mean is the\n"
          "geometric one over sizes; all times of a line were taken on cores of one class\n",
          out);
    for (size_t first = 0; first < results->figure_count;) {
        ki_peer_table table = ki_peer_table_at(results, first);
        fprintf(out, "\n%s\n", ki_peer_table_name(results, &table, name, sizeof(name)));
        print_table(results, &table, out);
        first += table.count;
    }
}

/* ---- CSV ---- */

/* "2 ranks" is a number of ranks, anything else ("tcp") has none. */
static int ranks_of(const char *section)
{
    char *end;
    long ranks = strtol(section, &end, 10);
    return strcmp(end, " ranks") == 0 && ranks > 0 ? (int)ranks : 0;
}

static void write_contender(const ki_results *results, const ki_figure *figure, const ki_contender_time *time,
                            FILE *out)
{
    char name[64], peer_name[64];
    const ki_words *words = &results->words;
    const char *section = ki_words_text(words, figure->section);
    ki_word peer = strncmp(ki_words_text(words, time->contender), "kith-", 5) == 0
                       ? ki_figure_best_peer(results, figure, time->contender)
                       : 0;
    ki_csv_text(out, ki_words_text(words, figure->op));
    fputs(",,", out); /* dtype, redop */
    ki_csv_whole(out, ranks_of(section) > 0 ? ranks_of(section) : -1);
    ki_csv_whole(out, figure->nbytes);
    ki_csv_text(out, ranks_of(section) > 0 ? "" : section);
    fputs(",,", out); /* memory, group */
    ki_csv_text(out, ki_words_text(words, figure->mode));
    fputs(",,", out); /* src, dst */
    ki_contender_name(results, time->contender, name, sizeof(name));
    ki_csv_text(out, name);
    ki_csv_text(out, ki_words_text(words, results->files[figure->file].label));
    ki_csv_text(out, name);
    fputc(',', out); /* link */
    ki_csv_number(out, time->us);
    fputs(",,,,,,,,,,", out); /* p25 to below_expected */
    ki_csv_text(out, ki_words_text(words, figure->cores));
    ki_csv_text(out, peer != 0 ? ki_contender_name(results, peer, peer_name, sizeof(peer_name)) : "");
    ki_csv_number(out, peer != 0 ? ki_figure_ratio(results, figure, time->contender) : NAN);
    fputs(",,,peers\n", out); /* ratio_low, ratio_high, p */
}

void ki_compare_csv_peers(const ki_comparison *c, FILE *out)
{
    const ki_results *results = c->results;
    for (size_t f = 0; f < results->figure_count; f++)
        for (int i = 0; i < results->figures[f].count; i++)
            write_contender(results, &results->figures[f], &results->figures[f].times[i], out);
}

#else
typedef int ki_compare_peers_text_needs_jansson; /* a file must not be empty */
#endif
