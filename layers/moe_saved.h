/* layers/moe_saved.h - what forward of a mixture keeps for backward.
 *
 * Of size tokens: x (a reference; the shard with sequence parallelism), probabilities where something needs them,
 * weights, and two integers for each choice. Of size rows: inputs of experts and what activations are applied to.
 * Neither outputs of experts nor inner activations (see moe.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_LAYERS_MOE_SAVED_H
#define KI_LAYERS_MOE_SAVED_H

#include "moe.h"

typedef struct ki_moe_kept {
    kith_tensor x;             /* as it was given */
    kith_tensor probabilities; /* A, [tokens, experts], or no tensor */
    kith_tensor weights;       /* A, [tokens, top_k] */
    kith_tensor balance;       /* A, [1, experts], or no tensor */
    kith_tensor inputs;        /* [received, features] */
    kith_tensor hidden;        /* [received, in_rows] */
    ki_routing routing;
} ki_moe_kept;

/* What x, y, dy and dx are. */
ki_expected ki_moe_expected(const kith_moe *moe, const kith_tape *tape);

/* Puts it on the tape, with references of the tape's own; takes it off, to be released by the caller. */
kith_status ki_moe_keep(kith_moe *moe, kith_tape *tape, const kith_tensor *x, const ki_moe_kept *kept);
kith_status ki_moe_take(kith_moe *moe, kith_tape *tape, ki_moe_kept *kept);
void ki_moe_kept_release(ki_moe_kept *kept);

/* A, [sent, 1]: weights in the order of rows. */
kith_status ki_moe_weights_of_rows(kith_moe *moe, const ki_moe_kept *kept, const ki_routing_lists *lists,
                                   kith_tensor *weights);

#endif
