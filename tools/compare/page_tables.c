/* tools/compare/page_tables.c - tables of the page: means, every panel, what stands on one side alone, machines.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifdef KITH_HAVE_JANSSON
#include "../draw.h"
#include "compare.h"

#include <math.h>

static void open_frame(FILE *out, const char *label)
{
    fprintf(out, "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"%s\"><table><thead><tr>", label);
}

static void head(FILE *out, const char *text, const char *attributes)
{
    fprintf(out, "<th scope=\"col\"%s>", attributes);
    ki_text_escape(out, text);
    fputs("</th>", out);
}

/* ---- means ---- */

static void mean_row(const char *what, const char *series, const ki_mean *mean, FILE *out)
{
    if (mean->count == 0)
        return;
    fputs("<tr><th scope=\"row\">", out);
    ki_text_escape(out, what);
    fputs("</th>", out);
    ki_html_cell(out, series);
    fprintf(out,
            "<td class=\"n\"><b>%.3g</b></td><td class=\"n\">%.3g</td><td class=\"n\">%.3g</td><td class=\"n\">%zu</td>"
            "<td class=\"n\">%zu</td><td class=\"n\">%zu</td><td class=\"n\">%zu</td></tr>\n",
            mean->ratio, mean->low, mean->high, mean->count, mean->faster, mean->slower, mean->other);
}

/* Who is beside this baseline; -1: beside none. */
static void write_beside(const ki_comparison *c, int baseline, FILE *out)
{
    int count = 0;
    for (int s = 0; s < c->series_count; s++) {
        if (c->series[s].baseline != baseline || c->series[s].is_baseline)
            continue;
        fputs(count++ > 0 ? ", " : " ", out);
        ki_text_escape(out, c->series[s].name);
    }
    if (count == 0)
        return;
    fputs(count == 1 ? " is beside " : " are beside ", out);
    ki_text_escape(out,
                   baseline >= 0 ? c->series[baseline].name : "nothing, as the baseline has no such backend and link");
    fputs(".", out);
}

void ki_compare_page_means(const ki_comparison *c, FILE *out)
{
    static const char *const heads[] = { "What",   "Series", "Mean ratio", "Least",     "Largest",
                                         "Points", "Faster", "Slower",     "Undecided", NULL };
    char name[256];
    fputs("<section id=\"means\"><h2>Means</h2>\n<p class=\"soft\">Geometric means of the ratios over all sizes: how "
          "many times as fast as the baseline.",
          out);
    for (int baseline = -1; baseline < c->series_count; baseline++)
        write_beside(c, baseline, out);
    fputs("</p>\n", out);
    ki_html_table(out, "Geometric means", NULL, heads, "--nnnnnnn");
    for (size_t i = 0; i < c->panel_count; i++)
        for (int s = 0; s < c->series_count; s++) {
            ki_mean mean = ki_mean_of(c, s, c->panels[i].first, c->panels[i].count);
            mean_row(ki_panel_name(c, &c->panels[i], name, sizeof(name)), c->series[s].name, &mean, out);
        }
    for (int s = 0; s < c->series_count && c->panel_count > 1; s++) {
        ki_mean mean = ki_mean_of(c, s, 0, c->match_count);
        mean_row("all", c->series[s].name, &mean, out);
    }
    ki_html_table_end(out);
    fputs("</section>\n", out);
}

/* ---- panels ---- */

static bool is_in_panel(const ki_comparison *c, const ki_panel *panel, int series)
{
    bool is_all;
    return !ki_panel_lacks(c, panel, series, &is_all) || !is_all;
}

