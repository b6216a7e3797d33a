/* tools/schedule_html.c - one page that compares plans: the picture on one scale of time, a table, and the figures
 * of each rank.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "schedule.h"

static void write_header(FILE *out, const ki_drawing *drawing, const ki_schedule_view *views, int count)
{
    fputs("<header>\n<h1>", out);
    ki_text_escape(out, drawing->title);
    int ranks = kith_schedule_ranks(views[0].plan), microbatches = kith_schedule_microbatches(views[0].plan);
    fprintf(out, "</h1>\n<p class=\"soft\">%d rank%s, %d microbatch%s</p>\n", ranks, ranks == 1 ? "" : "s",
            microbatches, microbatches == 1 ? "" : "es");
    fputs("<nav aria-label=\"Sections\"><ul>\n<li><a href=\"#comparison\">Comparison</a></li>\n"
          "<li><a href=\"#picture\">Picture</a></li>\n",
          out);
    for (int i = 0; i < count; i++) {
        fprintf(out, "<li><a href=\"#ranks-%d\">", i);
        ki_text_escape(out, views[i].name);
        fputs("</a></li>\n", out);
    }
    fputs("</ul></nav>\n</header>\n<main>\n", out);
}

static void write_ranks(FILE *out, const ki_schedule_view *view, int index)
{
    fprintf(out, "<section id=\"ranks-%d\"><h2>", index);
    ki_text_escape(out, view->name);
    fputs("</h2>\n", out);
    const char *note;
    for (int i = 0; (note = kith_schedule_note(view->plan, i)) != NULL; i++) {
        fputs("<p>", out);
        ki_text_escape(out, note);
        fputs("</p>\n", out);
    }
    fputs("<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Figures of each rank\"><table><thead><tr>"
          "<th>rank<th>busy<th>bubble<th>inside its span<th>in flight<th>waiting for W<th>bytes held<th>messages "
          "sent</tr>"
          "</thead><tbody>\n",
          out);
    for (int rank = 0; rank < kith_schedule_ranks(view->plan); rank++) {
        const kith_simulation_rank_result *r = kith_simulation_rank(view->run, rank);
        fprintf(out, "<tr><th>%d<td>%.6g<td>%.6g<td>%.6g<td>%d<td>%d<td>%.4g<td>%zu</tr>\n", rank, r->busy, r->bubble,
                r->span_bubble, r->in_flight, r->in_flight_weights, r->peak_nbytes, r->sent_count);
    }
    fputs("</tbody></table></div></section>\n", out);
}

bool ki_schedule_page(const ki_schedule_view *views, int count, FILE *out, const char **error)
{
    ki_drawing *drawing = ki_schedule_drawing(views, count, error);
    if (drawing == NULL)
        return false;
    ki_page_head(out, drawing->title, "kith schedule");
    write_header(out, drawing, views, count);
    fputs("<section id=\"comparison\"><h2>Comparison</h2>\n<div class=\"scroll\" tabindex=\"0\" role=\"region\" "
          "aria-label=\"Comparison\">\n",
          out);
    ki_schedule_table_html(views, count, out);
    fputs("</div></section>\n<section id=\"picture\"><h2>Picture</h2>\n<figure class=\"picture scroll\" tabindex=\"0\" "
          "role=\"region\" aria-label=\"Timelines\">\n",
          out);
    ki_drawing_svg(drawing, true, out);
    fputs("</figure></section>\n", out);
    for (int i = 0; i < count; i++)
        write_ranks(out, &views[i], i);
    fprintf(
        out,
        "</main>\n<footer>Made by kith schedule %s. Times are in the unit of the costs; a bubble is idle time up to "
        "the "
        "end of the step, inside its span: between a rank's own first and last action.</footer>\n</body>\n</html>\n",
        kith_version());
    ki_drawing_destroy(drawing);
    return true;
}
