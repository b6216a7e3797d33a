/* topology/place.h - the parts of placement: values of links, partition of a node, order inside a group, order of
 * islands, prices. place.c puts them together.
 *
 * Words: an *island* is what innermost groups must not leave: a node, or the nodes of one NVLink domain. A *unit* is
 * the product of the leading axes that stays inside an island; an island holds a whole number of units, and what is
 * left of it is left over. Ranks fill islands in sequence, unit after unit, so a placement is: sizes, the unit, one
 * order of GPUs for each kind of node, and a sequence of islands.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_TOPOLOGY_PLACE_H
#define KI_TOPOLOGY_PLACE_H

#include "core/text.h"
#include <kith/placement.h>

/* Axes by their position in arrays; ki_axis_names has their names. */
enum { KI_TP, KI_CP, KI_EP, KI_DP, KI_PP, KI_AXES };
_Static_assert(KI_AXES == KITH_PLACEMENT_AXES, "an axis for each entry of the public arrays");

/* ---- place_value.c: what a link is worth, only for comparing ---- */

/* Hundredths: NVn and XGMIn 2000 * n, PSB 2405, PIX 2400, PXB 2390, PHB 2000, NODE 1200, SYS 1000, NET 500, unknown 0.
 * A single NVLink (2410) stands just above PIX. */
int ki_link_value(const kith_link *link);
/* The same for two GPUs of a kind (positions): a MIG parent has no NVLink to anyone. */
int ki_gpu_pair_value(const kith_node_kind *kind, int a, int b);
/* What decides between partitions whose links are equal and are no NVLink: same socket, then a common nearest NIC. Over
 * NVLink neither plays a part. */
#define KI_VALUE_OF_NVLINK 2410
int ki_gpu_pair_finer(const kith_node_kind *kind, int a, int b);
/* May have a rank: this job may use it, and it answers. MIG parents may, but are used last. */
bool ki_gpu_is_usable(const kith_gpu *gpu);

/* ---- place_node.c, place_many.c: units into groups ---- */

#define KI_EXACT_UNITS 16

/* group_count groups of group_size out of unit_count units; units may be GPUs or groups of an inner axis. */
typedef struct ki_partition_problem {
    int unit_count, group_size, group_count;
    const int *value;             /* [unit_count * unit_count], symmetric, not negative */
    const int *finer;             /* the same; NULL: none */
    int finer_below;              /* the finer key counts only where the worst link is worth less than this */
    const unsigned char *is_last; /* units that are used last; NULL: none */
} ki_partition_problem;

typedef struct ki_partition {
    int worst;            /* value of the worst link that the best ring of any group needs; INT_MAX: groups of one */
    int64_t sum;          /* values of all pairs inside groups */
    int64_t finer;        /* the same for the finer key */
    int64_t equally_good; /* partitions with this worst and sum; 0: not counted */
    bool is_exact;
    int worst_bound; /* no partition is better than these two; equal to worst and sum when exact */
    int64_t sum_bound;
} ki_partition;

/* groups receives group_count * group_size units: each group ascending, groups by their first unit. Exact up to
 * KI_EXACT_UNITS, a local search with a bound above. */
kith_status ki_partition_solve(const ki_partition_problem *problem, int *groups, ki_partition *result);
kith_status ki_partition_exact(const ki_partition_problem *problem, int *groups, ki_partition *result);
kith_status ki_partition_search(const ki_partition_problem *problem, int *groups, ki_partition *result);

/* ---- place_ring.c: the order inside a group ---- */

/* Best cycle through n members by its narrowest link, then by the sum of its links; the given order where nothing is
 * gained. ring receives positions 0 to n - 1, beginning with 0. Returns the narrowest value, INT_MAX for n < 2.
 * Exact up to KI_EXACT_RING members. value: [n * n]. -1: no memory. */
enum { KI_EXACT_RING = 16 };
int ki_ring_order(const int *value, int n, int *ring);

/* ---- place_align.c: the order of members in a node ---- */

