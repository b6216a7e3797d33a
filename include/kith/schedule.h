/* kith/schedule.h - pipeline schedules as data: made, checked, lowered, simulated, printed and read.
 *
 *     kith_schedule_options o = KITH_SCHEDULE_OPTIONS_INIT;
 *     o.kind = KITH_SCHEDULE_1F1B; o.ranks = 4; o.microbatches = 8;
 *     kith_schedule *plan;
 *     kith_schedule_create(&o, &plan);                            // what each rank computes, in order
 *     kith_simulation *run;
 *     kith_schedule_simulate(plan, NULL, &run);                   // F = 1, B = 2
 *     kith_simulation_total(run)->bubble                          // 9 = (4 - 1)(1 + 2)
 *     kith_simulation_rank(run, 0)->in_flight                     // 4
 *
 * A model is cut into stages 0 .. stages-1; every rank of the pipeline holds `chunks` of them. A plan is, for every
 * rank, a list of actions in the order in which that rank takes them. A plan of computation alone says nothing of
 * messages: kith_schedule_lower() adds them, with everything else that a training step needs. kith/pipeline.h runs the
 * result over a group.
 *
 * All of this is arithmetic: no messages, no clock, no files but the one that kith_schedule_load() reads. A finished
 * plan never changes; it may be read by many threads. Texts that are handed out are freed with kith_free().
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KITH_SCHEDULE_H
#define KITH_SCHEDULE_H

#include <kith/status.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- actions ---- */

/* X(symbol, name in texts, what it works on). The names are those of PyTorch's pipeline files where these have one.
 * What: M stage and microbatch, S stage alone, N nothing.
 *
 * Two stages are neighbours: s sends activations to s + 1 and gradients to s - 1. The stage of a message is the stage
 * that acts: 1SEND_F3 on the rank of stage 1 and 2RECV_F3 on the rank of stage 2 are the two ends of one message. */
#define KITH_ACTION_TABLE(X)                                                                                           \
    X(KITH_ACTION_IDLE, "", N)               /* one unit of waiting; only in plans read from files with empty cells */ \
    X(KITH_ACTION_F, "F", M)                 /* forward */                                                             \
    X(KITH_ACTION_B, "B", M)                 /* backward for inputs and weights */                                     \
    X(KITH_ACTION_I, "I", M)                 /* backward for inputs alone; its W comes later */                        \
    X(KITH_ACTION_W, "W", M)                 /* backward for weights */                                                \
    X(KITH_ACTION_RECOMPUTE, "RECOMPUTE", M) /* forward again, before B or I, when activations were dropped */         \
    X(KITH_ACTION_SEND_F, "SEND_F", M)                                                                                 \
    X(KITH_ACTION_RECV_F, "RECV_F", M)                                                                                 \
    X(KITH_ACTION_SEND_B, "SEND_B", M)                                                                                 \
    X(KITH_ACTION_RECV_B, "RECV_B", M)                                                                                 \
    X(KITH_ACTION_LOAD_INPUT, "LOAD_INPUT", M)   /* first stage: the microbatch itself */                              \
    X(KITH_ACTION_LOAD_TARGET, "LOAD_TARGET", M) /* last stage: what the loss compares with */                         \
    X(KITH_ACTION_ZERO_GRAD, "ZERO_GRAD", N)                                                                           \
    X(KITH_ACTION_REDUCE_GRAD, "REDUCE_GRAD", S) /* start of the data-parallel reduction of the stage's gradients */   \
    X(KITH_ACTION_REDUCE_TIED, "REDUCE_TIED", S) /* sum of tied weights' gradients of first and last stage */          \
    X(KITH_ACTION_OPTIMIZER_STEP, "OPTIMIZER_STEP", N)                                                                 \
    X(KITH_ACTION_UNSHARD, "UNSHARD", S) /* parameters of the stage gathered (fully sharded data parallel) */          \
    X(KITH_ACTION_RESHARD, "RESHARD", S) /* and given up again */

typedef enum kith_action_type {
#define KITH_ACTION_ENUM(symbol, name, what) symbol,
    KITH_ACTION_TABLE(KITH_ACTION_ENUM)
#undef KITH_ACTION_ENUM
        KITH_ACTION_TYPE_COUNT
} kith_action_type;

