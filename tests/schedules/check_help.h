/* tests/schedules/check_help.h - plans for tests of lowering and checking: written as text, changed, read back.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef TESTS_SCHEDULES_CHECK_HELP_H
#define TESTS_SCHEDULES_CHECK_HELP_H

#include <kith/schedule.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A custom plan from one text for each rank: "0F0 0SEND_F0 1F1& 0B0 REDUCE_GRAD ." - "&" marks the first of a pair, "."
 * is IDLE. Stage s lies on rank s mod ranks, or in a V. The test fails on what cannot be read or appended. */
kith_schedule *plan_from(int ranks, int stages, int microbatches, bool is_v, const char *const *lists);

/* The list of a rank in the same form, in a buffer of the helper. */
const char *list_text(const kith_schedule *plan, int rank);

/* Lists that can be changed, as plans cannot. */
typedef struct draft {
    int ranks, stages, microbatches;
    int rank_of_stage[64];
    struct {
        kith_action *actions;
        size_t count;
    } lists[64];
} draft;

void draft_init(draft *d, const kith_schedule *plan);
void draft_fini(draft *d);
void draft_insert(draft *d, int rank, size_t position, const kith_action *action);
void draft_remove(draft *d, int rank, size_t position);
/* NULL when an action is refused. */
kith_schedule *draft_plan(const draft *d);

/* A random number below count. */
unsigned random_below(uint64_t *seed, unsigned count);

/* Takes the lists strictly in order with F = I = W = 1, B = 2, and messages that take no time: a receive holds up its
 * rank until the message is sent, and a send until it is received when is_rendezvous. Fills when each rank started its
 * first F. Returns the makespan; negative when the ranks wait for each other. Lowered plans alone. */
double strict_clock(const kith_schedule *plan, bool is_rendezvous, double *first_forward);

#endif
