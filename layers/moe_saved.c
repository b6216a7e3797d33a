/* layers/moe_saved.c - what forward of a mixture keeps for backward, on the tape and off it.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "moe_saved.h"

enum { NUMBER_TOKENS, NUMBER_SENT, NUMBER_RECEIVED };

ki_expected ki_moe_expected(const kith_moe *moe, const kith_tape *tape)
{
    const kith_layers *layers = moe->layers;
    ki_expected expected = { ki_tape_local_tokens(tape), moe->options.features, layers->dtype, KITH_REPLICATED, 0 };
    if (layers->options.is_sequence_parallel)
        expected.layout = KITH_SPLIT;
    return expected;
}

kith_status ki_moe_keep(kith_moe *moe, kith_tape *tape, const kith_tensor *x, const ki_moe_kept *kept)
{
    const kith_tensor *tensors[KI_SAVED_TENSORS] = { x,
                                                     &kept->probabilities,
                                                     &kept->weights,
                                                     &kept->balance,
                                                     &kept->inputs,
                                                     &kept->hidden,
                                                     &kept->routing.chosen,
                                                     &kept->routing.counts };
    ki_saved saved = { .owner = moe, .name = moe->name };
    saved.numbers[NUMBER_TOKENS] = kept->routing.tokens;
    saved.numbers[NUMBER_SENT] = kept->routing.sent;
    saved.numbers[NUMBER_RECEIVED] = kept->routing.received;
    kith_status status = KITH_OK;
    for (int i = 0; i < KI_SAVED_TENSORS && status == KITH_OK; i++)
        if (tensors[i]->dim_count > 0)
            status = ki_saved_keep(&saved, i, tensors[i]);
    if (status == KITH_OK)
        return ki_tape_push(tape, &saved);
    ki_saved_release(&saved);
    return status;
}

kith_status ki_moe_take(kith_moe *moe, kith_tape *tape, ki_moe_kept *kept)
{
    ki_saved saved = { 0 };
    kith_status status = ki_tape_pop(tape, moe, moe->name, &saved);
    if (status != KITH_OK)
        return status;
    ki_routing routing = { .tokens = saved.numbers[NUMBER_TOKENS],
                           .choices = saved.numbers[NUMBER_TOKENS] * moe->options.top_k,
                           .sent = saved.numbers[NUMBER_SENT],
                           .received = saved.numbers[NUMBER_RECEIVED],
                           .chosen = saved.tensors[6],
                           .counts = saved.tensors[7] };
    ki_moe_kept taken = { .x = saved.tensors[0],
                          .probabilities = saved.tensors[1],
                          .weights = saved.tensors[2],
                          .balance = saved.tensors[3],
                          .inputs = saved.tensors[4],
                          .hidden = saved.tensors[5],
                          .routing = routing };
    *kept = taken;
    return KITH_OK;
}

void ki_moe_kept_release(ki_moe_kept *kept)
{
    kith_tensor_release(&kept->x);
    kith_tensor_release(&kept->probabilities);
    kith_tensor_release(&kept->weights);
    kith_tensor_release(&kept->balance);
    kith_tensor_release(&kept->inputs);
    kith_tensor_release(&kept->hidden);
    ki_routing_release(&kept->routing);
}

kith_status ki_moe_weights_of_rows(kith_moe *moe, const ki_moe_kept *kept, const ki_routing_lists *lists,
                                   kith_tensor *weights)
{
    kith_layers *layers = moe->layers;
    const ki_routing *routing = &kept->routing;
    kith_status status = ki_tensor_create_2d(layers, layers->accumulator, routing->sent, 1, weights);
    if (status != KITH_OK)
        return status;
    ki_mat of_choices = { kept->weights.data, routing->choices, 1, 1, layers->accumulator };
    return layers->compute->ops->pick_rows(layers->compute, lists->choice_of_row, ki_no_mat(), of_choices,
                                           ki_mat_of(weights));
}
