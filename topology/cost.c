/* topology/cost.c - the price of one collective: checks, algorithms by name, the cheapest; see cost.h.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "cost.h"

#include "core/base/error.h"
#include "core/base/mem.h"
#include "model.h"
#include <math.h>
#include <string.h>

/* How much work it is to price an algorithm over n ranks: those of many messages are left out of the choice where they
 * cannot win anyway (core/algo/select_rules.h stops at 32 ranks), and refused by name where there are too many. */
typedef enum effort {
    EFFORT_LINE,  /* n hops */
    EFFORT_LOG,   /* n log n messages */
    EFFORT_SQUARE /* n * n messages, or that many steps */
} effort;

typedef struct cost_row {
    kith_cost_op op;
    kith_coll_kind kind;
    const char *name;
    effort effort;
    ki_price_fn price;
} cost_row;

static const cost_row table[] = {
    { KITH_COST_ALL_REDUCE, KITH_ALL_REDUCE, "ring", EFFORT_LINE, ki_price_ring },
    { KITH_COST_ALL_REDUCE, KITH_ALL_REDUCE, "segmented_ring", EFFORT_LINE, ki_price_ring },
    { KITH_COST_ALL_REDUCE, KITH_ALL_REDUCE, "multi_ring", EFFORT_LINE, ki_price_multi_ring },
    { KITH_COST_ALL_REDUCE, KITH_ALL_REDUCE, "hierarchical", EFFORT_LINE, ki_price_hierarchical },
    { KITH_COST_ALL_REDUCE, KITH_ALL_REDUCE, "hierarchical_leaders", EFFORT_LINE, ki_price_leaders },
    { KITH_COST_ALL_REDUCE, KITH_ALL_REDUCE, "recursive_doubling", EFFORT_LOG, ki_price_plan },
    { KITH_COST_ALL_REDUCE, KITH_ALL_REDUCE, "rabenseifner", EFFORT_LOG, ki_price_plan },
    { KITH_COST_ALL_REDUCE, KITH_ALL_REDUCE, "reduce_broadcast", EFFORT_LOG, ki_price_plan },
    { KITH_COST_ALL_REDUCE, KITH_ALL_REDUCE, "all_gather_reduce", EFFORT_SQUARE, ki_price_plan },
    { KITH_COST_ALL_REDUCE, KITH_ALL_REDUCE, "linear", EFFORT_SQUARE, ki_price_plan },

    { KITH_COST_REDUCE_SCATTER, KITH_REDUCE_SCATTER, "ring", EFFORT_LINE, ki_price_ring },
    { KITH_COST_REDUCE_SCATTER, KITH_REDUCE_SCATTER, "multi_ring", EFFORT_LINE, ki_price_multi_ring },
    { KITH_COST_REDUCE_SCATTER, KITH_REDUCE_SCATTER, "hierarchical", EFFORT_LINE, ki_price_hierarchical },
    { KITH_COST_REDUCE_SCATTER, KITH_REDUCE_SCATTER, "recursive_halving", EFFORT_LOG, ki_price_plan },
    { KITH_COST_REDUCE_SCATTER, KITH_REDUCE_SCATTER, "pairwise", EFFORT_SQUARE, ki_price_plan },
    { KITH_COST_REDUCE_SCATTER, KITH_REDUCE_SCATTER, "linear", EFFORT_SQUARE, ki_price_plan },

    { KITH_COST_ALL_GATHER, KITH_ALL_GATHER, "ring", EFFORT_LINE, ki_price_ring },
    { KITH_COST_ALL_GATHER, KITH_ALL_GATHER, "multi_ring", EFFORT_LINE, ki_price_multi_ring },
    { KITH_COST_ALL_GATHER, KITH_ALL_GATHER, "hierarchical", EFFORT_LINE, ki_price_hierarchical },
    { KITH_COST_ALL_GATHER, KITH_ALL_GATHER, "hierarchical_leaders", EFFORT_LINE, ki_price_leaders },
    { KITH_COST_ALL_GATHER, KITH_ALL_GATHER, "recursive_doubling", EFFORT_LOG, ki_price_plan },
    { KITH_COST_ALL_GATHER, KITH_ALL_GATHER, "bruck", EFFORT_LOG, ki_price_plan },
    { KITH_COST_ALL_GATHER, KITH_ALL_GATHER, "neighbor_exchange", EFFORT_SQUARE, ki_price_plan },
    { KITH_COST_ALL_GATHER, KITH_ALL_GATHER, "linear", EFFORT_SQUARE, ki_price_plan },

    { KITH_COST_ALL_TO_ALL, KITH_ALL_TO_ALL, "pairwise", EFFORT_LINE, ki_price_pairwise },
    { KITH_COST_ALL_TO_ALL, KITH_ALL_TO_ALL, "bruck", EFFORT_LOG, ki_price_plan },
    { KITH_COST_ALL_TO_ALL, KITH_ALL_TO_ALL, "linear", EFFORT_SQUARE, ki_price_plan },

    { KITH_COST_SEND_RECV, KITH_BROADCAST, "direct", EFFORT_LINE, ki_price_neighbors },

    { KITH_COST_SHIFT, KITH_BROADCAST, "direct", EFFORT_LINE, ki_price_shift },

    { KITH_COST_BROADCAST, KITH_BROADCAST, "chain_segmented", EFFORT_LINE, ki_price_chain },
    { KITH_COST_BROADCAST, KITH_BROADCAST, "binomial", EFFORT_LOG, ki_price_plan },
    { KITH_COST_BROADCAST, KITH_BROADCAST, "knomial", EFFORT_LOG, ki_price_plan },
    { KITH_COST_BROADCAST, KITH_BROADCAST, "linear", EFFORT_LOG, ki_price_plan },
    { KITH_COST_BROADCAST, KITH_BROADCAST, "scatter_all_gather", EFFORT_SQUARE, ki_price_plan },

    /* A phase of hierarchical_leaders; nobody can ask for it. */
    { (kith_cost_op)-1, KITH_REDUCE, "binomial", EFFORT_LOG, ki_price_plan },
    { (kith_cost_op)-1, KITH_REDUCE, "knomial", EFFORT_LOG, ki_price_plan },
    { (kith_cost_op)-1, KITH_REDUCE, "scatter_gather", EFFORT_LOG, ki_price_plan },
};

