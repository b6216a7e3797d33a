/* layers/buffer.c - counted memory of tensors.
 *
 * Buffers whose last reference went are kept and given out again, the tightest that fits, so a training loop allocates
 * in its first step only. What is counted is what was asked for: figures of memory are those of the tensors and do not
 * depend on what happened before.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "layers.h"

#include "core/base/fault.h"
#include <stdlib.h>

#define ALIGNMENT 64

static struct kith_buffer *take_free(kith_layers *layers, const ki_space *space, size_t nbytes)
{
    struct kith_buffer **best = NULL;
    for (struct kith_buffer **at = &layers->free_buffers; *at != NULL; at = &(*at)->next)
        if ((*at)->space == space && (*at)->capacity >= nbytes && (best == NULL || (*at)->capacity < (*best)->capacity))
            best = at;
    if (best == NULL || (*best)->capacity / 2 > nbytes + 4096) // a small tensor does not take a large one's memory
        return NULL;
    struct kith_buffer *buffer = *best;
    *best = buffer->next;
    layers->memory.cached -= buffer->capacity;
    return buffer;
}

/* A buffer whose memory cannot go now stays among the free ones. */
static kith_status drop(kith_layers *layers, struct kith_buffer **at)
{
    struct kith_buffer *buffer = *at;
    kith_status status = ki_space_give(buffer->space, buffer->data);
    if (status != KITH_OK)
        return status;
    *at = buffer->next;
    layers->memory.cached -= buffer->capacity;
    free(buffer);
    return KITH_OK;
}

/* The layers have settled: there is nothing to wait for, nor anybody to tell. */
void ki_buffers_free(kith_layers *layers)
{
    while (layers->free_buffers != NULL) {
        struct kith_buffer *buffer = layers->free_buffers;
        layers->free_buffers = buffer->next;
        if (buffer->space->pool != NULL)
            (void)ki_space_give(buffer->space, buffer->data);
        else
            ki_space_free(buffer->space, buffer->data);
        free(buffer);
    }
    layers->memory.cached = 0;
}

/* A free buffer that is too small for what is wanted now will be too small the next time as well, where sequences grow:
 * the largest of them goes when a larger one is made, so that what is kept does not outgrow what was alive at once. */
static kith_status give_up_smaller(kith_layers *layers, const ki_space *space, size_t nbytes)
{
    struct kith_buffer **largest = NULL;
    for (struct kith_buffer **at = &layers->free_buffers; *at != NULL; at = &(*at)->next)
        if ((*at)->space == space && (*at)->capacity < nbytes &&
            (largest == NULL || (*at)->capacity > (*largest)->capacity))
            largest = at;
    return largest != NULL ? drop(layers, largest) : KITH_OK;
}