static void ratio_cell(const ki_value *value, FILE *out)
{
    static const char *const marks[] = { "", "+", "&minus;", "~", "=", "", "", "c" };
    bool has_brackets = value != NULL && ki_value_mark(value)[0] == '(';
    static const char *const classes[] = { "", " faster", " slower", "", "", "", "", "" };
    if (value != NULL && value->verdict == KI_VERDICT_CORES) {
        fputs("<td class=\"n soft\" title=\"cores of another class, or moved\">c</td>", out);
        return;
    }
    if (value == NULL || isnan(value->speed.ratio)) {
        fputs("<td class=\"n\"></td>", out);
        return;
    }
    fprintf(out, "<td class=\"n%s\"", classes[value->verdict]);
    if (!isnan(value->speed.low))
        fprintf(out, " title=\"95 %% interval %.3g to %.3g, p %.2g\"", value->speed.low, value->speed.high,
                value->speed.p);
    fprintf(out, ">%.3g %s%s%s</td>", value->speed.ratio, has_brackets ? "(" : "", marks[value->verdict],
            has_brackets ? ")" : "");
}

static void time_cell(const ki_value *value, FILE *out)
{
    char time[32], low[32];
    if (value == NULL) {
        fputs("<td class=\"n soft\">&ndash;</td>", out);
        return;
    }
    fputs("<td class=\"n\">", out);
    if (value->errors > 0)
        fputs("<span class=\"bad\">wrong</span> ", out);
    if (!isnan(value->time_us))
        ki_text_escape(out, ki_time_name(value->time_us, time, sizeof(time)));
    else if (!isnan(value->p25) && !isnan(value->p75))
        fprintf(out, "<span class=\"bad\">%s to %s</span>", ki_time_name(value->p25, low, sizeof(low)),
                ki_time_name(value->p75, time, sizeof(time)));
    else
        fputs("<span class=\"bad\">unreliable</span>", out);
    if (!isnan(value->hidden))
        fprintf(out, " <span class=\"soft\">(%.0f %% hidden)</span>", value->hidden);
    fputs("</td>", out);
}

static void value_cells(const ki_comparison *c, const ki_value *value, int series, FILE *out)
{
    time_cell(value, out);
    if (value == NULL || !(value->busbw > 0))
        fputs("<td class=\"n\"></td>", out);
    else
        fprintf(out, "<td class=\"n\">%.4g</td>", value->busbw);
    if (c->series[series].baseline >= 0)
        ratio_cell(value, out);
}

/* A table of the series shown[0] to shown[count - 1]. */
static void panel_head(const ki_comparison *c, const ki_panel *panel, const int *shown, int count, FILE *out)
{
    fprintf(out, "<th rowspan=\"2\" scope=\"col\" class=\"n\">%s</th>", panel->is_pairs ? "ranks" : "size");
    for (int i = 0; i < count; i++)
        head(out, c->series[shown[i]].name,
             c->series[shown[i]].baseline >= 0 ? " colspan=\"3\" class=\"of\"" : " colspan=\"2\" class=\"of\"");
    fputs("</tr><tr>", out);
    for (int i = 0; i < count; i++)
        fprintf(out, "<th scope=\"col\" class=\"n of\">time</th><th scope=\"col\" class=\"n\">GB/s</th>%s",
                c->series[shown[i]].baseline >= 0 ? "<th scope=\"col\" class=\"n\">ratio</th>" : "");
    fputs("</tr></thead><tbody>\n", out);
}

static void write_table(const ki_comparison *c, const ki_panel *panel, const int *shown, int count, FILE *out)
{
    char name[64];
    open_frame(out, "Times and ratios");
    panel_head(c, panel, shown, count, out);
    for (size_t m = panel->first; m < panel->first + panel->count; m++) {
        fprintf(out, "<tr><th scope=\"row\" class=\"n\">%s</th>", ki_match_name(&c->matches[m], name, sizeof(name)));
        for (int i = 0; i < count; i++)
            value_cells(c, ki_value_at(c, m, shown[i]), shown[i], out);
        fputs("</tr>\n", out);
    }
    ki_html_table_end(out);
}

