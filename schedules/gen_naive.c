/* schedules/gen_naive.c - one microbatch at a time goes forward through all stages and back. One rank works, the others
 * wait: the bubble is (p - 1) m (F + B), and a rank holds one microbatch.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "generate.h"

kith_status ki_generate_naive(const kith_schedule_options *o, kith_schedule *s)
{
    kith_status status = KITH_OK;
    for (int microbatch = 0; microbatch < o->microbatches; microbatch++) {
        for (int stage = 0; stage < s->stages && status == KITH_OK; stage++)
            status = ki_schedule_add(s, s->rank_of_stage[stage], KITH_ACTION_F, stage, microbatch);
        for (int stage = s->stages - 1; stage >= 0 && status == KITH_OK; stage--)
            status = ki_schedule_add(s, s->rank_of_stage[stage], KITH_ACTION_B, stage, microbatch);
    }
    return status;
}
