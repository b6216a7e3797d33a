/* tests/simgpu/nccl/sim.h - the simulated NCCL: communicators between processes and threads of one machine.
 *
 * A communicator is a board (board.h) that its ranks map, and in each rank an ncclComm. The calls that a program makes
 * become tasks; what stands between ncclGroupStart() and ncclGroupEnd() for one communicator becomes one launch, which
 * is one operation of the stream, as NCCL makes one kernel of it. The stream's thread runs it: collectives in order,
 * then all sends and receives side by side.
 *
 * What it is strict about, each a sentence and the end of the test (sim_fail):
 *   - ranks that call different collectives, or with other counts, types, operators, roots;
 *   - a receive of another length than the send;
 *   - a stream of another device; memory that is not the device's (sim_access); overlap that is not NCCL's "in place";
 *   - a communicator that is split while its operations are under way;
 *   - a communicator that is used while ncclCommGetAsyncError() would say ncclInProgress, or after its end;
 *   - a communicator that is aborted while a blocking call of another thread is inside (ncclCommRevoke() ends such a
 *     call), or finalized after it was revoked;
 *   - operators that were destroyed; communicators that are left at exit.
 *
 * What real NCCL may do and this one always does, so that no test passes by luck:
 *   - a send ends when its receiver has taken all of it;
 *   - ncclCommAbort() ends this rank alone, and returns when the device is idle - kernels of other communicators
 *     included. Aborts in one group of calls, from 2.22 on, tell all kernels to leave before any of them waits;
 *   - non-blocking calls stay "in progress" for some questions; blocking ones do not return before;
 *   - each new sort of collective (what, type, operator, count) connects, for which all ranks must have come to it;
 *   - ncclCommFinalize() waits for all ranks.
 *
 * Reductions go round the ring that starts behind the block's owner, in f32 (f64; 64-bit integers that wrap), and are
 * rounded once: another order than Kith's, so equal bits are not luck either.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef SIM_NCCL_H
#define SIM_NCCL_H

#include "../simgpu.h"
#include "board.h"

#include <nccl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#define SIM_REDOPS 32
#define SIM_SHAPES 1024
#define SIM_KIND "an NCCL communicator"

typedef enum sim_kind {
    SIM_ALL_REDUCE = 1,
    SIM_REDUCE,
    SIM_BROADCAST,
    SIM_ALL_GATHER,
    SIM_REDUCE_SCATTER,
    SIM_ALL_TO_ALL,
    SIM_GATHER,
    SIM_SCATTER,
    SIM_SEND,
    SIM_RECV
} sim_kind;

/* What is done to contributions. */
typedef struct sim_op {
    ncclRedOp_t base; /* a built-in number; ncclNumOps: multiply by the scalar, then sum */
    double scalar;
    int64_t int_scalar;
} sim_op;

typedef struct sim_task {
    struct sim_task *next;
    sim_kind kind;
    const void *send;
    void *recv;
    size_t count;
    ncclDataType_t type;
    sim_op op;
    int root; /* or the peer */
    cudaStream_t stream;
} sim_task;

/* What one rank's stream has to do for one call or group. */
typedef struct sim_launch {
    struct sim_launch *next; /* while it waits for its questions */
    ncclComm_t comm;
    cudaStream_t stream;
    sim_task *tasks;
    unsigned long number; /* launches of a communicator run in this order */
    int connections;      /* that all who take part must have come to */
    bool is_stuck;        /* an injected error: never ends by itself */
} sim_launch;

typedef struct sim_redop {
    bool is_used;
    ncclDataType_t type;
    sim_op op;
} sim_redop;

struct ncclComm {
    int rank, size, device;
    bool is_blocking, is_made, is_finalizing;
    sim_board *board;
    char path[64];
    atomic_int references; /* the handle, and launches that have not run */
    atomic_bool is_aborted, is_revoked;
    atomic_int inside;           /* threads that a blocking call holds */
    atomic_int error;            /* ncclResult_t of ncclCommGetAsyncError() */
    int questions;               /* that are still answered with "in progress" */
    uint64_t shapes[SIM_SHAPES]; /* of collectives whose connections stand */
    int shape_count;
    sim_launch *waiting; /* not in the stream yet */
    bool is_splitting;
    int splits; /* so far */
    struct {
        ncclComm_t *out, child; /* until it is made */
        int color, key;
        bool is_blocking;
    } split;
    unsigned long launched;
    atomic_ulong done;
    uint64_t collectives, pieces; /* so far; only the running launch touches them */
    sim_redop redops[SIM_REDOPS];
    char text[200];
};

/* comm.c */
ncclResult_t sim_comm_error(ncclComm_t comm, ncclResult_t result, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
bool sim_comm_is_usable(ncclComm_t comm, const char *function);
void sim_comm_release(ncclComm_t comm);
/* The GPU of a rank as all ranks call it, above 0. */
int sim_seat_mark(ncclComm_t comm);
/* The end of an abort. */
void sim_comm_free(ncclComm_t comm);
/* A new number of questions, different from call to call. */
int sim_questions(void);
ncclComm_t sim_comm_new(sim_board *board, const char *path, int rank, int size, bool is_blocking);

void sim_comm_try_make(ncclComm_t comm);
void sim_comm_note_config(const ncclConfig_t *config, int size);

/* split.c */
/* What is under way of a split goes on; is thrown away. */
void sim_split_step(ncclComm_t comm);
void sim_split_drop(ncclComm_t comm);

/* What a version of the library says it is; the second library stands for an old one. */
#ifndef SIM_NCCL_VERSION
#define SIM_NCCL_VERSION NCCL_VERSION_CODE
#endif

/* launch.c */
ncclResult_t sim_comm_launch(ncclComm_t comm, sim_task *tasks);
/* Puts what waits into the stream, when it may go. */
void sim_comm_submit_waiting(ncclComm_t comm);
void sim_tasks_free(sim_task *tasks);
/* A communicator that is aborted inside a group of calls is freed at its end. */
bool sim_group_keeps(ncclComm_t aborted);
/* What is not in a stream yet will never be. */
void sim_comm_drop_waiting(ncclComm_t comm);

/* run.c */
void sim_launch_run(void *arg);
/* Until is_done(arg), or the communicator's end: then false. */
bool sim_comm_wait(ncclComm_t comm, bool (*is_done)(void *arg), void *arg);

/* numbers.c */
size_t sim_type_nbytes(ncclDataType_t type); /* 0: no type */
const char *sim_type_name(ncclDataType_t type);
const char *sim_op_name(const sim_op *op);
const char *sim_kind_name(sim_kind kind);
bool sim_type_is_float(ncclDataType_t type);
double sim_number(ncclDataType_t type, const void *at);
int64_t sim_integer(ncclDataType_t type, const void *at);
/* out[i] = the reduction over ranks of from[r][i], beginning behind rank `last` and ending with it. */
void sim_reduce(const sim_op *op, ncclDataType_t type, const void *const *from, int size, int last, void *out,
                size_t count);

#endif
