/* tests/topology/test_synthetic.c - machines in words.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "cluster_help.h"
#include "topology/reader.h"

#include <unistd.h>

static const kith_node_kind *kind_of(const kith_topology *t)
{
    assert_int_equal(kith_topology_kind_count(t), 1);
    const kith_node_kind *kind = kith_topology_kind(t, 0);
    assert_string_equal(kind->format, "synthetic");
    return kind;
}

/* A row for each GPU: its links to the other GPUs, then to the NICs, as nvidia-smi names them. */
static void expect_matrix(const kith_node_kind *kind, const char *const *rows)
{
    for (int g = 0; g < kind->gpu_count; g++) {
        char got[512] = "", name[16];
        for (int i = 0; i < kind->gpu_count + kind->nic_count; i++) {
            const kith_link *link = i < kind->gpu_count ? &kind->links[g * kind->gpu_count + i]
                                                        : &kind->nic_links[g * kind->nic_count + i - kind->gpu_count];
            size_t used = strlen(got);
            snprintf(got + used, sizeof got - used, "%s%s", i > 0 ? " " : "", kith_link_name(link, name, sizeof name));
        }
        assert_string_equal(got, rows[g]);
    }
}

static void expect_gbps(double got, double wanted)
{
    if (got < wanted - 0.05 || got > wanted + 0.05)
        fail_msg("wanted %.2f GB/s, got %.2f", wanted, got);
}

static void test_nvswitch(void **state)
{
    (void)state;
    kith_topology *t = read_text("2 nodes of 8 H100 on NVSwitch, 8 NICs of 400 Gb/s");
    const kith_node_kind *kind = kind_of(t);
    assert_int_equal(kith_topology_node_count(t), 2);
    assert_string_equal(kith_topology_node(t, 1)->name, "node1");
    assert_int_equal(kith_topology_gpu_count(t), 16);
    assert_int_equal(kind->nic_count, 8);
    assert_true(kind->has_nvswitch && kind->nvlink == KITH_KNOWN);
    expect_gbps(kind->links[1].gbps, 18 * 20.6);
    expect_gbps(kind->nics[0].gbps, 48);
    assert_int_equal(kind->nics[0].gbps_certainty, KITH_KNOWN);
    static const char *const rows[] = { "X NV18 NV18 NV18 NV18 NV18 NV18 NV18 PIX NODE NODE NODE SYS SYS SYS SYS",
                                        "NV18 X NV18 NV18 NV18 NV18 NV18 NV18 NODE PIX NODE NODE SYS SYS SYS SYS",
                                        "NV18 NV18 X NV18 NV18 NV18 NV18 NV18 NODE NODE PIX NODE SYS SYS SYS SYS",
                                        "NV18 NV18 NV18 X NV18 NV18 NV18 NV18 NODE NODE NODE PIX SYS SYS SYS SYS",
                                        "NV18 NV18 NV18 NV18 X NV18 NV18 NV18 SYS SYS SYS SYS PIX NODE NODE NODE",
                                        "NV18 NV18 NV18 NV18 NV18 X NV18 NV18 SYS SYS SYS SYS NODE PIX NODE NODE",
                                        "NV18 NV18 NV18 NV18 NV18 NV18 X NV18 SYS SYS SYS SYS NODE NODE PIX NODE",
                                        "NV18 NV18 NV18 NV18 NV18 NV18 NV18 X SYS SYS SYS SYS NODE NODE NODE PIX" };
    expect_matrix(kind, rows);
    assert_int_equal(kind->package_count, 2);
    assert_int_equal(kind->numa_count, 2);
    assert_string_equal(kind->numas[1].cpus, "48-95,144-191");
    assert_string_equal(kind->gpus[7].cpus, "48-95,144-191");
    assert_int_equal(kind->gpus[7].numas[0], 1);
    assert_int_equal(kind->switch_count, 8);
    assert_int_equal(kith_topology_switch_count(t), 0);
    assert_int_equal(kith_topology_doubt_count(t), 0);
    kith_topology_destroy(t);
}

