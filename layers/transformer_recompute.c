/* layers/transformer_recompute.c - blocks forward and backward, in runs of which some are computed twice.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "transformer.h"

typedef enum tape_use { IS_KEPT, IS_DROPPED } tape_use;

/* The last of a chain of tensors is the result, or is released when the chain broke. */
static kith_status hand_over(kith_status status, kith_tensor *last, kith_tensor *result)
{
    if (status == KITH_OK)
        *result = *last;
    else
        kith_tensor_release(last);
    return status;
}

/* The next of a chain takes the place of the one that it was made from. */
static void go_on(kith_tensor *at, const kith_tensor *next)
{
    kith_tensor_release(at);
    *at = *next;
}

/* Blocks [first, end) forward, one after the other. IS_DROPPED: nothing stays on the tape, block by block, so that no
 * more than one block's is there at once. */
static kith_status forward_blocks(kith_transformer *transformer, kith_tape *tape, int64_t first, int64_t end,
                                  tape_use use, const kith_tensor *x, kith_tensor *y, kith_transformer_loss *loss)
{
    kith_tensor at = { 0 };
    kith_status status = kith_tensor_retain(x, &at);
    for (int64_t i = first; i < end && status == KITH_OK; i++) {
        kith_tensor next = { 0 };
        size_t depth = kith_tape_depth(tape);
        status = kith_block_forward(transformer->blocks[i], tape, &at, &next, loss);
        if (use == IS_DROPPED)
            ki_tape_drop(tape, depth);
        go_on(&at, &next);
    }
    return hand_over(status, &at, y);
}

static kith_status backward_blocks(kith_transformer *transformer, kith_tape *tape, int64_t first, int64_t end,
                                   const kith_tensor *dy, double auxiliary_scale, kith_tensor *dx)
{
    kith_tensor at = { 0 };
    kith_status status = kith_tensor_retain(dy, &at);
    for (int64_t i = end - 1; i >= first && status == KITH_OK; i--) {
        kith_tensor before = { 0 };
        status = kith_block_backward(transformer->blocks[i], tape, &at, auxiliary_scale, &before);
        go_on(&at, &before);
    }
    return hand_over(status, &at, dx);
}

static kith_status keep_input(kith_tape *tape, const void *owner, const kith_tensor *x)
{
    ki_saved saved = { .owner = owner, .name = "a run of blocks that is computed again" };
    kith_status status = ki_saved_keep(&saved, 0, x);
    return status == KITH_OK ? ki_tape_push(tape, &saved) : status;
}

/* With full recomputation: the input of each run stays, or that of the first alone. */
static kith_status forward_again(kith_transformer *transformer, kith_tape *tape, const kith_tensor *x, kith_tensor *y,
                                 kith_transformer_loss *loss)
{
    kith_tensor at = { 0 };
    kith_status status = kith_tensor_retain(x, &at);
    for (int64_t first = 0; first < transformer->block_count && status == KITH_OK; first += transformer->run) {
        int64_t end =
            first + transformer->run < transformer->block_count ? first + transformer->run : transformer->block_count;
        kith_tensor next = { 0 };
        if (first == 0 || !transformer->options.is_from_start)
            status = keep_input(tape, &transformer->blocks[first], &at);
        if (status == KITH_OK)
            status = forward_blocks(transformer, tape, first, end, IS_DROPPED, &at, &next, loss);
        go_on(&at, &next);
    }
    return hand_over(status, &at, y);
}

/* Computes [first, end) again from x, keeping everything, and goes back through it. */
static kith_status again_and_back(kith_transformer *transformer, kith_tape *tape, int64_t first, int64_t end,
                                  const kith_tensor *x, const kith_tensor *dy, double auxiliary_scale, kith_tensor *dx)
{
    kith_tensor unused = { 0 };
    size_t depth = kith_tape_depth(tape);
    tape->is_recomputing = true;
    kith_status status = forward_blocks(transformer, tape, first, end, IS_KEPT, x, &unused, NULL);
    tape->is_recomputing = false;
    kith_tensor_release(&unused);
    if (status != KITH_OK)
        ki_tape_drop(tape, depth);
    return status == KITH_OK ? backward_blocks(transformer, tape, first, end, dy, auxiliary_scale, dx) : status;
}

static kith_status backward_runs(kith_transformer *transformer, kith_tape *tape, const kith_tensor *dy,
                                 double auxiliary_scale, kith_tensor *dx)
{
    kith_tensor at = { 0 };
    kith_status status = kith_tensor_retain(dy, &at);
    int64_t runs = (transformer->block_count + transformer->run - 1) / transformer->run;
    for (int64_t r = runs - 1; r >= 0 && status == KITH_OK; r--) {
        int64_t first = r * transformer->run;
        int64_t end =
            first + transformer->run < transformer->block_count ? first + transformer->run : transformer->block_count;
        ki_saved saved = { 0 };
        kith_tensor before = { 0 };
        status = ki_tape_pop(tape, &transformer->blocks[first], "a run of blocks", &saved);
        if (status == KITH_OK)
            status = again_and_back(transformer, tape, first, end, &saved.tensors[0], &at, auxiliary_scale, &before);
        ki_saved_release(&saved);
        go_on(&at, &before);
    }
    return hand_over(status, &at, dx);
}

/* Memory poor: every block begins at the start. */
static kith_status backward_from_start(kith_transformer *transformer, kith_tape *tape, const kith_tensor *dy,
                                       double auxiliary_scale, kith_tensor *dx)
{
    ki_saved saved = { 0 };
    kith_tensor at = { 0 };
    kith_status status = ki_tape_pop(tape, &transformer->blocks[0], "the blocks of a transformer", &saved);
    if (status == KITH_OK)
        status = kith_tensor_retain(dy, &at);
    for (int64_t i = transformer->block_count - 1; i >= 0 && status == KITH_OK; i--) {
        kith_tensor input = { 0 }, before = { 0 };
        tape->is_recomputing = true;
        status = forward_blocks(transformer, tape, 0, i, IS_DROPPED, &saved.tensors[0], &input, NULL);
        tape->is_recomputing = false;
        if (status == KITH_OK)
            status = again_and_back(transformer, tape, i, i + 1, &input, &at, auxiliary_scale, &before);
        kith_tensor_release(&input);
        go_on(&at, &before);
    }
    ki_saved_release(&saved);
    return hand_over(status, &at, dx);
}

kith_status ki_transformer_blocks_forward(kith_transformer *transformer, kith_tape *tape, const kith_tensor *x,
                                          kith_tensor *y, kith_transformer_loss *loss)
{
    if (transformer->run == 0)
        return forward_blocks(transformer, tape, 0, transformer->block_count, IS_KEPT, x, y, loss);
    return forward_again(transformer, tape, x, y, loss);
}

kith_status ki_transformer_blocks_backward(kith_transformer *transformer, kith_tape *tape, const kith_tensor *dy,
                                           double auxiliary_scale, kith_tensor *dx)
{
    if (transformer->run == 0)
        return backward_blocks(transformer, tape, 0, transformer->block_count, dy, auxiliary_scale, dx);
    if (transformer->options.is_from_start && transformer->block_count > 0)
        return backward_from_start(transformer, tape, dy, auxiliary_scale, dx);
    return backward_runs(transformer, tape, dy, auxiliary_scale, dx);
}
