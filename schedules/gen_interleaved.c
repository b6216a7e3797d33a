/* schedules/gen_interleaved.c - 1F1B over several chunks a rank (Narayanan et al. 2021, section 2.2.2).
 *
 * Each rank has v stages that lie `ranks` apart, so the pipeline fills after 1/v of a microbatch's time and the bubble
 * shrinks to (p - 1)(F + B) / v of the whole rank's F and B; messages grow by v. Rank r runs
 *
 *     factor * (p - 1 - r) + (v - 1) * N      forwards ahead (at most m * v), N: the group size,
 *
 * and holds one chunk more than that. Factor 2 is Megatron's: of the two slots by which neighbours differ, one is what
 * the message needs to travel while both compute. Factor 1 has the same bubble when messages take no time, holds p - 1
 * chunks fewer on rank 0, and loses one message time for each hop as soon as they do.
 *
 * A last group of g < N microbatches comes round sooner. There rank 0 must not lead the last rank by more than N + g
 * forwards, or it waits for one that stands, on the last rank, behind a backward whose forward rank 0 has yet to run.
 * Where the factor asks for more, the lead of all ranks is scaled down to that. (Megatron refuses such sizes.)
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "generate.h"

#include "looped.h"

#include "core/base/error.h"

/* By how many forwards the first rank leads the last one. */
static int64_t lead_of(const kith_schedule_options *o, const kith_schedule *s, int group)
{
    int64_t lead = (int64_t)(o->warmup_factor > 0 ? o->warmup_factor : 2) * (o->ranks - 1);
    int left = o->microbatches > group ? o->microbatches % group : 0;
    if (s->chunks == 1 || left == 0)
        return lead;
    int64_t most = (int64_t)group + left;
    return lead < most ? lead : most;
}

kith_status ki_generate_interleaved(const kith_schedule_options *o, kith_schedule *s)
{
    if (o->warmup_factor < 0 || o->warmup_factor > 2)
        return ki_fail(KITH_ERR_INVALID_ARG, "interleaved with warmup_factor %d: valid are 1, 2 and 0 for 2",
                       o->warmup_factor);
    ki_looped looped = { 0, false };
    kith_status status = ki_looped_group(o, s, &looped.group);
    int64_t lead = status == KITH_OK ? lead_of(o, s, looped.group) : 0;
    int64_t hops = o->ranks > 1 ? o->ranks - 1 : 1;
    for (int rank = 0; rank < o->ranks && status == KITH_OK; rank++) {
        int64_t ahead = lead * (o->ranks - 1 - rank) / hops + (int64_t)(s->chunks - 1) * looped.group;
        status = ki_looped_add(s, &looped, rank, ahead, 0);
    }
    return status;
}
