/* schedules/auto.h - one run of the list scheduler behind `auto`; gen_auto.c tries rules and takes the best run.
 *
 * One chunk a rank: stage r is rank r, and each rank takes the microbatches of F, of I and of W in ascending order. So
 * a plan is, for each rank, a row of 3 m letters.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_SCHEDULES_AUTO_H
#define KI_SCHEDULES_AUTO_H

#include "schedule.h"

typedef enum ki_auto_prefer {
    KI_AUTO_BACKWARD, /* I before F when both could start */
    KI_AUTO_FORWARD,
    KI_AUTO_TURNS /* what did not come last */
} ki_auto_prefer;

/* By what a rank decides when several things could start. The scheduler is greedy; each rule is a place where waiting,
 * or another order, may pay. */
typedef struct ki_auto_rules {
    ki_auto_prefer prefer;
    double ahead;    /* a rank r of p holds at most 1 + ahead * (p - 1 - r) microbatches between F and I */
    double fill;     /* W starts in a gap of at least this part of it; in a shorter one the rank waits */
    double patience; /* no F when an I will come before this part of the F is over */
    double lag;      /* a W whose I is more than lag * r + 1 others back goes before all else */
    int hand;        /* 1, 2: no choice at all but the order of zb-h1, zb-h2; the members above do not count. 0: none */
} ki_auto_rules;

typedef struct ki_auto_problem {
    int ranks, microbatches;
    const kith_stage_cost *stages; /* [ranks] */
    double bound;                  /* bytes that a rank may hold */
} ki_auto_problem;

/* Working memory of a run, and what came out. */
typedef struct ki_auto_run {
    double *input_at, *gradient_at; /* [ranks * microbatches] when it arrives; infinite: not known yet */
    struct ki_auto_rank *ranks;     /* [ranks] */
    int *heap;                      /* [ranks] ranks, the one that decides next first */
    int heap_count;
    char *letters; /* [ranks * 3 * microbatches] 'F', 'I' or 'W' */
    double span;   /* the longest time from a rank's first start to its last end */
    double makespan;
} ki_auto_run;

kith_status ki_auto_run_init(ki_auto_run *run, const ki_auto_problem *problem);
void ki_auto_run_fini(ki_auto_run *run);
/* Schedules everything. False when the rules block themselves, which no rules do for a bound that holds one microbatch:
 * checked, as a plan that lacks actions would be wrong silently. */
bool ki_auto_run_go(ki_auto_run *run, const ki_auto_problem *problem, const ki_auto_rules *rules);

/* What a rank has to have free beyond its activations to be able to go on: I gives up an activation and takes what W
 * needs, which may be more. */
static inline double ki_auto_reserve(const kith_stage_cost *cost)
{
    return cost->weight_nbytes > cost->activation_nbytes ? cost->weight_nbytes - cost->activation_nbytes : 0;
}

#endif
