/* layers/attention_pass.c - forward and backward of the whole attention layer.
 *
 * Kept for backward: x (by the projection to q, k, v), fused q, k and v, the core's output (by the output projection,
 * whose input it is) and its lse. With recomputation of the core the last two are let go: the output projection's entry
 * on the tape loses its input, and gets it again, computed from q, k, v, before that layer's backward asks for it.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "attention.h"

enum { FUSED, OUT, LSE }; // what is saved

static ki_expected input_of(const kith_attention *attention, const kith_tape *tape)
{
    ki_expected input = ki_linear_input(attention->qkv, tape);
    if (input.rows < 0) // a row is a place in a sequence here, unlike in a linear layer
        input.rows = ki_tape_tokens(tape);
    return input;
}

/* The output projection's entry is on top: its input, the first tensor of a linear layer's entry, goes. */
static void forget_out(kith_tape *tape)
{
    if (tape->batch.is_training != 0)
        kith_tensor_release(&tape->saved[tape->depth - 1].tensors[0]);
}

static kith_status remember_out(kith_tape *tape, const kith_tensor *out)
{
    return ki_saved_keep(&tape->saved[tape->depth - 1], 0, out);
}

static kith_status save(const kith_attention *attention, kith_tape *tape, size_t depth, const kith_tensor *fused,
                        const kith_tensor *out, const kith_tensor *lse)
{
    ki_saved saved = { .owner = attention, .name = attention->name, .numbers = { (int64_t)depth } };
    kith_status status = ki_saved_keep(&saved, FUSED, fused);
    if (status == KITH_OK && attention->options.is_core_recomputed) {
        forget_out(tape);
    } else if (status == KITH_OK) {
        status = ki_saved_keep(&saved, OUT, out);
        if (status == KITH_OK)
            status = ki_saved_keep(&saved, LSE, lse);
    }
    return status == KITH_OK ? ki_tape_push(tape, &saved) : status;
}

kith_status kith_attention_forward(kith_attention *attention, kith_tape *tape, const kith_tensor *x, kith_tensor *y)
{
    static const char function[] = "kith_attention_forward";
    if (attention == NULL || y == NULL)
        return ki_fail(KITH_ERR_INVALID_ARG, "%s: attention and y must not be NULL", function);
    kith_status status = ki_tape_enter(tape, attention->layers, function, KITH_PHASE_FORWARD);
    if (status != KITH_OK)
        return status;
    size_t depth = tape->depth;
    ki_attention_inputs inputs = { 0 };
    kith_tensor fused = { 0 }, out = { 0 }, lse = { 0 }, made = { 0 };
    ki_expected input = input_of(attention, tape);
    KI_OR_GOTO(end, ki_expect(attention->layers, "kith_attention_forward: x", x, &input));
    KI_OR_GOTO(end, kith_linear_forward(attention->qkv, tape, x, &fused));
    KI_OR_GOTO(end, ki_attention_inputs_make(attention, tape, &fused, true, &inputs));
    KI_OR_GOTO(end, ki_attention_core(attention, tape, &fused, &inputs, &out, &lse));
    ki_attention_inputs_release(&inputs);
    KI_OR_GOTO(end, kith_linear_forward(attention->out, tape, &out, &made));
    KI_OR_GOTO(end, save(attention, tape, depth, &fused, &out, &lse));
    KI_OR_GOTO(end, kith_tensor_retain(&made, y));
end:
    if (status != KITH_OK)
        ki_tape_drop(tape, depth);
    ki_attention_inputs_release(&inputs);
    kith_tensor *all[] = { &fused, &out, &lse, &made };
    for (int i = 0; i < 4; i++)
        kith_tensor_release(all[i]);
    return status;
}

/* dy is checked before anything is taken off the tape. */
static kith_status take_off(kith_attention *attention, kith_tape *tape, const kith_tensor *dy, ki_saved *saved)
{
    const ki_saved *top = NULL;
    kith_status status = ki_tape_peek(tape, attention, attention->name, &top);
    if (status != KITH_OK)
        return status;
    ki_expected output = ki_linear_output(attention->out, tape);
    if (output.rows < 0)
        output.rows = ki_tape_tokens(tape);
    status = ki_expect(attention->layers, "kith_attention_backward: dy", dy, &output);
    return status == KITH_OK ? ki_tape_pop(tape, attention, attention->name, saved) : status;
}

kith_status kith_attention_backward(kith_attention *attention, kith_tape *tape, const kith_tensor *dy, kith_tensor *dx)
{
    static const char function[] = "kith_attention_backward";
    if (attention == NULL)
        return ki_fail(KITH_ERR_INVALID_ARG, "%s: attention must not be NULL", function);
    ki_saved saved = { 0 };
    ki_attention_inputs inputs = { 0 };
    kith_tensor dout = { 0 }, dfused = { 0 };
    kith_tensor *fused = &saved.tensors[FUSED], *out = &saved.tensors[OUT], *lse = &saved.tensors[LSE];
    kith_status status;
    KI_OR_GOTO(end, ki_tape_enter(tape, attention->layers, function, KITH_PHASE_BACKWARD));
    KI_OR_GOTO(end, take_off(attention, tape, dy, &saved));
    KI_OR_GOTO(end, ki_attention_inputs_make(attention, tape, fused, false, &inputs));
    if (attention->options.is_core_recomputed) {
        KI_OR_GOTO(end, ki_attention_core(attention, tape, fused, &inputs, out, lse));
        KI_OR_GOTO(end, remember_out(tape, out));
    }
    KI_OR_GOTO(end, kith_linear_backward(attention->out, tape, dy, &dout));
    KI_OR_GOTO(end, ki_attention_core_grad(attention, tape, fused, &inputs, out, lse, &dout, &dfused));
    ki_attention_inputs_release(&inputs);
    ki_saved_release(&saved); // before the projection makes what it needs
    kith_tensor_release(&dout);
    KI_OR_GOTO(end, kith_linear_backward(attention->qkv, tape, &dfused, dx));
end:
    if (status != KITH_OK && saved.owner != NULL)
        ki_tape_drop(tape, (size_t)saved.numbers[0]);
    ki_attention_inputs_release(&inputs);
    ki_saved_release(&saved);
    kith_tensor_release(&dout);
    kith_tensor_release(&dfused);
    return status;
}
