/* layers/param_tied.c - copies of one parameter in several processes: the same value, the sum of all gradients.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "layers.h"

static kith_status check(const char *function, const kith_param *param, kith_group *group)
{
    if (param == NULL || group == NULL)
        return ki_fail(KITH_ERR_INVALID_ARG, "%s: param and group must not be NULL", function);
    if (param->layers->is_dry)
        return ki_fail(KITH_ERR_INVALID_ARG, "%s: %s belongs to a dry run, which has no groups", function, param->name);
    if (!kith_tensor_is_contiguous(&param->value) || !kith_tensor_is_contiguous(&param->grad))
        return ki_fail(KITH_ERR_UNSUPPORTED, "%s: %s is not contiguous on this rank", function, param->name);
    return KITH_OK;
}

/* All ranks have the same numbers when the largest of each is also the smallest. */
static kith_status compare(const kith_param *param, kith_group *group)
{
    enum { DIMS = KITH_TENSOR_DIMS, VALUES = 2 * DIMS + 4 };
    int64_t values[2 * VALUES] = { 0 };
    for (int d = 0; d < param->dim_count; d++) {
        values[d] = param->global_shape[d];
        values[DIMS + d] = param->value.shape[d];
    }
    values[2 * DIMS] = param->dim_count;
    values[2 * DIMS + 1] = param->split_dim;
    values[2 * DIMS + 2] = param->first;
    values[2 * DIMS + 3] = param->value.dtype;
    for (int i = 0; i < VALUES; i++)
        values[VALUES + i] = -values[i];
    kith_status status = kith_all_reduce(group, values, values, 2 * VALUES, KITH_INT64, KITH_MAX);
    for (int i = 0; i < VALUES && status == KITH_OK; i++)
        if (values[i] != -values[VALUES + i])
            return ki_fail(
                KITH_ERR_MISMATCH,
                "kith_param_tie: the ranks of group %s have parts of %s that differ in shape, place or dtype",
                kith_group_name(group), param->name);
    return status;
}

kith_status kith_param_tie(kith_param *param, kith_group *group)
{
    kith_status status = check("kith_param_tie", param, group);
    if (status == KITH_OK)
        status = ki_space_join(&param->layers->space, group);
    if (status == KITH_OK)
        status = compare(param, group);
    if (status == KITH_OK)
        status =
            kith_broadcast(group, param->value.data, (size_t)kith_tensor_count(&param->value), param->value.dtype, 0);
    if (status == KITH_OK && kith_group_rank(group) > 0)
        param->is_counted = 0;
    return status;
}

kith_status kith_param_sum_tied(kith_param *param, kith_group *group)
{
    kith_status status = check("kith_param_sum_tied", param, group);
    if (status == KITH_OK)
        status = ki_space_join(&param->layers->space, group);
    if (status != KITH_OK)
        return status;
    ki_comm comm = { group, kith_group_size(group), kith_group_rank(group), KITH_LAYERS_TIED, false };
    return ki_comm_all_reduce(param->layers, KITH_PHASE_FINISH, comm, param->grad.data, kith_tensor_count(&param->grad),
                              param->grad.dtype, KITH_SUM);
}
