/* topology/nvml_kind.c - puts what NVML said into a kind: GPUs by PCI address, NVLinks by pair.
 *
 * That a link is up says nothing about where to; only the peer's address decides which pair it joins. Links into
 * NVSwitch join a GPU with all others that have such links. A pair whose NVLinks are up but where the driver refuses
 * peer-to-peer keeps its PCI class, so that nothing is placed on a broken pair; so do parents of MIG instances.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "nvml.h"

#include "hardware.h"
#include "sets.h"
#include <stdio.h>
#include <string.h>

enum { FABRIC_UP = 3, P2P_UNKNOWN = 6 };

typedef struct merger {
    kith_topology *t;
    ki_kind *kind;
    const ki_nvml *nvml;
    int k;
    int from[KI_MAX_GPUS]; /* position in nvml->gpus of each GPU of the kind; -1: none */
    int into_switch[KI_MAX_GPUS];
    int *direct; /* [gpus * gpus] */
    int hidden;  /* GPUs with links whose peer the driver hides */
} merger;

static kith_gpu *gpu_at(const merger *m, int i)
{
    return (kith_gpu *)(uintptr_t)&m->kind->view.gpus[i];
}

static const ki_nvml_gpu *source_of(const merger *m, int i)
{
    return m->from[i] >= 0 ? &m->nvml->gpus[m->from[i]] : NULL;
}

int ki_nvml_find(const ki_nvml *nvml, const kith_gpu *gpu)
{
    for (int i = 0; i < nvml->gpu_count; i++)
        if (ki_pci_is_same_device(&nvml->gpus[i].pci, &gpu->pci))
            return i;
    bool is_other = gpu->vendor != NULL && strcmp(gpu->vendor, "nvidia") != 0;
    bool has_index = !is_other && gpu->index >= 0 && gpu->index < nvml->gpu_count;
    return has_index && !(nvml->gpus[gpu->index].pci.is_known && gpu->pci.is_known) ? gpu->index : -1;
}

/* ---- each GPU ---- */

/* NVML's NUMA nodes count, where PCI's are wrong (chip-to-chip links); but only nodes with CPUs. */
static void set_numas(merger *m, kith_gpu *gpu, int i, const char *numas)
{
    ki_cpuset set, places = { NULL, 0 };
    char text[512], first[512];
    if (numas == NULL || !ki_cpuset_parse(numas, &set))
        return;
    for (int n = 0; n < m->kind->view.numa_count; n++) {
        const kith_numa *numa = &m->kind->view.numas[n];
        if (ki_cpuset_has(&set, numa->os_index) && !numa->is_gpu_memory &&
            (numa->cpus == NULL || numa->cpus[0] != '\0'))
            ki_cpuset_add(&places, numa->os_index);
    }
    ki_cpuset_text(places.count > 0 || m->kind->view.numa_count > 0 ? &places : &set, text, sizeof text);
    ki_cpuset_fini(&set);
    ki_cpuset_fini(&places);
    snprintf(first, sizeof first, "%s", gpu->numa_text != NULL ? gpu->numa_text : text);
    if (text[0] == '\0' || (gpu->numa_text != NULL && strcmp(text, first) == 0))
        return;
    ki_gpu_set_numas(m->t, gpu, text, "nvml");
    if (strcmp(text, first) != 0)
        ki_topology_doubt(m->t, m->k, i, NULL, 0, "numa-differs",
                          "GPU%d is near NUMA node %s by NVML and %s by the PCI bus; NVML's is used", gpu->index, text,
                          first);
}

static void set_memory_numa(merger *m, kith_gpu *gpu, int i, int os_index)
{
    for (int n = 0; n < m->kind->view.numa_count && os_index >= 0; n++) {
        kith_numa *numa = (kith_numa *)(uintptr_t)&m->kind->view.numas[n];
        bool has_cpus = numa->cpus == NULL || numa->cpus[0] != '\0';
        if (numa->os_index != os_index || has_cpus)
            continue;
        numa->is_gpu_memory = true;
        numa->gpu = i;
        gpu->memory_numa = os_index;
    }
}

