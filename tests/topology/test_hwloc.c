/* tests/topology/test_hwloc.c - hwloc XML: devices, NUMA nodes, nearness and NVLinks.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "xml_help.h"
#include <kith/placement.h>

/* Four H100 that each have six links to each other, on NUMA nodes 3, 1, 7, 5, and CUDA counts them backwards. */
static void test_mesh(void **state)
{
    (void)state;
    kith_topology *t = load_fixture("hwloc-mesh.xml");
    const kith_node_kind *kind = kith_topology_kind(t, 0);
    static const char *const pci[] = { "0000:73:00.0", "0000:33:00.0", "0000:f3:00.0", "0000:b3:00.0" };
    static const char *const numas[] = { "3", "1", "7", "5" };
    assert_int_equal(kind->gpu_count, 4);
    assert_int_equal(kind->nic_count, 4);
    assert_int_equal(kind->package_count, 2);
    assert_int_equal(kith_numa_count_with_cpus(kind), 8);
    for (int i = 0; i < 4; i++) {
        int nearest = -1;
        kith_link_type type;
        expect_gpu(&kind->gpus[i], i, pci[i], numas[i]);
        assert_int_equal(kind->gpus[i].link_count, 18);
        assert_int_equal(kith_nearest_nics(kind, i, &nearest, 1, &type), 1);
        assert_int_equal(nearest, i);
        assert_int_equal(type, KITH_LINK_PIX);
    }
    expect_row(kind, 0, "X NV6 NV6 NV6 PIX SYS SYS SYS");
    expect_gbps(kind->links[1].gbps, 6 * 20.6);
    assert_int_equal(kind->links[1].generation, 4);
    assert_false(kind->has_nvswitch);
    assert_int_equal(kind->nvlink, KITH_KNOWN);
    assert_string_equal(kind->gpus[0].name, "NVIDIA H100 80GB HBM3 (nvml0 cuda3)");
    assert_string_equal(kind->gpus[2].uuid, "GPU-00000000-0000-0000-0000-000000000002");
    assert_true(kind->gpus[0].memory_nbytes == UINT64_C(83000000) * 1024);
    assert_string_equal(kind->source, "hwloc 2.11.2, NVLinks counted as 25000 MB/s each");
    assert_string_equal(kith_topology_node(t, 0)->name, "mesh01");
    expect_doubt(t, "cuda-order", "4 GPUs");
    expect_no_doubt(t, "nvlink-count");
    kith_topology_destroy(t);
}

static void test_nics(void **state)
{
    (void)state;
    kith_topology *t = load_fixture("hwloc-mesh.xml");
    const kith_nic *nic = &kith_topology_kind(t, 0)->nics[2];
    assert_string_equal(nic->name, "mlx5_2"); /* and not ib2, which is the same device */
    assert_string_equal(nic->device, "mlx5_2");
    assert_string_equal(nic->fabric, "infiniband");
    assert_string_equal(nic->guid, "0011:2233:4455:0002");
    assert_int_equal(nic->numa, 7);
    assert_int_equal(nic->port_count, 1);
    assert_int_equal(nic->pci_switch, kith_topology_kind(t, 0)->gpus[2].pci_switch);
    kith_topology_destroy(t);
}

/* hwloc 2.9.0 wrote 50000 MB/s for one NVLink 3: twelve links of a GPU go into two switches. */
static void test_switch(void **state)
{
    (void)state;
    kith_topology *t = load_fixture("hwloc-switch.xml");
    const kith_node_kind *kind = kith_topology_kind(t, 0);
    expect_row(kind, 0, "X NV12 NV12 NV12 PIX");
    expect_row(kind, 3, "NV12 NV12 NV12 X SYS");
    assert_true(kind->has_nvswitch);
    assert_true(kind->links[1].is_switched);
    assert_int_equal(kind->gpus[3].link_count, 12);
    expect_gbps(kind->links[1].gbps, 240);
    assert_int_equal(kind->switch_count, 1);
    assert_int_equal(kind->gpus[0].pci_switch, 0);
    assert_int_equal(kind->gpus[2].pci_switch, -1);
    assert_int_equal(kind->gpus[2].host_bridge, kind->gpus[3].host_bridge);
    assert_int_not_equal(kind->gpus[2].host_bridge, kind->gpus[0].host_bridge);
    assert_int_equal(kind->nic_count, 1); /* eth0 does not count beside mlx5_0 */
    assert_int_equal(kind->nics[0].port_count, 2);
    assert_string_equal(kind->cpu_vendor, "amd");
    kith_topology_destroy(t);
}

