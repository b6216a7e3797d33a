/* tests/schedules/pipeline_cases.h - cases for pipelines that run; each is a function that runs on every rank.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef TESTS_SCHEDULES_PIPELINE_CASES_H
#define TESTS_SCHEDULES_PIPELINE_CASES_H

#include "toy.h"

typedef struct pipeline_case {
    const char *name;
    rank_function on_rank;
    bool joins_itself, may_die;
} pipeline_case;

/* Each ends with a NULL name. */
extern const pipeline_case pipeline_results[];  /* gradients, losses, memory */
extern const pipeline_case pipeline_trouble[];  /* delays, failures, deaths, bad arguments */
extern const pipeline_case pipeline_meeting[];  /* what ranks and replicas bring alike, whose sentence is told */
extern const pipeline_case pipeline_files[];    /* plans that lack parts of a step */
extern const pipeline_case pipeline_progress[]; /* callbacks that use the library */

typedef struct trial {
    kith_schedule *plan;
    toy toy;
    kith_pipeline_options options;
    kith_pipeline *pipeline;
    char what[80]; /* for messages */
} trial;

/* Whether every kind is to be tried, or those that differ most: slow builds have less time. */
bool is_brief(const rank_info *info);

/* The plan, the toy, and options to be changed; false when the kind does not go with the numbers. */
bool trial_plan(trial *t, const rank_info *info, kith_schedule_kind kind, int microbatches, int chunks,
                const toy_options *o);
/* The same for a part of the ranks: `ranks` of them, of which this is `rank`. */
bool trial_plan_on(trial *t, int ranks, int rank, kith_schedule_kind kind, int microbatches, int chunks,
                   const toy_options *o);
void trial_start(trial *t, kith_group *group); /* creates the pipeline */
void trial_end(trial *t);

#endif
