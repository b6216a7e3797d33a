/* tests/topology/test_cost_alike.c - groups inside many nodes: nodes that are alike are priced once, and what comes out
 * is what the dearest of the nodes costs alone.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include <kith/placement.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { NODES = 40, GPUS = 8, SIZE = 4, GROUPS = GPUS / SIZE, SHUFFLES = 60 };

static unsigned next_random(unsigned *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

/* Orders of the GPUs of a node: `kinds` different ones, dealt to the nodes at random. */
static void fill_nodes(int (*groups)[GPUS], unsigned *seed, int kinds)
{
    for (int n = 0; n < NODES; n++) {
        unsigned one = 77u + next_random(seed) % (unsigned)kinds;
        for (int i = 0; i < GPUS; i++)
            groups[n][i] = n * GPUS + i;
        for (int i = GPUS - 1; i > 0; i--) {
            int j = (int)(next_random(&one) % (unsigned)(i + 1)), other = groups[n][i];
            groups[n][i] = groups[n][j];
            groups[n][j] = other;
        }
    }
}

static kith_cost price(const kith_topology *t, const char *algorithm, const int *groups, int count)
{
    kith_cost cost;
    if (kith_cost_collective(t, KITH_COST_ALL_REDUCE, algorithm, groups, SIZE, count, 3e7, &cost) != KITH_OK)
        fail_msg("%s", kith_error_detail());
    return cost;
}

static void expect_dearest(const kith_topology *t, const char *algorithm, int (*groups)[GPUS])
{
    kith_cost all = price(t, algorithm, groups[0], NODES * GROUPS);
    double dearest_s = 0, narrowest = 1e9;
    for (int n = 0; n < NODES; n++) {
        kith_cost one = price(t, algorithm, groups[n], GROUPS);
        dearest_s = one.time_s > dearest_s ? one.time_s : dearest_s;
        narrowest = one.gbps < narrowest ? one.gbps : narrowest;
    }
    if (all.time_s > dearest_s || all.time_s < dearest_s)
        fail_msg("%s: wanted %.17g s, got %.17g s", algorithm, dearest_s, all.time_s);
    if (all.gbps > narrowest || all.gbps < narrowest)
        fail_msg("%s: wanted %.17g GB/s, got %.17g GB/s", algorithm, narrowest, all.gbps);
}

/* One kind of order, a few, and more than are told apart. */
static void test_dearest_node_counts(void **state)
{
    static const char *const algorithms[] = { "ring", "recursive_doubling", "linear" };
    const char *words = "40 nodes of 8 V100 in a cube mesh, 4 NICs of EDR";
    kith_topology *t = NULL;
    unsigned seed = 1;
    (void)state;
    assert_int_equal(kith_topology_load(&words, 1, NULL, &t), KITH_OK);
    for (int i = 0; i < SHUFFLES; i++) {
        int groups[NODES][GPUS];
        fill_nodes(groups, &seed, i % 3 == 0 ? 1 : i % 3 == 1 ? 4 : 1000);
        for (size_t a = 0; a < sizeof algorithms / sizeof algorithms[0]; a++)
            expect_dearest(t, algorithms[a], groups);
    }
    kith_topology_destroy(t);
}

/* A node of another kind, and a group that leaves its node. */
static void test_unlike_nodes(void **state)
{
    const char *words[] = { "3 nodes of 8 H100 on NVSwitch, 8 NICs of NDR", "1 node of 8 A100 on PCIe, 2 NICs of HDR" };
    kith_topology *t = NULL;
    int groups[4 * GPUS];
    (void)state;
    if (kith_topology_load(words, 2, NULL, &t) != KITH_OK)
        fail_msg("%s", kith_error_detail());
    for (int i = 0; i < 4 * GPUS; i++)
        groups[i] = i;
    kith_cost fast = price(t, "ring", groups, 3 * GROUPS), slow = price(t, "ring", groups + 3 * GPUS, GROUPS);
    assert_true(fast.time_s < slow.time_s / 2);
    kith_cost all = price(t, "ring", groups, 4 * GROUPS);
    assert_true(all.time_s >= slow.time_s && all.time_s <= slow.time_s);
    assert_in_range(all.slowest_from, 3 * GPUS, 4 * GPUS - 1);
    groups[0] = GPUS;
    groups[GPUS] = 0;
    kith_cost over = price(t, "ring", groups, 3 * GROUPS);
    assert_true(over.time_s > 2 * fast.time_s);
    assert_int_equal(over.slowest, KITH_LINK_NET);
    kith_topology_destroy(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_dearest_node_counts),
                                        cmocka_unit_test(test_unlike_nodes) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
