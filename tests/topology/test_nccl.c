/* tests/topology/test_nccl.c - NCCL topology XML: devices, nearness, links, and what may be wrong with a file.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "xml_help.h"

static void test_switch(void **state)
{
    (void)state;
    kith_topology *t = load_fixture("nccl-switch.xml");
    const kith_node_kind *kind = kith_topology_kind(t, 0);
    assert_int_equal(kind->gpu_count, 4);
    assert_int_equal(kind->nic_count, 4);
    expect_row(kind, 0, "X NV18 NV17 NV18 PIX SYS SYS SYS");
    expect_row(kind, 1, "NV18 X NV17 NV18 PXB SYS SYS SYS");
    expect_row(kind, 3, "NV18 NV18 NV17 X SYS PHB PHB PHB");
    assert_true(kind->has_nvswitch);
    assert_true(kind->links[1].is_switched);
    assert_int_equal(kind->nvlink, KITH_KNOWN);
    expect_gbps(kind->links[1].gbps, 18 * 20.6);
    assert_int_equal(kind->gpus[2].link_count, 17);
    expect_gpu(&kind->gpus[3], 5, "0000:91:00.0", "1"); /* the number is "dev", not the position */
    assert_int_equal(kind->gpus[3].compute_capability, 90);
    assert_string_equal(kind->gpus[3].vendor, "nvidia");
    assert_string_equal(kind->gpus[0].numa_source, "nccl");
    assert_string_equal(kind->gpus[0].cpus, "0-15,32-47");
    assert_int_equal(kind->numa_count, 2);
    assert_false(kind->is_virtual);
    kith_topology_destroy(t);
}

/* Width 0 is 16 lanes; no speed is no knowledge. */
static void test_pcie(void **state)
{
    (void)state;
    kith_topology *t = load_fixture("nccl-switch.xml");
    const kith_node_kind *kind = kith_topology_kind(t, 0);
    assert_int_equal(kind->gpus[0].pcie_generation, 5);
    expect_gbps(kind->gpus[0].pcie_gbps, 48);
    expect_gbps(kind->gpus[1].pcie_gbps, 12); /* Gen4 x8 */
    assert_int_equal(kind->gpus[2].pcie_generation, 0);
    assert_int_equal(kind->gpus[3].pcie_width, 16);
    assert_int_equal(kind->switch_count, 2);
    assert_int_equal(kind->switches[1].parent, 0);
    expect_gbps(kind->switches[1].gbps, 24);
    expect_gbps(kind->socket_gbps, 22); /* Sapphire Rapids */
    kith_topology_destroy(t);
}

static void test_nics(void **state)
{
    (void)state;
    kith_topology *t = load_fixture("nccl-switch.xml");
    const kith_node_kind *kind = kith_topology_kind(t, 0);
    assert_string_equal(kind->nics[0].device, "mlx5_0");
    assert_string_equal(kind->nics[0].fabric, "infiniband");
    assert_string_equal(kind->nics[0].guid, "0xa0");
    expect_gbps(kind->nics[0].gbps, 48);
    assert_string_equal(kind->nics[2].fabric, "roce");
    expect_gbps(kind->nics[2].gbps, 24);
    assert_string_equal(kind->nics[3].name, "docker0");
    assert_false(kind->nics[3].pci.is_known);
    assert_int_equal(kind->nics[3].numa, 1);
    kith_topology_destroy(t);
}

static void test_xgmi(void **state)
{
    (void)state;
    kith_topology *t = load_fixture("nccl-mesh.xml");
    const kith_node_kind *kind = kith_topology_kind(t, 0);
    expect_row(kind, 1, "XGMI4 X XGMI1"); /* by dev: GPU1 is the first of the file */
    assert_int_equal(kind->gpus[1].link_count, 6);
    assert_string_equal(kind->gpus[1].name, "gfx90a");
    assert_int_equal(kind->gpus[1].compute_capability, 0); /* sm counts AMD's compute units */
    expect_doubt(t, "asymmetric", "2 back");
    expect_gpu(&kind->gpus[0], 0, "0000:0b:00.0", "3");
    assert_false(kind->is_virtual);
    kith_topology_destroy(t);
}

