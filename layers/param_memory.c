/* layers/param_memory.c - where parameters lie: blocks that move, and who must hear of it.
 *
 * Parameters that are computed together (q, k, v; gate and up of an expert) are parts of one block. A layer that adds
 * to a block's gradient says so, and which views of it it keeps; an optimizer moves blocks into memory of its own
 * making, so that many travel as one (optim/buckets.c), and moving rewrites the views.
 *
 * A home is memory that blocks lie in: one block's own, or a bucket's. It is freed when the last block has left it, at
 * the latest with the layers. Blocks and uses die with the layer that made them, in the reverse order of creation.
 *
 * A block also counts: how many layers use it, and how often backward has added to its gradient. That says when a
 * gradient is complete.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "layers.h"

static void home_free(void *object)
{
    ki_home *home = (ki_home *)object;
    ki_space_free(home->space, home->value);
    ki_space_free(home->space, home->grad);
    home->value = home->grad = NULL;
}

kith_status ki_home_create(kith_layers *layers, int64_t elements, ki_home **out)
{
    size_t count = elements > 0 ? (size_t)elements : 1; // so that a block without elements has an address, too
    ki_home *home = NULL;
    kith_status status = ki_layers_own(layers, sizeof *home, home_free, &home);
    if (status != KITH_OK)
        return status;
    home->space = &layers->space;
    if (!layers->is_dry) {
        home->value = ki_space_calloc(home->space, count, kith_dtype_nbytes(layers->dtype));
        home->grad = ki_space_calloc(home->space, count, kith_dtype_nbytes(layers->accumulator));
        if (home->value == NULL || home->grad == NULL) {
            home_free(home);
            return ki_fail(KITH_ERR_NO_MEMORY, "layers: no memory for %lld elements of parameters",
                           (long long)elements);
        }
    }
    *out = home;
    return KITH_OK;
}

kith_status ki_param_memory(kith_layers *layers, int64_t elements, ki_block **out)
{
    size_t value_nbytes, grad_nbytes;
    if (!ki_mul((size_t)elements, kith_dtype_nbytes(layers->dtype), &value_nbytes) ||
        !ki_mul((size_t)elements, kith_dtype_nbytes(layers->accumulator), &grad_nbytes))
        return ki_fail(KITH_ERR_NO_MEMORY, "layers: a parameter of %lld elements is too large", (long long)elements);
    ki_home *home = NULL;
    ki_block *block = NULL;
    kith_status status = ki_home_create(layers, elements, &home);
    if (status == KITH_OK)
        status = ki_layers_own(layers, sizeof *block, NULL, &block);
    if (status != KITH_OK)
        return status;
    home->blocks = 1;
    block->home = home;
    block->value = home->value;
    block->grad = home->grad;
    block->elements = elements;
    layers->memory.parameters += value_nbytes;
    layers->memory.grads += grad_nbytes;
    *out = block;
    return KITH_OK;
}

void ki_block_view(const kith_layers *layers, const ki_block *block, int64_t first, int dim_count, const int64_t *shape,
                   kith_tensor *value, kith_tensor *grad)
{
    *value = kith_tensor_view(block->value, layers->dtype, dim_count, shape);
    *grad = kith_tensor_view(block->grad, layers->accumulator, dim_count, shape);
    if (block->value == NULL)
        return;
    value->data = (char *)block->value + first * (int64_t)kith_dtype_nbytes(layers->dtype);
    grad->data = (char *)block->grad + first * (int64_t)kith_dtype_nbytes(layers->accumulator);
}

/* ---- users ---- */

static void use_end(void *object)
{
    ki_use *use = (ki_use *)object;
    use->block->users = use->next; // the latest goes first
    use->block->uses--;
}

kith_status ki_block_use(kith_layers *layers, ki_block *block, kith_tensor *value, kith_tensor *grad)
{
    ki_use *use = NULL;
    kith_status status = ki_layers_own(layers, sizeof *use, use_end, &use);
    if (status != KITH_OK)
        return status;
    use->block = block;
    use->value = value;
    use->grad = grad;
    use->next = block->users;
    block->users = use;
    block->uses++;
    return KITH_OK;
}

/* ---- moving ---- */

static void shift(kith_tensor *view, const void *from, void *to)
{
    if (view != NULL)
        view->data = (char *)to + ((const char *)view->data - (const char *)from);
}

static void shift_views(ki_block *block, void *value, void *grad)
{
    for (ki_param *param = block->params; param != NULL; param = param->next) {
        shift(&param->param.value, block->value, value);
        shift(&param->param.grad, block->grad, grad);
    }
    for (ki_use *use = block->users; use != NULL; use = use->next) {
        shift(use->value, block->value, value);
        shift(use->grad, block->grad, grad);
    }
    block->value = value;
    block->grad = grad;
}

kith_status ki_block_move(kith_layers *layers, ki_block *block, ki_home *home, int64_t first)
{
    ki_home *left = block->home;
    if (!layers->is_dry) {
        size_t value_nbytes = kith_dtype_nbytes(layers->dtype), grad_nbytes = kith_dtype_nbytes(layers->accumulator);
        char *value = (char *)home->value + (size_t)first * value_nbytes;
        char *grad = (char *)home->grad + (size_t)first * grad_nbytes;
        size_t elements = (size_t)block->elements;
        kith_status status = ki_space_copy(&layers->space, value, block->value, elements * value_nbytes);
        if (status == KITH_OK)
            status = ki_space_copy(&layers->space, grad, block->grad, elements * grad_nbytes);
        if (status != KITH_OK)
            return status;
        shift_views(block, value, grad);
    }
    home->blocks++;
    block->home = home;
    if (--left->blocks == 0)
        home_free(left);
    return KITH_OK;
}

/* ---- counting ---- */

void ki_grad_added(kith_layers *layers, ki_block *block)
{
    block->added++;
    if (layers->grad_hook.added != NULL)
        layers->grad_hook.added(layers->grad_hook.context, block);
}
