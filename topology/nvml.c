/* topology/nvml.c - reads NVML. See nvml.h.
 *
 * The prototypes below are NVML's binary interface as drivers since 2020 have it; functions that older or newer drivers
 * lack are optional, and what they would tell stays unknown.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "nvml.h"

#include "hardware.h"
#include "sets.h"
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

enum { SUCCESS = 0, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NO_PERMISSION = 4 };
enum { GPU_IS_LOST = 15, RESET_REQUIRED = 16, UNKNOWN_ERROR = 999 };
enum {
    REMOTE_GPU = 0,
    REMOTE_SWITCH = 2,
    P2P_READ = 0,
    SCOPE_NODE = 0,
    CPU_WORDS = KI_CPU_LIMIT / 64,
    NODE_WORDS = 64
};

typedef void *device;

typedef struct pci_info {
    char bus_id_legacy[16];
    unsigned domain, bus, dev, device_id, subsystem_id;
    char bus_id[32];
} pci_info;

typedef struct memory_info {
    unsigned long long total, available, used;
} memory_info;

typedef struct fabric_info {
    unsigned char cluster[16];
    int status;
    unsigned clique;
    unsigned char state;
} fabric_info;

/* name in this file, symbol, is it necessary, arguments */
#define FUNCTIONS(X)                                                                                                   \
    X(init, "nvmlInit_v2", true, (void))                                                                               \
    X(shutdown, "nvmlShutdown", true, (void))                                                                          \
    X(get_count, "nvmlDeviceGetCount_v2", true, (unsigned *))                                                          \
    X(get_handle, "nvmlDeviceGetHandleByIndex_v2", true, (unsigned, device *))                                         \
    X(get_pci, "nvmlDeviceGetPciInfo_v3", true, (device, pci_info *))                                                  \
    X(get_name, "nvmlDeviceGetName", true, (device, char *, unsigned))                                                 \
    X(get_uuid, "nvmlDeviceGetUUID", true, (device, char *, unsigned))                                                 \
    X(get_capability, "nvmlDeviceGetCudaComputeCapability", false, (device, int *, int *))                             \
    X(get_memory, "nvmlDeviceGetMemoryInfo", false, (device, memory_info *))                                           \
    X(get_pcie_generation, "nvmlDeviceGetMaxPcieLinkGeneration", false, (device, unsigned *))                          \
    X(get_pcie_width, "nvmlDeviceGetMaxPcieLinkWidth", false, (device, unsigned *))                                    \
    X(get_mig, "nvmlDeviceGetMigMode", false, (device, unsigned *, unsigned *))                                        \
    X(get_cpus, "nvmlDeviceGetCpuAffinity", false, (device, unsigned, unsigned long *))                                \
    X(get_numas, "nvmlDeviceGetMemoryAffinity", false, (device, unsigned, unsigned long *, unsigned))                  \
    X(get_numa_id, "nvmlDeviceGetNumaNodeId", false, (device, unsigned *))                                             \
    X(get_fabric, "nvmlDeviceGetGpuFabricInfo", false, (device, fabric_info *))                                        \
    X(get_link_state, "nvmlDeviceGetNvLinkState", false, (device, unsigned, unsigned *))                               \
    X(get_link_version, "nvmlDeviceGetNvLinkVersion", false, (device, unsigned, unsigned *))                           \
    X(get_link_remote, "nvmlDeviceGetNvLinkRemotePciInfo_v2", false, (device, unsigned, pci_info *))                   \
    X(get_link_type, "nvmlDeviceGetNvLinkRemoteDeviceType", false, (device, unsigned, unsigned *))                     \
    X(get_p2p, "nvmlDeviceGetP2PStatus", false, (device, device, unsigned, unsigned *))                                \
    X(get_level, "nvmlDeviceGetTopologyCommonAncestor", false, (device, device, unsigned *))

