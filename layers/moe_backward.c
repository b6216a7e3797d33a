/* layers/moe_backward.c - the way back through a mixture of experts.
 *
 *     dy (gathered) -> rows of dy, weights to experts -> experts -> rows of dx and <dy, y> home -> dx (reduced), router
 *
 * over tp:    all-reduce of dx (with sequence parallelism all-gather of dy and reduce-scatter of dx), and of one number
 *             for each choice, the gradients of weights, which are summands like all that experts give
 * over ep:    all-to-all of rows, of weights, and of both kinds of gradients back
 *
 * The router is computed by all ranks of tp for all tokens, so its part of dx is whole on each: it is added after the
 * reduction, once. Gradients of experts' weights are computed while the longest way home is under way: dx over ep or,
 * without that, over tp.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "moe_saved.h"

/* What a backward pass has in hand. */
typedef struct pass {
    ki_moe_kept kept;
    ki_routing_lists lists;
    kith_tensor dy;                 /* all tokens, until they have left */
    kith_tensor like;               /* its shape alone */
    kith_tensor rows_dy, weights;   /* of the rows that work here */
    ki_trip dx_home, dweights_home; /* gradients of rows, on their way */
    kith_tensor dlogits;            /* [tokens, experts] */
    kith_tensor partial, dx;
    ki_started sum; /* of partial over tp */
    size_t first_work;
} pass;

static void release(pass *p)
{
    ki_trip_settle(&p->dx_home);
    ki_trip_settle(&p->dweights_home);
    ki_comm_settle(&p->sum);
    ki_moe_kept_release(&p->kept);
    kith_tensor *const tensors[] = { &p->lists.memory, &p->dy,      &p->rows_dy, &p->weights,
                                     &p->dlogits,      &p->partial, &p->dx };
    for (size_t i = 0; i < sizeof tensors / sizeof tensors[0]; i++)
        kith_tensor_release(tensors[i]);
}

/* dy and weights to where the experts are. */
static kith_status go_out(kith_moe *moe, kith_tape *tape, const kith_tensor *dy, pass *p)
{
    kith_layers *layers = moe->layers;
    const ki_routing *routing = &p->kept.routing;
    kith_tensor leaving = { 0 }, weights = { 0 };
    kith_status status;
    if (layers->options.is_sequence_parallel)
        KI_OR_GOTO(end, ki_tape_gather(tape, dy, &p->dy));
    else
        KI_OR_GOTO(end, kith_tensor_retain(dy, &p->dy));
    p->like = ki_moe_shape_of(&p->dy);
    KI_OR_GOTO(end, ki_routing_list(moe, routing, &p->lists));
    KI_OR_GOTO(end, ki_tensor_create_2d(layers, layers->dtype, routing->sent, moe->options.features, &leaving));
    KI_OR_GOTO(end, layers->compute->ops->pick_rows(layers->compute, p->lists.token_of_row, ki_no_mat(),
                                                    ki_mat_of(&p->dy), ki_mat_of(&leaving)));
    kith_tensor_release(&p->dy);
    KI_OR_GOTO(end, ki_moe_dispatch(moe, tape, routing, &p->lists, &leaving, &p->rows_dy));
    KI_OR_GOTO(end, ki_moe_weights_of_rows(moe, &p->kept, &p->lists, &weights));
    KI_OR_GOTO(end, ki_moe_dispatch(moe, tape, routing, &p->lists, &weights, &p->weights));
end:
    kith_tensor_release(&leaving);
    kith_tensor_release(&weights);
    return status;
}

/* Through the experts; their gradients start for home. */
static kith_status through_experts(kith_moe *moe, kith_tape *tape, bool is_dx_wanted, pass *p)
{
    const ki_moe_kept *kept = &p->kept;
    kith_tensor dinputs = { 0 }, dots = { 0 };
    kith_status status;
    KI_OR_GOTO(end, ki_moe_experts_backward(moe, tape, &kept->routing, &kept->inputs, &kept->hidden, &p->rows_dy,
                                            &p->weights, is_dx_wanted ? &dinputs : NULL, &dots));
    KI_OR_GOTO(end, ki_moe_return_start(moe, tape, &kept->routing, &p->lists, &dots, &p->dweights_home));
    if (is_dx_wanted)
        KI_OR_GOTO(end, ki_moe_return_start(moe, tape, &kept->routing, &p->lists, &dinputs, &p->dx_home));
end:
    kith_tensor_release(&dinputs);
    kith_tensor_release(&dots);
    return status;
}

/* Of this rank's positions: those of x, dx. */
static kith_tensor own_rows(const kith_tape *tape, const kith_tensor *tensor)
{
    return ki_moe_rows(tensor, tape->first_position * tape->batch.batch, ki_tape_local_tokens(tape));
}

