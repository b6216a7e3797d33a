/* backends/mpi/module.c - the table that the core sees, and the instance; see backend.h.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "../message/setting.h"
#include "backend.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

static const kith_be_setting settings[] = {
    { "mpi_native", "auto", "use of MPI's own: auto (collectives without a deadline), blocking (see backends/mpi), off",
      1 },
    { "mpi_eager", "4000", "bytes up to which a message is sent before a receive matches: 0 .. 1048576", 1 },
    { "mpi_chunk", "131072", "bytes of a piece of a larger message: 4096 .. 16777216", 1 },
    { "mpi_slice", "1073741824", "bytes above which a collective is made of several calls: 64 .. 1073741824", 1 },
    KI_DEVICE_MEMORY_SETTING("mpi_device_memory", "MPI"),
    { NULL, NULL, NULL, 0 },
};

static kith_status read_native(const kith_be_host *host, bool *is_native, bool *is_blocking)
{
    const char *text = host->setting(host->cookie, "mpi_native", "auto");
    const char *deadline = host->setting(host->cookie, "timeout_ms", "0");
    if (strcmp(text, "auto") != 0 && strcmp(text, "blocking") != 0 && strcmp(text, "off") != 0)
        return host->fail(KITH_ERR_INVALID_ARG, "mpi_native=%s: auto, blocking or off is needed", text);
    *is_native = strcmp(text, "off") != 0 && (deadline == NULL || strtoll(deadline, NULL, 10) == 0);
    *is_blocking = strcmp(text, "blocking") == 0;
    return KITH_OK;
}

static kith_status configure(mpi_be *be)
{
    kith_status status = read_native(be->host, &be->is_native, &be->is_blocking);
    if (status == KITH_OK)
        status = ki_read_nbytes(be->host, &settings[1], 0, 1 << 20, &be->eager_nbytes);
    if (status == KITH_OK)
        status = ki_read_nbytes(be->host, &settings[2], 4096, 16 << 20, &be->chunk_nbytes);
    if (status == KITH_OK)
        status = ki_read_nbytes(be->host, &settings[3], 64, 1 << 30, &be->slice_nbytes);
    return status;
}

static kith_status ask_for_device(mpi_be *be)
{
    ki_device_memory wanted;
    kith_status status = ki_read_device_memory(be->host, &settings[4], &wanted);
    be->takes_device = status == KITH_OK && be->host->device >= 0 &&
                       (wanted == KI_DEVICE_MEMORY_DIRECT || (wanted == KI_DEVICE_MEMORY_AUTO && mpi_is_cuda_aware()));
    return status;
}

static unsigned memory(void *group)
{
    bool takes_device = group != NULL && ((const mpi_group *)group)->be->takes_device;
    return takes_device ? KITH_BE_HOST | KITH_BE_DEVICE : KITH_BE_HOST;
}

static kith_status mpi_open(const kith_be_host *host, void **out)
{
    mpi_be *be = (mpi_be *)host->alloc(host->cookie, sizeof *be, 64);
    if (be == NULL)
        return host->fail(KITH_ERR_NO_MEMORY, "backend mpi: no memory for an instance");
    memset(be, 0, sizeof *be);
    be->host = host;
    be->sending_end = &be->sending;
    ki_msg_engine_init(&be->engine, host, &mpi_wire);
    kith_status status = configure(be);
    if (status == KITH_OK)
        status = mpi_process_enter(host);
    if (status == KITH_OK && (status = ask_for_device(be)) != KITH_OK)
        mpi_process_leave();
    if (status != KITH_OK) {
        host->free(host->cookie, be);
        return status;
    }
    int *limit = NULL, is_set = 0;
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, (void *)&limit, &is_set);
    be->tag_limit = is_set && limit != NULL && *limit > 0 ? *limit : 32767;
    *out = be;
    return KITH_OK;
}

static void mpi_close(void *instance)
{
    mpi_be *be = (mpi_be *)instance;
    if (be == NULL)
        return;
    const kith_be_host *host = be->host;
    mpi_packets_free(be);
    ki_msg_engine_fini(&be->engine);
    mpi_process_leave();
    host->free(host->cookie, be);
}

static kith_status send_start(void *group, const kith_be_msg *msg, kith_be_slot *slot)
{
    return ki_msg_send(((mpi_group *)group)->messages, msg, (ki_msg_op *)(void *)slot);
}

static kith_status recv_start(void *group, const kith_be_msg *msg, kith_be_slot *slot)
{
    return ki_msg_recv(((mpi_group *)group)->messages, msg, (ki_msg_op *)(void *)slot);
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
    .name = "mpi",
    .variant = KITH_MODULE_VARIANT,
    .settings = settings,
    .available = mpi_available,
    .launch = mpi_launch,
    .launch_broadcast = mpi_launch_broadcast,
    .open = mpi_open,
    .close = mpi_close,
    .group_create = mpi_group_create,
    .group_destroy = mpi_group_destroy,
    .group_abort = mpi_group_abort,
    .query = mpi_query,
    .coll_start = mpi_coll_start,
    .coll_test = mpi_coll_test,
    .coll_run = mpi_coll_run,
    .coll_cancel = mpi_coll_cancel,
    .send_start = send_start,
    .recv_start = recv_start,
    .msg_test = msg_test,
    .msg_cancel = msg_cancel,
    .progress = mpi_progress,
    .is_drained = mpi_is_drained,
    .memory = memory,
};

KITH_API const kith_backend *kith_backend_v1(void);

const kith_backend *kith_backend_v1(void)
{
    return &table;
}
