/* tests/topology/test_paths.c - which resources a transfer uses.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "machine.h"
#include "topology/paths.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

typedef struct view {
    kith_topology *t;
    ki_paths *paths;
} view;

static view look_at(machine_spec spec)
{
    view v = { machine_create(&spec), NULL };
    assert_non_null(v.t);
    int count = kith_topology_gpu_count(v.t), *all = calloc((size_t)count, sizeof *all);
    for (int i = 0; i < count; i++)
        all[i] = i;
    assert_int_equal(ki_paths_create(v.t, all, (size_t)count, &v.paths), KITH_OK);
    free(all);
    return v;
}

static void leave(view *v)
{
    ki_paths_destroy(v->paths);
    kith_topology_destroy(v->t);
}

/* The route as text: "node0.gpu0.nvlink.out node0.gpu1.nvlink.in"; shares other than 1 behind a star. */
static const char *route_text(const view *v, int from, int to)
{
    static char text[1024];
    ki_route route;
    assert_int_equal(ki_paths_route(v->paths, from, to, &route), KITH_OK);
    text[0] = '\0';
    for (int i = 0; i < route.hop_count; i++) {
        char name[64], share[24] = "";
        if (fabsf(route.hops[i].share - 1) > 1e-6f)
            snprintf(share, sizeof share, "*%.3g", (double)route.hops[i].share);
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%s%s", i > 0 ? " " : "",
                 ki_paths_name(v->paths, route.hops[i].resource, name, sizeof name), share);
    }
    return text;
}

static void assert_route(const view *v, int from, int to, const char *wanted)
{
    const char *got = route_text(v, from, to);
    if (strcmp(got, wanted) == 0)
        return;
    print_error("route %d to %d\n  wanted %s\n  got    %s\n", from, to, wanted, got);
    fail();
}

static ki_route route_of(const view *v, int from, int to)
{
    ki_route route;
    assert_int_equal(ki_paths_route(v->paths, from, to, &route), KITH_OK);
    return route;
}

static void test_switch(void **state)
{
    (void)state;
    view v = look_at(machine_hgx_h100);
    assert_route(&v, 0, 5, "node0.gpu0.nvlink.out node0.gpu5.nvlink.in");
    ki_route route = route_of(&v, 0, 5);
    assert_int_equal(route.type, KITH_LINK_NVLINK);
    assert_true(fabs(route.gbps - 370.8) < 1e-6 && fabs(route.latency_s - 3.4e-6) < 1e-12);
    leave(&v);
}

static void test_direct_links(void **state)
{
    (void)state;
    view v = look_at(machine_dgx_1v);
    assert_route(&v, 0, 3, "node0.gpu0.pair3");
    assert_true(fabs(route_of(&v, 0, 3).gbps - 40) < 1e-6);
    assert_true(fabs(route_of(&v, 0, 1).gbps - 20) < 1e-6);
    assert_route(&v, 0, 5, "node0.gpu0.pcie.out node0.place0.socket1 node0.gpu5.pcie.in");
    assert_int_equal(route_of(&v, 0, 5).type, KITH_LINK_SYS);
    leave(&v);
}

static void test_pci_switches(void **state)
{
    (void)state;
    machine_spec spec = { "NVIDIA A10", 2, 8, 4, 2, .nic_gbps = 12, .socket_gbps = 10, .has_pci_switches = true };
    view v = look_at(spec);
    assert_route(&v, 0, 1, "node0.gpu0.pcie.out node0.gpu1.pcie.in");
    assert_route(&v, 0, 2, "node0.gpu0.pcie.out node0.switch0.up node0.switch1.down node0.gpu2.pcie.in");
    assert_route(&v, 5, 0,
                 "node0.gpu5.pcie.out node0.switch2.up node0.place1.socket0 node0.switch0.down node0.gpu0.pcie.in");
    assert_true(fabs(route_of(&v, 5, 0).gbps - 10) < 1e-6);
    assert_route(&v, 7, 8, "node0.gpu7.pcie.out node0.nic3.out node1.gpu0.pcie.in node1.nic0.in");
    assert_true(fabs(route_of(&v, 7, 8).latency_s - 14e-6) < 1e-12);
    leave(&v);
}

