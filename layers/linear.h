/* layers/linear.h - what a linear layer is inside; shared by linear*.c alone.
 *
 *     linear.c             creation: who has which features
 *     linear_forward.c     y = x W^T + b, and the collectives around it
 *     linear_backward.c    dx = dy W, dW += dy^T x, db += dy, and what overlaps with what
 *
 * W is [out, in] as everywhere in this field, this rank's part of it. The parts of a column-parallel layer are rows of
 * one matrix, so one GEMM serves them all.
 *
 *     kind     with sequence parallelism        x on a rank         y on a rank        forward    backward
 *     COLUMN   no, or is_inside                 [tokens, in]        [tokens, out/t]    -          all_reduce dx
 *     COLUMN   yes                              [tokens/t, in]      [tokens, out/t]    all_gather reduce_scatter dx,
 *                                                                                                 all_gather x again
 *     ROW      no, or is_inside                 [tokens, in/t]      [tokens, out]      all_reduce -
 *     ROW      yes                              [tokens, in/t]      [tokens/t, out]    reduce_scatter  all_gather dy
 *     WHOLE    either                           [rows, in]          [rows, out]        -          -
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_LAYERS_LINEAR_H
#define KI_LAYERS_LINEAR_H

#include "layers.h"

typedef struct ki_linear_share {
    int64_t first, count; /* units of this rank */
    int64_t first_feature, features;
    kith_param *weight, *bias;
} ki_linear_share;

struct kith_linear {
    kith_layers *layers;
    const char *name;
    kith_linear_options options;
    ki_linear_share shares[KITH_LINEAR_PARTS];
    int share_count;
    bool is_sequence_split;          /* x of COLUMN, y of ROW, x and y of WHOLE are shards of the sequence */
    int64_t in, out;                 /* of this rank */
    int64_t first_in;                /* ROW: this rank's first input feature */
    kith_tensor weight, weight_grad; /* [out, in] */
    kith_tensor bias, bias_grad;     /* [out]; dim_count 0: none */
    ki_block *weight_block, *bias_block;
};

/* What x, y and dy, dx must be. (linear_forward.c) */
ki_expected ki_linear_input(const kith_linear *linear, const kith_tape *tape);
ki_expected ki_linear_output(const kith_linear *linear, const kith_tape *tape);

#endif
