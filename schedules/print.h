/* schedules/print.h - what the forms of a printed simulation share.
 *
 * To add a form: a member of kith_simulation_format, a file print_<form>.c, a row in print.c, a section in
 * docs/schedules.md.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_SCHEDULES_PRINT_H
#define KI_SCHEDULES_PRINT_H

#include "core/text.h"
#include "simulation.h"

typedef struct ki_print {
    const kith_schedule *s;
    const kith_simulation *run;
    int width;
    bool has_colour, is_ascii;
} ki_print;

/* Each appends the whole of its form. KITH_ERR_NO_MEMORY; a text that could not grow is looked at by the caller. */
kith_status ki_print_text(ki_text *out, const ki_print *print);
kith_status ki_print_json(ki_text *out, const ki_print *print);
kith_status ki_print_trace(ki_text *out, const ki_print *print);
/* The rows of characters alone. (print_timeline.c) */
kith_status ki_print_timeline(ki_text *out, const ki_print *print);

/* The actions that run at once from position `at` on: 1, or 2 for an overlapped pair. */
static inline size_t ki_print_unit(const ki_action_list *list, size_t at)
{
    return list->actions[at].is_overlapped && at + 1 < list->count ? 2 : 1;
}

/* PyTorch's cell of the action at `at`, or of the pair: "(0F7;7B3)OVERLAP_F_B". */
#define KI_CELL_NBYTES 128
const char *ki_print_cell(const ki_action_list *list, size_t at, char buffer[KI_CELL_NBYTES]);

/* Of many ranks a text shows the first and the last. The rank that is shown after `rank` (-1: the first one); `ranks`
 * at the end. */
int ki_print_next_rank(const ki_print *print, int rank);

#endif
