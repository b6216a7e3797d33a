/* tests/topology/test_nvml.c - NVML against a strict double of it: whole machines, lost GPUs, hidden switches.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "xml_help.h"

#include "topology/nvml.h"
#include <unistd.h>

static const int buses[] = { 0x73, 0x33, 0xf3, 0xb3, 0x19, 0x29, 0x39, 0x49 };

/* A kind as discovery makes it: GPUs with addresses, everything SYS. */
static ki_kind *make_kind(kith_topology *t, int gpus, bool has_addresses)
{
    ki_kind *kind = ki_topology_add_kind(t, "host", "live");
    for (int i = 0; i < 2; i++) {
        kith_numa *numa = ki_kind_add_numa(t, kind);
        numa->cpus = i == 0 ? "0-3" : "4-7";
    }
    for (int i = 0; i < 2; i++) {
        kith_numa *numa = ki_kind_add_numa(t, kind);
        numa->os_index = 40 + i;
        numa->cpus = "";
    }
    for (int i = 0; i < gpus; i++) {
        kith_gpu *gpu = ki_kind_add_gpu(t, kind);
        gpu->vendor = "nvidia";
        if (has_addresses)
            gpu->pci = (kith_pci_address){ .is_known = true, .bus = (uint8_t)buses[i] };
    }
    ki_kind_make_links(t, kind);
    for (int i = 0; i < gpus; i++)
        for (int j = 0; j < i; j++)
            ki_kind_set_link(kind, i, j, KITH_LINK_SYS, 0, has_addresses ? KITH_KNOWN : KITH_ASSUMED);
    ki_topology_add_node(t, "host", 0);
    return kind;
}

/* A finished topology of what the double says. */
static kith_topology *describe(const char *machine, int gpus, bool has_addresses)
{
    kith_topology *t = NULL;
    const ki_nvml *nvml = NULL;
    assert_int_equal(setenv("FAKE_NVML", machine, 1), 0);
    assert_int_equal(ki_topology_create(NULL, &t), KITH_OK);
    ki_kind *kind = make_kind(t, gpus, has_addresses);
    assert_int_equal(ki_nvml_read(t, FAKE_NVML, &nvml), KITH_OK);
    assert_non_null(nvml);
    assert_null(nvml->error);
    ki_nvml_describe(t, kind, nvml);
    assert_int_equal(ki_topology_finish(t), KITH_OK);
    assert_int_equal(ki_topology_check(t), KITH_OK);
    return t;
}

static void test_switch(void **state)
{
    (void)state;
    kith_topology *t = describe("nvswitch", 8, true);
    const kith_node_kind *kind = kith_topology_kind(t, 0);
    expect_row(kind, 0, "X NV18 NV18 NV18 NV18 NV18 NV18 NV18");
    assert_true(kind->has_nvswitch);
    assert_int_equal(kind->nvlink, KITH_KNOWN);
    expect_gbps(kind->links[1].gbps, 18 * 20.6);
    const kith_gpu *gpu = &kind->gpus[3];
    assert_string_equal(gpu->name, "NVIDIA H100 80GB HBM3");
    assert_string_equal(gpu->uuid, "GPU-0000abc3-0000-0000-0000-000000000000");
    assert_int_equal(gpu->compute_capability, 90);
    assert_int_equal(gpu->pcie_generation, 5);
    assert_int_equal(gpu->link_count, 18);
    assert_true(gpu->memory_nbytes == 80000000000u);
    assert_int_equal(gpu->fabric, KITH_KNOWN);
    assert_int_equal(kith_topology_domain_count(t), 0);
    kith_topology_destroy(t);
}

/* A link that is up says nothing of the pair; the peer's address does. */
static void test_mesh(void **state)
{
    (void)state;
    kith_topology *t = describe("mesh", 4, true);
    const kith_node_kind *kind = kith_topology_kind(t, 0);
    expect_row(kind, 1, "NV6 X NV6 NV6");
    assert_false(kind->has_nvswitch);
    assert_int_equal(kind->gpus[1].link_count, 18);
    assert_int_equal(kind->links[1].generation, 4);
    assert_int_equal(kind->gpus[1].fabric, KITH_UNKNOWN);
    kith_topology_destroy(t);
}

