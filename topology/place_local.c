/* topology/place_local.c - in which order ranks take the GPUs of a node.
 *
 * Axis after axis from the innermost outwards: GPUs are partitioned into groups of the first axis, these groups into
 * groups of the next, and so on until a group is a unit. Between groups counts the narrowest of the links between equal
 * positions, which is what a ring of the next axis uses; the order inside groups is place_align.c's.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "place_search.h"

#include "core/base/mem.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum { TP = 0, CP = 1, PP = 4 };

typedef struct work {
    const kith_node_kind *kind;
    int *members; /* [unit_count * unit_size]: positions, unit after unit */
    int unit_count, unit_size;
    int *value, *finer; /* [unit_count squared] */
    unsigned char *is_last;
    int *groups; /* what a partition answers */
    int *next;   /* members, one level up */
    int *given;  /* members before anything was done */
} work;

static int compare_ints(const void *a, const void *b)
{
    int x = *(const int *)a, y = *(const int *)b;
    return (x > y) - (x < y);
}

/* Between two units: narrowest link, smallest finer key of equal positions. */
static void compare_units(const work *w, int a, int b, int *value, int *finer)
{
    *value = *finer = INT_MAX;
    for (int i = 0; i < w->unit_size; i++) {
        int from = w->members[a * w->unit_size + i], to = w->members[b * w->unit_size + i];
        int link = ki_gpu_pair_value(w->kind, from, to), fine = ki_gpu_pair_finer(w->kind, from, to);
        *value = link < *value ? link : *value;
        *finer = fine < *finer ? fine : *finer;
    }
}

static void fill_tables(work *w)
{
    int n = w->unit_count;
    for (int a = 0; a < n; a++) {
        w->value[a * n + a] = w->finer[a * n + a] = 0;
        for (int b = 0; b < a; b++) {
            compare_units(w, a, b, &w->value[a * n + b], &w->finer[a * n + b]);
            w->value[b * n + a] = w->value[a * n + b];
            w->finer[b * n + a] = w->finer[a * n + b];
        }
        w->is_last[a] = 0;
        for (int i = 0; i < w->unit_size; i++)
            w->is_last[a] |= w->kind->gpus[w->members[a * w->unit_size + i]].is_mig;
    }
}

/* Units become groups of `size` units along an axis. */
static kith_status climb(work *w, int axis, int size, int count, ki_partition *result)
{
    ki_align_units(w->kind, w->members, w->unit_count, w->unit_size);
    fill_tables(w);
    ki_partition_problem problem = { w->unit_count, size, count, w->value, w->finer, KI_VALUE_OF_NVLINK, w->is_last };
    kith_status status = ki_partition_solve(&problem, w->groups, result);
    if (status == KITH_OK && size > 2 && (axis == CP || axis == PP))
        status = ki_order_neighbours(w->value, w->unit_count, axis == PP, w->groups, size, count);
    if (status != KITH_OK)
        return status;
    for (int i = 0; i < size * count; i++)
        memcpy(w->next + i * w->unit_size, w->members + w->groups[i] * w->unit_size,
               (size_t)w->unit_size * sizeof(int));
    w->unit_count = count;
    w->unit_size *= size;
    memcpy(w->members, w->next, (size_t)(w->unit_count * w->unit_size) * sizeof(int));
    return KITH_OK;
}

static kith_status arrange(work *w, const ki_sizes *sizes, int unit, ki_local *local)
{
    int total = local->unit_count * unit;
    kith_status status = KITH_OK;
    for (int i = 0; status == KITH_OK && i < KI_AXES && w->unit_size < unit; i++) {
        int size = sizes->size[sizes->order[i]];
        if (size == 1)
            continue;
        size = size < unit / w->unit_size ? size : unit / w->unit_size; /* an axis that goes on in other islands */
        ki_partition result;
        status = climb(w, sizes->order[i], size, total / (w->unit_size * size), &result);
        if (status == KITH_OK && !local->has_first) {
            local->first = result;
            local->has_first = true;
        }
    }
    if (status == KITH_OK && !local->has_first) /* units of one GPU: which of them, if not all */
        status = climb(w, TP, 1, total, &local->first);
    return status;
}

/* The others behind those that ranks take, in the order in which they came; MIG parents are last in it already. */
static void append_rest(ki_local *local, const int *all, int count)
{
    int used = local->gpu_count, at = used;
    for (int i = 0; i < count; i++) {
        int taken = 0;
        while (taken < used && local->gpus[taken] != all[i])
            taken++;
        if (taken == used)
            local->gpus[at++] = all[i];
    }
}

kith_status ki_local_make(const ki_islands *islands, const ki_sizes *sizes, int kind, int unit, bool is_canonical,
                          ki_local *local)
{
    int n = islands->usable_count[kind];
    *local = (ki_local){ .unit_count = n / unit };
    int needed = (int)((sizes->world + (int64_t)unit - 1) / unit);
    local->unit_count = local->unit_count < needed ? local->unit_count : needed;
    size_t count = (size_t)n;
    work w = { .kind = kith_topology_kind(islands->t, kind), .unit_count = n, .unit_size = 1 };
    local->gpus = w.members = (int *)ki_calloc(NULL, count, sizeof(int));
    w.value = (int *)ki_calloc(NULL, 2 * count * count + 3 * count, sizeof(int));
    w.is_last = (unsigned char *)ki_calloc(NULL, count, 1);
    kith_status status = KITH_ERR_NO_MEMORY;
    if (w.members != NULL && w.value != NULL && w.is_last != NULL) {
        w.finer = w.value + count * count;
        w.groups = w.finer + count * count;
        w.next = w.groups + count;
        w.given = w.next + count;
        memcpy(w.members, islands->usable[kind], count * sizeof(int));
        qsort(w.members, count, sizeof(int), compare_ints);
        if (is_canonical)
            ki_canonical_order(w.kind, w.members, n);
        memcpy(w.given, w.members, count * sizeof(int));
        local->gpu_count = local->unit_count * unit;
        status = local->unit_count > 0 ? arrange(&w, sizes, unit, local) : KITH_OK;
        append_rest(local, w.given, n);
    }
    ki_free(NULL, w.value);
    ki_free(NULL, w.is_last);
    if (status != KITH_OK)
        ki_local_fini(local);
    return status;
}

void ki_local_fini(ki_local *local)
{
    ki_free(NULL, local->gpus);
    *local = (ki_local){ .gpus = NULL };
}
