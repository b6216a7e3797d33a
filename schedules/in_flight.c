/* schedules/in_flight.c - what a rank holds at most, counted along its list. A rank takes its actions one after the
 * other, so the peak does not depend on times.
 *
 * An activation is held from the start of its F until its B or I has ended; what W needs is held from the end of I
 * until W has ended. The two actions of an overlapped pair run at the same time: both begin before either ends. A plan
 * without backward holds an activation while its F runs.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "schedule.h"

#include "core/base/error.h"

typedef struct holding {
    int activations, weights;
    double nbytes;
    kith_in_flight peak;
    double peak_nbytes;
} holding;

static int more(int peak, int value)
{
    return value > peak ? value : peak;
}

static void note_peaks(holding *h)
{
    h->peak.activations = more(h->peak.activations, h->activations);
    h->peak.weights = more(h->peak.weights, h->weights);
    h->peak.held = more(h->peak.held, h->activations + h->weights);
    h->peak_nbytes = h->nbytes > h->peak_nbytes ? h->nbytes : h->peak_nbytes;
}

static void begin(holding *h, const kith_action *a, const kith_stage_cost *costs)
{
    if (a->type != KITH_ACTION_F)
        return;
    h->activations++;
    h->nbytes += costs != NULL ? costs[a->stage].activation_nbytes : 0;
}

static void end(holding *h, const kith_action *a, const kith_stage_cost *costs, bool has_backward)
{
    bool is_released = a->type == KITH_ACTION_F ? !has_backward : a->type == KITH_ACTION_B || a->type == KITH_ACTION_I;
    int kept = (a->type == KITH_ACTION_I) - (a->type == KITH_ACTION_W);
    h->activations -= is_released;
    h->weights += kept;
    if (costs != NULL)
        h->nbytes += (is_released ? -costs[a->stage].activation_nbytes : 0) + kept * costs[a->stage].weight_nbytes;
    if (h->activations == 0 && h->weights == 0)
        h->nbytes = 0; /* what sums of fractions leave behind */
}

void ki_schedule_held(const kith_schedule *s, int rank, const kith_stage_cost *costs, kith_in_flight *peak,
                      double *peak_nbytes)
{
    holding h = { 0 };
    const ki_action_list *list = &s->lists[rank];
    for (size_t i = 0; i < list->count;) {
        size_t next = i + (list->actions[i].is_overlapped && i + 1 < list->count ? 2 : 1);
        for (size_t j = i; j < next; j++)
            begin(&h, &list->actions[j], costs);
        note_peaks(&h);
        for (size_t j = i; j < next; j++)
            if (ki_action_is_compute(list->actions[j].type))
                end(&h, &list->actions[j], costs, s->has_backward);
        note_peaks(&h);
        i = next;
    }
    *peak = h.peak;
    if (peak_nbytes != NULL)
        *peak_nbytes = h.peak_nbytes;
}

kith_status kith_schedule_in_flight(const kith_schedule *s, int rank, kith_in_flight *in_flight)
{
    if (s == NULL || in_flight == NULL || rank < 0 || rank >= s->ranks)
        return ki_fail(KITH_ERR_INVALID_ARG, "kith_schedule_in_flight(): %s",
                       s == NULL || in_flight == NULL ? "an argument is NULL" : "no such rank");
    ki_schedule_held(s, rank, NULL, in_flight, NULL);
    return KITH_OK;
}
