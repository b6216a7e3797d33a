/* tests/simgpu/context.c - contexts: which device a thread works on, and on which devices the process has one; the
 * functions of the driver that have to do with it.
 *
 * As in CUDA 12 and later: cudaSetDevice() makes a context on its device and current, and a function of the runtime
 * that needs one where the thread has none makes one on the thread's device, which is 0 at first. A process that is
 * told to use few devices (KITH_SIMGPU_CONTEXTS) and makes a context on one more fails.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "engine.h"
#include <cuda.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_PUSHED = 16 };

static struct context {
    bool is_made, is_retained;
} contexts[SIM_MAX_DEVICES]; /* a CUcontext points to one of them */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static __thread int chosen; /* what cudaSetDevice() said */
static __thread int pushed[MOST_PUSHED], depth;

/* ---- the process's ---- */

/* CUDA reads it here, once. */
static void look_at_queues(const char *api)
{
    const int least = sim_settings_get()->queues;
    const char *text = getenv("CUDA_DEVICE_MAX_CONNECTIONS");
    if (least > 0 && (text == NULL || atoi(text) < least))
        sim_fail("%s: CUDA starts with CUDA_DEVICE_MAX_CONNECTIONS=%s, and is to have %d queues", api,
                 text != NULL ? text : "", least);
}

static void make(int device, const char *api)
{
    const int most = sim_settings_get()->contexts;
    int made = 0, other = -1;
    pthread_mutex_lock(&lock);
    const bool is_new = !contexts[device].is_made;
    contexts[device].is_made = true;
    for (int i = 0; i < SIM_MAX_DEVICES; i++) {
        made += contexts[i].is_made;
        if (contexts[i].is_made && i != device)
            other = i;
    }
    pthread_mutex_unlock(&lock);
    if (is_new && made == 1)
        look_at_queues(api);
    if (is_new && most > 0 && made > most)
        sim_fail("%s: makes a context on device %d, where the process has one on device %d and is to use %d device%s",
                 api, device, other, most, most == 1 ? "" : "s");
}

int sim_context_is_made(int device)
{
    pthread_mutex_lock(&lock);
    const bool is_made = device >= 0 && device < SIM_MAX_DEVICES && contexts[device].is_made;
    pthread_mutex_unlock(&lock);
    return is_made;
}

/* ---- the thread's ---- */

int sim_current_device(void)
{
    return depth > 0 ? pushed[depth - 1] : chosen;
}

void sim_context_need(const char *api)
{
    if (depth > 0)
        return;
    make(chosen, api);
    pushed[depth++] = chosen;
}

void sim_context_choose(int device, const char *api)
{
    make(device, api);
    chosen = device;
    if (depth == 0)
        depth = 1;
    pushed[depth - 1] = device;
}

/* ---- the driver's functions ---- */

static bool is_device(int device)
{
    return device >= 0 && device < sim_device_count();
}

static CUcontext context_of(int device)
{
    return (CUcontext)(void *)&contexts[device];
}

static CUresult get_device(CUdevice *device, int ordinal)
{
    *device = ordinal;
    return is_device(ordinal) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

static CUresult get_current(CUcontext *context)
{
    *context = depth > 0 ? context_of(pushed[depth - 1]) : NULL;
    return CUDA_SUCCESS;
}

static CUresult push_current(CUcontext context)
{
    const struct context *c = (const struct context *)(void *)context;
    if (c < contexts || c >= contexts + SIM_MAX_DEVICES || !c->is_retained) {
        sim_fail("cuCtxPushCurrent: %p is no context that was retained", (void *)context);
        return CUDA_ERROR_INVALID_CONTEXT;
    }
    if (depth == MOST_PUSHED) {
        sim_fail("cuCtxPushCurrent: %d contexts were pushed and not popped", depth);
        return CUDA_ERROR_INVALID_CONTEXT;
    }
    pushed[depth++] = (int)(c - contexts);
    return CUDA_SUCCESS;
}

static CUresult pop_current(CUcontext *context)
{
    if (depth == 0) {
        sim_fail("cuCtxPopCurrent: the thread has no context");
        return CUDA_ERROR_INVALID_CONTEXT;
    }
    if (context != NULL)
        *context = context_of(pushed[depth - 1]);
    depth--;
    return CUDA_SUCCESS;
}

static CUresult retain(CUcontext *context, CUdevice device)
{
    if (!is_device(device))
        return CUDA_ERROR_INVALID_DEVICE;
    make(device, "cuDevicePrimaryCtxRetain");
    contexts[device].is_retained = true;
    *context = context_of(device);
    return CUDA_SUCCESS;
}

static CUresult state_of(CUdevice device, unsigned *flags, int *is_active)
{
    if (!is_device(device))
        return CUDA_ERROR_INVALID_DEVICE;
    *flags = 0;
    *is_active = sim_context_is_made(device);
    return CUDA_SUCCESS;
}

/* What is asked of memory that CUDA does not know stays zero. */
static CUresult pointer_attributes(unsigned count, CUpointer_attribute *wanted, void **answers, CUdeviceptr ptr)
{
    sim_place place;
    if (depth == 0)
        return CUDA_ERROR_INVALID_CONTEXT;
    const bool is_known = sim_place_find((const void *)(uintptr_t)ptr, &place);
    for (unsigned i = 0; i < count; i++)
        switch (wanted[i]) {
        case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
            *(CUmemorytype *)answers[i] = !is_known                  ? (CUmemorytype)0
                                          : place.kind == SIM_PINNED ? CU_MEMORYTYPE_HOST
                                                                     : CU_MEMORYTYPE_DEVICE;
            break;
        case CU_POINTER_ATTRIBUTE_IS_MANAGED:
            *(unsigned *)answers[i] = 0;
            break;
        case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
            *(int *)answers[i] = is_known ? place.device : 0;
            break;
        default:
            sim_fail("cuPointerGetAttributes: attribute %d is not simulated", (int)wanted[i]);
            return CUDA_ERROR_INVALID_VALUE;
        }
    return CUDA_SUCCESS;
}

typedef struct entry {
    const char *name;
    void (*function)(void);
} entry;

#define ENTRY(name, function)                                                                                          \
    {                                                                                                                  \
        name, (void (*)(void))(function)                                                                               \
    }

static const entry entries[] = {
    ENTRY("cuCtxGetCurrent", get_current),
    ENTRY("cuCtxPopCurrent", pop_current),
    ENTRY("cuCtxPushCurrent", push_current),
    ENTRY("cuDeviceGet", get_device),
    ENTRY("cuDevicePrimaryCtxGetState", state_of),
    ENTRY("cuDevicePrimaryCtxRetain", retain),
    ENTRY("cuPointerGetAttributes", pointer_attributes),
};

SIM_API cudaError_t cudaGetDriverEntryPointByVersion(const char *name, void **function, unsigned version,
                                                     unsigned long long flags,
                                                     enum cudaDriverEntryPointQueryResult *result)
{
    SIM_ENTER_BARE(cudaGetDriverEntryPointByVersion);
    (void)version, (void)flags;
    *function = NULL;
    for (size_t i = 0; i < sizeof entries / sizeof entries[0]; i++)
        if (strcmp(entries[i].name, name) == 0)
            memcpy(function, &entries[i].function, sizeof *function);
    *result = *function != NULL ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
    if (*function == NULL)
        sim_fail("cudaGetDriverEntryPointByVersion: %s is not simulated", name);
    return sim_leave(*function != NULL ? cudaSuccess : cudaErrorSymbolNotFound);
}
