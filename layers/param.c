/* layers/param.c - parameters: this rank's parts, and how they come out of the whole and go back.
 *
 * A part is a run of indices along one dimension (or all of it), so loading is a copy of rows or of columns, and
 * gathering is an all-gather of parts. Parts that several ranks hold are taken from the first of them. Parameters
 * that are computed together (q, k, v) are rows of one matrix; each is a parameter of its own here.
 *
 * The whole may be memory of the host where the layers compute on a device: the part is then taken out of it on the
 * host, or the whole is put together on the device and brought to the host.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "layers.h"

#include "core/base/fault.h"
#include <stdio.h>
#include <stdlib.h>

static kith_status make_room(kith_layers *layers)
{
    if (layers->param_count < layers->param_room)
        return KITH_OK;
    size_t room = layers->param_room == 0 ? 64 : layers->param_room * 2;
    kith_param **grown = ki_fault(KI_FAULT_ALLOC) ? NULL : realloc(layers->params, room * sizeof(kith_param *));
    if (grown == NULL)
        return ki_fail(KITH_ERR_NO_MEMORY, "layers: no memory for the list of parameters");
    layers->params = grown;
    layers->param_room = room;
    return KITH_OK;
}

static kith_status name_param(kith_layers *layers, const ki_param_spec *spec, const char **name)
{
    kith_status status = ki_layers_join_name(layers, spec->prefix, spec->suffix, name);
    if (status == KITH_OK && kith_layers_find_param(layers, *name) != NULL)
        return ki_fail(KITH_ERR_INVALID_ARG, "layers: there is a parameter %s already; names must differ", *name);
    return status;
}

static void describe(const kith_layers *layers, const ki_param_spec *spec, kith_param *param)
{
    param->dim_count = spec->dim_count;
    memcpy(param->global_shape, spec->global_shape, sizeof spec->global_shape);
    param->split_dim = spec->split_dim;
    param->first = spec->first;
    param->padding = spec->padding;
    if (spec->split_dim >= 0)
        param->padded = spec->padded > 0 ? spec->padded : spec->global_shape[spec->split_dim];
    param->copies = spec->copies;
    param->is_counted = layers->tp_rank % spec->copies == 0;
    param->is_grad_partial = spec->is_grad_partial && spec->copies > 1;
    param->is_matrix = spec->is_matrix;
    param->is_expert = spec->is_expert;
}

/* A block of its own where the layer brought none. */
static kith_status find_memory(kith_layers *layers, const ki_param_spec *spec, const int64_t *shape, const char *name,
                               ki_block **block)
{
    *block = spec->block;
    if (spec->block != NULL)
        return KITH_OK;
    kith_tensor whole = kith_tensor_view(NULL, layers->dtype, spec->dim_count, shape);
    if (whole.dim_count == 0)
        return ki_fail(KITH_ERR_NO_MEMORY, "layers: parameter %s is too large", name);
    return ki_param_memory(layers, kith_tensor_count(&whole), block);
}

static void put_in_block(ki_param *param, const ki_param_spec *spec, ki_block *block)
{
    param->block = block;
    param->first = spec->first_element;
    ki_param **last = &block->params;
    while (*last != NULL)
        last = &(*last)->next;
    *last = param;
}

kith_status ki_param_create(kith_layers *layers, const ki_param_spec *spec, kith_param **out)
{
    kith_status status = make_room(layers);
    const char *name = NULL;
    if (status == KITH_OK)
        status = name_param(layers, spec, &name);
    ki_param *made = NULL;
    if (status == KITH_OK)
        status = ki_layers_own(layers, sizeof *made, NULL, &made);
    if (status != KITH_OK)
        return status;
    kith_param *param = &made->param;
    describe(layers, spec, param);
    param->name = name;
    int64_t shape[2] = { spec->global_shape[0], spec->global_shape[1] };
    if (spec->split_dim >= 0)
        shape[spec->split_dim] = spec->count;
    ki_block *block = NULL;
    status = find_memory(layers, spec, shape, name, &block);
    if (status != KITH_OK)
        return status;
    put_in_block(made, spec, block);
    param->copies_group = ki_layers_copies(layers, spec->copies);
    kith_layout layout = spec->split_dim >= 0 ? KITH_SPLIT : KITH_REPLICATED;
    param->layers = layers;
    ki_block_view(layers, block, made->first, spec->dim_count, shape, &param->value, &param->grad);
    param->value = ki_with_layout(param->value, layout, spec->split_dim);
    param->grad = ki_with_layout(param->grad, layout, spec->split_dim);
    layers->params[layers->param_count++] = param;
    *out = param;
    return KITH_OK;
}

size_t kith_layers_param_count(const kith_layers *layers)
{
    return layers == NULL ? 0 : layers->param_count;
}

