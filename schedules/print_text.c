/* schedules/print_text.c - a simulation for people: the timeline, and the figures below it.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "print.h"

#include "core/base/number.h"

#define DIGITS 6

static void add_head(ki_text *out, const kith_schedule *s)
{
    ki_text_add(out, "%s%s: %d rank%s, %d stage%s, %d microbatch%s\n\n", kith_schedule_kind_name(s->kind),
                s->has_backward ? "" : ", forward only", s->ranks, s->ranks == 1 ? "" : "s", s->stages,
                s->stages == 1 ? "" : "s", s->microbatches, s->microbatches == 1 ? "" : "es");
}

/* "  what                 12   36.4 % of the makespan" */
static void add_figure(ki_text *out, const char *what, double value, double rate, const char *whole)
{
    char number[KI_NUMBER_NBYTES], percent[KI_NUMBER_NBYTES];
    ki_text_add(out, "  %-26s %12s", what, ki_number_text(value, DIGITS, number));
    if (whole != NULL)
        ki_text_add(out, "   %s %% of %s", ki_number_text(100 * rate, 3, percent), whole);
    ki_text_add(out, "\n");
}

static void add_totals(ki_text *out, const kith_simulation_total_result *total)
{
    char number[KI_NUMBER_NBYTES];
    ki_text_add(out, "\n");
    add_figure(out, "makespan", total->makespan, 0, NULL);
    add_figure(out, "bubble", total->bubble, total->rate, "the makespan");
    add_figure(out, "bubble in the span", total->span_bubble, total->span_rate, "the longest rank's span");
    ki_text_add(out, "  %-26s %12zu   %s bytes together\n", "messages", total->sent_count,
                ki_number_text(total->sent_nbytes, DIGITS, number));
}

static void add_rank(ki_text *out, int rank, const kith_simulation_rank_result *r)
{
    const double times[] = { r->start, r->end, r->busy, r->bubble, r->span_bubble };
    char number[KI_NUMBER_NBYTES];
    ki_text_add(out, "  %4d", rank);
    for (size_t i = 0; i < sizeof times / sizeof times[0]; i++)
        ki_text_add(out, " %11s", ki_number_text(times[i], DIGITS, number));
    ki_text_add(out, " %9d %9d %7d", r->in_flight, r->in_flight_weights, r->held);
    ki_text_add(out, " %11s", ki_number_text(r->peak_nbytes, DIGITS, number));
    ki_text_add(out, " %9zu\n", r->sent_count);
}

static void add_ranks(ki_text *out, const ki_print *print)
{
    ki_text_add(out, "\n  rank       start         end        busy      bubble     in span in flight  for W    held"
                     "  peak bytes      sent\n");
    for (int rank = 0, last = -1; rank < print->s->ranks; last = rank, rank = ki_print_next_rank(print, rank)) {
        if (rank > last + 1)
            ki_text_add(out, "   ...  ranks %d to %d\n", last + 1, rank - 1);
        add_rank(out, rank, &print->run->results[rank]);
    }
}

static void add_notes(ki_text *out, const kith_schedule *s)
{
    for (int i = 0; i < s->note_count; i++)
        ki_text_add(out, "%s  note: %s\n", i == 0 ? "\n" : "", s->notes[i]);
}

kith_status ki_print_text(ki_text *out, const ki_print *print)
{
    add_head(out, print->s);
    kith_status status = ki_print_timeline(out, print);
    if (status != KITH_OK)
        return status;
    add_totals(out, &print->run->total);
    add_ranks(out, print);
    add_notes(out, print->s);
    return KITH_OK;
}
