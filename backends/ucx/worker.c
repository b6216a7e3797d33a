/* backends/ucx/worker.c - an instance: UCP context, worker, waiting; see ucx.h.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "../message/setting.h"
#include "ucx.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define EAGER_MOST ((size_t)64 << 20)

enum { SETTING_TLS, SETTING_NET_DEVICES, SETTING_EAGER, SETTING_EAGER_FAR, SETTING_DEVICE };

const kith_be_setting ucx_settings[] = {
    [SETTING_TLS] = { "ucx_tls", "",
                      "transports UCX may use, as UCX_TLS takes them (\"tcp\", \"posix,cma\"); empty: UCX_TLS, else "
                      "all",
                      1 },
    [SETTING_NET_DEVICES] = { "ucx_net_devices", "",
                              "network devices UCX may use, as UCX_NET_DEVICES takes them; empty: KITH_IFNAME, else "
                              "all",
                              0 },
    [SETTING_EAGER] = { "ucx_eager", "32768",
                        "bytes up to which a message within a host is sent before a receive matches: 0 .. 67108864",
                        0 },
    [SETTING_EAGER_FAR] = { "ucx_eager_far", "262144", "the same between hosts: 0 .. 67108864", 0 },
    [SETTING_DEVICE] = KI_DEVICE_MEMORY_SETTING("ucx_device_memory", "UCX"),
    { NULL, NULL, NULL, 0 },
};

int64_t ucx_now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static kith_status modify(ucx_be *be, ucp_config_t *config, const char *name, const char *setting, const char *value)
{
    if (value == NULL || value[0] == '\0')
        return KITH_OK;
    ucs_status_t status = be->ucx->ucp_config_modify(config, name, value);
    if (status == UCS_OK)
        return KITH_OK;
    return be->host->fail(KITH_ERR_INVALID_ARG, "%s=%s: UCX does not take this for UCX_%s: %s", setting, value, name,
                          be->ucx->ucs_status_string(status));
}

static kith_status configure(ucx_be *be, ucp_config_t *config)
{
    const kith_be_host *host = be->host;
    const char *devices = host->setting(host->cookie, "ucx_net_devices", "");
    const char *ifname = host->setting(host->cookie, "ifname", "");
    kith_status status = modify(be, config, "TLS", "ucx_tls", host->setting(host->cookie, "ucx_tls", ""));
    if (status == KITH_OK && devices != NULL && devices[0] != '\0')
        status = modify(be, config, "NET_DEVICES", "ucx_net_devices", devices);
    else if (status == KITH_OK)
        status = modify(be, config, "NET_DEVICES", "ifname", ifname);
    return status;
}

static kith_status make_context(ucx_be *be)
{
    ucp_config_t *config;
    ucs_status_t status = be->ucx->ucp_config_read(NULL, NULL, &config);
    if (status != UCS_OK)
        return be->host->fail(KITH_ERR_NO_RESOURCE, "UCX refuses its configuration (UCX_... variables): %s",
                              be->ucx->ucs_status_string(status));
    kith_status result = configure(be, config);
    if (result == KITH_OK) {
        ucp_params_t params = { .field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_ESTIMATED_NUM_EPS,
                                .features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP,
                                .estimated_num_eps = (size_t)be->host->size };
        status = be->ucx->ucp_init_version(UCP_API_MAJOR, UCP_API_MINOR, &params, config, &be->context);
        if (status != UCS_OK)
            result = be->host->fail(KITH_ERR_UNSUPPORTED,
                                    "UCX finds no usable transport or device (UCX_TLS, KITH_UCX_TLS, KITH_IFNAME): %s",
                                    be->ucx->ucs_status_string(status));
    }
    be->ucx->ucp_config_release(config);
    return result;
}

static bool is_cuda_aware(const ucx_be *be)
{
    ucp_context_attr_t attributes = { .field_mask = UCP_ATTR_FIELD_MEMORY_TYPES };
    return be->ucx->ucp_context_query(be->context, &attributes) == UCS_OK &&
           (attributes.memory_types & UCS_BIT(UCS_MEMORY_TYPE_CUDA)) != 0;
}

static kith_status ask_for_device(ucx_be *be)
{
    ki_device_memory wanted;
    kith_status status = ki_read_device_memory(be->host, &ucx_settings[SETTING_DEVICE], &wanted);
    be->takes_device = status == KITH_OK && be->host->device >= 0 &&
                       (wanted == KI_DEVICE_MEMORY_DIRECT || (wanted == KI_DEVICE_MEMORY_AUTO && is_cuda_aware(be)));
    return status;
}

unsigned ucx_memory(void *group)
{
    const ki_msg_group *messages = (const ki_msg_group *)group;
    bool takes_device = messages != NULL && ((const ucx_be *)messages->wire_group)->takes_device;
    return takes_device ? KITH_BE_HOST | KITH_BE_DEVICE : KITH_BE_HOST;
}

static ucs_status_t handle(ucx_be *be, unsigned id, ucp_am_recv_callback_t callback)
{
    ucp_am_handler_param_t handler = { .field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_FLAGS |
                                                     UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG,
                                       .id = id,
                                       .flags = UCP_AM_FLAG_WHOLE_MSG,
                                       .cb = callback,
                                       .arg = be };
    return be->ucx->ucp_worker_set_am_recv_handler(be->worker, &handler);
}

static ucs_status_t make_worker(ucx_be *be)
{
    ucp_worker_params_t params = { .field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE | UCP_WORKER_PARAM_FIELD_FLAGS,
                                   .thread_mode = UCS_THREAD_MODE_SERIALIZED,
                                   .flags = UCP_WORKER_FLAG_IGNORE_REQUEST_LEAK };
    ucs_status_t status = be->ucx->ucp_worker_create(be->context, &params, &be->worker);
    if (status == UCS_OK)
        status = handle(be, KI_UCX_AM_PACKET, ucx_on_packet);
    if (status == UCS_OK)
        status = handle(be, KI_UCX_AM_EAGER, ucx_on_eager);
    if (status == UCS_OK)
        status = be->ucx->ucp_worker_get_address(be->worker, &be->address, &be->address_nbytes);
    if (status == UCS_OK && be->ucx->ucp_worker_get_efd(be->worker, &be->event_fd) != UCS_OK)
        be->event_fd = -1;
    return status;
}

static kith_status make_context_and_worker(ucx_be *be)
{
    ucx_library_prefer(true);
    kith_status status = make_context(be);
    if (status == KITH_OK) {
        ucs_status_t made = make_worker(be);
        if (made != UCS_OK)
            status =
                be->host->fail(KITH_ERR_NO_RESOURCE, "UCX cannot make a worker: %s", be->ucx->ucs_status_string(made));
    }
    ucx_library_prefer(false);
    return status;
}

static kith_status make_peers(ucx_be *be)
{
    const kith_be_host *host = be->host;
    size_t nbytes = sizeof *be->peers * (size_t)host->size;
    be->peers = (ucx_peer *)host->alloc(host->cookie, nbytes, 64);
    if (be->peers == NULL)
        return host->fail(KITH_ERR_NO_MEMORY, "no memory for the table of %d ranks", host->size);
    memset(be->peers, 0, nbytes);
    for (int r = 0; r < host->size; r++) {
        be->peers[r].be = be;
        be->peers[r].world_rank = r;
    }
    return KITH_OK;
}

kith_status ucx_open(const kith_be_host *host, void **out)
{
    char reason[256] = "";
    const ucx_functions *ucx = ucx_library(reason, sizeof reason);
    if (ucx == NULL)
        return host->fail(KITH_ERR_UNSUPPORTED, "%s", reason);
    ucx_be *be = (ucx_be *)host->alloc(host->cookie, sizeof *be, 64);
    if (be == NULL)
        return host->fail(KITH_ERR_NO_MEMORY, "no memory for the ucx backend");
    memset(be, 0, sizeof *be);
    be->host = host;
    be->ucx = ucx;
    be->event_fd = -1;
    ki_msg_engine_init(&be->engine, host, &ucx_wire);
    ucx_library_log_to(host);
    kith_status status = ki_read_nbytes(host, &ucx_settings[SETTING_EAGER], 0, EAGER_MOST, &be->eager_near);
    if (status == KITH_OK)
        status = ki_read_nbytes(host, &ucx_settings[SETTING_EAGER_FAR], 0, EAGER_MOST, &be->eager_far);
    if (status == KITH_OK)
        status = make_peers(be);
    if (status == KITH_OK)
        status = make_context_and_worker(be);
    if (status == KITH_OK)
        status = ask_for_device(be);
    if (status != KITH_OK) {
        ucx_close(be);
        return status;
    }
    *out = be;
    return KITH_OK;
}

void ucx_close(void *instance)
{
    ucx_be *be = (ucx_be *)instance;
    if (be == NULL)
        return;
    const kith_be_host *host = be->host;
    if (be->worker != NULL) {
        ucx_endpoints_close(be);
        if (be->flush != NULL)
            be->ucx->ucp_request_free(be->flush);
        if (be->address != NULL)
            be->ucx->ucp_worker_release_address(be->worker, be->address);
        be->ucx->ucp_worker_destroy(be->worker);
    }
    if (be->context != NULL)
        be->ucx->ucp_cleanup(be->context);
    ucx_library_log_end(host);
    ucx_packets_free(be);
    ki_msg_engine_fini(&be->engine);
    for (int r = 0; be->peers != NULL && r < host->size; r++)
        if (be->peers[r].address != NULL)
            host->free(host->cookie, be->peers[r].address);
    if (be->peers != NULL)
        host->free(host->cookie, be->peers);
    host->free(host->cookie, be);
}

void ucx_progress(void *instance)
{
    ucx_be *be = (ucx_be *)instance;
    be->ucx->ucp_worker_progress(be->worker);
    if (be->has_failures)
        ucx_endpoints_sweep(be);
}

/* Nothing in UCX's hands, and a flush of the worker since then has ended: whatever was sent has left this process. */
int ucx_is_drained(void *instance)
{
    ucx_be *be = (ucx_be *)instance;
    ucx_progress(be);
    if (be->in_flight > 0)
        return 0;
    if (be->flush == NULL) {
        ucp_request_param_t param = { 0 };
        void *flush = be->ucx->ucp_worker_flush_nbx(be->worker, &param);
        if (flush == NULL || UCS_PTR_IS_ERR(flush))
            return 1;
        be->flush = flush;
    }
    if (be->ucx->ucp_request_check_status(be->flush) == UCS_INPROGRESS)
        return 0;
    be->ucx->ucp_request_free(be->flush);
    be->flush = NULL;
    return 1;
}

void ucx_idle(void *instance, int64_t timeout_ns)
{
    ucx_be *be = (ucx_be *)instance;
    struct timespec timeout = { .tv_sec = timeout_ns / 1000000000, .tv_nsec = timeout_ns % 1000000000 };
    if (timeout_ns <= 0)
        return;
    if (be->event_fd < 0) {
        nanosleep(&timeout, NULL);
        return;
    }
    if (be->ucx->ucp_worker_arm(be->worker) != UCS_OK) /* there are events already */
        return;
    struct pollfd fd = { .fd = be->event_fd, .events = POLLIN };
    (void)ppoll(&fd, 1, &timeout, NULL);
}
