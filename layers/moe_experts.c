/* layers/moe_experts.c - the feed-forward layers of a mixture, one after the other.
 *
 * Each expert has its own rows, perhaps none. The inner activation is not kept for backward, it is computed again from
 * what it was computed from. Gradients of weights are noted on the tape rather than computed, so that they can run
 * while the gradient of the input travels, or in the second half of a split backward.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "moe.h"

static kith_status activate(kith_moe *moe, ki_mat hidden, ki_mat inner)
{
    ki_compute *compute = moe->layers->compute;
    if (!moe->options.is_gated)
        return compute->ops->activation(compute, moe->activation, hidden, ki_no_mat(), inner);
    ki_mat gate = ki_mat_cols(hidden, 0, moe->inner), up = ki_mat_cols(hidden, moe->inner, moe->inner);
    return compute->ops->gated(compute, moe->activation, gate, up, inner);
}

static kith_status activate_grad(kith_moe *moe, ki_mat hidden, ki_mat dinner, ki_mat dhidden)
{
    ki_compute *compute = moe->layers->compute;
    if (!moe->options.is_gated)
        return compute->ops->activation_grad(compute, moe->activation, hidden, ki_no_mat(), dinner, dhidden);
    ki_mat gate = ki_mat_cols(hidden, 0, moe->inner), up = ki_mat_cols(hidden, moe->inner, moe->inner);
    ki_mat dgate = ki_mat_cols(dhidden, 0, moe->inner), dup = ki_mat_cols(dhidden, moe->inner, moe->inner);
    return compute->ops->gated_grad(compute, moe->activation, gate, up, dinner, dgate, dup);
}

/* Rows [first, first + rows) are this expert's. */
static kith_status forward_one(kith_moe *moe, const ki_expert *expert, int64_t first, int64_t rows, ki_mat inputs,
                               ki_mat hidden, ki_mat outputs)
{
    kith_layers *layers = moe->layers;
    ki_compute *compute = layers->compute;
    kith_tensor inner = { 0 };
    kith_status status;
    inputs = ki_mat_rows(inputs, first, rows);
    hidden = ki_mat_rows(hidden, first, rows);
    outputs = ki_mat_rows(outputs, first, rows);
    KI_OR_GOTO(end, ki_tensor_create_2d(layers, layers->dtype, rows, moe->inner, &inner));
    KI_OR_GOTO(
        end, compute->ops->gemm(compute, KI_AS_IS, KI_TRANSPOSED, 1, inputs, ki_mat_of(&expert->in.value), 0, hidden));
    KI_OR_GOTO(end, activate(moe, hidden, ki_mat_of(&inner)));
    KI_OR_GOTO(end, compute->ops->gemm(compute, KI_AS_IS, KI_TRANSPOSED, 1, ki_mat_of(&inner),
                                       ki_mat_of(&expert->out.value), 0, outputs));
end:
    kith_tensor_release(&inner);
    return status;
}

kith_status ki_moe_experts_forward(kith_moe *moe, const ki_routing *routing, const kith_tensor *inputs,
                                   kith_tensor *hidden, kith_tensor *outputs)
{
    kith_layers *layers = moe->layers;
    kith_status status = ki_tensor_create_2d(layers, layers->dtype, routing->received, moe->in_rows, hidden);
    if (status == KITH_OK)
        status = ki_tensor_create_2d(layers, layers->dtype, routing->received, moe->options.features, outputs);
    int64_t first = 0;
    for (int64_t i = 0; i < moe->expert_count && status == KITH_OK; i++) {
        int64_t rows = ki_routing_rows_of(moe, routing, i);
        if (rows > 0)
            status = forward_one(moe, &moe->experts[i], first, rows, ki_mat_of(inputs), ki_mat_of(hidden),
                                 ki_mat_of(outputs));
        first += rows;
    }
    return status;
}

kith_tensor ki_moe_rows(const kith_tensor *tensor, int64_t first, int64_t count)
{
    kith_tensor rows = kith_tensor_narrow(tensor, 0, first, count);
    rows.buffer = tensor->buffer;
    return rows;
}

static kith_status add_weight_grad(kith_tape *tape, const ki_weight_work *work)
{
    ki_compute *compute = tape->layers->compute;
    const ki_moe_matrix *matrix = (const ki_moe_matrix *)work->layer;
    kith_status status = compute->ops->gemm(compute, KI_TRANSPOSED, KI_AS_IS, 1, ki_mat_of(&work->dy),
                                            ki_mat_of(&work->x), 1, ki_mat_of(&matrix->grad));
    if (status == KITH_OK)
        ki_grad_added(tape->layers, matrix->block);
    return status;
}

kith_status ki_moe_note_weights(kith_tape *tape, const ki_moe_matrix *matrix, const kith_tensor *x,
                                const kith_tensor *dy)
{
    ki_weight_work work = { .run = add_weight_grad, .layer = matrix, .x = *x, .dy = *dy };
    return ki_tape_note_weights(tape, &work);
}

/* What backward of one expert works on: its rows of what all have. */
typedef struct share {
    const ki_expert *expert;
    kith_tensor inputs, hidden, dy, weights, dinputs, dots; /* dinputs with dim_count 0: not wanted */
    int64_t rows;
} share;

