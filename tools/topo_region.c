/* tools/topo_region.c - the containers of a node's picture: packages, NUMA nodes, PCI switches, and which GPU and NIC
 * stands in which of them.
 *
 * Sources differ in what they tell. Where they list NUMA nodes or PCI switches, those are the containers. Where one
 * has only nearness ("PIX": at most one PCI switch between the two), devices that are as near as that share a dashed
 * container. What is not known makes no container: the device stands in the node itself.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "topo_draw.h"

#include <stdlib.h>
#include <string.h>

static int region_add(ki_node_layout *self, int parent, ki_style style)
{
    if (self->region_count == self->region_room) {
        int room = self->region_room == 0 ? 32 : self->region_room * 2;
        ki_region *regions = realloc(self->regions, (size_t)room * sizeof(*regions));
        if (regions == NULL) {
            self->is_failed = true;
            return parent < 0 ? 0 : parent;
        }
        self->regions = regions;
        self->region_room = room;
    }
    self->regions[self->region_count] = (ki_region){ .parent = parent, .style = style };
    return self->region_count++;
}

int ki_region_visible(const ki_node_layout *self, int region)
{
    while (region > 0 && self->regions[region].is_dissolved)
        region = self->regions[region].parent;
    return region;
}

const char *ki_nic_name(const kith_nic *nic)
{
    return nic->device != NULL ? nic->device : nic->name != NULL ? nic->name : "NIC";
}

bool ki_kind_is_empty(const kith_node_kind *kind)
{
    return kind->gpu_count == 0 && kind->nic_count == 0 && kind->numa_count == 0 && kind->package_count == 0;
}

/* ---- packages and NUMA nodes ---- */

static void add_packages(ki_node_layout *self, int *package_region)
{
    const kith_node_kind *kind = self->kind;
    for (int i = 0; i < kind->package_count; i++) {
        const kith_package *package = &kind->packages[i];
        int index = package_region[i] = region_add(self, 0, KI_STYLE_PACKAGE);
        const char *model = package->model != NULL ? package->model : kind->cpu_model;
        ki_region *region = &self->regions[index];
        snprintf(region->title, sizeof(region->title), "Package %d%s%s", package->os_index, model != NULL ? ": " : "",
                 model != NULL ? model : "");
        if (package->cpus != NULL)
            snprintf(region->tip, sizeof(region->tip), "CPUs %s", package->cpus);
    }
}

static void describe_numa(ki_region *region, const kith_numa *numa)
{
    char bytes[32];
    snprintf(region->title, sizeof(region->title), "NUMA %d", numa->os_index);
    snprintf(region->detail, sizeof(region->detail), "%s%s", numa->cpus != NULL ? "CPUs " : "",
             numa->cpus != NULL ? numa->cpus : "");
    if (numa->memory_nbytes == 0)
        return;
    size_t used = strlen(region->title);
    snprintf(region->title + used, sizeof(region->title) - used, ", %s",
             ki_text_bytes(bytes, sizeof(bytes), (double)numa->memory_nbytes));
}

static bool is_place(const kith_numa *numa)
{
    return !numa->is_gpu_memory && (numa->cpus == NULL || numa->cpus[0] != '\0');
}

static void add_numas(ki_node_layout *self, const int *package_region, int *numa_region)
{
    const kith_node_kind *kind = self->kind;
    for (int i = 0; i < kind->numa_count; i++) {
        const kith_numa *numa = &kind->numas[i];
        numa_region[i] = -1;
        if (!is_place(numa))
            continue;
        int parent = numa->package >= 0 && numa->package < kind->package_count ? package_region[numa->package] : 0;
        numa_region[i] = region_add(self, parent, KI_STYLE_NUMA);
        describe_numa(&self->regions[numa_region[i]], numa);
    }
}

