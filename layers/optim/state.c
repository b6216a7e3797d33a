/* layers/optim/state.c - what an optimizer keeps: moments, masters of bf16 and f16 weights, how they look from outside.
 *
 * State exists for what this rank updates: a whole bucket, or its shard, whose bounds do not care where parameters end.
 * Pieces are the parameters' view of it, for checkpoints; runs are the kernels' view: neighbours with equal decay.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "optim.h"

static void *element_of(void *data, int64_t index, kith_dtype dtype)
{
    return data == NULL ? NULL : (char *)data + index * (int64_t)kith_dtype_nbytes(dtype);
}

static ki_mat row(void *data, int64_t first, int64_t count, kith_dtype dtype)
{
    ki_mat mat = { element_of(data, first, dtype), 1, count, count, dtype };
    return mat;
}

ki_mat ki_optim_values(const kith_optim *optim, const ki_bucket *bucket, int64_t first, int64_t count)
{
    return row(bucket->home->value, first, count, optim->layers->dtype);
}

ki_mat ki_optim_grads(const kith_optim *optim, const ki_bucket *bucket, int64_t first, int64_t count)
{
    return row(bucket->home->grad, first, count, optim->layers->accumulator);
}

ki_mat ki_optim_state(const kith_optim *optim, const ki_bucket *bucket, void *state, int64_t first, int64_t count)
{
    return row(state, first - bucket->state_first, count, optim->layers->accumulator);
}

/* ---- memory ---- */

static kith_status make_array(kith_optim *optim, const ki_bucket *bucket, void **array)
{
    size_t each = kith_dtype_nbytes(optim->layers->accumulator);
    optim->memory_nbytes += (uint64_t)bucket->state_count * each;
    if (optim->layers->is_dry)
        return KITH_OK;
    *array = ki_space_calloc(&optim->layers->space, (size_t)bucket->state_count, each);
    return *array != NULL ? KITH_OK : KITH_ERR_NO_MEMORY;
}

static bool has_masters(const kith_optim *optim)
{
    return optim->layers->dtype != optim->layers->accumulator;
}

static bool has_first_moment(const kith_optim *optim)
{
    return optim->options.kind == KITH_ADAMW || optim->options.momentum != 0;
}

static kith_status make_arrays(kith_optim *optim, ki_bucket *bucket)
{
    kith_status status = KITH_OK;
    if (has_first_moment(optim))
        status = make_array(optim, bucket, &bucket->m);
    if (status == KITH_OK && optim->options.kind == KITH_ADAMW)
        status = make_array(optim, bucket, &bucket->v);
    if (status == KITH_OK && has_masters(optim))
        status = make_array(optim, bucket, &bucket->master);
    return status;
}

kith_status kith_optim_reset_masters(kith_optim *optim)
{
    if (optim == NULL)
        return ki_fail(KITH_ERR_INVALID_ARG, "kith_optim_reset_masters: optim must not be NULL");
    ki_compute *compute = optim->layers->compute;
    kith_status status = KITH_OK;
    for (size_t b = 0; b < optim->bucket_count && has_masters(optim) && status == KITH_OK; b++) {
        ki_bucket *bucket = &optim->buckets[b];
        int64_t first = bucket->state_first, count = bucket->state_count;
        status = compute->ops->copy(compute, ki_optim_values(optim, bucket, first, count),
                                    ki_optim_state(optim, bucket, bucket->master, first, count));
    }
    return status;
}

/* ---- runs ---- */

static bool has_decay(const kith_optim *optim, const ki_block *block)
{
    return optim->options.decays_all || block->params->param.is_matrix;
}

/* From one place to the next, so that what is between them belongs to a run, too. */
static void add_run(ki_bucket *bucket, int64_t first, int64_t end, bool has_decay)
{
    int64_t begin, count = ki_optim_overlap(first, end - first, bucket->state_first, bucket->state_count, &begin);
    ki_run *last = bucket->run_count > 0 ? &bucket->runs[bucket->run_count - 1] : NULL;
    if (count == 0)
        return;
    if (last != NULL && last->has_decay == has_decay)
        last->count += count;
    else
        bucket->runs[bucket->run_count++] = (ki_run){ begin, count, has_decay };
}

