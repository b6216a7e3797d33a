/* topology/export.c - what a rank needs to know about its place: host, CPUs, GPU, NICs.
 *
 * What the machine's description does not tell is left out, with a comment where the form allows one: a guessed CPU or
 * NIC would be bound without a complaint. CPUs come from the GPU, never from the rank: on many machines GPU i is not on
 * NUMA node i.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "export.h"

#include "sets.h"

#include <string.h>

/* ---- one rank's place ---- */

bool ki_export_seat(const kith_topology *t, const kith_placement *p, int rank, ki_seat *seat)
{
    int node;
    if (!kith_topology_locate(t, kith_placement_gpu(p, rank), &node, &seat->gpu))
        return false;
    seat->node = kith_topology_node(t, node);
    seat->kind = kith_topology_kind(t, seat->node->kind);
    return true;
}

static const kith_numa *numa_with_index(const kith_node_kind *kind, int os_index)
{
    for (int i = 0; i < kind->numa_count; i++)
        if (kind->numas[i].os_index == os_index)
            return &kind->numas[i];
    return NULL;
}

static bool is_list(const char *cpus)
{
    return cpus != NULL && cpus[0] != '\0' && cpus[strspn(cpus, "0123456789,-")] == '\0';
}

/* Do the NUMA nodes' masks contradict each other? Then binding by them would be worse than not binding. */
static bool is_mask_wrong(const kith_node_kind *kind)
{
    ki_cpuset seen = { NULL, 0 };
    bool is_wrong = false;
    for (int i = 0; i < kind->numa_count && !is_wrong; i++) {
        ki_cpuset set;
        if (!is_list(kind->numas[i].cpus) || kind->numas[i].is_gpu_memory ||
            !ki_cpuset_parse(kind->numas[i].cpus, &set))
            continue;
        is_wrong = ki_cpuset_intersects(&seen, &set);
        for (int cpu = ki_cpuset_first(&set, -1); cpu >= 0 && !is_wrong; cpu = ki_cpuset_first(&set, cpu))
            is_wrong = !ki_cpuset_add(&seen, cpu);
        ki_cpuset_fini(&set);
    }
    ki_cpuset_fini(&seen);
    return is_wrong;
}

/* The GPU's own list, else those of its NUMA nodes; nothing where the masks are wrong (doubt numa-overlap). */
bool ki_export_cpus(const ki_seat *seat, ki_text *text)
{
    const kith_gpu *gpu = &seat->kind->gpus[seat->gpu];
    if (is_mask_wrong(seat->kind))
        return false;
    if (is_list(gpu->cpus)) {
        ki_text_add(text, "%s", gpu->cpus);
        return true;
    }
    for (int i = 0; i < gpu->numa_count; i++) {
        const kith_numa *numa = numa_with_index(seat->kind, gpu->numas[i]);
        if (numa != NULL && is_list(numa->cpus))
            ki_text_add(text, "%s%s", text->length > 0 ? "," : "", numa->cpus);
    }
    return text->length > 0;
}

/* ---- names that may stand in a line ---- */

bool ki_export_is_plain(const char *name)
{
    return name != NULL && name[0] != '\0' &&
           name[strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")] == '\0';
}

/* ---- environment ---- */

static const char *visible_variable(const ki_seat *seat)
{
    const kith_gpu *gpu = &seat->kind->gpus[seat->gpu];
    const char *vendor = gpu->vendor;
    for (int j = 0; vendor == NULL && j < seat->kind->gpu_count; j++) {
        kith_link_type type = seat->kind->links[seat->gpu * seat->kind->gpu_count + j].type;
        vendor = type == KITH_LINK_NVLINK ? "nvidia" : type == KITH_LINK_XGMI ? "amd" : NULL;
    }
    if (vendor == NULL &&
        (strncmp(seat->kind->format, "nvidia", 6) == 0 || strncmp(seat->kind->format, "NCCL", 4) == 0))
        vendor = "nvidia"; /* only NVIDIA's tools write these */
    if (vendor == NULL)
        return NULL;
    if (strcmp(vendor, "nvidia") == 0)
        return "CUDA_VISIBLE_DEVICES";
    return strcmp(vendor, "amd") == 0     ? "ROCR_VISIBLE_DEVICES"
           : strcmp(vendor, "intel") == 0 ? "ZE_AFFINITY_MASK"
                                          : NULL;
}

static bool is_before(const kith_pci_address *a, const kith_pci_address *b)
{
    if (a->domain != b->domain)
        return a->domain < b->domain;
    if (a->bus != b->bus)
        return a->bus < b->bus;
    return a->device != b->device ? a->device < b->device : a->function < b->function;
}

/* The number under CUDA_DEVICE_ORDER=PCI_BUS_ID: by address where all have one, else the source's own, which for
 * nvidia-smi is the same. GPUs that do not answer have no number. */
static int number_by_address(const ki_seat *seat)
{
    const kith_node_kind *kind = seat->kind;
    int before = 0;
    for (int i = 0; i < kind->gpu_count; i++)
        if (!kind->gpus[i].pci.is_known)
            return kind->gpus[seat->gpu].index;
    for (int i = 0; i < kind->gpu_count; i++)
        before += !kind->gpus[i].is_lost && is_before(&kind->gpus[i].pci, &kind->gpus[seat->gpu].pci);
    return before;
}

static bool is_rdma(const kith_nic *nic)
{
    if (!ki_export_is_plain(nic->device))
        return false;
    if (nic->fabric != NULL)
        return strcmp(nic->fabric, "infiniband") == 0 || strcmp(nic->fabric, "roce") == 0;
    return strncmp(nic->device, "mlx", 3) == 0;
}

static void add_nics(const ki_seat *seat, ki_text *ib, ki_text *ucx)
{
    kith_link_type best;
    const kith_node_kind *kind = seat->kind;
    kith_nearest_nics(kind, seat->gpu, NULL, 0, &best);
    for (int n = 0; n < kind->nic_count && best != KITH_LINK_UNKNOWN; n++) {
        const kith_nic *nic = &kind->nics[n];
        if (kind->nic_links[seat->gpu * kind->nic_count + n].type != best || !is_rdma(nic))
            continue;
        ki_text_add(ib, "%s%s", ib->length > 0 ? "," : "=", nic->device); /* '=' first: exactly these, no prefixes */
        ki_text_add(ucx, "%s%s:1", ucx->length > 0 ? "," : "", nic->device);
    }
}

void ki_export_environment(const ki_seat *seat, ki_variable_fn each, void *arg)
{
    ki_text number = { 0 }, ib = { 0 }, ucx = { 0 };
    const char *visible = visible_variable(seat);
    ki_text_add(&number, "%d", number_by_address(seat));
    add_nics(seat, &ib, &ucx);
    if (visible != NULL && visible[0] == 'C')
        each(arg, "CUDA_DEVICE_ORDER", "PCI_BUS_ID");
    if (visible != NULL)
        each(arg, visible, ki_text_chars(&number));
    if (ib.length > 0) {
        each(arg, "NCCL_IB_HCA", ki_text_chars(&ib));
        each(arg, "UCX_NET_DEVICES", ki_text_chars(&ucx));
    }
    ki_text_fini(&number);
    ki_text_fini(&ib);
    ki_text_fini(&ucx);
}
