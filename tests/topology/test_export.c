/* tests/topology/test_export.c - a placement in the forms of other tools, and in reports.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "core/base/json.h"
#include "machines.h"
#include "topology/print.h"

#include <kith/context.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Two hosts with two bridged pairs, {0,3} and {1,2}; GPU i is on NUMA node 3 - i, as on some real machines. */
static kith_topology *two_hosts(bool knows_cpus)
{
    static const int numas[] = { 3, 2, 1, 0 };
    static const char *const cpus[] = { "0-7", "8-15", "16-23", "24-31" };
    kith_topology *t = machine_new();
    ki_kind *kind =
        machine_add_kind(t, 4, "X SYS SYS NV4 SYS X NV4 SYS SYS NV4 X SYS NV4 SYS SYS X", knows_cpus ? numas : NULL);
    for (int n = 0; n < 4 && knows_cpus; n++)
        ki_kind_add_numa(t, kind)->cpus = cpus[n];
    for (int n = 0; n < 2; n++) {
        kith_nic *nic = ki_kind_add_nic(t, kind);
        nic->name = n == 0 ? "NIC0" : "NIC1";
        nic->device = n == 0 ? "mlx5_0" : "mlx5_1";
        nic->fabric = "infiniband";
    }
    kith_link links[16];
    memcpy(links, kind->view.links, sizeof links);
    ki_kind_make_links(t, kind);
    for (int i = 0; i < 16; i++)
        *ki_kind_link(kind, i / 4, i % 4) = links[i];
    for (int g = 0; g < 4; g++)
        for (int n = 0; n < 2; n++)
            ki_kind_nic_link(kind, g, n)->type = g / 2 == n ? KITH_LINK_PIX : KITH_LINK_SYS;
    ki_topology_add_node(t, "alpha", 0);
    ki_topology_add_node(t, "beta", 0);
    machine_finish(t);
    return t;
}

static kith_placement *place(const kith_topology *t, int tp, int ep, const char *order)
{
    kith_placement_options o = KITH_PLACEMENT_OPTIONS_INIT;
    kith_placement *p = NULL;
    o.tp = tp;
    o.ep = ep;
    o.order = order;
    if (kith_place(t, &o, &p) != KITH_OK)
        fail_msg("%s", kith_error_detail());
    return p;
}

static char *export_text(const kith_topology *t, const kith_placement *p, kith_export form)
{
    char *text = NULL;
    if (kith_placement_export(t, p, form, &text) != KITH_OK)
        fail_msg("form %d: %s", (int)form, kith_error_detail());
    return text;
}

static void expect_text(const kith_topology *t, const kith_placement *p, kith_export form, const char *wanted)
{
    char *got = export_text(t, p, form);
    if (strcmp(got, wanted) != 0)
        fail_msg("form %d: wanted\n%s\ngot\n%s", (int)form, wanted, got);
    kith_free(got);
}

static void expect_part(const kith_topology *t, const kith_placement *p, kith_export form, const char *part)
{
    char *got = export_text(t, p, form);
    if (strstr(got, part) == NULL)
        fail_msg("form %d: no '%s' in\n%s", (int)form, part, got);
    kith_free(got);
}

static void test_lists_of_hosts(void **state)
{
    (void)state;
    kith_topology *t = two_hosts(true);
    kith_placement *p = place(t, 2, 0, NULL);
    expect_text(t, p, KITH_EXPORT_RANKFILE,
                "# CPUs are the operating system's numbers: mpirun --mca rmaps_rank_file_physical 1 --rankfile FILE\n"
                "rank 0=alpha slot=24-31\nrank 1=alpha slot=0-7\nrank 2=alpha slot=16-23\nrank 3=alpha slot=8-15\n"
                "rank 4=beta slot=24-31\nrank 5=beta slot=0-7\nrank 6=beta slot=16-23\nrank 7=beta slot=8-15\n");
    expect_text(t, p, KITH_EXPORT_HOSTFILE, "alpha slots=4\nbeta slots=4\n");
    expect_text(t, p, KITH_EXPORT_SLURM, "alpha\nalpha\nalpha\nalpha\nbeta\nbeta\nbeta\nbeta\n");
    kith_placement_destroy(p);
    kith_topology_destroy(t);
}

