/* kith/layers.h - the layers of a transformer, split over a tensor-parallel group, with their gradients.
 *
 *     kith_layers_options o = KITH_LAYERS_OPTIONS_INIT;
 *     o.tp = kith_mesh_group(mesh, "tp");
 *     kith_layers *layers;
 *     kith_layers_create(&o, &layers);
 *     kith_linear_options up = KITH_LINEAR_OPTIONS_INIT, down = KITH_LINEAR_OPTIONS_INIT;
 *     up.kind = KITH_LINEAR_COLUMN, up.in_features = 512, up.out_features = 2048;
 *     down.kind = KITH_LINEAR_ROW, down.in_features = 2048, down.out_features = 512;
 *     kith_linear *a, *b;
 *     kith_linear_create(layers, &up, &a);
 *     kith_linear_create(layers, &down, &b);
 *     ...
 *     kith_tape_begin(tape, &batch);
 *     kith_linear_forward(a, tape, &x, &hidden);             // x: [tokens, 512], the same on all ranks of tp
 *     kith_linear_forward(b, tape, &hidden, &y);             // y: [tokens, 512]; one all-reduce
 *     kith_tensor_release(&hidden);
 *     ...
 *     kith_linear_backward(b, tape, &dy, &dhidden);          // in reverse order
 *     kith_linear_backward(a, tape, &dhidden, &dx);
 *     kith_layers_finish_grads(layers);                      // sums what is still a summand; then use the gradients
 *
 * The objects. kith_layers is the place where a rank's layers live: dtype, groups, memory, counts. Layers are made on
 * it and live as long as it does. A kith_tape is one microbatch's way through the layers: forward functions leave on it
 * what backward functions need, backward functions take it away in reverse order. Several tapes may be under way, as
 * pipeline schedules want it. There is no other state: layers hold parameters and nothing of a microbatch.
 *
 * Tensors. Activations are [sequence, batch, features] or [tokens, features] (kith/tensor.h). Inputs may be the
 * caller's memory, which must then stay until backward has run. Outputs of forward and backward are references to
 * the layers' memory, to be given back with kith_tensor_release() when the caller is through with them; what a layer
 * keeps, it retains by itself. dx NULL: the gradient of the input is not wanted. Gradients of parameters are added
 * to what is there.
 *
 * On a device (kith_layers_options.device) tensors are memory of the device and functions return when their work is
 * ordered in the layers' stream; results that are numbers of the host (losses, counts) are waited for. Tensors that the
 * caller brings must be memory of the device, but for ids and targets, wholes of parameters that are loaded or
 * gathered, and what kith_tensor_read() and kith_tensor_write() take: these may be the host's.
 *
 * Layouts, for a group tp of size t. Without sequence parallelism activations between blocks are replicated. With it,
 * they are split along the sequence: a rank has kith_split_range(sequence, t, rank) positions, all samples of them.
 * Column-parallel layers take these and give features of their own; row-parallel layers take those and give these.
 *
 * The same numbers for every layout. Results do not depend on t, on sequence parallelism, on the order of
 * microbatches or on recomputation, but for the order in which floating-point sums are formed: dropout is keyed by
 * what an element is, parameters start from what they are, and the loss is (sum, count of tokens), divided once by
 * the caller.
 *
 * Every function that takes a tape or says so is collective over tp (and ep): all its ranks call, in the same order,
 * with the same sizes. Wrong arguments are found before anything is communicated, on all ranks alike as far as they are
 * the same on all. In debug mode kith_tape_begin() compares what the ranks of tp work on. One thread at a time for a
 * kith_layers and all that is made on it.
 *
 * A failure. A forward function that fails leaves the tape as deep as it was. A backward function that refuses its
 * arguments changes nothing; one that fails later has lost what it took off the tape - a block or a transformer then
 * empties the tape - and gradients have part of what was to be added: kith_layers_zero_grads() and kith_tape_begin() go
 * on from there. kith_layers_create() and kith_transformer_create() fail on all ranks alike. A forward or a backward
 * may fail on one rank alone (no memory), which then sends nothing more, and the others wait for it. So a trainer whose
 * step fails calls kith_group_abort() on tp and ep: all who wait there get KITH_ERR_ABORTED. A rank that died is found
 * by the deadline of the group (kith_group_set_timeout()). Either way the group is of no use any more, and the trainer
 * begins again from its last checkpoint.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KITH_LAYERS_H
#define KITH_LAYERS_H

#include <kith/coll.h>
#include <kith/device.h>
#include <kith/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- the place ---- */

typedef struct kith_layers kith_layers;

