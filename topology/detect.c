/* topology/detect.c - looks at this machine: hwloc for CPUs and PCI, NVML for NVIDIA's GPUs, sysfs for the rest.
 *
 * The whole machine is described and what this process may use is marked: a cgroup hides neither CPUs nor GPUs, and a
 * binding of the process only makes a doubt. hwloc's variables work (HWLOC_FSROOT, HWLOC_XMLFILE, ...); what they
 * describe is then not this machine, so NVML and the variables that mask GPUs are left alone.
 *
 * Components of hwloc that are switched off: CUDA, OpenCL and GL, because looking must not start GPU runtimes in a
 * process that may fork or pin its GPU later; NVML, which is read here; libpciaccess, which leaks and tells no more
 * than sysfs; with HWLOC_FSROOT also x86, which would ask the CPU that it runs on. hwloc may print on machines with
 * broken firmware; only HWLOC_HIDE_ERRORS=2 stops that, and a library does not change its process's environment.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "detect.h"

#include "acs.h"
#include "nvml.h"
#include "reader.h"
#include "sysfs.h"
#include "visible.h"

#ifdef KITH_HAVE_HWLOC
#include "hwloc_kind.h"

#include <stdlib.h>
#include <string.h>

/* ---- NVML's GPUs among hwloc's ---- */

static ki_hwloc_device *find_device(ki_hwloc *h, const ki_nvml_gpu *gpu)
{
    for (int i = 0; i < h->gpu_count; i++)
        if (ki_pci_is_same_device(&h->gpus[i].address, &gpu->pci))
            return &h->gpus[i];
    return NULL;
}

/* A lost GPU may not even tell its address: it is the first of NVIDIA's on the bus that nothing else claims. */
static ki_hwloc_device *find_unclaimed(ki_hwloc *h, const ki_nvml *nvml)
{
    for (int i = 0; i < h->gpu_count; i++) {
        ki_hwloc_device *device = &h->gpus[i];
        bool is_claimed = device->vendor != KI_VENDOR_NVIDIA || device->nvml >= 0;
        for (int n = 0; n < nvml->gpu_count && !is_claimed; n++)
            is_claimed = ki_pci_is_same_device(&device->address, &nvml->gpus[n].pci);
        if (!is_claimed)
            return device;
    }
    return NULL;
}

/* Gives each GPU of NVML its number among hwloc's, and adds those that hwloc does not have. */
static void place_nvml(ki_hwloc *h, const ki_nvml *nvml)
{
    for (int i = 0; i < h->gpu_count; i++)
        h->gpus[i].nvml = -1; /* from another time, or of another user */
    for (int n = 0; n < nvml->gpu_count; n++) {
        const ki_nvml_gpu *gpu = &nvml->gpus[n];
        ki_hwloc_device *device = find_device(h, gpu);
        if (device == NULL && !gpu->pci.is_known)
            device = find_unclaimed(h, nvml);
        if (device == NULL && (device = ki_hwloc_add_gpu(h)) != NULL) {
            device->address = gpu->pci;
            device->vendor = KI_VENDOR_NVIDIA;
        }
        if (device == NULL)
            return;
        device->nvml = n;
    }
}

static bool has_nvidia(const ki_hwloc *h)
{
    for (int i = 0; i < h->gpu_count; i++)
        if (h->gpus[i].vendor == KI_VENDOR_NVIDIA)
            return true;
    return false;
}

static const ki_nvml *open_nvml(ki_hwloc *h, const char *library)
{
    const ki_nvml *nvml = NULL;
    int k = ki_kind_index(h->t, h->kind);
    if (!hwloc_topology_is_thissystem(h->hw) || ki_nvml_read(h->t, library, &nvml) != KITH_OK)
        return NULL;
    if (nvml == NULL && has_nvidia(h))
        ki_topology_doubt(h->t, k, -1, NULL, 0, "nvml-absent",
                          "there are NVIDIA GPUs, but %s cannot be opened; their names and NVLinks are unknown",
                          library);
    if (nvml != NULL && nvml->error != NULL && has_nvidia(h))
        ki_topology_doubt(h->t, k, -1, NULL, 0, "nvml-failed",
                          "NVML cannot be used: %s; names and NVLinks of the GPUs are unknown", nvml->error);
    return nvml != NULL && nvml->error == NULL ? nvml : NULL;
}

/* ---- what the process may use ---- */

static void doubt_cores(ki_hwloc *h)
{
    hwloc_const_bitmap_t allowed = hwloc_topology_get_allowed_cpuset(h->hw);
    int partly = 0;
    for (hwloc_obj_t core = NULL; (core = hwloc_get_next_obj_by_type(h->hw, HWLOC_OBJ_CORE, core)) != NULL;)
        partly += hwloc_bitmap_intersects(core->cpuset, allowed) && !hwloc_bitmap_isincluded(core->cpuset, allowed);
    if (partly > 0)
        ki_topology_doubt(h->t, ki_kind_index(h->t, h->kind), -1, NULL, 0, "cores-partly-allowed",
                          "of %d cores only some hardware threads are allowed; they count as usable", partly);
}

