/* tests/topology/test_detect.c - live discovery, of this machine and of one that HWLOC_XMLFILE describes together with
 * the double of NVML.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "xml_help.h"

#include "made_up_sys.h"
#include "topology/detect.h"
#include "topology/visible.h"
#include <sched.h>

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

/* A machine of two GPUs below one PCIe switch, one of whose ports has that in its control register. */
static void add_switch(unsigned control, size_t nbytes)
{
#define UP "pci0000:70/0000:70:01.0/0000:71:00.0"
    static const struct {
        const char *path, *vendor, *class_id;
        int secondary, last;
    } devices[] = { { "pci0000:70/0000:70:01.0", "0x8086", "0x060400", 0x71, 0x74 },
                    { UP, "0x10b5", "0x060400", 0x72, 0x74 },
                    { UP "/0000:72:00.0", "0x10b5", "0x060400", 0x73, 0x73 },
                    { UP "/0000:72:01.0", "0x10b5", "0x060400", 0x74, 0x74 },
                    { UP "/0000:72:00.0/0000:73:00.0", "0x10de", "0x030200", 0, 0 },
                    { UP "/0000:72:01.0/0000:74:00.0", "0x10de", "0x030200", 0, 0 } };
#undef UP
    add_cpu();
    for (size_t i = 0; i < sizeof devices / sizeof devices[0]; i++) {
        add_device(devices[i].path, i == 2 ? control : 0, nbytes);
        describe_device(devices[i].path, devices[i].vendor, devices[i].class_id, devices[i].secondary, devices[i].last);
    }
}

/* The class is PIX whatever the ports do; what root reads, and ordinary users cannot, tells. */
static void expect_bridges(unsigned control, size_t nbytes, const char *redirect, const char *unchecked)
{
    kith_topology *t = NULL;
    void *state = NULL;
    assert_int_equal(open_root(&state), 0);
    add_switch(control, nbytes);
    if (kith_topology_detect(NULL, &t) != KITH_OK)
        fail_msg("%s", kith_error_detail());
    assert_int_equal(kith_topology_gpu_count(t), 2);
    expect_row(kith_topology_kind(t, 0), 0, "X PIX");
    redirect != NULL ? expect_doubt(t, "acs-redirect", redirect) : expect_no_doubt(t, "acs-redirect");
    unchecked != NULL ? expect_doubt(t, "acs-unchecked", unchecked) : expect_no_doubt(t, "acs-unchecked");
    kith_topology_destroy(t);
    assert_int_equal(close_root(&state), 0);
}

static void test_redirecting_bridges(void **state)
{
    (void)state;
    setenv("HWLOC_HIDE_ERRORS", "2", 1);
    expect_bridges(0, 4096, NULL, NULL);
    expect_bridges(LSPCI_DEFAULT, 4096, "1 of 2 PCIe bridges", NULL);
    expect_bridges(LSPCI_DEFAULT, 4096, "ACS of 0000:72:00.0: SrcValid", NULL);
    expect_bridges(LSPCI_DEFAULT, 64, NULL, "unchecked for 2 of 2");
    unsetenv("HWLOC_HIDE_ERRORS");
}

/* hwloc's addresses have 16 bits for the domain unless it is built otherwise: what is left out then is said. */
static void test_wide_domains(void **state)
{
    kith_topology *t = NULL;
    setenv("HWLOC_HIDE_ERRORS", "2", 1);
    assert_int_equal(open_root(state), 0);
    add_cpu();
    add_device("pci10000:00/10000:00:02.0/10000:01:00.0", 0, 4096);
    describe_device("pci10000:00/10000:00:02.0/10000:01:00.0", "0x10de", "0x030200", 0, 0);
    assert_int_equal(kith_topology_detect(NULL, &t), KITH_OK);
    if (kith_topology_gpu_count(t) == 0)
        expect_doubt(t, "pci-domain", "10000:01:00.0");
    else
        expect_gpu(&kith_topology_kind(t, 0)->gpus[0], 0, "10000:01:00.0", "0");
    kith_topology_destroy(t);
    assert_int_equal(close_root(state), 0);
    unsetenv("HWLOC_HIDE_ERRORS");
}

/* A process that is bound still sees the whole machine. */
static void test_bound_process(void **state)
{
    (void)state;
    cpu_set_t before, one;
    kith_topology *all = NULL, *bound = NULL;
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    if (CPU_COUNT(&before) < 2)
        skip(); /* with one processor there is nothing to bind to */
    size_t cpu = 0;
    while (!CPU_ISSET(cpu, &before))
        cpu++;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    assert_int_equal(kith_topology_detect(NULL, &all), KITH_OK);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    assert_int_equal(kith_topology_detect(NULL, &bound), KITH_OK);
    assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
    expect_doubt(bound, "process-bound", "the whole machine is described");
    assert_int_equal(kith_topology_kind(bound, 0)->numa_count, kith_topology_kind(all, 0)->numa_count);
    assert_string_equal(kith_topology_kind(bound, 0)->numas[0].cpus, kith_topology_kind(all, 0)->numas[0].cpus);
    assert_int_equal(kith_topology_gpu_count(bound), kith_topology_gpu_count(all));
    kith_topology_destroy(all);
    kith_topology_destroy(bound);
}

