/* backends/nccl/group.c - groups: making a communicator everywhere or nowhere, ending it; see backend.h.
 *
 * Creation: every member tells what it has (version, capability of the device) and rank 0 the unique id; NCCL connects
 * them while each member asks it again and again, up to the deadline; a last exchange tells whether all have one. A
 * member whose NCCL fails leaves a note, so that the others do not wait for their deadline.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "backend.h"

#include <stdio.h>
#include <string.h>

#define NOTE "nccl/failed"
#define NOTE_EVERY_NS 20000000

typedef struct card {
    ncclUniqueId id; /* rank 0's */
    int version, capability;
} card;

static kith_status allocate(nccl_group *group)
{
    nccl_be *be = group->be;
    kith_status status = nccl_line_open(&group->line, group);
    if (status != KITH_OK)
        return status;
    cudaError_t error = be->cuda->cudaMalloc(&group->word, 256);
    if (error == cudaSuccess)
        error = be->cuda->cudaMemsetAsync(group->word, 0, 256, group->line.stream);
    return error == cudaSuccess ? KITH_OK : nccl_cuda_fail(be, "no memory for a group", error);
}

static kith_status prepare_card(const nccl_group *group, card *mine)
{
    const nccl_be *be = group->be;
    char words[300];
    memset(mine, 0, sizeof *mine);
    mine->version = be->nccl->version;
    mine->capability = be->capability;
    if (group->rank != 0)
        return KITH_OK;
    ncclResult_t result = be->nccl->ncclGetUniqueId(&mine->id);
    return result == ncclSuccess ? KITH_OK
                                 : be->host->fail(nccl_status(result), "backend nccl, group '%s': no unique id: %s",
                                                  group->name, nccl_words(be, NULL, result, words, sizeof words));
}

/* All see the same cards, so all come to the same end. */
static kith_status compare(nccl_group *group, const card *cards)
{
    char here[32], there[32];
    group->capability = cards[0].capability;
    for (int r = 1; r < group->size; r++) {
        if (cards[r].capability < group->capability)
            group->capability = cards[r].capability;
        if (cards[r].version != cards[0].version)
            return group->be->host->fail(KITH_ERR_MISMATCH,
                                         "backend nccl, group '%s': rank 0 has NCCL %s, rank %d has NCCL %s",
                                         group->name, nccl_version_text(cards[0].version, here, sizeof here), r,
                                         nccl_version_text(cards[r].version, there, sizeof there));
    }
    return KITH_OK;
}

static kith_status too_late(nccl_group *group)
{
    const kith_be_host *host = group->be->host;
    char text[200];
    snprintf(text, sizeof text, "NCCL did not connect the %d ranks within %lld ms (setting connect_timeout_ms)",
             group->size, (long long)host->connect_timeout_ms);
    nccl_line_break(&group->line, KITH_ERR_TIMEOUT, text);
    return nccl_line_fail(&group->line);
}

/* Until the communicator stands, or somebody failed. */
static kith_status connect_all(nccl_group *group)
{
    const kith_be_host *host = group->be->host;
    int64_t deadline_ns = nccl_now_ns() + host->connect_timeout_ms * 1000000, look_ns = 0;
    for (;;) {
        char note;
        nccl_line_advance(&group->line);
        int64_t now = nccl_now_ns();
        if (group->line.state == LINE_READY)
            return KITH_OK;
        if (group->line.state == LINE_BROKEN)
            return nccl_line_fail(&group->line);
        if (now > deadline_ns)
            return too_late(group);
        if (now > look_ns && host->get(group->cookie, NOTE, &note, 1) == KITH_OK) {
            nccl_line_break(&group->line, KITH_ERR_PEER_FAILED, "NCCL failed on another rank");
            return nccl_line_fail(&group->line);
        }
        look_ns = now > look_ns ? now + NOTE_EVERY_NS : look_ns;
        nccl_pause();
    }
}

static kith_status connect_line(nccl_group *group, const ncclUniqueId *id)
{
    const kith_be_host *host = group->be->host;
    kith_status status = nccl_line_make(&group->line, id, group->rank, group->size);
    status = status == KITH_OK ? connect_all(group) : nccl_line_fail(&group->line);
    if (status != KITH_OK && status != KITH_ERR_PEER_FAILED)
        host->put(group->cookie, NOTE, "", 1);
    return status;
}