/* Hosts whose names alternate between two switches: the list follows the switches, not the names. */
static void test_hosts_follow_switches(void **state)
{
    (void)state;
    static const int leaves[] = { 2, 2 };
    kith_topology *t = machine_new();
    machine_add_uniform(t, 2, "NV4", 1);
    machine_add_tree(t, 0, leaves, 2, 2, true);
    machine_finish(t);
    kith_placement_options o = KITH_PLACEMENT_OPTIONS_INIT;
    kith_placement *p = NULL;
    o.tp = 2;
    o.cp = 2;
    assert_int_equal(kith_place(t, &o, &p), KITH_OK);
    assert_int_equal(kith_topology_node(t, 0)->leaf, kith_topology_node(t, 2)->leaf);
    expect_text(t, p, KITH_EXPORT_SLURM, "n1\nn1\nn3\nn3\nn2\nn2\nn4\nn4\n");
    expect_text(t, p, KITH_EXPORT_HOSTFILE, "n1 slots=2\nn3 slots=2\nn2 slots=2\nn4 slots=2\n");
    kith_placement_destroy(p);
    kith_topology_destroy(t);
}

/* A rank knows its GPU by address: under a mask the first device of every process is number 0, only its address
 * leads to the NIC beside it. */
static void test_gpu_by_address(void **state)
{
    (void)state;
    static const char *const addresses[] = { "0000:1B:00.0", "00000000:43:00.0", "0001:1b:00.0", "0001:43:00" };
    kith_topology *t = two_hosts(true);
    kith_gpu *gpus = (kith_gpu *)(uintptr_t)kith_topology_kind(t, 0)->gpus;
    assert_int_equal(kith_topology_find_gpu(t, "alpha", addresses[0]), -1); /* addresses are not known */
    for (int g = 0; g < 4; g++)
        gpus[g].pci = (kith_pci_address){ .is_known = true, .domain = (uint32_t)g / 2, .bus = g % 2 ? 0x43 : 0x1b };
    for (int g = 0; g < 4; g++) {
        int found = kith_topology_find_gpu(t, "beta", addresses[g]), node, gpu, nic;
        kith_link_type type;
        assert_int_equal(found, 4 + g);
        assert_true(kith_topology_locate(t, found, &node, &gpu));
        assert_int_equal(kith_nearest_nics(kith_topology_kind(t, 0), gpu, &nic, 1, &type), 1);
        assert_int_equal(nic, g / 2);
    }
    assert_int_equal(kith_topology_find_gpu(t, "Alpha.cluster.example", addresses[3]), 3);
    assert_int_equal(kith_topology_find_gpu(t, "alph", addresses[3]), -1);
    assert_int_equal(kith_topology_find_gpu(t, "alpha2", addresses[3]), -1);
    assert_int_equal(kith_topology_find_gpu(t, "", addresses[3]), -1);
    assert_int_equal(kith_topology_find_gpu(t, NULL, addresses[3]), -1); /* which of two? */
    assert_int_equal(kith_topology_find_gpu(t, "beta", "0000:44:00.0"), -1);
    assert_int_equal(kith_topology_find_gpu(t, "beta", "GPU 3"), -1);
    assert_int_equal(kith_topology_find_gpu(t, "beta", NULL), -1);
    assert_int_equal(kith_topology_find_gpu(NULL, "beta", addresses[0]), -1);
    kith_topology_destroy(t);
}

static void test_environment(void **state)
{
    (void)state;
    kith_topology *t = two_hosts(true);
    kith_placement *p = place(t, 2, 0, NULL);
    expect_part(t, p, KITH_EXPORT_ENVIRONMENT,
                "rank=0 host=alpha CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=0 NCCL_IB_HCA==mlx5_0 "
                "UCX_NET_DEVICES=mlx5_0:1\nrank=1 host=alpha CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=3 "
                "NCCL_IB_HCA==mlx5_1 UCX_NET_DEVICES=mlx5_1:1\n");
    kith_placement_destroy(p);
    kith_topology_destroy(t);
}

/* Numbers of CUDA follow the addresses, whatever order the source lists GPUs in. */
static void test_numbers_by_address(void **state)
{
    (void)state;
    kith_topology *t = machine_new();
    ki_kind *kind = machine_add_uniform(t, 3, "NV6", 0);
    for (int g = 0; g < 3; g++)
        ((kith_gpu *)(uintptr_t)&kind->view.gpus[g])->pci =
            (kith_pci_address){ .is_known = true, .bus = (uint8_t)(0x90 - 0x10 * g) };
    ki_topology_add_node(t, "n", 0);
    machine_finish(t);
    kith_placement *p = place(t, 3, 0, NULL);
    expect_part(t, p, KITH_EXPORT_ENVIRONMENT, "rank=0 host=n CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=2\n");
    expect_part(t, p, KITH_EXPORT_ENVIRONMENT, "rank=2 host=n CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=0\n");
    kith_placement_destroy(p);
    kith_topology_destroy(t);
}

