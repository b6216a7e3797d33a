/* tools/schedule_compare.c - several plans in one table, for the terminal and for the page.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "schedule.h"

typedef struct row {
    int chunks, in_flight; /* the most of any rank */
    double peak_nbytes;
    const kith_simulation_total_result *total;
} row;

static row row_of(const ki_schedule_view *view)
{
    row r = { kith_schedule_chunks(view->plan), 0, 0, kith_simulation_total(view->run) };
    for (int rank = 0; rank < kith_schedule_ranks(view->plan); rank++) {
        const kith_simulation_rank_result *one = kith_simulation_rank(view->run, rank);
        r.in_flight = one->in_flight > r.in_flight ? one->in_flight : r.in_flight;
        r.peak_nbytes = one->peak_nbytes > r.peak_nbytes ? one->peak_nbytes : r.peak_nbytes;
    }
    return r;
}

void ki_schedule_table(const ki_schedule_view *views, int count, FILE *out)
{
    fprintf(out, "%-16s %6s %10s %10s %8s %8s %10s %10s %9s\n", "kind", "chunks", "makespan", "bubble", "of it",
            "in span", "in flight", "peak bytes", "messages");
    for (int i = 0; i < count; i++) {
        row r = row_of(&views[i]);
        fprintf(out, "%-16s %6d %10.6g %10.6g %7.2f%% %7.2f%% %10d %10.4g %9zu\n", views[i].name, r.chunks,
                r.total->makespan, r.total->bubble, 100 * r.total->rate, 100 * r.total->span_rate, r.in_flight,
                r.peak_nbytes, r.total->sent_count);
    }
}

void ki_schedule_table_html(const ki_schedule_view *views, int count, FILE *out)
{
    fputs("<table><thead><tr><th>kind<th>chunks a rank<th>makespan<th>bubble<th>share<th>share inside spans<th>in "
          "flight, at most<th>bytes held, at most<th>messages</tr></thead><tbody>\n",
          out);
    for (int i = 0; i < count; i++) {
        row r = row_of(&views[i]);
        fputs("<tr><th>", out);
        ki_text_escape(out, views[i].name);
        fprintf(out, "<td>%d<td>%.6g<td>%.6g<td>%.2f %%<td>%.2f %%<td>%d<td>%.4g<td>%zu</tr>\n", r.chunks,
                r.total->makespan, r.total->bubble, 100 * r.total->rate, 100 * r.total->span_rate, r.in_flight,
                r.peak_nbytes, r.total->sent_count);
    }
    fputs("</tbody></table>\n", out);
}