static struct kith_buffer *allocate(kith_layers *layers, const ki_space *space, size_t nbytes)
{
    if (ki_fault(KI_FAULT_ALLOC))
        return NULL;
    struct kith_buffer *buffer = calloc(1, sizeof *buffer);
    if (buffer == NULL)
        return NULL;
    buffer->layers = layers;
    buffer->space = space;
    if (layers->is_dry)
        return buffer;
    buffer->capacity = (nbytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    buffer->data = ki_space_take(space, buffer->capacity);
    if (buffer->data == NULL) {
        free(buffer);
        return NULL;
    }
    return buffer;
}

/* Bytes of all ones are a NaN in every floating-point type, and -1 as an integer. */
static kith_status poison(const struct kith_buffer *buffer)
{
    return buffer->data == NULL ? KITH_OK : ki_space_fill(buffer->space, buffer->data, 0xff, buffer->nbytes);
}

static kith_status no_memory(size_t nbytes)
{
    return ki_fail(KITH_ERR_NO_MEMORY, "layers: no memory for a tensor of %zu bytes", nbytes);
}

/* Memory of a pool is the device's again when its stream was waited for. */
static kith_status give_up_all(kith_layers *layers)
{
    kith_status status = KITH_OK;
    while (layers->free_buffers != NULL && status == KITH_OK)
        status = drop(layers, &layers->free_buffers);
    return status == KITH_OK ? ki_space_wait(&layers->space) : status;
}

static kith_status take(kith_layers *layers, const ki_space *space, size_t nbytes, struct kith_buffer **out)
{
    size_t room = nbytes > 0 ? nbytes : 1; // so that a tensor without elements has an address, too
    if (room > SIZE_MAX - ALIGNMENT)
        return no_memory(nbytes);
    kith_status status = KITH_OK;
    struct kith_buffer *buffer = take_free(layers, space, layers->is_dry ? 0 : room);
    if (buffer == NULL) {
        status = give_up_smaller(layers, space, room);
        buffer = status == KITH_OK ? allocate(layers, space, room) : NULL;
    }
    if (buffer == NULL && status == KITH_OK && layers->free_buffers != NULL) {
        status = give_up_all(layers);
        buffer = status == KITH_OK ? allocate(layers, space, room) : NULL;
    }
    if (buffer == NULL)
        return status != KITH_OK ? status : no_memory(nbytes);
    buffer->nbytes = nbytes;
    buffer->references = 1;
    buffer->next = NULL;
    layers->live_buffers++;
    layers->memory.tensors += nbytes;
    if (layers->memory.tensors > layers->memory.tensors_peak)
        layers->memory.tensors_peak = layers->memory.tensors;
    *out = buffer;
    return layers->options.is_debug ? poison(buffer) : KITH_OK;
}

static kith_status create(kith_layers *layers, const ki_space *space, kith_dtype dtype, int dim_count,
                          const int64_t *shape, kith_tensor *tensor)
{
    kith_tensor made = kith_tensor_view(NULL, dtype, dim_count, shape);
    if (made.dim_count == 0)
        return ki_fail(
            KITH_ERR_INVALID_ARG,
            "kith_tensor_create: dim_count must be 1 to %d, sizes at least 0 with a product of at most 2^62, "
            "and dtype one of kith/dtype.h",
            KITH_TENSOR_DIMS);
    size_t nbytes;
    if (!ki_mul((size_t)kith_tensor_count(&made), kith_dtype_nbytes(dtype), &nbytes))
        return no_memory(SIZE_MAX);
    kith_status status = take(layers, space, nbytes, &made.buffer);
    if (status == KITH_OK) {
        made.data = made.buffer->data;
        *tensor = made;
    } else {
        kith_tensor_release(&made);
    }
    return status;
}

kith_status kith_tensor_create(kith_layers *layers, kith_dtype dtype, int dim_count, const int64_t *shape,
                               kith_tensor *tensor)
{
    if (layers == NULL || tensor == NULL)
        return ki_fail(KITH_ERR_INVALID_ARG, "kith_tensor_create: layers and tensor must not be NULL");
    return create(layers, &layers->space, dtype, dim_count, shape, tensor);
}

kith_status ki_tensor_create_on_host(kith_layers *layers, kith_dtype dtype, int64_t rows, int64_t cols,
                                     kith_tensor *tensor)
{
    const int64_t shape[2] = { rows, cols };
    const ki_space *host = ki_space_is_host(&layers->space) ? &layers->space : &ki_host_space;
    return create(layers, host, dtype, 2, shape, tensor);
}

kith_status ki_tensor_bring_in(kith_layers *layers, const kith_tensor *tensor, kith_tensor *there)
{
    if (ki_space_is_host(&layers->space))
        return kith_tensor_retain(tensor, there);
    kith_status status = kith_tensor_create(layers, tensor->dtype, tensor->dim_count, tensor->shape, there);
    if (status == KITH_OK)
        status = ki_space_copy_in(&layers->space, there->data, tensor->data, ki_tensor_nbytes(tensor));
    if (status != KITH_OK)
        kith_tensor_release(there);
    return status;
}

kith_status kith_tensor_retain(const kith_tensor *tensor, kith_tensor *reference)
{
    if (tensor == NULL || reference == NULL || tensor->dim_count == 0)
        return ki_fail(KITH_ERR_INVALID_ARG, "kith_tensor_retain: there is no tensor");
    if (tensor->buffer != NULL)
        tensor->buffer->references++;
    *reference = *tensor;
    return KITH_OK;
}

void kith_tensor_release(kith_tensor *tensor)
{
    if (tensor == NULL)
        return;
    struct kith_buffer *buffer = tensor->buffer;
    memset(tensor, 0, sizeof *tensor);
    if (buffer == NULL || --buffer->references > 0)
        return;
    kith_layers *layers = buffer->layers;
    layers->live_buffers--;
    layers->memory.tensors -= buffer->nbytes;
    if (layers->options.is_debug)
        (void)poison(buffer); // a stream that cannot take it tells whoever waits for it
    buffer->next = layers->free_buffers;
    layers->free_buffers = buffer;
    layers->memory.cached += buffer->capacity;
}

kith_status ki_tensor_create_2d(kith_layers *layers, kith_dtype dtype, int64_t rows, int64_t cols, kith_tensor *tensor)
{
    int64_t shape[2] = { rows, cols };
    return kith_tensor_create(layers, dtype, 2, shape, tensor);
}

kith_status ki_tensor_create_like(kith_layers *layers, const kith_tensor *x, int64_t features, kith_tensor *tensor)
{
    int64_t shape[KITH_TENSOR_DIMS];
    memcpy(shape, x->shape, sizeof shape);
    shape[x->dim_count - 1] = features;
    kith_status status = kith_tensor_create(layers, x->dtype, x->dim_count, shape, tensor);
    if (status == KITH_OK)
        *tensor = ki_with_layout(*tensor, x->layout, x->split_dim);
    return status;
}
