/* core/device/device.c - devices and their memory: the first half of kith/device.h.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "device.h"

#include "../base/error.h"
#include "owned.h"
#include <string.h>

atomic_int ki_devices_open;

/* ---- handles ---- */

kith_status ki_device_check(const kith_device *device, const char *function)
{
    if (device == NULL || device->handle.magic != KI_DEVICE_MAGIC || device->is_closing)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "%s: the device is NULL, closed, or not a device", function);
    return KITH_OK;
}

static void release(kith_device *device)
{
    ki_device_handle_release(device);
    atomic_fetch_sub_explicit(&ki_devices_open, 1, memory_order_relaxed);
}

static bool is_in_use(const kith_device *device)
{
    return device->allocation_count + device->pinned_count + device->stream_count + device->event_count +
               device->pool_count + device->user_count >
           0;
}

void ki_device_settle(kith_device *device)
{
    if (device->is_closing && !is_in_use(device))
        release(device);
}

void ki_device_use(kith_device *device)
{
    device->user_count++;
}

void ki_device_unuse(kith_device *device)
{
    device->user_count--;
    ki_device_settle(device);
}

kith_status kith_device_count(int *count)
{
    const ki_device_ops *ops;
    if (count == NULL)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "kith_device_count: count is NULL");
    *count = 0;
    kith_status status = ki_device_module(&ops, NULL);
    return status == KITH_OK ? ops->count(count) : status;
}

static kith_status find_ordinal(const ki_device_ops *ops, int wanted, int *ordinal)
{
    int count = 0;
    *ordinal = wanted;
    kith_status status = wanted == -1 ? ops->current(ordinal) : KITH_OK;
    if (status == KITH_OK)
        status = ops->count(&count);
    if (status == KITH_OK && (*ordinal < 0 || *ordinal >= count))
        status = ki_fail(KITH_ERR_INVALID_ARG, "there is no CUDA device %d: this process sees %d (0 to %d)", wanted,
                         count, count - 1);
    return status;
}

kith_status kith_device_open(int ordinal, kith_device **device)
{
    const ki_device_ops *ops;
    int found;
    if (device == NULL || ordinal < -1)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG,
                             "kith_device_open: device is NULL, or %d is neither an ordinal nor -1", ordinal);
    kith_status status = ki_device_module(&ops, NULL);
    if (status == KITH_OK)
        status = find_ordinal(ops, ordinal, &found);
    if (status != KITH_OK)
        return status;
    kith_device *made = ki_device_handle_alloc();
    if (made == NULL)
        return KITH_ERR_NO_MEMORY;
    made->ops = ops;
    made->ordinal = found;
    made->handle.magic = KI_DEVICE_MAGIC;
    atomic_fetch_add_explicit(&ki_devices_open, 1, memory_order_relaxed);
    *device = made;
    return KITH_OK;
}

kith_status kith_device_close(kith_device *device)
{
    if (device == NULL)
        return KITH_OK;
    kith_status status = ki_device_check(device, "kith_device_close");
    if (status != KITH_OK)
        return status;
    if (device->is_of_context)
        return ki_fail_quiet(KITH_ERR_BUSY, "kith_device_close: the device belongs to a context and goes with "
                                            "kith_finalize()");
    if (is_in_use(device))
        return ki_fail_quiet(KITH_ERR_BUSY,
                             "kith_device_close: alive on device %d: %d allocations, %d of them pinned, %d streams, %d "
                             "events, %d pools, %d users",
                             device->ordinal, device->allocation_count + device->pinned_count, device->pinned_count,
                             device->stream_count, device->event_count, device->pool_count, device->user_count);
    release(device);
    return KITH_OK;
}

/* ---- of a context ---- */

/* "7"; -1 for what is no number of a device. */
static int digits(const char *text)
{
    int number = 0;
    for (const char *c = text; *c != '\0'; c++) {
        if (*c < '0' || *c > '9' || number > 9999)
            return -1;
        number = number * 10 + (*c - '0');
    }
    return *text != '\0' ? number : -1;
}

static kith_status parse(const char *name, int local_rank, int count, int *ordinal)
{
    const char *rest = strncmp(name, "cuda", 4) == 0 ? name + 4 : NULL;
    *ordinal = -1;
    if (rest != NULL && strcmp(rest, ":local") == 0)
        *ordinal = local_rank % count;
    else if (rest != NULL && *rest == ':')
        *ordinal = digits(rest + 1);
    if (rest == NULL || (*rest != '\0' && *ordinal < 0))
        return ki_fail(KITH_ERR_INVALID_ARG,
                       "device '%.64s' is none of \"cuda\" (the calling thread's current one), \"cuda:N\" and "
                       "\"cuda:local\" (local rank modulo the number of devices)",
                       name);
    return KITH_OK;
}

kith_status ki_device_open_named(const char *name, int local_rank, kith_device **device)
{
    int count = 0, ordinal = 0;
    kith_status status = parse(name, 0, 1, &ordinal); /* a wrong text is told also where CUDA cannot be used */
    if (status == KITH_OK)
        status = kith_device_count(&count);
    if (status == KITH_OK && count == 0)
        status = ki_fail(KITH_ERR_UNSUPPORTED, "device '%s': this process sees no CUDA device", name);
    if (status == KITH_OK)
        status = parse(name, local_rank, count, &ordinal);
    if (status == KITH_OK)
        status = kith_device_open(ordinal, device);
    if (status == KITH_OK)
        (*device)->is_of_context = true;
    return status;
}

void ki_device_close_of_context(kith_device *device)
{
    if (device == NULL)
        return;
    device->is_closing = true;
    ki_device_settle(device);
}

