/* schedules/gen_forward.c - forwards alone, for evaluation, on the stages of any kind.
 *
 * Nothing comes back, so nothing has to be held or traded; what counts is that no rank waits once it has started.
 *
 * Looped layouts take microbatches in groups of `ranks` (or group_size), chunk after chunk, as interleaved does: the
 * first of a group is round again when the last has entered. What is left over joins the last group, since a group
 * smaller than `ranks` would wait for its own first microbatch. The last rank ends at (m v + p - 1) F for m >= p.
 *
 * In a V the first microbatch is back on rank r after 2(p - r) - 1 forwards; as many of chunk 0 come first, then the
 * chunks take turns. The last rank, where both chunks meet, works without a gap, and what it ends with still has to
 * rise: the step takes (2m + 2(p - 1)) F, the least possible.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "generate.h"

#include "phases.h"

static kith_status add_group(kith_schedule *s, int rank, int first, int count)
{
    kith_status status = KITH_OK;
    for (int chunk = 0; chunk < s->chunks; chunk++)
        for (int i = 0; i < count && status == KITH_OK; i++)
            status = ki_schedule_add(s, rank, KITH_ACTION_F, s->stage_of_chunk[rank * s->chunks + chunk], first + i);
    return status;
}

static kith_status add_looped(kith_schedule *s, int rank, int group)
{
    kith_status status = KITH_OK;
    for (int first = 0, count; first < s->microbatches && status == KITH_OK; first += count) {
        int left = s->microbatches - first;
        count = left / 2 < group ? left : group; /* fewer than two groups left: one */
        status = add_group(s, rank, first, count);
    }
    return status;
}

kith_status ki_generate_forward(const kith_schedule_options *o, kith_schedule *s)
{
    int p = o->ranks;
    bool is_v = s->chunks == 2 && s->rank_of_stage[s->stages - 1] == 0 && p > 1;
    int group = o->group_size > p ? o->group_size : p;
    kith_status status = KITH_OK;
    for (int r = 0; r < p && status == KITH_OK; r++) {
        int ahead = 2 * (p - r) - 1;
        const ki_phase phases[] = { { ahead, "F0" }, { o->microbatches, "F1 F0" } };
        status = is_v ? ki_phases_add(s, r, phases, 2) : add_looped(s, r, group);
    }
    return status;
}
