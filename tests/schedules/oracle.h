/* tests/schedules/oracle.h - is a plan right? Found out by doing it, with marks in place of tensors.
 *
 * The oracle shares nothing with kith_schedule_check() but the meaning of the actions. It runs all ranks side by
 * side, one action at a time in random turns. Buffers are slots that are empty or hold a value; a value says what it
 * is (activation, gradient, microbatch, ...) and of which stage and microbatch. Computation takes values out of
 * slots, looks whether they are the right ones, puts its own in, and adds to the gradients of its stage. Connections
 * are queues of values. A plan is right when all lists run to their ends, every slot and queue is empty again and
 * each stage has every microbatch exactly once in its gradients.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef TESTS_SCHEDULES_ORACLE_H
#define TESTS_SCHEDULES_ORACLE_H

#include "check_help.h"

#define ORACLE_STAGES 12
#define ORACLE_MICROBATCHES 12

/* True when the plan is right; else why says what went wrong first. At most ORACLE_STAGES and ORACLE_MICROBATCHES. */
bool oracle_accepts(const draft *plan, const kith_schedule_check_options *options, uint64_t seed, const char **why);

#endif
