/* topology/lint.c - looks a finished machine through for what is odd: each finding is a doubt with a stable code.
 *
 * Readers report what only they can see (a damaged line, a hidden switch); here stands what the model shows, unless the
 * reader has told it already, and better. Each check is a function over one kind of node.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "model.h"

#include "sets.h"
#include <stdio.h>
#include <string.h>

static const kith_link *cell(const kith_node_kind *kind, int i, int j)
{
    return &kind->links[i * kind->gpu_count + j];
}

static int nvlinks(const kith_node_kind *kind, int g)
{
    int most = 0, total = 0;
    for (int j = 0; j < kind->gpu_count; j++)
        if (cell(kind, g, j)->type == KITH_LINK_NVLINK) {
            int count = cell(kind, g, j)->count;
            total += count;
            most = count > most ? count : most;
        }
    return kind->has_nvswitch ? most : total;
}

/* Has a reader said so? gpu -1: about any. */
static bool is_told(const kith_topology *t, int k, int gpu, const char *code)
{
    for (int i = 0; i < t->doubt_count; i++) {
        const kith_doubt *doubt = &t->doubts[i];
        if (doubt->kind == k && (gpu < 0 || doubt->gpu == gpu) && strcmp(doubt->code, code) == 0)
            return true;
    }
    return false;
}

static bool has_nvlink(const kith_node_kind *kind, int g)
{
    for (int j = 0; j < kind->gpu_count; j++)
        if (cell(kind, g, j)->type == KITH_LINK_NVLINK)
            return true;
    return false;
}

static void lint_lost(kith_topology *t, int k, const kith_node_kind *kind)
{
    bool is_mig_told = is_told(t, k, -1, "mig-parent");
    for (int g = 0; g < kind->gpu_count; g++) {
        if (kind->gpus[g].is_lost && !is_told(t, k, g, "gpu-lost"))
            ki_topology_doubt(t, k, g, kind->name, 0, "gpu-lost",
                              "GPU %d is there and does not answer; it is planned around", kind->gpus[g].index);
        if (kind->gpus[g].is_mig && !is_mig_told)
            ki_topology_doubt(t, k, g, kind->name, 0, "mig-parent",
                              "GPU %d is split into MIG instances: no NVLink and no peer-to-peer on it",
                              kind->gpus[g].index);
    }
}

/* Indices that are left out: a GPU that fell off the bus, or one that a container hides. */
static void lint_holes(kith_topology *t, int k, const kith_node_kind *kind)
{
    int most = -1;
    for (int g = 0; g < kind->gpu_count; g++)
        most = kind->gpus[g].index > most ? kind->gpus[g].index : most;
    if (kind->gpu_count > 0 && most + 1 > kind->gpu_count && !is_told(t, k, -1, "gpu-index-hole"))
        ki_topology_doubt(t, k, -1, kind->name, 0, "gpu-index-hole",
                          "%d GPUs are listed, but their numbers go up to %d: some are lost or hidden", kind->gpu_count,
                          most);
}

static void lint_degraded(kith_topology *t, int k, const kith_node_kind *kind)
{
    int most = 0, without = 0;
    bool any = false;
    for (int g = 0; g < kind->gpu_count; g++) {
        int count = nvlinks(kind, g);
        most = count > most ? count : most;
        bool has_links = count > 0 || kind->gpus[g].link_count > 0; /* peers may be unknown */
        any = any || has_links;
        without += !has_links && !kind->gpus[g].is_mig && !kind->gpus[g].is_lost;
    }
    for (int g = 0; g < kind->gpu_count && kind->has_nvswitch; g++) {
        int count = nvlinks(kind, g);
        const ki_gpu_model *model = ki_gpu_model_find(kind->gpus[g].name, 0);
        int wanted = model != NULL && model->nvlink_count > most ? model->nvlink_count : most;
        if (count > 0 && count < wanted)
            ki_topology_doubt(t, k, g, kind->name, 0, "nvlink-degraded",
                              "GPU %d has %d NVLinks up, %d are usual here: a link is down", kind->gpus[g].index, count,
                              wanted);
    }
    if (any && without > 0)
        ki_topology_doubt(t, k, -1, kind->name, 0, "nvlink-partial",
                          "%d of %d GPUs have no NVLink while others have: a bridge is missing or not seen", without,
                          kind->gpu_count);
}

