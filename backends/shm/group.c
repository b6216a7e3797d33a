/* backends/shm/group.c - a group's life: who the peers are, the arena, what works between them.
 *
 *     exchange of processes  ->  arena  ->  channels  ->  probes  ->  ready
 *
 * Each step is taken by all members or fails on all (host->exchange()). Destroying is local: the arena lives until the
 * last member has unmapped it, so a slower member still finds what it needs.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "internal.h"
#include <errno.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#define DIRECT_NBYTES 2048
#define STREAM_NBYTES 16777216 /* default of shm_stream_nbytes, over all ranks: they share the last cache */

/* What each member tells about itself. */
typedef struct introduction {
    uint64_t process, start_time;
    int64_t pid;
    int32_t is_oversubscribed, has_membarrier;
} introduction;

static bool allocate(shm_group *group)
{
    size_t size = (size_t)group->size;
    group->peers = shm_new(group->host, size, sizeof *group->peers);
    group->out = shm_new(group->host, size, sizeof *group->out);
    group->in = shm_new(group->host, size, sizeof *group->in);
    group->far_send = shm_new(group->host, size, sizeof *group->far_send);
    group->far_recv = shm_new(group->host, size, sizeof *group->far_recv);
    group->sources = shm_new(group->host, size, sizeof *group->sources);
    group->targets = shm_new(group->host, size, sizeof *group->targets);
    return group->peers != NULL && group->out != NULL && group->in != NULL && group->far_send != NULL &&
           group->far_recv != NULL && group->sources != NULL && group->targets != NULL;
}

static void release(shm_group *group)
{
    const kith_be_host *host = group->host;
    shm_delete(group->host, group->peers);
    shm_delete(group->host, group->out);
    shm_delete(group->host, group->in);
    shm_delete(group->host, group->far_send);
    shm_delete(group->host, group->far_recv);
    shm_delete(group->host, group->sources);
    shm_delete(group->host, group->targets);
    if (group->scratch != NULL)
        munmap(group->scratch, group->scratch_nbytes);
    shm_delete(host, group);
}

static kith_status introduce(shm_group *group, kith_status status)
{
    introduction mine = { shm_process_number(), shm_process_start_time(getpid()), getpid(), group->host->spin == 0,
                          group->instance->has_membarrier };
    introduction *all = shm_new(group->host, (size_t)group->size, sizeof *all);
    if (all == NULL && status == KITH_OK)
        status = group->host->fail(KITH_ERR_NO_MEMORY, "no memory to set up group %s", group->name);
    status = group->host->exchange(group->cookie, status, &mine, sizeof mine, all);
    group->is_one_process = group->has_membarrier = true;
    for (int r = 0; status == KITH_OK && r < group->size; r++) {
        shm_peer *peer = &group->peers[r];
        peer->process = all[r].process;
        peer->pid = (pid_t)all[r].pid;
        peer->start_time = all[r].start_time;
        peer->is_here = all[r].process == mine.process;
        peer->pidfd = -1;
        group->is_one_process = group->is_one_process && peer->is_here;
        group->has_membarrier = group->has_membarrier && all[r].has_membarrier != 0;
        group->is_oversubscribed = group->is_oversubscribed || all[r].is_oversubscribed != 0;
    }
    shm_delete(group->host, all);
    return status;
}

/* Scratch is address space until an operation writes there, and few do: reductions whose own block lies under the
 * result, and those through process_vm_*. So a group costs next to nothing, and still no operation can fail for memory
 * on one rank alone, half-way through. */
static kith_status map_scratch(shm_group *group)
{
    size_t most = (size_t)group->sizes.cell_nbytes;
    size_t nbytes = most > group->sizes.ring_nbytes / 2 ? most : (size_t)group->sizes.ring_nbytes / 2;
    void *at = mmap(NULL, nbytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED)
        return group->host->fail(KITH_ERR_NO_MEMORY, "no memory for %zu bytes of scratch of group %s: %s", nbytes,
                                 group->name, strerror(errno));
    group->scratch = at;
    group->scratch_nbytes = nbytes;
    return KITH_OK;
}

/* What is private and depends on the arena's sizes. */
static kith_status prepare(shm_group *group)
{
    size_t eager = group->instance->settings.eager_nbytes;
    group->eager_nbytes = shm_min(eager, (size_t)group->sizes.cell_nbytes);
    /* Direct takes two hand-shakes, cells one: where a hand-shake is a context switch that counts more than the
     * copies. */
    group->direct_nbytes = group->is_oversubscribed ? group->eager_nbytes : shm_min(DIRECT_NBYTES, group->eager_nbytes);
    size_t stream = group->instance->settings.stream_nbytes;
    group->stream_nbytes = stream == SIZE_MAX ? STREAM_NBYTES / (size_t)group->size : stream;
    kith_status status = map_scratch(group);
    return status == KITH_OK ? shm_channels_create(group) : status;
}

kith_status shm_group_create(void *instance_, const kith_be_group_info *info, void **group_)
{
    shm_instance *instance = instance_;
    const kith_be_host *host = instance->host;
    shm_group *group = shm_new(host, 1, sizeof *group);
    kith_status status = KITH_OK;
    if (group == NULL) {
        status = host->fail(KITH_ERR_NO_MEMORY, "no memory for group %s", info->name);
        introduction nothing = { 0 };
        return host->exchange(info->cookie, status, &nothing, sizeof nothing, &nothing);
    }
    group->instance = instance;
    group->host = host;
    group->cookie = info->cookie;
    group->rank = info->rank;
    group->size = info->size;
    snprintf(group->name, sizeof group->name, "%s", info->name);
    if (!info->is_one_node)
        status =
            host->fail(KITH_ERR_UNSUPPORTED, "group %s spans hosts: shm reaches only ranks of one host", group->name);
    else if (!allocate(group))
        status = host->fail(KITH_ERR_NO_MEMORY, "no memory for group %s", group->name);
    status = introduce(group, status);
    if (status != KITH_OK)
        goto free_group;
    status = shm_arena_create(group);
    if (status != KITH_OK)
        goto free_group;
    status = prepare(group);
    status = shm_probe(group, status);
    if (status != KITH_OK)
        goto unmap_arena;
    shm_peers_watch(group);
    group->next = instance->groups;
    instance->groups = group;
    *group_ = group;
    return KITH_OK;

unmap_arena:
    shm_channels_destroy(group);
    shm_unmap(group->arena_nonce, false);
free_group:
    release(group);
    return status;
}

void shm_group_destroy(void *group_)
{
    shm_group *group = group_;
    shm_group **link = &group->instance->groups;
    while (*link != group)
        link = &(*link)->next;
    *link = group->next;
    shm_store(&group->blocks[group->rank].left.value, 1);
    shm_peers_unwatch(group);
    shm_regions_destroy(group);
    shm_channels_destroy(group);
    shm_unmap(group->arena_nonce, false);
    release(group);
}

void shm_group_abort(void *group_)
{
    shm_group *group = group_;
    uint64_t expected = 0;
    __atomic_compare_exchange_n(&group->header->aborted.value, &expected, (uint64_t)group->rank + 1, false,
                                __ATOMIC_SEQ_CST, __ATOMIC_RELAXED);
    shm_doorbell_ring(group);
}