/* What is not known is not written. */
static void test_unknown_values(void **state)
{
    (void)state;
    kith_topology *t = two_hosts(false);
    kith_placement *p = place(t, 2, 0, NULL);
    char *text = NULL;
    assert_int_equal(kith_placement_export(t, p, KITH_EXPORT_RANKFILE, &text), KITH_ERR_INVALID_ARG);
    assert_null(text);
    assert_non_null(strstr(kith_error_detail(), "CPUs near"));
    char *kith = export_text(t, p, KITH_EXPORT_KITH);
    assert_null(strstr(kith, "cpus"));
    kith_free(kith);
    kith_placement_destroy(p);
    kith_topology_destroy(t);
    t = machine_new();
    ki_kind *kind = machine_add_uniform(t, 2, "PIX", 0);
    kind->view.format = "synthetic";
    ki_topology_add_node(t, "n", 0);
    machine_finish(t);
    p = place(t, 2, 0, NULL);
    expect_part(t, p, KITH_EXPORT_ENVIRONMENT, "# rank 0: no InfiniBand");
    expect_part(t, p, KITH_EXPORT_ENVIRONMENT, "rank=0 host=n\n");
    kith_placement_destroy(p);
    kith_topology_destroy(t);
}

/* A placement is not written with the names and CPUs of another machine. */
static void test_other_topology(void **state)
{
    (void)state;
    kith_topology *t = two_hosts(false), *other = two_hosts(false);
    kith_placement *p = place(t, 2, 0, NULL);
    char *text = NULL;
    for (int form = 0; form <= KITH_EXPORT_KITH; form++)
        assert_int_equal(kith_placement_export(other, p, (kith_export)form, &text), KITH_ERR_INVALID_ARG);
    for (int format = 0; format < 2; format++)
        assert_int_equal(kith_placement_print(other, p, (kith_format)format, &text), KITH_ERR_INVALID_ARG);
    assert_null(text);
    assert_non_null(strstr(kith_error_detail(), "another topology"));
    assert_int_equal(kith_placement_print(t, p, KITH_FORMAT_TEXT, &text), KITH_OK);
    kith_free(text);
    kith_placement_destroy(p);
    kith_topology_destroy(other);
    kith_topology_destroy(t);
}

static void test_bad_host(void **state)
{
    (void)state;
    kith_topology *t = machine_new();
    machine_add_uniform(t, 2, "PIX", 0);
    ki_topology_add_node(t, "a b\nrank 9=c", 0);
    machine_finish(t);
    kith_placement *p = place(t, 2, 0, NULL);
    for (int form = 0; form <= KITH_EXPORT_KITH; form++) {
        char *text = NULL;
        assert_int_equal(kith_placement_export(t, p, (kith_export)form, &text), KITH_ERR_INVALID_ARG);
        assert_null(text);
    }
    char *text = NULL;
    assert_int_equal(kith_placement_export(t, p, (kith_export)99, &text), KITH_ERR_INVALID_ARG);
    kith_placement_destroy(p);
    kith_topology_destroy(t);
}

static void test_megatron(void **state)
{
    (void)state;
    kith_topology *t = two_hosts(true);
    kith_placement *p = place(t, 2, 2, NULL);
    expect_part(t, p, KITH_EXPORT_MEGATRON,
                "--tensor-model-parallel-size 2 --pipeline-model-parallel-size 1 --context-parallel-size 1 "
                "--expert-model-parallel-size 2\n# data-parallel size: 4\n");
    char order[64] = "GPUs): ";
    for (int r = 0; r < 8; r++)
        snprintf(order + strlen(order), 4, "%d%s", kith_placement_gpu(p, r), r < 7 ? "," : "\n");
    expect_part(t, p, KITH_EXPORT_MEGATRON, order);
    kith_placement_destroy(p);
    kith_placement_options o = KITH_PLACEMENT_OPTIONS_INIT;
    o.tp = o.pp = o.dp = 2;
    o.order = "tp-pp-dp";
    assert_int_equal(kith_place(t, &o, &p), KITH_OK);
    expect_part(t, p, KITH_EXPORT_MEGATRON, "--use-tp-pp-dp-mapping\n");
    kith_placement_destroy(p);
    o.order = "dp-tp-pp";
    assert_int_equal(kith_place(t, &o, &p), KITH_OK);
    expect_part(t, p, KITH_EXPORT_MEGATRON, "no mapping with this order");
    kith_placement_destroy(p);
    kith_topology_destroy(t);
}

