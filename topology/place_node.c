/* topology/place_node.c - partition of up to 16 units into equal groups, exactly.
 *
 * Wanted, in this order: few units that are used last; the widest worst link over the rings of all groups; the largest
 * sum of links inside groups; the largest finer key; the smallest numbers. The first of the link keys is a minimum over
 * groups, the others are sums, and a minimum followed by a sum has no optimal substructure (a part that is better in
 * its minimum may be worse in its sum while the minimum is decided elsewhere). So there are two passes over all subsets
 * of units: the first finds the widest worst link, the second keeps to groups that reach it and maximises the sums.
 * Taking the heaviest links first instead fails on machines as common as a DGX-1.
 *
 * A subset's partition is its group around the lowest unit, and the best partition of the rest; for 16 units and groups
 * of 4 that is 7 million steps at most. Rings of all groups come out of one table: narrowest link of the best path from
 * the lowest unit of a subset through all its units to each of them.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "place.h"

#include "core/base/error.h"
#include "core/base/mem.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum { N = KI_EXACT_UNITS, FULL = 255 };

typedef struct work {
    const ki_partition_problem *p;
    int n, k, subsets;
    unsigned char rank[N][N]; /* values as ranks 1, 2, ..., so that the tables are small */
    int values[N * N + 1];    /* value of a rank */
    int last_mask;            /* units that are used last */
    int *groups;              /* all groups as masks, by their lowest unit */
    int first_group[N + 1];   /* where the groups of a lowest unit begin */
    unsigned char *path;      /* [subsets * N] */
    unsigned char *ring;      /* [subsets]: narrowest link of the best ring */
    unsigned char *worst;     /* [subsets]: over the groups of the best partition */
    int *choice;              /* [subsets]: group of the lowest unit; 0: none */
    int64_t *sum, *finer, *ways;
} work;

/* ---- tables ---- */

static int compare_ints(const void *a, const void *b)
{
    int x = *(const int *)a, y = *(const int *)b;
    return (x > y) - (x < y);
}

static void rank_values(work *w)
{
    int all[N * N], count = 0, distinct = 0;
    for (int i = 0; i < w->n; i++)
        for (int j = 0; j < i; j++)
            all[count++] = w->p->value[i * w->n + j];
    qsort(all, (size_t)count, sizeof all[0], compare_ints);
    for (int i = 0; i < count; i++)
        if (i == 0 || all[i] != all[i - 1])
            w->values[++distinct] = all[i];
    for (int i = 0; i < w->n; i++)
        for (int j = 0; j < w->n; j++)
            for (int r = 1; i != j && r <= distinct; r++)
                if (w->values[r] == w->p->value[i * w->n + j])
                    w->rank[i][j] = (unsigned char)r;
}

static void add_groups(work *w, int mask, int next, int left, int *count)
{
    if (left == 0) {
        w->groups[(*count)++] = mask;
        return;
    }
    for (int unit = next; unit + left <= w->n; unit++)
        add_groups(w, mask | 1 << unit, unit + 1, left - 1, count);
}

static void list_groups(work *w)
{
    int count = 0;
    for (int low = 0; low < w->n; low++) {
        w->first_group[low] = count;
        if (low + w->k <= w->n)
            add_groups(w, 1 << low, low + 1, w->k - 1, &count);
    }
    w->first_group[w->n] = count;
}

static unsigned char narrower(unsigned char a, unsigned char b)
{
    return a < b ? a : b;
}

/* Paths from the lowest unit of each subset, by the size of their narrowest link. */
static void find_paths(work *w)
{
    for (int s = 1; s < w->subsets; s++) {
        int low = __builtin_ctz((unsigned)s);
        if (__builtin_popcount((unsigned)s) > w->k)
            continue;
        unsigned char *path = w->path + (size_t)s * N;
        if (s == 1 << low) {
            path[low] = FULL;
            continue;
        }
        for (int ends = s & ~(1 << low); ends != 0; ends &= ends - 1) {
            int end = __builtin_ctz((unsigned)ends), before = s & ~(1 << end);
            const unsigned char *shorter = w->path + (size_t)before * N;
            unsigned char best = 0;
            for (int from = before; from != 0; from &= from - 1) {
                int unit = __builtin_ctz((unsigned)from);
                unsigned char got = narrower(shorter[unit], w->rank[unit][end]);
                best = got > best ? got : best;
            }
            path[end] = best;
        }
    }
}

