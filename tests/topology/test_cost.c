/* tests/topology/test_cost.c - prices of collectives: closed forms worked out by hand, published ratios, properties.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "core/base/fault.h"
#include "machine.h"
#include <kith/placement.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MIB (1024.0 * 1024.0)

static void assert_near(double got, double wanted, double tolerance, const char *what)
{
    if (fabs(got - wanted) <= tolerance * fabs(wanted))
        return;
    print_error("%s: wanted %.9g, got %.9g\n", what, wanted, got);
    fail();
}

static kith_topology *make(machine_spec spec)
{
    kith_topology *t = machine_create(&spec);
    assert_non_null(t);
    return t;
}

static kith_cost cost_of(const kith_topology *t, kith_cost_op op, const char *algorithm, const int *groups, int size,
                         int count, double nbytes)
{
    kith_cost cost;
    kith_status status = kith_cost_collective(t, op, algorithm, groups, size, count, nbytes, &cost);
    if (status != KITH_OK)
        fail_msg("%s: %s", algorithm != NULL ? algorithm : "best", kith_error_detail());
    return cost;
}

/* One group of the first `size` GPUs. */
static kith_cost first_cost(const kith_topology *t, kith_cost_op op, const char *algorithm, int size, double nbytes)
{
    int groups[64];
    machine_groups(groups, size, 1, 1, 0);
    return cost_of(t, op, algorithm, groups, size, 1, nbytes);
}

/* ---- the worked example: one TP all_reduce of 64 MiB over 8 ranks ---- */

static void check_example(machine_spec spec, double transfer_ms, double latency_ms, kith_link_type slowest)
{
    kith_topology *t = make(spec);
    kith_cost cost = first_cost(t, KITH_COST_ALL_REDUCE, "ring", 8, 64 * MIB);
    assert_near((cost.time_s - cost.latency_s) * 1e3, transfer_ms, 0.01, "transfer in ms");
    assert_near(cost.latency_s * 1e3, latency_ms, 0.01, "latency in ms");
    assert_int_equal(cost.slowest, slowest);
    assert_string_equal(cost.algorithm, "ring");
    kith_topology_destroy(t);
}

static void test_worked_example(void **state)
{
    (void)state;
    machine_spec nvlink = machine_hgx_h100, pcie = machine_hgx_h100, net = machine_hgx_h100, skylake = machine_hgx_h100;
    check_example(nvlink, 1.75 * 64 * MIB / 370.8e9 * 1e3, 14 * 3.4e-3, KITH_LINK_NVLINK);
    pcie.nvlinks = 0;
    pcie.sockets = 1;
    check_example(pcie, 1.75 * 64 * MIB / 48e9 * 1e3, 14 * 5.7e-3, KITH_LINK_NODE);
    net.nodes = 8;
    net.gpus = net.nics = net.sockets = 1;
    net.nvlinks = 0;
    check_example(net, 1.75 * 64 * MIB / 48e9 * 1e3, 14 * 14e-3, KITH_LINK_NET);
    skylake.nvlinks = 0;
    skylake.socket_gbps = 10;
    /* All-gather waits at the socket link: the latencies of the other hops are hidden there. */
    check_example(skylake, 1.75 * 64 * MIB / 10e9 * 1e3, (7 + 1) * 5.7e-3, KITH_LINK_SYS);
}

/* The same numbers as the example states them. */
static void test_stated_numbers(void **state)
{
    (void)state;
    kith_topology *t = make(machine_hgx_h100);
    kith_cost cost = first_cost(t, KITH_COST_ALL_REDUCE, "ring", 8, 64 * MIB);
    assert_near(cost.time_s - cost.latency_s, 0.32e-3, 0.02, "H100 NVLink");
    assert_near(cost.latency_s, 0.05e-3, 0.05, "H100 NVLink latency");
    kith_topology_destroy(t);
}

/* ---- published ratios between NVLink and the network ---- */

