/* topology/hwloc_kind.c - the CPUs' side of a kind, and its GPUs and NICs as entries. See hwloc_kind.h.
 *
 * A NUMA node counts as a place for ranks when it has CPUs of its own. hwloc gives memory without CPUs (HBM, CXL, GPU
 * memory) the CPUs that are near to it, so a node is one without CPUs when its set is empty, or equal to that of a node
 * with a lower number, or holds that of another node and more.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "hwloc_kind.h"

#include "sets.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void ki_hwloc_configure(hwloc_topology_t hw)
{
    hwloc_topology_set_all_types_filter(hw, HWLOC_TYPE_FILTER_KEEP_ALL);
    hwloc_topology_set_flags(hw, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED);
}

const char *ki_hwloc_list(kith_topology *t, hwloc_const_bitmap_t set)
{
    if (set == NULL)
        return NULL;
    if (hwloc_bitmap_last(set) >= KI_CPU_LIMIT || (hwloc_bitmap_last(set) < 0 && !hwloc_bitmap_iszero(set))) {
        ki_topology_set_status(t, ki_fail_quiet(KITH_ERR_INVALID_ARG,
                                                "topology: a set of CPUs or NUMA nodes goes "
                                                "beyond number %d",
                                                KI_CPU_LIMIT - 1));
        return "";
    }
    int length = hwloc_bitmap_list_snprintf(NULL, 0, set);
    char *text = length < 0 ? NULL : (char *)ki_topology_alloc(t, (size_t)length + 1, 1);
    if (text == NULL)
        return "";
    hwloc_bitmap_list_snprintf(text, (size_t)length + 1, set);
    return text;
}

static hwloc_obj_t numa_at(const ki_hwloc *h, int i)
{
    return hwloc_get_obj_by_type(h->hw, HWLOC_OBJ_NUMANODE, (unsigned)i);
}

static int count_of(const ki_hwloc *h, hwloc_obj_type_t type)
{
    int count = hwloc_get_nbobjs_by_type(h->hw, type);
    return count > 0 ? count : 0;
}

static bool is_gpu_memory(hwloc_obj_t numa)
{
    return (numa->subtype != NULL && strcmp(numa->subtype, "GPUMemory") == 0) ||
           hwloc_obj_get_info_by_name(numa, "PCIBusID") != NULL;
}

static bool has_cpus(const ki_hwloc *h, hwloc_obj_t numa)
{
    if (is_gpu_memory(numa) || numa->cpuset == NULL || hwloc_bitmap_iszero(numa->cpuset))
        return false;
    for (int i = 0; i < count_of(h, HWLOC_OBJ_NUMANODE); i++) {
        hwloc_obj_t other = numa_at(h, i);
        if (other == numa || other->cpuset == NULL || hwloc_bitmap_iszero(other->cpuset) || is_gpu_memory(other))
            continue;
        bool is_equal = hwloc_bitmap_isequal(other->cpuset, numa->cpuset) != 0;
        if (is_equal ? other->os_index < numa->os_index : hwloc_bitmap_isincluded(other->cpuset, numa->cpuset))
            return false;
    }
    return true;
}

hwloc_obj_t ki_hwloc_locality(const ki_hwloc *h, const ki_hwloc_device *device)
{
    hwloc_obj_t obj = device->pci != NULL ? device->pci : device->os;
    obj = obj != NULL ? hwloc_get_non_io_ancestor_obj(h->hw, obj) : NULL;
    if (obj == NULL || obj->cpuset == NULL || obj->nodeset == NULL)
        return NULL;
    bool is_all = hwloc_bitmap_isequal(obj->cpuset, hwloc_topology_get_topology_cpuset(h->hw)) != 0;
    return is_all && h->places > 1 ? NULL : obj;
}

/* ---- CPUs ---- */

