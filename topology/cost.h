/* topology/cost.h - what the parts of the cost model share.
 *
 * A collective is priced as transfers that move together. Each loads the resources on its route (paths.h); a resource
 * is divided equally, so a transfer takes
 *     latency + max over its route of (bytes on the resource, all transfers together) / (its bandwidth).
 * cost_flows.c does that; the algorithms differ in who sends how much to whom and what may overlap:
 *   cost_ring.c    rings and chains, closed forms
 *   cost_multi_ring.c  several rings at once
 *   cost_rounds.c  every algorithm of core/algo, out of its own plan
 *   cost_levels.c  inside the nodes, then between them
 *   cost_alike.c   nodes that do the same are priced once
 *   cost_memory.c  what many prices on the same nodes share
 * cost.c chooses and answers.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_TOPOLOGY_COST_H
#define KI_TOPOLOGY_COST_H

#include "core/algo/algo.h"
#include "paths.h"
#include <kith/placement.h>

/* All groups do the same at the same time. */
typedef struct ki_cost_case {
    const kith_topology *t;
    ki_paths *paths;
    struct ki_flows *flows;
    struct ki_rounds_memory *rounds; /* plans that were walked before */
    struct ki_ring_sets *ring_sets;  /* rings that were searched before; NULL: nothing is kept */
    kith_coll_kind kind;             /* of the collective */
    const char *algorithm;
    const int *groups; /* [group_count * size] global GPUs */
    int size, group_count;
    double nbytes;  /* whole vector, as in kith/placement.h */
    double limit_s; /* what takes as long is of no use: pricing may stop there with any time from it on */
    bool is_again;  /* the same groups were priced up to the limit in another order */
} ki_cost_case;

/* Of the slowest group. */
typedef struct ki_price {
    double time_s, latency_s;
    double gbps; /* INFINITY: nothing moved */
    kith_link_type slowest;
    int from, to;
    bool is_shared;
} ki_price;

#define KI_PRICE_NONE                                                                                                  \
    {                                                                                                                  \
        0, 0, __builtin_inf(), KITH_LINK_SELF, -1, -1, false                                                           \
    }

/* One after the other: times add up, the narrower link is kept. */
void ki_price_add(ki_price *price, const ki_price *next);

/* ---- transfers that move together ---- */

/* One transfer among those that were loaded. */
typedef struct ki_hop_time {
    double latency_s, transfer_s;
    double alone_s; /* transfer when nothing else moves */
    double gbps;
    kith_link_type type;
    bool is_shared;
} ki_hop_time;

/* Each transfer is asked for twice: its bytes are added, then its time is found. Routes are kept in between. */
typedef struct ki_kept_route {
    int from, to, first_hop; /* first_hop: in ki_flows.hops */
    ki_route route;
} ki_kept_route;

typedef struct ki_flows {
    ki_paths *paths;
    ki_kept_route *kept; /* in the order in which transfers were added */
    ki_hop *hops;
    int kept_count, kept_room, hop_count, hop_room, next; /* next: of kept, whose time is asked for next */
    double *load;                                         /* bytes on each resource */
    int *touched;                                         /* resources with bytes on them */
    int touched_count;
    kith_status status;           /* first failure */
    int unknown_from, unknown_to; /* GPUs of the transfer that failed */
} ki_flows;

/* transfers: how many routes are kept at most; others are found again. */
kith_status ki_flows_create(ki_paths *paths, size_t transfers, ki_flows **flows);
void ki_flows_destroy(ki_flows *flows);
void ki_flows_clear(ki_flows *flows);
void ki_flows_add(ki_flows *flows, int from, int to, double nbytes);
/* Fast when transfers come in the order in which they were added. */
ki_hop_time ki_flows_time(ki_flows *flows, int from, int to, double nbytes);
/* Keeps the narrowest. share: of the bytes of a rank that go this way. */
void ki_price_see(ki_price *price, const ki_hop_time *hop, int from, int to, double share);

/* ---- algorithms: KITH_ERR_UNSUPPORTED where they cannot be for these groups, with the reason ---- */

typedef kith_status (*ki_price_fn)(const ki_cost_case *c, ki_price *price);

kith_status ki_price_ring(const ki_cost_case *c, ki_price *price);
kith_status ki_price_multi_ring(const ki_cost_case *c, ki_price *price);
kith_status ki_price_chain(const ki_cost_case *c, ki_price *price);
kith_status ki_price_neighbors(const ki_cost_case *c, ki_price *price); /* each rank to the next, in a chain */
kith_status ki_price_shift(const ki_cost_case *c, ki_price *price);     /* the same in a cycle */
kith_status ki_price_plan(const ki_cost_case *c, ki_price *price);      /* core/algo's of that name */
kith_status ki_price_pairwise(const ki_cost_case *c, ki_price *price);  /* all_to_all of many ranks */
kith_status ki_price_hierarchical(const ki_cost_case *c, ki_price *price);
kith_status ki_price_leaders(const ki_cost_case *c, ki_price *price);
/* The cheapest of core/algo's and the ring, for a part of a larger algorithm. */
kith_status ki_price_best(const ki_cost_case *c, ki_price *price);

/* cost_alike.c: takes groups out of the case that cost what others in nodes of their kind cost. *kept: to be freed
 * after the case. */
