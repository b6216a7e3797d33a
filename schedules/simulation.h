/* schedules/simulation.h - what a simulation is inside, and the run that fills it.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_SCHEDULES_SIMULATION_H
#define KI_SCHEDULES_SIMULATION_H

#include "schedule.h"

struct kith_simulation {
    int ranks;
    kith_simulation_total_result total;
    kith_simulation_rank_result *results; /* [ranks] */
    kith_interval *intervals;             /* of all actions, rank after rank */
    size_t *first;                        /* [ranks + 1] where those of a rank begin */
};

/* A message is an activation (stage s to s + 1) or a gradient (s to s - 1). */
typedef enum ki_data { KI_ACTIVATION, KI_GRADIENT, KI_DATA_COUNT } ki_data;

enum { KI_DONE_F = 1, KI_DONE_INPUTS = 2, KI_DONE_WEIGHTS = 4 }; /* bits of ki_run.done */

/* A run of a plan on a clock. Data are indexed by the pair (stage, microbatch) that uses them: the activation of pair
 * (s, k) comes from stage s - 1, its gradient from s + 1. */
typedef struct ki_run {
    const kith_schedule *s;
    const kith_stage_cost *costs; /* [stages] */
    kith_simulation *out;
    size_t *cursors;          /* [ranks] the next action of the list */
    double *clocks;           /* [ranks] when the last computation ended */
    unsigned char *has_begun; /* [ranks] */
    size_t *waits;            /* [ranks] ki_wait_of(), or KI_NO_WAIT */
    int *runnable;            /* [ranks] a stack of ranks that can go on */
    int runnable_count;
    unsigned char *done;               /* [pairs] */
    double *arrivals[KI_DATA_COUNT];   /* [pairs] when the data are there; negative: not yet */
    double *departures[KI_DATA_COUNT]; /* [pairs] when the message begins to leave; only for plans with messages */
    int *connections[KI_DATA_COUNT];   /* [stages] on which connection a stage sends; -1: to its own rank, or nowhere */
    double *free_from;                 /* [connections] when its last message is through */
    size_t forwards;                   /* done so far */
} ki_run;

#define KI_NO_WAIT SIZE_MAX
static inline size_t ki_wait_of(ki_data data, size_t pair)
{
    return pair * KI_DATA_COUNT + (size_t)data;
}

/* Runs all lists to their ends; intervals, busy times and counts of messages are in out then. (simulate_run.c) */
kith_status ki_run_all(ki_run *run);
/* Connections between ranks, shared by the stages that use the same one. (simulate_links.c) */
kith_status ki_run_connect(ki_run *run);
/* What waits for what, when ranks are left that cannot go on. (simulate_wait.c) */
kith_status ki_run_explain(const ki_run *run);

#endif
