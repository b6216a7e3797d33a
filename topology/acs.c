/* topology/acs.c - see acs.h.
 *
 * The bridges that count are those on the way between two devices: of both chains from the root port down, what is left
 * after the part that they share. Shared bridges are not passed, so what they do does not matter.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "acs.h"

#include "hardware.h"
#include "sysfs.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the configuration space of one bridge ---- */

enum {
    HEADER_TYPE = 0x0e, /* low 7 bits: 1 is a bridge */
    FIRST_EXTENDED = 0x100,
    CAPABILITY_ACS = 0x000d,
    ACS_CONTROL = 6, /* of the capability */
    MOST_CAPABILITIES = (KI_PCI_CONFIG_NBYTES - FIRST_EXTENDED) / 4
};

static unsigned read16(const unsigned char *config, size_t at)
{
    return config[at] | (unsigned)config[at + 1] << 8;
}

static bool is_bridge(const unsigned char *config, size_t nbytes)
{
    if (nbytes < FIRST_EXTENDED + 4)
        return false;
    unsigned vendor = read16(config, 0); /* all ones: the device does not answer */
    return vendor != 0xffff && vendor != 0 && (config[HEADER_TYPE] & 0x7f) == 1;
}

/* Position of the ACS capability; 0: there is none, -1: the list is damaged, or goes on beyond nbytes. */
static int find_acs(const unsigned char *config, size_t nbytes)
{
    size_t at = FIRST_EXTENDED;
    for (int i = 0; i < MOST_CAPABILITIES; i++) {
        if (at + 4 > nbytes)
            return -1;
        unsigned id = read16(config, at), next = read16(config, at + 2) >> 4;
        if (id == CAPABILITY_ACS)
            return at + ACS_CONTROL + 2 <= nbytes ? (int)at : -1;
        if (next == 0)
            return 0;
        if (next < FIRST_EXTENDED || next % 4 != 0) /* also what reads as all ones */
            return -1;
        at = next;
    }
    return -1; /* a circle */
}

ki_acs ki_acs_of_config(const unsigned char *config, size_t nbytes, unsigned *bits)
{
    const unsigned redirecting =
        KI_ACS_SOURCE_VALIDATION | KI_ACS_REQUEST_REDIRECT | KI_ACS_COMPLETION_REDIRECT | KI_ACS_UPSTREAM_FORWARDING;
    *bits = 0;
    int at = is_bridge(config, nbytes) ? find_acs(config, nbytes) : -1;
    if (at <= 0)
        return at < 0 ? KI_ACS_UNCHECKED : KI_ACS_OFF;
    unsigned control = read16(config, (size_t)at + ACS_CONTROL);
    if (control == 0xffff) /* half of the register does not exist: the device is gone */
        return KI_ACS_UNCHECKED;
    *bits = control & redirecting;
    return *bits != 0 ? KI_ACS_ON : KI_ACS_OFF;
}

/* ---- bridges between devices ---- */

/* The bridges above a device, from the root port down. */
typedef struct chain {
    kith_pci_address bridges[KI_SYSFS_MOST_BRIDGES];
    bool is_between[KI_SYSFS_MOST_BRIDGES];
    int count; /* -1: unknown */
} chain;

typedef struct survey {
    chain *chains; /* of all GPUs, then of all NICs */
    int chain_count;
    bool has_unknown; /* a pair one of whose chains is unknown */
    kith_pci_address *list;
    int count, unchecked, redirecting;
    kith_pci_address first; /* that redirects */
    unsigned first_bits;
} survey;

static void compare_pair(survey *s, chain *a, chain *b)
{
    int shared = 0;
    if (a->count < 0 || b->count < 0) {
        s->has_unknown = true;
        return;
    }
    while (shared < a->count && shared < b->count && ki_pci_compare(&a->bridges[shared], &b->bridges[shared]) == 0)
        shared++;
    for (int i = shared; i < a->count; i++)
        a->is_between[i] = true;
    for (int i = shared; i < b->count; i++)
        b->is_between[i] = true;
}

static bool is_over_pcie(const kith_link *link)
{
    return link->type != KITH_LINK_NVLINK && link->type != KITH_LINK_XGMI && link->type != KITH_LINK_C2C;
}

static void compare_all(survey *s, const kith_node_kind *kind)
{
    for (int i = 0; i < kind->gpu_count; i++) {
        for (int j = 0; j < i; j++)
            if (is_over_pcie(&kind->links[i * kind->gpu_count + j]))
                compare_pair(s, &s->chains[i], &s->chains[j]);
        for (int n = 0; n < kind->nic_count; n++)
            if (kind->nic_links[i * kind->nic_count + n].type >= KITH_LINK_PHB)
                compare_pair(s, &s->chains[i], &s->chains[kind->gpu_count + n]);
    }
}