/* Permutes the members (positions in kind) of all units but the first so that equal positions meet over the widest
 * links. members: [unit_count * unit_size]. */
void ki_align_units(const kith_node_kind *kind, int *members, int unit_count, int unit_size);
/* Puts the units of each group into the order of its best ring, or of its best chain. value: [unit_count squared]. */
kith_status ki_order_neighbours(const int *value, int unit_count, bool is_chain, int *groups, int size,
                                int group_count);

/* The same for a group of GPUs anywhere: members of one node stay together, nodes stay in their order. One maker serves
 * many groups; groups in nodes of one kind are alike, so it remembers its last answers. */
enum { KI_RINGS_REMEMBERED = 16 };
typedef struct ki_ring_memory {
    int kind, count; /* kind -1: empty */
    bool is_path;
    int *members; /* positions that were asked for */
    int *order;   /* and what came out */
} ki_ring_memory;
typedef struct ki_ring_maker {
    const kith_topology *t;
    int *value;                      /* scratch: a square of values */
    int *order;                      /* scratch */
    struct ki_cost_session *session; /* over all GPUs */
    bool owns_session;
    ki_ring_memory memory[KI_RINGS_REMEMBERED];
    int next; /* to be forgotten */
} ki_ring_maker;

/* session: for prices, ki_cost_session_create()'s; NULL: the maker has its own. */
kith_status ki_ring_maker_init(ki_ring_maker *maker, const kith_topology *t, struct ki_cost_session *session);
void ki_ring_maker_fini(ki_ring_maker *maker);
kith_status ki_ring_of_group(ki_ring_maker *maker, const int *group, int size, int *ring);

/* ---- place_sizes.c: how many ranks along each axis ---- */

typedef struct ki_sizes {
    int size[KI_AXES];       /* tp, cp, ep, dp, pp */
    int order[KI_AXES];      /* axes, fastest varying first */
    int64_t stride[KI_AXES]; /* of an axis, in ranks */
    int world;
    char text[32]; /* "tp-cp-ep-dp-pp" */
} ki_sizes;

extern const char *const ki_axis_names[KI_AXES];

/* ---- place_island.c: what ranks may use ---- */

typedef struct ki_island {
    int node_from, node_count; /* range of ki_islands.nodes */
    int domain;                /* NVLink domain; -1: a single node */
    int kind;                  /* of a single node; -1: several nodes */
    int gpu_count;             /* that may be used */
} ki_island;

typedef struct ki_island_size {
    int gpu_count, island_count;
} ki_island_size;

/* Islands in the order of their first node; nodes that may not be used have none. */
typedef struct ki_islands {
    const kith_topology *t;
    int *nodes;
    ki_island *islands;
    int count;
    ki_island_size *sizes; /* how many islands there are of each size, biggest first */
    int size_count;
    int most;          /* GPUs of the biggest */
    int total;         /* GPUs of all */
    int **usable;      /* [kind]: positions of GPUs that may be used, MIG parents last, or NULL */
    int *usable_count; /* [kind] */
} ki_islands;

/* Switch of its first node; -1: none is known. */
int ki_island_leaf(const ki_islands *islands, int island);
kith_status ki_islands_make(const kith_topology *t, ki_islands *islands);
void ki_islands_fini(ki_islands *islands);
/* GPUs in whole units. */
int64_t ki_islands_capacity(const ki_islands *islands, int64_t unit);
/* Largest number that divides the sizes of all NVLink islands (inside nodes and over them), single GPUs included; -1:
 * NVLink is unknown. */
int ki_islands_nvlink_size(const ki_islands *islands);

/* Fills sizes->size and world: options where they are given, else what fits. */
kith_status ki_sizes_choose(const kith_placement_options *options, const ki_islands *islands, ki_sizes *sizes);
/* Possible units, best first: products of leading axes, or a divisor of the first axis when it is larger than any
 * island. Returns how many (at most KI_AXES + 1); 0: none lets all ranks fit. */
int ki_sizes_units(const ki_sizes *sizes, const ki_islands *islands, int *units);
/* First rank of a group; the others follow at the axis's stride. */
int ki_sizes_group_base(const ki_sizes *sizes, int axis, int group);

