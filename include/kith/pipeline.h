/* kith/pipeline.h - runs a pipeline plan over a group: the trainer computes, this moves.
 *
 *     kith_schedule *plan, *lowered;
 *     kith_schedule_create(&schedule_options, &plan);
 *     kith_schedule_lower(plan, NULL, &lowered);
 *     kith_pipeline_options o = KITH_PIPELINE_OPTIONS_INIT;
 *     o.message_nbytes = batch * hidden * sizeof(float);
 *     kith_pipeline *pipeline;
 *     kith_pipeline_create(lowered, group, &callbacks, &o, &pipeline);
 *     for (int step = 0; step < steps; step++)
 *         if (kith_pipeline_step(pipeline) != KITH_OK) break;
 *     kith_pipeline_destroy(pipeline);
 *
 * Rank r of the group is rank r of the plan. The pipeline calls back for every action of its rank, on the thread that
 * called kith_pipeline_step(), in the order of the plan. It owns the buffers of activations and gradients between
 * stages, takes them from pools that are made at creation and never grow, posts receives before they are needed and
 * sends without waiting. Messages carry stage, microbatch and direction in their tag, and size and shape of what they
 * bring, so both may change from one microbatch to the next.
 *
 * Who moves messages. There is no thread behind this. A small message is on its way when it is sent; a large one moves
 * while both ranks are in the library: between actions, while one waits, or in kith_progress(). So a callback that
 * computes for long should call kith_progress() now and then - between layers, say - on the context of the group, from
 * its own thread; a sender that waits for its receiver then finds it. It may be called in every callback. Without it
 * the step comes out the same, and large messages are not hidden behind computation.
 *
 * When something fails. A callback that returns a failure ends the step on all ranks of the pipeline (and of dp_group)
 * with one status, the lowest, and one sentence: which world rank failed (the lowest of those with that status), in
 * which callback, stage and microbatch, and the library's sentence when the callback failed in the library and returned
 * what it got. The rank that failed goes through the rest of its list
 * without computing, its messages say that they are empty, and the ranks that get them do the same; so all messages
 * still match, no optimizer step is taken, and the group can be used for the next step. An optimizer step that fails
 * on some rank is told to all, but the others have taken theirs.
 *
 * When the group itself fails (a peer died, a deadline passed, abort), the step ends with that status and the pipeline
 * can only be destroyed. group and dp_group are aborted then, if they still work, so that nobody waits for this rank:
 * others may see KITH_ERR_ABORTED. Deadlines count from the start of a message, which may be early, so the group's
 * should be longer than a step.
 *
 * While a step runs the pipeline uses the tags 0 .. 2 * stages * microbatches - 1 of the group. One thread at a
 * time. The plan, the groups and what the options point to must live as long as the pipeline. Several pipelines over
 * one group are fine, one step after the other.
 *
 * On a device (options.device) tags go up to 4 * stages * microbatches - 1; kith_pipeline_step() returns when all is
 * ordered in the stream, not when it has run, unless a callback waits for it; and times are those at which the host put
 * work there.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KITH_PIPELINE_H
#define KITH_PIPELINE_H

#include <kith/device.h>
#include <kith/dtype.h>
#include <kith/group.h>
#include <kith/op.h>
#include <kith/schedule.h>

#ifdef __cplusplus
extern "C" {
#endif

#define KITH_SHAPE_DIMS 6

/* An activation, or its gradient, between two stages. */
typedef struct kith_pipeline_buffer {
    void *data;                     /* aligned to 64 bytes */
    size_t capacity_nbytes;         /* what fits */
    size_t nbytes;                  /* what is in it; whoever fills it may lower it (capacity_nbytes when it comes) */
    int dim_count;                  /* 0: no shape was announced */
    int64_t shape[KITH_SHAPE_DIMS]; /* free for the trainer; travels with the message */
} kith_pipeline_buffer;

/* One thing to compute. */
typedef struct kith_stage_call {
    kith_action_type type; /* F, B, I, W, RECOMPUTE, LOAD_INPUT, LOAD_TARGET */
    int stage, chunk, microbatch;
    int is_first, is_last; /* stage of the model */
    int slot; /* where to keep what F saves for B, or for I and W: 0 .. kith_pipeline_slots(stage) - 1; the same in all
               * calls for this stage and microbatch, LOAD_INPUT to W, and free again after the last */
    const kith_pipeline_buffer *input; /* from the stage before; NULL on the first. Stays until the last call for this
                                        * stage and microbatch */
    kith_pipeline_buffer *output;      /* F: to be filled; NULL on the last stage, and in RECOMPUTE. Gone after F */
    const kith_pipeline_buffer *output_grad; /* B, I, W: from the stage after; NULL on the last. Stays as input does */
    kith_pipeline_buffer *input_grad;        /* B, I: to be filled; NULL on the first stage */
    void *const *grads; /* with is_ordered, in B and W: [buckets of this stage, in the order of the options] write this
                         * microbatch's gradient there (it is zero before); else NULL: add to your own, as for a stage
                         * without buckets */
} kith_stage_call;

