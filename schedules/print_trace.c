/* schedules/print_trace.c - a simulation for chrome://tracing and Perfetto, in the Trace Event Format: a thread for
 * each rank, a complete event for each computation, an arrow for each message. One unit of the costs is one
 * microsecond.
 *
 * Messages are arrows even where the plan has them as actions: a SEND runs beside what its rank computes, and blocks of
 * one thread must nest. An arrow binds to the blocks at its two ends, so it begins inside the one that makes the data.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "print.h"

#include "core/base/error.h"
#include "core/base/number.h"

#include <stdio.h>

#define ACTIONS_MAX (1 << 21) /* each is 300 bytes of text */

typedef struct trace {
    ki_text *out;
    const ki_print *print;
    bool has_events;
} trace;

/* {"ph": ..., "pid": 0, "tid": rank: the beginning that all events share. */
static void begin_event(trace *t, const char *phase, int rank)
{
    ki_text_add(t->out, "%s{\"ph\": \"%s\", \"pid\": 0, \"tid\": %d", t->has_events ? ",\n" : "", phase, rank);
    t->has_events = true;
}

static void name_threads(trace *t)
{
    const kith_schedule *s = t->print->s;
    begin_event(t, "M", 0);
    ki_text_add(t->out, ", \"name\": \"process_name\", \"args\": {\"name\": \"%s, %d stage%s, %d microbatch%s\"}}",
                kith_schedule_kind_name(s->kind), s->stages, s->stages == 1 ? "" : "s", s->microbatches,
                s->microbatches == 1 ? "" : "es");
    for (int rank = 0; rank < s->ranks; rank++) {
        begin_event(t, "M", rank);
        ki_text_add(t->out, ", \"name\": \"thread_name\", \"args\": {\"name\": \"rank %d\"}}", rank);
        begin_event(t, "M", rank);
        ki_text_add(t->out, ", \"name\": \"thread_sort_index\", \"args\": {\"sort_index\": %d}}", rank);
    }
}

/* "stage": 3, "chunk": 1, "microbatch": 7 - what of that the action has. */
static const char *arguments_of(const kith_action *a, char buffer[KI_CELL_NBYTES])
{
    *buffer = '\0';
    if (a->stage >= 0 && a->microbatch >= 0)
        snprintf(buffer, KI_CELL_NBYTES, "\"stage\": %d, \"chunk\": %d, \"microbatch\": %d", a->stage, a->chunk,
                 a->microbatch);
    else if (a->stage >= 0)
        snprintf(buffer, KI_CELL_NBYTES, "\"stage\": %d, \"chunk\": %d", a->stage, a->chunk);
    return buffer;
}

/* A block; what takes no time by its nature is a mark. */
static void add_block(trace *t, int rank, size_t at, const kith_interval *interval)
{
    const ki_action_list *list = &t->print->s->lists[rank];
    const kith_action *a = &list->actions[at];
    bool is_pair = ki_print_unit(list, at) == 2;
    bool is_block = ki_action_is_compute(a->type) || a->type == KITH_ACTION_RECOMPUTE;
    char cell[KI_CELL_NBYTES], arguments[KI_CELL_NBYTES], start[KI_NUMBER_NBYTES], lasts[KI_NUMBER_NBYTES];
    begin_event(t, is_block ? "X" : "i", rank);
    ki_text_add(t->out, ", \"name\": \"%s\", \"cat\": \"%s\", \"ts\": %s, %s%s, \"args\": {%s",
                ki_print_cell(list, at, cell), is_pair ? "OVERLAP_F_B" : kith_action_name(a->type),
                ki_number_text(interval->start, 0, start), is_block ? "\"dur\": " : "\"s\": \"t\"",
                is_block ? ki_number_text(interval->end - interval->start, 0, lasts) : "", arguments_of(a, arguments));
    if (is_pair)
        ki_text_add(t->out, ", \"overlapped\": {%s}", arguments_of(a + 1, arguments));
    ki_text_add(t->out, "}}");
}

/* One end of the arrow that carries the data of `pair` (of the stage that uses them). */
static void add_arrow(trace *t, bool is_begin, int rank, ki_data data, size_t pair, double time)
{
    char moment[KI_NUMBER_NBYTES];
    begin_event(t, is_begin ? "s" : "f", rank);
    ki_text_add(t->out, ", \"name\": \"%s\", \"cat\": \"message\", \"id\": %zu, \"ts\": %s%s}",
                data == KI_ACTIVATION ? "activation" : "gradient", pair * KI_DATA_COUNT + (size_t)data,
                ki_number_text(time, 0, moment), is_begin ? "" : ", \"bp\": \"e\"");
}

/* The message that the action waited for, and the one that it makes. */
static void add_arrows(trace *t, int rank, const kith_action *a, const kith_interval *interval)
{
    const kith_schedule *s = t->print->s;
    bool is_forward = a->type == KITH_ACTION_F;
    if (!is_forward && a->type != KITH_ACTION_B && a->type != KITH_ACTION_I)
        return;
    ki_data data = is_forward ? KI_ACTIVATION : KI_GRADIENT;
    int next = a->stage + (is_forward ? 1 : -1);
    if (ki_schedule_crosses(s, is_forward ? a->stage - 1 : a->stage))
        add_arrow(t, false, rank, data, ki_pair(s, a->stage, a->microbatch), interval->start);
    if (ki_schedule_crosses(s, is_forward ? a->stage : next))
        add_arrow(t, true, rank, data, ki_pair(s, next, a->microbatch),
                  interval->start + (interval->end - interval->start) / 2);
}

kith_status ki_print_trace(ki_text *out, const ki_print *print)
{
    trace t = { out, print, false };
    size_t count = print->run->first[print->s->ranks];
    if (count > ACTIONS_MAX)
        return ki_fail(KITH_ERR_UNSUPPORTED,
                       "a trace of %zu actions: at most %d are written, as no viewer holds more; JSON has all of them",
                       count, ACTIONS_MAX);
    ki_text_add(out, "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n");
    name_threads(&t);
    for (int rank = 0; rank < print->s->ranks; rank++) {
        const ki_action_list *list = &print->s->lists[rank];
        for (size_t at = 0; at < list->count; at += ki_print_unit(list, at)) {
            const kith_interval *interval = &print->run->intervals[print->run->first[rank] + at];
            kith_action_type type = list->actions[at].type;
            if (ki_action_is_message(type) || type == KITH_ACTION_IDLE)
                continue;
            add_block(&t, rank, at, interval);
            for (size_t i = at; i < at + ki_print_unit(list, at); i++)
                add_arrows(&t, rank, &list->actions[i], interval);
        }
    }
    ki_text_add(out, "\n]}\n");
    return KITH_OK;
}
