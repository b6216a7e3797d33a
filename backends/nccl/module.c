/* backends/nccl/module.c - the table that the core sees, the settings, the instance; see backend.h.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "../message/setting.h"
#include "backend.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROW_LAUNCH, ROW_MIN_CTAS, ROW_MAX_CTAS, ROW_MESSAGE_CTAS, ROW_SPLIT, ROW_NET, ROW_P2P, ROW_SHM };

static const kith_be_setting settings[] = {
    [ROW_LAUNCH] = { "nccl_launch", "auto",
                     "who launches NCCL's kernels: nonblocking (a thread of NCCL's for each call), blocking (the call "
                     "itself, where ranks are connected), auto (blocking where NCCL has ncclCommRevoke)",
                     1 },
    [ROW_MIN_CTAS] = { "nccl_min_ctas", "0", "least blocks of a kernel of NCCL: 1 .. 64, 0: NCCL's choice", 1 },
    [ROW_MAX_CTAS] = { "nccl_max_ctas", "0", "most blocks of a kernel of NCCL: 1 .. 64, 0: NCCL's choice", 1 },
    [ROW_MESSAGE_CTAS] = { "nccl_message_ctas", "4",
                           "most blocks of the kernel of a message, where nccl_max_ctas is not less: 1 .. 32", 1 },
    [ROW_SPLIT] = { "nccl_split", "on", "groups out of a group: on (ncclCommSplit), off (a unique id for each)", 1 },
    [ROW_NET] = { "nccl_net", "auto", "network of NCCL: auto, or a name as in NCCL_NET (IB, Socket, a plugin's)", 1 },
    [ROW_P2P] = { "nccl_p2p", "auto", "direct access between GPUs: auto, off (NCCL_P2P_DISABLE)", 1 },
    [ROW_SHM] = { "nccl_shm", "auto", "shared memory of the host between GPUs: auto, off (NCCL_SHM_DISABLE)", 1 },
    { NULL, NULL, NULL, 0 },
};

static kith_status available(char *reason, size_t reason_nbytes)
{
    char why[2000] = "", words[200], version[32];
    int count = 0;
    const ki_cuda *cuda = ki_cuda_open(getenv("KITH_CUDART_LIBRARY"), why, sizeof why);
    const nccl_functions *nccl = cuda != NULL ? nccl_library(why, sizeof why) : NULL;
    if (cuda == NULL || nccl == NULL) {
        snprintf(reason, reason_nbytes, "%s", why);
        return KITH_ERR_UNSUPPORTED;
    }
    nccl_version_text(nccl->version, version, sizeof version);
    cudaError_t error = cuda->cudaGetDeviceCount(&count);
    if (error != cudaSuccess)
        cuda->cudaGetLastError(); /* not the program's next answer */
    if (error != cudaSuccess || count == 0) {
        snprintf(reason, reason_nbytes, "NCCL %s is here, but no GPU: %s", version,
                 error != cudaSuccess ? ki_cuda_words(cuda, error, words, sizeof words) : "CUDA counts none");
        return KITH_ERR_UNSUPPORTED;
    }
    snprintf(reason, reason_nbytes, "NCCL %s", version);
    return KITH_OK;
}

/* ---- settings ---- */

static const char *text_of(const kith_be_host *host, int row)
{
    const char *text = host->setting(host->cookie, settings[row].name, settings[row].default_value);
    return text != NULL ? text : settings[row].default_value;
}

static kith_status read_ctas(const kith_be_host *host, int row, long least, long most, int *ctas)
{
    char *end;
    const char *text = text_of(host, row);
    long value = strtol(text, &end, 10);
    if (end == text || *end != '\0' || value < least || value > most)
        return host->fail(KITH_ERR_INVALID_ARG, "%s=%s: a number from %ld to %ld is needed", settings[row].name, text,
                          least, most);
    *ctas = (int)value;
    return KITH_OK;
}

/* Links are taken from NCCL through its environment, which it reads once in a process; what the user set stays. */
static kith_status switch_off(const kith_be_host *host, int row, const char *variable)
{
    const char *text = text_of(host, row);
    if (strcmp(text, "auto") != 0 && strcmp(text, "off") != 0)
        return host->fail(KITH_ERR_INVALID_ARG, "%s=%s: auto or off is needed", settings[row].name, text);
    if (strcmp(text, "off") == 0)
        setenv(variable, "1", 0);
    return KITH_OK;
}

static kith_status read_split(nccl_be *be)
{
    const char *text = text_of(be->host, ROW_SPLIT);
    be->may_split = strcmp(text, "on") == 0;
    if (!be->may_split && strcmp(text, "off") != 0)
        return be->host->fail(KITH_ERR_INVALID_ARG, "nccl_split=%s: on or off is needed", text);
    return KITH_OK;
}

