/* topology/plan_parts.h - the steps of a plan. Each fills its part of kith_plan from what the ones before have put:
 *
 *     plan.c          defaults and checks           plan_memory.c   bytes of a rank
 *     plan_params.c   parameters, FLOPs             plan_traffic.c  every kind of communication, plan_row.c its cost
 *     plan_step.c     time of a step                plan_place.c    the same on a machine
 *     plan_room.c     ranks that fit                plan_estimate.c a guess of that time
 *     plan_bubble.c   schedules: idle time, microbatches in flight; plan_simulate.c those without a formula
 *
 * All counts are doubles: they are products of sizes, exact up to 2^53, and cannot overflow.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_TOPOLOGY_PLAN_PARTS_H
#define KI_TOPOLOGY_PLAN_PARTS_H

#include <kith/plan.h>

struct ki_cost_session; /* cost.h */

/* ---- plan_params.c: sizes of one tensor-parallel rank; tp 1, ep 1: of the model ---- */

double ki_model_head_dim(const kith_model *model);
double ki_model_kv_heads(const kith_model *model, int tp); /* of a rank: at least 1, then copies of another rank's */
double ki_model_moe_layers(const kith_model *model);
double ki_model_ffn(const kith_model *model); /* of an expert where there are any in the layer */

/* Parameters of one layer without experts (attention, norms, MLP; router and shared expert), of the experts of one
 * layer, of everything before the first layer and after the last. */
double ki_params_layer(const kith_model *model, int tp, bool is_moe);
double ki_params_experts(const kith_model *model, int tp, int ep);
double ki_params_embedding(const kith_model *model, double vocab, int tp);
double ki_params_head(const kith_model *model, double vocab, int tp, bool has_own_copy);
/* Of a layer, those that see only a part of the sequence under sequence parallelism (norms, row biases, router). */
double ki_params_in_sequence(const kith_model *model, bool is_moe);

/* Multiply-adds times two of one token forward: linear layers, attention core, head. */
double ki_flops_linear(const kith_model *model, int tp, bool is_moe);
double ki_flops_core(const kith_model *model, int tp, double sequence);
double ki_flops_head(const kith_model *model, double vocab, int tp);

/* ---- plan_bubble.c ---- */

/* Times of one microbatch on one pipeline rank: forward, gradient of the inputs, gradient of the weights. */
typedef struct ki_layout_times {
    double forward_s, input_s, weight_s;
} ki_layout_times;

/* A pipeline, and what its schedule does to it. */
typedef struct ki_layout_pipe {
    kith_schedule_kind kind;
    int pp, chunks;
    double microbatches;
    ki_layout_times times;
} ki_layout_pipe;

enum { KI_FIRST_RANK, KI_INNER_RANK, KI_LAST_RANK, KI_PIPE_RANKS };

typedef struct ki_layout_figures {
    double bubble;                   /* idle share of the ideal time from the first start to the last end */
    double bubble_in_stage;          /* and within a stage's own span */
    double in_flight[KI_PIPE_RANKS]; /* microbatches (layers' worth) that a rank holds at most; inner: the fullest */
    int inner_rank;                  /* which one that is */
} ki_layout_figures;

/* Simulations that a search need not do again; zeroed at first. */
typedef struct ki_layout_memo {
    struct ki_layout_sample *samples;
    int count, room;
} ki_layout_memo;
void ki_layout_memo_fini(ki_layout_memo *memo);

/* memo may be NULL. KITH_ERR_INVALID_ARG for a pipeline that is too long to be simulated. */
kith_status ki_layout_run_pipe(const ki_layout_pipe *pipe, ki_layout_memo *memo, ki_layout_figures *figures);
kith_status ki_layout_simulate(const ki_layout_pipe *pipe, ki_layout_memo *memo, ki_layout_figures *figures);

/* Two chunks that go down the ranks and up again: first and last stage are on rank 0. */
bool ki_layout_is_v(kith_schedule_kind kind);
/* Any number of chunks, around the ranks again and again. */
bool ki_layout_is_looped(kith_schedule_kind kind);
/* 0: what the kind has by default. KITH_ERR_INVALID_ARG for what it cannot have, as kith_schedule_create() says it;
 * that the number is sane is left to ki_layout_check(). pp: of the layout. */
kith_status ki_layout_choose_chunks(kith_schedule_kind kind, int pp, int *chunks);
/* Messages of a pipeline in a step, in one direction: of the busiest rank, and of all ranks. */
double ki_layout_messages(kith_schedule_kind kind, int pp, int chunks, double microbatches, double *all);

/* ---- plan.c ---- */

/* What one rank of the plan has. */
typedef struct ki_layout_shape {
    double tokens;             /* of one microbatch, after cp */
    double layers, moe_layers; /* of one pipeline rank */
    double activation_nbytes;  /* of one element */
    int sequence_split;        /* tp with sequence parallelism, else 1 */
    int chunks;                /* parts of the model on one pipeline rank */
    int dense_copies;          /* ranks that hold the same weights: dp * cp * ep */
    int expert_copies;         /* and the same experts: dp * cp */
} ki_layout_shape;
ki_layout_shape ki_layout_shape_of(const kith_plan *plan);
/* Options of a caller whose struct may be shorter: what it does not have keeps its default. NULL: all defaults. */
kith_status ki_layout_copy_options(const kith_plan_options *from, kith_plan_options *to);
/* kith_plan_make() without placing: the machine gives peak, memory, constants and an open dp. memo may be NULL. */
kith_status ki_layout_make(const kith_topology *topology, const kith_model *model, const kith_plan_options *options,
                           ki_layout_memo *memo, kith_plan *plan);
