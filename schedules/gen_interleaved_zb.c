/* schedules/gen_interleaved_zb.c - interleaved 1F1B whose backward for weights waits until it fills the bubble (the
 * interleaved form of ZB-1p; PyTorch has it as InterleavedZeroBubble).
 *
 * Rank r runs (p - 1 - r) + (v - 1) * N forwards ahead, at most m * v, and its W trail their I by r: the ranks that
 * hold fewer activations hold more weight gradients instead, so that each holds (v - 1) N + p of both together. With
 * F, I, W the costs of a chunk the bubble is (p - 1)(F + I - W), as in zb-h1 but with chunks that take 1/v.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "generate.h"

#include "looped.h"

kith_status ki_generate_interleaved_zb(const kith_schedule_options *o, kith_schedule *s)
{
    ki_looped looped = { 0, true };
    kith_status status = ki_looped_group(o, s, &looped.group);
    for (int rank = 0; rank < o->ranks && status == KITH_OK; rank++) {
        int64_t ahead = (o->ranks - 1 - rank) + (int64_t)(s->chunks - 1) * looped.group;
        status = ki_looped_add(s, &looped, rank, ahead, rank);
    }
    return status;
}
