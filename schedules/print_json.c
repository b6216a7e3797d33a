/* schedules/print_json.c - a simulation as JSON: figures, lists and times. docs/schedules.md lists the keys; scripts
 * rely on them, so they are added to and never renamed.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "print.h"

#include <string.h>

typedef enum figure_type { FIGURE_DOUBLE, FIGURE_INT, FIGURE_SIZE } figure_type;

/* A member of a rank's results. */
typedef struct figure {
    const char *key;
    size_t offset;
    figure_type type;
} figure;
#define FIGURE(key, member, type) ((const figure){ key, offsetof(kith_simulation_rank_result, member), type })

static double value_of(const kith_simulation_rank_result *result, const figure *f)
{
    const char *member = (const char *)result + f->offset;
    switch (f->type) {
    case FIGURE_INT:
        return *(const int *)member;
    case FIGURE_SIZE:
        return (double)*(const size_t *)member;
    default:
        return *(const double *)member;
    }
}

/* "key": [one number a rank] */
static void add_per_rank(ki_text *out, const ki_print *print, figure f)
{
    ki_text_add(out, "\"%s\": [", f.key);
    for (int rank = 0; rank < print->s->ranks; rank++) {
        ki_text_add(out, rank > 0 ? ", " : "");
        ki_text_add_number(out, value_of(&print->run->results[rank], &f));
    }
    ki_text_add(out, "]");
}

static void add_number(ki_text *out, const char *key, double value)
{
    ki_text_add(out, "\"%s\": ", key);
    ki_text_add_number(out, value);
}

static void add_head(ki_text *out, const kith_schedule *s)
{
    ki_text_add(out, "{\n\"kind\": ");
    ki_text_add_json(out, kith_schedule_kind_name(s->kind));
    ki_text_add(out, ",\n\"ranks\": %d,\n\"stages\": %d,\n\"chunks\": %d,\n\"microbatches\": %d", s->ranks, s->stages,
                s->chunks, s->microbatches);
    ki_text_add(out, ",\n\"is_lowered\": %s,\n\"is_forward_only\": %s", kith_schedule_is_lowered(s) ? "true" : "false",
                s->has_backward ? "false" : "true");
    ki_text_add(out, ",\n\"rank_of_stage\": [");
    for (int stage = 0; stage < s->stages; stage++)
        ki_text_add(out, stage > 0 ? ", %d" : "%d", s->rank_of_stage[stage]);
    ki_text_add(out, "]");
}

static void add_bubble(ki_text *out, const ki_print *print)
{
    const kith_simulation_total_result *total = &print->run->total;
    ki_text_add(out, ",\n\"bubble\": {");
    add_number(out, "makespan", total->bubble);
    ki_text_add(out, ", ");
    add_number(out, "rate", total->rate);
    ki_text_add(out, ", ");
    add_number(out, "span_total", total->span_bubble);
    ki_text_add(out, ", ");
    add_number(out, "span_rate", total->span_rate);
    ki_text_add(out, ",\n  ");
    add_per_rank(out, print, FIGURE("per_rank", bubble, FIGURE_DOUBLE));
    ki_text_add(out, ",\n  ");
    add_per_rank(out, print, FIGURE("span", span_bubble, FIGURE_DOUBLE));
    ki_text_add(out, "}");
}

static void add_figures(ki_text *out, const ki_print *print)
{
    const figure rows[] = {
        FIGURE("start", start, FIGURE_DOUBLE),
        FIGURE("end", end, FIGURE_DOUBLE),
        FIGURE("busy", busy, FIGURE_DOUBLE),
        FIGURE("in_flight", in_flight, FIGURE_INT),
        FIGURE("held", held, FIGURE_INT),
        FIGURE("in_flight_weights", in_flight_weights, FIGURE_INT),
        FIGURE("peak_nbytes", peak_nbytes, FIGURE_DOUBLE),
    };
    const kith_simulation_total_result *total = &print->run->total;
    ki_text_add(out, ",\n");
    add_number(out, "makespan", total->makespan);
    add_bubble(out, print);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        ki_text_add(out, ",\n");
        add_per_rank(out, print, rows[i]);
    }
    ki_text_add(out, ",\n\"messages\": {\"count\": %zu, ", total->sent_count);
    add_number(out, "nbytes", total->sent_nbytes);
    ki_text_add(out, ",\n  ");
    add_per_rank(out, print, FIGURE("per_rank", sent_count, FIGURE_SIZE));
    ki_text_add(out, ",\n  ");
    add_per_rank(out, print, FIGURE("nbytes_per_rank", sent_nbytes, FIGURE_DOUBLE));
    ki_text_add(out, "}");
}

static void add_notes(ki_text *out, const kith_schedule *s)
{
    ki_text_add(out, ",\n\"notes\": [");
    for (int i = 0; i < s->note_count; i++) {
        ki_text_add(out, i > 0 ? ", " : "");
        ki_text_add_json(out, s->notes[i]);
    }
    ki_text_add(out, "]");
}

static void add_action(ki_text *out, const ki_print *print, int rank, size_t at)
{
    char cell[KI_CELL_NBYTES];
    const char *text = ki_print_cell(&print->s->lists[rank], at, cell);
    ki_text_append(out, ", ", at > 0 ? 2 : 0);
    ki_text_append(out, "\"", 1);
    ki_text_append(out, text, strlen(text));
    ki_text_append(out, "\"", 1);
}

static void add_interval(ki_text *out, const ki_print *print, int rank, size_t at)
{
    const kith_interval *interval = &print->run->intervals[print->run->first[rank] + at];
    ki_text_append(out, ", ", at > 0 ? 2 : 0);
    ki_text_append(out, "[", 1);
    ki_text_add_number(out, interval->start);
    ki_text_append(out, ", ", 2);
    ki_text_add_number(out, interval->end);
    ki_text_append(out, "]", 1);
}

/* "key": one list a rank, with one entry for each action, or overlapped pair. */
static void add_lists(ki_text *out, const ki_print *print, const char *key,
                      void (*add)(ki_text *, const ki_print *, int, size_t))
{
    ki_text_add(out, ",\n\"%s\": [", key);
    for (int rank = 0; rank < print->s->ranks; rank++) {
        const ki_action_list *list = &print->s->lists[rank];
        ki_text_add(out, rank > 0 ? ",\n  [" : "\n  [");
        for (size_t at = 0; at < list->count; at += ki_print_unit(list, at))
            add(out, print, rank, at);
        ki_text_add(out, "]");
    }
    ki_text_add(out, "\n]");
}

kith_status ki_print_json(ki_text *out, const ki_print *print)
{
    add_head(out, print->s);
    add_figures(out, print);
    add_notes(out, print->s);
    add_lists(out, print, "actions", add_action);
    add_lists(out, print, "intervals", add_interval);
    ki_text_add(out, "\n}\n");
    return KITH_OK;
}