static kith_status back_to_logits(kith_moe *moe, kith_tape *tape, double auxiliary_scale, pass *p)
{
    kith_layers *layers = moe->layers;
    const ki_moe_kept *kept = &p->kept;
    const ki_routing *routing = &kept->routing;
    kith_tensor of_rows = { 0 }, of_choices = { 0 };
    kith_status status;
    KI_OR_GOTO(end, ki_trip_end(&p->dweights_home, &of_rows));
    KI_OR_GOTO(end, ki_tensor_create_like(layers, &kept->weights, moe->options.top_k, &of_choices));
    ki_mat column = { of_choices.data, routing->choices, 1, 1, of_choices.dtype };
    KI_OR_GOTO(end, layers->compute->ops->pick_rows(layers->compute, p->lists.row_of_choice, ki_no_mat(),
                                                    ki_mat_of(&of_rows), column));
    KI_OR_GOTO(end, ki_comm_all_reduce(layers, tape->phase, ki_comm_tp(layers), of_choices.data, routing->choices,
                                       of_choices.dtype, KITH_SUM));
    KI_OR_GOTO(end, ki_moe_choose_grad(moe, routing, &kept->weights, &kept->probabilities, &of_choices, &kept->balance,
                                       auxiliary_scale, &p->dlogits));
    kith_tensor own = own_rows(tape, &p->dlogits);
    KI_OR_GOTO(end, ki_moe_note_weights(tape, &moe->router, &kept->x, &own));
end:
    kith_tensor_release(&of_rows);
    kith_tensor_release(&of_choices);
    return status;
}

static kith_status run_weights(kith_tape *tape, pass *p, ki_started *beside)
{
    return tape->is_split_backward ? KITH_OK : ki_tape_run_weights(tape, p->first_work, beside);
}

/* The experts' part of dx comes home and is summed over tp. */
static kith_status come_home(kith_moe *moe, kith_tape *tape, pass *p)
{
    kith_layers *layers = moe->layers;
    kith_tensor rows = { 0 };
    kith_status status;
    if (layers->ep_size > 1)
        KI_OR_GOTO(end, run_weights(tape, p, &p->dx_home.started));
    KI_OR_GOTO(end, ki_trip_end(&p->dx_home, &rows));
    KI_OR_GOTO(end, ki_moe_combine(moe, &p->lists, &rows, NULL, &p->like, &p->partial));
    if (layers->options.is_sequence_parallel) {
        KI_OR_GOTO(end, ki_tape_scatter_start(tape, &p->partial, &p->dx, &p->sum));
    } else {
        KI_OR_GOTO(end, kith_tensor_retain(&p->partial, &p->dx));
        KI_OR_GOTO(end, ki_comm_all_reduce_start(layers, tape->phase, ki_comm_tp(layers), p->dx.data,
                                                 kith_tensor_count(&p->dx), p->dx.dtype, KITH_SUM, &p->sum));
        p->dx = ki_with_layout(p->dx, KITH_REPLICATED, 0);
    }
end:
    kith_tensor_release(&rows);
    return status;
}

static kith_status add_router(kith_moe *moe, kith_tape *tape, pass *p)
{
    ki_compute *compute = moe->layers->compute;
    kith_tensor own = own_rows(tape, &p->dlogits);
    return compute->ops->gemm(compute, KI_AS_IS, KI_AS_IS, 1, ki_mat_of(&own), ki_mat_of(&moe->router.value), 1,
                              ki_mat_of(&p->dx));
}

static kith_status backward(kith_moe *moe, kith_tape *tape, const kith_tensor *dy, double auxiliary_scale,
                            bool is_dx_wanted, pass *p)
{
    kith_status status;
    KI_OR_GOTO(end, go_out(moe, tape, dy, p));
    KI_OR_GOTO(end, through_experts(moe, tape, is_dx_wanted, p));
    KI_OR_GOTO(end, back_to_logits(moe, tape, auxiliary_scale, p));
    if (is_dx_wanted)
        KI_OR_GOTO(end, come_home(moe, tape, p));
    KI_OR_GOTO(end, run_weights(tape, p, &p->sum));
    KI_OR_GOTO(end, ki_comm_wait(&p->sum));
    if (is_dx_wanted)
        KI_OR_GOTO(end, add_router(moe, tape, p));
end:
    return status;
}

kith_status kith_moe_backward(kith_moe *moe, kith_tape *tape, const kith_tensor *dy, double auxiliary_scale,
                              kith_tensor *dx)
{
    if (moe == NULL)
        return ki_fail(KITH_ERR_INVALID_ARG, "kith_moe_backward: moe must not be NULL");
    kith_status status = ki_tape_enter(tape, moe->layers, "kith_moe_backward", KITH_PHASE_BACKWARD);
    if (status != KITH_OK)
        return status;
    ki_expected expected = ki_moe_expected(moe, tape);
    status = ki_expect(moe->layers, "kith_moe_backward: dy", dy, &expected);
    if (status != KITH_OK)
        return status;
    pass p = { .first_work = tape->work_count };
    status = ki_moe_take(moe, tape, &p.kept);
    if (status == KITH_OK)
        status = backward(moe, tape, dy, auxiliary_scale, dx != NULL, &p);
    if (status == KITH_OK && dx != NULL)
        status = kith_tensor_retain(&p.dx, dx);
    if (status != KITH_OK)
        ki_tape_drop_weights(tape, p.first_work);
    release(&p);
    return status;
}
