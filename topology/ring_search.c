/* topology/ring_search.c - several rings over the GPUs of a node, over their direct links alone or over all links.
 *
 * One ring over a mesh leaves most links idle: 4 GPUs with 6 links to each other use 6 of 18 links of a GPU. So the
 * bytes are divided over several rings, and what these carry together, each link no more than it can, is a linear
 * program: a variable for each directed ring, a row for each link. It is solved exactly, so that a link more never
 * makes a machine look slower, which rings taken one after the other (the widest first) cannot promise.
 *
 * There are up to 7! rings, and few are in the answer: the simplex method begins without any and asks for the ring
 * whose links are cheapest at the prices (duals) of the rows so far, which is the best tour over the members (dynamic
 * programming over subsets). When that one does not pay, no ring does.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "cost.h"

#include "core/base/mem.h"
#include <math.h>
#include <string.h>

enum {
    MOST_SIZE = 8,
    MOST_HOPS = 8,
    MOST_ROWS = 192, /* links of pairs, ports of GPUs and switches, sockets */
    MOST_TURNS = 400 /* of the simplex method; a few dozen are usual, and the answer is possible after each */
};

static const double EPSILON = 1e-9;
static const double LEAST_SHARE = 1e-5; /* of the bytes: less is rounding */
static const double APART = 1e-9; /* rows that are alike differ by parts of this, so that no step is for nothing */

/* The rows that a hop loads. count 0: no ring takes it. */
typedef struct need {
    int rows[MOST_HOPS + 1];
    double shares[MOST_HOPS + 1];
    int count;
} need;

typedef struct search {
    int size, members[MOST_SIZE];
    need needs[MOST_SIZE][MOST_SIZE];
    int resources[MOST_ROWS], row_count;
    double gbps[MOST_ROWS];               /* of each row */
    double inverse[MOST_ROWS][MOST_ROWS]; /* of the basis */
    double value[MOST_ROWS];              /* of the variable in the basis at each row: GB/s of a ring, or left over */
    bool is_ring[MOST_ROWS];
    int rings[MOST_ROWS][MOST_SIZE];
    double price[MOST_ROWS];
    double best[1 << (MOST_SIZE - 1)][MOST_SIZE]; /* cheapest path from member 0 through a set to its last */
} search;

/* ---- the rows ---- */

static int row_of(search *s, int resource, double gbps)
{
    int i = 0;
    while (i < s->row_count && s->resources[i] != resource)
        i++;
    if (i == s->row_count && i < MOST_ROWS) {
        s->resources[i] = resource;
        s->gbps[s->row_count++] = gbps;
    }
    return i;
}

static bool is_direct(const ki_route *route)
{
    return route->type == KITH_LINK_NVLINK || route->type == KITH_LINK_XGMI;
}

/* A link of unknown bandwidth takes no ring. */
static bool read_needs(search *s, ki_paths *paths, bool is_direct_only)
{
    for (int i = 0; i < s->size; i++)
        for (int j = 0; j < s->size; j++) {
            ki_route route;
            if (i == j || ki_paths_route(paths, s->members[i], s->members[j], &route) != KITH_OK ||
                (is_direct_only && !is_direct(&route)))
                continue;
            if (route.hop_count > MOST_HOPS)
                return false;
            for (int h = 0; h < route.hop_count; h++) {
                int resource = route.hops[h].resource, row = row_of(s, resource, ki_paths_gbps(paths)[resource]);
                if (row == MOST_ROWS || !(s->gbps[row] > 0))
                    return false;
                s->needs[i][j].rows[h] = row;
                s->needs[i][j].shares[h] = (double)route.hops[h].share;
            }
            need *n = &s->needs[i][j];
            n->count = route.hop_count + 1;
            n->rows[route.hop_count] =
                row_of(s, -1 - (i * MOST_SIZE + j), route.gbps); /* the link of the pair itself */
            n->shares[route.hop_count] = 1;
            if (n->rows[route.hop_count] == MOST_ROWS)
                return false;
        }
    return s->row_count > 0;
}

/* ---- the cheapest ring at the prices of the rows ---- */

static double hop_price(const search *s, int from, int to)
{
    const need *n = &s->needs[from][to];
    double price = n->count > 0 ? 0 : INFINITY;
    for (int h = 0; h < n->count; h++)
        price += n->shares[h] * s->price[n->rows[h]];
    return price;
}

/* Members 1 .. size-1 are the bits of a set. */
static void fill_paths(search *s, const double (*hop)[MOST_SIZE])
{
    int bits = s->size - 1;
    for (int set = 1; set < 1 << bits; set++)
        for (int last = 1; last <= bits; last++) {
            int before = set & ~(1 << (last - 1));
            double best = before == 0 ? hop[0][last] : INFINITY;
            if (before == set)
                continue;
            for (int from = 1; from <= bits; from++)
                if ((before >> (from - 1) & 1) != 0)
                    best = fmin(best, s->best[before][from] + hop[from][last]);
            s->best[set][last] = best;
        }
}

static double cheapest_ring(search *s, int *ring)
{
    double hop[MOST_SIZE][MOST_SIZE];
    for (int i = 0; i < s->size; i++)
        for (int j = 0; j < s->size; j++)
            hop[i][j] = i != j ? hop_price(s, i, j) : INFINITY;
    fill_paths(s, hop);
    int bits = s->size - 1, set = (1 << bits) - 1, next = 0;
    double whole = 0;
    for (int at = bits; at > 0; at--) {
        int best = 0;
        double least = INFINITY;
        for (int last = 1; last <= bits; last++)
            if ((set >> (last - 1) & 1) != 0 && s->best[set][last] + hop[last][next] < least) {
                least = s->best[set][last] + hop[last][next];
                best = last;
            }
        if (best == 0)
            return INFINITY; /* these links make no ring */
        whole = at == bits ? least : whole;
        ring[at] = next = best;
        set &= ~(1 << (best - 1));
    }
    ring[0] = 0;
    return whole;
}

