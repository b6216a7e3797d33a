/* topology/place_orders.c - candidates in which outer axes fill the machine in another order than ranks count.
 *
 * The order of axes says how ranks count, not which axis should be near: with "dp-pp" the groups of dp get neighbours
 * and pipelines reach far, whatever the two send. So each order of the outer axes (cp, ep, dp, pp: at most 24) lays its
 * units into the nodes by the same rules as the given one, and ranks go to where that order has them; tp stays
 * innermost. What has been asked for is priced, so the cheapest stays.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "place_search.h"

#include <string.h>

enum {
    MOST_PRICED_RANKS = 40000, /* of all candidates together: a quarter of a second */
    QUICK_ORDERS = 1           /* where few candidates are enough */
};

/* The given sizes, and the order that is tried. */
typedef struct reorder {
    ki_sizes given, tried;
    int outer[KI_AXES], outer_count; /* axes with more than one rank, apart from tp */
    int ranks_left;
} reorder;

static void list_outer(reorder *r)
{
    for (int i = 0; i < KI_AXES; i++)
        if (r->given.order[i] != KI_TP && r->given.size[r->given.order[i]] > 1)
            r->outer[r->outer_count++] = r->given.order[i];
}

/* tp, the outer axes in that order, and what has one rank. */
static void set_order(reorder *r, const int *permutation)
{
    int count = 0;
    int64_t stride = 1;
    r->tried = r->given;
    r->tried.order[count++] = KI_TP;
    for (int i = 0; i < r->outer_count; i++)
        r->tried.order[count++] = r->outer[permutation[i]];
    for (int a = 0; a < KI_AXES; a++)
        if (a != KI_TP && r->given.size[a] == 1)
            r->tried.order[count++] = a;
    for (int i = 0; i < KI_AXES; i++) {
        r->tried.stride[r->tried.order[i]] = stride;
        stride *= r->tried.size[r->tried.order[i]];
    }
}

/* The rank in the tried order that has the place of a rank in the given order. */
static int tried_rank(const reorder *r, int rank)
{
    int64_t other = 0;
    for (int a = 0; a < KI_AXES; a++)
        other += rank / r->given.stride[a] % r->given.size[a] * r->tried.stride[a];
    return (int)other;
}

static void renumber(const reorder *r, int *of_rank, int *scratch)
{
    memcpy(scratch, of_rank, (size_t)r->given.world * sizeof *scratch);
    for (int rank = 0; rank < r->given.world; rank++)
        of_rank[rank] = scratch[tried_rank(r, rank)];
}

/* w->sizes: the tried order. */
static kith_status consider(ki_search *w, reorder *r, const int *sequence, int unit)
{
    kith_status status = ki_search_assign(w, &w->trial, sequence, unit);
    if (status != KITH_OK)
        return status;
    renumber(r, w->trial.gpus, w->scratch);
    renumber(r, w->trial.island_of_rank, w->scratch);
    w->sizes = r->given;
    w->trial.is_climbed = true;
    status = ki_search_keep(w);
    w->sizes = r->tried;
    r->ranks_left -= r->given.world;
    return status;
}

/* Nodes in the order of the file, and by switch with and without regard to their kinds. */
static kith_status try_sequences(ki_search *w, reorder *r, int unit)
{
    bool is_regular;
    int class_count = 0;
    kith_status status = consider(w, r, w->file_order, unit);
    if (status == KITH_OK)
        status = ki_classes_rank(w, unit, w->rank_of_island, &class_count);
    for (int i = 0; status == KITH_OK && i < 2 && r->ranks_left > 0; i++) {
        const int *rank = i == 0 ? NULL : w->rank_of_island;
        if (i == 1 && class_count < 2)
            break;
        status = ki_sequence_make(&w->islands, &w->distances, &w->sizes, unit, rank, w->sequence, &is_regular);
        if (status == KITH_OK && memcmp(w->sequence, w->file_order, (size_t)w->islands.count * sizeof(int)) != 0)
            status = consider(w, r, w->sequence, unit);
    }
    return status;
}

static kith_status try_order(ki_search *w, reorder *r, const int *permutation)
{
    int units[KI_AXES + 1];
    set_order(r, permutation);
    if (memcmp(r->tried.stride, r->given.stride, sizeof r->given.stride) == 0)
        return KITH_OK; /* the given one, which was tried */
    int count = ki_sizes_units(&r->tried, &w->islands, units);
    if (count == 0)
        return KITH_OK;
    w->sizes = r->tried;
    kith_status status = ki_search_make_locals(w, units[0], false);
    if (status == KITH_OK)
        status = try_sequences(w, r, units[0]);
    w->sizes = r->given;
    return status;
}

kith_status ki_search_orders(ki_search *w)
{
    reorder r = { .given = w->sizes, .ranks_left = MOST_PRICED_RANKS };
    int permutation[KI_AXES] = { 0, 1, 2, 3, 4 };
    kith_status status = KITH_OK;
    list_outer(&r);
    if (w->is_quick)
        r.ranks_left = QUICK_ORDERS * w->sizes.world;
    do
        status = try_order(w, &r, permutation);
    while (status == KITH_OK && r.ranks_left > 0 && ki_next_permutation(permutation, r.outer_count));
    return status;
}
