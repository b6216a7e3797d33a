/* core/algo/select_rules.h - the built-in table. Thresholds follow the switch points of MPICH, Open MPI and UCC, in few
 * rules.
 *
 * A rule is skipped when its algorithm is not possible or, in deterministic mode, does not follow the documented order;
 * so the rings stand where they are best and are used when determinism was switched off (or the data is integer).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_ALGO_SELECT_RULES_H
#define KI_ALGO_SELECT_RULES_H

#include "list.h"
#include "select.h"

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

/* collective, min ranks, max ranks, max bytes, hosts, algorithm; 0: no limit */
static const ki_select_rule builtin_rules[] = {
    { KITH_ALL_REDUCE, 0, 0, 8 * KIB, KI_HOSTS_ANY, &ki_all_reduce_recursive_doubling },
    { KITH_ALL_REDUCE, 0, 2, 256 * KIB, KI_HOSTS_MANY, &ki_all_reduce_all_gather_reduce }, /* one round */
    { KITH_ALL_REDUCE, 0, 0, 64 * KIB, KI_HOSTS_MANY, &ki_all_reduce_reduce_broadcast },
    { KITH_ALL_REDUCE, 0, 32, 4 * MIB, KI_HOSTS_ANY, &ki_all_reduce_linear },
    { KITH_ALL_REDUCE, 0, 0, 0, KI_HOSTS_ANY, &ki_all_reduce_segmented_ring },
    { KITH_ALL_REDUCE, 0, 0, 0, KI_HOSTS_ANY, &ki_all_reduce_rabenseifner },

    { KITH_REDUCE_SCATTER, 0, 0, 64 * KIB, KI_HOSTS_ANY, &ki_reduce_scatter_recursive_halving },
    { KITH_REDUCE_SCATTER, 0, 32, 4 * MIB, KI_HOSTS_ANY, &ki_reduce_scatter_linear },
    { KITH_REDUCE_SCATTER, 0, 0, 0, KI_HOSTS_ANY, &ki_reduce_scatter_ring },
    { KITH_REDUCE_SCATTER, 0, 0, 0, KI_HOSTS_ANY, &ki_reduce_scatter_pairwise },

    { KITH_REDUCE_SCATTER_V, 0, 0, 64 * KIB, KI_HOSTS_ANY, &ki_reduce_scatter_v_recursive_halving },
    { KITH_REDUCE_SCATTER_V, 0, 32, 4 * MIB, KI_HOSTS_ANY, &ki_reduce_scatter_v_linear },
    { KITH_REDUCE_SCATTER_V, 0, 0, 0, KI_HOSTS_ANY, &ki_reduce_scatter_v_ring },
    { KITH_REDUCE_SCATTER_V, 0, 0, 0, KI_HOSTS_ANY, &ki_reduce_scatter_v_pairwise },

    { KITH_ALL_GATHER, 0, 0, 512 * KIB, KI_HOSTS_ANY, &ki_all_gather_recursive_doubling },
    { KITH_ALL_GATHER, 0, 0, 80 * KIB, KI_HOSTS_ANY, &ki_all_gather_bruck },
    { KITH_ALL_GATHER, 0, 16, 4 * MIB, KI_HOSTS_ANY, &ki_all_gather_linear },
    { KITH_ALL_GATHER, 0, 0, 0, KI_HOSTS_ANY, &ki_all_gather_ring },

    { KITH_ALL_GATHER_V, 0, 0, 80 * KIB, KI_HOSTS_ANY, &ki_all_gather_v_bruck },
    { KITH_ALL_GATHER_V, 0, 16, 4 * MIB, KI_HOSTS_ANY, &ki_all_gather_v_linear },
    { KITH_ALL_GATHER_V, 0, 0, 0, KI_HOSTS_ANY, &ki_all_gather_v_ring },

    { KITH_BROADCAST, 0, 0, 32 * KIB, KI_HOSTS_ANY, &ki_broadcast_knomial },
    { KITH_BROADCAST, 0, 8, 0, KI_HOSTS_ANY, &ki_broadcast_chain_segmented },
    { KITH_BROADCAST, 0, 0, 0, KI_HOSTS_ANY, &ki_broadcast_scatter_all_gather },

    { KITH_REDUCE, 0, 4, 64 * KIB, KI_HOSTS_ANY, &ki_reduce_linear },
    { KITH_REDUCE, 0, 0, 64 * KIB, KI_HOSTS_ANY, &ki_reduce_binomial },
    { KITH_REDUCE, 0, 0, 0, KI_HOSTS_ANY, &ki_reduce_scatter_gather },
    { KITH_REDUCE, 0, 0, 0, KI_HOSTS_ANY, &ki_reduce_binomial },

    { KITH_GATHER, 0, 8, 0, KI_HOSTS_ANY, &ki_gather_linear },
    { KITH_GATHER, 0, 0, 64 * KIB, KI_HOSTS_ANY, &ki_gather_binomial },
    { KITH_GATHER, 0, 0, 0, KI_HOSTS_ANY, &ki_gather_linear },

    { KITH_SCATTER, 0, 8, 0, KI_HOSTS_ANY, &ki_scatter_linear },
    { KITH_SCATTER, 0, 0, 64 * KIB, KI_HOSTS_ANY, &ki_scatter_binomial },
    { KITH_SCATTER, 0, 0, 0, KI_HOSTS_ANY, &ki_scatter_linear },

    { KITH_GATHER_V, 0, 0, 0, KI_HOSTS_ANY, &ki_gather_v_linear },
    { KITH_SCATTER_V, 0, 0, 0, KI_HOSTS_ANY, &ki_scatter_v_linear },

    { KITH_ALL_TO_ALL, 0, 7, 0, KI_HOSTS_ANY, &ki_all_to_all_linear },
    { KITH_ALL_TO_ALL, 0, 32, 4 * KIB, KI_HOSTS_ANY, &ki_all_to_all_bruck },
    { KITH_ALL_TO_ALL, 0, 0, 16 * KIB, KI_HOSTS_ANY, &ki_all_to_all_bruck },
    { KITH_ALL_TO_ALL, 0, 0, 2 * MIB, KI_HOSTS_ANY, &ki_all_to_all_linear },
    { KITH_ALL_TO_ALL, 0, 0, 0, KI_HOSTS_ANY, &ki_all_to_all_pairwise },

    { KITH_ALL_TO_ALL_V, 0, 0, 0, KI_HOSTS_ANY, &ki_all_to_all_v_linear },

    { KITH_BARRIER, 0, 4, 0, KI_HOSTS_ANY, &ki_barrier_dissemination },
    { KITH_BARRIER, 0, 0, 0, KI_HOSTS_ONE, &ki_barrier_dissemination },
    { KITH_BARRIER, 0, 0, 0, KI_HOSTS_MANY, &ki_barrier_knomial },
};

#endif
