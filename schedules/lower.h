/* schedules/lower.h - what the files of kith_schedule_lower() share: lower_run.c decides when, lower_emit.c writes
 * what.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_SCHEDULES_LOWER_H
#define KI_SCHEDULES_LOWER_H

#include "schedule.h"

typedef struct ki_lowering {
    const kith_schedule *source; /* computation alone, checked */
    kith_schedule *target;
    kith_lower_options o;         /* without what does not apply to the plan */
    const kith_stage_cost *costs; /* [stages] */
    int *backwards_left;          /* [stages] B and W that have not ended */
} ki_lowering;

/* Walks all lists at once, in the order of a clock, and emits as it goes. (lower_run.c) */
kith_status ki_lower_run(ki_lowering *lowering);

/* Before anything else. (lower_emit.c) */
kith_status ki_lower_emit_begin(ki_lowering *lowering);
/* `count` actions start as one on a rank: an action alone, or an overlapped pair. */
kith_status ki_lower_emit_start(ki_lowering *lowering, int rank, const kith_action *actions, size_t count);
/* An action has ended: what it sends, and what had waited for the last backward of its stage. */
kith_status ki_lower_emit_end(ki_lowering *lowering, const kith_action *action);
/* After all else. */
kith_status ki_lower_emit_finish(ki_lowering *lowering);

#endif
