/* backends/nccl/memory.c - buffers that NCCL may know in advance (ncclCommRegister, where the library has it).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "backend.h"

static void deregister(const nccl_group *group, const nccl_memory *memory)
{
    const nccl_be *be = group->be;
    int before = 0;
    if (group->line.comm == NULL || be->nccl->ncclCommDeregister == NULL)
        return; /* went with its communicator */
    ki_cuda_enter(be->cuda, be->device, &before);
    be->nccl->ncclCommDeregister(group->line.comm, memory->handle);
    ki_cuda_leave(be->cuda, be->device, before);
}

/* Each member registers its own; the exchange tells whether all could. */
kith_status nccl_mem_register(void *handle, void *ptr, size_t nbytes)
{
    nccl_group *group = (nccl_group *)handle;
    const nccl_be *be = group->be;
    const kith_be_host *host = be->host;
    char words[300];
    unsigned char mine = 0;
    int before = 0;
    nccl_memory *memory = (nccl_memory *)host->alloc(host->cookie, sizeof *memory, 64);
    unsigned char *all = (unsigned char *)host->alloc(host->cookie, (size_t)group->size, 64);
    kith_status status = KITH_OK;
    if (memory == NULL || all == NULL)
        status = host->fail(KITH_ERR_NO_MEMORY, "backend nccl: no memory to register a buffer");
    else if (be->nccl->ncclCommRegister == NULL)
        status = host->fail(KITH_ERR_UNSUPPORTED, "this NCCL cannot register buffers (ncclCommRegister is missing)");
    pthread_mutex_lock(&group->lock);
    if (status == KITH_OK && group->line.state != LINE_READY)
        status = host->fail(KITH_ERR_BUSY, "backend nccl, group '%s': a buffer is registered while nothing runs",
                            group->name);
    if (status == KITH_OK) {
        ki_cuda_enter(be->cuda, be->device, &before); /* NCCL takes the thread's device for the buffer's */
        ncclResult_t result = be->nccl->ncclCommRegister(group->line.comm, ptr, nbytes, &memory->handle);
        ki_cuda_leave(be->cuda, be->device, before);
        if (result != ncclSuccess)
            status = host->fail(nccl_status(result), "backend nccl, group '%s': a buffer cannot be registered: %s",
                                group->name, nccl_words(be, group->line.comm, result, words, sizeof words));
    }
    bool is_registered = status == KITH_OK;
    pthread_mutex_unlock(&group->lock);
    status = host->exchange(group->cookie, status, &mine, 1, all);
    pthread_mutex_lock(&group->lock);
    if (status == KITH_OK) {
        memory->ptr = ptr;
        memory->next = group->memories;
        group->memories = memory;
        memory = NULL;
    } else if (is_registered) {
        deregister(group, memory);
    }
    pthread_mutex_unlock(&group->lock);
    host->free(host->cookie, memory);
    host->free(host->cookie, all);
    return status;
}

kith_status nccl_mem_deregister(void *handle, void *ptr)
{
    nccl_group *group = (nccl_group *)handle;
    const nccl_be *be = group->be;
    nccl_memory *memory = NULL;
    pthread_mutex_lock(&group->lock);
    for (nccl_memory **at = &group->memories; *at != NULL && memory == NULL; at = &(*at)->next) {
        if ((*at)->ptr == ptr) {
            memory = *at;
            *at = memory->next;
            break;
        }
    }
    if (memory != NULL)
        deregister(group, memory);
    pthread_mutex_unlock(&group->lock);
    if (memory == NULL)
        return be->host->fail(KITH_ERR_INVALID_ARG, "backend nccl, group '%s': this buffer is not registered",
                              group->name);
    be->host->free(be->host->cookie, memory);
    return KITH_OK;
}