/* Links are up on every GPU, and each reaches one other: that is no mesh. */
static void test_pairs(void **state)
{
    (void)state;
    kith_topology *t = describe("pairs", 4, true);
    const kith_node_kind *kind = kith_topology_kind(t, 0);
    int island[4];
    expect_row(kind, 0, "X NV4 SYS SYS");
    expect_row(kind, 2, "SYS SYS X NV4");
    assert_false(kind->has_nvswitch);
    assert_int_equal(kith_nvlink_islands(kind, island), 2);
    kith_topology_destroy(t);
}

/* One GPU that does not answer is one unknown row. */
static void test_lost(void **state)
{
    (void)state;
    static const char *const machines[] = { "lost", "late" };
    static const int lost[] = { 2, 1 };
    for (int m = 0; m < 2; m++) {
        kith_topology *t = describe(machines[m], 4, true);
        const kith_node_kind *kind = kith_topology_kind(t, 0);
        for (int i = 0; i < 4; i++)
            assert_int_equal(kind->gpus[i].is_lost, i == lost[m]);
        expect_row(kind, 0, m == 0 ? "X NV6 ? NV6" : "X ? NV6 NV6");
        expect_row(kind, lost[m], m == 0 ? "? ? X ?" : "? X ? ?");
        expect_doubt(t, "gpu-lost", "GPU is lost");
        kith_topology_destroy(t);
    }
}

static void test_forbidden(void **state)
{
    (void)state;
    kith_topology *t = describe("forbidden", 4, true);
    const kith_node_kind *kind = kith_topology_kind(t, 0);
    for (int i = 0; i < 4; i++)
        assert_int_equal(kind->gpus[i].is_allowed, i != 3);
    assert_false(kind->gpus[3].is_lost);
    expect_row(kind, 0, "X NV6 NV6 SYS");
    expect_doubt(t, "gpu-hidden", "Insufficient Permissions");
    kith_topology_destroy(t);
}

/* More GPUs on the bus than NVML shows. */
static void test_not_shown(void **state)
{
    (void)state;
    kith_topology *t = describe("mesh", 6, true);
    const kith_node_kind *kind = kith_topology_kind(t, 0);
    for (int i = 0; i < 6; i++)
        assert_int_equal(kind->gpus[i].is_allowed, i < 4);
    expect_row(kind, 5, "SYS SYS SYS SYS SYS X");
    expect_doubt(t, "gpu-hidden", "0000:19:00.0");
    kith_topology_destroy(t);
}

static void test_hidden_switch(void **state)
{
    (void)state;
    kith_topology *t = describe("hidden", 8, true);
    const kith_node_kind *kind = kith_topology_kind(t, 0);
    expect_row(kind, 7, "NV18 NV18 NV18 NV18 NV18 NV18 NV18 X");
    assert_int_equal(kind->nvlink, KITH_ASSUMED);
    assert_int_equal(kind->links[1].certainty, KITH_ASSUMED);
    expect_gbps(kind->links[1].gbps, 18 * 40.1);
    expect_doubt(t, "nvswitch-hidden", "NVSwitch");
    kith_topology_destroy(t);
}

/* Where hwloc has no path, NVML's level is the class. */
static void test_levels(void **state)
{
    (void)state;
    kith_topology *t = describe("pcie", 2, false);
    const kith_node_kind *kind = kith_topology_kind(t, 0);
    expect_row(kind, 0, "X PIX");
    assert_int_equal(kind->links[1].certainty, KITH_KNOWN);
    assert_int_equal(kind->nvlink, KITH_KNOWN); /* none, and that is said */
    assert_int_equal(kind->gpus[0].link_count, 0);
    expect_gpu(&kind->gpus[1], 1, "0000:33:00.0", "?");
    kith_topology_destroy(t);
}

/* No group of two has both: the pair is planned around. */
static void expect_apart(const kith_topology *t, int a, int b)
{
    kith_placement_options o = KITH_PLACEMENT_OPTIONS_INIT;
    kith_placement *placement;
    o.tp = 2;
    assert_int_equal(kith_place(t, &o, &placement), KITH_OK);
    const kith_axis_report *tp = kith_placement_axis(placement, "tp");
    for (int g = 0; g < tp->group_count; g++) {
        int low = tp->groups[2 * g] < tp->groups[2 * g + 1] ? 0 : 1;
        if (tp->groups[2 * g + low] == a && tp->groups[2 * g + 1 - low] == b)
            fail_msg("wanted GPUs %d and %d in different groups", a, b);
    }
    assert_false(tp->leaves_nvlink);
    kith_placement_destroy(placement);
}

