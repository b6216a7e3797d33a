/* backends/ucx/library.c - opening UCX; see library.h.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "library.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ucs/debug/log_def.h is not installed everywhere: these are its parts that matter. */
typedef int (*ucs_log_handler)(const char *file, unsigned line, const char *function, int level, const void *component,
                               const char *format, va_list arguments);
#define LOG_STOP 0 /* UCS_LOG_FUNC_RC_STOP */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static ucx_functions functions;
static int is_open;
static const kith_be_host *log_host;

static int on_log(const char *file, unsigned line, const char *function, int level, const void *component,
                  const char *format, va_list arguments)
{
    char text[512], whole[600];
    (void)file, (void)line, (void)level, (void)component;
    vsnprintf(text, sizeof text, format, arguments);
    snprintf(whole, sizeof whole, "ucx: %s: %s", function != NULL ? function : "?", text);
    pthread_mutex_lock(&lock);
    if (log_host != NULL)
        log_host->log(log_host->cookie, KITH_LOG_DEBUG, whole);
    pthread_mutex_unlock(&lock);
    return LOG_STOP;
}

void ucx_library_log_to(const kith_be_host *host)
{
    pthread_mutex_lock(&lock);
    log_host = host;
    pthread_mutex_unlock(&lock);
}

void ucx_library_log_end(const kith_be_host *host)
{
    pthread_mutex_lock(&lock);
    if (log_host == host)
        log_host = NULL;
    pthread_mutex_unlock(&lock);
}

/* Shared memory tells of dead peers only when asked to; endpoints that want to hear of them would use TCP within a host
 * instead. TCP moves long messages in fewer system calls with larger segments. */
static struct {
    const char *name, *value;
    bool is_ours;
} preferred[] = {
    { "UCX_HANDLE_ERRORS", "none", false },
    { "UCX_KEEPALIVE_INTERVAL", "1s", false },
    { "UCX_POSIX_ERROR_HANDLING", "y", false },
    { "UCX_SYSV_ERROR_HANDLING", "y", false },
    { "UCX_TCP_TX_SEG_SIZE", "64k", false },
    { "UCX_TCP_RX_SEG_SIZE", "128k", false },
};
static pthread_mutex_t environment = PTHREAD_MUTEX_INITIALIZER;

void ucx_library_prefer(bool is_on)
{
    size_t count = sizeof preferred / sizeof *preferred;
    if (is_on) {
        pthread_mutex_lock(&environment);
        for (size_t i = 0; i < count; i++)
            preferred[i].is_ours =
                getenv(preferred[i].name) == NULL && setenv(preferred[i].name, preferred[i].value, 0) == 0;
        return;
    }
    for (size_t i = 0; i < count; i++)
        if (preferred[i].is_ours)
            unsetenv(preferred[i].name);
    pthread_mutex_unlock(&environment);
}

static void *open_quietly(void)
{
    ucx_library_prefer(true);
    void *handle = dlopen("libucp.so.0", RTLD_NOW | RTLD_LOCAL);
    ucx_library_prefer(false);
    return handle;
}

static void redirect_log(void *handle)
{
    void (*push)(ucs_log_handler);
    *(void **)&push = dlsym(handle, "ucs_log_push_handler");
    if (push != NULL && getenv("UCX_LOG_LEVEL") == NULL)
        push(on_log);
}

static const char *fill(void *handle)
{
    void *address;
#define UCX_FIND(name)                                                                                                 \
    address = dlsym(handle, #name);                                                                                    \
    if (address == NULL)                                                                                               \
        return #name;                                                                                                  \
    memcpy(&functions.name, &address, sizeof address);
    UCX_FUNCTIONS(UCX_FIND)
#undef UCX_FIND
    return NULL;
}

static int open_library(char *reason, size_t reason_nbytes)
{
    void *before = dlopen("libucp.so.0", RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
    void *handle = before != NULL ? before : open_quietly();
    if (handle == NULL) {
        const char *why = dlerror();
        snprintf(reason, reason_nbytes, "UCX cannot be loaded: %s", why != NULL ? why : "libucp.so.0 not found");
        return 0;
    }
    const char *missing = fill(handle);
    if (missing != NULL) {
        snprintf(reason, reason_nbytes, "this UCX is too old: it has no %s", missing);
        return 0;
    }
    if (before == NULL)
        redirect_log(handle);
    return 1;
}

const ucx_functions *ucx_library(char *reason, size_t reason_nbytes)
{
    pthread_mutex_lock(&lock);
    if (!is_open)
        is_open = open_library(reason, reason_nbytes);
    int is_usable = is_open;
    pthread_mutex_unlock(&lock);
    return is_usable ? &functions : NULL;
}
