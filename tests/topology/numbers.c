/* tests/topology/numbers.c - see numbers.h.
 *
 * With the traffic of a model the cost must be the same: the search looks at every order of the GPUs of a node, or the
 * first it cannot improve is the best all the same. Without, the weights of axes are made up, and the smallest numbers
 * are kept unless 5 % of the cost can be saved: there costs may differ by as much.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "numbers.h"

#include "machines.h"
#include <dirent.h>
#include <kith/context.h>
#include <kith/placement.h>
#include <math.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MOST_GPUS = 16 };

#define ROUNDING 1e-6
#define KEPT (1 / 0.95) /* where the smallest numbers are kept */

static const kith_axis_traffic traffic[KITH_PLACEMENT_AXES] = {
    { KITH_COST_ALL_REDUCE, 8, 64e6, 0 }, { KITH_COST_SHIFT, 8, 16e6, 0 },     { KITH_COST_ALL_TO_ALL, 4, 16e6, 0 },
    { KITH_COST_ALL_REDUCE, 1, 64e6, 0 }, { KITH_COST_SEND_RECV, 8, 16e6, 0 },
};

/* 0: what is left of the GPUs. */
typedef struct layout {
    int tp, cp, ep, dp, pp;
    bool has_traffic;
} layout;

static const layout layouts[] = {
    { 2, 1, 1, 0, 1, true }, { 4, 1, 1, 0, 1, true }, { 1, 1, 1, 1, 0, true },  { 2, 1, 1, 1, 0, true },
    { 1, 2, 1, 0, 2, true }, { 2, 1, 2, 1, 0, true }, { 3, 1, 1, 1, 1, true },  { 2, 1, 1, 1, 2, true },
    { 2, 1, 1, 0, 2, true }, { 1, 0, 1, 1, 1, true }, { 2, 1, 1, 0, 1, false }, { 2, 1, 1, 0, 2, false },
};

enum { LAYOUTS = sizeof layouts / sizeof layouts[0] };

static int usable_gpus(const kith_topology *t)
{
    const kith_node_kind *kind = kith_topology_kind(t, 0);
    int count = 0;
    for (int g = 0; g < kind->gpu_count; g++)
        count += kind->gpus[g].is_allowed && !kind->gpus[g].is_lost;
    return count;
}

static int rest_of(int size, int gpus, int others)
{
    return size > 0 ? size : gpus / others;
}

/* False: the layout is none for so many GPUs. INFINITY: a link of unknown bandwidth. */
static bool place(const kith_topology *t, const layout *l, double *cost)
{
    kith_placement_options o = KITH_PLACEMENT_OPTIONS_INIT;
    kith_placement *p = NULL;
    int gpus = usable_gpus(t);
    o.tp = l->tp;
    o.ep = l->ep;
    o.cp = rest_of(l->cp, gpus, l->tp * l->ep);
    o.dp = rest_of(l->dp, gpus, l->tp * l->ep * o.cp * (l->pp > 0 ? l->pp : 1));
    o.pp = rest_of(l->pp, gpus, l->tp * l->ep * o.cp * o.dp);
    o.traffic = l->has_traffic ? traffic : NULL;
    if (o.cp < 1 || o.dp < 1 || o.pp < 1 || o.tp * o.cp * o.ep * o.dp * o.pp > gpus)
        return false;
    if (kith_place(t, &o, &p) != KITH_OK)
        fail_msg("%s", kith_error_detail());
    *cost = kith_placement_cost(p);
    if (*cost > kith_placement_identity_cost(p) * (1 + ROUNDING))
        fail_msg("cost %g, in the order of the numbers %g", *cost, kith_placement_identity_cost(p));
    kith_placement_destroy(p);
    return true;
}

static bool is_for_this(const kith_topology *t)
{
    return kith_topology_kind_count(t) == 1 && kith_topology_node_count(t) == 1 && usable_gpus(t) >= 2 &&
           usable_gpus(t) <= MOST_GPUS && kith_topology_kind(t, 0)->gpu_count <= MOST_GPUS;
}

static bool is_equal(double a, double b, double factor)
{
    if (!isfinite(a) || !isfinite(b))
        return isfinite(a) == isfinite(b);
    return fmax(a, b) <= fmin(a, b) * factor;
}

static int compare(const char *name, const kith_topology *t, unsigned seed, double *costs)
{
    int failures = 0;
    for (int i = 0; i < LAYOUTS; i++) {
        double cost;
        const layout *l = &layouts[i];
        if (!place(t, l, &cost))
            continue;
        costs[i] = seed == 0 ? cost : costs[i];
        if (is_equal(cost, costs[i], l->has_traffic ? 1 + ROUNDING : KEPT * (1 + ROUNDING)))
            continue;
        failures++;
        print_error("%s, tp %d cp %d ep %d dp %d pp %d%s: wanted %g s, with the numbers of seed %u got %g s\n", name,
                    l->tp, l->cp, l->ep, l->dp, l->pp, l->has_traffic ? "" : " without traffic", costs[i], seed, cost);
    }
    return failures;
}

int numbers_check(const char *name, make_machine *make, const void *arg, int seed_count)
{
    double costs[LAYOUTS];
    int number[MOST_GPUS], failures = 0;
    for (unsigned seed = 0; seed <= (unsigned)seed_count; seed++) {
        kith_topology *t = make(arg);
        if (t == NULL || !is_for_this(t)) {
            kith_topology_destroy(t);
            return -1;
        }
        machine_shuffle(number, kith_topology_kind(t, 0)->gpu_count, seed);
        machine_renumber(t, 0, number);
        failures += compare(name, t, seed, costs);
        kith_topology_destroy(t);
    }
    return failures;
}

/* ---- folders ---- */

static kith_topology *load(const void *arg)
{
    const char *const paths[] = { (const char *)arg };
    kith_topology *t = NULL;
    return kith_topology_load(paths, 1, NULL, &t) == KITH_OK ? t : NULL; /* damaged ones are other tests' */
}

static bool ends_with(const char *name, const char *ending)
{
    size_t length = strlen(name), wanted = strlen(ending);
    return length > wanted && strcmp(name + length - wanted, ending) == 0;
}

int numbers_check_folder(const char *folder, const char *ending, int seed_count, int *machine_count)
{
    DIR *dir = opendir(folder);
    int failures = 0;
    *machine_count = 0;
    if (dir == NULL)
        return 0;
    for (const struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        char path[2048];
        if (!ends_with(entry->d_name, ending))
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        int failed = numbers_check(entry->d_name, load, path, seed_count);
        *machine_count += failed >= 0;
        failures += failed > 0 ? failed : 0;
    }
    closedir(dir);
    return failures;
}
