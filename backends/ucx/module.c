/* backends/ucx/module.c - the table that the core sees; see ucx.h.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "ucx.h"

#include <stdio.h>
#include <string.h>

static kith_status available(char *reason, size_t reason_nbytes)
{
    char why[256] = "";
    const ucx_functions *ucx = ucx_library(why, sizeof why);
    unsigned major = 0, minor = 0, release = 0;
    if (ucx == NULL) {
        snprintf(reason, reason_nbytes, "%s", why);
        return KITH_ERR_UNSUPPORTED;
    }
    ucx->ucp_get_version(&major, &minor, &release);
    if (major != UCP_API_MAJOR || minor < UCP_API_MINOR) {
        snprintf(reason, reason_nbytes, "UCX %u.%u is here, the module was built for %u.%u", major, minor,
                 UCP_API_MAJOR, UCP_API_MINOR);
        return KITH_ERR_UNSUPPORTED;
    }
    snprintf(reason, reason_nbytes, "UCX %s", ucx->ucp_get_version_string());
    return KITH_OK;
}

static kith_status query(void *group, const kith_be_query *question, kith_be_answer *answer)
{
    (void)group, (void)question;
    memset(answer, 0, sizeof *answer); /* no collective of its own */
    return KITH_OK;
}

static kith_status send_start(void *group, const kith_be_msg *msg, kith_be_slot *slot)
{
    return ki_msg_send((ki_msg_group *)group, msg, (ki_msg_op *)(void *)slot);
}

/* A receive opens the endpoint too: otherwise UCX would not watch the peer, and its death would go unnoticed. */
static kith_status recv_start(void *handle, const kith_be_msg *msg, kith_be_slot *slot)
{
    ki_msg_group *group = (ki_msg_group *)handle;
    ucx_be *be = (ucx_be *)group->wire_group;
    ki_msg_op *op = (ki_msg_op *)(void *)slot;
    kith_status status = ki_msg_recv(group, msg, op);
    if (status != KITH_OK || op->state != KI_MSG_POSTED || msg->peer == group->rank)
        return status;
    const ucx_peer *peer = &be->peers[group->world_ranks[msg->peer]];
    if (peer->ep != NULL || peer->is_failed) /* of a failed peer the first test tells */
        return KITH_OK;
    if (ucx_endpoint_get(be, peer->world_rank, &status) == NULL)
        ki_msg_detach(op);
    return status;
}

static kith_status msg_test(void *group, kith_be_slot *slot, int *is_done, size_t *nbytes)
{
    (void)group;
    return ki_msg_test((ki_msg_op *)(void *)slot, is_done, nbytes);
}

static void msg_cancel(void *group, kith_be_slot *slot)
{
    (void)group;
    ki_msg_detach((ki_msg_op *)(void *)slot);
}

static const kith_backend table = {
    .abi = KITH_BACKEND_ABI,
    .struct_size = sizeof(kith_backend),
    .name = "ucx",
    .settings = ucx_settings,
    .available = available,
    .open = ucx_open,
    .close = ucx_close,
    .group_create = ucx_group_create,
    .group_destroy = ucx_group_destroy,
    .group_abort = ucx_group_abort,
    .query = query,
    .send_start = send_start,
    .recv_start = recv_start,
    .msg_test = msg_test,
    .msg_cancel = msg_cancel,
    .progress = ucx_progress,
    .is_drained = ucx_is_drained,
    .idle = ucx_idle,
    .memory = ucx_memory,
};

KITH_API const kith_backend *kith_backend_v1(void);

const kith_backend *kith_backend_v1(void)
{
    return &table;
}
