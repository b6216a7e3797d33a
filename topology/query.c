/* topology/query.c - reading a finished topology.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "hardware.h"
#include "model.h"
#include <string.h>
#include <strings.h>

int kith_topology_kind_count(const kith_topology *t)
{
    return t != NULL ? t->kind_count : 0;
}

const kith_node_kind *kith_topology_kind(const kith_topology *t, int index)
{
    return t != NULL && index >= 0 && index < t->kind_count ? &t->kinds[index]->view : NULL;
}

int kith_topology_node_count(const kith_topology *t)
{
    return t != NULL ? t->node_count : 0;
}

const kith_node *kith_topology_node(const kith_topology *t, int index)
{
    return t != NULL && index >= 0 && index < t->node_count ? &t->nodes[index] : NULL;
}

int kith_topology_switch_count(const kith_topology *t)
{
    return t != NULL ? t->switch_count : 0;
}

const kith_switch *kith_topology_switch(const kith_topology *t, int index)
{
    return t != NULL && index >= 0 && index < t->switch_count ? &t->switches[index] : NULL;
}

int kith_topology_domain_count(const kith_topology *t)
{
    return t != NULL ? t->domain_count : 0;
}

const kith_domain *kith_topology_domain(const kith_topology *t, int index)
{
    return t != NULL && index >= 0 && index < t->domain_count ? &t->domains[index] : NULL;
}

int kith_topology_doubt_count(const kith_topology *t)
{
    return t != NULL ? t->doubt_count : 0;
}

const kith_doubt *kith_topology_doubt(const kith_topology *t, int index)
{
    return t != NULL && index >= 0 && index < t->doubt_count ? &t->doubts[index] : NULL;
}

int kith_topology_gpu_count(const kith_topology *t)
{
    return t != NULL && t->first_gpu != NULL ? t->first_gpu[t->node_count] : 0;
}

int kith_topology_first_gpu(const kith_topology *t, int node)
{
    return t != NULL && node >= 0 && node <= t->node_count && t->first_gpu != NULL ? t->first_gpu[node] : -1;
}

bool kith_topology_locate(const kith_topology *t, int global_gpu, int *node, int *gpu)
{
    if (global_gpu < 0 || global_gpu >= kith_topology_gpu_count(t))
        return false;
    *node = t->node_of_gpu[global_gpu];
    *gpu = global_gpu - t->first_gpu[*node];
    return true;
}

/* "gpu7" and "gpu7.cluster.example" are one host, "gpu7.a" and "gpu7.b" are two. */
bool ki_is_same_host(const char *a, const char *b)
{
    size_t length = strcspn(a, ".");
    bool is_short = a[length] == '\0' || b[strcspn(b, ".")] == '\0';
    return strcasecmp(a, b) == 0 || (is_short && strcspn(b, ".") == length && strncasecmp(a, b, length) == 0);
}

static int find_on_node(const kith_topology *t, int node, const kith_pci_address *address)
{
    const kith_node_kind *kind = &t->kinds[t->nodes[node].kind]->view;
    for (int g = 0; g < kind->gpu_count; g++)
        if (ki_pci_is_same_device(&kind->gpus[g].pci, address))
            return t->first_gpu[node] + g;
    return -1;
}

int kith_topology_find_gpu(const kith_topology *t, const char *node, const char *pci)
{
    kith_pci_address address;
    if (t == NULL || t->first_gpu == NULL || ki_pci_parse(pci, &address) != KI_PCI_GOOD ||
        (node == NULL && t->node_count != 1))
        return -1;
    for (int n = 0; n < t->node_count; n++)
        if (node == NULL || ki_is_same_host(t->nodes[n].name, node))
            return find_on_node(t, n, &address);
    return -1;
}

