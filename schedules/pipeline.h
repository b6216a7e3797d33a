/* schedules/pipeline.h - what a running pipeline is inside; shared by the pipeline*.c files alone.
 *
 *     pipeline_create.c    memory, meeting the other ranks; destroy
 *     pipeline_compare.c   what all ranks must bring alike
 *     pipeline_complete.c  plans that have messages and no more
 *     pipeline_check.c     options against the plan
 *     pipeline_program.c   walks the rank's list once: slots, last calls, how many buffers of which size
 *     pipeline_pool.c      buffers, lent and given back
 *     pipeline_message.c   header, tags, receives ahead of their place, sends that travel
 *     pipeline_device.c    the same for data on a device
 *     pipeline_action.c    one action: call the trainer, pass on the result
 *     pipeline_ordered.c   gradients of microbatches added in their order
 *     pipeline_reduce.c    reductions over dp_group and of tied weights
 *     pipeline_fail.c      noting failures of callbacks; ending when a group has failed
 *     pipeline_agree.c     one status and one sentence on all ranks
 *     pipeline.c           the step, and what can be asked afterwards
 *
 * Two kinds of failure are kept apart. A callback that fails sets is_failed and own, and the list goes on
 * without computing. A group that fails makes a function here return that status; it goes straight up to
 * kith_pipeline_step().
 *
 * Why this cannot deadlock. The plan has passed kith_schedule_check() with capacity 0: there is one order of all ranks'
 * actions in which every list runs even if a send waits for its receive. Take the first action of that order that is
 * stuck for ever. (1) It computes and waits for a message: the send and the receive stand earlier in the order, so the
 * one was started and the other posted. (2) It waits for a buffer, to receive into or to compute into. The pool of that
 * size holds what the plan needs at that place when each send is over at its SEND, plus room for every receive that may
 * be ahead of its place. So the buffers that are missing belong to sends whose SEND is behind in the list; their
 * receives stand earlier in the order and were posted, so these sends end. A rank waits for nothing else before the end
 * of its list: reductions and tied sums are started and not waited for.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_SCHEDULES_PIPELINE_H
#define KI_SCHEDULES_PIPELINE_H

#include "schedule.h"

#include "core/base/error.h"
#include "core/device/space.h"

#include <kith/pipeline.h>
#include <kith/request.h>

/* Which way a message goes: activations up the stages, their gradients down. */
typedef enum ki_pipe_direction { KI_UP, KI_DOWN, KI_DIRECTIONS } ki_pipe_direction;

#define KI_NO_ACTION SIZE_MAX

/* What a message says of itself. */
typedef struct ki_pipe_head {
    uint64_t nbytes; /* behind the header */
    int32_t microbatch;
    uint16_t stage; /* that sends */
    uint8_t dim_count;
    uint8_t is_empty; /* a rank has failed: there is nothing behind */
    int64_t shape[KITH_SHAPE_DIMS];
} ki_pipe_head;

enum { KI_HEAD_NBYTES = 64 };
_Static_assert(sizeof(ki_pipe_head) == KI_HEAD_NBYTES, "the data behind the header is aligned to 64 bytes");

typedef struct ki_pipe_buffer {
    kith_pipeline_buffer view;  /* what callbacks see */
    unsigned char *memory;      /* a header, then the data */
    ki_pipe_head head;          /* on a device: the header, which travels by itself ... */
    kith_request *head_request; /* ... while it does */
    struct ki_pipe_pool *pool;
    struct ki_pipe_buffer *next; /* in the list of free ones */
    size_t sent_at;              /* while it travels: index of its SEND */
} ki_pipe_buffer;

/* Buffers of one size. Boundaries between stages with messages of equal size share a pool. */
typedef struct ki_pipe_pool {
    size_t capacity_nbytes;
    int count;
    void *memory;
    ki_pipe_buffer *buffers; /* [count] */
    ki_pipe_buffer *free;
    kith_request **sends;  /* [count] of which send_count are under way */
    ki_pipe_buffer **sent; /* [count] their buffers */
    size_t send_count;
} ki_pipe_pool;