kith_param *kith_layers_param(const kith_layers *layers, size_t index)
{
    return layers == NULL || index >= layers->param_count ? NULL : layers->params[index];
}

kith_param *kith_layers_find_param(const kith_layers *layers, const char *name)
{
    for (size_t i = 0; layers != NULL && name != NULL && i < layers->param_count; i++)
        if (strcmp(layers->params[i]->name, name) == 0)
            return layers->params[i];
    return NULL;
}

/* The part without its padding. */
static kith_tensor real_part(const kith_param *param, const kith_tensor *tensor)
{
    if (param->split_dim < 0)
        return *tensor;
    return kith_tensor_narrow(tensor, param->split_dim, 0, tensor->shape[param->split_dim] - param->padding);
}

kith_status kith_param_fill(kith_param *param, double value)
{
    if (param == NULL)
        return ki_fail(KITH_ERR_INVALID_ARG, "kith_param_fill: param must not be NULL");
    kith_tensor part = real_part(param, &param->value);
    ki_compute *compute = param->layers->compute;
    return compute->ops->fill(compute, ki_mat_of(&part), value);
}

kith_status kith_param_set_normal(kith_param *param, uint64_t seed, double deviation)
{
    if (param == NULL || !(deviation >= 0) || deviation > 1e300)
        return ki_fail(KITH_ERR_INVALID_ARG,
                       "kith_param_set_normal: param must not be NULL, deviation finite and not negative");
    kith_tensor part = real_part(param, &param->value);
    int64_t first_row = param->split_dim == 0 && param->dim_count == 2 ? param->first : 0;
    int64_t first_col = param->split_dim == param->dim_count - 1 ? param->first : 0;
    uint32_t site = (uint32_t)ki_hash(KI_HASH_INIT, param->name, strlen(param->name));
    ki_compute *compute = param->layers->compute;
    return compute->ops->normal(compute, seed, site, first_row, first_col, param->global_shape[param->dim_count - 1],
                                deviation, ki_mat_of(&part));
}

static bool has_shape(const kith_tensor *tensor, const kith_param *param)
{
    if (tensor == NULL || tensor->dim_count != param->dim_count)
        return false;
    for (int d = 0; d < param->dim_count; d++)
        if (tensor->shape[d] != param->global_shape[d])
            return false;
    return true;
}

static kith_status wrong_shape(const char *function, const kith_param *param)
{
    char sizes[64];
    if (param->dim_count == 2)
        snprintf(sizes, sizeof sizes, "[%lld, %lld]", (long long)param->global_shape[0],
                 (long long)param->global_shape[1]);
    else
        snprintf(sizes, sizeof sizes, "[%lld]", (long long)param->global_shape[0]);
    return ki_fail(KITH_ERR_INVALID_ARG, "%s; %s is %s", function, param->name, sizes);
}

/* Copies element by element between any strides and floating dtypes, a row at a time. */
static kith_status copy_rows(ki_compute *compute, const kith_tensor *from, const kith_tensor *to)
{
    kith_tensor rows_from = *from, rows_to = *to;
    if (ki_has_rows(from) && ki_has_rows(to))
        return compute->ops->copy(compute, ki_mat_of(&rows_from), ki_mat_of(&rows_to));
    int last = from->dim_count - 1; // a column is a matrix of one element a row
    for (int64_t i = 0; i < from->shape[last]; i++) {
        kith_tensor a = kith_tensor_narrow(from, last, i, 1), b = kith_tensor_narrow(to, last, i, 1);
        ki_mat mat_a = { a.data, ki_rows(&a), 1, last > 0 ? a.strides[last - 1] : 1, a.dtype };
        ki_mat mat_b = { b.data, ki_rows(&b), 1, last > 0 ? b.strides[last - 1] : 1, b.dtype };
        kith_status status = compute->ops->copy(compute, mat_a, mat_b);
        if (status != KITH_OK)
            return status;
    }
    return KITH_OK;
}

/* A part of the caller's whole as rows without gaps, on the host. */
static void pack(const kith_tensor *part, char *packed)
{
    size_t nbytes = kith_dtype_nbytes(part->dtype);
    int last = part->dim_count - 1;
    int64_t cols = part->shape[last], rows = ki_rows(part), row_stride = last > 0 ? part->strides[last - 1] : 0;
    for (int64_t row = 0; row < rows; row++) {
        const char *from = (const char *)part->data + row * row_stride * (int64_t)nbytes;
        if (part->strides[last] == 1)
            memcpy(packed, from, (size_t)cols * nbytes);
        for (int64_t col = 0; part->strides[last] != 1 && col < cols; col++)
            memcpy(packed + (size_t)col * nbytes, from + col * part->strides[last] * (int64_t)nbytes, nbytes);
        packed += (size_t)cols * nbytes;
    }
}

