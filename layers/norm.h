/* layers/norm.h - what a norm is inside; for norm.c and for attention, which has norms of heads in its middle.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_LAYERS_NORM_H
#define KI_LAYERS_NORM_H

#include "layers.h"

struct kith_norm {
    kith_layers *layers;
    const char *name;
    kith_norm_options options;
    kith_param *weight, *bias; /* [features]; bias NULL in an RMS norm */
};

/* What backward needs of each row: A, [rows, heads]; heads 1 unless it is a norm of heads. */
typedef struct ki_norm_statistics {
    kith_tensor mean, rstd; /* mean: no tensor in an RMS norm */
} ki_norm_statistics;

/* Room for the statistics of a tensor of `rows` rows. Failing leaves what was made to be released. */
kith_status ki_norm_statistics_create(const kith_norm *norm, int64_t rows, int64_t heads, ki_norm_statistics *made);
void ki_norm_statistics_release(ki_norm_statistics *statistics);

/* x, y, dy, dx: [rows, heads * features], each head by itself. dx may be dy. Gradients of the parameters are added
 * to. */
kith_status ki_norm_rows(const kith_norm *norm, ki_mat x, ki_mat y, const ki_norm_statistics *statistics);
kith_status ki_norm_rows_grad(const kith_norm *norm, ki_mat x, const ki_norm_statistics *statistics, ki_mat dy,
                              ki_mat dx);

#endif
