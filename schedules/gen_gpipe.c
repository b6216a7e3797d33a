/* schedules/gen_gpipe.c - all forwards, then all backwards (GPipe, Huang et al. 2019), and the same over several
 * chunks, breadth first (Lamy-Poirier 2023).
 *
 * Each rank runs all microbatches through a chunk before it turns to the next one, and goes back the same way.
 * Backwards come in reverse order of the forwards, as the activations of the last one are the warmest, or first in,
 * first out. A rank holds all m * v activations; the bubble is (p - 1)(F + B) with one chunk and less by v with v of
 * them.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "generate.h"

static kith_status add_chunk(kith_schedule *s, int rank, int chunk, kith_action_type type, bool is_reversed)
{
    int stage = s->stage_of_chunk[rank * s->chunks + chunk];
    kith_status status = KITH_OK;
    for (int i = 0; i < s->microbatches && status == KITH_OK; i++)
        status = ki_schedule_add(s, rank, type, stage, is_reversed ? s->microbatches - 1 - i : i);
    return status;
}

kith_status ki_generate_gpipe(const kith_schedule_options *o, kith_schedule *s)
{
    kith_status status = KITH_OK;
    for (int rank = 0; rank < o->ranks; rank++) {
        for (int chunk = 0; chunk < s->chunks && status == KITH_OK; chunk++)
            status = add_chunk(s, rank, chunk, KITH_ACTION_F, false);
        for (int chunk = s->chunks - 1; chunk >= 0 && status == KITH_OK; chunk--)
            status = add_chunk(s, rank, chunk, KITH_ACTION_B, !o->is_fifo_backward);
    }
    return status;
}
