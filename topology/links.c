/* topology/links.c - what follows by rule from a kind's links: NVLink generation, hidden switches, bandwidths.
 *
 * Generation: from the source, else from the GPU's name or compute capability, else from the number of links, which is
 * marked as assumed. Direct or switched: the links that a row lists, added up, are those of one GPU only when they are
 * direct. When the sum is more than a GPU of that model has (18 for an unknown one), they go into a switch, and each
 * cell counts the links of one GPU; a link that is down or a GPU that is lost does not change that. Else they
 * join the pair alone. A bandwidth is links times the constant of one link; on PCI classes that of the slower PCIe
 * link, over the socket that of the socket's link when it is smaller.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "model.h"

#include <string.h>

enum { MOST_LINKS = 18 };

typedef struct shape {
    int most;   /* links on one pair */
    int total;  /* links of one GPU, if they are direct */
    int linked; /* pairs with NVLink */
} shape;

static kith_link *cell(kith_node_kind *kind, int i, int j)
{
    return (kith_link *)(uintptr_t)&kind->links[i * kind->gpu_count + j];
}

static shape look(kith_node_kind *kind)
{
    shape s = { 0 };
    for (int i = 0; i < kind->gpu_count; i++) {
        int total = 0;
        for (int j = 0; j < kind->gpu_count; j++) {
            const kith_link *link = cell(kind, i, j);
            if (link->type != KITH_LINK_NVLINK)
                continue;
            s.linked += j > i;
            s.most = link->count > s.most ? link->count : s.most;
            total += link->count;
        }
        s.total = total > s.total ? total : s.total;
    }
    return s;
}

/* How many links a GPU of this kind has at most. */
static int most_links(const kith_topology *t, const kith_node_kind *kind)
{
    const ki_gpu_model *model = ki_gpu_model_find(kind->gpus[0].name, kind->gpus[0].compute_capability);
    if (model == NULL && t->options.gpu != NULL)
        model = ki_gpu_model_find(t->options.gpu, 0);
    return model != NULL && model->nvlink_count > 0 ? model->nvlink_count : MOST_LINKS;
}

/* The number of links alone: 18 Hopper, 12 and 8 Ampere, 4 a bridge or Ampere's four-GPU board, else older. */
static int generation_by_count(const shape *s, bool is_switched, bool *is_bridge)
{
    int links = is_switched ? s->most : s->total;
    *is_bridge = links == 4 && s->most == 4; /* one bridge joins two GPUs */
    if (links > 12)
        return 4;
    if (links > 6 || *is_bridge)
        return 3;
    return s->most == 1 && s->total <= 4 ? 1 : 2;
}

static int nvlink_generation(kith_topology *t, int k, const shape *s, bool is_switched, bool *is_bridge)
{
    kith_node_kind *kind = &t->kinds[k]->view;
    const char *said = t->options.gpu;
    for (int i = 0; i < kind->gpu_count; i++) {
        const kith_gpu *gpu = &kind->gpus[i];
        const ki_gpu_model *model = ki_gpu_model_find(gpu->name, gpu->compute_capability);
        if (model == NULL && said != NULL)
            model = ki_gpu_model_find(said, 0);
        if (model == NULL || model->nvlink_generation == 0)
            continue;
        *is_bridge = model->is_bridge;
        return model->nvlink_generation;
    }
    int generation = generation_by_count(s, is_switched, is_bridge);
    ki_topology_doubt(t, k, -1, t->kinds[k]->file, 0, "nvlink-generation",
                      "the source does not say which GPUs these are; from the number of links (NV%d) NVLink %d is "
                      "assumed%s; --gpu NAME tells",
                      s->most, generation,
                      generation == 4 && s->most == 18 ? " (NVLink 5 would be twice as fast)" : "");
    return generation;
}

static void derive_nvlink(kith_topology *t, int k)
{
    ki_kind *kind = t->kinds[k];
    shape s = look(&kind->view);
    if (s.linked == 0)
        return;
    bool is_switched = kind->view.has_nvswitch || s.total > most_links(t, &kind->view);
    bool is_bridge = false;
    int given = 0;
    for (int i = 0; i < kind->view.gpu_count * kind->view.gpu_count; i++)
        if (kind->view.links[i].generation > given && kind->view.links[i].type == KITH_LINK_NVLINK)
            given = kind->view.links[i].generation;
    int generation = given > 0 ? given : nvlink_generation(t, k, &s, is_switched, &is_bridge);
    const ki_gpu_model *model = ki_gpu_model_find(kind->view.gpus[0].name, kind->view.gpus[0].compute_capability);
    if (given == 3 && model != NULL)
        is_bridge = model->is_bridge;
    const kith_constant *one = ki_constant(t, ki_nvlink_key(generation, is_bridge));
    double gbps = kind->nvlink_gbps > 0 ? kind->nvlink_gbps : one != NULL ? one->effective_gbps : 0;
    kind->view.has_nvswitch = is_switched;
    for (int i = 0; i < kind->view.gpu_count; i++) {
        kith_gpu *gpu = (kith_gpu *)(uintptr_t)&kind->view.gpus[i];
        int links = 0;
        for (int j = 0; j < kind->view.gpu_count; j++) {
            kith_link *link = cell(&kind->view, i, j);
            if (link->type != KITH_LINK_NVLINK)
                continue;
            if (link->generation == 0)
                link->generation = generation;
            link->is_switched = is_switched;
            if (link->gbps <= 0)
                link->gbps = link->count * gbps;
            links = is_switched ? (link->count > links ? link->count : links) : links + link->count;
        }
        if (gpu->link_count < 0)
            gpu->link_count = links;
    }
}

