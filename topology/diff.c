/* topology/diff.c - two nodes that should be equal: what differs, one line each.
 *
 * GPUs and NICs are matched by PCI address where both have one, else by number: two nodes of one order have the same
 * addresses, and a lost device then shows as missing instead of shifting all others.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "core/text.h"
#include "model.h"
#include "print.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

typedef struct comparison {
    ki_text out;
    int count;
    const kith_node_kind *a, *b;
} comparison;

static void differ(comparison *c, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void differ(comparison *c, const char *format, ...)
{
    char line[512];
    va_list list;
    va_start(list, format);
    vsnprintf(line, sizeof line, format, list);
    va_end(list);
    ki_text_add(&c->out, "%s\n", line);
    c->count++;
}

static const char *shown(const char *text)
{
    return text != NULL ? text : "unknown";
}

static void compare_texts(comparison *c, const char *where, const char *what, const char *a, const char *b)
{
    if (strcmp(shown(a), shown(b)) != 0)
        differ(c, "%s: %s is %s in %s, %s in %s", where, what, shown(a), c->a->name, shown(b), c->b->name);
}

static void compare_numbers(comparison *c, const char *where, const char *what, double a, double b)
{
    if (a < b || a > b)
        differ(c, "%s: %s is %g in %s, %g in %s", where, what, a, c->a->name, b, c->b->name);
}

/* Both at least 0, else unknown. */
static void compare_counts(comparison *c, const char *where, const char *what, int a, int b)
{
    char here[16] = "unknown", there[16] = "unknown";
    if (a >= 0)
        snprintf(here, sizeof here, "%d", a);
    if (b >= 0)
        snprintf(there, sizeof there, "%d", b);
    compare_texts(c, where, what, here, there);
}

/* Both above 0, else unknown. */
static void compare_measures(comparison *c, const char *where, const char *what, double a, double b)
{
    char here[32] = "unknown", there[32] = "unknown";
    if (a > 0)
        snprintf(here, sizeof here, "%g", a);
    if (b > 0)
        snprintf(there, sizeof there, "%g", b);
    compare_texts(c, where, what, here, there);
}

static bool same_address(const kith_pci_address *a, const kith_pci_address *b)
{
    return a->domain == b->domain && a->bus == b->bus && a->device == b->device && a->function == b->function;
}

/* Position of the partner, -1: there is none. */
static int partner_of_gpu(const kith_gpu *gpu, const kith_node_kind *other)
{
    for (int g = 0; g < other->gpu_count; g++) {
        bool by_address = gpu->pci.is_known && other->gpus[g].pci.is_known;
        if (by_address ? same_address(&gpu->pci, &other->gpus[g].pci) : gpu->index == other->gpus[g].index)
            return g;
    }
    return -1;
}

static int partner_of_nic(const kith_nic *nic, const kith_node_kind *other)
{
    for (int n = 0; n < other->nic_count; n++) {
        bool by_address = nic->pci.is_known && other->nics[n].pci.is_known;
        if (by_address ? same_address(&nic->pci, &other->nics[n].pci) : strcmp(nic->name, other->nics[n].name) == 0)
            return n;
    }
    return -1;
}

static void compare_gpu(comparison *c, const kith_gpu *a, const kith_gpu *b)
{
    char where[40];
    snprintf(where, sizeof where, "GPU %d", a->index);
    compare_numbers(c, where, "its number", a->index, b->index);
    compare_texts(c, where, "the model", a->name, b->name);
    compare_texts(c, where, "the NUMA node", a->numa_text, b->numa_text);
    compare_texts(c, where, "the CPU set", a->cpus, b->cpus);
    compare_counts(c, where, "the number of NVLinks", a->link_count, b->link_count);
    compare_measures(c, where, "the PCIe generation", a->pcie_generation, b->pcie_generation);
    compare_measures(c, where, "the PCIe width", a->pcie_width, b->pcie_width);
    if (a->is_mig != b->is_mig)
        differ(c, "%s: split into MIG instances only in %s", where, a->is_mig ? c->a->name : c->b->name);
    if (a->is_lost != b->is_lost)
        differ(c, "%s: does not answer in %s", where, a->is_lost ? c->a->name : c->b->name);
}