static void set_bad(merger *m, kith_gpu *gpu, int i, const ki_nvml_gpu *source)
{
    char pci[24];
    kith_pci_text(&gpu->pci, pci, sizeof pci);
    if (source->state == KI_NVML_LOST) {
        gpu->is_lost = true;
        ki_topology_doubt(m->t, m->k, i, NULL, 0, "gpu-lost",
                          "GPU%d (%s) does not answer: %s; its NVLinks are unknown and nothing is placed on it",
                          gpu->index, pci, source->why);
    } else {
        gpu->is_allowed = false;
        ki_topology_doubt(m->t, m->k, i, NULL, 0, "gpu-hidden", "GPU%d (%s) is not for this process: %s", gpu->index,
                          pci, source->why);
    }
}

static void set_fabric(merger *m, kith_gpu *gpu, int i, const ki_nvml_gpu *source)
{
    if (!source->has_fabric)
        return;
    if (source->fabric_state == FABRIC_UP && source->fabric_status == 0)
        gpu->fabric = KITH_KNOWN;
    else
        ki_topology_doubt(
            m->t, m->k, i, NULL, 0, "fabric-down",
            "GPU%d: the NVLink fabric is not up (state %d of 3, status %d); is the fabric manager running, "
            "and is NVSwitch given to another virtual machine?",
            gpu->index, source->fabric_state, source->fabric_status);
}

static void set_gpu(merger *m, int i)
{
    kith_gpu *gpu = gpu_at(m, i);
    const ki_nvml_gpu *source = source_of(m, i);
    if (source == NULL)
        return;
    gpu->vendor = "nvidia";
    gpu->name = source->name != NULL ? source->name : gpu->name;
    gpu->uuid = source->uuid != NULL ? source->uuid : gpu->uuid;
    gpu->pci = gpu->pci.is_known ? gpu->pci : source->pci;
    if (source->state != KI_NVML_FINE) {
        set_bad(m, gpu, i, source);
        return;
    }
    gpu->compute_capability = source->compute_capability;
    gpu->memory_nbytes = source->memory_nbytes;
    gpu->is_mig = source->is_mig;
    gpu->cpus = source->cpus != NULL ? source->cpus : gpu->cpus;
    if (gpu->pcie_generation == 0) {
        gpu->pcie_generation = source->pcie_generation;
        gpu->pcie_width = source->pcie_width;
    }
    set_numas(m, gpu, i, source->numas);
    set_memory_numa(m, gpu, i, source->memory_numa);
    set_fabric(m, gpu, i, source);
}

/* Shown by PCI, unknown to NVML: another process's by a container, or without NVIDIA's driver. */
static void hide_gpu(merger *m, int i)
{
    kith_gpu *gpu = gpu_at(m, i);
    char pci[24];
    if (m->from[i] >= 0 || gpu->vendor == NULL || strcmp(gpu->vendor, "nvidia") != 0)
        return;
    gpu->is_allowed = false;
    ki_topology_doubt(m->t, m->k, i, NULL, 0, "gpu-hidden",
                      "GPU%d (%s) is on the PCI bus, but NVML does not show it: hidden from this process, or without "
                      "driver",
                      gpu->index, kith_pci_text(&gpu->pci, pci, sizeof pci));
}

/* ---- links ---- */

static int find_address(const merger *m, const kith_pci_address *address)
{
    for (int i = 0; i < m->kind->view.gpu_count; i++)
        if (ki_pci_is_same_device(&m->kind->view.gpus[i].pci, address))
            return i;
    return -1;
}

