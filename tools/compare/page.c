/* tools/compare/page.c - the page: one file that needs nothing else, no script, no font, no network. Texts out of
 * files are escaped, and a policy in its head lets it load and run nothing. What the pictures show stands in tables,
 * too, for readers who hover over nothing.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifdef KITH_HAVE_JANSSON
#include "plots.h"

#include <kith/version.h>
#include <stdlib.h>
#include <string.h>

static void write_fact(FILE *out, size_t count, const char *one, const char *many)
{
    fprintf(out, "<li><b>%zu</b>%s</li>\n", count, count == 1 ? one : many);
}

static bool has_sort(const ki_plots *plots, ki_plot_sort first, ki_plot_sort last)
{
    for (size_t i = 0; i < plots->count; i++)
        if (plots->items[i].sort >= first && plots->items[i].sort <= last)
            return true;
    return false;
}

static void count_verdicts(const ki_comparison *c, size_t *counts)
{
    for (size_t i = 0; i < c->value_count; i++)
        counts[c->values[i].verdict]++;
}

static void write_title(const ki_comparison *c, FILE *out)
{
    const ki_results *results = c->results;
    fputs("<header>\n<h1>Measurements compared</h1>\n<p class=\"soft\">", out);
    for (int s = 0; s < c->series_count; s++) {
        fputs(s > 0 ? ", " : "", out);
        ki_text_escape(out, c->series[s].name);
    }
    fprintf(out, "; from %d file%s</p>\n", results->file_count, results->file_count == 1 ? "" : "s");
}

static void write_header(const ki_comparison *c, const ki_plots *plots, bool is_compared, FILE *out)
{
    size_t counts[KI_VERDICT_CORES + 1] = { 0 };
    count_verdicts(c, counts);
    write_title(c, out);
    fputs("<ul class=\"facts\">\n", out);
    write_fact(out, c->match_count, "point", "points");
    if (is_compared) {
        write_fact(out, counts[KI_VERDICT_FASTER], "faster than its baseline", "faster than the baseline");
        write_fact(out, counts[KI_VERDICT_SLOWER], "slower than its baseline", "slower than the baseline");
        write_fact(out, counts[KI_VERDICT_ALIKE], "alike", "alike");
    }
    if (counts[KI_VERDICT_UNRELIABLE] > 0)
        write_fact(out, counts[KI_VERDICT_UNRELIABLE], "without a reliable median", "without a reliable median");
    if (counts[KI_VERDICT_WRONG] > 0)
        write_fact(out, counts[KI_VERDICT_WRONG], "with wrong elements", "with wrong elements");
    if (counts[KI_VERDICT_CORES] > 0)
        write_fact(out, counts[KI_VERDICT_CORES], "on cores of another class", "on cores of another class");
    fputs("</ul>\n", out);
    if (ki_has_marks_of_one_run(c))
        fprintf(out, "<p>Faster and slower are within one run. %s</p>\n", ki_one_run_sentence);
    fputs("<nav aria-label=\"Sections\"><ul>\n", out);
    if (is_compared)
        fputs("<li><a href=\"#means\">Means</a></li>\n", out);
    if (c->results->figure_count > 0)
        fputs("<li><a href=\"#peers\">Peers</a></li>\n", out);
    if (has_sort(plots, KI_PLOT_TIME, KI_PLOT_RATIO))
        fputs("<li><a href=\"#curves\">By size</a></li>\n", out);
    if (has_sort(plots, KI_PLOT_BARS, KI_PLOT_BARS))
        fputs("<li><a href=\"#bars\">Side by side</a></li>\n", out);
    if (has_sort(plots, KI_PLOT_HEAT, KI_PLOT_HEAT))
        fputs("<li><a href=\"#pairs\">Pairs</a></li>\n", out);
    fputs("<li><a href=\"#tables\">Tables</a></li>\n<li><a href=\"#machines\">Machines and versions</a></li>\n"
          "<li><a href=\"#method\">Method</a></li>\n</ul></nav>\n</header>\n<main>\n",
          out);
}

static void write_picture(const ki_plot *plot, FILE *out)
{
    fputs("<figure class=\"plot\">\n", out);
    ki_drawing_svg(plot->drawing, true, out);
    fputs("</figure>\n", out);
}

static void write_plots(const ki_comparison *c, const ki_plots *plots, ki_plot_sort first, ki_plot_sort last,
                        const char *id, const char *heading, const char *note, FILE *out)
{
    size_t panel = c->panel_count;
    if (!has_sort(plots, first, last))
        return;
    fprintf(out, "<section id=\"%s\"><h2>%s</h2>\n<p class=\"soft\">%s</p>\n<div class=\"plots\">\n", id, heading,
            note);
    for (size_t i = 0; i < plots->count; i++) {
        const ki_plot *plot = &plots->items[i];
        if (plot->sort < first || plot->sort > last)
            continue;
        if (first != last && plot->panel != panel) /* a row for each panel */
            fputs(panel == c->panel_count ? "" : "</div>\n<div class=\"plots\">\n", out);
        panel = plot->panel;
        write_picture(plot, out);
    }
    fputs("</div>\n</section>\n", out);
}