/* Without a model: links as of an H100, and a doubt that says so; options.gpu tells better. */
static void test_model_not_said(void **state)
{
    (void)state;
    kith_topology *t = read_text("4 nodes of 8 GPUs on NVSwitch, 8 NICs");
    expect_gbps(kind_of(t)->links[1].gbps, 18 * 20.6);
    assert_null(kind_of(t)->gpus[0].name);
    expect_doubt(t, "gpu-assumed", "H100");
    expect_no_doubt(t, "nvlink-generation");
    assert_int_equal(kind_of(t)->nics[0].gbps_certainty, KITH_ASSUMED);
    kith_topology_destroy(t);
    kith_topology_options options = KITH_TOPOLOGY_OPTIONS_INIT;
    options.gpu = "A100";
    t = read_text_with("4 nodes of 8 GPUs on NVSwitch, 8 NICs", &options);
    expect_gbps(kind_of(t)->links[1].gbps, 12 * 20);
    expect_no_doubt(t, "gpu-assumed");
    kith_topology_destroy(t);
}

static void test_pairs(void **state)
{
    (void)state;
    kith_topology *t = read_text("4 A100 PCIe in pairs of bridges, 1 NIC of HDR");
    static const char *const rows[] = { "X NV12 SYS SYS PIX", "NV12 X SYS SYS PIX", "SYS SYS X NV12 SYS",
                                        "SYS SYS NV12 X SYS" };
    expect_matrix(kind_of(t), rows);
    assert_string_equal(kind_of(t)->nics[0].fabric, "infiniband");
    assert_int_equal(kith_topology_node_count(t), 1);
    kith_topology_destroy(t);
    t = read_text("2 A6000 in bridged pairs");
    expect_gbps(kind_of(t)->links[1].gbps, 4 * 12);
    kith_topology_destroy(t);
}

static void test_cube_mesh(void **state)
{
    (void)state;
    static const char *const v100[] = {
        "X NV1 NV1 NV2 NV2 SYS SYS SYS PIX NODE SYS SYS", "NV1 X NV2 NV1 SYS NV2 SYS SYS PIX NODE SYS SYS",
        "NV1 NV2 X NV2 SYS SYS NV1 SYS NODE PIX SYS SYS", "NV2 NV1 NV2 X SYS SYS SYS NV1 NODE PIX SYS SYS",
        "NV2 SYS SYS SYS X NV1 NV1 NV2 SYS SYS PIX NODE", "SYS NV2 SYS SYS NV1 X NV2 NV1 SYS SYS PIX NODE",
        "SYS SYS NV1 SYS NV1 NV2 X NV2 SYS SYS NODE PIX", "SYS SYS SYS NV1 NV2 NV1 NV2 X SYS SYS NODE PIX"
    };
    kith_topology *t = read_text("1 node of 8 V100 in a cube mesh, 4 NICs");
    expect_matrix(kind_of(t), v100);
    for (int g = 0; g < 8; g++)
        assert_int_equal(kind_of(t)->gpus[g].link_count, 6);
    kith_topology_destroy(t);
    t = read_text("8 P100");
    for (int g = 0; g < 8; g++)
        assert_int_equal(kind_of(t)->gpus[g].link_count, 4);
    expect_doubt(t, "join-assumed", "a cube mesh is assumed");
    kith_topology_destroy(t);
}

static void test_mesh(void **state)
{
    (void)state;
    static const struct {
        const char *text, *first_row;
    } meshes[] = { { "4 H100 in a mesh", "X NV6 NV6 NV6" },
                   { "4 A100", "X NV4 NV4 NV4" },
                   { "4 V100 in a full mesh", "X NV2 NV2 NV2" },
                   { "4 MI300X", "X XGMI1 XGMI1 XGMI1" } };
    for (size_t i = 0; i < sizeof meshes / sizeof meshes[0]; i++) {
        kith_topology *t = read_text(meshes[i].text);
        char got[64] = "", name[16];
        for (int g = 0; g < 4; g++) {
            strcat(got, g > 0 ? " " : "");
            strcat(got, kith_link_name(&kind_of(t)->links[g], name, sizeof name));
        }
        assert_string_equal(got, meshes[i].first_row);
        assert_false(kind_of(t)->has_nvswitch);
        kith_topology_destroy(t);
    }
}

