/* tests/topology/test_place_mixed.c - clusters of unlike nodes: which of them have ranks, whatever order they come in.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "machines.h"
#include <kith/placement.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { MOST_NODES = 16 };

/* Kinds of node in these clusters. */
enum { WIDE8, PAIRS4, WIDE5, PLAIN8 };

typedef struct node {
    int kind, leaf;
} node;

typedef struct cluster {
    const char *name;
    int node_count, leaf_count;
    node nodes[MOST_NODES];
} cluster;

typedef struct layout {
    int tp, cp, dp, pp;
} layout;

static const kith_axis_traffic traffic[KITH_PLACEMENT_AXES] = {
    { KITH_COST_ALL_REDUCE, 8, 64e6, 0 }, { KITH_COST_SHIFT, 8, 16e6, 0 },     { KITH_COST_ALL_TO_ALL, 4, 16e6, 0 },
    { KITH_COST_ALL_REDUCE, 1, 64e6, 0 }, { KITH_COST_SEND_RECV, 8, 16e6, 0 },
};

static void add_kinds(kith_topology *t)
{
    machine_add_uniform(t, 8, "NV18", 8);
    machine_add_kind(t, 4, "X SYS SYS NV4 SYS X NV4 SYS SYS NV4 X SYS NV4 SYS SYS X", NULL);
    machine_add_uniform(t, 5, "NV18", 4);
    machine_add_uniform(t, 8, "PIX", 1);
}

/* The nodes in another order; each keeps its name and its leaf. */
static kith_topology *make(const cluster *c, const int *order)
{
    kith_topology *t = machine_new();
    add_kinds(t);
    int root = c->leaf_count > 1 ? 0 : -1;
    if (root == 0)
        ki_topology_add_switch(t, "root", -1)->level = 1;
    for (int l = 0; l < c->leaf_count; l++) {
        kith_switch *leaf = ki_topology_add_switch(t, ki_topology_format(t, "leaf%d", l), root);
        leaf->uplink_count = 2;
        leaf->uplink_gbps = 50;
    }
    for (int i = 0; i < c->node_count; i++) {
        int at = order != NULL ? order[i] : i;
        ki_topology_add_node(t, ki_topology_format(t, "n%d", at), c->nodes[at].kind)->leaf =
            root + 1 + c->nodes[at].leaf;
    }
    machine_finish(t);
    return t;
}

static kith_placement *place(const kith_topology *t, layout l)
{
    kith_placement_options o = KITH_PLACEMENT_OPTIONS_INIT;
    kith_placement *p = NULL;
    o.tp = l.tp;
    o.cp = l.cp;
    o.dp = l.dp;
    o.pp = l.pp;
    o.traffic = traffic;
    if (kith_place(t, &o, &p) != KITH_OK)
        fail_msg("%s", kith_error_detail());
    double cost = kith_placement_cost(p), identity = kith_placement_identity_cost(p);
    if (cost > identity * (1 + 1e-9) || kith_placement_lower_bound(p) > cost * (1 + 1e-9))
        fail_msg("cost %g, in the order of the numbers %g, at least %g", cost, identity, kith_placement_lower_bound(p));
    assert_int_equal(kith_placement_rank_count(p) + kith_placement_leftover_count(p), kith_topology_gpu_count(t));
    return p;
}

static double cost_of(const cluster *c, const int *order, layout l)
{
    kith_topology *t = make(c, order);
    kith_placement *p = place(t, l);
    double cost = kith_placement_cost(p);
    kith_placement_destroy(p);
    kith_topology_destroy(t);
    return cost;
}

static int ranks_on(const kith_topology *t, const kith_placement *p, int wanted_kind)
{
    int count = 0, at, gpu;
    for (int r = 0; r < kith_placement_rank_count(p); r++)
        count += kith_topology_locate(t, kith_placement_gpu(p, r), &at, &gpu) &&
                 kith_topology_node(t, at)->kind == wanted_kind;
    return count;
}

static const cluster three = { "three kinds on a switch", 3, 1, { { WIDE8, 0 }, { PAIRS4, 0 }, { WIDE5, 0 } } };

