/* schedules/gen_1f1b.c - one forward, one backward, with a flush at the end of the step (PipeDream-Flush; Narayanan et
 * al. 2021, section 2.2.1).
 *
 * Rank r runs ranks - 1 - r forwards ahead, then alternates, then drains. It holds min(m, p - r) microbatches at most;
 * the bubble is that of GPipe, (p - 1)(F + B).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "generate.h"

kith_status ki_generate_1f1b(const kith_schedule_options *o, kith_schedule *s)
{
    kith_status status = KITH_OK;
    for (int rank = 0; rank < o->ranks; rank++) {
        int ahead = o->ranks - 1 - rank;
        for (int step = 0; step < o->microbatches + ahead && status == KITH_OK; step++) {
            if (step < o->microbatches)
                status = ki_schedule_add(s, rank, KITH_ACTION_F, rank, step);
            if (step >= ahead && status == KITH_OK)
                status = ki_schedule_add(s, rank, KITH_ACTION_B, rank, step - ahead);
        }
    }
    return status;
}
