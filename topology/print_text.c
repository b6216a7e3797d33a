/* topology/print_text.c - a machine as a text for people: at most 100 columns where the machine allows it.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "model.h"
#include "print.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WIDEST_MATRIX = 20, MOST_NODES = 16 };

static const char *or_unknown(const char *text)
{
    return text != NULL && text[0] != '\0' ? text : "?";
}

static const char *plural(int count)
{
    return count == 1 ? "" : "s";
}

static int nodes_of(const kith_topology *t, int k)
{
    int count = 0;
    for (int n = 0; n < t->node_count; n++)
        count += t->nodes[n].kind == k;
    return count;
}

/* ---- one kind ---- */

static void print_head(ki_text *out, const kith_topology *t, int k)
{
    const kith_node_kind *kind = &t->kinds[k]->view;
    int count = nodes_of(t, k), numas = kith_numa_count_with_cpus(kind);
    if (count > 1)
        ki_text_add(out, "%d nodes like ", count);
    ki_text_add(out, "%s (%s%s%s)\n", kind->name, kind->format, kind->source != NULL ? ", " : "",
                kind->source != NULL ? kind->source : "");
    ki_text_add(out, "  %d GPU%s, %d NIC%s", kind->gpu_count, plural(kind->gpu_count), kind->nic_count,
                plural(kind->nic_count));
    if (kind->package_count > 0)
        ki_text_add(out, ", %d CPU package%s", kind->package_count, plural(kind->package_count));
    if (numas > 0)
        ki_text_add(out, ", %d NUMA node%s with CPUs", numas, plural(numas));
    if (kind->numa_count > numas && numas > 0)
        ki_text_add(out, " and %d of GPU memory or without CPUs", kind->numa_count - numas);
    ki_text_add(out, "\n");
    if (kind->cpu_model != NULL)
        ki_text_add(out, "  CPU: %s\n", kind->cpu_model);
    if (kind->is_virtual)
        ki_text_add(out, "  a virtual machine: its PCIe tree is not visible\n");
}

static void print_caches(ki_text *out, const kith_node_kind *kind)
{
    const char *comma = "  caches: ";
    for (int i = 0; i < kind->cache_count; i++) {
        const kith_cache *cache = &kind->caches[i];
        if (!cache->is_data)
            continue;
        ki_text_add(out, "%s%d x L%d of %" PRIu64 " KiB", comma, cache->count, cache->level, cache->nbytes / 1024);
        comma = ", ";
    }
    if (comma[0] == ',')
        ki_text_add(out, "\n");
}

static void print_numas(ki_text *out, const kith_node_kind *kind)
{
    for (int i = 0; i < kind->numa_count; i++) {
        const kith_numa *numa = &kind->numas[i];
        ki_text_add(out, "  NUMA node %d: ", numa->os_index);
        if (numa->is_gpu_memory)
            ki_text_add(out, "memory of a GPU");
        else if (numa->cpus != NULL && numa->cpus[0] == '\0')
            ki_text_add(out, "no CPUs");
        else
            ki_text_add(out, "CPUs %s", or_unknown(numa->cpus));
        if (numa->memory_nbytes > 0)
            ki_text_add(out, ", %.1f GiB", (double)numa->memory_nbytes / (1024.0 * 1024 * 1024));
        if (numa->allowed_cpus != NULL && numa->cpus != NULL && strcmp(numa->allowed_cpus, numa->cpus) != 0)
            ki_text_add(out, ", of which this process may use %s",
                        numa->allowed_cpus[0] == '\0' ? "none" : numa->allowed_cpus);
        ki_text_add(out, "\n");
    }
}

