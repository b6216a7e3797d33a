/* layers/transformer_forward.c - ids to losses, or one stage's part of the way; and back.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "transformer.h"

#include "head.h"
#include <math.h>

static kith_status check_forward(const kith_transformer *transformer, const char *function, const kith_tensor *input,
                                 const kith_tensor *targets, const kith_tensor *y)
{
    if (transformer == NULL || input == NULL)
        return ki_fail(KITH_ERR_INVALID_ARG, "%s: transformer and input must not be NULL", function);
    if (transformer->head != NULL && (targets == NULL || y != NULL))
        return ki_fail(KITH_ERR_INVALID_ARG, "%s: a stage with the head takes targets, and gives no y", function);
    if (transformer->head == NULL && (targets != NULL || y == NULL))
        return ki_fail(KITH_ERR_INVALID_ARG, "%s: a stage without the head takes no targets, and gives y", function);
    return KITH_OK;
}

/* Ids and targets before anything is sent; what they are not is found by the layers, and costs no message either. */
static kith_status check_words(const kith_transformer *transformer, const kith_tape *tape, const kith_tensor *input,
                               const kith_tensor *targets)
{
    int64_t words = transformer->config.vocabulary;
    kith_status status = KITH_OK;
    if (transformer->embedding != NULL)
        status = ki_ids_check(tape, "kith_transformer_forward: ids", input, words, NULL, NULL);
    if (status == KITH_OK && transformer->head != NULL)
        status = ki_ids_check(tape, "kith_transformer_forward: targets", targets, words,
                              &transformer->head->options.ignored, NULL);
    return status;
}

/* input to what leaves the last block of the stage. */
static kith_status to_hidden(kith_transformer *transformer, kith_tape *tape, const kith_tensor *input,
                             kith_tensor *hidden, kith_transformer_loss *loss)
{
    kith_tensor x = { 0 };
    kith_status status;
    if (transformer->embedding != NULL)
        KI_OR_GOTO(end, kith_embedding_forward(transformer->embedding, tape, input, &x));
    else
        KI_OR_GOTO(end, kith_tensor_retain(input, &x));
    KI_OR_GOTO(end, ki_transformer_blocks_forward(transformer, tape, &x, hidden, loss));
end:
    kith_tensor_release(&x);
    return status;
}

kith_status kith_transformer_forward(kith_transformer *transformer, kith_tape *tape, const kith_tensor *input,
                                     const kith_tensor *targets, kith_tensor *y, kith_transformer_loss *loss)
{
    static const char function[] = "kith_transformer_forward";
    kith_status status = check_forward(transformer, function, input, targets, y);
    if (status == KITH_OK)
        status = ki_tape_enter(tape, transformer->layers, function, KITH_PHASE_FORWARD);
    if (status == KITH_OK)
        status = check_words(transformer, tape, input, targets);
    if (status != KITH_OK)
        return status;
    size_t depth = tape->depth;
    kith_tensor hidden = { 0 }, normed = { 0 };
    kith_transformer_loss found = { 0, 0, 0, 0 };
    KI_OR_GOTO(end, to_hidden(transformer, tape, input, &hidden, &found));
    if (transformer->head != NULL) {
        KI_OR_GOTO(end, kith_norm_forward(transformer->norm, tape, &hidden, &normed));
        KI_OR_GOTO(end, kith_head_forward(transformer->head, tape, &normed, targets, NULL, &found.sum, &found.count));
    } else {
        KI_OR_GOTO(end, kith_tensor_retain(&hidden, y));
    }
    if (loss != NULL)
        *loss = found;
end:
    if (status != KITH_OK)
        ki_tape_drop(tape, depth);
    kith_tensor_release(&hidden);
    kith_tensor_release(&normed);
    return status;
}

kith_status kith_transformer_backward(kith_transformer *transformer, kith_tape *tape, const kith_tensor *dy,
                                      double grad_scale, double auxiliary_scale, kith_tensor *dx)
{
    if (transformer == NULL || (transformer->head == NULL) != (dy != NULL) ||
        (transformer->embedding == NULL) != (dx != NULL))
        return ki_fail(
            KITH_ERR_INVALID_ARG,
            "kith_transformer_backward: transformer must not be NULL; dy goes with a stage without the head, dx with "
            "one without the embedding");
    if (!isfinite(grad_scale) || !isfinite(auxiliary_scale))
        return ki_fail(KITH_ERR_INVALID_ARG,
                       "kith_transformer_backward: grad_scale %g, auxiliary_scale %g: wanted finite numbers",
                       grad_scale, auxiliary_scale);
    kith_tensor dnormed = { 0 }, dhidden = { 0 }, made = { 0 };
    kith_status status = ki_tape_enter(tape, transformer->layers, "kith_transformer_backward", KITH_PHASE_BACKWARD);
    if (status != KITH_OK)
        return status;
    size_t depth = tape->depth;
    if (transformer->head != NULL) {
        KI_OR_GOTO(end, kith_head_backward(transformer->head, tape, grad_scale, &dnormed));
        KI_OR_GOTO(end, kith_norm_backward(transformer->norm, tape, &dnormed, &dhidden));
        kith_tensor_release(&dnormed);
    } else {
        KI_OR_GOTO(end, kith_tensor_retain(dy, &dhidden));
    }
    KI_OR_GOTO(end, ki_transformer_blocks_backward(transformer, tape, &dhidden, auxiliary_scale, &made));
    if (transformer->embedding != NULL)
        KI_OR_GOTO(end, kith_embedding_backward(transformer->embedding, tape, &made));
    else
        KI_OR_GOTO(end, kith_tensor_retain(&made, dx));
end:
    if (status != KITH_OK)
        ki_tape_spoil(tape, depth);
    kith_tensor_release(&dnormed);
    kith_tensor_release(&dhidden);
    kith_tensor_release(&made);
    return status;
}

kith_status kith_transformer_logits(kith_transformer *transformer, kith_tape *tape, const kith_tensor *input,
                                    kith_tensor *logits)
{
    if (transformer == NULL || transformer->head == NULL || input == NULL || logits == NULL || tape == NULL)
        return ki_fail(KITH_ERR_INVALID_ARG,
                       "kith_transformer_logits: a stage with the head, a tape, input and logits are needed");
    kith_tensor hidden = { 0 }, normed = { 0 };
    size_t depth = kith_tape_depth(tape);
    kith_status status;
    KI_OR_GOTO(end, to_hidden(transformer, tape, input, &hidden, NULL));
    KI_OR_GOTO(end, kith_norm_forward(transformer->norm, tape, &hidden, &normed));
    KI_OR_GOTO(end, kith_head_logits(transformer->head, tape, &normed, logits));
end:
    ki_tape_drop(tape, depth);
    kith_tensor_release(&hidden);
    kith_tensor_release(&normed);
    return status;
}