/* A switched GPU shows the same number of links to all; one cell that differs is a pair that lost something. */
static void lint_uneven(kith_topology *t, int k, const kith_node_kind *kind)
{
    for (int i = 0; i < kind->gpu_count && kind->has_nvswitch; i++)
        for (int j = i + 1; j < kind->gpu_count; j++)
            if (cell(kind, i, j)->type != KITH_LINK_NVLINK && nvlinks(kind, i) > 0 && nvlinks(kind, j) > 0)
                ki_topology_doubt(t, k, i, kind->name, 0, "nvlink-pair-broken",
                                  "GPUs %d and %d hang on NVSwitch and see each other over %s only",
                                  kind->gpus[i].index, kind->gpus[j].index,
                                  kith_link_type_name(cell(kind, i, j)->type));
}

static bool is_sxm(const kith_topology *t, const kith_gpu *gpu)
{
    const char *name = gpu->name != NULL && ki_gpu_model_find(gpu->name, 0) != NULL ? gpu->name : t->options.gpu;
    const ki_gpu_model *model = ki_gpu_model_find(name, 0);
    if (name != NULL && strstr(name, "SXM") != NULL)
        return true;
    return model != NULL && model->is_sxm_likely && strstr(name, "PCI") == NULL;
}

static void lint_sxm(kith_topology *t, int k, const kith_node_kind *kind)
{
    bool has_any = false;
    int sxm = 0;
    for (int g = 0; g < kind->gpu_count; g++) {
        has_any = has_any || nvlinks(kind, g) > 0 || kind->gpus[g].link_count > 0;
        sxm += is_sxm(t, &kind->gpus[g]) && !kind->gpus[g].is_mig;
    }
    if (kind->nvlink == KITH_KNOWN && !has_any && sxm > 1)
        ki_topology_doubt(t, k, -1, kind->name, 0, "sxm-without-nvlink",
                          "%d GPUs are of a model with NVLink and none is reported: is the fabric manager running, is "
                          "NVSwitch given to this machine? (it can be passed to one virtual machine only; several need "
                          "the fabric manager's shared NVSwitch mode)",
                          sxm);
    if (kind->nvlink == KITH_UNKNOWN && kind->gpu_count > 1 && !has_any && !is_told(t, k, -1, "nvlink-unknown") &&
        !is_told(t, k, -1, "nvlink-left-out"))
        ki_topology_doubt(t, k, -1, kind->name, 0, "nvlink-unknown",
                          "the source leaves NVLink out; that is not the same as no NVLink");
}

/* The NUMA node that has a CPU of set among those before `end`; -1: none. */
static int owner_of(const kith_node_kind *kind, int end, const ki_cpuset *set)
{
    for (int i = 0; i < end; i++) {
        ki_cpuset other;
        if (kind->numas[i].cpus == NULL || kind->numas[i].is_gpu_memory ||
            !ki_cpuset_parse(kind->numas[i].cpus, &other))
            continue;
        bool is_shared = ki_cpuset_intersects(set, &other);
        ki_cpuset_fini(&other);
        if (is_shared)
            return i;
    }
    return -1;
}

