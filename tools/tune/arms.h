/* tools/tune/arms.h - what is compared: the same operation in several contexts whose settings differ.
 *
 * An algorithm is forced by a setting, and settings belong to a context, so each algorithm gets a context of its own.
 * All are open side by side, over the same ranks, and are measured in turn: a round of each, then the next round. What
 * drifts on the machine meets all of them alike.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_TOOLS_TUNE_ARMS_H
#define KI_TOOLS_TUNE_ARMS_H

#include "../bench/bench.h"
#include "tune.h"

enum { TUNE_ROUNDS = 7, TUNE_ROUNDS_LEAST = 3 }; /* the least where rounds take far longer than the budget */

typedef struct tune_arm {
    char name[48];
    kith_ctx *ctx;       /* NULL: not open */
    kith_group *control; /* over the backend that is measured: a rank that waits in it moves on what others wait for */
    bench_call call;
    bool has_call;
    double rounds[TUNE_ROUNDS]; /* medians, us */
} tune_arm;

/* Opens a context over the ranks of `job` in which a collective is forced to an algorithm, or, with algorithm NULL, is
 * chosen by a table (path; NULL: the one that holds now). Collective over the job. */
kith_status tune_arm_open(tune_arm *arm, kith_ctx *job, kith_coll_kind kind, const char *algorithm, const char *table);
void tune_arm_close(tune_arm *arm);

/* The algorithm that the arm would run; NULL: none, as the forced one is not possible here. */
const char *tune_arm_algorithm(const tune_arm *arm, kith_coll_kind kind, size_t nbytes, const char **reason);

/* Times of one size in all arms that can run it, in turn: us[count] NaN where one cannot, spread[count] the share of
 * the median within which half of the rounds lie. Collective. */
kith_status tune_arms_measure(tune_arm *arms, int count, kith_coll_kind kind, size_t nbytes, double budget_s,
                              double *us, double *spread);

#endif
