/* topology/matrix_affinity.c - CPUs and NUMA nodes of all GPUs, where rows have lost blanks.
 *
 * "56-111,168-2231N/A" is 56-111,168-223 and NUMA node 1, or CPUs up to 2231 without a NUMA node, or CPU 5 and NUMA
 * nodes 6-111,... (matrix_tail.c lists them). Rows decide together. A set of readings (one for each row) fits when
 * rows of one NUMA node have the same CPUs and rows of different NUMA nodes have no CPU in common. It is certain when
 * it is the only one that fits and
 * - every row says what a row with all its values says, or
 * - there are several NUMA nodes with equally many CPUs, and together they have all CPUs from 0 on, or
 * - each row has only one reading and must be parted, because its list is none as it stands ("0-1910-1").
 * Everything else is refused: a wrong CPU list would bind ranks to the wrong half of the machine.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "matrix_tail.h"

#include <stdlib.h>
#include <string.h>

enum {
    MOST_GLUED_ROWS = 32, /* that differ from each other */
    MOST_WORK = 1 << 26   /* bytes of lists that are compared */
};

/* What makes a set certain when it is the only one. */
typedef enum rule { RULE_LIKE_OTHERS, RULE_WHOLE_MACHINE, RULE_ONLY_READING, RULE_COUNT, NO_RULE = -1 } rule;

typedef struct search {
    const ki_matrix *m;
    ki_tail *rows; /* [m->gpu_count] */
    int open[MOST_GLUED_ROWS], open_count;
    int picked[MOST_GLUED_ROWS];
    long work;
    int found[RULE_COUNT]; /* sets that fit */
    int best[RULE_COUNT][MOST_GLUED_ROWS];
} search;

static bool agrees(const ki_reading *a, const ki_reading *b)
{
    if (a->numa.at == NULL || b->numa.at == NULL || a->cpus.at == NULL || b->cpus.at == NULL)
        return true;
    return ki_list_is_equal(a->numa, b->numa) ? ki_list_is_equal(a->cpus, b->cpus)
                                              : !ki_list_intersects(a->cpus, b->cpus);
}

static const ki_reading *picked_reading(const search *s, int i)
{
    return &s->rows[s->open[i]].readings[s->picked[i]];
}

static bool agrees_with_all(search *s, int count)
{
    const ki_reading *added = picked_reading(s, count);
    for (int i = 0; i < s->m->gpu_count + count; i++) {
        bool is_sure = i < s->m->gpu_count;
        if (is_sure && s->rows[i].chosen < 0)
            continue;
        const ki_reading *other =
            is_sure ? &s->rows[i].readings[s->rows[i].chosen] : picked_reading(s, i - s->m->gpu_count);
        s->work += (long)(added->cpus.length + other->cpus.length);
        if (s->work > MOST_WORK || !agrees(added, other))
            return false;
    }
    return true;
}

/* Does each row say what a row with all its values says? */
static bool is_like_others(const search *s)
{
    for (int i = 0; i < s->open_count; i++) {
        const ki_reading *mine = picked_reading(s, i);
        bool is_found = false;
        for (int j = 0; j < s->m->gpu_count && !is_found; j++) {
            const ki_tail *other = &s->rows[j];
            is_found = other->chosen >= 0 && ki_list_is_equal(mine->cpus, other->readings[other->chosen].cpus) &&
                       ki_list_is_equal(mine->numa, other->readings[other->chosen].numa);
        }
        if (!is_found)
            return false;
    }
    return true;
}

/* Adds one NUMA node of the machine; false when it is not one, or has another number of CPUs than those before. */
static bool add_node(const ki_reading *added, int *count, int *total, int *last)
{
    if (added->numa.at == NULL || added->cpus.at == NULL || memchr(added->numa.at, '-', added->numa.length) != NULL)
        return false;
    int here = ki_list_count(added->cpus, last);
    if (*count > 0 && here != *count)
        return false;
    *count = here;
    *total += here;
    return true;
}

/* Have the NUMA nodes equally many CPUs, and together all from 0 on? They have none in common (agrees_with_all()). */
static bool is_whole_machine(const search *s)
{
    int count = 0, total = 0, last = -1;
    const ki_reading *seen[KI_MAX_GPUS + MOST_GLUED_ROWS];
    int seen_count = 0;
    for (int i = 0; i < s->m->gpu_count + s->open_count; i++) {
        bool is_sure = i < s->m->gpu_count;
        if (is_sure && s->rows[i].chosen < 0)
            continue;
        const ki_reading *here =
            is_sure ? &s->rows[i].readings[s->rows[i].chosen] : picked_reading(s, i - s->m->gpu_count);
        int j = 0;
        while (j < seen_count && !ki_list_is_equal(seen[j]->numa, here->numa))
            j++;
        if (j < seen_count)
            continue;
        seen[seen_count++] = here;
        if (!add_node(here, &count, &total, &last))
            return false;
    }
    return seen_count > 1 && total == last + 1;
}

