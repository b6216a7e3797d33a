/* topology/plan_bubble.c - what a pipeline schedule costs: idle time, microbatches in flight, messages.
 *
 * p stages, m microbatches, v parts of the model on each rank; F, I, W: times of the forward pass, of the gradient of
 * the inputs and of the gradient of the weights.
 *
 *     schedule      idle, first start to last end   in flight on rank r          messages of the pipeline
 *     naive         (p-1) m (F+I+W)                 1                            2 m (p-1)
 *     gpipe         (p-1) (F+I+W)                   m                            2 m (p-1)
 *     1f1b          (p-1) (F+I+W)                   min(m, p-r)                  2 m (p-1)
 *     interleaved   (p-1) (F+I+W) / v               min(mv, 2(p-1-r)+(v-1)p+1)/v 2 m (pv-1)
 *     zb-h1         (p-1) (F+I-W)                   min(m, p)                    2 m (p-1)
 *     zb-h2         (p-1) F                         min(m, 2p-1)                 2 m (p-1)
 *     zb-v          (p-1) F / 2                     min(m, p)                    2 m (2p-2)
 *
 * Sources: GPipe; Narayanan et al. 2021 (1F1B, interleaved); Qi et al. 2023 (zero bubble), who count idle time within a
 * stage's own span, where zb-h2 has (p-1)(F+I-2W) and zb-v none. What zb-h1 and zb-h2 hold on late ranks are inputs
 * kept for W, a little less than a microbatch's activations; they are counted as the whole.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "plan_parts.h"

#include <math.h>

double ki_layout_bubble(kith_schedule_kind schedule, int pp, int chunks, double microbatches, ki_layout_times times,
                        double *in_stage)
{
    double others = pp - 1, all = times.forward_s + times.input_s + times.weight_s;
    double idle = others * all, inside = -1;
    *in_stage = 0;
    if (pp <= 1 || !(all > 0) || !(microbatches > 0))
        return 0;
    switch (schedule) {
    case KITH_SCHEDULE_NAIVE:
        idle *= microbatches;
        break;
    case KITH_SCHEDULE_INTERLEAVED:
        idle /= chunks;
        break;
    case KITH_SCHEDULE_ZB_H1:
        idle = others * fmax(times.forward_s + times.input_s - times.weight_s, 0);
        break;
    case KITH_SCHEDULE_ZB_H2:
        inside = others * fmax(times.forward_s + times.input_s - 2 * times.weight_s, 0);
        idle = fmax(inside, others * times.forward_s);
        break;
    case KITH_SCHEDULE_ZB_V:
        inside = 0;
        idle = others * times.forward_s / 2;
        break;
    case KITH_SCHEDULE_GPIPE:
    case KITH_SCHEDULE_1F1B:
    default: /* plan_check.c lets no other pass */
        break;
    }
    *in_stage = (inside >= 0 ? inside : idle) / (microbatches * all);
    return idle / (microbatches * all);
}

double ki_layout_in_flight(kith_schedule_kind schedule, int pp, int chunks, double microbatches, int rank)
{
    if (pp <= 1) /* gradients are accumulated one microbatch after the other */
        return 1;
    switch (schedule) {
    case KITH_SCHEDULE_NAIVE:
        return 1;
    case KITH_SCHEDULE_GPIPE:
        return microbatches;
    case KITH_SCHEDULE_1F1B:
        return fmin(microbatches, pp - rank);
    case KITH_SCHEDULE_INTERLEAVED:
        return fmin(microbatches * chunks, 2.0 * (pp - 1 - rank) + (chunks - 1.0) * pp + 1) / chunks;
    case KITH_SCHEDULE_ZB_H2:
        return fmin(microbatches, 2.0 * pp - 1);
    case KITH_SCHEDULE_ZB_H1:
    case KITH_SCHEDULE_ZB_V:
        return fmin(microbatches, pp);
    default:
        return microbatches;
    }
}

double ki_layout_messages(kith_schedule_kind schedule, int pp, int chunks, double microbatches, double *all)
{
    double parts = schedule == KITH_SCHEDULE_INTERLEAVED ? chunks : 1; /* borders that a rank sends over each way */
    double borders = pp * parts - 1;
    if (schedule == KITH_SCHEDULE_ZB_V) {
        parts = pp > 2 ? 2 : 1; /* of two ranks each is an end of the V */
        borders = 2.0 * pp - 2; /* the turn is inside a rank */
    }
    *all = pp > 1 ? microbatches * borders : 0;
    return pp > 1 ? microbatches * parts : 0;
}
