/* topology/place_class.c - classes of islands, from the one that is best to have ranks to the one to leave over.
 *
 * A job that needs less than the whole cluster should leave over the nodes that would slow it down, which are not those
 * with the fewest GPUs. A step waits for the slowest group, so classes are ranked by what the innermost groups cost in
 * them; among equals the one with more units comes first. place_try.c tries other orders, too, where there are few.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "place_search.h"

#include "core/base/mem.h"
#include "cost.h"

#include <math.h>
#include <stdlib.h>

typedef struct island_class {
    int island; /* the first */
    int units;
    double call_s;
} island_class;

static bool is_one_class(const ki_island *a, const ki_island *b)
{
    return a->kind == b->kind && a->gpu_count == b->gpu_count;
}

/* One call of the innermost axis on all units of the island, whose GPUs are the first of w->trial. */
static kith_status price_inside(ki_search *w, int unit, int units, double *call_s)
{
    int axis = ki_innermost_axis(&w->sizes), size = axis < 0 ? 1 : w->sizes.size[axis];
    int count = units * unit < w->sizes.world ? units * unit : w->sizes.world;
    size = size < unit ? size : unit;
    *call_s = 0;
    if (size == 1)
        return KITH_OK;
    for (int at = 0; at < count; at += size) {
        kith_status status = ki_ring_of_group(&w->maker, w->trial.gpus + at, size, w->scratch + at);
        if (status != KITH_OK)
            return status;
    }
    kith_cost cost;
    kith_status status = ki_cost_session_price(w->maker.session, w->uses[axis].op, w->scratch, size, count / size,
                                               w->uses[axis].nbytes, KI_NO_LIMIT, &cost);
    *call_s = status == KITH_OK ? cost.time_s : INFINITY;
    return status == KITH_ERR_UNSUPPORTED ? KITH_OK : status; /* a link of unknown bandwidth */
}

static kith_status price_class(ki_search *w, int unit, island_class *c)
{
    int *sequence = w->sequence;
    for (int i = 0; i < w->islands.count; i++)
        sequence[i] = i;
    sequence[c->island] = 0;
    sequence[0] = c->island;
    kith_status status = ki_search_assign(w, &w->trial, sequence, unit);
    return status == KITH_OK ? price_inside(w, unit, c->units, &c->call_s) : status;
}

static int compare_classes(const void *a, const void *b)
{
    const island_class *x = (const island_class *)a, *y = (const island_class *)b;
    int order = ki_compare_costs(x->call_s, y->call_s);
    if (order != 0)
        return order;
    return x->units != y->units ? y->units - x->units : x->island - y->island;
}

/* class_of: [islands]; those too small for a unit get -1. */
static int list_classes(const ki_search *w, int unit, island_class *classes, int *class_of)
{
    int count = 0;
    for (int i = 0; i < w->islands.count; i++) {
        const ki_island *island = &w->islands.islands[i];
        int units = island->gpu_count / unit, c = 0;
        class_of[i] = -1;
        if (units == 0)
            continue;
        while (c < count && !is_one_class(island, &w->islands.islands[classes[c].island]))
            c++;
        if (c == count)
            classes[count++] = (island_class){ .island = i, .units = units };
        class_of[i] = c;
    }
    return count;
}

kith_status ki_classes_rank(ki_search *w, int unit, int *rank_of_island, int *class_count)
{
    enum { MOST_CLASSES = 64 }; /* more are not told apart by what they cost */
    size_t islands = (size_t)w->islands.count;
    island_class *classes = (island_class *)ki_calloc(NULL, islands, sizeof *classes);
    int *rank = (int *)ki_calloc(NULL, islands, sizeof *rank);
    kith_status status = classes != NULL && rank != NULL ? KITH_OK : KITH_ERR_NO_MEMORY;
    if (status == KITH_OK) {
        int count = list_classes(w, unit, classes, rank_of_island);
        for (int c = 0; c < count && count > 1 && count <= MOST_CLASSES && status == KITH_OK; c++)
            status = price_class(w, unit, &classes[c]);
        qsort(classes, (size_t)count, sizeof *classes, compare_classes);
        for (int c = 0; c < count; c++)
            rank[rank_of_island[classes[c].island]] = c;
        for (int i = 0; i < w->islands.count; i++)
            rank_of_island[i] = rank_of_island[i] >= 0 ? rank[rank_of_island[i]] : count;
        *class_count = count;
    }
    ki_free(NULL, classes);
    ki_free(NULL, rank);
    return status;
}
