/* tests/simgpu/nccl/comm.c - communicators: making, asking, ending.
 *
 * Nothing works in the background: what NCCL's threads would do for a non-blocking communicator is done when the
 * program asks ncclCommGetAsyncError(), after it was told "in progress" a few times.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#define _GNU_SOURCE
#include "sim.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

static _Thread_local char last_error[200];

ncclResult_t sim_comm_error(ncclComm_t comm, ncclResult_t result, const char *format, ...)
{
    char *text = comm != NULL ? comm->text : last_error;
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof last_error, format, list);
    va_end(list);
    if (comm != NULL)
        snprintf(last_error, sizeof last_error, "%s", text);
    return result;
}

bool sim_comm_is_usable(ncclComm_t comm, const char *function)
{
    if (!sim_handle_is_live(SIM_KIND, comm)) {
        sim_fail("%s: this is no communicator, or one that was destroyed", function);
        return false;
    }
    if (!comm->is_made || comm->waiting != NULL || comm->is_splitting || comm->is_finalizing) {
        sim_fail("%s on rank %d: the communicator is used while %s is in progress (ncclCommGetAsyncError tells)",
                 function, comm->rank,
                 !comm->is_made        ? "its making"
                 : comm->is_finalizing ? "its end"
                                       : "the call before");
        return false;
    }
    return true;
}

int sim_questions(void)
{
    static atomic_uint state = 12345;
    unsigned next = atomic_fetch_add(&state, 0x9e3779b9u);
    return (int)((next * 2654435761u) >> 30) + 1;
}

void sim_comm_release(ncclComm_t comm)
{
    if (atomic_fetch_sub(&comm->references, 1) > 1)
        return;
    sim_board_close(comm->board);
    free(comm);
}

ncclComm_t sim_comm_new(sim_board *board, const char *path, int rank, int size, bool is_blocking)
{
    ncclComm_t comm = (ncclComm_t)calloc(1, sizeof *comm);
    if (comm == NULL)
        abort();
    comm->rank = rank;
    comm->size = size;
    comm->device = sim_current_device();
    comm->board = board;
    comm->is_blocking = is_blocking;
    snprintf(comm->path, sizeof comm->path, "%s", path);
    atomic_store(&comm->references, 1);
    return comm;
}

/* ---- making ---- */

static atomic_int most_ctas[SIM_RANKS + 1];

/* For tests: maxCTAs of the newest communicator of so many ranks; 0: NCCL's choice. */
SIM_API int sim_nccl_most_ctas(int size);

SIM_API int sim_nccl_most_ctas(int size)
{
    return atomic_load(&most_ctas[size]);
}

void sim_comm_note_config(const ncclConfig_t *config, int size)
{
    bool is_given = config != NULL && config->maxCTAs != NCCL_CONFIG_UNDEF_INT;
    if (is_given && config->minCTAs != NCCL_CONFIG_UNDEF_INT && config->minCTAs > config->maxCTAs)
        sim_fail("ncclConfig_t: minCTAs is %d, maxCTAs is %d", config->minCTAs, config->maxCTAs);
    atomic_store(&most_ctas[size], is_given ? config->maxCTAs : 0);
}

SIM_API ncclResult_t ncclGetVersion(int *version)
{
    const char *text = getenv("KITH_SIMGPU_NCCL_VERSION");
    *version = text != NULL ? atoi(text) : SIM_NCCL_VERSION;
    return ncclSuccess;
}

SIM_API ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
    unsigned char bytes[16];
    memset(id, 0, sizeof *id);
    if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes)
        return sim_comm_error(NULL, ncclSystemError, "no random bytes");
    for (size_t i = 0; i < sizeof bytes; i++)
        snprintf(id->internal + 2 * i, 3, "%02x", bytes[i]);
    return ncclSuccess;
}

static bool all_joined(ncclComm_t comm)
{
    for (int r = 0; r < comm->size; r++)
        if (atomic_load(&comm->board->seats[r].joined) == 0)
            return false;
    return true;
}

