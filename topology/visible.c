/* topology/visible.c - see visible.h.
 *
 * Numbers in CUDA_VISIBLE_DEVICES count in CUDA's order. That is the order of the PCI bus when CUDA_DEVICE_ORDER says
 * so, and also when all GPUs are of one model; else it is by speed, and a mask of numbers cannot be resolved here.
 * UUIDs always can. As in CUDA the list ends at the first entry that names nothing. ROCr's mask comes first, HIP's
 * counts in what that leaves.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "visible.h"

#include "hardware.h"
#include <stdlib.h>
#include <string.h>

typedef struct mask {
    kith_topology *t;
    ki_kind *kind;
    const char *name, *value, *vendor;
    int list[KI_MAX_GPUS]; /* the GPUs that numbers count in */
    int count;
    bool is_shown[KI_MAX_GPUS];
} mask;

static bool is_of_vendor(const kith_gpu *gpu, const char *vendor)
{
    return gpu->vendor != NULL && strcmp(gpu->vendor, vendor) == 0;
}

/* What the driver shows, in the kind's order (PCI). */
static void list_gpus(mask *m)
{
    for (int i = 0; i < m->kind->view.gpu_count; i++)
        if (is_of_vendor(&m->kind->view.gpus[i], m->vendor) && m->kind->view.gpus[i].is_allowed)
            m->list[m->count++] = i;
}

static bool is_pci_order(const mask *m)
{
    const char *order = getenv("CUDA_DEVICE_ORDER");
    if (strcmp(m->vendor, "nvidia") != 0 || (order != NULL && strcmp(order, "PCI_BUS_ID") == 0))
        return true;
    for (int i = 1; i < m->count; i++) {
        const char *a = m->kind->view.gpus[m->list[i]].name, *b = m->kind->view.gpus[m->list[0]].name;
        if (a == NULL || b == NULL || strcmp(a, b) != 0)
            return false;
    }
    return true;
}

/* Position of the GPU that an entry names; -1: none. A UUID may be cut as long as it is clear. */
static int find_entry(const mask *m, const char *entry, size_t length)
{
    char text[128];
    int found = -1;
    if (length == 0 || length >= sizeof text)
        return -1;
    memcpy(text, entry, length);
    text[length] = '\0';
    int number = ki_text_number(text, 10);
    if (number >= 0)
        return number < m->count ? m->list[number] : -1;
    for (int i = 0; i < m->count; i++) {
        const char *uuid = m->kind->view.gpus[m->list[i]].uuid;
        if (uuid == NULL || strncmp(uuid, text, length) != 0)
            continue;
        if (found >= 0)
            return -1;
        found = m->list[i];
    }
    return found;
}

static bool has_numbers(const char *value)
{
    while (*value == ' ')
        value++;
    return *value >= '0' && *value <= '9';
}

static int show_entries(mask *m)
{
    int shown = 0;
    for (const char *c = m->value; *c != '\0';) {
        size_t blanks = strspn(c, " "), length = strcspn(c + blanks, ",");
        int i = find_entry(m, c + blanks, length - (length > 0 && c[blanks + length - 1] == ' '));
        if (i < 0)
            break;
        shown += !m->is_shown[i];
        m->is_shown[i] = true;
        c += blanks + length;
        c += *c == ',';
    }
    return shown;
}

static void apply(kith_topology *t, ki_kind *kind, const char *name, const char *vendor)
{
    mask m = { .t = t, .kind = kind, .name = name, .value = getenv(name), .vendor = vendor };
    int k = ki_kind_index(t, kind);
    list_gpus(&m);
    if (m.value == NULL || m.count == 0)
        return;
    if (strstr(m.value, "MIG-") != NULL) {
        ki_topology_doubt(t, k, -1, NULL, 0, "device-mask",
                          "%s names MIG instances; which GPUs they are on is unchecked", name);
        return;
    }
    if (has_numbers(m.value) && !is_pci_order(&m)) {
        ki_topology_doubt(t, k, -1, NULL, 0, "device-mask",
                          "%s=%.100s counts in CUDA's order, by speed, and the GPUs differ; it is left out of account; "
                          "set CUDA_DEVICE_ORDER=PCI_BUS_ID",
                          name, m.value);
        return;
    }
    int shown = show_entries(&m);
    for (int i = 0; i < m.count; i++)
        if (!m.is_shown[m.list[i]])
            ((kith_gpu *)(uintptr_t)&kind->view.gpus[m.list[i]])->is_allowed = false;
    if (shown < m.count)
        ki_topology_doubt(t, k, -1, NULL, 0, "device-mask", "%s=%.100s shows %d of %d GPUs to this process%s", name,
                          m.value, shown, m.count,
                          shown == 1 ? "; ranks of one tp group that see one GPU each may have no peer-to-peer" : "");
}

void ki_visible_apply(kith_topology *t, ki_kind *kind)
{
    apply(t, kind, "CUDA_VISIBLE_DEVICES", "nvidia");
    apply(t, kind, "ROCR_VISIBLE_DEVICES", "amd");
    apply(t, kind, "HIP_VISIBLE_DEVICES", "amd");
}