typedef struct nvml_api {
    void *library;
    const char *(*error_text)(int);
#define MEMBER(name, symbol, is_needed, arguments) int(*name) arguments;
    FUNCTIONS(MEMBER)
#undef MEMBER
} nvml_api;

/* NULL: all that is needed is there; else the first symbol that is missing. */
static const char *find_functions(nvml_api *api)
{
    const char *missing = NULL;
#define FIND(name, symbol, is_needed, arguments)                                                                       \
    api->name = (int(*) arguments)(uintptr_t)dlsym(api->library, symbol);                                              \
    if (api->name == NULL && (is_needed) && missing == NULL)                                                           \
        missing = symbol;
    FUNCTIONS(FIND)
#undef FIND
    api->error_text = (const char *(*)(int))(uintptr_t)dlsym(api->library, "nvmlErrorString");
    return missing;
}

static const char *error_text(kith_topology *t, const nvml_api *api, int error)
{
    const char *text = api->error_text != NULL ? api->error_text(error) : NULL;
    return text != NULL ? ki_topology_dup(t, text) : ki_topology_format(t, "error %d", error);
}

/* ---- one GPU ---- */

/* An answer that means that the GPU is gone, while others may just be unknown. */
static bool is_gone(int error)
{
    return error == GPU_IS_LOST || error == RESET_REQUIRED || error == UNKNOWN_ERROR;
}

static void fail_gpu(kith_topology *t, const nvml_api *api, ki_nvml_gpu *gpu, int error)
{
    gpu->state = error == NO_PERMISSION ? KI_NVML_FORBIDDEN : KI_NVML_LOST;
    gpu->why = error_text(t, api, error);
}

static const char *list_of_words(kith_topology *t, const unsigned long *words, int count)
{
    ki_cpuset set = { NULL, 0 };
    for (int i = 0; i < count * 64; i++)
        if ((words[i / 64] >> (i % 64) & 1) != 0)
            ki_cpuset_add(&set, i);
    size_t nbytes = (size_t)set.count * 6 + 16;
    char *list = set.count > 0 ? (char *)ki_topology_alloc(t, nbytes, 1) : NULL;
    if (list != NULL)
        ki_cpuset_text(&set, list, nbytes);
    ki_cpuset_fini(&set);
    return list;
}

static void read_place(kith_topology *t, const nvml_api *api, device handle, ki_nvml_gpu *gpu)
{
    unsigned long cpus[CPU_WORDS] = { 0 }, nodes[NODE_WORDS] = { 0 };
    unsigned numa = 0;
    if (api->get_cpus != NULL && api->get_cpus(handle, CPU_WORDS, cpus) == SUCCESS)
        gpu->cpus = list_of_words(t, cpus, CPU_WORDS);
    if (api->get_numas != NULL && api->get_numas(handle, NODE_WORDS, nodes, SCOPE_NODE) == SUCCESS)
        gpu->numas = list_of_words(t, nodes, NODE_WORDS);
    if (api->get_numa_id != NULL && api->get_numa_id(handle, &numa) == SUCCESS && numa < KI_CPU_LIMIT)
        gpu->memory_numa = (int)numa;
}

static void read_numbers(const nvml_api *api, device handle, ki_nvml_gpu *gpu)
{
    int major = 0, minor = 0;
    unsigned generation = 0, width = 0, mig = 0, pending = 0;
    memory_info memory = { 0 };
    if (api->get_capability != NULL && api->get_capability(handle, &major, &minor) == SUCCESS && major > 0)
        gpu->compute_capability = 10 * major + minor;
    if (api->get_memory != NULL && api->get_memory(handle, &memory) == SUCCESS)
        gpu->memory_nbytes = memory.total;
    if (api->get_pcie_generation != NULL && api->get_pcie_generation(handle, &generation) == SUCCESS && generation <= 6)
        gpu->pcie_generation = (int)generation;
    if (api->get_pcie_width != NULL && api->get_pcie_width(handle, &width) == SUCCESS && width <= 32)
        gpu->pcie_width = (int)width;
    if (api->get_mig != NULL && api->get_mig(handle, &mig, &pending) == SUCCESS)
        gpu->is_mig = mig == 1;
}

