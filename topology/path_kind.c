/* topology/path_kind.c - see path_kind.h.
 *
 * Places: GPUs and NICs that are no further apart than NODE, or name the same NUMA node, are at one place. Places whose
 * packages differ share the link between these packages; otherwise each pair of places has its own.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "path_kind.h"

#include "core/base/mem.h"
#include "model.h"
#include <stdlib.h>
#include <string.h>

static int *new_numbers(ki_kind_paths *p, size_t count)
{
    int *numbers = (int *)ki_calloc(NULL, count + 1, sizeof *numbers);
    p->is_out_of_memory = p->is_out_of_memory || numbers == NULL;
    for (size_t i = 0; numbers != NULL && i < count; i++)
        numbers[i] = -1;
    return numbers;
}

/* Doubles *array; false without memory. */
static bool grow(ki_kind_paths *p, void **array, int count, int *room, size_t nbytes)
{
    if (count < *room)
        return true;
    int wanted = *room == 0 ? 64 : 2 * *room;
    void *bigger = ki_calloc(NULL, (size_t)wanted, nbytes);
    if (bigger == NULL) {
        p->is_out_of_memory = true;
        return false;
    }
    if (count > 0)
        memcpy(bigger, *array, (size_t)count * nbytes);
    ki_free(NULL, *array);
    *array = bigger;
    *room = wanted;
    return true;
}

/* A new resource; -1 when its bandwidth is unknown. */
static int add_resource(ki_kind_paths *p, ki_resource_kind kind, int a, int b, double gbps)
{
    void *array = p->resources;
    if (!(gbps > 0) || !grow(p, &array, p->resource_count, &p->resource_room, sizeof *p->resources))
        return -1;
    p->resources = (ki_resource *)array;
    p->resources[p->resource_count] = (ki_resource){ kind, a, b, gbps };
    return p->resource_count++;
}

/* Both directions; returns the first. */
static int add_both(ki_kind_paths *p, ki_resource_kind out, int a, double gbps)
{
    int first = add_resource(p, out, a, -1, gbps);
    if (first >= 0)
        add_resource(p, (ki_resource_kind)(out + 1), a, -1, gbps);
    return first;
}

static void add_hop(ki_kind_paths *p, ki_hop **array, int *count, int *room, int resource, float share)
{
    void *hops = *array;
    if (!grow(p, &hops, *count, room, sizeof(ki_hop)))
        return;
    *array = (ki_hop *)hops;
    (*array)[(*count)++] = (ki_hop){ resource, share };
}

/* ---- GPUs ---- */

static bool is_direct_type(kith_link_type type)
{
    return type == KITH_LINK_NVLINK || type == KITH_LINK_XGMI;
}

static void add_gpus(ki_kind_paths *p)
{
    const kith_node_kind *kind = p->kind;
    int n = kind->gpu_count;
    for (int g = 0; g < n; g++) {
        double port_gbps = p->domain_gbps;
        for (int other = 0; other < n; other++) {
            const kith_link *link = &kind->links[g * n + other];
            if (is_direct_type(link->type) && link->is_switched && link->gbps > port_gbps)
                port_gbps = link->gbps;
        }
        p->port[g] = add_both(p, KI_RESOURCE_NVLINK_OUT, g, port_gbps);
        p->pcie[g] = add_both(p, KI_RESOURCE_PCIE_OUT, g, kind->gpus[g].pcie_gbps);
        for (int other = 0; other < n; other++) {
            const kith_link *link = &kind->links[g * n + other];
            if (is_direct_type(link->type) && !link->is_switched)
                p->pair[g * n + other] = add_resource(p, KI_RESOURCE_PAIR, g, other, link->gbps);
        }
    }
}

/* ---- PCI switches ---- */

/* An uplink of unknown speed is x16 of the generation that the devices below have. */
static double uplink_gbps(const ki_kind_paths *p, int index)
{
    const kith_node_kind *kind = p->kind;
    if (kind->switches[index].gbps > 0)
        return kind->switches[index].gbps;
    double gbps = 0;
    for (int g = 0; g < kind->gpu_count; g++) {
        int above = kind->gpus[g].pci_switch;
        while (above > index)
            above = kind->switches[above].parent;
        if (above == index && kind->gpus[g].pcie_gbps > gbps)
            gbps = kind->gpus[g].pcie_gbps;
    }
    return gbps;
}

static void add_switches(ki_kind_paths *p)
{
    for (int s = 0; s < p->kind->switch_count; s++)
        p->up[s] = add_both(p, KI_RESOURCE_SWITCH_UP, s, uplink_gbps(p, s));
}