typedef struct kith_action {
    kith_action_type type;
    int stage;         /* of the model; -1 where the type has none */
    int microbatch;    /* -1 where the type has none */
    int chunk;         /* which of the rank's stages that is, in ascending order of stages; -1 without a stage */
    int is_overlapped; /* 1: runs as one with the next action of the list: an F with the B or I of another microbatch */
} kith_action;

/* "F", "SEND_B", ...; NULL for a number that is no type. */
KITH_API const char *kith_action_name(kith_action_type type);
/* PyTorch's cell: "3F7", "0SEND_B2", "1REDUCE_GRAD"; "" for IDLE. Always ends with a zero. Returns buffer. */
KITH_API const char *kith_action_text(const kith_action *action, char *buffer, size_t nbytes);

/* ---- plans ---- */

typedef struct kith_schedule kith_schedule;

/* X(symbol, number, name). Sources and formulas: docs/schedules.md. */
#define KITH_SCHEDULE_KIND_TABLE(X)                                                                                    \
    X(KITH_SCHEDULE_NAIVE, 0, "naive")             /* one microbatch at a time */                                      \
    X(KITH_SCHEDULE_GPIPE, 1, "gpipe")             /* all forwards, then all backwards */                              \
    X(KITH_SCHEDULE_1F1B, 2, "1f1b")               /* one forward, one backward, with a flush */                       \
    X(KITH_SCHEDULE_INTERLEAVED, 3, "interleaved") /* 1F1B over several chunks a rank */                               \
    X(KITH_SCHEDULE_ZB_H1, 4, "zb-h1")             /* zero bubble, memory of 1F1B */                                   \
    X(KITH_SCHEDULE_ZB_H2, 5, "zb-h2")             /* zero bubble, twice that memory */                                \
    X(KITH_SCHEDULE_ZB_V, 6, "zb-v")               /* zero bubble on two chunks in a V */                              \
    X(KITH_SCHEDULE_LOOPED_BFS, 7, "looped-bfs")   /* GPipe over several chunks a rank, breadth first */               \
    X(KITH_SCHEDULE_INTERLEAVED_ZB, 8, "interleaved-zb")                                                               \
    X(KITH_SCHEDULE_DUALPIPE_V, 9, "dualpipe-v") /* two chunks in a V, forward and backward overlapped */              \
    X(KITH_SCHEDULE_AUTO, 10, "auto")            /* from costs and a memory bound, by list scheduling */               \
    X(KITH_SCHEDULE_CUSTOM, 11, "custom")        /* read from a file or built by hand */

typedef enum kith_schedule_kind {
#define KITH_SCHEDULE_KIND_ENUM(symbol, number, name) symbol = number,
    KITH_SCHEDULE_KIND_TABLE(KITH_SCHEDULE_KIND_ENUM)
#undef KITH_SCHEDULE_KIND_ENUM
} kith_schedule_kind;

/* "1f1b", ...; NULL past the end. */
KITH_API const char *kith_schedule_kind_name(kith_schedule_kind kind);
/* The kind of a name; case and '_' for '-' do not matter. KITH_ERR_INVALID_ARG lists the names. */
KITH_API kith_status kith_schedule_kind_named(const char *name, kith_schedule_kind *kind);

/* How stages lie on ranks. */
typedef enum kith_stage_layout {
    KITH_STAGES_LOOP, /* stage s on rank s mod ranks */
    KITH_STAGES_V     /* two chunks: stage s < ranks on rank s, the others back: on rank 2 ranks - 1 - s */
} kith_stage_layout;

/* What one stage costs. Times in any one unit; what counts is their proportion. */
typedef struct kith_stage_cost {
    double f, i, w;   /* forward, backward for inputs, for weights */
    double b;         /* backward in one; negative: i + w */
    double fb;        /* a forward and a backward overlapped, the mean of their two stages' values; negative: the sum
                       * of the two. With an I it is less by the W that comes later */
    double recompute; /* forward again; negative: f */
    double send;      /* how long a message between this stage and the next, either way, fills the connection of
                               * the two ranks (each direction has its own) */
    double latency;   /* from its end there to its arrival */
    double activation_nbytes; /* held from the forward until B or I ends (M_B) */
    double weight_nbytes;     /* held from the end of I until W ends (M_W) */
    double message_nbytes;    /* activation, or gradient, of a microbatch between this stage and the next */
} kith_stage_cost;