static void test_broken_pairs(void **state)
{
    (void)state;
    kith_topology *t = describe("p2p", 4, true);
    expect_row(kith_topology_kind(t, 0), 0, "X SYS NV6 NV6");
    expect_doubt(t, "p2p-broken", "status 5");
    expect_apart(t, 0, 1);
    kith_topology_destroy(t);
    t = describe("mig", 4, true);
    expect_row(kith_topology_kind(t, 0), 0, "X NV6 SYS NV6");
    assert_true(kith_topology_kind(t, 0)->gpus[2].is_mig);
    expect_doubt(t, "mig-parent", "GPU2");
    kith_topology_destroy(t);
    t = describe("down", 8, true);
    expect_doubt(t, "fabric-down", "state 2");
    assert_int_equal(kith_topology_kind(t, 0)->gpus[0].fabric, KITH_UNKNOWN);
    kith_topology_destroy(t);
}

/* Chip-to-chip: NVML knows the near CPU, and the GPU's own memory is no place for ranks. */
static void test_grace(void **state)
{
    (void)state;
    kith_topology *t = describe("grace", 2, false);
    const kith_node_kind *kind = kith_topology_kind(t, 0);
    expect_gpu(&kind->gpus[0], 0, "0000:01:00.0", "1");
    expect_gpu(&kind->gpus[1], 1, "0001:01:00.0", "0");
    assert_string_equal(kind->gpus[0].numa_source, "nvml");
    assert_int_equal(kind->gpus[1].memory_numa, 41);
    assert_true(kind->numas[2].is_gpu_memory);
    assert_int_equal(kind->numas[3].gpu, 1);
    assert_int_equal(kith_numa_count_with_cpus(kind), 2);
    assert_int_equal(kith_topology_domain_count(t), 1);
    assert_string_equal(kith_topology_domain(t, 0)->name, "abababab-abab-abab-abab-abababababab.7");
    assert_true(kith_topology_domain(t, 0)->is_nvlink);
    expect_gbps(kith_topology_domain(t, 0)->gbps, 18 * 40.1);
    kith_topology_destroy(t);
}

static void test_differing_numas(void **state)
{
    (void)state;
    kith_topology *t = NULL;
    const ki_nvml *nvml = NULL;
    setenv("FAKE_NVML", "grace", 1);
    assert_int_equal(ki_topology_create(NULL, &t), KITH_OK);
    ki_kind *kind = make_kind(t, 2, false);
    ki_gpu_set_numas(t, (kith_gpu *)(uintptr_t)&kind->view.gpus[0], "0", "hwloc");
    assert_int_equal(ki_nvml_read(t, FAKE_NVML, &nvml), KITH_OK);
    ki_nvml_describe(t, kind, nvml);
    assert_string_equal(kind->view.gpus[0].numa_text, "1");
    expect_doubt(t, "numa-differs", "NUMA node 1 by NVML and 0");
    kith_topology_destroy(t);
}

static void test_absent(void **state)
{
    (void)state;
    kith_topology *t = NULL;
    const ki_nvml *nvml = NULL;
    assert_int_equal(ki_topology_create(NULL, &t), KITH_OK);
    assert_int_equal(ki_nvml_read(t, "libkith-there-is-none.so", &nvml), KITH_OK);
    assert_null(nvml);
    setenv("FAKE_NVML", "broken", 1);
    assert_int_equal(ki_nvml_read(t, FAKE_NVML, &nvml), KITH_OK);
    assert_string_equal(nvml->error, "Driver Not Loaded");
    assert_int_equal(nvml->gpu_count, 0);
    assert_int_equal(ki_nvml_read(t, "libm.so.6", &nvml), KITH_OK); /* a library, but another one */
    assert_string_equal(nvml->error, "libm.so.6 has no nvmlInit_v2");
    kith_topology_destroy(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_switch),        cmocka_unit_test(test_mesh),      cmocka_unit_test(test_pairs),
        cmocka_unit_test(test_lost),          cmocka_unit_test(test_forbidden), cmocka_unit_test(test_not_shown),
        cmocka_unit_test(test_hidden_switch), cmocka_unit_test(test_levels),    cmocka_unit_test(test_broken_pairs),
        cmocka_unit_test(test_grace),         cmocka_unit_test(test_absent),    cmocka_unit_test(test_differing_numas),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