/* A GPU whose only NIC is on the other socket goes through the link between them. */
static void test_far_nic(void **state)
{
    (void)state;
    machine_spec spec = machine_hgx_h100;
    spec.nodes = 2;
    spec.nics = 1;
    spec.socket_gbps = 20;
    view v = look_at(spec);
    assert_route(&v, 7, 8, "node0.gpu7.pcie.out node0.nic0.out node1.gpu0.pcie.in node1.nic0.in");
    leave(&v);
}

static void spread_nics(kith_topology *t, ki_kind *kind)
{
    (void)t;
    for (int g = 0; g < kind->view.gpu_count; g++)
        for (int n = 0; n < kind->view.nic_count; n++)
            ki_kind_nic_link(kind, g, n)->type = g / 4 == n / 2 ? KITH_LINK_NODE : KITH_LINK_SYS;
    ((kith_nic *)(uintptr_t)&kind->view.nics[1])->gbps = 24;
}

/* Two equally near NICs share the bytes in the ratio of their speeds. */
static void test_near_nics_share(void **state)
{
    (void)state;
    machine_spec spec = machine_hgx_h100;
    spec.nodes = 2;
    spec.nics = 4;
    spec.edit = spread_nics;
    view v = look_at(spec);
    assert_route(&v, 0, 8,
                 "node0.gpu0.pcie.out node0.nic0.out*0.667 node0.nic1.out*0.333 "
                 "node1.gpu0.pcie.in node1.nic0.in*0.667 node1.nic1.in*0.333");
    assert_true(fabs(route_of(&v, 0, 8).gbps - 48) < 1e-4); /* PCIe; the NICs together 72 */
    leave(&v);
}

static void only_far_nic(kith_topology *t, ki_kind *kind)
{
    (void)t;
    for (int g = 0; g < kind->view.gpu_count; g++)
        ki_kind_nic_link(kind, g, 0)->type = g < 4 ? KITH_LINK_NODE : KITH_LINK_SYS;
}

static void test_nic_behind_the_socket(void **state)
{
    (void)state;
    machine_spec spec = machine_hgx_h100;
    spec.nodes = 2;
    spec.nics = 1;
    spec.socket_gbps = 20;
    spec.edit = only_far_nic;
    view v = look_at(spec);
    assert_route(&v, 0, 8, "node0.gpu0.pcie.out node0.nic0.out node1.gpu0.pcie.in node1.nic0.in");
    assert_route(&v, 7, 15,
                 "node0.gpu7.pcie.out node0.place1.socket0 node0.nic0.out "
                 "node1.gpu7.pcie.in node1.place0.socket1 node1.nic0.in");
    leave(&v);
}

static void test_leaves(void **state)
{
    (void)state;
    machine_spec spec = machine_hgx_h100;
    spec.nodes = 4;
    spec.nodes_of_leaf = 2;
    spec.uplinks = 4;
    spec.uplink_gbps = 48;
    view v = look_at(spec);
    assert_route(&v, 0, 8, "node0.gpu0.pcie.out node0.nic0.out node1.gpu0.pcie.in node1.nic0.in");
    assert_route(&v, 0, 16, "node0.gpu0.pcie.out node0.nic0.out node2.gpu0.pcie.in node2.nic0.in leaf2.down leaf1.up");
    leave(&v);
    spec.has_rails = true;
    v = look_at(spec);
    assert_route(&v, 3, 11, "node0.gpu3.pcie.out node0.nic3.out node1.gpu3.pcie.in node1.nic3.in");
    assert_route(&v, 3, 12, "node0.gpu3.pcie.out node0.nic3.out node1.gpu4.pcie.in node1.nic4.in leaf5.down leaf4.up");
    leave(&v);
}

static void test_unknown_uplinks_do_not_limit(void **state)
{
    (void)state;
    machine_spec spec = machine_hgx_h100;
    spec.nodes = 4;
    spec.nodes_of_leaf = 2;
    view v = look_at(spec);
    assert_route(&v, 0, 16, "node0.gpu0.pcie.out node0.nic0.out node2.gpu0.pcie.in node2.nic0.in");
    leave(&v);
}

