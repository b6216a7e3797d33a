/* topology/place_exact.c - the cheapest order of the GPUs of one node, by trying all that could be it.
 *
 * Inside one node a job is small enough to look at every placement, if most are ruled out early (branch and bound).
 * Ranks get GPUs one after the other. What a whole group takes alone is at least what it takes beside others, which can
 * only take bandwidth away; so the slowest whole groups of the axes so far are a bound, and what reaches the best known
 * cost is not followed. Where ranks only talk to the next one, every two neighbours count already.
 *
 * Placements that are the same but for names are looked at once: of GPUs that nothing tells apart (place_canon.c) the
 * first comes first, and along an axis whose members have no order the first line ascends. Both are true of the
 * smallest placement among those that are the same, so one is always left.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "place_search.h"

#include "core/base/mem.h"

#include <math.h>
#include <string.h>

enum {
    MOST_RANKS = 16,
    MOST_VISITS = 100 * 1000, /* ranks given a GPU: some 10 ms */
    MOST_PRICED_RANKS = 6000  /* in groups whose price was not known: some 50 ms */
};

typedef struct exact {
    ki_search *w;
    ki_price_memory memory;
    const kith_node_kind *kind;
    const int *gpus; /* [count]: positions to choose from, in canonical order */
    int count, world, visits_left;
    int mig_left; /* MIG parents that must be taken, since there are not enough others */
    int axes[KI_AXES], axis_count;
    unsigned char *twins;   /* [gpu_count squared] */
    int chosen[MOST_RANKS]; /* index in gpus */
    int at[MOST_RANKS];     /* global GPU */
    int best[MOST_RANKS];   /* positions */
    double best_s;
    bool is_found;
    kith_status status;
} exact;

bool ki_search_is_small(const ki_search *w)
{
    const ki_island *island = &w->islands.islands[0];
    return w->islands.count == 1 && island->node_count == 1 && island->gpu_count <= MOST_RANKS;
}

static int place_on_axis(const ki_sizes *sizes, int axis, int rank)
{
    return (int)(rank / sizes->stride[axis] % sizes->size[axis]);
}

/* On the line of an axis through rank 0. */
static bool is_on_first_line(const ki_sizes *sizes, int axis, int rank)
{
    return rank / sizes->stride[axis] < sizes->size[axis] && rank % sizes->stride[axis] == 0;
}

/* ---- what may come next ---- */

static bool is_first_of_twins(const exact *e, unsigned taken, int i)
{
    for (int j = 0; j < i; j++)
        if ((taken >> j & 1) == 0 && e->twins[e->gpus[i] * e->kind->gpu_count + e->gpus[j]])
            return false;
    return true;
}

/* A broadcast has no order either, but a root; two that shift send to each other, whoever is first. */
static bool has_order(const exact *e, int axis)
{
    const ki_use *use = &e->w->uses[axis];
    if (use->op == KITH_COST_SHIFT && e->w->sizes.size[axis] == 2)
        return false;
    return ki_use_is_ordered(use, axis) || use->op == KITH_COST_BROADCAST;
}

static bool ascends(const exact *e, int rank, int i)
{
    for (int a = 0; a < e->axis_count; a++) {
        int axis = e->axes[a];
        if (!has_order(e, axis) && is_on_first_line(&e->w->sizes, axis, rank) &&
            place_on_axis(&e->w->sizes, axis, rank) > 0 && e->chosen[rank - e->w->sizes.stride[axis]] > i)
            return false;
    }
    return true;
}

/* ---- what it costs ---- */

static double price(exact *e, int axis, const int *groups, int size, int count)
{
    double step_s = INFINITY;
    kith_status status = ki_memory_price(e->w, &e->memory, axis, groups, size, count, INFINITY, &step_s);
    e->status = e->status == KITH_OK ? status : e->status;
    return step_s;
}

/* The group of an axis that rank ends, or the two neighbours that it joins where only neighbours talk; 0: none. */
static double price_of_last(exact *e, int axis, int rank)
{
    const ki_sizes *sizes = &e->w->sizes;
    int members[MOST_RANKS], size = sizes->size[axis], place = place_on_axis(sizes, axis, rank);
    int stride = (int)sizes->stride[axis];
    bool has_hops = e->w->uses[axis].op == KITH_COST_SEND_RECV || e->w->uses[axis].op == KITH_COST_SHIFT;
    if (place == 0 || (!has_hops && place < size - 1))
        return 0;
    int wanted = has_hops ? 2 : size;
    for (int i = 0; i < wanted; i++)
        members[i] = e->at[rank - (wanted - 1 - i) * stride];
    return price(e, axis, members, wanted, 1);
}