static void test_pcie(void **state)
{
    (void)state;
    kith_topology *t = read_text("2 nodes of 4 GPUs on PCIe");
    static const char *const rows[] = { "X PIX SYS SYS", "PIX X SYS SYS", "SYS SYS X PIX", "SYS SYS PIX X" };
    expect_matrix(kind_of(t), rows);
    int island[4];
    assert_int_equal(kith_nvlink_islands(kind_of(t), island), 0); /* known: no NVLink */
    kith_topology_destroy(t);
}

static void test_nvlink_domain(void **state)
{
    (void)state;
    kith_topology *t = read_text("36 nodes of 4 GB200 in NVLink domains of 18 nodes, 4 NICs of 400 Gb/s");
    const kith_node_kind *kind = kind_of(t);
    assert_int_equal(kith_topology_domain_count(t), 2);
    assert_int_equal(kith_topology_domain(t, 1)->node_count, 18);
    assert_true(kith_topology_domain(t, 0)->is_nvlink);
    expect_gbps(kith_topology_domain(t, 0)->gbps, 18 * 40.1);
    assert_int_equal(kith_topology_link(t, 0, 71).type, KITH_LINK_NVLINK);
    assert_int_equal(kith_topology_link(t, 0, 72).type, KITH_LINK_NET);
    static const char *const rows[] = { "X NV18 NV18 NV18 NODE NODE SYS SYS", "NV18 X NV18 NV18 NODE NODE SYS SYS",
                                        "NV18 NV18 X NV18 SYS SYS NODE NODE", "NV18 NV18 NV18 X SYS SYS NODE NODE" };
    expect_matrix(kind, rows);
    assert_int_equal(kith_numa_count_with_cpus(kind), 2);
    assert_int_equal(kind->numa_count, 6);
    assert_int_equal(kind->gpus[1].memory_numa, 10);
    assert_string_equal(kind->gpus[3].cpus, "72-143");
    kith_topology_destroy(t);
    t = read_text("18 nodes of 4 GB200 in one NVLink domain");
    assert_int_equal(kith_topology_domain_count(t), 1);
    assert_int_equal(kith_topology_domain(t, 0)->node_count, 18);
    expect_no_doubt(t, "join-assumed");
    kith_topology_destroy(t);
}

static void test_network(void **state)
{
    (void)state;
    kith_topology *t = read_text("512 nodes of 8 H100 on NVSwitch, 8 NICs of NDR, 16 nodes a leaf, 4 leaves a spine");
    assert_int_equal(kith_topology_switch_count(t), 1 + 8 + 32);
    expect_switch(t, "core", "", 2);
    expect_switch(t, "spine7", "core", 1);
    expect_switch(t, "leaf0", "spine0", 0);
    expect_switch(t, "leaf31", "spine7", 0);
    expect_leaf(t, "node15", "leaf0");
    expect_leaf(t, "node16", "leaf1");
    expect_leaf(t, "node511", "leaf31");
    assert_int_equal(kith_topology_switch(t, find_switch(t, "leaf3"))->uplink_count, 128);
    expect_gbps(kith_topology_switch(t, find_switch(t, "leaf3"))->uplink_gbps, 48);
    assert_int_equal(kith_topology_switch(t, find_switch(t, "spine3"))->uplink_count, 512);
    assert_null(find_node(t, "node3")->rails);
    kith_topology_destroy(t);
}