enum { ALGORITHM_COUNT = sizeof table / sizeof table[0] };

/* Largest group that is priced by itself, and by name. */
static int most_ranks(effort work, bool is_named)
{
    switch (work) {
    case EFFORT_LOG:
        return is_named ? 4096 : 2048;
    case EFFORT_SQUARE:
        return is_named ? 1024 : 32;
    default:
        return INT32_MAX;
    }
}

const char *kith_cost_algorithm_name(kith_cost_op op, int index)
{
    for (int i = 0; i < ALGORITHM_COUNT; i++)
        if (table[i].op == op && (int)op >= 0 && index-- == 0)
            return table[i].name;
    return NULL;
}

int ki_cost_unit(const kith_topology *t, int gpu)
{
    int node = 0, position;
    ki_locate(t, gpu, &node, &position);
    int domain = t->nodes[node].domain;
    return domain >= 0 && t->domains[domain].is_nvlink ? t->node_count + domain : node;
}

/* ---- choosing ---- */

static bool is_level(const cost_row *a)
{
    return a->price == ki_price_hierarchical || a->price == ki_price_leaders;
}

/* What is known when all algorithms were looked at. One that needs a link of unknown bandwidth might be the cheapest
 * unless it loses even with a link that takes no time: then the price of the others holds, else none is given. */
static kith_status conclude(const ki_cost_case *c, double best_s, double unknown_s, ki_price *price)
{
    if (unknown_s < best_s) {
        *price = (ki_price)KI_PRICE_NONE;
        price->time_s = unknown_s; /* at least */
        c->flows->status = KITH_ERR_UNSUPPORTED;
        return ki_fail_quiet(KITH_ERR_UNSUPPORTED, "cost: no bandwidth is known between GPU %d and GPU %d",
                             c->flows->unknown_from, c->flows->unknown_to);
    }
    return isfinite(best_s)
               ? KITH_OK
               : ki_fail_quiet(KITH_ERR_UNSUPPORTED, "cost: no algorithm can be priced over %d ranks", c->size);
}

/* The cheapest of those that are possible; where none takes less than the limit, its time and no name. has_levels: also
 * those that are made of others. */