static void doubt_binding(ki_hwloc *h)
{
    hwloc_bitmap_t bound = hwloc_bitmap_alloc();
    if (bound != NULL && hwloc_topology_is_thissystem(h->hw) &&
        hwloc_get_cpubind(h->hw, bound, HWLOC_CPUBIND_PROCESS) == 0 &&
        !hwloc_bitmap_isincluded(hwloc_topology_get_allowed_cpuset(h->hw), bound))
        ki_topology_doubt(h->t, ki_kind_index(h->t, h->kind), -1, NULL, 0, "process-bound",
                          "this process is bound to CPUs %s; the whole machine is described",
                          ki_hwloc_list(h->t, bound));
    hwloc_bitmap_free(bound);
}

/* ---- the rest ---- */

static void doubt_domains(ki_hwloc *h)
{
    char first[32] = "";
    int count = sizeof(((struct hwloc_pcidev_attr_s *)0)->domain) < 4 ? ki_sysfs_wide_domains(first, sizeof first) : 0;
    if (count > 0)
        ki_topology_doubt(h->t, ki_kind_index(h->t, h->kind), -1, NULL, 0, "pci-domain",
                          "hwloc " HWLOC_VERSION " leaves out %d PCI devices whose domain has more than 16 bits (the "
                          "first is %s); it must be built with --enable-32bits-pci-domain",
                          count, first);
}

static void find_hypervisor(ki_hwloc *h)
{
    bool has_tree = h->kind->view.gpu_count + h->kind->view.nic_count == 0;
    for (int i = 0; i < h->kind->view.gpu_count; i++)
        has_tree = has_tree || h->kind->view.gpus[i].pci_switch >= 0;
    if (has_tree || !ki_sysfs_is_virtual())
        return;
    h->kind->view.is_virtual = true;
    ki_topology_doubt(h->t, ki_kind_index(h->t, h->kind), -1, NULL, 0, "vm-pcie-hidden",
                      "this is a virtual machine without PCIe switches to be seen; the real paths may differ");
}

static void read_sysfs(ki_hwloc *h)
{
    for (int i = 0; i < h->kind->view.gpu_count; i++)
        ki_sysfs_pcie(h->t, (kith_gpu *)(uintptr_t)&h->kind->view.gpus[i]);
    for (int i = 0; i < h->kind->view.nic_count; i++)
        ki_sysfs_nic(h->t, (kith_nic *)(uintptr_t)&h->kind->view.nics[i]);
}

static void describe(ki_hwloc *h, const char *nvml_library)
{
    const char *host = hwloc_obj_get_info_by_name(hwloc_get_root_obj(h->hw), "HostName");
    ki_hwloc_find(h, host != NULL ? host : "live", "live");
    if (h->t->status != KITH_OK)
        return;
    h->kind->file = NULL;
    const ki_nvml *nvml = open_nvml(h, nvml_library);
    if (nvml != NULL)
        place_nvml(h, nvml);
    ki_hwloc_build(h);
    if (h->t->status != KITH_OK)
        return;
    ki_hwloc_near(h);
    ki_hwloc_links(h);
    read_sysfs(h);
    if (h->t->status != KITH_OK)
        return;
    if (nvml != NULL)
        ki_nvml_describe(h->t, h->kind, nvml);
    if (hwloc_topology_is_thissystem(h->hw))
        ki_visible_apply(h->t, h->kind);
    ki_acs_check(h->t, h->kind, hwloc_topology_is_thissystem(h->hw) || getenv("HWLOC_FSROOT") != NULL);
    doubt_cores(h);
    doubt_binding(h);
    doubt_domains(h);
    find_hypervisor(h);
}

static void switch_off(hwloc_topology_t hw)
{
    static const char *const always[] = { "cuda", "opencl", "gl", "nvml", "pci" };
    for (size_t i = 0; i < sizeof always / sizeof always[0]; i++)
        hwloc_topology_set_components(hw, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, always[i]);
    if (getenv("HWLOC_FSROOT") != NULL && getenv("HWLOC_CPUID_PATH") == NULL)
        hwloc_topology_set_components(hw, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, "x86");
}

kith_status ki_detect_with(kith_topology *t, const char *nvml_library)
{
    ki_hwloc h = { .t = t, .is_live = true };
    if (hwloc_topology_init(&h.hw) != 0)
        return ki_fail(KITH_ERR_NO_MEMORY, "topology: no memory for hwloc");
    ki_hwloc_configure(h.hw);
    switch_off(h.hw);
    kith_status status = KITH_OK;
    if (hwloc_topology_load(h.hw) != 0)
        status = ki_fail_quiet(KITH_ERR_IO, "topology: hwloc " HWLOC_VERSION " cannot look at this machine");
    else
        describe(&h, nvml_library);
    hwloc_topology_destroy(h.hw);
    return status != KITH_OK ? status : ki_topology_status(t);
}

#else

kith_status ki_detect_with(kith_topology *t, const char *nvml_library)
{
    (void)t, (void)nvml_library;
    return ki_fail_quiet(KITH_ERR_UNSUPPORTED, "topology: this machine cannot be looked at: Kith was built without "
                                               "libhwloc-dev");
}

#endif

kith_status ki_detect_live(kith_topology *t)
{
    return ki_detect_with(t, KI_NVML_LIBRARY);
}
