/* topology/place_notes.c - sentences: what was decided and why, and what the reader should worry about.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "place.h"

#include "model.h"
#include "print.h"

#include <math.h>
#include <string.h>

enum { MOST_LISTED = 8 };

static bool is_direct(const kith_link *link)
{
    return link->type == KITH_LINK_NVLINK || link->type == KITH_LINK_XGMI;
}

/* ---- GPUs ---- */

static void add_gpu_list(ki_text *text, const kith_topology *t, const int *gpus, int count)
{
    for (int i = 0; i < count && i < MOST_LISTED; i++)
        ki_text_add(text, "%s%d", i > 0 ? "," : "", ki_print_gpu_number(t, gpus[i]));
    if (count > MOST_LISTED)
        ki_text_add(text, ",... (%d in all)", count);
}

static void add_groups(ki_text *text, const kith_topology *t, const kith_axis_report *axis)
{
    int shown = axis->group_count <= MOST_LISTED ? axis->group_count : 4;
    for (int g = 0; g < shown; g++) {
        ki_text_add(text, " {");
        add_gpu_list(text, t, axis->groups + (size_t)g * (size_t)axis->size, axis->size);
        ki_text_add(text, "}");
    }
    if (axis->group_count > shown)
        ki_text_add(text, " and %d more", axis->group_count - shown);
}

/* ---- what was decided ---- */

static void explain_order(kith_placement *p, const kith_topology *t, const ki_report_input *in)
{
    const kith_axis_report *axis = in->first_axis >= 0 ? &p->axes[in->first_axis] : NULL;
    char now[16], before[16];
    if (in->keeps_order) {
        ki_placement_note(p, false, "the order of the numbers was kept, as asked");
        return;
    }
    if (in->is_identity && in->is_search_worse) {
        ki_placement_note(p, false, "the order of the numbers is kept: it costs less than what the search found");
        return;
    }
    if (in->is_identity || axis == NULL) {
        ki_placement_note(p, false, "the order of the numbers is kept: no other order was found to be better");
        return;
    }
    ki_text groups = { 0 };
    add_groups(&groups, t, axis);
    kith_link_name(&axis->bottleneck, now, sizeof now);
    kith_link_name(&p->first_before, before, sizeof before);
    if (strcmp(now, before) != 0)
        ki_placement_note(p, false, "%s groups%s: %s instead of %s in the order of the numbers%s", axis->name,
                          ki_text_chars(&groups), now, before,
                          ki_link_value(&axis->bottleneck) < ki_link_value(&p->first_before)
                              ? "; what the other axes gain is more"
                              : "");
    else
        ki_placement_note(p, false, "%s groups%s: %s as in the order of the numbers, but better otherwise", axis->name,
                          ki_text_chars(&groups), now);
    ki_text_fini(&groups);
    if (p->cost < p->identity_cost && isfinite(p->identity_cost))
        ki_placement_note(p, false, "a step's communication takes %.4g ms, in the order of the numbers %.4g ms",
                          p->cost * 1e3, p->identity_cost * 1e3);
}

static void explain_partition(kith_placement *p, const ki_report_input *in)
{
    const ki_partition *first = in->first;
    if (first == NULL || in->first_axis < 0 || in->keeps_order)
        return;
    const char *name = ki_axis_names[in->first_axis];
    if (first->is_exact && first->equally_good > 1)
        ki_placement_note(p, false, "%lld partitions of a node into %s groups have links as good as these",
                          (long long)first->equally_good, name);
    if (first->is_exact)
        return;
    bool is_best = first->worst >= first->worst_bound && first->sum >= first->sum_bound;
    if (is_best)
        ki_placement_note(p, false, "the %s groups of a node reach the bound: no partition has better links", name);
    else
        ki_placement_note(
            p, true,
            "a node has more than %d GPUs, so its %s groups were searched for: their links are worth %.4g, "
            "and no partition can have more than %.4g",
            KI_EXACT_UNITS, name, (double)first->sum / 100, (double)first->sum_bound / 100);
}

