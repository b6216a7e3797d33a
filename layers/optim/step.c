/* layers/optim/step.c - a step of training: its beginning and its end.
 *
 *     begin     gradients are zero, buckets wait for theirs
 *     (backward starts buckets: reduce.c)
 *     reduce    summands over tp, then copies of the tied weight, then what is left over data; norm
 *     update    clipping, weights, gathering (update.c)
 *
 * The order in reduce is what tied weights need: summed over the stages first, their shards are those of the sum on all
 * ranks.
 *
 * The norm goes over all ranks in one all-reduce, and with it whether anybody's gradients are incomplete. So an error
 * on one rank is known to all before anything is updated.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "optim.h"

#include "core/base/clock.h"
#include <math.h>
#include <string.h>

#define NORM_COLS 1024 /* sums in f32 are of so many; their sum is in f64 */

static double seconds_since(int64_t start_ns)
{
    return (double)(ki_now_ns() - start_ns) * 1e-9;
}

kith_status kith_optim_begin(kith_optim *optim, int microbatches)
{
    if (optim == NULL || microbatches < 1)
        return ki_fail(KITH_ERR_INVALID_ARG,
                       "kith_optim_begin: optim must not be NULL, and microbatches at least 1 (they are %d)",
                       microbatches);
    if (optim->layers->param_count != optim->param_count)
        return ki_fail(KITH_ERR_INVALID_ARG,
                       "kith_optim_begin: the layers have %zu parameters, and had %zu when the optimizer was made; "
                       "make it after all layers",
                       optim->layers->param_count, optim->param_count);
    kith_status status = ki_optim_settle(optim);
    optim->stage = KI_OPTIM_IDLE;
    optim->is_spoiled = false;
    if (status == KITH_OK)
        status = kith_layers_zero_grads(optim->layers);
    if (status != KITH_OK)
        return status;
    for (size_t b = 0; b < optim->bucket_count; b++) {
        optim->buckets[b].missing = optim->buckets[b].place_count;
        optim->buckets[b].was_early = false;
        memset(optim->buckets[b].reduce_ns, 0, sizeof optim->buckets[b].reduce_ns);
        memset(optim->buckets[b].gather_ns, 0, sizeof optim->buckets[b].gather_ns);
    }
    optim->next = optim->oldest = 0;
    optim->failure = KITH_OK;
    optim->microbatches = microbatches;
    optim->stage = KI_OPTIM_BEGUN;
    return KITH_OK;
}

/* ---- sums ---- */

static kith_status sum_summands(kith_optim *optim)
{
    kith_status status = KITH_OK;
    if (!optim->layers->has_finished_grads) // else the caller has done it
        status = ki_layers_sum_partial_grads(optim->layers);
    if (status == KITH_OK && optim->options.tied != NULL)
        status = kith_param_sum_tied(optim->options.tied, optim->options.tied_group);
    return status;
}

/* Squares of elements [first, first + count) of a bucket's gradients. */
static kith_status add_squares(const kith_optim *optim, const ki_bucket *bucket, int64_t first, int64_t count,
                               double *sum)
{
    ki_compute *compute = optim->layers->compute;
    int64_t rows = count / NORM_COLS, rest = count % NORM_COLS;
    ki_mat whole = ki_optim_grads(optim, bucket, first, NORM_COLS);
    whole.rows = rows;
    double of_rows = 0, of_rest = 0;
    kith_status status = compute->ops->sum_squares(compute, whole, &of_rows);
    if (status == KITH_OK)
        status =
            compute->ops->sum_squares(compute, ki_optim_grads(optim, bucket, first + rows * NORM_COLS, rest), &of_rest);
    *sum += of_rows + of_rest;
    return status;
}

/* What this rank counts of a bucket: of its shard, the parameters that no other rank of tp counts. */
static kith_status add_bucket(const kith_optim *optim, const ki_bucket *bucket, double *sum)
{
    kith_status status = KITH_OK;
    for (size_t i = 0; i < bucket->place_count; i++)
        for (const ki_param *p = bucket->places[i].block->params; p != NULL && status == KITH_OK; p = p->next) {
            int64_t first, count = ki_optim_overlap(ki_optim_first_of(p), kith_tensor_count(&p->param.grad),
                                                    bucket->shard_first, bucket->shard_count, &first);
            if (count > 0 && p->param.is_counted)
                status = add_squares(optim, bucket, first, count, sum);
        }
    return status;
}

