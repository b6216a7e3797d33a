/* tests/topology/fake_nvml.c - a management library without GPUs: describes the machine that FAKE_NVML names.
 *
 * Strict: it aborts when it is used before nvmlInit, with a handle that it did not give, a link that is out of range
 * where the real one allows none, a buffer that is too small, or when it is unloaded with nvmlInit not undone.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SUCCESS = 0,
    INVALID_ARGUMENT = 2,
    NOT_SUPPORTED = 3,
    NO_PERMISSION = 4,
    DRIVER_NOT_LOADED = 9,
    GPU_IS_LOST = 15
};
enum { MOST_GPUS = 8, MOST_LINKS = 18 };
#define EXPORT __attribute__((visibility("default")))

typedef struct fake_gpu {
    int number;
} fake_gpu;

typedef struct pci_info {
    char legacy[16];
    unsigned domain, bus, device, id, subsystem;
    char text[32];
} pci_info;

typedef struct machine {
    const char *name;
    int gpu_count, link_count;
    unsigned link_version;
    const char *model;
    int major, minor;
    bool has_switch;  /* all links go into switches */
    bool is_hidden;   /* their addresses are hidden */
    int lost;         /* this GPU fails from the first call on; -1: none */
    int late;         /* this GPU gets lost while its links are read */
    int forbidden;    /* this GPU may not be touched */
    int mig;          /* this GPU is split */
    bool is_broken;   /* peer-to-peer between 0 and 1 is refused */
    int fabric_state; /* 0: none */
    bool has_cluster; /* a domain of several nodes */
    bool is_grace;    /* memory of the GPUs is NUMA nodes 40 + i, near node i */
    int init_error;
    bool is_paired; /* all links of a GPU go to one other: bridges */
} machine;

static const machine machines[] = {
    { "nvswitch", 8, 18, 6, "NVIDIA H100 80GB HBM3", 9, 0, true, false, -1, -1, -1, -1, false, 3, false, false, 0,
      false },
    { "mesh", 4, 18, 6, "NVIDIA H100 80GB HBM3", 9, 0, false, false, -1, -1, -1, -1, false, 0, false, false, 0, false },
    { "lost", 4, 18, 6, "NVIDIA H100 80GB HBM3", 9, 0, false, false, 2, -1, -1, -1, false, 0, false, false, 0, false },
    { "late", 4, 18, 6, "NVIDIA H100 80GB HBM3", 9, 0, false, false, -1, 1, -1, -1, false, 0, false, false, 0, false },
    { "forbidden", 4, 18, 6, "NVIDIA H100 80GB HBM3", 9, 0, false, false, -1, -1, 3, -1, false, 0, false, false, 0,
      false },
    { "hidden", 8, 18, 7, "NVIDIA B200", 10, 0, true, true, -1, -1, -1, -1, false, 3, false, false, 0, false },
    { "mig", 4, 18, 6, "NVIDIA H100 80GB HBM3", 9, 0, false, false, -1, -1, -1, 2, false, 0, false, false, 0, false },
    { "p2p", 4, 18, 6, "NVIDIA H100 80GB HBM3", 9, 0, false, false, -1, -1, -1, -1, true, 0, false, false, 0, false },
    { "down", 8, 18, 6, "NVIDIA H100 80GB HBM3", 9, 0, true, false, -1, -1, -1, -1, false, 2, false, false, 0, false },
    { "grace", 2, 18, 7, "NVIDIA GB200", 10, 0, true, false, -1, -1, -1, -1, false, 3, true, true, 0, false },
    { "pcie", 2, 0, 0, "NVIDIA L40S", 8, 9, false, false, -1, -1, -1, -1, false, 0, false, false, 0, false },
    { "broken", 0, 0, 0, "", 0, 0, false, false, -1, -1, -1, -1, false, 0, false, false, DRIVER_NOT_LOADED, false },
    { "pairs", 4, 4, 6, "NVIDIA RTX A6000", 8, 6, false, false, -1, -1, -1, -1, false, 0, false, false, 0, true },
};

static fake_gpu gpus[MOST_GPUS];
static const machine *now;
static int inits;

static void misuse(const char *what)
{
    fprintf(stderr, "fake NVML: %s\n", what);
    abort();
}

static const machine *need_init(void)
{
    if (inits <= 0)
        misuse("used without nvmlInit");
    return now;
}

