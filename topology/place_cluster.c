/* topology/place_cluster.c - the sequence of islands: groups inside switches.
 *
 * Islands are sorted by their switch (from the root down, siblings by name), their block of the scheduler, and name, so
 * that neighbours in the sequence are neighbours in the tree. In a regular tree filling them in this order keeps every
 * group in the smallest part that can hold it, because axes are nested like the tree. Where a switch does not hold a
 * whole number of segments (the islands that one group of an outer axis and all inside it fill), whole segments come
 * first, switch after switch, and the islands that remain make up the last segments among themselves - the same rule
 * applies to them with the next smaller segment.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "place.h"

#include "core/base/mem.h"

#include <ctype.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* Containers of an island, from small to large: block, leaf, the switches above it, everything. */
enum { LEVELS = KI_DISTANCE_LEVELS + 2, EVERYTHING = LEVELS - 1 };

typedef struct sorter {
    const ki_islands *islands;
    int *rank_of_switch; /* in depth-first order */
    const int *rank_of_island;
    int unit;
} sorter;

int ki_natural_compare(const char *a, const char *b)
{
    while (*a != '\0' && *b != '\0') {
        if (isdigit((unsigned char)*a) && isdigit((unsigned char)*b)) {
            while (*a == '0')
                a++;
            while (*b == '0')
                b++;
            size_t la = strspn(a, "0123456789"), lb = strspn(b, "0123456789");
            int order = la != lb ? (la < lb ? -1 : 1) : strncmp(a, b, la);
            if (order != 0)
                return order;
            a += la;
            b += lb;
        } else if (*a != *b) {
            return (unsigned char)*a < (unsigned char)*b ? -1 : 1;
        } else {
            a++;
            b++;
        }
    }
    return (*a != '\0') - (*b != '\0');
}

/* ---- switches in depth-first order ---- */

static int compare_switches(const void *a, const void *b, void *arg)
{
    const kith_topology *t = (const kith_topology *)arg;
    int i = *(const int *)a, j = *(const int *)b;
    const kith_switch *x = kith_topology_switch(t, i), *y = kith_topology_switch(t, j);
    if (x->parent != y->parent)
        return x->parent < y->parent ? -1 : 1;
    int order = x->name != NULL && y->name != NULL ? ki_natural_compare(x->name, y->name) : 0;
    return order != 0 ? order : (i > j) - (i < j);
}

/* first[p + 1]: where the children of p begin in `children`; roots are children of -1. */
static void list_children(const kith_topology *t, int count, int *children, int *first)
{
    for (int s = 0; s < count; s++)
        children[s] = s;
    qsort_r(children, (size_t)count, sizeof(int), compare_switches, (void *)(uintptr_t)t);
    for (int p = -1, at = 0; p < count; p++) {
        while (at < count && kith_topology_switch(t, children[at])->parent < p)
            at++;
        first[p + 1] = at;
    }
    first[count + 1] = count;
}

static void rank_switches(const int *children, const int *first, int *stack, int *rank)
{
    int depth = 0, next = 0;
    for (int i = first[1] - 1; i >= first[0]; i--)
        stack[depth++] = children[i];
    while (depth > 0) {
        int s = stack[--depth];
        rank[s] = next++;
        for (int i = first[s + 2] - 1; i >= first[s + 1]; i--)
            stack[depth++] = children[i];
    }
}

static kith_status make_ranks(const kith_topology *t, int **rank)
{
    int count = kith_topology_switch_count(t);
    int *scratch = (int *)ki_calloc(NULL, 3 * (size_t)count + 2, sizeof *scratch);
    *rank = (int *)ki_calloc(NULL, (size_t)count, sizeof **rank);
    if (scratch == NULL || *rank == NULL) {
        ki_free(NULL, scratch);
        ki_free(NULL, *rank);
        *rank = NULL;
        return KITH_ERR_NO_MEMORY;
    }
    list_children(t, count, scratch, scratch + count);
    rank_switches(scratch, scratch + count, scratch + 2 * count + 2, *rank);
    ki_free(NULL, scratch);
    return KITH_OK;
}

/* ---- sorting ---- */

static const kith_node *first_node(const ki_islands *islands, int island)
{
    return kith_topology_node(islands->t, islands->nodes[islands->islands[island].node_from]);
}

/* Bigger islands first: segments do not mix sizes. */
static int rank_of(const sorter *s, int island)
{
    if (s->rank_of_island != NULL)
        return s->rank_of_island[island];
    return INT_MAX - s->islands->islands[island].gpu_count / s->unit;
}

static int compare_islands(const void *a, const void *b, void *arg)
{
    const sorter *s = (const sorter *)arg;
    int i = *(const int *)a, j = *(const int *)b;
    int rank_i = rank_of(s, i), rank_j = rank_of(s, j);
    if (rank_i != rank_j)
        return rank_i < rank_j ? -1 : 1;
    const kith_node *x = first_node(s->islands, i), *y = first_node(s->islands, j);
    int leaf_x = x->leaf >= 0 ? s->rank_of_switch[x->leaf] : INT_MAX;
    int leaf_y = y->leaf >= 0 ? s->rank_of_switch[y->leaf] : INT_MAX;
    if (leaf_x != leaf_y)
        return leaf_x < leaf_y ? -1 : 1;
    if (x->domain != y->domain)
        return x->domain < y->domain ? -1 : 1;
    int order = ki_natural_compare(x->name, y->name);
    return order != 0 ? order : (i > j) - (i < j);
}

/* ---- segments ---- */