/* ---- place_local.c: the order of GPUs in a node ---- */

typedef struct ki_local {
    int *gpus;     /* all that may be used: positions in the order in which ranks take them, then those left over */
    int gpu_count; /* of them in units */
    int unit_count;
    ki_partition first; /* the innermost axis */
    bool has_first;
} ki_local;

/* is_canonical: among equals the first of place_canon.c's order win, else the smallest numbers. */
kith_status ki_local_make(const ki_islands *islands, const ki_sizes *sizes, int kind, int unit, bool is_canonical,
                          ki_local *local);
void ki_local_fini(ki_local *local);

/* ---- place_cluster.c, place_swap.c: the sequence of islands ---- */

/* Natural order: digits compare as numbers. */
int ki_natural_compare(const char *a, const char *b);
/* place_swap.c. How far apart two nodes are: 0 same switch (or NVLink domain), 1 the switches have one parent, 2, ...
 */
typedef struct ki_distances {
    int *ancestors; /* [node * KI_DISTANCE_LEVELS] */
    const kith_topology *t;
} ki_distances;
enum { KI_DISTANCE_LEVELS = 4 };
kith_status ki_distances_make(const kith_topology *t, ki_distances *distances);
int ki_distance(const ki_distances *distances, int node_a, int node_b);
void ki_distances_fini(ki_distances *distances);

/* Puts groups inside switches: sequence receives indices of islands, those that are too small for a unit last.
 * rank_of_island: smaller ones first; NULL: those with more units first. *is_regular: every switch holds whole
 * segments. */
kith_status ki_sequence_make(const ki_islands *islands, const ki_distances *distances, const ki_sizes *sizes, int unit,
                             const int *rank_of_island, int *sequence, bool *is_regular);

/* Bytes of a step that rings and chains carry from switch to switch, times the levels they climb; and what they must
 * carry at least, however the islands are put in sequence. */
typedef struct ki_cut {
    double bytes, at_least;
} ki_cut;
/* What an axis sends from one member to the next. */
typedef struct ki_axis_flow {
    double hop_nbytes; /* of one hop, all calls of a step */
    bool is_chain;     /* the last member sends nothing */
} ki_axis_flow;
/* flows: of each axis. island_of_rank: world entries. */
kith_status ki_cut_count(const ki_islands *islands, const ki_distances *d, const ki_sizes *sizes,
                         const ki_axis_flow *flows, const int *island_of_rank, ki_cut *cut);
/* Swaps islands of equal size (and rank, if given) in sequence as long as the cut shrinks. position_of_rank: index in
 * sequence. */
kith_status ki_sequence_improve(const ki_islands *islands, const ki_distances *d, const ki_sizes *sizes, int unit,
                                const ki_axis_flow *flows, const int *position_of_rank, const int *rank_of_island,
                                int *sequence);

/* ---- place_price.c: groups and what they cost ---- */

typedef struct ki_step_price {
    kith_cost cost[KI_AXES];
    double step_s[KI_AXES];
    double total;
    double sent_s; /* with what is hidden */
} ki_step_price;

/* What an axis does in a step. */
typedef struct ki_use {
    kith_cost_op op;
    double calls, nbytes; /* of the traffic, else one all_reduce of 64 MiB */
    double hidden_s;      /* behind compute */
} ki_use;

void ki_uses_make(const kith_placement_options *options, const ki_sizes *sizes, ki_use *uses);
/* What a rank sends to the next in its ring or chain, all calls of a step. */
double ki_use_hop_nbytes(const ki_use *use, int size);
/* What it adds to a step when one call takes call_s. */
double ki_use_step_s(const ki_use *use, double call_s);
/* A chain ends at its last member; in a ring that one goes on to the first. */
bool ki_use_is_chain(const ki_use *use);

/* Groups of an axis in the order of ranks, and as rings. */
void ki_axis_groups(const ki_sizes *sizes, int axis, const int *gpus, int *groups);
kith_status ki_rings_make(ki_ring_maker *maker, int axis, const ki_use *use, const int *groups, int size, int count,
                          int *rings);