/* Bandwidth of one GPU inside the node over that of its share of the NICs, when all go out. */
static double ratio_of(machine_spec spec)
{
    spec.nodes = 2;
    kith_topology *t = make(spec);
    int pairs[32];
    kith_cost inside = first_cost(t, KITH_COST_ALL_REDUCE, "multi_ring", spec.gpus, 1024 * MIB);
    machine_groups(pairs, 2, spec.gpus, spec.gpus, 1);
    kith_cost outside = cost_of(t, KITH_COST_ALL_REDUCE, "ring", pairs, 2, spec.gpus, 1024 * MIB);
    assert_int_equal(outside.slowest, KITH_LINK_NET);
    kith_topology_destroy(t);
    return inside.gbps / outside.gbps;
}

static void test_ratios(void **state)
{
    (void)state;
    const struct {
        machine_spec spec;
        double ratio;
        const char *what;
    } rows[] = {
        { machine_dgx_1v, 20, "DGX-1V, 4 EDR" },
        { { "Tesla V100", 1, 16, 8, 2, .nvlinks = 6, .nic_gbps = 12 }, 20, "DGX-2, 8 EDR" },
        { { "NVIDIA A100", 1, 8, 8, 2, .nvlinks = 12, .nic_gbps = 24 }, 10, "DGX A100, 8 HDR" },
        { { "NVIDIA A100", 1, 8, 4, 2, .nvlinks = 12, .nic_gbps = 12 }, 40, "p4d, 4 x 100G" },
        { machine_hgx_h100, 7.7, "HGX H100, 8 NDR" },
        { { "NVIDIA B200", 1, 8, 8, 2, .nvlinks = 18, .nic_gbps = 48 }, 15, "HGX B200, 8 x 400G" },
        { { "NVIDIA H800", 1, 8, 8, 2, .nvlinks = 8, .nic_gbps = 48 }, 3.4, "H800, 8 NDR" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        assert_near(ratio_of(rows[i].spec), rows[i].ratio, 0.03, rows[i].what);
}

/* All six links of a GPU of a DGX-1V are used when there may be several rings; one ring has one or two of them. */
static void test_mesh_uses_all_links(void **state)
{
    (void)state;
    kith_topology *t = make(machine_dgx_1v);
    static const int around[] = { 0, 3, 2, 1, 5, 6, 7, 4 };
    kith_cost one = cost_of(t, KITH_COST_ALL_REDUCE, "ring", around, 8, 1, 1024 * MIB);
    kith_cost all = cost_of(t, KITH_COST_ALL_REDUCE, "multi_ring", around, 8, 1, 1024 * MIB);
    assert_near(one.gbps, 40, 1e-6, "one ring of double links");
    assert_near(all.gbps, 120, 0.05, "all links");
    kith_topology_destroy(t);
}

/* ---- TP over two nodes ---- */

static void test_two_nodes_with_rails(void **state)
{
    (void)state;
    machine_spec spec = machine_hgx_h100;
    spec.nodes = 2;
    kith_topology *t = make(spec);
    double nbytes = 1024 * MIB;
    kith_cost rails = first_cost(t, KITH_COST_ALL_REDUCE, "multi_ring", 16, nbytes);
    assert_true(rails.gbps > 350);
    kith_topology_destroy(t);
    spec.nics = 1;
    t = make(spec);
    kith_cost one = first_cost(t, KITH_COST_ALL_REDUCE, "multi_ring", 16, nbytes);
    assert_near(one.gbps, 48, 0.01, "one NIC");
    assert_true(one.is_shared);
    assert_true(one.time_s > 7 * rails.time_s);
    kith_topology_destroy(t);
}

/* What is left without latencies cannot be more than the NICs of a node carry, whatever the size. */
static void test_no_more_than_nics_carry(void **state)
{
    (void)state;
    static const kith_cost_op ops[] = { KITH_COST_ALL_REDUCE, KITH_COST_REDUCE_SCATTER, KITH_COST_ALL_GATHER };
    machine_spec spec = machine_hgx_h100;
    spec.nodes = 2;
    kith_topology *t = make(spec);
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++)
        for (double nbytes = MIB; nbytes <= 1024 * MIB; nbytes *= 4) {
            kith_cost cost = first_cost(t, ops[i], "multi_ring", 16, nbytes);
            if (cost.gbps > 8 * 48 * (1 + 1e-9) || cost.latency_s > cost.time_s)
                fail_msg("op %d, %g MiB: %g GB/s where 8 NICs carry 384; %g of %g s are latency", (int)ops[i],
                         nbytes / MIB, cost.gbps, cost.latency_s, cost.time_s);
        }
    kith_topology_destroy(t);
}

/* One ring leaves a node over one NIC, however many there are. */
static void test_one_ring_has_one_nic(void **state)
{
    (void)state;
    machine_spec spec = machine_hgx_h100;
    spec.nodes = 2;
    kith_topology *t = make(spec);
    kith_cost cost = first_cost(t, KITH_COST_ALL_REDUCE, "ring", 16, 1024 * MIB);
    assert_near(cost.gbps, 48, 2e-3, "one ring");
    assert_int_equal(cost.slowest, KITH_LINK_NET);
    assert_true((cost.slowest_from == 7 && cost.slowest_to == 8) || (cost.slowest_from == 15 && cost.slowest_to == 0));
    kith_topology_destroy(t);
}

/* ---- sharing ---- */

static void test_groups_share_a_nic(void **state)
{
    (void)state;
    machine_spec spec = machine_hgx_h100;
    spec.nodes = 2;
    spec.nics = 4;
    kith_topology *t = make(spec);
    int groups[16];
    machine_groups(groups, 2, 8, 8, 1);
    kith_cost all = cost_of(t, KITH_COST_SEND_RECV, NULL, groups, 2, 8, 64 * MIB);
    kith_cost one = cost_of(t, KITH_COST_SEND_RECV, NULL, groups, 2, 1, 64 * MIB);
    assert_near(all.gbps, 24, 1e-6, "two GPUs on a NIC");
    assert_true(all.is_shared);
    assert_near(one.gbps, 48, 1e-6, "alone");
    assert_false(one.is_shared);
    assert_near(one.time_s, 64 * MIB / 48e9 + 14e-6, 1e-6, "send_recv");
    kith_topology_destroy(t);
}

/* The last rank sends nothing to the first: only the hops of the chain count. */
static void test_send_recv_is_a_chain(void **state)
{
    (void)state;
    kith_topology *t = make(machine_dgx_1v);
    static const int near[] = { 1, 0, 4 }, far[] = { 0, 4, 1 }; /* GPUs 4 and 1 have no NVLink */
    kith_cost cost = cost_of(t, KITH_COST_SEND_RECV, NULL, near, 3, 1, MIB);
    assert_int_equal(cost.slowest, KITH_LINK_NVLINK);
    assert_near(cost.time_s, cost_of(t, KITH_COST_SEND_RECV, NULL, near, 2, 1, MIB).time_s, 1e-9, "of a hop");
    cost = cost_of(t, KITH_COST_SEND_RECV, NULL, far, 3, 1, MIB);
    assert_true(cost.slowest < KITH_LINK_NVLINK);
    kith_topology_destroy(t);
}

static void test_oversubscribed_leaf(void **state)
{
    (void)state;
    machine_spec spec = machine_hgx_h100;
    spec.nodes = 4;
    spec.nodes_of_leaf = 2;
    spec.uplinks = 8;
    spec.uplink_gbps = 48;
    kith_topology *t = make(spec);
    int near[32], far[32];
    for (int g = 0; g < 16; g++) {
        near[2 * g] = g % 8 + g / 8 * 16; /* nodes 0 and 1, 2 and 3 */
        near[2 * g + 1] = near[2 * g] + 8;
        far[2 * g] = g; /* nodes 0 and 2, 1 and 3 */
        far[2 * g + 1] = g + 16;
    }
    assert_near(cost_of(t, KITH_COST_SEND_RECV, NULL, near, 2, 16, MIB).gbps, 48, 1e-6, "inside a leaf");
    kith_cost cost = cost_of(t, KITH_COST_SEND_RECV, NULL, far, 2, 16, MIB);
    assert_near(cost.gbps, 24, 1e-6, "half the uplinks");
    assert_true(cost.is_shared);
    kith_topology_destroy(t);
}

static void test_nvlink_domain(void **state)
{
    (void)state;
    machine_spec spec = { "NVIDIA GB200",      4, 4, 4, 2, .nvlinks = 18, .nic_gbps = 48, .nodes_of_domain = 2,
                          .domain_gbps = 721.8 };
    kith_topology *t = make(spec);
    kith_cost inside = first_cost(t, KITH_COST_ALL_REDUCE, "ring", 8, 1024 * MIB);
    assert_int_equal(inside.slowest, KITH_LINK_NVLINK);
    assert_near(inside.gbps, 721.8, 1e-6, "one domain");
    kith_cost across = first_cost(t, KITH_COST_ALL_REDUCE, "ring", 16, 1024 * MIB);
    assert_int_equal(across.slowest, KITH_LINK_NET);
    kith_cost levels = first_cost(t, KITH_COST_ALL_REDUCE, "hierarchical", 16, 1024 * MIB);
    assert_true(levels.time_s < across.time_s / 4);
    kith_topology_destroy(t);
}

/* ---- algorithms ---- */

/* 16 ranks on 2 nodes: a hop to the other node is slow, and blocks wait for it. Two of them are under way at a time,
 * their requests came before. SimGrid: 90.3 us and 181.9 us. */
static void test_all_gather_waits_for_the_network(void **state)
{
    (void)state;
    machine_spec spec = machine_hgx_h100;
    spec.nodes = 2;
    spec.nics = 8;
    kith_topology *t = make(spec);
    double network_a = 14e-6, nvlink_a = 3.4e-6, b = MIB / 16 / 48e9;
    double pace = (network_a * 2 / 3 + b) / 2; /* b less than the hop before takes, so (2/3 a + 2b - b) / 2 */
    assert_near(first_cost(t, KITH_COST_ALL_GATHER, "ring", 16, MIB).time_s, 15 * pace + network_a + b - pace, 1e-4,
                "ring");
    /* 8 rings: each GPU has 7 of them on NVLink, where they meet at any time, and the NICs never rest. */
    double alone = MIB / 2 / 370.8e9, met;
    b = MIB / 2 / 48e9;
    met = alone / (1 - 6 * alone / b);
    assert_near(first_cost(t, KITH_COST_ALL_GATHER, "multi_ring", 16, 64 * MIB).time_s,
                15 * b + 2 * network_a + 7 * (nvlink_a + met - b), 1e-4, "multi_ring");
    kith_topology_destroy(t);
}

/* Recursive doubling, 8 ranks on NVSwitch: 3 rounds of everything. Rabenseifner: halves, and back. */
static void test_rounds_of_plans(void **state)
{
    (void)state;
    kith_topology *t = make(machine_hgx_h100);
    double a = 3.4e-6, b = 64 * MIB / 370.8e9;
    struct {
        kith_cost_op op;
        const char *name;
        double wanted_s;
    } rows[] = {
        { KITH_COST_ALL_REDUCE, "recursive_doubling", 3 * (a + b) },
        { KITH_COST_ALL_REDUCE, "rabenseifner", 6 * a + 2 * b * 7 / 8 },
        { KITH_COST_ALL_REDUCE, "linear", 2 * a + 2 * b * 7 / 8 },
        { KITH_COST_ALL_REDUCE, "all_gather_reduce", 3 * a + 7 * b },
        { KITH_COST_REDUCE_SCATTER, "ring", 7 * a + b * 7 / 8 },
        { KITH_COST_REDUCE_SCATTER, "recursive_halving", 3 * a + b * 7 / 8 },
        { KITH_COST_REDUCE_SCATTER, "pairwise", 4 * a + b * 7 / 8 }, /* two in flight */
        { KITH_COST_REDUCE_SCATTER, "linear", a + b * 7 / 8 },
        { KITH_COST_ALL_GATHER, "ring", 7 * a + b * 7 / 8 },
        { KITH_COST_ALL_GATHER, "bruck", 3 * a + b * 7 / 8 },
        { KITH_COST_ALL_GATHER, "recursive_doubling", 3 * a + b * 7 / 8 },
        { KITH_COST_ALL_GATHER, "neighbor_exchange", 4 * a + b * 7 / 8 },
        { KITH_COST_ALL_GATHER, "linear", a + b * 7 / 8 },
        { KITH_COST_ALL_TO_ALL, "pairwise", 4 * a + b * 7 / 8 },
        { KITH_COST_ALL_TO_ALL, "bruck", 3 * a + 3 * b / 2 },
        { KITH_COST_BROADCAST, "linear", a + 7 * b },
        { KITH_COST_BROADCAST, "binomial", 3 * a + 6 * b }, /* the root sends three at once, its children two, one */
        { KITH_COST_BROADCAST, "chain_segmented", 7 * (a + b / 64) + b * 63 / 64 },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        assert_near(first_cost(t, rows[i].op, rows[i].name, 8, 64 * MIB).time_s, rows[i].wanted_s, 0.001, rows[i].name);
    kith_topology_destroy(t);
}

static void test_hierarchical(void **state)
{
    (void)state;
    machine_spec spec = machine_hgx_h100;
    spec.nodes = 4;
    kith_topology *t = make(spec);
    double s = 1024 * MIB, inside = 7.0 / 8 * s / 370.8e9, between = 2 * 3.0 / 4 * s / 8 / 48e9;
    kith_cost cost = first_cost(t, KITH_COST_ALL_REDUCE, "hierarchical", 32, s);
    assert_near(cost.time_s - cost.latency_s, 2 * inside + between, 0.001, "hierarchical");
    int apart[4] = { 0, 8, 16, 24 };
    kith_cost none;
    assert_int_equal(kith_cost_collective(t, KITH_COST_ALL_REDUCE, "hierarchical", apart, 4, 1, s, &none),
                     KITH_ERR_UNSUPPORTED);
    /* Any order of the members is cut the same way. */
    int mixed[32];
    for (int i = 0; i < 32; i++)
        mixed[i] = i % 4 * 8 + i / 4;
    assert_near(cost_of(t, KITH_COST_ALL_REDUCE, "hierarchical", mixed, 32, 1, s).time_s, cost.time_s, 1e-9, "mixed");
    kith_topology_destroy(t);
}

/* The best is one of those that can be asked for, and none is cheaper. */
static void test_best_is_cheapest(void **state)
{
    (void)state;
    machine_spec spec = machine_hgx_h100;
    spec.nodes = 2;
    kith_topology *t = make(spec);
    for (int op = 0; op <= KITH_COST_SHIFT; op++)
        for (double nbytes = 1024; nbytes < 1e9; nbytes *= 32) {
            kith_cost best = first_cost(t, (kith_cost_op)op, NULL, 16, nbytes);
            bool is_found = false;
            const char *name;
            for (int i = 0; (name = kith_cost_algorithm_name((kith_cost_op)op, i)) != NULL; i++) {
                kith_cost one = first_cost(t, (kith_cost_op)op, name, 16, nbytes);
                assert_true(best.time_s <= one.time_s);
                is_found |= strcmp(name, best.algorithm) == 0 && best.time_s >= one.time_s;
            }
            assert_true(is_found);
            assert_true(best.latency_s <= best.time_s);
        }
    kith_topology_destroy(t);
}

/* ---- properties ---- */

static void test_nics_never_hurt(void **state)
{
    (void)state;
    machine_spec spec = machine_hgx_h100;
    spec.nodes = 2;
    for (int op = 0; op <= KITH_COST_SHIFT; op++) {
        double before = INFINITY;
        for (spec.nics = 1; spec.nics <= 8; spec.nics *= 2) {
            kith_topology *t = make(spec);
            double now = first_cost(t, (kith_cost_op)op, NULL, 16, 64 * MIB).time_s;
            assert_true(now <= before * (1 + 1e-9));
            before = now;
            kith_topology_destroy(t);
        }
    }
}

static int removed_from, removed_to;

static void remove_link(kith_topology *t, ki_kind *kind)
{
    machine_dgx_1v.edit(t, kind);
    if (removed_from != removed_to)
        ki_kind_set_link(kind, removed_from, removed_to,
                         removed_from / 4 != removed_to / 4 ? KITH_LINK_SYS : KITH_LINK_NODE, 0, KITH_KNOWN);
}

/* Every link of a DGX-1V, one after the other, for every algorithm that is told by name. */
static void test_removing_a_link_never_helps(void **state)
{
    (void)state;
    machine_spec spec = machine_dgx_1v;
    spec.edit = remove_link;
    removed_from = removed_to = 0;
    kith_topology *whole = make(spec);
    for (removed_from = 0; removed_from < 8; removed_from++)
        for (removed_to = 0; removed_to < removed_from; removed_to++) {
            kith_topology *t = make(spec);
            const char *name;
            for (int i = 0; (name = kith_cost_algorithm_name(KITH_COST_ALL_REDUCE, i)) != NULL; i++) {
                if (strncmp(name, "hierarchical", 12) == 0 || strcmp(name, "multi_ring") == 0)
                    continue;
                double with = first_cost(whole, KITH_COST_ALL_REDUCE, name, 8, 64 * MIB).time_s;
                double without = first_cost(t, KITH_COST_ALL_REDUCE, name, 8, 64 * MIB).time_s;
                assert_true(without >= with * (1 - 1e-9));
            }
            kith_topology_destroy(t);
        }
    kith_topology_destroy(whole);
}

/* On NVSwitch every order of a group costs the same, and so does every choice of GPUs. */
static void test_symmetric_island(void **state)
{
    (void)state;
    kith_topology *t = make(machine_hgx_h100);
    static const int orders[][4] = { { 0, 1, 2, 3 }, { 3, 1, 0, 2 }, { 7, 2, 5, 0 }, { 4, 6, 1, 3 } };
    for (int op = 0; op <= KITH_COST_SHIFT; op++) {
        double first = cost_of(t, (kith_cost_op)op, NULL, orders[0], 4, 1, 8 * MIB).time_s;
        for (int i = 1; i < 4; i++)
            assert_near(cost_of(t, (kith_cost_op)op, NULL, orders[i], 4, 1, 8 * MIB).time_s, first, 1e-9, "order");
    }
    kith_topology_destroy(t);
}

static void test_more_groups_never_help(void **state)
{
    (void)state;
    machine_spec spec = machine_hgx_h100;
    spec.nodes = 4;
    spec.nics = 2;
    spec.has_pci_switches = true;
    kith_topology *t = make(spec);
    int groups[32];
    machine_groups(groups, 4, 8, 8, 1);
    for (int op = 0; op <= KITH_COST_SHIFT; op++) {
        double before = 0;
        for (int count = 1; count <= 8; count++) {
            double now = cost_of(t, (kith_cost_op)op, NULL, groups, 4, count, 8 * MIB).time_s;
            assert_true(now >= before * (1 - 1e-9));
            before = now;
        }
    }
    kith_topology_destroy(t);
}

/* ---- edges ---- */

static void test_group_of_one(void **state)
{
    (void)state;
    kith_topology *t = make(machine_hgx_h100);
    kith_cost cost = first_cost(t, KITH_COST_ALL_REDUCE, NULL, 1, 64 * MIB);
    assert_true(cost.time_s == 0);
    assert_int_equal(cost.slowest, KITH_LINK_SELF);
    assert_int_equal(cost.slowest_from, -1);
    kith_cost nothing = first_cost(t, KITH_COST_ALL_REDUCE, "ring", 8, 0);
    assert_near(nothing.time_s, 14 * 3.4e-6, 1e-9, "no bytes: latency alone");
    kith_topology_destroy(t);
}

static void test_refusals(void **state)
{
    (void)state;
    kith_topology *t = make(machine_hgx_h100);
    kith_cost cost;
    static const int wrong[] = { 0, 8 }, twice[] = { 1, 1 }, right[] = { 0, 1 };
    assert_int_equal(kith_cost_collective(t, KITH_COST_ALL_REDUCE, NULL, wrong, 2, 1, 1, &cost), KITH_ERR_INVALID_ARG);
    assert_non_null(strstr(kith_error_detail(), "GPU 8"));
    assert_int_equal(kith_cost_collective(t, KITH_COST_ALL_REDUCE, NULL, twice, 2, 1, 1, &cost), KITH_ERR_INVALID_ARG);
    assert_int_equal(kith_cost_collective(t, KITH_COST_ALL_REDUCE, "rings", right, 2, 1, 1, &cost),
                     KITH_ERR_INVALID_ARG);
    assert_non_null(strstr(kith_error_detail(), "rabenseifner"));
    assert_int_equal(kith_cost_collective(t, KITH_COST_ALL_REDUCE, NULL, right, 2, 1, -1, &cost), KITH_ERR_INVALID_ARG);
    assert_int_equal(kith_cost_collective(t, KITH_COST_ALL_REDUCE, NULL, right, 2, 1, NAN, &cost),
                     KITH_ERR_INVALID_ARG);
    assert_int_equal(kith_cost_collective(t, KITH_COST_ALL_REDUCE, NULL, right, 0, 1, 1, &cost), KITH_ERR_INVALID_ARG);
    assert_int_equal(kith_cost_collective(t, KITH_COST_ALL_GATHER, "neighbor_exchange", right, 1, 1, 1, &cost),
                     KITH_OK);
    kith_topology_destroy(t);
}

/* TP inside nodes, DP over 2048 of them, 16,384 GPUs: no algorithm that grows with the square of the ranks is tried. */
static void test_many_gpus(void **state)
{
    (void)state;
    machine_spec spec = machine_hgx_h100;
    spec.nodes = 2048;
    kith_topology *t = make(spec);
    int *groups = calloc(16384, sizeof *groups);
    machine_groups(groups, 8, 2048, 1, 8);
    assert_near(cost_of(t, KITH_COST_ALL_REDUCE, NULL, groups, 8, 2048, 64 * MIB).time_s,
                first_cost(t, KITH_COST_ALL_REDUCE, NULL, 8, 64 * MIB).time_s, 1e-9, "all nodes as one");
    machine_groups(groups, 2048, 8, 8, 1);
    kith_cost across = cost_of(t, KITH_COST_ALL_REDUCE, NULL, groups, 2048, 8, 64 * MIB);
    assert_string_equal(across.algorithm, "rabenseifner");
    assert_near(across.time_s, 22 * 14e-6 + 2 * 2047.0 / 2048 * 64 * MIB / 48e9, 0.001, "rabenseifner over 2048 nodes");
    machine_groups(groups, 16384, 1, 1, 0);
    kith_cost ring = cost_of(t, KITH_COST_REDUCE_SCATTER, "ring", groups, 16384, 1, 1024 * MIB);
    assert_near(ring.time_s, 16383 * (14e-6 + 1024 * MIB / 16384 / 48e9), 1e-6, "ring over all");
    free(groups);
    kith_topology_destroy(t);
}

/* Every allocation fails once: the answer is that there is no memory, or, where none failed, the right one. */
static void test_no_memory(void **state)
{
    (void)state;
    machine_spec spec = machine_dgx_1v;
    spec.nodes = 2;
    kith_topology *t = make(spec);
    int groups[16];
    machine_groups(groups, 8, 2, 1, 8);
    kith_cost whole = cost_of(t, KITH_COST_ALL_REDUCE, NULL, groups, 8, 2, MIB), cost;
    kith_status status = KITH_ERR_NO_MEMORY;
    int failed = 0;
    for (int n = 1; status == KITH_ERR_NO_MEMORY; n++) {
        char fault[32];
        snprintf(fault, sizeof fault, "alloc:%d", n);
        setenv("KITH_FAULT", fault, 1);
        assert_int_equal(ki_fault_configure(0), KITH_OK);
        status = kith_cost_collective(t, KITH_COST_ALL_REDUCE, NULL, groups, 8, 2, MIB, &cost);
        failed += status == KITH_ERR_NO_MEMORY;
    }
    unsetenv("KITH_FAULT");
    ki_fault_configure(0);
    assert_int_equal(status, KITH_OK);
    assert_true(failed > 50);
    assert_true(cost.time_s >= whole.time_s && cost.time_s <= whole.time_s);
    kith_topology_destroy(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_worked_example),
        cmocka_unit_test(test_stated_numbers),
        cmocka_unit_test(test_ratios),
        cmocka_unit_test(test_mesh_uses_all_links),
        cmocka_unit_test(test_two_nodes_with_rails),
        cmocka_unit_test(test_no_more_than_nics_carry),
        cmocka_unit_test(test_one_ring_has_one_nic),
        cmocka_unit_test(test_groups_share_a_nic),
        cmocka_unit_test(test_send_recv_is_a_chain),
        cmocka_unit_test(test_oversubscribed_leaf),
        cmocka_unit_test(test_nvlink_domain),
        cmocka_unit_test(test_all_gather_waits_for_the_network),
        cmocka_unit_test(test_rounds_of_plans),
        cmocka_unit_test(test_hierarchical),
        cmocka_unit_test(test_best_is_cheapest),
        cmocka_unit_test(test_nics_never_hurt),
        cmocka_unit_test(test_removing_a_link_never_helps),
        cmocka_unit_test(test_symmetric_island),
        cmocka_unit_test(test_more_groups_never_help),
        cmocka_unit_test(test_group_of_one),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_many_gpus),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
