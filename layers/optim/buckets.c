/* layers/optim/buckets.c - which block is in which bucket.
 *
 * Blocks are taken in the reverse order of their creation, which is about the order in which backward completes them.
 * There are three sorts, each with buckets of its own: experts, whose gradients other ranks share; those that are
 * summands over tp or have a copy on another stage, which can travel only after that was summed; all others. A bucket
 * is full when it has bucket_nbytes of gradients or more.
 *
 * Buckets travel in the order in which they became full, late ones last. That order, like all here, follows from the
 * parameters alone, so it is the same on all ranks that reduce together: of experts, of which other ranks of ep may
 * have more, among those with the same ones, and of all others among all.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "optim.h"

#include <stdlib.h>

#define UNIT 16 /* elements; a cache line of f32 */

typedef enum sort { ORDINARY, EXPERT, LATE, SORTS } sort;

static sort sort_of(const kith_optim *optim, const ki_block *block)
{
    for (const ki_param *p = block->params; p != NULL; p = p->next)
        if (p->param.is_grad_partial || &p->param == optim->options.tied)
            return LATE;
    return block->params->param.is_expert ? EXPERT : ORDINARY;
}

static int64_t round_up(int64_t elements, int64_t unit)
{
    return (elements + unit - 1) / unit * unit;
}

static size_t count_blocks(const kith_layers *layers)
{
    size_t count = 0;
    for (size_t i = 0; i < layers->param_count; i++)
        count += &ki_block_of(layers->params[i])->params->param == layers->params[i];
    return count;
}

/* Latest first. */
static void list_blocks(const kith_layers *layers, ki_place *places)
{
    size_t count = 0;
    for (size_t i = layers->param_count; i-- > 0;) {
        ki_param *param = (ki_param *)layers->params[i];
        if (param->next == NULL) // the block's last
            places[count++].block = param->block;
    }
}

/* A bucket while it is filled. */
typedef struct filling {
    sort sort;
    size_t last_place; /* when it became full */
    int64_t elements;
    size_t place_count, param_count;
} filling;

/* Fills in the bucket of each place, in the order of opening. Returns how many there are. */
static size_t deal(const kith_optim *optim, filling *filled)
{
    size_t count = 0, open[SORTS];
    bool is_open[SORTS] = { false };
    size_t each = kith_dtype_nbytes(optim->layers->accumulator);
    for (size_t i = 0; i < optim->place_count; i++) {
        ki_place *place = &optim->places[i];
        sort kind = sort_of(optim, place->block);
        if (!is_open[kind]) {
            open[kind] = count;
            filled[count++] = (filling){ .sort = kind };
            is_open[kind] = true;
        }
        filling *bucket = &filled[open[kind]];
        place->bucket = open[kind];
        place->first = bucket->elements;
        bucket->elements += round_up(place->block->elements, UNIT);
        bucket->last_place = i;
        bucket->place_count++;
        for (const ki_param *p = place->block->params; p != NULL; p = p->next)
            bucket->param_count++;
        is_open[kind] = (size_t)bucket->elements < (optim->options.bucket_nbytes + each - 1) / each;
    }
    return count;
}

/* Does bucket a travel before b? */
static bool is_before(const filling *filled, size_t a, size_t b)
{
    if ((filled[a].sort == LATE) != (filled[b].sort == LATE))
        return filled[b].sort == LATE;
    return filled[a].last_place < filled[b].last_place;
}

static size_t rank_among(const filling *filled, size_t count, size_t bucket)
{
    size_t rank = 0;
    for (size_t i = 0; i < count; i++)
        rank += is_before(filled, i, bucket);
    return rank;
}

static int by_bucket(const void *a, const void *b)
{
    const ki_place *left = (const ki_place *)a, *right = (const ki_place *)b;
    if (left->bucket != right->bucket)
        return left->bucket < right->bucket ? -1 : 1;
    return left->first < right->first ? -1 : left->first > right->first;
}

