/* tools/train/replicas.c - whether ranks that should have the same weights have them, to the bit, at the end.
 *
 * Ranks of dp have the same parts of all parameters. Ranks of ep have other experts, and the same parts of the rest.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "engine.h"

#include <string.h>

/* Any function will do that no likely error keeps. */
static uint64_t hash_bytes(uint64_t hash, const char *bytes, size_t nbytes)
{
    uint64_t word;
    for (size_t at = 0; at < nbytes; at += sizeof word) {
        word = 0;
        memcpy(&word, bytes + at, nbytes - at < sizeof word ? nbytes - at : sizeof word);
        hash = (hash ^ word) * UINT64_C(0x100000001b3);
        hash ^= hash >> 29;
    }
    return hash;
}

/* In pieces, as the numbers may be on a device. */
static kith_status hash_tensor(kith_layers *layers, const kith_tensor *tensor, uint64_t *hash)
{
    enum { PIECE = 1 << 13 };
    char bytes[PIECE * sizeof(double)];
    const int64_t count = kith_tensor_count(tensor);
    kith_tensor row = kith_tensor_reshape(tensor, 1, &count);
    kith_status status = KITH_OK;
    for (int64_t at = 0; at < count && status == KITH_OK; at += PIECE) {
        kith_tensor piece = kith_tensor_narrow(&row, 0, at, count - at < PIECE ? count - at : PIECE);
        size_t nbytes = (size_t)kith_tensor_count(&piece) * kith_dtype_nbytes(piece.dtype);
        status = kith_tensor_read(layers, &piece, bytes, nbytes);
        *hash = hash_bytes(*hash, bytes, nbytes);
    }
    return status;
}

/* Not kith_layers_hash_values(), which has the experts in it. */
static kith_status hash_dense(kith_layers *layers, uint64_t *hash)
{
    kith_status status = KITH_OK;
    *hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < kith_layers_param_count(layers) && status == KITH_OK; i++) {
        const kith_param *param = kith_layers_param(layers, i);
        if (!param->is_expert)
            status = hash_tensor(layers, &param->value, hash);
    }
    return status;
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
    if (job->layout.ep == 1)
        return true;
    uint64_t dense = 0;
    return train_agree(job, train_check(job, hash_dense(model->layers, &dense))) &&
           train_agree(job, compare(job, job->data, dense));
}
