/* tests/schedules/toy.h - a model small enough to be checked bit by bit, and its trainer on a pipeline.
 *
 * LAYERS layers y = act(W x + b) of width HIDDEN, loss 0.5 sum (y - target)^2, in f64. Stage s of S has the layers from
 * s * LAYERS / S to (s + 1) * LAYERS / S; with more stages than layers some have none and pass on what they get.
 * Microbatches have 1 to ROWS_MOST rows, so shapes change on the way. Microbatch k of replica d is number d * m + k of
 * the data.
 *
 * Exact: integers and no tanh, so every order of additions gives the same bits. Else tanh and fractions, where each
 * order gives others.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef TESTS_SCHEDULES_TOY_H
#define TESTS_SCHEDULES_TOY_H

#include "conformance/harness.h"

#include <stdint.h>

enum {
    HIDDEN = 3,
    LAYERS = 8,
    ROWS_MOST = 3,
    WIDE = ROWS_MOST * HIDDEN,                   /* numbers of an activation, at most */
    LAYER_PARAMETERS = HIDDEN * HIDDEN + HIDDEN, /* W by rows, then b */
    PARAMETERS = LAYERS * LAYER_PARAMETERS,
};
#define TOY_MESSAGE_NBYTES (WIDE * sizeof(double))

typedef struct toy_options {
    int microbatches, replicas;
    bool is_exact;
    bool is_identity; /* each layer passes on its input, data and target of k are k: every loss is 0 */
} toy_options;

/* ---- model and reference (toy_model.c) ---- */

int toy_rows(int number);
void toy_input(const toy_options *o, int number, double *x);   /* [WIDE] */
void toy_target(const toy_options *o, int number, double *t);  /* [WIDE] */
void toy_parameters(const toy_options *o, double *parameters); /* [PARAMETERS] */

void toy_layer_forward(const toy_options *o, const double *layer, int rows, const double *x, double *y);
/* dz: gradient before the activation. */
void toy_layer_before(const toy_options *o, int rows, const double *y, const double *dy, double *dz);
void toy_layer_input_grad(const double *layer, int rows, const double *dz, double *dx);
void toy_layer_add_grad(int rows, const double *x, const double *dz, double *grad);
double toy_loss(int rows, const double *y, const double *target, double *dy); /* dy may be NULL */

/* One step without a pipeline: microbatches in order, one replica after the other, sums of replicas added up.
 * grads: [PARAMETERS], losses: [replicas * microbatches]. */
void toy_reference(const toy_options *o, const double *parameters, double *grads, double *losses);
void toy_learn(double *parameters, const double *grads, size_t count);

/* ---- trainer (toy_trainer.c) ---- */

/* What goes wrong on purpose. */
typedef enum toy_fault {
    FAULT_NONE,
    FAULT_LOAD,
    FAULT_FORWARD,
    FAULT_LOSS,
    FAULT_BACKWARD, /* B or I */
    FAULT_WEIGHTS,  /* W */
    FAULT_RESULT,   /* forward announces more bytes than fit */
    FAULT_ZERO_GRAD,
    FAULT_REDUCE,
    FAULT_REDUCE_FINISH,
    FAULT_OPTIMIZER,
    FAULT_SHARD,
    FAULT_COUNT
} toy_fault;

typedef struct toy_slot {
    int microbatch; /* -1: free */
    int rows;
    double input[WIDE]; /* of the first stage */
    double target[WIDE];
    double y[LAYERS][WIDE];
} toy_slot;

typedef struct toy_stage {
    int stage, first_layer, layer_count;
    double *parameters, *grads; /* [layer_count * LAYER_PARAMETERS] */
    toy_slot *slots;
    int slot_count;
} toy_stage;

typedef struct toy {
    toy_options options;
    const kith_schedule *plan;
    int rank, replica;
    int stage_count;
    toy_stage *stages; /* [stage_count] of this rank */
    kith_grad_bucket *buckets;
    size_t bucket_count;
    size_t message_nbytes; /* more than TOY_MESSAGE_NBYTES: messages are filled up to it */
    bool is_poisoned;
    int steps, overlapped_calls, reduce_calls;
    int gathered;    /* stages that are UNSHARDed now */
    toy_fault fault; /* at the first call of its kind for a microbatch >= fault_microbatch */
    int fault_microbatch;
    kith_status fault_status;
    bool has_failed;
    uint64_t random;     /* state; 0: no delays */
    int delay_us;        /* at most */
    int die_at;          /* calls until this process kills itself; 0: never */
    kith_stream *stream; /* messages are on its device, and come through staging; NULL: on the host */
    double staging[2][WIDE];
} toy;

/* kind, chunks 0: the kind's own. NULL when the kind does not go with these numbers. */
kith_schedule *toy_plan(kith_schedule_kind kind, int ranks, int microbatches, int chunks, bool is_forward_only);

void toy_create(toy *t, const toy_options *o, const kith_schedule *plan, int rank);
/* Options for a pipeline of this toy; callbacks as well. */
kith_pipeline_options toy_pipeline_options(const toy *t);
kith_pipeline_callbacks toy_callbacks(toy *t);
/* Gets the slots that the pipeline says. */
void toy_attach(toy *t, const kith_pipeline *pipeline);
/* Parameters as at the beginning: so that each step is exact. */
void toy_reset(toy *t);
void toy_destroy(toy *t);

/* Fails the rank unless gradients (or parameters) of its stages are, bit by bit, those of the whole model. */
void toy_expect_grads(const toy *t, const double *wanted, const char *what);
void toy_expect_parameters(const toy *t, const double *wanted, const char *what);
/* The losses of this replica in those of all. */
void toy_expect_losses(const toy *t, const kith_pipeline *pipeline, const double *wanted, const char *what);

#endif
