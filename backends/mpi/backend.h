/* backends/mpi/backend.h - the mpi backend: groups on an MPI that the trainer runs already, or that mpirun started.
 *
 * The same sources are built once against each MPI that is installed (variant "openmpi", "mpich"); handles and
 * constants differ between them. A process can run one only: available() refuses the others and says why (process.c).
 *
 * A group is a communicator of its own, made from MPI_COMM_WORLD by its members alone. On it run
 *   native collectives: blocking (coll_run) straight on the caller's buffers, or non-blocking (coll_start) on
 *       duplicates;
 *   messages: backends/message over packets and data transfers (wire.c, transfer.c).
 *
 * What MPI allows, and what follows for cancelling: MPI cannot take back a send, nor a collective, nor a receive that
 * has matched; a buffer given to MPI is MPI's until the other side moves. We promise that buffers are not touched
 * after a cancel. So MPI never gets a caller's buffer from anything that can be cancelled: packets and the chunks of
 * large messages go through our bounce buffers, non-blocking collectives through duplicates of their send and receive
 * buffers. A cancel lets go of the caller's buffer at once; bounce buffers and duplicates stay with MPI until it is
 * done with them (or, if the peer never comes, until the process ends: that memory is lost, and said so in the log).
 * Only coll_run works on the caller's memory.
 *
 * MPI does not match MPI_Allreduce on one rank with MPI_Iallreduce on another, while here a rank may block where
 * another starts and waits. So every native collective is MPI's non-blocking one, unless mpi_native=blocking (the
 * same on all ranks) says that the program calls the same form of an operation everywhere and has nothing else
 * pending meanwhile: then blocking calls are MPI's blocking collectives, at the price of the raw call, and large
 * messages move straight between the caller's buffers. A cancel waits for those; if the peer never moves again MPI
 * keeps the buffer.
 *
 * With a deadline (timeout_ms is not 0) or mpi_native=off no collective is native: the core then runs its own
 * algorithms over messages, which can be ended at any moment and know who is missing.
 *
 * Device memory (mpi_device_memory) is given to MPI as it is where MPI says that it takes CUDA's. Messages on it lie
 * in MPI's hands from the peer's CTS to the end, since there are no bounce buffers on a device; so do native
 * collectives, without duplicates. A cancel waits for both as with mpi_native=blocking. Open MPI takes device pointers
 * in messages and in blocking collectives, so there no collective on device memory is native: the core's algorithms
 * run over messages, and the device computes. MPICH takes them in all.
 *
 * Not native in any case: what MPI has no type or operator for (f16, bf16, fp8, avg, premul_sum, user-defined), and min
 * and max of floats, which in MPI need not propagate NaN. Sums and products of signed integers use the unsigned type:
 * they wrap without undefined behaviour; sums of 8 and 16 bits saturate in Open MPI and are not native there. gather_v,
 * scatter_v and all_to_all_v need MPI 4: counts beyond 2^31 are known to the ranks concerned only, so all must always
 * use the large-count calls.
 *
 * Life: MPI_Init_thread is called when launch() or open() finds MPI not initialised; then it is finalised when the
 * process exits with status 0 and no instance is open. An MPI that the trainer initialised is never finalised here.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_MPI_BACKEND_H
#define KI_MPI_BACKEND_H

#include "../message/message.h"
#include <mpi.h>

#ifndef KITH_MODULE_VARIANT
#define KITH_MODULE_VARIANT "mpi"
#endif

#define MPI_RING 4   /* packet receives posted per group */
#define MPI_WINDOW 4 /* chunks under way per large message */

typedef struct mpi_be mpi_be;
typedef struct mpi_group mpi_group;

/* A packet that MPI has not finished sending. */
typedef struct mpi_packet {
    struct mpi_packet *next;
    MPI_Request request;
    ki_msg_header header; /* with payload: one message */
    unsigned char payload[];
} mpi_packet;

typedef struct mpi_transfer mpi_transfer;

/* Scratch memory of a group that is reused: grows, never shrinks. */
typedef struct mpi_scratch {
    void *ptr;
    size_t nbytes;
} mpi_scratch;

/* Counts and displacements as MPI wants them. MPI reads them until the call is complete. */
typedef struct mpi_arrays {
    int *ints; /* [2 * size] */
#if MPI_VERSION >= 4
    MPI_Count *counts; /* [2 * size] */
    MPI_Aint *displs;  /* [2 * size] */
#endif
} mpi_arrays;

