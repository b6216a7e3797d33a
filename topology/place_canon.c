/* topology/place_canon.c - what a GPU is, apart from its number.
 *
 * The search for a placement breaks ties by position and stops at the first good answer, so it would find different
 * costs when the same machine numbers its GPUs differently. Here GPUs are put into an order that follows from the
 * machine alone: each gets a colour out of its own values, then again and again out of its neighbours' colours and the
 * links to them. Where colours stay equal one of the GPUs is singled out, which makes its neighbours differ. Those of
 * one colour can nearly always be exchanged for each other, so it does not matter which is taken; where not, the
 * answer depends on the numbers, but is not wrong.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "place_search.h"

#include "core/base/mem.h"

#include <stdlib.h>
#include <string.h>

static uint64_t mix(uint64_t a, uint64_t b)
{
    uint64_t x = (a ^ (b + 0x9e3779b97f4a7c15u + (a << 6) + (a >> 2))) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 29)) * 0x94d049bb133111ebu;
    return x ^ (x >> 32);
}

static uint64_t bits_of(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static uint64_t link_hash(const kith_link *link)
{
    uint64_t hash = mix((uint64_t)link->type, (uint64_t)(unsigned)link->count);
    return mix(hash, bits_of(link->gbps)) + link->is_switched;
}

/* How many switches a and b are below the one where they meet. */
static uint64_t switch_hash(const kith_node_kind *kind, int a, int b)
{
    uint64_t up = 0, down = 0;
    while (a != b) { /* parents come before children */
        if (a > b) {
            a = kind->switches[a].parent;
            up++;
        } else {
            b = kind->switches[b].parent;
            down++;
        }
    }
    return mix(mix(up, down), a >= 0);
}

static const kith_link *nic_row(const kith_node_kind *kind, int gpu)
{
    return kind->nic_links + (size_t)gpu * (size_t)kind->nic_count;
}

/* The same whatever numbers the NICs have. */
static uint64_t nics_hash(const kith_node_kind *kind, int a, int b)
{
    uint64_t sum = 0;
    for (int nic = 0; nic < kind->nic_count; nic++)
        sum += mix(mix(link_hash(&nic_row(kind, a)[nic]), link_hash(&nic_row(kind, b)[nic])),
                   bits_of(kind->nics[nic].gbps));
    return sum;
}

static uint64_t own_hash(const kith_node_kind *kind, int gpu, bool has_network)
{
    const kith_gpu *g = &kind->gpus[gpu];
    uint64_t hash = mix(bits_of(g->pcie_gbps), (uint64_t)(g->is_mig + 2 * ki_gpu_is_usable(g)));
    hash = mix(hash, switch_hash(kind, g->pci_switch, -1));
    return has_network ? mix(hash, nics_hash(kind, gpu, gpu)) : hash;
}

/* What a is to b. */
static uint64_t pair_hash(const kith_node_kind *kind, int a, int b, bool has_network)
{
    const kith_gpu *x = &kind->gpus[a], *y = &kind->gpus[b];
    bool is_one_numa = x->numa_count > 0 && y->numa_count > 0 && x->numas[0] == y->numas[0];
    uint64_t hash = mix(link_hash(&kind->links[a * kind->gpu_count + b]), is_one_numa);
    hash = mix(hash, (uint64_t)ki_gpu_pair_finer(kind, a, b));
    hash = mix(hash, switch_hash(kind, x->pci_switch, y->pci_switch));
    return has_network ? mix(hash, nics_hash(kind, a, b)) : hash;
}

/* ---- the order ---- */

typedef struct painter {
    const uint64_t *pair; /* [count * count] */
    int count;
    uint64_t color[KI_MOST_CANONICAL];
} painter;

static int count_colors(const painter *p)
{
    int count = 0;
    for (int i = 0; i < p->count; i++) {
        int j = 0;
        while (j < i && p->color[j] != p->color[i])
            j++;
        count += j == i;
    }
    return count;
}

/* Until no GPU is told apart any more. */
static void spread_colors(painter *p)
{
    uint64_t next[KI_MOST_CANONICAL] = { 0 };
    for (int colors = 0, before = -1; colors != before;) {
        for (int i = 0; i < p->count; i++) {
            uint64_t sum = 0;
            for (int j = 0; j < p->count; j++)
                sum += j == i ? 0 : mix(p->color[j], p->pair[i * p->count + j]);
            next[i] = mix(p->color[i], sum);
        }
        memcpy(p->color, next, sizeof p->color);
        before = colors;
        colors = count_colors(p);
    }
}

/* One of those that share the smallest colour; -1: each has its own. */
static int find_shared(const painter *p)
{
    int found = -1;
    for (int i = 0; i < p->count; i++)
        for (int j = 0; j < i; j++)
            if (p->color[i] == p->color[j] && (found < 0 || p->color[j] < p->color[found]))
                found = j;
    return found;
}

typedef struct colored {
    uint64_t color;
    int gpu;
} colored;

static int compare_colored(const void *a, const void *b)
{
    const colored *x = (const colored *)a, *y = (const colored *)b;
    return x->color != y->color ? (x->color > y->color) - (x->color < y->color) : (x->gpu > y->gpu) - (x->gpu < y->gpu);
}

void ki_canonical_order(const kith_node_kind *kind, int *gpus, int count)
{
    enum { SINGLED_OUT = 1 };
    if (count < 2 || count > KI_MOST_CANONICAL)
        return;
    uint64_t *pair = (uint64_t *)ki_calloc(NULL, (size_t)count * (size_t)count, sizeof *pair);
    if (pair == NULL)
        return; /* the order of the numbers does, too */
    painter p = { .pair = pair, .count = count };
    for (int i = 0; i < count; i++) {
        p.color[i] = own_hash(kind, gpus[i], true);
        for (int j = 0; j < count; j++)
            pair[i * count + j] = i == j ? 0 : pair_hash(kind, gpus[i], gpus[j], true);
    }
    spread_colors(&p);
    for (int shared; (shared = find_shared(&p)) >= 0;) {
        p.color[shared] = mix(p.color[shared], SINGLED_OUT);
        spread_colors(&p);
    }
    colored sorted[KI_MOST_CANONICAL];
    for (int i = 0; i < count; i++)
        sorted[i] = (colored){ p.color[i], gpus[i] };
    qsort(sorted, (size_t)count, sizeof sorted[0], compare_colored);
    for (int i = 0; i < count; i++)
        gpus[i] = sorted[i].gpu;
    ki_free(NULL, pair);
}

kith_status ki_twins_find(const kith_node_kind *kind, bool has_network, unsigned char *twins)
{
    size_t n = (size_t)kind->gpu_count;
    uint64_t *pair = (uint64_t *)ki_calloc(NULL, n * n, sizeof *pair);
    if (pair == NULL)
        return KITH_ERR_NO_MEMORY;
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++)
            pair[i * n + j] =
                i == j ? own_hash(kind, (int)i, has_network) : pair_hash(kind, (int)i, (int)j, has_network);
    for (size_t a = 0; a < n; a++)
        for (size_t b = 0; b < n; b++) {
            bool is_twin = pair[a * n + a] == pair[b * n + b] && pair[a * n + b] == pair[b * n + a];
            for (size_t k = 0; k < n && is_twin; k++)
                is_twin =
                    k == a || k == b || (pair[a * n + k] == pair[b * n + k] && pair[k * n + a] == pair[k * n + b]);
            twins[a * n + b] = is_twin;
        }
    ki_free(NULL, pair);
    return KITH_OK;
}
