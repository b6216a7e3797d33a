/* kith/coll.h - collectives.
 *
 *     float x[4] = { ... };
 *     kith_all_reduce(world, x, x, 4, KITH_F32, KITH_SUM);      // in place, blocking
 *
 * Each operation has three forms:
 *   kith_X(...)                      blocks until this rank's part is complete (deadline: the group's);
 *   kith_X_start(..., &request)      returns at once; see kith/request.h;
 *   kith_coll_init(group, &args, &request)   a persistent request for repeated use of the same arguments.
 *
 * Counts are elements of dtype, 64-bit; zero is legal and still matches. In place is pointer equality: send == recv,
 * for gather-like operations send == the rank's own slot of recv, for scatter-like operations recv == the own slot of
 * send. Any other overlap of send and recv is KITH_ERR_INVALID_ARG. Buffers that an operation does not use on a rank
 * may be NULL.
 *
 * Order of reduction. Let q be the largest power of two <= p and e = p - q. The 2e lowest ranks are combined in pairs
 * (0,1), (2,3), ..., the other ranks stand alone; the q values that result, in rank order, are combined by a balanced
 * binary tree over neighbours:
 *     p = 2: 0+1          p = 4: (0+1)+(2+3)          p = 3: (0+1)+2          p = 5: ((0+1)+2)+(3+4)
 * On a group that spans hosts with a hierarchical plan the rule holds among the ranks of each host, then among hosts by
 * lowest rank. The order depends on nothing else: not on the message size, alignment, position in the message, in-place
 * use or algorithm, so equal rows give equal bits. All ranks get the same bits. `kith info --algorithms` marks the
 * algorithms that follow it. The setting "deterministic" says what may be chosen: auto (default): these, or the
 * backend's own collective; on: only what follows the order; off: anything.
 *
 * Errors that one can act on: KITH_ERR_INVALID_ARG (argument named in the detail; local, nothing was sent),
 * KITH_ERR_UNSUPPORTED (backend cannot do it; the same on all ranks, before anything is sent), KITH_ERR_TIMEOUT,
 * KITH_ERR_ABORTED, KITH_ERR_PEER_FAILED, KITH_ERR_MISMATCH (check mode, or configurations that differ).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KITH_COLL_H
#define KITH_COLL_H

#include <kith/op.h>
#include <kith/request.h>

#ifdef __cplusplus
extern "C" {
#endif

/* X(symbol, number, name) */
#define KITH_COLL_TABLE(X)                                                                                             \
    X(KITH_ALL_REDUCE, 0, "all_reduce")                                                                                \
    X(KITH_REDUCE_SCATTER, 1, "reduce_scatter")                                                                        \
    X(KITH_REDUCE_SCATTER_V, 2, "reduce_scatter_v")                                                                    \
    X(KITH_ALL_GATHER, 3, "all_gather")                                                                                \
    X(KITH_ALL_GATHER_V, 4, "all_gather_v")                                                                            \
    X(KITH_BROADCAST, 5, "broadcast")                                                                                  \
    X(KITH_REDUCE, 6, "reduce")                                                                                        \
    X(KITH_GATHER, 7, "gather")                                                                                        \
    X(KITH_SCATTER, 8, "scatter")                                                                                      \
    X(KITH_GATHER_V, 9, "gather_v")                                                                                    \
    X(KITH_SCATTER_V, 10, "scatter_v")                                                                                 \
    X(KITH_ALL_TO_ALL, 11, "all_to_all")                                                                               \
    X(KITH_ALL_TO_ALL_V, 12, "all_to_all_v")                                                                           \
    X(KITH_BARRIER, 13, "barrier")

typedef enum kith_coll_kind {
#define KITH_COLL_ENUM(symbol, number, name) symbol = number,
    KITH_COLL_TABLE(KITH_COLL_ENUM)
#undef KITH_COLL_ENUM
} kith_coll_kind;

#define KITH_COLL_COUNT 14

KITH_API const char *kith_coll_name(kith_coll_kind kind);

/* recv[i] = reduction over ranks of send[i]; send, recv: [count]. */
KITH_API kith_status kith_all_reduce(kith_group *group, const void *send, void *recv, size_t count, kith_dtype dtype,
                                     kith_op op);

/* Rank r gets block r of the reduction. send: [size * recv_count], recv: [recv_count]. In place: recv == send + r *
 * recv_count elements, or recv == send (the result then stands in the first block). */