/* Fill with KITH_SCHEDULE_COSTS_INIT: F = I = W = 1, messages take no time, one unit of memory. */
typedef struct kith_schedule_costs {
    size_t struct_size;
    int stage_count; /* 0: `same` holds for each stage; else that of the plan */
    kith_stage_cost same;
    const kith_stage_cost *stages; /* [stage_count] */
} kith_schedule_costs;

#define KITH_STAGE_COST_INIT                                                                                           \
    {                                                                                                                  \
        1, 1, 1, -1, -1, -1, 0, 0, 1, 0, 1                                                                             \
    }
#define KITH_SCHEDULE_COSTS_INIT                                                                                       \
    {                                                                                                                  \
        sizeof(kith_schedule_costs), 0, KITH_STAGE_COST_INIT, NULL                                                     \
    }

/* Fill with KITH_SCHEDULE_OPTIONS_INIT. */
typedef struct kith_schedule_options {
    size_t struct_size;
    kith_schedule_kind kind;
    int ranks;            /* 1 .. 4096 */
    int microbatches;     /* 1 .. 1048576; times the stages at most 4194304 */
    int chunks;           /* stages a rank; 0: what the kind needs (1; 2 for zb-v and dualpipe-v and for the kinds with
                       * several: interleaved, looped-bfs, interleaved-zb) */
    int is_forward_only;  /* 1: evaluation: forwards alone, on the kind's stages, in an order that leaves no gap */
    int is_fifo_backward; /* gpipe, looped-bfs: 1: backwards in the order of the forwards; 0: in reverse */
    int group_size;       /* interleaved, interleaved-zb: microbatches that go through one chunk before the next
                              * (Megatron's microbatch group), ranks or more; 0: ranks. The last group may be smaller */
    int warmup_factor;    /* interleaved: 2: room for the messages to travel; 1: less memory, no slack; 0: 2 */
    const kith_schedule_costs *costs; /* auto: what to plan for; NULL: KITH_SCHEDULE_COSTS_INIT */
    double memory_bound; /* auto: bytes (of costs) that a rank may hold at once; at least what one microbatch needs, the
                          * larger of activation_nbytes and weight_nbytes; 0: ranks times that of the largest stage's
                          * activation_nbytes, as in 1F1B */
} kith_schedule_options;

#define KITH_SCHEDULE_OPTIONS_INIT                                                                                     \
    {                                                                                                                  \
        sizeof(kith_schedule_options), KITH_SCHEDULE_1F1B, 1, 1, 0, 0, 0, 0, 0, NULL, 0                                \
    }

/* Makes the plan of computation: F with B, or I and W, of every stage and microbatch. KITH_ERR_INVALID_ARG names the
 * value and the valid ones (zb-v has two chunks, groups have ranks microbatches or more, ...). Any number of
 * microbatches works, fewer than ranks, indivisible, or one; where that costs time, a note says so. */
KITH_API kith_status kith_schedule_create(const kith_schedule_options *options, kith_schedule **schedule);

/* An empty plan to be filled by hand, all ranks without actions. rank_of_stage: [stages], copied; each rank needs at
 * least one stage. kind is `custom`. */
KITH_API kith_status kith_schedule_create_custom(int ranks, int stages, const int *rank_of_stage, int microbatches,
                                                 kith_schedule **schedule);
/* Appends to the list of a rank of a custom plan. The action's chunk is filled in here. KITH_ERR_INVALID_ARG when
 * stage, microbatch or type are outside the plan; whether the whole makes sense is for kith_schedule_check(). */
KITH_API kith_status kith_schedule_append(kith_schedule *schedule, int rank, const kith_action *action);
KITH_API kith_status kith_schedule_copy(const kith_schedule *schedule, kith_schedule **copy); /* kind: custom */
KITH_API void kith_schedule_destroy(kith_schedule *schedule);                                 /* NULL is fine */

KITH_API kith_schedule_kind kith_schedule_kind_of(const kith_schedule *schedule);
KITH_API int kith_schedule_ranks(const kith_schedule *schedule);
KITH_API int kith_schedule_stages(const kith_schedule *schedule);
KITH_API int kith_schedule_microbatches(const kith_schedule *schedule);
/* The most stages that a rank has. */
KITH_API int kith_schedule_chunks(const kith_schedule *schedule);
/* -1 outside. */
KITH_API int kith_schedule_rank_of_stage(const kith_schedule *schedule, int stage);
/* The stage of a rank's chunk; -1 when it has none. */
KITH_API int kith_schedule_stage_of_chunk(const kith_schedule *schedule, int rank, int chunk);
/* 1 when the plan has messages; where no stage has its neighbour on another rank, so that there are none, when it has
 * other actions that kith_schedule_lower() adds. */
