/* tests/topology/test_detect.c - live discovery, of this machine and of one that HWLOC_XMLFILE describes together with
 * the double of NVML.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "xml_help.h"

#include "topology/detect.h"
#include "topology/visible.h"

static int clear_variables(void **state)
{
    (void)state;
    static const char *const names[] = { "HWLOC_XMLFILE",        "HWLOC_THISSYSTEM",     "FAKE_NVML",
                                         "CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES",
                                         "CUDA_DEVICE_ORDER",    "HWLOC_FSROOT" };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        unsetenv(names[i]);
    return 0;
}

/* This machine: whatever it is, it has CPUs and the model holds together. */
static void test_here(void **state)
{
    (void)state;
    kith_topology *t = NULL;
    assert_int_equal(kith_topology_detect(NULL, &t), KITH_OK);
    assert_int_equal(ki_topology_check(t), KITH_OK);
    const kith_node_kind *kind = kith_topology_kind(t, 0);
    assert_string_equal(kind->format, "live");
    assert_true(kith_numa_count_with_cpus(kind) >= 1);
    assert_non_null(kind->architecture);
    assert_int_equal(kith_topology_node_count(t), 1);
    kith_topology_destroy(t);
}

/* The machine of a fixture, as if it were this one. */
static kith_topology *detect_as(const char *fixture, const char *machine, const char *library)
{
    kith_topology *t = NULL;
    setenv("HWLOC_XMLFILE", fixture_path(fixture), 1);
    setenv("HWLOC_THISSYSTEM", "1", 1);
    setenv("FAKE_NVML", machine, 1);
    assert_int_equal(ki_topology_create(NULL, &t), KITH_OK);
    if (ki_detect_with(t, library) != KITH_OK)
        fail_msg("%s", kith_error_detail());
    ki_topology_add_node(t, "here", 0);
    assert_int_equal(ki_topology_finish(t), KITH_OK);
    assert_int_equal(ki_topology_check(t), KITH_OK);
    return t;
}

static void test_with_nvml(void **state)
{
    (void)state;
    kith_topology *t = detect_as("hwloc-mesh.xml", "mesh", FAKE_NVML);
    const kith_node_kind *kind = kith_topology_kind(t, 0);
    assert_int_equal(kind->gpu_count, 4);
    expect_row(kind, 0, "X NV6 NV6 NV6 PIX SYS SYS SYS");
    expect_gpu(&kind->gpus[0], 0, "0000:73:00.0", "3");
    expect_gpu(&kind->gpus[3], 3, "0000:b3:00.0", "5");
    assert_string_equal(kind->gpus[0].name, "NVIDIA H100 80GB HBM3");
    assert_int_equal(kind->gpus[0].compute_capability, 90);
    assert_int_equal(kind->nvlink, KITH_KNOWN);
    expect_no_doubt(t, "gpu-lost");
    kith_topology_destroy(t);
}

/* A lost GPU tells no address: it is the one on the bus that is left. */
static void test_lost(void **state)
{
    (void)state;
    kith_topology *t = detect_as("hwloc-mesh.xml", "lost", FAKE_NVML);
    const kith_node_kind *kind = kith_topology_kind(t, 0);
    assert_int_equal(kind->gpu_count, 4);
    expect_gpu(&kind->gpus[2], 2, "0000:f3:00.0", "7");
    assert_true(kind->gpus[2].is_lost);
    expect_row(kind, 0, "X NV6 ? NV6 PIX SYS SYS SYS");
    kith_topology_destroy(t);
}

/* NVML shows GPUs that hwloc does not: PCI domains, filters, containers. */
static void test_more_than_hwloc(void **state)
{
    (void)state;
    kith_topology *t = detect_as("hwloc-mesh.xml", "nvswitch", FAKE_NVML);
    const kith_node_kind *kind = kith_topology_kind(t, 0);
    assert_int_equal(kind->gpu_count, 8);
    expect_gpu(&kind->gpus[4], 4, "0000:19:00.0", "?");
    expect_row(kind, 4, "NV18 NV18 NV18 NV18 X NV18 NV18 NV18 SYS SYS SYS SYS");
    expect_doubt(t, "pci-locality", "4 of 8");
    kith_topology_destroy(t);
}

