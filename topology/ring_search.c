/* topology/ring_search.c - several rings over GPUs that are joined by direct links.
 *
 * One ring over a mesh leaves most links idle: 4 GPUs with 6 links to each other use 6 of 18 links of a GPU. As NCCL
 * does, rings are added one after the other, each being the widest over what the others left, until nothing of use is
 * left. All (size-1)! directed rings are looked at, so at most 8 GPUs.
 *
 * What is best depends on the mesh. Where the links fall apart into rings (DGX-1V: one of double links, one of single
 * ones), each ring should take all it can; where all pairs are alike, a part, so that the next ring goes elsewhere. So
 * several parts are tried, and the set that carries most is kept. Rings that come back are made one.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "cost.h"

#include "core/base/mem.h"
#include <string.h>

enum { MOST_SIZE = 8, MOST_HOPS = 8, TURNS = 64 };

static const double LEAST = 0.05; /* narrower rings are not worth their latency */

/* What one hop of a ring needs: resources by their number inside the search. */
typedef struct need {
    int resources[MOST_HOPS];
    float shares[MOST_HOPS];
    int count;
    double gbps; /* alone */
    bool is_direct;
} need;

typedef struct search {
    int size;
    need needs[MOST_SIZE][MOST_SIZE];
    double left[MOST_SIZE * MOST_SIZE * MOST_HOPS];
    int global[MOST_SIZE * MOST_SIZE * MOST_HOPS];
    int resource_count;
    int order[MOST_SIZE], best[MOST_SIZE];
    double best_gbps;
} search;

static int local_number(search *s, int resource, double gbps)
{
    int i = 0;
    while (i < s->resource_count && s->global[i] != resource)
        i++;
    if (i == s->resource_count) {
        s->global[s->resource_count] = resource;
        s->left[s->resource_count++] = gbps;
    }
    return i;
}

/* A link of unknown bandwidth stays at 0: no ring goes over it. */
static bool read_needs(search *s, ki_paths *paths, const int *group)
{
    for (int i = 0; i < s->size; i++)
        for (int j = 0; j < s->size; j++) {
            ki_route route;
            if (i == j)
                continue;
            kith_status status = ki_paths_route(paths, group[i], group[j], &route);
            if (status == KITH_ERR_UNSUPPORTED)
                continue;
            if (status != KITH_OK || route.hop_count > MOST_HOPS)
                return false;
            need *n = &s->needs[i][j];
            n->count = route.hop_count;
            n->gbps = route.gbps;
            n->is_direct = route.type == KITH_LINK_NVLINK || route.type == KITH_LINK_XGMI;
            for (int h = 0; h < route.hop_count; h++) {
                n->resources[h] = local_number(s, route.hops[h].resource, ki_paths_gbps(paths)[route.hops[h].resource]);
                n->shares[h] = route.hops[h].share;
            }
        }
    return true;
}

static double hop_gbps(const search *s, int from, int to)
{
    const need *n = &s->needs[from][to];
    double gbps = n->gbps;
    for (int h = 0; h < n->count; h++) {
        double left = s->left[n->resources[h]] / (double)n->shares[h];
        gbps = left < gbps ? left : gbps;
    }
    return gbps;
}

/* Extends order[0 .. depth) in every way that can still be wider than the best. */
static void extend(search *s, const double (*gbps)[MOST_SIZE], int depth, unsigned used, double width)
{
    int last = s->order[depth - 1];
    if (depth == s->size) {
        double whole = gbps[last][s->order[0]] < width ? gbps[last][s->order[0]] : width;
        if (whole > s->best_gbps * (1 + 1e-9)) {
            s->best_gbps = whole;
            memcpy(s->best, s->order, sizeof s->best);
        }
        return;
    }
    for (int next = 1; next < s->size; next++) {
        double wide = gbps[last][next] < width ? gbps[last][next] : width;
        if ((used >> next & 1) != 0 || wide <= s->best_gbps)
            continue;
        s->order[depth] = next;
        extend(s, gbps, depth + 1, used | 1u << next, wide);
    }
}

