/* backends/nccl/backend.h - the nccl backend: collectives and messages on device memory.
 *
 * It takes device memory alone and serves a group beside the transport that takes the host's. What follows is how, from
 * the bottom up.
 *
 * A **line** (line.c) is one communicator with a stream of its own and a queue of operations. An operation is put in at
 * the caller's call, with an event that marks what the caller's stream held then. The head of the queue is issued: the
 * line's stream waits for that event, NCCL gets its calls, and an event after them marks the end. While NCCL connects
 * ranks - for seconds, and until the others come - nothing else may be given to this communicator, and the end cannot
 * be marked; the line asks again at each progress. A non-blocking communicator answers "in progress" for so long; what
 * may wait in a blocking one is called by a thread (task.c). So a rank never stands still inside NCCL, and ranks that
 * use several groups in different orders do not block each other there.
 *
 * A **group** (group.c) has one line for its collectives: one ordered queue, whatever streams the callers use. Its
 * communicator was split from the parent's (split.c), or rank 0's unique id goes round through the core; a second
 * exchange makes sure that a communicator exists everywhere or nowhere.
 *
 * **Messages** (message.c) have a line for each direction of each pair of ranks that talk, made by these two alone when
 * they first do: the sender leaves the unique id as a note. On one line for all, a send that waits for its receiver
 * would stand before a receive that the peer waits for. NCCL matches by order, so tags do not select here: the messages
 * from one rank to another match in the order of posting, and both sides must name the same number of bytes.
 *
 * **Failure.** A line breaks - NCCL says so, the group is aborted, an operation is cancelled - by ncclCommAbort(),
 * which ends its kernels; then it waits until its stream is empty, so that nobody touches a buffer afterwards. Lines
 * that break for one reason are aborted as one (end.c says why), also over the borders of groups. A broken line stays
 * so and tells why. ncclCommAbort() knows this rank only: that the others end too is the core's part
 * (ki_group_tell_failure()).
 *
 * Threads: one at a time, but for group_abort(); each group has a lock, held in every entry. No entry blocks, so
 * neither does an abort for long.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_NCCL_BACKEND_H
#define KI_NCCL_BACKEND_H

#include "core/device/cuda/runtime.h"
#include "library.h"

#include <kith/backend.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#define NCCL_SCRATCH_NBYTES ((size_t)16 << 20) /* of operations in place that NCCL has not */
#define NCCL_DRAIN_MS 2000                     /* how long a broken line's stream may take to become empty */
#define NCCL_FINALIZE_MS 2000                  /* how long peers may take to destroy their side; aborts to end */
#define NCCL_SHAPES 512                        /* of operations that a group knows to be connected; a power of two */
#define NCCL_FACTORS 8                         /* operators of premul_sum that a line keeps */

typedef struct nccl_line nccl_line;
typedef struct nccl_group nccl_group;
typedef struct nccl_channel nccl_channel;
typedef struct nccl_split nccl_split;   /* a communicator for a group to come, split.c */
typedef struct nccl_task nccl_task;     /* a call that may wait for others, task.c */
typedef struct nccl_ending nccl_ending; /* an abort under way, end.c */

typedef struct nccl_be {
    const kith_be_host *host;
    const nccl_functions *nccl;
    const ki_cuda *cuda;
    int device, capability; /* 90 */
    int min_ctas, max_ctas; /* 0: NCCL's choice */
    int message_ctas;       /* most of a line of messages */
    int stream_priority;    /* the greatest */
    const char *net;        /* NULL: NCCL's choice */
    bool may_split;         /* ncclCommSplit is used */
    bool is_blocking;       /* communicators block: what is connected is launched by the call itself */
    nccl_group *groups;
    cudaEvent_t *spare_events; /* [spare_count], room for spare_room */
    size_t spare_count, spare_room;
} nccl_be;

typedef enum nccl_op_state { OP_WAITING = 0, OP_ISSUING, OP_RUNNING, OP_ENDED } nccl_op_state;

/* An operation; lives in the core's slot. */
typedef struct nccl_op {
    struct nccl_op *next; /* of the line's queue */
    nccl_line *line;
    const kith_be_coll *coll; /* or */
    const kith_be_msg *msg;
    cudaEvent_t begin, end; /* what it waits for, what marks its end; NULL: none */
    kith_status status;
    uint64_t batch; /* messages of one batch start together; 0: none */
    size_t step;    /* of a collective that needs several calls */
    size_t length;  /* bytes of a message */
    uint8_t state;  /* nccl_op_state */
    bool is_send;
} nccl_op;

_Static_assert(sizeof(nccl_op) <= sizeof(kith_be_slot), "an operation must fit the core's slot");