KITH_API kith_status kith_reduce_scatter(kith_group *group, const void *send, void *recv, size_t recv_count,
                                         kith_dtype dtype, kith_op op);

/* Rank r gets recv_counts[r] elements, the blocks lie one after the other in send. recv_counts: [size], equal on all
 * ranks. In place: recv == the own block of send, or recv == send. */
KITH_API kith_status kith_reduce_scatter_v(kith_group *group, const void *send, void *recv, const size_t *recv_counts,
                                           kith_dtype dtype, kith_op op);

/* Block r of recv = send of rank r. send: [send_count], recv: [size * send_count]. */
KITH_API kith_status kith_all_gather(kith_group *group, const void *send, void *recv, size_t send_count,
                                     kith_dtype dtype);

/* recv_counts[r] elements of rank r go to recv + displs[r] elements. send: [recv_counts[rank]]. displs NULL: one after
 * the other. recv_counts and displs: [size], equal on all ranks; overlapping blocks are KITH_ERR_INVALID_ARG. */
KITH_API kith_status kith_all_gather_v(kith_group *group, const void *send, void *recv, const size_t *recv_counts,
                                       const size_t *displs, kith_dtype dtype);

/* buffer: [count], input on root, output elsewhere. */
KITH_API kith_status kith_broadcast(kith_group *group, void *buffer, size_t count, kith_dtype dtype, int root);

/* recv on root = reduction of send. recv elsewhere is not used. */
KITH_API kith_status kith_reduce(kith_group *group, const void *send, void *recv, size_t count, kith_dtype dtype,
                                 kith_op op, int root);

/* Block r of recv on root = send of rank r. send: [send_count], recv on root: [size * send_count]. */
KITH_API kith_status kith_gather(kith_group *group, const void *send, void *recv, size_t send_count, kith_dtype dtype,
                                 int root);

/* recv = block r of send on root. send on root: [size * recv_count], recv: [recv_count]. */
KITH_API kith_status kith_scatter(kith_group *group, const void *send, void *recv, size_t recv_count, kith_dtype dtype,
                                  int root);

/* As gather with counts of their own: rank r gives send_count elements; on root recv_counts[r] must be the same number
 * (recv_counts, displs: [size], used on root; displs NULL: one after the other). */
KITH_API kith_status kith_gather_v(kith_group *group, const void *send, size_t send_count, void *recv,
                                   const size_t *recv_counts, const size_t *displs, kith_dtype dtype, int root);

/* As scatter with counts of their own: send_counts, displs: [size], used on root. */
KITH_API kith_status kith_scatter_v(kith_group *group, const void *send, const size_t *send_counts,
                                    const size_t *displs, void *recv, size_t recv_count, kith_dtype dtype, int root);

/* Block j of send goes to rank j and arrives as block r of its recv. send, recv: [size * count]. In place: send ==
 * recv. */
KITH_API kith_status kith_all_to_all(kith_group *group, const void *send, void *recv, size_t count, kith_dtype dtype);

/* send_counts[j] elements from send + send_displs[j] go to rank j, which takes them as its recv_counts[r] elements at
 * recv_displs[r]. All arrays: [size]; displs NULL: one after the other. A pair whose two counts differ is
 * KITH_ERR_MISMATCH in check mode, else KITH_ERR_TRUNCATED or a deadline, or unnoticed by a rank that expects nothing.
 * In place is not supported (KITH_ERR_INVALID_ARG). */
KITH_API kith_status kith_all_to_all_v(kith_group *group, const void *send, const size_t *send_counts,
                                       const size_t *send_displs, void *recv, const size_t *recv_counts,
                                       const size_t *recv_displs, kith_dtype dtype);

/* Returns when all ranks came. */
KITH_API kith_status kith_barrier(kith_group *group);

/* The same operations, returning at once. Arrays of counts and displacements are copied. */
KITH_API kith_status kith_all_reduce_start(kith_group *group, const void *send, void *recv, size_t count,
                                           kith_dtype dtype, kith_op op, kith_request **request);
KITH_API kith_status kith_reduce_scatter_start(kith_group *group, const void *send, void *recv, size_t recv_count,
                                               kith_dtype dtype, kith_op op, kith_request **request);
KITH_API kith_status kith_reduce_scatter_v_start(kith_group *group, const void *send, void *recv,
                                                 const size_t *recv_counts, kith_dtype dtype, kith_op op,
                                                 kith_request **request);