static void find_widest(search *s)
{
    double gbps[MOST_SIZE][MOST_SIZE];
    for (int i = 0; i < s->size; i++)
        for (int j = 0; j < s->size; j++)
            gbps[i][j] = i != j ? hop_gbps(s, i, j) : 0;
    s->best_gbps = 0;
    s->order[0] = 0;
    extend(s, gbps, 1, 1, __builtin_inf());
}

/* A collective over NVLink does not put some of its rings on PCIe. */
static void keep_direct(search *s)
{
    for (int i = 0; i < s->size; i++)
        if (!s->needs[s->best[i]][s->best[i + 1 < s->size ? i + 1 : 0]].is_direct)
            return;
    for (int i = 0; i < s->size; i++)
        for (int j = 0; j < s->size; j++)
            if (!s->needs[i][j].is_direct)
                s->needs[i][j].gbps = 0;
}

static void take(search *s, double gbps)
{
    for (int i = 0; i < s->size; i++) {
        const need *n = &s->needs[s->best[i]][s->best[i + 1 < s->size ? i + 1 : 0]];
        for (int h = 0; h < n->count; h++) {
            double *left = &s->left[n->resources[h]];
            *left -= gbps * (double)n->shares[h];
            *left = *left > 0 ? *left : 0;
        }
    }
}

/* Position of the best ring among those that were found. */
static int find_ring(const search *s, const int *group, const int *orders, int count)
{
    for (int r = 0; r < count; r++) {
        int i = 0;
        while (i < s->size && orders[r * s->size + i] == group[s->best[i]])
            i++;
        if (i == s->size)
            return r;
    }
    return count;
}

/* Rings that take 1/parts of the first one's width each; returns their bandwidth together. */
static double find_all(search *s, const int *group, int parts, int most, int *orders, double *shares, int *count)
{
    double total = 0, part = 0;
    *count = 0;
    for (int turn = 0; turn < TURNS; turn++) {
        find_widest(s);
        if (turn == 0) {
            part = s->best_gbps / parts;
            keep_direct(s);
        }
        double width = parts == 1 ? s->best_gbps : part;
        if (s->best_gbps < part * LEAST || !(part > 0) || width > s->best_gbps * (1 + 1e-9))
            break;
        int r = find_ring(s, group, orders, *count);
        if (r == most)
            break;
        if (r == *count) {
            for (int i = 0; i < s->size; i++)
                orders[r * s->size + i] = group[s->best[i]];
            shares[(*count)++] = 0;
        }
        shares[r] += width;
        total += width;
        take(s, width);
    }
    for (int r = 0; r < *count; r++)
        shares[r] /= total;
    return total;
}

int ki_find_rings(ki_paths *paths, const int *group, int size, int most, int *orders, double *shares)
{
    static const int parts[] = { 1, 2, 3, 12 };
    if (size < 3 || size > MOST_SIZE || most > KI_MOST_RINGS)
        return 0;
    search *start = (search *)ki_calloc(NULL, 2, sizeof *start), *s = start + 1;
    if (start == NULL)
        return -1;
    start->size = size;
    int count = 0;
    double best = 0;
    bool is_known = read_needs(start, paths, group);
    for (size_t i = 0; is_known && i < sizeof parts / sizeof parts[0]; i++) {
        int found_orders[KI_MOST_RINGS * MOST_SIZE], found;
        double found_shares[KI_MOST_RINGS];
        *s = *start;
        double total = find_all(s, group, parts[i], most, found_orders, found_shares, &found);
        if (total <= best * (1 + 1e-9))
            continue;
        best = total;
        count = found;
        memcpy(orders, found_orders, (size_t)(found * size) * sizeof *orders);
        memcpy(shares, found_shares, (size_t)found * sizeof *shares);
    }
    ki_free(NULL, start);
    return count;
}