kith_status ki_cost_unlike(ki_cost_case *c, int **kept);

/* Ring of groups with several rings each: order is [size] GPUs of a group. */
typedef struct ki_ring {
    int group;
    const int *order;
    double share; /* of the bytes */
} ki_ring;
kith_status ki_price_rings(const ki_cost_case *c, const ki_ring *rings, int ring_count, ki_price *price);

/* The rings of multi_ring for group g, as the price of all groups has them: orders has room for KI_MOST_RINGS * size
 * GPUs, shares for KI_MOST_RINGS. Returns how many, -1: no memory, or no bandwidth is known. */
#define KI_MOST_RINGS 16
int ki_multi_rings(const ki_cost_case *c, int g, int *orders, double *shares);

/* ring_search.c: rings over a group inside one node that together carry most over its links, widest first; shares sum
 * up to 1. orders has room for most * size GPUs. Returns how many; 0: size is not 3 to 8, or the links make no ring;
 * -1: no memory. */
int ki_find_rings(ki_paths *paths, const int *group, int size, bool is_direct_only, int most, int *orders,
                  double *shares);

/* ring_order.c: the ring through a group inside one node that costs least when the group is alone. order: [size] GPUs;
 * as given where size is not 4 to KI_MOST_ORDERED, or no bandwidth is known. */
enum { KI_MOST_ORDERED = 8 };
kith_status ki_cheapest_ring(const ki_cost_case *c, const int *group, int *order);

/* ring_memory.c: one of these for a group inside a node, searched once for each set of GPUs. Returns how many rings, as
 * ki_find_rings() does. */
typedef enum ki_ring_way {
    KI_RINGS_DIRECT, /* those that carry most over direct links */
    KI_RINGS_ANY,    /* over all links */
    KI_RING_CHEAPEST /* the one that costs least */
} ki_ring_way;
typedef struct ki_ring_sets ki_ring_sets;
ki_ring_sets *ki_ring_sets_create(void);
void ki_ring_sets_destroy(ki_ring_sets *sets);
int ki_rings_inside(const ki_cost_case *c, const int *group, ki_ring_way how, int *orders, double *shares);

/* What hangs together by NVLink over nodes counts as one: the NVLink domain of a GPU, else its node. */
int ki_cost_unit(const kith_topology *t, int gpu);

/* ---- rounds of a plan ---- */

typedef struct ki_round_message {
    int round, from, to; /* ranks */
    double nbytes;
} ki_round_message;

typedef struct ki_rounds {
    ki_round_message *messages; /* sorted by round */
    size_t count;
    double repeat; /* how many rounds each round stands for */
} ki_rounds;

/* Messages of one algorithm over size ranks and nbytes, each with the round in which it starts: the number of messages
 * that must be over before, one after the other. node_of: hosts of the ranks. */
kith_status ki_rounds_of_plan(const ki_algo *algo, int size, const int *node_of, double nbytes, ki_rounds *rounds);
void ki_rounds_fini(ki_rounds *rounds);

/* ---- cost_memory.c: many prices on the same nodes ---- */

/* Short plans; a new one takes the place of another with the same hash. */
enum { KI_MOST_RANKS_REMEMBERED = 32 };
typedef struct ki_rounds_memory {
    struct ki_remembered_plan {
        const ki_algo *algo; /* NULL: empty */
        int size;
        unsigned char node_of[KI_MOST_RANKS_REMEMBERED]; /* zeros behind size */
        double nbytes;
        ki_rounds rounds;
    } * plans;
    size_t room;
} ki_rounds_memory;
/* NULL: not known, or too large to be. */
const ki_rounds *ki_rounds_recall(const ki_cost_case *c, const ki_algo *algo, const int *hosts);
/* Takes over what rounds holds; false: the plan is too large. */
bool ki_rounds_remember(const ki_cost_case *c, const ki_algo *algo, const int *hosts, const ki_rounds *rounds);

typedef struct ki_cost_session {
    const kith_topology *t;
    ki_paths *paths;
    ki_flows *flows;
    ki_rounds_memory rounds;
    ki_ring_sets *ring_sets; /* NULL: not worth it for a single price */
} ki_cost_session;

/* gpus: of all nodes that will be asked for, checked. */
kith_status ki_cost_session_init(ki_cost_session *session, const kith_topology *t, const int *gpus, size_t count);
void ki_cost_session_fini(ki_cost_session *session);
/* Over all GPUs, and it remembers rings. destroy: NULL is fine. */
kith_status ki_cost_session_create(const kith_topology *t, ki_cost_session **session);
void ki_cost_session_destroy(ki_cost_session *session);
/* What is of no use: a time from limit_s on. Where nothing takes less, the answer is limit_s and no algorithm. */
typedef struct ki_cost_limit {
    double limit_s;
    bool is_again; /* the same groups in another order take limit_s or more, or were priced up to it */
} ki_cost_limit;
#define KI_NO_LIMIT ((ki_cost_limit){ __builtin_inf(), false })

/* kith_cost_collective() for the cheapest algorithm; the groups are not checked. */
kith_status ki_cost_session_price(ki_cost_session *session, kith_cost_op op, const int *groups, int group_size,
                                  int group_count, double nbytes, ki_cost_limit limit, kith_cost *cost);

#endif
