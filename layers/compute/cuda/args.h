/* layers/compute/cuda/args.h - what kernels are given: one struct each, written by the functions of the table (C) and
 * read by the kernels (C++).
 *
 * Numbers are f64 here and become the type of the computation in the kernel, as they do in the host's loops.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_LAYERS_CUDA_ARGS_H
#define KI_LAYERS_CUDA_ARGS_H

#include "layers/compute/element.h"

/* Warps of a block whose warps have a row each (KI_EACH_ROW). */
enum { KI_ROW_WARPS = 4 };

/* elements.cu */

typedef struct ki_fill_args {
    ki_mat y;
    double value;
} ki_fill_args;

/* copy; add: y += alpha * x */
typedef struct ki_pair_args {
    ki_mat x, y;
    double alpha;
} ki_pair_args;

typedef struct ki_scale_args {
    ki_mat y;
    double alpha;
} ki_scale_args;

typedef struct ki_bias_args {
    ki_mat bias, y;
} ki_bias_args;

/* Sums of groups of KI_GROUP_ROWS rows of dy, a row of `sums` (A, dense) each; then grad[0, :] += these, in their
 * order. */
enum { KI_GROUP_ROWS = 32 };

typedef struct ki_group_args {
    ki_mat dy, sums;
} ki_group_args;

typedef struct ki_carry_args {
    ki_mat sums, grad;
} ki_carry_args;

/* activation.cu; bias.data, residual.data NULL: none */

typedef struct ki_activation_args {
    ki_mat x, bias, y;
    int kind;
} ki_activation_args;

typedef struct ki_activation_grad_args {
    ki_mat x, bias, dy, dx;
    int kind;
} ki_activation_grad_args;

typedef struct ki_gated_args {
    ki_mat gate, up, y;
    int kind;
} ki_gated_args;

typedef struct ki_gated_grad_args {
    ki_mat gate, up, dy, dgate, dup;
    int kind;
} ki_gated_grad_args;

typedef struct ki_dropout_args {
    ki_mat x, bias, residual, y;
    ki_dropout dropout;
} ki_dropout_args;

/* norm.cu; mean.data NULL: RMSNorm */

typedef struct ki_norm_args {
    ki_mat x, weight, bias, y, mean, rstd;
    double epsilon;
} ki_norm_args;

typedef struct ki_norm_grad_args {
    ki_mat x, weight, mean, rstd, dy, dx;
    ki_mat weight_sums, bias_sums; /* A, dense, a row for each group of KI_GROUP_ROWS rows; bias_sums.data NULL: none */
} ki_norm_grad_args;

/* loss.cu */

typedef struct ki_rows_args {
    ki_mat x, y; /* row_max: y is max */
} ki_rows_args;

typedef struct ki_softmax_grad_args {
    ki_mat y, dy, dx;
} ki_softmax_grad_args;

typedef struct ki_loss_sums_args {
    ki_mat logits, max, sums;
    const int32_t *targets;
    int64_t first;
} ki_loss_sums_args;

typedef struct ki_losses_args {
    ki_mat sums, losses;
    const int32_t *targets;
    int32_t ignored, has_smoothing;
    double of_target, of_all;
} ki_losses_args;

typedef struct ki_loss_grad_args {
    ki_mat logits, max, sums, dlogits;
    const int32_t *targets;
    int64_t first;
    int32_t ignored;
    double scale, of_target, of_all;
} ki_loss_grad_args;

/* rows.cu */

/* y[i] = weights[i] * x[rows[i] - first], 0 where there is no such row; rows NULL: i; weights.data NULL: 1 */
typedef struct ki_pick_args {
    const int32_t *rows;
    int64_t first;
    ki_mat weights, x, y;
} ki_pick_args;

/* Rows in the order of their destinations, and those of one destination in ascending order: sorted keys, of which the
 * upper half is the destination, `limit` where there is none, and the lower half the row. First each block's rows, then
 * sorted runs of `run` keys in pairs. */
typedef struct ki_order_args {
    const int32_t *rows;
    int64_t count, first, limit; /* destinations outside [first, first + limit) are none */
    uint64_t *keys;              /* [count] */
} ki_order_args;

typedef struct ki_merge_args {
    const uint64_t *from;
    uint64_t *to; /* [count] */
    int64_t count, run;
} ki_merge_args;

typedef struct ki_add_rows_args {
    const uint64_t *keys;
    ki_mat weights, x, y;
} ki_add_rows_args;