/* ---- places ---- */

static int find(int *parent, int i)
{
    while (parent[i] != i)
        i = parent[i] = parent[parent[i]];
    return i;
}

static void join(int *parent, int i, int j)
{
    int a = find(parent, i), b = find(parent, j);
    parent[a > b ? a : b] = a > b ? b : a;
}

static bool is_one_place(kith_link_type type)
{
    return type >= KITH_LINK_NODE && type <= KITH_LINK_BOARD;
}

static int device_numa(const kith_node_kind *kind, int device)
{
    if (device >= kind->gpu_count)
        return kind->nics[device - kind->gpu_count].numa;
    return kind->gpus[device].numa_count > 0 ? kind->gpus[device].numas[0] : -1;
}

static int numa_package(const kith_node_kind *kind, int os_index)
{
    for (int i = 0; os_index >= 0 && i < kind->numa_count; i++)
        if (kind->numas[i].os_index == os_index)
            return kind->numas[i].package;
    return -1;
}

static void join_devices(const kith_node_kind *kind, int *parent)
{
    int gpus = kind->gpu_count, all = gpus + kind->nic_count;
    for (int i = 0; i < gpus; i++) {
        for (int j = 0; j < gpus; j++)
            if (is_one_place(kind->links[i * gpus + j].type))
                join(parent, i, j);
        for (int nic = 0; nic < kind->nic_count; nic++)
            if (is_one_place(kind->nic_links[i * kind->nic_count + nic].type))
                join(parent, i, gpus + nic);
    }
    for (int i = 0; i < all; i++)
        for (int j = 0; j < i; j++)
            if (device_numa(kind, i) >= 0 && device_numa(kind, i) == device_numa(kind, j))
                join(parent, i, j);
}

static void find_places(ki_kind_paths *p)
{
    const kith_node_kind *kind = p->kind;
    int all = kind->gpu_count + kind->nic_count;
    int *parent = new_numbers(p, (size_t)all), *package = new_numbers(p, (size_t)all);
    if (parent != NULL && package != NULL) {
        for (int i = 0; i < all; i++)
            parent[i] = i;
        join_devices(kind, parent);
        for (int i = 0; i < all; i++) {
            int root = find(parent, i); /* never above i */
            int place = p->place[i] = root == i ? p->place_count++ : p->place[root];
            if (package[place] < 0)
                package[place] = numa_package(kind, device_numa(kind, i));
        }
    }
    p->place_package = new_numbers(p, (size_t)p->place_count);
    for (int i = 0; !p->is_out_of_memory && i < p->place_count; i++) {
        int lowest = 0;
        while (lowest < i && (package[i] < 0 || package[lowest] != package[i]))
            lowest++;
        p->place_package[i] = package[i] >= 0 ? lowest : -1;
    }
    ki_free(NULL, parent);
    ki_free(NULL, package);
}

/* Every ordered pair of places gets its link once: the packages' when these are known and differ. */
static void add_sockets(ki_kind_paths *p)
{
    size_t n = (size_t)p->place_count;
    p->socket = new_numbers(p, n * n);
    if (p->socket == NULL)
        return;
    for (size_t a = 0; a < n; a++)
        for (size_t b = 0; b < n; b++) {
            int from = p->place_package[a], to = p->place_package[b];
            bool is_between = from >= 0 && to >= 0 && from != to;
            size_t owner = is_between ? (size_t)from * n + (size_t)to : a * n + b;
            if (p->socket[owner] < 0)
                p->socket[owner] =
                    add_resource(p, KI_RESOURCE_SOCKET, (int)(owner / n), (int)(owner % n), p->kind->socket_gbps);
            p->socket[a * n + b] = p->socket[owner];
        }
}

/* ---- ways ---- */

static int device_switch(const kith_node_kind *kind, int device)
{
    return device < kind->gpu_count ? kind->gpus[device].pci_switch : kind->nics[device - kind->gpu_count].pci_switch;
}

int ki_kind_paths_most_hops(const ki_kind_paths *p)
{
    return 2 * p->kind->switch_count + 8;
}

/* The lowest switch above both, or -1. Parents come before children, so the higher number is never above the other. */
static int meeting_switch(const kith_node_kind *kind, int a, int b)
{
    while (a != b) {
        if (a > b)
            a = kind->switches[a].parent;
        else
            b = kind->switches[b].parent;
    }
    return a;
}

