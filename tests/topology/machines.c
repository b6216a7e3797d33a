/* tests/topology/machines.c - see machines.h.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "machines.h"

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

kith_topology *machine_new(void)
{
    kith_topology *t = NULL;
    if (ki_topology_create(NULL, &t) != KITH_OK)
        fail_msg("%s", kith_error_detail());
    return t;
}

void machine_finish(kith_topology *t)
{
    if (ki_topology_finish(t) != KITH_OK)
        fail_msg("%s", kith_error_detail());
}

static void set_word(ki_kind *kind, int i, int j, const char *word)
{
    static const struct {
        const char *word;
        kith_link_type type;
    } words[] = { { "SYS", KITH_LINK_SYS }, { "NODE", KITH_LINK_NODE }, { "PHB", KITH_LINK_PHB },
                  { "PXB", KITH_LINK_PXB }, { "PIX", KITH_LINK_PIX },   { "?", KITH_LINK_UNKNOWN } };
    if (strncmp(word, "NV", 2) == 0) {
        ki_kind_set_link(kind, i, j, KITH_LINK_NVLINK, atoi(word + 2), KITH_KNOWN);
        return;
    }
    if (strncmp(word, "XGMI", 4) == 0) {
        ki_kind_set_link(kind, i, j, KITH_LINK_XGMI, atoi(word + 4), KITH_KNOWN);
        return;
    }
    for (size_t w = 0; w < sizeof words / sizeof words[0]; w++)
        if (strcmp(words[w].word, word) == 0) {
            ki_kind_set_link(kind, i, j, words[w].type, 0, KITH_KNOWN);
            return;
        }
    fail_msg("a test's matrix has the word '%s'", word);
}

ki_kind *machine_add_kind(kith_topology *t, int gpu_count, const char *matrix, const int *numas)
{
    ki_kind *kind = ki_topology_add_kind(t, "test", "nvidia-smi topo -m");
    for (int g = 0; g < gpu_count; g++) {
        char text[16];
        kith_gpu *gpu = ki_kind_add_gpu(t, kind);
        snprintf(text, sizeof text, "%d", numas != NULL ? numas[g] : 0);
        if (numas != NULL)
            ki_gpu_set_numas(t, gpu, text, "test");
    }
    ki_kind_make_links(t, kind);
    kind->view.nvlink = KITH_KNOWN;
    char *copy = strdup(matrix), *rest = copy, *word;
    for (int i = 0; i < gpu_count * gpu_count && (word = strtok_r(rest, " \n", &rest)) != NULL; i++)
        if (i / gpu_count < i % gpu_count)
            set_word(kind, i / gpu_count, i % gpu_count, word);
    free(copy);
    return kind;
}

kith_topology *machine_of_matrix(int gpu_count, const char *matrix, const int *numas)
{
    kith_topology *t = machine_new();
    machine_add_kind(t, gpu_count, matrix, numas);
    ki_topology_add_node(t, "node0", 0);
    machine_finish(t);
    return t;
}

ki_kind *machine_add_uniform(kith_topology *t, int gpu_count, const char *link, int nics)
{
    ki_kind *kind = machine_add_kind(t, gpu_count, "", NULL);
    for (int n = 0; n < nics; n++) {
        char name[24];
        snprintf(name, sizeof name, "mlx5_%d", n);
        kith_nic *nic = ki_kind_add_nic(t, kind);
        nic->name = nic->device = ki_topology_dup(t, name);
        nic->fabric = "infiniband";
        nic->gbps = 50;
    }
    ki_kind_make_links(t, kind);
    for (int i = 0; i < gpu_count; i++)
        for (int j = 0; j < i; j++)
            set_word(kind, i, j, link);
    for (int g = 0; g < gpu_count; g++)
        for (int n = 0; n < nics; n++) {
            kith_link *near = ki_kind_nic_link(kind, g, n);
            near->type = g / 2 % nics == n ? KITH_LINK_PXB : KITH_LINK_SYS;
            near->certainty = KITH_KNOWN;
        }
    return kind;
}

void machine_add_tree(kith_topology *t, int kind, const int *nodes_per_leaf, int leaf_count, int leaves_per_spine,
                      bool is_shuffled)
{
    char name[24];
    int total = 0, *left = (int *)calloc((size_t)leaf_count, sizeof *left);
    int first = t->switch_count, spines = (leaf_count + leaves_per_spine - 1) / leaves_per_spine;
    ki_topology_add_switch(t, "root", -1)->level = 2;
    for (int s = 0; s < spines; s++) {
        snprintf(name, sizeof name, "spine%d", s);
        ki_topology_add_switch(t, name, first)->level = 1;
    }
    for (int l = 0; l < leaf_count; l++) {
        snprintf(name, sizeof name, "leaf%d", l);
        kith_switch *leaf = ki_topology_add_switch(t, name, first + 1 + l / leaves_per_spine);
        leaf->uplink_count = 4;
        leaf->uplink_gbps = 50;
        total += left[l] = nodes_per_leaf[l];
    }
    for (int n = 0, l = 0; n < total; n++) {
        while (left[l] == 0)
            l = (l + 1) % leaf_count;
        left[l]--;
        snprintf(name, sizeof name, "n%d", t->node_count + 1);
        ki_topology_add_node(t, name, kind)->leaf = first + 1 + spines + l;
        l = is_shuffled ? (l + 1) % leaf_count : l;
    }
    free(left);
}

/* ---- other numbers ---- */