static void read_fabric(const nvml_api *api, device handle, ki_nvml_gpu *gpu)
{
    fabric_info fabric = { .status = 0 };
    if (api->get_fabric == NULL || api->get_fabric(handle, &fabric) != SUCCESS || fabric.state == 0)
        return;
    gpu->has_fabric = true;
    gpu->fabric_state = fabric.state;
    gpu->fabric_status = fabric.status;
    gpu->clique = fabric.clique;
    memcpy(gpu->cluster, fabric.cluster, sizeof gpu->cluster);
}

/* ---- NVLinks ---- */

/* NVML counts versions: 1.0, 2.0, 2.2, 3.0, 3.1, 4.0, 5.0. */
static int link_generation(const nvml_api *api, device handle, unsigned link)
{
    static const int generations[] = { 0, 1, 2, 2, 3, 3, 4, 5 };
    unsigned version = 0;
    if (api->get_link_version == NULL || api->get_link_version(handle, link, &version) != SUCCESS)
        return 0;
    return version < sizeof generations / sizeof generations[0] ? generations[version] : 0;
}

/* Where a link goes. Without the function for the type (drivers before 2021) NVIDIA's vendor id must tell a switch;
 * GPUs are found by address before that matters. */
static void read_remote(const nvml_api *api, device handle, unsigned number, ki_nvml_link *link)
{
    pci_info pci;
    unsigned type = UINT32_MAX;
    memset(&pci, 0, sizeof pci);
    bool has_type = api->get_link_type != NULL && api->get_link_type(handle, number, &type) == SUCCESS;
    if (api->get_link_remote == NULL || api->get_link_remote(handle, number, &pci) != SUCCESS) {
        link->peer = has_type && type == REMOTE_SWITCH ? KI_NVML_PEER_SWITCH : KI_NVML_PEER_UNKNOWN;
        return;
    }
    pci.bus_id[sizeof pci.bus_id - 1] = '\0';
    ki_pci_kind kind = ki_pci_parse(pci.bus_id, &link->remote);
    if (has_type && type == REMOTE_SWITCH)
        link->peer = KI_NVML_PEER_SWITCH;
    else if (kind == KI_PCI_HIDDEN)
        link->peer = KI_NVML_PEER_HIDDEN;
    else if (kind == KI_PCI_GOOD)
        link->peer =
            !has_type && (pci.device_id & 0xffff) == KI_VENDOR_NVIDIA ? KI_NVML_PEER_UNKNOWN : KI_NVML_PEER_DEVICE;
}

static void read_links(kith_topology *t, const nvml_api *api, device handle, ki_nvml_gpu *gpu)
{
    for (unsigned number = 0; api->get_link_state != NULL && number < KI_NVML_MOST_LINKS; number++) {
        unsigned is_active = 0;
        int error = api->get_link_state(handle, number, &is_active);
        if (error == INVALID_ARGUMENT || error == NOT_SUPPORTED)
            return; /* no such link, or no NVLink at all */
        if (is_gone(error)) {
            fail_gpu(t, api, gpu, error);
            return;
        }
        if (error != SUCCESS || is_active != 1)
            continue;
        ki_nvml_link *link = &gpu->links[gpu->link_count++];
        link->generation = link_generation(api, handle, number);
        read_remote(api, handle, number, link);
    }
}