static int compare_addresses(const void *a, const void *b)
{
    return ki_pci_compare((const kith_pci_address *)a, (const kith_pci_address *)b);
}

/* Each bridge once. */
static void list_bridges(survey *s)
{
    int all = 0;
    for (int c = 0; c < s->chain_count; c++)
        for (int i = 0; i < s->chains[c].count; i++)
            if (s->chains[c].is_between[i])
                s->list[all++] = s->chains[c].bridges[i];
    qsort(s->list, (size_t)all, sizeof *s->list, compare_addresses);
    for (int i = 0; i < all; i++)
        if (s->count == 0 || compare_addresses(&s->list[s->count - 1], &s->list[i]) != 0)
            s->list[s->count++] = s->list[i];
}

static void read_bridges(survey *s)
{
    unsigned char config[KI_PCI_CONFIG_NBYTES];
    for (int i = 0; i < s->count; i++) {
        unsigned bits;
        size_t nbytes = ki_sysfs_config(&s->list[i], config, sizeof config);
        ki_acs state = ki_acs_of_config(config, nbytes, &bits);
        s->unchecked += state == KI_ACS_UNCHECKED;
        if (state == KI_ACS_ON && s->redirecting++ == 0) {
            s->first = s->list[i];
            s->first_bits = bits;
        }
    }
}

static void look(survey *s, const kith_node_kind *kind, bool is_here)
{
    for (int i = 0; i < s->chain_count; i++) {
        const kith_pci_address *device =
            i < kind->gpu_count ? &kind->gpus[i].pci : &kind->nics[i - kind->gpu_count].pci;
        s->chains[i].count = is_here ? ki_sysfs_bridges(device, s->chains[i].bridges) : -1;
    }
    compare_all(s, kind);
    list_bridges(s);
    read_bridges(s);
}

/* ---- telling ---- */

static void add_word(char *text, size_t nbytes, bool is_set, const char *word)
{
    size_t used = strlen(text);
    if (is_set)
        snprintf(text + used, nbytes - used, "%s%s", used > 0 ? ", " : "", word);
}

static void tell(kith_topology *t, int k, const survey *s)
{
    char address[24], words[64] = "";
    add_word(words, sizeof words, s->first_bits & KI_ACS_SOURCE_VALIDATION, "SrcValid");
    add_word(words, sizeof words, s->first_bits & KI_ACS_REQUEST_REDIRECT, "ReqRedir");
    add_word(words, sizeof words, s->first_bits & KI_ACS_COMPLETION_REDIRECT, "CmpltRedir");
    add_word(words, sizeof words, s->first_bits & KI_ACS_UPSTREAM_FORWARDING, "UpstreamFwd");
    if (s->redirecting > 0)
        ki_topology_doubt(t, k, -1, NULL, 0, "acs-redirect",
                          "%d of %d PCIe bridges between GPUs, or between GPUs and NICs, send peer-to-peer traffic up "
                          "to the CPU (ACS of %s: %s): it is slow, or hangs behind an IOMMU, whatever the class of the "
                          "link is; switch ACS off in the firmware unless virtual machines need it",
                          s->redirecting, s->count, kith_pci_text(&s->first, address, sizeof address), words);
    if (s->unchecked > 0)
        ki_topology_doubt(t, k, -1, NULL, 0, "acs-unchecked",
                          "whether PCIe bridges send peer-to-peer traffic up to the CPU (ACS) is unchecked for %d of "
                          "%d: root alone may read it; PIX or PXB alone promise no peer-to-peer",
                          s->unchecked, s->count);
    else if (s->has_unknown)
        ki_topology_doubt(t, k, -1, NULL, 0, "acs-unchecked",
                          "whether PCIe bridges send peer-to-peer traffic up to the CPU (ACS) is unchecked: the "
                          "system does not show the bridges above all GPUs and NICs; PIX or PXB alone promise no "
                          "peer-to-peer");
}

void ki_acs_check(kith_topology *t, ki_kind *kind, bool is_here)
{
    survey s = { .chain_count = kind->view.gpu_count + kind->view.nic_count };
    if (kind->view.gpu_count == 0)
        return;
    s.chains = (chain *)ki_topology_alloc(t, (size_t)s.chain_count, sizeof *s.chains);
    s.list = (kith_pci_address *)ki_topology_alloc(t, (size_t)s.chain_count * KI_SYSFS_MOST_BRIDGES, sizeof *s.list);
    if (s.chains == NULL || s.list == NULL)
        return;
    look(&s, &kind->view, is_here);
    tell(t, ki_kind_index(t, kind), &s);
}
