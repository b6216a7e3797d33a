/* layers/head_loss.c - hidden states to losses, and back; logits for evaluation.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "head.h"

#include <math.h>

enum { LOGITS, TARGETS, TOP, SUMS }; /* on the tape */

static kith_status check_input(const kith_head *head, const kith_tape *tape, const char *what, const kith_tensor *x)
{
    bool is_shard = head->layers->options.is_sequence_parallel != 0;
    ki_expected input = { ki_tape_local_tokens(tape), head->options.features, head->layers->dtype,
                          is_shard ? KITH_SPLIT : KITH_REPLICATED, 0 };
    return ki_expect(head->layers, what, x, &input);
}

/* [tokens, this rank's words], or all words where logits are gathered. */
static kith_status compute_logits(kith_head *head, kith_tape *tape, const kith_tensor *x, bool is_gathered,
                                  kith_tensor *logits)
{
    kith_tensor own = { 0 };
    kith_status status = kith_linear_forward(head->linear, tape, x, &own);
    if (status == KITH_OK)
        status = is_gathered ? ki_head_gather(head, tape, &own, logits) : kith_tensor_retain(&own, logits);
    kith_tensor_release(&own);
    return status;
}

static kith_status compute_losses(kith_head *head, kith_tape *tape, const kith_tensor *targets, ki_saved *saved,
                                  kith_tensor *losses, double *sum)
{
    kith_tensor there = { 0 };
    kith_status status = ki_ids_bring_in(tape, targets, &there);
    if (status == KITH_OK)
        status = ki_saved_keep(saved, TARGETS, &there);
    if (status == KITH_OK)
        status =
            ki_cross_entropy_forward(tape, &head->loss, ki_mat_of(&saved->tensors[LOGITS]), (const int32_t *)there.data,
                                     &saved->tensors[TOP], &saved->tensors[SUMS], losses, sum);
    kith_tensor_release(&there);
    return status;
}

kith_status kith_head_forward(kith_head *head, kith_tape *tape, const kith_tensor *x, const kith_tensor *targets,
                              kith_tensor *losses, double *sum, int64_t *count)
{
    if (head == NULL)
        return ki_fail(KITH_ERR_INVALID_ARG, "kith_head_forward: head must not be NULL");
    kith_status status = ki_tape_enter(tape, head->layers, "kith_head_forward", KITH_PHASE_FORWARD);
    if (status != KITH_OK)
        return status;
    size_t depth = tape->depth;
    ki_saved saved = { .owner = head, .name = head->name };
    kith_tensor made = { 0 };
    double total = 0;
    int64_t counted = 0;
    KI_OR_GOTO(end, check_input(head, tape, "kith_head_forward: x", x));
    KI_OR_GOTO(end, ki_ids_check(tape, "kith_head_forward: targets", targets, head->options.vocabulary,
                                 &head->options.ignored, &counted));
    KI_OR_GOTO(end, compute_logits(head, tape, x, head->options.is_gathered, &saved.tensors[LOGITS]));
    KI_OR_GOTO(end, compute_losses(head, tape, targets, &saved, &made, sum == NULL ? NULL : &total));
    KI_OR_GOTO(end, ki_tape_push(tape, &saved));
    if (losses != NULL)
        KI_OR_GOTO(end, kith_tensor_retain(&made, losses));
    if (sum != NULL)
        *sum = total;
    if (count != NULL)
        *count = counted;
end:
    if (status != KITH_OK)
        ki_tape_drop(tape, depth);
    ki_saved_release(&saved);
    kith_tensor_release(&made);
    return status;
}

/* The gradient of this rank's logits: in the place of the logits, or of its columns of them. */
static kith_status compute_dlogits(kith_head *head, kith_tape *tape, const ki_saved *saved, double grad_scale,
                                   kith_tensor *dlogits)
{
    const kith_tensor *logits = &saved->tensors[LOGITS];
    ki_cross_entropy how = head->loss;
    ki_mat own = ki_mat_of(logits);
    kith_status status;
    if (head->options.is_gathered) {
        how.first = head->vocabulary.first;
        own = ki_mat_cols(own, how.first, head->vocabulary.count);
        status = ki_tensor_create_like(head->layers, logits, head->vocabulary.count, dlogits);
    } else {
        status = kith_tensor_retain(logits, dlogits);
    }
    if (status == KITH_OK)
        status = ki_cross_entropy_backward(tape, &how, own, (const int32_t *)saved->tensors[TARGETS].data,
                                           &saved->tensors[TOP], &saved->tensors[SUMS], grad_scale, ki_mat_of(dlogits));
    *dlogits = ki_with_layout(*dlogits, KITH_SPLIT, dlogits->dim_count - 1);
    return status;
}

kith_status kith_head_backward(kith_head *head, kith_tape *tape, double grad_scale, kith_tensor *dx)
{
    if (head == NULL)
        return ki_fail(KITH_ERR_INVALID_ARG, "kith_head_backward: head must not be NULL");
    if (!isfinite(grad_scale))
        return ki_fail(KITH_ERR_INVALID_ARG, "kith_head_backward: grad_scale is %g, wanted a finite number",
                       grad_scale);
    kith_status status = ki_tape_enter(tape, head->layers, "kith_head_backward", KITH_PHASE_BACKWARD);
    ki_saved saved = { 0 };
    if (status == KITH_OK)
        status = ki_tape_pop(tape, head, head->name, &saved);
    if (status != KITH_OK)
        return status;
    kith_tensor dlogits = { 0 };
    status = compute_dlogits(head, tape, &saved, grad_scale, &dlogits);
    ki_saved_release(&saved); // logits that were gathered are not needed any more
    if (status == KITH_OK)
        status = kith_linear_backward(head->linear, tape, &dlogits, dx);
    kith_tensor_release(&dlogits);
    return status;
}

kith_status kith_head_logits(kith_head *head, kith_tape *tape, const kith_tensor *x, kith_tensor *logits)
{
    if (head == NULL || logits == NULL)
        return ki_fail(KITH_ERR_INVALID_ARG, "kith_head_logits: head and logits must not be NULL");
    kith_status status = ki_tape_enter(tape, head->layers, "kith_head_logits", KITH_PHASE_FORWARD);
    if (status == KITH_OK)
        status = check_input(head, tape, "kith_head_logits: x", x);
    if (status != KITH_OK)
        return status;
    size_t depth = tape->depth;
    kith_tensor made = { 0 };
    status = compute_logits(head, tape, x, true, &made);
    ki_tape_drop(tape, depth);
    if (status == KITH_OK)
        *logits = ki_with_layout(made, KITH_REPLICATED, 0);
    else
        kith_tensor_release(&made);
    return status;
}