static void derive_xgmi(kith_topology *t, kith_node_kind *kind)
{
    double one = ki_constant_gbps(t, "xgmi");
    for (int i = 0; i < kind->gpu_count * kind->gpu_count; i++) {
        kith_link *link = (kith_link *)(uintptr_t)&kind->links[i];
        if (link->type == KITH_LINK_XGMI && link->gbps <= 0)
            link->gbps = (link->count > 0 ? link->count : 1) * one;
    }
}

/* PCIe of each GPU: from the source, else from the GPU's name or its NVLink, else generation 4. */
static void derive_pcie(kith_topology *t, int k)
{
    static const int by_nvlink[] = { 4, 3, 3, 4, 5, 5 };
    kith_node_kind *kind = &t->kinds[k]->view;
    bool is_assumed = false;
    for (int i = 0; i < kind->gpu_count; i++) {
        kith_gpu *gpu = (kith_gpu *)(uintptr_t)&kind->gpus[i];
        if (gpu->pcie_gbps > 0)
            continue;
        if (gpu->pcie_generation > 0 && gpu->pcie_width > 0) {
            gpu->pcie_gbps = ki_pcie_gbps(t, gpu->pcie_generation, gpu->pcie_width);
            continue;
        }
        int nvlink = 0;
        for (int j = 0; j < kind->gpu_count; j++)
            if (cell(kind, i, j)->type == KITH_LINK_NVLINK)
                nvlink = cell(kind, i, j)->generation;
        const ki_gpu_model *model = ki_gpu_model_find(gpu->name, gpu->compute_capability);
        if (model == NULL && t->options.gpu != NULL)
            model = ki_gpu_model_find(t->options.gpu, 0);
        int generation = model != NULL ? model->pcie_generation : by_nvlink[nvlink >= 0 && nvlink <= 5 ? nvlink : 0];
        gpu->pcie_gbps = ki_pcie_gbps(t, generation, 16);
        is_assumed = true;
    }
    if (is_assumed)
        ki_topology_doubt(t, k, -1, t->kinds[k]->file, 0, "pcie-assumed",
                          "the source gives no PCIe link of the GPUs; %.0f GB/s is assumed for costs",
                          kind->gpus[0].pcie_gbps);
}

static const char *socket_key(const kith_node_kind *kind)
{
    static const struct {
        const char *vendor, *key;
    } keys[] = { { "intel", "socket-intel" },
                 { "amd", "socket-amd" },
                 { "arm", "socket-arm" },
                 { "ibm", "socket-power9" },
                 { "zhaoxin", "socket-zhaoxin" } };
    for (size_t i = 0; kind->cpu_vendor != NULL && i < sizeof keys / sizeof keys[0]; i++)
        if (strcmp(keys[i].vendor, kind->cpu_vendor) == 0)
            return keys[i].key;
    return "socket-unknown";
}

static void derive_pci_classes(kith_topology *t, int k)
{
    kith_node_kind *kind = &t->kinds[k]->view;
    if (kind->socket_gbps <= 0) {
        kind->socket_gbps = ki_constant_gbps(t, socket_key(kind));
        kind->socket_certainty = KITH_ASSUMED;
    }
    for (int i = 0; i < kind->gpu_count; i++)
        for (int j = 0; j < kind->gpu_count; j++) {
            kith_link *link = cell(kind, i, j);
            if (link->type < KITH_LINK_SYS || link->type > KITH_LINK_BOARD || link->gbps > 0)
                continue;
            double a = kind->gpus[i].pcie_gbps, b = kind->gpus[j].pcie_gbps;
            link->gbps = a < b ? a : b;
            if (link->type == KITH_LINK_SYS && kind->socket_gbps < link->gbps)
                link->gbps = kind->socket_gbps;
        }
}

static void derive_nics(kith_topology *t, int k)
{
    kith_node_kind *kind = &t->kinds[k]->view;
    for (int n = 0; n < kind->nic_count; n++) {
        kith_nic *nic = (kith_nic *)(uintptr_t)&kind->nics[n];
        if (nic->gbps <= 0) {
            nic->gbps = ki_constant_gbps(t, "net-unknown");
            nic->gbps_certainty = KITH_ASSUMED;
        }
        for (int g = 0; g < kind->gpu_count; g++) {
            kith_link *link = (kith_link *)(uintptr_t)&kind->nic_links[g * kind->nic_count + n];
            if (link->gbps > 0)
                continue;
            link->gbps = nic->gbps < kind->gpus[g].pcie_gbps ? nic->gbps : kind->gpus[g].pcie_gbps;
            if (link->type == KITH_LINK_SYS && kind->socket_gbps < link->gbps)
                link->gbps = kind->socket_gbps;
        }
    }
}

void ki_kind_derive_links(kith_topology *t, int k)
{
    kith_node_kind *kind = &t->kinds[k]->view;
    if (kind->gpu_count == 0)
        return;
    derive_nvlink(t, k);
    derive_xgmi(t, kind);
    derive_pcie(t, k);
    derive_pci_classes(t, k);
    derive_nics(t, k);
}