static void test_domain(void **state)
{
    (void)state;
    machine_spec spec = { "NVIDIA GB200",      4, 4, 4, 2, .nvlinks = 18, .nic_gbps = 48, .nodes_of_domain = 2,
                          .domain_gbps = 721.8 };
    view v = look_at(spec);
    assert_route(&v, 0, 4, "node0.gpu0.nvlink.out node1.gpu0.nvlink.in");
    assert_route(&v, 0, 8, "node0.gpu0.pcie.out node0.nic0.out node2.gpu0.pcie.in node2.nic0.in");
    leave(&v);
}

static void forget_links(kith_topology *t, ki_kind *kind)
{
    (void)t;
    for (int a = 0; a < kind->view.gpu_count; a++)
        for (int b = 0; b < a; b++)
            ki_kind_set_link(kind, a, b, KITH_LINK_UNKNOWN, 0, KITH_UNKNOWN);
}

/* Unknown is not free, and it is told. */
static void test_unknown(void **state)
{
    (void)state;
    machine_spec spec = machine_hgx_h100;
    spec.nodes = 2;
    spec.nics = 0;
    spec.nvlinks = 0;
    spec.edit = forget_links;
    view v = look_at(spec);
    assert_route(&v, 0, 1, "node0.gpu0.pcie.out node0.gpu1.pcie.in");
    assert_int_equal(route_of(&v, 0, 1).type, KITH_LINK_UNKNOWN);
    assert_route(&v, 0, 8, "node0.gpu0.pcie.out node0.nic-1.out node1.gpu0.pcie.in node1.nic-1.in");
    assert_true(fabs(route_of(&v, 0, 8).gbps - 12) < 1e-6);
    leave(&v);
}

/* Resources of 16,384 GPUs are numbered without gaps, and each has a name and a bandwidth. */
static void test_numbers(void **state)
{
    (void)state;
    machine_spec spec = machine_hgx_h100;
    spec.nodes = 2048;
    view v = look_at(spec);
    int per_node = 2 * 8 + 2 * 8 + 2 * 8 + 4, node, last = ki_paths_resource_count(v.paths) - 1;
    assert_int_equal(last + 1, 2048 * per_node);
    assert_int_equal(ki_paths_resource(v.paths, last, &node).kind, KI_RESOURCE_NIC_IN);
    assert_int_equal(node, 2047);
    for (int r = 0; r <= last; r++)
        assert_true(ki_paths_gbps(v.paths)[r] > 0 && isfinite(ki_paths_gbps(v.paths)[r]));
    leave(&v);
}

/* Only the nodes that are asked for get numbers. */
static void test_some_nodes(void **state)
{
    (void)state;
    machine_spec spec = machine_hgx_h100;
    spec.nodes = 100;
    kith_topology *t = machine_create(&spec);
    static const int gpus[] = { 80, 400 }, wrong[] = { 800 };
    ki_paths *paths;
    assert_int_equal(ki_paths_create(t, gpus, 2, &paths), KITH_OK);
    view v = { t, paths };
    assert_int_equal(ki_paths_resource_count(paths), 2 * (3 * 16 + 4));
    assert_route(&v, 80, 400, "node10.gpu0.pcie.out node10.nic0.out node50.gpu0.pcie.in node50.nic0.in");
    ki_paths_destroy(paths);
    assert_int_equal(ki_paths_create(t, wrong, 1, &paths), KITH_ERR_INVALID_ARG);
    kith_topology_destroy(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_switch),          cmocka_unit_test(test_direct_links),
        cmocka_unit_test(test_pci_switches),    cmocka_unit_test(test_far_nic),
        cmocka_unit_test(test_near_nics_share), cmocka_unit_test(test_nic_behind_the_socket),
        cmocka_unit_test(test_leaves),          cmocka_unit_test(test_unknown_uplinks_do_not_limit),
        cmocka_unit_test(test_domain),          cmocka_unit_test(test_unknown),
        cmocka_unit_test(test_numbers),         cmocka_unit_test(test_some_nodes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
