/* tools/compare/text_lists.c - below the tables: geometric means, what stands on one side alone, what is worse than
 * --threshold allows, and what the marks mean.
 *
 * The mean of ratios is the geometric one: it does not depend on which side is the baseline (Fleming, Wallace, "How
 * not to lie with statistics: the correct way to summarize benchmark results", Communications of the ACM 29 (1986),
 * 218-221).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifdef KITH_HAVE_JANSSON
#include "compare.h"

#include <math.h>

#define LIST_NBYTES 400

static bool is_any_compared(const ki_comparison *c)
{
    for (int s = 0; s < c->series_count; s++)
        if (ki_mean_of(c, s, 0, c->match_count).count > 0)
            return true;
    return false;
}

static void print_mean(const char *what, const char *name, const ki_mean *mean, FILE *out)
{
    if (mean->count == 0)
        return;
    fprintf(out, "  %-42s %-20s %6.3g  %.3g to %.3g, %zu: %zu %s, %zu %s, %zu ~\n", what, name, mean->ratio, mean->low,
            mean->high, mean->count, mean->faster, mean->is_of_one_run ? "(+)" : "+", mean->slower,
            mean->is_of_one_run ? "(-)" : "-", mean->other);
}

static void print_means(const ki_comparison *c, FILE *out)
{
    char name[256];
    if (!is_any_compared(c))
        return;
    fputs("\ngeometric means of the ratios, least and largest, number of points\n", out);
    for (size_t i = 0; i < c->panel_count; i++)
        for (int s = 0; s < c->series_count; s++) {
            ki_mean mean = ki_mean_of(c, s, c->panels[i].first, c->panels[i].count);
            print_mean(ki_panel_name(c, &c->panels[i], name, sizeof(name)), c->series[s].name, &mean, out);
        }
    for (int s = 0; s < c->series_count && c->panel_count > 1; s++) {
        ki_mean mean = ki_mean_of(c, s, 0, c->match_count);
        print_mean("all", c->series[s].name, &mean, out);
    }
}

static void print_lacks(const ki_comparison *c, const ki_panel *panel, bool *is_first, FILE *out)
{
    char name[256], list[LIST_NBYTES];
    bool is_all;
    ki_panel_name(c, panel, name, sizeof(name));
    if (ki_strangers_name(c, panel, list, sizeof(list)) > 0) {
        fprintf(out, "%s  %s: nothing of it in %s\n", *is_first ? "\nnot in every series\n" : "", name, list);
        *is_first = false;
    }
    for (int s = 0; s < c->series_count; s++) {
        if (!ki_panel_lacks(c, panel, s, &is_all) || is_all)
            continue;
        ki_missing_name(c, panel, s, list, sizeof(list));
        fprintf(out, "%s  %s: no %s in %s\n", *is_first ? "\nnot in every series\n" : "", name, list,
                c->series[s].name);
        *is_first = false;
    }
}

static void print_one_sided(const ki_comparison *c, FILE *out)
{
    bool is_first = true;
    for (size_t i = 0; i < c->panel_count; i++)
        print_lacks(c, &c->panels[i], &is_first, out);
}

static void print_absences(const ki_comparison *c, FILE *out)
{
    const ki_results *results = c->results;
    for (size_t i = 0; i < results->absence_count; i++) {
        const ki_absence *absence = &results->absences[i];
        const ki_file *file = &results->files[absence->file];
        const char *reason = ki_words_text(&results->words, absence->reason);
        fprintf(out, "%s  %s: link %s is absent%s%s\n", i == 0 ? "\nlinks that are not there\n" : "",
                ki_words_text(&results->words, file->label), ki_words_text(&results->words, absence->link),
                reason[0] != '\0' ? ": " : "", reason);
    }
}

static bool has_one_run(const ki_comparison *c)
{
    for (size_t i = 0; i < c->value_count; i++)
        if (c->values[i].is_of_one_run)
            return true;
    return false;
}

static void print_worse(const ki_comparison *c, FILE *out)
{
    char panel[256], size[64];
    size_t count = ki_worse_count(c);
    if (c->threshold < 0)
        return;
    const char *runs = has_one_run(c) ? "; a side of one run holds nothing of what differs from run to run" : "";
    fprintf(out, "\n%sslower by more than %g %%, or wrong%s\n", count == 0 ? "nothing is " : "", c->threshold, runs);
    for (size_t i = 0; i < c->panel_count; i++)
        for (size_t m = c->panels[i].first; m < c->panels[i].first + c->panels[i].count; m++)
            for (int s = 0; s < c->series_count; s++) {
                const ki_match *match = &c->matches[m];
                if (!ki_value_is_worse(c, match, s))
                    continue;
                const ki_value *value = match->values[s];
                bool has_size = match->point.nbytes > 0;
                fprintf(out, "  %s%s%s: %s ", ki_panel_name(c, &c->panels[i], panel, sizeof(panel)),
                        has_size ? ", " : "", has_size ? ki_match_name(match, size, sizeof(size)) : "",
                        c->series[s].name);
                if (value->errors > 0)
                    fprintf(out, "has wrong elements: %lld\n", (long long)value->errors);
                else
                    fprintf(out, "takes %.1f %% longer (%.1f to %.1f %%)\n", 100 * (1 / value->speed.ratio - 1),
                            100 * (1 / value->speed.high - 1), 100 * (1 / value->speed.low - 1));
            }
}

static void print_legend(const ki_comparison *c, FILE *out)
{
    if (is_any_compared(c))
        fprintf(
            out,
            "\nA ratio says how many times as fast as the baseline. + faster, - slower: of all marks + and - a share "
            "of\n%g %% at most is expected to be chance (%zu ratios tested); ~ no such difference; = not tested, as "
            "a file\ntells no spread; ? no reliable median; ! wrong elements.\n",
            100 * KI_SIGNIFICANCE, c->tested);
    if (ki_has_other_cores(c))
        fputs("c: no ratio, as the cores of both sides were of different classes, or moved meanwhile; see \"cores\" in "
              "--csv.\n",
              out);
    if (ki_has_marks_of_one_run(c))
        fprintf(out, "(+) and (-) are + and - within one run. %s\n", ki_one_run_sentence);
}

void ki_compare_text_lists(const ki_comparison *c, FILE *out)
{
    print_means(c, out);
    print_one_sided(c, out);
    print_absences(c, out);
    print_worse(c, out);
    print_legend(c, out);
}

#else
typedef int ki_compare_text_lists_needs_jansson; /* a file must not be empty */
#endif