KITH_API kith_status kith_all_gather_start(kith_group *group, const void *send, void *recv, size_t send_count,
                                           kith_dtype dtype, kith_request **request);
KITH_API kith_status kith_all_gather_v_start(kith_group *group, const void *send, void *recv, const size_t *recv_counts,
                                             const size_t *displs, kith_dtype dtype, kith_request **request);
KITH_API kith_status kith_broadcast_start(kith_group *group, void *buffer, size_t count, kith_dtype dtype, int root,
                                          kith_request **request);
KITH_API kith_status kith_reduce_start(kith_group *group, const void *send, void *recv, size_t count, kith_dtype dtype,
                                       kith_op op, int root, kith_request **request);
KITH_API kith_status kith_gather_start(kith_group *group, const void *send, void *recv, size_t send_count,
                                       kith_dtype dtype, int root, kith_request **request);
KITH_API kith_status kith_scatter_start(kith_group *group, const void *send, void *recv, size_t recv_count,
                                        kith_dtype dtype, int root, kith_request **request);
KITH_API kith_status kith_gather_v_start(kith_group *group, const void *send, size_t send_count, void *recv,
                                         const size_t *recv_counts, const size_t *displs, kith_dtype dtype, int root,
                                         kith_request **request);
KITH_API kith_status kith_scatter_v_start(kith_group *group, const void *send, const size_t *send_counts,
                                          const size_t *displs, void *recv, size_t recv_count, kith_dtype dtype,
                                          int root, kith_request **request);
KITH_API kith_status kith_all_to_all_start(kith_group *group, const void *send, void *recv, size_t count,
                                           kith_dtype dtype, kith_request **request);
KITH_API kith_status kith_all_to_all_v_start(kith_group *group, const void *send, const size_t *send_counts,
                                             const size_t *send_displs, void *recv, const size_t *recv_counts,
                                             const size_t *recv_displs, kith_dtype dtype, kith_request **request);
KITH_API kith_status kith_barrier_start(kith_group *group, kith_request **request);

/* Any collective as data. Which members count is told by the function of the same name above: `count` is its count,
 * recv_count or send_count; send_counts/recv_counts/send_displs/recv_displs its arrays (all_gather_v, gather_v: recv_*;
 * scatter_v: send_*; reduce_scatter_v: recv_counts); broadcast uses recv as its buffer. */
typedef struct kith_coll_args {
    size_t struct_size;
    kith_coll_kind kind;
    const void *send;
    void *recv;
    size_t count;
    const size_t *send_counts, *send_displs;
    const size_t *recv_counts, *recv_displs;
    kith_dtype dtype;
    kith_op op;
    int root;
} kith_coll_args;

#define KITH_COLL_ARGS_INIT                                                                                            \
    { sizeof(kith_coll_args), KITH_BARRIER, NULL, NULL, 0, NULL, NULL, NULL, NULL, KITH_INT8, KITH_SUM, 0 }

/* Starts the operation that args describes. */
KITH_API kith_status kith_coll_start(kith_group *group, const kith_coll_args *args, kith_request **request);

/* Makes a persistent request; local. Start it with kith_request_start(), wait for it as usual, free it with
 * kith_request_free(). */
KITH_API kith_status kith_coll_init(kith_group *group, const kith_coll_args *args, kith_request **request);

/* Asks, without communicating, whether group can run this operation on host memory: KITH_OK, or KITH_ERR_UNSUPPORTED
 * with the reason in the detail. The answer is the same on all ranks and does not change while the group lives. */
KITH_API kith_status kith_coll_query(kith_group *group, kith_coll_kind kind, kith_dtype dtype, kith_op op);

/* Name of the algorithm that would run for this operation, and whether it follows the documented order of reduction.
 * *name is borrowed from the library. is_deterministic may be NULL. */
KITH_API kith_status kith_coll_algorithm(kith_group *group, kith_coll_kind kind, size_t count, kith_dtype dtype,
                                         kith_op op, const char **name, int *is_deterministic);

/* One f64 per rank reduced in place on all ranks (sum, min, max, avg, prod): losses, norms, counts. Blocks. */
KITH_API kith_status kith_all_reduce_scalar(kith_group *group, double *value, kith_op op);

#ifdef __cplusplus
}
#endif
#endif
