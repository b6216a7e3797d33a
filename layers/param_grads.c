/* layers/param_grads.c - gradients of all parameters at once.
 *
 * Gradients that are summands go through one buffer for each set of ranks that share parameters, so a step ends with
 * one all-reduce over tp, however many norms and biases there are.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "layers.h"

kith_status kith_layers_zero_grads(kith_layers *layers)
{
    if (layers == NULL)
        return ki_fail(KITH_ERR_INVALID_ARG, "kith_layers_zero_grads: layers must not be NULL");
    kith_status status = KITH_OK;
    for (size_t i = 0; i < layers->param_count && status == KITH_OK; i++)
        status = layers->compute->ops->fill(layers->compute, ki_mat_of(&layers->params[i]->grad), 0);
    for (size_t i = 0; i < layers->param_count; i++)
        ki_block_of(layers->params[i])->added = 0;
    layers->has_finished_grads = false;
    if (layers->grad_hook.zeroed != NULL)
        layers->grad_hook.zeroed(layers->grad_hook.context);
    return status;
}

static bool is_of_set(const kith_param *param, int copies)
{
    return param->is_grad_partial && param->copies == copies;
}

typedef enum way { INTO_BUFFER, OUT_OF_BUFFER } way;

/* Copies the gradients of a set into one row of numbers, or back. */
static kith_status move(kith_layers *layers, int copies, const kith_tensor *row, way which)
{
    int64_t at = 0;
    kith_status status = KITH_OK;
    for (size_t i = 0; i < layers->param_count && status == KITH_OK; i++) {
        const kith_param *param = layers->params[i];
        if (!is_of_set(param, copies))
            continue;
        ki_mat grad = ki_mat_of(&param->grad), piece = ki_mat_of(row);
        piece = ki_mat_cols(piece, at, grad.rows * grad.cols);
        piece.rows = grad.rows;
        piece.stride = piece.cols = grad.cols;
        at += grad.rows * grad.cols;
        status = which == INTO_BUFFER ? layers->compute->ops->copy(layers->compute, grad, piece)
                                      : layers->compute->ops->copy(layers->compute, piece, grad);
    }
    return status;
}

static int64_t elements_of_set(const kith_layers *layers, int copies)
{
    int64_t elements = 0;
    for (size_t i = 0; i < layers->param_count; i++)
        if (is_of_set(layers->params[i], copies))
            elements += kith_tensor_count(&layers->params[i]->grad);
    return elements;
}

static kith_status finish_set(kith_layers *layers, int copies, kith_group *group)
{
    int64_t elements = elements_of_set(layers, copies);
    kith_tensor row = { 0 };
    kith_status status;
    KI_OR_GOTO(end, ki_tensor_create_2d(layers, layers->accumulator, 1, elements, &row));
    KI_OR_GOTO(end, move(layers, copies, &row, INTO_BUFFER));
    ki_comm comm = { group, copies, 0, KITH_LAYERS_TP, false };
    KI_OR_GOTO(end, ki_comm_all_reduce(layers, KITH_PHASE_FINISH, comm, row.data, elements, row.dtype, KITH_SUM));
    KI_OR_GOTO(end, move(layers, copies, &row, OUT_OF_BUFFER));
end:
    kith_tensor_release(&row);
    return status;
}

kith_status ki_layers_sum_partial_grads(kith_layers *layers)
{
    layers->has_finished_grads = true;
    kith_status status = ki_layers_make_copies(layers, 0);
    for (int copies = layers->tp_size; copies > 1 && status == KITH_OK; copies--)
        for (size_t i = 0; i < layers->param_count; i++)
            if (is_of_set(layers->params[i], copies)) {
                status = finish_set(layers, copies, layers->params[i]->copies_group);
                break;
            }
    return status;
}

kith_status kith_layers_finish_grads(kith_layers *layers)
{
    if (layers == NULL)
        return ki_fail(KITH_ERR_INVALID_ARG, "kith_layers_finish_grads: layers must not be NULL");
    if (layers->pending_weights > 0)
        return ki_fail(KITH_ERR_INVALID_ARG,
                       "kith_layers_finish_grads: gradients of %lld weights are still to be computed by "
                       "kith_tape_weight_grads()",
                       (long long)layers->pending_weights);
    if (layers->options.is_debug && layers->has_finished_grads)
        return ki_fail(KITH_ERR_INVALID_ARG,
                       "kith_layers_finish_grads: gradients were summed already; a step begins with "
                       "kith_layers_zero_grads()");
    return ki_layers_sum_partial_grads(layers);
}
