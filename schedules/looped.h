/* schedules/looped.h - one forward, one backward, over the chunks of a looped layout: the frame of interleaved,
 * interleaved-zb, zb-h1 and zb-h2.
 *
 * Microbatches pass in groups: all of a group go through chunk 0, then through chunk 1, and so on, then the next group
 * comes; backwards do the same from the last chunk down. A group gives the first microbatch the time to come round to
 * the first rank again, so groups of `ranks` or more leave no gap; only the last group may be smaller. Counted along
 * that order, a rank has v * m forwards and as many backwards, and all that distinguishes the kinds is by how much
 * backwards trail forwards, and weights trail backwards:
 *
 *     step k:  forward k,  backward k - ahead,  weights k - ahead - lag        (whichever of them exist)
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_SCHEDULES_LOOPED_H
#define KI_SCHEDULES_LOOPED_H

#include "schedule.h"

typedef struct ki_looped {
    int group;     /* microbatches in a group */
    bool is_split; /* I, and W `lag` backwards later, in place of B */
} ki_looped;

/* The group size of the options: `ranks` for 0. KITH_ERR_INVALID_ARG below `ranks`, as a rank could then wait for a
 * microbatch that waits for the rank. A last group that is smaller is noted in the plan. */
kith_status ki_looped_group(const kith_schedule_options *o, kith_schedule *s, int *group);

/* Appends the steps of one rank. */
kith_status ki_looped_add(kith_schedule *s, const ki_looped *looped, int rank, int64_t ahead, int64_t lag);

#endif
