/* topology/place_search.h - what the search for a placement holds, shared by the files that look for candidates.
 *
 * A candidate is a unit (how many ranks stay inside an island), a sequence of islands, and an order of GPUs for each
 * kind of node, the same in all its nodes. Candidates are found in this order, and the best by place_judge.c stays:
 *
 *   place_try.c    by rule: partitions of place_local.c, islands in the order of the file and by switch
 *   place_class.c  kinds of node from the cheapest on, so that slow nodes are left over
 *   place_climb.c  swaps of GPUs, groups and islands, as long as a step gets cheaper
 *   place_orders.c outer axes in every order, so that the one that sends most may be nearest
 *   place_units.c  swaps of whole units between nodes
 *   place_exact.c  instead, in one node: every order that could be the cheapest
 *
 * place_canon.c gives an order of GPUs that does not know their numbers, place_memory.c keeps prices.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_TOPOLOGY_PLACE_SEARCH_H
#define KI_TOPOLOGY_PLACE_SEARCH_H

#include "place.h"

/* A placement and what it is judged by. */
typedef struct ki_candidate {
    int *gpus;           /* [world] */
    int *island_of_rank; /* [world] */
    ki_step_price price;
    ki_cut cut;
    int64_t inside, finer; /* values of links inside the innermost groups */
    bool is_climbed;       /* found by place_climb.c */
} ki_candidate;

typedef struct ki_search {
    const kith_topology *t;
    kith_placement_options options;
    ki_islands islands;
    ki_sizes sizes;
    ki_use uses[KI_AXES];
    ki_axis_flow flows[KI_AXES];
    ki_distances distances;
    ki_ring_maker maker;
    double lower_bound;
    ki_candidate identity, best, trial;
    ki_partition first; /* the innermost axis in the best candidate, if it is known */
    bool knows_first;
    ki_partition trial_first;
    bool has_first, has_candidate, has_traffic;
    bool is_hasty;       /* for comparing layouts: a short climb is enough */
    bool is_quick;       /* and few candidates */
    int64_t rule_inside; /* of the last candidate by rule, and its innermost axis */
    double rule_call_s;
    ki_local *locals; /* [kind] */
    int *position_of_rank;
    int *sequence, *file_order; /* [islands] */
    int *unit_sequence;         /* [islands]: the cheapest by rule for the unit at hand */
    double unit_cost, unit_cut_bytes;
    double last_cost, last_cut_bytes; /* of the last candidate */
    int *rank_of_island;              /* [islands]: of its class; two of them */
    int *scratch;                     /* [2 * world + nodes] */
} ki_search;

/* ---- place_judge.c ---- */

/* -1: none has more than one rank. */
int ki_innermost_axis(const ki_sizes *sizes);
kith_status ki_candidate_judge(ki_search *w, ki_candidate *c);
/* By cost, then bytes over switches, then links inside the innermost groups, then sockets. */
bool ki_candidate_is_better(const ki_candidate *a, const ki_candidate *b);
/* Costs that differ by rounding alone are equal. */
int ki_compare_costs(double a, double b);

/* ---- place_try.c ---- */

/* Ranks onto islands in sequence, into c. */
kith_status ki_search_assign(ki_search *w, ki_candidate *c, const int *sequence, int unit);
/* The trial, assigned already: it becomes the best if it is better. What it
 * costs stands in w->last_cost. */
kith_status ki_search_keep(ki_search *w);
kith_status ki_search_all(ki_search *w);
/* Orders of GPUs for these units, into w->locals; see ki_local_make(). */
kith_status ki_search_make_locals(ki_search *w, int unit, bool is_canonical);
/* The next order of count numbers; false after the last. */
bool ki_next_permutation(int *order, int count);

/* ---- place_orders.c, place_units.c ---- */

/* Each order of the outer axes fills the machine; the best stays. */
kith_status ki_search_orders(ki_search *w);
/* From the best: swaps of whole tp groups, over nodes too, and with what is left over. For small jobs only. */
kith_status ki_search_units(ki_search *w);

/* ---- place_class.c ---- */

/* Classes of islands (of one kind of node, or domains of as many GPUs), numbered from where innermost groups are
 * cheapest; what is too small for a unit comes after all of them. rank_of_island: [islands]. Overwrites w->sequence. */
kith_status ki_classes_rank(ki_search *w, int unit, int *rank_of_island, int *class_count);

/* ---- place_memory.c: prices that were asked for before ---- */

typedef struct ki_remembered ki_remembered;
typedef struct ki_price_memory {
    ki_remembered *entries;
    int ranks_left; /* falls by the ranks of each price that was not known */
} ki_price_memory;

kith_status ki_memory_init(ki_price_memory *memory, int most_ranks);
void ki_memory_fini(ki_price_memory *memory);
/* Seconds of a step that an axis takes with these groups alone on the machine; where that is not below limit_s,
 * anything from there on. groups: not in the second half of w->scratch. */
kith_status ki_memory_price(ki_search *w, ki_price_memory *memory, int axis, const int *groups, int size, int count,
                            double limit_s, double *step_s);
/* Axes that cost something, inner ones first; returns how many. */
int ki_search_axes(const ki_search *w, int *axes);

/* ---- place_exact.c ---- */

/* All ranks fit into the one node there is, and are few enough to try. */
bool ki_search_is_small(const ki_search *w);
/* Tries every order of GPUs from w->locals on that could be cheaper than best_s, and leaves the cheapest in w->locals.
 * *is_proven: there is none that is cheaper; else the budget ended before. */
kith_status ki_search_exact(ki_search *w, double best_s, bool *is_proven);

/* ---- place_climb.c ---- */

/* Changes the order of GPUs and the sequence of islands, as they stand in w, by swaps that make a step cheaper, and
 * keeps what comes of it if that is better than the best. */
kith_status ki_search_climb(ki_search *w, int unit, bool is_thorough);

/* ---- place_canon.c: GPUs without their numbers ---- */

/* More GPUs of a node than this are not told apart by place_canon.c. */
enum { KI_MOST_CANONICAL = 64 };

/* Sorts positions by what the GPUs are connected to, so that a machine with other numbers gets the same order. */
void ki_canonical_order(const kith_node_kind *kind, int *gpus, int count);
/* Nothing tells two GPUs apart: to exchange them is free. twins: [gpu_count squared]. has_network: NICs count. */
kith_status ki_twins_find(const kith_node_kind *kind, bool has_network, unsigned char *twins);

#endif
