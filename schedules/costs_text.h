/* schedules/costs_text.h - the letters of costs in texts, shared by the words on a command line and by profiles.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_SCHEDULES_COSTS_TEXT_H
#define KI_SCHEDULES_COSTS_TEXT_H

#include "schedule.h"

/* X(letters, member of kith_stage_cost, meaning) */
#define KI_COST_LETTERS(X)                                                                                             \
    X("F", f, "forward")                                                                                               \
    X("I", i, "backward for inputs")                                                                                   \
    X("W", w, "backward for weights")                                                                                  \
    X("B", b, "backward in one")                                                                                       \
    X("FB", fb, "forward and backward overlapped")                                                                     \
    X("R", recompute, "forward again")                                                                                 \
    X("C", send, "message on the connection")                                                                          \
    X("L", latency, "latency of a message")                                                                            \
    X("A", activation_nbytes, "bytes of an activation")                                                                \
    X("G", weight_nbytes, "bytes held for W")                                                                          \
    X("M", message_nbytes, "bytes of a message")

/* The number of a row of the table; -1 when the letters (of either case) are none. */
int ki_cost_letters(const char *text, size_t length);
/* "F, I, W, ..." */
const char *ki_cost_letters_valid(void);
double *ki_cost_member(kith_stage_cost *cost, int row);

/* What was said of a stage's backward: B alone sets I and W to its half, B with one of the two sets the other to the
 * rest. given: bit i is set when row i was given. Negative rests are KITH_ERR_INVALID_ARG; where: "costs", "p.csv:3".
 * */
kith_status ki_cost_complete(kith_stage_cost *cost, unsigned given, const char *where);

#endif
