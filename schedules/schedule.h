/* schedules/schedule.h - what a plan is inside, and the few functions through which generators and readers fill it.
 *
 * A plan is a map of stages to ranks and a list of actions for each rank. Lists only grow; whoever makes a plan owns it
 * until it hands it out, and nobody changes it afterwards (kith_schedule_append() on custom plans excepted).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_SCHEDULES_SCHEDULE_H
#define KI_SCHEDULES_SCHEDULE_H

#include <kith/schedule.h>
#include <stdbool.h>

#define KI_RANKS_MAX 4096
#define KI_FILE_NBYTES_MOST ((size_t)256 << 20) /* of a plan or a profile */
#define KI_STAGES_MAX 65536
#define KI_MICROBATCHES_MAX 1048576
/* stages * microbatches. A plan has up to ten actions of 20 bytes for each pair, and its text 40 bytes for each
 * action: so the longest takes seconds, and no more than a gigabyte or two. */
#define KI_PAIRS_MAX (1 << 22)

typedef struct ki_action_list {
    kith_action *actions;
    size_t count, room;
} ki_action_list;

struct kith_schedule {
    kith_schedule_kind kind;
    int ranks, stages, microbatches;
    int chunks;            /* the most stages of a rank */
    int *rank_of_stage;    /* [stages] */
    int *chunk_of_stage;   /* [stages] position among the stages of its rank */
    int *stage_of_chunk;   /* [ranks * chunks], -1: none */
    ki_action_list *lists; /* [ranks] */
    bool has_messages, has_backward;
    bool has_step_actions; /* loads, recomputation, zeroing, reductions, steps: what lowering adds beside messages */
    char **notes;
    int note_count;
};

/* An empty plan. rank_of_stage: [stages], or NULL for the layout. Sizes outside the limits are KITH_ERR_INVALID_ARG
 * with the limits. (schedule.c) */
kith_status ki_schedule_new(kith_schedule_kind kind, int ranks, int stages, const int *rank_of_stage,
                            kith_stage_layout layout, int microbatches, kith_schedule **schedule);

/* Appends an action to the list of a rank. Stage and microbatch are -1 where the type has none; the chunk is filled in.
 * Arguments are trusted. KITH_ERR_NO_MEMORY. */
kith_status ki_schedule_add(kith_schedule *schedule, int rank, kith_action_type type, int stage, int microbatch);
kith_status ki_schedule_add_action(kith_schedule *schedule, int rank, const kith_action *action);
/* Marks the last action of the list as one with the next that is added. */
void ki_schedule_overlap_last(kith_schedule *schedule, int rank);
kith_status ki_schedule_add_note(kith_schedule *schedule, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Memory of plans and of what works on them: zeroed, never of size 0, freed with free(); NULL for
 * ki_schedule_no_memory(). (schedule.c) */
void *ki_schedule_zeroed(size_t count, size_t nbytes);
kith_status ki_schedule_no_memory(const char *what);

/* What a type works on (names.c). */
typedef enum ki_action_scope { KI_SCOPE_NOTHING, KI_SCOPE_STAGE, KI_SCOPE_MICROBATCH } ki_action_scope;
ki_action_scope ki_action_scope_of(kith_action_type type);

static inline bool ki_action_is_backward(kith_action_type type)
{
    return type == KITH_ACTION_B || type == KITH_ACTION_I || type == KITH_ACTION_W;
}

/* F, B, I or W: what plans of computation alone consist of. */
static inline bool ki_action_is_compute(kith_action_type type)
{
    return type == KITH_ACTION_F || ki_action_is_backward(type);
}

/* What lowering adds beside messages. */
static inline bool ki_action_is_of_step(kith_action_type type)
{
    return type == KITH_ACTION_RECOMPUTE || (type >= KITH_ACTION_LOAD_INPUT && type <= KITH_ACTION_OPTIMIZER_STEP);
}

static inline bool ki_action_is_message(kith_action_type type)
{
    return type >= KITH_ACTION_SEND_F && type <= KITH_ACTION_RECV_B;
}

static inline bool ki_action_is_send(kith_action_type type)
{
    return type == KITH_ACTION_SEND_F || type == KITH_ACTION_SEND_B;
}

/* The rank at the other end of a message; -1 when stage 0 would receive from before it, and the like. */
int ki_schedule_peer(const kith_schedule *schedule, const kith_action *message);

/* True when the activation of `stage` goes to another rank. False for the last stage. */
static inline bool ki_schedule_crosses(const kith_schedule *schedule, int stage)
{
    return stage >= 0 && stage + 1 < schedule->stages &&
           schedule->rank_of_stage[stage] != schedule->rank_of_stage[stage + 1];
}

/* True when a stage has its neighbour on another rank. (schedule.c) */
bool ki_schedule_needs_messages(const kith_schedule *schedule);

/* Whether the action at `at` is marked as overlapped and may be: an F and, next, the B or I of another microbatch.
 * Neither needs the other, so they may run as one. (schedule.c) */
bool ki_schedule_is_pair(const ki_action_list *list, size_t at);

/* The costs of each stage, [stages], checked: finite and not negative, b and recompute filled in; fb stays negative
 * where it is not given. NULL: KITH_SCHEDULE_COSTS_INIT. Freed with free(). (costs.c) */
kith_status ki_schedule_stage_costs(const kith_schedule *schedule, const kith_schedule_costs *costs,
                                    kith_stage_cost **stages);
/* How long an action takes, and an overlapped pair. costs: [stages], of ki_schedule_stage_costs(). (costs.c) */
double ki_action_duration(const kith_stage_cost *costs, const kith_action *action);
double ki_pair_duration(const kith_stage_cost *costs, const kith_action *pair);

/* kith_schedule_in_flight(), and the most bytes that are held at once; costs: [stages], NULL: none. Arguments are
 * trusted. (in_flight.c) */
void ki_schedule_held(const kith_schedule *schedule, int rank, const kith_stage_cost *costs, kith_in_flight *peak,
                      double *peak_nbytes);

static inline bool ki_schedule_is_last(const kith_schedule *schedule, int stage)
{
    return stage == schedule->stages - 1;
}

/* Index of (stage, microbatch) in arrays that have one entry for each. */
static inline size_t ki_pair(const kith_schedule *schedule, int stage, int microbatch)
{
    return (size_t)stage * (size_t)schedule->microbatches + (size_t)microbatch;
}

#endif