typedef enum nccl_line_state {
    LINE_EMPTY = 0, /* no communicator yet */
    LINE_MAKING,
    LINE_READY,
    LINE_ISSUING, /* NCCL still works on the last call */
    LINE_BROKEN
} nccl_line_state;

/* A premul_sum operator of this communicator. */
typedef struct nccl_factor {
    uint64_t bits;
    ncclDataType_t dtype;
    ncclRedOp_t op;
} nccl_factor;

struct nccl_line {
    nccl_be *be;
    nccl_group *group;
    ncclComm_t comm;
    cudaStream_t stream;
    nccl_line_state state;
    int rank, size; /* in this communicator */
    nccl_op *waiting, **waiting_end;
    nccl_op *issuing; /* what NCCL works on: one collective, or the messages of a batch */
    nccl_factor factors[NCCL_FACTORS];
    int factor_count, factor_next;
    bool is_last_step; /* of what is being issued */
    bool is_finalizing;
    bool has_connected;    /* a line of messages: the first was given */
    nccl_task *task;       /* what NCCL works on is called by it */
    bool has_broken_batch; /* messages of the batch that is being started were in the queue when it broke */
    bool is_stuck;         /* its stream did not become empty after an abort */
    kith_status failure;
    nccl_line *next_broken; /* of those that break together */
    nccl_ending *ending;
    char why[400];
};

/* One direction between this rank and a peer. */
struct nccl_channel {
    nccl_channel *next;
    int from, to;
    nccl_line line;
    int64_t ask_at_ns; /* when to look for the sender's note again */
};

typedef struct nccl_memory {
    struct nccl_memory *next;
    void *ptr, *handle;
} nccl_memory;

struct nccl_group {
    nccl_group *next;
    nccl_be *be;
    void *cookie;
    char name[64];
    int rank, size, capability; /* the least of the members' */
    pthread_mutex_t lock;
    nccl_line line; /* of the collectives */
    nccl_channel *channels;
    nccl_op *self_sends, *self_recvs; /* messages to oneself that wait for the other half */
    nccl_memory *memories;
    void *scratch; /* device memory of NCCL_SCRATCH_NBYTES; NULL until needed */
    uint64_t shapes[NCCL_SHAPES];
    uint64_t batch;
    unsigned split_count;
    bool is_batching;
};

/* ---- status.c ---- */

/* What a result of NCCL, or of CUDA, means to a caller. */
kith_status nccl_status(ncclResult_t result);
/* "unhandled cuda error (ncclUnhandledCudaError): the last error's text", in text, which is returned. */
const char *nccl_words(const nccl_be *be, ncclComm_t comm, ncclResult_t result, char *text, size_t nbytes);
kith_status nccl_cuda_fail(const nccl_be *be, const char *what, cudaError_t error);
int64_t nccl_now_ns(void);
void nccl_pause(void); /* between two questions, for those few waits that there are */

/* ---- event.c ---- */

kith_status nccl_event_get(nccl_be *be, cudaEvent_t *event);
void nccl_event_put(nccl_be *be, cudaEvent_t *event); /* *event becomes NULL; NULL is fine */
void nccl_events_free(nccl_be *be);

/* ---- types.c ---- */

/* Operations that move only are given to NCCL as bytes, so every dtype works. */
bool nccl_is_reduction(kith_coll_kind kind);
/* false: NCCL does not reduce this type. */
bool nccl_dtype(kith_dtype dtype, ncclDataType_t *type);
kith_status nccl_query(void *group, const kith_be_query *query, kith_be_answer *answer);
/* The operator of a collective that query() called native; makes premul_sum's. */
ncclResult_t nccl_operator(nccl_line *line, const kith_be_coll *coll, ncclDataType_t type, ncclRedOp_t *op);
void nccl_factors_free(nccl_line *line);

/* ---- line.c ---- */

kith_status nccl_line_open(nccl_line *line, nccl_group *group);
/* How its communicator is to be. */
ncclConfig_t nccl_line_config(const nccl_line *line);
/* Begins to make the communicator. */
kith_status nccl_line_make(nccl_line *line, const ncclUniqueId *id, int rank, int size);
/* Moves on what can move. Never blocks. */
void nccl_line_advance(nccl_line *line);
/* Puts an operation at the end of the queue; has_stream: behind what the stream holds. */
kith_status nccl_line_put(nccl_line *line, nccl_op *op, bool has_stream, void *stream);
/* The line is broken: its reason as the caller's failure. */
kith_status nccl_line_fail(const nccl_line *line);
kith_status nccl_op_test(nccl_op *op, int *is_done);
/* Takes one out that was not issued. */
void nccl_line_take_out(nccl_line *line, nccl_op *op);
void nccl_op_release(nccl_op *op);

