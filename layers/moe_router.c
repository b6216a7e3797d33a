/* layers/moe_router.c - logits, choices and their weights; gradients of the router.
 *
 * The largest logits are chosen, not the largest probabilities: the order is the same, but probabilities that round to
 * the same number (0, far from the largest) would be ties. Weights of choices are their probabilities, softmax over all
 * experts; divided by their sum they are the softmax over the chosen logits, and computed as that.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "moe.h"

/* A matrix as one column: element (r, c) is row r * cols + c. Contiguous. */
static ki_mat column_of(const kith_tensor *tensor)
{
    ki_mat column = { tensor->data, kith_tensor_count(tensor), 1, 1, tensor->dtype };
    return column;
}

static bool needs_probabilities(const kith_moe *moe)
{
    return !moe->options.is_normalized || moe->options.auxiliary_weight > 0;
}

/* The element of [tokens, experts] that each choice is: int32 [1, choices]. */
static kith_status places_of(kith_moe *moe, const ki_routing *routing, kith_tensor *places)
{
    kith_tensor numbers = { 0 };
    kith_status status = ki_tensor_create_on_host(moe->layers, KITH_INT32, 1, routing->choices, &numbers);
    if (status != KITH_OK)
        return status;
    const int32_t *expert_of = ki_expert_of_choice(routing);
    int32_t *place = (int32_t *)numbers.data;
    for (int64_t choice = 0; !moe->layers->is_dry && choice < routing->choices; choice++)
        place[choice] = (int32_t)(choice / moe->options.top_k * moe->options.experts) + expert_of[choice];
    status = ki_tensor_bring_in(moe->layers, &numbers, places);
    kith_tensor_release(&numbers);
    return status;
}

/* The experts of all choices, where the host sees them. chosen: logits of the choices. */
static kith_status find_largest(kith_moe *moe, const kith_tensor *logits, const kith_tensor *chosen,
                                const ki_routing *routing)
{
    kith_layers *layers = moe->layers;
    ki_compute *compute = layers->compute;
    int64_t top_k = moe->options.top_k;
    if (ki_space_is_host(&layers->space))
        return compute->ops->top_k(compute, ki_mat_of(logits), top_k, ki_mat_of(chosen), ki_expert_of_choice(routing));
    kith_tensor there = { 0 };
    kith_status status = ki_tensor_create_2d(layers, KITH_INT32, 1, routing->choices, &there);
    if (status == KITH_OK)
        status = compute->ops->top_k(compute, ki_mat_of(logits), top_k, ki_mat_of(chosen), (int32_t *)there.data);
    if (status == KITH_OK)
        status = ki_space_copy_out(&layers->space, ki_expert_of_choice(routing), there.data, ki_tensor_nbytes(&there));
    kith_tensor_release(&there);
    return status;
}

/* Debug mode: ranks of tp that choose differently would add up outputs of different experts. Not counted. */
static kith_status compare_choices(const kith_moe *moe, const ki_routing *routing)
{
    const kith_layers *layers = moe->layers;
    if (!layers->options.is_debug || layers->is_dry || layers->tp_size == 1)
        return KITH_OK;
    uint64_t hash = ki_hash(KI_HASH_INIT, routing->chosen.data, (size_t)routing->choices * sizeof(int32_t));
    int64_t extremes[2] = { (int64_t)(hash >> 1), -(int64_t)(hash >> 1) };
    kith_status status = kith_all_reduce(layers->options.tp, extremes, extremes, 2, KITH_INT64, KITH_MAX);
    if (status != KITH_OK || extremes[0] == -extremes[1])
        return status;
    return ki_fail(KITH_ERR_MISMATCH,
                   "%s: the tensor-parallel ranks chose different experts: x or the router's weight is not the same on "
                   "all of them",
                   moe->name);
}

static kith_status weigh(kith_moe *moe, const ki_routing *routing, const kith_tensor *chosen_logits,
                         const kith_tensor *probabilities, kith_tensor *weights)
{
    ki_compute *compute = moe->layers->compute;
    if (moe->options.is_normalized)
        return compute->ops->softmax(compute, ki_mat_of(chosen_logits), ki_mat_of(weights));
    kith_tensor places = { 0 };
    kith_status status = places_of(moe, routing, &places);
    if (status == KITH_OK)
        status = compute->ops->pick_rows(compute, (const int32_t *)places.data, ki_no_mat(), column_of(probabilities),
                                         column_of(weights));
    kith_tensor_release(&places);
    return status;
}

