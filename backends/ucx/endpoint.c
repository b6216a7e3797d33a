/* backends/ucx/endpoint.c - connections to peers, and their end; see ucx.h.
 *
 * An endpoint is made once. When UCX reports an error on it (error handler, inside progress) the peer is marked
 * failed in all groups and the endpoint is closed by force at the next sweep, because closing is not allowed
 * everywhere in callbacks. No second endpoint is made to a failed peer: its process is gone, or its transport is in
 * an unknown state.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "ucx.h"

#include <stdio.h>
#include <string.h>

static void mark_in_groups(ucx_peer *peer, const char *why, bool tell)
{
    ki_msg_engine *engine = &peer->be->engine;
    for (size_t bucket = 0; bucket < sizeof engine->groups / sizeof *engine->groups; bucket++)
        for (ki_msg_group *group = engine->groups[bucket]; group != NULL; group = group->next)
            for (int r = 0; r < group->size; r++) {
                if (group->world_ranks[r] != peer->world_rank)
                    continue;
                if (tell)
                    ki_msg_peer_failed(group, r, why);
                else
                    group->peers[r].is_failed = true;
            }
}

void ucx_peer_fail(ucx_peer *peer, const char *why)
{
    if (peer->is_failed)
        return;
    peer->is_failed = true;
    mark_in_groups(peer, why, !peer->has_left);
}

static void on_error(void *arg, ucp_ep_h ep, ucs_status_t status)
{
    ucx_peer *peer = (ucx_peer *)arg;
    char why[160];
    (void)ep;
    peer->needs_closing = true;
    peer->be->has_failures = true;
    snprintf(why, sizeof why, "UCX lost the connection to world rank %d: %s", peer->world_rank,
             peer->be->ucx->ucs_status_string(status));
    ucx_peer_fail(peer, why);
}

ucp_ep_h ucx_endpoint_get(ucx_be *be, int world_rank, kith_status *status)
{
    ucx_peer *peer = &be->peers[world_rank];
    if (peer->ep != NULL && !peer->is_failed)
        return peer->ep;
    if (peer->is_failed || peer->has_left) {
        *status = be->host->fail(KITH_ERR_PEER_FAILED, "world rank %d %s", world_rank,
                                 peer->has_left ? "has left" : "failed: UCX has no connection to it any more");
        return NULL;
    }
    ucp_ep_params_t params = { .field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                                             UCP_EP_PARAM_FIELD_ERR_HANDLER,
                               .address = (const ucp_address_t *)peer->address,
                               .err_mode = UCP_ERR_HANDLING_MODE_PEER,
                               .err_handler = { .cb = on_error, .arg = peer } };
    ucs_status_t made = be->ucx->ucp_ep_create(be->worker, &params, &peer->ep);
    if (made == UCS_OK)
        return peer->ep;
    peer->ep = NULL;
    *status = be->host->fail(KITH_ERR_UNREACHABLE,
                             "UCX cannot reach world rank %d: %s; it has ended or abandoned its context, or no "
                             "transport leads there (transports: KITH_UCX_TLS; interfaces: KITH_IFNAME)",
                             world_rank, be->ucx->ucs_status_string(made));
    return NULL;
}

static void *start_close(ucx_peer *peer, uint32_t flags)
{
    ucp_request_param_t param = { .op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS, .flags = flags };
    void *request = peer->be->ucx->ucp_ep_close_nbx(peer->ep, &param);
    peer->ep = NULL;
    peer->needs_closing = false;
    return UCS_PTR_IS_PTR(request) ? request : NULL;
}

static bool wait_close(ucx_be *be, void *request, int64_t until_ms)
{
    while (be->ucx->ucp_request_check_status(request) == UCS_INPROGRESS) {
        if (ucx_now_ms() > until_ms)
            return false;
        be->ucx->ucp_worker_progress(be->worker);
    }
    be->ucx->ucp_request_free(request);
    return true;
}

static void close_by_force(ucx_peer *peer)
{
    ucx_be *be = peer->be;
    void *request = start_close(peer, UCP_EP_CLOSE_FLAG_FORCE);
    if (request != NULL && !wait_close(be, request, ucx_now_ms() + KI_UCX_CLOSE_MS)) {
        be->ucx->ucp_request_free(request);
        be->host->log(be->host->cookie, KITH_LOG_WARN, "ucx: an endpoint did not close by force in time");
    }
}

void ucx_endpoints_sweep(ucx_be *be)
{
    be->has_failures = false;
    for (int r = 0; r < be->host->size; r++)
        if (be->peers[r].needs_closing && be->peers[r].ep != NULL)
            close_by_force(&be->peers[r]);
}

void ucx_endpoint_force(ucx_peer *peer, const char *why)
{
    ucx_peer_fail(peer, why);
    if (peer->ep != NULL)
        close_by_force(peer);
}

/* Says BYE, flushes, and closes all endpoints at the same time; what does not end in time is closed by force. */
void ucx_endpoints_close(ucx_be *be)
{
    const kith_be_host *host = be->host;
    void **requests = (void **)host->alloc(host->cookie, sizeof *requests * (size_t)host->size, 16);
    ucx_endpoints_sweep(be);
    for (int r = 0; r < host->size; r++)
        if (be->peers[r].ep != NULL && !be->peers[r].is_failed && !be->peers[r].has_left)
            ucx_send_bye(&be->peers[r]);
    int64_t until = ucx_now_ms() + KI_UCX_CLOSE_MS;
    while (be->in_flight > 0 && ucx_now_ms() < until)
        be->ucx->ucp_worker_progress(be->worker);
    for (int r = 0; r < host->size; r++) {
        ucx_peer *peer = &be->peers[r];
        void *request = NULL;
        peer->is_failed = true; /* errors from here on are nobody's business */
        if (peer->ep != NULL)
            request = start_close(
                peer, peer->has_left || requests == NULL || be->in_flight > 0 ? UCP_EP_CLOSE_FLAG_FORCE : 0);
        if (requests != NULL)
            requests[r] = request;
        else if (request != NULL)
            wait_close(be, request, until);
    }
    for (int r = 0; requests != NULL && r < host->size; r++)
        if (requests[r] != NULL && !wait_close(be, requests[r], until))
            be->ucx->ucp_request_free(requests[r]);
    if (requests != NULL)
        host->free(host->cookie, requests);
}
