/* tests/simgpu/nccl/split.c - ncclCommSplit(): communicators out of a communicator.
 *
 * Every rank of the parent writes its color and key to its seat; when all have, each knows its group and joins the
 * board of it. The call is part of the parent's order: a parent with operations under way, or one that is used before
 * the split is over, is an error.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static atomic_int split_count;

/* For tests: how many splits this process has finished. */
SIM_API int sim_nccl_splits(void);

SIM_API int sim_nccl_splits(void)
{
    return atomic_load(&split_count);
}

static bool all_have_come(const ncclComm_t comm)
{
    for (int r = 0; r < comm->size; r++)
        if (atomic_load(&comm->board->seats[r].splits) < comm->splits)
            return false;
    return true;
}

static uint64_t hash_text(const char *text, uint64_t hash)
{
    for (; *text != '\0'; text++)
        hash = (hash ^ (unsigned char)*text) * 0x100000001b3u;
    return hash;
}

/* The board of this color of this split, which its ranks name alike. */
static void name_board(const ncclComm_t comm, char *path, size_t nbytes)
{
    char facts[128];
    snprintf(facts, sizeof facts, "%s/%d/%d", comm->path, comm->splits, comm->split.color);
    snprintf(path, nbytes, "/dev/shm/simnccl-%016llx%016llx", (unsigned long long)hash_text(facts, 0xcbf29ce484222325u),
             (unsigned long long)hash_text(facts, 0x9e3779b97f4a7c15u));
}

static ncclComm_t join(const ncclComm_t comm)
{
    int size = 0, rank = 0, nobody = 0;
    char path[64];
    for (int r = 0; r < comm->size; r++) {
        const sim_seat *seat = &comm->board->seats[r];
        int at = comm->splits % 2, key = seat->keys[at];
        if (seat->colors[at] != comm->split.color)
            continue;
        size++;
        rank += key < comm->split.key || (key == comm->split.key && r < comm->rank);
    }
    name_board(comm, path, sizeof path);
    sim_board *board = sim_board_open(path);
    if (board == NULL)
        return NULL;
    ncclComm_t child = sim_comm_new(board, path, rank, size, comm->split.is_blocking);
    child->device = comm->device;
    if (!atomic_compare_exchange_strong(&board->seats[rank].joined, &nobody, sim_seat_mark(child)))
        sim_fail("ncclCommSplit: rank %d is there twice", rank);
    return child;
}

void sim_split_step(ncclComm_t comm)
{
    if (!comm->is_splitting || comm->questions-- > 0 || !all_have_come(comm))
        return;
    if (comm->split.color != NCCL_SPLIT_NOCOLOR && comm->split.child == NULL)
        comm->split.child = join(comm);
    ncclComm_t child = comm->split.child;
    if (child != NULL)
        sim_comm_try_make(child);
    if (child != NULL && !child->is_made)
        return;
    if (child != NULL)
        sim_handle_add(SIM_KIND, child);
    *comm->split.out = child;
    comm->split.child = NULL;
    comm->is_splitting = false;
    atomic_fetch_add(&split_count, 1);
}

void sim_split_drop(ncclComm_t comm)
{
    if (comm->split.child == NULL)
        return;
    unlink(comm->split.child->path);
    sim_comm_release(comm->split.child);
    comm->split.child = NULL;
}

static ncclResult_t split_inside(ncclComm_t comm)
{
    atomic_fetch_add(&comm->inside, 1);
    for (comm->questions = 0; comm->is_splitting && !atomic_load(&comm->is_aborted); usleep(100))
        sim_split_step(comm);
    bool is_ended = comm->is_splitting;
    sim_split_drop(comm);
    atomic_fetch_sub(&comm->inside, 1);
    return is_ended ? ncclInternalError : ncclSuccess;
}

SIM_API ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t *out, ncclConfig_t *config)
{
    char fault[32];
    if (!sim_comm_is_usable(comm, "ncclCommSplit"))
        return ncclInvalidUsage;
    if (color < 0 && color != NCCL_SPLIT_NOCOLOR)
        return sim_comm_error(comm, ncclInvalidArgument, "ncclCommSplit: color %d", color);
    if (atomic_load(&comm->done) < comm->launched)
        sim_fail("ncclCommSplit on rank %d: %lu operations of the parent are not done", comm->rank,
                 comm->launched - atomic_load(&comm->done));
    snprintf(fault, sizeof fault, "nccl_split:%d", comm->rank);
    if (sim_fault(fault))
        return sim_comm_error(comm, ncclSystemError, "injected: rank %d cannot split", comm->rank);
    sim_seat *seat = &comm->board->seats[comm->rank];
    bool is_blocking = config != NULL ? config->blocking != 0 : comm->is_blocking;
    comm->split.out = out;
    comm->split.color = color;
    comm->split.key = key;
    comm->split.is_blocking = is_blocking;
    comm->is_splitting = true;
    comm->questions = sim_questions();
    *out = NULL;
    comm->splits++;
    seat->colors[comm->splits % 2] = color;
    seat->keys[comm->splits % 2] = key;
    atomic_store(&seat->splits, comm->splits);
    sim_comm_note_config(config, comm->size);
    return comm->is_blocking ? split_inside(comm) : ncclInProgress;
}
