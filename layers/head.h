/* layers/head.h - what a head is inside; shared by head*.c alone.
 *
 *     head.c            creation: the weight, its own or tied
 *     head_loss.c       forward to losses, and backward
 *     head_gather.c     logits of all words on all ranks: for evaluation, and for the form that is not fused
 *
 * A head is a column-parallel linear layer over the words (linear.h), to which it leaves the gradients of input and
 * weight, and a cross entropy over its logits (cross_entropy.h).
 *
 *                            forward                                     backward
 *     fused                  MAX of tokens, SUM of 2 (3) tokens          that of the linear layer
 *     is_gathered            all-gather of tokens * vocabulary           that of the linear layer
 *
 * On the tape it leaves its logits, in whose memory backward writes their gradient, above what the linear layer leaves.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_LAYERS_HEAD_H
#define KI_LAYERS_HEAD_H

#include "cross_entropy.h"
#include "vocabulary.h"

struct kith_head {
    kith_layers *layers;
    const char *name;
    kith_head_options options;
    ki_vocabulary vocabulary;
    kith_param *weight;
    kith_linear *linear;   /* [tokens, features] to [tokens, words of this rank] */
    ki_cross_entropy loss; /* how; of all words where logits are gathered */
};

/* own: [..., words of this rank] to all: [..., words]. (head_gather.c) */
kith_status ki_head_gather(kith_head *head, kith_tape *tape, const kith_tensor *own, kith_tensor *all);

#endif