static void explain_switches(kith_placement *p, const ki_report_input *in)
{
    if (in->cut.bytes <= 0 && in->identity_cut.bytes <= 0)
        return;
    if (in->cut.bytes < in->identity_cut.bytes)
        ki_placement_note(p, false,
                          "nodes are ordered by switch: %.4g GB of a step go over switches (times the levels they "
                          "climb), in the order of the numbers %.4g GB, at least %.4g GB",
                          in->cut.bytes / 1e9, in->identity_cut.bytes / 1e9, in->cut.at_least / 1e9);
    else
        ki_placement_note(p, false,
                          "%.4g GB of a step go over switches (times the levels they climb), at least %.4g GB however "
                          "nodes are ordered",
                          in->cut.bytes / 1e9, in->cut.at_least / 1e9);
}

/* ---- what to worry about ---- */

static int count_lost(const kith_placement *p, const kith_topology *t)
{
    int count = 0, node, gpu;
    for (int i = 0; i < p->leftover_count; i++)
        count += kith_topology_locate(t, p->leftover[i], &node, &gpu) &&
                 kith_topology_kind(t, kith_topology_node(t, node)->kind)->gpus[gpu].is_lost;
    return count;
}

static void warn_leftover(kith_placement *p, const kith_topology *t)
{
    ki_text list = { 0 };
    int lost = count_lost(p, t);
    if (p->leftover_count == 0)
        return;
    add_gpu_list(&list, t, p->leftover, p->leftover_count);
    if (lost > 0)
        ki_text_add(&list, "; %d of them %s not answer", lost, lost == 1 ? "does" : "do");
    ki_placement_note(p, true, "%d of %d GPUs have no rank: %s", p->leftover_count, kith_topology_gpu_count(t),
                      ki_text_chars(&list));
    ki_text_fini(&list);
}

static void warn_mig(kith_placement *p, const kith_topology *t)
{
    for (int r = 0; r < p->rank_count; r++) {
        int node, gpu;
        if (!kith_topology_locate(t, p->gpus[r], &node, &gpu))
            continue;
        const kith_gpu *got = &kith_topology_kind(t, kith_topology_node(t, node)->kind)->gpus[gpu];
        if (!got->is_mig)
            continue;
        ki_placement_note(p, true, "rank %d is on GPU %d of %s, which is split by MIG: no NVLink and no peer-to-peer",
                          r, got->index, kith_topology_node(t, node)->name);
        return;
    }
}

/* A mask or a control group shows each rank its own GPU alone: then peers cannot be opened. */
static void warn_lone(kith_placement *p, const kith_topology *t)
{
    const kith_node_kind *kind = p->axes[KI_TP].size > 1 ? ki_topology_lone_gpu(t) : NULL;
    if (kind != NULL)
        ki_placement_note(
            p, true,
            "tp is %d, and this process sees one of %d GPUs of %s: where each rank sees its own GPU alone, "
            "peer-to-peer and IPC between ranks may be off; let each see all GPUs of its node",
            p->axes[KI_TP].size, kind->gpu_count, kind->name);
}

/* NVLink domain of a GPU; -1: none. */
static int domain_of(const kith_topology *t, int global_gpu)
{
    int node, gpu;
    if (!kith_topology_locate(t, global_gpu, &node, &gpu))
        return -1;
    int domain = kith_topology_node(t, node)->domain;
    return domain >= 0 && kith_topology_domain(t, domain)->is_nvlink ? domain : -1;
}

/* Widest NVLink that members of the first group have to anyone, in their nodes and their domains; 0: none. */
static double widest_direct(const kith_topology *t, const kith_axis_report *axis)
{
    double widest = 0;
    int node, gpu;
    for (int i = 0; i < axis->size && i < KI_MAX_GPUS; i++) {
        if (!kith_topology_locate(t, axis->groups[i], &node, &gpu))
            continue;
        const kith_node_kind *kind = kith_topology_kind(t, kith_topology_node(t, node)->kind);
        int domain = domain_of(t, axis->groups[i]);
        if (domain >= 0 && kith_topology_domain(t, domain)->gbps > widest)
            widest = kith_topology_domain(t, domain)->gbps;
        for (int j = 0; j < kind->gpu_count; j++) {
            const kith_link *link = &kind->links[gpu * kind->gpu_count + j];
            if (is_direct(link) && link->gbps > widest)
                widest = link->gbps;
        }
    }
    return widest;
}