/* ---- task.c ---- */

/* A thread that nobody joins. */
bool nccl_thread_start(void *(*run)(void *arg), void *arg);
/* NULL: neither memory nor a thread. */
nccl_task *nccl_task_make(const nccl_line *line, const ncclUniqueId *id, const ncclConfig_t *config);
nccl_task *nccl_task_split(const nccl_line *line, int color, int key);
nccl_task *nccl_task_issue(nccl_line *line);
nccl_task *nccl_task_hold(nccl_task *task);
void nccl_task_release(nccl_task *task);
bool nccl_task_is_done(const nccl_task *task);
/* Of one that is done; sets what its kind has: the communicator, or whether there is no other step. */
ncclResult_t nccl_task_result(const nccl_task *task, ncclComm_t *comm, bool *is_last_step, const char **words);
/* Makes it come back from NCCL, waits for that; then, when the communicator was aborted, ends what a split left. */
void nccl_task_call_back(nccl_task *task, ncclComm_t comm);
void nccl_task_clear(nccl_task *task);
/* false: it is done; else it puts away what it makes by itself. */
bool nccl_task_leave(nccl_task *task);
/* May what is issued wait for other ranks? Asked once for each: it is known from then on. */
bool nccl_is_new_shape(nccl_line *line);

/* ---- end.c ---- */

/* Ends everything; returns when the buffers are left alone. Keeps the first reason. */
void nccl_line_break(nccl_line *line, kith_status status, const char *why);
/* The same for several lines of one instance: each is put on the list, which begins as NULL, then all end as one. */
void nccl_line_mark_broken(nccl_line *line, kith_status status, const char *why, nccl_line **list);
void nccl_lines_end(nccl_line *list);
/* Destroying goes in steps, so that peers that destroy several lines in other orders do not wait for each other: all
 * are finalized, then destroyed - those that cannot be go on the list, to be ended -, then closed when they are over.
 * false: NCCL still works on it, and what it may touch must stay. */
void nccl_line_finalize(nccl_line *line);
void nccl_line_destroy(nccl_line *line, int64_t deadline_ns, nccl_line **list);
bool nccl_line_is_over(nccl_line *line, int64_t deadline_ns);
void nccl_line_close(nccl_line *line);
/* Aborts one that no line has; NULL is fine. */
void nccl_put_away(const nccl_be *be, ncclComm_t comm);

/* ---- coll.c ---- */

/* Gives step number op->step to NCCL (and to the stream); *is_last when there is no other. A failure of CUDA is told as
 * ncclUnhandledCudaError. */
ncclResult_t nccl_coll_issue(nccl_line *line, nccl_op *op, bool *is_last);
kith_status nccl_coll_start(void *group, const kith_be_coll *coll, kith_be_slot *slot);
kith_status nccl_coll_test(void *group, kith_be_slot *slot, int *is_done);
void nccl_coll_cancel(void *group, kith_be_slot *slot);
kith_status nccl_stream_wait(void *group, kith_be_slot *slot, void *stream);

/* ---- message.c ---- */

kith_status nccl_send_start(void *group, const kith_be_msg *msg, kith_be_slot *slot);
kith_status nccl_recv_start(void *group, const kith_be_msg *msg, kith_be_slot *slot);
kith_status nccl_msg_test(void *group, kith_be_slot *slot, int *is_done, size_t *nbytes);
void nccl_msg_cancel(void *group, kith_be_slot *slot);
kith_status nccl_batch_begin(void *group);
kith_status nccl_batch_end(void *group);
/* Gives the messages from this one on to NCCL, as one group. */
ncclResult_t nccl_messages_issue(nccl_line *line, const nccl_op *first);
/* Makes the channels' communicators and moves their lines on. */
void nccl_channels_advance(nccl_group *group);
void nccl_self_break(nccl_group *group);

/* ---- group.c ---- */

kith_status nccl_group_create(void *be, const kith_be_group_info *info, void **group);
void nccl_group_destroy(void *group);
void nccl_group_abort(void *group);
void nccl_groups_abort(void *const *groups, size_t count);
/* Marks all lines of the group broken, under its lock. */
void nccl_group_mark_broken(nccl_group *group, kith_status status, const char *why, nccl_line **list);
void nccl_progress(void *be);

/* ---- split.c ---- */

kith_status nccl_group_split(void *parent, int color, int key, void **split);
void nccl_split_discard(void *be, void *split);
/* What is in it; NULL when there is none. Frees it. */
ncclComm_t nccl_split_take(const nccl_be *be, nccl_split *split);

/* ---- memory.c ---- */

kith_status nccl_mem_register(void *group, void *ptr, size_t nbytes);
kith_status nccl_mem_deregister(void *group, void *ptr);

#endif