/* And with it. placement NULL: not wanted. is_quick: kith_place() need not look far. session:
 * ki_cost_session_create()'s, where many layouts are placed; NULL: made for this one. */
kith_status ki_layout_make_placed(const kith_topology *topology, const kith_model *model,
                                  const kith_plan_options *options, ki_layout_memo *memo, bool is_quick,
                                  struct ki_cost_session *session, kith_plan *plan, kith_placement **placement);

/* Tells how far long work is. KITH_ERR_ABORTED: the caller wants it to stop. */
kith_status ki_layout_tell(const kith_plan_options *options, const char *what, double fraction);
kith_status ki_layout_stop(const char *what, double fraction);

/* ---- plan_room.c ---- */

/* An open dp: as many as placement gives. KITH_ERR_INVALID_ARG where the other axes alone do not fit. */
kith_status ki_layout_choose_dp(kith_plan_options *o, const kith_topology *topology);
/* Ranks that can be placed when open axes but dp are 1; a multiple of the given ones. */
kith_status ki_layout_choose_world(const kith_plan_options *o, const kith_topology *topology, int *world);

/* Up to how many ranks next to each other stay on one kind of link. */
typedef struct ki_layout_room {
    int total;                         /* GPUs that may be used and answer */
    int nvlink_size;                   /* on NVLink, also where it is not known how GPUs are linked */
    int island_size;                   /* in a node or NVLink domain */
    double nvlink_gbps;                /* of the first pair of GPUs; the least of all kinds; 0: unknown */
    double nic_gbps, node_gbps;        /* of the fastest NIC, of all NICs of an island; the least of all; 0: unknown */
    double nvlink_class_gbps, ib_gbps; /* what the times of these classes are made with */
} ki_layout_room;
kith_status ki_layout_room_of(const kith_topology *topology, ki_layout_room *room);

/* ---- plan_estimate.c ---- */

/* Step time on a machine without placing; fast, and near enough to tell which layouts are worth placing. */
double ki_layout_estimate(const kith_plan *plan, const ki_layout_room *room);

/* plan_check.c */
kith_status ki_layout_check(const kith_plan *plan);
void ki_layout_note(kith_plan *plan, const char *sentence); /* static text */

/* ---- plan_memory.c ---- */

/* Bytes of activations that one layer keeps of one microbatch (average of layers with and without experts). */
double ki_layout_activations_per_layer(const kith_plan *plan);
/* Parameters of a rank of that stage: with and without experts' copies apart. */
void ki_layout_rank_params(const kith_plan *plan, int stage, double *dense, double *experts);
void ki_layout_fill_memory(kith_plan *plan, const ki_layout_figures *figures);

/* ---- plan_row.c ---- */

/* Alpha-beta time of one collective on one class. */
double ki_layout_link_time(const kith_topology *topology, kith_plan_link link, const char *op, int group_size,
                           double nbytes);
kith_cost_op ki_layout_cost_op(const char *op);
/* Effective bandwidth of a class. */
double ki_layout_link_gbps(const kith_topology *topology, kith_plan_link link);
/* Bytes that a rank sends for one call. */
double ki_layout_wire(const char *op, int group_size, double nbytes);
/* Adds a row, with its wire bytes and times worked out. group NULL: the axis; group_ops 0: ops. Nothing is added for a
 * group of one, no calls or no bytes. */
void ki_layout_add_row(kith_plan *plan, const kith_topology *topology, kith_plan_traffic_row row);

/* ---- plan_traffic.c, plan_traffic_tp.c ---- */

void ki_layout_fill_traffic(kith_plan *plan, const kith_topology *topology);
void ki_layout_add_tp_rows(kith_plan *plan, const kith_topology *topology);
void ki_layout_fill_forward_table(kith_plan *plan);

/* ---- plan_step.c ---- */

ki_layout_times ki_layout_count_times(const kith_plan *plan);
void ki_layout_fill_compute(kith_plan *plan, const ki_layout_figures *figures);
/* Step time out of the rows' times; index KITH_PLAN_LINKS: placed. */
void ki_layout_fill_step(kith_plan *plan, int column);

/* ---- plan_place.c ---- */

/* Takes from the topology, or the name of the GPUs, what the options leave open: peak, memory. */
kith_status ki_layout_use_gpus(kith_plan *plan, const kith_topology *topology);
/* Places the layout, fills placed_s of the rows and the placed step. Tells plan->options.progress. placement: NULL, or
 * receives what the times hold for. is_quick: for comparing layouts. */
kith_status ki_layout_place(kith_plan *plan, const kith_topology *topology, bool is_quick,
                            struct ki_cost_session *session, kith_placement **placement);

#endif