/* Fill with KITH_LAYERS_OPTIONS_INIT. The same on all ranks but for the groups. */
typedef struct kith_layers_options {
    size_t struct_size;
    kith_dtype dtype; /* of activations and parameters: KITH_F32, KITH_F64, KITH_BF16 or KITH_F16. Gradients of
                                 parameters, statistics and losses are f64 with f64, else f32 */
    kith_group *tp;   /* tensor-parallel ranks; NULL: one */
    kith_group *ep;   /* ranks that share the experts, with other data each; NULL: one */
    kith_group *data; /* all ranks with other data than this one's, for what is averaged over the whole batch (the
                                 auxiliary loss of experts); NULL: ep */
    int is_sequence_parallel; /* activations between blocks are split along the sequence */
    int is_debug;             /* layouts are compared with what a layer needs; memory is NaN until it is written, and
                                 again when it was released; results of collectives are NaN before they arrive */
    uint64_t seed;            /* of dropout */
    int blas_threads;    /* of this rank's arithmetic, the caller's among them, at most 1024; 0: its share of the cores.
                           The BLAS is told, for the whole process, to keep to its caller's. -1: it is left as it is,
                           and all else has one thread */
    int dry_tp, dry_ep;  /* > 0 (instead of tp, ep): a dry run as rank 0 of groups of this size. Memory and messages are
                                 counted, nothing is allocated, computed or sent: tensors have no data */
    kith_ctx *progress;  /* kith_progress() is called on it as each layer begins, for what travels beside - a pipeline's
                           messages, sums over data-parallel ranks; NULL: only while layers themselves send */
    kith_device *device; /* tensors and parameters are its memory, and it computes; NULL: the host. The context of the
                            groups must have that device, too (kith_init_options.device). On all ranks or on none */
    kith_stream *stream; /* of device: all work goes there, and the groups' operations on tensors are ordered with it
                            (kith_group_set_stream() of tp, ep and data); NULL: one of the layers' own. It must outlive
                            the layers */
    int allows_tf32;     /* with device: products of f32 may round their factors to TF32 (10 bits), which is faster */
} kith_layers_options;

#define KITH_LAYERS_OPTIONS_INIT                                                                                       \
    {                                                                                                                  \
        sizeof(kith_layers_options), KITH_F32, NULL, NULL, NULL, 0, 0, 0, 0, 0, 0, NULL, NULL, NULL, 0                 \
    }

/* KITH_ERR_UNSUPPORTED when there is no BLAS; the detail says what was tried. Collective over tp and ep, blocks: all
 * get the same status; a rank that failed has its own detail, the others get its sentence. KITH_ERR_MISMATCH names
 * what differs of dtype, is_sequence_parallel, is_debug, seed, allows_tf32, and whether there is a device. */
KITH_API kith_status kith_layers_create(const kith_layers_options *options, kith_layers **layers);

/* Frees the place, its layers and parameters, and the groups that it made itself. Tapes, tensors and an optimizer must
 * be gone: KITH_ERR_BUSY says what is left. Collective like kith_group_destroy(). NULL is fine. */
KITH_API kith_status kith_layers_destroy(kith_layers *layers);

/* The stream that the layers compute in; NULL on the host. Borrowed. */
KITH_API kith_stream *kith_layers_stream(const kith_layers *layers);

/* Blocks until all that was put into it has run, what the groups' operations on tensors have to bring included: a rank
 * that died or is late ends it with the status of its group. Nothing to wait for on the host. Local. */
KITH_API kith_status kith_layers_synchronize(kith_layers *layers);

KITH_API int kith_layers_tp_size(const kith_layers *layers);
KITH_API int kith_layers_tp_rank(const kith_layers *layers);

/* What was communicated since the last reset. A phase is the function that the caller is in: what a recomputation in
 * the backward pass communicates counts as backward. Groups of one rank communicate nothing. */
typedef enum kith_layers_phase {
    KITH_PHASE_FORWARD,
    KITH_PHASE_BACKWARD,
    KITH_PHASE_FINISH,
    KITH_PHASES
} kith_layers_phase;

#define KITH_TRAFFIC_KINDS 32 /* room for kinds of collectives to come */

typedef struct kith_layers_traffic {
    uint64_t ops[KITH_PHASES][KITH_TRAFFIC_KINDS]; /* how often, by kith_coll_kind */
    uint64_t elements[KITH_PHASES]
                     [KITH_TRAFFIC_KINDS]; /* of the whole tensor: all that an all-gather brings together, all
                                                          that a reduce-scatter takes apart */
    uint64_t nbytes[KITH_PHASES][KITH_TRAFFIC_KINDS];    /* the same in bytes */
    double wire_nbytes[KITH_PHASES][KITH_TRAFFIC_KINDS]; /* what a rank sends at least: 2 (t - 1) / t of nbytes in an
                                                          all-reduce, all that is for other ranks in an all-to-all,
                                                          (t - 1) / t in all others (by a ring) */
    uint64_t wait_ns[KITH_PHASES][KITH_TRAFFIC_KINDS];   /* how long layers stood still for them */
} kith_layers_traffic;

