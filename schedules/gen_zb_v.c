/* schedules/gen_zb_v.c - zero bubble on two chunks in a V (Qi et al. 2024, section 6).
 *
 * Stages go down the ranks and back up: rank r has stages r and 2p - 1 - r, so the first rank has the loss and backward
 * starts where forward did. With F = I = W = 1 a rank has a period of six slots - F, I, W of each chunk - and no slot
 * of it is empty, neither while the pipeline fills nor while it drains:
 *
 *   - the first microbatch leaves rank r and is back, on the way up, after 2(p - r) - 1 slots: as many F0 fit;
 *   - until its gradient has come from rank 0, F1 and F0 take turns, r times, as F1 arrives in every second slot;
 *   - then chunk 1 runs its forward, backward and weights for the p - r microbatches that are above and return;
 *   - then the period, as long as there are microbatches, and its remains without F0, p - 1 - r times;
 *   - at the end W wait, 2r of them, until I no longer come in every slot; they fill the rest.
 *
 * Each rank holds 2p chunks at most, the memory of 1F1B's first rank. For m < 2p - 1 the pipeline is never full: the
 * plan is that of 2p - 1 microbatches without those that do not exist, and has bubbles.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "generate.h"

#include "phases.h"

kith_status ki_generate_zb_v(const kith_schedule_options *o, kith_schedule *s)
{
    int p = o->ranks;
    int m = o->microbatches > 2 * p - 1 ? o->microbatches : 2 * p - 1;
    kith_status status = KITH_OK;
    for (int r = 0; r < p && status == KITH_OK; r++) {
        const ki_phase phases[] = {
            { 2 * (p - r) - 1, "F0" },
            { r, "F1 F0" },
            { p - r, "F1 I1 W" },
            { m - (2 * p - 1 - r), "F0 I0 W F1 I1 W" },
            { p - 1 - r, "I0 W F1 I1 W" },
            { r, "I0 I1" },
            { p - r, "I0 W" },
        };
        status = ki_phases_add(s, r, phases, (int)(sizeof phases / sizeof phases[0]));
    }
    if (status == KITH_OK && o->microbatches < 2 * p - 1)
        status = ki_schedule_add_note(s, "m = %d does not fill a V of %d ranks: ranks are idle in between below m = %d",
                                      o->microbatches, p, 2 * p - 1);
    return status;
}