/* CUDA_VISIBLE_DEVICES numbers devices anew in each process; what a GPU is called in the machine stays. */
int sim_seat_mark(ncclComm_t comm)
{
    unsigned char uuid[16];
    sim_device_uuid(comm->device, uuid);
    return uuid[15] + 1;
}

/* Real NCCL refuses two ranks on one GPU. */
static ncclResult_t check_devices(ncclComm_t comm)
{
    const sim_seat *seats = comm->board->seats;
    const char *text = getenv("NCCL_MULTI_RANK_GPU_ENABLE");
    for (int r = 0; r < comm->size && (text == NULL || strcmp(text, "1") != 0); r++)
        for (int s = 0; s < r; s++)
            if (atomic_load(&seats[r].joined) == atomic_load(&seats[s].joined))
                return sim_comm_error(comm, ncclInvalidUsage,
                                      "Duplicate GPU detected : rank %d and rank %d both on CUDA device %d", s, r,
                                      atomic_load(&seats[r].joined) - 1);
    return ncclSuccess;
}

void sim_comm_try_make(ncclComm_t comm)
{
    if (comm->questions-- > 0 || !all_joined(comm))
        return;
    unlink(comm->path);
    comm->is_made = true;
    atomic_store(&comm->error, (int)check_devices(comm));
}

static ncclResult_t wrong(const char *why)
{
    return sim_comm_error(NULL, ncclInvalidArgument, "ncclCommInitRankConfig: %s", why);
}

/* The boards that threads wait for when the process ends. */
static struct {
    pthread_mutex_t lock;
    char paths[64][64];
} unmade = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void note_unmade(const char *path, const char *instead)
{
    pthread_mutex_lock(&unmade.lock);
    for (int i = 0; i < 64; i++) {
        if (strcmp(unmade.paths[i], path) != 0)
            continue;
        snprintf(unmade.paths[i], sizeof unmade.paths[i], "%s", instead);
        break;
    }
    pthread_mutex_unlock(&unmade.lock);
}

__attribute__((destructor)) static void forget_unmade(void)
{
    pthread_mutex_lock(&unmade.lock);
    for (int i = 0; i < 64; i++)
        if (unmade.paths[i][0] != '\0')
            unlink(unmade.paths[i]);
    pthread_mutex_unlock(&unmade.lock);
}

/* A blocking call returns when all ranks have come. */
static ncclResult_t make_inside(ncclComm_t comm, ncclComm_t *out)
{
    note_unmade("", comm->path);
    for (comm->questions = 0; !comm->is_made; usleep(100))
        sim_comm_try_make(comm);
    note_unmade(comm->path, "");
    ncclResult_t result = (ncclResult_t)atomic_load(&comm->error);
    if (result == ncclSuccess) {
        sim_handle_add(SIM_KIND, comm);
        *out = comm;
    } else {
        sim_comm_release(comm);
    }
    return result;
}

SIM_API ncclResult_t ncclCommInitRankConfig(ncclComm_t *out, int size, ncclUniqueId id, int rank, ncclConfig_t *config)
{
    char path[64], fault[32];
    bool is_blocking = config == NULL || config->blocking != 0;
    if (size < 1 || size > SIM_RANKS || rank < 0 || rank >= size)
        return wrong("a rank, or a number of ranks, out of range");
    if (config != NULL && (config->magic != 0xcafebeefu || config->size < offsetof(ncclConfig_t, splitShare) ||
                           config->size > sizeof *config))
        return wrong("the config was not initialised");
    snprintf(fault, sizeof fault, "nccl_init:%d", rank);
    if (sim_fault(fault))
        return sim_comm_error(NULL, ncclSystemError, "injected: rank %d cannot join", rank);
    id.internal[33] = '\0';
    snprintf(path, sizeof path, "/dev/shm/simnccl-%.32s", id.internal);
    sim_board *board = sim_board_open(path);
    if (board == NULL)
        return sim_comm_error(NULL, ncclSystemError, "%s cannot be made", path);
    int nobody = 0, nothing = 0;
    if (!atomic_compare_exchange_strong(&board->size, &nothing, size) && nothing != size)
        sim_fail("ncclCommInitRankConfig: rank %d says %d ranks, another one %d", rank, size, nothing);
    ncclComm_t comm = sim_comm_new(board, path, rank, size, is_blocking);
    if (!atomic_compare_exchange_strong(&board->seats[rank].joined, &nobody, sim_seat_mark(comm)))
        sim_fail("ncclCommInitRankConfig: rank %d is there twice", rank);
    sim_comm_note_config(config, size);
    comm->questions = sim_questions();
    if (!is_blocking) {
        sim_handle_add(SIM_KIND, comm);
        *out = comm;
        return ncclInProgress;
    }
    return make_inside(comm, out);
}