KITH_API int kith_schedule_is_lowered(const kith_schedule *schedule);
/* 1 when the plan has no backward action at all. */
KITH_API int kith_schedule_is_forward_only(const kith_schedule *schedule);
/* The list of a rank, *count long; borrowed, until the plan changes or goes. NULL outside. */
KITH_API const kith_action *kith_schedule_actions(const kith_schedule *schedule, int rank, size_t *count);

/* Remarks of the generator, such as "6 microbatches in groups of 4: bubble is larger than with a multiple of 4". NULL
 * past the end. */
KITH_API const char *kith_schedule_note(const kith_schedule *schedule, int index);

/* What a rank holds at most, counted along its list. */
typedef struct kith_in_flight {
    int activations; /* (stage, microbatch) pairs from their F to the end of their B or I */
    int weights;     /* pairs whose I has ended and whose W has not */
    int held;        /* pairs from F to the end of B or W */
} kith_in_flight;
KITH_API kith_status kith_schedule_in_flight(const kith_schedule *schedule, int rank, kith_in_flight *in_flight);

/* ---- lowering ---- */

/* Fill with KITH_LOWER_OPTIONS_INIT: all but recomputation and tied weights. A member that is 1 adds: */
typedef struct kith_lower_options {
    size_t struct_size;
    int has_load;      /* LOAD_INPUT before the first stage's F, LOAD_TARGET before the last stage's F */
    int has_zero_grad; /* at the start */
    int has_reduce;    /* REDUCE_GRAD once the last B or W of a stage has ended, so that it overlaps with what follows;
                        * behind the stage's own last message, as another rank waits for that one */
    int has_step;      /* OPTIMIZER_STEP at the end */
    int has_recompute; /* RECOMPUTE right before each B or I */
    int has_tied;      /* first and last stage share a weight: REDUCE_TIED on both, before their REDUCE_GRAD, unless one
                        * rank has both: then there is one copy, and nothing to add. An exchange between two ranks,
                        * so it enters both lists at the same moment, like a message */
    const kith_schedule_costs *costs; /* orders the messages by when they would be sent; NULL: F = I = W = 1 */
} kith_lower_options;

#define KITH_LOWER_OPTIONS_INIT                                                                                        \
    {                                                                                                                  \
        sizeof(kith_lower_options), 1, 1, 1, 1, 0, 0, NULL                                                             \
    }
#define KITH_LOWER_MESSAGES_INIT                                                                                       \
    {                                                                                                                  \
        sizeof(kith_lower_options), 0, 0, 0, 0, 0, 0, NULL                                                             \
    }

/* A new plan with messages between stages of different ranks. Both ends of a message enter their lists at the same
 * moment of one global order, so that the lists agree on an order of all messages, and the plan runs even where a send
 * waits for its receive. A receive comes in the list after all that starts before the message is sent, so waiting
 * for it never delays what could run earlier. Messages stand before or after an overlapped pair, never in it.
 * options NULL: the INIT values. IDLE is dropped, UNSHARD and RESHARD stay where they are. Of the actions above, a
 * plan without backward gets the loads alone. Kind and notes are those of the plan. KITH_ERR_INVALID_ARG when the
 * plan is lowered already, or cannot run (the sentence of kith_schedule_check()). */
KITH_API kith_status kith_schedule_lower(const kith_schedule *schedule, const kith_lower_options *options,
                                         kith_schedule **lowered);
/* The reverse: F, B, I and W alone, with adjacent I and W of one stage and microbatch left as they are. */
KITH_API kith_status kith_schedule_compute_only(const kith_schedule *schedule, kith_schedule **compute_only);

/* ---- checking ---- */

