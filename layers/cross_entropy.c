/* layers/cross_entropy.c - vocabulary-parallel cross entropy: two collectives forward, none backward.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "cross_entropy.h"

/* Of all ranks, where they have different words. */
static kith_status over_ranks(kith_tape *tape, const ki_cross_entropy *how, const kith_tensor *numbers, kith_op op)
{
    kith_layers *layers = tape->layers;
    if (!how->is_split)
        return KITH_OK;
    return ki_comm_all_reduce(layers, tape->phase, ki_comm_tp(layers), numbers->data, kith_tensor_count(numbers),
                              numbers->dtype, op);
}

static kith_status find_top(kith_tape *tape, const ki_cross_entropy *how, ki_mat logits, kith_tensor *top)
{
    ki_compute *compute = tape->layers->compute;
    kith_status status = ki_tensor_create_2d(tape->layers, tape->layers->accumulator, logits.rows, 1, top);
    if (status == KITH_OK)
        status = compute->ops->row_max(compute, logits, ki_mat_of(top));
    return status == KITH_OK ? over_ranks(tape, how, top, KITH_MAX) : status;
}

static kith_status find_sums(kith_tape *tape, const ki_cross_entropy *how, ki_mat logits, const int32_t *targets,
                             const kith_tensor *top, kith_tensor *sums)
{
    ki_compute *compute = tape->layers->compute;
    int64_t numbers = how->smoothing != 0 ? 3 : 2;
    kith_status status = ki_tensor_create_2d(tape->layers, tape->layers->accumulator, logits.rows, numbers, sums);
    if (status == KITH_OK)
        status = compute->ops->loss_sums(compute, logits, targets, how->first, ki_mat_of(top), ki_mat_of(sums));
    return status == KITH_OK ? over_ranks(tape, how, sums, KITH_SUM) : status;
}

static ki_mat column_of(const kith_tensor *vector)
{
    ki_mat column = { vector->data, vector->shape[0], 1, 1, vector->dtype };
    return column;
}

static kith_status find_losses(kith_tape *tape, const ki_cross_entropy *how, const int32_t *targets,
                               const kith_tensor *sums, kith_tensor *losses, double *sum)
{
    ki_compute *compute = tape->layers->compute;
    kith_status status = kith_tensor_create(tape->layers, sums->dtype, 1, sums->shape, losses);
    if (status == KITH_OK)
        status = compute->ops->losses(compute, ki_mat_of(sums), targets, how->ignored, how->smoothing, how->words,
                                      column_of(losses));
    if (status == KITH_OK && sum != NULL)
        status = ki_space_wait(&tape->layers->space); // the sum waits for the device, and knows no deadline
    if (status == KITH_OK && sum != NULL)
        status = compute->ops->sum_elements(compute, column_of(losses), sum);
    *losses = ki_with_layout(*losses, KITH_REPLICATED, 0);
    return status;
}

kith_status ki_cross_entropy_forward(kith_tape *tape, const ki_cross_entropy *how, ki_mat logits,
                                     const int32_t *targets, kith_tensor *top, kith_tensor *sums, kith_tensor *losses,
                                     double *sum)
{
    kith_status status = find_top(tape, how, logits, top);
    if (status == KITH_OK)
        status = find_sums(tape, how, logits, targets, top, sums);
    if (status == KITH_OK)
        status = find_losses(tape, how, targets, sums, losses, sum);
    return status;
}

kith_status ki_cross_entropy_backward(kith_tape *tape, const ki_cross_entropy *how, ki_mat logits,
                                      const int32_t *targets, const kith_tensor *top, const kith_tensor *sums,
                                      double scale, ki_mat dlogits)
{
    ki_compute *compute = tape->layers->compute;
    return compute->ops->loss_grad(compute, logits, targets, how->first, how->ignored, how->smoothing, how->words,
                                   scale, ki_mat_of(top), ki_mat_of(sums), dlogits);
}