/* ---- one machine in two formats ---- */

static void expect_equal_rows(const kith_node_kind *a, const kith_node_kind *b)
{
    assert_int_equal(a->gpu_count, b->gpu_count);
    assert_int_equal(a->nic_count, b->nic_count);
    assert_int_equal(a->has_nvswitch, b->has_nvswitch);
    for (int g = 0; g < a->gpu_count; g++) {
        assert_string_equal(a->gpus[g].numa_text, b->gpus[g].numa_text);
        for (int j = 0; j < a->gpu_count; j++) {
            const kith_link *x = &a->links[g * a->gpu_count + j], *y = &b->links[g * b->gpu_count + j];
            if (x->type != y->type || x->count != y->count)
                fail_msg("GPUs %d and %d: %s %d and %s %d", g, j, kith_link_type_name(x->type), x->count,
                         kith_link_type_name(y->type), y->count);
            expect_gbps(x->gbps + 1, y->gbps + 1);
        }
        for (int n = 0; n < a->nic_count; n++)
            assert_int_equal(a->nic_links[g * a->nic_count + n].type, b->nic_links[g * b->nic_count + n].type);
    }
}

static void expect_equal_groups(const kith_topology *a, const kith_topology *b)
{
    kith_placement_options o = KITH_PLACEMENT_OPTIONS_INIT;
    kith_placement *p, *q;
    o.tp = 2;
    assert_int_equal(kith_place(a, &o, &p), KITH_OK);
    assert_int_equal(kith_place(b, &o, &q), KITH_OK);
    for (int r = 0; r < 4; r++)
        assert_int_equal(kith_placement_gpu(p, r), kith_placement_gpu(q, r));
    kith_placement_destroy(p);
    kith_placement_destroy(q);
}

/* Four H100 that six links join to each other, on NUMA nodes 3, 1, 7, 5: hwloc's file tells the number of links of a
 * pair as bandwidth, nvidia-smi as NV6; both mean the same machine. */
static void test_two_formats(void **state)
{
    (void)state;
    static const char matrix[] = "\tGPU0\tGPU1\tGPU2\tGPU3\tNIC0\tNIC1\tNIC2\tNIC3\tCPU Affinity\tNUMA Affinity\n"
                                 "GPU0\t X \tNV6\tNV6\tNV6\tPIX\tSYS\tSYS\tSYS\t3\t3\n"
                                 "GPU1\tNV6\t X \tNV6\tNV6\tSYS\tPIX\tSYS\tSYS\t1\t1\n"
                                 "GPU2\tNV6\tNV6\t X \tNV6\tSYS\tSYS\tPIX\tSYS\t7\t7\n"
                                 "GPU3\tNV6\tNV6\tNV6\t X \tSYS\tSYS\tSYS\tPIX\t5\t5\n"
                                 "NIC0\tPIX\tSYS\tSYS\tSYS\t X \tSYS\tSYS\tSYS\t\t\n"
                                 "NIC1\tSYS\tPIX\tSYS\tSYS\tSYS\t X \tSYS\tSYS\t\t\n"
                                 "NIC2\tSYS\tSYS\tPIX\tSYS\tSYS\tSYS\t X \tSYS\t\t\n"
                                 "NIC3\tSYS\tSYS\tSYS\tPIX\tSYS\tSYS\tSYS\t X \t\t\n\nLegend:\n";
    const kith_topology_options options = { .struct_size = sizeof options, .gpu = "H100" };
    kith_topology *xml = load_fixture("hwloc-mesh.xml"), *text = NULL;
    if (kith_topology_parse("text.txt", matrix, strlen(matrix), &options, &text) != KITH_OK)
        fail_msg("%s", kith_error_detail());
    expect_equal_rows(kith_topology_kind(xml, 0), kith_topology_kind(text, 0));
    expect_equal_groups(xml, text);
    kith_topology_destroy(xml);
    kith_topology_destroy(text);
}

