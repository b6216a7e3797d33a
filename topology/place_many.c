/* topology/place_many.c - partition of more units than can be tried exactly: a start, then swaps of pairs.
 *
 * The start is the better of the order of the numbers and of groups that grow around their lowest unit. Two units of
 * different groups (or one that is left over) change places as long as that widens the worst link or, failing that,
 * enlarges the sum. A bound from each unit's widest links tells what no partition can beat; on machines of this size
 * all links are mostly equal, then the start reaches the bound at once.
 *
 * During the search the worst link of a group is taken as the narrowest of its members' second-widest links inside it
 * (a ring needs two at every member): cheap, and never below the true ring. The result is measured with real rings.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "place.h"

#include "core/base/error.h"
#include "core/base/mem.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_STEPS = 20 * 1000 * 1000 }; /* of comparing links: less than a tenth of a second */

typedef struct score {
    int64_t last; /* units that are used last, and are used */
    int worst;
    int64_t sum;
} score;

typedef struct search {
    const ki_partition_problem *p;
    int n, k, used;
    int *units; /* [n]: groups one after another, then what is left over */
    score *of_group;
    int64_t steps;
} search;

static bool is_better(score a, score b)
{
    if (a.last != b.last)
        return a.last < b.last;
    return a.worst != b.worst ? a.worst > b.worst : a.sum > b.sum;
}

/* ---- scores ---- */

static score score_group(search *s, const int *units)
{
    score got = { 0, INT_MAX, 0 };
    for (int i = 0; i < s->k; i++) {
        const int *row = s->p->value + (size_t)units[i] * (size_t)s->n;
        int widest = -1, second = -1;
        for (int j = 0; j < s->k; j++) {
            if (j == i)
                continue;
            int value = row[units[j]];
            got.sum += j > i ? value : 0;
            second = value > widest ? widest : value > second ? value : second;
            widest = value > widest ? value : widest;
        }
        int needed = s->k > 2 ? second : widest;
        if (s->k > 1 && needed < got.worst)
            got.worst = needed;
        got.last += s->p->is_last != NULL && s->p->is_last[units[i]];
    }
    s->steps += (int64_t)s->k * s->k;
    return got;
}

static score add_scores(score a, score b)
{
    return (score){ a.last + b.last, a.worst < b.worst ? a.worst : b.worst, a.sum + b.sum };
}

static score score_all(search *s)
{
    score all = { 0, INT_MAX, 0 };
    for (int g = 0; g < s->p->group_count; g++) {
        s->of_group[g] = score_group(s, s->units + g * s->k);
        all = add_scores(all, s->of_group[g]);
    }
    return all;
}

/* ---- starts ---- */

static void start_by_number(search *s)
{
    int at = 0;
    for (int pass = 0; pass < 2; pass++)
        for (int unit = 0; unit < s->n; unit++)
            if ((s->p->is_last != NULL && s->p->is_last[unit]) == (pass == 1))
                s->units[at++] = unit;
    int compare_used = s->used;
    for (int i = 1; i < compare_used; i++) /* numbers ascend again where units that come last are needed */
        for (int j = i; j > 0 && s->units[j] < s->units[j - 1]; j--) {
            int unit = s->units[j];
            s->units[j] = s->units[j - 1];
            s->units[j - 1] = unit;
        }
}

/* Sorts so that each group grows by the unit that has most to its members. free_from: first position not yet chosen. */
static void grow_groups(search *s, int64_t *pull)
{
    for (int at = 0; at < s->used; at++) {
        if (at % s->k == 0)
            memset(pull, 0, (size_t)s->n * sizeof *pull);
        int best = at;
        for (int i = at + 1; at % s->k != 0 && i < s->used; i++)
            if (pull[s->units[i]] > pull[s->units[best]])
                best = i;
        int unit = s->units[best];
        memmove(s->units + at + 1, s->units + at, (size_t)(best - at) * sizeof(int));
        s->units[at] = unit;
        for (int i = 0; i < s->n; i++)
            pull[i] += s->p->value[(size_t)unit * (size_t)s->n + (size_t)i];
    }
}

/* ---- swaps ---- */

static score without(const search *s, int skip_a, int skip_b)
{
    score all = { 0, INT_MAX, 0 };
    for (int g = 0; g < s->p->group_count; g++)
        if (g != skip_a && g != skip_b)
            all = add_scores(all, s->of_group[g]);
    return all;
}

/* Changes the units at two positions when that is better. */
static bool try_swap(search *s, int i, int j, score rest, score *now)
{
    int a = i / s->k, b = j < s->used ? j / s->k : -1, unit = s->units[i];
    s->units[i] = s->units[j];
    s->units[j] = unit;
    score new_a = score_group(s, s->units + a * s->k), new_b = { 0, INT_MAX, 0 };
    if (b >= 0)
        new_b = score_group(s, s->units + b * s->k);
    score changed = add_scores(rest, add_scores(new_a, new_b));
    if (is_better(changed, *now)) {
        *now = changed;
        s->of_group[a] = new_a;
        if (b >= 0)
            s->of_group[b] = new_b;
        return true;
    }
    s->units[j] = s->units[i];
    s->units[i] = unit;
    return false;
}

static bool swap_between(search *s, int a, int j_from, int j_to, int b, score *now)
{
    bool has_changed = false;
    score rest = without(s, a, b);
    for (int i = a * s->k; i < (a + 1) * s->k; i++)
        for (int j = j_from; j < j_to && s->steps < MOST_STEPS; j++)
            has_changed = try_swap(s, i, j, rest, now) || has_changed;
    return has_changed;
}