/* The way back through the second matrix, and what its output is multiplied with: y = weight * out * inner. */
static kith_status back_to_inner(kith_moe *moe, kith_tape *tape, const share *s, kith_tensor *dinner)
{
    kith_layers *layers = moe->layers;
    ki_compute *compute = layers->compute;
    kith_tensor inner = { 0 }, unweighted = { 0 }, weighted_inner = { 0 };
    ki_mat weights = ki_mat_of(&s->weights);
    kith_status status;
    KI_OR_GOTO(end, ki_tensor_create_2d(layers, layers->dtype, s->rows, moe->inner, &inner));
    KI_OR_GOTO(end, activate(moe, ki_mat_of(&s->hidden), ki_mat_of(&inner)));
    KI_OR_GOTO(end, ki_tensor_create_2d(layers, layers->dtype, s->rows, moe->inner, &unweighted));
    KI_OR_GOTO(end, compute->ops->gemm(compute, KI_AS_IS, KI_AS_IS, 1, ki_mat_of(&s->dy),
                                       ki_mat_of(&s->expert->out.value), 0, ki_mat_of(&unweighted)));
    KI_OR_GOTO(end, compute->ops->row_dots(compute, ki_mat_of(&unweighted), ki_mat_of(&inner), ki_mat_of(&s->dots)));
    KI_OR_GOTO(end, ki_tensor_create_2d(layers, layers->dtype, s->rows, moe->inner, dinner));
    KI_OR_GOTO(end, compute->ops->pick_rows(compute, NULL, weights, ki_mat_of(&unweighted), ki_mat_of(dinner)));
    KI_OR_GOTO(end, ki_tensor_create_2d(layers, layers->dtype, s->rows, moe->inner, &weighted_inner));
    KI_OR_GOTO(end, compute->ops->pick_rows(compute, NULL, weights, ki_mat_of(&inner), ki_mat_of(&weighted_inner)));
    KI_OR_GOTO(end, ki_moe_note_weights(tape, &s->expert->out, &weighted_inner, &s->dy));
end:
    kith_tensor_release(&inner);
    kith_tensor_release(&unweighted);
    kith_tensor_release(&weighted_inner);
    return status;
}

static kith_status backward_one(kith_moe *moe, kith_tape *tape, const share *s)
{
    kith_layers *layers = moe->layers;
    ki_compute *compute = layers->compute;
    kith_tensor dinner = { 0 }, dhidden = { 0 };
    kith_status status;
    KI_OR_GOTO(end, back_to_inner(moe, tape, s, &dinner));
    KI_OR_GOTO(end, ki_tensor_create_2d(layers, layers->dtype, s->rows, moe->in_rows, &dhidden));
    KI_OR_GOTO(end, activate_grad(moe, ki_mat_of(&s->hidden), ki_mat_of(&dinner), ki_mat_of(&dhidden)));
    if (s->dinputs.dim_count > 0)
        KI_OR_GOTO(end, compute->ops->gemm(compute, KI_AS_IS, KI_AS_IS, 1, ki_mat_of(&dhidden),
                                           ki_mat_of(&s->expert->in.value), 0, ki_mat_of(&s->dinputs)));
    KI_OR_GOTO(end, ki_moe_note_weights(tape, &s->expert->in, &s->inputs, &dhidden));
end:
    kith_tensor_release(&dinner);
    kith_tensor_release(&dhidden);
    return status;
}

/* No token came: zeros are added, and that is the gradient of this microbatch. */
static void add_nothing(kith_moe *moe, const ki_expert *expert)
{
    ki_grad_added(moe->layers, expert->out.block);
    ki_grad_added(moe->layers, expert->in.block);
}

kith_status ki_moe_experts_backward(kith_moe *moe, kith_tape *tape, const ki_routing *routing,
                                    const kith_tensor *inputs, const kith_tensor *hidden, const kith_tensor *dy,
                                    const kith_tensor *weights, kith_tensor *dinputs, kith_tensor *dots)
{
    kith_layers *layers = moe->layers;
    kith_status status = ki_tensor_create_2d(layers, layers->accumulator, routing->received, 1, dots);
    if (status == KITH_OK && dinputs != NULL)
        status = ki_tensor_create_2d(layers, layers->dtype, routing->received, moe->options.features, dinputs);
    int64_t first = 0;
    for (int64_t i = 0; i < moe->expert_count && status == KITH_OK; i++) {
        int64_t rows = ki_routing_rows_of(moe, routing, i);
        share s = { &moe->experts[i],
                    ki_moe_rows(inputs, first, rows),
                    ki_moe_rows(hidden, first, rows),
                    ki_moe_rows(dy, first, rows),
                    ki_moe_rows(weights, first, rows),
                    { 0 },
                    ki_moe_rows(dots, first, rows),
                    rows };
        if (dinputs != NULL)
            s.dinputs = ki_moe_rows(dinputs, first, rows);
        if (rows > 0)
            status = backward_one(moe, tape, &s);
        else
            add_nothing(moe, s.expert);
        first += rows;
    }
    return status;
}
