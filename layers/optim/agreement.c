/* layers/optim/agreement.c - are all ranks about to do the same?
 *
 * Gradients are summed bucket by bucket, by place and not by name. So before the first step the ranks that sum together
 * compare what every place is.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "optim.h"

static kith_status compare_options(const kith_optim *optim)
{
    const kith_optim_options *o = &optim->options;
    const ki_number numbers[] = { { "kind", (int64_t)o->kind },
                                  { "beta1", ki_bits_of(o->beta1) },
                                  { "beta2", ki_bits_of(o->beta2) },
                                  { "epsilon", ki_bits_of(o->epsilon) },
                                  { "momentum", ki_bits_of(o->momentum) },
                                  { "weight_decay", ki_bits_of(o->weight_decay) },
                                  { "decays_all", o->decays_all != 0 },
                                  { "clip_norm", ki_bits_of(o->clip_norm) },
                                  { "is_sharded", o->is_sharded != 0 },
                                  { "bucket_nbytes", (int64_t)o->bucket_nbytes },
                                  { "allows_unused", o->allows_unused != 0 },
                                  { "is_deferred", o->is_deferred != 0 },
                                  { "the layers' dtype", (int64_t)optim->layers->dtype } };
    return ki_compare(optim->all.group, "kith_optim_create", numbers, sizeof numbers / sizeof numbers[0]);
}

/* What a parameter is, and where it lies. */
static int64_t hash_of(const kith_param *param)
{
    const ki_param *inner = (const ki_param *)param;
    const ki_bucket *bucket = ki_optim_bucket_of(inner->block);
    int64_t numbers[2 * KITH_TENSOR_DIMS + 7] = { 0 };
    memcpy(numbers, param->global_shape, sizeof param->global_shape);
    memcpy(numbers + KITH_TENSOR_DIMS, param->value.shape, (size_t)param->dim_count * sizeof(int64_t));
    int64_t *rest = numbers + 2 * KITH_TENSOR_DIMS;
    rest[0] = param->dim_count;
    rest[1] = param->split_dim;
    rest[2] = param->first;
    rest[3] = ki_optim_first_of(inner);
    rest[4] = (int64_t)bucket->number;
    rest[5] = bucket->elements;
    rest[6] = inner->block->uses;
    uint64_t hash = ki_hash(KI_HASH_INIT, param->name, strlen(param->name));
    return (int64_t)ki_hash(hash, numbers, sizeof numbers);
}

/* The parameters of one sort in the order of creation; returns how many. */
static size_t list(const kith_optim *optim, bool is_expert, const kith_param **params)
{
    size_t count = 0;
    for (size_t i = 0; i < optim->param_count; i++)
        if ((optim->layers->params[i]->is_expert != 0) == is_expert)
            params[count++] = optim->layers->params[i];
    return count;
}

/* Needs no agreement of its own: both arrays were allocated before anybody spoke. */
static kith_status compare_params(const kith_optim *optim, ki_comm comm, bool is_expert, const kith_param **params,
                                  int64_t *hashes)
{
    if (comm.size == 1)
        return KITH_OK;
    size_t count = list(optim, is_expert, params);
    const ki_number number = { is_expert ? "the number of experts' parameters" : "the number of parameters",
                               (int64_t)count };
    kith_status status = ki_compare(comm.group, "kith_optim_create", &number, 1);
    for (size_t i = 0; i < count; i++) {
        hashes[i] = hash_of(params[i]);
        hashes[count + i] = ~hashes[i]; // the largest of these is the smallest of those
    }
    if (status == KITH_OK)
        status = kith_all_reduce(comm.group, hashes, hashes, 2 * count, KITH_INT64, KITH_MAX);
    for (size_t i = 0; i < count && status == KITH_OK; i++)
        if (hashes[i] != ~hashes[count + i])
            status =
                ki_fail(KITH_ERR_MISMATCH, "kith_optim_create: %s is not the same parameter on all ranks of group '%s'",
                        params[i]->name, kith_group_name(comm.group));
    return status;
}

kith_status ki_optim_agree(kith_optim *optim, kith_status mine)
{
    const kith_param **params = NULL;
    int64_t *hashes = NULL;
    if (mine == KITH_OK) {
        params = (const kith_param **)ki_calloc(NULL, optim->param_count, sizeof(const kith_param *));
        hashes = (int64_t *)ki_calloc(NULL, 2 * optim->param_count, sizeof *hashes);
        if (params == NULL || hashes == NULL)
            mine = KITH_ERR_NO_MEMORY;
    }
    kith_status status = ki_agree(optim->all.group, mine);
    if (status == KITH_OK)
        status = compare_options(optim);
    if (status == KITH_OK) {
        status = compare_params(optim, optim->data, false, params, hashes);
        if (status == KITH_OK)
            status = compare_params(optim, optim->expert_data, true, params, hashes);
        status = ki_agree(optim->all.group, status);
    }
    ki_free(NULL, params);
    ki_free(NULL, hashes);
    return status;
}
