/* kith/optim.h - from gradients to new weights: sums over data-parallel ranks while backward still runs, the global
 * norm, AdamW or SGD, whole or sharded (ZeRO-1).
 *
 *     kith_optim_options o = KITH_OPTIM_OPTIONS_INIT;
 *     o.data = kith_mesh_group(mesh, "dp");
 *     o.all = kith_world(ctx);
 *     o.is_sharded = 1;
 *     kith_optim *optim;
 *     kith_optim_create(layers, &o, &optim);                  // after all layers, before the first microbatch
 *     for (int64_t step = 0; step < steps; step++) {
 *         kith_optim_begin(optim, microbatches);              // gradients are zero
 *         ... forward and backward of each microbatch ...     // buckets travel as soon as they are complete
 *         kith_optim_result result;
 *         kith_optim_step(optim, kith_rate_at(&rate, step), &result);
 *     }
 *     kith_optim_destroy(optim);                              // before the layers
 *
 * What it is made on. All parameters of a kith_layers (kith_param says of each what it is of the whole). Creation moves
 * values and gradients into buckets: runs of memory that are reduced, updated and gathered as one. The addresses in
 * kith_param.value and .grad change then, so take them afterwards. Layers compute the same bits as before.
 *
 * Buckets. Parameters in the reverse order of their creation, which is about the order in which backward completes
 * them; a bucket is full when it has bucket_nbytes or more of gradients. A gradient is complete when the last of the
 * microbatches that kith_optim_begin() announced has added to it, each as often as there are layers that use the
 * parameter: twice where a head of the same kith_layers has the embedding's weight. Its bucket starts to travel when
 * all in it are complete, in the order of the buckets, the same on all ranks. What travels moves on while layers
 * compute. Three sorts of gradients have buckets of their own: those of experts, which other ranks share; those that
 * are summands over tp (kith_param.is_grad_partial) and the tied weight of two stages, which are summed there first and
 * travel at the end. Parameters that are computed together (q, k and v) stay together.
 *
 * Sums, not means: loss gradients are scaled by 1 / (tokens of the whole step), on all ranks alike, so the sum over
 * ranks with other data is the gradient of the mean.
 *
 * When a step is wrong on one rank - a layer that was not used, weights that were put off and forgotten, a rate that is
 * not finite - that rank still takes part in all of the step's collectives, and all ranks get its error: nobody hangs
 * and nothing is updated. A failure of a collective ends the group, as everywhere. One thread at a time, the one of the
 * layers.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KITH_OPTIM_H
#define KITH_OPTIM_H

#include <kith/layers.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- the optimizer ---- */

typedef enum kith_optim_kind {
    KITH_ADAMW, /* Loshchilov and Hutter 2019: decoupled weight decay, bias-corrected moments */
    KITH_SGD    /* m = momentum * m + g + decay * w; w -= rate * m */
} kith_optim_kind;

/* "adamw", "sgd"; NULL past the end. */
KITH_API const char *kith_optim_kind_name(kith_optim_kind kind);

/* Fill with KITH_OPTIM_OPTIONS_INIT: AdamW with 0.9, 0.999, 1e-8, no decay, no clipping, buckets of 25 MiB. The same on
 * all ranks but for the groups and tied. */
typedef struct kith_optim_options {
    size_t struct_size;
    kith_optim_kind kind;
    double beta1, beta2, epsilon; /* AdamW; epsilon must be positive */
    double momentum;              /* SGD; 0: no memory is kept */
    double weight_decay;          /* of matrices (kith_param.is_matrix) ... */
    int decays_all;               /* ... 1: of biases and norms, too */
    double clip_norm;             /* gradients are scaled down to this global norm; 0: they are not */
    kith_group *data;             /* ranks with the same parts of the parameters and other data; NULL: this one alone */
    kith_group *expert_data;      /* the same for experts: those of data outside of ep; NULL: data where ep is one rank,
                                     else this rank alone */
    kith_group *all;        /* all ranks that train the model, over which the norm is summed; NULL: the layers' tp,
                                     or data where that is one rank: then one of the two must be, and there are no other
                                     stages */
    kith_param *tied;       /* the copy of a weight that another stage has, too (kith_param_tie()); NULL: none */
    kith_group *tied_group; /* the ranks with its copies */
    int is_sharded;         /* ZeRO-1: each rank of data keeps and updates a part of every bucket: reduce-scatter,
                                     update, all-gather. Results are those of the whole optimizer, to the bit where sums
                                     are formed in the same order (deterministic groups) */
    size_t bucket_nbytes;
    int allows_unused; /* 1: a gradient that no microbatch added to is zero; 0: it is an error */
    int is_deferred;   /* 1: nothing travels before kith_optim_step(), for comparison */
} kith_optim_options;