KITH_API void kith_layers_get_traffic(const kith_layers *layers, kith_layers_traffic *traffic);
/* The same over the ranks of one axis alone. */
typedef enum kith_layers_axis {
    KITH_LAYERS_TP,
    KITH_LAYERS_EP,
    KITH_LAYERS_DATA, /* what is averaged over all ranks with other data */
    KITH_LAYERS_TIED, /* kith_param_sum_tied() */
    KITH_LAYERS_AXES
} kith_layers_axis;

KITH_API void kith_layers_get_axis_traffic(const kith_layers *layers, kith_layers_axis axis,
                                           kith_layers_traffic *traffic);
KITH_API void kith_layers_reset_traffic(kith_layers *layers);

/* Told of each communication over more than one rank when it has ended, on the thread of the layers: when it was
 * started and when it was seen to be over, in ns of CLOCK_MONOTONIC, and the bytes of the whole tensor. For traces.
 * Must not use the layers. watch NULL: nobody is told. Local. */
typedef void (*kith_layers_watch_fn)(void *arg, kith_layers_phase phase, kith_coll_kind kind, int64_t start_ns,
                                     int64_t end_ns, uint64_t nbytes);
KITH_API void kith_layers_set_watch(kith_layers *layers, kith_layers_watch_fn watch, void *arg);

/* Memory of this rank, in bytes. */
typedef struct kith_layers_memory {
    uint64_t parameters, grads;
    uint64_t tensors;      /* alive now: what tapes have saved and what callers hold */
    uint64_t tensors_peak; /* the most since the last reset, with what layers needed in between */
    uint64_t cached;       /* allocated, not in use, kept for the next tensors */
} kith_layers_memory;

KITH_API void kith_layers_get_memory(const kith_layers *layers, kith_layers_memory *memory);
KITH_API void kith_layers_reset_memory_peak(kith_layers *layers);

/* ---- parameters ---- */

/* This rank's part of a parameter, and what it is of the whole. Borrowed from the layer that made it. The creation
 * of an optimizer moves value and grad (kith/optim.h). Weights of linear layers are [out, in]. Values start as zeros
 * (ones for weights of norms). */
typedef struct kith_param {
    const char *name;  /* "blocks.0.attention.q.weight" */
    kith_tensor value; /* the part */
    kith_tensor grad;  /* of the same shape, contiguous within its rows */
    int dim_count;
    int64_t global_shape[KITH_TENSOR_DIMS];
    int split_dim;       /* -1: each rank has all of it */
    int64_t first;       /* the part is [first, first + value.shape[split_dim]) along split_dim, ... */
    int64_t padding;     /* ... of which the last `padding` lie beyond global_shape: zero, with zero gradients */
    int64_t padded;      /* size along split_dim with the padding of all ranks; 0 where nothing is split */
    int copies;          /* how many ranks of tp (of ep, for experts too) have this part */
    int is_counted;      /* 1 on one of them: sums over tp (over tp and ep for experts) that take only these count each
                            element once */
    int is_grad_partial; /* until kith_layers_finish_grads() the gradient is a summand over the ranks of `copies` */
    int is_matrix;       /* 1: weight of a linear layer, an embedding or an expert, which optimizers decay by habit */
    int is_expert;       /* 1: its gradient is to be summed over the ranks of `data` outside ep only */
    kith_layers *layers; /* whose it is */
    kith_group *copies_group; /* the ranks that have this part. NULL: this one alone, or a group that is made by the
                                 first kith_layers_finish_grads(), or by kith_transformer_create() */
} kith_param;

/* All parameters in the order of creation. Borrowed. */
KITH_API size_t kith_layers_param_count(const kith_layers *layers);
KITH_API kith_param *kith_layers_param(const kith_layers *layers, size_t index);

/* NULL when there is none. */
KITH_API kith_param *kith_layers_find_param(const kith_layers *layers, const char *name);

/* Normal numbers of mean 0, a function of (seed, name, global index): the same whatever the layout. Local. */
KITH_API kith_status kith_param_set_normal(kith_param *param, uint64_t seed, double deviation);
KITH_API kith_status kith_param_fill(kith_param *param, double value);

/* Takes this rank's part out of the whole: whole has global_shape (strides are honoured) and any of f32, f64, bf16,
 * f16. Local. */
KITH_API kith_status kith_param_load(kith_param *param, const kith_tensor *whole);

typedef enum kith_param_which { KITH_PARAM_VALUE, KITH_PARAM_GRAD } kith_param_which;

/* The whole on every rank of tp: whole is the caller's, contiguous, of global_shape and the dtype of what is asked for.
 * Collective over tp, blocks. */
KITH_API kith_status kith_param_gather(kith_param *param, kith_param_which which, kith_tensor *whole);