/* GPUs and NICs by class; GPUs in the order of the bus, whose domain has 32 bits. */
static void test_bare(void **state)
{
    (void)state;
    kith_topology *t = load_fixture("nccl-bare.xml");
    const kith_node_kind *kind = kith_topology_kind(t, 0);
    assert_int_equal(kind->gpu_count, 3);
    assert_int_equal(kind->nic_count, 2);
    expect_gpu(&kind->gpus[0], 0, "0001:00:00.0", "1");
    expect_gpu(&kind->gpus[1], 1, "0003:00:00.0", "0");
    expect_gpu(&kind->gpus[2], 2, "10002:00:00.0", "1");
    assert_string_equal(kind->gpus[2].name, "10002:00:00.0");
    expect_row(kind, 0, "X SYS PIX SYS PIX");
    assert_string_equal(kind->nics[0].name, "0103:00:00.0");
    assert_null(kind->nics[0].device);
    assert_string_equal(kind->nics[1].fabric, "efa");
    assert_int_equal(kind->nvlink, KITH_UNKNOWN);
    assert_false(kind->is_virtual); /* the file gives the tree */
    expect_no_doubt(t, "numa-overlap");
    kith_topology_destroy(t);
}

#define CPU(numa, mask) "<cpu numaid=\"" numa "\" affinity=\"" mask "\" arch=\"x86_64\" vendor=\"AuthenticAMD\">"
#define GPU(bus, dev, inside)                                                                                          \
    "<pci busid=\"" bus "\" class=\"0x030200\" link_speed=\"16 GT/s\" link_width=\"16\"><gpu dev=\"" dev               \
    "\" sm=\"80\">" inside "</gpu></pci>"
#define NVLINK(target, count, class) "<nvlink target=\"" target "\" count=\"" count "\" tclass=\"" class "\"/>"
#define SYSTEM(inside) "<system version=\"1\">" inside "</system>"

static void test_direct(void **state)
{
    (void)state;
    kith_topology *t =
        parse_text(SYSTEM(CPU("0", "ff") GPU("0000:01:00.0", "0", NVLINK("0000:02:00.0", "12", "0x030200"))
                              GPU("0000:02:00.0", "1", NVLINK("0000:01:00.0", "12", "0x030200")) "</cpu>"));
    const kith_node_kind *kind = kith_topology_kind(t, 0);
    expect_row(kind, 0, "X NV12");
    assert_false(kind->has_nvswitch);
    assert_int_equal(kind->nvlink, KITH_KNOWN);
    kith_topology_destroy(t);
}

/* A bridge of POWER's CPU has nearly NVSwitch's class, and joins no GPUs. */
static void test_cpu_links(void **state)
{
    (void)state;
    kith_topology *t =
        parse_text(SYSTEM(CPU("0", "ff") GPU("0004:04:00.0", "0", NVLINK("0006:00:00.0", "3", "0x068001"))
                              GPU("0004:05:00.0", "1", NVLINK("0006:00:00.1", "3", "0x068001")) "</cpu>"));
    const kith_node_kind *kind = kith_topology_kind(t, 0);
    expect_row(kind, 0, "X PHB");
    assert_int_equal(kind->gpus[0].link_count, 3);
    assert_false(kind->has_nvswitch);
    kith_topology_destroy(t);
}

static void test_hidden_switch(void **state)
{
    (void)state;
    static const char *const names[] = { "fffffff:ffff:ff", "fffffff:ff:ff.0", "FFFFFFF:FFFF:FF" };
    for (size_t i = 0; i < 3; i++) {
        char text[2048];
        snprintf(text, sizeof text,
                 SYSTEM(CPU("-1", "ff") GPU("0000:01:00.0", "0", NVLINK("%s", "12", "0x068000"))
                            GPU("0000:02:00.0", "1", NVLINK("%s", "12", "0x068000")) "</cpu>"),
                 names[i], names[i]);
        kith_topology *t = parse_text(text);
        const kith_node_kind *kind = kith_topology_kind(t, 0);
        expect_row(kind, 0, "X NV12");
        assert_true(kind->has_nvswitch);
        assert_int_equal(kind->nvlink, KITH_ASSUMED);
        expect_doubt(t, "nvswitch-hidden", "NVSwitch");
        expect_doubt(t, "numa-unknown", "2 GPUs");
        expect_doubt(t, "vm-pcie-hidden", "virtual");
        assert_true(kind->is_virtual);
        assert_int_equal(kind->numa_count, 0); /* -1 is unknown and not node 0 */
        assert_int_equal(kind->gpus[0].numa_count, 0);
        kith_topology_destroy(t);
    }
}

