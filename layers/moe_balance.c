/* layers/moe_balance.c - the load-balancing loss: auxiliary_weight * experts * sum over experts of f_e P_e.
 *
 * f_e is the share of tokens that chose expert e (whether or not it took them), P_e the mean of its probability, both
 * over all tokens of all ranks of `data` (Fedus, Zoph and Shazeer, Switch Transformers, eq. 4-6). Counts and sums are
 * added over the ranks before they are multiplied: the mean of the ranks' own losses would be another loss, which
 * depends on how tokens were dealt. Only P has a gradient.
 *
 * Numbers of experts are few, so this is done on the host in f64, like the counts of a routing.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "moe.h"

static ki_mat row_of(void *data, int64_t cols, kith_dtype dtype)
{
    ki_mat row = { data, 1, cols, cols, dtype };
    return row;
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
    KI_OR_GOTO(end, compute->ops->copy(compute, ki_mat_of(&sums), row_of(totals + experts, experts, KITH_F64)));
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
    kith_tensor totals = { 0 };
    kith_status status;
    KI_OR_GOTO(end, ki_tensor_create_2d(layers, KITH_F64, 1, 2 * experts + 1, &totals));
    KI_OR_GOTO(end, add_up(moe, routing, probabilities, (double *)totals.data));
    KI_OR_GOTO(end, ki_comm_all_reduce(layers, tape->phase, ki_comm_data(layers), totals.data, 2 * experts + 1,
                                       KITH_F64, KITH_SUM));
    *loss = layers->is_dry ? 0 : weigh(moe, (double *)totals.data);
    KI_OR_GOTO(end, ki_tensor_create_2d(layers, layers->accumulator, 1, experts, gradient));
    KI_OR_GOTO(end, compute->ops->copy(compute, row_of(totals.data, experts, KITH_F64), ki_mat_of(gradient)));
end:
    kith_tensor_release(&totals);
    return status;
}
