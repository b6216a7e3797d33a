/* topology/read_hwloc.c - hwloc XML, versions 1.x and 2.x, through hwloc's own import.
 *
 * hwloc prints why it refuses a file, or does not say it at all, and crashes on some damage; so the text is checked
 * before (hwloc_check.c), with reasons and lines, and hwloc gets what it would write itself.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "hardware.h"
#include "reader.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int probe_hwloc(const ki_source *source)
{
    enum { BEGINNING = 64 * 1024 };
    if (ki_source_has(source, "SYSTEM \"hwloc", BEGINNING))
        return 95;
    return ki_source_has(source, "<topology", BEGINNING) && ki_source_has(source, "<object", BEGINNING) ? 90 : 0;
}

#ifdef KITH_HAVE_HWLOC
#include "hwloc_check.h"
#include "hwloc_kind.h"

/* Hypervisors name themselves as the product. */
static void find_machine(ki_hwloc *h)
{
    static const char *const names[] = {
        "KVM", "Virtual Machine", "HVM domU", "VMware", "QEMU", "OpenStack", "Google"
    };
    const char *product = hwloc_obj_get_info_by_name(hwloc_get_root_obj(h->hw), "DMIProductName");
    bool is_virtual = false, is_tree = h->gpu_count == 0;
    for (size_t i = 0; product != NULL && i < sizeof names / sizeof names[0]; i++)
        is_virtual = is_virtual || strstr(product, names[i]) != NULL;
    for (int i = 0; i < h->gpu_count; i++)
        is_tree = is_tree || h->kind->view.gpus[i].pci_switch >= 0;
    if (!is_virtual || is_tree)
        return;
    h->kind->view.is_virtual = true;
    ki_topology_doubt(h->t, ki_kind_index(h->t, h->kind), -1, h->kind->file, 0, "vm-pcie-hidden",
                      "a virtual machine (%.60s) that hides its PCIe tree; the real paths may differ", product);
}

static void describe(const ki_source *source, kith_topology *t, hwloc_topology_t hw)
{
    ki_hwloc h = { .t = t, .hw = hw };
    ki_hwloc_find(&h, source->name, "hwloc XML");
    if (t->status == KITH_OK)
        ki_hwloc_build(&h);
    if (t->status == KITH_OK)
        ki_hwloc_near(&h);
    if (t->status == KITH_OK)
        ki_hwloc_links(&h);
    if (t->status == KITH_OK)
        find_machine(&h);
}

static kith_status read_hwloc(const ki_source *source, kith_topology *t)
{
    hwloc_topology_t hw = NULL;
    kith_status status = ki_hwloc_check(source);
    if (status != KITH_OK)
        return status;
    if (hwloc_topology_init(&hw) != 0)
        return ki_fail(KITH_ERR_NO_MEMORY, "%s: no memory for hwloc", source->name);
    ki_hwloc_configure(hw);
    if (hwloc_topology_set_xmlbuffer(hw, source->text, (int)source->nbytes + 1) != 0 || hwloc_topology_load(hw) != 0)
        status = ki_fail_quiet(KITH_ERR_INVALID_ARG,
                               "%s: hwloc " HWLOC_VERSION " refuses the file (HWLOC_XML_VERBOSE=1 makes it print why)",
                               source->name);
    else
        describe(source, t, hw);
    hwloc_topology_destroy(hw);
    return status != KITH_OK ? status : ki_topology_status(t);
}

#else

static kith_status read_hwloc(const ki_source *source, kith_topology *t)
{
    (void)t;
    return ki_fail_quiet(KITH_ERR_UNSUPPORTED, "%s: hwloc XML cannot be read: Kith was built without libhwloc-dev",
                         source->name);
}

#endif

const ki_reader ki_reader_hwloc = { "hwloc XML", probe_hwloc, read_hwloc };
