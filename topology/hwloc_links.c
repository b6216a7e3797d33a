/* topology/hwloc_links.c - NVLink and xGMI out of hwloc's matrices.
 *
 * hwloc tells megabytes a second of a pair, and what it takes one NVLink for depends on its version: 2.9.0 has 50000
 * for what NVML calls 3 and 4 (NVLink 2.2 and 3), later versions 25000; NVLink 1 is 20000, NVLink 5 50000. So the
 * matrix gives the shape and the number of links, and bandwidths come from the table of constants. The number must be
 * whole and not above what the GPU's model has; this decides where the version does not.
 *
 * The matrix is only read here. hwloc's own transforms write into it, and the transitive closure of a matrix without
 * NVSwitch ends with zeros. GPUs with links into switches reach each other with as many links as the weaker of them
 * has, also when their switches are different ones (the two boards of a DGX-2, whose trunks hwloc does not see). CPUs
 * in the matrix (POWER) join no GPUs.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "hwloc_kind.h"

#include <hwloc/distances.h>
#include <string.h>

enum { MOST_LINKS = 64, MOST_OF_A_GPU = 18, XGMI_MBPS = 100000 };

typedef struct matrix {
    uint64_t *between;     /* [gpus * gpus], MB/s */
    uint64_t *into_switch; /* [gpus], MB/s */
    uint64_t *total;       /* [gpus], CPUs included */
} matrix;

static bool is_nvswitch(hwloc_obj_t obj)
{
    return obj->type == HWLOC_OBJ_PCI_DEVICE &&
           ((obj->subtype != NULL && strcmp(obj->subtype, "NVSwitch") == 0) ||
            (obj->attr->pcidev.vendor_id == KI_VENDOR_NVIDIA && obj->attr->pcidev.class_id == KI_PCI_NVSWITCH));
}

/* Position of the GPU that an object of the matrix is; -1: it is none. */
static int gpu_of(const ki_hwloc *h, hwloc_obj_t obj)
{
    for (int i = 0; obj != NULL && i < h->gpu_count; i++) {
        const ki_hwloc_device *gpu = &h->gpus[i];
        if (gpu->os == obj || gpu->pci == obj || (gpu->pci != NULL && obj->parent == gpu->pci))
            return i;
    }
    return -1;
}

static matrix new_matrix(ki_hwloc *h)
{
    size_t n = (size_t)h->gpu_count;
    matrix m = { .between = (uint64_t *)ki_topology_alloc(h->t, n * n + 1, sizeof(uint64_t)),
                 .into_switch = (uint64_t *)ki_topology_alloc(h->t, n + 1, sizeof(uint64_t)),
                 .total = (uint64_t *)ki_topology_alloc(h->t, n + 1, sizeof(uint64_t)) };
    return m;
}

/* Copies what is of GPUs out of hwloc's matrix. False: a value cannot be. */
static bool copy_matrix(ki_hwloc *h, const struct hwloc_distances_s *d, matrix *m)
{
    for (unsigned i = 0; i < d->nbobjs; i++) {
        int gpu = gpu_of(h, d->objs[i]);
        for (unsigned j = 0; gpu >= 0 && j < d->nbobjs; j++) {
            uint64_t mbps = d->values[(size_t)i * d->nbobjs + j];
            int peer = gpu_of(h, d->objs[j]);
            if (peer == gpu || mbps == 0 || d->objs[j] == NULL)
                continue;
            if (mbps > 5000000)
                return false;
            m->total[gpu] += mbps;
            if (peer >= 0)
                m->between[gpu * h->gpu_count + peer] = mbps;
            else if (is_nvswitch(d->objs[j]))
                m->into_switch[gpu] += mbps;
        }
    }
    return true;
}

static struct hwloc_distances_s *find_matrix(ki_hwloc *h, const char *name)
{
    unsigned count = 1;
    struct hwloc_distances_s *found = NULL;
    if (hwloc_distances_get_by_name(h->hw, name, &count, &found, 0) != 0 || count == 0)
        return NULL;
    return found;
}

/* ---- what one NVLink is ---- */

