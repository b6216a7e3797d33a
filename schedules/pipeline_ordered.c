/* schedules/pipeline_ordered.c - with is_ordered: gradients of microbatches are added in the order of their numbers.
 *
 * The sum of floating-point numbers depends on its order, and plans differ in theirs. Here each microbatch gets zeroed
 * memory to write its gradient to, and the sum takes them as 0, 1, 2, ... whenever they come. One that comes out of
 * turn waits; the plan says how many do at most.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "pipeline.h"

#include "core/base/error.h"
#include "core/base/mem.h"

#include <stdlib.h>
#include <string.h>

enum { LINE_NBYTES = 64 };

static const kith_grad_bucket *bucket_of(const kith_pipeline *p, const ki_pipe_ordered *o, size_t i)
{
    return &p->options.buckets[o->bucket_index[i]];
}

/* Where the next bucket begins in the memory of a microbatch; false: too large. */
static bool add_bucket(const kith_grad_bucket *bucket, size_t *nbytes)
{
    size_t own;
    if (!ki_mul(bucket->count, kith_dtype_nbytes(bucket->dtype), &own) || !ki_add(own, LINE_NBYTES - 1, &own))
        return false;
    return ki_add(*nbytes, own / LINE_NBYTES * LINE_NBYTES, nbytes);
}

static kith_status find_buckets(kith_pipeline *p, ki_pipe_ordered *o, int stage)
{
    o->bucket_index = ki_pipe_zeroed(p->options.bucket_count, sizeof *o->bucket_index);
    if (o->bucket_index == NULL)
        return ki_fail(KITH_ERR_NO_MEMORY, "no memory for %zu gradient buckets", p->options.bucket_count);
    for (size_t i = 0; i < p->options.bucket_count; i++) {
        if (p->options.buckets[i].stage != stage)
            continue;
        o->bucket_index[o->bucket_count++] = i;
        if (!add_bucket(&p->options.buckets[i], &o->nbytes))
            return ki_fail(KITH_ERR_INVALID_ARG, "bucket %zu of %zu elements: its gradients do not fit 64 bits", i,
                           p->options.buckets[i].count);
    }
    return KITH_OK;
}

static kith_status allocate_one(kith_pipeline *p, ki_pipe_ordered *o, ki_pipe_ordered_grad *grad)
{
    grad->grads = ki_pipe_zeroed(o->bucket_count, sizeof *grad->grads);
    grad->memory = ki_pipe_block(1, o->nbytes);
    if (grad->grads == NULL || grad->memory == NULL)
        return ki_fail(KITH_ERR_NO_MEMORY, "no memory for the gradients of %d microbatches of %zu bytes", o->need,
                       o->nbytes);
    size_t begin = 0;
    for (size_t i = 0; i < o->bucket_count; i++) {
        grad->grads[i] = (unsigned char *)grad->memory + begin;
        add_bucket(bucket_of(p, o, i), &begin);
    }
    p->pool_nbytes += o->nbytes;
    return KITH_OK;
}

static kith_status allocate(kith_pipeline *p, ki_pipe_ordered *o, int stage)
{
    kith_status status = find_buckets(p, o, stage);
    if (status != KITH_OK || o->bucket_count == 0)
        return status;
    o->all = ki_pipe_zeroed((size_t)o->need, sizeof *o->all);
    o->waiting = ki_pipe_zeroed((size_t)p->microbatches, sizeof *o->waiting);
    if (o->all == NULL || o->waiting == NULL)
        return ki_fail(KITH_ERR_NO_MEMORY, "no memory for the gradients of %d microbatches", o->need);
    for (int i = 0; i < o->need && status == KITH_OK; i++)
        status = allocate_one(p, o, &o->all[i]);
    return status;
}

kith_status ki_pipe_ordered_allocate(kith_pipeline *p)
{
    kith_status status = KITH_OK;
    for (int chunk = 0; p->ordered != NULL && chunk < p->chunks && status == KITH_OK; chunk++)
        status = allocate(p, &p->ordered[chunk], kith_schedule_stage_of_chunk(p->schedule, p->rank, chunk));
    return status;
}

void ki_pipe_ordered_free(kith_pipeline *p)
{
    for (int chunk = 0; p->ordered != NULL && chunk < p->chunks; chunk++) {
        ki_pipe_ordered *o = &p->ordered[chunk];
        for (int i = 0; o->all != NULL && i < o->need; i++) {
            free(o->all[i].grads);
            free(o->all[i].memory);
        }
        free(o->all);
        free(o->waiting);
        free(o->bucket_index);
    }
    free(p->ordered);
}

void ki_pipe_ordered_reset(kith_pipeline *p)
{
    for (int chunk = 0; p->ordered != NULL && chunk < p->chunks; chunk++) {
        ki_pipe_ordered *o = &p->ordered[chunk];
        o->turn = 0;
        o->free = NULL;
        for (int i = 0; o->all != NULL && i < o->need; i++) {
            o->all[i].next = o->free;
            o->free = &o->all[i];
        }
        if (o->waiting != NULL)
            memset(o->waiting, 0, (size_t)p->microbatches * sizeof *o->waiting);
    }
}

/* ---- in a step ---- */

ki_pipe_ordered_grad *ki_pipe_ordered_take(kith_pipeline *p, const kith_action *a)
{
    bool gives_grad = a->type == KITH_ACTION_B || a->type == KITH_ACTION_W;
    if (p->ordered == NULL || !gives_grad || p->ordered[a->chunk].free == NULL)
        return NULL;
    ki_pipe_ordered *o = &p->ordered[a->chunk];
    ki_pipe_ordered_grad *grad = o->free;
    o->free = grad->next;
    memset(grad->memory, 0, o->nbytes);
    return grad;
}

static void add(const kith_grad_bucket *bucket, const void *grad)
{
    if (bucket->dtype == KITH_F32) {
        float *sum = bucket->grad;
        const float *more = grad;
        for (size_t i = 0; i < bucket->count; i++)
            sum[i] += more[i];
    } else {
        double *sum = bucket->grad;
        const double *more = grad;
        for (size_t i = 0; i < bucket->count; i++)
            sum[i] += more[i];
    }
}

void ki_pipe_ordered_add(kith_pipeline *p, const kith_action *a, ki_pipe_ordered_grad *grad)
{
    ki_pipe_ordered *o = &p->ordered[a->chunk];
    o->waiting[a->microbatch] = grad;
    for (; o->turn < p->microbatches && o->waiting[o->turn] != NULL; o->turn++) {
        ki_pipe_ordered_grad *next = o->waiting[o->turn];
        for (size_t i = 0; !p->is_failed && i < o->bucket_count; i++)
            add(bucket_of(p, o, i), next->grads[i]);
        o->waiting[o->turn] = NULL;
        next->next = o->free;
        o->free = next;
    }
}
