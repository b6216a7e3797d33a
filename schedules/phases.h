/* schedules/phases.h - plans of two chunks in a V, written as phases: a few actions, and how often they come.
 *
 *     { 3, "F0" }              three forwards of chunk 0, of the next three microbatches
 *     { r, "F1 F0" }           r times: forward of chunk 1, then of chunk 0
 *     { n, "F0&B1 F1&B0" }     n times: forward of chunk 0 as one with the backward of chunk 1, then the other way
 *     { 2, "I1 W" }            backward for inputs of chunk 1, then the oldest W that is due, of whichever chunk
 *
 * Each letter and chunk counts its own microbatches from 0. Those past the end of the step are left out; so a plan that
 * is made for more microbatches than there are stays right: what remains keeps its order, and dependencies only join
 * actions of one microbatch.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_SCHEDULES_PHASES_H
#define KI_SCHEDULES_PHASES_H

#include "schedule.h"

typedef struct ki_phase {
    int count;
    const char *pattern;
} ki_phase;

/* Appends the phases to the list of a rank, and then every W that is still due. */
kith_status ki_phases_add(kith_schedule *s, int rank, const ki_phase *phases, int count);

#endif
