/* schedules/phases.c - see phases.h.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "phases.h"

#include "core/base/error.h"
#include "core/base/fault.h"

#include <stdlib.h>

typedef struct due {
    int stage, microbatch;
} due;

/* One rank's list while it is written. */
typedef struct writer {
    kith_schedule *schedule;
    int rank;
    int forwards[2], backwards[2]; /* of each chunk: microbatches so far, those that were left out counted */
    due *due;                      /* W that wait, oldest first: [first, end) */
    size_t first, end;
} writer;

static kith_status add_weights(writer *w)
{
    if (w->first == w->end)
        return KITH_OK;
    due oldest = w->due[w->first++];
    return ki_schedule_add(w->schedule, w->rank, KITH_ACTION_W, oldest.stage, oldest.microbatch);
}

/* *is_added tells whether the microbatch exists. */
static kith_status add_step(writer *w, kith_action_type type, int chunk, bool *is_added)
{
    kith_schedule *s = w->schedule;
    int microbatch = type == KITH_ACTION_F ? w->forwards[chunk]++ : w->backwards[chunk]++;
    int stage = s->stage_of_chunk[w->rank * s->chunks + chunk];
    *is_added = microbatch < s->microbatches;
    if (!*is_added)
        return KITH_OK;
    if (type == KITH_ACTION_I)
        w->due[w->end++] = (due){ stage, microbatch };
    return ki_schedule_add(s, w->rank, type, stage, microbatch);
}

static kith_action_type type_of(char letter)
{
    return letter == 'F' ? KITH_ACTION_F : letter == 'B' ? KITH_ACTION_B : KITH_ACTION_I;
}

static kith_status add_pattern(writer *w, const char *pattern)
{
    kith_status status = KITH_OK;
    for (const char *at = pattern; *at != '\0' && status == KITH_OK; at++) {
        bool is_added = false;
        if (*at == ' ')
            continue;
        if (*at == 'W') {
            status = add_weights(w);
            continue;
        }
        status = add_step(w, type_of(at[0]), at[1] - '0', &is_added);
        at++;
        if (at[1] != '&')
            continue;
        at++;
        if (is_added) /* a forward that exists comes with a backward that does: it is of an earlier microbatch */
            ki_schedule_overlap_last(w->schedule, w->rank);
    }
    return status;
}

kith_status ki_phases_add(kith_schedule *s, int rank, const ki_phase *phases, int count)
{
    writer w = { s, rank, { 0, 0 }, { 0, 0 }, NULL, 0, 0 };
    size_t most = 2 * (size_t)s->microbatches;
    w.due = ki_fault(KI_FAULT_ALLOC) ? NULL : malloc(most * sizeof *w.due);
    if (w.due == NULL)
        return ki_fail(KITH_ERR_NO_MEMORY, "no memory for the phases of a pipeline plan");
    kith_status status = KITH_OK;
    for (int phase = 0; phase < count; phase++)
        for (int i = 0; i < phases[phase].count && status == KITH_OK; i++)
            status = add_pattern(&w, phases[phase].pattern);
    while (w.first < w.end && status == KITH_OK)
        status = add_weights(&w);
    free(w.due);
    return status;
}
