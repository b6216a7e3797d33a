/* schedules/exchange.h - plans as texts of other programs.
 *
 * Reading PyTorch's files goes in three passes: csv_cells.c cuts the text into cells and reads each by itself;
 * csv_read.c settles the dialect and the map of stages, and fills a plan. Writing is one file for each form.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_SCHEDULES_EXCHANGE_H
#define KI_SCHEDULES_EXCHANGE_H

#include "core/text.h"
#include "schedule.h"

/* One action as it stands in a file. */
typedef struct ki_cell {
    kith_action action;
    bool is_bw;       /* written "BW": the whole backward of the old dialect */
    int line, column; /* from 1; line - 1 is the rank */
} ki_cell;

typedef struct ki_cells {
    ki_cell *cells;
    size_t count, room;
    int ranks; /* lines */
} ki_cells;

/* Cuts and reads. KITH_ERR_INVALID_ARG "name:line:column: ...". Free with ki_cells_fini() after success and failure. */
kith_status ki_cells_read(const char *name, const char *text, size_t nbytes, ki_cells *cells);
void ki_cells_fini(ki_cells *cells);

/* Each appends its form of a plan to *out and counts what it has no word for. */
kith_status ki_write_torch(const kith_schedule *schedule, ki_text *out, size_t *dropped);
kith_status ki_write_deepspeed(const kith_schedule *schedule, ki_text *out, size_t *dropped);
kith_status ki_write_shallowspeed(const kith_schedule *schedule, ki_text *out, size_t *dropped);

#endif
