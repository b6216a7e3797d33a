/* backends/shm/backend.c - the table, the settings, and the instance that a context opens.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "internal.h"
#include <stdio.h>
#include <stdlib.h>

#define CELL_MOST ((size_t)64 << 20) /* eight per rank are touched when a group is made */
#define RING_MOST ((size_t)1 << 30)

static const kith_be_setting settings[] = {
    { "shm_memfd", "auto", "anonymous memory for the arenas of groups: auto (a file where it is refused), off", 1 },
    { "shm_dir", "/dev/shm", "folder for shared memory files, used where anonymous memory is refused or off", 0 },
    { "shm_cma", "auto",
      "process_vm_readv and process_vm_writev for large buffers: auto (where a probe succeeds and they turn out "
      "faster), off, always (where a probe succeeds)",
      1 },
    { "shm_mapped", "auto", "work straight in mapped buffers (kith_mem_alloc, threads): auto, off", 1 },
    { "shm_eager_nbytes", "auto", "bytes up to which a collective goes through cells: auto, or a size", 1 },
    { "shm_cell_nbytes", "auto", "bytes of a cell, eight per rank: auto (by group size), or a size", 1 },
    { "shm_ring_nbytes", "auto", "bytes of a rank's ring for large collectives: auto (by group size), or a size", 1 },
    { "shm_chunk_nbytes", "auto", "bytes of a piece in the ring: auto, or a size", 1 },
    { "shm_stream_nbytes", "auto", "bytes of a buffer from which streaming stores are used: auto, or a size", 1 },
    { NULL, NULL, NULL, 0 },
};

static kith_status shm_available(char *reason, size_t reason_nbytes)
{
    snprintf(reason, reason_nbytes, "memfd or file, process_vm_readv where permitted");
    return KITH_OK;
}

/* "64k", "2m", "auto". False for anything else. */
static bool parse_nbytes(const char *text, size_t *nbytes)
{
    if (strcmp(text, "auto") == 0) {
        *nbytes = SIZE_MAX;
        return true;
    }
    char *end;
    unsigned long long value = strtoull(text, &end, 10);
    int shift = *end == 'k' || *end == 'K' ? 10 : *end == 'm' || *end == 'M' ? 20 : *end == 'g' || *end == 'G' ? 30 : 0;
    if (end == text || text[0] == '-' || end[shift != 0] != '\0' || value > (SIZE_MAX >> shift) / 2)
        return false;
    *nbytes = (size_t)value << shift;
    return true;
}

static kith_status read_nbytes(const kith_be_host *host, const char *name, size_t most, size_t *nbytes)
{
    const char *text = host->setting(host->cookie, name, "auto");
    if (parse_nbytes(text, nbytes) && (*nbytes == SIZE_MAX || *nbytes <= most))
        return KITH_OK;
    return host->fail(KITH_ERR_INVALID_ARG,
                      "setting %s is '%s'; it takes auto or a size of at most %zu bytes (64k, 2m)", name, text, most);
}

static kith_status read_switch(const kith_be_host *host, const char *name, bool *is_on)
{
    const char *text = host->setting(host->cookie, name, "auto");
    *is_on = strcmp(text, "off") != 0;
    if (!*is_on || strcmp(text, "auto") == 0)
        return KITH_OK;
    return host->fail(KITH_ERR_INVALID_ARG, "setting %s is '%s'; it takes auto or off", name, text);
}

static kith_status read_cma(const kith_be_host *host, shm_settings *values)
{
    const char *text = host->setting(host->cookie, "shm_cma", "auto");
    values->is_cma_forced = strcmp(text, "always") == 0;
    values->use_cma = values->is_cma_forced || strcmp(text, "auto") == 0;
    if (values->use_cma || strcmp(text, "off") == 0)
        return KITH_OK;
    return host->fail(KITH_ERR_INVALID_ARG, "setting shm_cma is '%s'; it takes auto, off or always", text);
}

static kith_status read_settings(const kith_be_host *host, shm_settings *values)
{
    kith_status status = read_switch(host, "shm_memfd", &values->use_memfd);
    if (status == KITH_OK)
        status = read_cma(host, values);
    if (status == KITH_OK)
        status = read_switch(host, "shm_mapped", &values->use_mapped);
    if (status == KITH_OK)
        status = read_nbytes(host, "shm_eager_nbytes", CELL_MOST, &values->eager_nbytes);
    if (status == KITH_OK)
        status = read_nbytes(host, "shm_cell_nbytes", CELL_MOST, &values->cell_nbytes);
    if (status == KITH_OK)
        status = read_nbytes(host, "shm_ring_nbytes", RING_MOST, &values->ring_nbytes);
    if (status == KITH_OK)
        status = read_nbytes(host, "shm_chunk_nbytes", RING_MOST, &values->chunk_nbytes);
    if (status == KITH_OK)
        status = read_nbytes(host, "shm_stream_nbytes", SIZE_MAX / 2, &values->stream_nbytes);
    values->directory = host->setting(host->cookie, "shm_dir", "/dev/shm");
    return status;
}

static kith_status shm_open_instance(const kith_be_host *host, void **be)
{
    shm_instance *instance = shm_new(host, 1, sizeof *instance);
    if (instance == NULL)
        return host->fail(KITH_ERR_NO_MEMORY, "no memory for the shm backend");
    instance->host = host;
    kith_status status = read_settings(host, &instance->settings);
    if (status != KITH_OK) {
        shm_delete(host, instance);
        return status;
    }
    shm_doorbell_open(instance);
    *be = instance;
    return KITH_OK;
}

static void shm_close_instance(void *be)
{
    shm_instance *instance = be;
    shm_delete(instance->host, instance);
}

static kith_status shm_query(void *group, const kith_be_query *query, kith_be_answer *answer)
{
    (void)group;
    (void)query;
    *answer = (kith_be_answer){ 1, 1, "shm" };
    return KITH_OK;
}

static void shm_progress(void *be)
{
    shm_instance *instance = be;
    for (shm_group *group = instance->groups; group != NULL; group = group->next)
        if (group->channels != NULL)
            shm_messages_progress(group);
}

static const kith_backend backend = {
    .abi = KITH_BACKEND_ABI,
    .struct_size = sizeof(kith_backend),
    .name = "shm",
    .settings = settings,
    .available = shm_available,
    .open = shm_open_instance,
    .close = shm_close_instance,
    .group_create = shm_group_create,
    .group_destroy = shm_group_destroy,
    .group_abort = shm_group_abort,
    .query = shm_query,
    .coll_start = shm_coll_start,
    .coll_test = shm_coll_test,
    .coll_run = shm_coll_run,
    .coll_cancel = shm_coll_cancel,
    .coll_missing = shm_coll_missing,
    .send_start = shm_send_start,
    .recv_start = shm_recv_start,
    .msg_test = shm_msg_test,
    .msg_cancel = shm_msg_cancel,
    .progress = shm_progress,
    .is_test_enough = 1,
    .mem_alloc = shm_mem_alloc,
    .mem_free = shm_mem_free,
    .mem_register = shm_mem_register,
    .mem_deregister = shm_mem_deregister,
    .idle = shm_idle,
};

const kith_backend *ki_shm_backend(void)
{
    return &backend;
}