SIM_API ncclResult_t ncclCommInitRank(ncclComm_t *comm, int size, ncclUniqueId id, int rank)
{
    return ncclCommInitRankConfig(comm, size, id, rank, NULL);
}

/* ---- asking ---- */

static bool is_final(ncclComm_t comm)
{
    if (comm->questions-- > 0 || atomic_load(&comm->done) < comm->launched)
        return false;
    for (int r = 0; r < comm->size; r++)
        if (atomic_load(&comm->board->seats[r].gone) == 0)
            return false;
    return true;
}

SIM_API ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *error)
{
    if (!sim_handle_is_live(SIM_KIND, comm)) {
        sim_fail("ncclCommGetAsyncError: this is no communicator, or one that was destroyed");
        return ncclInvalidArgument;
    }
    if (!comm->is_made)
        sim_comm_try_make(comm);
    sim_split_step(comm);
    if (comm->is_made && comm->waiting != NULL && comm->questions-- <= 0)
        sim_comm_submit_waiting(comm);
    *error = (ncclResult_t)atomic_load(&comm->error);
    if (*error == ncclSuccess &&
        (!comm->is_made || comm->waiting != NULL || comm->is_splitting || (comm->is_finalizing && !is_final(comm))))
        *error = ncclInProgress;
    return ncclSuccess;
}

SIM_API const char *ncclGetLastError(ncclComm_t comm)
{
    return sim_handle_is_live(SIM_KIND, comm) ? comm->text : last_error;
}

SIM_API const char *ncclGetErrorString(ncclResult_t result)
{
    static const char *const texts[] = { "no error",
                                         "unhandled cuda error",
                                         "unhandled system error",
                                         "internal error",
                                         "invalid argument",
                                         "invalid usage",
                                         "remote process exited or there was a network error",
                                         "NCCL operation in progress" };
    return (int)result >= 0 && result < ncclNumResults ? texts[result] : "unknown result code";
}

SIM_API ncclResult_t ncclCommCount(const ncclComm_t comm, int *count)
{
    *count = comm->size;
    return ncclSuccess;
}

SIM_API ncclResult_t ncclCommUserRank(const ncclComm_t comm, int *rank)
{
    *rank = comm->rank;
    return ncclSuccess;
}

SIM_API ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int *device)
{
    *device = comm->device;
    return ncclSuccess;
}

/* ---- ending ---- */

SIM_API ncclResult_t ncclCommFinalize(ncclComm_t comm)
{
    if (!sim_comm_is_usable(comm, "ncclCommFinalize"))
        return ncclInvalidUsage;
    if (atomic_load(&comm->is_revoked))
        sim_fail("ncclCommFinalize on rank %d: the communicator was revoked", comm->rank);
    comm->is_finalizing = true;
    comm->questions = sim_questions();
    atomic_store(&comm->board->seats[comm->rank].gone, 1);
    atomic_fetch_add(&comm->inside, 1);
    while (comm->is_blocking && !is_final(comm))
        usleep(100);
    atomic_fetch_sub(&comm->inside, 1);
    return comm->is_blocking ? ncclSuccess : ncclInProgress;
}

static void end(ncclComm_t comm)
{
    if (!comm->is_made)
        unlink(comm->path);
    sim_comm_drop_waiting(comm);
    sim_split_drop(comm);
    atomic_store(&comm->is_aborted, true);
    atomic_store(&comm->board->seats[comm->rank].gone, 1);
    sim_board_ring(comm->board, comm->rank);
    sim_handle_remove(SIM_KIND, comm);
    sim_comm_release(comm);
}

