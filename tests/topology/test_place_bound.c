/* tests/topology/test_place_bound.c - the lower bound against the cost of all placements on small machines, and
 * of many on larger ones.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "machines.h"
#include "topology/place.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MOST_GPUS = 16, ALL_ORDERS = 5, RANDOM_ORDERS = 60 }; /* all orders of so many GPUs; of more, some at random */

static unsigned next_random(unsigned *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

typedef struct trial {
    const char *what;
    const kith_topology *t;
    ki_sizes sizes;
    ki_use uses[KI_AXES];
    double bound, cheapest;
    ki_ring_maker maker;
} trial;

static void price_order(trial *try, const int *gpus)
{
    int scratch[2 * MOST_GPUS];
    ki_step_price price;
    assert_int_equal(ki_price_make(&try->maker, &try->sizes, try->uses, gpus, INFINITY, scratch, &price), KITH_OK);
    try->cheapest = fmin(try->cheapest, price.total);
    if (price.total >= try->bound)
        return;
    char order[128] = "";
    for (int r = 0; r < try->sizes.world; r++)
        snprintf(order + strlen(order), sizeof order - strlen(order), " %d", gpus[r]);
    fail_msg("%s, %s of %d and %d, op %d: order%s costs %.9g, bound %.9g", try->what, try->sizes.text,
             try->sizes.size[KI_TP], try->sizes.size[KI_DP], (int)try->uses[KI_TP].op, order, price.total, try->bound);
}

static void swap(int *gpus, int i, int j)
{
    int gpu = gpus[i];
    gpus[i] = gpus[j];
    gpus[j] = gpu;
}

/* All orders of what stands from position `from` on. */
static void price_all(trial *try, int *gpus, int count, int from)
{
    if (from == count) {
        price_order(try, gpus);
        return;
    }
    for (int i = from; i < count; i++) {
        swap(gpus, from, i);
        price_all(try, gpus, count, from + 1);
        swap(gpus, from, i);
    }
}

static void price_some(trial *try, int *gpus, int count, unsigned *seed)
{
    for (int n = 0; n < RANDOM_ORDERS; n++) {
        for (int i = count - 1; i > 0; i--)
            swap(gpus, i, (int)(next_random(seed) % (unsigned)(i + 1)));
        price_order(try, gpus);
    }
}

/* Cost of the cheapest order over the bound. */
static double check_sizes(const char *what, const kith_topology *t, int tp, int dp, kith_cost_op op, double nbytes,
                          unsigned *seed)
{
    int gpus[MOST_GPUS], count = kith_topology_gpu_count(t);
    kith_axis_traffic traffic[KI_AXES] = { [KI_TP] = { op, 3, nbytes, 0 }, [KI_DP] = { op, 1, nbytes, 0 } };
    kith_placement_options o = KITH_PLACEMENT_OPTIONS_INIT;
    kith_placement *p = NULL;
    o.tp = tp;
    o.dp = dp;
    o.traffic = traffic;
    kith_status status = kith_place(t, &o, &p);
    if (status == KITH_ERR_INVALID_ARG)
        return INFINITY; /* groups that would be wrapped over islands */
    assert_int_equal(status, KITH_OK);
    trial try = { .what = what, .t = t, .sizes = p->sizes, .bound = p->lower_bound, .cheapest = INFINITY };
    ki_uses_make(&o, &p->sizes, try.uses);
    assert_int_equal(ki_ring_maker_init(&try.maker, t, NULL), KITH_OK);
    for (int g = 0; g < count; g++)
        gpus[g] = g;
    if (count <= ALL_ORDERS)
        price_all(&try, gpus, count, 0);
    else
        price_some(&try, gpus, count, seed);
    price_order(&try, p->gpus);
    ki_ring_maker_fini(&try.maker);
    kith_placement_destroy(p);
    return try.cheapest / try.bound;
}

static void check_machine(const char *what, const kith_topology *t, unsigned *seed)
{
    int count = kith_topology_gpu_count(t);
    for (int op = 0; op <= KITH_COST_SHIFT; op++)
        for (int tp = 1; tp <= count; tp++)
            for (int dp = 1; tp * dp <= count; dp++)
                if (tp * dp > 1 && (tp * dp == count || dp <= 2))
                    check_sizes(what, t, tp, dp, (kith_cost_op)op, (tp + dp) % 2 == 0 ? 1e9 : 1e5, seed);
}

static void random_matrix(unsigned *seed, int n, char *matrix)
{
    static const char *const words[] = { "NV1", "NV2", "NV4", "NV12", "SYS", "NODE", "PHB", "PIX" };
    const char *cell[8][8];
    *matrix = '\0';
    for (int i = 0; i < n; i++) {
        cell[i][i] = "X";
        for (int j = 0; j < i; j++)
            cell[i][j] = cell[j][i] = words[next_random(seed) % 8];
    }
    for (int i = 0; i < n * n; i++)
        strcat(strcat(matrix, cell[i / n][i % n]), " ");
}

static void test_random_nodes(void **state)
{
    (void)state;
    unsigned seed = 5;
    for (int round = 0; round < 12; round++) {
        char matrix[512], what[32];
        int n = 2 + (int)(next_random(&seed) % 5);
        random_matrix(&seed, n, matrix);
        kith_topology *t = machine_of_matrix(n, matrix, NULL);
        snprintf(what, sizeof what, "matrix %d", round);
        check_machine(what, t, &seed);
        kith_topology_destroy(t);
    }
}

/* Nodes of several kinds on two leaves, with and without NVLink and NICs. */
static void test_random_clusters(void **state)
{
    (void)state;
    static const char *const links[] = { "NV6", "NV18", "PIX", "SYS" };
    unsigned seed = 11;
    for (int round = 0; round < 10; round++) {
        char what[32];
        int kinds = 1 + (int)(next_random(&seed) % 2), leaves[2] = { 1, kinds == 1 ? 2 : 1 };
        kith_topology *t = machine_new();
        for (int k = 0; k < kinds; k++) {
            int gpus = 1 + (int)(next_random(&seed) % 3), nics = (int)(next_random(&seed) % 3);
            machine_add_uniform(t, gpus, links[next_random(&seed) % 4], nics);
        }
        for (int k = 0; k < kinds; k++)
            machine_add_tree(t, k, leaves, 2, 1, false);
        machine_finish(t);
        snprintf(what, sizeof what, "cluster %d", round);
        check_machine(what, t, &seed);
        kith_topology_destroy(t);
    }
}

static void test_nvlink_over_nodes(void **state)
{
    (void)state;
    unsigned seed = 3;
    kith_topology *t = machine_new();
    machine_add_uniform(t, 2, "NV18", 1);
    for (int rack = 0; rack < 2; rack++)
        ki_topology_add_domain(t, "rack", true)->gbps = 700;
    for (int n = 0; n < 4; n++)
        ki_topology_add_node(t, "node", 0)->domain = n / 2;
    machine_finish(t);
    check_machine("domains", t, &seed);
    kith_topology_destroy(t);
}

/* It is worth something: close to the cost where nothing is shared. */
static void test_bound_is_near(void **state)
{
    (void)state;
    unsigned seed = 1;
    static const struct {
        const char *link;
        int tp;
        double most;
    } cases[] = { { "NV18", 8, 1.1 }, { "NV18", 2, 1.1 }, { "PIX", 4, 1.1 }, { "PIX", 8, 1.1 } };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        kith_topology *t = machine_new();
        machine_add_uniform(t, 8, cases[i].link, 4);
        ki_topology_add_node(t, "node0", 0);
        machine_finish(t);
        double ratio = check_sizes(cases[i].link, t, cases[i].tp, 1, KITH_COST_ALL_REDUCE, 4e9, &seed);
        if (!(ratio >= 1 && ratio < cases[i].most))
            fail_msg("%s, tp %d: wanted 1 to %g, got %g", cases[i].link, cases[i].tp, cases[i].most, ratio);
        kith_topology_destroy(t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_nodes),
        cmocka_unit_test(test_random_clusters),
        cmocka_unit_test(test_nvlink_over_nodes),
        cmocka_unit_test(test_bound_is_near),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