static kith_status configure(nccl_be *be)
{
    const kith_be_host *host = be->host;
    const char *launch = text_of(host, ROW_LAUNCH), *net = text_of(host, ROW_NET);
    bool is_auto = strcmp(launch, "auto") == 0;
    be->is_blocking = strcmp(launch, "blocking") == 0 || (is_auto && be->nccl->ncclCommRevoke != NULL);
    if (!is_auto && !be->is_blocking && strcmp(launch, "nonblocking") != 0)
        return host->fail(KITH_ERR_INVALID_ARG, "nccl_launch=%s: auto, nonblocking or blocking is needed", launch);
    if (be->is_blocking && be->nccl->ncclCommRevoke == NULL)
        return host->fail(KITH_ERR_UNSUPPORTED, "nccl_launch=blocking needs ncclCommRevoke, which came with NCCL 2.28");
    be->net = strcmp(net, "auto") != 0 && *net != '\0' ? net : NULL;
    kith_status status = read_ctas(host, ROW_MIN_CTAS, 0, 64, &be->min_ctas);
    if (status == KITH_OK)
        status = read_ctas(host, ROW_MAX_CTAS, 0, 64, &be->max_ctas);
    if (status == KITH_OK)
        status = read_ctas(host, ROW_MESSAGE_CTAS, 1, 32, &be->message_ctas);
    if (status == KITH_OK && be->max_ctas > 0 && be->min_ctas > be->max_ctas)
        status =
            host->fail(KITH_ERR_INVALID_ARG, "nccl_min_ctas=%d is above nccl_max_ctas=%d", be->min_ctas, be->max_ctas);
    if (status == KITH_OK)
        status = read_split(be);
    if (status == KITH_OK)
        status = switch_off(host, ROW_P2P, "NCCL_P2P_DISABLE");
    return status == KITH_OK ? switch_off(host, ROW_SHM, "NCCL_SHM_DISABLE") : status;
}

/* ---- the instance ---- */

static kith_status read_device(nccl_be *be)
{
    int major = 0, minor = 0, least = 0, before = 0;
    cudaError_t error = be->cuda->cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, be->device);
    if (error == cudaSuccess)
        error = be->cuda->cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, be->device);
    be->capability = major * 10 + minor;
    if (error == cudaSuccess)
        error = ki_cuda_enter(be->cuda, be->device, &before);
    if (error == cudaSuccess) { /* a kernel that others wait for goes before one that only this rank waits for */
        error = be->cuda->cudaDeviceGetStreamPriorityRange(&least, &be->stream_priority);
        ki_cuda_leave(be->cuda, be->device, before);
    }
    return error == cudaSuccess ? KITH_OK : nccl_cuda_fail(be, "the device cannot be asked", error);
}

static kith_status find_libraries(nccl_be *be)
{
    char reason[2048] = "";
    if (available(reason, sizeof reason) != KITH_OK)
        return be->host->fail(KITH_ERR_UNSUPPORTED, "backend nccl: %s", reason);
    be->cuda = ki_cuda_open(getenv("KITH_CUDART_LIBRARY"), reason, sizeof reason);
    be->nccl = nccl_library(reason, sizeof reason);
    be->device = be->host->device;
    if (be->host->struct_size < offsetof(kith_be_host, get) + sizeof be->host->get || be->device < 0)
        return be->host->fail(KITH_ERR_UNSUPPORTED,
                              "backend nccl: the context has no device (kith_init_options.device, "
                              "KITH_DEVICE)");
    return read_device(be);
}

static kith_status nccl_open(const kith_be_host *host, void **out)
{
    nccl_be *be = (nccl_be *)host->alloc(host->cookie, sizeof *be, 64);
    if (be == NULL)
        return host->fail(KITH_ERR_NO_MEMORY, "backend nccl: no memory for an instance");
    memset(be, 0, sizeof *be);
    be->host = host;
    kith_status status = find_libraries(be);
    if (status == KITH_OK)
        status = configure(be);
    if (status != KITH_OK) {
        host->free(host->cookie, be);
        return status;
    }
    *out = be;
    return KITH_OK;
}

static void nccl_close(void *instance)
{
    nccl_be *be = (nccl_be *)instance;
    if (be == NULL)
        return;
    const kith_be_host *host = be->host;
    int before = 0;
    ki_cuda_enter(be->cuda, be->device, &before);
    nccl_events_free(be);
    ki_cuda_leave(be->cuda, be->device, before);
    host->free(host->cookie, be);
}

static unsigned memory(void *group)
{
    (void)group;
    return KITH_BE_DEVICE;
}

static const kith_backend table = {
    .abi = KITH_BACKEND_ABI,
    .struct_size = sizeof(kith_backend),
    .name = "nccl",
    .settings = settings,
    .available = available,
    .open = nccl_open,
    .close = nccl_close,
    .group_create = nccl_group_create,
    .group_destroy = nccl_group_destroy,
    .group_abort = nccl_group_abort,
    .groups_abort = nccl_groups_abort,
    .group_split = nccl_group_split,
    .split_discard = nccl_split_discard,
    .query = nccl_query,
    .coll_start = nccl_coll_start,
    .coll_test = nccl_coll_test,
    .coll_cancel = nccl_coll_cancel,
    .send_start = nccl_send_start,
    .recv_start = nccl_recv_start,
    .msg_test = nccl_msg_test,
    .msg_cancel = nccl_msg_cancel,
    .progress = nccl_progress,
    .mem_register = nccl_mem_register,
    .mem_deregister = nccl_mem_deregister,
    .memory = memory,
    .stream_wait = nccl_stream_wait,
    .batch_begin = nccl_batch_begin,
    .batch_end = nccl_batch_end,
};

KITH_API const kith_backend *kith_backend_v1(void);

const kith_backend *kith_backend_v1(void)
{
    return &table;
}
