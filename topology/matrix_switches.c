/* topology/matrix_switches.c - PCI switches out of classes.
 *
 * Devices that are PIX to each other hang on one switch, or are functions of one card: either way they share one link
 * upwards, which is what costs need to know. Sets that are joined by PXB have another switch above them. Classes are
 * relations that must be transitive for that: when A and B are PIX, and B and C, then A and C must be PIX as well.
 * Pairs of GPUs with NVLink hide their PCI class, so they neither join nor contradict. A set that contradicts itself
 * tells nothing and gets no switch.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "matrix.h"

#include <stdlib.h>

typedef struct sets {
    const ki_matrix *m;
    int count;
    unsigned char *nearness;        /* [count * count]: kith_link_type; unknown: hidden */
    int *near, *wide;               /* the first device of the set that each device is in, by PIX and by PXB */
    int *near_switch, *wide_switch; /* switch of the set that begins with this device; -1: none */
} sets;

static kith_link_type class_of(const sets *s, int a, int b)
{
    kith_link_type type = (kith_link_type)s->nearness[(size_t)a * (size_t)s->count + (size_t)b];
    return type > KITH_LINK_BOARD ? KITH_LINK_UNKNOWN : type;
}

/* Sets of what hangs together by the class `least` or nearer. Each is named by its first device. */
static void gather(const sets *s, kith_link_type least, int *first)
{
    for (int i = 0; i < s->count; i++)
        first[i] = -1;
    int *queue = s->near_switch; /* not in use yet */
    for (int i = 0; i < s->count; i++) {
        if (first[i] >= 0)
            continue;
        int waiting = 0;
        first[i] = i;
        queue[waiting++] = i;
        while (waiting > 0) {
            int here = queue[--waiting];
            for (int j = 0; j < s->count; j++)
                if (first[j] < 0 && class_of(s, here, j) >= least) {
                    first[j] = i;
                    queue[waiting++] = j;
                }
        }
    }
}

/* Has the set of `leader` more than one device, and no pair further apart than `least`? */
static bool is_sound(const sets *s, const int *first, int leader, kith_link_type least)
{
    int count = 0;
    for (int i = leader; i < s->count; i++) {
        if (first[i] != leader)
            continue;
        count++;
        for (int j = leader; j < i; j++) {
            kith_link_type type = first[j] == leader ? class_of(s, i, j) : KITH_LINK_UNKNOWN;
            if (type != KITH_LINK_UNKNOWN && type < least)
                return false;
        }
    }
    return count > 1;
}

static int *pci_switch_of(ki_kind *kind, int device)
{
    if (device < kind->view.gpu_count)
        return &((kith_gpu *)(uintptr_t)kind->view.gpus)[device].pci_switch;
    return &((kith_nic *)(uintptr_t)kind->view.nics)[device - kind->view.gpu_count].pci_switch;
}

static int add_switch(const sets *s, ki_kind *kind, int parent)
{
    ki_kind_add_switch(s->m->t, kind)->parent = parent;
    return kind->view.switch_count - 1;
}

static bool is_one_near_set(const sets *s, int leader)
{
    for (int i = leader; i < s->count; i++)
        if (s->wide[i] == leader && s->near[i] != leader)
            return false;
    return true;
}

/* Upper switches first: parents come before children. */
static void add_switches(sets *s, ki_kind *kind)
{
    for (int i = 0; i < s->count; i++) {
        bool is_wide = s->wide[i] == i && !is_one_near_set(s, i) && is_sound(s, s->wide, i, KITH_LINK_PXB);
        s->wide_switch[i] = is_wide ? add_switch(s, kind, -1) : -1;
    }
    for (int i = 0; i < s->count; i++) {
        bool is_near = s->near[i] == i && is_sound(s, s->near, i, KITH_LINK_PIX);
        s->near_switch[i] = is_near ? add_switch(s, kind, s->wide_switch[s->wide[i]]) : -1;
    }
    for (int i = 0; i < s->count; i++) {
        int near = s->near_switch[s->near[i]];
        *pci_switch_of(kind, i) = near >= 0 ? near : s->wide_switch[s->wide[i]];
    }
}

kith_status ki_matrix_derive_switches(const ki_matrix *m, ki_kind *kind)
{
    size_t n = (size_t)m->device_count;
    sets s = { .m = m, .count = m->device_count };
    s.nearness = (unsigned char *)malloc(n * n);
    s.near = (int *)calloc(4 * n, sizeof *s.near);
    kith_status status = KITH_OK;
    if (s.nearness == NULL || s.near == NULL)
        status = ki_fail(KITH_ERR_NO_MEMORY, "%s: no memory for PCI switches", m->source->name);
    else {
        s.wide = s.near + n;
        s.near_switch = s.wide + n;
        s.wide_switch = s.near_switch + n;
        for (size_t i = 0; i < n * n; i++)
            s.nearness[i] = ki_matrix_relation(m, (int)(i / n), (int)(i % n)).type;
        gather(&s, KITH_LINK_PIX, s.near);
        gather(&s, KITH_LINK_PXB, s.wide);
        add_switches(&s, kind);
    }
    free(s.nearness);
    free(s.near);
    return status;
}