/* One parameter in several processes: an embedding on the first stage of a pipeline and a head on the last that share
 * their weight. (In one process there is one parameter: kith_head_options.tied.) group: the ranks that have a copy of
 * this part, which are the two stages' ranks of the same place in tp.
 *
 * tie: once, after the values were set. All take the value of the group's rank 0, and the copies of the other ranks are
 * not is_counted any more. Then the gradients of all copies are to be added once a step, after the last backward and
 * before norms and steps; equal optimizers keep the copies equal to the bit. kith_param_sum_tied() does it, or a
 * pipeline, when kith_pipeline_options.tied points to
 *
 *     kith_grad_bucket tied = { stage, param->grad.data, (size_t)kith_tensor_count(&param->grad), param->grad.dtype };
 *
 * KITH_ERR_MISMATCH, on all ranks, when parts differ in shape, place or dtype. Collective over group, blocks. */
KITH_API kith_status kith_param_tie(kith_param *param, kith_group *group);

/* Adds the gradients of all copies, on all ranks of group: one all-reduce, counted in KITH_PHASE_FINISH. Collective
 * over group, blocks. */
KITH_API kith_status kith_param_sum_tied(kith_param *param, kith_group *group);

/* All gradients become 0: the beginning of a step. Local. */
KITH_API kith_status kith_layers_zero_grads(kith_layers *layers);

/* Sums the gradients that are summands (is_grad_partial): those of all ranks of tp in one all-reduce, those of smaller
 * sets of copies in one for each set. Once a step, after the last backward and the last kith_tape_weight_grads():
 * KITH_ERR_INVALID_ARG while weights are still to be done. A second call without kith_layers_zero_grads() in between
 * would sum sums: in debug mode that is KITH_ERR_INVALID_ARG. What other ranks with other data have to add - those of
 * dp, and of ep but for experts - is the trainer's to sum. Collective over tp, blocks. */
KITH_API kith_status kith_layers_finish_grads(kith_layers *layers);

/* ---- tapes ---- */

typedef struct kith_tape kith_tape;

/* What one microbatch is. Fill with KITH_BATCH_INIT. */
typedef struct kith_batch {
    size_t struct_size;
    int64_t sequence, batch; /* positions of each sample, and samples */
    uint64_t first_sample;   /* number of its first sample in the whole run, which keys dropout; with dropout all
                                numbers must be below 2^32 */
    int is_training;         /* 0: dropout is off, nothing is kept, backward is refused */
} kith_batch;

#define KITH_BATCH_INIT                                                                                                \
    {                                                                                                                  \
        sizeof(kith_batch), 0, 0, 0, 1                                                                                 \
    }

KITH_API kith_status kith_tape_create(kith_layers *layers, kith_tape **tape);

/* A new microbatch; what was left of the one before is dropped. With sequence parallelism a sequence shorter than tp is
 * KITH_ERR_INVALID_ARG. */
KITH_API kith_status kith_tape_begin(kith_tape *tape, const kith_batch *batch);

/* How many saved things are on the tape: 0 when every forward has met its backward. */
KITH_API size_t kith_tape_depth(const kith_tape *tape);

/* Splits backward into its halves, for zero-bubble schedules. 1: backward functions compute gradients of inputs and
 * note what the gradients of weights of linear layers and of experts need; kith_tape_weight_grads() computes those, in
 * the order in which they were noted, and forgets them. A new microbatch before that is KITH_ERR_INVALID_ARG. */
KITH_API kith_status kith_tape_set_split_backward(kith_tape *tape, int is_split);
KITH_API kith_status kith_tape_weight_grads(kith_tape *tape);

KITH_API void kith_tape_destroy(kith_tape *tape);

/* ---- between layouts: what layers do inside, for layers of your own ---- */

/* Over tp; each takes the layout that it names, of a contiguous tensor (KITH_ERR_INVALID_ARG otherwise), and gives a
 * new tensor. all_reduce: partial to replicated. reduce_scatter: partial to split along dim. all_gather: split along
 * dim to replicated. split: replicated to split along dim; nothing is sent. Parts are those of kith_split_range() in
 * units of `unit` indices (1 for most). phase: where it is counted. */
KITH_API kith_status kith_tensor_all_reduce(kith_layers *layers, kith_layers_phase phase, const kith_tensor *x,
                                            kith_tensor *y);
KITH_API kith_status kith_tensor_reduce_scatter(kith_layers *layers, kith_layers_phase phase, int dim, int64_t unit,
                                                const kith_tensor *x, kith_tensor *y);
/* total: the size along dim when all parts are together. */
KITH_API kith_status kith_tensor_all_gather(kith_layers *layers, kith_layers_phase phase, int dim, int64_t unit,
                                            int64_t total, const kith_tensor *x, kith_tensor *y);