/* from: of one or two dimensions, on the host. */
static kith_status load_from_host(kith_layers *layers, const kith_tensor *from, const kith_tensor *to)
{
    kith_tensor packed = { 0 }, there = { 0 };
    kith_status status;
    KI_OR_GOTO(end, ki_tensor_create_on_host(layers, from->dtype, ki_rows(from), ki_features(from), &packed));
    if (kith_tensor_count(from) > 0)
        pack(from, packed.data);
    KI_OR_GOTO(end, ki_tensor_bring_in(layers, &packed, &there));
    kith_tensor shaped = kith_tensor_view(there.data, there.dtype, from->dim_count, from->shape);
    KI_OR_GOTO(end, copy_rows(layers->compute, &shaped, to));
end:
    kith_tensor_release(&packed);
    kith_tensor_release(&there);
    return status;
}

kith_status kith_param_load(kith_param *param, const kith_tensor *whole)
{
    if (param == NULL || whole == NULL)
        return ki_fail(KITH_ERR_INVALID_ARG, "kith_param_load: param and whole must not be NULL");
    if (!has_shape(whole, param))
        return wrong_shape("kith_param_load: whole must be of the parameter's shape", param);
    if (whole->dtype != KITH_F32 && whole->dtype != KITH_F64 && whole->dtype != KITH_BF16 && whole->dtype != KITH_F16)
        return ki_fail(KITH_ERR_INVALID_ARG, "kith_param_load: %s from %s, wanted f32, f64, bf16 or f16", param->name,
                       kith_dtype_name(whole->dtype));
    if (whole->data == NULL && !param->layers->is_dry && kith_tensor_count(whole) > 0)
        return ki_fail(KITH_ERR_INVALID_ARG, "kith_param_load: whole has no data");
    kith_tensor to = real_part(param, &param->value);
    kith_tensor from = *whole;
    if (param->split_dim >= 0)
        from = kith_tensor_narrow(whole, param->split_dim, param->first, to.shape[param->split_dim]);
    if (!ki_space_has(&param->layers->space, whole->data))
        return load_from_host(param->layers, &from, &to);
    return copy_rows(param->layers->compute, &from, &to);
}

static bool has_first_copy(const kith_param *param)
{
    return param->layers->tp_rank % param->copies == 0;
}

/* Every rank that has the first copy of a part writes it into a whole of zeros, and all are added: exact, and
 * indifferent to how the whole was cut. */
static kith_status gather(kith_param *param, const kith_tensor *part, const kith_tensor *whole)
{
    kith_layers *layers = param->layers;
    ki_compute *compute = layers->compute;
    kith_status status = compute->ops->fill(compute, ki_mat_of(whole), 0);
    if (status == KITH_OK && has_first_copy(param)) {
        kith_tensor from = real_part(param, part), to = *whole;
        if (param->split_dim >= 0)
            to = kith_tensor_narrow(whole, param->split_dim, param->first, from.shape[param->split_dim]);
        status = copy_rows(compute, &from, &to);
    }
    if (status == KITH_OK)
        status = ki_comm_all_reduce(layers, KITH_PHASE_FINISH, ki_comm_tp(layers), whole->data,
                                    kith_tensor_count(whole), whole->dtype, KITH_SUM);
    return status;
}

static kith_status gather_to_host(kith_param *param, const kith_tensor *part, const kith_tensor *whole)
{
    kith_layers *layers = param->layers;
    kith_tensor there = { 0 };
    kith_status status = kith_tensor_create(layers, whole->dtype, whole->dim_count, whole->shape, &there);
    if (status == KITH_OK)
        status = gather(param, part, &there);
    if (status == KITH_OK)
        status = ki_space_copy_out(&layers->space, whole->data, there.data, ki_tensor_nbytes(whole));
    kith_tensor_release(&there);
    return status;
}

kith_status kith_param_gather(kith_param *param, kith_param_which which, kith_tensor *whole)
{
    if (param == NULL || whole == NULL || (which != KITH_PARAM_VALUE && which != KITH_PARAM_GRAD))
        return ki_fail(KITH_ERR_INVALID_ARG, "kith_param_gather: param, whole or which is not valid");
    const kith_tensor *part = which == KITH_PARAM_VALUE ? &param->value : &param->grad;
    if (!has_shape(whole, param) || whole->dtype != part->dtype || !kith_tensor_is_contiguous(whole))
        return wrong_shape("kith_param_gather: whole must be contiguous, of the parameter's dtype and shape", param);
    kith_layers *layers = param->layers;
    if (whole->data == NULL && !layers->is_dry && kith_tensor_count(whole) > 0)
        return ki_fail(KITH_ERR_INVALID_ARG, "kith_param_gather: whole has no data");
    return ki_space_has(&layers->space, whole->data) ? gather(param, part, whole) : gather_to_host(param, part, whole);
}
