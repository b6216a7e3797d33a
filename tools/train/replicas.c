/* tools/train/replicas.c - whether ranks that should have the same weights have them, to the bit, at the end.
 *
 * Ranks of dp have the same parts of all parameters. Ranks of ep have other experts, and the same parts of the rest.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "engine.h"

#include <string.h>

/* Not kith_layers_hash_values(), which has the experts in it. Any function will do that no likely error keeps. */
static uint64_t hash_dense(const kith_layers *layers)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325), word;
    for (size_t i = 0; i < kith_layers_param_count(layers); i++) {
        const kith_param *param = kith_layers_param(layers, i);
        size_t nbytes = (size_t)kith_tensor_count(&param->value) * kith_dtype_nbytes(param->value.dtype);
        for (size_t at = 0; !param->is_expert && at < nbytes; at += sizeof word) {
            word = 0;
            memcpy(&word, (const char *)param->value.data + at, nbytes - at < sizeof word ? nbytes - at : sizeof word);
            hash = (hash ^ word) * UINT64_C(0x100000001b3);
            hash ^= hash >> 29;
        }
    }
    return hash;
}

static bool compare(train_job *job, kith_group *group, uint64_t hash)
{
    uint64_t seen[2] = { hash, ~hash }; // the largest, and the smallest
    if (!train_check(job, kith_all_reduce(group, seen, seen, 2, KITH_UINT64, KITH_MAX)))
        return false;
    return seen[0] == ~seen[1] ||
           train_wrong(job, "the weights of data-parallel ranks differ at the end; this is an error in the run, not in "
                            "its use: do not trust the weights");
}

bool train_compare_replicas(train_job *job, const train_model *model, uint64_t *hash)
{
    *hash = kith_layers_hash_values(model->layers);
    if (!train_agree(job, compare(job, job->dp, *hash)))
        return false;
    return job->layout.ep == 1 || train_agree(job, compare(job, job->data, hash_dense(model->layers)));
}