KITH_API kith_status kith_tensor_split(kith_layers *layers, int dim, int64_t unit, const kith_tensor *x,
                                       kith_tensor *y);

/* ---- linear layers ---- */

typedef enum kith_linear_kind {
    KITH_LINEAR_COLUMN, /* out features are split: nothing forward, all-reduce of the input's gradient backward */
    KITH_LINEAR_ROW,    /* in features are split: all-reduce forward, nothing backward */
    KITH_LINEAR_WHOLE   /* every rank has all of it and computes all of it (routers) */
} kith_linear_kind;

#define KITH_LINEAR_PARTS 4

/* Some of the out features of a column-parallel layer, dealt among the ranks by themselves: q, k and v; gate and up.
 * Outputs lie side by side, each rank's share of part 0, then of part 1, and so on. */
typedef struct kith_linear_part {
    const char *name;      /* "q": the parameters are "<layer>.q.weight", "<layer>.q.bias" */
    int64_t units;         /* heads, for instance */
    int64_t unit_features; /* features of each; units are never cut. With fewer units than ranks each is held by
                              tp / units ranks, which must divide */
} kith_linear_part;

/* Fill with KITH_LINEAR_OPTIONS_INIT. */
typedef struct kith_linear_options {
    size_t struct_size;
    const char *name; /* prefix of the parameters' names; NULL: "linear<n>" */
    kith_linear_kind kind;
    int64_t in_features, out_features; /* of the whole; out_features 0 with parts */
    const kith_linear_part *parts;     /* [part_count] COLUMN; NULL: one, of units of one feature */
    int part_count;
    int64_t in_unit;        /* ROW: features that stay together (head_dim); 0: 1 */
    int has_bias;           /* split with the columns; in ROW whole on every rank and added once, after the sum */
    int is_bias_left_out;   /* the caller adds the bias (fused with dropout); its gradient is still computed here */
    int is_output_gathered; /* COLUMN: y has all features on all ranks; one part, and no sequence parallelism inside */
    int is_input_whole;     /* ROW: x has all features on all ranks, and the layer takes its own */
    int is_inside;          /* with sequence parallelism: the input of COLUMN and the output of ROW are whole sequences,
                              as inside a block */
    kith_param *tied;       /* use this weight instead of one of its own (an embedding's): COLUMN, one part */
} kith_linear_options;

#define KITH_LINEAR_OPTIONS_INIT                                                                                       \
    {                                                                                                                  \
        sizeof(kith_linear_options), NULL, KITH_LINEAR_COLUMN, 0, 0, NULL, 0, 0, 0, 0, 0, 0, 0, NULL                   \
    }

typedef struct kith_linear kith_linear;

/* Sizes that cannot be dealt are KITH_ERR_INVALID_ARG with those that can. Local, like the creation of all layers. */
KITH_API kith_status kith_linear_create(kith_layers *layers, const kith_linear_options *options, kith_linear **linear);
KITH_API kith_status kith_linear_forward(kith_linear *linear, kith_tape *tape, const kith_tensor *x, kith_tensor *y);
KITH_API kith_status kith_linear_backward(kith_linear *linear, kith_tape *tape, const kith_tensor *dy, kith_tensor *dx);

/* This rank's units of a part; and its parameters (bias NULL when there is none). */
KITH_API kith_status kith_linear_units(const kith_linear *linear, int part, int64_t *first, int64_t *count);
KITH_API kith_param *kith_linear_weight(const kith_linear *linear, int part);
KITH_API kith_param *kith_linear_bias(const kith_linear *linear, int part);

/* ---- norms ---- */

typedef enum kith_norm_kind { KITH_LAYER_NORM, KITH_RMS_NORM } kith_norm_kind;

typedef struct kith_norm_options {
    size_t struct_size;
    const char *name;
    kith_norm_kind kind;
    int64_t features;
    double epsilon;  /* 0: 1e-5 */
    int is_of_heads; /* x is [tokens, heads of this rank * features]: each head by itself, the weight is shared by all,
                        so its gradient is a summand with or without sequence parallelism */
} kith_norm_options;

#define KITH_NORM_OPTIONS_INIT                                                                                         \
    {                                                                                                                  \
        sizeof(kith_norm_options), NULL, KITH_LAYER_NORM, 0, 0, 0                                                      \
    }

typedef struct kith_norm kith_norm;

KITH_API kith_status kith_norm_create(kith_layers *layers, const kith_norm_options *options, kith_norm **norm);
KITH_API kith_status kith_norm_forward(kith_norm *norm, kith_tape *tape, const kith_tensor *x, kith_tensor *y);
KITH_API kith_status kith_norm_backward(kith_norm *norm, kith_tape *tape, const kith_tensor *dy, kith_tensor *dx);

/* ---- dropout and residuals ---- */