kith_status ki_moe_choose(kith_moe *moe, ki_mat x, ki_routing *routing, kith_tensor *weights,
                          kith_tensor *probabilities)
{
    kith_layers *layers = moe->layers;
    ki_compute *compute = layers->compute;
    int64_t tokens = routing->tokens, experts = moe->options.experts, top_k = moe->options.top_k;
    kith_tensor logits = { 0 }, chosen = { 0 };
    kith_status status;
    KI_OR_GOTO(end, ki_tensor_create_2d(layers, layers->accumulator, tokens, experts, &logits));
    KI_OR_GOTO(end, compute->ops->gemm(compute, KI_AS_IS, KI_TRANSPOSED, 1, x, ki_mat_of(&moe->router.value), 0,
                                       ki_mat_of(&logits)));
    KI_OR_GOTO(end, ki_tensor_create_2d(layers, layers->accumulator, tokens, top_k, &chosen));
    KI_OR_GOTO(end, find_largest(moe, &logits, &chosen, routing));
    KI_OR_GOTO(end, compare_choices(moe, routing));
    if (needs_probabilities(moe)) {
        KI_OR_GOTO(end, ki_tensor_create_2d(layers, layers->accumulator, tokens, experts, probabilities));
        KI_OR_GOTO(end, compute->ops->softmax(compute, ki_mat_of(&logits), ki_mat_of(probabilities)));
    }
    KI_OR_GOTO(end, ki_tensor_create_2d(layers, layers->accumulator, tokens, top_k, weights));
    KI_OR_GOTO(end, weigh(moe, routing, &chosen, probabilities, weights));
end:
    kith_tensor_release(&logits);
    kith_tensor_release(&chosen);
    return status;
}

/* grad[token, expert] += by each choice's own number. */
static kith_status add_to_chosen(kith_moe *moe, const ki_routing *routing, const kith_tensor *of_choices,
                                 kith_tensor *grad)
{
    ki_compute *compute = moe->layers->compute;
    kith_tensor places = { 0 };
    kith_status status = places_of(moe, routing, &places);
    if (status == KITH_OK)
        status = compute->ops->add_rows(compute, (const int32_t *)places.data, ki_no_mat(), column_of(of_choices),
                                        column_of(grad));
    kith_tensor_release(&places);
    return status;
}

/* The balance's gradient of each probability; zero without one. */
static kith_status start_with_balance(kith_moe *moe, const kith_tensor *balance, double scale, kith_tensor *grad)
{
    ki_compute *compute = moe->layers->compute;
    kith_status status = compute->ops->fill(compute, ki_mat_of(grad), 0);
    if (status == KITH_OK && balance->dim_count > 0)
        status = compute->ops->bias_add(compute, ki_mat_of(balance), ki_mat_of(grad));
    if (status == KITH_OK && balance->dim_count > 0)
        status = compute->ops->scale(compute, scale, ki_mat_of(grad));
    return status;
}

/* All in A: logits: the gradient. */
static kith_status grad_of_logits(kith_moe *moe, const ki_routing *routing, const kith_tensor *weights,
                                  const kith_tensor *probabilities, const kith_tensor *dweights,
                                  const kith_tensor *balance, double balance_scale, kith_tensor *dlogits)
{
    kith_layers *layers = moe->layers;
    ki_compute *compute = layers->compute;
    bool is_normalized = moe->options.is_normalized;
    kith_tensor dprobabilities = { 0 }, dchosen = { 0 };
    kith_status status;
    if (probabilities->dim_count > 0) {
        KI_OR_GOTO(end, ki_tensor_create_like(layers, probabilities, ki_features(probabilities), &dprobabilities));
        KI_OR_GOTO(end, start_with_balance(moe, balance, balance_scale, &dprobabilities));
        if (!is_normalized)
            KI_OR_GOTO(end, add_to_chosen(moe, routing, dweights, &dprobabilities));
        KI_OR_GOTO(end, compute->ops->softmax_grad(compute, ki_mat_of(probabilities), ki_mat_of(&dprobabilities),
                                                   ki_mat_of(dlogits)));
    } else {
        KI_OR_GOTO(end, compute->ops->fill(compute, ki_mat_of(dlogits), 0));
    }
    if (is_normalized) {
        KI_OR_GOTO(end, ki_tensor_create_like(layers, weights, ki_features(weights), &dchosen));
        KI_OR_GOTO(end,
                   compute->ops->softmax_grad(compute, ki_mat_of(weights), ki_mat_of(dweights), ki_mat_of(&dchosen)));
        KI_OR_GOTO(end, add_to_chosen(moe, routing, &dchosen, dlogits));
    }
end:
    kith_tensor_release(&dprobabilities);
    kith_tensor_release(&dchosen);
    return status;
}

kith_status ki_moe_choose_grad(kith_moe *moe, const ki_routing *routing, const kith_tensor *weights,
                               const kith_tensor *probabilities, const kith_tensor *dweights,
                               const kith_tensor *balance, double balance_scale, kith_tensor *dlogits)
{
    kith_layers *layers = moe->layers;
    ki_compute *compute = layers->compute;
    int64_t tokens = routing->tokens, experts = moe->options.experts;
    kith_tensor exact = { 0 };
    kith_status status;
    KI_OR_GOTO(end, ki_tensor_create_2d(layers, layers->accumulator, tokens, experts, &exact));
    KI_OR_GOTO(end, grad_of_logits(moe, routing, weights, probabilities, dweights, balance, balance_scale, &exact));
    if (layers->accumulator == layers->dtype) {
        KI_OR_GOTO(end, kith_tensor_retain(&exact, dlogits));
    } else { // factors of GEMM are T
        KI_OR_GOTO(end, ki_tensor_create_2d(layers, layers->dtype, tokens, experts, dlogits));
        KI_OR_GOTO(end, compute->ops->copy(compute, ki_mat_of(&exact), ki_mat_of(dlogits)));
    }
end:
    kith_tensor_release(&exact);
    return status;
}