/* Fill with KITH_SCHEDULE_CHECK_OPTIONS_INIT. */
typedef struct kith_schedule_check_options {
    size_t struct_size;
    int capacity;        /* messages that a connection holds before a send waits; 0: a send waits for its receive */
    int is_one_channel;  /* 1: all that one rank sends to another, activations and gradients of all stages, goes through
                         * one ordered connection, and a receive takes what comes next, whatever it is; 0: activations
                         * and gradients of each stage have a connection of their own */
    int in_flight_bound; /* the most (stage, microbatch) pairs that a rank may hold between F and B or I; 0: any */
    const int *in_flight_bounds; /* the same for each rank, [ranks]; NULL: in_flight_bound */
} kith_schedule_check_options;

#define KITH_SCHEDULE_CHECK_OPTIONS_INIT                                                                               \
    {                                                                                                                  \
        sizeof(kith_schedule_check_options), 0, 0, 0, NULL                                                             \
    }

/* Proves that the plan is right: each F and each B, or I and W, of every stage and microbatch exactly once, on the rank
 * of the stage, in an order that can be; and, with messages: each receive has one send on the right rank and the two
 * come in the same order, nothing is used before it has come or after it was released, and no cycle of waiting exists,
 * with the given capacity. Each rank takes its list strictly in order: a receive holds up what stands behind it.
 *
 * Loading, zeroing, reducing and stepping are all or none: a plan that does it for one stage or rank, or for one
 * microbatch, does it for all. So is RECOMPUTE within a stage, and UNSHARD in a stage that has one. An overlapped
 * pair is an F and, next in the list, the B or I of another microbatch.
 *
 * Else KITH_ERR_INVALID_ARG: the sentence (kith_error_detail(); it is an answer and not logged) names the first
 * counterexample, and *report (may be NULL; kith_free()) is the sentence with a table of positions and ranks in
 * which the places are marked; *report is NULL for a plan that is right. options NULL: the INIT values. */
KITH_API kith_status kith_schedule_check(const kith_schedule *schedule, const kith_schedule_check_options *options,
                                         char **report);

/* ---- simulation ---- */

typedef struct kith_simulation kith_simulation;

typedef struct kith_simulation_rank_result {
    double start, end;     /* of its first and last computation */
    double busy;           /* time computing */
    double bubble;         /* makespan - busy */
    double span_bubble;    /* (end - start) - busy */
    int in_flight;         /* peak of (stage, microbatch) pairs between F and the end of B or I: microbatches with one
                          * chunk a rank, else chunks */
    int in_flight_weights; /* pairs between the end of I and the end of W */
    int held;              /* pairs between F and the end of B or W */
    double peak_nbytes;    /* of costs' activation_nbytes and weight_nbytes */
    size_t sent_count;     /* messages */
    double sent_nbytes;
} kith_simulation_rank_result;

typedef struct kith_simulation_total_result {
    double makespan;
    double bubble;      /* makespan - busy time of the busiest rank */
    double rate;        /* bubble / makespan */
    double span_bubble; /* longest span (end - start of a rank) - busy time of the busiest rank: what is lost when
                         * nothing at the end of a step waits for all ranks, as the zero-bubble papers count */
    double span_rate;   /* span_bubble / longest span */
    size_t sent_count;
    double sent_nbytes;
} kith_simulation_total_result;

typedef struct kith_interval {
    double start, end;
} kith_interval;

/* Runs the plan on a clock. Computation takes the cost of its stage; a rank takes its actions in order, each as soon
 * as what it needs is there; messages leave when their data is ready, whether the plan has them as actions or not, one
 * at a time on each connection, and a RECV does not hold up the rank - the computation that needs the message does. So
 * a plan takes the same time with messages and without. costs NULL: KITH_SCHEDULE_COSTS_INIT. KITH_ERR_INVALID_ARG for
 * a plan that cannot run to its end (the sentence says what waits for what) or lacks a forward, and for costs that are
 * negative or not finite. */
KITH_API kith_status kith_schedule_simulate(const kith_schedule *schedule, const kith_schedule_costs *costs,
                                            kith_simulation **simulation);
KITH_API void kith_simulation_destroy(kith_simulation *simulation);
KITH_API const kith_simulation_total_result *kith_simulation_total(const kith_simulation *simulation);
KITH_API const kith_simulation_rank_result *kith_simulation_rank(const kith_simulation *simulation, int rank);
/* When each action of the rank's list ran, *count of them, in the order of the list. What does not compute takes no
 * time: a SEND stands where its message leaves, a RECV where it arrives, the others where the rank is. */