/* Number of a GPU; aborts for handles that were never given. */
static int number_of(const fake_gpu *gpu)
{
    const machine *m = need_init();
    int number = (int)(gpu - gpus);
    if (gpu < gpus || number >= m->gpu_count || number == m->lost || number == m->forbidden)
        misuse("a handle that was not given");
    return number;
}

__attribute__((destructor)) static void check_balance(void)
{
    if (inits != 0)
        misuse("unloaded without nvmlShutdown");
}

EXPORT int nvmlInit_v2(void)
{
    const char *wanted = getenv("FAKE_NVML");
    for (size_t i = 0; i < sizeof machines / sizeof machines[0]; i++)
        if (wanted != NULL && strcmp(machines[i].name, wanted) == 0)
            now = &machines[i];
    if (now == NULL)
        misuse("FAKE_NVML names no machine");
    if (now->init_error != 0)
        return now->init_error;
    inits++;
    return SUCCESS;
}

EXPORT int nvmlShutdown(void)
{
    if (inits-- <= 0)
        misuse("nvmlShutdown without nvmlInit");
    return SUCCESS;
}

EXPORT const char *nvmlErrorString(int error)
{
    return error == GPU_IS_LOST         ? "GPU is lost"
           : error == NO_PERMISSION     ? "Insufficient Permissions"
           : error == DRIVER_NOT_LOADED ? "Driver Not Loaded"
                                        : "Unknown Error";
}

EXPORT int nvmlDeviceGetCount_v2(unsigned *count)
{
    *count = (unsigned)need_init()->gpu_count;
    return SUCCESS;
}

EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned index, fake_gpu **gpu)
{
    const machine *m = need_init();
    if (index >= (unsigned)m->gpu_count)
        misuse("an index beyond the count");
    if ((int)index == m->lost || (int)index == m->forbidden)
        return (int)index == m->lost ? GPU_IS_LOST : NO_PERMISSION;
    *gpu = &gpus[index];
    return SUCCESS;
}

static void address(pci_info *pci, int number)
{
    static const int buses[] = { 0x73, 0x33, 0xf3, 0xb3, 0x19, 0x29, 0x39, 0x49 };
    memset(pci, 0, sizeof *pci);
    pci->bus = (unsigned)buses[number];
    pci->domain = now->is_grace ? (unsigned)number : 0;
    pci->bus = now->is_grace ? 1 : pci->bus;
    pci->id = 0x233010de;
    snprintf(pci->text, sizeof pci->text, "%08X:%02X:00.0", pci->domain, pci->bus);
    snprintf(pci->legacy, sizeof pci->legacy, "%04X:%02X:00.0", pci->domain & 0xffff, pci->bus & 0xff);
}

EXPORT int nvmlDeviceGetPciInfo_v3(fake_gpu *gpu, pci_info *pci)
{
    address(pci, number_of(gpu));
    return SUCCESS;
}

EXPORT int nvmlDeviceGetName(fake_gpu *gpu, char *name, unsigned nbytes)
{
    (void)number_of(gpu);
    if (nbytes < 96)
        misuse("a buffer for a name that is too small");
    snprintf(name, nbytes, "%s", now->model);
    return SUCCESS;
}

EXPORT int nvmlDeviceGetUUID(fake_gpu *gpu, char *uuid, unsigned nbytes)
{
    if (nbytes < 80)
        misuse("a buffer for a UUID that is too small");
    snprintf(uuid, nbytes, "GPU-%08x-0000-0000-0000-000000000000", 0xabc0 + number_of(gpu));
    return SUCCESS;
}

EXPORT int nvmlDeviceGetCudaComputeCapability(fake_gpu *gpu, int *major, int *minor)
{
    (void)number_of(gpu);
    *major = now->major;
    *minor = now->minor;
    return SUCCESS;
}

EXPORT int nvmlDeviceGetMemoryInfo(fake_gpu *gpu, unsigned long long *total_free_used)
{
    (void)number_of(gpu);
    total_free_used[0] = 80000000000ULL;
    total_free_used[1] = total_free_used[2] = 40000000000ULL;
    return SUCCESS;
}

EXPORT int nvmlDeviceGetMaxPcieLinkGeneration(fake_gpu *gpu, unsigned *generation)
{
    (void)number_of(gpu);
    *generation = 5;
    return SUCCESS;
}

EXPORT int nvmlDeviceGetMaxPcieLinkWidth(fake_gpu *gpu, unsigned *width)
{
    (void)number_of(gpu);
    *width = 16;
    return SUCCESS;
}

