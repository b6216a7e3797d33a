/* topology/read_nccl.c - NCCL topology XML: what NCCL_TOPO_DUMP_FILE writes and what clouds ship for NCCL_TOPO_FILE.
 *
 *     <system> <cpu numaid affinity> <pci busid class> ... <pci> <gpu dev sm> <nvlink target count/>
 *                                                            <nic> <net name speed guid/>
 *
 * A <cpu> is a NUMA node. Shipped files often leave <gpu> and <nic> out: there the class of the <pci> tells. RCCL's
 * files are the same with <xgmi> and gcn. Only NUMA nodes that have devices are listed, so the model of the CPUs is
 * not whole. GPUs stand in the order of "dev", those without it in the order of the PCI bus, as nvidia-smi counts.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "nccl.h"

#include "core/base/mem.h"
#include "sets.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PROBE_NBYTES = 64 * 1024, REASON_NBYTES = 200 };

void ki_nccl_refuse(ki_nccl *n, const ki_xml *element, const char *format, ...)
{
    char why[REASON_NBYTES];
    if (n->status != KITH_OK)
        return;
    va_list list;
    va_start(list, format);
    vsnprintf(why, sizeof why, format, list);
    va_end(list);
    n->status = ki_fail_quiet(KITH_ERR_INVALID_ARG, "%s:%d: %s", n->source->name, element->line, why);
}

static bool is_named(const ki_xml *element, const char *name)
{
    return strcmp(element->name, name) == 0;
}

int ki_nccl_number(ki_nccl *n, const ki_xml *element, const char *attribute)
{
    const char *text = ki_xml_get(element, attribute);
    if (text == NULL || strcmp(text, "-1") == 0)
        return -1;
    int value = ki_text_number(text, 10);
    if (value < 0)
        ki_nccl_refuse(n, element, "%s of <%s> is '%.40s'; valid: a number", attribute, element->name, text);
    return value;
}

kith_pci_address ki_nccl_address(ki_nccl *n, const ki_xml *pci)
{
    kith_pci_address address = { .is_known = false };
    const char *text = pci != NULL ? ki_xml_get(pci, "busid") : NULL;
    if (pci != NULL && ki_pci_parse(text, &address) == KI_PCI_BAD)
        ki_nccl_refuse(n, pci, "busid of <pci> is '%.40s'; valid: like 0000:1b:00.0", text != NULL ? text : "");
    return address;
}

int ki_nccl_hex(const ki_xml *element, const char *attribute)
{
    return element != NULL ? ki_text_number(ki_xml_get(element, attribute), 16) : -1;
}

/* ---- finding the devices ---- */

static void add_device(ki_nccl *n, ki_nccl_device *devices, int *count, int limit, const ki_nccl_device *device,
                       const char *what)
{
    if (*count == limit)
        ki_nccl_refuse(n, device->element, "more than %d %s", limit, what);
    else
        devices[(*count)++] = *device;
}

static void add_gpu(ki_nccl *n, ki_nccl_device device, const ki_xml *element)
{
    device.element = element;
    device.dev = ki_nccl_number(n, element, "dev");
    for (int i = 0; i < n->gpu_count && device.dev >= 0; i++)
        if (n->gpus[i].dev == device.dev)
            ki_nccl_refuse(n, element, "two GPUs have dev %d", device.dev);
    add_device(n, n->gpus, &n->gpu_count, KI_MAX_GPUS, &device, "GPUs");
}

static void add_nic(ki_nccl *n, ki_nccl_device device, const ki_xml *element)
{
    device.element = element;
    device.dev = ki_nccl_number(n, element, "dev");
    add_device(n, n->nics, &n->nic_count, KI_MAX_NICS, &device, "NICs");
}

static void add_nets(ki_nccl *n, ki_nccl_device device, const ki_xml *nic)
{
    for (const ki_xml *net = nic->first; net != NULL; net = net->next)
        if (is_named(net, "net"))
            add_nic(n, device, net);
}