KITH_API const kith_interval *kith_simulation_intervals(const kith_simulation *simulation, int rank, size_t *count);

/* "F=10,I=12,W=8,C=1": F, I, W, B, FB, R (recompute), C (send), L (latency), A (activation bytes), G (bytes held for
 * W), M (message bytes). B without I and W sets both to its half, with one of them the other to the rest; a B beside I
 * and W stays. What is not named keeps its INIT value. Values are finite, >= 0. KITH_ERR_INVALID_ARG names what is
 * wrong. Only `same` is filled. */
KITH_API kith_status kith_schedule_costs_parse(const char *text, kith_schedule_costs *costs);
/* A measured profile: one line a stage, "stage,F,I,W,C" and more columns named by the first line with the letters
 * above, each stage from 0 on once. "-": standard input. KITH_ERR_INVALID_ARG "path:line:column: ...". The stages are
 * allocated: free costs->stages with kith_free(). */
KITH_API kith_status kith_schedule_costs_load(const char *path, kith_schedule_costs *costs);

/* ---- texts ---- */

typedef enum kith_schedule_form {
    KITH_FORM_TORCH_COMPUTE, /* PyTorch's CSV, computation alone */
    KITH_FORM_TORCH_COMMS,   /* the same with messages and reductions */
    KITH_FORM_DEEPSPEED,     /* listing of DeepSpeed's pipe instructions, a step a line */
    KITH_FORM_SHALLOWSPEED   /* listing of shallowspeed's instructions */
} kith_schedule_form;

/* Writes the plan. A plan that needs messages and has none is lowered first where the form has them; where no stage has
 * its neighbour on another rank it is written as it is, so that a file that was read is written again. *dropped (may be
 * NULL): how many actions the form has no word for. KITH_ERR_UNSUPPORTED: the form cannot say it at all (several chunks
 * a rank, or I and W, in the two listings). */
KITH_API kith_status kith_schedule_write(const kith_schedule *schedule, kith_schedule_form form, char **text,
                                         size_t *dropped);

/* Which meaning B has in a PyTorch file. Up to 2.5, B is the backward for inputs and BW the whole. */
typedef enum kith_torch_dialect { KITH_TORCH_AUTO, KITH_TORCH_OLD, KITH_TORCH_NEW } kith_torch_dialect;

/* Reads PyTorch's CSV, computation alone or with messages. The stages' ranks and the number of microbatches come from
 * the file; *dialect (may be NULL) says in what form to look, KITH_TORCH_AUTO by what is in the file, and is set to
 * what was found. KITH_ERR_INVALID_ARG "name:line:column: ..." for what is no cell, a stage on two ranks, a stage
 * that does nothing. Whether the plan is right is for kith_schedule_check(). */
KITH_API kith_status kith_schedule_parse(const char *name, const char *text, size_t nbytes, kith_torch_dialect *dialect,
                                         kith_schedule **schedule);
KITH_API kith_status kith_schedule_load(const char *path, kith_torch_dialect *dialect, kith_schedule **schedule);

typedef enum kith_simulation_format {
    KITH_SIMULATION_TEXT, /* a timeline of characters, a line a rank, and the figures */
    KITH_SIMULATION_JSON, /* figures and actions; keys: docs/schedules.md */
    KITH_SIMULATION_TRACE /* for chrome://tracing and Perfetto; of more than 2097152 actions: KITH_ERR_UNSUPPORTED */
} kith_simulation_format;

/* Fill with KITH_SCHEDULE_PRINT_OPTIONS_INIT. */
typedef struct kith_schedule_print_options {
    size_t struct_size;
    int width;      /* columns of the timeline with its margin, 40 to 4096; 0: 100. Others are cut to that */
    int has_colour; /* 1: with escape sequences of terminals */
    int is_ascii;   /* 1: no characters beyond ASCII */
} kith_schedule_print_options;

#define KITH_SCHEDULE_PRINT_OPTIONS_INIT                                                                               \
    {                                                                                                                  \
        sizeof(kith_schedule_print_options), 0, 0, 0                                                                   \
    }

/* options NULL: the INIT values. schedule is the one that was simulated. */
KITH_API kith_status kith_simulation_print(const kith_schedule *schedule, const kith_simulation *simulation,
                                           kith_simulation_format format, const kith_schedule_print_options *options,
                                           char **text);

#ifdef __cplusplus
}
#endif
#endif
