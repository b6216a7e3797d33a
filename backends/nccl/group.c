/* backends/nccl/group.c - groups: making a communicator everywhere or nowhere, ending it; see backend.h.
 *
 * Creation, where the parent's communicator was not split (split.c): every member tells what it has (version,
 * capability of the device) and rank 0 the unique id; NCCL connects them while each member asks it again and again, up
 * to the deadline; a last exchange tells whether all have one. A member whose NCCL fails leaves a note, so that the
 * others do not wait for their deadline.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "backend.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define NOTE "nccl/failed"
#define NOTE_EVERY_NS 20000000

typedef struct card {
    ncclUniqueId id; /* rank 0's */
    int version, capability;
    int has_split; /* has a communicator already */
} card;

static kith_status prepare_card(const nccl_group *group, card *mine)
{
    const nccl_be *be = group->be;
    char words[300];
    memset(mine, 0, sizeof *mine);
    mine->version = be->nccl->version;
    mine->capability = be->capability;
    mine->has_split = group->line.comm != NULL;
    if (group->rank != 0 || mine->has_split)
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

/* A rank without one makes all go by a unique id; rank 0 has none then. */
static kith_status take_split(nccl_group *group, const card *cards, bool *is_split)
{
    int count = 0;
    for (int r = 0; r < group->size; r++)
        count += cards[r].has_split;
    *is_split = count == group->size;
    if (count == 0 || *is_split)
        return KITH_OK;
    return group->be->host->fail(KITH_ERR_INTERNAL,
                                 "backend nccl, group '%s': %d of %d ranks have a split communicator", group->name,
                                 count, group->size);
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
    bool is_split = false;
    if (status == KITH_OK)
        status = take_split(group, cards, &is_split);
    if (status == KITH_OK) {
        if (is_split)
            group->line.state = LINE_READY;
        else
            status = connect_line(group, &cards[0].id);
        unsigned char *all = (unsigned char *)cards; /* long enough: a byte of each */
        status = host->exchange(group->cookie, status, &ignored, 1, all);
    }
    host->free(host->cookie, cards);
    return status;
}

static bool is_over(nccl_group *group)
{
    int64_t deadline_ns = nccl_now_ns() + (int64_t)NCCL_FINALIZE_MS * 1000000;
    bool is_quiet = nccl_line_is_over(&group->line, deadline_ns);
    for (nccl_channel *c = group->channels; c != NULL; c = c->next)
        is_quiet = nccl_line_is_over(&c->line, deadline_ns) && is_quiet;
    return is_quiet;
}

static void end_lines(nccl_group *group)
{
    int64_t deadline_ns = nccl_now_ns() + (int64_t)NCCL_FINALIZE_MS * 1000000;
    nccl_line *list = NULL;
    nccl_line_finalize(&group->line);
    for (nccl_channel *c = group->channels; c != NULL; c = c->next)
        nccl_line_finalize(&c->line);
    nccl_line_destroy(&group->line, deadline_ns, &list);
    for (nccl_channel *c = group->channels; c != NULL; c = c->next)
        nccl_line_destroy(&c->line, deadline_ns, &list);
    nccl_lines_end(list);
}

static void free_group(nccl_group *group)
{
    nccl_be *be = group->be;
    end_lines(group);
    if (!is_over(group)) { /* freeing device memory would wait as well, and for ever */
        be->host->log(be->host->cookie, KITH_LOG_WARN,
                      "NCCL does not finish the abort of a communicator; its memory and that of its group stay");
        return;
    }
    nccl_line_close(&group->line);
    while (group->channels != NULL) {
        nccl_channel *c = group->channels;
        group->channels = c->next;
        nccl_line_close(&c->line);
        be->host->free(be->host->cookie, c);
    }
    if (group->scratch != NULL && !group->line.is_stuck) /* cudaFree() would wait for the stream */
        be->cuda->cudaFree(group->scratch);
    while (group->memories != NULL) {
        nccl_memory *m = group->memories;
        group->memories = m->next;
        be->host->free(be->host->cookie, m);
    }
    pthread_mutex_destroy(&group->lock);
    be->host->free(be->host->cookie, group);
}

static kith_status open_line(nccl_group *group, ncclComm_t comm)
{
    kith_status status = nccl_line_open(&group->line, group);
    group->line.comm = comm;
    group->line.rank = group->rank;
    group->line.size = group->size;
    return status;
}

kith_status nccl_group_create(void *instance, const kith_be_group_info *info, void **out)
{
    nccl_be *be = (nccl_be *)instance;
    bool has_split = info->struct_size >= offsetof(kith_be_group_info, split) + sizeof info->split;
    ncclComm_t comm = nccl_split_take(be, has_split ? (nccl_split *)info->split : NULL);
    nccl_group *group = (nccl_group *)be->host->alloc(be->host->cookie, sizeof *group, 64);
    if (group == NULL) { /* the others learn of it in the exchange that they wait in */
        unsigned char none[sizeof(card)];
        nccl_put_away(be, comm);
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
    kith_status status = introduce(group, open_line(group, comm));
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

void nccl_group_mark_broken(nccl_group *group, kith_status status, const char *why, nccl_line **list)
{
    nccl_line_mark_broken(&group->line, status, why, list);
    for (nccl_channel *c = group->channels; c != NULL; c = c->next)
        nccl_line_mark_broken(&c->line, status, why, list);
    nccl_self_break(group);
}

/* All locks are held until every line is at rest: no test may say before that an operation has ended. Only the thread
 * that the instance belongs to holds several. */
void nccl_groups_abort(void *const *handles, size_t count)
{
    nccl_group *const *groups = (nccl_group *const *)handles;
    nccl_line *list = NULL;
    int before = 0;
    if (count == 0)
        return;
    const nccl_be *be = groups[0]->be;
    for (size_t i = 0; i < count; i++)
        pthread_mutex_lock(&groups[i]->lock);
    ki_cuda_enter(be->cuda, be->device, &before);
    for (size_t i = 0; i < count; i++)
        nccl_group_mark_broken(groups[i], KITH_ERR_ABORTED, "the group was aborted", &list);
    nccl_lines_end(list);
    ki_cuda_leave(be->cuda, be->device, before);
    for (size_t i = 0; i < count; i++)
        pthread_mutex_unlock(&groups[i]->lock);
}

void nccl_group_abort(void *group)
{
    nccl_groups_abort(&group, 1);
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