/* y = residual + dropout(x + bias). Sites number the dropouts of a model, below 65536; equal numbers give equal masks.
 * probability in [0, 1). residual and bias may be NULL. Element (position, sample, feature) of the whole is dropped on
 * every rank that has it, or on none. Rows of x are all tokens of the microbatch, or this rank's with sequence
 * parallelism; columns are all features, or, with first_feature, a rank's own. Backward: the gradient of x (and of
 * x + bias); that of residual is dy itself. Without dropout dx may be another reference to dy. Nothing is saved. */
typedef struct kith_dropout_options {
    size_t struct_size;
    double probability;
    int site;
    int64_t first_feature; /* of the whole, where features are split */
} kith_dropout_options;

#define KITH_DROPOUT_OPTIONS_INIT                                                                                      \
    {                                                                                                                  \
        sizeof(kith_dropout_options), 0, 0, 0                                                                          \
    }

KITH_API kith_status kith_dropout_forward(const kith_dropout_options *options, kith_tape *tape, const kith_tensor *x,
                                          const kith_param *bias, const kith_tensor *residual, kith_tensor *y);
KITH_API kith_status kith_dropout_backward(const kith_dropout_options *options, kith_tape *tape, const kith_tensor *dy,
                                           kith_tensor *dx);

/* ---- feed-forward ---- */

typedef enum kith_activation {
    KITH_GELU,      /* x (1 + erf(x / sqrt 2)) / 2 */
    KITH_GELU_TANH, /* 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))): GPT-2's */
    KITH_SILU       /* x / (1 + exp(-x)) */
} kith_activation;

/* Column-parallel up (and gate), activation, row-parallel down. Any inner_features from tp on will do. Parameters:
 * "<name>.up.weight", "<name>.gate.weight", "<name>.down.weight" and the same with "bias". Kept for backward: x, the
 * outputs of up (and gate), and the input of down. */
typedef struct kith_mlp_options {
    size_t struct_size;
    const char *name;
    int64_t features, inner_features;
    kith_activation activation;
    int is_gated;         /* act(gate) * up: SwiGLU with KITH_SILU */
    int has_bias;         /* of all of them */
    int is_bias_left_out; /* the caller adds down's bias, with dropout for instance */
} kith_mlp_options;

#define KITH_MLP_OPTIONS_INIT                                                                                          \
    {                                                                                                                  \
        sizeof(kith_mlp_options), NULL, 0, 0, KITH_GELU_TANH, 0, 0, 0                                                  \
    }

typedef struct kith_mlp kith_mlp;

KITH_API kith_status kith_mlp_create(kith_layers *layers, const kith_mlp_options *options, kith_mlp **mlp);
KITH_API kith_status kith_mlp_forward(kith_mlp *mlp, kith_tape *tape, const kith_tensor *x, kith_tensor *y);
KITH_API kith_status kith_mlp_backward(kith_mlp *mlp, kith_tape *tape, const kith_tensor *dy, kith_tensor *dx);
KITH_API kith_param *kith_mlp_down_bias(const kith_mlp *mlp);

/* ---- attention ---- */

/* q, k, v by heads (column-parallel), softmax(scale q k^T) v in blocks, output projection (row-parallel). Key heads are
 * shared by heads / kv_heads neighbouring heads. Which numbers can be dealt to the ranks:
 *
 *     kv_heads >= tp     any: key heads are dealt (kith_split_range()), each with the heads that share it
 *     kv_heads <  tp     kv_heads divides tp, and heads are a multiple of tp, or at least tp with one key head; heads
 *                        are dealt, each key head is held by tp / kv_heads ranks and its gradient summed over those
 *
 * Rows of x are the tokens of the microbatch (this rank's with sequence parallelism). Parameters: "<name>.q.weight",
 * and so for k, v, out, and "bias" likewise; with head norms "<name>.q_norm.weight", "<name>.k_norm.weight". Kept for
 * backward: x, q, k and v, the input of out, and a number for each token and head. */
typedef struct kith_attention_options {
    size_t struct_size;
    const char *name;
    int64_t features;
    int64_t heads, kv_heads; /* kv_heads 0: heads */
    int64_t head_dim;        /* 0: features / heads */
    int has_bias;            /* of q, k, v */
    int has_out_bias;
    int is_bias_left_out; /* of out */
    int is_bidirectional; /* 0: causal */
    double rotary_base;   /* 0: no rotary positions; 10000 usually */
    double scale;         /* 0: 1 / sqrt(head_dim) */
    int has_head_norms;   /* RMS norm of each head of q and k, before the rotation */
    double norm_epsilon;
    double dropout;         /* of the probabilities */
    int site;               /* of that dropout: 1 to 65535 */
    int is_core_recomputed; /* selective recomputation: of the core only q, k, v are kept, so not the input of out */
} kith_attention_options;