/* A <pci> with nothing inside: its class tells. Vendors are often left out; then the class alone must be enough. */
static void add_by_class(ki_nccl *n, ki_nccl_device device)
{
    int class_id = ki_pci_class(ki_xml_get(device.pci, "class")), vendor = ki_nccl_hex(device.pci, "vendor");
    if (class_id < 0) {
        n->unknown_count++;
        n->unknown = n->unknown != NULL ? n->unknown : device.pci;
    } else if (class_id == KI_PCI_ETHERNET || class_id == KI_PCI_INFINIBAND)
        add_nic(n, device, device.pci);
    else if (ki_pci_is_gpu(class_id, vendor) ||
             (vendor < 0 && (class_id == KI_PCI_3D || class_id == KI_PCI_ACCELERATOR)))
        add_gpu(n, device, device.pci);
}

/* The switch of a <pci>. Several elements with one bus id at one place are one switch. */
static int add_switch(ki_nccl *n, const ki_xml *pci, int parent, int cpu)
{
    kith_pci_address address = ki_nccl_address(n, pci);
    for (int i = n->kind->view.switch_count - 1; i >= 0 && address.is_known; i--)
        if (n->kind->view.switches[i].parent == parent && ki_pci_compare(&n->kind->view.switches[i].pci, &address) == 0)
            return i;
    kith_pci_switch *added = ki_kind_add_switch(n->t, n->kind);
    int generation, width;
    added->parent = parent;
    added->pci = address;
    for (int i = 0; i < n->kind->view.numa_count; i++)
        if (n->kind->view.numas[i].os_index == n->cpus[cpu].numaid)
            added->numa = i;
    ki_pcie_link(n->t, ki_xml_get(pci, "link_speed"), ki_xml_get(pci, "link_width"), &generation, &width, &added->gbps);
    n->has_bridges = true;
    return n->kind->view.switch_count - 1;
}

static bool has_child(const ki_xml *element, const char *name)
{
    for (const ki_xml *child = element->first; child != NULL; child = child->next)
        if (is_named(child, name))
            return true;
    return false;
}

/* The children of a <cpu> or <pci>. Recursion is bounded: libxml2 refuses more than 256 levels. */
static void find_devices(ki_nccl *n, const ki_xml *parent, const ki_xml *pci, int above, int cpu)
{
    for (const ki_xml *child = parent->first; child != NULL && n->status == KITH_OK; child = child->next) {
        ki_nccl_device device = { .pci = pci, .cpu = cpu, .pci_switch = above, .dev = -1 };
        if (is_named(child, "gpu"))
            add_gpu(n, device, child);
        else if (is_named(child, "nic"))
            add_nets(n, device, child);
        else if (!is_named(child, "pci"))
            continue;
        else if (has_child(child, "pci"))
            find_devices(n, child, child, add_switch(n, child, above, cpu), cpu);
        else if (has_child(child, "gpu") || has_child(child, "nic"))
            find_devices(n, child, child, above, cpu);
        else {
            device.pci = child;
            add_by_class(n, device);
        }
    }
}

/* ---- CPUs ---- */

static const char *list_of_mask(ki_nccl *n, const ki_xml *element, const char *mask)
{
    ki_cpuset set;
    if (mask == NULL)
        return NULL;
    if (!ki_cpuset_parse_mask(mask, &set)) {
        ki_nccl_refuse(n, element, "affinity of <cpu> is '%.60s'; valid: a mask like 0000ffff,ffffffff", mask);
        return NULL;
    }
    size_t nbytes = (size_t)set.count * 6 + 16; /* "65535," each at most */
    char *list = (char *)ki_topology_alloc(n->t, nbytes, 1);
    if (list != NULL)
        ki_cpuset_text(&set, list, nbytes);
    ki_cpuset_fini(&set);
    return list;
}

static void check_host(ki_nccl *n, const ki_xml *cpu)
{
    const char *host = ki_xml_get(cpu, "host_hash"), *first = ki_xml_get(n->cpus[0].element, "host_hash");
    if (host != NULL && first != NULL && strcmp(host, first) != 0)
        ki_nccl_refuse(n, cpu, "the CPUs are of several hosts (host_hash differs); give the file of one host");
}

