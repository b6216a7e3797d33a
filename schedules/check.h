/* schedules/check.h - what the passes of kith_schedule_check() share.
 *
 * The passes run in this order, and the first that finds something ends the check:
 *
 *     check_count.c     are there enough forwards at all? It needs memory for actions, not for stages x microbatches,
 *                       of which a plan may claim to have 2^22. From here on there is an action for each pair.
 *     check_local.c     walks each list once and keeps what was met: all that a stage needs, makes and gives up lies on
 *                       one rank, so most rules are about one list (check_data.c: rules of computation and messages,
 *                       check_step.c: rules of gradients, step and parameters)
 *     check_count.c     what is missing
 *     check_messages.c  do both ends of each connection have its messages in the same order?
 *     check_replay.c    do all lists run to their ends, or do ranks wait for each other?
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_SCHEDULES_CHECK_H
#define KI_SCHEDULES_CHECK_H

#include "schedule.h"

#include <stdint.h>

/* An action and where it stands. */
typedef struct ki_place {
    int rank;
    size_t position; /* in the list of the rank, from 0 */
    const kith_action *action;
} ki_place;

typedef struct ki_checker_stage {
    uint32_t met;       /* bit of each action type without microbatch */
    int backwards;      /* B and W that were met */
    bool has_shards;    /* the plan has UNSHARD or RESHARD of it */
    bool has_recompute; /* the plan has RECOMPUTE of it */
    bool is_unsharded;
} ki_checker_stage;

typedef struct ki_checker_mark {
    int rank;
    size_t position;
} ki_checker_mark;

#define KI_CHECKER_MARKS 16

typedef struct ki_checker {
    const kith_schedule *plan;
    kith_schedule_check_options o;
    size_t counts[KITH_ACTION_TYPE_COUNT]; /* in the whole plan */
    ki_checker_stage *stages;              /* [stages] */
    uint32_t *met;                         /* [stages * microbatches] bit of each action type with a microbatch */
    uint32_t rank_met;                     /* of the list that is walked: bit of each type without stage */
    bool rank_has_backward;
    int in_flight;
    struct ki_message_table *messages; /* NULL: a plan without messages */
    /* of the counterexample */
    ki_checker_mark marks[KI_CHECKER_MARKS];
    int mark_count;
    size_t *stand; /* [ranks] where each rank stands still; NULL when that is not the point */
} ki_checker;

static inline uint32_t ki_bit(kith_action_type type)
{
    return UINT32_C(1) << type;
}

#define KI_BACKWARD_BITS (ki_bit(KITH_ACTION_B) | ki_bit(KITH_ACTION_I))

static inline bool ki_checker_has(const ki_checker *c, uint32_t bits, int stage, int microbatch)
{
    return (c->met[ki_pair(c->plan, stage, microbatch)] & bits) != 0;
}

/* The counterexample: "rank R, position P: <action> <sentence>". */
kith_status ki_checker_refuse(ki_checker *c, const ki_place *place, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void ki_checker_mark_place(ki_checker *c, int rank, size_t position);

/* First place of an action in the list of a rank; false when it is not there. Linear: for sentences. */
bool ki_checker_find(const ki_checker *c, int rank, const kith_action *action, size_t *position);

/* The passes. */
kith_status ki_checker_count(ki_checker *c);
kith_status ki_checker_local(ki_checker *c);
kith_status ki_checker_missing(ki_checker *c);
kith_status ki_checker_missing_of_rank(ki_checker *c, int rank); /* at the end of its list */
kith_status ki_checker_messages(ki_checker *c);
kith_status ki_checker_replay(ki_checker *c);
void ki_checker_messages_fini(ki_checker *c);

/* A rule looks at an action before it is marked as met. */
typedef kith_status (*ki_checker_rule)(ki_checker *c, const ki_place *place);
kith_status ki_checker_forward(ki_checker *c, const ki_place *p);
kith_status ki_checker_backward(ki_checker *c, const ki_place *p); /* B and I */
kith_status ki_checker_weights(ki_checker *c, const ki_place *p);
kith_status ki_checker_recompute(ki_checker *c, const ki_place *p);
kith_status ki_checker_send(ki_checker *c, const ki_place *p);
kith_status ki_checker_receive(ki_checker *c, const ki_place *p);
kith_status ki_checker_load(ki_checker *c, const ki_place *p);
kith_status ki_checker_zero_grad(ki_checker *c, const ki_place *p);
kith_status ki_checker_reduce_grad(ki_checker *c, const ki_place *p);
kith_status ki_checker_reduce_tied(ki_checker *c, const ki_place *p);
kith_status ki_checker_step(ki_checker *c, const ki_place *p);
kith_status ki_checker_shards(ki_checker *c, const ki_place *p);
kith_status ki_checker_plan_has_backward(ki_checker *c, const ki_place *p);
/* The parameters of the action's stage are there. */
kith_status ki_checker_has_parameters(ki_checker *c, const ki_place *p);

/* True when the plan sums tied weights and the stage has one of them. */
static inline bool ki_checker_is_tied(const ki_checker *c, int stage)
{
    return c->counts[KITH_ACTION_REDUCE_TIED] > 0 && (stage == 0 || ki_schedule_is_last(c->plan, stage));
}

/* ---- messages ---- */

/* A lane carries the messages of one kind between two stages, one for each microbatch: activations from stage b to b
 * + 1 are lane 2 b, gradients back are lane 2 b + 1. A message is a number, lane * microbatches + microbatch. Each
 * lane is a connection, or all that one rank sends to another is. */
typedef struct ki_message_table {
    int lanes, connections;
    int *connection;         /* [lanes] -1: no messages, as both stages lie on one rank or the plan has no backward */
    size_t *first;           /* [connections] where the connection begins in `order` */
    size_t *order;           /* the messages of each connection as they are sent */
    size_t *done;            /* [connections] how many were sent, or received, so far */
    size_t *sent, *received; /* [lanes * microbatches] where either end of a message stands in its list */
} ki_message_table;

static inline int ki_lane(const kith_action *message)
{
    bool is_forward = message->type == KITH_ACTION_SEND_F || message->type == KITH_ACTION_RECV_F;
    bool is_below = message->type == KITH_ACTION_SEND_F || message->type == KITH_ACTION_RECV_B;
    int boundary = is_below ? message->stage : message->stage - 1;
    return 2 * boundary + (is_forward ? 0 : 1);
}

static inline size_t ki_message(const ki_checker *c, const kith_action *message)
{
    return (size_t)ki_lane(message) * (size_t)c->plan->microbatches + (size_t)message->microbatch;
}

/* One end of a message as an action, and the rank that it is on. */
kith_action ki_message_end(const ki_checker *c, size_t message, bool is_send);
int ki_message_rank(const ki_checker *c, size_t message, bool is_send);

/* The sentence, and a table of steps and ranks around what was marked. NULL without memory. (check_report.c) */
char *ki_checker_report(const ki_checker *c, const char *sentence);

#endif