/* The whole text with one piece replaced everywhere. */
static char *replaced(const char *fixture, const char *from, const char *to)
{
    static char text[64 * 1024], out[96 * 1024];
    FILE *file = fopen(fixture_path(fixture), "r");
    assert_non_null(file);
    size_t nbytes = fread(text, 1, sizeof text - 1, file), used = 0;
    fclose(file);
    text[nbytes] = '\0';
    int count = 0;
    const char *c = text;
    for (const char *hit; (hit = strstr(c, from)) != NULL; c = hit + strlen(from), count++) {
        memcpy(out + used, c, (size_t)(hit - c));
        used += (size_t)(hit - c);
        memcpy(out + used, to, strlen(to));
        used += strlen(to);
    }
    assert_true(count > 0);
    strcpy(out + used, c);
    return out;
}

static void expect_count(const char *text, int count, const char *doubt)
{
    kith_topology *t = parse_text(text);
    const kith_node_kind *kind = kith_topology_kind(t, 0);
    assert_int_equal(kind->links[1].count, count);
    if (doubt != NULL)
        expect_doubt(t, "nvlink-count", doubt);
    else
        expect_no_doubt(t, "nvlink-count");
    kith_topology_destroy(t);
}

/* One link is worth another figure in another version, and the model's number of links decides what is left. */
static void test_link_rules(void **state)
{
    (void)state;
    expect_count(replaced("hwloc-switch.xml", "A100-SXM4-40GB", "A100-SXM4-80GB"), 12, NULL);
    expect_count(replaced("hwloc-switch.xml", "\"2.9.0\"", "\"2.11.2\""), 12, "50000 MB/s"); /* 24 links are too many */
    expect_count(replaced("hwloc-switch.xml", "300000", "150000"), 6, NULL); /* half of the links are down */
    expect_count(replaced("hwloc-mesh.xml", "\"2.11.2\"", "\"2.9.0\""), 3, NULL);
    expect_count(replaced("hwloc-mesh.xml", "NVIDIA H100 80GB HBM3", "NVIDIA Graphics Device"), 6, "model is unknown");
    expect_count(replaced("hwloc-mesh.xml", "150000", "149999"), 5, "no whole number");
    expect_count(replaced("hwloc-mesh.xml", "NVIDIA H100 80GB HBM3", "Tesla P100-SXM2-16GB"), 7, "no whole number");
}

/* A link that only one side tells is weaker than none. */
static void test_asymmetric(void **state)
{
    (void)state;
    kith_topology *t = parse_text(replaced("hwloc-mesh.xml", "1000000 150000", "1000000 100000"));
    expect_doubt(t, "asymmetric", "weaker");
    kith_topology_destroy(t);
}