/* ---- JSON ---- */

static ki_json *parse(const char *text)
{
    ki_json *root = NULL;
    if (ki_json_parse(NULL, "export", text, strlen(text), &root) != KITH_OK)
        fail_msg("%s in\n%s", kith_error_detail(), text);
    return root;
}

static const ki_json *at(const ki_json *list, int index)
{
    const ki_json *element = list->first;
    while (index-- > 0)
        element = element->next;
    return element;
}

static void test_kith(void **state)
{
    (void)state;
    kith_topology *t = two_hosts(true);
    kith_placement *p = place(t, 2, 0, NULL);
    char *text = export_text(t, p, KITH_EXPORT_KITH);
    ki_json *root = parse(text);
    assert_true(ki_json_member(root, "kith_placement")->number == 1);
    const ki_json *rank = at(ki_json_member(root, "ranks"), 5);
    assert_true(ki_json_member(rank, "rank")->number == 5);
    assert_string_equal(ki_json_member(rank, "host")->text, "beta");
    assert_true(ki_json_member(rank, "gpu")->number == 3);
    assert_string_equal(ki_json_member(rank, "cpus")->text, "0-7");
    assert_string_equal(ki_json_member(ki_json_member(rank, "environment"), "CUDA_VISIBLE_DEVICES")->text, "3");
    assert_string_equal(ki_json_member(ki_json_member(rank, "environment"), "NCCL_IB_HCA")->text, "=mlx5_1");
    ki_json_free(NULL, root);
    kith_free(text);
    kith_placement_destroy(p);
    kith_topology_destroy(t);
}

static void test_report(void **state)
{
    (void)state;
    kith_topology *t = two_hosts(true);
    kith_placement *p = place(t, 2, 0, NULL);
    ki_text out = { 0 };
    ki_text_add(&out, "{");
    ki_print_placement_members(&out, t, p);
    ki_text_add(&out, "}");
    ki_json *root = parse(ki_text_chars(&out));
    const ki_json *placement = ki_json_member(root, "placement");
    assert_string_equal(ki_json_member(placement, "order")->text, "tp-cp-ep-dp-pp");
    assert_true(ki_json_member(ki_json_member(placement, "sizes"), "dp")->number == 4);
    assert_true(at(at(ki_json_member(placement, "tp"), 0), 1)->number == 3);
    assert_string_equal(ki_json_member(at(ki_json_member(placement, "ranks"), 4), "node")->text, "beta");
    const ki_json *bottleneck = ki_json_member(ki_json_member(root, "bottleneck"), "tp");
    assert_string_equal(ki_json_member(bottleneck, "link")->text, "NV4");
    assert_true(ki_json_member(bottleneck, "from")->number == 0 && ki_json_member(bottleneck, "to")->number == 3);
    assert_int_equal(ki_json_member(ki_json_member(root, "bottleneck"), "pp")->type, KI_JSON_NULL);
    const ki_json *axis = ki_json_member(ki_json_member(root, "axes"), "tp");
    assert_false(ki_json_member(axis, "leaves_nvlink")->boolean);
    assert_true(ki_json_member(axis, "time_s")->number < ki_json_member(axis, "identity_time_s")->number);
    assert_true(ki_json_member(root, "cost")->number == kith_placement_cost(p));
    assert_true(ki_json_member(root, "identity_cost")->number > ki_json_member(root, "cost")->number);
    assert_int_equal(ki_json_member(root, "notes")->type, KI_JSON_ARRAY);
    ki_json_free(NULL, root);
    ki_text_fini(&out);
    ki_print_placement_text(&out, t, p);
    assert_non_null(strstr(ki_text_chars(&out), "NV4 instead of SYS"));
    assert_non_null(strstr(ki_text_chars(&out), "{0,3} {1,2} {4,7} {5,6}"));
    ki_text_fini(&out);
    kith_placement_destroy(p);
    kith_topology_destroy(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lists_of_hosts),
        cmocka_unit_test(test_environment),
        cmocka_unit_test(test_hosts_follow_switches),
        cmocka_unit_test(test_gpu_by_address),
        cmocka_unit_test(test_numbers_by_address),
        cmocka_unit_test(test_unknown_values),
        cmocka_unit_test(test_other_topology),
        cmocka_unit_test(test_bad_host),
        cmocka_unit_test(test_megatron),
        cmocka_unit_test(test_kith),
        cmocka_unit_test(test_report),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
