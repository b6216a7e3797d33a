/* layers/optim/reduce.c - gradients that become complete, and buckets that travel while backward computes.
 *
 * A gradient is complete when it was added to as often as its layers use it, in each microbatch. Buckets start strictly
 * in their order, whichever is complete first, so that all ranks start the same collectives in the same order. Nothing
 * moves messages but calls: each further gradient gives what is under way a push.
 *
 * Whatever goes wrong on a rank alone - a layer that was not used, weights that are not done - it still starts every
 * bucket of the step, with what its gradients are; that is told to all afterwards (step.c), and nobody waits for
 * somebody who does not come.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "optim.h"

#include "core/base/clock.h"
#include <kith/request.h>
#include <stdio.h>

static kith_status start(kith_optim *optim, ki_bucket *bucket)
{
    if (bucket->data.size == 1)
        return KITH_OK;
    kith_dtype dtype = optim->layers->accumulator;
    size_t each = kith_dtype_nbytes(dtype), count = (size_t)bucket->elements;
    bucket->reduce_ns[0] = ki_now_ns();
    char *grads = (char *)bucket->home->grad;
    if (!optim->options.is_sharded) {
        optim->traffic.all_reduces++;
        optim->traffic.all_reduce_nbytes += count * each;
        return kith_all_reduce_start(bucket->data.group, grads, grads, count, dtype, KITH_SUM, &bucket->request);
    }
    optim->traffic.reduce_scatters++;
    optim->traffic.reduce_scatter_nbytes += count * each;
    return kith_reduce_scatter_start(bucket->data.group, grads, grads + (size_t)bucket->shard_first * each,
                                     (size_t)bucket->shard_count, dtype, KITH_SUM, &bucket->request);
}

kith_status ki_optim_start_until(kith_optim *optim, size_t end)
{
    while (optim->next < end && optim->failure == KITH_OK)
        optim->failure = start(optim, &optim->buckets[optim->next++]);
    return optim->failure;
}

static bool can_start(const kith_optim *optim)
{
    if (optim->next == optim->bucket_count)
        return false;
    const ki_bucket *bucket = &optim->buckets[optim->next];
    return bucket->missing == 0 && !bucket->is_late;
}

/* One that was not started, over one rank, has arrived at once. */
static void note_arrival(ki_bucket *bucket)
{
    if (bucket->data.size > 1)
        bucket->reduce_ns[1] = ki_now_ns();
}

static void push(kith_optim *optim)
{
    int is_done = 1;
    while (optim->oldest < optim->next && is_done && optim->failure == KITH_OK) {
        optim->failure = kith_test(&optim->buckets[optim->oldest].request, &is_done);
        if (is_done)
            note_arrival(&optim->buckets[optim->oldest]);
        optim->oldest += (size_t)is_done;
    }
}

static int64_t expected(const kith_optim *optim, const ki_block *block)
{
    return (int64_t)optim->microbatches * block->uses;
}

void ki_optim_grad_added(void *context, ki_block *block)
{
    kith_optim *optim = (kith_optim *)context;
    ki_bucket *bucket = ki_optim_bucket_of(block);
    if (optim->stage != KI_OPTIM_BEGUN || bucket == NULL)
        return;
    if (block->added == expected(optim, block))
        bucket->missing--;
    while (!optim->options.is_deferred && optim->failure == KITH_OK && can_start(optim)) {
        optim->buckets[optim->next].was_early = optim->buckets[optim->next].data.size > 1;
        ki_optim_start_until(optim, optim->next + 1);
    }
    push(optim);
}

void ki_optim_grads_zeroed(void *context)
{
    kith_optim *optim = (kith_optim *)context;
    optim->is_spoiled = optim->stage == KI_OPTIM_BEGUN && optim->next > 0;
    for (size_t b = optim->next; b < optim->bucket_count && optim->stage == KI_OPTIM_BEGUN; b++)
        optim->buckets[b].missing = optim->buckets[b].place_count;
}

kith_status ki_optim_wait_reduced(kith_optim *optim)
{
    for (; optim->oldest < optim->next; optim->oldest++) {
        kith_status status = ki_space_end(&optim->layers->space, &optim->buckets[optim->oldest].request);
        note_arrival(&optim->buckets[optim->oldest]);
        if (optim->failure == KITH_OK)
            optim->failure = status;
    }
    return optim->failure;
}

static size_t early_buckets(const kith_optim *optim)
{
    size_t count = 0;
    while (count < optim->bucket_count && !optim->buckets[count].is_late)
        count++;
    return count;
}

kith_status ki_optim_settle(kith_optim *optim)
{
    if (optim->stage != KI_OPTIM_BEGUN || optim->options.is_deferred)
        return KITH_OK;
    ki_optim_start_until(optim, early_buckets(optim));
    return ki_optim_wait_reduced(optim);
}

/* ---- is everything there? ---- */

/* Names of gradients of one kind of fault, in a sentence's room. */
typedef struct names {
    char text[512];
    size_t nbytes, count;
} names;

static void add_names(names *list, const ki_block *block)
{
    for (const ki_param *p = block->params; p != NULL; p = p->next) {
        int room = (int)(sizeof list->text - list->nbytes);
        const char *between = list->count > 0 ? ", " : "";
        list->count++;
        int wanted = snprintf(list->text + list->nbytes, (size_t)room, "%s%s", between, p->param.name);
        if (wanted < room)
            list->nbytes += (size_t)wanted;
        else
            list->text[list->nbytes] = '\0'; // only whole names; the count tells that there are more
    }
}

static kith_status fail_unused(const names *unused)
{
    return ki_fail(KITH_ERR_INVALID_ARG,
                   "kith_optim_step: %zu gradients were not added to by any microbatch: %s; allows_unused takes them "
                   "as zeros",
                   unused->count, unused->text);
}

static kith_status fail_miscounted(const kith_optim *optim, const names *miscounted, int64_t added, int64_t wanted)
{
    return ki_fail(KITH_ERR_INVALID_ARG,
                   "kith_optim_step: gradients were not added to as often as %d microbatches do (%lld times, wanted "
                   "%lld): %s",
                   optim->microbatches, (long long)added, (long long)wanted, miscounted->text);
}

kith_status ki_optim_check_complete(const kith_optim *optim)
{
    names unused = { .count = 0 }, miscounted = { .count = 0 };
    int64_t added = 0, wanted = 0;
    if (optim->layers->pending_weights > 0)
        return ki_fail(KITH_ERR_INVALID_ARG,
                       "kith_optim_step: gradients of %lld weights are still to be computed by "
                       "kith_tape_weight_grads()",
                       (long long)optim->layers->pending_weights);
    if (optim->is_spoiled)
        return ki_fail(
            KITH_ERR_INVALID_ARG,
            "kith_optim_step: gradients were zeroed in the middle of the step, when some had begun to travel; "
            "kith_optim_begin() does it");
    for (size_t i = optim->place_count; i-- > 0;) {
        const ki_block *block = optim->places[i].block;
        if (block->added == expected(optim, block))
            continue;
        if (block->added != 0 && miscounted.count == 0)
            added = block->added, wanted = expected(optim, block);
        add_names(block->added == 0 ? &unused : &miscounted, block);
    }
    if (miscounted.count > 0)
        return fail_miscounted(optim, &miscounted, added, wanted);
    return unused.count > 0 && !optim->options.allows_unused ? fail_unused(&unused) : KITH_OK;
}