/* What the trainer brings. Fill with KITH_PIPELINE_CALLBACKS_INIT. Each returns KITH_OK or why not. Those marked
 * with * may be NULL. Callbacks must not use the pipeline; kith_progress() is welcome in long ones. Collectives on
 * other groups are fine when all ranks make them alike, in callbacks where no rank waits for what another one computes:
 * zero_grad, reduce, reduce_finish, shard, optimizer_step. */
typedef struct kith_pipeline_callbacks {
    size_t struct_size;
    void *user;                                                                 /* first argument of each */
    kith_status (*load)(void *user, const kith_stage_call *call);               /* * LOAD_INPUT, LOAD_TARGET */
    kith_status (*forward)(void *user, const kith_stage_call *call);            /* F */
    kith_status (*loss)(void *user, const kith_stage_call *call, double *loss); /* * after F of the last stage */
    kith_status (*backward)(void *user, const kith_stage_call *call);           /* B, I, W; * in forward-only plans */
    kith_status (*recompute)(void *user, const kith_stage_call *call); /* * RECOMPUTE; NULL: forward is called */
    kith_status (*overlapped)(void *user, const kith_stage_call *forward,
                              const kith_stage_call *backward); /* * an overlapped pair; NULL: forward, then backward */
    kith_status (*zero_grad)(void *user);                       /* * */
    kith_status (*reduce)(void *user, int stage); /* * REDUCE_GRAD: start a reduction of your own (sharded optimizers);
                                                   * called even when the step has failed, as other ranks take part */
    kith_status (*reduce_finish)(void *user);     /* * and end all of them, where there was any; likewise */
    kith_status (*shard)(void *user, int stage, int is_gathered); /* * UNSHARD (1) and RESHARD (0); likewise */
    kith_status (*optimizer_step)(void *user);                    /* * only when nothing failed on any rank */
} kith_pipeline_callbacks;

#define KITH_PIPELINE_CALLBACKS_INIT                                                                                   \
    {                                                                                                                  \
        sizeof(kith_pipeline_callbacks), NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL        \
    }

/* Gradients that are reduced together. */
typedef struct kith_grad_bucket {
    int stage;
    void *grad; /* [count]; the trainer's */
    size_t count;
    kith_dtype dtype;
} kith_grad_bucket;

/* Fill with KITH_PIPELINE_OPTIONS_INIT. All ranks pass the same but for grads, groups, and what is a rank's own:
 * prefetch, is_poisoned, keeps_times. */
typedef struct kith_pipeline_options {
    size_t struct_size;
    size_t message_nbytes;           /* the most that one activation or gradient between stages takes */
    const size_t *message_nbytes_of; /* [stages - 1], the same for each boundary; NULL: message_nbytes */
    const kith_grad_bucket *buckets; /* [bucket_count] of this rank's stages, reduced over dp_group from the
                                          * REDUCE_GRAD of their stage on */
    size_t bucket_count;
    kith_group *dp_group;         /* ranks with the same stages and other data; NULL: gradients stay */
    kith_op dp_op;                /* 0: KITH_SUM, for a loss that is normalised by the global batch */
    const kith_grad_bucket *tied; /* gradient of a weight that first and last stage share, on the ranks of these
                                          * two: summed over both at REDUCE_TIED; NULL on the others. For the reduction
                                          * over dp_group it is one of the buckets too; that one goes last */
    int is_ordered;  /* 1: gradients of microbatches are added here, in their order, so that all plans give the same
                       * bits; costs a buffer for each microbatch that comes out of turn. Buckets are f32 or f64 */
    int prefetch;    /* messages of each sort (receive or send, up or down) for which there is a buffer beyond what the
                       * plan itself needs: receives before their turn, sends that still travel after theirs; 0: 1 */
    int is_poisoned; /* 1: buffers are filled with NaN when they are released, so also before they are received into */
    int shares_loss; /* 1: all ranks learn the losses at the end of a step; 0: only the last stage's */
    int keeps_times; /* 1: kith_pipeline_intervals() has the last step */
    kith_device *device; /* buffers between stages are memory of this device, and so must grads be; NULL: of the host.
                          * On all ranks or on none. Not with is_ordered */
    kith_stream
        *stream; /* with device: what callbacks compute in. Inputs are ordered before what a callback puts there,
                          * and outputs are taken to be ready when that is done; hosts do not wait for it. The stream of
                          * group and dp_group from then on (kith_group_set_stream()) */
} kith_pipeline_options;