/* The container of a NUMA node that devices name; made when the source lists no NUMA nodes. text: "0" or "0-1". */
static int home(ki_node_layout *self, const int *numa_region, int os_index, const char *text, const char *cpus)
{
    char title[sizeof(self->regions[0].title)];
    for (int i = 0; text == NULL && i < self->kind->numa_count; i++)
        if (self->kind->numas[i].os_index == os_index && numa_region[i] >= 0)
            return numa_region[i];
    if (text != NULL)
        snprintf(title, sizeof(title), "NUMA %s", text);
    else
        snprintf(title, sizeof(title), "NUMA %d", os_index);
    for (int i = 1; i < self->region_count; i++)
        if (self->regions[i].style == KI_STYLE_NUMA && strcmp(self->regions[i].title, title) == 0)
            return i;
    int region = region_add(self, 0, KI_STYLE_NUMA);
    if (region == 0)
        return 0;
    memcpy(self->regions[region].title, title, sizeof(title));
    if (cpus != NULL)
        snprintf(self->regions[region].detail, sizeof(self->regions[region].detail), "CPUs %s", cpus);
    return region;
}

static int gpu_home(ki_node_layout *self, const int *numa_region, const kith_gpu *gpu)
{
    if (gpu->numa_count == 1)
        return home(self, numa_region, gpu->numas[0], NULL, gpu->cpus);
    if (gpu->numa_count > 1 && gpu->numa_text != NULL)
        return home(self, numa_region, -1, gpu->numa_text, gpu->cpus);
    return 0;
}

/* A NIC of unknown NUMA node stands with the GPU that is nearest, when that is nearer than "another NUMA node". */
static int nic_home(ki_node_layout *self, const int *numa_region, int nic)
{
    const kith_node_kind *kind = self->kind;
    if (kind->nics[nic].numa >= 0)
        return home(self, numa_region, kind->nics[nic].numa, NULL, kind->nics[nic].cpus);
    int best = 0;
    kith_link_type nearest = KITH_LINK_SYS;
    for (int g = 0; kind->nic_links != NULL && g < kind->gpu_count; g++) {
        kith_link_type type = kind->nic_links[(size_t)g * (size_t)kind->nic_count + (size_t)nic].type;
        if (type <= nearest)
            continue;
        nearest = type;
        best = self->gpu_region[g];
    }
    return best;
}

/* ---- PCI switches ---- */

/* The container of a switch, and of those above it, in the NUMA node `base` of the device that asks first. */
static int switch_region(ki_node_layout *self, int *made, int index, int base)
{
    int chain[64], length = 0;
    for (int i = index; i >= 0 && i < self->kind->switch_count && length < 64 && made[i] < 0;) {
        chain[length++] = i;
        int parent = self->kind->switches[i].parent;
        i = parent < i ? parent : -1;
    }
    while (length-- > 0) {
        const kith_pci_switch *pci = &self->kind->switches[chain[length]];
        bool has_parent = pci->parent >= 0 && pci->parent < chain[length];
        int region = region_add(self, has_parent ? made[pci->parent] : base, KI_STYLE_PCI);
        char address[32], gbps[32];
        made[chain[length]] = region;
        if (region == 0)
            continue;
        snprintf(self->regions[region].title, sizeof(self->regions[region].title), "PCIe switch");
        snprintf(self->regions[region].tip, sizeof(self->regions[region].tip), "%s %s, link upwards %s",
                 pci->name != NULL ? pci->name : "PCI switch", kith_pci_text(&pci->pci, address, sizeof(address)),
                 ki_text_gbps(gbps, sizeof(gbps), pci->gbps));
    }
    return index >= 0 && index < self->kind->switch_count ? made[index] : base;
}

static void use_switches(ki_node_layout *self)
{
    const kith_node_kind *kind = self->kind;
    int *made = malloc((size_t)kind->switch_count * sizeof(*made));
    if (made == NULL) {
        self->is_failed = true;
        return;
    }
    for (int i = 0; i < kind->switch_count; i++)
        made[i] = -1;
    for (int g = 0; g < kind->gpu_count; g++)
        self->gpu_region[g] = switch_region(self, made, kind->gpus[g].pci_switch, self->gpu_region[g]);
    for (int n = 0; n < kind->nic_count; n++)
        self->nic_region[n] = switch_region(self, made, kind->nics[n].pci_switch, self->nic_region[n]);
    free(made);
}