static void add_packages(ki_hwloc *h)
{
    for (int i = 0; i < count_of(h, HWLOC_OBJ_PACKAGE) && h->t->status == KITH_OK; i++) {
        hwloc_obj_t obj = hwloc_get_obj_by_type(h->hw, HWLOC_OBJ_PACKAGE, (unsigned)i);
        kith_package *package = ki_kind_add_package(h->t, h->kind);
        package->os_index = obj->os_index <= 1u << 30 ? (int)obj->os_index : i;
        package->cpus = ki_hwloc_list(h->t, obj->cpuset);
        package->model = ki_topology_dup(h->t, hwloc_obj_get_info_by_name(obj, "CPUModel"));
        if (i == 0)
            h->kind->view.cpu_model = package->model;
    }
}

/* Memory without CPUs has none; what this process may use is told of live machines alone. */
static void set_cpus(ki_hwloc *h, kith_numa *numa, hwloc_obj_t obj)
{
    bool has = has_cpus(h, obj);
    h->places += has;
    numa->cpus = has ? ki_hwloc_list(h->t, obj->cpuset) : "";
    hwloc_const_bitmap_t allowed = hwloc_topology_get_allowed_cpuset(h->hw);
    if (!h->is_live || numa->cpus[0] == '\0' ||
        hwloc_bitmap_isequal(allowed, hwloc_topology_get_topology_cpuset(h->hw)))
        return;
    hwloc_bitmap_t both = hwloc_bitmap_alloc();
    if (both != NULL && hwloc_bitmap_and(both, obj->cpuset, allowed) == 0)
        numa->allowed_cpus = ki_hwloc_list(h->t, both);
    hwloc_bitmap_free(both);
}

/* Position of the package that a NUMA node is in: above it, or the only one that it shares CPUs with. */
static int package_of(const ki_hwloc *h, hwloc_obj_t numa)
{
    hwloc_obj_t above = hwloc_get_ancestor_obj_by_type(h->hw, HWLOC_OBJ_PACKAGE, numa);
    int found = above != NULL ? (int)above->logical_index : -1;
    for (int i = 0; above == NULL && numa->cpuset != NULL && i < h->kind->view.package_count; i++) {
        hwloc_obj_t package = hwloc_get_obj_by_type(h->hw, HWLOC_OBJ_PACKAGE, (unsigned)i);
        if (package->cpuset == NULL || !hwloc_bitmap_intersects(package->cpuset, numa->cpuset))
            continue;
        if (found >= 0)
            return -1;
        found = i;
    }
    return found;
}

static void add_numas(ki_hwloc *h)
{
    for (int i = 0; i < count_of(h, HWLOC_OBJ_NUMANODE) && h->t->status == KITH_OK; i++) {
        hwloc_obj_t obj = numa_at(h, i);
        kith_numa *numa = ki_kind_add_numa(h->t, h->kind);
        numa->os_index = obj->os_index <= 1u << 30 ? (int)obj->os_index : i;
        numa->package = package_of(h, obj);
        numa->is_gpu_memory = is_gpu_memory(obj);
        numa->memory_nbytes = obj->attr->numanode.local_memory;
        set_cpus(h, numa, obj);
    }
}

static void add_cache(ki_hwloc *h, hwloc_obj_t obj)
{
    bool is_data = obj->attr->cache.type != HWLOC_OBJ_CACHE_INSTRUCTION;
    for (int i = 0; i < h->kind->view.cache_count; i++) {
        kith_cache *cache = (kith_cache *)(uintptr_t)&h->kind->view.caches[i];
        if (cache->level == (int)obj->attr->cache.depth && cache->is_data == is_data &&
            cache->nbytes == obj->attr->cache.size) {
            cache->count++;
            return;
        }
    }
    kith_cache *cache = ki_kind_add_cache(h->t, h->kind);
    cache->level = (int)obj->attr->cache.depth;
    cache->is_data = is_data;
    cache->nbytes = obj->attr->cache.size;
    cache->count = 1;
}