/* ---- the simplex method ---- */

static void start(search *s)
{
    for (int r = 0; r < s->row_count; r++) {
        s->inverse[r][r] = 1;
        s->value[r] = s->gbps[r] * (1 + APART * ((r * 37 % MOST_ROWS) + 1));
    }
}

static void find_prices(search *s)
{
    for (int r = 0; r < s->row_count; r++) {
        s->price[r] = 0;
        for (int b = 0; b < s->row_count; b++)
            s->price[r] += s->is_ring[b] ? s->inverse[b][r] : 0;
    }
}

/* A row whose bandwidth is overpriced: it should be left over. -1: none. */
static int find_overpriced(const search *s)
{
    for (int r = 0; r < s->row_count; r++)
        if (s->price[r] < -EPSILON)
            return r;
    return -1;
}

static void load_of_ring(const search *s, const int *ring, double *load)
{
    memset(load, 0, MOST_ROWS * sizeof *load);
    for (int i = 0; i < s->size; i++) {
        const need *n = &s->needs[ring[i]][ring[i + 1 < s->size ? i + 1 : 0]];
        for (int h = 0; h < n->count; h++)
            load[n->rows[h]] += n->shares[h];
    }
}

/* The variable with this load comes in as far as it can; ring NULL: what is left over of a row. False: nothing stops
 * it. */
static bool enter(search *s, const double *load, const int *ring)
{
    double direction[MOST_ROWS], most = INFINITY;
    int out = -1, rows = s->row_count;
    for (int b = 0; b < rows; b++) {
        direction[b] = 0;
        for (int r = 0; r < rows; r++)
            direction[b] += s->inverse[b][r] * load[r];
        if (direction[b] > EPSILON && s->value[b] / direction[b] < most) {
            most = s->value[b] / direction[b];
            out = b;
        }
    }
    if (out < 0)
        return false;
    for (int r = 0; r < rows; r++)
        s->inverse[out][r] /= direction[out];
    for (int b = 0; b < rows; b++) {
        if (b == out)
            continue;
        s->value[b] = fmax(s->value[b] - most * direction[b], 0);
        for (int r = 0; r < rows; r++)
            s->inverse[b][r] -= direction[b] * s->inverse[out][r];
    }
    s->value[out] = most;
    s->is_ring[out] = ring != NULL;
    if (ring != NULL)
        memcpy(s->rings[out], ring, sizeof s->rings[out]);
    return true;
}

static void solve(search *s)
{
    start(s);
    for (int turn = 0; turn < MOST_TURNS; turn++) {
        int ring[MOST_SIZE];
        double load[MOST_ROWS] = { 0 };
        find_prices(s);
        int row = find_overpriced(s);
        if (row < 0 && cheapest_ring(s, ring) > 1 - EPSILON)
            return;
        if (row >= 0)
            load[row] = 1;
        else
            load_of_ring(s, ring, load);
        if (!enter(s, load, row >= 0 ? NULL : ring))
            return;
    }
}

/* ---- the answer ---- */

/* Without what rows were moved apart by, so that equal sets cost the same: shares are simple fractions where links are
 * whole numbers of one width. */
static double without_noise(double share)
{
    const double parts = 5040, whole = round(share * parts);
    return fabs(share * parts - whole) < 1e-2 ? whole / parts : share;
}

/* Widest rings first, at most `most`; shares sum up to 1. */
static int list_rings(search *s, int most, int *orders, double *shares)
{
    int count = 0;
    double total = 0, all = 0;
    for (int b = 0; b < s->row_count; b++)
        all += s->is_ring[b] ? s->value[b] : 0;
    for (; count < most; count++) {
        int widest = -1;
        for (int b = 0; b < s->row_count; b++)
            if (s->is_ring[b] && (widest < 0 || s->value[b] > s->value[widest]))
                widest = b;
        if (widest < 0 || !(s->value[widest] > LEAST_SHARE * all))
            break;
        for (int i = 0; i < s->size; i++)
            orders[count * s->size + i] = s->members[s->rings[widest][i]];
        shares[count] = without_noise(s->value[widest] / all);
        total += shares[count];
        s->is_ring[widest] = false;
    }
    for (int r = 0; r < count; r++)
        shares[r] /= total;
    return count;
}

static void take_members(search *s, const int *group)
{
    for (int i = 0; i < s->size; i++) { /* ascending: the answer is the same for every order of a group */
        int at = i;
        for (; at > 0 && group[i] < s->members[at - 1]; at--)
            s->members[at] = s->members[at - 1];
        s->members[at] = group[i];
    }
}

int ki_find_rings(ki_paths *paths, const int *group, int size, bool is_direct_only, int most, int *orders,
                  double *shares)
{
    if (size < 3 || size > MOST_SIZE || most > KI_MOST_RINGS)
        return 0;
    search *s = (search *)ki_calloc(NULL, 1, sizeof *s);
    if (s == NULL)
        return -1;
    s->size = size;
    take_members(s, group);
    int count = 0;
    if (read_needs(s, paths, is_direct_only)) {
        solve(s);
        count = list_rings(s, most, orders, shares);
    }
    ki_free(NULL, s);
    return count;
}