SIM_API ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
    if (comm == NULL)
        return ncclSuccess;
    if (!sim_handle_is_live(SIM_KIND, comm)) {
        sim_fail("ncclCommDestroy: this is no communicator, or one that was destroyed");
        return ncclInvalidArgument;
    }
    if (atomic_load(&comm->done) < comm->launched || comm->waiting != NULL)
        sim_fail("ncclCommDestroy on rank %d: %lu operations are not done", comm->rank,
                 comm->launched - atomic_load(&comm->done));
    end(comm);
    return ncclSuccess;
}

/* Memory is freed, which waits for all that the device runs: this communicator's kernels, which were told to leave, and
 * those of others, which were not. */
void sim_comm_free(ncclComm_t comm)
{
    int before = sim_current_device();
    cudaSetDevice(comm->device);
    cudaDeviceSynchronize();
    cudaSetDevice(before);
    sim_comm_release(comm);
}

SIM_API ncclResult_t ncclCommAbort(ncclComm_t comm)
{
    if (comm == NULL)
        return ncclSuccess;
    if (!sim_handle_is_live(SIM_KIND, comm)) {
        sim_fail("ncclCommAbort: this is no communicator, or one that was destroyed");
        return ncclInvalidArgument;
    }
    if (atomic_load(&comm->inside) > 0)
        sim_fail("ncclCommAbort on rank %d: another thread is inside a call of this communicator", comm->rank);
    atomic_fetch_add(&comm->references, 1);
    end(comm);
    if (!sim_group_keeps(comm))
        sim_comm_free(comm);
    return ncclSuccess;
}

#if SIM_NCCL_VERSION >= 22807
/* What runs, and a call that is inside, ends; nothing is freed. */
SIM_API ncclResult_t ncclCommRevoke(ncclComm_t comm, int flags)
{
    if (!sim_handle_is_live(SIM_KIND, comm)) {
        sim_fail("ncclCommRevoke: this is no communicator, or one that was destroyed");
        return ncclInvalidArgument;
    }
    if (flags != NCCL_REVOKE_DEFAULT || atomic_exchange(&comm->is_revoked, true))
        return sim_comm_error(comm, ncclInvalidArgument, "ncclCommRevoke: flags, or revoked before");
    atomic_store(&comm->is_aborted, true);
    sim_board_ring(comm->board, comm->rank);
    return comm->is_blocking ? ncclSuccess : ncclInProgress;
}
#endif

#if SIM_NCCL_VERSION >= 22200
static void check_thread(ncclComm_t comm, const char *function)
{
    if (sim_current_device() != comm->device)
        sim_fail("%s on rank %d: the thread's device is %d, the communicator's %d", function, comm->rank,
                 sim_current_device(), comm->device);
}

SIM_API ncclResult_t ncclCommRegister(const ncclComm_t comm, void *buffer, size_t nbytes, void **handle)
{
    if (!sim_comm_is_usable(comm, "ncclCommRegister"))
        return ncclInvalidUsage;
    size_t whole = 0;
    void *from = NULL;
    check_thread(comm, "ncclCommRegister");
    if (sim_memory_of(buffer, NULL, &from, &whole) != 1 ||
        (size_t)((unsigned char *)buffer - (unsigned char *)from) + nbytes > whole)
        return sim_comm_error(comm, ncclInvalidArgument, "ncclCommRegister: not one allocation of device memory");
    *handle = malloc(1);
    sim_handle_add("a registration of NCCL", *handle);
    return ncclSuccess;
}

SIM_API ncclResult_t ncclCommDeregister(const ncclComm_t comm, void *handle)
{
    if (!sim_comm_is_usable(comm, "ncclCommDeregister"))
        return ncclInvalidUsage;
    check_thread(comm, "ncclCommDeregister");
    if (sim_handle_remove("a registration of NCCL", handle) != 0)
        return ncclInvalidArgument;
    free(handle);
    return ncclSuccess;
}
#endif