static void test_network_with_rails(void **state)
{
    (void)state;
    kith_topology *t = read_text("40 nodes of 8 H200 on NVSwitch, 4 NICs of 400Gb/s, 32 nodes per leaf, rails, "
                                 "oversubscribed 2:1");
    assert_int_equal(kith_topology_switch_count(t), 1 + 2 * 4);
    expect_switch(t, "spine0", "", 1);
    expect_switch(t, "leaf1-rail3", "spine0", 0);
    const kith_node *node = find_node(t, "node39");
    assert_int_equal(node->rail_count, 4);
    for (int r = 0; r < 4; r++) {
        char name[32];
        snprintf(name, sizeof name, "leaf1-rail%d", r);
        assert_string_equal(kith_topology_switch(t, node->rails[r])->name, name);
    }
    assert_int_equal(node->leaf, node->rails[0]);
    assert_int_equal(kith_topology_switch(t, node->leaf)->uplink_count, 16);
    expect_no_doubt(t, "rail-crossed");
    kith_topology_destroy(t);
    t = read_text("4 nodes of 8 H100, 16 nodes a leaf");
    expect_switch(t, "leaf0", "", 0);
    assert_int_equal(kith_topology_switch_count(t), 1);
    kith_topology_destroy(t);
}

static void test_sockets_and_numas(void **state)
{
    (void)state;
    kith_topology *t = read_text("8 A100 on NVSwitch, 8 NICs, 2 sockets, 8 NUMA nodes");
    assert_int_equal(kind_of(t)->numa_count, 8);
    assert_int_equal(kind_of(t)->package_count, 2);
    assert_string_equal(kind_of(t)->numas[1].cpus, "12-23,108-119");
    assert_int_equal(kind_of(t)->gpus[3].numas[0], 3);
    assert_int_equal(kind_of(t)->numas[3].package, 0);
    assert_int_equal(kind_of(t)->nic_links[1].type, KITH_LINK_SYS);
    kith_topology_destroy(t);
    t = read_text("4 GH200");
    assert_int_equal(kind_of(t)->package_count, 4);
    assert_int_equal(kith_numa_count_with_cpus(kind_of(t)), 4);
    kith_topology_destroy(t);
}

static void test_spelling(void **state)
{
    (void)state;
    static const char *const same[] = { "2 nodes of 8 h100 on nvswitch, 8 nics of ndr",
                                        "2 Nodes of 8 NVIDIA H100s GPUs on NVSwitch with 8 NIC of NDR\n",
                                        "2 node of 8 H100 SXM GPUs, on NVSwitches and 8 NICs at 400Gbps",
                                        "2 nodes of 8 H100\ton NVSwitch , 8 NICs of 400 Gbit/s" };
    for (size_t i = 0; i < sizeof same / sizeof same[0]; i++) {
        kith_topology *t = read_text(same[i]);
        assert_int_equal(kith_topology_gpu_count(t), 16);
        assert_string_equal(kind_of(t)->gpus[0].name, "NVIDIA H100 80GB HBM3");
        assert_true(kind_of(t)->has_nvswitch);
        expect_gbps(kind_of(t)->nics[7].gbps, 48);
        kith_topology_destroy(t);
    }
}

/* Every GPU that the words know is one of the table of models, in each way that it can be joined. */
static void test_all_models(void **state)
{
    (void)state;
    static const char *const models[] = { "H100",   "H100 PCIe", "H100 NVL", "H200",      "H200 NVL", "H800",
                                          "H20",    "GH200",     "B200",     "B300",      "GB200",    "GB300",
                                          "A100",   "A100 PCIe", "A800",     "A800 PCIe", "A30",      "A40",
                                          "A6000",  "A10",       "A10G",     "L4",        "L40",      "L40S",
                                          "V100",   "P100",      "T4",       "3090",      "4090",     "MI300X",
                                          "MI250X", "RTX A6000", "Tesla T4" };
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        char text[64];
        snprintf(text, sizeof text, "8 %s, 4 NICs", models[i]);
        kith_topology *t = read_text(text);
        assert_true(kind_of(t)->gpus[0].memory_nbytes > 10000000000u);
        assert_true(kind_of(t)->gpus[0].pcie_gbps > 0);
        assert_true(kind_of(t)->links[1].gbps > 0);
        kith_topology_destroy(t);
    }
}

