/* layers/region.c - collectives on tensors, along any dimension.
 *
 * Collectives join parts one after the other in memory, which is right for dimension 0 alone. Along another
 * dimension the parts are received into a buffer and copied to their columns, or copied together before they are
 * sent.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "layers.h"

static kith_status check(const kith_layers *layers, const char *function, kith_layers_phase phase, const kith_tensor *x,
                         const kith_tensor *y, kith_layout wanted, int dim)
{
    if (layers == NULL || x == NULL || y == NULL || x->dim_count == 0)
        return ki_fail(KITH_ERR_INVALID_ARG, "%s: layers, x and y must be there", function);
    if (!kith_tensor_is_contiguous(x))
        return ki_fail(KITH_ERR_INVALID_ARG, "%s: x is not contiguous; copy it first", function);
    if (x->data == NULL && !layers->is_dry && kith_tensor_count(x) > 0)
        return ki_fail(KITH_ERR_INVALID_ARG, "%s: x has no data", function);
    if (x->buffer == NULL && !ki_space_has(&layers->space, x->data))
        return ki_fail(KITH_ERR_INVALID_ARG, "%s: x lies in the host's memory, and the layers compute on a device",
                       function);
    if (phase < 0 || phase >= KITH_PHASES)
        return ki_fail(KITH_ERR_INVALID_ARG, "%s: phase %d, wanted 0 to %d", function, (int)phase, KITH_PHASES - 1);
    if (dim < 0 || dim >= x->dim_count)
        return ki_fail(KITH_ERR_INVALID_ARG, "%s: dim %d, wanted 0 to %d", function, dim, x->dim_count - 1);
    if (!layers->options.is_debug || layers->tp_size == 1 || x->layout == KITH_LAYOUT_UNKNOWN)
        return KITH_OK;
    if (x->layout != wanted || (wanted == KITH_SPLIT && x->split_dim != dim))
        return ki_fail(KITH_ERR_INVALID_ARG, "%s: x is %s%s, wanted %s", function, kith_layout_name(x->layout),
                       x->layout == wanted ? " along another dimension" : "", kith_layout_name(wanted));
    return KITH_OK;
}

/* A tensor as [outer, size along dim * inner]: parts along dim are columns. */
static ki_mat around(const kith_tensor *tensor, int dim)
{
    int64_t outer = 1;
    for (int d = 0; d < dim; d++)
        outer *= tensor->shape[d];
    int64_t cols = outer > 0 ? kith_tensor_count(tensor) / outer : 0;
    ki_mat mat = { tensor->data, outer, cols, cols, tensor->dtype };
    return mat;
}

static int64_t inner_of(const kith_tensor *tensor, int dim)
{
    int64_t inner = 1;
    for (int d = dim + 1; d < tensor->dim_count; d++)
        inner *= tensor->shape[d];
    return inner;
}

static kith_status create_resized(kith_layers *layers, const kith_tensor *x, int dim, int64_t size, kith_tensor *made)
{
    int64_t shape[KITH_TENSOR_DIMS];
    memcpy(shape, x->shape, sizeof shape);
    shape[dim] = size;
    return kith_tensor_create(layers, x->dtype, x->dim_count, shape, made);
}

typedef enum way { TOGETHER, APART } way;

/* Between a whole and its parts lying one after the other: [outer, all] and, for each rank, [outer, its part]. */
static kith_status rearrange(kith_layers *layers, ki_mat whole, void *parts, int64_t units, int64_t width, way which)
{
    ki_compute *compute = layers->compute;
    ki_mat at = whole;
    at.data = parts;
    kith_status status = KITH_OK;
    for (int r = 0; r < layers->tp_size && status == KITH_OK; r++) {
        int64_t first, count;
        kith_split_range(units, layers->tp_size, r, &first, &count);
        at.cols = at.stride = count * width;
        ki_mat columns = ki_mat_cols(whole, first * width, count * width);
        status =
            which == TOGETHER ? compute->ops->copy(compute, at, columns) : compute->ops->copy(compute, columns, at);
        if (at.data != NULL)
            at.data = (char *)at.data + at.rows * at.cols * (int64_t)kith_dtype_nbytes(at.dtype);
    }
    return status;
}

kith_status kith_tensor_all_reduce(kith_layers *layers, kith_layers_phase phase, const kith_tensor *x, kith_tensor *y)
{
    kith_status status = check(layers, "kith_tensor_all_reduce", phase, x, y, KITH_PARTIAL, 0);
    kith_tensor made = { 0 };
    if (status == KITH_OK)
        status = kith_tensor_create(layers, x->dtype, x->dim_count, x->shape, &made);
    if (status == KITH_OK && made.data != NULL)
        status = ki_space_copy(&layers->space, made.data, x->data, ki_tensor_nbytes(x));
    if (status == KITH_OK)
        status =
            ki_comm_all_reduce(layers, phase, ki_comm_tp(layers), made.data, kith_tensor_count(x), x->dtype, KITH_SUM);
    if (status == KITH_OK)
        *y = ki_with_layout(made, KITH_REPLICATED, 0);
    else
        kith_tensor_release(&made);
    return status;
}