static void count_link(merger *m, int i, const ki_nvml_link *link)
{
    int peer = find_address(m, &link->remote);
    if (link->peer == KI_NVML_PEER_SWITCH || link->peer == KI_NVML_PEER_HIDDEN) {
        m->into_switch[i]++;
        m->hidden += link->peer == KI_NVML_PEER_HIDDEN;
    } else if (peer >= 0 && peer != i)
        m->direct[i * m->kind->view.gpu_count + peer]++;
    else if (peer < 0 && link->peer == KI_NVML_PEER_UNKNOWN && link->remote.is_known)
        m->into_switch[i]++; /* NVIDIA's, and no GPU */
}

static void count_links(merger *m)
{
    for (int i = 0; i < m->kind->view.gpu_count; i++) {
        const ki_nvml_gpu *source = source_of(m, i);
        if (source == NULL || source->state != KI_NVML_FINE)
            continue;
        gpu_at(m, i)->link_count = source->link_count;
        for (int l = 0; l < source->link_count; l++)
            count_link(m, i, &source->links[l]);
    }
}

static int generation_of(const merger *m, int i)
{
    const ki_nvml_gpu *source = source_of(m, i);
    const ki_gpu_model *model = ki_gpu_model_find(gpu_at(m, i)->name, gpu_at(m, i)->compute_capability);
    if (model != NULL && model->nvlink_generation > 0)
        return model->nvlink_generation;
    return source->link_count > 0 ? source->links[0].generation : 0;
}

static bool is_p2p_broken(merger *m, int i, int j)
{
    int there = m->nvml->p2p[m->from[i] * m->nvml->gpu_count + m->from[j]];
    if (there <= 0 || there == P2P_UNKNOWN)
        return false;
    ki_topology_doubt(m->t, m->k, i, NULL, 0, "p2p-broken",
                      "GPU%d and GPU%d have NVLinks that are up, but the driver refuses peer-to-peer (status %d); the "
                      "pair counts as without NVLink",
                      gpu_at(m, i)->index, gpu_at(m, j)->index, there);
    return true;
}

/* Links of a pair, and are they through a switch. 0: none. */
static int pair_count(merger *m, int i, int j, bool *is_switched)
{
    int a = m->into_switch[i], b = m->into_switch[j], n = m->kind->view.gpu_count;
    *is_switched = a > 0 && b > 0;
    if (*is_switched)
        return a < b ? a : b;
    int there = m->direct[i * n + j], back = m->direct[j * n + i];
    if (there != back)
        ki_topology_doubt(m->t, m->k, i, NULL, 0, "asymmetric",
                          "GPU%d has %d links to GPU%d, which has %d back; the weaker counts", gpu_at(m, i)->index,
                          there, gpu_at(m, j)->index, back);
    return there < back ? there : back;
}

static void set_pair(merger *m, int i, int j)
{
    bool is_switched = false;
    const kith_gpu *a = gpu_at(m, i), *b = gpu_at(m, j);
    if (a->is_lost || b->is_lost) {
        ki_kind_set_link(m->kind, i, j, KITH_LINK_UNKNOWN, 0, KITH_UNKNOWN);
        return;
    }
    int count = pair_count(m, i, j, &is_switched);
    if (count == 0 || a->is_mig || b->is_mig || is_p2p_broken(m, i, j))
        return;
    ki_kind_set_link(m->kind, i, j, KITH_LINK_NVLINK, count, is_switched && m->hidden > 0 ? KITH_ASSUMED : KITH_KNOWN);
    int generation = generation_of(m, i);
    ki_kind_link(m->kind, i, j)->generation = ki_kind_link(m->kind, j, i)->generation = generation;
    m->kind->view.has_nvswitch = m->kind->view.has_nvswitch || is_switched;
}

