/* layers/cross_entropy.h - from logits to losses and back, where a rank may have the logits of some words only.
 *
 *     forward     top  = largest logit of a token                       MAX over the ranks, 1 number a token
 *                 sums = (sum of exp(logit - top), logit of the target - top [, sum of logit - top])
 *                                                                       SUM over the ranks, 2 or 3 numbers a token
 *                 loss = log(sums[0]) - ((1 - s) sums[1] + s / words sums[2])
 *     backward    dlogit = scale (exp(logit - top) / sums[0] - (1 - s) [target] - s / words)      nothing is sent
 *
 * The third number is needed with smoothing alone. A NaN or an infinity among the logits of any rank makes the loss NaN
 * on all. Losses are the same bits on all ranks, as what they are computed from is.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_LAYERS_CROSS_ENTROPY_H
#define KI_LAYERS_CROSS_ENTROPY_H

#include "layers.h"

typedef struct ki_cross_entropy {
    int64_t words, first; /* of the vocabulary; of it, that of column 0 of the logits */
    double smoothing;     /* s: spread over all words alike, the target's share included */
    int32_t ignored;
    bool is_split; /* other ranks have the other words */
} ki_cross_entropy;

/* top: [tokens, 1], sums: [tokens, 2 or 3], as backward needs them. losses: [tokens]. sum may be NULL. */
kith_status ki_cross_entropy_forward(kith_tape *tape, const ki_cross_entropy *how, ki_mat logits,
                                     const int32_t *targets, kith_tensor *top, kith_tensor *sums, kith_tensor *losses,
                                     double *sum);

/* dlogits may be logits, or columns of them with how->first to match. */
kith_status ki_cross_entropy_backward(kith_tape *tape, const ki_cross_entropy *how, ki_mat logits,
                                      const int32_t *targets, const kith_tensor *top, const kith_tensor *sums,
                                      double scale, ki_mat dlogits);

#endif