static void print_nvlink(ki_text *out, const kith_node_kind *kind)
{
    int island[KI_MAX_GPUS];
    int count = kith_nvlink_islands(kind, island);
    if (kind->gpu_count < 2 || count == 0) {
        ki_text_add(out,
                    kind->gpu_count > 1
                        ? "  no NVLink between the GPUs; whether PCIe peer-to-peer works (ACS, IOMMU) is unchecked\n"
                        : "");
        return;
    }
    if (count < 0) {
        ki_text_add(out, "  NVLink: unknown, the source leaves it out\n");
        return;
    }
    const kith_link *best = &kind->links[0];
    for (int i = 0; i < kind->gpu_count * kind->gpu_count; i++)
        if ((kind->links[i].type == KITH_LINK_NVLINK || kind->links[i].type == KITH_LINK_XGMI) &&
            (best->type == KITH_LINK_SELF || kind->links[i].count > best->count))
            best = &kind->links[i];
    bool is_xgmi = best->type == KITH_LINK_XGMI;
    ki_text_add(out, "  %s%s",
                is_xgmi              ? "xGMI"
                : kind->has_nvswitch ? "NVSwitch"
                                     : "direct NVLink",
                is_xgmi || !kind->has_nvswitch ? " islands:" : ":");
    for (int i = 0; i < count; i++) {
        const char *comma = " {";
        for (int g = 0; g < kind->gpu_count; g++)
            if (island[g] == i) {
                ki_text_add(out, "%s%d", comma, kind->gpus[g].index);
                comma = ",";
            }
        ki_text_add(out, "}");
    }
    if (best->generation > 0)
        ki_text_add(out, ", NVLink %d", best->generation);
    ki_text_add(out, ", up to %d links %s, %.1f GB/s one way\n", best->count,
                kind->has_nvswitch ? "of a GPU" : "between two GPUs", best->gbps);
}

static void print_nics(ki_text *out, const kith_node_kind *kind, int g)
{
    int nics[KI_MAX_NICS];
    kith_link_type type;
    int count = kith_nearest_nics(kind, g, nics, KI_MAX_NICS, &type);
    ki_text_add(out, count > 0 ? "%s " : "-", kith_link_type_name(type));
    for (int i = 0; i < count && i < 4; i++)
        ki_text_add(out, "%s%s", i == 0 ? "" : " ", kind->nics[nics[i]].name);
    if (count > 4)
        ki_text_add(out, " and %d more", count - 4);
    ki_text_add(out, "\n");
}

static void print_gpus(ki_text *out, const kith_node_kind *kind)
{
    char pci[24];
    int name_width = 5, cpu_width = 4;
    for (int g = 0; g < kind->gpu_count; g++) {
        int name = (int)strlen(or_unknown(kind->gpus[g].name)), cpus = (int)strlen(or_unknown(kind->gpus[g].cpus));
        name_width = name > name_width ? (name > 32 ? 32 : name) : name_width;
        cpu_width = cpus > cpu_width ? (cpus > 24 ? 24 : cpus) : cpu_width;
    }
    if (kind->gpu_count == 0)
        return;
    ki_text_add(out, "\n  %4s  %-*s  %-12s  %-5s  %-*s  %s\n", "GPU", name_width, "model", "PCI", "NUMA", cpu_width,
                "CPUs", "nearest NICs");
    for (int g = 0; g < kind->gpu_count; g++) {
        const kith_gpu *gpu = &kind->gpus[g];
        ki_text_add(out, "  %4d  %-*.32s  %-12s  %-5s  %-*.24s  ", gpu->index, name_width, or_unknown(gpu->name),
                    kith_pci_text(&gpu->pci, pci, sizeof pci), or_unknown(gpu->numa_text), cpu_width,
                    or_unknown(gpu->cpus));
        if (gpu->is_lost)
            ki_text_add(out, "(lost) ");
        if (gpu->is_mig)
            ki_text_add(out, "(MIG) ");
        print_nics(out, kind, g);
    }
}