/* A (stage, microbatch) of this rank. [KI_UP]: its input; [KI_DOWN]: the gradient of its output. */
typedef struct ki_pipe_pair {
    ki_pipe_buffer *in[KI_DIRECTIONS];
    kith_request *request[KI_DIRECTIONS];      /* the receive into it, until it was waited for */
    size_t received_at[KI_DIRECTIONS];         /* index of RECV_F, RECV_B; KI_NO_ACTION: none */
    size_t sent_at[KI_DIRECTIONS];             /* index of SEND_F, SEND_B */
    ki_pipe_buffer *out[KI_DIRECTIONS];        /* on a device: the result, from its computation to its SEND */
    ki_pipe_head head[KI_DIRECTIONS];          /* on a device: of what is received ... */
    kith_request *head_request[KI_DIRECTIONS]; /* ... while it is */
    int slot;
} ki_pipe_pair;

/* The RECVs of one direction, in the order of the list: [0, passed) lie behind, [passed, posted) are ahead of their
 * place. */
typedef struct ki_pipe_receives {
    size_t *at; /* [count] indices */
    size_t count, passed, posted;
} ki_pipe_receives;

/* With is_ordered: a buffer for the gradients of one microbatch, and who waits for its turn. */
typedef struct ki_pipe_ordered_grad {
    void **grads; /* [buckets of the stage] into memory */
    void *memory;
    struct ki_pipe_ordered_grad *next;
} ki_pipe_ordered_grad;

typedef struct ki_pipe_ordered {
    int need;                  /* how many microbatches hold one at once, from the plan */
    size_t bucket_count;       /* of the stage */
    size_t *bucket_index;      /* [bucket_count] in the options */
    size_t nbytes;             /* of one microbatch's */
    ki_pipe_ordered_grad *all; /* [need] */
    ki_pipe_ordered_grad *free;
    ki_pipe_ordered_grad **waiting; /* [microbatches] */
    int turn;                       /* the microbatch that is added next */
} ki_pipe_ordered;

/* How it ended, and who says so. */
typedef struct ki_pipe_verdict {
    kith_status status;
    int world_rank; /* of the rank that failed; of this one while status is KITH_OK */
    char sentence[KI_DETAIL_NBYTES];
} ki_pipe_verdict;

struct kith_pipeline {
    const kith_schedule *schedule; /* lowered */
    kith_schedule *owned_schedule; /* the same when it was lowered here */
    kith_group *group, *tied_group;
    kith_ctx *ctx;
    ki_space space; /* where buffers are */
    kith_pipeline_callbacks callbacks;
    kith_pipeline_options options;
    int rank, stages, microbatches, chunks; /* chunks: stages of this rank */

    const kith_action *actions; /* [action_count] of this rank */
    size_t action_count;
    unsigned char *is_last_call; /* [action_count] of its pair */
    int *slots;                  /* [chunks] */
    ki_pipe_pair *pairs;         /* [chunks * microbatches] */
    ki_pipe_receives receives[KI_DIRECTIONS];
    ki_pipe_pool *pools; /* [pool_count] */
    int pool_count;
    int *pool_of; /* [stages] of the boundary between a stage and the next; -1: not on this rank */
    size_t pool_nbytes;
    ki_pipe_ordered *ordered; /* [chunks] with is_ordered */
    bool has_step, has_reduce;

    kith_request **reductions; /* [bucket_count] */
    kith_request *tied_request;
    int tied_stage;         /* whose REDUCE_TIED this rank has; -1: none */
    bool is_tied_stage_due; /* its REDUCE_GRAD has come */

    double *losses, *next_losses; /* [microbatches] of the last good step, of this one; NULL: not known here */
    bool has_losses;

    bool is_running;
    bool is_failed;                /* compute no more in this step */
    unsigned long failures_before; /* of this thread when the callback was called */
    ki_pipe_verdict own;           /* of the first callback that failed here */
    bool is_settled;               /* all ranks have agreed before the optimizer */
    ki_pipe_verdict agreed;        /* of all ranks */
    ki_pipe_verdict fatal;         /* a group failed: nothing works any more */
    uint64_t *facts;               /* pipeline_compare.c */

    int64_t start_ns;
    kith_pipeline_stats stats, last_stats;
    int in_flight;
    size_t live_nbytes;
    kith_interval *intervals; /* [action_count] with keeps_times */
};

/* pipeline_check.c: what a plan must have to be run with these options, besides what kith_schedule_check() asks for. */
kith_status ki_pipe_check(const kith_pipeline *p);

/* pipeline_complete.c: the plan with what it lacks of a step; *completed NULL: it lacks nothing. */
kith_status ki_pipe_complete(const kith_schedule *s, kith_schedule **completed);