static void test_without_nvml(void **state)
{
    (void)state;
    kith_topology *t = detect_as("hwloc-mesh.xml", "mesh", "libkith-there-is-none.so");
    expect_doubt(t, "nvml-absent", "libkith-there-is-none.so");
    kith_topology_destroy(t);
    t = detect_as("hwloc-mesh.xml", "broken", FAKE_NVML);
    expect_doubt(t, "nvml-failed", "Driver Not Loaded");
    kith_topology_destroy(t);
    t = detect_as("hwloc-xgmi.xml", "mesh", "libkith-there-is-none.so"); /* no NVIDIA GPU: nobody misses NVML */
    expect_no_doubt(t, "nvml-absent");
    kith_topology_destroy(t);
}

static void expect_allowed(const char *variable, const char *value, const char *wanted)
{
    char got[8] = "";
    if (value != NULL)
        setenv(variable, value, 1);
    kith_topology *t = detect_as("hwloc-mesh.xml", "mesh", FAKE_NVML);
    for (int i = 0; i < 4; i++)
        got[i] = kith_topology_kind(t, 0)->gpus[i].is_allowed ? 'y' : 'n';
    assert_string_equal(got, wanted);
    if (strchr(wanted, 'n') != NULL)
        expect_doubt(t, "device-mask", variable);
    kith_topology_destroy(t);
    unsetenv(variable);
}

static void test_masks(void **state)
{
    (void)state;
    expect_allowed("CUDA_VISIBLE_DEVICES", NULL, "yyyy");
    expect_allowed("CUDA_VISIBLE_DEVICES", "2,0", "ynyn");
    expect_allowed("CUDA_VISIBLE_DEVICES", " 1 , 3", "nyny");
    expect_allowed("CUDA_VISIBLE_DEVICES", "1,9,2", "nynn"); /* CUDA stops at the first that is none */
    expect_allowed("CUDA_VISIBLE_DEVICES", "", "nnnn");
    expect_allowed("CUDA_VISIBLE_DEVICES", "-1", "nnnn");
    expect_allowed("CUDA_VISIBLE_DEVICES", "GPU-0000abc1-0000-0000-0000-000000000000,GPU-0000abc3", "nyny");
    expect_allowed("CUDA_VISIBLE_DEVICES", "GPU-0000abc", "nnnn"); /* could be any */
    expect_allowed("ROCR_VISIBLE_DEVICES", "0", "yyyy");
}

static void test_rocm_masks(void **state)
{
    (void)state;
    setenv("ROCR_VISIBLE_DEVICES", "1,3", 1);
    setenv("HIP_VISIBLE_DEVICES", "1", 1); /* the second of what ROCr leaves */
    kith_topology *t = detect_as("hwloc-xgmi.xml", "mesh", "libkith-there-is-none.so");
    for (int i = 0; i < 4; i++)
        assert_int_equal(kith_topology_kind(t, 0)->gpus[i].is_allowed, i == 3);
    kith_topology_destroy(t);
}

/* Numbers count by speed where models differ, which cannot be known here. */
static void test_mixed_models(void **state)
{
    (void)state;
    for (int has_order = 0; has_order < 2; has_order++) {
        kith_topology *t = NULL;
        assert_int_equal(ki_topology_create(NULL, &t), KITH_OK);
        ki_kind *kind = ki_topology_add_kind(t, "host", "live");
        for (int i = 0; i < 2; i++) {
            kith_gpu *gpu = ki_kind_add_gpu(t, kind);
            gpu->vendor = "nvidia";
            gpu->name = i == 0 ? "NVIDIA GeForce RTX 3090" : "NVIDIA GeForce RTX 4090";
        }
        setenv("CUDA_VISIBLE_DEVICES", "0", 1);
        if (has_order)
            setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID", 1);
        ki_visible_apply(t, kind);
        assert_true(kind->view.gpus[0].is_allowed);
        assert_int_equal(kind->view.gpus[1].is_allowed, !has_order);
        expect_doubt(t, "device-mask", has_order ? "shows 1 of 2" : "by speed");
        kith_topology_destroy(t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_here, clear_variables),
        cmocka_unit_test_setup(test_with_nvml, clear_variables),
        cmocka_unit_test_setup(test_lost, clear_variables),
        cmocka_unit_test_setup(test_more_than_hwloc, clear_variables),
        cmocka_unit_test_setup(test_without_nvml, clear_variables),
        cmocka_unit_test_setup(test_masks, clear_variables),
        cmocka_unit_test_setup(test_rocm_masks, clear_variables),
        cmocka_unit_test_setup(test_mixed_models, clear_variables),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
