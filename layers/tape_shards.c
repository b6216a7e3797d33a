/* layers/tape_shards.c - between shards of the sequence and the whole.
 *
 * The sequence is the first dimension, so the shards of all ranks, one after the other, are the whole: nothing is
 * packed.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "layers.h"

/* As `tensor` but for the first dimension: [positions, batch, ...], or [positions * batch, features]. */
static kith_status create_with_positions(kith_tape *tape, const kith_tensor *tensor, int64_t positions,
                                         kith_tensor *made)
{
    int64_t shape[KITH_TENSOR_DIMS];
    memcpy(shape, tensor->shape, sizeof shape);
    shape[0] = tensor->dim_count > 2 ? positions : positions * tape->batch.batch;
    return kith_tensor_create(tape->layers, tensor->dtype, tensor->dim_count, shape, made);
}

static kith_status check(const kith_tensor *tensor, int64_t tokens)
{
    if (!kith_tensor_is_contiguous(tensor))
        return ki_fail(KITH_ERR_INVALID_ARG, "layers: a tensor that is sent to other ranks must be contiguous");
    if (ki_rows(tensor) != tokens)
        return ki_fail(KITH_ERR_INVALID_ARG, "layers: a tensor of %lld tokens, this rank's are %lld",
                       (long long)ki_rows(tensor), (long long)tokens);
    return KITH_OK;
}

/* Elements of a position. */
static int64_t unit_of(const kith_tape *tape, const kith_tensor *tensor)
{
    return tape->batch.batch * ki_features(tensor);
}

kith_status ki_tape_gather_start(kith_tape *tape, const kith_tensor *shard, kith_tensor *whole, ki_started *started)
{
    kith_status status = check(shard, ki_tape_local_tokens(tape));
    if (status == KITH_OK)
        status = create_with_positions(tape, shard, tape->batch.sequence, whole);
    if (status != KITH_OK)
        return status;
    *whole = ki_with_layout(*whole, KITH_REPLICATED, 0);
    kith_layers *layers = tape->layers;
    return ki_comm_all_gather_start(layers, tape->phase, ki_comm_tp(layers), shard->data, whole->data,
                                    tape->batch.sequence, unit_of(tape, shard), shard->dtype, started);
}

kith_status ki_tape_scatter_start(kith_tape *tape, const kith_tensor *partial, kith_tensor *shard, ki_started *started)
{
    kith_status status = check(partial, ki_tape_tokens(tape));
    if (status == KITH_OK)
        status = create_with_positions(tape, partial, tape->positions, shard);
    if (status != KITH_OK)
        return status;
    *shard = ki_with_layout(*shard, KITH_SPLIT, 0);
    kith_layers *layers = tape->layers;
    return ki_comm_reduce_scatter_start(layers, tape->phase, ki_comm_tp(layers), partial->data, shard->data,
                                        tape->batch.sequence, unit_of(tape, partial), partial->dtype, started);
}

kith_status ki_tape_gather(kith_tape *tape, const kith_tensor *shard, kith_tensor *whole)
{
    ki_started started = { 0 };
    kith_status status = ki_tape_gather_start(tape, shard, whole, &started);
    return status == KITH_OK ? ki_comm_wait(&started) : status;
}

kith_status ki_tape_scatter(kith_tape *tape, const kith_tensor *partial, kith_tensor *shard)
{
    ki_started started = { 0 };
    kith_status status = ki_tape_scatter_start(tape, partial, shard, &started);
    return status == KITH_OK ? ki_comm_wait(&started) : status;
}