/* hwloc 2.9.0 and older; false also for what is no version number ("PR-436-..."). */
static bool is_old(const char *version)
{
    int major = 0, minor = 0, patch = 0;
    if (version == NULL || sscanf(version, "%d.%d.%d", &major, &minor, &patch) < 2)
        return false;
    return major < 2 || (major == 2 && (minor < 9 || (minor == 9 && patch == 0)));
}

static uint64_t by_rule(int generation, bool is_old_version)
{
    if (generation == 1)
        return 20000;
    return generation == 5 || (generation >= 3 && is_old_version) ? 50000 : 25000;
}

/* Does every value come out as a whole number of links, and no GPU with more than it has? */
static bool fits(const ki_hwloc *h, const matrix *m, uint64_t one, int most)
{
    for (int i = 0; i < h->gpu_count; i++) {
        if (m->total[i] / one > (uint64_t)most || m->into_switch[i] % one != 0)
            return false;
        for (int j = 0; j < h->gpu_count; j++)
            if (m->between[i * h->gpu_count + j] % one != 0)
                return false;
    }
    return true;
}

static uint64_t one_link(ki_hwloc *h, const matrix *m)
{
    const char *version = hwloc_obj_get_info_by_name(hwloc_get_root_obj(h->hw), "hwlocVersion");
    const ki_gpu_model *model = ki_gpu_model_find(h->kind->view.gpus[0].name, 0);
    int generation = model != NULL ? model->nvlink_generation : 0;
    int most = model != NULL && model->nvlink_count > 0 ? model->nvlink_count : MOST_OF_A_GPU;
    const uint64_t rule = by_rule(generation, is_old(version));
    const uint64_t candidates[] = { rule, 25000, 50000, 20000 };
    for (size_t i = 0; i < sizeof candidates / sizeof candidates[0]; i++) {
        if (!fits(h, m, candidates[i], most))
            continue;
        if (candidates[i] != rule || model == NULL)
            ki_topology_doubt(h->t, ki_kind_index(h->t, h->kind), -1, h->kind->file, 0, "nvlink-count",
                              "hwloc %s tells bandwidth, not links; %u MB/s are taken for one link%s",
                              version != NULL ? version : "(unknown version)", (unsigned)candidates[i],
                              model == NULL ? " though the GPU's model is unknown" : "");
        return candidates[i];
    }
    ki_topology_doubt(h->t, ki_kind_index(h->t, h->kind), -1, h->kind->file, 0, "nvlink-count",
                      "the NVLink bandwidths of hwloc %s are no whole number of links; %u MB/s are taken for one",
                      version != NULL ? version : "(unknown version)", (unsigned)rule);
    return rule;
}

/* ---- links ---- */

/* The weaker of both directions. */
static int pair_count(ki_hwloc *h, const matrix *m, int i, int j, uint64_t one)
{
    uint64_t there = m->between[i * h->gpu_count + j], back = m->between[j * h->gpu_count + i];
    if (there != back)
        ki_topology_doubt(h->t, ki_kind_index(h->t, h->kind), i, h->kind->file, 0, "asymmetric",
                          "hwloc has %u MB/s from GPU%d to GPU%d and %u back; the weaker counts", (unsigned)there,
                          h->kind->view.gpus[i].index, h->kind->view.gpus[j].index, (unsigned)back);
    uint64_t weaker = there < back ? there : back;
    return weaker > 0 && weaker < one ? 1 : (int)(weaker / one);
}

static void set_nvlinks(ki_hwloc *h, const matrix *m, uint64_t one)
{
    for (int i = 0; i < h->gpu_count; i++) {
        ((kith_gpu *)(uintptr_t)&h->kind->view.gpus[i])->link_count = (int)(m->total[i] / one);
        for (int j = 0; j < i; j++) {
            uint64_t a = m->into_switch[i], b = m->into_switch[j];
            int through = (int)((a < b ? a : b) / one), direct = pair_count(h, m, i, j, one);
            if (through > 0)
                h->kind->view.has_nvswitch = true;
            if (through > 0 || direct > 0)
                ki_kind_set_link(h->kind, i, j, KITH_LINK_NVLINK, through > 0 ? through : direct, KITH_KNOWN);
        }
    }
}

