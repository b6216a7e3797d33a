/* tests/schedules/simulate_reference.h - plans as plain arrays, and a second simulator for them, which works another
 * way than the library's: it lets time pass from event to event, looks at all ranks and all connections at each of
 * them, and keeps a queue for each connection.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KITH_TESTS_SIMULATE_REFERENCE_H
#define KITH_TESTS_SIMULATE_REFERENCE_H

#include <kith/schedule.h>
#include <stdbool.h>

#define RANKS 5
#define STAGES 10
#define MICROBATCHES 6
#define ACTIONS (STAGES * MICROBATCHES * 5)

typedef struct list {
    kith_action actions[ACTIONS];
    int count;
} list;

typedef struct plan {
    int ranks, stages, microbatches;
    int rank_of_stage[STAGES];
    bool has_backward;
    bool is_split[STAGES][MICROBATCHES]; /* I and W */
    list lists[RANKS];
    kith_stage_cost costs[STAGES];
} plan;

/* What was made so far. */
typedef struct progress {
    bool f[STAGES][MICROBATCHES], inputs[STAGES][MICROBATCHES], weights[STAGES][MICROBATCHES];
} progress;

typedef struct message {
    double ready;
    bool is_forward;
    int stage, microbatch; /* that makes it */
} message;

typedef struct connection {
    message queue[2 * STAGES * MICROBATCHES];
    int count, sent;
    double free_from;
} connection;

typedef struct reference {
    const plan *p;
    double now;
    int cursor[RANKS];
    bool is_running[RANKS];
    double until[RANKS];
    connection ways[RANKS][RANKS];
    progress made;                           /* ended */
    double arrival[2][STAGES][MICROBATCHES]; /* of the activation, gradient made by a stage; negative: under way */
    kith_interval at[RANKS][ACTIONS];
    double sent_nbytes[RANKS];
    int sent_count[RANKS];
} reference;

/* 1, or 2 for an overlapped pair that begins there. */
int reference_unit_at(const list *l, int at);
/* True when all lists came to their ends. */
bool run_reference(reference *r, const plan *p);

#endif