static void finish(exact *e)
{
    ki_search *w = e->w;
    double sum = 0;
    for (int a = 0; a < e->axis_count && sum < e->best_s * (1 - 1e-9); a++) {
        int size = w->sizes.size[e->axes[a]];
        ki_axis_groups(&w->sizes, e->axes[a], e->at, w->scratch);
        sum += price(e, e->axes[a], w->scratch, size, e->world / size);
    }
    if (!(sum < e->best_s * (1 - 1e-9)) || e->status != KITH_OK)
        return;
    e->best_s = sum;
    e->is_found = true;
    for (int r = 0; r < e->world; r++)
        e->best[r] = e->gpus[e->chosen[r]];
}

/* slowest: of each axis, the slowest group so far. */
static void choose(exact *e, int rank, unsigned taken, int mig_left, const double *slowest)
{
    if (rank == e->world) {
        finish(e);
        return;
    }
    for (int i = 0; i < e->count && e->status == KITH_OK; i++) {
        bool is_mig = e->kind->gpus[e->gpus[i]].is_mig;
        if ((taken >> i & 1) != 0 || (is_mig && mig_left == 0) || !ascends(e, rank, i) ||
            !is_first_of_twins(e, taken, i))
            continue;
        if (--e->visits_left < 0 || e->memory.ranks_left < 0)
            return;
        double now[KI_AXES], sum = 0;
        e->chosen[rank] = i;
        e->at[rank] = kith_topology_first_gpu(e->w->t, e->w->islands.nodes[0]) + e->gpus[i];
        for (int a = 0; a < e->axis_count; a++) {
            now[a] = fmax(slowest[a], price_of_last(e, e->axes[a], rank));
            sum += now[a];
        }
        if (sum < e->best_s * (1 - 1e-9))
            choose(e, rank + 1, taken | 1u << i, mig_left - is_mig, now);
    }
}

/* ---- the answer ---- */

static int count_mig_needed(const exact *e)
{
    int plain = 0;
    for (int i = 0; i < e->count; i++)
        plain += !e->kind->gpus[e->gpus[i]].is_mig;
    return e->world > plain ? e->world - plain : 0;
}

/* The chosen ones first, the others behind them in the order in which they came. */
static void write_order(const exact *e, int *gpus)
{
    int rest[MOST_RANKS], left = 0;
    for (int i = 0; i < e->count; i++) {
        bool is_used = false;
        for (int r = 0; r < e->world; r++)
            is_used = is_used || e->best[r] == gpus[i];
        if (!is_used)
            rest[left++] = gpus[i];
    }
    memcpy(gpus, e->best, (size_t)e->world * sizeof *gpus);
    memcpy(gpus + e->world, rest, (size_t)left * sizeof *gpus);
}

kith_status ki_search_exact(ki_search *w, double best_s, bool *is_proven)
{
    int kind = kith_topology_node(w->t, w->islands.nodes[0])->kind;
    exact e = { .w = w,
                .kind = kith_topology_kind(w->t, kind),
                .count = w->islands.usable_count[kind],
                .world = w->sizes.world,
                .visits_left = MOST_VISITS,
                .best_s = best_s };
    int gpus[MOST_RANKS];
    const double nothing[KI_AXES] = { 0 };
    memcpy(gpus, w->islands.usable[kind], (size_t)e.count * sizeof *gpus);
    ki_canonical_order(e.kind, gpus, e.count);
    e.gpus = gpus;
    e.axis_count = ki_search_axes(w, e.axes);
    size_t room = (size_t)e.kind->gpu_count;
    e.twins = (unsigned char *)ki_calloc(NULL, room * room, 1);
    e.status = e.twins != NULL ? ki_memory_init(&e.memory, MOST_PRICED_RANKS) : KITH_ERR_NO_MEMORY;
    if (e.status == KITH_OK)
        e.status = ki_twins_find(e.kind, false, e.twins);
    if (e.status == KITH_OK)
        choose(&e, 0, 0, count_mig_needed(&e), nothing);
    if (e.status == KITH_OK && e.is_found)
        write_order(&e, w->locals[kind].gpus);
    *is_proven = e.visits_left >= 0 && e.memory.ranks_left >= 0;
    ki_memory_fini(&e.memory);
    ki_free(NULL, e.twins);
    return e.status;
}