#define KITH_ATTENTION_OPTIONS_INIT                                                                                    \
    {                                                                                                                  \
        sizeof(kith_attention_options), NULL, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0                              \
    }

typedef struct kith_attention kith_attention;

KITH_API kith_status kith_attention_create(kith_layers *layers, const kith_attention_options *options,
                                           kith_attention **attention);
KITH_API kith_status kith_attention_forward(kith_attention *attention, kith_tape *tape, const kith_tensor *x,
                                            kith_tensor *y);
KITH_API kith_status kith_attention_backward(kith_attention *attention, kith_tape *tape, const kith_tensor *dy,
                                             kith_tensor *dx);
KITH_API kith_param *kith_attention_out_bias(const kith_attention *attention);

/* This rank's heads and key heads, of all. */
KITH_API void kith_attention_heads(const kith_attention *attention, int64_t *first_head, int64_t *heads,
                                   int64_t *first_kv_head, int64_t *kv_heads);

/* ---- vocabulary: embedding, head, loss ---- */

/* vocabulary rounded up to a multiple of multiple * tp, as Megatron pads (multiple 128 there). -1 for sizes below 1 or
 * beyond 2^31. */
KITH_API int64_t kith_vocabulary_padded(int64_t vocabulary, int64_t multiple, int tp);

/* Rows of the table are split over tp; a rank gives zeros for tokens that are not its own, and the sum over the
 * ranks is the embedding: one all-reduce, or one reduce-scatter with sequence parallelism. With `positions` a
 * learned table is added, which every rank has. Parameters: "<name>.weight" and "<name>.positions". */
typedef struct kith_embedding_options {
    size_t struct_size;
    const char *name;
    int64_t vocabulary, features;
    int64_t
        padding_multiple; /* rows are padded as kith_vocabulary_padded() says; 0: not, parts may differ by one row */
    int64_t positions;    /* 0: none */
    double dropout;
    int site;
} kith_embedding_options;

#define KITH_EMBEDDING_OPTIONS_INIT                                                                                    \
    {                                                                                                                  \
        sizeof(kith_embedding_options), NULL, 0, 0, 0, 0, 0, 0                                                         \
    }

typedef struct kith_embedding kith_embedding;

KITH_API kith_status kith_embedding_create(kith_layers *layers, const kith_embedding_options *options,
                                           kith_embedding **embedding);

/* ids: [sequence, batch] or [tokens] of KITH_INT32, the whole sequence on all ranks; kept until backward (caller's
 * memory). An id outside the vocabulary is KITH_ERR_INVALID_ARG with its place. y: [tokens, features], or this rank's
 * positions of it. */
KITH_API kith_status kith_embedding_forward(kith_embedding *embedding, kith_tape *tape, const kith_tensor *ids,
                                            kith_tensor *y);
KITH_API kith_status kith_embedding_backward(kith_embedding *embedding, kith_tape *tape, const kith_tensor *dy);
KITH_API kith_param *kith_embedding_weight(const kith_embedding *embedding);
KITH_API kith_param *kith_embedding_positions(const kith_embedding *embedding); /* NULL: none */

/* Hidden states to losses. The head is a column-parallel linear layer over the vocabulary, without bias. Fused: the
 * logits stay split; forward takes one MAX and one SUM of two (three with smoothing) numbers for each token, backward
 * none. Not fused, for comparison: the logits are gathered and every rank computes the whole loss. Parameter:
 * "<name>.weight". */
typedef struct kith_head_options {
    size_t struct_size;
    const char *name;
    int64_t vocabulary, features;
    int64_t padding_multiple; /* as in the embedding; with tied, the weight's padding holds whatever stands here */
    kith_param *tied;         /* an embedding's weight of these layers; NULL: a weight of its own */
    int is_gathered;          /* not fused */
    double label_smoothing;   /* s: the target has 1 - s, every other token s / (vocabulary - 1), which is Megatron's
                                 form; in [0, 1). PyTorch's e is s = e (vocabulary - 1) / vocabulary */
    int32_t ignored;          /* targets with this id cost nothing; default -100 */
} kith_head_options;

#define KITH_HEAD_OPTIONS_INIT                                                                                         \
    {                                                                                                                  \
        sizeof(kith_head_options), NULL, 0, 0, 0, NULL, 0, 0, -100                                                     \
    }

typedef struct kith_head kith_head;

KITH_API kith_status kith_head_create(kith_layers *layers, const kith_head_options *options, kith_head **head);

/* targets: [sequence, batch] or [tokens] of KITH_INT32, the whole sequence on all ranks, kept until backward. A target
 * that is neither in the vocabulary nor `ignored` is KITH_ERR_INVALID_ARG with its place. x: as a column-parallel layer
 * takes it, of the tape's tokens. losses: [tokens], f32 or f64, replicated. *sum: of all losses, in f64; *count:
 * tokens that are not ignored. Divide by the count of the whole batch. Each of the three may be NULL: not wanted. */
