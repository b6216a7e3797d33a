/* topology/place.c - kith_place(): candidates, the best of them, and what is told about it.
 *
 * The order of the numbers is priced first and stays unless another is better, so no placement costs more than it. What
 * else is tried place_search.h tells. What was chosen and why is said at the end.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "place_search.h"

#include "core/base/error.h"
#include "core/base/mem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- candidates ---- */

static kith_status candidate_init(const ki_search *w, ki_candidate *c)
{
    size_t world = (size_t)w->sizes.world;
    c->gpus = (int *)ki_calloc(NULL, world, 2 * sizeof(int));
    c->island_of_rank = c->gpus != NULL ? c->gpus + world : NULL;
    return c->gpus != NULL ? KITH_OK : KITH_ERR_NO_MEMORY;
}

/* The first GPUs in the order of their numbers. */
static void assign_identity(ki_search *w)
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

/* ---- the answer ---- */

static kith_status list_leftover(const ki_search *w, kith_placement *p)
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

/* Partitions of a node are of interest where a group fits into one. */
static bool is_in_node(const ki_search *w, int axis)
{
    for (int k = 0; axis >= 0 && k < kith_topology_kind_count(w->t); k++)
        if (w->islands.usable_count[k] >= w->sizes.size[axis])
            return true;
    return false;
}

static kith_status answer(ki_search *w, kith_placement **placement)
{
    bool is_identity = !w->has_candidate || !ki_candidate_is_better(&w->best, &w->identity);
    const ki_candidate *chosen = is_identity ? &w->identity : &w->best;
    kith_placement *p = (kith_placement *)ki_calloc(NULL, 1, sizeof *p);
    if (p == NULL)
        return KITH_ERR_NO_MEMORY;
    p->topology = w->t;
    p->sizes = w->sizes;
    p->rank_count = w->sizes.world;
    p->is_identity = is_identity;
    p->cost = chosen->price.total;
    p->identity_cost = w->identity.price.total;
    p->lower_bound = w->lower_bound;
    p->gpus = (int *)ki_calloc(NULL, (size_t)p->rank_count, sizeof(int));
    kith_status status = p->gpus != NULL ? KITH_OK : KITH_ERR_NO_MEMORY;
    if (status == KITH_OK) {
        memcpy(p->gpus, chosen->gpus, (size_t)p->rank_count * sizeof(int));
        status = list_leftover(w, p);
    }
    int axis = ki_innermost_axis(&w->sizes);
    bool has_first = w->has_first && (is_identity || w->knows_first) && is_in_node(w, axis);
    ki_report_input input = { .islands = &w->islands,
                              .uses = w->uses,
                              .price = &chosen->price,
                              .identity_price = &w->identity.price,
                              .identity = w->identity.gpus,
                              .first = has_first ? &w->first : NULL,
                              .first_axis = axis,
                              .cut = chosen->cut,
                              .identity_cut = w->identity.cut,
                              .is_identity = is_identity,
                              .is_search_worse = w->has_candidate &&
                                                 ki_compare_costs(w->identity.price.total, w->best.price.total) < 0,
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

static void tell(const ki_search *w, double fraction)
{
    if (w->options.progress != NULL)
        w->options.progress(w->options.progress_arg, "placing", fraction);
}

static kith_status check_traffic(const kith_axis_traffic *traffic)
{
    for (int a = 0; traffic != NULL && a < KI_AXES; a++)
        if (!(traffic[a].calls >= 0 && traffic[a].calls < 1e15 && traffic[a].nbytes >= 0 && traffic[a].nbytes < 1e18) ||
            !(traffic[a].hidden_s >= 0 && isfinite(traffic[a].hidden_s)) || (unsigned)traffic[a].op > KITH_COST_SHIFT)
            return ki_fail_quiet(
                KITH_ERR_INVALID_ARG,
                "placement: traffic of %s is op %d, %g calls of %g bytes, %g s hidden; valid: an op of kith_cost_op, "
                "calls below 1e15, bytes below 1e18, seconds from 0 on",
                ki_axis_names[a], (int)traffic[a].op, traffic[a].calls, traffic[a].nbytes, traffic[a].hidden_s);
    return KITH_OK;
}

static kith_status begin(ki_search *w, const kith_placement_options *options, struct ki_cost_session *session)
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
        status = ki_ring_maker_init(&w->maker, w->t, session);
    return status;
}

static kith_status allocate(ki_search *w)
{
    size_t world = (size_t)w->sizes.world, islands = (size_t)w->islands.count;
    size_t nodes = (size_t)kith_topology_node_count(w->t);
    w->locals = (ki_local *)ki_calloc(NULL, (size_t)kith_topology_kind_count(w->t), sizeof(ki_local));
    w->position_of_rank = (int *)ki_calloc(NULL, world, sizeof(int));
    w->sequence = (int *)ki_calloc(NULL, 5 * islands, sizeof(int));
    w->scratch = (int *)ki_calloc(NULL, 2 * world + nodes, sizeof(int));
    if (w->locals == NULL || w->position_of_rank == NULL || w->sequence == NULL || w->scratch == NULL ||
        candidate_init(w, &w->identity) != KITH_OK || candidate_init(w, &w->best) != KITH_OK ||
        candidate_init(w, &w->trial) != KITH_OK)
        return KITH_ERR_NO_MEMORY;
    w->file_order = w->sequence + islands;
    for (int i = 0; i < w->islands.count; i++)
        w->file_order[i] = i;
    w->unit_sequence = w->sequence + 2 * islands;
    w->rank_of_island = w->sequence + 3 * islands;
    ki_uses_make(&w->options, &w->sizes, w->uses);
    for (int a = 0; w->options.traffic != NULL && a < KI_AXES; a++)
        w->has_traffic = w->has_traffic || w->options.traffic[a].calls > 0;
    w->lower_bound = ki_bound_find(&w->islands, &w->sizes, w->uses);
    for (int a = 0; a < KI_AXES; a++)
        w->flows[a] = (ki_axis_flow){ ki_use_hop_nbytes(&w->uses[a], w->sizes.size[a]), ki_use_is_chain(&w->uses[a]) };
    return KITH_OK;
}

static void end(ki_search *w)
{
    for (int k = 0; w->locals != NULL && k < kith_topology_kind_count(w->t); k++)
        ki_local_fini(&w->locals[k]);
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
    return ki_place(topology, options, false, NULL, placement);
}

kith_status ki_place(const kith_topology *topology, const kith_placement_options *options, bool is_quick,
                     struct ki_cost_session *session, kith_placement **placement)
{
    if (topology == NULL || placement == NULL)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "kith_place: the topology or the result is NULL");
    ki_search w = { .t = topology };
    kith_status status = begin(&w, options, session);
    w.is_hasty = is_quick;
    w.is_quick = is_quick && w.sizes.world > KI_QUICK_RANKS;
    if (status == KITH_OK)
        status = allocate(&w);
    if (status == KITH_OK) {
        tell(&w, 0);
        assign_identity(&w);
        status = ki_candidate_judge(&w, &w.identity);
    }
    if (status == KITH_OK && !w.options.keep_order)
        status = ki_search_all(&w);
    if (status == KITH_OK)
        status = answer(&w, placement);
    if (status == KITH_OK)
        tell(&w, 1);
    end(&w);
    return status;
}
