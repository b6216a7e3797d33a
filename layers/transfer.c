/* layers/transfer.c - numbers of tensors to and from the host, and from one tensor to another.
 *
 * For callers who do not want to know whether the layers compute on the host or on a device.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "layers.h"

static kith_status check(const char *function, const kith_layers *layers, const kith_tensor *tensor)
{
    if (layers == NULL || tensor == NULL || tensor->dim_count < 1)
        return ki_fail(KITH_ERR_INVALID_ARG, "%s: layers and tensors must be there", function);
    if (!kith_tensor_is_contiguous(tensor))
        return ki_fail(KITH_ERR_INVALID_ARG, "%s: a tensor that is not contiguous", function);
    if (tensor->data == NULL && kith_tensor_count(tensor) > 0)
        return ki_fail(KITH_ERR_INVALID_ARG, "%s: a tensor without data%s", function,
                       layers->is_dry ? ": these layers are a dry run" : "");
    return KITH_OK;
}

static kith_status check_numbers(const char *function, const kith_layers *layers, const kith_tensor *tensor,
                                 const void *numbers, size_t nbytes)
{
    kith_status status = check(function, layers, tensor);
    if (status != KITH_OK)
        return status;
    if (nbytes != ki_tensor_nbytes(tensor) || (numbers == NULL && nbytes > 0))
        return ki_fail(KITH_ERR_INVALID_ARG, "%s: numbers of %zu bytes%s, the tensor has %zu", function, nbytes,
                       numbers == NULL ? " that are not there" : "", ki_tensor_nbytes(tensor));
    return KITH_OK;
}

kith_status kith_tensor_read(kith_layers *layers, const kith_tensor *tensor, void *numbers, size_t nbytes)
{
    kith_status status = check_numbers("kith_tensor_read", layers, tensor, numbers, nbytes);
    return status == KITH_OK ? ki_space_copy_out(&layers->space, numbers, tensor->data, nbytes) : status;
}

kith_status kith_tensor_write(kith_layers *layers, const kith_tensor *tensor, const void *numbers, size_t nbytes)
{
    kith_status status = check_numbers("kith_tensor_write", layers, tensor, numbers, nbytes);
    return status == KITH_OK ? ki_space_copy_in(&layers->space, tensor->data, numbers, nbytes) : status;
}

kith_status kith_tensor_copy(kith_layers *layers, const kith_tensor *from, const kith_tensor *to)
{
    static const char function[] = "kith_tensor_copy";
    kith_status status = check(function, layers, from);
    if (status == KITH_OK)
        status = check(function, layers, to);
    if (status != KITH_OK)
        return status;
    if (from->dtype != to->dtype || kith_tensor_count(from) != kith_tensor_count(to))
        return ki_fail(KITH_ERR_INVALID_ARG, "%s: from %lld elements of %s to %lld of %s", function,
                       (long long)kith_tensor_count(from), kith_dtype_name(from->dtype),
                       (long long)kith_tensor_count(to), kith_dtype_name(to->dtype));
    return ki_space_copy(&layers->space, to->data, from->data, ki_tensor_nbytes(from));
}