static void close_rings(work *w)
{
    for (int g = 0; g < w->first_group[w->n]; g++) {
        int group = w->groups[g], low = __builtin_ctz((unsigned)group);
        unsigned char best = w->k == 1 ? FULL : 0;
        for (int ends = group & ~(1 << low); ends != 0; ends &= ends - 1) {
            int end = __builtin_ctz((unsigned)ends);
            unsigned char got = narrower(w->path[(size_t)group * N + (size_t)end], w->rank[end][low]);
            best = got > best ? got : best;
        }
        w->ring[group] = best;
    }
}

/* ---- first pass: the widest worst link ---- */

static bool is_whole(const work *w, int subset)
{
    return __builtin_popcount((unsigned)subset) % w->k == 0;
}

static void find_worst(work *w)
{
    w->worst[0] = FULL;
    for (int s = 1; s < w->subsets; s++) {
        if (!is_whole(w, s))
            continue;
        int low = __builtin_ctz((unsigned)s);
        for (int g = w->first_group[low]; g < w->first_group[low + 1]; g++) {
            int group = w->groups[g];
            if ((group & ~s) != 0)
                continue;
            unsigned char got = narrower(w->ring[group], w->worst[s & ~group]);
            w->worst[s] = got > w->worst[s] ? got : w->worst[s];
        }
    }
}

/* ---- second pass: sums ---- */

static int64_t inside(const work *w, const int *table, int group)
{
    int64_t sum = 0;
    for (int a = group; table != NULL && a != 0; a &= a - 1)
        for (int b = a & (a - 1); b != 0; b &= b - 1)
            sum += table[__builtin_ctz((unsigned)a) * w->n + __builtin_ctz((unsigned)b)];
    return sum;
}

/* Of two groups with as many units: has a the smaller numbers? */
static bool is_smaller(int a, int b)
{
    return a != b && (a & ((a ^ b) & -(a ^ b))) != 0;
}

static void consider(work *w, int s, int group, int64_t sum, int64_t finer)
{
    int rest = s & ~group;
    if (w->choice[s] != 0 && sum + w->sum[rest] < w->sum[s])
        return;
    bool is_better = w->choice[s] == 0 || sum + w->sum[rest] > w->sum[s];
    w->ways[s] = is_better ? w->ways[rest] : w->ways[s] + w->ways[rest];
    int64_t finer_all = finer + w->finer[rest];
    if (is_better || finer_all > w->finer[s] || (finer_all == w->finer[s] && is_smaller(group, w->choice[s]))) {
        w->sum[s] = sum + w->sum[rest];
        w->finer[s] = finer_all;
        w->choice[s] = group;
    }
}

/* sums of each group, in the order of w->groups */
static void find_sums(work *w, unsigned char worst, const int64_t *sums, const int64_t *finers)
{
    w->ways[0] = 1;
    for (int s = 1; s < w->subsets; s++) {
        if (!is_whole(w, s) || w->worst[s] < worst)
            continue;
        int low = __builtin_ctz((unsigned)s);
        for (int g = w->first_group[low]; g < w->first_group[low + 1]; g++) {
            int group = w->groups[g], rest = s & ~group;
            if ((group & ~s) == 0 && w->ring[group] >= worst && w->worst[rest] >= worst)
                consider(w, s, group, sums[g], finers[g]);
        }
    }
}

/* ---- the answer ---- */

/* Are the numbers of the partition of a smaller than those of b? */
static bool is_partition_smaller(const work *w, int a, int b)
{
    while (a != 0 && b != 0) {
        if (w->choice[a] != w->choice[b]) {
            int low_a = __builtin_ctz((unsigned)a), low_b = __builtin_ctz((unsigned)b);
            return low_a != low_b ? low_a < low_b : is_smaller(w->choice[a], w->choice[b]);
        }
        a &= ~w->choice[a];
        b &= ~w->choice[b];
    }
    return false;
}

static int last_count(const work *w, int subset)
{
    return __builtin_popcount((unsigned)(subset & w->last_mask));
}

/* The widest worst link over all sets of units that may be in use: as many as wanted, as few as possible of those that
 * are used last. */
static unsigned char best_worst(const work *w, int used, int *few)
{
    unsigned char best = 0;
    *few = N + 1;
    for (int s = 0; s < w->subsets; s++) {
        if (__builtin_popcount((unsigned)s) != used || last_count(w, s) > *few)
            continue;
        if (last_count(w, s) < *few || w->worst[s] > best) {
            *few = last_count(w, s);
            best = w->worst[s];
        }
    }
    return best;
}

