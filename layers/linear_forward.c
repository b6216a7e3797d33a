/* layers/linear_forward.c - y = x W^T + b, and the collectives around it.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "linear.h"

ki_expected ki_linear_input(const kith_linear *linear, const kith_tape *tape)
{
    const kith_linear_options *o = &linear->options;
    int64_t tokens = linear->is_sequence_split ? ki_tape_local_tokens(tape) : -1;
    ki_expected input = { tokens, linear->in, linear->layers->dtype, KITH_REPLICATED, 0 };
    if (linear->is_sequence_split)
        input.layout = KITH_SPLIT;
    if (o->kind == KITH_LINEAR_ROW) {
        input.rows = linear->is_sequence_split ? ki_tape_tokens(tape) : -1;
        input.features = o->is_input_whole ? o->in_features : linear->in;
        input.layout = o->is_input_whole ? KITH_REPLICATED : KITH_SPLIT;
        input.split_dim = -1;
    } else if (o->kind == KITH_LINEAR_WHOLE) {
        input.rows = linear->is_sequence_split ? ki_tape_local_tokens(tape) : -1; // else its gradient is no summand
    }
    return input;
}

ki_expected ki_linear_output(const kith_linear *linear, const kith_tape *tape)
{
    const kith_linear_options *o = &linear->options;
    ki_expected output = { -1, linear->out, linear->layers->dtype, KITH_LAYOUT_UNKNOWN, 0 };
    if (o->kind == KITH_LINEAR_WHOLE)
        return output;
    bool is_shard = o->kind == KITH_LINEAR_ROW && linear->is_sequence_split;
    if (linear->is_sequence_split)
        output.rows = is_shard ? ki_tape_local_tokens(tape) : ki_tape_tokens(tape);
    if (o->kind == KITH_LINEAR_COLUMN && !o->is_output_gathered) {
        output.layout = KITH_SPLIT;
        output.split_dim = -1;
    } else {
        output.layout = is_shard ? KITH_SPLIT : KITH_REPLICATED;
        if (o->kind == KITH_LINEAR_COLUMN)
            output.features = o->out_features;
    }
    return output;
}

static kith_status multiply(kith_linear *linear, ki_mat x, kith_tensor *y)
{
    ki_compute *compute = linear->layers->compute;
    return compute->ops->gemm(compute, KI_AS_IS, KI_TRANSPOSED, 1, x, ki_mat_of(&linear->weight), 0, ki_mat_of(y));
}

static bool adds_bias(const kith_linear *linear)
{
    return linear->options.has_bias && !linear->options.is_bias_left_out;
}

static kith_status add_bias(kith_linear *linear, kith_tensor *y)
{
    if (!adds_bias(linear))
        return KITH_OK;
    ki_compute *compute = linear->layers->compute;
    return compute->ops->bias_add(compute, ki_mat_of(&linear->bias), ki_mat_of(y));
}

/* Both, in one where the device has it. */
static kith_status multiply_and_add(kith_linear *linear, ki_mat x, kith_tensor *y)
{
    ki_compute *compute = linear->layers->compute;
    if (adds_bias(linear) && compute->ops->gemm_bias != NULL)
        return compute->ops->gemm_bias(compute, KI_AS_IS, KI_TRANSPOSED, x, ki_mat_of(&linear->weight),
                                       ki_mat_of(&linear->bias), ki_mat_of(y));
    kith_status status = multiply(linear, x, y);
    return status == KITH_OK ? add_bias(linear, y) : status;
}