static bool shares_a_switch(kith_link_type type)
{
    return type == KITH_LINK_PIX || type == KITH_LINK_PXB || type == KITH_LINK_BOARD;
}

/* Devices that hang on the same PCI switches as the GPU: one dashed container. NVLink hides the nearness of GPUs, but a
 * NIC that is near two GPUs still joins them. */
static void infer_switch(ki_node_layout *self, int gpu)
{
    const kith_node_kind *kind = self->kind;
    size_t gpu_count = (size_t)kind->gpu_count, nic_count = (size_t)kind->nic_count, from = (size_t)gpu;
    int base = self->gpu_region[gpu], region = region_add(self, base, KI_STYLE_PCI_INFERRED);
    if (region == base)
        return;
    snprintf(self->regions[region].title, sizeof(self->regions[region].title), "PCIe");
    snprintf(self->regions[region].tip, sizeof(self->regions[region].tip), "Joined by PCI switches (PIX, PXB)");
    self->gpu_region[gpu] = region;
    for (size_t n = 0; n < nic_count && kind->nic_links != NULL; n++) {
        if (self->nic_region[n] != base || !shares_a_switch(kind->nic_links[from * nic_count + n].type))
            continue;
        self->nic_region[n] = region;
        for (size_t g = 0; g < gpu_count; g++)
            if (self->gpu_region[g] == base && shares_a_switch(kind->nic_links[g * nic_count + n].type))
                self->gpu_region[g] = region;
    }
    for (size_t g = 0; g < gpu_count; g++)
        if (self->gpu_region[g] == base && shares_a_switch(kind->links[from * gpu_count + g].type))
            self->gpu_region[g] = region;
}

static void infer_switches(ki_node_layout *self)
{
    for (int g = 0; self->kind->links != NULL && g < self->kind->gpu_count; g++)
        if (self->regions[self->gpu_region[g]].style != KI_STYLE_PCI_INFERRED)
            infer_switch(self, g);
}

/* ---- the whole ---- */

static void count_members(ki_node_layout *self)
{
    for (int g = 0; g < self->kind->gpu_count; g++)
        for (int r = self->gpu_region[g]; r >= 0; r = self->regions[r].parent)
            self->regions[r].member_count++;
    for (int n = 0; n < self->kind->nic_count; n++)
        for (int r = self->nic_region[n]; r >= 0; r = self->regions[r].parent)
            self->regions[r].member_count++;
}

/* A switch with one device, or one that only holds another switch, says nothing. */
static void dissolve(ki_node_layout *self)
{
    for (int r = self->region_count - 1; r > 0; r--) {
        ki_region *region = &self->regions[r];
        if (region->style != KI_STYLE_PCI && region->style != KI_STYLE_PCI_INFERRED)
            continue;
        region->is_dissolved = region->member_count < 2;
        for (int child = r + 1; child < self->region_count; child++)
            if (self->regions[child].parent == r && self->regions[child].member_count == region->member_count)
                region->is_dissolved = true;
    }
}

void ki_regions_make(ki_node_layout *self)
{
    const kith_node_kind *kind = self->kind;
    int *package_region = calloc((size_t)kind->package_count + 1, sizeof(int));
    int *numa_region = calloc((size_t)kind->numa_count + 1, sizeof(int));
    self->gpu_region = calloc((size_t)kind->gpu_count + 1, sizeof(int));
    self->nic_region = calloc((size_t)kind->nic_count + 1, sizeof(int));
    region_add(self, -1, KI_STYLE_NODE);
    if (package_region == NULL || numa_region == NULL || self->gpu_region == NULL || self->nic_region == NULL)
        self->is_failed = true;
    if (!self->is_failed) {
        add_packages(self, package_region);
        add_numas(self, package_region, numa_region);
        for (int g = 0; g < kind->gpu_count; g++)
            self->gpu_region[g] = gpu_home(self, numa_region, &kind->gpus[g]);
        for (int n = 0; n < kind->nic_count; n++)
            self->nic_region[n] = nic_home(self, numa_region, n);
        if (kind->switch_count > 0)
            use_switches(self);
        else
            infer_switches(self);
        count_members(self);
        dissolve(self);
    }
    free(package_region);
    free(numa_region);
}