static void add_cpu(ki_nccl *n, const ki_xml *element)
{
    if (n->cpu_count == KI_NCCL_MOST_CPUS) {
        ki_nccl_refuse(n, element, "more than %d <cpu>", KI_NCCL_MOST_CPUS);
        return;
    }
    ki_nccl_cpu *cpu = &n->cpus[n->cpu_count++];
    *cpu = (ki_nccl_cpu){ .element = element, .numaid = ki_nccl_number(n, element, "numaid") };
    cpu->cpus = list_of_mask(n, element, ki_xml_get(element, "affinity"));
    check_host(n, element);
    if (cpu->numaid < 0)
        return;
    for (int i = 0; i + 1 < n->cpu_count; i++)
        if (n->cpus[i].numaid == cpu->numaid)
            ki_nccl_refuse(n, element, "two CPUs have numaid %d", cpu->numaid);
    kith_numa *numa = ki_kind_add_numa(n->t, n->kind);
    numa->os_index = cpu->numaid;
    numa->cpus = cpu->cpus;
}

static void find_cpus(ki_nccl *n, const ki_xml *system)
{
    for (const ki_xml *cpu = system->first; cpu != NULL && n->status == KITH_OK; cpu = cpu->next)
        if (is_named(cpu, "cpu"))
            add_cpu(n, cpu);
    if (n->status != KITH_OK)
        return;
    if (n->cpu_count == 0) {
        ki_nccl_refuse(n, system, "<%s> has no <cpu>", system->name);
        return;
    }
    const ki_xml *first = n->cpus[0].element;
    ki_kind_set_cpu(n->t, n->kind, ki_xml_get(first, "vendor"), ki_xml_get(first, "arch"),
                    ki_nccl_number(n, first, "familyid"), ki_nccl_number(n, first, "modelid"));
    for (int i = 0; i < n->cpu_count; i++)
        find_devices(n, n->cpus[i].element, NULL, -1, i);
}

static void read_system(ki_nccl *n, const ki_xml *system)
{
    n->kind = ki_topology_add_kind(n->t, n->source->name, "NCCL XML");
    find_cpus(n, system);
    if (n->status != KITH_OK)
        return;
    ki_nccl_build(n);
}

static kith_status read_tree(const ki_source *source, kith_topology *t, const ki_xml *root)
{
    if (is_named(root, "graphs"))
        return ki_fail_quiet(KITH_ERR_UNSUPPORTED,
                             "%s: an NCCL graph dump (NCCL_GRAPH_DUMP_FILE), not a topology (NCCL_TOPO_DUMP_FILE)",
                             source->name);
    if (!is_named(root, "system"))
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "%s:%d: an NCCL topology begins with <system>, not <%.40s>",
                             source->name, root->line, root->name);
    ki_nccl *n = (ki_nccl *)ki_calloc(NULL, 1, sizeof *n);
    if (n == NULL)
        return KITH_ERR_NO_MEMORY;
    n->t = t;
    n->source = source;
    read_system(n, root);
    kith_status status = n->status;
    ki_free(NULL, n);
    return status != KITH_OK ? status : ki_topology_status(t);
}

static kith_status read_nccl(const ki_source *source, kith_topology *t)
{
    ki_xml *root = NULL;
    kith_status status = ki_xml_parse(source->name, source->text, source->nbytes, &root);
    if (status != KITH_OK)
        return status;
    status = read_tree(source, t, root);
    ki_xml_free(root);
    return status;
}

static int probe_nccl(const ki_source *source)
{
    if (ki_source_has(source, "<graphs", PROBE_NBYTES))
        return 90;
    return ki_source_has(source, "<system", PROBE_NBYTES) && ki_source_has(source, "<cpu", PROBE_NBYTES) ? 90 : 0;
}

const ki_reader ki_reader_nccl = { "NCCL XML", probe_nccl, read_nccl };