static void add_caches(ki_hwloc *h)
{
    for (int depth = 0; depth < hwloc_topology_get_depth(h->hw); depth++) {
        if (!hwloc_obj_type_is_cache(hwloc_get_depth_type(h->hw, depth)))
            continue;
        for (hwloc_obj_t obj = NULL; (obj = hwloc_get_next_obj_by_depth(h->hw, depth, obj)) != NULL;)
            add_cache(h, obj);
    }
}

static int info_number(hwloc_obj_t obj, const char *name)
{
    return obj != NULL ? ki_text_number(hwloc_obj_get_info_by_name(obj, name), 10) : -1;
}

static void describe_cpu(ki_hwloc *h)
{
    hwloc_obj_t root = hwloc_get_root_obj(h->hw), package = hwloc_get_obj_by_type(h->hw, HWLOC_OBJ_PACKAGE, 0);
    const char *vendor = package != NULL ? hwloc_obj_get_info_by_name(package, "CPUVendor") : NULL;
    if (vendor == NULL && package != NULL &&
        strstr(h->kind->view.cpu_model != NULL ? h->kind->view.cpu_model : "", "Intel("))
        vendor = "GenuineIntel"; /* files of hwloc 1.x have the model alone */
    ki_kind_set_cpu(h->t, h->kind, vendor, hwloc_obj_get_info_by_name(root, "Architecture"),
                    info_number(package, "CPUFamilyNumber"), info_number(package, "CPUModelNumber"));
    h->kind->host = ki_topology_dup(h->t, hwloc_obj_get_info_by_name(root, "HostName"));
    const char *version = hwloc_obj_get_info_by_name(root, "hwlocVersion");
    h->kind->view.source = version != NULL ? ki_topology_format(h->t, "hwloc %.60s", version) : "hwloc";
}

/* ---- GPUs ---- */

/* nvidia-smi's number (PCI order) when it is there; CUDA's own order may be by speed. */
static void number_gpus(ki_hwloc *h)
{
    bool is_clash = false;
    int differ = 0, last = 0;
    for (int i = 0; i < h->gpu_count; i++) {
        ki_hwloc_device *d = &h->gpus[i];
        d->index = d->nvml >= 0 ? d->nvml : d->cuda >= 0 ? d->cuda : d->other;
        differ += d->nvml >= 0 && d->cuda >= 0 && d->nvml != d->cuda;
        last = d->index >= last ? d->index + 1 : last;
        for (int j = 0; j < i; j++)
            is_clash = is_clash || (d->index >= 0 && h->gpus[j].index == d->index);
    }
    for (int i = 0; i < h->gpu_count; i++)
        if (is_clash || h->gpus[i].index < 0)
            h->gpus[i].index = is_clash ? i : last++;
    int k = ki_kind_index(h->t, h->kind);
    if (is_clash)
        ki_topology_doubt(h->t, k, -1, h->kind->file, 0, "gpu-numbers",
                          "two GPUs have the same number (of different libraries); all are numbered in PCI order");
    if (differ > 0)
        ki_topology_doubt(h->t, k, -1, h->kind->file, 0, "cuda-order",
                          "%d GPUs have another number in CUDA than in NVML; NVML's (PCI order) are used; set "
                          "CUDA_DEVICE_ORDER=PCI_BUS_ID",
                          differ);
}

static int compare_by_pci(const void *a, const void *b)
{
    return ki_pci_compare(&((const ki_hwloc_device *)a)->address, &((const ki_hwloc_device *)b)->address);
}

/* mlx5_0, mlx5_1, ..., mlx5_10: as nvidia-smi numbers NICs. */
static int compare_by_name(const void *a, const void *b)
{
    return strverscmp(((const ki_hwloc_device *)a)->os->name, ((const ki_hwloc_device *)b)->os->name);
}

static int compare_by_index(const void *a, const void *b)
{
    int x = ((const ki_hwloc_device *)a)->index, y = ((const ki_hwloc_device *)b)->index;
    return x < y ? -1 : x > y;
}