/* Both near the same NUMA node: then they do not cross the link between packages, whatever class the source gives. */
static bool is_one_numa(const kith_node_kind *kind, int from, int to)
{
    if (from >= kind->gpu_count || to >= kind->gpu_count)
        return false;
    const kith_gpu *a = &kind->gpus[from], *b = &kind->gpus[to];
    return a->numa_count == 1 && b->numa_count == 1 && a->numas[0] == b->numas[0];
}

int ki_kind_paths_pcie(const ki_kind_paths *p, int from, int to, kith_link_type type, float share, ki_hop *write)
{
    const kith_node_kind *kind = p->kind;
    int a = device_switch(kind, from), b = device_switch(kind, to), count = 0;
    bool meets_below = type >= KITH_LINK_PXB; /* under a switch, even if we do not know which */
    if (meets_below && (a < 0 || b < 0))
        return 0;
    int top = meeting_switch(kind, a, b);
    for (; a != top; a = kind->switches[a].parent)
        if (p->up[a] >= 0)
            write[count++] = (ki_hop){ p->up[a], share };
    bool is_crossing = type == KITH_LINK_SYS && !is_one_numa(kind, from, to);
    int socket = is_crossing ? p->socket[p->place[from] * p->place_count + p->place[to]] : -1;
    if (socket >= 0)
        write[count++] = (ki_hop){ socket, share };
    for (; b != top; b = kind->switches[b].parent)
        if (p->up[b] >= 0)
            write[count++] = (ki_hop){ p->up[b] + 1, share };
    return count;
}

/* ---- the way to the network ---- */

/* Positions of the NICs that a GPU uses: the nearest, or all when nearness is unknown. */
static int nics_of(const kith_node_kind *kind, int gpu, int *nics)
{
    kith_link_type type;
    int count = kith_nearest_nics(kind, gpu, nics, kind->nic_count, &type);
    if (count == 0)
        for (; count < kind->nic_count; count++)
            nics[count] = count;
    return count;
}

static float share_of(const ki_kind_paths *p, const int *nics, int count, int i)
{
    double total = 0;
    for (int k = 0; k < count; k++)
        total += p->kind->nics[nics[k]].gbps;
    return total > 0 ? (float)(p->kind->nics[nics[i]].gbps / total) : 1.0f / (float)count;
}

static ki_half half_way(ki_kind_paths *p, int gpu, bool is_out, const int *nics, int count, ki_hop *scratch)
{
    const kith_node_kind *kind = p->kind;
    ki_half half = { .first_hop = p->hop_count, .first_nic = p->nic_count };
    if (p->pcie[gpu] >= 0)
        add_hop(p, &p->hops, &p->hop_count, &p->hop_room, p->pcie[gpu] + !is_out, 1);
    for (int i = 0; i < count; i++) {
        int device = kind->gpu_count + nics[i];
        float share = share_of(p, nics, count, i);
        kith_link_type type = kind->nic_links[gpu * kind->nic_count + nics[i]].type;
        int hops = ki_kind_paths_pcie(p, is_out ? gpu : device, is_out ? device : gpu, type, share, scratch);
        for (int h = 0; h < hops; h++)
            add_hop(p, &p->hops, &p->hop_count, &p->hop_room, scratch[h].resource, share);
        if (p->nic[nics[i]] >= 0)
            add_hop(p, &p->hops, &p->hop_count, &p->hop_room, p->nic[nics[i]] + !is_out, share);
        add_hop(p, &p->nics, &p->nic_count, &p->nic_room, nics[i], share);
    }
    if (count == 0 && p->nic[0] >= 0)
        add_hop(p, &p->hops, &p->hop_count, &p->hop_room, p->nic[0] + !is_out, 1);
    half.hop_count = p->hop_count - half.first_hop;
    half.nic_count = p->nic_count - half.first_nic;
    return half;
}

static void add_network(ki_kind_paths *p)
{
    const kith_node_kind *kind = p->kind;
    for (int i = 0; i < kind->nic_count; i++)
        p->nic[i] = add_both(p, KI_RESOURCE_NIC_OUT, i, kind->nics[i].gbps);
    if (kind->nic_count == 0)
        p->nic[0] = add_both(p, KI_RESOURCE_NIC_OUT, -1, ki_constant_gbps(p->t, "net-unknown"));
    int *nics = new_numbers(p, (size_t)kind->nic_count);
    ki_hop *scratch = (ki_hop *)ki_calloc(NULL, (size_t)ki_kind_paths_most_hops(p), sizeof *scratch);
    p->is_out_of_memory = p->is_out_of_memory || scratch == NULL;
    for (int g = 0; !p->is_out_of_memory && g < kind->gpu_count; g++) {
        int count = nics_of(kind, g, nics);
        p->out[g] = half_way(p, g, true, nics, count, scratch);
        p->in[g] = half_way(p, g, false, nics, count, scratch);
    }
    ki_free(NULL, nics);
    ki_free(NULL, scratch);
}