static kith_status forward_column(kith_linear *linear, kith_tape *tape, const kith_tensor *x, kith_tensor *y)
{
    kith_layers *layers = linear->layers;
    kith_tensor whole = { 0 }, product = { 0 };
    kith_status status;
    if (linear->is_sequence_split)
        KI_OR_GOTO(end, ki_tape_gather(tape, x, &whole));
    else
        KI_OR_GOTO(end, kith_tensor_retain(x, &whole));
    KI_OR_GOTO(end, ki_tensor_create_like(layers, &whole, linear->out, &product));
    KI_OR_GOTO(end, multiply_and_add(linear, ki_mat_of(&whole), &product));
    product = ki_with_layout(product, KITH_SPLIT, product.dim_count - 1);
    if (linear->options.is_output_gathered)
        KI_OR_GOTO(end, kith_tensor_all_gather(layers, tape->phase, product.dim_count - 1, 1,
                                               linear->options.out_features, &product, y));
    else
        KI_OR_GOTO(end, kith_tensor_retain(&product, y));
end:
    kith_tensor_release(&whole);
    kith_tensor_release(&product);
    return status;
}

/* Bias comes after the sum: once, and not once for each rank. */
static kith_status forward_row(kith_linear *linear, kith_tape *tape, const kith_tensor *x, kith_tensor *y)
{
    kith_layers *layers = linear->layers;
    kith_tensor sum = { 0 }, result = { 0 };
    kith_status status;
    ki_mat own = ki_mat_of(x);
    if (linear->options.is_input_whole)
        own = ki_mat_cols(own, linear->first_in, linear->in);
    KI_OR_GOTO(end, ki_tensor_create_like(layers, x, linear->out, &sum));
    KI_OR_GOTO(end, multiply(linear, own, &sum));
    sum = ki_with_layout(sum, KITH_PARTIAL, 0);
    if (linear->is_sequence_split) {
        KI_OR_GOTO(end, ki_tape_scatter(tape, &sum, &result));
    } else {
        KI_OR_GOTO(end, ki_comm_all_reduce(layers, tape->phase, ki_comm_tp(layers), sum.data, kith_tensor_count(&sum),
                                           sum.dtype, KITH_SUM));
        sum = ki_with_layout(sum, KITH_REPLICATED, 0);
        KI_OR_GOTO(end, kith_tensor_retain(&sum, &result));
    }
    KI_OR_GOTO(end, add_bias(linear, &result));
    KI_OR_GOTO(end, kith_tensor_retain(&result, y));
end:
    kith_tensor_release(&sum);
    kith_tensor_release(&result);
    return status;
}

static kith_status forward_whole(kith_linear *linear, const kith_tensor *x, kith_tensor *y)
{
    kith_tensor product = { 0 };
    kith_status status;
    KI_OR_GOTO(end, ki_tensor_create_like(linear->layers, x, linear->out, &product));
    KI_OR_GOTO(end, multiply_and_add(linear, ki_mat_of(x), &product));
    KI_OR_GOTO(end, kith_tensor_retain(&product, y));
end:
    kith_tensor_release(&product);
    return status;
}

kith_status kith_linear_forward(kith_linear *linear, kith_tape *tape, const kith_tensor *x, kith_tensor *y)
{
    if (linear == NULL || y == NULL)
        return ki_fail(KITH_ERR_INVALID_ARG, "kith_linear_forward: linear and y must not be NULL");
    kith_status status = ki_tape_enter(tape, linear->layers, "kith_linear_forward", KITH_PHASE_FORWARD);
    if (status != KITH_OK)
        return status;
    ki_expected input = ki_linear_input(linear, tape);
    status = ki_expect(linear->layers, "kith_linear_forward: x", x, &input);
    if (status != KITH_OK)
        return status;
    kith_tensor made = { 0 };
    if (linear->options.kind == KITH_LINEAR_COLUMN)
        status = forward_column(linear, tape, x, &made);
    else if (linear->options.kind == KITH_LINEAR_ROW)
        status = forward_row(linear, tape, x, &made);
    else
        status = forward_whole(linear, x, &made);
    ki_saved saved = { .owner = linear, .name = linear->name };
    if (status == KITH_OK)
        status = ki_saved_keep(&saved, 0, x);
    if (status == KITH_OK)
        status = ki_tape_push(tape, &saved);
    if (status == KITH_OK)
        *y = made;
    else
        kith_tensor_release(&made);
    return status;
}