static void test_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text, *reason;
    } wrong[] = {
        { "4 nodes of 8 X100 on NVSwitch", "'x100' (word 5) does not fit; valid there: GPUs, H100, " },
        { "4 nodes", "the end (word 3) does not fit; valid there: of" },
        { "4 nodes 8 H100", "'8' (word 3) does not fit; valid there: of" },
        { "4 nodes of H100", "'h100' (word 4) does not fit; valid there: a whole number" },
        { "0 nodes of 8 H100", "0 nodes are too few; valid: 1 to" },
        { "9999999 nodes of 8 H100", "too many" },
        { "99999999999999999999 nodes of 8 H100", "too many" },
        { "4 nodes of 0 H100", "0 GPUs are too few; valid: 1 to 256" },
        { "4 nodes of 257 H100", "257 GPUs are too many; valid: 1 to 256" },
        { "8 H100 8 NICs", "'8' (word 3) does not fit; valid there: a comma" },
        { "8 H100 on", "'on' (word 3) does not fit; valid there: on NVSwitch" },
        { "8 H100 on NVSwitch, 8 NICs of", "the end" },
        { "8 H100 on NVSwitch, 8 NICs of fast", "'fast' (word 9) does not fit; valid there: FDR, EDR, HDR, NDR, XDR" },
        { "8 H100 on NVSwitch, 8 NICs of 400", "valid there: Gb/s" },
        { "8 H100 on NVSwitch, 8 NICs of 400 GB/h", "valid there: Gb/s" },
        { "8 H100 on NVSwitch, 8 NICs of 4e9 Gb/s", "out of range" },
        { "8 H100 on NVSwitch, 600 NICs", "600 nic are too many; valid: 0 to 512" },
        { "8 H100 on NVSwitch, 8 dogs", "'dogs' (word 7) does not fit; valid there: NICs, nodes a leaf" },
        { "8 H100 on NVSwitch, quickly", "'quickly' (word 6) does not fit; valid there: on NVSwitch" },
        { "8 H100 on NVSwitch,", "the end" },
        { "8 H100 on NVSwitch, on PCIe", "each thing once" },
        { "8 H100 on NVSwitch, 8 NICs, 4 NICs", "each thing once" },
        { "8 GPUs", "how the GPUs are joined is not said" },
        { "8 L40 on NVSwitch", "cannot be on NVSwitch" },
        { "8 A100 PCIe on NVSwitch", "cannot be on NVSwitch" },
        { "8 H100 in pairs of bridges", "cannot be in pairs of bridges" },
        { "7 A40 in pairs of bridges", "cannot be in pairs of bridges; valid: an even number" },
        { "8 H100 in a cube mesh", "cannot be in a cube mesh; valid: 8 V100, 8 P100" },
        { "4 V100 in a cube mesh", "cannot be in a cube mesh" },
        { "20 H100 in a mesh", "cannot be in a mesh" },
        { "4 L40 in a mesh", "cannot be in a mesh" },
        { "9 MI300X in a mesh", "valid: 2 to 8 MI300X" },
        { "8 H100 on PCIe, in one NVLink domain", "cannot be in an NVLink domain" },
        { "2 nodes of 8 V100 on NVSwitch in one NVLink domain", "cannot be in an NVLink domain" },
        { "8 H100 on NVSwitch, 4 leaves a spine", "there are spines without leaves" },
        { "8 H100 on NVSwitch, rails", "rails need leaves and NICs" },
        { "8 H100 on NVSwitch, 4 nodes a leaf, oversubscribed 2:1", "needs leaves and NICs" },
        { "8 H100 on NVSwitch, 8 NICs, 4 nodes a leaf, oversubscribed 2", "valid there: COUNT:1" },
        { "8 H100 on NVSwitch, 2 sockets, 3 NUMA nodes", "NUMA nodes cannot be shared out evenly" },
        { "8 H100 on NVSwitch, 2 sockets, 10 NUMA nodes", "NUMA nodes cannot be shared out evenly" },
        { "8 H100 on NVSwitch, 512 NICs, 65536 nodes a leaf, 65536 leaves a spine", "more than 2147483647 links" },
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        expect_refused(wrong[i].text, wrong[i].reason);
}

