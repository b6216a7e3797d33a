/* layers/optim/optim.h - what an optimizer is inside; shared by the files of this folder alone.
 *
 *     optim.c       create and destroy; options; small questions
 *     agreement.c   are options and parameters the same on all ranks
 *     buckets.c     which block is in which bucket; moving them there
 *     state.c       moments and masters, for all of a bucket or for a shard; pieces; runs of equal decay
 *     step.c        begin, and the end of a step: sums, norm, clipping
 *     reduce.c      gradients that become complete; buckets that travel while backward computes
 *     update.c      new weights; gathering them
 *     print.c       the table of parameters; the hash of values
 *     rate.c        learning rates, loss scaling: pure functions
 *
 * A bucket's memory holds blocks (layers.h) one after the other, each on a cache line; what is between them, and behind
 * the last so that the ranks' shards are equal, is zero and stays zero: its gradients are.
 *
 *     bucket    | block 9 . | block 8 | block 7 ... |       values T, gradients A, of the layers' memory
 *     shards    |  rank 0      |  rank 1      |             bounds do not care where parameters end
 *     moments                  |  m, v, master |            of the own shard, of this optimizer's memory
 *
 * The norm is summed by shards even where every rank has all gradients: it is less work, and it makes the sharded
 * optimizer and the whole one form the same sums, so that clipping gives the same bits.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_LAYERS_OPTIM_H
#define KI_LAYERS_OPTIM_H

#include "layers/layers.h"
#include <kith/optim.h>

/* A block's place in a bucket. */
typedef struct ki_place {
    ki_block *block;
    int64_t first; /* element of the bucket */
    size_t bucket;
} ki_place;

/* Neighbours in a bucket that one call of a kernel updates. */
typedef struct ki_run {
    int64_t first, count;
    bool has_decay;
} ki_run;

typedef struct ki_bucket {
    ki_comm data;     /* the ranks that have other summands of its gradients */
    ki_place *places; /* [place_count] */
    size_t place_count;
    const kith_param **params; /* [param_count] */
    size_t param_count;
    ki_home *home;
    int64_t elements;                 /* a multiple of what all shards are made of */
    int64_t shard_first, shard_count; /* this rank's, with and without is_sharded */
    int64_t state_first, state_count; /* what this rank updates: the shard, or all */
    void *m, *v, *master;             /* A, [state_count]; NULL: none */
    ki_run *runs;                     /* [run_count], in what this rank updates */
    size_t run_count;
    kith_request *request; /* reducing, then gathering */
    size_t missing;        /* blocks whose gradients are not complete */
    bool is_late, is_expert, was_early;
    int64_t reduce_ns[2], gather_ns[2]; /* start and end in the last step; 0: there was none */
    size_t number;                      /* among those of the same ranks: others' experts may be in other buckets */
} ki_bucket;

/* Where in a step. */
typedef enum ki_optim_stage { KI_OPTIM_IDLE, KI_OPTIM_BEGUN, KI_OPTIM_REDUCED } ki_optim_stage;

struct kith_optim {
    kith_layers *layers;
    kith_optim_options options;
    ki_comm data, expert_data, all;
    ki_bucket *buckets; /* [bucket_count], in the order in which they travel; late ones last */
    size_t bucket_count;
    ki_place *places; /* of all buckets, one after the other */
    size_t place_count;
    const kith_param **params; /* likewise */
    size_t param_count;        /* of the layers, when this was made */
    ki_run *runs;              /* likewise */
    kith_optim_piece *pieces;  /* [piece_count] */
    size_t piece_count;
    uint64_t memory_nbytes;
    ki_optim_stage stage;
    int microbatches;
    size_t next;         /* bucket to start */
    size_t oldest;       /* bucket that was started and may not have arrived; next: all have */
    kith_status failure; /* of a collective, while backward ran */
    bool is_spoiled;     /* gradients were zeroed while some travelled */
    double norm;
    double reduce_wait_s;
    int64_t steps; /* updates that were made */
    kith_optim_traffic traffic;
};

/* ---- buckets.c ---- */

/* Deals the blocks of all parameters to buckets and moves them there. What was moved stays when it fails, which nobody
 * can tell. */
kith_status ki_optim_make_buckets(kith_optim *optim);
/* Blocks belong to no bucket any more; their memory stays. */
void ki_optim_leave_buckets(kith_optim *optim);
static inline ki_bucket *ki_optim_bucket_of(const ki_block *block)
{
    return (ki_bucket *)block->bucket;
}
/* Element of its bucket at which a parameter begins. */
static inline int64_t ki_optim_first_of(const ki_param *param)
{
    return param->block->bucket_first + param->first;
}
/* Elements [*first, *first + count) of what both ranges have; 0 when that is nothing. */
int64_t ki_optim_overlap(int64_t first_a, int64_t count_a, int64_t first_b, int64_t count_b, int64_t *first);

/* ---- state.c ---- */

kith_status ki_optim_make_state(kith_optim *optim);
void ki_optim_free_state(kith_optim *optim);

/* Elements of a bucket's values, gradients, or of state (whose first element is that of what this rank updates), as one
 * row. */
ki_mat ki_optim_values(const kith_optim *optim, const ki_bucket *bucket, int64_t first, int64_t count);
ki_mat ki_optim_grads(const kith_optim *optim, const ki_bucket *bucket, int64_t first, int64_t count);
ki_mat ki_optim_state(const kith_optim *optim, const ki_bucket *bucket, void *state, int64_t first, int64_t count);

/* ---- agreement.c ---- */

/* One status for all ranks of `all`; when nobody has failed, the same options on all and the same parameters on those
 * that reduce them together. */
kith_status ki_optim_agree(kith_optim *optim, kith_status mine);

/* ---- reduce.c ---- */

/* The hooks of the layers. */
void ki_optim_grad_added(void *optim, ki_block *block);
void ki_optim_grads_zeroed(void *optim);
/* Starts what has not been started, up to bucket `end`. */
kith_status ki_optim_start_until(kith_optim *optim, size_t end);
/* Waits for all that was started. */
kith_status ki_optim_wait_reduced(kith_optim *optim);
/* A step that was given up: all ranks bring what any of them may have begun to its end. */
kith_status ki_optim_settle(kith_optim *optim);
/* KITH_ERR_INVALID_ARG names gradients that are not complete. */
kith_status ki_optim_check_complete(const kith_optim *optim);

/* ---- update.c ---- */

kith_status ki_optim_update_all(kith_optim *optim, double learning_rate, double grad_scale);
kith_status ki_optim_gather_all(kith_optim *optim);

#endif
