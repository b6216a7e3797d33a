/* layers/moe_balance.c - the load-balancing loss: auxiliary_weight * experts * sum over experts of f_e P_e.
 *
 * f_e is the share of tokens that chose expert e (whether or not it took them), P_e the mean of its probability, both
 * over all tokens of all ranks of `data` (Fedus, Zoph and Shazeer, Switch Transformers, eq. 4-6). Counts and sums are
 * added over the ranks before they are multiplied: the mean of the ranks' own losses would be another loss, which
 * depends on how tokens were dealt. Only P has a gradient.
 *
 * Numbers of experts are few, so this is done on the host in f64, like the counts of a routing: only the sums of
 * probabilities come from where the layers compute, and the gradient goes there.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "moe.h"

static ki_mat row_of(void *data, int64_t cols, kith_dtype dtype)
{
    ki_mat row = { data, 1, cols, cols, dtype };
    return row;
}

/* Sums to the host, in f64. */
static kith_status bring_home(kith_layers *layers, const kith_tensor *sums, double *numbers)
{
    ki_compute *compute = layers->compute;
    int64_t count = ki_features(sums);
    if (ki_space_is_host(&layers->space))
        return compute->ops->copy(compute, ki_mat_of(sums), row_of(numbers, count, KITH_F64));
    kith_tensor exact = { 0 };
    kith_status status = ki_tensor_create_2d(layers, KITH_F64, 1, count, &exact);
    if (status == KITH_OK)
        status = compute->ops->copy(compute, ki_mat_of(sums), ki_mat_of(&exact));
    if (status == KITH_OK)
        status = ki_space_copy_out(&layers->space, numbers, exact.data, ki_tensor_nbytes(&exact));
    kith_tensor_release(&exact);
    return status;
}

/* totals: how many tokens chose each expert, sums of each one's probability, tokens. */
static kith_status add_up(kith_moe *moe, const ki_routing *routing, const kith_tensor *probabilities, double *totals)
{
    kith_layers *layers = moe->layers;
    ki_compute *compute = layers->compute;
    int64_t experts = moe->options.experts;
    kith_tensor sums = { 0 };
    kith_status status;
    KI_OR_GOTO(end, ki_tensor_create_2d(layers, layers->accumulator, 1, experts, &sums));
    KI_OR_GOTO(end, compute->ops->fill(compute, ki_mat_of(&sums), 0));
    KI_OR_GOTO(end, compute->ops->bias_grad(compute, ki_mat_of(probabilities), ki_mat_of(&sums)));
    if (totals == NULL)
        goto end;
    KI_OR_GOTO(end, bring_home(layers, &sums, totals + experts));
    const int32_t *expert_of = ki_expert_of_choice(routing);
    for (int64_t e = 0; e < experts; e++)
        totals[e] = 0;
    for (int64_t choice = 0; choice < routing->choices; choice++)
        totals[expert_of[choice]] += 1;
    totals[2 * experts] = (double)routing->tokens;
end:
    kith_tensor_release(&sums);
    return status;
}

/* The loss; its gradient takes the place of the counts. */
static double weigh(const kith_moe *moe, double *totals)
{
    int64_t experts = moe->options.experts;
    double tokens = totals[2 * experts], loss = 0;
    for (int64_t e = 0; e < experts; e++) {
        double factor = moe->options.auxiliary_weight * (double)experts * (totals[e] / tokens);
        loss += factor * (totals[experts + e] / tokens);
        totals[e] = factor / tokens;
    }
    return loss;
}

kith_status ki_moe_balance(kith_moe *moe, kith_tape *tape, const ki_routing *routing, const kith_tensor *probabilities,
                           kith_tensor *gradient, double *loss)
{
    kith_layers *layers = moe->layers;
    ki_compute *compute = layers->compute;
    int64_t experts = moe->options.experts;
    kith_tensor totals = { 0 }, there = { 0 };
    kith_status status;
    KI_OR_GOTO(end, ki_tensor_create_on_host(layers, KITH_F64, 1, 2 * experts + 1, &totals));
    KI_OR_GOTO(end, add_up(moe, routing, probabilities, (double *)totals.data));
    KI_OR_GOTO(end, ki_comm_all_reduce(layers, tape->phase, ki_comm_on_host(ki_comm_data(layers)), totals.data,
                                       2 * experts + 1, KITH_F64, KITH_SUM));
    *loss = layers->is_dry ? 0 : weigh(moe, (double *)totals.data);
    KI_OR_GOTO(end, ki_tensor_create_2d(layers, layers->accumulator, 1, experts, gradient));
    KI_OR_GOTO(end, ki_tensor_bring_in(layers, &totals, &there));
    KI_OR_GOTO(end, compute->ops->copy(compute, row_of(there.data, experts, KITH_F64), ki_mat_of(gradient)));
end:
    kith_tensor_release(&totals);
    kith_tensor_release(&there);
    return status;
}