static kith_status choose(const ki_cost_case *c, kith_cost_op op, bool has_levels, const char **name, ki_price *price)
{
    double best_s = c->limit_s, unknown_s = INFINITY;
    price->time_s = isfinite(best_s) ? best_s : 0;
    *name = NULL;
    for (int i = 0; i < ALGORITHM_COUNT; i++) {
        const cost_row *a = &table[i];
        if (a->op != op || a->kind != c->kind || c->size > most_ranks(a->effort, false) || (is_level(a) && !has_levels))
            continue;
        ki_cost_case one = *c;
        one.algorithm = a->name;
        one.limit_s = best_s;
        ki_price here = KI_PRICE_NONE;
        kith_status status = a->price(&one, &here);
        if (status != KITH_OK && status != KITH_ERR_UNSUPPORTED)
            return status;
        if (c->flows->status != KITH_OK) { /* a link of unknown bandwidth; else it is not possible */
            unknown_s = fmin(unknown_s, here.time_s);
            c->flows->status = KITH_OK;
        } else if (status == KITH_OK && here.time_s < best_s) {
            best_s = here.time_s;
            *price = here;
            *name = a->name;
        }
    }
    return conclude(c, best_s, unknown_s, price);
}

kith_status ki_price_best(const ki_cost_case *c, ki_price *price)
{
    static const struct {
        kith_coll_kind kind;
        kith_cost_op op;
    } ops[] = { { KITH_ALL_REDUCE, KITH_COST_ALL_REDUCE },
                { KITH_REDUCE_SCATTER, KITH_COST_REDUCE_SCATTER },
                { KITH_ALL_GATHER, KITH_COST_ALL_GATHER },
                { KITH_BROADCAST, KITH_COST_BROADCAST } };
    kith_cost_op op = (kith_cost_op)-1;
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++)
        if (ops[i].kind == c->kind)
            op = ops[i].op;
    const char *name;
    return choose(c, op, false, &name, price);
}

static kith_status price_named(const ki_cost_case *c, const cost_row *a, ki_price *price)
{
    if (c->size > most_ranks(a->effort, true))
        return ki_fail_quiet(KITH_ERR_UNSUPPORTED, "cost: %s is priced over at most %d ranks, not %d", a->name,
                             most_ranks(a->effort, true), c->size);
    ki_cost_case one = *c;
    one.algorithm = a->name;
    return a->price(&one, price);
}

static kith_status unknown_name(kith_cost_op op, const char *name)
{
    char valid[512] = "";
    size_t used = 0;
    for (int i = 0; i < ALGORITHM_COUNT; i++)
        if (table[i].op == op && used + strlen(table[i].name) + 3 < sizeof valid) {
            if (used > 0)
                used += (size_t)(stpcpy(valid + used, ", ") - (valid + used));
            used += (size_t)(stpcpy(valid + used, table[i].name) - (valid + used));
        }
    return ki_fail_quiet(KITH_ERR_INVALID_ARG, "cost: there is no algorithm '%s' for it; valid: %s", name, valid);
}

static kith_status price(const ki_cost_case *c, kith_cost_op op, const char *name, ki_price *price, const char **chosen)
{
    if (name == NULL)
        return choose(c, op, true, chosen, price);
    for (int i = 0; i < ALGORITHM_COUNT; i++)
        if (table[i].op == op && strcmp(table[i].name, name) == 0) {
            *chosen = table[i].name;
            return price_named(c, &table[i], price);
        }
    return unknown_name(op, name);
}

/* ---- checks ---- */

static kith_status check_group(const kith_topology *t, const int *groups, int group, int size, int *last_group)
{
    for (int i = 0; i < size; i++) {
        int gpu = groups[(size_t)group * (size_t)size + (size_t)i];
        if (gpu < 0 || gpu >= kith_topology_gpu_count(t))
            return ki_fail_quiet(KITH_ERR_INVALID_ARG, "cost: there is no GPU %d; valid: 0 to %d", gpu,
                                 kith_topology_gpu_count(t) - 1);
        if (last_group[gpu] == group + 1)
            return ki_fail_quiet(KITH_ERR_INVALID_ARG, "cost: GPU %d is twice in group %d", gpu, group);
        last_group[gpu] = group + 1;
    }
    return KITH_OK;
}