#define KITH_PIPELINE_OPTIONS_INIT                                                                                     \
    {                                                                                                                  \
        sizeof(kith_pipeline_options), 0, NULL, NULL, 0, NULL, KITH_SUM, NULL, 0, 0, 0, 0, 0, NULL, NULL               \
    }

typedef struct kith_pipeline kith_pipeline;

/* Collective over group, and over dp_group where there is one, blocks; all ranks get the same status and the same
 * sentence, which names the world rank that failed. The plan is lowered when it is computation alone, and checked
 * (kith_schedule_check()). A plan that has messages, and none of LOAD_INPUT, LOAD_TARGET, ZERO_GRAD, REDUCE_TIED and
 * OPTIMIZER_STEP - files of PyTorch have no words for them - gets loads, zeroing and step where
 * kith_schedule_lower() puts them, and REDUCE_GRAD if it has none; kith_pipeline_schedule() has the result. A plan with
 * some of them is run as it is, so callbacks for the others are not called.
 *
 * KITH_ERR_INVALID_ARG: callbacks missing, more tags than messages can have (2 * stages * microbatches above
 * KITH_TAG_MAX + 1), a bucket of a stage elsewhere or one that the plan never reduces, a plan with OPTIMIZER_STEP on
 * some ranks alone, dp_op that is no operator, dp_group with two ranks of the pipeline, pipeline NULL.
 * KITH_ERR_UNSUPPORTED: dp_op on a dtype of the buckets. KITH_ERR_MISMATCH: ranks with different plans, message sizes
 * or options, premul_sum with different scalars, tied weights of different counts or dtypes, replicas with different
 * buckets. options NULL: the INIT values. Only ranks that were given a dp_group can be met there: when a whole pipeline
 * comes without it, or one rank of a pipeline, its replicas wait for it until their deadline. */
KITH_API kith_status kith_pipeline_create(const kith_schedule *schedule, kith_group *group,
                                          const kith_pipeline_callbacks *callbacks,
                                          const kith_pipeline_options *options, kith_pipeline **pipeline);

/* One step. Collective, blocks. */
KITH_API kith_status kith_pipeline_step(kith_pipeline *pipeline);

/* Frees it; local. NULL is fine. */
KITH_API void kith_pipeline_destroy(kith_pipeline *pipeline);

/* Create, one step, destroy. */
KITH_API kith_status kith_schedule_run(const kith_schedule *schedule, kith_group *group,
                                       const kith_pipeline_callbacks *callbacks, const kith_pipeline_options *options);

/* Slots that a stage of this rank needs: how many microbatches it holds at once; 0 for stages of other ranks. */
KITH_API int kith_pipeline_slots(const kith_pipeline *pipeline, int stage);

/* Loss of a microbatch in the last step that succeeded. KITH_ERR_INVALID_ARG where it is not known: no loss callback, a
 * rank without the last stage when shares_loss is 0, no such microbatch, no step yet. */
KITH_API kith_status kith_pipeline_loss(const kith_pipeline *pipeline, int microbatch, double *loss);

/* What the last step did on this rank. */
typedef struct kith_pipeline_stats {
    int64_t step_ns, compute_ns; /* in all; inside callbacks that compute */
    int in_flight;               /* most (stage, microbatch) pairs between F and the end of B or I */
    size_t live_nbytes;          /* most bytes that inputs of stages held, from F to their release after B or W */
    size_t pool_nbytes;          /* bytes of all buffers of the pipeline; the same in every step */
    uint64_t sent_count, sent_nbytes, received_count; /* messages; bytes without their headers */
} kith_pipeline_stats;
KITH_API kith_status kith_pipeline_last_stats(const kith_pipeline *pipeline, kith_pipeline_stats *stats);

/* Start and end of each action of this rank in the last step, in seconds since its start; *count of them, in the order
 * of the lowered plan. NULL without keeps_times. Borrowed until the next step. */
KITH_API const kith_interval *kith_pipeline_intervals(const kith_pipeline *pipeline, size_t *count);
/* The plan that it runs, lowered; borrowed. */
KITH_API const kith_schedule *kith_pipeline_schedule(const kith_pipeline *pipeline);

#ifdef __cplusplus
}
#endif
#endif