static void test_own_target(void **state)
{
    (void)state;
    kith_topology *t =
        parse_text(SYSTEM(CPU("0", "ff") GPU("0001:00:00.0", "0", NVLINK("0001:00:00.0", "12", "0x030200"))
                              GPU("0002:00:00.0", "1", NVLINK("0002:00:00.0", "12", "0x030200")) "</cpu>"));
    const kith_node_kind *kind = kith_topology_kind(t, 0);
    int island[2];
    expect_row(kind, 0, "X PHB");
    assert_int_equal(kind->gpus[0].link_count, 12);
    assert_int_equal(kith_nvlink_islands(kind, island), -1); /* unknown, not none */
    expect_doubt(t, "nvlink-peer-unknown", "own GPU");
    kith_topology_destroy(t);
}

/* One PCI domain for each device is what hypervisors do; GPUs below the CPU on one bus are a plain box. */
static void test_flattened(void **state)
{
    (void)state;
    kith_topology *t =
        parse_text(SYSTEM(CPU("0", "ff") GPU("0001:00:00.0", "0", "") GPU("0002:00:00.0", "1", "") "</cpu>"));
    assert_true(kith_topology_kind(t, 0)->is_virtual);
    assert_int_equal(kith_topology_kind(t, 0)->links[1].certainty, KITH_ASSUMED);
    kith_topology_destroy(t);
    t = parse_text(SYSTEM(CPU("0", "ff") GPU("0000:3b:00.0", "0", "") GPU("0000:5e:00.0", "1", "") "</cpu>"));
    assert_false(kith_topology_kind(t, 0)->is_virtual);
    assert_int_equal(kith_topology_kind(t, 0)->links[1].certainty, KITH_KNOWN);
    kith_topology_destroy(t);
}

static void test_masks(void **state)
{
    (void)state;
    kith_topology *t =
        parse_text(SYSTEM(CPU("0", "ffff") "</cpu>" CPU("1", "ffff") "</cpu>" CPU("2", "ff0000") "</cpu>"));
    expect_doubt(t, "numa-overlap", "1 pairs of NUMA nodes have CPUs in common (0: 0-15, 1: 0-15)");
    kith_topology_destroy(t);
    t = parse_text(SYSTEM(CPU("0", "1ffff") "</cpu>" CPU("1", "1,00010000") "</cpu>"));
    expect_doubt(t, "numa-overlap", "(0: 0-16, 1: 16,32)");
    kith_topology_destroy(t);
    t = parse_text(SYSTEM(CPU("0", "5555") "</cpu>" CPU("1", "aaaa") "</cpu>"));
    expect_no_doubt(t, "numa-overlap");
    kith_topology_destroy(t);
}

static void test_one_cpu(void **state)
{
    (void)state;
    kith_topology *t = parse_text(SYSTEM(CPU("0", "ff") GPU("0000:01:00.0", "0", "") GPU("0000:02:00.0", "1", "") GPU(
        "0000:03:00.0", "2", "") GPU("0000:04:00.0", "3", "") GPU("0000:05:00.0", "4", "") GPU("0000:06:00.0", "5", "")
                                             GPU("0000:07:00.0", "6", "") GPU("0000:08:00.0", "7", "") "</cpu>"));
    expect_doubt(t, "one-cpu", "8 GPUs");
    kith_topology_destroy(t);
}

/* The same bridge written twice is one bridge. */
static void test_bridge_twice(void **state)
{
    (void)state;
#define BRIDGE(inside)                                                                                                 \
    "<pci busid=\"0000:0a:00.0\" class=\"0x060400\" link_speed=\"8 GT/s\" link_width=\"16\">" inside "</pci>"
    kith_topology *t = parse_text(
        SYSTEM(CPU("0", "ff") BRIDGE(GPU("0000:0b:00.0", "0", "") "<pci busid=\"0000:0c:00.0\" class=\"0x020700\"/>")
                   BRIDGE(GPU("0000:0d:00.0", "1", "") "<pci busid=\"0000:0e:00.0\" class=\"0x010802\"/>") "</cpu>"));
    expect_row(kith_topology_kind(t, 0), 0, "X PIX PIX");
    assert_int_equal(kith_topology_kind(t, 0)->switch_count, 1);
    kith_topology_destroy(t);
}