/* pipeline_program.c: fills what follows from the plan, up to the counts of pools and of ordered gradients. */
kith_status ki_pipe_program_build(kith_pipeline *p);
/* Bytes of a message between a stage and the next, at most. */
size_t ki_pipe_program_boundary_nbytes(const kith_pipeline *p, int boundary);

/* pipeline_pool.c */
kith_status ki_pipe_pools_allocate(kith_pipeline *p);
void ki_pipe_pools_free(kith_pipeline *p);
/* NULL when none is free. */
ki_pipe_buffer *ki_pipe_pool_take(kith_pipeline *p, ki_pipe_pool *pool);
void ki_pipe_pool_give(kith_pipeline *p, ki_pipe_buffer *buffer);
/* NULL: no memory, or failed on purpose. */
void *ki_pipe_zeroed(size_t count, size_t nbytes);
void *ki_pipe_block(size_t count, size_t nbytes); /* aligned to 64 bytes, not zeroed */

/* pipeline_device.c */
/* Options of a device against the rest. */
kith_status ki_pipe_device_check(const kith_pipeline *p);
/* At a SEND. */
kith_status ki_pipe_device_send(kith_pipeline *p, size_t at);
/* At a RECV: waits for the header and starts the receive of what it announces. */
kith_status ki_pipe_device_receive(kith_pipeline *p, size_t at);
/* Posts the receive of the header that belongs to a RECV. */
kith_status ki_pipe_device_post_head(kith_pipeline *p, size_t at);
/* Gives back buffers whose sends are over; with is_waiting, at least one. */
kith_status ki_pipe_device_reap(kith_pipeline *p, ki_pipe_pool *pool, bool is_waiting);

/* pipeline_message.c */
/* Buffers and callers' tags of a message. */
ki_pipe_pool *ki_pipe_message_pool(kith_pipeline *p, int boundary);
int ki_pipe_message_tag(const kith_pipeline *p, int sending_stage, int microbatch, ki_pipe_direction direction);
ki_pipe_direction ki_pipe_message_direction(const kith_action *a);
/* The boundary over which a receive goes. */
int ki_pipe_message_boundary(const kith_action *receive);
ki_pipe_head ki_pipe_message_head(const kith_pipeline *p, const kith_action *send, const kith_pipeline_buffer *view);
/* Puts what a header says where callbacks see it. data_nbytes: that came. */
kith_status ki_pipe_message_read_head(kith_pipeline *p, const kith_action *receive, const ki_pipe_head *head,
                                      size_t data_nbytes, ki_pipe_buffer *buffer);
/* A send at index i of the pool is over. */
void ki_pipe_message_end_send(kith_pipeline *p, ki_pipe_pool *pool, size_t i);
size_t ki_pipe_message_stride(size_t capacity_nbytes);
void ki_pipe_message_attach(ki_pipe_buffer *buffer, unsigned char *memory, size_t capacity_nbytes);
/* A buffer to compute into; waits for sends when all are lent. */
kith_status ki_pipe_message_take(kith_pipeline *p, int boundary, ki_pipe_buffer **buffer);
/* Sends the result of a pair; the buffer goes back to its pool when it is over. */
kith_status ki_pipe_message_send(kith_pipeline *p, size_t at, ki_pipe_buffer *buffer);
/* At a RECV: posts the receive unless it was posted ahead. */
kith_status ki_pipe_message_pass_receive(kith_pipeline *p, size_t at);
/* Between actions: lets messages advance, takes back what was sent, posts receives ahead. */
kith_status ki_pipe_message_progress(kith_pipeline *p);
/* Waits for the receive of the pair's input or output gradient, if one is under way. */
kith_status ki_pipe_message_wait(kith_pipeline *p, ki_pipe_pair *pair, ki_pipe_direction direction);
kith_status ki_pipe_message_finish_sends(kith_pipeline *p);

/* pipeline_action.c: runs the action at *at and moves *at behind it, or behind a pair that runs as one. */
kith_status ki_pipe_action_run(kith_pipeline *p, size_t *at);

/* pipeline_ordered.c */
kith_status ki_pipe_ordered_allocate(kith_pipeline *p);
void ki_pipe_ordered_free(kith_pipeline *p);
void ki_pipe_ordered_reset(kith_pipeline *p);
ki_pipe_ordered_grad *ki_pipe_ordered_take(kith_pipeline *p, const kith_action *action);
void ki_pipe_ordered_add(kith_pipeline *p, const kith_action *action, ki_pipe_ordered_grad *grad);