#define KITH_OPTIM_OPTIONS_INIT                                                                                        \
    {                                                                                                                  \
        sizeof(kith_optim_options), KITH_ADAMW, 0.9, 0.999, 1e-8, 0, 0, 0, 0, NULL, NULL, NULL, NULL, NULL, 0,         \
            (size_t)25 << 20, 0, 0                                                                                     \
    }

typedef struct kith_optim kith_optim;

/* KITH_ERR_INVALID_ARG says which option is out of its range, or that data is not ep times expert_data;
 * KITH_ERR_MISMATCH which option differs between ranks, or which parameter between those that sum it. KITH_ERR_BUSY:
 * a tape of the layers holds something, or they have an optimizer. Weights in bf16 and f16 get a master copy in f32,
 * from their present values (kith_optim_reset_masters()). Collective over all its groups and the layers' tp, blocks;
 * all ranks get the same status. In a dry run of layers memory is counted, a step computes and sends nothing, and
 * there are no groups. */
KITH_API kith_status kith_optim_create(kith_layers *layers, const kith_optim_options *options, kith_optim **optim);

/* Parameters stay where they are, with the layers, which must be there. NULL is fine. Local; in the middle of a step it
 * first does what kith_optim_begin() does with a step that was given up. */
KITH_API void kith_optim_destroy(kith_optim *optim);

/* The beginning of a step: zeroes gradients and says how often backward will come by each parameter (microbatches, >=
 * 1). KITH_ERR_INVALID_ARG when layers have got parameters since creation. Local; but a step that was given up may be
 * begun again by all ranks of data together, whatever each of them had done of it: what travels is brought to its end,
 * which blocks. */
KITH_API kith_status kith_optim_begin(kith_optim *optim, int microbatches);

typedef struct kith_optim_result {
    double grad_norm;     /* of the whole model's gradient, before clipping, each element counted once */
    double clip_factor;   /* 1, or clip_norm / grad_norm */
    int is_skipped;       /* 1: the norm is not finite, and nothing was updated */
    int64_t step;         /* updates that were made, this one included */
    double reduce_wait_s; /* how long the step waited for sums over data: what backward did not hide; for those over tp
                             and stages see kith_layers_get_axis_traffic() */
    double gather_wait_s; /* and for new weights of other ranks */
} kith_optim_result;

/* The end of a step: sums summands over tp (kith_layers_finish_grads(), unless the caller has), copies of the tied
 * weight, then what is left over data; norm, clipping, update, and with shards the gathering of the new weights.
 * KITH_ERR_INVALID_ARG names the gradients that nobody added to (unless allows_unused), or that were added to more or
 * less often than announced; nothing is updated then, on any rank. result may be NULL. Collective over all, blocks. */
KITH_API kith_status kith_optim_step(kith_optim *optim, double learning_rate, kith_optim_result *result);

/* The two halves of it, for trainers that look at gradients in between (loss scaling, their own clipping). reduce:
 * until all sums are there and the norm is known. update: grad_scale multiplies gradients first, then they are clipped,
 * and result->grad_norm is that of the scaled ones; it must be the same on all ranks. With shards kith_param.grad holds
 * the sum in this rank's part of the bucket only. */
KITH_API kith_status kith_optim_reduce(kith_optim *optim, double *grad_norm);
KITH_API kith_status kith_optim_update(kith_optim *optim, double learning_rate, double grad_scale,
                                       kith_optim_result *result);

/* How many updates were made, which AdamW's bias corrections need; set when training goes on from a checkpoint. */
KITH_API int64_t kith_optim_steps(const kith_optim *optim);
KITH_API kith_status kith_optim_set_steps(kith_optim *optim, int64_t steps);
/* Masters take the present values: after the caller changed them (kith_param_load() after creation). Local. */
KITH_API kith_status kith_optim_reset_masters(kith_optim *optim);

/* What is kept besides weights: one piece for each parameter (or part of it, with shards) and kind of state. */
typedef struct kith_optim_piece {
    const char *state; /* "m", "v", "master" */
    kith_param *param;
    int64_t first; /* elements [first, first + count) of the parameter's part on this rank, row by row */
    int64_t count;
    void *data;       /* [count], changed in place by whoever loads a checkpoint; NULL in dry runs */
    kith_dtype dtype; /* of gradients: f64 with f64, else f32 */
    int is_counted;   /* 1 on one of the ranks that have this piece */
} kith_optim_piece;