static void warn_leaving(kith_placement *p, const kith_topology *t, int a)
{
    const kith_axis_report *axis = &p->axes[a];
    char link[16];
    if (axis->size == 1 || !axis->leaves_nvlink || axis->bottleneck_from < 0)
        return;
    double nvlink = widest_direct(t, axis);
    if (nvlink <= 0 || axis->cost.gbps > nvlink) /* several NICs can carry more than the NVLinks of a pair */
        return;
    kith_link_name(&axis->bottleneck, link, sizeof link);
    int from = ki_print_gpu_number(t, axis->bottleneck_from), to = ki_print_gpu_number(t, axis->bottleneck_to);
    if (axis->cost.gbps > 0)
        ki_placement_note(p, true,
                          "%s groups of %d leave NVLink: between GPUs %d and %d they need %s, %.4g GB/s where NVLink "
                          "has %.4g (%.3g times less)",
                          axis->name, axis->size, from, to, link, axis->cost.gbps, nvlink, nvlink / axis->cost.gbps);
    else
        ki_placement_note(p, true, "%s groups of %d leave NVLink: between GPUs %d and %d they need %s", axis->name,
                          axis->size, from, to, link);
}

static void warn_unknown_nvlink(kith_placement *p, const kith_topology *t, const ki_report_input *in)
{
    for (int i = 0; i < in->islands->count; i++) {
        int k = in->islands->islands[i].kind;
        if (k >= 0 && kith_topology_kind(t, k)->nvlink == KITH_UNKNOWN && kith_topology_kind(t, k)->gpu_count > 1) {
            ki_placement_note(p, true,
                              "%s does not tell about NVLink, so groups are placed by PCI and sockets alone; whether "
                              "they leave NVLink is not known",
                              kith_topology_kind(t, k)->name);
            return;
        }
    }
}

static void warn_unknown_cost(kith_placement *p, const kith_topology *t, int a)
{
    const kith_axis_report *axis = &p->axes[a];
    char link[16];
    if (!isfinite(axis->cost.time_s))
        ki_placement_note(p, true,
                          "what %s groups cost is not known: they need a link of unknown bandwidth (%s between GPUs %d "
                          "and %d at the narrowest)",
                          axis->name, kith_link_name(&axis->bottleneck, link, sizeof link),
                          ki_print_gpu_number(t, axis->bottleneck_from), ki_print_gpu_number(t, axis->bottleneck_to));
}

/* Groups of the axes that talk most should not go from one NVLink domain to another. */
static void warn_domains(kith_placement *p, const kith_topology *t, int a)
{
    const kith_axis_report *axis = &p->axes[a];
    int crossing = 0, first = -1;
    for (int g = 0; axis->size > 1 && g < axis->group_count; g++) {
        const int *group = axis->groups + (size_t)g * (size_t)axis->size;
        int domain = domain_of(t, group[0]), i = 1;
        while (i < axis->size && domain_of(t, group[i]) == domain)
            i++;
        if (i < axis->size && crossing++ == 0)
            first = g;
    }
    if (crossing > 0)
        ki_placement_note(p, true, "%d of %d %s groups go over more than one NVLink domain, the first is group %d",
                          crossing, axis->group_count, axis->name, first);
}

void ki_placement_explain(kith_placement *p, const kith_topology *t, const ki_report_input *in)
{
    explain_order(p, t, in);
    explain_partition(p, in);
    explain_switches(p, in);
    warn_leftover(p, t);
    warn_mig(p, t);
    warn_lone(p, t);
    warn_unknown_nvlink(p, t, in);
    for (int a = 0; a < KI_AXES; a++)
        warn_unknown_cost(p, t, a);
    for (int a = KI_TP; a <= KI_EP; a++)
        warn_leaving(p, t, a);
    for (int a = KI_TP; a <= KI_EP && kith_topology_domain_count(t) > 0; a++)
        warn_domains(p, t, a);
}
