/* layers/moe_forward.c - the way of a microbatch through a mixture of experts.
 *
 *     x (gathered) -> choices, weights -> rows to experts -> experts -> rows home -> sum of weights * rows (reduced)
 *
 * over tp:    all-reduce of y; with sequence parallelism all-gather of x and reduce-scatter of y
 * over ep:    all-to-all of counts, of rows, and of rows back
 * over data:  all-reduce of 2 * experts + 1 numbers, for the balance
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "moe_saved.h"

/* What a forward pass has in hand. */
typedef struct pass {
    kith_tensor x;    /* all tokens, until they have left */
    kith_tensor like; /* its shape alone */
    ki_moe_kept kept;
    ki_routing_lists lists;
    kith_tensor rows; /* outputs of experts, at home */
} pass;

static void release(pass *p)
{
    kith_tensor_release(&p->x);
    ki_moe_kept_release(&p->kept);
    kith_tensor_release(&p->lists.memory);
    kith_tensor_release(&p->rows);
}

static kith_status route(kith_moe *moe, kith_tape *tape, const kith_tensor *x, pass *p, double *auxiliary,
                         int64_t *dropped)
{
    ki_moe_kept *kept = &p->kept;
    ki_routing *routing = &kept->routing;
    kith_status status;
    if (moe->layers->options.is_sequence_parallel)
        KI_OR_GOTO(end, ki_tape_gather(tape, x, &p->x));
    else
        KI_OR_GOTO(end, kith_tensor_retain(x, &p->x));
    p->like = ki_moe_shape_of(&p->x);
    KI_OR_GOTO(end, ki_routing_create(moe, ki_rows(&p->x), routing));
    KI_OR_GOTO(end, ki_moe_choose(moe, ki_mat_of(&p->x), routing, &kept->weights, &kept->probabilities));
    *auxiliary = 0;
    if (moe->options.auxiliary_weight > 0)
        KI_OR_GOTO(end, ki_moe_balance(moe, tape, routing, &kept->probabilities, &kept->balance, auxiliary));
    KI_OR_GOTO(end, ki_routing_deal(moe, routing, dropped));
    KI_OR_GOTO(end, ki_routing_exchange(moe, tape, routing));
    KI_OR_GOTO(end, ki_routing_list(moe, routing, &p->lists));
end:
    return status;
}

static kith_status through_experts(kith_moe *moe, kith_tape *tape, pass *p)
{
    kith_layers *layers = moe->layers;
    ki_moe_kept *kept = &p->kept;
    const ki_routing *routing = &kept->routing;
    kith_tensor leaving = { 0 }, outputs = { 0 };
    ki_trip trip = { 0 };
    kith_status status;
    KI_OR_GOTO(end, ki_tensor_create_2d(layers, layers->dtype, routing->sent, moe->options.features, &leaving));
    KI_OR_GOTO(end, layers->compute->ops->pick_rows(layers->compute, p->lists.token_of_row, ki_no_mat(),
                                                    ki_mat_of(&p->x), ki_mat_of(&leaving)));
    KI_OR_GOTO(end, ki_moe_dispatch(moe, tape, routing, &p->lists, &leaving, &kept->inputs));
    kith_tensor_release(&leaving);
    kith_tensor_release(&p->x);
    KI_OR_GOTO(end, ki_moe_experts_forward(moe, routing, &kept->inputs, &kept->hidden, &outputs));
    KI_OR_GOTO(end, ki_moe_return_start(moe, tape, routing, &p->lists, &outputs, &trip));
    KI_OR_GOTO(end, ki_trip_end(&trip, &p->rows));
end:
    ki_trip_settle(&trip);
    kith_tensor_release(&leaving);
    kith_tensor_release(&outputs);
    return status;
}

static kith_status join(kith_moe *moe, kith_tape *tape, pass *p, kith_tensor *y)
{
    kith_layers *layers = moe->layers;
    kith_tensor weights = { 0 }, sum = { 0 };
    kith_status status;
    KI_OR_GOTO(end, ki_moe_weights_of_rows(moe, &p->kept, &p->lists, &weights));
    KI_OR_GOTO(end, ki_moe_combine(moe, &p->lists, &p->rows, &weights, &p->like, &sum));
    kith_tensor_release(&p->rows);
    if (layers->options.is_sequence_parallel) {
        KI_OR_GOTO(end, ki_tape_scatter(tape, &sum, y));
    } else {
        KI_OR_GOTO(end, ki_comm_all_reduce(layers, tape->phase, ki_comm_tp(layers), sum.data, kith_tensor_count(&sum),
                                           sum.dtype, KITH_SUM));
        sum = ki_with_layout(sum, KITH_REPLICATED, 0);
        KI_OR_GOTO(end, kith_tensor_retain(&sum, y));
    }
end:
    kith_tensor_release(&weights);
    kith_tensor_release(&sum);
    return status;
}

kith_status kith_moe_forward(kith_moe *moe, kith_tape *tape, const kith_tensor *x, kith_tensor *y, double *auxiliary,
                             int64_t *dropped)
{
    if (moe == NULL || y == NULL)
        return ki_fail(KITH_ERR_INVALID_ARG, "kith_moe_forward: moe and y must not be NULL");
    kith_status status = ki_tape_enter(tape, moe->layers, "kith_moe_forward", KITH_PHASE_FORWARD);
    if (status != KITH_OK)
        return status;
    ki_expected expected = ki_moe_expected(moe, tape);
    status = ki_expect(moe->layers, "kith_moe_forward: x", x, &expected);
    if (status != KITH_OK)
        return status;
    pass p = { .x = { 0 } };
    kith_tensor made = { 0 };
    double loss;
    int64_t left;
    KI_OR_GOTO(end, route(moe, tape, x, &p, &loss, &left));
    KI_OR_GOTO(end, through_experts(moe, tape, &p));
    KI_OR_GOTO(end, join(moe, tape, &p, &made));
    KI_OR_GOTO(end, ki_moe_keep(moe, tape, x, &p.kept));
    KI_OR_GOTO(end, kith_tensor_retain(&made, y));
    if (auxiliary != NULL)
        *auxiliary = loss;
    if (dropped != NULL)
        *dropped = left;
end:
    release(&p);
    kith_tensor_release(&made);
    return status;
}
