/* layers/layers.h - what a kith_layers is inside, and the few functions that every layer is written with.
 *
 *     layers.c     the place: create, destroy, what it owns
 *     agree.c      one status and the same options on all ranks; groups of ranks that share parameters
 *     buffer.c     counted memory of tensors
 *     tensor.c     views
 *     param.c      parameters: registration, starts, loading, gathering;  param_memory.c  where they lie;
 *                  param_grads.c  zeroing and finishing sums;  param_tied.c  copies of one in several processes
 *     tape.c       what forward leaves for backward
 *     comm.c       every collective that a layer makes, counted
 *     expect.c     do tensors fit: shapes always, layouts in debug mode
 *
 *     linear*.c, norm.c, dropout.c, mlp.c, attention*.c     layers
 *
 * A layer is a struct that is made on the place (ki_layers_own()), with parameters (ki_param_create()), and two
 * functions. Both follow one pattern: check what came in (ki_expect()), compute through layers->compute->ops,
 * communicate through ki_comm_*(), put what backward needs on the tape (ki_tape_push()) or take it off
 * (ki_tape_pop()), and release what was in between. The first failure goes to the end of the function, where
 * everything temporary is released; kith_tensor_release() does nothing for tensors that were not made.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_LAYERS_H
#define KI_LAYERS_H

#include "compute/compute.h"
#include "core/base/error.h"
#include "core/base/mem.h"
#include "core/device/space.h"
#include <kith/layers.h>
#include <stdbool.h>
#include <string.h>

/* Needs `kith_status status` in the function. */
#define KI_OR_GOTO(label, call)                                                                                        \
    do {                                                                                                               \
        if ((status = (call)) != KITH_OK)                                                                              \
            goto label;                                                                                                \
    } while (0)

/* Memory of tensors: what kith_tensor_create() gives. In dry runs there is no data, only the count. */
struct kith_buffer {
    kith_layers *layers;
    const ki_space *space; /* that of the layers, or the host's */
    void *data;
    size_t nbytes;   /* asked for, which is what is counted */
    size_t capacity; /* allocated */
    int64_t references;
    struct kith_buffer *next; /* among the free ones */
};

/* Anything that lives as long as the place. */
typedef struct ki_owned {
    void *object;
    void (*destroy)(void *object); /* of what it holds besides its memory; NULL: nothing */
    struct ki_owned *next;         /* made before */
} ki_owned;

/* Ranks of tp that hold the same part of something: made once for each size. */
typedef struct ki_copies {
    int size;
    kith_group *group; /* NULL in dry runs */
    struct ki_copies *next;
} ki_copies;

/* Memory that blocks of parameters lie in: one's own, or an optimizer's bucket. (param_memory.c) */
typedef struct ki_home {
    const ki_space *space;
    void *value, *grad; /* T, A; NULL in dry runs, and when the last block has left */
    int64_t blocks;
} ki_home;

struct ki_block;

/* A layer that adds to a block's gradient. */
typedef struct ki_use {
    struct ki_block *block;
    kith_tensor *value, *grad; /* views that it keeps; NULL: none */
    struct ki_use *next;       /* made before */
} ki_use;

/* What a kith_param is inside. */
typedef struct ki_param {
    kith_param param; /* first, so that one is the other */
    struct ki_block *block;
    int64_t first;         /* element of the block */
    struct ki_param *next; /* of the block, in the order of creation */
} ki_param;

/* Parameters that are computed together: one, or the parts of a fused matrix. */
typedef struct ki_block {
    void *value, *grad; /* [elements] of T, of A; NULL in dry runs */
    int64_t elements;
    int uses;      /* layers that add to the gradient, each once a microbatch */
    int64_t added; /* how often they have, since it was zeroed */
    ki_home *home;
    ki_param *params;
    ki_use *users;        /* [uses], latest first */
    void *bucket;         /* of an optimizer; NULL: none (optim/) ... */
    int64_t bucket_first; /* ... and the element of it that is this block's first */
} ki_block;

/* Who wants to know what happens to gradients: an optimizer. */
typedef struct ki_grad_hook {
    void (*added)(void *context, ki_block *block); /* backward has added to one; NULL: nobody wants to know */
    void (*zeroed)(void *context);                 /* all are zero */
    void *context;
} ki_grad_hook;

