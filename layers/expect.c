/* layers/expect.c - does a tensor fit what a layer needs?
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "layers.h"

#include <stdio.h>

static kith_status check_rows(const char *what, const kith_tensor *tensor, const ki_expected *how)
{
    if (how->rows >= 0 && ki_rows(tensor) != how->rows)
        return ki_fail(KITH_ERR_INVALID_ARG, "%s has %lld rows (all dimensions but the last), wanted %lld", what,
                       (long long)ki_rows(tensor), (long long)how->rows);
    if (how->features >= 0 && ki_features(tensor) != how->features)
        return ki_fail(KITH_ERR_INVALID_ARG, "%s has %lld features in its last dimension, wanted %lld", what,
                       (long long)ki_features(tensor), (long long)how->features);
    return KITH_OK;
}

static bool is_layout(const kith_tensor *tensor, const ki_expected *how)
{
    if (tensor->layout == KITH_LAYOUT_UNKNOWN || how->layout == KITH_LAYOUT_UNKNOWN)
        return true;
    if (tensor->layout != how->layout)
        return false;
    if (how->layout != KITH_SPLIT)
        return true;
    int wanted = how->split_dim < 0 ? tensor->dim_count - 1 : how->split_dim;
    return tensor->split_dim == wanted;
}

static void describe(char *text, size_t nbytes, kith_layout layout, int dim)
{
    if (layout == KITH_SPLIT && dim < 0)
        snprintf(text, nbytes, "split along the features");
    else if (layout == KITH_SPLIT)
        snprintf(text, nbytes, "split along dimension %d", dim);
    else
        snprintf(text, nbytes, "%s", kith_layout_name(layout));
}

static kith_status check_layout(const char *what, const kith_tensor *tensor, const ki_expected *how)
{
    if (is_layout(tensor, how))
        return KITH_OK;
    char is[64], wanted[64];
    describe(is, sizeof is, tensor->layout, tensor->split_dim);
    describe(wanted, sizeof wanted, how->layout, how->split_dim);
    return ki_fail(KITH_ERR_INVALID_ARG, "%s is %s over the tensor-parallel ranks, wanted %s", what, is, wanted);
}

kith_status ki_expect(const kith_layers *layers, const char *what, const kith_tensor *tensor, const ki_expected *how)
{
    if (tensor == NULL || tensor->dim_count < 1 || tensor->dim_count > KITH_TENSOR_DIMS)
        return ki_fail(KITH_ERR_INVALID_ARG, "%s is no tensor", what);
    if (tensor->dtype != how->dtype)
        return ki_fail(KITH_ERR_INVALID_ARG, "%s is of %s, wanted %s", what, kith_dtype_name(tensor->dtype),
                       kith_dtype_name(how->dtype));
    kith_status status = check_rows(what, tensor, how);
    if (status != KITH_OK)
        return status;
    if (!ki_has_rows(tensor))
        return ki_fail(KITH_ERR_INVALID_ARG,
                       "%s has strides that are not those of rows: its last dimension must be contiguous and its rows "
                       "evenly spaced; copy it first",
                       what);
    if (tensor->data == NULL && !layers->is_dry && kith_tensor_count(tensor) > 0)
        return ki_fail(KITH_ERR_INVALID_ARG, "%s has no data", what);
    if (tensor->buffer == NULL && !ki_space_has(&layers->space, tensor->data))
        return ki_fail(KITH_ERR_INVALID_ARG, "%s lies in the host's memory, and the layers compute on a device", what);
    return layers->options.is_debug && layers->tp_size > 1 ? check_layout(what, tensor, how) : KITH_OK;
}