#define SETS(set) "cpuset=\"" set "\" complete_cpuset=\"" set "\" nodeset=\"0x1\" complete_nodeset=\"0x1\""
#define PU(number, set) "<object type=\"PU\" os_index=\"" number "\" " SETS(set) "/>"
#define CORE(number, set, inside) "<object type=\"Core\" os_index=\"" number "\" " SETS(set) ">" inside "</object>"

/* Two cores of two hardware threads, of which a control group gives three. */
static const char three_of_four[] =
    "<?xml version=\"1.0\"?><!DOCTYPE topology SYSTEM \"hwloc2.dtd\"><topology version=\"2.0\">"
    "<object type=\"Machine\" os_index=\"0\" " SETS(
        "0xf") " allowed_cpuset=\"0xb\" allowed_nodeset=\"0x1\" "
               "gp_index=\"1\"><object type=\"NUMANode\" os_index=\"0\" " SETS(
                   "0xf") " local_memory=\"1048576\"/>"
                          "<object type=\"Package\" os_index=\"0\" " SETS("0xf") ">" CORE("0", "0x3",
                                                                                          PU("0", "0x1") PU("1", "0x2"))
                              CORE("1", "0xc", PU("2", "0x4") PU("3", "0x8")) "</object></object></topology>\n";

/* A core of which one thread may be used counts; none vanishes. */
static void test_one_of_two_threads(void **state)
{
    char path[128];
    kith_topology *t = NULL;
    assert_int_equal(open_root(state), 0);
    unsetenv("HWLOC_FSROOT");
    snprintf(path, sizeof path, "%s/threads.xml", root_path);
    write_text("threads.xml", three_of_four);
    setenv("HWLOC_XMLFILE", path, 1);
    assert_int_equal(kith_topology_detect(NULL, &t), KITH_OK);
    assert_string_equal(kith_topology_kind(t, 0)->numas[0].cpus, "0-3");
    assert_string_equal(kith_topology_kind(t, 0)->numas[0].allowed_cpus, "0-1,3");
    expect_doubt(t, "cores-partly-allowed", "of 1 cores only some hardware threads are allowed; they count as usable");
    kith_topology_destroy(t);
    assert_int_equal(close_root(state), 0);
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
    expect_doubt(t, "device-mask", "ROCR_VISIBLE_DEVICES=1,3 shows 2 of 4 GPUs");
    bool is_told = false; /* and what the second mask leaves of that */
    for (int i = 0; i < kith_topology_doubt_count(t); i++)
        is_told = is_told || strstr(kith_topology_doubt(t, i)->text, "HIP_VISIBLE_DEVICES=1 shows 1 of 2") != NULL;
    assert_true(is_told);
    kith_topology_destroy(t);
}

/* Each rank sees its own GPU alone: peers cannot be opened. */
static void test_one_gpu_for_each_rank(void **state)
{
    (void)state;
    kith_placement_options placing = KITH_PLACEMENT_OPTIONS_INIT;
    kith_placement *placement = NULL;
    setenv("CUDA_VISIBLE_DEVICES", "2", 1);
    kith_topology *t = detect_as("hwloc-mesh.xml", "mesh", FAKE_NVML);
    expect_doubt(t, "device-mask", "shows 1 of 4 GPUs to this process; ranks of one tp group that see one GPU each");
    placing.tp = 2;
    assert_int_equal(kith_place(t, &placing, &placement), KITH_ERR_INVALID_ARG);
    if (strstr(kith_error_detail(), "sees one of 4 GPUs") == NULL)
        fail_msg("wanted the mask in '%s'", kith_error_detail());
    kith_topology_destroy(t);
    setenv("CUDA_VISIBLE_DEVICES", "2,3", 1);
    t = detect_as("hwloc-mesh.xml", "mesh", FAKE_NVML);
    expect_doubt(t, "device-mask", "shows 2 of 4 GPUs to this process");
    assert_null(strstr(find_doubt(t, "device-mask")->text, "see one GPU each"));
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
        cmocka_unit_test_setup(test_redirecting_bridges, clear_variables),
        cmocka_unit_test_setup(test_wide_domains, clear_variables),
        cmocka_unit_test_setup(test_bound_process, clear_variables),
        cmocka_unit_test_setup(test_one_of_two_threads, clear_variables),
        cmocka_unit_test_setup(test_one_gpu_for_each_rank, clear_variables),
        cmocka_unit_test_setup(test_masks, clear_variables),
        cmocka_unit_test_setup(test_rocm_masks, clear_variables),
        cmocka_unit_test_setup(test_mixed_models, clear_variables),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