/* CPU sets of different NUMA nodes must be disjoint. One pass over their union; a finding looks for its partner. */
static void lint_numa_overlap(kith_topology *t, int k, const kith_node_kind *kind)
{
    ki_cpuset seen = { NULL, 0 };
    for (int i = 0; i < kind->numa_count && !is_told(t, k, -1, "numa-overlap"); i++) {
        const kith_numa *numa = &kind->numas[i];
        ki_cpuset set;
        if (numa->cpus == NULL || numa->is_gpu_memory || !ki_cpuset_parse(numa->cpus, &set))
            continue;
        int owner = ki_cpuset_intersects(&seen, &set) ? owner_of(kind, i, &set) : -1;
        if (owner >= 0)
            ki_topology_doubt(t, k, -1, kind->name, 0, "numa-overlap",
                              "NUMA nodes %d (%s) and %d (%s) share CPUs: the masks are wrong",
                              kind->numas[owner].os_index, kind->numas[owner].cpus, numa->os_index, numa->cpus);
        for (int cpu = ki_cpuset_first(&set, -1); cpu >= 0; cpu = ki_cpuset_first(&set, cpu))
            if (!ki_cpuset_add(&seen, cpu))
                break;
        ki_cpuset_fini(&set);
    }
    ki_cpuset_fini(&seen);
}

/* The union of the masks; false where one is unknown. */
static bool unite(const kith_node_kind *kind, bool is_of_packages, ki_cpuset *all)
{
    int count = is_of_packages ? kind->package_count : kind->numa_count;
    for (int i = 0; i < count; i++) {
        const char *cpus = is_of_packages ? kind->packages[i].cpus : kind->numas[i].cpus;
        ki_cpuset set;
        if (cpus == NULL || !ki_cpuset_parse(cpus, &set))
            return false;
        for (int cpu = ki_cpuset_first(&set, -1); cpu >= 0; cpu = ki_cpuset_first(&set, cpu))
            ki_cpuset_add(all, cpu);
        ki_cpuset_fini(&set);
    }
    return count > 0;
}

/* A hole in the numbers: what a container may not use is not listed, and its CPUs are in no node that is. */
static bool hides_numas(const kith_node_kind *kind)
{
    for (int i = 0; i < kind->numa_count; i++)
        if (kind->numas[i].os_index >= kind->numa_count)
            return true;
    return false;
}

/* Where the source tells the CPUs of the packages, each must be in a NUMA node. */
static void lint_numa_cover(kith_topology *t, int k, const kith_node_kind *kind)
{
    if (hides_numas(kind))
        return;
    ki_cpuset packages = { NULL, 0 }, numas = { NULL, 0 }, missing = { NULL, 0 };
    char text[128];
    bool is_known = unite(kind, true, &packages) && unite(kind, false, &numas);
    for (int cpu = ki_cpuset_first(&packages, -1); cpu >= 0 && is_known; cpu = ki_cpuset_first(&packages, cpu))
        if (!ki_cpuset_has(&numas, cpu))
            ki_cpuset_add(&missing, cpu);
    if (missing.count > 0)
        ki_topology_doubt(t, k, -1, kind->name, 0, "numa-gap",
                          "%d CPUs of the packages are in no NUMA node (%s): the masks are wrong", missing.count,
                          ki_cpuset_text(&missing, text, sizeof text));
    ki_cpuset_fini(&packages);
    ki_cpuset_fini(&numas);
    ki_cpuset_fini(&missing);
}

static void lint_cpus(kith_topology *t, int k, const kith_node_kind *kind)
{
    int unknown = 0, known = 0;
    for (int g = 0; g < kind->gpu_count; g++) {
        known += kind->gpus[g].numa_count > 0;
        unknown += kind->gpus[g].numa_count == 0 && !kind->gpus[g].is_lost;
    }
    if (known == 0 && unknown > 1 && !is_told(t, k, -1, "numa-unknown") && !is_told(t, k, -1, "numa-blank"))
        ki_topology_doubt(t, k, -1, kind->name, 0, "numa-unknown",
                          "no GPU has a NUMA node in the source: ranks cannot be bound near their GPUs");
    for (int g = 0; g < kind->gpu_count && known > 0; g++)
        if (kind->gpus[g].numa_count == 0 && !kind->gpus[g].is_lost)
            ki_topology_doubt(t, k, g, kind->name, 0, "gpu-without-cpus",
                              "GPU %d has no CPUs near it that may be used, others have: its rank runs far from it",
                              kind->gpus[g].index);
}