static int best_subset(const work *w, int used, int few, unsigned char worst, int64_t *ways)
{
    int best = 0;
    for (int s = 1; s < w->subsets; s++) {
        if (__builtin_popcount((unsigned)s) != used || last_count(w, s) != few || w->worst[s] < worst)
            continue;
        bool is_better = best == 0 || w->sum[s] > w->sum[best];
        bool is_equal = !is_better && w->sum[s] == w->sum[best];
        *ways = is_better ? w->ways[s] : *ways + (is_equal ? w->ways[s] : 0);
        if (is_better || (is_equal && (w->finer[s] > w->finer[best] ||
                                       (w->finer[s] == w->finer[best] && is_partition_smaller(w, s, best)))))
            best = s;
    }
    return best;
}

static void write_groups(const work *w, int subset, int *groups)
{
    while (subset != 0) {
        int group = w->choice[subset];
        for (int units = group; units != 0; units &= units - 1)
            *groups++ = __builtin_ctz((unsigned)units);
        subset &= ~group;
    }
}

static kith_status solve(work *w, int *groups, ki_partition *result)
{
    int group_total = w->first_group[w->n], few;
    int64_t *sums = (int64_t *)ki_calloc(NULL, 2 * (size_t)group_total, sizeof *sums);
    if (sums == NULL)
        return KITH_ERR_NO_MEMORY;
    find_paths(w);
    close_rings(w);
    find_worst(w);
    int used = w->k * w->p->group_count;
    unsigned char worst = best_worst(w, used, &few);
    const int *finer = worst != FULL && w->values[worst] < w->p->finer_below ? w->p->finer : NULL;
    for (int g = 0; g < group_total; g++) {
        sums[g] = inside(w, w->p->value, w->groups[g]);
        sums[group_total + g] = inside(w, finer, w->groups[g]);
    }
    find_sums(w, worst, sums, sums + group_total);
    ki_free(NULL, sums);
    int64_t ways = 0;
    int best = best_subset(w, used, few, worst, &ways);
    write_groups(w, best, groups);
    *result = (ki_partition){ .worst = worst == FULL ? INT_MAX : w->values[worst],
                              .sum = w->sum[best],
                              .finer = w->finer[best],
                              .equally_good = ways,
                              .is_exact = true };
    result->worst_bound = result->worst;
    result->sum_bound = result->sum;
    return KITH_OK;
}

static size_t count_groups(int n, int k)
{
    size_t count = 1;
    for (int i = 0; i < k; i++)
        count = count * (size_t)(n - i) / (size_t)(i + 1);
    return count;
}

kith_status ki_partition_exact(const ki_partition_problem *p, int *groups, ki_partition *result)
{
    work *w = (work *)ki_calloc(NULL, 1, sizeof *w);
    if (w == NULL)
        return KITH_ERR_NO_MEMORY;
    w->p = p;
    w->n = p->unit_count;
    w->k = p->group_size;
    w->subsets = 1 << w->n;
    for (int i = 0; p->is_last != NULL && i < w->n; i++)
        w->last_mask |= p->is_last[i] ? 1 << i : 0;
    size_t subsets = (size_t)w->subsets;
    w->groups = (int *)ki_calloc(NULL, count_groups(w->n, w->k), sizeof(int));
    w->path = (unsigned char *)ki_calloc(NULL, subsets * (N + 2), 1);
    w->choice = (int *)ki_calloc(NULL, subsets, sizeof(int));
    w->sum = (int64_t *)ki_calloc(NULL, 3 * subsets, sizeof(int64_t));
    kith_status status = KITH_ERR_NO_MEMORY;
    if (w->groups != NULL && w->path != NULL && w->choice != NULL && w->sum != NULL) {
        w->ring = w->path + subsets * N;
        w->worst = w->ring + subsets;
        w->finer = w->sum + subsets;
        w->ways = w->finer + subsets;
        rank_values(w);
        list_groups(w);
        status = solve(w, groups, result);
    }
    ki_free(NULL, w->groups);
    ki_free(NULL, w->path);
    ki_free(NULL, w->choice);
    ki_free(NULL, w->sum);
    ki_free(NULL, w);
    return status;
}

kith_status ki_partition_solve(const ki_partition_problem *p, int *groups, ki_partition *result)
{
    if (p->unit_count < 1 || p->group_size < 1 || p->group_count < 1 ||
        (int64_t)p->group_size * p->group_count > p->unit_count)
        return ki_fail(KITH_ERR_INTERNAL, "partition: %d groups of %d out of %d units", p->group_count, p->group_size,
                       p->unit_count);
    return p->unit_count <= KI_EXACT_UNITS ? ki_partition_exact(p, groups, result)
                                           : ki_partition_search(p, groups, result);
}
