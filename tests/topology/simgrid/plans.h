/* tests/topology/simgrid/plans.h - the messages of one of core/algo's plans, on simulated ranks.
 *
 * The plan is the algorithm's own, and core's executor runs it over the backend. Only the copies and the arithmetic
 * are left out, and every message reads or writes the same memory, because nothing but the time of messages is of
 * interest and no machine has the memory of 512 ranks: plans.c gives the executor an algorithm that asks the real one
 * for its plan and passes on its sends, receives and waits, in their order.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef TESTS_SIMGRID_PLANS_H
#define TESTS_SIMGRID_PLANS_H

#include "core/algo/algo.h"

typedef struct sim_plan {
    ki_algo_args args;
    ki_algo algo;         /* what the executor sees */
    const ki_algo *whole; /* what it stands for */
    const int *places;    /* place in the backend's group of each rank of the plan; NULL: the same */
    kith_be_coll coll;
    ki_order order;
    ki_reducer reducer;
    ki_executor executor;
    bool is_done;
} sim_plan;

/* A collective of nbytes (of the whole vector) over size ranks, for rank `rank` of them. The program ends when there is
 * no such algorithm. places and shared live as long as the plan; shared is as long as the longest message. */
void sim_plan_init(sim_plan *plan, const char *op, const char *algorithm, double nbytes, int rank, int size,
                   const int *places, void *shared);
void sim_plan_fini(sim_plan *plan);

/* Runs plans[count] of one rank side by side, each under its own tag, until all are at their end. */
void sim_plans_run(sim_plan *plans, int count, const kith_backend *backend, void *instance, void *group);

#endif