static kith_status check(const kith_topology *t, kith_cost_op op, const int *groups, int size, int group_count,
                         double nbytes)
{
    size_t all;
    if (t == NULL || groups == NULL || size < 1 || group_count < 1 || !ki_mul((size_t)size, (size_t)group_count, &all))
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "cost: needs a topology and at least one group of one GPU");
    if (!(nbytes >= 0) || nbytes > 1e15)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "cost: nbytes is %g; valid: 0 to 1e15", nbytes);
    if ((int)op < 0 || op > KITH_COST_SHIFT)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "cost: there is no operation %d", (int)op);
    int *last_group = (int *)ki_calloc(NULL, (size_t)kith_topology_gpu_count(t) + 1, sizeof *last_group);
    if (last_group == NULL)
        return KITH_ERR_NO_MEMORY;
    kith_status status = KITH_OK;
    for (int g = 0; g < group_count && status == KITH_OK; g++)
        status = check_group(t, groups, g, size, last_group);
    ki_free(NULL, last_group);
    return status;
}

/* ---- the door ---- */

/* Bytes that each rank must send at least, for each byte of the vector: nccl-tests' bus bandwidth. */
static double bus_factor(kith_cost_op op, double n)
{
    if (op == KITH_COST_ALL_REDUCE)
        return 2 * (n - 1) / n;
    return op >= KITH_COST_SEND_RECV ? 1 : (n - 1) / n;
}

/* The same measure for all algorithms; of a ring it is what a rank gets of the slowest link. */
static double bus_gbps(kith_cost_op op, int size, double nbytes, const ki_price *price)
{
    double transfer_s = price->time_s - price->latency_s;
    return transfer_s > 0 ? bus_factor(op, size) * nbytes / transfer_s / 1e9 : price->gbps;
}

static void answer(const ki_price *price, double gbps, const char *algorithm, kith_cost *cost)
{
    *cost = (kith_cost){ .time_s = price->time_s,
                         .latency_s = price->latency_s,
                         .gbps = gbps,
                         .slowest = price->slowest,
                         .slowest_from = price->from,
                         .slowest_to = price->to,
                         .algorithm = algorithm,
                         .is_shared = price->is_shared };
}

/* algorithm: NULL for the cheapest. */
static kith_status price_in_session(ki_cost_session *session, kith_cost_op op, const char *algorithm, const int *groups,
                                    int group_size, int group_count, double nbytes, ki_cost_limit limit,
                                    kith_cost *cost)
{
    ki_price found = KI_PRICE_NONE;
    ki_cost_case c = { .t = session->t,
                       .paths = session->paths,
                       .flows = session->flows,
                       .rounds = &session->rounds,
                       .ring_sets = session->ring_sets,
                       .groups = groups,
                       .size = group_size,
                       .group_count = group_count,
                       .nbytes = nbytes,
                       .limit_s = limit.limit_s,
                       .is_again = limit.is_again };
    for (int i = 0; i < ALGORITHM_COUNT; i++)
        if (table[i].op == op)
            c.kind = table[i].kind;
    session->flows->status = KITH_OK;
    const char *chosen = NULL;
    int *kept;
    kith_status status = ki_cost_unlike(&c, &kept);
    if (status == KITH_OK)
        status = price(&c, op, algorithm, &found, &chosen);
    ki_free(NULL, kept);
    if (status == KITH_OK)
        answer(&found, bus_gbps(op, group_size, nbytes, &found), chosen, cost);
    return status;
}

kith_status ki_cost_session_price(ki_cost_session *session, kith_cost_op op, const int *groups, int group_size,
                                  int group_count, double nbytes, ki_cost_limit limit, kith_cost *cost)
{
    return price_in_session(session, op, NULL, groups, group_size, group_count, nbytes, limit, cost);
}

kith_status kith_cost_collective(const kith_topology *t, kith_cost_op op, const char *algorithm, const int *groups,
                                 int group_size, int group_count, double nbytes, kith_cost *cost)
{
    kith_status status = check(t, op, groups, group_size, group_count, nbytes);
    if (status != KITH_OK)
        return status;
    if (group_size == 1) {
        ki_price nothing = KI_PRICE_NONE;
        answer(&nothing, ki_constant_gbps(t, "local"), "none", cost);
        return KITH_OK;
    }
    ki_cost_session session;
    status = ki_cost_session_init(&session, t, groups, (size_t)group_size * (size_t)group_count);
    if (status == KITH_OK)
        status = price_in_session(&session, op, algorithm, groups, group_size, group_count, nbytes, KI_NO_LIMIT, cost);
    ki_cost_session_fini(&session);
    return status;
}