EXPORT int nvmlDeviceGetMigMode(fake_gpu *gpu, unsigned *current, unsigned *pending)
{
    *current = *pending = number_of(gpu) == now->mig;
    return now->mig >= 0 ? SUCCESS : NOT_SUPPORTED;
}

EXPORT int nvmlDeviceGetMemoryAffinity(fake_gpu *gpu, unsigned words, unsigned long *set, unsigned scope)
{
    int number = number_of(gpu);
    if (words == 0 || scope > 1)
        misuse("an affinity without room");
    memset(set, 0, words * sizeof *set);
    if (!now->is_grace)
        return NOT_SUPPORTED;
    set[0] =
        (1ul << (1 - number)) | (1ul << (40 + number)); /* the other CPU than the PCI bus says, and its own memory */
    return SUCCESS;
}

EXPORT int nvmlDeviceGetNumaNodeId(fake_gpu *gpu, unsigned *node)
{
    *node = (unsigned)(40 + number_of(gpu));
    return now->is_grace ? SUCCESS : NOT_SUPPORTED;
}

typedef struct fabric_info {
    unsigned char cluster[16];
    int status;
    unsigned clique;
    unsigned char state;
} fabric_info;

EXPORT int nvmlDeviceGetGpuFabricInfo(fake_gpu *gpu, fabric_info *fabric)
{
    (void)number_of(gpu);
    memset(fabric, 0, sizeof *fabric);
    fabric->state = (unsigned char)now->fabric_state;
    fabric->clique = 7;
    if (now->has_cluster)
        memset(fabric->cluster, 0xab, sizeof fabric->cluster);
    return SUCCESS;
}

/* ---- links ---- */

static void check_link(const fake_gpu *gpu, unsigned link)
{
    (void)number_of(gpu);
    if (link >= (unsigned)now->link_count)
        misuse("a link that is not up");
}

EXPORT int nvmlDeviceGetNvLinkState(fake_gpu *gpu, unsigned link, unsigned *is_active)
{
    if (number_of(gpu) == now->late)
        return GPU_IS_LOST;
    if (now->link_count == 0)
        return NOT_SUPPORTED;
    if (link >= MOST_LINKS)
        return INVALID_ARGUMENT;
    *is_active = link < (unsigned)now->link_count;
    return SUCCESS;
}

EXPORT int nvmlDeviceGetNvLinkVersion(fake_gpu *gpu, unsigned link, unsigned *version)
{
    check_link(gpu, link);
    *version = now->link_version;
    return SUCCESS;
}

/* Direct: six links to each of three others, in the order of the links; or all to the other one of the pair. */
static int peer_of(int number, unsigned link)
{
    if (now->is_paired)
        return number ^ 1;
    int other = (int)link / 6;
    return other + (other >= number);
}

EXPORT int nvmlDeviceGetNvLinkRemotePciInfo_v2(fake_gpu *gpu, unsigned link, pci_info *pci)
{
    check_link(gpu, link);
    if (!now->has_switch) {
        address(pci, peer_of((int)(gpu - gpus), link));
        return SUCCESS;
    }
    memset(pci, 0, sizeof *pci);
    pci->id = now->is_hidden ? 0 : 0x22a310de;
    snprintf(pci->text, sizeof pci->text, "%s", now->is_hidden ? "FFFFFFF:FFFF:FF.0" : "00000000:07:00.0");
    return SUCCESS;
}

EXPORT int nvmlDeviceGetNvLinkRemoteDeviceType(fake_gpu *gpu, unsigned link, unsigned *type)
{
    check_link(gpu, link);
    *type = now->has_switch ? 2 : 0;
    return now->is_hidden ? NOT_SUPPORTED : SUCCESS;
}

EXPORT int nvmlDeviceGetP2PStatus(fake_gpu *a, fake_gpu *b, unsigned what, unsigned *status)
{
    int x = number_of(a), y = number_of(b);
    if (x == y || what > 4)
        misuse("peer-to-peer of a GPU with itself");
    *status = now->is_broken && x < 2 && y < 2 ? 5 : 0;
    return SUCCESS;
}

EXPORT int nvmlDeviceGetTopologyCommonAncestor(fake_gpu *a, fake_gpu *b, unsigned *level)
{
    *level = number_of(a) / 2 == number_of(b) / 2 ? 10 : 50;
    return SUCCESS;
}