/* 12 ranks in groups of 2: the two nodes with NVSwitch hold them, the slow one between them has none. */
static void slow_node_is_left_over(void **state)
{
    (void)state;
    static const cluster fast = { "without the slow one", 2, 1, { { WIDE8, 0 }, { WIDE5, 0 } } };
    static const layout l = { 2, 1, 2, 3 };
    kith_topology *t = make(&three, NULL);
    kith_placement *p = place(t, l);
    assert_int_equal(ranks_on(t, p, PAIRS4), 0);
    assert_int_equal(kith_placement_leftover_count(p), 5);
    double wanted = cost_of(&fast, NULL, l), got = kith_placement_cost(p);
    if (got > wanted * (1 + 1e-6) || got * 5 > kith_placement_identity_cost(p))
        fail_msg("wanted %g s as without the slow node, got %g s; in the order of the numbers %g s", wanted, got,
                 kith_placement_identity_cost(p));
    kith_placement_destroy(p);
    kith_topology_destroy(t);
}

/* A job that needs all of them gets all of them, and one GPU is told to be left over. */
static void all_are_used_when_needed(void **state)
{
    (void)state;
    kith_topology *t = make(&three, NULL);
    kith_placement *p = place(t, (layout){ 2, 1, 8, 1 });
    assert_int_equal(ranks_on(t, p, PAIRS4), 4);
    assert_int_equal(kith_placement_leftover_count(p), 1);
    assert_false(kith_placement_axis(p, "tp")->leaves_nvlink);
    kith_placement_destroy(p);
    kith_topology_destroy(t);
}

/* Eight slow GPUs come first and hold the whole job; so do the fast ones behind them. */
static void kind_with_wide_links_is_chosen(void **state)
{
    (void)state;
    static const cluster two = { "plain and wide", 2, 1, { { PLAIN8, 0 }, { WIDE8, 0 } } };
    kith_topology *t = make(&two, NULL);
    kith_placement *p = place(t, (layout){ 4, 1, 2, 1 });
    assert_int_equal(ranks_on(t, p, WIDE8), 8);
    kith_placement_destroy(p);
    kith_topology_destroy(t);
}

static const cluster clusters[] = {
    { "three kinds on a switch", 3, 1, { { WIDE8, 0 }, { PAIRS4, 0 }, { WIDE5, 0 } } },
    { "wide and plain ones on two leaves",
      5,
      2,
      { { WIDE8, 0 }, { PLAIN8, 1 }, { WIDE8, 1 }, { PLAIN8, 0 }, { WIDE8, 0 } } },
    { "three leaves, one of each kind",
      6,
      3,
      { { WIDE8, 0 }, { WIDE8, 1 }, { PAIRS4, 2 }, { PAIRS4, 0 }, { WIDE5, 1 }, { PLAIN8, 2 } } },
    { "one kind on two leaves", 4, 2, { { WIDE8, 0 }, { WIDE8, 1 }, { WIDE8, 0 }, { WIDE8, 1 } } },
};

static const layout layouts[] = { { 2, 1, 2, 3 }, { 4, 1, 2, 2 }, { 2, 1, 4, 1 },
                                  { 2, 2, 1, 2 }, { 1, 1, 2, 4 }, { 4, 1, 1, 3 } };

static void order_of_nodes_does_not_matter(void **state)
{
    (void)state;
    enum { SEEDS = 6 };
    int failures = 0;
    for (size_t c = 0; c < sizeof clusters / sizeof clusters[0]; c++)
        for (size_t l = 0; l < sizeof layouts / sizeof layouts[0]; l++) {
            double wanted = cost_of(&clusters[c], NULL, layouts[l]);
            for (unsigned seed = 1; seed <= SEEDS; seed++) {
                int order[MOST_NODES];
                machine_shuffle(order, clusters[c].node_count, seed);
                double got = cost_of(&clusters[c], order, layouts[l]);
                if (got <= wanted * (1 + 1e-6) && wanted <= got * (1 + 1e-6))
                    continue;
                failures++;
                print_error("%s, tp %d cp %d dp %d pp %d: wanted %g s, with the order of seed %u got %g s\n",
                            clusters[c].name, layouts[l].tp, layouts[l].cp, layouts[l].dp, layouts[l].pp, wanted, seed,
                            got);
            }
        }
    assert_int_equal(failures, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(slow_node_is_left_over),
                                        cmocka_unit_test(all_are_used_when_needed),
                                        cmocka_unit_test(kind_with_wide_links_is_chosen),
                                        cmocka_unit_test(order_of_nodes_does_not_matter) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