static void describe(kith_optim *optim, const filling *from, ki_bucket *bucket)
{
    bucket->is_late = from->sort == LATE;
    bucket->is_expert = from->sort == EXPERT;
    bucket->data = bucket->is_expert ? optim->expert_data : optim->data;
    bucket->elements = round_up(from->elements, (int64_t)UNIT * bucket->data.size);
    kith_split_range(bucket->elements, bucket->data.size, bucket->data.rank, &bucket->shard_first,
                     &bucket->shard_count);
    bucket->state_first = optim->options.is_sharded ? bucket->shard_first : 0;
    bucket->state_count = optim->options.is_sharded ? bucket->shard_count : bucket->elements;
    bucket->place_count = from->place_count;
    bucket->param_count = from->param_count;
}

/* Buckets in the order of travel, and the places of each one after the other. */
static void put_in_order(kith_optim *optim, const filling *filled)
{
    for (size_t i = 0; i < optim->bucket_count; i++)
        describe(optim, &filled[i], &optim->buckets[rank_among(filled, optim->bucket_count, i)]);
    for (size_t i = 0; i < optim->place_count; i++)
        optim->places[i].bucket = rank_among(filled, optim->bucket_count, optim->places[i].bucket);
    qsort(optim->places, optim->place_count, sizeof *optim->places, by_bucket);
    ki_place *places = optim->places;
    const kith_param **params = optim->params;
    size_t numbers[2] = { 0, 0 };
    for (size_t b = 0; b < optim->bucket_count; b++) {
        ki_bucket *bucket = &optim->buckets[b];
        bucket->number = numbers[bucket->is_expert]++;
        bucket->places = places;
        bucket->params = params;
        places += bucket->place_count;
        for (size_t i = 0; i < bucket->place_count; i++)
            for (const ki_param *p = bucket->places[i].block->params; p != NULL; p = p->next)
                *params++ = &p->param;
    }
}

/* One bucket at a time, so that no more than one is there twice. */
static kith_status move(kith_optim *optim, ki_bucket *bucket)
{
    kith_status status = ki_home_create(optim->layers, bucket->elements, &bucket->home);
    if (status != KITH_OK)
        return status;
    for (size_t i = 0; i < bucket->place_count && status == KITH_OK; i++) {
        ki_place *place = &bucket->places[i];
        status = ki_block_move(optim->layers, place->block, bucket->home, place->first);
        if (status != KITH_OK)
            break;
        place->block->bucket = bucket;
        place->block->bucket_first = place->first;
    }
    return status;
}

kith_status ki_optim_make_buckets(kith_optim *optim)
{
    kith_layers *layers = optim->layers;
    size_t blocks = count_blocks(layers);
    optim->places = (ki_place *)ki_calloc(NULL, blocks, sizeof *optim->places);
    optim->params = (const kith_param **)ki_calloc(NULL, layers->param_count, sizeof(const kith_param *));
    optim->buckets = (ki_bucket *)ki_calloc(NULL, blocks, sizeof *optim->buckets);
    filling *filled = (filling *)ki_calloc(NULL, blocks, sizeof *filled);
    kith_status status = KITH_OK;
    if (optim->places == NULL || optim->params == NULL || optim->buckets == NULL || filled == NULL)
        KI_OR_GOTO(end, KITH_ERR_NO_MEMORY);
    optim->place_count = blocks;
    list_blocks(layers, optim->places);
    optim->bucket_count = deal(optim, filled);
    put_in_order(optim, filled);
    for (size_t b = 0; b < optim->bucket_count; b++)
        KI_OR_GOTO(end, move(optim, &optim->buckets[b]));
end:
    ki_free(NULL, filled);
    return status;
}

void ki_optim_leave_buckets(kith_optim *optim)
{
    for (size_t i = 0; i < optim->place_count; i++)
        if (optim->places[i].block != NULL)
            optim->places[i].block->bucket = NULL;
    ki_free(NULL, optim->buckets);
    ki_free(NULL, optim->params);
    ki_free(NULL, optim->places);
}

int64_t ki_optim_overlap(int64_t first_a, int64_t count_a, int64_t first_b, int64_t count_b, int64_t *first)
{
    int64_t end_a = first_a + count_a, end_b = first_b + count_b;
    int64_t begin = first_a > first_b ? first_a : first_b, end = end_a < end_b ? end_a : end_b;
    *first = begin;
    return end > begin ? end - begin : 0;
}
