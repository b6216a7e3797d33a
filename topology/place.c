/* topology/place.c - kith_place(): candidates, the best of them, and what is told about it.
 *
 * A candidate is a unit (how many ranks stay inside an island) and a sequence of islands; the order of GPUs inside each
 * kind of node is found once for each unit. Candidates are compared by the cost of a step, then by bytes over switches
 * (which need no constants), then by the links inside the innermost groups and by sockets. The order of the numbers
 * is a candidate, too, and stays unless another is better: so no placement costs more than it.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "place.h"

#include "core/base/error.h"
#include "core/base/mem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_INSIDE = 256, MOST_UNITS_TRIED = 2 };

/* Fewer bytes over switches at the same cost are worth an unusual order from 2 * 1 % on. */
#define WORTHWHILE 0.01

/* A placement and what it is judged by. */
typedef struct candidate {
    int *gpus;           /* [world] */
    int *island_of_rank; /* [world] */
    ki_step_price price;
    ki_cut cut;
    int64_t inside, finer; /* values of links inside the innermost groups */
} candidate;

typedef struct placing {
    const kith_topology *t;
    kith_placement_options options;
    ki_islands islands;
    ki_sizes sizes;
    ki_use uses[KI_AXES];
    ki_axis_flow flows[KI_AXES];
    ki_distances distances;
    ki_ring_maker maker;
    candidate identity, best, trial;
    ki_partition first; /* the innermost axis in the best candidate */
    ki_partition trial_first;
    bool has_first, has_candidate;
    ki_local *locals; /* [kind] */
    int *position_of_rank;
    int *sequence, *file_order; /* [islands] */
    int *scratch;               /* [2 * world] */
} placing;

/* ---- judging ---- */

static int innermost_axis(const ki_sizes *sizes)
{
    for (int i = 0; i < KI_AXES; i++)
        if (sizes->size[sizes->order[i]] > 1)
            return sizes->order[i];
    return -1;
}

static void add_pair(const kith_topology *t, int from, int to, candidate *c)
{
    int node_a, node_b, a, b;
    if (!kith_topology_locate(t, from, &node_a, &a) || !kith_topology_locate(t, to, &node_b, &b))
        return;
    if (node_a == node_b) {
        const kith_node_kind *kind = kith_topology_kind(t, kith_topology_node(t, node_a)->kind);
        int value = ki_gpu_pair_value(kind, a, b);
        c->inside += value;
        c->finer += value < KI_VALUE_OF_NVLINK ? ki_gpu_pair_finer(kind, a, b) : 0;
        return;
    }
    kith_link link = kith_topology_link(t, from, to);
    c->inside += ki_link_value(&link);
}

static void look_inside(const placing *w, candidate *c)
{
    int axis = innermost_axis(&w->sizes), size = axis < 0 ? 1 : w->sizes.size[axis];
    c->inside = c->finer = 0;
    if (size > MOST_INSIDE)
        return;
    for (int at = 0; at < w->sizes.world; at += size) /* the innermost axis has stride 1 */
        for (int i = 0; i < size; i++)
            for (int j = 0; j < i; j++)
                add_pair(w->t, c->gpus[at + i], c->gpus[at + j], c);
}

static kith_status judge(placing *w, candidate *c)
{
    kith_status status = ki_price_make(&w->maker, &w->sizes, w->uses, c->gpus, w->scratch, &c->price);
    if (status == KITH_OK)
        status = ki_cut_count(&w->islands, &w->distances, &w->sizes, w->flows, c->island_of_rank, &c->cut);
    look_inside(w, c);
    return status;
}

static int compare_doubles(double a, double b, double tolerance)
{
    if (a == b || (isfinite(a) && isfinite(b) && fabs(a - b) <= tolerance * (fabs(a) + fabs(b))))
        return 0;
    return a < b ? -1 : 1;
}

static bool is_better(const candidate *a, const candidate *b)
{
    int order = compare_doubles(a->price.total, b->price.total, 1e-9);
    if (order == 0)
        order = compare_doubles(a->cut.bytes, b->cut.bytes, WORTHWHILE);
    if (order != 0)
        return order < 0;
    return a->inside != b->inside ? a->inside > b->inside : a->finer > b->finer;
}

/* ---- candidates ---- */

static kith_status candidate_init(const placing *w, candidate *c)
{
    size_t world = (size_t)w->sizes.world;
    c->gpus = (int *)ki_calloc(NULL, world, 2 * sizeof(int));
    c->island_of_rank = c->gpus != NULL ? c->gpus + world : NULL;
    return c->gpus != NULL ? KITH_OK : KITH_ERR_NO_MEMORY;
}