static kith_status check_units(const char *function, int64_t size, int64_t unit)
{
    if (unit >= 1 && size % unit == 0)
        return KITH_OK;
    return ki_fail(KITH_ERR_INVALID_ARG, "%s: %lld indices in units of %lld: a multiple is wanted", function,
                   (long long)size, (long long)unit);
}

kith_status kith_tensor_reduce_scatter(kith_layers *layers, kith_layers_phase phase, int dim, int64_t unit,
                                       const kith_tensor *x, kith_tensor *y)
{
    static const char function[] = "kith_tensor_reduce_scatter";
    kith_tensor parts = { 0 }, made = { 0 };
    ki_started started = { 0 };
    kith_status status;
    KI_OR_GOTO(end, check(layers, function, phase, x, y, KITH_PARTIAL, dim));
    KI_OR_GOTO(end, check_units(function, x->shape[dim], unit));
    int64_t units = x->shape[dim] / unit, first, count;
    kith_split_range(units, layers->tp_size, layers->tp_rank, &first, &count);
    KI_OR_GOTO(end, create_resized(layers, x, dim, count * unit, &made));
    KI_OR_GOTO(end, kith_tensor_create(layers, x->dtype, x->dim_count, x->shape, &parts));
    ki_mat whole = around(x, dim);
    int64_t width = unit * inner_of(x, dim);
    KI_OR_GOTO(end, rearrange(layers, whole, parts.data, units, width, APART));
    KI_OR_GOTO(end, ki_comm_reduce_scatter_start(layers, phase, ki_comm_tp(layers), parts.data, made.data, units,
                                                 whole.rows * width, x->dtype, &started));
    KI_OR_GOTO(end, ki_comm_wait(&started));
    made = ki_with_layout(made, KITH_SPLIT, dim);
    KI_OR_GOTO(end, kith_tensor_retain(&made, y));
end:
    kith_tensor_release(&parts);
    kith_tensor_release(&made);
    return status;
}

kith_status kith_tensor_all_gather(kith_layers *layers, kith_layers_phase phase, int dim, int64_t unit, int64_t total,
                                   const kith_tensor *x, kith_tensor *y)
{
    static const char function[] = "kith_tensor_all_gather";
    kith_tensor parts = { 0 }, made = { 0 };
    ki_started started = { 0 };
    kith_status status;
    KI_OR_GOTO(end, check(layers, function, phase, x, y, KITH_SPLIT, dim));
    KI_OR_GOTO(end, check_units(function, total, unit));
    int64_t units = total / unit, first, count;
    kith_split_range(units, layers->tp_size, layers->tp_rank, &first, &count);
    if (x->shape[dim] != count * unit) {
        status =
            ki_fail(KITH_ERR_INVALID_ARG, "%s: x has %lld indices along dimension %d, this rank's part of %lld is %lld",
                    function, (long long)x->shape[dim], dim, (long long)total, (long long)(count * unit));
        goto end;
    }
    KI_OR_GOTO(end, create_resized(layers, x, dim, total, &made));
    KI_OR_GOTO(end, create_resized(layers, x, dim, total, &parts));
    ki_mat whole = around(&made, dim);
    int64_t width = unit * inner_of(x, dim);
    KI_OR_GOTO(end, ki_comm_all_gather_start(layers, phase, ki_comm_tp(layers), x->data, parts.data, units,
                                             whole.rows * width, x->dtype, &started));
    KI_OR_GOTO(end, ki_comm_wait(&started));
    KI_OR_GOTO(end, rearrange(layers, whole, parts.data, units, width, TOGETHER));
    made = ki_with_layout(made, KITH_REPLICATED, 0);
    KI_OR_GOTO(end, kith_tensor_retain(&made, y));
end:
    kith_tensor_release(&parts);
    kith_tensor_release(&made);
    return status;
}

kith_status kith_tensor_split(kith_layers *layers, int dim, int64_t unit, const kith_tensor *x, kith_tensor *y)
{
    static const char function[] = "kith_tensor_split";
    kith_tensor made = { 0 };
    kith_status status;
    KI_OR_GOTO(end, check(layers, function, KITH_PHASE_FORWARD, x, y, KITH_REPLICATED, dim));
    KI_OR_GOTO(end, check_units(function, x->shape[dim], unit));
    int64_t first, count;
    kith_split_range(x->shape[dim] / unit, layers->tp_size, layers->tp_rank, &first, &count);
    KI_OR_GOTO(end, create_resized(layers, x, dim, count * unit, &made));
    int64_t width = unit * inner_of(x, dim);
    KI_OR_GOTO(end,
               layers->compute->ops->copy(layers->compute, ki_mat_cols(around(x, dim), first * width, count * width),
                                          around(&made, dim)));
    made = ki_with_layout(made, KITH_SPLIT, dim);
    KI_OR_GOTO(end, kith_tensor_retain(&made, y));
end:
    kith_tensor_release(&made);
    return status;
}