/* The order of members matters by itself: rank i talks to i + 1. */
bool ki_use_is_ordered(const ki_use *use, int axis);
/* A group that needs a link of unknown bandwidth costs INFINITY: it loses to any that does not, and is still an answer
 * where there is no other. limit_s: a call that takes as long is of no use, and its time may be any from there on.
 * rings: scratch, size * count. */
kith_status ki_price_groups(ki_ring_maker *maker, int axis, const ki_use *use, const int *groups, int size, int count,
                            double limit_s, int *rings, kith_cost *cost);
/* scratch: 2 * world. limit_s: a step that takes longer is not priced to its end. */
kith_status ki_price_make(ki_ring_maker *maker, const ki_sizes *sizes, const ki_use *uses, const int *gpus,
                          double limit_s, int *scratch, ki_step_price *price);

/* place_bound.c: seconds that no placement of these sizes can beat; 0 where no bandwidth is known. */
double ki_bound_find(const ki_islands *islands, const ki_sizes *sizes, const ki_use *uses);

/* ---- placement.c ---- */

typedef struct ki_note {
    char *text;
    bool is_warning;
} ki_note;

struct kith_placement {
    const kith_topology *topology; /* only to recognize it */
    int *gpus;                     /* [rank_count] */
    int rank_count;
    ki_sizes sizes;
    kith_axis_report axes[KI_AXES];
    kith_link first_before; /* bottleneck of the innermost axis in the order of the numbers, where another was taken */
    int *leftover;
    int leftover_count;
    double cost, identity_cost, lower_bound;
    bool is_identity; /* the order of the numbers */
    ki_note *notes;
    int note_count, note_room;
    kith_status status; /* of adding notes */
};

/* kith_place(). is_quick: a short climb, and of more than KI_QUICK_RANKS ranks few candidates, for comparing one layout
 * with another. session: see ki_ring_maker_init(). */
enum { KI_QUICK_RANKS = 256 };
kith_status ki_place(const kith_topology *topology, const kith_placement_options *options, bool is_quick,
                     struct ki_cost_session *session, kith_placement **placement);

void ki_placement_note(kith_placement *p, bool is_warning, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* KITH_ERR_INVALID_ARG when the placement was not found on t. */
kith_status ki_placement_check_topology(const kith_placement *p, const kith_topology *t, const char *what);

/* kith_placement_mesh_order() that needs no memory: nothing is allocated but the text of a failure. scratch: 2 *
 * rank_count numbers. After a failure order holds nothing of use. */
kith_status ki_placement_mesh_order(const kith_placement *p, const int *launched_gpu, int *order, int *scratch);

/* place_seat.c: is that where the placement has the rank? True also where pci is NULL or the topology has no address to
 * compare with. */
bool ki_placement_is_seat(const kith_placement *p, const kith_topology *t, int rank, const char *host, const char *pci);
bool ki_placement_is_address(const char *pci);
/* "gpu7, GPU 0000:1b:00.0", or the GPU's number where its address is not known. Returns buffer. */
const char *ki_placement_seat_text(const kith_placement *p, const kith_topology *t, int rank, char *buffer,
                                   size_t nbytes);

/* place_report.c: the reports of the axes, and sentences about them. */
typedef struct ki_report_input {
    const ki_islands *islands;
    const ki_use *uses;
    const ki_step_price *price, *identity_price;
    const int *identity;
    const ki_partition *first; /* of the innermost axis in a node; NULL: none */
    int first_axis;
    ki_cut cut, identity_cut;
    bool is_identity;     /* the order of the numbers was kept */
    bool is_search_worse; /* because what was found instead costs more */
    bool keeps_order;     /* because the caller wanted it */
} ki_report_input;
kith_status ki_placement_report(kith_placement *p, ki_ring_maker *maker, const ki_report_input *input);
/* place_notes.c */
void ki_placement_explain(kith_placement *p, const kith_topology *t, const ki_report_input *input);

#endif