/* Pieces of this rank, in the order of parameters and states. Borrowed: lives as long as the optimizer. */
KITH_API size_t kith_optim_piece_count(const kith_optim *optim);
KITH_API kith_status kith_optim_get_piece(const kith_optim *optim, size_t index, kith_optim_piece *piece);

/* A bucket, for reports and tests. */
typedef struct kith_optim_bucket {
    size_t param_count;
    const kith_param *const *params;  /* [param_count], as they lie in it: about as backward completes them */
    int64_t elements;                 /* of this rank's gradients, with what aligns them and makes shards equal */
    int64_t shard_first, shard_count; /* of them, what this rank updates; all without shards */
    int is_late;                      /* travels at the end of a step only */
    int is_expert;
    int was_early; /* in the last step it was started before kith_optim_step() */
    /* Of the last step, on CLOCK_MONOTONIC: when it was started, and when this rank saw that it had ended; 0: it was
     * not made (one rank, no shards, a skipped step). */
    int64_t reduce_start_ns, reduce_end_ns, gather_start_ns, gather_end_ns;
} kith_optim_bucket;
KITH_API size_t kith_optim_bucket_count(const kith_optim *optim);
KITH_API kith_status kith_optim_get_bucket(const kith_optim *optim, size_t index, kith_optim_bucket *bucket);

/* Communication over data and expert_data since the last reset; over one rank there is none. Bytes as in
 * kith_layers_traffic: of the whole bucket. */
typedef struct kith_optim_traffic {
    uint64_t all_reduces, all_reduce_nbytes;
    uint64_t reduce_scatters, reduce_scatter_nbytes;
    uint64_t all_gathers, all_gather_nbytes;
} kith_optim_traffic;
KITH_API void kith_optim_get_traffic(const kith_optim *optim, kith_optim_traffic *traffic);
KITH_API void kith_optim_reset_traffic(kith_optim *optim);
/* Bytes of moments and masters on this rank. */
KITH_API uint64_t kith_optim_memory(const kith_optim *optim);

/* A number that is the same on ranks whose values are the same to the bit: of all values of this rank's parameters,
 * with their names and places. Data-parallel replicas have equal ones. */
KITH_API uint64_t kith_layers_hash_values(const kith_layers *layers);

/* Table of all parameters with shape, split, range, copies, sums and bucket (optim may be NULL). Caller's: kith_free().
 * Local. */
KITH_API kith_status kith_layers_print_params(const kith_layers *layers, const kith_optim *optim, char **text);

/* ---- learning rates ---- */

typedef enum kith_rate_kind { KITH_RATE_CONSTANT, KITH_RATE_LINEAR, KITH_RATE_COSINE } kith_rate_kind;
KITH_API const char *kith_rate_kind_name(kith_rate_kind kind); /* "constant", "linear", "cosine"; NULL past the end */

typedef struct kith_rate {
    kith_rate_kind kind;
    double peak, minimum;
    int64_t warmup; /* steps: at step s < warmup the rate is peak * (s + 1) / warmup */
    int64_t steps;  /* from peak at the end of the warm-up to minimum at this step, and minimum after it */
} kith_rate;

/* step counts from 0. cosine: minimum + (peak - minimum) / 2 * (1 + cos(pi * share)). NaN for NULL or a negative
 * step. */
KITH_API double kith_rate_at(const kith_rate *rate, int64_t step);

/* ---- dynamic loss scaling ---- */

/* The loss gradient is multiplied by scale, and gradients by 1 / scale before they are used; a step whose norm is not
 * finite is skipped and the scale is halved, down to 1; after growth_interval good steps in a row it is doubled.
 * Micikevicius and others 2018, as PyTorch's GradScaler has it. Pure: the norm is the same on all ranks, so all scale
 * alike. */
typedef struct kith_loss_scale {
    double scale;
    double growth, backoff;  /* 2, 0.5 */
    int64_t growth_interval; /* 2000 */
    int64_t good_steps;      /* since the last change */
} kith_loss_scale;

#define KITH_LOSS_SCALE_INIT                                                                                           \
    {                                                                                                                  \
        65536, 2, 0.5, 2000, 0                                                                                         \
    }

/* Returns 1 when the step is to be made, 0 when it is to be skipped. */
KITH_API int kith_loss_scale_update(kith_loss_scale *scale, double grad_norm);

#ifdef __cplusplus
}
#endif
#endif