/* The first GPUs in the order of their numbers. */
static void assign_identity(placing *w)
{
    int rank = 0;
    for (int i = 0; i < w->islands.count; i++)
        for (int n = 0; n < w->islands.islands[i].node_count; n++)
            w->scratch[w->islands.nodes[w->islands.islands[i].node_from + n]] = i;
    for (int n = 0; n < kith_topology_node_count(w->t) && rank < w->sizes.world; n++) {
        const kith_node *node = kith_topology_node(w->t, n);
        const kith_node_kind *kind = kith_topology_kind(w->t, node->kind);
        for (int g = 0; g < kind->gpu_count && node->is_allowed && rank < w->sizes.world; g++) {
            if (!ki_gpu_is_usable(&kind->gpus[g]))
                continue;
            w->identity.gpus[rank] = kith_topology_first_gpu(w->t, n) + g;
            w->identity.island_of_rank[rank++] = w->scratch[n];
        }
    }
}

/* Ranks onto one island; returns how many. An island of several nodes is filled node by node. */
static int fill_island(placing *w, candidate *c, int index, int unit, int position, int rank)
{
    const ki_island *island = &w->islands.islands[index];
    int count = island->gpu_count / unit * unit, filled = 0;
    count = count < w->sizes.world - rank ? count : w->sizes.world - rank;
    for (int n = 0; n < island->node_count && filled < count; n++) {
        int node = w->islands.nodes[island->node_from + n], kind = kith_topology_node(w->t, node)->kind;
        int first = kith_topology_first_gpu(w->t, node), usable = w->islands.usable_count[kind];
        bool is_whole = island->node_count == 1 || usable % unit == 0;
        const int *gpus = is_whole ? w->locals[kind].gpus : w->islands.usable[kind];
        int most = is_whole ? w->locals[kind].gpu_count : usable;
        for (int g = 0; g < most && filled < count; g++, filled++) {
            c->gpus[rank + filled] = first + gpus[g];
            c->island_of_rank[rank + filled] = index;
            w->position_of_rank[rank + filled] = position;
        }
    }
    return filled;
}

static kith_status assign(placing *w, candidate *c, const int *sequence, int unit)
{
    int rank = 0;
    for (int i = 0; i < w->islands.count && rank < w->sizes.world; i++)
        rank += fill_island(w, c, sequence[i], unit, i, rank);
    return rank == w->sizes.world
               ? KITH_OK
               : ki_fail(KITH_ERR_INTERNAL, "placement: %d of %d ranks found room", rank, w->sizes.world);
}

static bool is_same(const placing *w, const candidate *a, const candidate *b)
{
    return memcmp(a->gpus, b->gpus, (size_t)w->sizes.world * sizeof(int)) == 0;
}

/* Prices are the dear part on large machines: what is known already is not priced again. */
static kith_status consider(placing *w, const int *sequence, int unit)
{
    kith_status status = assign(w, &w->trial, sequence, unit);
    if (status != KITH_OK || is_same(w, &w->trial, &w->identity)) {
        w->first = w->has_candidate ? w->first : w->trial_first;
        return status;
    }
    if (w->has_candidate && is_same(w, &w->trial, &w->best))
        return KITH_OK;
    status = judge(w, &w->trial);
    if (status == KITH_OK && (!w->has_candidate || is_better(&w->trial, &w->best))) {
        candidate other = w->best;
        w->best = w->trial;
        w->trial = other;
        w->first = w->trial_first;
        w->has_candidate = true;
    }
    return status;
}

static void free_locals(placing *w)
{
    for (int k = 0; w->locals != NULL && k < kith_topology_kind_count(w->t); k++)
        ki_local_fini(&w->locals[k]);
}

static kith_status make_locals(placing *w, int unit)
{
    free_locals(w);
    w->has_first = false;
    for (int k = 0; k < kith_topology_kind_count(w->t); k++) {
        if (w->islands.usable_count[k] == 0)
            continue;
        kith_status status = ki_local_make(&w->islands, &w->sizes, k, unit, &w->locals[k]);
        if (status != KITH_OK)
            return status;
        if (!w->has_first && w->locals[k].has_first) {
            w->trial_first = w->locals[k].first;
            w->has_first = true;
        }
    }
    return KITH_OK;
}

static bool is_file_order(const placing *w)
{
    return memcmp(w->sequence, w->file_order, (size_t)w->islands.count * sizeof(int)) == 0;
}