/* GPU memory and HBM are NUMA nodes without CPUs; a GPU below the whole machine has no place. */
static void test_memory(void **state)
{
    (void)state;
    kith_topology *t = load_fixture("hwloc-memory.xml");
    const kith_node_kind *kind = kith_topology_kind(t, 0);
    assert_int_equal(kind->numa_count, 5);
    assert_int_equal(kith_numa_count_with_cpus(kind), 2);
    for (int i = 0; i < kind->numa_count; i++) {
        const kith_numa *numa = &kind->numas[i];
        assert_int_equal(numa->is_gpu_memory, numa->os_index >= 40);
        assert_int_equal(numa->gpu, numa->os_index >= 40 ? numa->os_index - 40 : -1);
        assert_string_equal(numa->cpus, numa->os_index == 0 ? "0-1" : numa->os_index == 1 ? "2-3" : "");
    }
    assert_int_equal(kind->gpu_count, 3);
    expect_gpu(&kind->gpus[1], 1, "0001:01:00.0", "1");
    expect_gpu(&kind->gpus[2], 2, "0002:01:00.0", "?");
    assert_int_equal(kind->gpus[1].memory_numa, 41);
    assert_int_equal(kind->links[2].type, KITH_LINK_SYS);
    assert_int_equal(kind->links[2].certainty, KITH_ASSUMED);
    assert_int_equal(kind->links[1].certainty, KITH_KNOWN);
    assert_int_equal(kind->nvlink, KITH_UNKNOWN);
    expect_doubt(t, "pci-locality", "1 of 3");
    expect_doubt(t, "gpu-by-class", "3 GPUs");
    expect_doubt(t, "nvlink-unknown", "matrix");
    assert_string_equal(kind->cpu_vendor, "arm");
    kith_topology_destroy(t);
}

/* A ring of four dies; pairs two hops apart have no link. */
static void test_xgmi(void **state)
{
    (void)state;
    kith_topology *t = load_fixture("hwloc-xgmi.xml");
    const kith_node_kind *kind = kith_topology_kind(t, 0);
    int island[4];
    expect_row(kind, 0, "X XGMI1 NODE XGMI1 PHB NODE");
    assert_int_equal(kith_nvlink_islands(kind, island), 1);
    assert_int_equal(kind->gpus[0].link_count, 2);
    assert_string_equal(kind->gpus[0].vendor, "amd");
    assert_string_equal(kind->nics[1].name, "hsi1");
    assert_string_equal(kind->nics[1].fabric, "slingshot");
    assert_int_equal(kind->nvlink, KITH_KNOWN);
    kith_topology_destroy(t);
}

static void test_old_version(void **state)
{
    (void)state;
    kith_topology *t = load_fixture("hwloc-1x.xml");
    const kith_node_kind *kind = kith_topology_kind(t, 0);
    expect_row(kind, 0, "X PHB SYS SYS");
    expect_gpu(&kind->gpus[3], 3, "0001:05:00.0", "1");
    assert_int_equal(kind->links[1].certainty, KITH_ASSUMED);
    assert_int_equal(kith_numa_count_with_cpus(kind), 2);
    assert_string_equal(kind->cpu_vendor, "intel");
    expect_doubt(t, "pci-bridges-missing", "PCIe switch");
    kith_topology_destroy(t);
}

/* Without I/O objects nothing is known of GPUs, which is not the same as none. */
static void test_no_io(void **state)
{
    (void)state;
    kith_topology *t = load_fixture("hwloc-noio.xml");
    assert_int_equal(kith_topology_kind(t, 0)->gpu_count, 0);
    assert_int_equal(kith_topology_kind(t, 0)->nvlink, KITH_UNKNOWN);
    expect_doubt(t, "no-io", "unknown");
    kith_topology_destroy(t);
}

