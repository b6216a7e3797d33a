/* topology/model.c - see model.h.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "model.h"

#include "core/base/fault.h"
#include "core/base/mem.h"
#include "sets.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- arena ---- */

enum { BLOCK_NBYTES = 64 * 1024, ALIGNMENT = 16 };

struct ki_arena_block {
    ki_arena_block *next;
    size_t used, capacity;
};

static const size_t block_head = (sizeof(ki_arena_block) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;

static ki_arena_block *block_add(kith_topology *t, size_t nbytes)
{
    size_t capacity = nbytes > BLOCK_NBYTES ? nbytes : BLOCK_NBYTES;
    ki_arena_block *block = ki_fault(KI_FAULT_ALLOC) ? NULL : (ki_arena_block *)calloc(1, block_head + capacity);
    if (block == NULL) {
        ki_topology_set_status(t, ki_fail(KITH_ERR_NO_MEMORY, "topology: allocating %zu bytes failed", nbytes));
        return NULL;
    }
    block->capacity = capacity;
    block->next = t->blocks;
    t->blocks = block;
    return block;
}

void *ki_topology_alloc(kith_topology *t, size_t count, size_t nbytes)
{
    size_t total;
    if (!ki_mul(count, nbytes, &total) || total > SIZE_MAX / 2) {
        ki_topology_set_status(
            t, ki_fail(KITH_ERR_NO_MEMORY, "topology: %zu times %zu bytes are too many", count, nbytes));
        return NULL;
    }
    total = (total + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    ki_arena_block *block = t->blocks;
    if (block == NULL || block->capacity - block->used < total)
        block = block_add(t, total);
    if (block == NULL)
        return NULL;
    void *memory = (char *)block + block_head + block->used;
    block->used += total;
    return memory;
}

const char *ki_topology_dup_n(kith_topology *t, const char *text, size_t length)
{
    if (text == NULL)
        return NULL;
    char *copy = (char *)ki_topology_alloc(t, length + 1, 1);
    if (copy == NULL)
        return "";
    memcpy(copy, text, length);
    return copy;
}

const char *ki_topology_dup(kith_topology *t, const char *text)
{
    return text == NULL ? NULL : ki_topology_dup_n(t, text, strlen(text));
}

static const char *format_list(kith_topology *t, const char *format, va_list list)
{
    va_list again;
    va_copy(again, list);
    int length = vsnprintf(NULL, 0, format, list);
    char *text = length < 0 ? NULL : (char *)ki_topology_alloc(t, (size_t)length + 1, 1);
    if (text != NULL)
        vsnprintf(text, (size_t)length + 1, format, again);
    va_end(again);
    return text != NULL ? text : "";
}

const char *ki_topology_format(kith_topology *t, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    const char *text = format_list(t, format, list);
    va_end(list);
    return text;
}

/* ---- life ---- */

kith_status ki_topology_create(const kith_topology_options *options, kith_topology **topology)
{
    kith_topology *t = (kith_topology *)ki_calloc(NULL, 1, sizeof *t);
    if (t == NULL)
        return KITH_ERR_NO_MEMORY;
    t->options = (kith_topology_options)KITH_TOPOLOGY_OPTIONS_INIT;
    if (options != NULL)
        ki_options_copy(&t->options, sizeof t->options, options, sizeof(size_t));
    kith_status status = ki_constants_load(t);
    if (status != KITH_OK) {
        kith_topology_destroy(t);
        return status;
    }
    *topology = t;
    return KITH_OK;
}

void kith_topology_destroy(kith_topology *t)
{
    if (t == NULL)
        return;
    for (ki_arena_block *block = t->blocks, *next; block != NULL; block = next) {
        next = block->next;
        free(block);
    }
    ki_free(NULL, t);
}

kith_status ki_topology_status(const kith_topology *t)
{
    return t->status;
}

void ki_topology_set_status(kith_topology *t, kith_status status)
{
    if (t->status == KITH_OK)
        t->status = status;
}

/* ---- growing arrays ---- */

/* What additions return after a failure: one for each type, so that a kind's arrays are never another's bytes. */
static _Thread_local kith_gpu dummy_gpu;
static _Thread_local kith_nic dummy_nic;
static _Thread_local kith_numa dummy_numa;
static _Thread_local kith_package dummy_package;
static _Thread_local kith_cache dummy_cache;
static _Thread_local kith_pci_switch dummy_pci_switch;
static _Thread_local kith_link dummy_link;
static _Thread_local kith_node dummy_node;
static _Thread_local kith_switch dummy_switch;
static _Thread_local kith_domain dummy_domain;
static _Thread_local ki_kind dummy_kind;

/* Cleared each time: what was written into it last time means nothing. */
#define DUMMY(element) (memset(&(element), 0, sizeof(element)), &(element))

/* Room for one more element at the end of *array (count elements so far); NULL after a failure. The old array stays in
 * the arena: doubling wastes at most as much as it uses. */
static void *grow(kith_topology *t, void **array, int count, int *room, size_t nbytes, int limit, const char *what)
{
    if (t->status != KITH_OK)
        return NULL;
    if (count >= limit) {
        ki_topology_set_status(t, ki_fail_quiet(KITH_ERR_INVALID_ARG, "topology: more than %d %s", limit, what));
        return NULL;
    }
    if (count == *room) {
        int wanted = *room == 0 ? 8 : 2 * *room;
        void *bigger = ki_topology_alloc(t, (size_t)wanted, nbytes);
        if (bigger == NULL)
            return NULL;
        if (count > 0)
            memcpy(bigger, *array, (size_t)count * nbytes);
        *array = bigger;
        *room = wanted;
    }
    return memset((char *)*array + (size_t)count * nbytes, 0, nbytes);
}

/* The public view has arrays of const; a kind under construction owns them. */
#define GROW(t, array, count, room, limit, what)                                                                       \
    grow(t, (void **)(uintptr_t) & (array), count, &(room), sizeof *(array), limit, what)

ki_kind *ki_topology_add_kind(kith_topology *t, const char *name, const char *format)
{
    void *slot = GROW(t, t->kinds, t->kind_count, t->kind_room, KI_MAX_PARTS, "kinds of node");
    ki_kind *kind = slot == NULL ? NULL : (ki_kind *)ki_topology_alloc(t, 1, sizeof *kind);
    if (kind == NULL)
        return DUMMY(dummy_kind);
    t->kinds[t->kind_count++] = kind;
    kind->view.name = ki_topology_dup(t, name);
    kind->view.format = ki_topology_dup(t, format);
    kind->file = kind->view.name;
    return kind;
}

kith_gpu *ki_kind_add_gpu(kith_topology *t, ki_kind *kind)
{
    kith_gpu *gpu =
        (kith_gpu *)GROW(t, kind->view.gpus, kind->view.gpu_count, kind->gpu_room, KI_MAX_GPUS, "GPUs in a node");
    if (gpu == NULL)
        return DUMMY(dummy_gpu);
    gpu->index = kind->view.gpu_count++;
    gpu->memory_numa = gpu->pci_switch = gpu->host_bridge = gpu->link_count = -1;
    gpu->is_allowed = true;
    return gpu;
}

kith_nic *ki_kind_add_nic(kith_topology *t, ki_kind *kind)
{
    kith_nic *nic =
        (kith_nic *)GROW(t, kind->view.nics, kind->view.nic_count, kind->nic_room, KI_MAX_NICS, "NICs in a node");
    if (nic == NULL)
        return DUMMY(dummy_nic);
    nic->index = kind->view.nic_count++;
    nic->numa = nic->pci_switch = nic->host_bridge = -1;
    return nic;
}

kith_numa *ki_kind_add_numa(kith_topology *t, ki_kind *kind)
{
    kith_numa *numa = (kith_numa *)GROW(t, kind->view.numas, kind->view.numa_count, kind->numa_room, KI_MAX_PARTS,
                                        "NUMA nodes in a node");
    if (numa == NULL)
        return DUMMY(dummy_numa);
    numa->os_index = kind->view.numa_count++;
    numa->package = numa->gpu = -1;
    return numa;
}

kith_package *ki_kind_add_package(kith_topology *t, ki_kind *kind)
{
    kith_package *package = (kith_package *)GROW(t, kind->view.packages, kind->view.package_count, kind->package_room,
                                                 KI_MAX_PARTS, "packages in a node");
    if (package == NULL)
        return DUMMY(dummy_package);
    package->os_index = kind->view.package_count++;
    return package;
}

kith_cache *ki_kind_add_cache(kith_topology *t, ki_kind *kind)
{
    kith_cache *cache = (kith_cache *)GROW(t, kind->view.caches, kind->view.cache_count, kind->cache_room, KI_MAX_PARTS,
                                           "kinds of cache in a node");
    if (cache == NULL)
        return DUMMY(dummy_cache);
    kind->view.cache_count++;
    return cache;
}

kith_pci_switch *ki_kind_add_switch(kith_topology *t, ki_kind *kind)
{
    kith_pci_switch *added = (kith_pci_switch *)GROW(t, kind->view.switches, kind->view.switch_count, kind->switch_room,
                                                     KI_MAX_PARTS, "PCI switches in a node");
    if (added == NULL)
        return DUMMY(dummy_pci_switch);
    kind->view.switch_count++;
    added->parent = added->host_bridge = added->numa = -1;
    return added;
}

kith_node *ki_topology_add_node(kith_topology *t, const char *name, int kind)
{
    kith_node *node = (kith_node *)GROW(t, t->nodes, t->node_count, t->node_room, KI_MAX_NODES, "nodes");
    if (node == NULL)
        return DUMMY(dummy_node);
    t->node_count++;
    node->name = ki_topology_dup(t, name);
    node->kind = kind;
    node->leaf = node->domain = -1;
    node->is_allowed = true;
    return node;
}

kith_switch *ki_topology_add_switch(kith_topology *t, const char *name, int parent)
{
    kith_switch *added = (kith_switch *)GROW(t, t->switches, t->switch_count, t->switch_room, KI_MAX_NODES, "switches");
    if (added == NULL)
        return DUMMY(dummy_switch);
    t->switch_count++;
    added->name = ki_topology_dup(t, name);
    added->parent = parent;
    return added;
}

kith_domain *ki_topology_add_domain(kith_topology *t, const char *name, bool is_nvlink)
{
    kith_domain *domain = (kith_domain *)GROW(t, t->domains, t->domain_count, t->domain_room, KI_MAX_NODES, "domains");
    if (domain == NULL)
        return DUMMY(dummy_domain);
    t->domain_count++;
    domain->name = ki_topology_dup(t, name);
    domain->is_nvlink = is_nvlink;
    return domain;
}

/* ---- links ---- */

void ki_kind_make_links(kith_topology *t, ki_kind *kind)
{
    size_t n = (size_t)kind->view.gpu_count, m = (size_t)kind->view.nic_count;
    if (t->status != KITH_OK)
        return; /* kind may be the dummy */
    kith_link *links = (kith_link *)ki_topology_alloc(t, n * n + 1, sizeof *links);
    kith_link *nic_links = (kith_link *)ki_topology_alloc(t, n * m + 1, sizeof *links);
    if (links == NULL || nic_links == NULL)
        return;
    for (size_t i = 0; i < n; i++) {
        links[i * n + i].type = KITH_LINK_SELF;
        links[i * n + i].certainty = KITH_KNOWN;
    }
    kind->view.links = links;
    kind->view.nic_links = nic_links;
}

kith_link *ki_kind_link(ki_kind *kind, int from, int to)
{
    if (kind->view.links == NULL)
        return DUMMY(dummy_link);
    return (kith_link *)(uintptr_t)&kind->view.links[from * kind->view.gpu_count + to];
}

kith_link *ki_kind_nic_link(ki_kind *kind, int gpu, int nic)
{
    if (kind->view.nic_links == NULL)
        return DUMMY(dummy_link);
    return (kith_link *)(uintptr_t)&kind->view.nic_links[gpu * kind->view.nic_count + nic];
}

void ki_kind_set_link(ki_kind *kind, int a, int b, kith_link_type type, int count, kith_certainty certainty)
{
    kith_link link = { .type = type, .count = count, .certainty = certainty };
    *ki_kind_link(kind, a, b) = link;
    *ki_kind_link(kind, b, a) = link;
}

void ki_gpu_set_numas(kith_topology *t, kith_gpu *gpu, const char *text, const char *source)
{
    ki_cpuset set = { NULL, 0 };
    gpu->numas = NULL;
    gpu->numa_count = 0;
    gpu->numa_text = gpu->numa_source = NULL;
    if (text == NULL || !ki_cpuset_parse(text, &set) || set.count == 0) {
        ki_cpuset_fini(&set);
        return;
    }
    int *numas = (int *)ki_topology_alloc(t, (size_t)set.count, sizeof *numas);
    if (numas != NULL) {
        for (int numa = ki_cpuset_first(&set, -1); numa >= 0; numa = ki_cpuset_first(&set, numa))
            numas[gpu->numa_count++] = numa;
        gpu->numas = numas;
        gpu->numa_text = ki_topology_dup(t, text);
        gpu->numa_source = ki_topology_dup(t, source);
    }
    ki_cpuset_fini(&set);
}

/* ---- doubts ---- */

/* Doubts that only tell which rule filled in what the source leaves out. */
static bool is_assumption(const char *code)
{
    static const char *const codes[] = { "nvlink-generation", "nvlink-count", "pcie-assumed",  "pcie-current",
                                         "nic-speed-assumed", "nic-assumed",  "model-unknown", "block-domain",
                                         "domain-assumed",    "join-assumed", "gpu-assumed",   "acs-unchecked" };
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++)
        if (strcmp(code, codes[i]) == 0)
            return true;
    return false;
}

void ki_topology_doubt(kith_topology *t, int kind, int gpu, const char *file, int line, const char *code,
                       const char *format, ...)
{
    if (t->doubt_count >= KI_MAX_DOUBTS) {
        t->doubt_lost++;
        return;
    }
    kith_doubt *doubt = (kith_doubt *)GROW(t, t->doubts, t->doubt_count, t->doubt_room, KI_MAX_DOUBTS, "doubts");
    if (doubt == NULL)
        return;
    t->doubt_count++;
    va_list list;
    va_start(list, format);
    doubt->text = format_list(t, format, list);
    va_end(list);
    doubt->code = ki_topology_dup(t, code);
    doubt->is_assumption = is_assumption(code);
    doubt->file = ki_topology_dup(t, file);
    doubt->line = line;
    doubt->kind = kind;
    doubt->gpu = gpu;
}

int ki_kind_index(const kith_topology *t, const ki_kind *kind)
{
    for (int i = t->kind_count - 1; i >= 0; i--)
        if (t->kinds[i] == kind)
            return i;
    return -1;
}

/* ---- the end of construction ---- */

static void number_gpus(kith_topology *t)
{
    int *first = (int *)ki_topology_alloc(t, (size_t)t->node_count + 1, sizeof *first);
    if (first == NULL)
        return;
    int64_t total = 0;
    for (int n = 0; n < t->node_count; n++) {
        first[n] = (int)total;
        total += t->kinds[t->nodes[n].kind]->view.gpu_count;
        if (total > INT32_MAX / 2) {
            ki_topology_set_status(t,
                                   ki_fail_quiet(KITH_ERR_INVALID_ARG, "topology: more than %d GPUs", INT32_MAX / 2));
            return;
        }
    }
    first[t->node_count] = (int)total;
    int *node_of_gpu = (int *)ki_topology_alloc(t, (size_t)total + 1, sizeof *node_of_gpu);
    if (node_of_gpu == NULL)
        return;
    for (int n = 0; n < t->node_count; n++)
        for (int g = first[n]; g < first[n + 1]; g++)
            node_of_gpu[g] = n;
    t->first_gpu = first;
    t->node_of_gpu = node_of_gpu;
}

/* What one GPU has into an NVLink domain that spans nodes: all its links. */
static void derive_domains(kith_topology *t)
{
    for (int n = 0; n < t->node_count; n++) {
        if (t->nodes[n].domain < 0)
            continue;
        kith_domain *domain = &t->domains[t->nodes[n].domain];
        const kith_node_kind *kind = &t->kinds[t->nodes[n].kind]->view;
        domain->node_count++;
        for (int i = 0; domain->is_nvlink && i < kind->gpu_count * kind->gpu_count; i++) {
            const kith_link *link = &kind->links[i];
            int links = kind->gpus[i / kind->gpu_count].link_count;
            if (link->type != KITH_LINK_NVLINK || link->count == 0)
                continue;
            double gbps = link->is_switched ? link->gbps : link->gbps / link->count * links;
            domain->gbps = gbps > domain->gbps ? gbps : domain->gbps;
        }
    }
}

kith_status ki_topology_finish(kith_topology *t)
{
    for (int k = 0; t->status == KITH_OK && k < t->kind_count; k++) {
        if (t->kinds[k]->view.links == NULL)
            ki_kind_make_links(t, t->kinds[k]);
        if (t->status == KITH_OK && !t->kinds[k]->is_finished)
            ki_kind_derive_links(t, k);
        t->kinds[k]->is_finished = true;
    }
    if (t->status == KITH_OK)
        derive_domains(t);
    if (t->status == KITH_OK)
        number_gpus(t);
    if (t->status == KITH_OK && !t->is_rails_checked)
        ki_topology_check_rails(t);
    if (t->status == KITH_OK)
        ki_topology_lint(t);
#ifndef NDEBUG
    if (t->status == KITH_OK)
        t->status = ki_topology_check(t);
#endif
    return t->status;
}