static kith_status make_runs(kith_optim *optim)
{
    optim->runs = (ki_run *)ki_calloc(NULL, optim->place_count, sizeof *optim->runs);
    if (optim->runs == NULL)
        return KITH_ERR_NO_MEMORY;
    ki_run *runs = optim->runs;
    for (size_t b = 0; b < optim->bucket_count; b++) {
        ki_bucket *bucket = &optim->buckets[b];
        bucket->runs = runs;
        runs += bucket->place_count;
        for (size_t i = 0; i < bucket->place_count; i++) {
            int64_t end = i + 1 < bucket->place_count ? bucket->places[i + 1].first : bucket->elements;
            add_run(bucket, bucket->places[i].first, end, has_decay(optim, bucket->places[i].block));
        }
    }
    return KITH_OK;
}

/* ---- pieces ---- */

static void add_piece(kith_optim *optim, const char *state, void *array, kith_param *param)
{
    const ki_param *inner = (const ki_param *)param;
    const ki_bucket *bucket = ki_optim_bucket_of(inner->block);
    int64_t begin, first = ki_optim_first_of(inner);
    int64_t count =
        ki_optim_overlap(first, kith_tensor_count(&param->value), bucket->state_first, bucket->state_count, &begin);
    if (count == 0)
        return;
    kith_dtype dtype = optim->layers->accumulator;
    optim->pieces[optim->piece_count++] =
        (kith_optim_piece){ .state = state,
                            .param = param,
                            .first = begin - first,
                            .count = count,
                            .data = element_of(array, begin - bucket->state_first, dtype),
                            .dtype = dtype };
}

static kith_status make_pieces(kith_optim *optim)
{
    optim->pieces = (kith_optim_piece *)ki_calloc(NULL, 3 * optim->param_count, sizeof *optim->pieces);
    if (optim->pieces == NULL)
        return KITH_ERR_NO_MEMORY;
    for (size_t i = 0; i < optim->param_count; i++) {
        kith_param *param = optim->layers->params[i];
        const ki_bucket *bucket = ki_optim_bucket_of(ki_block_of(param));
        if (has_first_moment(optim))
            add_piece(optim, "m", bucket->m, param);
        if (optim->options.kind == KITH_ADAMW)
            add_piece(optim, "v", bucket->v, param);
        if (has_masters(optim))
            add_piece(optim, "master", bucket->master, param);
    }
    return KITH_OK;
}

size_t kith_optim_piece_count(const kith_optim *optim)
{
    return optim == NULL ? 0 : optim->piece_count;
}

kith_status kith_optim_get_piece(const kith_optim *optim, size_t index, kith_optim_piece *piece)
{
    if (optim == NULL || piece == NULL || index >= optim->piece_count)
        return ki_fail(KITH_ERR_INVALID_ARG, "kith_optim_get_piece: there is no piece %zu of %zu", index,
                       kith_optim_piece_count(optim));
    *piece = optim->pieces[index];
    const ki_bucket *bucket = ki_optim_bucket_of(ki_block_of(piece->param));
    piece->is_counted = piece->param->is_counted && (optim->options.is_sharded || bucket->data.rank == 0);
    return KITH_OK;
}

/* ---- all of it ---- */

kith_status ki_optim_make_state(kith_optim *optim)
{
    kith_status status = make_runs(optim);
    for (size_t b = 0; b < optim->bucket_count && status == KITH_OK; b++)
        status = make_arrays(optim, &optim->buckets[b]);
    if (status == KITH_OK)
        status = make_pieces(optim);
    return status == KITH_OK ? kith_optim_reset_masters(optim) : status;
}

void ki_optim_free_state(kith_optim *optim)
{
    ki_space *space = &optim->layers->space;
    ki_space_settle(space);
    for (size_t b = 0; b < optim->bucket_count; b++) {
        ki_bucket *bucket = &optim->buckets[b];
        ki_space_free(space, bucket->m);
        ki_space_free(space, bucket->v);
        ki_space_free(space, bucket->master);
    }
    ki_free(NULL, optim->runs);
    ki_free(NULL, optim->pieces);
}