/* Where hwloc has no PCI path, NVML's level is the class. */
static void set_level(merger *m, int i, int j)
{
    static const kith_link_type levels[] = { KITH_LINK_BOARD, KITH_LINK_PIX,  KITH_LINK_PXB,
                                             KITH_LINK_PHB,   KITH_LINK_NODE, KITH_LINK_SYS };
    if (ki_kind_link(m->kind, i, j)->certainty == KITH_KNOWN)
        return;
    int level = m->nvml->level[m->from[i] * m->nvml->gpu_count + m->from[j]];
    if (level < 0 || level % 10 != 0 || level / 10 > 5)
        return;
    ki_kind_set_link(m->kind, i, j, levels[level / 10], 0, KITH_KNOWN);
}

static void set_links(merger *m)
{
    for (int i = 0; i < m->kind->view.gpu_count; i++)
        for (int j = 0; j < i; j++)
            if (m->from[i] >= 0 && m->from[j] >= 0) {
                set_level(m, i, j);
                set_pair(m, i, j);
            }
    m->kind->view.nvlink = m->hidden > 0 ? KITH_ASSUMED : KITH_KNOWN;
    if (m->hidden > 0)
        ki_topology_doubt(m->t, m->k, -1, NULL, 0, "nvswitch-hidden",
                          "the peers of NVLinks are hidden from this virtual machine (fffffff:ffff:ff); taken for "
                          "NVSwitch, as NCCL does");
}

static void doubt_mig(merger *m)
{
    int count = 0, first = -1;
    for (int i = 0; i < m->kind->view.gpu_count; i++)
        if (m->kind->view.gpus[i].is_mig) {
            first = count++ == 0 ? i : first;
        }
    if (count > 0)
        ki_topology_doubt(m->t, m->k, first, NULL, 0, "mig-parent",
                          "%d GPUs (the first is GPU%d) are split by MIG: no NVLink and no peer-to-peer with them",
                          count, gpu_at(m, first)->index);
}

/* ---- domain ---- */

static bool has_cluster(const ki_nvml_gpu *gpu)
{
    static const unsigned char none[16];
    return gpu != NULL && gpu->state == KI_NVML_FINE && gpu->has_fabric && gpu->fabric_state == FABRIC_UP &&
           memcmp(gpu->cluster, none, sizeof none) != 0;
}

/* An NVLink domain over several nodes has a cluster's UUID; a single HGX board has zeros. */
static void add_domain(merger *m)
{
    const ki_nvml_gpu *gpu = NULL;
    int g = 0;
    for (; g < m->kind->view.gpu_count && !has_cluster(gpu); g++)
        gpu = source_of(m, g);
    if (!has_cluster(gpu))
        return;
    const unsigned char *u = gpu->cluster;
    const char *name = ki_topology_format(
        m->t, "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x.%u", u[0], u[1], u[2], u[3], u[4],
        u[5], u[6], u[7], u[8], u[9], u[10], u[11], u[12], u[13], u[14], u[15], gpu->clique);
    kith_domain *domain = ki_topology_add_domain(m->t, name, true);
    domain->gbps = gpu->link_count * ki_constant_gbps(m->t, ki_nvlink_key(generation_of(m, g - 1), false));
}

void ki_nvml_describe(kith_topology *t, ki_kind *kind, const ki_nvml *nvml)
{
    size_t n = (size_t)kind->view.gpu_count;
    merger *m = (merger *)ki_topology_alloc(t, 1, sizeof *m);
    int *direct = (int *)ki_topology_alloc(t, n * n + 1, sizeof *direct);
    if (m == NULL || direct == NULL || nvml->gpu_count == 0)
        return;
    *m = (merger){ .t = t, .kind = kind, .nvml = nvml, .k = ki_kind_index(t, kind), .direct = direct };
    for (int i = 0; i < kind->view.gpu_count; i++)
        m->from[i] = ki_nvml_find(nvml, &kind->view.gpus[i]);
    for (int i = 0; i < kind->view.gpu_count; i++) {
        set_gpu(m, i);
        hide_gpu(m, i);
    }
    count_links(m);
    set_links(m);
    doubt_mig(m);
    add_domain(m);
}