/* Kith beside other libraries: pictures, then their tables. */
static void write_peers(const ki_comparison *c, const ki_plots *plots, FILE *out)
{
    if (c->results->figure_count == 0)
        return;
    fputs("<section id=\"peers\"><h2>Peers</h2>\n<p class=\"soft\">Kith beside other libraries, measured in turns in "
          "one run. A ratio says how many times as fast as the fastest peer of that size and type, which is printed "
          "bold; means are geometric, over sizes. All times of a line were taken on cores of one class, told by how "
          "long a flag takes from one to the other: sibling (below 40 ns, one core&rsquo;s threads), near (below "
          "170 ns), far. A curve is broken where the class is another than at the size before.</p>\n",
          out);
    fputs("<div class=\"plots\">\n", out);
    for (size_t i = 0; i < plots->count; i++)
        if (plots->items[i].sort == KI_PLOT_PEERS)
            write_picture(&plots->items[i], out);
    fputs("</div>\n", out);
    ki_compare_page_peers(c, out);
    fputs("</section>\n", out);
}

static void write_method(const ki_comparison *c, FILE *out)
{
    fprintf(
        out,
        "<section id=\"method\"><h2>Method</h2>\n"
        "<p>A ratio is a speed: how many times as fast as the baseline. Each file keeps of a point the median of its "
        "times, their quartiles and their number. The standard error of a median is 1.253 (p75 &minus; p25) / (1.349 "
        "&radic;n), as in the notches of McGill, Tukey and Larsen (1978); two medians are compared by Welch&rsquo;s "
        "test on their logarithms. Several runs under one label are compared by what lies between the runs.</p>\n"
        "<p>%zu ratios were tested together by the rule of Benjamini and Hochberg (1995): of those that are marked "
        "+ or &minus; a share of %g %% at most is expected to be chance. What moves from run to run is not in the "
        "spread of one run, so a mark in brackets says that two runs differ, not that two builds do.</p>\n"
        "<p>Sizes and bandwidths mean what they mean in nccl-tests; GB/s are 10<sup>9</sup> bytes a second.</p>\n",
        c->tested, 100 * KI_SIGNIFICANCE);
    fprintf(out, "</section>\n</main>\n<footer>Made by kith compare %s.</footer>\n</body>\n</html>\n", kith_version());
}

bool ki_compare_page(const ki_comparison *c, FILE *out)
{
    ki_plots plots;
    bool is_made = ki_plots_make(c, &plots), is_compared = false;
    for (int s = 0; s < c->series_count; s++)
        is_compared |= ki_mean_of(c, s, 0, c->match_count).count > 0;
    if (is_made) {
        ki_page_head(out, "Measurements compared", "kith compare");
        write_header(c, &plots, is_compared, out);
        if (is_compared)
            ki_compare_page_means(c, out);
        write_peers(c, &plots, out);
        write_plots(
            c, &plots, KI_PLOT_TIME, KI_PLOT_RATIO, "curves", "By size",
            "Axes are logarithmic. Bars through a point span the middle half of its samples, in ratios the 95 % "
            "interval; a bar without a point has no reliable median.",
            out);
        write_plots(c, &plots, KI_PLOT_BARS, KI_PLOT_BARS, "bars", "Side by side",
                    "Backends and links at the smallest and the largest size that half of them have at least.", out);
        write_plots(c, &plots, KI_PLOT_HEAT, KI_PLOT_HEAT, "pairs", "Pairs of ranks",
                    "Bandwidth between ranks, and time where messages are below 64 KiB; maps of one size share their "
                    "colours. A framed "
                    "pair stays below what its link lets expect, or the median of its like.",
                    out);
        if (plots.left_out > 0)
            fprintf(out, "<p class=\"bad\">%zu more pictures are left out; compare fewer files at once.</p>\n",
                    plots.left_out);
        ki_compare_page_panels(c, out);
        ki_compare_page_lists(c, out);
        ki_compare_page_files(c, out);
        write_method(c, out);
    }
    ki_plots_fini(&plots);
    return is_made;
}

#else
typedef int ki_compare_page_needs_jansson; /* a file must not be empty */
#endif