static void test_probe(void **state)
{
    (void)state;
    char longest[4096];
    memset(longest, ' ', sizeof longest);
    memcpy(longest, "8 H100", 6);
    strcpy(longest + 4000, "on NVSwitch");
    const char *const others[] = { "",
                                   "8",
                                   "8 X100 on NVSwitch",
                                   "H100 on NVSwitch",
                                   "8 H100\non NVSwitch",
                                   "SwitchName=a Nodes=b\n",
                                   "0 0 0 0",
                                   "8 H100 on NVSwitch; 8 NICs",
                                   "{\"4 nodes\": 1}",
                                   "50000000-0000-0000-0000-000000000001, 32766",
                                   longest };
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        ki_source source = { "text", others[i], strlen(others[i]) };
        if (ki_reader_synthetic.probe(&source) != 0)
            fail_msg("taken for a description: %.60s", others[i]);
    }
    ki_source zeros = { "text", "4 nodes of 8 H100\0\0", 19 };
    assert_int_equal(ki_reader_synthetic.probe(&zeros), 0);
    ki_source fine = { "text", "4 nodes of 8 H100", 17 };
    assert_true(ki_reader_synthetic.probe(&fine) > 0);
}

/* A file with real names takes the place of the made-up nodes, whose kind stays. */
static void test_joined_with_names(void **state)
{
    (void)state;
    char path[] = "/tmp/kith-test-XXXXXX";
    int file = mkstemp(path);
    assert_true(file >= 0);
    static const char conf[] = "SwitchName=a Nodes=gpu[1-3]\n";
    assert_int_equal(write(file, conf, sizeof conf - 1), sizeof conf - 1);
    close(file);
    const char *const paths[] = { "1 node of 8 H100 on NVSwitch, 8 NICs", path };
    for (int order = 0; order < 2; order++) {
        const char *const both[] = { paths[order], paths[1 - order] };
        kith_topology *t = NULL;
        assert_int_equal(kith_topology_load(both, 2, NULL, &t), KITH_OK);
        assert_int_equal(kith_topology_node_count(t), 3);
        assert_int_equal(kith_topology_gpu_count(t), 24);
        expect_leaf(t, "gpu2", "a");
        kith_topology_destroy(t);
    }
    remove(path);
}

static void test_damage(void **state)
{
    (void)state;
    damage_and_read("512 nodes of 8 H100 on NVSwitch, 8 NICs of NDR, 16 nodes a leaf, 4 leaves a spine, rails", 3000,
                    7u);
    damage_and_read("36 nodes of 4 GB200 in NVLink domains of 18 nodes, 4 NICs of 400 Gb/s, 2 sockets", 3000, 77u);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nvswitch),
        cmocka_unit_test(test_model_not_said),
        cmocka_unit_test(test_pairs),
        cmocka_unit_test(test_cube_mesh),
        cmocka_unit_test(test_mesh),
        cmocka_unit_test(test_pcie),
        cmocka_unit_test(test_nvlink_domain),
        cmocka_unit_test(test_network),
        cmocka_unit_test(test_network_with_rails),
        cmocka_unit_test(test_sockets_and_numas),
        cmocka_unit_test(test_spelling),
        cmocka_unit_test(test_all_models),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_probe),
        cmocka_unit_test(test_joined_with_names),
        cmocka_unit_test(test_damage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