/* ---- what it is ---- */

kith_status kith_device_describe(kith_device *device, kith_device_info *info)
{
    kith_status status = ki_device_check(device, "kith_device_describe");
    if (status != KITH_OK)
        return status;
    if (info == NULL || info->struct_size < sizeof info->struct_size)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG,
                             "kith_device_describe: info is NULL or not from KITH_DEVICE_INFO_INIT");
    kith_device_info all = KITH_DEVICE_INFO_INIT;
    status = device->ops->describe(device->ordinal, &all);
    if (status != KITH_OK)
        return status;
    size_t known = info->struct_size < sizeof all ? info->struct_size : sizeof all;
    all.struct_size = info->struct_size;
    all.ordinal = device->ordinal;
    memcpy(info, &all, known);
    return KITH_OK;
}

/* ---- memory ---- */

const char *kith_memory_name(kith_memory memory)
{
    static const char *const names[] = { "host", "pinned", "device", "managed" };
    return (unsigned)memory < sizeof names / sizeof names[0] ? names[memory] : "unknown memory";
}

kith_status kith_memory_kind(const void *ptr, kith_memory *memory, int *ordinal)
{
    const ki_device_ops *ops;
    int found = -1;
    if (memory == NULL)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "kith_memory_kind: memory is NULL");
    kith_memory kind = KITH_MEMORY_HOST;
    if (ptr != NULL && ki_device_module(&ops, NULL) == KITH_OK) {
        kith_status status = ops->memory_kind(ptr, &kind, &found);
        if (status != KITH_OK)
            return status;
    }
    *memory = kind;
    if (ordinal != NULL)
        *ordinal = kind == KITH_MEMORY_DEVICE || kind == KITH_MEMORY_MANAGED ? found : -1;
    return KITH_OK;
}

static kith_status check_alloc(const kith_device *device, size_t nbytes, void **ptr, const char *function)
{
    kith_status status = ki_device_check(device, function);
    if (status == KITH_OK && (ptr == NULL || nbytes == 0 || nbytes > PTRDIFF_MAX))
        status = ki_fail_quiet(KITH_ERR_INVALID_ARG, "%s: ptr is NULL, or %zu bytes are not 1 to %td", function, nbytes,
                               PTRDIFF_MAX);
    return status;
}

static kith_status give(const kith_device *device, ki_owned_kind kind, size_t nbytes, void **ptr)
{
    ki_owned *entry = ki_owned_new(kind, device, device->ordinal);
    if (entry == NULL)
        return KITH_ERR_NO_MEMORY;
    kith_status status = kind == KI_OWNED_PINNED ? device->ops->alloc_pinned(device->ordinal, nbytes, ptr)
                                                 : device->ops->alloc(device->ordinal, nbytes, ptr);
    if (status == KITH_OK)
        ki_owned_add(entry, *ptr);
    else
        ki_owned_drop(entry);
    return status;
}

static kith_status take_back(const char *function, const kith_device *device, ki_owned_kind kind, void *ptr)
{
    ki_owned *entry;
    kith_status status = ki_owned_take(function, kind, device, ptr, &entry);
    if (status != KITH_OK)
        return status;
    status = kind == KI_OWNED_PINNED ? device->ops->free_pinned(device->ordinal, ptr)
                                     : device->ops->free(device->ordinal, ptr);
    if (status == KITH_OK)
        ki_owned_drop(entry);
    else
        ki_owned_add(entry, ptr);
    return status;
}

kith_status kith_device_alloc(kith_device *device, size_t nbytes, void **ptr)
{
    kith_status status = check_alloc(device, nbytes, ptr, "kith_device_alloc");
    if (status == KITH_OK)
        status = give(device, KI_OWNED_DEVICE, nbytes, ptr);
    if (status == KITH_OK)
        device->allocation_count++;
    return status;
}

kith_status kith_device_alloc_pinned(kith_device *device, size_t nbytes, void **ptr)
{
    kith_status status = check_alloc(device, nbytes, ptr, "kith_device_alloc_pinned");
    if (status == KITH_OK)
        status = give(device, KI_OWNED_PINNED, nbytes, ptr);
    if (status == KITH_OK)
        device->pinned_count++;
    return status;
}

/* Memory may be freed after its context is gone: the handle waits for it. */
static kith_status check_free(const kith_device *device, int count, const char *function)
{
    if (device == NULL || device->handle.magic != KI_DEVICE_MAGIC)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "%s: the device is NULL, closed, or not a device", function);
    return count > 0 ? KITH_OK
                     : ki_fail_quiet(KITH_ERR_INVALID_ARG, "%s: nothing is allocated through this handle", function);
}

kith_status kith_device_free(kith_device *device, void *ptr)
{
    if (ptr == NULL)
        return KITH_OK;
    kith_status status = check_free(device, device != NULL ? device->allocation_count : 0, "kith_device_free");
    if (status == KITH_OK)
        status = take_back("kith_device_free", device, KI_OWNED_DEVICE, ptr);
    if (status != KITH_OK)
        return status;
    device->allocation_count--;
    ki_device_settle(device);
    return KITH_OK;
}

kith_status kith_device_free_pinned(kith_device *device, void *ptr)
{
    if (ptr == NULL)
        return KITH_OK;
    kith_status status = check_free(device, device != NULL ? device->pinned_count : 0, "kith_device_free_pinned");
    if (status == KITH_OK)
        status = take_back("kith_device_free_pinned", device, KI_OWNED_PINNED, ptr);
    if (status != KITH_OK)
        return status;
    device->pinned_count--;
    ki_device_settle(device);
    return KITH_OK;
}
