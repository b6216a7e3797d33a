/* tests/conformance/cases.h - single cases that came from reports about other libraries, by name.
 *
 * A case is a function that runs on every rank, with the ranks, backend and launcher of the command line; or, when it
 * prepares something around the ranks (an environment, a network), a function that runs them itself. README.md says
 * which report each one answers.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef CONFORMANCE_CASES_H
#define CONFORMANCE_CASES_H

#include "harness.h"

#define CASE_SKIPPED (-77) /* instead of a number of failed ranks; the reason was printed */

typedef struct conformance_case {
    const char *name;
    rank_function on_rank;
    int (*run)(run_options *options); /* instead of on_rank; returns the number of failed ranks */
} conformance_case;

/* Each ends with a NULL name. */
extern const conformance_case cases_numbers[]; /* what reductions give at the ends of their types */
extern const conformance_case cases_data[];    /* blocks, messages, deadlines */
extern const conformance_case cases_reports[]; /* what an error says, and to whom */
extern const conformance_case cases_choice[];  /* algorithms and settings */
extern const conformance_case cases_joining[]; /* launchers, contexts, memory */
extern const conformance_case cases_network[]; /* interfaces */

/* A collective and a ring of messages on the group, checked. */
void case_use_group(kith_group *group);

/* A folder of its own for a case, removed with its files by case_folder_remove(). */
void case_folder_make(char *path, size_t nbytes);
void case_folder_remove(const char *path);

#endif
