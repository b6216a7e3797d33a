/* core/algo/blocks.c - where each rank's block lies.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "parts.h"

ki_blocks ki_blocks_equal(ki_buf buf, size_t count, size_t nbytes)
{
    ki_blocks blocks = { .buf = buf, .nbytes = nbytes, .count = count };
    return blocks;
}

ki_blocks ki_blocks_v(ki_buf buf, const size_t *counts, const size_t *displs, size_t nbytes)
{
    ki_blocks blocks = { .buf = buf, .nbytes = nbytes, .counts = counts, .displs = displs };
    return blocks;
}

ki_blocks ki_slices(ki_buf buf, size_t total, int parts, size_t nbytes)
{
    ki_blocks blocks = { .buf = buf, .nbytes = nbytes, .total = total, .parts = parts };
    return blocks;
}

ki_ref ki_block_at(const ki_blocks *blocks, int i)
{
    size_t start = blocks->parts > 0 ? ki_slice(blocks->total, blocks->parts, i)
                   : blocks->counts  ? blocks->displs[i]
                                     : blocks->count * (size_t)i;
    return ki_at(blocks->buf, start * blocks->nbytes);
}

size_t ki_block_nbytes(const ki_blocks *blocks, int i)
{
    size_t count = blocks->count;
    if (blocks->parts > 0)
        count = ki_slice(blocks->total, blocks->parts, i + 1) - ki_slice(blocks->total, blocks->parts, i);
    else if (blocks->counts)
        count = blocks->counts[i];
    return count * blocks->nbytes;
}

size_t *ki_slice_bounds(ki_plan *plan, size_t count, int parts)
{
    size_t *bounds = ki_plan_numbers(plan, (size_t)parts + 1);
    for (int i = 0; bounds && i <= parts; i++)
        bounds[i] = ki_slice(count, parts, i);
    return bounds;
}

size_t *ki_block_bounds(const ki_algo_args *args, ki_plan *plan)
{
    const kith_be_coll *coll = args->coll;
    size_t *bounds = ki_plan_numbers(plan, (size_t)args->size + 1);
    size_t start = 0;
    for (int r = 0; bounds && r <= args->size; r++) {
        bounds[r] = start;
        if (r < args->size)
            start += coll->kind == KITH_REDUCE_SCATTER_V ? coll->recv_counts[r] : coll->count;
    }
    return bounds;
}
