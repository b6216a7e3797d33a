/* schedules/gen_zb_h.c - zero bubble by hand, one chunk a rank (Qi et al. 2024, "Zero Bubble Pipeline Parallelism",
 * sections 2 and 3).
 *
 * The backward for weights needs nothing of other ranks and nobody waits for it, so it fills what is left empty while
 * the pipeline fills and drains. With c = 1 (zb-h1) or 2 (zb-h2), rank r = 0 .. p - 1 runs c(p - 1 - r) forwards ahead
 * and lets W trail I by c r. Both together are c(p - 1) on every rank, so all ranks have as much to fill with.
 *
 *     zb-h1  rank r holds (p - r) M_B + r M_W, no more than 1F1B; the bubble is (p - 1)(F + I - W)
 *     zb-h2  rank r holds (2(p - r) - 1) M_B + 2 r M_W; inside the span of rank 0 (p - 1)(F + I - 2W) is idle, which is
 *            nothing for equal times; ranks start and end one after the other, though, and whoever waits for all of
 *            them at the end of the step pays (p - 1) F
 *
 * The figures hold from m = p (zb-h1) and m = 2p - 1 (zb-h2) on. With fewer microbatches all forwards come first.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "generate.h"

#include "looped.h"

kith_status ki_generate_zb_h(const kith_schedule_options *o, kith_schedule *s)
{
    int64_t c = o->kind == KITH_SCHEDULE_ZB_H2 ? 2 : 1;
    const ki_looped looped = { o->microbatches, true };
    kith_status status = KITH_OK;
    for (int rank = 0; rank < o->ranks && status == KITH_OK; rank++)
        status = ki_looped_add(s, &looped, rank, c * (o->ranks - 1 - rank), c * rank);
    return status;
}