struct kith_layers {
    kith_layers_options options;
    int tp_size, tp_rank, ep_size, ep_rank;
    bool is_dry;
    kith_dtype dtype, accumulator; /* T and A(T) of compute.h */
    ki_space space;                /* where tensors are */
    ki_compute *compute;
    struct kith_buffer *free_buffers;
    int64_t live_buffers, live_tapes;
    kith_layers_memory memory;
    kith_layers_traffic traffic[KITH_LAYERS_AXES];
    kith_layers_watch_fn watch; /* NULL: nobody watches */
    void *watch_arg;
    kith_param **params; /* [param_count] */
    size_t param_count, param_room;
    ki_owned *owned; /* latest first */
    ki_copies *copies;
    int unnamed;             /* for names of layers that have none */
    int64_t pending_weights; /* noted on all tapes, and not done yet */
    int64_t live_saved;      /* on all tapes */
    ki_grad_hook grad_hook;
    bool has_finished_grads; /* since they were zeroed */
};

/* Zeroed memory that is freed with the place. destroy may be NULL. Failing leaves nothing behind. (layers.c) */
kith_status ki_layers_own(kith_layers *layers, size_t nbytes, void (*destroy)(void *object), void *object_out);

/* How far the place was filled, for a creation that fails to take back what it has made: memory and parameters. Groups
 * of copies stay, they serve whoever comes next. (layers.c) */
typedef struct ki_mark {
    ki_owned *owned;
    size_t param_count;
    uint64_t parameters, grads; /* bytes */
} ki_mark;

ki_mark ki_layers_mark(const kith_layers *layers);
void ki_layers_take_back(kith_layers *layers, const ki_mark *mark);

/* What layers are made from. A layer begins with ki_layer; its options follow at once and begin with struct_size and
 * name, like all options. */
typedef struct ki_layer {
    kith_layers *layers;
    const char *name; /* the caller's, copied, or "<kind><n>" */
    struct {
        size_t struct_size;
        const char *name;
    } options;
} ki_layer;

typedef struct ki_layer_type {
    const char *function; /* "kith_norm_create", for texts */
    const char *kind;     /* "norm" */
    const char *init;     /* "KITH_NORM_OPTIONS_INIT" */
    size_t nbytes;        /* of the layer */
    size_t options_nbytes;
    const void *defaults;             /* of the options */
    kith_status (*make)(void *layer); /* checks options and makes the rest; what it made is taken back when it fails */
} ki_layer_type;

/* Makes a layer of a type from the caller's options; *layer_out is a pointer to it. (layers.c) */
kith_status ki_layer_create(kith_layers *layers, const ki_layer_type *type, const void *options, void *layer_out);

/* ---- agree.c ---- */

/* Every rank gives its status; all get the one with the lowest number. A rank whose own status that is keeps its own
 * detail, the others get the sentence of the lowest such rank. A group that is NULL or of one rank: mine. */
kith_status ki_agree(kith_group *group, kith_status mine);