static kith_status introduce(nccl_group *group, kith_status status)
{
    const kith_be_host *host = group->be->host;
    card mine;
    unsigned char ignored = 0;
    card *cards = (card *)host->alloc(host->cookie, sizeof *cards * (size_t)group->size, 64);
    if (cards == NULL && status == KITH_OK)
        status = host->fail(KITH_ERR_NO_MEMORY, "backend nccl: no memory for a group of %d ranks", group->size);
    if (status == KITH_OK)
        status = prepare_card(group, &mine);
    status = host->exchange(group->cookie, status, &mine, sizeof mine, cards);
    if (status == KITH_OK)
        status = compare(group, cards);
    if (status == KITH_OK) {
        status = connect_line(group, &cards[0].id);
        unsigned char *all = (unsigned char *)cards; /* long enough: a byte of each */
        status = host->exchange(group->cookie, status, &ignored, 1, all);
    }
    host->free(host->cookie, cards);
    return status;
}

static void free_group(nccl_group *group)
{
    nccl_be *be = group->be;
    int64_t deadline_ns = nccl_now_ns() + (int64_t)NCCL_FINALIZE_MS * 1000000;
    nccl_line_finalize(&group->line);
    for (nccl_channel *c = group->channels; c != NULL; c = c->next)
        nccl_line_finalize(&c->line);
    nccl_line_close(&group->line, deadline_ns);
    while (group->channels != NULL) {
        nccl_channel *c = group->channels;
        group->channels = c->next;
        nccl_line_close(&c->line, deadline_ns);
        be->host->free(be->host->cookie, c);
    }
    be->cuda->cudaFree(group->word);
    be->cuda->cudaFree(group->scratch);
    while (group->memories != NULL) {
        nccl_memory *m = group->memories;
        group->memories = m->next;
        be->host->free(be->host->cookie, m);
    }
    pthread_mutex_destroy(&group->lock);
    be->host->free(be->host->cookie, group);
}

kith_status nccl_group_create(void *instance, const kith_be_group_info *info, void **out)
{
    nccl_be *be = (nccl_be *)instance;
    nccl_group *group = (nccl_group *)be->host->alloc(be->host->cookie, sizeof *group, 64);
    if (group == NULL) { /* the others learn of it in the exchange that they wait in */
        unsigned char none[sizeof(card)];
        return be->host->exchange(info->cookie,
                                  be->host->fail(KITH_ERR_NO_MEMORY, "backend nccl: no memory for a group"), none,
                                  sizeof none, NULL);
    }
    memset(group, 0, sizeof *group);
    group->be = be;
    group->cookie = info->cookie;
    group->rank = info->rank;
    group->size = info->size;
    group->line.be = be;
    snprintf(group->name, sizeof group->name, "%s", info->name != NULL ? info->name : "");
    pthread_mutex_init(&group->lock, NULL);
    int before = 0;
    ki_cuda_enter(be->cuda, be->device, &before);
    kith_status status = introduce(group, allocate(group));
    if (status == KITH_OK) {
        group->next = be->groups;
        be->groups = group;
        *out = group;
    } else {
        nccl_line_break(&group->line, status, "the group could not be made");
        free_group(group);
    }
    ki_cuda_leave(be->cuda, be->device, before);
    return status;
}

void nccl_group_destroy(void *handle)
{
    nccl_group *group = (nccl_group *)handle;
    if (group == NULL)
        return;
    nccl_be *be = group->be;
    int before = 0;
    ki_cuda_enter(be->cuda, be->device, &before);
    for (nccl_group **at = &be->groups; *at != NULL; at = &(*at)->next) {
        if (*at == group) {
            *at = group->next;
            break;
        }
    }
    free_group(group);
    ki_cuda_leave(be->cuda, be->device, before);
}

void nccl_group_abort(void *handle)
{
    nccl_group *group = (nccl_group *)handle;
    int before = 0;
    pthread_mutex_lock(&group->lock);
    ki_cuda_enter(group->be->cuda, group->be->device, &before);
    nccl_line_break(&group->line, KITH_ERR_ABORTED, "the group was aborted");
    for (nccl_channel *c = group->channels; c != NULL; c = c->next)
        nccl_line_break(&c->line, KITH_ERR_ABORTED, "the group was aborted");
    nccl_self_break(group);
    ki_cuda_leave(group->be->cuda, group->be->device, before);
    pthread_mutex_unlock(&group->lock);
}

void nccl_progress(void *instance)
{
    nccl_be *be = (nccl_be *)instance;
    int before = 0;
    if (be->groups == NULL)
        return;
    ki_cuda_enter(be->cuda, be->device, &before);
    for (nccl_group *group = be->groups; group != NULL; group = group->next) {
        pthread_mutex_lock(&group->lock);
        nccl_line_advance(&group->line);
        nccl_channels_advance(group);
        pthread_mutex_unlock(&group->lock);
    }
    ki_cuda_leave(be->cuda, be->device, before);
}