/* A GPU whose NUMA node this process may not use. */
static void lint_allowed(kith_topology *t, int k, const kith_node_kind *kind)
{
    for (int g = 0; g < kind->gpu_count; g++) {
        const kith_gpu *gpu = &kind->gpus[g];
        for (int n = 0; gpu->numa_count == 1 && n < kind->numa_count; n++) {
            const kith_numa *numa = &kind->numas[n];
            if (numa->os_index == gpu->numas[0] && !numa->is_gpu_memory && numa->allowed_cpus != NULL &&
                numa->allowed_cpus[0] == '\0')
                ki_topology_doubt(t, k, g, kind->name, 0, "gpu-far-from-cpu",
                                  "GPU %d is on NUMA node %d, of which this process may use no CPU", gpu->index,
                                  numa->os_index);
        }
    }
}

/* Do the numbers go down where the GPUs' go up? */
static bool is_reversed(const int *values, int count)
{
    int down = 0;
    for (int i = 1; i < count; i++) {
        if (values[i] > values[i - 1])
            return false;
        down += values[i] < values[i - 1];
    }
    return down > 0 && count >= 4;
}

static void lint_order(kith_topology *t, int k, const kith_node_kind *kind)
{
    int nics[KI_MAX_GPUS], numas[KI_MAX_GPUS], nic_count = 0, numa_count = 0;
    for (int g = 0; g < kind->gpu_count; g++) {
        int nearest;
        kith_link_type type;
        if (kith_nearest_nics(kind, g, &nearest, 1, &type) == 1 && type >= KITH_LINK_PXB)
            nics[nic_count++] = nearest;
        if (kind->gpus[g].numa_count == 1)
            numas[numa_count++] = kind->gpus[g].numas[0];
    }
    if (nic_count == kind->gpu_count && is_reversed(nics, nic_count))
        ki_topology_doubt(
            t, k, -1, kind->name, 0, "nic-order-reversed",
            "the NICs nearest to GPUs 0, 1, ... come in falling order: pairing by equal numbers is wrong");
    if (numa_count == kind->gpu_count && is_reversed(numas, numa_count))
        ki_topology_doubt(
            t, k, -1, kind->name, 0, "numa-order-reversed",
            "GPUs with rising numbers sit on NUMA nodes with falling ones: CPUs must be bound by GPU, not by "
            "rank");
}

static void lint_nics(kith_topology *t, int k, const kith_node_kind *kind)
{
    int far = 0;
    for (int g = 0; g < kind->gpu_count; g++) {
        int nearest;
        kith_link_type type;
        if (kith_nearest_nics(kind, g, &nearest, 1, &type) > 0)
            far += type == KITH_LINK_SYS;
    }
    if (far > 0 && far < kind->gpu_count)
        ki_topology_doubt(t, k, -1, kind->name, 0, "nic-far",
                          "%d of %d GPUs reach every NIC only over the link between CPUs, others have one nearer", far,
                          kind->gpu_count);
}

/* A cluster needs a way between its nodes; without a description one NIC of unknown speed stands in for costs. */
static void lint_no_nics(kith_topology *t, int k, const kith_node_kind *kind)
{
    bool is_cluster = t->node_count > 1 || t->options.node_count > 1;
    if (is_cluster && kind->gpu_count > 0 && kind->nic_count == 0)
        ki_topology_doubt(t, k, -1, kind->name, 0, "nic-assumed",
                          "no NIC is described; costs between nodes take one of %.0f GB/s for each node",
                          ki_constant_gbps(t, "net-unknown"));
}