kith_link kith_topology_link(const kith_topology *t, int from, int to)
{
    kith_link link = { .type = KITH_LINK_UNKNOWN };
    int from_node, from_gpu, to_node, to_gpu;
    if (!kith_topology_locate(t, from, &from_node, &from_gpu) || !kith_topology_locate(t, to, &to_node, &to_gpu))
        return link;
    const kith_node *a = &t->nodes[from_node], *b = &t->nodes[to_node];
    const kith_node_kind *kind = &t->kinds[a->kind]->view;
    if (from_node == to_node)
        return kind->links[from_gpu * kind->gpu_count + to_gpu];
    link.certainty = KITH_KNOWN;
    if (a->domain >= 0 && a->domain == b->domain && t->domains[a->domain].is_nvlink) {
        link.type = KITH_LINK_NVLINK;
        link.is_switched = true;
        link.count = kind->gpus[from_gpu].link_count > 0 ? kind->gpus[from_gpu].link_count : 0;
        link.gbps = t->domains[a->domain].gbps;
        return link;
    }
    link.type = KITH_LINK_NET;
    return link;
}

static bool has_lone_gpu(const kith_node_kind *kind)
{
    int there = 0, seen = 0;
    for (int g = 0; g < kind->gpu_count; g++) {
        there += !kind->gpus[g].is_lost;
        seen += !kind->gpus[g].is_lost && kind->gpus[g].is_allowed;
    }
    return seen == 1 && there > 1;
}

const kith_node_kind *ki_topology_lone_gpu(const kith_topology *t)
{
    for (int n = 0; n < t->node_count; n++)
        if (t->nodes[n].is_allowed && has_lone_gpu(&t->kinds[t->nodes[n].kind]->view))
            return &t->kinds[t->nodes[n].kind]->view;
    return NULL;
}

int kith_numa_count_with_cpus(const kith_node_kind *kind)
{
    int count = 0;
    for (int i = 0; kind != NULL && i < kind->numa_count; i++)
        count += !kind->numas[i].is_gpu_memory && (kind->numas[i].cpus == NULL || kind->numas[i].cpus[0] != '\0');
    return count;
}

int kith_nearest_nics(const kith_node_kind *kind, int gpu, int *nics, int capacity, kith_link_type *type)
{
    int count = 0;
    *type = KITH_LINK_UNKNOWN;
    if (kind == NULL || gpu < 0 || gpu >= kind->gpu_count)
        return 0;
    const kith_link *row = kind->nic_links + (size_t)gpu * (size_t)kind->nic_count;
    for (int nic = 0; nic < kind->nic_count; nic++)
        if (row[nic].type > *type)
            *type = row[nic].type;
    for (int nic = 0; nic < kind->nic_count && *type != KITH_LINK_UNKNOWN; nic++) {
        if (row[nic].type != *type)
            continue;
        if (count < capacity)
            nics[count] = nic;
        count++;
    }
    return count;
}

static bool is_direct(const kith_link *link)
{
    return link->type == KITH_LINK_NVLINK || link->type == KITH_LINK_XGMI;
}

/* Gives `island` to gpu and all that hang together with it. */
static void flood(const kith_node_kind *kind, int gpu, int number, int *island)
{
    island[gpu] = number;
    for (int other = 0; other < kind->gpu_count; other++)
        if (island[other] < 0 && is_direct(&kind->links[gpu * kind->gpu_count + other]))
            flood(kind, other, number, island);
}

int kith_nvlink_islands(const kith_node_kind *kind, int *island)
{
    int count = 0;
    bool has_any = false;
    if (kind == NULL)
        return 0;
    for (int i = 0; i < kind->gpu_count; i++)
        island[i] = -1;
    for (int i = 0; i < kind->gpu_count; i++) {
        if (island[i] < 0)
            flood(kind, i, count++, island);
        for (int j = 0; j < kind->gpu_count; j++)
            has_any = has_any || is_direct(&kind->links[i * kind->gpu_count + j]);
    }
    if (!has_any)
        return kind->nvlink == KITH_UNKNOWN ? -1 : 0;
    return count;
}
