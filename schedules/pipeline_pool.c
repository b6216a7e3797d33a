/* schedules/pipeline_pool.c - buffers of activations and gradients: made once, lent and given back.
 *
 * A buffer that is free is filled with NaN when is_poisoned is set: whatever is used after its release, or before it
 * was received, shows.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "pipeline.h"

#include "core/base/error.h"
#include "core/base/fault.h"
#include "core/base/mem.h"

#include <stdlib.h>
#include <string.h>

void *ki_pipe_zeroed(size_t count, size_t nbytes)
{
    return ki_fault(KI_FAULT_ALLOC) ? NULL : calloc(count > 0 ? count : 1, nbytes);
}

void *ki_pipe_block(size_t count, size_t nbytes)
{
    size_t all;
    if (ki_fault(KI_FAULT_ALLOC) || !ki_mul(count, nbytes, &all) || all > PTRDIFF_MAX)
        return NULL;
    void *memory = NULL;
    return posix_memalign(&memory, 64, all > 0 ? all : 64) == 0 ? memory : NULL;
}

static void poison(const kith_pipeline *p, ki_pipe_buffer *buffer)
{
    if (p->options.is_poisoned) /* all bits set is NaN in every floating-point dtype */
        (void)ki_space_fill(&p->space, buffer->memory, 0xff, ki_pipe_message_stride(buffer->pool->capacity_nbytes));
}

static void *allocate_memory(const kith_pipeline *p, size_t count, size_t nbytes)
{
    size_t all;
    if (ki_space_is_host(&p->space))
        return ki_pipe_block(count, nbytes);
    return ki_mul(count, nbytes, &all) ? ki_space_alloc(&p->space, all) : NULL;
}

ki_pipe_buffer *ki_pipe_pool_take(kith_pipeline *p, ki_pipe_pool *pool)
{
    (void)p;
    ki_pipe_buffer *buffer = pool->free;
    if (buffer == NULL)
        return NULL;
    pool->free = buffer->next;
    buffer->next = NULL;
    ki_pipe_message_attach(buffer, buffer->memory, pool->capacity_nbytes);
    return buffer;
}

void ki_pipe_pool_give(kith_pipeline *p, ki_pipe_buffer *buffer)
{
    if (buffer == NULL)
        return;
    poison(p, buffer);
    buffer->next = buffer->pool->free;
    buffer->pool->free = buffer;
}

static kith_status allocate(kith_pipeline *p, ki_pipe_pool *pool)
{
    size_t count = (size_t)pool->count, stride = ki_pipe_message_stride(pool->capacity_nbytes);
    pool->memory = stride > 0 ? allocate_memory(p, count, stride) : NULL;
    pool->buffers = ki_pipe_zeroed(count, sizeof *pool->buffers);
    pool->sends = ki_pipe_zeroed(count, sizeof *pool->sends);
    pool->sent = ki_pipe_zeroed(count, sizeof *pool->sent);
    if (pool->memory == NULL || pool->buffers == NULL || pool->sends == NULL || pool->sent == NULL)
        return ki_fail(KITH_ERR_NO_MEMORY, "no memory for %d pipeline buffers of %zu bytes", pool->count,
                       pool->capacity_nbytes);
    for (size_t i = 0; i < count; i++) {
        pool->buffers[i].pool = pool;
        pool->buffers[i].memory = (unsigned char *)pool->memory + i * stride;
        ki_pipe_pool_give(p, &pool->buffers[i]);
    }
    p->pool_nbytes += count * stride;
    return KITH_OK;
}

kith_status ki_pipe_pools_allocate(kith_pipeline *p)
{
    kith_status status = KITH_OK;
    for (int i = 0; i < p->pool_count && status == KITH_OK; i++)
        status = allocate(p, &p->pools[i]);
    return status;
}

void ki_pipe_pools_free(kith_pipeline *p)
{
    ki_space_settle(&p->space);
    for (int i = 0; p->pools != NULL && i < p->pool_count; i++) {
        ki_space_free(&p->space, p->pools[i].memory);
        free(p->pools[i].buffers);
        free(p->pools[i].sends);
        free(p->pools[i].sent);
    }
    free(p->pools);
}