/* More links than any GPU of that model has: a line that stands twice. */
static void lint_excess(kith_topology *t, int k, const kith_node_kind *kind)
{
    for (int g = 0; g < kind->gpu_count; g++) {
        const kith_gpu *gpu = &kind->gpus[g];
        const ki_gpu_model *model = ki_gpu_model_find(gpu->name, gpu->compute_capability);
        int most = model != NULL && model->nvlink_count > 0 ? model->nvlink_count : 18;
        if (gpu->link_count > most && has_nvlink(kind, g))
            ki_topology_doubt(t, k, g, kind->name, 0, "nvlink-excess",
                              "GPU %d is said to have %d NVLinks, such a GPU has %d: is a line there twice?",
                              gpu->index, gpu->link_count, most);
    }
}

/* Whether missing NVLink is a fault depends on the model, which a matrix does not tell. */
static void lint_model(kith_topology *t, int k, const kith_node_kind *kind)
{
    bool is_named = t->options.gpu != NULL;
    for (int g = 0; g < kind->gpu_count; g++)
        is_named = is_named || kind->gpus[g].name != NULL || kind->gpus[g].compute_capability > 0;
    int island[KI_MAX_GPUS];
    if (!is_named && kind->gpu_count >= 4 && kind->nvlink == KITH_KNOWN && kith_nvlink_islands(kind, island) == 0)
        ki_topology_doubt(t, k, -1, kind->name, 0, "model-unknown",
                          "the source does not name the GPUs; should they be of an SXM model, the missing NVLink is a "
                          "fault (--gpu NAME tells)");
}

/* Two GPUs below one PCIe switch, in a description that cannot show whether they can talk there (acs.h). */
static void lint_acs(kith_topology *t, int k, const kith_node_kind *kind)
{
    static const char *const sources[] = { "nvidia-smi", "hwloc XML", "NCCL" };
    bool is_silent = false, has_pair = false;
    for (size_t i = 0; i < sizeof sources / sizeof sources[0]; i++)
        is_silent = is_silent || strncmp(kind->format, sources[i], strlen(sources[i])) == 0;
    for (int i = 0; is_silent && i < kind->gpu_count * kind->gpu_count; i++)
        has_pair = has_pair || kind->links[i].type == KITH_LINK_PIX || kind->links[i].type == KITH_LINK_PXB;
    if (has_pair && !is_told(t, k, -1, "acs-unchecked"))
        ki_topology_doubt(
            t, k, -1, kind->name, 0, "acs-unchecked",
            "whether PCIe bridges send peer-to-peer traffic up to the CPU (ACS) the file cannot show; PIX "
            "or PXB alone promise no peer-to-peer (kith topo looks, as root on the machine)");
}

static void lint_nic_speed(kith_topology *t, int k, const kith_node_kind *kind)
{
    int assumed = 0;
    for (int n = 0; n < kind->nic_count; n++)
        assumed += kind->nics[n].gbps_certainty == KITH_ASSUMED;
    if (assumed > 0)
        ki_topology_doubt(t, k, -1, kind->name, 0, "nic-speed-assumed",
                          "the source gives no speed of %d NICs; %.0f GB/s is assumed for costs", assumed,
                          ki_constant_gbps(t, "net-unknown"));
}

void ki_topology_lint(kith_topology *t)
{
    static void (*const checks[])(kith_topology *, int, const kith_node_kind *) = {
        lint_lost,       lint_holes,  lint_degraded, lint_uneven,  lint_sxm,  lint_numa_overlap,
        lint_numa_cover, lint_cpus,   lint_order,    lint_allowed, lint_nics, lint_nic_speed,
        lint_no_nics,    lint_excess, lint_model,    lint_acs,
    };
    for (int k = 0; k < t->kind_count; k++) {
        if (t->kinds[k]->is_linted)
            continue;
        t->kinds[k]->is_linted = true;
        for (size_t i = 0; i < sizeof checks / sizeof checks[0]; i++)
            checks[i](t, k, &t->kinds[k]->view);
    }
}