static void improve(search *s, score now)
{
    bool has_changed = true;
    while (has_changed && s->steps < MOST_STEPS) {
        has_changed = false;
        for (int a = 0; a < s->p->group_count; a++) {
            for (int b = a + 1; b < s->p->group_count; b++)
                has_changed = swap_between(s, a, b * s->k, (b + 1) * s->k, b, &now) || has_changed;
            has_changed = swap_between(s, a, s->used, s->n, -1, &now) || has_changed;
        }
    }
}

/* ---- the bound ---- */

static int compare_down(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x < y) - (x > y);
}

/* No ring is wider than a member's second-widest link, no sum larger than half of all members' k - 1 widest. */
static void bound(const search *s, int64_t *row, int64_t *needed, int64_t *sums, ki_partition *result)
{
    for (int i = 0; i < s->n; i++) {
        int count = 0;
        for (int j = 0; j < s->n; j++)
            if (j != i)
                row[count++] = s->p->value[(size_t)i * (size_t)s->n + (size_t)j];
        qsort(row, (size_t)count, sizeof *row, compare_down);
        needed[i] = s->k == 1 ? INT_MAX : row[s->k > 2 ? 1 : 0];
        sums[i] = 0;
        for (int j = 0; j < s->k - 1; j++)
            sums[i] += row[j];
    }
    qsort(needed, (size_t)s->n, sizeof *needed, compare_down);
    qsort(sums, (size_t)s->n, sizeof *sums, compare_down);
    result->worst_bound = (int)needed[s->used - 1];
    result->sum_bound = 0;
    for (int i = 0; i < s->used; i++)
        result->sum_bound += sums[i];
    result->sum_bound /= 2;
}

/* ---- the answer ---- */

static int compare_ints(const void *a, const void *b)
{
    int x = *(const int *)a, y = *(const int *)b;
    return (x > y) - (x < y);
}

static void write_groups(search *s, int *groups)
{
    for (int g = 0; g < s->p->group_count; g++)
        qsort(s->units + g * s->k, (size_t)s->k, sizeof(int), compare_ints);
    qsort(s->units, (size_t)s->p->group_count, (size_t)s->k * sizeof(int), compare_ints); /* by the first unit */
    memcpy(groups, s->units, (size_t)s->used * sizeof *groups);
}

/* Worst link of the real rings. scratch: k * k values and k positions. */
static int measure(const search *s, const int *groups, int *scratch)
{
    int worst = INT_MAX;
    for (int g = 0; g < s->p->group_count; g++) {
        for (int i = 0; i < s->k; i++)
            for (int j = 0; j < s->k; j++)
                scratch[i * s->k + j] =
                    s->p->value[(size_t)groups[g * s->k + i] * (size_t)s->n + (size_t)groups[g * s->k + j]];
        int got = ki_ring_order(scratch, s->k, scratch + s->k * s->k);
        worst = got < worst ? got : worst;
    }
    return worst;
}

static int64_t finer_inside(const search *s, const int *groups)
{
    int64_t sum = 0;
    for (int g = 0; s->p->finer != NULL && g < s->p->group_count; g++)
        for (int i = 0; i < s->k; i++)
            for (int j = 0; j < i; j++)
                sum += s->p->finer[(size_t)groups[g * s->k + i] * (size_t)s->n + (size_t)groups[g * s->k + j]];
    return sum;
}

static void run(search *s, int64_t *numbers, int *groups, ki_partition *result)
{
    bound(s, numbers, numbers + s->n, numbers + 2 * (size_t)s->n, result);
    start_by_number(s);
    score best = score_all(s);
    bool is_optimal = best.worst >= result->worst_bound && best.sum >= result->sum_bound;
    if (!is_optimal) {
        int *by_number = groups; /* the caller's array is big enough to remember the start */
        memcpy(by_number, s->units, (size_t)s->used * sizeof(int));
        grow_groups(s, numbers);
        score grown = score_all(s);
        if (!is_better(grown, best))
            memcpy(s->units, by_number, (size_t)s->used * sizeof(int));
        improve(s, score_all(s));
        best = score_all(s);
    }
    result->sum = best.sum;
    write_groups(s, groups);
}

kith_status ki_partition_search(const ki_partition_problem *p, int *groups, ki_partition *result)
{
    search s = { .p = p, .n = p->unit_count, .k = p->group_size, .used = p->group_size * p->group_count };
    size_t n = (size_t)s.n, k = (size_t)s.k;
    s.units = (int *)ki_calloc(NULL, n, sizeof(int));
    s.of_group = (score *)ki_calloc(NULL, (size_t)p->group_count, sizeof(score));
    int64_t *numbers = (int64_t *)ki_calloc(NULL, 3 * n, sizeof *numbers);
    int *scratch = (int *)ki_calloc(NULL, k * (k + 1), sizeof *scratch);
    *result = (ki_partition){ .worst = INT_MAX };
    kith_status status = KITH_ERR_NO_MEMORY;
    if (s.units != NULL && s.of_group != NULL && numbers != NULL && scratch != NULL) {
        run(&s, numbers, groups, result);
        result->worst = measure(&s, groups, scratch);
        result->finer = finer_inside(&s, groups);
        status = result->worst >= 0 ? KITH_OK : KITH_ERR_NO_MEMORY;
    }
    ki_free(NULL, s.units);
    ki_free(NULL, s.of_group);
    ki_free(NULL, numbers);
    ki_free(NULL, scratch);
    return status;
}