static kith_status try_unit(placing *w, int unit)
{
    bool is_regular = true;
    kith_status status = make_locals(w, unit);
    if (status == KITH_OK)
        status = ki_sequence_make(&w->islands, &w->distances, &w->sizes, unit, w->sequence, &is_regular);
    if (status == KITH_OK)
        status = consider(w, w->file_order, unit);
    if (status == KITH_OK && !is_file_order(w))
        status = consider(w, w->sequence, unit);
    if (status != KITH_OK || is_regular || kith_topology_switch_count(w->t) == 0)
        return status;
    status = assign(w, &w->trial, w->sequence, unit);
    if (status == KITH_OK)
        status = ki_sequence_improve(&w->islands, &w->distances, &w->sizes, unit, w->flows, w->position_of_rank,
                                     w->sequence);
    return status == KITH_OK ? consider(w, w->sequence, unit) : status;
}

static void tell(const placing *w, const char *what, double fraction)
{
    if (w->options.progress != NULL)
        w->options.progress(w->options.progress_arg, what, fraction);
}

static kith_status find_best(placing *w)
{
    int units[KI_AXES + 1], count = ki_sizes_units(&w->sizes, &w->islands, units);
    kith_status status = KITH_OK;
    count = count < MOST_UNITS_TRIED ? count : MOST_UNITS_TRIED;
    for (int i = 0; status == KITH_OK && i < count; i++) {
        tell(w, "placing", (1.0 + i) / (2.0 + count));
        status = try_unit(w, units[i]);
    }
    return status;
}

/* ---- the answer ---- */

static kith_status list_leftover(const placing *w, kith_placement *p)
{
    int total = kith_topology_gpu_count(w->t);
    unsigned char *is_used = (unsigned char *)ki_calloc(NULL, (size_t)total, 1);
    p->leftover = (int *)ki_calloc(NULL, (size_t)(total - p->rank_count), sizeof(int));
    if (is_used == NULL || p->leftover == NULL) {
        ki_free(NULL, is_used);
        return KITH_ERR_NO_MEMORY;
    }
    for (int r = 0; r < p->rank_count; r++)
        is_used[p->gpus[r]] = 1;
    for (int g = 0; g < total; g++)
        if (!is_used[g])
            p->leftover[p->leftover_count++] = g;
    ki_free(NULL, is_used);
    return KITH_OK;
}

static kith_status answer(placing *w, kith_placement **placement)
{
    bool is_identity = !w->has_candidate || !is_better(&w->best, &w->identity);
    const candidate *chosen = is_identity ? &w->identity : &w->best;
    kith_placement *p = (kith_placement *)ki_calloc(NULL, 1, sizeof *p);
    if (p == NULL)
        return KITH_ERR_NO_MEMORY;
    p->topology = w->t;
    p->sizes = w->sizes;
    p->rank_count = w->sizes.world;
    p->cost = chosen->price.total;
    p->identity_cost = w->identity.price.total;
    p->lower_bound = ki_bound_find(&w->islands, &w->sizes, w->uses);
    p->gpus = (int *)ki_calloc(NULL, (size_t)p->rank_count, sizeof(int));
    kith_status status = p->gpus != NULL ? KITH_OK : KITH_ERR_NO_MEMORY;
    if (status == KITH_OK) {
        memcpy(p->gpus, chosen->gpus, (size_t)p->rank_count * sizeof(int));
        status = list_leftover(w, p);
    }
    int axis = innermost_axis(&w->sizes);
    ki_report_input input = { .islands = &w->islands,
                              .uses = w->uses,
                              .price = &chosen->price,
                              .identity_price = &w->identity.price,
                              .identity = w->identity.gpus,
                              .first = w->has_first ? &w->first : NULL,
                              .first_axis = axis,
                              .cut = chosen->cut,
                              .identity_cut = w->identity.cut,
                              .is_identity = is_identity,
                              .is_search_worse = w->has_candidate && compare_doubles(w->identity.price.total,
                                                                                     w->best.price.total, 1e-9) < 0,
                              .keeps_order = w->options.keep_order };
    if (status == KITH_OK)
        status = ki_placement_report(p, &w->maker, &input);
    if (status == KITH_OK) {
        ki_placement_explain(p, w->t, &input);
        status = p->status;
    }
    if (status != KITH_OK) {
        kith_placement_destroy(p);
        return status;
    }
    *placement = p;
    return KITH_OK;
}