/* What must be the same on all ranks. */
typedef struct ki_number {
    const char *name;
    int64_t value;
} ki_number;
enum { KI_NUMBERS = 48 };
static inline int64_t ki_bits_of(double value)
{
    int64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* KITH_ERR_MISMATCH on all ranks names the first number that differs. Any 64 bits will do; at most KI_NUMBERS. */
kith_status ki_compare(kith_group *group, const char *function, const ki_number *numbers, int count);

/* Both, over tp and then over ep: one status for all ranks, KITH_OK when nobody failed and all have the same. */
kith_status ki_agree_on(kith_group *tp, kith_group *ep, kith_status mine, const char *function,
                        const ki_number *numbers, int count);

/* The ranks of tp in runs of `size` neighbours; this rank's run. NULL in dry runs, for size 1, and as long as it was
 * not made. size must divide tp. */
kith_group *ki_layers_copies(const kith_layers *layers, int size);

/* Makes the groups that parameters from number first_param on need. Collective over tp where some are missing, so it is
 * called where all ranks come by with the same parameters. */
kith_status ki_layers_make_copies(kith_layers *layers, size_t first_param);

/* ---- names (layers.c) ---- */

/* "<prefix>" or "<kind><n>" where prefix is NULL, kept with the place. (layers.c) */
kith_status ki_layers_name(kith_layers *layers, const char *prefix, const char *kind, const char **name);

/* "<prefix>.<suffix>", likewise. (layers.c) */
kith_status ki_layers_join_name(kith_layers *layers, const char *prefix, const char *suffix, const char **name);

/* Temporary tensors: dims by hand. (buffer.c) */
kith_status ki_tensor_create_2d(kith_layers *layers, kith_dtype dtype, int64_t rows, int64_t cols, kith_tensor *tensor);
/* As x but for the last dimension. Layout and split of x are kept. */
kith_status ki_tensor_create_like(kith_layers *layers, const kith_tensor *x, int64_t features, kith_tensor *tensor);
/* Memory of the host also where the layers compute on a device: numbers that the host decides by. */
kith_status ki_tensor_create_on_host(kith_layers *layers, kith_dtype dtype, int64_t rows, int64_t cols,
                                     kith_tensor *tensor);
/* The same numbers where the layers compute: on the host another reference, on a device a copy. tensor is contiguous,
 * and may change afterwards. */
kith_status ki_tensor_bring_in(kith_layers *layers, const kith_tensor *tensor, kith_tensor *there);
/* Frees what is not in use. */
void ki_buffers_free(kith_layers *layers);

/* A tensor as rows of its last dimension. Contiguous but for the stride of rows, which was checked. (tensor.c) */
ki_mat ki_mat_of(const kith_tensor *tensor);
static inline ki_mat ki_no_mat(void)
{
    ki_mat none = { NULL, 0, 0, 0, KITH_F32 };
    return none;
}
/* `count` rows from `first`; the same for columns. */
ki_mat ki_mat_rows(ki_mat mat, int64_t first, int64_t count);
ki_mat ki_mat_cols(ki_mat mat, int64_t first, int64_t count);
static inline int64_t ki_features(const kith_tensor *tensor)
{
    return tensor->shape[tensor->dim_count - 1];
}
/* Of a contiguous one. */
static inline size_t ki_tensor_nbytes(const kith_tensor *tensor)
{
    return (size_t)kith_tensor_count(tensor) * kith_dtype_nbytes(tensor->dtype);
}
/* Product of all dimensions but the last. */
int64_t ki_rows(const kith_tensor *tensor);
/* True when a row's elements lie side by side and rows follow each other at one stride: what ki_mat_of() needs. */
bool ki_has_rows(const kith_tensor *tensor);
static inline kith_tensor ki_with_layout(kith_tensor tensor, kith_layout layout, int split_dim)
{
    tensor.layout = layout;
    tensor.split_dim = split_dim;
    return tensor;
}

/* ---- expect.c ---- */

typedef struct ki_expected {
    int64_t rows;     /* -1: any */
    int64_t features; /* of this rank */
    kith_dtype dtype;
    kith_layout layout; /* KITH_LAYOUT_UNKNOWN: any */
    int split_dim;      /* 0: rows (the sequence), -1: the last */
} ki_expected;

/* what: "kith_linear_forward: x". KITH_ERR_INVALID_ARG names what does not fit. Layouts are compared in debug mode
 * only, and where the tensor's is known. */
kith_status ki_expect(const kith_layers *layers, const char *what, const kith_tensor *tensor, const ki_expected *how);

/* ---- comm.c: over tp unless a group is named; in place where in == out; counted; nothing for one rank ---- */

typedef struct ki_comm {
    kith_group *group; /* NULL in dry runs */
    int size, rank;
    kith_layers_axis axis; /* what it is counted as */
    bool is_on_host;       /* numbers in the host's memory, whatever the layers compute with */
} ki_comm;

ki_comm ki_comm_tp(const kith_layers *layers);
ki_comm ki_comm_ep(const kith_layers *layers);
/* All ranks with other data. */
ki_comm ki_comm_data(const kith_layers *layers);
/* The same ranks, for numbers that the host decides by. */
static inline ki_comm ki_comm_on_host(ki_comm comm)
{
    comm.is_on_host = true;
    return comm;
}

/* Something that was started, so that computation can go on beside it. */
typedef struct ki_started {
    kith_request *request; /* NULL: done */
    const ki_space *space; /* of the numbers */
    kith_layers *layers;   /* what is counted and watched: */
    kith_layers_axis axis;
    kith_layers_phase phase;
    kith_coll_kind kind;
    int64_t start_ns;
    uint64_t nbytes; /* of the whole tensor */
} ki_started;

/* Sum (or op) of contiguous elements. */
kith_status ki_comm_all_reduce_start(kith_layers *layers, kith_layers_phase phase, ki_comm comm, void *data,
                                     int64_t count, kith_dtype dtype, kith_op op, ki_started *started);
kith_status ki_comm_all_reduce(kith_layers *layers, kith_layers_phase phase, ki_comm comm, void *data, int64_t count,
                               kith_dtype dtype, kith_op op);
/* Parts are kith_split_range(units, ...) of `unit` elements each, one after the other in whole; own is this rank's. */
kith_status ki_comm_all_gather_start(kith_layers *layers, kith_layers_phase phase, ki_comm comm, const void *own,
                                     void *whole, int64_t units, int64_t unit, kith_dtype dtype, ki_started *started);
kith_status ki_comm_reduce_scatter_start(kith_layers *layers, kith_layers_phase phase, ki_comm comm, const void *whole,
                                         void *own, int64_t units, int64_t unit, kith_dtype dtype, ki_started *started);
/* Moves messages on without waiting: between pieces of a computation. */
kith_status ki_comm_poll(ki_started *started);
kith_status ki_comm_wait(ki_started *started);
/* At the end of a function that failed: waits for what it had started, so that buffers may go. */
void ki_comm_settle(ki_started *started);
/* counts of elements to and from each rank, copied. Counted: what this rank sends. */
kith_status ki_comm_all_to_all_v_start(kith_layers *layers, kith_layers_phase phase, ki_comm comm, const void *send,
                                       const int64_t *send_counts, void *recv, const int64_t *recv_counts,
                                       kith_dtype dtype, ki_started *started);
kith_status ki_comm_all_to_all_v(kith_layers *layers, kith_layers_phase phase, ki_comm comm, const void *send,
                                 const int64_t *send_counts, void *recv, const int64_t *recv_counts, kith_dtype dtype);

/* ---- tape.c ---- */

#define KI_SAVED_TENSORS 8
#define KI_SAVED_NUMBERS 4

/* What one forward function left. Tensors are references of the tape's own (ki_saved_keep()). */
typedef struct ki_saved {
    const void *owner; /* the layer; its backward must be the next to pop */
    const char *name;  /* of the owner, for texts */
    kith_tensor tensors[KI_SAVED_TENSORS];
    int64_t numbers[KI_SAVED_NUMBERS];
} ki_saved;

/* A gradient of a weight that is computed later, by run(): grad += dy^T x. */
typedef struct ki_weight_work {
    kith_status (*run)(kith_tape *tape, const struct ki_weight_work *work);
    const void *layer;
    kith_tensor x, dy;
} ki_weight_work;

struct kith_tape {
    kith_layers *layers;
    kith_batch batch;
    int64_t first_position, positions; /* of this rank with sequence parallelism */
    bool has_begun, is_split_backward;
    bool is_recomputing;     /* forward functions run inside a backward pass and count as that */
    kith_layers_phase phase; /* what communication counts as now */
    ki_saved *saved;         /* [depth], latest last */
    size_t depth, room;
    ki_weight_work *work; /* [work_count] */
    size_t work_count, work_room;
};

/* Tokens of the whole sequence, and of this rank's shard (the same without sequence parallelism). */
int64_t ki_tape_tokens(const kith_tape *tape);
int64_t ki_tape_local_tokens(const kith_tape *tape);

/* Between shards of the sequence and the whole, along dimension 0 ([tokens, ...] or [sequence, batch, ...]): all-
 * gather, and reduce-scatter of a partial tensor. The new tensor is complete when `started` is. (tape_shards.c) */
kith_status ki_tape_gather_start(kith_tape *tape, const kith_tensor *shard, kith_tensor *whole, ki_started *started);
kith_status ki_tape_scatter_start(kith_tape *tape, const kith_tensor *partial, kith_tensor *shard, ki_started *started);
kith_status ki_tape_gather(kith_tape *tape, const kith_tensor *shard, kith_tensor *whole);
kith_status ki_tape_scatter(kith_tape *tape, const kith_tensor *partial, kith_tensor *shard);

/* A reference for the tape, or a copy of the struct for the caller's memory. Views of references are not allowed. */
kith_status ki_saved_keep(ki_saved *saved, int index, const kith_tensor *tensor);

/* Takes `saved` over, also when it fails. Evaluation (is_training 0) saves nothing and releases it. */
kith_status ki_tape_push(kith_tape *tape, ki_saved *saved);

/* The latest, which stays on the tape: for checks that come before the pop. KITH_ERR_INVALID_ARG when it is another
 * layer's or there is none. */
kith_status ki_tape_peek(const kith_tape *tape, const void *owner, const char *name, const ki_saved **saved);

/* Hands the latest out; the caller releases its tensors with ki_saved_release(). KITH_ERR_INVALID_ARG when it is
 * another layer's. */
kith_status ki_tape_pop(kith_tape *tape, const void *owner, const char *name, ki_saved *saved);
void ki_saved_release(ki_saved *saved);

/* Drops all above `depth`: for blocks that compute it again. */
void ki_tape_drop(kith_tape *tape, size_t depth);

/* After a backward function of several layers failed that found the tape `depth` deep: when it has taken something off,
 * the microbatch is lost and all of the tape is dropped. */
void ki_tape_spoil(kith_tape *tape, size_t depth);

/* Notes work for kith_tape_weight_grads(), with references of its own to x and dy. */
kith_status ki_tape_note_weights(kith_tape *tape, const ki_weight_work *work);

/* Computes what was noted from number `first` on, with a look at messages after each, and forgets it; on failure, too.
 * For layers that note first and compute while something travels. */
kith_status ki_tape_run_weights(kith_tape *tape, size_t first, ki_started *beside);
void ki_tape_drop_weights(kith_tape *tape, size_t first);

/* Checks that tape is one of layers and has begun; sets the phase. Backward functions pass KITH_PHASE_BACKWARD, forward
 * functions KITH_PHASE_FORWARD, which a recomputation turns into backward (is_recomputing). */
kith_status ki_tape_enter(kith_tape *tape, const kith_layers *layers, const char *function, kith_layers_phase phase);

/* ---- param.c ---- */

typedef struct ki_param_spec {
    const char *prefix, *suffix; /* "<prefix>.<suffix>" */
    int dim_count;
    int64_t global_shape[2];
    int split_dim; /* -1: whole */
    int64_t first, count, padding;
    int64_t padded; /* size along split_dim with all padding; 0: there is none */
    int copies;     /* neighbours in tp that have this part; tp's size for whole parameters */
    bool is_grad_partial, is_matrix, is_expert;
    ki_block *block;       /* a fused one that it is a part of; NULL: one of its own */
    int64_t first_element; /* of block */
} ki_param_spec;

kith_status ki_param_create(kith_layers *layers, const ki_param_spec *spec, kith_param **param);

static inline ki_block *ki_block_of(const kith_param *param)
{
    return ((const ki_param *)param)->block;
}

/* ---- param_memory.c ---- */

/* Zeroed memory of parameters (T) and their gradients (A), counted. */
kith_status ki_param_memory(kith_layers *layers, int64_t elements, ki_block **block);

/* Contiguous views of it from element `first` on. */
void ki_block_view(const kith_layers *layers, const ki_block *block, int64_t first, int dim_count, const int64_t *shape,
                   kith_tensor *value, kith_tensor *grad);

/* A layer adds to the block's gradient, once a microbatch. value, grad: views of the block that it keeps, at these
 * addresses, which are rewritten when the block moves; NULL: none. */
kith_status ki_block_use(kith_layers *layers, ki_block *block, kith_tensor *value, kith_tensor *grad);

/* Backward has added to a block's gradient, as it does once for each use and microbatch (also when there was nothing to
 * add). To be called by whoever adds. */
void ki_grad_added(kith_layers *layers, ki_block *block);

/* Zeroed memory for blocks to move into, not counted. It dies with the layers. */
kith_status ki_home_create(kith_layers *layers, int64_t elements, ki_home **home);
/* Values and gradients go along. On failure nothing has moved. */
kith_status ki_block_move(kith_layers *layers, ki_block *block, ki_home *home, int64_t first);

/* ---- param_grads.c ---- */

/* What kith_layers_finish_grads() does, without looking whether it may. */
kith_status ki_layers_sum_partial_grads(kith_layers *layers);

#endif
