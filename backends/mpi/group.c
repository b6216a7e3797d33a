/* backends/mpi/group.c - a group is a communicator, made by its members alone; see backend.h.
 *
 * Members tell each other their rank in MPI_COMM_WORLD first: kith's world may be numbered otherwise, or be a part of
 * MPI's. Then all call MPI_Comm_create_group, which is collective over them and has no deadline.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "backend.h"

#include <string.h>

typedef struct introduction {
    int64_t mpi_rank, mpi_size;
} introduction;

/* Two members with the same MPI rank: they are worlds of one rank each. */
static kith_status check(const kith_be_host *host, const kith_be_group_info *info, const introduction *all, int *ranks)
{
    for (int r = 0; r < info->size; r++) {
        ranks[r] = (int)all[r].mpi_rank;
        for (int before = 0; before < r; before++)
            if (ranks[before] == ranks[r])
                return host->fail(
                    KITH_ERR_UNSUPPORTED,
                    "backend mpi: ranks %d and %d of group '%s' are both rank %d of their MPI_COMM_WORLD (sizes %d "
                    "and %d); start the program with mpirun",
                    before, r, info->name, ranks[r], (int)all[before].mpi_size, (int)all[r].mpi_size);
    }
    return KITH_OK;
}

static kith_status make_comm(mpi_group *group, const kith_be_group_info *info, const int *ranks)
{
    MPI_Group all, members;
    MPI_Errhandler kept;
    int tag = (int)((info->id ^ (info->id >> 15) ^ (info->id >> 31)) & 0x7fff);
    mpi_world_errors_begin(&kept);
    int code = MPI_Comm_group(MPI_COMM_WORLD, &all);
    if (code == MPI_SUCCESS) {
        code = MPI_Group_incl(all, info->size, ranks, &members);
        MPI_Group_free(&all);
    }
    if (code == MPI_SUCCESS) {
        code = MPI_Comm_create_group(MPI_COMM_WORLD, members, tag, &group->comm);
        MPI_Group_free(&members);
    }
    if (code == MPI_SUCCESS)
        code = MPI_Comm_set_errhandler(group->comm, MPI_ERRORS_RETURN);
    mpi_world_errors_end(&kept);
    return mpi_status(group->be->host, code, "MPI_Comm_create_group");
}

static kith_status introduce(mpi_be *be, const kith_be_group_info *info, kith_status status, introduction *all,
                             int *ranks)
{
    introduction mine = { 0, 0 };
    int rank = 0, size = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    mine.mpi_rank = rank;
    mine.mpi_size = size;
    status = be->host->exchange(info->cookie, status, &mine, sizeof mine, all);
    return status == KITH_OK ? check(be->host, info, all, ranks) : status;
}

static mpi_group *group_alloc(mpi_be *be, const kith_be_group_info *info)
{
    const kith_be_host *host = be->host;
    mpi_group *group = (mpi_group *)host->alloc(host->cookie, sizeof *group, 64);
    if (group == NULL)
        return NULL;
    memset(group, 0, sizeof *group);
    group->be = be;
    group->comm = MPI_COMM_NULL;
    group->rank = info->rank;
    group->size = info->size;
    bool is_whole = mpi_arrays_get(group, &group->arrays_memory, &group->arrays);
    group->messages = is_whole ? ki_msg_group_create(&be->engine, info, group) : NULL;
    group->next = be->groups;
    be->groups = group;
    if (group->messages == NULL) {
        mpi_group_destroy(group);
        return NULL;
    }
    return group;
}

kith_status mpi_group_create(void *instance, const kith_be_group_info *info, void **out)
{
    mpi_be *be = (mpi_be *)instance;
    const kith_be_host *host = be->host;
    kith_status status = KITH_OK;
    size_t size = (size_t)info->size;
    mpi_group *group = group_alloc(be, info);
    introduction *all = (introduction *)host->alloc(host->cookie, size * sizeof *all, 16);
    int *ranks = (int *)host->alloc(host->cookie, size * sizeof *ranks, 16);
    if (group == NULL || all == NULL || ranks == NULL)
        status = host->fail(KITH_ERR_NO_MEMORY, "backend mpi: no memory for a group of %d ranks", info->size);
    status = introduce(be, info, status, all, ranks);
    if (status == KITH_OK)
        status = make_comm(group, info, ranks);
    if (status == KITH_OK)
        status = mpi_ring_start(group);
    if (ranks != NULL)
        host->free(host->cookie, ranks);
    if (all != NULL)
        host->free(host->cookie, all);
    if (status != KITH_OK) {
        mpi_group_destroy(group);
        return status;
    }
    *out = group;
    return KITH_OK;
}

void mpi_group_destroy(void *handle)
{
    mpi_group *group = (mpi_group *)handle;
    if (group == NULL)
        return;
    mpi_be *be = group->be;
    const kith_be_host *host = be->host;
    mpi_group **at = &be->groups;
    while (*at != group)
        at = &(*at)->next;
    *at = group->next;
    if (group->transfers != NULL && mpi_is_running())
        mpi_transfers_stop(group);
    mpi_ring_stop(group);
    if (group->comm != MPI_COMM_NULL && !group->is_comm_lost && mpi_is_running())
        MPI_Comm_free(&group->comm);
    mpi_coll_spare_free(group);
    ki_msg_group_destroy(group->messages);
    void *parts[] = { group->arrays_memory.ptr, group->free_tags, group->scratch.ptr, group };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (parts[i] != NULL)
            host->free(host->cookie, parts[i]);
}

void mpi_group_abort(void *handle)
{
    atomic_store(&((mpi_group *)handle)->messages->is_aborted, 1);
}