/* pipeline_reduce.c */
kith_status ki_pipe_reduce_start(kith_pipeline *p, int stage);
kith_status ki_pipe_reduce_tied_start(kith_pipeline *p, int stage);
kith_status ki_pipe_reduce_finish(kith_pipeline *p);

/* pipeline_compare.c: all ranks come to the same verdict about what they bring. Return the failure of a group. */
kith_status ki_pipe_compare_allocate(kith_pipeline *p);
kith_status ki_pipe_compare_ranks(kith_pipeline *p, ki_pipe_verdict *verdict);
kith_status ki_pipe_compare_replicas(kith_pipeline *p, ki_pipe_verdict *verdict);

/* pipeline_agree.c: all ranks of the group - of both groups; dp_group may be NULL - get the verdict with the lowest
 * status of any. Return the failure of a group. */
kith_status ki_pipe_agree_over(kith_group *group, ki_pipe_verdict *verdict);
kith_status ki_pipe_agree(kith_group *group, kith_group *dp_group, ki_pipe_verdict *verdict);

/* pipeline_fail.c */
/* KITH_OK of the calling rank. */
void ki_pipe_verdict_clear(ki_pipe_verdict *verdict, kith_group *group);
/* The first failure, with the sentence that was stored for it. */
void ki_pipe_verdict_take(ki_pipe_verdict *verdict, kith_status status);
/* One that all ranks of the group come to alike. */
void ki_pipe_verdict_share(ki_pipe_verdict *verdict, kith_group *group, kith_status status, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* Its status, and its sentence as the detail. */
kith_status ki_pipe_verdict_return(const ki_pipe_verdict *verdict);
/* Before a callback, so that its own sentence can be told afterwards. */
void ki_pipe_fail_watch(kith_pipeline *p);
/* Notes what a callback returned. what names it ("forward"); call may be NULL. */
void ki_pipe_fail_callback(kith_pipeline *p, kith_status returned, const char *what, const kith_stage_call *call);
/* Notes a failure whose sentence is stored. */
void ki_pipe_fail_note(kith_pipeline *p, kith_status status);
/* p->own of all ranks of the pipeline and of dp_group becomes p->agreed. Returns the failure of a group. */
kith_status ki_pipe_fail_agree(kith_pipeline *p);
/* Tells the others of a group that this rank has left. NULL is fine, and so is one that failed. */
void ki_pipe_fail_abort(kith_group *group);
/* A group failed with status: ends everything that is under way. Returns status. */
kith_status ki_pipe_fail_end(kith_pipeline *p, kith_status status);

/* Times of an action, when they are kept. */
int64_t ki_pipe_now(const kith_pipeline *p);
void ki_pipe_note_start(kith_pipeline *p, size_t at);
void ki_pipe_note_end(kith_pipeline *p, size_t at);

static inline ki_pipe_pair *ki_pipe_pair_at(kith_pipeline *p, const kith_action *a)
{
    return &p->pairs[(size_t)a->chunk * (size_t)p->microbatches + (size_t)a->microbatch];
}

static inline ki_pipe_pair *ki_pipe_pair_of(kith_pipeline *p, int stage, int microbatch)
{
    int chunk = p->schedule->chunk_of_stage[stage];
    return &p->pairs[(size_t)chunk * (size_t)p->microbatches + (size_t)microbatch];
}

static inline bool ki_pipe_has_stage(const kith_pipeline *p, int stage)
{
    return stage >= 0 && stage < p->stages && p->schedule->rank_of_stage[stage] == p->rank;
}

/* What calls back for a stage and microbatch. */
static inline bool ki_pipe_is_call(kith_action_type type)
{
    return ki_action_is_compute(type) || type == KITH_ACTION_RECOMPUTE || type == KITH_ACTION_LOAD_INPUT ||
           type == KITH_ACTION_LOAD_TARGET;
}

/* The buffer that a computation fills: between which stage and the next it lies; -1: none. */
static inline int ki_pipe_fills(const kith_pipeline *p, const kith_action *a)
{
    if (a->type == KITH_ACTION_F)
        return a->stage + 1 < p->stages ? a->stage : -1;
    return a->type == KITH_ACTION_B || a->type == KITH_ACTION_I ? a->stage - 1 : -1;
}

/* An F and the B behind it that the plan wants as one. */
static inline bool ki_pipe_is_paired(const kith_pipeline *p, size_t at)
{
    return p->actions[at].is_overlapped && at + 1 < p->action_count;
}

#endif
