/* layers/transformer.h - what a transformer is inside; shared by transformer*.c alone.
 *
 *     transformer.c             creation: embedding, blocks, last norm, head; starting values
 *     transformer_agree.c       the same on all ranks
 *     transformer_config.c      the families, and what a configuration may say
 *     transformer_forward.c     ids to losses, and back
 *     transformer_recompute.c   runs of blocks that are computed again
 *
 * Blocks go in runs. Without full recomputation there is one run of all blocks, and its backward finds everything on
 * the tape. With it, forward drops what a run's blocks left and keeps the run's input; backward computes the run
 * again, this time keeping everything, and then goes back through it. Dropout is keyed by coordinates, so the second
 * time is the same to the bit.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_LAYERS_TRANSFORMER_H
#define KI_LAYERS_TRANSFORMER_H

#include "block.h"

struct kith_transformer {
    kith_layers *layers;
    kith_transformer_options options; /* config: the one below */
    kith_transformer_config config;
    size_t first_param, end_param; /* its own among those of layers: [first_param, end_param) */
    kith_embedding *embedding;     /* NULL: not of this stage */
    kith_block **blocks;           /* [block_count] */
    int64_t block_count;
    kith_norm *norm;
    kith_head *head;
    int64_t run; /* blocks of a run; 0: no full recomputation */
};

/* KITH_ERR_INVALID_ARG says which value is wrong and which are right. (transformer_config.c) */
kith_status ki_transformer_check(const kith_transformer_options *options, const kith_transformer_config *config);

/* One status for all ranks of tp and ep; KITH_ERR_MISMATCH names what they have different values of.
 * (transformer_agree.c) */
kith_status ki_transformer_agree(const kith_layers *layers, const kith_transformer_options *options,
                                 const kith_transformer_config *config, kith_status status);

/* Blocks [first, first + count) forward; y is a new reference. (transformer_recompute.c) */
kith_status ki_transformer_blocks_forward(kith_transformer *transformer, kith_tape *tape, const kith_tensor *x,
                                          kith_tensor *y, kith_transformer_loss *loss);
kith_status ki_transformer_blocks_backward(kith_transformer *transformer, kith_tape *tape, const kith_tensor *dy,
                                           double auxiliary_scale, kith_tensor *dx);

#endif