static kith_status check_traffic(const kith_axis_traffic *traffic)
{
    for (int a = 0; traffic != NULL && a < KI_AXES; a++)
        if (!(traffic[a].calls >= 0 && traffic[a].calls < 1e15 && traffic[a].nbytes >= 0 && traffic[a].nbytes < 1e18) ||
            (unsigned)traffic[a].op > KITH_COST_SHIFT)
            return ki_fail_quiet(
                KITH_ERR_INVALID_ARG,
                "placement: traffic of %s is op %d, %g calls of %g bytes; valid: an op of kith_cost_op, "
                "calls below 1e15, bytes below 1e18",
                ki_axis_names[a], (int)traffic[a].op, traffic[a].calls, traffic[a].nbytes);
    return KITH_OK;
}

static kith_status begin(placing *w, const kith_placement_options *options)
{
    w->options = (kith_placement_options)KITH_PLACEMENT_OPTIONS_INIT;
    if (options != NULL && options->struct_size < sizeof(size_t))
        return ki_fail_quiet(KITH_ERR_INVALID_ARG,
                             "placement: options have struct_size 0; use KITH_PLACEMENT_OPTIONS_INIT");
    if (options != NULL)
        memcpy(&w->options, options, options->struct_size < sizeof *options ? options->struct_size : sizeof *options);
    kith_status status = check_traffic(w->options.traffic);
    if (status == KITH_OK)
        status = ki_islands_make(w->t, &w->islands);
    if (status == KITH_OK)
        status = ki_sizes_choose(&w->options, &w->islands, &w->sizes);
    if (status == KITH_OK)
        status = ki_distances_make(w->t, &w->distances);
    if (status == KITH_OK)
        status = ki_ring_maker_init(&w->maker, w->t);
    return status;
}

static kith_status allocate(placing *w)
{
    size_t world = (size_t)w->sizes.world, islands = (size_t)w->islands.count;
    size_t nodes = (size_t)kith_topology_node_count(w->t);
    w->locals = (ki_local *)ki_calloc(NULL, (size_t)kith_topology_kind_count(w->t), sizeof(ki_local));
    w->position_of_rank = (int *)ki_calloc(NULL, world, sizeof(int));
    w->sequence = (int *)ki_calloc(NULL, 2 * islands, sizeof(int));
    w->scratch = (int *)ki_calloc(NULL, 2 * world + nodes, sizeof(int));
    if (w->locals == NULL || w->position_of_rank == NULL || w->sequence == NULL || w->scratch == NULL ||
        candidate_init(w, &w->identity) != KITH_OK || candidate_init(w, &w->best) != KITH_OK ||
        candidate_init(w, &w->trial) != KITH_OK)
        return KITH_ERR_NO_MEMORY;
    w->file_order = w->sequence + islands;
    for (int i = 0; i < w->islands.count; i++)
        w->file_order[i] = i;
    ki_uses_make(&w->options, &w->sizes, w->uses);
    for (int a = 0; a < KI_AXES; a++)
        w->flows[a] = (ki_axis_flow){ ki_use_hop_nbytes(&w->uses[a], w->sizes.size[a]), ki_use_is_chain(&w->uses[a]) };
    return KITH_OK;
}

static void end(placing *w)
{
    free_locals(w);
    ki_free(NULL, w->locals);
    ki_free(NULL, w->position_of_rank);
    ki_free(NULL, w->sequence);
    ki_free(NULL, w->scratch);
    ki_free(NULL, w->identity.gpus);
    ki_free(NULL, w->best.gpus);
    ki_free(NULL, w->trial.gpus);
    ki_ring_maker_fini(&w->maker);
    ki_distances_fini(&w->distances);
    if (w->islands.t != NULL)
        ki_islands_fini(&w->islands);
}

kith_status kith_place(const kith_topology *topology, const kith_placement_options *options, kith_placement **placement)
{
    if (topology == NULL || placement == NULL)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "kith_place: the topology or the result is NULL");
    placing w = { .t = topology };
    kith_status status = begin(&w, options);
    if (status == KITH_OK)
        status = allocate(&w);
    if (status == KITH_OK) {
        tell(&w, "placing", 0);
        assign_identity(&w);
        status = judge(&w, &w.identity);
    }
    if (status == KITH_OK && !w.options.keep_order)
        status = find_best(&w);
    if (status == KITH_OK)
        status = answer(&w, placement);
    if (status == KITH_OK)
        tell(&w, "placing", 1);
    end(&w);
    return status;
}