typedef struct arranging {
    const int *containers; /* [position * LEVELS], of positions in the sorted list */
    const int *spans;      /* islands of a segment, largest first */
    int span_count;
    int *scratch;
    bool is_regular;
} arranging;

static int compare_ints(const void *a, const void *b)
{
    int x = *(const int *)a, y = *(const int *)b;
    return (x > y) - (x < y);
}

static int run_length(const arranging *w, const int *list, int count, int from, int level)
{
    int end = from + 1, id = w->containers[list[from] * LEVELS + level];
    while (end < count && w->containers[list[end] * LEVELS + level] == id)
        end++;
    return end - from;
}

/* Smallest containers of which at least one holds a whole segment. */
static int level_for(const arranging *w, const int *list, int count, int span)
{
    for (int level = 0; level < EVERYTHING; level++)
        for (int from = 0, length; from < count; from += length) {
            length = run_length(w, list, count, from, level);
            if (length >= span && w->containers[list[from] * LEVELS + level] >= 0)
                return level;
        }
    return EVERYTHING;
}

/* list: ascending positions. */
static void arrange(arranging *w, int *list, int count, int i)
{
    while (i < w->span_count && w->spans[i] > count)
        i++;
    if (i >= w->span_count)
        return;
    int span = w->spans[i], level = level_for(w, list, count, span), kept = 0, rest = 0;
    for (int from = 0, length; from < count; from += length) {
        length = run_length(w, list, count, from, level);
        w->scratch += rest; /* what is set aside so far lies below */
        arrange(w, list + from, length, i + 1);
        w->scratch -= rest;
        int whole = length / span * span;
        memcpy(w->scratch + rest, list + from + whole, (size_t)(length - whole) * sizeof(int));
        rest += length - whole;
        memmove(list + kept, list + from, (size_t)whole * sizeof(int));
        kept += whole;
    }
    if (rest == 0)
        return;
    w->is_regular = false;
    memcpy(list + kept, w->scratch, (size_t)rest * sizeof(int));
    qsort(list + kept, (size_t)rest, sizeof(int), compare_ints);
    arrange(w, list + kept, rest, i + 1);
}

/* Segments of islands of so many ranks each; those that do not come out even are left aside. */
static int list_spans(const ki_sizes *sizes, int64_t ranks, int *spans)
{
    int count = 0;
    for (int i = KI_AXES - 1; i >= 0; i--) {
        int64_t segment = sizes->stride[sizes->order[i]] * sizes->size[sizes->order[i]];
        if (segment > ranks && segment % ranks == 0 && (count == 0 || spans[count - 1] != (int)(segment / ranks)))
            spans[count++] = (int)(segment / ranks);
    }
    return count;
}

/* Runs of islands of one rank, which have one size, are arranged each by itself. */
static void arrange_all(arranging *w, const sorter *s, const ki_sizes *sizes, const int *sorted, int *list)
{
    const ki_islands *islands = s->islands;
    int spans[KI_AXES];
    for (int from = 0, end; from < islands->count; from = end) {
        int units = islands->islands[sorted[from]].gpu_count / s->unit;
        for (end = from; end < islands->count && rank_of(s, sorted[end]) == rank_of(s, sorted[from]); end++)
            list[end] = end;
        if (units == 0)
            break;
        w->is_regular = w->is_regular && from == 0;
        w->spans = spans;
        w->span_count = list_spans(sizes, (int64_t)units * s->unit, spans);
        arrange(w, list + from, end - from, 0);
    }
}

static void list_containers(const ki_islands *islands, const ki_distances *d, const int *sorted, int *containers)
{
    for (int i = 0; i < islands->count; i++) {
        const ki_island *island = &islands->islands[sorted[i]];
        int node = islands->nodes[island->node_from], *mine = containers + (size_t)i * LEVELS;
        mine[0] = island->domain < 0 ? kith_topology_node(islands->t, node)->domain : -1;
        for (int level = 0; level < KI_DISTANCE_LEVELS; level++)
            mine[1 + level] = d->ancestors[(size_t)node * KI_DISTANCE_LEVELS + (size_t)level];
        mine[EVERYTHING] = 0;
    }
}

static kith_status sort_and_arrange(sorter *s, const ki_distances *d, const ki_sizes *sizes, int *sequence,
                                    bool *is_regular)
{
    const ki_islands *islands = s->islands;
    size_t count = (size_t)islands->count;
    int *sorted = (int *)ki_calloc(NULL, count * (3 + LEVELS), sizeof *sorted);
    if (sorted == NULL)
        return KITH_ERR_NO_MEMORY;
    int *list = sorted + count, *containers = sorted + 3 * count;
    for (int i = 0; i < islands->count; i++)
        sorted[i] = list[i] = i;
    qsort_r(sorted, count, sizeof(int), compare_islands, s);
    list_containers(islands, d, sorted, containers);
    arranging w = { .containers = containers, .scratch = sorted + 2 * count, .is_regular = true };
    arrange_all(&w, s, sizes, sorted, list);
    for (size_t i = 0; i < count; i++)
        sequence[i] = sorted[list[i]];
    *is_regular = w.is_regular;
    ki_free(NULL, sorted);
    return KITH_OK;
}

kith_status ki_sequence_make(const ki_islands *islands, const ki_distances *d, const ki_sizes *sizes, int unit,
                             const int *rank_of_island, int *sequence, bool *is_regular)
{
    sorter s = { .islands = islands, .rank_of_island = rank_of_island, .unit = unit };
    kith_status status = make_ranks(islands->t, &s.rank_of_switch);
    if (status == KITH_OK)
        status = sort_and_arrange(&s, d, sizes, sequence, is_regular);
    ki_free(NULL, s.rank_of_switch);
    return status;
}