/* As many series in a table as fit on paper. */
static void write_panel(const ki_comparison *c, const ki_panel *panel, FILE *out)
{
    enum { COLUMNS_MOST = 14 };
    char name[256];
    int shown[KI_SERIES_MAX], count = 0, columns = 0;
    fputs("<h3>", out);
    ki_text_escape(out, ki_panel_name(c, panel, name, sizeof(name)));
    fputs("</h3>\n", out);
    if (panel->is_pairs) /* long, and its picture says the same */
        fprintf(out, "<details><summary>%zu pairs</summary>\n", panel->count);
    for (int s = 0; s < c->series_count; s++) {
        int more = c->series[s].baseline >= 0 ? 3 : 2;
        if (!is_in_panel(c, panel, s))
            continue;
        if (columns + more > COLUMNS_MOST) {
            write_table(c, panel, shown, count, out);
            count = columns = 0;
        }
        shown[count++] = s;
        columns += more;
    }
    write_table(c, panel, shown, count, out);
    fputs(panel->is_pairs ? "</details>\n" : "", out);
}

void ki_compare_page_panels(const ki_comparison *c, FILE *out)
{
    fputs("<section id=\"tables\"><h2>Tables</h2>\n<p class=\"soft\">Median times, bus bandwidths and ratios. + faster "
          "and "
          "&minus; slower than the baseline beyond chance, ~ not, = not tested, c not compared, as "
          "the cores were of another class; where a median is not reliable, the "
          "middle "
          "half of the samples stands instead.</p>\n",
          out);
    if (ki_has_marks_of_one_run(c))
        fprintf(out, "<p>(+) and (&minus;) are + and &minus; within one run. %s</p>\n", ki_one_run_sentence);
    for (size_t i = 0; i < c->panel_count; i++)
        write_panel(c, &c->panels[i], out);
    fputs("</section>\n", out);
}

/* ---- lists ---- */

static void lack_item(const char *panel, const char *before, const char *what, const char *series, bool *is_first,
                      FILE *out)
{
    fputs(*is_first ? "<section><h2>Not in every series</h2>\n<ul>\n<li>" : "<li>", out);
    *is_first = false;
    ki_text_escape(out, panel);
    fprintf(out, ": %s%s in ", before, what);
    ki_text_escape(out, series);
    fputs("</li>\n", out);
}

static void write_one_sided(const ki_comparison *c, FILE *out)
{
    enum { LIST_NBYTES = 400 };
    char name[256], list[LIST_NBYTES];
    bool is_first = true, is_all;
    for (size_t i = 0; i < c->panel_count; i++) {
        const ki_panel *panel = &c->panels[i];
        ki_panel_name(c, panel, name, sizeof(name));
        if (ki_strangers_name(c, panel, list, sizeof(list)) > 0)
            lack_item(name, "nothing of it", "", list, &is_first, out);
        for (int s = 0; s < c->series_count; s++) {
            if (!ki_panel_lacks(c, panel, s, &is_all) || is_all)
                continue;
            ki_missing_name(c, panel, s, list, sizeof(list));
            lack_item(name, "no ", list, c->series[s].name, &is_first, out);
        }
    }
    fputs(is_first ? "" : "</ul></section>\n", out);
}

static void write_absences(const ki_comparison *c, FILE *out)
{
    static const char *const heads[] = { "File", "Link", "Why", NULL };
    const ki_results *results = c->results;
    if (results->absence_count == 0)
        return;
    fputs("<section><h2>Links that are not there</h2>\n", out);
    ki_html_table(out, "Links that are not there", NULL, heads, "---");
    for (size_t i = 0; i < results->absence_count; i++) {
        const ki_absence *absence = &results->absences[i];
        fputs("<tr>", out);
        ki_html_cell(out, ki_words_text(&results->words, results->files[absence->file].label));
        ki_html_cell(out, ki_words_text(&results->words, absence->link));
        ki_html_cell(out, ki_words_text(&results->words, absence->reason));
        fputs("</tr>\n", out);
    }
    ki_html_table_end(out);
    fputs("</section>\n", out);
}