static void read_gpu(kith_topology *t, const nvml_api *api, device handle, ki_nvml_gpu *gpu)
{
    char text[96] = "";
    pci_info pci;
    memset(&pci, 0, sizeof pci);
    int error = api->get_pci(handle, &pci);
    pci.bus_id[sizeof pci.bus_id - 1] = '\0';
    if (error == SUCCESS)
        ki_pci_parse(pci.bus_id, &gpu->pci);
    if (error == SUCCESS && (error = api->get_name(handle, text, sizeof text)) == SUCCESS)
        gpu->name = ki_topology_dup_n(t, text, strnlen(text, sizeof text));
    if (error == SUCCESS && (error = api->get_uuid(handle, text, sizeof text)) == SUCCESS)
        gpu->uuid = ki_topology_dup_n(t, text, strnlen(text, sizeof text));
    if (error != SUCCESS) {
        fail_gpu(t, api, gpu, error);
        return;
    }
    read_numbers(api, handle, gpu);
    read_place(t, api, handle, gpu);
    read_fabric(api, handle, gpu);
    read_links(t, api, handle, gpu);
}

/* ---- all GPUs ---- */

static void read_pairs(const nvml_api *api, const device *handles, ki_nvml *nvml)
{
    int n = nvml->gpu_count;
    for (int i = 0; i < n * n; i++) {
        unsigned status = 0, level = 0;
        const ki_nvml_gpu *a = &nvml->gpus[i / n], *b = &nvml->gpus[i % n];
        nvml->p2p[i] = nvml->level[i] = -1;
        if (i / n == i % n || a->state != KI_NVML_FINE || b->state != KI_NVML_FINE)
            continue;
        if (api->get_p2p != NULL && api->get_p2p(handles[i / n], handles[i % n], P2P_READ, &status) == SUCCESS)
            nvml->p2p[i] = (int)(status & 0xff);
        if (api->get_level != NULL && api->get_level(handles[i / n], handles[i % n], &level) == SUCCESS)
            nvml->level[i] = (int)(level & 0xff);
    }
}

static void read_gpus(kith_topology *t, const nvml_api *api, unsigned count, ki_nvml *nvml)
{
    device handles[KI_MAX_GPUS] = { NULL };
    size_t n = count;
    nvml->gpus = (ki_nvml_gpu *)ki_topology_alloc(t, n, sizeof *nvml->gpus);
    nvml->p2p = (int *)ki_topology_alloc(t, n * n, sizeof(int));
    nvml->level = (int *)ki_topology_alloc(t, n * n, sizeof(int));
    if (nvml->gpus == NULL || nvml->p2p == NULL || nvml->level == NULL)
        return;
    nvml->gpu_count = (int)count;
    for (unsigned i = 0; i < count; i++) {
        nvml->gpus[i].memory_numa = -1;
        int error = api->get_handle(i, &handles[i]);
        if (error == SUCCESS)
            read_gpu(t, api, handles[i], &nvml->gpus[i]);
        else
            fail_gpu(t, api, &nvml->gpus[i], error);
    }
    read_pairs(api, handles, nvml);
}

static void read_all(kith_topology *t, const nvml_api *api, ki_nvml *nvml)
{
    unsigned count = 0;
    int error = api->init();
    if (error != SUCCESS) {
        nvml->error = error_text(t, api, error);
        return;
    }
    error = api->get_count(&count);
    if (error != SUCCESS)
        nvml->error = error_text(t, api, error);
    else if (count > KI_MAX_GPUS)
        nvml->error = ki_topology_format(t, "%u GPUs are more than %d", count, KI_MAX_GPUS);
    else if (count > 0)
        read_gpus(t, api, count, nvml);
    api->shutdown();
}

kith_status ki_nvml_read(kith_topology *t, const char *library_path, const ki_nvml **out)
{
    *out = NULL;
    nvml_api api = { .library = dlopen(library_path, RTLD_NOW | RTLD_LOCAL) };
    if (api.library == NULL)
        return KITH_OK;
    ki_nvml *nvml = (ki_nvml *)ki_topology_alloc(t, 1, sizeof *nvml);
    if (nvml != NULL) {
        const char *missing = find_functions(&api);
        if (missing != NULL)
            nvml->error = ki_topology_format(t, "%s has no %s", library_path, missing);
        else
            read_all(t, &api, nvml);
    }
    dlclose(api.library);
    *out = nvml;
    return ki_topology_status(t);
}