/* An info of the GPU or of any of its OS devices. */
static const char *gpu_info(const ki_hwloc_device *d, const char *name)
{
    const char *value = d->os != NULL ? hwloc_obj_get_info_by_name(d->os, name) : NULL;
    for (hwloc_obj_t os = d->pci != NULL ? d->pci->io_first_child : NULL; os != NULL && value == NULL;
         os = os->next_sibling)
        value = hwloc_obj_get_info_by_name(os, name);
    return value;
}

/* "Tesla V100-SXM2-16GB (nvml0 cuda0)": the model, and the names that other tools call it. */
static const char *gpu_name(ki_hwloc *h, const ki_hwloc_device *d)
{
    const char *model = gpu_info(d, "GPUModel"), *names = "";
    if (model == NULL && d->pci != NULL)
        model = hwloc_obj_get_info_by_name(d->pci, "PCIDevice");
    if (d->nvml >= 0)
        names = ki_topology_format(h->t, "nvml%d", d->nvml);
    if (d->cuda >= 0)
        names = ki_topology_format(h->t, "%s%scuda%d", names, names[0] != '\0' ? " " : "", d->cuda);
    if (names[0] == '\0' && d->os != NULL)
        names = d->os->name;
    if (model == NULL)
        return names[0] != '\0' ? ki_topology_dup(h->t, names) : NULL;
    return names[0] != '\0' ? ki_topology_format(h->t, "%s (%s)", model, names) : ki_topology_dup(h->t, model);
}

/* NUMA nodes with CPUs under an object, as a list of OS indices. */
static const char *numas_of(ki_hwloc *h, hwloc_obj_t obj)
{
    hwloc_bitmap_t set = hwloc_bitmap_alloc();
    for (int i = 0; set != NULL && i < h->kind->view.numa_count; i++) {
        hwloc_obj_t numa = numa_at(h, i);
        if (h->kind->view.numas[i].cpus[0] != '\0' && hwloc_bitmap_isset(obj->nodeset, numa->os_index))
            hwloc_bitmap_set(set, numa->os_index);
    }
    const char *list = set != NULL && !hwloc_bitmap_iszero(set) ? ki_hwloc_list(h->t, set) : NULL;
    hwloc_bitmap_free(set);
    return list;
}

static uint64_t gpu_memory(const ki_hwloc_device *d)
{
    const char *kib = gpu_info(d, "CUDAGlobalMemorySize");
    if (kib == NULL)
        kib = gpu_info(d, "RSMIVRAMSize");
    int value = ki_text_number(kib, 10);
    return value > 0 ? (uint64_t)value * 1024 : 0;
}

/* hwloc has the speed of the link as it was when hwloc looked, one direction, raw; collective libraries reach about
 * 0.76 of that. The model's own PCIe generation is the better source, so this is for GPUs of unknown model. */
static bool set_pcie(ki_hwloc *h, kith_gpu *gpu, const ki_hwloc_device *d)
{
    float raw = d->pci != NULL ? d->pci->attr->pcidev.linkspeed : 0;
    if (h->is_live || !(raw > 0) || raw > 1000 || ki_gpu_model_find(gpu->name, 0) != NULL)
        return false;
    const kith_constant *gen3 = ki_constant(h->t, "pcie3");
    gpu->pcie_gbps = (double)raw * gen3->effective_gbps / gen3->raw_gbps;
    return true;
}

static void add_gpu(ki_hwloc *h, const ki_hwloc_device *d)
{
    kith_gpu *gpu = ki_kind_add_gpu(h->t, h->kind);
    hwloc_obj_t place = ki_hwloc_locality(h, d);
    const char *uuid = gpu_info(d, "NVIDIAUUID");
    gpu->index = d->index;
    gpu->pci = d->address;
    gpu->name = gpu_name(h, d);
    gpu->uuid = ki_topology_dup(h->t, uuid != NULL ? uuid : gpu_info(d, "AMDUUID"));
    gpu->vendor = ki_pci_vendor_name(d->vendor);
    if (gpu->vendor == NULL && (d->nvml >= 0 || d->cuda >= 0))
        gpu->vendor = "nvidia";
    gpu->memory_nbytes = gpu_memory(d);
    if (place == NULL)
        return;
    gpu->cpus = ki_hwloc_list(h->t, place->cpuset);
    ki_gpu_set_numas(h->t, gpu, numas_of(h, place), "hwloc");
}