static void print_matrix(ki_text *out, const kith_node_kind *kind)
{
    char name[24];
    if (kind->gpu_count < 2)
        return;
    if (kind->gpu_count > WIDEST_MATRIX) {
        ki_text_add(out, "\n  (%d GPUs: the matrix of links is in the JSON report)\n", kind->gpu_count);
        return;
    }
    ki_text_add(out, "\n      ");
    for (int j = 0; j < kind->gpu_count; j++)
        ki_text_add(out, " %5d", kind->gpus[j].index);
    ki_text_add(out, "\n");
    for (int i = 0; i < kind->gpu_count; i++) {
        ki_text_add(out, "  %4d", kind->gpus[i].index);
        for (int j = 0; j < kind->gpu_count; j++)
            ki_text_add(out, " %5s", kith_link_name(&kind->links[i * kind->gpu_count + j], name, sizeof name));
        ki_text_add(out, "\n");
    }
}

static void print_kind(ki_text *out, const kith_topology *t, int k)
{
    const kith_node_kind *kind = &t->kinds[k]->view;
    print_head(out, t, k);
    print_caches(out, kind);
    if (kind->gpu_count <= 1 || kind->package_count > 0)
        print_numas(out, kind);
    print_nvlink(out, kind);
    print_gpus(out, kind);
    print_matrix(out, kind);
}

/* ---- the cluster ---- */

static void print_cluster(ki_text *out, const kith_topology *t)
{
    int leaves = 0, roots = 0;
    for (int s = 0; s < t->switch_count; s++) {
        leaves += t->switches[s].level == 0;
        roots += t->switches[s].parent < 0;
    }
    if (t->node_count == 1 && t->switch_count == 0 && t->domain_count == 0)
        return;
    ki_text_add(out, "\nCluster: %d node%s, %d GPUs", t->node_count, plural(t->node_count), kith_topology_gpu_count(t));
    if (t->switch_count > 0)
        ki_text_add(out, ", %d switches (%d lea%s, %d root%s)", t->switch_count, leaves, leaves == 1 ? "f" : "ves",
                    roots, plural(roots));
    if (t->domain_count > 0)
        ki_text_add(out, ", %d %s%s", t->domain_count, t->domains[0].is_nvlink ? "NVLink domain" : "block",
                    plural(t->domain_count));
    ki_text_add(out, "\n");
    for (int n = 0; n < t->node_count && n < MOST_NODES; n++) {
        const kith_node *node = &t->nodes[n];
        ki_text_add(out, "  %-20s", node->name);
        if (node->leaf >= 0)
            ki_text_add(out, " on %s", t->switches[node->leaf].name);
        if (node->domain >= 0)
            ki_text_add(out, " in %s", t->domains[node->domain].name);
        ki_text_add(out, "\n");
    }
    if (t->node_count > MOST_NODES)
        ki_text_add(out, "  and %d more\n", t->node_count - MOST_NODES);
}

static void print_doubts(ki_text *out, const kith_topology *t, bool is_assumption, const char *title)
{
    bool has_title = false;
    for (int i = 0; i < t->doubt_count; i++) {
        const kith_doubt *doubt = &t->doubts[i];
        if (doubt->is_assumption != is_assumption)
            continue;
        if (!has_title)
            ki_text_add(out, "\n%s\n", title);
        has_title = true;
        ki_text_add(out, "  %s: %s", doubt->code, doubt->text);
        if (doubt->line > 0)
            ki_text_add(out, " (%s:%d)", or_unknown(doubt->file), doubt->line);
        ki_text_add(out, "\n");
    }
}

void ki_print_topology_text(ki_text *out, const kith_topology *t)
{
    for (int k = 0; k < t->kind_count; k++) {
        if (k > 0)
            ki_text_add(out, "\n");
        print_kind(out, t, k);
    }
    print_cluster(out, t);
    print_doubts(out, t, false, "Doubts");
    if (t->doubt_lost > 0)
        ki_text_add(out, "  and %d more\n", t->doubt_lost);
    print_doubts(out, t, true, "Assumed");
}