static bool read_nvlink(ki_hwloc *h)
{
    struct hwloc_distances_s *d = find_matrix(h, "NVLinkBandwidth");
    if (d == NULL)
        return false;
    matrix m = new_matrix(h);
    bool is_good = h->t->status == KITH_OK && copy_matrix(h, d, &m);
    hwloc_distances_release(h->hw, d);
    if (!is_good) {
        ki_topology_set_status(
            h->t,
            ki_fail_quiet(KITH_ERR_INVALID_ARG, "%s: NVLinkBandwidth has a value above 5000000 MB/s", h->kind->file));
        return false;
    }
    uint64_t one = one_link(h, &m);
    set_nvlinks(h, &m, one);
    h->kind->view.source =
        ki_topology_format(h->t, "%s, NVLinks counted as %u MB/s each", h->kind->view.source, (unsigned)one);
    return true;
}

/* Pairs that are several hops apart have no link of their own. */
static bool read_xgmi(ki_hwloc *h)
{
    struct hwloc_distances_s *d = find_matrix(h, "XGMIBandwidth"), *hops = find_matrix(h, "XGMIHops");
    if (d == NULL) {
        if (hops != NULL)
            hwloc_distances_release(h->hw, hops);
        return false;
    }
    matrix m = new_matrix(h), far = new_matrix(h);
    bool is_good = h->t->status == KITH_OK && copy_matrix(h, d, &m) && (hops == NULL || copy_matrix(h, hops, &far));
    hwloc_distances_release(h->hw, d);
    if (hops != NULL)
        hwloc_distances_release(h->hw, hops);
    if (!is_good) {
        ki_topology_set_status(h->t, ki_fail_quiet(KITH_ERR_INVALID_ARG,
                                                   "%s: XGMIBandwidth has a value above 5000000 MB/s", h->kind->file));
        return false;
    }
    for (int i = 0; i < h->gpu_count; i++) {
        int links = 0;
        for (int j = 0; j < h->gpu_count; j++) {
            int count = j < i ? pair_count(h, &m, i, j, XGMI_MBPS) : 0;
            if (count > 0 && far.between[i * h->gpu_count + j] <= 1)
                ki_kind_set_link(h->kind, i, j, KITH_LINK_XGMI, count, KITH_KNOWN);
        }
        for (int j = 0; j < h->gpu_count; j++)
            if (m.between[i * h->gpu_count + j] > 0 && far.between[i * h->gpu_count + j] <= 1)
                links += (int)((m.between[i * h->gpu_count + j] + XGMI_MBPS - 1) / XGMI_MBPS);
        ((kith_gpu *)(uintptr_t)&h->kind->view.gpus[i])->link_count = links;
    }
    return true;
}

/* Without a matrix: none when all GPUs are of models that have no NVLink, else unknown. */
static kith_certainty without_matrix(const ki_hwloc *h)
{
    bool is_none = h->gpu_count > 0;
    for (int i = 0; h->gpu_count > 1 && i < h->gpu_count; i++) {
        const ki_gpu_model *model = ki_gpu_model_find(h->kind->view.gpus[i].name, 0);
        is_none = is_none && model != NULL && model->nvlink_generation == 0 && h->gpus[i].vendor == KI_VENDOR_NVIDIA;
    }
    return is_none ? KITH_KNOWN : KITH_UNKNOWN;
}

void ki_hwloc_links(ki_hwloc *h)
{
    if (h->gpu_count == 0)
        return;
    bool has_nvlink = read_nvlink(h), has_xgmi = h->t->status == KITH_OK && read_xgmi(h);
    h->kind->view.nvlink = has_nvlink || has_xgmi ? KITH_KNOWN : without_matrix(h);
    if (h->kind->view.nvlink == KITH_UNKNOWN && !h->is_live)
        ki_topology_doubt(
            h->t, ki_kind_index(h->t, h->kind), -1, h->kind->file, 0, "nvlink-unknown",
            "hwloc wrote no matrix of NVLink or xGMI: it had no NVML or RSMI, or did not know the version "
            "of the links; that there are none is not said");
}