struct mpi_be {
    const kith_be_host *host;
    ki_msg_engine engine;
    mpi_group *groups;
    size_t eager_nbytes, chunk_nbytes, slice_nbytes;
    bool is_native;
    bool takes_device; /* device memory is given to MPI */
    bool is_blocking;  /* blocking calls become MPI's blocking collectives */
    bool has_called;   /* MPI goes on whenever it is called: it was, since the last mpi_progress() */
    int idle_turns;    /* of mpi_progress() since then */
    int tag_limit;
    mpi_packet *free_packets;
    mpi_packet *sending, **sending_end; /* oldest first */
};

struct mpi_group {
    mpi_group *next;
    mpi_be *be;
    ki_msg_group *messages;
    MPI_Comm comm;
    int rank, size;
    /* packets: receives posted in order, finished in order */
    MPI_Request ring[MPI_RING];
    unsigned char *ring_buffers;
    int ring_head;
    bool is_ring_up;
    bool is_comm_lost; /* MPI still works on it: it is not freed */
    /* data */
    mpi_transfer *transfers;
    int *free_tags; /* stack */
    int free_tag_count, free_tag_capacity, last_tag;
    /* collectives */
    mpi_arrays arrays;         /* of blocking calls */
    mpi_scratch arrays_memory; /* under them */
    mpi_scratch scratch;
    struct mpi_coll_op *spare; /* a finished non-blocking operation with its duplicates */
};

/* process.c */
kith_status mpi_available(char *reason, size_t reason_nbytes);
kith_status mpi_launch(int may_init, int *rank, int *size);
kith_status mpi_launch_broadcast(void *buffer, size_t nbytes);
/* Initialises MPI if need be; counts instances. */
kith_status mpi_process_enter(const kith_be_host *host);
void mpi_process_leave(void);
/* False before MPI_Init and after MPI_Finalize: no MPI function may be called then. */
bool mpi_is_running(void);
/* What the library says of itself: does it take pointers of CUDA? */
bool mpi_is_cuda_aware(void);
/* MPI_COMM_WORLD reports errors instead of ending the job, between begin and end. */
void mpi_world_errors_begin(MPI_Errhandler *kept);
void mpi_world_errors_end(MPI_Errhandler *kept);

/* group.c */
kith_status mpi_group_create(void *be, const kith_be_group_info *info, void **group);
void mpi_group_destroy(void *group);
void mpi_group_abort(void *group);

/* types.c */
/* The type for a reduction by op; MPI_DATATYPE_NULL when MPI cannot do it as documented. */
MPI_Datatype mpi_type_reduce(kith_dtype dtype, int op);
MPI_Datatype mpi_type_move(size_t nbytes); /* of elements that are only moved */
MPI_Op mpi_op(int op);
kith_status mpi_query(void *group, const kith_be_query *query, kith_be_answer *answer);
/* The kith status and host->fail() text of an MPI error; KITH_OK for MPI_SUCCESS. */
kith_status mpi_status(const kith_be_host *host, int code, const char *what);

/* coll.c */
/* Requests of the non-blocking calls that one operation is made of. */
typedef struct mpi_sink {
    MPI_Request *requests;
    int count;
    mpi_arrays arrays;
} mpi_sink;
/* Starts (sink) or runs (NULL) coll on the buffers it names. Returns an MPI error code. */
int mpi_coll_issue(mpi_group *group, const kith_be_coll *coll, mpi_sink *sink);
/* The most requests that mpi_coll_issue() appends. */
size_t mpi_coll_pieces(const mpi_group *group, const kith_be_coll *coll);
void *mpi_scratch_get(mpi_group *group, mpi_scratch *scratch, size_t nbytes);
bool mpi_arrays_get(mpi_group *group, mpi_scratch *memory, mpi_arrays *arrays);
kith_status mpi_coll_run(void *group, const kith_be_coll *coll);

/* coll_start.c */
kith_status mpi_coll_start(void *group, const kith_be_coll *coll, kith_be_slot *slot);
kith_status mpi_coll_test(void *group, kith_be_slot *slot, int *is_done);
void mpi_coll_cancel(void *group, kith_be_slot *slot);
void mpi_coll_spare_free(mpi_group *group);

/* wire.c */
extern const ki_wire mpi_wire;
kith_status mpi_ring_start(mpi_group *group);
void mpi_ring_stop(mpi_group *group);
void mpi_progress(void *be);
int mpi_is_drained(void *be);
void mpi_packets_free(mpi_be *be);

/* transfer.c */
kith_status mpi_transfer_recv(ki_msg_op *op, uint64_t *token);
kith_status mpi_transfer_send(ki_msg_op *op, uint64_t token);
void mpi_transfer_detach(ki_msg_op *op);
void mpi_transfer_taken_back(ki_msg_group *group, int peer, uint64_t sequence);
void mpi_transfers_progress(mpi_group *group);
void mpi_transfers_stop(mpi_group *group);

#endif