void machine_renumber(kith_topology *t, int kind_index, const int *number)
{
    const kith_node_kind *kind = kith_topology_kind(t, kind_index);
    size_t n = (size_t)kind->gpu_count, m = (size_t)kind->nic_count;
    kith_gpu *gpus = (kith_gpu *)calloc(n + 1, sizeof *gpus);
    kith_link *links = (kith_link *)calloc(n * (n + m) + 1, sizeof *links), *to_nics = links + n * n;
    for (size_t i = 0; i < n; i++) {
        size_t at = (size_t)number[i];
        gpus[at] = kind->gpus[i];
        for (size_t j = 0; j < n; j++)
            links[at * n + (size_t)number[j]] = kind->links[i * n + j];
        for (size_t nic = 0; nic < m; nic++)
            to_nics[at * m + nic] = kind->nic_links[i * m + nic];
    }
    for (size_t i = 0; i < n; i++)
        ((kith_gpu *)(uintptr_t)kind->gpus)[i] = gpus[i];
    for (size_t i = 0; i < n * n; i++)
        ((kith_link *)(uintptr_t)kind->links)[i] = links[i];
    for (size_t i = 0; i < n * m; i++)
        ((kith_link *)(uintptr_t)kind->nic_links)[i] = to_nics[i];
    free(gpus);
    free(links);
}

void machine_shuffle(int *numbers, int count, unsigned seed)
{
    uint64_t state = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
    for (int i = 0; i < count; i++)
        numbers[i] = i;
    for (int i = count - 1; i > 0 && seed > 0; i--) {
        state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        int j = (int)((state >> 33) % (uint64_t)(i + 1)), other = numbers[i];
        numbers[i] = numbers[j];
        numbers[j] = other;
    }
}

/* ---- brute force ---- */

typedef struct brute {
    const int *value;
    int n, k;
    int group[10], order[10];
    brute_answer best;
} brute;

/* Best ring of members[0..k) by all orders. */
static int try_rings(const brute *b, int *members, int at)
{
    if (at == b->k) {
        int worst = INT_MAX;
        for (int i = 0; i < b->k && b->k > 1; i++) {
            int link = b->value[members[i] * b->n + members[(i + 1) % b->k]];
            worst = link < worst ? link : worst;
        }
        return worst;
    }
    int best = -1;
    for (int i = at; i < b->k; i++) {
        int member = members[i];
        members[i] = members[at];
        members[at] = member;
        int got = try_rings(b, members, at + 1);
        best = got > best ? got : best;
        members[at] = members[i];
        members[i] = member;
    }
    return best;
}

/* group_of: group of each unit, -1: left over. */
static void judge(brute *b, const int *group_of, int group_count)
{
    brute_answer got = { INT_MAX, 0, 1 };
    for (int g = 0; g < group_count; g++) {
        int members[10], count = 0;
        for (int i = 0; i < b->n; i++)
            if (group_of[i] == g)
                members[count++] = i;
        for (int i = 0; i < count; i++)
            for (int j = 0; j < i; j++)
                got.sum += b->value[members[i] * b->n + members[j]];
        int ring = try_rings(b, members, 1);
        got.worst = ring < got.worst ? ring : got.worst;
    }
    if (got.worst == b->best.worst && got.sum == b->best.sum)
        b->best.ways++;
    else if (got.worst > b->best.worst || (got.worst == b->best.worst && got.sum > b->best.sum))
        b->best = got;
}

static void deal(brute *b, int *group_of, int *sizes, int unit, int group_count, int left)
{
    if (unit == b->n) {
        for (int g = 0; g < group_count; g++)
            if (sizes[g] != b->k)
                return;
        judge(b, group_of, group_count);
        return;
    }
    for (int g = 0; g < group_count; g++) {
        if (sizes[g] < b->k) {
            group_of[unit] = g;
            sizes[g]++;
            deal(b, group_of, sizes, unit + 1, group_count, left);
            sizes[g]--;
        }
        if (sizes[g] == 0) /* groups are begun in order, so that each partition comes once */
            break;
    }
    if (left > 0) {
        group_of[unit] = -1;
        deal(b, group_of, sizes, unit + 1, group_count, left - 1);
    }
}

brute_answer brute_force(const int *value, int n, int k, int group_count)
{
    int group_of[10], sizes[10] = { 0 };
    brute b = { .value = value, .n = n, .k = k, .best = { -1, -1, 0 } };
    deal(&b, group_of, sizes, 0, group_count, n - k * group_count);
    return b.best;
}