static void test_refusals(void **state)
{
    (void)state;
    expect_refusal(replaced("hwloc-v3.xml", "3.0.0", "3.1.0"), KITH_ERR_UNSUPPORTED, "cannot import XML version 3.0");
    expect_refusal("<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n<topology version=\"2.0\">\n", KITH_ERR_INVALID_ARG,
                   "text.xml:");
    expect_refusal("<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n<topology version=\"2.0\"/>", KITH_ERR_INVALID_ARG,
                   "without objects");
    expect_refusal("<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n<object/>", KITH_ERR_INVALID_ARG, "<topology>");
    expect_refusal(replaced("hwloc-noio.xml", "complete_nodeset", "complete_nodesex"), KITH_ERR_INVALID_ARG,
                   "a Machine without complete_nodeset");
    expect_refusal(replaced("hwloc-noio.xml", "<info name", "lost <info name"), KITH_ERR_INVALID_ARG, "text inside");
    expect_refusal(replaced("hwloc-noio.xml", "type=\"Core\" os_index=\"1\" cpuset=\"0x00000002\"",
                            "type=\"Core\" os_index=\"1\" cpuset=\"0x00000001\""),
                   KITH_ERR_INVALID_ARG, "not part of");
    expect_refusal(replaced("hwloc-noio.xml", "NUMANode", "Package"), KITH_ERR_INVALID_ARG, "text.xml:");
    expect_refusal(replaced("hwloc-switch.xml", "0000:05:00.0", "0000:05:99.0"), KITH_ERR_INVALID_ARG, "pci_busid");
    expect_refusal(replaced("hwloc-switch.xml", "bridge_type=\"0-1\"", "bridge_type=\"7-1\""), KITH_ERR_INVALID_ARG,
                   "bridge_type");
    expect_refusal(replaced("hwloc-switch.xml", "\"PCIDev\"", "\"Core\""), KITH_ERR_INVALID_ARG, "does not stand here");
    expect_refusal(replaced("hwloc-mesh.xml", "nbobjs=\"4\"", "nbobjs=\"4000000\""), KITH_ERR_INVALID_ARG, "nbobjs");
    expect_refusal(replaced("hwloc-mesh.xml", "1000000 150000", "999 9999999999"), KITH_ERR_INVALID_ARG,
                   "NVLinkBandwidth");
}

/* A file must not choose which of the C library's converters are loaded. */
static void test_encodings(void **state)
{
    (void)state;
    static const char *const refused[] = {
        "encoding=\"UTF-7\"",
        "encoding=\"ISO-8859-1\"",
        "encoding = 'UTF-16'",
        "encoding=\"\"",
        "encoding=UTF-8",
        "encoding=\"UTF-8",
        "encoding=\"UTF-8\" encoding=\"UTF-7\"",
        "encoding=\"UTF-32\"",
    };
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++)
        expect_refusal(replaced("hwloc-switch.xml", "encoding=\"UTF-8\"", refused[i]), KITH_ERR_INVALID_ARG,
                       "only UTF-8 is read");
    kith_topology_destroy(parse_text(replaced("hwloc-switch.xml", "encoding=\"UTF-8\"", "encoding = 'utf-8' ")));
    kith_topology_destroy(parse_text(replaced("hwloc-switch.xml", " encoding=\"UTF-8\"", "")));
    kith_topology_destroy(parse_text(replaced("hwloc-switch.xml", "<?xml", "\xEF\xBB\xBF<?xml")));
}

/* GPUs that the driver does not show beside others that it does. */
static void test_hidden(void **state)
{
    (void)state;
    kith_topology *t = parse_text(replaced("hwloc-switch.xml", "name=\"nvml3\"", "name=\"card3\""));
    assert_int_equal(kith_topology_kind(t, 0)->gpu_count, 3);
    expect_doubt(t, "gpu-hidden", "0000:83:00.0");
    kith_topology_destroy(t);
}

static void test_virtual(void **state)
{
    (void)state;
    kith_topology *t = parse_text(replaced("hwloc-1x.xml", "name=\"HostName\" value=\"old01\"",
                                           "name=\"DMIProductName\" value=\"Virtual Machine\""));
    assert_true(kith_topology_kind(t, 0)->is_virtual);
    expect_doubt(t, "vm-pcie-hidden", "Virtual Machine");
    kith_topology_destroy(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mesh),   cmocka_unit_test(test_two_formats), cmocka_unit_test(test_nics),
        cmocka_unit_test(test_switch), cmocka_unit_test(test_link_rules),  cmocka_unit_test(test_asymmetric),
        cmocka_unit_test(test_memory), cmocka_unit_test(test_xgmi),        cmocka_unit_test(test_old_version),
        cmocka_unit_test(test_no_io),  cmocka_unit_test(test_refusals),    cmocka_unit_test(test_encodings),
        cmocka_unit_test(test_hidden), cmocka_unit_test(test_virtual),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