/* The norm over all ranks, or the error that any of them has. */
static kith_status find_norm(kith_optim *optim, kith_status mine)
{
    double sums[2] = { 0, 0 };                                 // squares, ranks with an error
    kith_status status = KITH_OK;
    if (mine == KITH_OK)
        mine = ki_space_wait(&optim->layers->space); // sums wait for a device as well, and know no deadline
    for (size_t b = 0; b < optim->bucket_count && mine == KITH_OK; b++)
        mine = add_bucket(optim, &optim->buckets[b], &sums[0]);
    sums[1] = mine != KITH_OK;
    if (optim->all.size > 1)
        status = kith_all_reduce(optim->all.group, sums, sums, 2, KITH_F64, KITH_SUM);
    if (status == KITH_OK && sums[1] > 0)
        status = ki_agree(optim->all.group, mine);
    optim->norm = sqrt(sums[0]);
    return status;
}

/* mine: what is wrong on this rank already. */
static kith_status reduce(kith_optim *optim, kith_status mine)
{
    if (mine == KITH_OK)
        mine = ki_optim_check_complete(optim);
    kith_status status = sum_summands(optim); // what that waits is in the layers' traffic, by axis
    int64_t start_ns = ki_now_ns();
    if (status == KITH_OK)
        status = ki_optim_start_until(optim, optim->bucket_count);
    kith_status waited = ki_optim_wait_reduced(optim);
    optim->reduce_wait_s = seconds_since(start_ns);
    if (status == KITH_OK)
        status = waited;
    return status == KITH_OK ? find_norm(optim, mine) : status;
}

static kith_status reduce_step(kith_optim *optim, kith_status mine)
{
    if (optim == NULL || optim->stage != KI_OPTIM_BEGUN)
        return ki_fail(KITH_ERR_INVALID_ARG, "kith_optim_reduce: a step begins with kith_optim_begin()");
    kith_status status = reduce(optim, mine);
    optim->stage = status == KITH_OK ? KI_OPTIM_REDUCED : KI_OPTIM_IDLE;
    return status;
}

kith_status kith_optim_reduce(kith_optim *optim, double *grad_norm)
{
    kith_status status = reduce_step(optim, KITH_OK);
    if (status == KITH_OK && grad_norm != NULL)
        *grad_norm = optim->norm;
    return status;
}

/* ---- weights ---- */

static kith_status update(kith_optim *optim, double rate, double grad_scale, kith_optim_result *result)
{
    kith_status status = KITH_OK;
    result->is_skipped = !isfinite(result->grad_norm);
    if (result->is_skipped)
        return KITH_OK;
    if (optim->options.clip_norm > 0 && result->grad_norm > optim->options.clip_norm)
        result->clip_factor = optim->options.clip_norm / result->grad_norm;
    status = ki_optim_update_all(optim, rate, grad_scale * result->clip_factor);
    int64_t start_ns = ki_now_ns();
    kith_status gathered = ki_optim_gather_all(optim);
    result->gather_wait_s = seconds_since(start_ns);
    if (status == KITH_OK)
        status = gathered;
    if (status == KITH_OK)
        optim->steps++;
    return status;
}

kith_status kith_optim_update(kith_optim *optim, double learning_rate, double grad_scale, kith_optim_result *result)
{
    if (optim == NULL || optim->stage != KI_OPTIM_REDUCED)
        return ki_fail(KITH_ERR_INVALID_ARG, "kith_optim_update: kith_optim_reduce() comes before it");
    if (!isfinite(learning_rate) || learning_rate < 0 || !isfinite(grad_scale))
        return ki_fail(KITH_ERR_INVALID_ARG,
                       "kith_optim_update: learning_rate %g, grad_scale %g: wanted finite numbers, the rate not "
                       "negative",
                       learning_rate, grad_scale);
    kith_optim_result made = { .grad_norm = optim->norm * fabs(grad_scale),
                               .clip_factor = 1,
                               .reduce_wait_s = optim->reduce_wait_s };
    optim->stage = KI_OPTIM_IDLE;
    kith_status status = update(optim, learning_rate, grad_scale, &made);
    made.step = optim->steps;
    if (status == KITH_OK && result != NULL)
        *result = made;
    return status;
}

kith_status kith_optim_step(kith_optim *optim, double learning_rate, kith_optim_result *result)
{
    kith_status status = KITH_OK;
    if (!isfinite(learning_rate) || learning_rate < 0)
        status = ki_fail(KITH_ERR_INVALID_ARG,
                         "kith_optim_step: learning_rate %g: wanted a finite number, not negative", learning_rate);
    status = reduce_step(optim, status);
    return status == KITH_OK ? kith_optim_update(optim, learning_rate, 1, result) : status;
}
