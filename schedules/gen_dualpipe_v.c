/* schedules/gen_dualpipe_v.c - two chunks in a V whose forwards and backwards run in pairs, as one (DualPipe of the
 * DeepSeek-V3 report, section 3.2.1, cut in half: what goes up and what goes down the same ranks is one microbatch).
 *
 * In a pair the messages between the experts of one half travel while the other half computes, which is what the kind
 * is for. A pair is an F with is_overlapped and the B after it. Rank r of p:
 *
 *     2(p - 1 - r)      F0              until the first microbatch has turned at the last rank
 *     r + 1             F0 F1           it rises; both chunks fill
 *     p - 1 - r         I1 W F1         gradients come down; split, as the ranks below wait for I alone
 *     m - 2p + 1 + r    F0&B1 F1&B0     the period
 *     p - 1 - r         B1 F1&B0        no microbatches left to start
 *     r + 1             B1 B0           the first half of these backwards whole, the second split: their W are
 *     p - 1 - r         W I0            what fills the drain
 *                       W               what remains
 *
 * On the last rank nothing runs beside the very first B1: F0 and B1 stay apart there, so that the gradient leaves one
 * F earlier. With F&B the time of a pair, B = I + W and F = I, the last rank is idle for (p - 1)(F&B + B - 3W); rank
 * r has p - 2 - r pairs fewer, works for longer by what those save, and is idle for less. A rank holds 2p + 1 chunks
 * (2p on rank 0 for m = 2p - 1). DeepSeek's code and PyTorch's ask for m >= 2p; the order itself is whole from m =
 * 2p - 1 on. Below, the plan is that of 2p - 1 microbatches without those that do not exist: it runs, but has a
 * larger bubble and few pairs or none.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "generate.h"

#include "phases.h"

kith_status ki_generate_dualpipe_v(const kith_schedule_options *o, kith_schedule *s)
{
    int p = o->ranks;
    int m = o->microbatches > 2 * p - 1 ? o->microbatches : 2 * p - 1;
    kith_status status = KITH_OK;
    for (int r = 0; r < p && status == KITH_OK; r++) {
        int periods = m - 2 * p + 1 + r;
        int apart = r == p - 1 && periods > 0;
        const ki_phase phases[] = {
            { 2 * (p - 1 - r), "F0" },          { r + 1, "F0 F1" },
            { p - 1 - r, "I1 W F1" },           { apart, "F0 B1 F1&B0" },
            { periods - apart, "F0&B1 F1&B0" }, { p - 1 - r, "B1 F1&B0" },
            { (r + 1) / 2, "B1 B0" },           { (r + 1) % 2, "B1 I0" },
            { (r + 1) / 2, "I1 I0" },           { p - 1 - r, "W I0" },
        };
        status = ki_phases_add(s, r, phases, (int)(sizeof phases / sizeof phases[0]));
    }
    if (status == KITH_OK && o->microbatches < 2 * p - 1)
        status = ki_schedule_add_note(s, "m = %d does not fill a V of %d ranks: the bubble is larger below m = %d",
                                      o->microbatches, p, 2 * p - 1);
    return status;
}
