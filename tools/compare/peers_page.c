/* tools/compare/peers_page.c - the tables of Kith beside other libraries on the page.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifdef KITH_HAVE_JANSSON
#include "../draw.h"
#include "peers.h"

#include <math.h>

static void head(FILE *out, const char *text)
{
    fputs("<th scope=\"col\" class=\"n\">", out);
    ki_text_escape(out, text);
    fputs("</th>", out);
}

static void open_table(const ki_results *results, const ki_peer_table *table, int first, int end, FILE *out)
{
    char name[64];
    fputs("<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Kith beside its peers\"><table><thead>"
          "<tr>",
          out);
    head(out, "size");
    fputs("<th scope=\"col\">cores</th>", out);
    for (int i = first; i < end; i++) {
        head(out, ki_contender_name(results, table->contenders[i], name, sizeof(name)));
        if (i < table->kith_count)
            head(out, "ratio");
    }
    fputs("</tr></thead><tbody>\n", out);
}

static void ratio_cell(double ratio, FILE *out)
{
    if (isnan(ratio))
        fputs("<td class=\"n soft\">&ndash;</td>", out);
    else
        fprintf(out, "<td class=\"n%s\">%.3g</td>", ratio > 1 ? " faster" : ratio < 1 ? " slower" : "", ratio);
}

static void time_cell(double us, bool is_best, FILE *out)
{
    char time[32];
    if (isnan(us)) {
        fputs("<td class=\"n soft\">&ndash;</td>", out);
        return;
    }
    fputs(is_best ? "<td class=\"n\"><b>" : "<td class=\"n\">", out);
    ki_text_escape(out, ki_time_name(us, time, sizeof(time)));
    fputs(is_best ? "</b></td>" : "</td>", out);
}

static void figure_row(const ki_results *results, const ki_peer_table *table, const ki_figure *figure, int first,
                       int end, FILE *out)
{
    char size[64];
    fprintf(out, "<tr><th scope=\"row\" class=\"n\">%s</th>",
            figure->nbytes > 0 ? ki_size_name(figure->nbytes, size, sizeof(size)) : "&ndash;");
    ki_html_cell(out, ki_words_text(&results->words, figure->cores));
    for (int i = first; i < end; i++) {
        ki_word contender = table->contenders[i];
        bool is_peer = i >= table->kith_count;
        time_cell(ki_figure_us(figure, contender),
                  is_peer && ki_figure_best_peer(results, figure, contender) == contender, out);
        if (!is_peer)
            ratio_cell(ki_figure_ratio(results, figure, contender), out);
    }
    fputs("</tr>\n", out);
}

static void mean_row(const ki_results *results, const ki_peer_table *table, int first, int end, FILE *out)
{
    size_t count;
    fputs("<tr><th scope=\"row\" class=\"n\">mean</th><td></td>", out);
    for (int i = first; i < end; i++) {
        fputs("<td></td>", out);
        ratio_cell(ki_peer_table_mean(results, table, table->contenders[i], &count), out);
    }
    fputs("</tr>\n", out);
}

/* As many contenders in a table as fit on paper; Kith's in tables of their own. */
static void write_table(const ki_results *results, const ki_peer_table *table, FILE *out)
{
    enum { KITH_MOST = 5, PEERS_MOST = 7 };
    for (int first = 0, end; first < table->contender_count; first = end) {
        bool is_kith = first < table->kith_count;
        int limit = is_kith ? table->kith_count : table->contender_count;
        end = first + (is_kith ? KITH_MOST : PEERS_MOST);
        end = end < limit ? end : limit;
        open_table(results, table, first, end, out);
        for (size_t f = 0; f < table->count; f++)
            figure_row(results, table, &table->figures[f], first, end, out);
        if (is_kith)
            mean_row(results, table, first, end, out);
        ki_html_table_end(out);
    }
}

/* One line a table: how many times as fast as the best peer, the geometric mean over sizes. */
static void write_means(const ki_results *results, FILE *out)
{
    static const char *const heads[] = { "What", "Kith's", "Mean ratio to the best peer", "Sizes", NULL };
    char name[256], contender[64];
    ki_html_table(out, "Kith beside the best peer, means", NULL, heads, "--nn");
    for (size_t first = 0; first < results->figure_count;) {
        ki_peer_table table = ki_peer_table_at(results, first);
        for (int i = 0; i < table.kith_count; i++) {
            size_t count;
            double mean = ki_peer_table_mean(results, &table, table.contenders[i], &count);
            if (isnan(mean))
                continue;
            fputs("<tr><th scope=\"row\">", out);
            ki_text_escape(out, ki_peer_table_name(results, &table, name, sizeof(name)));
            fputs("</th>", out);
            ki_html_cell(out, ki_contender_name(results, table.contenders[i], contender, sizeof(contender)));
            ratio_cell(mean, out);
            fprintf(out, "<td class=\"n\">%zu</td></tr>\n", count);
        }
        first += table.count;
    }
    ki_html_table_end(out);
}

void ki_compare_page_peers(const ki_comparison *c, FILE *out)
{
    const ki_results *results = c->results;
    char name[256];
    fputs("<h3>Means</h3>\n", out);
    write_means(results, out);
    for (size_t first = 0; first < results->figure_count;) {
        ki_peer_table table = ki_peer_table_at(results, first);
        fputs("<h3>", out);
        ki_text_escape(out, ki_peer_table_name(results, &table, name, sizeof(name)));
        fputs("</h3>\n", out);
        write_table(results, &table, out);
        first += table.count;
    }
}

#else
typedef int ki_compare_peers_page_needs_jansson; /* a file must not be empty */
#endif