static void test_unknown_class(void **state)
{
    (void)state;
    kith_topology *t =
        parse_text(SYSTEM("<cpu numaid=\"0\"><pci busid=\"0000:00:16.0\"/><pci busid=\"0000:00:17.0\"/></cpu>"));
    assert_int_equal(kith_topology_kind(t, 0)->gpu_count, 0);
    expect_doubt(t, "pci-class-missing", "2 PCI devices");
    kith_topology_destroy(t);
}

static void test_refusals(void **state)
{
    (void)state;
    expect_refusal("<graphs version=\"1\"><graph id=\"0\"/></graphs>", KITH_ERR_UNSUPPORTED, "graph dump");
    expect_refusal(SYSTEM("\n<cpu numaid=\"zero\"/>"), KITH_ERR_INVALID_ARG, "text.xml:2: numaid");
    expect_refusal(SYSTEM(CPU("0", "0-15") "</cpu>"), KITH_ERR_INVALID_ARG, "affinity");
    expect_refusal(SYSTEM(CPU("0", "ff") "\n" GPU("0000:xx:00.0", "0", "") "</cpu>"), KITH_ERR_INVALID_ARG,
                   "text.xml:2: busid");
    expect_refusal(SYSTEM(CPU("0", "ff") GPU("0000:01:00.0", "0", "") GPU("0000:02:00.0", "0", "") "</cpu>"),
                   KITH_ERR_INVALID_ARG, "two GPUs have dev 0");
    expect_refusal(SYSTEM(CPU("0", "ff") GPU("0000:01:00.0", "0", "") GPU("0000:01:00.0", "1", "") "</cpu>"),
                   KITH_ERR_INVALID_ARG, "two GPUs have the bus id 0000:01:00.0");
    expect_refusal(SYSTEM(CPU("0", "ff") "<pci busid=\"0000:01:00.0\" class=\"0x060400\">" GPU(
                       "0000:02:00.0", "0", "") "</pci>\n<pci busid=\"0000:01:00.0\" class=\"0x020000\"/></cpu>"),
                   KITH_ERR_INVALID_ARG, "text.xml:2: 0000:01:00.0 is a bridge in one place");
    expect_refusal(SYSTEM(CPU("0", "ff") "</cpu>" CPU("0", "ff00") "</cpu>"), KITH_ERR_INVALID_ARG, "two CPUs");
    expect_refusal(SYSTEM(CPU("0", "ff") GPU("0000:01:00.0", "0", NVLINK("0000:02:00.0", "0", "0x030200")) "</cpu>"),
                   KITH_ERR_INVALID_ARG, "count of <nvlink>");
    expect_refusal(SYSTEM(CPU("0", "ff") GPU("0000:01:00.0", "0", NVLINK("0000:02", "1x", "0x030200")) "</cpu>"),
                   KITH_ERR_INVALID_ARG, "count of <nvlink>");
    expect_refusal(SYSTEM(CPU("0", "ff") GPU("0000:01:00.0", "0", NVLINK("nowhere", "1", "0x030200")) "</cpu>"),
                   KITH_ERR_INVALID_ARG, "target of <nvlink>");
    expect_refusal(SYSTEM(CPU("0", "ff") "<nic><net name=\"a\" speed=\"fast\"/></nic></cpu>"), KITH_ERR_INVALID_ARG,
                   "speed of <net>");
    expect_refusal(SYSTEM("<cpu numaid=\"0\" host_hash=\"0x1\"/><cpu numaid=\"1\" host_hash=\"0x2\"/>"),
                   KITH_ERR_INVALID_ARG, "several hosts");
    expect_refusal("<system version=\"1\"><!-- <cpu --></system>", KITH_ERR_INVALID_ARG, "no <cpu>");
    expect_refusal("<system version=\"1\"><cpu numaid=\"0\">", KITH_ERR_INVALID_ARG, "text.xml:1: XML");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_switch),        cmocka_unit_test(test_pcie),          cmocka_unit_test(test_nics),
        cmocka_unit_test(test_xgmi),          cmocka_unit_test(test_bare),          cmocka_unit_test(test_direct),
        cmocka_unit_test(test_cpu_links),     cmocka_unit_test(test_hidden_switch), cmocka_unit_test(test_own_target),
        cmocka_unit_test(test_flattened),     cmocka_unit_test(test_masks),         cmocka_unit_test(test_one_cpu),
        cmocka_unit_test(test_unknown_class), cmocka_unit_test(test_bridge_twice),  cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
