/* layers/optim/update.c - new weights out of gradients and state, bucket by bucket; other ranks' with shards.
 *
 * Elements are independent of each other, so a shard's bits do not depend on where it was cut out. While a bucket is
 * gathered, the next is updated.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "optim.h"

#include "core/base/clock.h"
#include <kith/request.h>

typedef struct how {
    double rate, grad_scale;
} how;

static ki_mat state_or_none(const kith_optim *optim, const ki_bucket *bucket, void *state, const ki_run *run)
{
    return state == NULL ? ki_no_mat() : ki_optim_state(optim, bucket, state, run->first, run->count);
}

static kith_status update_run(kith_optim *optim, const ki_bucket *bucket, const ki_run *run, const how *h)
{
    const kith_optim_options *o = &optim->options;
    ki_compute *compute = optim->layers->compute;
    ki_mat grads = ki_optim_grads(optim, bucket, run->first, run->count);
    ki_mat m = state_or_none(optim, bucket, bucket->m, run), v = state_or_none(optim, bucket, bucket->v, run);
    ki_mat weights = ki_optim_values(optim, bucket, run->first, run->count), stored = ki_no_mat();
    if (bucket->master != NULL) {
        stored = weights;
        weights = ki_optim_state(optim, bucket, bucket->master, run->first, run->count);
    }
    double decay = run->has_decay ? o->weight_decay : 0;
    if (o->kind == KITH_SGD)
        return compute->ops->sgd(compute, h->rate, o->momentum, decay, h->grad_scale, grads, m, weights, stored);
    ki_adamw adamw = { h->rate, o->beta1, o->beta2, o->epsilon, decay, optim->steps + 1, h->grad_scale };
    return compute->ops->adamw(compute, &adamw, grads, m, v, weights, stored);
}

static kith_status gather_start(kith_optim *optim, ki_bucket *bucket)
{
    if (!optim->options.is_sharded || bucket->data.size == 1)
        return KITH_OK;
    kith_dtype dtype = optim->layers->dtype;
    size_t each = kith_dtype_nbytes(dtype);
    bucket->gather_ns[0] = ki_now_ns();
    optim->traffic.all_gathers++;
    optim->traffic.all_gather_nbytes += (uint64_t)bucket->elements * each;
    char *values = (char *)bucket->home->value;
    return kith_all_gather_start(bucket->data.group, values + (size_t)bucket->shard_first * each, values,
                                 (size_t)bucket->shard_count, dtype, &bucket->request);
}

kith_status ki_optim_update_all(kith_optim *optim, double rate, double grad_scale)
{
    const how h = { rate, grad_scale };
    kith_status status = KITH_OK;
    for (size_t b = 0; b < optim->bucket_count && status == KITH_OK; b++) {
        ki_bucket *bucket = &optim->buckets[b];
        for (size_t i = 0; i < bucket->run_count && status == KITH_OK; i++)
            status = update_run(optim, bucket, &bucket->runs[i], &h);
        if (status == KITH_OK)
            status = gather_start(optim, bucket);
    }
    return status;
}

kith_status ki_optim_gather_all(kith_optim *optim)
{
    kith_status status = KITH_OK;
    for (size_t b = 0; b < optim->bucket_count; b++) {
        ki_bucket *bucket = &optim->buckets[b];
        kith_status of_bucket = ki_space_end(&optim->layers->space, &bucket->request);
        if (bucket->gather_ns[0] != 0)
            bucket->gather_ns[1] = ki_now_ns();
        if (status == KITH_OK)
            status = of_bucket;
    }
    return status;
}