KITH_API kith_status kith_head_forward(kith_head *head, kith_tape *tape, const kith_tensor *x,
                                       const kith_tensor *targets, kith_tensor *losses, double *sum, int64_t *count);

/* The gradient of grad_scale * sum; grad_scale = 1 / (count of the whole batch), times a loss scale if any; finite. */
KITH_API kith_status kith_head_backward(kith_head *head, kith_tape *tape, double grad_scale, kith_tensor *dx);

/* Logits for evaluation, on all ranks: [tokens, vocabulary] (or x's own shape, with vocabulary in the place of
 * features). Saves nothing. */
KITH_API kith_status kith_head_logits(kith_head *head, kith_tape *tape, const kith_tensor *x, kith_tensor *logits);
KITH_API kith_param *kith_head_weight(const kith_head *head);

/* ---- mixture of experts ---- */

/* A router sends each token to its top_k of `experts` feed-forward layers, those with the largest probabilities
 * (softmax of its logits over all experts; of equal ones the lower number), and adds up what they give, times those
 * probabilities. Experts are dealt to ep with kith_split_range(); inside, each is split over tp like kith_mlp. Tokens
 * travel to their experts and back by all-to-all over ep. Parameters: "<name>.router.weight" [experts, features] and,
 * for each expert of this rank, "<name>.experts.<e>.gate.weight" (gated), ".up.weight" [inner_features, features] and
 * ".down.weight" [features, inner_features], e the global number. There is no parameter on ranks of ep that do not have
 * the expert, so kith_param_gather(), which is collective over tp, is called for it where it is. Gradients of experts
 * hold what the tokens of all ranks of ep gave: they are those that one rank with all these tokens would have.
 *
 * Collectives. tp: one all-reduce of y, one of dx and one of a number for each choice (with sequence parallelism
 * all-gather of x and of dy, reduce-scatter of y and of dx, and that one). ep: three all-to-alls forward (counts, rows,
 * rows back), four backward (rows, weights, gradients of both back). data: one all-reduce of 2 * experts + 1 numbers
 * forward, with an auxiliary_weight. In dry runs all experts get the same number of tokens. */
typedef struct kith_moe_options {
    size_t struct_size;
    const char *name;
    int64_t features, inner_features;
    int64_t experts, top_k;
    kith_activation activation;
    int is_gated;
    int is_normalized;      /* the weights of the chosen experts are divided by their sum (Mixtral) */
    double capacity_factor; /* an expert takes at most ceil(factor * top_k * tokens of one rank of ep / experts) tokens
                                from each rank of ep, in the order of (choice, token): the best choices of all tokens
                                first. The others pass it by: it adds nothing to them, the weights of their other
                                choices stay. 0: all tokens */
    double
        auxiliary_weight; /* of the load-balancing loss experts * sum of f_e P_e (Switch Transformer): f_e is the share
                                of tokens that chose e, before any is dropped (all f_e: top_k), P_e its mean
                                probability, both over the whole batch of `data`. Balanced, the sum is top_k; some
                                divide by that. 0: no loss */
} kith_moe_options;

#define KITH_MOE_OPTIONS_INIT                                                                                          \
    {                                                                                                                  \
        sizeof(kith_moe_options), NULL, 0, 0, 0, 0, KITH_SILU, 0, 0, 0, 0                                              \
    }

typedef struct kith_moe kith_moe;

/* Sizes that cannot be dealt are KITH_ERR_INVALID_ARG with those that can. Local. With fewer experts than ranks of ep
 * some ranks have none, which works. */
KITH_API kith_status kith_moe_create(kith_layers *layers, const kith_moe_options *options, kith_moe **moe);

/* x, y, dy, dx: [tokens of the microbatch, features], replicated, or split along the sequence. All ranks of ep and data
 * have microbatches of the same size. *auxiliary: the load-balancing loss, weighted, the same on all ranks of data;
 * NULL: not wanted. It counts once a microbatch, not once for each rank: its gradient, of which each rank computes what
 * its own tokens give, is scaled by auxiliary_scale in backward. *dropped: tokens times choices of this rank that no
 * expert took; NULL: not wanted. tokens * experts and tokens * top_k * ep may be at most 2^31 - 1. In debug mode ranks
 * of tp whose choices differ (x or the router is not the same on all) get KITH_ERR_MISMATCH. */
KITH_API kith_status kith_moe_forward(kith_moe *moe, kith_tape *tape, const kith_tensor *x, kith_tensor *y,
                                      double *auxiliary, int64_t *dropped);
KITH_API kith_status kith_moe_backward(kith_moe *moe, kith_tape *tape, const kith_tensor *dy, double auxiliary_scale,
                                       kith_tensor *dx);

#ifdef __cplusplus
}
#endif
#endif