/* ---- latencies ---- */

static double latency_s(const kith_topology *t, const char *key, const char *otherwise)
{
    const kith_constant *constant = ki_constant(t, key);
    if (constant == NULL)
        constant = ki_constant(t, otherwise);
    return constant != NULL ? constant->latency_us * 1e-6 : 0;
}

static const char *net_key(const kith_topology *t, const kith_node_kind *kind)
{
    static const char *const keys[] = { "fdr", "edr", "hdr", "ndr", "xdr" };
    double gbps = 0;
    for (int i = 0; i < kind->nic_count; i++)
        gbps = kind->nics[i].gbps > gbps ? kind->nics[i].gbps : gbps;
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        if (gbps > 0 && gbps <= 1.1 * ki_constant_gbps(t, keys[i]))
            return keys[i];
    return gbps > 0 ? "xdr" : "net-unknown";
}

static void find_latencies(ki_kind_paths *p)
{
    const kith_node_kind *kind = p->kind;
    static const char *const pcie_keys[] = { NULL, "pcie1", "pcie2", "pcie3", "pcie4", "pcie5", "pcie6" };
    int nvlink = 0, pcie = 0;
    for (int i = 0; i < kind->gpu_count * kind->gpu_count; i++)
        if (kind->links[i].type == KITH_LINK_NVLINK && kind->links[i].generation > nvlink)
            nvlink = kind->links[i].generation;
    for (int g = 0; g < kind->gpu_count; g++)
        if (kind->gpus[g].pcie_generation > pcie && kind->gpus[g].pcie_generation <= 6)
            pcie = kind->gpus[g].pcie_generation;
    p->nvlink_latency_s = latency_s(p->t, ki_nvlink_key(nvlink, false), "nvlink4");
    p->xgmi_latency_s = latency_s(p->t, "xgmi", "nvlink4");
    p->pcie_latency_s = latency_s(p->t, pcie_keys[pcie], "pcie4");
    p->net_latency_s = latency_s(p->t, net_key(p->t, kind), "net-unknown");
}

/* ---- life ---- */

kith_status ki_kind_paths_create(const kith_topology *t, int kind, double domain_gbps, ki_kind_paths **paths)
{
    ki_kind_paths *p = (ki_kind_paths *)ki_calloc(NULL, 1, sizeof *p);
    if (p == NULL)
        return KITH_ERR_NO_MEMORY;
    p->t = t;
    p->domain_gbps = domain_gbps;
    p->kind = kith_topology_kind(t, kind);
    size_t gpus = (size_t)p->kind->gpu_count, nics = (size_t)p->kind->nic_count;
    p->port = new_numbers(p, gpus);
    p->pcie = new_numbers(p, gpus);
    p->pair = new_numbers(p, gpus * gpus);
    p->up = new_numbers(p, (size_t)p->kind->switch_count);
    p->nic = new_numbers(p, nics + 1);
    p->place = new_numbers(p, gpus + nics);
    p->out = (ki_half *)ki_calloc(NULL, gpus + 1, sizeof *p->out);
    p->in = (ki_half *)ki_calloc(NULL, gpus + 1, sizeof *p->in);
    p->is_out_of_memory = p->is_out_of_memory || p->out == NULL || p->in == NULL;
    void (*const steps[])(ki_kind_paths *) = { add_gpus,    add_switches, find_places,
                                               add_sockets, add_network,  find_latencies };
    for (size_t i = 0; !p->is_out_of_memory && i < sizeof steps / sizeof steps[0]; i++)
        steps[i](p);
    if (p->is_out_of_memory) {
        ki_kind_paths_destroy(p);
        return KITH_ERR_NO_MEMORY;
    }
    *paths = p;
    return KITH_OK;
}

void ki_kind_paths_destroy(ki_kind_paths *p)
{
    if (p == NULL)
        return;
    void *const arrays[] = { p->resources, p->port,          p->pcie, p->pair, p->up,   p->nic, p->socket,
                             p->place,     p->place_package, p->out,  p->in,   p->hops, p->nics };
    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++)
        ki_free(NULL, arrays[i]);
    ki_free(NULL, p);
}
