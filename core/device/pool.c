/* core/device/pool.c - pools of device memory: the public functions of kith/device.h on memory in a stream's order.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "../base/error.h"
#include "owned.h"
#include <string.h>

static kith_status check_pool(const kith_pool *pool, const char *function)
{
    if (pool == NULL || pool->handle.magic != KI_POOL_MAGIC)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "%s: the pool is NULL, destroyed, or not a pool", function);
    return KITH_OK;
}

static kith_status check_on(const kith_pool *pool, const kith_stream *stream, const char *function)
{
    kith_status status = check_pool(pool, function);
    if (status == KITH_OK)
        status = ki_stream_check(stream, function);
    if (status == KITH_OK && stream->device->ordinal != pool->device->ordinal)
        status = ki_fail_quiet(KITH_ERR_INVALID_ARG, "%s: the pool is of device %d, the stream of device %d", function,
                               pool->device->ordinal, stream->device->ordinal);
    return status;
}

/* The caller's options as far as they go, defaults behind. */
static kith_status read_options(const kith_pool_options *given, kith_pool_options *options)
{
    const kith_pool_options defaults = KITH_POOL_OPTIONS_INIT;
    *options = defaults;
    if (given == NULL)
        return KITH_OK;
    if (given->struct_size < sizeof given->struct_size)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "kith_pool_create: options are not from KITH_POOL_OPTIONS_INIT");
    memcpy(options, given, given->struct_size < sizeof *options ? given->struct_size : sizeof *options);
    options->struct_size = sizeof *options;
    return KITH_OK;
}

kith_status kith_pool_create(kith_device *device, const kith_pool_options *given, kith_pool **pool)
{
    kith_pool_options options;
    kith_status status = ki_device_check(device, "kith_pool_create");
    if (status == KITH_OK && pool == NULL)
        status = ki_fail_quiet(KITH_ERR_INVALID_ARG, "kith_pool_create: the pointer for the result is NULL");
    if (status == KITH_OK)
        status = read_options(given, &options);
    if (status != KITH_OK)
        return status;
    kith_pool *made = ki_pool_handle_alloc();
    if (made == NULL)
        return KITH_ERR_NO_MEMORY;
    status = device->ops->pool_create(device->ordinal, options.keep_nbytes, options.most_nbytes, &made->native);
    if (status != KITH_OK) {
        ki_pool_handle_release(made);
        return status;
    }
    made->device = device;
    made->most_nbytes = options.most_nbytes;
    made->handle.magic = KI_POOL_MAGIC;
    device->pool_count++;
    *pool = made;
    return KITH_OK;
}

kith_status kith_pool_destroy(kith_pool *pool)
{
    if (pool == NULL)
        return KITH_OK;
    kith_status status = check_pool(pool, "kith_pool_destroy");
    if (status != KITH_OK)
        return status;
    if (pool->allocation_count > 0)
        return ki_fail_quiet(KITH_ERR_BUSY, "kith_pool_destroy: %d allocations of it are alive",
                             pool->allocation_count);
    kith_device *device = pool->device;
    status = device->ops->pool_destroy(device->ordinal, pool->native);
    ki_pool_handle_release(pool);
    device->pool_count--;
    ki_device_settle(device);
    return status;
}

/* CUDA says only that there is no memory, and of the device how much it has. */
static kith_status tell_limit(const kith_pool *pool, size_t nbytes, kith_status status)
{
    kith_pool_info info = KITH_POOL_INFO_INIT;
    if (status != KITH_ERR_NO_MEMORY || pool->most_nbytes == 0 ||
        pool->device->ops->pool_describe(pool->device->ordinal, pool->native, &info) != KITH_OK ||
        (info.used_nbytes <= pool->most_nbytes && nbytes <= pool->most_nbytes - info.used_nbytes))
        return status;
    return ki_fail(KITH_ERR_NO_MEMORY,
                   "kith_pool_alloc: no %zu bytes: the pool takes %llu from device %d at most (most_nbytes), and "
                   "%llu are in use",
                   nbytes, (unsigned long long)pool->most_nbytes, pool->device->ordinal,
                   (unsigned long long)info.used_nbytes);
}

kith_status kith_pool_alloc(kith_pool *pool, kith_stream *stream, size_t nbytes, void **ptr)
{
    kith_status status = check_on(pool, stream, "kith_pool_alloc");
    if (status == KITH_OK && (ptr == NULL || nbytes == 0 || nbytes > PTRDIFF_MAX))
        status = ki_fail_quiet(KITH_ERR_INVALID_ARG, "kith_pool_alloc: ptr is NULL, or %zu bytes are not 1 to %td",
                               nbytes, PTRDIFF_MAX);
    ki_owned *entry = NULL;
    if (status == KITH_OK && (entry = ki_owned_new(KI_OWNED_POOL, pool, pool->device->ordinal)) == NULL)
        status = KITH_ERR_NO_MEMORY;
    if (entry == NULL)
        return status;
    status = pool->device->ops->pool_alloc(pool->device->ordinal, pool->native, stream->native, nbytes, ptr);
    if (status != KITH_OK) {
        ki_owned_drop(entry);
        return tell_limit(pool, nbytes, status);
    }
    ki_owned_add(entry, *ptr);
    pool->allocation_count++;
    return KITH_OK;
}

kith_status kith_pool_free(kith_pool *pool, kith_stream *stream, void *ptr)
{
    if (ptr == NULL)
        return KITH_OK;
    kith_status status = check_on(pool, stream, "kith_pool_free");
    if (status == KITH_OK && pool->allocation_count == 0)
        status = ki_fail_quiet(KITH_ERR_INVALID_ARG, "kith_pool_free: nothing is allocated from this pool");
    ki_owned *entry;
    if (status == KITH_OK)
        status = ki_owned_take("kith_pool_free", KI_OWNED_POOL, pool, ptr, &entry);
    if (status != KITH_OK)
        return status;
    status = pool->device->ops->pool_free(pool->device->ordinal, stream->native, ptr);
    if (status != KITH_OK) {
        ki_owned_add(entry, ptr);
        return status;
    }
    ki_owned_drop(entry);
    pool->allocation_count--;
    return KITH_OK;
}

kith_status kith_pool_trim(kith_pool *pool, uint64_t keep_nbytes)
{
    kith_status status = check_pool(pool, "kith_pool_trim");
    return status == KITH_OK ? pool->device->ops->pool_trim(pool->device->ordinal, pool->native, keep_nbytes) : status;
}

kith_status kith_pool_describe(kith_pool *pool, kith_pool_info *info)
{
    kith_pool_info all = KITH_POOL_INFO_INIT;
    kith_status status = check_pool(pool, "kith_pool_describe");
    if (status == KITH_OK && (info == NULL || info->struct_size < sizeof info->struct_size))
        status =
            ki_fail_quiet(KITH_ERR_INVALID_ARG, "kith_pool_describe: info is NULL or not from KITH_POOL_INFO_INIT");
    if (status == KITH_OK)
        status = pool->device->ops->pool_describe(pool->device->ordinal, pool->native, &all);
    if (status != KITH_OK)
        return status;
    all.struct_size = info->struct_size;
    memcpy(info, &all, info->struct_size < sizeof all ? info->struct_size : sizeof all);
    return KITH_OK;
}
