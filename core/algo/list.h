/* core/algo/list.h - every algorithm by name. The first of a collective is the one that is always possible.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_ALGO_LIST_H
#define KI_ALGO_LIST_H

#include "algo.h"

/* X(collective, symbol) */
#define KI_ALGO_TABLE(X)                                                                                               \
    X(KITH_ALL_REDUCE, ki_all_reduce_linear)                                                                           \
    X(KITH_ALL_REDUCE, ki_all_reduce_all_gather_reduce)                                                                \
    X(KITH_ALL_REDUCE, ki_all_reduce_recursive_doubling)                                                               \
    X(KITH_ALL_REDUCE, ki_all_reduce_rabenseifner)                                                                     \
    X(KITH_ALL_REDUCE, ki_all_reduce_reduce_broadcast)                                                                 \
    X(KITH_ALL_REDUCE, ki_all_reduce_ring)                                                                             \
    X(KITH_ALL_REDUCE, ki_all_reduce_segmented_ring)                                                                   \
    X(KITH_REDUCE_SCATTER, ki_reduce_scatter_linear)                                                                   \
    X(KITH_REDUCE_SCATTER, ki_reduce_scatter_pairwise)                                                                 \
    X(KITH_REDUCE_SCATTER, ki_reduce_scatter_recursive_halving)                                                        \
    X(KITH_REDUCE_SCATTER, ki_reduce_scatter_ring)                                                                     \
    X(KITH_REDUCE_SCATTER_V, ki_reduce_scatter_v_linear)                                                               \
    X(KITH_REDUCE_SCATTER_V, ki_reduce_scatter_v_pairwise)                                                             \
    X(KITH_REDUCE_SCATTER_V, ki_reduce_scatter_v_recursive_halving)                                                    \
    X(KITH_REDUCE_SCATTER_V, ki_reduce_scatter_v_ring)                                                                 \
    X(KITH_ALL_GATHER, ki_all_gather_linear)                                                                           \
    X(KITH_ALL_GATHER, ki_all_gather_ring)                                                                             \
    X(KITH_ALL_GATHER, ki_all_gather_recursive_doubling)                                                               \
    X(KITH_ALL_GATHER, ki_all_gather_neighbor_exchange)                                                                \
    X(KITH_ALL_GATHER, ki_all_gather_bruck)                                                                            \
    X(KITH_ALL_GATHER_V, ki_all_gather_v_linear)                                                                       \
    X(KITH_ALL_GATHER_V, ki_all_gather_v_ring)                                                                         \
    X(KITH_ALL_GATHER_V, ki_all_gather_v_recursive_doubling)                                                           \
    X(KITH_ALL_GATHER_V, ki_all_gather_v_neighbor_exchange)                                                            \
    X(KITH_ALL_GATHER_V, ki_all_gather_v_bruck)                                                                        \
    X(KITH_BROADCAST, ki_broadcast_linear)                                                                             \
    X(KITH_BROADCAST, ki_broadcast_binomial)                                                                           \
    X(KITH_BROADCAST, ki_broadcast_knomial)                                                                            \
    X(KITH_BROADCAST, ki_broadcast_chain_segmented)                                                                    \
    X(KITH_BROADCAST, ki_broadcast_scatter_all_gather)                                                                 \
    X(KITH_REDUCE, ki_reduce_linear)                                                                                   \
    X(KITH_REDUCE, ki_reduce_binomial)                                                                                 \
    X(KITH_REDUCE, ki_reduce_knomial)                                                                                  \
    X(KITH_REDUCE, ki_reduce_scatter_gather)                                                                           \
    X(KITH_GATHER, ki_gather_linear)                                                                                   \
    X(KITH_GATHER, ki_gather_binomial)                                                                                 \
    X(KITH_SCATTER, ki_scatter_linear)                                                                                 \
    X(KITH_SCATTER, ki_scatter_binomial)                                                                               \
    X(KITH_GATHER_V, ki_gather_v_linear)                                                                               \
    X(KITH_SCATTER_V, ki_scatter_v_linear)                                                                             \
    X(KITH_ALL_TO_ALL, ki_all_to_all_linear)                                                                           \
    X(KITH_ALL_TO_ALL, ki_all_to_all_pairwise)                                                                         \
    X(KITH_ALL_TO_ALL, ki_all_to_all_bruck)                                                                            \
    X(KITH_ALL_TO_ALL_V, ki_all_to_all_v_linear)                                                                       \
    X(KITH_ALL_TO_ALL_V, ki_all_to_all_v_pairwise)                                                                     \
    X(KITH_BARRIER, ki_barrier_dissemination)                                                                          \
    X(KITH_BARRIER, ki_barrier_linear)                                                                                 \
    X(KITH_BARRIER, ki_barrier_knomial)

#define KI_ALGO_DECLARE(kind, symbol) extern const ki_algo symbol;
KI_ALGO_TABLE(KI_ALGO_DECLARE)
#undef KI_ALGO_DECLARE

#endif