static void set_pcies(ki_hwloc *h)
{
    int count = 0;
    for (int i = 0; i < h->kind->view.gpu_count; i++)
        count += set_pcie(h, (kith_gpu *)(uintptr_t)&h->kind->view.gpus[i], &h->gpus[i]);
    if (count > 0)
        ki_topology_doubt(h->t, ki_kind_index(h->t, h->kind), -1, h->kind->file, 0, "pcie-current",
                          "the PCIe links of %d GPUs are taken as fast as hwloc saw them; an idle GPU may have slowed "
                          "its link down",
                          count);
}

/* GPU memory that is a NUMA node names its GPU by PCI address. */
static void join_gpu_memory(ki_hwloc *h)
{
    for (int i = 0; i < h->kind->view.numa_count; i++) {
        kith_numa *numa = (kith_numa *)(uintptr_t)&h->kind->view.numas[i];
        kith_pci_address address;
        if (!numa->is_gpu_memory ||
            ki_pci_parse(hwloc_obj_get_info_by_name(numa_at(h, i), "PCIBusID"), &address) != KI_PCI_GOOD)
            continue;
        for (int g = 0; g < h->gpu_count; g++) {
            kith_gpu *gpu = (kith_gpu *)(uintptr_t)&h->kind->view.gpus[g];
            if (!ki_pci_is_same_device(&gpu->pci, &address))
                continue;
            numa->gpu = g;
            gpu->memory_numa = numa->os_index;
        }
    }
}

/* ---- NICs ---- */

static int port_count(hwloc_obj_t os)
{
    char name[24];
    for (int port = 1; port <= 64; port++) {
        snprintf(name, sizeof name, "Port%dState", port);
        if (hwloc_obj_get_info_by_name(os, name) == NULL)
            return port - 1;
    }
    return 0;
}

static void add_nic(ki_hwloc *h, const ki_hwloc_device *d)
{
    kith_nic *nic = ki_kind_add_nic(h->t, h->kind);
    hwloc_obj_t place = ki_hwloc_locality(h, d);
    nic->name = nic->device = ki_topology_dup(h->t, d->os->name);
    nic->fabric = ki_nic_fabric(nic->name, d->class_id, d->vendor);
    nic->guid = ki_topology_dup(h->t, hwloc_obj_get_info_by_name(d->os, "NodeGUID"));
    nic->pci = d->address;
    nic->port_count = port_count(d->os);
    if (place == NULL)
        return;
    nic->cpus = ki_hwloc_list(h->t, place->cpuset);
    nic->numa = ki_text_number(numas_of(h, place), 10); /* a list of several is no number: unknown */
}

void ki_hwloc_build(ki_hwloc *h)
{
    add_packages(h);
    add_numas(h);
    add_caches(h);
    describe_cpu(h);
    if (h->t->status != KITH_OK)
        return;
    qsort(h->gpus, (size_t)h->gpu_count, sizeof h->gpus[0], compare_by_pci);
    number_gpus(h);
    qsort(h->gpus, (size_t)h->gpu_count, sizeof h->gpus[0], compare_by_index);
    qsort(h->nics, (size_t)h->nic_count, sizeof h->nics[0], compare_by_name);
    for (int i = 0; i < h->gpu_count && h->t->status == KITH_OK; i++)
        add_gpu(h, &h->gpus[i]);
    for (int i = 0; i < h->nic_count && h->t->status == KITH_OK; i++)
        add_nic(h, &h->nics[i]);
    if (h->t->status != KITH_OK)
        return;
    set_pcies(h);
    join_gpu_memory(h);
    ki_kind_make_links(h->t, h->kind);
}
