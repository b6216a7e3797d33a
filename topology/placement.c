/* topology/placement.c - a placement that was found: its life, and what can be asked of it.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "place.h"

#include "core/base/error.h"
#include "core/base/mem.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void kith_placement_destroy(kith_placement *p)
{
    if (p == NULL)
        return;
    for (int a = 0; a < KI_AXES; a++) {
        if (p->axes[a].groups != p->gpus)
            ki_free(NULL, (void *)(uintptr_t)p->axes[a].groups);
        if (p->axes[a].rings != p->gpus)
            ki_free(NULL, (void *)(uintptr_t)p->axes[a].rings);
    }
    for (int i = 0; i < p->note_count; i++)
        free(p->notes[i].text);
    free(p->notes);
    ki_free(NULL, p->leftover);
    ki_free(NULL, p->gpus);
    ki_free(NULL, p);
}

int kith_placement_rank_count(const kith_placement *p)
{
    return p != NULL ? p->rank_count : 0;
}

int kith_placement_gpu(const kith_placement *p, int rank)
{
    return p != NULL && rank >= 0 && rank < p->rank_count ? p->gpus[rank] : -1;
}

const kith_axis_report *kith_placement_axis(const kith_placement *p, const char *name)
{
    for (int a = 0; p != NULL && name != NULL && a < KI_AXES; a++)
        if (strcmp(name, ki_axis_names[a]) == 0)
            return &p->axes[a];
    return NULL;
}

const char *kith_placement_order(const kith_placement *p)
{
    return p != NULL ? p->sizes.text : NULL;
}

int kith_placement_leftover_count(const kith_placement *p)
{
    return p != NULL ? p->leftover_count : 0;
}

int kith_placement_leftover(const kith_placement *p, int index)
{
    return p != NULL && index >= 0 && index < p->leftover_count ? p->leftover[index] : -1;
}

double kith_placement_cost(const kith_placement *p)
{
    return p != NULL ? p->cost : 0;
}

double kith_placement_identity_cost(const kith_placement *p)
{
    return p != NULL ? p->identity_cost : 0;
}

double kith_placement_lower_bound(const kith_placement *p)
{
    return p != NULL ? p->lower_bound : 0;
}

kith_status ki_placement_check_topology(const kith_placement *p, const kith_topology *t, const char *what)
{
    if (p->topology == t)
        return KITH_OK;
    return ki_fail_quiet(KITH_ERR_INVALID_ARG, "%s: the placement was found on another topology; valid: that one",
                         what);
}

/* ---- notes ---- */

static char *format_list(const char *format, va_list list)
{
    va_list again;
    va_copy(again, list);
    int length = vsnprintf(NULL, 0, format, list);
    char *text = length < 0 ? NULL : (char *)malloc((size_t)length + 1);
    if (text != NULL)
        vsnprintf(text, (size_t)length + 1, format, again);
    va_end(again);
    return text;
}

void ki_placement_note(kith_placement *p, bool is_warning, const char *format, ...)
{
    if (p->note_count == p->note_room) {
        int room = p->note_room == 0 ? 8 : 2 * p->note_room;
        ki_note *notes = (ki_note *)realloc(p->notes, (size_t)room * sizeof *notes);
        if (notes == NULL) {
            p->status = ki_fail(KITH_ERR_NO_MEMORY, "placement: no memory for a note");
            return;
        }
        p->notes = notes;
        p->note_room = room;
    }
    va_list list;
    va_start(list, format);
    char *text = format_list(format, list);
    va_end(list);
    if (text == NULL)
        p->status = ki_fail(KITH_ERR_NO_MEMORY, "placement: no memory for a note");
    else
        p->notes[p->note_count++] = (ki_note){ text, is_warning };
}

int kith_placement_note_count(const kith_placement *p)
{
    return p != NULL ? p->note_count : 0;
}

const char *kith_placement_note(const kith_placement *p, int index)
{
    return p != NULL && index >= 0 && index < p->note_count ? p->notes[index].text : NULL;
}

bool kith_placement_note_is_warning(const kith_placement *p, int index)
{
    return p != NULL && index >= 0 && index < p->note_count && p->notes[index].is_warning;
}

/* ---- the order of a mesh ---- */

/* Pairs of numbers: a GPU, and the rank that was launched on it. */
static int compare_launched(const void *a, const void *b)
{
    const int *x = (const int *)a, *y = (const int *)b;
    return x[0] != y[0] ? (x[0] > y[0]) - (x[0] < y[0]) : (x[1] > y[1]) - (x[1] < y[1]);
}

/* Pairs in ascending order of GPUs. */
static kith_status sort_launched(const kith_placement *p, const int *launched_gpu, int *pairs)
{
    for (int r = 0; r < p->rank_count; r++) {
        pairs[2 * (size_t)r] = launched_gpu != NULL ? launched_gpu[r] : p->gpus[r];
        pairs[2 * (size_t)r + 1] = r;
    }
    qsort(pairs, (size_t)p->rank_count, 2 * sizeof *pairs, compare_launched); /* sorts in place without memory, too */
    for (int r = 0; launched_gpu == NULL && r < p->rank_count; r++)
        pairs[2 * (size_t)r + 1] = r;
    for (int r = 1; r < p->rank_count; r++) {
        const int *here = pairs + 2 * (size_t)r, *before = here - 2;
        if (here[0] == before[0])
            return ki_fail_quiet(KITH_ERR_INVALID_ARG, "placement: ranks %d and %d were both launched on GPU %d",
                                 before[1], here[1], here[0]);
    }
    return KITH_OK;
}

/* The rank that was launched on a GPU; -1: none. */
static int find_rank(const int *pairs, int count, int gpu)
{
    int low = 0, high = count;
    while (low < high) { /* the first that is not below */
        int middle = low + (high - low) / 2;
        if (pairs[2 * (size_t)middle] < gpu)
            low = middle + 1;
        else
            high = middle;
    }
    return low < count && pairs[2 * (size_t)low] == gpu ? pairs[2 * (size_t)low + 1] : -1;
}

kith_status ki_placement_mesh_order(const kith_placement *p, const int *launched_gpu, int *order, int *scratch)
{
    kith_status status = sort_launched(p, launched_gpu, scratch);
    for (int i = 0; status == KITH_OK && i < p->rank_count; i++) {
        order[i] = find_rank(scratch, p->rank_count, p->gpus[i]);
        if (order[i] < 0)
            return ki_fail_quiet(KITH_ERR_INVALID_ARG,
                                 "placement: no rank was launched on GPU %d, which mesh position %d needs", p->gpus[i],
                                 i);
    }
    return status;
}

kith_status kith_placement_mesh_order(const kith_placement *p, const int *launched_gpu, int *order)
{
    if (p == NULL || order == NULL)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "kith_placement_mesh_order: the placement or the order is NULL");
    size_t count = (size_t)p->rank_count;
    int *found = (int *)ki_calloc(NULL, count, 3 * sizeof *found);
    if (found == NULL)
        return KITH_ERR_NO_MEMORY;
    kith_status status = ki_placement_mesh_order(p, launched_gpu, found, found + count);
    if (status == KITH_OK)
        memcpy(order, found, count * sizeof *order);
    ki_free(NULL, found);
    return status;
}