typedef struct ki_dots_args {
    ki_mat a, b, dots;
} ki_dots_args;

typedef struct ki_top_k_args {
    ki_mat x, values;
    int32_t *columns;
    int64_t k;
} ki_top_k_args;

/* What each of KI_CHECKERS threads saw of its ids. */
enum { KI_CHECKERS = 1024 };

typedef struct ki_ids_seen {
    int64_t counted, row;
} ki_ids_seen;

typedef struct ki_check_args {
    const int32_t *ids;
    int64_t rows, limit;
    int32_t ignored;
    ki_ids_seen *seen; /* [KI_CHECKERS] */
} ki_check_args;

/* parameters.cu */

typedef struct ki_normal_args {
    ki_mat y;
    uint64_t seed;
    int64_t first_row, first_col, global_cols;
    double deviation;
    uint32_t site;
} ki_normal_args;

/* Sums of the blocks of KI_SUM_BLOCK elements of each row, in f64: [rows, blocks of a row], dense. */
enum { KI_SUM_BLOCK = 512 };

typedef struct ki_sum_args {
    ki_mat x;
    double *sums;
    int64_t blocks;
    int32_t is_squares;
} ki_sum_args;

typedef struct ki_adamw_args {
    ki_mat grad, m, v, weight, stored;
    ki_adamw_step step;
} ki_adamw_args;

typedef struct ki_sgd_args {
    ki_mat grad, m, weight, stored;
    double rate, momentum, decay, grad_scale;
} ki_sgd_args;

/* attention.cu */

/* Cosines and sines [positions, 2 * half] (A) from those of SPAN * coarse and of fine (f64). */
enum { KI_ROTARY_SPAN = 32 };

typedef struct ki_angles_args {
    const double *coarse, *fine;
    void *angles;
    int64_t positions;
    int32_t half;
} ki_angles_args;

typedef struct ki_rotary_args {
    ki_mat x;
    const void *angles;
    int64_t batch;
    int32_t half, is_inverse;
} ki_rotary_args;

/* Scores of one sample's queries first_query .. + rows and keys first_key .. + cols, for all heads. Row r of head h is
 * row h * head_rows + r of each matrix here. */
typedef struct ki_scores {
    int64_t heads, rows, cols, head_rows;
    int64_t diagonal; /* row r sees the first diagonal + r * slope of these columns, if that many */
    int32_t slope;
    uint32_t first_key, first_query, sample, stream; /* coordinates of dropout; stream + h */
    ki_dropout dropout;                              /* probability 0: off */
} ki_scores;

/* Where the rows of a block are among tokens: row r is token (first + r) * batch + sample, head h in columns
 * h * head_dim and on. */
typedef struct ki_tokens {
    int64_t first, batch, sample, head_dim;
} ki_tokens;

/* Scores a thread of a warp holds: 512 columns at most. */
enum { KI_ATTEND_COLS = 512 };

typedef struct ki_attend_args {
    ki_scores block;
    ki_mat scores;        /* A */
    ki_mat probabilities; /* T, written; may be scores where T is A */
    ki_mat max, sum;      /* A, [heads * head_rows, 1] */
    ki_mat out;           /* A, [heads * head_rows, head_dim]: the weighted values so far */
    int32_t is_first;     /* there is nothing so far */
} ki_attend_args;

typedef struct ki_attend_end_args {
    ki_scores block;
    ki_tokens tokens;
    ki_mat max, sum, out; /* as above */
    ki_mat to, lse;       /* T; A */
    int32_t is_empty;     /* no query sees a key: nothing above was written */
} ki_attend_end_args;

typedef struct ki_attend_grad_args {
    ki_scores block;
    ki_tokens tokens;
    ki_mat scores, dscores;        /* A */
    ki_mat probabilities, dstored; /* T, written; may be those two where T is A */
    ki_mat lse, dots;              /* A; dots: [heads * head_rows, 1] */
} ki_attend_grad_args;

/* dots = sum of dout * out over a head of a token */
typedef struct ki_attend_dots_args {
    ki_tokens tokens;
    int64_t heads, rows, head_rows;
    ki_mat out, dout; /* T */
    ki_mat dots;      /* A, [heads * head_rows, 1] */
} ki_attend_dots_args;

/* Rows of [heads * head_rows, head_dim] (A) to where they are among tokens. */
typedef struct ki_unpack_args {
    ki_tokens tokens;
    int64_t heads, rows, head_rows;
    ki_mat from, to;
} ki_unpack_args;

#endif
