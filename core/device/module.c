/* core/device/module.c - finding and opening the module of a kind of device, once a process.
 *
 * One file name is looked for where backend modules lie. What was found, or why nothing can be used, is kept as one
 * line for `kith info`. The module is never closed: handles and other libraries stand on it until the process ends.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "../base/error.h"
#include "../base/fault.h"
#include "../registry.h"
#include "device.h"
#include <ctype.h>
#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MODULE_FILE "libkith_cuda.so"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static const ki_device_ops *found; /* NULL: none can be used */
static char line[2048];

/* "cudart_library" -> KITH_CUDART_LIBRARY. Devices serve the whole process, so contexts' options do not count. */
static const char *setting(const char *name, const char *default_value)
{
    char variable[96];
    snprintf(variable, sizeof variable, "KITH_%s", name);
    for (char *c = variable; *c != '\0'; c++)
        *c = (char)toupper((unsigned char)*c);
    const char *value = getenv(variable);
    return value != NULL && *value != '\0' ? value : default_value;
}

static bool is_complete(const ki_device_ops *ops)
{
    return ops->begin && ops->available && ops->count && ops->current && ops->describe && ops->alloc && ops->free &&
           ops->alloc_pinned && ops->free_pinned && ops->memory_kind && ops->stream_create && ops->stream_destroy &&
           ops->stream_synchronize && ops->stream_query && ops->event_create && ops->event_destroy &&
           ops->event_record && ops->event_query && ops->event_synchronize && ops->stream_wait_event && ops->copy &&
           ops->fill && ops->pool_create && ops->pool_destroy && ops->pool_alloc && ops->pool_free && ops->pool_trim &&
           ops->pool_describe;
}

/* NULL when it fits. */
static const char *why_not(const ki_device_ops *ops)
{
    if (ops == NULL)
        return KI_DEVICE_SYMBOL "() returned NULL";
    if (ops->abi != KI_DEVICE_ABI || ops->struct_size < sizeof *ops)
        return "is of another version of the library";
    return is_complete(ops) ? NULL : "lacks functions";
}

static void open_module(void)
{
    static const ki_device_host host = { sizeof host, ki_fail, setting };
    char path[PATH_MAX];
    if (!ki_registry_locate(MODULE_FILE, path, sizeof path)) {
        snprintf(line, sizeof line,
                 "module " MODULE_FILE " is not installed: the library was built without CUDA, or KITH_BACKEND_PATH "
                 "lacks its folder");
        return;
    }
    void *handle = ki_fault(KI_FAULT_OPEN) ? NULL : dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL) {
        const char *why = dlerror();
        snprintf(line, sizeof line, "%s", why != NULL ? why : MODULE_FILE " cannot be opened");
        return;
    }
    ki_device_fn function;
    *(void **)&function = dlsym(handle, KI_DEVICE_SYMBOL);
    const ki_device_ops *ops = function != NULL ? function() : NULL;
    const char *why = function == NULL ? "has no function " KI_DEVICE_SYMBOL : why_not(ops);
    if (why != NULL) {
        snprintf(line, sizeof line, "%.300s %s", path, why);
        return;
    }
    ops->begin(&host);
    if (ops->available(line, sizeof line) == KITH_OK)
        found = ops;
    else if (line[0] == '\0')
        snprintf(line, sizeof line, "CUDA cannot be used, and the module does not say why");
}

kith_status ki_device_module(const ki_device_ops **ops, const char **summary)
{
    pthread_once(&once, open_module);
    if (summary != NULL)
        *summary = line;
    *ops = found;
    return found != NULL ? KITH_OK : ki_fail_quiet(KITH_ERR_UNSUPPORTED, "CUDA cannot be used: %s", line);
}