static void write_worse(const ki_comparison *c, FILE *out)
{
    char name[256], point[64];
    size_t count = ki_worse_count(c);
    if (c->threshold < 0)
        return;
    fprintf(out, "<section><h2>Slower by more than %g %%, or wrong</h2>\n%s\n", c->threshold,
            count == 0 ? "<p>Nothing.</p>" : "<ul>");
    for (size_t i = 0; i < c->panel_count; i++)
        for (size_t m = c->panels[i].first; m < c->panels[i].first + c->panels[i].count; m++)
            for (int s = 0; s < c->series_count; s++) {
                if (!ki_value_is_worse(c, &c->matches[m], s))
                    continue;
                const ki_value *value = ki_value_at(c, m, s);
                fputs("<li>", out);
                ki_text_escape(out, ki_panel_name(c, &c->panels[i], name, sizeof(name)));
                if (c->matches[m].point.nbytes > 0)
                    fprintf(out, ", %s", ki_match_name(&c->matches[m], point, sizeof(point)));
                fputs(": ", out);
                ki_text_escape(out, c->series[s].name);
                if (value->errors > 0)
                    fputs(" has wrong elements</li>\n", out);
                else
                    fprintf(out, " takes %.1f %% longer</li>\n", 100 * (1 / value->speed.ratio - 1));
            }
    fputs(count == 0 ? "</section>\n" : "</ul></section>\n", out);
}

void ki_compare_page_lists(const ki_comparison *c, FILE *out)
{
    write_one_sided(c, out);
    write_absences(c, out);
    write_worse(c, out);
}

/* ---- machines and commands ---- */

static bool is_said(const ki_results *results, ki_fact fact)
{
    for (int i = 0; i < results->file_count; i++)
        if (results->files[i].facts[fact] != 0)
            return true;
    return false;
}

static void fact_row(const ki_results *results, ki_fact fact, FILE *out)
{
    fprintf(out, "<tr><th scope=\"row\">%s</th>", ki_fact_name(fact));
    for (int i = 0; i < results->file_count; i++) {
        ki_word word = results->files[i].facts[fact];
        ki_html_cell(out, word == 0 ? NULL : ki_words_text(&results->words, word));
    }
    fputs("</tr>\n", out);
}

static void write_commands(const ki_results *results, FILE *out)
{
    fputs("<h3>Commands</h3>\n<p class=\"soft\">To measure again:</p>\n<dl>\n", out);
    for (int i = 0; i < results->file_count; i++) {
        const ki_file *file = &results->files[i];
        if (file->facts[KI_FACT_COMMAND] == 0)
            continue;
        fputs("<dt>", out);
        ki_text_escape(out, ki_words_text(&results->words, file->label));
        fputs("</dt><dd><code>", out);
        ki_text_escape(out, ki_words_text(&results->words, file->facts[KI_FACT_COMMAND]));
        fputs("</code></dd>\n", out);
    }
    fputs("</dl>\n", out);
}

void ki_compare_page_files(const ki_comparison *c, FILE *out)
{
    const ki_results *results = c->results;
    fputs("<section id=\"machines\"><h2>Machines and versions</h2>\n", out);
    open_frame(out, "Machines and versions");
    fputs("<td></td>", out);
    for (int i = 0; i < results->file_count; i++)
        head(out, ki_words_text(&results->words, results->files[i].label), "");
    fputs("</tr></thead><tbody>\n<tr><th scope=\"row\">File</th>", out);
    for (int i = 0; i < results->file_count; i++)
        ki_html_cell(out, ki_words_text(&results->words, results->files[i].name));
    fputs("</tr>\n", out);
    for (int fact = 0; fact < KI_FACT_COMMAND; fact++)
        if (is_said(results, (ki_fact)fact))
            fact_row(results, (ki_fact)fact, out);
    ki_html_table_end(out);
    if (is_said(results, KI_FACT_COMMAND))
        write_commands(results, out);
    fputs("</section>\n", out);
}

#else
typedef int ki_compare_page_tables_needs_jansson; /* a file must not be empty */
#endif