static void note_found(search *s, rule which)
{
    if (s->found[which]++ == 0)
        memcpy(s->best[which], s->picked, sizeof s->picked);
}

static void pick(search *s, int at)
{
    if (at == s->open_count) {
        if (is_like_others(s))
            note_found(s, RULE_LIKE_OTHERS);
        if (is_whole_machine(s))
            note_found(s, RULE_WHOLE_MACHINE);
        note_found(s, RULE_ONLY_READING);
        return;
    }
    for (s->picked[at] = 0; s->picked[at] < s->rows[s->open[at]].reading_count; s->picked[at]++)
        if (agrees_with_all(s, at))
            pick(s, at + 1);
}

/* By which rule one set is certain. */
static rule certain_rule(const search *s)
{
    bool has_choice = false;
    for (int i = 0; i < s->open_count; i++)
        has_choice = has_choice || s->rows[s->open[i]].reading_count > 1 || !s->rows[s->open[i]].must_be_parted;
    if (s->work > MOST_WORK)
        return NO_RULE;
    for (rule which = RULE_LIKE_OTHERS; which <= RULE_WHOLE_MACHINE; which++)
        if (s->found[which] > 0)
            return s->found[which] == 1 ? which : NO_RULE;
    return !has_choice && s->found[RULE_ONLY_READING] == 1 ? RULE_ONLY_READING : NO_RULE;
}

/* Rows that differ from each other and are not certain yet. */
static kith_status list_open_rows(search *s)
{
    const ki_matrix *m = s->m;
    for (int i = 0; i < m->gpu_count; i++) {
        ki_tail *r = &s->rows[i];
        for (int j = 0; j < s->open_count && r->same_as < 0 && r->chosen < 0; j++)
            if (strcmp(m->devices[i].tail, m->devices[s->open[j]].tail) == 0)
                r->same_as = s->open[j];
        if (r->chosen >= 0 || r->same_as >= 0)
            continue;
        if (s->open_count == MOST_GLUED_ROWS)
            return ki_matrix_refuse(m, m->devices[i].line, "more than %d different rows have lost blanks",
                                    MOST_GLUED_ROWS);
        s->open[s->open_count++] = i;
    }
    return KITH_OK;
}

static void take_picked(ki_matrix *m, search *s, rule which)
{
    for (int i = 0; i < s->open_count; i++)
        s->rows[s->open[i]].chosen = s->best[which][i];
    for (int i = 0; i < m->gpu_count; i++)
        if (s->rows[i].same_as >= 0)
            s->rows[i] = s->rows[s->rows[i].same_as];
    m->affinity_line = m->text.lines[m->devices[s->open[0]].line].number;
}

static kith_status decide(ki_matrix *m, search *s)
{
    kith_status status = list_open_rows(s);
    if (status != KITH_OK || s->open_count == 0)
        return status;
    pick(s, 0);
    rule which = certain_rule(s);
    if (which == NO_RULE) {
        const ki_matrix_device *device = &m->devices[s->open[0]];
        return ki_matrix_refuse(m, device->line,
                                "the row of GPU%d ends in '%.40s': where the CPU list ends and the NUMA "
                                "node begins cannot be told",
                                device->number, ki_skip_blanks(device->tail));
    }
    take_picked(m, s, which);
    return KITH_OK;
}

kith_status ki_matrix_read_affinities(ki_matrix *m)
{
    search s = { .m = m, .rows = (ki_tail *)calloc((size_t)m->gpu_count, sizeof(ki_tail)) };
    if (s.rows == NULL)
        return ki_fail(KITH_ERR_NO_MEMORY, "%s: no memory for the rows of GPUs", m->source->name);
    kith_status status = KITH_OK;
    for (int i = 0; i < m->gpu_count && status == KITH_OK; i++)
        status = ki_matrix_read_tail(m, i, &s.rows[i]);
    if (status == KITH_OK)
        status = decide(m, &s);
    for (int i = 0; i < m->gpu_count && status == KITH_OK; i++) {
        const ki_reading *chosen = &s.rows[i].readings[s.rows[i].chosen];
        m->has_blank_numas = m->has_blank_numas || s.rows[i].is_without_numa;
        m->devices[i].cpus = chosen->cpus;
        m->devices[i].numa = chosen->numa;
        m->devices[i].memory_numa = chosen->memory_numa;
    }
    free(s.rows);
    return status;
}