static void nic_list(const kith_node_kind *kind, int g, char *text, size_t nbytes)
{
    int nics[KI_MAX_NICS];
    kith_link_type type;
    int count = kith_nearest_nics(kind, g, nics, KI_MAX_NICS, &type);
    int used = snprintf(text, nbytes, "%s", count > 0 ? kith_link_type_name(type) : "none");
    for (int i = 0; i < count && used >= 0 && (size_t)used < nbytes; i++)
        used += snprintf(text + used, nbytes - (size_t)used, " %s", kind->nics[nics[i]].name);
}

static void compare_links(comparison *c, int a, int b)
{
    char here[24], there[24], where[40], nics_here[256], nics_there[256];
    for (int j = a + 1; j < c->a->gpu_count; j++) {
        int other = partner_of_gpu(&c->a->gpus[j], c->b);
        if (other < 0)
            continue;
        kith_link_name(&c->a->links[a * c->a->gpu_count + j], here, sizeof here);
        kith_link_name(&c->b->links[b * c->b->gpu_count + other], there, sizeof there);
        snprintf(where, sizeof where, "GPUs %d and %d", c->a->gpus[a].index, c->a->gpus[j].index);
        compare_texts(c, where, "the link", here, there);
    }
    nic_list(c->a, a, nics_here, sizeof nics_here);
    nic_list(c->b, b, nics_there, sizeof nics_there);
    snprintf(where, sizeof where, "GPU %d", c->a->gpus[a].index);
    compare_texts(c, where, "the nearest NIC", nics_here, nics_there);
}

static void compare_gpus(comparison *c)
{
    for (int g = 0; g < c->a->gpu_count; g++) {
        int other = partner_of_gpu(&c->a->gpus[g], c->b);
        if (other < 0) {
            differ(c, "GPU %d: only in %s", c->a->gpus[g].index, c->a->name);
            continue;
        }
        compare_gpu(c, &c->a->gpus[g], &c->b->gpus[other]);
        compare_links(c, g, other);
    }
    for (int g = 0; g < c->b->gpu_count; g++)
        if (partner_of_gpu(&c->b->gpus[g], c->a) < 0)
            differ(c, "GPU %d: only in %s", c->b->gpus[g].index, c->b->name);
}

static void compare_nics(comparison *c)
{
    for (int n = 0; n < c->a->nic_count; n++) {
        const kith_nic *nic = &c->a->nics[n];
        int other = partner_of_nic(nic, c->b);
        if (other < 0) {
            differ(c, "NIC %s: only in %s", nic->name, c->a->name);
            continue;
        }
        compare_texts(c, nic->name, "the name", nic->name, c->b->nics[other].name);
        compare_texts(c, nic->name, "the device", nic->device, c->b->nics[other].device);
        compare_measures(c, nic->name, "the bandwidth in GB/s", nic->gbps, c->b->nics[other].gbps);
        compare_counts(c, nic->name, "the NUMA node", nic->numa, c->b->nics[other].numa);
    }
    for (int n = 0; n < c->b->nic_count; n++)
        if (partner_of_nic(&c->b->nics[n], c->a) < 0)
            differ(c, "NIC %s: only in %s", c->b->nics[n].name, c->b->name);
}

static void compare_cpus(comparison *c)
{
    char where[40];
    compare_texts(c, "CPU", "the model", c->a->cpu_model, c->b->cpu_model);
    compare_numbers(c, "CPU", "the number of packages", c->a->package_count, c->b->package_count);
    compare_numbers(c, "CPU", "the number of NUMA nodes with CPUs", kith_numa_count_with_cpus(c->a),
                    kith_numa_count_with_cpus(c->b));
    for (int i = 0; i < c->a->numa_count; i++)
        for (int j = 0; j < c->b->numa_count; j++)
            if (c->a->numas[i].os_index == c->b->numas[j].os_index) {
                snprintf(where, sizeof where, "NUMA node %d", c->a->numas[i].os_index);
                compare_texts(c, where, "the CPU set", c->a->numas[i].cpus, c->b->numas[j].cpus);
            }
}

kith_status kith_topology_diff(const kith_topology *a, const kith_topology *b, char **text, int *count)
{
    if (a == NULL || b == NULL || text == NULL || count == NULL)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "diff: an argument is NULL");
    comparison c = { .a = kith_topology_kind(a, 0), .b = kith_topology_kind(b, 0) };
    ki_text_add(&c.out, "%s", "");
    compare_cpus(&c);
    compare_gpus(&c);
    compare_nics(&c);
    kith_status status = ki_print_finish(&c.out, text);
    if (status == KITH_OK)
        *count = c.count;
    return status;
}
