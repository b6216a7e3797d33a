/* backends/ucx/group.c - groups: who is in, and how to reach them; see ucx.h.
 *
 * Creation is two exchanges at most: everybody says how long its address is and whether it lacks anybody's; if
 * somebody does, all send theirs. The group can receive before the first exchange, so no message of a faster member
 * finds it missing.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "ucx.h"

#include <string.h>

typedef struct introduction {
    uint64_t address_nbytes;
    uint64_t lacks_somebody;
} introduction;

static bool lacks_somebody(const ucx_be *be, const kith_be_group_info *info)
{
    for (int r = 0; r < info->size; r++)
        if (r != info->rank && be->peers[info->world_ranks[r]].address == NULL)
            return true;
    return false;
}

/* Keeps copies of the addresses that are new. */
static kith_status keep(ucx_be *be, const kith_be_group_info *info, const introduction *all,
                        const unsigned char *addresses, size_t stride)
{
    const kith_be_host *host = be->host;
    for (int r = 0; r < info->size; r++) {
        ucx_peer *peer = &be->peers[info->world_ranks[r]];
        if (r == info->rank || peer->address != NULL)
            continue;
        void *copy = host->alloc(host->cookie, (size_t)all[r].address_nbytes, 16);
        if (copy == NULL)
            return host->fail(KITH_ERR_NO_MEMORY, "no memory for the address of world rank %d", info->world_ranks[r]);
        memcpy(copy, addresses + stride * (size_t)r, (size_t)all[r].address_nbytes);
        peer->address = copy;
    }
    return KITH_OK;
}

static kith_status exchange_addresses(ucx_be *be, const kith_be_group_info *info, const introduction *all,
                                      size_t stride)
{
    const kith_be_host *host = be->host;
    kith_status status = KITH_OK;
    unsigned char *buffer = (unsigned char *)host->alloc(host->cookie, stride * ((size_t)info->size + 1), 16);
    if (buffer == NULL)
        status = host->fail(KITH_ERR_NO_MEMORY, "no memory for the addresses of %d ranks", info->size);
    unsigned char *mine = buffer != NULL ? buffer + stride * (size_t)info->size : NULL;
    if (mine != NULL) {
        memset(mine, 0, stride);
        memcpy(mine, be->address, be->address_nbytes);
    }
    status = host->exchange(info->cookie, status, mine, stride, buffer);
    if (status == KITH_OK)
        status = keep(be, info, all, buffer, stride);
    if (buffer != NULL)
        host->free(host->cookie, buffer);
    return status;
}

static kith_status introduce(ucx_be *be, const kith_be_group_info *info, kith_status status)
{
    const kith_be_host *host = be->host;
    introduction mine = { be->address_nbytes, lacks_somebody(be, info) };
    introduction *all = (introduction *)host->alloc(host->cookie, sizeof *all * (size_t)info->size, 16);
    if (all == NULL && status == KITH_OK)
        status = host->fail(KITH_ERR_NO_MEMORY, "no memory for the introductions of %d ranks", info->size);
    status = host->exchange(info->cookie, status, &mine, sizeof mine, all);
    if (status == KITH_OK) {
        size_t stride = 0;
        bool is_needed = false;
        for (int r = 0; r < info->size; r++) {
            is_needed |= all[r].lacks_somebody != 0;
            stride = all[r].address_nbytes > stride ? (size_t)all[r].address_nbytes : stride;
        }
        if (is_needed)
            status = exchange_addresses(be, info, all, stride);
    }
    if (all != NULL)
        host->free(host->cookie, all);
    return status;
}

kith_status ucx_group_create(void *instance, const kith_be_group_info *info, void **out)
{
    ucx_be *be = (ucx_be *)instance;
    kith_status status = KITH_OK;
    ki_msg_group *group = ki_msg_group_create(&be->engine, info, be);
    if (group == NULL)
        status = be->host->fail(KITH_ERR_NO_MEMORY, "no memory for a group of %d ranks", info->size);
    if (info->size > 1)
        status = introduce(be, info, status);
    if (status != KITH_OK) {
        ki_msg_group_destroy(group);
        return status;
    }
    for (int r = 0; r < info->size; r++)
        group->peers[r].is_failed = be->peers[info->world_ranks[r]].is_failed;
    *out = group;
    return KITH_OK;
}

void ucx_group_destroy(void *group)
{
    ki_msg_group_destroy((ki_msg_group *)group);
}

void ucx_group_abort(void *group)
{
    atomic_store(&((ki_msg_group *)group)->is_aborted, 1);
}
